//! The link that holds packets until they leave.

use std::collections::VecDeque;

use super::frames::{Shared, Waiting};
use super::wire::Wire;
use super::{Fate, Packets, fits, passes};
use crate::network::aqm::{Aqm, AqmState, Backlog, Eviction, Lane, Leaving, QueueSetup};
use crate::network::rate_trace::LinkRate;
use crate::network::router::{Router, RouterKind, RouterState, TrafficController};
use crate::network::scheduler::RoundRobin;
use crate::network::{ChannelConfig, QueueConfig, QueueLimit};
use crate::packet::{Label, Packet};
use crate::units::{Duration, Rate, Time};

/// A link that holds packets until they leave, for AQMs and routers that act at that moment, and
/// for classes. `T` is the handle of a packet.
///
/// It may keep a queue for each class of protocols, so that no class can crowd another out
/// (estcp2010, "Implementation of ESTCP"), and serves them by deficit round robin.
#[derive(Debug)]
pub struct QueuedLink<T> {
    pub(super) wire: Wire,
    /// One queue, or one per class.
    queues: Vec<Queue<T>>,
    /// The queue of each [`RouterKind`].
    queue_of: [u8; RouterKind::ALL.len()],
    /// The turns of several queues.
    turns: RoundRobin,
    /// Packets in all queues, and the most so far.
    waiting: usize,
    pub(super) longest_queue: usize,
    /// Packets marked so far.
    pub(super) marked: u64,
    /// The instant up to which all that was due has been done.
    now: Time,
    /// The end of the next interval of a router or an AQM.
    timer: Time,
    /// Packets that made room for others, with their queue.
    evicted: VecDeque<(Waiting<T>, usize)>,
    /// The rate that AQMs and routers were told.
    pub(super) told: Rate,
    /// If it shares a medium, which decides when packets leave.
    pub(super) shared: Option<Box<Shared<T>>>,
}

/// The queue of a class of protocols on a link, and its share of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassConfig {
    /// The protocols that ask for this router; datagrams and plain TCP ask for none. Packets
    /// without a class join the first.
    pub kind: RouterKind,
    /// Its weight in the sharing of the wire while all classes have packets; positive.
    pub weight: f64,
    /// Its limit, AQM and router; without classes of its own.
    pub queue: QueueConfig,
}

/// Deficit round robin: bytes that the class of least weight may send per turn. One packet of usual
/// size suffices for constant work per packet (Shreedhar and Varghese 1995, section 3).
const LEAST_QUANTUM: f64 = 1500.0;

/// A packet taken from a queue, with the index of that, or the fate of one that was dropped.
type Taken<T> = Result<(Waiting<T>, usize), Fate<T>>;

/// One queue of a link.
#[derive(Debug)]
struct Queue<T> {
    limit: QueueLimit,
    aqm: AqmState,
    router: RouterState,
    /// Its weight among the classes.
    weight: f64,
    /// Whether there is an AQM, and whether it makes room; cached, since most calls can be skipped.
    is_managed: bool,
    makes_room: bool,
    /// The packets in each lane, and the lanes as the AQM sees them.
    waiting: Vec<VecDeque<Waiting<T>>>,
    lanes: Vec<Lane>,
    packets: usize,
    bytes: u64,
    /// The time at which the wire was free after its latest packet.
    sent_until: Time,
}

impl<T> Queue<T> {
    fn new(spec: &QueueConfig, weight: f64, setup: &QueueSetup<'_>) -> Self {
        let aqm = spec.aqm.make(setup);
        Queue {
            limit: spec.limit,
            weight,
            is_managed: !matches!(aqm, AqmState::DropTail(_)),
            makes_room: aqm.makes_room(),
            aqm,
            router: spec.router.make(setup),
            waiting: vec![VecDeque::new()],
            lanes: vec![Lane::default()],
            packets: 0,
            bytes: 0,
            sent_until: Time::ZERO,
        }
    }

    fn push(&mut self, lane: usize, waiting: Waiting<T>) {
        // At most one more than there are, as the AQM must ensure.
        let lane = lane.min(self.lanes.len());
        if lane == self.lanes.len() {
            self.lanes.push(Lane::default());
            self.waiting.push(VecDeque::new());
        }
        self.packets += 1;
        self.bytes += u64::from(waiting.size);
        let seen = &mut self.lanes[lane];
        seen.packets += 1;
        seen.bytes += u64::from(waiting.size);
        seen.head.get_or_insert((waiting.arrived, waiting.size));
        self.waiting[lane].push_back(waiting);
    }

    fn pop(&mut self, lane: usize) -> Option<Waiting<T>> {
        let list = self.waiting.get_mut(lane)?;
        let first = list.pop_front()?;
        self.packets -= 1;
        self.bytes -= u64::from(first.size);
        let seen = &mut self.lanes[lane];
        seen.packets -= 1;
        seen.bytes -= u64::from(first.size);
        seen.head = list.front().map(|next| (next.arrived, next.size));
        Some(first)
    }

    /// The size of the packet that leaves next, as far as it is known without asking the
    /// AQM: with several lanes, of the largest that may.
    fn head(&self) -> Option<u32> {
        self.lanes.iter().filter_map(|lane| lane.head).map(|(_, size)| size).max()
    }

    fn is_over(&self) -> bool {
        let over = match self.limit {
            QueueLimit::Packets(limit) => self.packets > limit as usize,
            QueueLimit::Bytes(limit) => self.bytes > limit,
        };
        over || self.bytes > self.aqm.memory_limit()
    }

    /// The lane that sends next; something waits.
    fn next_lane(&mut self, now: Time) -> usize {
        let (backlog, aqm, _) = self.parts(now, None);
        // An AQM may name an empty lane by mistake.
        let lane = aqm.next_lane(now, &backlog);
        match backlog.lanes.get(lane) {
            Some(Lane { head: Some(_), .. }) => lane,
            _ => backlog.lanes.iter().position(|lane| lane.packets > 0).unwrap_or(0),
        }
    }

    /// The queue as the AQM and the router see it, with both.
    fn parts(
        &mut self,
        now: Time,
        idle_since: Option<Time>,
    ) -> (Backlog<'_>, &mut AqmState, &mut RouterState) {
        let Queue { packets, bytes, limit, sent_until, .. } = *self;
        let empty_since = (packets == 0 && sent_until <= now).then_some(sent_until);
        let lanes = &self.lanes[..];
        let backlog = Backlog { packets, bytes, limit, idle_since, empty_since, lanes };
        (backlog, &mut self.aqm, &mut self.router)
    }
}

/// The share of the wire that a class of this weight may count on; the weights add up to `sum`.
fn share(wire: Rate, weight: f64, sum: f64) -> Rate {
    Rate::from_bps((wire.as_bps() as f64 * weight / sum) as u64).unwrap_or(wire)
}

impl<T> QueuedLink<T> {
    /// An idle link; `name` names its random streams.
    pub fn new(
        rate: &LinkRate,
        delay: Duration,
        queue: &QueueConfig,
        channel: &ChannelConfig,
        seed: u64,
        name: &str,
    ) -> Self {
        let mut queue_of = [0; RouterKind::ALL.len()];
        let wire = rate.told();
        let weights = || queue.classes.iter().map(|class| class.weight);
        let (sum, least) = (weights().sum::<f64>(), weights().fold(f64::INFINITY, f64::min));
        let queues = if queue.classes.is_empty() {
            let setup = QueueSetup { wire, share: wire, limit: queue.limit, seed, name };
            vec![Queue::new(queue, 1.0, &setup)]
        } else {
            let class = |(index, class): (u8, &ClassConfig)| {
                queue_of[class.kind as usize] = index;
                let share = share(wire, class.weight, sum);
                let name = format!("{name}/{}", class.kind.name());
                let limit = class.queue.limit;
                let setup = QueueSetup { wire, share, limit, seed, name: &name };
                Queue::new(&class.queue, class.weight, &setup)
            };
            (0..).zip(&queue.classes).map(class).collect()
        };
        let mut link = QueuedLink {
            wire: Wire::new(rate, delay, channel, seed, name),
            queues,
            queue_of,
            turns: RoundRobin::ring(
                weights().map(|weight| (LEAST_QUANTUM * weight / least) as u64),
            ),
            waiting: 0,
            longest_queue: 0,
            marked: 0,
            now: Time::ZERO,
            timer: Time::NEVER,
            evicted: VecDeque::new(),
            told: wire,
            shared: None,
        };
        link.timer = link.soonest_timer();
        link
    }

    /// Gives the wire another rate from `now` on, up to which the link must have been
    /// [advanced](super::Link::advance): the packet in transmission finishes at the old rate, and
    /// AQMs and routers know the new one. Returns whether that can be, which it cannot
    /// where the rate is that of a trace or a schedule.
    pub fn set_rate(&mut self, now: Time, rate: Rate) -> bool {
        if !self.wire.set_rate(now, rate) {
            return false;
        }
        self.tell(now, rate);
        self.timer = self.soonest_timer();
        true
    }

    /// Tells AQMs and routers of another rate.
    #[cold]
    fn tell(&mut self, now: Time, rate: Rate) {
        self.told = rate;
        let sum = self.queues.iter().map(|queue| queue.weight).sum();
        for queue in &mut self.queues {
            let share = share(rate, queue.weight, sum);
            queue.router.on_rate(now, share);
            queue.aqm.on_rate(now, rate, share);
        }
    }

    /// Informs AQMs and routers of a rate that has changed by a schedule, and an idle wire of an
    /// outage, before any action at `now`. This delay makes no difference to them, and saves an
    /// event for each change.
    #[inline]
    pub(super) fn look(&mut self, now: Time) {
        if self.wire.has_clock() {
            self.look_at_clock(now);
        }
    }

    #[cold]
    fn look_at_clock(&mut self, now: Time) {
        if self.wire.look(now) {
            // No queue counts as idle while nothing could be sent.
            for queue in &mut self.queues {
                queue.sent_until = queue.sent_until.max(self.wire.busy_until);
            }
        }
        if let Some(rate) = self.wire.scheduled_rate(now)
            && rate != self.told
        {
            self.tell(now, rate);
        }
    }

    /// Gives the link another delay for packets that leave the wire from now on: another route, so
    /// that packets may overtake those that are under way.
    pub fn set_delay(&mut self, delay: Duration) {
        if self.shared.is_some() {
            self.wire.delay = delay;
            return;
        }
        self.wire.set_delay(delay);
    }

    /// Gives the wire another channel, for the packets whose transmission has not begun; a notifier
    /// that knows the channel knows the new one. Random numbers go on where they were; `seed` and
    /// `name` are those of [`QueuedLink::new`].
    pub fn set_channel(&mut self, channel: &ChannelConfig, seed: u64, name: &str) {
        self.wire.set_channel(channel, seed, name);
    }

    fn queue_of(&self, label: Label) -> usize {
        // Every class is a kind of router.
        usize::from(self.queue_of.get(usize::from(label.class)).copied().unwrap_or(0))
    }

    fn idle_since(&self, now: Time) -> Option<Time> {
        let busy_until = self.wire.busy_until;
        (self.waiting == 0 && busy_until <= now).then_some(busy_until)
    }

    /// A packet reaches the queue, as at [`Link::offer`](super::Link::offer).
    pub fn offer(
        &mut self,
        now: Time,
        label: Label,
        packet: &mut Packet,
        handle: T,
    ) -> Option<Fate<T>> {
        let fate = self.join(now, label, packet, handle);
        self.now = now;
        self.timer = self.soonest_timer();
        fate
    }

    #[inline]
    fn join(&mut self, now: Time, label: Label, packet: &mut Packet, handle: T) -> Option<Fate<T>> {
        self.look(now);
        let idle_since = self.idle_since(now);
        let several = self.queues.len() > 1;
        let index = if several { self.queue_of(label) } else { 0 };
        let queue = &mut self.queues[index];
        let Queue { is_managed, makes_room, .. } = *queue;
        let (backlog, aqm, router) = queue.parts(now, idle_since);
        self.marked += u64::from(router.on_arrival(now, &backlog, packet));
        let admitted = (!is_managed
            || passes(aqm.on_enqueue(now, &backlog, packet), packet, &mut self.marked))
            && (idle_since.is_some()
                || makes_room
                || fits(backlog.limit, backlog.packets, backlog.bytes, packet.size));
        if !admitted {
            router.on_drop(now, &backlog, packet);
            return Some(Fate::Dropped { handle, arrived: now, at: now });
        }
        self.marked += u64::from(router.on_enqueue(now, &backlog, packet));
        if idle_since.is_some() && !several && !is_managed && self.shared.is_none() {
            // The packet leaves at once without waiting.
            let (backlog, _, router) = queue.parts(now, None);
            self.marked += u64::from(router.on_departure(now, &backlog, packet));
            let departure = self.wire.send(now, now, label, packet);
            queue.sent_until = self.wire.busy_until;
            return Some(Fate::Sent { handle, arrived: now, departure });
        }
        let lane = if is_managed { aqm.lane(label, packet) } else { 0 };
        queue.push(lane, Waiting { handle, label, arrived: now, size: packet.size });
        self.waiting += 1;
        if idle_since.is_none() {
            while makes_room && queue.packets > 1 && queue.is_over() {
                let (backlog, aqm, _) = queue.parts(now, None);
                let Eviction { lane, packets } = aqm.evict(&backlog);
                for _ in 0..packets.max(1) {
                    let Some(victim) = queue.pop(lane) else { break };
                    self.evicted.push_back((victim, index));
                    self.waiting -= 1;
                }
            }
            self.longest_queue = self.longest_queue.max(self.waiting);
        }
        None
    }

    /// The time at which [`QueuedLink::advance`] has something to do.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.next_service().min(self.timer)
    }

    /// The time until which [`QueuedLink::advance`] may be put off: later, the fate of the first
    /// packet would be returned after it had reached the far end.
    #[inline]
    pub fn latest_advance(&self) -> Time {
        self.next_service() + self.wire.delay
    }

    /// Does everything that was due by `now`, each at its own instant, until the fate of a packet
    /// is decided, and returns that.
    pub fn advance(
        &mut self,
        now: Time,
        packets: &mut (impl Packets<T> + ?Sized),
    ) -> Option<Fate<T>> {
        loop {
            let service = self.next_service();
            let due = service.min(self.timer);
            if due > now {
                self.now = self.now.max(now);
                return None;
            }
            self.now = self.now.max(due);
            if service > self.timer {
                self.end_intervals(self.now);
                continue;
            }
            let fate = self.serve(self.now, packets);
            self.timer = self.soonest_timer();
            return fate;
        }
    }

    /// The time at which the wire can take the next waiting packet, or at which the fate of a
    /// packet that made room is due.
    #[inline]
    fn next_service(&self) -> Time {
        if !self.evicted.is_empty() {
            Time::ZERO
        } else if self.waiting > 0 && self.shared.is_none() {
            self.wire.busy_until
        } else {
            Time::NEVER
        }
    }

    #[inline(always)]
    fn soonest_timer(&self) -> Time {
        let timer = |queue: &Queue<T>| {
            let router = queue.router.next_timer();
            if queue.is_managed { router.min(queue.aqm.next_timer()) } else { router }
        };
        match &self.queues[..] {
            [queue] => timer(queue),
            queues => queues.iter().map(timer).fold(Time::NEVER, Time::min),
        }
    }

    /// Ends the intervals of routers and AQMs that are due. A part that does not move on then has
    /// no further ones until a packet comes or goes.
    fn end_intervals(&mut self, now: Time) {
        self.look(now);
        let idle_since = self.idle_since(now);
        for queue in &mut self.queues {
            let (backlog, aqm, router) = queue.parts(now, idle_since);
            // A part that sleeps keeps the rhythm of its intervals.
            if router.next_timer() <= now {
                router.on_timer(now, &backlog);
            }
            if aqm.next_timer() <= now {
                aqm.on_timer(now, &backlog);
            }
        }
        self.timer = self.soonest_timer();
        if self.timer <= now {
            self.timer = Time::NEVER;
        }
    }

    /// Puts the next waiting packet on the wire, if one waits and the wire is free, or returns the
    /// fate of one that is dropped.
    fn serve(&mut self, now: Time, packets: &mut (impl Packets<T> + ?Sized)) -> Option<Fate<T>> {
        if let Some((Waiting { handle, arrived, .. }, index)) = self.evicted.pop_front() {
            let (backlog, _, router) = self.queues[index].parts(now, None);
            router.on_drop(now, &backlog, packets.packet(&handle));
            return Some(Fate::Dropped { handle, arrived, at: now });
        }
        if self.waiting == 0 || self.wire.busy_until > now || self.shared.is_some() {
            return None;
        }
        match self.take(now, packets)? {
            Ok((Waiting { handle, label, arrived, .. }, index)) => {
                let packet = packets.packet(&handle);
                let departure = self.wire.send(now, arrived, label, packet);
                self.queues[index].sent_until = self.wire.busy_until;
                Some(Fate::Sent { handle, arrived, departure })
            }
            Err(fate) => Some(fate),
        }
    }

    /// Takes the next waiting packet, with its queue, or returns its fate if the AQM drops it.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        now: Time,
        packets: &mut (impl Packets<T> + ?Sized),
    ) -> Option<Taken<T>> {
        self.look(now);
        let several = self.queues.len() > 1;
        let queues = &self.queues;
        let index = if several { self.turns.next(|index| queues[index].head()) } else { 0 };
        let queue = &mut self.queues[index];
        let is_managed = queue.is_managed;
        let lane = if is_managed { queue.next_lane(now) } else { 0 };
        let waiting = queue.pop(lane)?;
        self.waiting -= 1;
        let packet = packets.packet(&waiting.handle);
        let (backlog, aqm, router) = queue.parts(now, None);
        let leaving = Leaving { arrived: waiting.arrived, lane };
        if is_managed
            && !passes(aqm.on_dequeue(now, leaving, &backlog, packet), packet, &mut self.marked)
        {
            router.on_drop(now, &backlog, packet);
            let Waiting { handle, arrived, .. } = waiting;
            return Some(Err(Fate::Dropped { handle, arrived, at: now }));
        }
        self.marked += u64::from(router.on_departure(now, &backlog, packet));
        if several {
            self.turns.charge(index, waiting.size);
        }
        Some(Ok((waiting, index)))
    }

    /// Notes that a transmission with packets of a shared medium ends at `end`.
    pub(super) fn sent_until(&mut self, end: Time) {
        self.wire.busy_until = end;
        for queue in &mut self.queues {
            queue.sent_until = end;
        }
    }

    /// Arrival and size of the packet that waits first; with several lanes, the earliest arrival
    /// and the largest size.
    pub(super) fn first_waiting(&self) -> Option<(Time, u32)> {
        let lanes = self.queues.iter().flat_map(|queue| &queue.lanes);
        let earlier = |a: (Time, u32), b: (Time, u32)| (a.0.min(b.0), a.1.max(b.1));
        lanes.filter_map(|lane| lane.head).reduce(earlier)
    }

    /// Packets waiting, the one in transmission not counted.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// The arrival times of the packets whose fate has not been returned yet.
    pub fn arrival_times(&self) -> impl Iterator<Item = Time> {
        let waiting = self.queues.iter().flat_map(|queue| queue.waiting.iter().flatten());
        let evicted = self.evicted.iter().map(|(waiting, _)| waiting);
        let unacknowledged = self.shared.iter().flat_map(|shared| shared.unacknowledged());
        waiting.chain(evicted).chain(unacknowledged).map(|waiting| waiting.arrived)
    }

    /// The value that the router signals now, if it is one number: ESTCP's g, seconds.
    pub fn signal(&self) -> Option<f64> {
        self.queues.iter().find_map(|queue| queue.router.signal())
    }

    /// The traffic controller of ESTCP, if there is one.
    pub fn traffic_controller(&self) -> Option<&TrafficController> {
        self.queues.iter().find_map(|queue| queue.router.traffic_controller())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::network::{RouterConfig, XcpRouterConfig};
    use crate::packet::{CongestionHeader, Flags};
    use crate::testing::ms;

    fn queue(limit: u32, router: RouterConfig) -> QueueConfig {
        QueueConfig { limit: QueueLimit::Packets(limit), router, ..QueueConfig::default() }
    }

    /// A link of 8 Mbit/s, a byte a microsecond, with this queue.
    fn with_queue<T>(spec: &QueueConfig) -> QueuedLink<T> {
        let rate = Rate::from_bps(8_000_000).unwrap();
        QueuedLink::new(&rate.into(), Duration::ZERO, spec, &ChannelConfig::Clean, 1, "test")
    }

    /// The same with classes of these weights.
    fn link(weights: [f64; 2]) -> QueuedLink<usize> {
        let class =
            |kind: RouterKind, weight| ClassConfig { kind, weight, queue: queue(100, kind.spec()) };
        let classes =
            vec![class(RouterKind::Any, weights[0]), class(RouterKind::Estcp, weights[1])];
        let spec = QueueConfig { classes, ..queue(100, RouterConfig::default()) };
        with_queue(&spec)
    }

    fn label(kind: RouterKind) -> Label {
        Label { flow: 0, class: kind as u8 }
    }

    fn packet(size: u32) -> Packet {
        Packet { size, ..Packet::default() }
    }

    /// The packet sent next, and when the wire is free again.
    fn serve(
        link: &mut QueuedLink<usize>,
        now: Time,
        packets: &mut [Packet],
    ) -> Option<(usize, Time)> {
        match link.advance(now, packets)? {
            Fate::Sent { handle, departure, .. } => Some((handle, departure.end)),
            Fate::Dropped { .. } => panic!("nothing is dropped from a queue"),
        }
    }

    /// Serves `count` packets of full queues and counts the bytes of both classes.
    fn bytes_served(weights: [f64; 2], sizes: [u32; 2], count: usize) -> [u64; 2] {
        let mut link = link(weights);
        let kinds = [RouterKind::Any, RouterKind::Estcp];
        let mut bytes = [0, 0];
        let mut now = Time::ZERO;
        let mut packets = sizes.map(packet);
        for _ in 0..count {
            for (class, kind) in kinds.into_iter().enumerate() {
                while link.offer(now, label(kind), &mut packets[class], class).is_none() {}
            }
            let (class, end) = serve(&mut link, now, &mut packets).unwrap();
            bytes[class] += u64::from(sizes[class]);
            now = end;
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
        let mut packets = vec![packet(1000); 10];
        for (handle, packet) in packets.iter_mut().enumerate() {
            assert!(link.offer(Time::ZERO, label(RouterKind::Estcp), packet, handle).is_none());
        }
        let mut now = Time::ZERO;
        let mut served = Vec::new();
        while let Some((handle, end)) = serve(&mut link, now, &mut packets) {
            now = end;
            served.push(handle);
        }
        assert_eq!(served, (0..10).collect::<Vec<_>>());
        assert_eq!(now, Time::ZERO + Duration::from_millis(10));
    }

    #[test]
    fn a_packet_in_transmission_keeps_its_rate() {
        // A byte a microsecond. Of three packets of 1000 bytes the first ends after 1 ms; at half
        // and then a quarter of the rate the others take 4 ms each.
        let ms = |ms: f64| Time::ZERO + Duration::from_secs_f64(ms / 1e3);
        let bps = |bps| Rate::from_bps(bps).unwrap();
        for slow in [2_000_000, 1_999_999] {
            let mut link = with_queue(&queue(10, RouterConfig::default()));
            let mut packets = vec![packet(1000); 3];
            for (handle, packet) in packets.iter_mut().enumerate() {
                link.offer(Time::ZERO, label(RouterKind::Any), packet, handle);
            }
            assert!(link.advance(ms(0.5), &mut packets[..]).is_none());
            assert!(link.set_rate(ms(0.5), bps(4_000_000)));
            assert_eq!(link.wire.unsent_bytes(ms(0.5)), Some(500));
            assert!(link.set_rate(ms(0.5), bps(slow)));
            assert_eq!(link.wire.unsent_bytes(ms(0.75)), Some(250));
            let (_, second) = serve(&mut link, ms(1.0), &mut packets).unwrap();
            let off = |time: Time, ms: f64| (time.as_secs_f64() * 1e3 - ms).abs();
            assert!(off(second, 5.0) < 1e-5, "{second:?}");
            assert_eq!(link.wire.unsent_bytes(ms(2.0)), Some(750));
            let (_, third) = serve(&mut link, second, &mut packets).unwrap();
            assert!(off(third, 9.0) < 1e-5, "{third:?}");
        }
        let trace = crate::network::RateTrace::new(vec![1]).unwrap();
        let spec = queue(10, RouterConfig::default());
        let clean = ChannelConfig::Clean;
        let mut link =
            QueuedLink::<usize>::new(&trace.into(), Duration::ZERO, &spec, &clean, 1, "test");
        assert!(!link.set_rate(Time::ZERO, bps(8)), "a trace stays");
    }

    #[test]
    fn another_channel_goes_on_with_the_random_numbers() {
        let p = |p| ChannelConfig::PacketLoss(crate::units::Probability::new(p).unwrap());
        let fates = |changes: &[(u32, f64)]| {
            let rate = Rate::from_bps(8_000_000).unwrap().into();
            let spec = queue(10, RouterConfig::default());
            let mut link = QueuedLink::new(&rate, Duration::ZERO, &spec, &p(0.3), 1, "test");
            let fate = |index: u32| {
                if let Some((_, loss)) = changes.iter().find(|(at, _)| *at == index) {
                    link.set_channel(&p(*loss), 1, "test");
                }
                let now = Time::ZERO + Duration::from_millis(2 * u64::from(index));
                match link.offer(now, label(RouterKind::Any), &mut packet(1000), ()) {
                    Some(Fate::Sent { departure, .. }) => departure.destroyed,
                    other => panic!("the link is idle: {other:?}"),
                }
            };
            (0..1000).map(fate).collect::<Vec<bool>>()
        };
        let same = fates(&[]);
        // The same loss again, and another loss and back: the draws are those without a change.
        assert_eq!(fates(&[(300, 0.3)]), same);
        let other = fates(&[(300, 0.6), (600, 0.3)]);
        assert_eq!((&other[..300], &other[600..]), (&same[..300], &same[600..]));
        assert!(other[300..600].iter().filter(|lost| **lost).count() > 140);
    }

    #[test]
    fn late_calls_act_at_the_due_times() {
        // A byte a microsecond: of four packets of 1000 bytes that come at once each starts when
        // the one before has left. The last comes at 10 ms to an idle wire. The far end is 5 ms
        // away.
        let rate = Rate::from_bps(8_000_000).unwrap().into();
        let (delay, clean) = (Duration::from_millis(5), ChannelConfig::Clean);
        let spec = queue(100, RouterConfig::Xcp(XcpRouterConfig::default()));
        let mut link = QueuedLink::new(&rate, delay, &spec, &clean, 1, "test");
        let mut packets = vec![packet(1000); 5];
        let mut starts = Vec::new();
        let mut note = |fate: Option<Fate<usize>>| match fate {
            Some(Fate::Sent { handle, departure, .. }) => starts.push((handle, departure.start)),
            Some(Fate::Dropped { .. }) => panic!("there is room"),
            None => {}
        };
        for (handle, packet) in packets[..4].iter_mut().enumerate() {
            note(link.offer(ms(0), label(RouterKind::Xcp), packet, handle));
        }
        // The second, which leaves next, starts at 1 ms, and is not at the far end before 6.
        assert_eq!((link.next_event(), link.latest_advance()), (ms(1), ms(6)));
        while let Some(fate) = link.advance(ms(10), &mut packets[..]) {
            note(Some(fate));
        }
        assert_eq!(link.latest_advance(), Time::NEVER);
        note(link.offer(ms(10), label(RouterKind::Xcp), &mut packets[4], 4));
        assert_eq!(starts, [(0, ms(0)), (1, ms(1)), (2, ms(2)), (3, ms(3)), (4, ms(10))]);
    }

    /// A header that a forger may write.
    fn forged() -> impl Strategy<Value = CongestionHeader> {
        let any = proptest::num::f64::ANY;
        prop_oneof![
            Just(CongestionHeader::None),
            (any, any, any).prop_map(|(rtt, inter_packet, delta)| CongestionHeader::Xcp {
                rtt,
                inter_packet,
                delta,
                congestion_flag: 0
            }),
            (0..=u64::MAX, any, any, proptest::num::f32::ANY).prop_map(
                |(phase, g, age, filled)| CongestionHeader::Estcp { phase, g, age, filled }
            ),
            (0..=u8::MAX).prop_map(|bits| CongestionHeader::EstcpBits { bits }),
            any.prop_map(|probability| CongestionHeader::Survival { probability }),
        ]
    }

    /// The honest packets after a router that also handles as many forged ones: the final state of
    /// each, and whether it was dropped. The load is three times the rate, so the queue overflows.
    fn beside(
        kind: RouterKind,
        forged: &[CongestionHeader],
    ) -> Vec<(Flags, CongestionHeader, bool)> {
        let mut link = with_queue(&queue(100, kind.spec()));
        let flags = Flags::ECN_CAPABLE.with(Flags::XTCP);
        let honest = CongestionHeader::Estcp { phase: 0, g: 0.0, age: f64::INFINITY, filled: 0.0 };
        let headers = forged.iter().flat_map(|header| [honest, *header]);
        let mut packets: Vec<Packet> =
            headers.map(|header| Packet { header, flags, ..packet(1000) }).collect();
        let mut dropped = vec![false; packets.len()];
        for number in 0..packets.len() {
            // A packet takes 1 ms on the wire; of those that come some of either kind find no room.
            let now = Time::ZERO + Duration::from_micros(300 * number as u64);
            while let Some(fate) = link.advance(now, &mut packets[..]) {
                if let Fate::Dropped { handle, .. } = fate {
                    dropped[handle] = true;
                }
            }
            let fate = link.offer(now, label(kind), &mut packets[number], number);
            dropped[number] |= matches!(fate, Some(Fate::Dropped { .. }));
        }
        let all = packets.into_iter().zip(dropped).step_by(2);
        all.map(|(packet, dropped)| (packet.flags, packet.header, dropped)).collect()
    }

    proptest! {
        #[test]
        fn what_a_header_says_changes_no_other_packet(
            forgery in proptest::collection::vec(forged(), 200),
        ) {
            let kinds = [
                RouterKind::Xtcp,
                RouterKind::EcnThreshold,
                RouterKind::Estcp,
                RouterKind::CongestionWarning,
            ];
            for kind in kinds {
                let plain = beside(kind, &[CongestionHeader::None; 200]);
                // Something happens to them.
                prop_assert!(plain.iter().any(|(_, _, dropped)| *dropped));
                let first = (plain[0].0, plain[0].1);
                let is_touched = plain.iter().any(|one| (one.0, one.1) != first);
                // The warning's average is slow.
                prop_assert!(is_touched || kind == RouterKind::CongestionWarning, "{:?}", kind);
                prop_assert_eq!(beside(kind, &forgery), plain, "{:?}", kind);
            }
        }
    }

    #[test]
    fn a_class_that_is_full_drops_its_own_packets_only() {
        let mut link = link([1.0, 1.0]);
        let now = Time::ZERO;
        let fill = |link: &mut QueuedLink<usize>, kind| {
            let offer = |i| link.offer(now, label(kind), &mut packet(1000), i);
            (0..200).map(offer).filter(Option::is_none).count()
        };
        // The first of all finds an idle wire and still waits to be taken.
        assert_eq!(fill(&mut link, RouterKind::Any), 100);
        assert_eq!(fill(&mut link, RouterKind::Estcp), 100);
        assert_eq!(link.traffic_controller().unwrap().phases().len(), 0);
        // Packets without a class of their own join the first.
        assert_eq!(fill(&mut link, RouterKind::Xtcp), 0);
    }

    #[test]
    fn a_router_with_a_capacity_gets_the_share_of_its_class() {
        let xcp = |weight| ClassConfig {
            kind: RouterKind::Xcp,
            weight,
            queue: queue(100, RouterConfig::Xcp(XcpRouterConfig::default())),
        };
        let any = ClassConfig {
            kind: RouterKind::Any,
            weight: 3.0,
            queue: queue(100, RouterConfig::default()),
        };
        let spec =
            QueueConfig { classes: vec![any, xcp(1.0)], ..queue(100, RouterConfig::default()) };
        let link: QueuedLink<usize> = with_queue(&spec);
        let RouterState::Xcp(router) = &link.queues[1].router else { panic!("an XCP router") };
        // A quarter of a million bytes a second.
        assert_eq!(router.capacity(), 250_000.0);
    }

    #[test]
    fn a_router_that_sleeps_is_left_alone_by_the_timers_of_another_class() {
        let xcp = |kind| ClassConfig {
            kind,
            weight: 1.0,
            queue: queue(100, RouterConfig::Xcp(XcpRouterConfig::default())),
        };
        let classes = vec![xcp(RouterKind::Xcp), xcp(RouterKind::XcpPersistent)];
        let spec = QueueConfig { classes, ..queue(100, RouterConfig::default()) };
        let mut link: QueuedLink<usize> = with_queue(&spec);
        let send = |link: &mut QueuedLink<usize>, kind, now| {
            let header = CongestionHeader::Xcp {
                rtt: 0.03,
                inter_packet: 0.003,
                delta: 0.0,
                congestion_flag: 0,
            };
            let mut packets = [Packet { header, ..packet(1000) }];
            assert!(link.offer(now, label(kind), &mut packets[0], 0).is_none());
            serve(link, now, &mut packets).unwrap();
        };
        // Without traffic an interval is 50 ms, and half of that for the queue. After an empty one
        // both routers sleep.
        link.end_intervals(ms(50));
        assert_eq!(link.timer, Time::NEVER);
        // The first wakes. From 150 ms on its intervals are an RTT and half of it long, so that
        // they end at 175 and 190, and at 180 ms.
        send(&mut link, RouterKind::Xcp, ms(110));
        for time in [125, 150] {
            assert_eq!(link.timer, ms(time));
            link.end_intervals(ms(time));
        }
        send(&mut link, RouterKind::Xcp, ms(170));
        for time in [175, 180, 190] {
            assert_eq!(link.timer, ms(time));
            link.end_intervals(ms(time));
        }
        assert_eq!(link.timer, ms(205));
        // The second wakes with both of its intervals to end at 200 ms.
        send(&mut link, RouterKind::XcpPersistent, ms(195));
        assert_eq!(link.timer, ms(200));
    }
}
