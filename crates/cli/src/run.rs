//! `windward run`: one scenario.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use windward_core::units::Time;
use windward_logs::pcap::PcapFile;
use windward_logs::qlog::QlogFiles;
use windward_report::playground::{self, LOOPBACK};
use windward_report::plot::RunChart;
use windward_sim::output::{OutputDir, OutputFile, is_standard_output};
use windward_sim::partition::Partition;
use windward_sim::record::RunRecord;
use windward_sim::trace::TraceFiles;
use windward_sim::{Outcome, ParallelSimulation, Scenario, Simulation};

use crate::clock::CpuStopwatch;
use crate::drive::Driver;
use crate::failure::Failure;
use crate::output::{self, TextTable, rate, seconds, si};
use crate::pcap::PcapArgs;
use crate::python::Python;
use crate::qlog::QlogArgs;
use crate::scenario_args::{self, ScenarioArgs};
use crate::signals;
use crate::threads::ThreadArgs;
use crate::trace::TraceArgs;

/// Simulate one scenario
///
/// --set may name FILE.py:CLASS, a congestion controller in Python, as the protocol of flows or as
/// its window. This needs the Python package: `pip install .` in a clone of the repository.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Write the results into this folder: run.json, run-flows.csv, run-groups.csv and
    /// run-links.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Draw windows, rates and queues over time, at the sampling interval of the scenario or at 500
    /// instants
    ///
    /// The drawing has a link that opens the scenario in the playground while `windward play` runs.
    #[arg(long, value_name = "FILE.svg", value_parser = plot_parser())]
    plot: Option<PathBuf>,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    qlog: QlogArgs,

    #[command(flatten)]
    pcap: PcapArgs,

    #[command(flatten)]
    threads: ThreadArgs,
}

/// Parser of the path of a chart, which need not be UTF-8.
pub(crate) fn plot_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| plot_path(path.into()))
}

fn plot_path(path: PathBuf) -> Result<PathBuf, String> {
    // Extensions of other formats are refused; devices, pipes and `-` are accepted.
    let is_stream = is_standard_output(&path)
        || path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
    match path.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("svg") => Ok(path),
        _ if is_stream => Ok(path),
        _ => Err("must be an SVG file, such as run.svg".to_owned()),
    }
}

/// A chart and its file.
#[derive(Debug)]
pub(crate) struct Plot {
    pub(crate) chart: RunChart,
    file: OutputFile,
}

impl Plot {
    /// `playground` is the address that opens the scenario there.
    pub(crate) fn create(
        path: &Path,
        scenario: &Scenario,
        playground: Option<String>,
    ) -> Result<Self, Failure> {
        signals::check()?;
        let file = output::create("--plot", path)?;
        let chart = RunChart::new(scenario).with_playground(playground);
        Ok(Plot { chart, file })
    }

    pub(crate) fn commit(self, title: &str, outcome: &Outcome) -> Result<(), Failure> {
        let svg = self.chart.svg(title, outcome);
        self.file.finish(svg.as_bytes())?;
        Ok(())
    }
}

/// Largest number of flows that are listed one by one.
const MAX_FLOW_ROWS: usize = 24;
/// Largest number of links that are listed one by one.
const MAX_LINK_ROWS: usize = 16;

pub(crate) fn run(args: &Args, quiet: bool, python: &Python<'_>) -> Result<(), Failure> {
    output::claim_json(args.json)?;
    let mut file = args.scenario.read()?;
    python.find_protocols(&mut file, &args.scenario.file)?;
    let scenario = scenario_args::build(&file)?;
    let trace = args.trace.create(&scenario)?;
    let logs = args.qlog.create(&scenario)?;
    // A path that cannot be written fails before the run.
    let address = || playground::fragment(&file).map(|state| format!("{LOOPBACK}#{state}"));
    let create = |path: &PathBuf| Plot::create(path, &scenario, address());
    let mut plot = args.plot.as_ref().map(create).transpose()?;
    let pcap = args.pcap.create(&scenario)?;
    let mut out = None;
    if let Some(dir) = &args.out {
        signals::check()?;
        out = Some(OutputDir::create(dir)?);
    }
    let cpu = CpuStopwatch::start();
    let chart = plot.as_mut().map(|plot| &mut plot.chart);
    let observers = Observers { trace, chart, logs: logs.as_ref(), pcap: pcap.as_ref() };
    let partition = args.threads.partition(&scenario, observers.option(), quiet)?;
    let (outcome, trace) = match &partition {
        None => simulate(&scenario, observers, quiet)?,
        Some(partition) => (simulate_on(&scenario, partition, quiet)?, None),
    };
    let cpu_s = cpu.seconds();
    if let Some(mut out) = out {
        RunRecord::new(&outcome).write_files(&mut out)?;
        out.commit()?;
    }
    if let (Some(plot), Some(path)) = (plot, &args.plot) {
        plot.commit(&args.scenario.file.display().to_string(), &outcome)?;
        if !quiet {
            output::note(&format!("chart: {}", path.display()));
        }
    }
    if let Some(trace) = trace {
        let [flows, links] = trace.commit()?;
        if !quiet {
            output::note(&format!("trace: {} and {}", flows.display(), links.display()));
        }
    }
    if let Some(logs) = logs {
        let files = logs.commit()?;
        if let (false, Some(first)) = (quiet, files.first()) {
            let more = files.len() - 1;
            output::note(&format!("qlog: {} and {more} more", first.display()));
        }
    }
    if let Some(pcap) = pcap {
        let file = pcap.commit()?;
        if !quiet {
            output::note(&format!("pcap: {}", file.display()));
        }
    }
    if args.json {
        return output::print_json(&RunRecord::new(&outcome).with_cpu_time(cpu_s));
    }
    let threads = partition.map_or(1, |partition| partition.threads());
    let how =
        if threads > 1 { format!("simulated on {threads} threads") } else { "simulated".into() };
    output::print(&summary(&scenario, &outcome, cpu_s, &how))
}

/// Observers of a run.
#[derive(Debug, Default)]
pub(crate) struct Observers<'a> {
    pub(crate) trace: Option<TraceFiles>,
    pub(crate) chart: Option<&'a mut RunChart>,
    pub(crate) logs: Option<&'a QlogFiles>,
    pub(crate) pcap: Option<&'a PcapFile>,
}

impl Observers<'_> {
    /// An option that asks for one of them.
    fn option(&self) -> Option<&'static str> {
        let Observers { trace, chart, logs, pcap } = self;
        let asked = [
            (trace.is_some(), "--trace"),
            (chart.is_some(), "--plot"),
            (logs.is_some(), "--qlog"),
            (pcap.is_some(), "--pcap"),
        ];
        asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, option)| option)
    }
}

/// Runs a scenario to its end on several threads.
pub(crate) fn simulate_on(
    scenario: &Scenario,
    partition: &Partition,
    quiet: bool,
) -> Result<Outcome, Failure> {
    let mut driver = Driver::new(scenario, scenario.duration, quiet);
    let mut sim = ParallelSimulation::new(scenario, partition);
    driver.advance(&mut sim, Time::ZERO + scenario.duration, None, None)?;
    Ok(sim.finish())
}

/// Runs a scenario to its end, samples the trace and the chart, and writes logs.
pub(crate) fn simulate(
    scenario: &Scenario,
    observers: Observers<'_>,
    quiet: bool,
) -> Result<(Outcome, Option<TraceFiles>), Failure> {
    let Observers { mut trace, mut chart, logs, pcap } = observers;
    let end = Time::ZERO + scenario.duration;
    let mut driver = Driver::new(scenario, scenario.duration, quiet);
    let mut sim = match (logs, pcap) {
        (Some(logs), Some(pcap)) => {
            Simulation::observed(scenario, Box::new((logs.observer(), pcap.observer())))
        }
        (Some(logs), None) => Simulation::observed(scenario, logs.observer()),
        (None, Some(pcap)) => Simulation::observed(scenario, pcap.observer()),
        (None, None) if trace.is_some() || chart.is_some() => Simulation::traced(scenario),
        (None, None) => Simulation::new(scenario),
    };
    loop {
        let of_trace = trace.as_ref().and_then(TraceFiles::next_sample);
        let of_chart = chart.as_ref().and_then(|chart| chart.next_sample());
        let Some(instant) = of_trace.into_iter().chain(of_chart).min() else { break };
        driver.advance(&mut sim, instant, logs, pcap)?;
        if let Some(trace) = trace.as_mut().filter(|_| of_trace == Some(instant)) {
            trace.sample(&mut sim)?;
        }
        if let Some(chart) = chart.as_mut().filter(|_| of_chart == Some(instant)) {
            chart.sample(&mut sim);
        }
    }
    driver.advance(&mut sim, end, logs, pcap)?;
    Ok((sim.finish(), trace))
}

/// The outcome as text for people; `how` is `simulated`, `emulated` or `replayed`.
pub(crate) fn summary(
    scenario: &Scenario,
    outcome: &Outcome,
    cpu_s: f64,
    simulated: &str,
) -> String {
    let mut text = format!(
        "{} {simulated}, figures after the first {}, seed {}\n\n",
        seconds(outcome.duration.as_secs_f64()),
        seconds(outcome.warmup.as_secs_f64()),
        outcome.seed,
    );
    text += &groups(outcome).text();
    if outcome.flows.len() <= MAX_FLOW_ROWS {
        text += "\n";
        text += &flows(outcome).text();
    }
    text += "\n";
    text += &links(scenario, outcome);
    let hops_per_s = if cpu_s > 0.0 {
        format!(" ({}packet-hops per CPU second)", si(outcome.packet_hops as f64 / cpu_s))
    } else {
        String::new()
    };
    text += &format!(
        "\nJain's index {:.4} over the goodput of the flows\n\
         {} packet-hops in {} events and {} of CPU{hops_per_s}\n\
         fingerprint {}\n",
        outcome.jain,
        outcome.packet_hops,
        outcome.events,
        seconds(cpu_s),
        outcome.fingerprint(),
    );
    text
}

/// A count that a flow may lack, since packets of outside programs are not inspected.
fn known(count: Option<u64>) -> String {
    count.map_or_else(|| "-".to_owned(), |count| count.to_string())
}

/// A value that a flow may lack or never have measured.
fn some(value: Option<f64>, text: impl Fn(f64) -> String) -> String {
    value.filter(|value| *value != 0.0).map_or_else(|| "-".to_owned(), text)
}

fn groups(outcome: &Outcome) -> TextTable {
    let mut table = TextTable::new([
        "group",
        ">flows",
        ">goodput",
        ">throughput",
        ">sent",
        ">again",
        ">timeouts",
        ">mean rtt",
    ]);
    for group in &outcome.groups {
        table.row([
            group.name.clone(),
            group.flows.to_string(),
            rate(group.goodput_bps),
            rate(group.throughput_bps),
            group.packets_sent.to_string(),
            known(group.retransmissions),
            known(group.timeouts),
            some(group.mean_rtt_s, seconds),
        ]);
    }
    table
}

fn flows(outcome: &Outcome) -> TextTable {
    let mut headings = vec![
        "flow",
        "protocol",
        ">goodput",
        ">throughput",
        ">sent",
        ">again",
        ">timeouts",
        ">mean rtt",
        ">mean cwnd",
    ];
    let transfers = outcome.flows.iter().any(|flow| flow.completed.is_some());
    if transfers {
        headings.push(">completed");
    }
    let mut table = TextTable::new(headings);
    for flow in &outcome.flows {
        let mut cells = vec![
            flow.name.to_string(),
            flow.protocol.clone().into_owned(),
            rate(flow.goodput_bps),
            rate(flow.throughput_bps),
            flow.packets_sent.to_string(),
            known(flow.retransmissions),
            known(flow.timeouts),
            some(flow.mean_rtt_s, seconds),
            some(flow.mean_cwnd_packets, |cwnd| format!("{cwnd:.1}")),
        ];
        if transfers {
            cells.push(
                flow.completed.map_or_else(|| "-".to_owned(), |time| seconds(time.as_secs_f64())),
            );
        }
        table.row(cells);
    }
    table
}

/// Bottleneck links, and links that lost or marked packets.
fn links(scenario: &Scenario, outcome: &Outcome) -> String {
    let bottlenecks: BTreeSet<usize> = scenario.flows.iter().map(|f| f.bottleneck).collect();
    let mut notable: Vec<usize> = (0..outcome.links.len())
        .filter(|index| {
            let link = &outcome.links[*index];
            bottlenecks.contains(index) || link.dropped + link.corrupted + link.marked > 0
        })
        .collect();
    notable.truncate(MAX_LINK_ROWS);
    let mut table = TextTable::new([
        "link",
        ">busy",
        ">arrived",
        ">dropped",
        ">corrupted",
        ">marked",
        ">delivered",
        ">in flight",
        ">mean queue",
        ">max",
    ]);
    for &index in &notable {
        let link = &outcome.links[index];
        table.row([
            link.name.to_string(),
            format!("{:.1} %", link.utilization * 100.0),
            link.arrived.to_string(),
            link.dropped.to_string(),
            link.corrupted.to_string(),
            link.marked.to_string(),
            link.delivered.to_string(),
            link.in_flight.to_string(),
            format!("{:.1}", link.mean_queue_packets),
            link.max_queue_packets.to_string(),
        ]);
    }
    let mut text = table.text();
    let hidden = outcome.links.len() - notable.len();
    if hidden > 0 {
        text += &format!("and {hidden} more links: --json has them all\n");
    }
    text
}
