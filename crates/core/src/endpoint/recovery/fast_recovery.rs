//! Fast retransmit and fast recovery: Reno (RFC 5681) and NewReno (RFC 6582).
//!
//! The third duplicate acknowledgment means that the first missing packet is lost: it is
//! retransmitted, and until new data is acknowledged every further duplicate releases one new
//! packet. Reno leaves recovery with the first acknowledgment of new data. NewReno stays until
//! everything outstanding at the loss is acknowledged, and takes a partial acknowledgment for the
//! next loss.
//!
//! Deviations, both as in ns-2, the papers' simulator (`bugFix_`, there on by default):
//! duplicates for data below the highest packet of the last loss or reset do not start recovery in
//! Reno either (RFC 6582 section 3.2 demands this of NewReno), so that a second loss in one window
//! ends in a timeout. Limited transmit (RFC 3042) is on, as RFC 5681 recommends.

use super::timed::Scheme;
use super::{Acked, Finding, RecoveryReport, Sequences, fits};
use crate::endpoint::EndpointConfig;
use crate::part::{Form, Part, Plain, ValueKind, Words};

crate::parameters! {
    /// Parameters of NewReno's recovery.
    #[derive(Eq)]
    pub struct NewRenoConfig in "", "";
    /// The value of RFC 6582.
    pub const DEFAULT;
    /// By the packets that they acknowledged (RFC 6582 step 3). False if they reset it to cwnd.
    partial_deflation: bool = true, ValueKind::Bool, "", "deflate the send-out window on partial ACKs";
}

/// The state of fast recovery.
#[derive(Debug)]
pub(super) struct FastRecovery {
    new_reno: bool,
    threshold: u32,
    partial_deflation: bool,
    dupacks: u64,
    /// Packets known to have left the network while `una` did not move.
    inflation: u64,
    /// While recovering: one past the highest packet sent when the loss was detected.
    recovery_point: Option<u64>,
    /// One past the highest packet sent at the last loss or reset (RFC 6582: recover).
    guard: u64,
    retransmit: Option<u64>,
}

impl FastRecovery {
    /// Reno's recovery if `new_reno` is `None`.
    pub(super) fn new(new_reno: Option<NewRenoConfig>, endpoint: &EndpointConfig) -> Self {
        FastRecovery {
            new_reno: new_reno.is_some(),
            threshold: endpoint.dupack_threshold,
            partial_deflation: new_reno.is_some_and(|config| config.partial_deflation),
            dupacks: 0,
            inflation: 0,
            recovery_point: None,
            guard: 0,
            retransmit: None,
        }
    }
    pub(super) fn inflation(&self) -> u64 {
        self.inflation
    }
    pub(super) fn in_recovery(&self) -> bool {
        self.recovery_point.is_some()
    }
    /// True if there is nothing to retransmit, and only acknowledged packets have left the network.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.inflation == 0 && self.retransmit.is_none()
    }

    /// One past the last packet that is being repaired, while there is something to repair.
    pub(super) fn recovery_point(&self) -> Option<u64> {
        self.recovery_point
    }
    /// The packet to retransmit before anything else, unless it was acknowledged while pacing
    /// delayed it.
    pub(super) fn take_retransmission(&mut self, seqs: &Sequences) -> Option<u64> {
        self.retransmit.take().filter(|seq| *seq >= seqs.una)
    }

    /// Begins the recovery of everything outstanding, and retransmits `retransmit`.
    pub(super) fn repair(&mut self, seqs: &Sequences, retransmit: Option<u64>) {
        self.dupacks = 0;
        self.inflation = 0;
        self.recovery_point = Some(seqs.next);
        self.guard = seqs.high;
        self.retransmit = retransmit;
    }

    #[inline]
    pub(super) fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        if acked.newly() > 0 { self.on_new_ack(seqs, acked) } else { self.on_duplicate(seqs) }
    }

    #[inline]
    fn on_new_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        self.dupacks = 0;
        match self.recovery_point {
            Some(point) if self.new_reno && seqs.una < point => {
                // RFC 6582 step 3: retransmit the next hole; deflate by the packets acknowledged
                // and add back one, the retransmission that has left the network.
                self.inflation = if self.partial_deflation {
                    (self.inflation + 1).saturating_sub(acked.newly())
                } else {
                    0
                };
                self.retransmit = Some(seqs.una);
                Finding::PartialRepair
            }
            _ => {
                self.recovery_point = None;
                self.inflation = 0;
                self.retransmit = None;
                Finding::Nothing
            }
        }
    }

    #[inline(never)]
    fn on_duplicate(&mut self, seqs: &Sequences) -> Finding {
        let threshold = u64::from(self.threshold);
        self.dupacks += 1;
        if self.recovery_point.is_some() {
            self.inflation += 1;
            return Finding::Nothing;
        }
        // RFC 3042: at most two packets beyond cwnd.
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
        let fits = fits(seqs.outstanding().wrapping_sub(self.inflation), cwnd);
        self.take_retransmission(seqs).or_else(|| (fits && seqs.allows_next()).then_some(seqs.next))
    }

    pub(super) fn on_reset(&mut self, seqs: &mut Sequences) {
        self.dupacks = 0;
        self.inflation = 0;
        self.recovery_point = None;
        self.guard = seqs.high;
        self.retransmit = None;
        seqs.next = seqs.una;
    }
}

/// Reno's fast recovery (RFC 5681).
#[derive(Debug)]
pub struct Reno(FastRecovery);

/// NewReno's fast recovery (RFC 6582).
#[derive(Debug)]
pub struct NewReno(FastRecovery);

impl Part for Reno {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "reno",
            what: "fast retransmit on duplicate ACKs, fast recovery until the next new ACK",
            source: "RFC 5681 section 3.2",
        },
        config: Plain,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
}

impl Part for NewReno {
    type Config = NewRenoConfig;
    const FORMS: &'static [Form<NewRenoConfig>] = &[Form {
        words: Words {
            name: "newreno",
            what: "fast recovery lasts a whole window; a partial ACK retransmits the next hole",
            source: "RFC 6582",
        },
        config: NewRenoConfig::DEFAULT,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
}

macro_rules! scheme {
    ($name:ident, $config:ident: $type:ty => $new_reno:expr) => {
        impl Scheme for $name {
            fn new($config: &$type, endpoint: &EndpointConfig) -> Self {
                $name(FastRecovery::new($new_reno, endpoint))
            }
            #[inline]
            fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
                report.finding = self.0.on_ack(seqs, acked);
                report.lost = u64::from(report.finding != Finding::Nothing);
            }
            #[inline]
            fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
                self.0.next_to_send(seqs, cwnd)
            }
            fn on_reset(&mut self, seqs: &mut Sequences, _: bool) -> bool {
                self.0.on_reset(seqs);
                false
            }
            #[inline]
            fn in_flight(&self, seqs: &Sequences) -> u64 {
                seqs.outstanding().saturating_sub(self.0.inflation())
            }
            #[inline]
            fn in_recovery(&self) -> bool {
                self.0.in_recovery()
            }
            #[inline]
            fn is_at_rest(&self) -> bool {
                self.0.is_at_rest()
            }
        }
    };
}
scheme!(Reno, _config: Plain => None);
scheme!(NewReno, config: NewRenoConfig => Some(*config));
