//! Ctrl-C: exit status 130, promptly, and no incomplete files.
#![cfg(unix)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::sweep::small_experiment;
use crate::{SMALL, Sandbox, command, success};

/// Sends SIGINT to the child after a while and waits for its end.
fn interrupt(child: &mut Child) -> ExitStatus {
    sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    // A hundred milliseconds on an idle machine; tests run in parallel.
    for _ in 0..200 {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("it did not stop within two seconds");
}

#[test]
fn in_a_run_with_a_trace() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let trace = sandbox.path("made/for/trace").display().to_string();
    let args = ["run", &scenario, "--duration", "250h", "--trace", &trace];
    let mut child = quietly(args).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn in_a_run_with_logs() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let logs = sandbox.path("made/for/logs").display().to_string();
    let args = ["run", &scenario, "--duration", "250h", "--qlog", &logs];
    let mut child = quietly(args).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn the_playground_has_no_other_end() {
    let mut play = command(["play", "--no-browser", "--port", "0"]);
    let mut play = play.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(interrupt(&mut play).success());
    let mut said = String::new();
    play.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "serving the playground; Ctrl-C ends it\n");
}

#[test]
fn in_a_fit() {
    // Long enough that no machine ends it first.
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let dir = sandbox.path("logs").display().to_string();
    success(["run", &scenario, "--quiet", "--duration", "60s", "--qlog", &dir]);
    let log = sandbox.path("logs/lossy-1.sender.sqlog").display().to_string();
    let mut child = quietly(["compare-logs", &log, "--fit", "cubic"]).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
}

#[test]
fn what_a_killed_run_leaves_the_next_one_removes() {
    let sandbox = Sandbox::new(SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let trace = sandbox.path("trace").display().to_string();
    let parts = || {
        let entries = std::fs::read_dir(&trace).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".part")).count()
    };
    let start = || {
        let before = parts();
        let args = ["run", &scenario, "--duration", "250h", "--trace", &trace];
        let mut child = quietly(args).spawn().unwrap();
        wait_until(|| parts() == before + 2);
        if parts() != before + 2 {
            let _ = child.kill();
            panic!("it did not begin its files: {:?}", child.wait());
        }
        child
    };
    let mut killed = start();
    let mut alive = start();
    // SIGKILL: the process cannot clean up.
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(parts(), 4);
    let status = quietly(["run", &scenario, "--trace", &trace]).status().unwrap();
    assert!(status.success());
    // Files of the running process remain.
    assert_eq!(parts(), 2);
    assert_eq!(interrupt(&mut alive).code(), Some(130));
    assert_eq!(parts(), 0);
}

/// Whether the journal in a report folder has more than its head.
fn keeps_a_run(report: &Path) -> bool {
    journal(report) > 100
}

/// Size of the journal in a report folder, bytes; 0 without a journal.
fn journal(report: &Path) -> u64 {
    let entries = std::fs::read_dir(report.join(".windward")).into_iter().flatten();
    let paths = entries.map(|e| e.unwrap().path());
    let is_one = |p: &PathBuf| p.file_name().unwrap().to_string_lossy().starts_with("runs-");
    paths.filter(is_one).map(|p| p.metadata().unwrap().len()).sum()
}

#[test]
fn in_a_sweep() {
    let long = small_experiment().replace("repetitions = 2", "repetitions = 100000");
    let sandbox = Sandbox::new(&long);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("made/out").display().to_string();
    let args = ["sweep", &scenario, "--out", &out];
    let said = said_when_interrupted_after(args, || keeps_a_run(&sandbox.path("made/out")));
    assert!(said.contains("finished runs are kept") && said.contains("--resume"), "{said}");
    // Finished runs are kept, and nothing else.
    assert_eq!(sandbox.names(), ["made", "scenario.toml"]);
    assert!(keeps_a_run(&sandbox.path("made/out")));
    assert!(!sandbox.path("made/out/index.html").exists());
}

#[test]
fn a_sweep_speaks_of_what_it_kept_only_if_it_kept_something_and_may_speak() {
    let long = small_experiment().replace("repetitions = 2", "repetitions = 100000");
    let sandbox = Sandbox::new(&long);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("out").display().to_string();
    let args = ["sweep", &scenario, "--quiet", "--out", &out];
    let said = said_when_interrupted_after(args, || keeps_a_run(&sandbox.path("out")));
    assert_eq!(said, "error: interrupted\n");
    assert!(keeps_a_run(&sandbox.path("out")));
    // No run ends in time, and the folder was there before.
    let theirs = sandbox.path("theirs").display().to_string();
    std::fs::create_dir(&theirs).unwrap();
    let args = ["sweep", &scenario, "--set", "duration=10h", "--out", &theirs];
    assert_eq!(said_when_interrupted_after(args, || true), "error: interrupted\n");
}

/// Every file of a report except hidden ones, and pages, which contain a date.
fn tables(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    names.retain(|p| p.is_file() && p.extension().is_some_and(|e| e != "html"));
    names.sort();
    names.into_iter().map(|p| (p.file_name().unwrap().into(), std::fs::read(&p).unwrap())).collect()
}

#[test]
fn a_sweep_that_was_killed_goes_on_as_if_nothing_had_been() {
    let long = small_experiment().replace("repetitions = 2", "repetitions = 60, at_most = 60");
    let sandbox = Sandbox::new(&long);
    let scenario = sandbox.scenario().display().to_string();
    let whole = sandbox.path("whole").display().to_string();
    success(["sweep", &scenario, "--out", &whole]);
    let expected = tables(&sandbox.path("whole"));
    for (n, wait) in [5, 20, 50, 100, 200, 400].into_iter().enumerate() {
        let out = sandbox.path(&format!("out{n}"));
        let name = out.display().to_string();
        let mut child = quietly(["sweep", &scenario, "--out", &name]).spawn().unwrap();
        sleep(Duration::from_millis(wait));
        child.kill().unwrap();
        child.wait().unwrap();
        // Killed before it began, or after it ended, there is nothing to resume.
        let more: &[&str] = if keeps_a_run(&out) { &["--resume"] } else { &[] };
        success([&["sweep", &scenario, "--out", &name], more].concat());
        assert!(tables(&out) == expected, "killed after {wait} ms");
    }
}

#[test]
fn two_at_once_do_not_write_into_one_folder() {
    let long = small_experiment().replace("repetitions = 2", "repetitions = 100000");
    let sandbox = Sandbox::new(&long);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("out").display().to_string();
    let mut first = quietly(["sweep", &scenario, "--out", &out]).spawn().unwrap();
    wait_until(|| journal(&sandbox.path("out")) > 0);
    let second = crate::windward(["sweep", &scenario, "--out", &out]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(crate::stderr(&second).contains("another windward is writing"), "{second:?}");
}

#[test]
fn in_a_reproduction() {
    let sandbox = Sandbox::new(SMALL);
    let out = sandbox.path("made/report").display().to_string();
    let mut child = quietly(["reproduce", "--full", "--out", &out]).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
    let left: Vec<_> = std::fs::read_dir(sandbox.path("made/report"))
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn while_a_file_does_not_come() {
    let sandbox = Sandbox::new(SMALL);
    let pipe = sandbox.path("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A pipe without a writer.
    let mut child = quietly(["run", &pipe]).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
}

/// Standard error of a command that is interrupted once it is so far.
fn said_when_interrupted_after<const N: usize>(
    args: [&str; N],
    is_so_far: impl Fn() -> bool,
) -> String {
    let mut child = quietly(args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(is_so_far);
    assert_eq!(interrupt(&mut child).code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

/// Waits for a condition, or half a minute; what follows then fails.
fn wait_until(condition: impl Fn() -> bool) {
    for _ in 0..3000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
}

fn quietly<const N: usize>(args: [&str; N]) -> Command {
    let mut command = command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
