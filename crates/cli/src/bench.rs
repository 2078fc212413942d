//! `windward bench`: speed of the simulator on this machine.

use windward_sim::Scenario;
use windward_sim::scenario::file::ScenarioFile;

use serde::Serialize;
use std::path::PathBuf;

use crate::clock::{CpuStopwatch, Stopwatch};
use crate::failure::Failure;
use crate::memory;
use crate::output::{self, TextTable, si};
use crate::run::{Observers, simulate, simulate_on};
use crate::scenario_args::{Changes, build};
use crate::threads::ThreadArgs;

mod counters;
use counters::Instructions;

/// Measure the speed of the simulator
///
/// Without a file it runs 10 and 100 `sack` flows over one bottleneck of 1 Gbit/s, the scenario of
/// experiments/speed/dumbbell.toml. A packet-hop is a packet, data or ACK, that enters a link.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario to measure; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    #[command(flatten)]
    changes: Changes,

    /// Number of runs of each scenario; the fastest counts
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Print one JSON array of objects
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    threads: ThreadArgs,
}

/// The reference scenario, compiled in so that the binary needs no files.
const REFERENCE: &str = include_str!("../../../experiments/speed/dumbbell.toml");
/// Numbers of flows in the reference scenario.
const REFERENCE_FLOWS: [&str; 2] = ["10", "100"];

#[derive(Debug, Serialize)]
struct Measurement {
    scenario: String,
    flows: usize,
    runs: u32,
    threads: usize,
    packet_hops: u64,
    events_per_packet_hop: f64,
    /// Time and CPU time, of all threads, of the fastest run.
    elapsed_s: f64,
    cpu_s: f64,
    packet_hops_per_cpu_s: f64,
    /// `null` where the processor's counters cannot be read.
    instructions_per_packet_hop: Option<f64>,
    /// Peak memory of the process in these runs; `null` where the system does not report it.
    peak_memory_bytes: Option<u64>,
    fingerprint: String,
}

pub(crate) fn bench(args: &Args, quiet: bool) -> Result<(), Failure> {
    let mut measurements = Vec::new();
    for (name, scenario) in scenarios(args)? {
        measurements.push(measure(name, &scenario, args, quiet)?);
    }
    if args.json {
        return output::print_json(&measurements);
    }
    output::print(&report(&measurements))
}

fn scenarios(args: &Args) -> Result<Vec<(String, Scenario)>, Failure> {
    if let Some(path) = &args.file {
        let file = ScenarioFile::read(path)?.with_stacks(&crate::stacks());
        let scenario = build(&args.changes.of(file.within(memory::free))?)?;
        return Ok(vec![(path.display().to_string(), scenario)]);
    }
    REFERENCE_FLOWS
        .into_iter()
        .map(|n| {
            let mut file = ScenarioFile::parse("experiments/speed/dumbbell.toml", REFERENCE)?
                .with_stacks(&crate::stacks());
            file.set("flows.*.count", n)?;
            Ok((format!("dumbbell, N = {n}"), build(&args.changes.of(file)?)?))
        })
        .collect()
}

fn measure(
    name: String,
    scenario: &Scenario,
    args: &Args,
    quiet: bool,
) -> Result<Measurement, Failure> {
    let runs = args.runs;
    let partition = args.threads.partition(scenario, None, quiet)?;
    counters::reset_peak_memory();
    let mut best: Option<(f64, f64, Option<u64>)> = None;
    let mut last = None;
    for _ in 0..runs {
        let instructions = Instructions::start();
        let (wall, cpu) = (Stopwatch::start(), CpuStopwatch::start());
        let outcome = match &partition {
            None => simulate(scenario, Observers::default(), quiet)?.0,
            Some(partition) => simulate_on(scenario, partition, quiet)?,
        };
        // They count those of this thread.
        let instructions =
            instructions.and_then(Instructions::stop).filter(|_| partition.is_none());
        let run = (wall.elapsed().as_secs_f64(), cpu.seconds(), instructions);
        if best.is_none_or(|(fastest, ..)| run.0 < fastest) {
            best = Some(run);
        }
        last = Some(outcome);
    }
    let (Some((elapsed_s, cpu_s, instructions)), Some(outcome)) = (best, last) else {
        return Err(Failure::Input("--runs must be at least 1".to_owned()));
    };
    // In a short scenario no packet may move, or no time pass.
    let hops = outcome.packet_hops.max(1) as f64;
    Ok(Measurement {
        scenario: name,
        flows: outcome.flows.len(),
        runs,
        threads: partition.map_or(1, |partition| partition.threads()),
        packet_hops: outcome.packet_hops,
        events_per_packet_hop: outcome.events as f64 / hops,
        elapsed_s,
        cpu_s,
        packet_hops_per_cpu_s: outcome.packet_hops as f64 / cpu_s.max(1e-9),
        instructions_per_packet_hop: instructions.map(|n| n as f64 / hops),
        peak_memory_bytes: counters::peak_memory_bytes(),
        fingerprint: outcome.fingerprint(),
    })
}

fn report(measurements: &[Measurement]) -> String {
    let unknown = || "n/a".to_owned();
    let mut table = TextTable::new([
        "scenario",
        ">packet-hops",
        ">per CPU second",
        ">events per hop",
        ">instructions per hop",
        ">peak memory",
    ]);
    for m in measurements {
        table.row([
            m.scenario.clone(),
            m.packet_hops.to_string(),
            si(m.packet_hops_per_cpu_s),
            format!("{:.3}", m.events_per_packet_hop),
            m.instructions_per_packet_hop.map_or_else(unknown, |n| format!("{n:.0}")),
            m.peak_memory_bytes.map_or_else(unknown, |bytes| format!("{}B", si(bytes as f64))),
        ]);
    }
    let mut text = table.text();
    if measurements.iter().any(|m| m.instructions_per_packet_hop.is_none()) {
        text += "\ninstructions: not available (no hardware counters; \
                 use valgrind --tool=callgrind)\n";
    }
    text
}
