//! `windward router`: queues of a gateway.

mod charts;
mod row;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration as WallTime;

use clap::builder::PossibleValuesParser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use windward_core::units::{Duration, Probability, Rate};
use windward_http::Listener;
use windward_net::router::{
    Choice, Config, Router, Settings, Stats, forwarding, qdiscs, serve_metrics,
};
use windward_sim::input::{LARGEST_SETTINGS, read_text};

use charts::Charts;
use row::QueueJson;

use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::http::{self, parse_address};
use crate::output::{self, TextTable, rate, seconds};
use crate::web;

/// Shape the traffic that this machine forwards to a network interface, with an AQM or a router of
/// the papers
///
/// All packets that the current network namespace forwards to IFACE go through one queue of the
/// given rate. Routers write into the congestion header of Windward's datagrams; an AQM marks
/// packets by ECN or drops them. SIGHUP reads the settings file again, without losing a packet;
/// Ctrl-C and SIGTERM end the command; from then on packets are forwarded as without it. Needs
/// root.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Outgoing interfaces [default: those of the settings]; name two to shape both directions
    #[arg(value_name = "IFACE")]
    interfaces: Vec<String>,

    /// Rate of each queue, bits per second, such as 50Mbit
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// AQM, which marks packets where it can, or router of the queue [default: fq-codel]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(qdiscs()))]
    qdisc: Option<String>,

    /// Size of the queue, such as 200p or 1MB [default: 100 ms at the rate, and 1000p to 10240p
    /// with an AQM that keeps the queue short]
    #[arg(long, value_name = "SIZE")]
    queue: Option<String>,

    /// Share of packets that the link behind the queue corrupts, such as 1%; ceten reports it to
    /// senders
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    corruption: Option<Probability>,

    /// Also shape the traffic that this machine itself sends
    #[arg(long)]
    own: bool,

    /// Settings, a TOML file with the keys rate, qdisc, queue, aqm, router, classes, corruption and
    /// own, for all interfaces or under [interfaces.NAME]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics
    ///
    /// A client has to name the server by its IP address: other names are refused, since pages of
    /// other hosts can have their names resolve to this address.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,

    #[command(flatten)]
    web: web::WebArgs,

    /// Print one JSON object at the end instead of a table
    #[arg(long)]
    json: bool,

    /// Print a unit file for systemd, and do nothing else
    #[arg(long)]
    systemd_unit: bool,
}

impl Args {
    /// The option `--web`.
    pub(crate) fn web(&self) -> &web::WebArgs {
        &self.web
    }
}

const EXAMPLES: &str = "\
Examples:
  windward router eth1 --rate 50Mbit
  windward router eth0 eth1 --rate 20Mbit --qdisc xcp --metrics 127.0.0.1:9469
  windward router --config /etc/windward/router.toml
  windward router --systemd-unit > /etc/systemd/system/windward-router.service";

const UNIT: &str = include_str!("../../../contrib/windward-router.service");

fn parse_rate(text: &str) -> Result<Rate, String> {
    text.parse::<Rate>().map_err(|error| error.to_string())
}

fn parse_share(text: &str) -> Result<Probability, String> {
    text.parse::<Probability>().map_err(|error| error.to_string())
}

/// Interval between two looks at signals.
const LOOK: WallTime = WallTime::from_millis(20);

/// Requests made by signals.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
}

impl Signals {
    fn install() -> Result<Self, Failure> {
        let signals = Signals { stop: Arc::default(), reload: Arc::default() };
        let flags = [(SIGINT, &signals.stop), (SIGTERM, &signals.stop), (SIGHUP, &signals.reload)];
        for (signal, flag) in flags {
            signal_hook::flag::register(signal, Arc::clone(flag))
                .map_err(|error| Failure::Failed(format!("cannot listen to signals: {error}")))?;
        }
        Ok(signals)
    }
}

/// Tells the service manager that all queues work, as long as they do.
struct Watchdog {
    every: WallTime,
    last: Stopwatch,
    /// Rounds of each queue at the last ping.
    rounds: Vec<u64>,
}

impl Watchdog {
    /// The watchdog of the service that this process is, if the service manager asks for one
    /// (sd_watchdog_enabled(3)). Pings are sent four times per watchdog interval.
    fn of_service(routers: &[Router]) -> Option<Self> {
        let limit = sd_notify::watchdog_enabled()?;
        let rounds = routers.iter().map(Router::rounds).collect();
        Some(Watchdog { every: limit / 4, last: Stopwatch::start(), rounds })
    }

    /// Pings when a ping is due and every queue has completed a round since the last one. If a
    /// queue hangs, no ping is sent.
    fn look(&mut self, routers: &[Router]) {
        if self.last.elapsed() < self.every {
            return;
        }
        let rounds: Vec<u64> = routers.iter().map(Router::rounds).collect();
        if rounds.iter().zip(&self.rounds).all(|(now, before)| now != before) {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
            (self.last, self.rounds) = (Stopwatch::start(), rounds);
        }
    }
}

pub(crate) fn router(args: &Args, listener: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    if args.systemd_unit {
        return output::print(UNIT);
    }
    let config = read(args)?;
    let signals = Signals::install()?;
    check_forwarding(&config, quiet)?;
    let mut routers = config.queues.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    let metrics = args.metrics.map(|address| http::listen("--metrics", address)).transpose()?;
    let cannot = |error| Failure::Failed(format!("--metrics: cannot make a thread: {error}"));
    let metrics =
        metrics.map(|listener| serve_metrics(listener, &routers).map_err(cannot)).transpose()?;
    if !quiet {
        for settings in &config.queues {
            let (device, qdisc) = (settings.device(), settings.qdisc());
            output::note(&format!("{device}: {}, {qdisc}", rate(settings.rate().as_bps() as f64)));
        }
        if let Some(metrics) = &metrics {
            output::note(&format!("metrics: http://{}/metrics", metrics.address()));
        }
    }
    let charts = |listener| Charts::start(listener, &routers, quiet);
    let mut charts = listener.map(charts).transpose()?;
    // Fails without a service manager, which is not an error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    watch((args, &config), &routers, &signals, charts.as_mut(), quiet);
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    drop(metrics);
    drop(charts);
    let mut all = Vec::new();
    let mut failed = None;
    for (settings, router) in config.queues.iter().zip(&mut routers) {
        match router.stop() {
            Ok(stats) => all.push(stats),
            Err(error) => failed = Some(format!("{}: {error}", settings.device())),
        }
    }
    if args.json {
        output::print_json(&all.iter().map(QueueJson::from).collect::<Vec<_>>())?;
    } else {
        output::print(&summary(&all))?;
    }
    failed.map_or(Ok(()), |error| Err(Failure::Failed(error)))
}

/// Starts the queue of an interface.
fn start(settings: &Settings) -> Result<Router, Failure> {
    Router::start(settings).map_err(|error| match error.is_no_device() {
        true => Failure::Input(error.to_string()),
        false => Failure::Failed(error.to_string()),
    })
}

/// Waits for the end: reloads settings, warns of datagrams that ask for another router, and tells
/// the service manager that all queues work.
fn watch(
    (args, config): (&Args, &Config),
    routers: &[Router],
    signals: &Signals,
    mut charts: Option<&mut Charts>,
    quiet: bool,
) {
    // For each queue, true once the warning was printed.
    let mut told = vec![false; routers.len()];
    let mut watchdog = Watchdog::of_service(routers);
    while !signals.stop.load(Ordering::Relaxed) && !routers.iter().any(Router::has_ended) {
        if signals.reload.swap(false, Ordering::Relaxed) {
            match reload(args, config, routers) {
                Ok(()) if !quiet => output::note("new settings"),
                Ok(()) => {}
                Err(why) => {
                    output::note(&format!("warning: settings not changed: {why}"));
                }
            }
        }
        for (told, (router, settings)) in told.iter_mut().zip(routers.iter().zip(&config.queues)) {
            if let Some(kind) = router.unserved().filter(|_| !*told) {
                *told = true;
                let (device, name) = (settings.device(), kind.name());
                output::note(&format!(
                    "warning: {device}: datagrams ask for the router `{name}`, but this queue has another. \
                     Unless a router on their path gives this feedback, their protocol may \
                     not respond to congestion; write --qdisc {name}"
                ));
            }
        }
        if let Some(watchdog) = &mut watchdog {
            watchdog.look(routers);
        }
        if let Some(charts) = &mut charts {
            charts.look(routers);
        }
        sleep(LOOK);
    }
}

fn read(args: &Args) -> Result<Config, Failure> {
    let file = args.config.as_ref().map(|path| {
        read_text(path, LARGEST_SETTINGS)
            .map_err(|error| Failure::Input(format!("cannot read {}: {error}", path.display())))
    });
    let file = file.transpose()?;
    let Args { rate, ref qdisc, ref queue, corruption, own, .. } = *args;
    let choice = Choice { rate, qdisc: qdisc.clone(), queue: queue.clone(), corruption, own };
    let name = args.config.as_ref().map(|path| path.display().to_string());
    let file = name.as_deref().zip(file.as_deref());
    Config::read(file, &args.interfaces, &choice).map_err(|error| Failure::Input(error.to_string()))
}

/// Fails if the kernel forwards no packets. Forwarding is never switched on here.
fn check_forwarding(config: &Config, quiet: bool) -> Result<(), Failure> {
    let [ipv4, ipv6] = forwarding();
    let (v4, v6) = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1");
    if !ipv4 && !ipv6 && !config.queues.iter().all(Settings::own) {
        return Err(Failure::Failed(format!(
            "the kernel forwards no packets here: enable forwarding with `sysctl -w {v4}` or \
             `sysctl -w {v6}`"
        )));
    }
    if !quiet && ipv4 != ipv6 {
        let (version, switch) = if ipv4 { ("IPv6", v6) } else { ("IPv4", v4) };
        output::note(&format!(
            "the kernel forwards no {version} packets here (sysctl -w {switch} enables it)"
        ));
    }
    Ok(())
}

/// Names of the interfaces that have queues.
fn interfaces(config: &Config) -> Vec<&str> {
    config.queues.iter().map(Settings::device).collect()
}

/// Reads the settings again.
fn reload(args: &Args, config: &Config, routers: &[Router]) -> Result<(), String> {
    if args.config.is_none() {
        return Err("there is no settings file to read again (--config)".to_owned());
    }
    let next = read(args).map_err(|failure| match failure {
        Failure::Program(why, _)
        | Failure::Input(why)
        | Failure::Failed(why)
        | Failure::Part(why)
        | Failure::Skipped(why) => why,
        Failure::Interrupted | Failure::ReaderLeft | Failure::Command(_) => {
            "interrupted".to_owned()
        }
    })?;
    if interfaces(&next) != interfaces(config) {
        return Err("a change of interfaces needs a restart".to_owned());
    }
    for (router, settings) in routers.iter().zip(&next.queues) {
        router.change(settings);
    }
    Ok(())
}

/// Table of all queues.
fn summary(all: &[Stats]) -> String {
    let mut table = TextTable::new([
        "interface",
        "qdisc",
        ">rate",
        ">arrived",
        ">sent",
        ">dropped",
        ">marked",
        ">feedback",
        ">waited p50",
        ">p99",
        ">late p99",
    ]);
    for row in all.iter().map(QueueJson::from) {
        table.row([
            row.interface,
            row.qdisc,
            rate(row.rate_bps as f64),
            row.counts.arrived_packets.to_string(),
            row.counts.sent_packets.to_string(),
            row.counts.dropped_packets.to_string(),
            row.counts.marked_packets.to_string(),
            row.counts.feedback_packets.to_string(),
            seconds(row.times.sojourn_p50_s),
            seconds(row.times.sojourn_p99_s),
            seconds(row.times.lateness_p99_s),
        ]);
    }
    let mut text = table.text();
    for stats in all {
        let device = &stats.device;
        if stats.overflow > 0 {
            text += &format!(
                "{device}: the kernel dropped {} packets that were read too late\n",
                stats.overflow
            );
        }
        if let Some(kind) = stats.most_wanted() {
            text += &format!(
                "{device}: {} datagrams asked for a router other than {}, most for {}: unless a router on \
                 their path gives this feedback, their protocol may not respond to congestion\n",
                stats.unserved.iter().sum::<u64>(),
                stats.qdisc,
                kind.name(),
            );
        }
        if stats.lateness.is_too_much() {
            let share = stats.lateness.share_above(Duration::from_millis(1)) * 100.0;
            let why = if stats.is_real_time {
                "this machine is too slow for the load"
            } else {
                "real-time scheduling was refused: start as root, or raise `ulimit -r`"
            };
            text += &format!("{device}: {share:.1} % of packets left more than 1 ms late; {why}\n");
        }
    }
    text
}
