//! Waiting for files, and real-time scheduling.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::Timespec;
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use windward_core::units::Duration;

use crate::error::{Context, Result};

const SECOND: u64 = 1_000_000_000;

/// Waits until one file is ready, for at most `timeout` or until a signal, as [`Poller::wait`].
pub fn wait(file: BorrowedFd<'_>, timeout: Duration) -> io::Result<()> {
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    match poll(&mut files, Some(&rounded_up(timeout))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A timeout in the units of polling, rounded up: an early return would mean a second wait.
fn rounded_up(timeout: Duration) -> Timespec {
    let ns = timeout.as_ps().div_ceil(1000);
    Timespec { tv_sec: (ns / SECOND) as _, tv_nsec: (ns % SECOND) as _ }
}

/// A set of files to wait for.
pub struct Poller {
    epoll: OwnedFd,
    ready: Vec<Event>,
}

impl Poller {
    /// A poller without files.
    pub fn new() -> Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).context(|| "cannot make an epoll")?;
        Ok(Poller { epoll, ready: Vec::with_capacity(64) })
    }

    /// Adds `file`, identified by `number`: it is ready when it can be read, or has an error or an
    /// end. The file must stay open for as long.
    pub fn add(&self, file: BorrowedFd<'_>, number: u64) -> Result<()> {
        epoll::add(&self.epoll, file, EventData::new_u64(number), EventFlags::IN)
            .context(|| "cannot wait for a file")
    }

    /// Waits until one of them is ready, for at most `timeout` or until a signal. Returns the
    /// numbers of some that are ready.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<impl Iterator<Item = u64>> {
        let timeout = rounded_up(timeout);
        self.ready.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(self.ready.iter().map(|event| event.data.u64()))
    }
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Poller({:?})", self.epoll)
    }
}

/// Makes the calling thread run before ordinary threads, and wake up to the nanosecond: SCHED_FIFO
/// with priority 50, above which the kernel has its own, and the least timer slack. Under load that
/// decides whether a link keeps its times.
///
/// Threads and children made by this thread from now on are preferred too: make them before. It
/// must sleep regularly: if it uses a CPU for 95 % of a second, the kernel suspends it for 50 ms
/// for the benefit of others (sched(7), /proc/sys/kernel/sched_rt_runtime_us).
///
/// # Errors
/// Without CAP_SYS_NICE in the initial user namespace and without a limit RLIMIT_RTPRIO of 50. The
/// timer slack is set nevertheless.
pub fn prefer_this_thread() -> Result<()> {
    let what = || "cannot run a thread in real time";
    set_current_timer_slack(NonZeroU64::new(1)).context(what)?;
    let priority = 50_u8.try_into().map_err(io::Error::other).context(what)?;
    let policy = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let priority = thread_priority::ThreadPriority::Crossplatform(priority);
    set_thread_priority_and_policy(thread_native_id(), priority, policy)
        .map_err(|error| match error {
            thread_priority::Error::OS(code) => io::Error::from_raw_os_error(code),
            other => io::Error::other(format!("{other:?}")),
        })
        .context(what)
        .map_err(|error| error.advise("run as root, or raise the limit: ulimit -r 50"))
}
