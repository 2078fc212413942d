//! The clock that endpoints over real sockets go by.

use rustix::time::{ClockId, clock_gettime};
use windward_core::units::Time;

/// CLOCK_MONOTONIC, which steps of the wall clock do not move, counted from when this was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch_ns: u64,
}

impl Clock {
    /// A clock that shows zero now.
    pub fn start() -> Self {
        Clock { epoch_ns: monotonic_ns() }
    }

    /// The time since the start.
    pub fn now(&self) -> Time {
        Time::from_nanos(monotonic_ns().saturating_sub(self.epoch_ns))
    }
}

fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Neither is negative: the clock counts from a boot.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
