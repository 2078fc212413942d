//! Tests of a server without a socket, and of both ends with sockets on loopback. They do not
//! depend on the speed of the machine.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use proptest::prelude::*;
use windward_core::packet::{CongestionHeader, Flags, Packet, PacketKind, SackBlock};
use windward_core::protocols;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_core::wire::{self, VERSION};

use super::connection::{Connection, Envelope};
use super::frame::{FrameKind, Greeting, REQUEST_LEN};
use super::keys::{COOKIE_LEN, NONCE_LEN, SessionKeys};
use super::server::Sessions;
use super::socket::Outbox;
use super::*;

pub(super) const CLIENT: [u8; NONCE_LEN] = [7; NONCE_LEN];

fn psk(byte: u8) -> Option<Psk> {
    Some(Psk::new(&[byte; 32]).expect("long enough"))
}

fn server_config(psk: Option<Psk>) -> ServerConfig {
    ServerConfig { max_connections: 8, max_per_address: 4, psk, ..ServerConfig::default() }
}

/// A test with these parameters too.
pub(super) fn set(mut test: Test, parameters: &[(&str, &str)]) -> Test {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    test.parameters.extend(parameters.iter().map(owned));
    test
}

fn test_of(protocol: &str, reverse: bool) -> Test {
    let test = Test { reverse, seconds: 60, packets: 334, ..Test::of(protocol) };
    set(test, &[("packet_size", "1228"), ("ecn", "true")])
}

/// A datagram of at least `length` bytes with this packet, without a key.
pub(super) fn datagram_of(packet: &Packet, length: usize, connection: u64, number: u64) -> Vec<u8> {
    let mut bytes = vec![0; length.max(300)];
    let end = wire::encode(packet, &mut bytes).expect("there is room");
    bytes[end..end + 8].copy_from_slice(&connection.to_be_bytes());
    bytes[end + 8..end + 16].copy_from_slice(&number.to_be_bytes());
    bytes.truncate(length.max(end + 16));
    bytes
}

pub(super) fn host(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, last), port).into()
}

pub(super) fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// Answers of a server to a datagram.
pub(super) fn answers(
    sessions: &mut Sessions,
    now: Time,
    from: SocketAddr,
    bytes: &[u8],
) -> Vec<Vec<u8>> {
    let mut outbox = Outbox::default();
    sessions.receive(now, from, None, bytes, &mut outbox);
    outbox
        .datagrams()
        .map(|(to, bytes)| {
            assert_eq!(to, from);
            bytes.to_vec()
        })
        .collect()
}

/// Opens a connection as a client does. Returns the final answer of the server.
pub(super) fn open(
    sessions: &mut Sessions,
    now: Time,
    from: SocketAddr,
    key: Option<&Psk>,
    test: &Test,
) -> Greeting {
    let challenge = answers(sessions, now, from, &Greeting::Hello { client: CLIENT }.encode());
    let Some(Greeting::Challenge { cookie, .. }) = Greeting::decode(&challenge[0]) else {
        panic!("no challenge");
    };
    let keyed = key.is_some();
    let mut bytes = Greeting::Open { client: CLIENT, cookie, keyed, test: test.clone() }.encode();
    if let Some(key) = key {
        key.seal_greeting(&mut bytes);
    }
    let answer = answers(sessions, now, from, &bytes);
    assert_eq!(answer.len(), 1);
    assert_eq!(answers(sessions, now, from, &bytes), answer, "said again");
    Greeting::decode(&answer[0]).expect("a greeting")
}

/// The client's end of a connection that the server has accepted.
pub(super) fn client_end(
    from: SocketAddr,
    key: Option<&Psk>,
    test: &Test,
    accept: &Greeting,
) -> Connection {
    let Greeting::Accept { server, connection, .. } = accept else { panic!("{accept:?}") };
    let keys = key.map(|key| SessionKeys::new(key, &CLIENT, server, false));
    let (ids, plan) = ((*connection, from, keys), test.plan().expect("a plan"));
    Connection::new(Time::ZERO, ids, &plan, test, !test.reverse).expect("a connection")
}

fn sessions(psk: Option<Psk>) -> Sessions {
    Sessions::new(server_config(psk)).expect("random bytes")
}

/// The first datagrams of data of an upload.
fn first_data(connection: &mut Connection) -> Vec<Vec<u8>> {
    let mut outbox = Outbox::default();
    connection.transmit(Time::ZERO, &mut outbox);
    let data = outbox.datagrams().map(|(_, bytes)| bytes.to_vec()).collect();
    connection.sent(Time::ZERO, outbox.len());
    data
}

#[test]
fn a_sample_has_what_the_server_knows_as_receiver_and_a_connection_that_ends_once_more() {
    let mut sessions = sessions(None);
    let from = host(1, 1000);
    let test = set(test_of("newreno", false), &[("initial_window", "4")]);
    let accept = open(&mut sessions, Time::ZERO, from, None, &test);
    assert_eq!(sessions.sample(Time::ZERO, at(1)), [], "it has not started");
    let mut client = client_end(from, None, &test, &accept);
    let data = first_data(&mut client);
    assert_eq!(data.len(), 4);
    let ms = |ms| at(1) + Duration::from_millis(ms);
    // All are stamped at 0 s. The third overtakes the second, and takes 8 ms longer than the first.
    for (number, arrival) in [(0, ms(0)), (2, ms(8))] {
        answers(&mut sessions, arrival, from, &data[number]);
    }
    let shown = sessions.sample(Time::ZERO, ms(8)).remove(0);
    assert_eq!((shown.number, shown.peer, shown.reverse), (1, from, false));
    // 1228 bytes with the headers of UDP and IP.
    assert_eq!((shown.protocol.as_str(), shown.packet_size), ("newreno", 1228));
    assert_eq!((shown.state.delivered, shown.missing), (2, Some(1)));
    // An eighth of 8 ms, as the RTT is smoothed.
    let queueing = shown.queueing_delay_s.expect("a delay");
    assert!((queueing - 0.001).abs() < 1e-9, "{queueing}");
    for number in [1, 3] {
        answers(&mut sessions, ms(8), from, &data[number]);
    }
    let shown = sessions.sample(ms(8), ms(9)).remove(0);
    assert_eq!((shown.state.delivered, shown.missing), (4, Some(0)));

    let mut outbox = Outbox::default();
    let counts = client.counts(ms(15)).encode();
    client.push_control(FrameKind::End, &counts, &mut outbox);
    let end = outbox.datagrams().next().expect("an end").1.to_vec();
    answers(&mut sessions, ms(15), from, &end);
    assert_eq!(sessions.sample(ms(10), ms(20)).len(), 1);
    assert_eq!(sessions.sample(ms(20), ms(30)), []);
}

#[test]
fn with_a_key_no_bit_that_only_endpoints_write_can_be_changed() {
    let key = psk(1);
    let mut sessions = sessions(psk(1));
    let (from, test) = (host(1, 1000), test_of("xcp", false));
    let accept = open(&mut sessions, Time::ZERO, from, key.as_ref(), &test);
    let mut client = client_end(from, key.as_ref(), &test, &accept);
    let data = first_data(&mut client).remove(0);
    let xcp = 32..58;
    for byte in (0..data.len()).filter(|byte| !xcp.contains(byte) && *byte != 5) {
        let mut forged = data.clone();
        forged[byte] ^= 1;
        assert!(answers(&mut sessions, at(1), from, &forged).is_empty(), "byte {byte}");
    }
    // Nor can it be made longer.
    let mut longer = data.clone();
    longer.insert(100, 0);
    assert!(answers(&mut sessions, at(1), from, &longer).is_empty());
    // Changes that routers may make are accepted: XCP's demand set to zero.
    let mut routed = data.clone();
    routed[48..56].fill(0);
    assert_eq!(answers(&mut sessions, at(1), from, &routed).len(), 1);
}

#[test]
fn only_who_has_the_key_is_served() {
    let test = test_of("cubic", false);
    for (server, client) in [(psk(1), psk(2)), (psk(1), None), (None, psk(1))] {
        let mut sessions = sessions(server);
        let answer = open(&mut sessions, Time::ZERO, host(1, 9), client.as_ref(), &test);
        assert!(matches!(answer, Greeting::Refuse { refusal: Refusal::Key, .. }), "{answer:?}");
        assert_eq!(sessions.len(), 0);
    }
}

#[test]
fn connections_are_bounded_and_forgotten() {
    let mut sessions = sessions(None);
    let test = test_of("cubic", true);
    let mut accepted = 0;
    for last in 0..20 {
        for port in 1..=20 {
            let answer = open(&mut sessions, Time::ZERO, host(last, port), None, &test);
            match answer {
                Greeting::Accept { .. } => accepted += 1,
                Greeting::Refuse { refusal, .. } => assert_eq!(refusal, Refusal::Busy),
                _ => panic!("{answer:?}"),
            }
        }
    }
    assert_eq!((accepted, sessions.len()), (8, 8));
    // None of them started, and nothing is sent to any.
    let mut outbox = Outbox::default();
    sessions.on_timer(at(9), &mut outbox);
    assert_eq!(sessions.len(), 8);
    sessions.on_timer(at(10), &mut outbox);
    assert_eq!((sessions.len(), outbox.len()), (0, 0));
    assert_eq!(sessions.next_timer(), Time::NEVER);
}

#[test]
fn tests_that_make_no_sense_are_refused() {
    let mut sessions = sessions(None);
    let test = test_of("no such protocol", false);
    let answer = open(&mut sessions, Time::ZERO, host(1, 9), None, &test);
    assert!(matches!(answer, Greeting::Refuse { refusal: Refusal::Test, .. }), "{answer:?}");
    let stale = Greeting::Open {
        client: CLIENT,
        cookie: [0; COOKIE_LEN],
        keyed: false,
        test: test_of("cubic", true),
    };
    let answer = answers(&mut sessions, Time::ZERO, host(1, 9), &stale.encode());
    let answer = Greeting::decode(&answer[0]);
    assert!(
        matches!(answer, Some(Greeting::Refuse { refusal: Refusal::Cookie, .. })),
        "{answer:?}"
    );
    assert_eq!(sessions.len(), 0);
}

/// Random bytes, some of them similar to a datagram of the protocol.
fn noise(stream: &mut Stream, seen: &[Vec<u8>]) -> Vec<u8> {
    let seen = seen.get((stream.bits() % 24) as usize).cloned();
    let length = [3, 20, 44, 60, 124, 1199, REQUEST_LEN, 1400][(stream.bits() % 8) as usize];
    let mut bytes = seen.unwrap_or_else(|| {
        let mut bytes: Vec<u8> = (0..length).map(|_| stream.bits() as u8).collect();
        if bytes[0] & 1 == 0 {
            let kind = bytes[2] & 15;
            bytes[..3].copy_from_slice(&[b'W', b'D', VERSION << 4 | kind]);
        }
        bytes
    });
    for _ in 0..stream.bits() % 4 {
        let at = stream.bits() as usize % bytes.len();
        bytes[at] ^= 1 << (stream.bits() % 8);
    }
    if stream.bits().is_multiple_of(4) {
        bytes.truncate(stream.bits() as usize % bytes.len() + 1);
    }
    bytes
}

/// A datagram that an attacker on the path could make, from earlier datagrams or not.
fn noise_of(stream: &mut Stream, seen: &[Vec<u8>], can_rewrite: bool) -> Vec<u8> {
    if seen.is_empty() || stream.bits().is_multiple_of(4) {
        return noise(stream, &[]);
    }
    let mut bytes = seen[stream.bits() as usize % seen.len()].clone();
    match stream.bits() % 3 {
        0 => {} // A replay.
        1 => bytes.truncate(stream.bits() as usize % bytes.len()),
        // Without a key, a peer that knows the number of the connection counts as one of its ends.
        _ if !can_rewrite => {
            let (data, control) = (32..40, 4..12);
            let connection = if bytes[2] & 15 < 2 { data } else { control };
            for byte in &mut bytes[connection] {
                *byte ^= stream.bits() as u8;
            }
        }
        _ => {
            for _ in 0..=stream.bits() % 3 {
                let at = stream.bits() as usize % bytes.len();
                bytes[at] ^= 1 << (stream.bits() % 8);
            }
        }
    }
    bytes
}

/// Takes a transfer through a server and a client, with `flood` datagrams of noise at each of them
/// for each datagram of theirs. Returns the counts of both, and how many datagrams of noise each of
/// them was given.
fn flooded_transfer(key: Option<u8>, flood: usize, packets: u64) -> (Counts, Counts, u64) {
    let psk = || key.and_then(psk);
    let mut sessions = sessions(psk());
    let mut stream = Stream::new(1, "test", "flood");
    let from = host(1, 1000);
    let test = Test { packets, ..test_of("newreno", false) };
    let accept = open(&mut sessions, Time::ZERO, from, psk().as_ref(), &test);
    let mut client = client_end(from, psk().as_ref(), &test, &accept);
    // Recent datagrams of each direction.
    let mut seen: [Vec<Vec<u8>>; 2] = [Vec::new(), Vec::new()];
    let remember = |seen: &mut Vec<Vec<u8>>, bytes: &[u8]| {
        if seen.len() == 64 {
            seen.remove(0);
        }
        seen.push(bytes.to_vec());
    };
    let (mut noises, mut now) = (0, Time::ZERO);
    let (mut data, mut nothing) = (Outbox::default(), Outbox::default());
    let (mut is_data, mut numbers) = (true, std::collections::HashSet::new());
    while !client.is_done() {
        now += Duration::from_millis(10);
        data.clear();
        client.on_timer(now, &mut nothing);
        client.transmit(now, &mut data);
        client.sent(now, data.len());
        let sent: Vec<Vec<u8>> = data.datagrams().map(|(_, bytes)| bytes.to_vec()).collect();
        for bytes in sent {
            let number: [u8; 8] = *bytes[40..].first_chunk().expect("a number");
            is_data &= numbers.insert(number);
            for ack in answers(&mut sessions, now, from, &bytes) {
                let envelope = Envelope::read(&ack).expect("an acknowledgment");
                client.receive(now, from, None, envelope, &ack, &mut nothing);
                remember(&mut seen[1], &ack);
            }
            remember(&mut seen[0], &bytes);
            for at in 0..flood {
                noises += 1;
                // Half of it comes from the address of the client.
                let source = if at % 2 == 0 { from } else { host(9, 1 + (at % 999) as u16) };
                let bytes = noise_of(&mut stream, &seen[0], key.is_some());
                let answers = answers(&mut sessions, now, source, &bytes);
                assert!(answers.iter().map(Vec::len).sum::<usize>() <= bytes.len());
                let bytes = noise_of(&mut stream, &seen[1], key.is_some());
                if let Some(envelope) = Envelope::read(&bytes) {
                    client.receive(now, from, None, envelope, &bytes, &mut nothing);
                }
            }
            sessions.len();
        }
        assert!(nothing.is_empty(), "nothing answers noise");
        assert!(now < at(3000), "it does not come to an end");
    }
    assert!(is_data, "no number of a datagram is used twice");
    assert_eq!(sessions.len(), 1);
    let ours = client.counts(now);
    client.push_control(FrameKind::End, &ours.encode(), &mut nothing);
    let end = nothing.datagrams().next().expect("an end").1.to_vec();
    let result = answers(&mut sessions, now, from, &end).remove(0);
    let body = 20..20 + Counts::LEN;
    (ours, Counts::decode(&result[body]).expect("counts"), noises)
}

#[test]
fn with_a_key_half_a_million_forged_datagrams_at_each_end_change_nothing() {
    let (client, server, noises) = flooded_transfer(Some(1), 500, 1000);
    assert_eq!((client.sent, client.retransmissions), (1000, 0));
    assert_eq!((server.unique, server.duplicates, server.arrived), (1000, 0, 1000));
    assert!(noises >= 500_000);
    assert!(client.replayed > 10_000 && server.replayed > 10_000, "{client:?} {server:?}");
    assert!(client.invalid > 10_000 && server.invalid > 10_000, "{client:?} {server:?}");
}

#[test]
fn without_a_key_half_a_million_strange_and_replayed_datagrams_at_each_end_change_nothing() {
    let (client, server, noises) = flooded_transfer(None, 500, 1000);
    assert_eq!((client.sent, client.retransmissions), (1000, 0));
    assert_eq!((server.unique, server.duplicates, server.arrived), (1000, 0, 1000));
    assert!(noises >= 500_000);
    assert!(client.replayed > 10_000 && server.replayed > 10_000, "{client:?} {server:?}");
}

#[test]
fn without_a_key_what_an_end_forges_makes_no_state_and_no_panic() {
    // A peer, or an attacker on the path, may send anything: only the test fails.
    let mut sessions = sessions(None);
    let mut stream = Stream::new(1, "test", "garbage");
    let (from, test) = (host(1, 1000), test_of("upwind", false));
    let accept = open(&mut sessions, Time::ZERO, from, None, &test);
    let mut client = client_end(from, None, &test, &accept);
    let mut data = first_data(&mut client);
    data.push(Greeting::Hello { client: CLIENT }.encode());
    for number in 0..100_000u64 {
        let bytes = noise_of(&mut stream, &data, true);
        let now = Time::from_nanos(1000 * number);
        answers(&mut sessions, now, from, &bytes);
        let mut outbox = Outbox::default();
        if let Some(envelope) = Envelope::read(&bytes) {
            client.receive(now, from, None, envelope, &bytes, &mut outbox);
        }
        assert!(outbox.is_empty());
    }
    assert_eq!(sessions.len(), 1);
    assert!(sessions.totals().strange > 10_000);
}

/// Takes a transfer with a key over a path of 20 ms with a router on it; the counts of the sender
/// and its window in the end.
fn routed_transfer(protocol: &str, mut route: impl FnMut(&mut Vec<u8>)) -> (Counts, f64) {
    let (key, half) = (psk(1), Duration::from_millis(10));
    let mut sessions = sessions(psk(1));
    let (from, test) = (host(1, 1000), test_of(protocol, false));
    let accept = open(&mut sessions, Time::ZERO, from, key.as_ref(), &test);
    let mut client = client_end(from, key.as_ref(), &test, &accept);
    let (mut data, mut nothing, mut now) = (Outbox::default(), Outbox::default(), Time::ZERO);
    while !client.is_done() {
        data.clear();
        client.on_timer(now, &mut nothing);
        while client.transmit(now, &mut data) {}
        client.sent(now, data.len());
        let sent: Vec<Vec<u8>> = data.datagrams().map(|(_, bytes)| bytes.to_vec()).collect();
        now += half;
        let mut acks = Vec::new();
        for mut bytes in sent {
            route(&mut bytes);
            acks.extend(answers(&mut sessions, now, from, &bytes));
        }
        now += half;
        for ack in acks {
            let envelope = Envelope::read(&ack).expect("an acknowledgment");
            client.receive(now, from, None, envelope, &ack, &mut nothing);
        }
        assert!(now < at(3000), "it does not come to an end");
    }
    (client.counts(now), client.sample(now).cwnd)
}

#[test]
fn routers_are_heard_through_a_key() {
    // As a router does it: it finds the packet where the UDP payload begins.
    let rewrite = |change: fn(&mut Packet)| {
        move |bytes: &mut Vec<u8>| {
            let mut packet = wire::peek(bytes).expect("a packet");
            change(&mut packet);
            wire::rewrite(&packet, bytes).expect("the same header");
        }
    };
    // XCP's routers grant nothing: the window stays where it began.
    let (counts, cwnd) = routed_transfer(
        "xcp",
        rewrite(|packet| {
            if let CongestionHeader::Xcp { delta, .. } = &mut packet.header {
                *delta = 0.0;
            }
        }),
    );
    assert_eq!((counts.invalid, cwnd), (0, 2.0));
    let (_, plain) = routed_transfer("xcp", |_| {});
    assert!(plain > 2.0, "without a router it grows: {plain}");
    // XTCP's say that there is congestion.
    let (counts, flagged) =
        routed_transfer("lr-xtcp", rewrite(|packet| packet.flags.insert(Flags::CONGESTION)));
    let (_, plain) = routed_transfer("lr-xtcp", |_| {});
    assert_eq!(counts.invalid, 0);
    assert!(flagged < plain, "{flagged} {plain}");
}

#[test]
fn forged_congestion_headers_pass_and_cost_nothing_that_lasts() {
    // Routers write there, so that no key protects it. XCP's window follows the feedback; the
    // transfer is complete.
    let mut stream = Stream::new(3, "test", "headers");
    let (counts, cwnd) = routed_transfer("xcp", |bytes| {
        let forged = 1e9 * (stream.bits() % 2000) as f64 - 1e12;
        bytes[48..56].copy_from_slice(&forged.to_be_bytes()); // Delta_Throughput.
    });
    assert_eq!(counts.invalid, 0);
    assert!(cwnd <= MAX_RWND as f64);
}

#[test]
fn a_sender_that_ignores_the_window_fills_nothing() {
    // Any host can be a client, and its data can have any number.
    let mut sessions = sessions(None);
    let (from, test) = (host(1, 1000), test_of("newreno", false));
    let accept = open(&mut sessions, Time::ZERO, from, None, &test);
    let mut client = client_end(from, None, &test, &accept);
    let mut data = first_data(&mut client).remove(0);
    let end = 40; // The connection and the datagram's number follow 32 bytes.
    for (number, seq) in [1u64 << 62, 1 << 40, 65_536].into_iter().enumerate() {
        data[16..24].copy_from_slice(&seq.to_be_bytes());
        data[end..end + 8].copy_from_slice(&(100 + number as u64).to_be_bytes());
        assert!(answers(&mut sessions, at(1), from, &data).is_empty(), "{seq}");
    }
    data[16..24].copy_from_slice(&65_535u64.to_be_bytes());
    data[end..end + 8].copy_from_slice(&200u64.to_be_bytes());
    assert_eq!(answers(&mut sessions, at(1), from, &data).len(), 1);
}

#[test]
fn what_a_socket_does_not_take_is_sent_before_anything_else() {
    let test = test_of("cubic", false);
    let plan = test.plan().expect("a plan");
    let ids = (1, host(1, 1), None);
    let mut connection =
        Connection::new(Time::ZERO, ids, &plan, &test, true).expect("a connection");
    let seq = |bytes: &[u8]| u64::from_be_bytes(*bytes[16..].first_chunk().expect("a header"));
    let number = |bytes: &[u8]| u64::from_be_bytes(*bytes[40..].first_chunk().expect("a number"));
    let mut outbox = Outbox::default();
    connection.transmit(Time::ZERO, &mut outbox);
    assert_eq!(outbox.len(), 2, "the initial window");
    connection.sent(at(0), 1);
    assert_eq!(connection.counts(at(0)).sent, 1, "the other has not been sent");
    outbox.clear();
    connection.transmit(at(1), &mut outbox);
    let again: Vec<(u64, u64)> =
        outbox.datagrams().map(|(_, bytes)| (seq(bytes), number(bytes))).collect();
    // The same packets, under numbers of their own.
    assert_eq!(again, [(1, 2)]);
    connection.sent(at(1), 1);
    let counts = connection.counts(at(1));
    assert_eq!((counts.sent, counts.retransmissions, counts.given_back), (2, 0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// A peer that has not returned a cookie gets at most the bytes that it sent, in one datagram.
    #[test]
    fn no_answer_is_longer_than_its_question(
        kind in 0u8..16, length in 0usize..1500, seed in any::<u64>(), zeros in any::<bool>(), keyed in any::<bool>(),
    ) {
        let mut sessions = sessions(if keyed { psk(1) } else { None });
        let mut stream = Stream::new(seed, "test", "question");
        let length = if length % 3 == 0 { REQUEST_LEN } else { length };
        let mut bytes: Vec<u8> =
            (0..length).map(|_| if zeros { 0 } else { stream.bits() as u8 }).collect();
        if let Some(prefix) = bytes.get_mut(..4) {
            prefix.copy_from_slice(&[b'W', b'D', VERSION << 4 | kind, 0]);
        }
        let answers = answers(&mut sessions, at(1), host(1, 1), &bytes);
        prop_assert!(answers.len() <= 1);
        prop_assert!(answers.iter().all(|answer| answer.len() < bytes.len()));
        prop_assert_eq!(sessions.len(), 0);
    }
}

/// A server on loopback for as long as this lives.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Totals>>,
}

impl Running {
    fn start(key: Option<u8>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = std::sync::mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let config = server_config(key.and_then(psk));
            let server = Server::bind((Ipv4Addr::LOCALHOST, 0).into(), config).expect("a port");
            tell.send(server.local_addr().expect("an address")).expect("a test");
            serve(server, &flag, |_| {}).expect("a server")
        });
        Running { address: told.recv().expect("a server"), stop, thread: Some(thread) }
    }

    fn measure(
        &self,
        protocol: &str,
        reverse: bool,
        flows: usize,
        key: Option<u8>,
    ) -> Result<Outcome, Error> {
        let config = ClientConfig {
            flows,
            psk: key.and_then(psk),
            interval: Duration::from_millis(10),
            ..ClientConfig::new(test_of(protocol, reverse))
        };
        self.run(&config)
    }

    fn run(&self, config: &ClientConfig) -> Result<Outcome, Error> {
        let flows = config.flows * if config.both { 2 } else { 1 };
        run(self.address, config, &AtomicBool::new(false), |progress| {
            let (Progress::Interval(part) | Progress::Sample(part)) = progress;
            assert_eq!((part.flows.len(), part.goodput_bps.len()), (flows, flows));
            assert!(part.end_s > part.start_s);
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(thread::JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

#[test]
fn every_row_delivers_all_of_a_transfer_both_ways() {
    let server = Running::start(None);
    for row in protocols::PROTOCOLS {
        let protocol = row.name;
        for reverse in [false, true] {
            let outcome = server.measure(protocol, reverse, 1, None).expect(protocol);
            let flow = &outcome.flows[0];
            assert!(flow.completed_s.is_some(), "{protocol}: {flow:?}");
            assert_eq!(flow.receiver.unique, 334, "{protocol}: {flow:?}");
            assert!(flow.sender.sent >= 334, "{protocol}: {flow:?}");
            assert_eq!(flow.sender.invalid + flow.receiver.invalid, 0, "{protocol}: {flow:?}");
        }
    }
}

#[test]
fn flows_in_parallel_with_a_key() {
    let server = Running::start(Some(1));
    for reverse in [false, true] {
        let outcome = server.measure("cubic", reverse, 3, Some(1)).expect("a measurement");
        assert!(outcome.flows.iter().all(|flow| flow.receiver.unique == 334), "{outcome:?}");
    }
    for key in [None, Some(2)] {
        let error = server.measure("cubic", false, 1, key).expect_err("another key");
        assert!(matches!(error, Error::Refused { refusal: Refusal::Key, .. }), "{error}");
    }
}

#[test]
fn ports_that_are_taken_or_closed_are_named() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = taken.local_addr().expect("an address");
    let error = Server::bind(address, server_config(None)).expect_err("it is taken").to_string();
    assert!(error.contains(&address.to_string()) && error.contains("in use"), "{error}");
    drop(taken);
    let nobody =
        Running { address, stop: Arc::default(), thread: Some(thread::spawn(Totals::default)) };
    let error = nobody.measure("cubic", false, 1, None).expect_err("nobody is there");
    assert!(matches!(error, Error::NothingListens(there) if there == address), "{error}");
}

#[test]
fn a_server_bears_garbage_while_it_serves() {
    let server = Running::start(None);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let mut stream = Stream::new(2, "test", "garbage");
    for round in 0..20 {
        for _ in 0..500 {
            let _ = socket.send_to(&noise(&mut stream, &[]), server.address);
        }
        if round % 10 == 0 {
            let outcome = server.measure("newreno", false, 1, None).expect("a measurement");
            assert_eq!(outcome.flows[0].receiver.unique, 334);
        }
    }
}

#[test]
fn both_directions_at_once_and_reports_of_what_the_server_sends() {
    let server = Running::start(None);
    let test = Test { packets: 20_000, ..test_of("cubic", false) };
    let config = ClientConfig {
        flows: 2,
        both: true,
        sample: Duration::from_millis(10),
        ..ClientConfig::new(test)
    };
    let told = std::cell::Cell::new(0.0f64);
    let outcome = run(server.address, &config, &AtomicBool::new(false), |progress| {
        let Progress::Sample(sample) = progress else { return };
        told.set(told.get().max(sample.flows[3].cwnd));
    });
    let outcome = outcome.expect("a measurement");
    let ways: Vec<bool> = outcome.flows.iter().map(|flow| flow.reverse).collect();
    assert_eq!(ways, [false, false, true, true]);
    assert!(outcome.flows.iter().all(|flow| flow.receiver.unique == 20_000), "{outcome:?}");
    assert!(told.get() >= 2.0, "the initial window is 2: {}", told.get());
}

#[test]
fn who_does_not_get_all_connections_keeps_none() {
    // A server with four places for an address.
    let server = Running::start(None);
    let measure = |flows| {
        let config = ClientConfig { flows, ..ClientConfig::new(test_of("cubic", false)) };
        run(server.address, &config, &AtomicBool::new(false), |_| {})
    };
    for _ in 0..3 {
        let error = measure(5).expect_err("one too many");
        assert!(matches!(error, Error::Refused { refusal: Refusal::Busy, .. }), "{error}");
        assert!(measure(4).is_ok(), "the places are free again");
    }
}

#[test]
fn impossible_tests_are_refused_before_anything_is_sent() {
    let nobody: SocketAddr = (Ipv4Addr::LOCALHOST, 1).into();
    for (key, value) in [("packet_size", "9029"), ("rwnd", "1000000"), ("nonsense", "1")] {
        let test = set(test_of("cubic", false), &[(key, value)]);
        let result = run(nobody, &ClientConfig::new(test), &AtomicBool::new(false), |_| {});
        let error = result.expect_err("it is impossible");
        assert!(matches!(&error, Error::Test(words) if words.contains(key)), "{error}");
    }
}

#[test]
fn a_repeated_open_starts_nothing() {
    let (key, test) = (psk(1), test_of("cubic", true));
    let mut sessions = sessions(psk(1));
    let from = host(1, 1000);
    let hello = Greeting::Hello { client: CLIENT }.encode();
    let challenge = answers(&mut sessions, at(0), from, &hello).remove(0);
    let Some(Greeting::Challenge { cookie, .. }) = Greeting::decode(&challenge) else {
        panic!("no challenge");
    };
    let open = Greeting::Open { client: CLIENT, cookie, keyed: true, test: test.clone() };
    let mut open = open.encode();
    key.as_ref().expect("a key").seal_greeting(&mut open);
    let mut outbox = Outbox::default();
    // It holds one place for ten seconds, even if it is repeated; then the cookie is too old.
    for (second, places) in [(1, 1), (2, 1), (10, 1), (11, 0), (12, 0)] {
        sessions.on_timer(at(second), &mut outbox);
        let answer = answers(&mut sessions, at(second), from, &open).remove(0);
        let is_accepted = matches!(Greeting::decode(&answer), Some(Greeting::Accept { .. }));
        assert_eq!(is_accepted, second <= 10, "{second}");
        assert_eq!(sessions.len(), places, "{second}");
        assert!(!sessions.has_something_to_send());
    }
    assert!(outbox.is_empty());
}

#[test]
fn acknowledgments_of_what_was_never_sent_are_ignored() {
    let test = test_of("sack", false);
    let plan = test.plan().expect("a plan");
    let ids = (1, host(1, 1), None);
    let mut connection = Connection::new(at(0), ids, &plan, &test, true).expect("a connection");
    // Packets 0 and 1, by the first and second transmission.
    assert_eq!(first_data(&mut connection).len(), 2);
    let good = Packet { kind: PacketKind::Ack, seq: 1, packet_seq: 1, ..Packet::default() };
    let with_block = |start, end| {
        let mut ack = Packet { sack_len: 1, ..good.clone() };
        ack.sack[0] = SackBlock { start, end };
        ack
    };
    let bad = [
        Packet { seq: 3, ..good.clone() },
        Packet { trigger_seq: 2, ..good.clone() },
        Packet { packet_seq: 3, ..good.clone() },
        Packet { packet_seq: 0, ..good.clone() },
        Packet { timestamp: at(2), ..good.clone() },
        with_block(1, 3),
    ];
    let mut outbox = Outbox::default();
    for (number, ack) in bad.iter().chain([&good]).enumerate() {
        let bytes = datagram_of(ack, 0, 1, number as u64);
        let envelope = Envelope::read(&bytes).expect("an acknowledgment");
        connection.receive(at(1), host(1, 1), None, envelope, &bytes, &mut outbox);
        let delivered = if number < bad.len() { 0 } else { 1 };
        assert_eq!(connection.sample(at(1)).delivered, delivered, "{ack:?}");
    }
    assert_eq!(connection.counts(at(1)).invalid, bad.len() as u64);
}

/// docs/security.md names the tests of its statements.
#[test]
fn the_tests_that_the_page_on_security_names_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    let page = read("docs/security.md");
    let sources: String = ["amplification", "client", "frame", "guard", "keys", "plan", "tests"]
        .map(|name| read(&format!("crates/net/src/perf/{name}.rs")))
        .into_iter()
        .chain([read("crates/core/tests/wire.rs"), read("crates/cli/tests/cli/perf.rs")])
        .collect();
    // Other sections concern other programs, whose tests are elsewhere.
    let section = page.split("## `windward perf`").nth(1).expect("its section");
    let section = section.split("\n## ").next().unwrap_or(section);
    let quoted = section.split('`').skip(1).step_by(2);
    let names: Vec<&str> =
        quoted.filter(|word| word.contains('_') && !word.contains(['-', '.'])).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(sources.contains(&format!("fn {name}(")), "no test `{name}`");
    }
}
