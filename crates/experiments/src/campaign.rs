//! A campaign: all runs that a list of experiments needs, and the resulting verdicts.
//!
//! The runs of charts and tables come first, experiment by experiment. A claim is judged as soon as
//! its cells are complete. While one of its checks is open and none has failed, the cells are
//! repeated up to the next look ([`Looks`]). The other readings follow: first with half of the
//! permitted runs, then those that are not decided with all of them, as far as the budget of the
//! claim permits. The worlds that a search found are judged again beside them. With full effort
//! pairs of readings that matter come next. The checks of earlier editions are judged with the same
//! runs, and each edition also with the former plain values. At the end each comparison has its
//! control ([`claims::Control`]). The next step depends only on the numbers, never on the order in
//! which runs end. The result is therefore the same with any number of threads and after an
//! interruption.
//!
//! The caller's thread decides; the others simulate. They share a queue of jobs.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering as Memory};
use std::sync::{OnceLock, mpsc};

use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Outcome, Scenario};

use crate::ExperimentError;
use crate::claims::{
    self, CellSamples, ChangedChoice, CheckResult, ClaimResult, JointResult, ReadingResult,
    SampledCells, SearchResult, Verdict, WorldResult, verdict_of,
};
use crate::experiment::{Check, Deviation, Reading, Reported};
use crate::expression::Cell;
use crate::statistics::{Estimate, Looks, estimate};
use crate::sweep::{Plan, Progress, Results, Run, RunOptions, simulate};

mod cells;
mod queue;
mod search;

use cells::Cells;
pub(crate) use cells::FRESH;
use queue::{Closing, Done, Finished, Job, Queue, Stage};
pub use queue::{RunExecutor, RunId};
use search::{Answer, Asker, Inquiry};
pub use search::{Found, Request, Searched, search};

/// Minimum number of runs of a cell before a claim is judged, unless their number is fixed and
/// smaller.
const FIRST_LOOK: u32 = 4;
/// Largest work of a joint or a former world of a claim, as a share of the budget for its other
/// readings. All of them would be a quarter of a quick run.
const WORLD_SHARE: f64 = 0.1;

/// Repetitions that a report shows; a search for worlds has its own beyond them.
const REPORTED: Range<u32> = 0..FRESH;

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
    /// A claim has a verdict under one more reading: experiment, claim, results so far.
    Judged(usize, usize, Box<ClaimResult>),
}

/// Receiver of the progress and the runs of a campaign.
pub trait Observer {
    /// Reports progress.
    fn event(&mut self, event: Event) -> Result<(), ExperimentError>;
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
    conduct(options, &perform, |queue, done| {
        Campaign::new(plans, options, queue, known, observer).conduct(done)
    })
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
fn conduct<T>(
    options: &RunOptions<'_>,
    perform: &(impl Fn(&Job) -> Result<Done, ExperimentError> + Sync),
    decide: impl FnOnce(
        &Queue,
        &mpsc::Receiver<Result<Finished, ExperimentError>>,
    ) -> Result<T, ExperimentError>,
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
                        let finished = match options.cancel.load(Memory::Relaxed) {
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
        let ended = decide(&queue, &done);
        if ended.is_err() {
            // The runs in progress are no longer needed and might take minutes.
            options.cancel.store(true, Memory::Relaxed);
        }
        ended
    })
}

/// The checks of a claim in one edition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition {
    experiment: usize,
    claim: usize,
    /// Index of the earlier edition, or none for the present one.
    earlier: Option<usize>,
}

/// The world in which a condition is judged.
#[derive(Debug, Clone)]
enum World {
    /// A reading, the plain one or another.
    Reading(Deviation),
    /// Choices whose plain value has changed have the former one.
    Former(Deviation),
    /// The nearest world that a search found.
    Nearest(Deviation),
    /// A world in which many claims hold together, by its index.
    Joint(usize, Deviation),
}

impl World {
    fn deviation(&self) -> &Deviation {
        match self {
            World::Reading(deviation)
            | World::Former(deviation)
            | World::Nearest(deviation)
            | World::Joint(_, deviation) => deviation,
        }
    }
}

/// A condition in one world.
struct Question {
    condition: Condition,
    world: World,
    asker: Asker,
    rule: Rule,
    looks: Looks,
    look: u32,
    /// Number of runs up to which it may look for now.
    until: u32,
    /// Number of earlier groups of checks.
    group: usize,
    /// The current checks, each with its result so far.
    checks: Vec<(usize, Option<CheckResult>)>,
    /// Groups of checks that follow if none of the current ones fails.
    later: VecDeque<Vec<usize>>,
    /// Number of runs that it waits for.
    waiting: usize,
}

/// How the checks of a question are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    /// A verdict on the runs that `reproduce` uses too.
    Verdict,
    /// A coarse judgement of few of these runs: whether the claim might have this verdict.
    Sieve(Verdict),
    /// A verdict on fresh runs, which is wrong in at most that share of all cases.
    Confirm(Verdict, f64),
}

impl Question {
    /// True if no look is left that could decide it.
    fn is_exhausted(&self) -> bool {
        self.looks.look(self.look).last
            || self.checks.iter().all(|(_, r)| r.as_ref().is_some_and(is_decided))
    }

    /// The first repetition of its runs. A joint world may stem from runs that confirmed its parts,
    /// so that it has new ones.
    fn from(&self) -> u32 {
        match (self.rule, self.asker) {
            (Rule::Confirm(..), Asker::Joint(..)) => 2 * FRESH,
            (Rule::Confirm(..), _) => FRESH,
            _ => 0,
        }
    }

    fn results(&self) -> Vec<CheckResult> {
        self.checks.iter().filter_map(|(_, result)| result.clone()).collect()
    }
}

/// A final result, which more runs would not change.
fn is_decided(result: &CheckResult) -> bool {
    result.verdict != Verdict::Inconclusive || result.difference.is_none()
}

/// A reading, and the cells that it changes.
type Changing = (Deviation, Vec<(usize, usize)>);

/// State of a claim: results so far, and remaining readings.
struct Case {
    result: ClaimResult,
    /// The other readings, each with one changed choice and the cells that it changes.
    singles: Vec<Changing>,
    /// Runs and work of their first looks, until these are requested.
    expected: (usize, f64),
    /// The former plain values that matter, by condition.
    former: Vec<(Condition, Deviation)>,
    /// The worlds that a search found, until they are asked for.
    found: Vec<World>,
    /// Open questions.
    open: usize,
    /// Questions that were closed undecided before the last permitted look.
    undecided: Vec<usize>,
    /// Predicted work of the readings that were asked for.
    spent: f64,
    paired: bool,
}

/// A cell of an experiment under the plain reading.
struct Plainly {
    experiment: usize,
    cell: usize,
    file: ScenarioFile,
}

/// Total work: runs, and predicted packet-hops.
#[derive(Default)]
struct Work {
    /// Requested runs.
    asked: (usize, f64),
    done: (usize, f64),
    /// First looks under other readings that are not requested yet.
    expected: (usize, f64),
}

impl Work {
    fn progress(&self) -> Progress {
        Progress {
            done: self.done.0,
            total: self.asked.0 + self.expected.0,
            work: (self.done.1 / (self.asked.1 + self.expected.1)).clamp(0.0, 1.0),
        }
    }
}

/// Runs between their request and the handling of their result.
struct Runs {
    /// Runs of an earlier attempt that were not requested yet.
    known: HashMap<RunId, Done>,
    /// Jobs that are not in the workers' queue yet.
    asked: Vec<Job>,
    /// Number of unfinished jobs, including those.
    running: usize,
    /// Completed runs to handle.
    finished: VecDeque<Finished>,
}

/// The plain runs of an experiment, which charts and tables show.
struct Shown {
    to_come: usize,
    runs: Vec<Option<Run>>,
}

impl Shown {
    fn of(plan: &Plan) -> Self {
        Shown { to_come: plan.runs(), runs: (0..plan.runs()).map(|_| None).collect() }
    }

    /// Takes all runs once they are complete.
    fn complete(&mut self) -> Option<Vec<Run>> {
        let ends = self.to_come == 0 && !self.runs.is_empty();
        ends.then(|| std::mem::take(&mut self.runs).into_iter().flatten().collect())
    }
}

struct Campaign<'a> {
    plans: &'a [Plan],
    options: &'a RunOptions<'a>,
    queue: &'a Queue,
    observer: &'a mut dyn Observer,
    runs: Runs,
    cells: Cells,
    questions: Vec<Question>,
    /// Questions by the runs that they wait for: cell and repetition.
    waiters: HashMap<(usize, u32), Vec<usize>>,
    /// By experiment and claim.
    cases: HashMap<(usize, usize), Case>,
    /// By experiment.
    shown: Vec<Shown>,
    work: Work,
    /// The search for worlds, if that is what the runs are for.
    inquiry: Option<Inquiry>,
}

impl<'a> Campaign<'a> {
    fn new(
        plans: &'a [Plan],
        options: &'a RunOptions<'a>,
        queue: &'a Queue,
        known: Vec<RunRecord>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let by_id = |record: RunRecord| {
            let RunRecord { experiment, reading, cell, repetition, metrics, outcome } = record;
            (RunId { experiment, reading, cell, repetition }, (metrics, outcome))
        };
        Campaign {
            plans,
            options,
            queue,
            observer,
            runs: Runs {
                known: known.into_iter().map(by_id).collect(),
                asked: Vec::new(),
                running: 0,
                finished: VecDeque::new(),
            },
            cells: Cells::default(),
            questions: Vec::new(),
            waiters: HashMap::new(),
            cases: HashMap::new(),
            shown: plans.iter().map(Shown::of).collect(),
            work: Work::default(),
            inquiry: None,
        }
    }

    /// Runs the whole campaign.
    fn conduct(
        mut self,
        done: &mpsc::Receiver<Result<Finished, ExperimentError>>,
    ) -> Result<usize, ExperimentError> {
        self.open_cases()?;
        let plans = self.plans;
        for (e, plan) in plans.iter().enumerate() {
            for cell in 0..plan.scenarios.len() {
                let scenario = || Ok(plan.scenarios[cell].clone());
                let id = self.cells.number(e, &Deviation::PLAIN, cell, scenario)?;
                self.ask(id, 0, plan.length.repetitions, (false, e))?;
            }
        }
        for (e, plan) in plans.iter().enumerate() {
            for c in 0..plan.experiment.claims.len() {
                for condition in self.conditions(e, c) {
                    let all = (0..self.checks(condition).len()).collect();
                    let plain = World::Reading(Deviation::PLAIN);
                    self.ask_for_report(condition, plain, &[all])?;
                }
            }
        }
        self.handle(done)?;
        self.add_controls()?;
        Ok(self.work.done.0)
    }

    /// Handles runs and answers until nothing is left to do.
    fn handle(
        &mut self,
        done: &mpsc::Receiver<Result<Finished, ExperimentError>>,
    ) -> Result<(), ExperimentError> {
        loop {
            while let Some(run) = self.runs.finished.pop_front() {
                self.take(run)?;
            }
            if self.next_of_inquiry()? {
                continue;
            }
            if self.runs.running == 0 {
                return Ok(());
            }
            // All at once, so that a fast worker does not begin with the cheapest.
            self.queue.put(std::mem::take(&mut self.runs.asked));
            let next = match done.try_recv() {
                Ok(next) => next,
                Err(mpsc::TryRecvError::Empty) => {
                    self.observer.idle()?;
                    // If no worker is left, one of them panicked; the scope passes the panic on.
                    done.recv().unwrap_or(Err(ExperimentError::Cancelled))
                }
                Err(mpsc::TryRecvError::Disconnected) => Err(ExperimentError::Cancelled),
            };
            let run = match next {
                Ok(run) => run,
                Err(wrong) => {
                    self.queue.close();
                    self.options.cancel.store(true, Memory::Relaxed);
                    // Runs that end nevertheless are stored.
                    while let Ok(late) = done.recv() {
                        late.map_or(Ok(()), |run| self.note(run, false))?;
                    }
                    return Err(wrong);
                }
            };
            self.runs.running -= 1;
            self.note(run, false)?;
        }
    }

    /// Adds the controls of all checks, which take the plain runs that are there.
    fn add_controls(&mut self) -> Result<(), ExperimentError> {
        let plans = self.plans;
        for (e, plan) in plans.iter().enumerate() {
            let find = |id: &str| {
                plans.iter().map(|p| &p.experiment).find(|experiment| experiment.id == id)
            };
            for (c, claim) in plan.experiment.claims.iter().enumerate() {
                let control = |check: &'a Check| {
                    let column = |cell: &Cell| {
                        let samples = self.samples(e, cell, &Deviation::PLAIN, REPORTED);
                        samples.ok().map(|samples| samples.samples)
                    };
                    claims::control(check, &plan.experiment, &find, &column)
                };
                let controls: Vec<_> = claim.checks.iter().map(control).collect();
                let Some(case) = self.cases.get_mut(&(e, c)) else { continue };
                for result in &mut case.result.checks {
                    result.control.clone_from(&controls[result.check]);
                }
                if controls.iter().any(Option::is_some) && case.result.is_judged() {
                    let result = Box::new(case.result.clone());
                    self.observer.event(Event::Judged(e, c, result))?;
                }
            }
        }
        Ok(())
    }

    /// Reports a run that completed or was known, and queues it for handling.
    fn note(&mut self, run: Finished, known: bool) -> Result<(), ExperimentError> {
        let cell = &self.cells.all[run.cell];
        let record = RunRecord {
            experiment: cell.experiment,
            reading: cell.reading.clone(),
            cell: cell.cell,
            repetition: run.repetition,
            metrics: run.metrics,
            outcome: run.outcome,
        };
        self.observer.record(&record, known)?;
        let RunRecord { metrics, outcome, .. } = record;
        self.runs.finished.push_back(Finished { metrics, outcome, ..run });
        Ok(())
    }

    /// Requests `runs` repetitions of a cell, beginning with the repetition `from`.
    fn ask(
        &mut self,
        id: usize,
        from: u32,
        runs: u32,
        stage: Stage,
    ) -> Result<(), ExperimentError> {
        for repetition in self.cells.all[id].request(from, runs) {
            let cell = &self.cells.all[id];
            let plan = &self.plans[cell.experiment];
            let shown = self.inquiry.is_none() && plan.shows(&cell.reading, repetition);
            self.work.asked.0 += 1;
            self.work.asked.1 += cell.weight;
            let run = RunId {
                experiment: cell.experiment,
                reading: cell.reading.clone(),
                cell: cell.cell,
                repetition,
            };
            // A run that has to be shown is useless without its outcome.
            let known =
                self.runs.known.remove(&run).filter(|(_, outcome)| outcome.is_some() || !shown);
            if let Some((metrics, outcome)) = known {
                let weight = cell.weight;
                self.note(Finished { cell: id, repetition, metrics, outcome, weight }, true)?;
                continue;
            }
            self.runs.running += 1;
            self.runs.asked.push(Job {
                stage,
                weight: cell.weight,
                number: self.work.asked.0,
                cell: id,
                run,
                shown,
                scenario: cell.scenario.clone(),
            });
        }
        Ok(())
    }

    /// Stores a run, and continues whatever waited for it.
    fn take(&mut self, run: Finished) -> Result<(), ExperimentError> {
        let Finished { cell: id, repetition, metrics, outcome, weight } = run;
        let cell = &mut self.cells.all[id];
        let (experiment, index) = (cell.experiment, cell.cell);
        let plan = &self.plans[experiment];
        let shows = self.inquiry.is_none() && plan.shows(&cell.reading, repetition);
        if let Some(outcome) = outcome.filter(|_| shows) {
            let slot = index * plan.length.repetitions as usize + repetition as usize;
            let metrics = metrics.clone();
            let shown = &mut self.shown[experiment];
            shown.runs[slot] = Some(Run { cell: index, repetition, metrics, outcome });
            shown.to_come -= 1;
        }
        cell.put(repetition, metrics);
        self.work.done.0 += 1;
        self.work.done.1 += weight;
        let progress = self.work.progress();
        let work = self.inquiry.as_ref().map_or(progress.work, Inquiry::share);
        (self.options.progress)(Progress { work, ..progress });
        if let Some(runs) = self.shown[experiment].complete() {
            let results = Results { plan: plan.clone(), runs };
            self.observer.event(Event::Measured(experiment, Box::new(results)))?;
        }
        for question in self.waiters.remove(&(id, repetition)).unwrap_or_default() {
            self.questions[question].waiting -= 1;
            if self.questions[question].waiting == 0 {
                self.look(question)?;
            }
        }
        Ok(())
    }

    // --- claims ---------------------------------------------------------------------------

    /// The conditions of a claim: the present one, and those of earlier editions.
    fn conditions(&self, experiment: usize, claim: usize) -> Vec<Condition> {
        let earlier = 0..self.plans[experiment].experiment.claims[claim].earlier.len();
        let all = [None].into_iter().chain(earlier.map(Some));
        all.map(|earlier| Condition { experiment, claim, earlier }).collect()
    }

    fn checks(&self, condition: Condition) -> &'a [Check] {
        let plans = self.plans;
        let claim = &plans[condition.experiment].experiment.claims[condition.claim];
        claim.checks_of(condition.earlier)
    }

    /// Experiments that a claim refers to, its own first.
    fn involved(&self, experiment: usize, claim: usize) -> Vec<usize> {
        let own = &self.plans[experiment].experiment;
        let cells = own.claims[claim].all_checks().flat_map(Check::cells);
        let mut involved = vec![experiment];
        for id in cells.filter_map(|cell| cell.experiment.as_deref()) {
            let found = self.plans.iter().position(|p| p.experiment.id == id);
            if let Some(found) = found.filter(|f| !involved.contains(f)) {
                involved.push(found);
            }
        }
        involved
    }

    /// The plan and the cell, by index, and the metric that a check names.
    fn locate(&self, own: usize, cell: &Cell) -> Result<(usize, usize, usize), String> {
        let experiment = match &cell.experiment {
            None => own,
            Some(id) => {
                let found = self.plans.iter().position(|p| p.experiment.id == *id);
                found.ok_or_else(|| format!("`{id}` was not run"))?
            }
        };
        let (metric, index) = self.plans[experiment].experiment.find(cell)?;
        Ok((experiment, index, metric))
    }

    /// All cells of some checks, without repetition.
    fn cells_of(&self, condition: Condition, checks: &[usize]) -> BTreeSet<(usize, usize)> {
        let all = self.checks(condition);
        let cells = checks.iter().flat_map(|i| all[*i].cells());
        let located = cells.filter_map(|cell| self.locate(condition.experiment, cell).ok());
        located.map(|(experiment, cell, _)| (experiment, cell)).collect()
    }

    /// Finds the readings of each claim, and checks that all of them are possible.
    fn open_cases(&mut self) -> Result<(), ExperimentError> {
        let plans = self.plans;
        for (e, plan) in plans.iter().enumerate() {
            for (c, claim) in plan.experiment.claims.iter().enumerate() {
                let mut result = ClaimResult::open(claim, &plan.experiment.id);
                let mut singles = Vec::new();
                let mut expected = (0, 0.0);
                let conditions = self.conditions(e, c);
                let readings = self.readings_of(e, c);
                // All readings are compared with the same plain cells.
                let mut by_condition = Vec::new();
                if !readings.is_empty() {
                    for condition in &conditions {
                        by_condition.push((*condition, self.plainly(*condition)?));
                    }
                }
                let former = Deviation::former(readings.iter().copied());
                let mut formers: Vec<(Condition, Deviation)> = Vec::new();
                for reading in readings {
                    let mut matters = false;
                    for value in reading.others() {
                        if self.options.cancel.load(Memory::Relaxed) {
                            return Err(ExperimentError::Cancelled);
                        }
                        let deviation = Deviation::one(&reading.name, &value.label);
                        let mut present = Vec::new();
                        for (condition, cells) in &by_condition {
                            let changed = self.changed(cells, &deviation)?;
                            if changed.is_empty() {
                                continue;
                            }
                            // Errors in a reading appear before minutes are spent on runs.
                            for (experiment, cell) in &changed {
                                self.scenario(*experiment, *cell, &deviation)?;
                            }
                            if former.contains(&deviation) {
                                formers.push((*condition, deviation.clone()));
                            }
                            if condition.earlier.is_none() {
                                present = changed;
                            }
                        }
                        let changed = present;
                        matters |= !changed.is_empty();
                        if changed.is_empty() {
                            continue;
                        }
                        expected.0 += changed.len() * self.looks(e, false).first() as usize;
                        expected.1 += self.work_of(e, &changed);
                        singles.push((deviation, changed));
                    }
                    if matters && reading.is_calibrated() {
                        result.calibrated.push(reading.choice.clone());
                    }
                }
                // The budget is per claim, and is recomputed once the plain verdict is known.
                expected.1 = self.readings_budget(e).unwrap_or(f64::MAX).min(expected.1);
                self.work.expected.0 += expected.0;
                self.work.expected.1 += expected.1;
                let mut former = self.formers(&conditions, &formers)?;
                former.retain(|(condition, world)| {
                    let judged = self.affords(*condition, world);
                    if !judged {
                        let open = self.open_reading(e, c, world);
                        let open = Some(ReadingResult { left_out: true, ..open });
                        *result.formerly_in(condition.earlier) = open;
                    }
                    judged
                });
                // The earlier editions, and each condition in its former world.
                result.to_come = conditions.len() - 1 + former.len();
                let found = self.found_worlds(e, c, &mut result)?;
                let case = Case {
                    result,
                    singles,
                    expected,
                    former,
                    found,
                    // Every condition is judged under the plain reading.
                    open: conditions.len(),
                    undecided: Vec::new(),
                    spent: 0.0,
                    paired: false,
                };
                self.cases.insert((e, c), case);
            }
        }
        Ok(())
    }

    /// The former world of each condition, of the single choices that change something there.
    fn formers(
        &self,
        conditions: &[Condition],
        singles: &[(Condition, Deviation)],
    ) -> Result<Vec<(Condition, Deviation)>, ExperimentError> {
        let mut formers = Vec::new();
        for condition in conditions {
            let own = singles.iter().filter(|(of, _)| of == condition);
            let world =
                own.fold(Deviation::PLAIN, |world, (_, single)| world.and(single).unwrap_or(world));
            if world.is_plain() {
                continue;
            }
            let all: Vec<usize> = (0..self.checks(*condition).len()).collect();
            for (experiment, cell) in self.cells_of(*condition, &all) {
                self.scenario(experiment, cell, &world)?;
            }
            formers.push((*condition, world));
        }
        Ok(formers)
    }

    /// The worlds that a search found for a claim, to be judged again. Notes them in its result.
    fn found_worlds(
        &mut self,
        e: usize,
        c: usize,
        result: &mut ClaimResult,
    ) -> Result<Vec<World>, ExperimentError> {
        let plans = self.plans;
        let experiment = &plans[e].experiment;
        let claim = &experiment.claims[c];
        let readings = self.readings_of(e, c);
        let is_there = |(name, label): &(String, String)| {
            let reading = readings.iter().find(|r| r.name == *name);
            reading.is_some_and(|r| r.others().any(|value| value.label == *label))
        };
        let mut worlds = Vec::new();
        if let Some(found) = experiment.worlds.of(&claim.id) {
            let mut search = SearchResult::of(found, &readings);
            if let Some(world) = &found.readings {
                let fits = world.choices().iter().all(is_there);
                // A value that is gone or changes nothing any more, or an experiment that is not
                // run.
                let fits = fits && self.is_possible(e, c, world) && self.changes(e, c, world);
                search.stale = !fits;
                if fits {
                    worlds.push(World::Nearest(world.clone()));
                    let reading = self.open_reading(e, c, world);
                    result.worlds.nearest = Some(WorldResult { reading, reported: Vec::new() });
                }
            }
            result.worlds.search = Some(search);
        }
        for (index, joint) in experiment.worlds.joint.iter().enumerate() {
            let own = joint.readings.choices().iter().filter(|choice| is_there(choice));
            let own = Deviation::of_choices(own.cloned().collect());
            let matters = self.is_possible(e, c, &own) && self.changes(e, c, &own);
            let own = matters.then(|| {
                let left_out =
                    !self.affords(Condition { experiment: e, claim: c, earlier: None }, &own);
                ReadingResult { left_out, ..self.open_reading(e, c, &own) }
            });
            let judged = own.iter().filter(|own| !own.left_out);
            worlds.extend(judged.map(|own| World::Joint(index, own.deviation.clone())));
            result.worlds.joint.push(JointResult::open(joint, own));
        }
        Ok(worlds)
    }

    /// True if a world changes a cell of a claim.
    fn changes(&self, e: usize, c: usize, world: &Deviation) -> bool {
        let condition = Condition { experiment: e, claim: c, earlier: None };
        !self.changed_by(condition, world).is_empty()
    }

    /// The cells of a condition that a world changes.
    fn changed_by(&self, condition: Condition, world: &Deviation) -> Vec<(usize, usize)> {
        let all: Vec<usize> = (0..self.checks(condition).len()).collect();
        let mut cells = self.cells_of(condition, &all);
        cells.retain(|(e, cell)| !self.reading_in(*e, *cell, world).is_plain());
        cells.into_iter().collect()
    }

    /// True if the budget allows to judge a condition in a joint or a former world.
    fn affords(&self, condition: Condition, world: &Deviation) -> bool {
        let e = condition.experiment;
        self.readings_budget(e).is_none_or(|budget| {
            self.work_of(e, &self.changed_by(condition, world)) <= budget * WORLD_SHARE
        })
    }

    /// A claim in a world, before its verdict.
    fn open_reading(&self, e: usize, c: usize, world: &Deviation) -> ReadingResult {
        ReadingResult {
            deviation: world.clone(),
            words: self.words(e, c, world),
            verdict: Verdict::Inconclusive,
            checks: Vec::new(),
            left_out: false,
        }
    }

    /// The reported numbers of an experiment in a world, by their index, as far as their cells were
    /// run there.
    fn reported(&self, e: usize, world: &Deviation) -> Vec<(usize, Estimate)> {
        let mean = |reported: &Reported| {
            let cells = reported.value.leaves().into_iter().map(|cell| {
                let samples = self.samples(e, cell, world, REPORTED).ok()?;
                (!samples.samples.is_empty()).then_some((cell, samples))
            });
            let cells = SampledCells(cells.collect::<Option<Vec<_>>>()?);
            let values = (0..cells.rows()).map(|row| cells.evaluate(&reported.value, row));
            estimate(&values.collect::<Vec<f64>>())
        };
        let all = self.plans[e].experiment.reported.iter().enumerate();
        all.filter_map(|(i, reported)| Some((i, mean(reported)?))).collect()
    }

    /// The values of a cell that a check of an experiment names, in a world, of the completed runs
    /// among these repetitions.
    fn samples(
        &self,
        own: usize,
        cell: &Cell,
        world: &Deviation,
        mut runs: Range<u32>,
    ) -> Result<CellSamples, String> {
        let (e, index, metric) = self.locate(own, cell)?;
        let experiment = &self.plans[e].experiment;
        let reading = self.reading_in(e, index, world);
        let cell = self.cells.find(e, reading, index).ok_or("it was not run")?;
        let rows = std::iter::from_fn(|| cell.row(runs.next()?));
        Ok(CellSamples {
            samples: rows.map(|row| row[metric]).collect(),
            has_unit: experiment.metrics[metric].has_unit(),
        })
    }

    /// The choices that the experiments of a claim declare, without repetition.
    fn readings_of(&self, experiment: usize, claim: usize) -> Vec<&'a Reading> {
        let plans = self.plans;
        let involved = self.involved(experiment, claim);
        let all = involved.iter().flat_map(|e| &plans[*e].experiment.readings);
        let mut readings: Vec<&Reading> = Vec::new();
        for reading in all {
            if !readings.iter().any(|r| r.name == reading.name) {
                readings.push(reading);
            }
        }
        readings
    }

    /// The cells of a condition under the plain reading.
    fn plainly(&self, condition: Condition) -> Result<Vec<Plainly>, ExperimentError> {
        let all: Vec<usize> = (0..self.checks(condition).len()).collect();
        let plain = |(experiment, cell): (usize, usize)| {
            let plan = &self.plans[experiment];
            let file = plan.experiment.file_of(cell, &plan.length, &Deviation::PLAIN)?;
            Ok(Plainly { experiment, cell, file })
        };
        self.cells_of(condition, &all).into_iter().map(plain).collect()
    }

    /// The cells that another value of one choice changes. Records the others, since an axis may
    /// set the same.
    fn changed(
        &mut self,
        cells: &[Plainly],
        deviation: &Deviation,
    ) -> Result<Vec<(usize, usize)>, ExperimentError> {
        let mut changed = Vec::new();
        for Plainly { experiment: e, cell, file } in cells {
            let Plan { experiment, length, .. } = &self.plans[*e];
            let own = deviation.within(&experiment.readings);
            if own.is_plain() {
                continue;
            }
            if experiment.file_of(*cell, length, &own)?.says_the_same_as(file) {
                self.cells.leaves(*e, own, *cell);
            } else {
                changed.push((*e, *cell));
            }
        }
        Ok(changed)
    }

    /// The part of a reading that changes something in one cell.
    fn reading_in(&self, experiment: usize, cell: usize, reading: &Deviation) -> Deviation {
        let own = reading.within(&self.plans[experiment].experiment.readings);
        self.cells.changing(experiment, own, cell)
    }

    /// A cell under a reading.
    fn scenario(
        &self,
        e: usize,
        cell: usize,
        reading: &Deviation,
    ) -> Result<Scenario, ExperimentError> {
        let Plan { experiment, length, .. } = &self.plans[e];
        experiment.scenario(cell, length, &self.reading_in(e, cell, reading))
    }

    /// The work of a first look at some cells, under another reading of a claim of `own`.
    fn work_of<'c>(&self, own: usize, cells: impl IntoIterator<Item = &'c (usize, usize)>) -> f64 {
        let weight =
            |(e, cell): &(usize, usize)| self.plans[*e].scenarios[*cell].predicted_packet_hops();
        cells.into_iter().map(weight).sum::<f64>() * f64::from(self.looks(own, false).first())
    }

    /// Looks at the claims of an experiment.
    fn looks(&self, e: usize, plainly: bool) -> Looks {
        let length = &self.plans[e].length;
        if length.at_most == length.repetitions {
            return Looks::new(length.repetitions, length.repetitions);
        }
        let first = if plainly { length.repetitions.max(FIRST_LOOK) } else { FIRST_LOOK };
        Looks::new(first, length.at_most)
    }

    /// Order in which the checks of a claim are judged under its other readings. If a check that
    /// failed plainly fails again, the others do not matter, and the cheapest of those may be
    /// enough.
    fn order(&self, condition: Condition, plain: &[CheckResult]) -> Vec<Vec<usize>> {
        let (mut failed, passed): (Vec<usize>, Vec<usize>) =
            (0..plain.len()).partition(|i| plain[*i].verdict == Verdict::NotHeld);
        failed.sort_by(|a, b| {
            let work =
                |i: usize| self.work_of(condition.experiment, &self.cells_of(condition, &[i]));
            work(*a).total_cmp(&work(*b))
        });
        let others = failed.split_off(failed.len().min(1));
        [failed, others, passed].into_iter().filter(|group| !group.is_empty()).collect()
    }

    /// Asks for a verdict that a report shows.
    fn ask_for_report(
        &mut self,
        condition: Condition,
        world: World,
        groups: &[Vec<usize>],
    ) -> Result<(), ExperimentError> {
        self.open_question(condition, world, groups, Asker::Campaign, Rule::Verdict)
    }

    fn open_question(
        &mut self,
        condition: Condition,
        world: World,
        groups: &[Vec<usize>],
        asker: Asker,
        rule: Rule,
    ) -> Result<(), ExperimentError> {
        let own = condition.experiment;
        let looks = match rule {
            Rule::Verdict => self.looks(own, world.deviation().is_plain()),
            Rule::Sieve(_) => search::SIEVE,
            Rule::Confirm(..) => search::CONFIRMATION,
        };
        let at_most = self.plans[own].length.at_most;
        let until = match (&world, rule) {
            // Other readings get half as much at first.
            (World::Reading(reading), Rule::Verdict) if !reading.is_plain() => {
                (at_most / 2).max(looks.first())
            }
            (_, Rule::Verdict) => at_most,
            _ => u32::MAX,
        };
        let mut later: VecDeque<Vec<usize>> = groups.iter().cloned().collect();
        let checks = later.pop_front().unwrap_or_default();
        let checks = checks.into_iter().map(|i| (i, None)).collect();
        let question = self.questions.len();
        self.questions.push(Question {
            condition,
            world,
            asker,
            rule,
            looks,
            look: 0,
            until,
            group: 0,
            checks,
            later,
            waiting: 0,
        });
        self.gather(question)
    }

    /// Requests the runs of the next look, and looks if all of them are complete.
    fn gather(&mut self, number: usize) -> Result<(), ExperimentError> {
        let question = &self.questions[number];
        let Question { condition, look, asker, .. } = *question;
        let own = condition.experiment;
        let from = question.from();
        let runs = question.looks.look(look).runs;
        let reading = question.world.deviation().clone();
        let open = question.checks.iter();
        let open = open.filter(|(_, r)| !r.as_ref().is_some_and(is_decided)).map(|(i, _)| *i);
        let open: Vec<usize> = open.collect();
        let plans = self.plans;
        let mut waiting = 0;
        for (e, cell) in self.cells_of(condition, &open) {
            let Plan { experiment, length, .. } = &plans[e];
            let reading = self.reading_in(e, cell, &reading);
            let scenario = || experiment.scenario(cell, length, &reading);
            let id = self.cells.number(e, &reading, cell, scenario)?;
            self.charge(asker, id, from, runs);
            self.ask(id, from, runs, self.stage(asker, own))?;
            for repetition in from..from + runs {
                if self.cells.all[id].row(repetition).is_none() {
                    self.waiters.entry((id, repetition)).or_default().push(number);
                    waiting += 1;
                }
            }
        }
        self.questions[number].waiting = waiting;
        if waiting == 0 { self.look(number) } else { Ok(()) }
    }

    /// Evaluates the completed runs: a verdict, or more runs.
    fn look(&mut self, number: usize) -> Result<(), ExperimentError> {
        let question = &self.questions[number];
        let (look, weak) = self.levels(question);
        let first = question.from();
        let checks = self.checks(question.condition);
        let column = |cell: &Cell| {
            let (own, world) = (question.condition.experiment, question.world.deviation());
            self.samples(own, cell, world, first..first + look.runs)
        };
        let evaluated = question.checks.iter().map(|(i, known)| match known {
            Some(result) if is_decided(result) => (*i, known.clone()),
            _ => (*i, Some(claims::evaluate(*i, &checks[*i], look, &column))),
        });
        let evaluated: Vec<(usize, Option<CheckResult>)> = evaluated.collect();
        let results = || evaluated.iter().filter_map(|(_, result)| result.as_ref());
        let failed = results().any(|r| r.verdict == Verdict::NotHeld);
        // More runs would not help.
        let futile = weak.is_some_and(|weak| {
            let open = evaluated.iter().map(|(i, result)| match result {
                Some(result) if result.verdict != Verdict::Inconclusive => result.verdict,
                _ => claims::evaluate(*i, &checks[*i], weak, &column).verdict,
            });
            question.rule.is_futile(open)
        });
        let no_more = look.last || question.looks.look(question.look + 1).runs > question.until;
        let ends = failed || futile || no_more || results().all(is_decided);
        let settled = question.rule.goes_on(results().map(|r| r.verdict));
        let question = &mut self.questions[number];
        question.checks = evaluated;
        if !ends {
            question.look += 1;
            return self.gather(number);
        }
        match question.later.pop_front() {
            Some(next) if !failed && !futile && settled => {
                question.group += 1;
                question.checks.extend(next.into_iter().map(|i| (i, None)));
                question.checks.sort_by_key(|(i, _)| *i);
                question.look = 0;
                self.gather(number)
            }
            _ => self.close_question(number, futile),
        }
    }

    fn close_question(&mut self, number: usize, futile: bool) -> Result<(), ExperimentError> {
        let question = &self.questions[number];
        if let (Some(inquiry), asker) = (&mut self.inquiry, question.asker) {
            let checks = question.results();
            let verdict = verdict_of(&checks);
            inquiry.answers.push_back((asker, Answer { verdict, futile, checks }));
            return Ok(());
        }
        let (condition, world, checks) =
            (question.condition, question.world.clone(), question.results());
        let Condition { experiment: e, claim: c, earlier } = condition;
        let open = !question.is_exhausted();
        let verdict = verdict_of(&checks);
        let words = self.words(e, c, world.deviation());
        let reported = match &world {
            World::Nearest(deviation) => self.reported(e, deviation),
            _ => Vec::new(),
        };
        let full = self.plans[e].effort.is_full();
        let Some(case) = self.cases.get_mut(&(e, c)) else { return Ok(()) };
        case.open -= 1;
        let mut next: Vec<Deviation> = Vec::new();
        let (mut former, mut found) = (None, Vec::new());
        // The former world follows, in the order that the plain results suggest.
        let former_of = |case: &Case| {
            let found = case.former.iter().find(|(of, _)| *of == condition);
            found.map(|(_, world)| World::Former(world.clone()))
        };
        match (world, earlier) {
            (World::Reading(reading), None) if reading.is_plain() => {
                case.result.verdict = verdict;
                case.result.checks = checks;
                self.work.expected.0 -= case.expected.0;
                self.work.expected.1 -= case.expected.1;
                former = former_of(case);
                found = std::mem::take(&mut case.found);
                let singles = case.singles.clone();
                next = self.affordable(e, c, singles);
            }
            (World::Reading(reading), None) => {
                case.result.to_come -= 1;
                if verdict == Verdict::Inconclusive && open {
                    case.undecided.push(number);
                }
                let other =
                    ReadingResult { deviation: reading, words, verdict, checks, left_out: false };
                case.result.readings.push(other);
                // In the order of the file, not in order of completion.
                let place = |r: &ReadingResult| {
                    let single = case.singles.iter().position(|(d, _)| *d == r.deviation);
                    (r.deviation.choices().len(), single, r.deviation.clone())
                };
                case.result.readings.sort_by_key(place);
            }
            // An earlier edition is judged under no other reading.
            (World::Reading(_), Some(index)) => {
                case.result.to_come -= 1;
                former = former_of(case);
                let result = &mut case.result.earlier[index];
                (result.verdict, result.checks) = (verdict, checks);
            }
            (World::Nearest(_), _) => {
                if let Some(world) = &mut case.result.worlds.nearest {
                    (world.reading.verdict, world.reading.checks) = (verdict, checks);
                    world.reported = reported;
                }
            }
            (World::Joint(index, _), _) => {
                let joint = case.result.worlds.joint.get_mut(index);
                if let Some(world) = joint.and_then(|joint| joint.own.as_mut()) {
                    (world.reading.verdict, world.reading.checks) = (verdict, checks);
                }
            }
            (World::Former(deviation), earlier) => {
                case.result.to_come -= 1;
                let former = ReadingResult { deviation, words, verdict, checks, left_out: false };
                *case.result.formerly_in(earlier) = Some(former);
            }
        }
        let Some(case) = self.cases.get(&(e, c)) else { return Ok(()) };
        let all_closed = case.open == 0 && next.is_empty() && found.is_empty() && former.is_none();
        let again = if all_closed { self.undecided(e, c) } else { Vec::new() };
        let Some(case) = self.cases.get_mut(&(e, c)) else { return Ok(()) };
        if full && all_closed && again.is_empty() && !case.paired {
            case.paired = true;
            case.spent = 0.0;
            let pairs = self.pairs(e, c);
            next = self.affordable(e, c, pairs);
        }
        let Some(case) = self.cases.get_mut(&(e, c)) else { return Ok(()) };
        // All of them are open before the first is asked, since its runs may be complete already.
        case.open += next.len() + again.len() + found.len() + usize::from(former.is_some());
        case.result.to_come += next.len() + again.len();
        for question in again.iter().map(|number| &self.questions[*number]) {
            let reading = question.world.deviation();
            case.result.readings.retain(|other| other.deviation != *reading);
        }
        let result = case.result.clone();
        let present = self.order(Condition { earlier: None, ..condition }, &result.checks);
        let own = match earlier {
            None => present.clone(),
            Some(index) => self.order(condition, &result.earlier[index].checks),
        };
        // An earlier edition may have its verdict before the present one.
        if result.is_judged() {
            self.observer.event(Event::Judged(e, c, Box::new(result)))?;
        }
        if let Some(world) = former {
            self.ask_for_report(condition, world, &own)?;
        }
        for world in found {
            let all = (0..self.checks(condition).len()).collect();
            self.ask_for_report(condition, world, &[all])?;
        }
        for deviation in next {
            let condition = Condition { earlier: None, ..condition };
            self.ask_for_report(condition, World::Reading(deviation), &present)?;
        }
        for number in again {
            let at_most = self.plans[e].length.at_most;
            let question = &mut self.questions[number];
            let looks = question.looks;
            question.look = (0..).find(|k| looks.look(*k).runs > question.until).unwrap_or(0);
            question.until = at_most;
            self.gather(number)?;
        }
        Ok(())
    }

    /// The undecided readings of a claim that more runs may decide within its budget, the cheapest
    /// first.
    fn undecided(&mut self, e: usize, c: usize) -> Vec<usize> {
        let Some(case) = self.cases.get_mut(&(e, c)) else { return Vec::new() };
        let (numbers, mut spent) = (std::mem::take(&mut case.undecided), case.spent);
        let budget = self.readings_budget(e);
        let work = |number: &usize| {
            let question = &self.questions[*number];
            let open = question.checks.iter().filter(|(_, r)| !r.as_ref().is_some_and(is_decided));
            let open: Vec<usize> = open.map(|(i, _)| *i).collect();
            let cells = self.cells_of(question.condition, &open);
            let more = f64::from(self.plans[e].length.at_most - question.until);
            let first = f64::from(question.looks.first());
            (*number, self.work_of(e, &cells) / first * more)
        };
        let mut open: Vec<(usize, f64)> = numbers.iter().map(work).collect();
        // Readings close in any order; what is asked again depends only on the numbers.
        let reading = |number: usize| self.questions[number].world.deviation();
        open.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| reading(a.0).cmp(reading(b.0))));
        open.retain(|(_, work)| {
            spent += work;
            budget.is_none_or(|budget| spent <= budget)
        });
        if let Some(case) = self.cases.get_mut(&(e, c)) {
            case.spent = spent;
        }
        open.into_iter().map(|(number, _)| number).collect()
    }

    /// The other readings of a claim that fit into the budget, each with the cells that it changes.
    /// The claim records how many are left out.
    fn affordable(&mut self, e: usize, c: usize, readings: Vec<Changing>) -> Vec<Deviation> {
        let Some(case) = self.cases.get(&(e, c)) else { return Vec::new() };
        let condition = Condition { experiment: e, claim: c, earlier: None };
        let order = self.order(condition, &case.result.checks);
        let first =
            order.first().map_or_else(BTreeSet::new, |group| self.cells_of(condition, group));
        let work = readings.iter().map(|(_, changed)| {
            self.work_of(e, changed.iter().filter(|cell| first.contains(cell)))
        });
        let work = work.collect::<Vec<f64>>();
        let kept = within_budget(&work, self.readings_budget(e));
        let spent: f64 = work.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(w, _)| w).sum();
        let all = readings.len();
        let affordable = readings.into_iter().zip(kept).filter(|(_, kept)| *kept);
        let affordable: Vec<Deviation> = affordable.map(|((reading, _), _)| reading).collect();
        if let Some(case) = self.cases.get_mut(&(e, c)) {
            case.result.left_out += all - affordable.len();
            case.spent += spent;
        }
        affordable
    }

    /// The pairs of readings that matter and do not contradict each other in a cell.
    fn pairs(&self, e: usize, c: usize) -> Vec<Changing> {
        let Some(case) = self.cases.get(&(e, c)) else { return Vec::new() };
        let changing = |pair: Deviation| {
            let singles = case.singles.iter().filter(|(single, _)| pair.contains(single));
            let cells: BTreeSet<(usize, usize)> =
                singles.flat_map(|(_, cells)| cells).copied().collect();
            let possible = cells.iter().all(|(e, cell)| self.scenario(*e, *cell, &pair).is_ok());
            possible.then(|| (pair, cells.into_iter().collect()))
        };
        pairs(&case.result).into_iter().filter_map(changing).collect()
    }

    /// Budget for the other readings of a claim of that experiment.
    fn readings_budget(&self, experiment: usize) -> Option<f64> {
        self.options.readings_budget.filter(|_| !self.plans[experiment].experiment.all_readings)
    }

    /// Changes of a reading, in words.
    fn words(&self, e: usize, c: usize, reading: &Deviation) -> Vec<ChangedChoice> {
        let readings = self.readings_of(e, c);
        let word = |(name, label): &(String, String)| {
            let reading = readings.iter().find(|r| r.name == *name)?;
            let value = reading.values.iter().find(|v| v.label == *label)?;
            Some(ChangedChoice {
                choice: reading.choice.clone(),
                plain: reading.plain_value().label.clone(),
                instead: label.clone(),
                source: format!("{}: {}", value.basis, value.source),
            })
        };
        reading.choices().iter().filter_map(word).collect()
    }
}

/// Indices of the readings that fit into the budget: the cheapest, and at least one.
fn within_budget(work: &[f64], budget: Option<f64>) -> Vec<bool> {
    let mut cheapest: Vec<usize> = (0..work.len()).collect();
    cheapest.sort_by(|a, b| work[*a].total_cmp(&work[*b]));
    let mut kept = vec![false; work.len()];
    let mut spent = 0.0;
    for (n, index) in cheapest.into_iter().enumerate() {
        spent += work[index];
        kept[index] = n == 0 || budget.is_none_or(|budget| spent <= budget);
    }
    kept
}

/// The pairs of readings that matter: pairs of choices each of which alone changes the verdict of
/// the claim or of a check.
fn pairs(claim: &ClaimResult) -> Vec<Deviation> {
    let matters = |r: &&ReadingResult| r.verdict != claim.verdict || claim.turned(r).is_some();
    let those: Vec<&ReadingResult> = claim.readings.iter().filter(matters).collect();
    let mut pairs = Vec::new();
    for (i, a) in those.iter().enumerate() {
        for b in &those[i + 1..] {
            pairs.extend(a.deviation.and(&b.deviation).filter(|both| both.choices().len() == 2));
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_leaves_out_the_most_expensive() {
        let work = [30.0, 10.0, 20.0];
        assert_eq!(within_budget(&work, None), [true; 3]);
        assert_eq!(within_budget(&work, Some(60.0)), [true; 3]);
        assert_eq!(within_budget(&work, Some(59.0)), [false, true, true]);
        assert_eq!(within_budget(&work, Some(5.0)), [false, true, false]);
    }
}
