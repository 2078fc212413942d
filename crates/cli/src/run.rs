//! `windward run`: one scenario.

use std::collections::BTreeSet;

use windward_core::units::Time;
use windward_sim::record::{RunRecord, fingerprint, group_mean_rtts};
use windward_sim::trace::TraceFiles;
use windward_sim::{Outcome, Scenario, Simulation};

use crate::clock::CpuStopwatch;
use crate::drive::Driver;
use crate::failure::Failure;
use crate::output::{self, Table, rate, seconds, si};
use crate::scenario_args::ScenarioArgs;
use crate::trace::TraceArgs;

/// Simulate one scenario
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    scenario: ScenarioArgs,

    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    trace: TraceArgs,
}

/// More flows than this are not listed one by one.
const MAX_FLOW_ROWS: usize = 24;
/// More links than this are not listed one by one.
const MAX_LINK_ROWS: usize = 16;

pub(crate) fn run(args: &Args, quiet: bool) -> Result<(), Failure> {
    let scenario = args.scenario.load()?;
    let trace = args.trace.create(&scenario)?;
    let cpu = CpuStopwatch::start();
    let (outcome, trace) = simulate(&scenario, trace, quiet)?;
    let cpu_s = cpu.seconds();
    if let Some(trace) = trace {
        let [flows, links] = trace.commit()?;
        if !quiet {
            eprintln!("trace: {} and {}", flows.display(), links.display());
        }
    }
    if args.json {
        return output::print(&RunRecord::new(&outcome).with_cpu_time(cpu_s).to_json());
    }
    output::print(&summary(&scenario, &outcome, cpu_s))
}

/// Runs to the end; a trace is sampled on the way.
pub(crate) fn simulate(
    scenario: &Scenario,
    mut trace: Option<TraceFiles>,
    quiet: bool,
) -> Result<(Outcome, Option<TraceFiles>), Failure> {
    let end = Time::ZERO + scenario.duration;
    let mut driver = Driver::new(scenario.duration, quiet);
    let mut sim =
        if trace.is_some() { Simulation::traced(scenario) } else { Simulation::new(scenario) };
    if let Some(trace) = &mut trace {
        while let Some(instant) = trace.next_sample() {
            driver.advance(&mut sim, instant)?;
            trace.sample(&mut sim)?;
        }
    }
    driver.advance(&mut sim, end)?;
    Ok((sim.finish(), trace))
}

/// The outcome for people.
fn summary(scenario: &Scenario, outcome: &Outcome, cpu_s: f64) -> String {
    let mut text = format!(
        "{} simulated, figures after the first {}, seed {}\n\n",
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
        fingerprint(outcome),
    );
    text
}

fn groups(outcome: &Outcome) -> Table {
    let mut table = Table::new([
        "group",
        ">flows",
        ">goodput",
        ">throughput",
        ">sent",
        ">again",
        ">timeouts",
        ">mean rtt",
    ]);
    for (group, mean_rtt_s) in outcome.groups.iter().zip(group_mean_rtts(outcome)) {
        table.row([
            group.name.clone(),
            group.flows.to_string(),
            rate(group.goodput_bps),
            rate(group.throughput_bps),
            group.packets_sent.to_string(),
            group.retransmissions.to_string(),
            group.timeouts.to_string(),
            seconds(mean_rtt_s),
        ]);
    }
    table
}

fn flows(outcome: &Outcome) -> Table {
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
    let mut table = Table::new(headings);
    for flow in &outcome.flows {
        let mut cells = vec![
            flow.name.to_string(),
            flow.protocol.clone().into_owned(),
            rate(flow.goodput_bps),
            rate(flow.throughput_bps),
            flow.packets_sent.to_string(),
            flow.retransmissions.to_string(),
            flow.timeouts.to_string(),
            seconds(flow.mean_rtt.as_secs_f64()),
            format!("{:.1}", flow.mean_cwnd),
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

/// The links where something happened: bottlenecks, and those that lost or marked packets.
fn links(scenario: &Scenario, outcome: &Outcome) -> String {
    let bottlenecks: BTreeSet<usize> = scenario.flows.iter().map(|f| f.bottleneck).collect();
    let mut notable: Vec<usize> = (0..outcome.links.len())
        .filter(|index| {
            let link = &outcome.links[*index];
            bottlenecks.contains(index) || link.dropped + link.corrupted + link.marked > 0
        })
        .collect();
    notable.truncate(MAX_LINK_ROWS);
    let mut table = Table::new([
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
        text += &format!("and {hidden} links more: --json has them all\n");
    }
    text
}
