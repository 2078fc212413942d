//! `windward serve` and `windward forward`: bad input, and connections over a link that loses
//! packets.
#![cfg(all(target_os = "linux", feature = "deploy"))]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::emulate::cannot;
use crate::{command, repository, stderr, success};

/// A folder that is removed in the end.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Home(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

#[test]
fn bad_input_is_told_with_what_to_do() {
    let home = Home::new();
    let near = home.path("near");
    let keys = home.path("keys");
    std::fs::write(&keys, "# peers\nSHA256:abc 127.0.0.1:22\n").expect("written");
    let cases: &[(&[&str], &str)] = &[
        (&["serve"], "write --allow"),
        (&["serve", "--allow", "127.0.0.1:22"], "write --ticket"),
        (&["serve", "--allow", "127.0.0.1:ssh", "--ticket"], "`ssh` is not a port"),
        (&["serve", "--allow", "KEY=127.0.0.1:22"], "`KEY` is not a fingerprint"),
        (&["serve", "--allow", "a:1", "--authorized", &keys], "keys:2: "),
        (&["serve", "--allow", "a:1", "--authorized", "/nonexistent"], "cannot read"),
        (&["serve", "--listen", "4460"], "write ADDR:PORT"),
        (&["serve", "--max-connections", "0"], "expected 1 to 65535"),
        (&["forward", "192.0.2.1:4460"], "nothing to forward"),
        (&["forward", "-L", "1:a", "192.0.2.1:4460"], "[udp:][BIND:]PORT:HOST:PORT"),
        (&["forward", "-L", "1:a:1", "ticket"], "not a ticket"),
        (&["forward", "-L", "1:a:1"], "required"),
    ];
    for (args, expected) in cases {
        let output = command(*args).args(["--config", &near]).output().expect("it starts");
        let text = stderr(&output);
        assert!(text.contains(expected), "{args:?}: {text}");
        // A file that cannot be read is a failure, everything else is invalid input.
        let status = if args.contains(&"/nonexistent") { 1 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    }
}

#[test]
fn the_unit_starts_what_it_names() {
    let unit = success(["serve", "--systemd-unit"]);
    let line = unit.split("ExecStart=/usr/local/bin/windward ").nth(1).expect("a command");
    let (line, _) = line
        .replace("\\\n", " ")
        .split_once("\nExecReload")
        .map_or_else(|| panic!("{unit}"), |(line, rest)| (line.to_owned(), rest.to_owned()));
    // It stops at the file that is not here, behind all options.
    let home = Home::new();
    let words: Vec<String> = line
        .split_whitespace()
        .map(|word| word.replace("/var/lib/windward-serve", &home.path("state")))
        .map(|word| word.replace("/etc/windward/peers", &home.path("peers")))
        .collect();
    let output = command(&words).output().expect("it starts");
    assert!(stderr(&output).contains("peers: cannot read"), "{}", stderr(&output));
}

/// Five connections send 50 kB each over a link that loses a tenth of the packets both ways, and an
/// echo runs beside them.
#[test]
fn connections_arrive_whole_over_a_lossy_link() {
    let python = Command::new("python3").arg("--version").stdout(Stdio::null()).status();
    if cannot() || !python.is_ok_and(|status| status.success()) {
        return;
    }
    let script = repository().join("benches/forward.py");
    let program = Path::new(env!("CARGO_BIN_EXE_windward"));
    let output = Command::new("timeout")
        .args(["-k", "5", "90", "python3"])
        .arg(script)
        .args([
            "transfers",
            "--only",
            "windward",
            "--loss",
            "10",
            "--count",
            "5",
            "--length",
            "50000",
        ])
        .arg("--windward")
        .arg(program)
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"done\": 5"), "{text}\n{}", stderr(&output));
}
