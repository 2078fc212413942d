//! Bulk Repeat (tcpwbr2003 section III): recovery where many packets of a window are lost.
//!
//! NewReno repairs one loss a round trip. Here a partial acknowledgment, while discrimination
//! takes losses for errors, retransmits all that is outstanding within the congestion window,
//! again and again until the window that was outstanding is acknowledged; nothing new is sent
//! meanwhile, and neither cwnd nor the timeout pays for the errors. While discrimination says
//! congestion this is NewReno (RFC 6582).
//!
//! Algorithm A:
//!
//! ```text
//! 3 duplicates or timeout:  retransmit the lost packet
//! partial acknowledgment:   no congestion: retransmit all outstanding packets within cwnd
//!                           congestion:    retransmit the lost packet
//!                           stay in fast recovery
//! ```
//!
//! Algorithm B, fixed retransmission timeout:
//!
//! ```text
//! timeout:                  no congestion: RTO = fixed
//!                           congestion:    factor = min(2 factor, 64), RTO = fixed * factor
//! new acknowledgment:       no congestion: factor = 1
//! ```
//!
//! Readings, each with its other side as an option of [`BulkRepeatConfig`]; the goodput in
//! brackets is that at 30 % errors, where the paper has 0.9 Mbit/s (tcpwbr2003-readings):
//! - A bulk brings many partial acknowledgments, and an answer to each with a bulk sends a window
//!   many times in a round trip. The next bulk therefore waits for a partial acknowledgment that
//!   a packet of the latest one caused (`repeat`: 0.91; at any: 1.2, but only half of the link
//!   without errors).
//! - Section II sets cwnd = 1 on a timeout. Algorithms A and C name a timeout beside duplicates
//!   and leave cwnd untouched after an error, and the introduction keeps it "in spite of losses".
//!   A sender whose window is not cut goes back and repeats it, as ns-2's does; algorithm A, to
//!   the letter, sends one packet (`timeout_window`: 0.91; one packet with cwnd kept 0.61, cwnd
//!   of one 0.16).
//! - The fixed timeout has no value: the RTO of RFC 6298 without back-off (`fixed_timeout`). With a
//!   floor of 200 ms this fits the figures, with one of 1 s it does not (0.91, 0.08).
//!
//! Deviations: each bulk restarts the timer, where NewReno lets only the first partial
//! acknowledgment do so in order to leave a long repair; here no repair is long. Limited
//! transmit and the rule for duplicates of an old window are as in `fast_recovery`. The sliding
//! window that section III A mentions is not described there and is not built.

use super::{Acked, Finding, RecoveryConfig, Sequences};
use crate::endpoint::estimator::RttEstimator;
use crate::units::Duration;

/// The largest back-off factor (algorithm B).
const LARGEST_FACTOR: u64 = 64;

/// Parameters of Bulk Repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkRepeatConfig {
    /// Bulk retransmissions of one window, at least 1; `None` is the paper's choice, no limit.
    pub maximum: Option<u32>,
    /// What brings the next bulk.
    pub repeat: Repeat,
    /// The fixed timeout, longer than zero; `None` is the RTO of RFC 6298 without back-off.
    pub fixed_timeout: Option<Duration>,
    /// The congestion window after a timeout that an error caused.
    pub timeout_window: TimeoutWindow,
}

/// What brings the next bulk retransmission of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Repeat {
    /// A partial acknowledgment that a packet of the latest bulk caused.
    #[default]
    Round,
    /// Any partial acknowledgment.
    Ack,
}

/// The congestion window after a timeout that an error caused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeoutWindow {
    /// It stays (algorithm C), and a bulk goes out.
    #[default]
    Repeated,
    /// It stays, and one packet goes out (algorithm A).
    Kept,
    /// It becomes one packet, for slow start from the first missing one (section II).
    One,
}

/// The state of Bulk Repeat.
#[derive(Debug, Clone)]
pub struct BulkRepeat {
    config: RecoveryConfig,
    bulk_config: BulkRepeatConfig,
    dupacks: u64,
    /// Packets known to have left the network while `una` stood still.
    inflation: u64,
    /// While recovering: one past the highest packet sent when it began, or at the first bulk.
    recovery_point: Option<u64>,
    /// Did a timeout begin it?
    after_timeout: bool,
    /// One past the highest packet sent at the last loss or timeout (RFC 6582: recover).
    guard: u64,
    retransmit: Option<u64>,
    /// The next packet of the bulk that is being sent.
    bulk: Option<u64>,
    /// Bulks of this window so far.
    bulks: u32,
    /// The number of the first transmission of the latest bulk, once it has left.
    bulk_packet: Option<u64>,
    /// backoff_factor.
    factor: u64,
}

impl BulkRepeat {
    pub(super) fn new(config: RecoveryConfig) -> Self {
        BulkRepeat {
            config,
            bulk_config: config.bulk_repeat,
            dupacks: 0,
            inflation: 0,
            recovery_point: None,
            after_timeout: false,
            guard: 0,
            retransmit: None,
            bulk: None,
            bulks: 0,
            bulk_packet: None,
            factor: 1,
        }
    }
    pub(super) fn inflation(&self) -> u64 {
        self.inflation
    }
    /// Fast recovery; a timeout is none, and after it cwnd grows.
    pub(super) fn in_recovery(&self) -> bool {
        self.recovery_point.is_some() && !self.after_timeout
    }

    /// Does it matter now whether losses are errors?
    pub(super) fn asks_for_cause(&self, newly: u64) -> bool {
        newly > 0 && (self.recovery_point.is_some() || self.factor > 1)
    }

    pub(super) fn timeout(&self, rtt: &RttEstimator) -> Duration {
        let fixed = self.bulk_config.fixed_timeout.unwrap_or_else(|| rtt.base_rto());
        fixed.saturating_mul(self.factor).min(rtt.ceiling())
    }

    pub(super) fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        if acked.newly == 0 {
            return self.on_duplicate(seqs);
        }
        self.dupacks = 0;
        if acked.error {
            self.factor = 1;
        }
        match self.recovery_point {
            Some(point) if seqs.una < point => self.on_partial_ack(seqs, acked),
            _ => {
                self.leave();
                Finding::Nothing
            }
        }
    }

    fn on_partial_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        let exhausted = self.bulk_config.maximum.is_some_and(|maximum| self.bulks >= maximum);
        if acked.error && !exhausted {
            let answers = self.bulk_packet.is_none_or(|first| acked.packet_seq >= first);
            if self.bulk.is_none() && (answers || self.bulk_config.repeat == Repeat::Ack) {
                self.begin_bulk(seqs);
            }
            return Finding::Nothing;
        }
        // RFC 6582 step 3.
        self.inflation = match self.config.partial_deflation {
            true => (self.inflation + 1).saturating_sub(acked.newly),
            false => 0,
        };
        self.retransmit = Some(seqs.una);
        Finding::PartialRepair
    }

    fn begin_bulk(&mut self, seqs: &Sequences) {
        self.inflation = 0;
        self.retransmit = None;
        self.recovery_point = Some(seqs.next);
        self.guard = seqs.high;
        self.bulk = Some(seqs.una);
        self.bulks += 1;
        self.bulk_packet = None;
    }

    fn on_duplicate(&mut self, seqs: &Sequences) -> Finding {
        let threshold = u64::from(self.config.dupack_threshold);
        self.dupacks += 1;
        if self.bulks > 0 {
            return Finding::Nothing; // Of packets sent twice, for the most part.
        }
        if self.recovery_point.is_some() {
            self.inflation += 1;
            return Finding::Nothing;
        }
        // RFC 3042: no more than two packets beyond cwnd.
        self.inflation = self.dupacks.min(threshold.max(3) - 1);
        let fresh = seqs.una > self.guard || self.guard == 0;
        if self.dupacks != threshold || !fresh {
            return Finding::Nothing;
        }
        self.inflation = self.dupacks;
        self.recovery_point = Some(seqs.high);
        self.guard = seqs.high;
        self.retransmit = Some(seqs.una);
        Finding::Loss
    }

    pub(super) fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        if let Some(next) = self.bulk {
            let end = seqs.next.min(seqs.una + cwnd as u64);
            let next = next.max(seqs.una);
            self.bulk = (next + 1 < end).then_some(next + 1);
            if next < end {
                return Some(next);
            }
        }
        let window = if self.bulks > 0 { 0 } else { cwnd as u64 + self.inflation };
        seqs.allows_next(window).then_some(seqs.next)
    }

    pub(super) fn on_sent(&mut self, packet_seq: u64) {
        if self.bulks > 0 && self.bulk_packet.is_none() {
            self.bulk_packet = Some(packet_seq);
        }
    }

    /// The timer expired. Returns whether cwnd stays.
    pub(super) fn on_reset(&mut self, seqs: &mut Sequences, error: bool) -> bool {
        self.leave();
        self.dupacks = 0;
        self.guard = seqs.high;
        if !error {
            self.factor = (self.factor * 2).min(LARGEST_FACTOR);
        }
        let kept = error && self.bulk_config.timeout_window != TimeoutWindow::One;
        if !kept {
            seqs.next = seqs.una;
            return false;
        }
        self.after_timeout = true;
        self.recovery_point = Some(seqs.next);
        if self.bulk_config.timeout_window == TimeoutWindow::Repeated {
            self.begin_bulk(seqs);
        } else {
            self.retransmit = Some(seqs.una);
        }
        true
    }

    fn leave(&mut self) {
        self.inflation = 0;
        self.recovery_point = None;
        self.after_timeout = false;
        self.retransmit = None;
        self.bulk = None;
        self.bulks = 0;
        self.bulk_packet = None;
    }
}
