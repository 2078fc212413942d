//! The nearest world of a claim: the smallest set of changed choices that changes its verdict.
//!
//! A *world* is a value for each choice that the experiments of a claim leave open ([`Reading`]);
//! its *size* is the number of choices with another value than the plain one. For a claim that
//! does not hold plainly, the search seeks the nearest world in which it holds; for one that
//! holds, the nearest world in which it does not.
//!
//! 1. **Order.** Worlds come by size, then by predicted packet-hops, then by the weakest basis of
//!    their values, a fit last. A world whose cells are all the same as those of an earlier one is
//!    the same world and is not counted. The hops of a world are those of the plain one times the
//!    factor of each changed choice alone.
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
//! 4. **End.** The search ends with the first confirmed world. All smaller worlds were tried
//!    before any of its size was confirmed. Without one it ends with the last world, or once the
//!    predicted packet-hops of its runs reach the budget. After a discovery the sieve goes on
//!    until half of the budget is spent, which tells what share of the worlds passes, and which
//!    choices matter.
//! 5. **Effects.** For each value, and for pairs of values that pass more often than each of both:
//!    how many of the tried worlds with it passed.
//! 6. **Joint world.** Candidates are the plain world, the nearest world of each claim, and unions
//!    of these that do not contradict: the best candidate is joined with each other nearest world
//!    as long as this adds claims. The sieve judges every claim in each candidate. The set of
//!    claims that pass in the best candidate is confirmed by new runs, from repetition 2,000,000
//!    on, since those of the third step selected the nearest worlds. The claims share the level,
//!    and up to three candidates are confirmed, with the levels of a search.
//!
//! "In none of N worlds" is a statement about the sieve and the confirmations: a world was dropped
//! since the claim failed there, by few runs. It has no level of its own. Worlds whose
//! confirmation stayed open are counted apart.
//!
//! The next step of a search depends on the numbers and on predicted work, never on time. The
//! result is the same with any number of threads and after an interruption.

use std::collections::HashSet;
use std::f64::consts::PI;

use crate::experiment::{Basis, Deviation, Reading};

mod run;

pub use crate::experiment::worlds::{
    Effect, End, FILE, FoundWorld, JointWorld, SearchFacts, Worlds,
};
pub use run::{SearchOptions, SearchSummary, search, search_with};

/// Probability that a search finds a world if its claim holds in no world.
pub const SEARCH_ERROR: f64 = 0.05;

/// Share of cases in which confirmation number `k`, from 1, may err.
pub fn error_of(k: u64) -> f64 {
    let k = k as f64;
    SEARCH_ERROR * 6.0 / (PI * PI * k * k)
}

/// Largest number of worlds that are listed; larger products end with a budget.
const MOST_LISTED: usize = 5_000;

/// Strength of the reason for a value, the strongest least: whether a result of the paper
/// contradicts it, and its basis.
pub(crate) type Foundation = (bool, Basis);

/// How far a world is from the plain one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Distance {
    /// Number of assumptions: each changed choice, and once more each that holds of one of the
    /// compared protocols alone.
    pub(crate) assumptions: usize,
    /// Foundations of the assumptions, the weakest first.
    foundations: Vec<Foundation>,
    /// Number of choices that hold of one protocol alone.
    private: usize,
}

impl Distance {
    /// The distance of a world with these changed choices, each with its foundation and whether it
    /// holds of one protocol alone.
    pub(crate) fn of(changed: impl Iterator<Item = (Foundation, bool)>) -> Self {
        let mut distance = Distance::default();
        for (foundation, private) in changed {
            // That it holds of one alone is no better founded than the value.
            let assumptions = 1 + usize::from(private);
            distance.assumptions += assumptions;
            distance.private += usize::from(private);
            distance.foundations.extend(std::iter::repeat_n(foundation, assumptions));
        }
        distance.foundations.sort_unstable_by(|a, b| b.cmp(a));
        distance
    }
}

/// A choice with the values that change something in some cell of a claim.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Choice {
    pub(crate) name: String,
    /// Label of the plain value.
    pub(crate) plain: String,
    /// The other values.
    pub(crate) others: Vec<(String, Basis)>,
}

impl Choice {
    /// The choice with the other values that `matters` accepts. `None` if it accepts no value.
    pub(crate) fn of(reading: &Reading, matters: impl Fn(&str) -> bool) -> Option<Self> {
        let others = reading.others().filter(|value| matters(&value.label));
        let others: Vec<_> = others.map(|value| (value.label.clone(), value.basis)).collect();
        (!others.is_empty()).then(|| Choice {
            name: reading.name.clone(),
            plain: reading.plain_value().label.clone(),
            others,
        })
    }
}

/// The worlds of a claim, without the plain one.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Space {
    /// In the order in which they are tried: whole sizes, the smallest first.
    pub(crate) worlds: Vec<Deviation>,
    /// Number of all worlds, including the plain one.
    pub(crate) of: u64,
    /// True if all are listed.
    pub(crate) complete: bool,
}

impl Space {
    /// The product of the choices. `identity` is equal for worlds with the same cells; `hops`
    /// predicts the work of a world.
    pub(crate) fn of(
        choices: &[Choice],
        identity: impl Fn(&Deviation) -> u64,
        hops: impl Fn(&Deviation) -> f64,
    ) -> Self {
        let product = choices.iter().map(|c| c.others.len() as u64 + 1);
        let product = product.fold(1, u64::saturating_mul);
        let mut seen = HashSet::from([identity(&Deviation::PLAIN)]);
        let mut worlds = Vec::new();
        // Each with the index of the choice after its last changed one.
        let mut level = vec![(Deviation::PLAIN, 0, Basis::Paper)];
        let mut listed = 0;
        loop {
            let mut next = Vec::new();
            for (world, after, weakest) in &level {
                for (index, choice) in choices.iter().enumerate().skip(*after) {
                    for (label, basis) in &choice.others {
                        let one = Deviation::one(&choice.name, label);
                        next.extend(world.and(&one).map(|w| (w, index + 1, *basis.max(weakest))));
                    }
                }
            }
            if next.is_empty() {
                let of = worlds.len() as u64 + 1;
                return Space { worlds, of, complete: true };
            }
            listed += next.len();
            if listed > MOST_LISTED && !worlds.is_empty() {
                return Space { worlds, of: product, complete: false };
            }
            let ranked = next.iter().map(|(world, _, weakest)| (hops(world), *weakest, world));
            let mut ranked: Vec<_> = ranked.collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
            let new = ranked.into_iter().map(|(_, _, world)| world);
            worlds.extend(new.filter(|world| seen.insert(identity(world))).cloned());
            level = next;
        }
    }
}

/// Largest number of pairs in a table of effects.
const MOST_PAIRS: usize = 3;

/// How often worlds with each value passed, and with those pairs of values that pass more often
/// than each of both. `tried` has the worlds, including the plain one. Empty if none passed.
pub(crate) fn effects(choices: &[Choice], tried: &[(Deviation, bool)]) -> Vec<Effect> {
    if !tried.iter().any(|(_, passed)| *passed) {
        return Vec::new();
    }
    let count = |values: &[(&Choice, &str)]| {
        let value =
            |world: &Deviation, c: &Choice| world.of(&c.name).unwrap_or(&c.plain).to_owned();
        let has = |world: &Deviation| values.iter().all(|(c, label)| value(world, c) == *label);
        let those: Vec<bool> = tried.iter().filter(|(w, _)| has(w)).map(|(_, p)| *p).collect();
        (those.iter().filter(|passed| **passed).count() as u64, those.len() as u64)
    };
    let mut effects = Vec::new();
    for choice in choices {
        for label in [&choice.plain].into_iter().chain(choice.others.iter().map(|(l, _)| l)) {
            let (passed, of) = count(&[(choice, label)]);
            if of > 0 {
                let (choice, value) = (choice.name.clone(), label.clone());
                effects.push(Effect { choice, value, passed, of });
            }
        }
    }
    let share = |(passed, of): (u64, u64)| passed as f64 / of.max(1) as f64;
    let mut pairs = Vec::new();
    for (i, a) in choices.iter().enumerate() {
        for b in &choices[i + 1..] {
            for (one, _) in &a.others {
                for (other, _) in &b.others {
                    let both = count(&[(a, one), (b, other)]);
                    let alone = share(count(&[(a, one)])).max(share(count(&[(b, other)])));
                    let gain = share(both) - alone;
                    if gain > 0.0 {
                        let effect = Effect {
                            choice: format!("{} + {}", a.name, b.name),
                            value: format!("{one} + {other}"),
                            passed: both.0,
                            of: both.1,
                        };
                        pairs.push((gain, effect));
                    }
                }
            }
        }
    }
    // Stable, so that equal ones stay in the order of the choices.
    pairs.sort_by(|a, b| b.0.total_cmp(&a.0));
    effects.extend(pairs.into_iter().take(MOST_PAIRS).map(|(_, effect)| effect));
    effects
}

#[cfg(test)]
mod tests;
