//! The receiving endpoint: reassembly, acknowledgments, the echo of feedback.
//!
//! SACK blocks (RFC 2018) report data that arrived out of order. The first block of an
//! acknowledgment that a duplicate triggers reports that duplicate (DSACK, RFC 2883 section 4); it
//! lies below the cumulative acknowledgment or inside the block that follows it. Only recovery from
//! SACK and by packet number uses the blocks, and only the estimate of the loss rate uses the
//! reported duplicates.

use super::conduct::Misconduct;
use super::feedback::{Echo, FeedbackConfig};
use super::range_set::RangeSet;
use super::{Conduct, EndpointConfig};
use crate::packet::{Flags, MAX_SACK_BLOCKS, Packet, PacketKind, SackBlock};
use crate::units::{Duration, Time};

/// The receiver of one connection. The fields that most packets need come first.
#[derive(Debug)]
#[repr(C)]
pub struct Receiver {
    /// The next packet expected in order.
    next: u64,
    /// Packets that arrived for the first time.
    unique: u64,
    /// Only while something is missing.
    disorder: Option<Box<Disorder>>,
    /// Only if acknowledgments may be delayed.
    delays: Option<Box<Delays>>,
    /// Only for a receiver that misbehaves.
    misconduct: Option<Box<Misconduct>>,
    echo: Echo,
    ack_size: u32,
    /// Packets that had arrived before.
    duplicates: u64,
}

/// Data that arrived after a gap.
#[derive(Debug, Default)]
struct Disorder {
    arrived: RangeSet,
    /// A packet of each of the ranges changed last, most recent first (RFC 2018 section 4).
    recent: [Option<u64>; MAX_SACK_BLOCKS],
}

/// Delayed acknowledgments.
#[derive(Debug)]
struct Delays {
    /// The longest delay.
    wait: Duration,
    waiting: Option<Delayed>,
    /// Packets still to be acknowledged at once, their initial number, and the silence that
    /// restores it.
    quick: u32,
    quick_acks: u32,
    silence: Duration,
    heard: Time,
}

/// An acknowledgment that waits for a second packet or for the timer.
#[derive(Debug, Clone, Copy)]
struct Delayed {
    due: Time,
    seq: u64,
    packet_seq: u64,
    timestamp: Time,
}

/// Counters of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets that arrived for the first time.
    pub unique: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
}

impl Disorder {
    /// Puts the range of `seq` first among those to report, and removes its older entries.
    fn remember(&mut self, seq: u64) {
        let range = self.arrived.range_of(seq);
        let mut carried = Some(seq);
        for slot in &mut self.recent {
            let old = std::mem::replace(slot, carried);
            carried = old.filter(|seq| self.arrived.range_of(*seq) != range);
            if carried.is_none() {
                break;
            }
        }
    }

    /// Writes the ranges changed last after the first `reported` blocks.
    fn report(&self, packet: &mut Packet, reported: usize) {
        let mut blocks = reported;
        for seq in self.recent.into_iter().flatten() {
            if blocks == MAX_SACK_BLOCKS {
                break;
            }
            let Some(range) = self.arrived.range_of(seq) else {
                continue;
            };
            if !packet.sack[reported..blocks].contains(&range) {
                packet.sack[blocks] = range;
                blocks += 1;
            }
        }
        packet.sack_len = blocks as u8;
    }
}

impl Receiver {
    /// A receiver of a protocol with this feedback, before its first packet.
    pub fn new(feedback: &FeedbackConfig, config: &EndpointConfig) -> Self {
        Receiver {
            next: 0,
            unique: 0,
            disorder: None,
            delays: config.delayed_acks.map(|wait| {
                Box::new(Delays {
                    wait,
                    waiting: None,
                    quick: config.quick_acks,
                    quick_acks: config.quick_acks,
                    silence: config.rto_floor,
                    heard: Time::ZERO,
                })
            }),
            misconduct: (config.receiver != Conduct::Honest)
                .then(|| Box::new(Misconduct::new(config.receiver, config.rwnd))),
            echo: Echo::new(feedback, config),
            ack_size: config.ack_size,
            duplicates: 0,
        }
    }

    /// Handles a data packet. If it is to be acknowledged now, turns `packet` into the
    /// acknowledgment and returns true.
    #[inline]
    pub fn on_data(&mut self, now: Time, packet: &mut Packet) -> bool {
        debug_assert_eq!(packet.kind, PacketKind::Data);
        let plain = self.disorder.is_none() && self.delays.is_none() && self.misconduct.is_none();
        if packet.seq != self.next || !plain || packet.flags.contains(Flags::CORRUPTED) {
            return self.on_other_data(now, packet);
        }
        // Most packets are as expected, and each is acknowledged.
        self.unique += 1;
        self.next += 1;
        self.echo.answer(now, packet);
        self.address(packet);
        true
    }

    /// [`Receiver::on_data`] for any packet in any state.
    fn on_other_data(&mut self, now: Time, packet: &mut Packet) -> bool {
        let Some(mut misconduct) = self.misconduct.take() else {
            return self.answer_honestly(now, packet);
        };
        misconduct.on_data(packet);
        let answers = self.answer_honestly(now, packet);
        self.give_up_below(misconduct.given_up());
        if answers {
            misconduct.distort(packet, self.unique);
        }
        self.misconduct = Some(misconduct);
        answers
    }

    /// Writes into `ack` the next acknowledgment that a misbehaving receiver sends at the same
    /// instant after the latest one. Call it until it returns false.
    pub fn further_ack(&mut self, ack: &mut Packet) -> bool {
        self.misconduct.as_mut().is_some_and(|misconduct| misconduct.further(ack))
    }

    /// Gives up the data that is missing below `seq`.
    fn give_up_below(&mut self, seq: u64) {
        if seq <= self.next {
            return;
        }
        self.next = seq;
        if let Some(disorder) = &mut self.disorder {
            self.next = disorder.arrived.next_missing(seq);
            disorder.arrived.remove_below(self.next);
            if disorder.arrived.is_empty() {
                self.disorder = None;
            }
        }
    }

    /// Handles any packet as an honest receiver does.
    fn answer_honestly(&mut self, now: Time, packet: &mut Packet) -> bool {
        if packet.flags.contains(Flags::CORRUPTED) {
            self.echo.on_corrupted(packet);
            return false;
        }
        let (seq, in_order) = (packet.seq, packet.seq == self.next);
        let had_gap = self.disorder.is_some();
        if in_order && !had_gap && self.waiting().is_some() && self.echo.turns(packet) {
            self.acknowledge_before(now, packet);
            return true;
        }
        self.echo.on_data(now, packet);
        let duplicate = !self.take_in(seq);

        // RFC 5681 section 4.2: at once for data out of order and for data that fills a gap.
        let mut timestamp = packet.timestamp;
        if let Some(delays) = &mut self.delays {
            if duplicate || now.since(delays.heard) > delays.silence {
                delays.quick = delays.quick_acks;
            }
            delays.heard = now;
            let quick = delays.quick > 0;
            delays.quick = delays.quick.saturating_sub(1);
            if let Some(waiting) = delays.waiting.take() {
                timestamp = waiting.timestamp; // RFC 7323 section 4.1: of the earliest.
            } else if in_order && !had_gap && !quick {
                let (due, packet_seq) = (now + delays.wait, packet.packet_seq);
                delays.waiting = Some(Delayed { due, seq, packet_seq, timestamp });
                return false;
            }
        }
        packet.timestamp = timestamp;
        self.write_ack(packet, duplicate.then_some(SackBlock { start: seq, end: seq + 1 }));
        true
    }

    /// Records that data `seq` has arrived; returns true if for the first time.
    fn take_in(&mut self, seq: u64) -> bool {
        let is_new = match &mut self.disorder {
            _ if seq < self.next => false,
            None if seq == self.next => {
                self.next += 1;
                true
            }
            Some(disorder) if seq == self.next => {
                self.next = disorder.arrived.next_missing(seq + 1);
                disorder.arrived.remove_below(self.next);
                if disorder.arrived.is_empty() {
                    self.disorder = None;
                }
                true
            }
            disorder => {
                let disorder = disorder.get_or_insert_default();
                let is_new = disorder.arrived.range_of(seq).is_none();
                if is_new {
                    disorder.arrived.insert(SackBlock { start: seq, end: seq + 1 }, 0);
                }
                disorder.remember(seq); // RFC 2883 section 4: also of a duplicate.
                is_new
            }
        };
        if is_new {
            self.unique += 1;
        } else {
            self.duplicates += 1;
        }
        is_new
    }

    /// RFC 8257 section 3.2: `packet` is in order and its mark differs from that of the packet
    /// held back, which is acknowledged at once with its own; `packet` is held back instead.
    fn acknowledge_before(&mut self, now: Time, packet: &mut Packet) {
        let Packet { seq, packet_seq, timestamp, .. } = *packet;
        let Some(delays) = &mut self.delays else { return };
        let due = now + delays.wait;
        let next = Delayed { due, seq, packet_seq, timestamp };
        let Some(waiting) = delays.waiting.replace(next) else { return };
        let arrived = packet.clone();
        packet.seq = waiting.seq;
        packet.packet_seq = waiting.packet_seq;
        packet.timestamp = waiting.timestamp;
        self.write_ack(packet, None);
        self.echo.on_data(now, &arrived);
        self.unique += 1;
        self.next = seq + 1;
    }

    fn waiting(&self) -> Option<Delayed> {
        self.delays.as_ref().and_then(|delays| delays.waiting)
    }

    /// The time at which [`Receiver::on_timer`] must be called next.
    pub fn next_timer(&self) -> Time {
        self.waiting().map_or(Time::NEVER, |waiting| waiting.due)
    }

    /// Writes the acknowledgment that has waited long enough, if there is one.
    pub fn on_timer(&mut self, now: Time, ack: &mut Packet) -> bool {
        let Some(delays) = &mut self.delays else { return false };
        let Some(waiting) = delays.waiting.take_if(|waiting| waiting.due <= now) else {
            return false;
        };
        ack.seq = waiting.seq;
        ack.packet_seq = waiting.packet_seq;
        ack.timestamp = waiting.timestamp;
        self.write_ack(ack, None);
        if let Some(misconduct) = &mut self.misconduct {
            misconduct.distort(ack, self.unique);
        }
        true
    }

    /// Counters so far.
    #[inline]
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats { unique: self.unique, duplicates: self.duplicates }
    }

    /// Turns the data packet that triggers it into the acknowledgment, which reports that packet
    /// as a duplicate if it was one.
    fn write_ack(&mut self, packet: &mut Packet, duplicate: Option<SackBlock>) {
        packet.flags = Flags::NONE;
        self.echo.write(packet);
        self.address(packet);
        if let Some(duplicate) = duplicate {
            packet.sack[0] = duplicate;
            packet.sack_len = 1;
        }
        if let Some(disorder) = &self.disorder {
            disorder.report(packet, usize::from(packet.sack_len));
        }
    }

    /// Writes the fields that every acknowledgment has.
    #[inline]
    fn address(&self, packet: &mut Packet) {
        packet.kind = PacketKind::Ack;
        packet.size = self.ack_size;
        packet.trigger_seq = packet.seq;
        packet.seq = self.next;
        packet.sack_len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::feedback::{Direction, Granularity, Notification};
    use crate::packet::{CongestionHeader, NO_SEQ};
    use crate::part::Plain;

    fn data(seq: u64) -> Packet {
        Packet { seq, packet_seq: seq, size: 1000, ..Packet::default() }
    }

    fn receiver(delayed_acks: Option<Duration>) -> Receiver {
        Receiver::new(
            &FeedbackConfig::None(Plain),
            &EndpointConfig { delayed_acks, ..EndpointConfig::default() },
        )
    }

    /// Sends `seq`; the acknowledgment as (next expected, blocks).
    fn ack_of(receiver: &mut Receiver, seq: u64) -> (u64, Vec<(u64, u64)>) {
        let mut packet = data(seq);
        assert!(receiver.on_data(Time::ZERO, &mut packet));
        assert_eq!((packet.kind, packet.size, packet.trigger_seq), (PacketKind::Ack, 40, seq));
        (packet.seq, packet.sack_blocks().iter().map(|b| (b.start, b.end)).collect())
    }

    #[test]
    fn the_state_of_a_receiver_stays_small() {
        // Two cache lines.
        assert!(size_of::<Receiver>() <= 128, "{}", size_of::<Receiver>());
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
        assert_eq!(r.stats(), ReceiverStats { unique: 7, duplicates: 0 });
    }

    #[test]
    fn duplicates_are_reported_in_the_first_block() {
        let mut r = receiver(None);
        for seq in [0, 1, 2] {
            ack_of(&mut r, seq);
        }
        // RFC 2883 section 4.1.1: below the acknowledgment, with no other block.
        assert_eq!(ack_of(&mut r, 2), (3, vec![(2, 3)]));
        // Section 4.1.3: with data out of order, the usual blocks follow.
        for seq in [4, 6, 8] {
            ack_of(&mut r, seq);
        }
        assert_eq!(ack_of(&mut r, 1), (3, vec![(1, 2), (8, 9), (6, 7)]));
        // Section 4.2.1: inside a block, which is the next.
        ack_of(&mut r, 5);
        assert_eq!(ack_of(&mut r, 9), (3, vec![(8, 10), (4, 7)]));
        assert_eq!(ack_of(&mut r, 5), (3, vec![(5, 6), (4, 7), (8, 10)]));
        assert_eq!(r.stats().duplicates, 3);
        // A report is made once (section 4, item 2).
        assert_eq!(ack_of(&mut r, 10), (3, vec![(8, 11), (4, 7)]));
    }

    #[test]
    fn a_corrupted_packet_is_named_and_not_acknowledged() {
        let config = EndpointConfig::default();
        let notification =
            Notification { granularity: Granularity::PerPacket, direction: Direction::Forward };
        let mut r = Receiver::new(&FeedbackConfig::Corruption(notification), &config);
        let mut damaged = Packet { flags: Flags::CORRUPTED, ..data(0) };
        assert!(!r.on_data(Time::ZERO, &mut damaged));
        assert_eq!(r.stats(), ReceiverStats::default());
        let mut next = data(1);
        assert!(r.on_data(Time::ZERO, &mut next));
        assert_eq!(next.seq, 0, "it is missing");
        let recent = [0, NO_SEQ, NO_SEQ];
        assert_eq!(next.header, CongestionHeader::Corrupted { recent });
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
    fn quick_acknowledgments_come_first_and_after_duplicates_and_silence() {
        let config = EndpointConfig { quick_acks: 2, ..EndpointConfig::default().linux() };
        let mut r = Receiver::new(&FeedbackConfig::None(Plain), &config);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut quick = |ms, seq| {
            let answers = r.on_data(at(ms), &mut data(seq));
            let mut ack = Packet::default();
            if !answers {
                assert_eq!(r.next_timer(), at(ms + 40));
                assert!(r.on_timer(at(ms + 40), &mut ack));
            }
            answers
        };
        assert_eq!([quick(0, 0), quick(0, 1), quick(0, 2)], [true, true, false]);
        assert!(quick(50, 2), "a duplicate");
        assert_eq!([quick(50, 3), quick(50, 4)], [true, false]);
        // The floor of the timeout, 200 ms, and more.
        assert_eq!([quick(250, 5), quick(451, 6)], [false, true]);
    }

    #[test]
    fn exact_ecn_acknowledges_at_once_where_the_mark_changes() {
        let wait = Some(Duration::from_millis(100));
        let config = EndpointConfig { delayed_acks: wait, ..EndpointConfig::default() };
        let mut r = Receiver::new(&FeedbackConfig::ExactEcn(Plain), &config);
        // Marks 0 0 | 1 1 1 | 0: RFC 8257 figure 1. An acknowledgment is (next, mark, packet).
        let mut acks = Vec::new();
        for (seq, marked) in [(0, false), (1, false), (2, true), (3, true), (4, true), (5, false)] {
            let mut packet = data(seq);
            if marked {
                packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
            }
            if r.on_data(Time::ZERO, &mut packet) {
                acks.push((packet.seq, packet.flags.contains(Flags::ECN_ECHO), packet.packet_seq));
            }
        }
        // 0 and 1 together; 2 begins marked (nothing waits: no acknowledgment is due before it)
        // and goes with 3; 4 waits until 5 turns the mark.
        assert_eq!(acks, [(2, false, 1), (4, true, 3), (5, true, 4)]);
        let mut last = Packet::default();
        assert!(r.on_timer(Time::ZERO + Duration::from_millis(100), &mut last));
        assert_eq!((last.seq, last.flags.contains(Flags::ECN_ECHO)), (6, false));
        assert_eq!(r.stats(), ReceiverStats { unique: 6, duplicates: 0 });
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
