//! A queue, a wire and a channel as arithmetic over logical time: nothing waits in here.
//!
//! [`FifoLink`] knows at arrival when a packet will leave, since nothing that happens later can
//! change it: one call a packet, no event. [`QueuedLink`] holds packets until they leave, for
//! routers whose feedback depends on the moment of departure. Both agree on every time where
//! both apply.

use std::collections::VecDeque;

use super::aqm::{AqmSpec, Red, RedVerdict};
use super::channel::Channel;
use super::rate_trace::{LinkRate, TraceWire};
use super::router::{Router, RouterSpec};
use super::{ChannelSpec, QueueLimit, QueueSpec};
use crate::packet::{Flags, Packet};
use crate::rng::Stream;
use crate::units::{Duration, Rate, Time};

/// What became of a packet offered to a [`FifoLink`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// The queue refused it.
    Dropped,
    /// It will leave.
    Accepted(Departure),
}

/// A packet's way across a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// Its first bit is put on the wire.
    pub start: Time,
    /// Its last bit is.
    pub end: Time,
    /// Its last bit reaches the far end.
    pub arrival: Time,
    /// The channel destroys it on the way.
    pub destroyed: bool,
}

/// The wire and its channel: when a packet that starts now arrives, and whether intact.
#[derive(Debug, Clone)]
struct Wire {
    /// The rate, or the mean of the trace.
    rate: Rate,
    /// Boxed, so that a wire without one stays small.
    trace: Option<Box<TraceWire>>,
    delay: Duration,
    channel: Channel,
    busy_until: Time,
    /// The sizes seen last with their transmission times: data and acknowledgments.
    cache: [(u32, Duration); 2],
    /// Packets marked by RED or by a router, and the longest queue an arrival found or made.
    marked: u64,
    longest_queue: usize,
}

impl Wire {
    fn new(rate: &LinkRate, delay: Duration, channel: &ChannelSpec, seed: u64, name: &str) -> Self {
        let trace = match rate {
            LinkRate::Constant(_) => None,
            LinkRate::Trace(trace) => Some(Box::new(TraceWire::new(trace.clone()))),
        };
        Wire {
            rate: rate.mean(),
            trace,
            delay,
            channel: Channel::new(channel, Stream::new(seed, "channel", name)),
            busy_until: Time::ZERO,
            cache: [(0, Duration::ZERO); 2],
            marked: 0,
            longest_queue: 0,
        }
    }

    #[inline]
    fn transmission_time(&mut self, size: u32) -> Duration {
        if self.cache[0].0 == size {
            return self.cache[0].1;
        }
        self.cache.swap(0, 1);
        if self.cache[0].0 != size {
            self.cache[0] = (size, self.rate.transmission_time(size));
        }
        self.cache[0].1
    }

    /// Sends a packet that came at `arrived` and can start at `start`.
    #[inline]
    fn send(&mut self, start: Time, arrived: Time, packet: &Packet) -> Departure {
        let end = match &mut self.trace {
            None => start + self.transmission_time(packet.size),
            Some(trace) => trace.send(start, arrived, packet.size),
        };
        self.busy_until = end;
        let destroyed = !self.channel.is_clean() && self.channel.destroys(end, packet);
        Departure { start, end, arrival: end + self.delay, destroyed }
    }
}

impl Wire {
    fn count_between(&mut self, from: Time, until: Time) {
        if let Some(trace) = &mut self.trace {
            trace.count_between(from, until);
        }
    }

    fn trace_utilization(&self) -> Option<f64> {
        self.trace.as_ref().map(|trace| trace.utilization())
    }
}

/// Does RED let the packet in? Marks it where RED says so.
fn red_admits(
    red: &mut Red,
    waiting: usize,
    wire: &mut Wire,
    now: Time,
    packet: &mut Packet,
) -> bool {
    let idle = (wire.busy_until <= now && waiting == 0).then(|| {
        let typical = wire.transmission_time(red.mean_packet_size());
        Red::packets_in(now.since(wire.busy_until), typical)
    });
    match red.judge(waiting, idle, packet.flags.contains(Flags::ECN_CAPABLE)) {
        RedVerdict::Pass => true,
        RedVerdict::Mark => {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
            wire.marked += 1;
            true
        }
        RedVerdict::Drop => false,
    }
}

fn red_of(aqm: &AqmSpec, seed: u64, name: &str) -> Option<Red> {
    match aqm {
        AqmSpec::DropTail => None,
        AqmSpec::Red(spec) => Some(Red::new(spec.clone(), Stream::new(seed, "red", name))),
    }
}

fn fits(limit: QueueLimit, packets: usize, bytes: u64, size: u32) -> bool {
    match limit {
        QueueLimit::Packets(limit) => packets < limit as usize,
        QueueLimit::Bytes(limit) => bytes + u64::from(size) <= limit,
    }
}

/// A link whose departures follow from its arrivals: DropTail or RED, no router feedback.
#[derive(Debug, Clone)]
pub struct FifoLink {
    wire: Wire,
    limit: QueueLimit,
    red: Option<Red>,
    /// Start of transmission and size of what waits, in order.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
}

impl FifoLink {
    /// An idle link; `name` names its random streams.
    ///
    /// # Panics
    /// If `queue` has a router: that takes a [`QueuedLink`].
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        assert_eq!(queue.router, RouterSpec::None, "router feedback needs a QueuedLink");
        FifoLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            limit: queue.limit,
            red: red_of(&queue.aqm, seed, name),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// A packet reaches the queue at `now`, which must not be earlier than at the last call.
    #[inline]
    pub fn offer(&mut self, now: Time, packet: &mut Packet) -> Offer {
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
        if let Some(red) = &mut self.red
            && !red_admits(red, self.waiting.len(), &mut self.wire, now, packet)
        {
            return Offer::Dropped;
        }
        if busy_until <= now {
            return Offer::Accepted(self.wire.send(now, now, packet));
        }
        if !fits(self.limit, self.waiting.len(), self.waiting_bytes, packet.size) {
            return Offer::Dropped;
        }
        self.waiting.push_back((busy_until, packet.size));
        self.waiting_bytes += u64::from(packet.size);
        self.wire.longest_queue = self.wire.longest_queue.max(self.waiting.len());
        Offer::Accepted(self.wire.send(busy_until, now, packet))
    }

    /// Packets marked so far.
    pub fn marked(&self) -> u64 {
        self.wire.marked
    }

    /// The longest queue so far, packets.
    pub fn longest_queue(&self) -> usize {
        self.wire.longest_queue
    }

    /// Makes [`FifoLink::trace_utilization`] cover the time after `from` and up to `until`.
    pub fn count_between(&mut self, from: Time, until: Time) {
        self.wire.count_between(from, until);
    }

    /// Bytes carried over the bytes that the rate trace offered; `None` if the rate is constant.
    pub fn trace_utilization(&self) -> Option<f64> {
        self.wire.trace_utilization()
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

/// A link that holds packets until they leave, for routers that write at that moment. `T`
/// stands for a packet outside.
#[derive(Debug, Clone)]
pub struct QueuedLink<T> {
    wire: Wire,
    limit: QueueLimit,
    red: Option<Red>,
    router: Option<Router>,
    waiting: VecDeque<(T, u32, Time)>,
    waiting_bytes: u64,
    /// When the packet taken last came.
    taken: Time,
}

impl<T> QueuedLink<T> {
    /// An idle link; `name` names its random streams.
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        QueuedLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            limit: queue.limit,
            red: red_of(&queue.aqm, seed, name),
            router: Router::new(&queue.router, rate.mean()),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            taken: Time::ZERO,
        }
    }

    /// A packet reaches the queue. Returns it if the queue refuses it.
    ///
    /// # Errors
    /// The packet that was dropped.
    pub fn offer(&mut self, now: Time, packet: &mut Packet, handle: T) -> Result<(), T> {
        if let Some(Router::Xcp(xcp)) = &mut self.router {
            xcp.on_arrival(now, packet);
        }
        let waiting = self.waiting.len();
        let red_admits = self
            .red
            .as_mut()
            .is_none_or(|red| red_admits(red, waiting, &mut self.wire, now, packet));
        let idle = waiting == 0 && self.wire.busy_until <= now;
        if !red_admits || !(idle || fits(self.limit, waiting, self.waiting_bytes, packet.size)) {
            if let Some(Router::Xtcp(counter)) = &mut self.router {
                counter.on_drop(packet, waiting);
            }
            return Err(handle);
        }
        self.waiting.push_back((handle, packet.size, now));
        self.waiting_bytes += u64::from(packet.size);
        if !idle {
            self.wire.longest_queue = self.wire.longest_queue.max(self.waiting.len());
        }
        Ok(())
    }

    /// Packets marked by RED or flagged by the router so far.
    pub fn marked(&self) -> u64 {
        self.wire.marked
    }

    /// The longest queue so far, packets.
    pub fn longest_queue(&self) -> usize {
        self.wire.longest_queue
    }

    /// Makes [`QueuedLink::trace_utilization`] cover the time after `from` and up to `until`.
    pub fn count_between(&mut self, from: Time, until: Time) {
        self.wire.count_between(from, until);
    }

    /// Bytes carried over the bytes that the rate trace offered; `None` if the rate is constant.
    pub fn trace_utilization(&self) -> Option<f64> {
        self.wire.trace_utilization()
    }

    /// When the wire can take the next waiting packet, if one waits.
    pub fn next_start(&self) -> Option<Time> {
        (!self.waiting.is_empty()).then_some(self.wire.busy_until)
    }

    /// Takes the next packet off the queue, with the time it came; call
    /// [`QueuedLink::depart`] with it at once.
    pub fn take_next(&mut self) -> Option<(T, Time)> {
        let (handle, _, arrived) = self.waiting.pop_front()?;
        self.taken = arrived;
        Some((handle, arrived))
    }

    /// Puts the packet just taken on the wire.
    pub fn depart(&mut self, now: Time, packet: &mut Packet) -> Departure {
        match &mut self.router {
            Some(Router::Xcp(xcp)) => xcp.on_departure(now, packet, self.waiting_bytes),
            Some(Router::Xtcp(counter)) => {
                self.wire.marked += u64::from(counter.on_departure(packet));
            }
            None => {}
        }
        self.waiting_bytes -= u64::from(packet.size);
        self.wire.send(now, self.taken, packet)
    }

    /// When [`QueuedLink::on_timer`] must be called next.
    pub fn next_timer(&self) -> Time {
        match &self.router {
            Some(Router::Xcp(xcp)) => xcp.next_timer(),
            _ => Time::NEVER,
        }
    }

    /// Lets the router's intervals end.
    pub fn on_timer(&mut self, now: Time) {
        if let Some(Router::Xcp(xcp)) = &mut self.router {
            xcp.on_timer(now, self.waiting_bytes);
        }
    }

    /// Packets waiting, the one in transmission not counted.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When each of the waiting packets came.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        self.waiting.iter().map(|(_, _, arrived)| *arrived)
    }
}
