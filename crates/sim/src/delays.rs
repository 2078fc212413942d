//! Histogram of delays: counts in buckets of constant relative width.

use serde::{Deserialize, Serialize};
use windward_core::units::Duration;

/// Number of buckets per octave, as a power of two.
const BITS: u32 = 6;
const OCTAVE: u64 = 1 << BITS;

/// One-way delays. Count, mean, minimum and maximum are exact. Quantiles are those of buckets a
/// 64th of their value wide, and thus within 0.8 % of the delay.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Delays {
    count: u64,
    /// Picoseconds.
    sum: u128,
    least: u64,
    greatest: u64,
    buckets: Vec<u64>,
}

impl Delays {
    /// Adds a delay.
    pub(crate) fn add(&mut self, delay: Duration) {
        let ps = delay.as_ps();
        self.least = if self.count == 0 { ps } else { self.least.min(ps) };
        self.greatest = self.greatest.max(ps);
        self.count += 1;
        self.sum += u128::from(ps);
        let bucket = bucket_of(ps);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
    }

    /// Adds all delays of another histogram.
    pub(crate) fn merge(&mut self, other: &Delays) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 { other.least } else { self.least.min(other.least) };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum += other.sum;
        add_all(&mut self.buckets, &other.buckets);
    }

    /// Number of delays.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean; `None` without delays.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        Some(Duration::from_ps(mean as u64))
    }

    /// Minimum; `None` without delays.
    pub fn least(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_ps(self.least))
    }

    /// Maximum; `None` without delays.
    pub fn greatest(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_ps(self.greatest))
    }

    /// Quantile: the delay that this share of them, from 0 to 1, does not exceed; `None` without
    /// delays.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        // Rounding must not lose a rank.
        let rank = ((share * self.count as f64 - 1e-9).ceil() as u64).clamp(1, self.count);
        if rank == 1 {
            return self.least();
        }
        if rank == self.count {
            return self.greatest();
        }
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        let middle = middle_of(bucket as u64);
        Some(Duration::from_ps(middle.clamp(self.least, self.greatest)))
    }
}

/// Adds counts to those at the same places; those that are missing are zero.
pub(crate) fn add_all(sums: &mut Vec<u64>, counts: &[u64]) {
    if sums.len() < counts.len() {
        sums.resize(counts.len(), 0);
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum += count;
    }
}

/// The bucket of a number: itself below two octaves, then by its leading bits.
fn bucket_of(ps: u64) -> usize {
    let shift = (u64::BITS - ps.leading_zeros()).saturating_sub(BITS + 1);
    (u64::from(shift) * OCTAVE + (ps >> shift)) as usize
}

/// The number in the middle of a bucket.
fn middle_of(bucket: u64) -> u64 {
    let shift = (bucket / OCTAVE).saturating_sub(1);
    let first = (bucket - shift * OCTAVE) << shift;
    first + (1_u64 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        let mut last = 0;
        for exponent in 0..64 {
            for offset in [0_u64, 1, 3] {
                let ps = (1_u64 << exponent) + ((1 << exponent) / 4) * offset;
                let bucket = bucket_of(ps);
                assert!(bucket >= last, "{ps}");
                last = bucket;
                let middle = middle_of(bucket as u64);
                assert!(middle.abs_diff(ps) as f64 <= 0.0079 * ps as f64, "{ps} {middle}");
            }
        }
        assert!(bucket_of(u64::MAX) < 4000);
    }

    #[test]
    fn quantiles_of_a_thousand_delays() {
        let mut delays = Delays::default();
        assert_eq!((delays.mean(), delays.quantile(0.5)), (None, None));
        for ms in 1..=1000 {
            delays.add(Duration::from_millis(ms));
        }
        assert_eq!(delays.mean(), Some(Duration::from_micros(500_500)));
        for (share, ms) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let found = delays.quantile(share).unwrap().as_secs_f64() * 1e3;
            assert!((found / ms - 1.0).abs() < 0.008, "{share}: {found}");
        }
        // Ends are exact.
        assert_eq!(delays.quantile(0.0), delays.least());
        assert_eq!(delays.quantile(1.0), delays.greatest());
        assert_eq!(delays.greatest(), Some(Duration::from_secs(1)));
    }
}
