//! Time for which programs in network namespaces were ready to run and had no CPU.
//!
//! The kernel counts for each thread the time that it spent on a run queue (the second number of
//! /proc/PID/task/TID/schedstat). A thread reads it twice a second for all processes of the
//! namespaces; processes that end count up to the last reading.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use windward_core::units::Duration;

use crate::clock::{Clock, Monotonic};

/// A network namespace: device and inode of its file.
pub type NamespaceId = (u64, u64);

/// Time between two readings.
const PERIOD: std::time::Duration = std::time::Duration::from_millis(500);

/// Time for which the programs of the most starved namespace waited for a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waited {
    /// Sum over their threads.
    pub waited: Duration,
    /// Time for which they were watched.
    pub watched: Duration,
}

impl Waited {
    /// Time waited as a share of the time watched; at most 1, even if several threads waited at
    /// once.
    pub fn share(self) -> f64 {
        let watched = self.watched.as_secs_f64();
        if watched > 0.0 { (self.waited.as_secs_f64() / watched).min(1.0) } else { 0.0 }
    }
}

/// A thread that watches the processes of some namespaces.
#[derive(Debug)]
pub struct Watch {
    /// Dropped to end it.
    stop: Sender<()>,
    thread: JoinHandle<Option<Waited>>,
}

impl Watch {
    /// Begins to watch; waiting before this does not count. Call it before a thread gets a higher
    /// priority, which the watching thread would inherit.
    pub fn start(namespaces: Vec<NamespaceId>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let mut readings = Readings::new(namespaces);
        let clock = Monotonic::start();
        readings.read(Path::new("/proc"), true);
        let run = move || {
            let mut ends = false;
            while !ends {
                ends = stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout);
                readings.read(Path::new("/proc"), false);
            }
            let watched = clock.now().since(windward_core::units::Time::ZERO);
            Some(Waited { waited: readings.most()?, watched })
        };
        let thread = thread::Builder::new().name("waits".into()).spawn(run)?;
        Ok(Watch { stop, thread })
    }

    /// Reads once more and ends; to be called while the processes are there. `None` if the kernel
    /// does not count the waiting of threads (CONFIG_SCHED_INFO).
    pub fn finish(self) -> Option<Waited> {
        drop(self.stop);
        self.thread.join().ok().flatten()
    }
}

/// Readings of all threads.
#[derive(Debug)]
struct Readings {
    /// Namespaces, and the time waited in each, ns.
    namespaces: Vec<(NamespaceId, u64)>,
    /// Time that each thread had waited at the last reading, ns.
    last: HashMap<(u32, u32), u64>,
    /// True if the kernel counts the waiting of threads.
    counts: bool,
}

impl Readings {
    fn new(namespaces: Vec<NamespaceId>) -> Self {
        let namespaces = namespaces.into_iter().map(|id| (id, 0)).collect();
        Readings { namespaces, last: HashMap::new(), counts: false }
    }

    /// Reads all threads. Those of the first reading count from then on, later ones from their
    /// beginning.
    fn read(&mut self, proc: &Path, is_first: bool) {
        let own = std::process::id();
        for (process, path) in numbers(proc) {
            let namespace = fs::metadata(path.join("ns/net")).map(|file| (file.dev(), file.ino()));
            let place = |id| self.namespaces.iter().position(|(own, _)| *own == id);
            let Some(place) = namespace.ok().and_then(place).filter(|_| process != own) else {
                continue;
            };
            for (thread, path) in numbers(&path.join("task")) {
                let text = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
                let Some([ran, waited]) = parse(&text) else { continue };
                self.counts |= ran > 0;
                let before = self.last.insert((process, thread), waited);
                let before = before.unwrap_or(if is_first { waited } else { 0 });
                // A thread with the number of one that has ended starts from zero.
                let before = if before > waited { 0 } else { before };
                self.namespaces[place].1 += waited - before;
            }
        }
    }

    /// Time waited in the most starved namespace.
    fn most(&self) -> Option<Duration> {
        let most = self.namespaces.iter().map(|(_, waited)| *waited).max();
        most.filter(|_| self.counts).map(Duration::from_nanos)
    }
}

/// The entries of a folder whose names are numbers.
fn numbers(folder: &Path) -> Vec<(u32, std::path::PathBuf)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.path()))
    };
    entries.flatten().filter_map(number).collect()
}

/// Time on a CPU and time on a run queue, ns (Documentation/scheduler/sched-stats.rst of the
/// kernel).
fn parse(text: &str) -> Option<[u64; 2]> {
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    Some([fields.next()??, fields.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::{Child, Command, Stdio};

    #[test]
    fn threads_count_from_when_they_are_seen() {
        let proc = std::env::temp_dir().join(format!("windward-waits-{}", std::process::id()));
        fs::create_dir_all(&proc).unwrap();
        let (here, there) = (proc.join("here"), proc.join("there"));
        fs::write(&here, "").unwrap();
        fs::write(&there, "").unwrap();
        let id = |path: &Path| fs::metadata(path).map(|file| (file.dev(), file.ino())).unwrap();
        let thread = |process: &str, number: &str, namespace: &Path, text: &str| {
            let task = proc.join(process).join("task").join(number);
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("schedstat"), text).unwrap();
            let ns = proc.join(process).join("ns");
            fs::create_dir_all(&ns).unwrap();
            let _ = symlink(namespace, ns.join("net"));
        };
        let mut readings = Readings::new(vec![id(&here)]);
        assert_eq!(readings.most(), None);
        // Beyond 4,194,304, which is the largest number of a process: none of them is this one.
        thread("8000001", "1", &here, "50 1000 3\n");
        thread("8000002", "1", &there, "50 7000 3\n");
        readings.read(&proc, true);
        assert_eq!(readings.most(), Some(Duration::ZERO));
        // 500 more, and two new threads with 30 and 4.
        thread("8000001", "1", &here, "60 1500 4\n");
        thread("8000001", "2", &here, "60 30 4\n");
        thread("8000003", "1", &here, "60 4 4\n");
        readings.read(&proc, false);
        assert_eq!(readings.most(), Some(Duration::from_nanos(534)));
        // One that has ended stays counted, and another with its number counts from zero.
        fs::remove_dir_all(proc.join("8000003")).unwrap();
        thread("8000001", "2", &here, "1 6 1\n");
        readings.read(&proc, false);
        assert_eq!(readings.most(), Some(Duration::from_nanos(540)));
        fs::remove_dir_all(&proc).unwrap();
    }

    #[test]
    fn a_share_is_of_the_time_watched() {
        let (waited, watched) = (Duration::from_millis(50), Duration::from_secs(1));
        assert_eq!(Waited { waited, watched }.share(), 0.05);
        assert_eq!(Waited { waited: Duration::from_secs(3), watched }.share(), 1.0);
    }

    /// A process that ends with the test.
    struct Running(Child);

    impl Running {
        fn start(words: &[&str]) -> Self {
            let mut command = Command::new(words[0]);
            Running(command.args(&words[1..]).stdin(Stdio::null()).spawn().unwrap())
        }

        /// The namespace that unshare has made for it, as soon as it is there.
        fn namespace(&self) -> NamespaceId {
            let own = fs::metadata("/proc/self/ns/net").unwrap().ino();
            let file = format!("/proc/{}/ns/net", self.0.id());
            let found = (0..500).find_map(|_| {
                thread::sleep(std::time::Duration::from_millis(10));
                fs::metadata(&file).ok().filter(|file| file.ino() != own)
            });
            found.map(|file| (file.dev(), file.ino())).expect("unshare makes a namespace")
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_program_beside_two_busy_ones_waits() {
        let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
        let apart = Command::new("unshare").args(["-n", "true"]).status();
        if !apart.is_ok_and(|status| status.success()) || !has("taskset") {
            println!("skipped: it needs root, unshare and taskset");
            return;
        }
        let busy = ["taskset", "-c", "0", "sh", "-c", "while :; do :; done"];
        let program = Running::start(&[&["unshare", "-n"], &busy[..]].concat());
        let id = program.namespace();
        let others = [Running::start(&busy), Running::start(&busy)];
        let watch = Watch::start(vec![id]).unwrap();
        // A third of one CPU is what it can have at most, however busy the machine is.
        thread::sleep(std::time::Duration::from_secs(2));
        let Some(starved) = watch.finish() else {
            println!("skipped: this kernel does not count");
            return;
        };
        drop(others);
        assert!(starved.share() > 0.3, "{starved:?}");
        // Asleep, it waits for nothing.
        let asleep = Running::start(&["unshare", "-n", "sleep", "60"]);
        let watch = Watch::start(vec![asleep.namespace()]).unwrap();
        thread::sleep(std::time::Duration::from_secs(1));
        let idle = watch.finish().expect("this kernel counts");
        assert!(idle.share() < starved.share() / 2.0, "{idle:?} and {starved:?}");
    }
}
