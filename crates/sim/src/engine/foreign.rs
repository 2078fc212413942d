//! Connections of stacks: what the engine keeps of one, and what it adds up to.
//!
//! One that comes by itself is made when it starts, and its state goes when it is completed or lost:
//! nobody answers what is still on the way then.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::FlowSnapshot;
use super::flow::Flow;
use super::hop::Span;
use super::route::Route;
use super::schedule::Alarm;
use super::slab::Load;
use crate::name::Name;
use crate::outcome::{FlowOutcome, TransferOutcome};
use crate::scenario::{FlowConfig, Traffic, Transfer};
use crate::stack::{Codepoint, Connection, End, PacketFacts, Report, Setup, Stack, UDP_OVERHEAD};

/// The most that an end may do at one instant, packets and timers together: more is an endless loop.
const MOST_AT_ONCE: u32 = 1 << 18;

/// A connection of a stack.
#[derive(Debug)]
pub(super) struct Foreign {
    stack: Arc<dyn Stack>,
    setup: Setup,
    /// Does it come by itself, and go?
    passes: bool,
    /// Bytes on the wire before each payload.
    overhead: u32,
    /// While it is there.
    connection: Option<Box<dyn Connection>>,
    /// Where it stood when its sender last did something, or when it went.
    last: Report,
    pub(super) route: Route,
    pub(super) timers: [Alarm; 2],
    /// Packets sent by each end.
    sent: [u64; 2],
    /// When it began, and when its handshake was done.
    started: Time,
    connected: Option<Time>,
    completed: Option<Time>,
    /// The integral of the window in bytes over time, until when, and the window since.
    cwnd_seconds: f64,
    cwnd: (Time, u64),
    /// What both ends did at an instant.
    busy: (Time, u32),
    /// Why the engine gave the connection up.
    given_up: Option<Arc<str>>,
    at_warmup: Option<Box<Before>>,
}

/// What was counted before the figures begin.
#[derive(Debug, Default)]
struct Before {
    report: Report,
    sent: u64,
    cwnd_seconds: f64,
}

impl Foreign {
    /// The connection of a flow, which `passes` if it comes by itself.
    pub(super) fn new(
        spec: &FlowConfig,
        route: Route,
        seed: u64,
        passes: bool,
    ) -> Option<Box<Self>> {
        let Traffic::Stack { stack, config, bytes, arrivals: None } = &spec.kind.traffic else {
            return None;
        };
        let setup = Setup {
            seed: Stream::new(seed, "stack", &spec.name).bits(),
            bytes: *bytes,
            config: **config,
        };
        let mut foreign = Box::new(Foreign {
            stack: Arc::clone(stack),
            setup,
            passes,
            overhead: UDP_OVERHEAD,
            connection: None,
            last: Report::default(),
            route,
            timers: [Alarm::OFF; 2],
            sent: [0; 2],
            started: Time::ZERO,
            connected: None,
            completed: None,
            cwnd_seconds: 0.0,
            cwnd: (Time::ZERO, 0),
            busy: (Time::ZERO, 0),
            given_up: None,
            at_warmup: None,
        });
        if !passes {
            foreign.connect();
        }
        Some(foreign)
    }

    /// Makes the connection, unless it is there.
    fn connect(&mut self) {
        if self.connection.is_some() || self.given_up.is_some() {
            return;
        }
        let made = catch_unwind(AssertUnwindSafe(|| {
            let connection = self.stack.connect(&self.setup);
            (connection.report(), connection.overhead(), connection)
        }));
        match made {
            Ok((report, overhead, connection)) => {
                self.overhead = overhead;
                self.cwnd.1 = report.cwnd;
                self.last = report;
                self.connection = Some(connection);
            }
            Err(panic) => self.panicked(panic.as_ref()),
        }
    }

    /// Tells the connection something, if it is there and has not been given up.
    fn tell<T>(&mut self, what: impl FnOnce(&mut dyn Connection) -> T) -> Option<T> {
        if self.given_up.is_some() {
            return None;
        }
        let connection = self.connection.as_mut()?;
        // It is never asked again if it panics.
        match catch_unwind(AssertUnwindSafe(|| what(connection.as_mut()))) {
            Ok(answer) => Some(answer),
            Err(panic) => {
                self.panicked(panic.as_ref());
                None
            }
        }
    }

    /// Gives it up for what its code said as it panicked.
    #[cold]
    fn panicked(&mut self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("it did not say why");
        self.given_up = Some(format!("{} panicked: {text}", self.stack.facts().name).into());
        let connection = self.connection.take();
        // What has panicked once may do so again.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(connection)));
    }

    pub(super) fn start(&mut self, now: Time) {
        self.started = now;
        self.connect();
        self.tell(|connection| connection.start(now));
    }

    pub(super) fn stop(&mut self, now: Time) {
        self.tell(|connection| connection.stop(now));
    }

    /// Where it stands, or stood when it went.
    pub(super) fn report(&self) -> Report {
        let asked = self
            .connection
            .as_ref()
            .map(|connection| catch_unwind(AssertUnwindSafe(|| connection.report())).ok());
        asked.flatten().unwrap_or_else(|| self.last.clone())
    }

    /// A packet reaches its end. Returns that.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet, load: &Load) -> End {
        let end = load.from.other();
        let ecn = codepoint(packet.flags);
        self.tell(|connection| match load.seen {
            Some(_) => connection.receive_shown(now, end, &load.payload, packet, ecn),
            None => connection.receive(now, end, &load.payload, ecn),
        });
        end
    }

    /// The network has lost a packet.
    pub(super) fn lost(&mut self, now: Time, load: &Load) {
        self.tell(|connection| connection.lost(now, load.from, &load.payload));
    }

    /// Makes the next packet of an end, if there is one.
    pub(super) fn poll_transmit(
        &mut self,
        now: Time,
        end: End,
        packet: &mut Packet,
        load: &mut Load,
    ) -> bool {
        if !self.may_act(now) {
            return false;
        }
        let kind = match end {
            End::Sender => PacketKind::Data,
            End::Receiver => PacketKind::Ack,
        };
        let seq = self.sent[end as usize];
        *packet = Packet { kind, seq, ..Packet::default() };
        let overhead = self.overhead;
        let make = |connection: &mut dyn Connection| {
            let ecn = connection.poll_transmit(now, end, &mut load.payload)?;
            packet.size = load.payload.len() as u32 + overhead;
            load.seen = connection.show(&load.payload, packet);
            Some(ecn)
        };
        let Some(ecn) = self.tell(make).flatten() else { return false };
        load.from = end;
        self.sent[end as usize] += 1;
        packet.timestamp = now;
        packet.flags.remove(flags(Codepoint::Ce).with(flags(Codepoint::Ect1)));
        if self.setup.config.ecn {
            packet.flags.insert(flags(ecn));
        }
        true
    }

    /// The packets in a datagram that was just made.
    pub(super) fn describe(&mut self, load: &Load) -> Vec<PacketFacts> {
        self.tell(|connection| connection.describe(load.from, &load.payload)).unwrap_or_default()
    }

    /// Counts something that an end does at `now`. Is it still within reason?
    fn may_act(&mut self, now: Time) -> bool {
        if self.given_up.is_some() {
            return false;
        }
        if self.busy.0 != now {
            self.busy = (now, 0);
        }
        self.busy.1 += 1;
        if self.busy.1 > MOST_AT_ONCE {
            self.given_up = Some(
                "it never had enough at one instant: an endless loop, or a window without bounds"
                    .into(),
            );
        }
        self.given_up.is_none()
    }

    /// When an end's timer is due, from `now` on.
    pub(super) fn next_timer(&mut self, now: Time, end: End) -> Time {
        self.tell(|connection| connection.next_timer(end)).map_or(Time::NEVER, |due| due.max(now))
    }

    /// An alarm for an end's timer has gone off, perhaps early. Was the timer due?
    pub(super) fn on_timer(&mut self, now: Time, end: End) -> bool {
        if !self.may_act(now) {
            return false;
        }
        let on_timer = |connection: &mut dyn Connection| {
            let due = connection.next_timer(end) <= now;
            if due {
                connection.on_timer(now, end);
            }
            due
        };
        self.tell(on_timer).unwrap_or(false)
    }

    /// Notes where the connection stands after something happened to its sender.
    pub(super) fn note(&mut self, now: Time) {
        if self.connection.is_none() {
            return;
        }
        let report = self.report();
        self.integrate(now);
        self.cwnd.1 = report.cwnd;
        if self.connected.is_none() && report.connected {
            self.connected = Some(now);
        }
        if self.completed.is_none() && report.completed {
            self.completed = Some(now);
        }
        let is_over = report.completed || report.failure.is_some() || self.given_up.is_some();
        self.last = report;
        if self.passes && is_over {
            self.connection = None;
        }
    }

    fn integrate(&mut self, until: Time) {
        let (since, cwnd) = self.cwnd;
        self.cwnd_seconds += cwnd as f64 * until.since(since).as_secs_f64();
        self.cwnd.0 = until;
    }

    /// Remembers what was counted before the figures begin.
    pub(super) fn end_warmup(&mut self, now: Time) {
        self.integrate(now);
        self.at_warmup = Some(Box::new(Before {
            report: self.report(),
            sent: self.sent[End::Sender as usize],
            cwnd_seconds: self.cwnd_seconds,
        }));
    }

    pub(super) fn snapshot(&self, bottleneck_bytes: u64) -> FlowSnapshot {
        let report = self.report();
        let payload = f64::from(self.setup.config.payload());
        FlowSnapshot {
            cwnd: report.cwnd as f64 / payload,
            ssthresh: report.ssthresh.map_or(f64::INFINITY, |bytes| bytes as f64 / payload),
            srtt: report.srtt,
            in_flight: report.in_flight.div_ceil(u64::from(self.setup.config.payload())),
            delivered_bytes: report.delivered,
            arrived_bytes: report.delivered,
            bottleneck_bytes,
        }
    }

    fn handshake(&self) -> Duration {
        self.connected.map_or(Duration::ZERO, |connected| connected.since(self.started))
    }

    /// Its RTT samples after the warm-up: their sum, and how many they are.
    pub(super) fn rtts(&self) -> (Duration, u64) {
        let (sum, count) = self.report().rtts;
        let before = self.at_warmup.as_ref().map_or((Duration::ZERO, 0), |b| b.report.rtts);
        (sum - before.0, count.saturating_sub(before.1))
    }

    /// Its row as one of the transfers between a pair of hosts.
    pub(super) fn transfer_outcome(&self, pair: usize, transfer: Transfer) -> TransferOutcome {
        TransferOutcome {
            flow: pair,
            start: transfer.start,
            bytes: transfer.bytes,
            packets: transfer.bytes.div_ceil(u64::from(self.setup.config.payload())),
            handshake: self.handshake(),
            completed: self.completed,
            packets_sent: self.sent[End::Sender as usize],
            retransmissions: self.report().lost,
            timeouts: 0,
        }
    }

    pub(super) fn outcome(mut self, mut flow: Flow, name: Name, window: Span) -> FlowOutcome {
        self.integrate(window.until);
        let length = window.until.since(window.from).as_secs_f64();
        let report = self.report();
        let (handshake, rtts) = (self.handshake(), self.rtts());
        let before = self.at_warmup.map(|before| *before).unwrap_or_default();
        let sent = self.sent[End::Sender as usize];
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let cwnd = (self.cwnd_seconds - before.cwnd_seconds) / length;
        let idle = flow.end_idle(window, self.completed);
        FlowOutcome {
            name,
            group: flow.group as usize,
            protocol: self.stack.facts().name.into(),
            goodput_bps: (since(report.delivered, before.report.delivered) * 8) as f64 / length,
            throughput_bps: flow.measured_bytes as f64 * 8.0 / length,
            packets_sent: since(sent, before.sent),
            retransmissions: since(report.lost, before.report.lost),
            timeouts: 0,
            refused_windows: report.refused_windows,
            loss_estimate: report.lost as f64 / sent.max(1) as f64,
            true_loss: flow.lost as f64 / sent.max(1) as f64,
            mean_rtt: Duration::from_ps(rtts.0.as_ps() / rtts.1.max(1)),
            mean_cwnd: cwnd / f64::from(self.setup.config.payload()),
            datagrams: None,
            start: flow.start,
            handshake,
            completed: self.completed,
            idle: idle.sum,
            longest_idle: idle.longest,
            idle_periods: idle.periods,
            throughput_bins: flow.throughput_bins(window),
            failure: self.given_up.or(report.failure).map(|reason| reason.as_ref().into()),
        }
    }
}

/// The flags of a packet with this codepoint.
fn flags(codepoint: Codepoint) -> Flags {
    match codepoint {
        Codepoint::NotEct => Flags::NONE,
        Codepoint::Ect0 => Flags::ECN_CAPABLE,
        Codepoint::Ect1 => Flags::ECN_CAPABLE.with(Flags::L4S),
        Codepoint::Ce => Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED),
    }
}

/// The codepoint of a packet that arrives with these flags.
fn codepoint(flags: Flags) -> Codepoint {
    if flags.contains(Flags::CONGESTION_EXPERIENCED) {
        Codepoint::Ce
    } else if !flags.contains(Flags::ECN_CAPABLE) {
        Codepoint::NotEct
    } else if flags.contains(Flags::L4S) {
        Codepoint::Ect1
    } else {
        Codepoint::Ect0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_survive_the_way() {
        for ecn in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce] {
            assert_eq!(codepoint(flags(ecn)), ecn);
        }
        // A router marks.
        let marked = flags(Codepoint::Ect1).with(Flags::CONGESTION_EXPERIENCED);
        assert_eq!(codepoint(marked), Codepoint::Ce);
    }
}
