//! The cause of a loss: the probability P that it is congestion.
//!
//! A queue that overflows drops packets only while it is near its longest; a path loses packets at
//! any length. So the loss rate below is that of the path, and the excess near the longest queue is
//! congestion. These are e and p of CETEN (eten2004, section 5), learned by the sender alone. As
//! long as nothing else is known, a loss in a long queue is congestion.

use super::floor::FADE;
use super::path::{Losses, Path};
use crate::endpoint::estimator::Greatest;

/// A queue of this share of the longest one of a cycle is long.
const LONG: f64 = 0.9;

/// The losses of a long queue and of a shorter one.
#[derive(Debug, Clone, Default)]
pub(super) struct Cause {
    /// The largest R of a cycle: lengths are delays, and if the rate has risen tenfold, a queue
    /// that is full now was hardly a queue before.
    longest: Greatest<f64, f64>,
    short: Losses,
    long: Losses,
}

impl Cause {
    /// So many packets arrived, at the present length of the queue.
    pub(super) fn on_arrival(&mut self, now: f64, arrived: f64, path: &Path) {
        self.longest.update(now, path.standing(), path.cycle());
        self.count(0.0, arrived, path);
    }

    /// A packet was found lost. Returns P (rule 13).
    pub(super) fn on_lost(&mut self, path: &Path) -> f64 {
        self.count(1.0, 1.0, path);
        if !self.is_long(path) {
            return 0.0;
        }
        let corrupted = self.short.rate() * self.long.sent / self.long.lost;
        (1.0 - corrupted).max(0.0)
    }

    /// True if the queue is nearly as long as it was at most in a cycle.
    pub(super) fn is_long(&self, path: &Path) -> bool {
        let (most, r0) = (self.longest.get().unwrap_or(0.0), path.floor());
        path.standing() - r0 >= LONG * (most - r0)
    }

    fn count(&mut self, lost: f64, sent: f64, path: &Path) {
        let kept = 1.0 - (sent / FADE).min(1.0);
        for counts in [&mut self.short, &mut self.long] {
            counts.lost *= kept;
            counts.sent *= kept;
        }
        let here = if self.is_long(path) { &mut self.long } else { &mut self.short };
        here.lost += lost;
        here.sent += sent;
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::tests::sample;
    use super::*;
    use crate::rng::Stream;

    /// A sender with a packet a millisecond.
    #[derive(Default)]
    struct Sender {
        cause: Cause,
        path: Path,
        now: u64,
    }

    impl Sender {
        /// A packet arrives after `rtt` ms.
        fn arrive(&mut self, rtt: f64) {
            self.now += 1;
            let now = self.now as f64 / 1e3;
            self.path.on_sample(&sample(self.now, 100), now, rtt / 1e3);
            self.cause.on_arrival(now, 1.0, &self.path);
        }

        /// The RTT rises from 100 to 200 ms in two seconds, `cycles` times, with these loss rates
        /// below 190 ms and above. Returns the mean of P, and that of losses above 190 ms.
        fn pass(&mut self, cycles: u32, below: f64, above: f64) -> (f64, f64) {
            let mut stream = Stream::new(1, "test", "cause");
            let (mut all, mut high) = ((0.0, 0.0), (0.0, 0.0));
            for n in 0..2000 * cycles {
                let rtt = 100.0 + f64::from(n % 2000) / 20.0;
                let is_high = rtt >= 190.0;
                if stream.uniform() >= if is_high { above } else { below } {
                    self.arrive(rtt);
                    continue;
                }
                let congestion = self.cause.on_lost(&self.path);
                all = (all.0 + congestion, all.1 + 1.0);
                if is_high {
                    high = (high.0 + congestion, high.1 + 1.0);
                }
            }
            (all.0 / all.1, high.0 / high.1)
        }
    }

    #[test]
    fn losses_above_the_rate_of_shorter_queues_are_congestion() {
        let mut sender = Sender::default();
        sender.pass(1, 0.0, 0.0);
        (0..100).for_each(|_| sender.arrive(200.0));
        let counts = |rate: f64| Losses { lost: 1e6 * rate - 1.0, sent: 1e6 - 1.0 };
        let mut congestion = |short: Losses, long: Losses| {
            (sender.cause.short, sender.cause.long) = (short, long);
            sender.cause.on_lost(&sender.path)
        };
        assert!((congestion(counts(0.01), counts(0.04)) - 0.75).abs() < 1e-3);
        assert_eq!(congestion(counts(0.04), counts(0.01)), 0.0);
        // As long as nothing is known of shorter queues, all of them are;
        assert_eq!(congestion(Losses::default(), counts(0.01)), 1.0);
        // but none while the queue is shorter.
        sender.arrive(180.0);
        assert_eq!(sender.cause.on_lost(&sender.path), 0.0);
    }

    #[test]
    fn losses_at_any_length_of_the_queue_are_those_of_the_path() {
        let (all, _) = Sender::default().pass(50, 0.03, 0.03);
        assert!(all < 0.1, "{all}");
        // A queue that drops 5 % near its longest, on a path without losses and with 1 %.
        let (all, high) = Sender::default().pass(50, 0.0, 0.05);
        assert!(all > 0.95 && high > 0.95, "{all} {high}");
        let (_, high) = Sender::default().pass(50, 0.01, 0.06);
        assert!((0.6..0.9).contains(&high), "{high}");
    }

    #[test]
    fn a_longer_queue_of_before_hides_none_of_now() {
        let mut sender = Sender::default();
        sender.pass(1, 0.0, 0.0);
        (0..1000).for_each(|_| sender.arrive(1000.0));
        sender.arrive(200.0);
        assert_eq!(sender.cause.on_lost(&sender.path), 0.0);
        // A cycle later the longest queue is 100 ms.
        sender.pass(11, 0.0, 0.0);
        assert!(sender.cause.on_lost(&sender.path) > 0.0);
    }

    #[test]
    fn counts_fade_together() {
        let mut sender = Sender::default();
        sender.cause.short = Losses { lost: 50.0, sent: 500.0 };
        (0..3000).for_each(|_| sender.cause.count(0.0, 1.0, &sender.path));
        let kept = (1.0 - 1.0 / 3000.0_f64).powi(3000);
        assert!((sender.cause.short.lost - 50.0 * kept).abs() < 1e-9);
        assert!((sender.cause.long.sent - 3000.0 * (1.0 - kept)).abs() < 1e-6);
    }
}
