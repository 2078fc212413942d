//! A campaign: all runs that a list of experiments needs, and the resulting verdicts.
//!
//! The runs of charts and tables come first, experiment by experiment. A claim is judged as soon as
//! its cells are complete. While one of its checks is open and none has failed, the cells are
//! repeated up to the next look ([`Looks`](crate::statistics::Looks)). The other readings follow:
//! first with half of the permitted runs, then those that are not decided with all of them, as far
//! as the budget of the claim permits. The worlds that a search found are judged again beside them.
//! At the end each comparison has its control ([`claims::Control`](crate::claims::Control)). The
//! next step depends only on the numbers, never on the order in which runs end. The result is
//! therefore the same with any number of threads and after an interruption.
//!
//! The caller's thread decides; the others simulate. They share a queue of jobs.
//!
//! - `design`: the cells that a claim needs, and what a reading changes in them (`cells`).
//! - `question`: some checks of a claim in one world, judged at looks that are fixed in advance.
//! - `runner`: runs what questions wait for (`queue`), and answers them.
//! - `case`: the course of one claim, and the step after each answer.
//! - `search`: the search for worlds, which asks the same runner other questions.

use std::sync::atomic::AtomicBool;

use windward_sim::{Outcome, Scenario};

use crate::ExperimentError;
use crate::claims::ClaimResult;
use crate::experiment::Deviation;
use crate::sweep::{InWorld, Plan, Progress, Results, RunOptions, simulate};

mod case;
mod cells;
mod design;
mod question;
mod queue;
mod runner;
mod search;

use case::{Case, Follow, Purpose};
pub(crate) use cells::FRESH;
pub use design::ClaimId;
use question::Answer;
pub use queue::{AroundWorker, RunExecutor, RunId, around_workers};
use queue::{Job, with_workers};
use runner::{Runner, Step};
pub use search::{Found, Request, Searched, search};

/// A completed run, as journals store it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RunRecord {
    /// Index of the experiment.
    pub experiment: usize,
    /// The reading.
    pub reading: Deviation,
    /// Index of the cell: a combination of the axes.
    pub cell: usize,
    /// Index of the repetition.
    pub repetition: u32,
    /// One value per metric.
    pub metrics: Vec<f64>,
    /// The full outcome, if charts or tables show this run or one of its connections gave up.
    pub outcome: Option<Outcome>,
}

/// Progress of a running campaign.
pub enum Event {
    /// All runs that charts and tables show of an experiment are complete.
    Measured(usize, Box<Results>),
    /// A claim has a verdict under one more reading: its results so far.
    Judged(ClaimId, Box<ClaimResult>),
    /// A claim that does not hold plainly holds in its nearest world, or these runs leave that
    /// open: the measurements of its experiment there.
    Nearest(ClaimId, Box<InWorld>),
}

/// Receiver of the progress and the runs of a campaign.
pub trait Observer {
    /// Reports progress.
    fn event(&mut self, event: Event) -> Result<(), ExperimentError>;
    /// Called after each run.
    fn progress(&mut self, _progress: Progress) {}
    /// Called when all progress is reported: the place for long work.
    fn idle(&mut self) -> Result<(), ExperimentError> {
        Ok(())
    }
    /// A run is complete, or one of the `known` runs is now in use.
    fn record(&mut self, _run: &RunRecord, _known: bool) -> Result<(), ExperimentError> {
        Ok(())
    }
}

/// Runs only the cells of charts and tables, without verdicts.
pub fn measure(
    mut plans: Vec<Plan>,
    options: &RunOptions<'_>,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
) -> Result<Vec<Results>, ExperimentError> {
    struct Collect(Vec<Option<Results>>);
    impl Observer for Collect {
        fn event(&mut self, event: Event) -> Result<(), ExperimentError> {
            if let Event::Measured(index, results) = event {
                self.0[index] = Some(*results);
            }
            Ok(())
        }
    }
    for plan in &mut plans {
        plan.experiment.claims.clear();
    }
    let mut collect = Collect(plans.iter().map(|_| None).collect());
    run(&plans, options, Vec::new(), &mut collect, simulate)?;
    Ok(collect.0.into_iter().flatten().collect())
}

impl Plan {
    /// Runs the cells of charts and tables, without claims.
    ///
    /// # Errors
    /// If it was cancelled, or the threads cannot be started.
    pub fn run(self, options: &RunOptions<'_>) -> Result<Results, ExperimentError> {
        let results = measure(vec![self], options, &simulate)?;
        // One result for each plan.
        results.into_iter().next().ok_or(ExperimentError::Cancelled)
    }
}

/// Runs the campaign. `known` has the runs of an earlier attempt at the same work. `simulate` runs
/// one scenario, or stops when the flag is set. Returns the number of runs.
pub fn run(
    plans: &[Plan],
    options: &RunOptions<'_>,
    known: Vec<RunRecord>,
    observer: &mut dyn Observer,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
) -> Result<usize, ExperimentError> {
    let perform = |job: &Job| job.run(plans, options.cancel, simulate);
    with_workers(options, &perform, |workers| {
        let mut runner = Runner::new(plans, options, workers, known, observer);
        let mut cases = Vec::new();
        for plan in plans {
            let experiment = cases.len();
            let claims =
                (0..plan.experiment.claims.len()).map(|claim| ClaimId { experiment, claim });
            let open = |id| Case::open(id, &mut runner.design);
            cases.push(claims.map(open).collect::<Result<Vec<Case>, _>>()?);
        }
        Campaign { runner, cases }.conduct()
    })
}

struct Campaign<'a> {
    runner: Runner<'a, Purpose>,
    /// By experiment and claim.
    cases: Vec<Vec<Case>>,
}

impl Campaign<'_> {
    fn conduct(mut self) -> Result<usize, ExperimentError> {
        self.runner.draw()?;
        for case in self.cases.iter().flatten() {
            let (ask, groups) = case.plainly(&self.runner.design);
            self.runner.open(ask, groups)?;
        }
        while let Some(step) = self.runner.step()? {
            match step {
                Step::Ran => {
                    let progress = self.progress();
                    self.runner.observer.progress(progress);
                    (self.runner.design.options.progress)(progress);
                }
                Step::Answered(answer) => self.take(answer)?,
            }
        }
        for case in self.cases.iter_mut().flatten() {
            let controls = case.add_controls(&self.runner.design);
            case.explain(&self.runner.design);
            if controls || case.result.explanation.is_some() {
                let result = Box::new(case.result.clone());
                self.runner.observer.event(Event::Judged(case.id, result))?;
            }
        }
        Ok(self.runner.done.runs)
    }

    fn take(&mut self, answer: Answer<Purpose>) -> Result<(), ExperimentError> {
        let id = answer.ask.claim;
        let judged = (answer.ask.asker == Purpose::World).then(|| answer.ask.world.clone());
        let case = &mut self.cases[id.experiment][id.claim];
        let follows = case.take(answer, &self.runner.design);
        case.explain(&self.runner.design);
        let result = Box::new(case.result.clone());
        let nearest = result.worlds.nearest.as_ref().map(|world| &world.reading.deviation);
        let draws = judged.filter(|world| nearest == Some(world) && result.holds_nearest());
        self.runner.observer.event(Event::Judged(id, result))?;
        if let Some(world) = draws {
            let measured = Box::new(self.runner.in_world(id, &world));
            self.runner.observer.event(Event::Nearest(id, measured))?;
        }
        for follow in follows {
            match follow {
                Follow::Ask(ask, groups) => self.runner.open(ask, groups)?,
                Follow::Again(question) => {
                    let at_most = self.runner.design.plans[id.experiment].length.at_most;
                    self.runner.extend(question, at_most)?;
                }
            }
        }
        Ok(())
    }

    fn progress(&self) -> Progress {
        let (done, mut all) = (self.runner.done, self.runner.asked);
        self.cases.iter().flatten().for_each(|case| all += case.expected);
        let work = (done.hops / all.hops).clamp(0.0, 1.0);
        Progress { done: done.runs, total: all.runs, work }
    }
}
