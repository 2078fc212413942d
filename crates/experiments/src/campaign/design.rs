//! The experiments of a campaign: the cells that a claim needs, and what a reading changes in them.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::atomic::Ordering;

use windward_sim::Scenario;

use super::cells::{CellId, Cells, FRESH};
use crate::ExperimentError;
use crate::claims::{
    CellSamples, ChangedChoice, CheckResult, ReadingResult, SampledCells, Verdict,
};
use crate::experiment::{Check, Claim, Deviation, Experiment, Reading, Reported, Unit, Wanted};
use crate::expression::{Cell, Expression};
use crate::statistics::{CONFIDENCE, Estimate, Looks};
use crate::sweep::{InWorld, Plan, Run, RunOptions};

/// Minimum number of runs of a cell before a claim is judged, unless their number is fixed and
/// smaller.
const FIRST_LOOK: u32 = 4;

/// Repetitions that a report shows; a search for worlds has its own beyond them.
pub(super) const REPORTED: Range<u32> = 0..FRESH;

/// A claim among those of a list of experiments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClaimId {
    /// Index of the experiment.
    pub experiment: usize,
    /// Index of the claim in the experiment.
    pub claim: usize,
}

/// Checks of a claim by index, group by group. A group is judged if none before it failed.
pub(super) type Groups = Vec<Vec<usize>>;

/// A reading with one changed choice, and the cells of a claim that it changes.
pub(super) struct Single<'a> {
    pub(super) choice: &'a Reading,
    pub(super) world: Deviation,
    /// Each cell with its predicted packet-hops.
    pub(super) cells: Vec<(CellId, f64)>,
}

/// All that a run depends on. A parameter of a part that no flow of the scenario has is not in it.
fn described(scenario: &Scenario) -> String {
    format!("{scenario:?}")
}

pub(super) struct Design<'a> {
    pub(super) plans: &'a [Plan],
    pub(super) options: &'a RunOptions<'a>,
    pub(super) cells: Cells,
}

impl<'a> Design<'a> {
    pub(super) fn new(plans: &'a [Plan], options: &'a RunOptions<'a>) -> Self {
        Design { plans, options, cells: Cells::default() }
    }

    pub(super) fn experiment_of(&self, id: ClaimId) -> &'a Experiment {
        &self.plans[id.experiment].experiment
    }

    pub(super) fn claim(&self, id: ClaimId) -> &'a Claim {
        &self.experiment_of(id).claims[id.claim]
    }

    /// All checks of a claim, as one group.
    pub(super) fn all_checks(&self, id: ClaimId) -> Vec<usize> {
        (0..self.claim(id).checks.len()).collect()
    }

    /// Predicted packet-hops of a cell under the plain reading.
    pub(super) fn plain_hops(&self, id: CellId) -> f64 {
        self.plans[id.experiment].scenarios[id.cell].predicted_packet_hops()
    }

    // --- cells ----------------------------------------------------------------------------

    /// The cell and the index of the metric that a check of experiment `own` names.
    fn locate(&self, own: usize, cell: &Cell) -> Result<(CellId, usize), String> {
        let experiment = match &cell.experiment {
            None => own,
            Some(id) => {
                let found = self.plans.iter().position(|p| p.experiment.id == *id);
                found.ok_or_else(|| format!("`{id}` was not run"))?
            }
        };
        let (metric, cell) = self.plans[experiment].experiment.find(cell)?;
        Ok((CellId { experiment, cell }, metric))
    }

    /// All cells of some checks, without repetition.
    pub(super) fn cells_of(&self, id: ClaimId, checks: &[usize]) -> BTreeSet<CellId> {
        let all = &self.claim(id).checks;
        let cells = checks.iter().flat_map(|i| all[*i].cells());
        let located = cells.filter_map(|cell| self.locate(id.experiment, cell).ok());
        located.map(|(cell, _)| cell).collect()
    }

    /// All cells of a claim.
    pub(super) fn all_cells(&self, id: ClaimId) -> BTreeSet<CellId> {
        self.cells_of(id, &self.all_checks(id))
    }

    /// The scenario of a cell in a world.
    pub(super) fn scenario(
        &self,
        id: CellId,
        world: &Deviation,
    ) -> Result<Scenario, ExperimentError> {
        let Plan { experiment, length, .. } = &self.plans[id.experiment];
        experiment.scenario(id.cell, length, &self.reading_in(id, world))
    }

    /// The number of a cell in a world, by which its runs are kept.
    pub(super) fn number(
        &mut self,
        id: CellId,
        world: &Deviation,
    ) -> Result<usize, ExperimentError> {
        let reading = self.reading_in(id, world);
        let Plan { experiment, length, scenarios, .. } = &self.plans[id.experiment];
        self.cells.number(id, &reading, || match reading.is_plain() {
            true => Ok(scenarios[id.cell].clone()),
            false => experiment.scenario(id.cell, length, &reading),
        })
    }

    /// The values of a cell that a check of experiment `own` names, in a world, of the completed
    /// runs among these repetitions.
    pub(super) fn samples(
        &self,
        own: usize,
        cell: &Cell,
        world: &Deviation,
        mut runs: Range<u32>,
    ) -> Result<CellSamples, String> {
        let (id, metric) = self.locate(own, cell)?;
        let cell = self.cells.find(id, self.reading_in(id, world)).ok_or("it was not run")?;
        let rows = std::iter::from_fn(|| cell.row(runs.next()?));
        let samples = rows.map(|row| row[metric]).collect();
        Ok(CellSamples::of(&self.plans[id.experiment].experiment, metric, samples))
    }

    // --- readings -------------------------------------------------------------------------

    /// The choices that the experiments of a claim declare, without repetition.
    pub(super) fn readings_of(&self, id: ClaimId) -> Vec<&'a Reading> {
        let mut involved = vec![id.experiment];
        let cells = self.claim(id).checks.iter().flat_map(Check::cells);
        for other in cells.filter_map(|cell| cell.experiment.as_deref()) {
            let found = self.plans.iter().position(|p| p.experiment.id == other);
            involved.extend(found.filter(|found| !involved.contains(found)));
        }
        let mut readings: Vec<&Reading> = Vec::new();
        for reading in involved.iter().flat_map(|e| &self.plans[*e].experiment.readings) {
            if !readings.iter().any(|r| r.name == reading.name) {
                readings.push(reading);
            }
        }
        readings
    }

    /// The readings with one changed choice that change a cell of a claim, in the order of the
    /// file. Builds each scenario, so that errors appear before minutes are spent on runs, and
    /// records the cells in which a value changes nothing, since an axis may set the same.
    pub(super) fn singles(&mut self, id: ClaimId) -> Result<Vec<Single<'a>>, ExperimentError> {
        let readings = self.readings_of(id);
        if readings.is_empty() {
            return Ok(Vec::new());
        }
        let plain = |cell: CellId| {
            let scenario = &self.plans[cell.experiment].scenarios[cell.cell];
            (cell, described(scenario))
        };
        let plain: Vec<_> = self.all_cells(id).into_iter().map(plain).collect();
        let mut singles = Vec::new();
        for choice in readings {
            for value in choice.others() {
                if self.options.cancel.load(Ordering::Relaxed) {
                    return Err(ExperimentError::Cancelled);
                }
                let world = Deviation::one(&choice.name, &value.label);
                let mut cells = Vec::new();
                for (cell, plain) in &plain {
                    let own = world.within(&self.plans[cell.experiment].experiment.readings);
                    if own.is_plain() {
                        continue;
                    }
                    let scenario = self.scenario(*cell, &world)?;
                    if described(&scenario) == *plain {
                        self.cells.leaves(*cell, own);
                    } else {
                        cells.push((*cell, scenario.predicted_packet_hops()));
                    }
                }
                if !cells.is_empty() {
                    singles.push(Single { choice, world, cells });
                }
            }
        }
        Ok(singles)
    }

    /// The part of a world that changes something in one cell.
    pub(super) fn reading_in(&self, id: CellId, world: &Deviation) -> Deviation {
        let own = world.within(&self.plans[id.experiment].experiment.readings);
        self.cells.changing(id, own)
    }

    /// True if charts over time show a repetition of a cell under this reading, since that is its
    /// reading in the nearest world of a claim of the experiment.
    pub(super) fn traces(&self, id: CellId, reading: &Deviation, repetition: u32) -> bool {
        let plan = &self.plans[id.experiment];
        if reading.is_plain() || repetition >= plan.traced() {
            return false;
        }
        let claims = plan.experiment.claims.iter();
        let found = claims.filter_map(|claim| plan.experiment.worlds.of(&claim.id));
        let worlds = found.filter(|found| found.verdict == Verdict::Held);
        worlds
            .filter_map(|found| found.readings.as_ref())
            .any(|world| self.reading_in(id, world) == *reading)
    }

    /// The measurements of an experiment in a world, as far as charts show them. `runs` has the
    /// series of a cell, by its number.
    pub(super) fn in_world(
        &self,
        experiment: usize,
        world: &Deviation,
        runs: &HashMap<usize, Vec<Run>>,
    ) -> InWorld {
        let mut in_world =
            InWorld { plan: self.plans[experiment].clone(), rows: Vec::new(), runs: Vec::new() };
        for cell in 0..in_world.plan.scenarios.len() {
            let id = CellId { experiment, cell };
            let found = self.cells.place(id, self.reading_in(id, world));
            let measured = found.map(|number| &self.cells.all[number]);
            let repetitions = 0..in_world.plan.length.repetitions;
            let rows = repetitions.map_while(|r| Some(measured?.row(r)?.to_vec()));
            in_world.rows.push(rows.collect());
            let series = found.and_then(|number| runs.get(&number));
            in_world.runs.push(series.cloned().unwrap_or_default());
            // Reference lines stand for cells that were not run too.
            if let Ok(scenario) = self.scenario(id, world) {
                in_world.plan.scenarios[cell] = scenario;
            }
        }
        in_world
    }

    /// The cells of a claim that a world changes, each with what is changed there. Worlds that are
    /// equal in this are one.
    pub(super) fn cells_in(&self, id: ClaimId, world: &Deviation) -> Vec<(CellId, Deviation)> {
        let cells = self.all_cells(id).into_iter();
        let cells = cells.map(|cell| (cell, self.reading_in(cell, world)));
        cells.filter(|(_, reading)| !reading.is_plain()).collect()
    }

    /// True if every cell of a claim has a scenario in a world. Records the cells in which choices
    /// that change nothing alone change something together.
    pub(super) fn is_possible(&mut self, id: ClaimId, world: &Deviation) -> bool {
        for cell in self.all_cells(id) {
            let Plan { experiment, length, .. } = &self.plans[cell.experiment];
            let own = world.within(&experiment.readings);
            let short = self.reading_in(cell, world);
            let Ok(scenario) = experiment.scenario(cell.cell, length, &short) else { return false };
            if short != own {
                let Ok(whole) = experiment.scenario(cell.cell, length, &own) else { return false };
                if described(&whole) != described(&scenario) {
                    self.cells.entangles(cell, own);
                }
            }
        }
        true
    }

    /// Changes of a world, in words.
    pub(super) fn words(&self, id: ClaimId, world: &Deviation) -> Vec<ChangedChoice> {
        let readings = self.readings_of(id);
        let word = |(name, label): &(String, String)| {
            let reading = readings.iter().find(|r| r.name == *name)?;
            let value = reading.values.iter().find(|v| v.label == *label)?;
            Some(ChangedChoice {
                choice: reading.choice.clone(),
                plain: reading.plain_value().label.clone(),
                instead: label.clone(),
                basis: value.basis,
                source: value.source.clone(),
                private: value.is_private(),
                contradicted: value.contradicted.clone(),
                against: value.against.clone(),
            })
        };
        world.choices().iter().filter_map(word).collect()
    }

    /// A claim in a world, before its verdict.
    pub(super) fn open_reading(&self, id: ClaimId, world: &Deviation) -> ReadingResult {
        ReadingResult {
            deviation: world.clone(),
            words: self.words(id, world),
            verdict: Verdict::Inconclusive,
            checks: Vec::new(),
        }
    }

    /// The reported numbers of a claim's experiment in a world, by their index, as far as their
    /// cells were run there.
    pub(super) fn reported(&self, id: ClaimId, world: &Deviation) -> Vec<(usize, Estimate)> {
        let mean = |reported: &Reported| self.mean(id.experiment, &reported.value, world);
        let all = self.experiment_of(id).reported.iter().enumerate();
        all.filter_map(|(i, reported)| Some((i, mean(reported)?))).collect()
    }

    /// The estimate of an expression of experiment `own` in a world, if its cells were run there.
    fn mean(&self, own: usize, value: &Expression<Cell>, world: &Deviation) -> Option<Estimate> {
        let cells = value.leaves().into_iter().map(|cell| {
            let samples = self.samples(own, cell, world, REPORTED).ok()?;
            (!samples.samples.is_empty()).then_some((cell, samples))
        });
        let cells = SampledCells(cells.collect::<Option<Vec<_>>>()?);
        cells.estimate(value, cells.rows(), CONFIDENCE)
    }

    /// The explanation of a claim with the numbers of the runs so far.
    pub(super) fn explanation(&self, id: ClaimId, nearest: Option<&Deviation>) -> Option<String> {
        let number = |wanted: &Wanted| {
            let world = if wanted.nearest { nearest? } else { &Deviation::PLAIN };
            let Estimate { mean, low, high } = self.mean(id.experiment, &wanted.value, world)?;
            let unit = self.unit_of(id.experiment, &wanted.value);
            let [mean, low, high] = [mean, low, high].map(|x| x * unit.factor);
            Some((Estimate { mean, low, high }, unit.name))
        };
        self.claim(id).explanation.as_ref().map(|explanation| explanation.text(number))
    }

    /// The unit in which charts show an expression: that of its metric, if it is of one metric.
    fn unit_of(&self, own: usize, value: &Expression<Cell>) -> Unit {
        let metrics = value.leaves().into_iter().map(|cell| {
            let (id, metric) = self.locate(own, cell).ok()?;
            Some((id.experiment, metric))
        });
        let metrics = metrics.collect::<Option<BTreeSet<_>>>().unwrap_or_default();
        // A quotient of two values of a metric has no unit.
        let (Some((experiment, metric)), 1, true) =
            (metrics.first(), metrics.len(), value.has_unit(&|_| true))
        else {
            return Unit::NONE;
        };
        self.plans[*experiment].experiment.unit_of(*metric)
    }

    // --- work -----------------------------------------------------------------------------

    /// Budget for the other readings of a claim of that experiment.
    pub(super) fn readings_budget(&self, experiment: usize) -> Option<f64> {
        self.options.readings_budget.filter(|_| !self.plans[experiment].experiment.all_readings)
    }

    /// The work of a first look at some cells, under another reading of a claim of `own`.
    pub(super) fn work_of(&self, own: usize, cells: impl IntoIterator<Item = CellId>) -> f64 {
        let hops = cells.into_iter().map(|cell| self.plain_hops(cell)).sum::<f64>();
        hops * f64::from(self.looks(own, false).first())
    }

    /// Looks at the claims of an experiment.
    pub(super) fn looks(&self, experiment: usize, plainly: bool) -> Looks {
        let length = &self.plans[experiment].length;
        if length.at_most == length.repetitions {
            return Looks::new(length.repetitions, length.repetitions);
        }
        let first = if plainly { length.repetitions.max(FIRST_LOOK) } else { FIRST_LOOK };
        Looks::new(first, length.at_most)
    }

    /// Order in which the checks of a claim are judged under its other readings. If a check that
    /// failed plainly fails again, the others do not matter, and the cheapest of those may be
    /// enough.
    pub(super) fn order(&self, id: ClaimId, plain: &[CheckResult]) -> Groups {
        let (mut failed, passed): (Vec<usize>, Vec<usize>) =
            (0..plain.len()).partition(|i| plain[*i].verdict == Verdict::NotHeld);
        let work = |check: &usize| self.work_of(id.experiment, self.cells_of(id, &[*check]));
        failed.sort_by(|a, b| work(a).total_cmp(&work(b)));
        let others = failed.split_off(failed.len().min(1));
        [failed, others, passed].into_iter().filter(|group| !group.is_empty()).collect()
    }
}
