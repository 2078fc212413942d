//! The search for the nearest world of each claim, as [`crate::worlds`] describes it.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering as Memory;
use std::sync::mpsc;

use super::queue::{Finished, Job, Stage};
use super::{
    Campaign, Condition, Observer, Question, Rule, RunExecutor, RunRecord, World, conduct,
};
use crate::ExperimentError;
use crate::builtin::key_of;
use crate::claims::{ChangedChoice, CheckResult, Verdict};
use crate::experiment::{Deviation, Reading};
use crate::statistics::{Look, Looks};
use crate::sweep::{Plan, RunOptions};
use crate::worlds::{Choice, End, FoundWorld, JointWorld, Space, effects, error_of};

/// Looks of the sieve.
pub(super) const SIEVE: Looks = Looks::between(3, 6);
/// Looks of a confirmation.
pub(super) const CONFIRMATION: Looks = Looks::between(8, 64);
/// Share of cases in which the sieve may drop a world in which a check is on its bound, on both
/// sides together.
const SIEVE_ERROR: f64 = 0.2;
/// Number of worlds that are sieved at once.
const BATCH: usize = 4;
/// Largest number of joint worlds that are confirmed.
const JOINT_ATTEMPTS: u64 = 3;

/// Claims to search for, with a budget.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The claims by experiment and index.
    pub claims: Vec<(usize, usize)>,
    /// Budget of a claim in predicted packet-hops; `None` for no bound.
    pub budget: Option<f64>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Experiment and claim by index.
    pub claim: (usize, usize),
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
    conduct(options, &perform, |queue, done| {
        Campaign::new(plans, options, queue, known, observer).inquire(request, done)
    })
}

/// Origin of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    /// The campaign itself, for a report.
    Campaign,
    /// A search, about the plain world.
    Plain(usize),
    /// A search, about this world of its batch.
    Sieve(usize, usize),
    /// A search, about the world that it confirms.
    Confirm(usize),
    /// A joint world, about the claim of this search.
    Joint(usize, usize),
}

/// Answer to a question.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) verdict: Verdict,
    /// True if it was given up since more runs would hardly change it.
    pub(super) futile: bool,
    pub(super) checks: Vec<CheckResult>,
}

impl Answer {
    /// True if the sieve lets this answer pass.
    fn passes(&self, sought: Verdict) -> bool {
        match sought {
            Verdict::NotHeld => self.verdict == Verdict::NotHeld,
            _ => matches!(self.verdict, Verdict::Held | Verdict::Inconclusive),
        }
    }
}

impl Rule {
    /// True if verdicts, by the intervals of the sieve, make the rest of a confirmation futile.
    pub(super) fn is_futile(self, verdicts: impl IntoIterator<Item = Verdict>) -> bool {
        let mut verdicts = verdicts.into_iter();
        match self {
            Rule::Confirm(Verdict::NotHeld, _) => {
                verdicts.all(|v| matches!(v, Verdict::Held | Verdict::Tie))
            }
            Rule::Confirm(..) => verdicts.any(|v| v == Verdict::NotHeld),
            _ => false,
        }
    }

    /// True if the next group of checks still matters after those with these verdicts.
    pub(super) fn goes_on(self, verdicts: impl IntoIterator<Item = Verdict>) -> bool {
        match self {
            Rule::Confirm(..) => verdicts.into_iter().all(|v| v != Verdict::Inconclusive),
            _ => true,
        }
    }
}

/// The present checks of a claim.
fn present(experiment: usize, claim: usize) -> Condition {
    Condition { experiment, claim, earlier: None }
}

/// The search of one claim.
struct Search {
    experiment: usize,
    claim: usize,
    choices: Vec<Choice>,
    space: Space,
    /// Checks and verdict under the plain reading.
    plain: Option<(Verdict, Vec<CheckResult>)>,
    /// Index of the next world.
    next: usize,
    /// The worlds that are being sieved, with their results.
    batch: Vec<(Deviation, Option<bool>)>,
    /// The worlds that the sieve judged, in order.
    tried: Vec<(Deviation, bool)>,
    /// Worlds without a scenario.
    impossible: u64,
    /// Worlds to confirm.
    passed: VecDeque<Deviation>,
    confirming: Option<Deviation>,
    confirmations: u64,
    undecided: u64,
    found: Option<Deviation>,
    end: Option<End>,
    bill: Bill,
}

/// Predicted work of the runs that a search needs.
#[derive(Default)]
struct Bill {
    /// Number of runs by cell and first repetition.
    runs: HashMap<(usize, u32), u32>,
    spent: f64,
}

impl Bill {
    fn add(&mut self, cell: usize, from: u32, runs: u32, weight: f64) {
        let known = self.runs.entry((cell, from)).or_default();
        self.spent += f64::from(runs.saturating_sub(*known)) * weight;
        *known = runs.max(*known);
    }
}

impl Search {
    /// The verdict that it seeks.
    fn sought(&self) -> Verdict {
        match self.plain {
            Some((Verdict::Held, _)) => Verdict::NotHeld,
            _ => Verdict::Held,
        }
    }

    fn found(&self) -> FoundWorld {
        let plain = (Deviation::PLAIN, false);
        let tried: Vec<_> = [plain].into_iter().chain(self.tried.iter().cloned()).collect();
        FoundWorld {
            claim: String::new(),
            verdict: self.sought(),
            readings: self.found.clone(),
            tried: tried.len() as u64,
            held: tried.iter().filter(|(_, passed)| *passed).count() as u64,
            of: self.space.of - self.impossible,
            undecided: self.undecided,
            confirmations: self.confirmations,
            end: self.end.unwrap_or(End::Budget),
            effort: None,
            budget: None,
            effects: effects(&self.choices, &tried),
        }
    }
}

/// The search for the joint world of a paper.
struct Joint {
    key: String,
    /// The searches of its claims.
    searches: Vec<usize>,
    /// The nearest worlds of its claims, without repetition.
    nearest: Vec<Deviation>,
    candidates: VecDeque<Deviation>,
    seen: Vec<Deviation>,
    /// Each judged candidate with the searches whose claims pass.
    scored: Vec<(Deviation, Vec<usize>)>,
    /// The best candidate that was joined with others.
    grown: Option<Deviation>,
    /// The candidate in question, with the claims that passed so far.
    current: Option<(Deviation, Vec<usize>)>,
    waiting: usize,
    /// Number of confirmations; above zero once the sieve is through.
    attempts: u64,
    best: Option<(Deviation, Vec<usize>)>,
    finished: bool,
    bill: Bill,
}

/// The state of all searches.
pub(super) struct Inquiry {
    budget: Option<f64>,
    searches: Vec<Search>,
    joints: Vec<Joint>,
    pub(super) answers: VecDeque<(Asker, Answer)>,
    joined: bool,
}

impl Inquiry {
    /// Done share of the work, 0 to 1, as far as it can be known.
    pub(super) fn share(&self) -> f64 {
        let share = |s: &Search| match (s.end, self.budget) {
            (Some(_), _) => 1.0,
            (None, Some(budget)) => (s.bill.spent / budget).min(1.0),
            (None, None) => s.next as f64 / s.space.worlds.len().max(1) as f64,
        };
        let searches = self.searches.iter().map(share).sum::<f64>();
        let joints = self.joints.iter().filter(|joint| joint.finished).count() as f64;
        // The joint world of a paper counts as one claim.
        let all = (self.searches.len() + self.joints.len()).max(1) as f64;
        (searches + joints) / all
    }
}

/// A claim's cells with the factors of their work by choice and value.
type Factors = HashMap<(String, String), Vec<(usize, f64)>>;

impl Campaign<'_> {
    /// Runs the whole search.
    fn inquire(
        mut self,
        request: &Request,
        done: &mpsc::Receiver<Result<Finished, ExperimentError>>,
    ) -> Result<Searched, ExperimentError> {
        let mut inquiry = Inquiry {
            budget: request.budget,
            searches: Vec::new(),
            joints: Vec::new(),
            answers: VecDeque::new(),
            joined: false,
        };
        for (e, c) in &request.claims {
            inquiry.searches.push(self.open_search(*e, *c)?);
        }
        for (s, search) in inquiry.searches.iter().enumerate() {
            let key = key_of(&self.plans[search.experiment].experiment);
            match inquiry.joints.iter_mut().find(|joint| joint.key == key) {
                Some(joint) => joint.searches.push(s),
                None => inquiry.joints.push(Joint::of(key, s)),
            }
        }
        self.inquiry = Some(inquiry);
        for (s, (e, c)) in request.claims.iter().enumerate() {
            let all = (0..self.plans[*e].experiment.claims[*c].checks.len()).collect();
            let plain = World::Reading(Deviation::PLAIN);
            self.open_question(present(*e, *c), plain, &[all], Asker::Plain(s), Rule::Verdict)?;
        }
        self.handle(done)?;
        let runs = self.work.done.0;
        let Some(inquiry) = &self.inquiry else { return Ok(Searched::default()) };
        let id = |s: &Search| self.plans[s.experiment].experiment.claims[s.claim].id.clone();
        let found = inquiry.searches.iter().map(|s| Found {
            claim: (s.experiment, s.claim),
            plain: s.plain.as_ref().map_or(Verdict::Inconclusive, |(verdict, _)| *verdict),
            world: FoundWorld { claim: id(s), ..s.found() },
            assumptions: s
                .found
                .iter()
                .flat_map(|w| self.words(s.experiment, s.claim, w))
                .collect(),
            spent: s.bill.spent,
        });
        let joint = inquiry.joints.iter().filter_map(|joint| {
            let (readings, those) = joint.best.clone()?;
            let claims = those.iter().map(|s| id(&inquiry.searches[*s])).collect();
            Some((joint.key.clone(), JointWorld { readings, claims }))
        });
        Ok(Searched { found: found.collect(), joint: joint.collect(), runs })
    }

    /// The worlds of a claim.
    fn open_search(&mut self, e: usize, c: usize) -> Result<Search, ExperimentError> {
        let cells = self.plainly(present(e, c))?;
        let readings: Vec<Reading> = self.readings_of(e, c).into_iter().cloned().collect();
        let mut factors: Factors = HashMap::new();
        for reading in &readings {
            for value in reading.others() {
                if self.options.cancel.load(Memory::Relaxed) {
                    return Err(ExperimentError::Cancelled);
                }
                let one = Deviation::one(&reading.name, &value.label);
                let changed = self.changed(&cells, &one)?;
                let mut of_cells = Vec::new();
                for (e, cell) in &changed {
                    let at = cells.iter().position(|p| (p.experiment, p.cell) == (*e, *cell));
                    let hops = self.scenario(*e, *cell, &one)?.predicted_packet_hops();
                    let plain = self.plans[*e].scenarios[*cell].predicted_packet_hops();
                    of_cells.extend(at.map(|at| (at, hops / plain.max(1.0))));
                }
                if !of_cells.is_empty() {
                    factors.insert((reading.name.clone(), value.label.clone()), of_cells);
                }
            }
        }
        let choices = readings.iter().filter_map(|reading| {
            let key = |label: &str| (reading.name.clone(), label.to_owned());
            Choice::of(reading, |label| factors.contains_key(&key(label)))
        });
        let choices: Vec<Choice> = choices.collect();
        let plain: Vec<f64> = cells
            .iter()
            .map(|p| self.plans[p.experiment].scenarios[p.cell].predicted_packet_hops())
            .collect();
        let hops = |world: &Deviation| {
            let mut hops = plain.clone();
            for (at, factor) in world.choices().iter().filter_map(|key| factors.get(key)).flatten()
            {
                hops[*at] *= factor;
            }
            hops.iter().sum::<f64>()
        };
        let identity = |world: &Deviation| {
            let mut hasher = DefaultHasher::new();
            for p in &cells {
                self.reading_in(p.experiment, p.cell, world).hash(&mut hasher);
            }
            hasher.finish()
        };
        let space = Space::of(&choices, identity, hops);
        Ok(Search {
            experiment: e,
            claim: c,
            choices,
            space,
            plain: None,
            next: 0,
            batch: Vec::new(),
            tried: Vec::new(),
            impossible: 0,
            passed: VecDeque::new(),
            confirming: None,
            confirmations: 0,
            undecided: 0,
            found: None,
            end: None,
            bill: Bill::default(),
        })
    }

    // --- questions ------------------------------------------------------------------------

    /// The look of a question, and of a confirmation the one that would make it futile.
    pub(super) fn levels(&self, question: &Question) -> (Look, Option<Look>) {
        let look = question.looks.look(question.look);
        let all = self.checks(question.condition).len();
        let weak =
            |count: usize| Look { confidence: 1.0 - SIEVE_ERROR, ..look }.of_one_among(count);
        match question.rule {
            Rule::Verdict => (look, None),
            Rule::Sieve(sought) => {
                let count = if question.group == 0 { question.checks.len() } else { all };
                let look = match sought {
                    Verdict::NotHeld if look.last => weak(1),
                    // The mean alone of the check that failed plainly.
                    Verdict::Held if look.last && count == 1 => Look { confidence: 0.0, ..look },
                    _ => weak(count),
                };
                (look, None)
            }
            Rule::Confirm(Verdict::NotHeld, error) => {
                (look.of_error(error).of_one_among(all), Some(weak(all)))
            }
            Rule::Confirm(_, error) => (look.of_error(error), Some(weak(all))),
        }
    }

    /// Order of the jobs of a question: claims that hold come last.
    pub(super) fn stage(&self, asker: Asker, own: usize) -> Stage {
        let search = match asker {
            Asker::Sieve(s, _) | Asker::Confirm(s) => Some(s),
            _ => None,
        };
        let holds = self.inquiry.as_ref().zip(search).is_some_and(|(inquiry, s)| {
            let search = &inquiry.searches[s];
            search.sought() == Verdict::NotHeld || search.found.is_some()
        });
        (true, if holds { self.plans.len() + own } else { own })
    }

    /// Charges a search with the runs that it needs.
    pub(super) fn charge(&mut self, asker: Asker, cell: usize, from: u32, runs: u32) {
        let weight = self.cells.all[cell].weight;
        let Some(inquiry) = &mut self.inquiry else { return };
        let bill = match asker {
            Asker::Campaign => return,
            Asker::Plain(s) | Asker::Sieve(s, _) | Asker::Confirm(s) => {
                &mut inquiry.searches[s].bill
            }
            Asker::Joint(j, _) => &mut inquiry.joints[j].bill,
        };
        bill.add(cell, from, runs, weight);
    }

    /// Groups of checks, in the order in which a sieve judges them.
    fn groups(&self, search: &Search, sought: Verdict) -> Vec<Vec<usize>> {
        let Some((verdict, checks)) = &search.plain else { return Vec::new() };
        let of = |open: bool| -> Vec<usize> {
            let open = |i: &usize| (checks[*i].verdict == Verdict::Inconclusive) == open;
            (0..checks.len()).filter(open).collect()
        };
        let groups = match (sought, verdict) {
            (Verdict::NotHeld, _) => vec![(0..checks.len()).collect()],
            (_, Verdict::NotHeld) => self.order(present(search.experiment, search.claim), checks),
            _ => vec![of(true), of(false)],
        };
        groups.into_iter().filter(|group: &Vec<usize>| !group.is_empty()).collect()
    }

    /// True if every cell of a claim has a scenario in a world. Records the cells in which choices
    /// that change nothing alone change something together.
    pub(super) fn is_possible(&mut self, e: usize, c: usize, world: &Deviation) -> bool {
        let all: Vec<usize> = (0..self.plans[e].experiment.claims[c].checks.len()).collect();
        for (e, cell) in self.cells_of(present(e, c), &all) {
            let Plan { experiment, length, .. } = &self.plans[e];
            let own = world.within(&experiment.readings);
            let short = self.reading_in(e, cell, world);
            let Ok(file) = experiment.file_of(cell, length, &short) else { return false };
            if short != own {
                let Ok(whole) = experiment.file_of(cell, length, &own) else { return false };
                if !whole.says_the_same_as(&file) {
                    self.cells.entangles(e, own, cell);
                }
            }
            if self.scenario(e, cell, world).is_err() {
                return false;
            }
        }
        true
    }

    // --- steps ----------------------------------------------------------------------------

    /// Handles the next answer, or begins with the joint worlds once all searches are through.
    /// False if nothing was to do.
    pub(super) fn next_of_inquiry(&mut self) -> Result<bool, ExperimentError> {
        let running = self.runs.running > 0;
        let Some(inquiry) = &mut self.inquiry else { return Ok(false) };
        let Some((asker, answer)) = inquiry.answers.pop_front() else {
            if running || inquiry.joined {
                return Ok(false);
            }
            inquiry.joined = true;
            for j in 0..inquiry.joints.len() {
                self.open_joint(j)?;
            }
            return Ok(true);
        };
        match asker {
            Asker::Campaign => {}
            Asker::Plain(s) => {
                inquiry.searches[s].plain = Some((answer.verdict, answer.checks));
                self.advance(s)?;
            }
            Asker::Sieve(s, index) => {
                let search = &mut inquiry.searches[s];
                search.batch[index].1 = Some(answer.passes(search.sought()));
                if search.batch.iter().all(|(_, passed)| passed.is_some()) {
                    for (world, passed) in std::mem::take(&mut search.batch) {
                        let passed = passed.unwrap_or(false);
                        if passed && search.found.is_none() {
                            search.passed.push_back(world.clone());
                        }
                        search.tried.push((world, passed));
                    }
                    self.advance(s)?;
                }
            }
            Asker::Confirm(s) => {
                let search = &mut inquiry.searches[s];
                let world = search.confirming.take();
                if answer.verdict == search.sought() && !answer.futile {
                    search.found = world;
                    search.passed.clear();
                } else if answer.verdict == Verdict::Inconclusive && !answer.futile {
                    search.undecided += 1;
                }
                self.advance(s)?;
            }
            Asker::Joint(j, s) => self.of_joint(j, s, &answer)?,
        }
        Ok(true)
    }

    /// The next step of a search that waits for nothing.
    fn advance(&mut self, s: usize) -> Result<(), ExperimentError> {
        loop {
            let Some(inquiry) = &mut self.inquiry else { return Ok(()) };
            let budget = inquiry.budget.unwrap_or(f64::INFINITY);
            let search = &mut inquiry.searches[s];
            let (e, c, sought) = (search.experiment, search.claim, search.sought());
            let found = search.found.is_some();
            let spent = search.bill.spent;
            if spent < budget
                && let Some(world) = search.passed.pop_front()
            {
                search.confirmations += 1;
                search.confirming = Some(world.clone());
                let rule = Rule::Confirm(sought, error_of(search.confirmations));
                let groups = self.groups_of(s, sought);
                let (claim, world) = (present(e, c), World::Reading(world));
                return self.open_question(claim, world, &groups, Asker::Confirm(s), rule);
            }
            let worlds = &search.space.worlds;
            let through = search.next == worlds.len();
            // After a world is found, further ones show effects, for half of the budget.
            let most = if found { budget / 2.0 } else { budget };
            if through || spent >= most {
                search.undecided += search.passed.len() as u64;
                let complete = through && search.space.complete && search.passed.is_empty();
                search.end = Some(match (found, complete) {
                    (true, _) => End::Found,
                    (_, true) => End::Exhausted,
                    _ => End::Budget,
                });
                return Ok(());
            }
            let size = worlds[search.next].choices().len();
            let rest = worlds[search.next..].iter();
            let batch = rest.take_while(|w| w.choices().len() == size).take(BATCH);
            let batch: Vec<Deviation> = batch.cloned().collect();
            search.next += batch.len();
            let taken = batch.len() as u64;
            let mut possible = Vec::new();
            for world in batch {
                if self.is_possible(e, c, &world) {
                    possible.push(world);
                }
            }
            let Some(inquiry) = &mut self.inquiry else { return Ok(()) };
            let search = &mut inquiry.searches[s];
            search.impossible += taken - possible.len() as u64;
            search.batch = possible.iter().map(|world| (world.clone(), None)).collect();
            if possible.is_empty() {
                continue;
            }
            let groups = self.groups_of(s, sought);
            for (index, world) in possible.into_iter().enumerate() {
                let asker = Asker::Sieve(s, index);
                let (claim, world) = (present(e, c), World::Reading(world));
                self.open_question(claim, world, &groups, asker, Rule::Sieve(sought))?;
            }
            return Ok(());
        }
    }

    fn groups_of(&self, s: usize, sought: Verdict) -> Vec<Vec<usize>> {
        let search = self.inquiry.as_ref().map(|inquiry| &inquiry.searches[s]);
        search.map_or_else(Vec::new, |search| self.groups(search, sought))
    }

    // --- joint worlds ---------------------------------------------------------------------

    fn open_joint(&mut self, j: usize) -> Result<(), ExperimentError> {
        let Some(Inquiry { searches, joints, .. }) = &mut self.inquiry else { return Ok(()) };
        let joint = &mut joints[j];
        for search in joint.searches.iter().map(|s| &searches[*s]) {
            let nearest = search.found.iter().filter(|_| search.sought() == Verdict::Held);
            for world in nearest {
                if !joint.nearest.contains(world) {
                    joint.nearest.push(world.clone());
                }
            }
        }
        let candidates = [Deviation::PLAIN].into_iter().chain(joint.nearest.iter().cloned());
        joint.candidates = candidates.collect();
        joint.seen = joint.candidates.iter().cloned().collect();
        self.judge_joint(j)
    }

    /// Judges the next candidate by the sieve. After the last one, confirms the best.
    fn judge_joint(&mut self, j: usize) -> Result<(), ExperimentError> {
        loop {
            let Some(Inquiry { searches, joints, budget, .. }) = &mut self.inquiry else {
                return Ok(());
            };
            let joint = &mut joints[j];
            // As much for each claim as its own search has.
            let most = budget.unwrap_or(f64::INFINITY) * joint.searches.len() as f64;
            let within = joint.bill.spent < most;
            let Some(world) = joint.candidates.pop_front().filter(|_| within) else {
                if within && joint.grow() {
                    continue;
                }
                return self.confirm_joint(j);
            };
            let mut passing = Vec::new();
            let mut open = Vec::new();
            for s in &joint.searches {
                match searches[*s].holds_in(&world) {
                    Some(true) => passing.push(*s),
                    Some(false) => {}
                    None => open.push(*s),
                }
            }
            joint.current = Some((world.clone(), passing));
            let mut asked = Vec::new();
            for s in open {
                let Some(inquiry) = &self.inquiry else { return Ok(()) };
                let search = &inquiry.searches[s];
                let (e, c) = (search.experiment, search.claim);
                if self.is_possible(e, c, &world) {
                    asked.push((s, e, c, self.groups_of(s, Verdict::Held)));
                }
            }
            let Some(inquiry) = &mut self.inquiry else { return Ok(()) };
            let joint = &mut inquiry.joints[j];
            joint.waiting = asked.len();
            if asked.is_empty() {
                joint.score();
                continue;
            }
            for (s, e, c, groups) in asked {
                let rule = Rule::Sieve(Verdict::Held);
                let (claim, world) = (present(e, c), World::Reading(world.clone()));
                self.open_question(claim, world, &groups, Asker::Joint(j, s), rule)?;
            }
            return Ok(());
        }
    }

    /// Confirms the claims that pass in the best candidate that was not confirmed yet.
    fn confirm_joint(&mut self, j: usize) -> Result<(), ExperimentError> {
        let Some(Inquiry { searches, joints, .. }) = &mut self.inquiry else { return Ok(()) };
        let joint = &mut joints[j];
        joint.scored.sort_by_key(|(_, passing)| std::cmp::Reverse(passing.len()));
        let reached = joint.best.as_ref().map_or(0, |(_, claims)| claims.len());
        let next = joint.scored.first().filter(|(_, passing)| passing.len() > reached);
        if next.is_none() || joint.attempts == JOINT_ATTEMPTS {
            joint.finished = true;
            return Ok(());
        }
        let (world, passing) = joint.scored.remove(0);
        joint.attempts += 1;
        joint.waiting = passing.len();
        let error = error_of(joint.attempts) / passing.len() as f64;
        joint.current = Some((world.clone(), Vec::new()));
        let claims = passing.iter().map(|s| (*s, searches[*s].experiment, searches[*s].claim));
        for (s, e, c) in claims.collect::<Vec<_>>() {
            let groups = self.groups_of(s, Verdict::Held);
            let rule = Rule::Confirm(Verdict::Held, error);
            let (claim, world) = (present(e, c), World::Reading(world.clone()));
            self.open_question(claim, world, &groups, Asker::Joint(j, s), rule)?;
        }
        Ok(())
    }

    fn of_joint(&mut self, j: usize, s: usize, answer: &Answer) -> Result<(), ExperimentError> {
        let Some(inquiry) = &mut self.inquiry else { return Ok(()) };
        let joint = &mut inquiry.joints[j];
        joint.waiting -= 1;
        let confirming = joint.attempts > 0;
        let holds = match confirming {
            true => answer.verdict == Verdict::Held && !answer.futile,
            false => answer.passes(Verdict::Held),
        };
        if let Some((_, passing)) = joint.current.as_mut().filter(|_| holds) {
            passing.push(s);
            passing.sort_unstable();
        }
        if joint.waiting > 0 {
            return Ok(());
        }
        if !confirming {
            joint.score();
            return self.judge_joint(j);
        }
        let reached = joint.best.as_ref().map_or(0, |(_, claims)| claims.len());
        if let Some(confirmed) = joint.current.take().filter(|(_, c)| c.len() > reached) {
            joint.best = Some(confirmed);
        }
        self.confirm_joint(j)
    }
}

impl Search {
    /// Whether the claim holds in a world, as far as the search knows.
    fn holds_in(&self, world: &Deviation) -> Option<bool> {
        if world.is_plain() {
            return self.plain.as_ref().map(|(verdict, _)| *verdict == Verdict::Held);
        }
        if self.sought() != Verdict::Held {
            return None;
        }
        let tried = self.tried.iter().find(|(tried, _)| tried == world);
        tried.map(|(_, passed)| *passed)
    }
}

impl Joint {
    fn of(key: String, search: usize) -> Self {
        Joint {
            key,
            searches: vec![search],
            nearest: Vec::new(),
            candidates: VecDeque::new(),
            seen: Vec::new(),
            scored: Vec::new(),
            grown: None,
            current: None,
            waiting: 0,
            attempts: 0,
            best: None,
            finished: false,
            bill: Bill::default(),
        }
    }

    /// Stores the current candidate as judged.
    fn score(&mut self) {
        self.scored.extend(self.current.take());
    }

    /// Joins the best candidate with each other nearest world. False if this gives nothing new.
    fn grow(&mut self) -> bool {
        // The first of equal ones, which is the smallest.
        let best = self.scored.iter().rev().max_by_key(|(_, passing)| passing.len());
        let Some((best, _)) = best.filter(|(best, _)| self.grown.as_ref() != Some(best)) else {
            return false;
        };
        let unions = self.nearest.iter().filter_map(|world| best.and(world));
        let unions: Vec<Deviation> = unions.filter(|union| !self.seen.contains(union)).collect();
        self.grown = Some(best.clone());
        self.seen.extend(unions.iter().cloned());
        self.candidates.extend(unions);
        !self.candidates.is_empty()
    }
}
