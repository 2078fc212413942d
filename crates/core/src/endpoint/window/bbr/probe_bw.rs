//! ProbeBW: cruising, with a search for more bandwidth from time to time (section "ProbeBW").

use super::model::{inflight_at_loss, is_inflight_too_high};
use super::{
    BETA, Bbr, BbrState, HEADROOM, LostPacket, MIN_PIPE_CWND, RateSample, larger, smaller,
};
use crate::endpoint::real;
use crate::units::{Duration, Time};

/// Bound on the round trips between two probes, for coexistence with Reno and CUBIC.
const MOST_RENO_ROUNDS: f64 = 63.0;
/// Shortest and longest time between two probes.
const PROBE_WAIT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(3));

/// BBR.ack_phase: the part of a probe that present acknowledgments belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The probe for bandwidth, and the wait for it.
#[derive(Debug, Clone)]
pub(super) struct BwProbe {
    pub(super) ack_phase: AckPhase,
    pub(super) is_sample: bool,
    up_rounds: u32,
    up_acked: f64,
    up_acked_per_inc: f64,
    pub(super) rounds_since_up: u64,
    pub(super) wait: Duration,
    pub(super) cycle_stamp: Time,
    pub(super) prev_too_high: bool,
    pub(super) prev_precautionary: bool,
}

impl Default for BwProbe {
    fn default() -> Self {
        BwProbe {
            ack_phase: AckPhase::Init,
            is_sample: false,
            up_rounds: 0,
            up_acked: 0.0,
            up_acked_per_inc: f64::INFINITY,
            rounds_since_up: 0,
            wait: Duration::ZERO,
            cycle_stamp: Time::ZERO,
            prev_too_high: false,
            prev_precautionary: false,
        }
    }
}

impl Bbr {
    pub(super) fn start_probe_bw_down(&mut self, now: Time) {
        self.loss_round.reset();
        self.probe.up_acked_per_inc = f64::INFINITY;
        self.pick_probe_wait();
        self.probe.cycle_stamp = now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = BbrState::ProbeBwDown;
    }

    pub(super) fn start_probe_bw_cruise(&mut self) {
        self.state = BbrState::ProbeBwCruise;
    }

    pub(super) fn start_probe_bw_refill(&mut self) {
        self.bounds.reset_short_term_model();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0.0;
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = BbrState::ProbeBwRefill;
    }

    fn start_probe_bw_up(&mut self, rs: &RateSample) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.pipe.reset(rs.rate);
        self.state = BbrState::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    fn pick_probe_wait(&mut self) {
        self.probe.rounds_since_up = u64::from(self.stream.uniform() >= 0.5);
        self.probe.wait = self.stream.between(PROBE_WAIT.0, PROBE_WAIT.1);
    }

    pub(super) fn update_probe_bw_cycle_phase(&mut self, rs: &RateSample) {
        if !self.pipe.full_bw_reached || self.adapt_long_term_model(rs) {
            return;
        }
        match self.state {
            BbrState::ProbeBwDown => {
                if self.is_time_to_probe_bw(rs.now) {
                    self.start_probe_bw_refill();
                } else if self.is_time_to_cruise(rs) {
                    self.start_probe_bw_cruise();
                }
            }
            BbrState::ProbeBwCruise => {
                if self.is_time_to_probe_bw(rs.now) {
                    self.start_probe_bw_refill();
                }
            }
            BbrState::ProbeBwRefill => {
                // After one round trip.
                if self.round.start {
                    self.probe.is_sample = true;
                    self.start_probe_bw_up(rs);
                }
            }
            BbrState::ProbeBwUp => {
                if self.is_time_to_go_down(rs) {
                    self.probe.prev_too_high = false;
                    self.start_probe_bw_down(rs.now);
                }
            }
            BbrState::Startup | BbrState::Drain | BbrState::ProbeRtt => {}
        }
    }

    fn is_time_to_probe_bw(&self, now: Time) -> bool {
        // HasElapsedInPhase or IsRenoCoexistenceProbeTime
        now > self.probe.cycle_stamp + self.probe.wait
            || real(self.probe.rounds_since_up) >= smaller(self.target_inflight(), MOST_RENO_ROUNDS)
    }

    fn target_inflight(&self) -> f64 {
        smaller(self.bdp_multiple(self.bw, 1.0), self.cwnd)
    }

    fn is_time_to_cruise(&self, rs: &RateSample) -> bool {
        let in_flight = real(rs.in_flight);
        in_flight <= self.inflight_with_headroom() && in_flight <= self.inflight(self.max_bw(), 1.0)
    }

    pub(super) fn is_time_to_go_down(&mut self, rs: &RateSample) -> bool {
        if self.probe.prev_too_high && real(rs.in_flight) >= self.bounds.inflight_longterm {
            self.probe.prev_precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && self.cwnd >= self.bounds.inflight_longterm {
            // The bound, and not the path, limits the rate.
            self.pipe.reset(rs.rate);
            return false;
        }
        self.pipe.full_bw_now
    }

    pub(super) fn inflight_with_headroom(&self) -> f64 {
        if self.bounds.inflight_longterm.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = larger(HEADROOM * self.bounds.inflight_longterm, 1.0);
        larger(self.bounds.inflight_longterm - headroom, MIN_PIPE_CWND)
    }

    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = f64::from(1u32 << self.probe.up_rounds);
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_acked_per_inc = (self.cwnd / growth_this_round).max(1.0);
    }

    fn probe_inflight_longterm_upward(&mut self, rs: &RateSample) {
        if !self.is_cwnd_limited() || self.cwnd < self.bounds.inflight_longterm {
            return;
        }
        self.probe.up_acked += real(rs.newly_acked);
        if self.probe.up_acked >= self.probe.up_acked_per_inc {
            let delta = libm::floor(self.probe.up_acked / self.probe.up_acked_per_inc);
            self.probe.up_acked -= delta * self.probe.up_acked_per_inc;
            self.bounds.inflight_longterm += delta;
        }
        if self.round.start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// Adapts the long-term bound. Returns true if it selected the next state.
    fn adapt_long_term_model(&mut self, rs: &RateSample) -> bool {
        if self.probe.ack_phase == AckPhase::ProbeStarting && self.round.start {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.probe.ack_phase == AckPhase::ProbeStopping && self.round.start {
            self.probe.is_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !rs.is_app_limited {
                self.advance_max_bw_filter();
            }
            if self.state.is_probe_bw()
                && self.probe.prev_precautionary
                && !self.probe.prev_too_high
            {
                self.start_probe_bw_refill();
                return true;
            }
        }
        if !is_inflight_too_high(rs.lost, rs.tx_in_flight) {
            if self.bounds.inflight_longterm.is_infinite() {
                return false;
            }
            self.bounds.inflight_longterm =
                larger(self.bounds.inflight_longterm, real(rs.tx_in_flight));
            if self.state == BbrState::ProbeBwUp {
                self.probe_inflight_longterm_upward(rs);
            }
        }
        false
    }

    /// The part of HandleLostPacket that judges a probe, and HandleInflightTooHigh.
    pub(super) fn handle_lost_probe(&mut self, packet: &LostPacket, now: Time) {
        if !self.probe.is_sample || !is_inflight_too_high(packet.lost, packet.tx_in_flight) {
            return;
        }
        self.probe.prev_too_high = true;
        self.probe.is_sample = false; // Only one reaction to a probe.
        if !packet.is_app_limited {
            self.bounds.inflight_longterm =
                inflight_at_loss(packet).max(self.target_inflight() * BETA);
        }
        if self.state == BbrState::ProbeBwUp {
            self.undo.state = Some(BbrState::ProbeBwUp);
            self.start_probe_bw_down(now);
        }
    }
}
