//! Emulations, and comparisons of programs, on a real clock.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use windward_experiments::ExperimentError;
use windward_experiments::comparison::{Comparison, Keeper};
use windward_net::campaign::{self, Campaign, Cast, Conditions, Effort, Network, Rival};
use windward_net::emulation::{self, Ended};
use windward_net::error::Error;
use windward_net::link::Link;
use windward_netns::{become_child, start_again_by};
use windward_report::{Provenance, write_comparison};

use crate::progress::Progress;
use crate::run::{Chart, Run};
use crate::scenario::Scenario;
use crate::work::{experiment_error, on_a_thread};
use crate::{duration, error};

/// Sets how this process is started again as a child in a namespace: the interpreter, and a module
/// of the package.
pub(crate) fn start_again(python: &Path) {
    start_again_by([python.as_os_str(), "-m".as_ref(), "windward._child".as_ref()]);
}

/// Runs as a child if these are the arguments of a child, and then does not return.
#[pyfunction]
pub(crate) fn child(arguments: Vec<OsString>) {
    become_child(arguments);
}

fn raised(py: Python<'_>, wrong: Error) -> PyErr {
    match wrong {
        Error::Scenario(wrong) => error::scenario(py, &wrong),
        Error::Input(message) => error::value(message),
        wrong => PyRuntimeError::new_err(wrong.to_string()),
    }
}

/// A flag that stops one call. It is never freed, since remaining threads may still read it.
fn flag() -> &'static AtomicBool {
    Box::leak(Box::new(AtomicBool::new(false)))
}

/// Node, status, standard output and standard error of a command.
type EndedCommand = (String, i32, String, String);

/// Runs a scenario on the real clock with commands at its nodes. Returns the run, all other results
/// as JSON, and the node, status, standard output and standard error of each command.
#[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "Python calls it so")]
#[pyfunction]
#[pyo3(signature = (scenario, commands, *, duration, mtu, record, progress, python))]
pub(crate) fn emulate(
    py: Python<'_>,
    scenario: &Bound<'_, Scenario>,
    commands: Vec<(String, String)>,
    duration: Option<&Bound<'_, PyAny>>,
    mtu: Option<u16>,
    record: Option<PathBuf>,
    progress: Option<&Bound<'_, PyAny>>,
    python: PathBuf,
) -> PyResult<(Run, String, Vec<EndedCommand>)> {
    start_again(&python);
    let duration = duration.map(|span| duration::read(span, "duration")).transpose()?;
    let mut source = scenario.get().source(!commands.is_empty())?;
    source.add_port().map_err(|wrong| raised(py, wrong))?;
    let options = emulation::Options { commands, duration, mtu, record };
    let stop = flag();
    let progress = Progress::new(py, progress, "emulation")?;
    let done = on_a_thread(py, stop, &progress, |share| {
        let heard = |part: f64| share.store(part.to_bits(), Ordering::Relaxed);
        emulation::emulate(&source, &options, stop, heard)
    });
    let done = progress.close(done)?.map_err(|wrong| raised(py, wrong))?;
    let done = done.ok_or_else(|| PyKeyboardInterrupt::new_err(()))?;
    let measured = serde_json::json!({ "ports": done.ports, "clock": done.clock }).to_string();
    let commands = done.commands.into_iter();
    let commands =
        commands.map(|Ended { node, status, stdout, stderr }| (node, status, stdout, stderr));
    let chart = Chart::Rates(scenario.get().seeded(None));
    Ok((Run::new(done.outcome, None, chart), measured, commands.collect()))
}

/// A network from Python.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Scenario(Bound<'py, Scenario>),
    Link(GivenLink),
}

/// Values of a link, as text.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenLink {
    rate: Option<String>,
    delay: Option<String>,
    queue: Option<String>,
    aqm: Option<String>,
    trace: Option<PathBuf>,
    up: Vec<(String, String)>,
    down: Vec<(String, String)>,
}

impl Given<'_> {
    fn network(self, link: Option<String>) -> PyResult<Result<Network, Error>> {
        match self {
            Given::Scenario(scenario) => {
                let source = scenario.get().source(true)?;
                Ok(Ok(Network { source, link, words: None }))
            }
            Given::Link(GivenLink { rate, delay, queue, aqm, trace, up, down }) => {
                let link = Link { rate, delay, queue, aqm, loss: None, trace, up, down };
                Ok(Network::of_link(&link, windward_cli::stacks()))
            }
        }
    }
}

/// Arguments of a comparison from Python, with all defaults filled in.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    link: Option<String>,
    cast: AskedCast,
    conditions: AskedConditions,
    effort: AskedEffort,
}

/// Programs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct AskedCast {
    programs: Vec<String>,
    tables: Vec<PathBuf>,
    rival: Option<String>,
    alone: bool,
}

/// Conditions of each run.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct AskedConditions {
    losses: Vec<f64>,
    routers: bool,
    endpoint: Vec<(String, String)>,
    time: u32,
    warmup: u32,
}

/// Number of runs, and how they are made.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct AskedEffort {
    runs: u16,
    seed: u64,
    jobs: u16,
    simulate: bool,
    records: Option<PathBuf>,
    windward: String,
}

impl Asked {
    fn campaign(self, network: Network) -> Result<Campaign, Error> {
        let AskedCast { programs, tables, rival, alone } = self.cast;
        let rival = match rival {
            _ if alone => Rival::None,
            Some(name) => Rival::Named(name),
            None => Rival::Default,
        };
        let cast = Cast::choose(&campaign::programs(&tables)?, &programs, &rival)?;
        let AskedConditions { losses, routers, endpoint, time, warmup } = self.conditions;
        let conditions = Conditions { losses, routers, endpoint, time, warmup };
        let AskedEffort { runs, seed, jobs, simulate, records, windward } = self.effort;
        let effort = Effort { runs, seed, jobs, simulate, records, windward };
        Campaign::new(network, cast, conditions, effort)
    }
}

/// Why a comparison stopped.
enum Stopped {
    Net(Error),
    Experiment(ExperimentError),
}

impl From<Error> for Stopped {
    fn from(wrong: Error) -> Self {
        Stopped::Net(wrong)
    }
}

impl From<ExperimentError> for Stopped {
    fn from(wrong: ExperimentError) -> Self {
        Stopped::Experiment(wrong)
    }
}

/// Compares programs. Returns the comparison as JSON; its files are in `folder`, if one is given.
#[pyfunction]
#[pyo3(signature = (network, asked, *, folder, resume, progress, about, python))]
#[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "Python calls it so")]
pub(crate) fn compare(
    py: Python<'_>,
    network: Given<'_>,
    asked: Asked,
    folder: Option<PathBuf>,
    resume: bool,
    progress: Option<&Bound<'_, PyAny>>,
    about: (String, String, String),
    python: PathBuf,
) -> PyResult<String> {
    start_again(&python);
    let (date, machine, command) = about;
    let about = Provenance { date, commit: None, machine, command };
    let network = network.network(asked.link.clone())?.map_err(|wrong| raised(py, wrong))?;
    let stop = flag();
    let progress = Progress::new(py, progress, "runs")?;
    let done = on_a_thread(py, stop, &progress, |share| {
        let campaign = asked.campaign(network)?;
        let mut runs = vec![None; campaign.planned()];
        let keeper = folder.as_deref();
        let keeper = keeper.map(|dir| Keeper::open(dir, &campaign.key(), resume, &mut runs));
        let mut keeper = keeper.transpose()?;
        campaign.run(&mut runs, stop, |told| {
            let part = told.done as f64 / told.planned as f64;
            share.store(part.to_bits(), Ordering::Relaxed);
            match (told.ended, &mut keeper) {
                (Some((number, run)), Some(keeper)) => Ok(keeper.keep(number, run)?),
                _ => Ok::<_, Stopped>(()),
            }
        })?;
        if runs.iter().any(Option::is_none) {
            return Err(ExperimentError::Cancelled.into());
        }
        let comparison = Comparison {
            link: campaign.network().to_owned(),
            window: campaign.window(),
            rate_bps: campaign.rate_bps(),
            rival: campaign.rival(),
            planned: campaign.planned(),
            runs: runs.into_iter().flatten().collect(),
            skipped: campaign.skipped().to_vec(),
        };
        if let Some(keeper) = keeper {
            keeper.finish(|out| write_comparison(out, &comparison, &about))?;
        }
        Ok(comparison.to_json()?)
    });
    progress.close(done)?.map_err(|stopped| match stopped {
        Stopped::Net(wrong) => raised(py, wrong),
        Stopped::Experiment(wrong) => experiment_error(py, wrong),
    })
}
