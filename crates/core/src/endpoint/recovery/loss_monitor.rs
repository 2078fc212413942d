//! The loss-monitoring window (lr2008 section 5).
//!
//! Acknowledgments name the packet that triggered them. The window W records for every outstanding
//! segment that it has arrived (RECV), or the packet that carried it last. The segment sent least
//! recently and not known to have arrived, `rseqn` (equation (1)), is lost once dupackthreshold
//! acknowledgments of packets sent after it have arrived. Then it is retransmitted, and counting
//! begins anew for the next one.
//!
//! Readings. Equation (1) begins at lack + 1 < j, so that monitoring could never retransmit the
//! first missing segment; the definition of W begins at lack < j, and so does this code. The last
//! sentence of section 5.2 delays the reset of dupcount until packet numbers exceed W\[rseqn\] +
//! cwnd, so that no segment is retransmitted twice in one RTT. Packet numbers prevent that already,
//! since no packet sent after a retransmission can be acknowledged within an RTT of it; and the
//! sentence, taken literally, allows one retransmission per RTT, against section 7.1. It is
//! available as an option (`loss_monitor_guard`).
//!
//! Deviation: swnd is deflated by the segments that W records as stored at the receiver, not by
//! nlack - (olack + 1). The two are equal as long as no acknowledgment is lost.
//! Where the paper is silent: after a connection reset W keeps the segments that have arrived, and
//! nextseq skips them.

use std::collections::VecDeque;

use super::timed::{FACTOR, Scheme};
use super::{Acked, Finding, RecoveryReport, Sent, Sequences, fits};
use crate::endpoint::EndpointConfig;
use crate::part::{Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of loss monitoring.
    pub struct LossMonitorConfig in "", "";
    /// The reading that fits the paper's figures, and its factor.
    pub const DEFAULT;
    /// Section 4.3.
    retransmission_timeout_factor: f64 = 2.0, FACTOR, "", "retransmission over recovery timeout";
    /// After a retransmission the count of later acknowledgments starts again only with the
    /// acknowledgment of a packet sent more than a window after it.
    loss_monitor_guard: bool = false,
        ValueKind::Bool, "", "lr2008 section 5.2, last sentence, literally";
}

/// W\[j\]: the state of an outstanding segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    /// Not in flight: not yet sent, or sent only before a connection reset.
    Free,
    /// Arrived out of order.
    Received,
    /// Last carried by the packet with this sequence number.
    Sent(u64),
}

/// The state of loss monitoring.
#[derive(Debug)]
pub struct LossMonitor {
    threshold: u32,
    guard: bool,
    /// W from `una` on. A ring that grows with the outstanding segments, at most rwnd.
    window: VecDeque<Segment>,
    /// `una` at the time of the last call: the segment at the front of `window`.
    base: u64,
    /// Transmissions in order: (packet sequence number, segment). Those that W no longer
    /// confirms are dropped from the front, so that the front is rseqn.
    sent: VecDeque<(u64, u64)>,
    dupcount: u32,
    /// swnd - cwnd: segments below `counted_below` that are stored at the receiver.
    stored: u64,
    /// nextseq up to which `stored` is counted.
    counted_below: u64,
    /// With the guard: counting resumes with acknowledgments of packets beyond this.
    resume_after: u64,
    retransmit: Option<u64>,
}

impl Part for LossMonitor {
    type Config = LossMonitorConfig;
    const FORMS: &'static [Form<LossMonitorConfig>] = &[Form {
        words: Words {
            name: "loss-monitor",
            what: "records the last packet of each segment: lost once later ones have arrived",
            source: "lr2008 section 5",
        },
        config: LossMonitorConfig::DEFAULT,
    }];
    const READS: &'static [&'static str] = &["rto_floor"];
}

impl LossMonitor {
    fn segment(&self, seq: u64) -> Segment {
        let at = seq.checked_sub(self.base).map(|i| i as usize);
        at.and_then(|i| self.window.get(i)).copied().unwrap_or(Segment::Free)
    }

    fn mark_received(&mut self, seq: u64) {
        let Some(i) = seq.checked_sub(self.base).map(|i| i as usize) else {
            return;
        };
        if let Some(segment) = self.window.get_mut(i).filter(|s| **s != Segment::Received) {
            *segment = Segment::Received;
            // After a reset, what lies beyond nextseq is not part of the send-out window yet.
            self.stored += u64::from(seq < self.counted_below);
        }
    }

    /// rseqn with its packet: the front of the transmissions that W still confirms. Dropping
    /// one that W does not confirm starts the count for the next.
    fn least_recent(&mut self) -> Option<(u64, u64)> {
        while let Some(&(packet, seq)) = self.sent.front() {
            if self.segment(seq) == Segment::Sent(packet) {
                return Some((packet, seq));
            }
            self.sent.pop_front();
            self.dupcount = 0;
        }
        None
    }
}

impl Scheme for LossMonitor {
    fn new(config: &LossMonitorConfig, endpoint: &EndpointConfig) -> Self {
        LossMonitor {
            threshold: endpoint.dupack_threshold,
            guard: config.loss_monitor_guard,
            window: VecDeque::new(),
            base: 0,
            sent: VecDeque::new(),
            dupcount: 0,
            stored: 0,
            counted_below: 0,
            resume_after: 0,
            retransmit: None,
        }
    }
    fn retransmission_timeout_factor(config: &LossMonitorConfig) -> Option<f64> {
        Some(config.retransmission_timeout_factor)
    }

    fn on_ack(&mut self, seqs: &Sequences, acked: &Acked<'_>, report: &mut RecoveryReport) {
        while self.base < seqs.una {
            if self.window.pop_front() == Some(Segment::Received) && self.base < self.counted_below
            {
                self.stored -= 1;
            }
            self.base += 1;
        }
        self.counted_below = self.counted_below.max(seqs.una);
        self.mark_received(acked.trigger_seq());
        // A retransmission that pacing delays may become unnecessary.
        let missing = |seq: &u64| *seq >= seqs.una && self.segment(*seq) != Segment::Received;
        self.retransmit = self.retransmit.filter(missing);

        let Some((packet, seq)) = self.least_recent() else {
            self.dupcount = 0;
            return;
        };
        if acked.packet_seq() > packet && acked.packet_seq() > self.resume_after {
            self.dupcount += 1;
            if self.dupcount >= self.threshold {
                self.dupcount = 0;
                if self.guard {
                    self.resume_after = packet + acked.event.path.cwnd as u64;
                }
                self.retransmit = Some(seq);
                report.finding = Finding::Loss;
                report.lost = 1;
            }
        }
    }

    fn next_to_send(&mut self, seqs: &mut Sequences, cwnd: f64) -> Option<u64> {
        if let Some(seq) = self.retransmit.take() {
            return Some(seq);
        }
        while seqs.next < seqs.high && self.segment(seqs.next) == Segment::Received {
            seqs.next += 1;
            self.stored += 1;
            self.counted_below = seqs.next;
        }
        let fits = fits(seqs.outstanding().wrapping_sub(self.stored), cwnd);
        (fits && seqs.allows_next()).then_some(seqs.next)
    }

    fn on_sent(&mut self, seqs: &Sequences, sent: &Sent<'_>) {
        let Sent { seq, packet_seq, .. } = *sent;
        debug_assert_eq!(self.base, seqs.una);
        let i = (seq - self.base) as usize;
        if i >= self.window.len() {
            self.window.resize(i + 1, Segment::Free);
        }
        self.window[i] = Segment::Sent(packet_seq);
        self.counted_below = self.counted_below.max(seq + 1);
        self.sent.push_back((packet_seq, seq));
    }

    fn on_retransmission_timer(&mut self, seqs: &Sequences) {
        self.retransmit = Some(seqs.una);
    }

    fn on_reset(&mut self, seqs: &mut Sequences, _: bool) -> bool {
        for segment in &mut self.window {
            if *segment != Segment::Received {
                *segment = Segment::Free;
            }
        }
        self.sent.clear();
        self.dupcount = 0;
        self.stored = 0;
        self.counted_below = seqs.una;
        self.resume_after = 0;
        self.retransmit = None;
        seqs.next = seqs.una;
        false
    }

    #[inline]
    fn in_flight(&self, seqs: &Sequences) -> u64 {
        seqs.outstanding().saturating_sub(self.stored)
    }
}
