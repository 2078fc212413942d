//! The ends of a flow of datagrams: a source, and counts of arrivals.

use windward_core::packet::{Packet, PacketKind};
use windward_core::units::{Duration, Time};

use super::hop::Span;
use super::source::Source;
use crate::outcome::FlowOutcome;

/// A source of datagrams and its far end.
#[derive(Debug)]
pub(super) struct Datagrams {
    source: Source,
    arrived: u64,
    /// Datagrams sent and arrived at the end of the warm-up.
    at_warmup: (u64, u64),
    /// Lost datagrams of those sent after the warm-up.
    lost: u64,
    /// Sum of the one-way delays of datagrams that arrived after the warm-up, picoseconds.
    delays: u128,
    /// Bytes that arrived after the warm-up.
    bytes: u64,
}

impl Datagrams {
    pub(super) fn new(source: Source) -> Self {
        Datagrams { source, arrived: 0, at_warmup: (0, 0), lost: 0, delays: 0, bytes: 0 }
    }

    /// Time at which the next datagram leaves; [`Time::NEVER`] after the last.
    pub(super) fn next(&self) -> Time {
        self.source.next()
    }

    /// Makes the datagram that leaves now.
    pub(super) fn emit(&mut self, now: Time, window: Span) -> Packet {
        let mut packet = Packet { kind: PacketKind::Datagram, timestamp: now, ..Packet::default() };
        self.source.emit(&mut packet, window);
        packet
    }

    /// Takes a datagram at the far end. Returns its one-way delay if it is to be counted.
    pub(super) fn receive(&mut self, now: Time, packet: &Packet, window: Span) -> Option<Duration> {
        self.arrived += 1;
        if let Some(encoder) = self.source.encoder_mut() {
            encoder.on_arrival(now, packet, window);
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
        if let Some(encoder) = self.source.encoder_mut() {
            encoder.on_loss(packet);
        }
    }

    pub(super) fn end_warmup(&mut self) {
        self.at_warmup = (self.source.sent, self.arrived);
    }

    /// Enters the measurements of these ends into the outcome of their flow, of which `lost`
    /// packets were lost.
    pub(super) fn enter(&self, outcome: &mut FlowOutcome, lost: u64, window: Span) {
        let (sent_before, arrived_before) = self.at_warmup;
        let sent = self.source.sent;
        let arrived = u128::from((self.arrived - arrived_before).max(1));
        outcome.protocol = "datagrams".into();
        outcome.goodput_bps = self.bytes as f64 * 8.0 / window.seconds();
        outcome.packets_sent = sent - sent_before;
        outcome.true_loss = lost as f64 / sent.max(1) as f64;
        let delay = Duration::from_ps((self.delays / arrived) as u64);
        outcome.mean_delay_s = Some(delay.as_secs_f64());
        outcome.datagrams_lost = Some(self.lost);
        if let Some(encoder) = self.source.encoder() {
            encoder.measure(outcome);
        }
    }
}
