//! `windward replay`: what was recorded on a real clock, again in virtual time.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use windward_logs::pcap::PcapFile;
use windward_net::record::{Error, Reader};
use windward_net::testbed;
use windward_sim::Outcome;
use windward_sim::output::OutputDir;
use windward_sim::record::RunRecord;

use crate::clock::CpuStopwatch;
use crate::emulation::{Loaded, Source};
use crate::failure::Failure;
use crate::output;
use crate::pcap::PcapArgs;
use crate::run::summary;

/// Take a recorded emulation through the engine again, in virtual time
///
/// The same packets come in at the same instants, so that the same are dropped and marked, and all
/// others leave at the same instants: the fingerprint is that of the emulation.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `--record` of `windward shell` or `windward emulate` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// One JSON object instead of tables
    #[arg(long)]
    json: bool,

    /// Write what was measured into this folder: run.json, and run-flows.csv, run-groups.csv and
    /// run-links.csv
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    #[command(flatten)]
    pcap: PcapArgs,
}

/// A record, and the scenario that it is of.
fn open(path: &Path) -> Result<(Reader<BufReader<File>>, Loaded), Failure> {
    let failed = failed(path);
    let file = File::open(path).map_err(|error| failed(Error::Io(error)))?;
    let reader = Reader::open(BufReader::new(file)).map_err(failed)?;
    let header = reader.header().clone();
    let source = Source {
        name: header.name,
        text: header.scenario,
        changes: header.changes,
        is_open: header.is_open,
    };
    let loaded = source.load()?;
    if loaded.traces != header.traces {
        return Err(Failure::Input(format!(
            "{}: the trace files that {} names are not those of the recorded run; put them back",
            path.display(),
            source.name,
        )));
    }
    Ok((reader, loaded))
}

fn failed(path: &Path) -> impl Fn(Error) -> Failure + Copy {
    move |error| Failure::Input(format!("{}: {error}", path.display()))
}

/// What a recorded run does again.
pub(crate) fn again(path: &Path) -> Result<Outcome, Failure> {
    let (reader, loaded) = open(path)?;
    take(path, reader, &loaded, None)
}

fn take(
    path: &Path,
    reader: Reader<BufReader<File>>,
    loaded: &Loaded,
    pcap: Option<&PcapFile>,
) -> Result<Outcome, Failure> {
    let (mut simulation, ports) = loaded.begin(pcap);
    let flows = testbed::ports(&loaded.scenario).map(|(flow, _)| flow);
    let ports: Vec<_> = flows.zip(ports).collect();
    reader.replay(&mut simulation, &ports, |_, _| {}).map_err(failed(path))?;
    Ok(simulation.stop())
}

pub(crate) fn replay(args: &Args) -> Result<(), Failure> {
    output::claim_json(args.json)?;
    let (reader, loaded) = open(&args.file)?;
    loaded.warn();
    let out = args.out.as_ref().map(|dir| OutputDir::create(dir)).transpose()?;
    let cpu = CpuStopwatch::start();
    let pcap = args.pcap.create(&loaded.scenario)?;
    let outcome = take(&args.file, reader, &loaded, pcap.as_ref())?;
    let cpu_s = cpu.seconds();
    pcap.map(PcapFile::commit).transpose()?;
    if let Some(mut out) = out {
        RunRecord::new(&outcome).write_files(&mut out)?;
        out.commit()?;
    }
    if args.json {
        return output::print(&RunRecord::new(&outcome).with_cpu_time(cpu_s).to_json());
    }
    output::print(&summary(&loaded.scenario, &outcome, cpu_s, "replayed"))
}
