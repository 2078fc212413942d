//! Axis 3: discrimination of losses by congestion from other losses.
//!
//! The verdict on a loss is a probability of congestion: CETEN scales its decrease by it, and other
//! discriminators return 0 or 1. A discriminator of this crate is a [`DiscriminatorPart`] in the
//! list below; other crates provide a [`MakeDiscriminator`].

mod always;
mod backlog;
mod error_share;
mod full_queue;
mod isolated_loss;
mod jitter_ratio;
mod oracle;
mod rate_gap;
mod spike;
mod spike_or_rate_gap;
mod warning;

pub use error_share::{ErrorShareConfig, TimeoutResponse};
pub use full_queue::FullQueueConfig;
pub use isolated_loss::{IsolatedLossConfig, IsolatedRule};
pub use jitter_ratio::{Jitter, JitterRatioConfig, JitterSpan, JitterTimeouts};
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
    /// The discriminator of one connection, which judges its losses.
    pub trait Discriminator: Debug + Send + Sync {
        /// Handles an acknowledgment, before the losses that it reports are judged. Called only for
        /// discriminators with [`DiscriminatorPart::HEARS_ACKS`] and those of other crates.
        @forward(inline) @boxed(inline(never))
        fn on_ack(&mut self, ack: &AckEvent) = ();
        /// Handles a notice of corruption that a notifier sent out of band.
        fn on_notice(&mut self, now: Time, notice: &Notice) = ();
        /// Counts `lost` packets that recovery found lost, by an acknowledgment or a timer of its
        /// own. Called before any of them is judged.
        fn on_lost(&mut self, path: &Path, lost: u64) = ();

        /// Returns the probability that a loss was due to congestion. Called once for each loss
        /// that recovery finds in a window without an earlier one: some discriminators draw a
        /// random number or remember the verdict.
        fn judge(&mut self, loss: &LossEvent) -> Probability;
        /// Returns the probability that a loss at this moment would be due to congestion, for
        /// recovery that needs it before a loss is found. Draws and remembers nothing.
        fn opinion(&self, loss: &LossEvent) -> Probability;

        /// The first loss of this window that is still to be judged by itself, after a loss that
        /// was judged not to be congestion. `None` after a verdict that reduces cwnd.
        @forward(inline)
        fn unjudged_from(&self) -> Option<u64> = None;
        /// [`Discriminator::judge`] for a further lost segment of a window, at or after
        /// [`Discriminator::unjudged_from`], when it is retransmitted.
        fn judge_repair(&mut self, loss: &LossEvent) -> Probability = self.judge(loss);
        /// [`Discriminator::judge`] for a timeout that resets the connection. Congestion, unless
        /// the discriminator's paper says otherwise.
        fn judge_timeout(&mut self, loss: &LossEvent) -> Probability = Probability::ONE;
        /// The window after the timeout judged last: one packet, unless the discriminator's paper
        /// says otherwise.
        fn after_timeout(&self) -> AfterTimeout = AfterTimeout::Restart;
    }
    impl for DiscriminatorState, by each;
}

/// Arguments for the construction of a discriminator.
#[derive(Debug)]
pub struct DiscriminatorSetup<'a> {
    /// The parameters of the two ends.
    pub endpoint: &'a EndpointConfig,
    /// Random numbers.
    pub stream: Stream,
}

/// A discriminator of this crate.
pub trait DiscriminatorPart: Part + Discriminator + Sized {
    /// True if every verdict is certain congestion. Only this goes with controllers that
    /// [do not heed verdicts](super::window::ControllerPart::HEEDS_VERDICTS).
    const NEVER_DOUBTS: bool = false;
    /// True if it needs acknowledgments ([`Discriminator::on_ack`]).
    const HEARS_ACKS: bool = true;
    /// The state at the start of a connection.
    fn new(config: &Self::Config, setup: DiscriminatorSetup<'_>) -> Self;
}

/// Constructor of a discriminator that another crate provides.
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
}

impl DiscriminatorConfig {
    /// True if every verdict is certain congestion.
    pub fn never_doubts(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::NEVER_DOUBTS, custom(_judge) => false)
    }
    /// True if it needs acknowledgments.
    pub fn hears_acks(&self) -> bool {
        each_kind!(self, J(_) => <J as DiscriminatorPart>::HEARS_ACKS, custom(_judge) => true)
    }
}
