//! One connection over one path, in virtual time, and the record of its run.
//!
//! At one instant, packets and acknowledgments arrive first, in the order of departure; then the
//! application offers data, then timers expire.
//!
//! A connection of a stack begins with a handshake. Its script begins when its first full packet
//! leaves, and considers full packets only: no rule applies to smaller ones, which carry hardly any
//! data.

use std::collections::{BTreeMap, HashMap, VecDeque};

use windward_core::endpoint::{Receiver, Sender};
use windward_core::network::RouterKind;
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Time};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{
    Codepoint, Connection, End, StackConfig, StackSetup, Stacks, UDP_OVERHEAD,
};
use windward_sim::strict_toml::FileError;

use super::{Event, Fate, Route, Rule, Script};

/// Maximum number of events in a script, which considers single packets.
const MOST_EVENTS: usize = 300_000;

/// State of the sender after an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathState {
    pub(super) at: Time,
    pub(super) cwnd: f64,
    pub(super) ssthresh: f64,
    pub(super) in_flight: f64,
    /// Packets per second; `None` where the controller sets none.
    pub(super) pacing_rate: Option<f64>,
    pub(super) srtt: Duration,
    pub(super) packets: u64,
    /// Number of reductions of cwnd.
    pub(super) reductions: u64,
    /// `None` if the endpoint does not report it.
    pub(super) ours: Option<Ours>,
}

/// Further state of Windward's own senders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ours {
    pub(super) retransmissions: u64,
    pub(super) timeouts: u64,
    pub(super) acked: u64,
}

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Happened {
    pub(super) at: Time,
    /// Index of the state after it in [`PathRecord::states`]; the previous one is the state before
    /// it.
    pub(super) state: usize,
    /// Number of the data in the packet, from one.
    pub(super) data: u64,
}

/// Record of a run.
#[derive(Debug, Default)]
pub(super) struct PathRecord {
    pub(super) states: Vec<PathState>,
    pub(super) events: [Vec<Happened>; Event::ALL.len()],
}

impl PathRecord {
    fn note(&mut self, event: Event, at: Time, data: u64) {
        let state = self.states.len();
        self.events[event as usize].push(Happened { at, state, data });
    }
}

/// Both ends of the connection.
pub(super) enum Ends {
    Own { sender: Box<Sender>, receiver: Box<Receiver> },
    Stack { connection: Box<dyn Connection>, config: StackConfig },
}

impl Ends {
    pub(super) fn new(script: &Script, protocol: &str, stacks: &Stacks) -> Result<Self, FileError> {
        match resolve(script, protocol, stacks)? {
            Traffic::Transport { protocol, config, .. } => {
                // A script replaces routers that only mark; others take part in the protocol.
                if !matches!(protocol.router, RouterKind::Any | RouterKind::EcnThreshold) {
                    let message = format!(
                        "`{}` needs {} routers, which the path of a script does not have: \
                         `windward run` has",
                        protocol.name,
                        protocol.router.name(),
                    );
                    return Err(script.error(0, message));
                }
                Ok(Ends::Own {
                    sender: Box::new(Sender::new(&protocol, &config, 1, "script")),
                    receiver: Box::new(Receiver::new(&protocol.feedback, &config)),
                })
            }
            Traffic::Stack { stack, config, .. } => {
                let [only] = script.offers[..] else {
                    let message = format!(
                        "`{protocol}` needs all data of its application at the start, but the \
                         script offers more later"
                    );
                    return Err(script.error(0, message));
                };
                let payload = u64::from(config.payload());
                let bytes = (only.packets != u64::MAX).then(|| only.packets * payload);
                let setup = StackSetup { seed: 1, bytes, config: *config };
                Ok(Ends::Stack { connection: stack.connect(&setup), config: *config })
            }
            Traffic::Datagrams { .. } => {
                let message = format!("`{protocol}` sends datagrams, which are not acknowledged");
                Err(script.error(0, message))
            }
        }
    }
}

/// Packet or acknowledgment on its way.
enum Travelling {
    Ours(Packet),
    Theirs { to: End, payload: Vec<u8>, ecn: Codepoint },
}

/// A minimal scenario, whose single flow has the protocol and the endpoints of the script. Its
/// reader knows their syntax and valid combinations.
pub(crate) const SCENARIO: &str = r#"
duration = "1s"
[dumbbell]
bottleneck = { rate = "1Gbit", delay = "1ms", queue = "100p" }
access = { rate = "1Gbit", delay = "1ms", queue = "100p" }
[[flows]]
group = "script"
protocol = "newreno"
"#;

fn resolve(script: &Script, protocol: &str, stacks: &Stacks) -> Result<Traffic, FileError> {
    let file = ScenarioFile::parse(&script.name, SCENARIO)?;
    let mut file = file.with_stacks(stacks);
    for (key, value) in &script.endpoint {
        let set = file.set(&format!("flows.script.{}", key.value), value);
        let checked = set.and_then(|()| file.build());
        if let Err(error) = checked {
            let message = format!("`{} = {value}` in `endpoint`: {}", key.value, error.message());
            return Err(script.error(key.line, message));
        }
    }
    let built = file.set("flows.script.protocol", protocol).and_then(|()| file.build());
    let flow = built?.flows.swap_remove(0);
    Ok(flow.kind.traffic.clone())
}

/// Runs the connection until the script ends.
pub(super) fn walk(script: &Script, ends: Ends) -> Result<PathRecord, FileError> {
    let is_own = matches!(ends, Ends::Own { .. });
    let mut walk = Walk {
        script,
        ends,
        now: Time::ZERO,
        origin: is_own.then_some(Time::ZERO),
        due: BTreeMap::new(),
        entered: 0,
        offered: 0,
        wire: Wire { route: script.route, busy: VecDeque::new() },
        sent: 0,
        acks: 0,
        steps: 0,
        transmissions: HashMap::new(),
        met: [Vec::new(), Vec::new()],
        reductions: 0,
        record: PathRecord::default(),
    };
    walk.run()?;
    Ok(walk.record)
}

/// The data direction of the path: a link with an optional rate, and its queue.
struct Wire {
    route: Route,
    /// Departure times of the queued and the transmitted packets, in order.
    busy: VecDeque<Time>,
}

impl Wire {
    /// Departure time of a packet that arrives now; `None` if the queue is full.
    fn leaves(&mut self, now: Time, size: u32) -> Option<Time> {
        let Some(rate) = self.route.rate else { return Some(now) };
        while self.busy.front().is_some_and(|end| *end <= now) {
            self.busy.pop_front();
        }
        // The first is in transmission, the others wait.
        let waiting = (self.busy.len() as u64).saturating_sub(1);
        if !self.busy.is_empty() && self.route.queue.is_some_and(|queue| waiting >= queue) {
            return None;
        }
        let end = self.busy.back().map_or(now, |end| *end) + rate.transmission_time(size);
        self.busy.push_back(end);
        Some(end)
    }
}

/// Maximum duration of a handshake.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(60);

struct Walk<'a> {
    script: &'a Script,
    ends: Ends,
    now: Time,
    /// Begin of the script; `None` before that.
    origin: Option<Time>,
    /// Packets in flight, by arrival and order of departure.
    due: BTreeMap<(Time, u64), Travelling>,
    entered: u64,
    offered: usize,
    wire: Wire,
    sent: u64,
    acks: u64,
    /// All events and states.
    steps: usize,
    /// Numbers of transmissions of retransmitted data.
    transmissions: HashMap<u64, u64>,
    /// Number of packets that met the conditions of each rule, for data and for acknowledgments.
    met: [Vec<u64>; 2],
    reductions: u64,
    record: PathRecord,
}

impl Walk<'_> {
    /// The time of the script.
    fn at(&self) -> Time {
        Time::ZERO + self.now.since(self.origin.unwrap_or(self.now))
    }

    fn note(&mut self, event: Event, data: u64) {
        let at = self.at();
        self.record.note(event, at, data);
    }

    fn run(&mut self) -> Result<(), FileError> {
        self.look();
        loop {
            let arrival = self.due.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
            let offer = self.script.offers.get(self.offered).map_or(Time::NEVER, |offer| offer.at);
            let timers = match &mut self.ends {
                Ends::Own { sender, receiver } => [sender.next_timer(), receiver.next_timer()],
                Ends::Stack { connection, .. } => End::BOTH.map(|end| connection.next_timer(end)),
            };
            let next = arrival.min(offer).min(timers[0]).min(timers[1]).max(self.now);
            let end = self
                .origin
                .map_or(Time::ZERO + LONGEST_HANDSHAKE, |origin| origin + self.script.duration);
            if next > end || next == Time::NEVER {
                return match self.origin {
                    Some(_) => Ok(()),
                    None => {
                        let message =
                            format!("the connection sends no full packet in {LONGEST_HANDSHAKE}");
                        Err(self.script.error(0, message))
                    }
                };
            }
            self.steps += 1;
            if self.steps.max(self.record.states.len()) >= MOST_EVENTS {
                let message = format!(
                    "more than {MOST_EVENTS} events within {}: give the path a `rate` and \
                     a `queue`, the endpoint an `rwnd`, or shorten the `duration`",
                    self.at().since(Time::ZERO)
                );
                return Err(self.script.error(0, message));
            }
            self.now = next;
            if arrival <= next {
                self.arrive();
            } else if offer <= next {
                self.offer();
            } else {
                let end = if timers[1] <= next { End::Receiver } else { End::Sender };
                self.expire(end);
            }
        }
    }

    fn arrive(&mut self) {
        match self.due.pop_first() {
            None => {}
            Some((_, Travelling::Ours(packet))) => self.arrive_own(packet),
            Some((_, Travelling::Theirs { to, payload, ecn })) => {
                let now = self.now;
                if to == End::Sender && self.origin.is_some() {
                    self.note(Event::Ack, 0);
                }
                let Ends::Stack { connection, .. } = &mut self.ends else { return };
                connection.receive(now, to, &payload, ecn);
                self.transmit_theirs(to);
            }
        }
    }

    fn arrive_own(&mut self, mut packet: Packet) {
        let now = self.now;
        let Ends::Own { sender, receiver } = &mut self.ends else { return };
        if packet.kind == PacketKind::Data {
            if receiver.on_data(now, &mut packet) {
                self.send_ack(packet);
            }
            return;
        }
        sender.on_ack(now, &packet);
        self.note(Event::Ack, 0);
        if packet.flags.contains(Flags::ECN_ECHO) {
            self.note(Event::Echo, 0);
        }
        self.transmit();
    }

    fn offer(&mut self) {
        let packets = self.script.offers[self.offered].packets;
        self.offered += 1;
        match &mut self.ends {
            Ends::Own { sender, .. } => {
                let so_far = sender.sequences().limit;
                sender.offer_until(so_far.saturating_add(packets));
                self.transmit();
            }
            Ends::Stack { connection, .. } => {
                connection.start(self.now);
                self.transmit_theirs(End::Sender);
            }
        }
    }

    fn expire(&mut self, end: End) {
        let now = self.now;
        match &mut self.ends {
            Ends::Own { receiver, .. } if end == End::Receiver => {
                let mut ack = Packet::default();
                if receiver.on_timer(now, &mut ack) {
                    self.send_ack(ack);
                }
            }
            Ends::Own { sender, .. } => {
                let before = sender.stats(now).timeouts;
                sender.on_timer(now);
                if sender.stats(now).timeouts > before {
                    self.note(Event::Timeout, 0);
                }
                self.transmit();
            }
            Ends::Stack { connection, .. } => {
                connection.on_timer(now, end);
                self.transmit_theirs(end);
            }
        }
    }

    /// Lets our sender send all it may, and records its state.
    fn transmit(&mut self) {
        let mut packet = Packet::default();
        loop {
            let Ends::Own { sender, .. } = &mut self.ends else { return };
            if !sender.poll_transmit(self.now, &mut packet) {
                break;
            }
            self.send_data(&packet);
        }
        self.look();
    }

    /// The same for an end of a stack's connection.
    fn transmit_theirs(&mut self, end: End) {
        let mut payload = Vec::new();
        // An endless sender ends the run by the maximum number of events.
        while self.steps < MOST_EVENTS {
            let Ends::Stack { connection, config } = &mut self.ends else { return };
            let Some(ecn) = connection.poll_transmit(self.now, end, &mut payload) else { break };
            let (ecn, full) = (if config.ecn { ecn } else { Codepoint::NotEct }, config.payload());
            self.steps += 1;
            let payload = std::mem::take(&mut payload);
            match end {
                End::Sender => self.send_theirs(payload, ecn, full),
                End::Receiver => self.answer_theirs(payload, ecn),
            }
        }
        if end == End::Sender && self.origin.is_some() {
            self.look();
        }
    }

    fn send_theirs(&mut self, payload: Vec<u8>, mut ecn: Codepoint, full: u32) {
        let size = payload.len() as u32 + UDP_OVERHEAD;
        // Packets of the handshake are padded, and have the long header (RFC 9000 section 17.2).
        let is_short = payload.first().is_some_and(|first| first & 0x80 == 0);
        let is_full = is_short && payload.len() as u64 >= u64::from(full);
        if is_full && self.origin.is_none() {
            self.origin = Some(self.now);
            self.look();
        }
        let left = if is_full {
            self.sent += 1;
            let (number, at) = (self.sent, self.at());
            self.note(Event::Packet, 0);
            let fates = fates(&self.script.data, &mut self.met[0], at, [number, 0, 0]);
            if fates.marked && ecn != Codepoint::NotEct {
                ecn = Codepoint::Ce;
            }
            let left = if fates.lost { None } else { self.wire.leaves(self.now, size) };
            left.map(|left| left + fates.delay)
        } else {
            self.wire.leaves(self.now, size)
        };
        match left {
            Some(left) => self.enter(left, Travelling::Theirs { to: End::Receiver, payload, ecn }),
            None if is_full => self.note(Event::Loss, 0),
            None => {}
        }
    }

    fn answer_theirs(&mut self, payload: Vec<u8>, ecn: Codepoint) {
        let mut delay = Duration::ZERO;
        if self.origin.is_some() {
            self.acks += 1;
            let (number, at) = (self.acks, self.at());
            let fates = fates(&self.script.acks, &mut self.met[1], at, [number, 0, 0]);
            if fates.lost {
                return;
            }
            delay = fates.delay;
        }
        self.enter(self.now + delay, Travelling::Theirs { to: End::Sender, payload, ecn });
    }

    fn send_data(&mut self, packet: &Packet) {
        let data = packet.seq + 1;
        self.sent += 1;
        self.note(Event::Packet, data);
        let mut transmission = 1;
        if packet.flags.contains(Flags::RETRANSMISSION) {
            self.note(Event::Retransmission, data);
            let before = self.transmissions.entry(data).or_insert(1);
            *before += 1;
            transmission = *before;
        }
        let numbers = [self.sent, data, transmission];
        let fates = fates(&self.script.data, &mut self.met[0], self.now, numbers);
        let mut packet = packet.clone();
        // Packets that the script loses do not reach the queue.
        let left = match fates.lost {
            true => None,
            false => self.wire.leaves(self.now, packet.size),
        };
        let Some(left) = left else {
            self.note(Event::Loss, data);
            return;
        };
        if fates.marked && packet.flags.contains(Flags::ECN_CAPABLE) {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
        }
        self.enter(left + fates.delay, Travelling::Ours(packet));
    }

    fn send_ack(&mut self, ack: Packet) {
        self.acks += 1;
        let fates = fates(&self.script.acks, &mut self.met[1], self.now, [self.acks, 0, 0]);
        if !fates.lost {
            self.enter(self.now + fates.delay, Travelling::Ours(ack));
        }
    }

    /// A packet departs, at the end of its transmission.
    fn enter(&mut self, at: Time, what: Travelling) {
        let there = Duration::from_ps(self.script.route.rtt.as_ps() / 2);
        let back = Duration::from_ps(self.script.route.rtt.as_ps() - there.as_ps());
        let is_back = match &what {
            Travelling::Ours(packet) => packet.kind == PacketKind::Ack,
            Travelling::Theirs { to, .. } => *to == End::Sender,
        };
        self.entered += 1;
        self.due.insert((at + if is_back { back } else { there }, self.entered), what);
    }

    fn look(&mut self) {
        let (at, now) = (self.at(), self.now);
        let mut state = match &mut self.ends {
            Ends::Own { sender, .. } => {
                let stats = sender.stats(now);
                PathState {
                    at,
                    cwnd: sender.cwnd(),
                    ssthresh: sender.ssthresh(),
                    in_flight: sender.in_flight() as f64,
                    pacing_rate: sender.pacing_rate(),
                    srtt: sender.rtt().srtt(),
                    packets: stats.sent,
                    reductions: 0,
                    ours: Some(Ours {
                        retransmissions: stats.retransmissions,
                        timeouts: stats.timeouts,
                        acked: sender.sequences().una,
                    }),
                }
            }
            Ends::Stack { connection, config } => {
                let report = connection.report();
                let packets = |bytes: u64| bytes as f64 / f64::from(config.payload());
                PathState {
                    at,
                    cwnd: packets(report.cwnd),
                    ssthresh: report.ssthresh.map_or(f64::INFINITY, packets),
                    in_flight: packets(report.in_flight),
                    pacing_rate: None,
                    srtt: report.srtt,
                    packets: self.sent,
                    reductions: 0,
                    ours: None,
                }
            }
        };
        let before = self.record.states.last().map_or(0.0, |before| before.cwnd);
        if state.cwnd < before {
            self.reductions += 1;
            self.record.note(Event::Reduction, at, 0);
        }
        state.reductions = self.reductions;
        if self.origin.is_some() {
            self.record.states.push(state);
        }
    }
}

/// Fate of one packet by all rules that apply to it.
#[derive(Default)]
struct Fates {
    lost: bool,
    marked: bool,
    delay: Duration,
}

fn fates(
    rules: &[Rule],
    met: &mut Vec<u64>,
    now: Time,
    [packet, data, transmission]: [u64; 3],
) -> Fates {
    let mut fates = Fates::default();
    met.resize(rules.len(), 0);
    for (Rule { which, fate }, met) in rules.iter().zip(met) {
        let meets = |numbers: &Option<super::Numbers>, number| {
            numbers.as_ref().is_none_or(|numbers| numbers.has(number))
        };
        let concerns = (which.from <= now && now < which.until)
            && meets(&which.packet, packet)
            && meets(&which.data, data)
            && meets(&which.transmission, transmission);
        if !concerns {
            continue;
        }
        *met += 1;
        if !met.is_multiple_of(which.every) || *met / which.every > which.first {
            continue;
        }
        match fate {
            Fate::Lost => fates.lost = true,
            Fate::Marked => fates.marked = true,
            Fate::Delayed(by) => fates.delay += *by,
        }
    }
    fates
}
