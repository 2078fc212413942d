//! Isolated losses are random: one lost packet is weaker evidence of congestion than several.
//!
//! Two rules:
//! - `count` (h2o/quicly#445): only the second loss of a recovery episode is congestion. An episode
//!   begins with a loss and ends a round trip later.
//! - `rate` (private-octopus/picoquic#1222, the loss filter of its BBR): a loss is congestion only
//!   if the smoothed share of lost packets is above 0.15, that is from the third of three close
//!   losses on:
//!
//! ```text
//! at the loss of packet n, the one before being m:
//! rate = rate (15/16)^min(n - m, 32),   rate += (1 - rate) / 16
//! ```
//!
//! Readings and deviations:
//! - An episode lasts until everything sent before its first loss was found is acknowledged. Losses
//!   that recovery finds later in the episode count when they are retransmitted.
//! - In #445 the window grows during an episode with one loss; here loss recovery prevents that.
//! - The rate counts data segments, and ignores further losses of a window once one of them was
//!   congestion.
//! - A timeout is congestion.

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, LossEvent, Path};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Probability;

/// picoquic: PICOQUIC_SMOOTHED_LOSS_FACTOR.
const FACTOR: f64 = 1.0 / 16.0;
/// picoquic: PICOQUIC_SMOOTHED_LOSS_SCOPE, packets.
const SCOPE: u64 = 32;

/// The rule by which losses are congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsolatedRule {
    /// Several in one episode (h2o/quicly#445).
    Count,
    /// Their smoothed share (private-octopus/picoquic#1222).
    Rate,
}

crate::words!(IsolatedRule { Count = "count", Rate = "rate" });

crate::parameters! {
    /// Parameters of the filters of isolated losses.
    pub struct IsolatedLossConfig in "isolated_loss", "parameters of isolated-loss and loss-filter";
    /// The second loss of an episode.
    pub const DEFAULT;
    rule: IsolatedRule = IsolatedRule::Count, ValueKind::Word(IsolatedRule::WORDS), "",
        "criterion of congestion: the losses of a round trip, or their smoothed share";
    /// 2 in h2o/quicly#445:
    count: u64 = 2, ValueKind::Integer { least: 1, most: 1000 }, "packets",
        "losses in one round trip from which they are congestion",
        when = |config| config.rule == IsolatedRule::Count;
    /// 0.15 in picoquic:
    threshold: f64 = 0.15, ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "smoothed share of losses above which one is congestion",
        when = |config| config.rule == IsolatedRule::Rate;
}

impl IsolatedLossConfig {
    /// picoquic's filter.
    pub const RATE: IsolatedLossConfig =
        IsolatedLossConfig { rule: IsolatedRule::Rate, ..IsolatedLossConfig::DEFAULT };
}

/// The recent losses.
#[derive(Debug, Clone)]
pub struct IsolatedLoss {
    config: IsolatedLossConfig,
    /// The number of losses of the episode, and the packet whose acknowledgment ends it.
    episode: Option<(u64, u64)>,
    /// One past the highest packet ever sent.
    high: u64,
    /// The smoothed share, and the loss that last updated it.
    rate: f64,
    last: u64,
    unjudged_from: Option<u64>,
}

impl Part for IsolatedLoss {
    type Config = IsolatedLossConfig;
    const FORMS: &'static [Form<IsolatedLossConfig>] = &[
        Form {
            words: Words {
                name: "isolated-loss",
                what: "only the second loss of a round trip is congestion",
                source: "h2o/quicly#445",
            },
            config: IsolatedLossConfig::DEFAULT,
        },
        Form {
            words: Words {
                name: "loss-filter",
                what: "a loss is congestion where the smoothed share of lost packets is above 0.15",
                source: "private-octopus/picoquic#1222",
            },
            config: IsolatedLossConfig::RATE,
        },
    ];
    fn form(config: &IsolatedLossConfig) -> &'static Form<IsolatedLossConfig> {
        &Self::FORMS[usize::from(config.rule == IsolatedRule::Rate)]
    }
}

impl DiscriminatorPart for IsolatedLoss {
    fn new(config: &IsolatedLossConfig, _: DiscriminatorSetup<'_>) -> Self {
        IsolatedLoss {
            config: *config,
            episode: None,
            high: 0,
            rate: 0.0,
            last: 0,
            unjudged_from: None,
        }
    }
}

impl IsolatedLoss {
    /// The smoothed share with the loss of `seq`.
    fn rate_with(&self, seq: u64) -> f64 {
        let since = seq.saturating_sub(self.last).min(SCOPE);
        let faded = self.rate * libm::pow(1.0 - FACTOR, since as f64);
        faded + (1.0 - faded) * FACTOR
    }

    /// Judges and remembers a loss. After a random one, later losses are still to be judged.
    fn verdict(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.opinion(loss);
        self.rate = self.rate_with(loss.seq);
        self.last = self.last.max(loss.seq);
        self.unjudged_from = (verdict == Probability::ZERO).then_some(loss.seq + 1);
        verdict
    }
}

impl Discriminator for IsolatedLoss {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.high = ack.high;
        if self.episode.is_some_and(|(_, until)| ack.una >= until) {
            self.episode = None;
            self.unjudged_from = None;
        }
    }

    fn on_lost(&mut self, _: &Path, lost: u64) {
        self.episode.get_or_insert((0, self.high)).0 += lost;
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.verdict(loss)
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        let congestion = match self.config.rule {
            IsolatedRule::Count => {
                // A loss outside any episode counts as the first.
                self.episode.map_or(1, |(losses, _)| losses.max(1)) >= self.config.count
            }
            IsolatedRule::Rate => self.rate_with(loss.seq) > self.config.threshold,
        };
        if congestion { Probability::ONE } else { Probability::ZERO }
    }

    fn unjudged_from(&self) -> Option<u64> {
        self.unjudged_from
    }

    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        self.verdict(loss)
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

    fn loss(seq: u64) -> LossEvent {
        let sign = LossSign::Acknowledgments;
        LossEvent { path: Path::default(), seq, sign, rate: LossRate::default() }
    }

    fn ack(judge: &mut IsolatedLoss, una: u64, high: u64) {
        judge.on_ack(&AckEvent { una, high, ..AckEvent::default() });
    }

    #[test]
    fn the_second_loss_of_a_round_trip_is_congestion() {
        let mut judge = new_discriminator::<IsolatedLoss>(IsolatedLossConfig::DEFAULT);
        ack(&mut judge, 10, 60);
        judge.on_lost(&Path::default(), 1);
        assert_eq!(judge.judge(&loss(10)), Probability::ZERO);
        assert_eq!(judge.unjudged_from(), Some(11));
        judge.on_lost(&Path::default(), 1);
        assert_eq!(judge.judge_repair(&loss(30)), Probability::ONE);
        assert_eq!(judge.unjudged_from(), None);
        // Everything in flight is acknowledged: another round trip.
        ack(&mut judge, 60, 100);
        judge.on_lost(&Path::default(), 1);
        assert_eq!(judge.judge(&loss(60)), Probability::ZERO);
        // And two at once.
        ack(&mut judge, 100, 140);
        judge.on_lost(&Path::default(), 2);
        assert_eq!(judge.judge(&loss(100)), Probability::ONE);
    }

    #[test]
    fn a_count_of_one_is_every_loss() {
        let config = IsolatedLossConfig { count: 1, ..IsolatedLossConfig::DEFAULT };
        assert_eq!(new_discriminator::<IsolatedLoss>(config).judge(&loss(5)), Probability::ONE);
    }

    /// 1/16 = 0.0625, times 15/16 plus the new share: 0.1174 and 0.1656 for consecutive losses;
    /// after 32 or more packets (15/16)^32 = 0.1268 of the share remains.
    #[test]
    fn the_third_of_three_close_losses_is_above_the_filters_threshold() {
        let mut judge = new_discriminator::<IsolatedLoss>(IsolatedLossConfig::RATE);
        for (seq, rate, verdict) in [
            (100, 0.0625, 0.0),
            (101, 0.117_432, 0.0),
            (102, 0.165_711, 1.0),
            (1000, 0.082_197, 0.0),
        ] {
            assert_eq!(judge.judge(&loss(seq)).get(), verdict, "{seq}");
            assert!((judge.rate - rate).abs() < 1e-6, "{seq}: {}", judge.rate);
        }
    }
}
