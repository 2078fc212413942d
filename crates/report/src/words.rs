//! Words for the answer of a claim, the same on the pages and in the terminal.

use windward_experiments::claims::{
    Belief, ChangedChoice, ClaimResult, Counts, ReadingResult, SearchEnd, SearchResult, Verdict,
};

use crate::page::count;

/// An assumption: `Receiver window: 65 packets instead of 20 packets (rfc)`.
pub fn assumption(word: &ChangedChoice) -> String {
    let alone = if word.private { ", for one protocol alone" } else { "" };
    let against = match (&word.contradicted, &word.against) {
        (Some(result), _) => format!(", impossible by {}", place(result)),
        (None, Some(words)) => format!(", against {}", place(words)),
        (None, None) => String::new(),
    };
    let ChangedChoice { choice, instead, plain, basis, .. } = word;
    format!("{choice}: {instead} instead of {plain} ({basis}{alone}{against})")
}

/// The place before the first colon of a text: `Figure 9`.
fn place(text: &str) -> &str {
    text.split(':').next().unwrap_or(text)
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
        (_, Some(search)) if search.end == SearchEnd::Exhausted && search.undecided == 0 => {
            format!(
                "undecided: a search dropped all of {} worlds by few runs; these runs leave {} open",
                search.of,
                count(claim.counts().inconclusive, "reading")
            )
        }
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
    if end != SearchEnd::Budget && undecided == 0 {
        return format!("{does} in none of {of} worlds");
    }
    let parts = [
        (tried.saturating_sub(undecided), "dropped"),
        (undecided, "open"),
        (of.saturating_sub(tried), "not tried"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
    format!("undecided: of {of} worlds {}", parts.collect::<Vec<_>>().join(", "))
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
        format!("no text gives a value for {choice}; with others: {others}")
    };
    claim.calibrated.iter().map(of).collect()
}

/// A debt of the verdict of a claim: to results that were known, or to no source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Its checks were rewritten when results were known.
    Rewritten,
    /// It was added when results were known.
    Added,
    /// A plain value of its experiment changed when results were known.
    Replained,
    /// A plain value has no source but the figures, or none.
    Unfounded,
}

impl Mark {
    /// Those of a claim.
    pub(crate) fn of(claim: &ClaimResult) -> Vec<Mark> {
        let history = &claim.history;
        let (rewritten, added) = (history.rewritten > 0, history.edition > 1);
        let replained =
            !claim.formerly.is_empty() || !rewritten && !added && history.verdict_before.is_some();
        let marks = [
            (rewritten, Mark::Rewritten),
            (added && !rewritten, Mark::Added),
            (replained, Mark::Replained),
            (!claim.calibrated.is_empty(), Mark::Unfounded),
        ];
        marks.into_iter().filter_map(|(has, mark)| has.then_some(mark)).collect()
    }
}

/// Numbers of claims by their answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally {
    /// Key of the paper or collection.
    pub key: String,
    /// All claims.
    pub claims: usize,
    /// Their plain verdicts.
    pub plainly: Counts,
    /// Claims that hold plainly by checks that were rewritten when results were known.
    pub rewritten: usize,
    /// Claims that hold plainly and were added when results were known.
    pub added: usize,
    /// Claims that hold plainly under a plain value that changed when results were known.
    pub replained: usize,
    /// Claims that hold plainly under a plain value that no text gives.
    pub unfounded: usize,
    /// Claims that hold with assumptions.
    pub assumptions: usize,
    /// Claims that hold with assumptions in a search, which the runs of the report leave open.
    pub search: usize,
    /// Claims that hold in none of their worlds.
    pub none: usize,
    /// Undecided claims.
    pub undecided: usize,
    /// Claims without a verdict.
    pub to_come: usize,
}

impl Tally {
    /// Counts claims.
    pub(crate) fn of<'a>(key: &str, claims: impl IntoIterator<Item = &'a ClaimResult>) -> Self {
        let mut tally = Tally { key: key.to_owned(), ..Tally::default() };
        for claim in claims {
            tally.claims += 1;
            if claim.is_judged() {
                tally.plainly.add(claim.verdict);
            }
            let counted = match claim.belief() {
                Belief::ToCome => &mut tally.to_come,
                Belief::Nothing => {
                    for mark in Mark::of(claim) {
                        *match mark {
                            Mark::Rewritten => &mut tally.rewritten,
                            Mark::Added => &mut tally.added,
                            Mark::Replained => &mut tally.replained,
                            Mark::Unfounded => &mut tally.unfounded,
                        } += 1;
                    }
                    continue;
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

    /// The debts of the claims that hold plainly, with their numbers; a claim may have several.
    pub(crate) fn owed(&self) -> String {
        let owed = [
            (self.rewritten, "by rewritten checks"),
            (self.added, "added later"),
            (self.replained, "under changed plain values"),
            (self.unfounded, "under values that no text gives"),
        ];
        let owed = owed.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
        owed.collect::<Vec<_>>().join(", ")
    }

    /// `15 claims: plainly 7 held (1 by rewritten checks), 6 not held, 2 inconclusive; of the
    /// others 6 held with assumptions, 2 undecided`.
    pub fn sentence(&self) -> String {
        let owed = self.owed();
        let owed = if owed.is_empty() { owed } else { format!(" ({owed})") };
        let others = self.plainly.others();
        let others = if others.is_empty() { others } else { format!(", {others}") };
        let rest = [
            (self.assumptions, "held with assumptions"),
            (self.search, "held with assumptions in a search alone"),
            (self.none, "in none of their worlds"),
            (self.undecided, "undecided"),
            (self.to_come, "still to come"),
        ];
        let rest = rest.iter().filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}"));
        let rest = rest.collect::<Vec<_>>().join(", ");
        let rest = if rest.is_empty() { rest } else { format!("; of the others {rest}") };
        let held = self.plainly.held;
        format!("{}: plainly {held} held{owed}{others}{rest}", count(self.claims, "claim"))
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
            against: None,
        };
        assert_eq!(assumption(&word), "Timers: time stamps instead of Karn (rfc)");
        word.private = true;
        word.against = Some("section 5.1: \"it can not\"".to_owned());
        let words = "(rfc, for one protocol alone, against section 5.1)";
        assert!(assumption(&word).ends_with(words));
        word.contradicted = Some("Fig. 9: nobody backs off".to_owned());
        let words = "(rfc, for one protocol alone, impossible by Fig. 9)";
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
            (words(held, all, 108, 107), "undecided: of 108 worlds 1 dropped, 107 open"),
            (words(held, all, 108, 108), "undecided: of 108 worlds 108 open"),
            (
                words(held, spent, 40, 3),
                "undecided: of 108 worlds 37 dropped, 3 open, 68 not tried",
            ),
        ] {
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn a_tally_says_what_the_held_claims_owe() {
        let plainly = [Verdict::Held, Verdict::Held, Verdict::Held, Verdict::Held]
            .into_iter()
            .chain([Verdict::NotHeld; 4])
            .chain([Verdict::Inconclusive]);
        let tally = Tally {
            claims: 9,
            plainly: Counts::of(plainly),
            rewritten: 1,
            added: 1,
            replained: 2,
            unfounded: 1,
            assumptions: 2,
            search: 1,
            none: 1,
            undecided: 1,
            ..Tally::default()
        };
        assert_eq!(
            tally.sentence(),
            "9 claims: plainly 4 held (1 by rewritten checks, 1 added later, 2 under changed plain \
             values, 1 under values that no text gives), 4 not held, 1 inconclusive; of the others 2 held \
             with assumptions, 1 held with assumptions in a search alone, 1 in none of their worlds, \
             1 undecided"
        );
    }
}
