//! A queue, a wire and a channel as arithmetic over logical time: nothing waits in here.
//!
//! [`FifoLink`] knows at arrival when a packet will leave, since nothing that happens later can
//! change it: one call a packet, no event. [`QueuedLink`] holds packets until they leave, for
//! routers whose feedback depends on the moment of departure and for classes. Both agree on every time where
//! both apply.
//!
//! A [`QueuedLink`] may keep a queue for each class of protocols, so that no class can crowd
//! another out (estcp2010, "Implementation of ESTCP"), and serves them by deficit round robin
//! (Shreedhar and Varghese, SIGCOMM 1995): a class may send, each time its turn comes, as many
//! bytes as its quantum and what it left unused while it had something to send.

use std::collections::VecDeque;

use super::aqm::{AqmSpec, Red, RedVerdict};
use super::channel::Channel;
use super::notifier::Notifier;
use super::rate_trace::{LinkRate, TraceWire};
use super::router::{EcnThreshold, Router, RouterKind, RouterSpec, TrafficController};
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
    notifier: Option<Box<Notifier>>,
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
            notifier: None,
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
    fn send(&mut self, start: Time, arrived: Time, packet: &mut Packet) -> Departure {
        let end = match &mut self.trace {
            None => start + self.transmission_time(packet.size),
            Some(trace) => trace.send(start, arrived, packet.size),
        };
        self.busy_until = end;
        let destroyed = !self.channel.is_clean() && self.channel.destroys(end, packet);
        if let Some(notifier) = &mut self.notifier {
            // The far end's business. Packets get there in this order, so that nothing else can
            // come between.
            notifier.on_packet(packet, destroyed);
        }
        Departure { start, end, arrival: end + self.delay, destroyed }
    }

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

/// A link whose departures follow from its arrivals: DropTail, RED or marks above a threshold, no
/// other router feedback.
#[derive(Debug, Clone)]
pub struct FifoLink {
    wire: Wire,
    limit: QueueLimit,
    red: Option<Red>,
    threshold: Option<EcnThreshold>,
    /// Start of transmission and size of what waits, in order.
    waiting: VecDeque<(Time, u32)>,
    waiting_bytes: u64,
}

impl FifoLink {
    /// An idle link; `name` names its random streams.
    ///
    /// # Panics
    /// If `queue` has a router that acts on departures, or classes: that takes a [`QueuedLink`].
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueSpec,
        channel: &ChannelSpec,
        seed: u64,
        name: &str,
    ) -> Self {
        assert!(!queue.router.acts_on_departure(), "router feedback needs a QueuedLink");
        assert!(queue.classes.is_empty(), "classes need a QueuedLink");
        let threshold = match queue.router {
            RouterSpec::EcnThreshold(threshold) => Some(threshold),
            _ => None,
        };
        FifoLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            limit: queue.limit,
            red: red_of(&queue.aqm, seed, name),
            threshold,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
        }
    }

    /// Puts a notifier at the far end.
    pub fn set_notifier(&mut self, notifier: Option<Notifier>) {
        self.wire.notifier = notifier.map(Box::new);
    }

    /// The notifier at the far end, once the latest packet offered has got there.
    pub fn notifier(&mut self) -> Option<&mut Notifier> {
        self.wire.notifier.as_deref_mut()
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
        if let Some(threshold) = self.threshold {
            self.wire.marked += u64::from(threshold.on_arrival(self.waiting.len(), packet));
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

/// A link that holds packets until they leave, for routers that write at that moment, and for
/// classes. `T` stands for a packet outside.
#[derive(Debug, Clone)]
pub struct QueuedLink<T> {
    wire: Wire,
    /// One queue, or one a class.
    queues: Vec<Queue<T>>,
    /// The queue of each [`RouterKind`].
    queue_of: [u8; RouterKind::ALL.len()],
    /// Packets in all queues.
    waiting: usize,
    /// Deficit round robin: whose turn it is, and whether it has had its quantum.
    turn: usize,
    credited: bool,
    /// When the packet taken last came.
    taken: Time,
}

/// The queue of a class of protocols on a link, and its share of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSpec {
    /// The protocols that ask for this router; datagrams and plain TCP ask for none. What no class
    /// is made for joins the first.
    pub kind: RouterKind,
    /// Its share of the wire while all classes have something to send, beside those of the others;
    /// positive.
    pub weight: f64,
    /// Its limit, queue management and router; without classes of its own.
    pub queue: QueueSpec,
}

/// Deficit round robin: bytes that the class of least weight may send a turn. One packet of usual
/// size suffices for constant work a packet (Shreedhar and Varghese 1995, section 3).
const LEAST_QUANTUM: f64 = 1500.0;

/// One queue of a link.
#[derive(Debug, Clone)]
struct Queue<T> {
    limit: QueueLimit,
    red: Option<Red>,
    router: Option<Router>,
    waiting: VecDeque<(T, u32, Time)>,
    waiting_bytes: u64,
    /// Deficit round robin: bytes a turn, and bytes left.
    quantum: u64,
    deficit: u64,
}

impl<T> Queue<T> {
    fn new(spec: &QueueSpec, rate: Rate, quantum: u64, seed: u64, name: &str) -> Self {
        Queue {
            limit: spec.limit,
            red: red_of(&spec.aqm, seed, name),
            router: Router::new(&spec.router, rate, spec.limit, seed, name),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            quantum,
            deficit: 0,
        }
    }

    /// The queue as a share of its limit.
    fn filled(&self) -> f64 {
        match self.limit {
            QueueLimit::Packets(limit) => self.waiting.len() as f64 / f64::from(limit),
            QueueLimit::Bytes(limit) => self.waiting_bytes as f64 / limit as f64,
        }
    }
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
        let mut queue_of = [0; RouterKind::ALL.len()];
        let queues = if queue.classes.is_empty() {
            vec![Queue::new(queue, rate.mean(), 0, seed, name)]
        } else {
            let weights = || queue.classes.iter().map(|class| class.weight);
            let (sum, least) = (weights().sum::<f64>(), weights().fold(f64::INFINITY, f64::min));
            let class = |(index, class): (u8, &ClassSpec)| {
                queue_of[class.kind as usize] = index;
                // What a router with a capacity may count on.
                let share = rate.mean().as_bps() as f64 * class.weight / sum;
                let share = Rate::from_bps(share as u64).unwrap_or(rate.mean());
                let quantum = (LEAST_QUANTUM * class.weight / least) as u64;
                let name = format!("{name}/{}", class.kind.name());
                Queue::new(&class.queue, share, quantum, seed, &name)
            };
            (0..).zip(&queue.classes).map(class).collect()
        };
        QueuedLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            queues,
            queue_of,
            waiting: 0,
            turn: 0,
            credited: false,
            taken: Time::ZERO,
        }
    }

    fn queue_of(&self, packet: &Packet) -> usize {
        // A class that is no router kind cannot be.
        usize::from(self.queue_of.get(usize::from(packet.class)).copied().unwrap_or(0))
    }

    /// Puts a notifier at the far end.
    pub fn set_notifier(&mut self, notifier: Option<Notifier>) {
        self.wire.notifier = notifier.map(Box::new);
    }

    /// The notifier at the far end, once the latest packet that departed has got there.
    pub fn notifier(&mut self) -> Option<&mut Notifier> {
        self.wire.notifier.as_deref_mut()
    }

    /// A packet reaches the queue. Returns it if the queue refuses it.
    ///
    /// # Errors
    /// The packet that was dropped.
    pub fn offer(&mut self, now: Time, packet: &mut Packet, handle: T) -> Result<(), T> {
        let idle = self.waiting == 0 && self.wire.busy_until <= now;
        let index = self.queue_of(packet);
        let queue = &mut self.queues[index];
        match &mut queue.router {
            Some(Router::Xcp(xcp)) => xcp.on_arrival(now, packet),
            Some(Router::Warning(_)) => {
                let filled = queue.filled();
                if let Some(Router::Warning(warning)) = &mut queue.router {
                    self.wire.marked += u64::from(warning.on_arrival(packet, filled));
                }
            }
            Some(Router::Xtcp(_) | Router::Estcp(_) | Router::EcnThreshold(_)) | None => {}
        }
        let waiting = queue.waiting.len();
        let red_admits = queue
            .red
            .as_mut()
            .is_none_or(|red| red_admits(red, waiting, &mut self.wire, now, packet));
        if !red_admits || !(idle || fits(queue.limit, waiting, queue.waiting_bytes, packet.size)) {
            match &mut queue.router {
                Some(Router::Xtcp(counter)) => counter.on_drop(packet, waiting),
                Some(Router::Estcp(estcp)) => estcp.on_drop(now, waiting, queue.waiting_bytes),
                Some(Router::Xcp(_) | Router::Warning(_) | Router::EcnThreshold(_)) | None => {}
            }
            return Err(handle);
        }
        if let Some(Router::EcnThreshold(threshold)) = &queue.router {
            self.wire.marked += u64::from(threshold.on_arrival(waiting, packet));
        }
        queue.waiting.push_back((handle, packet.size, now));
        queue.waiting_bytes += u64::from(packet.size);
        self.waiting += 1;
        if !idle {
            if let Some(Router::Estcp(estcp)) = &mut queue.router {
                estcp.on_arrival(queue.waiting.len(), queue.waiting_bytes);
            }
            self.wire.longest_queue = self.wire.longest_queue.max(self.waiting);
        }
        Ok(())
    }

    /// Packets marked by RED or flagged by a router so far.
    pub fn marked(&self) -> u64 {
        self.wire.marked
    }

    /// The longest queue so far, packets; with classes the longest sum.
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
        (self.waiting > 0).then_some(self.wire.busy_until)
    }

    /// Takes the next packet off the queue, with the time it came; call
    /// [`QueuedLink::depart`] with it at once.
    pub fn take_next(&mut self) -> Option<(T, Time)> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        if self.queues.len() > 1 {
            self.choose();
        }
        let (handle, _, arrived) = self.queues[self.turn].waiting.pop_front()?;
        self.taken = arrived;
        Some((handle, arrived))
    }

    /// Deficit round robin: moves the turn to the queue that sends next; one has a packet.
    fn choose(&mut self) {
        loop {
            let queue = &mut self.queues[self.turn];
            match queue.waiting.front() {
                None => queue.deficit = 0,
                Some(&(_, size, _)) => {
                    if !self.credited {
                        self.credited = true;
                        queue.deficit += queue.quantum;
                    }
                    if let Some(rest) = queue.deficit.checked_sub(u64::from(size)) {
                        queue.deficit = rest;
                        return;
                    }
                }
            }
            self.turn = (self.turn + 1) % self.queues.len();
            self.credited = false;
        }
    }

    /// Puts the packet just taken on the wire.
    pub fn depart(&mut self, now: Time, packet: &mut Packet) -> Departure {
        let index = self.queue_of(packet);
        let queue = &mut self.queues[index];
        let left = queue.waiting_bytes - u64::from(packet.size);
        match &mut queue.router {
            Some(Router::Xcp(xcp)) => xcp.on_departure(now, packet, queue.waiting_bytes),
            Some(Router::Xtcp(counter)) => {
                self.wire.marked += u64::from(counter.on_departure(packet));
            }
            Some(Router::Estcp(estcp)) => {
                estcp.on_departure(now, packet, queue.waiting.len(), left);
            }
            Some(Router::Warning(_) | Router::EcnThreshold(_)) | None => {}
        }
        queue.waiting_bytes = left;
        self.wire.send(now, self.taken, packet)
    }

    /// When [`QueuedLink::on_timer`] must be called next.
    pub fn next_timer(&self) -> Time {
        let timers = self.queues.iter().map(|queue| match &queue.router {
            Some(Router::Xcp(xcp)) => xcp.next_timer(),
            _ => Time::NEVER,
        });
        timers.min().unwrap_or(Time::NEVER)
    }

    /// Lets the routers' intervals that are due end.
    pub fn on_timer(&mut self, now: Time) {
        for queue in &mut self.queues {
            // One that sleeps keeps the rhythm of its intervals.
            if let Some(Router::Xcp(xcp)) = &mut queue.router
                && xcp.next_timer() <= now
            {
                xcp.on_timer(now, queue.waiting_bytes);
            }
        }
    }

    /// Packets waiting, the one in transmission not counted.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When each of the waiting packets came.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        self.queues.iter().flat_map(|queue| queue.waiting.iter().map(|(_, _, arrived)| *arrived))
    }

    /// The value that the router sends out now, if it is one number: ESTCP's g, seconds.
    pub fn signal(&self) -> Option<f64> {
        self.traffic_controller().map(TrafficController::g)
    }

    /// The traffic controller of ESTCP, if there is one.
    pub fn traffic_controller(&self) -> Option<&TrafficController> {
        self.queues.iter().find_map(|queue| match &queue.router {
            Some(Router::Estcp(estcp)) => Some(&**estcp),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::XcpSpec;
    use crate::packet::CongestionHeader;

    fn queue(limit: u32, router: RouterSpec) -> QueueSpec {
        let limit = QueueLimit::Packets(limit);
        QueueSpec { limit, aqm: AqmSpec::DropTail, router, classes: Vec::new() }
    }

    /// A link of 8 Mbit/s, a byte a microsecond, with classes of these weights.
    fn link(weights: [f64; 2]) -> QueuedLink<u32> {
        let class =
            |kind: RouterKind, weight| ClassSpec { kind, weight, queue: queue(100, kind.spec()) };
        let classes =
            vec![class(RouterKind::Any, weights[0]), class(RouterKind::Estcp, weights[1])];
        let spec = QueueSpec { classes, ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test")
    }

    fn packet(kind: RouterKind, size: u32) -> Packet {
        Packet { class: kind as u8, size, ..Packet::default() }
    }

    /// Serves `count` packets of full queues and counts the bytes of both classes.
    fn bytes_served(weights: [f64; 2], sizes: [u32; 2], count: usize) -> [u64; 2] {
        let mut link = link(weights);
        let kinds = [RouterKind::Any, RouterKind::Estcp];
        let mut bytes = [0, 0];
        let mut now = Time::ZERO;
        for _ in 0..count {
            for (handle, (kind, size)) in (0..).zip(kinds.into_iter().zip(sizes)) {
                while link.offer(now, &mut packet(kind, size), handle).is_ok() {}
            }
            let class = link.take_next().unwrap().0 as usize;
            let departure = link.depart(now, &mut packet(kinds[class], sizes[class]));
            bytes[class] += u64::from(sizes[class]);
            now = departure.end;
        }
        bytes
    }

    #[test]
    fn classes_share_the_bytes_by_their_weights_whatever_their_packets() {
        // Equal weights, packets of 1500 and 100 bytes: Shreedhar and Varghese's bound on the
        // difference is a quantum and the largest packets, 1500 + 1500 + 100.
        let [a, b] = bytes_served([1.0, 1.0], [1500, 100], 10_000);
        assert!(a.abs_diff(b) <= 3100, "{a} {b}");
        // 3 : 1.
        let [a, b] = bytes_served([3.0, 1.0], [1000, 1000], 10_000);
        assert!((a as f64 / b as f64 - 3.0).abs() < 0.01, "{a} {b}");
    }

    #[test]
    fn a_class_alone_has_the_whole_wire() {
        let mut link = link([1.0, 1.0]);
        for handle in 0..10 {
            link.offer(Time::ZERO, &mut packet(RouterKind::Estcp, 1000), handle).unwrap();
        }
        let mut now = Time::ZERO;
        let mut served = Vec::new();
        while let Some((handle, _)) = link.take_next() {
            now = link.depart(now, &mut packet(RouterKind::Estcp, 1000)).end;
            served.push(handle);
        }
        assert_eq!(served, (0..10).collect::<Vec<_>>());
        assert_eq!(now, Time::ZERO + Duration::from_millis(10));
    }

    #[test]
    fn a_class_that_is_full_drops_its_own_packets_only() {
        let mut link = link([1.0, 1.0]);
        let now = Time::ZERO;
        let fill = |link: &mut QueuedLink<u32>, kind| {
            (0..200).filter(|i| link.offer(now, &mut packet(kind, 1000), *i).is_ok()).count()
        };
        // The first of all finds an idle wire and still waits to be taken.
        assert_eq!(fill(&mut link, RouterKind::Any), 100);
        assert_eq!(fill(&mut link, RouterKind::Estcp), 100);
        assert_eq!(link.traffic_controller().unwrap().phases().len(), 0);
        // What has no class of its own joins the first.
        assert_eq!(fill(&mut link, RouterKind::Xtcp), 0);
    }

    #[test]
    fn a_router_with_a_capacity_gets_the_share_of_its_class() {
        let xcp = |weight| ClassSpec {
            kind: RouterKind::Xcp,
            weight,
            queue: queue(100, RouterSpec::Xcp(XcpSpec::default())),
        };
        let any =
            ClassSpec { kind: RouterKind::Any, weight: 3.0, queue: queue(100, RouterSpec::None) };
        let spec = QueueSpec { classes: vec![any, xcp(1.0)], ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        let link: QueuedLink<u32> =
            QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test");
        let Some(Router::Xcp(router)) = &link.queues[1].router else { panic!("an XCP router") };
        // A quarter of a million bytes a second.
        assert_eq!(router.capacity(), 250_000.0);
    }

    #[test]
    fn a_router_that_sleeps_is_left_alone_by_the_timers_of_another_class() {
        let xcp = |kind| ClassSpec {
            kind,
            weight: 1.0,
            queue: queue(100, RouterSpec::Xcp(XcpSpec::default())),
        };
        let classes = vec![xcp(RouterKind::Xcp), xcp(RouterKind::XcpPersistent)];
        let spec = QueueSpec { classes, ..queue(100, RouterSpec::None) };
        let rate = Rate::from_bps(8_000_000).unwrap();
        let mut link: QueuedLink<u32> =
            QueuedLink::new(&rate.into(), Duration::ZERO, &spec, &ChannelSpec::Clean, 1, "test");
        let ms = |time| Time::ZERO + Duration::from_millis(time);
        let send = |link: &mut QueuedLink<u32>, kind, now| {
            let header = CongestionHeader::Xcp {
                rtt: 0.03,
                inter_packet: 0.003,
                delta: 0.0,
                congestion_flag: 0,
            };
            let mut packet = Packet { header, ..packet(kind, 1000) };
            link.offer(now, &mut packet, 0).unwrap();
            link.take_next().unwrap();
            link.depart(now, &mut packet);
        };
        // Without traffic an interval is 50 ms, and half of that for the queue. After an empty one
        // both routers sleep.
        link.on_timer(ms(50));
        assert_eq!(link.next_timer(), Time::NEVER);
        // The first wakes. From 150 ms on its intervals are an RTT and half of it long, so that
        // they end at 175 and 190, and at 180 ms.
        send(&mut link, RouterKind::Xcp, ms(110));
        for time in [125, 150] {
            assert_eq!(link.next_timer(), ms(time));
            link.on_timer(ms(time));
        }
        send(&mut link, RouterKind::Xcp, ms(170));
        for time in [175, 180, 190] {
            assert_eq!(link.next_timer(), ms(time));
            link.on_timer(ms(time));
        }
        assert_eq!(link.next_timer(), ms(205));
        // The second wakes with both of its intervals to end at 200 ms.
        send(&mut link, RouterKind::XcpPersistent, ms(195));
        assert_eq!(link.next_timer(), ms(200));
    }
}
