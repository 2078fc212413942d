//! `windward compare`: as root, with /dev/net/tun.

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::bad_input::refused;
use crate::emulate::{cannot, signal};
use crate::{Sandbox, command, stderr, windward};

const LINK: [&str; 7] = ["compare", "--rate", "10mbit", "--delay", "10ms", "--queue", "50p"];

fn compare(args: &[&str]) -> Output {
    windward(LINK.iter().chain(args))
}

fn json(args: &[&str]) -> Value {
    of(&compare(&[args, &["--json"]].concat()))
}

/// The document of a comparison, whose exit status says whether all runs are usable.
fn of(output: &Output) -> Value {
    let result: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", stderr(output)));
    let mut runs = result["runs"].as_array().unwrap().iter();
    let expected = i32::from(!runs.all(|run| run["unusable"].is_null()));
    assert_eq!(output.status.code(), Some(expected), "{}", stderr(output));
    result
}

/// Usable runs: the machine of a test may be busy.
fn usable(result: &Value) -> Vec<&Value> {
    let runs = result["runs"].as_array().unwrap().iter();
    let (good, bad): (Vec<&Value>, Vec<&Value>) = runs.partition(|run| run["unusable"].is_null());
    for run in bad {
        let why = run["unusable"].as_str().unwrap();
        println!("skipped: {} at {}: {why}", run["program"], run["loss"]);
        assert!(why.contains("too slow twice: "), "{why}");
    }
    good
}

#[test]
fn rows_do_on_the_real_clock_what_they_do_in_virtual_time() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("");
    let records = sandbox.path("records");
    let result = json(&[
        "--records",
        &records.display().to_string(),
        "--programs",
        "upwind,sack,xcp",
        "--loss",
        "0,2%",
        "--runs",
        "1",
        "-t",
        "2s",
        "--warmup",
        "0s",
        "--simulate",
        "--routers",
        "--alone",
        "--jobs",
        "2",
    ]);
    assert_eq!(result["runs"].as_array().unwrap().len(), 6);
    assert_eq!(result["rows"].as_array().unwrap().len(), 6);
    // The comparison has checked their fingerprints.
    for record in ["upwind-0-1.rec", "sack-0.02-1.rec", "xcp-0.02-1.rec"] {
        let output = windward(["replay", "--json", &records.join(record).display().to_string()]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    for run in usable(&result) {
        let number = |of: &str, key: &str| run[of][key].as_f64().unwrap();
        let [real, simulated] = ["alone", "simulated"].map(|of| number(of, "goodput_bps"));
        let capacity = 10e6 * (1.0 - run["loss"].as_f64().unwrap());
        // One run of two seconds on a busy machine is inaccurate; factors of this size are not.
        assert!(real > 0.2 * simulated && real < 3.0 * simulated, "{run}");
        assert!(real < 1.2 * capacity, "{run}");
        let sent = number("alone", "sent_per_delivered");
        assert!((1.0..2.0).contains(&sent), "{run}");
        assert!(number("alone", "mean_queue_packets") <= 50.0, "{run}");
    }
}

#[test]
fn a_program_of_another_name_runs_its_rows() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("");
    let renamed = sandbox.path("renamed");
    fs::copy(env!("CARGO_BIN_EXE_windward"), &renamed).unwrap();
    let ask = ["--programs", "newreno", "--alone", "--runs", "1", "-t", "2s", "--warmup", "0s"];
    let output = Command::new(renamed).args(LINK).args(ask).arg("--json").output().unwrap();
    for run in usable(&of(&output)) {
        assert!(run["alone"]["goodput_bps"].as_f64().unwrap() > 1e6, "{run}");
    }
}

#[test]
fn what_the_port_delivered_counts_and_what_is_left_to_another() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("");
    let table = sandbox.path("mine.toml");
    let client = "{windward} perf client outside -R --protocol cubic -t {total}s";
    let entry = |name: &str, more: &str| {
        format!(
            "[[programs]]\nname = \"{name}\"\nserver = \"{{windward}} perf server\"\nclient = \"{client}\"\n{more}\n"
        )
    };
    let text = entry("counted", "")
        + &entry("absent", "needs = [\"no-such-command-of-anybody\"]")
        + &entry("strange", "congestion_control = \"no-such-control\"")
        + "[[programs]]\nname = \"broken\"\nserver = \"true\"\nclient = \"echo no luck >&2; exit 3\"\n";
    fs::write(&table, text).unwrap();
    let table = table.display().to_string();
    let out = sandbox.path("out");
    let args = [
        "--table",
        &table,
        "--programs",
        "counted,broken",
        "--rival",
        "counted",
        "--runs",
        "1",
        "-t",
        "1s",
        "--warmup",
        "1s",
        "--jobs",
        "2",
    ];
    // A program that was named and is missing is an error, before anything runs.
    let output = compare(&["--table", &table, "--programs", "counted,absent,strange", "-q"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    for why in ["no-such-command-of-anybody is not installed", "the kernel has no no-such-control"]
    {
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let result = json(&[&args[..], &["--out", &out.display().to_string()]].concat());
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    let why = runs[1]["unusable"].as_str().unwrap();
    assert!(why.contains("status 3: no luck") && runs[1]["alone"].is_null(), "{why}");
    if runs[0]["unusable"].is_null() {
        let number = |of: &str, key: &str| runs[0][of][key].as_f64().unwrap();
        assert_eq!(number("alone", "goodput_bps"), number("alone", "arrived_bps"));
        let (own, other) = (number("beside", "own_bps"), number("beside", "rival_bps"));
        assert!(own > 0.0 && other > 0.0 && own + other < 11e6, "{own} {other}");
    }
    for file in ["index.html", "programs.csv", "runs.csv", "compare.json"] {
        let text = fs::read_to_string(out.join(file)).unwrap();
        assert!(text.contains("counted") && text.contains("broken"), "{file}");
    }
}

/// Programs of a comparison, two at a time and two each, identified by this environment variable.
struct Long {
    child: Child,
    mark: String,
}

impl Long {
    fn start(name: &str) -> Self {
        let mark = format!("WINDWARD_TEST={name}-{}", std::process::id());
        let (key, value) = mark.split_once('=').unwrap();
        let args = ["--programs", "cubic", "--alone", "--runs", "4", "--jobs", "2", "-t", "600s"];
        let mut start = command(LINK.iter().chain(&args));
        let pipe = start.env(key, value).stdout(Stdio::piped()).stderr(Stdio::piped());
        let long = Long { child: pipe.spawn().unwrap(), mark };
        for _ in 0..1000 {
            // The comparison itself is one of them.
            if long.there().len() >= 5 {
                return long;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("two servers and two clients: {:?}", long.there());
    }

    /// Its processes, whatever started them.
    fn there(&self) -> Vec<String> {
        let mut there = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let of = |file| fs::read_to_string(process.path().join(file)).unwrap_or_default();
            if of("environ").split('\0').any(|variable| variable == self.mark) {
                there.push(format!("{}: {}", process.path().display(), of("cmdline")));
            }
        }
        there
    }

    /// Processes that remain after a moment: the kernel does not end killed ones at once.
    fn left(&self) -> Vec<String> {
        for _ in 0..100 {
            if self.there().is_empty() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        self.there()
    }
}

#[test]
fn ctrl_c_ends_all_of_it() {
    if cannot() {
        return;
    }
    let mut long = Long::start("ctrl-c");
    signal(long.child.id(), "INT");
    let status = long.child.wait().unwrap();
    let mut said = String::new();
    long.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert_eq!(long.left(), [""; 0]);
}

#[test]
fn what_a_killed_one_has_left_ends_with_the_next() {
    if cannot() {
        return;
    }
    let mut long = Long::start("killed");
    long.child.kill().unwrap();
    long.child.wait().unwrap();
    let output = windward(["shell", "--rate", "10mbit", "--peer", "true", "--", "true"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(long.left(), [""; 0]);
}

#[test]
fn an_incomplete_entry_of_a_table_is_told() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("[[programs]]\nname = \"a\"\n");
    let table = sandbox.scenario().display().to_string();
    refused(&[&LINK[..], &["--table", &table]].concat(), &["server"]);
}

#[test]
fn all_programs_are_listed() {
    if cannot() {
        return;
    }
    let output = windward(["compare", "--list"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("linux-cubic") && text.contains("kcptun"), "{text}");
}

/// A comparison of two programs, of which the second waits until a file is there.
struct Interrupted {
    sandbox: Sandbox,
    args: Vec<String>,
}

impl Interrupted {
    /// Sends the signal when the first run is kept and the second is under way.
    fn by(name: &str) -> (Self, Output) {
        let sandbox = Sandbox::new("");
        let [log, go, table, out] =
            ["log", "go", "table.toml", "out"].map(|name| sandbox.path(name).display().to_string());
        let entry = |name: &str, client: &str| {
            format!(
                "[[programs]]\nname = \"{name}\"\nserver = \"true\"\nclient = \"echo {name} >> {log}; {client}\"\n"
            )
        };
        let text = entry("broken", "echo no luck >&2; exit 3")
            + &entry("waits", &format!("[ -e {go} ] || sleep 25; exit 4"));
        fs::write(&table, text).unwrap();
        let args = ["--table", &table, "--programs", "broken,waits", "--alone", "--runs", "1"];
        let args: Vec<String> = args.iter().chain(&["--out", &out]).map(|a| (*a).into()).collect();
        let this = Interrupted { sandbox, args };
        let mut start = this.command(&[]);
        let pipe = start.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = pipe.spawn().unwrap();
        let is_there = || this.log().contains("waits") && this.is_kept();
        for _ in 0..1500 {
            if is_there() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let is_there = is_there();
        signal(child.id(), name);
        let output = child.wait_with_output().unwrap();
        assert!(is_there, "{}", stderr(&output));
        (this, output)
    }

    fn command(&self, more: &[&str]) -> std::process::Command {
        let args = self.args.iter().map(String::as_str);
        command(LINK.iter().copied().chain(args).chain(more.iter().copied()))
    }

    /// The clients that have begun, in order.
    fn log(&self) -> String {
        fs::read_to_string(self.sandbox.path("log")).unwrap_or_default()
    }

    /// True if the first run is in the journal.
    fn is_kept(&self) -> bool {
        let files = fs::read_dir(self.sandbox.path("out/.windward")).into_iter().flatten();
        files.flatten().any(|file| {
            let bytes = fs::read(file.path()).unwrap_or_default();
            bytes.windows(6).any(|word| word == b"broken")
        })
    }

    /// Resumes it, and checks that no other comparison can be resumed.
    fn resume(&self) {
        fs::write(self.sandbox.path("go"), "").unwrap();
        let other = self.command(&["--resume", "--seed", "7"]).output().unwrap();
        assert_eq!(other.status.code(), Some(2), "{}", stderr(&other));
        assert!(stderr(&other).contains("another run was interrupted"), "{}", stderr(&other));
        // The second time it is complete, and printed again.
        for _ in 0..2 {
            let output = self.command(&["--resume"]).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            assert!(stderr(&output).contains("2 of 2 runs are unusable"), "{}", stderr(&output));
            assert_eq!(self.log(), "broken\nwaits\nwaits\n");
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(text.starts_with("UNUSABLE: 2 of 2 runs are unusable"), "{text}");
            assert!(text.contains("status 3: no luck") && text.contains("status 4"), "{text}");
            assert!(!text.contains("Incomplete"), "{text}");
            let runs = fs::read_to_string(self.sandbox.path("out/runs.csv")).unwrap();
            assert_eq!(runs.lines().count(), 3, "{runs}");
        }
        // The existing page is Windward's: it may be replaced.
        let anew = self.command(&["--quiet"]).output().unwrap();
        assert_eq!(anew.status.code(), Some(1), "{}", stderr(&anew));
        assert_eq!(self.log(), "broken\nwaits\nwaits\nbroken\nwaits\n");
    }
}

#[test]
fn all_programs_send_by_one_version_of_ip_and_rows_by_packets_of_the_mtu() {
    if cannot() {
        return;
    }
    let sandbox = Sandbox::new("");
    let table = sandbox.path("table.toml");
    let look = "grep outside /etc/hosts >&2; exit 3";
    let text = format!("[[programs]]\nname = \"looks\"\nserver = \"true\"\nclient = \"{look}\"\n");
    fs::write(&table, text).unwrap();
    let table = table.display().to_string();
    let result = json(&[
        "--table",
        &table,
        "--programs",
        "looks,cubic",
        "--rival",
        "cubic",
        "--simulate",
        "--runs",
        "1",
        "-t",
        "2s",
        "--warmup",
        "0s",
    ]);
    let runs = result["runs"].as_array().unwrap();
    let said = runs[0]["unusable"].as_str().unwrap();
    let said = &said[..said.find("; beside").unwrap_or(said.len())];
    let of_name = |name: &str| {
        let ends = |line: &&str| line.split_whitespace().last() == Some(name);
        said.lines().filter(ends).map(str::to_owned).collect::<Vec<_>>()
    };
    let [four, six] = ["outside", "outside6"].map(of_name);
    assert!(four.len() == 1 && four[0].contains('.') && !four[0].contains("::"), "{said}");
    assert!(six.len() == 1 && six[0].contains("::"), "{said}");
    assert_eq!(runs[1]["simulated"]["packet_size"], 1500);
    if !runs[1]["alone"].is_null() {
        assert_eq!(runs[1]["alone"]["packet_size"], 1500);
    }
    // Two flows of 10 Mbit/s share in virtual time, too.
    let number = |key: &str| runs[1]["simulated_beside"][key].as_f64().unwrap();
    let (own, other) = (number("own_bps"), number("rival_bps"));
    assert!(own > 0.0 && other > 0.0 && own + other < 11e6, "{own} {other}");
}

#[test]
fn an_interrupted_comparison_shows_what_it_has_and_goes_on() {
    if cannot() {
        return;
    }
    let (interrupted, output) = Interrupted::by("INT");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("Incomplete: 1 of 2 runs."), "{text}");
    assert!(text.contains("broken") && !text.contains("waits"), "{text}");
    assert!(stderr(&output).contains("--resume"), "{}", stderr(&output));
    interrupted.resume();
}

#[test]
fn a_killed_comparison_loses_only_the_run_under_way() {
    if cannot() {
        return;
    }
    let (interrupted, output) = Interrupted::by("KILL");
    assert_eq!(output.status.code(), None, "{}", stderr(&output));
    interrupted.resume();
}
