//! The loss discrimination of tcpwbr2003 section IV: a loss is an error if the Rate Gap Threshold
//! or Spike takes it for one, and congestion otherwise. The paper found the former right at low
//! error rates and the latter at high ones.
//!
//! With a rate gap threshold far above 1, in the reading of the text, only Spike has an effect.

use super::rate_gap::{self, RateGapConfig};
use super::spike::{Spike, SpikeConfig};
use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, LossEvent};
use crate::part::{Ability, Form, Need, Part, Words};
use crate::units::Probability;

crate::parameters! {
    /// Parameters of both.
    pub struct SpikeOrRateGapConfig in "", "";
    /// The defaults of both.
    pub const DEFAULT;
    /// Parameters of Spike.
    spike: SpikeConfig = SpikeConfig::DEFAULT => included;
    /// Parameters of the Rate Gap Threshold.
    rate_gap: RateGapConfig = RateGapConfig::DEFAULT => included;
}

/// The state of the two.
#[derive(Debug, Clone)]
pub struct SpikeOrRateGap {
    spike: Spike,
    rate_gap: RateGapConfig,
}

impl Part for SpikeOrRateGap {
    type Config = SpikeOrRateGapConfig;
    const FORMS: &'static [Form<SpikeOrRateGapConfig>] = &[Form {
        words: Words {
            name: "spike-or-rgt",
            what: "an error if RTTs are short or the rate is near cwnd/RTTmin, else congestion",
            source: "tcpwbr2003 section IV",
        },
        config: SpikeOrRateGapConfig::DEFAULT,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::Bandwidth],
        why: "there is no rate to compare with the expected one",
    }];
}

impl DiscriminatorPart for SpikeOrRateGap {
    fn new(config: &SpikeOrRateGapConfig, _: DiscriminatorSetup<'_>) -> Self {
        SpikeOrRateGap { spike: Spike::new(config.spike), rate_gap: config.rate_gap }
    }
}

impl Discriminator for SpikeOrRateGap {
    fn on_ack(&mut self, ack: &AckEvent) {
        // Without timestamps there may be no sample yet.
        if ack.newly_acked > 0 && !ack.path.rtt.is_zero() {
            self.spike.on_rtt(ack.path.rtt);
        }
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        self.opinion(loss)
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        let error = rate_gap::says_error(&self.rate_gap, &loss.path) || self.spike.in_error_mode();
        if error { Probability::ZERO } else { Probability::ONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::LossRate;
    use crate::endpoint::event::{LossSign, Path};
    use crate::testing::new_discriminator;
    use crate::units::Duration;

    #[test]
    fn an_acknowledgment_before_the_first_sample_is_no_rtt_of_zero() {
        let mut rule = new_discriminator::<SpikeOrRateGap>(SpikeOrRateGapConfig::DEFAULT);
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
