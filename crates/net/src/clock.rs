//! The monotonic clock of the machine as [`Time`].

use std::time::Instant;

use windward_core::units::{Duration, Time};

/// Something that tells the time since it began.
pub trait Clock {
    /// The time now.
    fn now(&self) -> Time;
}

/// The monotonic clock of the machine (CLOCK_MONOTONIC), zero when it was made.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic(Instant);

impl Monotonic {
    /// Begins now.
    #[expect(clippy::disallowed_methods, reason = "emulation goes by the real clock")]
    pub fn start() -> Self {
        Monotonic(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Time {
        // 2^64 ps are 213 days; a clock beyond stands still.
        let ps = self.0.elapsed().as_nanos().saturating_mul(1000);
        Time::ZERO + Duration::from_ps(u64::try_from(ps).unwrap_or(u64::MAX - 1))
    }
}
