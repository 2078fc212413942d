//! The worker threads: their jobs, and their results.

use std::cmp;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, mpsc};

use windward_sim::{Outcome, Scenario};

use crate::ExperimentError;
use crate::experiment::Deviation;
use crate::sweep::{Plan, RunOptions};

/// One run among those of a list of plans, by which another process finds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct RunId {
    /// Index of the plan.
    pub experiment: usize,
    /// The reading: those of its choices that change something in the cell.
    pub reading: Deviation,
    /// Index of the cell: a combination of the axes.
    pub cell: usize,
    /// Index of the repetition.
    pub repetition: u32,
}

impl RunId {
    /// Executes the run, and returns a value for each metric.
    ///
    /// # Errors
    /// If these plans have no such run, the run fails, or `cancel` is set.
    pub fn perform(
        &self,
        plans: &[Plan],
        cancel: &AtomicBool,
    ) -> Result<Vec<f64>, ExperimentError> {
        let plan = plans.get(self.experiment).filter(|plan| self.cell < plan.scenarios.len());
        let Some(Plan { experiment, length, .. }) = plan else {
            let (file, line) = (String::new(), 0);
            let message =
                format!("there is no cell {} of experiment {}", self.cell, self.experiment);
            return Err(ExperimentError::Experiment { file, line, message });
        };
        let scenario = experiment.scenario(self.cell, length, &self.reading)?;
        let done =
            experiment.perform(&scenario, self.repetition, cancel, &crate::sweep::simulate)?;
        Ok(done.0)
    }
}

/// The place where runs without charts are executed: threads of this process, or other machines.
///
/// A function from a scenario to its outcome is one: the calling thread executes the run.
pub trait RunExecutor: Sync {
    /// Executes a run of that plan, and returns a value for each metric. `scenario` is its cell
    /// under its reading. Called by several threads at once.
    ///
    /// # Errors
    /// If the run fails, or `cancel` is set meanwhile.
    fn metrics(
        &self,
        run: &RunId,
        plan: &Plan,
        scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Vec<f64>, ExperimentError>;
}

impl<F> RunExecutor for F
where
    F: Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync,
{
    fn metrics(
        &self,
        run: &RunId,
        plan: &Plan,
        scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Vec<f64>, ExperimentError> {
        Ok(plan.experiment.perform(scenario, run.repetition, cancel, self)?.0)
    }
}

/// A run to do.
pub(super) struct Job {
    pub(super) stage: Stage,
    pub(super) weight: f64,
    /// Number in the order of requests, which decides between equal jobs.
    pub(super) number: usize,
    /// Number of the cell under its reading, in this campaign.
    pub(super) cell: usize,
    pub(super) run: RunId,
    pub(super) shown: bool,
    pub(super) scenario: Arc<Scenario>,
}

/// The metrics of a run, and its outcome if that is kept.
pub(super) type Done = (Vec<f64>, Option<Outcome>);

/// Order of jobs: first the figures, the cheapest first, then the further runs of verdicts.
pub(super) type Stage = (bool, usize);

impl Job {
    /// Runs it; `simulate` stops when the flag is set.
    pub(super) fn run(
        &self,
        plans: &[Plan],
        cancel: &AtomicBool,
        simulate: &impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError>,
    ) -> Result<Done, ExperimentError> {
        let experiment = &plans[self.run.experiment].experiment;
        let repetition = self.run.repetition;
        let (metrics, outcome) =
            experiment.perform(&self.scenario, repetition, cancel, simulate)?;
        let outcome = (self.shown || gave_up(&outcome)).then_some(outcome);
        Ok((metrics, outcome))
    }

    /// Lets an executor run it, for its metrics alone.
    pub(super) fn run_by(
        &self,
        plans: &[Plan],
        cancel: &AtomicBool,
        executor: &impl RunExecutor,
    ) -> Result<Done, ExperimentError> {
        let plan = &plans[self.run.experiment];
        Ok((executor.metrics(&self.run, plan, &self.scenario, cancel)?, None))
    }

    /// The completed run.
    pub(super) fn finished(self, (metrics, outcome): Done) -> Finished {
        let repetition = self.run.repetition;
        Finished { cell: self.cell, repetition, metrics, outcome, weight: self.weight }
    }
}

impl PartialEq for Job {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == cmp::Ordering::Equal
    }
}

impl Eq for Job {}

impl PartialOrd for Job {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Job {
    /// The greatest runs first: the earliest stage, and within it the most expensive job, since an
    /// expensive job at the end would leave the other cores idle.
    fn cmp(&self, other: &Self) -> cmp::Ordering {
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
struct Closing<'a>(&'a Queue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The workers as the deciding thread sees them: jobs go in, runs come out.
#[derive(Clone, Copy)]
pub(super) struct Workers<'a> {
    pub(super) queue: &'a Queue,
    pub(super) done: &'a mpsc::Receiver<Result<Finished, ExperimentError>>,
}

/// Code around the work of each worker thread.
pub type AroundWorker = fn(&mut (dyn FnMut() + Send));

static AROUND_WORKERS: OnceLock<AroundWorker> = OnceLock::new();

/// Sets the code that all worker threads of this process put around their work: it calls its
/// argument once. An interpreter that runs call prepares each thread once in this way, and not at
/// each call. Only the first call has an effect.
pub fn around_workers(around: AroundWorker) {
    let _ = AROUND_WORKERS.set(around);
}

/// Starts the workers, and ends them when `decide`, which the caller's thread runs, is through.
pub(super) fn with_workers<T>(
    options: &RunOptions<'_>,
    perform: &(impl Fn(&Job) -> Result<Done, ExperimentError> + Sync),
    decide: impl FnOnce(Workers<'_>) -> Result<T, ExperimentError>,
) -> Result<T, ExperimentError> {
    let queue = Queue::default();
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    let (sender, done) = mpsc::channel();
    std::thread::scope(|scope| {
        // Ends the workers however this function returns.
        let _closing = Closing(&queue);
        for _ in 0..threads {
            let sender = sender.clone();
            let queue = &queue;
            let thread = move || {
                // If a worker panics, the others stop.
                let _closing = Closing(queue);
                let mut work = || {
                    while let Some(job) = queue.take() {
                        let finished = match options.cancel.load(Ordering::Relaxed) {
                            true => Err(ExperimentError::Cancelled),
                            false => perform(&job).map(|done| job.finished(done)),
                        };
                        let ended = finished.is_err();
                        if sender.send(finished).is_err() || ended {
                            break;
                        }
                    }
                };
                match AROUND_WORKERS.get() {
                    Some(around) => around(&mut work),
                    None => work(),
                }
            };
            let spawned = std::thread::Builder::new().spawn_scoped(scope, thread);
            spawned.map_err(|e| ExperimentError::Threads(e.to_string()))?;
        }
        drop(sender);
        let ended = decide(Workers { queue: &queue, done: &done });
        if ended.is_err() {
            // The runs in progress are no longer needed and might take minutes.
            options.cancel.store(true, Ordering::Relaxed);
        }
        ended
    })
}

/// True if a connection in it gave up.
fn gave_up(outcome: &Outcome) -> bool {
    outcome.flows.iter().any(|flow| flow.failure.is_some())
}
