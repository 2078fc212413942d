//! Round trips with the packets that each delivered and lost.

use crate::endpoint::estimator::{Greatest, Least, RateSample};
use crate::units::{Duration, Time};

/// A round trip is a flood if its share of losses exceeds that of the path by more than this.
pub(super) const FLOOD: f64 = 0.2;
/// The largest share of losses that a path may have. A queue that is too short to be seen drops
/// more, and so does one that a start-up floods.
pub(super) const MOST: f64 = 0.35;
/// Round trips after which a queue has recovered from a cut of this flow or of another.
pub(super) const RECOVERY: u64 = 10;

/// Packets delivered and lost, round trip by round trip.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    /// Completed round trips.
    pub(super) count: u64,
    /// Delivery rate of the last one, packets per second.
    pub(super) rate: f64,
    /// The share of packets lost in the last one.
    pub(super) lost: f64,
    /// The number of packets lost in the last one.
    pub(super) lost_packets: u64,
    /// The number of packets delivered and lost in the last one.
    pub(super) sent: f64,
    /// The round trip ends when a packet arrives that was sent after this many were delivered.
    ends: u64,
    began: (Time, u64),
    lost_now: u64,
    least_lost: Least<f64>,
    bandwidth: Greatest<f64>,
}

impl Rounds {
    /// Counts a lost packet.
    pub(super) fn on_lost(&mut self) {
        self.lost_now += 1;
    }

    /// Returns whether a round trip is over.
    pub(super) fn on_sample(&mut self, sample: &RateSample, srtt: f64) -> bool {
        let now = sample.now;
        let srtt = Duration::from_secs_f64(srtt);
        self.bandwidth.update(now, sample.rate, srtt.saturating_mul(RECOVERY));
        if sample.prior_delivered < self.ends {
            return false;
        }
        self.ends = sample.total_delivered;
        self.count += 1;
        let passed = now.since(self.began.0).as_secs_f64();
        let delivered = (sample.total_delivered - self.began.1) as f64;
        if passed > 0.0 {
            self.rate = delivered / passed;
        }
        self.lost_packets = self.lost_now;
        let lost = self.lost_now as f64;
        self.sent = lost + delivered;
        self.lost = lost / self.sent.max(1.0);
        self.least_lost.update(now, self.lost, srtt.saturating_mul(60));
        self.lost_now = 0;
        self.began = (now, sample.total_delivered);
        true
    }

    /// True if this round trip is a flood so far, and has lost at least `fewest` packets.
    pub(super) fn floods_now(&self, sample: &RateSample, fewest: u64) -> bool {
        let lost = self.lost_now as f64;
        let delivered = (sample.total_delivered - self.began.1) as f64;
        self.lost_now >= fewest && lost > (self.least_lost() + FLOOD) * (lost + delivered)
    }

    /// The largest delivery rate of ten round trips, packets per second.
    pub(super) fn bandwidth(&self) -> f64 {
        self.bandwidth.get().unwrap_or(0.0)
    }
    /// The smallest share of losses in one of the last sixty round trips: that of the path itself.
    pub(super) fn least_lost(&self) -> f64 {
        self.least_lost.get().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_delivers_and_loses() {
        let mut rounds = Rounds::default();
        let mut feed = |ms: u64, delivered: u64, prior: u64, lost: u64| {
            (0..lost).for_each(|_| rounds.on_lost());
            let sample = RateSample {
                now: Time::ZERO + Duration::from_millis(ms),
                rtt: Some(Duration::from_millis(100)),
                newly_lost: lost,
                total_delivered: delivered,
                prior_delivered: prior,
                delivered: delivered - prior,
                rate: 500.0,
                ..RateSample::default()
            };
            let is_over = rounds.on_sample(&sample, 0.1);
            (is_over, rounds.rate, rounds.lost, rounds.least_lost())
        };
        feed(100, 10, 0, 0);
        // A packet that was sent before 10 were delivered belongs to the same round trip.
        assert!(!feed(150, 40, 5, 20).0);
        // 80 packets in 100 ms, and 20 lost of 100.
        assert_eq!(feed(200, 90, 10, 0), (true, 800.0, 0.2, 0.0));
        assert_eq!(feed(300, 180, 90, 10), (true, 900.0, 0.1, 0.0));
        // After sixty round trips the first one without a loss is forgotten.
        assert_eq!(feed(6250, 200, 180, 5).3, 0.1);
        assert_eq!(rounds.bandwidth(), 500.0);
    }
}
