//! The engine: virtual time, packets and links.
//!
//! The life of a packet: an endpoint or a source puts it into the slab and
//! [`Simulation::forward`]s it; each link says when it will be at the far end; there the next
//! link or the endpoint takes it.
//!
//! What keeps it fast is what it leaves out. A DropTail or RED queue without router feedback is
//! arithmetic: the departure of a packet is known when it arrives, so no event serves the
//! queue. A queue in which packets wait makes up for what was due when it is next needed. A link
//! whose packets all come over one other link, in order, is passed through at once, and so is a
//! receiver that acknowledges at once: no event brings them there. Packets on one wire arrive in
//! order, so only the first of them is in the event queue; where they may overtake each other, each
//! has an event. Timers move their deadline without
//! touching the queue unless it becomes earlier.

mod ahead;
mod component;
mod flow;
mod foreign;
mod group;
mod hop;
mod media;
mod names;
mod observer;
mod phases;
mod route;
mod sampler;
mod schedule;
mod slab;
mod source;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use windward_core::endpoint::feedback::{Direction, Granularity, News, Notice, Notification};
use windward_core::network::{ChannelConfig, Departure, Fate, Link};
use windward_core::packet::{Flags, Label, Packet, PacketKind};
use windward_core::units::{Duration, Rate, Time};

use self::ahead::MANY_LINKS;
use self::component::Component;
use self::flow::{Flow, Transfers, Transport};
use self::foreign::Foreign;
use self::group::Group;
use self::hop::{Hop, Span, Unordered};
use self::names::Names;
pub use self::observer::{Loss, LossCause, Observer, OnWire};
use self::route::{Onward, Routes, Step};
use self::sampler::Sampler;
use self::schedule::Schedule;
use self::slab::{PacketId, Slab, Slot};
use crate::outcome::{FlowOutcome, Outcome, Samples, jain};
use crate::scenario::{FlowConfig, Scenario, Traffic, arrivals};
use crate::stack::End;

/// A run that can be advanced in steps and looked at in between.
#[derive(Debug)]
pub struct Simulation {
    now: Time,
    /// What figures cover: from the end of the warm-up to the end of the run.
    window: Span,
    seed: u64,
    schedule: Schedule,
    slab: Slab,
    hops: Vec<Hop>,
    /// Those in which packets wait.
    queued: Vec<u32>,
    /// What is on the wires of links that may reorder, by link.
    unordered: BTreeMap<u32, Unordered>,
    /// What has left a queue, of which step, and when it arrives, until it is taken on.
    departed: VecDeque<(PacketId, Step, Time)>,
    link_names: Names,
    flow_names: Names,
    routes: Routes,
    /// Those of the scenario, and behind them the connections that come by themselves.
    flows: Vec<Flow>,
    transports: Vec<Option<Transport>>,
    transfers: Transfers,
    /// The connections of stacks; empty if there are none.
    foreign: Vec<Option<Box<Foreign>>>,
    groups: Vec<Group>,
    sampler: Option<Sampler>,
    observer: Option<Box<dyn Observer>>,
    warmed_up: bool,
    /// Are there so many links that it pays to look ahead, and when was that done last?
    looks_ahead: bool,
    /// Do packets wait in every link until they leave?
    holds: bool,
    looked_at: u64,
    events: u64,
    fingerprint: u64,
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
    /// Bytes that reached the receiver so far, those that had arrived before included; of a
    /// [stack](crate::stack), which alone knows, as `delivered_bytes`.
    pub arrived_bytes: u64,
    /// Bytes put through the bottleneck so far.
    pub bottleneck_bytes: u64,
}

/// One directed link at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSnapshot {
    /// Packets waiting behind the one in transmission.
    pub queue_packets: u64,
    /// Packets that have come to the queue so far.
    pub arrived: u64,
    /// Packets dropped by the queue so far.
    pub dropped: u64,
    /// Packets destroyed by the channel so far.
    pub corrupted: u64,
    /// Packets marked by the queue or its router so far.
    pub marked: u64,
    /// Bytes put on the wire so far.
    pub sent_bytes: u64,
    /// The value that its router sends out to the flows, if it does.
    pub signal: Option<f64>,
}

/// What is to change about a link.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LinkChange {
    /// Another rate.
    pub rate: Option<Rate>,
    /// Another delay, in place of a schedule too. Packets that take a shorter route overtake those
    /// that are under way.
    pub delay: Option<Duration>,
    /// Another loss model.
    pub channel: Option<ChannelConfig>,
}

/// Why a link cannot change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeError {
    /// The simulation was not made by [`Simulation::changeable`]: departures that lie ahead are
    /// settled.
    Fixed,
    /// Its rate is that of a trace or a schedule.
    Traced,
}

impl std::fmt::Display for ChangeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            ChangeError::Fixed => "the simulation was begun as one whose links do not change",
            ChangeError::Traced => {
                "the rate of the link is that of a trace or a schedule, and cannot change"
            }
        })
    }
}

impl std::error::Error for ChangeError {}

/// How much the engine may leave out; the outcome is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Everything that no figure needs.
    Fast,
    /// An event for every arrival at every queue, so that snapshots are exact.
    Snapshots,
    /// Packets wait in links until they leave, so that the link may change.
    Changes,
    /// An event for every departure too: the plain way, to check the others against and for
    /// observers, who hear of everything when it happens.
    Everything,
}

impl Simulation {
    /// Sets the scenario up at time zero.
    pub fn new(scenario: &Scenario) -> Self {
        let sampled = scenario.sample.is_some();
        Self::with_detail(scenario, if sampled { Detail::Snapshots } else { Detail::Fast })
    }

    /// As [`Simulation::new`], with snapshots of links exact at any instant; a little slower,
    /// with the same outcome.
    pub fn traced(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Snapshots)
    }

    /// As [`Simulation::traced`], with links that [can change](Simulation::change_link); slower
    /// again, with the same outcome while none does.
    pub fn changeable(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Changes)
    }

    /// As [`Simulation::traced`], with somebody who hears of every packet; slower, with the same
    /// outcome but for the number of events.
    pub fn observed(scenario: &Scenario, observer: Box<dyn Observer>) -> Self {
        let observer = Some(observer);
        Simulation { observer, ..Self::with_detail(scenario, Detail::Everything) }
    }

    fn with_detail(scenario: &Scenario, detail: Detail) -> Self {
        let Scenario { duration, warmup, seed, bin, sample, links, groups, .. } = scenario;
        let window = Span { from: Time::ZERO + *warmup, until: Time::ZERO + *duration };
        let (connections, drawn) = arrivals::connections(&scenario.flows, *seed, window.until);
        let transfers = Transfers { first: scenario.flows.len(), drawn };
        let flows: Cow<'_, [FlowConfig]> = match connections.is_empty() {
            true => Cow::Borrowed(&scenario.flows),
            false => Cow::Owned([&scenario.flows[..], &connections].concat()),
        };
        drop(connections);
        let (holds, is_prompt) = match detail {
            Detail::Fast | Detail::Snapshots => (false, false),
            Detail::Changes => (true, false),
            Detail::Everything => (true, true),
        };
        let mut hops: Vec<Hop> =
            links.iter().map(|link| Hop::new(link, *seed, window, holds, is_prompt)).collect();
        let (mut routes, of_flow) = Routes::new(&flows);
        let flow_states: Vec<Flow> = flows
            .iter()
            .zip(&of_flow)
            .map(|(flow, route)| Flow::new(flow, *route, scenario, detail != Detail::Fast))
            .collect();
        let transports: Vec<_> = flows
            .iter()
            .zip(&of_flow)
            .map(|(flow, route)| Transport::new(flow, *route, *seed))
            .collect();
        routes.mark_unordered(&hops);
        let mut foreign = Vec::new();
        if flows.iter().any(|flow| matches!(flow.kind.traffic, Traffic::Stack { .. })) {
            let with_routes = flows.iter().zip(&of_flow).enumerate();
            let of_flow = with_routes.map(|(index, (flow, route))| {
                Foreign::new(flow, *route, *seed, index >= transfers.first)
            });
            foreign = of_flow.collect();
        }
        if detail == Detail::Fast {
            let is_foreign = |flow: usize| foreign.get(flow).is_some_and(Option::is_some);
            routes.mark_express(&hops, &of_flow, &transports, is_foreign);
        }
        let mut schedule = Schedule::new(*seed);
        for (link, hop) in (0..).zip(&mut hops) {
            hop.follow(link, &mut schedule);
        }
        for (index, flow) in (0..).zip(&flow_states) {
            let first = flow.source.as_ref().map_or(flow.start, |source| source.next());
            if flows[index as usize].kind.traffic.arrivals().is_some() {
                continue; // Its connections start, not the pair of hosts.
            }
            schedule.push(Component::Application(index).id(), first);
        }
        Simulation {
            now: Time::ZERO,
            window,
            seed: *seed,
            schedule,
            slab: Slab::default(),
            queued: (0..)
                .zip(&hops)
                .filter(|(_, hop)| hop.queue.is_some())
                .map(|(i, _)| i)
                .collect(),
            hops,
            departed: VecDeque::new(),
            unordered: BTreeMap::new(),
            link_names: Names::of(links.iter().map(|link| &link.name)),
            flow_names: Names::of(flows.iter().map(|flow| &flow.name)),
            routes,
            flows: flow_states,
            transports,
            foreign,
            groups: groups.iter().map(|name| Group::new(name, *bin)).collect(),
            sampler: sample.map(|interval| Sampler::new(interval, transfers.first, links.len())),
            transfers,
            observer: None,
            warmed_up: false,
            looks_ahead: links.len() >= MANY_LINKS,
            holds,
            looked_at: 0,
            events: 0,
            fingerprint: 0,
        }
    }

    /// Virtual time reached so far.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// When something happens next by itself; [`Time::NEVER`] if nothing does. Whoever drives a simulation by a clock waits
    /// until then, or until somebody outside has something for it.
    pub fn next_event(&mut self) -> Time {
        self.schedule.next()
    }

    /// An end of the flow with that index, a connection of a [stack](crate::stack), may have something to send now, though no
    /// packet and no timer came to it: it is asked. Other flows are not.
    pub fn wake(&mut self, flow: usize, end: End) {
        self.transmit_foreign(flow as u32, end);
        self.take_on();
    }

    /// Handles every event up to and including `until`, but none after the scenario's end.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.window.until);
        while let Some(due) = self.sampler.as_ref().map(Sampler::due).filter(|due| *due <= until) {
            self.advance_to(due);
            self.sample();
        }
        self.advance_to(until);
    }

    /// Records where everything stands now.
    fn sample(&mut self) {
        let Some(mut sampler) = self.sampler.take() else { return };
        let cwnd = |flow| self.flow(flow).map(|flow| flow.cwnd);
        sampler.record_flows(cwnd);
        sampler.record_links(|link| self.link(link));
        sampler.next();
        self.sampler = Some(sampler);
    }

    fn advance_to(&mut self, until: Time) {
        if !self.warmed_up && until >= self.window.from {
            // Without a warm-up what happens at instant zero counts.
            if self.window.from > Time::ZERO {
                self.run_until(self.window.from);
            }
            self.end_warmup();
        }
        self.run_until(until);
        self.now = self.now.max(until);
        for at in 0..self.queued.len() {
            self.catch_up(self.queued[at], self.now);
        }
        self.take_on();
    }

    /// The connection with that index, or `None` for datagrams and for arrivals.
    pub fn flow(&self, index: usize) -> Option<FlowSnapshot> {
        if let Some(Some(foreign)) = self.foreign.get(index) {
            return Some(foreign.snapshot(self.bottleneck_bytes(index)));
        }
        let transport = self.transports[index].as_ref()?;
        let stats = transport.receiver.stats();
        let bytes = |packets: u64| packets * u64::from(transport.packet_size);
        Some(FlowSnapshot {
            cwnd: transport.sender.cwnd(),
            ssthresh: transport.sender.ssthresh(),
            srtt: transport.sender.rtt().srtt(),
            in_flight: transport.sender.in_flight(),
            delivered_bytes: bytes(stats.unique),
            arrived_bytes: bytes(stats.unique + stats.duplicates),
            bottleneck_bytes: self.bottleneck_bytes(index),
        })
    }

    /// Bytes that the flow with that index, of whatever kind, put through its bottleneck so far; exact
    /// with [`Simulation::traced`] only.
    pub fn bottleneck_bytes(&self, index: usize) -> u64 {
        let own = self.flows[index].sent_bytes(self.now);
        let transfers = self.transfers.of(index);
        own + self.flows[transfers].iter().map(|flow| flow.sent_bytes(self.now)).sum::<u64>()
    }

    /// The link with that index. `queue_packets` and `sent_bytes` are exact with
    /// [`Simulation::traced`] only.
    pub fn link(&mut self, index: usize) -> LinkSnapshot {
        let hop = &mut self.hops[index];
        let looked_at = hop.books.so_far();
        LinkSnapshot {
            queue_packets: hop.waiting(self.now),
            arrived: hop.books.arrived(),
            dropped: looked_at.dropped,
            corrupted: looked_at.corrupted,
            marked: hop.link.marked(),
            sent_bytes: hop.sent_bytes(self.now),
            signal: match &hop.link {
                Link::Fifo(_) => None,
                Link::Queued(link) => link.signal(),
            },
        }
    }

    /// Changes the link with that index now, that is after all that happens at this instant. What is
    /// in transmission finishes as it began; what waits, and what comes, finds the new rate, the new
    /// delay and the new channel. AQM, routers and a notifier that knows the channel know of it.
    /// Senders find out by themselves.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is changed then.
    pub fn change_link(&mut self, index: usize, change: &LinkChange) -> Result<(), ChangeError> {
        let hop = &mut self.hops[index];
        let Link::Queued(link) = &mut hop.link else { return Err(ChangeError::Fixed) };
        if !self.holds {
            return Err(ChangeError::Fixed);
        }
        if let Some(rate) = change.rate
            && !link.set_rate(self.now, rate)
        {
            return Err(ChangeError::Traced);
        }
        if let Some(channel) = &change.channel {
            link.set_channel(channel, self.seed, &self.link_names.get(index));
        }
        if let Some(delay) = change.delay {
            link.set_delay(delay);
            self.let_overtake(index as u32);
        }
        self.hops[index].follow(index as u32, &mut self.schedule);
        Ok(())
    }

    /// From now on packets of that link may overtake each other, those under way among them.
    fn let_overtake(&mut self, link: u32) {
        self.routes.mark_link_unordered(link);
        let wire = &mut self.hops[link as usize].wire;
        let mut is_first = true;
        while let Some(at) = wire.next_arrival() {
            let (id, _) = wire.pop(&self.slab);
            self.unordered.entry(link).or_default().push(at, id);
            // The first has an event already.
            if !std::mem::take(&mut is_first) {
                self.schedule.push(Component::Arrival(link).id(), at);
            }
        }
    }

    fn run_until(&mut self, until: Time) {
        // Made twice, so that who is not observed does not ask at each packet whether it is.
        if self.observer.is_some() {
            self.handle_events::<true>(until);
        } else {
            self.handle_events::<false>(until);
        }
    }

    #[inline(always)]
    fn handle_events<const OBSERVED: bool>(&mut self, until: Time) {
        while let Some((time, id)) = self.schedule.pop(until) {
            debug_assert!(time >= self.now, "time ran back");
            self.now = time;
            self.events += 1;
            if self.looks_ahead && self.schedule.group() != self.looked_at {
                self.looked_at = self.schedule.group();
                self.look_ahead();
            }
            match Component::from(id) {
                Component::Arrival(link) => self.on_arrival::<OBSERVED>(link),
                Component::Queue(link) => self.on_queue(link),
                Component::SenderTimer(flow) => self.on_sender_timer::<OBSERVED>(flow),
                Component::ReceiverTimer(flow) => self.on_receiver_timer::<OBSERVED>(flow),
                Component::Release(flow) => self.on_release(flow),
                Component::Application(flow) => self.on_application::<OBSERVED>(flow),
            }
            if !self.departed.is_empty() {
                self.take_on();
            }
        }
    }

    /// The first packet on the wire reaches the far end of a link.
    #[inline]
    fn on_arrival<const OBSERVED: bool>(&mut self, link: u32) {
        let hop = &mut self.hops[link as usize];
        if hop.wire.first().is_none() {
            return self.on_unordered_arrival::<OBSERVED>(link);
        }
        let (id, next) = hop.wire.pop(&self.slab);
        if next != Time::NEVER {
            self.schedule.push(Component::Arrival(link).id(), next);
        }
        self.arrive::<OBSERVED>(id);
    }

    /// A packet reaches the far end of a link that may reorder.
    #[cold]
    fn on_unordered_arrival<const OBSERVED: bool>(&mut self, link: u32) {
        let packet = self.unordered.get_mut(&link).and_then(Unordered::pop);
        debug_assert!(packet.is_some(), "an empty wire");
        if let Some(id) = packet {
            self.arrive::<OBSERVED>(id);
        }
    }

    /// A packet is at the far end of a link now.
    #[inline(always)]
    fn arrive<const OBSERVED: bool>(&mut self, id: PacketId) {
        if self.routes.step(self.slab[id].step - 1).is_last() {
            self.deliver::<OBSERVED>(id);
        } else {
            self.forward_inline(id, self.now);
        }
    }

    /// Offers a packet, at `at`, to the next link of its route and to those that follow
    /// directly.
    fn forward(&mut self, id: PacketId, at: Time) {
        self.forward_inline(id, at);
    }

    /// [`Simulation::forward`] for where most packets come by.
    #[inline(always)]
    fn forward_inline(&mut self, id: PacketId, mut at: Time) {
        let window = self.window;
        loop {
            let slot = &mut self.slab[id];
            let step = self.routes.step(slot.step);
            slot.step += 1;
            let link = step.link();
            let hop = &mut self.hops[link as usize];
            let size = slot.packet.size;
            if let Some(departure) = hop.pass(at, size) {
                if step.is_measured() {
                    let flow = &mut self.flows[slot.flow as usize];
                    flow.count(&mut self.groups, window, at, &departure, size);
                }
                if !hop.books.pass(window, at, size, &departure) {
                    self.slab.give_back(id);
                    return;
                }
                at = departure.arrival;
            } else if let Some(arrival) = self.offer(id, step, at) {
                at = arrival;
            } else {
                return;
            }
            match step.onward() {
                Onward::Event => return self.put_on_wire(link, id, at),
                Onward::Link => {}
                Onward::Receiver => {
                    if !self.receive(id, at) {
                        return;
                    }
                }
                Onward::Unordered => return self.put_among(link, id, at),
            }
        }
    }

    /// A packet that has left the link of `step` reaches its far end at `at`, which may lie ahead.
    fn go_on(&mut self, id: PacketId, step: Step, at: Time) {
        match step.onward() {
            Onward::Event => self.put_on_wire(step.link(), id, at),
            Onward::Link => self.forward(id, at),
            Onward::Receiver => {
                if self.receive(id, at) {
                    self.forward(id, at);
                }
            }
            Onward::Unordered => self.put_among(step.link(), id, at),
        }
    }

    /// A data packet reaches its receiver. Has it become an acknowledgment to be sent?
    fn receive(&mut self, id: PacketId, at: Time) -> bool {
        let slot = &mut self.slab[id];
        self.fingerprint = self.fingerprint.wrapping_add(mark(at, slot));
        let transport = self.transports[slot.flow as usize].as_mut();
        let answers =
            transport.is_some_and(|transport| transport.receive(at, &mut slot.packet, self.window));
        if !answers {
            self.slab.give_back(id);
        }
        answers
    }

    /// Offers a packet to a link that has to look at it. Returns when it arrives at the far end, if
    /// it does and that is known.
    fn offer(&mut self, id: PacketId, step: Step, at: Time) -> Option<Time> {
        let link = step.link();
        if self.hops[link as usize].link.next_event() <= at {
            self.catch_up(link, at);
        }
        let hop = &mut self.hops[link as usize];
        hop.books.rest().arrived += 1;
        let index = self.slab[id].flow;
        let flow = &self.flows[index as usize];
        let mut label = Label { flow: index, class: flow.class };
        if flow.is_foreign
            && let Some(seen) = self.slab.load(id).seen
        {
            label = seen.label;
        }
        match hop.link.offer(at, label, &mut self.slab[id].packet, id) {
            None => {
                self.catch_up(link, at);
                None
            }
            Some(Fate::Dropped { .. }) => {
                hop.books.rest().dropped += 1;
                self.lose(id);
                self.tell_of_loss(id, link, LossCause::Queue);
                self.give_up(id);
                self.hops[link as usize].follow(link, &mut self.schedule);
                None
            }
            Some(Fate::Sent { departure, .. }) => {
                hop.follow(link, &mut self.schedule);
                let arrival = self.send(id, step, at, &departure)?;
                if self.departed.is_empty() {
                    return Some(arrival);
                }
                // It must not overtake what left before.
                self.departed.push_back((id, step, arrival));
                None
            }
        }
    }

    /// A packet that came at `arrived` leaves a link. Returns when it arrives at the far end, if it
    /// does.
    #[inline(always)]
    fn send(
        &mut self,
        id: PacketId,
        step: Step,
        arrived: Time,
        departure: &Departure,
    ) -> Option<Time> {
        if self.observer.is_some() {
            self.tell_of_departure(id, step.link(), departure);
        }
        let hop = &mut self.hops[step.link() as usize];
        let Slot { flow, packet, .. } = &self.slab[id];
        let seen = hop.books.enter(self.window, arrived, packet.size, departure);
        let reports = hop.notifies() && packet.kind != PacketKind::Ack;
        if step.is_measured() {
            let flow = &mut self.flows[*flow as usize];
            flow.count(&mut self.groups, self.window, arrived, departure, packet.size);
        }
        if !(seen || departure.destroyed && self.on_corruption(step.link(), id, departure)) {
            self.slab.give_back(id);
            return None;
        }
        if reports {
            self.report_rate(step.link(), id, departure);
        }
        Some(departure.arrival)
    }

    #[inline(always)]
    fn put_on_wire(&mut self, link: u32, id: PacketId, arrival: Time) {
        let hop = &mut self.hops[link as usize];
        if hop.wire.push(&mut self.slab, arrival, id) {
            self.schedule.push(Component::Arrival(link).id(), arrival);
        }
    }

    /// A packet is on the wire of a link that may reorder.
    #[cold]
    fn put_among(&mut self, link: u32, id: PacketId, arrival: Time) {
        self.unordered.entry(link).or_default().push(arrival, id);
        self.schedule.push(Component::Arrival(link).id(), arrival);
    }

    fn on_queue(&mut self, link: u32) {
        let Some(queue) = &mut self.hops[link as usize].queue else { return };
        if queue.goes_off(&mut self.schedule, link, self.now) {
            self.catch_up(link, self.now);
        } else {
            self.events -= 1;
        }
    }

    /// Lets a link in which packets wait do all that was due by `until`.
    ///
    /// What happens inside it concerns nobody else before a packet reaches the far end, so that
    /// most departures and intervals of routers need no event: they are made up for when the next
    /// packet comes, or when the first is about to arrive.
    fn catch_up(&mut self, link: u32, until: Time) {
        while let Some(fate) = self.hops[link as usize].link.advance(until, &mut self.slab) {
            match fate {
                Fate::Dropped { handle, arrived, at } => {
                    self.hops[link as usize].books.drop(self.window, arrived, at);
                    self.lose(handle);
                    self.tell_of_loss(handle, link, LossCause::Queue);
                    self.give_up(handle);
                }
                Fate::Sent { handle, arrived, departure } => {
                    let step = self.routes.step(self.slab[handle].step - 1);
                    let Some(arrival) = self.send(handle, step, arrived, &departure) else {
                        continue;
                    };
                    self.departed.push_back((handle, step, arrival));
                }
            }
        }
        self.hops[link as usize].follow(link, &mut self.schedule);
    }

    /// Takes on what has left queues. In a list and not at once, because a route may be long.
    #[cold]
    fn take_on(&mut self) {
        while let Some((id, step, at)) = self.departed.pop_front() {
            self.go_on(id, step, at);
        }
    }

    /// A packet that is lost leaves the network.
    fn give_up(&mut self, id: PacketId) {
        if self.flows[self.slab[id].flow as usize].is_foreign {
            self.tell_connection(id);
        }
        self.slab.give_back(id);
    }

    /// The connection of a stack hears that a packet of it is lost.
    #[cold]
    fn tell_connection(&mut self, id: PacketId) {
        if let Some(Some(foreign)) = self.foreign.get_mut(self.slab[id].flow as usize) {
            foreign.lost(self.now, self.slab.load(id));
        }
    }

    /// Counts a packet that is lost with its flow.
    fn lose(&mut self, id: PacketId) {
        let Slot { flow, packet, .. } = &self.slab[id];
        let flow = &mut self.flows[*flow as usize];
        let is_back = match flow.is_foreign {
            true => self.slab.load(id).from == End::Receiver,
            false => packet.kind == PacketKind::Ack,
        };
        flow.lose(packet, is_back, self.window);
    }

    /// The channel of a link has destroyed a packet: counts it, lets the notifier tell of it, and
    /// returns whether the packet goes on, damaged, to tell of it itself.
    fn on_corruption(&mut self, link: u32, id: PacketId, departure: &Departure) -> bool {
        self.tell_of_loss(id, link, LossCause::Channel);
        if departure.arrival > self.window.until {
            return false;
        }
        self.lose(id);
        let notifies = self.hops[link as usize].notifies();
        let Slot { flow, packet, .. } = &mut self.slab[id];
        if self.flows[*flow as usize].is_foreign {
            let tells = self.slab.load(id).seen.is_some_and(|seen| seen.tells_of_damage);
            if notifies && tells {
                self.slab[id].packet.flags.insert(Flags::CORRUPTED);
                return true;
            }
            self.tell_connection(id);
            return false;
        }
        if packet.kind == PacketKind::Ack {
            return false;
        }
        let Some(transport) = &mut self.transports[*flow as usize] else { return false };
        let Some(notices) = &transport.notices else { return false };
        if !notifies {
            return false;
        }
        match notices.notification {
            Notification { granularity: Granularity::Cumulative, .. } => false,
            Notification { direction: Direction::Forward, .. } => {
                packet.flags.insert(Flags::CORRUPTED);
                true
            }
            Notification { direction: Direction::Backward, .. } => {
                let notice = Notice { at: departure.arrival, what: News::Corrupted(packet.seq) };
                transport.sender.on_notice(self.now, &notice);
                false
            }
        }
    }

    /// A data packet has reached the notifier at the end of a link, which may owe its sender a
    /// report of its rate.
    fn report_rate(&mut self, link: u32, id: PacketId, departure: &Departure) {
        const ASKED: Notification =
            Notification { granularity: Granularity::Cumulative, direction: Direction::Backward };
        let Slot { flow, step: next, packet } = &self.slab[id];
        let place = next - 1 - self.flows[*flow as usize].route.forward;
        let Some(transport) = &mut self.transports[*flow as usize] else { return };
        let Some(notices) = &mut transport.notices else { return };
        let at = departure.arrival;
        if notices.notification == ASKED
            && notices.report_is_due(place as usize, at)
            && let Some(probability) = self.hops[link as usize].survival(packet.size)
        {
            let notice = Notice { at, what: News::Survival { link, probability } };
            transport.sender.on_notice(self.now, &notice);
        }
    }

    /// An observer hears that a packet is on the wire of a link.
    #[cold]
    fn tell_of_departure(&mut self, id: PacketId, link: u32, departure: &Departure) {
        let Some(observer) = &mut self.observer else { return };
        let Slot { flow, packet, .. } = &self.slab[id];
        let load = self.flows[*flow as usize].is_foreign.then(|| self.slab.load(id));
        let is_back = match load {
            Some(load) => load.from == End::Receiver,
            None => packet.kind == PacketKind::Ack,
        };
        observer.on_wire(&OnWire {
            at: departure.end,
            link: link as usize,
            flow: *flow as usize,
            is_back,
            packet,
            payload: load.map(|load| load.payload.as_slice()),
            is_destroyed: departure.destroyed,
        });
    }

    /// An observer, if there is one, hears that a link loses a packet.
    #[cold]
    fn tell_of_loss(&mut self, id: PacketId, link: u32, cause: LossCause) {
        if let Some(observer) = &mut self.observer {
            let Slot { flow, packet, .. } = &self.slab[id];
            let loss = Loss { link: link as usize, cause };
            observer.on_loss(self.now, *flow as usize, packet, loss);
        }
    }

    /// A packet reaches its endpoint.
    #[inline]
    fn deliver<const OBSERVED: bool>(&mut self, id: PacketId) {
        let slot = &mut self.slab[id];
        let index = slot.flow;
        let now = self.now;
        self.fingerprint = self.fingerprint.wrapping_add(mark(now, slot));
        if OBSERVED
            && slot.packet.kind != PacketKind::Ack
            && let Some(observer) = &mut self.observer
        {
            observer.on_arrival(now, index as usize, &slot.packet);
        }
        let Some(transport) = &mut self.transports[index as usize] else {
            self.deliver_elsewhere(id, index);
            return;
        };
        if slot.packet.kind == PacketKind::Data {
            if transport.receive(now, &mut slot.packet, self.window) {
                if OBSERVED && let Some(observer) = &mut self.observer {
                    observer.on_answer(now, index as usize, &slot.packet);
                }
                let further = transport.multiplies_acks;
                self.forward(id, now);
                if further {
                    self.send_further_acks(index);
                }
            } else {
                self.slab.give_back(id);
            }
            self.follow_receiver_timer(index);
        } else {
            if OBSERVED {
                transport.sender.forget_report();
            }
            transport.sender.on_ack(now, &slot.packet);
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_ack(now, index as usize, &slot.packet, &transport.sender);
            }
            self.slab.give_back(id);
            self.transmit::<OBSERVED>(index);
        }
    }

    /// A packet of what is no transport of ours reaches its endpoint.
    fn deliver_elsewhere(&mut self, id: PacketId, index: u32) {
        let Some(Some(foreign)) = self.foreign.get_mut(index as usize) else {
            let flow = &mut self.flows[index as usize];
            let packet = &self.slab[id].packet;
            flow.deliver(&mut self.groups, self.window, self.now, packet);
            self.slab.give_back(id);
            return;
        };
        let (packet, load) = self.slab.with_load(id);
        if let Some(observer) = &mut self.observer {
            observer.on_stack_received(self.now, index as usize, load.from.other(), packet);
        }
        let end = foreign.receive(self.now, packet, load);
        self.slab.give_back(id);
        self.transmit_foreign(index, end);
    }

    /// Lets an end of a stack's connection send all it may, and looks after its timer.
    fn transmit_foreign(&mut self, index: u32, end: End) {
        self.tell_of_report(index, end);
        loop {
            let Some(Some(foreign)) = self.foreign.get_mut(index as usize) else { return };
            let id = self.slab.vacant();
            let (packet, load) = self.slab.with_load(id);
            if !foreign.poll_transmit(self.now, end, packet, load) {
                break;
            }
            if let Some(observer) = &mut self.observer {
                let facts = foreign.describe(load);
                observer.on_stack_sent(self.now, index as usize, end, packet, &facts);
            }
            let route = match end {
                End::Sender => foreign.route.forward,
                End::Receiver => foreign.route.reverse,
            };
            self.slab.claim(id, index, route);
            self.forward(id, self.now);
        }
        let Some(Some(foreign)) = self.foreign.get_mut(index as usize) else { return };
        if end == End::Sender {
            foreign.note(self.now);
        }
        self.tell_of_report(index, end);
        self.follow_foreign_timer(index, end);
    }

    /// An observer, if there is one, hears where the sender of a stack's connection stands.
    fn tell_of_report(&mut self, index: u32, end: End) {
        if end == End::Sender
            && let Some(observer) = &mut self.observer
            && let Some(Some(foreign)) = self.foreign.get(index as usize)
        {
            observer.on_stack_report(self.now, index as usize, &foreign.report());
        }
    }

    fn follow_foreign_timer(&mut self, index: u32, end: End) {
        let Some(Some(foreign)) = self.foreign.get_mut(index as usize) else { return };
        let deadline = foreign.next_timer(self.now, end);
        let timer = foreign_timer(index, end).id();
        foreign.timers[end as usize].bring_forward(&mut self.schedule, timer, deadline);
    }

    fn on_foreign_timer(&mut self, index: u32, end: End) {
        let Some(Some(foreign)) = self.foreign.get_mut(index as usize) else { return };
        let timer = foreign_timer(index, end).id();
        if !foreign.timers[end as usize].goes_off(&mut self.schedule, timer, self.now) {
            self.events -= 1;
            return;
        }
        if foreign.on_timer(self.now, end) {
            self.transmit_foreign(index, end);
        } else {
            self.follow_foreign_timer(index, end);
        }
    }

    /// Lets a sender send all it may, and looks after its timer.
    fn transmit<const OBSERVED: bool>(&mut self, index: u32) {
        loop {
            let Some(transport) = &mut self.transports[index as usize] else {
                return;
            };
            let id = self.slab.vacant();
            if !transport.sender.poll_transmit(self.now, &mut self.slab[id].packet) {
                break;
            }
            self.slab.claim(id, index, transport.route.forward);
            if OBSERVED && let Some(observer) = &mut self.observer {
                let packet = &self.slab[id].packet;
                observer.on_sent(self.now, index as usize, packet, &transport.sender);
            }
            match &mut transport.outbox {
                None => self.forward(id, self.now),
                Some(outbox) => {
                    if let Some(first) = outbox.post(self.now, id) {
                        self.schedule.push(Component::Release(index).id(), first);
                    }
                }
            }
        }
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        if OBSERVED && let Some(observer) = &mut self.observer {
            observer.on_settled(self.now, index as usize, &transport.sender);
        }
        if transport.completed.is_none() && transport.sender.is_done() {
            transport.completed = transport.packets.map(|_| self.now);
        }
        let deadline = transport.sender.next_timer();
        let timer = Component::SenderTimer(index).id();
        transport.sender_timer.bring_forward(&mut self.schedule, timer, deadline);
    }

    /// A receiver that misbehaves sends more than an honest one would.
    #[cold]
    fn send_further_acks(&mut self, index: u32) {
        loop {
            let Some(transport) = &mut self.transports[index as usize] else { return };
            let id = self.slab.vacant();
            if !transport.receiver.further_ack(&mut self.slab[id].packet) {
                return;
            }
            self.slab.claim(id, index, transport.route.reverse);
            if let Some(observer) = &mut self.observer {
                observer.on_answer(self.now, index as usize, &self.slab[id].packet);
            }
            self.forward(id, self.now);
        }
    }

    fn follow_receiver_timer(&mut self, index: u32) {
        let Some(transport) = &mut self.transports[index as usize] else { return };
        if transport.delays_acks {
            let deadline = transport.receiver.next_timer();
            let timer = Component::ReceiverTimer(index).id();
            transport.receiver_timer.bring_forward(&mut self.schedule, timer, deadline);
        }
    }

    fn on_sender_timer<const OBSERVED: bool>(&mut self, index: u32) {
        let Some(transport) = &mut self.transports[index as usize] else {
            self.on_foreign_timer(index, End::Sender);
            return;
        };
        let timer = Component::SenderTimer(index).id();
        if !transport.sender_timer.goes_off(&mut self.schedule, timer, self.now) {
            self.events -= 1;
            return;
        }
        if transport.sender.next_timer() <= self.now {
            let of_recovery = OBSERVED && transport.sender.recovery_timer() <= self.now;
            if OBSERVED {
                transport.sender.forget_report();
            }
            transport.sender.on_timer(self.now);
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_timer(self.now, index as usize, of_recovery, &transport.sender);
            }
        }
        self.transmit::<OBSERVED>(index);
    }

    fn on_receiver_timer<const OBSERVED: bool>(&mut self, index: u32) {
        let Some(transport) = &mut self.transports[index as usize] else {
            self.on_foreign_timer(index, End::Receiver);
            return;
        };
        let timer = Component::ReceiverTimer(index).id();
        if !transport.receiver_timer.goes_off(&mut self.schedule, timer, self.now) {
            self.events -= 1;
            return;
        }
        let id = self.slab.vacant();
        if transport.receiver.on_timer(self.now, &mut self.slab[id].packet) {
            self.slab.claim(id, index, transport.route.reverse);
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_answer(self.now, index as usize, &self.slab[id].packet);
            }
            let further = transport.multiplies_acks;
            self.forward(id, self.now);
            if further {
                self.send_further_acks(index);
            }
        }
        self.follow_receiver_timer(index);
    }

    /// A packet has been processed: it leaves the sender.
    fn on_release(&mut self, index: u32) {
        let outbox = self.transports[index as usize].as_mut().and_then(|t| t.outbox.as_mut());
        let Some(outbox) = outbox else { return };
        let Some((_, id)) = outbox.packets.pop_front() else { return };
        if let Some((next, _)) = outbox.packets.front() {
            self.schedule.push(Component::Release(index).id(), *next);
        }
        self.forward(id, self.now);
    }

    /// An application starts or stops offering data, or a source sends a datagram.
    fn on_application<const OBSERVED: bool>(&mut self, index: u32) {
        let flow = &mut self.flows[index as usize];
        if let Some(source) = &mut flow.source {
            let (kind, timestamp) = (PacketKind::Datagram, self.now);
            let mut packet = Packet { kind, timestamp, ..Packet::default() };
            source.emit(&mut packet, self.window);
            self.schedule.push(Component::Application(index).id(), source.next());
            let id = self.slab.vacant();
            self.slab.claim(id, index, flow.route.forward);
            self.slab[id].packet = packet;
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_datagram(self.now, index as usize, &self.slab[id].packet);
            }
            self.forward(id, self.now);
            return;
        }
        let stop = flow.stop;
        if let Some(Some(foreign)) = self.foreign.get_mut(index as usize) {
            if self.now < stop {
                foreign.start(self.now);
                self.schedule.push(Component::Application(index).id(), stop);
            } else {
                foreign.stop(self.now);
            }
            self.transmit_foreign(index, End::Sender);
            return;
        }
        let Some(transport) = &mut self.transports[index as usize] else {
            return;
        };
        if self.now < stop {
            transport.sender.offer_until(transport.packets.unwrap_or(u64::MAX));
            self.schedule.push(Component::Application(index).id(), stop);
        } else {
            transport.sender.offer_until(0);
        }
        self.transmit::<OBSERVED>(index);
    }

    /// Remembers what was counted before the figures begin.
    fn end_warmup(&mut self) {
        self.warmed_up = true;
        let now = self.window.from;
        for (flow, transport) in self.flows.iter_mut().zip(&mut self.transports) {
            flow.datagrams_at_warmup = flow.datagrams;
            flow.sent_at_warmup = flow.source.as_ref().map_or(0, |source| source.sent);
            if let Some(transport) = transport
                && now > Time::ZERO
            {
                transport.at_warmup = Some(Box::new(transport.sender.stats(now)));
            }
        }
        for foreign in self.foreign.iter_mut().flatten() {
            foreign.end_warmup(now);
        }
    }

    /// Adds up what has been until now, as if the scenario had been that long. A run that has not come to the end of its warm-up
    /// has no figures of flows. Begun as [`Simulation::changeable`] it counts nothing that still waits; what is on a wire counts as
    /// delivered.
    pub fn stop(mut self) -> Outcome {
        // A run without length has no rates either.
        self.window.until = self.now.max(Time::from_ps(1));
        if self.window.from >= self.window.until {
            self.window.from = Time::ZERO;
        }
        self.finish()
    }

    /// Runs to the end and adds up.
    pub fn finish(mut self) -> Outcome {
        self.advance(self.window.until);
        let window = self.window;
        // What has served its time makes room for the outcome.
        drop((self.schedule, self.slab));
        let phases: Vec<_> = (0..)
            .zip(&self.hops)
            .map(|(link, hop)| {
                phases::outcome(link, hop, &self.routes, &self.flows, &self.transports, window)
                    .map(Box::new)
            })
            .collect();
        let mut foreign = self.foreign.into_iter();
        let mut is_connection = Vec::with_capacity(self.transports.len());
        // The first of the two has room for the rows: they are written over it.
        let mut both = self.transports.into_iter().zip(self.flows).enumerate();
        let mut flows: Vec<FlowOutcome> = both
            .by_ref()
            .take(self.transfers.first)
            .map(|(index, (transport, flow))| {
                let name = self.flow_names.get(index);
                let foreign = foreign.next().flatten();
                is_connection.push(transport.is_some() || foreign.is_some());
                match (transport, foreign) {
                    (Some(mut transport), _) => {
                        flow.transport_outcome(name, &mut transport, window)
                    }
                    (None, Some(foreign)) => foreign.outcome(flow, name, window),
                    (None, None) => flow.datagram_outcome(name, window),
                }
            })
            .collect();
        let rest = both.map(|(_, (transport, flow))| (transport, foreign.next().flatten(), flow));
        let transfers = self.transfers.close(rest, &mut flows, window);
        let goodputs = flows.iter().zip(is_connection).filter(|(_, connection)| *connection);
        let jain = jain(goodputs.map(|(flow, _)| flow.goodput_bps));
        let groups = Group::close(self.groups, &flows, window);
        let hops = self.hops.into_iter().zip(phases).enumerate();
        let links: Vec<_> = hops
            .map(|(index, (hop, phases))| {
                let unordered = self.unordered.get(&(index as u32));
                let reordered = unordered.map_or(0, |wire| wire.reordered);
                hop.close(self.link_names.get(index), window, phases, reordered)
            })
            .collect();
        Outcome {
            seed: self.seed,
            duration: window.until.since(Time::ZERO),
            warmup: window.from.since(Time::ZERO),
            flows,
            transfers,
            groups,
            jain,
            samples: self.sampler.map(Samples::from),
            packet_hops: links.iter().map(|link| link.delivered).sum(),
            links,
            events: self.events,
            fingerprint: self.fingerprint,
        }
    }
}

/// The timer of an end of a stack's connection.
fn foreign_timer(index: u32, end: End) -> Component {
    match end {
        End::Sender => Component::SenderTimer(index),
        End::Receiver => Component::ReceiverTimer(index),
    }
}

/// Runs a scenario from start to end.
pub fn run(scenario: &Scenario) -> Outcome {
    Simulation::new(scenario).finish()
}

/// A delivery, as the fingerprint sees it. They are added up: what the engine takes ahead of time
/// must not change the sum.
#[inline]
fn mark(at: Time, slot: &Slot) -> u64 {
    let Slot { flow, packet: Packet { kind, seq, .. }, .. } = slot;
    let what = seq.rotate_left(40) ^ u64::from(*flow).rotate_left(20) ^ *kind as u64;
    let mixed = (at.as_ps() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests;
