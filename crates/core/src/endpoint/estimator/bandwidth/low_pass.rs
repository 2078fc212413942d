//! The low-pass filter of the Westwood estimates: a first-order filter with time constant tau,
//! made discrete by the bilinear transform (Tustin), for samples at uneven times (Casetti et
//! al., "TCP Westwood: bandwidth estimation for enhanced transport over wireless links", MobiCom
//! 2001, section 2.2):
//!
//! ```text
//!           2 tau / Dk - 1              b(k) + b(k-1)
//! B(k)  =  ---------------- B(k-1)  +  ----------------      Dk = t(k) - t(k-1)
//!           2 tau / Dk + 1              2 tau / Dk + 1
//! ```
//!
//! The transform needs samples at least every tau/m with m >= 2 (Nyquist). If nothing arrives for
//! that long, a virtual sample of zero is inserted, so that the estimate decays in silence.

use crate::units::Duration;

/// The m of tau/m, the longest time between two samples.
const SAMPLES_PER_TIME_CONSTANT: f64 = 2.0;

/// The filter's state.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LowPass {
    estimate: f64,
    latest: f64,
}

impl LowPass {
    pub(super) fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Adds a sample, `passed` after the previous one.
    pub(super) fn on_sample(&mut self, sample: f64, passed: Duration, tau: Duration) {
        let ratio = 2.0 * tau.as_secs_f64() / passed.as_secs_f64();
        let sum = sample + self.latest;
        self.estimate = ((ratio - 1.0) * self.estimate + sum) / (ratio + 1.0);
        self.latest = sample;
    }

    /// Adds the virtual samples of a silence of `passed`, and returns the time that is left after
    /// the last of them.
    pub(super) fn on_silence(&mut self, passed: Duration, tau: Duration) -> Duration {
        let longest = tau.mul_f64(1.0 / SAMPLES_PER_TIME_CONSTANT);
        let mut rest = passed;
        // The number of samples does not matter once the estimate has decayed.
        while rest > longest && self.estimate > 1e-9 {
            self.on_sample(0.0, longest, tau);
            rest = rest - longest;
        }
        rest.min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn the_bilinear_transform_by_hand() {
        // tau 500 ms, a sample every 200 ms: 2 tau / D = 5.
        let mut filter = LowPass::default();
        filter.on_sample(60.0, MS(200), MS(500));
        assert!((filter.estimate() - 10.0).abs() < 1e-9); // (4 x 0 + 60 + 0) / 6
        filter.on_sample(60.0, MS(200), MS(500));
        assert!((filter.estimate() - 160.0 / 6.0).abs() < 1e-9); // (4 x 10 + 60 + 60) / 6
        for _ in 0..100 {
            filter.on_sample(60.0, MS(200), MS(500));
        }
        assert!((filter.estimate() - 60.0).abs() < 1e-9, "a constant passes");
    }

    #[test]
    fn silence_fades_the_estimate() {
        let mut filter = LowPass { estimate: 100.0, latest: 0.0 };
        // tau / 2 = 250 ms, 2 tau / D = 4: each virtual sample leaves (4 - 1) / (4 + 1).
        assert_eq!(filter.on_silence(MS(600), MS(500)), MS(100));
        assert!((filter.estimate() - 36.0).abs() < 1e-9);
        assert_eq!(filter.on_silence(MS(250), MS(500)), MS(250), "not longer than allowed");
        assert!((filter.estimate() - 36.0).abs() < 1e-9);
        // Hours of silence take no time to compute.
        filter.on_silence(Duration::MAX, MS(500));
        assert!(filter.estimate() < 1e-8);
    }
}
