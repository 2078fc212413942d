//! The runs of an experiment by number, each built on demand: for sweeps distributed over processes
//! and machines, and for those too large to build at once.
//!
//! A run depends only on the experiment and its number. It therefore does not matter which process
//! runs it, when, and how often.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use windward_sim::Scenario;
use windward_sim::table::{Cell, Kind};

use crate::BUILD;
use crate::ExperimentError;
use crate::experiment::{Deviation, Effort, Experiment, RunLength, Skipped, fnv1a};
use crate::rows::{Row, RunColumns};
use crate::sweep::{Run, simulate};

/// Maximum number of runs: they would be a terabyte of rows.
const MAX_RUNS: usize = 1_000_000_000;
/// Up to this number of cells, all are checked before the first run, which takes some seconds.
const ALL_CELLS: usize = 10_000;
/// Number of evenly spread cells that are checked otherwise, in addition to all that differ from
/// the first on one axis only.
const SPREAD: usize = 2_000;

/// All runs of an experiment: cell after cell, repetition after repetition.
#[derive(Debug, Clone)]
pub struct Grid {
    /// The experiment without impossible points.
    experiment: Experiment,
    length: RunLength,
    columns: RunColumns,
    key: u64,
    /// Packet-hops of a run of each cell, if all were checked.
    costs: Option<Vec<f64>>,
}

/// Results of slow checks of a grid, for processes that share it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GridFacts {
    columns: RunColumns,
    /// Skipped points of each axis, each with the reason.
    skipped: Vec<Vec<(String, String)>>,
}

/// A run of a grid that is to be executed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlannedRun {
    /// Its number.
    pub run: u64,
    /// Predicted cost, packet-hops.
    pub cost: f64,
}

impl Grid {
    /// The grid of an experiment. Scenarios are built to find the columns and to check that they
    /// can run: all of them if there are few, otherwise some of each kind.
    ///
    /// # Errors
    /// If one of them is impossible, or `cancel` is set in the meantime.
    pub fn new(
        experiment: &Experiment,
        effort: &Effort,
        cancel: &AtomicBool,
    ) -> Result<Self, ExperimentError> {
        let length = experiment.overridden(experiment.run_length(effort));
        experiment.check_runs(&length, MAX_RUNS)?;
        let experiment = experiment.without_impossible(&length, sample);
        let mut columns = RunColumns::default();
        let mut costs = Vec::new();
        for cell in sample(&experiment) {
            if cancel.load(Ordering::Relaxed) {
                return Err(ExperimentError::Cancelled);
            }
            let scenario = experiment.scenario(cell, &length, &Deviation::PLAIN)?;
            columns.add(&scenario);
            costs.push(scenario.predicted_packet_hops());
        }
        let costs = (costs.len() == experiment.cells()).then_some(costs);
        Ok(Grid { costs, ..Self::of(experiment, length, columns) })
    }

    /// The grid of an experiment with known facts.
    ///
    /// # Errors
    /// If there is no such grid.
    pub fn with(
        experiment: &Experiment,
        effort: &Effort,
        facts: GridFacts,
    ) -> Result<Self, ExperimentError> {
        let length = experiment.overridden(experiment.run_length(effort));
        let mut experiment = experiment.clone();
        for (axis, skipped) in experiment.axes.iter_mut().zip(facts.skipped) {
            axis.points.retain(|point| skipped.iter().all(|(label, _)| *label != point.label));
            let skipped = skipped.into_iter().map(|(label, reason)| Skipped { label, reason });
            axis.skipped.extend(skipped);
        }
        experiment.check_runs(&length, MAX_RUNS)?;
        Ok(Self::of(experiment, length, facts.columns))
    }

    fn of(experiment: Experiment, length: RunLength, columns: RunColumns) -> Self {
        let RunLength { repetitions, duration, warmup, .. } = &length;
        let what = (BUILD, experiment.revision.configuration_hash);
        let text = format!("{what:?} {repetitions} {duration:?} {warmup:?}");
        Grid { experiment, length, columns, key: fnv1a(text.as_bytes()), costs: None }
    }

    /// Argument of [`Grid::with`].
    pub fn facts(&self) -> GridFacts {
        let of = |s: &Skipped| (s.label.clone(), s.reason.clone());
        let axes = self.experiment.axes.iter();
        let skipped = axes.map(|axis| axis.skipped.iter().map(of).collect()).collect();
        GridFacts { columns: self.columns.clone(), skipped }
    }

    /// The experiment, without points that are impossible.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Length of the runs, and their number per cell.
    pub fn length(&self) -> &RunLength {
        &self.length
    }

    /// Key of the grid. Two grids with the same key have the same runs.
    pub fn key(&self) -> u64 {
        self.key
    }

    /// Number of runs.
    pub fn runs(&self) -> u64 {
        self.experiment.cells() as u64 * u64::from(self.length.repetitions)
    }

    /// Name and kind of each column of its rows.
    pub fn columns(&self) -> Vec<(String, Kind)> {
        self.columns.names(&self.experiment)
    }

    fn cell(&self, run: u64) -> (usize, u32) {
        let repetitions = u64::from(self.length.repetitions);
        // Both are below the products that they were made of.
        ((run / repetitions) as usize, (run % repetitions) as u32)
    }

    fn scenario(&self, cell: usize) -> Result<Scenario, ExperimentError> {
        let scenario = self.experiment.scenario(cell, &self.length, &Deviation::PLAIN)?;
        match self.columns.lacks(&scenario) {
            None => Ok(scenario),
            Some(part) => Err(ExperimentError::Experiment {
                file: self.experiment.file.clone(),
                line: 0,
                message: format!(
                    "{} has the {part}, which none of the cells checked before the first run had: \
                     columns cannot be added now; sweep in parts of at most {ALL_CELLS} cells, \
                     all of which are checked",
                    self.experiment.cell_name(cell)
                ),
            }),
        }
    }

    /// The runs of `runs` that `wanted` accepts, the most expensive first.
    ///
    /// # Errors
    /// If a scenario is impossible, or `cancel` is set.
    pub fn plan(
        &self,
        runs: Range<u64>,
        wanted: impl Fn(u64) -> bool,
        cancel: &AtomicBool,
    ) -> Result<Vec<PlannedRun>, ExperimentError> {
        if cancel.load(Ordering::Relaxed) {
            return Err(ExperimentError::Cancelled);
        }
        let mut planned = Vec::new();
        let mut last: Option<(usize, f64)> = None;
        for run in runs.start..runs.end.min(self.runs()) {
            if !wanted(run) {
                continue;
            }
            let (cell, _) = self.cell(run);
            let known = self.costs.as_ref().map(|costs| costs[cell]);
            let cost = match (known, last) {
                (Some(cost), _) => cost,
                (None, Some((same, cost))) if same == cell => cost,
                _ => {
                    if cancel.load(Ordering::Relaxed) {
                        return Err(ExperimentError::Cancelled);
                    }
                    self.scenario(cell)?.predicted_packet_hops()
                }
            };
            last = Some((cell, cost));
            planned.push(PlannedRun { run, cost });
        }
        // The sort is stable.
        planned.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        Ok(planned)
    }

    /// Executes some runs.
    ///
    /// # Errors
    /// If there is no such run, its scenario is impossible, a part of it fails, or `cancel` is set.
    pub fn run(&self, runs: &[u64], cancel: &AtomicBool) -> Result<Vec<Row>, ExperimentError> {
        let mut rows = Vec::with_capacity(runs.len());
        let mut last: Option<(usize, Scenario)> = None;
        for &number in runs {
            if number >= self.runs() {
                return Err(ExperimentError::Experiment {
                    file: self.experiment.file.clone(),
                    line: 0,
                    message: format!("no run {number}: there are {}", self.runs()),
                });
            }
            let (cell, repetition) = self.cell(number);
            let (_, scenario) = match last.take() {
                Some(same) if same.0 == cell => last.insert(same),
                _ => last.insert((cell, self.scenario(cell)?)),
            };
            let done = self.experiment.perform(scenario, repetition, cancel, &simulate);
            let (metrics, outcome) = done?;
            let run = Run { cell, repetition, metrics, outcome };
            let cells = self.columns.cells(&self.experiment, &run).into_iter();
            rows.push(Row { run: number, cells: cells.map(Cell::into_owned).collect() });
        }
        Ok(rows)
    }
}

/// The cells that are checked before the first run.
fn sample(experiment: &Experiment) -> Box<dyn Iterator<Item = usize>> {
    let cells = experiment.cells();
    if cells <= ALL_CELLS {
        return Box::new(0..cells);
    }
    let mut chosen: BTreeSet<usize> = (0..SPREAD).map(|i| i * (cells / SPREAD)).collect();
    let mut stride = 1;
    for axis in experiment.axes.iter().rev() {
        chosen.extend((0..axis.points.len()).map(|point| point * stride));
        stride *= axis.points.len();
    }
    Box::new(chosen.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table_of;
    use crate::testing::{TEXT, experiment, options};

    fn never() -> AtomicBool {
        AtomicBool::new(false)
    }

    fn grid(experiment: &Experiment) -> Grid {
        Grid::new(experiment, &Effort::Quick, &never()).unwrap()
    }

    #[test]
    fn runs_one_by_one_are_the_rows_of_the_sweep() {
        let mut experiment = experiment();
        experiment.set("duration", "2s").unwrap();
        let cancel = never();
        let plan = experiment.plan(&Effort::Quick).unwrap();
        let whole = plan.run(&options(2, &cancel)).unwrap().run_table();
        let grid = grid(&experiment);
        assert_eq!(grid.runs(), 18);
        // Backwards, and in pairs across the cells of three runs.
        let mut rows = Vec::new();
        for pair in (0..9).rev() {
            rows.extend(grid.run(&[2 * pair + 1, 2 * pair], &cancel).unwrap());
        }
        rows.sort_by_key(|row| row.run);
        let cells = rows.into_iter().map(|row| row.cells);
        assert_eq!(table_of(&grid.columns(), cells), whole);
    }

    #[test]
    fn the_most_expensive_comes_first_and_each_wanted_run_once() {
        let grid = grid(&experiment());
        let planned = grid.plan(0..100, |run| run != 4, &never()).unwrap();
        assert!(planned.windows(2).all(|pair| pair[0].cost >= pair[1].cost));
        let mut runs: Vec<u64> = planned.iter().map(|planned| planned.run).collect();
        runs.sort_unstable();
        assert_eq!(runs, (0..18).filter(|run| *run != 4).collect::<Vec<_>>());
    }

    #[test]
    fn another_configuration_has_another_key() {
        let plain = grid(&experiment()).key();
        let mut changed = experiment();
        changed.set("duration", "9s").unwrap();
        assert_ne!(grid(&changed).key(), plain);
        let full = Grid::new(&experiment(), &Effort::Full, &never()).unwrap();
        assert_ne!(full.key(), plain);
        assert_eq!(grid(&experiment()).key(), plain);
    }

    /// `experiment` with an additional axis of that many seeds.
    fn with_seeds(seeds: usize, more: &str) -> Experiment {
        let values: Vec<String> = (0..seeds).map(|seed| seed.to_string()).collect();
        let axis = format!(
            "[[experiment.axes]]\nname = \"base\"\nkey = \"seed\"\nvalues = [{}]\n{more}",
            values.join(", ")
        );
        let text = TEXT.replace("quick = { repetitions = 3 }", "quick = { repetitions = 1000 }");
        let text = text.split("[[experiment.claims]]").next().unwrap().to_owned() + &axis;
        Experiment::parse("large.toml", &text).unwrap()
    }

    #[test]
    fn large_grids_are_checked_in_samples() {
        // 2 x 3 x 10,000 cells of 1000 runs.
        let grid = grid(&with_seeds(10_000, ""));
        assert_eq!(grid.runs(), 60_000_000);
        let last = grid.run(&[59_999_999], &never()).unwrap();
        assert_eq!(last[0].cells[..3], ["sack", "4 Mbit", "9999"].map(Cell::text));
        assert_eq!(grid.plan(59_999_990..u64::MAX, |_| true, &never()).unwrap().len(), 10);
        assert!(grid.run(&[60_000_000], &never()).is_err());
    }

    #[test]
    fn facts_save_the_looking() {
        let text = TEXT.replace(
            "values = [\"newreno\", \"sack\"]",
            "values = [\"newreno\", \"sack\", \"xcp\"]\nskip_impossible = true",
        );
        let text = text.split("[[experiment.plots]]").next().unwrap();
        let experiment = Experiment::parse("mine.toml", text).unwrap();
        let grid = grid(&experiment);
        let again = Grid::with(&experiment, &Effort::Quick, grid.facts()).unwrap();
        assert_eq!(again.runs(), grid.runs());
        assert_eq!(again.key(), grid.key());
        assert_eq!(again.columns(), grid.columns());
        let last = grid.runs() - 1;
        assert_eq!(again.run(&[last], &never()).unwrap(), grid.run(&[last], &never()).unwrap());
    }

    #[test]
    fn a_flag_stops_it() {
        let grid = grid(&experiment());
        let set = AtomicBool::new(true);
        assert!(matches!(grid.run(&[0], &set), Err(ExperimentError::Cancelled)));
        assert!(matches!(grid.plan(0..1, |_| true, &set), Err(ExperimentError::Cancelled)));
        let new = Grid::new(&experiment(), &Effort::Quick, &set);
        assert!(matches!(new, Err(ExperimentError::Cancelled)));
    }
}
