//! The rate at which packets arrive at the receiver, estimated from acknowledgments.

mod be;
mod ere;
mod low_pass;
mod per_rtt;

use be::Be;
use ere::Ere;
use per_rtt::PerRtt;

use super::BandwidthSample;
use crate::units::Time;

/// The bandwidth estimators by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BandwidthKind {
    /// Westwood: one sample per acknowledgment.
    Be,
    /// Westwood: samples over an interval that grows with congestion.
    Ere,
    /// Westwood+: one sample per RTT, so that compressed acknowledgments do not raise it.
    PerRtt,
}
crate::words!(BandwidthKind { Be = "be", Ere = "ere", PerRtt = "per-rtt" });

/// The state of a bandwidth estimator.
#[derive(Debug, Clone)]
pub enum Bandwidth {
    /// See [`BandwidthKind::Be`].
    Be(Be),
    /// See [`BandwidthKind::Ere`].
    Ere(Ere),
    /// See [`BandwidthKind::PerRtt`].
    PerRtt(PerRtt),
}

impl Bandwidth {
    /// An estimator without samples.
    pub fn new(kind: BandwidthKind) -> Self {
        match kind {
            BandwidthKind::Be => Bandwidth::Be(Be::default()),
            BandwidthKind::Ere => Bandwidth::Ere(Ere::default()),
            BandwidthKind::PerRtt => Bandwidth::PerRtt(PerRtt::default()),
        }
    }

    /// Handles an acknowledgment.
    pub fn on_ack(&mut self, sample: &BandwidthSample) {
        match self {
            Bandwidth::Be(estimator) => estimator.on_ack(sample),
            Bandwidth::Ere(estimator) => estimator.on_ack(sample),
            Bandwidth::PerRtt(estimator) => estimator.on_ack(sample),
        }
    }

    /// Handles the expiry of a timer without an acknowledgment since the latest.
    pub fn on_silence(&mut self, now: Time) {
        match self {
            Bandwidth::Be(estimator) => estimator.on_silence(now),
            Bandwidth::Ere(_) | Bandwidth::PerRtt(_) => {}
        }
    }

    /// The estimate, packets per second; zero before the first sample.
    pub fn rate(&self) -> f64 {
        match self {
            Bandwidth::Be(estimator) => estimator.rate(),
            Bandwidth::Ere(estimator) => estimator.rate(),
            Bandwidth::PerRtt(estimator) => estimator.rate(),
        }
    }
}
