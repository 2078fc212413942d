//! `windward compare-logs`.

use std::ffi::OsStr;
use std::fs;

use crate::{SMALL, Sandbox, json, stderr, success, windward};

/// Writes the logs of a run, and returns the path of the first sender's.
fn logs(sandbox: &Sandbox, dir: &str, protocol: &str, more: &[&str]) -> String {
    let path = sandbox.path(dir);
    let (scenario, dir) = (sandbox.scenario().display().to_string(), path.display().to_string());
    let set = format!("flows.clean.protocol={protocol}");
    let args = ["run", &scenario, "--quiet", "--set", &set, "--duration", "8s", "--qlog", &dir];
    success([&args, more].concat());
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    let is_sender = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("clean") && name.ends_with(".sender.sqlog")
    };
    names.into_iter().find(is_sender).expect("a log of the sender").display().to_string()
}

#[test]
fn a_log_agrees_with_itself_and_the_first_departure_of_another_is_named() {
    let sandbox = Sandbox::new(SMALL);
    let newreno = logs(&sandbox, "newreno", "newreno", &[]);
    let older = logs(&sandbox, "older", "newreno", &["--qlog-format", "qvis"]);
    let cubic = logs(&sandbox, "cubic", "cubic", &[]);

    let same = success(["compare-logs", &newreno, &older, "--strict"]);
    assert!(same.contains("no departure beyond 10 % in"), "{same}");
    assert!(same.contains("sequential") && same.contains("0.3"), "{same}");

    let chart = sandbox.path("charts/both.svg");
    let plot = chart.display().to_string();
    let said = success(["compare-logs", &newreno, &cubic, "--plot", &plot, "--tolerance", "0.2"]);
    assert!(said.contains("first departure: "), "{said}");
    assert!(said.contains("before in A:") && said.contains("before in B:"), "{said}");
    let svg = fs::read_to_string(chart).unwrap();
    for text in ["Congestion window", "Bytes in flight", "Smoothed RTT", "Rate", "departs at"] {
        assert!(svg.contains(text), "no {text} in the chart");
    }
    assert!(!svg.contains("NaN"));

    // JSON has a name that is not UTF-8 as it is shown.
    #[cfg(unix)]
    let name: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9.sqlog");
    #[cfg(not(unix))]
    let name = OsStr::new("caf\u{fffd}.sqlog");
    let named = sandbox.path("x").with_file_name(name);
    fs::copy(&newreno, &named).unwrap();
    let args: [&OsStr; 4] =
        ["compare-logs".as_ref(), named.as_ref(), cubic.as_ref(), "--json".as_ref()];
    let json = json(args);
    assert!(json["logs"][0]["path"].as_str().unwrap().ends_with("caf\u{fffd}.sqlog"));
    let first = &json["departures"][0];
    assert!(first["time_ms"].as_f64() > Some(0.0) && first["difference"].as_f64() > Some(0.1));
    assert_eq!(json["logs"][1]["info"]["layout"], "JSON-SEQ");
    assert!(json["samples"].as_array().unwrap().len() > 400);

    let out = windward(["compare-logs", &newreno, &cubic, "--strict"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(stderr(&out).contains("error: the logs depart: "), "{}", stderr(&out));
}

/// Logs that the command must refuse with this word.
#[track_caller]
fn refused(args: &[&str], expected: &str) {
    crate::bad_input::refused(&[&["compare-logs"], args].concat(), &[expected]);
}

#[test]
fn what_is_wrong_with_a_log_is_said() {
    let sandbox = Sandbox::new(SMALL);
    let log = logs(&sandbox, "logs", "newreno", &[]);
    let scenario = sandbox.scenario().display().to_string();
    refused(&[&log, &scenario], "scenario.toml: is not a qlog file: it begins with");
    refused(&[&log, "missing.sqlog"], "missing.sqlog: cannot read");
    refused(&[&log, &log, "--trace", "2"], "has 1 trace, counted from 1, but not number 2");
    refused(&[&log, &log, "--trace", "1,1,1"], "at most two values");
    refused(&[&log, &log, "--tolerance", "-1"], "a share from 0 to 1");
    refused(&[&log, &log, "--tolerance", "NaN"], "a share from 0 to 1");
    refused(&[&log, &log, "--rate-window", "0s"], "must be greater than zero");

    // A truncated log is compared up to its end.
    let text = fs::read(&log).unwrap();
    let cut = sandbox.path("cut.sqlog");
    fs::write(&cut, &text[..text.len() / 2 - 3]).unwrap();
    let out = windward(["compare-logs", &log, cut.to_str().unwrap()]);
    assert!(out.status.success(), "{}", stderr(&out));
    assert!(stderr(&out).contains("cut.sqlog is truncated at byte"), "{}", stderr(&out));
    let said = String::from_utf8(out.stdout).unwrap();
    assert!(said.contains("no departure") && said.contains("note: B ends at"), "{said}");
}

#[cfg(feature = "stacks")]
#[test]
fn the_log_of_a_stack_is_compared_with_that_of_a_row() {
    let sandbox = Sandbox::new(SMALL);
    let stack = logs(&sandbox, "stack", "quinn:cubic", &[]);
    let row = logs(&sandbox, "row", "cubic", &[]);
    let json = json(["compare-logs", &stack, &row, "--json"]);
    // Both have all four quantities somewhere.
    for quantity in ["cwnd", "bytes_in_flight", "smoothed_rtt", "rate"] {
        let both = |sample: &serde_json::Value| {
            [0, 1].iter().all(|side| sample[quantity][side].as_f64() > Some(0.0))
        };
        assert!(json["samples"].as_array().unwrap().iter().any(both), "no {quantity}: {json}");
    }
}

/// A single flow over a link whose rate, base RTT and queue a fit finds again.
const ALONE: &str = r#"
duration = "8s"
seed = 5
[dumbbell]
bottleneck = { rate = "4Mbit", delay = "15ms", queue = "30p" }
access = { rate = "100Mbit", delay = "5ms", queue = "100p" }
[[flows]]
group = "clean"
protocol = "newreno"
"#;

#[test]
fn a_link_is_fitted_to_a_log_and_the_log_compared_with_a_run_over_it() {
    let sandbox = Sandbox::new(ALONE);
    let log = logs(&sandbox, "newreno", "newreno", &[]);
    let (chart, scenario) = (sandbox.path("both.svg"), sandbox.path("fitted.toml"));
    let said = success([
        "compare-logs",
        &log,
        "--fit",
        "newreno",
        "--plot",
        chart.to_str().unwrap(),
        "--scenario",
        scenario.to_str().unwrap(),
    ]);
    for part in ["newreno fits A best", "rate", "base RTT", "queue", "random loss", "residual 0.0"]
    {
        assert!(said.contains(part), "no {part}: {said}");
    }
    assert!(said.contains("B: newreno on the fitted link"), "{said}");
    assert!(said.contains("departure"), "{said}");
    assert!(fs::read_to_string(chart).unwrap().contains("newreno on the fitted link"));
    success(["run", scenario.to_str().unwrap(), "--quiet"]);

    let json = json(["compare-logs", &log, "--fit", "newreno", "--json"]);
    let link = |key: &str| json["fit"]["link"][key].as_f64().unwrap();
    assert!((link("rate_bps") / 4e6 - 1.0).abs() < 0.05, "{}", json["fit"]);
    assert!((link("queue_packets") / 30.0 - 1.0).abs() < 0.2, "{}", json["fit"]);
    assert_eq!(json["fit"]["ranges"].as_array().unwrap().len(), 4);
    assert_eq!(json["logs"].as_array().unwrap().len(), 2);
    assert_eq!(json["fit"]["scenario"], fs::read_to_string(scenario).unwrap());

    refused(&[&log, "--fit", "newrneo"], "(did you mean `newreno`?)");
    refused(&[&log, &log, "--fit", "newreno"], "cannot be used with");
    refused(&[&log, &log, "--seed", "2"], "cannot be used with");
    let folder = sandbox.path("newreno").display().to_string();
    refused(&[&log, "--fit", "newreno", "--scenario", &folder], "--scenario");
    let receiver = log.replace("sender", "receiver");
    refused(&[&receiver, "--fit", "newreno"], "is the log of a receiver");
}

#[cfg(feature = "stacks")]
#[test]
fn the_log_of_a_stack_is_nearer_to_its_own_row() {
    let sandbox = Sandbox::new(ALONE);
    let log = logs(&sandbox, "stack", "quinn:cubic", &[]);
    let fit = |row: &str| {
        json(["compare-logs", &log, "--fit", row, "--runs", "800", "--json"])["fit"].clone()
    };
    let [cubic, newreno] = ["cubic", "newreno"].map(fit);
    let rate = cubic["link"]["rate_bps"].as_f64().unwrap();
    assert!((rate / 4e6 - 1.0).abs() < 0.05, "{cubic}");
    // quinn acknowledges every second packet.
    assert!(cubic["log"]["packets_per_ack"].as_f64() > Some(1.5), "{cubic}");
    let [right, wrong] = [cubic, newreno].map(|fit| fit["residual"]["total"].as_f64().unwrap());
    assert!(right < 0.7 * wrong, "{right} {wrong}");
}
