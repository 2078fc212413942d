//! The time of this machine in the core's units, and waiting by it.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, Timespec, clock_gettime};
use thread_priority::unix::{
    RealtimeThreadSchedulePolicy, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use windward_core::units::{Duration, Time};

use crate::error::{Context, Result};

const SECOND: u64 = 1_000_000_000;

/// Time since this was made, by a clock that nobody sets (CLOCK_MONOTONIC).
#[derive(Debug, Clone, Copy)]
pub struct Clock(u64);

impl Clock {
    /// A clock that shows zero.
    pub fn new() -> Self {
        Clock(Self::nanoseconds())
    }

    /// What it shows, to the nanosecond.
    pub fn now(&self) -> Time {
        Time::from_nanos(Self::nanoseconds() - self.0)
    }

    fn nanoseconds() -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        // Counted from boot: never negative.
        now.tv_sec as u64 * SECOND + now.tv_nsec as u64
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Waits until one of `files` can be read (or has an error or an end), but no longer than `timeout`,
/// nor when a signal comes. Says which can.
///
/// # Errors
/// If the kernel has no memory left.
pub fn wait<const N: usize>(
    files: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut files = files.map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN));
    // A span of this clock, rounded up: a little early would mean to wait twice.
    let timeout = timeout
        .map(|timeout| timeout.as_ps().div_ceil(1000))
        .map(|ns| Timespec { tv_sec: (ns / SECOND) as _, tv_nsec: (ns % SECOND) as _ });
    match poll(&mut files, timeout.as_ref()) {
        Ok(_) => Ok(files.map(|file| !file.revents().is_empty())),
        Err(rustix::io::Errno::INTR) => Ok([false; N]),
        Err(error) => Err(error.into()),
    }
}

/// Lets the calling thread run before all usual ones, and wake up to the nanosecond: SCHED_FIFO with
/// priority 50, above which the kernel has its own, and the least timer slack. Under load that
/// decides whether a link keeps its times.
///
/// Threads and children made by this thread from now on are preferred too: make them before. It must
/// sleep now and then: where it needs a CPU for 95 % of a second, the kernel keeps it waiting for
/// 50 ms of that, so that others live (sched(7), /proc/sys/kernel/sched_rt_runtime_us).
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
