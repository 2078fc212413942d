//! The search for the nearest world of each claim, as [`crate::worlds`] describes it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::cells::CellId;
use super::design::{ClaimId, Design, Groups};
use super::question::{Answer, Ask, Rule};
use super::queue::{Job, Stage, with_workers};
use super::runner::{Bill, Runner, Step};
use super::{FRESH, Observer, RunExecutor, RunRecord};
use crate::ExperimentError;
use crate::builtin::key_of;
use crate::claims::{ChangedChoice, CheckResult, Verdict};
use crate::experiment::Deviation;
use crate::sweep::{Plan, Progress, RunOptions};
use crate::worlds::{Choice, End, FoundWorld, JointWorld, Space, error_of};

mod joint;

use joint::Joint;

/// Number of worlds that are sieved at once.
const BATCH: usize = 4;

/// Claims to search for, with a budget.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The claims.
    pub claims: Vec<ClaimId>,
    /// Budget of a claim in predicted packet-hops; `None` for no bound.
    pub budget: Option<f64>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The claim.
    pub claim: ClaimId,
    /// The plain verdict.
    pub plain: Verdict,
    /// The nearest world.
    pub world: FoundWorld,
    /// The changed choices of the nearest world, in words.
    pub assumptions: Vec<ChangedChoice>,
    /// Predicted packet-hops of its runs, including those that it shares with other claims.
    pub spent: f64,
}

/// Results of all searches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Searched {
    /// One for each claim.
    pub found: Vec<Found>,
    /// The joint world of each paper, by its key.
    pub joint: Vec<(String, JointWorld)>,
    /// Number of runs.
    pub runs: usize,
}

/// Searches for the nearest world of each requested claim, and for the world in which most of the
/// claims of each paper hold. `known` has the runs of an earlier attempt; `executor` executes the
/// others.
pub fn search(
    plans: &[Plan],
    options: &RunOptions<'_>,
    request: &Request,
    known: Vec<RunRecord>,
    observer: &mut dyn Observer,
    executor: &impl RunExecutor,
) -> Result<Searched, ExperimentError> {
    let perform = |job: &Job| job.run_by(plans, options.cancel, executor);
    with_workers(options, &perform, |workers| {
        let runner = Runner::new(plans, options, workers, known, observer);
        Inquiry::open(runner, request)?.conduct()
    })
}

/// The search of one claim, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SearchId(usize);

/// The joint world of one paper, by index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JointId(usize);

/// Origin of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// A search, about the plain world.
    Plain(SearchId),
    /// A search, about this world of its batch.
    Sieve(SearchId, usize),
    /// A search, about the world that it confirms.
    Confirm(SearchId),
    /// A joint world, about the claim of this search.
    Joint(JointId, SearchId),
}

/// True if the sieve lets a world with this verdict pass.
fn passes(verdict: Verdict, sought: Verdict) -> bool {
    match sought {
        Verdict::NotHeld => verdict == Verdict::NotHeld,
        _ => matches!(verdict, Verdict::Held | Verdict::Inconclusive),
    }
}

/// The search of one claim.
struct Search {
    claim: ClaimId,
    space: Space,
    /// Verdict and checks under the plain reading, which come before all else.
    plain: Option<(Verdict, Vec<CheckResult>)>,
    sieve: Sieve,
    confirmations: Confirmations,
    found: Option<Deviation>,
    end: Option<End>,
}

/// The coarse judgement of worlds.
#[derive(Default)]
struct Sieve {
    /// Index of the next world.
    next: usize,
    /// The worlds that are being sieved, with their results.
    batch: Vec<(Deviation, Option<bool>)>,
    /// The worlds that it judged, in order.
    tried: Vec<(Deviation, bool)>,
    /// Worlds without a scenario.
    impossible: u64,
    /// Worlds that passed and were not confirmed yet.
    passed: VecDeque<Deviation>,
}

/// The judgement of worlds that passed the sieve, by fresh runs.
#[derive(Default)]
struct Confirmations {
    number: u64,
    /// Worlds that stayed open.
    undecided: u64,
}

impl Search {
    /// The search of a claim, with its worlds.
    fn open(claim: ClaimId, design: &mut Design<'_>) -> Result<Self, ExperimentError> {
        let singles = design.singles(claim)?;
        let choices = design.readings_of(claim).into_iter().filter_map(|reading| {
            Choice::of(reading, |label| {
                let world = Deviation::one(&reading.name, label);
                singles.iter().any(|single| single.world == world)
            })
        });
        let choices: Vec<Choice> = choices.collect();
        let cells: Vec<CellId> = design.all_cells(claim).into_iter().collect();
        let identity = |world: &Deviation| {
            let mut hasher = DefaultHasher::new();
            for cell in &cells {
                design.reading_in(*cell, world).hash(&mut hasher);
            }
            hasher.finish()
        };
        let space = Space::of(&choices, identity);
        Ok(Search {
            claim,
            space,
            plain: None,
            sieve: Sieve::default(),
            confirmations: Confirmations::default(),
            found: None,
            end: None,
        })
    }

    /// Verdict and checks under the plain reading.
    fn plain(&self) -> &(Verdict, Vec<CheckResult>) {
        self.plain.as_ref().expect("a search asks for the plain world first")
    }

    /// The verdict that it seeks, once the plain one is known.
    fn sought(&self) -> Verdict {
        match self.plain {
            Some((Verdict::Held, _)) => Verdict::NotHeld,
            _ => Verdict::Held,
        }
    }

    /// Groups of checks, in the order in which a sieve judges them.
    fn groups(&self, sought: Verdict, design: &Design<'_>) -> Groups {
        let (verdict, checks) = self.plain();
        let of = |open: bool| -> Vec<usize> {
            let open = |i: &usize| (checks[*i].verdict == Verdict::Inconclusive) == open;
            (0..checks.len()).filter(open).collect()
        };
        let groups = match (sought, verdict) {
            (Verdict::NotHeld, _) => vec![(0..checks.len()).collect()],
            (_, Verdict::NotHeld) => design.order(self.claim, checks),
            _ => vec![of(true), of(false)],
        };
        groups.into_iter().filter(|group: &Vec<usize>| !group.is_empty()).collect()
    }

    /// Whether the claim holds in a world, as far as the search knows.
    fn holds_in(&self, world: &Deviation) -> Option<bool> {
        if world.is_plain() {
            return Some(self.plain().0 == Verdict::Held);
        }
        if self.sought() != Verdict::Held {
            return None;
        }
        let tried = self.sieve.tried.iter().find(|(tried, _)| tried == world);
        tried.map(|(_, passed)| *passed)
    }

    /// Stores the answer about a world of the batch. True if it was the last.
    fn sieved(&mut self, index: usize, verdict: Verdict) -> bool {
        let passed = passes(verdict, self.sought());
        let sieve = &mut self.sieve;
        sieve.batch[index].1 = Some(passed);
        if sieve.batch.iter().any(|(_, passed)| passed.is_none()) {
            return false;
        }
        for (world, passed) in std::mem::take(&mut sieve.batch) {
            let passed = passed == Some(true);
            if passed {
                sieve.passed.push_back(world.clone());
            }
            sieve.tried.push((world, passed));
        }
        true
    }

    /// Stores the answer about a world that was to be confirmed.
    fn confirmed(&mut self, answer: Answer<Asker>) {
        if answer.verdict == self.sought() && !answer.futile {
            self.found = Some(answer.ask.world);
            self.sieve.passed.clear();
        } else if answer.verdict == Verdict::Inconclusive && !answer.futile {
            self.confirmations.undecided += 1;
        }
    }

    /// The next step, if `spent` of the budget is spent.
    fn next(&mut self, spent: f64, budget: f64, design: &mut Design<'_>) -> Next {
        if spent < budget
            && let Some(world) = self.sieve.passed.pop_front()
        {
            self.confirmations.number += 1;
            return Next::Confirm(world, error_of(self.confirmations.number));
        }
        loop {
            let through = self.sieve.next == self.space.worlds.len();
            if through || spent >= budget || self.found.is_some() {
                self.confirmations.undecided += self.sieve.passed.len() as u64;
                let complete = through && self.space.complete && self.sieve.passed.is_empty();
                self.end = Some(match (self.found.is_some(), complete) {
                    (true, _) => End::Found,
                    (_, true) => End::Exhausted,
                    _ => End::Budget,
                });
                return Next::End;
            }
            let rest = &self.space.worlds[self.sieve.next..];
            let size = rest[0].distance.assumptions;
            let batch = rest.iter().take_while(|w| w.distance.assumptions == size).take(BATCH);
            for world in batch.map(|world| &world.deviation) {
                self.sieve.next += 1;
                match design.is_possible(self.claim, world) {
                    true => self.sieve.batch.push((world.clone(), None)),
                    false => self.sieve.impossible += 1,
                }
            }
            if !self.sieve.batch.is_empty() {
                return Next::Sieve;
            }
        }
    }

    /// The result for the file of worlds.
    fn world(&self, claim: &str) -> FoundWorld {
        let plain = (Deviation::PLAIN, false);
        let tried: Vec<_> = [plain].into_iter().chain(self.sieve.tried.iter().cloned()).collect();
        FoundWorld {
            claim: claim.to_owned(),
            verdict: self.sought(),
            readings: self.found.clone(),
            tried: tried.len() as u64,
            held: tried.iter().filter(|(_, passed)| *passed).count() as u64,
            of: self.space.of - self.sieve.impossible,
            undecided: self.confirmations.undecided,
            confirmations: self.confirmations.number,
            end: self.end.unwrap_or(End::Budget),
            effort: None,
            budget: None,
        }
    }
}

/// The next step of a search.
enum Next {
    /// To confirm this world, with that share of errors.
    Confirm(Deviation, f64),
    /// To sieve the batch.
    Sieve,
    /// Nothing.
    End,
}

/// All searches.
struct Inquiry<'a> {
    runner: Runner<'a, Asker>,
    /// Budget of a claim.
    budget: f64,
    searches: Vec<Search>,
    joints: Vec<Joint>,
}

impl<'a> Inquiry<'a> {
    fn open(mut runner: Runner<'a, Asker>, request: &Request) -> Result<Self, ExperimentError> {
        let searches = request.claims.iter().map(|claim| Search::open(*claim, &mut runner.design));
        let searches = searches.collect::<Result<Vec<_>, _>>()?;
        let mut joints: Vec<Joint> = Vec::new();
        for (s, search) in searches.iter().enumerate() {
            let key = key_of(runner.design.experiment_of(search.claim));
            match joints.iter_mut().find(|joint| joint.key == key) {
                Some(joint) => joint.searches.push(SearchId(s)),
                None => joints.push(Joint::of(key, SearchId(s))),
            }
        }
        runner.bills = (0..searches.len() + joints.len()).map(|_| Bill::default()).collect();
        let budget = request.budget.unwrap_or(f64::INFINITY);
        Ok(Inquiry { runner, budget, searches, joints })
    }

    /// Runs the whole search.
    fn conduct(mut self) -> Result<Searched, ExperimentError> {
        for s in (0..self.searches.len()).map(SearchId) {
            let claim = self.searches[s.0].claim;
            let all = self.runner.design.all_checks(claim);
            self.ask(Asker::Plain(s), Deviation::PLAIN, vec![all], Rule::Verdict)?;
        }
        self.answer_all()?;
        for j in (0..self.joints.len()).map(JointId) {
            if self.has_all_claims(j) {
                self.open_joint(j)?;
            }
        }
        self.answer_all()?;
        let design = &self.runner.design;
        let id = |s: &Search| &*design.claim(s.claim).id;
        let found = self.searches.iter().enumerate().map(|(s, search)| Found {
            claim: search.claim,
            plain: search.plain().0,
            world: search.world(id(search)),
            assumptions: search.found.iter().flat_map(|w| design.words(search.claim, w)).collect(),
            spent: self.runner.bills[s].spent,
        });
        let joint = self.joints.iter().filter_map(|joint| {
            let best = joint.best.as_ref()?;
            let claims = best.passing.iter().map(|s| id(&self.searches[s.0]).to_owned()).collect();
            Some((joint.key.clone(), JointWorld { readings: best.world.clone(), claims }))
        });
        Ok(Searched { found: found.collect(), joint: joint.collect(), runs: self.runner.done.runs })
    }

    /// Handles runs and answers until nothing is left to do.
    fn answer_all(&mut self) -> Result<(), ExperimentError> {
        while let Some(step) = self.runner.step()? {
            match step {
                Step::Ran => (self.runner.design.options.progress)(self.progress()),
                Step::Answered(answer) => self.take(answer)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, answer: Answer<Asker>) -> Result<(), ExperimentError> {
        match answer.ask.asker {
            Asker::Plain(s) => {
                self.searches[s.0].plain = Some((answer.verdict, answer.checks));
                self.advance(s)
            }
            Asker::Sieve(s, index) => match self.searches[s.0].sieved(index, answer.verdict) {
                true => self.advance(s),
                false => Ok(()),
            },
            Asker::Confirm(s) => {
                self.searches[s.0].confirmed(answer);
                self.advance(s)
            }
            Asker::Joint(j, s) => self.take_joint(j, s, &answer),
        }
    }

    /// The next step of a search that waits for nothing.
    fn advance(&mut self, s: SearchId) -> Result<(), ExperimentError> {
        let spent = self.runner.bills[s.0].spent;
        let search = &mut self.searches[s.0];
        let sought = search.sought();
        match search.next(spent, self.budget, &mut self.runner.design) {
            Next::End => Ok(()),
            Next::Confirm(world, error) => {
                let groups = search.groups(sought, &self.runner.design);
                self.ask(Asker::Confirm(s), world, groups, Rule::Confirm(sought, error))
            }
            Next::Sieve => {
                let groups = search.groups(sought, &self.runner.design);
                let batch = search.sieve.batch.iter().map(|(world, _)| world.clone());
                for (index, world) in batch.collect::<Vec<_>>().into_iter().enumerate() {
                    let asker = Asker::Sieve(s, index);
                    self.ask(asker, world, groups.clone(), Rule::Sieve(sought))?;
                }
                Ok(())
            }
        }
    }

    fn ask(
        &mut self,
        asker: Asker,
        world: Deviation,
        groups: Groups,
        rule: Rule,
    ) -> Result<(), ExperimentError> {
        let (s, bill) = match asker {
            Asker::Plain(s) | Asker::Sieve(s, _) | Asker::Confirm(s) => (s, s.0),
            Asker::Joint(j, s) => (s, self.searches.len() + j.0),
        };
        let claim = self.searches[s.0].claim;
        let from = match (rule, asker) {
            // A joint world may stem from runs that confirmed its parts, so that it has new ones.
            (Rule::Confirm(..), Asker::Joint(..)) => 2 * FRESH,
            (Rule::Confirm(..), _) => FRESH,
            _ => 0,
        };
        let until = match rule {
            Rule::Verdict => self.runner.design.plans[claim.experiment].length.at_most,
            _ => u32::MAX,
        };
        let (stage, bill) = (self.stage(asker, claim), Some(bill));
        self.runner.open(Ask { asker, claim, world, rule, from, until, stage, bill }, groups)
    }

    /// Order of the jobs of a question: claims that hold come last.
    fn stage(&self, asker: Asker, claim: ClaimId) -> Stage {
        let holds = match asker {
            Asker::Sieve(s, _) | Asker::Confirm(s) => {
                let search = &self.searches[s.0];
                search.sought() == Verdict::NotHeld
            }
            Asker::Plain(_) | Asker::Joint(..) => false,
        };
        let later = if holds { self.runner.design.plans.len() } else { 0 };
        (true, later + claim.experiment)
    }

    /// Progress, with the done share of the work as far as it can be known.
    fn progress(&self) -> Progress {
        let share = |(s, search): (usize, &Search)| match search.end {
            Some(_) => 1.0,
            None if self.budget.is_finite() => (self.runner.bills[s].spent / self.budget).min(1.0),
            None => search.sieve.next as f64 / search.space.worlds.len().max(1) as f64,
        };
        let searches = self.searches.iter().enumerate().map(share).sum::<f64>();
        let joints = self.joints.iter().filter(|joint| joint.finished).count() as f64;
        // The joint world of a paper counts as one claim.
        let all = (self.searches.len() + self.joints.len()).max(1) as f64;
        let (done, total) = (self.runner.done.runs, self.runner.asked.runs);
        Progress { done, total, work: (searches + joints) / all }
    }
}
