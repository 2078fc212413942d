//! Children inside a namespace that end when this process does.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, exit};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;

use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, pidfd_open, pidfd_send_signal,
    set_parent_process_death_signal,
};

use crate::error::{Context, Error, Result};
use crate::guard;
use crate::namespace::Namespace;
use crate::process::{self, GUARD, again};

/// First argument of this program if it is to become another one. The steps between fork and exec
/// would be unsafe code in this process; in a fresh process they are not.
const BECOME: &str = "--windward-netns-become";

/// Lets this process become a child of [`Namespace::spawn`], if it was started as one. Programs
/// that use `spawn`, which starts children through this program, call it before anything else in
/// `main`. In such a child it does not return: the process becomes the program to be started, or
/// writes the reason to standard error and exits with status 127, as shells do. Otherwise it
/// returns at once.
pub fn start_up() {
    start_again_by(["/proc/self/exe"]);
    become_child(std::env::args_os().skip(1));
}

/// Sets the command that starts this process again, for a library in an interpreter, in place of
/// [`start_up`]. Its program must call [`become_child`] with the arguments that follow. Only the
/// first call counts.
pub fn start_again_by<T: Into<OsString>>(command: impl IntoIterator<Item = T>) {
    process::start_again_by(command.into_iter().map(Into::into).collect());
}

/// Becomes a child if these are the arguments of one, as [`start_up`] does. Otherwise it returns.
pub fn become_child(arguments: impl IntoIterator<Item = OsString>) {
    let mut arguments = arguments.into_iter();
    let Some(first) = arguments.next() else { return };
    if first != BECOME && first != GUARD {
        return;
    }
    let parent = arguments.next().and_then(|parent| parent.to_str()?.parse().ok());
    if first == GUARD {
        guard::watch(parent.map(i32::cast_unsigned));
    }
    let Some(program) = arguments.next() else { exit(127) };
    let bound = set_parent_process_death_signal(Some(Signal::KILL));
    if Pid::as_raw(getppid()) != parent.unwrap_or(0) {
        // The parent ended before this process was bound to it.
        exit(127);
    }
    let error = match bound {
        Ok(()) => Command::new(&program).args(arguments).exec(),
        Err(error) => error.into(),
    };
    eprintln!("cannot start {}: {error}", program.display());
    exit(127);
}

/// A child inside a namespace. It is killed when this is dropped and when this process ends for any
/// reason. Processes that the child has started are killed with this process if they are in that
/// namespace.
///
/// Its descriptor, which is not to be read, polls as readable once the child has ended.
#[derive(Debug)]
pub struct Inside {
    process: OwnedFd,
    id: u32,
    ended: Receiver<io::Result<ExitStatus>>,
    status: Option<ExitStatus>,
}

impl Namespace {
    /// Starts `program` inside; `set_up` sets its arguments, environment and standard streams.
    ///
    /// If there is no such program, its status is 127 and its standard error has the reason.
    ///
    /// # Errors
    /// If this program has not called [`start_up`], if threads or processes cannot be made, or if
    /// the child's /etc/resolv.conf cannot be replaced.
    pub fn spawn(
        &self,
        program: impl AsRef<OsStr>,
        set_up: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Result<Inside> {
        let program = program.as_ref();
        let what = format!("cannot start {} inside a network namespace", program.display());
        let mut command = again().ok_or_else(|| {
            Error::new(what.clone(), io::Error::from(io::ErrorKind::Unsupported))
                .advise("call start_up at the beginning of main")
        })?;
        command.args([BECOME, &std::process::id().to_string()]).arg(program);
        set_up(&mut command);
        let namespace = self.again().context(|| what.clone())?;
        let (tell, started) = channel();
        let (tell_end, ended) = channel();
        // For the kernel a child is orphaned when the thread that created it ends. Therefore this
        // thread stays, and waits for it.
        let run = move || {
            let start = || {
                namespace.move_in()?;
                let child = command.spawn().context(|| what.clone())?;
                let process = Pid::from_child(&child);
                Ok((pidfd_open(process, PidfdFlags::empty()).context(|| what)?, child))
            };
            match start() {
                Err(error) => drop(tell.send(Err(error))),
                Ok((process, mut child)) => {
                    // From here on, only the child holds the namespace.
                    drop(namespace);
                    let _ = tell.send(Ok((process, child.id())));
                    let _ = tell_end.send(child.wait());
                }
            }
        };
        let what = || "cannot make a thread for a network namespace";
        thread::Builder::new().name("child".into()).spawn(run).context(what)?;
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let (process, id) = started.recv().map_err(gone).context(what)??;
        Ok(Inside { process, id, ended, status: None })
    }
}

impl Inside {
    /// Its process number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Kills it, if it has not ended.
    ///
    /// # Errors
    /// If the child has other rights than this process.
    pub fn kill(&mut self) -> Result<()> {
        self.send(Signal::KILL)
    }

    /// Sends it SIGTERM, if it has not ended.
    ///
    /// # Errors
    /// If the child has other rights than this process.
    pub fn terminate(&self) -> Result<()> {
        self.send(Signal::TERM)
    }

    fn send(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.process, signal) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => other.context(|| format!("cannot end the process {}", self.id)),
        }
    }

    /// Waits until it ends, and returns its status.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        let what = || format!("cannot wait for the process {}", self.id);
        let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        let status = self.ended.recv().map_err(gone).context(what)?.context(what)?;
        Ok(*self.status.insert(status))
    }

    /// Status with which it ended, if it has ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        let what = || format!("cannot wait for the process {}", self.id);
        match self.ended.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                Err(io::Error::from(io::ErrorKind::BrokenPipe)).context(what)
            }
            Ok(status) => {
                self.status = Some(status.context(what)?);
                Ok(self.status)
            }
        }
    }

    /// Exit code that a shell would return for `status`: 128 plus the signal, if a signal ended the
    /// process.
    pub fn exit_code(status: ExitStatus) -> i32 {
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }
}

impl AsFd for Inside {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.status.is_none() && self.kill().is_ok() {
            let _ = self.wait();
        }
    }
}
