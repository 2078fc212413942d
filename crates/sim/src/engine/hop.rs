//! A directed link in the engine: its state machine, the packets on its wire, and its counts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use windward_core::network::{Departure, Link, Notifier, QueuedLink};
use windward_core::units::{Duration, Probability, Time};

use super::component::Component;
use super::schedule::{Alarm, Schedule};
use super::slab::{PacketId, Slab};
use crate::Name;
use crate::outcome::{LinkOutcome, PhaseOutcome};
use crate::scenario::{LinkConfig, LinkKind, Station};

/// A link with the packets on its wire: two cache lines, unless packets wait in it.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Hop {
    pub(super) link: Link<PacketId>,
    pub(super) wire: OnWire,
    pub(super) books: Books,
    /// Events, if packets wait in the link.
    pub(super) queue: Option<Box<QueueEvents>>,
}

/// The events of a link in which packets wait.
#[derive(Debug)]
pub(super) struct QueueEvents {
    alarm: Alarm,
    /// True if the alarm expires whenever the link has something to do; else it expires only when
    /// the work cannot be postponed further.
    is_prompt: bool,
    /// The place of the link on a shared medium.
    pub(super) station: Option<Station>,
}

impl QueueEvents {
    /// Takes an event. Returns true if the link is to be advanced.
    pub(super) fn goes_off(&mut self, schedule: &mut Schedule, link: u32, now: Time) -> bool {
        self.alarm.goes_off(schedule, Component::Queue(link).id(), now)
    }

    /// Sets the alarm so that the link is advanced in time.
    #[inline]
    pub(super) fn follow(&mut self, schedule: &mut Schedule, id: u32, link: &Link<PacketId>) {
        let due = if self.is_prompt { link.next_event() } else { link.latest_advance() };
        if due != Time::NEVER {
            self.alarm.bring_forward(schedule, Component::Queue(id).id(), due);
        }
    }
}

impl Hop {
    /// Makes a link. `holds` asks for a [`QueuedLink`] even where arithmetic would do; `is_prompt`
    /// asks for an event at every instant at which the link acts.
    pub(super) fn new(
        spec: &LinkConfig,
        seed: u64,
        window: Span,
        holds: bool,
        is_prompt: bool,
    ) -> Self {
        let LinkConfig { name, delay, kind, station } = spec;
        let LinkKind { rate, queue, channel, notifier, impairments, .. } = &**kind;
        let notifier = Notifier::new(*notifier, channel);
        let notifies = notifier.is_some();
        let mut link = if holds || station.is_some() {
            Link::Queued(Box::new(QueuedLink::new(rate, *delay, queue, channel, seed, name)))
        } else {
            Link::new(rate, *delay, queue, channel, seed, name)
        };
        if !impairments.is_empty() {
            link.impair(impairments, seed, name);
        }
        link.count_between(window.from, window.until);
        link.set_notifier(notifier);
        // A notifier informs senders at the instant of a departure, and stations contend for a
        // medium from the instant of an arrival.
        let is_prompt = is_prompt || notifies || station.is_some();
        let events = QueueEvents { alarm: Alarm::OFF, is_prompt, station: *station };
        if let (Link::Queued(link), Some(_)) = (&mut link, station) {
            link.share();
        }
        let queue = matches!(link, Link::Queued(_)).then(|| Box::new(events));
        Hop { link, wire: OnWire::default(), books: Books::default(), queue }
    }

    /// Sets the alarm so that the link is advanced in time.
    #[inline]
    pub(super) fn follow(&mut self, link: u32, schedule: &mut Schedule) {
        if let Some(queue) = &mut self.queue {
            queue.follow(schedule, link, &self.link);
        }
    }

    /// The place of the link on a shared medium.
    #[inline]
    pub(super) fn station(&self) -> Option<Station> {
        self.queue.as_ref()?.station
    }

    /// True if there is a notifier at the far end.
    pub(super) fn notifies(&self) -> bool {
        self.link.has_notifier()
    }

    /// True if packets arrive in the order in which they leave.
    pub(super) fn keeps_order(&self) -> bool {
        self.link.keeps_order()
    }

    /// True if packets may be offered before they arrive, as long as all arrive in order.
    pub(super) fn runs_ahead(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| !queue.is_prompt)
    }

    /// Passes a packet of `size` bytes that arrives at `at`, if the link is pure arithmetic and
    /// nothing inspects the packet. Otherwise, the packet is still to be offered to the link.
    #[inline]
    pub(super) fn pass(&mut self, at: Time, size: u32) -> Option<Departure> {
        let Link::Fifo(link) = &mut self.link else { return None };
        link.pass(at, size)
    }

    /// Probability that a packet of `size` bytes survives the link, as the notifier knows it.
    pub(super) fn survival(&mut self, size: u32) -> Option<Probability> {
        self.link.notifier().map(|notifier| notifier.survival(size))
    }

    /// Packets waiting at `now`.
    pub(super) fn waiting(&mut self, now: Time) -> u64 {
        self.link.waiting(now) as u64
    }

    /// Bytes put on the wire until `now`.
    pub(super) fn sent_bytes(&mut self, now: Time) -> u64 {
        self.books.sent_bytes() - self.link.unsent_bytes(now)
    }

    /// Outcome of the link at the end of the run.
    pub(super) fn close(
        self,
        name: Name,
        window: Span,
        phases: Option<Box<PhaseOutcome>>,
        reordered: u64,
    ) -> LinkOutcome {
        let rest = self.books.so_far();
        let Books { passed, passed_bytes, mut waited, partly, .. } = self.books;
        let Partly { outside, on_wire_at_end } = partly.as_deref().copied().unwrap_or_default();
        let busy = rest.busy + (self.link.passing_time(passed_bytes) - outside);
        let mut in_flight = on_wire_at_end + rest.on_wire_at_end;
        // Packets that still wait have not been entered yet.
        for arrived in self.link.arrival_times() {
            waited += window.overlap(arrived, window.until);
            in_flight += 1;
        }
        let length = window.seconds();
        LinkOutcome {
            name,
            utilization: self.link.changing_utilization().unwrap_or(busy.as_secs_f64() / length),
            arrived: passed + rest.arrived,
            dropped: rest.dropped,
            corrupted: rest.corrupted,
            delivered: passed - on_wire_at_end + rest.delivered,
            in_flight,
            reordered,
            marked: self.link.marked(),
            mean_queue_packets: waited.as_secs_f64() / length,
            max_queue_packets: self.link.longest_queue() as u64,
            phases,
        }
    }
}

/// Packets that will reach the far end, in order, unless the next link took them already: a list
/// through the [`Slab`], since a packet is on one wire at a time.
#[derive(Debug)]
pub(super) struct OnWire {
    /// Time of the first arrival.
    at: Time,
    first: PacketId,
    last: PacketId,
}

/// Placeholder for the packet of an empty wire.
const NOBODY: PacketId = PacketId::MAX;

impl Default for OnWire {
    fn default() -> Self {
        OnWire { at: Time::NEVER, first: NOBODY, last: NOBODY }
    }
}

impl OnWire {
    /// Adds a packet that arrives at `at`, after all others. Returns true if it is the first.
    #[inline]
    pub(super) fn push(&mut self, slab: &mut Slab, at: Time, packet: PacketId) -> bool {
        let last = std::mem::replace(&mut self.last, packet);
        if self.first == NOBODY {
            (self.at, self.first) = (at, packet);
            return true;
        }
        slab.set_next(last, (at, packet));
        false
    }

    /// The first packet, if there is one.
    #[inline]
    pub(super) fn first(&self) -> Option<PacketId> {
        (self.first != NOBODY).then_some(self.first)
    }

    /// Time of the first arrival, if there is a packet.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        (self.first != NOBODY).then_some(self.at)
    }

    /// Removes the first packet. Returns it and the time of the next arrival.
    #[inline]
    pub(super) fn pop(&mut self, slab: &Slab) -> (PacketId, Time) {
        let packet = self.first;
        debug_assert_ne!(packet, NOBODY, "an empty wire");
        let only = packet == self.last;
        (self.at, self.first) = if only { (Time::NEVER, NOBODY) } else { slab.next(packet) };
        (packet, self.at)
    }
}

/// Packets on a wire whose packets may overtake each other. Each has an event of its own.
#[derive(Debug, Default)]
pub(super) struct Unordered {
    /// Time of arrival of each packet, and its place in the order of departure.
    packets: BinaryHeap<Reverse<(Time, u64, PacketId)>>,
    left: u64,
    /// One more than the latest place that has arrived: a packet with a lower one is reordered (RFC
    /// 4737 section 3.3).
    expected: u64,
    pub(super) reordered: u64,
}

impl Unordered {
    /// Adds a packet that has left after all others.
    pub(super) fn push(&mut self, at: Time, packet: PacketId) {
        self.packets.push(Reverse((at, self.left, packet)));
        self.left += 1;
    }

    /// Takes the packet that arrives first.
    pub(super) fn pop(&mut self) -> Option<PacketId> {
        let Reverse((_, place, packet)) = self.packets.pop()?;
        if place < self.expected {
            self.reordered += 1;
        } else {
            self.expected = place + 1;
        }
        Some(packet)
    }
}

/// Measured part of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) from: Time,
    pub(super) until: Time,
}

impl Span {
    /// True if an event at `at` counts. The end of the warm-up belongs to the warm-up, except at
    /// time zero.
    #[inline]
    pub(super) fn counts(self, at: Time) -> bool {
        at > self.from || self.from == Time::ZERO
    }

    /// Length in seconds.
    pub(super) fn seconds(self) -> f64 {
        self.until.since(self.from).as_secs_f64()
    }

    /// The part of `start..end` inside.
    #[inline]
    pub(super) fn overlap(self, start: Time, end: Time) -> Duration {
        end.min(self.until).since(start.max(self.from))
    }
}

/// Counts of a link.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Packets that passed by arithmetic alone.
    passed: u64,
    passed_bytes: u64,
    /// Sum of waiting times; divided by the length of the window, the mean queue (Little's law).
    waited: Duration,
    /// Counts of those that lie outside the measured window in part; made with the first of them.
    partly: Option<Box<Partly>>,
    /// Counts of the other packets; made with the first of them.
    rest: Option<Box<Rest>>,
}

/// Counts of packets that lie outside the measured window in part.
#[derive(Debug, Clone, Copy, Default)]
struct Partly {
    /// The part of their time on the wire outside it.
    outside: Duration,
    /// Those on the wire when the run ends.
    on_wire_at_end: u64,
}

/// Counts of the packets that were offered to the link.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rest {
    pub(super) arrived: u64,
    pub(super) dropped: u64,
    pub(super) corrupted: u64,
    delivered: u64,
    on_wire_at_end: u64,
    sent_bytes: u64,
    busy: Duration,
}

impl Books {
    /// Enters a packet that [passed](Hop::pass). Returns whether it is still to be seen at the far
    /// end.
    #[inline(always)]
    pub(super) fn pass(
        &mut self,
        window: Span,
        arrived: Time,
        size: u32,
        departure: &Departure,
    ) -> bool {
        self.passed += 1;
        self.passed_bytes += u64::from(size);
        if arrived < window.from || departure.arrival > window.until {
            return self.pass_partly(window, arrived, departure);
        }
        if departure.start > arrived {
            self.waited += departure.start.since(arrived);
        }
        true
    }

    /// [`Books::pass`] of a packet that may lie outside the window in part.
    #[inline(never)]
    fn pass_partly(&mut self, window: Span, arrived: Time, departure: &Departure) -> bool {
        let Departure { start, end, arrival, .. } = *departure;
        self.waited += window.overlap(arrived, start);
        let seen = arrival <= window.until;
        let partly = self.partly.get_or_insert_default();
        partly.outside += end.since(start) - window.overlap(start, end);
        partly.on_wire_at_end += u64::from(!seen);
        seen
    }

    /// Enters a packet that came at `arrived` and is dropped at `now`.
    pub(super) fn drop(&mut self, window: Span, arrived: Time, now: Time) {
        self.rest().dropped += 1;
        self.waited += window.overlap(arrived, now);
    }

    /// Enters a packet that came at `arrived` and leaves as `departure` says. Returns whether
    /// it is still to be seen at the far end.
    pub(super) fn enter(
        &mut self,
        window: Span,
        arrived: Time,
        size: u32,
        departure: &Departure,
    ) -> bool {
        let Departure { start, end, arrival, destroyed } = *departure;
        self.waited += window.overlap(arrived, start);
        let rest = self.rest();
        rest.sent_bytes += u64::from(size);
        rest.busy += window.overlap(start, end);
        if arrival > window.until {
            rest.on_wire_at_end += 1;
            return false;
        }
        *(if destroyed { &mut rest.corrupted } else { &mut rest.delivered }) += 1;
        !destroyed
    }

    /// Counts of the packets that were offered to the link.
    #[inline]
    pub(super) fn rest(&mut self) -> &mut Rest {
        self.rest.get_or_insert_default()
    }

    /// Copy of these counts.
    pub(super) fn so_far(&self) -> Rest {
        self.rest.as_deref().copied().unwrap_or_default()
    }

    /// Packets that have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.passed + self.so_far().arrived
    }

    /// Bytes put on the wire, including those that still wait for their turn there.
    fn sent_bytes(&self) -> u64 {
        self.passed_bytes + self.so_far().sent_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_after_a_later_one_are_reordered() {
        // Packets 0 to 5 arrive as 0, 2, 1, 5, 3, 4: those after 2 and 5 are reordered.
        let reordered = |times: &[u64]| {
            let mut wire = Unordered::default();
            for (packet, time) in (0..).zip(times) {
                wire.push(Time::from_ps(*time), packet);
            }
            let order: Vec<_> = std::iter::from_fn(|| wire.pop()).collect();
            (order, wire.reordered)
        };
        assert_eq!(reordered(&[0, 20, 10, 40, 50, 30]), (vec![0, 2, 1, 5, 3, 4], 3));
        // 1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11: the three that come after 10.
        let times = [1, 2, 3, 8, 9, 10, 4, 5, 6, 7, 11];
        assert_eq!(reordered(&times).1, 3);
        // Packets that arrive at one instant are in order.
        assert_eq!(reordered(&[5, 5, 5]), (vec![0, 1, 2], 0));
    }

    #[test]
    fn a_link_is_small() {
        assert_eq!(size_of::<Hop>(), 128);
    }
}
