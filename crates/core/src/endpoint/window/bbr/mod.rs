//! BBRv3 (draft-ietf-ccwg-bbr-06; Cardwell et al., Communications of the ACM 60(2), 2017, for the
//! idea).
//!
//! The sender keeps a model of the path, the largest recent delivery rate and the smallest
//! round-trip time, and paces packets at that rate with about twice their product in flight. From
//! time to time it sends faster for some round trips to find more bandwidth; the volume at which
//! more than 2 % were lost then bounds the packets in flight. Or it sends less for 200 ms to
//! measure the round-trip time without its own queue. Single losses between probes bound rate and
//! volume only until the next probe.
//!
//! ```text
//! bw           = min(max_bw, bw_shortterm)
//! pacing_rate  = pacing_gain bw (1 - 1 %)
//! max_inflight = cwnd_gain bw min_rtt + extra_acked
//! cwnd        -> max_inflight, bounded by inflight_longterm and inflight_shortterm
//! ```
//!
//! Functions have the names of the draft's pseudocode: `model` holds "Updating Network Path Model
//! Parameters", `startup` Startup and Drain, `probe_bw` and `probe_rtt` the states of these names,
//! `undo` the response to spurious losses.
//!
//! Readings and deviations:
//! - Volumes are packets, rates packets per second. There are no offload engines: the send
//!   quantum and the offload budget are one packet, as the draft allows, and MinPipeCwnd is 4.
//! - The initial pacing rate, from cwnd over 1 ms, is set again from the first round-trip time, as
//!   Linux does and the draft's text implies; otherwise the pacing rate of Startup never decreases.
//! - AdvanceMaxBwFilter keeps the old maximum while a cycle has no samples, as Linux does.
//! - Startup ends on loss after one full round trip since a loss with six or more ranges of packet
//!   numbers lost in it. That is the draft's round trip in fast recovery.
//! - A timeout in the draft's sense is persistent congestion (RFC 9002 section 7.6); a probe
//!   timeout changes nothing, as in QUIC.
//! - A loss episode is spurious if every transmission found lost in it was later acknowledged by
//!   its number.
//! - The draft leaves the response to ECN open; ECN is not negotiated.

mod filter;
mod model;
mod probe_bw;
mod probe_rtt;
mod startup;
mod undo;

#[cfg(test)]
mod tests;

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{LostPacket, RateSample};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::{real, seconds};
use crate::part::{Ability, Form, Need, Part, Plain, Words};
use crate::rng::Stream;
use crate::units::{Duration, Time};

pub(super) use filter::WindowedMax;
use model::{Bounds, LossRound};
pub(super) use model::{ExtraAcked, Round};
use probe_bw::BwProbe;
use probe_rtt::RttProbe;
use startup::FullPipe;
use undo::Undo;

/// BBR.PacingMarginPercent: pace 1 % below bw.
const PACING_MARGIN: f64 = 0.01;
/// BBR.LossThresh.
const LOSS_THRESHOLD: f64 = 0.02;
/// BBR.Beta.
const BETA: f64 = 0.7;
/// BBR.Headroom.
const HEADROOM: f64 = 0.15;
/// BBR.MinPipeCwnd, packets.
const MIN_PIPE_CWND: f64 = 4.0;

/// The states (section "State Machine").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BbrState {
    /// Exponential search for the bandwidth.
    Startup,
    /// Draining the queue of Startup.
    Drain,
    /// Sending slower than the path delivers, for headroom.
    ProbeBwDown,
    /// Sending as fast as the path delivers.
    ProbeBwCruise,
    /// One round trip that fills the pipe before the probe.
    ProbeBwRefill,
    /// Sending faster than the path delivers, to find more bandwidth.
    ProbeBwUp,
    /// Half a pipe in flight, to measure the round-trip time.
    ProbeRtt,
}

impl BbrState {
    /// The table of section "Summary of Control Behavior in the State Machine".
    fn pacing_gain(self) -> f64 {
        match self {
            BbrState::Startup => 2.77, // 4 ln 2
            BbrState::Drain => 0.5,
            BbrState::ProbeBwDown => 0.9,
            BbrState::ProbeBwCruise | BbrState::ProbeBwRefill | BbrState::ProbeRtt => 1.0,
            BbrState::ProbeBwUp => 1.25,
        }
    }
    fn cwnd_gain(self) -> f64 {
        match self {
            BbrState::ProbeBwUp => 2.25,
            BbrState::ProbeRtt => 0.5,
            _ => 2.0,
        }
    }
    /// IsInAProbeBWState.
    fn is_probe_bw(self) -> bool {
        use BbrState::{ProbeBwCruise, ProbeBwDown, ProbeBwRefill, ProbeBwUp};
        matches!(self, ProbeBwDown | ProbeBwCruise | ProbeBwRefill | ProbeBwUp)
    }
    /// IsProbingBW.
    fn is_probing(self) -> bool {
        matches!(self, BbrState::Startup | BbrState::ProbeBwRefill | BbrState::ProbeBwUp)
    }
}

/// The state of BBR, with the draft's names. Infinite values are not set.
#[derive(Debug, Clone)]
pub struct Bbr {
    initial_window: f64,
    stream: Stream,
    state: BbrState,
    cwnd: f64,
    prior_cwnd: f64,
    pacing_rate: f64,
    has_rtt: bool,
    in_recovery: bool,
    /// C.delivered.
    total_delivered: u64,
    round: Round,
    /// Whether cwnd limited the packets in flight, in the last round trip and in this one.
    was_cwnd_limited: [bool; 2],
    /// The largest rates of the last ProbeBW cycle and of this one.
    max_bw_filter: [f64; 2],
    bw: f64,
    /// `None` before the first sample.
    min_rtt: Option<Duration>,
    min_rtt_stamp: Time,
    bounds: Bounds,
    undo: Undo,
    loss_round: LossRound,
    extra_acked: ExtraAcked,
    pipe: FullPipe,
    drain_start_round: u64,
    probe: BwProbe,
    probe_rtt: RttProbe,
}

/// `f64::max` without the handling of NaN, which does not occur here.
#[inline]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// `f64::min` without the handling of NaN.
#[inline]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

impl Part for Bbr {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "bbr",
            what: "a pace and a window from the largest delivery rate and the smallest RTT seen \
                lately",
            source: "draft-ietf-ccwg-bbr-06",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] =
        &[Need { any_of: &[Ability::TransmissionNumbers], why: "it never moves" }];
}

impl ControllerPart for Bbr {
    const PACES: bool = true;
    const SAMPLES_RATE: bool = true;
    /// BBR does not specify a response to marks (its draft, section "ECN").
    const ANSWERS_ECN: bool = false;
    /// BBR judges losses itself, by their share in a round trip.
    const HEEDS_VERDICTS: bool = false;
    fn new(_: &Plain, setup: ControllerSetup<'_>) -> Self {
        Bbr::of(setup.endpoint, setup.stream)
    }
}

impl Bbr {
    /// OnInit. PickProbeWait draws from `stream`.
    fn of(config: &EndpointConfig, stream: Stream) -> Self {
        Bbr {
            initial_window: config.initial_window,
            stream,
            state: BbrState::Startup,
            cwnd: config.initial_window,
            prior_cwnd: 0.0,
            pacing_rate: BbrState::Startup.pacing_gain() * config.initial_window / 0.001,
            has_rtt: false,
            in_recovery: false,
            total_delivered: 0,
            round: Round::default(),
            was_cwnd_limited: [false; 2],
            max_bw_filter: [0.0; 2],
            bw: 0.0,
            min_rtt: None,
            min_rtt_stamp: Time::ZERO,
            bounds: Bounds::NONE,
            undo: Undo::default(),
            loss_round: LossRound::default(),
            extra_acked: ExtraAcked::default(),
            pipe: FullPipe::default(),
            drain_start_round: 0,
            probe: BwProbe::default(),
            probe_rtt: RttProbe::default(),
        }
    }

    // Pacing rate (section "Pacing Rate: C.pacing_rate").

    fn init_pacing_rate(&mut self, rtt: Option<Duration>) {
        if let Some(rtt) = rtt.filter(|_| !self.has_rtt) {
            self.has_rtt = true;
            let nominal = self.initial_window / rtt.as_secs_f64();
            self.pacing_rate = BbrState::Startup.pacing_gain() * nominal;
        }
    }

    fn set_pacing_rate_with_gain(&mut self, gain: f64) {
        let rate = gain * self.bw * (1.0 - PACING_MARGIN);
        if rate > 0.0 && (self.pipe.full_bw_reached || rate > self.pacing_rate) {
            self.pacing_rate = rate;
        }
    }

    // Congestion window (section "Congestion Window").

    /// BDPMultiple with `bw`.
    fn bdp_multiple(&self, bw: f64, gain: f64) -> f64 {
        self.min_rtt.map_or(self.initial_window, |min_rtt| gain * bw * seconds(min_rtt))
    }

    fn quantization_budget(&self, inflight: f64) -> f64 {
        let inflight = larger(inflight, MIN_PIPE_CWND);
        if self.state == BbrState::ProbeBwUp { inflight + 2.0 } else { inflight }
    }

    /// Inflight(bw, gain).
    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    fn set_cwnd(&mut self, rs: &RateSample) {
        let pipe = self.bdp_multiple(self.bw, self.state.cwnd_gain());
        let max_inflight = self.quantization_budget(pipe + self.extra_acked.max());
        let acked = real(rs.newly_acked);
        if self.pipe.full_bw_reached {
            self.cwnd = smaller(self.cwnd + acked, max_inflight);
        } else if self.cwnd < max_inflight || real(rs.total_delivered) < self.initial_window {
            self.cwnd += acked;
        }
        self.cwnd = larger(self.cwnd, MIN_PIPE_CWND);
        if self.state == BbrState::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.bound_cwnd_for_model();
    }

    fn bound_cwnd_for_model(&mut self) {
        let cap = match self.state {
            BbrState::Startup | BbrState::Drain => f64::INFINITY,
            BbrState::ProbeBwDown | BbrState::ProbeBwRefill | BbrState::ProbeBwUp => {
                self.bounds.inflight_longterm
            }
            BbrState::ProbeBwCruise | BbrState::ProbeRtt => self.inflight_with_headroom(),
        };
        let cap = larger(smaller(cap, self.bounds.inflight_shortterm), MIN_PIPE_CWND);
        self.cwnd = smaller(self.cwnd, cap);
    }

    fn save_cwnd(&mut self) {
        if !self.in_recovery && self.state != BbrState::ProbeRtt {
            self.prior_cwnd = self.cwnd;
        } else {
            self.prior_cwnd = self.prior_cwnd.max(self.cwnd);
        }
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }
}

impl Controller for Bbr {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    /// C.pacing_rate, packets per second.
    fn pacing_rate(&self) -> Option<f64> {
        Some(self.pacing_rate)
    }
    fn phase(&self) -> Option<&'static str> {
        Some(match self.state {
            BbrState::Startup => "startup",
            BbrState::Drain => "drain",
            BbrState::ProbeBwDown => "probe_bw_down",
            BbrState::ProbeBwCruise => "probe_bw_cruise",
            BbrState::ProbeBwRefill => "probe_bw_refill",
            BbrState::ProbeBwUp => "probe_bw_up",
            BbrState::ProbeRtt => "probe_rtt",
        })
    }

    /// UpdateOnACK. Returns true if packets sent now count as limited by the application.
    fn on_rate_sample(&mut self, rs: &RateSample) -> bool {
        self.total_delivered = rs.total_delivered;
        if self.in_recovery && !rs.in_recovery {
            self.restore_cwnd();
        }
        self.in_recovery = rs.in_recovery;
        // At least the whole packets of cwnd.
        self.was_cwnd_limited[1] |= real(rs.prior_in_flight + 1) > self.cwnd;
        self.init_pacing_rate(rs.rtt);

        // UpdateModelAndState
        self.loss_round.update(rs);
        self.update_congestion_signals(rs);
        self.update_ack_aggregation(rs);
        self.pipe.check(rs, self.round.start);
        self.check_startup_done(rs);
        self.check_drain_done(rs);
        self.update_probe_bw_cycle_phase(rs);
        self.update_min_rtt(rs);
        let app_limited = self.check_probe_rtt(rs);
        self.loss_round.advance(rs);
        self.bw = smaller(self.max_bw(), self.bounds.bw_shortterm); // BoundBWForModel

        // UpdateControlParameters
        self.set_pacing_rate_with_gain(self.state.pacing_gain());
        self.set_cwnd(rs);
        app_limited
    }

    /// Does nothing; everything follows from the samples.
    fn on_ack(&mut self, _ack: &AckEvent) {}

    /// OnEnterFastRecovery.
    fn on_congestion(&mut self, _event: &CongestionEvent) {
        self.save_state_upon_loss();
        self.in_recovery = true;
    }

    /// OnEnterRTO.
    fn on_reset(&mut self, event: &ResetEvent) {
        self.save_state_upon_loss();
        self.in_recovery = true;
        self.cwnd = event.path.in_flight + 1.0;
    }

    /// HandleRestartFromIdle.
    fn on_restart_from_idle(&mut self, now: Time) {
        self.probe_rtt.idle_restart = true;
        self.extra_acked.interval_start = now;
        if self.state.is_probe_bw() {
            self.set_pacing_rate_with_gain(1.0);
        } else if self.state == BbrState::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// HandleLostPacket.
    fn on_lost(&mut self, packet: &LostPacket, now: Time) {
        self.total_delivered = packet.total_delivered;
        self.loss_round.count_range(packet.number);
        self.note_loss();
        self.handle_lost_probe(packet, now);
    }

    /// HandleSpuriousLossDetection.
    fn on_spurious_losses(&mut self) {
        self.undo_losses();
    }
}
