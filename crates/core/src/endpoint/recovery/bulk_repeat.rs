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

use super::fast_recovery::{FastRecovery, NewRenoConfig, PARTIAL_DEFLATION};
use super::timed::Scheme;
use super::{Acked, Finding, Report, Sent, Sequences};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::RttEstimator;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Duration;

/// The largest back-off factor (algorithm B).
const LARGEST_FACTOR: u64 = 64;

/// Parameters of Bulk Repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkRepeatConfig {
    /// Bulk retransmissions of one window, at least 1; `None` is the paper's choice, no limit.
    pub maximum: Option<u32>,
    /// The trigger of the next bulk.
    pub repeat: Repeat,
    /// The fixed timeout, longer than zero; `None` is the RTO of RFC 6298 without back-off.
    pub fixed_timeout: Option<Duration>,
    /// The congestion window after a timeout that an error caused.
    pub timeout_window: TimeoutWindow,
    /// See [`NewRenoConfig`].
    pub partial_deflation: bool,
}

impl BulkRepeatConfig {
    /// The readings that fit the paper's figures.
    pub const DEFAULT: BulkRepeatConfig = BulkRepeatConfig {
        maximum: None,
        repeat: Repeat::Round,
        fixed_timeout: None,
        timeout_window: TimeoutWindow::Repeated,
        partial_deflation: NewRenoConfig::DEFAULT.partial_deflation,
    };
}
crate::words!(Repeat { Round = "round", Ack = "ack" });
crate::words!(TimeoutWindow { Repeated = "repeated", Kept = "kept", One = "one" });
const TIMEOUT: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(86_400) };
crate::parameters! {
    BulkRepeatConfig in "bulk_repeat", "of tcpw-br: recovery" and "", "";
    maximum: ValueKind::Integer { least: 1, most: 1_000_000 }, "",
        "bulk retransmissions of one window", absent = "no limit";
    repeat: ValueKind::Word(Repeat::WORDS), "",
        "next bulk: when the last one is answered (round), at any partial ACK (ack)";
    fixed_timeout: TIMEOUT, "",
        "timeout while losses are errors", absent = "the RTO without back-off";
    timeout_window: ValueKind::Word(TimeoutWindow::WORDS), "", "cwnd after a timeout by an error";
    partial_deflation in "": ValueKind::Bool, "", PARTIAL_DEFLATION;
}

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
    /// It stays (algorithm C), and a bulk goes out.
    Repeated,
    /// It stays, and one packet goes out (algorithm A).
    Kept,
    /// It becomes one packet, for slow start from the first missing one (section II).
    One,
}

/// The state of Bulk Repeat.
#[derive(Debug)]
pub struct BulkRepeat {
    config: BulkRepeatConfig,
    /// The recovery while discrimination says congestion. The recovery point is that of the loss,
    /// or of the latest bulk.
    newreno: FastRecovery,
    /// Did a timeout begin the recovery?
    after_timeout: bool,
    /// The next packet of the bulk that is being sent.
    bulk: Option<u64>,
    /// Bulks of this window so far.
    bulks: u32,
    /// The number of the first transmission of the latest bulk, once it has left.
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
            return Finding::Nothing; // A duplicate of packets sent twice, for the most part.
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

    /// Has this window had all the bulks it may have?
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

    /// The bulks of a window are over.
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
        let newreno = NewRenoConfig { partial_deflation: config.partial_deflation };
        BulkRepeat {
            config: *config,
            newreno: FastRecovery::new(Some(newreno), endpoint),
            after_timeout: false,
            bulk: None,
            bulks: 0,
            bulk_packet: None,
            factor: 1,
        }
    }

    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut Report) {
        report.finding = self.find(seqs, acked);
        report.lost = u64::from(report.finding != Finding::Nothing);
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if self.bulks == 0 {
            return self.newreno.next_to_send(seqs, cwnd);
        }
        // Nothing new before the window that was outstanding is acknowledged.
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
        // Else a reset just before has sent nothing yet: there is no window to repeat, and it goes
        // on.
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
    /// Does it matter now whether losses are errors?
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
        // Pacing holds 3 back until the timer expires again, by an error now: there is nothing to
        // repeat.
        assert!(scheme.on_reset(&mut seqs, true));
        assert_eq!(scheme.next_to_send(&mut seqs, 2.0), Some(3));
    }
}
