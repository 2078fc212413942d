//! TCP Hybla (Caini and Firrincieli, International Journal of Satellite Communications and
//! Networking 22(5), 2004): the growth of a short reference connection on a path with a long round
//! trip.
//!
//! Reno grows with each acknowledgment, and so the slower the longer the round trip is. In Hybla
//! cwnd / RTT grows as fast in time as in a Reno connection with RTT0:
//!
//! ```text
//! rho                   = max(RTT / RTT0, 1)                      RTT0 = 25 ms
//! at the start:           cwnd = rho initial_window
//! slow start:             cwnd += 2^rho - 1       on every ACK
//! congestion avoidance:   cwnd += rho^2 / cwnd    on every ACK
//! ```
//!
//! In addition the paper demands selective acknowledgments, packet spacing and Hoe's estimate of
//! the bandwidth (SIGCOMM 1996) as the first ssthresh. All are implemented: without the last, a
//! single ACK after 600 ms would open the window by 2^24 packets.
//!
//! Readings and deviations:
//! - RTT is the smallest sample, so that a queue does not accelerate its own growth; Linux
//!   (tcp_hybla.c) takes the smallest smoothed RTT.
//! - The first ssthresh is the smallest RTT times the rate at which the first two ACKs arrived;
//!   Hoe fits a line through several. Before this estimate slow start adds at most one packet per
//!   ACK. Linux has no estimate and starts with an unbounded ssthresh. An ACK does not raise cwnd
//!   beyond ssthresh, or by more than 2^16 packets, as in Linux.
//! - Spacing is 1.25 cwnd over the smoothed RTT (RFC 9002 section 7.7).
//! - The response to congestion and timeouts is Reno's; after a timeout the window starts at one
//!   packet (RFC 5681), not at rho, as in Linux. ssthresh after a loss is half of the packets in
//!   flight, which are already scaled by rho.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// The largest growth by one acknowledgment, packets (Linux, tcp_hybla.c).
const MOST_PER_ACK: f64 = 65_536.0;

crate::parameters! {
    /// Parameters of TCP Hybla.
    #[derive(Eq)]
    pub struct HyblaConfig in "hybla", "parameters of hybla";
    /// The value of the paper.
    pub const DEFAULT;
    rtt0: Duration = Duration::from_millis(25),
        ValueKind::Time { least: Duration::from_ps(1), most: Duration::from_secs(1000) }, "",
        "round-trip time of the reference connection";
}

/// The state of Hybla's window.
#[derive(Debug, Clone)]
pub struct Hybla {
    config: HyblaConfig,
    cwnd: f64,
    ssthresh: f64,
    /// 0 before the first RTT sample.
    rho: f64,
    /// The time of the last acknowledgment, until Hoe's estimate has set ssthresh.
    last_ack: Option<Time>,
}

impl Part for Hybla {
    type Config = HyblaConfig;
    const FORMS: &'static [Form<HyblaConfig>] = &[Form {
        words: Words {
            name: "hybla",
            what: "as reno, but as fast in time as with a round trip of 25 ms; paced",
            source: "Caini and Firrincieli 2004",
        },
        config: HyblaConfig::DEFAULT,
    }];
}

impl ControllerPart for Hybla {
    /// Packet spacing.
    const PACES: bool = true;
    fn new(config: &HyblaConfig, setup: ControllerSetup<'_>) -> Self {
        let (cwnd, ssthresh) = (setup.endpoint.initial_window, f64::INFINITY);
        Hybla { config: *config, cwnd, ssthresh, rho: 0.0, last_ack: None }
    }
}

impl Hybla {
    /// Computes rho from the smallest RTT. The first rho scales the window.
    fn measure(&mut self, ack: &AckEvent) {
        let min_rtt = ack.path.min_rtt;
        if min_rtt.is_zero() {
            return;
        }
        let is_first = self.rho == 0.0;
        self.rho = (min_rtt.as_secs_f64() / self.config.rtt0.as_secs_f64()).max(1.0);
        if is_first {
            self.cwnd *= self.rho;
        }
    }

    /// Sets ssthresh to Hoe's estimate, from the first two acknowledgments of new data that are not
    /// simultaneous.
    fn estimate(&mut self, ack: &AckEvent) {
        if self.ssthresh.is_finite() || ack.newly_acked == 0 {
            return;
        }
        let gap = self.last_ack.map_or(Duration::ZERO, |last| ack.path.now.since(last));
        self.last_ack = Some(ack.path.now);
        if !gap.is_zero() {
            let rate = ack.newly_acked as f64 / gap.as_secs_f64();
            self.ssthresh = (rate * ack.path.min_rtt.as_secs_f64()).max(2.0);
        }
    }
}

impl Controller for Hybla {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        self.measure(ack);
        self.estimate(ack);
        if !ack.allows_growth() {
            return;
        }
        if self.rho == 0.0 || self.ssthresh.is_infinite() {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        } else if self.cwnd < self.ssthresh {
            let step = (libm::exp2(self.rho) - 1.0).min(MOST_PER_ACK);
            self.cwnd = (self.cwnd + ack.growth * step).min(self.ssthresh);
        } else {
            let step = ack.growth * self.rho * self.rho / self.cwnd;
            self.cwnd += step.min(MOST_PER_ACK);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(2.0);
        self.cwnd = self.ssthresh;
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::testing::new_controller;

    /// An acknowledgment of one packet at `at` milliseconds, over a path of `rtt` milliseconds.
    fn ack(at: u64, rtt: u64) -> AckEvent {
        let rtt = Duration::from_millis(rtt);
        let now = Time::ZERO + Duration::from_millis(at);
        AckEvent {
            path: Path { now, rtt, min_rtt: rtt, ..Path::default() },
            newly_acked: 1,
            growth: 1.0,
            cwnd_limited: true,
            ..AckEvent::default()
        }
    }

    fn hybla(rtt0: u64) -> Hybla {
        let config = HyblaConfig { rtt0: Duration::from_millis(rtt0) };
        new_controller::<Hybla>(
            config,
            &EndpointConfig { initial_window: 2.0, ..EndpointConfig::default() },
        )
    }

    #[test]
    fn a_short_path_is_renos() {
        // 20 ms: rho = 1. 2 + 1; then 2^1 - 1 = 1 more: 4. ssthresh: 1 packet per ms, 20 ms.
        let mut controller = hybla(25);
        controller.on_ack(&ack(20, 20));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (3.0, f64::INFINITY));
        controller.on_ack(&ack(21, 20));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (4.0, 20.0));
        // Congestion avoidance from 20: 1/20.
        controller.cwnd = 20.0;
        controller.on_ack(&ack(22, 20));
        assert_eq!(controller.cwnd(), 20.05);
    }

    #[test]
    fn a_long_path_grows_by_powers_of_rho() {
        // 100 ms: rho = 4; the window starts at 2 x 4, and one more for the first ACK.
        let mut controller = hybla(25);
        controller.on_ack(&ack(100, 100));
        assert_eq!(controller.cwnd(), 9.0);
        // 2 ms later: 500 packets per second for 100 ms are 50. 2^4 - 1 = 15 more.
        controller.on_ack(&ack(102, 100));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (24.0, 50.0));
        controller.on_ack(&ack(104, 100));
        assert_eq!(controller.cwnd(), 39.0);
        controller.on_ack(&ack(106, 100));
        assert_eq!(controller.cwnd(), 50.0, "no further than ssthresh");
        // 4^2 / 50 = 0.32.
        controller.on_ack(&ack(108, 100));
        assert!((controller.cwnd() - 50.32).abs() < 1e-12);
    }

    #[test]
    fn rtt0_is_the_yardstick() {
        // 100 ms against 50 ms: rho = 2, hence 4 / cwnd.
        let mut controller = hybla(50);
        controller.on_ack(&ack(100, 100));
        controller.ssthresh = 10.0;
        controller.cwnd = 10.0;
        controller.on_ack(&ack(101, 100));
        assert!((controller.cwnd() - 10.4).abs() < 1e-12);
    }

    #[test]
    fn losses_halve_what_is_in_flight() {
        let mut controller = hybla(25);
        let path = Path { in_flight: 40.0, ..Path::default() };
        controller.on_congestion(&CongestionEvent::certain(path));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (20.0, 20.0));
        controller.on_reset(&ResetEvent::timeout(path));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 20.0));
    }
}
