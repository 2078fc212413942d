//! Runs a script: the sender of a row in virtual time, and the host around it.
//!
//! The sender alone decides which data leaves when. The host has what a connection needs besides:
//! the handshake, the division of writes into segments (RFC 9293; Nagle's rule in Minshall's
//! version), the end of the connection, probes of a closed window (RFC 9293 section 3.8.6.1), and
//! the numbers of bytes, where the sender counts packets.
//!
//! At one instant, what the script does comes before timers.

use std::collections::VecDeque;

use windward_core::endpoint::Sender;
use windward_core::endpoint::recovery::{RepairState, Scoreboard};
use windward_core::packet::{Flags, MAX_SACK_BLOCKS, Packet, PacketKind, SackBlock};
use windward_core::units::{Duration, Time};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;

use super::host::Host;
use super::lexer::clipped;
use super::parser::{
    Action, Call, Ecn, Event, Expression, Parsed, Segment, TcpFlags, TcpOption, When,
};
use super::python::{self, Names};
use super::{Fault, PacketCounts, Place, Subject};
use crate::path::SCENARIO;

/// How long packetdrill waits for a packet that is late, to show it.
const PATIENCE: Duration = Duration::from_secs(2);
/// The share of the time since the last event that is tolerated in addition
/// (`--tolerance_percent`).
const TOLERATED: f64 = 0.125;
/// The most timers of one script, and the most bytes that it writes.
const MOST_STEPS: usize = 300_000;
const MOST_BYTES: u64 = 1 << 30;
/// Headers of IPv4 and TCP, and the timestamp option with its padding.
const HEADERS: u64 = 40;
const TIMESTAMP: u64 = 12;
/// The initial window of the peer before its first ACK counts as unlimited.
const UNSCALED: u64 = 0;

/// Packets as they leave.
#[derive(Debug, Clone)]
struct Left {
    at: Time,
    segment: Segment,
}

/// One segment of data, which is one packet of the sender.
#[derive(Debug, Clone)]
struct Data {
    /// The byte behind it, from 0.
    end: u64,
    sent: Time,
    number: u64,
    times: u32,
    arrived: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Closed,
    Listening,
    /// SYN sent at this time.
    Connecting(Time),
    /// SYN received and answered at this time.
    Accepting(Time),
    Open,
}

/// Result of the handshake.
#[derive(Debug, Clone, Copy, Default)]
struct Agreed {
    mss: u64,
    peer_shift: u64,
    scales: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
}

/// The probe of a closed window.
#[derive(Debug, Clone, Copy)]
struct Persist {
    due: Time,
    interval: Duration,
}

pub(super) struct Drive<'a> {
    name: &'a str,
    stacks: &'a Stacks,
    /// The row in place of the one that the script names.
    protocol: Option<&'a str>,
    tolerance: Duration,
    tolerated: f64,
    host: Host,
    now: Time,
    last: Option<Time>,
    stage: Stage,
    agreed: Agreed,
    sender: Option<Box<Sender>>,
    data: Vec<Data>,
    written: u64,
    acked: u64,
    /// Descriptors that a call may name.
    connection: Option<i64>,
    closing: bool,
    fin_sent: bool,
    /// The next byte expected of the peer, its SYN and FIN included.
    expects: u64,
    /// True if data of the peer has arrived.
    received: bool,
    window: u64,
    persist: Option<Persist>,
    /// The time and the value of our first timestamp.
    clock: Option<(Time, u64)>,
    wire: VecDeque<Left>,
    names: Names,
    steps: usize,
    counts: PacketCounts,
    /// Those of the packets that have data.
    data_packets: u64,
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
            name,
            stacks,
            protocol,
            tolerance,
            tolerated: TOLERATED,
            host: Host::default(),
            now: Time::ZERO,
            last: None,
            stage: Stage::Closed,
            agreed: Agreed::default(),
            sender: None,
            data: Vec::new(),
            written: 0,
            acked: 0,
            connection: None,
            closing: false,
            fin_sent: false,
            expects: 0,
            received: false,
            window: UNSCALED,
            persist: None,
            clock: None,
            wire: VecDeque::new(),
            names: Names::new(),
            steps: 0,
            counts: PacketCounts::default(),
            data_packets: 0,
        }
    }

    /// The row that runs, as scenario files name it.
    pub(super) fn row(&self) -> Option<&'a str> {
        let control = &self.host.control;
        let row = CONTROLS.iter().find(|(name, _)| name == control).map(|(_, row)| *row);
        self.protocol.or(row)
    }

    pub(super) fn counts(&self) -> PacketCounts {
        self.counts
    }

    /// Runs all events.
    pub(super) fn run(&mut self, parsed: &Parsed) -> Result<(), Fault> {
        self.options(parsed)?;
        for event in &parsed.events {
            self.event(event)?;
        }
        if self.data_packets + self.counts.assertions == 0 {
            let place = parsed.events.last().map_or(Place::START, |event| event.place);
            let message = "it expects no data of the sender and asserts nothing about it";
            return Err(Fault::new(place, Subject::Sockets, message));
        }
        Ok(())
    }

    fn options(&mut self, parsed: &Parsed) -> Result<(), Fault> {
        for (name, value, place) in &parsed.options {
            let number = value.parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
            match (name.as_str(), number) {
                ("tolerance_usecs", Some(us)) => {
                    self.tolerance = Duration::from_micros(us as u64);
                }
                ("tolerance_percent", Some(percent)) => self.tolerated = percent / 100.0,
                ("mtu", Some(mtu)) if (128.0..=65_535.0).contains(&mtu) => {
                    self.host.mtu = mtu as u64;
                }
                ("ip_version", _) if value == "ipv4" => {}
                ("local_ip" | "remote_ip" | "gateway_ip" | "netmask_ip" | "bind_port", _) => {}
                ("send_omit_free" | "tcp_ts_tick_usecs" | "verbose", _) => {}
                _ => {
                    let message = format!("the option --{}={}", clipped(name), clipped(value));
                    return Err(Fault::new(*place, Subject::Unmodelled, message));
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Fault> {
        let (from, until) = match event.when {
            When::Any => (self.now, self.now),
            When::At(from, until) => (Time::ZERO + from, Time::ZERO + until),
            // As packetdrill counts: from the instant at which the event before was over.
            When::After(from, until) => (self.now + from, self.now + until),
        };
        if let Action::Packet(segment) = &event.action
            && !segment.inbound
        {
            self.expect(event, segment, from, until)?;
        } else {
            if from < self.now {
                let message = format!(
                    "the event is due at {}, when the time is {} already",
                    seconds(from),
                    seconds(self.now)
                );
                return Err(Fault::new(event.place, Subject::Differs, message));
            }
            self.advance(from, event.place)?;
            self.now = from;
            match &event.action {
                Action::Packet(segment) => self.arrive(segment, event.place)?,
                Action::Call(call) => self.call(call, event.place)?,
                Action::Command(text) => {
                    let before = self.host.clone();
                    self.host.command(text, event.place)?;
                    let same = Host { open: before.open, ..self.host.clone() } == before;
                    if self.sender.is_some() && !same {
                        let what = "settings that change after the handshake";
                        return Err(Fault::new(event.place, Subject::Unmodelled, what));
                    }
                    self.send();
                }
                Action::Code(text) => self.code(text, event.place)?,
            }
        }
        self.last = Some(if event.when == When::Any { self.now } else { from });
        Ok(())
    }

    /// The earliest timer.
    fn due(&self) -> Time {
        let sender = self.sender.as_ref().map_or(Time::NEVER, |sender| sender.next_timer());
        self.persist.map_or(sender, |persist| sender.min(persist.due))
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
        self.steps += 1;
        if self.steps > MOST_STEPS {
            let message = format!("more than {MOST_STEPS} timers expire before this event");
            return Err(Fault::new(place, Subject::Differs, message));
        }
        let due = self.due().max(self.now);
        self.now = due;
        if let Some(persist) = self.persist
            && persist.due <= due
        {
            let interval = persist.interval.saturating_mul(2).min(Duration::from_secs(120));
            self.persist = Some(Persist { due: due + interval, interval });
            // One byte below the window.
            let at = self.acked;
            self.leave(TcpFlags::ACK, at, at, None, Vec::new());
        }
        if let Some(sender) = &mut self.sender
            && sender.next_timer() <= due
        {
            sender.on_timer(due);
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
        let length = wanted.end - wanted.start;
        let shown = |at: Time, segment: &Segment| format!("{} {}", seconds(at), show(segment));
        let expected = format!("\n    script packet:  {}", shown(from, wanted));
        let mut seen: Option<Left> = None;
        // As packetdrill does: segments in sequence count as one.
        loop {
            let Some(left) = self.wire.pop_front() else {
                let end = if event.when == When::Any { Time::NEVER } else { until + PATIENCE };
                let due = self.due();
                if due > end || due == Time::NEVER {
                    let ack = length == 0 && !wanted.flags.has(TcpFlags::SYN) && seen.is_none();
                    if ack && self.received {
                        let what = "acknowledgments of received data: only the sender is run";
                        return Err(Fault::new(event.place, Subject::Sockets, what));
                    }
                    self.now = self.now.max(end.min(until + PATIENCE));
                    let so_far = seen.map_or_else(String::new, |left| {
                        format!("\n    so far:         {}", shown(left.at, &left.segment))
                    });
                    let waited = format!("no packet left until {}", seconds(self.now));
                    return differs(format!("{waited}{expected}{so_far}"));
                }
                self.expire(event.place)?;
                continue;
            };
            let mut left = left;
            if let Some(before) = seen {
                if before.segment.end != left.segment.start {
                    return differs(format!(
                        "the packets are not in sequence{expected}\n    actual packets: {}\n    \
                         and:            {}",
                        shown(before.at, &before.segment),
                        shown(left.at, &left.segment)
                    ));
                }
                left.at = before.at;
                left.segment.start = before.segment.start;
            }
            if left.segment.end - left.segment.start >= length {
                seen = Some(left);
                break;
            }
            seen = Some(left);
        }
        let Some(Left { at, segment: actual }) = seen else { return Ok(()) };
        let found = format!("{expected}\n    actual packet:  {}", shown(at, &actual));
        let ours = wanted.flags.without(TcpFlags::PSH);
        let what = if (wanted.start, wanted.end) != (actual.start, actual.end) {
            Some("the data")
        } else if ours != actual.flags {
            Some("the flags")
        } else if wanted.ack.is_some() && wanted.ack != actual.ack {
            Some("the acknowledgment")
        } else if !codepoints_agree(wanted.ecn, actual.ecn) {
            Some("the ECN codepoint")
        } else if !options_agree(wanted.options.as_deref(), actual.options.as_deref()) {
            Some("the TCP options")
        } else {
            None
        };
        if let Some(what) = what {
            return differs(format!("{what} of the packet differs{found}"));
        }
        // Afterwards, so that the timestamps of later packets count from the first.
        if let (None, Some(options)) = (self.clock, wanted.options.as_deref()) {
            self.clock = options.iter().find_map(|option| match option {
                TcpOption::Timestamp(value, _) => Some((at, *value)),
                _ => None,
            });
        }
        if event.when != When::Any {
            let since = self.last.map_or(Duration::ZERO, |last| from.since(last));
            let tolerance = self.tolerance.max(since.mul_f64(self.tolerated));
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
        self.counts.packets += 1;
        self.data_packets += u64::from(length > 0);
        Ok(())
    }

    /// A packet leaves; `start` and `end` are bytes, from 0.
    fn leave(
        &mut self,
        flags: TcpFlags,
        start: u64,
        end: u64,
        ecn: Option<Ecn>,
        mut options: Vec<TcpOption>,
    ) {
        let is_syn = flags.has(TcpFlags::SYN);
        if self.agreed.timestamps && !is_syn {
            options = vec![TcpOption::Nop, TcpOption::Nop, TcpOption::Timestamp(0, 0)];
        }
        let ack = flags.has(TcpFlags::ACK).then_some(self.expects);
        let segment = Segment {
            inbound: false,
            ecn,
            flags,
            start,
            end,
            ack,
            window: None,
            options: Some(options),
        };
        self.wire.push_back(Left { at: self.now, segment });
    }

    /// Lets the sender send what it may.
    fn send(&mut self) {
        self.cut();
        if !self.host.open {
            return;
        }
        let Some(mut sender) = self.sender.take() else { return };
        let mut packet = Packet::default();
        let total = self.data.len();
        while sender.poll_transmit(self.now, &mut packet) {
            let at = packet.seq as usize;
            let start = at.checked_sub(1).map_or(0, |before| self.data[before].end);
            let Some(data) = self.data.get_mut(at) else { break };
            data.sent = self.now;
            data.number = packet.packet_seq;
            data.times += 1;
            let end = data.end;
            let mut flags = TcpFlags::ACK;
            if packet.flags.contains(Flags::WINDOW_REDUCED) {
                flags = flags.with(TcpFlags::CWR);
            }
            let last = self.closing && !self.fin_sent && at + 1 == total;
            if last {
                flags = flags.with(TcpFlags::FIN);
                self.fin_sent = true;
            }
            let ecn = match packet.flags.contains(Flags::ECN_CAPABLE) {
                true => Ecn::Ect0,
                false => Ecn::NotEct,
            };
            self.leave(flags, 1 + start, 1 + end, Some(ecn), Vec::new());
        }
        let all_sent = sender.sequences().high == total as u64;
        self.persist = match self.persist {
            _ if self.window >= self.agreed.mss || all_sent => None,
            _ if sender.sequences().outstanding() > 0 => None,
            None => {
                let interval =
                    sender.rtt().base_rto().max(sender.rtt().srtt() + self.host.rto_floor);
                Some(Persist { due: self.now + interval, interval })
            }
            running => running,
        };
        self.sender = Some(sender);
        if self.closing && !self.fin_sent && all_sent {
            self.fin_sent = true;
            let at = 1 + self.written;
            self.leave(TcpFlags::ACK.with(TcpFlags::FIN), at, at, None, Vec::new());
        }
    }

    /// Divides what was written into segments, and offers them.
    fn cut(&mut self) {
        let Some(sender) = &mut self.sender else { return };
        let mss = self.agreed.mss;
        let high = sender.sequences().high as usize;
        // An unsent segment that is not full takes more.
        if self.data.len() > high
            && let Some(last) = self.data.last()
        {
            let start = self.data.len().checked_sub(2).map_or(0, |before| self.data[before].end);
            if last.end - start < mss && last.end < self.written {
                self.data.pop();
            }
        }
        let mut end = self.data.last().map_or(0, |data| data.end);
        let blank = Data { end: 0, sent: Time::ZERO, number: 0, times: 0, arrived: false };
        while self.written - end >= mss {
            end += mss;
            self.data.push(Data { end, ..blank.clone() });
        }
        // Minshall's rule: one segment that is not full may be unacknowledged.
        let mut start = self.acked;
        let unacknowledged = self.data.iter().filter(|data| data.end > self.acked);
        let small = unacknowledged.fold(false, |small, data| {
            let is_small = data.end - start < mss && data.times > 0;
            start = data.end;
            small || is_small
        });
        if self.written > end && (self.host.no_delay || self.closing || !small) {
            self.data.push(Data { end: self.written, ..blank });
        }
        sender.offer_until(self.data.len() as u64);
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
        if syn && segment.end > segment.start {
            return refused("data in a SYN");
        }
        match self.stage {
            Stage::Listening if syn && !ack => {
                self.agree(options, segment);
                self.expects = segment.end + 1;
                let asks = flags.has(TcpFlags::ECE) && flags.has(TcpFlags::CWR);
                self.agreed.ecn = asks && self.host.ecn > 0;
                let mut flags = TcpFlags::SYN.with(TcpFlags::ACK);
                if self.agreed.ecn {
                    flags = flags.with(TcpFlags::ECE);
                }
                let options = self.offer(self.agreed);
                self.leave(flags, 0, 0, None, options);
                self.stage = Stage::Accepting(self.now);
                Ok(())
            }
            Stage::Connecting(since) if syn && ack => {
                self.agree(options, segment);
                self.expects = segment.end + 1;
                let accepts = flags.has(TcpFlags::ECE) && !flags.has(TcpFlags::CWR);
                self.agreed.ecn = accepts && self.host.ecn == 1;
                self.open(since, place)?;
                self.window = segment.window.unwrap_or(65_535);
                self.set_window();
                self.leave(TcpFlags::ACK, 1, 1, None, Vec::new());
                self.send();
                Ok(())
            }
            Stage::Accepting(since) if ack && !syn => {
                self.open(since, place)?;
                self.acknowledge(segment, options, place)
            }
            Stage::Open if ack && !syn => self.acknowledge(segment, options, place),
            _ => refused("segments outside of an open connection"),
        }
    }

    /// Takes over the options of the peer's SYN.
    fn agree(&mut self, options: &[TcpOption], segment: &Segment) {
        let mss = options.iter().find_map(|option| match option {
            TcpOption::Mss(mss) => Some(*mss),
            _ => None,
        });
        let shift = options.iter().find_map(|option| match option {
            TcpOption::Scale(shift) => Some(*shift),
            _ => None,
        });
        let timestamps = options.iter().any(|option| matches!(option, TcpOption::Timestamp(..)));
        let host = &self.host;
        self.agreed = Agreed {
            mss: 0,
            peer_shift: shift.filter(|_| host.scaling).unwrap_or(0),
            scales: shift.is_some() && host.scaling,
            sack: options.contains(&TcpOption::SackOk) && host.sack,
            timestamps: timestamps && host.timestamps,
            ecn: false,
        };
        let overhead = if self.agreed.timestamps { TIMESTAMP } else { 0 };
        // RFC 9293 section 3.7.1: 536 without the option.
        let size = mss.unwrap_or(536).min(self.advertised());
        self.agreed.mss = size.saturating_sub(overhead).max(1);
        self.window = segment.window.unwrap_or(65_535);
    }

    /// The segment size that the host announces.
    fn advertised(&self) -> u64 {
        let size = self.host.mtu - HEADERS;
        if self.host.max_segment > 0 { size.min(self.host.max_segment) } else { size }
    }

    /// The options of a SYN. Of the window's shift, which is the receiver's, only its presence
    /// counts.
    fn offer(&self, what: Agreed) -> Vec<TcpOption> {
        let mut options = vec![TcpOption::Mss(self.advertised())];
        if what.sack {
            options.push(TcpOption::SackOk);
        }
        if what.timestamps {
            options.push(TcpOption::Timestamp(0, 0));
        }
        if what.scales {
            options.push(TcpOption::Scale(0));
        }
        options
    }

    /// Opens the connection, whose handshake gives the first RTT.
    fn open(&mut self, since: Time, place: Place) -> Result<(), Fault> {
        let mut sender = self.make_sender(place)?;
        sender.on_handshake(self.now, since);
        self.sender = Some(sender);
        self.stage = Stage::Open;
        Ok(())
    }

    fn make_sender(&self, place: Place) -> Result<Box<Sender>, Fault> {
        let host = &self.host;
        let Some(row) = self.row() else {
            let what = format!("the congestion control `{}`", clipped(&host.control));
            return Err(Fault::new(place, Subject::Unmodelled, what));
        };
        let wrong = |error: windward_sim::strict_toml::FileError| {
            Fault::new(place, Subject::Syntax, format!("{row}: {}", error.message()))
        };
        let scenario = format!("{SCENARIO}preset = \"linux\"\n");
        let file = ScenarioFile::parse(self.name, &scenario).map_err(wrong)?;
        let mut file = file.with_stacks(self.stacks);
        let keys = [
            ("protocol", row.to_owned()),
            ("packet_size", self.agreed.mss.to_string()),
            ("initial_window", host.initial_window.to_string()),
            ("rto_floor", format!("{}us", host.rto_floor.as_ps() / 1_000_000)),
            // Linux measures microseconds.
            ("clock_granularity", "1us".to_owned()),
            ("dupack_threshold", host.reordering.to_string()),
            ("ecn", self.agreed.ecn.to_string()),
            ("pacing", host.paced.to_string()),
            ("slow_start_after_idle", host.slow_start_after_idle.to_string()),
            ("rack.sack", self.agreed.sack.to_string()),
            ("rack.tail_probes", host.tail_probes.to_string()),
        ];
        for (key, value) in keys {
            file.set(&format!("flows.script.{key}"), &value).map_err(wrong)?;
        }
        let flow = file.build().map_err(wrong)?.flows.swap_remove(0);
        match &flow.kind.traffic {
            Traffic::Transport { protocol, config, .. } => {
                Ok(Box::new(Sender::new(protocol, config, 1, "script")))
            }
            _ => {
                let what = format!("`{row}`: a script of packetdrill runs a TCP of Windward's");
                Err(Fault::new(place, Subject::Unmodelled, what))
            }
        }
    }

    fn set_window(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.set_rwnd(self.window / self.agreed.mss.max(1));
        }
    }

    /// A segment of an open connection.
    fn acknowledge(
        &mut self,
        segment: &Segment,
        options: &[TcpOption],
        place: Place,
    ) -> Result<(), Fault> {
        let flags = segment.flags;
        let window = segment.window.unwrap_or(65_535) << self.agreed.peer_shift;
        let changes = window != self.window;
        self.window = window;
        self.set_window();
        let length = segment.end - segment.start;
        if length > 0 {
            if segment.start > self.expects {
                let what = "received data that is out of order: only the sender is run";
                return Err(Fault::new(place, Subject::Sockets, what));
            }
            self.received = true;
            self.expects = self.expects.max(segment.end);
        }
        let sacks: Vec<(u64, u64)> = options
            .iter()
            .filter_map(|option| match option {
                TcpOption::Sack(blocks) => Some(blocks.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        let echo = options.iter().find_map(|option| match option {
            TcpOption::Timestamp(_, echo) => Some(*echo),
            _ => None,
        });
        if let Some(ack) = segment.ack {
            let tells = !sacks.is_empty() || flags.has(TcpFlags::ECE);
            self.take_ack(ack, &sacks, echo, flags, changes || length > 0, tells, place)?;
        }
        if flags.has(TcpFlags::FIN) {
            self.expects += 1;
            let at = 1 + self.sent() + u64::from(self.fin_sent);
            self.leave(TcpFlags::ACK, at, at, None, Vec::new());
        }
        self.send();
        Ok(())
    }

    /// Bytes sent.
    fn sent(&self) -> u64 {
        let high = self.sender.as_ref().map_or(0, |sender| sender.sequences().high as usize);
        high.checked_sub(1).and_then(|last| self.data.get(last)).map_or(0, |data| data.end)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one segment")]
    fn take_ack(
        &mut self,
        ack: u64,
        sacks: &[(u64, u64)],
        echo: Option<u64>,
        flags: TcpFlags,
        more: bool,
        tells: bool,
        place: Place,
    ) -> Result<(), Fault> {
        let sent = self.sent();
        let bytes = ack.saturating_sub(1);
        if ack == 0 || bytes > sent + u64::from(self.fin_sent) {
            let what = format!("an ACK of {ack}, when {sent} bytes were sent");
            return Err(Fault::new(place, Subject::Sockets, what));
        }
        let Some(sender) = &mut self.sender else { return Ok(()) };
        let before = sender.sequences().una as usize;
        let una = self.data.partition_point(|data| data.end <= bytes);
        self.acked = self.acked.max(bytes.min(sent));
        // Whole segments only, as Linux rounds.
        let mut blocks = Vec::new();
        for &(start, end) in sacks {
            let (start, end) = (start.saturating_sub(1), end.saturating_sub(1));
            let first = self.data.partition_point(|data| data.end <= start);
            let begins = first.checked_sub(1).map_or(0, |at| self.data[at].end) >= start;
            let first = if begins { first } else { first + 1 };
            let last = self.data.partition_point(|data| data.end <= end);
            if first < last {
                blocks.push(SackBlock { start: first as u64, end: last as u64 });
            }
        }
        if blocks.len() > MAX_SACK_BLOCKS {
            let what = format!("more than {MAX_SACK_BLOCKS} SACK blocks in an ACK");
            return Err(Fault::new(place, Subject::Unmodelled, what));
        }
        let is_new = una > before;
        if !is_new && more && !tells {
            return Ok(()); // A change of the window, or data.
        }
        let mut cumulative: Option<Data> = None;
        let mut selective: Option<Data> = None;
        let mut ambiguous = false;
        for (at, data) in self.data.iter_mut().enumerate() {
            let inside = |b: &SackBlock| (b.start..b.end).contains(&(at as u64));
            if at < una && at >= before && !data.arrived {
                ambiguous |= data.times > 1;
                cumulative = Some(data.clone());
                data.arrived = true;
            } else if at >= una.max(before) && !data.arrived && blocks.iter().any(inside) {
                data.arrived = true;
                if selective.as_ref().is_none_or(|known| known.number < data.number) {
                    selective = Some(data.clone());
                }
            }
        }
        let newest = [&cumulative, &selective].into_iter().flatten().max_by_key(|d| d.number);
        let number = newest.map_or(0, |data| data.number);
        let timed = match (&cumulative, &selective) {
            (Some(data), _) if !ambiguous => Some(data.sent),
            // RFC 7323: the echo tells transmissions apart.
            (Some(_), _) => self.clock.zip(echo).map(|((since, value), echo)| {
                since + Duration::from_millis(echo.saturating_sub(value))
            }),
            (None, Some(data)) if data.times == 1 => Some(data.sent),
            _ => None,
        };
        let mut packet = Packet {
            kind: PacketKind::Ack,
            sack_len: blocks.len() as u8,
            seq: una as u64,
            trigger_seq: una as u64,
            packet_seq: number,
            timestamp: timed.unwrap_or(self.now),
            ..Packet::default()
        };
        if flags.has(TcpFlags::ECE) {
            packet.flags.insert(Flags::ECN_ECHO);
        }
        for (slot, block) in packet.sack.iter_mut().zip(blocks) {
            *slot = block;
        }
        match timed {
            Some(_) => sender.on_ack(self.now, &packet),
            None => sender.on_ambiguous_ack(self.now, &packet),
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let refused = || {
            let what = format!("the call {}(...)", clipped(&call.name));
            Err(Fault::new(place, Subject::Sockets, what))
        };
        let in_progress = call.name == "connect" && call.error.as_deref() == Some("EINPROGRESS");
        if call.error.is_some() && !in_progress {
            let what = format!(
                "the call {}(...) that fails with {}",
                clipped(&call.name),
                clipped(call.error.as_deref().unwrap_or_default())
            );
            return Err(Fault::new(place, Subject::Sockets, what));
        }
        let integer = |at: usize| match call.arguments.get(at) {
            Some(Expression::Integer(value)) => Some(*value),
            _ => None,
        };
        let returned = match &call.returns {
            Expression::Integer(value) => *value,
            _ => return refused(),
        };
        match call.name.as_str() {
            "socket" => {
                let kind = call.arguments.get(1);
                if kind != Some(&Expression::Word("SOCK_STREAM".to_owned())) {
                    return refused();
                }
                self.connection.get_or_insert(returned);
            }
            "bind" | "fcntl" => {}
            "listen" if self.stage == Stage::Closed => self.stage = Stage::Listening,
            "accept" if self.stage == Stage::Open => self.connection = Some(returned),
            "connect" if self.stage == Stage::Closed => {
                let host = &self.host;
                let all = Agreed {
                    sack: host.sack,
                    timestamps: host.timestamps,
                    scales: host.scaling,
                    ..Agreed::default()
                };
                let mut flags = TcpFlags::SYN;
                if host.ecn == 1 {
                    flags = flags.with(TcpFlags::ECE).with(TcpFlags::CWR);
                }
                let options = self.offer(all);
                self.leave(flags, 0, 0, None, options);
                self.stage = Stage::Connecting(self.now);
            }
            "setsockopt" => self.host.option(call, place)?,
            "getsockopt" => return self.getsockopt(call, place),
            "write" | "send" | "sendto" if self.stage == Stage::Open && !self.closing => {
                if integer(0) != self.connection
                    || call.name == "sendto" && call.arguments.len() < 4
                {
                    return refused();
                }
                let plain = match call.arguments.get(3) {
                    None | Some(Expression::Integer(0) | Expression::Any) => true,
                    Some(Expression::Word(word)) => word == "MSG_NOSIGNAL",
                    _ => false,
                };
                if !plain {
                    return refused();
                }
                self.written += returned.max(0).unsigned_abs();
                if self.written > MOST_BYTES {
                    let what = "a script writes at most 1 GiB";
                    return Err(Fault::new(place, Subject::Unmodelled, what));
                }
                self.send();
            }
            "close" if integer(0) == self.connection && self.stage == Stage::Open => {
                self.closing = true;
                self.send();
            }
            "close" if !matches!(self.stage, Stage::Connecting(_) | Stage::Accepting(_)) => {}
            "shutdown"
                if call.arguments.get(1) == Some(&Expression::Word("SHUT_WR".to_owned())) =>
            {
                self.closing = true;
                self.send();
            }
            _ => return refused(),
        }
        Ok(())
    }

    fn getsockopt(&mut self, call: &Call, place: Place) -> Result<(), Fault> {
        let option = match call.arguments.get(2) {
            Some(Expression::Word(word)) => word.as_str(),
            _ => "",
        };
        let wanted = match call.arguments.get(3) {
            Some(Expression::List(values)) => match values.first() {
                Some(Expression::Integer(value)) => Some(*value),
                _ => None,
            },
            _ => None,
        };
        let (Some(wanted), "TCP_MAXSEG") = (wanted, option) else {
            let what = format!("getsockopt of {}", clipped(option));
            return Err(Fault::new(place, Subject::Sockets, what));
        };
        let actual = match self.stage {
            Stage::Open => self.agreed.mss,
            _ => self.host.max_segment,
        };
        if u64::try_from(wanted) != Ok(actual) {
            let message = format!("TCP_MAXSEG should be {wanted} and is {actual}");
            return Err(Fault::new(place, Subject::Differs, message));
        }
        self.counts.assertions += 1;
        Ok(())
    }

    fn code(&mut self, text: &str, place: Place) -> Result<(), Fault> {
        let mut names = std::mem::take(&mut self.names);
        let board = self.sender.as_ref().and_then(|sender| sender.scoreboard());
        let value = |name: &str| constant(name).or_else(|| self.value(name, board));
        // The code begins behind `%{`.
        let place = Place { column: place.column + 2, ..place };
        let assertions = python::run(text, place, &mut names, &value)?;
        self.names = names;
        self.counts.assertions += assertions;
        Ok(())
    }

    /// The value of a `tcpi_` name.
    fn value(&self, name: &str, board: Option<Scoreboard>) -> Option<f64> {
        let sender = self.sender.as_ref()?;
        let seqs = sender.sequences();
        let us = |time: Duration| (time.as_ps() / 1_000_000) as f64;
        let again = || self.data.iter().map(|data| u64::from(data.times.saturating_sub(1)));
        let agreed = &self.agreed;
        Some(match name {
            "tcpi_snd_cwnd" => match board {
                Some(board) => board.window as f64,
                None => sender.cwnd().trunc(),
            },
            "tcpi_snd_ssthresh" => match sender.ssthresh() {
                ssthresh if ssthresh < f64::from(i32::MAX) => ssthresh.trunc(),
                _ => f64::from(i32::MAX),
            },
            "tcpi_ca_state" => f64::from(match board?.state {
                RepairState::Open => 0,
                RepairState::Disorder => 1,
                RepairState::Reduced => 2,
                RepairState::Recovery => 3,
                RepairState::Loss => 4,
            }),
            "tcpi_unacked" => seqs.outstanding() as f64 + f64::from(u8::from(self.fin_sent)),
            "tcpi_sacked" => board?.arrived as f64,
            "tcpi_lost" => board?.lost as f64,
            "tcpi_retrans" => board?.resent as f64,
            "tcpi_reordering" => board?.reordering as f64,
            "tcpi_reord_seen" => board?.reorderings as f64,
            "tcpi_total_retrans" => again().sum::<u64>() as f64,
            "tcpi_rtt" => us(sender.rtt().srtt()),
            "tcpi_min_rtt" => us(sender.rtt().min_rtt()),
            "tcpi_snd_mss" => agreed.mss as f64,
            "tcpi_advmss" => self.advertised() as f64,
            "tcpi_state" => f64::from(match self.fin_sent {
                false => 1,
                true if self.expects > 1 && !self.received => 5,
                true => 4,
            }),
            "tcpi_options" => {
                let bits = [agreed.timestamps, agreed.sack, agreed.scales, agreed.ecn];
                let set = bits.iter().enumerate().filter(|(_, set)| **set);
                f64::from(set.fold(0_u32, |all, (bit, _)| all | 1 << bit))
            }
            "tcpi_snd_wscale" => agreed.peer_shift as f64,
            "tcpi_bytes_acked" => self.acked as f64,
            "tcpi_notsent_bytes" => (self.written - self.sent()) as f64,
            "tcpi_data_segs_out" => {
                self.data.iter().map(|data| u64::from(data.times)).sum::<u64>() as f64
            }
            _ => return None,
        })
    }
}

/// Values that do not depend on the sender.
fn constant(name: &str) -> Option<f64> {
    Some(f64::from(match name {
        "TCP_CA_Open" => 0,
        "TCP_CA_Disorder" => 1,
        "TCP_CA_CWR" => 2,
        "TCP_CA_Recovery" => 3,
        "TCP_CA_Loss" => 4,
        "TCP_ESTABLISHED" | "TCPI_OPT_TIMESTAMPS" => 1,
        "TCPI_OPT_SACK" => 2,
        "TCP_FIN_WAIT1" | "TCPI_OPT_WSCALE" => 4,
        "TCP_FIN_WAIT2" => 5,
        "TCPI_OPT_ECN" => 8,
        _ => return None,
    }))
}

/// A time as packetdrill shows it.
fn seconds(time: Time) -> String {
    format!("{:.6}", time.as_secs_f64())
}

fn show(segment: &Segment) -> String {
    let mut text = segment.flags.shown();
    if let Some(ecn) = segment.ecn.filter(|ecn| *ecn != Ecn::NotEct) {
        text = format!("[{}] {text}", ecn.word());
    }
    let Segment { start, end, .. } = segment;
    text += &format!(" {start}:{end}({})", end - start);
    if let Some(ack) = segment.ack {
        text += &format!(" ack {ack}");
    }
    let names: Vec<String> = segment
        .options
        .iter()
        .flatten()
        .filter_map(|option| match option {
            TcpOption::Nop | TcpOption::End => None,
            TcpOption::Mss(mss) => Some(format!("mss {mss}")),
            TcpOption::Scale(_) => Some("wscale".to_owned()),
            TcpOption::SackOk => Some("sackOK".to_owned()),
            TcpOption::Sack(_) => Some("sack".to_owned()),
            TcpOption::Timestamp(..) => Some("TS".to_owned()),
        })
        .collect();
    if !names.is_empty() {
        text += &format!(" <{}>", names.join(","));
    }
    text
}

/// True if a packet has the codepoint that the script gives, if it gives one.
fn codepoints_agree(wanted: Option<Ecn>, actual: Option<Ecn>) -> bool {
    let actual = actual.unwrap_or(Ecn::NotEct);
    match wanted {
        None => true,
        Some(Ecn::Ect) => matches!(actual, Ecn::Ect0 | Ecn::Ect1),
        Some(wanted) => wanted == actual,
    }
}

/// True if a packet has the same options with the same segment size. The order, the padding, the
/// values of timestamps and the window's shift do not count.
fn options_agree(wanted: Option<&[TcpOption]>, actual: Option<&[TcpOption]>) -> bool {
    let (Some(wanted), Some(actual)) = (wanted, actual) else { return true };
    let sorted = |options: &[TcpOption]| {
        let mut kinds: Vec<(u8, u64)> = options
            .iter()
            .filter_map(|option| match option {
                TcpOption::Nop | TcpOption::End => None,
                TcpOption::Mss(mss) => Some((2, *mss)),
                TcpOption::Scale(_) => Some((3, 0)),
                TcpOption::SackOk => Some((4, 0)),
                TcpOption::Sack(_) => Some((5, 0)),
                TcpOption::Timestamp(..) => Some((8, 0)),
            })
            .collect();
        kinds.sort_unstable();
        kinds
    };
    sorted(wanted) == sorted(actual)
}
