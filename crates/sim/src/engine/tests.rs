//! The engine as a whole: shortcuts do not change outcomes, counts balance, and results match
//! theory.
//!
//! Expected values and bounds are derived beside each test. Only the golden
//! fingerprints compare the engine with its own past: after an intended change of
//! behaviour, `BLESS=1 cargo test -p windward-sim golden` writes them again.

use windward_core::endpoint::Sender;
use windward_core::endpoint::discrimination::DiscriminatorConfig;
use windward_core::endpoint::recovery::RecoveryConfig;
use windward_core::network::{AqmConfig, ChannelConfig, LinkRate, RouterConfig, RouterKind};
use windward_core::part::Words;
use windward_core::protocols::PROTOCOLS;
use windward_core::units::{Duration, Probability, Rate};

use std::collections::BTreeSet;

use super::*;
use crate::partition::Partition;
use crate::scenario::file::ScenarioFile;
use crate::scenario::{FlowConfig, LinkId};
use crate::{FlowMetrics, LinkOutcome};

macro_rules! golden {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../tests/golden/", $name, ".toml")))),*]
    };
}

/// Scenarios by name, without the lines of their head; `PROTOCOL` stands for a name of the table.
/// No warm-up, so that flow figures cover all packets; no delayed acknowledgments, so that each
/// packet causes one. The tests of the JavaScript package run the same files.
const SCENARIOS: &[(&str, &str)] = golden!(
    "loss",
    "bursts",
    "red",
    "bytes",
    "parking-lot",
    "two-way",
    "datagrams",
    "ack-loss",
    "trace"
);

fn build(header: &str, body: &str, protocol: &str) -> Scenario {
    let text = format!("{header}\n{}", body.replace("PROTOCOL", protocol));
    let file = ScenarioFile::parse("test.toml", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.build().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn five_seconds(body: &str, protocol: &str) -> Scenario {
    build("duration = '5s'\nseed = 7", body, protocol)
}

fn for_the_whole_table(mut test: impl FnMut(&str, &str, &Scenario)) {
    for (name, body) in SCENARIOS {
        for protocol in PROTOCOLS {
            test(name, protocol.name, &five_seconds(body, protocol.name));
        }
    }
}

/// An outcome without the number of events, which depends on the shortcuts.
fn comparable(mut outcome: Outcome) -> Outcome {
    outcome.events = 0;
    outcome
}

fn run_with(scenario: &Scenario, detail: Detail) -> Outcome {
    comparable(Simulation::with_detail(scenario, detail).finish())
}

/// Runs a scenario with each level of detail, checks that the outcomes are equal and balanced, and
/// returns the outcome.
#[track_caller]
fn alike_with_all_details(what: &str, scenario: &Scenario) -> Outcome {
    let plain = run_with(scenario, Detail::Everything);
    for detail in [Detail::Fast, Detail::Snapshots, Detail::Changes] {
        let other = run_with(scenario, detail);
        assert_eq!(other.links, plain.links, "{what}, {detail:?}");
        assert_eq!(other, plain, "{what}, {detail:?}");
    }
    assert_balanced(what, scenario, &plain);
    plain
}

#[track_caller]
fn assert_balanced(what: &str, scenario: &Scenario, outcome: &Outcome) {
    let mut gone = 0;
    for link in &outcome.links {
        let LinkOutcome { arrived, dropped, corrupted, delivered, in_flight, .. } = *link;
        let accounted = delivered + dropped + corrupted + in_flight;
        assert_eq!(arrived, accounted, "{what}: link {}", link.name);
        assert!((0.0..=1.0 + 1e-9).contains(&link.utilization), "{what}: {}", link.utilization);
        gone += dropped + corrupted + in_flight;
    }
    // From end to end: each packet sent is acknowledged, lost or under way in one direction.
    let arrived_at_end = |route: &[LinkId]| {
        let shared = |link: &LinkId| {
            let crossing = |f: &&FlowConfig| f.forward.contains(link) || f.reverse.contains(link);
            scenario.flows.iter().filter(crossing).count() > 1
        };
        route.last().filter(|link| !shared(link)).map(|&link| outcome.links[link].delivered)
    };
    let mut sent = 0;
    for (spec, flow) in scenario.flows.iter().zip(&outcome.flows) {
        sent += flow.packets_sent;
        let back = if spec.reverse.is_empty() { &spec.forward } else { &spec.reverse };
        let Some(home) = arrived_at_end(back) else {
            return; // Another flow's packets arrive there as well.
        };
        gone += home;
    }
    assert_eq!(sent, gone, "{what}: sent, and accounted for");
}

#[test]
fn shortcuts_do_not_change_outcomes_and_counts_balance() {
    let mut lost = 0;
    for_the_whole_table(|name, protocol, scenario| {
        let what = format!("{protocol}, {name}");
        let fast = alike_with_all_details(&what, scenario);
        assert!(fast.flows.iter().all(|flow| flow.packets_sent > 10), "{what}: idle flows");
        lost += fast.links.iter().map(|l| l.dropped + l.corrupted).sum::<u64>();
    });
    assert!(lost > 1000, "the scenarios are meant to lose packets, not {lost}");
}

/// Counts of the events that an observer saw.
#[derive(Debug, Default)]
struct Heard {
    latest: Time,
    sent: Vec<u64>,
    datagrams: u64,
    arrived: u64,
    answers: u64,
    acks: u64,
    lost: u64,
    cwnd: f64,
}

/// Shared with the test, since the simulation does not return its observer.
#[derive(Debug, Clone, Default)]
struct Listener(std::sync::Arc<std::sync::Mutex<Heard>>);

impl Listener {
    fn at(&self, now: Time) -> std::sync::MutexGuard<'_, Heard> {
        let mut heard = self.0.lock().unwrap();
        assert!(heard.latest <= now, "time ran back");
        heard.latest = now;
        heard
    }
}

impl Observer for Listener {
    fn on_sent(&mut self, now: Time, flow: usize, packet: &Packet, sender: &Sender) {
        assert_eq!((packet.kind, packet.timestamp), (PacketKind::Data, now));
        assert!(sender.sequences().high > packet.seq);
        self.at(now).sent[flow] += 1;
    }
    fn on_ack(&mut self, now: Time, _flow: usize, ack: &Packet, sender: &Sender) {
        assert_eq!(ack.kind, PacketKind::Ack);
        assert!(sender.sequences().una >= ack.seq, "it has been dealt with");
        self.at(now).acks += 1;
    }
    fn on_timer(&mut self, now: Time, _flow: usize, of_recovery: bool, sender: &Sender) {
        assert!(of_recovery || !sender.report().timed_out);
        drop(self.at(now));
    }
    fn on_settled(&mut self, now: Time, _flow: usize, sender: &Sender) {
        self.at(now).cwnd += sender.cwnd();
    }
    fn on_arrival(&mut self, now: Time, _flow: usize, packet: &Packet) {
        assert_ne!(packet.kind, PacketKind::Ack);
        self.at(now).arrived += 1;
    }
    fn on_answer(&mut self, now: Time, _flow: usize, _ack: &Packet) {
        self.at(now).answers += 1;
    }
    fn on_datagram(&mut self, now: Time, _flow: usize, _packet: &Packet) {
        self.at(now).datagrams += 1;
    }
    fn on_loss(&mut self, now: Time, _flow: usize, _packet: &Packet, _loss: Loss) {
        self.at(now).lost += 1;
    }
}

#[test]
fn an_observer_sees_every_packet_and_does_not_change_the_outcome() {
    for_the_whole_table(|name, protocol, scenario| {
        let what = format!("{protocol}, {name}");
        let listener = Listener::default();
        listener.0.lock().unwrap().sent = vec![0; scenario.flows.len()];
        let observed = Simulation::observed(scenario, Box::new(listener.clone()));
        let outcome = comparable(observed.finish());
        assert_eq!(outcome, run_with(scenario, Detail::Fast), "{what}");
        let heard = listener.0.lock().unwrap();
        let connections = outcome.flows.iter().map(|flow| match flow.protocol.as_ref() {
            "datagrams" => 0,
            _ => flow.packets_sent,
        });
        assert_eq!(heard.sent, connections.collect::<Vec<_>>(), "{what}");
        let sent = outcome.flows.iter().map(|flow| flow.packets_sent).sum::<u64>();
        assert_eq!(heard.datagrams + heard.sent.iter().sum::<u64>(), sent, "{what}");
        assert!(heard.acks <= heard.answers && heard.answers <= heard.arrived, "{what}: {heard:?}");
        let gone = |link: &LinkOutcome| link.dropped + link.corrupted;
        let lost = outcome.links.iter().map(gone).sum::<u64>();
        // A packet that is destroyed on a wire when the run ends has not been counted yet.
        let on_wires = outcome.links.iter().map(|link| link.in_flight).sum::<u64>();
        assert!((lost..=lost + on_wires).contains(&heard.lost), "{what}: {lost}, {heard:?}");
        assert!(heard.cwnd > 0.0);
    });
}

/// Settings of impairments in link tables.
const IMPAIRMENTS: &[&str] = &[
    // A route that gets shorter and longer, with and without order.
    r#"delay = { schedule = [{ at = "0s", delay = "20ms" }, { at = "400ms", delay = "7ms" },
                             { at = "900ms", delay = "33ms" }], repeat = "1300ms" }"#,
    r#"delay = { schedule = [{ at = "0s", delay = "30ms" }, { at = "700ms", delay = "1ms" }],
                 repeat = "900ms", in_order = true }"#,
    r#"delay = "10ms", jitter = "15ms""#,
    r#"delay = "10ms", jitter = { amount = "15ms", in_order = false }"#,
    r#"delay = "12ms", reorder = { share = 0.05, by = "9ms" }"#,
    r#"delay = "12ms", reorder = { share = 0.02, by = "3p" }, jitter = "1ms""#,
    r#"delay = "8ms", loss = 0.2, arq = { attempts = 3, delay = "6ms" }"#,
    r#"delay = "8ms", gilbert_elliott = { mean_good = "90ms", mean_bad = "30ms" },
       arq = { attempts = 4, delay = "11ms", in_order = false },
       outages = [{ at = "1s", length = "400ms" }]"#,
    r#"delay = "8ms", loss = 0.3, arq = { attempts = 7, delay = "1ms", air_time = false },
       outages = { schedule = [{ at = "300ms", length = "25ms" }], repeat = "500ms",
                   during = "drop" }"#,
    r#"delay = "5ms", jitter = { distribution = "pareto", mean = "3ms", correlation = 0.7,
                                 interval = "2ms" }"#,
    r#"delay = "10ms", outages = { schedule = [{ at = "300ms", length = "120ms" }],
                                   repeat = "800ms" }"#,
    r#"delay = "10ms", outages = { schedule = [{ at = "300ms", length = "40ms" },
                                               { at = "600ms", length = "1ms" }],
                                   repeat = "700ms", during = "drop" }"#,
    r#"delay = "10ms", rate = { schedule = [{ at = "0s", rate = "5Mbit" },
                                            { at = "500ms", rate = "0.7Mbit" },
                                            { at = "800ms", rate = "7.3Mbit" }], repeat = "1s" }"#,
    r#"delay = { schedule = [{ at = "0s", delay = "20ms" }, { at = "1s", delay = "4ms" }],
                 repeat = "2s" }, loss = 0.01, jitter = "3ms",
       rate = { schedule = [{ at = "0s", rate = "5Mbit" }, { at = "1s", rate = "3Mbit" }],
                repeat = "2s" },
       outages = { schedule = [{ at = "950ms", length = "50ms" }], repeat = "2s" }"#,
];

/// Every impairment at every kind of queue, on the bottleneck, on a link that is passed through
/// without an event, and on the way of acknowledgments.
#[test]
fn impairments_do_not_depend_on_shortcuts() {
    let (mut reordered, mut corrupted, mut waited) = (0, 0, 0.0);
    for impairment in IMPAIRMENTS {
        let rate = if impairment.contains("rate =") { "" } else { "rate = '5Mbit', " };
        for (place, aqm) in [
            ("bottleneck", "droptail"),
            ("bottleneck", "red"),
            ("bottleneck", "codel"),
            ("bottleneck", "pie"),
            ("reverse_bottleneck", "droptail"),
            ("access", "droptail"),
        ] {
            let usual = "rate = '5Mbit', delay = '10ms', queue = '30p'";
            let of = |key: &str| {
                let aqm = if key == "bottleneck" { aqm } else { "droptail" };
                if key == place {
                    format!(
                        "dumbbell.{key} = {{ {rate}{impairment}, queue = '30p', aqm = '{aqm}' }}"
                    )
                } else if key == "reverse_bottleneck" {
                    String::new()
                } else {
                    format!("dumbbell.{key} = {{ {usual}, aqm = '{aqm}' }}")
                }
            };
            let body = format!(
                "{}\n{}\n{}\n
                 flows = [{{ group = 'a', count = 2, protocol = 'PROTOCOL', start = ['0s', '1s'] }},
                          {{ group = 'b', protocol = 'PROTOCOL', packet_size = 400 }},
                          {{ group = 'c', cbr = {{ rate = '300kbit', packet_size = 300 }} }}]",
                of("bottleneck"),
                of("reverse_bottleneck"),
                of("access"),
            );
            let protocols: &[&str] =
                if aqm == "droptail" { &["newreno", "xcp", "bbr"] } else { &["cubic"] };
            for protocol in protocols {
                let what = format!("{impairment}, {place}, {aqm}, {protocol}");
                let scenario = five_seconds(&body, protocol);
                let plain = alike_with_all_details(&what, &scenario);
                assert!(plain.flows.iter().all(|flow| flow.packets_sent > 10), "{what}: idle");
                reordered += plain.links.iter().map(|link| link.reordered).sum::<u64>();
                corrupted += plain.links.iter().map(|link| link.corrupted).sum::<u64>();
                waited += plain.links.iter().map(|link| link.mean_queue_packets).sum::<f64>();
            }
        }
    }
    assert!(reordered > 1000 && corrupted > 1000 && waited > 10.0, "{reordered} {corrupted}");
}

#[test]
fn shared_media_do_not_depend_on_shortcuts() {
    for (wlan, link) in [
        ("frames = 1", "loss = 0.1"),
        ("attempts = 2", "loss = 0.3"),
        ("cw_max = 15", "aqm = 'codel'"),
        ("aggregate = 8000", "aqm = 'fq-codel', loss = 0.05"),
        ("slot = '20us'", "aqm = 'pie'"),
        (
            "preamble = '40us'",
            "rate = { schedule = [{ at = '0s', rate = '60Mbit' }, { at = '500ms', rate = '6Mbit' }],
                      repeat = '1s' }",
        ),
    ] {
        let rate = if link.contains("rate =") { "" } else { "rate = '26Mbit'," };
        let body = format!(
            r#"
            wlans = [{{ name = "wifi", {wlan} }}]
            dumbbell.bottleneck = {{ rate = "50Mbit", delay = "8ms", queue = "60p" }}
            dumbbell.access = {{ rate = "100Mbit", delay = "2ms", queue = "50p" }}
            [[flows]]
            group = "down"
            count = 2
            protocol = "PROTOCOL"
            last_hop = {{ {rate} {link}, delay = "1us", queue = "40p", wlan = "wifi" }}
            [[flows]]
            group = "up"
            count = 2
            protocol = "PROTOCOL"
            upload = true
            first_hop = {{ {rate} {link}, delay = "1us", queue = "40p", wlan = "wifi" }}
            [[flows]]
            group = "voice"
            cbr = {{ rate = "300kbit", packet_size = 300 }}
            last_hop = {{ {rate} {link}, delay = "1us", queue = "40p", wlan = "wifi" }}
            "#
        );
        for protocol in ["newreno", "bbr"] {
            let what = format!("{wlan}, {link}, {protocol}");
            let scenario = five_seconds(&body, protocol);
            scenario.validate().unwrap();
            let plain = alike_with_all_details(&what, &scenario);
            assert!(plain.flows.iter().all(|flow| flow.packets_sent > 100), "{what}: idle");
        }
    }
}

#[test]
fn queues_do_postponed_work_correctly() {
    // Compares work at the instant when it is due with work at the latest possible instant.
    for (Words { name: aqm, .. }, _) in AqmConfig::forms() {
        for (protocol, classes) in [("cubic", false), ("prague", false), ("xcp", true)] {
            let scenario = five_seconds(
                &format!(
                    r#"
                    dumbbell.bottleneck = {{ rate = "6Mbit", delay = "10ms", queue = "60p",
                                             aqm = "{aqm}", classes = {classes}, loss = 0.001 }}
                    dumbbell.access = {{ rate = "20Mbit", delay = "2ms", queue = "50p" }}
                    flows = [
                        {{ group = "a", count = 2, protocol = "PROTOCOL", ecn = true }},
                        {{ group = "b", protocol = "cubic", start = "100ms" }},
                        {{ group = "c", cbr = {{ rate = "500kbit", packet_size = 200 }} }},
                    ]"#
                ),
                protocol,
            );
            let what = format!("{aqm}, {protocol}");
            alike_with_all_details(&what, &scenario);
        }
    }
}

#[test]
fn outcomes_depend_only_on_scenario_and_seed() {
    for_the_whole_table(|name, protocol, scenario| {
        let what = format!("{protocol}, {name}");
        let first = run(scenario);
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| run(scenario)).join().unwrap());
        assert_eq!(first, elsewhere, "{what}");

        let mut simulation = Simulation::new(scenario);
        for step in 0..700 {
            simulation.advance(Time::ZERO + Duration::from_micros(7_919 * step));
        }
        assert_eq!(comparable(simulation.finish()), comparable(first.clone()), "{what}");

        // Without random draws, the seed has no effect.
        if ["loss", "bursts", "ack-loss", "datagrams"].contains(&name) {
            let seed = scenario.seed + 1;
            let other = run(&Scenario { seed, ..scenario.clone() });
            assert_ne!(first.fingerprint, other.fingerprint, "{what}");
        }
    });
}

/// A run in which all links change after each second, advanced in `steps` steps per second.
fn with_changes(scenario: &Scenario, detail: Detail, steps: u64) -> Outcome {
    let mut simulation = Simulation::with_detail(scenario, detail);
    let p = |p| Some(ChannelConfig::PacketLoss(Probability::new(p).unwrap()));
    let rate = |bps| Rate::from_bps(bps);
    let ms = |ms| Some(Duration::from_millis(ms));
    let changes = [
        LinkChange { rate: rate(1_500_000), delay: None, channel: None },
        LinkChange { rate: rate(7_000_001), delay: ms(30), channel: p(0.05) },
        LinkChange { rate: None, delay: ms(2), channel: Some(ChannelConfig::Clean) },
        LinkChange { rate: rate(3_000_000), delay: ms(11), channel: p(0.01) },
    ];
    for (second, change) in (1..).zip(changes) {
        for step in 1..=steps {
            let ms = 1000 * (second - 1) + 1000 * step / steps;
            simulation.advance(Time::ZERO + Duration::from_millis(ms));
        }
        for link in 0..scenario.links.len() {
            let traced = matches!(scenario.links[link].kind.rate, LinkRate::Trace(_));
            let expected =
                if traced && change.rate.is_some() { Err(ChangeError::Traced) } else { Ok(()) };
            assert_eq!(simulation.change_link(link, &change), expected);
        }
    }
    comparable(simulation.finish())
}

#[test]
fn changes_of_links_affect_packets_that_have_not_left() {
    for (name, body) in SCENARIOS {
        for protocol in ["newreno", "xcp", "lr-xtcp", "cubic", "bbr"] {
            let scenario = five_seconds(body, protocol);
            let what = format!("{protocol}, {name}");
            let prompt = with_changes(&scenario, Detail::Everything, 1);
            assert_eq!(with_changes(&scenario, Detail::Changes, 1), prompt, "{what}");
            assert_eq!(with_changes(&scenario, Detail::Changes, 77), prompt, "{what}, in steps");
            assert_ne!(run(&scenario).fingerprint, prompt.fingerprint, "{what}");
            assert_balanced(&what, &scenario, &prompt);
        }
    }
}

#[test]
fn a_shorter_delay_lets_packets_overtake() {
    // 1000 bytes each millisecond, 0.1 ms on the wire and 20 ms from the far end; 5 ms from 100 ms
    // on. The packet of that instant is being sent. The next is there at 106.1 ms, and those of 87
    // to 100 ms after it.
    let body = r#"
        links = [{ from = "a", to = "b", rate = "80Mbit", delay = "20ms" }]
        flows = [{ group = "a", cbr = { rate = "8Mbit", packet_size = 1000 }, from = "a", to = "b" }]"#;
    for detail in [Detail::Changes, Detail::Everything] {
        let mut simulation = Simulation::with_detail(&five_seconds(body, ""), detail);
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let change =
            |ms| LinkChange { delay: Some(Duration::from_millis(ms)), ..LinkChange::default() };
        simulation.advance(at(100));
        simulation.change_link(0, &change(5)).unwrap();
        simulation.advance(at(1000));
        // Longer delays, twice: no packet overtakes another.
        simulation.change_link(0, &change(30)).unwrap();
        simulation.advance(at(1010));
        simulation.change_link(0, &change(40)).unwrap();
        let link = simulation.finish().links.remove(0);
        // Those of 4960 to 5000 ms are under way.
        assert_eq!((link.reordered, link.delivered, link.in_flight), (14, 4960, 41));
    }
}

/// A connection that always has packets in the queue of the first link, its bottleneck.
const ALWAYS_FULL: &str = r#"
    dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms", queue = "2000p" }
    dumbbell.access = { rate = "100Mbit", delay = "5ms", queue = "2000p" }
    flows = [{ group = "a", protocol = "PROTOCOL", rwnd = 300, initial_window = 200 }]"#;

#[test]
fn a_link_uses_its_current_rate() {
    let scenario = build("duration = '30s'", ALWAYS_FULL, "newreno");
    let (flow, link) = (&scenario.flows[0], scenario.flows[0].bottleneck);
    let packet = match &flow.kind.traffic {
        crate::scenario::Traffic::Transport { config, .. } => u64::from(config.packet_size),
        _ => panic!("it is a connection"),
    };
    let mut simulation = Simulation::changeable(&scenario);
    let mut carried = Vec::new();
    let mut before = 0;
    for (second, mbit) in [(5, 10), (10, 5), (20, 20), (30, 20)] {
        simulation.advance(Time::ZERO + Duration::from_secs(second));
        let sent = simulation.link(link).sent_bytes;
        carried.push(sent - before);
        before = sent;
        let rate = Rate::from_bps(mbit * 1_000_000);
        simulation.change_link(link, &LinkChange { rate, ..LinkChange::default() }).unwrap();
    }
    // 10 Mbit/s are 1.25 MB/s: 6.25 MB in 5 s, less the start; then the same; 6.25 MB in 10 s at
    // half the rate, 25 MB in 10 s at twice. A packet in transmission keeps its old rate.
    assert!(carried[0] > 6_100_000, "{carried:?}");
    for (carried, exact) in
        [(carried[1], 6_250_000), (carried[2], 6_250_000), (carried[3], 25_000_000)]
    {
        assert!(u64::abs_diff(carried, exact) <= packet, "{carried} of {exact}");
    }
    assert_eq!(simulation.finish().links[link].dropped, 0);
}

#[test]
fn routers_know_the_current_rate_of_a_link() {
    // With an outdated rate, XCP would fill half of a link of twice the rate, and keep a standing
    // queue at one of half the rate.
    for (protocol, classes) in [("xcp", false), ("xcp", true), ("lr-lmxcp", false)] {
        let body = format!(
            r#"
            dumbbell.bottleneck = {{ rate = "10Mbit", delay = "20ms", queue = "200p",
                                     classes = {classes} }}
            dumbbell.access = {{ rate = "100Mbit", delay = "5ms", queue = "200p" }}
            flows = [{{ group = "a", count = 3, protocol = "PROTOCOL" }}]"#
        );
        let scenario = build("duration = '90s'", &body, protocol);
        let link = scenario.flows[0].bottleneck;
        let mut simulation = Simulation::changeable(&scenario);
        let mut before = (0, 0);
        for (round, mbit) in [10, 5, 20].into_iter().enumerate() {
            let begin = 30 * round as u64;
            let at = |second| Time::ZERO + Duration::from_secs(begin + second);
            if round > 0 {
                let rate = Rate::from_bps(mbit * 1_000_000);
                simulation
                    .change_link(link, &LinkChange { rate, ..LinkChange::default() })
                    .unwrap();
            }
            // Packets that the old windows have in flight may be dropped within the first second,
            // but not after.
            simulation.advance(at(10));
            before.1 = simulation.link(link).dropped;
            before.0 = simulation.link(link).sent_bytes;
            let mut queue = 0;
            for second in 11..=30 {
                simulation.advance(at(second));
                queue = queue.max(simulation.link(link).queue_packets);
            }
            let found = simulation.link(link);
            let share = (found.sent_bytes - before.0) as f64 / (20.0 * mbit as f64 * 125_000.0);
            let what = format!("{protocol}, classes {classes}, {mbit} Mbit/s: {share}, {queue}");
            assert!(share > 0.95 && share <= 1.0, "{what}");
            assert_eq!(found.dropped, before.1, "{what}");
            assert!(queue < 40, "{what}");
        }
    }
}

#[test]
fn a_link_uses_its_current_loss_rate() {
    let body = r#"
        dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms" }
        dumbbell.access = { rate = "100Mbit", delay = "5ms" }
        flows = [{ group = "PROTOCOL", cbr = { rate = "8Mbit", packet_size = 1000 } }]"#;
    // 1000 packets a second.
    let scenario = build("duration = '60s'", body, "voice");
    let link = scenario.flows[0].bottleneck;
    let mut simulation = Simulation::changeable(&scenario);
    let mut corrupted = Vec::new();
    for (second, loss) in [(20, 0.1), (40, 0.0), (60, 0.0)] {
        simulation.advance(Time::ZERO + Duration::from_secs(second));
        corrupted.push(simulation.link(link).corrupted);
        let channel = Some(ChannelConfig::PacketLoss(Probability::new(loss).unwrap()));
        simulation.change_link(link, &LinkChange { channel, ..LinkChange::default() }).unwrap();
    }
    assert_eq!(corrupted[0], 0);
    // 20 000 packets at 0.1: five standard errors are 5 sqrt(20 000 * 0.09) = 212.
    assert!(corrupted[1].abs_diff(2000) < 212, "{corrupted:?}");
    // One may have been in transmission.
    assert!(corrupted[2] - corrupted[1] <= 1, "{corrupted:?}");
}

#[test]
fn links_change_only_in_changeable_simulations() {
    let scenario = five_seconds(SCENARIOS[0].1, "newreno");
    let change = LinkChange { rate: Rate::from_bps(1), ..LinkChange::default() };
    for mut simulation in [Simulation::new(&scenario), Simulation::traced(&scenario)] {
        assert_eq!(simulation.change_link(0, &change), Err(ChangeError::Fixed));
        assert_eq!(comparable(simulation.finish()), comparable(run(&scenario)));
    }
}

const SHARED: &str = r#"
    dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms", queue = "100p" }
    dumbbell.access = { rate = "100Mbit", delay = "5ms", queue = "100p" }
    flows = [{ group = "a", count = 5, protocol = "PROTOCOL", start = ["0s", "5s"] }]"#;

/// Katabi et al. 2002, sections 3.5 and 4: XCP uses the link fully, shares it equally and
/// drops next to nothing.
#[test]
fn xcp_converges_to_equal_shares_of_a_full_link() {
    for protocol in PROTOCOLS {
        let scenario = build("duration = '60s'\nwarmup = '30s'", SHARED, protocol.name);
        let bottleneck = scenario.flows[0].bottleneck;
        if !matches!(scenario.links[bottleneck].kind.queue.router, RouterConfig::Xcp(_)) {
            continue;
        }
        let outcome = run(&scenario);
        let link = &outcome.links[bottleneck];
        let what = format!("{}: jain {}, {link:?}", protocol.name, outcome.jain);
        assert!(link.utilization >= 0.98, "{what}");
        assert!(outcome.jain >= 0.99, "{what}");
        assert_eq!(link.dropped, 0, "{what}");
    }
}

/// With a queue of a bandwidth-delay product (60 ms, 75 packets) a window that halves when it
/// overflows leaves cwnd >= (75 + 75) / 2: the link never idles. CUBIC keeps more. The odd
/// timeout is allowed for with 5 %.
#[test]
fn halving_windows_fill_a_link_with_a_queue_of_a_bandwidth_delay_product() {
    for protocol in PROTOCOLS.iter().filter(|p| p.router != RouterKind::Xcp) {
        // JTCP at 1/cwnd takes some overflows for corruption, which end in timeouts.
        let halves = !matches!(protocol.discrimination, DiscriminatorConfig::JitterRatio(_));
        if protocol.router == RouterKind::XcpPersistent || !halves {
            continue;
        }
        let scenario = build("duration = '60s'\nwarmup = '20s'", SHARED, protocol.name);
        let outcome = run(&scenario);
        let link = &outcome.links[scenario.flows[0].bottleneck];
        assert!(link.utilization >= 0.95, "{}: {link:?}", protocol.name);
    }
}

/// Mathis et al. 1997: packets/RTT x sqrt(3 / (2 p)). It assumes losses one at a time, regularly,
/// and no timeout. Random losses lie unevenly, and from about 1 % on a window of some 12 packets
/// often loses two, which leads to a timeout of Reno: hence 20 %, and SACK only up to 1 %.
#[test]
fn reno_and_sack_follow_the_inverse_square_root_of_the_loss_rate() {
    for (protocol, p) in [
        ("reno", 0.001_f64),
        ("reno", 0.002),
        ("newreno", 0.001),
        ("sack", 0.001),
        ("sack", 0.004),
        ("sack", 0.01),
    ] {
        // 50 ms round trip; 38.7 packets at p = 0.001 fill a fifteenth of 100 Mbit/s.
        let body = r#"
            dumbbell.bottleneck = { rate = "100Mbit", delay = "23ms", queue = "1000p", loss = LOSS }
            dumbbell.access = { rate = "1Gbit", delay = "1ms", queue = "1000p" }
            flows = [{ group = "a", count = 4, protocol = "PROTOCOL" }]"#;
        let body = body.replace("LOSS", &p.to_string());
        let scenario = build("duration = '400s'\nwarmup = '10s'", &body, protocol);
        let outcome = run(&scenario);
        let window = (1.5 / p).sqrt();
        let expected = 4.0 * 8000.0 * window / 0.050;
        let ratio = outcome.groups[0].goodput_bps / expected;
        println!("{protocol} at {p}: {ratio:.3} of the formula");
        assert!((0.8..=1.2).contains(&ratio), "{protocol} at {p}: {ratio} of {expected}");
    }
}

/// 10 Mbit/s over 80 ms with a queue of one BDP, and a share of the packets lost behind it.
fn bbr_over_a_long_path(protocol: &str, flows: u32, seconds: u32, loss: f64) -> Outcome {
    let body = format!(
        "dumbbell.bottleneck = {{ rate = '10Mbit', delay = '38ms', queue = '100p', loss = {loss} }}
         dumbbell.access = {{ rate = '100Mbit', delay = '1ms', queue = '1000p' }}
         flows = [{{ group = 'a', count = {flows}, protocol = 'PROTOCOL', start = ['0s', '1s'] }}]"
    );
    run(&build(&format!("duration = '{seconds}s'\nwarmup = '10s'"), &body, protocol))
}

/// BBR tolerates losses up to 2 % of a flight, as a design parameter (its draft, LossThresh), and
/// backs off beyond: in the published evaluations of BBRv2 and v3 throughput stays high at 1 %
/// and falls steeply from about 2 % on, where it had held to 15 % in BBRv1.
#[test]
fn bbr_keeps_its_rate_below_two_per_cent_of_loss_and_not_beyond() {
    let share = |protocol, loss: f64| {
        let outcome = bbr_over_a_long_path(protocol, 1, 120, loss);
        outcome.groups[0].goodput_bps / (10e6 * (1.0 - loss))
    };
    let shares = [0.0, 0.01, 0.02, 0.05, 0.2].map(|loss| share("bbr", loss));
    println!("goodput over C (1 - p) at 0, 1, 2, 5, 20 %: {shares:.3?}");
    // Pacing at 99 % of the rate, with 2 % less for ProbeRTT.
    assert!((0.95..=0.985).contains(&shares[0]), "{shares:?}");
    // 1 %: most of the path, and several times what a Reno makes of it, sqrt(1.5 / p) packets
    // a round trip of 100 (Mathis et al. 1997): 0.12.
    assert!(shares[1] > 0.7 && shares[1] > 4.0 * share("sack", 0.01), "{shares:?}");
    assert!(shares[3] < 0.3 && shares[4] < 0.1, "{shares:?}");
    assert!(shares.windows(2).all(|pair| pair[1] < pair[0] + 0.01), "{shares:?}");
}

#[test]
fn four_bbr_flows_share_a_bottleneck() {
    let outcome = bbr_over_a_long_path("bbr", 4, 300, 0.0);
    let share = outcome.groups[0].goodput_bps / 10e6;
    println!("Jain {:.4}, {share:.3} of the bottleneck", outcome.jain);
    assert!(outcome.jain > 0.95, "{}", outcome.jain);
    assert!(share > 0.95, "{share}");
    // Losses above the threshold are answered: 2 % of a probe, far less on average.
    let lost: f64 = outcome.links.iter().map(|link| link.dropped as f64).sum();
    let sent: u64 = outcome.flows.iter().map(|flow| flow.packets_sent).sum();
    assert!(lost / (sent as f64) < 0.02, "{lost} of {sent}");
}

#[test]
fn extreme_scenarios_end_and_balance() {
    let dumbbell = |rate: &str, delay: &str, extra: &str| {
        format!(
            "dumbbell.bottleneck = {{ rate = '{rate}', delay = '{delay}'{extra} }}
             dumbbell.access = {{ rate = '{rate}', delay = '0s' }}
             flows = [{{ group = 'a', count = 2, protocol = 'PROTOCOL' }}]"
        )
    };
    for (name, header, body) in [
        ("RTT 1 us", "duration = '20ms'", dumbbell("1Gbit", "500ns", "")),
        ("RTT 1 h", "duration = '5h'", dumbbell("1Mbit", "30min", "")),
        ("loss 100 %", "duration = '1h'", dumbbell("1Mbit", "10ms", ", loss = 1")),
        ("1 bit/s", "duration = '3h'", dumbbell("1bit", "10ms", "")),
        ("1 Tbit/s", "duration = '2ms'", dumbbell("1Tbit", "10us", "")),
        ("nothing fits", "duration = '100s'", dumbbell("1Mbit", "10ms", ", queue = '1p'")),
    ] {
        for protocol in PROTOCOLS {
            let what = format!("{}, {name}", protocol.name);
            let scenario = build(header, &body, protocol.name);
            let outcome = run(&scenario);
            assert_balanced(&what, &scenario, &outcome);
            let sent: u64 = outcome.flows.iter().map(|flow| flow.packets_sent).sum();
            assert!(sent > 0, "{what}");
            if name.starts_with("loss") {
                // 2 + 2 packets, then one per doubled timeout up to 60 s: 1, 2, 4 .. 32, 60 ..:
                // 6 in the first minute and 59 in the rest of the hour, for each of two flows.
                // Recovery by packet number sends two probes each time (RFC 9002 section 6.2.4).
                let probes = if matches!(protocol.recovery, RecoveryConfig::PacketNumber(_)) {
                    2
                } else {
                    1
                };
                assert!(outcome.links.iter().all(|link| link.delivered <= sent));
                // Bulk repeat takes them for errors: its window of two once a second.
                let repeats = matches!(protocol.recovery, RecoveryConfig::BulkRepeat(_));
                let range = if repeats { 14_396..=14_404 } else { 120 * probes..=140 * probes };
                assert!(range.contains(&sent), "{what}: {sent} packets");
                assert_eq!(outcome.groups[0].goodput_bps, 0.0, "{what}");
            }
        }
    }
}

#[test]
fn a_saturating_stream_of_datagrams_matches_arithmetic() {
    let with_rate = |rate: &str| {
        let body = format!(
            "dumbbell.bottleneck = {{ rate = '10Mbit', delay = '10ms', queue = '50p' }}
             dumbbell.access = {{ rate = '100Mbit', delay = '1ms', queue = '50p' }}
             flows = [{{ group = 'a', cbr = {{ rate = '{rate}', packet_size = 1000 }} }}]"
        );
        let scenario = build("duration = '20s'\nwarmup = '10s'", &body, "");
        let outcome = run(&scenario);
        let link = outcome.links[scenario.flows[0].bottleneck].clone();
        (outcome.flows[0].clone(), link)
    };
    // 19 Mbit/s into 10. Whenever a packet leaves, every 0.8 ms, 49 wait until the next comes,
    // on average half an interval of 8/19 ms later: 50 - (4/19) / 0.8 = 49.737. The ten phases
    // of the two clocks have one tie, worth a tenth of an interval at most: 0.053 either way.
    let (flow, link) = with_rate("19Mbit");
    assert!((link.mean_queue_packets - 49.737).abs() < 0.054, "{link:?}");
    assert_eq!(link.max_queue_packets, 50);
    assert!((link.utilization - 1.0).abs() < 1e-9, "{link:?}");
    // 1250 packets a second, one more or less in ten seconds.
    assert!((flow.goodput_bps - 10e6).abs() <= 800.0, "{flow:?}");
    assert!((flow.throughput_bps - 10e6).abs() <= 800.0, "{flow:?}");
    let refused = link.dropped as f64 / link.arrived as f64;
    // The first 51 find room in an empty queue.
    assert!((refused - 9.0 / 19.0).abs() < 51.0 / link.arrived as f64 + 1e-4, "{link:?}");

    // 5 Mbit/s: half utilization, and no packet waits.
    let (flow, link) = with_rate("5Mbit");
    assert!((link.utilization - 0.5).abs() < 1e-4, "{link:?}");
    assert_eq!((link.mean_queue_packets, link.dropped), (0.0, 0));
    assert!((flow.goodput_bps - 5e6).abs() <= 800.0, "{flow:?}");
}

#[test]
fn a_single_transfer_takes_the_time_of_its_slow_start() {
    // 14 packets with windows 2, 4, 8 (RFC 5681), 1 Gbit/s, RTT 100 ms and 8 us a packet and
    // link: complete in three round trips and a little more.
    let body = r#"
        dumbbell.bottleneck = { rate = "1Gbit", delay = "50ms", queue = "50p" }
        dumbbell.access = { rate = "1Gbit", delay = "0s", queue = "50p" }
        flows = [{ group = "a", protocol = "PROTOCOL", size = "14p" }]"#;
    for protocol in ["reno", "newreno", "sack", "cubic", "lr-xtcp", "lr-lmxtcp"] {
        let outcome = run(&five_seconds(body, protocol));
        let flow = &outcome.flows[0];
        let completed = flow.completed.expect("complete").since(Time::ZERO).as_secs_f64();
        assert!((0.300..0.301).contains(&completed), "{protocol}: {completed}");
        assert_eq!((flow.packets_sent, flow.retransmissions), (14, Some(0)));
    }
}

#[test]
fn xcp_leaves_datagrams_their_bandwidth() {
    // 4 of 10 Mbit/s go to datagrams from 10 s on: the router counts them as input, so that XCP
    // fills the other 6, and all of it before. The 4 Mbit/s have to be taken back within some
    // round trips of 44 ms, of 22 packets too many each, before 200 packets wait. 2 s are plenty.
    for protocol in ["xcp-katabi", "xcp-r"] {
        let body = r#"
            dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms", queue = "200p" }
            dumbbell.access = { rate = "10Mbit", delay = "1ms", queue = "200p" }
            flows = [{ group = "x", protocol = "PROTOCOL", count = 2 },
                     { group = "d", schedule = [{ from = "10s", until = "20s", rate = "4Mbit" }] }]"#;
        for (from, until, share) in [("2s", "10s", 10.0), ("12s", "20s", 6.0)] {
            let header = format!("duration = '{until}'\nwarmup = '{from}'");
            let outcome = run(&build(&header, body, protocol));
            let throughput = outcome.groups[0].throughput_bps / 1e6;
            assert!((throughput / share - 1.0).abs() < 0.05, "{protocol}: {throughput} of {share}");
            let bottleneck = outcome.links.iter().find(|l| l.name == "bottleneck").unwrap();
            assert_eq!(bottleneck.dropped, 0);
        }
    }
}

#[test]
fn sampling_does_not_change_the_outcome() {
    for_the_whole_table(|name, protocol, scenario| {
        let what = format!("{protocol}, {name}");
        let interval = Duration::from_millis(70);
        let sampled = Scenario { sample: Some(interval), flow_bins: true, ..scenario.clone() };
        let mut sampled = comparable(run(&sampled));
        let samples = sampled.samples.take().expect("samples were asked for");
        for flow in &mut sampled.flows {
            assert_eq!(flow.throughput_bins.len(), 5, "{what}");
            flow.throughput_bins.clear();
        }
        assert_eq!(sampled, comparable(run(scenario)), "{what}");
        // From 0 to 4.97 s: 72 of them.
        assert_eq!(samples.times.len(), 72, "{what}");
        assert_eq!(samples.times[71], Time::ZERO + Duration::from_millis(4970));
        let lengths = samples.cwnd.iter().map(Vec::len).zip(&scenario.flows);
        for (length, flow) in lengths {
            assert_eq!(length, if flow.reverse.is_empty() { 0 } else { 72 }, "{what}");
        }
        assert!(samples.links.iter().all(|link| link.queue.len() == 72), "{what}");
    });
}

#[test]
fn samples_are_exact_and_include_their_instant() {
    // 1000-byte datagrams every millisecond reach a link that needs 1.6 ms for each, 1 ms and 0.8
    // ms of the first hop (10 Mbit/s) later: at 1.8 ms, 2.8 ms .. The wire takes a new one at 1.8,
    // 3.4, 5.0, 6.6, 8.2, 9.8 ms. At 2 ms: 1 came, 1 began. 4: 3 (1.8, 2.8, 3.8), 2. 6: 5, 3. 8:
    // 7, 4. 9.8: 9 (the last at 9.8), 6. 10: 9, 6. 19.6: 18 (the last at 18.8), 12 (at 19.4).
    let body = r#"
        dumbbell.bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
        dumbbell.access = { rate = "10Mbit", delay = "1ms", queue = "50p" }
        flows = [{ group = "a", cbr = { rate = "8Mbit", packet_size = 1000 } },
                 { group = "b", protocol = "newreno", start = "1s", initial_window = 3 }]"#;
    let queue_every = |interval: &str| {
        let header = format!("duration = '20ms'\nsample = '{interval}'");
        let scenario = build(&header, body, "");
        let samples = run(&scenario).samples.expect("samples were asked for");
        assert_eq!(samples.cwnd[1], vec![3.0; samples.times.len()]);
        samples.links[scenario.flows[0].bottleneck].queue.clone()
    };
    assert_eq!(queue_every("2ms")[..6], [0, 0, 1, 2, 3, 3]);
    assert_eq!(queue_every("9.8ms"), [0, 3, 6]);
}

#[test]
fn samples_count_arrived_and_lost_packets() {
    // The same datagrams, but one may wait. At 4.8 ms one does, until the wire is free at 5.0, and
    // at 7.8, until 8.2: two are dropped.
    let body = r#"
        dumbbell.bottleneck = { rate = "5Mbit", delay = "10ms", queue = "1p" }
        dumbbell.access = { rate = "10Mbit", delay = "1ms", queue = "50p" }
        flows = [{ group = "a", cbr = { rate = "8Mbit", packet_size = 1000 } }]"#;
    let scenario = build("duration = '9ms'\nsample = '2ms'", body, "");
    let outcome = run(&scenario);
    let link = scenario.flows[0].bottleneck;
    let samples = &outcome.samples.as_ref().expect("samples were asked for").links[link];
    assert_eq!(samples.arrived, [0, 1, 3, 5, 7]);
    assert_eq!(samples.lost, [0, 0, 0, 1, 2]);
    // And one more comes at 8.8 ms.
    assert_eq!((outcome.links[link].arrived, outcome.links[link].dropped), (8, 2));
}

#[test]
fn idle_periods_by_hand() {
    // All data is lost: 2 packets at zero, then one at the end of each doubled timeout: at 1, 3,
    // 7, 15, 31, 63 s and every 60 s from then on (rto_initial 1 s, ceiling 60 s).
    let body = r#"
        dumbbell.bottleneck = { rate = "8Mbit", delay = "10ms", loss = 1 }
        dumbbell.access = { rate = "8Gbit", delay = "0s", queue = "50p" }
        flows = [{ group = "a", protocol = "newreno", STOP }]"#;
    let idle = |header: &str, stop: &str| {
        let outcome = run(&build(header, &body.replace("STOP", stop), ""));
        let FlowMetrics { idle_s, longest_idle_s, idle_periods, .. } = outcome.flows[0].metrics;
        // Rounded to milliseconds: two packets and three hops take 2 ms and some microseconds.
        let ms = |seconds: Option<f64>| (seconds.unwrap() * 1e3).round();
        (ms(idle_s), ms(longest_idle_s), idle_periods.unwrap())
    };
    // 0.002 to 1, 1.001 to 3, 3.001 to 7, 7.001 to the end at 10 s.
    assert_eq!(idle("duration = '10s'", ""), (9995.0, 3999.0, 4));
    // From 2 s: the second pause has 1 s of its own left.
    assert_eq!(idle("duration = '10s'\nwarmup = '2s'", ""), (7998.0, 3999.0, 3));
    // Longer than 2.5 s: the last two alone.
    assert_eq!(idle("duration = '10s'\nidle_after = '2.5s'", ""), (6998.0, 3999.0, 2));
    // It starts after 4 s and stops at 4.5 s: 4.002 to 4.5.
    let late = idle("duration = '10s'", "start = '4s', stop = '4.5s'");
    assert_eq!(late, (498.0, 498.0, 1));
    // A flow that starts after the end is not idle; datagrams are never idle.
    assert_eq!(idle("duration = '10s'", "start = '11s'"), (0.0, 0.0, 0));

    // A transfer is not idle once it is complete.
    let body = r#"
        dumbbell.bottleneck = { rate = "8Mbit", delay = "1s" }
        dumbbell.access = { rate = "8Gbit", delay = "0s", queue = "50p" }
        endpoint = { rto_initial = "9s" }
        flows = [{ group = "a", protocol = "newreno", size = "2p" },
                 { group = "b", cbr = { rate = "8kbit" }, start = "1s" }]"#;
    let outcome = run(&build("duration = '10s'", body, ""));
    // The second packet is on the wire until 2 ms, and acknowledged two propagation times later.
    let idle: Vec<Option<f64>> = outcome.flows.iter().map(|flow| flow.idle_s).collect();
    assert!((idle[0].unwrap() - 2.0).abs() < 1e-3, "{idle:?}");
    assert_eq!(idle[1], None);
}

#[test]
fn a_router_of_a_class_that_wakes_has_its_own_timer() {
    // Intervals of the long flows' class are 300 ms; those of the class that wakes at 1.01 s are
    // 50 ms until it measures its own.
    let scenario = five_seconds(
        r#"
        dumbbell.bottleneck = { rate = "5Mbit", delay = "140ms", queue = "50p", classes = true }
        dumbbell.access = { rate = "20Mbit", delay = "5ms", queue = "50p" }
        flows = [
            { group = "first", protocol = "lr-xcp" },
            { group = "second", protocol = "lr-xcpq-pa", start = "1010ms" },
        ]"#,
        "",
    );
    let prompt = run_with(&scenario, Detail::Everything);
    // Postponed as long as possible, and caught up every millisecond.
    assert_eq!(run_with(&scenario, Detail::Fast).fingerprint, prompt.fingerprint);
    let mut simulation = Simulation::new(&scenario);
    for ms in 0..5000 {
        simulation.advance(Time::ZERO + Duration::from_millis(ms));
        for hop in &simulation.network.hops {
            assert!(hop.link.next_event() > simulation.now, "{ms} ms: it is behind");
        }
    }
    assert_eq!(simulation.finish().fingerprint, prompt.fingerprint);
}

#[test]
fn a_delayed_acknowledgment_has_the_class_of_its_flow() {
    // The data packet takes the first slot of the slab, then a datagram, then the acknowledgment
    // that the timer sends.
    let scenario = five_seconds(
        r#"
        dumbbell.bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
        dumbbell.reverse_bottleneck = { classes = true }
        dumbbell.access = { rate = "20Mbit", delay = "5ms", queue = "50p" }
        flows = [
            { group = "data", protocol = "lr-xcp", size = "1p", delayed_acks = "200ms" },
            { group = "voice", cbr = { rate = "8kbit", packet_size = 100 }, start = "100ms",
              stop = "150ms" },
        ]"#,
        "",
    );
    let mut simulation = Simulation::new(&scenario);
    let mut class_at = |ms| {
        simulation.advance(Time::ZERO + Duration::from_millis(ms));
        let slot = &simulation.network.slab[0];
        (slot.packet.kind, simulation.flows.all[slot.flow as usize].class)
    };
    assert_eq!(class_at(110), (PacketKind::Datagram, RouterKind::Any as u8));
    assert_eq!(class_at(225), (PacketKind::Ack, RouterKind::Xcp as u8));
}

/// One line per protocol and scenario. A change here is a change of behaviour: check that it is
/// intended before blessing it.
#[test]
fn golden_fingerprints() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/fingerprints.csv");
    let mut lines = vec!["protocol,scenario,packets_sent,packet_hops,fingerprint".to_owned()];
    for protocol in PROTOCOLS {
        for (name, body) in SCENARIOS {
            let outcome = run(&five_seconds(body, protocol.name));
            let sent: u64 = outcome.flows.iter().map(|flow| flow.packets_sent).sum();
            let (hops, print) = (outcome.packet_hops, outcome.fingerprint);
            lines.push(format!("{},{name},{sent},{hops},{print:016x}", protocol.name));
        }
    }
    let bless = std::env::var("BLESS").unwrap_or_default();
    let golden = std::fs::read_to_string(path).expect("the golden file");
    // A run is known by its protocol and its scenario.
    let key = |line: &str| line.splitn(3, ',').take(2).collect::<Vec<_>>().join(",");
    let known = |line: &&String| golden.lines().find(|old| key(old) == key(line));
    if bless == "1" || bless == "new" {
        let keep = |line| known(&line).filter(|_| bless == "new").unwrap_or(line).to_owned();
        let lines: Vec<String> = lines.iter().map(keep).collect();
        std::fs::write(path, lines.join("\n") + "\n").expect("writable");
        return;
    }
    let new: Vec<_> = lines.iter().filter(|line| known(line).is_none()).collect();
    assert!(new.is_empty(), "not in the golden file yet, BLESS=new adds them: {new:?}");
    let old = golden.lines().filter(|old| !lines.iter().any(|line| key(line) == key(old)));
    let old: Vec<_> = old.collect();
    assert!(old.is_empty(), "no such runs any more, BLESS=new drops them: {old:?}");
    let changed = lines.iter().filter_map(|line| Some((known(&line)?, line)));
    let changed = changed.filter(|(old, new)| old != new);
    let changed: Vec<_> = changed.map(|(old, new)| format!("- {old}\n+ {new}")).collect();
    assert!(
        changed.is_empty(),
        "behaviour has changed in {} of {} runs; if that is meant, BLESS=1 writes this anew\n{}",
        changed.len(),
        lines.len() - 1,
        changed.join("\n"),
    );
}

/// Runs a scenario on up to that many threads; `None` if it cannot be divided.
fn on_threads(scenario: &Scenario, threads: usize) -> Option<Outcome> {
    let partition = Partition::new(scenario, threads, &[]).ok()?;
    Some(comparable(ParallelSimulation::new(scenario, &partition).finish()))
}

#[test]
fn threads_do_not_change_outcomes() {
    let mut divided = BTreeSet::new();
    for_the_whole_table(|name, protocol, scenario| {
        let alone = run_with(scenario, Detail::Fast);
        for threads in [2, 3] {
            if let Some(outcome) = on_threads(scenario, threads) {
                divided.insert(name.to_owned());
                assert_eq!(outcome.links, alone.links, "{protocol}, {name}, {threads}");
                assert!(outcome == alone, "{protocol}, {name}, {threads}");
            }
        }
    });
    assert_eq!(divided.len(), SCENARIOS.len(), "{divided:?}");
}
