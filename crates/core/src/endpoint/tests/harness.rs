//! One harness over the whole table: random operations against a mirror model.
//!
//! A transfer runs through a channel that loses, duplicates, delays and so reorders packets and
//! acknowledgments, while imaginary routers flag and grant at random. The mirror keeps single
//! sequence numbers where the endpoints keep cursors and ranges, and checks after every step
//! what must hold for any protocol. Then the channel becomes clean, and the transfer must end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::endpoint::discrimination::DiscriminatorConfig;
use crate::endpoint::feedback::{Direction, FeedbackConfig, Granularity, News, Notice};
use crate::endpoint::recovery::{RecoveryConfig, SackConfig};
use crate::endpoint::window::ControllerConfig;
use crate::part::{Ability, AnyPart, Setting, Value, ValueKind, Words};
use crate::protocols::PROTOCOLS;
use crate::rng::Stream;
use crate::units::Probability;

/// One way through the clean channel.
const DELAY: Duration = Duration::from_millis(50);
const RTO_CEILING: Duration = Duration::from_secs(4);
/// When the channel becomes clean.
const CLEAN_FROM: Duration = Duration::from_secs(20);

#[derive(Debug, Clone)]
struct Chaos {
    seed: u64,
    packets: u64,
    config: EndpointConfig,
    loss: f64,
    ack_loss: f64,
    duplication: f64,
    /// Share of packets that take up to twenty times as long.
    lateness: f64,
    flags: f64,
    /// XCP: changes granted lie within this many bytes per second, either way.
    grants: f64,
}

fn chaos() -> impl Strategy<Value = Chaos> {
    let config = (
        1u32..30,
        prop_oneof![2 => 1u64..8, 3 => 8u64..80],
        1u32..5,
        prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(10))],
        prop::option::weighted(0.3, 1u64..400),
        any::<[bool; 5]>(),
        prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(200))],
    );
    let config = config.prop_map(|(iw, rwnd, dupack_threshold, tick, delay, flags, floor)| {
        let [ecn, pacing, timestamps, byte_counting, quick] = flags;
        EndpointConfig {
            initial_window: f64::from(iw),
            rwnd,
            dupack_threshold,
            clock_granularity: tick,
            rto_floor: floor,
            rto_ceiling: RTO_CEILING,
            delayed_acks: delay.map(Duration::from_millis),
            ecn: Some(ecn),
            pacing,
            timestamps,
            byte_counting,
            quick_acks: if quick { 16 } else { 0 },
            ..EndpointConfig::default()
        }
    });
    let rate = || prop_oneof![2 => Just(0.0), 3 => 0.0..0.1f64, 3 => 0.1..0.7f64, 1 => Just(1.0)];
    let rates = (rate(), rate(), rate(), rate(), rate(), 0.0..1e6f64);
    (any::<u64>(), 1u64..300, config, rates).prop_map(|(seed, packets, config, r)| Chaos {
        seed,
        packets,
        config,
        loss: r.0,
        ack_loss: r.1,
        duplication: r.2.min(0.7),
        lateness: r.3,
        flags: r.4,
        grants: r.5,
    })
}

/// Any value that a parameter may have: its default, something near it, or an end of its range.
fn any_value(setting: &Setting, stream: &mut Stream) -> Value {
    let lot = stream.uniform();
    let pick = |least: f64, most: f64, x: f64| match lot {
        _ if lot < 0.1 => least,
        _ if lot < 0.2 => most,
        _ => (x * 4.0 * lot).clamp(least, most),
    };
    match (setting.doc.kind, setting.value) {
        (_, value) if lot > 0.8 => value,
        (ValueKind::Bool, _) => Value::Bool(lot < 0.4),
        (ValueKind::Number { least, most }, Value::Number(x)) => {
            Value::Number(pick(least, most, x))
        }
        (
            ValueKind::Positive { most } | ValueKind::PositiveOrWord { most, .. },
            Value::Number(x),
        ) => Value::Number(pick(most * 1e-9, most, x)),
        (ValueKind::Integer { least, most }, value) => {
            let x = if let Value::Integer(x) = value { x as f64 } else { least as f64 };
            Value::Integer(pick(least as f64, most as f64, x) as u64)
        }
        (ValueKind::Time { least, most }, value) => {
            let x = if let Value::Time(x) = value { x } else { Duration::from_millis(100) };
            let seconds = pick(least.as_secs_f64(), most.as_secs_f64(), x.as_secs_f64());
            Value::Time(Duration::from_secs_f64(seconds).max(least).min(most))
        }
        (ValueKind::Word(words) | ValueKind::PositiveOrWord { words, .. }, _) => {
            Value::Word(words[(lot * 1e6) as usize % words.len()])
        }
        (_, value) => value,
    }
}

/// The protocol with parameters drawn at random, as far as they go together.
fn with_any_parameters(protocol: &Protocol, stream: &mut Stream) -> Protocol {
    let mut changed = *protocol;
    for setting in protocol.settings() {
        let before = changed;
        let value = any_value(&setting, stream);
        assert!(changed.set(setting.table, setting.doc.key, value), "{setting:?} to {value:?}");
        if changed.check().is_err() {
            changed = before; // It does not go with the others.
        }
    }
    changed
}

/// A composition of any parts that can work.
fn any_composition(stream: &mut Stream) -> Protocol {
    fn pick<T: Copy>(forms: &[(Words, T)], stream: &mut Stream) -> T {
        forms[(stream.uniform() * forms.len() as f64) as usize].1
    }
    loop {
        let feedback = pick(&FeedbackConfig::forms(), stream);
        let composed = Protocol {
            name: "composed",
            window: pick(&ControllerConfig::forms(), stream),
            recovery: pick(&RecoveryConfig::forms(), stream),
            discrimination: pick(&DiscriminatorConfig::forms(), stream),
            feedback,
            router: feedback.router(),
            ..*protocols::plain()
        };
        if composed.check().is_ok() {
            return composed;
        }
    }
}

/// The knowledge of an outside observer of sender and receiver.
#[derive(Default)]
struct Mirror {
    /// Every packet ever sent with its transmissions, and every packet that has ever arrived.
    sent: BTreeMap<u64, u64>,
    arrived: BTreeSet<u64>,
    transmissions: u64,
    arrivals: u64,
    /// The highest cumulative acknowledgment that reached the sender.
    una: u64,
    /// Packets reported to the sender as arrived, by SACK blocks or by the triggering packet.
    reported: BTreeSet<u64>,
}

struct Run<'a> {
    protocol: Protocol,
    chaos: &'a Chaos,
    sender: Sender,
    receiver: Receiver,
    stream: Stream,
    now: Time,
    /// Packets in flight, by time of arrival and a unique number.
    channel: BTreeMap<(Time, u64), Packet>,
    entered: u64,
    /// ESTCP: shifts so far.
    phase: u64,
    mirror: Mirror,
}

type Checked = Result<(), TestCaseError>;

impl<'a> Run<'a> {
    fn new(protocol: &Protocol, chaos: &'a Chaos) -> Self {
        Run {
            protocol: *protocol,
            chaos,
            sender: Sender::new(protocol, &chaos.config, chaos.seed, "test"),
            receiver: Receiver::new(&protocol.feedback, &chaos.config),
            stream: Stream::new(chaos.seed, "chaos", protocol.name),
            now: Time::ZERO,
            channel: BTreeMap::new(),
            entered: 0,
            phase: 0,
            mirror: Mirror::default(),
        }
    }

    fn chance(&mut self, p: f64) -> bool {
        let clean = self.now >= Time::ZERO + CLEAN_FROM;
        !clean && self.stream.chance(Probability::new(p).unwrap())
    }

    fn enter(&mut self, packet: &Packet, loss: f64) {
        let copies = 1 + u64::from(self.chance(self.chaos.duplication));
        for _ in 0..copies {
            let lost = self.chance(loss);
            if lost && !self.tell_of(packet) {
                continue;
            }
            let late = self.chance(self.chaos.lateness);
            let delay =
                if late { self.stream.between(DELAY, DELAY.saturating_mul(20)) } else { DELAY };
            self.entered += 1;
            let mut packet = packet.clone();
            if lost {
                packet.flags.insert(Flags::CORRUPTED);
            }
            self.channel.insert((self.now + delay, self.entered), packet);
        }
    }

    /// Handles the loss of a packet: a notifier reports some losses, and sometimes a rate. Returns
    /// true if the packet is forwarded damaged to report its corruption.
    fn tell_of(&mut self, packet: &Packet) -> bool {
        let Some(notification) = self.sender.notification() else { return false };
        if packet.kind != PacketKind::Data || self.stream.uniform() < 0.3 {
            return false;
        }
        let at = self.now + DELAY;
        let what = match (notification.granularity, notification.direction) {
            (Granularity::PerPacket, Direction::Forward) => return true,
            (Granularity::Cumulative, Direction::Forward) => return false,
            (Granularity::PerPacket, Direction::Backward) => News::Corrupted(packet.seq),
            (Granularity::Cumulative, Direction::Backward) => News::Survival {
                link: u32::from(self.stream.uniform() < 0.5),
                probability: Probability::new(self.stream.uniform()).unwrap(),
            },
        };
        self.sender.on_notice(self.now, &Notice { at, what });
        false
    }

    fn transfer(mut self) -> Checked {
        self.sender.offer_until(self.chaos.packets);
        self.transmit()?;
        // A clean window is repaired within some timeouts: each timeout, of at most the ceiling
        // times the factor, acknowledges a packet at least.
        let patience = RTO_CEILING.mul_f64(4.0).saturating_mul(self.chaos.packets + 4);
        let end = Time::ZERO + CLEAN_FROM + patience;
        while !self.sender.is_done() {
            self.step()?;
            prop_assert!(self.now < end, "still not done at {:?}", self.now);
        }
        prop_assert_eq!(self.mirror.arrived.len() as u64, self.chaos.packets);
        prop_assert_eq!(self.sender.in_flight(), 0);
        prop_assert_eq!(self.sender.next_timer(), Time::NEVER);
        Ok(())
    }

    /// Handles what happens next: an arrival or a timer.
    fn step(&mut self) -> Checked {
        let arrival = self.channel.first_key_value().map_or(Time::NEVER, |(k, _)| k.0);
        let (send, receive) = (self.sender.next_timer(), self.receiver.next_timer());
        let next = arrival.min(send).min(receive);
        prop_assert!(next != Time::NEVER, "deadlock: nothing will ever happen");
        prop_assert!(next >= self.now, "time runs back to {next:?}");
        self.now = next;
        if arrival == next {
            let (_, mut packet) = self.channel.pop_first().unwrap();
            if packet.kind == PacketKind::Ack {
                self.on_ack(&packet);
            } else {
                self.on_data(&mut packet)?;
            }
        } else if receive == next {
            let mut ack = Packet::default();
            prop_assert!(self.receiver.on_timer(next, &mut ack));
            self.enter(&ack, self.chaos.ack_loss);
        } else {
            let timeouts = self.sender.stats(next).timeouts;
            self.sender.on_timer(next);
            prop_assert!(self.sender.next_timer() > next, "a timer that stays due");
            let forgets = matches!(
                self.protocol.recovery,
                RecoveryConfig::Sack(SackConfig { keep_scoreboard: false })
            );
            if forgets && self.sender.stats(next).timeouts > timeouts {
                self.mirror.reported.clear();
            }
        }
        self.transmit()
    }

    fn on_data(&mut self, packet: &mut Packet) -> Checked {
        if packet.flags.contains(Flags::CORRUPTED) {
            prop_assert!(!self.receiver.on_data(self.now, packet), "nothing to acknowledge");
            return Ok(());
        }
        let again = self.mirror.arrived.contains(&packet.seq);
        let data = packet.seq;
        self.mirror.arrivals += 1;
        self.mirror.arrived.insert(packet.seq);
        if self.chance(self.chaos.flags) {
            packet.flags.insert(Flags::CONGESTION.with(Flags::CONGESTION_EXPERIENCED));
        }
        if let CongestionHeader::Xcp { delta, .. } = &mut packet.header {
            *delta = (self.stream.uniform() * 2.0 - 1.0) * self.chaos.grants;
        }
        // A traffic controller that shifts its phase and changes its mind as often as others flag.
        self.phase += u64::from(self.chance(self.chaos.flags));
        match &mut packet.header {
            CongestionHeader::Estcp { phase, g, age, .. } => {
                *phase = self.phase;
                *g = 1e-6 + self.stream.uniform();
                *age = 0.0;
            }
            CongestionHeader::EstcpBits { bits } => {
                *bits = (self.phase as u8 & 1) << 1 | u8::from(self.stream.uniform() < 0.5);
            }
            CongestionHeader::Survival { probability } => {
                prop_assert_eq!(*probability, 1.0, "what a sender knows of its packet's way");
                *probability = self.stream.uniform();
            }
            _ => {}
        }
        let arrived = packet.seq;
        let acknowledges = self.receiver.on_data(self.now, packet);
        let stats = self.receiver.stats();
        prop_assert_eq!(stats.unique, self.mirror.arrived.len() as u64);
        prop_assert_eq!(stats.unique + stats.duplicates, self.mirror.arrivals);
        if acknowledges {
            let missing = (0..).find(|seq| !self.mirror.arrived.contains(seq));
            // RFC 8257 section 3.2: delayed packets are acknowledged before `arrived`.
            let before = self.protocol.feedback.gives().contains(&Ability::EachMark)
                && packet.seq == arrived
                && missing == Some(arrived + 1);
            prop_assert!(before || missing == Some(packet.seq), "next expected: {missing:?}");
            let mut blocks = packet.sack_blocks();
            if again {
                let duplicate = crate::packet::SackBlock { start: data, end: data + 1 };
                prop_assert_eq!(blocks.first(), Some(&duplicate), "RFC 2883: a duplicate first");
                blocks = &blocks[1..];
            }
            for block in blocks {
                prop_assert!(packet.seq < block.start && block.start < block.end);
                prop_assert!((block.start..block.end).all(|s| self.mirror.arrived.contains(&s)));
            }
            let ack = packet.clone();
            self.enter(&ack, self.chaos.ack_loss);
        }
        Ok(())
    }

    fn on_ack(&mut self, ack: &Packet) {
        // Older acknowledgments are ignored.
        if ack.seq >= self.mirror.una && ack.seq < self.chaos.packets {
            match self.protocol.recovery {
                kind if reads_sack(kind) => {
                    let blocks = ack.sack_blocks().iter();
                    self.mirror.reported.extend(blocks.flat_map(|b| b.start..b.end));
                }
                RecoveryConfig::LossMonitor(_) => {
                    self.mirror.reported.insert(ack.trigger_seq);
                }
                _ => {}
            }
        }
        self.mirror.una = self.mirror.una.max(ack.seq);
        self.sender.on_ack(self.now, ack);
    }

    /// Lets the sender send all packets that it may, and checks all invariants.
    fn transmit(&mut self) -> Checked {
        let rwnd = self.chaos.config.rwnd;
        let mut packet = Packet::default();
        let mut burst = 0;
        while self.sender.poll_transmit(self.now, &mut packet) {
            let (seq, mirror) = (packet.seq, &mut self.mirror);
            prop_assert!(seq >= mirror.una, "{seq} is acknowledged up to {}", mirror.una);
            prop_assert!(!mirror.reported.contains(&seq), "{seq} is known to have arrived");
            prop_assert!(seq < mirror.una + rwnd, "{seq} is beyond the receiver window");
            prop_assert!(seq < self.chaos.packets, "{seq} was never offered");
            let again = packet.flags.contains(Flags::RETRANSMISSION);
            let before = mirror.sent.entry(seq).or_default();
            prop_assert_eq!(*before > 0, again, "flag of {}", seq);
            *before += 1;
            mirror.transmissions += 1;
            prop_assert_eq!(packet.packet_seq, mirror.transmissions);
            prop_assert_eq!(packet.timestamp, self.now);
            burst += 1;
            // All of a receiver window, and the one or two that a timer or duplicates forced.
            prop_assert!(burst <= rwnd + 2, "{burst} packets at once");
            self.enter(&packet, self.chaos.loss);
        }
        let seqs = *self.sender.sequences();
        prop_assert_eq!(seqs.una, self.mirror.una);
        prop_assert!(seqs.una <= seqs.next && seqs.next <= seqs.high);
        prop_assert_eq!(seqs.high, self.mirror.sent.last_key_value().map_or(0, |(seq, _)| seq + 1));
        prop_assert!(seqs.high - seqs.una <= rwnd);
        prop_assert!(self.sender.in_flight() <= self.most_in_flight());
        prop_assert!(self.sender.cwnd() >= 1.0 && self.sender.cwnd().is_finite());
        prop_assert!(self.sender.ssthresh() >= 2.0);
        prop_assert!(self.sender.next_timer() >= self.now);
        let timed = self.sender.next_timer() != Time::NEVER;
        let waits = self.is_paced() && seqs.next < self.chaos.packets;
        prop_assert!(timed || seqs.outstanding() == 0, "a timer while something is missing");
        prop_assert!(!timed || seqs.outstanding() > 0 || waits, "a timer for nothing");
        let stats = self.sender.stats(self.now);
        prop_assert_eq!(stats.sent, self.mirror.transmissions);
        prop_assert_eq!(stats.sent - stats.retransmissions, self.mirror.sent.len() as u64);
        Ok(())
    }

    fn is_paced(&self) -> bool {
        self.chaos.config.pacing || self.protocol.window.paces()
    }

    /// Upper bound of the packets taken to be in the network.
    fn most_in_flight(&self) -> u64 {
        let seqs = self.sender.sequences();
        let twice = match self.protocol.recovery {
            // RFC 9002: each transmission by itself.
            kind if kind.gives().contains(&Ability::TransmissionNumbers) => u64::MAX,
            // RFC 6675, SetPipe: retransmitted packets that are not lost count twice.
            RecoveryConfig::Sack(_) => 2,
            _ => return seqs.outstanding(),
        };
        let Mirror { sent, reported, .. } = &self.mirror;
        let missing = sent.range(seqs.una..).filter(|(seq, _)| !reported.contains(seq));
        missing.map(|(_, transmissions)| *transmissions.min(&twice)).sum()
    }
}

/// True if the sender reads SACK blocks.
fn reads_sack(kind: RecoveryConfig) -> bool {
    matches!(kind, RecoveryConfig::Sack(_)) || kind.gives().contains(&Ability::TransmissionNumbers)
}

fn passes(protocol: &Protocol, chaos: &Chaos) -> Checked {
    Run::new(protocol, chaos)
        .transfer()
        .map_err(|error| TestCaseError::fail(format!("{protocol:?}: {error}")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_protocol_keeps_its_invariants_and_finishes(chaos in chaos()) {
        let mut stream = Stream::new(chaos.seed, "parameters", "test");
        for protocol in PROTOCOLS {
            passes(protocol, &chaos)?;
            passes(&with_any_parameters(protocol, &mut stream), &chaos)?;
        }
    }

    #[test]
    fn so_does_every_composition_that_can_work(chaos in chaos()) {
        let mut stream = Stream::new(chaos.seed, "composition", "test");
        for _ in 0..30 {
            let composed = any_composition(&mut stream);
            passes(&with_any_parameters(&composed, &mut stream), &chaos)?;
        }
    }
}
