//! `windward run`.

use std::io::Write;
#[cfg(unix)]
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::{SMALL, Sandbox, command, json, names_in, stderr, success, windward};

fn run_json(sandbox: &Sandbox, more: &[&str]) -> Value {
    let scenario = sandbox.scenario();
    let mut args = vec!["run", scenario.to_str().unwrap(), "--json"];
    args.extend(more);
    json(args)
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

/// Runs the binary with a text on standard input.
fn fed<'a>(args: impl IntoIterator<Item = &'a str>, input: &str) -> std::process::Output {
    let mut child = command(args);
    child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may have failed before it read everything.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().unwrap()
}

#[test]
fn a_scenario_may_come_from_standard_input() {
    let sandbox = Sandbox::new(SMALL);
    let from_file = run_json(&sandbox, &["--seed", "3"]);
    let output = fed(["run", "-", "--json", "--seed", "3"], SMALL);
    assert!(output.status.success(), "{}", stderr(&output));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["fingerprint"], from_file["fingerprint"]);

    let experiment = crate::sweep::small_experiment();
    let out = sandbox.path("out");
    let output = fed(["sweep", "-", "--out", out.to_str().unwrap()], &experiment);
    assert!(output.status.success(), "{}", stderr(&output));
    let manifest = std::fs::read_to_string(out.join("manifest.json")).unwrap();
    assert!(manifest.contains("\"windward sweep - --quick\""), "{manifest}");

    for (input, said) in [
        (SMALL.replace("count = 1", "cuont = 1"), "error: standard input:12: "),
        (String::new(), "error: standard input: is empty"),
        (
            "x".repeat((4 << 20) + 1),
            "error: standard input: cannot be read: it is larger than 4 MiB",
        ),
    ] {
        let output = fed(["run", "-"], &input);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).starts_with(said), "{}", stderr(&output));
    }
}

#[test]
fn what_was_measured_is_written_where_it_is_wanted() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let dir = sandbox.path("a/out");
    let (out, plot) = (dir.display().to_string(), sandbox.path("run.svg").display().to_string());
    // Into one folder with a trace: no file replaces another.
    let args = ["run", &scenario, "--json", "--out", &out, "--trace", &out, "--plot", &plot];
    let printed = json(args);
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let expected =
        ["flows.csv", "links.csv", "run-flows.csv", "run-groups.csv", "run-links.csv", "run.json"];
    assert_eq!(names_in(&dir), expected);
    // Equal except for the CPU time, so that the same run writes the same bytes.
    let mut without = printed.clone();
    without.as_object_mut().unwrap().remove("cpu_s");
    assert_eq!(serde_json::from_str::<Value>(&read("run.json")).unwrap(), without);
    for (name, rows) in [("run-flows", "flows"), ("run-groups", "groups"), ("run-links", "links")] {
        let text = read(&format!("{name}.csv"));
        let mut lines = text.lines();
        let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
        let rows = without[rows].as_array().unwrap();
        assert_eq!(lines.clone().count(), rows.len());
        for (line, row) in lines.zip(rows) {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), columns.len());
            for (column, cell) in columns.iter().zip(cells) {
                let value = column.split('.').fold(row, |value, key| &value[key]);
                match value {
                    Value::Null => assert_eq!(cell, "", "{column}"),
                    Value::String(text) => assert_eq!(cell, text, "{column}"),
                    // The reader of JSON may be off by one in the last place.
                    number => {
                        let (cell, number) =
                            (cell.parse::<f64>().unwrap(), number.as_f64().unwrap());
                        assert!((cell - number).abs() <= number.abs() * 1e-15, "{column}");
                    }
                }
            }
            // Complete: links have a table of phases in one of their fields.
            for key in row.as_object().unwrap().keys() {
                assert!(columns.iter().any(|c| c == key), "{key}");
            }
        }
    }
    let svg = std::fs::read_to_string(&plot).unwrap();
    for text in [">clean<", ">lossy<", ">bottleneck<", ">Queue (packets)<"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
    // The chart does not change the run.
    assert_eq!(run_json(&sandbox, &[])["fingerprint"], printed["fingerprint"]);
}

#[test]
fn places_that_cannot_be_written_are_refused_before_the_run() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let below = sandbox.path("scenario.toml/x").display().to_string();
    let folder = sandbox.path("folder.svg");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    for (option, value, status, said) in [
        ("--out", &below, 2, "cannot make the folder"),
        ("--plot", &format!("{below}/run.svg"), 2, "cannot make the folder"),
        ("--plot", &folder, 2, "is a directory"),
        ("--plot", &"run.png".to_owned(), 2, "must be an SVG file"),
    ] {
        let output = windward(["run", &scenario, "--duration", "250h", option, value]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
    }
}

#[test]
fn what_crosses_links_is_captured() {
    let sandbox = Sandbox::new(SMALL);
    let file = sandbox.path("run.pcapng");
    let plain = run_json(&sandbox, &[]);
    let logs = sandbox.path("logs");
    let more = ["--pcap", file.to_str().unwrap(), "--qlog", logs.to_str().unwrap()];
    let captured = run_json(&sandbox, &more);
    assert_eq!(captured["fingerprint"], plain["fingerprint"], "who looks changes nothing");
    let bytes = std::fs::read(&file).unwrap();
    // Section header block (draft-ietf-opsawg-pcapng section 4.1).
    assert_eq!(bytes[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    let name = b"bottleneck";
    assert!(bytes.windows(name.len()).any(|window| window == name));
    // At least 60 bytes for each packet that left.
    let link = |link: &&Value| link["name"] == "bottleneck";
    let left =
        captured["links"].as_array().unwrap().iter().find(link).unwrap()["delivered"].as_u64();
    assert!(bytes.len() as u64 > 60 * left.unwrap());
    assert!(logs.is_dir());

    let scenario = sandbox.scenario().display().to_string();
    let refused = |more: &[&str], says: &str| {
        crate::bad_input::refused(&[&["run", &scenario], more].concat(), &[says]);
    };
    let folder = sandbox.path("logs").display().to_string();
    refused(&["--pcap", &folder], "is a directory");
    refused(&["--pcap", "x", "--pcap-links", "botleneck"], "did you mean bottleneck?");
    refused(&["--pcap-links", "bottleneck"], "--pcap");
}

#[test]
fn threads_change_nothing_and_say_why_they_are_not_used() {
    let sandbox = Sandbox::new(SMALL);
    let alone = run_json(&sandbox, &[]);
    for more in [&["--threads", "2"][..], &["--threads", "2", "--cut", "bottleneck"]] {
        let mut outcome = run_json(&sandbox, more);
        for key in ["cpu_s", "events"] {
            outcome[key] = alone[key].clone();
        }
        assert_eq!(outcome, alone, "{more:?}");
    }
    let scenario = sandbox.scenario();
    let run = |more: &[&str]| {
        let output = command(["run"]).arg(&scenario).args(more).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output))
    };
    let (status, text, notes) = run(&["--threads", "2"]);
    assert_eq!((status, notes.as_str()), (Some(0), ""));
    assert!(text.starts_with("2 s simulated on 2 threads"), "{text}");
    let plot = sandbox.path("run.svg");
    let (status, text, notes) = run(&["--threads", "2", "--plot", plot.to_str().unwrap()]);
    assert!(status == Some(0) && text.starts_with("2 s simulated, "), "{text}");
    assert!(notes.contains("on one thread: --plot looks at the whole run"), "{notes}");
    let (status, _, error) = run(&["--threads", "2", "--cut", "nowhere->there"]);
    assert_eq!(status, Some(2));
    assert!(error.contains("--cut: no link is named nowhere->there"), "{error}");
    for wrong in [&["--threads", "0"][..], &["--threads", "65"], &["--cut", "bottleneck"]] {
        assert_eq!(run(wrong).0, Some(2), "{wrong:?}");
    }
}
