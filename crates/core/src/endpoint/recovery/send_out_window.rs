//! Recovery from cumulative acknowledgments without closing the window (lr2008 section 4).
//!
//! Each duplicate acknowledgment inflates the send-out window by one, and a new one deflates it
//! only by the packets that had inflated it: nlack - (olack + 1) (section 4.1). The first missing
//! packet is retransmitted at dupackthreshold, optionally on partial acknowledgments (2.2.2), and
//! optionally by a retransmission timer (4.3). Recovery does not change cwnd.
//!
//! Choices where the paper is silent:
//! - Duplicates do not retransmit a packet again that was retransmitted since the last new
//!   acknowledgment (footnote 2 gives the reason, for the case it mentions).
//! - A duplicate caused by a packet sent twice does not inflate the window: the receiver stores
//!   nothing by which a later acknowledgment would deflate it, so the surplus would be permanent.
//!   The echo of the trigger identifies such duplicates. The sender of section 4 has no echo, so
//!   that literally every duplicate inflates (`old_duplicates = "count"`). That is not the default:
//!   over XTCP, whose routers do not remove the surplus, flows with a surplus keep up to twice
//!   their share, and Jain's index of ten flows falls to 0.75 at 1 % loss (docs/protocols/xcp.md).
//! - After a connection reset, duplicates are ignored until everything sent before is acknowledged,
//!   since they report packets sent twice (as in RFC 6582 section 3.2).

use super::timed::{FACTOR, Scheme};
use super::{Acked, Finding, RecoveryReport, Sent, Sequences, fits};
use crate::endpoint::EndpointConfig;
use crate::part::{Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of the four variants.
    pub struct SendOutWindowConfig in "", "";
    /// The values of the paper, without partial acknowledgments and LR.
    pub const DEFAULT;
    /// True to retransmit on partial acknowledgments (section 2.2.2).
    partial_acks: bool = false;
    /// True for LR: retransmission timer and aggressive reset of the recovery timer (4.2, 4.3).
    retransmission_timer: bool = false;
    /// Section 4.3.
    retransmission_timeout_factor: f64 = 2.0, FACTOR, "", "retransmission over recovery timeout";
    /// By the packets that they acknowledged (section 4.1). False if they reset it to cwnd.
    partial_deflation: bool = true, ValueKind::Bool, "", "deflate the send-out window on partial ACKs";
    old_duplicates: OldDuplicates = OldDuplicates::Ignore,
        ValueKind::Word(OldDuplicates::WORDS), "",
        "lr2008: duplicates caused by packets sent twice: ignore, by their echo, or count";
}

impl SendOutWindowConfig {
    /// A variant with the values of the paper.
    pub const fn of(partial_acks: bool, retransmission_timer: bool) -> Self {
        SendOutWindowConfig { partial_acks, retransmission_timer, ..Self::DEFAULT }
    }
}

/// The effect of duplicate acknowledgments caused by packets that had arrived before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OldDuplicates {
    /// None; they are recognised by the echo of the packet that caused them.
    #[default]
    Ignore,
    /// That of any duplicate: they inflate the send-out window and count towards
    /// `dupack_threshold` (lr2008 section 4, literally).
    Count,
}
crate::words!(OldDuplicates { Ignore = "ignore", Count = "count" });

/// The state of recovery over a send-out window.
#[derive(Debug)]
pub struct SendOutWindow {
    config: SendOutWindowConfig,
    threshold: u32,
    dupacks: u32,
    /// swnd - cwnd: packets stored at the receiver after a gap.
    inflation: u64,
    /// One past the highest packet sent when `una` was last retransmitted, if it was.
    head_resent_at: Option<u64>,
    /// One past the highest packet sent before the last connection reset.
    reset_point: u64,
    retransmit: Option<u64>,
}

const fn form(
    partial_acks: bool,
    retransmission_timer: bool,
    name: &'static str,
    what: &'static str,
    source: &'static str,
) -> Form<SendOutWindowConfig> {
    Form {
        words: Words { name, what, source },
        config: SendOutWindowConfig::of(partial_acks, retransmission_timer),
    }
}

impl Part for SendOutWindow {
    type Config = SendOutWindowConfig;
    const FORMS: &'static [Form<SendOutWindowConfig>] = &[
        form(
            false,
            false,
            "swnd",
            "a send-out window separate from cwnd grows on duplicate ACKs, deflates on new ones",
            "lr2008 section 4.1",
        ),
        form(
            true,
            false,
            "swnd+pa",
            "the send-out window, and a partial ACK retransmits the next hole",
            "lr2008 sections 2.2.2, 4.1",
        ),
        form(
            false,
            true,
            "swnd+lr",
            "the send-out window, a retransmission timer, a recovery timer any ACK resets",
            "lr2008 sections 4.1 to 4.3",
        ),
        form(
            true,
            true,
            "swnd+lr+pa",
            "swnd+lr, and a partial ACK retransmits the next hole",
            "lr2008 sections 2.2.2, 4.1 to 4.3",
        ),
    ];
    const READS: &'static [&'static str] = &["rto_floor"];
    fn form(config: &SendOutWindowConfig) -> &'static Form<SendOutWindowConfig> {
        let partial = usize::from(config.partial_acks);
        &Self::FORMS[2 * usize::from(config.retransmission_timer) + partial]
    }
}

impl SendOutWindow {
    #[inline(never)]
    fn on_duplicate(&mut self, seqs: &Sequences, acked: &Acked<'_>) -> Finding {
        let ignores = self.config.old_duplicates == OldDuplicates::Ignore;
        let old = ignores && acked.trigger_seq() < seqs.una;
        if old || seqs.una < self.reset_point {
            return Finding::Nothing;
        }
        self.dupacks += 1;
        self.inflation += 1;
        if self.dupacks == self.threshold && self.head_resent_at.is_none() {
            self.retransmit = Some(seqs.una);
            return Finding::Loss;
        }
        Finding::Nothing
    }
}

impl Scheme for SendOutWindow {
    fn new(config: &SendOutWindowConfig, endpoint: &EndpointConfig) -> Self {
        SendOutWindow {
            config: *config,
            threshold: endpoint.dupack_threshold,
            dupacks: 0,
            inflation: 0,
            head_resent_at: None,
            reset_point: 0,
            retransmit: None,
        }
    }
    fn retransmission_timeout_factor(config: &SendOutWindowConfig) -> Option<f64> {
        config.retransmission_timer.then_some(config.retransmission_timeout_factor)
    }

    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        if acked.newly() == 0 {
            report.finding = self.on_duplicate(seqs, acked);
            report.lost = u64::from(report.finding == Finding::Loss);
            return;
        }
        self.dupacks = 0;
        self.inflation = if self.config.partial_deflation {
            self.inflation.saturating_sub(acked.newly() - 1)
        } else {
            0
        };
        self.retransmit = None;
        // Section 2.2.2: complete if it covers everything sent before the last retransmission of
        // the first missing packet.
        let partial = self.head_resent_at.take().is_some_and(|high| seqs.una < high);
        if partial && self.config.partial_acks {
            self.retransmit = Some(seqs.una);
            report.lost = 1;
        }
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        let fits = fits(seqs.outstanding().wrapping_sub(self.inflation), cwnd);
        self.retransmit.take().or_else(|| (fits && seqs.allows_next()).then_some(seqs.next))
    }

    fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>) {
        let seq = sent.seq;
        if seq == seqs.una && seq < seqs.high {
            self.head_resent_at = Some(seqs.high);
        }
    }

    fn on_retransmission_timer(&mut self, seqs: &Sequences) {
        self.retransmit = Some(seqs.una);
    }

    fn on_reset(&mut self, seqs: &mut Sequences, _: bool) -> bool {
        self.dupacks = 0;
        self.inflation = 0;
        self.head_resent_at = None;
        self.reset_point = seqs.high;
        self.retransmit = None;
        seqs.next = seqs.una;
        false
    }

    #[inline]
    fn in_flight(&self, seqs: &Sequences) -> u64 {
        seqs.outstanding().saturating_sub(self.inflation)
    }
    /// False after a reset, since retransmissions must be reported.
    #[inline]
    fn is_at_rest(&self) -> bool {
        self.inflation == 0 && self.retransmit.is_none() && self.reset_point == 0
    }
}
