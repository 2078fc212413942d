//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by
//! it, where others answer 0 or 1.

mod backlog;
mod error_share;
mod jitter_ratio;
mod oracle;
mod rate_gap;
mod spike;
mod spike_or_rate_gap;
mod warning;

pub use backlog::{BacklogMeter, VenoConfig, VenoRtt};
pub use error_share::{CetenConfig, TimeoutResponse};
pub use jitter_ratio::{Jitter, JtcpConfig};
pub use rate_gap::{RateGapConfig, Reading};
pub use spike::SpikeConfig;

use backlog::Backlog;
use error_share::ErrorShare;
use jitter_ratio::JitterRatio;
use oracle::Oracle;
use spike_or_rate_gap::SpikeOrRateGap;
use warning::Warning;

use super::EndpointConfig;
use super::estimator::{LossRate, Path};
use super::feedback::Notice;
use super::window::AckEvent;
use crate::rng::Stream;
use crate::units::{Probability, Time};

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
    /// Notices of corrupted packets say which losses are not (eten2004 section 2.1).
    Oracle,
    /// The share e/p of the losses that corruption causes (eten2004 section 4.3).
    ErrorShare {
        /// Scale the decrease by it (CETEN_A) instead of flipping a coin of its weight (CETEN_P).
        adaptive: bool,
    },
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
    /// What the connection has lost before.
    pub rate: LossRate,
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
    /// See [`Discrimination::Oracle`].
    Oracle(Oracle),
    /// See [`Discrimination::ErrorShare`].
    ErrorShare(Box<ErrorShare>),
}

impl Discriminator {
    /// The state at the start of a connection. `stream` is for those that flip coins.
    pub fn new(kind: Discrimination, config: &EndpointConfig, stream: Stream) -> Self {
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
            Discrimination::Oracle => Discriminator::Oracle(Oracle::default()),
            Discrimination::ErrorShare { adaptive } => {
                Discriminator::ErrorShare(Box::new(ErrorShare::new(adaptive, config.ceten, stream)))
            }
        }
    }

    /// An acknowledgment arrived; called before losses that it tells of are judged.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckEvent) {
        match self {
            Discriminator::AlwaysCongestion | Discriminator::Never => {}
            Discriminator::Backlog(backlog) => backlog.on_ack(ack),
            Discriminator::JitterRatio(ratio) => ratio.on_ack(ack),
            Discriminator::Warning(warning) => warning.on_ack(ack),
            Discriminator::SpikeOrRateGap(rule) => rule.on_ack(ack),
            Discriminator::Oracle(oracle) => oracle.on_ack(ack),
            Discriminator::ErrorShare(share) => share.on_ack(ack),
        }
    }

    /// A notifier tells of corruption out of band.
    pub fn on_notice(&mut self, now: Time, notice: &Notice) {
        match self {
            Discriminator::Oracle(oracle) => oracle.on_notice(notice),
            Discriminator::ErrorShare(share) => share.on_notice(now, notice),
            _ => {}
        }
    }

    /// The probability that a loss was due to congestion. To be asked once for each loss: some
    /// flip a coin, or remember the verdict.
    pub fn judge(&mut self, loss: &LossEvent) -> Probability {
        match self {
            Discriminator::AlwaysCongestion => Probability::ONE,
            Discriminator::Never => Probability::ZERO,
            Discriminator::Backlog(backlog) => backlog.judge(loss),
            Discriminator::JitterRatio(ratio) => ratio.judge(loss),
            Discriminator::Warning(warning) => warning.judge(),
            Discriminator::SpikeOrRateGap(rule) => rule.judge(loss),
            Discriminator::Oracle(oracle) => oracle.judge(loss),
            Discriminator::ErrorShare(share) => share.judge(loss),
        }
    }

    /// Where a loss was judged not to be congestion and those after it in its window are still
    /// to be judged one by one: the first of these. Ends with a verdict that reduces cwnd.
    #[inline]
    pub fn unjudged_from(&self) -> Option<u64> {
        match self {
            Discriminator::Oracle(oracle) => oracle.unjudged_from(),
            Discriminator::ErrorShare(share) => share.unjudged_from(),
            _ => None,
        }
    }

    /// As [`Discriminator::judge`] for a further lost segment of a window, at or after
    /// [`Discriminator::unjudged_from`], when it is sent again.
    pub fn judge_repair(&mut self, loss: &LossEvent) -> Probability {
        match self {
            Discriminator::Oracle(oracle) => oracle.judge_repair(loss),
            Discriminator::ErrorShare(share) => share.judge_repair(loss),
            _ => self.judge(loss),
        }
    }

    /// As [`Discriminator::judge`] for a timeout that resets the connection: congestion, but for
    /// those whose papers say otherwise.
    pub fn judge_reset(&mut self, loss: &LossEvent) -> Probability {
        match self {
            Discriminator::Oracle(oracle) => oracle.judge(loss),
            Discriminator::ErrorShare(share) => share.judge(loss),
            Discriminator::AlwaysCongestion
            | Discriminator::Never
            | Discriminator::Backlog(_)
            | Discriminator::JitterRatio(_)
            | Discriminator::Warning(_)
            | Discriminator::SpikeOrRateGap(_) => Probability::ONE,
        }
    }

    /// Does the verdict on a timeout decide over cwnd too? Otherwise cwnd becomes one packet.
    pub fn keeps_window_on_timeout(&self) -> bool {
        matches!(self, Discriminator::ErrorShare(share) if share.keeps_window())
    }
}
