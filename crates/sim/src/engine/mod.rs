//! The engine: virtual time, packets and links.
//!
//! The life of a packet: an endpoint or a source puts it into the slab and
//! [`Simulation::forward`]s it; each link says when it will be at the far end; there the next
//! link or the endpoint takes it.
//!
//! What keeps it fast is what it leaves out. A DropTail or RED queue without router feedback is
//! arithmetic: the departure of a packet is known when it arrives, so no event serves the
//! queue. A link whose packets all come over one other link, in order, is passed through at
//! once, and so is a receiver that acknowledges at once: no event brings them there. Packets on
//! one wire arrive in order, so only the first of them is in the event queue. Timers move their
//! deadline without touching the queue unless it becomes earlier.

mod hop;
mod schedule;
mod slab;
mod source;

use std::collections::VecDeque;

use windward_core::endpoint::{Receiver, Sender, SenderStats};
use windward_core::network::Offer;
use windward_core::packet::{Packet, PacketKind};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use self::hop::{Hop, Link, Window};
use self::schedule::{ComponentId, Schedule, Tie};
use self::slab::{PacketId, Slab};
use self::source::Source;
use crate::outcome::{FlowOutcome, GroupOutcome, Outcome};
use crate::scenario::{FlowSpec, LinkId, Scenario, Traffic};

/// A run that can be advanced in steps and looked at in between.
#[derive(Debug)]
pub struct Simulation {
    now: Time,
    /// What figures cover: from the end of the warm-up to the end of the run.
    window: Window,
    seed: u64,
    schedule: Schedule,
    /// What the indices of the event queue mean.
    components: Vec<Component>,
    slab: Slab,
    hops: Vec<Hop>,
    link_names: Vec<String>,
    flows: Vec<Flow>,
    transports: Vec<Option<Transport>>,
    groups: Vec<Group>,
    warmed_up: bool,
    events: u64,
    fingerprint: u64,
}

/// What every flow has.
#[derive(Debug)]
struct Flow {
    forward: Box<[Step]>,
    reverse: Box<[Step]>,
    bottleneck: u32,
    group: u32,
    name: String,
    start: Time,
    stop: Time,
    source: Option<Source>,
    application: ComponentId,
    /// Bytes put through the bottleneck in all, and inside the window.
    bottleneck_bytes: u64,
    measured_bytes: u64,
    /// Datagrams delivered, and how many of these before the window.
    datagrams: u64,
    datagrams_at_warmup: u64,
    sent_at_warmup: u64,
}

/// A link of a route, and how packets go on from it.
#[derive(Debug, Clone, Copy)]
struct Step {
    link: u32,
    onward: Onward,
}

/// What happens at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Onward {
    /// An event takes the packet there.
    Event,
    /// The next link takes it at once: all its packets come over this one, in order.
    Link,
    /// The receiver takes it at once: it acts on nothing but the packets that come over this
    /// link, in order, and nobody else feeds the link that its acknowledgments take.
    Receiver,
}

/// A connection's two ends.
#[derive(Debug)]
struct Transport {
    sender: Sender,
    receiver: Receiver,
    protocol: &'static str,
    packet_size: u32,
    packets: Option<u64>,
    completed: Option<Time>,
    delays_acks: bool,
    /// Packets in processing, if that takes time.
    outbox: Option<Outbox>,
    /// Timers move their deadline far more often than they expire. Their event is left where
    /// it is and looked after when its time comes, unless the deadline becomes earlier.
    sender_timer: ComponentId,
    receiver_timer: ComponentId,
    at_warmup: SenderStats,
    /// Unique packets delivered before the figures begin.
    unique_before: u64,
}

/// A sender's packets in processing, in order; see `EndpointConfig::overhead`.
#[derive(Debug)]
struct Outbox {
    overhead: Duration,
    stream: Stream,
    packets: VecDeque<(Time, PacketId)>,
    release: ComponentId,
}

impl Outbox {
    /// Takes a packet in; its time of release if it is the first to leave.
    fn post(&mut self, now: Time, id: PacketId) -> Option<Time> {
        let processed = now + self.stream.between(Duration::ZERO, self.overhead);
        let last = self.packets.back().map_or(Time::ZERO, |last| last.0);
        let release = processed.max(last);
        self.packets.push_back((release, id));
        (self.packets.len() == 1).then_some(release)
    }
}

/// What the flows of a group put through their bottlenecks, in bins of time.
#[derive(Debug)]
struct Group {
    name: String,
    bins: Vec<u64>,
    bin: Duration,
    current: usize,
    current_from: Time,
    current_until: Time,
}

impl Group {
    #[inline]
    fn add(&mut self, at: Time, bytes: u64) {
        if at < self.current_from || at >= self.current_until {
            self.current = (at.as_ps() / self.bin.as_ps()) as usize;
            self.current_from = Time::from_ps(self.current as u64 * self.bin.as_ps());
            self.current_until = self.current_from + self.bin;
            if self.bins.len() <= self.current {
                self.bins.resize(self.current + 1, 0);
            }
        }
        self.bins[self.current] += bytes;
    }
}

/// What an index of the event queue means. At one instant, queues are served before packets
/// arrive, and packets arrive before timers expire: their order here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Component {
    /// The queue of a link can put its next packet on the wire.
    Queue(u32),
    /// An interval of a link's router ends.
    Router(u32),
    /// A packet reaches the far end of a link.
    Arrival(u32),
    /// A sender's timer.
    SenderTimer(u32),
    /// A receiver's timer.
    ReceiverTimer(u32),
    /// A packet leaves its sender after its processing time.
    Release(u32),
    /// An application starts or stops, or a source sends.
    Application(u32),
}

impl Component {
    /// How it stands among the events of one instant.
    fn tie(self, seed: u64) -> Tie {
        let (rank, index): (u8, u32) = match self {
            Component::Queue(i) => (0, i),
            Component::Router(i) => (1, i),
            Component::Arrival(i) => (2, i),
            Component::SenderTimer(i) => (3, i),
            Component::ReceiverTimer(i) => (4, i),
            Component::Release(i) => (5, i),
            Component::Application(i) => (6, i),
        };
        let name = u64::from(rank) << 32 | u64::from(index);
        // Spread, so that neighbours do not keep their order from one instant to the next.
        let salt = (seed.rotate_left(17) ^ name).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Tie { rank, salt: salt ^ salt >> 32 }
    }
}

/// Numbers the components that can have events, and tells each its number.
fn number(
    hops: &mut [Hop],
    flows: &mut [Flow],
    transports: &mut [Option<Transport>],
) -> Vec<Component> {
    let mut components = Vec::new();
    let mut add = |id: &mut ComponentId, component: Component| {
        *id = components.len() as ComponentId;
        components.push(component);
    };
    for (i, hop) in (0..).zip(&mut *hops) {
        if matches!(hop.link, Link::Queued(_)) {
            add(&mut hop.ids.queue, Component::Queue(i));
        }
    }
    for (i, hop) in (0..).zip(&mut *hops) {
        if matches!(&hop.link, Link::Queued(queue) if queue.next_timer() != Time::NEVER) {
            add(&mut hop.ids.router, Component::Router(i));
        }
    }
    for (i, hop) in (0..).zip(hops) {
        add(&mut hop.ids.arrival, Component::Arrival(i));
    }
    for (i, transport) in (0..).zip(&mut *transports) {
        if let Some(transport) = transport {
            add(&mut transport.sender_timer, Component::SenderTimer(i));
        }
    }
    for (i, transport) in (0..).zip(&mut *transports) {
        if let Some(transport) = transport
            && transport.delays_acks
        {
            add(&mut transport.receiver_timer, Component::ReceiverTimer(i));
        }
    }
    for (i, transport) in (0..).zip(transports) {
        if let Some(outbox) = transport.as_mut().and_then(|t| t.outbox.as_mut()) {
            add(&mut outbox.release, Component::Release(i));
        }
    }
    for (i, flow) in (0..).zip(flows) {
        add(&mut flow.application, Component::Application(i));
    }
    components
}

/// One connection at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSnapshot {
    /// Congestion window, packets.
    pub cwnd: f64,
    /// Slow start threshold, packets.
    pub ssthresh: f64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Packets sent and not yet acknowledged or deemed lost.
    pub in_flight: u64,
    /// Bytes delivered uniquely so far.
    pub delivered_bytes: u64,
    /// Bytes put through the bottleneck so far.
    pub bottleneck_bytes: u64,
}

/// One directed link at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSnapshot {
    /// Packets waiting behind the one in transmission.
    pub queue_packets: u64,
    /// Packets dropped by the queue so far.
    pub dropped: u64,
    /// Packets destroyed by the channel so far.
    pub corrupted: u64,
    /// Bytes put on the wire so far.
    pub sent_bytes: u64,
}

/// How much the engine may leave out; the outcome is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Everything that no figure needs.
    Fast,
    /// An event for every arrival at every queue, so that snapshots are exact.
    Snapshots,
    /// An event for every departure too: the plain way, to check the others against.
    #[cfg(test)]
    Everything,
}

impl Simulation {
    /// Sets the scenario up at time zero.
    pub fn new(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Fast)
    }

    /// As [`Simulation::new`], with snapshots of links exact at any instant; a little slower,
    /// with the same outcome.
    pub fn traced(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Snapshots)
    }

    fn with_detail(scenario: &Scenario, detail: Detail) -> Self {
        let Scenario { duration, warmup, seed, bin, links, flows, groups } = scenario;
        let window = Window { from: Time::ZERO + *warmup, until: Time::ZERO + *duration };
        let force_queued = match detail {
            Detail::Fast | Detail::Snapshots => false,
            #[cfg(test)]
            Detail::Everything => true,
        };
        let mut hops: Vec<Hop> =
            links.iter().map(|link| Hop::new(link, *seed, force_queued)).collect();
        let mut flow_states: Vec<Flow> = flows.iter().map(|flow| Flow::new(flow, *seed)).collect();
        let mut transports: Vec<_> = flows.iter().map(|flow| Transport::new(flow, *seed)).collect();
        if detail == Detail::Fast {
            mark_express(&hops, &mut flow_states, &transports);
        }
        let components = number(&mut hops, &mut flow_states, &mut transports);
        let ties = components.iter().map(|component| component.tie(*seed)).collect();
        let mut schedule = Schedule::new(ties);
        for hop in &hops {
            hop.schedule_router(&mut schedule);
        }
        for flow in &flow_states {
            let first = flow.source.as_ref().map_or(flow.start, Source::next);
            schedule.set(flow.application, first);
        }
        Simulation {
            now: Time::ZERO,
            window,
            seed: *seed,
            schedule,
            components,
            slab: Slab::default(),
            hops,
            link_names: links.iter().map(|link| link.name.clone()).collect(),
            flows: flow_states,
            transports,
            groups: groups.iter().map(|name| Group::new(name, *bin)).collect(),
            warmed_up: false,
            events: 0,
            fingerprint: 0,
        }
    }

    /// Virtual time reached so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Handles every event up to and including `until`, but none after the scenario's end.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.window.until);
        if !self.warmed_up && until >= self.window.from {
            // Without a warm-up what happens at instant zero counts.
            if self.window.from > Time::ZERO {
                self.run_until(self.window.from);
            }
            self.end_warmup();
        }
        self.run_until(until);
        self.now = self.now.max(until);
    }

    /// The connection with that index, or `None` for datagrams.
    pub fn flow(&self, index: usize) -> Option<FlowSnapshot> {
        let transport = self.transports[index].as_ref()?;
        let delivered = transport.receiver.stats().unique * u64::from(transport.packet_size);
        Some(FlowSnapshot {
            cwnd: transport.sender.cwnd(),
            ssthresh: transport.sender.ssthresh(),
            srtt: transport.sender.rtt().srtt(),
            in_flight: transport.sender.in_flight(),
            delivered_bytes: delivered,
            bottleneck_bytes: self.flows[index].bottleneck_bytes,
        })
    }

    /// The link with that index. `queue_packets` is exact with [`Simulation::traced`] only.
    pub fn link(&mut self, index: usize) -> LinkSnapshot {
        let hop = &mut self.hops[index];
        LinkSnapshot {
            queue_packets: hop.waiting(self.now),
            dropped: hop.books.dropped,
            corrupted: hop.books.corrupted,
            sent_bytes: hop.books.sent_bytes,
        }
    }

    fn run_until(&mut self, until: Time) {
        loop {
            let (time, id) = self.schedule.first();
            if time > until {
                return;
            }
            debug_assert!(time >= self.now, "time ran back");
            self.now = time;
            self.events += 1;
            match self.components[id as usize] {
                Component::Arrival(link) => self.on_arrival(link, id),
                other => {
                    self.schedule.set(id, Time::NEVER);
                    match other {
                        Component::Queue(link) => self.serve(link),
                        Component::Router(link) => self.on_router_timer(link),
                        Component::SenderTimer(flow) => self.on_sender_timer(flow),
                        Component::ReceiverTimer(flow) => self.on_receiver_timer(flow),
                        Component::Release(flow) => self.on_release(flow),
                        Component::Application(flow) => self.on_application(flow),
                        Component::Arrival(_) => unreachable!("handled above"),
                    }
                }
            }
        }
    }

    /// The first packet on the wire reaches the far end of a link.
    #[inline]
    fn on_arrival(&mut self, link: u32, id: ComponentId) {
        let hop = &mut self.hops[link as usize];
        let Some((_, packet)) = hop.wire.pop_front() else { unreachable!("an empty wire") };
        self.schedule.set(id, hop.wire.front().map_or(Time::NEVER, |next| next.0));
        let Packet { flow, hop, kind, .. } = self.slab[packet];
        let route = &self.flows[flow as usize];
        let route = if kind == PacketKind::Ack { &route.reverse } else { &route.forward };
        if usize::from(hop) < route.len() {
            self.forward(packet, self.now);
        } else {
            self.deliver(packet);
        }
    }

    /// Offers a packet, at `at`, to the next link of its route and to those that follow
    /// directly.
    #[inline]
    fn forward(&mut self, id: PacketId, mut at: Time) {
        let window = self.window;
        loop {
            let packet = &mut self.slab[id];
            let flow = &mut self.flows[packet.flow as usize];
            let is_ack = packet.kind == PacketKind::Ack;
            let route = if is_ack { &flow.reverse } else { &flow.forward };
            let Step { link, onward } = route[usize::from(packet.hop)];
            packet.hop += 1;
            let hop = &mut self.hops[link as usize];
            hop.books.arrived += 1;
            let departure = match &mut hop.link {
                Link::Fifo(fifo) => match fifo.offer(at, packet) {
                    Offer::Accepted(departure) => departure,
                    Offer::Dropped => {
                        hop.books.dropped += 1;
                        self.slab.give_back(id);
                        return;
                    }
                },
                Link::Queued(_) => {
                    self.enqueue(link, id, at);
                    return;
                }
            };
            if !is_ack && flow.bottleneck == link && departure.end <= window.until {
                flow.count(&mut self.groups, window, departure.end, packet.size);
            }
            if !hop.books.enter(window, at, packet.size, &departure) {
                self.slab.give_back(id);
                return;
            }
            match onward {
                Onward::Link => {}
                Onward::Receiver => {
                    self.fingerprint =
                        self.fingerprint.wrapping_add(mark(departure.arrival, packet));
                    let Some(transport) = &mut self.transports[packet.flow as usize] else {
                        return;
                    };
                    if !transport.receive(departure.arrival, packet, window) {
                        self.slab.give_back(id);
                        return;
                    }
                }
                Onward::Event => return self.put_on_wire(link, id, departure.arrival),
            }
            at = departure.arrival;
        }
    }

    fn put_on_wire(&mut self, link: u32, id: PacketId, arrival: Time) {
        let hop = &mut self.hops[link as usize];
        hop.wire.push_back((arrival, id));
        if hop.wire.len() == 1 {
            self.schedule.set(hop.ids.arrival, arrival);
        }
    }

    /// A packet joins a queue that is served by events.
    fn enqueue(&mut self, link: u32, id: PacketId, at: Time) {
        debug_assert_eq!(at, self.now, "only what has happened may be queued");
        let hop = &mut self.hops[link as usize];
        let Link::Queued(queue) = &mut hop.link else { unreachable!("a FIFO queue has no events") };
        if let Err(id) = queue.offer(at, &mut self.slab[id], id) {
            hop.books.dropped += 1;
            self.slab.give_back(id);
        } else if let (1, Some(start)) = (queue.waiting(), queue.next_start()) {
            if start <= at {
                self.serve(link);
            } else {
                self.schedule.set(hop.ids.queue, start);
            }
        }
    }

    /// The wire of a link is free: its queue sends the next packet.
    fn serve(&mut self, link: u32) {
        let hop = &mut self.hops[link as usize];
        let Link::Queued(queue) = &mut hop.link else { unreachable!("a FIFO queue has no events") };
        let Some((id, arrived)) = queue.take_next() else {
            return;
        };
        let packet = &mut self.slab[id];
        let departure = queue.depart(self.now, packet);
        let next_start = queue.next_start();
        let seen = hop.books.enter(self.window, arrived, packet.size, &departure);
        let flow = &mut self.flows[packet.flow as usize];
        let is_ack = packet.kind == PacketKind::Ack;
        if !is_ack && flow.bottleneck == link && departure.end <= self.window.until {
            flow.count(&mut self.groups, self.window, departure.end, packet.size);
        }
        let route = if is_ack { &flow.reverse } else { &flow.forward };
        let Step { onward, .. } = route[usize::from(packet.hop) - 1];
        if let Some(start) = next_start {
            self.schedule.set(hop.ids.queue, start);
        }
        if !seen {
            self.slab.give_back(id);
        } else if onward == Onward::Link {
            self.forward(id, departure.arrival);
        } else {
            self.put_on_wire(link, id, departure.arrival);
        }
    }

    fn on_router_timer(&mut self, link: u32) {
        let hop = &mut self.hops[link as usize];
        if let Link::Queued(queue) = &mut hop.link {
            queue.on_timer(self.now);
        }
        hop.schedule_router(&mut self.schedule);
    }

    /// A packet reaches its endpoint.
    #[inline]
    fn deliver(&mut self, id: PacketId) {
        let packet = &mut self.slab[id];
        let index = packet.flow;
        self.fingerprint = self.fingerprint.wrapping_add(mark(self.now, packet));
        let Some(transport) = &mut self.transports[index as usize] else {
            self.flows[index as usize].datagrams += 1;
            self.slab.give_back(id);
            return;
        };
        if packet.kind == PacketKind::Data {
            if transport.receive(self.now, packet, self.window) {
                self.forward(id, self.now);
            } else {
                self.slab.give_back(id);
            }
            self.follow_receiver_timer(index);
        } else {
            transport.sender.on_ack(self.now, packet);
            self.slab.give_back(id);
            self.transmit(index);
        }
    }

    /// Lets a sender send all it may, and looks after its timer.
    fn transmit(&mut self, index: u32) {
        loop {
            let Some(transport) = &mut self.transports[index as usize] else {
                return;
            };
            let id = self.slab.vacant();
            let packet = &mut self.slab[id];
            if !transport.sender.poll_transmit(self.now, packet) {
                break;
            }
            packet.flow = index;
            packet.hop = 0;
            self.slab.claim();
            match &mut transport.outbox {
                None => self.forward(id, self.now),
                Some(outbox) => {
                    if let Some(first) = outbox.post(self.now, id) {
                        self.schedule.set(outbox.release, first);
                    }
                }
            }
        }
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        if transport.completed.is_none() && transport.sender.is_done() {
            transport.completed = transport.packets.map(|_| self.now);
        }
        let deadline = transport.sender.next_timer();
        if deadline < self.schedule.time_of(transport.sender_timer) {
            self.schedule.set(transport.sender_timer, deadline);
        }
    }

    fn follow_receiver_timer(&mut self, index: u32) {
        let Some(transport) = &self.transports[index as usize] else { return };
        if transport.delays_acks {
            let deadline = transport.receiver.next_timer();
            if deadline < self.schedule.time_of(transport.receiver_timer) {
                self.schedule.set(transport.receiver_timer, deadline);
            }
        }
    }

    fn on_sender_timer(&mut self, index: u32) {
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        if transport.sender.next_timer() <= self.now {
            transport.sender.on_timer(self.now);
        }
        self.transmit(index);
    }

    fn on_receiver_timer(&mut self, index: u32) {
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        let id = self.slab.vacant();
        if transport.receiver.on_timer(self.now, &mut self.slab[id]) {
            self.slab.claim();
            self.forward(id, self.now);
        }
        self.follow_receiver_timer(index);
    }

    /// A packet has been processed: it leaves the sender.
    fn on_release(&mut self, index: u32) {
        let outbox = self.transports[index as usize].as_mut().and_then(|t| t.outbox.as_mut());
        let Some(outbox) = outbox else { return };
        let Some((_, id)) = outbox.packets.pop_front() else { return };
        if let Some((next, _)) = outbox.packets.front() {
            self.schedule.set(outbox.release, *next);
        }
        self.forward(id, self.now);
    }

    /// An application starts or stops offering data, or a source sends a datagram.
    fn on_application(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if let Some(source) = &mut flow.source {
            source.emit();
            let (size, next) = (source.packet_size, source.next());
            let seq = source.sent;
            self.schedule.set(flow.application, next);
            let id = self.slab.vacant();
            self.slab.claim();
            let kind = PacketKind::Datagram;
            self.slab[id] = Packet { flow: index, size, kind, seq, ..Packet::default() };
            self.forward(id, self.now);
            return;
        }
        let stop = flow.stop;
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        if self.now < stop {
            transport.sender.offer_until(transport.packets.unwrap_or(u64::MAX));
            self.schedule.set(flow.application, stop);
        } else {
            transport.sender.offer_until(0);
        }
        self.transmit(index);
    }

    /// Remembers what was counted before the figures begin.
    fn end_warmup(&mut self) {
        self.warmed_up = true;
        let now = self.window.from;
        for (flow, transport) in self.flows.iter_mut().zip(&mut self.transports) {
            flow.datagrams_at_warmup = flow.datagrams;
            flow.sent_at_warmup = flow.source.as_ref().map_or(0, |source| source.sent);
            if let Some(transport) = transport {
                transport.at_warmup = transport.sender.stats(now);
            }
        }
    }

    /// Runs to the end and adds up.
    pub fn finish(mut self) -> Outcome {
        self.advance(self.window.until);
        let window = self.window;
        let flows: Vec<FlowOutcome> = self
            .flows
            .iter()
            .zip(&mut self.transports)
            .map(|(flow, transport)| match transport {
                Some(transport) => flow.transport_outcome(transport, window),
                None => flow.datagram_outcome(window),
            })
            .collect();
        let goodputs = flows.iter().zip(&self.transports).filter(|(_, t)| t.is_some());
        let jain = jain(goodputs.map(|(flow, _)| flow.goodput_bps));
        let groups = self.groups.into_iter().enumerate();
        let groups = groups.map(|(i, group)| group.close(i, &flows, window)).collect();
        let hops = self.hops.into_iter().zip(&self.link_names);
        let links: Vec<_> = hops.map(|(hop, name)| hop.close(name, window)).collect();
        Outcome {
            seed: self.seed,
            duration: window.until.since(Time::ZERO),
            warmup: window.from.since(Time::ZERO),
            flows,
            groups,
            jain,
            packet_hops: links.iter().map(|link| link.delivered).sum(),
            links,
            events: self.events,
            fingerprint: self.fingerprint,
        }
    }
}

/// Runs a scenario from start to end.
pub fn run(scenario: &Scenario) -> Outcome {
    Simulation::new(scenario).finish()
}

/// Finds what can be passed through without an event. A FIFO link passes packets on in order, and
/// where nobody else feeds what comes next, it can be offered them as soon as their arrival is
/// known.
fn mark_express(hops: &[Hop], flows: &mut [Flow], transports: &[Option<Transport>]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Feeder {
        Unknown,
        Link(u32),
        Receiver(usize),
        Several,
    }
    let mut feeders = vec![Feeder::Unknown; hops.len()];
    let mut note = |step: &Step, feeder: Feeder| {
        let known = &mut feeders[step.link as usize];
        *known =
            if *known == Feeder::Unknown || *known == feeder { feeder } else { Feeder::Several };
    };
    for (index, flow) in flows.iter().enumerate() {
        // Senders act on timers too: what they feed is never taken ahead of time.
        for (route, first) in
            [(&flow.forward, Feeder::Several), (&flow.reverse, Feeder::Receiver(index))]
        {
            if let Some(step) = route.first() {
                note(step, first);
            }
            for pair in route.windows(2) {
                note(&pair[1], Feeder::Link(pair[0].link));
            }
        }
    }
    let is_fifo = |step: &Step| matches!(hops[step.link as usize].link, Link::Fifo(_));
    let fed_by = |step: &Step, feeder: Feeder| feeders[step.link as usize] == feeder;
    for (index, (flow, transport)) in flows.iter_mut().zip(transports).enumerate() {
        for route in [&mut flow.forward, &mut flow.reverse] {
            for i in 1..route.len() {
                let (this, next) = (route[i - 1], route[i]);
                if is_fifo(&next) && fed_by(&next, Feeder::Link(this.link)) {
                    route[i - 1].onward = Onward::Link;
                }
            }
        }
        let acks_at_once = transport.as_ref().is_some_and(|transport| !transport.delays_acks);
        if let (true, Some(last), Some(back)) =
            (acks_at_once, flow.forward.last_mut(), flow.reverse.first())
            && is_fifo(last)
            && is_fifo(back)
            && fed_by(back, Feeder::Receiver(index))
        {
            last.onward = Onward::Receiver;
        }
    }
}

/// A delivery, as the fingerprint sees it. They are added up: what the engine takes ahead of time
/// must not change the sum.
#[inline]
fn mark(at: Time, packet: &Packet) -> u64 {
    let Packet { flow, kind, seq, .. } = packet;
    let what = seq.rotate_left(40) ^ u64::from(*flow).rotate_left(20) ^ *kind as u64;
    let mixed = (at.as_ps() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Jain's fairness index (sum x)^2 / (n sum x^2); 1 for no flows or no traffic.
fn jain(goodputs: impl Iterator<Item = f64>) -> f64 {
    let (n, sum, squares) =
        goodputs.fold((0.0, 0.0, 0.0), |(n, s, q), x| (n + 1.0, s + x, q + x * x));
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

impl Flow {
    fn new(spec: &FlowSpec, seed: u64) -> Self {
        let FlowSpec { name, group, traffic, forward, reverse, bottleneck, start, stop } = spec;
        let mut stream = Stream::new(seed, "start", name);
        let start = {
            let (low, high) = (start.0.since(Time::ZERO), start.1.since(Time::ZERO));
            Time::ZERO + stream.between(low, high)
        };
        let stop = stop.unwrap_or(Time::NEVER);
        let source = match traffic {
            Traffic::Transport { .. } => None,
            Traffic::Datagrams { packet_size, pattern } => {
                let stream = Stream::new(seed, "source", name);
                Some(Source::new(pattern, *packet_size, start, stop, stream))
            }
        };
        let route = |links: &[LinkId]| {
            links.iter().map(|link| Step { link: *link as u32, onward: Onward::Event }).collect()
        };
        Flow {
            forward: route(forward),
            reverse: route(reverse),
            bottleneck: *bottleneck as u32,
            group: *group as u32,
            name: name.clone(),
            start,
            stop,
            source,
            application: ComponentId::MAX,
            bottleneck_bytes: 0,
            measured_bytes: 0,
            datagrams: 0,
            datagrams_at_warmup: 0,
            sent_at_warmup: 0,
        }
    }

    /// A packet of this flow has left its bottleneck.
    #[inline]
    fn count(&mut self, groups: &mut [Group], window: Window, at: Time, size: u32) {
        let bytes = u64::from(size);
        self.bottleneck_bytes += bytes;
        if at > window.from {
            self.measured_bytes += bytes;
        }
        groups[self.group as usize].add(at, bytes);
    }

    fn transport_outcome(&self, transport: &mut Transport, window: Window) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let after = transport.sender.stats(window.until);
        let before = transport.at_warmup;
        let unique = transport.receiver.stats().unique - transport.unique_before;
        let samples = after.rtt_samples - before.rtt_samples;
        let rtts = after.rtt_sum - before.rtt_sum;
        FlowOutcome {
            name: self.name.clone(),
            group: self.group as usize,
            protocol: transport.protocol,
            goodput_bps: (unique * u64::from(transport.packet_size) * 8) as f64 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: after.sent - before.sent,
            retransmissions: after.retransmissions - before.retransmissions,
            timeouts: after.timeouts - before.timeouts,
            mean_rtt: Duration::from_ps(rtts.as_ps() / samples.max(1)),
            mean_cwnd: (after.cwnd_seconds - before.cwnd_seconds) / length,
            completed: transport.completed,
        }
    }

    fn datagram_outcome(&self, window: Window) -> FlowOutcome {
        let length = window.until.since(window.from).as_secs_f64();
        let (size, sent) = self.source.as_ref().map_or((0, 0), |s| (s.packet_size, s.sent));
        let delivered = (self.datagrams - self.datagrams_at_warmup) * u64::from(size);
        FlowOutcome {
            name: self.name.clone(),
            group: self.group as usize,
            protocol: "datagrams",
            goodput_bps: delivered as f64 * 8.0 / length,
            throughput_bps: self.measured_bytes as f64 * 8.0 / length,
            packets_sent: sent - self.sent_at_warmup,
            retransmissions: 0,
            timeouts: 0,
            mean_rtt: Duration::ZERO,
            mean_cwnd: 0.0,
            completed: None,
        }
    }
}

impl Transport {
    /// The receiver takes a data packet, at a time that may lie ahead. Returns whether `packet`
    /// has become an acknowledgment to be sent.
    #[inline]
    fn receive(&mut self, at: Time, packet: &mut Packet, window: Window) -> bool {
        let acknowledges = self.receiver.on_data(at, packet);
        if at <= window.from {
            self.unique_before = self.receiver.stats().unique;
        }
        acknowledges
    }

    fn new(spec: &FlowSpec, seed: u64) -> Option<Self> {
        let Traffic::Transport { protocol, config, packets } = &spec.traffic else {
            return None;
        };
        Some(Transport {
            sender: Sender::new(protocol, config),
            receiver: Receiver::new(config),
            protocol: protocol.name,
            packet_size: config.packet_size,
            packets: *packets,
            completed: None,
            delays_acks: config.delayed_acks.is_some(),
            outbox: (!config.overhead.is_zero()).then(|| Outbox {
                overhead: config.overhead,
                stream: Stream::new(seed, "overhead", &spec.name),
                packets: VecDeque::new(),
                release: ComponentId::MAX,
            }),
            sender_timer: ComponentId::MAX,
            receiver_timer: ComponentId::MAX,
            at_warmup: SenderStats::default(),
            unique_before: 0,
        })
    }
}

impl Group {
    fn new(name: &str, bin: Duration) -> Self {
        Group {
            name: name.to_owned(),
            bins: vec![0],
            bin,
            current: 0,
            current_from: Time::ZERO,
            current_until: Time::ZERO + bin,
        }
    }

    fn close(mut self, index: usize, flows: &[FlowOutcome], window: Window) -> GroupOutcome {
        let own = || flows.iter().filter(|flow| flow.group == index);
        let count = own().count();
        // Whole bins only: a last one that the run cuts short would look like a pause.
        self.bins.resize((window.until.as_ps() / self.bin.as_ps()) as usize, 0);
        let seconds = self.bin.as_secs_f64();
        GroupOutcome {
            name: self.name,
            flows: count,
            goodput_bps: own().map(|flow| flow.goodput_bps).sum(),
            throughput_bps: own().map(|flow| flow.throughput_bps).sum(),
            packets_sent: own().map(|flow| flow.packets_sent).sum(),
            retransmissions: own().map(|flow| flow.retransmissions).sum(),
            timeouts: own().map(|flow| flow.timeouts).sum(),
            mean_cwnd: own().map(|flow| flow.mean_cwnd).sum::<f64>() / count.max(1) as f64,
            throughput_bins: self.bins.iter().map(|b| *b as f64 * 8.0 / seconds).collect(),
            first_bin: window.from.as_ps().div_ceil(self.bin.as_ps()) as usize,
        }
    }
}

#[cfg(test)]
mod tests;
