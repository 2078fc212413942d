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
use windward_net::testbed::{self, Testbed};
use windward_netns::{Inside, Masquerade, Rights, sweep};
use windward_sim::scenario::file::ScenarioFile;

use crate::emulate::or_shell;
use crate::emulation::{Emulation, Source, Telling, Until};
use crate::failure::Failure;
use crate::live::Style;
use crate::output;
use crate::scenario_args::{Changes, parse_change};
use crate::signals;

/// Run a program behind a link, or behind a whole scenario, on a real clock
///
/// The program is in a network namespace whose only way out leads over the links of the scenario.
/// It reaches this machine as `outside`, and through it what this machine reaches. Shells nest.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  windward shell --rate 10mbit --delay 40ms --loss 5% -- curl -o /dev/null https://example.org
  windward shell --rate 20mbit --delay 300ms --up rate=2mbit --queue 1bdp
  windward shell satellite.toml --record page.rec -- firefox
  windward shell --delay 50ms --peer 'iperf3 -s' -- iperf3 -c outside

Exit status: that of the program, if it was started.")]
pub(crate) struct Args {
    /// The scenario, a TOML file, instead of the options for a link
    ///
    /// The program is where the flow with protocol = "outside:port" ends. A dumbbell or a parking
    /// lot without one gets one.
    #[arg(value_name = "SCENARIO", conflicts_with = "Link")]
    file: Option<PathBuf>,

    #[command(flatten)]
    link: Link,

    /// Each packet is lost with this probability, each way
    #[arg(long, value_name = "PROBABILITY", help_heading = "Link", conflicts_with = "file")]
    loss: Option<String>,

    #[command(flatten)]
    changes: Changes,

    /// Run this at the far end, by a shell, in a network namespace of its own in place of this
    /// machine's network
    #[arg(long, value_name = "COMMAND")]
    peer: Option<OsString>,

    /// Show links and flows every second, on standard error
    #[arg(long)]
    live: bool,

    #[command(flatten)]
    telling: Telling,

    /// The program and its arguments; your shell if none is given
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One link, the same both ways unless said otherwise.
#[derive(Debug, clap::Args)]
#[group(id = "Link")]
pub(crate) struct Link {
    /// Bits per second of each way, such as 10mbit; unlimited if not given
    #[arg(long, value_name = "RATE", help_heading = "Link")]
    pub(crate) rate: Option<String>,

    /// Delay of each way: the RTT is twice that
    #[arg(long, value_name = "TIME", help_heading = "Link")]
    pub(crate) delay: Option<String>,

    /// What may wait: packets (50p), bytes (64kB) or bandwidth-delay products (1bdp, the default)
    #[arg(long, value_name = "SIZE", help_heading = "Link")]
    pub(crate) queue: Option<String>,

    /// AQM, such as codel or fq-codel
    #[arg(long, value_name = "KIND", help_heading = "Link")]
    pub(crate) aqm: Option<String>,

    /// The rate over time, a trace of mahimahi
    #[arg(long, value_name = "FILE", conflicts_with = "rate", help_heading = "Link")]
    trace: Option<PathBuf>,

    /// A key of links in scenario files for what the program sends, such as rate=2mbit
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change, help_heading = "Link")]
    up: Vec<(String, String)>,

    /// The same for what comes to it
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change, help_heading = "Link")]
    down: Vec<(String, String)>,
}

/// What no link is called like in errors: the options of the command.
pub(crate) const OPTIONS: &str = "the link";
/// Two one-way links; the rate is one that no machine reaches.
pub(crate) const SKELETON: &str = r#"
duration = "1h"
links = [
    { name = "down", from = "outside", to = "inside", both_ways = false, rate = "1Tbit", delay = "0s", queue = "10000p" },
    { name = "up", from = "inside", to = "outside", both_ways = false, rate = "1Tbit", delay = "0s", queue = "10000p" },
]
flows = [{ group = "outside", protocol = "outside:port", from = "outside", to = "inside" }]
"#;
/// A queue that holds less drops the bursts in which programs send.
const LEAST_QUEUE: f64 = 32_000.0;

impl Link {
    /// The scenario of such a link, as changes of the skeleton.
    pub(crate) fn changes(&self, loss: Option<&String>) -> Result<Vec<(String, String)>, Failure> {
        let mut changes = Vec::new();
        for (way, own) in [("down", &self.down), ("up", &self.up)] {
            let mut set = |key: &str, value: &str| {
                changes.push((format!("links.{way}.{key}"), value.to_owned()));
            };
            if let Some(trace) = &self.trace {
                // A literal string of TOML, which has no escapes.
                set("rate", &format!("{{ trace = '{}' }}", trace.display()));
            }
            let given = [
                ("rate", self.rate.as_ref()),
                ("delay", self.delay.as_ref()),
                ("loss", loss),
                ("aqm", self.aqm.as_ref()),
            ];
            for (key, value) in given {
                if let Some(value) = value {
                    set(key, value);
                }
            }
            for (key, value) in own {
                set(key, value);
            }
        }
        let queues = self.queues(&changes)?;
        changes.extend(queues);
        Ok(changes)
    }

    /// The queues, which may be given in bandwidth-delay products of the link that the rest makes.
    fn queues(&self, changes: &[(String, String)]) -> Result<Vec<(String, String)>, Failure> {
        let products = match self.queue.as_deref() {
            None => Some(1.0),
            Some(text) => match text.trim().strip_suffix("bdp") {
                None => None,
                Some(number) => match number.trim().parse::<f64>() {
                    Ok(products) if products > 0.0 && products.is_finite() => Some(products),
                    _ => {
                        return Err(Failure::Input(format!(
                            "--queue {text}: write a number above 0 before bdp, such as 1bdp"
                        )));
                    }
                },
            },
        };
        let source = Source {
            name: OPTIONS.to_owned(),
            text: SKELETON.to_owned(),
            changes: changes.to_vec(),
            is_open: true,
        };
        let links = source.load()?.scenario.links;
        let rtt: Duration = links.iter().map(|link| link.delay).fold(Duration::ZERO, |a, b| a + b);
        let limited = self.rate.is_some() || self.trace.is_some();
        let ways = [("down", &self.down), ("up", &self.up)];
        let queues = ways.into_iter().zip(&links).filter_map(|((way, own), link)| {
            let is_limited = limited || own.iter().any(|(key, _)| key == "rate");
            if own.iter().any(|(key, _)| key == "queue") {
                return None;
            }
            let size = match (products, &self.queue) {
                (None, Some(text)) => text.clone(),
                _ if !is_limited => return None,
                (products, _) => {
                    let product = link.kind.rate.mean().bytes_per_s() * rtt.as_secs_f64();
                    let bytes = (products.unwrap_or(1.0) * product).max(LEAST_QUEUE);
                    format!("{}B", bytes.round() as u64)
                }
            };
            Some((format!("links.{way}.queue"), size))
        });
        Ok(queues.collect())
    }
}

impl Args {
    fn source(&self) -> Result<Source, Failure> {
        let mut source = match &self.file {
            None => Source {
                name: OPTIONS.to_owned(),
                text: SKELETON.to_owned(),
                changes: self.link.changes(self.loss.as_ref())?,
                is_open: true,
            },
            Some(file) => Source {
                name: ScenarioFile::name(file),
                text: ScenarioFile::text(file)?,
                changes: Vec::new(),
                is_open: true,
            },
        };
        source.changes.extend(self.changes.list());
        source.add_port()?;
        Ok(source)
    }
}

/// Says that there is no such program before anything is set up for it.
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

/// How long a program that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn shell(args: &Args, rights: Rights, quiet: bool) -> Result<(), Failure> {
    output::claim_json(args.telling.json)?;
    let source = args.source()?;
    let command = or_shell(&args.command);
    let (program, arguments) = command.split_first().ok_or(Failure::Interrupted)?;
    find_program(program)?;
    let present = rights == Rights::OfRoot && args.peer.is_none();
    let options = testbed::Options { present, default_routes: true, ..testbed::Options::default() };
    let style = match (args.telling.json, args.live) {
        (true, _) => Style::Json,
        (false, true) => Style::People,
        (false, false) => Style::Hidden,
    };
    sweep()?;
    let mut emulation = Emulation::new(&source, &args.telling, style, &options, quiet)?;
    let place = Place::prepare(&mut emulation.testbed, &source, rights, present)?;
    if !present && args.peer.is_none() && !quiet {
        output::note(
            "without root the program reaches only what --peer runs at the far end: be root to \
             let it out",
        );
    }
    let peer = match &args.peer {
        Some(peer) => Some(place.start_peer(&mut emulation.testbed, peer)?),
        None => None,
    };
    let mut child = place.start(&mut emulation.testbed, program, arguments, args.telling.json)?;
    let testbed = &mut emulation.testbed;
    testbed.end_with(child.as_fd())?;
    testbed.stop_on(Some(signals::flag()));
    let length = args.changes.duration()?;
    emulation.begin(quiet);
    let until = length.map_or(Time::NEVER, |length| emulation.now() + length);
    let stopped = emulation.run(until)? == Until::Stopped;
    emulation.testbed.stop_on(None);
    if stopped && !emulation.testbed.has_ended() {
        // Ctrl-C in a terminal is for the program too, which may have something to say.
        emulation.run(emulation.now() + GRACE)?;
    }
    if !emulation.testbed.has_ended() {
        child.terminate()?;
        emulation.run(emulation.now() + GRACE)?;
    }
    child.kill()?;
    let status = child.wait()?;
    if peer.is_some() {
        // It was to end now, and what it has started too: there is nothing to say of it.
        drop(peer);
        if let Some(far) = emulation.testbed.namespace(&place.outside) {
            far.kill_all()?;
        }
    }
    emulation.finish(quiet, true)?;
    drop(place);
    match u8::try_from(Inside::exit_code(status)) {
        Ok(0) => Ok(()),
        Ok(status) => Err(Failure::Command(status)),
        Err(_) => Err(Failure::Command(1)),
    }
}

/// Both ends of the port of a shell.
#[derive(Debug)]
struct Place {
    outside: String,
    inside: String,
    address: IpAddr,
    /// Lets packets from inside go on beyond this machine.
    _masquerade: Option<Masquerade>,
}

impl Place {
    fn prepare(
        testbed: &mut Testbed,
        source: &Source,
        rights: Rights,
        present: bool,
    ) -> Result<Self, Failure> {
        let ends = testbed.ends();
        let [[outside, inside]] = ends else {
            return Err(Failure::Input(format!(
                "{}: a shell is behind one port, and there are {}; windward emulate takes them all",
                source.name,
                ends.len()
            )));
        };
        let (outside, inside) = (outside.clone(), inside.clone());
        let pair = testbed.pair(0).ok_or(Failure::Interrupted)?;
        let address = IpAddr::from(pair.outside.ipv4);
        let addresses: Vec<IpAddr> =
            [address].into_iter().chain(pair.outside.ipv6.map(IpAddr::from)).collect();
        for node in [&inside, &outside] {
            let Some(namespace) = testbed.namespace(node) else { continue };
            if *node == inside {
                // Whatever the scenario calls the far end.
                let names = ["outside", &outside];
                let names = &names[..if outside == "outside" { 1 } else { 2 }];
                let hosts = addresses.iter().flat_map(|at| names.iter().map(|name| (*at, *name)));
                namespace.set_hosts(hosts);
                if present {
                    namespace.use_resolver(address)?;
                }
            }
            // Names by which the next one finds what a killed one has left; only root has a place for
            // them.
            if rights == Rights::OfRoot {
                namespace.publish(node)?;
            }
        }
        let pair = testbed.pair(0).ok_or(Failure::Interrupted)?;
        let masquerade = if present { Some(pair.masquerade(None)?) } else { None };
        Ok(Place { outside, inside, address, _masquerade: masquerade })
    }

    /// Starts what is at the far end, and waits until it listens; for a moment. It is an error if it
    /// fails before that. One that ends well may have left a server in the background, or has done all
    /// that it was to do.
    fn start_peer(&self, testbed: &mut Testbed, command: &OsStr) -> Result<Inside, Failure> {
        let namespace = testbed.namespace(&self.outside).ok_or(Failure::Interrupted)?;
        let mut peer = namespace.spawn("/bin/sh", |sh| {
            // What it says is not what is asked for; what goes wrong is.
            sh.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::null())
        })?;
        for _ in 0..100 {
            // Before it is asked whether something listens: what listened once is no error.
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
                    "--peer '{}' {how} before it listened on any port: run a server there that \
                     goes on",
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
        let namespace = testbed.namespace(&self.inside).ok_or(Failure::Interrupted)?;
        // Standard output is for lines of JSON or for a file then.
        let stdout = match json || output::is_claimed() {
            true => Stdio::from(io::stderr().as_fd().try_clone_to_owned()?),
            false => Stdio::inherit(),
        };
        Ok(namespace.spawn(program, |child| {
            child.args(arguments).env("WINDWARD_OUTSIDE", self.address.to_string()).stdout(stdout)
        })?)
    }
}
