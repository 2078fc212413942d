//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by
//! it, where others answer 0 or 1. One of this crate's is a [`DiscriminatorPart`] in the list below, one of
//! another crate comes in by a [`MakeDiscriminator`].

mod always;
mod backlog;
mod error_share;
mod full_queue;
mod isolated_loss;
mod jitter_ratio;
mod oracle;
mod queue_level;
mod rate_gap;
mod spike;
mod spike_or_rate_gap;
mod warning;

pub use error_share::{ErrorShareConfig, TimeoutResponse};
pub use full_queue::FullQueueConfig;
pub use isolated_loss::{IsolatedLossConfig, IsolatedRule};
pub use jitter_ratio::{Jitter, JitterRatioConfig, JitterTimeouts, Span};
pub use queue_level::QueueLevelConfig;
pub use rate_gap::{RateGapConfig, Reading};
pub use spike::SpikeConfig;
pub use spike_or_rate_gap::SpikeOrRateGapConfig;

use std::fmt::Debug;

use super::EndpointConfig;
use super::event::{AckEvent, AfterTimeout, LossEvent, Path};
use super::feedback::Notice;
use crate::part::{CustomPart, Part, axis};
use crate::rng::Stream;
use crate::units::{Probability, Time};

/// What judges the losses of a connection.
pub trait Discriminator: Debug + Send + Sync {
    /// An acknowledgment arrived; called before losses that it tells of are judged, of judges for
    /// whom [`DiscriminatorPart::HEARS_ACKS`] and of those of other crates.
    fn on_ack(&mut self, _ack: &AckEvent) {}
    /// A notifier tells of corruption out of band.
    fn on_notice(&mut self, _now: Time, _notice: &Notice) {}
    /// Recovery found that many packets lost, by an acknowledgment or a timer of its own; before any
    /// of them is judged.
    fn on_lost(&mut self, _path: &Path, _lost: u64) {}

    /// The probability that a loss was due to congestion. Asked once for each loss that recovery
    /// finds in a window without one: some flip a coin, or remember the verdict.
    fn judge(&mut self, loss: &LossEvent) -> Probability;
    /// What it thinks of losses at this moment, for recovery that goes by it before there is one
    /// to judge. Flips no coin and remembers nothing.
    fn opinion(&self, loss: &LossEvent) -> Probability;

    /// Where a loss was judged not to be congestion and those after it in its window are still
    /// to be judged one by one: the first of these. Ends with a verdict that reduces cwnd.
    fn unjudged_from(&self) -> Option<u64> {
        None
    }
    /// As [`Discriminator::judge`] for a further lost segment of a window, at or after
    /// [`Discriminator::unjudged_from`], when it is sent again.
    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        self.judge(loss)
    }
    /// As [`Discriminator::judge`] for a timeout that resets the connection, once for each:
    /// congestion, but for those whose papers say otherwise.
    fn judge_timeout(&mut self, _loss: &LossEvent) -> Probability {
        Probability::ONE
    }
    /// What the timeout that was judged last leaves of cwnd: one packet, but for those whose papers
    /// say otherwise.
    fn after_timeout(&self) -> AfterTimeout {
        AfterTimeout::Restart
    }
}

/// What is boxed is large: a copy of it in every dispatch would slow down all the others.
impl<T: Discriminator + ?Sized> Discriminator for Box<T> {
    #[inline(never)]
    fn on_ack(&mut self, ack: &AckEvent) {
        (**self).on_ack(ack);
    }
    fn on_notice(&mut self, now: Time, notice: &Notice) {
        (**self).on_notice(now, notice);
    }
    fn on_lost(&mut self, path: &Path, lost: u64) {
        (**self).on_lost(path, lost);
    }
    fn judge(&mut self, loss: &LossEvent) -> Probability {
        (**self).judge(loss)
    }
    fn opinion(&self, loss: &LossEvent) -> Probability {
        (**self).opinion(loss)
    }
    fn unjudged_from(&self) -> Option<u64> {
        (**self).unjudged_from()
    }
    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        (**self).judge_repair(loss)
    }
    fn judge_timeout(&mut self, loss: &LossEvent) -> Probability {
        (**self).judge_timeout(loss)
    }
    fn after_timeout(&self) -> AfterTimeout {
        (**self).after_timeout()
    }
}

/// What a discriminator is made from.
#[derive(Debug)]
pub struct DiscriminatorSetup<'a> {
    /// What the two ends are told.
    pub endpoint: &'a EndpointConfig,
    /// For those that flip coins.
    pub stream: Stream,
}

/// A discriminator of this crate.
pub trait DiscriminatorPart: Part + Discriminator + Sized {
    /// Is every verdict that of certain congestion? Only this goes with controllers that
    /// [do not heed verdicts](super::window::ControllerPart::HEEDS_VERDICTS).
    const NEVER_DOUBTS: bool = false;
    /// Does it hear of acknowledgments ([`Discriminator::on_ack`])?
    const HEARS_ACKS: bool = true;
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: DiscriminatorSetup<'_>) -> Self;
}

impl<J: DiscriminatorPart> DiscriminatorPart for Box<J> {
    const NEVER_DOUBTS: bool = J::NEVER_DOUBTS;
    const HEARS_ACKS: bool = J::HEARS_ACKS;
    fn new(config: &J::Config, setup: DiscriminatorSetup<'_>) -> Self {
        Box::new(J::new(config, setup))
    }
}

/// Makes the states of a discriminator that another crate gives.
pub trait MakeDiscriminator: CustomPart {
    /// The state at the start of a connection.
    fn make(&self, setup: DiscriminatorSetup<'_>) -> Box<dyn Discriminator>;
}

axis! {
    $ each each_kind;
    /// The ways to judge a loss by name, with their parameters.
    config DiscriminatorConfig;
    /// The state of discrimination.
    state DiscriminatorState;
    @make DiscriminatorPart(DiscriminatorSetup<'_>);
    @custom dyn MakeDiscriminator => Box<dyn Discriminator> =
        |maker: &dyn MakeDiscriminator, setup: DiscriminatorSetup<'_>| maker.make(setup);
    AlwaysCongestion: always::Always,
    Never: always::Never,
    Backlog: Box<backlog::Backlog>,
    JitterRatio: Box<jitter_ratio::JitterRatio>,
    Warning: warning::Warning,
    SpikeOrRateGap: Box<spike_or_rate_gap::SpikeOrRateGap>,
    Oracle: Box<oracle::Oracle>,
    ErrorShare: Box<error_share::ErrorShare>,
    FullQueue: Box<full_queue::FullQueue>,
    IsolatedLoss: Box<isolated_loss::IsolatedLoss>,
    QueueLevel: Box<queue_level::QueueLevel>,
}

impl DiscriminatorConfig {
    /// Is every verdict that of certain congestion?
    pub fn never_doubts(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::NEVER_DOUBTS, custom(_judge) => false)
    }
    /// Does it hear of acknowledgments?
    pub fn hears_acks(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::HEARS_ACKS, custom(_judge) => true)
    }
}

impl Discriminator for DiscriminatorState {
    #[inline]
    fn on_ack(&mut self, ack: &AckEvent) {
        each!(self, judge => judge.on_ack(ack));
    }
    fn on_notice(&mut self, now: Time, notice: &Notice) {
        each!(self, judge => judge.on_notice(now, notice));
    }
    fn on_lost(&mut self, path: &Path, lost: u64) {
        each!(self, judge => judge.on_lost(path, lost));
    }
    fn judge(&mut self, loss: &LossEvent) -> Probability {
        each!(self, judge => judge.judge(loss))
    }
    fn opinion(&self, loss: &LossEvent) -> Probability {
        each!(self, judge => judge.opinion(loss))
    }
    #[inline]
    fn unjudged_from(&self) -> Option<u64> {
        each!(self, judge => judge.unjudged_from())
    }
    fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        each!(self, judge => judge.judge_repair(loss))
    }
    fn judge_timeout(&mut self, loss: &LossEvent) -> Probability {
        each!(self, judge => judge.judge_timeout(loss))
    }
    fn after_timeout(&self) -> AfterTimeout {
        each!(self, judge => judge.after_timeout())
    }
}
