//! Connections of stacks: the state that the engine keeps of each, and its counts.
//!
//! A connection that opens at random is made when it starts, and its state is freed when it is
//! completed or fails: packets that are still under way get no answer.

use std::sync::Arc;

use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Time};

use super::guarded::Guarded;
use super::hop::Span;
use super::schedule::Alarm;
use super::slab::Load;
use super::snapshot::FlowSnapshot;
use crate::outcome::{FlowOutcome, TransferOutcome};
use crate::scenario::Transfer;
use crate::stack::{
    Codepoint, Connection, End, PacketFacts, Stack, StackConfig, StackReport, StackSetup,
};

/// A connection of a stack.
#[derive(Debug)]
pub(super) struct StackConnection {
    code: Guarded,
    /// True if it opens at random and is freed when it ends.
    passes: bool,
    pub(super) timers: [Alarm; 2],
    /// Packets sent by each end.
    sent: [u64; 2],
    started: Time,
    /// End of the handshake.
    connected: Option<Time>,
    completed: Option<Time>,
    cwnd: Integral,
    at_warmup: Option<Box<Warmup>>,
}

/// Integral of a window over time.
#[derive(Debug)]
struct Integral {
    /// Bytes times seconds, up to `until`.
    sum: f64,
    until: Time,
    /// The window since `until`, bytes.
    bytes: u64,
}

impl Integral {
    fn advance(&mut self, until: Time) {
        self.sum += self.bytes as f64 * until.since(self.until).as_secs_f64();
        self.until = until;
    }
}

/// Counts at the end of the warm-up.
#[derive(Debug, Default)]
struct Warmup {
    report: StackReport,
    sent: u64,
    cwnd_seconds: f64,
}

impl StackConnection {
    /// The connection of a flow; one that `passes` is made when it starts.
    pub(super) fn new(
        stack: &Arc<dyn Stack>,
        config: StackConfig,
        bytes: Option<u64>,
        seed: u64,
        passes: bool,
    ) -> Self {
        let mut connection = StackConnection {
            code: Guarded::new(stack, StackSetup { seed, bytes, config }),
            passes,
            timers: [Alarm::OFF; 2],
            sent: [0; 2],
            started: Time::ZERO,
            connected: None,
            completed: None,
            cwnd: Integral { sum: 0.0, until: Time::ZERO, bytes: 0 },
            at_warmup: None,
        };
        if !passes {
            connection.connect();
        }
        connection
    }

    fn connect(&mut self) {
        if self.code.connect() {
            self.cwnd.bytes = self.code.last.cwnd;
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.started = now;
        self.connect();
        self.code.call(|connection| connection.start(now));
    }

    pub(super) fn stop(&mut self, now: Time) {
        self.code.call(|connection| connection.stop(now));
    }

    /// State of the connection, or its last one.
    pub(super) fn report(&self) -> StackReport {
        self.code.report()
    }

    /// Hands a packet to its end, and returns that end.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet, load: &Load) -> End {
        let end = load.from.other();
        let ecn = codepoint(packet.flags);
        self.code.call(|connection| match load.seen {
            Some(_) => connection.receive_shown(now, end, &load.payload, packet, ecn),
            None => connection.receive(now, end, &load.payload, ecn),
        });
        end
    }

    /// Tells the connection that the network has lost a packet.
    pub(super) fn lost(&mut self, now: Time, load: &Load) {
        self.code.call(|connection| connection.lost(now, load.from, &load.payload));
    }

    /// Makes the next packet of an end. Returns false if there is none.
    pub(super) fn poll_transmit(
        &mut self,
        now: Time,
        end: End,
        packet: &mut Packet,
        load: &mut Load,
    ) -> bool {
        if !self.code.may_act(now) {
            return false;
        }
        let kind = match end {
            End::Sender => PacketKind::Data,
            End::Receiver => PacketKind::Ack,
        };
        let seq = self.sent[end as usize];
        *packet = Packet { kind, seq, ..Packet::default() };
        let overhead = self.code.overhead;
        let make = |connection: &mut dyn Connection| {
            let ecn = connection.poll_transmit(now, end, &mut load.payload)?;
            packet.size = load.payload.len() as u32 + overhead;
            load.seen = connection.show(&load.payload, packet);
            Some(ecn)
        };
        let Some(ecn) = self.code.call(make).flatten() else { return false };
        load.from = end;
        self.sent[end as usize] += 1;
        packet.timestamp = now;
        packet.flags.remove(flags(Codepoint::Ce).with(flags(Codepoint::Ect1)));
        if self.code.setup.config.ecn {
            packet.flags.insert(flags(ecn));
        }
        true
    }

    /// The QUIC packets in a datagram that was just made.
    pub(super) fn describe(&mut self, load: &Load) -> Vec<PacketFacts> {
        let facts = self.code.call(|connection| connection.describe(load.from, &load.payload));
        facts.unwrap_or_default()
    }

    /// Time at which the timer of an end is due, `now` or later.
    pub(super) fn next_timer(&mut self, now: Time, end: End) -> Time {
        let due = self.code.call(|connection| connection.next_timer(end));
        due.map_or(Time::NEVER, |due| due.max(now))
    }

    /// Handles the alarm of an end, which may be early. Returns true if the timer was due.
    pub(super) fn on_timer(&mut self, now: Time, end: End) -> bool {
        if !self.code.may_act(now) {
            return false;
        }
        let on_timer = |connection: &mut dyn Connection| {
            let due = connection.next_timer(end) <= now;
            if due {
                connection.on_timer(now, end);
            }
            due
        };
        self.code.call(on_timer).unwrap_or(false)
    }

    /// Notes the state of the connection after something happened to its sender.
    pub(super) fn note(&mut self, now: Time) {
        if !self.code.is_there() {
            return;
        }
        let report = self.report();
        self.cwnd.advance(now);
        self.cwnd.bytes = report.cwnd;
        if self.connected.is_none() && report.connected {
            self.connected = Some(now);
        }
        if self.completed.is_none() && report.completed {
            self.completed = Some(now);
        }
        let is_over =
            report.completed || report.failure.is_some() || self.code.given_up().is_some();
        self.code.last = report;
        if self.passes && is_over {
            self.code.forget();
        }
    }

    /// Notes the counts at the end of the warm-up.
    pub(super) fn end_warmup(&mut self, now: Time) {
        self.cwnd.advance(now);
        self.at_warmup = Some(Box::new(Warmup {
            report: self.report(),
            sent: self.sent[End::Sender as usize],
            cwnd_seconds: self.cwnd.sum,
        }));
    }

    /// Bytes of payload in a full packet.
    fn payload(&self) -> u32 {
        self.code.setup.config.payload()
    }

    pub(super) fn snapshot(&self, bottleneck_bytes: u64) -> FlowSnapshot {
        let report = self.report();
        let payload = f64::from(self.payload());
        FlowSnapshot {
            cwnd: report.cwnd as f64 / payload,
            ssthresh: report.ssthresh.map_or(f64::INFINITY, |bytes| bytes as f64 / payload),
            srtt: report.srtt,
            in_flight: report.in_flight.div_ceil(u64::from(self.payload())),
            retransmissions: report.lost,
            delivered_bytes: report.delivered,
            arrived_bytes: report.delivered,
            bottleneck_bytes,
        }
    }

    fn handshake(&self) -> Duration {
        self.connected.map_or(Duration::ZERO, |connected| connected.since(self.started))
    }

    /// Sum and number of the RTT samples after the warm-up.
    pub(super) fn rtts(&self) -> (Duration, u64) {
        let (sum, count) = self.report().rtts;
        let before = self.at_warmup.as_ref().map_or((Duration::ZERO, 0), |b| b.report.rtts);
        (sum - before.0, count.saturating_sub(before.1))
    }

    /// Outcome as one of the transfers between a pair of hosts.
    pub(super) fn transfer_outcome(&self, pair: usize, transfer: Transfer) -> TransferOutcome {
        TransferOutcome {
            flow: pair,
            start: transfer.start,
            bytes: transfer.bytes,
            packets: transfer.bytes.div_ceil(u64::from(self.payload())),
            handshake: self.handshake(),
            completed: self.completed,
            packets_sent: self.sent[End::Sender as usize],
            retransmissions: self.report().lost,
            timeouts: None,
        }
    }

    /// Enters the measurements of this connection into the outcome of its flow, of which `lost`
    /// packets were lost.
    pub(super) fn enter(&mut self, outcome: &mut FlowOutcome, lost: u64, window: Span) {
        self.cwnd.advance(window.until);
        let length = window.seconds();
        let report = self.report();
        let (rtts, samples) = self.rtts();
        let before = self.at_warmup.take().map(|before| *before).unwrap_or_default();
        let sent = self.sent[End::Sender as usize];
        let delivered = report.delivered.saturating_sub(before.report.delivered);
        let cwnd = (self.cwnd.sum - before.cwnd_seconds) / length;
        outcome.protocol = self.code.stack.facts().name.into();
        outcome.goodput_bps = (delivered * 8) as f64 / length;
        outcome.packets_sent = sent.saturating_sub(before.sent);
        outcome.retransmissions = Some(report.lost.saturating_sub(before.report.lost));
        outcome.refused_windows = Some(report.refused_windows);
        outcome.loss_estimate = Some(report.lost as f64 / sent.max(1) as f64);
        outcome.true_loss = lost as f64 / sent.max(1) as f64;
        let rtt = Duration::from_ps(rtts.as_ps() / samples.max(1));
        outcome.mean_rtt_s = Some(rtt.as_secs_f64());
        outcome.mean_cwnd_packets = Some(cwnd / f64::from(self.payload()));
        outcome.handshake = self.handshake();
        outcome.completed = self.completed;
        let failure = self.code.given_up().or(report.failure.as_ref());
        outcome.failure = failure.map(|reason| reason.as_ref().into());
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
    fn codepoints_survive_the_path() {
        for ecn in [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce] {
            assert_eq!(codepoint(flags(ecn)), ecn);
        }
        // A router marks.
        let marked = flags(Codepoint::Ect1).with(Flags::CONGESTION_EXPERIENCED);
        assert_eq!(codepoint(marked), Codepoint::Ce);
    }
}
