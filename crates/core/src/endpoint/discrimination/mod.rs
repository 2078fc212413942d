//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by it,
//! where others answer 0 or 1. A discriminator of this crate is a [`DiscriminatorPart`] in the list
//! below, one of another crate comes in by a [`MakeDiscriminator`].

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
pub use jitter_ratio::{Jitter, JitterRatioConfig, JitterSpan, JitterTimeouts};
pub use queue_level::QueueLevelConfig;
pub use rate_gap::{RateGapConfig, RateGapReading};
pub use spike::SpikeConfig;
pub use spike_or_rate_gap::SpikeOrRateGapConfig;

use std::fmt::Debug;

use super::EndpointConfig;
use super::event::{AckEvent, AfterTimeout, LossEvent, Path};
use super::feedback::Notice;
use crate::part::{CustomPart, Part, axis, behaviour};
use crate::rng::Stream;
use crate::units::{Probability, Time};

behaviour! {
    /// A discriminator at work: it judges the losses of a connection.
    pub trait Discriminator: Debug + Send + Sync {
        /// An acknowledgment arrived; called before losses that it tells of are judged, for those
        /// with [`DiscriminatorPart::HEARS_ACKS`] and those of other crates.
        @forward(inline) @boxed(inline(never))
        fn on_ack(&mut self, ack: &AckEvent) = ();
        /// A notifier tells of corruption out of band.
        fn on_notice(&mut self, now: Time, notice: &Notice) = ();
        /// Recovery found `lost` packets lost, by an acknowledgment or a timer of its own; called
        /// before any of them is judged.
        fn on_lost(&mut self, path: &Path, lost: u64) = ();

        /// The probability that a loss was due to congestion. Asked once for each loss that
        /// recovery finds in a window without one: some flip a coin, or remember the verdict.
        fn judge(&mut self, loss: &LossEvent) -> Probability;
        /// The probability that a loss at this moment would be due to congestion, for recovery that
        /// needs it before there is one to judge. Flips no coin and remembers nothing.
        fn opinion(&self, loss: &LossEvent) -> Probability;

        /// Where a loss was judged not to be congestion and those after it in its window are still
        /// to be judged one by one: the first of these. Ends with a verdict that reduces cwnd.
        @forward(inline)
        fn unjudged_from(&self) -> Option<u64> = None;
        /// As [`Discriminator::judge`] for a further lost segment of a window, at or after
        /// [`Discriminator::unjudged_from`], when it is sent again.
        fn judge_repair(&mut self, loss: &LossEvent) -> Probability = self.judge(loss);
        /// As [`Discriminator::judge`] for a timeout that resets the connection, once for
        /// each: congestion, unless a discriminator's paper says otherwise.
        fn judge_timeout(&mut self, loss: &LossEvent) -> Probability = Probability::ONE;
        /// The window that the timeout judged last leaves: one packet, unless a discriminator's
        /// paper says otherwise.
        fn after_timeout(&self) -> AfterTimeout = AfterTimeout::Restart;
    }
    impl for DiscriminatorState, by each;
}

/// The arguments from which a discriminator is made.
#[derive(Debug)]
pub struct DiscriminatorSetup<'a> {
    /// The parameters of the two ends.
    pub endpoint: &'a EndpointConfig,
    /// Random numbers for discriminators that draw.
    pub stream: Stream,
}

/// A discriminator of this crate.
pub trait DiscriminatorPart: Part + Discriminator + Sized {
    /// True if every verdict is certain congestion. Only this goes with controllers that
    /// [do not heed verdicts](super::window::ControllerPart::HEEDS_VERDICTS).
    const NEVER_DOUBTS: bool = false;
    /// True if it is told of acknowledgments ([`Discriminator::on_ack`]).
    const HEARS_ACKS: bool = true;
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: DiscriminatorSetup<'_>) -> Self;
}

/// Makes the states of a discriminator that another crate gives.
pub trait MakeDiscriminator: CustomPart {
    /// The state at the start of a connection.
    fn make(&self, setup: DiscriminatorSetup<'_>) -> Box<dyn Discriminator>;
}

axis! {
    $ each each_kind;
    /// The discriminators by name, with their parameters.
    config DiscriminatorConfig;
    /// The state of a discriminator.
    state DiscriminatorState;
    @make DiscriminatorPart(DiscriminatorSetup<'_>);
    @custom dyn MakeDiscriminator => Box<dyn Discriminator> =
        |maker: &dyn MakeDiscriminator, setup: DiscriminatorSetup<'_>| maker.make(setup);
    AlwaysCongestion: always::Always,
    Never: always::Never,
    Backlog: backlog::Backlog => Box,
    JitterRatio: jitter_ratio::JitterRatio => Box,
    Warning: warning::Warning,
    SpikeOrRateGap: spike_or_rate_gap::SpikeOrRateGap => Box,
    Oracle: oracle::Oracle => Box,
    ErrorShare: error_share::ErrorShare => Box,
    FullQueue: full_queue::FullQueue => Box,
    IsolatedLoss: isolated_loss::IsolatedLoss => Box,
    QueueLevel: queue_level::QueueLevel => Box,
}

impl DiscriminatorConfig {
    /// True if every verdict is certain congestion.
    pub fn never_doubts(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::NEVER_DOUBTS, custom(_judge) => false)
    }
    /// True if it is told of acknowledgments.
    pub fn hears_acks(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::HEARS_ACKS, custom(_judge) => true)
    }
}
