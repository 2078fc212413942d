//! A histogram of durations.

use hdrhistogram::Histogram;
use windward_core::units::Duration;

/// Counts of durations to three significant digits, from a nanosecond to a minute; longer ones
/// count as a minute.
#[derive(Debug, Clone)]
pub struct Durations {
    nanoseconds: Histogram<u64>,
    sum: Duration,
}

impl Default for Durations {
    fn default() -> Self {
        // 200 kB. The bounds are in order.
        let nanoseconds = Histogram::new_with_bounds(1, 60_000_000_000, 3);
        Durations { nanoseconds: nanoseconds.expect("bounds are in order"), sum: Duration::ZERO }
    }
}

impl Durations {
    /// Counts a duration.
    pub fn record(&mut self, duration: Duration) {
        self.nanoseconds.saturating_record(nanoseconds(duration));
        self.sum += duration;
    }

    /// Counts the durations of another histogram too.
    pub fn add(&mut self, other: &Durations) {
        // Both have the same bounds.
        let _ = self.nanoseconds.add(&other.nanoseconds);
        self.sum += other.sum;
    }

    /// Number of durations.
    pub fn count(&self) -> u64 {
        self.nanoseconds.len()
    }

    /// Number of durations that are not longer than `longest`.
    pub fn count_up_to(&self, longest: Duration) -> u64 {
        self.nanoseconds.count_between(0, nanoseconds(longest)).min(self.count())
    }

    /// Sum of the durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The duration that `percent` of a hundred do not exceed.
    pub fn percentile(&self, percent: f64) -> Duration {
        Duration::from_nanos(self.nanoseconds.value_at_percentile(percent))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_ps() / 1000
}
