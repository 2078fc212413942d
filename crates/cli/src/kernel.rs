//! `windward kernel`: controllers in the TCP of this machine's kernel.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use windward_core::protocols::{PROTOCOLS, find};
use windward_kernel::{
    Connection, Counters, Daemon, Group, Groups, Object, Row, Selection, Settings,
};

use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::{output, signals};

/// Where the program is pinned in the file system of BPF.
const PINS: &str = "/sys/fs/bpf/windward";

/// The state of the daemon, as JSON. The daemon holds a lock on it.
const STATE: &str = "/run/windward-kernel.json";

/// Control the TCP connections of this machine, without a change of any program
///
/// The kernel goes on to send, to detect losses and to retransmit. Only the sender of the data
/// needs Windward. Needs Linux 5.13 or later with BTF, and the rights of root.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windward kernel run upwind -- rsync -a photos/ host:photos/
  windward kernel load upwind --port 443
  windward kernel load cubic --default
  windward kernel status

While the daemon is silent or gone, connections go on with NewReno.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Run a program whose connections have this controller; nothing else on this machine changes
    Run(RunArgs),
    /// Give a controller to connections until Ctrl-C
    Load(LoadArgs),
    /// Show what is loaded
    Status(StatusArgs),
    /// Take the controller out of the kernel, also one that another command loaded
    Unload,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Protocol: `windward list` has those that run in the kernel
    #[arg(value_name = "ROW")]
    row: String,

    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Protocol: `windward list` has those that run in the kernel
    #[arg(value_name = "ROW")]
    row: String,

    #[command(flatten)]
    which: Which,
}

/// The connections that have the controller: those that begin from now on.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Which {
    /// Connections of the programs in this control group (version 2)
    #[arg(long, value_name = "DIRECTORY")]
    cgroup: Option<PathBuf>,

    /// Connections with this local port: those that a server on it accepts
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// All connections of this network namespace that choose no other controller, and users may
    /// choose it
    #[arg(long, conflicts_with_all = ["cgroup", "port"])]
    default: bool,
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn kernel(args: &Args, quiet: bool) -> Result<(), Failure> {
    match &args.command {
        Action::Run(args) => run(args),
        Action::Load(args) => load(args, quiet),
        Action::Status(args) => status(args),
        Action::Unload => unload(),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::Failed(why.to_string())
}

/// The row of that name, if it runs in the kernel.
fn row(name: &str) -> Result<Row, Failure> {
    let Some(protocol) = find(name) else {
        return Err(Failure::Input(format!("there is no protocol `{name}`; see `windward list`")));
    };
    Row::of(protocol).map_err(|why| {
        let runs = |row: &&_| Row::of(row).is_ok();
        let names: Vec<&str> = PROTOCOLS.iter().filter(runs).map(|row| row.name).collect();
        let names = names.join(", ");
        Failure::Input(format!("`{name}` cannot run in the kernel: {why}; take one of {names}"))
    })
}

/// The program in the kernel, which is taken out when this is dropped. Nobody else drives it while
/// this process holds the lock.
struct Loaded {
    object: Object,
    state: File,
    name: String,
    told: Stopwatch,
    /// The default controller of this network namespace before, if it was changed.
    before: Option<String>,
}

impl Loaded {
    /// Loads the program for the row of that name, or takes over the one that a daemon which was
    /// killed has left, with its connections.
    fn new(name: &str, for_everybody: bool) -> Result<Self, Failure> {
        let file = |why: std::io::Error| failed(format!("{STATE}: {why}"));
        let state = File::options().write(true).read(true).create(true).truncate(false).open(STATE);
        let state = state.map_err(file)?;
        if state.try_lock().is_err() {
            return Err(Failure::Failed(
                "another `windward kernel` drives connections; end it first".to_owned(),
            ));
        }
        let pins = Path::new(PINS);
        windward_kernel::mount_bpf().map_err(failed)?;
        let settings = Settings { for_everybody, ..Settings::default() };
        let object = match Object::is_loaded(pins) {
            true => Object::adopt(pins),
            false => Object::load(pins, &settings),
        };
        let object = object.map_err(failed)?;
        let before = remembered(&state);
        Ok(Loaded { object, state, name: name.to_owned(), told: Stopwatch::start(), before })
    }

    /// Makes the controller the default of this network namespace.
    fn set_default(&mut self) -> Result<(), Failure> {
        let file = |why: std::io::Error| failed(format!("{DEFAULT}: {why}"));
        if self.before.is_none() {
            let before = fs::read_to_string(DEFAULT).map_err(file)?;
            self.before = Some(before.trim().to_owned());
        }
        fs::write(DEFAULT, "windward").map_err(file)
    }

    /// Drives connections until the flag is set, or the program was taken out.
    fn drive(&mut self, row: Row, stop: &AtomicBool) -> Result<(), Failure> {
        let Loaded { object, state, name, told, before } = self;
        let mut gone = false;
        Daemon::new(object, row)
            .run(stop, |daemon| {
                if told.elapsed() < TELLING {
                    return;
                }
                *told = Stopwatch::start();
                gone = !Object::is_loaded(object.pins());
                if gone {
                    stop.store(true, Ordering::Relaxed);
                }
                // A state that cannot be written is not shown.
                let text = of_daemon(name, before.as_deref(), daemon).to_string();
                let _ = state.set_len(0);
                let _ = state.write_all_at(text.as_bytes(), 0);
            })
            .map_err(failed)?;
        match gone {
            true => {
                Err(Failure::Failed("the controller was taken out by another process".to_owned()))
            }
            false => Ok(()),
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        restore(self.before.as_deref());
        let _ = fs::remove_file(STATE);
        if Object::is_loaded(self.object.pins())
            && let Err(why) = Object::unload(self.object.pins())
        {
            output::note(&why.to_string());
        }
    }
}

/// Time between two writings of the state.
const TELLING: Duration = Duration::from_secs(1);

/// The default controller before, as a daemon that was killed has left it in the state.
fn remembered(mut state: &File) -> Option<String> {
    let mut text = String::new();
    state.read_to_string(&mut text).ok()?;
    let state: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(state["default_before"].as_str()?.to_owned())
}

/// Gives the network namespace its default back.
fn restore(before: Option<&str>) {
    if let Some(before) = before
        && let Err(why) = fs::write(DEFAULT, before)
    {
        output::note(&format!("{DEFAULT}: {why}; it was `{before}`"));
    }
}

fn of_daemon(name: &str, before: Option<&str>, daemon: &Daemon<'_>) -> serde_json::Value {
    let connection = |connection: &Connection| {
        let (last, figures) = (connection.last(), connection.figures());
        json!({
            "remote": last.remote.to_string(),
            "local_port": last.local_port,
            "namespace": last.namespace,
            "phase": figures.phase,
            "window": figures.window / u64::from(figures.mtu),
            "cwnd": last.cwnd,
            "pacing_rate_bps": figures.pacing_rate.map(|rate| rate.saturating_mul(8)),
            "srtt_ms": figures.srtt.as_secs_f64() * 1e3,
            "min_rtt_ms": figures.min_rtt.as_secs_f64() * 1e3,
            "sent": figures.sent,
            "lost": figures.lost,
            "marks": figures.marks,
            "timeouts": connection.timeouts(),
        })
    };
    json!({
        "row": name,
        "pid": std::process::id(),
        "default_before": before,
        "connections": daemon.connections().map(connection).collect::<Vec<_>>(),
    })
}

/// Runs a program in a control group of its own, and drives its connections.
fn run(args: &RunArgs) -> Result<(), Failure> {
    let row = row(&args.row)?;
    let mut loaded = Loaded::new(&args.row, false)?;
    let groups = Groups::open().map_err(failed)?;
    let group =
        Group::make(&groups, &format!("windward-{}", std::process::id())).map_err(failed)?;
    let _selection = Selection::of(group.path(), None).map_err(failed)?;
    let (program, arguments) = args.command.split_first().expect("clap requires one");
    let mut command = Command::new(program);
    command.args(arguments);
    let child = group.start(|| command.spawn());
    let mut child = child.map_err(|why| {
        Failure::Program(format!("cannot run {}: {why}", program.to_string_lossy()), 127)
    })?;
    let ended = AtomicBool::new(false);
    let status = thread::scope(|scope| -> Result<ExitStatus, Failure> {
        let wait = scope.spawn(|| {
            let status = child.wait();
            ended.store(true, Ordering::Relaxed);
            status
        });
        let driven = loaded.drive(row, &ended);
        let status = wait.join().unwrap_or_else(|_| Err(std::io::Error::other("its wait failed")));
        driven.and(status.map_err(failed))
    })?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Command(code as u8)),
        (None, signal) => Err(Failure::Command(128 + signal.unwrap_or(0) as u8)),
    }
}

/// The controller of new connections of this network namespace.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Gives a controller to connections until a signal.
fn load(args: &LoadArgs, quiet: bool) -> Result<(), Failure> {
    let row = row(&args.row)?;
    let mut loaded = Loaded::new(&args.row, args.which.default)?;
    let mut _groups = None;
    let mut _selection = None;
    if args.which.default {
        loaded.set_default()?;
    } else {
        let all = Groups::open().map_err(failed)?;
        let group = args.which.cgroup.as_deref().unwrap_or(all.path());
        _selection = Some(Selection::of(group, args.which.port).map_err(failed)?);
        _groups = Some(all);
    }
    if !quiet {
        output::note(&format!("new connections have {}; Ctrl-C takes it away", args.row));
    }
    loaded.drive(row, signals::flag())
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    let pins = Path::new(PINS);
    let counters = match Object::is_loaded(pins) {
        true => Some(Object::adopt(pins).and_then(|object| object.counters()).map_err(failed)?),
        false => None,
    };
    let daemon = fs::read_to_string(STATE).unwrap_or_default();
    let daemon: serde_json::Value = serde_json::from_str(&daemon).unwrap_or_default();
    if args.json {
        return output::print_json(&json!({
            "loaded": counters.is_some(),
            "counters": counters.as_ref().map(of_counters),
            "daemon": daemon,
        }));
    }
    let Some(counters) = counters else { return output::print("not loaded\n") };
    let mut text = match daemon["row"].as_str() {
        Some(row) => format!("{:<14} {row}\n", "row"),
        None => "no daemon: connections have NewReno\n".to_owned(),
    };
    for connection in daemon["connections"].as_array().into_iter().flatten() {
        text += &format!("{connection}\n");
    }
    let serde_json::Value::Object(all) = of_counters(&counters) else { return Ok(()) };
    for (name, value) in all {
        text += &format!("{name:<14} {value}\n");
    }
    output::print(&text)
}

fn of_counters(counters: &Counters) -> serde_json::Value {
    json!({
        "opened": counters.opened,
        "closed": counters.closed,
        "without_slot": counters.without_slot,
        "acks": counters.acks,
        "driven": counters.driven,
        "newreno": counters.newreno,
        "reports": counters.reports,
        "dropped": counters.dropped,
        "timeouts": counters.timeouts,
        "takeovers": counters.takeovers,
    })
}

fn unload() -> Result<(), Failure> {
    let pins = Path::new(PINS);
    if let Ok(state) = File::open(STATE) {
        restore(remembered(&state).as_deref());
        // That of a daemon which was killed: a living one notices that it has nothing to drive.
        let _ = fs::remove_file(STATE);
    }
    match Object::is_loaded(pins) {
        true => Object::unload(pins).map_err(failed),
        false => output::print("not loaded\n"),
    }
}
