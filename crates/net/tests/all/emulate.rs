//! A simulation by a clock: incoming packets leave when the links say, and simulated flows are as
//! without a clock.

use std::cell::Cell;
use std::io;

use windward_core::rng::Stream;
use windward_core::units::{Duration, Time};
use windward_net::clock::{Clock, Monotonic};
use windward_net::emulate::{self, Outside, Take};
use windward_net::port::{Port, Ports};
use windward_net::record::{Error, Header, Reader, Recorder};
use windward_netns::packet::{Ecn, set_ecn};
use windward_sim::stack::{Codepoint, End};
use windward_sim::{Simulation, run};

use crate::common::{build, ours, udp, xcp};

/// A clock that advances only in [`Outside::wait`].
#[derive(Default)]
struct Hand(Cell<Time>);

impl Clock for &Hand {
    fn now(&self) -> Time {
        self.0.get()
    }
}

/// Packets that arrive at given times, and those that left.
struct Script<'a> {
    clock: &'a Hand,
    coming: Vec<Event>,
    out: Vec<Event>,
    /// Time to read a packet, in which others arrive.
    each: Duration,
}

impl<'a> Script<'a> {
    fn new(clock: &'a Hand, coming: Vec<Event>) -> Self {
        Script { clock, coming, out: Vec::new(), each: Duration::ZERO }
    }
}

impl Outside for Script<'_> {
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        while self.coming.first().is_some_and(|(at, ..)| *at <= self.clock.0.get()) {
            let (_, end, bytes, ecn) = self.coming.remove(0);
            self.clock.0.set(self.clock.0.get() + self.each);
            take(0, end, &bytes, ecn);
        }
        Ok(())
    }

    fn write(&mut self, _: usize, end: End, bytes: &[u8], ecn: Codepoint) -> io::Result<()> {
        self.out.push((self.clock.0.get(), end, bytes.to_vec(), ecn));
        Ok(())
    }

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        let next = self.coming.first().map_or(Time::NEVER, |(at, ..)| *at);
        let until = (self.clock.0.get() + most).min(next.max(self.clock.0.get()));
        self.clock.0.set(until);
        Ok(true)
    }
}

fn header_of(text: &str) -> Header {
    let (name, scenario) = ("test.toml".to_owned(), text.to_owned());
    Header { name, scenario, changes: Vec::new(), is_open: false, traces: 0, kept: 0 }
}

/// Time, end, bytes and codepoint of a packet.
type Event = (Time, End, Vec<u8>, Codepoint);

fn ms(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// 8 Mbit/s, 10 ms one way and two packets of queue there; 5 ms and no limit to speak of back.
const LINK: &str = "duration = '10s'\n\
    links = [{ name = 'link', from = 'a', to = 'b', rate = '8Mbit', delay = '10ms', queue = '2p', \
    reverse = { delay = '5ms', rate = '1Gbit', queue = '1000p' } }]\n\
    flows = [{ group = 'outside', protocol = 'outside:port', from = 'a', to = 'b' }]";

fn emulated(text: &str, coming: Vec<Event>) -> Vec<Event> {
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(text, &ports));
    let ports: Vec<(usize, Port)> = (0..).zip(ports.take()).collect();
    let clock = Hand::default();
    let mut outside = Script::new(&clock, coming);
    let late = emulate::run(&mut simulation, &ports, &mut outside, &&clock, ms(1000)).unwrap();
    assert_eq!(late.percentile(100.0), Duration::ZERO);
    outside.out
}

#[test]
fn packets_come_out_when_the_link_says() {
    let coming = vec![
        (ms(100), End::Sender, vec![1; 1000], Codepoint::Ect0),
        (ms(100), End::Sender, vec![2; 500], Codepoint::NotEct),
        (ms(200), End::Receiver, vec![3; 1250], Codepoint::NotEct),
    ];
    let out = emulated(LINK, coming.clone());
    let at = |us: u64| Time::ZERO + Duration::from_micros(us);
    assert_eq!(
        out,
        [
            // 1000 bytes at 8 Mbit/s are 1 ms, and 500 after them half of one.
            (at(111_000), End::Receiver, vec![1; 1000], Codepoint::Ect0),
            (at(111_500), End::Receiver, vec![2; 500], Codepoint::NotEct),
            // 1250 bytes at 1 Gbit/s are 10 us.
            (at(205_010), End::Sender, vec![3; 1250], Codepoint::NotEct),
        ]
    );
    // The same holds for packets that wait in a queue, and for the second of two links.
    let codel = LINK.replace("queue = '2p'", "queue = '2p', aqm = 'codel'");
    assert_eq!(emulated(&codel, coming.clone()), out);
    let two = LINK.replace("to = 'b', rate", "to = 'm', rate").replace(
        "} }]",
        "} }, { name = 'second', from = 'm', to = 'b', rate = '8Mbit', delay = '1ms', queue = '9p' }]",
    );
    let first = &emulated(&two, coming)[0];
    assert_eq!(first.0, at(113_000));
}

/// Reading takes 2 ms a packet, while a packet comes each millisecond: what a batch reads has come
/// while it was read. In steps of 7 ms, as for a caller that inspects the simulation. Returns the
/// packets that left, the longest time by which a packet was taken in before it was there, and the
/// record.
fn slowly_read(coming: Vec<Event>) -> (Vec<Event>, Duration, Vec<u8>, u64) {
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(BUSY, &ports));
    let ports: Vec<(usize, Port)> = ports.take().into_iter().map(|port| (1, port)).collect();
    let clock = Hand::default();
    let mut outside = Script { each: Duration::from_millis(2), ..Script::new(&clock, coming) };
    let mut record = Vec::new();
    let mut recorder = Recorder::begin(&mut record, header_of(BUSY)).unwrap();
    let mut most_early = Duration::ZERO;
    for step in 1..=100 {
        let recorded = Some(&mut recorder);
        let until = ms(7 * step);
        let run =
            emulate::run_recorded(&mut simulation, &ports, &mut outside, &&clock, until, recorded);
        most_early = most_early.max(run.unwrap().most_early());
        assert_eq!(simulation.now(), until);
    }
    recorder.finish(ms(700)).unwrap();
    (outside.out, most_early, record, simulation.finish().fingerprint)
}

#[test]
fn what_comes_while_others_are_read_is_not_early() {
    let at = |n: u64| ms(100 + n);
    let bytes = |n: u64| (n as u32).to_be_bytes().repeat(25);
    let coming = (0..100).map(|n| (at(n), End::Sender, bytes(n), Codepoint::NotEct)).collect();
    let (out, most_early, record, fingerprint) = slowly_read(coming);
    assert_eq!(most_early, Duration::ZERO);
    assert!(out.len() > 20, "{}", out.len());
    for (gone, _, bytes, _) in &out {
        let number = u64::from(u32::from_be_bytes(bytes[..4].try_into().unwrap()));
        // 10 ms of propagation, and 100 bytes at 6 Mbit/s are 133 us.
        let least = at(number) + Duration::from_micros(10_133);
        assert!(*gone >= least, "{number}: {gone:?} before {least:?}");
    }
    let (again, same) = replayed(&record).unwrap();
    assert_eq!((again.len(), same), (out.len(), fingerprint));
}

#[test]
fn a_queue_drops_and_marks_what_comes_from_outside() {
    // One in transmission, two that wait, and three too many.
    let burst =
        |ecn| (0..6).map(|n| (ms(100), End::Sender, vec![n; 1000], ecn)).collect::<Vec<_>>();
    let out = emulated(LINK, burst(Codepoint::NotEct));
    let which: Vec<u8> = out.iter().map(|(_, _, bytes, _)| bytes[0]).collect();
    assert_eq!(which, [0, 1, 2]);
    // A router that marks packets that find more than one waiting, here the last three of six.
    let marks = LINK.replace(
        "queue = '2p'",
        "queue = '9p', router = { kind = 'ecn-threshold', threshold = 1 }",
    );
    let marks = emulated(&marks, burst(Codepoint::Ect0));
    let marked = marks.iter().filter(|(.., ecn)| *ecn == Codepoint::Ce).count();
    assert_eq!((marks.len(), marked), (6, 3));
}

/// No packets come from outside, and a real clock.
struct Nobody;

impl Outside for Nobody {
    fn read(&mut self, _: &mut Take<'_>) -> io::Result<()> {
        Ok(())
    }
    fn write(&mut self, _: usize, _: End, _: &[u8], _: Codepoint) -> io::Result<()> {
        Ok(())
    }
    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        std::thread::sleep(std::time::Duration::from_nanos(most.as_ps() / 1000));
        Ok(true)
    }
}

#[test]
fn what_nobody_disturbs_is_as_without_a_clock() {
    let text = "duration = '500ms'\nseed = 7\n\
        links = [{ name = 'link', from = 'a', to = 'b', rate = '20Mbit', delay = '5ms', queue = '30p', loss = '1%' }]\n\
        flows = [{ group = 'one', protocol = 'upwind', from = 'a', to = 'b' }, \
        { group = 'two', protocol = 'cubic', from = 'a', to = 'b', count = 3 }]";
    let ports = Ports::new();
    let scenario = build(text, &ports);
    let expected = run(&scenario).fingerprint;
    let mut simulation = Simulation::new(&scenario);
    let clock = Monotonic::start();
    emulate::run(&mut simulation, &[], &mut Nobody, &clock, ms(500)).unwrap();
    assert!(clock.now() >= ms(500));
    assert_eq!(simulation.finish().fingerprint, expected);
}

#[test]
fn flows_inside_and_packets_outside_share_a_queue() {
    // A bulk flow fills 8 Mbit/s and a queue of 20 packets: outside packets wait behind it.
    let text = LINK.replace("queue = '2p'", "queue = '20p'").replace(
        "flows = [",
        "flows = [{ group = 'inside', protocol = 'newreno', from = 'a', to = 'b' }, ",
    );
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(&text, &ports));
    let ports: Vec<(usize, Port)> = ports.take().into_iter().map(|port| (1, port)).collect();
    let clock = Hand::default();
    let coming =
        (1..90).map(|n| (ms(10 * n), End::Sender, vec![0; 100], Codepoint::NotEct)).collect();
    let mut outside = Script::new(&clock, coming);
    emulate::run(&mut simulation, &ports, &mut outside, &&clock, ms(1000)).unwrap();
    let delays: Vec<f64> = outside.out.iter().map(|(at, ..)| at.as_secs_f64()).collect();
    assert!(delays.len() > 40 && delays.len() <= 89, "{}", delays.len());
    // Some are late by most of a queue of 20 ms, and some are dropped.
    let outcome = simulation.finish();
    assert_eq!(outcome.flows[1].protocol, "outside:port");
    assert!(outcome.links[0].mean_queue_packets > 2.0);
}

/// Two directions, a queue that drops early, losses, and a flow inside; packets of all sizes from
/// both sides.
fn recorded(until: Time, kept: u32) -> (Vec<u8>, Vec<Event>, u64) {
    let fill = |_: &mut Stream, size: usize| vec![size as u8; size];
    record(BUSY, until, kept, fill)
}

/// Records packets that arrive at random times at both ends of the second flow of this scenario.
fn record(
    scenario: &str,
    until: Time,
    kept: u32,
    mut make: impl FnMut(&mut Stream, usize) -> Vec<u8>,
) -> (Vec<u8>, Vec<Event>, u64) {
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(scenario, &ports));
    let ports: Vec<(usize, Port)> = ports.take().into_iter().map(|port| (1, port)).collect();
    let mut stream = Stream::new(5, "outside", "test");
    let mut at = 0.0;
    let coming = std::iter::from_fn(|| {
        at += -0.002 * (1.0 - stream.uniform()).ln();
        let end = if stream.uniform() < 0.7 { End::Sender } else { End::Receiver };
        let size = 40 + (1460.0 * stream.uniform()) as usize;
        let ecn = if stream.uniform() < 0.5 { Codepoint::Ect0 } else { Codepoint::NotEct };
        let mut bytes = make(&mut stream, size);
        let tos = if ecn == Codepoint::Ect0 { Ecn::Ect0 } else { Ecn::NotEct };
        set_ecn(&mut bytes, tos);
        Some((Time::ZERO + Duration::from_secs_f64(at), end, bytes, ecn))
    });
    let coming = coming.take_while(|(at, ..)| *at < until).collect();
    let clock = Hand::default();
    let mut outside = Script::new(&clock, coming);
    let header = Header { kept, ..header_of(scenario) };
    let mut record = Vec::new();
    let mut recorder = Recorder::begin(&mut record, header).unwrap();
    let recorded = Some(&mut recorder);
    emulate::run_recorded(&mut simulation, &ports, &mut outside, &&clock, until, recorded).unwrap();
    assert!(recorder.finish(until).unwrap() > 100);
    (record, outside.out, simulation.finish().fingerprint)
}

const BUSY: &str = "duration = '2s'\nseed = 3\n\
    links = [{ name = 'link', from = 'a', to = 'b', rate = '6Mbit', delay = '10ms', queue = '40p', loss = '2%', \
    aqm = { kind = 'codel', ecn = true }, reverse = { rate = '2Mbit', queue = '20p' } }]\n\
    flows = [{ group = 'inside', protocol = 'cubic', from = 'a', to = 'b' }, \
    { group = 'outside', protocol = 'outside:port', from = 'a', to = 'b' }]";

fn replayed(record: &[u8]) -> Result<(Vec<Event>, u64), Error> {
    let reader = Reader::open(record)?;
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(&reader.header().scenario, &ports));
    let ports: Vec<(usize, Port)> = ports.take().into_iter().map(|port| (1, port)).collect();
    let mut out = Vec::new();
    reader.replay(&mut simulation, &ports, |_, packet| {
        out.push((packet.at, packet.end, packet.bytes.clone(), packet.ecn));
    })?;
    Ok((out, simulation.finish().fingerprint))
}

#[test]
fn a_record_does_again_what_was_done() {
    let (record, out, fingerprint) = recorded(ms(1000), 1500);
    let (again, same) = replayed(&record).unwrap();
    assert_eq!(same, fingerprint);
    assert!(out.len() > 100 && again == out, "{} and {}", out.len(), again.len());
    assert!(out.iter().any(|(.., ecn)| *ecn == Codepoint::Ce), "CoDel marks");
    // Without the contents of packets, everything else is the same.
    let (short, _, _) = recorded(ms(1000), 0);
    assert!(short.len() < record.len() / 10);
    let (again, same) = replayed(&short).unwrap();
    assert_eq!(same, fingerprint);
    let shape = |events: &[Event]| -> Vec<_> {
        events.iter().map(|(at, end, bytes, ecn)| (*at, *end, bytes.len(), *ecn)).collect()
    };
    assert_eq!(shape(&again), shape(&out));
}

#[test]
fn a_record_keeps_what_links_look_at() {
    // Flow queues there, by addresses and ports; XCP back, for Windward's datagrams over both
    // versions of IP.
    let scenario =
        BUSY.replace("aqm = { kind = 'codel', ecn = true }", "aqm = 'fq-codel'").replace(
            "reverse = { rate = '2Mbit', queue = '20p' }",
            "reverse = { rate = '6Mbit', queue = '20p', router = 'xcp' }",
        );
    let packet = |stream: &mut Stream, size: usize| {
        let (host, port) = ((stream.uniform() * 3.0) as u8, (stream.uniform() * 3.0) as u16);
        let version = if stream.uniform() < 0.5 { 4 } else { 6 };
        let header = xcp(size as u64, 0.1, 0.001 * stream.uniform(), 1e6);
        udp(version, host, port, 0, &ours(&header, size))
    };
    let (whole, out, fingerprint) = record(&scenario, ms(1000), 2000, packet);
    let (again, same) = replayed(&whole).unwrap();
    assert_eq!((same, again == out), (fingerprint, true));
    let granted = |event: &&Event| event.1 == End::Sender && event.2.len() > 90;
    let deltas: Vec<_> =
        out.iter().filter(granted).map(|e| crate::common::read(&e.2).header).collect();
    assert!(deltas.iter().filter(|header| **header != deltas[0]).count() > 50, "XCP writes");
    // Other bytes are not kept: 20 or 40 bytes of IP, 8 of UDP, 64 of Windward are.
    let (short, ..) = record(&scenario, ms(1000), 0, packet);
    assert!(short.len() < whole.len() / 3, "{} of {}", short.len(), whole.len());
    let (again, same) = replayed(&short).unwrap();
    assert_eq!((same, again.len()), (fingerprint, out.len()));
    for (again, out) in again.iter().zip(&out) {
        assert_eq!((again.0, again.1, again.3), (out.0, out.1, out.3));
        let looked_at = out.2.len().min(if out.2[0] >> 4 == 4 { 92 } else { 112 });
        assert_eq!(again.2[..looked_at], out.2[..looked_at]);
    }
    // Other ports, another run.
    let alone = |stream: &mut Stream, size: usize| {
        let mut bytes = packet(stream, size);
        let at = if bytes[0] >> 4 == 4 { 20 } else { 40 };
        bytes[at..at + 2].fill(0);
        bytes
    };
    assert_ne!(record(&scenario, ms(1000), 0, alone).2, fingerprint);
}

#[test]
fn a_record_that_was_cut_or_altered_says_so() {
    let (record, _, _) = recorded(ms(300), 0);
    for length in 0..record.len() {
        match replayed(&record[..length]) {
            Err(Error::NotOne | Error::Cut { .. }) => {}
            other => panic!("{length}: {other:?}"),
        }
    }
    let mut stream = Stream::new(6, "alter", "test");
    for _ in 0..500 {
        let mut altered = record.clone();
        let at = (stream.uniform() * record.len() as f64) as usize;
        altered[at] ^= 1 << (stream.uniform() * 8.0) as u32;
        let error = replayed(&altered).expect_err("a bit is another").to_string();
        assert!(error.contains("record"), "{error}");
    }
    // Bytes after the end are refused, with their place.
    let longer = [&record[..], b"x"].concat();
    match replayed(&longer) {
        Err(Error::Longer { offset }) => assert_eq!(offset, record.len() as u64),
        other => panic!("{other:?}"),
    }
    // Another version is refused.
    let mut other = record;
    other[5] = 2;
    assert!(matches!(replayed(&other), Err(Error::NotOne)));
}

/// A disk that is full after this number of bytes.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.0.checked_sub(bytes.len());
        self.0 = left.ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_ends_the_record_and_not_the_emulation() {
    let ports = Ports::new();
    let mut simulation = Simulation::new(&build(LINK, &ports));
    let ports: Vec<(usize, Port)> = (0..).zip(ports.take()).collect();
    let clock = Hand::default();
    let coming =
        (1..90).map(|n| (ms(10 * n), End::Sender, vec![0; 100], Codepoint::NotEct)).collect();
    let mut outside = Script::new(&clock, coming);
    let header = Header { kept: 1500, ..header_of(LINK) };
    let mut recorder = Recorder::begin(Full(1000), header).unwrap();
    let recorded = Some(&mut recorder);
    emulate::run_recorded(&mut simulation, &ports, &mut outside, &&clock, ms(1000), recorded)
        .unwrap();
    assert_eq!(outside.out.len(), 89);
    let error = recorder.finish(ms(1000)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
}
