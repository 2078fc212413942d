//! The simulator's time as the `Instant` of stacks, which only the clock can make.

use std::sync::OnceLock;
use std::time::Instant;

use windward_core::units::{Duration, Time};

/// Time zero. Stacks only compare instants and take differences, so that its value does not matter.
#[expect(
    clippy::disallowed_methods,
    reason = "the only way to make an Instant; only distances from it are used"
)]
fn zero() -> Instant {
    static ZERO: OnceLock<Instant> = OnceLock::new();
    *ZERO.get_or_init(Instant::now)
}

/// Picoseconds of a nanosecond, the unit of an [`Instant`].
const NANOSECOND: u64 = 1000;

/// The instant of `time`, whole nanoseconds.
pub(crate) fn instant(time: Time) -> Instant {
    zero() + std::time::Duration::from_nanos(time.as_ps() / NANOSECOND)
}

/// The time of an instant; beyond the largest time it is never.
pub(crate) fn time(instant: Instant) -> Time {
    let nanoseconds = u64::try_from(instant.saturating_duration_since(zero()).as_nanos());
    let ps = nanoseconds.ok().and_then(|nanoseconds| nanoseconds.checked_mul(NANOSECOND));
    ps.map_or(Time::NEVER, Time::from_ps)
}

/// The next time with a different instant.
pub(crate) fn tick(time: Time) -> Time {
    Time::from_ps((time.as_ps() / NANOSECOND + 1).saturating_mul(NANOSECOND))
}

/// Converts a duration.
pub(crate) fn span(span: std::time::Duration) -> Duration {
    let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_ps(nanoseconds.saturating_mul(NANOSECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let at = Time::from_ps(1_234_567_000);
        assert_eq!(time(instant(at)), at);
        // Fractions of a nanosecond are cut off.
        assert_eq!(time(instant(Time::from_ps(1_234_567_999))), at);
        assert_eq!(tick(at), Time::from_ps(1_234_568_000));
        assert_eq!(tick(Time::from_ps(1_234_567_999)), Time::from_ps(1_234_568_000));
        assert_eq!(span(std::time::Duration::from_micros(3)), Duration::from_micros(3));
        let beyond = instant(Time::ZERO) + std::time::Duration::from_secs(30_000_000);
        assert_eq!(time(beyond), Time::NEVER, "after 213 days");
    }
}
