//! Cells of experiments under readings, with their completed runs.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use windward_sim::Scenario;

use crate::LabError;
use crate::experiment::Deviation;

/// A cell of an experiment under a reading, and its runs.
pub(super) struct Measured {
    pub(super) experiment: usize,
    pub(super) reading: Deviation,
    pub(super) cell: usize,
    pub(super) scenario: Arc<Scenario>,
    pub(super) weight: f64,
    /// Metrics of each completed repetition.
    pub(super) rows: Vec<Option<Vec<f64>>>,
    /// Number of requested repetitions.
    pub(super) asked: u32,
}

/// Experiment, reading, cell.
type Key = (usize, Deviation, usize);

/// All requested cells, by number.
#[derive(Default)]
pub(super) struct Cells {
    pub(super) all: Vec<Measured>,
    index: HashMap<Key, usize>,
    /// Choices that change nothing, by experiment and cell.
    untouched: HashSet<Key>,
}

impl Cells {
    /// The number of a cell under a reading; `scenario` builds a new one.
    pub(super) fn number(
        &mut self,
        experiment: usize,
        reading: &Deviation,
        cell: usize,
        scenario: impl FnOnce() -> Result<Scenario, LabError>,
    ) -> Result<usize, LabError> {
        let key = (experiment, reading.clone(), cell);
        if let Some(&id) = self.index.get(&key) {
            return Ok(id);
        }
        let scenario = scenario()?;
        let id = self.all.len();
        self.all.push(Measured {
            experiment,
            reading: reading.clone(),
            cell,
            weight: scenario.predicted_packet_hops(),
            scenario: Arc::new(scenario),
            rows: Vec::new(),
            asked: 0,
        });
        self.index.insert(key, id);
        Ok(id)
    }

    /// The cell under a reading, if it was requested.
    pub(super) fn find(
        &self,
        experiment: usize,
        reading: Deviation,
        cell: usize,
    ) -> Option<&Measured> {
        self.index.get(&(experiment, reading, cell)).map(|id| &self.all[*id])
    }

    /// Records that a choice changes nothing in a cell.
    pub(super) fn leaves(&mut self, experiment: usize, choice: Deviation, cell: usize) {
        self.untouched.insert((experiment, choice, cell));
    }

    /// The part of a reading that changes something in one cell.
    pub(super) fn changing(&self, experiment: usize, reading: Deviation, cell: usize) -> Deviation {
        reading.keep(|choice| !self.untouched.contains(&(experiment, choice.clone(), cell)))
    }
}
