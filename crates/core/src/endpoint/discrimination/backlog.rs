//! The backlog at the bottleneck as the sign of congestion: TCP Veno (Fu and Liew, IEEE JSAC 21(2),
//! 2003, section II; estcp2010, "TCP Veno").
//!
//! ```text
//! Expected = cwnd / BaseRTT     Actual = cwnd / RTT
//! N = (Expected - Actual) BaseRTT = cwnd (RTT - BaseRTT) / RTT
//! N <  threshold:  the loss is random, ssthresh = 4/5 cwnd
//! N >= threshold:  it is congestion,   ssthresh = 1/2 cwnd
//! ```
//!
//! The verdict is a probability p, and Reno's decrease leaves 1 - p/2 of the window. A random loss,
//! after which Veno keeps 0.8, has p = 0.4: every loss costs something.
//!
//! Fu and Liew use the smoothed RTT; Linux (tcp_veno.c) uses the smallest one since the last
//! acknowledgment, which is the latest sample. `veno.rtt` selects; the default is the smoothed RTT
//! (gain 1/8, RFC 6298, from exact samples). BaseRTT is the smallest RTT of the connection, or
//! since the last loss: see `estimator::backlog`.

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::estimator::{BacklogConfig, BacklogMeter};
use crate::endpoint::event::{AckEvent, LossEvent};
use crate::part::{Form, Part, Words};
use crate::units::Probability;

/// Veno's discrimination of losses.
#[derive(Debug, Clone)]
pub struct Backlog {
    meter: BacklogMeter,
    random: Probability,
}

impl Part for Backlog {
    type Config = BacklogConfig;
    const FORMS: &'static [Form<BacklogConfig>] = &[Form {
        words: Words {
            name: "backlog",
            what: "a loss with less than three packets in the queue is random and costs a fifth",
            source: "Fu and Liew 2003 section II",
        },
        config: BacklogConfig::DEFAULT,
    }];
}

impl DiscriminatorPart for Backlog {
    fn new(config: &BacklogConfig, _: DiscriminatorSetup<'_>) -> Self {
        // 1 - p/2 = 4/5.
        let random = Probability::new(0.4).unwrap_or(Probability::ONE);
        Backlog { meter: BacklogMeter::new(*config), random }
    }
}

impl Discriminator for Backlog {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.meter.on_ack(ack);
    }

    fn judge(&mut self, loss: &LossEvent) -> Probability {
        let verdict = self.opinion(loss);
        self.meter.on_loss();
        verdict
    }

    fn judge_timeout(&mut self, _: &LossEvent) -> Probability {
        self.meter.on_loss();
        Probability::ONE
    }

    fn opinion(&self, loss: &LossEvent) -> Probability {
        if self.meter.congested(&loss.path) { Probability::ONE } else { self.random }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::{BaseRtt, LossRate, VenoRtt};
    use crate::endpoint::event::{LossSign, Path};
    use crate::testing::new_discriminator;
    use crate::units::Duration;

    fn path(cwnd: f64, rtt: u64) -> Path {
        let (rtt, min_rtt) = (Duration::from_millis(rtt), Duration::from_millis(80));
        Path { cwnd, rtt, min_rtt, ..Path::default() }
    }

    /// The verdict on a loss after acknowledgments with these RTTs.
    fn verdict(config: BacklogConfig, cwnd: f64, rtts: &[u64]) -> f64 {
        let mut backlog = new_discriminator::<Backlog>(config);
        let mut latest = path(cwnd, 80);
        for rtt in rtts {
            latest = path(cwnd, *rtt);
            backlog.on_ack(&AckEvent { path: latest, newly_acked: 1, ..AckEvent::default() });
        }
        let sign = LossSign::Acknowledgments;
        backlog.judge(&LossEvent { path: latest, seq: 0, sign, rate: LossRate::default() }).get()
    }

    #[test]
    fn three_packets_in_the_queue_are_congestion() {
        let config = BacklogConfig::DEFAULT;
        // RTT 100 ms over 80: a fifth of the window waits. 15 packets: 3. 14 packets: 2.8.
        assert_eq!(verdict(config, 15.0, &[100]), 1.0);
        assert_eq!(verdict(config, 14.0, &[100]), 0.4);
        assert_eq!(verdict(config, 14.0, &[]), 0.4, "nothing known yet");
    }

    #[test]
    fn the_least_rtt_may_be_forgotten_at_a_loss() {
        // 80 ms, a loss, then 100 and 110 ms; the latest counts. BaseRTT of the connection: N = 20
        // x 30/110 = 5.5. Since the loss: 20 x 10/110 = 1.8.
        let latest = BacklogConfig { rtt: VenoRtt::Latest, ..BacklogConfig::DEFAULT };
        for (base_rtt, expected) in [(BaseRtt::Connection, 1.0), (BaseRtt::Loss, 0.4)] {
            let mut backlog = new_discriminator::<Backlog>(BacklogConfig { base_rtt, ..latest });
            let mut hear = |rtt| {
                let path = path(20.0, rtt);
                backlog.on_ack(&AckEvent { path, newly_acked: 1, ..AckEvent::default() });
                let sign = LossSign::Acknowledgments;
                LossEvent { path, seq: 0, sign, rate: LossRate::default() }
            };
            let first = hear(80);
            assert_eq!(backlog.judge(&first).get(), 0.4);
            let mut hear = |rtt| {
                let path = path(20.0, rtt);
                backlog.on_ack(&AckEvent { path, newly_acked: 1, ..AckEvent::default() });
                LossEvent { path, ..first }
            };
            hear(100);
            let second = hear(110);
            assert_eq!(backlog.judge(&second).get(), expected, "{base_rtt:?}");
        }
    }

    #[test]
    fn the_rtt_is_the_smoothed_one_unless_the_latest_is_asked_for() {
        // 80, then 160 ms: smoothed 90 ms, N = 20 x 10/90 = 2.2; latest: 20 x 80/160 = 10.
        let smoothed = BacklogConfig::DEFAULT;
        let latest = BacklogConfig { rtt: VenoRtt::Latest, ..smoothed };
        assert_eq!(verdict(smoothed, 20.0, &[80, 160]), 0.4);
        assert_eq!(verdict(latest, 20.0, &[80, 160]), 1.0);
    }
}
