//! Runs on several threads have the outcome of one.

use std::path::{Path, PathBuf};

use windward_core::units::Time;
use windward_sim::partition::{Partition, PartitionError};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Advance, Outcome, ParallelSimulation, Scenario};

use super::{build, changed};

/// Access links, a bottleneck and links back, all of which can be cut.
const TWO: &str = r#"
duration = "3s"
warmup = "1s"

[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "5ms", queue = "50p" }

[[flows]]
group = "bulk"
count = 5
protocol = "newreno"
"#;

/// The outcome without the number of events, which threads add to.
fn comparable(outcome: Outcome) -> Outcome {
    Outcome { events: 0, ..outcome }
}

fn on_threads(scenario: &Scenario, partition: &Partition) -> Outcome {
    let mut sim = ParallelSimulation::new(scenario, partition);
    // In steps, as a program with a progress bar does.
    for percent in [1, 30, 70] {
        sim.advance(Time::from_ps(scenario.duration.as_ps() / 100 * percent));
    }
    comparable(sim.finish())
}

/// Checks all that can be divided of 2 and 3 threads; returns true if something could.
#[track_caller]
fn check(what: &str, scenario: &Scenario) -> bool {
    let alone = comparable(windward_sim::run(scenario));
    let mut divides = false;
    for threads in [2, 3] {
        let Ok(partition) = Partition::new(scenario, threads, &[]) else { continue };
        let outcome = on_threads(scenario, &partition);
        assert_eq!(outcome.links, alone.links, "{what}, {threads} threads");
        assert!(outcome == alone, "{what}, {threads} threads");
        divides = true;
    }
    divides
}

fn toml_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the folder exists") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            toml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            found.push(path);
        }
    }
}

#[test]
fn scenarios_of_the_repository() {
    let mut files = Vec::new();
    toml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments"), &mut files);
    files.sort();
    let (mut divided, mut whole) = (0, 0);
    for path in files {
        // Others are experiments, or need code of other crates.
        let Ok(mut file) = ScenarioFile::read(&path) else { continue };
        for (key, value) in [("duration", "2s"), ("warmup", "500ms")] {
            let _ = file.set(key, value);
        }
        let Ok(scenario) = file.build() else { continue };
        if check(&path.display().to_string(), &scenario) {
            divided += 1;
        } else {
            whole += 1;
        }
    }
    assert!(divided >= 15, "{divided} divided, {whole} not");
}

#[test]
fn what_is_measured_is_merged() {
    // Windows over time, queues over time, throughput of each flow, counts after a warm-up.
    let details = [("sample", "50ms"), ("flow_bins", "true"), ("bin", "100ms")];
    assert!(check("details", &changed(TWO, &details)));
    for (key, value) in [
        ("endpoint.delayed_acks", "100ms"),
        ("endpoint.overhead", "1ms"),
        ("flows.bulk.size", "100p"),
        ("flows.bulk.receiver", "divides"),
        ("dumbbell.bottleneck.loss", "0.02"),
        ("dumbbell.bottleneck.aqm", "codel"),
        ("dumbbell.access.aqm", "red"),
        ("flows.bulk.protocol", "xcp"),
        ("flows.bulk.protocol", "estcp"),
    ] {
        assert!(check(&format!("{key} {value}"), &changed(TWO, &[(key, value)])), "{key}");
    }
}

#[test]
fn datagrams_and_transfers_cross_threads() {
    let more = |lines: &str| build(&format!("{TWO}\n[[flows]]\ngroup = \"more\"\n{lines}"));
    assert!(check("datagrams", &more("cbr = { rate = \"3Mbit\" }")));
    let arrivals = "protocol = \"sack\"\narrivals = { load = 0.3, sizes = { distribution = \"exponential\", mean = \"30kB\" } }";
    assert!(check("transfers", &more(arrivals)));
    assert!(check("media", &more("media = { rate = \"1Mbit\" }")));
}

#[test]
fn a_partition_balances_the_load_and_obeys_names() {
    let cut = |scenario: &Scenario, threads: usize, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let partition = Partition::new(scenario, threads, &names)?;
        assert!(partition.gain() < partition.threads() as f64);
        let links = partition.cut().map(|link| scenario.links[link].name.to_string());
        Ok(links.collect::<Vec<_>>())
    };
    let scenario = build(TWO);
    let named = cut(&scenario, 2, &["bottleneck"]);
    assert_eq!(named, Ok(vec!["bottleneck".to_owned(), "bottleneck-reverse".to_owned()]));
    assert_eq!(cut(&scenario, 2, &["no-link"]), Err(PartitionError::Unknown("no-link".to_owned())));
    let at_once = [("dumbbell.access.delay", "0ms"), ("dumbbell.bottleneck.delay", "0ms")];
    let at_once = changed(TWO, &at_once);
    assert_eq!(cut(&at_once, 2, &[]), Err(PartitionError::Indivisible));
    assert_eq!(
        cut(&at_once, 2, &["bottleneck"]),
        Err(PartitionError::Uncuttable("bottleneck".to_owned()))
    );
    // Six routers in a row with the same load.
    let row = r#"
duration = "3s"

[parking_lot]
hops = 5
bottleneck = { rate = "5Mbit", delay = "5ms", queue = "50p" }
access = { rate = "5Mbit", delay = "5ms", queue = "50p" }

[[flows]]
group = "long"
count = 5
protocol = "newreno"
"#;
    let each = (0..5).map(|hop| {
        format!("\n[[flows]]\ngroup = \"h{hop}\"\ncount = 5\nprotocol = \"sack\"\nhops = [{hop}]\n")
    });
    let scenario = build(&(row.to_owned() + &each.collect::<String>()));
    let middle = cut(&scenario, 2, &[]).expect("five links");
    let routers: Vec<_> = middle.iter().filter(|link| link.starts_with("bottleneck")).collect();
    assert_eq!(routers, ["bottleneck-2", "bottleneck-2-reverse"]);
    assert!(check("row", &scenario));
}
