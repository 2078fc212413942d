//! The jobs of worker threads, and their results.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use windward_sim::{Outcome, Scenario};

use crate::LabError;
use crate::sweep::Plan;

/// A run to do.
pub(super) struct Job {
    pub(super) stage: Stage,
    pub(super) weight: f64,
    /// Number in the order of requests, which decides between equal jobs.
    pub(super) number: usize,
    pub(super) cell: usize,
    pub(super) experiment: usize,
    pub(super) repetition: u32,
    pub(super) shown: bool,
    pub(super) scenario: Arc<Scenario>,
}

/// Order of jobs: first the figures, in their order, then the further runs of verdicts.
pub(super) type Stage = (bool, usize);

impl Job {
    /// Runs it; `simulate` stops when the flag is set.
    pub(super) fn run(
        self,
        plans: &[Plan],
        cancel: &AtomicBool,
        simulate: &impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, LabError>,
    ) -> Result<Finished, LabError> {
        if cancel.load(Memory::Relaxed) {
            return Err(LabError::Cancelled);
        }
        let experiment = &plans[self.experiment].experiment;
        let (metrics, outcome) =
            experiment.perform(&self.scenario, self.repetition, cancel, simulate)?;
        let outcome = (self.shown || gave_up(&outcome)).then_some(outcome);
        Ok(Finished {
            cell: self.cell,
            repetition: self.repetition,
            metrics,
            outcome,
            weight: self.weight,
        })
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    /// The greatest runs first: the earliest stage, and within it the most expensive job, since an
    /// expensive job at the end would leave the other cores idle.
    fn cmp(&self, other: &Self) -> Ordering {
        let stage = other.stage.cmp(&self.stage);
        stage
            .then_with(|| self.weight.total_cmp(&other.weight))
            .then_with(|| other.number.cmp(&self.number))
    }
}

/// A completed run.
pub(super) struct Finished {
    pub(super) cell: usize,
    pub(super) repetition: u32,
    pub(super) metrics: Vec<f64>,
    pub(super) outcome: Option<Outcome>,
    pub(super) weight: f64,
}

/// Jobs that wait for a thread.
#[derive(Default)]
pub(super) struct Queue {
    jobs: Mutex<(BinaryHeap<Job>, bool)>,
    changed: Condvar,
}

impl Queue {
    /// Adds jobs.
    pub(super) fn put(&self, jobs: Vec<Job>) {
        let mut state = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        state.0.extend(jobs);
        self.changed.notify_all();
    }

    /// The next job; waits for one; `None` once the queue is closed.
    pub(super) fn take(&self) -> Option<Job> {
        let mut state = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.1 {
                return None;
            }
            if let Some(job) = state.0.pop() {
                return Some(job);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all workers end.
    pub(super) fn close(&self) {
        let mut state = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = true;
        self.changed.notify_all();
    }
}

/// Closes the queue when dropped, also by a panic.
pub(super) struct Closing<'a>(pub(super) &'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// True if a connection in it gave up.
fn gave_up(outcome: &Outcome) -> bool {
    outcome.flows.iter().any(|flow| flow.failure.is_some())
}
