//! Runs a script of packetdrill: the sender of a row in virtual time, and the host around it.
//!
//! The sender alone decides which data leaves when. The host has what a connection needs besides:
//! the handshake, the division of writes into segments (`stream`), and in `connection` the end of
//! the connection, probes of a closed window (RFC 9293 section 3.8.6.1) and the numbers of bytes,
//! where the sender counts packets.
//!
//! At one instant, what the script does comes before timers.

use std::collections::VecDeque;

use windward_core::endpoint::Sender;
use windward_core::units::{Duration, Time};
use windward_sim::scenario::Traffic;
use windward_sim::stack::Stacks;

use super::host::Host;
use super::lexer::clipped;
use super::parser::{
    Action, Call, Event, Expression, Parsed, Segment, Setting, TcpFlags, TcpOption, When,
};
use super::python::{self, Names, Value};
use super::row::traffic;
use super::{Compliance, Counts, Fault, Finding, Place, Subject};
use connection::{Agreed, Connection};
use packet::{Left, Wire, difference, seconds, shown};

mod connection;
mod packet;
mod stream;

/// How long packetdrill waits for a packet that is late, to show it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The share of the time since the last event that is tolerated in addition
/// (`--tolerance_percent`).
const TOLERATED: f64 = 0.125;
/// The most timers of one script, and the most bytes that it writes.
const MOST_STEPS: usize = 300_000;
const MOST_BYTES: u64 = 1 << 30;

/// The surroundings of a script.
struct Setup<'a> {
    name: &'a str,
    stacks: &'a Stacks,
    /// The row in place of the one that the script names.
    protocol: Option<&'a str>,
    tolerance: Duration,
    tolerated: f64,
}

/// The time of a script.
struct Clock {
    now: Time,
    /// Time of the event before; `None` before the first.
    last: Option<Time>,
    /// Timers that expired.
    steps: usize,
}

/// Comparisons so far.
#[derive(Default)]
struct Compared {
    counts: Counts,
    /// Those of the packets that have data.
    data_packets: u64,
    findings: Vec<Finding>,
}

enum Stage {
    Closed,
    Listening,
    /// SYN sent at this time.
    Connecting(Time),
    /// SYN received and answered at this time.
    Accepting(Time, Agreed),
    Open(Box<Connection>),
}

pub(super) struct Drive<'a> {
    setup: Setup<'a>,
    host: Host,
    clock: Clock,
    stage: Stage,
    /// Descriptor that a call may name.
    descriptor: Option<i64>,
    wire: Wire,
    names: Names,
    compared: Compared,
}

/// Rows by the names of Linux's congestion controls.
const CONTROLS: [(&str, &str); 7] = [
    ("cubic", "cubic"),
    ("reno", "newreno"),
    ("dctcp", "dctcp"),
    ("bbr", "bbr1"),
    ("vegas", "vegas"),
    ("veno", "veno"),
    ("westwood", "tcpw"),
];

impl<'a> Drive<'a> {
    pub(super) fn new(
        name: &'a str,
        stacks: &'a Stacks,
        protocol: Option<&'a str>,
        tolerance: Duration,
    ) -> Self {
        Drive {
            setup: Setup { name, stacks, protocol, tolerance, tolerated: TOLERATED },
            host: Host::default(),
            clock: Clock { now: Time::ZERO, last: None, steps: 0 },
            stage: Stage::Closed,
            descriptor: None,
            wire: Wire::default(),
            names: Names::new(),
            compared: Compared::default(),
        }
    }

    /// The row that runs, as scenario files name it.
    pub(super) fn row(&self) -> Option<&'a str> {
        let control = &self.host.control;
        let row = CONTROLS.iter().find(|(name, _)| name == control).map(|(_, row)| *row);
        self.setup.protocol.or(row)
    }

    /// The comparisons until the end.
    pub(super) fn compared(self) -> (Counts, Vec<Finding>) {
        (self.compared.counts, self.compared.findings)
    }

    /// Runs all events.
    pub(super) fn run(&mut self, parsed: &Parsed) -> Result<(), Fault> {
        parsed.options.iter().try_for_each(|setting| self.set(setting))?;
        for event in &parsed.events {
            self.event(event)?;
        }
        if self.compared.data_packets + self.compared.counts.assertions == 0 {
            let place = parsed.events.last().map_or(Place::START, |event| event.place);
            let message = "it expects no data of the sender and asserts nothing about it";
            return Err(Fault::new(place, Subject::Sockets, message));
        }
        Ok(())
    }

    fn set(&mut self, Setting { name, value, place }: &Setting) -> Result<(), Fault> {
        let number = value.parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
        match (name.as_str(), number) {
            ("tolerance_usecs", Some(us)) => {
                self.setup.tolerance = Duration::from_micros(us as u64);
            }
            ("tolerance_percent", Some(percent)) => self.setup.tolerated = percent / 100.0,
            ("mtu", Some(mtu)) if (128.0..=65_535.0).contains(&mtu) => {
                self.host.device.mtu = mtu as u64;
            }
            ("ip_version", _) if value == "ipv4" => {}
            ("local_ip" | "remote_ip" | "gateway_ip" | "netmask_ip" | "bind_port", _) => {}
            ("send_omit_free" | "tcp_ts_tick_usecs" | "verbose", _) => {}
            _ => {
                let message = format!("the option --{}={}", clipped(name), clipped(value));
                return Err(Fault::new(*place, Subject::Unmodelled, message));
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Fault> {
        let now = self.clock.now;
        let (from, until) = match event.when {
            When::Any => (now, now),
            When::At(from, until) => (Time::ZERO + from, Time::ZERO + until),
            // As packetdrill counts: from the instant at which the event before was over.
            When::After(from, until) => (now + from, now + until),
            When::Moment(moment) => {
                let what = format!("`{moment}` in a script without --rtt, whose events have times");
                return Err(Fault::new(event.place, Subject::Unmodelled, what));
            }
        };
        match &event.action {
            Action::Packet(segment) if !segment.inbound => {
                self.expect(event, segment, from, until)?;
            }
            action => {
                if from < now {
                    let message = format!(
                        "the event is due at {}, when the time is {} already",
                        seconds(from),
                        seconds(now)
                    );
                    return Err(Fault::new(event.place, Subject::Differs, message));
                }
                self.advance(from, event.place)?;
                self.clock.now = from;
                self.act(action, event.place)?;
            }
        }
        self.clock.last = Some(if event.when == When::Any { self.clock.now } else { from });
        Ok(())
    }

    fn act(&mut self, action: &Action, place: Place) -> Result<(), Fault> {
        match action {
            Action::Packet(segment) => self.arrive(segment, place),
            Action::Call(call) => self.call(call, place),
            Action::Code(text) => self.code(text, place),
            Action::Command(text) => {
                let before = self.host.clone();
                self.host.command(text, place)?;
                let mut same = self.host.clone();
                same.device.open = before.device.open;
                if matches!(self.stage, Stage::Open(_)) && same != before {
                    let what = "settings that change after the handshake";
                    return Err(Fault::new(place, Subject::Unmodelled, what));
                }
                self.send();
                Ok(())
            }
        }
    }

    /// The earliest timer.
    fn due(&self) -> Time {
        match &self.stage {
            Stage::Open(connection) => connection.due(),
            _ => Time::NEVER,
        }
    }

    /// Lets timers expire before `to`.
    fn advance(&mut self, to: Time, place: Place) -> Result<(), Fault> {
        while self.due() < to {
            self.expire(place)?;
        }
        Ok(())
    }

    /// Lets the earliest timer expire.
    fn expire(&mut self, place: Place) -> Result<(), Fault> {
        self.clock.steps += 1;
        if self.clock.steps > MOST_STEPS {
            let message = format!("more than {MOST_STEPS} timers expire before this event");
            return Err(Fault::new(place, Subject::Differs, message));
        }
        let due = self.due().max(self.clock.now);
        self.clock.now = due;
        if let Stage::Open(connection) = &mut self.stage {
            connection.expire(due, &mut self.wire);
        }
        self.send();
        Ok(())
    }

    /// Compares the next packets with the one that the script expects.
    fn expect(
        &mut self,
        event: &Event,
        wanted: &Segment,
        from: Time,
        until: Time,
    ) -> Result<(), Fault> {
        let differs = |message: String| Err(Fault::new(event.place, Subject::Differs, message));
        let expected = format!("\n    script packet:  {}", shown(from, wanted));
        let Left { at, segment: actual } = self.leaving(event, wanted, until, &expected)?;
        let found = format!("{expected}\n    actual packet:  {}", shown(at, &actual));
        if let Some(what) = difference(wanted, &actual) {
            return differs(format!("{what} of the packet differs{found}"));
        }
        // Afterwards, so that the timestamps of later packets count from the first.
        self.wire.start_timestamps(at, wanted);
        if event.when != When::Any {
            let since = self.clock.last.map_or(Duration::ZERO, |last| from.since(last));
            let tolerance = self.setup.tolerance.max(since.mul_f64(self.setup.tolerated));
            if at + tolerance < from || at > until + tolerance {
                let range = match from == until {
                    true => seconds(from),
                    false => format!("{} to {}", seconds(from), seconds(until)),
                };
                return differs(format!(
                    "timing error: expected outbound packet at {range} sec but happened at {} sec; \
                     tolerance {:.6} sec{found}",
                    seconds(at),
                    tolerance.as_secs_f64()
                ));
            }
        }
        self.compared.counts.packets += 1;
        self.compared.data_packets += u64::from(wanted.length() > 0);
        Ok(())
    }

    /// The next packet to leave. As in packetdrill, segments in sequence count as one.
    fn leaving(
        &mut self,
        event: &Event,
        wanted: &Segment,
        until: Time,
        expected: &str,
    ) -> Result<Left, Fault> {
        let mut seen: Option<Left> = None;
        loop {
            let Some(mut left) = self.wire.left.pop_front() else {
                let end = if event.when == When::Any { Time::NEVER } else { until + PATIENCE };
                let due = self.due();
                if due <= end && due != Time::NEVER {
                    self.expire(event.place)?;
                    continue;
                }
                self.clock.now = self.clock.now.max(end.min(until + PATIENCE));
                return Err(self.missing(event.place, wanted, seen, expected));
            };
            if let Some(before) = seen {
                if before.segment.end != left.segment.start {
                    let message = format!(
                        "the packets are not in sequence{expected}\n    actual packets: {}\n    \
                         and:            {}",
                        shown(before.at, &before.segment),
                        shown(left.at, &left.segment)
                    );
                    return Err(Fault::new(event.place, Subject::Differs, message));
                }
                left.at = before.at;
                left.segment.start = before.segment.start;
            }
            if left.segment.length() >= wanted.length() {
                return Ok(left);
            }
            seen = Some(left);
        }
    }

    /// The packet that the script expects does not leave.
    fn missing(&self, place: Place, wanted: &Segment, seen: Option<Left>, expected: &str) -> Fault {
        let is_ack = wanted.length() == 0 && !wanted.flags.has(TcpFlags::SYN) && seen.is_none();
        if is_ack && matches!(&self.stage, Stage::Open(connection) if connection.received) {
            let what = "acknowledgments of received data: only the sender is run";
            return Fault::new(place, Subject::Sockets, what);
        }
        let so_far = seen.map_or_else(String::new, |left| {
            format!("\n    so far:         {}", shown(left.at, &left.segment))
        });
        let waited = format!("no packet left until {}", seconds(self.clock.now));
        Fault::new(place, Subject::Differs, format!("{waited}{expected}{so_far}"))
    }

    /// Lets the sender send what it may.
    fn send(&mut self) {
        if let Stage::Open(connection) = &mut self.stage {
            connection.send(self.clock.now, &self.host, &mut self.wire);
        }
    }

    fn arrive(&mut self, segment: &Segment, place: Place) -> Result<(), Fault> {
        let flags = segment.flags;
        let refused = |what: &str| Err(Fault::new(place, Subject::Sockets, what));
        if flags.has(TcpFlags::RST) {
            return refused("resets of a connection");
        }
        let Some(options) = segment.options.as_deref() else {
            return Err(Fault::new(place, Subject::Syntax, "`<...>` is for outbound packets"));
        };
        let (syn, ack) = (flags.has(TcpFlags::SYN), flags.has(TcpFlags::ACK));
        if syn && segment.length() > 0 {
            return refused("data in a SYN");
        }
        match self.stage {
            Stage::Listening if syn && !ack => {
                let asks = flags.has(TcpFlags::ECE) && flags.has(TcpFlags::CWR);
                let agreed =
                    Agreed::new(&self.host, segment, options, asks && self.host.sysctls.ecn > 0);
                let mut flags = TcpFlags::SYN.with(TcpFlags::ACK);
                if agreed.ecn {
                    flags = flags.with(TcpFlags::ECE);
                }
                let options = agreed.options(&self.host);
                self.wire.leave(self.clock.now, flags, 0..0, Some(agreed.expects), None, options);
                self.stage = Stage::Accepting(self.clock.now, agreed);
                Ok(())
            }
            Stage::Connecting(since) if syn && ack => {
                let accepts = flags.has(TcpFlags::ECE) && !flags.has(TcpFlags::CWR);
                let ecn = accepts && self.host.sysctls.ecn == 1;
                let agreed = Agreed::new(&self.host, segment, options, ecn);
                let connection = self.open(since, agreed, place)?;
                connection.leave(self.clock.now, TcpFlags::ACK, 1..1, None, &mut self.wire);
                self.stage = Stage::Open(connection);
                self.send();
                Ok(())
            }
            Stage::Accepting(since, agreed) if ack && !syn => {
                self.stage = Stage::Open(self.open(since, agreed, place)?);
                self.acknowledge(segment, options, place)
            }
            Stage::Open(_) if ack && !syn => self.acknowledge(segment, options, place),
            _ => refused("segments outside of an open connection"),
        }
    }

    /// A segment of the open connection.
    fn acknowledge(
        &mut self,
        segment: &Segment,
        options: &[TcpOption],
        place: Place,
    ) -> Result<(), Fault> {
        if let Stage::Open(connection) = &mut self.stage {
            let (now, wire) = (self.clock.now, &mut self.wire);
            let refused = |(subject, what)| Fault::new(place, subject, what);
            connection.acknowledge(now, segment, options, wire).map_err(refused)?;
        }
        self.send();
        Ok(())
    }

    /// The connection, whose handshake gives the first RTT.
    fn open(&self, since: Time, agreed: Agreed, place: Place) -> Result<Box<Connection>, Fault> {
        let mut sender = self.sender(&agreed, place)?;
        sender.on_handshake(self.clock.now, since);
        Ok(Box::new(Connection::new(sender, agreed)))
    }

    fn sender(&self, agreed: &Agreed, place: Place) -> Result<Sender, Fault> {
        let host = &self.host;
        let Some(row) = self.row() else {
            let what = format!("the congestion control `{}`", clipped(&host.control));
            return Err(Fault::new(place, Subject::Unmodelled, what));
        };
        let settings = [
            ("preset", "linux".to_owned()),
            ("packet_size", agreed.mss.to_string()),
            ("initial_window", host.initial_window.to_string()),
            ("rto_floor", format!("{}us", host.rto_floor.as_ps() / 1_000_000)),
            // Linux measures microseconds.
            ("clock_granularity", "1us".to_owned()),
            ("dupack_threshold", host.sysctls.reordering.to_string()),
            ("ecn", agreed.ecn.to_string()),
            ("pacing", host.device.paced.to_string()),
            ("slow_start_after_idle", host.sysctls.slow_start_after_idle.to_string()),
            ("rack.sack", agreed.sack.to_string()),
            ("rack.tail_probes", host.sysctls.tail_probes.to_string()),
        ];
        let settings = settings.iter().map(|(key, value)| (*key, value.as_str()));
        let Setup { name, stacks, .. } = self.setup;
        let flow = traffic(name, stacks, row, settings)
            .map_err(|(_, error)| Fault::new(place, Subject::Syntax, format!("{row}: {error}")))?;
        match flow {
            Traffic::Transport { protocol, config, .. } => {
                Ok(Sender::new(&protocol, &config, 1, "script"))
            }
            _ => {
                let what = format!("`{row}`: a script of packetdrill runs a TCP of Windward's");
                Err(Fault::new(place, Subject::Unmodelled, what))
            }
        }
    }

    fn call(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let refused = || {
            let what = format!("the call {}(...)", clipped(&call.name));
            Err(Fault::new(place, Subject::Sockets, what))
        };
        let in_progress = call.name == "connect" && call.error.as_deref() == Some("EINPROGRESS");
        if let Some(error) = call.error.as_deref().filter(|_| !in_progress) {
            let (name, error) = (clipped(&call.name), clipped(error));
            let what = format!("the call {name}(...) that fails with {error}");
            return Err(Fault::new(place, Subject::Sockets, what));
        }
        let Expression::Integer(returned) = call.returns else { return refused() };
        let is_ours = self.descriptor.is_some() && call.integer(0) == self.descriptor;
        match (call.name.as_str(), &mut self.stage) {
            ("socket", _) if call.word(1) == "SOCK_STREAM" => {
                self.descriptor.get_or_insert(returned);
            }
            ("bind" | "fcntl", _) => {}
            ("listen", Stage::Closed) => self.stage = Stage::Listening,
            ("accept", Stage::Open(_)) => self.descriptor = Some(returned),
            ("connect", Stage::Closed) => self.connect(),
            ("setsockopt", _) => self.host.option(call, place)?,
            ("getsockopt", _) => return self.getsockopt(call, place),
            ("write" | "send" | "sendto", Stage::Open(connection))
                if is_ours && !connection.is_closing() && call.is_plain_write() =>
            {
                connection.write(returned.max(0).unsigned_abs());
                if connection.written() > MOST_BYTES {
                    let what = "a script writes at most 1 GiB";
                    return Err(Fault::new(place, Subject::Unmodelled, what));
                }
                self.send();
            }
            ("close", Stage::Open(connection)) if is_ours => {
                connection.close();
                self.send();
            }
            ("close", Stage::Connecting(_) | Stage::Accepting(..)) => return refused(),
            ("close", _) => {}
            ("shutdown", stage) if call.word(1) == "SHUT_WR" => {
                if let Stage::Open(connection) = stage {
                    connection.close();
                }
                self.send();
            }
            _ => return refused(),
        }
        Ok(())
    }

    /// Sends the SYN of an active open.
    fn connect(&mut self) {
        let mut flags = TcpFlags::SYN;
        if self.host.sysctls.ecn == 1 {
            flags = flags.with(TcpFlags::ECE).with(TcpFlags::CWR);
        }
        let options = Agreed::offer(&self.host).options(&self.host);
        self.wire.leave(self.clock.now, flags, 0..0, None, None, options);
        self.stage = Stage::Connecting(self.clock.now);
    }

    fn getsockopt(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let (Some(wanted), "TCP_MAXSEG") = (call.listed(3), call.word(2)) else {
            let what = format!("getsockopt of {}", clipped(call.word(2)));
            return Err(Fault::new(place, Subject::Sockets, what));
        };
        let actual = match &self.stage {
            Stage::Open(connection) => connection.mss(),
            _ => self.host.socket.max_segment,
        };
        if u64::try_from(wanted) != Ok(actual) {
            let message = format!("TCP_MAXSEG should be {wanted} and is {actual}");
            return Err(Fault::new(place, Subject::Differs, message));
        }
        self.compared.counts.assertions += 1;
        Ok(())
    }

    fn code(&mut self, text: &str, place: Place) -> Result<(), Fault> {
        let row = self.row().unwrap_or_default();
        let Drive { stage, host, clock, names, compared, .. } = self;
        let stage = &*stage;
        let board = match stage {
            Stage::Open(connection) => connection.scoreboard(),
            _ => None,
        };
        let values = |name: &str, moment: Option<&str>| {
            if moment.is_some() {
                return Err(format!("`{}` has no other moments without --rtt", clipped(name)));
            }
            let value = connection::constant(name).or_else(|| match stage {
                Stage::Open(connection) => connection.value(name, board, host),
                _ => None,
            });
            Ok(value.map(Value::Is))
        };
        let mut judge = |assertion: python::Assertion| {
            let place = assertion.place;
            let seen_at_s = Some(clock.now.as_secs_f64());
            let finding = Finding { seen_at_s, ..Finding::new(assertion, row) };
            let (failed, message) = (finding.verdict.is_failure(), finding.to_string());
            compared.counts.assertions += u64::from(finding.verdict == Compliance::Met);
            compared.findings.push(finding);
            if failed { Err(Fault::new(place, Subject::Differs, message)) } else { Ok(()) }
        };
        python::run(text, place.inside(), names, &values, &mut judge)
    }
}
