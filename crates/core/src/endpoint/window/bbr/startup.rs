//! Startup and Drain (sections "Startup" and "Drain").

use super::model::is_inflight_too_high;
use super::{Bbr, BbrState, RateSample};
use crate::endpoint::real;

/// BBRStartupFullLossCnt.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// Round trips after which Drain ends anyway.
const DRAIN_ROUNDS: u64 = 3;

/// The estimate of whether Startup or a probe has filled the pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct FullPipe {
    full_bw: f64,
    pub(super) full_bw_count: u32,
    pub(super) full_bw_now: bool,
    pub(super) full_bw_reached: bool,
}

impl FullPipe {
    /// ResetFullBW, from the rate `full_bw` on.
    pub(super) fn reset(&mut self, full_bw: f64) {
        self.full_bw = full_bw;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// CheckFullBWReached: three round trips with less than 25 % growth each.
    #[inline]
    pub(super) fn check(&mut self, rs: &RateSample, round_start: bool) {
        if self.full_bw_now || !round_start || rs.is_app_limited {
            return;
        }
        if rs.rate >= self.full_bw * 1.25 {
            self.reset(rs.rate);
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }
}

impl Bbr {
    pub(super) fn check_startup_done(&mut self, rs: &RateSample) {
        self.check_startup_high_loss(rs);
        if self.state == BbrState::Startup && self.pipe.full_bw_reached {
            self.enter_drain();
        }
    }

    fn check_startup_high_loss(&mut self, rs: &RateSample) {
        if !self.loss_round.start {
            return;
        }
        let ranges = std::mem::take(&mut self.loss_round.ranges);
        if self.state == BbrState::Startup
            && !self.pipe.full_bw_reached
            && ranges >= STARTUP_FULL_LOSS_COUNT
            && is_inflight_too_high(rs.lost, rs.tx_in_flight)
        {
            self.undo.state = Some(BbrState::Startup);
            self.pipe.full_bw_reached = true;
            // max(BBR.bdp, BBR.inflight_latest)
            self.bounds.inflight_longterm =
                self.bdp_multiple(self.bw, 1.0).max(self.loss_round.inflight_latest);
        }
    }

    pub(super) fn enter_startup(&mut self) {
        self.state = BbrState::Startup;
    }

    fn enter_drain(&mut self) {
        self.state = BbrState::Drain;
        self.drain_start_round = self.round.count;
    }

    pub(super) fn check_drain_done(&mut self, rs: &RateSample) {
        if self.state == BbrState::Drain
            && (real(rs.in_flight) <= self.inflight(self.bw, 1.0)
                || self.round.count > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(rs.now); // EnterProbeBW
        }
    }
}
