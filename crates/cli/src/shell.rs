//! `windward shell`: a program behind a scenario.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;

use windward_core::units::{Duration, Time};
use windward_http::Listener;
use windward_net::emulation::Until;
use windward_net::link::Link;
use windward_net::source::Source;
use windward_net::testbed::{self, Testbed};
use windward_netns::{Inside, Masquerade, Namespace, Rights, sweep};
use windward_sim::text::shell_word;

use crate::emulate::or_shell;
use crate::emulation::{Emulation, Telling, Views};
use crate::failure::Failure;
use crate::live::Style;
use crate::output;
use crate::scenario_args::{Changes, parse_change};
use crate::{signals, web};

/// Run a program behind a link, or behind a whole scenario, on a real clock
///
/// The program runs in a network namespace that is connected only by the links of the scenario. It
/// reaches this machine as `outside`, and through it all hosts that this machine reaches. Shells
/// can be nested.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windward shell --rate 10mbit --delay 40ms --loss 5% -- curl -o /dev/null https://example.org
  windward shell --rate 20mbit --delay 300ms --up rate=2mbit --queue 1bdp
  windward shell satellite.toml --record page.rec -- firefox
  windward shell --delay 50ms --peer 'iperf3 -s' -- iperf3 -c outside

Exit status: that of the program, if it started.")]
pub(crate) struct Args {
    /// Scenario, a TOML file, in place of the options for a link
    ///
    /// The program runs where the flow with protocol = "outside:port" ends. A dumbbell or a parking
    /// lot without such a flow gets one.
    #[arg(value_name = "SCENARIO", conflicts_with = "Link")]
    file: Option<PathBuf>,

    #[command(flatten)]
    link: LinkArgs,

    /// Probability with which each direction loses a packet
    #[arg(long, value_name = "PROBABILITY", help_heading = "Link", conflicts_with = "file")]
    loss: Option<String>,

    #[command(flatten)]
    changes: Changes,

    /// Shell command to run at the far end, in its own network namespace in place of the network of
    /// this machine
    #[arg(long, value_name = "COMMAND")]
    peer: Option<OsString>,

    /// Show links and flows on standard error while the program runs
    #[arg(long, conflicts_with = "json")]
    live: bool,

    #[command(flatten)]
    telling: Telling,

    /// Program and its arguments [default: your shell]
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Options for one link, the same in both directions unless --up or --down say otherwise.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "Link")]
pub(crate) struct LinkArgs {
    /// Rate of each direction, bits per second, such as 10mbit [default: unlimited]
    #[arg(long, value_name = "RATE", help_heading = "Link")]
    rate: Option<String>,

    /// Delay of each direction: the RTT is twice that
    #[arg(long, value_name = "TIME", help_heading = "Link")]
    delay: Option<String>,

    /// Size of the queues: packets (50p), bytes (64kB) or bandwidth-delay products (1bdp) [default:
    /// 1bdp]
    #[arg(long, value_name = "SIZE", help_heading = "Link")]
    queue: Option<String>,

    /// AQM of the queues, such as codel or fq-codel
    #[arg(long, value_name = "KIND", help_heading = "Link")]
    aqm: Option<String>,

    /// Rate over time, a trace file of mahimahi
    #[arg(long, value_name = "FILE", conflicts_with = "rate", help_heading = "Link")]
    trace: Option<PathBuf>,

    /// Key of a link, as in scenario files, for the direction in which the program sends, such as
    /// rate=2mbit
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change, help_heading = "Link")]
    up: Vec<(String, String)>,

    /// Key of a link for the direction in which the program receives
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change, help_heading = "Link")]
    down: Vec<(String, String)>,
}

impl LinkArgs {
    /// The link, with a probability of loss.
    pub(crate) fn link(&self, loss: Option<&String>) -> Link {
        let LinkArgs { rate, delay, queue, aqm, trace, up, down } = self.clone();
        Link { rate, delay, queue, aqm, loss: loss.cloned(), trace, up, down }
    }
}

impl Args {
    /// The option `--web`.
    pub(crate) fn web(&self) -> &web::WebArgs {
        &self.telling.web
    }

    fn source(&self) -> Result<Source, Failure> {
        let mut source = match &self.file {
            None => self.link.link(self.loss.as_ref()).source(crate::stacks())?,
            Some(file) => Source::read(file, true, crate::stacks())?,
        };
        source.changes.extend(self.changes.list());
        source.add_port()?;
        Ok(source)
    }
}

/// Checks that the program exists before anything is set up for it.
fn find_program(program: &OsStr) -> Result<(), Failure> {
    let cannot = |why: &str, status| {
        Failure::Program(format!("cannot start {}: {why}", program.display()), status)
    };
    let is_file = |path: &Path| fs::metadata(path).is_ok_and(|file| file.is_file());
    let is_executable =
        |path: &Path| fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    let with_slash = program.as_encoded_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = match with_slash {
        true => vec![program.into()],
        false => {
            // The default of execvp(3) where PATH is not set.
            let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
            std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
        }
    };
    let found: Vec<&PathBuf> = candidates.iter().filter(|path| is_file(path)).collect();
    match found.iter().any(|path| is_executable(path)) {
        true => Ok(()),
        false if !found.is_empty() => Err(cannot("it is not executable", 126)),
        false if with_slash => Err(cannot("there is no such file", 127)),
        false => Err(cannot("there is no such program in PATH", 127)),
    }
}

/// Time in which a program may end by itself after a signal.
const GRACE: Duration = Duration::from_millis(300);

pub(crate) fn shell(
    args: &Args,
    rights: Rights,
    listener: Option<Listener>,
    quiet: bool,
) -> Result<(), Failure> {
    output::claim_json(args.telling.json)?;
    let source = args.source()?;
    let (program, arguments) = or_shell(&args.command);
    find_program(&program)?;
    let present = rights == Rights::OfRoot && args.peer.is_none();
    let options = testbed::Options { present, default_routes: true, ..testbed::Options::default() };
    let style = match (args.telling.json, args.live) {
        (true, _) => Style::Json,
        (false, true) => Style::People,
        (false, false) => Style::Hidden,
    };
    let words = [&program].into_iter().chain(arguments);
    let words = words.map(|word| shell_word(&word.to_string_lossy()));
    let words = words.collect::<Vec<_>>().join(" ");
    let views = Views { command: "windward shell", style, listener, program: Some(words) };
    sweep()?;
    let mut emulation = Emulation::new(&source, &args.telling, views, &options, quiet)?;
    let ends = PortEnds::prepare(&mut emulation.inner.testbed, &source, rights, present)?;
    if !present && args.peer.is_none() && !quiet {
        output::note(
            "without root, the program reaches only the command of --peer; run as root to give it access \
             to the network",
        );
    }
    let peer = match &args.peer {
        Some(peer) => Some(ends.start_peer(&mut emulation.inner.testbed, peer)?),
        None => None,
    };
    let mut child =
        ends.start(&mut emulation.inner.testbed, &program, arguments, args.telling.json)?;
    let testbed = &mut emulation.inner.testbed;
    testbed.end_with(child.as_fd())?;
    testbed.stop_on(Some(signals::flag()));
    let length = args.changes.duration()?;
    emulation.begin(quiet);
    let until = length.map_or(Time::NEVER, |length| emulation.inner.now() + length);
    let stopped = emulation.run(until)? == Until::Stopped;
    emulation.inner.testbed.stop_on(None);
    if stopped && !emulation.inner.testbed.has_ended() {
        // Ctrl-C in a terminal also reaches the program, which may still write something.
        emulation.run(emulation.inner.now() + GRACE)?;
    }
    if !emulation.inner.testbed.has_ended() {
        child.terminate()?;
        emulation.run(emulation.inner.now() + GRACE)?;
    }
    child.kill()?;
    let status = child.wait()?;
    if peer.is_some() {
        // The peer and its children were expected to end now: nothing is reported.
        drop(peer);
        end(&mut emulation.inner.testbed, &ends.outside).kill_all()?;
    }
    emulation.finish(quiet, true)?;
    drop(ends);
    match u8::try_from(Inside::exit_code(status)) {
        Ok(0) => Ok(()),
        Ok(status) => Err(Failure::Command(status)),
        Err(_) => Err(Failure::Command(1)),
    }
}

/// The namespace of an end of the port that is not the network of this machine.
fn end<'a>(testbed: &'a mut Testbed, node: &str) -> &'a mut Namespace {
    testbed.namespace(node).expect("the near end is one, and with a peer the far one too")
}

/// Both ends of the port of a shell.
#[derive(Debug)]
struct PortEnds {
    outside: String,
    inside: String,
    address: IpAddr,
    /// Lets packets from inside go on beyond this machine.
    _masquerade: Option<Masquerade>,
}

impl PortEnds {
    fn prepare(
        testbed: &mut Testbed,
        source: &Source,
        rights: Rights,
        present: bool,
    ) -> Result<Self, Failure> {
        let ends = testbed.ends();
        let [[outside, inside]] = ends else {
            return Err(Failure::Input(format!(
                "{}: a shell needs exactly one port, but the scenario has {}; use windward emulate",
                source.name,
                ends.len()
            )));
        };
        let (outside, inside) = (outside.clone(), inside.clone());
        let pair = testbed.pair(0).expect("a port has a pair of devices");
        let address = IpAddr::from(pair.outside.ipv4);
        let addresses: Vec<IpAddr> =
            [address].into_iter().chain(pair.outside.ipv6.map(IpAddr::from)).collect();
        for node in [&inside, &outside] {
            // The far end is the network of this machine, unless there is a peer.
            let Some(namespace) = testbed.namespace(node) else { continue };
            if *node == inside {
                // The far end is also `outside`, in addition to its name in the scenario.
                let names = ["outside", &outside];
                let names = &names[..if outside == "outside" { 1 } else { 2 }];
                let hosts = addresses.iter().flat_map(|at| names.iter().map(|name| (*at, *name)));
                namespace.set_hosts(hosts);
                if present {
                    namespace.use_resolver(address)?;
                }
            }
            // Under these names, a later command finds and removes the remains of a killed one.
            // Only root can write them.
            if rights == Rights::OfRoot {
                namespace.publish(node)?;
            }
        }
        let pair = testbed.pair(0).expect("a port has a pair of devices");
        let masquerade = if present { Some(pair.masquerade(None)?) } else { None };
        Ok(PortEnds { outside, inside, address, _masquerade: masquerade })
    }

    /// Starts the command at the far end and waits briefly until it listens. It is an error if it
    /// fails before that. One that succeeds may have left a server in the background, or be done.
    fn start_peer(&self, testbed: &mut Testbed, command: &OsStr) -> Result<Inside, Failure> {
        let namespace = end(testbed, &self.outside);
        let mut peer = namespace.spawn("/bin/sh", |sh| {
            // Its output is not a result; its errors are shown.
            sh.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null())
        })?;
        for _ in 0..100 {
            // Read before the check for listeners: a server that listened may end without an error.
            let ended = peer.try_wait()?;
            if namespace.run(testbed::listens_here)? || signals::check().is_err() {
                break;
            }
            if let Some(status) = ended
                && !status.success()
            {
                let how = match status.code() {
                    Some(code) => format!("ended with status {code}"),
                    None => format!("was ended by a signal ({status})"),
                };
                return Err(Failure::Failed(format!(
                    "--peer '{}' {how} before it listened on any port: run a server that keeps running",
                    command.display()
                )));
            }
            thread::sleep(std::time::Duration::from_millis(20));
        }
        Ok(peer)
    }

    fn start(
        &self,
        testbed: &mut Testbed,
        program: &OsStr,
        arguments: &[OsString],
        json: bool,
    ) -> Result<Inside, Failure> {
        let namespace = end(testbed, &self.inside);
        // Standard output then belongs to the JSON lines or to an output file.
        let stdout = match json || output::is_claimed() {
            true => Stdio::from(io::stderr().as_fd().try_clone_to_owned()?),
            false => Stdio::inherit(),
        };
        Ok(namespace.spawn(program, |child| {
            child.args(arguments).env("WINDWARD_OUTSIDE", self.address.to_string()).stdout(stdout)
        })?)
    }
}
