//! BE, the bandwidth estimate of the first TCP Westwood (Casetti, Gerla, Mascolo, Sanadidi and
//! Wang, MobiCom 2001, section 2.2).
//!
//! Each acknowledgment gives a sample, the data it reports as arrived divided by the time since the
//! previous one, and a low-pass filter with tau = 500 ms smooths the samples:
//!
//! ```text
//! b(k)  =  d(k) / (t(k) - t(k-1))
//! B     =  low-pass of b with virtual samples of zero in silence: see `low_pass`
//! ```
//!
//! Packets that a bottleneck sends back to back arrive at its full rate, even if the rate over a
//! whole RTT is low. So BE tends towards the bottleneck's capacity; its authors found that it
//! over-estimates under congestion (tcpwbr2003 section VI), which ERE corrects.
//!
//! Deviation: acknowledgments of one instant give one sample together with the next later one,
//! since a time of zero has no rate.

use super::low_pass::LowPass;
use crate::endpoint::estimator::BandwidthSample;
use crate::units::{Duration, Time};

/// The filter's time constant (section 2.2).
const TAU: Duration = Duration::from_millis(500);

/// The state of the estimator.
#[derive(Debug, Clone, Default)]
pub struct Be {
    filter: LowPass,
    /// The time of the latest sample, and the packets that have arrived since.
    latest: Option<Time>,
    arrived: u64,
}

impl Be {
    pub(super) fn rate(&self) -> f64 {
        self.filter.estimate()
    }

    pub(super) fn on_ack(&mut self, sample: &BandwidthSample) {
        let Some(latest) = self.latest else {
            self.latest = Some(sample.now);
            return;
        };
        self.arrived += sample.arrived;
        let passed = sample.now.since(latest);
        if passed.is_zero() {
            return;
        }
        let passed = self.filter.on_silence(passed, TAU);
        self.filter.on_sample(self.arrived as f64 / passed.as_secs_f64(), passed, TAU);
        self.latest = Some(sample.now);
        self.arrived = 0;
    }

    pub(super) fn on_silence(&mut self, now: Time) {
        if let Some(latest) = &mut self.latest {
            let rest = self.filter.on_silence(now.since(*latest), TAU);
            *latest = Time::from_ps(now.as_ps() - rest.as_ps());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(us: u64, arrived: u64) -> BandwidthSample {
        let rtt = Duration::from_millis(100);
        let now = Time::ZERO + Duration::from_micros(us);
        BandwidthSample { now, arrived, rtt, min_rtt: rtt, srtt: rtt, cwnd: 10.0 }
    }

    #[test]
    fn a_steady_stream_is_its_rate() {
        let mut be = Be::default();
        for i in 0..1000 {
            be.on_ack(&sample(i * 10_000, 1));
        }
        // One each 10 ms, for 20 time constants.
        assert!((be.rate() - 100.0).abs() < 1e-6, "{}", be.rate());
    }

    #[test]
    fn the_first_samples_by_hand() {
        let mut be = Be::default();
        be.on_ack(&sample(0, 1));
        assert_eq!(be.rate(), 0.0, "no time has passed");
        // 2 packets in 200 ms: b = 10; 2 tau / D = 5; (10 + 0) / 6.
        be.on_ack(&sample(200_000, 2));
        assert!((be.rate() - 10.0 / 6.0).abs() < 1e-9);
        // Two at once and one 100 ms later: b = 30; 2 tau / D = 10; (9 x 10/6 + 30 + 10) / 11 = 5.
        be.on_ack(&sample(200_000, 2));
        be.on_ack(&sample(300_000, 1));
        assert!((be.rate() - 5.0).abs() < 1e-9);
    }

    #[test]
    fn bursts_are_taken_for_more_than_they_carry() {
        // Five packets 1 ms apart each 100 ms carry 50 a second; 1000 a second is the wire's.
        let mut be = Be::default();
        for round in 0..200 {
            for i in 0..5 {
                be.on_ack(&sample(round * 100_000 + i * 1000, 1));
            }
        }
        assert!((200.0..1000.0).contains(&be.rate()), "{}", be.rate());
    }

    #[test]
    fn it_fades_in_silence() {
        let mut be = Be::default();
        for i in 0..1000 {
            be.on_ack(&sample(i * 10_000, 1));
        }
        let before = be.rate();
        // 9990 ms to 10 990 ms: three virtual samples of 250 ms and one more. The first still
        // averages with the latest true sample: (3 B + b) / 5 = 0.8 B, then 0.6 each.
        be.on_silence(Time::ZERO + Duration::from_millis(10_991));
        assert!((be.rate() / before - 0.8 * 0.6 * 0.6 * 0.6).abs() < 1e-6, "{}", be.rate());
        be.on_silence(Time::ZERO + Duration::from_millis(10_992));
        assert!((be.rate() / before - 0.8 * 0.6 * 0.6 * 0.6).abs() < 1e-6, "not twice");
    }
}
