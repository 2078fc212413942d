//! `windward perf`: protocols of the table between two hosts, over UDP. Linux only.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::Subcommand;
use windward_core::units::{Duration, Rate, parse_bytes};
use windward_http::Listener;
use windward_logs::qlog::QlogFiles;
use windward_net::perf::{
    self, ClientConfig, DATAGRAM, Ending, Event, FlowOutcome, GROUPS, Interval, Limits, MAX_FLOWS,
    MAX_RWND, MAX_SECONDS, MIN_KEY_LEN, Outcome, PORT, Progress, Psk, Sample, Server, ServerConfig,
    Test, overhead,
};
use windward_sim::output::{OutputDir, OutputError};
use windward_sim::stack::End;

use crate::failure::Failure;
use crate::output::{self, TextTable, rate, seconds};
use crate::qlog::QlogArgs;
use crate::scenario_args::parse_change;
use crate::web::{self, About, Web};
use crate::{signals, trace};

mod charts;
mod record;
mod series;

use charts::{Charts, ServerCharts};
use record::Record;
use series::Series;

/// Measure the path between two hosts, with the senders and receivers of the simulator
///
/// The counterpart of iperf3 for the protocols of `windward list`: `windward perf server` on one
/// host, `windward perf client HOST` on the other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

impl Args {
    /// The option `--web`.
    pub(crate) fn web(&self) -> &web::WebArgs {
        match &self.command {
            Command::Client(args) => &args.web,
            Command::Server(args) => &args.web,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Server(Box<ServerArgs>),
    Client(Box<ClientArgs>),
}

/// Answer clients until Ctrl-C
#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// Address to listen at [default: all addresses]
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,

    /// UDP port to listen at; 0 takes a free one
    #[arg(long, short, value_name = "N", default_value_t = PORT)]
    port: u16,

    /// Largest number of connections at once
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = parse_connections)]
    max_connections: usize,

    /// Largest number of connections with one address (for IPv6, with one /64)
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_connections)]
    max_per_address: usize,

    /// Serve only clients with the same key: a file of at least 16 random bytes that only its owner
    /// can read; `-` for standard input
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,

    /// Smallest retransmission timeout that a client may request where the server sends (rto_floor,
    /// rto_initial)
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_min_rto)]
    min_rto: Duration,

    /// Largest number of packets that the server sends before the first ACK, and the largest
    /// initial_window
    #[arg(long, value_name = "PACKETS", default_value_t = 10, value_parser = parse_window)]
    max_initial_window: u64,

    /// Largest window of controllers with a fixed window
    #[arg(long, value_name = "PACKETS", default_value_t = 1000, value_parser = parse_window)]
    max_fixed_window: u64,

    /// Largest number of packets in flight, for each connection where the server sends
    #[arg(long, value_name = "PACKETS", default_value_t = MAX_RWND, value_parser = parse_window)]
    max_window: u64,

    /// Largest rate at which the server sends, over all connections, such as 100Mbit [default:
    /// unlimited]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<Rate>,

    #[command(flatten)]
    web: web::WebArgs,
}

/// Measure the path to a server, or from it
#[derive(Debug, clap::Args)]
struct ClientArgs {
    /// Host of the server: a name or an address
    #[arg(value_name = "HOST")]
    host: String,

    /// UDP port of the server
    #[arg(long, short, value_name = "N", default_value_t = PORT)]
    port: u16,

    #[command(flatten)]
    test: TestArgs,

    /// Interval between lines of progress; 0s prints none
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Key of the server: a file with the same bytes
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,

    #[command(flatten)]
    results: ResultArgs,

    #[command(flatten)]
    web: web::WebArgs,
}

/// The measurement.
#[derive(Debug, clap::Args)]
struct TestArgs {
    /// Protocol: a row of `windward list`, or a table of parts, such as
    /// '{ base = "cubic", recovery = "rack" }'
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    protocol: String,

    /// Set a parameter of the endpoints or of the parts of the protocol; may be given more than
    /// once
    ///
    /// The keys are those of the table `endpoint` of scenario files, with the same defaults, such
    /// as packet_size, preset, initial_window, delayed_acks, ecn, pacing or cubic.reno_alpha. Sizes
    /// are those of IP packets.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_change)]
    set: Vec<(String, String)>,

    /// UDP payload of a data packet, bytes: packet_size without the headers of UDP and IP
    #[arg(long, value_name = "N", value_parser = parse_datagram)]
    datagram: Option<u32>,

    /// Length of the measurement, whole seconds, such as 10s
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: u32,

    /// End early once each flow has delivered this much, in bytes on the wire or in packets, such
    /// as 1GB or 5000p
    #[arg(long, short = 'n', value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<Size>,

    /// Let the server send and the client receive
    #[arg(long, short = 'R')]
    reverse: bool,

    /// Let both ends send, over separate flows
    #[arg(long, conflicts_with = "reverse")]
    bidir: bool,

    /// Number of flows at once, in each direction
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = parse_flows)]
    parallel: usize,
}

/// Where the results go.
#[derive(Debug, clap::Args)]
struct ResultArgs {
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Write the results into this folder: run.json, run-flows.csv, run-groups.csv and
    /// run-intervals.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Write time series of every flow into this folder: its windows and rates
    #[arg(id = "trace", long = "trace", value_name = "DIR")]
    trace: Option<PathBuf>,

    /// Time between two samples, at least 1ms; at least 10ms for flows that the server sends
    #[arg(id = "trace-interval", long = "trace-interval", value_name = "TIME", default_value = "100ms",
          value_parser = parse_trace_interval, requires = "trace")]
    trace_interval: Duration,

    /// File format of the time series
    #[arg(
        id = "trace-format",
        long = "trace-format",
        value_name = "FORMAT",
        default_value = "csv",
        requires = "trace"
    )]
    trace_format: trace::Format,

    #[command(flatten)]
    qlog: QlogArgs,
}

/// Size of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    Packets(u64),
}

impl Size {
    fn packets(self, packet_size: u32) -> u64 {
        match self {
            Size::Bytes(bytes) => bytes.div_ceil(packet_size.into()),
            Size::Packets(packets) => packets,
        }
    }
}

fn parse_within<T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(value) if value >= least && value <= most => Ok(value),
        _ => Err(format!("expected a number from {least} to {most}")),
    }
}

fn parse_connections(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 4096)
}

fn parse_min_rto(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    // A millisecond is the clock of Linux's TCP; RFC 6298 section 2.4 has a second.
    if (Duration::from_millis(1)..=Duration::from_secs(60)).contains(&time) {
        Ok(time)
    } else {
        Err("expected a time from 1ms to 60s".to_owned())
    }
}

fn parse_window(text: &str) -> Result<u64, String> {
    parse_within(text, 1, MAX_RWND)
}

fn parse_flows(text: &str) -> Result<usize, String> {
    parse_within(text, 1, MAX_FLOWS)
}

fn parse_datagram(text: &str) -> Result<u32, String> {
    parse_within(text, *DATAGRAM.start(), *DATAGRAM.end())
}

fn parse_size(text: &str) -> Result<Size, String> {
    let packets = text.strip_suffix('p').and_then(|number| number.parse().ok());
    let size = match packets {
        Some(packets) => Size::Packets(packets),
        None => Size::Bytes(parse_bytes(text).map_err(|error| error.to_string())?),
    };
    match size {
        Size::Bytes(0) | Size::Packets(0) => Err("must be greater than zero".to_owned()),
        size => Ok(size),
    }
}

fn parse_time(text: &str) -> Result<u32, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let second = Duration::from_secs(1).as_ps();
    let whole = time.as_ps().is_multiple_of(second).then_some(time.as_ps() / second);
    whole
        .and_then(|seconds| u32::try_from(seconds).ok())
        .filter(|seconds| (1..=MAX_SECONDS).contains(seconds))
        .ok_or_else(|| format!("must be whole seconds, from 1s to {MAX_SECONDS}s"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if time.is_zero() || time >= Duration::from_millis(10) {
        Ok(time)
    } else {
        Err("must be at least 10ms, or 0s for no progress".to_owned())
    }
}

fn parse_trace_interval(text: &str) -> Result<Duration, String> {
    trace::parse_interval(text).and_then(|time| match time >= Duration::from_millis(1) {
        true => Ok(time),
        false => Err("must be at least 1ms".to_owned()),
    })
}

pub(crate) fn perf(args: &Args, listener: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    match &args.command {
        Command::Server(args) => server(args, listener, quiet),
        Command::Client(args) => client(args, listener, quiet),
    }
}

impl From<perf::Error> for Failure {
    fn from(error: perf::Error) -> Self {
        let words = error.to_string();
        match error {
            perf::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                Failure::Failed(format!(
                    "{words}; another server uses this port: choose another --port"
                ))
            }
            perf::Error::TooLarge { .. } | perf::Error::Test(_) => Failure::Input(words),
            _ => Failure::Failed(words),
        }
    }
}

fn server(args: &ServerArgs, listener: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    let sample = if listener.is_some() { web::INTERVAL } else { Duration::ZERO };
    let config = || -> Result<ServerConfig, Failure> {
        Ok(ServerConfig {
            max_connections: args.max_connections,
            max_per_address: args.max_per_address,
            psk: read_key(args.psk.as_deref())?,
            limits: Limits {
                min_rto: args.min_rto,
                initial_window: args.max_initial_window,
                fixed_window: args.max_fixed_window,
                window: args.max_window,
                rate: args.max_rate,
            },
            sample,
        })
    };
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let bind = |ip| Ok(Server::bind(SocketAddr::new(ip, args.port), config()?)?);
    let server: Result<Server, Failure> = match args.bind {
        Some(ip) => bind(ip),
        // Without IPv6, listen on IPv4. If the port is taken, it is taken for IPv4 too.
        None => bind(any).or_else(|_| bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
    };
    let server = server?;
    let address = server.local_addr()?;
    if !quiet {
        output::note(&format!("listening at {address}, until Ctrl-C"));
    }
    let mut charts = None;
    if let Some(listener) = listener {
        let subject = format!("at {address}");
        let about = About {
            command: "windward perf server",
            subject: &subject,
            rates: "Goodput",
            ..About::THROUGHPUT
        };
        charts = Some(ServerCharts::new(Web::start(listener, &about, quiet)?));
    }
    let totals = perf::serve(server, signals::flag(), |event| {
        if let Event::Sample { time_s, connections } = &event {
            if let Some(charts) = &mut charts {
                charts.sample(*time_s, connections);
            }
        } else if let (false, Some(words)) = (quiet, words(&event)) {
            output::note(&words);
        }
    })?;
    if !quiet {
        output::note(&format!(
            "{} connections, {} refused; {} datagrams without a connection",
            totals.accepted, totals.refusals, totals.strange
        ));
    }
    Ok(())
}

/// A line on a connection; none on a sample.
fn words(event: &Event) -> Option<String> {
    Some(match event {
        Event::Opened { peer, test } => {
            let way = if test.reverse { "receives" } else { "sends" };
            format!("{peer}: {way} by {}", test.protocol)
        }
        Event::Ended { peer, test, server, client } => {
            let (sender, receiver) = if test.reverse { (server, client) } else { (client, server) };
            format!(
                "{peer}: done, {} packets delivered in {}, {} sent, {} of them retransmissions",
                receiver.unique,
                seconds(receiver.seconds),
                sender.sent,
                sender.retransmissions,
            )
        }
        Event::Lost { peer, ending } => {
            let why = match ending {
                Ending::Silence => "stopped: no progress; no new data or ACK arrived",
                Ending::Losses => "stopped: less than one packet in twenty is acknowledged",
                Ending::TooLong => "stopped: it exceeded its announced length",
                Ending::Displaced => "stopped: it was idle, and another client needs its place",
                _ => "stopped",
            };
            format!("{peer}: {why}")
        }
        Event::Sample { .. } => return None,
    })
}

fn read_key(path: Option<&Path>) -> Result<Option<Psk>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let wrong = |reason: &str| Failure::Input(format!("--psk {}: {reason}", path.display()));
    let mut bytes = Vec::new();
    let source = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    let file = File::open(source).map_err(|error| wrong(&error.to_string()))?;
    let metadata = file.metadata().map_err(|error| wrong(&error.to_string()))?;
    let mode = metadata.mode() & 0o7777;
    // As in ssh. A pipe of the shell is read by this process alone.
    if metadata.is_file() && mode & 0o077 != 0 {
        return Err(wrong(&format!(
            "its mode is {mode:04o}, so users other than its owner can access the key: run chmod 600 {}",
            path.display()
        )));
    }
    file.take(1 << 16).read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
    // Editors and `echo` end a file with a line break.
    let key = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    match Psk::new(key) {
        Some(psk) => Ok(Some(psk)),
        None => Err(wrong(&format!(
            "a key has at least {MIN_KEY_LEN} bytes: make one by `(umask 077; head -c 32 /dev/urandom > FILE)`"
        ))),
    }
}

fn address_of(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let wrong = |reason: &str| Failure::Input(format!("HOST {host}: {reason}"));
    let mut found = (host, port).to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address"))
}

impl TestArgs {
    /// The test with a server at this address.
    fn test(&self, server: SocketAddr) -> Result<Test, Failure> {
        let mut test = Test::of(self.protocol.as_str());
        test.seconds = self.time;
        test.reverse = self.reverse;
        // An unknown protocol is reported before its parameters.
        test.plan().map_err(|wrong| Failure::Input(format!("--protocol: {wrong}")))?;
        if let Some(datagram) = self.datagram {
            if self.set.iter().any(|(key, _)| key == "packet_size") {
                return Err(Failure::Input(
                    "--datagram and --set packet_size=N set the same value: omit one of them"
                        .to_owned(),
                ));
            }
            let size = datagram + overhead(server);
            test.parameters.push(("packet_size".to_owned(), size.to_string()));
        }
        test.parameters.extend(self.set.iter().cloned());
        let plan = test.plan().map_err(|wrong| Failure::Input(format!("--set: {wrong}")))?;
        plan.datagram(server).map_err(|wrong| Failure::Input(format!("--set: {wrong}")))?;
        test.packets = self.bytes.map_or(0, |size| size.packets(plan.config.packet_size));
        Ok(test)
    }

    /// The flows of each direction.
    fn counts(&self) -> [usize; 2] {
        let up = if self.reverse { 0 } else { self.parallel };
        let down = if self.reverse || self.bidir { self.parallel } else { 0 };
        [up, down]
    }

    /// The name of each flow and its group, in order.
    fn names(&self) -> Vec<(String, &'static str)> {
        let of = |(group, count): (&'static str, usize)| {
            (1..=count).map(move |number| (format!("{group}-{number}"), group))
        };
        GROUPS.into_iter().zip(self.counts()).flat_map(of).collect()
    }
}

fn client(args: &ClientArgs, listener: Option<Listener>, quiet: bool) -> Result<(), Failure> {
    let server = address_of(&args.host, args.port)?;
    let mut config = ClientConfig::new(args.test.test(server)?);
    config.flows = args.test.parallel;
    config.both = args.test.bidir;
    config.psk = read_key(args.psk.as_deref())?;
    config.interval = args.interval;
    signals::check()?;
    if !quiet {
        warn_of_router(&config.test)?;
    }
    let names = args.test.names();
    let mut views = Views::open(args, &mut config, listener, quiet)?;
    let outcome = perf::run(server, &config, signals::flag(), |progress| match progress {
        Progress::Interval(interval) => views.interval(interval, &names),
        Progress::Sample(sample) => views.sample(sample, &names),
    })?;
    // It holds a reference to the logs.
    config.watch = None;
    let is_nothing = |flow: &FlowOutcome| flow.sender.sent == 0 && flow.receiver.arrived == 0;
    if outcome.interrupted && outcome.flows.iter().all(is_nothing) {
        return Err(Failure::Interrupted);
    }
    let record = Record::new(server, config.psk.is_some(), &names, &outcome, &views.intervals);
    views.commit(&record, quiet)?;
    if args.results.json {
        output::print_json(&record)?;
    } else {
        output::print(&table(&names, &outcome).text())?;
    }
    if outcome.interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Warns of a protocol that needs a router on the path.
fn warn_of_router(test: &Test) -> Result<(), Failure> {
    let plan = test.plan().map_err(Failure::Input)?;
    if let Some(consequence) = plan.protocol.without_router() {
        output::note(&format!(
            "warning: {} needs the router `{}`: unless one on the path gives the feedback, \
             {consequence}",
            plan.protocol.name,
            plan.protocol.router.name(),
        ));
    }
    Ok(())
}

/// Views and files of a measurement while it runs.
struct Views {
    /// True if intervals are printed.
    shows: bool,
    /// True if intervals are kept for the record.
    keeps: bool,
    intervals: Vec<Interval>,
    out: Option<OutputDir>,
    series: Option<Series>,
    /// The first error of the series.
    written: Result<(), OutputError>,
    logs: Option<Rc<QlogFiles>>,
    charts: Option<Charts>,
}

impl Views {
    /// Opens all of them, so that a path that cannot be written fails before the measurement, and
    /// makes the client give what they need.
    fn open(
        args: &ClientArgs,
        config: &mut ClientConfig,
        listener: Option<Listener>,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let ResultArgs { json, out, trace, trace_interval, trace_format, qlog } = &args.results;
        let out = out.as_deref().map(OutputDir::create).transpose()?;
        let mut series = None;
        if let Some(dir) = trace {
            config.sample = *trace_interval;
            series = Some(Series::create(dir, trace_format.of_table())?);
        }
        let scenario = config.test.scenario(args.test.counts()).map_err(Failure::Input)?;
        let [up, down] = args.test.counts();
        let ends = [vec![End::Sender; up], vec![End::Receiver; down]].concat();
        let logs = qlog.create_measured(&scenario, &ends)?.map(Rc::new);
        if let Some(logs) = logs.clone() {
            config.watch = Some(Box::new(move |_| logs.observer()));
        }
        let mut charts = None;
        if let Some(listener) = listener {
            if series.is_none() {
                config.sample = web::INTERVAL;
            }
            let subject = format!("{} to {}", args.test.protocol, args.host);
            let about = About {
                command: "windward perf client",
                subject: &subject,
                rates: "Goodput",
                ..About::THROUGHPUT
            };
            charts = Some(Charts::new(Web::start(listener, &about, quiet)?, up + down));
        }
        Ok(Views {
            shows: !quiet && !json,
            keeps: *json || out.is_some(),
            intervals: Vec::new(),
            out,
            series,
            written: Ok(()),
            logs,
            charts,
        })
    }

    fn interval(&mut self, interval: &Interval, names: &[(String, &'static str)]) {
        if self.shows {
            output::note(&lines(interval, names));
        }
        if self.keeps {
            self.intervals.push(interval.clone());
        }
    }

    fn sample(&mut self, sample: &Interval, names: &[(String, &'static str)]) {
        if let (Some(series), Ok(())) = (&mut self.series, &self.written) {
            self.written = series.sample(sample, names);
        }
        if let Some(charts) = &mut self.charts {
            charts.sample(sample, names);
        }
    }

    /// Completes all files, and prints the names of time series and logs.
    fn commit(self, record: &Record, quiet: bool) -> Result<(), Failure> {
        self.written?;
        if let Some(mut out) = self.out {
            record.write_files(&mut out)?;
            out.commit()?;
        }
        if let Some(series) = self.series {
            let path = series.commit()?;
            if !quiet {
                output::note(&format!("trace: {}", path.display()));
            }
        }
        if let Some(logs) = self.logs.and_then(Rc::into_inner) {
            let files = logs.commit()?;
            if let (false, Some(first)) = (quiet, files.first()) {
                output::note(&format!("qlog: {} and {} more", first.display(), files.len() - 1));
            }
        }
        Ok(())
    }
}

/// An interval as text: a line for each direction.
fn lines(interval: &Interval, names: &[(String, &'static str)]) -> String {
    let of = |group: &str| -> Option<String> {
        let flows = || (0..names.len()).filter(|at| names[*at].1 == group);
        flows().next()?;
        let sum = |values: &[f64]| flows().map(|at| values[at]).sum::<f64>();
        let samples: Vec<&Sample> = flows().map(|at| &interval.flows[at]).collect();
        let again: u64 = flows().map(|at| interval.retransmissions[at]).sum();
        let cwnd: f64 = samples.iter().map(|sample| sample.cwnd).sum();
        // The mean over flows that measured one.
        let timed = flows().filter(|at| interval.mean_rtt_s[*at] > 0.0).count();
        let rtt = mean(sum(&interval.mean_rtt_s), timed as f64);
        Some(format!(
            "{group:4} {:7.2} - {:7.2} s  {:>12}  cwnd {cwnd:8.1}  rtt {:>8}  retransmitted {again}",
            interval.start_s,
            interval.end_s,
            rate(sum(&interval.goodput_bps)),
            seconds(rtt),
        ))
    };
    GROUPS.into_iter().filter_map(of).collect::<Vec<_>>().join("\n")
}

fn mean(sum: f64, count: f64) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

fn table(names: &[(String, &'static str)], outcome: &Outcome) -> TextTable {
    let mut table = TextTable::new([
        "flow",
        "protocol",
        ">goodput",
        ">sent",
        ">again",
        ">timeouts",
        ">marked",
        ">mean rtt",
        ">mean cwnd",
        ">completed",
    ]);
    for ((name, _), flow) in names.iter().zip(&outcome.flows) {
        let FlowOutcome { sender, receiver, completed_s, .. } = flow;
        table.row([
            name.clone(),
            outcome.protocol.to_owned(),
            rate(flow.goodput_bps(outcome.packet_size)),
            sender.sent.to_string(),
            sender.retransmissions.to_string(),
            sender.timeouts.to_string(),
            receiver.marked.to_string(),
            seconds(mean(sender.rtt_sum_s, sender.rtt_samples as f64)),
            format!("{:.1}", mean(sender.cwnd_seconds, sender.seconds)),
            completed_s.map_or_else(|| "-".to_owned(), seconds),
        ]);
    }
    for group in GROUPS {
        let of_group = || names.iter().zip(&outcome.flows).filter(|((_, of), _)| *of == group);
        if of_group().count() > 1 {
            let sum = of_group().map(|(_, flow)| flow.goodput_bps(outcome.packet_size)).sum();
            let mut cells = vec![String::new(); 10];
            cells[0] = format!("all {group}");
            cells[2] = rate(sum);
            table.row(cells);
        }
    }
    table
}
