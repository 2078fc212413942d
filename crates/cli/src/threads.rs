//! The threads of one run.

use clap::value_parser;
use windward_sim::Scenario;
use windward_sim::partition::{MAX_THREADS, Partition};

use crate::failure::Failure;
use crate::{memory, output};

/// Least predicted gain of a division that is not asked for.
const WORTHWHILE: f64 = 1.2;
/// Memory of a flow and its links on each thread, bytes.
const BYTES_OF_FLOW: usize = 2000;

/// The threads of one run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ThreadArgs {
    /// Threads for the run, which do not change its outcome [default: 1, or one per core for many
    /// flows]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=MAX_THREADS as i64))]
    threads: Option<u16>,

    /// Links at which --threads divides the topology, each with its opposite, in place of those
    /// that it would choose
    #[arg(long, value_name = "LINK,...", value_delimiter = ',', requires = "threads")]
    cut: Vec<String>,
}

impl ThreadArgs {
    /// The partition of the scenario; `None` for one thread, with a note if more were asked for.
    /// `watched` names an option that looks at the run while it goes on.
    pub(crate) fn partition(
        &self,
        scenario: &Scenario,
        watched: Option<&str>,
        quiet: bool,
    ) -> Result<Option<Partition>, Failure> {
        let serial = |reason: &str| {
            if !quiet && self.threads.is_some() {
                output::note(&format!("on one thread: {reason}"));
            }
            Ok(None)
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or(cores, usize::from);
        if threads == 1 {
            return Ok(None);
        }
        if let Some(option) = watched {
            return serial(&format!("{option} looks at the whole run at each instant"));
        }
        let needs = (scenario.flows.len() * BYTES_OF_FLOW) as u64;
        if self.threads.is_none()
            && (!Partition::may_pay(scenario)
                || memory::free().is_some_and(|free| free < needs * threads as u64))
        {
            return Ok(None);
        }
        match Partition::new(scenario, threads, &self.cut) {
            Ok(partition) if self.threads.is_some() || partition.gain() >= WORTHWHILE => {
                Ok(Some(partition))
            }
            Ok(_) => Ok(None),
            Err(error) if self.cut.is_empty() => serial(&error.to_string()),
            Err(error) => Err(Failure::Input(format!("--cut: {error}"))),
        }
    }
}
