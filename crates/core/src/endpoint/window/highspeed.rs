//! HighSpeed TCP (RFC 3649): Reno with an increase that grows and a decrease that shrinks with the
//! window.
//!
//! Reno sustains a window of w packets only if at most 1.5 packets in w^2 are lost; a window of
//! 83 000 packets needs less than one loss in 4.6 billion packets. HighSpeed TCP sustains it at a
//! higher loss rate (section 5). Its response function is a line between two points in logarithms
//! of p and w,
//!
//! ```text
//! w(p)  = Low_Window (p / Low_P)^S       S = ln(High_Window / Low_Window) / ln(High_P / Low_P)
//! b(w)  = 1/2 + (High_Decrease - 1/2) ln(w / Low_Window) / ln(High_Window / Low_Window)
//! a(w)  = w^2 p(w) 2 b(w) / (2 - b(w))
//! ```
//!
//! where p(w) is the inverse of w(p). A round trip in congestion avoidance adds a(w) packets, and
//! congestion leaves 1 - b(w) of the window. Up to Low_Window a = 1 and b = 1/2, as in Reno.
//!
//! Readings and deviations:
//! - Low_P is the loss rate of Reno's response function w = 1.2 / sqrt(p) at Low_Window: 0.000997
//!   for 38 packets, which the RFC rounds to 0.001. As that gives a(38) = 0.96, a is at least 1.
//! - The table of appendix B rounds p(w) to 1 / (12.8 w^1.2); a here lies 1 to 3 % above that.
//! - Beyond High_Window b stays at High_Decrease; the RFC's formula would lead on to 0.
//! - w in b(w) is the packets in flight when congestion is detected, as in RFC 5681, equation (4).
//! - Slow start is Reno's; Limited Slow-Start (RFC 3742) is not implemented.

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of HighSpeed TCP.
    pub struct HighspeedConfig in "highspeed", "parameters of highspeed";
    /// The values of the RFC.
    pub const DEFAULT;
    low_window: f64 = 38.0, ValueKind::Number { least: 1.0, most: 1e9 }, "packets",
        "window up to which it behaves as Reno";
    high_window: f64 = 83_000.0, ValueKind::Number { least: 1.0, most: 1e9 }, "packets",
        "window at the loss rate high_p";
    high_p: f64 = 1e-7, ValueKind::Positive { most: 1.0 }, "",
        "loss rate at which the window is high_window";
    high_decrease: f64 = 0.1, ValueKind::Positive { most: 0.5 }, "",
        "share by which congestion reduces a window of high_window";
    @check(config) {
        if config.low_window >= config.high_window {
            return Err(format!(
                "low_window ({}) is not below high_window ({})",
                config.low_window, config.high_window
            ));
        }
        if config.high_p >= config.low_p() {
            return Err(format!(
                "high_p ({:e}) is not below the loss rate of Reno at low_window ({:.1e})",
                config.high_p, config.low_p()
            ));
        }
        Ok(())
    }
}

impl HighspeedConfig {
    /// Low_P: the loss rate at which Reno has a window of `low_window`, by w = 1.2 / sqrt(p).
    fn low_p(&self) -> f64 {
        1.44 / (self.low_window * self.low_window)
    }
}

/// The state of HighSpeed TCP's window.
#[derive(Debug, Clone)]
pub struct Highspeed {
    low_window: f64,
    high_decrease: f64,
    /// ln(High_Window / Low_Window).
    span: f64,
    /// w^2 p(w) grows with w to the power of this: 2 + 1 / S.
    power: f64,
    cwnd: f64,
    ssthresh: f64,
}

impl Part for Highspeed {
    type Config = HighspeedConfig;
    const FORMS: &'static [Form<HighspeedConfig>] = &[Form {
        words: Words {
            name: "highspeed",
            what: "as reno up to 38 packets; above, the larger the window, the more it adds and \
                   the less it gives up",
            source: "RFC 3649 section 5",
        },
        config: HighspeedConfig::DEFAULT,
    }];
}

impl ControllerPart for Highspeed {
    fn measures_delay(_config: &HighspeedConfig) -> bool {
        false
    }

    fn new(config: &HighspeedConfig, setup: ControllerSetup<'_>) -> Self {
        let span = libm::log(config.high_window / config.low_window);
        Highspeed {
            low_window: config.low_window,
            high_decrease: config.high_decrease,
            span,
            power: 2.0 + libm::log(config.high_p / config.low_p()) / span,
            cwnd: setup.endpoint.initial_window,
            ssthresh: f64::INFINITY,
        }
    }
}

impl Highspeed {
    /// b(w), with l = ln(w / Low_Window).
    fn b(&self, l: f64) -> f64 {
        let share = (l / self.span).clamp(0.0, 1.0);
        0.5 + (self.high_decrease - 0.5) * share
    }

    /// a(w). Low_P Low_Window^2 is 1.44 for any Low_Window.
    fn a(&self, w: f64) -> f64 {
        if w <= self.low_window {
            return 1.0;
        }
        let l = libm::log(w / self.low_window);
        let b = self.b(l);
        (1.44 * libm::exp(self.power * l) * 2.0 * b / (2.0 - b)).max(1.0)
    }

    /// The share of a window of `w` packets that a decrease leaves.
    fn beta(&self, w: f64) -> f64 {
        1.0 - self.b(libm::log(w.max(self.low_window) / self.low_window))
    }
}

impl Controller for Highspeed {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        if !ack.allows_growth() {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        } else {
            self.cwnd += ack.growth * self.a(self.cwnd) / self.cwnd;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let w = event.path.in_flight;
        self.ssthresh = (w * event.kept(self.beta(w))).max(2.0);
        self.cwnd = self.ssthresh;
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            let w = event.path.in_flight;
            self.ssthresh = (w * event.kept(self.beta(w))).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::part::Parameters;
    use crate::testing::new_controller;

    fn controller(cwnd: f64) -> Highspeed {
        let endpoint = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        new_controller::<Highspeed>(HighspeedConfig::DEFAULT, &endpoint)
    }

    /// Rows of RFC 3649 appendix B: w, a(w), b(w). Each is the first w at which a is above the next
    /// whole number, with p(w) rounded to 1 / (12.8 w^1.2).
    const TABLE: [(f64, f64, f64); 9] = [
        (118.0, 2.0, 0.44),
        (221.0, 3.0, 0.41),
        (347.0, 4.0, 0.38),
        (495.0, 5.0, 0.37),
        (663.0, 6.0, 0.35),
        (1058.0, 8.0, 0.33),
        (5036.0, 20.0, 0.25),
        (10661.0, 30.0, 0.21),
        (84035.0, 71.0, 0.10),
    ];

    #[test]
    fn increase_and_decrease_are_those_of_the_rfcs_table() {
        let controller = controller(2.0);
        for (w, a, b) in TABLE {
            let ours = controller.a(w);
            assert!((a..a * 1.035).contains(&ours), "a({w}) = {ours}, not {a}");
            let ours = 1.0 - controller.beta(w);
            assert!((ours - b).abs() <= 0.005, "b({w}) = {ours}, not {b}");
        }
    }

    #[test]
    fn the_ends_of_the_response_function() {
        let controller = controller(2.0);
        assert_eq!((controller.a(1.0), controller.beta(1.0)), (1.0, 0.5));
        assert_eq!((controller.a(38.0), controller.beta(38.0)), (1.0, 0.5));
        // High_Window: 83000^2 x 10^-7 x 2 x 0.1 / 1.9 = 72.516; b = 0.1 there and beyond.
        assert!((controller.a(83_000.0) - 72.516).abs() < 1e-3);
        assert!((controller.beta(83_000.0) - 0.9).abs() < 1e-12);
        assert!((controller.beta(1e7) - 0.9).abs() < 1e-12);
    }

    #[test]
    fn a_round_trip_adds_a_of_w_and_congestion_takes_b_of_w() {
        let mut controller = controller(1000.0);
        controller.ssthresh = 10.0;
        let ack =
            AckEvent { newly_acked: 1, growth: 1.0, cwnd_limited: true, ..AckEvent::default() };
        // l = ln(1000/38) = 3.2702, span = ln(83000/38) = 7.6890, b = 1/2 - 0.4 x 0.42530 =
        // 0.32988; S = 7.6890 / ln(10^-7 / 0.00099723) = 7.6890 / -9.2076 = -0.83508, p(1000) =
        // 0.00099723 x exp(-3.2702 / 0.83508) = 1.98651e-5; a = 19.8651 x 0.65976 / 1.67012 =
        // 7.8474.
        controller.on_ack(&ack);
        assert!((controller.cwnd() - 1_000.007_847_4).abs() < 1e-7, "{}", controller.cwnd());
        let path = Path { in_flight: 1000.0, ..Path::default() };
        controller.on_congestion(&CongestionEvent::certain(path));
        assert!((controller.cwnd() - 670.12).abs() < 0.01, "{}", controller.cwnd());
        controller.on_reset(&ResetEvent::timeout(path));
        assert_eq!(controller.cwnd(), 1.0);
        assert!((controller.ssthresh() - 670.12).abs() < 0.01);
    }

    #[test]
    fn a_small_window_is_renos() {
        let mut controller = controller(20.0);
        let ack =
            AckEvent { newly_acked: 1, growth: 1.0, cwnd_limited: true, ..AckEvent::default() };
        controller.on_ack(&ack);
        assert_eq!(controller.cwnd(), 21.0, "slow start");
        controller
            .on_congestion(&CongestionEvent::certain(Path { in_flight: 20.0, ..Path::default() }));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (10.0, 10.0));
        controller.on_ack(&ack);
        assert_eq!(controller.cwnd(), 10.1);
    }

    #[test]
    fn the_two_points_must_be_in_order() {
        let wrong = |config: HighspeedConfig| config.validate().unwrap_err();
        let config = HighspeedConfig { high_window: 38.0, ..HighspeedConfig::DEFAULT };
        assert_eq!(wrong(config), "low_window (38) is not below high_window (38)");
        let config = HighspeedConfig { high_p: 0.01, ..HighspeedConfig::DEFAULT };
        assert!(wrong(config).starts_with("high_p (1e-2) is not below"));
        assert_eq!(HighspeedConfig::DEFAULT.validate(), Ok(()));
    }
}
