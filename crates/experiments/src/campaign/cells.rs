//! Cells of experiments under readings, with their completed runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windward_sim::Scenario;

use crate::ExperimentError;
use crate::experiment::Deviation;

/// A cell of an experiment, whatever the reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CellId {
    pub(super) experiment: usize,
    pub(super) cell: usize,
}

/// A cell of an experiment under a reading, and its runs.
pub(super) struct Measured {
    pub(super) id: CellId,
    pub(super) reading: Deviation,
    pub(super) scenario: Arc<Scenario>,
    pub(super) weight: f64,
    /// Runs from repetition 0 on, from [`FRESH`] on, and from twice that on.
    series: [Series; 3],
}

/// Runs of consecutive repetitions.
#[derive(Default)]
struct Series {
    /// Metrics of each completed repetition.
    rows: Vec<Option<Vec<f64>>>,
    /// Number of requested repetitions.
    asked: u32,
}

/// First repetition of the runs that confirm what other runs suggested. No experiment has as many
/// repetitions, so that their seeds are new.
pub(crate) const FRESH: u32 = 1_000_000;

/// Index of the series of a repetition, and its place there.
fn place(repetition: u32) -> (usize, usize) {
    ((repetition / FRESH) as usize, (repetition % FRESH) as usize)
}

impl Measured {
    /// Requests the first `runs` repetitions of the series that begins at `from`. Returns those
    /// that are new.
    pub(super) fn request(&mut self, from: u32, runs: u32) -> std::ops::Range<u32> {
        let series = &mut self.series[place(from).0];
        let asked = series.asked;
        series.asked = asked.max(runs);
        series.rows.resize(series.asked as usize, None);
        from + asked..from + series.asked
    }

    /// The metrics of a repetition, once it is complete.
    pub(super) fn row(&self, repetition: u32) -> Option<&[f64]> {
        let (series, index) = place(repetition);
        self.series[series].rows.get(index)?.as_deref()
    }

    /// Stores the metrics of a requested repetition.
    pub(super) fn put(&mut self, repetition: u32, metrics: Vec<f64>) {
        let (series, index) = place(repetition);
        self.series[series].rows[index] = Some(metrics);
    }
}

/// Cell, reading.
type Key = (CellId, Deviation);

/// All requested cells, by number.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) all: Vec<Measured>,
    index: HashMap<Key, usize>,
    /// Choices that change nothing, by cell.
    untouched: HashSet<Key>,
    /// Readings in which they do change something, beside other choices.
    entangled: HashSet<Key>,
}

impl Cells {
    /// The number of a cell under a reading; `scenario` builds a new one.
    pub(super) fn number(
        &mut self,
        cell: CellId,
        reading: &Deviation,
        scenario: impl FnOnce() -> Result<Scenario, ExperimentError>,
    ) -> Result<usize, ExperimentError> {
        let key = (cell, reading.clone());
        if let Some(&id) = self.index.get(&key) {
            return Ok(id);
        }
        let scenario = scenario()?;
        let id = self.all.len();
        self.all.push(Measured {
            id: cell,
            reading: reading.clone(),
            weight: scenario.predicted_packet_hops(),
            scenario: Arc::new(scenario),
            series: Default::default(),
        });
        self.index.insert(key, id);
        Ok(id)
    }

    /// The cell under a reading, if it was requested.
    pub(super) fn find(&self, cell: CellId, reading: Deviation) -> Option<&Measured> {
        self.place(cell, reading).map(|number| &self.all[number])
    }

    /// The number of a cell under a reading, if it was requested.
    pub(super) fn place(&self, cell: CellId, reading: Deviation) -> Option<usize> {
        self.index.get(&(cell, reading)).copied()
    }

    /// Records that a choice changes nothing in a cell.
    pub(super) fn leaves(&mut self, cell: CellId, choice: Deviation) {
        self.untouched.insert((cell, choice));
    }

    /// Records that a reading changes more in a cell than those of its choices that change
    /// something alone.
    pub(super) fn entangles(&mut self, cell: CellId, reading: Deviation) {
        self.entangled.insert((cell, reading));
    }

    /// The part of a reading that changes something in one cell.
    pub(super) fn changing(&self, cell: CellId, reading: Deviation) -> Deviation {
        if self.entangled.contains(&(cell, reading.clone())) {
            return reading;
        }
        reading.keep(|choice| !self.untouched.contains(&(cell, choice.clone())))
    }
}
