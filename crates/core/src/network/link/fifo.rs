//! The link that is arithmetic: what leaves when is known when it comes.

use std::collections::VecDeque;

use super::wire::Wire;
use super::{Departure, fits, passes};
use crate::network::aqm::{Aqm, Backlog, Place, QueueManagement};
use crate::network::rate_trace::LinkRate;
use crate::network::router::{Feedback, Router};
use crate::network::{ChannelSpec, QueueLimit, QueueSpec};
use crate::packet::{Label, Packet};
use crate::units::{Duration, Time};

/// A link whose departures follow from its arrivals: its queue management and its router, if any,
/// act when packets come and never after.
#[derive(Debug)]
pub struct FifoLink {
    pub(super) wire: Wire,
    limit: QueueLimit,
    aqm: Aqm,
    router: Router,
    /// Is there neither?
    is_plain: bool,
    /// Start of transmission and size of what waits, in order.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
}

impl FifoLink {
    /// Is such a link exact for this queue? It is unless something acts on departures, or on
    /// classes.
    pub fn will_do(queue: &QueueSpec) -> bool {
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
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        assert!(Self::will_do(queue), "this queue needs a QueuedLink");
        let wire = rate.mean();
        let place = Place { wire, share: wire, limit: queue.limit, seed, name };
        let plain = QueueSpec { limit: queue.limit, ..QueueSpec::default() };
        FifoLink {
            is_plain: *queue == plain,
            wire: Wire::new(rate, delay, channel, seed, name),
            limit: queue.limit,
            aqm: queue.aqm.make(&place),
            router: queue.router.make(&place),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// A packet reaches the queue at `now`, which must not be earlier than at the last call.
    /// Returns its way, or `None` if it is dropped.
    #[inline]
    pub fn offer(&mut self, now: Time, label: Label, packet: &mut Packet) -> Option<Departure> {
        let busy_until = self.wire.busy_until;
        if busy_until <= now {
            // Whatever waited has started by now.
            if !self.waiting.is_empty() {
                self.waiting.clear();
                self.waiting_bytes = 0;
            }
        } else {
            self.expire(now);
        }
        if !self.is_plain && !self.admits(now, packet) {
            return None;
        }
        if busy_until <= now {
            return Some(self.wire.send(now, now, label, packet));
        }
        if !fits(self.limit, self.waiting.len(), self.waiting_bytes, packet.size) {
            return None;
        }
        if !self.is_plain {
            let queue = self.backlog(now);
            self.wire.marked += u64::from(self.router.on_enqueue(now, &queue, packet));
        }
        self.waiting.push_back((busy_until, packet.size));
        self.waiting_bytes += u64::from(packet.size);
        self.wire.longest_queue = self.wire.longest_queue.max(self.waiting.len());
        Some(self.wire.send(busy_until, now, label, packet))
    }

    /// Does the queue management let the packet in? Kept apart, for most links have none.
    #[inline(never)]
    fn admits(&mut self, now: Time, packet: &mut Packet) -> bool {
        let queue = self.backlog(now);
        let verdict = self.aqm.on_enqueue(now, &queue, packet);
        passes(verdict, packet, &mut self.wire)
    }

    fn backlog(&self, now: Time) -> Backlog<'static> {
        let busy_until = self.wire.busy_until;
        let idle_since = (busy_until <= now).then_some(busy_until);
        Backlog {
            packets: self.waiting.len(),
            bytes: self.waiting_bytes,
            limit: self.limit,
            idle_since,
            empty_since: idle_since,
            lanes: &[],
        }
    }

    /// Packets waiting at `now`, the one in transmission not counted.
    pub fn waiting(&mut self, now: Time) -> usize {
        self.expire(now);
        self.waiting.len()
    }

    #[inline]
    fn expire(&mut self, now: Time) {
        while let Some(&(start, size)) = self.waiting.front()
            && start <= now
        {
            self.waiting.pop_front();
            self.waiting_bytes -= u64::from(size);
        }
    }
}
