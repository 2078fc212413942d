//! Runs the repetitions that questions wait for, and answers the questions.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;

use windward_sim::Scenario;

use super::cells::CellId;
use super::design::{ClaimId, Design, Groups};
use super::question::{Answer, Ask, Next, Question, QuestionId};
use super::queue::{Done, Finished, Job, RunId, Stage, Workers};
use super::{Event, Observer, RunRecord};
use crate::ExperimentError;
use crate::experiment::Deviation;
use crate::sweep::{InWorld, Plan, Results, Run, RunOptions};

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

/// Runs, and their predicted packet-hops.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) runs: usize,
    pub(super) hops: f64,
}

impl std::ops::AddAssign for Amount {
    fn add_assign(&mut self, more: Amount) {
        self.runs += more.runs;
        self.hops += more.hops;
    }
}

/// Predicted work of the runs that a search needs, also of those that others need too.
#[derive(Default)]
pub(super) struct Bill {
    /// Number of runs by cell and first repetition.
    runs: HashMap<(usize, u32), u32>,
    pub(super) spent: f64,
}

impl Bill {
    fn add(&mut self, cell: usize, from: u32, runs: u32, weight: f64) {
        let known = self.runs.entry((cell, from)).or_default();
        self.spent += f64::from(runs.saturating_sub(*known)) * weight;
        *known = runs.max(*known);
    }
}

/// The latest step of a runner.
pub(super) enum Step<A> {
    /// A run is complete.
    Ran,
    /// A question is answered.
    Answered(Answer<A>),
}

/// Questions of askers `A`, and their runs.
pub(super) struct Runner<'a, A> {
    pub(super) design: Design<'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) asked: Amount,
    pub(super) done: Amount,
    pub(super) bills: Vec<Bill>,
    workers: Workers<'a>,
    /// Runs of an earlier attempt that were not requested yet.
    known: HashMap<RunId, Done>,
    /// Jobs that are not in the workers' queue yet.
    jobs: Vec<Job>,
    /// Number of unfinished jobs, including those.
    running: usize,
    /// Completed runs to handle.
    finished: VecDeque<Finished>,
    questions: Vec<Question<A>>,
    answers: VecDeque<Answer<A>>,
    /// Questions by the runs that they wait for: number of the cell, and repetition.
    waiters: HashMap<(usize, u32), Vec<QuestionId>>,
    /// The runs of charts and tables by experiment; empty if nothing is drawn.
    shown: Vec<Shown>,
    /// The runs that charts over time show of other worlds than the plain one, by cell.
    traced: HashMap<usize, Vec<Run>>,
}

impl<'a, A: Copy> Runner<'a, A> {
    pub(super) fn new(
        plans: &'a [Plan],
        options: &'a RunOptions<'a>,
        workers: Workers<'a>,
        known: Vec<RunRecord>,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let by_id = |record: RunRecord| {
            let RunRecord { experiment, reading, cell, repetition, metrics, outcome } = record;
            (RunId { experiment, reading, cell, repetition }, (metrics, outcome))
        };
        Runner {
            design: Design::new(plans, options),
            observer,
            asked: Amount::default(),
            done: Amount::default(),
            bills: Vec::new(),
            workers,
            known: known.into_iter().map(by_id).collect(),
            jobs: Vec::new(),
            running: 0,
            finished: VecDeque::new(),
            questions: Vec::new(),
            answers: VecDeque::new(),
            waiters: HashMap::new(),
            shown: Vec::new(),
            traced: HashMap::new(),
        }
    }

    /// Requests the runs of all charts and tables.
    pub(super) fn draw(&mut self) -> Result<(), ExperimentError> {
        let plans = self.design.plans;
        self.shown = plans.iter().map(Shown::of).collect();
        // The cheapest first, so that a figure stands soon.
        let work = |plan: &Plan| {
            let hops = plan.scenarios.iter().map(Scenario::predicted_packet_hops).sum::<f64>();
            hops * f64::from(plan.length.repetitions)
        };
        let mut order: Vec<usize> = (0..plans.len()).collect();
        order.sort_by(|a, b| work(&plans[*a]).total_cmp(&work(&plans[*b])));
        for (rank, experiment) in order.into_iter().enumerate() {
            let plan = &plans[experiment];
            for cell in 0..plan.scenarios.len() {
                let id = CellId { experiment, cell };
                let number = self.design.number(id, &Deviation::PLAIN)?;
                self.request(number, 0, plan.length.repetitions, (false, rank))?;
            }
        }
        Ok(())
    }

    /// Opens a question about these groups of checks.
    pub(super) fn open(&mut self, ask: Ask<A>, groups: Groups) -> Result<(), ExperimentError> {
        let usual = self.design.looks(ask.claim.experiment, ask.world.is_plain());
        let id = QuestionId(self.questions.len());
        self.questions.push(Question::new(ask, groups, usual));
        self.gather(id)
    }

    /// Opens an undecided question again, with looks up to that number of runs.
    pub(super) fn extend(&mut self, id: QuestionId, until: u32) -> Result<(), ExperimentError> {
        self.questions[id.0].extend(until);
        self.gather(id)
    }

    /// The next completed run or answer; `None` once nothing is left to do.
    pub(super) fn step(&mut self) -> Result<Option<Step<A>>, ExperimentError> {
        loop {
            if let Some(run) = self.finished.pop_front() {
                self.take(run)?;
                return Ok(Some(Step::Ran));
            }
            if let Some(answer) = self.answers.pop_front() {
                return Ok(Some(Step::Answered(answer)));
            }
            if self.running == 0 {
                return Ok(None);
            }
            self.wait()?;
        }
    }

    /// Waits for a run of the workers.
    fn wait(&mut self) -> Result<(), ExperimentError> {
        let Workers { queue, done } = self.workers;
        // All at once, so that a fast worker does not begin with the cheapest.
        queue.put(std::mem::take(&mut self.jobs));
        let next = match done.try_recv() {
            Ok(next) => next,
            Err(TryRecvError::Empty) => {
                self.observer.idle()?;
                // If no worker is left, one of them panicked; the scope passes the panic on.
                done.recv().unwrap_or(Err(ExperimentError::Cancelled))
            }
            Err(TryRecvError::Disconnected) => Err(ExperimentError::Cancelled),
        };
        match next {
            Ok(run) => {
                self.running -= 1;
                self.note(run, false)
            }
            Err(wrong) => {
                queue.close();
                self.design.options.cancel.store(true, Ordering::Relaxed);
                // Runs that end nevertheless are stored.
                while let Ok(late) = done.recv() {
                    late.map_or(Ok(()), |run| self.note(run, false))?;
                }
                Err(wrong)
            }
        }
    }

    /// Reports a run that completed or was known, and queues it for handling.
    fn note(&mut self, run: Finished, known: bool) -> Result<(), ExperimentError> {
        let cell = &self.design.cells.all[run.cell];
        let record = RunRecord {
            experiment: cell.id.experiment,
            reading: cell.reading.clone(),
            cell: cell.id.cell,
            repetition: run.repetition,
            metrics: run.metrics,
            outcome: run.outcome,
        };
        self.observer.record(&record, known)?;
        let RunRecord { metrics, outcome, .. } = record;
        self.finished.push_back(Finished { metrics, outcome, ..run });
        Ok(())
    }

    /// True if charts and tables show a repetition of a cell.
    fn shows(&self, cell: usize, repetition: u32) -> bool {
        let cell = &self.design.cells.all[cell];
        let plan = &self.design.plans[cell.id.experiment];
        !self.shown.is_empty() && plan.shows(&cell.reading, repetition)
    }

    /// True if charts over time show a repetition of a cell in another world.
    fn traces(&self, cell: usize, repetition: u32) -> bool {
        let cell = &self.design.cells.all[cell];
        !self.shown.is_empty() && self.design.traces(cell.id, &cell.reading, repetition)
    }

    /// The measurements of the experiment of a claim in a world.
    pub(super) fn in_world(&self, claim: ClaimId, world: &Deviation) -> InWorld {
        self.design.in_world(claim.experiment, world, &self.traced)
    }

    /// Requests `runs` repetitions of a cell, beginning with the repetition `from`.
    fn request(
        &mut self,
        number: usize,
        from: u32,
        runs: u32,
        stage: Stage,
    ) -> Result<(), ExperimentError> {
        for repetition in self.design.cells.all[number].request(from, runs) {
            let shown = self.shows(number, repetition) || self.traces(number, repetition);
            let cell = &self.design.cells.all[number];
            let weight = cell.weight;
            self.asked += Amount { runs: 1, hops: weight };
            let run = RunId {
                experiment: cell.id.experiment,
                reading: cell.reading.clone(),
                cell: cell.id.cell,
                repetition,
            };
            // A run that has to be shown is useless without its outcome.
            let known = self.known.remove(&run).filter(|(_, outcome)| outcome.is_some() || !shown);
            if let Some((metrics, outcome)) = known {
                self.note(Finished { cell: number, repetition, metrics, outcome, weight }, true)?;
                continue;
            }
            self.running += 1;
            self.jobs.push(Job {
                stage,
                weight,
                number: self.asked.runs,
                cell: number,
                run,
                shown,
                scenario: cell.scenario.clone(),
            });
        }
        Ok(())
    }

    /// Stores a run, and continues whatever waited for it.
    fn take(&mut self, run: Finished) -> Result<(), ExperimentError> {
        let Finished { cell: number, repetition, metrics, outcome, weight } = run;
        let (shows, traces) = (self.shows(number, repetition), self.traces(number, repetition));
        let cell = &mut self.design.cells.all[number];
        let CellId { experiment, cell: index } = cell.id;
        cell.put(repetition, metrics.clone());
        self.done += Amount { runs: 1, hops: weight };
        if let (Some(outcome), true) = (&outcome, traces) {
            let run =
                Run { cell: index, repetition, metrics: metrics.clone(), outcome: outcome.clone() };
            let runs = self.traced.entry(number).or_default();
            let place = runs.partition_point(|other| other.repetition < repetition);
            runs.insert(place, run);
        }
        if let Some(outcome) = outcome.filter(|_| shows) {
            let plan = &self.design.plans[experiment];
            let shown = &mut self.shown[experiment];
            let slot = index * plan.length.repetitions as usize + repetition as usize;
            shown.runs[slot] = Some(Run { cell: index, repetition, metrics, outcome });
            shown.to_come -= 1;
            if let Some(runs) = shown.complete() {
                let results = Results { plan: plan.clone(), runs };
                self.observer.event(Event::Measured(experiment, Box::new(results)))?;
            }
        }
        for id in self.waiters.remove(&(number, repetition)).unwrap_or_default() {
            self.questions[id.0].waiting -= 1;
            if self.questions[id.0].waiting == 0 {
                self.look(id)?;
            }
        }
        Ok(())
    }

    /// Requests the runs of the next look, and looks if all of them are complete.
    fn gather(&mut self, id: QuestionId) -> Result<(), ExperimentError> {
        let question = &self.questions[id.0];
        let Ask { claim, from, stage, bill, .. } = question.ask;
        let (runs, world) = (question.runs(), question.ask.world.clone());
        let mut waiting = 0;
        for cell in self.design.cells_of(claim, &question.open_checks()) {
            let number = self.design.number(cell, &world)?;
            if let Some(bill) = bill {
                self.bills[bill].add(number, from, runs, self.design.cells.all[number].weight);
            }
            self.request(number, from, runs, stage)?;
            for repetition in from..from + runs {
                if self.design.cells.all[number].row(repetition).is_none() {
                    self.waiters.entry((number, repetition)).or_default().push(id);
                    waiting += 1;
                }
            }
        }
        self.questions[id.0].waiting = waiting;
        if waiting == 0 { self.look(id) } else { Ok(()) }
    }

    /// Evaluates the completed runs: an answer, or more runs.
    fn look(&mut self, id: QuestionId) -> Result<(), ExperimentError> {
        let question = &mut self.questions[id.0];
        let Ask { claim, from, .. } = question.ask;
        let repetitions = from..from + question.runs();
        let design = &self.design;
        let world = &question.ask.world;
        let column = |cell: &_| design.samples(claim.experiment, cell, world, repetitions.clone());
        let (results, futile) = question.evaluate(&design.claim(claim).checks, &column);
        match question.take(results, futile) {
            Next::Gather => self.gather(id),
            Next::Close { futile } => {
                self.answers.push_back(question.answer(id, futile));
                Ok(())
            }
        }
    }
}
