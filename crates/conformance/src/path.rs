//! One connection over one path, in virtual time: the record of its run, and assertions about it.
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
use windward_core::packet::{Flags, Packet};
use windward_core::units::{Duration, Time};
use windward_sim::scenario::Traffic;
use windward_sim::stack::{
    Codepoint, Connection, End, StackConfig, StackSetup, Stacks, UDP_OVERHEAD,
};

use super::header::{Fate, Header, Route, Rule};
use super::parser::{self, Action, Anchor, Event, Expression, Kind, Moment, When};
use super::python::{self, Assertion, Names, Value};
use super::row::traffic;
use super::{Fault, Place, Subject};

/// Maximum number of events in a script, which considers single packets.
const MOST_EVENTS: usize = 300_000;
/// Maximum duration of a handshake.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(60);
/// Bytes of data in a packet, as `write` counts them.
const SEGMENT: u64 = 1000;

/// An assertion at a moment of the run.
pub(super) struct Judged {
    pub(super) assertion: Assertion,
    pub(super) moment: Moment,
    /// Time of the moment; `None` if it never came.
    pub(super) at: Option<Time>,
}

/// Runs a script with a protocol, and evaluates its assertions.
pub(super) fn run(
    name: &str,
    header: &Header,
    events: &[Event],
    protocol: &str,
    stacks: &Stacks,
) -> Result<Vec<Judged>, Fault> {
    let events = timed(events)?;
    let offers = offers(&events)?;
    let settings = header.endpoint.iter().map(|set| (set.name.as_str(), set.value.as_str()));
    let flow = traffic(name, stacks, protocol, settings).map_err(|(key, error)| {
        let setting = header.endpoint.iter().find(|setting| Some(setting.name.as_str()) == key);
        let (place, what) = match setting {
            Some(set) => (set.place, format!("--{}={}", set.name, set.value)),
            None => (Place::START, protocol.to_owned()),
        };
        Fault::new(place, Subject::Syntax, format!("{what}: {error}"))
    })?;
    let refused = |message: String| Err(Fault::new(Place::START, Subject::Syntax, message));
    let road = Road::new(header);
    let record = match flow {
        Traffic::Transport { protocol, config, .. } => {
            // A script replaces routers that only mark; others take part in the protocol.
            if !matches!(protocol.router, RouterKind::Any | RouterKind::EcnThreshold) {
                return refused(format!(
                    "`{}` needs {} routers, which the path of a script does not have: \
                     `windward run` has",
                    protocol.name,
                    protocol.router.name(),
                ));
            }
            let own = Own {
                sender: Sender::new(&protocol, &config, 1, "script"),
                receiver: Receiver::new(&protocol.feedback, &config),
                flight: Flight::default(),
            };
            walk(own, Road { origin: Some(Time::ZERO), ..road }, &offers)
        }
        Traffic::Stack { stack, config, .. } => {
            let [only] = offers[..] else {
                return refused(format!(
                    "`{protocol}` needs all data of its application at the start, but the script \
                     offers more later"
                ));
            };
            let payload = u64::from(config.payload());
            let bytes = (only.packets != u64::MAX).then(|| only.packets * payload);
            let connection = stack.connect(&StackSetup { seed: 1, bytes, config: *config });
            walk(Theirs { connection, config: *config, flight: Flight::default() }, road, &offers)
        }
        Traffic::Datagrams { .. } => {
            return refused(format!("`{protocol}` sends datagrams, which are not acknowledged"));
        }
    }?;
    record.judge(&events)
}

/// Events with their moments.
fn timed(events: &[Event]) -> Result<Vec<(&Event, Moment)>, Fault> {
    let mut last = Duration::ZERO;
    let timed = events.iter().map(|event| {
        let at = match event.when {
            When::At(at, until) if at == until => at,
            When::After(after, until) if after == until => last + after,
            When::Moment(moment) => return Ok((event, moment)),
            When::At(..) | When::After(..) | When::Any => {
                let message = "needs a time, or an event such as `ack 5`";
                return Err(Fault::new(event.place, Subject::Syntax, message));
            }
        };
        last = at;
        let anchor = Anchor::Instant(at);
        Ok((event, Moment { before: false, anchor, plus: Duration::ZERO }))
    });
    timed.collect()
}

/// Additional data of the application from an instant on.
#[derive(Debug, Clone, Copy)]
struct Offer {
    at: Time,
    /// `u64::MAX` is data that never runs out.
    packets: u64,
}

/// The data that the application writes; without any call, it never runs out.
fn offers(events: &[(&Event, Moment)]) -> Result<Vec<Offer>, Fault> {
    let mut offers = Vec::new();
    for (event, moment) in events {
        let wrong = |message: &str| Err(Fault::new(event.place, Subject::Syntax, message));
        let call = match &event.action {
            Action::Call(call) => call,
            Action::Code(_) => continue,
            Action::Packet(_) | Action::Command(_) => {
                return wrong(
                    "a script with --rtt has calls of `write` and code: its path is simulated",
                );
            }
        };
        match (call.name.as_str(), &call.returns, moment) {
            (
                "write",
                Expression::Integer(bytes @ 1..),
                Moment { anchor: Anchor::Instant(at), .. },
            ) if bytes.unsigned_abs().is_multiple_of(SEGMENT) && !moment.before => {
                let at = Time::ZERO + *at + moment.plus;
                offers.push(Offer { at, packets: bytes.unsigned_abs() / SEGMENT });
            }
            ("write", Expression::Integer(1..), Moment { anchor: Anchor::Event(..), .. }) => {
                return wrong("the application writes at a time, and not at an event");
            }
            ("write", ..) => return wrong("the application writes multiples of 1000 bytes"),
            _ => {
                return wrong(
                    "a script with --rtt has no calls but `write`: its path is simulated",
                );
            }
        }
    }
    if offers.is_empty() {
        offers.push(Offer { at: Time::ZERO, packets: u64::MAX });
    }
    offers.sort_by_key(|offer| offer.at);
    Ok(offers)
}

/// Quantities of a sender at any moment: windows in packets, rates in packets per second, times in
/// seconds, and counts since the start.
const QUANTITIES: [&str; 10] = [
    "cwnd",
    "ssthresh",
    "in_flight",
    "pacing_rate",
    "srtt",
    "packets",
    "retransmissions",
    "timeouts",
    "acked",
    REDUCTIONS,
];
/// Reductions of cwnd, which the record counts.
const REDUCTIONS: &str = "reductions";

/// State of the sender after an event.
#[derive(Debug, Clone, Copy)]
struct State {
    at: Time,
    cwnd: f64,
    /// The quantities; `None` where the endpoint does not report them.
    values: [Option<f64>; QUANTITIES.len()],
}

/// An event.
#[derive(Debug, Clone, Copy)]
struct Happened {
    at: Time,
    /// Index of the state after it in [`Record::states`]; the previous one is the state before it.
    state: usize,
    /// Number of the data in the packet, from one; 0 if it is not known, and none without a packet.
    data: Option<u64>,
}

/// Record of a run.
#[derive(Debug)]
struct Record {
    length: Duration,
    states: Vec<State>,
    events: [Vec<Happened>; Kind::ALL.len()],
    reductions: u64,
}

/// A moment that came during the run.
#[derive(Clone, Copy)]
struct Found<'a> {
    when: Time,
    state: &'a State,
    data: Option<u64>,
}

impl Record {
    fn note(&mut self, kind: Kind, at: Time, data: Option<u64>) {
        let state = self.states.len();
        self.events[kind as usize].push(Happened { at, state, data });
    }

    fn look(&mut self, mut state: State) {
        if self.states.last().is_some_and(|before| state.cwnd < before.cwnd) {
            self.reductions += 1;
            self.note(Kind::Reduction, state.at, None);
        }
        let values = QUANTITIES.iter().zip(&mut state.values);
        for (_, value) in values.filter(|(name, _)| **name == REDUCTIONS) {
            *value = Some(self.reductions as f64);
        }
        self.states.push(state);
    }

    fn judge(&self, events: &[(&Event, Moment)]) -> Result<Vec<Judged>, Fault> {
        let mut names = Names::new();
        let mut all = Vec::new();
        for (event, moment) in events {
            let Action::Code(code) = &event.action else { continue };
            let here = self.at(moment);
            let at = here.as_ref().ok().map(|found| found.when);
            let values = |name: &str, other: Option<&str>| match other {
                None => self.value(name, here.clone()),
                Some(text) => {
                    let other = parser::moment(text).map_err(|fault| fault.message)?;
                    self.value(name, self.at(&other))
                }
            };
            let mut judge = |assertion| {
                all.push(Judged { assertion, moment: *moment, at });
                Ok(())
            };
            python::run(code, event.place.inside(), &mut names, &values, &mut judge)?;
        }
        Ok(all)
    }

    /// The state at a moment, or a message if it never came.
    fn at(&self, moment: &Moment) -> Result<Found<'_>, String> {
        let Record { length, states, events, .. } = self;
        let (instant, index, data) = match moment.anchor {
            Anchor::Instant(at) => (Time::ZERO + at + moment.plus, None, None),
            Anchor::Event(kind, number) => {
                let events = &events[kind as usize];
                let happened = usize::try_from(number - 1).ok().and_then(|at| events.get(at));
                let Some(happened) = happened else {
                    let (word, seen) = (Kind::ALL[kind as usize].1, events.len());
                    return Err(format!(
                        "only {seen} of the event {word} in {length}, not {number}"
                    ));
                };
                let exact = moment.plus.is_zero().then_some(happened.state);
                (happened.at + moment.plus, exact, happened.data)
            }
        };
        if instant > Time::ZERO + *length {
            return Err(format!("{moment} is after the end, {length}"));
        }
        let after = match index {
            Some(index) => index + 1,
            None => states.partition_point(|state| state.at <= instant),
        };
        let count = match (moment.before, index) {
            (false, _) => after,
            (true, Some(index)) => index,
            (true, None) => states.partition_point(|state| state.at < instant),
        };
        // The first state is that before all events.
        let state = states[..count.min(states.len())].last().or(states.first());
        let state = state.ok_or_else(|| "nothing happened".to_owned())?;
        Ok(Found { when: instant, state, data })
    }

    /// The value of a name at a moment.
    fn value(&self, name: &str, found: Result<Found<'_>, String>) -> Result<Option<Value>, String> {
        let quantity = QUANTITIES.iter().position(|known| *known == name);
        let value = match (name, quantity, found) {
            ("inf", ..) => Some(f64::INFINITY),
            ("time" | "data", _, Err(why)) | (_, Some(_), Err(why)) => {
                return Ok(Some(Value::Never(why)));
            }
            ("time", _, Ok(found)) => Some(found.when.as_secs_f64()),
            ("data", _, Ok(Found { data: Some(data), .. })) => {
                // The data in a stack's packet is not reported.
                Some(data as f64).filter(|data| *data > 0.0)
            }
            ("data", _, Ok(_)) => {
                return Err("`data` needs a packet, as the moment `retransmission 1`".to_owned());
            }
            (_, Some(quantity), Ok(found)) => found.state.values[quantity],
            (_, None, _) => return Ok(None),
        };
        Ok(Some(value.map_or(Value::NotTold, Value::Is)))
    }
}

/// Packets in flight, by arrival and order of departure.
struct Flight<P> {
    due: BTreeMap<(Time, u64), (End, P)>,
    entered: u64,
}

impl<P> Default for Flight<P> {
    fn default() -> Self {
        Flight { due: BTreeMap::new(), entered: 0 }
    }
}

impl<P> Flight<P> {
    fn next(&self) -> Time {
        self.due.first_key_value().map_or(Time::NEVER, |(key, _)| key.0)
    }

    /// A packet departs, at the end of its transmission.
    fn enter(&mut self, route: Route, at: Time, to: End, packet: P) {
        let there = Duration::from_ps(route.rtt.as_ps() / 2);
        let way = match to {
            End::Receiver => there,
            End::Sender => Duration::from_ps(route.rtt.as_ps() - there.as_ps()),
        };
        self.entered += 1;
        self.due.insert((at + way, self.entered), (to, packet));
    }

    /// The packet that arrives, and the end that it reaches.
    fn pop(&mut self) -> (End, P) {
        self.due.pop_first().expect("a packet that is due is in flight").1
    }
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

/// The rules, and what they have been applied to.
struct Treatment<'a> {
    rules: &'a [Rule],
    /// Number of packets that met the conditions of each rule.
    met: Vec<u64>,
    /// Number of data packets and of acknowledgments.
    sent: u64,
    acks: u64,
    /// Numbers of transmissions of retransmitted data.
    transmissions: HashMap<u64, u64>,
}

/// Fate of one packet by all rules that apply to it.
#[derive(Default)]
struct Fates {
    lost: bool,
    marked: bool,
    delay: Duration,
}

impl Treatment<'_> {
    /// The fates of a data packet, which carries data of that number.
    fn of_data(&mut self, at: Time, data: u64, is_again: bool) -> Fates {
        self.sent += 1;
        let mut transmission = 1;
        if is_again {
            let before = self.transmissions.entry(data).or_insert(1);
            *before += 1;
            transmission = *before;
        }
        self.fates(at, false, [self.sent, data, transmission])
    }

    fn of_ack(&mut self, at: Time) -> Fates {
        self.acks += 1;
        self.fates(at, true, [self.acks, 0, 0])
    }

    fn fates(&mut self, now: Time, of_acks: bool, [packet, data, transmission]: [u64; 3]) -> Fates {
        let mut fates = Fates::default();
        for (rule, met) in self.rules.iter().zip(&mut self.met) {
            let concerns = rule.of_acks == of_acks
                && (rule.from <= now && now < rule.until)
                && rule.packet.has(packet)
                && rule.data.has(data)
                && rule.transmission.has(transmission);
            if !concerns {
                continue;
            }
            *met += 1;
            if !met.is_multiple_of(rule.every) || *met / rule.every > rule.first {
                continue;
            }
            match rule.fate {
                Fate::Lost => fates.lost = true,
                Fate::Marked => fates.marked = true,
                Fate::Delayed(by) => fates.delay += by,
            }
        }
        fates
    }
}

/// The path and the clock of a run, and its record.
struct Road<'a> {
    now: Time,
    /// Begin of the script; `None` before that.
    origin: Option<Time>,
    /// All events and states.
    steps: usize,
    wire: Wire,
    treatment: Treatment<'a>,
    record: Record,
}

impl<'a> Road<'a> {
    fn new(header: &'a Header) -> Self {
        Road {
            now: Time::ZERO,
            origin: None,
            steps: 0,
            wire: Wire { route: header.route, busy: VecDeque::new() },
            treatment: Treatment {
                rules: &header.rules,
                met: vec![0; header.rules.len()],
                sent: 0,
                acks: 0,
                transmissions: HashMap::new(),
            },
            record: Record {
                length: header.duration,
                states: Vec::new(),
                events: Default::default(),
                reductions: 0,
            },
        }
    }

    /// The time of the script.
    fn at(&self) -> Time {
        Time::ZERO + self.now.since(self.origin.unwrap_or(self.now))
    }

    fn note(&mut self, kind: Kind, data: Option<u64>) {
        let at = self.at();
        self.record.note(kind, at, data);
    }
}

/// Both ends of a connection.
trait Ends {
    /// Time of the next arrival at either end.
    fn next_arrival(&self) -> Time;
    /// The timers of the sender and of the receiver.
    fn timers(&mut self) -> [Time; 2];
    fn arrive(&mut self, road: &mut Road<'_>);
    fn offer(&mut self, road: &mut Road<'_>, packets: u64);
    fn expire(&mut self, road: &mut Road<'_>, end: End);
    /// The state of the sender, but for its reductions.
    fn state(&mut self, road: &Road<'_>) -> State;

    /// Records the state of the sender, once the script has begun.
    fn look(&mut self, road: &mut Road<'_>) {
        if road.origin.is_some() {
            let state = self.state(road);
            road.record.look(state);
        }
    }
}

/// Runs the connection until the script ends.
fn walk(mut ends: impl Ends, mut road: Road<'_>, mut offers: &[Offer]) -> Result<Record, Fault> {
    let length = road.record.length;
    let fault = |message: String| Err(Fault::new(Place::START, Subject::Syntax, message));
    ends.look(&mut road);
    loop {
        let arrival = ends.next_arrival();
        let offer = offers.first().map_or(Time::NEVER, |offer| offer.at);
        let timers = ends.timers();
        let next = arrival.min(offer).min(timers[0]).min(timers[1]).max(road.now);
        let end = road.origin.map_or(Time::ZERO + LONGEST_HANDSHAKE, |origin| origin + length);
        if next > end || next == Time::NEVER {
            return match road.origin {
                Some(_) => Ok(road.record),
                None => {
                    fault(format!("the connection sends no full packet in {LONGEST_HANDSHAKE}"))
                }
            };
        }
        road.steps += 1;
        if road.steps.max(road.record.states.len()) >= MOST_EVENTS {
            return fault(format!(
                "more than {MOST_EVENTS} events within {}: add --rate and --queue or --rwnd, or \
                 shorten --duration",
                road.at().since(Time::ZERO)
            ));
        }
        road.now = next;
        if arrival <= next {
            ends.arrive(&mut road);
        } else if let Some((due, later)) = offers.split_first().filter(|(due, _)| due.at <= next) {
            offers = later;
            ends.offer(&mut road, due.packets);
        } else {
            let end = if timers[1] <= next { End::Receiver } else { End::Sender };
            ends.expire(&mut road, end);
        }
    }
}

/// A sender and a receiver of Windward.
struct Own {
    sender: Sender,
    receiver: Receiver,
    flight: Flight<Packet>,
}

impl Own {
    /// Lets the sender send all it may, and records its state.
    fn transmit(&mut self, road: &mut Road<'_>) {
        let mut packet = Packet::default();
        while self.sender.poll_transmit(road.now, &mut packet) {
            self.send(road, packet.clone());
        }
        self.look(road);
    }

    fn send(&mut self, road: &mut Road<'_>, mut packet: Packet) {
        let data = packet.seq + 1;
        let is_again = packet.flags.contains(Flags::RETRANSMISSION);
        road.note(Kind::Packet, Some(data));
        if is_again {
            road.note(Kind::Retransmission, Some(data));
        }
        let fates = road.treatment.of_data(road.now, data, is_again);
        // Packets that the script loses do not reach the queue.
        let left = match fates.lost {
            true => None,
            false => road.wire.leaves(road.now, packet.size),
        };
        let Some(left) = left else {
            road.note(Kind::Loss, Some(data));
            return;
        };
        if fates.marked && packet.flags.contains(Flags::ECN_CAPABLE) {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
        }
        self.flight.enter(road.wire.route, left + fates.delay, End::Receiver, packet);
    }

    fn answer(&mut self, road: &mut Road<'_>, ack: Packet) {
        let fates = road.treatment.of_ack(road.now);
        if !fates.lost {
            self.flight.enter(road.wire.route, road.now + fates.delay, End::Sender, ack);
        }
    }
}

impl Ends for Own {
    fn next_arrival(&self) -> Time {
        self.flight.next()
    }

    fn timers(&mut self) -> [Time; 2] {
        [self.sender.next_timer(), self.receiver.next_timer()]
    }

    fn arrive(&mut self, road: &mut Road<'_>) {
        let (end, mut packet) = self.flight.pop();
        if end == End::Receiver {
            if self.receiver.on_data(road.now, &mut packet) {
                self.answer(road, packet);
            }
            return;
        }
        self.sender.on_ack(road.now, &packet);
        road.note(Kind::Ack, None);
        if packet.flags.contains(Flags::ECN_ECHO) {
            road.note(Kind::Echo, None);
        }
        self.transmit(road);
    }

    fn offer(&mut self, road: &mut Road<'_>, packets: u64) {
        let so_far = self.sender.sequences().limit;
        self.sender.offer_until(so_far.saturating_add(packets));
        self.transmit(road);
    }

    fn expire(&mut self, road: &mut Road<'_>, end: End) {
        if end == End::Receiver {
            let mut ack = Packet::default();
            if self.receiver.on_timer(road.now, &mut ack) {
                self.answer(road, ack);
            }
            return;
        }
        let before = self.sender.stats(road.now).timeouts;
        self.sender.on_timer(road.now);
        if self.sender.stats(road.now).timeouts > before {
            road.note(Kind::Timeout, None);
        }
        self.transmit(road);
    }

    fn state(&mut self, road: &Road<'_>) -> State {
        let sender = &mut self.sender;
        let stats = sender.stats(road.now);
        let count = |count: u64| Some(count as f64);
        State {
            at: road.at(),
            cwnd: sender.cwnd(),
            values: [
                Some(sender.cwnd()),
                Some(sender.ssthresh()),
                count(sender.in_flight()),
                sender.pacing_rate(),
                Some(sender.rtt().srtt().as_secs_f64()),
                count(stats.sent),
                count(stats.retransmissions),
                count(stats.timeouts),
                count(sender.sequences().una),
                None,
            ],
        }
    }
}

/// A connection of a stack.
struct Theirs {
    connection: Box<dyn Connection>,
    config: StackConfig,
    flight: Flight<(Vec<u8>, Codepoint)>,
}

impl Theirs {
    /// Lets an end send all it may, and records the state of the sender.
    fn transmit(&mut self, road: &mut Road<'_>, end: End) {
        let mut payload = Vec::new();
        // An endless sender ends the run by the maximum number of events.
        while road.steps < MOST_EVENTS
            && let Some(ecn) = self.connection.poll_transmit(road.now, end, &mut payload)
        {
            let ecn = if self.config.ecn { ecn } else { Codepoint::NotEct };
            road.steps += 1;
            let payload = std::mem::take(&mut payload);
            match end {
                End::Sender => self.send(road, payload, ecn),
                End::Receiver => self.answer(road, payload, ecn),
            }
        }
        if end == End::Sender {
            self.look(road);
        }
    }

    fn send(&mut self, road: &mut Road<'_>, payload: Vec<u8>, mut ecn: Codepoint) {
        let size = payload.len() as u32 + UDP_OVERHEAD;
        // Packets of the handshake are padded, and have the long header (RFC 9000 section 17.2).
        let is_short = payload.first().is_some_and(|first| first & 0x80 == 0);
        let is_full = is_short && payload.len() as u64 >= u64::from(self.config.payload());
        if is_full && road.origin.is_none() {
            road.origin = Some(road.now);
            self.look(road);
        }
        let left = if is_full {
            road.note(Kind::Packet, Some(0));
            let fates = road.treatment.of_data(road.at(), 0, false);
            if fates.marked && ecn != Codepoint::NotEct {
                ecn = Codepoint::Ce;
            }
            let left = if fates.lost { None } else { road.wire.leaves(road.now, size) };
            left.map(|left| left + fates.delay)
        } else {
            road.wire.leaves(road.now, size)
        };
        match left {
            Some(left) => {
                self.flight.enter(road.wire.route, left, End::Receiver, (payload, ecn));
            }
            None if is_full => road.note(Kind::Loss, Some(0)),
            None => {}
        }
    }

    fn answer(&mut self, road: &mut Road<'_>, payload: Vec<u8>, ecn: Codepoint) {
        let fates = match road.origin {
            Some(_) => road.treatment.of_ack(road.at()),
            None => Fates::default(),
        };
        if !fates.lost {
            let left = road.now + fates.delay;
            self.flight.enter(road.wire.route, left, End::Sender, (payload, ecn));
        }
    }
}

impl Ends for Theirs {
    fn next_arrival(&self) -> Time {
        self.flight.next()
    }

    fn timers(&mut self) -> [Time; 2] {
        End::BOTH.map(|end| self.connection.next_timer(end))
    }

    fn arrive(&mut self, road: &mut Road<'_>) {
        let (end, (payload, ecn)) = self.flight.pop();
        if end == End::Sender && road.origin.is_some() {
            road.note(Kind::Ack, None);
        }
        self.connection.receive(road.now, end, &payload, ecn);
        self.transmit(road, end);
    }

    fn offer(&mut self, road: &mut Road<'_>, _: u64) {
        self.connection.start(road.now);
        self.transmit(road, End::Sender);
    }

    fn expire(&mut self, road: &mut Road<'_>, end: End) {
        self.connection.on_timer(road.now, end);
        self.transmit(road, end);
    }

    fn state(&mut self, road: &Road<'_>) -> State {
        let report = self.connection.report();
        let packets = |bytes: u64| bytes as f64 / f64::from(self.config.payload());
        let cwnd = packets(report.cwnd);
        State {
            at: road.at(),
            cwnd,
            values: [
                Some(cwnd),
                Some(report.ssthresh.map_or(f64::INFINITY, packets)),
                Some(packets(report.in_flight)),
                None,
                Some(report.srtt.as_secs_f64()),
                Some(road.treatment.sent as f64),
                None,
                None,
                None,
                None,
            ],
        }
    }
}
