//! BBR's model of the path (section "Updating Network Path Model Parameters").

use super::{BETA, Bbr, LOSS_THRESHOLD, LostPacket, RateSample, WindowedMax, larger, smaller};
use crate::endpoint::{real, seconds};
use crate::units::Time;

/// BBR.ExtraAckedFilterLen, round trips.
const EXTRA_ACKED_FILTER_LEN: u64 = 10;

/// Packet-timed round trips, of both versions of BBR.
#[derive(Debug, Clone, Default)]
pub(in crate::endpoint::window) struct Round {
    pub(in crate::endpoint::window) next_delivered: u64,
    pub(in crate::endpoint::window) start: bool,
    pub(in crate::endpoint::window) count: u64,
}

impl Round {
    /// Returns true if the sample begins a round trip.
    #[inline]
    pub(in crate::endpoint::window) fn update(&mut self, rs: &RateSample) -> bool {
        self.start = rs.prior_delivered >= self.next_delivered;
        if self.start {
            self.next_delivered = rs.total_delivered;
            self.count += 1;
        }
        self.start
    }
}

/// The short-term and long-term models: upper bounds of rate and volume.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: f64,
    pub(super) inflight_longterm: f64,
}

impl Bounds {
    /// None is set.
    pub(super) const NONE: Bounds = Bounds {
        bw_shortterm: f64::INFINITY,
        inflight_shortterm: f64::INFINITY,
        inflight_longterm: f64::INFINITY,
    };

    /// The larger of each.
    pub(super) fn max(self, other: Bounds) -> Bounds {
        Bounds {
            bw_shortterm: self.bw_shortterm.max(other.bw_shortterm),
            inflight_shortterm: self.inflight_shortterm.max(other.inflight_shortterm),
            inflight_longterm: self.inflight_longterm.max(other.inflight_longterm),
        }
    }

    pub(super) fn reset_short_term_model(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }
}

/// The latest delivery signals, of a round trip that begins with a loss.
#[derive(Debug, Clone, Default)]
pub(super) struct LossRound {
    /// Rate and volume of the last round trip.
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: f64,
    pub(super) delivered: u64,
    pub(super) start: bool,
    pub(super) has_loss: bool,
    /// Ranges of packet numbers lost in it, and the largest lost number.
    pub(super) ranges: u32,
    last_lost: u64,
}

impl LossRound {
    /// UpdateLatestDeliverySignals.
    #[inline]
    pub(super) fn update(&mut self, rs: &RateSample) {
        self.start = false;
        self.bw_latest = larger(self.bw_latest, rs.rate);
        self.inflight_latest = larger(self.inflight_latest, real(rs.delivered));
        if rs.prior_delivered >= self.delivered {
            self.delivered = rs.total_delivered;
            self.start = true;
        }
    }

    /// AdvanceLatestDeliverySignals.
    #[inline]
    pub(super) fn advance(&mut self, rs: &RateSample) {
        if self.start {
            self.bw_latest = rs.rate;
            self.inflight_latest = real(rs.delivered);
        }
    }

    /// ResetCongestionSignals.
    pub(super) fn reset(&mut self) {
        self.has_loss = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }

    #[inline]
    pub(super) fn count_range(&mut self, lost: u64) {
        if lost != self.last_lost + 1 {
            self.ranges += 1;
        }
        self.last_lost = lost;
    }
}

/// Packets acknowledged beyond the expected, by the aggregation of ACKs, of both versions of BBR.
#[derive(Debug, Clone, Default)]
pub(in crate::endpoint::window) struct ExtraAcked {
    filter: WindowedMax,
    pub(in crate::endpoint::window) interval_start: Time,
    delivered: f64,
}

impl ExtraAcked {
    /// Takes a sample at the bandwidth `bw`, in the round trip and with the length of the filter
    /// given in round trips.
    #[inline]
    pub(in crate::endpoint::window) fn update(
        &mut self,
        rs: &RateSample,
        bw: f64,
        cwnd: f64,
        (round, length): (u64, u64),
    ) {
        let mut expected = bw * seconds(rs.now.since(self.interval_start));
        if self.delivered <= expected {
            self.restart(rs.now);
            expected = 0.0;
        }
        self.delivered += real(rs.newly_acked);
        self.filter.update(round, smaller(self.delivered - expected, cwnd), length);
    }

    /// Begins an interval.
    pub(in crate::endpoint::window) fn restart(&mut self, now: Time) {
        (self.interval_start, self.delivered) = (now, 0.0);
    }

    pub(in crate::endpoint::window) fn max(&self) -> f64 {
        self.filter.max()
    }
}

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
        if self.round.update(rs) {
            self.probe.rounds_since_up += 1;
            self.was_cwnd_limited = [self.was_cwnd_limited[1], false];
        }
    }

    pub(super) fn start_round(&mut self) {
        self.round.next_delivered = self.total_delivered;
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
        let length = if self.pipe.full_bw_reached { EXTRA_ACKED_FILTER_LEN } else { 1 };
        self.extra_acked.update(rs, self.bw, self.cwnd, (self.round.count, length));
    }

    // "Updating the Model Upon Packet Loss"

    pub(super) fn update_congestion_signals(&mut self, rs: &RateSample) {
        self.update_max_bw(rs);
        if !self.loss_round.start {
            return;
        }
        // AdaptLowerBoundsFromCongestion: once per round trip.
        if !self.state.is_probing() && self.loss_round.has_loss {
            self.init_lower_bounds();
            self.loss_lower_bounds();
        }
        self.loss_round.has_loss = false;
    }

    fn init_lower_bounds(&mut self) {
        if self.bounds.bw_shortterm.is_infinite() {
            self.bounds.bw_shortterm = self.max_bw();
        }
        if self.bounds.inflight_shortterm.is_infinite() {
            self.bounds.inflight_shortterm = self.cwnd;
        }
    }

    fn loss_lower_bounds(&mut self) {
        self.bounds.bw_shortterm = self.loss_round.bw_latest.max(BETA * self.bounds.bw_shortterm);
        self.bounds.inflight_shortterm =
            self.loss_round.inflight_latest.max(BETA * self.bounds.inflight_shortterm);
    }

    pub(super) fn note_loss(&mut self) {
        if !self.loss_round.has_loss {
            self.loss_round.delivered = self.total_delivered;
            self.save_state_upon_loss();
        }
        self.loss_round.has_loss = true;
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
