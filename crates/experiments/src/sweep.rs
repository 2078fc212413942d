//! Sweeps: every cell of an experiment times its repetitions, on all cores.
//!
//! Repetition r of every cell uses the seed `base + r`: cells are compared under common random
//! numbers, and `windward run --seed` repeats any row of the table. A run depends only on its
//! scenario, and results are stored by index. They therefore do not depend on the number of threads
//! or the order of completion.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use windward_core::units::{Duration, Time};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Outcome, Scenario, Simulation};

use crate::ExperimentError;
use crate::experiment::{
    Deviation, Effort, Experiment, PlotKind, ReadingValue, RunLength, Skipped, scaled,
};

/// Maximum number of runs.
const MAX_RUNS: usize = 10_000_000;

/// An experiment with every scenario built and checked, ready to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Experiment.
    pub experiment: Experiment,
    /// Effort.
    pub effort: Effort,
    /// Length of the runs for that effort.
    pub length: RunLength,
    /// One scenario per cell.
    pub scenarios: Vec<Scenario>,
}

/// Predicted packet-hops that one core executes in a second, about: see docs/performance.md.
pub const HOPS_PER_SECOND: f64 = 8e6;
/// Quick budget for the other readings of a claim, packet-hops: some seconds of a core.
pub const QUICK_READINGS: f64 = 6e6;
/// Full budget for the other readings of a claim: about a minute of a core.
pub const FULL_READINGS: f64 = 500e6;

/// Options of a run.
#[derive(Clone, Copy)]
pub struct RunOptions<'a> {
    /// Worker threads; zero means one per core.
    pub threads: usize,
    /// Flag that stops all runs: it is checked between runs and within them. An error sets it too,
    /// so that no run continues in vain.
    pub cancel: &'a AtomicBool,
    /// Budget, in packet-hops, of the other readings of one claim at their first look. The most
    /// expensive are left out, and the report states their number. `None` for no bound.
    pub readings_budget: Option<f64>,
    /// Called after each run, by one thread at a time.
    pub progress: &'a (dyn Fn(Progress) + Sync),
}

/// Progress of a sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Completed runs.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// Completed share of the estimated work, 0 to 1.
    pub work: f64,
}

/// Results of a plan.
#[derive(Debug, Clone)]
pub struct Results {
    /// The plan.
    pub plan: Plan,
    /// One row per run: cell after cell, repetition after repetition.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Index of the cell: a combination of the axes.
    pub cell: usize,
    /// Index of the repetition.
    pub repetition: u32,
    /// One value per metric of the experiment.
    pub metrics: Vec<f64>,
    /// The full outcome; samples only if a chart shows those of this repetition.
    pub outcome: Outcome,
}

impl Experiment {
    /// Builds the scenario of every cell, without the points that an axis leaves out as
    /// impossible ([`crate::experiment::Axis::skip_impossible`]): the plan's experiment does
    /// not have them.
    ///
    /// # Errors
    /// If one of them is impossible, or a metric names a missing group or link.
    pub fn plan(&self, effort: &Effort) -> Result<Plan, ExperimentError> {
        let length = self.overridden(self.run_length(effort));
        self.check_runs(&length, MAX_RUNS)?;
        let experiment = self.without_impossible(&length, |e| 0..e.cells());
        let scenarios = (0..experiment.cells())
            .map(|cell| experiment.scenario(cell, &length, &Deviation::PLAIN));
        Ok(Plan {
            effort: effort.clone(),
            scenarios: scenarios.collect::<Result<_, _>>()?,
            length,
            experiment,
        })
    }

    /// Verifies that the number of runs is 1 to `most`.
    pub(crate) fn check_runs(
        &self,
        length: &RunLength,
        most: usize,
    ) -> Result<(), ExperimentError> {
        let runs = self.cells().saturating_mul(length.repetitions as usize);
        if (1..=most).contains(&runs) {
            return Ok(());
        }
        Err(ExperimentError::Experiment {
            file: self.file.clone(),
            line: 0,
            message: format!(
                "{} cells times {} repetitions are {runs} runs; 1 to {most} are possible",
                self.cells(),
                length.repetitions
            ),
        })
    }

    /// The same experiment without the points at which one of the cells to check is impossible, on
    /// axes that skip these.
    pub fn without_impossible<I: IntoIterator<Item = usize>>(
        &self,
        length: &RunLength,
        cells: impl Fn(&Experiment) -> I,
    ) -> Experiment {
        let mut experiment = self.clone();
        for a in 0..self.axes.len() {
            if !self.axes[a].skip_impossible {
                continue;
            }
            let reasons = experiment.impossible(length, a, cells(&experiment));
            // If no point is possible, the error is not in the points.
            if reasons.iter().all(Option::is_some) {
                continue;
            }
            let axis = &mut experiment.axes[a];
            let points = std::mem::take(&mut axis.points);
            for (point, reason) in points.into_iter().zip(reasons) {
                match reason {
                    None => axis.points.push(point),
                    Some(reason) => axis.skipped.push(Skipped { label: point.label, reason }),
                }
            }
        }
        experiment
    }

    /// For each point of an axis, the reason why a scenario with it cannot be built, if one of the
    /// cells cannot.
    pub fn impossible(
        &self,
        length: &RunLength,
        axis: usize,
        cells: impl IntoIterator<Item = usize>,
    ) -> Vec<Option<String>> {
        let mut reasons = vec![None; self.axes[axis].points.len()];
        for cell in cells {
            // The plan reports all other errors.
            if let Err(ExperimentError::Scenario { error, .. }) =
                self.scenario(cell, length, &Deviation::PLAIN)
            {
                let text = error.to_string();
                let reason = text.lines().next().unwrap_or_default().to_owned();
                reasons[self.point_index(cell, axis)].get_or_insert(reason);
            }
        }
        reasons
    }

    /// The scenario file of a cell under a reading. Lengths, readings, axes and later changes apply
    /// in this order; each overrides those before.
    pub(crate) fn file_of(
        &self,
        cell: usize,
        length: &RunLength,
        reading: &Deviation,
    ) -> Result<ScenarioFile, ExperimentError> {
        let mut file = self.scenario.clone();
        let lengths = [("duration", &length.duration), ("warmup", &length.warmup)];
        let lengths = lengths.into_iter();
        let lengths = lengths.filter_map(|(key, value)| Some((key, value.as_deref()?)));
        let chosen = self.readings.iter().map(|r| {
            let label = reading.of(&r.name);
            let chosen = label.and_then(|label| r.values.iter().find(|v| v.label == label));
            chosen.unwrap_or_else(|| r.plain_value())
        });
        let chosen: Vec<&ReadingValue> = chosen.collect();
        let points = self.points(cell);
        let of_readings = chosen.iter().flat_map(|value| {
            let here = value.at.iter().filter(|(at, _)| points.iter().any(|p| p.label == *at));
            value.set.iter().chain(here.flat_map(|(_, set)| set))
        });
        let of_readings = of_readings.map(|(key, value)| (key.as_str(), value.as_str()));
        let scale = |(key, setting): &(String, String)| {
            let scales = chosen.iter().flat_map(|value| &value.scale).filter(|(of, _)| of == key);
            let factor: f64 = scales.map(|(_, factor)| factor).product();
            // The reader has checked that it is a number. A factor of one leaves the text alone.
            let scaled = (factor != 1.0).then(|| scaled(setting, factor)).flatten();
            (key.clone(), scaled.unwrap_or_else(|| setting.clone()))
        };
        let of_axes = points.iter().flat_map(|p| &p.set).map(scale);
        let of_axes: Vec<(String, String)> = of_axes.collect();
        let of_axes = of_axes.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let changed =
            self.revision.overrides.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in lengths.chain(of_readings).chain(of_axes).chain(changed) {
            file.set(key, value).map_err(|error| self.at_cell(cell, reading, error))?;
        }
        Ok(file)
    }

    /// The scenario file of a cell in the plain reading.
    ///
    /// # Errors
    /// If the file cannot have a key that an axis or a reading sets.
    pub fn plain_file(
        &self,
        cell: usize,
        length: &RunLength,
    ) -> Result<ScenarioFile, ExperimentError> {
        self.file_of(cell, length, &Deviation::PLAIN)
    }

    fn at_cell(
        &self,
        cell: usize,
        reading: &Deviation,
        error: windward_sim::scenario::file::ScenarioError,
    ) -> ExperimentError {
        let mut place: Vec<String> = Vec::new();
        if !self.axes.is_empty() {
            place.push(self.cell_name(cell));
        }
        if !reading.is_plain() {
            place.push(format!("reading {reading}"));
        }
        ExperimentError::Scenario { cell: (!place.is_empty()).then(|| place.join("; ")), error }
    }

    /// The scenario of a cell under a reading, after a check that metrics and charts find their
    /// data.
    pub fn scenario(
        &self,
        cell: usize,
        length: &RunLength,
        reading: &Deviation,
    ) -> Result<Scenario, ExperimentError> {
        let file = self.file_of(cell, length, reading)?;
        let mut scenario = file.build().map_err(|error| self.at_cell(cell, reading, error))?;
        self.scaling.apply(&mut scenario);
        let points = self.points(cell);
        for metric in &self.metrics {
            for measure in metric.expression.leaves() {
                measure.check(&scenario).map_err(|message| ExperimentError::Experiment {
                    file: self.file.clone(),
                    line: metric.line,
                    message,
                })?;
            }
        }
        for plot in self.plots.iter().filter(|plot| plot.shows(&points)) {
            plot.check(&scenario).map_err(|message| ExperimentError::Experiment {
                file: self.file.clone(),
                line: plot.line,
                message,
            })?;
        }
        Ok(scenario)
    }

    /// One repetition of a cell: its metrics and its outcome. `simulate` runs a scenario, or stops
    /// when the flag is set.
    ///
    /// # Errors
    /// As `simulate`.
    pub fn perform(
        &self,
        cell: &Scenario,
        repetition: u32,
        cancel: &AtomicBool,
        simulate: &impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError>,
    ) -> Result<(Vec<f64>, Outcome), ExperimentError> {
        let mut scenario = cell.clone();
        scenario.seed = scenario.seed.wrapping_add(u64::from(repetition));
        let mut outcome = simulate(&scenario, cancel)?;
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|m| m.expression.evaluate(&|x| x.of(&scenario, &outcome)));
        let metrics = metrics.collect();
        if !self.shows_samples(repetition) {
            // Thousands of values per run: series that nothing uses are dropped.
            outcome.samples = None;
        }
        Ok((metrics, outcome))
    }

    /// True if a chart or table shows the samples of that repetition.
    pub(crate) fn shows_samples(&self, repetition: u32) -> bool {
        self.plots.iter().any(|plot| match &plot.kind {
            PlotKind::Time { what, single, .. } => {
                what.is_sampled() && (repetition == 0 || !single)
            }
            _ => false,
        })
    }
}

impl Plan {
    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.scenarios.len() * self.length.repetitions as usize
    }

    /// True if charts and tables show that repetition of each cell under a reading.
    pub fn shows(&self, reading: &Deviation, repetition: u32) -> bool {
        reading.is_plain() && repetition < self.length.repetitions
    }

    /// Number of repetitions whose series charts over time show, in each world that is drawn.
    pub(crate) fn traced(&self) -> u32 {
        let of = |kind: &PlotKind| match kind {
            PlotKind::Time { single: true, .. } => 1,
            PlotKind::Time { .. } => self.length.repetitions,
            PlotKind::Lines { .. } | PlotKind::Dots { .. } => 0,
        };
        self.experiment.plots.iter().map(|plot| of(&plot.kind)).max().unwrap_or(0)
    }

    /// Warnings of the scenarios, without duplicates.
    pub fn warnings(&self) -> Vec<&str> {
        let mut warnings: Vec<&str> = Vec::new();
        for warning in self.scenarios.iter().flat_map(|scenario| &scenario.warnings) {
            if !warnings.contains(&warning.as_str()) {
                warnings.push(warning);
            }
        }
        warnings
    }
}

/// The measurements that charts of an experiment need.
pub trait ChartData {
    /// The plan; its scenarios are those of the runs.
    fn plan(&self) -> &Plan;
    /// The values of a metric in a cell, one per repetition.
    fn samples(&self, metric: usize, cell: usize) -> Vec<f64>;
    /// The runs of a cell with their series over time, in the order of repetitions.
    fn cell_runs(&self, cell: usize) -> &[Run];
}

/// The measurements of an experiment in another world than the plain one: of the cells that the
/// checks of a claim compare there.
#[derive(Debug, Clone)]
pub struct InWorld {
    /// The plan, with the scenarios of that world.
    pub plan: Plan,
    /// Metrics by cell and repetition; no repetition of cells that were not run.
    pub rows: Vec<Vec<Vec<f64>>>,
    /// By cell, its runs for charts over time, as far as there are such charts.
    pub runs: Vec<Vec<Run>>,
}

impl ChartData for Results {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn samples(&self, metric: usize, cell: usize) -> Vec<f64> {
        Results::samples(self, metric, cell)
    }

    fn cell_runs(&self, cell: usize) -> &[Run] {
        Results::cell_runs(self, cell)
    }
}

impl ChartData for InWorld {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn samples(&self, metric: usize, cell: usize) -> Vec<f64> {
        self.rows[cell].iter().map(|row| row[metric]).collect()
    }

    fn cell_runs(&self, cell: usize) -> &[Run] {
        &self.runs[cell]
    }
}

impl Results {
    /// The values of a metric in a cell, one per repetition.
    pub fn samples(&self, metric: usize, cell: usize) -> Vec<f64> {
        let runs = self.cell_runs(cell).iter();
        runs.map(|r| r.metrics[metric]).collect()
    }

    /// The runs of a cell, in the order of repetitions.
    pub fn cell_runs(&self, cell: usize) -> &[Run] {
        let n = self.plan.length.repetitions as usize;
        &self.runs[cell * n..(cell + 1) * n]
    }
}

/// Events between two looks at the cancel flag: some ten milliseconds.
const SLICE: f64 = 100_000.0;

/// Runs a scenario to its end, or to the moment `cancel` is set.
///
/// # Errors
/// [`ExperimentError::Cancelled`] then, and [`ExperimentError::Part`] if a part of another crate
/// failed.
pub fn simulate(scenario: &Scenario, cancel: &AtomicBool) -> Result<Outcome, ExperimentError> {
    let mut simulation = Simulation::new(scenario);
    let slices = (scenario.predicted_packet_hops() / SLICE).clamp(20.0, 1e6);
    let longest = Duration::from_secs_f64(scenario.duration.as_secs_f64() / slices);
    let parts = scenario.parts();
    let mut slice = longest.max(Duration::from_ps(1));
    let end = Time::ZERO + scenario.duration;
    let mut until = Time::ZERO;
    while until < end {
        if cancel.load(Ordering::Relaxed) {
            return Err(ExperimentError::Cancelled);
        }
        until = end.min(until + slice);
        let before = simulation.events();
        simulation.advance(until);
        // A prediction may be far too low, for example with a lying receiver and an unlimited
        // window.
        let events = (simulation.events() - before) as f64;
        let fitting = slice.as_secs_f64() * (SLICE / events.max(1.0)).clamp(0.01, 2.0);
        slice = Duration::from_secs_f64(fitting).clamp(Duration::from_ps(1), longest);
        if let Some(failure) = parts.failure() {
            return Err(ExperimentError::Part(failure));
        }
    }
    Ok(simulation.finish())
}

#[cfg(test)]
mod tests;
