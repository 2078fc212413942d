//! The interface for connections of other code, with a connection simple enough to compute by hand.

use std::sync::{Arc, Mutex};

use windward_core::units::{Duration, Time};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{
    Codepoint, Connection, End, Facts, Stack, StackReport, StackSetup, Stacks, UDP_OVERHEAD,
};
use windward_sim::{Outcome, Simulation, TransferOutcome};

use crate::alike_in_all_ways;

/// Misbehaviour of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// It always has one more packet.
    SendsForEver,
    /// Its timer is always due.
    TimerNeverMoves,
    /// It breaks off after a second.
    Fails,
}

/// A window of full-size packets, each acknowledged separately; a packet that is not acknowledged
/// within a second counts as lost and is sent again.
#[derive(Debug)]
struct Toy {
    facts: Facts,
    fault: Fault,
    /// Codepoints that the receiver saw.
    seen: Arc<Mutex<Vec<Codepoint>>>,
    alive: Arc<Alive>,
}

/// Current and maximum number of connections.
#[derive(Debug, Default)]
struct Alive(Mutex<(u64, u64)>);

impl Alive {
    fn add(&self) {
        let mut alive = self.0.lock().unwrap();
        alive.0 += 1;
        alive.1 = alive.1.max(alive.0);
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.alive.0.lock().unwrap().0 -= 1;
    }
}

const WINDOW: u64 = 4;
const TIMEOUT: Duration = Duration::from_secs(1);

impl Toy {
    fn stacks(fault: Fault) -> (Stacks, Arc<Mutex<Vec<Codepoint>>>) {
        let (stacks, seen, _) = Toy::counted(fault);
        (stacks, seen)
    }

    fn counted(fault: Fault) -> (Stacks, Arc<Mutex<Vec<Codepoint>>>, Arc<Alive>) {
        let alive = Arc::new(Alive::default());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let facts = Facts {
            name: "toy:window",
            summary: "a window of four packets",
            source: "this test",
            notes: vec!["nothing is modelled"],
            packet_sizes: 100..=2000,
            unrepeatable: None,
        };
        let toy = Toy { facts, fault, seen: Arc::clone(&seen), alive: Arc::clone(&alive) };
        let toy: Arc<dyn Stack> = Arc::new(toy);
        (Stacks::from_iter([toy]), seen, alive)
    }
}

impl Stack for Toy {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection> {
        self.alive.add();
        Box::new(Pair {
            setup: *setup,
            alive: Arc::clone(&self.alive),
            fault: self.fault,
            seen: Arc::clone(&self.seen),
            open: false,
            next: 0,
            outstanding: Vec::new(),
            acks: Vec::new(),
            received: Vec::new(),
            report: StackReport {
                cwnd: WINDOW * u64::from(setup.config.payload()),
                connected: true,
                ..StackReport::default()
            },
        })
    }
}

#[derive(Debug)]
struct Pair {
    setup: StackSetup,
    alive: Arc<Alive>,
    fault: Fault,
    seen: Arc<Mutex<Vec<Codepoint>>>,
    open: bool,
    next: u64,
    /// Number and time of sending of each packet that is not acknowledged.
    outstanding: Vec<(u64, Time)>,
    acks: Vec<u64>,
    received: Vec<u64>,
    report: StackReport,
}

impl Pair {
    fn packets(&self) -> u64 {
        let size = u64::from(self.setup.config.payload());
        self.setup.bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(size))
    }

    fn fill(&self, number: u64, payload: &mut Vec<u8>) {
        payload.clear();
        payload.resize(self.setup.config.payload() as usize, number as u8);
        payload[..8].copy_from_slice(&number.to_le_bytes());
    }
}

impl Connection for Pair {
    fn start(&mut self, _now: Time) {
        self.open = true;
    }

    fn stop(&mut self, _now: Time) {
        self.open = false;
    }

    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint) {
        let number = u64::from_le_bytes(payload[..8].try_into().unwrap());
        match end {
            End::Receiver => {
                assert_eq!(payload.len(), self.setup.config.payload() as usize);
                assert!(payload[8..].iter().all(|byte| *byte == number as u8), "what was sent");
                self.seen.lock().unwrap().push(ecn);
                if !self.received.contains(&number) {
                    self.received.push(number);
                    self.report.delivered += payload.len() as u64;
                }
                self.acks.push(number);
            }
            End::Sender => {
                assert_eq!(payload.len(), 12, "an acknowledgment");
                if let Some(at) = self.outstanding.iter().position(|(n, _)| *n == number) {
                    let (_, sent) = self.outstanding.remove(at);
                    self.report.rtts.0 += now.since(sent);
                    self.report.rtts.1 += 1;
                    self.report.srtt = now.since(sent);
                }
                self.report.completed = self.outstanding.is_empty() && self.next == self.packets();
            }
        }
    }

    fn poll_transmit(&mut self, now: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint> {
        if self.fault == Fault::SendsForEver && self.open {
            self.fill(0, payload);
            return Some(Codepoint::NotEct);
        }
        if self.report.failure.is_some() {
            return None;
        }
        match end {
            End::Receiver => {
                let number = self.acks.pop()?;
                payload.clear();
                payload.extend(number.to_le_bytes());
                payload.extend([0; 4]);
                Some(Codepoint::NotEct)
            }
            End::Sender => {
                let more = self.open && self.next < self.packets();
                if !more || self.outstanding.len() as u64 >= WINDOW {
                    return None;
                }
                self.outstanding.push((self.next, now));
                self.fill(self.next, payload);
                self.next += 1;
                self.report.in_flight = self.outstanding.len() as u64 * payload.len() as u64;
                Some(Codepoint::Ect0)
            }
        }
    }

    fn next_timer(&mut self, end: End) -> Time {
        if end == End::Receiver {
            return Time::NEVER;
        }
        if self.fault == Fault::TimerNeverMoves && self.open {
            return Time::ZERO;
        }
        let first = self.outstanding.iter().map(|(_, sent)| *sent).min();
        first.map_or(Time::NEVER, |sent| sent + TIMEOUT)
    }

    fn on_timer(&mut self, now: Time, _end: End) {
        if self.fault == Fault::Fails {
            self.report.failure = Some("the peer is gone".into());
            self.outstanding.clear();
            return;
        }
        // Lost packets are sent again under their number, so the window does not move.
        let lost = self.outstanding.iter().filter(|(_, sent)| *sent + TIMEOUT <= now).count();
        self.report.lost += lost as u64;
        self.outstanding.retain(|(_, sent)| *sent + TIMEOUT > now);
    }

    fn report(&self) -> StackReport {
        self.report.clone()
    }
}

/// 20 + 2 * 5 ms each way. A packet of 1000 bytes takes 1 ms at 8 Mbit/s and two times 10 us at
/// 800 Mbit/s; one of 12 + 28 bytes back takes 40 us and two times 0.4 us.
const SCENARIO: &str = r#"
duration = "11s"
warmup = "1s"
[dumbbell]
bottleneck = { rate = "8Mbit", delay = "20ms", queue = "50p" }
access = { rate = "800Mbit", delay = "5ms" }
[[flows]]
group = "toy"
protocol = "toy:window"
packet_size = 1000
"#;

/// The round trip of a packet that does not wait.
const RTT: f64 = 0.060 + 0.001_02 + 0.000_040_8;

fn file(fault: Fault, changes: &[(&str, &str)]) -> ScenarioFile {
    let (stacks, _) = Toy::stacks(fault);
    let mut file = ScenarioFile::parse("toy.toml", SCENARIO).unwrap().with_stacks(&stacks);
    for (key, value) in changes {
        file.set(key, value).unwrap();
    }
    file
}

fn run(fault: Fault, changes: &[(&str, &str)]) -> Outcome {
    windward_sim::run(&file(fault, changes).build().unwrap())
}

fn error(fault: Fault, changes: &[(&str, &str)]) -> String {
    file(fault, changes).build().unwrap_err().to_string()
}

#[test]
fn goodput_is_the_window_per_round_trip() {
    let outcome = run(Fault::None, &[]);
    let flow = &outcome.flows[0];
    assert_eq!(flow.protocol, "toy:window");
    // Four packets leave together and come back 1 ms apart: each later one finds the wire free.
    let payload = f64::from(1000 - UDP_OVERHEAD);
    let per_rtt = WINDOW as f64 / RTT;
    let near = |found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} for {expected}");
    };
    near(flow.goodput_bps, per_rtt * payload * 8.0);
    near(flow.throughput_bps, per_rtt * 8000.0);
    near(flow.packets_sent as f64, per_rtt * 10.0);
    near(flow.mean_rtt_s.unwrap(), RTT);
    near(flow.mean_cwnd_packets.unwrap(), WINDOW as f64);
    assert_eq!((flow.retransmissions, flow.failure.as_deref()), (Some(0), None));
    let bottleneck = outcome.links.iter().find(|link| &*link.name == "bottleneck").unwrap();
    assert_eq!(bottleneck.arrived, bottleneck.delivered + bottleneck.in_flight);
    assert_eq!(outcome.jain, 1.0);
}

#[test]
fn the_plain_way_gives_the_same() {
    let scenario = file(Fault::None, &[("flows.toy.last_hop.loss", "0.1")]).build().unwrap();
    let fast = alike_in_all_ways("a loss", &scenario);
    assert!(fast.flows[0].retransmissions > Some(10));
}

#[test]
fn a_transfer_of_a_size_is_completed() {
    // 40 packets: ten windows, each a round trip.
    let outcome = run(Fault::None, &[("flows.toy.size", "38880B"), ("warmup", "0s")]);
    let flow = &outcome.flows[0];
    assert_eq!(flow.packets_sent, 40);
    let completed = flow.completed.unwrap().as_secs_f64();
    assert!((completed / (10.0 * RTT + 0.003) - 1.0).abs() < 0.01, "{completed}");
    // Packets count at their size on the wire.
    let in_packets = run(Fault::None, &[("flows.toy.size", "40p"), ("warmup", "0s")]);
    assert_eq!(in_packets.flows[0].packets_sent, 42, "40 000 bytes in packets of 972");
}

/// A transfer a second on average, each of eight packets: two windows.
const ARRIVALS: &str = "{ rate = 1, until = '99s', sizes = '7776B' }";

#[test]
fn transfers_that_arrive_at_random_are_separate_connections() {
    let (stacks, _, alive) = Toy::counted(Fault::None);
    let mut file = ScenarioFile::parse("toy.toml", SCENARIO).unwrap().with_stacks(&stacks);
    file.set("duration", "101s").unwrap();
    file.set("warmup", "0s").unwrap();
    file.set("flows.toy.arrivals", ARRIVALS).unwrap();
    file.set("flows.toy.count", "2").unwrap();
    let scenario = file.build().unwrap();
    assert_eq!(scenario.warnings, Vec::<String>::new());
    let outcome = windward_sim::run(&scenario);
    // 99 are expected, within five times their root.
    let count = outcome.transfers.len();
    assert!((50..150).contains(&count), "{count}");
    for transfer in &outcome.transfers {
        let numbers = (transfer.bytes, transfer.packets, transfer.packets_sent);
        assert_eq!(numbers, (7776, 8, 8));
        assert_eq!((transfer.retransmissions, transfer.timeouts), (0, None));
        // Two round trips, and the three packets that the last of a window waits for; more if
        // another transfer is under way, at most eight packets for each.
        let seconds = transfer.completion_time().unwrap().as_secs_f64();
        let alone = 2.0 * RTT + 0.003;
        assert!(seconds > alone - 1e-6 && seconds < alone + 0.016, "{seconds} for {alone}");
    }
    let shortest =
        outcome.transfers.iter().filter_map(TransferOutcome::completion_time).min().unwrap();
    assert!((shortest.as_secs_f64() - 2.0 * RTT - 0.003).abs() < 2e-4, "{shortest}");
    // The pairs of hosts carried each byte of the transfers once.
    let carried: f64 = outcome.flows.iter().map(|flow| flow.goodput_bps * 101.0 / 8.0).sum();
    assert!((carried - 7776.0 * count as f64).abs() < 1.0, "{carried} in {count}");
    for flow in &outcome.flows {
        assert_eq!((flow.protocol.as_ref(), flow.failure.as_deref()), ("toy:window", None));
        assert!((flow.mean_rtt_s.unwrap() - RTT - 0.0015).abs() < 0.004, "{:?}", flow.mean_rtt_s);
    }
    // Each is freed when it is completed: few of them overlap, and none is left.
    let (left, most) = *alive.0.lock().unwrap();
    assert_eq!(left, 0);
    assert!((1..=6).contains(&most), "{most} of {count} at once");
}

#[test]
fn transfers_of_stacks_arrive_when_those_of_windward_do() {
    let transfers = |protocol: &str| {
        let sizes = "{ rate = 2, sizes = { distribution = 'pareto', shape = 1.2, mean = '20kB', most = '1MB' } }";
        let changes = [
            ("flows.toy.protocol", protocol),
            ("flows.toy.arrivals", sizes),
            ("flows.toy.count", "3"),
        ];
        let outcome = run(Fault::None, &changes);
        outcome.transfers.iter().map(|t| (t.flow, t.start, t.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(transfers("toy:window"), transfers("newreno"));
}

#[test]
fn many_connections_do_the_same_the_plain_way() {
    let changes = [("flows.toy.last_hop.loss", "0.1"), ("flows.toy.arrivals", ARRIVALS)];
    let scenario = file(Fault::None, &changes).build().unwrap();
    alike_in_all_ways("transfers", &scenario);
}

#[test]
fn a_transfer_that_fails_is_reported_and_freed() {
    let (stacks, _, alive) = Toy::counted(Fault::Fails);
    let mut file = ScenarioFile::parse("toy.toml", SCENARIO).unwrap().with_stacks(&stacks);
    file.set("duration", "101s").unwrap();
    file.set("flows.toy.arrivals", ARRIVALS).unwrap();
    file.set("flows.toy.last_hop.loss", "0.5").unwrap();
    let outcome = windward_sim::run(&file.build().unwrap());
    assert_eq!(outcome.flows[0].failure.as_deref(), Some("the peer is gone"));
    // All eight packets get through in one of 2^8 cases.
    let completed = outcome.transfers.iter().filter(|t| t.completed.is_some()).count();
    assert!(completed < 5, "{completed}");
    // Those that fail do so after a second, in which one more comes on average.
    let (_, most) = *alive.0.lock().unwrap();
    assert!(most <= 10, "{most}");
}

#[test]
fn a_connection_starts_and_stops_as_the_scenario_says() {
    let outcome =
        run(Fault::None, &[("flows.toy.start", "3s"), ("flows.toy.stop", "4s"), ("warmup", "0s")]);
    let sent = outcome.flows[0].packets_sent as f64;
    assert!((sent - WINDOW as f64 / RTT).abs() <= 2.0 * WINDOW as f64, "{sent}");
    let bins = &outcome.groups[0].throughput_bins;
    let busy: Vec<bool> = bins.iter().map(|bps| *bps > 0.0).collect();
    assert_eq!(busy[..5], [false, false, false, true, false]);
}

#[test]
fn codepoints_arrive_as_the_network_marked_them() {
    let seen = |changes: &[(&str, &str)]| {
        let (stacks, seen) = Toy::stacks(Fault::None);
        let mut file = ScenarioFile::parse("toy.toml", SCENARIO).unwrap().with_stacks(&stacks);
        for (key, value) in changes {
            file.set(key, value).unwrap();
        }
        windward_sim::run(&file.build().unwrap());
        let seen = seen.lock().unwrap().clone();
        move |codepoint| seen.contains(&codepoint)
    };
    let plain = seen(&[]);
    assert!(plain(Codepoint::Ect0) && !plain(Codepoint::Ce) && !plain(Codepoint::NotEct));
    // The last of four finds two waiting.
    let router = r#"{ kind = "ecn-threshold", threshold = 1 }"#;
    let marked = seen(&[("dumbbell.bottleneck.router", router)]);
    assert!(marked(Codepoint::Ect0) && marked(Codepoint::Ce));
    let bleached = seen(&[("dumbbell.bottleneck.router", router), ("flows.toy.ecn", "false")]);
    assert!(bleached(Codepoint::NotEct) && !bleached(Codepoint::Ce));
}

#[test]
fn a_snapshot_shows_the_state_of_a_connection() {
    let scenario = file(Fault::None, &[]).build().unwrap();
    let mut sim = Simulation::traced(&scenario);
    sim.advance(Time::ZERO + Duration::from_secs(5));
    let flow = sim.flow(0).unwrap();
    assert_eq!((flow.cwnd, flow.in_flight), (4.0, 4));
    assert!((flow.srtt.as_secs_f64() - RTT).abs() < 0.01);
    assert!(flow.delivered_bytes > 0 && flow.bottleneck_bytes > flow.delivered_bytes);
}

#[test]
fn failures_are_reported_and_the_run_continues() {
    let lossy = [("flows.toy.last_hop.loss", "0.5"), ("warmup", "0s")];
    let failed = run(Fault::Fails, &lossy);
    assert_eq!(failed.flows[0].failure.as_deref(), Some("the peer is gone"));
    assert_eq!(failed.flows[0].completed, None);
    for fault in [Fault::SendsForEver, Fault::TimerNeverMoves] {
        let outcome = run(fault, &[]);
        let failure = outcome.flows[0].failure.as_deref().unwrap();
        assert!(failure.contains("endless loop"), "{fault:?}: {failure}");
    }
}

#[test]
fn invalid_names_and_sizes_are_refused() {
    let unknown = error(Fault::None, &[("flows.toy.protocol", "toy:windw")]);
    assert!(unknown.contains("unknown stack"), "{unknown}");
    assert!(unknown.contains("did you mean `toy:window`?"), "{unknown}");
    let other = error(Fault::None, &[("flows.toy.protocol", "quux:cubic")]);
    assert!(other.contains("toy:window"), "{other}");
    let size = error(Fault::None, &[("flows.toy.packet_size", "99")]);
    assert!(size.contains("toy:window has packets of 100 to 2000 bytes, not of 99"), "{size}");
    // The sizes of other connections do not matter.
    file(Fault::None, &[("endpoint.packet_size", "3000")]).build().unwrap();
    let huge = error(Fault::None, &[("flows.toy.size", "9007199254740993B")]);
    assert!(huge.contains("at most 9007199254740992 bytes"), "{huge}");
    let segments = error(Fault::None, &[("flows.toy.quic.segments", "0")]);
    assert!(segments.contains("must lie between 1 and 64"), "{segments}");
    let none = ScenarioFile::parse("toy.toml", SCENARIO).unwrap().build().unwrap_err().to_string();
    assert!(none.contains("this program has no stacks"), "{none}");
}

#[test]
fn keys_without_effect_are_warned_of() {
    let warnings = |changes| file(Fault::None, changes).build().unwrap().warnings;
    assert_eq!(warnings(&[]), Vec::<String>::new());
    let keys = warnings(&[
        ("flows.toy.initial_window", "10"),
        ("flows.toy.cubic.reno_alpha", "true"),
        ("flows.toy.quic.segments", "1"),
    ]);
    assert_eq!(keys.len(), 1, "{keys:?}");
    assert!(keys[0].contains("`initial_window`, `cubic` have no effect"), "{keys:?}");
    let ours = warnings(&[("flows.toy.protocol", "newreno"), ("flows.toy.quic.segments", "1")]);
    assert!(ours[0].contains("`quic.segments` has no effect on newreno"), "{ours:?}");
}
