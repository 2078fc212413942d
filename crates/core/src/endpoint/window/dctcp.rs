//! DCTCP (RFC 8257; Alizadeh et al., SIGCOMM 2010): a decrease in proportion to the extent of
//! congestion.
//!
//! Switches mark every packet that finds more than K packets queued, and the receiver echoes
//! each mark exactly. The sender keeps a moving average of the share of marked packets and, once
//! a window in which there are marks, reduces cwnd by half that share:
//!
//! ```text
//! M     = BytesMarked / BytesAcked                       over one window of data
//! Alpha = Alpha (1 - g) + g M                            g = 1/16
//! cwnd  = cwnd (1 - Alpha / 2)                           on ECE, once per window
//! ```
//!
//! Growth, and the response to losses, are Reno's (RFC 8257 section 3.4). An acknowledgment with
//! ECE does not increase cwnd (RFC 3168 section 6.1.2).

use super::reno::Reno;
use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::packet::Flags;
use crate::part::{Ability, Form, Need, Part, Plain, Words};

/// RFC 8257 section 4.2: the weight of a new sample.
const G: f64 = 1.0 / 16.0;

/// The state of DCTCP's window.
#[derive(Debug, Clone)]
pub struct Dctcp {
    reno: Reno,
    /// DCTCP.Alpha; 1 at the start, so that the first mark has the effect of a loss.
    alpha: f64,
    acked: u64,
    marked: u64,
    /// DCTCP.WindowEnd: the observation window ends when this is acknowledged.
    window_end: u64,
    /// No further reduction before this packet, the first sent after the last one, is
    /// acknowledged.
    reduced_until: u64,
}

impl Part for Dctcp {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "dctcp",
            what: "as reno, but on marks down by half of the average share of marked packets",
            source: "RFC 8257 section 3.3",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::EachMark],
        why: "the share of marked packets cannot be counted",
    }];
}

impl ControllerPart for Dctcp {
    /// DCTCP responds to marks itself.
    const ANSWERS_ECN: bool = false;
    fn new(_: &Plain, setup: ControllerSetup<'_>) -> Self {
        Dctcp {
            reno: Reno::of(setup.endpoint),
            alpha: 1.0,
            acked: 0,
            marked: 0,
            window_end: 0,
            reduced_until: 0,
        }
    }
}

impl Dctcp {
    /// The estimated share of marked packets.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// RFC 8257 section 3.3, steps 1 to 8; SACK is ignored, as step 1 says.
    fn observe(&mut self, ack: &AckEvent, is_marked: bool) {
        self.acked += ack.newly_acked;
        if is_marked {
            self.marked += ack.newly_acked;
        }
        if ack.una > self.window_end && self.acked > 0 {
            let share = self.marked as f64 / self.acked as f64;
            self.alpha = self.alpha * (1.0 - G) + G * share;
            (self.acked, self.marked) = (0, 0);
            self.window_end = ack.high;
        }
    }
}

impl Controller for Dctcp {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.reno.cwnd()
    }
    fn ssthresh(&self) -> f64 {
        self.reno.ssthresh()
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let is_marked = ack.flags.contains(Flags::ECN_ECHO);
        self.observe(ack, is_marked);
        if !is_marked {
            self.reno.on_ack(ack);
        } else if !ack.in_recovery && ack.una > self.reduced_until {
            self.reno.reduce_to(ack.path.cwnd * (1.0 - self.alpha / 2.0));
            self.reduced_until = ack.high;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.reno.on_congestion(event);
        self.reduced_until = event.high;
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.reno.on_reset(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::endpoint::tests::path::TestPath;
    use crate::endpoint::window::ControllerState;
    use crate::network::EcnThreshold;
    use crate::testing::new_controller;
    use crate::units::Duration;

    fn dctcp(initial_window: f64) -> Dctcp {
        new_controller::<Dctcp>(
            Plain,
            &EndpointConfig { initial_window, ..EndpointConfig::default() },
        )
    }

    /// An acknowledgment of one packet in a window of ten.
    fn ack(controller: &mut Dctcp, una: u64, is_marked: bool) {
        let flags = if is_marked { Flags::ECN_ECHO } else { Flags::NONE };
        controller.on_ack(&AckEvent {
            path: Path { cwnd: controller.cwnd(), in_flight: controller.cwnd(), ..Path::default() },
            newly_acked: 1,
            cwnd_limited: true,
            growth: 1.0,
            una,
            high: una + 10,
            flags,
            ..AckEvent::default()
        });
    }

    #[test]
    fn alpha_is_an_average_over_windows() {
        let mut controller = dctcp(10.0);
        // The first window ends with its first packet: alpha = 15/16.
        ack(&mut controller, 1, false);
        assert_eq!((controller.alpha(), controller.window_end), (0.9375, 11));
        // Packets 2 to 11, and 12, which passes WindowEnd: 11 packets, 3 of them marked.
        for una in 2..=12 {
            ack(&mut controller, una, una <= 4);
        }
        // 0.9375 x 15/16 + 1/16 x 3/11 = 0.878906 + 0.017045.
        assert!((controller.alpha() - 0.895_952).abs() < 1e-6, "{}", controller.alpha());
        assert_eq!((controller.acked, controller.marked, controller.window_end), (0, 0, 22));
    }

    #[test]
    fn one_reduction_a_window_by_half_of_alpha() {
        let mut controller = dctcp(20.0);
        controller.alpha = 0.25;
        controller.window_end = 1000; // Keeps alpha as it is.
        controller.reno.reduce_to(20.0); // Out of slow start.
        ack(&mut controller, 100, true);
        assert!((controller.cwnd() - 17.5).abs() < 1e-9, "20 (1 - 0.25 / 2)");
        assert_eq!(controller.ssthresh(), controller.cwnd());
        // Marks of the same window change nothing, not even upward.
        for una in 101..110 {
            ack(&mut controller, una, true);
        }
        assert!((controller.cwnd() - 17.5).abs() < 1e-9);
        // Packet 109 is the last that had been sent by then.
        ack(&mut controller, 110, true);
        assert!((controller.cwnd() - 17.5).abs() < 1e-9);
        // Packet 110 came after the reduction: 17.5 (1 - 0.125) = 15.3125.
        ack(&mut controller, 111, true);
        assert!((controller.cwnd() - 15.3125).abs() < 1e-9);
        // Without marks: Reno's congestion avoidance.
        ack(&mut controller, 112, false);
        assert!((controller.cwnd() - (15.3125 + 1.0 / 15.3125)).abs() < 1e-9);
    }

    /// Alizadeh et al. 2010, section 3.3: N = 1 flow of W* = C RTT + K packets when marking
    /// begins; alpha^2 (1 - alpha / 4) = (2 W* + 1) / (W* + 1)^2, about sqrt(2 / W*); the queue
    /// swings between K + 1 and K + 1 - (W* + 1) alpha / 2.
    #[test]
    fn alpha_and_the_queue_settle_where_the_analysis_says() {
        // 1250 packets a second over 80 ms: 100 packets, and one in transmission; K = 20.
        // W* = 121: alpha^2 (1 - alpha / 4) = 243 / 14 884 = 0.016 326, alpha = 0.1299.
        let mut path = TestPath::new("dctcp", 2.0, 1250, Duration::from_millis(80));
        path.threshold = Some(EcnThreshold { threshold: 20 });
        path.offer_until(u64::MAX);
        path.run(Duration::from_secs(100), |_, _| {});
        let (mut alphas, mut low, mut high) = (Vec::new(), usize::MAX, 0);
        for _ in 0..2000 {
            path.run(Duration::from_millis(50), |_, window| {
                let ControllerState::Dctcp(controller) = window.controller() else {
                    panic!("not DCTCP")
                };
                alphas.push(controller.alpha());
            });
            (low, high) = (low.min(path.waiting()), high.max(path.waiting()));
        }
        let alpha = alphas.iter().sum::<f64>() / alphas.len() as f64;
        println!("alpha {alpha:.4}, queue {low} to {high}");
        assert!((alpha / 0.1299 - 1.0).abs() < 0.15, "{alpha}");
        // Upper end: 21, and one or two that the window grows by before the marks are back.
        assert!((21..=23).contains(&high), "{high}");
        // Lower end: 21 - 122 x 0.1299 / 2 = 13 with a constant alpha. With g = 1/16 it swings
        // by that much from one cycle to the next and is least when the marks come: 0.0987,
        // hence 15. One packet either way for the granularity of windows.
        assert!((12..=16).contains(&low), "{low}");
        assert_eq!(path.dropped, 0);
    }

    #[test]
    fn losses_halve_and_leave_alpha_alone() {
        let mut controller = dctcp(20.0);
        controller.alpha = 0.1;
        let path = Path { in_flight: 20.0, ..Path::default() };
        controller.on_congestion(&CongestionEvent { high: 50, ..CongestionEvent::certain(path) });
        assert_eq!((controller.cwnd(), controller.alpha()), (10.0, 0.1));
        controller.window_end = 1000;
        ack(&mut controller, 40, true);
        assert_eq!(controller.cwnd(), 10.0, "a mark of the window that was halved");
        ack(&mut controller, 51, true);
        assert!((controller.cwnd() - 9.5).abs() < 1e-9);
    }
}
