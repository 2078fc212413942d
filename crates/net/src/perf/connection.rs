//! One connection of a test, at either end: a sender or a receiver of the core, and what makes its packets datagrams.

use std::net::{IpAddr, SocketAddr};

use quinn_udp::EcnCodepoint;
use windward_core::endpoint::{EndpointConfig, Receiver, Sender};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::protocols::Protocol;
use windward_core::units::{Duration, Time};
use windward_core::wire;

use super::frame::{Counts, Kind, SESSION_LEN, Test};
use super::keys::{MAC_LEN, ReplayWindow, SessionKeys};
use super::socket::{Outbox, ecn_of, flags_of};

/// Receiver window, packets: 75 MB of 1200 bytes, or 1 Gbit/s over 600 ms. It bounds what a peer makes either side remember.
const WINDOW: u64 = 1 << 16;
/// The most datagrams of data that are made ready at once: as many as the kernel segments by one call.
const BURST: usize = 54;
/// Numbers of datagrams end here, long before they could repeat.
const MAX_NUMBER: u64 = 1 << 62;
/// The flags that routers change, which are not authenticated.
const MUTABLE_FLAGS: Flags = Flags::CONGESTION.with(Flags::CORRUPTED);

/// Bytes of the headers of IP and UDP before a datagram to this address.
pub(super) fn overhead(to: SocketAddr) -> u32 {
    match to.ip().to_canonical() {
        IpAddr::V4(_) => 20 + 8,
        IpAddr::V6(_) => 40 + 8,
    }
}

/// The endpoints of a test: those of Linux as far as they have an equivalent, on a clock without ticks, and each packet is
/// acknowledged: laws that go by delays would take the time that an acknowledgment is held back for a queue.
pub(super) fn endpoint_config(test: &Test, to: SocketAddr) -> EndpointConfig {
    EndpointConfig {
        packet_size: u32::from(test.datagram) + overhead(to),
        // Without a congestion header and SACK blocks.
        ack_size: (wire::FIXED + 8 + SESSION_LEN) as u32 + overhead(to),
        rwnd: WINDOW,
        clock_granularity: Duration::from_micros(1),
        ecn: test.ecn,
        pacing: test.pacing,
        delayed_acks: None,
        ..EndpointConfig::default().linux()
    }
}

/// Packets of a test that is limited by bytes.
pub(super) fn packets_of(test: &Test) -> Option<u64> {
    (test.bytes > 0).then(|| test.bytes.div_ceil(u64::from(test.datagram)))
}

/// What can be read of a datagram of a connection before it is known to be authentic.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) kind: Kind,
    pub(super) connection: u64,
    number: u64,
    /// Of data and of acknowledgments.
    packet: Packet,
    /// Where the connection stands.
    at: usize,
}

impl Envelope {
    pub(super) fn read(bytes: &[u8]) -> Option<Envelope> {
        let kind = Kind::of(bytes)?;
        let (packet, at) = match kind {
            Kind::Data | Kind::Ack => wire::decode(bytes).ok()?,
            Kind::Start | Kind::End | Kind::Result if bytes.get(3) == Some(&0) => {
                (Packet::default(), 4)
            }
            _ => return None,
        };
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (connection, number) = (word(at)?, word(at + 8)?);
        (number < MAX_NUMBER).then_some(Envelope { kind, connection, number, packet, at })
    }

    /// Where the congestion header ends, which begins behind the fixed part of a packet.
    fn header_end(&self) -> usize {
        header_end(&self.packet, self.at)
    }
}

fn header_end(packet: &Packet, length: usize) -> usize {
    match packet.kind {
        PacketKind::Ack => length - 8 - 16 * packet.sack_blocks().len(),
        _ => length,
    }
}

/// Does something with the bytes of a packet as they are authenticated: with zeros where routers write.
fn masked<T>(bytes: &mut [u8], header_end: usize, with: impl FnOnce(&[u8]) -> T) -> T {
    if header_end <= 4 {
        return with(bytes); // No packet.
    }
    let mut saved = [0; wire::FIXED + wire::MAX_HEADER];
    let saved = &mut saved[..header_end];
    saved.copy_from_slice(&bytes[..header_end]);
    let mask = MUTABLE_FLAGS.bits().to_be_bytes();
    bytes[4] &= !mask[0];
    bytes[5] &= !mask[1];
    bytes[wire::FIXED..header_end].fill(0);
    let result = with(bytes);
    bytes[..header_end].copy_from_slice(saved);
    result
}

/// What a connection does.
#[derive(Debug)]
enum Half {
    Sends(Box<Sending>),
    Receives(Box<Receiving>),
}

#[derive(Debug)]
struct Sending {
    sender: Sender,
    /// The highest number of a transmission so far.
    newest: u64,
    /// Those in the outbox.
    leaving: Vec<Packet>,
}

#[derive(Debug)]
struct Receiving {
    receiver: Receiver,
    /// The next packet expected, as far as it has said.
    next: u64,
    /// When the first data arrived.
    first: Option<Time>,
}

/// What a datagram was to a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Received {
    /// Not one of its datagrams.
    Nothing,
    /// Data or an acknowledgment.
    Packet,
    /// A datagram of this kind, with counts if the kind has some.
    Control(Kind, Option<Counts>),
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    pub(super) peer: SocketAddr,
    keys: Option<SessionKeys>,
    number: u64,
    replay: ReplayWindow,
    start: Time,
    /// When something authentic arrived last.
    pub(super) heard: Time,
    datagram: usize,
    half: Half,
    counts: Counts,
}

/// What an observer sees of a connection at an instant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Packets delivered so far: acknowledged in order, or arrived for the first time.
    pub delivered: u64,
    /// Data packets sent again so far.
    pub retransmissions: u64,
    /// The congestion window, packets, as far as the receiver window lets it count; 0 at a receiver, as the next.
    pub cwnd: f64,
    /// Smoothed RTT, seconds; 0 before the first sample.
    pub srtt_s: f64,
}

impl Connection {
    /// A connection whose clock starts now, of which this end sends the data or receives it.
    pub(super) fn new(
        now: Time,
        (id, peer, keys): (u64, SocketAddr, Option<SessionKeys>),
        protocol: &Protocol,
        test: &Test,
        sends: bool,
    ) -> Self {
        let config = endpoint_config(test, peer);
        let half = if sends {
            let mut sender = Sender::new(protocol, &config, id, "perf");
            sender.offer_until(packets_of(test).unwrap_or(u64::MAX));
            Half::Sends(Box::new(Sending { sender, newest: 0, leaving: Vec::new() }))
        } else {
            let receiver = Receiver::new(&protocol.feedback, &config);
            Half::Receives(Box::new(Receiving { receiver, next: 0, first: None }))
        };
        Connection {
            id,
            peer,
            keys,
            number: 0,
            replay: ReplayWindow::default(),
            start: now,
            heard: now,
            datagram: usize::from(test.datagram),
            half,
            counts: Counts::default(),
        }
    }

    /// The clock of the connection starts again: nothing has been sent yet.
    pub(super) fn restart(&mut self, now: Time) {
        self.start = now;
        self.heard = now;
    }

    fn local(&self, now: Time) -> Time {
        Time::ZERO + now.since(self.start)
    }

    fn global(&self, local: Time) -> Time {
        if local == Time::NEVER { Time::NEVER } else { self.start + local.since(Time::ZERO) }
    }

    /// Takes in a datagram; what answers it goes into the outbox.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        envelope: Envelope,
        bytes: &mut [u8],
        outbox: &mut Outbox,
    ) -> Received {
        let Some(body_end) = self.authenticate(&envelope, from, bytes) else {
            self.counts.invalid += 1;
            return Received::Nothing;
        };
        if !self.replay.accept(envelope.number) {
            self.counts.replayed += 1;
            return Received::Nothing;
        }
        self.heard = now;
        let Envelope { kind, mut packet, at, .. } = envelope;
        match (kind, &self.half) {
            (Kind::Data, Half::Receives(_)) => {
                packet.size = bytes.len() as u32 + overhead(self.peer);
                packet.flags.insert(flags_of(ecn));
                self.on_data(now, &mut packet, outbox);
                Received::Packet
            }
            (Kind::Ack, Half::Sends(_)) => {
                self.on_ack(now, &packet);
                Received::Packet
            }
            (Kind::Data | Kind::Ack, _) => {
                self.counts.invalid += 1;
                Received::Nothing
            }
            (kind, _) => {
                let counts = Counts::decode(&bytes[at + SESSION_LEN..body_end]);
                Received::Control(kind, counts)
            }
        }
    }

    /// Where the body of a datagram ends that is from the peer.
    fn authenticate(
        &self,
        envelope: &Envelope,
        from: SocketAddr,
        bytes: &mut [u8],
    ) -> Option<usize> {
        if envelope.connection != self.id || from != self.peer {
            return None;
        }
        let Some(keys) = &self.keys else { return Some(bytes.len()) };
        let (bytes, tag) = bytes.split_last_chunk_mut::<MAC_LEN>()?;
        if bytes.len() < envelope.at + SESSION_LEN {
            return None;
        }
        let end = envelope.header_end();
        let is_authentic = masked(bytes, end, |bytes| keys.knows(envelope.number, bytes, tag));
        is_authentic.then_some(bytes.len())
    }

    fn on_data(&mut self, now: Time, packet: &mut Packet, outbox: &mut Outbox) {
        let local = self.local(now);
        let Half::Receives(receiving) = &mut self.half else { return };
        // A sender that keeps to the window sends nothing beyond: what does would only fill memory.
        if packet.seq >= receiving.next + WINDOW {
            self.counts.invalid += 1;
            return;
        }
        self.counts.marked += u64::from(packet.flags.contains(Flags::CONGESTION_EXPERIENCED));
        receiving.first.get_or_insert(local);
        if receiving.receiver.on_data(local, packet) {
            receiving.next = packet.seq;
            self.push_packet(packet, 0, outbox);
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Packet) {
        let local = self.local(now);
        let Half::Sends(sending) = &mut self.half else { return };
        // Nothing may be acknowledged that was never sent, or be sent in the future.
        let high = sending.sender.sequences().high;
        let is_sane = ack.seq <= high
            && ack.trigger_seq < high
            && (1..=sending.newest).contains(&ack.packet_seq)
            && ack.timestamp <= local
            && ack.sack_blocks().iter().all(|b| b.end <= high && b.end - b.start <= WINDOW);
        if !is_sane {
            self.counts.invalid += 1;
            return;
        }
        sending.sender.on_ack(local, ack);
    }

    /// Appends a packet as a datagram of at least `length` bytes.
    fn push_packet(&mut self, packet: &Packet, length: usize, outbox: &mut Outbox) {
        let mut head = [0; wire::MAX + SESSION_LEN];
        // There is room for every packet, and neither half has a datagram.
        let Some(at) = wire::encode(packet, &mut head) else { return };
        head[at..at + 8].copy_from_slice(&self.id.to_be_bytes());
        head[at + 8..at + 16].copy_from_slice(&self.number.to_be_bytes());
        let head = &head[..at + SESSION_LEN];
        let tag = self.keys.as_ref().map_or(0, |_| MAC_LEN);
        let (end, length) = (header_end(packet, at), length.max(head.len() + tag));
        self.push(ecn_of(packet.flags), length, head, end, outbox);
    }

    /// Appends a datagram that is no packet.
    pub(super) fn push_control(
        &mut self,
        kind: Kind,
        counts: Option<&Counts>,
        outbox: &mut Outbox,
    ) {
        let mut head = Vec::with_capacity(4 + SESSION_LEN + Counts::LEN);
        head.extend_from_slice(&kind.prefix());
        head.extend_from_slice(&self.id.to_be_bytes());
        head.extend_from_slice(&self.number.to_be_bytes());
        if let Some(counts) = counts {
            counts.encode(&mut head);
        }
        let tag = self.keys.as_ref().map_or(0, |_| MAC_LEN);
        self.push(None, head.len() + tag, &head, 0, outbox);
    }

    fn push(
        &mut self,
        ecn: Option<EcnCodepoint>,
        length: usize,
        head: &[u8],
        header_end: usize,
        outbox: &mut Outbox,
    ) {
        let (number, keys) = (self.number, &self.keys);
        self.number += 1;
        outbox.push(self.peer, ecn, length, |bytes| {
            bytes[..head.len()].copy_from_slice(head);
            if let Some(keys) = keys
                && let Some((bytes, tag)) = bytes.split_last_chunk_mut::<MAC_LEN>()
                && let Some(made) = masked(bytes, header_end, |bytes| keys.tag(number, bytes))
            {
                *tag = made;
            }
        });
    }

    /// Makes ready what may be sent now, into an empty outbox; true if there may be more. [`Connection::sent`] must follow.
    pub(super) fn transmit(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        let local = self.local(now);
        let Half::Sends(sending) = &mut self.half else { return false };
        let mut leaving = std::mem::take(&mut sending.leaving);
        leaving.clear();
        let mut packet = Packet::default();
        let burst = BURST.min((65_000 / self.datagram).max(1));
        while leaving.len() < burst && self.number < MAX_NUMBER {
            let Half::Sends(sending) = &mut self.half else { break };
            if !sending.sender.poll_transmit(local, &mut packet) {
                break;
            }
            sending.newest = sending.newest.max(packet.packet_seq);
            self.push_packet(&packet, self.datagram, outbox);
            leaving.push(packet.clone());
        }
        let more = leaving.len() == burst;
        if let Half::Sends(sending) = &mut self.half {
            sending.leaving = leaving;
        }
        more
    }

    /// The socket took so many of what [`Connection::transmit`] made ready: the rest will be sent before anything else.
    pub(super) fn sent(&mut self, count: usize) {
        let Half::Sends(sending) = &mut self.half else { return };
        for packet in sending.leaving.drain(..).skip(count) {
            self.counts.given_back += 1;
            sending.sender.unsent(&packet);
        }
    }

    /// When [`Connection::on_timer`] must be called next.
    pub(super) fn next_timer(&self) -> Time {
        self.global(match &self.half {
            Half::Sends(sending) => sending.sender.next_timer(),
            Half::Receives(receiving) => receiving.receiver.next_timer(),
        })
    }

    /// Lets timers that are due expire.
    pub(super) fn on_timer(&mut self, now: Time, outbox: &mut Outbox) {
        let local = self.local(now);
        match &mut self.half {
            Half::Sends(sending) => {
                if sending.sender.next_timer() <= local {
                    sending.sender.on_timer(local);
                }
            }
            Half::Receives(receiving) => {
                let mut ack = Packet::default();
                if receiving.receiver.next_timer() <= local
                    && receiving.receiver.on_timer(local, &mut ack)
                {
                    receiving.next = ack.seq;
                    self.push_packet(&ack, 0, outbox);
                }
            }
        }
    }

    pub(super) fn sends(&self) -> bool {
        matches!(self.half, Half::Sends(_))
    }

    /// Has the sender delivered all that it had?
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.half, Half::Sends(sending) if sending.sender.is_done())
    }

    pub(super) fn counts(&mut self, now: Time) -> Counts {
        let local = self.local(now);
        let mut counts = self.counts;
        counts.seconds = local.as_secs_f64();
        match &mut self.half {
            Half::Sends(sending) => {
                let stats = sending.sender.stats(local);
                counts.sent = stats.sent;
                counts.retransmissions = stats.retransmissions;
                counts.timeouts = stats.timeouts;
                counts.rtt_samples = stats.rtt_samples;
                counts.rtt_sum_s = stats.rtt_sum.as_secs_f64();
                counts.cwnd_seconds = stats.cwnd_seconds.min(WINDOW as f64 * counts.seconds);
            }
            Half::Receives(receiving) => {
                let stats = receiving.receiver.stats();
                counts.seconds = local.since(receiving.first.unwrap_or(local)).as_secs_f64();
                counts.unique = stats.unique;
                counts.duplicates = stats.duplicates;
            }
        }
        counts
    }

    pub(super) fn sample(&mut self, now: Time) -> Sample {
        let local = self.local(now);
        match &mut self.half {
            Half::Sends(sending) => Sample {
                delivered: sending.sender.sequences().una,
                retransmissions: sending.sender.stats(local).retransmissions,
                cwnd: sending.sender.cwnd().min(WINDOW as f64),
                srtt_s: sending.sender.rtt().srtt().as_secs_f64(),
            },
            Half::Receives(receiving) => {
                Sample { delivered: receiving.receiver.stats().unique, ..Sample::default() }
            }
        }
    }
}
