//! BBR's model of the path (section "Updating Network Path Model Parameters").

use super::{BETA, Bbr, LOSS_THRESHOLD, LostPacket, RateSample, larger, smaller};
use crate::endpoint::{real, seconds};

/// BBR.ExtraAckedFilterLen, round trips.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;

impl Bbr {
    /// BBR.max_bw, packets per second.
    pub(super) fn max_bw(&self) -> f64 {
        larger(self.max_bw_filter[0], self.max_bw_filter[1])
    }

    /// True if cwnd was used up at any point of the last round trip (C.is_cwnd_limited).
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.was_cwnd_limited[0] || self.was_cwnd_limited[1]
    }

    // "BBR.round_count: Tracking Packet-Timed Round Trips"

    fn update_round(&mut self, rs: &RateSample) {
        self.round_start = rs.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round();
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
            self.was_cwnd_limited = [self.was_cwnd_limited[1], false];
        }
    }

    pub(super) fn start_round(&mut self) {
        self.next_round_delivered = self.total_delivered;
    }

    // "BBR.max_bw Max Filter"

    fn update_max_bw(&mut self, rs: &RateSample) {
        self.update_round(rs);
        if rs.rate > 0.0 && (rs.rate >= self.max_bw() || !rs.is_app_limited) {
            self.max_bw_filter[1] = larger(self.max_bw_filter[1], rs.rate);
        }
    }

    pub(super) fn advance_max_bw_filter(&mut self) {
        if self.max_bw_filter[1] > 0.0 {
            self.max_bw_filter = [self.max_bw_filter[1], 0.0];
        }
    }

    // "BBR.extra_acked"

    pub(super) fn update_ack_aggregation(&mut self, rs: &RateSample) {
        let interval = seconds(rs.now.since(self.extra_acked_interval_start));
        let mut expected = self.bw * interval;
        if self.extra_acked_delivered <= expected {
            self.extra_acked_delivered = 0.0;
            self.extra_acked_interval_start = rs.now;
            expected = 0.0;
        }
        self.extra_acked_delivered += real(rs.newly_acked);
        let extra = smaller(self.extra_acked_delivered - expected, self.cwnd);
        let length = if self.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked_filter.update(self.round_count, extra, length);
    }

    // "Updating the Model Upon Packet Loss"

    pub(super) fn update_latest_delivery_signals(&mut self, rs: &RateSample) {
        self.loss_round_start = false;
        self.bw_latest = larger(self.bw_latest, rs.rate);
        self.inflight_latest = larger(self.inflight_latest, real(rs.delivered));
        if rs.prior_delivered >= self.loss_round_delivered {
            self.loss_round_delivered = rs.total_delivered;
            self.loss_round_start = true;
        }
    }

    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &RateSample) {
        if self.loss_round_start {
            self.bw_latest = rs.rate;
            self.inflight_latest = real(rs.delivered);
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    pub(super) fn update_congestion_signals(&mut self, rs: &RateSample) {
        self.update_max_bw(rs);
        if !self.loss_round_start {
            return;
        }
        // AdaptLowerBoundsFromCongestion: once per round trip.
        if !self.state.is_probing() && self.is_loss_in_round {
            self.init_lower_bounds();
            self.loss_lower_bounds();
        }
        self.is_loss_in_round = false;
    }

    fn init_lower_bounds(&mut self) {
        if self.bw_shortterm.is_infinite() {
            self.bw_shortterm = self.max_bw();
        }
        if self.inflight_shortterm.is_infinite() {
            self.inflight_shortterm = self.cwnd;
        }
    }

    fn loss_lower_bounds(&mut self) {
        self.bw_shortterm = self.bw_latest.max(BETA * self.bw_shortterm);
        self.inflight_shortterm = self.inflight_latest.max(BETA * self.inflight_shortterm);
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    pub(super) fn note_loss(&mut self) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = self.total_delivered;
            self.save_state_upon_loss();
        }
        self.is_loss_in_round = true;
    }
}

/// IsInflightTooHigh: true if more than 2 % of a flight were lost.
pub(super) fn is_inflight_too_high(lost: u64, tx_in_flight: u64) -> bool {
    real(lost) > real(tx_in_flight) * LOSS_THRESHOLD
}

/// InflightAtLoss: the number of packets in flight at which losses crossed the threshold.
pub(super) fn inflight_at_loss(packet: &LostPacket) -> f64 {
    let inflight_prev = real(packet.tx_in_flight) - 1.0;
    let lost_prev = real(packet.lost) - 1.0;
    let lost_prefix = (LOSS_THRESHOLD * inflight_prev - lost_prev) / (1.0 - LOSS_THRESHOLD);
    inflight_prev + lost_prefix
}
