//! The bandwidth estimate of TCP Westwood+ (Grieco and Mascolo, Computer Communication Review
//! 34(2), 2004, section 2; Mascolo et al., Performance Evaluation 55, 2004).
//!
//! All packets acknowledged in one RTT give one sample, even if their acknowledgments arrive in
//! bursts; a low-pass filter with constant coefficients smooths the samples:
//!
//! ```text
//! b(k)  =  d(k) / T(k)                           T(k): the last RTT
//! B(k)  =  7/8 B(k-1) + 1/8 b(k)
//! ```
//!
//! As in Linux, an interval is at least 50 ms long, the first sample is not smoothed, and the first
//! acknowledgment only begins the first interval. Linux smooths twice, with the same filter, and
//! uses the smoothed RTT for T; goodput under random losses is the same within 4 %
//! (docs/validation.md).

use crate::endpoint::estimator::BandwidthSample;
use crate::units::{Duration, Time};

/// The shortest interval of a sample (Linux: TCP_WESTWOOD_RTT_MIN).
const SHORTEST: Duration = Duration::from_millis(50);

/// The state of the estimator.
#[derive(Debug, Clone, Default)]
pub struct PerRtt {
    /// The time from which `arrived` counts.
    since: Option<Time>,
    arrived: u64,
    rate: f64,
}

impl PerRtt {
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    pub(super) fn on_ack(&mut self, sample: &BandwidthSample) {
        let Some(since) = self.since else {
            self.since = Some(sample.now);
            return;
        };
        self.arrived += sample.arrived;
        let passed = sample.now.since(since);
        if passed > sample.rtt.max(SHORTEST) {
            let rate = self.arrived as f64 / passed.as_secs_f64();
            self.rate = if self.rate == 0.0 { rate } else { 0.875 * self.rate + 0.125 * rate };
            self.since = Some(sample.now);
            self.arrived = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ms: u64, arrived: u64) -> BandwidthSample {
        let rtt = Duration::from_millis(100);
        BandwidthSample {
            now: Time::ZERO + Duration::from_millis(ms),
            arrived,
            rtt,
            min_rtt: rtt,
            srtt: rtt,
            cwnd: 10.0,
        }
    }

    #[test]
    fn one_sample_a_round_trip_through_the_filter() {
        let mut estimator = PerRtt::default();
        estimator.on_ack(&sample(0, 1));
        for ms in (10..=110).step_by(10) {
            estimator.on_ack(&sample(ms, 1));
        }
        // 11 packets in 110 ms: 100 a second.
        assert!((estimator.rate() - 100.0).abs() < 1e-9);
        for ms in (120..=220).step_by(10) {
            estimator.on_ack(&sample(ms, 3));
        }
        // 33 packets in 110 ms: 300 a second; 7/8 x 100 + 1/8 x 300 = 125.
        assert!((estimator.rate() - 125.0).abs() < 1e-9);
    }

    #[test]
    fn bunched_acknowledgments_do_not_raise_it() {
        let mut estimator = PerRtt::default();
        estimator.on_ack(&sample(0, 1));
        for _ in 0..11 {
            estimator.on_ack(&sample(1, 1)); // Eleven in one millisecond.
        }
        assert_eq!(estimator.rate(), 0.0);
        estimator.on_ack(&sample(120, 1));
        assert!((estimator.rate() - 100.0).abs() < 1e-9); // 12 in 120 ms.
    }
}
