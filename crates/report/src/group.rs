//! The pages after the first: the experiments of each paper with its claims, and experiments
//! without a paper.

use windward_experiments::builtin::{self, Collection};
use windward_experiments::claims::ClaimResult;
use windward_experiments::experiment::{Experiment, fnv1a};

use crate::section::{ExperimentSection, key_of};
use crate::words::Tally;

/// One page.
#[derive(Debug)]
pub struct Group<'a> {
    /// Key of the collection, or of a paper that does not come with the program.
    pub key: &'a str,
    /// Heading.
    pub title: &'a str,
    pub(super) collection: Option<&'static Collection>,
    pub(super) sections: Vec<&'a ExperimentSection>,
    /// In natural order: `L9` before `L10`.
    pub(super) claims: Vec<&'a ClaimResult>,
}

/// Counts of the claims of each collection.
pub(crate) fn tallies(sections: &[ExperimentSection]) -> Vec<Tally> {
    let groups = groups(sections);
    groups.iter().filter(|g| !g.claims.is_empty()).map(Group::tally).collect()
}

/// Key of experiments without a paper or collection.
const OWN: &str = "experiments";

/// The sections by collection: papers first, then the user's experiments, then the others.
pub(super) fn groups(sections: &[ExperimentSection]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut sorted: Vec<&ExperimentSection> = sections.iter().collect();
    sorted.sort_by_key(|section| section.place.number);
    for section in sorted {
        let key = section.place.group.as_deref().unwrap_or(OWN);
        let collection = builtin::collections().find(|c| c.key == key);
        let own = section.found.claims.iter();
        match groups.iter_mut().find(|g| g.key == key) {
            Some(group) => {
                group.sections.push(section);
                group.claims.extend(own);
            }
            None => groups.push(Group {
                key,
                title: match collection {
                    Some(collection) => collection.title,
                    None if key == OWN => "Your experiments",
                    None => key,
                },
                collection,
                sections: vec![section],
                claims: own.collect(),
            }),
        }
    }
    groups.sort_by_key(|g| place(g.collection));
    for group in &mut groups {
        group.claims.sort_by_key(|c| rank(&c.id));
    }
    groups
}

/// Names of the pages of an experiment: that of its group, and those of its claims.
pub(crate) fn pages_of(experiment: &Experiment) -> Vec<String> {
    let key = key_of(experiment);
    let number = builtin::place(experiment);
    let claims = experiment.claims.iter().filter(|claim| claim.asked.is_none());
    let claims = claims.map(|claim| page_of_claim(key, number, &experiment.id, &claim.id));
    [page(key.unwrap_or(OWN))].into_iter().chain(claims).collect()
}

/// Name of the page of a claim: `lr2008-L3.html`. Ids of claims are unique within a collection, but
/// not among experiments of users.
fn page_of_claim(key: Option<&str>, number: usize, experiment: &str, claim: &str) -> String {
    match key {
        Some(key) if number != usize::MAX => format!("{key}-{claim}.html"),
        _ => page(&format!("{experiment} {claim}")),
    }
}

/// Name of the page of a group. Names are unique: a hash replaces characters that a file name
/// cannot have.
fn page(key: &str) -> String {
    if builtin::collections().any(|c| c.key == key) {
        return format!("{key}.html");
    }
    let safe = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let name: String = key.chars().map(|c| if safe(c) { c } else { '-' }).collect();
    match key.chars().all(safe) {
        true => format!("own-{name}.html"),
        false => format!("own-{name}-{:08x}.html", fnv1a(key.as_bytes()) >> 32),
    }
}

fn place(collection: Option<&Collection>) -> usize {
    let own = builtin::PAPERS.len();
    collection.map_or(own, |collection| {
        let place = builtin::collections().position(|c| c.key == collection.key);
        place.map_or(own, |p| if p < own { p } else { p + 1 })
    })
}

impl Group<'_> {
    /// The name of its page.
    pub fn page(&self) -> String {
        page(self.key)
    }

    /// True for experiments of the user.
    pub(super) fn is_own(&self) -> bool {
        self.collection.is_none()
    }

    /// True for the experiments of a paper.
    pub(super) fn is_paper(&self) -> bool {
        self.collection.is_some_and(Collection::is_paper)
    }

    /// Heading of the column with its claims.
    pub(super) fn heading_of_claims(&self) -> &'static str {
        match self.collection {
            Some(collection) if collection.is_paper() => "Claim of the paper",
            Some(_) => "Claim in words",
            None => "Your claim",
        }
    }

    /// Efforts of the experiments: `quick`, `full`, `custom`, without duplicates.
    pub fn efforts(groups: &[Group<'_>]) -> String {
        let sections = groups.iter().flat_map(|g| &g.sections);
        let mut efforts: Vec<&str> = sections.map(|s| s.origin.effort.as_str()).collect();
        efforts.sort_unstable();
        efforts.dedup();
        efforts.join(", ")
    }

    pub(super) fn tally(&self) -> Tally {
        Tally::of(self.key, self.squares())
    }

    /// The section of the experiment of a claim.
    pub(super) fn section_of(&self, claim: &ClaimResult) -> Option<&ExperimentSection> {
        self.sections.iter().find(|section| section.id == claim.figure).copied()
    }

    /// The claims that are not of a suite.
    pub(super) fn squares(&self) -> impl Iterator<Item = &ClaimResult> {
        self.claims.iter().copied().filter(|claim| claim.asked.is_none())
    }

    /// The page of a claim. Claims of a suite are on the page of their group.
    pub(super) fn page_of(&self, claim: &ClaimResult) -> Option<String> {
        let section = self.section_of(claim).filter(|_| claim.asked.is_none())?;
        let key = section.place.group.as_deref();
        Some(page_of_claim(key, section.place.number, &section.id, &claim.id))
    }

    /// Address of a claim.
    pub(super) fn place_of(&self, claim: &ClaimResult) -> String {
        self.page_of(claim).unwrap_or_else(|| format!("{}#{}", self.page(), claim.id))
    }

    /// True if it has claims that are not of a suite, whose claims are on the first page.
    pub(super) fn has_claims(&self) -> bool {
        self.claims.iter().any(|claim| claim.asked.is_none())
    }

    /// `C. De Vleeschouwer, P. Frossard. Computer Networks, 2008`; empty without a paper.
    pub(super) fn byline(&self) -> String {
        let paper = self.collection.filter(|c| c.is_paper());
        paper.map_or_else(String::new, |c| format!("{}. {}", c.authors, c.published))
    }
}

/// Key for the natural order: `L10` after `L9`, and `L4b` after `L4`. First the letters, then the
/// number, then the rest.
fn rank(id: &str) -> (&str, u64, &str) {
    let digits = id.find(|c: char| c.is_ascii_digit()).unwrap_or(id.len());
    let (letters, rest) = id.split_at(digits);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    (letters, rest[..end].parse().unwrap_or(u64::MAX), &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_keys_share_a_page() {
        // Distinct from each other and from the first page.
        let keys = ["lr2008", "index", "smith 2020", "smith-2020", "M\u{fc}ller", "M\u{f6}ller"];
        let pages: std::collections::BTreeSet<String> = keys.into_iter().map(page).collect();
        assert_eq!(pages.len(), keys.len(), "{pages:?}");
        assert!(pages.contains("lr2008.html") && pages.contains("own-smith-2020.html"));
        assert!(pages.iter().all(|p| p.is_ascii() && p != "index.html"), "{pages:?}");
    }

    #[test]
    fn claims_are_listed_as_people_count() {
        let mut ids = ["L10", "E1", "L4b", "L9", "L4", "L2"];
        ids.sort_by_key(|id| rank(id));
        assert_eq!(ids, ["E1", "L2", "L4", "L4b", "L9", "L10"]);
    }

    #[test]
    fn the_users_experiments_follow_the_papers() {
        let papers = builtin::PAPERS.into_iter().map(|c| place(Some(c)));
        let others = [builtin::MATRIX, builtin::FIELD].map(|c| place(Some(c)));
        let places: Vec<usize> = papers.chain([place(None)]).chain(others).collect();
        assert_eq!(places, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
