//! Tests of how much a server sends to a peer that proves nothing: its worst clients.

use std::net::SocketAddr;

use proptest::prelude::*;
use windward_core::endpoint::EndpointConfig;
use windward_core::packet::{MAX_SACK_BLOCKS, Packet, PacketKind, SackBlock};
use windward_core::part::{Parameters, Setting, ValueKind as Range};
use windward_core::protocols;
use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_core::wire;

use super::connection::{Connection, Envelope};
use super::frame::{FrameKind, Greeting};
use super::server::Sessions;
use super::socket::Outbox;
use super::tests::{answers, at, client_end, datagram_of, host, open, set};
use super::*;

fn stranger() -> SocketAddr {
    host(1, 1000)
}

/// Limits of a server that restrict only data for unproven peers, so that the guard alone is
/// tested.
fn lax() -> Limits {
    Limits { min_rto: Duration::ZERO, fixed_window: u64::MAX, ..Limits::default() }
}

/// Behaviour of an unproven client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    /// Nothing after the start.
    Silent,
    /// Repeated starts.
    Starts,
    /// The same open again.
    Opens,
    /// Acknowledgments of packets that it has not seen.
    Forges,
    /// All of these.
    All,
}

/// A value within its range, mostly at one end, as in scenario files.
fn value(stream: &mut Stream, kind: Range) -> String {
    let mut pick = |least: f64, most: f64| match stream.bits() % 4 {
        0 => least,
        1 | 2 => most,
        _ => least + (most - least) * (stream.bits() % 1001) as f64 / 1000.0,
    };
    let time = |s: f64| format!("{}us", (s * 1e6) as u64);
    match kind {
        Range::Bool => {
            pick(0.0, 1.0).round().to_string().replace('0', "false").replace('1', "true")
        }
        Range::Number { least, most } => format!("{:?}", pick(least, most)),
        Range::Positive { most } | Range::PositiveOrWord { most, .. } => {
            format!("{:?}", pick(1e-9_f64.min(most), most))
        }
        Range::Integer { least, most } => {
            (pick(least as f64, most as f64) as u64).clamp(least, most).to_string()
        }
        Range::Time { least, most } => {
            time(pick(least.as_secs_f64(), most.as_secs_f64()).max(1e-6))
        }
        Range::Switch { most, .. } => time(pick(1e-6, most.as_secs_f64())),
        Range::Bytes { most } => format!("{}B", pick(0.0, most.min(1e12)) as u64),
        Range::Word(words) => words[stream.bits() as usize % words.len()].to_owned(),
    }
}

/// A test in which the server sends, by parameters that a client may choose; `None` if they do not
/// go together.
fn worst_test(stream: &mut Stream, row: usize) -> Option<Test> {
    let row = &protocols::PROTOCOLS[row];
    let mut test = Test { reverse: true, seconds: MAX_SECONDS, ..Test::of(row.name) };
    if stream.bits().is_multiple_of(3) {
        test.protocol = format!("{{ base = \"{}\", window = \"fixed-window\" }}", row.name);
    }
    if stream.bits().is_multiple_of(2) {
        // The shortest reports that there are.
        test.report = MIN_REPORT;
    }
    let plan = test.plan().ok()?;
    let mut settings: Vec<Setting> = EndpointConfig::DEFAULT.settings();
    settings.extend(plan.protocol.settings());
    for setting in settings {
        let key = match setting.table {
            "" => setting.doc.key.to_owned(),
            table => format!("{table}.{}", setting.doc.key),
        };
        // Each of them at times, and those that make a server send in every other test.
        let sends =
            ["window", "rto", "packet_size", "pacing"].iter().any(|word| key.contains(word));
        if !stream.bits().is_multiple_of(if sends { 2 } else { 12 }) {
            continue;
        }
        let value = match key.as_str() {
            "packet_size" => (156 + stream.bits() % 8873).to_string(),
            "rwnd" => (1 + stream.bits() % MAX_RWND).to_string(),
            "fixed_window.window" => {
                ["10", "1000", "65536", "1e6"][stream.bits() as usize % 4].to_owned()
            }
            "overhead" | "ack_size" => continue,
            _ => value(stream, setting.doc.kind),
        };
        // Invalid and incompatible ones are omitted.
        test.parameters.push((key, value));
        if test.plan().is_err() {
            test.parameters.pop();
        }
    }
    Some(test)
}

/// A forged acknowledgment, by a peer that knows the number of the connection.
fn forged_ack(stream: &mut Stream, now: Time, connection: u64, number: u64) -> Vec<u8> {
    let near = |stream: &mut Stream, most: u64| stream.bits() % most;
    let seq = near(stream, 12);
    let elapsed = now.as_ps().saturating_sub(Duration::from_secs(1).as_ps());
    let timestamp = match stream.bits() % 4 {
        0 => 0,
        1 => elapsed,
        2 => stream.bits() % elapsed.max(1),
        _ => stream.bits() >> 1,
    };
    let mut ack = Packet {
        kind: PacketKind::Ack,
        seq,
        trigger_seq: near(stream, 12),
        packet_seq: 1 + near(stream, 12),
        timestamp: Time::from_ps(timestamp),
        sack_len: (near(stream, 4) as usize).min(MAX_SACK_BLOCKS) as u8,
        ..Packet::default()
    };
    for at in 0..usize::from(ack.sack_len) {
        let start = seq + 1 + near(stream, 9);
        ack.sack[at] = SackBlock { start, end: start + 1 + near(stream, 9) };
    }
    datagram_of(&ack, 0, connection, number)
}

/// A server and one unproven client.
struct Meeting {
    sessions: Sessions,
    now: Time,
    /// Datagrams to the server; data and other datagrams from it.
    given: u64,
    data: u64,
    others: u64,
}

impl Meeting {
    fn new(limits: Limits, psk: Option<Psk>) -> Self {
        let config = ServerConfig {
            max_connections: 8,
            max_per_address: 8,
            psk,
            limits,
            ..ServerConfig::default()
        };
        let sessions = Sessions::new(config).expect("random bytes");
        Meeting { sessions, now: at(1), given: 0, data: 0, others: 0 }
    }

    fn count(&mut self, sent: impl IntoIterator<Item = Vec<u8>>) {
        for bytes in sent {
            match FrameKind::of(&bytes) {
                Some(FrameKind::Data) => self.data += 1,
                _ => self.others += 1,
            }
        }
    }

    fn give(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.given += 1;
        let answers = answers(&mut self.sessions, self.now, stranger(), bytes);
        self.count(answers.clone());
        self.transmit();
        answers
    }

    /// Returns the data that the server sends now.
    fn transmit(&mut self) -> Vec<Vec<u8>> {
        let mut outbox = Outbox::default();
        while self.sessions.transmit(self.now, &mut outbox) {
            assert!(outbox.len() < 100_000, "the server goes on sending");
        }
        let sent: Vec<Vec<u8>> = outbox.datagrams().map(|(_, bytes)| bytes.to_vec()).collect();
        self.count(sent.clone());
        sent
    }

    /// Runs the timers of the server until then.
    fn wait(&mut self, until: Time) {
        while self.sessions.next_timer() <= until {
            self.now = self.now.max(self.sessions.next_timer());
            let mut outbox = Outbox::default();
            self.sessions.on_timer(self.now, &mut outbox);
            self.count(outbox.datagrams().map(|(_, bytes)| bytes.to_vec()).collect::<Vec<_>>());
            self.transmit();
        }
        self.now = self.now.max(until);
    }

    /// Opens a connection, whose number and client's end it returns, or the reason for a refusal.
    fn open(&mut self, key: Option<&Psk>, test: &Test) -> Result<(u64, Connection), String> {
        match open(&mut self.sessions, self.now, stranger(), key, test) {
            Greeting::Refuse { reason, .. } => Err(reason),
            accept => {
                let Greeting::Accept { connection, .. } = accept else { panic!("{accept:?}") };
                Ok((connection, client_end(stranger(), key, test, &accept)))
            }
        }
    }

    fn start(&mut self, client: &mut Connection) {
        let mut outbox = Outbox::default();
        client.push_control(FrameKind::Start, &[], &mut outbox);
        self.give(outbox.datagrams().next().expect("a start").1);
    }
}

/// The meeting at its end, or the reason for a refusal.
fn meet(
    limits: Limits,
    key: Option<u8>,
    test: &Test,
    conduct: Conduct,
    stream: &mut Stream,
) -> Result<Meeting, String> {
    let psk = || key.and_then(|byte| Psk::new(&[byte; 32]));
    let mut meeting = Meeting::new(limits, psk());
    let (connection, mut client) = meeting.open(psk().as_ref(), test)?;
    meeting.start(&mut client);
    let (begin, mut number) = (meeting.now, 1 << 20);
    // The patience with an unproven client, and a little.
    let end = begin + PATIENCE + Duration::from_secs(1);
    while meeting.now < end && conduct != Conduct::Silent {
        let pause = Duration::from_millis([1, 20, 250, 2000][stream.bits() as usize % 4]);
        meeting.wait(meeting.now + pause);
        let all = [Conduct::Starts, Conduct::Opens, Conduct::Forges];
        match if conduct == Conduct::All { all[stream.bits() as usize % 3] } else { conduct } {
            Conduct::Starts => meeting.start(&mut client),
            Conduct::Opens => drop(meeting.open(psk().as_ref(), test)),
            _ => {
                number += 1;
                let bytes = forged_ack(stream, meeting.now, connection, number);
                meeting.give(&bytes);
            }
        }
    }
    meeting.wait(end);
    if !matches!(conduct, Conduct::Opens | Conduct::All) {
        assert_eq!(meeting.sessions.len(), 0, "its place is kept");
    }
    Ok(meeting)
}

fn conduct() -> impl Strategy<Value = Conduct> {
    use Conduct::{All, Forges, Opens, Silent, Starts};
    prop::sample::select(vec![Silent, Starts, Opens, Forges, All])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// For any protocol, parameters and datagrams except acknowledgments.
    #[test]
    fn who_acknowledges_nothing_gets_ten_packets_and_one_answer_for_each_datagram(
        row in 0..protocols::PROTOCOLS.len(), seed in any::<u64>(), conduct in conduct(), keyed in any::<bool>(), lax_limits in any::<bool>(),
    ) {
        let mut stream = Stream::new(seed, "test", "worst");
        let Some(test) = worst_test(&mut stream, row) else { return Ok(()) };
        let limits = if lax_limits { Limits { initial_window: 10, ..lax() } } else { Limits::default() };
        if let Ok(meeting) = meet(limits, keyed.then_some(1), &test, conduct, &mut stream) {
            prop_assert!(meeting.data <= 10, "{} of {:?}", meeting.data, test);
            prop_assert!(meeting.others <= meeting.given, "{} of {:?}", meeting.others, test);
        }
    }
}

#[test]
fn every_row_sends_to_a_stranger_and_soon_no_more() {
    // The same with plain parameters, to check that something is sent.
    let mut stream = Stream::new(1, "test", "plain");
    for row in protocols::PROTOCOLS {
        let test = Test { reverse: true, seconds: MAX_SECONDS, ..Test::of(row.name) };
        let meeting =
            meet(Limits::default(), None, &test, Conduct::Silent, &mut stream).expect(row.name);
        assert!((1..=10).contains(&meeting.data), "{}: {}", row.name, meeting.data);
    }
}

#[test]
fn what_an_operator_does_not_allow_is_refused_in_words() {
    let mut stream = Stream::new(1, "test", "refused");
    let mut reason = |protocol: &str, key: &str, value: &str| {
        let test = Test { reverse: true, ..set(Test::of(protocol), &[(key, value)]) };
        let met = meet(Limits::default(), None, &test, Conduct::Silent, &mut stream);
        met.err().expect(key)
    };
    for (protocol, key, value, option) in [
        ("cubic", "rto_floor", "199ms", "--min-rto"),
        ("cubic", "rto_initial", "1ms", "--min-rto"),
        ("cubic", "initial_window", "11", "--max-initial-window"),
        (
            "{ window = \"fixed-window\", recovery = \"sack\" }",
            "fixed_window.window",
            "1001",
            "--max-fixed-window",
        ),
    ] {
        let reason = reason(protocol, key, value);
        assert!(reason.contains(option), "{reason}");
    }
    // Data that the client itself sends is not limited.
    let upload = set(Test::of("cubic"), &[("initial_window", "64")]);
    assert!(Meeting::new(Limits::default(), None).open(None, &upload).is_ok());
}

#[test]
fn a_window_opens_with_what_comes_back_and_a_dead_peer_is_left() {
    // A fixed window of 65,536 packets to one that acknowledges the first packet, and then says
    // nothing: 10 + 16 packets, and two by each of the intervals of 1, 1, 2, 4 and 8 s.
    let parameters = [
        ("fixed_window.window", "65536"),
        ("packet_size", "1228"),
        ("rto_initial", "1ms"),
        ("rto_floor", "0s"),
        ("rto_ceiling", "1ms"),
    ];
    let protocol = "{ window = \"fixed-window\", recovery = \"sack\" }";
    let test = set(Test::of(protocol), &parameters);
    let test = Test { reverse: true, seconds: MAX_SECONDS, ..test };
    let mut meeting = Meeting::new(lax(), None);
    let (connection, mut client) = meeting.open(None, &test).expect("it is allowed");
    let mut outbox = Outbox::default();
    client.push_control(FrameKind::Start, &[], &mut outbox);
    let start = outbox.datagrams().next().expect("a start").1;
    answers(&mut meeting.sessions, meeting.now, stranger(), start);
    let data = meeting.transmit().remove(0);
    let (mut ack, _) = wire::decode(&data).expect("a packet");
    (ack.kind, ack.seq, ack.trigger_seq) = (PacketKind::Ack, 1, 0);
    let ack = |number: u64| datagram_of(&ack, 0, connection, (1 << 20) + number);
    meeting.give(&ack(1));
    let begin = meeting.now;
    // Neither a repeated acknowledgment nor a start is a sign of life.
    for number in 2..200 {
        meeting.wait(meeting.now + Duration::from_millis(100));
        if number % 2 == 0 {
            meeting.give(&ack(number));
        } else {
            meeting.start(&mut client);
        }
    }
    assert!(meeting.now > begin + PATIENCE);
    assert_eq!(meeting.sessions.len(), 0, "its place is kept");
    let most = 1 + 26 + 2 * 5;
    assert!((20..=most).contains(&meeting.data), "{}", meeting.data);
}

#[test]
fn places_are_for_those_whose_data_gets_on() {
    // A client that uploads nothing, and one that has received data, keep alive by starts.
    for reverse in [false, true] {
        let mut meeting = Meeting::new(Limits::default(), None);
        let test = Test { reverse, seconds: MAX_SECONDS, ..Test::of("upwind") };
        let (_, mut client) = meeting.open(None, &test).expect("a place");
        for _ in 0..20 {
            meeting.start(&mut client);
            meeting.wait(meeting.now + Duration::from_secs(1));
        }
        assert_eq!(meeting.sessions.len(), 0, "{reverse}");
    }
    // The places of idle connections are given to others when no place is free.
    let config = ServerConfig { max_connections: 2, max_per_address: 2, ..ServerConfig::default() };
    let mut sessions = Sessions::new(config).expect("random bytes");
    let test = Test::of("cubic");
    let mut ask = |second: u64, last: u8, port: u16| {
        let answer = open(&mut sessions, at(second), host(last, port), None, &test);
        matches!(answer, Greeting::Accept { .. })
    };
    assert!(ask(1, 1, 1) && ask(2, 1, 2));
    assert!(!ask(3, 2, 3), "it is full");
    assert!(ask(6, 2, 3), "the first has not started for five seconds");
    assert!(!ask(6, 2, 4), "nor has anybody else for that long");
}

/// Lets a server send over a path of 100 ms that carries 50 packets by 10 ms and loses some in
/// either direction, for `seconds`. Returns the packets delivered, or the time at which the
/// connection was given up.
fn over_losses(row: &str, loss: [f64; 2], seconds: u64, seed: u64) -> Result<u64, Time> {
    let mut stream = Stream::new(seed, "test", "losses");
    let mut meeting = Meeting::new(Limits::default(), None);
    let test = Test { reverse: true, seconds: 3600, ..Test::of(row) };
    let (_, mut client) = meeting.open(None, &test).expect(row);
    client.restart(meeting.now);
    let begin = meeting.now;
    let half = Duration::from_millis(50);
    let mut under_way: [std::collections::VecDeque<(Time, Vec<u8>)>; 2] = Default::default();
    let (mut data, mut out) = (Outbox::default(), Outbox::default());
    client.push_control(FrameKind::Start, &[], &mut out);
    for step in 0..100 * seconds {
        let now = begin + Duration::from_millis(10 * step);
        if step % 500 == 0 || step < 300 && step % 25 == 0 {
            client.push_control(FrameKind::Start, &[], &mut out);
        }
        client.on_timer(now, &mut out);
        meeting.now = now;
        meeting.sessions.on_timer(now, &mut data);
        while under_way[1].front().is_some_and(|(then, _)| *then <= now) {
            let (_, bytes) = under_way[1].pop_front().expect("there is one");
            meeting.sessions.receive(now, stranger(), None, &bytes, &mut data);
        }
        if meeting.sessions.len() == 0 {
            return Err(now);
        }
        while meeting.sessions.transmit(now, &mut data) {}
        let lost =
            |stream: &mut Stream, share: f64| (stream.bits() % 1000) as f64 <= 1000.0 * share;
        let mut carried = 0;
        for (_, bytes) in data.datagrams() {
            carried += 1;
            if carried <= 50 && !lost(&mut stream, loss[0]) {
                under_way[0].push_back((now + half, bytes.to_vec()));
            }
        }
        data.clear();
        while under_way[0].front().is_some_and(|(then, _)| *then <= now) {
            let (_, bytes) = under_way[0].pop_front().expect("there is one");
            if let Some(envelope) = Envelope::read(&bytes) {
                client.receive(now, stranger(), None, envelope, &bytes, &mut out);
            }
        }
        for (_, bytes) in out.datagrams() {
            if !lost(&mut stream, loss[1]) {
                under_way[1].push_back((now + half, bytes.to_vec()));
            }
        }
        out.clear();
    }
    Ok(client.sample(meeting.now).delivered)
}

#[test]
fn losses_of_half_of_all_packets_end_no_test() {
    // Protocols that are made for such paths, and Reno and CUBIC, whose timeouts grow there.
    for row in ["upwind", "lr-lmxtcp", "lr-xtcp", "bbr", "cubic", "newreno"] {
        for loss in [[0.2, 0.2], [0.5, 0.0], [0.5, 0.05]] {
            // With these seeds not all of the first five packets are lost, which would end any
            // test.
            for seed in [1, 2] {
                let delivered = over_losses(row, loss, 120, seed);
                assert!(delivered.is_ok_and(|count| count > 10), "{row} {loss:?}: {delivered:?}");
            }
        }
    }
    // XCP without its routers sends far above the rate of the path as long as possible.
    assert!(over_losses("xcp", [0.2, 0.2], 120, 1).is_err());
}

#[test]
fn short_data_has_no_answer() {
    // An upload with acknowledgments of 9,000 bytes, and data packets smaller than announced.
    let test = set(Test::of("cubic"), &[("packet_size", "9000"), ("ack_size", "9000")]);
    let mut meeting = Meeting::new(Limits::default(), None);
    let (connection, ..) = meeting.open(None, &test).expect("a place");
    let data = |number: u64, length: usize| {
        let packet = Packet { seq: number, packet_seq: number + 1, ..Packet::default() };
        datagram_of(&packet, length, connection, number)
    };
    for (number, length) in [(0, 48), (1, 128), (2, 8971)] {
        assert!(meeting.give(&data(number, length)).is_empty(), "{length}");
    }
    assert_eq!(meeting.give(&data(3, 8972))[0].len(), 8972);
}
