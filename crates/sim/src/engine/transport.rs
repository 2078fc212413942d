//! The ends of a connection of this project's protocols: a sender and a receiver.

use std::collections::VecDeque;

use windward_core::endpoint::feedback::{Notification, REPORT_INTERVAL};
use windward_core::endpoint::{EndpointConfig, Receiver, Sender, SenderStats};
use windward_core::packet::Packet;
use windward_core::protocols::Protocol;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};

use super::hop::Span;
use super::schedule::Alarm;
use super::slab::PacketId;
use super::snapshot::FlowSnapshot;
use crate::outcome::{FlowOutcome, TransferOutcome};
use crate::scenario::{FlowConfig, Transfer};

/// A sender and its receiver.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    protocol: &'static str,
    packet_size: u32,
    /// Packets to transfer; `None` if data never runs out.
    packets: Option<u64>,
    completed: Option<Time>,
    pub(super) delays_acks: bool,
    /// True if the receiver may send more than one ACK at once.
    pub(super) multiplies_acks: bool,
    /// Packets in processing, if that takes time.
    pub(super) outbox: Option<Box<Outbox>>,
    /// The timers of the sender and of the receiver.
    pub(super) timers: [Alarm; 2],
    pub(super) notices: Option<Box<Notices>>,
    warmup: Warmup,
}

/// Counts at the end of the warm-up.
#[derive(Debug, Default)]
struct Warmup {
    /// Those of the sender; `None` without a warm-up.
    sender: Option<Box<SenderStats>>,
    /// Unique packets delivered.
    unique: u64,
}

impl Transport {
    pub(super) fn new(
        protocol: &Protocol,
        config: &EndpointConfig,
        packets: Option<u64>,
        spec: &FlowConfig,
        seed: u64,
    ) -> Self {
        let sender = Sender::new(protocol, config, seed, &spec.name);
        Transport {
            notices: sender.notification().map(|notification| {
                Box::new(Notices { notification, reported: vec![None; spec.forward.len()] })
            }),
            sender,
            receiver: Receiver::new(&protocol.feedback, config),
            protocol: protocol.name,
            packet_size: config.packet_size,
            packets,
            completed: None,
            delays_acks: config.delayed_acks.is_some(),
            multiplies_acks: config.receiver.acknowledgments() > 1,
            outbox: (!config.overhead.is_zero()).then(|| {
                Box::new(Outbox {
                    overhead: config.overhead,
                    stream: Stream::new(seed, "overhead", &spec.name),
                    packets: VecDeque::new(),
                })
            }),
            timers: [Alarm::OFF; 2],
            warmup: Warmup::default(),
        }
    }

    /// Lets the application offer all its data from now on, or stop.
    pub(super) fn offer(&mut self, offers: bool) {
        let until = if offers { self.packets.unwrap_or(u64::MAX) } else { 0 };
        self.sender.offer_until(until);
    }

    /// Hands a data packet to the receiver, at a time that may be in the future. Returns true if
    /// `packet` has become an ACK to be sent.
    #[inline]
    pub(super) fn receive(&mut self, at: Time, packet: &mut Packet, window: Span) -> bool {
        let acknowledges = self.receiver.on_data(at, packet);
        if at <= window.from {
            self.warmup.unique = self.receiver.stats().unique;
        }
        acknowledges
    }

    /// Takes the receiver of another thread's copy.
    pub(super) fn take_receiver(&mut self, other: &mut Transport) {
        std::mem::swap(&mut self.receiver, &mut other.receiver);
        self.warmup.unique = other.warmup.unique;
    }

    /// Notes when a transfer of fixed size is acknowledged in full.
    #[inline]
    pub(super) fn note_completion(&mut self, now: Time) {
        if self.completed.is_none() && self.sender.is_done() {
            self.completed = self.packets.map(|_| now);
        }
    }

    pub(super) fn end_warmup(&mut self, now: Time) {
        if now > Time::ZERO {
            self.warmup.sender = Some(Box::new(self.sender.stats(now)));
        }
    }

    pub(super) fn snapshot(&self, bottleneck_bytes: u64) -> FlowSnapshot {
        let stats = self.receiver.stats();
        let bytes = |packets: u64| packets * u64::from(self.packet_size);
        FlowSnapshot {
            cwnd: self.sender.cwnd(),
            ssthresh: self.sender.ssthresh(),
            srtt: self.sender.rtt().srtt(),
            in_flight: self.sender.in_flight(),
            retransmissions: self.sender.retransmissions(),
            delivered_bytes: bytes(stats.unique),
            arrived_bytes: bytes(stats.unique + stats.duplicates),
            bottleneck_bytes,
        }
    }

    /// Counts at the end of the warm-up and at the end of the run.
    fn stats(&mut self, window: Span) -> (SenderStats, SenderStats) {
        let before = self.warmup.sender.as_deref().copied().unwrap_or_default();
        (before, self.sender.stats(window.until))
    }

    /// Sum and number of the RTT samples after the warm-up.
    pub(super) fn rtts(&mut self, window: Span) -> (Duration, u64) {
        let (before, after) = self.stats(window);
        (after.rtt_sum - before.rtt_sum, after.rtt_samples - before.rtt_samples)
    }

    /// Outcome as one of the transfers between a pair of hosts.
    pub(super) fn transfer_outcome(
        &mut self,
        pair: usize,
        transfer: Transfer,
        window: Span,
    ) -> TransferOutcome {
        let (_, after) = self.stats(window);
        TransferOutcome {
            flow: pair,
            start: transfer.start,
            bytes: transfer.bytes,
            packets: self.packets.unwrap_or(0),
            handshake: Duration::ZERO,
            completed: self.completed,
            packets_sent: after.sent,
            retransmissions: after.retransmissions,
            timeouts: Some(after.timeouts),
        }
    }

    /// Enters the measurements of these ends into the outcome of their flow, of which `lost`
    /// packets were lost.
    pub(super) fn enter(&mut self, outcome: &mut FlowOutcome, lost: u64, window: Span) {
        let (before, after) = self.stats(window);
        let unique = self.receiver.stats().unique - self.warmup.unique;
        let (rtts, samples) = self.rtts(window);
        outcome.protocol = self.protocol.into();
        outcome.goodput_bps = (unique * u64::from(self.packet_size) * 8) as f64 / window.seconds();
        outcome.packets_sent = after.sent - before.sent;
        outcome.retransmissions = Some(after.retransmissions - before.retransmissions);
        outcome.timeouts = Some(after.timeouts - before.timeouts);
        outcome.refused_windows = Some(self.sender.refused_windows());
        outcome.loss_estimate = Some(self.sender.loss_rate().estimate());
        outcome.true_loss = lost as f64 / after.sent.max(1) as f64;
        let rtt = Duration::from_ps(rtts.as_ps() / samples.max(1));
        outcome.mean_rtt_s = Some(rtt.as_secs_f64());
        let cwnd = (after.cwnd_seconds - before.cwnd_seconds) / window.seconds();
        outcome.mean_cwnd_packets = Some(cwnd);
        outcome.completed = self.completed;
    }
}

/// Notices that a flow may get from notifiers.
#[derive(Debug)]
pub(super) struct Notices {
    pub(super) notification: Notification,
    /// Time at which each link of the forward route last reported its rate out of band.
    reported: Vec<Option<Time>>,
}

impl Notices {
    /// Returns true if a report of the link at this place of the route is due at `at`, and notes
    /// that it is made.
    pub(super) fn report_is_due(&mut self, place: usize, at: Time) -> bool {
        let due = self.reported[place].is_none_or(|last| at.since(last) >= REPORT_INTERVAL);
        if due {
            self.reported[place] = Some(at);
        }
        due
    }
}

/// Packets in processing at their sender, in order; see `EndpointConfig::overhead`.
#[derive(Debug)]
pub(super) struct Outbox {
    overhead: Duration,
    stream: Stream,
    packets: VecDeque<(Time, PacketId)>,
}

impl Outbox {
    /// Takes a packet in. Returns the time of its release if it is the first to leave.
    pub(super) fn post(&mut self, now: Time, id: PacketId) -> Option<Time> {
        let processed = now + self.stream.between(Duration::ZERO, self.overhead);
        let last = self.packets.back().map_or(Time::ZERO, |last| last.0);
        let release = processed.max(last);
        self.packets.push_back((release, id));
        (self.packets.len() == 1).then_some(release)
    }

    /// Releases the first packet. Returns it and when the next one leaves.
    pub(super) fn release(&mut self) -> Option<(PacketId, Option<Time>)> {
        let (_, id) = self.packets.pop_front()?;
        Some((id, self.packets.front().map(|(next, _)| *next)))
    }
}
