//! Recovery from cumulative acknowledgments without closing the window (lr2008 section 4).
//!
//! Each duplicate acknowledgment inflates the send-out window by one, and a new one deflates it
//! only by the packets that had inflated it: nlack - (olack + 1) (section 4.1). The first missing
//! packet is retransmitted at dupackthreshold, where chosen on partial acknowledgments (2.2.2),
//! and where chosen by a retransmission timer (4.3). cwnd is nobody's business here.
//!
//! Three choices where the paper is silent. A duplicate that answers a packet sent twice inflates
//! the window as well, and nothing would ever deflate it again; so when everything sent before
//! the latest duplicate is acknowledged, swnd is cwnd: what inflated it is not stored any more.
//! A packet retransmitted since the last new
//! acknowledgment is not retransmitted again by duplicates (footnote 2 gives the reason, for the
//! case it mentions). After a connection reset, duplicates count for nothing before all that had
//! been sent is acknowledged, for they tell of packets sent twice (as RFC 6582 section 3.2).

use super::{Acked, Finding, RecoveryConfig, Sequences};

/// The state of recovery over a send-out window.
#[derive(Debug, Clone)]
pub struct SendOutWindow {
    partial_acks: bool,
    config: RecoveryConfig,
    dupacks: u32,
    /// swnd - cwnd: packets stored at the receiver behind a gap.
    inflation: u64,
    /// One past the highest packet sent when the latest duplicate came: once that is
    /// acknowledged, nothing that had inflated the window is stored any more.
    inflated_by: u64,
    /// One past the highest packet sent when `una` was last retransmitted, if it was.
    head_resent_at: Option<u64>,
    /// One past the highest packet sent before the last connection reset.
    reset_point: u64,
    retransmit: Option<u64>,
}

impl SendOutWindow {
    pub(super) fn new(partial_acks: bool, config: RecoveryConfig) -> Self {
        SendOutWindow {
            partial_acks,
            config,
            dupacks: 0,
            inflation: 0,
            inflated_by: 0,
            head_resent_at: None,
            reset_point: 0,
            retransmit: None,
        }
    }
    pub(super) fn inflation(&self) -> u64 {
        self.inflation
    }

    pub(super) fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        if acked.newly == 0 {
            return self.on_duplicate(seqs);
        }
        self.dupacks = 0;
        let stored = self.config.partial_deflation && seqs.una < self.inflated_by;
        self.inflation = if stored {
            self.inflation.saturating_sub(acked.newly - 1)
        } else {
            0
        };
        self.retransmit = None;
        // Section 2.2.2: complete if it covers all that was sent before the last
        // retransmission of the packet it was waiting for.
        let partial = self
            .head_resent_at
            .take()
            .is_some_and(|high| seqs.una < high);
        if partial && self.partial_acks {
            self.retransmit = Some(seqs.una);
        }
        Finding::Nothing
    }

    fn on_duplicate(&mut self, seqs: &Sequences) -> Finding {
        if seqs.una < self.reset_point {
            return Finding::Nothing;
        }
        self.dupacks += 1;
        self.inflation += 1;
        self.inflated_by = seqs.high;
        if self.dupacks == self.config.dupack_threshold && self.head_resent_at.is_none() {
            self.retransmit = Some(seqs.una);
            return Finding::Loss;
        }
        Finding::Nothing
    }

    pub(super) fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        let window = cwnd as u64 + self.inflation;
        self.retransmit
            .take()
            .or_else(|| seqs.allows_next(window).then_some(seqs.next))
    }

    pub(super) fn on_sent(&mut self, seqs: &Sequences, seq: u64) {
        if seq == seqs.una && seq < seqs.high {
            self.head_resent_at = Some(seqs.high);
        }
    }

    pub(super) fn on_retransmission_timer(&mut self, seqs: &Sequences) {
        self.retransmit = Some(seqs.una);
    }

    pub(super) fn on_reset(&mut self, seqs: &mut Sequences) {
        self.dupacks = 0;
        self.inflation = 0;
        self.head_resent_at = None;
        self.reset_point = seqs.high;
        self.retransmit = None;
        seqs.next = seqs.una;
    }
}
