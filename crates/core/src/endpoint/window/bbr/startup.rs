//! Startup and Drain (sections "Startup" and "Drain").

use super::model::is_inflight_too_high;
use super::{Bbr, BbrState, RateSample};
use crate::endpoint::real;

/// BBRStartupFullLossCnt.
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// Round trips after which Drain ends anyway.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr {
    pub(super) fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_count = 0;
        self.full_bw_now = false;
    }

    /// Detects a full pipe: three round trips with less than 25 % growth each.
    pub(super) fn check_full_bw_reached(&mut self, rs: &RateSample) {
        if self.full_bw_now || !self.round_start || rs.is_app_limited {
            return;
        }
        if rs.rate >= self.full_bw * 1.25 {
            self.reset_full_bw();
            self.full_bw = rs.rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= 3;
        self.full_bw_reached |= self.full_bw_now;
    }

    pub(super) fn check_startup_done(&mut self, rs: &RateSample) {
        self.check_startup_high_loss(rs);
        if self.state == BbrState::Startup && self.full_bw_reached {
            self.enter_drain();
        }
    }

    fn check_startup_high_loss(&mut self, rs: &RateSample) {
        if !self.loss_round_start {
            return;
        }
        let ranges = std::mem::take(&mut self.lost_ranges);
        if self.state == BbrState::Startup
            && !self.full_bw_reached
            && ranges >= STARTUP_FULL_LOSS_COUNT
            && is_inflight_too_high(rs.lost, rs.tx_in_flight)
        {
            self.undo.state = Some(BbrState::Startup);
            self.full_bw_reached = true;
            // max(BBR.bdp, BBR.inflight_latest)
            self.inflight_longterm = self.bdp_multiple(self.bw, 1.0).max(self.inflight_latest);
        }
    }

    pub(super) fn enter_startup(&mut self) {
        self.state = BbrState::Startup;
    }

    fn enter_drain(&mut self) {
        self.state = BbrState::Drain;
        self.drain_start_round = self.round_count;
    }

    pub(super) fn check_drain_done(&mut self, rs: &RateSample) {
        if self.state == BbrState::Drain
            && (real(rs.in_flight) <= self.inflight(self.bw, 1.0)
                || self.round_count > self.drain_start_round + DRAIN_ROUNDS)
        {
            self.start_probe_bw_down(rs.now); // EnterProbeBW
        }
    }
}
