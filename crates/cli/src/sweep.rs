//! `windward sweep`: runs an experiment from a file of the user.

use std::path::{Path, PathBuf};
use std::process::Command;

use windward_experiments::experiment::RunLength;
use windward_experiments::statistics::Estimate;
use windward_experiments::{Effort, Experiment};
use windward_report::{Means, ReportOptions};

use crate::effort::{self, EffortArgs};
use crate::failure::Failure;
use crate::output::{self, TextTable};
use crate::python::replace_by;
use crate::scenario_args;
use crate::signals;

/// Run an experiment from a file on all cores
///
/// An experiment is a scenario file with an additional table, `[experiment]`: axes to sweep,
/// metrics to compute, claims to check. The command writes the same report as `reproduce`, and its
/// rows as CSV and Parquet.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The experiment, a TOML file; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Folder for the report [default: results/ID, with the experiment's id]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Number of runs of each combination of the axes, in place of the file's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,

    /// Run on the workers of a Dask scheduler, such as tcp://HOST:8786; the rows become a Parquet
    /// dataset in the folder
    ///
    /// Needs the Python package with Dask, here and on the workers: `pip install '.[dask]'` in a
    /// clone of the repository.
    #[arg(long, value_name = "ADDRESS")]
    dask: Option<String>,

    /// Run on a Ray cluster: ray://HOST:10001, or `local` for a cluster on this machine
    #[arg(long, value_name = "ADDRESS")]
    ray: Option<String>,

    #[command(flatten)]
    effort: EffortArgs,
}

impl Args {
    /// Executor by its name in Python, if runs are not done in this process.
    fn executor(&self) -> Option<String> {
        let ray = self.ray.as_ref().map(|address| match address.as_str() {
            "local" => "ray".to_owned(),
            address => address.to_owned(),
        });
        self.dask.clone().or(ray)
    }
}

/// Runs the command. `python` is the interpreter for sweeps on clusters.
pub(crate) fn sweep(args: &Args, quiet: bool, python: &Path) -> Result<(), Failure> {
    if let Some(executor) = args.executor() {
        return elsewhere(args, quiet, &executor, python);
    }
    let mut experiment = Experiment::read(&args.file)?.with_stacks(&crate::stacks());
    args.effort.change(&mut experiment)?;
    let mut effort = args.effort.effort();
    if let Some(repetitions) = args.repetitions {
        let length = experiment.run_length(&effort);
        let length = RunLength { repetitions, at_most: repetitions, ..length };
        effort = Effort::Custom { full: effort.is_full(), length };
    }
    scenario_args::warn(experiment.plan(&effort)?.warnings());
    let default_out = || PathBuf::from("results").join(&experiment.id);
    let out = args.out.clone().unwrap_or_else(default_out);
    if args.effort.dry_run {
        return effort::forecast(std::slice::from_ref(&experiment), &effort, &args.effort);
    }
    signals::check()?;
    let report = ReportOptions {
        about: effort::about(),
        resume: args.effort.resume,
        every_table: true,
        ..ReportOptions::default()
    };
    let experiments = [experiment];
    effort::tell_of_other_builds(quiet, &out);
    let summary = effort::with_progress(quiet, &args.effort, &out, |options| {
        windward_report::reproduce(&experiments, &effort, options, &report, &out)
    })?;
    let mut text = String::new();
    for means in &summary.means {
        text += &table(means).text();
    }
    if !summary.claims.is_empty() {
        text += "\n";
        text += &effort::verdicts(&summary.claims);
    }
    text += &format!("\n{} runs; the report is {}\n", summary.runs, summary.index.display());
    output::print(&text)?;
    effort::strictly(args.effort.strict, &summary.claims)
}

/// First line of the Python program, which explains what to do if the package is missing.
const BEGIN: &str = "\
import sys
try:
    from windward._cluster import main
except ImportError as error:
    sys.exit(f'error: {sys.executable}: {error}; --dask and --ray need the Python package there: `pip install .[dask]` or `pip install .[ray]` in a clone of the repository')
sys.exit(main())";

/// Hands the sweep over to the Python package, which supports Dask and Ray.
fn elsewhere(args: &Args, quiet: bool, executor: &str, python: &Path) -> Result<(), Failure> {
    let request = serde_json::json!({
        "file": args.file,
        "executor": executor,
        "out": args.out,
        "repetitions": args.repetitions,
        "full": args.effort.effort().is_full(),
        "resume": args.effort.resume,
        "set": args.effort.changes(),
        "quiet": quiet,
    });
    let mut command = Command::new(python);
    command.args(["-c", BEGIN]).arg(request.to_string());
    let error = replace_by(&mut command);
    let python = python.display();
    Err(Failure::Failed(format!(
        "{python}: cannot be started: {error}; --dask and --ray need Python with the package \
         of Windward: `pip install '.[dask]'` or `pip install '.[ray]'` in a clone of the repository"
    )))
}

/// A row per combination of the axes: the mean of each metric with its interval.
fn table(means: &Means) -> TextTable {
    let Means { experiment, cells } = means;
    let axes = experiment.axes.iter().map(|axis| axis.name.clone());
    let metrics = experiment.metrics.iter().map(|m| format!(">{}", m.name));
    let mut table = TextTable::new(axes.chain(metrics));
    for (cell, metrics) in cells.iter().enumerate() {
        let labels = experiment.points(cell).into_iter().map(|p| p.label.clone());
        table.row(labels.chain(metrics.iter().map(|estimate| mean(*estimate))));
    }
    table
}

/// `0.912 +- 0.014`, at 95 %.
fn mean(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "-".to_owned(),
        Some(e) if e.low.is_infinite() => number(e.mean),
        Some(e) => format!("{} +- {}", number(e.mean), number(e.high - e.mean)),
    }
}

/// Ratios with three decimals, rates and counts with a prefix.
fn number(x: f64) -> String {
    if x.abs() < 1000.0 { format!("{x:.3}") } else { output::si(x) }
}
