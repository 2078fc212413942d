//! The parts of the page: a paper's experiments with its claims, and those of no paper.

use crate::builtin::{self, Collection};
use crate::claims::{ClaimResult, Verdict};

use super::Section;

/// One part.
#[derive(Debug)]
pub(super) struct Group<'a> {
    /// The collection's key, or that of a paper which does not come with the program.
    pub(super) key: &'a str,
    pub(super) title: &'a str,
    pub(super) collection: Option<&'static Collection>,
    pub(super) sections: Vec<Section<'a>>,
    /// As people count: `L9` before `L10`.
    pub(super) claims: Vec<&'a ClaimResult>,
}

/// How many claims of one collection hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Key of the paper or collection.
    pub key: String,
    /// Claims that hold.
    pub held: usize,
    /// Claims that do not.
    pub not_held: usize,
    /// Claims that more repetitions must decide.
    pub inconclusive: usize,
}

/// The sections by collection: papers first, then what the user brought, then the others.
pub(super) fn groups<'a>(sections: &[Section<'a>], claims: &'a [ClaimResult]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for section in sections {
        let experiment = &section.results.plan.experiment;
        let collection = builtin::collection_of(experiment);
        let paper = experiment.paper.as_deref();
        let key = collection.map_or(paper.unwrap_or("experiments"), |c| c.key);
        let own = claims.iter().filter(|c| c.figure == experiment.id);
        match groups.iter_mut().find(|g| g.key == key) {
            Some(group) => {
                group.sections.push(*section);
                group.claims.extend(own);
            }
            None => groups.push(Group {
                key,
                title: collection.map_or(paper.unwrap_or("Experiments"), |c| c.title),
                collection,
                sections: vec![*section],
                claims: own.collect(),
            }),
        }
    }
    groups.sort_by_key(|g| place(g.collection));
    for group in &mut groups {
        group.claims.sort_by_key(|c| rank(&c.claim.id));
    }
    groups
}

fn place(collection: Option<&Collection>) -> usize {
    let own = builtin::PAPERS.len();
    collection.map_or(own, |collection| {
        let place = builtin::collections().position(|c| c.key == collection.key);
        place.map_or(own, |p| if p < own { p } else { p + 1 })
    })
}

impl Group<'_> {
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|c| c.verdict == verdict).count()
    }

    pub(super) fn tally(&self) -> Tally {
        Tally {
            key: self.key.to_owned(),
            held: self.count(Verdict::Held),
            not_held: self.count(Verdict::NotHeld),
            inconclusive: self.count(Verdict::Inconclusive),
        }
    }

    /// `C. De Vleeschouwer, P. Frossard. Computer Networks, 2008`; empty for what is no paper.
    pub(super) fn byline(&self) -> String {
        let paper = self.collection.filter(|c| c.is_paper());
        paper.map_or_else(String::new, |c| format!("{}. {}", c.authors, c.published))
    }
}

/// Puts `L10` behind `L9`: first the letters, then the number.
fn rank(id: &str) -> (&str, u64) {
    let digits = id.find(|c: char| c.is_ascii_digit()).unwrap_or(id.len());
    (&id[..digits], id[digits..].parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_listed_as_people_count() {
        let mut ids = ["L10", "E1", "L9", "L2"];
        ids.sort_by_key(|id| rank(id));
        assert_eq!(ids, ["E1", "L2", "L9", "L10"]);
    }

    #[test]
    fn what_the_user_brought_stands_behind_the_papers() {
        let papers = builtin::PAPERS.into_iter().map(|c| place(Some(c)));
        let others = [builtin::MATRIX, builtin::FIELD].map(|c| place(Some(c)));
        let places: Vec<usize> = papers.chain([place(None)]).chain(others).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
