//! `--trace`: complete files or none.

use std::fs;

use crate::{SMALL, Sandbox, names_in, stderr, success, windward};

fn args(sandbox: &Sandbox, dir: &str, more: &[&str]) -> Vec<String> {
    let fixed = [
        "run".to_owned(),
        sandbox.scenario().display().to_string(),
        "--quiet".to_owned(),
        "--trace".to_owned(),
        sandbox.path(dir).display().to_string(),
    ];
    fixed.into_iter().chain(more.iter().map(|s| (*s).to_owned())).collect()
}

#[test]
fn csv_has_a_row_for_each_flow_and_instant() {
    let sandbox = Sandbox::new(SMALL);
    success(args(&sandbox, "a/b", &["--trace-interval", "300ms"]));
    assert_eq!(names_in(sandbox.path("a/b")), ["flows.csv", "links.csv"]);

    let flows = fs::read_to_string(sandbox.path("a/b/flows.csv")).unwrap();
    let mut lines = flows.lines();
    assert_eq!(
        lines.next().unwrap(),
        "time_s,flow,cwnd_packets,ssthresh_packets,srtt_s,in_flight_packets,goodput_bps,\
         throughput_bps"
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    // 0.3, 0.6 ... 1.8 and the end at 2.0 s: seven instants, two flows.
    assert_eq!(rows.len(), 14);
    assert_eq!(rows[0][0], "0.3");
    assert_eq!(rows[13][0], "2");
    for row in &rows {
        assert!(row[2].parse::<f64>().unwrap() >= 1.0, "cwnd in {row:?}");
        // No flow is faster than the bottleneck by more than a queue's worth a sample.
        assert!(row[7].parse::<f64>().unwrap() <= 5.1e6, "throughput in {row:?}");
    }
    let links = fs::read_to_string(sandbox.path("a/b/links.csv")).unwrap();
    assert!(links.starts_with("time_s,link,queue_packets,dropped,corrupted,throughput_bps\n"));
}

#[test]
fn parquet_files_are_whole() {
    let sandbox = Sandbox::new(SMALL);
    success(args(&sandbox, "t", &["--trace-format", "parquet"]));
    assert_eq!(names_in(sandbox.path("t")), ["flows.parquet", "links.parquet"]);
    for name in names_in(sandbox.path("t")) {
        let bytes = fs::read(sandbox.path("t").join(name)).unwrap();
        // A Parquet file begins and ends with its magic number.
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    }
}

#[test]
fn a_bad_scenario_makes_no_folder() {
    let sandbox = Sandbox::new("duration = 1");
    assert_eq!(windward(args(&sandbox, "t", &[])).status.code(), Some(2));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn an_interval_that_would_fill_the_disk_is_refused_before_the_run() {
    let sandbox = Sandbox::new(SMALL);
    let output = windward(args(&sandbox, "t", &["--trace-interval", "1ps"]));
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    // Two seconds of 10^12 ps; the 10^7 samples that are possible are 200 ns apart.
    assert!(said.starts_with("error: --trace-interval: 2s every 1ps give 2000000000000 samples"));
    assert!(said.contains("more than 10000000;"), "{said}");
    assert!(said.contains("must be at least 200ns"), "{said}");
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}
