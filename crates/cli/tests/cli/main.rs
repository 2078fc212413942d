//! Tests of the `windward` binary: each starts it as a process.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

mod bad_input;
#[cfg(target_os = "linux")]
mod clean_link;
#[cfg(target_os = "linux")]
mod compare;
mod compare_logs;
mod emulate;
mod evaluate;
mod help;
mod hostile;
mod http;
mod interrupt;
mod outputs;
#[cfg(target_os = "linux")]
mod perf;
mod qlog;
mod readme;
mod run;
mod script;
mod services;
mod stacks;
mod sweep;
mod trace;
mod transfer;
#[cfg(target_os = "linux")]
mod web;
mod worlds;

/// The binary, without standard input and not on a terminal.
fn command<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windward"));
    command.args(args).stdin(Stdio::null()).current_dir(repository());
    command
}

/// Runs the binary to its end.
fn windward<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Output {
    command(args).output().expect("the binary starts")
}

/// Standard output of a run that must succeed.
fn success<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> String {
    let output = windward(args);
    assert!(output.status.success(), "{}\n{}", output.status, stderr(&output));
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// Standard output of a run that must succeed, one JSON value.
fn json<I: AsRef<OsStr>>(args: impl IntoIterator<Item = I>) -> Value {
    value(&success(args))
}

/// A text as JSON.
fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A process that is killed when this is dropped.
struct Killed(Child);

impl std::ops::Deref for Killed {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.0
    }
}

impl std::ops::DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The root of the repository, where the paths of the documentation begin.
fn repository() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the crate lies two folders down").to_owned()
}

/// A scenario that runs in a few milliseconds: the dumbbell of the README, two flows, two seconds.
const SMALL: &str = r#"
duration = "2s"
warmup = "500ms"
seed = 7

[dumbbell]
bottleneck = { rate = "5Mbit", delay = "5ms", queue = "50p" }
access = { rate = "5Mbit", delay = "5ms", queue = "50p" }

[[flows]]
group = "clean"
count = 1
protocol = "newreno"

[[flows]]
group = "lossy"
count = 1
protocol = "newreno"
last_hop = { loss = 0.05 }
"#;

/// A temporary folder with `scenario.toml` in it.
struct Sandbox(tempfile::TempDir);

impl Sandbox {
    fn new(scenario: &str) -> Self {
        let sandbox = Sandbox(tempfile::tempdir().expect("a temporary folder"));
        std::fs::write(sandbox.scenario(), scenario).expect("the scenario is written");
        sandbox
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn scenario(&self) -> PathBuf {
        self.path("scenario.toml")
    }

    /// The names of everything in the folder, hidden files included.
    fn names(&self) -> Vec<String> {
        names_in(self.0.path())
    }
}

/// The names of everything in a folder, sorted.
fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is readable");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
