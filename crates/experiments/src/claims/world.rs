//! The worlds of a claim: the smallest change of its verdict that a search found, judged again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{CheckResult, ClaimResult, ReadingResult, Verdict};
use crate::experiment::Deviation;
use crate::statistics::Estimate;
use crate::worlds::{End, FoundWorld, JointWorld};

/// Result of a search for the nearest world of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchResult {
    /// The verdict that was sought: held, or not held of a claim that holds plainly.
    pub sought: Verdict,
    /// Worlds judged.
    pub tried: u64,
    /// Worlds judged that passed the sieve.
    pub held: u64,
    /// Worlds in the product of all readings of the claim.
    pub of: u64,
    /// Worlds that passed the sieve and stayed open; if a world was found, all of them are nearer.
    pub undecided: u64,
    /// Reason why the search ended.
    pub end: SearchEnd,
    /// True if the found world does not fit the readings of the claim as they are now.
    pub stale: bool,
}

/// Reason why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SearchEnd {
    /// A world was found.
    Found,
    /// Every world was tried.
    Exhausted,
    /// The budget was spent.
    Budget,
}

impl From<End> for SearchEnd {
    fn from(end: End) -> Self {
        match end {
            End::Found => SearchEnd::Found,
            End::Exhausted => SearchEnd::Exhausted,
            End::Budget => SearchEnd::Budget,
        }
    }
}

/// A claim in a found world, on the runs of this report and not on those of the search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorldResult {
    /// The changed choices, the verdict and its checks; no checks as long as it is to come.
    pub reading: ReadingResult,
    /// Reported numbers of the claim's experiment in that world, by their index, as far as the
    /// world's runs have them.
    pub reported: Vec<(usize, Estimate)>,
}

impl WorldResult {
    /// True if it has a verdict.
    pub fn is_judged(&self) -> bool {
        self.reading.is_judged()
    }
}

/// A claim in a world in which many claims hold together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JointResult {
    /// The claims that held together in the search.
    pub claims: Vec<String>,
    /// All changed choices of that world, also those that this claim does not have.
    pub whole: Deviation,
    /// The part that this claim has; `None` if it has none, so that its verdict is the plain one.
    pub own: Option<WorldResult>,
    /// True if it is not judged, since a quick look has no time for it.
    pub left_out: bool,
}

/// The worlds of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct ClaimWorlds {
    /// The search, if there was one.
    pub search: Option<SearchResult>,
    /// The nearest world, if one was found.
    pub nearest: Option<WorldResult>,
    /// The worlds in which most claims of the paper hold together.
    pub joint: Vec<JointResult>,
}

/// The assumptions that a claim needs to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Belief<'a> {
    /// It has no verdict yet.
    ToCome,
    /// Nothing: it holds plainly.
    Nothing,
    /// The changed choices of this reading, under which it holds in this report.
    Assumptions(&'a ReadingResult),
    /// The changed choices of this world, which the search confirmed, and which the runs of this
    /// report leave open.
    Found(&'a ReadingResult),
    /// Nothing helps: a search dropped so many worlds, all there are, and no reading is open.
    NoneOf(u64),
    /// The search or the runs do not decide.
    Undecided,
}

impl SearchResult {
    /// The result of a search.
    pub fn of(found: &FoundWorld) -> Self {
        SearchResult {
            sought: found.verdict,
            tried: found.tried,
            held: found.held,
            of: found.of,
            undecided: found.undecided,
            end: found.end.into(),
            stale: false,
        }
    }

    fn to_json(&self) -> Value {
        let end = match self.end {
            SearchEnd::Found => "found",
            SearchEnd::Exhausted => "exhausted",
            SearchEnd::Budget => "budget",
        };
        json!({
            "sought": self.sought.to_string(),
            "tried": self.tried,
            "held": self.held,
            "of": self.of,
            "undecided": self.undecided,
            "end": end,
            "stale": self.stale,
        })
    }
}

impl JointResult {
    /// The part of a joint world for a claim, before its verdict.
    pub fn open(world: &JointWorld, own: Option<ReadingResult>) -> Self {
        JointResult {
            claims: world.claims.clone(),
            whole: world.readings.clone(),
            own: own.map(|reading| WorldResult { reading, reported: Vec::new() }),
            left_out: false,
        }
    }
}

impl ClaimWorlds {
    /// Worlds that have no verdict yet.
    pub fn to_come(&self) -> usize {
        let joint = self.joint.iter().filter(|joint| !joint.left_out);
        let joint = joint.filter_map(|joint| joint.own.as_ref());
        let worlds = self.nearest.iter().chain(joint);
        worlds.filter(|world| !world.is_judged()).count()
    }
}

impl ClaimResult {
    /// The smallest set of assumptions under which the claim holds in this report, or in a search
    /// that the report does not contradict. None is enough only after a whole product of readings.
    pub fn belief(&self) -> Belief<'_> {
        if !self.is_judged() {
            return Belief::ToCome;
        }
        if self.verdict == Verdict::Held {
            return Belief::Nothing;
        }
        let nearest = self.worlds.nearest.as_ref().map(|world| &world.reading);
        let holds = nearest.into_iter().chain(&self.readings);
        let holds = holds.filter(|r| r.verdict == Verdict::Held && !r.is_contradicted());
        if let Some(least) = holds.min_by_key(|reading| reading.distance()) {
            return Belief::Assumptions(least);
        }
        let open = nearest.filter(|reading| reading.verdict == Verdict::Inconclusive);
        let choices = self.readings.iter().flat_map(|reading| reading.deviation.choices());
        let choices: BTreeSet<&str> = choices.map(|(name, _)| name.as_str()).collect();
        match &self.worlds.search {
            _ if self.to_come > 0 || self.worlds.to_come() > 0 => Belief::ToCome,
            Some(search) if search.sought == Verdict::Held && open.is_some() => {
                open.map_or(Belief::Undecided, Belief::Found)
            }
            // A search drops worlds by few runs: one that these runs leave open is not refuted.
            Some(search)
                if search.end == SearchEnd::Exhausted
                    && search.undecided == 0
                    && self.counts().inconclusive == 0 =>
            {
                Belief::NoneOf(search.tried)
            }
            Some(_) => Belief::Undecided,
            // With one choice at most, the readings are the whole product.
            None if choices.len() <= 1 && self.left_out == 0 && self.counts().is_none() => {
                Belief::NoneOf(self.of() as u64)
            }
            None => Belief::Undecided,
        }
    }

    /// True if it does not hold plainly and does in its nearest world, or these runs leave that
    /// open.
    pub fn holds_nearest(&self) -> bool {
        let sought = self.worlds.search.as_ref().map(|search| search.sought);
        let nearest = self.worlds.nearest.as_ref().filter(|world| world.is_judged());
        sought == Some(Verdict::Held)
            && nearest.is_some_and(|world| {
                matches!(world.reading.verdict, Verdict::Held | Verdict::Inconclusive)
            })
    }

    /// The verdict in a joint world, as far as it is known.
    pub fn in_joint(&self, index: usize) -> Option<Verdict> {
        match &self.worlds.joint.get(index)?.own {
            None => self.is_judged().then_some(self.verdict),
            Some(world) => world.is_judged().then_some(world.reading.verdict),
        }
    }

    /// The reading in which the verdict changes with the fewest assumptions: the found world, or a
    /// judged reading with fewer.
    pub(crate) fn nearest(&self) -> Option<&ReadingResult> {
        match self.belief() {
            Belief::Assumptions(reading) | Belief::Found(reading) => Some(reading),
            _ => self.worlds.nearest.as_ref().map(|world| &world.reading),
        }
    }

    /// Number of worlds that the search left open. If it found a world, all of them are nearer.
    pub fn undecided_nearer(&self) -> u64 {
        self.worlds.search.as_ref().map_or(0, |search| search.undecided)
    }

    /// Adds `nearest_world`, `undecided_nearer`, `worlds` and `joint_worlds` to an element of
    /// `claims.json`.
    pub(super) fn add_worlds(&self, json: &mut Value) {
        let nearest = self.nearest().map(|reading| {
            json!({
                "assumptions": reading.words_json(),
                "count": reading.assumptions(),
                "verdict": reading.is_judged().then(|| reading.verdict.to_string()),
                "checks": reading.checks.iter().map(CheckResult::to_json).collect::<Vec<_>>(),
            })
        });
        json["nearest_world"] = nearest.into();
        json["undecided_nearer"] = self.undecided_nearer().into();
        json["worlds"] = self.worlds.search.as_ref().map(SearchResult::to_json).into();
        let joint = self.worlds.joint.iter().enumerate().map(|(i, joint)| {
            let own = joint.own.as_ref();
            json!({
                "claims": joint.claims,
                "assumptions": own.map_or_else(Vec::new, |own| own.reading.words_json()),
                "verdict": self.in_joint(i).map(|verdict| verdict.to_string()),
            })
        });
        json["joint_worlds"] = joint.collect::<Vec<_>>().into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::tests::{claim, reading};
    use crate::experiment::Basis;

    fn search(end: SearchEnd) -> SearchResult {
        SearchResult {
            sought: Verdict::Held,
            tried: 12,
            held: 0,
            of: 12,
            undecided: 0,
            end,
            stale: false,
        }
    }

    fn judged(verdict: Verdict) -> ClaimResult {
        let mut result = ClaimResult::open(&claim(), "f");
        result.verdict = verdict;
        result.checks = vec![crate::claims::tests::check("x[a] >= 1", &[(2.0, 1.0); 3])];
        result
    }

    #[test]
    fn one_believes_the_fewest_assumptions_that_hold_here() {
        assert_eq!(ClaimResult::open(&claim(), "f").belief(), Belief::ToCome);
        assert_eq!(judged(Verdict::Held).belief(), Belief::Nothing);
        let mut result = judged(Verdict::NotHeld);
        let pair = Deviation::one("a", "1").and(&Deviation::one("b", "2")).unwrap();
        let words = [reading("a", Verdict::Held).words, reading("b", Verdict::Held).words].concat();
        let pair = ReadingResult { deviation: pair, words, ..reading("a", Verdict::Held) };
        result.worlds.nearest = Some(WorldResult { reading: pair, reported: Vec::new() });
        result.worlds.nearest.as_mut().unwrap().reading.checks = result.checks.clone();
        let size = |result: &ClaimResult| match result.belief() {
            Belief::Assumptions(reading) => reading.deviation.choices().len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(size(&result), 2);
        result.readings = vec![reading("c", Verdict::Held)];
        assert_eq!(size(&result), 1);
        // A private value counts twice, and is not nearer than a pair that is as well founded.
        result.readings[0].words[0].private = true;
        assert_eq!(result.readings[0].assumptions(), 2);
        assert_eq!(size(&result), 2);
        result.readings[0].words[0].basis = Basis::Paper;
        assert_eq!(size(&result), 1);
    }

    #[test]
    fn none_needs_a_search_that_tried_everything() {
        let mut result = judged(Verdict::NotHeld);
        assert_eq!(result.belief(), Belief::NoneOf(1));
        result.readings = vec![reading("a", Verdict::Inconclusive)];
        assert_eq!(result.belief(), Belief::Undecided);
        result.worlds.search = Some(search(SearchEnd::Exhausted));
        // A reading of these runs is open.
        assert_eq!(result.belief(), Belief::Undecided);
        result.readings[0].verdict = Verdict::NotHeld;
        assert_eq!(result.belief(), Belief::NoneOf(12));
        result.worlds.search.as_mut().unwrap().undecided = 1;
        assert_eq!(result.belief(), Belief::Undecided);
        result.worlds.search = Some(search(SearchEnd::Budget));
        assert_eq!(result.belief(), Belief::Undecided);
        // A world of the search that these runs do not confirm is no answer.
        let open = WorldResult { reading: reading("a", Verdict::NotHeld), reported: Vec::new() };
        result.worlds.search = Some(search(SearchEnd::Found));
        result.worlds.nearest = Some(open);
        assert_eq!(result.belief(), Belief::ToCome);
        result.worlds.nearest.as_mut().unwrap().reading.checks = result.checks.clone();
        assert_eq!(result.belief(), Belief::Undecided);
        // One that they leave open is still that of the search.
        result.worlds.nearest.as_mut().unwrap().reading.verdict = Verdict::Inconclusive;
        assert!(matches!(result.belief(), Belief::Found(_)));
        // Single changes that all fail are not the product of two choices.
        result.worlds = ClaimWorlds::default();
        result.readings = vec![reading("a", Verdict::NotHeld), reading("b", Verdict::NotHeld)];
        assert_eq!(result.belief(), Belief::Undecided);
        result.readings.pop();
        assert_eq!(result.belief(), Belief::NoneOf(2));
    }
}
