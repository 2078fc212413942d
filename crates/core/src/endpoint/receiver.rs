//! The receiving endpoint: reassembly, acknowledgments, the echo of feedback.

use super::EndpointConfig;
use super::feedback::{Echo, Feedback};
use super::range_set::RangeSet;
use crate::packet::{Flags, MAX_SACK_BLOCKS, Packet, PacketKind, SackBlock};
use crate::units::{Duration, Time};

/// The receiver of one connection.
#[derive(Debug, Clone)]
pub struct Receiver {
    ack_size: u32,
    delayed_acks: Option<Duration>,
    /// The next packet expected in order.
    next: u64,
    out_of_order: RangeSet,
    /// A packet of each of the ranges changed last, most recent first (RFC 2018 section 4).
    recent: [Option<u64>; MAX_SACK_BLOCKS],
    echo: Echo,
    delayed: Option<Delayed>,
    stats: ReceiverStats,
}

/// An acknowledgment that waits for a second packet or for the timer.
#[derive(Debug, Clone, Copy)]
struct Delayed {
    due: Time,
    flow: u32,
    seq: u64,
    packet_seq: u64,
    timestamp: Time,
}

/// What a receiver has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that arrived for the first time.
    pub unique: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
}

impl Receiver {
    /// A receiver, of a protocol with that feedback, that has seen nothing.
    pub fn new(feedback: Feedback, config: &EndpointConfig) -> Self {
        Receiver {
            ack_size: config.ack_size,
            delayed_acks: config.delayed_acks,
            next: 0,
            out_of_order: RangeSet::default(),
            recent: [None; MAX_SACK_BLOCKS],
            echo: Echo::new(feedback, config),
            delayed: None,
            stats: ReceiverStats::default(),
        }
    }

    /// Takes a data packet in and, if it is to be acknowledged now, turns `packet` into that
    /// acknowledgment and returns true.
    pub fn on_data(&mut self, now: Time, packet: &mut Packet) -> bool {
        debug_assert_eq!(packet.kind, PacketKind::Data);
        self.echo.on_data(packet);
        let (seq, in_order) = (packet.seq, packet.seq == self.next);
        let had_gap = !self.out_of_order.is_empty();
        if in_order {
            self.stats.unique += 1;
            self.next = if had_gap { self.out_of_order.next_missing(seq + 1) } else { seq + 1 };
            if had_gap {
                self.out_of_order.remove_below(self.next);
            }
        } else if seq < self.next || self.out_of_order.range_of(seq).is_some() {
            self.stats.duplicates += 1;
        } else {
            self.stats.unique += 1;
            self.out_of_order.insert(SackBlock { start: seq, end: seq + 1 }, 0);
            self.remember(seq);
        }

        // RFC 5681 section 4.2: at once for anything out of order and for what fills a gap.
        let mut timestamp = packet.timestamp;
        if let Some(wait) = self.delayed_acks {
            if let Some(waiting) = self.delayed.take() {
                timestamp = waiting.timestamp; // RFC 7323 section 4.1: of the earliest.
            } else if in_order && !had_gap {
                let (flow, packet_seq) = (packet.flow, packet.packet_seq);
                self.delayed = Some(Delayed { due: now + wait, flow, seq, packet_seq, timestamp });
                return false;
            }
        }
        packet.timestamp = timestamp;
        self.write_ack(packet);
        true
    }

    /// When [`Receiver::on_timer`] must be called next.
    pub fn next_timer(&self) -> Time {
        self.delayed.map_or(Time::NEVER, |delayed| delayed.due)
    }

    /// Writes the acknowledgment that has waited long enough, if there is one.
    pub fn on_timer(&mut self, now: Time, ack: &mut Packet) -> bool {
        let Some(delayed) = self.delayed.filter(|delayed| delayed.due <= now) else {
            return false;
        };
        self.delayed = None;
        ack.flow = delayed.flow;
        ack.seq = delayed.seq;
        ack.packet_seq = delayed.packet_seq;
        ack.timestamp = delayed.timestamp;
        self.write_ack(ack);
        true
    }

    /// Counters so far.
    pub fn stats(&self) -> ReceiverStats {
        self.stats
    }

    /// Turns the data packet that triggers it into the acknowledgment.
    fn write_ack(&mut self, packet: &mut Packet) {
        packet.kind = PacketKind::Ack;
        packet.size = self.ack_size;
        packet.flags = Flags::NONE;
        packet.hop = 0;
        packet.trigger_seq = packet.seq;
        packet.seq = self.next;
        packet.sack_len = 0;
        self.echo.write(packet);
        if self.out_of_order.is_empty() {
            return;
        }
        let mut blocks = 0;
        for seq in self.recent.into_iter().flatten() {
            let Some(range) = self.out_of_order.range_of(seq) else {
                continue;
            };
            if !packet.sack[..blocks].contains(&range) {
                packet.sack[blocks] = range;
                blocks += 1;
            }
        }
        packet.sack_len = blocks as u8;
    }

    /// Puts the range of `seq` first among those to report, dropping older mentions of it.
    fn remember(&mut self, seq: u64) {
        let range = self.out_of_order.range_of(seq);
        let mut carried = Some(seq);
        for slot in &mut self.recent {
            let old = std::mem::replace(slot, carried);
            carried = old.filter(|seq| self.out_of_order.range_of(*seq) != range);
            if carried.is_none() {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(seq: u64) -> Packet {
        Packet { seq, packet_seq: seq, size: 1000, ..Packet::default() }
    }

    fn receiver(delayed_acks: Option<Duration>) -> Receiver {
        Receiver::new(Feedback::None, &EndpointConfig { delayed_acks, ..EndpointConfig::default() })
    }

    /// Sends `seq`; the acknowledgment as (next expected, blocks).
    fn ack_of(receiver: &mut Receiver, seq: u64) -> (u64, Vec<(u64, u64)>) {
        let mut packet = data(seq);
        assert!(receiver.on_data(Time::ZERO, &mut packet));
        assert_eq!((packet.kind, packet.size, packet.trigger_seq), (PacketKind::Ack, 40, seq));
        (packet.seq, packet.sack_blocks().iter().map(|b| (b.start, b.end)).collect())
    }

    #[test]
    fn gaps_are_reported_most_recent_first() {
        // RFC 2018 section 5, the shape of case 3, in packets.
        let mut r = receiver(None);
        assert_eq!(ack_of(&mut r, 0), (1, vec![]));
        assert_eq!(ack_of(&mut r, 2), (1, vec![(2, 3)]));
        assert_eq!(ack_of(&mut r, 4), (1, vec![(4, 5), (2, 3)]));
        assert_eq!(ack_of(&mut r, 6), (1, vec![(6, 7), (4, 5), (2, 3)]));
        assert_eq!(ack_of(&mut r, 8), (1, vec![(8, 9), (6, 7), (4, 5)]));
        // 3 joins two ranges; the joined one is the most recent.
        assert_eq!(ack_of(&mut r, 3), (1, vec![(2, 5), (8, 9), (6, 7)]));
        assert_eq!(ack_of(&mut r, 1), (5, vec![(8, 9), (6, 7)]));
        assert_eq!(ack_of(&mut r, 1), (5, vec![(8, 9), (6, 7)]));
        assert_eq!(r.stats(), ReceiverStats { unique: 7, duplicates: 1 });
    }

    #[test]
    fn delayed_acknowledgments_wait_for_a_second_packet_or_the_timer() {
        let wait = Duration::from_millis(100);
        let mut r = receiver(Some(wait));
        let mut first = Packet { timestamp: Time::from_ps(7), ..data(0) };
        assert!(!r.on_data(Time::ZERO, &mut first));
        assert_eq!(r.next_timer(), Time::ZERO + wait);
        let mut second = Packet { timestamp: Time::from_ps(9), ..data(1) };
        assert!(r.on_data(Time::ZERO, &mut second));
        assert_eq!((second.seq, second.timestamp), (2, Time::from_ps(7)));
        assert_eq!(r.next_timer(), Time::NEVER);

        assert!(!r.on_data(Time::ZERO, &mut data(2)));
        let mut ack = Packet::default();
        assert!(!r.on_timer(Time::ZERO, &mut ack), "not due yet");
        assert!(r.on_timer(Time::ZERO + wait, &mut ack));
        assert_eq!((ack.seq, ack.kind), (3, PacketKind::Ack));

        // A gap, and what fills it, are acknowledged at once.
        assert_eq!(ack_of(&mut r, 4), (3, vec![(4, 5)]));
        assert_eq!(ack_of(&mut r, 3), (5, vec![]));
    }

    #[test]
    fn congestion_experienced_is_echoed_until_the_window_is_reduced() {
        let mut r = receiver(None);
        let mut echoes = Vec::new();
        for (seq, flags) in [
            (0, Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED)),
            (1, Flags::ECN_CAPABLE),
            (2, Flags::ECN_CAPABLE.with(Flags::WINDOW_REDUCED)),
        ] {
            let mut packet = Packet { flags, ..data(seq) };
            r.on_data(Time::ZERO, &mut packet);
            echoes.push(packet.flags.contains(Flags::ECN_ECHO));
        }
        assert_eq!(echoes, [true, true, false]);
    }
}
