//! One harness over the whole table: random operations against a mirror model.
//!
//! A transfer runs through a channel that loses, duplicates, delays and so reorders packets and
//! acknowledgments, while imaginary routers flag and grant at random. The mirror keeps single
//! sequence numbers where the endpoints keep cursors and ranges, and checks after every step
//! what must hold for any protocol. Then the channel becomes clean, and the transfer must end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::endpoint::feedback::{CongestionFlag, Formula, XcpRConfig};
use crate::endpoint::recovery::RecoveryKind;
use crate::packet::PacketKind;
use crate::protocols::{PROTOCOLS, Protocol};
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
        1.0..4.0f64,
        prop::option::weighted(0.3, 1u64..400),
        any::<[bool; 5]>(),
        prop_oneof![Just(Duration::ZERO), Just(Duration::from_millis(200))],
    );
    let config = config.prop_map(
        |(
            iw,
            rwnd,
            dupack_threshold,
            tick,
            factor,
            delay,
            [ecn, deflation, guard, once, per_window],
            floor,
        )| {
            EndpointConfig {
                initial_window: f64::from(iw),
                rwnd,
                dupack_threshold,
                clock_granularity: tick,
                rto_floor: floor,
                rto_ceiling: RTO_CEILING,
                retransmission_timeout_factor: factor,
                delayed_acks: delay.map(Duration::from_millis),
                ecn,
                partial_deflation: deflation,
                loss_monitor_guard: guard,
                xcp_r: XcpRConfig {
                    formula: if per_window { Formula::PerWindow } else { Formula::Incremental },
                    congestion_flag: if once {
                        CongestionFlag::Once
                    } else {
                        CongestionFlag::Count
                    },
                },
                ..EndpointConfig::default()
            }
        },
    );
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

/// What an outside observer of sender and receiver knows.
#[derive(Default)]
struct Mirror {
    /// Every packet ever sent with its transmissions, and every packet that has ever arrived.
    sent: BTreeMap<u64, u64>,
    arrived: BTreeSet<u64>,
    transmissions: u64,
    arrivals: u64,
    /// The highest cumulative acknowledgment that reached the sender.
    una: u64,
    /// What the sender was told had arrived, by SACK blocks or by the triggering packet.
    reported: BTreeSet<u64>,
}

struct Run<'a> {
    protocol: &'static Protocol,
    chaos: &'a Chaos,
    sender: Sender,
    receiver: Receiver,
    stream: Stream,
    now: Time,
    /// Packets on their way, by time of arrival and a number that keeps them apart.
    channel: BTreeMap<(Time, u64), Packet>,
    entered: u64,
    mirror: Mirror,
}

type Checked = Result<(), TestCaseError>;

impl<'a> Run<'a> {
    fn new(protocol: &'static Protocol, chaos: &'a Chaos) -> Self {
        Run {
            protocol,
            chaos,
            sender: Sender::new(protocol, &chaos.config, chaos.seed, "test"),
            receiver: Receiver::new(protocol.feedback, &chaos.config),
            stream: Stream::new(chaos.seed, "chaos", protocol.name),
            now: Time::ZERO,
            channel: BTreeMap::new(),
            entered: 0,
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
            if self.chance(loss) {
                continue;
            }
            let late = self.chance(self.chaos.lateness);
            let delay =
                if late { self.stream.between(DELAY, DELAY.saturating_mul(20)) } else { DELAY };
            self.entered += 1;
            self.channel.insert((self.now + delay, self.entered), packet.clone());
        }
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
            self.sender.on_timer(next);
            prop_assert!(self.sender.next_timer() > next, "a timer that stays due");
        }
        self.transmit()
    }

    fn on_data(&mut self, packet: &mut Packet) -> Checked {
        self.mirror.arrivals += 1;
        self.mirror.arrived.insert(packet.seq);
        if self.chance(self.chaos.flags) {
            packet.flags.insert(Flags::CONGESTION.with(Flags::CONGESTION_EXPERIENCED));
        }
        if let CongestionHeader::Xcp { delta, .. } = &mut packet.header {
            *delta = (self.stream.uniform() * 2.0 - 1.0) * self.chaos.grants;
        }
        let acknowledges = self.receiver.on_data(self.now, packet);
        let stats = self.receiver.stats();
        prop_assert_eq!(stats.unique, self.mirror.arrived.len() as u64);
        prop_assert_eq!(stats.unique + stats.duplicates, self.mirror.arrivals);
        if acknowledges {
            let missing = (0..).find(|seq| !self.mirror.arrived.contains(seq));
            prop_assert_eq!(Some(packet.seq), missing, "next expected");
            for block in packet.sack_blocks() {
                prop_assert!(packet.seq < block.start && block.start < block.end);
                prop_assert!((block.start..block.end).all(|s| self.mirror.arrived.contains(&s)));
            }
            let ack = packet.clone();
            self.enter(&ack, self.chaos.ack_loss);
        }
        Ok(())
    }

    fn on_ack(&mut self, ack: &Packet) {
        // What an older acknowledgment says is not heeded.
        if ack.seq >= self.mirror.una && ack.seq < self.chaos.packets {
            match self.protocol.recovery {
                RecoveryKind::Sack => {
                    let blocks = ack.sack_blocks().iter();
                    self.mirror.reported.extend(blocks.flat_map(|b| b.start..b.end));
                }
                RecoveryKind::LossMonitor => {
                    self.mirror.reported.insert(ack.trigger_seq);
                }
                _ => {}
            }
        }
        self.mirror.una = self.mirror.una.max(ack.seq);
        self.sender.on_ack(self.now, ack);
    }

    /// Lets the sender send what it may and checks all there is to check.
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
            // All of a receiver window, and the one that a timer or duplicates forced.
            prop_assert!(burst <= rwnd + 1, "{burst} packets at once");
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
        prop_assert_eq!(timed, seqs.outstanding() > 0, "a timer while something is missing");
        let stats = self.sender.stats(self.now);
        prop_assert_eq!(stats.sent, self.mirror.transmissions);
        prop_assert_eq!(stats.sent - stats.retransmissions, self.mirror.sent.len() as u64);
        Ok(())
    }

    /// Bound on what may be taken to be in the network.
    fn most_in_flight(&self) -> u64 {
        let seqs = self.sender.sequences();
        if self.protocol.recovery != RecoveryKind::Sack {
            return seqs.outstanding();
        }
        // RFC 6675, SetPipe: what was retransmitted and is not lost counts twice.
        let Mirror { sent, reported, .. } = &self.mirror;
        let missing = sent.range(seqs.una..).filter(|(seq, _)| !reported.contains(seq));
        missing.map(|(_, transmissions)| transmissions.min(&2)).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn every_protocol_keeps_its_invariants_and_finishes(chaos in chaos()) {
        for protocol in PROTOCOLS {
            Run::new(protocol, &chaos).transfer().map_err(|error| {
                TestCaseError::fail(format!("{}: {error}", protocol.name))
            })?;
        }
    }
}
