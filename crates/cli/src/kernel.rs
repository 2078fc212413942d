//! `windward kernel`: controllers in the TCP of this machine's kernel.

mod law;
mod loaded;
mod show;

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use windward_core::protocols::{PROTOCOLS, find};
use windward_http::Listener;
use windward_kernel::{CONTROLLER, Group, Groups, Object, Row, Selection};

use crate::failure::Failure;
use crate::{http, output, signals, web};
use loaded::{Loaded, PINS, STATE};
use show::Show;

/// The least send buffer that limits no window of a path of 100 Mbit/s and 160 ms, bytes.
const LEAST_BUFFER: u64 = 4 << 20;

const UNIT: &str = include_str!("../../../contrib/windward-kernel.service");

/// Control the TCP connections of this machine, without a change of any program
///
/// The kernel goes on to send, to detect losses and to retransmit. Only the sender of the data
/// needs Windward. Needs Linux 5.13 or later with BTF, and the rights of root.
#[derive(Debug, clap::Args)]
#[command(after_help = r#"Examples:
  windward kernel run upwind -- rsync -a photos/ host:photos/
  windward kernel load upwind --port 443 --existing
  windward kernel load upwind --route 192.0.2.0/24
  windward kernel load cubic --default --web
  windward kernel load 'on_ack = "cwnd + growth / cwnd", on_loss = "0.7 * cwnd"' --port 443
  windward kernel status

While the daemon is silent or gone, connections go on with NewReno. A law of expressions needs no
daemon: the kernel computes it (docs/deploy/kernel.md)."#)]
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
    /// Print a unit file for systemd
    SystemdUnit,
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Protocol: `windward list` has those that run in the kernel; or a law, as 'on_loss = "0.7 *
    /// cwnd"' or '{ window = { .. } }'
    #[arg(value_name = "ROW|LAW")]
    row: String,

    /// Compute the windows of a law in a daemon, which has all functions and variables
    #[arg(long)]
    daemon: bool,

    /// Program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Protocol: `windward list` has those that run in the kernel; or a law, as 'on_loss = "0.7 *
    /// cwnd"' or '{ window = { .. } }'
    #[arg(value_name = "ROW|LAW")]
    row: String,

    /// Compute the windows of a law in a daemon, which has all functions and variables
    #[arg(long)]
    daemon: bool,

    #[command(flatten)]
    which: Which,

    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = http::parse_address)]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    web: web::WebArgs,
}

/// The connections that have the controller: those that begin from now on, and with --existing
/// those in progress.
#[derive(Debug, clap::Args)]
struct Which {
    /// Connections of the programs in this control group (version 2)
    #[arg(long, value_name = "DIRECTORY")]
    cgroup: Option<PathBuf>,

    /// Connections with this local port: those that a server on it accepts
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// Connections to this prefix, such as 192.0.2.0/24 or `default`, by an attribute of its route
    #[arg(long, value_name = "PREFIX")]
    route: Option<String>,

    /// All connections of this network namespace that choose no other controller, and users may
    /// choose it
    #[arg(long, conflicts_with_all = ["cgroup", "port"])]
    default: bool,

    /// The same for another network namespace: a name as of `ip netns`, or a path such as
    /// /proc/PID/ns/net
    #[arg(long, value_name = "NAME", conflicts_with_all = ["cgroup", "port", "route", "default"])]
    namespace: Option<PathBuf>,

    /// Connections in progress too, and sockets that listen
    #[arg(long)]
    existing: bool,
}

impl Which {
    fn check(&self) -> Result<(), Failure> {
        let Which { cgroup, port, route, default, namespace, existing } = self;
        if route.is_some() && *existing {
            return Err(Failure::Input(
                "--existing cannot tell which connections use a route".to_owned(),
            ));
        }
        match cgroup.is_some()
            || port.is_some()
            || route.is_some()
            || *default
            || namespace.is_some()
        {
            true => Ok(()),
            false => Err(Failure::Input(
                "say which connections: --port, --cgroup, --route, --namespace or --default"
                    .to_owned(),
            )),
        }
    }

    /// The file of the network namespace: a path, or a name as of `ip netns`.
    fn namespace(&self) -> Option<PathBuf> {
        let name = self.namespace.as_deref()?;
        let is_path = name.components().count() > 1;
        Some(if is_path { name.to_owned() } else { Path::new("/run/netns").join(name) })
    }

    /// True if the controller becomes the default of a network namespace.
    fn is_for_all(&self) -> bool {
        self.default || self.namespace.is_some()
    }
}

#[derive(Debug, clap::Args)]
struct StatusArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The option `--web`.
    pub(crate) fn web(&self) -> Option<&web::WebArgs> {
        match &self.command {
            Action::Load(args) => Some(&args.web),
            _ => None,
        }
    }
}

/// Runs the command.
pub(crate) fn kernel(args: &Args, charts: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    match &args.command {
        Action::Run(args) => run(args),
        Action::Load(args) => load(args, charts, quiet),
        Action::Status(args) => status(args),
        Action::Unload => unload(),
        Action::SystemdUnit => output::print(UNIT),
    }
}

fn failed(why: impl std::fmt::Display) -> Failure {
    Failure::Failed(why.to_string())
}

/// The row of that name, if it runs in the kernel.
fn row(name: &str) -> Result<Row, Failure> {
    if law::is_law(name) {
        return Row::of(&law::protocol(name)?).map_err(Failure::Input);
    }
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

/// Runs a program whose connections have a controller.
fn run(args: &RunArgs) -> Result<(), Failure> {
    if law::is_law(&args.row) && !args.daemon {
        return law::run(args);
    }
    let row = row(&args.row)?;
    let mut loaded = Loaded::new(&args.row, false)?;
    in_group(&args.command, CONTROLLER, None, |mut child| {
        // Ctrl-C ends the program, and then this command goes on.
        let _ = signals::flag();
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let wait = scope.spawn(|| {
                let status = child.wait();
                ended.store(true, Ordering::Relaxed);
                status
            });
            let driven = loaded.drive(row, &ended, Show::default());
            let status =
                wait.join().unwrap_or_else(|_| Err(std::io::Error::other("a wait failed")));
            driven.and(status.map_err(failed))
        })
    })
}

/// Starts a program in a control group of its own, whose connections have this controller. Waits
/// for it.
fn in_group(
    command: &[OsString],
    controller: &str,
    pin: Option<&Path>,
    wait: impl FnOnce(Child) -> Result<ExitStatus, Failure>,
) -> Result<(), Failure> {
    let groups = Groups::open().map_err(failed)?;
    let group =
        Group::make(&groups, &format!("windward-{}", std::process::id())).map_err(failed)?;
    let mut selection = Selection::of(controller, group.path(), None).map_err(failed)?;
    if let Some(pin) = pin {
        selection.pin(pin).map_err(failed)?;
    }
    let (program, arguments) = command.split_first().expect("clap requires one");
    let child = group.start(|| Command::new(program).args(arguments).spawn()).map_err(|why| {
        Failure::Program(format!("cannot run {}: {why}", program.to_string_lossy()), 127)
    })?;
    let status = wait(child)?;
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::Command(code as u8)),
        (None, signal) => Err(Failure::Command(128 + signal.unwrap_or(0) as u8)),
    }
}

/// Calls a function while the row of that name is in the kernel, for connections that choose it.
///
/// # Errors
/// The reason, as text, if the row cannot be put there or is taken out before the function returns.
pub(crate) fn during(name: &str, work: &mut (dyn FnMut() + Send)) -> Result<(), String> {
    let done = || {
        let row = row(name)?;
        let mut loaded = Loaded::new(name, true)?;
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let work = scope.spawn(|| {
                let done = catch_unwind(AssertUnwindSafe(work));
                ended.store(true, Ordering::Relaxed);
                done
            });
            let driven = loaded.drive(row, &ended, Show::default());
            work.join().flatten().unwrap_or_else(|panic| resume_unwind(panic));
            driven
        })
    };
    done().map_err(|failure| match failure {
        Failure::Input(why) | Failure::Failed(why) => why,
        failure => format!("{failure:?}"),
    })
}

/// Gives a controller to connections until a signal.
fn load(args: &LoadArgs, charts: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    let LoadArgs { row: name, which, .. } = args;
    which.check()?;
    if law::is_law(name) && !args.daemon {
        if args.metrics.is_some() || charts.is_some() {
            return Err(Failure::Input(
                "no process sees the connections of a law: leave --metrics and --web, or write \
                 --daemon"
                    .to_owned(),
            ));
        }
        return law::load(name, which, quiet);
    }
    let row = row(name)?;
    let mut loaded = Loaded::new(name, which.is_for_all())?;
    let _kept = loaded.held().apply(which, None, quiet)?;
    let show = Show::start(name, args.metrics, charts, quiet)?;
    if !quiet {
        output::note(&format!("new connections have {name}; Ctrl-C takes it away"));
        tell_limits();
    }
    loaded.drive(row, signals::flag(), show)
}

/// Says what will limit windows.
fn tell_limits() {
    let file = "/proc/sys/net/ipv4/tcp_wmem";
    let most = fs::read_to_string(file).ok();
    let most = most.and_then(|text| text.split_whitespace().nth(2)?.parse::<u64>().ok());
    if let Some(most) = most.filter(|most| *most < LEAST_BUFFER) {
        output::note(&format!(
            "net.ipv4.tcp_wmem limits send buffers to {} kB, and thereby windows to about {} kB; \
             where paths hold more, raise its third number",
            most / 1024,
            most / 2048
        ));
    }
}

fn status(args: &StatusArgs) -> Result<(), Failure> {
    windward_kernel::check_rights(false).map_err(failed)?;
    let pins = Path::new(PINS);
    if let Some(status) = law::status(pins)? {
        return status.print(args.json);
    }
    let counters = match Object::is_loaded(pins) {
        true => Some(Object::adopt(pins).and_then(|object| object.counters()).map_err(failed)?),
        false => None,
    };
    // A daemon that lives holds the lock.
    let state = File::open(STATE).ok().filter(|state| state.try_lock_shared().is_err());
    let state = state.and_then(|_| fs::read_to_string(STATE).ok()).unwrap_or_default();
    let daemon: serde_json::Value = serde_json::from_str(&state).unwrap_or_default();
    show::status(counters.as_ref(), &daemon, args.json)
}

fn unload() -> Result<(), Failure> {
    windward_kernel::check_rights(false).map_err(failed)?;
    let state = File::open(STATE);
    let undo = state.as_ref().map(loaded::remembered).unwrap_or_default();
    if !Object::is_loaded(Path::new(PINS)) && undo.is_empty() {
        return output::print("not loaded\n");
    }
    // The state of a daemon that was killed: a living one notices that it has nothing to drive.
    let _ = fs::remove_file(STATE);
    loaded::take_out(&undo);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_leaves_the_kernel_when_the_work_panics() {
        let is_there = || Object::is_loaded(Path::new(PINS));
        let mut was_there = false;
        if let Err(why) = during("newreno", &mut || was_there = is_there()) {
            println!("skipped: {why}");
            return;
        }
        assert!(was_there && !is_there());
        let panicked = catch_unwind(|| during("newreno", &mut || panic!("on purpose")));
        let panic = panicked.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"on purpose"));
        assert!(!is_there());
    }
}
