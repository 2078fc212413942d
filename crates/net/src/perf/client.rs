//! The client: a connection per flow, each with its own socket, in one thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use windward_core::units::{Duration, Time};

use rustix::io::Errno;
use windward_sim::Observer;

use super::connection::{Connection, Envelope, Received};
use super::frame::{Counts, FrameKind, Greeting, Refusal, Sample};
use super::keys::{COOKIE_LEN, NONCE_LEN, Psk, SessionKeys, random};
use super::plan::{MIN_REPORT, Plan, Test, overhead};
use super::socket::{Inbox, Outbox, Socket, be_punctual, until, wait};
use super::{Error, PATIENCE};
use crate::clock::{Clock as _, Monotonic};

/// Time without an answer after which a request is repeated.
const REPEAT: Duration = Duration::from_millis(250);
/// Time between two datagrams of a flow that has nothing to send, since the server gives up silent
/// flows.
const KEEP: Duration = Duration::from_secs(5);
/// Longest time for the beginning and for the end of a test.
const HANDSHAKE: Duration = Duration::from_secs(6);
/// Number of receiving system calls before other work.
const RECEIVES: usize = 8;
/// Time between two checks of the client whether it should stop.
const TICK: Duration = Duration::from_millis(100);

/// Maker of the observer of all packets of a flow at this end, given the index of the flow. Times
/// count from the start of the flow.
pub type Watch = Box<dyn Fn(usize) -> Box<dyn Observer>>;

/// Configuration of a client.
pub struct ClientConfig {
    /// Test of each of its connections; [`run`] sets [`Test::report`].
    pub test: Test,
    /// Number of connections, 1 to [`super::MAX_FLOWS`].
    pub flows: usize,
    /// True for as many connections in the other direction too.
    pub both: bool,
    /// Pre-shared key, if the server requires one.
    pub psk: Option<Psk>,
    /// Length of the intervals that are reported to the observer; zero for none.
    pub interval: Duration,
    /// Time between two samples; zero for none.
    pub sample: Duration,
    /// Maker of observers of each packet.
    pub watch: Option<Watch>,
}

impl ClientConfig {
    /// One flow without observers.
    pub fn new(test: Test) -> Self {
        ClientConfig {
            test,
            flows: 1,
            both: false,
            psk: None,
            interval: Duration::ZERO,
            sample: Duration::ZERO,
            watch: None,
        }
    }
}

impl std::fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientConfig")
            .field("test", &self.test)
            .field("flows", &self.flows)
            .field("both", &self.both)
            .field("psk", &self.psk)
            .finish_non_exhaustive()
    }
}

/// Event during a test, for the observer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// An interval is over.
    Interval(&'a Interval),
    /// A sample was due: the part since the last one.
    Sample(&'a Interval),
}

/// Outcome of a part of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its beginning, seconds since the start of the test.
    pub start_s: f64,
    /// Its end, seconds since the start of the test.
    pub end_s: f64,
    /// State of each flow at its end, in order.
    pub flows: Vec<Sample>,
    /// Goodput of each flow, bits per second, with the headers of UDP and IP.
    pub goodput_bps: Vec<f64>,
    /// Sending rate of each flow, bits per second, with these headers.
    pub sent_bps: Vec<f64>,
    /// Retransmissions of each flow.
    pub retransmissions: Vec<u64>,
    /// Mean of the RTT samples of each flow, seconds; 0 without samples.
    pub mean_rtt_s: Vec<f64>,
}

/// Outcome of a flow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowOutcome {
    /// True if the server sent.
    pub reverse: bool,
    /// Counts of its sender.
    pub sender: Counts,
    /// Counts of its receiver.
    pub receiver: Counts,
    /// Time of completion, seconds, if the transfer had a size and was completed.
    pub completed_s: Option<f64>,
}

impl FlowOutcome {
    /// Goodput of unique packets of this size on the wire (bytes), bits per second, over the time
    /// of the transfer or of the receiver.
    pub fn goodput_bps(&self, packet_size: u32) -> f64 {
        let bits = 8.0 * f64::from(packet_size) * self.receiver.unique as f64;
        let time = self.completed_s.unwrap_or(self.receiver.seconds);
        if time > 0.0 { bits / time } else { 0.0 }
    }

    /// Share of the data packets sent that did not arrive, including those in flight at the end.
    pub fn loss(&self) -> f64 {
        let (sent, arrived) = (self.sender.sent as f64, self.receiver.arrived as f64);
        if sent > arrived { 1.0 - arrived / sent } else { 0.0 }
    }
}

/// Outcome of a test.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its length, seconds.
    pub seconds: f64,
    /// True if it was ended early.
    pub interrupted: bool,
    /// Name of the protocol.
    pub protocol: &'static str,
    /// Bytes of a data packet with the headers of UDP and IP.
    pub packet_size: u32,
    /// Bytes of UDP payload of a data packet.
    pub datagram: usize,
    /// The flows of [`ClientConfig::test`], then those of the other direction.
    pub flows: Vec<FlowOutcome>,
}

#[derive(Debug)]
enum ClientState {
    /// The server has not accepted yet.
    Greeting { cookie: Option<[u8; COOKIE_LEN]> },
    /// It has.
    Open(Box<Connection>),
}

#[derive(Debug)]
struct Flow {
    number: usize,
    test: Test,
    socket: Socket,
    client: [u8; NONCE_LEN],
    state: ClientState,
    /// Time at which a request is repeated.
    repeat: Time,
    ready: bool,
    answers: Outbox,
    /// True if a datagram has come since the start.
    heard: bool,
    completed: Option<Time>,
    /// Counts of the server at the end.
    result: Option<Counts>,
}

/// State of a client.
struct Client<'a> {
    server: SocketAddr,
    plan: Plan,
    /// UDP payload of data, bytes.
    datagram: usize,
    config: &'a ClientConfig,
    clock: Monotonic,
    flows: Vec<Flow>,
    inbox: Inbox,
    data: Outbox,
}

/// Measures: opens the connections, sends or receives for the length of the test, and requests the
/// counts of the server. Calls the observer for every interval and sample.
///
/// # Errors
///
/// If the measurement is impossible: an invalid test, no server, another key, a path that is down.
pub fn run(
    server: SocketAddr,
    config: &ClientConfig,
    stop: &AtomicBool,
    mut observe: impl FnMut(Progress<'_>),
) -> Result<Outcome, Error> {
    let plan = config.test.plan().map_err(Error::Test)?;
    let datagram = plan.datagram(server).map_err(Error::Test)?;
    be_punctual();
    let mut client = Client {
        server,
        plan,
        datagram,
        config,
        clock: Monotonic::start(),
        flows: flows(server, config)?,
        inbox: Inbox::new(),
        data: Outbox::default(),
    };
    let stopped = || stop.load(Ordering::Relaxed);
    if let Err(error) = client.greet(&stopped) {
        client.leave();
        return Err(error);
    }
    let (start, end) = client.measure(&stopped, &mut observe)?;
    client.finish(start, end, stopped())
}

/// The flows, with the shortest requested interval for reports of the server.
fn flows(server: SocketAddr, config: &ClientConfig) -> Result<Vec<Flow>, Error> {
    let asked = [config.interval, config.sample].into_iter().filter(|time| !time.is_zero());
    // Four times as often, so that displayed values are recent.
    let report = asked
        .min()
        .map_or(Duration::ZERO, |time| Duration::from_ps(time.as_ps() / 4).max(MIN_REPORT));
    let count = config.flows.clamp(1, super::MAX_FLOWS);
    let ways = if config.both { 2 } else { 1 };
    let flow = |number: usize| {
        let reverse = config.test.reverse != (number >= count);
        Flow::new(server, number, Test { reverse, report, ..config.test.clone() })
    };
    (0..ways * count).map(flow).collect()
}

impl Flow {
    fn new(server: SocketAddr, number: usize, test: Test) -> Result<Self, Error> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let open = || {
            let socket = UdpSocket::bind(any)?;
            // From here on the kernel discards datagrams of others, and reports closed ports.
            socket.connect(server)?;
            Socket::new(socket)
        };
        Ok(Flow {
            number,
            test,
            socket: open().map_err(Error::io(format!("reach {server}")))?,
            client: random()?,
            state: ClientState::Greeting { cookie: None },
            repeat: Time::ZERO,
            ready: false,
            answers: Outbox::default(),
            heard: false,
            completed: None,
            result: None,
        })
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            ClientState::Open(connection) => Some(connection),
            ClientState::Greeting { .. } => None,
        }
    }

    /// Sends the current request of the greeting, or repeats it.
    fn ask(&mut self, server: SocketAddr, config: &ClientConfig, cookie: Option<[u8; COOKIE_LEN]>) {
        let client = self.client;
        let bytes = match cookie {
            None => Greeting::Hello { client }.encode(),
            Some(cookie) => {
                let (keyed, test) = (config.psk.is_some(), self.test.clone());
                let mut bytes = Greeting::Open { client, cookie, keyed, test }.encode();
                if let Some(psk) = &config.psk {
                    psk.seal_greeting(&mut bytes);
                }
                bytes
            }
        };
        self.answers.push(server, None, bytes.len(), |room| room.copy_from_slice(&bytes));
    }

    /// Handles the answer to a request.
    fn on_greeting(
        &mut self,
        now: Time,
        server: SocketAddr,
        (plan, config): (&Plan, &ClientConfig),
        bytes: &[u8],
    ) -> Result<(), Error> {
        let ClientState::Greeting { cookie } = &mut self.state else { return Ok(()) };
        match Greeting::decode(bytes) {
            Some(Greeting::Challenge { client, cookie: given }) if client == self.client => {
                *cookie = Some(given);
                self.repeat = now;
            }
            Some(Greeting::Accept { client, server: nonce, connection })
                if client == self.client && cookie.is_some() =>
            {
                if config.psk.as_ref().is_some_and(|psk| !psk.knows_greeting(bytes)) {
                    return Ok(()); // Not from the owner of the key.
                }
                let keys =
                    config.psk.as_ref().map(|psk| SessionKeys::new(psk, &client, &nonce, false));
                let (ids, sends) = ((connection, server, keys), !self.test.reverse);
                let mut connection =
                    Connection::new(now, ids, plan, &self.test, sends).map_err(Error::Test)?;
                connection.hide_clock()?;
                if let Some(watch) = &config.watch {
                    connection.observe(self.number, watch(self.number));
                }
                self.state = ClientState::Open(Box::new(connection));
            }
            // A cookie that is too old is requested again.
            Some(Greeting::Refuse { client, refusal: Refusal::Cookie, .. })
                if client == self.client =>
            {
                *cookie = None;
                self.repeat = now + REPEAT;
            }
            Some(Greeting::Refuse { client, refusal, reason })
                if client == self.client && cookie.is_some() =>
            {
                *cookie = None;
                return Err(Error::Refused { refusal, reason });
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the pending answers.
    fn flush(&mut self, now: Time) -> io::Result<()> {
        let sent = self.socket.flush(now, &mut self.answers);
        self.answers.bound();
        sent
    }
}

impl Client<'_> {
    /// Runs until every flow has its connection.
    fn greet(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), Error> {
        let deadline = self.clock.now() + HANDSHAKE;
        loop {
            let now = self.clock.now();
            let mut open = 0;
            let mut wake = deadline;
            for flow in &mut self.flows {
                let ClientState::Greeting { cookie } = flow.state else {
                    open += 1;
                    continue;
                };
                if flow.repeat <= now {
                    flow.ask(self.server, self.config, cookie);
                    flow.repeat = now + REPEAT;
                    check(flow.flush(now), self.server, self.datagram)?;
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

    /// Runs until the end of the test. Returns its beginning and its end.
    fn measure(
        &mut self,
        stopped: &dyn Fn() -> bool,
        observe: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(Time, Time), Error> {
        let start = self.clock.now();
        let end = start + Duration::from_secs(u64::from(self.config.test.seconds));
        let mut intervals = Intervals::new(start, self.config.interval, self.flows.len());
        let mut samples = Intervals::new(start, self.config.sample, self.flows.len());
        for flow in &mut self.flows {
            flow.ready = !flow.test.reverse;
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
            let mut wake = end.min(intervals.next).min(samples.next);
            let mut running = 0;
            for at in 0..self.flows.len() {
                self.serve(at, now)?;
                let flow = &mut self.flows[at];
                if flow.completed.is_some() {
                    continue;
                }
                running += 1;
                busy |= flow.ready && !flow.socket.is_obstructed(now);
                wake = wake.min(flow.socket.wake(now)).min(flow.repeat);
                if let Some(connection) = flow.connection() {
                    wake = wake.min(connection.next_timer());
                }
            }
            let now = self.clock.now();
            let over = now >= end || running == 0 || stopped();
            if (now >= samples.next || over)
                && let Some(sample) = samples.end(now, self)
            {
                observe(Progress::Sample(&sample));
            }
            if (now >= intervals.next || over)
                && let Some(interval) = intervals.end(now, self)
            {
                observe(Progress::Interval(&interval));
            }
            if over {
                return Ok((start, now));
            }
            let time = if busy { Duration::ZERO } else { until(now, wake, TICK) };
            self.wait(time)?;
        }
    }

    /// Runs the timers of a flow, and sends what is allowed.
    fn serve(&mut self, at: usize, now: Time) -> Result<(), Error> {
        let Client { flows, data, server, datagram, .. } = self;
        let flow = &mut flows[at];
        let ClientState::Open(connection) = &mut flow.state else { return Ok(()) };
        if flow.completed.is_none() {
            // The server reports while it sends, even if nothing is delivered.
            let end = match flow.test.reverse {
                true => connection.heard + PATIENCE,
                false => connection.end(),
            };
            if end <= now {
                return Err(Error::Silent(*server));
            }
        }
        if flow.completed.is_none() {
            let target = flow.test.packets;
            let is_done = match flow.test.reverse {
                true => target > 0 && connection.sample(now).delivered >= target,
                false => connection.is_done(),
            };
            flow.completed = is_done.then_some(now);
        }
        if connection.next_timer() <= now {
            connection.on_timer(now, &mut flow.answers);
            flow.ready |= connection.sends();
        }
        // The server sends nothing before it knows that its answer arrived.
        if flow.repeat <= now {
            connection.push_control(FrameKind::Start, &[], &mut flow.answers);
            flow.repeat = now + if flow.heard { KEEP } else { REPEAT };
        }
        if !flow.answers.is_empty() {
            let sent = flow.socket.flush(now, &mut flow.answers);
            flow.answers.bound();
            check(sent, *server, *datagram)?;
        }
        if flow.ready && flow.socket.wake(now) == Time::NEVER {
            flow.ready = connection.transmit(now, data);
            let count = data.len();
            let sent = flow.socket.flush(now, data);
            connection.sent(now, count - data.len());
            flow.ready |= !data.is_empty();
            data.clear();
            check(sent, *server, *datagram)?;
        }
        Ok(())
    }

    /// Handles the datagrams that have arrived for a flow.
    fn receive(&mut self, at: usize) -> Result<(), Error> {
        let Client { server, plan, datagram, config, clock, flows, inbox, .. } = self;
        let flow = &mut flows[at];
        for _ in 0..RECEIVES {
            let now = clock.now();
            let mut failure = None;
            let Flow { socket, state, answers, heard, ready, result, .. } = flow;
            let mut greetings = Vec::new();
            let received = socket.receive(inbox, |from, ecn, bytes| match state {
                ClientState::Greeting { .. } => greetings.push(bytes.to_vec()),
                ClientState::Open(connection) => {
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
                        Received::Control(FrameKind::Result, Some(counts)) => {
                            *result = Some(*counts);
                        }
                        Received::Control(..) => {}
                    }
                }
            });
            for bytes in greetings {
                let opened = flow.on_greeting(now, *server, (plan, config), &bytes);
                failure = failure.or(opened.err());
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
            check(flow.flush(now), *server, *datagram)?;
            match received {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let in_greeting = matches!(flow.state, ClientState::Greeting { .. });
                    if in_greeting || error.kind() != io::ErrorKind::ConnectionRefused {
                        check(Err(error), *server, *datagram)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends the existing connections, for which the server keeps places. Waits for those that it
    /// may be creating.
    fn leave(&mut self) {
        let deadline = self.clock.now() + REPEAT;
        loop {
            let now = self.clock.now();
            let is_asking =
                |flow: &Flow| matches!(flow.state, ClientState::Greeting { cookie: Some(_) });
            if now >= deadline || !self.flows.iter().any(is_asking) {
                break;
            }
            if self.wait(until(now, deadline, TICK)).is_err() {
                break;
            }
            for at in 0..self.flows.len() {
                let _ = self.receive(at); // The reason for the failure is already known.
            }
        }
        let now = self.clock.now();
        for flow in &mut self.flows {
            if let ClientState::Open(connection) = &mut flow.state {
                let counts = connection.counts(now).encode();
                connection.push_control(FrameKind::End, &counts, &mut flow.answers);
                let _ = flow.flush(now);
            }
        }
    }

    fn wait(&self, time: Duration) -> Result<(), Error> {
        let sockets = self.flows.iter().map(|flow| &flow.socket);
        wait(sockets, time).map_err(Error::io("wait for datagrams"))
    }

    /// Ends the test and requests the counts of the server.
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
                let ClientState::Open(connection) = &mut flow.state else { continue };
                if flow.result.is_some() {
                    continue;
                }
                open += 1;
                if flow.repeat <= now {
                    connection.push_control(FrameKind::End, &own.encode(), &mut flow.answers);
                    flow.repeat = now + REPEAT;
                    let _ = flow.flush(now);
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
        let flows = self.flows.iter().zip(own).map(|(flow, own)| {
            let (reverse, theirs) = (flow.test.reverse, flow.result.unwrap_or_default());
            let (sender, receiver) = if reverse { (theirs, own) } else { (own, theirs) };
            let completed_s = flow.completed.map(|time| time.since(start).as_secs_f64());
            FlowOutcome { reverse, sender, receiver, completed_s }
        });
        Ok(Outcome {
            seconds: end.since(start).as_secs_f64(),
            interrupted,
            protocol: self.plan.protocol.name,
            packet_size: self.datagram as u32 + overhead(self.server),
            datagram: self.datagram,
            flows: flows.collect(),
        })
    }
}

/// Passes on an error of a socket that ends the test. Others are transient, or the path is given up
/// in time.
fn check(sent: io::Result<()>, server: SocketAddr, datagram: usize) -> Result<(), Error> {
    let Err(error) = sent else { return Ok(()) };
    if error.kind() == io::ErrorKind::ConnectionRefused {
        return Err(Error::NothingListens(server));
    }
    if error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
        return Err(Error::TooLarge { datagram });
    }
    let passes = [Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN];
    if passes.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
        return Ok(());
    }
    Err(Error::Io { doing: format!("send to {server}"), source: error })
}

/// Cuts a test into intervals.
struct Intervals {
    start: Time,
    every: Duration,
    next: Time,
    last: Time,
    before: Vec<Sample>,
}

impl Intervals {
    fn new(start: Time, every: Duration, flows: usize) -> Self {
        let next = if every.is_zero() { Time::NEVER } else { start + every };
        Intervals { start, every, next, last: start, before: vec![Sample::default(); flows] }
    }

    /// Ends the interval now.
    fn end(&mut self, now: Time, client: &mut Client<'_>) -> Option<Interval> {
        let passed = now.since(self.last).as_secs_f64();
        // The remainder at the end is reported too, if it is long enough.
        if self.every.is_zero() || passed < 0.1 * self.every.as_secs_f64() {
            return None;
        }
        let bits = 8.0 * f64::from(client.datagram as u32 + overhead(client.server));
        let flows: Vec<Sample> = client
            .flows
            .iter_mut()
            .map(|flow| flow.connection().map(|c| c.sample(now)).unwrap_or_default())
            .collect();
        let pairs = || flows.iter().zip(&self.before);
        let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 * bits / passed;
        let again = |(now, before): (&Sample, &Sample)| {
            now.retransmissions.saturating_sub(before.retransmissions)
        };
        let mean_rtt = |(now, before): (&Sample, &Sample)| {
            let count = now.rtt_samples.saturating_sub(before.rtt_samples);
            let sum = (now.rtt_sum_s - before.rtt_sum_s).max(0.0);
            if count > 0 { sum / count as f64 } else { 0.0 }
        };
        let seconds = |time: Time| time.since(self.start).as_secs_f64();
        let interval = Interval {
            start_s: seconds(self.last),
            end_s: seconds(now),
            goodput_bps: pairs().map(|(now, then)| rate(now.delivered, then.delivered)).collect(),
            sent_bps: pairs().map(|(now, then)| rate(now.sent, then.sent)).collect(),
            retransmissions: pairs().map(again).collect(),
            mean_rtt_s: pairs().map(mean_rtt).collect(),
            flows,
        };
        self.before.clone_from(&interval.flows);
        self.last = now;
        // Missed intervals are not repeated.
        while self.next <= now {
            self.next += self.every;
        }
        Some(interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_others_are_none() {
        let server = (Ipv4Addr::LOCALHOST, 9).into();
        let config = ClientConfig::new(Test::of("cubic"));
        let plan = config.test.plan().expect("a plan");
        let mut flow = Flow::new(server, 0, config.test.clone()).expect("a socket");
        let (ours, other) = (flow.client, [0; NONCE_LEN]);
        let mut answer = |greeting: Greeting| {
            let result = flow.on_greeting(Time::ZERO, server, (&plan, &config), &greeting.encode());
            match &flow.state {
                ClientState::Greeting { cookie } => result.map(|()| cookie.is_some()),
                ClientState::Open(_) => panic!("{greeting:?}"),
            }
        };
        let (cookie, refusal, reason) = ([1; COOKIE_LEN], Refusal::Busy, String::new());
        let refuse = |client| Greeting::Refuse { client, refusal, reason: reason.clone() };
        let accept = |client| Greeting::Accept { client, server: other, connection: 1 };
        // Datagrams for others, and those that arrive too early.
        assert!(matches!(answer(Greeting::Challenge { client: other, cookie }), Ok(false)));
        assert!(matches!(answer(accept(ours)), Ok(false)));
        assert!(matches!(answer(refuse(ours)), Ok(false)));
        assert!(matches!(answer(Greeting::Challenge { client: ours, cookie }), Ok(true)));
        assert!(matches!(answer(accept(other)), Ok(true)));
        assert!(matches!(answer(refuse(other)), Ok(true)));
        assert!(matches!(answer(refuse(ours)), Err(Error::Refused { .. })));
    }
}
