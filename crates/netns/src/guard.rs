//! A process that outlives this one and undoes its changes to the machine.
//!
//! A process that is killed (SIGKILL) cannot clean up. The kernel removes its devices and its
//! tables of nftables, and kills its direct children; programs that these have started, also with
//! `setsid`, would go on, and forwarding would stay on. So the first namespace starts a guard: a
//! child that holds copies of the namespaces and sockets that it is given, and waits for the end of
//! a pipe, which closes with this process in any case. Then it kills every process in those
//! namespaces, restores forwarding, removes the names, and exits. The guard is in a network of its
//! own, so that another guard does not kill it, as with nested shells.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Stdio, exit};
use std::sync::{Mutex, PoisonError};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use windward_core::units::Duration;

use crate::process::{GUARD, again, enter, kill_inside, present};
use crate::real_time::wait;
use crate::sweep::sweep;

/// Longest time to wait for the exit of a process whose pipe has closed.
const EXIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
struct Guard {
    /// Pipe with the commands for the guard, which waits for its end.
    tell: ChildStdin,
    answers: BufReader<ChildStdout>,
    _process: Child,
}

static RUNNING: Mutex<Option<Guard>> = Mutex::new(None);

impl Guard {
    fn start() -> io::Result<Self> {
        let mut process = again()
            .ok_or(io::ErrorKind::Unsupported)?
            .args([GUARD, &std::process::id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Signals for the group of this process, from a terminal or by `kill -- -N`, must not
            // reach it.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let tell = process.stdin.take().ok_or_else(gone)?;
        let answers = BufReader::new(process.stdout.take().ok_or_else(gone)?);
        Ok(Guard { tell, answers, _process: process })
    }

    /// Sends a line and waits until it is done.
    fn ask(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.tell, "{line}")?;
        match self.answers.read_line(&mut String::new())? {
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            _ => Ok(()),
        }
    }
}

/// A descriptor of which the guard has a copy until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold(RawFd);

/// Lets the guard hold a namespace or a socket, and starts the guard if this is the first. Without
/// a guard, the next process sweeps the remains.
pub(crate) fn hold(what: &impl AsFd) -> Option<Hold> {
    let number = what.as_fd().as_raw_fd();
    ask(&format!("+{number}"), true).ok()?;
    Some(Hold(number))
}

impl Drop for Hold {
    fn drop(&mut self) {
        let _ = ask(&format!("-{}", self.0), false);
    }
}

fn ask(line: &str, may_start: bool) -> io::Result<()> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if running.is_none() && may_start {
        *running = Some(Guard::start()?);
    }
    let Some(guard) = &mut *running else { return Ok(()) };
    guard.ask(line)
}

/// Guards a process until it has ended. Does not return.
pub(crate) fn watch(process: Option<u32>) -> ! {
    // The kernel sends SIGHUP to a stopped group whose parent has ended.
    let signals = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT];
    let _ = SigSet::from_iter(signals).thread_block();
    let parent = process.and_then(|number| Pid::from_raw(number.cast_signed()));
    let parent = parent.and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    let mut held: Vec<(RawFd, OwnedFd)> = Vec::new();
    let network = present().ok().filter(|_| unshare(CloneFlags::CLONE_NEWNET).is_ok());
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        match line.split_at_checked(1) {
            Some(("+", number)) => {
                if let Ok(number) = number.parse()
                    && let Some(copy) = copy(process, parent.as_ref().map(AsFd::as_fd), number)
                {
                    held.push((number, copy));
                }
            }
            Some(("-", number)) => {
                if let Ok(number) = number.parse::<RawFd>() {
                    held.retain(|(other, _)| *other != number);
                }
            }
            _ => {}
        }
        let mut out = io::stdout().lock();
        if writeln!(out).and_then(|()| out.flush()).is_err() {
            break;
        }
    }
    // The pipe closes while the process is still exiting, when it would count as alive.
    if let Some(parent) = &parent {
        let _ = wait(parent.as_fd(), EXIT);
    }
    for (_, what) in &held {
        let _ = kill_inside(what.as_fd());
    }
    // Forwarding is restored in the network in which it was switched on.
    if let Some(network) = network {
        let _ = enter(network.as_fd());
    }
    // Rules of nftables are held until forwarding is switched off.
    let _ = sweep();
    drop(held);
    exit(0);
}

/// A copy of a descriptor of the guarded process. If it may not be copied, a namespace can still be
/// opened.
fn copy(process: Option<u32>, parent: Option<BorrowedFd<'_>>, number: RawFd) -> Option<OwnedFd> {
    let taken =
        parent.and_then(|parent| pidfd_getfd(parent, number, PidfdGetfdFlags::empty()).ok());
    let open = || {
        let path = format!("/proc/{}/fd/{number}", process?);
        OpenOptions::new().read(true).open(path).map(File::into).ok()
    };
    taken.or_else(open)
}
