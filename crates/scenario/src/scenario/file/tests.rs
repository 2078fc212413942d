//! Meaning of scenario files, texts of errors, and no panic for any text.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use windward_core::endpoint::feedback::{CongestionFlag, FeedbackConfig, Formula, XcpRConfig};
use windward_core::media::MediaControllerConfig;
use windward_core::network::{
    AqmConfig, ChainClock, ChannelConfig, Distribution, During, Gamma, Impairments, LinkRate,
    NotifierConfig, QueueLimit, RouterConfig, RouterKind, XcpRouterConfig,
};
use windward_core::part::{AnyPart, Setting, ValueKind, Words};
use windward_core::units::{Duration, Probability, Rate, Time};

use super::{ScenarioError, ScenarioFile};
use crate::scenario::{FlowConfig, LinkConfig, Pattern, Scenario, Traffic};

const FIRST: &str = include_str!("../../../../../experiments/examples/first.toml");
const PARKING_LOT: &str = include_str!("../../../../../experiments/examples/parking-lot.toml");
const GRAPH: &str = include_str!("../../../../../experiments/examples/graph.toml");
const SATELLITE: &str = include_str!("../../../../../experiments/examples/satellite.toml");
const DATAGRAMS: &str = include_str!("../../../../../experiments/examples/datagrams.toml");
const SPEED: &str = include_str!("../../../../../experiments/speed/dumbbell.toml");
const EXAMPLES: [&str; 6] = [FIRST, PARKING_LOT, GRAPH, SATELLITE, DATAGRAMS, SPEED];

fn build(text: &str) -> Scenario {
    let file = ScenarioFile::parse("s.toml", text).unwrap_or_else(|error| panic!("{error}"));
    file.build().unwrap_or_else(|error| panic!("{error}"))
}

fn error(text: &str) -> String {
    let built = ScenarioFile::parse("s.toml", text).and_then(|file| file.build());
    built.expect_err("an error").to_string()
}

#[test]
fn a_file_with_its_changes_is_written_as_toml_that_says_the_same() {
    for text in EXAMPLES {
        let mut file = ScenarioFile::parse("s.toml", text).unwrap();
        file.set("seed", "77").unwrap();
        file.set("flows.*.start", "[\"1ms\", \"2ms\"]").unwrap();
        let written = file.to_toml();
        let again = ScenarioFile::parse("s.toml", &written).unwrap();
        assert!(again.says_the_same_as(&file), "{written}");
        let (before, after) = (file.build().unwrap(), again.build().unwrap());
        assert_eq!(format!("{before:?}"), format!("{after:?}"), "{written}");
    }
    // Tables of other readers are left out; all kinds of values are kept.
    let odd = "a = 'x\\\"y'\n\"b c\" = [1, -2.5, inf, true, 'z']\nd = 2026-01-31T12:00:00Z\n\
               e = []\nf = {}\ng = [{ h = 1 }, 2]\ni.j = { k = [[1], [{ l = \"\\u20ac\" }]] }\n\
               [[m]]\nn = 1\n[[m]]\n[m.o]\np = \"two\\nlines\"\n";
    let with = format!("{odd}[experiment]\ntitle = \"t\"\n");
    let written = ScenarioFile::parse("s.toml", &with).unwrap().to_toml();
    let plain = ScenarioFile::parse("s.toml", odd).unwrap();
    assert!(ScenarioFile::parse("s.toml", &written).unwrap().says_the_same_as(&plain), "{written}");
}

/// The error after `--set` on the first example.
fn error_of_set(key: &str, value: &str) -> String {
    let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
    let built = file.set(key, value).and_then(|()| file.build());
    built.expect_err("an error").to_string()
}

#[test]
fn a_change_with_an_unclosed_brace_is_a_syntax_error_with_its_place() {
    let error = error_of_set("flows.*.protocol", "{ base = \"cubic\"");
    assert!(error.contains("not valid TOML at character"), "{error}");
    assert!(!error.contains("unknown protocol"), "{error}");
}

#[test]
fn a_comment_is_neither_a_topology_nor_a_protocol() {
    let text = format!("# [dumbbell] bottleneck parking_lot = outside:port\n{FIRST}");
    let [plain, commented] =
        [FIRST, &text].map(|text| ScenarioFile::parse("s.toml", text).unwrap());
    for key in ["dumbbell", "parking_lot", "links", "bottleneck"] {
        assert_eq!(plain.has(key), commented.has(key), "{key}");
    }
    assert!(!commented.has_protocol("outside:port"));
    let mut changed = commented;
    changed.set("flows.*.protocol", "outside:port").unwrap();
    assert!(changed.has_protocol("outside:port"));
}

fn with(text: &str, changes: &[(&str, &str)]) -> Scenario {
    let mut file = ScenarioFile::parse("s.toml", text).unwrap();
    for (key, value) in changes {
        file.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    file.build().unwrap_or_else(|error| panic!("{error}"))
}

fn link<'a>(scenario: &'a Scenario, name: &str) -> &'a LinkConfig {
    let link = scenario.links.iter().find(|link| link.name == name);
    link.unwrap_or_else(|| panic!("no link {name}"))
}

fn flow<'a>(scenario: &'a Scenario, name: &str) -> &'a FlowConfig {
    let flow = scenario.flows.iter().find(|flow| flow.name == name);
    flow.unwrap_or_else(|| panic!("no flow {name}"))
}

fn names<'a>(scenario: &'a Scenario, route: &[usize]) -> Vec<&'a str> {
    route.iter().map(|&link| scenario.links[link].name.as_str()).collect()
}

fn loss(p: f64) -> ChannelConfig {
    ChannelConfig::PacketLoss(Probability::new(p).unwrap())
}

#[test]
fn ecn_without_a_marking_queue_is_warned_of() {
    let plain = with(FIRST, &[]);
    assert_eq!(plain.warnings, Vec::<String>::new());
    let useless = with(FIRST, &[("flows.*.ecn", "true"), ("flows.*.protocol", "reno")]);
    assert!(
        useless.warnings[0].contains("no queue on their route marks"),
        "{:?}",
        useless.warnings
    );
    let marking = "{ kind = \"red\", ecn = true }";
    let useful = with(FIRST, &[("flows.*.ecn", "true"), ("dumbbell.bottleneck.aqm", marking)]);
    assert_eq!(useful.warnings, Vec::<String>::new());
}

#[test]
fn the_first_example_is_read_as_written() {
    let s = build(FIRST);
    assert_eq!(s.duration, Duration::from_secs(100));
    assert_eq!(s.warmup, Duration::from_secs(20));
    assert_eq!((s.seed, s.bin), (1, Duration::from_secs(1)));
    assert_eq!(s.groups, ["clean", "lossy"]);
    assert_eq!(s.flows.len(), 10);
    // Two bottleneck links and four of its own for each of ten flows.
    assert_eq!(s.links.len(), 42);
    let lossy = flow(&s, "lossy-3");
    assert_eq!(names(&s, &lossy.forward), ["lossy-3-first-hop", "bottleneck", "lossy-3-last-hop"]);
    assert_eq!(
        names(&s, &lossy.reverse),
        ["lossy-3-last-hop-reverse", "bottleneck-reverse", "lossy-3-first-hop-reverse"]
    );
    assert_eq!(s.links[lossy.bottleneck].name, "bottleneck");
    assert_eq!(link(&s, "lossy-3-last-hop").kind.channel, loss(0.05));
    for clean in ["lossy-3-last-hop-reverse", "lossy-3-first-hop", "clean-1-last-hop"] {
        let link = link(&s, clean);
        assert_eq!(link.kind.channel, ChannelConfig::Clean);
        assert_eq!(link.kind.rate.mean(), Rate::from_bps(5_000_000).unwrap());
        assert_eq!(link.delay, Duration::from_millis(20));
        assert_eq!(link.kind.queue.limit, QueueLimit::Packets(50));
        assert_eq!(link.kind.queue.router, RouterConfig::default());
    }
}

#[test]
fn every_example_is_a_scenario() {
    for example in EXAMPLES {
        let s = build(example);
        for flow in &s.flows {
            assert!(!flow.forward.is_empty());
            assert!(flow.forward.contains(&flow.bottleneck));
            let datagrams = matches!(flow.kind.traffic, Traffic::Datagrams { .. });
            assert_eq!(flow.reverse.is_empty(), datagrams);
        }
    }
}

#[test]
fn a_parking_lot_has_bottlenecks_in_a_row() {
    let s = build(PARKING_LOT);
    let rest = flow(&s, "rest-1");
    assert_eq!(
        names(&s, &rest.forward),
        ["rest-1-first-hop", "bottleneck-1", "bottleneck-2", "rest-1-last-hop"]
    );
    assert_eq!(
        rest.kind.start,
        (Time::ZERO + Duration::from_secs(5), Time::ZERO + Duration::from_secs(5))
    );
    assert_eq!(flow(&s, "long-1").forward.len(), 5);
    assert_eq!(s.links[flow(&s, "second-1").bottleneck].name, "bottleneck-1");
    assert!(
        matches!(&link(&s, "bottleneck-2").kind.queue.aqm, AqmConfig::Red(red) if red.max_threshold == 60.0)
    );
    // Each bottleneck may differ; the slowest is where throughput is measured.
    let s =
        with(PARKING_LOT, &[("parking_lot.bottlenecks", "[{}, {rate = '1Mbit'}, {loss = '1%'}]")]);
    assert_eq!(s.links[flow(&s, "long-2").bottleneck].name, "bottleneck-1");
    assert_eq!(link(&s, "bottleneck-2").kind.channel, loss(0.01));
    assert_eq!(link(&s, "bottleneck-2-reverse").kind.channel, ChannelConfig::Clean);
}

#[test]
fn a_graph_finds_the_shortest_route() {
    let s = build(GRAPH);
    assert_eq!(names(&s, &flow(&s, "download-2").forward), ["a->b", "b->d", "radio"]);
    assert_eq!(names(&s, &flow(&s, "download-2").reverse), ["radio-reverse", "d->b", "b->a"]);
    assert_eq!(names(&s, &flow(&s, "detour-1").forward), ["a->c", "c->d"]);
    assert_eq!(names(&s, &flow(&s, "detour-1").reverse), ["d->b", "b->a"]);
    let ber = ChannelConfig::BitErrors(Probability::new(1e-6).unwrap());
    assert_eq!(link(&s, "radio-reverse").kind.channel, ber);
    assert_eq!(link(&s, "radio-reverse").kind.rate.mean(), Rate::from_bps(2_000_000).unwrap());
    // The XCP router is only at links that its data crosses.
    assert_eq!(link(&s, "radio").kind.queue.router, RouterConfig::Xcp(XcpRouterConfig::default()));
    assert_eq!(link(&s, "radio-reverse").kind.queue.router, RouterConfig::default());
    // Ten megabytes in packets of 1000 bytes.
    let upload = &flow(&s, "upload-1").kind.traffic;
    assert!(matches!(upload, Traffic::Transport { packets: Some(10_000), .. }));
    // Among routes of equal length, the one with less delay.
    let s = with(GRAPH, &[("links.b->d.delay", "1h")]);
    assert_eq!(names(&s, &flow(&s, "download-1").forward), ["a->c", "c->d", "radio"]);
}

#[test]
fn a_shared_hop_is_one_link_and_channels_have_their_parameters() {
    let s = build(SATELLITE);
    // The bottleneck, the shared hop and five first hops, in both directions.
    assert_eq!(s.links.len(), 14);
    assert_eq!(s.links[flow(&s, "down-5").bottleneck].name, "down-last-hop");
    let ChannelConfig::GilbertElliott { clock, loss_good, loss_bad } =
        link(&s, "down-last-hop").kind.channel
    else {
        panic!("no chain");
    };
    let (mean_good, mean_bad) = (Duration::from_secs(1), Duration::from_millis(100));
    assert_eq!(clock, ChainClock::Time { mean_good, mean_bad });
    assert_eq!((loss_good.get(), loss_bad.get()), (0.0001, 0.5));
    let back = &link(&s, "down-last-hop-reverse").kind.channel;
    assert!(matches!(
        back,
        ChannelConfig::GilbertElliott { clock: ChainClock::Packets { .. }, .. }
    ));
    assert_eq!(link(&s, "down-last-hop").kind.queue.router, RouterKind::Xtcp.spec());
    let Traffic::Transport { config, .. } = &s.flows[0].kind.traffic else {
        panic!("datagrams");
    };
    assert_eq!((config.rwnd, config.delayed_acks), (2000, Some(Duration::from_millis(200))));
    // A burst given by the loss rate, which the paper plots.
    let burst = "{ rate = 0.04, length = 4 }";
    let s = with(FIRST, &[("dumbbell.bottleneck.burst", burst)]);
    let event = Probability::new(0.01).unwrap();
    let expected = ChannelConfig::Bursts { event, length: 4, per_flow: true };
    assert_eq!(link(&s, "bottleneck").kind.channel, expected);
}

#[test]
fn datagrams_need_no_way_back() {
    let s = build(DATAGRAMS);
    let size = |name| match &flow(&s, name).kind.traffic {
        Traffic::Datagrams { packet_size, pattern } => (*packet_size, pattern.clone()),
        _ => panic!("a transport"),
    };
    assert!(matches!(size("voice-10"), (200, Pattern::Constant { .. })));
    assert!(matches!(size("web-1"), (1000, Pattern::Exponential { .. })));
    assert!(
        matches!(size("burst-1"), (1500, Pattern::Schedule { intervals }) if intervals.len() == 2)
    );
    assert!(!s.links.iter().any(|link| link.name == "voice-1-last-hop-reverse"));
    assert_eq!(flow(&s, "web-1").kind.stop, Some(Time::ZERO + Duration::from_secs(50)));
}

#[test]
fn set_adds_one_more() {
    let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
    let before = file.build().unwrap().flows.len();
    file.set("flows.+", "{ group = 'more', count = 2, protocol = 'cubic' }").unwrap();
    file.set("flows.more.protocol", "newreno").unwrap();
    let scenario = file.build().unwrap();
    assert_eq!(scenario.flows.len(), before + 2);
    assert_eq!(scenario.flows[before].kind.traffic.protocol_name(), "newreno");
    let error = file.set("flows.+", "cubic").unwrap_err().to_string();
    assert!(error.contains("an element of `flows` must be a table"), "{error}");
    // Unknown keys in it are found when the scenario is built.
    file.set("flows.+", "{ group = 'other', protcol = 'cubic' }").unwrap();
    assert!(file.build().unwrap_err().to_string().contains("protcol"));
}

#[test]
fn set_changes_adds_and_selects() {
    let s = with(
        FIRST,
        &[
            ("duration", "30s"),
            ("seed", "18446744073709551615"),
            ("dumbbell.bottleneck.rate", "\"1Gbit\""),
            ("dumbbell.bottleneck.aqm", "red"),
            ("dumbbell.bottleneck.aqm.ecn", "true"),
            ("flows.*.dupack_threshold", "5"),
            ("flows.*.last_hop.loss", "0"),
            ("flows.clean.protocol", "lr-xtcp"),
            ("flows.1.count", "1"),
            ("endpoint.packet_size", "500"),
        ],
    );
    assert_eq!((s.duration, s.seed), (Duration::from_secs(30), u64::MAX));
    assert_eq!(s.flows.len(), 6);
    let bottleneck = link(&s, "bottleneck");
    assert_eq!(bottleneck.kind.rate.mean().to_string(), "1Gbit");
    assert!(matches!(&bottleneck.kind.queue.aqm, AqmConfig::Red(red) if red.ecn));
    // TCP and XTCP share a queue, which gets the router of XTCP.
    assert_eq!(bottleneck.kind.queue.router, RouterKind::Xtcp.spec());
    assert_eq!(link(&s, "lossy-1-last-hop").kind.channel, ChannelConfig::Clean);
    let Traffic::Transport { config, protocol, .. } = &s.flows[0].kind.traffic else {
        panic!("datagrams");
    };
    assert_eq!((protocol.name, config.dupack_threshold, config.packet_size), ("lr-xtcp", 5, 500));
}

#[test]
fn keys_of_connections_for_all_flows_pass_over_datagrams() {
    // One connection; voice, web and burst send datagrams.
    let changes = [
        ("flows.*.protocol", "tcpw-br"),
        ("flows.*.protocol.recovery", "sack"),
        ("flows.*.size", "10MB"),
        ("flows.*.rwnd", "20"),
        ("flows.*.timestamps", "false"),
        ("flows.*.clock_granularity", "100ms"),
        ("flows.*.rto_floor", "1s"),
        ("flows.*.delayed_acks", "true"),
        ("flows.*.initial_window", "1"),
        ("flows.*.overhead", "1us"),
        ("flows.*.westwood.estimator", "ere"),
    ];
    let s = with(DATAGRAMS, &changes);
    let Traffic::Transport { protocol, config, packets, .. } = &flow(&s, "tcp-1").kind.traffic
    else {
        panic!("no connection");
    };
    assert_eq!((protocol.name, config.rwnd, config.timestamps), ("tcpw-br+sack", 20, false));
    assert_eq!(*packets, Some(10_000));
    let plain = build(DATAGRAMS);
    for name in ["voice-1", "web-1", "burst-1"] {
        let traffic = |s| format!("{:?}", flow(s, name).kind.traffic);
        assert_eq!(traffic(&s), traffic(&plain), "{name}");
    }
    // By name, it stays an error.
    let mut file = ScenarioFile::parse("s.toml", DATAGRAMS).unwrap();
    file.set("flows.voice.protocol", "reno").unwrap();
    assert!(file.build().unwrap_err().to_string().contains("the flows already have `protocol`"));
    // Without a connection, the key would have no effect: an error.
    let udp = DATAGRAMS.replacen("protocol = \"cubic\"", "cbr = { rate = \"1Mbit\" }", 1);
    let mut file = ScenarioFile::parse("s.toml", &udp).unwrap();
    let none = file.set("flows.*.protocol", "reno").unwrap_err().to_string();
    assert!(none.contains("flows.*.protocol: all groups send datagrams"), "{none}");
}

#[test]
fn a_failed_set_changes_nothing() {
    let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
    for key in ["flows.*.nonsense", "flows.none.count", "duration.x", "", ".", "experiment.x"] {
        file.set(key, "1").unwrap_err();
    }
    assert_eq!(format!("{:?}", file.build().unwrap()), format!("{:?}", build(FIRST)));
}

#[test]
fn errors_have_line_key_value_and_a_correction() {
    let change = |from: &str, to: &str| error(&FIRST.replacen(from, to, 1));
    assert_eq!(
        change("loss = 0.05", "loss = 1.5"),
        "s.toml:19: flows.lossy.last_hop.loss = 1.5: a probability must lie between 0 and 1"
    );
    assert_eq!(
        change("loss = 0.05", "loss = 5"),
        "s.toml:19: flows.lossy.last_hop.loss = 5: a probability must lie between 0 and 1: for 5 \
         percent write 5% or 0.05"
    );
    assert!(
        change("5Mbit", "5m").contains("the unit \"m\" is cut short, write 5mbit (or 5Mbit)\n")
    );
    assert_eq!(
        change("5Mbit", "5 Mbits"),
        "s.toml:7: dumbbell.bottleneck.rate = \"5 Mbits\": unknown unit \"Mbits\", did you mean \
         \"Mbit\"?\n  help: write a number and bit, kbit, Mbit, Gbit or Tbit (per second), as in \
         5Mbit"
    );
    let unknown = change("warmup", "warm_up");
    assert!(
        unknown.starts_with("s.toml:3: warm_up: unknown key\n  help: did you mean `warmup`?"),
        "{unknown}"
    );
    let protocol = change("newreno", "new-reno");
    assert!(
        protocol.contains("s.toml:13: flows.clean.protocol = \"new-reno\": unknown protocol"),
        "{protocol}"
    );
    assert!(protocol.contains("did you mean `newreno`?"), "{protocol}");
    for (from, to, expected) in [
        ("delay = \"20ms\"", "delay = \"-20ms\"", "it is negative"),
        (
            "count = 5",
            "count = 0",
            "s.toml:12: flows.clean.count = 0: must lie between 1 and 2000000",
        ),
        ("count = 5", "count = 1000000000", "must lie between 1 and 2000000"),
        ("50p", "0p", "must be more than zero"),
        ("\"50p\"", "50", "expected a number of packets or bytes"),
        ("50p", "999B", "holds 999 bytes"),
        ("warmup = \"20s\"", "warmup = \"100s\"", "less than the duration, 100s"),
        ("duration = \"100s\"", "", "`duration` is missing"),
        ("duration = \"100s\"", "duration = \"2401h\"", "must lie between"),
        ("duration = \"100s\"", "duration = 100", "a time needs a unit"),
        ("seed = 1", "seed = -1", "must lie between 0 and 18446744073709551615"),
        ("seed = 1", "bin = \"1us\"", "bin must be at least \"100us\""),
        ("seed = 1", "sample = \"1us\"", "sample must be at least \""),
        ("seed = 1", "sample = \"0s\"", "sample = \"0s\""),
        ("seed = 1", "idle_after = 0", "idle_after = 0"),
        ("seed = 1", "seed = ", "s.toml:4: not valid TOML"),
        ("\"lossy\"", "\"clean\"", "two groups have this name"),
        ("\"lossy\"", "\"los sy\"", "a name has 1 to 64"),
        ("last_hop = {", "last_hop = { ber = 1e-6,", "already has a channel"),
        ("last_hop = {", "path = ['a']\nlast_hop = {", "only to a general graph"),
        ("last_hop = {", "rto_ceiling = '100ms'\nlast_hop = {", "less than rto_floor"),
        ("last_hop = {", "start = ['2s', '1s']\nlast_hop = {", "before it begins"),
        ("last_hop = {", "stop = '0s'\nlast_hop = {", "stop before"),
        ("last_hop = {", "bottleneck = 'botleneck'\nlast_hop = {", "did you mean `bottleneck`?"),
    ] {
        let message = change(from, to);
        assert!(message.contains(expected), "{to}: {message}");
    }
}

#[test]
fn errors_of_set_say_that_it_was_set() {
    assert_eq!(
        error_of_set("flows.lossy.last_hop.loss", "1.5"),
        "s.toml with --set flows.lossy.last_hop.loss=1.5: flows.lossy.last_hop.loss = 1.5: a \
         probability must lie between 0 and 1"
    );
    assert!(error_of_set("flows.losy.count", "1").contains("did you mean `lossy`?"));
    assert!(error_of_set("dumbell.access.rate", "1Mbit").contains("did you mean `dumbbell`?"));
    assert!(error_of_set("dumbbell.access", "{rat = 1}").contains("did you mean `rate`?"));
    assert!(error_of_set("flows", "1").contains("expected an array"));
    assert!(error_of_set("flows", "[]").contains("there are no flows"));
    assert!(error_of_set("links", "[]").contains("already has `dumbbell`"));
}

#[test]
fn notifiers_and_ceten_are_checked() {
    for (key, value, expected) in [
        ("flows.lossy.ceten.timeouts", "threshhold", "did you mean `threshold`?"),
        ("flows.lossy.ceten.m", "1", "unknown key"),
        ("flows.lossy.last_hop.notifier", "measurd", "did you mean `measured`?"),
        (
            "flows.lossy.last_hop.notifier",
            "{ kind = 'measured', window = 0 }",
            "notifier.window = 0: must lie between 1 and 1000000000",
        ),
        ("dumbbell.access.notifier", "{ kind = 'measured', prior = -1.0 }", "must lie between 0"),
        (
            "dumbbell.access.notifier",
            "{ kind = 'configured', window = 9 }",
            "only the kind measured",
        ),
        ("dumbbell.access.notifier", "{ window = 9 }", "`kind` is missing"),
    ] {
        let message = error_of_set(key, value);
        assert!(message.contains(expected), "{key} = {value}: {message}");
    }
}

#[test]
fn links_have_notifiers_where_flows_ask_for_them() {
    let notifier = |changes: &[(&str, &str)], name: &str| {
        let scenario = with(FIRST, changes);
        (link(&scenario, name).kind.notifier, scenario.warnings)
    };
    let ceten = ("flows.lossy.protocol", "ceten-a");
    let off = ("flows.lossy.last_hop.notifier", "off");
    let measured = ("flows.lossy.last_hop.notifier", "{ kind = 'measured', window = 500 }");
    let lossy = {
        let scenario = build(FIRST);
        let corrupts = |link: &&LinkConfig| link.kind.channel != ChannelConfig::Clean;
        scenario.links.iter().find(corrupts).expect("a lossy link").name.clone()
    };
    assert_eq!(notifier(&[], &lossy), (NotifierConfig::Off, vec![]));
    assert_eq!(notifier(&[ceten], &lossy), (NotifierConfig::Configured, vec![]));
    assert_eq!(notifier(&[ceten], "bottleneck").0, NotifierConfig::Off, "it is clean");
    let own = NotifierConfig::Measured { window: 500, prior: 100.0 };
    assert_eq!(notifier(&[ceten, measured], &lossy), (own, vec![]));
    let (spec, warnings) = notifier(&[ceten, off], &lossy);
    assert_eq!(spec, NotifierConfig::Off);
    assert!(warnings[0].contains("no lossy link on their route has a notifier"), "{warnings:?}");
    assert!(warnings[0].contains("ceten-a behaves like sack here"), "{warnings:?}");
    let (_, warnings) = notifier(&[("flows.clean.protocol", "sack-oracle")], &lossy);
    assert!(warnings[0].contains("no link on their route corrupts any"), "{warnings:?}");
}

#[test]
fn a_link_has_one_router() {
    let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
    file.set("flows.clean.protocol", "xcp").unwrap();
    // XCP and TCP may share a queue.
    file.build().unwrap();
    file.set("flows.lossy.protocol", "lr-xtcp").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("flows `clean` ask for the router `xcp`"), "{message}");
    assert!(message.contains("flows `lossy` for `xtcp`"), "{message}");
    file.set("flows.lossy.protocol", "lr-xcpq-pa").unwrap();
    file.build().unwrap_err();
    file.set("dumbbell.bottleneck.router", "xcp-persistent").unwrap();
    file.build().unwrap();
    file.set("dumbbell.bottleneck.router.alpha", "0.2").unwrap();
    assert!(matches!(
        link(&file.build().unwrap(), "bottleneck").kind.queue.router,
        RouterConfig::Xcp(XcpRouterConfig { alpha: 0.2, persistent: true, .. })
    ));
    file.set("dumbbell.bottleneck.router.increase_limit", "600kB").unwrap();
    assert!(matches!(
        link(&file.build().unwrap(), "bottleneck").kind.queue.router,
        RouterConfig::Xcp(XcpRouterConfig { increase_limit: Some(600_000.0), .. })
    ));
    file.set("dumbbell.bottleneck.router.increase_limit", "600p").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("expected bytes"), "{message}");
    file.set("dumbbell.bottleneck.router", "none").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("dumbbell.bottleneck.router = \"none\""), "{message}");
    assert!(message.contains("they ask for `xcp`"), "{message}");
}

/// Builds `s.toml` with this `rate` of the bottleneck from a folder that also has `files`.
fn with_files(test: &str, rate: &str, files: &[(&str, &[u8])]) -> Result<Scenario, ScenarioError> {
    beside_files(test, "rate = \"5Mbit\"", &format!("rate = {rate}"), files)
}

/// Builds `s.toml` with `old` replaced by `new` once, from a folder that also has `files`.
fn beside_files(
    test: &str,
    old: &str,
    new: &str,
    files: &[(&str, &[u8])],
) -> Result<Scenario, ScenarioError> {
    let name = format!("windward-trace-{}-{test}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let text = FIRST.replacen(old, new, 1);
    assert_ne!(text, FIRST);
    let scenario = folder.join("s.toml");
    std::fs::write(&scenario, text).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    let built = ScenarioFile::read(&scenario).and_then(|file| file.build());
    std::fs::remove_dir_all(&folder).unwrap();
    built
}

#[test]
fn a_trace_is_found_beside_the_scenario() {
    let files: &[(&str, &[u8])] = &[("cell.trace", b"3\n5\n10\n")];
    let scenario = with_files("found", r#"{ trace = "cell.trace" }"#, files).unwrap();
    let bottleneck = link(&scenario, "bottleneck");
    let inline = with_files("inline", "{ opportunities = [3, 5, 10] }", &[]).unwrap();
    assert_eq!(bottleneck.kind.rate, link(&inline, "bottleneck").kind.rate);
    // 3 x 12 000 bits in 10 ms.
    assert_eq!(bottleneck.kind.rate.mean(), Rate::from_bps(3_600_000).unwrap());
    // The reverse link mirrors it; 3.6 Mbit/s are less than the rate of the access links.
    assert_eq!(link(&scenario, "bottleneck-reverse").kind.rate, bottleneck.kind.rate);
    assert_eq!(scenario.links[scenario.flows[0].bottleneck].name, "bottleneck");
    // A mark of UTF-8, other line ends, and one line, whose rate is said: 12 000 bits in 500 s.
    let files: &[(&str, &[u8])] = &[("cell.trace", b"\xef\xbb\xbf500000\r\n")];
    let scenario = with_files("one", r#"{ trace = "cell.trace" }"#, files).unwrap();
    let said = scenario.warnings.join("; ");
    assert!(
        said.contains("an opportunity for 1500 bytes every 500000 ms, which is a rate of 24bit"),
        "{said}"
    );
}

#[test]
fn copies_of_a_file_share_a_trace() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/examples/cellular.toml");
    let file = ScenarioFile::read(Path::new(path)).unwrap();
    let trace = |file: &ScenarioFile| match &link(&file.build().unwrap(), "bottleneck").kind.rate {
        LinkRate::Trace(trace) => trace.clone(),
        other => panic!("no trace: {other:?}"),
    };
    let first = trace(&file);
    // 6.6 Mbit/s for 10 s are 5500 times 1500 bytes.
    assert_eq!((first.len(), first.period()), (5500, 10_000));
    assert!(Arc::ptr_eq(&first, &trace(&file.clone())));
}

#[test]
fn the_hash_distinguishes_traces_by_content() {
    let hash = |test: &str, files: &[(&str, &[u8])], rates: [&str; 2]| {
        let dir = std::env::temp_dir().join(format!("windward-hash-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, bytes) in files {
            std::fs::write(dir.join(name), bytes).unwrap();
        }
        let name = dir.join("scenario.toml").display().to_string();
        let file = ScenarioFile::parse(&name, FIRST).unwrap();
        for rate in rates {
            // Copies share the traces that were read.
            let mut copy = file.clone();
            copy.set("dumbbell.bottleneck.rate", &format!("{{ trace = \"{rate}\" }}")).unwrap();
            copy.build().unwrap();
        }
        std::fs::remove_dir_all(&dir).unwrap();
        let mut state = std::hash::DefaultHasher::new();
        file.hash_traces(&mut state);
        std::hash::Hasher::finish(&state)
    };
    let one: &[(&str, &[u8])] = &[("a", b"3\n10\n"), ("b", b"5\n10\n")];
    let other: &[(&str, &[u8])] = &[("a", b"3\n10\n"), ("b", b"6\n10\n")];
    // The order of reading does not matter.
    assert_eq!(hash("1", one, ["a", "b"]), hash("1", one, ["b", "a"]));
    // Traces of equal length and period differ too.
    assert_ne!(hash("1", one, ["a", "b"]), hash("1", other, ["a", "b"]));
}

#[test]
fn a_trace_can_be_set_over_a_rate_and_back() {
    let built = with(FIRST, &[("dumbbell.bottleneck.rate.opportunities", "[1, 2]")]);
    assert_eq!(link(&built, "bottleneck").kind.rate.mean(), Rate::from_bps(12_000_000).unwrap());
    let back = with(
        FIRST,
        &[
            ("dumbbell.bottleneck.rate.opportunities", "[1, 2]"),
            ("dumbbell.bottleneck.rate", "2Mbit"),
        ],
    );
    assert_eq!(link(&back, "bottleneck").kind.rate, Rate::from_bps(2_000_000).unwrap().into());
}

#[test]
fn invalid_traces_are_refused_with_the_line() {
    let of_file = |test: &str, bytes: &[u8]| {
        let rate = r#"{ trace = "cell.trace" }"#;
        with_files(test, rate, &[("cell.trace", bytes)]).unwrap_err().to_string()
    };
    for (test, bytes, expected) in [
        (
            "word",
            b"1\n2\nthree\n" as &[u8],
            "cell.trace:3: `three` is not a number of milliseconds",
        ),
        ("order", b"1\n5\n3\n", "cell.trace:3: 3 ms is earlier than the 5 ms before it"),
        ("zero", b"0\n0\n", "cell.trace:2: the last opportunity is at 0 ms"),
        ("empty", b"", "cell.trace: the trace has no opportunity"),
        ("binary", b"1\0", "cell.trace cannot be read: it is a binary file: byte 1 is zero"),
        ("mark", b"1\n\xef\xbb\xbf2\n", "cell.trace:2: `\\u{feff}2` is not a number"),
    ] {
        let message = of_file(test, bytes);
        assert!(message.contains(expected), "{message}");
    }
    let huge = of_file("huge", &vec![b'\n'; (64 << 20) + 1]);
    assert!(huge.contains("cell.trace is larger than 64 MiB"), "{huge}");
    let missing =
        with_files("missing", r#"{ trace = "cell.trace" }"#, &[]).unwrap_err().to_string();
    assert!(missing.contains("s.toml:"), "{missing}");
    assert!(missing.contains("rate.trace = \"cell.trace\": no such file"), "{missing}");
    let folder = with_files("folder", r#"{ trace = "." }"#, &[]).unwrap_err().to_string();
    assert!(folder.contains("is a directory"), "{folder}");

    let inline = |rate: &str| error_of_set("dumbbell.bottleneck.rate", rate);
    for (rate, expected) in [
        ("{ opportunities = [1, 5, 3] }", "opportunities[2] = 3: 3 ms is earlier than the 5 ms"),
        ("{ opportunities = [0] }", "opportunities[0] = 0: the last opportunity is at 0 ms"),
        ("{ opportunities = [] }", "the trace has no opportunity"),
        ("{ opportunities = [1.5] }", "opportunities[0] = 1.5: must be a whole number"),
        ("{ opportunities = [-1] }", "must lie between 0 and 8640000000"),
        ("{ opportunities = 5 }", "expected an array, found a number"),
        ("{ opportunities = [1], trace = 'x' }", "exclude each other: give one of them"),
        ("{ trace = 5 }", "expected a string, found a number"),
        ("{}", "`trace` is missing"),
        ("{ tracee = 'x' }", "did you mean `trace`?"),
    ] {
        let message = inline(rate);
        assert!(message.contains(expected), "{rate}: {message}");
    }
}

#[test]
fn schedules_and_impairments_are_read() {
    let ms = Duration::from_millis;
    let text = FIRST.replacen(
        "delay = \"20ms\"",
        r#"delay = { schedule = [{ at = "0s", delay = "20ms" }, { at = "15s", delay = "40ms" }],
                     repeat = "20s" },
           jitter = { distribution = "pareto", mean = "2ms", shape = 2.5, correlation = 0.3 },
           outages = [{ at = "20s", length = "1s" }]"#,
        1,
    );
    let scenario = build(&text);
    let there = link(&scenario, "bottleneck");
    // 15 s at 20 and 5 s at 40 ms.
    assert_eq!(there.delay, ms(25));
    let changing = there.kind.impairments.delay.as_ref().unwrap();
    assert_eq!((changing.steps.first(), changing.in_order), (ms(20), false));
    let jitter = there.kind.impairments.jitter.unwrap();
    assert_eq!(jitter.distribution, Distribution::Pareto { mean: ms(2), shape: 2.5 });
    assert!(jitter.in_order && jitter.correlation == 0.3 && jitter.interval.is_zero());
    let outages = there.kind.impairments.outages.as_ref().unwrap();
    assert_eq!(outages.during, During::Hold);
    // The reverse link has the same schedules, and no jitter.
    let back = &link(&scenario, "bottleneck-reverse").kind.impairments;
    assert_eq!((&back.delay, &back.outages), (&Some(changing.clone()), &Some(outages.clone())));
    assert_eq!(back.jitter, None);

    let changes = [
        ("dumbbell.bottleneck.outages.during", "drop"),
        ("dumbbell.bottleneck.jitter", "0"),
        ("dumbbell.bottleneck.delay", "5ms"),
        ("dumbbell.bottleneck.rate.schedule", "[{ at = '0s', rate = '1Mbit' }]"),
        ("flows.lossy.last_hop.outages", "[{ at = '1s', length = '1s' }]"),
    ];
    let scenario = with(&text, &changes);
    let there = link(&scenario, "bottleneck");
    let Impairments { delay, jitter, outages, .. } = &there.kind.impairments;
    assert_eq!((there.delay, delay, jitter), (ms(5), &None, &None));
    assert_eq!(outages.as_ref().unwrap().during, During::Drop);
    assert_eq!(there.kind.rate.mean(), Rate::from_bps(1_000_000).unwrap());
    assert!(link(&scenario, "lossy-1-last-hop").kind.impairments.outages.is_some());
    assert!(link(&scenario, "clean-1-last-hop").kind.impairments.is_empty());
}

/// Invalid values of `delay`, each with a part of the error.
const DELAYS: &[(&str, &str)] = &[
    ("{ schedule = [] }", "delay.schedule = []: there is no entry at all"),
    ("{}", "`schedule` is missing"),
    ("{ schedule = [{ at = '0s' }] }", "schedule[0]: `delay` is missing"),
    ("{ schedule = [{ at = '1s', delay = '1ms' }] }", "must be at 0s"),
    ("{ schedule = [{ at = '-1s', delay = '1ms' }] }", "schedule[0].at = \"-1s\""),
    ("{ schedule = [{ at = '0s', delay = '-1ms' }] }", "schedule[0].delay = \"-1ms\""),
    ("{ schedule = [{ at = '0s', delay = '25h' }] }", "must lie between 0s and"),
    ("{ schedule = [{ at = '0s', delay = nan }] }", "a time needs a unit"),
    ("{ schedule = [{ at = '0s', delay = '1ms', rate = '1Mbit' }] }", "unknown key"),
    ("{ schedule = 5 }", "expected an array"),
    ("{ schedule = [{ at = '0s', delay = '1ms' }], trace = 'x' }", "give one of"),
    ("{ trace = 'none.txt' }", "no such file"),
    ("{ trace = 'x', repeat = '1s' }", "repeats at its last line"),
    (
        "{ schedule = [{ at = '0s', delay = '1ms' }, { at = '5s', delay = '2ms' },
                           { at = '3s', delay = '2ms' }] }",
        "delay.schedule[2]",
    ),
    (
        "{ schedule = [{ at = '0s', delay = '1ms' }, { at = '5s', delay = '2ms' }],
               repeat = '5s' }",
        "delay.repeat = \"5s\": it repeats after 5s, and the last entry is at 5s only",
    ),
    (
        "{ schedule = [{ at = '0s', delay = '1ms' }], repeat = '1ps' }",
        "change 100000000000000 times in 100s, more than 10000000",
    ),
];

/// Invalid values of `rate`, each with a part of the error.
const RATES: &[(&str, &str)] = &[
    ("{ schedule = [{ at = '0s', rate = '0bit' }] }", "schedule[0].rate = \"0bit\""),
    ("{ schedule = [{ at = '0s', rate = 5 }] }", "a rate needs a unit"),
    ("{ schedule = [{ at = '0s', rate = '1Mbit' }], repeat = 0 }", "rate.repeat = 0"),
    ("{ opportunities = [1], repeat = '5s' }", "repeats after its last"),
    (
        "{ opportunities = [1], schedule = [{ at = '0s', rate = '1Mbit' }] }",
        "already has a `schedule`",
    ),
];

/// Invalid values of `jitter`, each with a part of the error.
const JITTERS: &[(&str, &str)] = &[
    ("'-5ms'", "jitter = \"-5ms\""),
    ("5", "a time needs a unit"),
    ("nan", "a time needs a unit"),
    ("'25h'", "must lie between 0s and"),
    ("{}", "`amount` is missing"),
    ("{ amount = '0s' }", "jitter.amount"),
    ("{ amount = '5ms', mean = '1ms' }", "jitter that is uniform has amount"),
    ("{ distribution = 'normal', amount = '5ms' }", "has mean and deviation"),
    ("{ distribution = 'pareto', mean = '5ms', shape = 1 }", "must be more than 1"),
    ("{ distribution = 'pareto', mean = '5ms', shape = nan }", "must lie between"),
    ("{ distribution = 'cauchy', mean = '5ms' }", "unknown word"),
    ("{ amount = '5ms', correlation = 1 }", "must be less than 1"),
    ("{ amount = '5ms', correlation = -0.1 }", "must lie between"),
];

/// Invalid values of `reorder`, each with a part of the error.
const REORDERINGS: &[(&str, &str)] = &[
    ("{ share = 0.1 }", "`by` is missing"),
    ("{ share = 1.5, by = '5ms' }", "a probability must lie between 0 and 1"),
    ("{ share = nan, by = '5ms' }", "a probability must lie between 0 and 1"),
    ("{ share = 0.1, by = '-5ms' }", "reorder.by = \"-5ms\""),
    ("{ share = 0.1, by = '0p' }", "must be more than zero"),
    ("{ share = 0.1, by = '2000000p' }", "1 and 1000000 packets"),
    ("{ share = 0.1, by = '1.5p' }", "not a whole number of packets"),
    ("'10ms'", "expected a table"),
];

/// Invalid values of `arq`, each with a part of the error.
const ARQS: &[(&str, &str)] = &[
    ("{ attempts = 0, delay = '5ms' }", "arq.attempts = 0: must lie between 1 and 100"),
    ("{ attempts = 4 }", "`delay` is missing"),
    ("{ attempts = 4, delay = '11s' }", "must lie between 0s and 10s"),
    ("{ attempts = 2.5, delay = '1s' }", "must be a whole number"),
    ("{ attempts = 4, delay = '-1ms' }", "arq.delay = \"-1ms\""),
];

/// Invalid values of `outages`, each with a part of the error.
const OUTAGES: &[(&str, &str)] = &[
    ("{}", "`schedule` is missing"),
    ("5", "expected an array"),
    ("[{ at = '1s' }]", "`length` is missing"),
    ("[{ at = '1s', length = '0s' }]", "outages[0].length"),
    ("[{ at = '1s', length = '1s', delay = '1s' }]", "unknown key"),
    ("[{ at = '5s', length = '2s' }, { at = '6s', length = '1s' }]", "outages[1] = "),
    (
        "{ schedule = [{ at = '0s', length = '2s' }], repeat = '2s' }",
        "there is no time without an outage",
    ),
    (
        "{ schedule = [{ at = '1s', length = '2s' }], repeat = '2s', during = 'drop' }",
        "the last outage ends at 3s",
    ),
    ("{ schedule = [{ at = '1s', length = '2s' }], during = 'wait' }", "valid: hold, drop"),
];

#[test]
fn invalid_schedules_are_refused_with_the_place() {
    let all = [
        ("delay", DELAYS),
        ("rate", RATES),
        ("jitter", JITTERS),
        ("reorder", REORDERINGS),
        ("arq", ARQS),
        ("outages", OUTAGES),
    ];
    let each = |(key, rows): (_, &'static [_])| rows.iter().map(move |row| (key, row));
    for (key, (value, expected)) in all.into_iter().flat_map(each) {
        let message = error_of_set(&format!("dumbbell.bottleneck.{key}"), value);
        assert!(message.contains(expected), "{key} = {value}: {message}");
        assert!(message.contains("dumbbell.bottleneck") || message.contains("link"), "{message}");
    }
    let silent = FIRST.replacen(
        "rate = \"5Mbit\"",
        "rate.opportunities = [1, 2], outages = [{ at = '1s', length = '1s' }]",
        1,
    );
    assert!(
        error(&silent).contains("a rate trace cannot be combined with `outages`"),
        "{}",
        error(&silent)
    );
    let taken = FIRST.replacen(
        "rate = \"5Mbit\"",
        "rate.opportunities = [1, 2], loss = 0.1, arq = { attempts = 2, delay = '5ms' }",
        1,
    );
    assert!(error(&taken).contains("write `arq.air_time = false`"), "{}", error(&taken));
    let spread = "{ delay.schedule = [{ at = '0s', delay = '1ms' }], delay_to = '5ms' }";
    let message = error_of_set("flows.lossy.last_hop", spread);
    assert!(message.contains("delay_to = \"5ms\": a delay that changes"), "{message}");
}

#[test]
fn traces_of_delays_are_read_or_refused_with_the_line() {
    let with_trace = |test: &str, bytes: &[u8]| {
        let new = "delay = { trace = \"path.txt\" }";
        beside_files(test, "delay = \"20ms\"", new, &[("path.txt", bytes)])
    };
    let scenario = with_trace("delays", b"0 20\n1000 60.5\n2000 20\n").unwrap();
    let delay = link(&scenario, "bottleneck").kind.impairments.delay.clone().unwrap();
    assert_eq!(delay.steps.repeat(), Some(Duration::from_secs(2)));
    assert_eq!(link(&scenario, "bottleneck").delay, Duration::from_micros(40_250));
    for (test, bytes, expected) in [
        ("cut", b"0 20\n1000 30\n20" as &[u8], "path.txt:3: `20` is not a time and a delay"),
        ("word", b"0 20\n1000 x\n", "path.txt:2: `x` is not a number of milliseconds"),
        ("back", b"0 20\n1000 5\n999 5\n", "path.txt:3:"),
        ("none", b"", "path.txt: there must be two lines"),
        ("binary", b"\xff\xfe", "path.txt cannot be read: it is UTF-16 text"),
        ("fast", b"0 20\n0.000001 5\n0.000002 5\n", "change 100000000000 times"),
    ] {
        let message = with_trace(test, bytes).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    // A million entries.
    let long: String = (0..1_000_000).map(|i| format!("{i} {}\n", i % 90)).collect();
    assert!(with_trace("long", long.as_bytes()).is_ok());
}

/// Ten flows with ESTCP over a bottleneck of 100 packets; RTT 60 ms.
const ESTCP: &str = r#"
    duration = "10s"
    dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms", queue = "100p" }
    dumbbell.access = { rate = "100Mbit", delay = "5ms", queue = "100p" }
    flows = [
        { group = "a", count = 10, protocol = "estcp" },
        { group = "b", count = 1, protocol = "newreno" },
    ]"#;

#[test]
fn a_traffic_controller_has_parameters_and_bounds() {
    let router = |value: &str| {
        let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
        // A plain flow that fills the same queue would cause another warning.
        file.set("flows.b.protocol", "vegas").unwrap();
        file.set("dumbbell.bottleneck.router", value).unwrap();
        file.build()
    };
    let scenario =
        router(r#"{ kind = "estcp", target = "3s", gamma = "adaptive", initial_g = 0.5 }"#)
            .unwrap();
    let RouterConfig::Estcp(spec) = &link(&scenario, "bottleneck").kind.queue.router else {
        panic!("a traffic controller")
    };
    assert_eq!((spec.target, spec.gamma), (Duration::from_secs(3), Gamma::Adaptive));
    assert_eq!(spec.initial_g, 0.5);
    assert_eq!(scenario.warnings, Vec::<String>::new());

    let foreign = router(r#"{ kind = "estcp", alpha = 0.4 }"#).unwrap_err().to_string();
    assert!(foreign.contains("router.alpha") && foreign.contains("no such parameter"), "{foreign}");

    // gamma B/N = 0.2 x 100 / 10 = 2.
    let warnings = |value: &str| router(value).unwrap().warnings;
    let unstable = warnings(r#"{ kind = "estcp", gamma = 0.2 }"#);
    assert!(unstable[0].contains("= 2.000 is not less than 2"), "{unstable:?}");
    assert!(unstable[0].contains("below 2.000e-1"), "{unstable:?}");
    assert!(warnings(r#"{ kind = "estcp", gamma = 0.199 }"#).is_empty());
    // Ten RTTs of 60 ms are 600 ms.
    let short = warnings(r#"{ kind = "estcp", target = "500ms" }"#);
    assert!(short[0].contains("shorter than ten times their RTT of 60ms"), "{short:?}");
}

#[test]
fn delays_of_a_group_are_spread_evenly() {
    let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
    file.set("flows.a.count", "5").unwrap();
    file.set("flows.a.first_hop", r#"{ delay = "5ms", delay_to = "45ms" }"#).unwrap();
    let scenario = file.build().unwrap();
    for (number, ms) in [(1, 5), (2, 15), (3, 25), (4, 35), (5, 45)] {
        for back in ["", "-reverse"] {
            let name = format!("a-{number}-first-hop{back}");
            assert_eq!(link(&scenario, &name).delay, Duration::from_millis(ms), "{name}");
        }
    }
    file.set("flows.a.count", "1").unwrap();
    let alone = file.build().unwrap();
    assert_eq!(link(&alone, "a-1-first-hop").delay, Duration::from_millis(25));
    file.set("flows.a.first_hop.shared", "true").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("a shared hop has one delay"), "{message}");
}

#[test]
fn flows_that_need_their_own_class_are_warned_of_flows_that_fill_their_queue() {
    let warnings = |changes: &[(&str, &str)]| with(FIRST, changes).warnings;
    let crowded = |changes: &[(&str, &str)]| {
        let warnings = warnings(changes);
        let own = warnings.iter().filter(|w| w.ends_with("give the link `classes = true`"));
        let own: Vec<&String> = own.collect();
        assert_eq!(own.len(), 1, "{changes:?}: {warnings:?}");
        own[0].clone()
    };
    // Beside a NewReno flow, the first has 0.13 and the second 0.02 of its throughput
    // (matrix-beside-newreno); for the third, estcp2010 states it.
    for protocol in ["xcp", "dctcp", "estcp"] {
        let said = crowded(&[("flows.clean.protocol", protocol)]);
        let who =
            "flows `clean` share the queue of link `bottleneck` with flows `lossy`, which fill";
        assert!(said.starts_with(who), "{said}");
    }
    for harmless in [
        &[("flows.clean.protocol", "lr-lmxtcp")][..],
        &[("flows.*.protocol", "xcp")],
        &[("flows.clean.protocol", "xcp"), ("dumbbell.bottleneck.classes", "true")],
        &[("flows.clean.protocol", "xcp"), ("flows.lossy.protocol", "vegas")],
        // 5 Mbit/s times 120 ms are 50 packets of 1500 bytes.
        &[("flows.clean.protocol", "xcp"), ("flows.lossy.rwnd", "20")],
        &[("flows.clean.protocol", "xcp"), ("flows.lossy.size", "20p")],
        &[("flows.clean.protocol", "dctcp"), ("flows.lossy.ecn", "true")],
    ] {
        assert_eq!(warnings(harmless), Vec::<String>::new(), "{harmless:?}");
    }
    let beside = |cbr: &str, protocol: &str| {
        let text =
            FIRST.replacen("protocol = \"newreno\"", &format!("protocol = \"{protocol}\""), 1);
        let text = text.replace("protocol = \"newreno\"", &format!("cbr = {{ rate = \"{cbr}\" }}"));
        build(&text).warnings
    };
    // Five times 0.95 of 5 Mbit/s are 95 %, five times 0.8 are 80.
    let said = beside("950kbit", "lr-lmxtcp");
    assert!(said[0].contains("with datagrams that take 95 % of it"), "{said:?}");
    assert_eq!(beside("800kbit", "xcp"), Vec::<String>::new());
    assert_eq!(beside("950kbit", "newreno"), Vec::<String>::new());
}

const UPLOAD: &str = include_str!("../../../../../experiments/examples/upload.toml");

#[test]
fn the_data_of_an_upload_takes_the_way_back() {
    let names = |scenario: &Scenario, route: &[usize]| -> Vec<String> {
        route.iter().map(|&l| scenario.links[l].name.to_string()).collect()
    };
    let mut file = ScenarioFile::parse("upload.toml", UPLOAD).unwrap();
    let scenario = file.build().unwrap();
    assert_eq!(scenario.warnings, Vec::<String>::new());
    let up = scenario.flows.iter().find(|flow| &*flow.name == "up-1").unwrap();
    assert_eq!(
        names(&scenario, &up.forward),
        ["up-1-first-hop", "bottleneck-reverse", "up-1-last-hop"]
    );
    assert_eq!(
        names(&scenario, &up.reverse),
        ["up-1-last-hop-reverse", "bottleneck", "up-1-first-hop-reverse"]
    );
    assert_eq!(scenario.links[up.bottleneck].name, "bottleneck-reverse");
    // A link gets the router that the data crossing it asks for.
    file.set("flows.up.protocol", "xcp").unwrap();
    let scenario = file.build().unwrap();
    let router = |name: &str| &link(&scenario, name).kind.queue.router;
    assert!(matches!(router("bottleneck-reverse"), RouterConfig::Xcp(_)));
    assert_eq!(router("bottleneck"), &RouterConfig::default());

    let mut file = ScenarioFile::parse("p.toml", PARKING_LOT).unwrap();
    let before = file.build().unwrap();
    file.set("flows.*.upload", "true").unwrap();
    let after = file.build().unwrap();
    // Bottlenecks in the opposite order, the last first.
    let (down, up) = (names(&before, &before.flows[0].forward), &after.flows[0].forward);
    let turned: Vec<String> =
        down[1..down.len() - 1].iter().rev().map(|l| format!("{l}-reverse")).collect();
    assert!(turned.len() > 1);
    assert_eq!(names(&after, up)[1..down.len() - 1], turned);

    let mut file = ScenarioFile::parse("g.toml", GRAPH).unwrap();
    file.set("flows.*.upload", "true").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("only to a dumbbell or a parking lot"), "{message}");
}

#[test]
fn protocols_without_their_router_are_warned_of() {
    let without = |protocol: &str| {
        let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
        file.set("flows.*.protocol", protocol).unwrap();
        file.set("dumbbell.access.router", "none").unwrap();
        let somewhere = file.build().unwrap().warnings;
        assert_eq!(somewhere, Vec::<String>::new(), "one router is enough");
        file.set("dumbbell.bottleneck.router", "none").unwrap();
        file.build().unwrap().warnings
    };
    let estcp = without("estcp");
    assert!(estcp[0].contains("has the router `estcp`") && estcp[0].contains("TCP"), "{estcp:?}");
    let jersey = without("new-jersey");
    assert!(jersey[0].contains("takes every loss for corruption"), "{jersey:?}");
    assert!(jersey[0].contains("answers no congestion at all"), "{jersey:?}");
    // Protocols that need a router at every queue are refused.
    for protocol in ["lr-xcp", "lr-xtcp"] {
        let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
        file.set("flows.*.protocol", protocol).unwrap();
        file.set("dumbbell.bottleneck.router", "none").unwrap();
        let message = file.build().unwrap_err().to_string();
        assert!(message.contains("gives no feedback that flows"), "{message}");
    }
}

#[test]
fn classes_give_each_router_a_queue_of_its_own() {
    let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
    file.set("flows.b.protocol", "xcp").unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("both cross link `bottleneck`"), "{message}");
    assert!(message.contains("`classes = true`"), "{message}");

    file.set("dumbbell.bottleneck.classes", "true").unwrap();
    let scenario = file.build().unwrap();
    let classes = &link(&scenario, "bottleneck").kind.queue.classes;
    let kinds: Vec<_> = classes.iter().map(|c| (c.kind, c.weight)).collect();
    assert_eq!(kinds, [(RouterKind::Xcp, 1.0), (RouterKind::Estcp, 1.0)]);
    assert!(matches!(classes[1].queue.router, RouterConfig::Estcp(_)));
    assert_eq!(classes[1].queue.limit, QueueLimit::Packets(100));
    assert!(link(&scenario, "bottleneck-reverse").kind.queue.classes.is_empty());

    let table =
        r#"{ estcp = { weight = 2, queue = "50p", router = { kind = "estcp", target = "9s" } } }"#;
    file.set("dumbbell.bottleneck.classes", table).unwrap();
    let scenario = file.build().unwrap();
    let estcp = &link(&scenario, "bottleneck").kind.queue.classes[1];
    assert_eq!((estcp.weight, estcp.queue.limit), (2.0, QueueLimit::Packets(50)));
    assert!(
        matches!(estcp.queue.router, RouterConfig::Estcp(spec) if spec.target == Duration::from_secs(9))
    );

    file.set("dumbbell.bottleneck.classes", r#"{ estcp = { router = "xcp" } }"#).unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("they ask for `estcp`"), "{message}");
    file.set("dumbbell.bottleneck.classes", r#"{ estcp = { weight = 0 } }"#).unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("must lie between 0.001 and 1000"), "{message}");
    file.set("dumbbell.bottleneck.classes", r#"{ udp = { weight = 1 } }"#).unwrap();
    let message = file.build().unwrap_err().to_string();
    assert!(message.contains("unknown key") && message.contains("valid: none, xcp"), "{message}");
}

/// The parameters of the parts of a flow's protocol.
fn settings(traffic: &Traffic) -> Vec<String> {
    let Traffic::Transport { protocol, .. } = traffic else { panic!("datagrams") };
    let line = |s: &Setting| format!("{}.{} = {}", s.table, s.doc.key, s.value);
    protocol.settings().iter().map(line).collect()
}

#[test]
fn parameters_of_protocols_are_read_and_refused() {
    let mut file = ScenarioFile::parse("s.toml", ESTCP).unwrap();
    file.set("flows.*.veno", r#"{ threshold = 5, rtt = "latest" }"#).unwrap();
    file.set("flows.*.jtcp.jitter", "signed").unwrap();
    file.set("flows.*.jtcp.span", "window").unwrap();
    file.set("flows.*.new_jersey", r#"{ on_warning = true, rtt = "latest" }"#).unwrap();
    file.set("flows.*.estcp.prior", "10").unwrap();
    for (protocol, expected) in [
        (
            "veno",
            vec![
                "veno.threshold = 5",
                "veno.rtt = latest",
                "veno.base_rtt = connection",
                ".partial_deflation = true",
            ],
        ),
        (
            "jtcp",
            vec![
                "reno.beta_ecn = none",
                "start_up.kind = slow-start",
                "start_up.min_rtt_thresh = 4ms",
                "start_up.max_rtt_thresh = 16ms",
                "start_up.css_growth_divisor = 4",
                "start_up.css_rounds = 5",
                ".partial_deflation = true",
                "jtcp.threshold = 1",
                "jtcp.jitter = signed",
                "jtcp.span = window",
                "jtcp.timeouts = standard",
            ],
        ),
        (
            "new-jersey",
            vec![
                "new_jersey.on_warning = true",
                "new_jersey.rtt = latest",
                ".partial_deflation = true",
            ],
        ),
        ("estcp-ecn", vec![".keep_scoreboard = true", "estcp.prior = 10"]),
        (
            "vegas",
            vec!["vegas.alpha = 2", "vegas.beta = 4", "vegas.gamma = 1", ".keep_scoreboard = true"],
        ),
    ] {
        file.set("flows.*.protocol", protocol).unwrap();
        file.set("dumbbell.bottleneck.router", "auto").unwrap();
        let scenario = file.build().unwrap();
        assert_eq!(settings(&scenario.flows[0].kind.traffic), expected, "{protocol}");
    }
}

#[test]
fn parameters_without_effect_are_warned_of() {
    let warnings = |key, value| with(FIRST, &[(key, value)]).warnings;
    let ceten = warnings("flows.clean.ceten.n", "2");
    assert_eq!(ceten.len(), 1, "{ceten:?}");
    assert!(ceten[0].contains("flows `clean`: `ceten` has no effect on newreno"), "{ceten:?}");
    // A default of all flows applies only to protocols that have the parameter.
    assert_eq!(warnings("endpoint.ceten.n", "2"), Vec::<String>::new());
    assert_eq!(warnings("flows.*.rto_floor", "1s"), Vec::<String>::new());

    // ceten-p has no n, and shares the rest of the table with ceten-a (eten2004 section 4.3).
    let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
    file.set("flows.lossy.protocol", "ceten-p").unwrap();
    file.set("flows.lossy.ceten", r#"{ n = 2, timeouts = "window" }"#).unwrap();
    file.set("flows.lossy.veno.threshold", "3").unwrap();
    let both = file.build().unwrap().warnings;
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].contains("`ceten.n`, `veno` have no effect on ceten-p"), "{both:?}");
}

#[test]
fn keys_override_a_preset() {
    let changes = [("endpoint.preset", "linux"), ("endpoint.rto_floor", "300ms")];
    let of = |scenario: &Scenario, name| match &flow(scenario, name).kind.traffic {
        Traffic::Transport { config, protocol, .. } => (**config, **protocol),
        _ => panic!("{name} is a transport"),
    };
    let scenario = with(FIRST, &changes);
    let (config, protocol) = of(&scenario, "clean-1");
    assert_eq!((config.initial_window, config.quick_acks), (10.0, 16));
    assert_eq!(config.rto_floor, Duration::from_millis(300));
    assert_eq!((protocol.name, protocol.recovery.words().name), ("newreno", "rack"));
    // A preset for one group; a named recovery; CUBIC's alpha.
    let flows = [
        ("flows.clean.preset", "linux"),
        ("flows.clean.protocol", r#"{ base = "cubic", recovery = "sack", name = "c" }"#),
    ];
    let scenario = with(FIRST, &flows);
    let (config, protocol) = of(&scenario, "clean-1");
    assert!(config.byte_counting);
    assert_eq!(protocol.recovery.words().name, "sack");
    let alpha = protocol.settings().into_iter().find(|s| s.doc.key == "reno_alpha");
    assert_eq!(alpha.map(|s| s.value), Some(windward_core::part::Value::Bool(false)));
    assert!(!of(&scenario, "lossy-1").0.byte_counting);
    assert!(!of(&with(FIRST, &[("endpoint.preset", "none")]), "clean-1").0.byte_counting);
    let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
    file.set("endpoint.preset", "linux").unwrap();
    file.set("flows.clean.preset", "none").unwrap();
    let error = file.build().unwrap_err().to_string();
    assert!(error.contains("the preset of `[endpoint]` is in force"), "{error}");
    let unknown = error_of_set("endpoint.preset", "linus");
    assert!(unknown.contains("unknown preset") && unknown.contains("`linux`"), "{unknown}");
}

#[test]
fn an_unstable_xcp_router_is_warned_of() {
    // Katabi 2002, theorem 1: 3.14159 / (4 x 1.41421) = 0.5554.
    let warnings = |alpha: &str| {
        let router = format!("{{ kind = \"xcp\", alpha = {alpha} }}");
        let changes = [("flows.*.protocol", "xcp"), ("dumbbell.bottleneck.router", &router)];
        with(FIRST, &changes).warnings
    };
    assert_eq!(warnings("0.555"), Vec::<String>::new());
    let unstable = warnings("0.556");
    assert!(unstable[0].contains("the router `xcp` of link `bottleneck`"), "{unstable:?}");
    assert!(unstable[0].contains("more than 0.5554: it may be unstable"), "{unstable:?}");
}

#[test]
fn bounds_are_written_as_people_write_them() {
    let zero = error_of_set("flows.*.rate_gap.threshold", "0");
    assert!(zero.contains("must be more than 0 and at most 1000000"), "{zero}");
    let gamma = error_of_set("dumbbell.bottleneck.router", "{ kind = \"estcp\", gamma = 0 }");
    assert!(gamma.contains("must be more than 0 and at most 1000000"), "{gamma}");
    let threshold = "{ kind = \"ecn-threshold\", threshold = 2.5 }";
    let fraction = error_of_set("dumbbell.bottleneck.router", threshold);
    assert!(fraction.contains("must be a whole number"), "{fraction}");
    for limit in ["5000", "\"50p\""] {
        let router = format!("{{ kind = \"xcp\", increase_limit = {limit} }}");
        let bytes = error_of_set("dumbbell.bottleneck.router", &router);
        assert!(bytes.contains("expected bytes") && bytes.contains("600kB"), "{bytes}");
    }
    let small = error_of_set("dumbbell.bottleneck.queue", "10B");
    assert!(small.contains("write `queue = \"1000B\"` or more"), "{small}");
}

#[test]
fn marks_above_a_threshold_are_asked_for_and_not_required() {
    let k = |scenario: &Scenario| match &link(scenario, "bottleneck").kind.queue.router {
        RouterConfig::EcnThreshold(router) => Some(router.threshold),
        _ => None,
    };
    // FIRST: 5 Mbit/s over 120 ms: 75 packets, of which a seventh is less than 11.
    let dctcp = ("flows.*.protocol", "dctcp");
    let auto = with(FIRST, &[dctcp]);
    assert_eq!((k(&auto), auto.warnings), (Some(20), vec![]));
    let kind = ("dumbbell.bottleneck.router", "ecn-threshold");
    let low = with(FIRST, &[dctcp, kind, ("dumbbell.bottleneck.router.threshold", "3")]);
    assert_eq!(k(&low), Some(3));
    assert!(low.warnings[0].contains("at most a seventh of the 75 packets"), "{:?}", low.warnings);
    // Without marks, it responds to losses.
    let none = with(FIRST, &[dctcp, ("dumbbell.bottleneck.router", "none")]);
    assert_eq!(k(&none), None);
    // Other links on the route of the data mark.
    assert_eq!(none.warnings, Vec::<String>::new());
    let nowhere = [("dumbbell.bottleneck.router", "none"), ("dumbbell.access.router", "none")];
    let nowhere = with(FIRST, &[dctcp, nowhere[0], nowhere[1]]);
    assert!(
        nowhere.warnings[0].contains("respond to ECN marks and no queue"),
        "{:?}",
        nowhere.warnings
    );
    // With an AQM that marks, no router is needed.
    let red = "{ kind = \"red\", ecn = true }";
    assert_eq!(k(&with(FIRST, &[dctcp, ("dumbbell.bottleneck.aqm", red)])), None);

    let message = error_of_set("dumbbell.bottleneck.router", "{ kind = \"xcp\", threshold = 3 }");
    assert!(message.contains("the router `xcp` has no such parameter"), "{message}");
    let alpha = "{ kind = \"ecn-threshold\", alpha = 3 }";
    let message = error_of_set("dumbbell.bottleneck.router", alpha);
    assert!(message.contains("the router `ecn-threshold` has no such parameter"), "{message}");
    let negative = "{ kind = \"ecn-threshold\", threshold = -1 }";
    let message = error_of_set("dumbbell.bottleneck.router", negative);
    assert!(message.contains("threshold"), "{message}");
}

#[test]
fn pacing_is_a_boolean_and_bbr_has_no_ecn() {
    let paced = with(FIRST, &[("flows.*.pacing", "true")]);
    assert!(matches!(
        &flow(&paced, "clean-1").kind.traffic,
        Traffic::Transport { config, .. } if config.pacing
    ));
    let message = error_of_set("endpoint.pacing", "1.25");
    assert!(message.contains("pacing"), "{message}");
    let bbr = with(FIRST, &[("flows.*.protocol", "bbr"), ("flows.*.ecn", "true")]);
    assert!(
        bbr.warnings.iter().any(|w| w.contains("`bbr` do not negotiate ECN")),
        "{:?}",
        bbr.warnings
    );
}

#[test]
fn every_xcp_needs_an_xcp_router() {
    for protocol in ["xcp-katabi", "xcp-r"] {
        let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
        file.set("flows.clean.protocol", protocol).unwrap();
        for router in ["none", "xtcp"] {
            file.set("dumbbell.bottleneck.router", router).unwrap();
            let message = file.build().unwrap_err().to_string();
            assert!(message.contains(&format!("dumbbell.bottleneck.router = \"{router}\"")));
            assert!(message.contains("no feedback that flows `clean` understand"), "{message}");
            assert!(message.contains("remove `router`"), "{message}");
        }
        file.set("dumbbell.bottleneck.router", "xcp").unwrap();
        file.build().unwrap();
    }
}

#[test]
fn parameters_of_xcp_r() {
    let config = |changes: &[(&str, &str)]| {
        let changes: Vec<_> =
            [("flows.*.protocol", "xcp-r")].iter().chain(changes).copied().collect();
        match &flow(&with(FIRST, &changes), "clean-1").kind.traffic {
            Traffic::Transport { protocol, .. } => match protocol.feedback {
                FeedbackConfig::XcpR(config) => config,
                _ => panic!("not xcp-r"),
            },
            _ => panic!("no connection"),
        }
    };
    assert_eq!(config(&[]), XcpRConfig::DEFAULT);
    let changed = config(&[
        ("flows.*.xcp_r.formula", "per-window"),
        ("flows.clean.xcp_r.congestion_flag", "once"),
    ]);
    assert_eq!(
        (changed.formula, changed.congestion_flag),
        (Formula::PerWindow, CongestionFlag::Once)
    );
    let message = error_of_set("endpoint.xcp_r.flag", "once");
    assert!(message.contains("unknown key"), "{message}");
    assert!(error_of_set("flows.clean.xcp_r", "once").contains("expected a table"));
}

#[test]
fn a_route_to_nowhere_names_the_nearest_node() {
    let message =
        error(&GRAPH.replace("to = \"mobile\"\nbottleneck", "to = \"moblie\"\nbottleneck"));
    assert!(message.contains("flows.download.to = \"moblie\": unknown node"), "{message}");
    assert!(message.contains("did you mean `mobile`?"), "{message}");
    let one_way = GRAPH
        .replace("ber = 1e-6\nreverse = { rate = \"2Mbit\", ber = 1e-6 }", "both_ways = false");
    let message = error(&one_way);
    assert!(message.contains("no route leads from `mobile` to"), "{message}");
    let message = error(&GRAPH.replace("[\"a\", \"c\", \"d\"]", "[\"a\", \"d\"]"));
    assert!(message.contains("no link leads from here to `d`"), "{message}");
}

#[test]
fn extreme_values_are_accepted() {
    for (key, value) in [
        ("dumbbell.bottleneck.rate", "1bit"),
        ("dumbbell.bottleneck.rate", "1Tbit"),
        ("dumbbell.bottleneck.delay", "1h"),
        ("dumbbell.bottleneck.delay", "0.5us"),
        ("flows.lossy.last_hop.loss", "100%"),
        ("flows.lossy.last_hop.loss", "1"),
        ("flows.clean.count", "10000"),
    ] {
        with(FIRST, &[(key, value)]);
    }
}

#[test]
fn a_quarter_of_a_million_flows_may_have_links_of_their_own() {
    // Four links for each flow, and the bottleneck. FIRST has two groups of five flows.
    let scenario = with(FIRST, &[("flows.clean.count", "249995")]);
    assert_eq!((scenario.flows.len(), scenario.links.len()), (250_000, 1_000_002));
}

#[test]
fn too_much_is_refused_before_it_costs_memory() {
    let many = error_of_set("flows.*.count", "1200000");
    assert!(many.contains("more than 2000000 flows"), "{many}");
    let mut file = ScenarioFile::parse("s.toml", PARKING_LOT).unwrap();
    file.set("parking_lot.hops", "1000").unwrap();
    file.set("flows.long.count", "50000").unwrap();
    let hops = file.build().unwrap_err().to_string();
    assert!(hops.contains("more than 40000000 links"), "{hops}");
}

#[test]
fn files_that_are_not_scenarios_are_refused_with_a_reason() {
    let read = |path: &Path| ScenarioFile::read(path).unwrap_err().to_string();
    let folder = std::env::temp_dir().join(format!("windward-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    assert!(read(&folder).contains("is a directory"));
    assert!(read(&folder.join("none.toml")).contains("no such file"));
    assert!(read(&write("empty.toml", b"")).contains("is empty"));
    assert!(read(&write("text.toml", b"a\xff\xfe")).contains("not UTF-8"));
    assert!(read(&write("wide.toml", b"\xff\xfea\0")).contains("UTF-16"));
    assert!(read(&write("binary.toml", b"\x7fELF\0\0")).contains("binary"));
    assert!(read(&write("huge.toml", &vec![b'#'; (4 << 20) + 1])).contains("4 MiB"));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(error("# nothing\n").contains("`duration` is missing"));
}

/// Values out of the range of a parameter, as `--set` takes them.
fn wrong_values(kind: ValueKind) -> Vec<String> {
    let times = |least: Duration, most: Duration| {
        let above = most.saturating_mul(2);
        let below = least.as_ps().checked_sub(1).map(|ps| format!("{ps}ps"));
        below.into_iter().chain(["-1s".to_owned(), above.to_string()]).collect()
    };
    let words = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match kind {
        ValueKind::Bool => words(&["1", "yes"]),
        ValueKind::Number { least, most } => {
            vec![format!("{:e}", least - 1.0), format!("{:e}", most * 2.0), "nan".to_owned()]
        }
        ValueKind::Positive { most } => words(&["0", "-1", &format!("{:e}", most * 2.0)]),
        ValueKind::Integer { least, most } => {
            let below = least.checked_sub(1).map(|below| below.to_string());
            below.into_iter().chain([(most + 1).to_string(), "2.5".to_owned()]).collect()
        }
        ValueKind::Time { least, most } => times(least, most),
        ValueKind::Switch { most, .. } => times(Duration::from_ps(1), most),
        ValueKind::Bytes { .. } => words(&["5000", "50p", "0B"]),
        ValueKind::Word(_) => words(&["nonsense", "5"]),
        ValueKind::PositiveOrWord { .. } => words(&["nonsense", "0"]),
    }
}

#[test]
fn every_parameter_of_every_part_refuses_what_is_out_of_its_range() {
    let refuses = |setting: &Setting, set: &dyn Fn(&str) -> (String, String)| {
        for value in wrong_values(setting.doc.kind) {
            let (key, text) = set(&value);
            let error = error_of_set(&key, &text);
            let says = ["must", "valid:", "expected", "did you mean", "negative", "needs a unit"];
            assert!(error.contains(setting.doc.key), "{key} = {text}: {error}");
            assert!(says.iter().any(|words| error.contains(words)), "{key} = {text}: {error}");
        }
    };
    for setting in windward_core::protocols::tables().iter().flat_map(|table| &table.settings) {
        refuses(setting, &|value| match setting.table {
            "" => (format!("endpoint.{}", setting.doc.key), value.to_owned()),
            table => (format!("endpoint.{table}.{}", setting.doc.key), value.to_owned()),
        });
    }
    let aqms = AqmConfig::forms().into_iter().map(|(words, aqm)| ("aqm", words, aqm.settings()));
    let routers = RouterConfig::forms().into_iter();
    let routers = routers.map(|(words, router)| ("router", words, router.settings()));
    for (key, words, settings) in aqms.chain(routers) {
        for setting in settings.iter().filter(|setting| setting.applies) {
            refuses(setting, &|value| {
                let number = value.parse::<f64>().is_ok();
                let value = if number { value.to_owned() } else { format!("{value:?}") };
                let table = format!("{{ kind = {:?}, {} = {value} }}", words.name, setting.doc.key);
                (format!("dumbbell.bottleneck.{key}"), table)
            });
        }
    }
}

#[test]
fn parameters_that_contradict_each_other_are_refused() {
    let error = error_of_set("endpoint", "{ spike = { a = 0.1, b = 0.3 } }");
    assert!(error.contains("b (0.3) is greater than a (0.1)"), "{error}");
}

#[test]
fn parameters_of_westwood_reach_the_endpoints() {
    let s = with(
        FIRST,
        &[
            ("flows.*.protocol", "tcpw-br"),
            ("endpoint.westwood.estimator", "ere"),
            ("flows.lossy.westwood.counting", "acked-count"),
            ("endpoint.bulk_repeat", "{ maximum = 3, fixed_timeout = '1s' }"),
            ("endpoint.partial_deflation", "false"),
            ("flows.lossy.bulk_repeat.repeat", "ack"),
            ("flows.lossy.rate_gap", "{ threshold = 0.5, reading = 'printed' }"),
            ("flows.lossy.partial_deflation", "true"),
        ],
    );
    let (clean, lossy) = (&flow(&s, "clean-1").kind.traffic, &flow(&s, "lossy-1").kind.traffic);
    assert_eq!(
        settings(clean),
        [
            "westwood.estimator = ere",
            "westwood.counting = exact",
            "bulk_repeat.maximum = 3",
            "bulk_repeat.repeat = round",
            "bulk_repeat.fixed_timeout = 1s",
            "bulk_repeat.timeout_window = repeated",
            ".partial_deflation = false",
            "spike.a = 0.4",
            "spike.b = 0.05",
            "spike.tick = 0s",
            "rate_gap.threshold = 0.7",
            "rate_gap.reading = text",
        ]
    );
    let lossy = settings(lossy);
    for own in [
        "westwood.estimator = ere", // The value of [endpoint] stays.
        "westwood.counting = acked-count",
        "bulk_repeat.maximum = 3",
        "bulk_repeat.repeat = ack",
        ".partial_deflation = true",
        "rate_gap.threshold = 0.5",
        "rate_gap.reading = printed",
    ] {
        assert!(lossy.iter().any(|setting| setting == own), "{own}: {lossy:?}");
    }
}

/// The composition of the flows of group `clean`.
fn composed(value: &str) -> windward_core::protocols::Protocol {
    match &flow(&with(FIRST, &[("flows.clean.protocol", value)]), "clean-1").kind.traffic {
        Traffic::Transport { protocol, .. } => **protocol,
        _ => panic!("no connection"),
    }
}

#[test]
fn protocols_are_put_together_by_the_names_of_parts() {
    let parts = |value: &str| composed(value).parts().map(|(_, words)| words.name);
    let all = r#"{ window = "cubic", recovery = "packet-number", discrimination = "backlog", feedback = "none" }"#;
    assert_eq!(parts(all), ["cubic", "packet-number", "backlog", "none"]);
    assert_eq!(composed(all).name, "cubic+packet-number+backlog+none");
    // A missing part is that of the base, or of sack.
    assert_eq!(parts(r#"{ window = "cubic" }"#), ["cubic", "sack", "always", "none"]);
    let based = composed(r#"{ base = "veno", recovery = "sack", name = "mine" }"#);
    assert_eq!(based.parts().map(|(_, words)| words.name), ["veno", "sack", "backlog", "none"]);
    assert_eq!(based.name, "mine");
    assert_eq!(composed(r#"{ base = "veno", recovery = "sack" }"#).name, "veno+sack");
    assert_eq!(composed(r#"{ base = "veno" }"#), composed("veno"), "a row by another way");
    // The feedback brings the router that it asks for, and parameters reach the parts.
    let xcp = composed(r#"{ window = "xcp", recovery = "sack", feedback = "xcp" }"#);
    assert_eq!(xcp.router, RouterKind::Xcp);
    let scenario = with(
        FIRST,
        &[
            ("flows.clean.protocol.recovery", "packet-number"),
            ("flows.clean.protocol.window", "veno"),
            ("flows.clean.veno.threshold", "7"),
        ],
    );
    let clean = &flow(&scenario, "clean-1").kind.traffic;
    assert_eq!(settings(clean)[0], "veno.threshold = 7", "--set reaches inside a composition");
}

#[test]
fn a_window_may_be_a_table_of_expressions() {
    let aimd = r#"{ window = { on_ack = "cwnd + growth / cwnd", on_loss = "0.7 * cwnd" } }"#;
    let protocol = composed(aimd);
    assert!(protocol.name.starts_with("law-") && protocol.name.ends_with("+sack+always+none"));
    assert!(protocol.window.words().what.contains("0.7 * cwnd"), "{:?}", protocol.window.words());
    assert_eq!(protocol, composed(aimd), "compiled once");
    // A sweep sets one expression; the other keeps its default.
    let change = [("flows.clean.protocol.window.on_loss", "cwnd / 3")];
    let base = [("flows.clean.protocol", r#"{ base = "cubic", window = { on_ack = "cwnd" } }"#)];
    let scenario = with(FIRST, &[&base[..], &change[..]].concat());
    let Traffic::Transport { protocol, .. } = &flow(&scenario, "clean-1").kind.traffic else {
        panic!("no connection")
    };
    assert!(protocol.window.words().what.contains("on_loss = `cwnd / 3`"));
    let rate = r#"{ recovery = "packet-number", window = { on_ack = "delivery_rate * min_rtt" } }"#;
    assert!(composed(rate).window.samples_rate());
}

#[test]
fn an_error_in_an_expression_has_its_line_and_column() {
    let wrong = |window: &str| {
        let text = FIRST.replacen("protocol = \"newreno\"", &format!("protocol = {window}"), 1);
        assert_ne!(text, FIRST);
        let error = ScenarioFile::parse("s.toml", &text).unwrap().build().unwrap_err();
        let line = text.lines().nth(error.line().unwrap() - 1).unwrap().to_owned();
        let rest: String = line.chars().skip(error.column().unwrap() - 1).collect();
        (rest, error.to_string())
    };
    let (rest, text) = wrong("{ window = { on_ack = \"cwnd + + 1\" } }");
    assert_eq!(rest, "+ 1\" } }");
    assert!(text.contains("character 8: expected a number"), "{text}");
    // Behind an escape, and in a string of several lines.
    assert_eq!(wrong("{ window = { on_ack = \"\\u0020cwdn\" } }").0, "cwdn\" } }");
    assert_eq!(wrong("{ window = { on_loss = \"\"\"\ncwnd\n / cwdn\"\"\" } }").0, "cwdn\"\"\" } }");
    let set = with_error(r#"{ window = { on_loss = "cwnd /" } }"#);
    assert!(set.contains("ends where") && set.contains("--set"), "{set}");
    let rate = with_error(r#"{ window = { on_ack = "delivery_rate" } }"#);
    assert!(rate.contains("needs news of each transmission by number"), "{rate}");
    assert!(with_error("{ window = {} }").contains("`on_ack` is missing"));
}

/// The error of a value of `protocol`.
fn with_error(value: &str) -> String {
    error_of_set("flows.clean.protocol", value)
}

#[test]
fn compositions_that_cannot_work_are_refused_with_a_reason() {
    let bbr = with_error(r#"{ base = "bbr", recovery = "sack" }"#);
    assert!(bbr.contains("window `bbr` needs news of each transmission by number"), "{bbr}");
    assert!(bbr.contains("help: take one of: recovery `packet-number`"), "{bbr}");
    for (value, says) in [
        (r#"{ window = "cubik" }"#, "did you mean `cubic`?"),
        (r#"{ recovery = "sack" }"#, "`window` is missing"),
        (r#"{ window = "cubic", recovery = 3 }"#, "expected a string"),
        (r#"{ window = "cubic", loss = 3 }"#, "unknown key"),
        (r#"{ base = "cubik" }"#, "did you mean `cubic`?"),
        (r#"{ base = "cubic", recovery = "newreno", name = "sack" }"#, "belongs to a row"),
        (r#"{ base = "cubic", recovery = "newreno", name = "cubic" }"#, "belongs to a row"),
        (r#"{ base = "cubic", name = "" }"#, "1 to 64 characters"),
        (r#"{ base = "bbr", discrimination = "never" }"#, "does not ask discrimination `never`"),
        (r#"{ window = "xcp-r" }"#, "feedback `xcp-r`"),
        (r#"{ window = "reno", discrimination = "oracle" }"#, "corrupted-forward"),
        ("3", "expected a string"),
        ("[]", "expected a string"),
    ] {
        let message = with_error(value);
        assert!(message.contains(says), "{value}: {message}");
    }
}

#[test]
fn a_path_crosses_a_link_once() {
    let text = r#"
        duration = "1s"
        links = [
            { from = "a", to = "b", rate = "1Mbit", delay = "1ms" },
            { from = "b", to = "c", rate = "1Mbit", delay = "1ms" },
            { from = "c", to = "a", rate = "1Mbit", delay = "1ms" },
        ]
        flows = [{ group = "g", protocol = "reno", from = "a", to = "c",
                   path = ["a", "b", "c", "a", "b", "c"] }]"#;
    let message = ScenarioFile::parse("s.toml", text).unwrap().build().unwrap_err().to_string();
    assert!(message.contains("crosses the link from `a` to `b` twice"), "{message}");
}

#[test]
fn experiments_are_scenarios_too() {
    build(&format!("{FIRST}\n[experiment]\nanything = {{ at = [\"all\"] }}\n"));
}

#[test]
fn every_key_is_documented() {
    let guide = include_str!("../../../../../docs/scenarios.md");
    for doc in ScenarioFile::keys() {
        let name = doc.key.rsplit('.').next().unwrap();
        // The pages of docs/queues have them, by a test of windward-sim.
        if doc.key.contains(".aqm.") && name != "kind" {
            continue;
        }
        assert!(guide.contains(&format!("`{name}`")), "{} is not in the guide", doc.key);
        assert!(!doc.meaning.is_empty());
    }
}

/// The kinds of a part with their keys below `prefix`, as the guide has them.
fn table_of_kinds(prefix: &str, kinds: &[Words]) -> String {
    let mut text = "| kind | what it does | source |\n|---|---|---|\n".to_owned();
    for Words { name, what, source } in kinds {
        text += &format!("| `{name}` | {what} | {source} |\n");
    }
    text += "\n| key | default | kind: meaning |\n|---|---|---|\n";
    for doc in ScenarioFile::keys() {
        let Some(name) = doc.key.strip_prefix(prefix) else { continue };
        text += &format!("| `{name}` | {} | {} |\n", doc.default, doc.meaning);
    }
    text
}

#[test]
fn the_guide_has_every_kind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenarios.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let words = |forms: Vec<Words>, table: &str, key: &str| {
        (key.to_owned(), table_of_kinds(&format!("{table}.{key}."), &forms))
    };
    let controllers = MediaControllerConfig::forms().into_iter().map(|form| form.0);
    let mut written = guide.clone();
    for (key, text) in [
        words(
            RouterConfig::forms().into_iter().map(|form| form.0).collect(),
            "dumbbell.bottleneck",
            "router",
        ),
        words(controllers.collect(), "flows.*.media", "controller"),
    ] {
        let (begin, end) = (format!("<!-- generated: {key} -->\n"), format!("<!-- end: {key} -->"));
        let (before, rest) = written.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        written = format!("{before}{begin}{text}{end}{after}");
    }
    if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(path, &written).unwrap();
    } else {
        assert!(
            written == guide,
            "out of date; run `BLESS=1 cargo test -p windward-scenario the_guide`"
        );
    }
}

/// A text near a valid example: bytes cut, doubled, spliced and numbers changed.
fn mutated() -> impl Strategy<Value = String> {
    let edit = (
        0..5_u8,
        any::<prop::sample::Index>(),
        0..40_usize,
        any::<prop::sample::Index>(),
        any::<i64>(),
    );
    let edits = prop::collection::vec(edit, 1..6);
    (0..EXAMPLES.len(), 0..EXAMPLES.len(), edits).prop_map(|(which, other, edits)| {
        let mut text: Vec<u8> = EXAMPLES[which].bytes().collect();
        for (kind, at, length, other_at, number) in edits {
            let from = at.index(text.len() + 1);
            let to = (from + length).min(text.len());
            match kind {
                0 => drop(text.drain(from..to)),
                1 => {
                    let piece = text[from..to].to_vec();
                    text.splice(to..to, piece);
                }
                2 => {
                    let donor = EXAMPLES[other].as_bytes();
                    let start = other_at.index(donor.len());
                    let end = (start + length).min(donor.len());
                    text.splice(from..to, donor[start..end].iter().copied());
                }
                3 => drop(text.splice(from..from, number.to_string().into_bytes())),
                _ => {
                    // Another value for the next number.
                    let digits = text[from..].iter().position(u8::is_ascii_digit);
                    let Some(start) = digits.map(|offset| from + offset) else {
                        continue;
                    };
                    let length = text[start..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let exponent = u32::try_from(number.rem_euclid(19)).unwrap_or(0);
                    let number = number.unsigned_abs() % 10_u64.pow(exponent);
                    drop(text.splice(start..start + length, number.to_string().into_bytes()));
                }
            }
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

fn survives(text: &str) {
    if let Err(error) = ScenarioFile::parse("s.toml", text).and_then(|file| file.build()) {
        assert!(error.to_string().starts_with("s.toml"), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_mutation_of_an_example_panics(text in mutated()) {
        survives(&text);
    }

    #[test]
    fn no_set_panics(
        key in "(flows|dumbbell|links|endpoint|[a-z]{0,5})(\\.(\\*|lossy|0|bottleneck|last_hop|aqm|rate|loss|start|[a-z]{1,3})){0,4}",
        value in "[0-9.e-]{0,6}(p|s|Mbit|%)?|\\PC{0,20}|\\{[a-z]{0,4} = [0-9]\\}|\\[\\]",
    ) {
        let mut file = ScenarioFile::parse("s.toml", FIRST).unwrap();
        if file.set(&key, &value).is_ok() {
            let _ = file.build();
        }
    }
}

#[test]
fn a_scenario_that_needs_more_memory_than_is_free_is_refused_before_it_is_built() {
    let mut file = ScenarioFile::parse("s.toml", SPEED).unwrap();
    file.set("flows.*.count", "1000000").unwrap();
    // 2800 bytes for each flow.
    let refused = file.clone().within(|| Some(1_000_000_000)).build().unwrap_err().to_string();
    let expected =
        "the 1000000 flows up to this group need about 2800 MB of memory, and 1000 MB are free";
    assert!(refused.contains(expected), "{refused}");
    file.set("flows.*.count", "10").unwrap();
    assert!(file.within(|| Some(1_000_000)).build().is_ok());
}
