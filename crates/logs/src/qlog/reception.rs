//! The receiver of a flow: the packets that have arrived, and what it acknowledges.

use std::collections::VecDeque;

use windward_core::packet::{Flags, Packet};

use super::data::{Frame, ecn_of};

/// The most ranges of an ACK: the newest, as QUIC's receivers do (RFC 9000 section 13.2.3).
const MAX_RANGES: usize = 16;

/// Packets that have arrived at the receiver.
#[derive(Debug, Default)]
pub(super) struct Reception {
    /// First and last of each contiguous range of transmissions, the newest first.
    ranges: VecDeque<(u64, u64)>,
    ecn: EcnCounts,
    /// Acknowledgments sent.
    answers: u64,
}

/// Packets that came with each mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct EcnCounts {
    ect0: u64,
    ect1: u64,
    ce: u64,
}

/// Content of an ACK.
#[derive(Debug)]
pub(super) struct Answer {
    ranges: Box<[(u64, u64)]>,
    ecn: EcnCounts,
}

impl Reception {
    /// Adds a data packet, unless it is damaged and only reports that.
    pub(super) fn add(&mut self, packet: &Packet) {
        if packet.flags.contains(Flags::CORRUPTED) {
            return;
        }
        match ecn_of(packet.flags) {
            Some("CE") => self.ecn.ce += 1,
            Some("ECT(1)") => self.ecn.ect1 += 1,
            Some(_) => self.ecn.ect0 += 1,
            None => {}
        }
        self.add_number(packet.packet_seq);
    }

    fn add_number(&mut self, number: u64) {
        // The number belongs after the ranges that are newer.
        let at = self.ranges.partition_point(|(_, last)| *last > number);
        // It may extend the newest of the older ranges, or the oldest of the newer ones.
        let follows = self.ranges.get(at).is_some_and(|(_, last)| last + 1 == number);
        let precedes = at.checked_sub(1).is_some_and(|newer| {
            let first = self.ranges[newer].0;
            first == number + 1
        });
        let is_known = self.ranges.get(at).is_some_and(|(_, last)| *last == number)
            || at.checked_sub(1).is_some_and(|newer| self.ranges[newer].0 <= number);
        match (is_known, follows, precedes) {
            (true, ..) => {}
            (_, true, true) => {
                self.ranges[at - 1].0 = self.ranges[at].0;
                self.ranges.remove(at);
            }
            (_, true, false) => self.ranges[at].1 = number,
            (_, false, true) => self.ranges[at - 1].0 = number,
            (_, false, false) => {
                self.ranges.insert(at, (number, number));
                self.ranges.truncate(MAX_RANGES);
            }
        }
    }
}

impl Reception {
    /// The contents of the next ACK, and its number.
    pub(super) fn answer(&mut self) -> (Answer, u64) {
        let number = self.answers;
        self.answers += 1;
        (Answer { ranges: self.ranges.iter().copied().collect(), ecn: self.ecn }, number)
    }
}

impl Answer {
    pub(super) fn frame(&self) -> Frame<'_> {
        let ecn = Some(self.ecn).filter(|ecn| *ecn != EcnCounts::default());
        Frame::Ack {
            acked_ranges: &self.ranges,
            ect1: ecn.map(|ecn| ecn.ect1),
            ect0: ecn.map(|ecn| ecn.ect0),
            ce: ecn.map(|ecn| ecn.ce),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_the_oldest_are_forgotten() {
        let mut reception = Reception::default();
        let mut add = |numbers: &[u64]| {
            numbers.iter().for_each(|number| reception.add_number(*number));
            reception.ranges.iter().copied().collect::<Vec<_>>()
        };
        assert_eq!(add(&[1, 2, 3]), [(1, 3)]);
        assert_eq!(add(&[6, 5]), [(5, 6), (1, 3)], "6 opens a range, 5 comes before it");
        assert_eq!(add(&[2, 5, 3, 6]), [(5, 6), (1, 3)], "known");
        assert_eq!(add(&[4]), [(1, 6)], "the gap closes");
        assert_eq!(add(&[9]), [(9, 9), (1, 6)]);
        let gaps: Vec<u64> = (0..MAX_RANGES as u64).map(|i| 20 + 2 * i).collect();
        let ranges = add(&gaps);
        assert_eq!(ranges.len(), MAX_RANGES);
        assert_eq!(ranges.last(), Some(&(20, 20)), "9 and 1 to 6 gave way");
        assert_eq!(add(&[3]).last(), Some(&(20, 20)), "what is older than all finds no place");
    }
}
