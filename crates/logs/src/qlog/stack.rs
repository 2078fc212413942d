//! State that the logs of a stack's connection need in addition: the packets under way, and those
//! that the sender deems lost.

use std::collections::{BTreeMap, BTreeSet};

use windward_sim::stack::{End, FrameFacts, PacketFacts, PacketType};

/// Packets behind the newest acknowledged one from which a packet is lost (RFC 9002 section 6.1.1).
const PACKET_THRESHOLD: u64 = 3;

/// The packets of a connection.
#[derive(Debug, Default)]
pub(super) struct StackPackets {
    /// Packets under way, by the end that sent the datagram and its number.
    under_way: BTreeMap<(bool, u64), Vec<PacketFacts>>,
    spaces: [Space; 3],
    /// Packets that the sender deemed lost.
    lost: u64,
}

/// Packets that the sender has sent in a packet number space.
#[derive(Debug, Default)]
struct Space {
    /// Packets neither acknowledged nor deemed lost.
    outstanding: BTreeSet<u64>,
    largest_acked: Option<u64>,
}

/// A packet that the sender deems lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostPacket {
    pub(super) kind: PacketType,
    pub(super) number: u64,
    pub(super) trigger: &'static str,
}

impl StackPackets {
    /// Notes that an end sends a datagram with these packets.
    pub(super) fn sent(&mut self, from: End, datagram: u64, facts: &[PacketFacts]) {
        if facts.is_empty() {
            return;
        }
        self.under_way.insert((from == End::Sender, datagram), facts.to_vec());
        if from == End::Receiver {
            return;
        }
        for packet in facts {
            if packet.kind == PacketType::Handshake {
                // Its keys replace those of Initial packets (RFC 9001 section 4.9.1).
                self.spaces[PacketType::Initial.space()].outstanding.clear();
            }
            self.spaces[packet.kind.space()].outstanding.insert(packet.number);
        }
    }

    /// Removes a datagram that arrives or is lost. Returns the packets in it.
    pub(super) fn gone(&mut self, from: End, datagram: u64) -> Vec<PacketFacts> {
        self.under_way.remove(&(from == End::Sender, datagram)).unwrap_or_default()
    }

    /// Notes that packets of the receiver reach the sender.
    pub(super) fn received(&mut self, facts: &[PacketFacts]) {
        for packet in facts {
            for frame in &packet.frames {
                match frame {
                    FrameFacts::Ack { ranges, .. } => {
                        let space = &mut self.spaces[packet.kind.space()];
                        for &(first, last) in ranges {
                            let acked = space.outstanding.range(first..=last.max(first));
                            for number in acked.copied().collect::<Vec<_>>() {
                                space.outstanding.remove(&number);
                            }
                            space.largest_acked = space.largest_acked.max(Some(last));
                        }
                    }
                    // The handshake keys are discarded (RFC 9001 section 4.9.2).
                    FrameFacts::Other("handshake_done") => {
                        self.spaces[PacketType::Handshake.space()].outstanding.clear();
                    }
                    _ => {}
                }
            }
        }
    }

    /// Packets that the sender has deemed lost since the last call, if there are `lost` in total.
    /// Stacks report this number only. Both of QUIC's thresholds take the oldest packets first (RFC
    /// 9002 section 6.1), so these are the oldest that are not acknowledged.
    pub(super) fn newly_lost(&mut self, lost: u64) -> Vec<LostPacket> {
        let count = lost.saturating_sub(self.lost) as usize;
        self.lost = lost;
        let mut found = Vec::new();
        let kinds = [PacketType::OneRtt, PacketType::Handshake, PacketType::Initial];
        for kind in kinds {
            let space = &mut self.spaces[kind.space()];
            let Some(largest) = space.largest_acked else { continue };
            while found.len() < count
                && let Some(number) = space.outstanding.first().copied()
                && number < largest
            {
                space.outstanding.pop_first();
                let trigger = match largest >= number + PACKET_THRESHOLD {
                    true => "reordering_threshold",
                    false => "time_threshold",
                };
                found.push(LostPacket { kind, number, trigger });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(number: u64, frames: Vec<FrameFacts>) -> PacketFacts {
        PacketFacts { kind: PacketType::OneRtt, number, length: 1000, frames }
    }

    #[test]
    fn the_oldest_that_are_not_acknowledged_are_lost() {
        let mut packets = StackPackets::default();
        for number in 0..8 {
            packets.sent(End::Sender, number, &[packet(number, Vec::new())]);
        }
        assert_eq!(packets.gone(End::Sender, 3)[0].number, 3);
        assert!(
            packets.gone(End::Sender, 3).is_empty() && packets.gone(End::Receiver, 4).is_empty()
        );
        assert!(packets.newly_lost(0).is_empty());
        // 1, 2 and 4 are missing when 5 is acknowledged: 5 - 3 = 2, so 4 can only be late.
        let ack = FrameFacts::Ack { ranges: vec![(5, 5), (3, 3), (0, 0)], ecn: None };
        packets.received(&[packet(0, vec![ack])]);
        let lost = |found: Vec<LostPacket>| -> Vec<(u64, &str)> {
            found.iter().map(|packet| (packet.number, packet.trigger)).collect()
        };
        let early = [(1, "reordering_threshold"), (2, "reordering_threshold")];
        assert_eq!(lost(packets.newly_lost(2)), early);
        assert_eq!(lost(packets.newly_lost(3)), [(4, "time_threshold")]);
        // Nothing sent after the newest acknowledged packet can be lost.
        assert!(packets.newly_lost(9).is_empty());
    }
}
