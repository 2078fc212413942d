//! Contents of the pages for one experiment, stored for later reports.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use windward_core::units::Duration;
use windward_experiments::builtin;
use windward_experiments::claims::{CellSamples, ClaimResult, SampledCells, Verdict, number};
use windward_experiments::experiment::ns2::Ns2Cell;
use windward_experiments::experiment::{Effort, Experiment, PlotKind, Reported};
use windward_experiments::expression::{Cell, Expression};
use windward_experiments::statistics::{CONFIDENCE, Estimate};
use windward_experiments::sweep::Results;
use windward_sim::Scenario;

use crate::matrix::{self, PropertyColumn};
use crate::playground::{self, Opened};
use crate::plot::Chart;

/// Contents of the pages for one experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExperimentSection {
    pub(crate) id: String,
    pub(crate) place: SectionHeading,
    pub(crate) method: Method,
    pub(crate) found: Findings,
    pub(crate) origin: Origin,
}

/// Place and heading of a section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SectionHeading {
    /// Key of the collection or paper it belongs to, if any.
    pub(crate) group: Option<String>,
    /// Index among the experiments that come with the program.
    pub(crate) number: usize,
    pub(crate) figure: Option<String>,
    pub(crate) title: String,
}

/// Simulation behind the numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Method {
    pub(crate) setting: String,
    /// Length and number of the runs, and the meaning of bands and lines.
    pub(crate) lengths: String,
    /// Skipped points, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
    pub(crate) warnings: Vec<String>,
    pub(crate) choices: Vec<String>,
    pub(crate) readings: Vec<Choice>,
}

/// Results. Claims and reported numbers are added later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Findings {
    pub(crate) charts: Vec<Chart>,
    /// The same charts in the nearest worlds of claims that do not hold plainly.
    pub(crate) nearest: Vec<InWorlds>,
    pub(crate) claims: Vec<ClaimResult>,
    pub(crate) reported: Vec<ReportedRow>,
    pub(crate) ns2: Vec<Ns2Row>,
    pub(crate) properties: Vec<PropertyColumn>,
}

/// The charts of an experiment in the nearest world of some of its claims.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct InWorlds {
    /// Ids of the claims, in whose nearest world these are the charts.
    pub(crate) claims: Vec<String>,
    /// As [`Findings::charts`]; a chart without panels shows nothing that was measured there.
    pub(crate) charts: Vec<Chart>,
}

/// Command and facts for reproducing the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The command that repeats this section.
    pub(crate) command: String,
    /// The scenario file next to the page.
    pub(crate) scenario: Option<String>,
    /// Scenarios to open in the playground.
    pub(crate) playground: Vec<Opened>,
    pub(crate) effort: String,
    /// Runs that charts and tables show.
    pub(crate) runs: usize,
    /// The entry in `manifest.json`, as JSON.
    pub(crate) manifest: String,
}

/// A choice that the paper leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) choice: String,
    pub(crate) silent: Option<String>,
    /// The former plain value, and the verdicts with it.
    pub(crate) formerly: Option<String>,
    /// Label, basis, source, and whether it is the plain value.
    pub(crate) values: Vec<(String, String, String, bool)>,
}

/// A number of the paper's text and the measured one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportedRow {
    pub(crate) what: String,
    /// Names of its cells.
    pub(crate) cells: Vec<String>,
    /// Its unit; empty without one.
    pub(crate) unit: String,
    /// The number, or the ends of the paper's range.
    pub(crate) range: (f64, f64),
    /// True if it was read off a figure.
    pub(crate) digitised: bool,
    /// The measured mean under the plain reading.
    pub(crate) plain: Option<Estimate>,
    /// A claim that checks it, and the mean in that claim's nearest world.
    pub(crate) world: Option<(String, Estimate)>,
    pub(crate) words: String,
    pub(crate) source: String,
}

/// A cell in ns-2 and the same in Windward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ns2Row {
    pub(crate) what: String,
    pub(crate) theirs: Estimate,
    /// Number of runs of ns-2.
    pub(crate) seeds: u32,
    /// Under the plain reading.
    pub(crate) ours: Option<Estimate>,
}

/// Largest difference of two means that counts as agreement whatever their intervals: cells without
/// losses have none.
const NEAR: f64 = 0.02;

impl Ns2Row {
    /// True if the means differ by at most 2 %, or the two intervals overlap; `None` without an
    /// interval.
    pub(crate) fn agrees(&self) -> Option<bool> {
        let (ours, theirs) = (self.ours.filter(|ours| !ours.is_single())?, self.theirs);
        let close = (ours.mean - theirs.mean).abs() <= NEAR * theirs.mean.abs();
        Some(close || (ours.low <= theirs.high && theirs.low <= ours.high))
    }
}

impl ReportedRow {
    /// `130`, or `10 to 100`.
    pub(crate) fn paper(&self) -> String {
        match self.range {
            (low, high) if low == high => number(low),
            (low, high) => format!("{} to {}", number(low), number(high)),
        }
    }
}

impl ExperimentSection {
    /// Section of a measured experiment; its claims and the command are added later.
    pub(crate) fn new(results: &Results, charts: Vec<Chart>) -> Self {
        let plan = &results.plan;
        let experiment = &plan.experiment;
        let skipped = experiment.axes.iter().flat_map(|a| &a.skipped);
        let claims = experiment.claims.iter().map(|c| ClaimResult::open(c, &experiment.id));
        ExperimentSection {
            id: experiment.id.clone(),
            place: SectionHeading {
                group: key_of(experiment).map(str::to_owned),
                number: builtin::place(experiment),
                figure: experiment.caption.figure.clone(),
                title: experiment.caption.title.clone(),
            },
            method: Method {
                setting: experiment.caption.setting.clone(),
                lengths: lengths(results),
                left_out: skipped.map(|s| (s.label.clone(), s.reason.clone())).collect(),
                warnings: plan.warnings().into_iter().map(str::to_owned).collect(),
                choices: experiment.caption.choices.clone(),
                readings: experiment.readings.iter().map(choice).collect(),
            },
            found: Findings {
                charts,
                nearest: Vec::new(),
                claims: claims.collect(),
                reported: Vec::new(),
                ns2: Vec::new(),
                properties: matrix::columns_of(results),
            },
            origin: Origin {
                command: String::new(),
                scenario: None,
                playground: playground::of(results),
                effort: effort(&plan.effort),
                runs: results.runs.len(),
                manifest: String::new(),
            },
        }
    }
}

/// The key of the group that an experiment belongs to.
pub(super) fn key_of(experiment: &Experiment) -> Option<&str> {
    let chapter = experiment.caption.chapter.as_deref();
    let collection = || builtin::collection_of(experiment).map(|c| c.key);
    chapter.or_else(collection).or(experiment.caption.paper.as_deref())
}

/// Command and facts for reproducing the results.
pub(crate) fn manifest(sections: &[ExperimentSection]) -> serde_json::Value {
    let entry =
        |s: &ExperimentSection| serde_json::from_str(&s.origin.manifest).unwrap_or_default();
    serde_json::json!({
        "program": "windward",
        "version": env!("CARGO_PKG_VERSION"),
        "experiments": sections.iter().map(entry).collect::<Vec<serde_json::Value>>(),
    })
}

fn effort(effort: &Effort) -> String {
    match effort {
        Effort::Quick => "quick",
        Effort::Full => "full",
        Effort::Custom { .. } => "custom",
    }
    .to_owned()
}

fn choice(reading: &windward_experiments::experiment::Reading) -> Choice {
    let plain = reading.plain();
    let values = reading.values.iter().enumerate();
    let value = |(i, v): (usize, &windward_experiments::experiment::ReadingValue)| {
        let against = v.contradicted.as_ref().or(v.against.as_ref());
        let against = against.map(|text| format!(". Against it: {text}"));
        let source = format!("{}{}", v.source.trim_end_matches('.'), against.unwrap_or_default());
        (v.label.clone(), v.basis.to_string(), source, i == plain)
    };
    Choice {
        choice: reading.choice.clone(),
        silent: reading.silent.clone(),
        formerly: reading.formerly.as_ref().map(|text| format!("Formerly plain: {text}")),
        values: values.map(value).collect(),
    }
}

/// The numbers of the paper and the measured ones; `all` has the experiments measured so far, and
/// `claims` those of the experiment.
pub(crate) fn reported(
    experiment: &Experiment,
    all: &[&Results],
    claims: &[ClaimResult],
) -> Vec<ReportedRow> {
    let rows = experiment.reported.iter().enumerate();
    rows.map(|(i, r)| ReportedRow { world: in_world(i, claims), ..row(r, experiment, all) })
        .collect()
}

/// A reported number in the nearest world of the first claim whose runs there have it, and in which
/// the claim holds.
fn in_world(index: usize, claims: &[ClaimResult]) -> Option<(String, Estimate)> {
    let found = claims.iter().filter_map(|claim| {
        let world = claim.worlds.nearest.as_ref()?;
        let held = world.is_judged() && world.reading.verdict == Verdict::Held;
        let (_, estimate) = world.reported.iter().find(|(i, _)| held && *i == index)?;
        Some((claim.id.clone(), *estimate))
    });
    found.into_iter().next()
}

/// The cells of an experiment that ns-2 ran, beside its own.
pub(crate) fn ns2(experiment: &Experiment, all: &[&Results]) -> Vec<Ns2Row> {
    let row = |cell: &Ns2Cell| Ns2Row {
        what: cell.text.clone(),
        theirs: cell.estimate,
        seeds: cell.seeds,
        ours: measured(&cell.value, experiment, all),
    };
    experiment.ns2.of(&experiment.id).map(row).collect()
}

fn row(reported: &Reported, own: &Experiment, all: &[&Results]) -> ReportedRow {
    let columns = columns(&reported.value, own, all);
    ReportedRow {
        what: reported.text.clone(),
        cells: reported.value.leaves().into_iter().map(ToString::to_string).collect(),
        unit: columns.map_or("", |columns| columns.unit_of(&reported.value)).to_owned(),
        range: reported.range,
        digitised: reported.digitised,
        plain: measured(&reported.value, own, all),
        world: None,
        words: reported.words.clone(),
        source: reported.source.clone(),
    }
}

/// Estimate of an expression of experiment `own`, if its cells were measured.
fn measured(value: &Expression<Cell>, own: &Experiment, all: &[&Results]) -> Option<Estimate> {
    let columns = columns(value, own, all)?;
    columns.estimate(value, columns.rows(), CONFIDENCE)
}

/// The samples of the cells of an expression of experiment `own`, if they were measured.
fn columns<'a>(
    value: &'a Expression<Cell>,
    own: &Experiment,
    all: &[&Results],
) -> Option<SampledCells<'a>> {
    let column = |cell: &Cell| -> Option<CellSamples> {
        let id = cell.experiment.as_ref().unwrap_or(&own.id);
        let results = all.iter().find(|r| r.plan.experiment.id == *id)?;
        let (metric, index) = results.plan.experiment.find(cell).ok()?;
        let samples = results.samples(metric, index);
        Some(CellSamples::of(&results.plan.experiment, metric, samples))
    };
    let columns = value.leaves().into_iter().map(|cell| Some((cell, column(cell)?)));
    Some(SampledCells(columns.collect::<Option<Vec<_>>>()?))
}

/// Length and number of the runs, and the meaning of bands and lines.
fn lengths(results: &Results) -> String {
    let plan = &results.plan;
    let seconds = |of: fn(&Scenario) -> Duration| {
        let mut all: Vec<f64> = plan.scenarios.iter().map(|s| of(s).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        match all[..] {
            [] => String::from("0 s"),
            [only] => format!("{only} s"),
            [first, .., last] => format!("{first} to {last} s"),
        }
    };
    let mut text = format!("{} per run", seconds(|s| s.duration));
    match seconds(|s| s.warmup).as_str() {
        "0 s" => {}
        warmup => {
            let _ = write!(text, ", without the first {warmup}");
        }
    }
    let runs = plan.length.repetitions;
    let _ = write!(text, ", {runs} run{} per point", if runs == 1 { "" } else { "s" });
    if let Some(scenario) = plan.scenarios.first() {
        let _ = write!(text, ", seeds from {} on", scenario.seed);
    }
    text.push('.');
    let plots = || plan.experiment.plots.iter().map(|plot| &plot.kind);
    let single = |kind: &PlotKind| matches!(kind, PlotKind::Time { single: true, .. });
    if plots().any(single) {
        text.push_str(" Lines over time show the first seed.");
    }
    let lines = |kind: &PlotKind| match kind {
        PlotKind::Lines { .. } => true,
        PlotKind::Dots { .. } => false,
        PlotKind::Time { single, .. } => !single,
    };
    let interval = match (plots().any(lines), plots().any(|k| matches!(k, PlotKind::Dots { .. }))) {
        _ if runs == 1 => return text,
        (true, true) => "Bands and bars",
        (true, false) => "Bands",
        (false, true) => "Bars",
        (false, false) => return text,
    };
    let _ = write!(text, " {interval} are 95 % confidence intervals.");
    text
}
