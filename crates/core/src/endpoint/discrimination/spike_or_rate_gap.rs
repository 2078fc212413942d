//! The loss discrimination of tcpwbr2003 section IV: a loss is an error if either the Rate Gap
//! Threshold or Spike takes it for one, and congestion if both do not. The paper found the first
//! right at low error rates and the second at high ones.
//!
//! A rate gap threshold far above 1, in the text's reading, leaves Spike alone.

use super::rate_gap::{self, RateGapConfig};
use super::spike::Spike;
use super::{EndpointConfig, LossEvent};
use crate::endpoint::window::AckEvent;
use crate::units::Probability;

/// The state of the two.
#[derive(Debug, Clone)]
pub struct SpikeOrRateGap {
    spike: Spike,
    rate_gap: RateGapConfig,
}

impl SpikeOrRateGap {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        SpikeOrRateGap { spike: Spike::new(config.spike), rate_gap: config.rate_gap }
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        if ack.newly_acked > 0 {
            self.spike.on_rtt(ack.path.rtt);
        }
    }

    pub(super) fn judge(&self, loss: &LossEvent) -> Probability {
        let error = rate_gap::says_error(&self.rate_gap, &loss.path) || self.spike.in_error_mode();
        if error { Probability::ZERO } else { Probability::ONE }
    }
}
