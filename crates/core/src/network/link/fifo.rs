//! The link as arithmetic: the departure of a packet is known when it arrives.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::wire::Wire;
use super::{Departure, fits, passes};
use crate::network::aqm::{Aqm, AqmState, Backlog, QueueSetup};
use crate::network::notifier::Notifier;
use crate::network::rate_trace::LinkRate;
use crate::network::router::{Router, RouterState};
use crate::network::{ChannelConfig, Impairments, QueueConfig, QueueLimit};
use crate::packet::{Label, Packet};
use crate::units::{Duration, Rate, Time};

/// A link whose departures follow from its arrivals: its AQM and its router, if any, act only when
/// packets arrive.
#[derive(Debug)]
pub struct FifoLink {
    pub(super) wire: Wire,
    limit: Limit,
    waiting_packets: u32,
    /// The longest queue that an arrival found or made, packets.
    longest_queue: u32,
    /// Created when the first packet waits: on most links of a large topology no packet ever does.
    waiting: Option<Box<Waiting>>,
    /// `None` without AQM and router.
    managed: Option<Box<Managed>>,
}

/// A [`QueueLimit`] in a word, never zero so that an `Option` of it takes no more.
#[derive(Debug, Clone, Copy)]
struct Limit(NonZeroU64);

impl Limit {
    const BYTES: NonZeroU64 = NonZeroU64::new(1 << 63).unwrap();
    const PACKETS: NonZeroU64 = NonZeroU64::new(1 << 32).unwrap();

    fn new(limit: QueueLimit) -> Self {
        Limit(match limit {
            QueueLimit::Packets(packets) => Self::PACKETS | u64::from(packets),
            // Half of the range of the integer is equivalent to no limit.
            QueueLimit::Bytes(bytes) => Self::BYTES | bytes.min(Self::BYTES.get() - 1),
        })
    }

    #[inline]
    fn get(self) -> QueueLimit {
        match self.0.get().checked_sub(Self::BYTES.get()) {
            Some(bytes) => QueueLimit::Bytes(bytes),
            None => QueueLimit::Packets(self.0.get() as u32),
        }
    }
}

/// The capacity, in packets, that is kept when no packet waits any longer.
const ROOM_KEPT: usize = 4;

/// The waiting packets.
#[derive(Debug, Default)]
struct Waiting {
    bytes: u64,
    /// Start of transmission and size of each, in order.
    starts: VecDeque<(Time, u32)>,
}

/// The AQM and the router.
#[derive(Debug)]
struct Managed {
    aqm: AqmState,
    router: RouterState,
    /// Packets marked so far.
    marked: u64,
    /// The rate that they were told.
    told: Rate,
}

impl Managed {
    /// Informs them of a rate that has changed by a schedule.
    fn hear_of(&mut self, now: Time, rate: Rate) {
        if self.told != rate {
            self.told = rate;
            self.aqm.on_rate(now, rate, rate);
            self.router.on_rate(now, rate);
        }
    }
}

impl FifoLink {
    /// True if such a link is exact for this queue: no part of it acts on departures, and it has no
    /// classes.
    pub fn will_do(queue: &QueueConfig) -> bool {
        let waits = queue.aqm.acts_on_departure() || queue.router.acts_on_departure();
        !waits && queue.classes.is_empty()
    }

    /// An idle link; `name` names its random streams.
    ///
    /// # Panics
    /// If it [will not do](FifoLink::will_do).
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueConfig,
        channel: &ChannelConfig,
        seed: u64,
        name: &str,
    ) -> Self {
        assert!(Self::will_do(queue), "this queue needs a QueuedLink");
        let told = rate.told();
        let setup = QueueSetup { wire: told, share: told, limit: queue.limit, seed, name };
        let plain = QueueConfig { limit: queue.limit, ..QueueConfig::default() };
        let managed = (*queue != plain).then(|| {
            let (aqm, router) = (queue.aqm.make(&setup), queue.router.make(&setup));
            Box::new(Managed { aqm, router, marked: 0, told })
        });
        let mut link = FifoLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            limit: Limit::new(queue.limit),
            waiting_packets: 0,
            longest_queue: 0,
            waiting: None,
            managed,
        };
        link.set_notifier(None);
        link
    }

    pub(super) fn impair(&mut self, impairments: &Impairments, seed: u64, name: &str) {
        self.wire.impair(impairments, seed, name);
        self.wire.find_plain_byte_time(self.managed.is_some());
    }

    pub(super) fn set_notifier(&mut self, notifier: Option<Notifier>) {
        self.wire.set_notifier(notifier);
        self.wire.find_plain_byte_time(self.managed.is_some());
    }

    /// A packet of `size` bytes reaches the queue at `now`, which must not be earlier than at the
    /// last call. Returns its way if queue and rate alone decide it and it is not dropped; else the
    /// packet is still to be [offered](FifoLink::offer).
    #[inline(always)]
    pub fn pass(&mut self, now: Time, size: u32) -> Option<Departure> {
        let byte_time = u64::from(self.wire.plain_byte_time);
        if byte_time == 0 {
            return None;
        }
        let start = self.wire.busy_until.max(now);
        if start == now {
            // All packets that waited have started by now.
            if self.waiting_packets > 0 {
                self.clear();
            }
        } else if !self.join(now, start, size) {
            return None;
        }
        let end = start + Duration::from_ps(byte_time * u64::from(size));
        self.wire.busy_until = end;
        Some(Departure { start, end, arrival: end + self.wire.delay, destroyed: false })
    }

    /// The time that the wire takes for packets of that many bytes in all that have
    /// [passed](FifoLink::pass).
    pub fn passing_time(&self, bytes: u64) -> Duration {
        Duration::from_ps(self.wire.plain_byte_time.into()).saturating_mul(bytes)
    }

    /// A packet of `size` bytes that will start at `start` joins the packets that wait at `now`, if
    /// it fits.
    #[inline(always)]
    fn join(&mut self, now: Time, start: Time, size: u32) -> bool {
        self.expire(now);
        let waiting = self.waiting.get_or_insert_default();
        if !fits(self.limit.get(), self.waiting_packets as usize, waiting.bytes, size) {
            return false;
        }
        waiting.starts.push_back((start, size));
        waiting.bytes += u64::from(size);
        self.waiting_packets += 1;
        self.longest_queue = self.longest_queue.max(self.waiting_packets);
        true
    }

    /// A packet reaches the queue at `now`, which must not be earlier than at the last call.
    /// Returns its way, or `None` if it is dropped.
    #[inline]
    pub fn offer(&mut self, now: Time, label: Label, packet: &mut Packet) -> Option<Departure> {
        self.pass(now, packet.size).or_else(|| self.examine(now, label, packet))
    }

    /// As [`FifoLink::offer`], for a packet that does not [pass](FifoLink::pass).
    fn examine(&mut self, now: Time, label: Label, packet: &mut Packet) -> Option<Departure> {
        self.expire(now);
        self.wire.look(now);
        let scheduled = self.wire.scheduled_rate(now);
        let queue = self.backlog(now);
        let waits = queue.idle_since.is_none();
        if let Some(managed) = &mut self.managed {
            if let Some(rate) = scheduled {
                managed.hear_of(now, rate);
            }
            let verdict = managed.aqm.on_enqueue(now, &queue, packet);
            if !passes(verdict, packet, &mut managed.marked) {
                return None;
            }
        }
        let start = self.wire.busy_until.max(now);
        if waits {
            if !fits(queue.limit, queue.packets, queue.bytes, packet.size) {
                return None;
            }
            if let Some(managed) = &mut self.managed {
                let marked = managed.router.on_enqueue(now, &queue, packet);
                managed.marked += u64::from(marked);
            }
            self.join(now, start, packet.size);
        }
        Some(self.wire.send(start, now, label, packet))
    }

    fn backlog(&self, now: Time) -> Backlog<'static> {
        let busy_until = self.wire.busy_until;
        let idle_since = (busy_until <= now).then_some(busy_until);
        Backlog {
            packets: self.waiting_packets as usize,
            bytes: self.waiting.as_ref().map_or(0, |waiting| waiting.bytes),
            limit: self.limit.get(),
            idle_since,
            empty_since: idle_since,
            lanes: &[],
        }
    }

    /// Packets waiting at `now`, the one in transmission not counted.
    pub fn waiting(&mut self, now: Time) -> usize {
        self.expire(now);
        self.waiting_packets as usize
    }

    /// Bytes of packets with a departure that are not on the wire yet at `now`.
    pub(super) fn unsent_bytes(&mut self, now: Time) -> u64 {
        self.wire.unsent_bytes(now).unwrap_or_else(|| {
            self.expire(now);
            self.waiting.as_ref().map_or(0, |waiting| waiting.bytes)
        })
    }

    /// Packets marked so far.
    pub(super) fn marked(&self) -> u64 {
        self.managed.as_ref().map_or(0, |managed| managed.marked)
    }

    /// The longest queue so far, packets.
    pub(super) fn longest_queue(&self) -> usize {
        self.longest_queue as usize
    }

    /// Forgets the packets that have started.
    fn clear(&mut self) {
        self.waiting_packets = 0;
        if let Some(waiting) = &mut self.waiting {
            if waiting.starts.capacity() > ROOM_KEPT {
                // Bursts are rare on most links of a large topology, and bursts of all at once too.
                self.waiting = None;
            } else {
                waiting.starts.clear();
                waiting.bytes = 0;
            }
        }
    }

    #[inline]
    fn expire(&mut self, now: Time) {
        let Some(waiting) = &mut self.waiting else { return };
        while let Some(&(start, size)) = waiting.starts.front()
            && start <= now
        {
            waiting.starts.pop_front();
            waiting.bytes -= u64::from(size);
            self.waiting_packets -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_fit_into_a_word() {
        for limit in [0, 1, u32::MAX].map(QueueLimit::Packets) {
            assert_eq!(Limit::new(limit).get(), limit);
        }
        for limit in [0, 1, 1 << 62].map(QueueLimit::Bytes) {
            assert_eq!(Limit::new(limit).get(), limit);
        }
        let endless = Limit::new(QueueLimit::Bytes(u64::MAX)).get();
        assert_eq!(endless, QueueLimit::Bytes((1 << 63) - 1));
    }
}
