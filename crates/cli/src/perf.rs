//! `windward perf`: protocols of the table between two hosts, over UDP. Linux only.

use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde::Serialize;
use windward_core::protocols::{self, PROTOCOLS, Protocol};
use windward_core::units::{Duration, parse_bytes};
use windward_net::perf::{
    self, ClientConfig, DATAGRAM, Event, FlowOutcome, Interval, MAX_FLOWS, MAX_PROTOCOL_LEN,
    MAX_SECONDS, MIN_KEY_LEN, Outcome, PORT, Psk, Server, ServerConfig, Test,
};
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::suggest;

use crate::failure::Failure;
use crate::output::{self, Table, rate, seconds};
use crate::signals;

/// Measure between two hosts, with the senders and receivers of the simulator
///
/// As iperf3 does for TCP: `windward perf server` on one host, `windward perf client HOST` on the other.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Server(ServerArgs),
    Client(ClientArgs),
}

/// Answer clients until Ctrl-C
#[derive(Debug, clap::Args)]
struct ServerArgs {
    /// Listen at this address only
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,

    /// Listen at this UDP port
    #[arg(long, short, value_name = "N", default_value_t = PORT)]
    port: u16,

    /// The most connections at once
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = parse_connections)]
    max_connections: usize,

    /// The most of them with one address (of IPv6, one /64)
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = parse_connections)]
    max_per_address: usize,

    /// Serve only clients with the same key: a file of at least 16 bytes, best of random ones
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,
}

/// Measure to a server, or from it
#[derive(Debug, clap::Args)]
struct ClientArgs {
    /// Where the server runs: a name or an address
    #[arg(value_name = "HOST")]
    host: String,

    /// The UDP port of the server
    #[arg(long, short, value_name = "N", default_value_t = PORT)]
    port: u16,

    /// A row of `windward list`, or a table of parts, as '{ base = "cubic", recovery = "rack" }'
    #[arg(long, value_name = "NAME", default_value = "cubic")]
    protocol: String,

    /// How long, in whole seconds, such as 10s
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    time: u32,

    /// End when each flow has delivered this much, such as 1GB, if that is before the time is over
    #[arg(long, short = 'n', value_name = "SIZE", value_parser = parse_size)]
    bytes: Option<u64>,

    /// The server sends, the client receives
    #[arg(long, short = 'R')]
    reverse: bool,

    /// Flows at once
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = parse_flows)]
    parallel: usize,

    /// A line each time this has passed; 0 for none
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// UDP payload of a data packet, bytes
    #[arg(long, value_name = "N", default_value_t = 1200, value_parser = parse_datagram)]
    datagram: u16,

    /// Negotiate ECN where the protocol answers marks
    #[arg(long)]
    ecn: bool,

    /// Pace packets where the protocol sets no rate itself
    #[arg(long)]
    pacing: bool,

    /// The key of the server: a file with the same bytes
    #[arg(long, value_name = "FILE")]
    psk: Option<PathBuf>,

    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,
}

fn parse_within<T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(value) if value >= least && value <= most => Ok(value),
        _ => Err(format!("it is a number from {least} to {most}")),
    }
}

fn parse_connections(text: &str) -> Result<usize, String> {
    parse_within(text, 1, 4096)
}

fn parse_flows(text: &str) -> Result<usize, String> {
    parse_within(text, 1, MAX_FLOWS)
}

fn parse_datagram(text: &str) -> Result<u16, String> {
    parse_within(text, *DATAGRAM.start(), *DATAGRAM.end())
}

fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(0) => Err("it is at least one byte".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_time(text: &str) -> Result<u32, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    let second = Duration::from_secs(1).as_ps();
    let whole = time.as_ps().is_multiple_of(second).then_some(time.as_ps() / second);
    whole
        .and_then(|seconds| u32::try_from(seconds).ok())
        .filter(|seconds| (1..=MAX_SECONDS).contains(seconds))
        .ok_or_else(|| format!("it is whole seconds, 1s to {MAX_SECONDS}s"))
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let time: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if time.is_zero() || time >= Duration::from_millis(10) {
        Ok(time)
    } else {
        Err("it is at least 10ms, or 0s for none".to_owned())
    }
}

pub(crate) fn perf(args: &Args, quiet: bool) -> Result<(), Failure> {
    match &args.command {
        Command::Server(args) => server(args, quiet),
        Command::Client(args) => client(args, quiet),
    }
}

impl From<perf::Error> for Failure {
    fn from(error: perf::Error) -> Self {
        let words = error.to_string();
        match error {
            perf::Error::Io { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                Failure::Failed(format!(
                    "{words}; another server runs there: choose another --port"
                ))
            }
            perf::Error::TooLarge { .. } => Failure::Input(words),
            _ => Failure::Failed(words),
        }
    }
}

fn server(args: &ServerArgs, quiet: bool) -> Result<(), Failure> {
    let config = || -> Result<ServerConfig, Failure> {
        Ok(ServerConfig {
            max_connections: args.max_connections,
            max_per_address: args.max_per_address,
            psk: read_key(args.psk.as_deref())?,
            resolve: Box::new(resolve),
        })
    };
    let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let bind = |ip| Ok(Server::bind(SocketAddr::new(ip, args.port), config()?)?);
    let server: Result<Server, Failure> = match args.bind {
        Some(ip) => bind(ip),
        // A host without IPv6 has IPv4, and one where the port is taken has it taken there too.
        None => bind(any).or_else(|_| bind(IpAddr::V4(Ipv4Addr::UNSPECIFIED))),
    };
    let server = server?;
    if !quiet {
        output::note(&format!("listening at {}, until Ctrl-C", server.local_addr()?));
    }
    let totals = perf::serve(server, signals::flag(), |event| {
        if !quiet {
            output::note(&words(&event));
        }
    })?;
    if !quiet {
        output::note(&format!(
            "{} connections, {} refused; {} datagrams of no connection",
            totals.accepted, totals.refusals, totals.strange
        ));
    }
    Ok(())
}

fn words(event: &Event) -> String {
    match event {
        Event::Opened { peer, test } => {
            let way = if test.reverse { "receives" } else { "sends" };
            format!("{peer}: {way} by {}", test.protocol)
        }
        Event::Ended { peer, test, server, client } => {
            let (sender, receiver) = if test.reverse { (server, client) } else { (client, server) };
            let bits = 8.0 * f64::from(test.datagram) * receiver.unique as f64;
            format!(
                "{peer}: done, {} of UDP payload in {}, {} packets sent, {} again",
                rate(if receiver.seconds > 0.0 { bits / receiver.seconds } else { 0.0 }),
                seconds(receiver.seconds),
                sender.sent,
                sender.retransmissions,
            )
        }
        Event::Lost { peer } => format!("{peer}: fell silent"),
    }
}

/// What `--protocol` names: a row of the table, or a table of parts as scenario files have it.
fn resolve(text: &str) -> Result<Protocol, String> {
    const PATH: &str = r#"
        duration = "1s"
        [dumbbell]
        bottleneck = { rate = "5Mbit", delay = "5ms", queue = "50p" }
        access = { rate = "5Mbit", delay = "5ms", queue = "50p" }
        [[flows]]
        group = "perf"
        protocol = "newreno"
    "#;
    if !text.trim_start().starts_with('{') {
        return protocols::find(text).copied().ok_or_else(|| {
            let names = PROTOCOLS.iter().map(|row| row.name);
            let meant =
                suggest::nearest(text, names).map(|name| format!("; did you mean `{name}`?"));
            format!("no protocol of the table is called `{text}`{}", meant.unwrap_or_default())
        });
    }
    let build = || {
        let mut file = ScenarioFile::parse("--protocol", PATH)?;
        file.set("flows.perf.protocol", text)?;
        file.build()
    };
    let scenario = build().map_err(|error| error.to_string())?;
    match scenario.flows.first().map(|flow| &flow.kind.traffic) {
        Some(Traffic::Transport { protocol, .. }) => Ok(**protocol),
        _ => Err(format!("`{text}` is no protocol of the table and no composition")),
    }
}

fn read_key(path: Option<&Path>) -> Result<Option<Psk>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let wrong = |reason: &str| Failure::Input(format!("--psk {}: {reason}", path.display()));
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(1 << 16).read_to_end(&mut bytes))
        .map_err(|error| wrong(&error.to_string()))?;
    // Editors and `echo` end a file with a line break.
    let key = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    match Psk::new(key) {
        Some(psk) => Ok(Some(psk)),
        None => Err(wrong(&format!(
            "a key has at least {MIN_KEY_LEN} bytes: make one by `head -c 32 /dev/urandom > FILE`"
        ))),
    }
}

fn address_of(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let wrong = |reason: &str| Failure::Input(format!("HOST {host}: {reason}"));
    let mut found = (host, port).to_socket_addrs().map_err(|error| wrong(&error.to_string()))?;
    found.next().ok_or_else(|| wrong("the name has no address"))
}

fn client(args: &ClientArgs, quiet: bool) -> Result<(), Failure> {
    if args.protocol.len() > MAX_PROTOCOL_LEN {
        return Err(Failure::Input(format!("--protocol: longer than {MAX_PROTOCOL_LEN} bytes")));
    }
    let protocol =
        resolve(&args.protocol).map_err(|e| Failure::Input(format!("--protocol: {e}")))?;
    let config = ClientConfig {
        test: Test {
            protocol: args.protocol.clone(),
            reverse: args.reverse,
            ecn: args.ecn,
            pacing: args.pacing,
            datagram: args.datagram,
            seconds: args.time,
            bytes: args.bytes.unwrap_or(0),
        },
        flows: args.parallel,
        psk: read_key(args.psk.as_deref())?,
        interval: args.interval,
    };
    let server = address_of(&args.host, args.port)?;
    signals::check()?;
    let mut intervals = Vec::new();
    let shows = !quiet && !args.json;
    let outcome = perf::run(server, &protocol, &config, signals::flag(), |interval| {
        if shows {
            output::note(&line(interval));
        }
        if args.json {
            intervals.push(interval.clone());
        }
    })?;
    if args.json {
        output::print_json(&Record::new(server, protocol.name, args, &outcome, &intervals))?;
    } else {
        output::print(&table(protocol.name, &outcome).text())?;
    }
    if outcome.interrupted { Err(Failure::Interrupted) } else { Ok(()) }
}

/// An interval for people.
fn line(interval: &Interval) -> String {
    let goodput: f64 = interval.goodput_bps.iter().sum();
    let again: u64 = interval.flows.iter().map(|flow| flow.retransmissions).sum();
    let mut text =
        format!("{:7.2} - {:7.2} s  {:>12}", interval.start_s, interval.end_s, rate(goodput));
    if let [flow] = interval.flows[..]
        && flow.cwnd > 0.0
    {
        text +=
            &format!("  cwnd {:8.1}  srtt {:>8}  again {again}", flow.cwnd, seconds(flow.srtt_s));
    }
    text
}

fn goodput(outcome: &Outcome, flow: &FlowOutcome) -> f64 {
    let bits = 8.0 * f64::from(outcome.packet_bytes) * flow.receiver.unique as f64;
    let time = flow.completed_s.unwrap_or(outcome.seconds);
    if time > 0.0 { bits / time } else { 0.0 }
}

fn mean(sum: f64, count: f64) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

fn table(protocol: &str, outcome: &Outcome) -> Table {
    let mut table = Table::new([
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
    for (number, flow) in outcome.flows.iter().enumerate() {
        let FlowOutcome { sender, receiver, completed_s } = flow;
        table.row([
            format!("perf-{}", number + 1),
            protocol.to_owned(),
            rate(goodput(outcome, flow)),
            sender.sent.to_string(),
            sender.retransmissions.to_string(),
            sender.timeouts.to_string(),
            receiver.marked.to_string(),
            seconds(mean(sender.rtt_sum_s, sender.rtt_samples as f64)),
            format!("{:.1}", mean(sender.cwnd_seconds, sender.seconds)),
            completed_s.map_or_else(|| "-".to_owned(), seconds),
        ]);
    }
    if outcome.flows.len() > 1 {
        let sum: f64 = outcome.flows.iter().map(|flow| goodput(outcome, flow)).sum();
        let mut cells = vec![String::new(); 10];
        cells[0] = "all".to_owned();
        cells[2] = rate(sum);
        table.row(cells);
    }
    table
}

/// A test as JSON: fields have the names and units of `windward run --json` where they mean the same.
#[derive(Debug, Serialize)]
struct Record<'a> {
    windward: &'static str,
    server: String,
    duration_s: f64,
    interrupted: bool,
    reverse: bool,
    datagram_bytes: u16,
    packet_bytes: u32,
    flows: Vec<FlowRecord<'a>>,
    intervals: Vec<IntervalRecord>,
    jain: f64,
}

#[derive(Debug, Serialize)]
struct FlowRecord<'a> {
    name: String,
    group: &'static str,
    protocol: &'a str,
    goodput_bps: f64,
    packets_sent: u64,
    packets_delivered: u64,
    retransmissions: u64,
    duplicates: u64,
    timeouts: u64,
    mean_rtt_s: f64,
    mean_cwnd_packets: f64,
    packets_marked: u64,
    given_back: u64,
    datagrams_invalid: u64,
    datagrams_replayed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_s: Option<f64>,
}

#[derive(Debug, Serialize)]
struct IntervalRecord {
    start_s: f64,
    end_s: f64,
    goodput_bps: f64,
    flows: Vec<SampleRecord>,
}

#[derive(Debug, Serialize)]
struct SampleRecord {
    goodput_bps: f64,
    /// Absent where the server sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    cwnd_packets: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    srtt_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retransmissions: Option<u64>,
}

impl<'a> Record<'a> {
    fn new(
        server: SocketAddr,
        protocol: &'a str,
        args: &ClientArgs,
        outcome: &Outcome,
        intervals: &[Interval],
    ) -> Self {
        let rates: Vec<f64> = outcome.flows.iter().map(|flow| goodput(outcome, flow)).collect();
        let (sum, squares): (f64, f64) =
            (rates.iter().sum(), rates.iter().map(|rate| rate * rate).sum());
        Record {
            windward: env!("CARGO_PKG_VERSION"),
            server: server.to_string(),
            duration_s: outcome.seconds,
            interrupted: outcome.interrupted,
            reverse: args.reverse,
            datagram_bytes: args.datagram,
            packet_bytes: outcome.packet_bytes,
            flows: outcome
                .flows
                .iter()
                .enumerate()
                .map(|(number, flow)| FlowRecord {
                    name: format!("perf-{}", number + 1),
                    group: "perf",
                    protocol,
                    goodput_bps: goodput(outcome, flow),
                    packets_sent: flow.sender.sent,
                    packets_delivered: flow.receiver.unique,
                    retransmissions: flow.sender.retransmissions,
                    duplicates: flow.receiver.duplicates,
                    timeouts: flow.sender.timeouts,
                    mean_rtt_s: mean(flow.sender.rtt_sum_s, flow.sender.rtt_samples as f64),
                    mean_cwnd_packets: mean(flow.sender.cwnd_seconds, flow.sender.seconds),
                    packets_marked: flow.receiver.marked,
                    given_back: flow.sender.given_back,
                    datagrams_invalid: flow.sender.invalid + flow.receiver.invalid,
                    datagrams_replayed: flow.sender.replayed + flow.receiver.replayed,
                    completed_s: flow.completed_s,
                })
                .collect(),
            intervals: intervals.iter().map(|i| IntervalRecord::new(i, !args.reverse)).collect(),
            jain: if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 0.0 },
        }
    }
}

impl IntervalRecord {
    fn new(interval: &Interval, sends: bool) -> Self {
        IntervalRecord {
            start_s: interval.start_s,
            end_s: interval.end_s,
            goodput_bps: interval.goodput_bps.iter().sum(),
            flows: interval
                .flows
                .iter()
                .zip(&interval.goodput_bps)
                .map(|(flow, goodput_bps)| SampleRecord {
                    goodput_bps: *goodput_bps,
                    cwnd_packets: sends.then_some(flow.cwnd),
                    srtt_s: sends.then_some(flow.srtt_s),
                    retransmissions: sends.then_some(flow.retransmissions),
                })
                .collect(),
        }
    }
}
