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
        // Without timestamps there may be no sample yet.
        if ack.newly_acked > 0 && !ack.path.rtt.is_zero() {
            self.spike.on_rtt(ack.path.rtt);
        }
    }

    pub(super) fn judge(&self, loss: &LossEvent) -> Probability {
        let error = rate_gap::says_error(&self.rate_gap, &loss.path) || self.spike.in_error_mode();
        if error { Probability::ZERO } else { Probability::ONE }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LossSign;
    use super::*;
    use crate::endpoint::estimator::{LossRate, Path};
    use crate::units::Duration;

    #[test]
    fn an_acknowledgment_before_the_first_sample_is_no_rtt_of_zero() {
        let mut rule = SpikeOrRateGap::new(&EndpointConfig::default());
        let path = |ms| Path { cwnd: 10.0, rtt: Duration::from_millis(ms), ..Path::default() };
        for ms in [0, 100, 101, 100] {
            rule.on_ack(&AckEvent { path: path(ms), newly_acked: 1, ..AckEvent::default() });
        }
        // From 100 to 101 ms, the end of congestion mode is at 100.05 ms; from 0 to 101 ms it would
        // be at 5 ms.
        let (sign, rate) = (LossSign::Acknowledgments, LossRate::default());
        let verdict = rule.judge(&LossEvent { path: path(100), seq: 0, sign, rate });
        assert_eq!(verdict, Probability::ZERO);
    }
}
