//! The world in which most of the claims of a paper hold together.

use std::collections::VecDeque;

use super::{Answer, Asker, Inquiry, JointId, SearchId, passes};
use crate::ExperimentError;
use crate::builtin::{self, Collection, key_of};
use crate::campaign::question::Rule;
use crate::claims::Verdict;
use crate::experiment::{Deviation, Experiment};
use crate::worlds::error_of;

/// Largest number of joint worlds that are confirmed.
const JOINT_ATTEMPTS: u64 = 3;

/// The search for the joint world of a paper.
pub(super) struct Joint {
    pub(super) key: String,
    /// The searches of its claims.
    pub(super) searches: Vec<SearchId>,
    candidates: Candidates,
    /// The candidate in question.
    current: Candidate,
    /// Number of questions about it that are open.
    waiting: usize,
    /// Number of confirmations; above zero once the sieve is through.
    attempts: u64,
    /// The best candidate that was confirmed.
    pub(super) best: Option<Candidate>,
    pub(super) finished: bool,
}

/// A world, with the searches whose claims pass in it.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidate {
    pub(super) world: Deviation,
    pub(super) passing: Vec<SearchId>,
}

#[derive(Default)]
struct Candidates {
    /// The different nearest worlds of the claims.
    nearest: Vec<Deviation>,
    /// Worlds to judge.
    next: VecDeque<Deviation>,
    seen: Vec<Deviation>,
    judged: Vec<Candidate>,
    /// The best candidate that was joined with others.
    grown: Option<Deviation>,
}

impl Candidates {
    /// The nearest world of each claim.
    fn of<'a>(found: impl Iterator<Item = &'a Deviation>) -> Self {
        let mut nearest: Vec<Deviation> = Vec::new();
        for world in found {
            if !nearest.contains(world) {
                nearest.push(world.clone());
            }
        }
        let next = nearest.iter().cloned().collect();
        Candidates { seen: nearest.clone(), nearest, next, ..Candidates::default() }
    }

    /// Joins the best candidate with each other nearest world. False if this gives nothing new.
    fn grow(&mut self) -> bool {
        // The first of equal ones, which is the smallest.
        let best = self.judged.iter().rev().max_by_key(|candidate| candidate.passing.len());
        let best = best.map(|candidate| &candidate.world);
        let Some(best) = best.filter(|best| self.grown.as_ref() != Some(best)) else {
            return false;
        };
        let unions = self.nearest.iter().filter_map(|world| best.and(world));
        let unions: Vec<Deviation> = unions.filter(|union| !self.seen.contains(union)).collect();
        self.grown = Some(best.clone());
        self.seen.extend(unions.iter().cloned());
        self.next.extend(unions);
        !self.next.is_empty()
    }
}

impl Joint {
    pub(super) fn of(key: String, search: SearchId) -> Self {
        Joint {
            key,
            searches: vec![search],
            candidates: Candidates::default(),
            current: Candidate::default(),
            waiting: 0,
            attempts: 0,
            best: None,
            finished: false,
        }
    }

    /// Stores the current candidate as judged by the sieve.
    fn judged(&mut self) {
        self.candidates.judged.push(std::mem::take(&mut self.current));
    }

    /// Number of claims that hold together in the best confirmed candidate.
    fn reached(&self) -> usize {
        self.best.as_ref().map_or(0, |best| best.passing.len())
    }
}

impl Inquiry<'_> {
    /// Begins with the joint world of a paper, once its searches are through.
    pub(super) fn open_joint(&mut self, j: JointId) -> Result<(), ExperimentError> {
        let joint = &mut self.joints[j.0];
        let searches = joint.searches.iter().map(|s| &self.searches[s.0]);
        let holding = searches.filter(|search| search.sought() == Verdict::Held);
        joint.candidates = Candidates::of(holding.filter_map(|search| search.found.as_ref()));
        // The claims that hold plainly are known.
        let plainly = |s: &SearchId| self.searches[s.0].plain().0 == Verdict::Held;
        let passing = joint.searches.iter().copied().filter(plainly).collect();
        joint.best = Some(Candidate { world: Deviation::PLAIN, passing });
        self.judge_joint(j)
    }

    /// True if the searches of a paper are those of all its claims. A joint world of some would say
    /// less than the plain one.
    pub(super) fn has_all_claims(&self, j: JointId) -> bool {
        let joint = &self.joints[j.0];
        let claims = |experiments: &[Experiment]| experiments.iter().map(|e| e.claims.len()).sum();
        let paper = builtin::collections().find(|collection| collection.key == joint.key);
        let all: usize = match paper.map(Collection::experiments) {
            Some(Ok(experiments)) => claims(&experiments),
            _ => {
                let plans = self.runner.design.plans.iter().map(|plan| &plan.experiment);
                plans.filter(|e| key_of(e) == joint.key).map(|e| e.claims.len()).sum()
            }
        };
        joint.searches.len() == all
    }

    /// Judges the next candidate by the sieve. After the last one, confirms the best.
    fn judge_joint(&mut self, j: JointId) -> Result<(), ExperimentError> {
        loop {
            let joint = &mut self.joints[j.0];
            // As much for each claim as its own search has.
            let most = self.budget * joint.searches.len() as f64;
            let within = self.runner.bills[self.searches.len() + j.0].spent < most;
            let Some(world) = joint.candidates.next.pop_front().filter(|_| within) else {
                if within && joint.candidates.grow() {
                    continue;
                }
                return self.confirm_joint(j);
            };
            joint.current = Candidate { world: world.clone(), passing: Vec::new() };
            let mut asked = Vec::new();
            for s in &joint.searches {
                let search = &self.searches[s.0];
                match search.holds_in(&world) {
                    Some(true) => joint.current.passing.push(*s),
                    Some(false) => {}
                    None if self.runner.design.is_possible(search.claim, &world) => asked.push(*s),
                    None => {}
                }
            }
            joint.waiting = asked.len();
            if !asked.is_empty() {
                return self.ask_joint(j, &asked, Rule::Sieve(Verdict::Held));
            }
            joint.judged();
        }
    }

    /// Asks for each of these claims in the current candidate.
    fn ask_joint(
        &mut self,
        j: JointId,
        asked: &[SearchId],
        rule: Rule,
    ) -> Result<(), ExperimentError> {
        let world = self.joints[j.0].current.world.clone();
        for s in asked {
            let groups = self.searches[s.0].groups(Verdict::Held, &self.runner.design);
            self.ask(Asker::Joint(j, *s), world.clone(), groups, rule)?;
        }
        Ok(())
    }

    /// Confirms the claims that pass in the best candidate that was not confirmed yet.
    fn confirm_joint(&mut self, j: JointId) -> Result<(), ExperimentError> {
        let joint = &mut self.joints[j.0];
        let reached = joint.reached();
        let judged = &mut joint.candidates.judged;
        judged.sort_by_key(|candidate| std::cmp::Reverse(candidate.passing.len()));
        let next = judged.first().filter(|candidate| candidate.passing.len() > reached);
        if next.is_none() || joint.attempts == JOINT_ATTEMPTS {
            joint.finished = true;
            return Ok(());
        }
        let Candidate { world, passing } = judged.remove(0);
        joint.attempts += 1;
        joint.waiting = passing.len();
        joint.current = Candidate { world, passing: Vec::new() };
        let error = error_of(joint.attempts) / passing.len() as f64;
        self.ask_joint(j, &passing, Rule::Confirm(Verdict::Held, error))
    }

    /// Takes the answer about one claim in the current candidate.
    pub(super) fn take_joint(
        &mut self,
        j: JointId,
        s: SearchId,
        answer: &Answer<Asker>,
    ) -> Result<(), ExperimentError> {
        let joint = &mut self.joints[j.0];
        joint.waiting -= 1;
        let confirming = joint.attempts > 0;
        let holds = match confirming {
            true => answer.verdict == Verdict::Held && !answer.futile,
            false => passes(answer.verdict, Verdict::Held),
        };
        if holds {
            joint.current.passing.push(s);
            joint.current.passing.sort_unstable();
        }
        if joint.waiting > 0 {
            return Ok(());
        }
        if !confirming {
            joint.judged();
            return self.judge_joint(j);
        }
        if joint.current.passing.len() > joint.reached() {
            joint.best = Some(std::mem::take(&mut joint.current));
        }
        self.confirm_joint(j)
    }
}
