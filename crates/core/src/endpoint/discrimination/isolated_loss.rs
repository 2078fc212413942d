//! Isolated losses are random: one lost packet tells less of congestion than several do.
//!
//! Two rules:
//! - `count` (h2o/quicly#445): only the second loss of a recovery episode is congestion, which
//!   begins with a loss and ends a round trip later.
//! - `rate` (private-octopus/picoquic#1222, the loss filter of its BBR): only where the smoothed
//!   share of lost packets is above 0.15, that is from the third of three close losses on:
//!
//! ```text
//! at the loss of packet n, the one before being m:
//! rate = rate (15/16)^min(n - m, 32),   rate += (1 - rate) / 16
//! ```
//!
//! Readings and deviations:
//! - An episode lasts until all is acknowledged that was sent before its first loss was found.
//!   Losses within it that recovery finds later count when they are sent again.
//! - #445 lets the window grow during an episode that has had one loss; here loss recovery does not
//!   let it.
//! - The rate is that of data, whose numbers stand for those of packets, and it hears of no more
//!   losses of a window once one of them was congestion.
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

/// Parameters of filters of isolated losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IsolatedLossConfig {
    /// The rule.
    pub rule: IsolatedRule,
    /// The losses of an episode that are congestion, at least 1, which is all; 2 (h2o/quicly#445).
    pub count: u64,
    /// The smoothed share of lost packets above which a loss is congestion, 0 to 1; 0.15
    /// (picoquic).
    pub threshold: f64,
}

impl IsolatedLossConfig {
    /// The second loss of an episode.
    pub const DEFAULT: IsolatedLossConfig =
        IsolatedLossConfig { rule: IsolatedRule::Count, count: 2, threshold: 0.15 };
    /// picoquic's filter.
    pub const RATE: IsolatedLossConfig =
        IsolatedLossConfig { rule: IsolatedRule::Rate, ..IsolatedLossConfig::DEFAULT };
}

crate::parameters! {
    IsolatedLossConfig in "isolated_loss", "parameters of isolated-loss and loss-filter";
    rule: ValueKind::Word(IsolatedRule::WORDS), "",
        "what makes losses congestion: several in a round trip, or their smoothed share";
    count: ValueKind::Integer { least: 1, most: 1000 }, "packets",
        "losses of one round trip that are congestion",
        when = |config| config.rule == IsolatedRule::Count;
    threshold: ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "smoothed share of losses above which one is congestion",
        when = |config| config.rule == IsolatedRule::Rate;
}

/// The losses of late.
#[derive(Debug, Clone)]
pub struct IsolatedLoss {
    config: IsolatedLossConfig,
    /// How many the episode has had, and the packet whose acknowledgment ends it.
    episode: Option<(u64, u64)>,
    /// One past the highest packet ever sent.
    high: u64,
    /// The smoothed share, and the loss that it was last renewed for.
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
        IsolatedLoss::of(*config)
    }
}

impl IsolatedLoss {
    fn of(config: IsolatedLossConfig) -> Self {
        IsolatedLoss { config, episode: None, high: 0, rate: 0.0, last: 0, unjudged_from: None }
    }

    /// The smoothed share with the loss of `seq`.
    fn rate_with(&self, seq: u64) -> f64 {
        let since = seq.saturating_sub(self.last).min(SCOPE);
        let faded = self.rate * libm::pow(1.0 - FACTOR, since as f64);
        faded + (1.0 - faded) * FACTOR
    }

    /// Remembers the loss of `seq`, and that those after it are still to be judged if it is random.
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
                // One that nobody told of counts itself.
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

    fn loss(seq: u64) -> LossEvent {
        let sign = LossSign::Acknowledgments;
        LossEvent { path: Path::default(), seq, sign, rate: LossRate::default() }
    }

    fn ack(judge: &mut IsolatedLoss, una: u64, high: u64) {
        judge.on_ack(&AckEvent { una, high, ..AckEvent::default() });
    }

    #[test]
    fn the_second_loss_of_a_round_trip_is_congestion() {
        let mut judge = IsolatedLoss::of(IsolatedLossConfig::DEFAULT);
        ack(&mut judge, 10, 60);
        judge.on_lost(&Path::default(), 1);
        assert_eq!(judge.judge(&loss(10)), Probability::ZERO);
        assert_eq!(judge.unjudged_from(), Some(11));
        judge.on_lost(&Path::default(), 1);
        assert_eq!(judge.judge_repair(&loss(30)), Probability::ONE);
        assert_eq!(judge.unjudged_from(), None);
        // All that was in flight is acknowledged: another round trip.
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
        assert_eq!(IsolatedLoss::of(config).judge(&loss(5)), Probability::ONE);
    }

    /// 1/16 = 0.0625; x 15/16 + its share: 0.1174, 0.1656 for losses one after the other; after 32
    /// or more packets (15/16)^32 = 0.1268 is left of it.
    #[test]
    fn the_third_of_three_close_losses_is_above_the_filters_threshold() {
        let mut judge = IsolatedLoss::of(IsolatedLossConfig::RATE);
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
