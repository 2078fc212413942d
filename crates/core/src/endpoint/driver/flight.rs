//! The packets in flight, by what a QUIC stack tells of them.
//!
//! A stack tells less than it knows. quinn reports batches instead of packets and losses in bytes.
//! It reports packets that are not in flight, which carry only acknowledgments. And nobody reports
//! the packets that leave the flight silently: lost probes for the path's MTU, packets of discarded
//! keys, and acknowledged padding. Therefore the bytes in flight that the stack tells with each ACK
//! frame correct this list ([`Flight::reconcile`]), and the bytes of a batch are a pool from which
//! its acknowledgments take.

use std::collections::VecDeque;

use crate::units::{Duration, Time};

/// A packet that was sent.
#[derive(Debug, Clone, Copy)]
struct Packet {
    at: Time,
    /// The lower half of its number, which distinguishes packets of one flight.
    number: u32,
    /// Bytes still in flight; 0 once it is acknowledged, lost or forgotten.
    bytes: u32,
    /// Wait at the socket after `at`, nanoseconds.
    held: u32,
    /// Packets that left at the same instant before it.
    place: u16,
    /// True if no other packet of its batch can be meant by its number.
    is_exact: bool,
}

impl Packet {
    fn left(&self) -> Time {
        self.at + Duration::from_nanos(self.held.into())
    }
}

/// A packet that is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Acknowledged {
    pub(super) ordinal: u64,
    number: u32,
    sent: Time,
    /// When it left the socket, and the packets that left at the same instant before it.
    pub(super) left: Time,
    pub(super) place: u16,
    /// False if it may be another packet of its batch.
    pub(super) is_exact: bool,
}

impl Acknowledged {
    fn new(ordinal: u64, packet: &Packet) -> Self {
        let Packet { number, at, place, is_exact, .. } = *packet;
        Acknowledged { ordinal, number, sent: at, left: packet.left(), place, is_exact }
    }
}

/// Packets that left at this instant before the one that follows.
fn place_after(before: Option<&Packet>, left: Time) -> u16 {
    before.filter(|before| before.left() == left).map_or(0, |before| before.place.saturating_add(1))
}

/// The packets in flight. Each has an ordinal: 1 for the first packet, consecutive from there on.
#[derive(Debug)]
pub(super) struct Flight {
    /// Packets from the oldest in flight on.
    packets: VecDeque<Packet>,
    /// Ordinal of the first of them.
    base: u64,
    count: u64,
    bytes: u64,
    /// Bytes by which the list exceeded the stack's flight when no packet fitted that excess.
    unexplained: u64,
    /// Ordinal of the next packet that leaves the socket.
    leaving: u64,
}

impl Flight {
    /// The largest number of packets in the list. More are forgotten, the oldest first: 190 MB
    /// of packets of 1452 bytes, in 3 MB of memory.
    pub(super) const MOST: usize = 1 << 17;

    pub(super) fn new() -> Self {
        Flight { packets: VecDeque::new(), base: 1, count: 0, bytes: 0, unexplained: 0, leaving: 1 }
    }

    /// Number of packets in flight.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Bytes in flight.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Ordinal of the oldest packet in flight. If no packet is in flight, that of the next one.
    pub(super) fn oldest(&self) -> u64 {
        self.base
    }

    /// Ordinal of the next packet.
    pub(super) fn next(&self) -> u64 {
        self.base + self.packets.len() as u64
    }

    /// Adds a packet. Returns true if the oldest one was forgotten for it.
    pub(super) fn push(&mut self, at: Time, number: u64, is_exact: bool, bytes: u32) -> bool {
        let forgets = self.packets.len() >= Self::MOST;
        if forgets {
            self.forget_oldest();
        }
        let last = self.packets.back();
        let at = last.map_or(at, |last| last.at.max(at));
        let place = place_after(last, at);
        self.packets.push_back(Packet {
            at,
            number: number as u32,
            bytes,
            held: 0,
            place,
            is_exact,
        });
        self.count += u64::from(bytes > 0);
        self.bytes += u64::from(bytes);
        self.trim();
        forgets
    }

    /// The packets from here on are a batch, which leaves after all earlier ones.
    pub(super) fn begin_batch(&mut self) {
        self.leaving = self.next();
    }

    /// The next packet of the latest batch leaves the socket. `is_exact` is true if it is certain
    /// by now which packets of the batch have which numbers.
    pub(super) fn depart(&mut self, now: Time, is_exact: bool) {
        let index = self.leaving.checked_sub(self.base).map(|index| index as usize);
        self.leaving += 1;
        let Some(index) = index else { return };
        let before = index.checked_sub(1).and_then(|before| self.packets.get(before));
        let place = place_after(before, now);
        if let Some(packet) = self.packets.get_mut(index) {
            packet.held = u32::try_from(now.since(packet.at).as_nanos()).unwrap_or(u32::MAX);
            packet.place = place;
            packet.is_exact |= is_exact;
        }
    }

    /// Takes out of the flight the packet that was sent at `at` and is acknowledged with so many
    /// bytes; `None` if the list does not have it. Packets that were acknowledged stay in the list
    /// until [`Flight::reconcile`] ends the ACK frame.
    pub(super) fn acknowledge(
        &mut self,
        at: Time,
        number: Option<u64>,
        bytes: u32,
    ) -> Option<Acknowledged> {
        let number = number.map(|number| number as u32);
        let start = self.packets.partition_point(|packet| packet.at < at);
        let group = || {
            let packets = self.packets.range(start..).take_while(|packet| packet.at == at);
            (start..).zip(packets).filter(|(_, packet)| packet.bytes > 0)
        };
        let index = match number {
            Some(number) => group().find(|(_, packet)| packet.number == number),
            None => group().find(|(_, packet)| packet.bytes == bytes).or_else(|| group().next()),
        };
        let (index, packet) = index?;
        let found = Acknowledged::new(self.base + index as u64, packet);
        if number.is_some() {
            self.close(index);
        } else {
            self.take(index, at, bytes);
        }
        Some(found)
    }

    /// The packet of this number, if it was sent at the same instant as one that was found by its
    /// bytes.
    pub(super) fn of_number(&self, found: Acknowledged, number: u64) -> Option<Acknowledged> {
        let further = (number as u32).wrapping_sub(found.number);
        let ordinal = found.ordinal + u64::from(further);
        let index = usize::try_from(ordinal.checked_sub(self.base)?).ok()?;
        let packet = self.packets.get(index)?;
        let fits = packet.number == number as u32 && packet.at == found.sent;
        fits.then(|| Acknowledged::new(ordinal, packet))
    }

    /// Takes so many bytes of the batch sent at `at`, from this packet on.
    fn take(&mut self, index: usize, at: Time, bytes: u32) {
        let mut left = bytes;
        for packet in self.packets.range_mut(index..).take_while(|packet| packet.at == at) {
            let taken = packet.bytes.min(left);
            left -= taken;
            self.bytes -= u64::from(taken);
            self.count -= u64::from(taken > 0 && taken == packet.bytes);
            packet.bytes -= taken;
            if left == 0 {
                break;
            }
        }
    }

    /// Takes out of the flight the oldest packet of this number, which is lost. Returns its
    /// ordinal; `None` if the list does not have it.
    pub(super) fn lose(&mut self, number: u64) -> Option<u64> {
        let is_it = |packet: &Packet| packet.bytes > 0 && packet.number == number as u32;
        let index = self.packets.iter().position(is_it)?;
        let ordinal = self.base + index as u64;
        self.close(index);
        self.trim();
        Some(ordinal)
    }

    /// Takes out of the flight so many bytes, which are lost, of the oldest packets sent at `until`
    /// or before. Writes the ordinals of the packets that this completes into `lost`.
    pub(super) fn lose_bytes(&mut self, until: Time, bytes: u64, lost: &mut Vec<u64>) {
        let mut left = bytes;
        let mut index = 0;
        while left > 0 {
            let Some(packet) = self.packets.get_mut(index) else { break };
            if packet.at > until {
                break;
            }
            if packet.bytes > 0 && u64::from(packet.bytes) <= left {
                left -= u64::from(packet.bytes);
                lost.push(self.base + index as u64);
                self.close(index);
            } else if packet.bytes > 0 {
                packet.bytes -= left as u32;
                self.bytes -= left;
                left = 0;
            }
            index += 1;
        }
        self.trim();
    }

    /// Forgets packets until there are no more bytes in flight than the stack has. Packets of less
    /// than `full` bytes may be mere acknowledgments. Returns the number of packets forgotten.
    pub(super) fn reconcile(&mut self, stack: u64, full: u32) -> u64 {
        self.trim();
        let mut excess = self.bytes.saturating_sub(stack);
        if excess == 0 {
            return 0;
        }
        let before = self.count;
        if excess != self.unexplained {
            let exact = |packet: &Packet| packet.bytes > 0 && u64::from(packet.bytes) == excess;
            if let Some(index) = self.packets.iter().position(exact) {
                self.close(index);
                excess = 0;
            }
            for index in 0..self.packets.len() {
                if excess == 0 {
                    break;
                }
                let bytes = self.packets[index].bytes;
                if (1..full).contains(&bytes) && u64::from(bytes) <= excess {
                    self.close(index);
                    excess -= u64::from(bytes);
                }
            }
        }
        self.trim();
        while let Some(oldest) = self.packets.front().map(|packet| u64::from(packet.bytes))
            && oldest <= excess
        {
            self.forget_oldest();
            excess -= oldest;
        }
        self.unexplained = excess;
        before - self.count
    }

    /// Forgets the oldest packet.
    pub(super) fn forget_oldest(&mut self) {
        self.close(0);
        self.trim();
    }

    /// Forgets all packets.
    pub(super) fn clear(&mut self) {
        self.base = self.next();
        self.packets.clear();
        (self.count, self.bytes, self.unexplained) = (0, 0, 0);
    }

    fn close(&mut self, index: usize) {
        let packet = &mut self.packets[index];
        self.count -= u64::from(packet.bytes > 0);
        self.bytes -= u64::from(packet.bytes);
        packet.bytes = 0;
    }

    fn trim(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.bytes == 0) {
            self.packets.pop_front();
            self.base += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms as at;

    /// Two batches: three packets at 1 ms, two at 2 ms.
    fn flight() -> Flight {
        let mut flight = Flight::new();
        for (number, ms, bytes) in
            [(1, 1, 1000), (2, 1, 1000), (3, 1, 400), (4, 2, 1000), (5, 2, 1000)]
        {
            flight.push(at(ms), number, true, bytes);
        }
        assert_eq!(
            (flight.count(), flight.bytes(), flight.oldest(), flight.next()),
            (5, 4400, 1, 6)
        );
        flight
    }

    /// Ordinal and place of the packet that this acknowledgment takes.
    fn acknowledged(flight: &mut Flight, ms: u64, bytes: u32) -> Option<(u64, u16)> {
        let found = flight.acknowledge(at(ms), None, bytes);
        flight.trim();
        found.map(|found| (found.ordinal, found.place))
    }

    #[test]
    fn acknowledgments_take_packets_by_time_and_size() {
        let mut flight = flight();
        assert_eq!(acknowledged(&mut flight, 1, 400), Some((3, 2)), "by its size");
        assert_eq!(acknowledged(&mut flight, 1, 1000), Some((1, 0)));
        assert_eq!((flight.oldest(), flight.bytes()), (2, 3000));
        assert_eq!(acknowledged(&mut flight, 2, 1000), Some((4, 0)));
        assert_eq!(flight.acknowledge(at(3), None, 1000), None, "sent by nobody");
        assert_eq!((flight.oldest(), flight.count(), flight.bytes()), (2, 2, 2000));
    }

    #[test]
    fn a_batch_is_a_pool_of_bytes() {
        // The stack cut the 2400 bytes of the first batch into eight packets of 300.
        let mut flight = flight();
        for _ in 0..8 {
            assert!(flight.acknowledge(at(1), None, 300).is_some());
        }
        assert_eq!(flight.acknowledge(at(1), None, 300), None);
        flight.trim();
        assert_eq!((flight.oldest(), flight.count(), flight.bytes()), (4, 2, 2000));
    }

    #[test]
    fn a_number_tells_which_packet_of_a_batch_arrived_and_when_it_left() {
        let mut flight = Flight::new();
        flight.begin_batch();
        for number in 1..=4 {
            flight.push(at(1), number, true, 1000);
        }
        // The first two leave at once, the others later.
        for ms in [1, 1, 5, 9] {
            flight.depart(at(ms), false);
        }
        // Of the four, the third arrives. The acknowledgment of a thousand bytes takes the first.
        let first = flight.acknowledge(at(1), None, 1000).expect("one of them");
        assert_eq!((first.ordinal, first.left, first.place), (1, at(1), 0));
        let found = |number| {
            let found: Option<Acknowledged> = flight.of_number(first, number);
            found.map(|found| (found.ordinal, found.left, found.place))
        };
        assert_eq!(found(2), Some((2, at(1), 1)));
        assert_eq!(found(3), Some((3, at(5), 0)));
        assert_eq!(found(4), Some((4, at(9), 0)));
        // No packet of this batch.
        assert_eq!((found(0), found(5)), (None, None));
        flight.push(at(10), 5, true, 1000);
        assert_eq!(flight.of_number(first, 5).map(|found| found.ordinal), None);
    }

    #[test]
    fn lost_bytes_are_those_of_the_oldest_packets() {
        let mut flight = flight();
        let mut lost = Vec::new();
        flight.lose_bytes(at(1), 2000, &mut lost);
        assert_eq!(lost, [1, 2]);
        // More than was sent until then: the rest stays.
        lost.clear();
        flight.lose_bytes(at(1), 2000, &mut lost);
        assert_eq!((lost.as_slice(), flight.bytes()), (&[3][..], 2000));
        // A part of a packet.
        lost.clear();
        flight.lose_bytes(at(2), 600, &mut lost);
        assert_eq!((lost.len(), flight.count(), flight.bytes()), (0, 2, 1400));
    }

    #[test]
    fn numbers_find_packets_in_any_order() {
        let mut flight = Flight::new();
        // Number 0 of two spaces.
        for (ms, number) in [(1, 0), (1, 1), (2, 0), (3, 1 << 32)] {
            flight.push(at(ms), number, true, 1200);
        }
        let mut number =
            |ms, number| flight.acknowledge(at(ms), Some(number), 1200).map(|a| a.ordinal);
        assert_eq!(number(2, 0), Some(3));
        assert_eq!(flight.lose(0), Some(1));
        assert_eq!(flight.lose(7), None);
        assert_eq!(flight.acknowledge(at(1), Some(1), 1200).map(|a| a.ordinal), Some(2));
        flight.trim();
        assert_eq!((flight.oldest(), flight.count()), (4, 1));
    }

    #[test]
    fn what_the_stack_no_longer_has_is_forgotten() {
        // A lost probe of 1400 bytes, found by its size.
        let mut flight = flight();
        flight.push(at(3), 6, true, 1400);
        assert_eq!(flight.reconcile(4400, 1000), 1);
        assert_eq!((flight.oldest(), flight.bytes()), (1, 4400));
        // An acknowledgment among full packets: the small one.
        flight.push(at(4), 7, true, 40);
        assert_eq!(flight.reconcile(4400, 1000), 1);
        assert_eq!((flight.oldest(), flight.bytes()), (1, 4400));
        // Two packets of discarded keys: the oldest. Then 400 and 500 bytes that fit no packet.
        assert_eq!(flight.reconcile(2400, 100), 2);
        assert_eq!((flight.oldest(), flight.bytes()), (3, 2400));
        assert_eq!(flight.reconcile(2100, 100), 0);
        assert_eq!(flight.reconcile(2000, 100), 1);
        // The stack has more than the list: nothing to forget.
        assert_eq!(flight.reconcile(9000, 1000), 0);
        assert_eq!(flight.reconcile(0, 1000), 2);
        assert_eq!((flight.count(), flight.bytes(), flight.oldest()), (0, 0, flight.next()));
    }

    #[test]
    fn the_list_is_bounded() {
        let mut flight = Flight::new();
        let most = Flight::MOST as u64;
        for n in 0..most + 10 {
            assert_eq!(flight.push(at(n), n, true, 1), n >= most);
        }
        assert_eq!(
            (flight.count(), flight.oldest(), flight.packets.len()),
            (most, 11, Flight::MOST)
        );
    }
}
