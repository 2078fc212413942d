//! XTCP's congestion counter (lr2008 section 3.2).
//!
//! Every drop of an XTCP packet increments the counter, and each of the next XTCP packets that
//! leave the queue carries the congestion flag and decrements it, until it is zero. There is no
//! state per flow. TCP packets in the same queue do not change the counter (section 8.1).

use super::{Router, RouterKind, RouterPart};
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::part::{Form, Part, Plain, Words};
use crate::units::Time;

/// The congestion counter of one queue.
#[derive(Debug, Clone, Default)]
pub struct CongestionCounter {
    owed: u64,
}

impl Part for CongestionCounter {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "xtcp",
            what: "flags one packet that leaves for each packet dropped",
            source: "lr2008 section 3.2",
        },
        config: Plain,
    }];
}

impl Router for CongestionCounter {
    fn on_drop(&mut self, _: Time, queue: &Backlog<'_>, packet: &Packet) {
        self.count_drop(packet, queue.packets);
    }
    fn on_departure(&mut self, _: Time, _: &Backlog<'_>, packet: &mut Packet) -> bool {
        self.flag(packet)
    }
}

impl RouterPart for CongestionCounter {
    fn new(_: &Plain, _: &QueueSetup<'_>) -> Self {
        CongestionCounter::default()
    }
    const ACTS_ON_DEPARTURE: bool = true;
    fn serves(kind: RouterKind) -> bool {
        matches!(kind, RouterKind::Any | RouterKind::EcnThreshold | RouterKind::Xtcp)
    }
}

impl CongestionCounter {
    /// Counts a drop of `packet` while `waiting` packets were in the queue.
    pub fn count_drop(&mut self, packet: &Packet, waiting: usize) {
        // Footnote 1: the counter never exceeds the number of packets that can carry flags.
        if packet.flags.contains(Flags::XTCP) && self.owed < waiting as u64 {
            self.owed += 1;
        }
    }

    /// Handles `packet`, which leaves the queue. Returns true if it was flagged.
    pub fn flag(&mut self, packet: &mut Packet) -> bool {
        let flag = self.owed > 0 && packet.flags.contains(Flags::XTCP);
        if flag {
            self.owed -= 1;
            packet.flags.insert(Flags::CONGESTION);
        }
        flag
    }

    /// The counter: packets still to be flagged.
    pub fn owed(&self) -> u64 {
        self.owed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_paid_back_one_flag_each_by_xtcp_packets_only() {
        let xtcp = Packet { flags: Flags::XTCP, ..Packet::default() };
        let tcp = Packet::default();
        let mut counter = CongestionCounter::default();
        counter.count_drop(&tcp, 10);
        assert_eq!(counter.owed(), 0, "a TCP drop is TCP's own business");
        counter.count_drop(&xtcp, 10);
        counter.count_drop(&xtcp, 10);
        assert_eq!(counter.owed(), 2);

        let mut flags = Vec::new();
        for packet in [&tcp, &xtcp, &tcp, &xtcp, &xtcp] {
            let mut leaving = packet.clone();
            counter.flag(&mut leaving);
            flags.push(leaving.flags.contains(Flags::CONGESTION));
        }
        assert_eq!(flags, [false, true, false, true, false]);
        assert_eq!(counter.owed(), 0);
    }

    #[test]
    fn the_counter_never_exceeds_the_queue() {
        let xtcp = Packet { flags: Flags::XTCP, ..Packet::default() };
        let mut counter = CongestionCounter::default();
        for _ in 0..5 {
            counter.count_drop(&xtcp, 2);
        }
        assert_eq!(counter.owed(), 2);
        counter.count_drop(&xtcp, 0);
        assert_eq!(counter.owed(), 2);
    }
}
