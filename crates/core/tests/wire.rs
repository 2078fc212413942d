//! Packets as bytes: written packets are read back, damaged ones are refused or harmless, and
//! forged ones have no lasting effect.

use proptest::prelude::*;

use windward_core::endpoint::{EndpointConfig, Receiver, Sender};
use windward_core::packet::{
    CongestionHeader, Flags, MAX_SACK_BLOCKS, NO_SEQ, Packet, PacketKind, SackBlock,
};
use windward_core::protocols::{PROTOCOLS, Protocol};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_core::wire::{self, Error};

/// Flags that the payload does not contain.
const ECN: Flags = Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED).with(Flags::L4S);

fn seq() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000_u64, Just(wire::MAX_SEQ), 0..=wire::MAX_SEQ]
}

fn header(is_data: bool) -> BoxedStrategy<CongestionHeader> {
    let real = || prop_oneof![Just(0.0), Just(1e8), 0.0..1e8];
    let both = prop_oneof![
        Just(CongestionHeader::None),
        (seq(), real(), real(), 0.0..=1.0_f32)
            .prop_map(|(phase, g, age, filled)| CongestionHeader::Estcp { phase, g, age, filled }),
        (0..4_u8).prop_map(|bits| CongestionHeader::EstcpBits { bits }),
        (0.0..=1.0).prop_map(|probability| CongestionHeader::Survival { probability }),
    ];
    if is_data {
        let xcp = (real(), real(), -1e15..=1e15, any::<u16>()).prop_map(
            |(rtt, inter_packet, delta, congestion_flag)| CongestionHeader::Xcp {
                rtt,
                inter_packet,
                delta,
                congestion_flag,
            },
        );
        return prop_oneof![both, xcp].boxed();
    }
    let recent = prop_oneof![Just(NO_SEQ), seq()];
    prop_oneof![
        both,
        (-1e15..=1e15).prop_map(|feedback| CongestionHeader::XcpReverse { feedback }),
        any::<u64>().prop_map(|ps| CongestionHeader::Timestamps { received: Time::from_ps(ps) }),
        prop::array::uniform3(recent).prop_map(|recent| CongestionHeader::Corrupted { recent }),
        (0.0..=1e12, any::<u16>()).prop_map(|(window, congestion_flag)| {
            CongestionHeader::XcpWindow { window, congestion_flag }
        }),
    ]
    .boxed()
}

fn packet() -> impl Strategy<Value = Packet> {
    any::<bool>().prop_flat_map(|is_data| {
        let numbers = (seq(), seq(), seq(), any::<u64>());
        let blocks = prop::collection::vec((0..wire::MAX_SEQ, 1..1000_u64), 0..=MAX_SACK_BLOCKS);
        (numbers, 0..=Flags::ALL.bits(), header(is_data), blocks).prop_map(
            move |((seq, trigger_seq, packet_seq, ps), flags, header, blocks)| {
                let mut packet = Packet {
                    kind: if is_data { PacketKind::Data } else { PacketKind::Ack },
                    flags: Flags::from_bits(flags).expect("all have a meaning"),
                    seq,
                    trigger_seq: if is_data { 0 } else { trigger_seq },
                    packet_seq,
                    timestamp: Time::from_ps(ps),
                    header,
                    ..Packet::default()
                };
                for (start, length) in blocks.into_iter().filter(|_| !is_data) {
                    let end = (start + length).min(wire::MAX_SEQ);
                    packet.sack[usize::from(packet.sack_len)] = SackBlock { start, end };
                    packet.sack_len += 1;
                }
                packet
            },
        )
    })
}

fn same(left: &Packet, right: &Packet) -> bool {
    format!("{left:?}") == format!("{right:?}")
}

fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = [0; wire::MAX];
    let length = wire::encode(packet, &mut bytes).expect("there is room");
    bytes[..length].to_vec()
}

proptest! {
    #[test]
    fn what_is_written_is_read(packet in packet(), payload in prop::collection::vec(any::<u8>(), 0..50)) {
        let mut bytes = encoded(&packet);
        let length = bytes.len();
        bytes.extend(payload);
        let (read, payload_at) = wire::decode(&bytes).unwrap();
        prop_assert_eq!(payload_at, length);
        let mut expected = packet.clone();
        expected.flags.remove(ECN);
        prop_assert!(same(&read, &expected), "{read:?} for {expected:?}");
        // A router sees the same, but for what it has no use for.
        let peeked = wire::peek(&bytes).unwrap();
        prop_assert_eq!(peeked.header, packet.header);
        prop_assert_eq!((peeked.kind, peeked.seq, peeked.flags), (read.kind, read.seq, read.flags));
    }

    #[test]
    fn a_part_of_it_is_truncated(packet in packet()) {
        let bytes = encoded(&packet);
        for length in 0..bytes.len() {
            prop_assert_eq!(wire::decode(&bytes[..length]).unwrap_err(), Error::Truncated);
            prop_assert!(wire::encode(&packet, &mut vec![0; length]).is_none());
        }
    }

    #[test]
    fn there_is_one_way_to_write_what_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..150)) {
        // Half of them get past the first bytes.
        for begin in [&[][..], b"WD\x10", b"WD\x11"] {
            let mut bytes = bytes.clone();
            bytes.splice(..begin.len().min(bytes.len()), begin.iter().copied());
            if let Ok((packet, length)) = wire::decode(&bytes) {
                prop_assert_eq!(&encoded(&packet), &bytes[..length]);
            }
        }
    }

    #[test]
    fn a_router_changes_flags_and_its_header(packet in packet(), flags in 0..=Flags::ALL.bits(), by in 0.1..0.9) {
        let before = encoded(&packet);
        let mut changed = packet.clone();
        changed.flags = Flags::from_bits(flags).unwrap();
        if let CongestionHeader::Xcp { delta, .. } = &mut changed.header {
            *delta *= by;
        }
        let mut bytes = before.clone();
        wire::rewrite(&changed, &mut bytes).unwrap();
        let mut expected = changed.clone();
        expected.flags.remove(ECN);
        prop_assert!(same(&wire::decode(&bytes).unwrap().0, &expected));
        // No other header fits in its place, and then nothing is changed.
        let other = Packet {
            header: if matches!(packet.header, CongestionHeader::EstcpBits { .. }) {
                CongestionHeader::None
            } else {
                CongestionHeader::EstcpBits { bits: 1 }
            },
            ..changed
        };
        let before = bytes.clone();
        prop_assert!(matches!(wire::rewrite(&other, &mut bytes), Err(Error::Tag(_))));
        prop_assert_eq!(bytes, before);
    }
}

/// The example of docs/wire.md.
#[test]
fn the_format_is_that_of_its_page() {
    let packet = Packet {
        kind: PacketKind::Ack,
        flags: Flags::ECN_ECHO.with(Flags::CONGESTION_EXPERIENCED),
        sack_len: 1,
        seq: 1000,
        trigger_seq: 1003,
        packet_seq: 1007,
        timestamp: Time::ZERO + Duration::from_secs(1),
        header: CongestionHeader::XcpReverse { feedback: -1500.0 },
        sack: [SackBlock { start: 1003, end: 1004 }, SackBlock::default(), SackBlock::default()],
        ..Packet::default()
    };
    let text: String = encoded(&packet).iter().map(|byte| format!("{byte:02x}")).collect();
    // -1500 is -1.46484375 x 2^10: sign 1, exponent 1023 + 10 = 409 in hexadecimal, and .46484375
    // is 0.77 in it.
    let expected = [
        "5744",
        "11",
        "02",
        "0004",
        "01",
        "00", // WD, version 1 and kind 1, tag 2, ECE, a block
        "00000000000003ef",
        "00000000000003e8",
        "000000e8d4a51000", // 1007, 1000, 10^12 ps
        "c097700000000000", // -1500
        "00000000000003eb",
        "00000000000003eb",
        "00000000000003ec", // 1003, 1003, 1004
    ];
    assert_eq!(text, expected.concat());
    let page = include_str!("../../../docs/wire.md");
    for field in expected {
        assert!(page.contains(field), "{field} is not on the page");
    }
}

#[test]
fn malformed_bytes_are_refused_with_a_reason() {
    let data = Packet {
        header: CongestionHeader::Xcp {
            rtt: 0.1,
            inter_packet: 0.01,
            delta: 0.0,
            congestion_flag: 0,
        },
        ..Packet::default()
    };
    let spoiled = |at: usize, with: &[u8]| {
        let mut bytes = encoded(&data);
        bytes[at..at + with.len()].copy_from_slice(with);
        wire::decode(&bytes).unwrap_err().to_string()
    };
    let nan = f64::NAN.to_be_bytes();
    for (at, with, expected) in [
        (0, &b"WX"[..], "the datagram does not begin with WD"),
        (2, &[0x20], "the packet has version 2 of the format, this is version 1"),
        (2, &[0x17], "there is no kind 7 of packets"),
        (3, &[2], "no congestion header of packets of this kind has tag 2"),
        (3, &[99], "no congestion header of packets of this kind has tag 99"),
        (4, &[0, 1], "the flags has a value that it cannot have"),
        (4, &[4, 0], "the flags has a value that it cannot have"),
        (6, &[1], "the number of SACK blocks has a value that it cannot have"),
        (7, &[1], "the byte before the packet's number has a value that it cannot have"),
        (8, &[0xff; 8], "the packet's number has a value that it cannot have"),
        (32, &nan, "XCP's RTT has a value that it cannot have"),
        (40, &(-1.0_f64).to_be_bytes(), "XCP's X has a value that it cannot have"),
        (
            48,
            &f64::INFINITY.to_be_bytes(),
            "XCP's Delta_Throughput has a value that it cannot have",
        ),
    ] {
        assert_eq!(spoiled(at, with), expected);
    }
    assert_eq!(wire::decode(&[]).unwrap_err().to_string(), "the datagram ends within the packet");
    let datagram = Packet { kind: PacketKind::Datagram, ..Packet::default() };
    assert!(wire::encode(&datagram, &mut [0; wire::MAX]).is_none());
}

/// A sender and a receiver, a round trip of 50 ms, and someone on the path who changes what passes.
struct Path {
    sender: Sender,
    receiver: Receiver,
    now: Time,
    /// Packets in flight with their arrival times.
    data: Vec<(Time, Packet)>,
    acks: Vec<(Time, Packet)>,
}

impl Path {
    fn new(protocol: &Protocol) -> Self {
        let config =
            EndpointConfig { initial_window: 10.0, rwnd: 200, ..EndpointConfig::default() };
        Path {
            sender: Sender::new(protocol, &config, 1, "sender"),
            receiver: Receiver::new(&protocol.feedback, &config),
            now: Time::ZERO,
            data: Vec::new(),
            acks: Vec::new(),
        }
    }

    /// One event after another up to `until`; `tamper` may change each acknowledgment, or add bytes
    /// of its own.
    fn run(&mut self, until: Time, mut tamper: impl FnMut(&Packet) -> Vec<Packet>) {
        let one_way = Duration::from_millis(25);
        loop {
            let mut packet = Packet::default();
            while self.sender.poll_transmit(self.now, &mut packet) {
                self.data.push((self.now + one_way, packet.clone()));
            }
            let first =
                |queue: &Vec<(Time, Packet)>| queue.first().map_or(Time::NEVER, |(at, _)| *at);
            let timers = (self.sender.next_timer(), self.receiver.next_timer());
            let next = first(&self.data).min(first(&self.acks)).min(timers.0).min(timers.1);
            if next > until || self.sender.is_done() {
                return;
            }
            self.now = next.max(self.now);
            if first(&self.data) <= self.now {
                let (_, mut packet) = self.data.remove(0);
                if self.receiver.on_data(self.now, &mut packet) {
                    self.acks.push((self.now + one_way, packet));
                }
            } else if first(&self.acks) <= self.now {
                let (_, ack) = self.acks.remove(0);
                for ack in tamper(&ack) {
                    self.sender.on_ack(self.now, &ack);
                }
            } else if timers.0 <= self.now {
                self.sender.on_timer(self.now);
            } else if self.receiver.on_timer(self.now, &mut packet) {
                self.acks.push((self.now + one_way, packet));
            }
        }
    }
}

fn bytes(stream: &mut Stream, most: usize) -> usize {
    (stream.uniform() * most as f64) as usize
}

/// Whatever bytes come in place of acknowledgments and data: endpoints take what can be read, and
/// go on.
#[test]
fn no_bytes_hurt_an_endpoint() {
    for (number, protocol) in PROTOCOLS.iter().enumerate() {
        let mut path = Path::new(protocol);
        path.sender.offer_until(u64::MAX);
        let mut stream = Stream::new(number as u64, "damage", "test");
        let mut read = 0;
        path.run(Time::ZERO + Duration::from_secs(5), |ack| {
            let mut damaged = encoded(ack);
            for _ in 0..1 + bytes(&mut stream, 3) {
                let at = 4 + bytes(&mut stream, damaged.len() - 4);
                damaged[at] ^= 1 << bytes(&mut stream, 8);
            }
            let found = wire::decode(&damaged).ok().map(|(packet, _)| packet);
            read += usize::from(found.is_some());
            found.into_iter().chain([ack.clone()]).collect()
        });
        assert!(read > 20, "{}: {read} could be read", protocol.name);
        let window = path.sender.cwnd();
        assert!(window.is_finite() && window >= 0.0, "{}: {window}", protocol.name);
        // A receiver that is sent anything.
        let mut data = Packet { size: 1000, ..Packet::default() };
        for _ in 0..1000 {
            data.seq = bytes(&mut stream, 1 << 30) as u64;
            data.packet_seq = data.seq;
            let mut forged = data.clone();
            path.receiver.on_data(path.now, &mut forged);
        }
    }
}

/// Congestion headers of any value that can be read, for two seconds: all is sent nevertheless, and
/// soon.
#[test]
fn forged_headers_do_nothing_that_lasts() {
    for (number, protocol) in PROTOCOLS.iter().enumerate() {
        let mut path = Path::new(protocol);
        path.sender.offer_until(20_000);
        let mut stream = Stream::new(number as u64, "forgery", "test");
        let mut forge = |ack: &Packet| {
            let mut forged = encoded(ack);
            let header = wire::FIXED..forged.len() - 8 - 16 * ack.sack_blocks().len();
            for at in header {
                if stream.uniform() < 0.3 {
                    forged[at] = bytes(&mut stream, 256) as u8;
                }
            }
            wire::decode(&forged).map_or(ack.clone(), |(packet, _)| packet)
        };
        path.run(Time::ZERO + Duration::from_secs(2), |ack| vec![forge(ack)]);
        path.run(Time::ZERO + Duration::from_secs(300), |ack| vec![ack.clone()]);
        assert!(path.sender.is_done(), "{}: {:?}", protocol.name, path.now);
    }
}

/// Senders know nothing of the path at first, and say so by numbers beyond all others; an
/// acknowledgment of two packets adds them up.
#[test]
fn first_packets_of_senders_and_their_acknowledgments_are_read() {
    for protocol in PROTOCOLS {
        for delayed_acks in [None, Some(Duration::from_millis(40))] {
            let config =
                EndpointConfig { delayed_acks, initial_window: 2.0, ..EndpointConfig::default() };
            let mut sender = Sender::new(protocol, &config, 1, "first");
            let mut receiver = Receiver::new(&protocol.feedback, &config);
            sender.offer_until(2);
            let mut packet = Packet::default();
            let mut answers = 0;
            let check = |packet: &Packet, what: &str| {
                let (read, _) = wire::decode(&encoded(packet))
                    .unwrap_or_else(|error| panic!("{what} of {}: {error}", protocol.name));
                assert_eq!(read.header, packet.header, "{what} of {}", protocol.name);
            };
            while sender.poll_transmit(Time::ZERO, &mut packet) {
                check(&packet, "data");
                if receiver.on_data(Time::ZERO, &mut packet) {
                    check(&packet, "acknowledgment");
                    answers += 1;
                }
            }
            let at = receiver.next_timer();
            if at != Time::NEVER && receiver.on_timer(at, &mut packet) {
                check(&packet, "acknowledgment");
                answers += 1;
            }
            assert!(answers > 0, "{}", protocol.name);
        }
    }
}
