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
//! The verdict is a probability and Reno's decrease is 1 - p/2, so that a random loss, of which
//! Veno keeps 0.8, has p = 0.4: Veno is not sure enough to let a loss pass.
//!
//! Fu and Liew take the smoothed RTT; Linux (tcp_veno.c) the smallest of those since the last
//! acknowledgment, which is the latest. `veno.rtt` chooses; the smoothed one (gain 1/8, RFC 6298,
//! from exact samples) is the default. BaseRTT is the smallest RTT of the connection.

use super::LossEvent;
use crate::endpoint::estimator::Path;
use crate::endpoint::window::AckEvent;
use crate::units::Probability;

/// Which RTT the backlog is computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VenoRtt {
    /// The smoothed one (Fu and Liew 2003).
    Smoothed,
    /// The latest sample (Linux).
    Latest,
}

/// The parameters of TCP Veno.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VenoConfig {
    /// theta (beta in Fu and Liew): packets in the backlog from which a loss is congestion and the
    /// increase is halved; 3 in the paper, any number from 0.
    pub threshold: f64,
    /// The RTT in N.
    pub rtt: VenoRtt,
}

impl Default for VenoConfig {
    fn default() -> Self {
        VenoConfig { threshold: 3.0, rtt: VenoRtt::Smoothed }
    }
}

/// What Veno's decrease and its increase know of the backlog.
#[derive(Debug, Clone)]
pub struct BacklogMeter {
    config: VenoConfig,
    /// Seconds; zero before the first sample.
    rtt: f64,
}

impl BacklogMeter {
    /// A meter without samples.
    pub fn new(config: VenoConfig) -> Self {
        BacklogMeter { config, rtt: 0.0 }
    }

    /// An acknowledgment arrived.
    pub fn on_ack(&mut self, ack: &AckEvent) {
        if ack.newly_acked == 0 {
            return; // No sample.
        }
        let sample = ack.path.rtt.as_secs_f64();
        let first = self.rtt == 0.0 || self.config.rtt == VenoRtt::Latest;
        self.rtt = if first { sample } else { self.rtt + (sample - self.rtt) / 8.0 };
    }

    /// Is N at or above the threshold?
    pub fn congested(&self, path: &Path) -> bool {
        let base = path.min_rtt.as_secs_f64();
        let backlog = if self.rtt > 0.0 { path.cwnd * (self.rtt - base) / self.rtt } else { 0.0 };
        backlog >= self.config.threshold
    }
}

/// Veno's judgement of losses.
#[derive(Debug, Clone)]
pub struct Backlog {
    meter: BacklogMeter,
    random: Probability,
}

impl Backlog {
    pub(super) fn new(config: VenoConfig) -> Self {
        // 1 - p/2 = 4/5.
        let random = Probability::new(0.4).unwrap_or(Probability::ONE);
        Backlog { meter: BacklogMeter::new(config), random }
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        self.meter.on_ack(ack);
    }

    pub(super) fn judge(&self, loss: &LossEvent) -> Probability {
        if self.meter.congested(&loss.path) { Probability::ONE } else { self.random }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::discrimination::LossSign;
    use crate::endpoint::estimator::LossRate;
    use crate::units::Duration;

    fn path(cwnd: f64, rtt: u64) -> Path {
        let (rtt, min_rtt) = (Duration::from_millis(rtt), Duration::from_millis(80));
        Path { cwnd, rtt, min_rtt, ..Path::default() }
    }

    /// The verdict on a loss after acknowledgments with these RTTs.
    fn verdict(config: VenoConfig, cwnd: f64, rtts: &[u64]) -> f64 {
        let mut backlog = Backlog::new(config);
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
        let config = VenoConfig::default();
        // RTT 100 ms over 80: a fifth of the window waits. 15 packets: 3. 14 packets: 2.8.
        assert_eq!(verdict(config, 15.0, &[100]), 1.0);
        assert_eq!(verdict(config, 14.0, &[100]), 0.4);
        assert_eq!(verdict(config, 14.0, &[]), 0.4, "nothing known yet");
    }

    #[test]
    fn the_rtt_is_the_smoothed_one_unless_the_latest_is_asked_for() {
        // 80, then 160 ms: smoothed 90 ms, N = 20 x 10/90 = 2.2; latest: 20 x 80/160 = 10.
        let smoothed = VenoConfig::default();
        let latest = VenoConfig { rtt: VenoRtt::Latest, ..smoothed };
        assert_eq!(verdict(smoothed, 20.0, &[80, 160]), 0.4);
        assert_eq!(verdict(latest, 20.0, &[80, 160]), 1.0);
    }
}
