//! Ctrl-C: exit status 130, promptly, and no incomplete files.
#![cfg(unix)]

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::sweep::small_experiment;
use crate::{SMALL, Sandbox, command, success};

/// Sends SIGINT to the child after a while and waits for its end.
pub(crate) fn interrupt(child: &mut Child) -> ExitStatus {
    for _ in 0..500 {
        if is_ready(child) {
            break;
        }
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    wait_for(child)
}

/// Waits for the end of a process after a signal.
fn wait_for(child: &mut Child) -> ExitStatus {
    // A second at most on an idle machine; tests run in parallel.
    for _ in 0..500 {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    panic!("it did not stop within five seconds");
}

/// A command, its arguments and its exit status.
type Line = (&'static str, Vec<String>, i32);

/// Commands that end by themselves at once, or become another program, or that other tests
/// interrupt.
const OTHERS: [&str; 11] = [
    "help",
    "send",
    "list",
    "explain",
    "exec",
    "peers",
    "replay",
    "router",
    "completions",
    "man",
    "schema",
];

/// A key that nobody has.
const KEY: &str = "SHA256:OVoQ5DCxITl7B83DTVC6fNzxePMILz9Wr9GK1GflvdQ";

/// Each command with its arguments and its exit status after a signal.
fn commands(sandbox: &Sandbox) -> Vec<Line> {
    let at = |name: &str| sandbox.path(name).display().to_string();
    let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
    let (scenario, log) = (at("scenario.toml"), at("logs/lossy-1.sender.sqlog"));
    fs::write(
        at("sweep.toml"),
        small_experiment().replace("repetitions = 2", "repetitions = 100000"),
    )
    .unwrap();
    let port = SMALL.replace("newreno", "outside:port").replace("count = 1", "");
    let port = port.split("[[flows]]").take(2).collect::<Vec<_>>().join("[[flows]]");
    fs::write(at("port.toml"), port).unwrap();
    // Long enough that no machine ends the fit first.
    success(["run", &scenario, "--quiet", "--duration", "60s", "--qlog", &at("logs")]);
    assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
    let mut all = vec![
        ("run", words(&format!("{scenario} --duration 250h")), 130),
        // A pipe without a writer.
        ("run", vec![at("pipe")], 130),
        ("script", vec![at("pipe")], 130),
        ("sweep", words(&format!("{} --out {}", at("sweep.toml"), at("made/sweep"))), 130),
        ("reproduce", words(&format!("--full --out {}", at("made/reproduce"))), 130),
        ("evaluate", words(&format!("cubic --full --out {}", at("made/evaluate"))), 130),
        ("compare-logs", words(&format!("{log} --fit cubic")), 130),
        ("bench", words(&format!("{scenario} --duration 250h")), 130),
        ("play", words("--no-browser --port 0"), 0),
    ];
    if cfg!(target_os = "linux") {
        all.push(("perf", words("server --port 0"), 0));
    }
    if cfg!(all(target_os = "linux", feature = "deploy")) {
        all.push(("receive", vec![at("inbox")], 130));
        all.push(("serve", words("--allow 127.0.0.1:9 --listen 127.0.0.1:0 --ticket"), 0));
        // 192.0.2.0/24 is for documentation: nobody answers.
        all.push((
            "forward",
            words(&format!("-L 127.0.0.1:0:127.0.0.1:9 192.0.2.1:4460 --server-key {KEY}")),
            130,
        ));
    }
    if cfg!(target_os = "linux")
        && crate::windward(["shell", &at("port.toml"), "--", "true"]).status.success()
    {
        all.push(("emulate", vec![at("port.toml")], 130));
        all.push(("compare", words("--rate 10mbit --delay 10ms --programs cubic"), 130));
        all.push(("shell", words(&format!("{} -- sleep 100", at("port.toml"))), 143));
    } else {
        eprintln!("not tested: commands that make network namespaces");
    }
    all
}

#[test]
fn every_command_ends_within_a_second() {
    let sandbox = Sandbox::new(SMALL);
    let all = commands(&sandbox);
    let temporary = sandbox.path("tmp");
    fs::create_dir(&temporary).unwrap();
    for (signal, to_group) in [("INT", false), ("TERM", false), ("INT", true), ("TERM", true)] {
        for (name, arguments, expected) in &all {
            let mut command = command([&[(*name).to_owned()], &arguments[..]].concat());
            command.env("TMPDIR", &temporary).env("HOME", sandbox.path("home")).process_group(0);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let (ended, said) = end(&mut child, signal, to_group);
            let told =
                format!("{name} {arguments:?}, SIG{signal}, group {to_group}: {ended}\n{said}");
            // The program in a shell has got the signal too.
            let expected =
                if *name == "shell" && to_group && signal == "INT" { 130 } else { *expected };
            assert_eq!(ended.code(), Some(expected), "{told}");
            let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
            assert_eq!(errors, usize::from(expected == 130 && *name != "shell"), "{told}");
            assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "{told}");
        }
    }
    let help = success(["--help"]);
    let names = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = names.take_while(|line| !line.is_empty());
    // Where namespaces cannot be made, the table lacks those commands.
    let is_complete = all.iter().any(|line| line.0 == "shell") && cfg!(feature = "deploy");
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    for name in names.filter(|name| !name.is_empty()) {
        let is_here = OTHERS.contains(&name) || all.iter().any(|line| line.0 == name);
        assert!(is_here || !is_complete, "{name} is not in the table");
    }
}

/// True once a process handles SIGTERM, where that can be seen: on a busy machine it takes a while.
fn is_ready(child: &Child) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{}/status", child.id())) else {
        return true;
    };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1 << 14) != 0)
}

/// Sends a signal to a process, or to its group, and returns its status and standard error.
fn end(child: &mut Child, signal: &str, to_group: bool) -> (ExitStatus, String) {
    sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let number = format!("{}{}", if to_group { "-" } else { "" }, child.id());
    let kill = Command::new("kill").args([&format!("-{signal}"), "--", &number]).status();
    assert!(kill.unwrap().success());
    let status = wait_for(child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status, said)
}

#[test]
fn in_a_run_that_writes_files() {
    for option in ["--trace", "--qlog"] {
        let sandbox = Sandbox::new(SMALL);
        let scenario = sandbox.scenario().display().to_string();
        let made = sandbox.path("made/for/files").display().to_string();
        let mut child = quietly(["run", &scenario, "--duration", "250h", option, &made]).spawn();
        let child = child.as_mut().unwrap();
        assert_eq!(interrupt(child).code(), Some(130));
        assert_eq!(sandbox.names(), ["scenario.toml"], "{option}");
    }
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
