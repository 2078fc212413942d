//! `windward run`.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::{SMALL, Sandbox, command, stderr, success, windward};

fn run_json(sandbox: &Sandbox, more: &[&str]) -> Value {
    let scenario = sandbox.scenario();
    let mut args = vec!["run", scenario.to_str().unwrap(), "--json"];
    args.extend(more);
    serde_json::from_str(&success(args)).expect("one JSON object")
}

#[test]
fn json_has_every_promised_field() {
    let outcome = run_json(&Sandbox::new(SMALL), &[]);
    assert_eq!(outcome["seed"], 7);
    assert_eq!(outcome["duration_s"], 2.0);
    assert_eq!(outcome["warmup_s"], 0.5);
    assert_eq!(outcome["windward"], env!("CARGO_PKG_VERSION"));
    for key in ["jain", "packet_hops", "events", "cpu_s"] {
        assert!(outcome[key].is_number(), "{key}");
    }
    let fingerprint = outcome["fingerprint"].as_str().unwrap();
    assert_eq!(fingerprint.len(), 16);
    assert!(fingerprint.bytes().all(|b| b.is_ascii_hexdigit()));

    let rows = |key: &str| outcome[key].as_array().unwrap().clone();
    let sums = [
        "goodput_bps",
        "throughput_bps",
        "packets_sent",
        "retransmissions",
        "timeouts",
        "mean_rtt_s",
    ];
    assert_eq!(rows("flows").len(), 2);
    for flow in rows("flows") {
        assert!(flow["name"].is_string() && flow["group"].is_string());
        assert_eq!(flow["protocol"], "newreno");
        assert!(sums.iter().all(|key| flow[key].is_number()), "{flow}");
        assert!(flow["goodput_bps"].as_f64().unwrap() > 0.0);
        for key in ["loss_estimate", "true_loss"] {
            assert!((0.0..=1.0).contains(&flow[key].as_f64().unwrap()), "{key} of {flow}");
        }
        let time = |key: &str| flow[key].as_f64().unwrap();
        assert!(time("longest_idle_s") <= time("idle_s") && time("idle_s") <= 1.5, "{flow}");
        assert_eq!(flow["idle_periods"] == 0, time("idle_s") == 0.0, "{flow}");
    }
    assert_eq!(rows("groups").len(), 2);
    for group in rows("groups") {
        assert!(group["name"].is_string());
        assert_eq!(group["flows"], 1);
        assert!(sums.iter().all(|key| group[key].is_number()), "{group}");
    }
    for link in rows("links") {
        assert!(link["name"].is_string());
        let count = |key: &str| link[key].as_u64().unwrap();
        assert_eq!(
            count("arrived"),
            count("delivered") + count("dropped") + count("corrupted") + count("in_flight"),
            "{link}"
        );
        for key in ["utilization", "mean_queue_packets"] {
            assert!(link[key].as_f64().unwrap() >= 0.0, "{key} of {link}");
        }
        assert!(link.get("phases").is_none(), "no traffic controller: {link}");
    }
}

#[test]
fn json_tells_of_the_phases_of_a_traffic_controller() {
    let target = r#"{ kind = "estcp", target = "2s" }"#;
    let router = format!("dumbbell.bottleneck.router={target}");
    let more = ["--set", "flows.*.protocol=estcp", "--set", &router, "--duration", "40s"];
    let outcome = run_json(&Sandbox::new(SMALL), &more);
    let links = outcome["links"].as_array().unwrap();
    let phases = &links.iter().find(|link| link["name"] == "bottleneck").unwrap()["phases"];
    assert!(phases["count"].as_u64().unwrap() > 0, "{phases}");
    for key in ["mean_length_s", "mean_g_s"] {
        assert!(phases[key].as_f64().unwrap() > 0.0, "{key} of {phases}");
    }
    for key in ["queue_low", "queue_high", "cut_spread_s", "missed"] {
        assert!(phases[key].is_number(), "{key} of {phases}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let sandbox = Sandbox::new(SMALL);
    let strip_cpu = |mut outcome: Value| {
        outcome.as_object_mut().unwrap().remove("cpu_s");
        outcome
    };
    let first = strip_cpu(run_json(&sandbox, &[]));
    assert_eq!(first, strip_cpu(run_json(&sandbox, &[])));
    let other = run_json(&sandbox, &["--seed", "18446744073709551615"]);
    assert_eq!(other["seed"], u64::MAX);
    assert_ne!(first["fingerprint"], other["fingerprint"]);
}

#[test]
fn the_command_line_changes_the_file() {
    let sandbox = Sandbox::new(SMALL);
    let changes = [
        "--set",
        "flows.lossy.protocol=lr-lmxtcp",
        "--set",
        "dumbbell.bottleneck.rate=2Mbit",
        "--duration",
        "3s",
    ];
    let outcome = run_json(&sandbox, &changes);
    assert_eq!(outcome["duration_s"], 3.0);
    let protocols: Vec<_> =
        outcome["flows"].as_array().unwrap().iter().map(|f| &f["protocol"]).collect();
    assert_eq!(protocols, ["newreno", "lr-lmxtcp"]);
    let throughput: f64 = outcome["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|g| g["throughput_bps"].as_f64().unwrap())
        .sum();
    assert!(throughput <= 2.001e6, "{throughput}");
}

#[test]
fn people_get_tables() {
    let sandbox = Sandbox::new(SMALL);
    let text = success([sandbox_run(&sandbox)].concat());
    for word in ["clean", "lossy", "goodput", "Mbit/s", "Jain", "fingerprint"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

fn sandbox_run(sandbox: &Sandbox) -> Vec<String> {
    vec!["run".to_owned(), sandbox.scenario().display().to_string()]
}

#[test]
fn nothing_but_the_result_is_written_into_a_pipe() {
    let output = windward(sandbox_run(&Sandbox::new(SMALL)));
    assert_eq!(stderr(&output), "");
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    for args in [vec!["list"], vec!["--help"], vec!["run", &scenario, "--json"]] {
        let mut child =
            command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Read nothing at all: even the first write finds the pipe closed.
        drop(child.stdout.take());
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{args:?}");
        assert_eq!(said, "", "{args:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command(["list"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("error: cannot write to standard output"));
}
