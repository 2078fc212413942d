//! The window of TCP New Jersey (Xu, Tian and Ansari, Computer Networks 47(2), 2005; its
//! predecessor TCP-Jersey, IEEE JSAC 22(4), 2004; estcp2010, "TCP New Jersey").
//!
//! The window grows as Reno's. The timestamp-based available bandwidth estimator (TABE) uses the
//! arrival times at the receiver, which ACK compression does not change, and gives the optimal
//! window:
//!
//! ```text
//! R_n  = (RTT R_{n-1} + L_n) / ((t_n - t_{n-1}) + RTT)     t_n: arrival at the receiver
//! ownd = RTTmin R_n / segment size
//! ```
//!
//! A loss with a congestion warning of the routers sets ssthresh and cwnd to ownd; a loss without
//! one changes nothing (`discrimination::warning`). A timeout starts again from one packet, with
//! ssthresh at ownd.
//!
//! estcp2010: "Window updating by MD is performed only upon confirmation from the CW signal". Taken
//! literally, a warning without a loss changes nothing. In Xu et al. 2004 a marked acknowledgment
//! alone causes rate control: `new_jersey.on_warning = true` does that, once per RTT.
//!
//! RTTmin is Westwood's, with which estcp2010 compares New Jersey. The module of TCP-Jersey for
//! ns-3 uses the latest RTT instead, which preserves the queue: `new_jersey.rtt = "latest"`. The
//! paper of 2005 was not available.
//!
//! L_n is the number of packets that an acknowledgment reports as arrived, including duplicates.
//! RTT is the latest sample. Rate control never raises the window.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::estimator::{ArrivalCounter, Counting};
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::packet::{CongestionHeader, Flags};
use crate::part::{Ability, Form, Need, Part, ValueKind, Words};
use crate::units::{Probability, Time};

crate::parameters! {
    /// The parameters of TCP New Jersey.
    #[derive(Eq)]
    pub struct NewJerseyConfig in "new_jersey", "parameters of new-jersey";
    /// The description of estcp2010.
    pub const DEFAULT;
    /// Once per RTT.
    on_warning: bool = false, ValueKind::Bool, "", "let a warning without a loss set the window";
    rtt: JerseyRtt = JerseyRtt::Smallest,
        ValueKind::Word(JerseyRtt::WORDS), "", "RTT of the optimal window";
}

/// The RTT of New Jersey's optimal window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JerseyRtt {
    /// The smallest one.
    #[default]
    Smallest,
    /// The latest sample (TCP-Jersey for ns-3).
    Latest,
}
crate::words!(JerseyRtt { Smallest = "smallest", Latest = "latest" });

/// The state of New Jersey's window.
#[derive(Debug, Clone)]
pub struct NewJersey {
    config: NewJerseyConfig,
    cwnd: f64,
    ssthresh: f64,
    arrivals: ArrivalCounter,
    /// R: packets per second.
    rate: f64,
    /// t_n of the latest acknowledgment.
    received: Option<Time>,
    controlled: Option<Time>,
}

impl Part for NewJersey {
    type Config = NewJerseyConfig;
    const FORMS: &'static [Form<NewJerseyConfig>] = &[Form {
        words: Words {
            name: "new-jersey",
            what: "as reno, but to RTTmin times the arrival rate at the receiver on congestion",
            source: "Xu, Tian and Ansari 2005",
        },
        config: NewJerseyConfig::DEFAULT,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::ArrivalTimes],
        why: "the rate of arrivals cannot be estimated",
    }];
}

impl ControllerPart for NewJersey {
    fn new(config: &NewJerseyConfig, setup: ControllerSetup<'_>) -> Self {
        NewJersey {
            config: *config,
            cwnd: setup.endpoint.initial_window,
            ssthresh: f64::INFINITY,
            arrivals: ArrivalCounter::new(Counting::Exact),
            rate: 0.0,
            received: None,
            controlled: None,
        }
    }
}

impl NewJersey {
    fn estimate(&mut self, ack: &AckEvent) {
        let arrived = self.arrivals.on_ack(ack.newly_acked);
        let CongestionHeader::Timestamps { received } = ack.header else { return };
        let rtt = ack.path.rtt.as_secs_f64();
        let Some(before) = self.received.replace(received) else { return };
        if rtt > 0.0 {
            let passed = received.since(before).as_secs_f64();
            self.rate = (rtt * self.rate + arrived as f64) / (passed + rtt);
        }
    }

    /// The optimal window.
    fn ownd(&self, path: &Path) -> f64 {
        let rtt = match self.config.rtt {
            JerseyRtt::Smallest => path.min_rtt,
            JerseyRtt::Latest => path.rtt,
        };
        (rtt.as_secs_f64() * self.rate).max(2.0)
    }

    /// Moves the window to the optimal one, in proportion to the probability of congestion.
    fn rate_control(&mut self, path: &Path, likely: Probability) {
        self.controlled = Some(path.now);
        self.ssthresh = self.ownd(path);
        self.cwnd = likely.toward(self.cwnd, self.cwnd.min(self.ssthresh));
    }
}

impl Controller for NewJersey {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        self.estimate(ack);
        let path = &ack.path;
        let recent = self.controlled.is_some_and(|at| path.now.since(at) < path.rtt);
        if self.config.on_warning && ack.flags.contains(Flags::ECN_ECHO) && !recent {
            self.rate_control(path, Probability::ONE);
        } else if ack.allows_growth() {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.rate_control(&event.path, event.probability);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.ssthresh = self.ownd(&event.path);
        }
        self.arrivals.on_reset();
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::testing::{ms, new_controller};
    use crate::units::Duration;

    fn ack(received: u64, flags: Flags) -> AckEvent {
        let rtt = Duration::from_millis(100);
        AckEvent {
            path: Path { now: ms(received + 50), cwnd: 20.0, rtt, min_rtt: rtt, ..Path::default() },
            newly_acked: 1,
            header: CongestionHeader::Timestamps { received: ms(received) },
            flags,
            ..AckEvent::default()
        }
    }

    fn controller(on_warning: bool) -> NewJersey {
        let endpoint = EndpointConfig { initial_window: 20.0, ..EndpointConfig::default() };
        new_controller::<NewJersey>(
            NewJerseyConfig { on_warning, ..NewJerseyConfig::DEFAULT },
            &endpoint,
        )
    }

    #[test]
    fn the_estimate_by_hand() {
        let mut controller = controller(false);
        controller.on_ack(&ack(0, Flags::NONE));
        controller.on_ack(&ack(25, Flags::NONE));
        // (0.1 x 0 + 1) / (0.025 + 0.1) = 8 packets a second.
        assert!((controller.rate - 8.0).abs() < 1e-9);
        controller.on_ack(&ack(50, Flags::NONE));
        // (0.1 x 8 + 1) / 0.125 = 14.4.
        assert!((controller.rate - 14.4).abs() < 1e-9);
    }

    #[test]
    fn it_settles_at_the_rate_of_arrivals() {
        // One packet every 5 ms is 200 a second: ownd = 0.1 x 200 = 20; from a window of 20 on.
        let mut controller = controller(false);
        for i in 0..1000 {
            controller.on_ack(&ack(5 * i, Flags::NONE));
        }
        assert!((controller.rate - 200.0).abs() < 1e-6, "{}", controller.rate);
        controller.cwnd = 30.0;
        let path = ack(5000, Flags::NONE).path;
        controller.on_congestion(&CongestionEvent::certain(path));
        assert!((controller.cwnd() - 20.0).abs() < 1e-6);
    }

    #[test]
    fn the_optimal_window_fills_the_rtt_that_is_asked_for() {
        // 200 packets a second; RTTmin 100 ms, the latest RTT 120 ms.
        for (rtt, expected) in [(JerseyRtt::Smallest, 20.0), (JerseyRtt::Latest, 24.0)] {
            let mut controller = controller(false);
            controller.config.rtt = rtt;
            (controller.rate, controller.cwnd) = (200.0, 40.0);
            let path = Path { rtt: Duration::from_millis(120), ..ack(0, Flags::NONE).path };
            controller.on_congestion(&CongestionEvent::certain(path));
            assert!((controller.cwnd() - expected).abs() < 1e-9, "{rtt:?}: {}", controller.cwnd());
        }
    }

    #[test]
    fn a_warning_alone_counts_only_where_it_is_asked_for() {
        for (on_warning, cwnd) in [(false, 20.0), (true, 2.0)] {
            let mut controller = controller(on_warning);
            controller.on_ack(&ack(0, Flags::ECN_ECHO)); // No estimate yet: ownd is two packets.
            assert_eq!(controller.cwnd(), cwnd);
        }
    }
}
