//! The timers of TCP and of LR around a scheme.
//!
//! TCP has one, the retransmission timer of RFC 6298, called the recovery timer here as in lr2008:
//! its expiry resets the connection. LR adds a second one (lr2008 section 4.3), which retransmits
//! the first missing packet, and postpones the first timer with any acknowledgment (section 4.2).

use super::{Acked, Expired, Finding, Recovery, RecoveryPart, RecoveryReport, Sent, Sequences};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::RttEstimator;
use crate::part::{Ability, Form, Need, Part, ValueKind};
use crate::units::{Duration, Time};

/// A scheme that leaves its timers to [`Timed`]. Windows and sequence numbers in packets.
pub trait Scheme: Part + std::fmt::Debug + Send + Sync + Sized {
    /// The state at the start of a connection.
    fn new(config: &Self::Config, endpoint: &EndpointConfig) -> Self;
    /// True if it ever asks whether losses are errors.
    const ASKS_FOR_CAUSE: bool = false;
    /// The ratio of LR's retransmission timeout to the recovery timeout, at least 1; `None` without
    /// the retransmission timer.
    fn retransmission_timeout_factor(_config: &Self::Config) -> Option<f64> {
        None
    }
    /// Handles an acknowledgment. The report contains the packets acknowledged cumulatively, or one
    /// for a duplicate; a scheme with exact numbers corrects it.
    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport);
    /// The packet to send now with a window of `cwnd` packets, if any may be sent.
    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64>;
    /// Handles the transmission of a packet.
    fn on_sent(&mut self, _seqs: &Sequences, _sent: &Sent<'_>) {}
    /// Handles the expiry of the recovery timer. Returns true if the connection continues without a
    /// reset, because an `error` caused it. Otherwise moves `next` back.
    fn on_reset(&mut self, seqs: &mut Sequences, error: bool) -> bool;
    /// Handles the expiry of LR's retransmission timer: `una` is to be retransmitted.
    fn on_retransmission_timer(&mut self, _seqs: &Sequences) {}
    /// The present recovery timeout.
    #[inline]
    fn timeout(&self, rtt: &RttEstimator) -> Duration {
        rtt.rto()
    }
    /// See [`Recovery::in_flight`].
    fn in_flight(&self, seqs: &Sequences) -> u64;
    /// See [`Recovery::in_recovery`].
    fn in_recovery(&self) -> bool {
        false
    }
    /// True if nothing is missing. Then all outstanding packets are in the network, and
    /// transmissions need not be reported.
    fn is_at_rest(&self) -> bool {
        false
    }
    /// See [`Recovery::deems_lost`].
    fn deems_lost(&self, _seq: u64) -> bool {
        true
    }
    /// See [`Recovery::asks_for_cause`].
    fn asks_for_cause(&self, _newly: u64) -> bool {
        false
    }
    /// See [`Recovery::asks_for_cause_of_timeout`].
    fn asks_for_cause_of_timeout(&self) -> bool {
        false
    }
}

/// The ratio of the retransmission timeout to the recovery timeout, for schemes with both timers of
/// LR (lr2008 section 4.3).
pub(super) const FACTOR: ValueKind = ValueKind::Number { least: 1.0, most: 1000.0 };

/// A scheme with its timers.
#[derive(Debug)]
pub struct Timed<S> {
    scheme: S,
    recovery_timer: Time,
    /// Expiries of the recovery timer since new data was acknowledged.
    resets_in_a_row: u32,
    partial_repairs: u32,
    /// The retransmission timer; only with the timers of LR.
    retransmission: Option<Box<Retransmission>>,
}

/// The retransmission timer of LR.
#[derive(Debug)]
struct Retransmission {
    timer: Time,
    /// The ratio of its timeout to that of the recovery timer.
    factor: f64,
}

impl Retransmission {
    /// Restarts the timer. Its timeout exceeds the recovery timeout, so that silence ends in a
    /// reset and not in retransmissions (lr2008 section 4.3).
    fn restart(&mut self, now: Time, rtt: &RttEstimator) {
        self.timer = now + rtt.rto().mul_f64(self.factor);
    }
}

impl<S: Scheme> Part for Timed<S> {
    type Config = S::Config;
    const FORMS: &'static [Form<S::Config>] = S::FORMS;
    const READS: &'static [&'static str] = S::READS;
    const NEEDS: &'static [Need] = S::NEEDS;
    fn gives(config: &S::Config) -> &'static [Ability] {
        S::gives(config)
    }
    fn form(config: &S::Config) -> &'static Form<S::Config> {
        S::form(config)
    }
}

impl<S: Scheme> RecoveryPart for Timed<S> {
    const ASKS_FOR_CAUSE: bool = S::ASKS_FOR_CAUSE;
    fn new(config: &S::Config, endpoint: &EndpointConfig) -> Self {
        let retransmission = |factor| Box::new(Retransmission { timer: Time::NEVER, factor });
        Timed {
            scheme: S::new(config, endpoint),
            recovery_timer: Time::NEVER,
            resets_in_a_row: 0,
            partial_repairs: 0,
            retransmission: S::retransmission_timeout_factor(config).map(retransmission),
        }
    }
}

impl<S: Scheme> Timed<S> {
    /// Restarts the timers after an acknowledgment.
    #[inline(always)]
    fn restart(&mut self, seqs: &Sequences, acked: &Acked<'_>, finding: Finding) {
        if seqs.outstanding() == 0 {
            self.recovery_timer = Time::NEVER;
            if let Some(retransmission) = &mut self.retransmission {
                retransmission.timer = Time::NEVER;
            }
            return;
        }
        let new_data = acked.newly() > 0;
        // RFC 6582 section 3.2: of the partial acknowledgments of one recovery only the first
        // restarts the timer, so that many losses in a window end in a timeout.
        // Duplicates between them neither count nor end the recovery.
        if finding == Finding::PartialRepair {
            self.partial_repairs += 1;
        } else if new_data || finding == Finding::Loss {
            self.partial_repairs = 0;
        }
        if let Some(retransmission) = &mut self.retransmission {
            // lr2008 section 4.2: any acknowledgment postpones the recovery timer.
            self.recovery_timer = acked.now() + self.scheme.timeout(acked.rtt);
            if new_data {
                retransmission.restart(acked.now(), acked.rtt);
            }
        } else if (new_data && self.partial_repairs <= 1) || finding == Finding::Loss {
            // A duplicate postpones TCP's timer only if it causes a retransmission.
            self.recovery_timer = acked.now() + self.scheme.timeout(acked.rtt);
        }
    }

    /// Resets the connection (lr2008 section 2.2.3; RFC 5681 and RFC 6298 section 5).
    fn reset(&mut self, seqs: &mut Sequences, expired: Expired<'_>, report: &mut RecoveryReport) {
        let Expired { now, rtt, error } = expired;
        let repeated = self.resets_in_a_row > 0;
        self.resets_in_a_row += 1;
        self.partial_repairs = 0;
        let goes_on = self.scheme.on_reset(seqs, error);
        report.timed_out = true;
        report.finding = if goes_on { Finding::ErrorTimeout } else { Finding::Reset { repeated } };
        rtt.back_off();
        self.recovery_timer = now + self.scheme.timeout(rtt);
        if let Some(retransmission) = &mut self.retransmission {
            retransmission.restart(now, rtt);
        }
    }
}

impl<S: Scheme> Recovery for Timed<S> {
    #[inline(always)]
    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        if acked.newly() > 0 {
            self.resets_in_a_row = 0;
        }
        report.delivered = acked.newly().max(1);
        self.scheme.on_ack(seqs, acked, report);
        self.restart(seqs, acked, report.finding);
    }

    fn on_timer(
        &mut self,
        seqs: &mut Sequences,
        expired: Expired<'_>,
        report: &mut RecoveryReport,
    ) {
        if self.recovery_timer <= expired.now {
            self.reset(seqs, expired, report);
        } else if let Some(retransmission) = &mut self.retransmission
            && retransmission.timer <= expired.now
        {
            self.scheme.on_retransmission_timer(seqs);
            retransmission.restart(expired.now, expired.rtt);
        }
    }

    #[inline]
    fn next_timer(&self, _: &RttEstimator) -> Time {
        match &self.retransmission {
            None => self.recovery_timer,
            Some(retransmission) => self.recovery_timer.min(retransmission.timer),
        }
    }

    fn means_silence(&self, now: Time) -> bool {
        self.recovery_timer <= now
    }

    #[inline]
    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        self.scheme.next_to_send(seqs, cwnd)
    }

    #[inline]
    fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>) {
        self.scheme.on_sent(seqs, sent);
        if self.recovery_timer == Time::NEVER {
            self.recovery_timer = sent.now + self.scheme.timeout(sent.rtt);
        }
        if let Some(retransmission) = &mut self.retransmission
            && (sent.again || retransmission.timer == Time::NEVER)
        {
            retransmission.restart(sent.now, sent.rtt);
        }
    }

    #[inline]
    fn in_flight(&self, seqs: &Sequences) -> u64 {
        self.scheme.in_flight(seqs)
    }
    #[inline]
    fn in_recovery(&self) -> bool {
        self.scheme.in_recovery()
    }
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.scheme.is_at_rest()
            && self.recovery_timer != Time::NEVER
            && self.retransmission.is_none()
    }
    fn deems_lost(&self, seq: u64) -> bool {
        self.scheme.deems_lost(seq)
    }
    #[inline]
    fn asks_for_cause(&self, newly: u64) -> bool {
        self.scheme.asks_for_cause(newly)
    }
    fn asks_for_cause_of_timeout(&self) -> bool {
        self.scheme.asks_for_cause_of_timeout()
    }
}
