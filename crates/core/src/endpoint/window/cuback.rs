//! Cuback (draft-kazuho-ccwg-cuback-00, 25 September 2026; h2o/quicly#678): CUBIC driven by
//! acknowledgments instead of time.
//!
//! CUBIC evaluates its curve at the time since the last decrease. Cuback inverts the curve: it
//! gives the number of packets that must be acknowledged before the window grows by one packet. A
//! flow that gets more bandwidth than at the last congestion receives more acknowledgments and
//! grows faster than with time; one that gets less grows slower; an idle flow does not grow.
//!
//! ```text
//! pending   += acked;   while pending >= D(cwnd):   pending -= D(cwnd),  cwnd += 1
//! D(w)       = max(2, A(w + 1) - A(w))            A(w) = min(A_cubic(w), A_reno(w))
//! A_cubic(w) = bandwidth (K + cbrt((w - W_max) / C))
//! A_reno(w)  = (w - cwnd_epoch) (w + cwnd_epoch - 1) / (2 alpha_cubic)        w <= cwnd_prior
//!            = A_reno(cwnd_prior) + (w - cwnd_prior) (w + cwnd_prior - 1) / 2   beyond
//! K          = cbrt((W_max - cwnd_epoch) / C)     bandwidth = cwnd_prior / srtt
//! ```
//!
//! Everything except growth in congestion avoidance is CUBIC's (RFC 9438), including the
//! parameters.
//!
//! Readings:
//! - ssthresh is a share of the packets in flight; so cwnd_prior, W_max and the window of
//!   `bandwidth` are the packets in flight too (section 3: all from the same quantity).
//! - If the smoothed RTT is shorter than a tick of the sender's clock, the latest sample is used.
//! - Without `cubic.reno_alpha` alpha stays alpha_cubic beyond cwnd_prior, as in Linux's CUBIC.
//! - quicly takes half of the window at the end of slow start for W_max and cwnd_prior, so that the
//!   first epoch is only convex; the draft takes the whole window.

use super::cubic::{ALPHA, BETA, C, CubicConfig};
use super::start_up::{Opening, StartUp, Step};
use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::part::{Form, Part, Words};

/// The lower bound of D: growth by at most half of the window per round trip (section 3).
const LEAST: f64 = 2.0;

/// The state of Cuback's window.
#[derive(Debug, Clone)]
pub struct Cuback {
    config: CubicConfig,
    cwnd: f64,
    ssthresh: f64,
    /// W_max of the latest congestion event; 0 after a timeout.
    w_max: f64,
    curves: Option<Curves>,
    /// Packets acknowledged towards the next increase.
    pending: f64,
    start_up: StartUp,
}

/// The values that are constant between two congestion events.
#[derive(Debug, Clone, Copy)]
struct Curves {
    w_max: f64,
    cwnd_prior: f64,
    cwnd_epoch: f64,
    /// Packets per second; infinite if no RTT is known.
    bandwidth: f64,
    /// alpha beyond cwnd_prior.
    alpha_beyond: f64,
}

impl Curves {
    /// A_cubic(w): acknowledged packets after which the cubic has grown from cwnd_epoch to `w`.
    fn cubic(&self, w: f64) -> f64 {
        let k = libm::cbrt((self.w_max - self.cwnd_epoch) / C);
        self.bandwidth * (k + libm::cbrt((w - self.w_max) / C))
    }

    /// A_reno(w): the same for the Reno-friendly window.
    fn reno(&self, w: f64) -> f64 {
        let sum = |from: f64, to: f64| (to - from) * (to + from - 1.0) / 2.0;
        let knee = w.min(self.cwnd_prior);
        let below = sum(self.cwnd_epoch, knee) / ALPHA;
        if w <= self.cwnd_prior { below } else { below + sum(knee, w) / self.alpha_beyond }
    }

    /// A(w): the curve that reaches `w` first.
    fn acked(&self, w: f64) -> f64 {
        let reno = self.reno(w);
        if self.bandwidth.is_finite() { reno.min(self.cubic(w)) } else { reno }
    }

    /// D(w): acknowledged packets after which a window of `w` grows by one packet.
    fn price(&self, w: f64) -> f64 {
        (self.acked(w + 1.0) - self.acked(w)).max(LEAST)
    }
}

impl Part for Cuback {
    type Config = CubicConfig;
    const FORMS: &'static [Form<CubicConfig>] = &[Form {
        words: Words {
            name: "cuback",
            what: "as cubic, but driven by acknowledged packets, at the rate before the last \
                decrease",
            source: "draft-kazuho-ccwg-cuback-00 section 3",
        },
        config: CubicConfig::DEFAULT,
    }];
}

impl ControllerPart for Cuback {
    fn new(config: &CubicConfig, setup: ControllerSetup<'_>) -> Self {
        Cuback::of(*config, setup.endpoint)
    }
}

impl Cuback {
    pub(super) fn of(config: CubicConfig, endpoint: &EndpointConfig) -> Self {
        Cuback {
            config,
            cwnd: endpoint.initial_window,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            curves: None,
            pending: 0.0,
            start_up: StartUp::new(&config.start_up, endpoint),
        }
    }

    /// Raises the window to `cwnd`, if that is larger.
    pub(super) fn raise(&mut self, cwnd: f64) {
        self.cwnd = self.cwnd.max(cwnd);
    }

    /// Begins an epoch of congestion avoidance at cwnd, after a window of `cwnd_prior`, of which
    /// `delivered` packets arrived in a round trip.
    fn begin(&mut self, cwnd_prior: f64, delivered: f64, path: &Path) -> Curves {
        let rtt = if path.srtt.is_zero() { path.rtt } else { path.srtt };
        self.pending = 0.0;
        *self.curves.insert(Curves {
            w_max: self.w_max.max(self.cwnd),
            cwnd_prior: cwnd_prior.max(self.cwnd),
            cwnd_epoch: self.cwnd,
            bandwidth: delivered.max(self.cwnd) / rtt.as_secs_f64(),
            alpha_beyond: if self.config.reno_alpha { 1.0 } else { ALPHA },
        })
    }

    /// RFC 9438 section 4.7, fast convergence.
    fn remember_w_max(&mut self, cwnd_prior: f64) {
        let converges = cwnd_prior < self.w_max;
        self.w_max = if converges { cwnd_prior * (1.0 + BETA) / 2.0 } else { cwnd_prior };
    }
}

impl Controller for Cuback {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    #[inline]
    fn pacing_rate(&self) -> Option<f64> {
        self.start_up.pacing_rate(self.cwnd)
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let opening = Opening { cwnd: &mut self.cwnd, ssthresh: &mut self.ssthresh };
        match self.start_up.on_ack(ack, opening) {
            Step::Continue => {}
            Step::Done => return,
            Step::Found { full_bdp } => {
                // draft-kazuho-ccwg-rapid-start: the window that slow start would have reached.
                self.w_max = 2.0 * full_bdp;
                self.begin(self.w_max, full_bdp, &ack.path);
            }
        }
        if !ack.allows_growth() {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = reno::opened(self.cwnd, self.ssthresh, ack.growth);
            return;
        }
        // Section 3: avoidance entered without a congestion event begins at its own W_max.
        let curves = match self.curves {
            Some(curves) => curves,
            None => self.begin(self.cwnd, self.cwnd, &ack.path),
        };
        self.pending += ack.newly_acked as f64;
        loop {
            let price = curves.price(self.cwnd);
            if self.pending < price {
                return;
            }
            self.pending -= price;
            self.cwnd += 1.0;
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let beta = self.config.beta(event);
        if let Some(cwnd) = self.start_up.on_congestion(event, beta, self.cwnd) {
            (self.cwnd, self.ssthresh) = (cwnd, cwnd);
            return;
        }
        let cwnd_prior = event.path.in_flight;
        self.remember_w_max(cwnd_prior);
        self.ssthresh = (cwnd_prior * event.kept(beta)).max(2.0);
        self.cwnd = self.ssthresh;
        self.begin(cwnd_prior, cwnd_prior, &event.path);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.start_up.on_reset();
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * event.kept(BETA)).max(2.0);
        }
        // RFC 9438 section 4.8: no plateau to return to.
        self.w_max = 0.0;
        self.curves = None;
        self.cwnd = event.window_after(self.cwnd);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::window::StartUpConfig;
    use crate::units::{Duration, Time};

    fn curves(cwnd_epoch: f64, w_max: f64, bandwidth: f64) -> Curves {
        Curves { w_max, cwnd_prior: w_max, cwnd_epoch, bandwidth, alpha_beyond: 1.0 }
    }

    /// Draft, appendix B, the first of its test vectors: w, A(w), D(w).
    #[test]
    fn the_drafts_vector_of_the_reno_friendly_curve() {
        let curves = curves(7.0, 10.0, 100.0);
        let rows = [
            (7.0, 0.0, 13.2222),
            (8.0, 13.2222, 15.1111),
            (9.0, 28.3333, 17.0),
            (10.0, 45.3333, 10.0),
            (11.0, 55.3333, 11.0),
        ];
        for (w, a, d) in rows {
            assert!((curves.acked(w) - a).abs() < 1e-4, "A({w}) = {}", curves.acked(w));
            assert!((curves.price(w) - d).abs() < 1e-4, "D({w}) = {}", curves.price(w));
        }
        assert!((curves.acked(12.0) - 66.3333).abs() < 1e-4);
    }

    /// Draft, appendix B, the second: K is 10 s.
    #[test]
    fn the_drafts_vector_of_the_cubic_curve() {
        let curves = curves(600.0, 1000.0, 10_000.0);
        let rows = [
            (600.0, 0.0),
            (950.0, 50_000.0),
            (1000.0, 100_000.0),
            (1050.0, 150_000.0),
            (1400.0, 200_000.0),
        ];
        for (w, a) in rows {
            assert!((curves.acked(w) - a).abs() < 1e-6, "A({w}) = {}", curves.acked(w));
        }
    }

    fn controller(initial_window: f64) -> Cuback {
        let endpoint = EndpointConfig { initial_window, ..EndpointConfig::default() };
        Cuback::of(CubicConfig::DEFAULT, &endpoint)
    }

    fn path(in_flight: f64, srtt: u64) -> Path {
        Path { in_flight, srtt: Duration::from_millis(srtt), ..Path::default() }
    }

    fn ack(newly_acked: u64) -> AckEvent {
        let path = path(0.0, 100);
        AckEvent { path, newly_acked, growth: 1.0, cwnd_limited: true, ..AckEvent::default() }
    }

    #[test]
    fn a_window_grows_by_what_is_acknowledged_and_not_by_time() {
        // The first vector: 10 packets in flight leave 7, and 100 packets a second is 10 / 0.1 s.
        let mut controller = controller(10.0);
        controller.on_congestion(&CongestionEvent::certain(path(10.0, 100)));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (7.0, 7.0));
        for _ in 0..13 {
            controller.on_ack(&ack(1));
        }
        assert_eq!(controller.cwnd(), 7.0, "13 of 13.2222");
        controller.on_ack(&ack(1));
        assert_eq!(controller.cwnd(), 8.0);
        // A(12) = 66.3333: 53 more are 67, one by one or at once, at any time.
        let late = AckEvent { path: Path { now: Time::NEVER, ..ack(53).path }, ..ack(53) };
        controller.on_ack(&late);
        assert_eq!(controller.cwnd(), 12.0);
    }

    #[test]
    fn growth_is_bounded_by_half_of_the_window() {
        // Bandwidth 1 packet a second, K = cbrt(300 / 0.4) = 9.09 s: all 300 packets cost 9, so
        // that each costs its least, two: 700 acknowledgments are 350 packets more.
        let mut controller = controller(1000.0);
        controller.on_congestion(&CongestionEvent::certain(path(1000.0, 1_000_000)));
        assert_eq!(controller.cwnd(), 700.0);
        controller.on_ack(&ack(700));
        assert_eq!(controller.cwnd(), 1050.0);
    }

    #[test]
    fn a_second_loss_below_w_max_leaves_room_to_others() {
        let mut controller = controller(1000.0);
        controller.on_congestion(&CongestionEvent::certain(path(1000.0, 100)));
        controller.on_congestion(&CongestionEvent::certain(path(800.0, 100)));
        // W_max = 800 x 1.7 / 2; bandwidth = 800 / 0.1 s; all of them from what is in flight.
        let curves = controller.curves.unwrap();
        assert!((curves.w_max - 680.0).abs() < 1e-9);
        assert!((curves.cwnd_epoch - 560.0).abs() < 1e-9);
        assert_eq!((curves.cwnd_prior, curves.bandwidth), (800.0, 8000.0));
    }

    #[test]
    fn after_a_timeout_growth_is_convex_alone() {
        let mut controller = controller(100.0);
        controller.on_congestion(&CongestionEvent::certain(path(100.0, 100)));
        controller.on_reset(&ResetEvent::timeout(path(70.0, 100)));
        assert_eq!(controller.cwnd(), 1.0);
        assert!((controller.ssthresh() - 49.0).abs() < 1e-9);
        for _ in 0..49 {
            controller.on_ack(&ack(1));
        }
        // 48 in slow start lead to 49; the 49th begins avoidance there: W_max = cwnd_epoch, K = 0.
        let curves = controller.curves.unwrap();
        assert_eq!((curves.w_max, curves.cwnd_epoch, curves.cwnd_prior), (49.0, 49.0, 49.0));
        assert!((curves.bandwidth - 490.0).abs() < 1e-9);
    }

    #[test]
    fn an_acknowledgment_of_much_opens_no_more_than_ssthresh_has_room_for() {
        // Growth by bytes: after a timeout one retransmission fills a hole before 150 packets.
        let mut controller = controller(100.0);
        controller.on_reset(&ResetEvent::timeout(path(100.0, 100)));
        assert_eq!((controller.cwnd(), controller.ssthresh()), (1.0, 70.0));
        controller.on_ack(&AckEvent { growth: 150.0, ..ack(150) });
        assert_eq!(controller.cwnd(), 70.0);
    }

    #[test]
    fn rapid_start_hands_over_what_the_path_delivered() {
        let config = CubicConfig::starting(StartUpConfig::RAPID_START);
        let endpoint = EndpointConfig { initial_window: 100.0, ..EndpointConfig::default() };
        let mut controller = Cuback::of(config, &endpoint);
        controller.on_congestion(&CongestionEvent::certain(path(100.0, 100)));
        // 100 arrived: 90 - 0.2 x 100 = 0.7 x 100. A packet sent later ends recovery.
        controller.on_ack(&AckEvent { delivered: 100, in_recovery: true, ..ack(1) });
        controller.on_ack(&AckEvent { sent: Time::ZERO + Duration::from_millis(1), ..ack(1) });
        let curves = controller.curves.unwrap();
        assert!((curves.w_max - 200.0).abs() < 1e-9 && (curves.cwnd_epoch - 70.0).abs() < 1e-9);
        assert!((curves.bandwidth - 1000.0).abs() < 1e-9, "100 packets in 0.1 s");
    }

    #[test]
    fn without_an_rtt_it_is_reno_friendly() {
        let mut controller = controller(10.0);
        controller.on_congestion(&CongestionEvent::certain(path(10.0, 0)));
        controller.on_ack(&ack(14));
        assert_eq!(controller.cwnd(), 8.0, "A_reno(8) = 13.2222");
    }
}
