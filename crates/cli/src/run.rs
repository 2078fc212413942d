//! `windward run`: one scenario.

use std::collections::BTreeSet;

use windward_core::units::Time;
use windward_sim::{Outcome, Scenario, Simulation};

use crate::clock::CpuStopwatch;
use crate::drive::Driver;
use crate::failure::Failure;
use crate::output::{self, Table, rate, seconds, si};
use crate::record::{RunRecord, fingerprint, group_mean_rtt_s};
use crate::scenario_args::ScenarioArgs;
use crate::trace::{TraceArgs, Tracer};

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
    let tracer = Tracer::create(&args.trace, &scenario)?;
    let cpu = CpuStopwatch::start();
    let (outcome, traced) = simulate(&scenario, tracer, quiet)?;
    let cpu_s = cpu.seconds();
    if let Some(tracer) = traced {
        let paths = tracer.publish()?;
        if !quiet {
            eprintln!("trace: {paths}");
        }
    }
    if args.json {
        return output::print_json(&RunRecord::new(&outcome, cpu_s));
    }
    output::print(&summary(&scenario, &outcome, cpu_s))
}

/// Runs to the end; a tracer samples on the way.
pub(crate) fn simulate(
    scenario: &Scenario,
    mut tracer: Option<Tracer>,
    quiet: bool,
) -> Result<(Outcome, Option<Tracer>), Failure> {
    let end = Time::ZERO + scenario.duration;
    let mut driver = Driver::new(scenario.duration, quiet);
    let mut sim =
        if tracer.is_some() { Simulation::traced(scenario) } else { Simulation::new(scenario) };
    if let Some(tracer) = &mut tracer {
        while let Some(instant) = tracer.next_sample() {
            driver.advance(&mut sim, instant)?;
            tracer.sample(&mut sim)?;
        }
    }
    driver.advance(&mut sim, end)?;
    Ok((sim.finish(), tracer))
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
        format!(" ({}packet-hops a CPU second)", si(outcome.packet_hops as f64 / cpu_s))
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
    for (index, group) in outcome.groups.iter().enumerate() {
        table.row([
            group.name.clone(),
            group.flows.to_string(),
            rate(group.goodput_bps),
            rate(group.throughput_bps),
            group.packets_sent.to_string(),
            group.retransmissions.to_string(),
            group.timeouts.to_string(),
            seconds(group_mean_rtt_s(outcome, index)),
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
            flow.name.clone(),
            flow.protocol.to_owned(),
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
            link.name.clone(),
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
