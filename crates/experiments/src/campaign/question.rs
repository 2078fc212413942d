//! Questions: some checks of a claim in one world, judged at looks that are fixed in advance.

use std::collections::VecDeque;

use super::design::{ClaimId, Groups};
use super::queue::Stage;
use crate::claims::{self, CellSamples, CheckResult, Verdict, verdict_of};
use crate::experiment::{Check, Deviation};
use crate::expression::Cell;
use crate::statistics::{Look, Looks};

/// Looks of the sieve.
const SIEVE: Looks = Looks::between(3, 6);
/// Looks of a confirmation.
const CONFIRMATION: Looks = Looks::between(8, 64);
/// Share of cases in which the sieve may drop a world in which a check is on its bound, on both
/// sides together.
const SIEVE_ERROR: f64 = 0.2;

/// How the checks of a question are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rule {
    /// A verdict on the runs that `reproduce` uses too.
    Verdict,
    /// A coarse judgement of few of these runs: whether the claim might have this verdict.
    Sieve(Verdict),
    /// A verdict on fresh runs, which is wrong in at most that share of all cases.
    Confirm(Verdict, f64),
}

impl Rule {
    /// The looks; `usual` are those of a verdict.
    fn looks(self, usual: Looks) -> Looks {
        match self {
            Rule::Verdict => usual,
            Rule::Sieve(_) => SIEVE,
            Rule::Confirm(..) => CONFIRMATION,
        }
    }

    /// True if verdicts, by the intervals of the sieve, make the rest of a confirmation futile.
    fn is_futile(self, verdicts: impl IntoIterator<Item = Verdict>) -> bool {
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
    fn goes_on(self, verdicts: impl IntoIterator<Item = Verdict>) -> bool {
        match self {
            Rule::Confirm(..) => verdicts.into_iter().all(|v| v != Verdict::Inconclusive),
            _ => true,
        }
    }
}

/// The number of a question of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QuestionId(pub(super) usize);

/// The claim, the world and the rule of a question; `A` says who wants to know.
#[derive(Debug, Clone)]
pub(super) struct Ask<A> {
    pub(super) asker: A,
    pub(super) claim: ClaimId,
    pub(super) world: Deviation,
    pub(super) rule: Rule,
    /// First repetition of its runs.
    pub(super) from: u32,
    /// Number of runs up to which it may look for now.
    pub(super) until: u32,
    /// Order of its jobs.
    pub(super) stage: Stage,
    /// Index of the bill that pays its runs, if there is one.
    pub(super) bill: Option<usize>,
}

/// An open question.
pub(super) struct Question<A> {
    pub(super) ask: Ask<A>,
    looks: Looks,
    look: u32,
    /// Number of earlier groups of checks.
    group: usize,
    /// The current checks, each with its result so far.
    checks: Vec<(usize, Option<CheckResult>)>,
    /// Groups of checks that follow if none of the current ones fails.
    later: VecDeque<Vec<usize>>,
    /// Number of runs that it waits for.
    pub(super) waiting: usize,
}

/// The answer to a question.
pub(super) struct Answer<A> {
    pub(super) question: QuestionId,
    pub(super) ask: Ask<A>,
    pub(super) verdict: Verdict,
    pub(super) checks: Vec<CheckResult>,
    /// True if it was given up since more runs would hardly change it.
    pub(super) futile: bool,
    /// True if looks are left that might decide it.
    pub(super) open: bool,
}

/// The consequence of a look.
pub(super) enum Next {
    /// More runs.
    Gather,
    /// The answer; futile if more runs would hardly change it.
    Close { futile: bool },
}

/// A final result, which more runs would not change.
pub(super) fn is_decided(result: &CheckResult) -> bool {
    result.verdict != Verdict::Inconclusive || result.difference.is_none()
}

impl<A: Copy> Question<A> {
    pub(super) fn new(ask: Ask<A>, groups: Groups, usual: Looks) -> Self {
        let mut question = Question {
            looks: ask.rule.looks(usual),
            ask,
            look: 0,
            group: 0,
            checks: Vec::new(),
            later: groups.into(),
            waiting: 0,
        };
        let first = question.later.pop_front().expect("a claim has a check");
        question.checks.extend(first.into_iter().map(|check| (check, None)));
        question
    }

    /// The checks that are not decided.
    pub(super) fn open_checks(&self) -> Vec<usize> {
        let open = |(i, result): &(usize, Option<CheckResult>)| {
            (!result.as_ref().is_some_and(is_decided)).then_some(*i)
        };
        self.checks.iter().filter_map(open).collect()
    }

    /// Number of runs of the current look.
    pub(super) fn runs(&self) -> u32 {
        self.looks.look(self.look).runs
    }

    /// Permits the looks up to that number of runs.
    pub(super) fn extend(&mut self, until: u32) {
        self.look += 1;
        self.ask.until = until;
    }

    /// The current look, and of a confirmation the one that would make it futile; the claim has
    /// `all` checks.
    fn levels(&self, all: usize) -> (Look, Option<Look>) {
        let look = self.looks.look(self.look);
        let weak =
            |count: usize| Look { confidence: 1.0 - SIEVE_ERROR, ..look }.of_one_among(count);
        match self.ask.rule {
            Rule::Verdict => (look, None),
            Rule::Sieve(sought) => {
                let count = if self.group == 0 { self.checks.len() } else { all };
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

    /// Evaluates the completed runs, which `column` returns; `all` has the checks of the claim.
    /// The result of each current check, and whether more runs are futile.
    pub(super) fn evaluate(
        &self,
        all: &[Check],
        column: &impl Fn(&Cell) -> Result<CellSamples, String>,
    ) -> (Vec<CheckResult>, bool) {
        let (look, weak) = self.levels(all.len());
        let evaluate = |(i, known): &(usize, Option<CheckResult>)| match known {
            Some(result) if is_decided(result) => result.clone(),
            _ => claims::evaluate(*i, &all[*i], look, column),
        };
        let results: Vec<CheckResult> = self.checks.iter().map(evaluate).collect();
        let futile = weak.is_some_and(|weak| {
            let open = results.iter().map(|result| match result.verdict {
                Verdict::Inconclusive => {
                    claims::evaluate(result.check, &all[result.check], weak, column).verdict
                }
                decided => decided,
            });
            self.ask.rule.is_futile(open)
        });
        (results, futile)
    }

    /// Takes the results of a look, and goes on to the next look or the next group of checks.
    pub(super) fn take(&mut self, results: Vec<CheckResult>, futile: bool) -> Next {
        let failed = results.iter().any(|r| r.verdict == Verdict::NotHeld);
        let settled = self.ask.rule.goes_on(results.iter().map(|r| r.verdict));
        let no_more =
            self.looks.look(self.look).last || self.looks.look(self.look + 1).runs > self.ask.until;
        let ends = failed || futile || no_more || results.iter().all(is_decided);
        self.checks = results.into_iter().map(|result| (result.check, Some(result))).collect();
        if !ends {
            self.look += 1;
            return Next::Gather;
        }
        match self.later.pop_front() {
            Some(next) if !failed && !futile && settled => {
                self.group += 1;
                self.checks.extend(next.into_iter().map(|i| (i, None)));
                self.checks.sort_by_key(|(i, _)| *i);
                self.look = 0;
                Next::Gather
            }
            _ => Next::Close { futile },
        }
    }

    /// The answer as it is now.
    pub(super) fn answer(&self, question: QuestionId, futile: bool) -> Answer<A> {
        let checks: Vec<CheckResult> =
            self.checks.iter().filter_map(|(_, result)| result.clone()).collect();
        Answer {
            question,
            ask: self.ask.clone(),
            verdict: verdict_of(&checks),
            open: !self.looks.look(self.look).last && !checks.iter().all(is_decided),
            checks,
            futile,
        }
    }
}
