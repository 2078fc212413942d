//! AIMD(1, 1/2) with slow start (RFC 5681).
//!
//! The window grows by one packet per acknowledgment in slow start, and by one per window after it.
//! Congestion sets it to half of the packets in flight. With byte counting (RFC 3465) an
//! acknowledgment counts for as many packets as it acknowledges. Growth stops while the application
//! or the receiver, and not cwnd, limits the sender (RFC 5681 section 4.1 in spirit; RFC 7661).

use super::start_up::{Opening, StartUp, Step};
use super::{Controller, ControllerPart, ControllerSetup, StartUpConfig};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent, Idle, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};

/// The share of the window that a congestion event leaves.
const BETA: f64 = 0.5;

crate::parameters! {
    /// Parameters of Reno's window.
    pub struct RenoConfig in "reno", "parameters of reno";
    /// The values of RFC 5681.
    pub const DEFAULT;
    beta_ecn: Option<f64> = None, ValueKind::Number { least: 0.1, most: 0.99 }, "",
        "share of the window that remains after an ECN mark; 0.8 for ABE (RFC 8511)",
        absent = "as on a loss";
    /// How the window opens.
    start_up: StartUpConfig = StartUpConfig::SLOW_START => included;
}

/// The state of Reno's window.
#[derive(Debug, Clone)]
pub struct Reno {
    pub(super) cwnd: f64,
    ssthresh: f64,
    /// State that few connections need.
    extras: Option<Box<Extras>>,
}

#[derive(Debug, Clone)]
struct Extras {
    beta_ecn: Option<f64>,
    start_up: StartUp,
}

/// cwnd after an acknowledgment that counts for `growth` packets (RFC 5681 equations (2) and (3)):
/// it grows by `growth` in slow start, and by `growth` / cwnd in congestion avoidance. The part
/// that would exceed ssthresh in slow start counts in congestion avoidance (Linux, tcp_slow_start).
#[inline]
pub(super) fn grown(cwnd: f64, ssthresh: f64, growth: f64) -> f64 {
    if cwnd >= ssthresh {
        return cwnd + growth / cwnd;
    }
    let grown = cwnd + growth;
    if growth <= 1.0 || grown <= ssthresh {
        return grown;
    }
    ssthresh + (grown - ssthresh) / ssthresh
}

/// The same for controllers with another congestion avoidance: the part that would exceed ssthresh
/// does not count.
#[inline]
pub(super) fn opened(cwnd: f64, ssthresh: f64, growth: f64) -> f64 {
    if growth <= 1.0 { cwnd + growth } else { (cwnd + growth).min(ssthresh) }
}

impl Part for Reno {
    type Config = RenoConfig;
    const FORMS: &'static [Form<RenoConfig>] = &[Form {
        words: Words {
            name: "reno",
            what: "slow start, then one packet more a round trip; half on congestion",
            source: "RFC 5681 section 3.1",
        },
        config: RenoConfig::DEFAULT,
    }];
}

impl ControllerPart for Reno {
    /// HyStart does.
    fn measures_delay(config: &RenoConfig) -> bool {
        config.start_up.measures_delay()
    }

    fn new(config: &RenoConfig, setup: ControllerSetup<'_>) -> Self {
        let RenoConfig { beta_ecn, start_up } = *config;
        let start_up = StartUp::new(&start_up, setup.endpoint);
        let extras =
            (*config != RenoConfig::DEFAULT).then(|| Box::new(Extras { beta_ecn, start_up }));
        Reno { extras, ..Reno::of(setup.endpoint) }
    }
}

impl Reno {
    pub(super) fn of(endpoint: &EndpointConfig) -> Self {
        Reno { cwnd: endpoint.initial_window, ssthresh: f64::INFINITY, extras: None }
    }

    /// Continues in congestion avoidance from `cwnd` packets, at least two.
    pub(super) fn reduce_to(&mut self, cwnd: f64) {
        self.ssthresh = cwnd.max(2.0);
        self.cwnd = self.ssthresh;
    }
}

impl Controller for Reno {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    #[inline]
    fn pacing_rate(&self) -> Option<f64> {
        self.extras.as_ref()?.start_up.pacing_rate(self.cwnd)
    }

    #[inline(always)]
    fn on_ack(&mut self, ack: &AckEvent) {
        if let Some(extras) = &mut self.extras {
            let opening = Opening { cwnd: &mut self.cwnd, ssthresh: &mut self.ssthresh };
            if extras.start_up.on_ack(ack, opening) == Step::Done {
                return;
            }
        }
        if ack.allows_growth() {
            self.cwnd = grown(self.cwnd, self.ssthresh, ack.growth);
        }
    }

    /// Applies equation (4) for certain congestion; CETEN's decrease scales with the probability.
    fn on_congestion(&mut self, event: &CongestionEvent) {
        let mut beta = BETA;
        if let Some(extras) = &mut self.extras {
            beta = extras.beta_ecn.filter(|_| event.marked).unwrap_or(BETA);
            if let Some(cwnd) = extras.start_up.on_congestion(event, beta, self.cwnd) {
                (self.cwnd, self.ssthresh) = (cwnd, cwnd);
                return;
            }
        }
        self.reduce_to(event.path.in_flight * event.kept(beta));
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.cwnd = idle.window(self.cwnd);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if let Some(extras) = &mut self.extras {
            extras.start_up.on_reset();
        }
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(BETA)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::{AfterTimeout, Path};
    use crate::endpoint::feedback::FeedbackConfig;
    use crate::part::Plain;
    use crate::rng::Stream;
    use crate::units::Probability;

    /// A window of 41 packets, 40 of them in flight, after a timeout.
    fn after_timeout(congestion: f64, leaves: AfterTimeout) -> (f64, f64) {
        let config = EndpointConfig { initial_window: 41.0, ..EndpointConfig::default() };
        let mut window = Reno::of(&config);
        window.on_reset(&ResetEvent {
            probability: Probability::new(congestion).unwrap(),
            leaves,
            ..ResetEvent::timeout(Path { in_flight: 40.0, ..Path::default() })
        });
        (window.cwnd(), window.ssthresh())
    }

    #[test]
    fn a_timeout_restarts_from_one_packet_unless_it_is_corruption() {
        // RFC 5681 section 3.1.
        assert_eq!(after_timeout(1.0, AfterTimeout::Restart), (1.0, 20.0));
        assert_eq!(after_timeout(1.0, AfterTimeout::Share), (1.0, 20.0));
        // CETEN's readings: the verdict affects ssthresh alone, or cwnd too.
        assert_eq!(after_timeout(0.0, AfterTimeout::Restart), (1.0, 40.0));
        assert_eq!(after_timeout(0.0, AfterTimeout::Share), (41.0, 40.0));
        // A quarter congestion: 1 + 40 x 3/4; 40 x (1 - 1/8).
        assert_eq!(after_timeout(0.25, AfterTimeout::Share), (31.0, 35.0));
        // eten2004 equation (1), MDF = 1 - 1/8: 41 x 7/8. By half: 41/2.
        assert_eq!(after_timeout(0.25, AfterTimeout::Decrease), (35.875, 35.0));
        assert_eq!(after_timeout(1.0, AfterTimeout::Decrease), (20.5, 20.0));
    }

    /// RFC 8511 section 3: 0.8 of the packets in flight.
    #[test]
    fn with_abe_a_mark_costs_less_than_a_loss() {
        let controller = |beta_ecn| {
            let endpoint = EndpointConfig { initial_window: 40.0, ..EndpointConfig::default() };
            let (feedback, stream) =
                (FeedbackConfig::None(Plain), Stream::new(1, "window", "test"));
            let setup = ControllerSetup { feedback: &feedback, endpoint: &endpoint, stream };
            Reno::new(&RenoConfig { beta_ecn, ..RenoConfig::DEFAULT }, setup)
        };
        let loss = CongestionEvent::certain(Path { in_flight: 40.0, ..Path::default() });
        let mark = CongestionEvent { marked: true, ..loss };
        for (beta_ecn, event, left) in
            [(Some(0.8), mark, 32.0), (Some(0.8), loss, 20.0), (None, mark, 20.0)]
        {
            let mut controller = controller(beta_ecn);
            controller.on_congestion(&event);
            assert_eq!((controller.cwnd(), controller.ssthresh()), (left, left));
        }
    }

    #[test]
    fn growth_by_bytes_counts_what_is_acknowledged() {
        // Slow start: two packets acknowledged, two more. At ssthresh the rest counts as in
        // congestion avoidance: from 9 to 10, and 1/10 for the other.
        assert_eq!(grown(4.0, 10.0, 2.0), 6.0);
        assert_eq!(grown(9.0, 10.0, 2.0), 10.1);
        assert_eq!(grown(10.0, 10.0, 2.0), 10.2);
        assert_eq!(grown(9.5, 10.0, 1.0), 10.5, "RFC 5681: an acknowledgment at a time");
    }
}
