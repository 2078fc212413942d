//! Jitter: a random delay for each packet, beyond that of the link.
//!
//! Jitter is never negative: the delay of the link is the minimum, as on a real path, where jitter
//! comes from waiting. (netem's jitter has both signs: its `delay 20ms 5ms` is a delay of 15 ms and
//! jitter of 10 ms here.)
//!
//! Correlated draws come from a Gaussian process and are transformed to the distribution, so that
//! jitter has the given distribution at any correlation; with netem it gets narrower.
//!
//! ```text
//! z <- c z + sqrt(1 - c^2) n     jitter = F^-1(Phi(z))
//! ```

use crate::rng::Stream;
use crate::units::{Duration, Time};

/// Random delays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JitterConfig {
    /// Their distribution.
    pub distribution: Distribution,
    /// c, the correlation of the Gaussian numbers behind one draw and the next; 0 to less than 1.
    pub correlation: f64,
    /// The time for which a draw holds; zero to draw for each packet.
    pub interval: Duration,
    /// True if a packet waits for the arrival of the one before it, false if packets may overtake.
    pub in_order: bool,
}

/// A distribution of times from zero on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Uniform from zero on.
    Uniform {
        /// The largest value.
        most: Duration,
    },
    /// Normal; negative values become zero.
    Normal {
        /// Its mean.
        mean: Duration,
        /// Its standard deviation.
        deviation: Duration,
    },
    /// Exponential.
    Exponential {
        /// Its mean.
        mean: Duration,
    },
    /// Pareto of type II (Lomax), which begins at zero.
    Pareto {
        /// Its mean.
        mean: Duration,
        /// The exponent of its tail, greater than 1.
        shape: f64,
    },
}

impl JitterConfig {
    /// Uniform from zero to `most`, drawn for each packet, in order.
    pub fn uniform(most: Duration) -> Self {
        JitterConfig {
            distribution: Distribution::Uniform { most },
            correlation: 0.0,
            interval: Duration::ZERO,
            in_order: true,
        }
    }

    pub(super) fn validate(&self) -> Result<(), String> {
        if !(0.0..1.0).contains(&self.correlation) {
            return Err(format!(
                "jitter has the correlation {}, not 0 to below 1",
                self.correlation
            ));
        }
        match self.distribution {
            Distribution::Pareto { shape, .. } if !(shape > 1.0 && shape.is_finite()) => {
                Err(format!("jitter has a tail of the shape {shape}, and needs more than 1"))
            }
            _ => Ok(()),
        }
    }
}

/// The jitter of a link.
#[derive(Debug)]
pub(super) struct Jitter {
    spec: JitterConfig,
    stream: Stream,
    /// The latest Gaussian number, once there is one.
    z: Option<f64>,
    /// The latest draw, and the time until which it holds.
    drawn: Duration,
    until: Time,
}

impl Jitter {
    pub(super) fn new(spec: JitterConfig, stream: Stream) -> Self {
        Jitter { spec, stream, z: None, drawn: Duration::ZERO, until: Time::ZERO }
    }

    pub(super) fn spec(&self) -> &JitterConfig {
        &self.spec
    }

    /// The jitter of a packet that leaves the wire at `now`.
    pub(super) fn next(&mut self, now: Time) -> Duration {
        if now >= self.until {
            self.drawn = self.draw();
            // Intervals are counted from the start, independently of packets.
            if !self.spec.interval.is_zero() {
                self.until = now.floor_to(self.spec.interval) + self.spec.interval;
            }
        }
        self.drawn
    }

    fn draw(&mut self) -> Duration {
        let plain = self.spec.correlation == 0.0;
        match self.spec.distribution {
            Distribution::Normal { mean, deviation } => {
                let z = self.gaussian();
                Duration::from_secs_f64(mean.as_secs_f64() + deviation.as_secs_f64() * z)
            }
            other => {
                let u = if plain { self.stream.uniform() } else { normal_share(self.gaussian()) };
                other.quantile(u)
            }
        }
    }

    /// The next number of the Gaussian process.
    fn gaussian(&mut self) -> f64 {
        let c = self.spec.correlation;
        let n = self.stream.gaussian();
        let z = self.z.map_or(n, |z| c * z + libm::sqrt(1.0 - c * c) * n);
        self.z = Some(z);
        z
    }
}

/// The share of a standard normal distribution below z, less than 1.
fn normal_share(z: f64) -> f64 {
    (0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)).min(1.0 - f64::EPSILON / 2.0)
}

impl Distribution {
    /// The quantile of u, 0 to less than 1. Not for a normal distribution.
    fn quantile(self, u: f64) -> Duration {
        match self {
            Distribution::Uniform { most } => most.mul_f64(u),
            Distribution::Exponential { mean } => mean.mul_f64(-libm::log1p(-u)),
            Distribution::Pareto { mean, shape } => {
                mean.mul_f64((shape - 1.0) * (libm::pow(1.0 - u, -1.0 / shape) - 1.0))
            }
            Distribution::Normal { mean, .. } => mean,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(10);

    fn draws(spec: JitterConfig, n: usize) -> Vec<f64> {
        let mut jitter = Jitter::new(spec, Stream::new(1, "jitter", "test"));
        (0..n).map(|_| jitter.next(Time::ZERO).as_secs_f64() * 1e3).collect()
    }

    fn of(distribution: Distribution, correlation: f64) -> JitterConfig {
        JitterConfig { distribution, correlation, ..JitterConfig::uniform(MEAN) }
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn below(values: &[f64], bound: f64) -> f64 {
        values.iter().filter(|value| **value < bound).count() as f64 / values.len() as f64
    }

    #[test]
    fn distributions_have_their_quantiles() {
        // Five standard errors of a share: 5 sqrt(p (1 - p) / n) is at most 0.0056. Correlated
        // draws count for less: with c = 0.8 for a ninth, (1 - c) / (1 + c), which gives 0.017.
        let n = 200_000;
        for (c, error) in [(0.0, 0.0056), (0.8, 0.017)] {
            let share = |distribution, bound, expected: f64| {
                let found = below(&draws(of(distribution, c), n), bound);
                assert!((found - expected).abs() < error, "{distribution:?}, {c}: {found}");
            };
            share(Distribution::Uniform { most: MEAN }, 3.0, 0.3);
            // 1 - e^-1 and 1 - e^-2.
            share(Distribution::Exponential { mean: MEAN }, 10.0, 0.632_121);
            share(Distribution::Exponential { mean: MEAN }, 20.0, 0.864_665);
            // Lomax with shape 3 and scale (3 - 1) 10 ms: 1 - (1 + 10/20)^-3 = 1 - 8/27, and
            // 1 - (1 + 60/20)^-3 = 1 - 1/64.
            share(Distribution::Pareto { mean: MEAN, shape: 3.0 }, 10.0, 19.0 / 27.0);
            share(Distribution::Pareto { mean: MEAN, shape: 3.0 }, 60.0, 63.0 / 64.0);
            // One standard deviation below the mean 0.158655, one above 0.841345.
            let normal = Distribution::Normal { mean: MEAN, deviation: Duration::from_millis(2) };
            share(normal, 8.0, 0.158_655);
            share(normal, 12.0, 0.841_345);
        }
        let wide = Distribution::Normal { mean: MEAN, deviation: MEAN };
        let zero = below(&draws(of(wide, 0.0), n), 1e-12);
        assert!((zero - 0.158_655).abs() < 0.0056, "what would be negative is zero: {zero}");
    }

    #[test]
    fn draws_are_correlated_as_asked() {
        // With normal jitter the correlation is that of the process.
        let normal = Distribution::Normal { mean: Duration::from_millis(100), deviation: MEAN };
        for c in [0.0, 0.5, 0.9] {
            let values = draws(of(normal, c), 200_000);
            let m = mean(&values);
            let product = |lag: usize| {
                values.iter().zip(&values[lag..]).map(|(a, b)| (a - m) * (b - m)).sum::<f64>()
            };
            let found = product(1) / product(0);
            assert!((found - c).abs() < 0.012, "{c}: {found}");
        }
    }

    #[test]
    fn a_draw_holds_for_its_interval() {
        let spec =
            JitterConfig { interval: Duration::from_millis(4), ..JitterConfig::uniform(MEAN) };
        let mut jitter = Jitter::new(spec, Stream::new(1, "jitter", "test"));
        let mut at = |ms: u64| jitter.next(Time::ZERO + Duration::from_millis(ms));
        let values: Vec<Duration> = [1, 2, 3, 4, 7, 8, 30, 31, 32].map(&mut at).to_vec();
        let changes: Vec<bool> = values.windows(2).map(|pair| pair[0] != pair[1]).collect();
        assert_eq!(changes, [false, false, true, false, true, true, false, true]);
    }

    #[test]
    fn invalid_jitter() {
        let wrong = |spec: JitterConfig| spec.validate().unwrap_err();
        for c in [-0.1, 1.0, f64::NAN] {
            assert!(wrong(of(Distribution::Exponential { mean: MEAN }, c)).contains("correlation"));
        }
        for shape in [1.0, f64::NAN, f64::INFINITY] {
            assert!(wrong(of(Distribution::Pareto { mean: MEAN, shape }, 0.0)).contains("tail"));
        }
    }
}
