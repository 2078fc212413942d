//! Processes and their network namespaces.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use rustix::fs::{fstat, stat};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::{Context, Result};

/// Program and first arguments that start this process again, once they are known. Without them, a
/// child would run this program from the beginning, and so would the children of that.
static AGAIN: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the program and the first arguments that start this process again, unless they are set.
pub(crate) fn start_again_by(command: Vec<OsString>) {
    let _ = AGAIN.set(command);
}

/// The command that starts this process again, if it is known.
pub(crate) fn again() -> Option<Command> {
    let (program, arguments) = AGAIN.get()?.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments);
    Some(command)
}

/// First argument of this program if it is to be a guard only.
pub(crate) const GUARD: &str = "--windward-netns-guard";

/// The network namespace of the calling thread.
pub(crate) fn present() -> Result<OwnedFd> {
    let path = "/proc/thread-self/ns/net";
    Ok(File::open(path).context(|| format!("cannot open {path}"))?.into())
}

/// Moves the calling thread into a network namespace permanently.
pub(crate) fn enter(network: BorrowedFd<'_>) -> Result<()> {
    move_into_link_name_space(network, Some(LinkNameSpaceType::Network))
        .context(|| "cannot enter a network namespace")
}

/// True for the guard of a process inside, which ends the programs of that process after its end,
/// and then itself.
fn is_guard(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(GUARD.as_bytes())
}

/// Every process in a namespace, except the calling one and guards: its number and a descriptor, by
/// which a signal reaches no later process of that number.
fn processes_in(network: BorrowedFd<'_>) -> Result<impl Iterator<Item = (Pid, OwnedFd)>> {
    let what = || "cannot look for processes in a network namespace";
    let file = fstat(network).context(what)?;
    let ours = move |path: PathBuf| {
        stat(path.join("ns/net"))
            .is_ok_and(|other| (other.st_dev, other.st_ino) == (file.st_dev, file.st_ino))
    };
    let all = fs::read_dir("/proc").context(what)?;
    Ok(all.flatten().filter_map(move |entry| {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let process = number.and_then(Pid::from_raw).filter(|process| *process != getpid())?;
        if !ours(entry.path()) || is_guard(&entry.path()) {
            return None;
        }
        // Checked again with the descriptor open, since the number may have been reused.
        let held = pidfd_open(process, PidfdFlags::empty()).ok()?;
        ours(entry.path()).then_some((process, held))
    }))
}

/// Kills every process in a namespace, except the calling one and guards, and returns their number.
pub(crate) fn kill_inside(network: BorrowedFd<'_>) -> Result<usize> {
    let mut killed = HashSet::new();
    // Processes that start meanwhile are found by another pass, and so are those that still end.
    for _ in 0..16 {
        let mut is_empty = true;
        for (process, held) in processes_in(network)? {
            if pidfd_send_signal(&held, Signal::KILL).is_ok() {
                killed.insert(process);
                is_empty = false;
            }
        }
        if is_empty {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(5));
    }
    Ok(killed.len())
}

/// Start of a process, in clock ticks since boot (proc(5), field 22 of stat); `None` if there is no
/// such process, or if it is a zombie.
pub(crate) fn started(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field, in parentheses, may contain anything.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    (!["Z", "X"].contains(&state)).then_some(started)
}
