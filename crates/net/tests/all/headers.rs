//! Fields of outside packets that links read, and those that they may change.

use crate::common::{build, flagged, ipv4, ipv6, ours, read, udp, udp_sum, xcp};
use proptest::prelude::*;
use windward_core::network::RouterConfig;
use windward_core::packet::{CongestionHeader, Flags, NO_SEQ, Packet, PacketKind, SackBlock};
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_core::wire;
use windward_net::headers::codepoint;
use windward_net::port::{OutsidePacket, Port, Ports};
use windward_netns::packet::{Ecn, Header, checksum};
use windward_sim::Simulation;
use windward_sim::stack::{Codepoint, End};

/// A port whose packets cross one link that is described by these keys, and back another.
struct Bench {
    simulation: Simulation,
    port: Port,
    out: Vec<OutsidePacket>,
}

impl Bench {
    fn new(link: &str) -> Self {
        let text = format!(
            "duration = '1h'\n\
             links = [{{ name = 'link', from = 'a', to = 'b', delay = '0s', {link}, \
             reverse = {{ rate = '1Gbit', queue = '1000p' }} }}]\n\
             flows = [{{ group = 'outside', protocol = 'outside:port', from = 'a', to = 'b' }}]"
        );
        let ports = Ports::new();
        let mut simulation = Simulation::new(&build(&text, &ports));
        simulation.advance(Time::ZERO);
        Bench { simulation, port: ports.take().remove(0), out: Vec::new() }
    }

    /// Sends packets at once.
    fn send(&mut self, end: End, packets: impl IntoIterator<Item = Vec<u8>>) {
        for packet in packets {
            self.port.push(end, &packet, codepoint(&packet));
        }
        self.simulation.wake(0, end);
    }

    /// Runs for this number of milliseconds. Returns the packets that left.
    fn run(&mut self, ms: u64) -> Vec<OutsidePacket> {
        self.simulation.advance(self.simulation.now() + Duration::from_millis(ms));
        self.out.extend(std::iter::from_fn(|| self.port.pop()));
        std::mem::take(&mut self.out)
    }
}

/// The port from which each packet was sent.
fn sources(out: &[OutsidePacket]) -> Vec<u16> {
    out.iter().map(|p| u16::from_be_bytes([p.bytes[20], p.bytes[21]])).collect()
}

#[test]
fn a_router_writes_into_the_header_and_corrects_the_checksum() {
    // 8 Mbit/s, a byte a microsecond. Packets of 1000 bytes with RTT 100 ms, 20 a window.
    for version in [4, 6] {
        let mut bench = Bench::new("rate = '8Mbit', queue = '100p', router = 'xcp'");
        let packet = |seq| udp(version, 1, 9, 0, &ours(&xcp(seq, 0.1, 0.005, f64::MAX), 900));
        let mut deltas = Vec::new();
        for round in 0..50 {
            bench.send(End::Sender, (0..2).map(|n| packet(2 * round + n)));
            for out in bench.run(10) {
                let sent = packet(read(&out.bytes).seq);
                assert_eq!((out.bytes.len(), udp_sum(&out.bytes)), (sent.len(), 0));
                let CongestionHeader::Xcp { rtt, inter_packet, delta, .. } =
                    read(&out.bytes).header
                else {
                    panic!("another header")
                };
                assert_eq!((rtt, inter_packet), (0.1, 0.005));
                deltas.push(delta);
                // Only the checksum and Delta_Throughput.
                let at = if version == 4 { 20 } else { 40 };
                let same = |range: std::ops::Range<usize>| out.bytes[range.clone()] == sent[range];
                assert!(same(0..at + 6) && same(at + 8..at + 8 + 48) && same(at + 64..sent.len()));
            }
        }
        assert_eq!(deltas.len(), 100);
        // 200 kB/s of 1 MB/s are used: each packet is granted a part of the rest, a capacity at
        // most in an interval.
        let last = *deltas.last().unwrap();
        assert!(deltas[..5].iter().all(|delta| *delta == 0.0), "nothing in the first interval");
        assert!(last > 1000.0 && last < 1e6, "{last}");
    }
}

#[test]
fn a_checksum_of_zero_is_none_over_ipv4_and_is_never_written() {
    let packet = xcp(0, 0.1, 0.005, 5000.0);
    let mut bench = Bench::new("rate = '8Mbit', queue = '100p', router = 'xcp'");
    let mut without = udp(4, 1, 9, 0, &ours(&packet, 100));
    without[26..28].fill(0);
    bench.send(End::Sender, [without]);
    let out = bench.run(10);
    assert_ne!(read(&out[0].bytes).header, packet.header);
    assert_eq!(out[0].bytes[26..28], [0, 0]);
    // Ports are chosen such that the sum after the change would be zero.
    for version in [4, 6] {
        let at = if version == 4 { 20 } else { 40 };
        let granted = xcp(0, 0.1, 0.005, 0.0);
        let find = |port: &u16| {
            let after = udp(version, 1, *port, 0, &ours(&granted, 100));
            after[at + 6..at + 8] == [0xff, 0xff]
        };
        let port = (0..u16::MAX).find(find).unwrap();
        bench.send(End::Sender, [udp(version, 1, port, 0, &ours(&packet, 100))]);
        let out = &bench.run(10)[0];
        assert_eq!(read(&out.bytes).header, granted.header);
        assert_eq!((&out.bytes[at + 6..at + 8], udp_sum(&out.bytes)), (&[0xff, 0xff][..], 0));
    }
}

#[test]
fn marks_are_in_the_header_and_both_codepoints_stay() {
    let mut bench = Bench::new(
        "rate = '8Mbit', queue = '100p', router = { kind = 'ecn-threshold', threshold = 2 }",
    );
    // One is in transmission; of five that wait the last two find more than two.
    for (tos, before) in [(0xb8, Ecn::NotEct), (0xba, Ecn::Ect0), (0xb9, Ecn::Ect1)] {
        for version in [4, 6] {
            bench.send(End::Sender, (0..6).map(|_| udp(version, 1, 9, tos, &[0; 972])));
            let out = bench.run(100);
            let fields: Vec<Ecn> =
                out.iter().map(|p| Header::parse(&p.bytes).unwrap().ecn).collect();
            let marked = if before == Ecn::NotEct { 0 } else { 2 };
            assert_eq!(fields.iter().filter(|ecn| **ecn == Ecn::Ce).count(), marked);
            assert_eq!(fields.iter().filter(|ecn| **ecn == before).count(), 6 - marked);
            if version == 4 {
                assert!(out.iter().all(|p| checksum(&p.bytes[..20]) == 0));
                assert!(out.iter().all(|p| p.bytes[1] & !3 == 0xb8), "all but two bits stay");
            }
        }
    }
}

#[test]
fn flow_queues_go_by_addresses_and_ports() {
    let flow_queues = "rate = '8Mbit', queue = '100p', aqm = 'fq-codel'";
    let mut bench = Bench::new(flow_queues);
    // Twenty of one flow and one of another, which is new and goes before most of them.
    let burst = |other: Vec<u8>| (0..20).map(|_| udp(4, 1, 100, 0, &[0; 972])).chain([other]);
    bench.send(End::Sender, burst(udp(4, 1, 200, 0, &[1; 72])));
    let place = sources(&bench.run(100)).iter().position(|port| *port == 200);
    assert!(place.is_some_and(|place| place < 4), "{place:?}");
    // Of another host, or another protocol.
    bench.send(End::Sender, burst(udp(4, 2, 100, 0, &[1; 72])));
    let place = bench.run(100).iter().position(|p| p.bytes[15] == 2);
    assert!(place.is_some_and(|place| place < 4), "{place:?}");
    bench.send(End::Sender, burst(ipv4(1, 6, 0, 0, &[0; 80])));
    let place = bench.run(100).iter().position(|p| p.bytes[9] == 6);
    assert!(place.is_some_and(|place| place < 4), "{place:?}");
    // All fragments of a protocol between two hosts are one flow, for any ports.
    let mut bench = Bench::new(flow_queues);
    let fragment = |n: u8| ipv4(1, 17, 0, 0x2000 | u16::from(n), &[n; 980]);
    bench.send(End::Sender, (0..20).map(fragment));
    let order: Vec<u8> = bench.run(100).iter().map(|p| p.bytes[20]).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>());
    // Over IPv6 the ports are behind extension headers: destination options of eight bytes.
    let option = |port: u16, size: usize| {
        let datagram = &udp(6, 1, port, 0, &vec![0; size])[40..];
        ipv6(1, 60, 0, &[&[17, 0, 1, 4, 0, 0, 0, 0], datagram].concat())
    };
    let packets = (0..20).map(|_| option(100, 900)).chain([option(200, 50)]);
    bench.send(End::Sender, packets);
    let place = bench.run(100).iter().position(|p| p.bytes.len() < 200);
    assert!(place.is_some_and(|place| place < 4), "{place:?}");
}

#[test]
fn figures_of_the_flow_are_those_of_the_port() {
    let mut bench = Bench::new("rate = '8Mbit', queue = '3p', aqm = 'fq-codel'");
    bench.send(End::Sender, (0..10).map(|n| udp(4, 1, n, 0, &[0; 972])));
    // Packets in the other direction do not count as lost data, whatever their kind.
    let data = ours(&flagged(0, Flags::NONE), 100);
    bench.send(End::Receiver, (0..5).map(|n| udp(4, 1, n, 0, &data)));
    let out = bench.run(100);
    assert_eq!(out.iter().filter(|p| p.end == End::Sender).count(), 5);
    let delivered = out.len() - 5;
    let outcome = bench.simulation.finish();
    let flow = &outcome.flows[0];
    assert_eq!((flow.packets_sent, outcome.links[0].arrived), (10, 10));
    assert_eq!(outcome.links[0].dropped, 10 - delivered as u64);
    assert!((flow.true_loss - (1.0 - delivered as f64 / 10.0)).abs() < 1e-12);
}

#[test]
fn classes_go_by_the_congestion_header() {
    let classes =
        "rate = '8Mbit', queue = '50p', classes = { none = {}, xcp = {}, xtcp = {}, estcp = {} }";
    let ack = Packet { kind: PacketKind::Ack, ..flagged(0, Flags::NONE) };
    let bits = CongestionHeader::EstcpBits { bits: 0 };
    let window = CongestionHeader::XcpWindow { window: 10.0, congestion_flag: 0 };
    let with = |header| Packet { header, ..ack.clone() };
    for (small, own_queue) in [
        (udp(4, 1, 9, 0, &ours(&xcp(0, 0.1, 0.01, 0.0), 10)), true),
        (udp(6, 1, 9, 0, &ours(&with(CongestionHeader::XcpReverse { feedback: 0.0 }), 10)), true),
        (udp(4, 1, 9, 0, &ours(&with(window), 10)), true),
        (udp(4, 1, 9, 0, &ours(&with(bits), 10)), true),
        (udp(4, 1, 9, 0, &ours(&flagged(0, Flags::XTCP), 10)), true),
        (udp(4, 1, 9, 0, &ours(&flagged(0, Flags::NONE), 10)), false),
        (udp(4, 1, 9, 0, b"WD no datagram of ours, whatever it begins with"), false),
        (ipv4(1, 6, 0, 0, &[0; 60]), false),
    ] {
        // Twenty plain ones come first; packets with their own queue do not wait for them.
        let mut bench = Bench::new(classes);
        let plain = (0..20).map(|_| udp(4, 1, 100, 0, &[0; 972]));
        bench.send(End::Sender, plain.chain([small]));
        let place = bench.run(100).iter().position(|p| p.bytes.len() < 500).unwrap();
        assert_eq!(place < 4, own_queue, "{place}");
    }
}

#[test]
fn what_is_damaged_goes_on_only_where_its_header_says_that_it_can() {
    let lossy = "rate = '8Mbit', queue = '50p', loss = 1";
    let plain = ours(&flagged(7, Flags::NONE), 100);
    let others = [
        udp(4, 1, 9, 0, &ours(&xcp(0, 0.1, 0.01, 0.0), 10)),
        udp(4, 1, 9, 0, b"what somebody else sends"),
        ipv4(1, 6, 0, 0, &[0; 60]),
    ];
    for (keys, goes_on) in [("notifier = 'configured'", 1), ("notifier = 'off'", 0)] {
        let mut bench = Bench::new(&format!("{lossy}, {keys}"));
        bench.send(End::Sender, others.clone());
        bench.send(End::Sender, [udp(4, 1, 9, 0, &plain)]);
        let out = bench.run(100);
        assert_eq!(out.len(), goes_on, "{keys}");
        for out in out {
            assert_eq!(read(&out.bytes).flags, Flags::CORRUPTED);
            assert_eq!((read(&out.bytes).seq, udp_sum(&out.bytes)), (7, 0));
        }
    }
    // Cumulative, in band: the notifier multiplies (eten2004 section 4.1).
    let mut bench =
        Bench::new("rate = '8Mbit', queue = '50p', loss = 0.25, notifier = 'configured'");
    let header = CongestionHeader::Survival { probability: 0.5 };
    let data = Packet { header, ..flagged(0, Flags::NONE) };
    bench.send(End::Sender, (0..40).map(|_| udp(4, 1, 9, 0, &ours(&data, 100))));
    let out = bench.run(100);
    assert!(!out.is_empty());
    for out in out {
        let CongestionHeader::Survival { probability } = read(&out.bytes).header else { panic!() };
        assert!((probability - 0.375).abs() < 1e-12);
    }
}

/// A number, valid in a header or not.
fn number(stream: &mut Stream) -> f64 {
    let extremes = [0.0, -0.0, f64::MIN_POSITIVE, 5e-324, 1e-300, 1e8, 1e12, 1e15, -1e15, f64::MAX];
    match (stream.uniform() * 4.0) as usize {
        0 => extremes[(stream.uniform() * extremes.len() as f64) as usize],
        1 => f64::from_bits(stream.bits()),
        2 => stream.uniform(),
        _ => (stream.uniform() - 0.5) * 1e6,
    }
}

fn below(stream: &mut Stream, most: usize) -> usize {
    (stream.uniform() * most as f64) as usize
}

/// A packet of Windward with any header, valid or not.
fn any_packet(stream: &mut Stream) -> Packet {
    let header = match below(stream, 10) {
        0 => CongestionHeader::None,
        1..=3 => CongestionHeader::Xcp {
            rtt: number(stream),
            inter_packet: number(stream),
            delta: number(stream),
            congestion_flag: stream.bits() as u16,
        },
        4 => CongestionHeader::XcpReverse { feedback: number(stream) },
        5 => CongestionHeader::Estcp {
            phase: stream.bits() >> below(stream, 64),
            g: number(stream),
            age: number(stream),
            filled: number(stream) as f32,
        },
        6 => CongestionHeader::EstcpBits { bits: stream.bits() as u8 >> 5 },
        7 => CongestionHeader::Survival { probability: number(stream) },
        8 => CongestionHeader::Corrupted { recent: [stream.bits() >> 2, NO_SEQ, 5] },
        _ => CongestionHeader::XcpWindow { window: number(stream), congestion_flag: 1 },
    };
    let is_ack = stream.bits() & 1 == 0;
    let block = SackBlock { start: 3, end: 9 };
    Packet {
        kind: if is_ack { PacketKind::Ack } else { PacketKind::Data },
        flags: Flags::from_bits(stream.bits() as u16 & 1023).unwrap(),
        seq: stream.bits() >> below(stream, 64),
        packet_seq: stream.bits() >> 2,
        sack_len: if is_ack { below(stream, 4) as u8 } else { 0 },
        sack: [block; 3],
        header,
        ..Packet::default()
    }
}

/// A packet of any content, with a number at its end that identifies it.
fn any_bytes(stream: &mut Stream, number: u32) -> Vec<u8> {
    let mut payload = match below(stream, 8) {
        0 => (0..below(stream, 120)).map(|_| stream.bits() as u8).collect(),
        _ => ours(&any_packet(stream), below(stream, 100)),
    };
    if stream.uniform() < 0.3 && !payload.is_empty() {
        for _ in 0..=below(stream, 3) {
            let at = below(stream, payload.len());
            payload[at] = stream.bits() as u8;
        }
    }
    payload.extend_from_slice(&number.to_be_bytes());
    let (host, tos) = (below(stream, 256) as u8, stream.bits() as u8);
    let version = if stream.bits() & 1 == 0 { 4 } else { 6 };
    let mut packet = udp(version, host, stream.bits() as u16, tos, &payload);
    if stream.uniform() < 0.2 {
        let at = below(stream, 60.min(packet.len() - 4));
        packet[at] = stream.bits() as u8;
    }
    packet
}

/// Sends random packets through a link with this router. Packets change only where links may change
/// them, and remain datagrams of Windward exactly if they were.
fn storm(keys: &str, packets: u32) -> Bench {
    let mut bench = Bench::new(&format!("rate = '1Gbit', queue = '60p', {keys}"));
    let mut stream = Stream::new(1, "storm", keys);
    let mut sent: Vec<Vec<u8>> = Vec::new();
    let mut seen = 0;
    while (sent.len() as u32) < packets {
        let first = sent.len() as u32;
        let burst = 1 + below(&mut stream, 99) as u32;
        sent.extend((first..first + burst).map(|number| any_bytes(&mut stream, number)));
        bench.send(End::Sender, sent[first as usize..].iter().cloned());
        // 8 us a packet of 1000 bytes.
        let pause = Duration::from_micros(below(&mut stream, 200) as u64);
        bench.simulation.advance(bench.simulation.now() + pause);
        for out in std::iter::from_fn(|| bench.port.pop()) {
            let number = out.bytes.last_chunk().map(|number| u32::from_be_bytes(*number)).unwrap();
            check(&sent[number as usize], &out.bytes);
            seen += 1;
        }
    }
    assert!(seen > packets / 20, "{keys}: {seen} of {packets}");
    bench
}

fn check(before: &[u8], after: &[u8]) {
    assert_eq!(before.len(), after.len());
    let Ok(header) = Header::parse(before) else {
        assert_eq!(before, after, "bytes that are not an IP packet do not change");
        return;
    };
    assert!(Header::parse(after).is_ok());
    if before[0] >> 4 == 4 {
        let length = header.header_len;
        let right = |packet: &[u8]| checksum(&packet[..length]) == 0;
        assert_eq!(right(before), right(after), "a right checksum stays right");
    }
    let end = header.total_len;
    let is_plain = header.header_len == if before[0] >> 4 == 4 { 20 } else { 40 };
    if is_plain && before[6] == after[6] && end == before.len() && udp_sum(before) == 0 {
        assert_eq!(udp_sum(after), 0, "a right checksum stays right");
    }
    let payload = |packet: &[u8]| {
        let at = header.header_len + 8;
        packet.get(at..end).map(|bytes| wire::decode(bytes).is_ok())
    };
    assert_eq!(payload(before), payload(after), "it is one of ours if it was");
}

#[test]
fn strangers_neither_stop_nor_poison_routers() {
    let routers: Vec<&str> = RouterConfig::forms().iter().map(|(words, _)| words.name).collect();
    let each = 1_000_000 / (routers.len() as u32 + 1) + 1;
    assert!(routers.len() >= 7);
    for router in routers {
        let mut bench = storm(&format!("router = '{router}'"), each);
        // Afterwards: a flow with RTT 100 ms and a window of 20 is granted what can be.
        bench.run(2000);
        for round in 0..30_u64 {
            let packet = |n| udp(4, 1, 9, 2, &ours(&xcp(round * 2 + n, 0.1, 0.005, 1e5), 900));
            bench.send(End::Sender, (0..2).map(packet));
            let out = bench.run(10);
            assert_eq!(out.len(), 2, "{router}");
            for out in out {
                let CongestionHeader::Xcp { delta, .. } = read(&out.bytes).header else { panic!() };
                // Both directions of the grant are within the capacity of 125 MB/s.
                let what = "what is forged comes from no queue";
                assert!(delta.abs() <= 1.25e8 || router.starts_with("forg"), "{delta}: {what}");
                if router == "xcp" && round > 20 {
                    assert!(delta > 0.0, "{delta}");
                }
            }
        }
    }
    storm("aqm = 'fq-codel'", each);
}

proptest! {
    #[test]
    fn no_bytes_stop_a_port(bytes: Vec<u8>, first in prop::sample::select(vec![0x45, 0x46, 0x60, 0]), protocol: u8) {
        let mut bytes = bytes;
        for (at, value) in [(0, first), (6, protocol), (9, protocol)] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        if bytes.len() >= 40 {
            // Correct lengths, so that bytes behind the header are read.
            let length = bytes.len() as u16;
            let (at, length) = if first == 0x60 { (4, length - 40) } else { (2, length) };
            bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        let mut bench = Bench::new("rate = '1Gbit', queue = '60p', aqm = 'fq-codel'");
        bench.send(End::Sender, [bytes.clone()]);
        let out = bench.run(10);
        prop_assert_eq!(out.len(), 1);
        prop_assert_eq!(&out[0].bytes, &bytes);
        prop_assert!(out[0].at < Time::ZERO + Duration::from_millis(1));
        prop_assert_eq!(out[0].ecn, codepoint(&bytes));
    }
}

#[test]
fn what_is_lost_is_told_as_it_came_in_and_what_is_behind_a_packet_takes_no_time() {
    let mut bench = Bench::new("rate = '8Mbit', queue = '3p', router = 'xcp'");
    bench.port.watch_losses();
    // A number behind the end of each packet; of ours as well, in which the router writes.
    let packet = |number: u8| {
        let mut packet = udp(4, 1, 9, 2, &ours(&xcp(0, 0.1, 0.005, 1e5), 916));
        packet.extend([number; 500]);
        packet
    };
    bench.send(End::Sender, (0..6).map(packet));
    let out = bench.run(100);
    let numbers: Vec<u8> = out.iter().map(|p| *p.bytes.last().unwrap()).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    // 1002 bytes at a byte a microsecond each.
    assert_eq!(out[3].at, Time::ZERO + Duration::from_micros(4 * 1002));
    let lost: Vec<Vec<u8>> =
        std::iter::from_fn(|| bench.port.pop_lost()).map(|p| p.bytes).collect();
    assert_eq!(lost, [packet(4), packet(5)]);
    // Losses of a channel too, except for packets that continue damaged.
    let mut bench = Bench::new("rate = '8Mbit', queue = '9p', loss = 1, notifier = 'configured'");
    bench.port.watch_losses();
    let damaged = udp(4, 1, 9, 0, &ours(&flagged(7, Flags::NONE), 100));
    bench.send(End::Sender, [udp(4, 1, 9, 0, b"of somebody"), damaged]);
    assert_eq!(bench.run(100).len(), 1);
    assert_eq!(bench.port.pop_lost().unwrap().bytes, udp(4, 1, 9, 0, b"of somebody"));
    assert_eq!(bench.port.pop_lost(), None);
}

#[test]
fn a_codepoint_that_the_network_takes_is_gone() {
    let text = "duration = '10s'\n\
        links = [{ name = 'link', from = 'a', to = 'b', rate = '8Mbit', delay = '1ms' }]\n\
        flows = [{ group = 'outside', protocol = 'outside:port', from = 'a', to = 'b', ecn = false }]";
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(text, &ports));
    let port = ports.take().remove(0);
    let packet = udp(4, 1, 9, 2, &[0; 100]);
    port.push(End::Sender, &packet, Codepoint::Ect0);
    simulation.wake(0, End::Sender);
    simulation.advance(Time::ZERO + Duration::from_millis(10));
    let out = port.pop().unwrap();
    assert_eq!(out.ecn, Codepoint::NotEct);
    assert_eq!(out.bytes, udp(4, 1, 9, 0, &[0; 100]));
}
