//! Verdicts on the queue: whether one stands, from mean RTTs.
//!
//! PIE and RED still drop when a queue has just become empty. So a mean must be certain, and two
//! verdicts in a row without a queue show that it is empty.

use super::path::{CYCLE_TRIPS, Losses, MEMORY, Path, SAMPLES, SURE};
use crate::endpoint::estimator::Least;

/// The queue is judged from a mean that is as certain as this share of R0: a mean of few RTTs hides
/// a queue that stands.
const TOLD: f64 = 1.0 / 30.0;
/// The least delay of a queue that stands, seconds, but at most a tenth of R0. RED with the
/// thresholds of ns-2, 5 and 15 packets, holds 0.4 to 1.1 ms at 160 Mbit/s.
const STANDS: f64 = 0.0004;

/// The RTTs and round trips since the last verdict, and what is known of an empty queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Judge {
    samples: f64,
    sum: f64,
    /// The sum of squared second differences over 6: its mean is the variance of an RTT.
    squares: f64,
    losses: Losses,
    trips: f64,
    /// E: the smallest mean RTT, with its uncertainty.
    least: Least<f64, f64>,
    /// Verdicts in a row without a queue.
    empty: u32,
}

impl Judge {
    /// Counts the RTT `rtt`, the last one of the path.
    pub(super) fn on_sample(&mut self, rtt: f64, path: &Path) {
        // A larger bend is that of a timeout, or of a packet that waited for a handshake.
        let bend = path.bend().abs().min(path.floor());
        self.samples += 1.0;
        self.sum += rtt;
        self.squares += bend * bend / 6.0;
    }

    /// Counts a round trip, and judges the queue once the mean is certain enough (rule 1). Returns
    /// the losses of the round trips judged, if the queue is clear.
    pub(super) fn on_trip(&mut self, now: f64, path: &Path) -> Option<Losses> {
        self.losses.lost += path.trip.lost;
        self.losses.sent += path.trip.sent;
        self.trips += 1.0;
        let r0 = path.floor();
        // Jitter that lasts is seen by means of quarters of a round trip only, of which two
        // deviations count.
        let single = SURE * libm::sqrt(self.squares) / self.samples;
        let uncertainty = single.max(path.deviation() / libm::sqrt(self.trips));
        let least = STANDS.min(r0 / 10.0);
        if self.samples < SAMPLES as f64 || uncertainty > least.max(TOLD * r0) {
            // The mean of a longer time is that of many queues.
            if self.trips >= f64::from(CYCLE_TRIPS) {
                self.begin();
            }
            return None;
        }
        let mean = self.sum / self.samples;
        let deviation = libm::sqrt(self.squares / self.samples);
        // The smallest of many uncertain means is too small.
        self.least.update(now, mean + uncertainty, MEMORY);
        // A flow that never saw an empty queue knows R0 at most by single packets. The jitter is
        // estimated too small while few packets are sent.
        let most = r0 + deviation + 2.0 * path.jitter();
        let empty = self.least.get().unwrap_or(mean).min(most);
        let rate = self.losses.sent / (self.trips * path.srtt());
        let chance = least.max(uncertainty).max(held_back(path.jitter(), rate));
        let stands = mean > empty + chance;
        self.empty = if stands { 0 } else { self.empty + 1 };
        let losses = self.begin();
        self.is_clear().then_some(losses)
    }

    /// Begins anew, and returns the losses up to now.
    fn begin(&mut self) -> Losses {
        let (least, empty) = (core::mem::take(&mut self.least), self.empty);
        core::mem::replace(self, Judge { least, empty, ..Judge::default() }).losses
    }

    /// True if two verdicts in a row saw no queue.
    pub(super) fn is_clear(&self) -> bool {
        self.empty >= 2
    }

    /// Earlier RTTs do not compare with those to come.
    pub(super) fn forget(&mut self) {
        self.begin();
        self.least = Least::default();
    }
}

/// H: the time by which jitter makes the mean RTT without a queue longer at `rate` packets per
/// second than at a low rate. Packets stay in order, so one that is delayed also delays those
/// behind it. With delays uniform in 0 to 2 J, a packet is early by t with probability exp(-rate
/// t^2 / 4 J): the mean is 2 J - sqrt(pi J / rate), and J at a low rate.
fn held_back(jitter: f64, rate: f64) -> f64 {
    (jitter - libm::sqrt(core::f64::consts::PI * jitter / rate)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::path::tests::sample;
    use super::*;
    use crate::rng::Stream;

    /// The share of verdicts that leave the queue clear, and of round trips with a verdict, over
    /// 500 round trips of `packets` packets whose RTTs, in milliseconds, are given, and which stay
    /// in order. The first takes 80 ms.
    fn judged(packets: u64, mut rtt: impl FnMut(u64) -> f64) -> (f64, f64) {
        let (mut path, mut judge) = (Path::default(), Judge::default());
        let (mut clear, mut verdicts) = (0.0, 0.0);
        let mut now = 0.0;
        for packet in 0..500 * packets {
            let sent = 0.1 * packet as f64 / packets as f64;
            let rtt = if packet == 0 { 80.0 } else { rtt(packet) };
            now = f64::max(now, sent + rtt / 1e3);
            path.on_sample(&sample(100 + packet, 80), now, now - sent);
            judge.on_sample(now - sent, &path);
            if packet % packets == packets - 1 {
                clear += f64::from(u8::from(judge.on_trip(now, &path).is_some()));
                verdicts += f64::from(u8::from(judge.trips == 0.0));
            }
        }
        (clear / f64::max(verdicts, 1.0), verdicts / 500.0)
    }

    #[test]
    fn a_queue_stands_above_four_tenths_of_a_millisecond() {
        // Single packets took 80 ms, so E is at most that.
        assert!(judged(100, |_| 80.3).0 > 0.99);
        assert!(judged(100, |_| 80.5).0 < 0.01);
        // Two verdicts in a row see none: every third round trip has a queue of 10 ms.
        let thirds = |packet: u64| if (packet / 100).is_multiple_of(3) { 90.0 } else { 80.0 };
        let (empty, every) = judged(100, thirds);
        assert!((empty - 1.0 / 3.0).abs() < 0.02 && every == 1.0, "{empty} {every}");
    }

    #[test]
    fn few_rtts_that_vary_make_no_verdict() {
        // 0 to 10 ms at random have a deviation of 2.9 ms. A thirtieth of R0 is 2.7 ms, and four
        // deviations of a mean are that from 18 RTTs on: a verdict in every third round trip of 8.
        let mut stream = Stream::new(1, "test", "jitter");
        let (_, every) = judged(8, |_| 80.0 + 10.0 * stream.uniform());
        assert!((0.2..0.5).contains(&every), "{every}");
        let (_, every) = judged(100, |_| 80.0 + 10.0 * stream.uniform());
        assert!(every > 0.9, "{every}");
    }

    #[test]
    fn packets_in_order_are_held_back_by_jitter_the_more_the_faster_they_follow() {
        // The mean RTT of packets that are each delayed by 0 to 20 ms beyond 80 ms, in order.
        let mean = |rate: u64, seconds: u64| {
            let mut stream = Stream::new(rate, "test", "jitter");
            let (mut sum, mut arrived) = (0.0, 0.0);
            for packet in 0..seconds * rate {
                let sent = packet as f64 / rate as f64;
                arrived = f64::max(arrived, sent + 0.08 + 0.02 * stream.uniform());
                sum += arrived - sent;
            }
            sum / (seconds * rate) as f64
        };
        // Ten packets in a second do not meet: they take 10 of 20 ms more on average. H is 0, 4.4
        // and 7.5 ms at the others, with J = 10 ms.
        let apart = mean(10, 60);
        assert!((apart - 0.09).abs() < 0.001, "{apart}");
        for rate in [200, 1000, 5000] {
            let held_back = held_back(0.01, rate as f64);
            let more = mean(rate, 10) - apart;
            assert!((more - held_back).abs() < 0.002, "{rate}: {more} {held_back}");
        }
    }

    #[test]
    fn jitter_is_no_queue_and_a_queue_under_jitter_is_one() {
        let mut stream = Stream::new(1, "test", "jitter");
        let (jitter, _) = judged(100, |_| 80.0 + 10.0 * stream.uniform());
        // J is nearly twice 10 ms; E, if no empty queue was seen, is at most R0 and 2 J.
        let (queue, _) = judged(100, |_| 140.0 + 10.0 * stream.uniform());
        assert!(jitter > 0.8 && queue < 0.2, "{jitter} {queue}");
    }
}
