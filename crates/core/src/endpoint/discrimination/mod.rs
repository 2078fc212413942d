//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by
//! it, where others answer 0 or 1.

mod backlog;
mod jitter_ratio;
mod rate_gap;
mod spike;
mod spike_or_rate_gap;
mod warning;

pub use backlog::{BacklogMeter, VenoConfig, VenoRtt};
pub use jitter_ratio::{Jitter, JtcpConfig};

use backlog::Backlog;
use jitter_ratio::JitterRatio;
use warning::Warning;

use super::EndpointConfig;
use super::estimator::Path;
use super::window::AckEvent;
use crate::rng::Stream;
use crate::units::Probability;

use spike_or_rate_gap::SpikeOrRateGap;

pub use rate_gap::{RateGapConfig, Reading};
pub use spike::SpikeConfig;

/// The ways to judge a loss, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discrimination {
    /// Every loss is congestion (RFC 5681).
    AlwaysCongestion,
    /// No loss is: congestion is signalled explicitly (lr2008 section 2.3).
    Never,
    /// A loss with a backlog below a threshold is random, and costs less (Veno).
    Backlog,
    /// A loss with little jitter is corruption (JTCP).
    JitterRatio,
    /// A loss without the routers' congestion warning is corruption (New Jersey).
    Warning,
    /// Errors are what Spike or the Rate Gap Threshold takes for errors (tcpwbr2003 section IV).
    SpikeOrRateGap,
}

/// A loss, as discrimination sees it.
#[derive(Debug, Clone, Copy)]
pub struct LossEvent {
    /// The path when the loss was noticed.
    pub path: Path,
    /// The data that is missing, the first of it.
    pub seq: u64,
    /// What told of it.
    pub sign: LossSign,
}

/// What tells a sender of a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossSign {
    /// Acknowledgments of later packets.
    Acknowledgments,
    /// Silence: the recovery timer expired.
    Timeout,
}

/// The state of discrimination.
#[derive(Debug, Clone)]
pub enum Discriminator {
    /// See [`Discrimination::AlwaysCongestion`].
    AlwaysCongestion,
    /// See [`Discrimination::Never`].
    Never,
    /// See [`Discrimination::Backlog`].
    Backlog(Backlog),
    /// See [`Discrimination::JitterRatio`].
    JitterRatio(JitterRatio),
    /// See [`Discrimination::Warning`].
    Warning(Warning),
    /// See [`Discrimination::SpikeOrRateGap`].
    SpikeOrRateGap(SpikeOrRateGap),
}

impl Discriminator {
    /// The state at the start of a connection. `stream` is for those that flip coins.
    pub fn new(kind: Discrimination, config: &EndpointConfig, _stream: Stream) -> Self {
        match kind {
            Discrimination::AlwaysCongestion => Discriminator::AlwaysCongestion,
            Discrimination::Never => Discriminator::Never,
            Discrimination::Backlog => Discriminator::Backlog(Backlog::new(config.veno)),
            Discrimination::JitterRatio => {
                Discriminator::JitterRatio(JitterRatio::new(config.jtcp))
            }
            Discrimination::Warning => Discriminator::Warning(Warning::default()),
            Discrimination::SpikeOrRateGap => {
                Discriminator::SpikeOrRateGap(SpikeOrRateGap::new(config))
            }
        }
    }

    /// An acknowledgment arrived; called before losses that it tells of are judged.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckEvent) {
        match self {
            Discriminator::SpikeOrRateGap(rule) => rule.on_ack(ack),
            Discriminator::AlwaysCongestion | Discriminator::Never => {}
            Discriminator::Backlog(backlog) => backlog.on_ack(ack),
            Discriminator::JitterRatio(ratio) => ratio.on_ack(ack),
            Discriminator::Warning(warning) => warning.on_ack(ack),
        }
    }

    /// The probability that a loss was due to congestion.
    pub fn judge(&mut self, loss: &LossEvent) -> Probability {
        match self {
            Discriminator::AlwaysCongestion => Probability::ONE,
            Discriminator::Never => Probability::ZERO,
            Discriminator::Backlog(backlog) => backlog.judge(loss),
            Discriminator::JitterRatio(ratio) => ratio.judge(loss),
            Discriminator::Warning(warning) => warning.judge(),
            Discriminator::SpikeOrRateGap(rule) => rule.judge(loss),
        }
    }
}
