//! A claim as a square: its answer, and signs for what it owes to known results or to no source.

use std::fmt::Write;

use windward_experiments::claims::{Belief, ClaimResult};

use crate::group::Group;
use crate::plot::escape;
use crate::words::{self, Mark};

/// A kind of square. Its mark and its pattern say the same as its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Square {
    Plain,
    One,
    Two,
    More,
    Found,
    NoneOf,
    Undecided,
    ToCome,
}

impl Square {
    const ALL: [Square; 8] = [
        Square::Plain,
        Square::One,
        Square::Two,
        Square::More,
        Square::Found,
        Square::NoneOf,
        Square::Undecided,
        Square::ToCome,
    ];

    fn of(claim: &ClaimResult) -> Self {
        match claim.belief() {
            Belief::ToCome => Square::ToCome,
            Belief::Nothing => Square::Plain,
            Belief::Assumptions(reading) => match reading.assumptions() {
                0 | 1 => Square::One,
                2 => Square::Two,
                _ => Square::More,
            },
            Belief::Found(_) => Square::Found,
            Belief::NoneOf(_) => Square::NoneOf,
            Belief::Undecided => Square::Undecided,
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Square::Plain => "\u{2713}",
            Square::One => "1",
            Square::Two => "2",
            Square::More => "3+",
            Square::Found => "n?",
            Square::NoneOf => "\u{d7}",
            Square::Undecided => "?",
            Square::ToCome => "\u{2026}",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Square::Plain => "b0",
            Square::One => "b1",
            Square::Two => "b2",
            Square::More => "b3",
            Square::Found => "bf",
            Square::NoneOf => "bn",
            Square::Undecided | Square::ToCome => "bu",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Square::Plain => "held plainly",
            Square::One => "with 1 assumption",
            Square::Two => "with 2",
            Square::More => "with more",
            Square::Found => "with n in a search, left open by these runs",
            Square::NoneOf => "in none of its worlds",
            Square::Undecided => "undecided",
            Square::ToCome => "still to come",
        }
    }
}

/// The mark of a claim's square; with several assumptions their number, as `6` or `2?`.
fn mark(claim: &ClaimResult) -> String {
    match claim.belief() {
        Belief::Found(reading) => format!("{}?", reading.assumptions()),
        Belief::Assumptions(reading) if reading.assumptions() > 2 => {
            reading.assumptions().to_string()
        }
        _ => Square::of(claim).mark().to_owned(),
    }
}

impl Mark {
    const ALL: [Mark; 4] = [Mark::Rewritten, Mark::Added, Mark::Replained, Mark::Unfounded];

    /// The class of its sign.
    fn class(self) -> &'static str {
        match self {
            Mark::Rewritten => "rewritten",
            Mark::Added => "added",
            Mark::Replained => "replained",
            Mark::Unfounded => "unfounded",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Mark::Rewritten => "checks rewritten when results were known",
            Mark::Added => "claim added when results were known",
            Mark::Replained => "a plain value changed when results were known",
            Mark::Unfounded => "no text gives one of the plain values",
        }
    }
}

/// `b1 rewritten replained`
fn classes(claim: &ClaimResult) -> String {
    let marks = Mark::of(claim);
    let signs = marks.iter().map(|mark| format!(" {}", mark.class()));
    format!("{}{}", Square::of(claim).class(), signs.collect::<String>())
}

/// The square of a claim within a text.
pub(crate) fn small(claim: &ClaimResult) -> String {
    format!("<span class=\"square {}\">{}</span>", classes(claim), mark(claim))
}

/// The squares of a group, each a link to its claim.
pub(crate) fn row(html: &mut String, group: &Group<'_>) {
    html.push_str("<ul class=\"squares\">\n");
    for claim in group.squares() {
        let marks = Mark::of(claim);
        let marks: String = marks.iter().map(|mark| format!(", {}", mark.words())).collect();
        let id = escape(&claim.id);
        let words =
            format!("{id}: {}{marks}. {}", escape(&words::answer(claim)), escape(&claim.claim));
        let _ = writeln!(
            html,
            "<li><a class=\"{}\" href=\"{}\" title=\"{words}\"><small>{id}</small>\
             <b>{}</b></a></li>",
            classes(claim),
            escape(&group.place_of(claim)),
            mark(claim)
        );
    }
    html.push_str("</ul>\n");
}

/// The legend of the squares, with the number of each kind.
pub(crate) fn key(html: &mut String, groups: &[&Group<'_>]) {
    html.push_str("<ul class=\"key\">\n");
    for square in Square::ALL {
        let n = all(groups).filter(|claim| Square::of(claim) == square).count();
        if n > 0 {
            let _ = writeln!(
                html,
                "<li><span class=\"square {}\">{}</span> <b>{n}</b> {}</li>",
                square.class(),
                square.mark(),
                square.words()
            );
        }
    }
    for mark in Mark::ALL {
        let n = all(groups).filter(|claim| Mark::of(claim).contains(&mark)).count();
        if n > 0 {
            let _ = writeln!(
                html,
                "<li><span class=\"square bu {}\">&nbsp;</span> <b>{n}</b> {}</li>",
                mark.class(),
                mark.words()
            );
        }
    }
    html.push_str("</ul>\n");
}

/// The claims of groups that are squares.
fn all<'a>(groups: &'a [&Group<'a>]) -> impl Iterator<Item = &'a ClaimResult> {
    groups.iter().flat_map(|group| group.squares())
}
