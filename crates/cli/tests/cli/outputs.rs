//! docs/outputs.md names every column and field that is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Sandbox, repository, success};

/// A scenario with all kinds of output: phases of a traffic controller, a transfer that completes,
/// series of flows, samples of all kinds, links that are used.
const EVERYTHING: &str = r#"
duration = "20s"
warmup = "2s"
sample = "1s"
flow_bins = true

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "5ms", queue = "50p", router = { kind = "estcp", target = "1s" } }
access = { rate = "100Mbit", delay = "1ms", queue = "500p" }

[[flows]]
group = "bulk"
count = 2
protocol = "estcp"

[[flows]]
group = "short"
protocol = "estcp"
size = "100p"

[experiment]
id = "all"
title = "Everything"
quick = { repetitions = 1 }

[[experiment.axes]]
name = "queue"
key = "dumbbell.bottleneck.queue"
values = ["50p", "60p"]

[experiment.metrics]
rate = "goodput(bulk)"

[[experiment.plots]]
kind = "time"
groups = ["bulk", "short"]
flows = true

[[experiment.plots]]
kind = "cwnd"
groups = ["bulk", "short"]

[[experiment.plots]]
kind = "queue"
links = "bottleneck"

[[experiment.plots]]
kind = "signal"
links = "bottleneck"
"#;

fn header(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().next().unwrap().split(',').map(str::to_owned).collect()
}

/// Every option that takes one output file, by command; those of folders (`DIR`) are not here. A
/// new one belongs in this list and in the tests below.
const FILES: &[(&str, &[&str])] = &[
    ("run", &["--plot", "--pcap"]),
    ("replay", &["--pcap"]),
    ("shell", &["--plot", "--record", "--pcap"]),
    ("emulate", &["--plot", "--record", "--pcap"]),
    ("compare-logs", &["--plot", "--scenario"]),
    ("evaluate", &["--junit"]),
    ("play", &["--save"]),
];
/// Options that read a file.
const INPUTS: &[&str] = &[
    "--psk",
    "--table",
    "--config",
    "--trace",
    "--exclude-from",
    "--certificate",
    "--key",
    "--authorized",
    "--ticket-file",
];

#[test]
fn every_option_that_writes_a_file_is_known_here() {
    let listing = success(["--help"]);
    let commands = listing.lines().skip_while(|line| *line != "Commands:").skip(1);
    // Continued descriptions are indented further.
    let commands = commands.map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = commands.filter(|name| !name.is_empty()).collect();
    assert!(commands.contains(&"shell") || cfg!(not(target_os = "linux")), "{commands:?}");
    for command in commands.into_iter().filter(|name| !["help", "exec"].contains(name)) {
        let help = success([command, "--help"]);
        let takes_a_file = |line: &&str| line.contains("<FILE");
        let options = help.lines().filter(takes_a_file).filter_map(|line| {
            line.split_whitespace().find(|word| word.starts_with("--")).map(str::to_owned)
        });
        let found: BTreeSet<String> =
            options.filter(|option| !INPUTS.contains(&&**option)).collect();
        let known = FILES.iter().find(|(name, _)| *name == command).map_or(&[][..], |row| row.1);
        assert_eq!(found, known.iter().map(|&name| name.to_owned()).collect(), "{command}");
    }
}

/// `windward run` with one output file; its output and exit status.
#[cfg(target_os = "linux")]
fn run_with(sandbox: &Sandbox, option: &str, file: &str) -> std::process::Output {
    let scenario = sandbox.scenario();
    crate::windward(["-q", "run", scenario.to_str().unwrap(), option, file])
}

#[cfg(target_os = "linux")]
#[test]
fn one_output_file_may_be_a_device_or_standard_output() {
    use std::os::unix::fs::{FileTypeExt as _, symlink};
    for (option, begins) in [("--plot", &b"<svg"[..]), ("--pcap", &[0x0a, 0x0d, 0x0d, 0x0a][..])] {
        let sandbox = Sandbox::new(crate::SMALL);
        let path = |name: &str| sandbox.path(name).to_str().unwrap().to_owned();
        let exists = |name: &str| sandbox.names().contains(&name.to_owned());
        assert!(run_with(&sandbox, option, &path("plain.svg")).status.success());
        let whole = fs::read(sandbox.path("plain.svg")).unwrap();
        assert!(whole.starts_with(begins), "{option}");

        // A full device is an error, and remains a device.
        symlink("/dev/full", sandbox.path("full.svg")).unwrap();
        let output = run_with(&sandbox, option, &path("full.svg"));
        assert_eq!(output.status.code(), Some(1), "{}", crate::stderr(&output));
        assert!(crate::stderr(&output).contains("full.svg"), "{}", crate::stderr(&output));
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());

        // Standard output has the file alone, and the tables go to standard error.
        for name in ["-", "/dev/stdout"] {
            let output = run_with(&sandbox, option, name);
            assert!(output.status.success(), "{}", crate::stderr(&output));
            assert_eq!(output.stdout, whole, "{option} {name}");
            assert!(crate::stderr(&output).contains("lossy"), "{}", crate::stderr(&output));
        }
        assert!(!exists("-") && !repository().join("-").exists());
    }
}

#[test]
fn standard_output_is_for_one_output() {
    let sandbox = Sandbox::new(crate::SMALL);
    let scenario = sandbox.scenario();
    let scenario = scenario.to_str().unwrap();
    for others in [&["--plot", "-", "--json"][..], &["--plot", "-", "--pcap", "-"]] {
        let output = crate::windward([&["run", scenario], others].concat());
        assert_eq!(output.status.code(), Some(2));
        let error = crate::stderr(&output);
        assert!(error.contains("already writes to standard output"), "{error}");
        assert!(output.stdout.is_empty());
    }
    for option in ["--out", "--trace", "--qlog"] {
        let output = crate::windward(["run", scenario, option, "-"]);
        assert!(!output.status.success());
        assert!(
            crate::stderr(&output).contains("standard output, not a folder"),
            "{}",
            crate::stderr(&output)
        );
    }
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

/// Endings of the names of quantities with a unit.
const UNITS: &[&str] = &["s", "bps", "bytes", "packets", "share"];

/// Names of fields without a unit: texts, lists, counts, shares, indices. The name of a quantity
/// with a unit ends in the unit and does not belong here.
#[rustfmt::skip]
const WITHOUT_UNIT: &[&str] = &[
    "arrived", "at_most", "authenticated", "cells", "circuit_breaker_trips", "command",
    "configuration_hash", "corrupted", "count", "datagrams_invalid", "datagrams_lost",
    "datagrams_replayed", "delivered", "dropped", "duplicates", "duration", "events", "failure",
    "file", "fingerprint", "flow", "flows", "frames", "g_error", "given_back", "group", "groups",
    "id", "idle_periods", "in_flight", "interrupted", "intervals", "jain", "late_frames", "link",
    "links", "loss_estimate", "marked", "missed", "name", "packet_hops",
    "packets_delivered", "packets_marked", "packets_sent", "phases", "protocol", "queue_high",
    "queue_low", "reordered", "repetition", "repetitions", "retransmissions", "runs", "seed",
    "server", "set", "signal", "throughput_cv", "timeouts", "true_loss", "until_converged",
    "utilization", "warmup", "windward",
];

/// True if the last word of the name is its unit.
fn has_unit(name: &str) -> bool {
    let name = name.rsplit('.').next().unwrap_or(name);
    UNITS.contains(&name.rsplit('_').next().unwrap_or(name))
}

/// Checks that each name ends in its unit, or is known to have none.
pub(crate) fn names_end_in_units(names: &BTreeSet<String>) {
    let last = |name: &String| name.rsplit('.').next().unwrap_or(name).to_owned();
    let without: BTreeSet<String> = names.iter().map(last).filter(|name| !has_unit(name)).collect();
    let unknown: Vec<&String> =
        without.iter().filter(|name| !WITHOUT_UNIT.contains(&&***name)).collect();
    assert!(unknown.is_empty(), "no unit at the end of {unknown:?}");
}

/// The keys of an object and of those in it.
pub(crate) fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            keys(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_column_and_field_is_documented() {
    let guide = fs::read_to_string(repository().join("docs/outputs.md")).unwrap();
    let sandbox = Sandbox::new(EVERYTHING);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("out").display().to_string();
    let printed = success(["run", &scenario, "--json", "--out", &out, "--trace", &out]);
    let mut names = BTreeSet::new();
    keys(&serde_json::from_str(&printed).unwrap(), &mut names);
    for optional in ["completed_s", "phases", "heard_g_s", "cpu_s"] {
        assert!(names.contains(optional), "no {optional}: this test no longer writes everything");
    }
    for file in ["flows.csv", "links.csv", "run-flows.csv", "run-groups.csv", "run-links.csv"] {
        // The guide has both halves of `phases.count`.
        let columns = header(&sandbox.path("out").join(file));
        names.extend(columns.iter().flat_map(|c| c.split('.')).map(str::to_owned));
    }

    let results = sandbox.path("results");
    success(["sweep", &scenario, "--out", results.to_str().unwrap(), "--set", "seed=2"]);
    let manifest = fs::read_to_string(results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    keys(&manifest["experiments"], &mut names);
    for (file, own) in [
        ("all.csv", &[("bulk.", "GROUP."), ("short.", "GROUP.")][..]),
        ("all-flows.csv", &[]),
        ("all-series.csv", &[("bulk.", "GROUP."), ("short.", "GROUP.")]),
        ("all-samples.csv", &[("bottleneck.", "LINK.")]),
    ] {
        for column in header(&results.join(file)) {
            // The names of the axis and the metric come from the file.
            if ["queue", "rate"].contains(&column.as_str()) {
                continue;
            }
            let of_flow = ["bulk-1", "bulk-2", "short-1"].iter().find(|f| column.contains(**f));
            let own = own.iter().find(|(name, _)| column.starts_with(name));
            let of_hop = column.contains("-hop") || column.starts_with("bottleneck");
            let name = match (own, of_flow) {
                (Some((name, stands_for)), _) => column.replacen(name, stands_for, 1),
                (None, Some(flow)) if !of_hop => column.replacen(flow, "FLOW", 1),
                (None, _) if of_hop => format!("LINK.{}", column.rsplit('.').next().unwrap()),
                _ => column,
            };
            names.insert(name);
        }
    }
    for name in &names {
        assert!(guide.contains(&format!("`{name}`")), "docs/outputs.md does not name `{name}`");
    }
    names_end_in_units(&names);
    // 12 of the run, 16 of a flow .. and more: the sets above are not empty.
    assert!(names.len() > 80, "{names:?}");
}

#[test]
fn the_readme_links_the_guides() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    for guide in ["scenarios", "experiments", "outputs", "install"] {
        assert!(readme.contains(&format!("](docs/{guide}.md)")), "{guide}");
    }
}

/// The files that git tracks in these places, if this is a clone.
fn tracked(places: &[&str]) -> Vec<std::path::PathBuf> {
    let mut git = std::process::Command::new("git");
    let output = git.args(["ls-files", "-z", "--"]).args(places).current_dir(repository()).output();
    let Ok(output) = output else { return Vec::new() };
    let names = String::from_utf8(output.stdout).unwrap();
    let paths =
        names.split('\0').filter(|name| !name.is_empty()).map(|name| repository().join(name));
    paths.filter(|path| path.is_file()).collect()
}

/// The number of cells of a row of a Markdown table.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count() - 1
}

/// Errors in the tables of a Markdown text: the number of the line, and the reason.
fn broken_tables(text: &str) -> Vec<(usize, &'static str)> {
    let mut wrong = Vec::new();
    let (mut is_code, mut before, mut wanted) = (false, 0, 0);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        let fence = line.starts_with("```") || line.starts_with("~~~");
        is_code ^= fence;
        if fence || is_code || !line.starts_with('|') {
            if before == 1 {
                wrong.push((number - 1, "a header without a separator below"));
            }
            before = 0;
            continue;
        }
        let is_separator = line.contains('-') && line.chars().all(|c| "|-: ".contains(c));
        match before {
            0 => wanted = cells(line),
            1 if !is_separator => wrong.push((number, "no separator below the header")),
            _ => {}
        }
        if !line.ends_with('|') {
            wrong.push((number, "no `|` at the end"));
        } else if cells(line) != wanted {
            wrong.push((number, "another number of cells than the header has"));
        }
        before += 1;
    }
    if before == 1 {
        wrong.push((text.lines().count(), "a header without a separator below"));
    }
    wrong
}

#[test]
fn broken_tables_are_found() {
    assert_eq!(broken_tables("| a | b |\n|---|:-:|\n| 1 | `x\\|y` |\n"), []);
    assert_eq!(broken_tables("```\n| a\n```\ntext\n"), []);
    for (text, line) in [
        ("| a | b |\n| 1 | 2 |\n", 2),
        ("| a | b |\n\n| 1 | 2 |\n", 1),
        ("| a | b |\n|---|---|\n| 1 | |D| |\n", 3),
        ("| a | b |\n|---|---|\n| 1 |\n", 3),
        ("| a | b |\n|---|---|\n| 1 | 2\n", 3),
        ("| a |", 1),
    ] {
        assert_eq!(broken_tables(text).first().map(|wrong| wrong.0), Some(line), "{text}");
    }
}

#[test]
fn the_tables_of_all_documents_are_whole() {
    let files = tracked(&["*.md"]);
    assert!(files.len() > 20 || !repository().join(".git").exists(), "{files:?}");
    for file in files {
        let wrong = broken_tables(&fs::read_to_string(&file).unwrap());
        assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
    }
}

/// The name is not registered in the index of Python packages: anyone could register it.
#[test]
fn no_file_tells_to_install_the_package_from_the_index() {
    let line = ["pip install", " windward"].concat();
    let files = tracked(&["crates", "python", "docs", "examples", "README.md"]);
    assert!(files.len() > 100 || !repository().join(".git").exists(), "{}", files.len());
    for file in files {
        let text = fs::read(&file).unwrap();
        let text = String::from_utf8_lossy(&text);
        // A local wheel is a file: `windward-*.whl`.
        let other =
            text.match_indices(&line).any(|(at, _)| !text[at + line.len()..].starts_with("-*.whl"));
        assert!(!other, "{} says `{line}`", file.display());
    }
}

/// Also at a terminal of the least width, a listing can be read.
#[test]
fn listings_fit_80_columns() {
    for args in
        [&["list"][..], &["list", "--stacks"], &["list", "--parts"], &["evaluate", "--list"]]
    {
        let text = success(args);
        assert!(text.lines().count() > 3 || args.contains(&"--stacks"), "{args:?}\n{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{args:?}: {line}");
        }
    }
}

/// All of it that is Rust or Python, from this folder down.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "py") {
            *into += &fs::read_to_string(&path).unwrap();
        }
    }
}

/// Each sentence of docs/security.md about a protection names its tests in parentheses.
#[test]
fn the_tests_that_the_page_on_security_names_exist() {
    let page = fs::read_to_string(repository().join("docs/security.md")).unwrap();
    let mut code = String::new();
    for entry in fs::read_dir(repository().join("crates")).unwrap().flatten() {
        for folder in ["src", "tests"].map(|name| entry.path().join(name)) {
            if folder.is_dir() {
                sources(&folder, &mut code);
            }
        }
    }
    sources(&repository().join("python/tests"), &mut code);
    // Names of functions: nothing else on the page is in this form and between parentheses.
    let is_name = |word: &&str| {
        word.contains('_')
            && word.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
    };
    let in_parentheses = page.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    let names: BTreeSet<&str> = in_parentheses
        .flat_map(|inside| inside.split('`').skip(1).step_by(2))
        .filter(is_name)
        .collect();
    assert!(names.len() > 40, "{names:?}");
    let is_there = |name: &&&str| {
        code.contains(&format!("fn {name}(")) || code.contains(&format!("def {name}("))
    };
    let missing: Vec<_> = names.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:?}");
}
