//! The server: many connections, one thread, one socket.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use quinn_udp::EcnCodepoint;
use windward_core::units::{Duration, Time};

use super::Error;
use super::connection::{Connection, Envelope, Received};
use super::frame::{Counts, FrameKind, Greeting, Refusal, Sample};
use super::guard::{Ending, Limits};
use super::keys::{Cookies, NONCE_LEN, NoRandomness, Psk, SessionKeys, random};
use super::plan::{MIN_REPORT, Test, overhead};
use super::socket::{Inbox, Outbox, Socket, be_punctual, until, wait};
use crate::clock::{Clock as _, Monotonic};

/// Longest time from the opening of a connection to its start.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Time for which the counts of a connection that has ended are kept, for a client that did not get
/// them.
const LINGER: Duration = Duration::from_secs(3);
/// Time without progress after which the place of a connection is given to another, if no place is
/// free.
const STANDSTILL: Duration = Duration::from_secs(5);
/// The shortest time between two reports to a client that acknowledges nothing.
const SILENT_REPORT: Duration = Duration::from_secs(1);
/// Time by which a test may be longer than announced.
const GRACE: Duration = Duration::from_secs(30);
/// Number of receiving system calls before other work.
const RECEIVES: usize = 8;
/// Time between two checks of the server whether it should stop.
const TICK: Duration = Duration::from_millis(100);

/// Configuration of a server.
#[derive(Debug)]
pub struct ServerConfig {
    /// Largest number of connections at once.
    pub max_connections: usize,
    /// Largest number of connections with one IPv4 address or one /64 of IPv6.
    pub max_per_address: usize,
    /// Pre-shared key; if there is one, only clients that have it are served.
    pub psk: Option<Psk>,
    /// Limits on data from the server, for any requests of clients.
    pub limits: Limits,
    /// Time between two [`Event::Sample`]; zero for none.
    pub sample: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        ServerConfig {
            max_connections: 512,
            max_per_address: 256,
            psk: None,
            limits: Limits::default(),
            sample: Duration::ZERO,
        }
    }
}

/// State of a connection of a server, as far as the server knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Served {
    /// Its number in the order of opening, from 1.
    pub number: u64,
    /// Address of the client.
    pub peer: SocketAddr,
    /// The protocol, as the client named it.
    pub protocol: String,
    /// True if the server sends.
    pub reverse: bool,
    /// Bytes of a data packet with the headers of UDP and IP.
    pub packet_size: u32,
    /// Its state. If the server receives, only `delivered` is known.
    pub state: Sample,
    /// Packets sent that have not arrived, lost or still on their way; `None` if the server sends.
    pub missing: Option<u64>,
    /// Smoothed delay of the way to the server above the lowest so far, seconds; `None` if the
    /// server sends, and before the first packet.
    pub queueing_delay_s: Option<f64>,
    /// Lowest RTT so far, seconds; `None` if the server receives, and before the first sample.
    pub min_rtt_s: Option<f64>,
}

/// Event of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A client has opened a connection.
    Opened {
        /// Its address.
        peer: SocketAddr,
        /// The test.
        test: Test,
    },
    /// A connection has ended normally.
    Ended {
        /// Its address.
        peer: SocketAddr,
        /// The test.
        test: Test,
        /// Counts of the server.
        server: Box<Counts>,
        /// Counts of the client.
        client: Box<Counts>,
    },
    /// A connection was given up.
    Lost {
        /// Its address.
        peer: SocketAddr,
        /// Why.
        ending: Ending,
    },
    /// A sample was due.
    Sample {
        /// Seconds since the server began to serve.
        time_s: f64,
        /// The connections that run, and those that have ended since the last sample.
        connections: Vec<Served>,
    },
}

/// Counts of datagrams that do not belong to a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Datagrams that are not of the protocol, or not of a connection.
    pub strange: u64,
    /// Cookies sent.
    pub challenges: u64,
    /// Connections refused.
    pub refusals: u64,
    /// Connections made.
    pub accepted: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum SessionState {
    /// The server does not know yet whether the client has its acceptance.
    Opened,
    Running,
    Ended(Counts),
}

#[derive(Debug)]
struct Session {
    connection: Connection,
    number: u64,
    test: Test,
    client: [u8; NONCE_LEN],
    accept: Vec<u8>,
    state: SessionState,
    since: Time,
    /// True if it may have something to send.
    ready: bool,
    /// Time of the next report to the client.
    report: Time,
}

impl Session {
    /// Time at which it is given up, unless something happens before.
    fn end(&self) -> Time {
        match self.state {
            SessionState::Opened => self.since + START_PATIENCE,
            SessionState::Ended(_) => self.since + LINGER,
            SessionState::Running => {
                let longest = Duration::from_secs(u64::from(self.test.seconds)) + GRACE;
                (self.since + longest).min(self.connection.end())
            }
        }
    }

    /// Reason to give it up now, if there is one.
    fn ending(&mut self, now: Time) -> Option<Ending> {
        if self.state == SessionState::Running && self.connection.breaks(now) {
            return Some(Ending::Losses);
        }
        let is_silent = self.state != SessionState::Running || self.connection.end() <= now;
        (self.end() <= now).then_some(if is_silent { Ending::Silence } else { Ending::TooLong })
    }

    /// Time of its latest progress.
    fn still_since(&self) -> Time {
        match self.state {
            SessionState::Running => self.connection.advanced(),
            _ => self.since,
        }
    }
}

/// Address or prefix that an address counts for.
fn party(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => IpAddr::V6((ip.to_bits() >> 64 << 64).into()),
        ip => ip,
    }
}

/// Counts one connection less for an address.
fn leave(per_party: &mut HashMap<IpAddr, usize>, peer: SocketAddr) {
    if let Entry::Occupied(mut count) = per_party.entry(party(peer)) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

/// True if this can be the address of a host. Other addresses get no answer.
fn is_host(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    address.port() != 0 && !ip.is_multicast() && !ip.is_unspecified() && !is_broadcast
}

/// A server without its socket: datagrams in, datagrams out, time as an argument.
#[derive(Debug)]
pub(super) struct Sessions {
    config: ServerConfig,
    cookies: Cookies,
    sessions: HashMap<u64, Session>,
    /// Connection that each opening made, since an opening may be repeated.
    opened: HashMap<(SocketAddr, [u8; NONCE_LEN]), u64>,
    /// Number of connections of each address that have not ended.
    per_party: HashMap<IpAddr, usize>,
    events: Vec<Event>,
    totals: Totals,
}

impl Sessions {
    pub(super) fn new(config: ServerConfig) -> Result<Self, NoRandomness> {
        Ok(Sessions {
            config,
            cookies: Cookies::new()?,
            sessions: HashMap::new(),
            opened: HashMap::new(),
            per_party: HashMap::new(),
            events: Vec::new(),
            totals: Totals::default(),
        })
    }

    /// A datagram arrived.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) {
        if is_host(from) {
            match FrameKind::of(bytes) {
                Some(FrameKind::Hello | FrameKind::Open) => {
                    if let Some(greeting) = Greeting::decode(bytes) {
                        return self.greet(now, from, greeting, bytes, outbox);
                    }
                }
                Some(FrameKind::Data | FrameKind::Ack | FrameKind::Start | FrameKind::End) => {
                    if let Some(envelope) = Envelope::read(bytes)
                        && let Some(session) = self.sessions.get_mut(&envelope.connection)
                    {
                        let event = session.receive(now, from, ecn, envelope, bytes, outbox);
                        if matches!(event, Some(Event::Ended { .. })) {
                            leave(&mut self.per_party, from);
                        }
                        self.events.extend(event);
                        return;
                    }
                }
                _ => {}
            }
        }
        self.totals.strange += 1;
    }

    fn greet(
        &mut self,
        now: Time,
        from: SocketAddr,
        greeting: Greeting,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) {
        let (client, answer) = match greeting {
            Greeting::Hello { client } => {
                self.totals.challenges += 1;
                let cookie = self.cookies.make(now, from, &client);
                return push(from, &Greeting::Challenge { client, cookie }.encode(), outbox);
            }
            Greeting::Open { client, cookie, keyed, test } => {
                let is_known = self.cookies.knows(now, from, &client, &cookie);
                (client, self.open(now, from, (client, is_known, keyed), test, bytes))
            }
            _ => return,
        };
        match answer {
            Ok(accept) => push(from, &accept, outbox),
            Err((refusal, reason)) => {
                self.totals.refusals += 1;
                // It may contain text of clients.
                let reason = reason.replace(char::is_control, " ");
                push(from, &Greeting::Refuse { client, refusal, reason }.encode(), outbox);
            }
        }
    }

    /// Checks that a client receives at its address and has the key of this server.
    fn check(&self, has_cookie: bool, keyed: bool, bytes: &[u8]) -> Result<(), (Refusal, String)> {
        let (refusal, reason) = match &self.config.psk {
            _ if !has_cookie => (Refusal::Cookie, "the cookie is invalid or too old"),
            None if keyed => (Refusal::Key, "it has no key: omit --psk, or start it with a key"),
            Some(_) if !keyed => (Refusal::Key, "it requires a key: set --psk"),
            Some(psk) if !psk.knows_greeting(bytes) => {
                (Refusal::Key, "it has another key: --psk must name the same key")
            }
            _ => return Ok(()),
        };
        Err((refusal, reason.to_owned()))
    }

    /// True if there is a place for one more connection of a client, if need be that of another.
    fn has_place(&mut self, now: Time, from: SocketAddr) -> bool {
        let of_party = self.per_party.get(&party(from)).copied().unwrap_or(0);
        if of_party >= self.config.max_per_address {
            return false;
        }
        if self.sessions.len() >= self.config.max_connections {
            self.make_room(now);
        }
        self.sessions.len() < self.config.max_connections
    }

    fn open(
        &mut self,
        now: Time,
        from: SocketAddr,
        (client, has_cookie, keyed): ([u8; NONCE_LEN], bool, bool),
        test: Test,
        bytes: &[u8],
    ) -> Result<Vec<u8>, (Refusal, String)> {
        let busy = |reason: &str| (Refusal::Busy, reason.to_owned());
        self.check(has_cookie, keyed, bytes)?;
        if let Some(session) = self.opened.get(&(from, client)).and_then(|id| self.sessions.get(id))
        {
            return Ok(session.accept.clone());
        }
        if !self.has_place(now, from) {
            return Err(busy("it has its maximum number of connections: try again later"));
        }
        let plan = test.plan().map_err(|reason| (Refusal::Test, reason))?;
        let no_randomness = |_| busy("it has no random bytes");
        let server = random::<NONCE_LEN>().map_err(no_randomness)?;
        let id = u64::from_be_bytes(random().map_err(no_randomness)?);
        if self.sessions.contains_key(&id) {
            return Err(busy("its random numbers collided: try again"));
        }
        let mut accept = Greeting::Accept { client, server, connection: id }.encode();
        let psk = self.config.psk.as_ref();
        if let Some(psk) = psk {
            psk.seal_greeting(&mut accept);
        }
        let keys = psk.map(|psk| SessionKeys::new(psk, &client, &server, true));
        let mut connection = Connection::new(now, (id, from, keys), &plan, &test, test.reverse)
            .map_err(|reason| (Refusal::Test, reason))?;
        if test.reverse {
            let limits = &self.config.limits;
            let first = connection.sample(now).cwnd;
            limits.check(&plan, first).map_err(|reason| (Refusal::Test, reason))?;
        }
        connection.hide_clock().map_err(no_randomness)?;
        connection.limit(&self.config.limits);
        self.totals.accepted += 1;
        self.events.push(Event::Opened { peer: from, test: test.clone() });
        self.opened.insert((from, client), id);
        *self.per_party.entry(party(from)).or_default() += 1;
        let session = Session {
            connection,
            number: self.totals.accepted,
            test,
            client,
            accept: accept.clone(),
            state: SessionState::Opened,
            since: now,
            ready: false,
            report: Time::NEVER,
        };
        self.sessions.insert(id, session);
        Ok(accept)
    }

    /// Makes room by removing a connection that has ended; else the one without progress for
    /// longest, if that is long.
    fn make_room(&mut self, now: Time) {
        let has_ended = |session: &Session| matches!(session.state, SessionState::Ended(_));
        let of = |sessions: &HashMap<u64, Session>, ends: bool| {
            let all = sessions.iter().filter(|(_, session)| has_ended(session) == ends);
            all.map(|(id, session)| (session.still_since(), *id)).min()
        };
        let still = || of(&self.sessions, false).filter(|(since, _)| *since + STANDSTILL <= now);
        let chosen = of(&self.sessions, true).or_else(still);
        if let Some(session) = chosen.and_then(|(_, id)| self.sessions.remove(&id)) {
            let Sessions { opened, per_party, events, .. } = self;
            session.forget(Ending::Displaced, opened, per_party, events);
        }
    }

    /// Timers that are due, and connections that are to be given up.
    pub(super) fn on_timer(&mut self, now: Time, outbox: &mut Outbox) {
        let rate = self.rate_of_each();
        let Sessions { sessions, opened, per_party, events, .. } = self;
        sessions.retain(|_, session| {
            if session.state == SessionState::Running {
                session.connection.set_rate(rate);
                if session.connection.next_timer() <= now {
                    session.connection.on_timer(now, outbox);
                    session.ready = session.connection.sends();
                }
            }
            if session.state == SessionState::Running && session.report <= now {
                // An unproven peer gets few reports or none.
                if session.connection.is_proven() {
                    session.connection.push_report(now, outbox);
                }
                let is_silent = session.connection.is_silent();
                let least = if is_silent { SILENT_REPORT } else { MIN_REPORT };
                session.report = now + session.test.report.max(least);
            }
            let Some(ending) = session.ending(now) else { return true };
            session.forget(ending, opened, per_party, events);
            false
        });
    }

    /// Bytes per second of each connection that sends, if the operator limits all of them.
    fn rate_of_each(&self) -> Option<f64> {
        let all = self.config.limits.rate?.bytes_per_s();
        let sends = |session: &&Session| {
            session.state == SessionState::Running && session.connection.sends()
        };
        Some(all / self.sessions.values().filter(sends).count().max(1) as f64)
    }

    /// Time of the next call of [`Sessions::on_timer`].
    pub(super) fn next_timer(&self) -> Time {
        let of = |session: &Session| match session.state {
            SessionState::Running => {
                session.connection.next_timer().min(session.end()).min(session.report)
            }
            _ => session.end(),
        };
        self.sessions.values().map(of).min().unwrap_or(Time::NEVER)
    }

    /// Connections that run, and those that have ended after `since`, in the order of opening.
    pub(super) fn sample(&mut self, since: Time, now: Time) -> Vec<Served> {
        let is_shown = |session: &&mut Session| match session.state {
            SessionState::Opened => false,
            SessionState::Running => true,
            SessionState::Ended(_) => session.since > since,
        };
        let shown = self.sessions.values_mut().filter(is_shown);
        let mut all: Vec<Served> = shown.map(|session| session.sample(now)).collect();
        all.sort_unstable_by_key(|served| served.number);
        all
    }

    /// Connections that may have something to send.
    fn ready(&mut self) -> impl Iterator<Item = &mut Session> {
        self.sessions.values_mut().filter(|session| session.ready)
    }

    /// Prepares the packets that connections may send, and counts them as sent; false if there are
    /// none.
    #[cfg(test)]
    pub(super) fn transmit(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        for session in self.sessions.values_mut().filter(|session| session.ready) {
            let before = outbox.len();
            session.ready = session.connection.transmit(now, outbox);
            session.connection.sent(now, outbox.len() - before);
        }
        self.ready().next().is_some()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        debug_assert_eq!(self.sessions.len(), self.opened.len());
        let ended = |session: &&Session| matches!(session.state, SessionState::Ended(_));
        let ended = self.sessions.values().filter(ended).count();
        debug_assert_eq!(self.sessions.len() - ended, self.per_party.values().sum::<usize>());
        self.sessions.len()
    }

    #[cfg(test)]
    pub(super) fn has_something_to_send(&mut self) -> bool {
        self.ready().next().is_some()
    }

    #[cfg(test)]
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }
}

impl Session {
    fn sample(&mut self, now: Time) -> Served {
        let path = self.connection.path();
        Served {
            number: self.number,
            peer: self.connection.peer,
            protocol: self.test.protocol.clone(),
            reverse: self.test.reverse,
            packet_size: self.connection.datagram() as u32 + overhead(self.connection.peer),
            state: self.connection.sample(now),
            missing: path.missing,
            queueing_delay_s: path.queueing_delay_s,
            min_rtt_s: path.min_rtt_s,
        }
    }

    /// Removes a connection, and reports the reason if it had not ended before.
    fn forget(
        &self,
        ending: Ending,
        opened: &mut HashMap<(SocketAddr, [u8; NONCE_LEN]), u64>,
        per_party: &mut HashMap<IpAddr, usize>,
        events: &mut Vec<Event>,
    ) {
        let peer = self.connection.peer;
        opened.remove(&(peer, self.client));
        if !matches!(self.state, SessionState::Ended(_)) {
            events.push(Event::Lost { peer, ending });
            leave(per_party, peer);
        }
    }

    fn receive(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        envelope: Envelope,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) -> Option<Event> {
        if matches!(self.state, SessionState::Ended(_)) && envelope.kind != FrameKind::End {
            return None;
        }
        let received = self.connection.receive(now, from, ecn, envelope, bytes, outbox);
        if received == Received::Nothing {
            return None;
        }
        if self.state == SessionState::Opened {
            // It knows the connection's number, which only the acceptance told.
            self.state = SessionState::Running;
            self.since = now;
            self.connection.await_data(now);
            if self.connection.sends() {
                self.connection.restart(now);
                if !self.test.report.is_zero() {
                    self.report = now + self.test.report.max(MIN_REPORT);
                }
            }
        }
        self.ready |= self.connection.sends();
        let Received::Control(FrameKind::End, Some(client)) = received else { return None };
        let (server, event) = match self.state {
            SessionState::Ended(server) => (server, None),
            _ => {
                let server = self.connection.counts(now);
                self.state = SessionState::Ended(server);
                self.since = now;
                self.ready = false;
                let (peer, test) = (self.connection.peer, self.test.clone());
                (server, Some(Event::Ended { peer, test, server: Box::new(server), client }))
            }
        };
        self.connection.push_control(FrameKind::Result, &server.encode(), outbox);
        event
    }
}

fn push(to: SocketAddr, bytes: &[u8], outbox: &mut Outbox) {
    outbox.push(to, None, bytes.len(), |room| room.copy_from_slice(bytes));
}

/// A server with its socket.
#[derive(Debug)]
pub struct Server {
    socket: Socket,
    sessions: Sessions,
}

impl Server {
    /// Binds a server to an address.
    ///
    /// # Errors
    ///
    /// If the address is in use, or without the right to bind it.
    pub fn bind(address: SocketAddr, config: ServerConfig) -> Result<Self, Error> {
        let socket = UdpSocket::bind(address).and_then(Socket::new);
        let socket = socket.map_err(Error::io(format!("listen at {address}")))?;
        Ok(Server { socket, sessions: Sessions::new(config)? })
    }

    /// Address at which it listens.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.socket.local_addr().map_err(Error::io("ask for the address of a socket"))
    }
}

/// Serves until `stop` is set, and reports connections.
///
/// # Errors
///
/// If the socket fails permanently.
pub fn serve(
    server: Server,
    stop: &AtomicBool,
    mut tell: impl FnMut(Event),
) -> Result<Totals, Error> {
    be_punctual();
    let mut at_work = AtWork::begin(server);
    while !stop.load(Ordering::Relaxed) {
        at_work.turn(&mut tell)?;
    }
    // The remainder is a sample too.
    if !at_work.samples.every.is_zero() {
        at_work.sample(at_work.clock.now(), &mut tell);
    }
    Ok(at_work.sessions.totals)
}

/// A server that serves.
struct AtWork {
    socket: Socket,
    sessions: Sessions,
    clock: Monotonic,
    samples: Samples,
    inbox: Inbox,
    answers: Outbox,
    data: Outbox,
}

/// Times of samples.
struct Samples {
    start: Time,
    /// Zero for none.
    every: Duration,
    last: Time,
    next: Time,
}

impl AtWork {
    fn begin(server: Server) -> Self {
        let Server { socket, sessions } = server;
        let clock = Monotonic::start();
        let (start, every) = (clock.now(), sessions.config.sample);
        let next = if every.is_zero() { Time::NEVER } else { start + every };
        AtWork {
            socket,
            sessions,
            clock,
            samples: Samples { start, every, last: start, next },
            inbox: Inbox::new(),
            answers: Outbox::default(),
            data: Outbox::default(),
        }
    }

    /// Waits until there is work, and does it.
    fn turn(&mut self, tell: &mut impl FnMut(Event)) -> Result<(), Error> {
        self.wait()?;
        self.take_in();
        let now = self.clock.now();
        self.sessions.on_timer(now, &mut self.answers);
        let _ = self.socket.flush(now, &mut self.answers);
        self.send(now);
        self.sessions.events.drain(..).for_each(&mut *tell);
        if now >= self.samples.next {
            self.sample(now, tell);
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Error> {
        let now = self.clock.now();
        let has_data = self.sessions.ready().next().is_some();
        let time = match has_data && !self.socket.is_obstructed(now) {
            true => Duration::ZERO,
            false => {
                let wake = self.sessions.next_timer().min(self.samples.next);
                until(now, wake.min(self.socket.wake(now)), TICK)
            }
        };
        wait([&self.socket], time).map_err(Error::io("wait for datagrams"))
    }

    /// Handles the datagrams that have arrived. What cannot be answered is lost, as on a path.
    fn take_in(&mut self) {
        for _ in 0..RECEIVES {
            let now = self.clock.now();
            let (sessions, answers) = (&mut self.sessions, &mut self.answers);
            let each = |from, ecn, bytes: &[u8]| sessions.receive(now, from, ecn, bytes, answers);
            if !self.socket.receive(&mut self.inbox, each).unwrap_or(true) {
                return;
            }
            let _ = self.socket.flush(now, &mut self.answers);
            self.answers.bound();
        }
    }

    /// Sends data of the connections in turn, as long as the socket takes it.
    fn send(&mut self, now: Time) {
        for session in self.sessions.ready() {
            if self.socket.is_obstructed(now) {
                return;
            }
            session.ready = session.connection.transmit(now, &mut self.data);
            let count = self.data.len();
            let _ = self.socket.flush(now, &mut self.data);
            session.connection.sent(now, count - self.data.len());
            session.ready |= !self.data.is_empty();
            self.data.clear();
        }
    }

    fn sample(&mut self, now: Time, tell: &mut impl FnMut(Event)) {
        let Samples { start, every, last, next } = &mut self.samples;
        let connections = self.sessions.sample(*last, now);
        tell(Event::Sample { time_s: now.since(*start).as_secs_f64(), connections });
        *last = now;
        // Missed samples are not repeated.
        while *next <= now {
            *next += *every;
        }
    }
}
