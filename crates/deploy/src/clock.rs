//! The clocks of the machine, which nothing else of this crate reads.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "deployed endpoints go by the real clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// The time of day, as the time since 1970 in UTC. Zero if the clock is before that.
#[expect(clippy::disallowed_methods, reason = "tickets expire by the time of day")]
pub fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
