//! Explicit transport error notification: the words of eten2004 section 3.3 for how the sender
//! hears of corruption, and the receiver's part in it.
//!
//! The notifiers are the far ends of links ([`crate::network::NotifierConfig`]), so the locus is
//! hop-by-hop: any link on the way may have one, and those that have none are passed over. What
//! they do is deterministic; whether the sender's answer is, is a matter of discrimination.
//!
//! | | forward: in-band, the receiver echoes | backward: out-of-band, straight to the sender |
//! |---|---|---|
//! | per packet (PETEN) | the damaged packet goes on, its header intact; ACKs name it | the Oracle of section 2.1 |
//! | cumulative (CETEN) | survival probability in the header, section 4.1 | the notifier sends its rate |
//!
//! What the paper leaves open and is chosen here: an acknowledgment names the three segments
//! that arrived corrupted last, as long as they are missing, so that a lost acknowledgment loses
//! no notice (RFC 2018 does so with SACK blocks); a corrupted packet causes no acknowledgment of
//! its own. Out-of-band messages take no time and are never lost, as those of the paper's Oracle;
//! a cumulative notifier sends one per flow at most every [`REPORT_INTERVAL`].

use crate::packet::{CongestionHeader, NO_SEQ, Packet};
use crate::units::{Duration, Probability, Time};

/// How often at most a cumulative notifier reports to one flow out of band. The paper leaves the
/// time scale open; a tenth of a second is about an RTT of its links.
pub const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The news of notifiers to a sender, and their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notification {
    /// Single packets or rates.
    pub granularity: Granularity,
    /// By way of the receiver or straight back.
    pub direction: Direction,
}

/// Section 3.3.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granularity {
    /// PETEN: which packets were corrupted.
    PerPacket,
    /// CETEN: how many of all packets are.
    Cumulative,
}

/// Section 3.3.5; with it goes the band of section 3.3.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// In-band, in the headers of data, echoed by the receiver.
    Forward,
    /// Out-of-band, in messages of the notifier to the sender.
    Backward,
}

/// What a notifier tells a sender out of band. Simulated links may know of a packet before it is
/// at their end: nothing of a notice may be used before its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Notice {
    /// When it reaches the sender.
    pub at: Time,
    /// Its content.
    pub what: News,
}

/// The content of a [`Notice`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum News {
    /// The data with this sequence number was corrupted.
    Corrupted(u64),
    /// Packets survive this link with this probability.
    Survival {
        /// A number that identifies the notifier on its path.
        link: u32,
        /// Its estimate of 1 - r.
        probability: Probability,
    },
}

/// The corruption that a receiver has learned of and reports to the sender.
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

    /// A packet arrived intact.
    pub(super) fn on_data(&mut self, packet: &Packet) {
        if let CongestionHeader::Survival { probability } = packet.header {
            self.survival = probability;
        }
        for seq in &mut self.recent {
            if *seq == packet.seq {
                *seq = NO_SEQ; // Here after all.
            }
        }
    }

    /// A packet arrived of which only the header can be trusted.
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
