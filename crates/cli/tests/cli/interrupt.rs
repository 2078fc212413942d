//! Ctrl-C: exit status 130, promptly, and nothing half-written.
#![cfg(unix)]

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::sweep::small_experiment;
use crate::{SMALL, Sandbox, command};

/// Sends SIGINT to the child after a while and waits for its end.
fn interrupt(child: &mut Child) -> ExitStatus {
    sleep(Duration::from_millis(700));
    assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    // A hundred milliseconds on an idle machine; tests run beside each other.
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
fn in_a_sweep() {
    let long = small_experiment().replace("repetitions = 2", "repetitions = 100000");
    let sandbox = Sandbox::new(&long);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("made/out").display().to_string();
    let args = ["sweep", &scenario, "--out", &out];
    let mut child = quietly(args).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn in_a_reproduction() {
    let sandbox = Sandbox::new(SMALL);
    let out = sandbox.path("made/report").display().to_string();
    let mut child = quietly(["reproduce", "--full", "--out", &out]).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn while_a_file_does_not_come() {
    let sandbox = Sandbox::new(SMALL);
    let pipe = sandbox.path("pipe").display().to_string();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Nobody ever writes into it.
    let mut child = quietly(["run", &pipe]).spawn().unwrap();
    assert_eq!(interrupt(&mut child).code(), Some(130));
}

fn quietly<const N: usize>(args: [&str; N]) -> Command {
    let mut command = command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}
