//! Logs of whole runs: their content follows from the scenario, and logging changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;
use windward_core::protocols::PROTOCOLS;

use super::*;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Outcome, Simulation};

fn build(text: &str) -> Scenario {
    let file = ScenarioFile::parse("test.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    file.build().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// Runs the scenario and returns the records of each file by its name.
fn logged(scenario: &Scenario, options: &QlogOptions) -> (Outcome, BTreeMap<String, Vec<Value>>) {
    let folder = tempfile::tempdir().unwrap();
    let logs = QlogFiles::create(folder.path(), options, scenario).unwrap();
    let outcome = Simulation::observed(scenario, logs.observer()).finish();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count() % 3, 0, "hidden files only");
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let record = |line: &str| {
            let record = line.strip_prefix('\u{1e}').expect("a record separator");
            serde_json::from_str(record).unwrap()
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, text.lines().map(record).collect())
    };
    (outcome, logs.commit().unwrap().into_iter().map(read).collect())
}

fn time(event: &Value) -> f64 {
    event["time"].as_f64().unwrap()
}

fn named<'a>(log: &'a [Value], name: &str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |event| event["name"].as_str() == Some(name))
}

fn number(event: &Value) -> u64 {
    event["data"]["header"]["packet_number"].as_u64().unwrap()
}

/// Three packets over 1 Mbit/s each way and 10 ms of delay, with a window of two.
const THREE: &str = r#"
    duration = "10s"
    nodes = ["a", "b"]
    links = [{ from = "a", to = "b", rate = "1Mbit", delay = "10ms", queue = "50p" }]
    flows = [{ group = "x", from = "a", to = "b", protocol = "newreno", size = "3p",
               packet_size = 1000, ack_size = 125, initial_window = 2, clock_granularity = "0s" }]
"#;

#[test]
fn a_small_transfer_is_logged_as_arithmetic_has_it() {
    // 1000 bytes take 8 ms at 1 Mbit/s, 125 bytes 1 ms. Packets leave at 0; they arrive at
    // 8 + 10 = 18 and 26, their acknowledgments at 18 + 1 + 10 = 29 and 37. The third leaves at 29
    // and is acknowledged at 29 + 29 = 58.
    let (_, logs) = logged(&build(THREE), &QlogOptions::default());
    let log = &logs["x-1.sender.sqlog"];
    assert_eq!(log[0]["file_schema"], "urn:ietf:params:qlog:file:sequential");
    assert_eq!(log[0]["serialization_format"], "application/qlog+json-seq");
    assert_eq!(log[0]["trace"]["vantage_point"]["type"], "client");
    assert_eq!(log[1]["name"], "simulation:scenario");
    assert_eq!(log[1]["data"]["details"]["protocol"], "newreno");
    let of = |name| named(log, name).map(|e| (time(e), number(e))).collect::<Vec<_>>();
    assert_eq!(of("quic:packet_sent"), [(0.0, 1), (0.0, 2), (29.0, 3)]);
    assert_eq!(of("quic:packet_received"), [(29.0, 0), (37.0, 1), (58.0, 2)]);
    let acked: Vec<String> = named(log, "quic:packet_received")
        .map(|ack| ack["data"]["frames"][0]["acked_ranges"].to_string())
        .collect();
    assert_eq!(acked, ["[[1]]", "[[1,2]]", "[[1,3]]"]);
    let offsets = named(log, "quic:packet_sent").map(|e| &e["data"]["frames"][0]["offset"]);
    assert_eq!(offsets.collect::<Vec<_>>(), [0, 1000, 2000]);
    let parameters = named(log, "quic:recovery_parameters_set").next().unwrap();
    assert_eq!(parameters["data"]["initial_congestion_window"], 2000);
    // Slow start grows by a packet for each acknowledgment that finds the window full: the first.
    let metrics: Vec<_> = named(log, "quic:recovery_metrics_updated").collect();
    let at_29: Vec<_> = metrics.iter().filter(|e| time(e) == 29.0).collect();
    assert_eq!(at_29[0]["data"]["latest_rtt"], 29.0);
    assert_eq!(at_29[0]["data"]["congestion_window"], 3000);
    assert_eq!(at_29[0]["data"]["bytes_in_flight"], 1000);
    assert_eq!(at_29[1]["data"]["bytes_in_flight"], 2000, "the third has left");
    assert_eq!(at_29[1]["data"]["latest_rtt"], Value::Null, "only what is new");
    let states: Vec<_> = named(log, "quic:congestion_state_updated")
        .map(|e| (time(e), e["data"]["new"].as_str().unwrap()))
        .collect();
    assert_eq!(states[0], (0.0, "slow_start"));
    assert_eq!(states.last().unwrap().1, "application_limited");
    // RFC 6298: RTO = SRTT + max(G, 4 RTTVAR) = 29 + 4 x 14.5 = 87, and 200 is its floor.
    let timers: Vec<_> = named(log, "quic:timer_updated").collect();
    let of_29 = timers.iter().find(|e| time(e) == 29.0).unwrap();
    assert_eq!(of_29["data"]["delta"], 200.0);
    let last = timers.last().unwrap();
    assert_eq!((time(last), last["data"]["event_type"].as_str()), (58.0, Some("cancelled")));

    let log = &logs["x-1.receiver.sqlog"];
    let of = |name| named(log, name).map(|e| (time(e), number(e))).collect::<Vec<_>>();
    assert_eq!(of("quic:packet_received"), [(18.0, 1), (26.0, 2), (47.0, 3)]);
    assert_eq!(of("quic:packet_sent"), [(18.0, 0), (26.0, 1), (47.0, 2)]);
    assert_eq!(logs["x-1.network.sqlog"].len(), 2, "no packet was lost");
}

#[test]
fn the_older_version_has_its_names() {
    let options = QlogOptions { format: Format::Version03, ..QlogOptions::default() };
    let (_, logs) = logged(&build(THREE), &options);
    let log = &logs["x-1.sender.sqlog"];
    assert_eq!(log[0]["qlog_version"], "0.3");
    assert_eq!(log[0]["qlog_format"], "JSON-SEQ");
    assert_eq!(log[0]["trace"]["common_fields"]["time_format"], "relative");
    assert_eq!(log[0]["trace"]["common_fields"]["reference_time"], 0);
    assert_eq!(log[0]["trace"].get("event_schemas"), None);
    let sent = named(log, "transport:packet_sent").next().unwrap();
    assert_eq!(sent["data"]["raw"]["length"], 1000);
    assert_eq!(sent["data"]["frames"][0]["length"], 1000);
    for name in
        ["transport:packet_received", "recovery:metrics_updated", "recovery:loss_timer_updated"]
    {
        assert!(named(log, name).next().is_some(), "{name}");
    }
    assert!(
        log.iter()
            .all(|event| { !event["name"].as_str().is_some_and(|name| name.starts_with("quic:")) })
    );
}

/// Losses of every kind, marks, timeouts, datagrams.
const ROUGH: &str = r#"
    duration = "3s"
    seed = 3
    dumbbell.bottleneck = { rate = "3Mbit", delay = "20ms", queue = "12p", aqm = { kind = "red",
        min_threshold = 4, max_threshold = 9, ecn = true }, loss = 0.03 }
    dumbbell.access = { rate = "20Mbit", delay = "3ms", queue = "50p", loss = 0.01,
        jitter = { distribution = "exponential", mean = "500us", in_order = false } }
    flows = [
        { group = "a", count = 2, protocol = "PROTOCOL", ecn = true, delayed_acks = "40ms" },
        { group = "b", protocol = "PROTOCOL", size = "60p" },
        { group = "c", cbr = { rate = "300kbit", packet_size = 500 }, stop = "2s" },
    ]"#;

#[test]
fn logs_of_the_whole_table_hold_together_and_change_nothing() {
    let mut seen = BTreeSet::new();
    for protocol in PROTOCOLS {
        let what = protocol.name;
        let scenario = build(&ROUGH.replace("PROTOCOL", what));
        let (mut outcome, logs) = logged(&scenario, &QlogOptions::default());
        let plain = windward_sim::run(&scenario);
        outcome.events = plain.events; // Later records count too.
        assert_eq!(outcome, plain, "{what}");
        assert_eq!(logs.len(), 12);
        let mut dropped = 0;
        for (name, log) in &logs {
            let what = format!("{what}, {name}");
            let times: Vec<f64> = log[1..].iter().map(time).collect();
            assert!(times.is_sorted() && times[times.len() - 1] <= 3000.0, "{what}");
            seen.extend(log[1..].iter().map(|event| {
                let trigger = event["data"]["trigger"].as_str().unwrap_or_default();
                format!("{} {trigger}", event["name"].as_str().unwrap())
            }));
            dropped += named(log, "windward:link_dropped").count() as u64;
        }
        // A packet on a wire that ends at the end of the run is lost in a log, but not yet counted
        // by the simulator.
        let lost: u64 = outcome.links.iter().map(|link| link.dropped + link.corrupted).sum();
        let in_flight: u64 = outcome.links.iter().map(|link| link.in_flight).sum();
        assert!((lost..=lost + in_flight).contains(&dropped), "{what}: {lost} {dropped}");
        for flow in &outcome.flows {
            let what = format!("{what}, {}", flow.name);
            let log = &logs[&format!("{}.sender.sqlog", flow.name)];
            let far = &logs[&format!("{}.receiver.sqlog", flow.name)];
            let sent: Vec<u64> = named(log, "quic:packet_sent").map(number).collect();
            assert_eq!(sent.len() as u64, flow.packets_sent, "{what}");
            assert!(sent.is_sorted_by(|a, b| a < b), "{what}: numbers rise");
            let sent: BTreeSet<u64> = sent.into_iter().collect();
            let arrived = named(far, "quic:packet_received").map(number).collect::<BTreeSet<_>>();
            assert!(arrived.is_subset(&sent), "{what}");
            let mut lost = BTreeSet::new();
            for event in named(log, "quic:packet_lost") {
                assert!(sent.contains(&number(event)), "{what}: lost, never sent");
                assert!(lost.insert(number(event)), "{what}: lost twice");
            }
            for event in named(log, "quic:packet_received") {
                for range in event["data"]["frames"][0]["acked_ranges"].as_array().unwrap() {
                    for end in range.as_array().unwrap() {
                        assert!(arrived.contains(&end.as_u64().unwrap()), "{what}: {event}");
                    }
                }
            }
            for event in named(log, "quic:recovery_metrics_updated") {
                let data = &event["data"];
                if let Some(bytes) = data["bytes_in_flight"].as_u64() {
                    assert_eq!(bytes, data["packets_in_flight"].as_u64().unwrap() * 1000, "{what}");
                }
            }
            let timeouts = flow.timeouts.unwrap_or(0);
            if timeouts > 0 {
                let expired = named(log, "quic:timer_updated")
                    .filter(|event| event["data"]["event_type"] == "expired");
                assert!(expired.count() as u64 >= timeouts, "{what}");
            }
        }
    }
    for event in [
        "quic:packet_sent retransmit_reordered",
        "quic:packet_sent retransmit_timeout",
        "quic:packet_lost reordering_threshold",
        "quic:packet_lost time_threshold",
        "quic:packet_lost pto_expired",
        "quic:congestion_state_updated loss",
        "quic:congestion_state_updated timeout",
        "quic:ecn_state_updated ",
        "quic:timer_updated ",
        "windward:link_dropped queue",
        "windward:link_dropped channel",
    ] {
        assert!(seen.contains(event), "{event}, but only {seen:?}");
    }
}

#[test]
fn marks_are_logged_where_they_come_and_where_they_are_answered() {
    let scenario = build(
        r#"
        duration = "5s"
        dumbbell.bottleneck = { rate = "4Mbit", delay = "10ms", queue = "100p",
            aqm = { kind = "red", min_threshold = 5, max_threshold = 50, ecn = true } }
        dumbbell.access = { rate = "10Mbit", delay = "2ms", queue = "100p" }
        flows = [{ group = "a", protocol = "newreno", ecn = true }]"#,
    );
    let (outcome, logs) = logged(&scenario, &QlogOptions::default());
    let marked: u64 = outcome.links.iter().map(|link| link.marked).sum();
    assert!(marked > 0, "the scenario is meant to mark");
    let far = &logs["a-1.receiver.sqlog"];
    let arrived = |ecn: &str| {
        let packets = named(far, "quic:packet_received");
        packets.filter(|event| event["data"]["ecn"] == *ecn).count() as u64
    };
    // A marked packet may be on its way when the run ends.
    assert!((1..=marked).contains(&arrived("CE")), "{} of {marked}", arrived("CE"));
    assert!(arrived("ECT(0)") > arrived("CE"));
    let log = &logs["a-1.sender.sqlog"];
    assert_eq!(named(log, "quic:ecn_state_updated").count(), 1);
    let told = named(log, "quic:packet_received").last().unwrap();
    assert!(told["data"]["frames"][0]["ce"].as_u64() >= Some(1), "{told}");
    let answers: Vec<_> = named(log, "quic:congestion_state_updated")
        .filter(|event| event["data"]["trigger"] == "ecn")
        .collect();
    assert!(!answers.is_empty() && answers.iter().all(|e| e["data"]["new"] == "recovery"));
}

#[test]
fn the_same_run_writes_the_same_bytes() {
    let scenario = build(&ROUGH.replace("PROTOCOL", "cubic"));
    let write = || {
        let folder = tempfile::tempdir().unwrap();
        let logs = QlogFiles::create(folder.path(), &QlogOptions::default(), &scenario).unwrap();
        Simulation::observed(&scenario, logs.observer()).finish();
        let files = logs.commit().unwrap();
        files.iter().map(|file| fs::read(file).unwrap()).collect::<Vec<_>>()
    };
    assert!(write() == write());
}

#[test]
fn flows_are_chosen_by_name_or_group() {
    let scenario = build(&ROUGH.replace("PROTOCOL", "cubic"));
    let choose = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        super::choose(&names, &scenario).map(|chosen| chosen.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(choose(&[]).unwrap(), [0, 1, 2, 3]);
    assert_eq!(choose(&["a"]).unwrap(), [0, 1]);
    assert_eq!(choose(&["c", "a-2"]).unwrap(), [1, 3]);
    let error = choose(&["a-3"]).unwrap_err().to_string();
    assert!(error.contains("no flow and no group \"a-3\"; did you mean"), "{error}");
    assert!(!choose(&["nothing like it"]).unwrap_err().to_string().contains("mean"));
}

#[test]
fn too_many_flows_and_too_many_bytes_are_refused_and_leave_nothing() {
    let text = THREE.replace("group = \"x\"", "group = \"x\", count = 65");
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("logs");
    let error = QlogFiles::create(&dir, &QlogOptions::default(), &build(&text)).unwrap_err();
    assert!(error.to_string().starts_with("65 flows are to be logged, but at most 64"), "{error}");
    assert!(!dir.exists());
    // Those that are few enough are logged.
    let options = QlogOptions { flows: vec!["x-65".to_owned()], ..QlogOptions::default() };
    assert_eq!(logged(&build(&text), &options).1.len(), 3);

    let arriving = THREE.replace("size = \"3p\"", "arrivals = { rate = 1, sizes = \"3p\" }");
    let error = QlogFiles::create(&dir, &QlogOptions::default(), &build(&arriving)).unwrap_err();
    assert!(error.to_string().contains("`arrivals` open are not"), "{error}");

    let limited = |limit_bytes| QlogOptions { limit_bytes, ..QlogOptions::default() };
    let scenario = build(THREE);
    let error = QlogFiles::create(&dir, &limited(100), &scenario).unwrap_err();
    assert!(error.to_string().contains("limit of 100 bytes 0 s into the run"), "{error}");
    let logs = QlogFiles::create(&dir, &limited(3000), &scenario).unwrap();
    let outcome = Simulation::observed(&scenario, logs.observer()).finish();
    assert_eq!(outcome.flows[0].packets_sent, 3, "the run itself goes on");
    let error = logs.commit().unwrap_err();
    assert!(error.to_string().contains("limit of 3000 bytes 0"), "{error}");
    assert!(!dir.exists(), "the folder that was made for them is gone too");
}

#[test]
fn names_of_files_are_plain_and_differ() {
    let mut names = BTreeSet::new();
    let mut name = |flow: &str, index| file_name(flow, index, &mut names);
    assert_eq!(name("bulk-1", 0), "bulk-1");
    assert_eq!(name("../x y", 1), "___x_y");
    assert_eq!(name("___x_y", 2), "___x_y.2");
    assert_eq!(name("BULK-1", 3), "BULK-1.3");
    assert_eq!(name(&"ü".repeat(300), 4).len(), 100);
}
