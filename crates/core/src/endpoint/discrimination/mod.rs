//! Axis 3: does a loss mean congestion?
//!
//! The verdict is a probability of congestion and not a yes or no: CETEN scales its decrease by
//! it, where others answer 0 or 1.

use super::EndpointConfig;
use super::estimator::Path;
use super::window::AckEvent;
use crate::rng::Stream;
use crate::units::Probability;

/// The ways to judge a loss, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discrimination {
    /// Every loss is congestion (RFC 5681).
    AlwaysCongestion,
    /// No loss is: congestion is signalled explicitly (lr2008 section 2.3).
    Never,
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
}

impl Discriminator {
    /// The state at the start of a connection. `stream` is for those that flip coins.
    pub fn new(kind: Discrimination, _config: &EndpointConfig, _stream: Stream) -> Self {
        match kind {
            Discrimination::AlwaysCongestion => Discriminator::AlwaysCongestion,
            Discrimination::Never => Discriminator::Never,
        }
    }

    /// An acknowledgment arrived; called before losses that it tells of are judged.
    #[inline]
    pub fn on_ack(&mut self, _ack: &AckEvent) {
        match self {
            Discriminator::AlwaysCongestion | Discriminator::Never => {}
        }
    }

    /// The probability that a loss was due to congestion.
    pub fn judge(&mut self, _loss: &LossEvent) -> Probability {
        match self {
            Discriminator::AlwaysCongestion => Probability::ONE,
            Discriminator::Never => Probability::ZERO,
        }
    }
}
