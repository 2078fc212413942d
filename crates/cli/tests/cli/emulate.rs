//! Scenarios on a real clock, with packets of real programs: as root, with /dev/net/tun. Everything
//! is removed, also if a test fails.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "round trips over the real network are timed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use windward_netns::{Published, published};

use crate::{Sandbox, command, stderr};

/// Held by tests that check whether all devices of the machine are gone, while no other may make
/// any.
static ALONE: Mutex<()> = Mutex::new(());

/// Prints the reason if these tests cannot run here, and returns true.
pub(crate) fn cannot() -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root || !Path::new("/dev/net/tun").exists() {
        println!("skipped: namespaces and TUN devices need root and /dev/net/tun");
        return true;
    }
    false
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1500 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not after 15 s: {what}");
}

/// Windward's devices in the network of this process.
fn devices() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let names = text.lines().filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()));
    names.filter(|name| name.starts_with("wind")).collect()
}

/// A command that goes on until its standard input ends, or it is killed.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts it; what follows `--` is `cat`.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    fn nodes(&self) -> Vec<Published> {
        let mut all = published().unwrap();
        all.retain(|node| node.process == self.0.id());
        all
    }

    /// Waits until there is such a node.
    pub(crate) fn node(&mut self, label: &str) -> Published {
        let mut found = None;
        eventually("a node is there", || {
            if self.0.try_wait().unwrap().is_some() {
                let mut said = String::new();
                self.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
                panic!("it ended: {said}");
            }
            found = self.nodes().into_iter().find(|node| node.label == label);
            found.is_some()
        });
        found.unwrap()
    }

    /// Ends its input and waits for it.
    pub(crate) fn end(mut self) -> Output {
        drop(self.0.stdin.take());
        let id = self.0.id();
        let child = std::mem::replace(&mut self.0, Command::new("true").spawn().unwrap());
        // A program that hangs fails the test instead of all of them.
        let (told, ended) = std::sync::mpsc::channel();
        thread::spawn(move || drop(told.send(child.wait_with_output())));
        let output = ended.recv_timeout(Duration::from_secs(30));
        if output.is_err() {
            signal(id, "KILL");
        }
        output.expect("it ends within 30 s").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    let kill = Command::new("kill").args([&format!("-{name}"), &process.to_string()]).status();
    assert!(kill.unwrap().success());
}

/// Does something on a thread in a namespace.
pub(crate) fn inside<T: Send + 'static>(
    node: &Published,
    task: impl FnOnce() -> T + Send + 'static,
) -> T {
    let node = node.clone();
    let thread = thread::spawn(move || {
        node.enter().unwrap();
        task()
    });
    thread.join().unwrap()
}

/// Echo server for datagrams, at a port of its choice, until it is dropped.
pub(crate) struct Echo(pub(crate) u16);

impl Echo {
    pub(crate) fn start() -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        thread::spawn(move || {
            let mut buffer = [0; 9000];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if length == 0 {
                    return;
                }
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
        Echo(port)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let _ = socket.send_to(&[], ("127.0.0.1", self.0));
    }
}

/// The IPv4 address of a name, as seen from here.
fn address(host: &str, port: u16) -> SocketAddr {
    (host, port).to_socket_addrs().unwrap().find(SocketAddr::is_ipv4).unwrap()
}

/// Fill byte of the datagram of that number, one that is rare in headers.
fn byte_of(number: u8) -> u8 {
    0xa0 + number
}

/// Datagrams sent one after the other, and what came back of them.
pub(crate) struct Exchange {
    /// Stays open: the answer to a closed socket would be one more packet on the link.
    socket: UdpSocket,
    /// Round-trip times of those that came back within 2 s.
    times: Vec<Option<Duration>>,
    /// Number of those that came back later, on a machine that stood still.
    late: usize,
}

impl Exchange {
    pub(crate) fn run(host: &str, port: u16, count: u8, size: usize) -> Self {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let address = address(host, port);
        let mut exchange = Exchange { socket, times: Vec::new(), late: 0 };
        for number in 0..count {
            let sent = vec![byte_of(number); size];
            let began = Instant::now();
            // Larger than the known MTU of the path: as if lost.
            let known = exchange.socket.send_to(&sent, address).is_ok();
            let time = known.then(|| exchange.reply(&sent)).flatten().map(|()| began.elapsed());
            exchange.times.push(time);
        }
        exchange
    }

    /// Waits for the reply to what was sent last.
    fn reply(&mut self, sent: &[u8]) -> Option<()> {
        let mut buffer = vec![0; 9000];
        loop {
            let (length, _) = self.socket.recv_from(&mut buffer).ok()?;
            if buffer[..length] == *sent {
                return Some(());
            }
            assert_eq!(length, sent.len());
            self.late += 1;
        }
    }

    /// Number of datagrams that have come back, early or late.
    fn back(&mut self) -> usize {
        self.socket.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 9000];
        while self.socket.recv_from(&mut buffer).is_ok() {
            self.late += 1;
        }
        self.times.iter().flatten().count() + self.late
    }
}

/// The times of an [`Exchange`].
fn exchange(host: &str, port: u16, count: u8, size: usize) -> Vec<Option<Duration>> {
    Exchange::run(host, port, count, size).times
}

/// The run record at the end of standard output.
fn last_line(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_else(|| panic!("nothing: {}", stderr(output)));
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}\n{}", stderr(output)))
}

#[test]
fn packets_of_programs_cross_the_link_and_again_in_virtual_time() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("");
    let file = sandbox.path("run.rec").display().to_string();
    let live_pcap = sandbox.path("live.pcapng").display().to_string();
    let echo = Echo::start();
    let port = echo.0;
    let mut shell = Running::start(&[
        "shell",
        "--pcap",
        &live_pcap,
        "--pcap-links",
        "up,down",
        "--payload",
        "--rate",
        "8mbit",
        "--delay",
        "20ms",
        "--loss",
        "20%",
        "--json",
        "--record",
        &file,
        "--",
        "cat",
    ]);
    let node = shell.node("inside");
    let mut exchange = inside(&node, move || Exchange::run("outside", port, 20, 972));
    let times = exchange.times.clone();
    assert!(times.iter().any(Option::is_some));
    // 1000 bytes with the headers are 1 ms at 8 Mbit/s, there and back.
    assert!(times.iter().flatten().all(|time| *time >= Duration::from_millis(42)), "{times:?}");
    let output = shell.end();
    assert!(output.status.success(), "{}", stderr(&output));
    let live = last_line(&output);
    let capture = fs::read(&live_pcap).unwrap();
    counts_agree(&live, &capture, exchange.back(), &times);
    replays_to_the_bit(&sandbox, &live, &capture, &times);
}

/// Number of packets with the payload of that datagram in a capture.
fn seen(capture: &[u8], number: u8) -> u64 {
    // A checksum before it may end in the same byte.
    let runs = capture.chunk_by(|a, b| a == b);
    runs.filter(|run| run[0] == byte_of(number) && run.len() >= 972).count() as u64
}

/// The links have carried the datagrams of the program there and, as far as they came back, again.
fn counts_agree(live: &Value, capture: &[u8], back: usize, times: &[Option<Duration>]) {
    let link = |name| live["links"].as_array().unwrap().iter().find(|l| l["name"] == name).unwrap();
    let (up, down) = (link("up"), link("down"));
    let count = |link: &Value, key: &str| link[key].as_u64().unwrap();
    // The payload of the program's datagrams stands once in the capture for each link they came to.
    let own: u64 = (0..20).map(|number| seen(capture, number)).sum();
    let arrived = count(up, "arrived");
    // On a busy machine a packet that is not the program's has been seen in either direction, since
    // the far end is this machine.
    let others = (arrived + count(down, "arrived")).checked_sub(own).filter(|more| *more <= 2);
    let others = others.unwrap_or_else(|| panic!("{own} of the program: {up} {down}"));
    assert!((20..=20 + others).contains(&arrived), "{up}");
    assert_eq!(count(up, "delivered") + count(up, "corrupted"), arrived);
    let answered = count(up, "delivered") - others..=count(up, "delivered") + others;
    assert!(answered.contains(&count(down, "arrived")), "{up} {down}");
    let strays = count(down, "delivered").checked_sub(back as u64);
    assert!(strays.is_some_and(|more| more <= others), "{down} {back} {times:?}");
    assert!(live["emulation"]["packets"].as_u64().unwrap() >= back as u64);
}

fn replay(record: &str, more: &[&str]) -> Output {
    command([&["replay", "--json", record], more].concat()).output().unwrap()
}

/// In virtual time, the record gives the same numbers and, with whole packets kept, the same
/// capture.
fn replays_to_the_bit(sandbox: &Sandbox, live: &Value, capture: &[u8], times: &[Option<Duration>]) {
    let [record, pcap] = ["run.rec", "again.pcapng"].map(|n| sandbox.path(n).display().to_string());
    let output = replay(&record, &["--pcap", &pcap, "--pcap-links", "up,down"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["fingerprint", "links", "flows", "events", "duration_s"] {
        assert_eq!(again[key], live[key], "{key}");
    }
    assert_eq!(fs::read(&pcap).unwrap(), capture);
    // The payload is in it on each link that it has crossed, once or twice.
    for (number, time) in (0..).zip(times) {
        let links = if time.is_some() { 2..=2 } else { 1..=2 };
        assert!(links.contains(&seen(capture, number)), "{number}: {}", seen(capture, number));
    }
}

/// The commands of README.md that move a folder and forward a service, in a folder of their own.
#[test]
fn the_readme_moves_files_and_forwards_a_service_on_one_machine() {
    if cannot() {
        return;
    }
    let bin = Path::new("/usr/bin");
    if ["python3", "curl"].iter().any(|name| !bin.join(name).exists()) {
        println!("skipped: the commands need python3 and curl");
        return;
    }
    let readme = fs::read_to_string(crate::repository().join("README.md")).unwrap();
    let commands: Vec<&str> =
        readme.lines().filter(|line| line.starts_with("sudo") && line.contains("ticket")).collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    fs::create_dir_all(path("target/release")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windward"), path("target/release/windward"))
        .unwrap();
    fs::create_dir(path("docs")).unwrap();
    fs::write(path("docs/guide.md"), &readme).unwrap();
    fs::write(path("README.md"), &readme).unwrap();
    for text in commands {
        let text = text.strip_prefix("sudo ").unwrap();
        let mut command = Command::new("timeout");
        command.args(["60", "sh", "-c", text]).current_dir(place.path()).stdin(Stdio::null());
        // The keys of the transfer and of the forwarder.
        command.env("HOME", place.path()).env_remove("XDG_CONFIG_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{text}\n{}", stderr(&output));
    }
    for arrived in ["target/inbox/docs/guide.md", "target/page"] {
        assert_eq!(fs::read_to_string(path(arrived)).unwrap(), readme, "{arrived}");
    }
}

#[test]
fn a_shell_ends_as_its_program_does() {
    if cannot() {
        return;
    }
    let run = |args: &[&str]| command(args).output().unwrap();
    assert_eq!(run(&["shell", "--", "sh", "-c", "exit 3"]).status.code(), Some(3));
    assert_eq!(run(&["shell", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let missing = run(&["shell", "--", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(127));
    // One line, and no table of an unused link.
    let why = "error: cannot start no-such-program: there is no such program in PATH\n";
    assert_eq!(stderr(&missing), why);
    assert_eq!(run(&["shell", "--", "/no/such/program"]).status.code(), Some(127));
    let plain = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert_eq!(run(&["shell", "--", plain]).status.code(), Some(126));
    // Standard output is the program's; the report of the link goes to standard error.
    let said = run(&["shell", "--delay", "1ms", "--", "echo", "hello"]);
    assert_eq!(said.stdout, b"hello\n");
    assert!(stderr(&said).contains("fingerprint"));
    let quiet = run(&["-q", "shell", "--", "true"]);
    assert_eq!((quiet.stdout.len(), stderr(&quiet)), (0, String::new()));
    // The length is that of the command line.
    let began = Instant::now();
    let timed = run(&["shell", "--duration", "300ms", "--", "sleep", "1000"]);
    assert_eq!(timed.status.code(), Some(128 + 15));
    assert!(began.elapsed() > Duration::from_millis(300));
}

#[test]
fn a_peer_that_fails_is_told_before_the_program_starts() {
    if cannot() {
        return;
    }
    let run = |peer| command(["shell", "--peer", peer, "--", "echo", "ran"]).output().unwrap();
    for (peer, how) in [
        ("exit 3", "--peer 'exit 3' ended with status 3 before it listened"),
        ("no-such-program", "ended with status 127 before it listened"),
        ("kill -9 $$", "was ended by a signal"),
    ] {
        let output = run(peer);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(how), "{peer}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "the program did not run");
    }
    // Nothing listens, which is allowed: the peer continues, or has left a process that does.
    for peer in ["sleep 100", "sleep 100 &", "true"] {
        let output = run(peer);
        assert!(output.status.success(), "{peer}: {}", stderr(&output));
        assert_eq!(output.stdout, b"ran\n");
    }
}

#[test]
fn both_directions_of_a_port_are_told_over_the_time_of_the_program() {
    if cannot() {
        return;
    }
    // 50 datagrams of 1000 bytes with their headers go up, and no answer comes back: nothing
    // listens.
    let send = "i=0; while [ $i -lt 50 ]; do head -c 972 /dev/zero >/dev/udp/outside/9; \
                i=$((i + 1)); done; sleep 1";
    let args =
        ["shell", "--lead", "100s", "--json", "--peer", "sleep 100", "--", "bash", "-c", send];
    let output = command(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let record = last_line(&output);
    let ports = record["ports"].as_array().unwrap();
    let way =
        |port: &Value| [&port["from"], &port["to"]].map(|node| node.as_str().unwrap().to_owned());
    assert_eq!(way(&ports[0]), ["outside", "inside"]);
    assert_eq!(way(&ports[1]), ["inside", "outside"]);
    let up = &ports[1];
    assert!(up["packets_delivered"].as_u64().unwrap() >= 50, "{up}");
    let time = up["duration_s"].as_f64().unwrap();
    // Without the lead, which is part of the total length.
    assert!((record["duration_s"].as_f64().unwrap() - 100.0 - time).abs() < 1e-6, "{record}");
    // 400,000 bits at least over that time, and little beside them.
    let bits = up["throughput_bps"].as_f64().unwrap() * time;
    assert!((400_000.0..500_000.0).contains(&bits), "{bits}");
    // The other direction, ICMP errors of a closed port, is over that time too.
    let down = ports[0]["throughput_bps"].as_f64().unwrap();
    let row = record["flows"][0]["goodput_bps"].as_f64().unwrap();
    assert!((down - row).abs() <= 1e-9 * down, "{down} {row}");
    // The fields are documented.
    let guide = fs::read_to_string(crate::repository().join("docs/outputs.md")).unwrap();
    for field in up.as_object().unwrap().keys() {
        assert!(guide.contains(&format!("`{field}`")), "docs/outputs.md does not name `{field}`");
    }
    assert!(guide.contains("`ports`"));
}

#[test]
fn with_a_peer_the_machine_is_out_of_reach() {
    if cannot() {
        return;
    }
    // On all addresses of this machine.
    let echo = Echo::start();
    let port = echo.0;
    let mut shell = Running::start(&["-q", "shell", "--peer", "sleep 100", "--", "cat"]);
    let node = shell.node("inside");
    // The far end, where nothing listens, and an address beyond it.
    let times = inside(&node, move || {
        ["outside", "198.51.100.1"].map(|host| exchange(host, port, 1, 100)).concat()
    });
    assert!(times.iter().all(Option::is_none), "{times:?}");
    assert!(shell.end().status.success());
}

#[test]
fn a_killed_shell_leaves_nothing_of_a_shell_in_it() {
    if cannot() {
        return;
    }
    const LONG: &str = "98764.4321";
    let binary = env!("CARGO_BIN_EXE_windward");
    let script = format!("setsid sleep {LONG} & sleep {LONG} & echo started; cat");
    let mut shell =
        Running::start(&["shell", "--", binary, "-q", "shell", "--", "sh", "-c", &script]);
    let mut line = String::new();
    BufReader::new(shell.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    assert_ne!(running(LONG), Vec::<u32>::new());
    shell.0.kill().unwrap();
    shell.0.wait().unwrap();
    eventually("programs of the inner shell are gone", || running(LONG).is_empty());
}

#[test]
fn a_record_that_cannot_be_written_is_told_and_the_program_goes_on() {
    if cannot() {
        return;
    }
    let args = ["shell", "--record", "/dev/full", "--", "echo", "done"];
    let output = command(args).output().unwrap();
    assert_eq!(output.stdout, b"done\n");
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("the record is incomplete: cannot write it"), "{error}");
    let output =
        command(["shell", "--record", "/no/such/folder/x", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--record /no/such/folder/x"), "{}", stderr(&output));
}

#[test]
fn shells_nest() {
    if cannot() {
        return;
    }
    let echo = Echo::start();
    // To the outermost network, through both links.
    let ask = format!(
        "exec 3<>/dev/udp/$0/{}; echo hello >&3; timeout 5 dd bs=100 count=1 status=none <&3",
        echo.0
    );
    let binary = env!("CARGO_BIN_EXE_windward");
    let script = "exec \"$0\" shell --delay 7ms -- bash -c \"$1\" \"$WINDWARD_OUTSIDE\"";
    let args = ["shell", "--delay", "5ms", "--", "sh", "-c", script, binary, &ask];
    let output = command(args).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(output.stdout, b"hello\n", "{}", stderr(&output));
    let told = stderr(&output);
    // Each reports its own link: one packet there, one back.
    assert_eq!(told.matches("fingerprint").count(), 2, "{told}");
    assert!(told.matches("2 packets forwarded").count() == 2, "{told}");
}

#[test]
fn what_is_too_large_is_answered_and_comes_in_pieces() {
    if cannot() {
        return;
    }
    let echo = Echo::start();
    let port = echo.0;
    let mut shell = Running::start(&[
        "shell",
        "--json",
        "--mtu",
        "9000",
        "--set",
        "flows.outside.packet_size=1280",
        "--",
        "cat",
    ]);
    let node = shell.node("inside");
    // The first is too large, and not to be fragmented by routers; the kernel learns and cuts the
    // next ones itself.
    let times = inside(&node, move || exchange("outside", port, 5, 4000));
    assert!(times.iter().flatten().count() > 0, "{times:?}");
    let record = last_line(&shell.end());
    assert!(record["emulation"]["too_big"].as_u64().unwrap() >= 1, "{record}");
}

/// Two nodes over a router, with simulated flows beside.
pub(crate) const NODES: &str = r#"
duration = "60s"
links = [
    { from = "client", to = "router", rate = "100Mbit", delay = "5ms" },
    { from = "router", to = "server", rate = "20Mbit", delay = "15ms", queue = "100p" },
]
flows = [
    { group = "real", protocol = "outside:port", from = "server", to = "client" },
    { group = "cross", protocol = "cubic", from = "server", to = "client", packet_size = 1500 },
]
"#;

#[test]
fn nodes_of_a_scenario_are_namespaces_and_programs_run_there() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new(NODES);
    let scenario = sandbox.scenario().display().to_string();
    let mut one = Running::start(&["emulate", &scenario, "--json", "--every", "100ms"]);
    let (client, server) = (one.node("client"), one.node("server"));
    let process = one.0.id().to_string();
    // By name, from node to node.
    let (told, port) = std::sync::mpsc::channel();
    let waits = thread::spawn(move || {
        server.enter().unwrap();
        let echo = Echo::start();
        told.send(echo.0).unwrap();
        thread::sleep(Duration::from_secs(5));
    });
    let port = port.recv().unwrap();
    let times = inside(&client, move || exchange("server", port, 5, 100));
    let least = times.into_iter().flatten().min().expect("one comes back");
    assert!(least >= Duration::from_millis(40), "{least:?}");
    let exec = |args: &[&str]| command([&["exec"], args].concat()).output().unwrap();
    let there = exec(&["client", "--process", &process, "--", "cat", "/etc/hosts"]);
    assert!(String::from_utf8_lossy(&there.stdout).contains(" server\n"));
    assert_eq!(exec(&["client", "--process", &process, "--", "false"]).status.code(), Some(1));
    let unknown = exec(&["nobody", "--process", &process, "--", "true"]);
    assert!(stderr(&unknown).contains("has a node nobody; the nodes are client, server"));
    // A second emulation has such nodes too.
    let mut two = Running::start(&["emulate", &scenario]);
    two.node("client");
    let which = exec(&["client", "--", "true"]);
    assert!(stderr(&which).contains("several emulations have a node client: choose one"));
    drop(two);
    signal(one.0.id(), "INT");
    let output = one.end();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8_lossy(&output.stdout);
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["time_s"], 0.1);
    assert_eq!(first["links"].as_array().unwrap().len(), 4);
    // Simulated flows were there: more came to the server's link than what the program sent.
    let record = last_line(&output);
    let cross = record["groups"].as_array().unwrap().iter().find(|g| g["name"] == "cross").unwrap();
    assert!(cross["packets_sent"].as_u64().unwrap() > 100, "{cross}");
    waits.join().unwrap();
}

#[test]
fn a_dumbbell_gets_a_port_and_its_flows_send_beside() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new(crate::SMALL);
    let scenario = sandbox.scenario().display().to_string();
    let file = sandbox.path("run.rec").display().to_string();
    let echo = Echo::start();
    let port = echo.0;
    let mut shell = Running::start(&[
        "shell", &scenario, "--lead", "20s", "--json", "--record", &file, "--", "cat",
    ]);
    let node = shell.node("outside-1-receiver");
    let times = inside(&node, move || exchange("outside", port, 5, 100));
    // Three hops of 5 ms, there and back.
    let least = times.into_iter().flatten().min().expect("one comes back");
    assert!(least >= Duration::from_millis(30), "{least:?}");
    let record = last_line(&shell.end());
    // They were under way: 20 s of it were in virtual time. Again, all of it is.
    assert!(record["duration_s"].as_f64().unwrap() > 20.0);
    assert!(record["flows"][0]["packets_sent"].as_u64().unwrap() > 1000, "{record}");
    let again = command(["replay", "--json", &file]).output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["fingerprint"], record["fingerprint"]);
    let flows: Vec<&str> =
        record["flows"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(flows, ["clean-1", "lossy-1", "outside-1"]);
}

#[test]
fn a_process_that_was_stopped_goes_on() {
    if cannot() {
        return;
    }
    let echo = Echo::start();
    let port = echo.0;
    let mut shell = Running::start(&["shell", "--delay", "1ms", "--json", "--", "cat"]);
    let node = shell.node("inside");
    assert!(inside(&node, move || exchange("outside", port, 3, 100)).iter().any(Option::is_some));
    signal(shell.0.id(), "STOP");
    thread::sleep(Duration::from_secs(1));
    signal(shell.0.id(), "CONT");
    assert!(inside(&node, move || exchange("outside", port, 3, 100)).iter().any(Option::is_some));
    let output = shell.end();
    let record = last_line(&output);
    assert!(record["duration_s"].as_f64().unwrap() > 1.0, "time goes on meanwhile");
}

#[test]
fn nothing_is_left_of_what_was_killed() {
    if cannot() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // A program that leaves others behind.
    let script = &format!("sleep {FOREVER} & setsid sleep {FOREVER} & echo started; cat");
    let started = |shell: &mut Running| {
        let mut line = String::new();
        BufReader::new(shell.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
    };
    // The processes that it left end with it.
    let mut shell = Running::start(&["shell", "--", "sh", "-c", script]);
    started(&mut shell);
    let mine = shell.nodes();
    let output = shell.end();
    let said = stderr(&output);
    assert!(said.contains("2 processes were still running and were killed"), "{said}");
    assert!(mine.iter().all(|node| !published().unwrap().contains(node)));

    // The child is killed: the shell has the exit status of a killed program.
    let mut shell = Running::start(&["shell", "--", "sh", "-c", script]);
    started(&mut shell);
    let node = shell.node("inside");
    let first = processes(&node).into_iter().min().unwrap();
    signal(first, "KILL");
    assert_eq!(shell.end().status.code(), Some(137));

    // The parent is killed at fifty moments, also before it has begun. Without a sweep, its
    // processes are gone nevertheless, in new sessions and at the far end too.
    let far = format!("setsid {script}");
    for number in 0..50 {
        let mut arguments = vec!["shell"];
        if number % 2 == 0 {
            arguments.extend(["--peer", &far]);
        }
        let mut shell = Running::start(&[&arguments[..], &["--", "sh", "-c", script]].concat());
        if number < 2 {
            started(&mut shell);
            assert_ne!(orphans(), Vec::<u32>::new());
        } else {
            thread::sleep(Duration::from_micros(number * 1777 % 60_000));
        }
        let _ = shell.0.kill();
        let _ = shell.0.wait();
    }
    eventually("programs are gone", || orphans().is_empty());
    eventually("names are gone", || published().unwrap().iter().all(Published::is_alive));
    eventually("devices are gone", || devices().is_empty() || others_run());
    // No need of forwarding is noted any longer.
    let left = || fs::read_dir("/run/windward").into_iter().flatten().flatten();
    eventually("all files are gone", || left().all(|f| f.file_name() == "lock") || others_run());
}

/// True if an emulation of another test is running.
fn others_run() -> bool {
    published().unwrap().iter().any(Published::is_alive)
}

/// Processes in a namespace.
fn processes(node: &Published) -> Vec<u32> {
    let network = inside(node, || fs::read_link("/proc/thread-self/ns/net").unwrap());
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number: &u32| {
            fs::read_link(format!("/proc/{number}/ns/net")).is_ok_and(|other| other == network)
        })
        .collect()
}

/// Processes that `nothing_is_left_of_what_was_killed` started and that still run.
fn orphans() -> Vec<u32> {
    running(FOREVER)
}

/// Processes with this in their command line.
fn running(mark: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .filter(|number| {
            let line = fs::read_to_string(format!("/proc/{number}/cmdline")).unwrap_or_default();
            line.contains(mark)
        })
        .collect()
}

/// A duration of sleep that no other process has.
const FOREVER: &str = "98765.4321";

#[test]
fn extreme_links_are_links() {
    if cannot() {
        return;
    }
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let echo = Echo::start();
    let port = echo.0;
    for (rate, comes_back) in [("1bit", false), ("100Gbit", true)] {
        let mut shell = Running::start(&["shell", "--rate", rate, "--json", "--", "cat"]);
        let node = shell.node("inside");
        let times = inside(&node, move || exchange("outside", port, 1, 100));
        assert_eq!(times[0].is_some(), comes_back, "{rate}");
        let output = shell.end();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(last_line(&output)["flows"][0]["name"], "outside-1");
    }
}

#[test]
fn a_shell_needs_exactly_one_port() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new(NODES);
    let scenario = sandbox.scenario().display().to_string();
    let two = "flows.+={ group = 'b', protocol = 'outside:port', from = 'client', to = 'router' }";
    let words = "a shell needs exactly one port, but the scenario has 2";
    crate::bad_input::refused(&["shell", &scenario, "--set", two], &[words]);
}

#[test]
fn without_rights_it_says_what_to_do_or_does_it_anyway() {
    if cannot() {
        return;
    }
    // The binary in a place that every user can read.
    let folder = Path::new("/tmp").join(format!("windward-rights-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let binary = folder.join("windward");
    fs::copy(env!("CARGO_BIN_EXE_windward"), &binary).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&binary)
        .args(["shell", "--delay", "1ms", "--", "echo", "inside"])
        .current_dir("/")
        .output();
    fs::remove_dir_all(&folder).unwrap();
    let Ok(output) = run else {
        println!("skipped: there is no setpriv");
        return;
    };
    let error = stderr(&output);
    match output.status.code() {
        Some(0) => assert_eq!(output.stdout, b"inside\n"),
        Some(1) => {
            let advice = ["allow it: chmod 666 /dev/net/tun", "allow user namespaces"];
            assert!(advice.iter().any(|advice| error.contains(advice)), "{error}");
        }
        other => panic!("{other:?}: {error}"),
    }
}
