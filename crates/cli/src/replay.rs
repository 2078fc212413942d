//! `windward replay`: a recorded emulation, again in virtual time.

use std::path::PathBuf;

use windward_logs::pcap::PcapFile;
use windward_net::source::Recorded;
use windward_sim::output::OutputDir;
use windward_sim::record::RunRecord;

use crate::clock::CpuStopwatch;
use crate::failure::Failure;
use crate::output;
use crate::pcap::PcapArgs;
use crate::run::summary;
use crate::scenario_args::warn;

/// Run a recorded emulation again, in virtual time
///
/// The packets arrive at the recorded instants. Drops, marks and departures are therefore those of
/// the emulation, and so is the fingerprint.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Record, written by `--record` of `windward shell` or `windward emulate`
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Write the results into this folder: run.json, run-flows.csv, run-groups.csv and
    /// run-links.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    pcap: PcapArgs,
}

pub(crate) fn replay(args: &Args) -> Result<(), Failure> {
    output::claim_json(args.json)?;
    let recorded = Recorded::open(&args.file, crate::stacks())?;
    let scenario = recorded.scenario().clone();
    warn(scenario.warnings.iter().map(String::as_str));
    let out = args.out.as_ref().map(|dir| OutputDir::create(dir)).transpose()?;
    let cpu = CpuStopwatch::start();
    let pcap = args.pcap.create(&scenario)?;
    let outcome = recorded.replay(pcap.as_ref().map(PcapFile::observer))?;
    let cpu_s = cpu.seconds();
    pcap.map(PcapFile::commit).transpose()?;
    if let Some(mut out) = out {
        RunRecord::new(&outcome).write_files(&mut out)?;
        out.commit()?;
    }
    if args.json {
        return output::print_json(&RunRecord::new(&outcome).with_cpu_time(cpu_s));
    }
    output::print(&summary(&scenario, &outcome, cpu_s, "replayed"))
}
