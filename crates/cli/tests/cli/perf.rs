//! `windward perf`: both ends as processes on loopback.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::{Killed, Sandbox, command, json, names_in, stderr, success, value, windward};

/// A server that ends when this is dropped.
pub(crate) struct Server {
    pub(crate) child: Killed,
    port: String,
}

impl Server {
    pub(crate) fn start(more: &[&str]) -> Self {
        Server::start_at("127.0.0.1", more)
    }

    fn start_at(address: &str, more: &[&str]) -> Self {
        let args = ["perf", "server", "--bind", address, "--port", "0"];
        let mut child =
            command(args.iter().chain(more)).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let stderr = child.stderr.as_mut().expect("it is piped");
        // A byte at a time, so that later lines are left to read.
        BufReader::with_capacity(1, stderr).read_line(&mut said).expect("it says where it listens");
        let (address, _) = said.split_once(',').expect("an address");
        let port = address.rsplit(':').next().expect("a port").to_owned();
        Server { child: Killed(child), port }
    }
}

impl Server {
    /// Arguments of a client of this server.
    pub(crate) fn client<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["perf", "client", "127.0.0.1", "--port", &self.port], more].concat()
    }
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, name: &str) {
    let kill = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(kill.expect("kill runs").success());
}

fn json_of(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn a_transfer_is_measured_both_ways() {
    let server = Server::start(&[]);
    for (protocol, way) in
        [("newreno", "--interval"), ("{ base = \"cubic\", recovery = \"rack\" }", "-R")]
    {
        let mut args =
            vec!["perf", "client", "127.0.0.1", "--port", &server.port, "--protocol", protocol];
        args.extend(["--bytes", "1MB", "--parallel", "2", "--json", way]);
        if way == "--interval" {
            args.push("20ms");
        }
        let json = json(&args);
        let flows = json["flows"].as_array().expect("flows");
        assert_eq!(flows.len(), 2);
        for flow in flows {
            // The packets of scenarios have 1000 bytes.
            assert_eq!(flow["packets_delivered"], 1000, "{json}");
            assert!(flow["goodput_bps"].as_f64() > Some(0.0), "{json}");
        }
    }
}

#[test]
fn a_protocol_that_may_miss_its_router_is_warned_of() {
    let server = Server::start(&[]);
    let consequence = "it answers no congestion at all";
    for (protocol, is_warned) in [("lr-xcp", true), ("lr-lmxtcp", true), ("cubic", false)] {
        let output = windward(server.client(&["--protocol", protocol, "-n", "20p"]));
        let errors = stderr(&output);
        assert!(output.status.success(), "{errors}");
        assert_eq!(errors.contains(consequence), is_warned, "{errors}");
        let explained = success(["explain", protocol]);
        assert_eq!(explained.contains(consequence), is_warned, "{explained}");
    }
    // Without its congestion controller it is TCP, which does respond.
    assert!(success(["explain", "estcp"]).contains("it is TCP with alpha = 1, beta = 1/2"));
    assert!(success(["explain", "xcp-dumb"]).contains("losses alone tell it of congestion"));
}

#[test]
fn everything_measured_can_be_written() {
    let server = Server::start(&[]);
    let sandbox = Sandbox::new("");
    let path = |name: &str| sandbox.path(name).to_str().expect("a name").to_owned();
    let (out, trace, qlog) = (path("out"), path("trace"), path("qlog"));
    let mut args = server.client(&["--protocol", "bbr", "--bidir", "--json", "-n", "30000p"]);
    args.extend(["--interval", "10ms", "--out", &out, "--trace", &trace, "--qlog", &qlog]);
    args.extend(["--trace-interval", "10ms", "--set", "packet_size=600", "--quiet"]);
    let json = json(&args);
    let names: Vec<&str> = json["flows"]
        .as_array()
        .expect("flows")
        .iter()
        .map(|flow| flow["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names, ["up-1", "down-1"]);
    assert_eq!(json["packet_bytes"], 600);
    let mut keys = std::collections::BTreeSet::new();
    crate::outputs::keys(&json, &mut keys);
    crate::outputs::names_end_in_units(&keys);
    // IPv4 20, UDP 8.
    assert_eq!(json["datagram_bytes"], 572);
    for (number, flow) in json["flows"].as_array().expect("flows").iter().enumerate() {
        assert_eq!(flow["packets_delivered"], 30_000, "{json}");
        assert_eq!(json["groups"][number]["goodput_bps"], flow["goodput_bps"]);
        assert!(flow["mean_cwnd_packets"].as_f64() > Some(1.0), "{json}");
    }
    // The server reports on the flows that it sends, with a delay.
    let intervals = json["intervals"].as_array().expect("intervals");
    let told = intervals.iter().filter_map(|part| part["flows"][1]["cwnd_packets"].as_f64());
    assert!(told.fold(0.0, f64::max) > 1.0, "{json}");
    let read = |path: &str| std::fs::read_to_string(path).expect(path);
    assert_eq!(value(&read(&format!("{out}/run.json"))), json);
    assert_eq!(read(&format!("{out}/run-flows.csv")).lines().count(), 3);
    assert_eq!(read(&format!("{out}/run-groups.csv")).lines().count(), 3);
    let lines = read(&format!("{out}/run-intervals.csv")).lines().count();
    assert_eq!(lines, 1 + 2 * intervals.len());
    let flows = read(&format!("{trace}/flows.csv"));
    assert!(flows.starts_with("time_s,flow,cwnd_packets,"), "{flows}");
    assert!(flows.lines().filter(|line| line.contains(",down-1,")).count() >= 1);
    assert_eq!(names_in(&qlog), ["down-1.receiver.sqlog", "up-1.sender.sqlog"]);
    let log = read(&format!("{qlog}/up-1.sender.sqlog"));
    for event in ["packet_sent", "packet_received", "recovery_metrics_updated"] {
        assert!(log.contains(event), "no {event}");
    }
    assert_eq!(log.matches("quic:packet_sent").count() as u64, json["flows"][0]["packets_sent"]);
}

#[test]
fn intervals_have_the_window_of_whoever_sends() {
    let server = Server::start(&[]);
    for way in ["--bidir", "--reverse"] {
        let output = windward(server.client(&[way, "--time", "1s", "--interval", "100ms"]));
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stderr(&output);
        let down = text.lines().filter(|line| line.starts_with("down "));
        let window = |line: &str| -> Option<f64> {
            line.split("cwnd").nth(1)?.split_whitespace().next()?.parse().ok()
        };
        assert!(down.filter_map(window).any(|cwnd| cwnd > 1.0), "{text}");
    }
}

#[test]
fn either_side_may_be_stopped_for_five_seconds() {
    let server = Server::start(&[]);
    let start = |more: &[&str]| {
        let args = server.client(&[&["--time", "11s", "--json"], more].concat());
        command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts")
    };
    let (stopped, other) = (start(&[]), start(&["--reverse"]));
    sleep(Duration::from_secs(1));
    signal(&stopped, "-STOP");
    sleep(Duration::from_secs(1));
    signal(&server.child, "-STOP");
    sleep(Duration::from_secs(5));
    signal(&server.child, "-CONT");
    signal(&stopped, "-CONT");
    for child in [stopped, other] {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        let json = json_of(&output);
        // It continued to the end, on the same connection.
        assert!(json["duration_s"].as_f64() >= Some(11.0), "{json}");
        let intervals = json["intervals"].as_array().expect("intervals");
        let after = intervals.iter().filter(|part| part["end_s"].as_f64() > Some(7.5));
        let delivered = after.filter_map(|part| part["goodput_bps"].as_f64()).sum::<f64>();
        assert!(delivered > 0.0, "{json}");
    }
}

#[test]
fn control_c_ends_both_in_order() {
    let mut server = Server::start(&[]);
    let sandbox = Sandbox::new("");
    let out = sandbox.path("out").to_str().expect("a name").to_owned();
    let args = server.client(&["--time", "1000s", "--json", "--out", &out]);
    let client =
        command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    sleep(Duration::from_secs(1));
    signal(&client, "-INT");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    // The results up to the interruption are complete.
    let json = json_of(&output);
    assert_eq!(json["interrupted"], true, "{json}");
    assert!(json["flows"][0]["goodput_bps"].as_f64() > Some(0.0), "{json}");
    assert!(sandbox.path("out/run.json").exists());
    signal(&server.child, "-INT");
    assert_eq!(server.child.wait().expect("it ends").code(), Some(0));
}

#[test]
fn control_c_before_anything_was_measured_leaves_nothing() {
    // It listens, and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port().to_string();
    let sandbox = Sandbox::new("");
    let out = sandbox.path("out").to_str().expect("a name").to_owned();
    let args = ["perf", "client", "127.0.0.1", "--port", &port, "--json", "--out", &out];
    let client = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let client = client.expect("it starts");
    // Its request has arrived: it waits for the answer.
    silent.recv_from(&mut [0; 2000]).expect("a hello");
    signal(&client, "-INT");
    let output = client.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn ipv6_is_measured_as_well() {
    if UdpSocket::bind("[::1]:0").is_err() {
        return; // This host has no IPv6.
    }
    let server = Server::start_at("::1", &[]);
    let args = ["perf", "client", "::1", "--port", &server.port, "--json", "-n", "1000p"];
    let json = json(args);
    assert_eq!(json["flows"][0]["packets_delivered"], 1000);
    // Packets of 1000 bytes; IPv6 40, UDP 8.
    assert_eq!(json["datagram_bytes"], 952);
}

#[test]
fn what_is_wrong_is_said() {
    let sandbox = Sandbox::new("");
    let key = sandbox.path("key");
    std::fs::write(&key, [7; 32]).expect("a file");
    let other = sandbox.path("other");
    std::fs::write(&other, [8; 32]).expect("a file");
    let (key, other) = (key.to_str().expect("a name"), other.to_str().expect("a name"));
    let refused = |args: &[&str], status: i32, words: &[&str]| {
        let output = windward(["perf"].iter().chain(args));
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        for word in words {
            assert!(stderr(&output).contains(word), "no {word} in {}", stderr(&output));
        }
    };
    for file in [key, other] {
        set_mode(file, 0o600);
    }
    let server = Server::start(&["--psk", key]);
    let port = &server.port;
    refused(&["client", "127.0.0.1", "--port", port], 1, &["refused", "--psk"]);
    refused(&["client", "127.0.0.1", "--port", port, "--psk", other], 1, &["another key"]);
    refused(&["server", "--bind", "127.0.0.1", "--port", port], 1, &[port, "--port"]);
    let closed = UdpSocket::bind("127.0.0.1:0").and_then(|s| s.local_addr()).expect("a port");
    let closed = closed.port().to_string();
    refused(&["client", "127.0.0.1", "--port", &closed], 1, &["nothing listens", &closed]);
}

fn set_mode(path: &str, mode: u32) {
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(path, permissions).expect("a file");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    let sandbox = Sandbox::new("");
    let key = sandbox.path("key");
    std::fs::write(&key, [7; 32]).expect("a file");
    let key = key.to_str().expect("a name");
    for mode in [0o640, 0o604, 0o620, 0o644, 0o777] {
        set_mode(key, mode);
        for end in [["server", "--port", "0"].as_slice(), &["client", "127.0.0.1"]] {
            let output = windward(["perf"].iter().chain(end).chain(&["--psk", key]));
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            for word in ["--psk", key, &format!("{mode:04o}"), "chmod 600"] {
                assert!(stderr(&output).contains(word), "no {word} in {}", stderr(&output));
            }
        }
    }
    set_mode(key, 0o400);
    Server::start(&["--psk", key]);
}

#[test]
fn a_server_keeps_to_the_limits_of_its_operator() {
    let server = Server::start(&["--max-initial-window", "4", "--max-rate", "8Mbit"]);
    let output = windward(server.client(&["-R", "--set", "initial_window=5"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--max-initial-window"), "{}", stderr(&output));
    // 500 packets of 1000 bytes by 1 MB/s, except two or those of 10 ms, which leave at once: at
    // least 0.49 s.
    let json = json(server.client(&["-R", "-n", "500p", "--json"]));
    assert!(json["flows"][0]["completed_s"].as_f64() > Some(0.45), "{json}");
}
