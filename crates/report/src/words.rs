//! Words for the answer of a claim, the same on the pages and in the terminal.

use windward_experiments::claims::{
    Belief, ChangedChoice, ClaimResult, ReadingResult, SearchEnd, SearchResult, Verdict,
};

use crate::page::count;

/// An assumption: `Receiver window: 65 packets instead of 20 packets (rfc)`.
pub fn assumption(word: &ChangedChoice) -> String {
    let alone = if word.private { ", for one protocol alone" } else { "" };
    let against = if word.contradicted.is_some() { ", against the paper's own words" } else { "" };
    let ChangedChoice { choice, instead, plain, basis, .. } = word;
    format!("{choice}: {instead} instead of {plain} ({basis}{alone}{against})")
}

fn assumptions(reading: &ReadingResult) -> String {
    reading.words.iter().map(assumption).collect::<Vec<_>>().join("; ")
}

/// The answer of a claim without its assumptions: `held plainly`, `held with 1 assumption`,
/// `undecided: ..`.
pub fn answer(claim: &ClaimResult) -> String {
    let of = |reading: &ReadingResult| count(reading.assumptions(), "assumption");
    match claim.belief() {
        Belief::ToCome => "still to come".to_owned(),
        Belief::Nothing => "held plainly".to_owned(),
        Belief::Assumptions(reading) => format!("held with {}", of(reading)),
        Belief::Found(reading) => {
            format!("held with {} in a search, left open by these runs", of(reading))
        }
        Belief::NoneOf(1) => "not held, and there is no choice to read otherwise".to_owned(),
        Belief::NoneOf(worlds) => format!("holds in none of {worlds} worlds"),
        Belief::Undecided => undecided(claim),
    }
}

/// The answer with the assumptions, and the number of undecided nearer worlds.
pub fn full_answer(claim: &ClaimResult) -> String {
    let mut text = answer(claim);
    if let Belief::Assumptions(reading) | Belief::Found(reading) = claim.belief() {
        text += &format!(": {}", assumptions(reading));
        text += &nearer(claim).map_or_else(String::new, |nearer| format!("; {nearer}"));
    }
    text
}

/// `16 nearer worlds undecided`, if there are any.
pub fn nearer(claim: &ClaimResult) -> Option<String> {
    undecided_nearer(claim.undecided_nearer())
}

/// The number of undecided nearer worlds in words, if there are any.
pub fn undecided_nearer(worlds: u64) -> Option<String> {
    let noun = if worlds == 1 { "world" } else { "worlds" };
    (worlds > 0).then(|| format!("{worlds} nearer {noun} undecided"))
}

/// Reason why a claim has no answer.
fn undecided(claim: &ClaimResult) -> String {
    let found = claim.worlds.nearest.as_ref().filter(|world| world.is_judged());
    match (found, &claim.worlds.search) {
        (Some(world), Some(search)) if search.sought == Verdict::Held => format!(
            "undecided: the runs of this report contradict the world of the search ({}), {}",
            assumptions(&world.reading),
            world.reading.verdict
        ),
        (_, Some(search)) => of_search(search),
        (_, None) => format!(
            "undecided: {}, and no search for worlds with several changes is stored",
            claim.in_readings()
        ),
    }
}

/// Result of a search that has no world to show.
pub fn of_search(search: &SearchResult) -> String {
    match search.stale {
        true => "undecided: the world of the search does not fit the readings of this run; search \
                 again with --worlds"
            .to_owned(),
        false => no_world(search.sought, search.end, search.tried, search.of, search.undecided),
    }
}

/// Result of a search without a world: "in none" only if each world is decided.
pub fn no_world(sought: Verdict, end: SearchEnd, tried: u64, of: u64, undecided: u64) -> String {
    let does = if sought == Verdict::Held { "holds" } else { "fails" };
    let rest = if undecided < tried {
        format!(", and it {does} in none of the others")
    } else {
        String::new()
    };
    match end {
        SearchEnd::Budget => format!(
            "undecided: {tried} of {of} worlds tried when the budget was spent, {undecided} of them \
             open{rest}"
        ),
        SearchEnd::Found | SearchEnd::Exhausted if undecided == 0 => {
            format!("{does} in none of {of} worlds")
        }
        SearchEnd::Found | SearchEnd::Exhausted => {
            format!("undecided: {undecided} of {of} worlds are open{rest}")
        }
    }
}

/// `checks rewritten when results were known, before: not held`; empty for a claim of the first
/// edition.
pub fn edition(claim: &ClaimResult) -> String {
    let history = &claim.history;
    let before = history.verdict_before.map(|verdict| format!(", before: {verdict}"));
    let before = before.unwrap_or_default();
    match (history.rewritten, history.edition) {
        (0, 1) if before.is_empty() => String::new(),
        (0, 1) => format!("plain values changed when results were known{before}"),
        (0, edition) => format!("added in edition {edition}, when results were known{before}"),
        (1, _) => format!("checks rewritten when results were known{before}"),
        (n, _) => format!("checks rewritten {n} times when results were known{before}"),
    }
}

/// Each choice whose plain value has no source but the paper's figures, or none at all, with the
/// verdicts under its other values: what the verdict owes to it.
pub fn calibrated(claim: &ClaimResult) -> Vec<String> {
    let of = |choice: &String| {
        let others = claim.readings.iter().filter_map(|reading| match &reading.words[..] {
            [word] if word.choice == *choice && reading.is_judged() => {
                Some(format!("{} with {}", reading.verdict, word.instead))
            }
            _ => None,
        });
        let others: Vec<String> = others.collect();
        let others = if others.is_empty() { "not judged".to_owned() } else { others.join(", ") };
        format!("no text gives a value for {choice}; others: {others}")
    };
    claim.calibrated.iter().map(of).collect()
}

/// A change of a claim when results were known. Of several, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its checks were rewritten.
    Rewritten,
    /// It was added.
    Added,
    /// A plain value of its experiment changed.
    Plain,
}

/// Numbers of claims by their answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Key of the paper or collection.
    pub key: String,
    /// All claims.
    pub claims: usize,
    /// Claims that hold plainly.
    pub plain: usize,
    /// Those of them whose checks were rewritten when results were known.
    pub rewritten: usize,
    /// Those of them that were added when results were known, and not rewritten.
    pub added: usize,
    /// Those of them that are neither, under a plain value that changed when results were known.
    pub changed: usize,
    /// Claims that hold with assumptions.
    pub assumptions: usize,
    /// Claims that hold with assumptions in a search, which the runs of the report leave open.
    pub search: usize,
    /// Claims that hold in none of their worlds, each of which is decided.
    pub none: usize,
    /// Undecided claims.
    pub undecided: usize,
    /// Claims without a verdict.
    pub to_come: usize,
}

impl Tally {
    /// Counts claims, each with its change when results were known.
    pub(crate) fn of<'a>(
        key: &str,
        claims: impl IntoIterator<Item = (&'a ClaimResult, Option<Change>)>,
    ) -> Self {
        let mut tally = Tally { key: key.to_owned(), ..Tally::default() };
        for (claim, change) in claims {
            tally.claims += 1;
            let counted = match claim.belief() {
                Belief::ToCome => &mut tally.to_come,
                Belief::Nothing => {
                    match change {
                        Some(Change::Rewritten) => tally.rewritten += 1,
                        Some(Change::Added) => tally.added += 1,
                        Some(Change::Plain) => tally.changed += 1,
                        None => {}
                    }
                    &mut tally.plain
                }
                Belief::Assumptions(_) => &mut tally.assumptions,
                Belief::Found(_) => &mut tally.search,
                Belief::NoneOf(_) => &mut tally.none,
                Belief::Undecided => &mut tally.undecided,
            };
            *counted += 1;
        }
        tally
    }

    /// `7 of 15 held plainly (1 by rewritten checks), 6 with assumptions, 2 undecided`.
    pub fn sentence(&self) -> String {
        let also = [
            (self.rewritten, "by rewritten checks"),
            (self.added, "added later"),
            (self.changed, "under changed plain values"),
        ];
        let also = also.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
        let also = also.collect::<Vec<_>>().join(", ");
        let also = if also.is_empty() { also } else { format!(" ({also})") };
        let rest = [
            (self.assumptions, "with assumptions"),
            (self.search, "with assumptions in a search alone"),
            (self.none, "in none of its worlds"),
            (self.undecided, "undecided"),
            (self.to_come, "still to come"),
        ];
        let rest = rest.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!(", {n} {words}"));
        format!("{} of {} held plainly{also}{}", self.plain, self.claims, rest.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use windward_experiments::experiment::Basis;

    use super::*;

    #[test]
    fn an_assumption_has_its_basis() {
        let mut word = ChangedChoice {
            choice: "Timers".to_owned(),
            plain: "Karn".to_owned(),
            instead: "time stamps".to_owned(),
            basis: Basis::Rfc,
            source: "RFC 1323".to_owned(),
            private: false,
            contradicted: None,
        };
        assert_eq!(assumption(&word), "Timers: time stamps instead of Karn (rfc)");
        word.private = true;
        word.contradicted = Some("Fig. 9".to_owned());
        let words = "(rfc, for one protocol alone, against the paper's own words)";
        assert!(assumption(&word).ends_with(words));
    }

    #[test]
    fn in_none_is_said_only_if_each_world_is_decided() {
        let words = |sought, end, tried, undecided| no_world(sought, end, tried, 108, undecided);
        let (held, not_held) = (Verdict::Held, Verdict::NotHeld);
        let (all, spent) = (SearchEnd::Exhausted, SearchEnd::Budget);
        for (text, expected) in [
            (words(held, all, 108, 0), "holds in none of 108 worlds"),
            (words(not_held, all, 108, 0), "fails in none of 108 worlds"),
            (
                words(held, all, 108, 107),
                "undecided: 107 of 108 worlds are open, and it holds in none of the others",
            ),
            (words(held, all, 108, 108), "undecided: 108 of 108 worlds are open"),
            (
                words(held, spent, 40, 3),
                "undecided: 40 of 108 worlds tried when the budget was spent, 3 of them open, and it \
                 holds in none of the others",
            ),
        ] {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn rewritten_claims_are_counted_apart() {
        let tally = Tally {
            claims: 9,
            plain: 4,
            rewritten: 1,
            added: 1,
            changed: 2,
            assumptions: 2,
            search: 1,
            none: 1,
            undecided: 1,
            ..Tally::default()
        };
        assert_eq!(
            tally.sentence(),
            "4 of 9 held plainly (1 by rewritten checks, 1 added later, 2 under changed plain values), \
             2 with assumptions, 1 with assumptions in a search alone, 1 in none of its worlds, 1 undecided"
        );
    }
}
