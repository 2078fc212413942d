//! The rate at which packets arrive at the receiver, estimated from acknowledgments.

mod per_rtt;

use per_rtt::PerRtt;

use super::Sample;

/// The bandwidth estimators by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthKind {
    /// Westwood+: one sample an RTT, so that compressed acknowledgments do not raise it.
    PerRtt,
}

/// The state of a bandwidth estimator.
#[derive(Debug, Clone)]
pub enum Bandwidth {
    /// See [`BandwidthKind::PerRtt`].
    PerRtt(PerRtt),
}

impl Bandwidth {
    /// An estimator that has seen nothing.
    pub fn new(kind: BandwidthKind) -> Self {
        match kind {
            BandwidthKind::PerRtt => Bandwidth::PerRtt(PerRtt::default()),
        }
    }

    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, sample: &Sample) {
        match self {
            Bandwidth::PerRtt(estimator) => estimator.on_ack(sample),
        }
    }

    /// The estimate, packets per second; zero before the first sample.
    pub fn rate(&self) -> f64 {
        match self {
            Bandwidth::PerRtt(estimator) => estimator.rate(),
        }
    }
}
