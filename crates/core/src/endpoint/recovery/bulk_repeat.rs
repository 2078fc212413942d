//! Bulk Repeat (tcpwbr2003 section III): recovery from many losses in one window.
//!
//! NewReno repairs one loss per round trip. With Bulk Repeat, while discrimination takes losses for
//! errors, a partial acknowledgment retransmits all outstanding packets within the congestion
//! window. This repeats until the window outstanding at the first loss is acknowledged. No new data
//! is sent meanwhile, and errors affect neither cwnd nor the timeout. While discrimination takes
//! losses for congestion the scheme is NewReno (RFC 6582).
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
//! Readings, each with its alternative as an option of [`BulkRepeatConfig`]. The numbers in
//! brackets are the goodput at 30 % errors, where the paper has 0.9 Mbit/s (tcpwbr2003-readings):
//! - A bulk causes many partial acknowledgments, and a bulk for each of them would send a window
//!   many times per round trip. The next bulk therefore waits for a partial acknowledgment of a
//!   packet of the latest one (`repeat`: 0.91; at any: 1.2, but only half of the link without
//!   errors).
//! - Section II sets cwnd = 1 on a timeout. Algorithms A and C mention timeouts together with
//!   duplicates and keep cwnd after an error, and the introduction keeps it "in spite of losses". A
//!   sender that keeps its window goes back and repeats it, as in ns-2; algorithm A, literally,
//!   sends one packet (`timeout_window`: 0.91; one packet with cwnd kept 0.61, cwnd of one 0.16).
//! - The paper gives no value for the fixed timeout: it is the RTO of RFC 6298 without back-off
//!   (`fixed_timeout`). With a floor of 200 ms this fits the figures, with one of 1 s it does not
//!   (0.91, 0.08).
//!
//! Deviations: after a timeout by an error the RTO keeps the factor that earlier timeouts by
//! congestion left, until an acknowledgment of new data resets it; algorithm B has the fixed value
//! at once. Goodput at 5 to 30 % errors differs by at most 3 %. Each bulk restarts the timer. In
//! NewReno only the first partial acknowledgment does, to end a long repair; here none is long.
//! Limited transmit and the rule for duplicates of an old window are as in `fast_recovery`. The
//! sliding window that section III A mentions is not described there and not implemented.

use super::fast_recovery::{FastRecovery, NewRenoConfig};
use super::timed::Scheme;
use super::{Acked, Finding, RecoveryReport, Sent, Sequences};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::RttEstimator;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Duration;

/// The largest back-off factor (algorithm B).
const LARGEST_FACTOR: u64 = 64;

crate::parameters! {
    /// Parameters of Bulk Repeat.
    #[derive(Eq)]
    pub struct BulkRepeatConfig in "bulk_repeat", "of tcpw-br: recovery";
    /// The readings that fit the paper's figures.
    pub const DEFAULT;
    /// `None` is the paper's choice.
    maximum: Option<u32> = None, ValueKind::Integer { least: 1, most: 1_000_000 }, "",
        "bulk retransmissions of one window", absent = "no limit";
    repeat: Repeat = Repeat::Round, ValueKind::Word(Repeat::WORDS), "",
        "next bulk: once the last one is acknowledged (round), or at any partial ACK (ack)";
    fixed_timeout: Option<Duration> = None, TIMEOUT, "",
        "timeout while losses are errors", absent = "the RTO without back-off";
    timeout_window: TimeoutWindow = TimeoutWindow::Repeated,
        ValueKind::Word(TimeoutWindow::WORDS), "", "cwnd after a timeout by an error";
    /// The recovery while losses are congestion.
    newreno: NewRenoConfig = NewRenoConfig::DEFAULT => included;
}

crate::words!(Repeat { Round = "round", Ack = "ack" });
crate::words!(TimeoutWindow { Repeated = "repeated", Kept = "kept", One = "one" });
const TIMEOUT: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(86_400) };
/// The trigger of the next bulk retransmission of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// A partial acknowledgment that a packet of the latest bulk caused.
    Round,
    /// Any partial acknowledgment.
    Ack,
}

/// The congestion window after a timeout that an error caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeoutWindow {
    /// cwnd is kept (algorithm C), and a bulk is sent.
    Repeated,
    /// cwnd is kept, and one packet is sent (algorithm A).
    Kept,
    /// cwnd becomes one packet, for slow start from the first missing packet (section II).
    One,
}

/// The state of Bulk Repeat.
#[derive(Debug)]
pub struct BulkRepeat {
    config: BulkRepeatConfig,
    /// The recovery for losses by congestion. The recovery point is that of the loss, or of the
    /// latest bulk.
    newreno: FastRecovery,
    /// True if a timeout began the recovery.
    after_timeout: bool,
    /// The next packet of the bulk that is being sent.
    bulk: Option<u64>,
    /// Bulks of this window so far.
    bulks: u32,
    /// The number of the first transmission of the latest bulk, once it was sent.
    bulk_packet: Option<u64>,
    /// backoff_factor.
    factor: u64,
}

impl Part for BulkRepeat {
    type Config = BulkRepeatConfig;
    const FORMS: &'static [Form<BulkRepeatConfig>] = &[Form {
        words: Words {
            name: "bulk-repeat",
            what: "newreno; while losses are errors, partial ACKs repeat the window, RTO does not \
                grow",
            source: "tcpwbr2003 section III",
        },
        config: BulkRepeatConfig::DEFAULT,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
}

impl BulkRepeat {
    fn find(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        if acked.newly() == 0 && self.bulks > 0 {
            return Finding::Nothing; // Mostly a duplicate caused by packets sent twice.
        }
        if acked.newly() > 0 {
            if acked.error {
                self.factor = 1;
            }
            let is_partial = self.newreno.recovery_point().is_some_and(|point| seqs.una < point);
            if !is_partial {
                self.leave();
            } else if acked.error && !self.is_exhausted() {
                self.on_partial_ack_of_errors(seqs, acked.packet_seq());
                return Finding::Nothing;
            }
        }
        self.newreno.on_ack(seqs, acked)
    }

    /// True if this window has had its maximum number of bulks.
    fn is_exhausted(&self) -> bool {
        self.config.maximum.is_some_and(|maximum| self.bulks >= maximum)
    }

    fn on_partial_ack_of_errors(&mut self, seqs: &Sequences, packet_seq: u64) {
        let answers = self.bulk_packet.is_none_or(|first| packet_seq >= first);
        if self.bulk.is_none() && (answers || self.config.repeat == Repeat::Ack) {
            self.begin_bulk(seqs);
        }
    }

    fn begin_bulk(&mut self, seqs: &Sequences) {
        self.newreno.repair(seqs, None);
        self.bulk = Some(seqs.una);
        self.bulks += 1;
        self.bulk_packet = None;
    }

    /// Ends the bulks of a window.
    fn leave(&mut self) {
        self.after_timeout = false;
        self.bulk = None;
        self.bulks = 0;
        self.bulk_packet = None;
    }
}

impl Scheme for BulkRepeat {
    const ASKS_FOR_CAUSE: bool = true;
    fn new(config: &BulkRepeatConfig, endpoint: &EndpointConfig) -> Self {
        BulkRepeat {
            config: *config,
            newreno: FastRecovery::new(Some(config.newreno), endpoint),
            after_timeout: false,
            bulk: None,
            bulks: 0,
            bulk_packet: None,
            factor: 1,
        }
    }

    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        report.finding = self.find(seqs, acked);
        report.lost = u64::from(report.finding != Finding::Nothing);
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if self.bulks == 0 {
            return self.newreno.next_to_send(seqs, cwnd);
        }
        // No new data before the window outstanding at the loss is acknowledged.
        self.newreno.take_retransmission(seqs).or_else(|| {
            let end = seqs.next.min(seqs.una + cwnd as u64);
            let next = self.bulk?.max(seqs.una);
            self.bulk = (next + 1 < end).then_some(next + 1);
            (next < end).then_some(next)
        })
    }

    fn on_sent(&mut self, _: &Sequences, sent: &Sent<'_>) {
        if self.bulks > 0 && self.bulk_packet.is_none() {
            self.bulk_packet = Some(sent.packet_seq);
        }
    }

    fn on_reset(&mut self, seqs: &mut Sequences, error: bool) -> bool {
        self.leave();
        if !error {
            self.factor = (self.factor * 2).min(LARGEST_FACTOR);
        }
        if !error || self.config.timeout_window == TimeoutWindow::One {
            self.newreno.on_reset(seqs);
            return false;
        }
        self.after_timeout = true;
        if self.config.timeout_window != TimeoutWindow::Repeated {
            self.newreno.repair(seqs, Some(seqs.una));
        } else if seqs.outstanding() > 0 {
            self.begin_bulk(seqs);
        }
        // Otherwise a reset just before has sent nothing yet: there is no window to repeat, and the
        // reset continues.
        true
    }

    fn timeout(&self, rtt: &RttEstimator) -> Duration {
        let fixed = self.config.fixed_timeout.unwrap_or_else(|| rtt.base_rto());
        fixed.saturating_mul(self.factor).min(rtt.ceiling())
    }

    #[inline]
    fn in_flight(&self, seqs: &Sequences) -> u64 {
        seqs.outstanding().saturating_sub(self.newreno.inflation())
    }
    /// True in fast recovery; after a timeout it is false, and cwnd grows.
    fn in_recovery(&self) -> bool {
        self.newreno.in_recovery() && !self.after_timeout
    }
    /// True if the scheme depends now on whether losses are errors.
    fn asks_for_cause(&self, newly: u64) -> bool {
        newly > 0 && (self.newreno.in_recovery() || self.factor > 1)
    }
    fn asks_for_cause_of_timeout(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_before_a_reset_has_sent_anything_does_not_end_the_transfer() {
        let config = BulkRepeatConfig {
            timeout_window: TimeoutWindow::Repeated,
            ..BulkRepeatConfig::DEFAULT
        };
        let mut scheme = BulkRepeat::new(&config, &EndpointConfig::default());
        let mut seqs = Sequences { una: 3, next: 5, high: 5, limit: 9, rwnd: 31 };
        assert!(!scheme.on_reset(&mut seqs, false), "congestion");
        assert_eq!(seqs.next, 3);
        // Pacing delays 3 until the timer expires again, now by an error: there is nothing to
        // repeat.
        assert!(scheme.on_reset(&mut seqs, true));
        assert_eq!(scheme.next_to_send(&mut seqs, 2.0), Some(3));
    }
}
