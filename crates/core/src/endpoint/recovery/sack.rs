//! Loss recovery from selective acknowledgments (RFC 6675).
//!
//! The scoreboard is a set of ranges and two cursors. A packet is lost when dupackthreshold
//! packets above it have arrived, so everything missing below `lost_below` is lost; everything
//! missing below `resent_below` has been retransmitted. The number of packets in the network
//! follows without iteration over the window:
//!
//! ```text
//! pipe = missing in [lost_below, next) + missing in [una, resent_below)
//! ```
//!
//! After a timeout everything outstanding that has not arrived counts as lost and is retransmitted
//! in order as the window opens. RFC 2018 section 5 demands that the sender forget the scoreboard
//! then, since the receiver may have discarded what it reported; RFC 6675 section 5.1 calls this
//! too strong and lets the sender keep it if it detects such a receiver. `keep_scoreboard` chooses.
//! Blocks of later acknowledgments fill a forgotten scoreboard again.

use super::timed::Scheme;
use super::{Acked, Finding, RecoveryReport, Sent, Sequences, fits};
use crate::endpoint::EndpointConfig;
use crate::endpoint::range_set::RareRanges;
use crate::part::{Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of recovery from selective acknowledgments.
    #[derive(Eq)]
    pub struct SackConfig in "", "";
    /// The scoreboard is kept.
    pub const DEFAULT;
    /// True in RFC 6675 section 5.1, false in RFC 2018 section 5.
    keep_scoreboard: bool = true, ValueKind::Bool, "", "keep what SACK blocks reported at a timeout";
}

/// The state of recovery from selective acknowledgments.
#[derive(Debug)]
pub struct Sack {
    threshold: u32,
    keep_scoreboard: bool,
    arrived: RareRanges,
    lost_below: u64,
    resent_below: u64,
    /// Missing packets below `resent_below`: each was retransmitted and is still in flight.
    resent: u64,
    dupacks: u32,
    phase: SackPhase,
    /// True if the first missing packet is to be sent regardless of the pipe (RFC 6675 section 5,
    /// step 4.3).
    force: bool,
    /// Rescue retransmission done up to here (RFC 6675, NextSeg rule 4).
    rescued_below: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SackPhase {
    Open,
    /// Fast recovery until this packet is acknowledged.
    Recovery {
        until: u64,
    },
    /// Repair after a timeout until this packet is acknowledged; the window grows meanwhile.
    AfterTimeout {
        until: u64,
    },
}

impl Sack {
    fn of(threshold: u32, config: SackConfig) -> Self {
        Sack {
            threshold,
            keep_scoreboard: config.keep_scoreboard,
            arrived: RareRanges::default(),
            lost_below: 0,
            resent_below: 0,
            resent: 0,
            dupacks: 0,
            phase: SackPhase::Open,
            force: false,
            rescued_below: 0,
        }
    }

    /// RFC 6675: SetPipe.
    #[inline]
    fn pipe(&self, seqs: &Sequences) -> u64 {
        if self.phase == SackPhase::Open && self.arrived.is_empty() {
            return seqs.outstanding();
        }
        let lost_below = self.lost_below.max(seqs.una);
        seqs.next - lost_below - self.arrived.count_from(lost_below) + self.resent
    }

    /// Moves `una` by `newly`. Returns how many of these packets were known to have arrived.
    fn advance(&mut self, seqs: &Sequences, newly: u64) -> u64 {
        self.dupacks = 0;
        let old_una = seqs.una - newly;
        let arrived = self.arrived.remove_below(seqs.una);
        self.resent = match self.resent_below.checked_sub(seqs.una) {
            // All of them were below una.
            None | Some(0) => 0,
            Some(_) => self.resent - (seqs.una - old_una - arrived),
        };
        self.resent_below = self.resent_below.max(seqs.una);
        match self.phase {
            SackPhase::Recovery { until } | SackPhase::AfterTimeout { until }
                if seqs.una >= until =>
            {
                self.phase = SackPhase::Open;
                self.force = false;
            }
            _ => {}
        }
        arrived
    }

    /// Handles an acknowledgment while data is missing, or with SACK blocks.
    #[inline(never)]
    fn on_news(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        if acked.newly() > 0 {
            let known = self.advance(seqs, acked.newly());
            report.delivered = acked.newly() - known;
        } else {
            report.delivered = 0;
        }
        let mut news = false;
        for block in acked.sack() {
            // Data that was never sent cannot have arrived. A duplicate reported below una (DSACK,
            // RFC 2883) does not concern the scoreboard; one above it has arrived.
            if block.start >= block.end || block.end > seqs.next || block.start < seqs.una {
                continue;
            }
            let added = self.arrived.insert(*block, self.resent_below);
            self.resent -= added.below_mark;
            news |= added.total > 0;
            report.delivered += added.total;
        }
        if acked.newly() == 0 && news {
            self.dupacks += 1;
        }
        let threshold = u64::from(self.threshold);
        let before = self.lost_below.max(seqs.una);
        if let Some(lost_below) = self.arrived.nth_largest(threshold) {
            self.lost_below = self.lost_below.max(lost_below);
        }
        let lost = self.lost_below > seqs.una || self.dupacks >= self.threshold;
        if self.phase == SackPhase::Open && lost && seqs.outstanding() > 0 {
            self.phase = SackPhase::Recovery { until: seqs.next };
            self.lost_below = self.lost_below.max(seqs.una + 1);
            self.resent_below = seqs.una;
            self.resent = 0;
            self.force = true;
            report.finding = Finding::Loss;
        }
        if self.lost_below > before {
            let known = self.arrived.count_from(before) - self.arrived.count_from(self.lost_below);
            report.lost = self.lost_below - before - known;
        }
    }
}

impl Part for Sack {
    type Config = SackConfig;
    const FORMS: &'static [Form<SackConfig>] = &[Form {
        words: Words {
            name: "sack",
            what: "a scoreboard of selective ACKs finds lost packets",
            source: "RFC 2018, RFC 6675",
        },
        config: SackConfig::DEFAULT,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
}

impl Scheme for Sack {
    fn new(config: &SackConfig, endpoint: &EndpointConfig) -> Self {
        Sack::of(endpoint.dupack_threshold, *config)
    }

    #[inline]
    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        let is_plain = self.phase == SackPhase::Open && self.arrived.is_empty();
        if acked.newly() > 0 && is_plain && acked.is_cumulative() {
            self.dupacks = 0;
        } else {
            self.on_news(seqs, acked, report);
        }
    }

    /// RFC 6675: NextSeg.
    #[inline]
    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if self.phase == SackPhase::Open {
            // Outside recovery pipe counts nothing as lost, and rwnd bounds what is stored.
            let fits = fits(self.pipe(seqs), cwnd);
            return (fits && seqs.allows_next()).then_some(seqs.next);
        }
        if !self.force && !fits(self.pipe(seqs), cwnd) {
            return None;
        }
        self.force = false;
        let hole = self.arrived.next_missing(self.resent_below.max(seqs.una));
        let highest = self.arrived.end().unwrap_or(0);
        if hole < self.lost_below {
            Some(hole) // Rule 1.
        } else if seqs.allows_next() {
            Some(seqs.next) // Rule 2.
        } else if hole < highest {
            Some(hole) // Rule 3.
        } else if seqs.una >= self.rescued_below && seqs.next > seqs.una {
            // Rule 4: once per recovery, the last packet, in case the tail was lost.
            let last = seqs.next - 1;
            let missing = self.arrived.range_of(last).is_none() && last >= self.resent_below;
            self.rescued_below = seqs.next;
            missing.then_some(last)
        } else {
            None
        }
    }

    #[inline]
    fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>) {
        if self.phase == SackPhase::Open {
            return;
        }
        let seq = sent.seq;
        // Holes are sent in order. The rescue of rule 4 lies above everything lost or arrived and
        // moves no cursor: "HighRxt MUST NOT be updated".
        let is_rescue = seq >= self.lost_below && Some(seq) >= self.arrived.end();
        let is_hole =
            seq < seqs.next && seq == self.arrived.next_missing(self.resent_below) && !is_rescue;
        if is_hole {
            self.resent_below = seq + 1;
            self.resent += 1;
        }
    }

    fn on_reset(&mut self, seqs: &mut Sequences, _: bool) -> bool {
        if !self.keep_scoreboard {
            self.arrived = RareRanges::default();
        }
        self.dupacks = 0;
        self.phase = SackPhase::AfterTimeout { until: seqs.next };
        self.lost_below = seqs.next;
        self.resent_below = seqs.una;
        self.resent = 0;
        self.rescued_below = seqs.next;
        self.force = false;
        false
    }

    #[inline]
    fn in_flight(&self, seqs: &Sequences) -> u64 {
        self.pipe(seqs)
    }
    #[inline]
    fn in_recovery(&self) -> bool {
        matches!(self.phase, SackPhase::Recovery { .. })
    }
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.phase == SackPhase::Open && self.arrived.is_empty()
    }
    /// RFC 6675: IsLost, by the scoreboard alone.
    fn deems_lost(&self, seq: u64) -> bool {
        seq < self.lost_below
    }
}
