//! Random streams: each random element of a run owns one, derived from the seed of the run and
//! the element's name, so that adding an element changes no other.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::units::{Duration, Probability};

/// The random numbers of one element (a channel, a flow's start time, a source, ...).
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of the element `name` of kind `kind` in the run with this seed.
    pub fn new(seed: u64, kind: &str, name: &str) -> Self {
        // FNV-1a over kind, a separator that no name contains, and name.
        let label = kind.bytes().chain([0xff]).chain(name.bytes());
        let hash = label.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Stream(Xoshiro256PlusPlus::seed_from_u64(hash ^ seed.rotate_left(32)))
    }

    /// A uniform number in `[0, 1)` with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// True with probability `p`. Draws nothing if the answer is certain.
    pub fn chance(&mut self, p: Probability) -> bool {
        let p = p.get();
        p > 0.0 && (p >= 1.0 || self.uniform() < p)
    }

    /// A time from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // libm and not std: the same bits on every platform.
        mean.mul_f64(-libm::log(1.0 - self.uniform()))
    }

    /// A number from the standard normal distribution, by two draws (Box and Muller 1958).
    pub fn gaussian(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// A time drawn uniformly from `[low, high]`; `low` without a draw if they are equal.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        if low == high { low } else { low + (high - low).mul_f64(self.uniform()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_kind_and_name() {
        let draw = |seed, kind, name| Stream::new(seed, kind, name).uniform();
        let reference = draw(1, "channel", "a");
        assert_eq!(reference, draw(1, "channel", "a"));
        for other in [draw(2, "channel", "a"), draw(1, "start", "a"), draw(1, "channel", "b")] {
            assert_ne!(reference, other);
        }
        assert_ne!(draw(1, "ab", "c"), draw(1, "a", "bc"));
    }

    #[test]
    fn means_are_right() {
        // Standard error of the mean over n = 100 000 draws: sigma / 316; five of them.
        let n = 100_000;
        let mut s = Stream::new(7, "test", "means");
        let uniform = (0..n).map(|_| s.uniform()).sum::<f64>() / f64::from(n);
        assert!((uniform - 0.5).abs() < 5.0 * (1.0 / 12f64).sqrt() / 316.0, "{uniform}");
        let mean = Duration::from_millis(500);
        let total: f64 = (0..n).map(|_| s.exponential(mean).as_secs_f64()).sum();
        let exponential = total / f64::from(n);
        assert!((exponential - 0.5).abs() < 5.0 * 0.5 / 316.0, "{exponential}");
        // sigma is 1 for the standard normal, and sqrt(2) for its square, whose variance is 2.
        let normal: Vec<f64> = (0..n).map(|_| s.gaussian()).collect();
        let mean = normal.iter().sum::<f64>() / f64::from(n);
        assert!(mean.abs() < 5.0 / 316.0, "{mean}");
        let square = normal.iter().map(|z| z * z).sum::<f64>() / f64::from(n);
        assert!((square - 1.0).abs() < 5.0 * 2f64.sqrt() / 316.0, "{square}");
    }

    #[test]
    fn certainty_is_certain() {
        let mut s = Stream::new(1, "test", "certain");
        assert!((0..1000).all(|_| s.chance(Probability::ONE)));
        assert!((0..1000).all(|_| !s.chance(Probability::ZERO)));
    }
}
