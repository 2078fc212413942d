use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;
use crate::campaign::measure;
use crate::experiment::{Effort, Experiment, RunLength};
use crate::testing::{fake, options, results};
use std::sync::atomic::AtomicBool;

fn small() -> Table {
    let mut table = Table::default();
    table.add_texts("label", ["a, b", "5 %"]);
    table.add_counts("seed", [Some(u64::MAX), None]);
    table.add_reals("x", [None, Some(0.1)]);
    table
}

#[test]
fn csv_reads_back() {
    let mut out = Vec::new();
    small().write_csv(&mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "label,seed,x\n\"a, b\",18446744073709551615,\n5 %,,0.1\n"
    );
}

#[test]
fn parquet_reads_back() {
    let mut file = tempfile::tempfile().unwrap();
    small().write_parquet(&mut file).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let fields = |row: usize| -> Vec<Field> {
        rows[row].get_column_iter().map(|(_, field)| field.clone()).collect()
    };
    assert_eq!(fields(0), [Field::Str("a, b".into()), Field::ULong(u64::MAX), Field::Null]);
    assert_eq!(fields(1), [Field::Str("5 %".into()), Field::Null, Field::Double(0.1)]);
}

#[test]
fn a_row_per_run_with_labels_seed_metrics_and_sums() {
    let table = results(1).run_table();
    assert_eq!(table.rows(), 18);
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[..6], ["protocol", "rate", "repetition", "seed", "clean", "ratio"]);
    assert!(names.contains(&"lossy.goodput_bps"));
    assert!(names.contains(&"bottleneck.utilization"));
    // In the fake simulator nothing crosses them: columns do not depend on the outcomes.
    assert!(names.contains(&"clean-1-first-hop.dropped"));
    let mut out = Vec::new();
    table.write_csv(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    // Row 1 is the second repetition of (newreno, 1 Mbit): seed 8, 1e6 + 8 bit/s.
    let second = text.lines().nth(2).unwrap();
    assert!(second.starts_with("newreno,1 Mbit,1,8,1000008,0.5,"), "{second}");
}

#[test]
fn a_row_per_flow_and_a_row_per_bin() {
    let results = results(1);
    // 18 runs of 2 flows; 18 runs of 10 bins.
    assert_eq!(results.flow_table().rows(), 36);
    let series = results.series_table();
    assert_eq!(series.rows(), 180);
    let start = series.columns.iter().find(|c| c.name == "bin_start_s").unwrap();
    let Values::Real(starts) = &start.values else { panic!("{start:?}") };
    assert_eq!(starts[..3], [Some(0.0), Some(1.0), Some(2.0)]);
}

#[test]
fn the_manifest_says_what_to_run_again() {
    let first = manifest_entry(&results(1));
    assert_eq!(first["command"], "windward sweep mine.toml --quick");
    assert_eq!(first["seed"], 7);
    assert_eq!(first["runs"], 18);
    assert_eq!(first["configuration_hash"].as_str().unwrap().len(), 16);
}

/// An experiment that might have duplicate columns: a group with the name of a flow of another,
/// series of flows, samples.
const CROWDED: &str = r#"
duration = "4s"
flow_bins = true
sample = "1s"
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "20ms", queue = "20p" }
access = { rate = "10Mbit", delay = "5ms" }
[[flows]]
group = "tcp"
count = 2
protocol = "newreno"
[[flows]]
group = "tcp-1"
protocol = "newreno"
[experiment]
id = "crowded"
title = "Crowded"
[[experiment.axes]]
name = "protocol"
key = "flows.*.protocol"
values = ["newreno", "sack"]
[experiment.metrics]
timeouts = "timeouts(tcp)"
[[experiment.plots]]
kind = "time"
groups = ["tcp", "tcp-1"]
flows = true
[[experiment.plots]]
kind = "cwnd"
groups = ["tcp", "tcp-1"]
[[experiment.plots]]
kind = "queue"
links = "bottleneck"
"#;

/// Fails, as readers of tables do, if two columns have one name.
fn assert_unique(results: &Results) {
    let tables = [
        results.run_table(),
        results.flow_table(),
        results.series_table(),
        results.sample_table(),
        readings_table(&results.plan, &[]),
    ];
    for table in tables {
        let mut names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None, "{}", results.plan.experiment.file);
    }
}

fn faked(experiment: &Experiment) -> Results {
    let length = RunLength { repetitions: 1, ..experiment.quick.clone() };
    let plan = experiment.plan(&Effort::Custom { full: false, length }).unwrap();
    let cancel = AtomicBool::new(false);
    let all = measure(vec![plan], &options(1, &cancel), &fake).unwrap();
    all.into_iter().next().unwrap()
}

#[test]
fn no_table_of_any_experiment_has_two_columns_of_one_name() {
    let experiments = crate::builtin::all().unwrap();
    assert!(experiments.len() > 50);
    for experiment in &experiments {
        assert_unique(&faked(experiment));
    }
    let example = include_str!("../../../../experiments/examples/loss-sweep.toml");
    assert_unique(&faked(&Experiment::parse("loss-sweep.toml", example).unwrap()));
    let crowded = Experiment::parse("crowded.toml", CROWDED).unwrap();
    let plan = crowded.plan(&Effort::Quick).unwrap();
    let cancel = AtomicBool::new(false);
    assert_unique(&plan.run(&options(1, &cancel)).unwrap());
}

#[test]
fn names_that_would_double_columns_are_refused() {
    let axis = |name: &str| CROWDED.replace("name = \"protocol\"", &format!("name = \"{name}\""));
    let metric = |name: &str| CROWDED.replace("timeouts = ", &format!("{name} = "));
    let refused = |text: String| Experiment::parse("c.toml", &text).unwrap_err().to_string();
    for name in ["seed", "Seed", "repetition", "time_s", "bin_start_s"] {
        let said = refused(axis(name));
        assert!(said.starts_with("c.toml:19: experiment.axes[0].name = "), "{said}");
        assert!(said.contains(&format!("no axis can be called `{name}`")), "{said}");
        let said = refused(metric(name));
        assert!(said.starts_with(&format!("c.toml:23: experiment.metrics.{name} = ")), "{said}");
        assert!(said.contains(&format!("no metric can be called `{name}`")), "{said}");
    }
    assert!(refused(metric("protocol")).contains("there is an axis `protocol` already"));
    assert!(refused(metric("x = \"jain()\"\nX")).contains("two metrics `X`"));
    for name in ["flow.protocol", "a.b", "=cmd()", "", " x", "1", "two\\nlines"] {
        let said = refused(axis(name));
        assert!(said.contains("a letter first"), "{name}: {said}");
    }
    for name in ["flow", "group", "loss", "Loss rate", "rtt-ms"] {
        Experiment::parse("c.toml", &axis(name)).unwrap();
    }
}
