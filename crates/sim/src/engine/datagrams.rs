//! The ends of a flow of datagrams: a source, and counts of arrivals.

use windward_core::packet::{Packet, PacketKind};
use windward_core::units::{Duration, Time};

use super::adaptive::Adaptive;
use super::hop::Span;
use super::source::Source;
use crate::outcome::FlowOutcome;

/// A source of datagrams and its far end.
#[derive(Debug)]
pub(super) struct Datagrams {
    /// Name of the protocol in results.
    name: &'static str,
    source: Source,
    /// The adaptation of media that adapts.
    pub(super) adaptive: Option<Box<Adaptive>>,
    arrived: u64,
    /// Datagrams sent and arrived at the end of the warm-up.
    at_warmup: (u64, u64),
    /// Lost datagrams of those sent after the warm-up.
    pub(super) lost: u64,
    /// Sum of the one-way delays of datagrams that arrived after the warm-up, picoseconds.
    delays: u128,
    /// Bytes that arrived after the warm-up.
    bytes: u64,
}

impl Datagrams {
    pub(super) fn new(name: &'static str, source: Source, adaptive: Option<Box<Adaptive>>) -> Self {
        let (arrived, lost, delays, bytes) = (0, 0, 0, 0);
        Datagrams { name, source, adaptive, arrived, at_warmup: (0, 0), lost, delays, bytes }
    }

    /// Time from `now` on at which [`Datagrams::emit`] must be called; [`Time::NEVER`] after the
    /// last datagram.
    pub(super) fn next(&self, now: Time) -> Time {
        let adaptive = self.adaptive.as_ref();
        adaptive.map_or(self.source.next(), |adaptive| adaptive.next(&self.source, now))
    }

    /// Datagrams that have left.
    fn sent(&self) -> u64 {
        self.adaptive.as_ref().map_or(self.source.sent, |adaptive| adaptive.sent)
    }

    /// Makes the datagram that leaves now, if one does.
    pub(super) fn emit(&mut self, now: Time, window: Span) -> Option<Packet> {
        if let Some(adaptive) = &mut self.adaptive {
            return adaptive.emit(&mut self.source, now, window);
        }
        let mut packet = Packet { kind: PacketKind::Datagram, timestamp: now, ..Packet::default() };
        self.source.emit(&mut packet, window);
        Some(packet)
    }

    /// Time at which the frame of a packet was made.
    fn made(&self, packet: &Packet) -> Time {
        self.adaptive.as_ref().map_or(packet.timestamp, |adaptive| adaptive.made(packet))
    }

    /// Takes a datagram at the far end. Returns its one-way delay if it is to be counted.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet, window: Span) -> Option<Duration> {
        self.arrived += 1;
        let made = self.made(packet);
        if let Some(encoder) = self.source.encoder_mut() {
            encoder.on_arrival(now, packet, made, window);
        }
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.receive(now, packet);
        }
        window.counts(now).then(|| {
            let delay = now.since(packet.timestamp);
            self.delays += u128::from(delay.as_ps());
            self.bytes += u64::from(packet.size);
            delay
        })
    }

    /// Counts a datagram that was dropped or destroyed.
    pub(super) fn lose(&mut self, packet: &Packet, window: Span) {
        self.lost += u64::from(window.counts(packet.timestamp));
        let made = self.made(packet);
        if let Some(encoder) = self.source.encoder_mut() {
            encoder.on_loss(made);
        }
    }

    /// Takes the counts of arrivals of another thread's copy.
    pub(super) fn take_receiver(&mut self, other: &mut Datagrams) {
        (self.arrived, self.at_warmup.1) = (other.arrived, other.at_warmup.1);
        (self.delays, self.bytes) = (other.delays, other.bytes);
    }

    pub(super) fn end_warmup(&mut self) {
        self.at_warmup = (self.sent(), self.arrived);
    }

    /// Enters the measurements of these ends into the outcome of their flow, of which `lost`
    /// packets were lost.
    pub(super) fn enter(&self, outcome: &mut FlowOutcome, lost: u64, window: Span) {
        let (sent_before, arrived_before) = self.at_warmup;
        let sent = self.sent();
        let arrived = u128::from((self.arrived - arrived_before).max(1));
        outcome.protocol = self.name.into();
        outcome.goodput_bps = self.bytes as f64 * 8.0 / window.seconds();
        outcome.packets_sent = sent - sent_before;
        outcome.true_loss = lost as f64 / sent.max(1) as f64;
        let delay = Duration::from_ps((self.delays / arrived) as u64);
        outcome.mean_delay_s = Some(delay.as_secs_f64());
        outcome.datagrams_lost = Some(self.lost);
        if let Some(encoder) = self.source.encoder() {
            encoder.measure(outcome);
        }
        if let Some(adaptive) = &self.adaptive {
            adaptive.measure(outcome, window);
        }
    }
}
