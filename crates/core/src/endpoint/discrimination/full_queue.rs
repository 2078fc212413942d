//! The RTT of a full queue (h2o/quicly#687, the design note of August 2026): a loss at an RTT
//! shorter than that of a full queue is not an overflow.
//!
//! The RTT during an overflow is learned from congestion itself: one sample for each episode of
//! losses, the smallest RTT with which they were found. A loss is congestion if
//!
//! ```text
//! there is no sample yet, or
//! it is the second of a round trip, or
//! latestRTT >= min(sfqRTT - fqRTTvar, minRTT + 5 ms)
//! ```
//!
//! A random loss does not reduce the window. The first episode gives a sample, and later ones do if
//! more than one packet was lost. The 5 ms are for queues that drop early, such as CoDel's.
//!
//! Readings:
//! - sfqRTT and fqRTTvar are smoothed as srtt and rttvar (RFC 9002 section 5.3).
//! - An episode, "one round trip", lasts until everything sent before its first loss was found is
//!   acknowledged. Losses that recovery finds later in the episode count when they are
//!   retransmitted.
//! - latestRTT is the latest sample; TCP takes no samples from duplicate ACKs.
//! - A timeout is congestion.

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, LossEvent, Path};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Probability};

crate::parameters! {
    /// Parameters of the RTT of a full queue.
    #[derive(Eq)]
    pub struct FullQueueConfig in "full_queue", "parameters of full-queue-rtt";
    /// The value of the design note.
    pub const DEFAULT;
    /// 5 ms in h2o/quicly#687:
    guard: Duration = Duration::from_millis(5),
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(86_400) }, "",
        "rise above the smallest RTT from which a loss is congestion in any case";
}

/// An estimate of the RTT of a full queue.
#[derive(Debug, Clone)]
pub struct FullQueue {
    config: FullQueueConfig,
    /// sfqRTT and fqRTTvar.
    full: Option<(Duration, Duration)>,
    episode: Option<Episode>,
    /// One past the highest packet ever sent.
    high: u64,
    unjudged_from: Option<u64>,
}

/// The losses of one round trip.
#[derive(Debug, Clone)]
struct Episode {
    /// The packet whose acknowledgment ends it.
    until: u64,
    losses: u64,
    /// The smallest RTT with which they were found.
    rtt: Duration,
}

impl Part for FullQueue {
    type Config = FullQueueConfig;
    const FORMS: &'static [Form<FullQueueConfig>] = &[Form {
        words: Words {
            name: "full-queue-rtt",
            what: "a single loss at a shorter RTT than at overflows of the queue is random",
            source: "h2o/quicly#687",
        },
        config: FullQueueConfig::DEFAULT,
    }];
}

impl DiscriminatorPart for FullQueue {
    fn new(config: &FullQueueConfig, _: DiscriminatorSetup<'_>) -> Self {
        FullQueue { config: *config, full: None, episode: None, high: 0, unjudged_from: None }
    }
}

impl FullQueue {
    /// Adds a sample of the RTT of a full queue.
    fn learn(&mut self, rtt: Duration) {
        let ps = Duration::from_ps;
        self.full = Some(match self.full {
            None => (rtt, ps(rtt.as_ps() / 2)),
            Some((smoothed, var)) => {
                let (s, v, r) = (smoothed.as_ps(), var.as_ps(), rtt.as_ps());
                (ps(s - s / 8 + r / 8), ps(v - v / 4 + s.abs_diff(r) / 4))
            }
        });
    }

    /// True if the RTT is that of a full queue, or if no sample is known.
    fn is_full(&self, path: &Path) -> bool {
        let Some((smoothed, var)) = self.full else { return true };
        path.rtt >= (smoothed - var).min(path.min_rtt + self.config.guard)
    }
}

impl Discriminator for FullQueue {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.high = ack.high;
        if let Some(episode) = &self.episode
            && ack.una >= episode.until
        {
            let Episode { losses, rtt, .. } = *episode;
            if self.full.is_none() || losses > 1 {
                self.learn(rtt);
            }
            self.episode = None;
            self.unjudged_from = None;
        }
    }

    fn on_lost(&mut self, path: &Path, lost: u64) {
        let new = Episode { until: self.high, losses: 0, rtt: path.rtt };
        let episode = self.episode.get_or_insert(new);
        episode.losses += lost;
        episode.rtt = episode.rtt.min(path.rtt);
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.opinion(loss);
        self.unjudged_from = (verdict == Probability::ZERO).then_some(loss.seq + 1);
        verdict
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        let repeated = self.episode.as_ref().is_some_and(|episode| episode.losses > 1);
        if repeated || self.is_full(&loss.path) { Probability::ONE } else { Probability::ZERO }
    }

    fn unjudged_from(&self) -> Option<u64> {
        self.unjudged_from
    }

    /// The second loss of its round trip, hence congestion.
    fn judge_repair(&mut self, _: &LossEvent) -> Probability {
        self.unjudged_from = None;
        Probability::ONE
    }

    fn judge_timeout(&mut self, _: &LossEvent) -> Probability {
        self.unjudged_from = None;
        Probability::ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::LossSign;
    use crate::testing::new_discriminator;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn path(rtt: u64) -> Path {
        Path { rtt: MS(rtt), min_rtt: MS(100), ..Path::default() }
    }

    fn loss(rtt: u64, seq: u64) -> LossEvent {
        let sign = LossSign::Acknowledgments;
        LossEvent { path: path(rtt), seq, sign, rate: LossRate::default() }
    }

    /// An acknowledgment of everything before `una`, when everything below `high` was sent.
    fn ack(judge: &mut FullQueue, una: u64, high: u64) {
        judge.on_ack(&AckEvent { una, high, ..AckEvent::default() });
    }

    /// The verdict on an episode of `lost` losses found at once.
    fn episode(judge: &mut FullQueue, rtt: u64, lost: u64) -> f64 {
        let una = judge.high;
        ack(judge, una, una + 50);
        judge.on_lost(&path(rtt), lost);
        let verdict = judge.judge(&loss(rtt, una)).get();
        ack(judge, una + 50, una + 100);
        verdict
    }

    #[test]
    fn a_loss_below_the_rtt_of_a_full_queue_is_random() {
        let mut judge = new_discriminator::<FullQueue>(FullQueueConfig { guard: MS(1000) });
        assert_eq!(episode(&mut judge, 180, 1), 1.0, "nothing is known yet");
        // sfqRTT 180, fqRTTvar 90: congestion from 90 ms. One more overflow at 180 ms: var 67.5,
        // congestion from 112.5 ms.
        assert_eq!(judge.full, Some((MS(180), MS(90))));
        assert_eq!(episode(&mut judge, 180, 5), 1.0);
        assert_eq!(episode(&mut judge, 112, 1), 0.0);
        assert_eq!(episode(&mut judge, 113, 1), 1.0);
        assert_eq!(
            judge.full,
            Some((MS(180), Duration::from_micros(67_500))),
            "single losses are no samples"
        );
        // An overflow at 100 ms: var 67.5 x 3/4 + 80/4 = 70.625; s 180 x 7/8 + 100/8 = 170.
        assert_eq!(episode(&mut judge, 100, 2), 1.0, "two of a round trip are congestion");
        assert_eq!(judge.full, Some((MS(170), Duration::from_micros(70_625))));
    }

    #[test]
    fn five_milliseconds_of_queue_are_congestion_for_those_who_drop_early() {
        let mut judge = new_discriminator::<FullQueue>(FullQueueConfig::DEFAULT);
        for _ in 0..30 {
            episode(&mut judge, 300, 2);
        }
        assert_eq!(episode(&mut judge, 104, 1), 0.0);
        assert_eq!(episode(&mut judge, 105, 1), 1.0);
    }

    #[test]
    fn a_second_loss_within_the_round_trip_makes_it_congestion_after_all() {
        let mut judge = new_discriminator::<FullQueue>(FullQueueConfig::DEFAULT);
        for _ in 0..30 {
            episode(&mut judge, 300, 2);
        }
        let una = judge.high;
        ack(&mut judge, una, una + 50);
        judge.on_lost(&path(101), 1);
        assert_eq!(judge.judge(&loss(101, una)), Probability::ZERO);
        assert_eq!(judge.unjudged_from(), Some(una + 1));
        judge.on_lost(&path(102), 1);
        assert_eq!(judge.judge_repair(&loss(102, una + 7)), Probability::ONE);
        assert_eq!(judge.unjudged_from(), None);
        // It was an overflow, found with 101 ms: s = 7/8 x 300 + 101/8.
        ack(&mut judge, una + 50, una + 60);
        let smoothed = judge.full.unwrap().0;
        assert_eq!(smoothed, Duration::from_micros(275_125));
    }
}
