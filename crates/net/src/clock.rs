//! The monotonic clock of the machine as [`Time`].

use std::time::Instant;

use windward_core::units::{Duration, Time};

/// A clock, which tells the time since it began.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Time;
}

/// The monotonic clock of the machine (CLOCK_MONOTONIC).
#[derive(Debug, Clone, Copy)]
pub struct Monotonic {
    began: Instant,
    at: Time,
}

impl Monotonic {
    /// A clock that begins now, at zero.
    pub fn start() -> Self {
        Self::start_at(Time::ZERO)
    }

    /// A clock that begins now, at a given time.
    #[expect(clippy::disallowed_methods, reason = "emulation goes by the real clock")]
    pub fn start_at(at: Time) -> Self {
        Monotonic { began: Instant::now(), at }
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Time {
        // 2^64 ps are 213 days; beyond that the clock stands still.
        let ps = self.began.elapsed().as_nanos().saturating_mul(1000);
        self.at + Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX - 1))
    }
}
