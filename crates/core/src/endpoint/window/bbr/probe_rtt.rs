//! ProbeRTT and the smallest round-trip time (section "ProbeRTT").

use super::probe_bw::AckPhase;
use super::{Bbr, BbrState, MIN_PIPE_CWND, RateSample};
use crate::endpoint::real;
use crate::units::{Duration, Time};

/// BBR.MinRTTFilterLen.
const MIN_RTT_FILTER_LEN: Duration = Duration::from_secs(10);
/// BBR.ProbeRTTInterval.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// BBR.ProbeRTTDuration.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

/// The probe for the round-trip time, and the shortest one since the last.
#[derive(Debug, Clone, Default)]
pub(super) struct RttProbe {
    /// `None` before the first sample.
    min_delay: Option<Duration>,
    min_stamp: Time,
    expired: bool,
    done_stamp: Option<Time>,
    round_done: bool,
    pub(super) idle_restart: bool,
}

impl Bbr {
    pub(super) fn update_min_rtt(&mut self, rs: &RateSample) {
        self.probe_rtt.expired = false;
        let Some(rtt) = rs.rtt else { return };
        let delay = self.probe_rtt.min_delay;
        self.probe_rtt.expired =
            delay.is_some() && rs.now > self.probe_rtt.min_stamp + PROBE_RTT_INTERVAL;
        if delay.is_none_or(|delay| rtt < delay) || self.probe_rtt.expired {
            self.probe_rtt.min_delay = Some(rtt);
            self.probe_rtt.min_stamp = rs.now;
        }
        let min_rtt_expired = rs.now > self.min_rtt_stamp + MIN_RTT_FILTER_LEN;
        let delay = self.probe_rtt.min_delay;
        if self.min_rtt.is_none_or(|min| delay < Some(min)) || min_rtt_expired {
            self.min_rtt = delay;
            self.min_rtt_stamp = self.probe_rtt.min_stamp;
        }
    }

    /// CheckProbeRTT. Returns true if samples count as limited by the application.
    pub(super) fn check_probe_rtt(&mut self, rs: &RateSample) -> bool {
        if self.state != BbrState::ProbeRtt
            && self.probe_rtt.expired
            && !self.probe_rtt.idle_restart
        {
            self.state = BbrState::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.done_stamp = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        let is_probing = self.state == BbrState::ProbeRtt;
        if is_probing {
            self.handle_probe_rtt(rs);
        }
        self.probe_rtt.idle_restart = false; // A packet was delivered.
        is_probing
    }

    fn handle_probe_rtt(&mut self, rs: &RateSample) {
        if self.probe_rtt.done_stamp.is_none() {
            if real(rs.in_flight) <= self.probe_rtt_cwnd() {
                self.probe_rtt.done_stamp = Some(rs.now + PROBE_RTT_DURATION);
                self.probe_rtt.round_done = false;
                self.start_round();
            }
            return;
        }
        self.probe_rtt.round_done |= self.round.start;
        if self.probe_rtt.round_done {
            self.check_probe_rtt_done(rs.now);
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.done_stamp.is_some_and(|done| now > done) {
            self.probe_rtt.min_stamp = now; // Schedules the next one.
            self.restore_cwnd();
            self.exit_probe_rtt(now);
        }
    }

    fn exit_probe_rtt(&mut self, now: Time) {
        self.bounds.reset_short_term_model();
        if self.pipe.full_bw_reached {
            self.start_probe_bw_down(now);
            self.start_probe_bw_cruise();
        } else {
            self.enter_startup();
        }
    }

    /// ProbeRTTCwnd.
    pub(super) fn probe_rtt_cwnd(&self) -> f64 {
        let gain = BbrState::ProbeRtt.cwnd_gain();
        self.bdp_multiple(self.bw, gain).max(MIN_PIPE_CWND)
    }
}
