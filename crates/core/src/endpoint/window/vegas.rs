//! TCP Vegas (Brakmo and Peterson, IEEE JSAC 13(8), 1995).
//!
//! A queue raises the round-trip time before it overflows. Vegas compares the rate that the window
//! would have without a queue with the actual rate, and keeps the difference, its packets in the
//! queue, between two bounds:
//!
//! ```text
//! Diff = cwnd / BaseRTT - cwnd / RTT;    N = Diff BaseRTT = cwnd (RTT - BaseRTT) / RTT
//! once per round trip, in congestion avoidance:
//!     N < alpha:  cwnd += 1        N > beta:  cwnd -= 1        alpha = 2, beta = 4 packets
//! slow start: one packet an ACK in every other round trip;
//!     N > gamma:  cwnd = 7/8 cwnd, then congestion avoidance                  gamma = 1
//! ```
//!
//! Readings and deviations:
//! - RTT is the smallest sample of the round trip (Linux, tcp_vegas.c), which delayed
//!   acknowledgments disturb least; the paper times one segment. Actual is cwnd over RTT and
//!   does not count bytes, as in Linux; cwnd does not grow in a round trip that it did not limit.
//! - BaseRTT is the smallest of the connection. Linux writes N = cwnd (RTT - BaseRTT) / BaseRTT,
//!   acts on it only with three samples or more, doubles every round trip in slow start and leaves
//!   it to cwnd BaseRTT / RTT + 1.
//! - The response to losses and timeouts is Reno's, as in Linux. Not implemented: the paper's
//!   fine-grained clock, with which the first duplicate may retransmit, and its cut by a quarter
//!   after that; recovery is another part.
//! - alpha, beta are the paper's Vegas-2,4; it also measures Vegas-1,3.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Duration;

/// The share of the window that remains when slow start ends (section III-C of the paper).
const AFTER_SLOW_START: f64 = 7.0 / 8.0;

crate::parameters! {
    /// Parameters of TCP Vegas.
    pub struct VegasConfig in "vegas", "parameters of vegas";
    /// The values of the paper.
    pub const DEFAULT;
    alpha: f64 = 2.0, PACKETS, "packets", "in the queue, below which the window grows";
    beta: f64 = 4.0, PACKETS, "packets", "in the queue, above which it shrinks; not below alpha";
    gamma: f64 = 1.0, PACKETS, "packets", "in the queue, above which slow start ends";
    @check(config) {
        if config.beta < config.alpha {
            return Err(format!(
                "vegas.beta ({}) is less than vegas.alpha ({})",
                config.beta, config.alpha
            ));
        }
        Ok(())
    }
}

const PACKETS: ValueKind = ValueKind::Number { least: 0.0, most: 1e6 };

/// The state of Vegas' window.
#[derive(Debug, Clone)]
pub struct Vegas {
    config: VegasConfig,
    cwnd: f64,
    ssthresh: f64,
    /// The smallest sample of this round trip.
    rtt: Option<Duration>,
    /// The packet whose acknowledgment ends the round trip.
    round_end: u64,
    /// True if slow start grows in this round trip.
    grows: bool,
    /// True if cwnd has limited the sender in this round trip.
    was_limited: bool,
}

impl Part for Vegas {
    type Config = VegasConfig;
    const FORMS: &'static [Form<VegasConfig>] = &[Form {
        words: Words {
            name: "vegas",
            what: "keeps two to four packets in the queue, by the round-trip time",
            source: "Brakmo and Peterson 1995",
        },
        config: VegasConfig::DEFAULT,
    }];
}

impl ControllerPart for Vegas {
    fn new(config: &VegasConfig, setup: ControllerSetup<'_>) -> Self {
        Vegas {
            config: *config,
            cwnd: setup.endpoint.initial_window,
            ssthresh: f64::INFINITY,
            rtt: None,
            round_end: 0,
            grows: true,
            was_limited: false,
        }
    }
}

impl Vegas {
    /// Adjusts the window after a round trip without losses.
    fn adjust(&mut self, rtt: Duration, base: Duration) {
        let (rtt, base) = (rtt.as_secs_f64(), base.as_secs_f64());
        let queued = self.cwnd * (rtt - base) / rtt;
        if self.cwnd < self.ssthresh {
            self.grows = !self.grows;
            if queued > self.config.gamma {
                self.cwnd = (self.cwnd * AFTER_SLOW_START).max(2.0);
                self.ssthresh = self.cwnd;
            }
        } else if queued < self.config.alpha && self.was_limited {
            self.cwnd += 1.0;
        } else if queued > self.config.beta {
            self.cwnd = (self.cwnd - 1.0).max(2.0);
            self.ssthresh = self.ssthresh.min(self.cwnd);
        }
    }

    /// Begins a round trip that ends when everything sent so far is acknowledged.
    fn begin_round(&mut self, high: u64) {
        self.round_end = high;
        self.rtt = None;
        self.was_limited = false;
    }
}

impl Controller for Vegas {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.in_recovery {
            return self.begin_round(ack.high);
        }
        if ack.newly_acked == 0 {
            return;
        }
        self.was_limited |= ack.cwnd_limited;
        if !ack.path.rtt.is_zero() {
            self.rtt = Some(self.rtt.map_or(ack.path.rtt, |least| least.min(ack.path.rtt)));
        }
        if self.cwnd < self.ssthresh && self.grows && ack.allows_growth() {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        }
        if ack.una > self.round_end {
            if let Some(rtt) = self.rtt {
                self.adjust(rtt, ack.path.min_rtt);
            }
            self.begin_round(ack.high);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(2.0);
        self.cwnd = self.ssthresh;
        self.begin_round(event.high);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(0.5)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
        self.grows = true;
        self.begin_round(event.high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::endpoint::tests::path::TestPath;
    use crate::testing::new_controller;

    fn vegas(cwnd: f64, ssthresh: f64) -> Vegas {
        let config = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        Vegas { ssthresh, ..new_controller::<Vegas>(VegasConfig::DEFAULT, &config) }
    }

    /// A round trip of `rtt` milliseconds with one acknowledgment, over a path of 80 ms.
    fn round(controller: &mut Vegas, rtt: u64) {
        controller.on_ack(&AckEvent {
            path: Path {
                rtt: Duration::from_millis(rtt),
                min_rtt: Duration::from_millis(80),
                ..Path::default()
            },
            newly_acked: 1,
            growth: 1.0,
            cwnd_limited: true,
            una: controller.round_end + 1,
            high: controller.round_end + 20,
            ..AckEvent::default()
        });
    }

    #[test]
    fn the_queue_stays_between_alpha_and_beta() {
        // 20 packets: N = 20 x 5/85 = 1.18; with 90 ms 2.2; with 105 ms 20 x 25/105 = 4.8.
        for (rtt, cwnd) in [(85, 21.0), (90, 20.0), (105, 19.0)] {
            let mut controller = vegas(20.0, 10.0);
            round(&mut controller, rtt);
            assert_eq!(controller.cwnd(), cwnd, "{rtt} ms");
        }
    }

    #[test]
    fn slow_start_grows_every_other_round_trip_and_stops_at_gamma() {
        let mut controller = vegas(8.0, f64::INFINITY);
        round(&mut controller, 80); // One acknowledgment of a round trip that grows: 9.
        assert_eq!(controller.cwnd(), 9.0);
        round(&mut controller, 80);
        assert_eq!(controller.cwnd(), 9.0);
        round(&mut controller, 80);
        assert_eq!(controller.cwnd(), 10.0);
        // N = 10 x 20/100 = 2: 7/8 of 10.
        round(&mut controller, 100);
        assert_eq!((controller.cwnd(), controller.ssthresh()), (8.75, 8.75));
    }

    #[test]
    fn losses_halve_and_spoil_the_round_trip() {
        let mut controller = vegas(20.0, 10.0);
        let path = Path { in_flight: 20.0, ..Path::default() };
        controller.on_congestion(&CongestionEvent { high: 50, ..CongestionEvent::certain(path) });
        assert_eq!((controller.cwnd(), controller.round_end, controller.rtt), (10.0, 50, None));
    }

    #[test]
    fn beta_is_not_below_alpha() {
        use crate::part::Parameters;
        let wrong = VegasConfig { beta: 1.0, ..VegasConfig::DEFAULT };
        assert_eq!(wrong.validate().unwrap_err(), "vegas.beta (1) is less than vegas.alpha (2)");
    }

    /// A path of 1000 packets per second and 80 ms: the pipe holds 80 packets and the one in
    /// transmission; the window settles where N is between 2 and 4, with no loss.
    #[test]
    fn alone_it_fills_the_pipe_and_two_to_four_packets_more() {
        let mut path = TestPath::new("vegas", 2.0, 1000, Duration::from_millis(80));
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(20), |_, _| {});
        let before = path.delivered();
        let mut windows = Vec::new();
        path.run(Duration::from_secs(10), |_, window| windows.push(window.cwnd()));
        assert_eq!(path.delivered() - before, 10_000, "the path is full");
        // BaseRTT is 81 ms with the packet's own transmission: N is cwnd beyond 81.
        let (low, high) = (
            windows.iter().copied().fold(f64::MAX, f64::min),
            windows.iter().copied().fold(0.0, f64::max),
        );
        assert!(low >= 83.0 - 1.0 && high <= 85.0 + 1.0, "{low} to {high}");
        assert_eq!(path.dropped, 0);
    }
}
