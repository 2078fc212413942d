//! `windward kernel` with real connections behind a lossy link. Skipped without root, and where the
//! kernel has no controllers by BPF. Everything it changes on the machine is undone.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::net::sockopt::tcp_congestion;
use rustix::process::{Pid, Signal, kill_process};

const WINDWARD: &str = env!("CARGO_BIN_EXE_windward");

/// One at a time: there is one kernel.
static KERNEL: Mutex<()> = Mutex::new(());

/// The kernel for one test; `None` where it cannot be had, with the reason on standard error.
fn kernel() -> Option<MutexGuard<'static, ()>> {
    let guard = KERNEL.lock().unwrap_or_else(PoisonError::into_inner);
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return None;
    }
    let tried = windward(&["kernel", "run", "newreno", "--", "true"]);
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        let reasons = ["lacks", "refused", "/sys/fs/bpf", "ermi"];
        assert!(reasons.iter().any(|word| why.contains(word)), "{why}");
        eprintln!("skipped: {why}");
        return None;
    }
    Some(guard)
}

fn windward(arguments: &[&str]) -> Output {
    Command::new(WINDWARD).args(arguments).output().unwrap()
}

fn status() -> serde_json::Value {
    let output = windward(&["kernel", "status", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Ends a process when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = windward(&["kernel", "unload"]);
    }
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..300 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("no {what}");
}

/// A file that is not compressible by accident, and a shell command that transfers it over a lossy
/// link to `got`.
fn transfer(dir: &Path, bytes: usize, rate: &str) -> Vec<String> {
    let data: Vec<u8> =
        (0..bytes as u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::File::create(dir.join("sent")).unwrap().write_all(&data).unwrap();
    let server = format!("python3 -m http.server 8000 -d {}", dir.display());
    let client = format!(
        "for i in 1 2 3 4 5 6 7 8 9; do sleep .3; curl -sf -o {0}/got http://outside:8000/sent && break; \
         done; {WINDWARD} kernel status --json > {0}/status",
        dir.display()
    );
    [
        "shell", "-q", "--rate", rate, "--delay", "10ms", "--queue", "100p", "--down", "loss=5%",
        "--peer",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([server, "--".to_owned(), "sh".to_owned(), "-c".to_owned(), client])
    .collect()
}

/// Starts a transfer whose server has this controller by the default of its namespace.
fn transfer_under(dir: &Path, controller: &str) -> Child {
    let mut lines = transfer(dir, 1_000_000, "5mbit");
    let server = lines.iter().position(|word| word.starts_with("python3")).unwrap();
    let choose = format!("sysctl -qw net.ipv4.tcp_congestion_control={controller}; ");
    lines[server].insert_str(0, &choose);
    Command::new(WINDWARD).args(&lines).stderr(Stdio::null()).spawn().unwrap()
}

/// Loads this row or law as the default.
fn load_default(what: &str) -> Ended {
    let mut command = Command::new(WINDWARD);
    command.args(["-q", "kernel", "load", what, "--default"]).stderr(Stdio::null());
    Ended(command.spawn().unwrap())
}

fn assert_same(dir: &Path) {
    let [sent, got] = ["sent", "got"].map(|name| fs::read(dir.join(name)).unwrap());
    assert!(sent == got, "{} of {} bytes", got.len(), sent.len());
}

#[test]
fn a_server_and_a_client_that_know_nothing_of_it_transfer_a_file() {
    let Some(_kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(WINDWARD);
    command.args(["kernel", "run", "upwind", "--", WINDWARD]).args(transfer(
        dir.path(),
        500_000,
        "20mbit",
    ));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same(dir.path());
    let seen: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("status")).unwrap()).unwrap();
    let count = |name: &str| seen["counters"][name].as_u64().unwrap();
    assert!(count("opened") >= 1 && count("driven") > 100, "{seen}");
    assert_eq!(count("dropped"), 0);
    // Nothing is left.
    assert_eq!(status()["loaded"], false);
}

#[test]
fn a_killed_daemon_breaks_no_connection_and_the_next_takes_over() {
    let Some(_kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let mut first = load_default("upwind");
    wait_for("load", || status()["loaded"] == true);
    let shell = transfer_under(dir.path(), "windward");
    wait_for("transfer", || status()["counters"]["driven"].as_u64() > Some(200));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let newreno = |status: &serde_json::Value| status["counters"]["newreno"].as_u64().unwrap();
    wait_for("NewReno", || newreno(&status()) > 20);
    let second = load_default("upwind");
    let driven = status()["counters"]["driven"].as_u64();
    wait_for("takeover", || status()["counters"]["driven"].as_u64() > driven);
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_same(dir.path());
    kill_process(Pid::from_child(&second.0), Signal::INT).unwrap();
    wait_for("unload", || status()["loaded"] == false);
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap(), before);
}

#[test]
fn a_law_needs_no_daemon_and_changes_while_a_connection_runs() {
    let Some(_kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let count = |name: &str| status()["counters"][name].as_u64();
    let mut first = load_default("on_ack = \"cwnd + growth / cwnd\", on_loss = \"0.7 * cwnd\"");
    wait_for("load", || status()["loaded"] == true);
    let shell = transfer_under(dir.path(), "windward_law");
    wait_for("loss", || count("losses") > Some(0));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    let acks = count("acks");
    wait_for("ACK without another process", || count("acks") > acks);
    assert_eq!(count("invalid_on_loss"), Some(0));
    // The window is kept where the law gives none.
    let second = load_default("mine={ window = { on_loss = \"cwnd / 0\" } }");
    wait_for("loss by the second law", || count("invalid_on_loss") > Some(0));
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_same(dir.path());
    kill_process(Pid::from_child(&second.0), Signal::INT).unwrap();
    wait_for("unload", || status()["loaded"] == false);
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap(), before);
}

#[test]
fn a_program_runs_with_a_law_and_a_row_follows_one_that_was_left() {
    let Some(_kernel) = kernel() else { return };
    let dir = tempfile::tempdir().unwrap();
    let law = "on_loss = \"0.7 * cwnd\"";
    let mut command = Command::new(WINDWARD);
    command.args(["kernel", "run", law, "--", WINDWARD]).args(transfer(
        dir.path(),
        250_000,
        "20mbit",
    ));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same(dir.path());
    let seen: serde_json::Value =
        serde_json::from_slice(&fs::read(dir.path().join("status")).unwrap()).unwrap();
    let count = |name: &str| seen["counters"][name].as_u64().unwrap();
    assert!(count("connections") >= 1 && count("acks") > 50 && count("losses") > 0, "{seen}");
    assert_eq!((&seen["law"], count("invalid_on_ack")), (&law.into(), 0));
    assert_eq!(status()["loaded"], false);
    let mut left = Command::new(WINDWARD);
    let left = left.args(["-q", "kernel", "load", law, "--port", "9"]).spawn().unwrap();
    let mut left = Ended(left);
    wait_for("load", || status()["law"] == law);
    left.0.kill().unwrap();
    left.0.wait().unwrap();
    let root = "on_ack = \"cwnd + sqrt(growth)\"";
    for arguments in [&["newreno"][..], &["--daemon", root]] {
        let output = windward(&[&["kernel", "run"], arguments, &["--", "true"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(status()["loaded"], false);
    }
}

#[test]
fn connections_in_progress_get_the_controller_and_then_their_default_again() {
    let Some(_kernel) = kernel() else { return };
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let controller = |socket: &TcpStream| tcp_congestion(socket).unwrap();
    let mut carry = |bytes: usize| {
        server.write_all(&vec![7; bytes]).unwrap();
        let mut got = vec![0; bytes];
        client.read_exact(&mut got).unwrap();
        assert!(got.iter().all(|byte| *byte == 7));
        (controller(&server), controller(&client))
    };
    let default = default.trim().to_owned();
    assert_eq!(carry(1000), (default.clone(), default.clone()));
    let port = address.port().to_string();
    let mut load = Command::new(WINDWARD);
    load.args(["-q", "kernel", "load", "upwind", "--port", &port, "--existing"]);
    let mut first = Ended(load.spawn().unwrap());
    // The server's end has the port; the client's end keeps its own.
    wait_for("controller", || carry(100_000) == ("windward".to_owned(), default.clone()));
    wait_for("connection", || status()["daemon"]["connections"][0]["sent"].as_u64() > Some(0));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    assert_eq!(carry(100_000).0, "windward");
    let state = status();
    assert_eq!((&state["loaded"], &state["daemon"]), (&true.into(), &serde_json::Value::Null));
    assert!(windward(&["kernel", "unload"]).status.success());
    assert_eq!(carry(100_000), (default.clone(), default));
    assert_eq!(status()["loaded"], false);
}

#[test]
fn rows_that_cannot_run_and_second_daemons_are_refused() {
    let Some(_kernel) = kernel() else { return };
    for (row, why) in [
        ("xcp", "cannot run in the kernel"),
        ("no-such", "no protocol `no-such`"),
        ("on_ack = \"cwnd + sqrt(cwnd)\"", "character 8: `sqrt` does not run in the kernel"),
        ("on_loss = \"0.7 * cwdn\"", "did you mean `cwnd`?"),
        ("{ window = { pacing_rate = \"cwnd / srtt\" } }", "--daemon computes it"),
        ("{ base = \"cubic\", window = \"vegas\" }", "not expressions"),
        ("on_lost = \"1\"", "on_lost"),
    ] {
        let output = windward(&["kernel", "run", row, "--", "true"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && error.contains(why), "{error}");
    }
    let output = windward(&[
        "kernel", "run", "cubic", "--", WINDWARD, "kernel", "run", "upwind", "--", "true",
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && error.contains("another `windward kernel`"),
        "{error}"
    );
    let output = windward(&["kernel", "run", "cubic", "--", "/no/such/program"]);
    assert_eq!(output.status.code(), Some(127));
    assert_eq!(status()["loaded"], false);
}

#[test]
fn programs_are_compared_with_a_row_that_is_in_the_kernel_for_their_runs_alone() {
    let Some(_kernel) = kernel() else { return };
    let link = ["compare", "--json", "--rate", "10mbit", "--delay", "10ms", "--queue", "50p"];
    let compare = |more: &[&str]| windward(&[&link, more].concat());
    let output = compare(&[
        "--programs",
        "kernel:upwind,kernel:newreno",
        "--rival",
        "kernel:upwind",
        "--runs",
        "1",
    ]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = "kernel:newreno cannot compete with kernel:upwind: the kernel has one row";
    assert!(output.status.code() == Some(2) && error.contains(said), "{error}");
    let short = ["--alone", "--runs", "1", "-t", "2s", "--warmup", "0s", "--jobs", "2"];
    let output = compare(&[&["--programs", "kernel:upwind,kernel:newreno"], &short[..]].concat());
    assert_eq!(status()["loaded"], false);
    let result: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        // The machine of a test may be busy.
        if let Some(why) = run["unusable"].as_str() {
            assert!(why.contains("too slow twice: "), "{why}");
            continue;
        }
        assert!(run["alone"]["goodput_bps"].as_f64().unwrap() > 1e6, "{run}");
    }
    let output = compare(&[&["--programs", "kernel:xcp"], &short[..]].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = "program kernel:xcp: `xcp` cannot run in the kernel";
    assert!(output.status.code() == Some(1) && error.contains(said), "{error}");
}

#[test]
fn an_interrupted_comparison_takes_its_row_out() {
    let Some(_kernel) = kernel() else { return };
    let mut command = Command::new(WINDWARD);
    command.args(["-q", "compare", "--rate", "10mbit", "--programs", "kernel:upwind", "--alone"]);
    let mut compare = Ended(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    wait_for("run", || status()["counters"]["driven"].as_u64() > Some(100));
    kill_process(Pid::from_child(&compare.0), Signal::INT).unwrap();
    assert_eq!(compare.0.wait().unwrap().code(), Some(130));
    assert_eq!(status()["loaded"], false);
}
