//! Behaviour of every stack with every controller.

use crate::common::PATH;
use windward_core::units::Time;
use windward_sim::Outcome;
use windward_sim::stack::{Codepoint, Connection, End, Facts, StackConfig, StackSetup};

/// Largest goodput at 10 Mbit/s: of 1500 bytes 28 are headers of IP and UDP, 16 a tag, and at least
/// 13 those of a QUIC packet and a STREAM frame (RFC 9000 sections 17.3.1 and 19.8).
const MOST: f64 = 1e7 * (1500.0 - 28.0 - 16.0 - 13.0) / 1500.0;

/// Stacks with their own controllers.
const OWN: [&str; 8] = [
    "quinn:cubic",
    "quinn:newreno",
    "quinn:bbr",
    "noq:cubic",
    "noq:newreno",
    "noq:bbr3",
    "noq:s2n-cubic",
    "noq:s2n-bbr",
];

fn run(changes: &[(&str, &str)]) -> Outcome {
    crate::common::run(PATH, &windward_stacks::all(), changes)
}

fn names(which: impl Fn(&Facts) -> bool) -> Vec<&'static str> {
    let stacks = windward_stacks::all();
    stacks.iter().map(|stack| stack.facts()).filter(|facts| which(facts)).map(|f| f.name).collect()
}

/// The row of the protocol table whose congestion controller a stack has, if it is one of ours.
fn row_of(name: &str) -> Option<&str> {
    let row = name.split_once(':')?.1;
    let row = row.strip_prefix("windward-").unwrap_or(row);
    (!OWN.contains(&name)).then_some(row)
}

#[test]
fn what_can_be_repeated_is_and_seeds_differ() {
    for name in names(|facts| facts.unrepeatable.is_none()) {
        let run = |seed| {
            let changes = [
                ("flows.bulk.protocol", name),
                ("flows.bulk.last_hop.loss", "0.02"),
                ("duration", "8s"),
                ("seed", seed),
            ];
            self::run(&changes)
        };
        let first = run("1");
        assert_eq!(first, run("1"), "{name}");
        assert_ne!(first.fingerprint, run("2").fingerprint, "{name}");
    }
    assert_eq!(names(|facts| facts.unrepeatable.is_some()), ["noq:bbr3"]);
}

#[test]
fn a_clean_path_is_used_by_all() {
    for name in names(|_| true) {
        let outcome = run(&[("flows.bulk.protocol", name)]);
        let flow = &outcome.flows[0];
        assert_eq!((flow.protocol.as_ref(), flow.failure.as_deref()), (name, None));
        let goodput = flow.goodput_bps;
        // quinn's own fill it, and others leave a part to their way of searching.
        let least =
            if ["quinn:cubic", "quinn:newreno", "quinn:bbr"].contains(&name) { 0.85 } else { 0.75 };
        assert!((least * MOST..MOST).contains(&goodput), "{name}: {goodput}");
        assert!(flow.mean_rtt_s.unwrap() > 0.08, "{name}: {:?}", flow.mean_rtt_s);
    }
}

#[test]
fn controllers_of_s2n_take_marks_and_keep_their_pace() {
    // CUBIC keeps a queue that marks at 20 packets short, and loses nothing once slow start is
    // over.
    let marks = "{ kind = 'ecn-threshold', threshold = 20 }";
    let changes = [("dumbbell.bottleneck.router", marks), ("warmup", "10s"), ("duration", "40s")];
    for (name, most) in [("noq:s2n-cubic", 20.0), ("noq:s2n-bbr", 40.0)] {
        let outcome = run(&[&changes[..], &[("flows.bulk.protocol", name)]].concat());
        let link = outcome.links.iter().find(|link| &*link.name == "bottleneck").unwrap();
        assert!(link.mean_queue_packets < most, "{name}: {}", link.mean_queue_packets);
        assert_eq!(outcome.flows[0].retransmissions, Some(0), "{name}");
        assert!(outcome.flows[0].goodput_bps > 0.75 * MOST, "{name}");
    }
    // BBR goes by the delivery rate: random losses of 1 % cost it little, CUBIC nearly everything.
    let lossy = [("flows.bulk.last_hop.loss", "0.01"), ("warmup", "10s"), ("duration", "40s")];
    let goodput =
        |name| run(&[&lossy[..], &[("flows.bulk.protocol", name)]].concat()).flows[0].goodput_bps;
    let (bbr, cubic) = (goodput("noq:s2n-bbr"), goodput("noq:s2n-cubic"));
    assert!(bbr > 0.7 * MOST && cubic < 0.4 * MOST, "{bbr} {cubic}");
}

#[test]
fn a_pacer_that_waits_for_less_than_a_nanosecond_goes_on() {
    // At 40 Gbit/s a byte takes 0.2 ns.
    for name in OWN {
        let outcome = run(&[
            ("flows.bulk.protocol", name),
            ("dumbbell.bottleneck.rate", "40Gbit"),
            ("dumbbell.bottleneck.delay", "2ms"),
            ("dumbbell.bottleneck.queue", "1MB"),
            ("dumbbell.access.rate", "100Gbit"),
            ("duration", "50ms"),
        ]);
        assert_eq!(outcome.flows[0].failure, None, "{name}");
    }
}

#[test]
fn all_let_go_when_nearly_everything_is_lost() {
    // RFC 9743 section 5.1.1. A clean path takes 833 packets a second of 1500 bytes: a twentieth is
    // 42.
    for name in OWN {
        let changes = [
            ("flows.bulk.protocol", name),
            ("flows.bulk.last_hop.loss", "0.9"),
            ("duration", "60s"),
            ("warmup", "10s"),
        ];
        let sent = run(&changes).flows[0].packets_sent as f64 / 50.0;
        assert!(sent < 42.0, "{name}: {sent} packets a second");
    }
}

#[test]
fn an_outage_of_half_a_minute_is_survived() {
    for name in OWN {
        let outage = "{ schedule = [{ at = '20s', length = '30s' }], during = 'drop' }";
        let outcome = run(&[
            ("flows.bulk.protocol", name),
            ("duration", "120s"),
            ("bin", "1s"),
            ("dumbbell.bottleneck.outages", outage),
        ]);
        let flow = &outcome.flows[0];
        assert_eq!(flow.failure, None, "{name}");
        let bins = &outcome.groups[0].throughput_bins;
        let mean = |from: usize, until: usize| {
            bins[from..until].iter().sum::<f64>() / (until - from) as f64
        };
        assert!(mean(10, 20) > 7.5e6, "{name} before: {}", mean(10, 20));
        // Only probes, each after twice the timeout of the previous one: at most 20 of them.
        assert!(mean(21, 50) < 20.0 * 2.0 * 12_000.0 / 29.0, "{name} during: {}", mean(21, 50));
        // Time-outs that double from a second or less are at most as long as all before together,
        // 31 s: by second 82 one has got through, and 20 s later the path is full again.
        assert!(mean(102, 120) > 7.5e6, "{name} after: {}", mean(102, 120));
    }
}

#[test]
fn two_stacks_share_a_path() {
    let two =
        format!("{PATH}\n[[flows]]\ngroup = 'other'\nprotocol = 'noq:cubic'\npacket_size = 1500\n");
    let run = || {
        crate::common::run(
            &two,
            &windward_stacks::all(),
            &[("duration", "120s"), ("warmup", "20s")],
        )
    };
    let outcome = run();
    assert_eq!(outcome, run());
    let carried: Vec<f64> = outcome.flows.iter().map(|flow| flow.goodput_bps).collect();
    assert!(carried.iter().sum::<f64>() > 0.9 * MOST, "{carried:?}");
    assert!(carried.iter().all(|bps| *bps > 0.2 * MOST), "{carried:?}");
    // Each has a connection of its own: one that is alone before the other begins is not changed by
    // it.
    let later = |protocol| {
        let changes =
            [("flows.other.protocol", protocol), ("flows.other.start", "9s"), ("duration", "8s")];
        crate::common::run(&two, &windward_stacks::all(), &changes).flows[0].clone()
    };
    assert_eq!(later("noq:cubic"), later("noq:newreno"));
}

#[test]
fn laws_of_ours_do_in_stacks_about_what_they_do_at_home() {
    let goodput = |name: &str, loss: &str| {
        let of_seed = |seed| {
            let changes = [
                ("flows.bulk.protocol", name),
                ("flows.bulk.last_hop.loss", loss),
                ("duration", "60s"),
                ("warmup", "10s"),
                ("seed", seed),
            ];
            // Bytes on the wire, since the goodput of stacks counts other bytes.
            run(&changes).flows[0].throughput_bps
        };
        ["1", "2", "3"].map(of_seed).iter().sum::<f64>() / 3.0
    };
    for name in ["quinn:reno", "quinn:windward-cubic", "quinn:vegas", "noq:reno", "noq:copa"] {
        let row = row_of(name).expect("one of ours");
        for loss in ["0", "0.01"] {
            let (there, here) = (goodput(name, loss), goodput(row, loss));
            assert!(
                (0.6..1.67).contains(&(there / here)),
                "{name} at {loss}: {there}, {row} {here}"
            );
        }
    }
}

/// Both ends of a connection with 50 ms between them and nothing else, for a while; the number of
/// packets that the sender made at each instant.
fn bursts(name: &str, segments: u32) -> Vec<usize> {
    let config = StackConfig { segments, ..StackConfig::default() };
    let stacks = windward_stacks::all();
    let setup = StackSetup { seed: 1, bytes: None, config };
    let mut connection = stacks.find(name).unwrap().connect(&setup);
    let ms = |ms: u64| Time::from_ps(ms * 1_000_000_000);
    let mut on_the_way: Vec<(Time, End, Vec<u8>)> = Vec::new();
    let mut bursts = Vec::new();
    let mut transmit = |connection: &mut Box<dyn Connection>,
                        on_the_way: &mut Vec<(Time, End, Vec<u8>)>,
                        now: Time| {
        for (end, other) in [(End::Sender, End::Receiver), (End::Receiver, End::Sender)] {
            let mut payload = Vec::new();
            let mut made = 0;
            while connection.poll_transmit(now, end, &mut payload).is_some() {
                made += 1;
                on_the_way.push((now + ms(50).since(Time::ZERO), other, payload.clone()));
            }
            if end == End::Sender && made > 0 {
                bursts.push(made);
            }
        }
    };
    connection.start(Time::ZERO);
    transmit(&mut connection, &mut on_the_way, Time::ZERO);
    // Slow start doubles the window each 100 ms: 10, 20, .. 320 packets.
    loop {
        let arrival = on_the_way.first().map_or(Time::NEVER, |(at, ..)| *at);
        let timers = End::BOTH.map(|end| (connection.next_timer(end), end));
        let (timer, end) = timers.into_iter().min_by_key(|(at, _)| *at).unwrap();
        let now = arrival.min(timer);
        if now > ms(650) {
            return bursts;
        }
        if arrival <= timer {
            let (at, to, payload) = on_the_way.remove(0);
            connection.receive(at, to, &payload, Codepoint::NotEct);
        } else {
            connection.on_timer(timer, end);
        }
        transmit(&mut connection, &mut on_the_way, now);
    }
}

#[test]
fn what_leaves_at_one_instant_is_bounded() {
    for name in ["quinn:cubic", "quinn:newreno", "noq:cubic", "noq:newreno"] {
        for segments in [1, 10, 64] {
            let bursts = bursts(name, segments);
            let most = bursts.iter().copied().max().unwrap();
            // The pacers allow what 2 ms of 1.25 windows a round trip are, 8 packets of 320, and
            // ten at least; what is made at once may go beyond that by one batch.
            assert!(most <= 10 + segments as usize, "{name} of {segments}: {most}");
            assert!(bursts.len() > 20 && most > 1, "{name} of {segments}: {bursts:?}");
        }
    }
}
