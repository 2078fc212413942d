//! The client: a connection per flow, each with its own socket, in one thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Time};

use rustix::io::Errno;

use super::connection::{Connection, Envelope, Received, Sample, overhead, packets_of};
use super::frame::{Counts, Greeting, Kind, Refusal, Test};
use super::keys::{COOKIE_LEN, NONCE_LEN, Psk, SessionKeys, random};
use super::socket::{Inbox, Obstacle, Outbox, Socket, be_punctual, until, wait};
use super::{Error, PATIENCE};
use crate::clock::{Clock as _, Monotonic};

/// How long an answer is waited for before the question is repeated.
const REPEAT: Duration = Duration::from_millis(250);
/// How often the server hears from a flow that perhaps has nothing to send: it gives up what is silent.
const KEEP: Duration = Duration::from_secs(5);
/// How long the beginning and the end of a test may take.
const HANDSHAKE: Duration = Duration::from_secs(6);
/// System calls that receive, before anything else has its turn.
const RECEIVES: usize = 8;
/// How often the client looks whether it should stop.
const TICK: Duration = Duration::from_millis(100);

/// What a client measures.
#[derive(Debug)]
pub struct ClientConfig {
    /// What each of its connections does.
    pub test: Test,
    /// How many connections there are, 1 to [`super::MAX_FLOWS`].
    pub flows: usize,
    /// The key that the server has too, if it wants one.
    pub psk: Option<Psk>,
    /// How often the observer hears of the test; zero is never.
    pub interval: Duration,
}

/// What happened in a part of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// When it began, seconds since the start of the test.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Of each flow, in order, from the start of the test until then.
    pub flows: Vec<Sample>,
    /// Of each flow, bits per second delivered in the interval, with the headers of UDP and IP.
    pub goodput_bps: Vec<f64>,
}

/// What became of one flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowOutcome {
    /// What its sender counted.
    pub sender: Counts,
    /// What its receiver counted.
    pub receiver: Counts,
    /// When the transfer was complete, seconds, if its size was limited and it was.
    pub completed_s: Option<f64>,
}

/// What a test measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How long it lasted, seconds.
    pub seconds: f64,
    /// Was it ended before its time?
    pub interrupted: bool,
    /// Bytes of a packet with the headers of UDP and IP.
    pub packet_bytes: u32,
    /// One by one.
    pub flows: Vec<FlowOutcome>,
}

#[derive(Debug)]
enum State {
    /// The server has not accepted yet.
    Greeting { cookie: Option<[u8; COOKIE_LEN]> },
    /// It has.
    Open(Box<Connection>),
}

#[derive(Debug)]
struct Flow {
    socket: Socket,
    client: [u8; NONCE_LEN],
    state: State,
    /// When a question is to be repeated.
    repeat: Time,
    ready: bool,
    blocked: bool,
    retry: Time,
    answers: Outbox,
    /// Has anything come since the start?
    heard: bool,
    completed: Option<Time>,
    /// What the server says in the end.
    result: Option<Counts>,
}

/// Everything a client has.
struct Client<'a> {
    server: SocketAddr,
    protocol: &'a Protocol,
    config: &'a ClientConfig,
    clock: Monotonic,
    flows: Vec<Flow>,
    inbox: Inbox,
    data: Outbox,
}

/// Measures: opens the connections, sends or receives for as long as the test says, and asks the server what it has counted. The
/// observer hears of every interval.
///
/// # Errors
///
/// If there is nothing to measure with: no server, another key, a path that is down.
pub fn run(
    server: SocketAddr,
    protocol: &Protocol,
    config: &ClientConfig,
    stop: &AtomicBool,
    mut observe: impl FnMut(&Interval),
) -> Result<Outcome, Error> {
    be_punctual();
    let mut client = Client {
        server,
        protocol,
        config,
        clock: Monotonic::start(),
        flows: (0..config.flows.clamp(1, super::MAX_FLOWS))
            .map(|_| Flow::new(server))
            .collect::<Result<_, _>>()?,
        inbox: Inbox::new(),
        data: Outbox::default(),
    };
    let stopped = || stop.load(Ordering::Relaxed);
    client.greet(&stopped)?;
    let (start, end) = client.measure(&stopped, &mut observe)?;
    client.finish(start, end, stopped())
}

impl Flow {
    fn new(server: SocketAddr) -> Result<Self, Error> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            // From here on the kernel keeps away what others send, and tells of ports that are closed.
            socket.connect(server)?;
            Socket::new(socket)
        };
        Ok(Flow {
            socket: open().map_err(Error::io(format!("reach {server}")))?,
            client: random()?,
            state: State::Greeting { cookie: None },
            repeat: Time::ZERO,
            ready: false,
            blocked: false,
            retry: Time::ZERO,
            answers: Outbox::default(),
            heard: false,
            completed: None,
            result: None,
        })
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Open(connection) => Some(connection),
            State::Greeting { .. } => None,
        }
    }

    /// Asks, or asks again, to be let in.
    fn ask(&mut self, server: SocketAddr, config: &ClientConfig) {
        let State::Greeting { cookie } = &self.state else { return };
        let client = self.client;
        let bytes = match *cookie {
            None => Greeting::Hello { client }.encode(),
            Some(cookie) => {
                let (keyed, test) = (config.psk.is_some(), config.test.clone());
                let mut bytes = Greeting::Open { client, cookie, keyed, test }.encode();
                if let Some(psk) = &config.psk {
                    psk.seal_greeting(&mut bytes);
                }
                bytes
            }
        };
        self.answers.push(server, None, bytes.len(), |room| room.copy_from_slice(&bytes));
    }

    /// An answer to what was asked.
    fn on_greeting(
        &mut self,
        now: Time,
        server: SocketAddr,
        (protocol, config): (&Protocol, &ClientConfig),
        bytes: &[u8],
    ) -> Result<(), Error> {
        let State::Greeting { cookie } = &mut self.state else { return Ok(()) };
        match Greeting::decode(bytes) {
            Ok(Greeting::Challenge { client, cookie: given }) if client == self.client => {
                *cookie = Some(given);
                self.repeat = now;
            }
            Ok(Greeting::Accept { client, server: nonce, connection })
                if client == self.client && cookie.is_some() =>
            {
                if config.psk.as_ref().is_some_and(|psk| !psk.knows_greeting(bytes)) {
                    return Ok(()); // Not from who has the key.
                }
                let keys =
                    config.psk.as_ref().map(|psk| SessionKeys::new(psk, &client, &nonce, false));
                let sends = !config.test.reverse;
                let ids = (connection, server, keys);
                let connection = Connection::new(now, ids, protocol, &config.test, sends);
                self.state = State::Open(Box::new(connection));
            }
            // A cookie that has become too old is asked for again.
            Ok(Greeting::Refuse { client, refusal: Refusal::Cookie, .. })
                if client == self.client =>
            {
                *cookie = None;
                self.repeat = now + REPEAT;
            }
            Ok(Greeting::Refuse { client, refusal, reason })
                if client == self.client && cookie.is_some() =>
            {
                return Err(Error::Refused { refusal, reason });
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends what answers there are.
    fn flush(&mut self) -> Option<io::Error> {
        let obstacle = self.socket.flush(&mut self.answers);
        self.answers.bound();
        self.note(Time::ZERO, obstacle)
    }

    fn note(&mut self, now: Time, obstacle: Option<Obstacle>) -> Option<io::Error> {
        self.blocked = matches!(obstacle, Some(Obstacle::Full));
        match obstacle {
            Some(Obstacle::NoBuffers) => self.retry = now + Duration::from_millis(1),
            Some(Obstacle::Error(error)) => return Some(error),
            _ => {}
        }
        None
    }
}

impl Client<'_> {
    /// Until every flow has its connection.
    fn greet(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        let deadline = self.clock.now() + HANDSHAKE;
        loop {
            let now = self.clock.now();
            let mut open = 0;
            let mut wake = deadline;
            for flow in &mut self.flows {
                if matches!(flow.state, State::Open(_)) {
                    open += 1;
                    continue;
                }
                if flow.repeat <= now {
                    flow.ask(self.server, self.config);
                    flow.repeat = now + REPEAT;
                    if let Some(error) = flow.flush() {
                        check(error, self.server, self.config)?;
                    }
                }
                wake = wake.min(flow.repeat);
            }
            if open == self.flows.len() || stopped() {
                return Ok(());
            }
            if now >= deadline {
                return Err(Error::NoAnswer(self.server));
            }
            self.wait(until(now, wake, TICK))?;
            for at in 0..self.flows.len() {
                self.receive(at)?;
            }
        }
    }

    /// Until the test is over: when it began and ended.
    fn measure(
        &mut self,
        stopped: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(&Interval),
    ) -> Result<(Time, Time), Error> {
        let start = self.clock.now();
        let end = start + Duration::from_secs(u64::from(self.config.test.seconds));
        let mut intervals = Intervals::new(start, self);
        for flow in &mut self.flows {
            flow.ready = !self.config.test.reverse;
            flow.repeat = start;
            if let Some(connection) = flow.connection() {
                connection.restart(start);
            }
        }
        loop {
            for at in 0..self.flows.len() {
                self.receive(at)?;
            }
            let now = self.clock.now();
            let mut busy = false;
            let mut wake = end.min(intervals.next);
            let mut running = 0;
            for at in 0..self.flows.len() {
                self.serve(at, now)?;
                let flow = &mut self.flows[at];
                if flow.completed.is_some() {
                    continue;
                }
                running += 1;
                let obstructed = flow.blocked || flow.retry > now;
                busy |= flow.ready && !obstructed;
                if flow.retry > now {
                    wake = wake.min(flow.retry);
                }
                wake = wake.min(flow.repeat);
                if let Some(connection) = flow.connection() {
                    wake = wake.min(connection.next_timer());
                }
            }
            let now = self.clock.now();
            let over = now >= end || running == 0 || stopped();
            if now >= intervals.next || over {
                intervals.tell(now, self, observe);
            }
            if over {
                return Ok((start, now));
            }
            let time = if busy { Duration::ZERO } else { until(now, wake, TICK) };
            self.wait(time)?;
        }
    }

    /// Timers of a flow, and what it may send.
    fn serve(&mut self, at: usize, now: Time) -> Result<(), Error> {
        let Client { flows, data, server, config, .. } = self;
        let flow = &mut flows[at];
        let State::Open(connection) = &mut flow.state else { return Ok(()) };
        if connection.heard + PATIENCE <= now && flow.completed.is_none() {
            return Err(Error::Silent(*server));
        }
        let target = packets_of(&config.test);
        if flow.completed.is_none() {
            let is_done = match config.test.reverse {
                true => target.is_some_and(|target| connection.sample(now).delivered >= target),
                false => connection.is_done(),
            };
            flow.completed = is_done.then_some(now);
        }
        if connection.next_timer() <= now {
            connection.on_timer(now, &mut flow.answers);
            flow.ready |= connection.sends();
        }
        // The server sends nothing before it hears that its answer arrived.
        if flow.repeat <= now {
            connection.push_control(Kind::Start, None, &mut flow.answers);
            flow.repeat = now + if flow.heard { KEEP } else { REPEAT };
        }
        if !flow.answers.is_empty()
            && let Some(error) = flow.flush()
        {
            check(error, *server, config)?;
        }
        let State::Open(connection) = &mut flow.state else { return Ok(()) };
        if flow.ready && flow.retry <= now {
            flow.ready = connection.transmit(now, data);
            let count = data.len();
            let obstacle = flow.socket.flush(data);
            connection.sent(count - data.len());
            flow.ready |= !data.is_empty();
            data.clear();
            if let Some(error) = flow.note(now, obstacle) {
                check(error, *server, config)?;
            }
        }
        Ok(())
    }

    /// What has arrived for a flow.
    fn receive(&mut self, at: usize) -> Result<(), Error> {
        let Client { server, protocol, config, clock, flows, inbox, .. } = self;
        let flow = &mut flows[at];
        for _ in 0..RECEIVES {
            let now = clock.now();
            let mut failure = None;
            let Flow { socket, state, answers, heard, ready, result, .. } = flow;
            let mut greetings = Vec::new();
            let received = socket.receive(inbox, |from, ecn, bytes| match state {
                State::Greeting { .. } => greetings.push(bytes.to_vec()),
                State::Open(connection) => {
                    if from != *server {
                        return;
                    }
                    let Some(envelope) = Envelope::read(bytes) else { return };
                    match connection.receive(now, from, ecn, envelope, bytes, answers) {
                        Received::Nothing => {}
                        Received::Packet => {
                            *heard = true;
                            *ready |= connection.sends();
                        }
                        Received::Control(Kind::Result, Some(counts)) => *result = Some(counts),
                        Received::Control(..) => {}
                    }
                }
            });
            for bytes in greetings {
                let opened = flow.on_greeting(now, *server, (protocol, config), &bytes);
                failure = failure.or(opened.err());
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            if let Some(error) = flow.flush() {
                check(error, *server, config)?;
            }
            match received {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let in_greeting = matches!(flow.state, State::Greeting { .. });
                    if in_greeting || error.kind() != io::ErrorKind::ConnectionRefused {
                        check(error, *server, config)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn wait(&self, time: Duration) -> Result<(), Error> {
        let sockets = self.flows.iter().map(|flow| (&flow.socket, flow.blocked));
        wait(sockets, time).map_err(Error::io("wait for datagrams"))
    }

    /// Ends the test and asks the server what it has counted.
    fn finish(mut self, start: Time, end: Time, interrupted: bool) -> Result<Outcome, Error> {
        let own: Vec<Counts> = self
            .flows
            .iter_mut()
            .map(|flow| flow.connection().map(|c| c.counts(end)).unwrap_or_default())
            .collect();
        for flow in &mut self.flows {
            flow.repeat = end;
            flow.answers.clear();
        }
        let deadline = end + HANDSHAKE;
        loop {
            let now = self.clock.now();
            let mut open = 0;
            let mut wake = deadline;
            for (flow, own) in self.flows.iter_mut().zip(&own) {
                let State::Open(connection) = &mut flow.state else { continue };
                if flow.result.is_some() {
                    continue;
                }
                open += 1;
                if flow.repeat <= now {
                    connection.push_control(Kind::End, Some(own), &mut flow.answers);
                    flow.repeat = now + REPEAT;
                    let _ = flow.flush();
                }
                wake = wake.min(flow.repeat);
            }
            if open == 0 {
                break;
            }
            if now >= deadline {
                return Err(Error::Silent(self.server));
            }
            self.wait(until(now, wake, TICK))?;
            for at in 0..self.flows.len() {
                self.receive(at)?;
            }
        }
        let reverse = self.config.test.reverse;
        let flows = self.flows.iter().zip(own).map(|(flow, own)| {
            let theirs = flow.result.unwrap_or_default();
            let (sender, receiver) = if reverse { (theirs, own) } else { (own, theirs) };
            let completed_s = flow.completed.map(|time| time.since(start).as_secs_f64());
            FlowOutcome { sender, receiver, completed_s }
        });
        Ok(Outcome {
            seconds: end.since(start).as_secs_f64(),
            interrupted,
            packet_bytes: u32::from(self.config.test.datagram) + overhead(self.server),
            flows: flows.collect(),
        })
    }
}

/// Is it an error that ends the test? Others pass, or the path is given up in time.
fn check(error: io::Error, server: SocketAddr, config: &ClientConfig) -> Result<(), Error> {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Err(Error::NothingListens(server));
    }
    if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
        return Err(Error::TooLarge { datagram: config.test.datagram });
    }
    let passes = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN];
    if passes.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        return Ok(());
    }
    Err(Error::Io { doing: format!("send to {server}"), source: error })
}

/// Tells the observer, at its times.
struct Intervals {
    start: Time,
    every: Duration,
    next: Time,
    last: Time,
    before: Vec<u64>,
}

impl Intervals {
    fn new(start: Time, client: &Client<'_>) -> Self {
        let every = client.config.interval;
        let next = if every.is_zero() { Time::NEVER } else { start + every };
        Intervals { start, every, next, last: start, before: vec![0; client.flows.len()] }
    }

    fn tell(&mut self, now: Time, client: &mut Client<'_>, observe: &mut dyn FnMut(&Interval)) {
        let passed = now.since(self.last).as_secs_f64();
        // What is left at the end is told too, if it is long enough to mean something.
        if self.every.is_zero() || passed < 0.1 * self.every.as_secs_f64() {
            return;
        }
        let bits =
            8.0 * f64::from(u32::from(client.config.test.datagram) + overhead(client.server));
        let flows: Vec<Sample> = client
            .flows
            .iter_mut()
            .map(|flow| flow.connection().map(|c| c.sample(now)).unwrap_or_default())
            .collect();
        let rate = |(sample, before): (&Sample, &u64)| {
            sample.delivered.saturating_sub(*before) as f64 * bits / passed
        };
        let goodput_bps = flows.iter().zip(&self.before).map(rate).collect();
        let seconds = |time: Time| time.since(self.start).as_secs_f64();
        self.before = flows.iter().map(|sample| sample.delivered).collect();
        observe(&Interval { start_s: seconds(self.last), end_s: seconds(now), flows, goodput_bps });
        self.last = now;
        // One that was slept through is not made up for.
        while self.next <= now {
            self.next += self.every;
        }
    }
}
