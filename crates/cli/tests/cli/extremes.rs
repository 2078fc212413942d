//! Extreme values of every scale: the runs are short and their results valid.

use std::time::Duration;

use serde_json::Value;

use crate::{SMALL, Sandbox, command, stderr};

/// Runs the small scenario with changes; it may not take longer than ten seconds.
fn run(changes: &[&str]) -> Value {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let mut args = vec!["run", &scenario, "--json"];
    for change in changes {
        args.extend(["--set", change]);
    }
    let child = command(&args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let (done, is_done) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if is_done.recv_timeout(Duration::from_secs(10)).is_err() {
            let _ = std::process::Command::new("kill").args(["-KILL", &pid]).status();
        }
    });
    let output = child.wait_with_output().unwrap();
    let _ = done.send(());
    watchdog.join().unwrap();
    assert!(output.status.success(), "{changes:?}: {}\n{}", output.status, stderr(&output));
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    for flow in outcome["flows"].as_array().unwrap() {
        for key in ["goodput_bps", "throughput_bps", "mean_rtt_s", "mean_cwnd_packets"] {
            let value = flow[key].as_f64().unwrap_or(f64::NAN);
            assert!(value.is_finite() && value >= 0.0, "{changes:?}: {key} of {flow}");
        }
    }
    for link in outcome["links"].as_array().unwrap() {
        let utilization = link["utilization"].as_f64().unwrap();
        assert!((0.0..=1.0 + 1e-9).contains(&utilization), "{changes:?}: {link}");
    }
    let jain = outcome["jain"].as_f64().unwrap();
    assert!((0.0..=1.0 + 1e-9).contains(&jain), "{changes:?}: {jain}");
    outcome
}

/// The sum of a field over all flows.
fn sum(outcome: &Value, key: &str) -> f64 {
    let flows = outcome["flows"].as_array().unwrap();
    flows.iter().map(|flow| flow[key].as_f64().unwrap()).sum()
}

#[test]
fn a_round_trip_of_a_microsecond() {
    let outcome = run(&["dumbbell.bottleneck.delay=100ns", "dumbbell.access.delay=200ns"]);
    assert!(sum(&outcome, "goodput_bps") > 3e6);
}

#[test]
fn a_round_trip_of_an_hour() {
    let changes = ["dumbbell.bottleneck.delay=30min", "duration=5h", "warmup=0s"];
    let outcome = run(&changes);
    assert!(sum(&outcome, "packets_sent") > 0.0);
}

#[test]
fn every_packet_lost() {
    let outcome = run(&["flows.lossy.last_hop.loss=1"]);
    let flows = outcome["flows"].as_array().unwrap();
    let lossy = flows.iter().find(|flow| flow["group"] == "lossy").unwrap();
    assert_eq!(lossy["goodput_bps"], 0.0);
    assert_eq!(lossy["mean_rtt_s"], 0.0);
}

#[test]
fn one_bit_a_second() {
    // A packet of 8000 bits takes 8000 s: none arrives in a day but ten.
    let changes = ["dumbbell.bottleneck.rate=1bit", "duration=24h", "warmup=0s"];
    let outcome = run(&changes);
    // Never more than the rate itself.
    assert!(sum(&outcome, "goodput_bps") <= 1.0);
}

#[test]
fn a_terabit_a_second() {
    let changes = [
        "dumbbell.bottleneck.rate=1Tbit",
        "dumbbell.access.rate=1Tbit",
        "duration=200ms",
        "warmup=0s",
    ];
    let outcome = run(&changes);
    let goodput = sum(&outcome, "goodput_bps");
    assert!(goodput > 0.0 && goodput <= 1e12, "{goodput}");
}
