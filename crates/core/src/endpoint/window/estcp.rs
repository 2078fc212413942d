//! The window controller of ESTCP (estcp2010, "ESTCP algorithm").
//!
//! AIMD with parameters from the network. The traffic controller at the bottleneck
//! (`router::estcp`) sends g and the number of its phase. At every shift of phase all flows reduce
//! their windows together, by just enough to empty the queue:
//!
//! ```text
//! AI:  cwnd <- cwnd + alpha / cwnd   per acknowledgment of new data      alpha = RTTmin / g
//! MD:  cwnd <- beta cwnd             at a phase shift, and at any loss   beta  = RTTmin / RTTcur
//! ```
//!
//! An RTT brings cwnd acknowledgments, so cwnd grows by alpha packets per RTT, which is RTTmin / (g
//! RTT) packets per second: 1/g with an empty queue, for any RTT of the flow, and less as the queue
//! grows, in the proportion RTTmin / RTT.
//!
//! RTTcur is the RTT of the acknowledgment that reports the shift or the loss: its packet has
//! crossed the full queue. "MD for all packet losses" happens once per window, as in TCP: the loss
//! of a packet sent before the latest cut causes no further cut, and a shift within an RTT of a cut
//! for a loss is the same congestion reported twice.
//!
//! Choices where the paper is silent:
//! - A new flow begins with slow start, as TCP, until the first shift or loss. The first phase
//!   received is not a shift.
//! - Without feedback from a traffic controller a flow behaves as TCP, alpha = 1 and beta = 1/2.
//! - One acknowledgment adds at most one packet, as in slow start, for any g.
//! - A timeout sets ssthresh to beta cwnd and starts again from one packet.
//!
//! With the two ECN bits (estcp2010, Fig. 4; `estcp-ecn`) a change of the higher bit is the shift,
//! and g follows from the share of packets whose lower bit is set, p_e = n(01) / (n(00) + n(01)),
//! or of 11 in odd phases, by the inverse of the router's mapping. Early in a phase few packets
//! have been counted, so the share of the previous phase counts as `prior` packets. Lost and
//! delayed acknowledgments only make the sample smaller. The echo of a packet sent before the
//! newest one read so far is ignored, so that reordering does not look like a shift.

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::endpoint::feedback::{EstcpConfig, FeedbackConfig};
use crate::network::router::estcp::g_of_probability;
use crate::packet::CongestionHeader;
use crate::part::{Ability, Form, Need, Part, Plain, Words};
use crate::units::Time;

/// A shift of phase that a flow received.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PhaseCut {
    /// The time at which the flow received it and reduced its window.
    pub at: Time,
    /// g of the phase that ended, in seconds, as known to this flow at its end: received (`estcp`)
    /// or estimated from that phase alone (`estcp-ecn`).
    pub g: f64,
}

/// The state of ESTCP's window controller.
#[derive(Debug, Clone)]
pub struct Estcp {
    pub(super) cwnd: f64,
    ssthresh: f64,
    signal: PhaseSignal,
    /// The packet before which losses belong to a window already reduced.
    cut_until: u64,
    /// The time of the last cut for a loss.
    loss_cut: Option<Time>,
    cuts: Vec<PhaseCut>,
}

impl Part for Estcp {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "estcp",
            what: "alpha = RTTmin/g an RTT; beta = RTTmin/RTT at a phase shift and at any loss",
            source: "estcp2010, ESTCP algorithm",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::Phase],
        why: "it never receives a traffic controller's phase",
    }];
}

impl ControllerPart for Estcp {
    fn new(_: &Plain, setup: ControllerSetup<'_>) -> Self {
        let config = match *setup.feedback {
            FeedbackConfig::EstcpBits(config) => config,
            _ => EstcpConfig::DEFAULT,
        };
        Estcp::of(config, setup.endpoint)
    }
}

impl Estcp {
    /// The state with this window, in slow start or congestion avoidance, for a controller that
    /// uses the help of traffic controllers.
    pub(super) fn at(cwnd: f64, is_opening: bool) -> Self {
        let endpoint = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        let ssthresh = if is_opening { f64::INFINITY } else { cwnd };
        Estcp { ssthresh, ..Estcp::of(EstcpConfig::DEFAULT, &endpoint) }
    }

    fn of(config: EstcpConfig, endpoint: &EndpointConfig) -> Self {
        Estcp {
            cwnd: endpoint.initial_window,
            ssthresh: f64::INFINITY,
            signal: PhaseSignal::new(config),
            cut_until: 0,
            loss_cut: None,
            cuts: Vec::new(),
        }
    }

    /// Multiplicative decrease, scaled by `likely`; `sent` is the time of the packet whose
    /// acknowledgment causes it.
    fn cut(&mut self, path: &Path, sent: Time, high: u64, likely: impl FnOnce(f64) -> f64) {
        let rtt = path.now.since(sent).as_secs_f64();
        let kept = likely(self.kept(path.min_rtt.as_secs_f64(), rtt));
        self.cwnd = (self.cwnd * kept).max(1.0);
        self.ssthresh = self.cwnd.max(2.0);
        self.cut_until = high;
    }

    /// beta.
    fn kept(&self, min_rtt: f64, rtt: f64) -> f64 {
        if self.signal.g.is_none() || min_rtt <= 0.0 { 0.5 } else { (min_rtt / rtt).min(1.0) }
    }
}

impl Controller for Estcp {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }
    fn phase_cuts(&self) -> &[PhaseCut] {
        &self.cuts
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let now = ack.path.now;
        let cut_now = self.loss_cut == Some(now);
        if let Some(g) = self.signal.read(&ack.header, ack.packet_seq) {
            self.cuts.push(PhaseCut { at: now, g });
            if self.loss_cut.is_none_or(|at| now.since(at) >= ack.path.rtt) {
                self.cut(&ack.path, ack.sent, ack.high, |kept| kept);
            }
        } else if ack.allows_growth() && !cut_now {
            let alpha = match self.signal.g {
                Some(g) => ack.path.min_rtt.as_secs_f64() / g,
                None => 1.0,
            };
            let slow_start = self.cwnd < self.ssthresh;
            self.cwnd += if slow_start { 1.0 } else { (alpha / self.cwnd).min(1.0) };
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        if event.una >= self.cut_until {
            self.loss_cut = Some(event.path.now);
            self.cut(&event.path, event.sent, event.high, |kept| event.kept(kept));
        }
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            let (min_rtt, rtt) = (event.path.min_rtt, event.path.rtt);
            let kept = self.kept(min_rtt.as_secs_f64(), rtt.as_secs_f64());
            self.ssthresh = (self.cwnd * event.kept(kept)).max(2.0);
        }
        self.cwnd = event.window_after(self.cwnd);
    }
}

/// The signals that a flow has received from traffic controllers.
#[derive(Debug, Clone)]
struct PhaseSignal {
    config: EstcpConfig,
    /// The phase, or its parity; `None` before the first feedback.
    phase: Option<u64>,
    g: Option<f64>,
    /// The newest packet whose echo was read.
    newest: u64,
    marks: Marks,
}

/// Marks counted in a phase.
#[derive(Debug, Clone, Default)]
struct Marks {
    packets: f64,
    marked: f64,
    /// The share in the previous phase.
    before: Option<f64>,
}

impl PhaseSignal {
    fn new(config: EstcpConfig) -> Self {
        PhaseSignal { config, phase: None, g: None, newest: 0, marks: Marks::default() }
    }

    /// Reads the echo of packet `packet_seq`. Returns g of the phase that ended, if it is a shift.
    fn read(&mut self, header: &CongestionHeader, packet_seq: u64) -> Option<f64> {
        if packet_seq < self.newest {
            return None;
        }
        self.newest = packet_seq;
        match *header {
            CongestionHeader::Estcp { phase, g, .. } if phase > 0 => {
                let shifts = self.phase.replace(phase).is_some_and(|before| before != phase);
                let before = self.g.replace(g);
                before.filter(|_| shifts)
            }
            CongestionHeader::EstcpBits { bits } if bits > 0 || self.phase.is_some() => {
                let parity = u64::from(bits >> 1);
                let shifts = self.phase.replace(parity).is_some_and(|before| before != parity);
                let ended = if shifts { self.marks.end() } else { None };
                self.marks.packets += 1.0;
                self.marks.marked += f64::from(bits & 1);
                self.g = self.marks.share(self.config.prior).map(g_of_probability).or(self.g);
                shifts.then(|| ended.map_or(f64::NAN, g_of_probability))
            }
            _ => None,
        }
    }
}

impl Marks {
    /// Ends the phase, and returns the share in it alone, if there were packets.
    fn end(&mut self) -> Option<f64> {
        let share = (self.packets > 0.0).then(|| self.marked / self.packets);
        *self = Marks { before: share.or(self.before), ..Marks::default() };
        share
    }

    /// p_e, with the previous phase counted as `prior` packets.
    fn share(&self, prior: f64) -> Option<f64> {
        match self.before {
            Some(before) => Some((self.marked + prior * before) / (self.packets + prior)),
            None => (self.packets >= prior).then(|| self.marked / self.packets),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::router::estcp::marking_probability;
    use crate::units::Duration;

    const RTT_MIN: Duration = Duration::from_millis(100);

    fn controller(cwnd: f64) -> Estcp {
        let endpoint = EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() };
        Estcp::of(EstcpConfig::DEFAULT, &endpoint)
    }

    /// The acknowledgment, `at` milliseconds, of a packet that took `rtt` milliseconds.
    fn ack(at: u64, rtt: u64, phase: u64, g: f64) -> AckEvent {
        let now = Time::ZERO + Duration::from_millis(at);
        let sent = Time::ZERO + Duration::from_millis(at - rtt);
        let rtt = Duration::from_millis(rtt);
        AckEvent {
            path: Path { now, rtt, min_rtt: RTT_MIN, ..Path::default() },
            newly_acked: 1,
            cwnd_limited: true,
            una: at,
            high: at + 100,
            sent,
            packet_seq: at,
            header: CongestionHeader::Estcp { phase, g, age: 0.0, filled: 1.0 },
            ..AckEvent::default()
        }
    }

    fn lose(controller: &mut Estcp, ack: &AckEvent) {
        let AckEvent { una, high, sent, .. } = *ack;
        controller.on_congestion(&CongestionEvent {
            una,
            high,
            sent,
            ..CongestionEvent::certain(ack.path)
        });
        controller.on_ack(ack);
    }

    fn close(measured: f64, expected: f64) {
        assert!((measured - expected).abs() < 1e-9, "{measured} for {expected}");
    }

    #[test]
    fn the_window_grows_by_one_packet_in_g_seconds() {
        // g = 20 ms: alpha = 100 / 20 = 5 packets per RTT, 50 per second.
        let mut controller = controller(40.0);
        controller.on_ack(&ack(200, 100, 1, 0.02)); // Slow start: 41.
        controller.on_ack(&ack(210, 200, 2, 0.02)); // Cut to a half: 20.5.
        close(controller.cwnd(), 20.5);
        controller.on_ack(&ack(220, 100, 2, 0.02));
        close(controller.cwnd(), 20.5 + 5.0 / 20.5);
    }

    #[test]
    fn a_shift_keeps_what_fills_the_pipe_without_a_queue() {
        // beta = 100 / 160 = 0.625, whatever g is.
        let mut controller = controller(79.0);
        controller.on_ack(&ack(200, 160, 7, 1.0)); // The first phase received is not a shift.
        close(controller.cwnd(), 80.0);
        controller.on_ack(&ack(210, 160, 8, 1.0));
        close(controller.cwnd(), 50.0);
        assert_eq!(
            controller.phase_cuts(),
            [PhaseCut { at: Time::ZERO + Duration::from_millis(210), g: 1.0 }]
        );
        controller.on_ack(&ack(220, 160, 8, 1.0));
        assert!(controller.cwnd() > 50.0, "one cut a shift");
    }

    #[test]
    fn the_loss_that_belongs_to_a_shift_does_not_cut_again() {
        let mut controller = controller(80.0);
        controller.on_ack(&ack(200, 160, 1, 1.0));
        controller.on_ack(&ack(210, 160, 2, 1.0)); // Everything below 310 was sent before the cut.
        let after = controller.cwnd();
        let early = AckEvent { newly_acked: 0, una: 309, ..ack(300, 160, 2, 1.0) };
        lose(&mut controller, &early);
        close(controller.cwnd(), after);
        // A packet sent later is another loss: beta = 100 / 125.
        let late = AckEvent { newly_acked: 0, una: 310, ..ack(400, 125, 2, 1.0) };
        lose(&mut controller, &late);
        close(controller.cwnd(), after * 0.8);
    }

    #[test]
    fn the_shift_that_belongs_to_a_loss_does_not_cut_again() {
        let mut controller = controller(80.0);
        controller.on_ack(&ack(200, 160, 1, 1.0));
        lose(&mut controller, &ack(210, 160, 1, 1.0));
        let after = controller.cwnd();
        controller.on_ack(&AckEvent { newly_acked: 0, ..ack(300, 160, 2, 1.0) });
        close(controller.cwnd(), after);
        controller.on_ack(&AckEvent { newly_acked: 0, ..ack(400, 160, 3, 1.0) });
        close(controller.cwnd(), after * 0.625);
    }

    #[test]
    fn without_a_controller_it_is_tcp() {
        let mut controller = controller(80.0);
        lose(&mut controller, &ack(200, 160, 0, 0.0));
        close(controller.cwnd(), 40.0);
        let next = ack(400, 160, 0, 0.0);
        controller.on_ack(&next);
        close(controller.cwnd(), 40.0 + 1.0 / 40.0);
    }

    #[test]
    fn an_echo_of_an_older_packet_shifts_nothing() {
        let mut controller = controller(80.0);
        controller.on_ack(&ack(200, 100, 1, 1.0));
        controller.on_ack(&ack(210, 100, 2, 1.0));
        controller.on_ack(&AckEvent { packet_seq: 205, ..ack(220, 100, 1, 1.0) });
        assert_eq!(controller.phase_cuts().len(), 1);
    }

    #[test]
    fn marks_carry_g() {
        // g = 0.02: every packet of the phase 10 or 11, 1000 of them, marked as evenly as p allows.
        let p = marking_probability(0.02);
        let mut controller = controller(10.0);
        let mut owed: f64 = 0.0;
        for i in 0..1000 {
            owed += p;
            let mark = u8::from(owed >= 1.0);
            owed -= f64::from(mark);
            let header = CongestionHeader::EstcpBits { bits: 0b10 | mark };
            controller.on_ack(&AckEvent { header, ..ack(200 + i, 100, 0, 0.0) });
        }
        let g = controller.signal.g.unwrap();
        // A share of 1000 packets is exact to 1/1000, which is 11.7/1000 of g.
        assert!((g / 0.02 - 1.0).abs() < 0.012, "{g}");
        // The other parity is a shift, and the share of the old phase still counts.
        let header = CongestionHeader::EstcpBits { bits: 0b00 };
        controller.on_ack(&AckEvent { header, ..ack(2000, 100, 0, 0.0) });
        assert_eq!(controller.phase_cuts().len(), 1);
        let after = controller.signal.g.unwrap();
        // One unmarked packet and 32 prior ones: p falls by p/33.
        let expected = g_of_probability(p - p / 33.0);
        assert!((after / expected - 1.0).abs() < 0.02, "{after} for {expected}");
    }
}
