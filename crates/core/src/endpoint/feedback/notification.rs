//! Explicit transport error notification: the taxonomy of eten2004 section 3.3 for the ways in
//! which a sender learns of corruption, and the receiver's part in it.
//!
//! Notifiers are the far ends of links ([`crate::network::NotifierConfig`]), so the locus is
//! hop-by-hop: any link on the path may have a notifier, and links without one send no notices.
//! Notices are deterministic; the response of the sender depends on its discriminator.
//!
//! | | forward: in-band, the receiver echoes | backward: out-of-band, directly to the sender |
//! |---|---|---|
//! | per packet (PETEN) | the damaged packet is forwarded, its header intact; ACKs name it | the Oracle of section 2.1 |
//! | cumulative (CETEN) | survival probability in the header, section 4.1 | the notifier sends its rate |
//!
//! Choices where the paper is silent:
//! - An acknowledgment names the three segments that were corrupted last, as long as they are
//!   missing, so that the loss of an acknowledgment loses no notice (as with SACK blocks, RFC
//!   2018). A corrupted packet does not cause an acknowledgment.
//! - Out-of-band messages take no time and are never lost, as with the paper's Oracle. A cumulative
//!   notifier sends at most one per flow every [`REPORT_INTERVAL`].

use crate::packet::{CongestionHeader, NO_SEQ, Packet};
use crate::units::{Duration, Probability, Time};

/// The shortest interval between out-of-band reports of a cumulative notifier to one flow. The
/// paper leaves the time scale open; a tenth of a second is about an RTT of its links.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The kind and direction of the notices that a sender receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// Notices of single packets or of rates.
    pub granularity: Granularity,
    /// Notices through the receiver or directly to the sender.
    pub direction: Direction,
}

/// The granularity of notices (section 3.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// PETEN: the packets that were corrupted.
    PerPacket,
    /// CETEN: the share of packets that are corrupted.
    Cumulative,
}

/// The direction of notices (section 3.3.5), which determines the band (section 3.3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In-band, in the headers of data, echoed by the receiver.
    Forward,
    /// Out-of-band, in messages of the notifier to the sender.
    Backward,
}

/// A message of a notifier to a sender, out of band. Simulated links may know of a packet before it
/// reaches their end: a notice must not be used before its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Notice {
    /// The time at which it reaches the sender.
    pub at: Time,
    /// Its content.
    pub what: News,
}

/// The content of a [`Notice`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News {
    /// The data with this sequence number was corrupted.
    Corrupted(u64),
    /// The probability with which packets survive this link.
    Survival {
        /// A number that identifies the notifier on its path.
        link: u32,
        /// Its estimate of 1 - r.
        probability: Probability,
    },
}

/// The corruption that a receiver reports to the sender.
#[derive(Debug, Clone)]
pub(super) struct CorruptionLog {
    /// The survival probability of the path, from the latest packet.
    survival: f64,
    recent: [u64; 3],
}

impl CorruptionLog {
    pub(super) fn new() -> Self {
        CorruptionLog { survival: 1.0, recent: [NO_SEQ; 3] }
    }

    /// Handles an intact packet.
    pub(super) fn on_data(&mut self, packet: &Packet) {
        if let CongestionHeader::Survival { probability } = packet.header {
            self.survival = probability;
        }
        for seq in &mut self.recent {
            if *seq == packet.seq {
                *seq = NO_SEQ; // No longer missing.
            }
        }
    }

    /// Handles a packet of which only the header is intact.
    pub(super) fn on_corrupted(&mut self, seq: u64) {
        let [first, second, third] = self.recent;
        self.recent = match seq {
            _ if seq == first => return,
            _ if seq == second => [seq, first, third],
            _ => [seq, first, second],
        };
    }

    pub(super) fn header(&self, granularity: Granularity) -> CongestionHeader {
        match granularity {
            Granularity::Cumulative => CongestionHeader::Survival { probability: self.survival },
            Granularity::PerPacket if self.recent == [NO_SEQ; 3] => CongestionHeader::None,
            Granularity::PerPacket => CongestionHeader::Corrupted { recent: self.recent },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: u64 = NO_SEQ;

    #[test]
    fn the_last_three_corrupted_segments_are_named_until_they_arrive() {
        let mut record = CorruptionLog::new();
        assert_eq!(record.header(Granularity::PerPacket), CongestionHeader::None);
        for seq in [4, 7, 7, 9] {
            record.on_corrupted(seq);
        }
        let named = |record: &CorruptionLog| match record.header(Granularity::PerPacket) {
            CongestionHeader::Corrupted { recent } => recent,
            other => panic!("{other:?}"),
        };
        assert_eq!(named(&record), [9, 7, 4]);
        record.on_corrupted(7); // The retransmission too.
        assert_eq!(named(&record), [7, 9, 4]);
        record.on_corrupted(12);
        assert_eq!(named(&record), [12, 7, 9]);
        record.on_data(&Packet { seq: 7, ..Packet::default() });
        assert_eq!(named(&record), [12, NONE, 9]);
    }

    #[test]
    fn the_latest_survival_probability_is_kept() {
        let mut record = CorruptionLog::new();
        let survival = |record: &CorruptionLog| match record.header(Granularity::Cumulative) {
            CongestionHeader::Survival { probability } => probability,
            other => panic!("{other:?}"),
        };
        assert_eq!(survival(&record), 1.0, "nothing is known of corruption");
        for probability in [0.9, 0.8] {
            let header = CongestionHeader::Survival { probability };
            record.on_data(&Packet { header, ..Packet::default() });
        }
        assert_eq!(survival(&record), 0.8);
    }
}
