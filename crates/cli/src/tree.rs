//! The processes that this one has started, directly or not.

/// Use of the machine by the processes below this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Their number.
    pub(crate) processes: usize,
    /// Their resident memory, bytes.
    pub(crate) memory: u64,
}

/// Makes this process the parent of processes below it that lose theirs, on Linux.
pub(crate) fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Ends all processes below this one, which are stopped or not, in its group or not. It takes the
/// status of every child. Elsewhere than on Linux only children that this process knows of end.
pub(crate) fn end() {
    // Half a second at most, for processes that fork faster than they can be ended.
    #[cfg(target_os = "linux")]
    for _ in 0..250 {
        use rustix::process::{Signal, WaitOptions, kill_process, wait};
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let all = linux::below();
        if all.is_empty() {
            return;
        }
        for process in all {
            let _ = kill_process(process.number, Signal::KILL);
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// Returns the use of the machine by the processes below this one; zeros where it is not known.
pub(crate) fn usage() -> Usage {
    #[cfg(target_os = "linux")]
    {
        let all = linux::below();
        let memory = all.iter().map(|process| process.memory).sum();
        Usage { processes: all.len(), memory }
    }
    #[cfg(not(target_os = "linux"))]
    Usage::default()
}

/// Number of tasks of the machine, which tells at little cost that there may be many new processes;
/// zero where it cannot be known.
pub(crate) fn tasks() -> usize {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let tasks = text.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    tasks.and_then(|(_, all)| all.parse().ok()).unwrap_or(0)
}

/// Half of the memory of the machine, and no more than 4 GiB.
pub(crate) fn most_memory() -> u64 {
    const MOST: u64 = 4 << 30;
    #[cfg(target_os = "linux")]
    return linux::memory().map_or(MOST, |memory| MOST.min(memory / 2));
    #[cfg(not(target_os = "linux"))]
    MOST
}

/// True if a process below this one is stopped, as by SIGSTOP.
pub(crate) fn is_stopped() -> bool {
    #[cfg(target_os = "linux")]
    return linux::below().iter().any(|process| process.is_stopped);
    #[cfg(not(target_os = "linux"))]
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::fs;

    use rustix::process::Pid;

    /// A process, from /proc/PID/stat (proc(5)).
    pub(super) struct Process {
        pub(super) number: Pid,
        parent: i32,
        pub(super) is_stopped: bool,
        /// Resident memory, bytes.
        pub(super) memory: u64,
    }

    /// All processes below this one. Those that have ended count until their status is taken.
    pub(super) fn below() -> Vec<Process> {
        let page = rustix::param::page_size() as u64;
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut all: HashMap<i32, Vec<Process>> = HashMap::new();
        for entry in entries {
            let Some(process) = entry.file_name().to_str().and_then(|name| read(name, page)) else {
                continue;
            };
            all.entry(process.parent).or_default().push(process);
        }
        let mut found = all.remove(&std::process::id().cast_signed()).unwrap_or_default();
        let mut next = 0;
        while next < found.len() {
            found.extend(all.remove(&found[next].number.as_raw_pid()).into_iter().flatten());
            next += 1;
        }
        found
    }

    fn read(number: &str, page: u64) -> Option<Process> {
        let raw: i32 = number.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The second field, in parentheses, may contain anything.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        let is_stopped = fields.next()? == "T";
        let parent = fields.next()?.parse().ok()?;
        let pages: u64 = fields.nth(19)?.parse().ok()?;
        Some(Process { number: Pid::from_raw(raw)?, parent, is_stopped, memory: pages * page })
    }

    /// Memory of the machine, bytes.
    pub(super) fn memory() -> Option<u64> {
        let info = fs::read_to_string("/proc/meminfo").ok()?;
        let total = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    }
}
