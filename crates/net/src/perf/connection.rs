//! One connection of a test, at either end: a sender or a receiver of the core, and the datagrams
//! of its packets.

use std::net::SocketAddr;

use quinn_udp::EcnCodepoint;
use windward_core::endpoint::{Receiver, Sender};
use windward_core::packet::{Flags, Packet, PacketKind};
use windward_core::units::{Duration, Time};
use windward_core::wire;
use windward_sim::Observer;

use super::frame::{Counts, FrameKind, SESSION_LEN, Sample};
use super::guard::{Guard, Limits};
use super::keys::{MAC_LEN, NoRandomness, ReplayWindow, SessionKeys, random};
use super::plan::{DATAGRAM, MAX_RWND, Plan, Test, overhead};
use super::socket::{Outbox, ecn_of, flags_of};
use super::{MAX_SILENCE, PATIENCE};

/// Largest number of datagrams that are prepared at once: as many as the kernel segments by one
/// call.
const BURST: usize = 54;
/// Shortest data: 20 bytes may be lost between IPv6 and IPv4.
const SHORTEST: usize = *DATAGRAM.start() as usize - 20;
/// Largest number of a datagram, long before numbers could repeat.
const MAX_NUMBER: u64 = 1 << 62;
/// The flags that routers change, which are not authenticated.
const MUTABLE_FLAGS: Flags = Flags::CONGESTION.with(Flags::CORRUPTED);
/// The longest authenticated part of a datagram, bytes: of a packet, or of counts.
const MAX_AUTHENTIC: usize = if wire::MAX > 4 + Counts::LEN { wire::MAX } else { 4 + Counts::LEN };

/// Fields of a datagram that are read before it is authenticated.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) kind: FrameKind,
    pub(super) connection: u64,
    number: u64,
    /// The packet, for data and ACKs.
    packet: Packet,
    /// Position of the number of the connection.
    at: usize,
}

impl Envelope {
    pub(super) fn read(bytes: &[u8]) -> Option<Envelope> {
        let kind = FrameKind::of(bytes)?;
        let (packet, at) = match kind {
            FrameKind::Data | FrameKind::Ack => wire::decode(bytes).ok()?,
            FrameKind::Start | FrameKind::End | FrameKind::Result | FrameKind::Report
                if bytes.get(3) == Some(&0) =>
            {
                (Packet::default(), 4)
            }
            _ => return None,
        };
        let word = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let (connection, number) = (word(at)?, word(at + 8)?);
        (number < MAX_NUMBER).then_some(Envelope { kind, connection, number, packet, at })
    }

    /// End of the congestion header, which begins behind the fixed part of a packet.
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

/// Authenticated bytes of a datagram of `length` bytes: all of `head`, with zeros where routers
/// write, and the length. The bytes after the head must be zeros.
fn authentic<T>(
    head: &[u8],
    header_end: usize,
    length: usize,
    with: impl FnOnce(&[u8]) -> T,
) -> Option<T> {
    let mut bytes = [0; MAX_AUTHENTIC + SESSION_LEN + 2];
    let end = head.len();
    bytes.get_mut(..end)?.copy_from_slice(head);
    if header_end > 4 {
        let mask = MUTABLE_FLAGS.bits().to_be_bytes();
        bytes[4] &= !mask[0];
        bytes[5] &= !mask[1];
        bytes[wire::FIXED..header_end].fill(0);
    }
    bytes.get_mut(end..end + 2)?.copy_from_slice(&u16::try_from(length).ok()?.to_be_bytes());
    Some(with(&bytes[..end + 2]))
}

/// Role of a connection.
#[derive(Debug)]
enum Half {
    Sends(Box<Sending>),
    Receives(Box<Receiving>),
}

#[derive(Debug)]
struct Sending {
    sender: Sender,
    guard: Guard,
    /// Packets in the outbox.
    leaving: Vec<Packet>,
    /// Packets that went back to the sender, unsent.
    unsent: u64,
}

impl Sending {
    fn sample(&mut self, local: Time) -> Sample {
        let stats = self.sender.stats(local);
        Sample {
            delivered: self.sender.sequences().una,
            sent: stats.sent - self.unsent,
            retransmissions: stats.retransmissions,
            in_flight: self.sender.in_flight(),
            cwnd: self.sender.cwnd().min(MAX_RWND as f64),
            ssthresh: self.sender.ssthresh(),
            srtt_s: self.sender.rtt().srtt().as_secs_f64(),
            rtt_samples: stats.rtt_samples,
            rtt_sum_s: stats.rtt_sum.as_secs_f64(),
        }
    }
}

/// State of the path of the data, as far as one end knows it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct PathState {
    /// Data packets sent that have not arrived so far; `None` at the sender.
    pub(super) missing: Option<u64>,
    /// Smoothed delay of the way of the data above the lowest, seconds; `None` at the sender and
    /// before the first packet.
    pub(super) queueing_delay_s: Option<f64>,
    /// Lowest RTT, seconds; `None` at the receiver and before the first sample.
    pub(super) min_rtt_s: Option<f64>,
}

/// Delay of data on its way. The clocks of the two ends differ by a constant, so it counts from
/// that of the first packet.
#[derive(Debug, Clone, Copy)]
struct OneWay {
    /// Arrival minus time stamp of the first packet, ps, modulo 2^64.
    origin: u64,
    least_s: f64,
    /// Smoothed as the RTT is (RFC 6298 section 2.3).
    smoothed_s: f64,
}

impl OneWay {
    fn first(arrival: Time, stamp: Time) -> Self {
        let origin = arrival.as_ps().wrapping_sub(stamp.as_ps());
        OneWay { origin, least_s: 0.0, smoothed_s: 0.0 }
    }

    /// A packet arrived. A peer may write any time stamp.
    fn on_arrival(&mut self, arrival: Time, stamp: Time) {
        let delay = arrival.as_ps().wrapping_sub(stamp.as_ps()).wrapping_sub(self.origin);
        let delay_s = delay.cast_signed() as f64 * 1e-12;
        self.least_s = self.least_s.min(delay_s);
        self.smoothed_s += (delay_s - self.smoothed_s) / 8.0;
    }

    fn queueing_s(&self) -> f64 {
        self.smoothed_s - self.least_s
    }
}

#[derive(Debug)]
struct Receiving {
    receiver: Receiver,
    /// The next packet expected, as acknowledged so far.
    next: u64,
    /// Arrival of the first data.
    first: Option<Time>,
    /// Latest arrival of new data.
    advanced: Time,
    /// Time after the first data for which arrivals count.
    length: Duration,
    /// Counts of arrivals by then.
    counted: Option<u64>,
    /// The latest counts of the sender.
    told: Sample,
    /// Data packets that have arrived, and the highest number of a transmission among them.
    arrived: u64,
    highest: u64,
    way: Option<OneWay>,
}

/// Kind of a received datagram.
#[derive(Debug, PartialEq)]
pub(super) enum Received {
    /// It does not belong to the connection.
    Nothing,
    /// Data or an acknowledgment.
    Packet,
    /// A datagram of this kind, with counts if the kind has some.
    Control(FrameKind, Option<Box<Counts>>),
}

/// Numbers of the datagrams of a connection, and their authentication.
#[derive(Debug)]
struct Numbers {
    keys: Option<SessionKeys>,
    /// Number of the latest datagram sent.
    sent: u64,
    received: ReplayWindow,
}

/// Sizes that both ends have agreed on.
#[derive(Debug)]
struct Sizes {
    /// UDP payload of data, and the least of ACKs, bytes.
    datagram: usize,
    ack: usize,
    /// Receiver window, packets.
    rwnd: u64,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    pub(super) peer: SocketAddr,
    numbers: Numbers,
    start: Time,
    /// Latest arrival of an authentic datagram.
    pub(super) heard: Time,
    sizes: Sizes,
    half: Half,
    counts: Counts,
    /// Offset of the time stamps of data from this end's clock, picoseconds, so that only a peer
    /// that has received data knows the time stamp of any.
    stamp: u64,
    /// Observer of each packet, and the index of the flow.
    observer: Option<(usize, Box<dyn Observer>)>,
}

impl Connection {
    /// A connection whose clock starts now, of which this end sends the data or receives it.
    ///
    /// # Errors
    /// If packets of that size cannot go to the peer.
    pub(super) fn new(
        now: Time,
        (id, peer, keys): (u64, SocketAddr, Option<SessionKeys>),
        plan: &Plan,
        test: &Test,
        sends: bool,
    ) -> Result<Self, String> {
        let (protocol, config) = (&*plan.protocol, &*plan.config);
        let half = if sends {
            let mut sender = Sender::new(protocol, config, id, "perf");
            sender.offer_until(if test.packets > 0 { test.packets } else { u64::MAX });
            let guard = Guard::new();
            Half::Sends(Box::new(Sending { sender, guard, leaving: Vec::new(), unsent: 0 }))
        } else {
            Half::Receives(Box::new(Receiving {
                receiver: Receiver::new(&protocol.feedback, config),
                next: 0,
                first: None,
                advanced: Time::ZERO,
                length: Duration::from_secs(test.seconds.into()),
                counted: None,
                told: Sample::default(),
                arrived: 0,
                highest: 0,
                way: None,
            }))
        };
        Ok(Connection {
            id,
            peer,
            numbers: Numbers { keys, sent: 0, received: ReplayWindow::new() },
            start: now,
            heard: now,
            sizes: Sizes {
                datagram: plan.datagram(peer)?,
                ack: config.ack_size.saturating_sub(overhead(peer)) as usize,
                rwnd: config.rwnd,
            },
            half,
            counts: Counts::default(),
            stamp: 0,
            observer: None,
        })
    }

    /// Sets the observer of each packet from now on, with the index of the flow.
    pub(super) fn observe(&mut self, flow: usize, observer: Box<dyn Observer>) {
        self.observer = Some((flow, observer));
    }

    /// Bounds the data of this end by the limits of a server.
    pub(super) fn limit(&mut self, limits: &Limits) {
        if let Half::Sends(sending) = &mut self.half {
            sending.guard.limit(limits);
        }
    }

    /// Makes the time stamps of data unpredictable.
    pub(super) fn hide_clock(&mut self) -> Result<(), NoRandomness> {
        self.stamp = u64::from_be_bytes(random()?) >> 2;
        Ok(())
    }

    /// Bytes per second that this end may send from now on.
    pub(super) fn set_rate(&mut self, rate: Option<f64>) {
        if let Half::Sends(sending) = &mut self.half {
            sending.guard.set_rate(rate);
        }
    }

    /// Restarts the clock of the connection, before anything has been sent.
    pub(super) fn restart(&mut self, now: Time) {
        self.start = now;
        self.heard = now;
    }

    /// Notes that the peer is there: if it sends, its data is expected from now on.
    pub(super) fn await_data(&mut self, now: Time) {
        let local = self.local(now);
        if let Half::Receives(receiving) = &mut self.half {
            receiving.advanced = local;
        }
    }

    /// True if data has been delivered, in either direction.
    pub(super) fn is_proven(&self) -> bool {
        match &self.half {
            Half::Sends(sending) => sending.guard.is_proven(),
            Half::Receives(receiving) => receiving.first.is_some(),
        }
    }

    /// True without news from a peer that is known to receive.
    pub(super) fn is_silent(&self) -> bool {
        matches!(&self.half, Half::Sends(sending) if sending.guard.is_silent())
    }

    /// Latest time at which new data was acknowledged or arrived.
    pub(super) fn advanced(&self) -> Time {
        self.global(match &self.half {
            Half::Sends(sending) => sending.guard.advanced(),
            Half::Receives(receiving) => receiving.advanced,
        })
    }

    /// Time at which the connection is given up, unless new data is acknowledged or arrives before.
    pub(super) fn end(&self) -> Time {
        self.global(match &self.half {
            Half::Sends(sending) => sending.guard.end(sending.sender.rtt().rto()),
            Half::Receives(receiving) => {
                receiving.advanced + if receiving.first.is_some() { MAX_SILENCE } else { PATIENCE }
            }
        })
    }

    /// True if losses end the connection.
    pub(super) fn breaks(&mut self, now: Time) -> bool {
        let local = self.local(now);
        match &mut self.half {
            Half::Sends(sending) => sending.guard.breaks(local),
            Half::Receives(_) => false,
        }
    }

    fn local(&self, now: Time) -> Time {
        Time::ZERO + now.since(self.start)
    }

    fn global(&self, local: Time) -> Time {
        if local == Time::NEVER { Time::NEVER } else { self.start + local.since(Time::ZERO) }
    }

    /// Handles a datagram; its answer goes into the outbox.
    pub(super) fn receive(
        &mut self,
        now: Time,
        from: SocketAddr,
        ecn: Option<EcnCodepoint>,
        envelope: Envelope,
        bytes: &[u8],
        outbox: &mut Outbox,
    ) -> Received {
        let Some(body_end) = self.authenticate(&envelope, from, bytes) else {
            self.counts.invalid += 1;
            return Received::Nothing;
        };
        if !self.numbers.received.accept(envelope.number) {
            self.counts.replayed += 1;
            return Received::Nothing;
        }
        self.heard = now;
        let Envelope { kind, mut packet, at, .. } = envelope;
        let body = &bytes[at + SESSION_LEN..body_end];
        match (kind, &mut self.half) {
            // The answer to a short one would be longer.
            (FrameKind::Data, Half::Receives(_)) if bytes.len() < self.sizes.ack.max(SHORTEST) => {
                self.invalid()
            }
            (FrameKind::Data, Half::Receives(_)) => {
                packet.size = bytes.len() as u32 + overhead(self.peer);
                packet.flags.insert(flags_of(ecn));
                self.on_data(now, &mut packet, outbox);
                Received::Packet
            }
            (FrameKind::Ack, Half::Sends(_)) => {
                packet.size = bytes.len() as u32 + overhead(self.peer);
                match packet.timestamp.as_ps().checked_sub(self.stamp) {
                    Some(stamp) => packet.timestamp = Time::from_ps(stamp),
                    None => return self.invalid(),
                }
                self.on_ack(now, &packet);
                Received::Packet
            }
            (FrameKind::Report, Half::Receives(receiving)) => match Sample::decode(body) {
                Some(sample) => {
                    receiving.told = sample;
                    Received::Packet
                }
                None => self.invalid(),
            },
            (FrameKind::Data | FrameKind::Ack | FrameKind::Report, _) => self.invalid(),
            (kind, _) => Received::Control(kind, Counts::decode(body).map(Box::new)),
        }
    }

    fn invalid(&mut self) -> Received {
        self.counts.invalid += 1;
        Received::Nothing
    }

    /// End of the body of a datagram, if it is from the peer.
    fn authenticate(&self, envelope: &Envelope, from: SocketAddr, bytes: &[u8]) -> Option<usize> {
        if envelope.connection != self.id || from != self.peer {
            return None;
        }
        let Some(keys) = &self.numbers.keys else { return Some(bytes.len()) };
        let (body, tag) = bytes.split_last_chunk::<MAC_LEN>()?;
        // Of control datagrams all bytes are authenticated; of packets, and of a start, which
        // earlier clients pad, only the head.
        let end = match envelope.kind {
            FrameKind::Data | FrameKind::Ack | FrameKind::Start => envelope.at + SESSION_LEN,
            _ => body.len(),
        };
        let (head, rest) = body.split_at_checked(end)?;
        if head.len() < envelope.at + SESSION_LEN || rest.iter().any(|byte| *byte != 0) {
            return None;
        }
        let number = envelope.number;
        let is_authentic = authentic(head, envelope.header_end(), bytes.len(), |bytes| {
            keys.knows(number, bytes, tag)
        });
        (is_authentic == Some(true)).then_some(body.len())
    }

    fn on_data(&mut self, now: Time, packet: &mut Packet, outbox: &mut Outbox) {
        let local = self.local(now);
        let Half::Receives(receiving) = &mut self.half else {
            unreachable!("data are for a half that receives");
        };
        // A sender that respects the window sends nothing beyond; such packets would only fill
        // memory.
        if packet.seq >= receiving.next + self.sizes.rwnd {
            self.counts.invalid += 1;
            return;
        }
        self.counts.marked += u64::from(packet.flags.contains(Flags::CONGESTION_EXPERIENCED));
        let first = *receiving.first.get_or_insert(local);
        receiving.arrived += 1;
        receiving.highest = receiving.highest.max(packet.packet_seq);
        let stamp = packet.timestamp;
        receiving.way.get_or_insert(OneWay::first(local, stamp)).on_arrival(local, stamp);
        if local.since(first) > receiving.length {
            receiving.counted.get_or_insert(receiving.receiver.stats().unique);
        }
        if let Some((flow, observer)) = &mut self.observer {
            observer.on_arrival(local, *flow, packet);
        }
        let unique = receiving.receiver.stats().unique;
        let answers = receiving.receiver.on_data(local, packet);
        if receiving.receiver.stats().unique > unique {
            receiving.advanced = local;
        }
        if answers {
            self.answer(local, packet, outbox);
        }
    }

    /// Sends an acknowledgment.
    fn answer(&mut self, local: Time, ack: &mut Packet, outbox: &mut Outbox) {
        if let Half::Receives(receiving) = &mut self.half {
            receiving.next = ack.seq;
        }
        ack.size = self.push_packet(ack, self.sizes.ack, outbox) as u32 + overhead(self.peer);
        if let Some((flow, observer)) = &mut self.observer {
            observer.on_answer(local, *flow, ack);
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Packet) {
        let local = self.local(now);
        let Half::Sends(sending) = &mut self.half else {
            unreachable!("acknowledgments are for a half that sends");
        };
        // Acknowledged data must have been sent, and each acknowledgment must echo a transmission.
        let high = sending.sender.sequences().high;
        let is_sane = ack.seq <= high
            && ack.trigger_seq < high
            && (1..=sending.guard.newest()).contains(&ack.packet_seq)
            && ack.timestamp <= local
            && ack
                .sack_blocks()
                .iter()
                .all(|b| b.end <= high && b.end - b.start <= self.sizes.rwnd);
        let Some(echoed) = sending.guard.find(ack).filter(|_| is_sane) else {
            self.counts.invalid += 1;
            return;
        };
        if self.observer.is_some() {
            sending.sender.forget_report();
        }
        sending.sender.on_ack(local, ack);
        sending.guard.on_ack(local, echoed, ack, sending.sender.sequences().una);
        if let Some((flow, observer)) = &mut self.observer {
            observer.on_ack(local, *flow, ack, &sending.sender);
        }
    }

    /// Appends a packet as a datagram of at least `length` bytes; returns its length.
    fn push_packet(&mut self, packet: &Packet, length: usize, outbox: &mut Outbox) -> usize {
        let mut head = [0; wire::MAX + SESSION_LEN];
        let at = wire::encode(packet, &mut head).expect("the buffer fits every packet");
        if packet.kind == PacketKind::Data {
            let stamp = packet.timestamp.as_ps().wrapping_add(self.stamp);
            head[wire::FIXED - 8..wire::FIXED].copy_from_slice(&stamp.to_be_bytes());
        }
        head[at..at + 8].copy_from_slice(&self.id.to_be_bytes());
        head[at + 8..at + 16].copy_from_slice(&self.numbers.sent.to_be_bytes());
        let head = &head[..at + SESSION_LEN];
        let tag = self.numbers.keys.as_ref().map_or(0, |_| MAC_LEN);
        let (end, length) = (header_end(packet, at), length.max(head.len() + tag));
        self.push(ecn_of(packet.flags), length, head, end, outbox);
        length
    }

    /// Appends a control datagram.
    pub(super) fn push_control(&mut self, kind: FrameKind, body: &[u8], outbox: &mut Outbox) {
        let mut head = Vec::with_capacity(4 + SESSION_LEN + body.len());
        head.extend_from_slice(&kind.prefix());
        head.extend_from_slice(&self.id.to_be_bytes());
        head.extend_from_slice(&self.numbers.sent.to_be_bytes());
        head.extend_from_slice(body);
        let tag = self.numbers.keys.as_ref().map_or(0, |_| MAC_LEN);
        self.push(None, head.len() + tag, &head, 0, outbox);
    }

    /// Appends a report on the state of this end.
    pub(super) fn push_report(&mut self, now: Time, outbox: &mut Outbox) {
        let sample = self.sample(now);
        self.push_control(FrameKind::Report, &sample.encode(), outbox);
    }

    fn push(
        &mut self,
        ecn: Option<EcnCodepoint>,
        length: usize,
        head: &[u8],
        header_end: usize,
        outbox: &mut Outbox,
    ) {
        let (number, keys) = (self.numbers.sent, &self.numbers.keys);
        self.numbers.sent += 1;
        outbox.push(self.peer, ecn, length, |bytes| {
            bytes[..head.len()].copy_from_slice(head);
            if let Some(keys) = keys
                && let Some(Some(made)) =
                    authentic(head, header_end, length, |bytes| keys.tag(number, bytes))
                && let Some(tag) = bytes.last_chunk_mut::<MAC_LEN>()
            {
                *tag = made;
            }
        });
    }

    /// Prepares the packets that may be sent now in an empty outbox; true if there may be more.
    /// [`Connection::sent`] must follow.
    pub(super) fn transmit(&mut self, now: Time, outbox: &mut Outbox) -> bool {
        let local = self.local(now);
        let Half::Sends(sending) = &mut self.half else { return false };
        let mut leaving = std::mem::take(&mut sending.leaving);
        leaving.clear();
        let mut packet = Packet::default();
        let burst = BURST.min((65_000 / self.sizes.datagram).max(1));
        let allowed = (self.room(local)).min(burst as u64) as usize;
        while leaving.len() < allowed && self.numbers.sent < MAX_NUMBER {
            let Half::Sends(sending) = &mut self.half else { break };
            if !sending.sender.poll_transmit(local, &mut packet) {
                break;
            }
            sending.guard.on_sent(&packet);
            // Packets that went back come first.
            sending.unsent = sending.unsent.saturating_sub(1);
            self.push_packet(&packet, self.sizes.datagram, outbox);
            leaving.push(packet.clone());
        }
        let more = leaving.len() == burst;
        if let Half::Sends(sending) = &mut self.half {
            sending.leaving = leaving;
        }
        more
    }

    /// Number of packets that may leave now.
    fn room(&mut self, local: Time) -> u64 {
        let size = self.sizes.datagram as u32 + overhead(self.peer);
        let Half::Sends(sending) = &mut self.half else { return 0 };
        sending.guard.room(local, size, sending.sender.rtt().base_rto())
    }

    /// Notes how many packets of [`Connection::transmit`] the socket took; the rest are sent before
    /// anything else.
    pub(super) fn sent(&mut self, now: Time, count: usize) {
        let local = self.local(now);
        let Half::Sends(sending) = &mut self.half else { return };
        let Sending { sender, leaving, unsent, .. } = &mut **sending;
        if let Some((flow, observer)) = &mut self.observer {
            for packet in leaving.iter().take(count) {
                observer.on_sent(local, *flow, packet, sender);
            }
            observer.on_settled(local, *flow, sender);
        }
        for packet in leaving.drain(..).skip(count) {
            self.counts.given_back += 1;
            *unsent += 1;
            sender.unsent(&packet);
        }
    }

    /// Time of the next call of [`Connection::on_timer`].
    pub(super) fn next_timer(&self) -> Time {
        self.global(match &self.half {
            Half::Sends(sending) => sending.guard.timer(sending.sender.next_timer()),
            Half::Receives(receiving) => receiving.receiver.next_timer(),
        })
    }

    /// Handles timers that are due.
    pub(super) fn on_timer(&mut self, now: Time, outbox: &mut Outbox) {
        let local = self.local(now);
        match &mut self.half {
            Half::Sends(sending) => {
                sending.guard.on_timer(local);
                if sending.sender.next_timer() > local {
                    return;
                }
                let of_recovery = sending.sender.recovery_timer() <= local;
                if self.observer.is_some() {
                    sending.sender.forget_report();
                }
                sending.sender.on_timer(local);
                if let Some((flow, observer)) = &mut self.observer {
                    observer.on_timer(local, *flow, of_recovery, &sending.sender);
                }
            }
            Half::Receives(receiving) => {
                let mut ack = Packet::default();
                if receiving.receiver.next_timer() <= local
                    && receiving.receiver.on_timer(local, &mut ack)
                {
                    self.answer(local, &mut ack, outbox);
                }
            }
        }
    }

    /// UDP payload of data, bytes.
    pub(super) fn datagram(&self) -> usize {
        self.sizes.datagram
    }

    pub(super) fn sends(&self) -> bool {
        matches!(self.half, Half::Sends(_))
    }

    /// True if the sender has delivered all its data.
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
                counts.sent = stats.sent - sending.unsent;
                counts.retransmissions = stats.retransmissions;
                counts.timeouts = stats.timeouts;
                counts.rtt_samples = stats.rtt_samples;
                counts.rtt_sum_s = stats.rtt_sum.as_secs_f64();
                counts.cwnd_seconds = stats.cwnd_seconds.min(MAX_RWND as f64 * counts.seconds);
                counts.loss_estimate = sending.sender.loss_rate().estimate();
            }
            Half::Receives(receiving) => {
                let stats = receiving.receiver.stats();
                let passed = local.since(receiving.first.unwrap_or(local));
                counts.seconds = passed.min(receiving.length).as_secs_f64();
                counts.unique = receiving.counted.unwrap_or(stats.unique);
                counts.arrived = stats.unique + stats.duplicates;
                counts.duplicates = stats.duplicates;
            }
        }
        counts
    }

    pub(super) fn sample(&mut self, now: Time) -> Sample {
        let local = self.local(now);
        match &mut self.half {
            Half::Sends(sending) => sending.sample(local),
            Half::Receives(receiving) => {
                Sample { delivered: receiving.receiver.stats().unique, ..receiving.told }
            }
        }
    }

    /// State of the path of the data, as far as this end knows it.
    pub(super) fn path(&self) -> PathState {
        match &self.half {
            Half::Sends(sending) => {
                let lowest = sending.sender.rtt().min_rtt();
                let min_rtt_s = (!lowest.is_zero()).then_some(lowest.as_secs_f64());
                PathState { min_rtt_s, ..PathState::default() }
            }
            Half::Receives(receiving) => PathState {
                missing: Some(receiving.highest.saturating_sub(receiving.arrived)),
                queueing_delay_s: receiving.way.map(|way| way.queueing_s()),
                min_rtt_s: None,
            },
        }
    }
}
