//! The engine: virtual time, packets and links.
//!
//! An endpoint or a source puts a packet into the slab and [`Simulation::forward`]s it. Each link
//! returns the time at which the packet is at the far end, where the next link or the endpoint
//! takes it.
//!
//! The engine is fast because it leaves events out. A DropTail or RED queue without router feedback
//! is arithmetic: the departure of a packet is known when it arrives, so no event serves the queue.
//! A queue in which packets wait does its due work when it is next needed. A link whose packets all
//! arrive over one other link, in order, is passed through at once, and so is a receiver that
//! acknowledges at once: no event brings packets there. Packets on one wire arrive in order, so
//! only the first of them is in the event queue; where they may overtake each other, each has an
//! event. Timers move their deadline without touching the queue unless it becomes earlier.

mod adaptive;
mod ahead;
mod change;
mod component;
mod datagrams;
mod flow;
mod flows;
mod group;
mod guarded;
mod hop;
mod media;
mod medium;
mod network;
mod observer;
mod parallel;
mod phases;
mod route;
mod sampler;
mod schedule;
mod slab;
mod snapshot;
mod source;
mod stack_connection;
mod transport;
mod wlan;

use std::borrow::Cow;

use windward_core::endpoint::feedback::{Direction, Granularity, News, Notice, Notification};
use windward_core::network::{Departure, Fate, Link};
use windward_core::packet::{Flags, Label, Packet, PacketKind};
use windward_core::units::Time;

use self::ahead::Ahead;
pub use self::change::{ChangeError, LinkChange};
use self::component::Component;
use self::flow::{Ends, Flow};
use self::flows::{FlowOutcomes, Flows, Transfers};
use self::group::Group;
use self::hop::{Hop, Span};
use self::network::Network;
pub use self::observer::{Loss, LossCause, Observer, OnWire};
use self::parallel::Border;
pub use self::parallel::{Advance, ParallelSimulation};
use self::route::{Onward, Routes, Step};
use self::sampler::Sampler;
use self::schedule::Schedule;
use self::slab::{PacketId, Slot};
pub use self::snapshot::{FlowSnapshot, LinkSnapshot};
use self::wlan::Wlan;
use crate::outcome::{Outcome, Samples};
use crate::partition::MANY_LINKS;
use crate::scenario::{FlowConfig, Scenario, arrivals};
use crate::stack::End;
use windward_scenario::name::Names;

/// A run that can be advanced in steps and inspected in between.
#[derive(Debug)]
pub struct Simulation {
    now: Time,
    /// Measured part of the run: from the end of the warm-up to the end.
    window: Span,
    seed: u64,
    schedule: Schedule,
    network: Network,
    flows: Flows,
    sampler: Option<Sampler>,
    observer: Option<Box<dyn Observer>>,
    warmed_up: bool,
    /// Place in the schedule of the last look [`Ahead`]; `None` with too few links for that.
    looked_at: Option<u64>,
    events: u64,
    fingerprint: u64,
}

/// The events that the engine leaves out; the outcome is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Leaves out every event that the outcome does not need.
    Fast,
    /// Has an event for every arrival at every queue, so that snapshots are exact.
    Snapshots,
    /// Keeps packets in links until they leave, so that links may change.
    Changes,
    /// Has an event for every departure too: the reference for the others, and for observers, which
    /// are called for each event at its instant.
    Everything,
}

impl Detail {
    /// The least that the outcome of a scenario needs.
    fn of(scenario: &Scenario) -> Self {
        if scenario.sample.is_some() { Detail::Snapshots } else { Detail::Fast }
    }
}

impl Simulation {
    /// A simulation of the scenario at time zero.
    pub fn new(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::of(scenario))
    }

    /// [`Simulation::new`] with snapshots of links that are exact at any instant; a little slower,
    /// with the same outcome.
    pub fn traced(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Snapshots)
    }

    /// [`Simulation::traced`] with links that [can change](Simulation::change_link); slower again,
    /// with the same outcome while none does.
    pub fn changeable(scenario: &Scenario) -> Self {
        Self::with_detail(scenario, Detail::Changes)
    }

    /// [`Simulation::traced`] with an observer of every packet; slower, with the same outcome
    /// except for the number of events.
    pub fn observed(scenario: &Scenario, observer: Box<dyn Observer>) -> Self {
        let observer = Some(observer);
        Simulation { observer, ..Self::with_detail(scenario, Detail::Everything) }
    }

    fn with_detail(scenario: &Scenario, detail: Detail) -> Self {
        Self::with_border(scenario, detail, None)
    }

    /// A simulation of the whole, or of the nodes that one thread owns.
    fn with_border(scenario: &Scenario, detail: Detail, border: Option<Border>) -> Self {
        let Scenario { duration, warmup, seed, bin, sample, links, wlans, groups, .. } = scenario;
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
        let of = border.as_ref();
        let sends_on = |link: usize| of.is_none_or(|border| border.sends_on(link));
        let is_cut = |link: usize| of.is_some_and(|border| border.is_cut(link));
        let has_sender = |flow: &FlowConfig| flow.forward.first().is_none_or(|l| sends_on(*l));
        let has_receiver = |flow: &FlowConfig| {
            of.zip(flow.forward.last()).is_none_or(|(border, link)| border.receives_from(*link))
        };
        let mut hops: Vec<Hop> = links
            .iter()
            .enumerate()
            .map(|(index, link)| {
                // Packets leave a cut link by an event, in time for the other thread.
                Hop::new(link, *seed, window, holds, is_prompt || is_cut(index))
            })
            .collect();
        let (mut routes, of_flow) = Routes::new(&flows);
        let snapshots = detail != Detail::Fast;
        let mut all: Vec<Flow> = flows
            .iter()
            .zip(of_flow)
            .enumerate()
            .map(|(index, (flow, route))| {
                let has_end = has_sender(flow) || has_receiver(flow);
                Flow::new(flow, route, scenario, snapshots, index >= transfers.first, has_end)
            })
            .collect();
        routes.mark_apart(|link| !hops[link].keeps_order() || is_cut(link));
        if detail == Detail::Fast {
            let answers: Vec<_> = all.iter().map(|flow| (flow.route, flow.answers())).collect();
            routes.mark_express(&hops, &answers);
        }
        let mut schedule = Schedule::new(*seed);
        for (link, hop) in (0..).zip(&mut hops).filter(|(link, _)| sends_on(*link as usize)) {
            hop.follow(link, &mut schedule);
        }
        let senders = (0..).zip(&mut all).zip(flows.iter()).filter(|(_, flow)| has_sender(flow));
        for ((index, flow), _) in senders {
            flow.begin(index, &mut schedule);
        }
        let link_names = Names::of(links.iter().map(|link| &link.name));
        let wlans = Wlan::all(wlans, links, *seed);
        Simulation {
            now: Time::ZERO,
            window,
            seed: *seed,
            schedule,
            network: Network::new(hops, wlans, routes, link_names, holds, border),
            sampler: sample.map(|interval| Sampler::new(interval, transfers.first, links.len())),
            flows: Flows {
                all,
                transfers,
                groups: groups.iter().map(|name| Group::new(name, *bin)).collect(),
                names: Names::of(flows.iter().map(|flow| &flow.name)),
            },
            observer: None,
            warmed_up: false,
            looked_at: (links.len() >= MANY_LINKS).then_some(0),
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

    /// Time of the next event; [`Time::NEVER`] if there is none. A program that drives a simulation
    /// by a clock waits until then, or until a packet comes from outside.
    pub fn next_event(&mut self) -> Time {
        self.schedule.next()
    }

    /// Asks an end of a connection of a [stack](crate::stack) for packets, although neither a
    /// packet nor a timer reached it. Has no effect on other flows.
    pub fn wake(&mut self, flow: usize, end: End) {
        self.transmit_stack(flow as u32, end);
        self.take_on();
    }

    /// Handles every event up to and including `until`, but none after the end of the scenario.
    pub fn advance(&mut self, until: Time) {
        let until = until.min(self.window.until);
        self.sample_until(until);
        self.advance_to(until);
    }

    /// Records the state of all flows and links at each instant up to `until` that the scenario
    /// asks for.
    fn sample_until(&mut self, until: Time) {
        while let Some(due) = self.sampler.as_ref().map(Sampler::due).filter(|due| *due <= until) {
            self.advance_to(due);
            self.sample();
        }
    }

    fn sample(&mut self) {
        let Some(mut sampler) = self.sampler.take() else { return };
        let cwnd = |flow| self.flow(flow).map(|flow| flow.cwnd);
        sampler.record_flows(cwnd);
        sampler.record_links(|link| self.link(link));
        sampler.next();
        self.sampler = Some(sampler);
    }

    fn advance_to(&mut self, until: Time) {
        self.turn_to(until);
        let mut at = 0;
        while let Some(link) = self.network.queued(at) {
            self.catch_up(link, self.now);
            at += 1;
        }
        self.take_on();
    }

    /// Handles every event up to and including `until`; links do the work that can wait later.
    fn turn_to(&mut self, until: Time) {
        if !self.warmed_up && until >= self.window.from {
            // Without a warm-up, events at instant zero count.
            if self.window.from > Time::ZERO {
                self.run_until(self.window.from);
            }
            self.end_warmup();
        }
        self.run_until(until);
        self.now = self.now.max(until);
    }

    /// State of the connection with that index; `None` for datagrams and for arrivals.
    pub fn flow(&self, index: usize) -> Option<FlowSnapshot> {
        self.flows.all[index].snapshot(self.bottleneck_bytes(index))
    }

    /// Bytes that the flow with that index, of any kind, has put through its bottleneck so far;
    /// exact only with [`Simulation::traced`].
    pub fn bottleneck_bytes(&self, index: usize) -> u64 {
        self.flows.bottleneck_bytes(index, self.now)
    }

    /// State of the link with that index. `queue_packets` and `sent_bytes` are exact only with
    /// [`Simulation::traced`].
    pub fn link(&mut self, index: usize) -> LinkSnapshot {
        let hop = &mut self.network.hops[index];
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

    /// Changes the link with that index now, after all events of this instant. The packet in
    /// transmission finishes as it began; packets that wait or arrive later get the new rate, the
    /// new delay and the new channel. AQMs, routers and a notifier that knows the channel are
    /// informed; senders are not.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing is changed then.
    pub fn change_link(&mut self, index: usize, change: &LinkChange) -> Result<(), ChangeError> {
        let Network { hops, names, holds, .. } = &mut self.network;
        let Link::Queued(link) = &mut hops[index].link else { return Err(ChangeError::Fixed) };
        if !*holds {
            return Err(ChangeError::Fixed);
        }
        if let Some(rate) = change.rate
            && !link.set_rate(self.now, rate)
        {
            return Err(ChangeError::Traced);
        }
        if let Some(channel) = &change.channel {
            link.set_channel(channel, self.seed, &names.get(index));
        }
        if let Some(delay) = change.delay {
            link.set_delay(delay);
            self.network.let_overtake(&mut self.schedule, index as u32);
        }
        self.network.hops[index].follow(index as u32, &mut self.schedule);
        Ok(())
    }

    fn run_until(&mut self, until: Time) {
        // Compiled twice, so that a run without an observer does not check for one at each packet.
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
            if let Some(looked_at) = &mut self.looked_at
                && self.schedule.group() != *looked_at
            {
                *looked_at = self.schedule.group();
                let Simulation { schedule, network, flows, .. } = self;
                Ahead { schedule, network, flows: &flows.all }.touch();
            }
            match Component::from(id) {
                Component::Arrival(link) => self.on_arrival::<OBSERVED>(link),
                Component::Queue(link) => self.on_queue(link),
                Component::Medium(wlan) => self.on_medium(wlan),
                Component::SenderTimer(flow) => self.on_sender_timer::<OBSERVED>(flow),
                Component::ReceiverTimer(flow) => self.on_receiver_timer::<OBSERVED>(flow),
                Component::Release(flow) => self.on_release(flow),
                Component::Application(flow) => self.on_application::<OBSERVED>(flow),
            }
            if !self.network.departed.is_empty() {
                self.take_on();
            }
        }
    }

    /// The first packet on the wire reaches the far end of a link.
    #[inline]
    fn on_arrival<const OBSERVED: bool>(&mut self, link: u32) {
        let Network { hops, slab, .. } = &mut self.network;
        let hop = &mut hops[link as usize];
        if hop.wire.first().is_none() {
            return self.on_unordered_arrival::<OBSERVED>(link);
        }
        let (id, next) = hop.wire.pop(slab);
        if next != Time::NEVER {
            self.schedule.push(Component::Arrival(link).id(), next);
            // Nearer than [`Ahead`] looks, if packets follow each other closely.
            if self.looked_at.is_some()
                && let Some(first) = hop.wire.first()
            {
                slab.prefetch(first);
            }
        }
        self.arrive::<OBSERVED>(id);
    }

    /// A packet reaches the far end of a link that may reorder.
    #[cold]
    fn on_unordered_arrival<const OBSERVED: bool>(&mut self, link: u32) {
        let packet = self.network.take_unordered(link);
        debug_assert!(packet.is_some(), "an empty wire");
        if let Some(id) = packet {
            self.arrive::<OBSERVED>(id);
        }
    }

    /// A packet is at the far end of a link now.
    #[inline(always)]
    fn arrive<const OBSERVED: bool>(&mut self, id: PacketId) {
        if self.network.routes.step(self.network.slab[id].step - 1).is_last() {
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

    /// [`Simulation::forward`], inlined where most packets pass.
    #[inline(always)]
    fn forward_inline(&mut self, id: PacketId, mut at: Time) {
        let window = self.window;
        loop {
            let Network { slab, routes, hops, .. } = &mut self.network;
            let slot = &mut slab[id];
            let step = routes.step(slot.step);
            slot.step += 1;
            let link = step.link();
            let hop = &mut hops[link as usize];
            let size = slot.packet.size;
            if let Some(departure) = hop.pass(at, size) {
                if step.is_measured() {
                    self.flows.count(slot.flow, window, at, &departure, size);
                }
                if !hop.books.pass(window, at, size, &departure) {
                    slab.give_back(id);
                    return;
                }
                at = departure.arrival;
            } else if let Some(arrival) = self.offer(id, step, at) {
                at = arrival;
            } else {
                return;
            }
            match step.onward() {
                Onward::Event => return self.network.put_on_wire(&mut self.schedule, link, id, at),
                Onward::Link => {}
                Onward::Receiver => {
                    if !self.receive(id, at) {
                        return;
                    }
                }
                Onward::Apart => {
                    return self.network.put_apart(&mut self.schedule, link, id, at);
                }
            }
        }
    }

    /// A packet that has left the link of `step` reaches its far end at `at`, which may lie ahead.
    fn go_on(&mut self, id: PacketId, step: Step, at: Time) {
        let link = step.link();
        match step.onward() {
            Onward::Event => self.network.put_on_wire(&mut self.schedule, link, id, at),
            Onward::Link => self.forward(id, at),
            Onward::Receiver => {
                if self.receive(id, at) {
                    self.forward(id, at);
                }
            }
            Onward::Apart => self.network.put_apart(&mut self.schedule, link, id, at),
        }
    }

    /// Hands a data packet to its receiver. Returns true if it has become an ACK to be sent.
    fn receive(&mut self, id: PacketId, at: Time) -> bool {
        let slot = &mut self.network.slab[id];
        self.fingerprint = self.fingerprint.wrapping_add(mark(at, slot));
        let answers = match &mut self.flows.all[slot.flow as usize].ends {
            Ends::Transport(transport) => transport.receive(at, &mut slot.packet, self.window),
            _ => false,
        };
        if !answers {
            self.network.slab.give_back(id);
        }
        answers
    }

    /// Offers a packet to a link that has to inspect it. Returns its arrival at the far end, if it
    /// arrives and that is known.
    fn offer(&mut self, id: PacketId, step: Step, at: Time) -> Option<Time> {
        let link = step.link();
        if self.network.hop(link).link.next_event() <= at {
            self.catch_up(link, at);
        }
        let Network { hops, slab, .. } = &mut self.network;
        let hop = &mut hops[link as usize];
        hop.books.rest().arrived += 1;
        let index = slab[id].flow;
        let flow = &self.flows.all[index as usize];
        let mut label = Label { flow: index, class: flow.class };
        if flow.is_stack()
            && let Some(seen) = slab.load(id).seen
        {
            label = seen.label;
        }
        match hop.link.offer(at, label, &mut slab[id].packet, id) {
            None => {
                self.catch_up(link, at);
                self.contend(link, at);
                None
            }
            Some(Fate::Dropped { .. }) => {
                hop.books.rest().dropped += 1;
                self.lose(id);
                self.tell_of_loss(id, link, LossCause::Queue);
                self.give_up(id);
                self.network.hop(link).follow(link, &mut self.schedule);
                None
            }
            Some(Fate::Sent { departure, .. }) => {
                hop.follow(link, &mut self.schedule);
                let arrival = self.send(id, step, at, &departure)?;
                let departed = &mut self.network.departed;
                if departed.is_empty() {
                    return Some(arrival);
                }
                // It must not overtake packets that left before.
                departed.push_back((id, step, arrival));
                None
            }
        }
    }

    /// Lets a packet that arrived at `arrived` leave a link. Returns its arrival at the far end, if
    /// it arrives.
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
        let Network { hops, slab, .. } = &mut self.network;
        let hop = &mut hops[step.link() as usize];
        let Slot { flow, packet, .. } = &slab[id];
        let seen = hop.books.enter(self.window, arrived, packet.size, departure);
        let reports = hop.notifies() && packet.kind != PacketKind::Ack;
        if step.is_measured() {
            self.flows.count(*flow, self.window, arrived, departure, packet.size);
        }
        if !(seen || departure.destroyed && self.on_corruption(step.link(), id, departure)) {
            self.network.slab.give_back(id);
            return None;
        }
        if reports {
            self.report_rate(step.link(), id, departure);
        }
        Some(departure.arrival)
    }

    fn on_queue(&mut self, link: u32) {
        let Some(queue) = &mut self.network.hop(link).queue else { return };
        if queue.goes_off(&mut self.schedule, link, self.now) {
            self.catch_up(link, self.now);
        } else {
            self.events -= 1;
        }
    }

    /// Lets a link in which packets wait do all work that was due by `until`.
    ///
    /// Events inside a link have no effect elsewhere before a packet reaches the far end. So most
    /// departures and intervals of routers have no event: they are done when the next packet
    /// arrives, or when the first is about to reach the far end.
    fn catch_up(&mut self, link: u32, until: Time) {
        loop {
            let Network { hops, slab, .. } = &mut self.network;
            let hop = &mut hops[link as usize];
            let Some(fate) = hop.link.advance(until, slab) else { break };
            self.decide(link, fate);
        }
        self.network.hop(link).follow(link, &mut self.schedule);
    }

    /// Takes the fate of a packet that waited in a link.
    #[inline(always)]
    fn decide(&mut self, link: u32, fate: Fate<PacketId>) {
        let Network { hops, slab, routes, .. } = &mut self.network;
        match fate {
            Fate::Dropped { handle, arrived, at } => {
                hops[link as usize].books.drop(self.window, arrived, at);
                self.lose(handle);
                self.tell_of_loss(handle, link, LossCause::Queue);
                self.give_up(handle);
            }
            Fate::Sent { handle, arrived, departure } => {
                let step = routes.step(slab[handle].step - 1);
                if let Some(arrival) = self.send(handle, step, arrived, &departure) {
                    self.network.departed.push_back((handle, step, arrival));
                }
            }
        }
    }

    /// Forwards the packets that have left queues. They are in a list, since recursion over a long
    /// route would be deep.
    #[cold]
    fn take_on(&mut self) {
        while let Some((id, step, at)) = self.network.departed.pop_front() {
            self.go_on(id, step, at);
        }
    }

    /// Removes a lost packet from the network.
    fn give_up(&mut self, id: PacketId) {
        self.tell_connection(id);
        self.network.slab.give_back(id);
    }

    /// Reports a lost packet to its connection of a stack.
    fn tell_connection(&mut self, id: PacketId) {
        let slab = &self.network.slab;
        if let Ends::Stack(connection) = &mut self.flows.all[slab[id].flow as usize].ends {
            connection.lost(self.now, slab.load(id));
        }
    }

    /// Counts a lost packet in its flow.
    fn lose(&mut self, id: PacketId) {
        let slab = &self.network.slab;
        let Slot { flow, packet, .. } = &slab[id];
        let flow = &mut self.flows.all[*flow as usize];
        let is_back = match flow.ends {
            Ends::Stack(_) => slab.load(id).from == End::Receiver,
            _ => packet.kind == PacketKind::Ack,
        };
        flow.lose(packet, is_back, self.window);
    }

    /// Counts a packet that the channel of a link has destroyed, and lets the notifier report it.
    /// Returns true if the packet goes on, damaged, to report it itself.
    fn on_corruption(&mut self, link: u32, id: PacketId, departure: &Departure) -> bool {
        self.tell_of_loss(id, link, LossCause::Channel);
        if departure.arrival > self.window.until {
            return false;
        }
        self.lose(id);
        let Network { hops, slab, .. } = &mut self.network;
        let notifies = hops[link as usize].notifies();
        let index = slab[id].flow as usize;
        let transport = match &mut self.flows.all[index].ends {
            Ends::Transport(transport) => transport,
            Ends::Stack(_) => {
                let tells = slab.load(id).seen.is_some_and(|seen| seen.tells_of_damage);
                if notifies && tells {
                    slab[id].packet.flags.insert(Flags::CORRUPTED);
                    return true;
                }
                self.tell_connection(id);
                return false;
            }
            Ends::Datagrams(_) | Ends::Pair(..) | Ends::Elsewhere => return false,
        };
        let packet = &mut slab[id].packet;
        let Some(notices) = &transport.notices else { return false };
        if !notifies || packet.kind == PacketKind::Ack {
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

    /// Lets the notifier at the end of a link, which a data packet has reached, report its rate to
    /// the sender if that is due.
    fn report_rate(&mut self, link: u32, id: PacketId, departure: &Departure) {
        const ASKED: Notification =
            Notification { granularity: Granularity::Cumulative, direction: Direction::Backward };
        let Network { hops, slab, .. } = &mut self.network;
        let Slot { flow, step: next, packet } = &slab[id];
        let Flow { ends: Ends::Transport(transport), route, .. } =
            &mut self.flows.all[*flow as usize]
        else {
            return;
        };
        let place = next - 1 - route.forward;
        let Some(notices) = &mut transport.notices else { return };
        let at = departure.arrival;
        if notices.notification == ASKED
            && notices.report_is_due(place as usize, at)
            && let Some(probability) = hops[link as usize].survival(packet.size)
        {
            let notice = Notice { at, what: News::Survival { link, probability } };
            transport.sender.on_notice(self.now, &notice);
        }
    }

    /// Reports a packet on the wire of a link to the observer, if there is one.
    #[cold]
    fn tell_of_departure(&mut self, id: PacketId, link: u32, departure: &Departure) {
        let Some(observer) = &mut self.observer else { return };
        let slab = &self.network.slab;
        let Slot { flow, packet, .. } = &slab[id];
        let load = self.flows.all[*flow as usize].is_stack().then(|| slab.load(id));
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

    /// Reports the loss of a packet at a link to the observer, if there is one.
    #[cold]
    fn tell_of_loss(&mut self, id: PacketId, link: u32, cause: LossCause) {
        if let Some(observer) = &mut self.observer {
            let Slot { flow, packet, .. } = &self.network.slab[id];
            let loss = Loss { link: link as usize, cause };
            observer.on_loss(self.now, *flow as usize, packet, loss);
        }
    }

    /// A packet reaches its endpoint.
    #[inline(always)]
    fn deliver<const OBSERVED: bool>(&mut self, id: PacketId) {
        let slot = &mut self.network.slab[id];
        let index = slot.flow;
        let now = self.now;
        self.fingerprint = self.fingerprint.wrapping_add(mark(now, slot));
        if OBSERVED
            && slot.packet.kind != PacketKind::Ack
            && let Some(observer) = &mut self.observer
        {
            observer.on_arrival(now, index as usize, &slot.packet);
        }
        let Ends::Transport(transport) = &mut self.flows.all[index as usize].ends else {
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
                self.network.slab.give_back(id);
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
            self.network.slab.give_back(id);
            self.transmit::<OBSERVED>(index);
        }
    }

    /// A packet of a stack, or a datagram, reaches its endpoint.
    fn deliver_elsewhere(&mut self, id: PacketId, index: u32) {
        let slab = &mut self.network.slab;
        let Ends::Stack(connection) = &mut self.flows.all[index as usize].ends else {
            self.flows.receive_datagram(index, self.now, &slab[id].packet, self.window);
            slab.give_back(id);
            self.follow_media(index);
            return;
        };
        let (packet, load) = slab.with_load(id);
        if let Some(observer) = &mut self.observer {
            observer.on_stack_received(self.now, index as usize, load.from.other(), packet);
        }
        let end = connection.receive(self.now, packet, load);
        slab.give_back(id);
        self.transmit_stack(index, end);
    }

    /// Lets an end of a stack's connection send all it may, and updates its timer.
    fn transmit_stack(&mut self, index: u32, end: End) {
        self.tell_of_report(index, end);
        loop {
            let Flow { ends: Ends::Stack(connection), route, .. } =
                &mut self.flows.all[index as usize]
            else {
                return;
            };
            let slab = &mut self.network.slab;
            let id = slab.vacant();
            let (packet, load) = slab.with_load(id);
            if !connection.poll_transmit(self.now, end, packet, load) {
                break;
            }
            if let Some(observer) = &mut self.observer {
                let facts = connection.describe(load);
                observer.on_stack_sent(self.now, index as usize, end, packet, &facts);
            }
            let route = match end {
                End::Sender => route.forward,
                End::Receiver => route.reverse,
            };
            slab.claim(id, index, route);
            self.forward(id, self.now);
        }
        if end == End::Sender
            && let Ends::Stack(connection) = &mut self.flows.all[index as usize].ends
        {
            connection.note(self.now);
        }
        self.tell_of_report(index, end);
        self.follow_stack_timer(index, end);
    }

    /// Reports the state of the sender of a stack's connection to the observer, if there is one.
    fn tell_of_report(&mut self, index: u32, end: End) {
        if end == End::Sender
            && let Some(observer) = &mut self.observer
            && let Ends::Stack(connection) = &self.flows.all[index as usize].ends
        {
            observer.on_stack_report(self.now, index as usize, &connection.report());
        }
    }

    fn follow_stack_timer(&mut self, index: u32, end: End) {
        let Ends::Stack(connection) = &mut self.flows.all[index as usize].ends else { return };
        let deadline = connection.next_timer(self.now, end);
        let timer = timer_of(index, end).id();
        connection.timers[end as usize].bring_forward(&mut self.schedule, timer, deadline);
    }

    fn on_stack_timer(&mut self, index: u32, end: End) {
        let Ends::Stack(connection) = &mut self.flows.all[index as usize].ends else { return };
        let timer = timer_of(index, end).id();
        if !connection.timers[end as usize].goes_off(&mut self.schedule, timer, self.now) {
            self.events -= 1;
            return;
        }
        if connection.on_timer(self.now, end) {
            self.transmit_stack(index, end);
        } else {
            self.follow_stack_timer(index, end);
        }
    }

    /// Lets a sender send all it may, and updates its timer.
    fn transmit<const OBSERVED: bool>(&mut self, index: u32) {
        loop {
            let Flow { ends: Ends::Transport(transport), route, .. } =
                &mut self.flows.all[index as usize]
            else {
                return;
            };
            let slab = &mut self.network.slab;
            let id = slab.vacant();
            if !transport.sender.poll_transmit(self.now, &mut slab[id].packet) {
                break;
            }
            slab.claim(id, index, route.forward);
            if OBSERVED && let Some(observer) = &mut self.observer {
                let packet = &slab[id].packet;
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
        let Ends::Transport(transport) = &mut self.flows.all[index as usize].ends else { return };
        if OBSERVED && let Some(observer) = &mut self.observer {
            observer.on_settled(self.now, index as usize, &transport.sender);
        }
        transport.note_completion(self.now);
        let deadline = transport.sender.next_timer();
        let timer = Component::SenderTimer(index).id();
        let alarm = &mut transport.timers[End::Sender as usize];
        alarm.bring_forward(&mut self.schedule, timer, deadline);
    }

    /// Sends the further ACKs of a receiver that misbehaves.
    #[cold]
    fn send_further_acks(&mut self, index: u32) {
        loop {
            let Flow { ends: Ends::Transport(transport), route, .. } =
                &mut self.flows.all[index as usize]
            else {
                return;
            };
            let slab = &mut self.network.slab;
            let id = slab.vacant();
            if !transport.receiver.further_ack(&mut slab[id].packet) {
                return;
            }
            slab.claim(id, index, route.reverse);
            if let Some(observer) = &mut self.observer {
                observer.on_answer(self.now, index as usize, &slab[id].packet);
            }
            self.forward(id, self.now);
        }
    }

    /// Sets the alarms of media that adapts.
    fn follow_media(&mut self, index: u32) {
        let Ends::Datagrams(datagrams) = &mut self.flows.all[index as usize].ends else { return };
        let next = datagrams.next(self.now);
        let Some(adaptive) = &mut datagrams.adaptive else { return };
        let sender = Component::Application(index).id();
        adaptive.alarm.bring_forward(&mut self.schedule, sender, next);
        let receiver = Component::ReceiverTimer(index).id();
        let due = adaptive.report_due(self.now);
        adaptive.report_alarm.bring_forward(&mut self.schedule, receiver, due);
    }

    /// The receiver of media may report.
    fn on_media_report<const OBSERVED: bool>(&mut self, index: u32) {
        let Flow { ends: Ends::Datagrams(datagrams), route, .. } =
            &mut self.flows.all[index as usize]
        else {
            return;
        };
        let Some(adaptive) = &mut datagrams.adaptive else { return };
        let component = Component::ReceiverTimer(index).id();
        if !adaptive.report_alarm.goes_off(&mut self.schedule, component, self.now) {
            self.events -= 1;
            return;
        }
        if let Some(report) = adaptive.report(self.now, self.window) {
            let slab = &mut self.network.slab;
            let id = slab.vacant();
            slab.claim(id, index, route.reverse);
            slab[id].packet = report;
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_answer(self.now, index as usize, &slab[id].packet);
            }
            self.forward(id, self.now);
        }
        self.follow_media(index);
    }

    fn follow_receiver_timer(&mut self, index: u32) {
        let Ends::Transport(transport) = &mut self.flows.all[index as usize].ends else { return };
        if transport.delays_acks {
            let deadline = transport.receiver.next_timer();
            let timer = Component::ReceiverTimer(index).id();
            let alarm = &mut transport.timers[End::Receiver as usize];
            alarm.bring_forward(&mut self.schedule, timer, deadline);
        }
    }

    fn on_sender_timer<const OBSERVED: bool>(&mut self, index: u32) {
        let Ends::Transport(transport) = &mut self.flows.all[index as usize].ends else {
            self.on_stack_timer(index, End::Sender);
            return;
        };
        let timer = Component::SenderTimer(index).id();
        let alarm = &mut transport.timers[End::Sender as usize];
        if !alarm.goes_off(&mut self.schedule, timer, self.now) {
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
        let Flow { ends, route, .. } = &mut self.flows.all[index as usize];
        let Ends::Transport(transport) = ends else {
            match ends {
                Ends::Datagrams(_) => self.on_media_report::<OBSERVED>(index),
                _ => self.on_stack_timer(index, End::Receiver),
            }
            return;
        };
        let timer = Component::ReceiverTimer(index).id();
        let alarm = &mut transport.timers[End::Receiver as usize];
        if !alarm.goes_off(&mut self.schedule, timer, self.now) {
            self.events -= 1;
            return;
        }
        let slab = &mut self.network.slab;
        let id = slab.vacant();
        if transport.receiver.on_timer(self.now, &mut slab[id].packet) {
            slab.claim(id, index, route.reverse);
            if OBSERVED && let Some(observer) = &mut self.observer {
                observer.on_answer(self.now, index as usize, &slab[id].packet);
            }
            let further = transport.multiplies_acks;
            self.forward(id, self.now);
            if further {
                self.send_further_acks(index);
            }
        }
        self.follow_receiver_timer(index);
    }

    /// Lets a packet that has been processed leave its sender.
    fn on_release(&mut self, index: u32) {
        let Ends::Transport(transport) = &mut self.flows.all[index as usize].ends else { return };
        let Some((id, next)) = transport.outbox.as_mut().and_then(|outbox| outbox.release()) else {
            return;
        };
        if let Some(next) = next {
            self.schedule.push(Component::Release(index).id(), next);
        }
        self.forward(id, self.now);
    }

    /// An application starts or stops offering data, or a source sends a datagram.
    fn on_application<const OBSERVED: bool>(&mut self, index: u32) {
        let (now, component) = (self.now, Component::Application(index).id());
        let Flow { ends, route, stop, .. } = &mut self.flows.all[index as usize];
        let starts = now < *stop;
        match ends {
            Ends::Datagrams(datagrams) => {
                if let Some(adaptive) = &mut datagrams.adaptive
                    && !adaptive.alarm.goes_off(&mut self.schedule, component, now)
                {
                    self.events -= 1;
                    return;
                }
                let packet = datagrams.emit(now, self.window);
                if datagrams.adaptive.is_none() {
                    self.schedule.push(component, datagrams.next(now));
                }
                let Some(packet) = packet else {
                    self.follow_media(index);
                    return;
                };
                let slab = &mut self.network.slab;
                let id = slab.vacant();
                slab.claim(id, index, route.forward);
                slab[id].packet = packet;
                if OBSERVED && let Some(observer) = &mut self.observer {
                    observer.on_datagram(now, index as usize, &slab[id].packet);
                }
                self.forward(id, now);
                self.follow_media(index);
                return;
            }
            Ends::Transport(transport) => transport.offer(starts),
            Ends::Stack(connection) if starts => connection.start(now),
            Ends::Stack(connection) => connection.stop(now),
            Ends::Pair(..) | Ends::Elsewhere => return,
        }
        if starts {
            self.schedule.push(component, *stop);
        }
        match ends {
            Ends::Stack(_) => self.transmit_stack(index, End::Sender),
            _ => self.transmit::<OBSERVED>(index),
        }
    }

    /// Notes all counts at the end of the warm-up.
    fn end_warmup(&mut self) {
        self.warmed_up = true;
        for flow in &mut self.flows.all {
            flow.end_warmup(self.window.from);
        }
    }

    /// Outcome of the run so far, as if the scenario ended now. Before the end of the warm-up, the
    /// outcomes of flows have no meaning. With [`Simulation::changeable`], packets that still wait
    /// do not count; packets on a wire count as delivered.
    pub fn stop(mut self) -> Outcome {
        // A run of length zero has no rates.
        self.window.until = self.now.max(Time::from_ps(1));
        if self.window.from >= self.window.until {
            self.window.from = Time::ZERO;
        }
        self.finish()
    }

    /// Runs to the end, and returns the outcome.
    pub fn finish(mut self) -> Outcome {
        self.advance(self.window.until);
        let window = self.window;
        // Frees memory before the outcome takes some.
        drop((self.schedule, std::mem::take(&mut self.network.slab)));
        let Network { hops, routes, .. } = &self.network;
        let phases = (0..)
            .zip(hops)
            .map(|(link, hop)| phases::outcome(link, hop, routes, &self.flows.all, window))
            .collect();
        let FlowOutcomes { flows, transfers, groups, jain } = self.flows.close(window);
        let links = self.network.close(phases, window);
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

/// The timer of an end of a connection.
fn timer_of(index: u32, end: End) -> Component {
    match end {
        End::Sender => Component::SenderTimer(index),
        End::Receiver => Component::ReceiverTimer(index),
    }
}

/// Runs a scenario from start to end.
pub fn run(scenario: &Scenario) -> Outcome {
    Simulation::new(scenario).finish()
}

/// Hash of a delivery. The fingerprint is the sum of these, so that it does not depend on the
/// order in which the engine computes them.
#[inline]
fn mark(at: Time, slot: &Slot) -> u64 {
    let Slot { flow, packet: Packet { kind, seq, .. }, .. } = slot;
    let what = seq.rotate_left(40) ^ u64::from(*flow).rotate_left(20) ^ *kind as u64;
    let mixed = (at.as_ps() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests;
