//! ABBA, accelerated bottleneck bandwidth adaptation (draft-kazuho-ccwg-abba, the editor's copy of
//! September 2026 with the model of the round-trip time; h2o/quicly#698, before it #689).
//!
//! CUBIC grows slowly after bandwidth has come back, or after a loss not caused by congestion.
//! While there is a standing queue, the RTT rises linearly with the window. ABBA fits that line
//! between two congestion events. If the RTT is below it, the path carries the window with a
//! shorter queue than before, and ABBA adds a share of the missing window to CUBIC's growth:
//!
//! ```text
//! high = cwnd before the decrease, least RTT until recovery ends (before an ECN mark: rtt_floor)
//! low  = the least RTT in congestion avoidance since, and its cwnd
//! a    = slope_ratio min((high_rtt - low_rtt) / (high_cwnd - low_cwnd), low_rtt / low_cwnd)
//! b    = low_rtt - a low_cwnd            a = 0, no effect, if the RTTs are within rtt_span
//! beyond high_cwnd (2 - beta):           a = max(rtt_floor, a cwnd + b) / cwnd,  b = 0
//!
//! where a > 0 and RTT < a cwnd + b:      w_ref = (RTT - b) / a
//!   cwnd = max(cwnd + min(acked gain (1 - w_ref / cwnd), cwnd / 2), CUBIC's new cwnd)
//! ```
//!
//! The response to losses and marks is CUBIC's. The first slow start has no line.
//!
//! Readings and deviations:
//! - The draft changes from week to week. The version of 7 September 2026 has no line: it adds 2 ms
//!   of queue per round trip while the RTT is within 2 ms of its floor, and returns to slow start
//!   if no queue returns. The later version is implemented.
//! - A note in the draft says that the growth of a round trip may exceed the decrease by an ECN
//!   mark with ABE. quicly bounds the gain by beta^(-2/3) - 1 as long as cwnd is below high_cwnd /
//!   beta, and has a `gain` of 3/5: `abba.yield_cap`, `abba.gain`.
//! - RTT samples of recovery count for the high point only if their packet was sent before the
//!   congestion event: later packets find a queue that drains.
//! - A timeout discards the line; the slow start after it has no line.
//! - Nothing is restored after spurious losses, as in this crate's CUBIC.

use super::cuback::Cuback;
use super::cubic::{Cubic, CubicConfig};
use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::estimator::RttFloor;
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// The base controller, whose growth ABBA accelerates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbbaBase {
    /// CUBIC (RFC 9438).
    Cubic,
    /// CUBIC by the ACK clock (draft-kazuho-ccwg-cuback-00).
    Cuback,
}

crate::words!(AbbaBase { Cubic = "cubic", Cuback = "cuback" });

const SHARE: ValueKind = ValueKind::Positive { most: 1.0 };
const SPAN: ValueKind =
    ValueKind::Time { least: Duration::from_ps(1), most: Duration::from_secs(1000) };

crate::parameters! {
    /// Parameters of ABBA.
    pub struct AbbaConfig in "abba", "parameters of abba";
    /// The values of the draft.
    pub const DEFAULT;
    base: AbbaBase = AbbaBase::Cubic, ValueKind::Word(AbbaBase::WORDS), "",
        "the controller that it accelerates";
    gain: f64 = 2.0 / 3.0, SHARE, "", "share of the missing window that a round trip adds";
    /// MAX_SLOPE_RATIO:
    slope_ratio: f64 = 2.0 / 3.0, SHARE, "", "share of the fitted slope that counts";
    /// RTT_SPAN_THRESH:
    rtt_span: Duration = Duration::from_millis(5), SPAN, "", "range of RTTs that a line needs";
    yield_cap: bool = false, ValueKind::Bool, "",
        "bound the gain to beta^(-2/3) - 1 below high_cwnd / beta, as quicly does";
    /// Parameters of the base controller.
    cubic: CubicConfig = CubicConfig::DEFAULT => included;
}

/// The state of ABBA's window.
#[derive(Debug, Clone)]
pub struct Abba {
    config: AbbaConfig,
    base: Base,
    floor: RttFloor,
    /// The latest RTT sample.
    latest: Duration,
    model: Option<Model>,
}

#[derive(Debug, Clone)]
enum Base {
    Cubic(Cubic),
    Cuback(Cuback),
}

macro_rules! base {
    ($base:expr, $controller:ident => $call:expr) => {
        match $base {
            Base::Cubic($controller) => $call,
            Base::Cuback($controller) => $call,
        }
    };
}

/// The RTT as a function of cwnd, from one congestion event to the next.
#[derive(Debug, Clone)]
struct Model {
    /// The time of the congestion event.
    at: Time,
    /// The share of the window that remained after it.
    beta: f64,
    /// True after a loss: the RTT of the high point is then the smallest until recovery ends.
    by_loss: bool,
    high: Point,
    low: Option<Point>,
    /// The slope, seconds per packet, and the RTT of an empty window, seconds.
    line: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    cwnd: f64,
    rtt: Duration,
}

impl Model {
    fn predicted(&self, cwnd: f64) -> Option<f64> {
        self.line.map(|(a, b)| a * cwnd + b)
    }

    fn fit(&mut self, config: &AbbaConfig) {
        let Some(low) = self.low else { return };
        let cwnds = self.high.cwnd - low.cwnd;
        if cwnds <= 0.0 {
            return; // "Keep the previous model."
        }
        let low_rtt = low.rtt.as_secs_f64();
        self.line = Some(if self.high.rtt < low.rtt + config.rtt_span {
            (0.0, low_rtt)
        } else {
            // On the line through the origin the window is the bandwidth times the RTT.
            let slope = (self.high.rtt - low.rtt).as_secs_f64() / cwnds;
            let a = slope.min(low_rtt / low.cwnd) * config.slope_ratio;
            (a, low_rtt - a * low.cwnd)
        });
    }

    /// Adds a sample of RTT and window in congestion avoidance, outside recovery.
    fn observe(&mut self, now: Point, floor: Duration, config: &AbbaConfig) {
        if self.low.is_none() {
            self.low = Some(Point { cwnd: now.cwnd, rtt: self.high.rtt });
            self.fit(config);
        }
        if self.low.is_some_and(|low| now.rtt < low.rtt) {
            self.low = Some(now);
            self.fit(config);
        }
        let proportional = self.line.is_some_and(|(_, b)| b == 0.0);
        if !proportional && now.cwnd > self.high.cwnd * (2.0 - self.beta) {
            let floor = floor.as_secs_f64();
            let target = self.predicted(now.cwnd).map_or(floor, |predicted| predicted.max(floor));
            self.line = Some((target / now.cwnd, 0.0));
        }
    }

    /// The growth per acknowledged packet, in proportion to the distance of the RTT below the line.
    fn gain(&self, now: Point, config: &AbbaConfig) -> f64 {
        let Some((a, b)) = self.line else { return 0.0 };
        let rtt = now.rtt.as_secs_f64();
        if a <= 0.0 || rtt >= a * now.cwnd + b {
            return 0.0;
        }
        let reference = (rtt - b) / a;
        let gain = config.gain * (1.0 - reference / now.cwnd);
        if config.yield_cap && now.cwnd < self.high.cwnd / self.beta {
            return gain.min(libm::pow(self.beta, -2.0 / 3.0) - 1.0);
        }
        gain
    }
}

impl Part for Abba {
    type Config = AbbaConfig;
    const FORMS: &'static [Form<AbbaConfig>] = &[Form {
        words: Words {
            name: "abba",
            what: "as cubic, and faster while the RTT is shorter than this window caused before",
            source: "draft-kazuho-ccwg-abba",
        },
        config: AbbaConfig::DEFAULT,
    }];
}

impl ControllerPart for Abba {
    fn new(config: &AbbaConfig, setup: ControllerSetup<'_>) -> Self {
        let base = match config.base {
            AbbaBase::Cubic => Base::Cubic(Cubic::of(config.cubic, setup.endpoint)),
            AbbaBase::Cuback => Base::Cuback(Cuback::of(config.cubic, setup.endpoint)),
        };
        let (floor, latest) = (RttFloor::default(), Duration::ZERO);
        Abba { config: *config, base, floor, latest, model: None }
    }
}

impl Abba {
    /// Takes the RTT sample of an acknowledgment, if it has one. Few duplicates have a sample; it
    /// differs from the last one.
    fn sample(&mut self, ack: &AckEvent) {
        let rtt = ack.path.rtt;
        if !rtt.is_zero() && (ack.newly_acked > 0 || rtt != self.latest) {
            // "Over the last round trip"; the exact sample if the clock of srtt is too coarse.
            self.floor.add(ack.path.now, rtt, ack.path.srtt.max(rtt));
            self.latest = rtt;
        }
    }

    /// The accelerated window, from `cwnd` packets.
    fn accelerated(&mut self, ack: &AckEvent, cwnd: f64) -> f64 {
        let floor = self.floor.get();
        let Some(model) = &mut self.model else { return cwnd };
        let now = Point { cwnd, rtt: self.latest };
        if now.rtt.is_zero() {
            return cwnd;
        }
        if ack.in_recovery || ack.sent <= model.at {
            if model.by_loss && ack.sent <= model.at {
                model.high.rtt = model.high.rtt.min(now.rtt);
            }
            return cwnd;
        }
        if cwnd < base!(&self.base, controller => controller.ssthresh()) {
            return cwnd;
        }
        model.observe(now, floor, &self.config);
        if !ack.allows_growth() {
            return cwnd;
        }
        cwnd + (ack.newly_acked as f64 * model.gain(now, &self.config)).min(cwnd / 2.0)
    }
}

impl Controller for Abba {
    #[inline]
    fn cwnd(&self) -> f64 {
        base!(&self.base, controller => controller.cwnd())
    }
    fn ssthresh(&self) -> f64 {
        base!(&self.base, controller => controller.ssthresh())
    }

    #[inline]
    fn pacing_rate(&self) -> Option<f64> {
        base!(&self.base, controller => controller.pacing_rate())
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        self.sample(ack);
        let accelerated = self.accelerated(ack, self.cwnd());
        base!(&mut self.base, controller => {
            controller.on_ack(ack);
            controller.raise(accelerated);
        });
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let path = &event.path;
        let rtt = if event.marked { self.floor.get() } else { path.rtt };
        self.model = Some(Model {
            at: path.now,
            beta: event.kept(self.config.cubic.beta(event)),
            by_loss: !event.marked,
            high: Point { cwnd: path.cwnd, rtt },
            low: None,
            line: None,
        });
        base!(&mut self.base, controller => controller.on_congestion(event));
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.model = None;
        base!(&mut self.base, controller => controller.on_reset(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::endpoint::event::Path;
    use crate::testing::{ms as at, new_controller};

    const DEFAULT: AbbaConfig = AbbaConfig::DEFAULT;
    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Packets and milliseconds.
    fn point(cwnd: f64, rtt: f64) -> Point {
        Point { cwnd, rtt: Duration::from_secs_f64(rtt / 1e3) }
    }

    fn model(high: Point, low: Option<Point>) -> Model {
        Model { at: Time::ZERO, beta: 0.7, by_loss: true, high, low, line: None }
    }

    fn fitted(high: Point, low: Point) -> Model {
        let mut model = model(high, Some(low));
        model.fit(&DEFAULT);
        model
    }

    /// The slope in ms per packet and the RTT of an empty window in ms.
    #[track_caller]
    fn line(model: &Model, a: f64, b: f64) {
        let (slope, empty) = model.line.unwrap();
        assert!((slope * 1e3 - a).abs() < 1e-9, "a = {} ms", slope * 1e3);
        assert!((empty * 1e3 - b).abs() < 1e-9, "b = {} ms", empty * 1e3);
    }

    /// The values are those of quicly's own tests (t/cc.c, test_abba_model), in packets of 1 kB.
    #[test]
    fn a_line_through_two_points_keeps_two_thirds_of_its_slope() {
        // 2/3 x 20 ms / 30; 100 - 70 x 4/9 = 620/9.
        line(&fitted(point(100.0, 120.0), point(70.0, 100.0)), 4.0 / 9.0, 620.0 / 9.0);
        // 100 ms / 30 is steeper than the line through the origin, 100 ms / 70: 2/3 of that.
        line(&fitted(point(100.0, 200.0), point(70.0, 100.0)), 200.0 / 210.0, 100.0 / 3.0);
        // Less than 5 ms between them is no slope; 5 ms is.
        line(&fitted(point(100.0, 104.999), point(70.0, 100.0)), 0.0, 100.0);
        line(&fitted(point(100.0, 105.0), point(70.0, 100.0)), 1.0 / 9.0, 100.0 - 70.0 / 9.0);
        // No span of windows: the old line stays.
        let mut kept = fitted(point(100.0, 120.0), point(70.0, 100.0));
        kept.low = Some(point(110.0, 80.0));
        kept.fit(&DEFAULT);
        line(&kept, 4.0 / 9.0, 620.0 / 9.0);
    }

    /// As test_abba_growth of quicly, with the draft's 2/3 where quicly has 3/5.
    #[test]
    fn the_gain_is_a_share_of_the_window_that_the_line_would_have() {
        let mut model = model(point(60.0, 120.0), None);
        model.line = Some((1e-3, 0.05)); // 1 ms a packet, 50 ms without any.
        let gain = |rtt| model.gain(point(100.0, rtt), &DEFAULT);
        // 100 ms are 50 packets by the line: 2/3 x 50/100. On the line and above it: no growth.
        assert!((gain(100.0) - 1.0 / 3.0).abs() < 1e-12);
        assert_eq!((gain(150.001), gain(200.0)), (0.0, 0.0));
        let quicly = AbbaConfig { gain: 0.6, ..DEFAULT };
        assert!((model.gain(point(100.0, 100.0), &quicly) - 0.3).abs() < 1e-12);
        model.line = Some((0.0, 0.1));
        assert_eq!(model.gain(point(100.0, 20.0), &DEFAULT), 0.0, "no gain by a flat line");
    }

    #[test]
    fn the_cap_holds_until_the_window_has_grown_far_beyond_the_high_point() {
        let mut model = model(point(70.0, 120.0), None);
        model.line = Some((1e-3, 0.008));
        let capped = AbbaConfig { yield_cap: true, ..DEFAULT };
        let gain = |cwnd, config| model.gain(point(cwnd, 8.0), config);
        // 8 ms are less than a packet by the line: all of 2/3, or 0.7^(-2/3) - 1 below 70 / 0.7.
        assert!((gain(99.0, &DEFAULT) - 2.0 / 3.0).abs() < 1e-12);
        assert!((gain(99.0, &capped) - 0.268_434).abs() < 1e-6);
        assert!((gain(101.0, &capped) - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn far_beyond_the_high_point_the_rtt_is_proportional_to_the_window() {
        // high_cwnd (2 - 0.7) = 130 packets.
        let mut model = fitted(point(100.0, 120.0), point(70.0, 100.0));
        model.observe(point(129.9, 110.0), MS(90), &DEFAULT);
        line(&model, 4.0 / 9.0, 620.0 / 9.0);
        // The line has 131 x 4/9 + 620/9 = 127.11 ms there, more than the floor.
        model.observe(point(131.0, 110.0), MS(90), &DEFAULT);
        line(&model, (131.0 * 4.0 / 9.0 + 620.0 / 9.0) / 131.0, 0.0);
        let drawn = model.line;
        model.observe(point(150.0, 110.0), MS(200), &DEFAULT);
        assert_eq!(model.line, drawn, "once");
        // Without a line before, the floor alone.
        let mut blank = super::tests::model(point(100.0, 120.0), Some(point(100.0, 80.0)));
        blank.observe(point(131.0, 110.0), MS(80), &DEFAULT);
        line(&blank, 80.0 / 131.0, 0.0);
    }

    fn controller(initial_window: f64, base: AbbaBase) -> Abba {
        let endpoint = EndpointConfig { initial_window, ..EndpointConfig::default() };
        new_controller::<Abba>(AbbaConfig { base, ..DEFAULT }, &endpoint)
    }

    fn path(controller: &Abba, now: u64, rtt: u64) -> Path {
        let rtt = Duration::from_millis(rtt);
        let cwnd = controller.cwnd();
        Path { now: at(now), cwnd, in_flight: cwnd, rtt, srtt: rtt, ..Path::default() }
    }

    fn ack(controller: &mut Abba, now: u64, rtt: u64, in_recovery: bool) {
        let path = path(controller, now, rtt);
        controller.on_ack(&AckEvent {
            path,
            newly_acked: 1,
            growth: 1.0,
            cwnd_limited: true,
            in_recovery,
            sent: at(now - rtt),
            ..AckEvent::default()
        });
    }

    /// A window of 100 packets that lost at 1 s with an RTT of 120 ms; recovery saw 110 ms.
    fn after_loss(base: AbbaBase) -> Abba {
        let mut controller = controller(100.0, base);
        let event = CongestionEvent::certain(path(&controller, 1000, 120));
        controller.on_congestion(&event);
        for (now, rtt) in [(1000, 120), (1050, 110), (1119, 130)] {
            ack(&mut controller, now, rtt, true);
        }
        // Sent after the event: not a sample of the full queue, though recovery continues.
        ack(&mut controller, 1130, 60, true);
        controller
    }

    #[test]
    fn a_drained_path_is_climbed_faster_than_by_cubic_and_a_full_one_as_fast() {
        for base in [AbbaBase::Cubic, AbbaBase::Cuback] {
            let mut controller = after_loss(base);
            assert_eq!((controller.cwnd(), controller.ssthresh()), (70.0, 70.0));
            let high = controller.model.as_ref().unwrap().high;
            assert_eq!(high, point(100.0, 110.0));
            // The first acknowledgment after recovery, at 100 ms: low = 70 packets at 100 ms, a =
            // 2/3 x 10/30 ms, b = 100 - 70 x 2/9 = 760/9 ms. At the low point nothing is missing.
            ack(&mut controller, 1250, 100, false);
            line(controller.model.as_ref().unwrap(), 2.0 / 9.0, 760.0 / 9.0);
            let before = controller.cwnd();
            assert!(before - 70.0 < 0.02, "CUBIC's alone: {before}");
            // At 90 packets the line has 20 + 760/9 = 104.44 ms. 102 ms are 79 packets: 2/3 x
            // 11/90.
            match &mut controller.base {
                Base::Cubic(cubic) => cubic.raise(90.0),
                Base::Cuback(cuback) => cuback.raise(90.0),
            }
            ack(&mut controller, 1400, 102, false);
            assert!(
                (controller.cwnd() - (90.0 + 2.0 / 3.0 * 11.0 / 90.0)).abs() < 1e-9,
                "{}",
                controller.cwnd()
            );
            let before = controller.cwnd();
            ack(&mut controller, 1401, 105, false);
            assert!(controller.cwnd() - before < 0.02, "above the line");
        }
    }

    #[test]
    fn the_first_slow_start_and_the_one_after_a_timeout_have_no_line() {
        let mut controller = controller(4.0, AbbaBase::Cubic);
        ack(&mut controller, 100, 50, false);
        assert_eq!(controller.cwnd(), 5.0);
        let mut controller = after_loss(AbbaBase::Cubic);
        let path = path(&controller, 2000, 50);
        controller.on_reset(&ResetEvent::timeout(path));
        assert_eq!(controller.cwnd(), 1.0);
        assert!(controller.model.is_none());
    }

    #[test]
    fn a_mark_takes_the_floor_before_it_and_the_beta_of_marks() {
        let mut controller = controller(100.0, AbbaBase::Cubic);
        controller.config.cubic.beta_ecn = Some(0.85);
        controller.base = Base::Cubic(Cubic::of(
            controller.config.cubic,
            &EndpointConfig { initial_window: 100.0, ..EndpointConfig::default() },
        ));
        for (now, rtt) in [(900, 80), (950, 120)] {
            ack(&mut controller, now, rtt, false);
        }
        let cwnd = controller.cwnd();
        let path = path(&controller, 960, 120);
        controller
            .on_congestion(&CongestionEvent { marked: true, ..CongestionEvent::certain(path) });
        ack(&mut controller, 970, 60, false);
        let model = controller.model.as_ref().unwrap();
        // 80 ms, 60 ms before; samples of packets sent before the mark do not count after it.
        assert_eq!((model.high.rtt, model.beta), (MS(80), 0.85));
        assert!((controller.cwnd() - 0.85 * cwnd).abs() < 0.02);
    }
}
