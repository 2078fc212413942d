//! The nearest world of a claim: the smallest set of changed choices that changes its verdict.
//!
//! A *world* is a value for each choice that the experiments of a claim leave open ([`Reading`]),
//! without the values that a result of the paper makes impossible.
//! Each choice with another value than the plain one is an assumption; one that holds of one of the
//! compared protocols alone is two. For a claim that does not hold plainly, the search seeks the
//! nearest world in which it holds; for one that holds, the nearest world in which it does not.
//!
//! 1. **Order.** The world with the fewest assumptions comes first, then the best founded one: the
//!    weakest of its reasons is compared first. Of two that are equal in both, the one with fewer
//!    assumptions about one protocol alone is nearer. Predicted work has no part in it. A world
//!    whose cells are all the same as those of an earlier one is the same world and is not counted.
//! 2. **Sieve.** A world is judged by few runs with the seeds that `reproduce` uses too: 3, then
//!    6. The check that failed plainly comes first; the world is dropped if its mean is on the
//!    wrong side in the end. A world is also dropped as soon as a check fails by an interval of 80
//!    %, or of `1 - 20 % / m` where m checks are judged together: a look drops a world in which
//!    all checks hold in at most one case of ten. Where a failure is sought, a world passes if a
//!    check fails by such an interval, the last time by one of 80 %. Runs have the plain duration,
//!    since a shorter run measures something else: its start weighs more.
//! 3. **Confirmation.** A world that passes is judged again by fresh runs, from repetition
//!    1,000,000 on, which neither the sieve nor `reproduce` uses: 8, 16, 32, then 64. Which worlds
//!    are confirmed, and in which order, depends on the sieve's runs alone. The k-th confirmation
//!    of a search errs in at most `5 % * 6 / (pi^2 k^2)` of all cases ([`error_of`]). These shares
//!    sum to 5 % for any number of worlds, and the bound needs no independence. The looks of a
//!    confirmation share its error ([`crate::statistics::Looks`]). A claim is held if each of its
//!    checks is held at that level: if it is false, one of its checks is, and this check alone
//!    would have to err. It is not held if one check fails, any of which might err, so that they
//!    share the level. A confirmation ends early if a check fails by the sieve's intervals, which
//!    can only make discoveries rarer.
//! 4. **End.** The search ends with the first confirmed world. All worlds with fewer assumptions
//!    were tried before, and those of its number that are better founded. Nearer worlds whose
//!    confirmation stayed open are counted. Without a confirmed world it ends with the last world,
//!    or once the predicted packet-hops of its runs reach the budget.
//! 5. **Joint world.** Sought if all claims of a paper are searched for, held ones too. Candidates
//!    are the nearest world of each claim that does not hold plainly, and unions of these that do
//!    not contradict: the best candidate is joined with each other nearest world as long as this
//!    adds claims. The sieve judges every claim in each candidate. The set of claims that pass in
//!    the best candidate is confirmed by new runs, from repetition 2,000,000 on, since those of the
//!    third step selected the nearest worlds. The claims share the level, and up to three
//!    candidates are confirmed, with the levels of a search. If in none of them more claims hold
//!    than plainly, the plain world is the joint one.
//!
//! "In none of N worlds" is a statement about the sieve and the confirmations: a world was dropped
//! since the claim failed there, by few runs. It has no level of its own. Worlds whose
//! confirmation stayed open are counted apart.
//!
//! The next step of a search depends on the numbers and on predicted work, never on time. The
//! result is the same with any number of threads and after an interruption.

use std::collections::{BTreeMap, HashSet};
use std::f64::consts::PI;

use crate::experiment::{Basis, Deviation, Reading, ReadingValue};

mod run;

pub use crate::experiment::worlds::{End, FILE, FoundWorld, JointWorld, SearchFacts, Worlds};
pub use run::{SearchOptions, SearchSummary, search, search_with};

/// Probability that a search finds a world if its claim holds in no world.
pub const SEARCH_ERROR: f64 = 0.05;

/// Share of cases in which confirmation number `k`, from 1, may err.
pub fn error_of(k: u64) -> f64 {
    let k = k as f64;
    SEARCH_ERROR * 6.0 / (PI * PI * k * k)
}

/// Largest number of worlds that are listed; larger products end with a budget.
const MOST_LISTED: usize = 50_000;

/// How far a world is from the plain one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Distance {
    /// Number of assumptions: each changed choice, and once more each that holds of one of the
    /// compared protocols alone.
    pub(crate) assumptions: usize,
    /// Bases of the assumptions, the weakest first.
    bases: Vec<Basis>,
    /// Number of choices that hold of one protocol alone.
    private: usize,
}

impl Distance {
    /// The distance of a world with these changed choices, each with its basis and whether it holds
    /// of one protocol alone.
    pub(crate) fn of(changed: impl Iterator<Item = (Basis, bool)>) -> Self {
        let mut distance = Distance::default();
        for (basis, private) in changed {
            // The second assumption of a private value has the reason of the value.
            let assumptions = 1 + usize::from(private);
            distance.assumptions += assumptions;
            distance.private += usize::from(private);
            distance.bases.extend(std::iter::repeat_n(basis, assumptions));
        }
        distance.bases.sort_unstable_by(|a, b| b.cmp(a));
        distance
    }
}

/// A choice with the values that change something in some cell of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) name: String,
    /// The values other than the plain one.
    pub(crate) others: Vec<Other>,
}

/// A value of a choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Other {
    pub(crate) label: String,
    pub(crate) basis: Basis,
    /// True if it holds of one of the compared protocols alone.
    pub(crate) private: bool,
}

impl Choice {
    /// The choice with the other values that `matters` accepts, without those that a result of the
    /// paper contradicts. `None` if no value is left.
    pub(crate) fn of(reading: &Reading, matters: impl Fn(&str) -> bool) -> Option<Self> {
        let possible = |value: &&ReadingValue| value.contradicted.is_none();
        let others = reading.others().filter(possible).filter(|value| matters(&value.label));
        let others = others.map(|value| Other {
            label: value.label.clone(),
            basis: value.basis,
            private: value.is_private(),
        });
        let others: Vec<Other> = others.collect();
        (!others.is_empty()).then(|| Choice { name: reading.name.clone(), others })
    }
}

/// A world that a search may try.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct World {
    pub(crate) deviation: Deviation,
    pub(crate) distance: Distance,
}

/// The worlds of a claim, without the plain one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Space {
    /// The nearest first: whole numbers of assumptions.
    pub(crate) worlds: Vec<World>,
    /// Number of all worlds, including the plain one.
    pub(crate) of: u64,
    /// True if all are listed.
    pub(crate) complete: bool,
}

impl Space {
    /// The product of the choices. `identity` is equal for worlds with the same cells.
    pub(crate) fn of(choices: &[Choice], identity: impl Fn(&Deviation) -> u64) -> Self {
        let product = choices.iter().map(|c| c.others.len() as u64 + 1);
        let product = product.fold(1, u64::saturating_mul);
        let mut seen = HashSet::from([identity(&Deviation::PLAIN)]);
        let mut worlds: Vec<World> = Vec::new();
        // By number of assumptions: the changed values of a world, and the choice after the last.
        type Partial<'a> = (Vec<(&'a Choice, &'a Other)>, usize);
        let mut levels: BTreeMap<usize, Vec<Partial<'_>>> =
            BTreeMap::from([(0, vec![(Vec::new(), 0)])]);
        let mut listed = 0;
        while let Some((assumptions, level)) = levels.pop_first() {
            listed += level.len();
            if listed > MOST_LISTED && !worlds.is_empty() {
                return Space { worlds, of: product, complete: false };
            }
            for (changed, after) in &level {
                for (index, choice) in choices.iter().enumerate().skip(*after) {
                    for other in &choice.others {
                        let more = assumptions + 1 + usize::from(other.private);
                        let changed = changed.iter().copied().chain([(choice, other)]).collect();
                        levels.entry(more).or_default().push((changed, index + 1));
                    }
                }
            }
            let mut new: Vec<World> = level.iter().map(|(changed, _)| World::of(changed)).collect();
            new.sort_by(|a, b| {
                a.distance.cmp(&b.distance).then_with(|| a.deviation.cmp(&b.deviation))
            });
            worlds.extend(new.into_iter().filter(|world| seen.insert(identity(&world.deviation))));
        }
        let of = worlds.len() as u64 + 1;
        Space { worlds, of, complete: true }
    }
}

impl World {
    fn of(changed: &[(&Choice, &Other)]) -> Self {
        let choices =
            changed.iter().map(|(choice, other)| (choice.name.clone(), other.label.clone()));
        let distance = Distance::of(changed.iter().map(|(_, other)| (other.basis, other.private)));
        World { deviation: Deviation::of_choices(choices.collect()), distance }
    }
}

#[cfg(test)]
mod tests;
