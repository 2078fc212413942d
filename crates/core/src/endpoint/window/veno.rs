//! The window of TCP Veno (Fu and Liew, IEEE JSAC 21(2), 2003, section II; estcp2010, "TCP Veno").
//!
//! Reno with a slower increase: while the backlog N is at or above the threshold the pipe counts as
//! full, and only every other acknowledgment of new data adds 1/cwnd. After a loss four fifths or a
//! half of the window remain, by the verdict of `discrimination::backlog` and Reno's decrease.
//!
//! Here every acknowledgment adds half of 1/cwnd, which is equivalent and needs no parity. Linux
//! (tcp_veno.c) behaves as Reno up to the third RTT sample; this controller does not. The decrease
//! applies to the packets in flight (RFC 5681), where the paper says cwnd.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::estimator::{BacklogConfig, BacklogMeter};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, Words};

/// The state of Veno's window.
#[derive(Debug, Clone)]
pub struct Veno {
    cwnd: f64,
    ssthresh: f64,
    meter: BacklogMeter,
}

impl Part for Veno {
    type Config = BacklogConfig;
    const FORMS: &'static [Form<BacklogConfig>] = &[Form {
        words: Words {
            name: "veno",
            what: "as reno, but half as fast while packets wait at the bottleneck",
            source: "Fu and Liew 2003 section II",
        },
        config: BacklogConfig::DEFAULT,
    }];
}

impl ControllerPart for Veno {
    fn new(config: &BacklogConfig, setup: ControllerSetup<'_>) -> Self {
        let meter = BacklogMeter::new(*config);
        Veno { cwnd: setup.endpoint.initial_window, ssthresh: f64::INFINITY, meter }
    }
}

impl Controller for Veno {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        self.meter.on_ack(ack);
        if !ack.allows_growth() {
            return;
        }
        let slow = self.cwnd >= self.ssthresh && self.meter.congested(&ack.path);
        let growth = if slow { 0.5 * ack.growth } else { ack.growth };
        self.cwnd = reno::grown(self.cwnd, self.ssthresh, growth);
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.meter.on_loss();
        self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(2.0);
        self.cwnd = self.ssthresh;
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.meter.on_loss();
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
    use crate::units::{Duration, Probability};

    fn path(cwnd: f64, rtt: u64) -> Path {
        let (rtt, min_rtt) = (Duration::from_millis(rtt), Duration::from_millis(80));
        Path { cwnd, in_flight: cwnd, rtt, min_rtt, ..Path::default() }
    }

    /// A window of 20 packets in congestion avoidance.
    fn avoiding() -> Veno {
        let mut veno = new_controller::<Veno>(BacklogConfig::DEFAULT, &EndpointConfig::default());
        let event = CongestionEvent::certain(path(40.0, 80));
        veno.on_congestion(&event);
        assert_eq!(veno.cwnd(), 20.0);
        veno
    }

    #[test]
    fn growth_is_halved_at_a_backlog_of_three() {
        let ack = |rtt| AckEvent {
            path: path(20.0, rtt),
            newly_acked: 1,
            cwnd_limited: true,
            growth: 1.0,
            ..AckEvent::default()
        };
        // RTT 90: N = 20 x 10/90 = 2.2. RTT 100: N = 20 x 20/100 = 4.
        let mut veno = avoiding();
        veno.on_ack(&ack(90));
        assert!((veno.cwnd() - 20.05).abs() < 1e-12, "1/20 more");
        let mut veno = avoiding();
        veno.on_ack(&ack(100));
        assert!((veno.cwnd() - 20.025).abs() < 1e-12, "half of that");
    }

    #[test]
    fn a_random_loss_leaves_four_fifths() {
        let mut veno = avoiding();
        let probability = Probability::new(0.4).unwrap();
        veno.on_congestion(&CongestionEvent {
            probability,
            ..CongestionEvent::certain(path(20.0, 80))
        });
        assert!((veno.cwnd() - 16.0).abs() < 1e-12);
    }
}
