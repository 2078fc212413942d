//! Connections of stacks: what the engine keeps of one, and what it adds up to.

use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::FlowSnapshot;
use super::flow::Flow;
use super::hop::Span;
use super::route::Route;
use super::schedule::Alarm;
use crate::name::Name;
use crate::outcome::FlowOutcome;
use crate::scenario::{FlowSpec, Traffic};
use crate::stack::{Codepoint, Connection, End, Report, Setup, StackConfig, UDP_OVERHEAD};

/// The most that an end may do at one instant, packets and timers together: more is an endless loop.
const MOST_AT_ONCE: u32 = 1 << 18;

/// A connection of a stack.
#[derive(Debug)]
pub(super) struct Foreign {
    connection: Box<dyn Connection>,
    protocol: &'static str,
    config: StackConfig,
    pub(super) route: Route,
    pub(super) timers: [Alarm; 2],
    /// Packets sent by each end.
    sent: [u64; 2],
    completed: Option<Time>,
    /// The integral of the window in bytes over time, until when, and the window since.
    cwnd_seconds: f64,
    cwnd: (Time, u64),
    /// What both ends did at an instant.
    busy: (Time, u32),
    /// Why the engine gave the connection up.
    given_up: Option<&'static str>,
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
    pub(super) fn new(spec: &FlowSpec, route: Route, seed: u64) -> Option<Box<Self>> {
        let Traffic::Stack { stack, config, bytes } = &spec.kind.traffic else { return None };
        let setup = Setup {
            seed: Stream::new(seed, "stack", &spec.name).bits(),
            bytes: *bytes,
            config: **config,
        };
        let connection = stack.connect(&setup);
        let cwnd = connection.report().cwnd;
        Some(Box::new(Foreign {
            connection,
            protocol: stack.facts().name,
            config: **config,
            route,
            timers: [Alarm::OFF; 2],
            sent: [0; 2],
            completed: None,
            cwnd_seconds: 0.0,
            cwnd: (Time::ZERO, cwnd),
            busy: (Time::ZERO, 0),
            given_up: None,
            at_warmup: None,
        }))
    }

    pub(super) fn start(&mut self, now: Time) {
        self.connection.start(now);
    }

    pub(super) fn stop(&mut self, now: Time) {
        self.connection.stop(now);
    }

    /// A packet with this payload reaches its end. Returns that.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet, payload: &[u8]) -> End {
        let end = if packet.kind == PacketKind::Ack { End::Sender } else { End::Receiver };
        if self.given_up.is_none() {
            self.connection.receive(now, end, payload, codepoint(packet.flags));
        }
        end
    }

    /// Makes the next packet of an end, if there is one.
    pub(super) fn poll_transmit(
        &mut self,
        now: Time,
        end: End,
        packet: &mut Packet,
        payload: &mut Vec<u8>,
    ) -> bool {
        if !self.may_act(now) {
            return false;
        }
        let Some(ecn) = self.connection.poll_transmit(now, end, payload) else { return false };
        let kind = match end {
            End::Sender => PacketKind::Data,
            End::Receiver => PacketKind::Ack,
        };
        let seq = self.sent[end as usize];
        self.sent[end as usize] += 1;
        let size = payload.len() as u32 + UDP_OVERHEAD;
        let flags = if self.config.ecn { flags(ecn) } else { Flags::NONE };
        *packet = Packet { size, kind, seq, flags, timestamp: now, ..Packet::default() };
        true
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
            self.given_up = Some("it never had enough at one instant: an endless loop");
        }
        self.given_up.is_none()
    }

    /// When an end's timer is due, from `now` on.
    pub(super) fn next_timer(&mut self, now: Time, end: End) -> Time {
        if self.given_up.is_some() {
            return Time::NEVER;
        }
        self.connection.next_timer(end).max(now)
    }

    /// An alarm for an end's timer has gone off, perhaps early. Was the timer due?
    pub(super) fn on_timer(&mut self, now: Time, end: End) -> bool {
        let due = self.may_act(now) && self.connection.next_timer(end) <= now;
        if due {
            self.connection.on_timer(now, end);
        }
        due
    }

    /// Notes where the connection stands after something happened to its sender.
    pub(super) fn note(&mut self, now: Time) {
        let report = self.connection.report();
        self.integrate(now);
        self.cwnd.1 = report.cwnd;
        if self.completed.is_none() && report.completed {
            self.completed = Some(now);
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
            report: self.connection.report(),
            sent: self.sent[End::Sender as usize],
            cwnd_seconds: self.cwnd_seconds,
        }));
    }

    pub(super) fn snapshot(&self, bottleneck_bytes: u64) -> FlowSnapshot {
        let report = self.connection.report();
        let payload = f64::from(self.config.payload());
        FlowSnapshot {
            cwnd: report.cwnd as f64 / payload,
            ssthresh: report.ssthresh.map_or(f64::INFINITY, |bytes| bytes as f64 / payload),
            srtt: report.srtt,
            in_flight: report.in_flight.div_ceil(u64::from(self.config.payload())),
            delivered_bytes: report.delivered,
            bottleneck_bytes,
        }
    }

    pub(super) fn outcome(mut self, mut flow: Flow, name: Name, window: Span) -> FlowOutcome {
        self.integrate(window.until);
        let length = window.until.since(window.from).as_secs_f64();
        let report = self.connection.report();
        let before = self.at_warmup.map(|before| *before).unwrap_or_default();
        let sent = self.sent[End::Sender as usize];
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let samples = since(report.rtts.1, before.report.rtts.1);
        let rtts = report.rtts.0 - before.report.rtts.0;
        let cwnd = (self.cwnd_seconds - before.cwnd_seconds) / length;
        let idle = flow.end_idle(window, self.completed);
        let given_up = self.given_up.map(Into::into);
        FlowOutcome {
            name,
            group: flow.group as usize,
            protocol: self.protocol.into(),
            goodput_bps: (since(report.delivered, before.report.delivered) * 8) as f64 / length,
            throughput_bps: flow.measured_bytes as f64 * 8.0 / length,
            packets_sent: since(sent, before.sent),
            retransmissions: since(report.lost, before.report.lost),
            timeouts: 0,
            refused_windows: 0,
            loss_estimate: report.lost as f64 / sent.max(1) as f64,
            true_loss: flow.lost as f64 / sent.max(1) as f64,
            mean_rtt: Duration::from_ps(rtts.as_ps() / samples.max(1)),
            mean_cwnd: cwnd / f64::from(self.config.payload()),
            datagrams: None,
            start: flow.start,
            completed: self.completed,
            idle: idle.sum,
            longest_idle: idle.longest,
            idle_periods: idle.periods,
            throughput_bins: flow.throughput_bins(window),
            failure: given_up.or(report.failure).map(|reason| reason.as_ref().into()),
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
