//! The worlds of claims: each claim as a square, the assumptions under which it holds, the matrix
//! of claims and worlds, the numbers of the paper beside those of Windward, and editions.

use std::fmt::Write;

use windward_experiments::claims::{
    Belief, ChangedChoice, ClaimResult, ReadingResult, SearchEnd, Verdict, interval, number,
};
use windward_experiments::experiment::{Deviation, History};
use windward_experiments::statistics::Estimate;

use crate::group::Group;
use crate::page::{badge, badge_of, class, prose};
use crate::plot::escape;
use crate::section::ReportedRow;

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
            Belief::Assumptions(reading) => match reading.deviation.choices().len() {
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
            Square::One => "held with one assumption",
            Square::Two => "with two",
            Square::More => "with more",
            Square::Found => "in a world that the search confirmed and these runs leave open",
            Square::NoneOf => "in none of the worlds, all decided",
            Square::Undecided => "undecided",
            Square::ToCome => "still to come",
        }
    }
}

/// The mark of a claim's square; of a found world the number of its choices, as `2?`.
fn mark(claim: &ClaimResult) -> String {
    match claim.belief() {
        Belief::Found(reading) => format!("{}?", reading.deviation.choices().len()),
        _ => Square::of(claim).mark().to_owned(),
    }
}

/// Writes each claim of the papers, and of the user, as a square, in one row.
pub(crate) fn squares(html: &mut String, groups: &[Group<'_>]) {
    let shown = |c: &&&ClaimResult| c.asked.is_none();
    let groups: Vec<(&Group<'_>, Vec<&ClaimResult>)> = groups
        .iter()
        .map(|group| (group, group.claims.iter().filter(shown).copied().collect()))
        .filter(|(_, claims): &(_, Vec<_>)| !claims.is_empty())
        .collect();
    let all = || groups.iter().flat_map(|(_, claims)| claims);
    if all().next().is_none() {
        return;
    }
    html.push_str(
        "<section id=\"believe\">\n<h2>What one has to believe</h2>\n<p>A paper leaves \
         choices open. A square is a claim, with the number of choices that one has to read otherwise \
         than plainly for it to hold.</p>\n<div class=\"squares\">\n",
    );
    for (group, claims) in &groups {
        let page = escape(&group.page());
        let _ = writeln!(
            html,
            "<div style=\"--n:{}\"><h3><a href=\"{page}\">{}</a></h3>\n<ul>",
            claims.len(),
            escape(group.key)
        );
        for claim in claims {
            let square = Square::of(claim);
            let id = escape(&claim.id);
            let _ = writeln!(
                html,
                "<li><a class=\"{}\" href=\"{page}#{id}\" title=\"{id}: {}. {}\"><small>{id}</small>\
                 <b>{}</b></a></li>",
                square.class(),
                square.words(),
                escape(&claim.claim),
                mark(claim)
            );
        }
        html.push_str("</ul></div>\n");
    }
    html.push_str("</div>\n<ul class=\"key\">\n");
    for square in Square::ALL {
        let count = all().filter(|claim| Square::of(claim) == square).count();
        if count == 0 && square == Square::ToCome {
            continue;
        }
        let _ = writeln!(
            html,
            "<li><span class=\"{}\">{}</span> <b>{count}</b> {}</li>",
            square.class(),
            square.mark(),
            square.words()
        );
    }
    html.push_str("</ul>\n</section>\n");
}

/// `Receiver window: 65 packets instead of 20 (practice: ..)`.
fn assumption(word: &ChangedChoice) -> String {
    format!(
        "{}: <b>{}</b> instead of {} <small>({}: {})</small>",
        escape(&word.choice),
        escape(&word.instead),
        escape(&word.plain),
        word.basis,
        escape(&word.source)
    )
}

/// Writes the smallest set of assumptions of each claim.
pub(crate) fn believe(html: &mut String, group: &Group<'_>) {
    if group.claims.is_empty() || group.claims.iter().all(|claim| claim.asked.is_some()) {
        return;
    }
    html.push_str(
        "<section id=\"believe\">\n<h2>What one has to believe</h2>\n<p>For each claim the smallest set \
         of changed choices under which it holds, confirmed by the runs of this report. Each change is \
         an assumption that the paper does not make; the basis of its value follows in \
         parentheses.</p>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"believe\">\n<thead><tr><th>Claim</th>\
         <th>Assumptions</th><th>Searched</th></tr></thead>\n<tbody>\n",
    );
    for claim in &group.claims {
        let square = Square::of(claim);
        let words = match claim.belief() {
            Belief::ToCome => "still to come".to_owned(),
            Belief::Nothing => "nothing: it holds plainly".to_owned(),
            Belief::Assumptions(reading) => {
                reading.words.iter().map(assumption).collect::<Vec<_>>().join("<br>")
            }
            Belief::Found(reading) => format!(
                "{}<br><small>confirmed by the search; the runs of this report leave it open</small>",
                reading.words.iter().map(assumption).collect::<Vec<_>>().join("<br>")
            ),
            Belief::NoneOf(1) => {
                "it does not hold, and no choice could be read otherwise".to_owned()
            }
            Belief::NoneOf(worlds) => format!("it holds in none of {worlds} worlds"),
            Belief::Undecided => undecided(claim),
        };
        let id = escape(&claim.id);
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{id}</a> <span class=\"square {}\">{}</span></td><td>{words}</td>\
             <td>{}</td></tr>",
            square.class(),
            mark(claim),
            searched(claim)
        );
    }
    html.push_str("</tbody></table></div>\n</section>\n");
}

/// Reason why a claim has no answer.
fn undecided(claim: &ClaimResult) -> String {
    let found = claim.worlds.nearest.as_ref().filter(|world| world.is_judged());
    match (found, &claim.worlds.search) {
        (Some(world), Some(search)) if search.sought == Verdict::Held => format!(
            "undecided: the search found a world ({}), which is {} with the runs of this report",
            escape(&world.reading.title()),
            world.reading.verdict
        ),
        (_, Some(search)) if search.stale => STALE.to_owned(),
        (_, Some(search)) => match search.end {
            SearchEnd::Budget => "undecided: the budget of the search was spent".to_owned(),
            SearchEnd::Found | SearchEnd::Exhausted => {
                "undecided: some worlds stayed open".to_owned()
            }
        },
        (None | Some(_), None) => format!(
            "undecided: {}, and no search for worlds with several changes is stored",
            escape(&claim.in_readings())
        ),
    }
}

const STALE: &str = "undecided: the found world does not fit the readings of this run; search again with \
                     <code>--worlds</code>";

/// `12 of 64 worlds, 3 passed`.
fn searched(claim: &ClaimResult) -> String {
    match &claim.worlds.search {
        None if !claim.is_judged() => String::new(),
        None => escape(&claim.in_readings()),
        Some(search) => {
            let what = if search.sought == Verdict::Held { "passed" } else { "failed" };
            let end = match search.end {
                SearchEnd::Budget => ", budget spent",
                SearchEnd::Found | SearchEnd::Exhausted => "",
            };
            format!(
                "{} of {} worlds tried, {} {what} the sieve{end}",
                search.tried, search.of, search.held
            )
        }
    }
}

/// A column of the matrix.
struct Column {
    head: String,
    /// Legend; empty for columns whose head says it.
    words: String,
    /// Verdicts in the order of the claims.
    cells: Vec<Option<Verdict>>,
}

/// Writes the matrix: claims down, worlds across.
pub(crate) fn matrix(html: &mut String, group: &Group<'_>) {
    let claims = &group.claims;
    if claims.is_empty() || claims.iter().all(|claim| claim.asked.is_some()) {
        return;
    }
    let columns = columns(claims);
    html.push_str(
        "<section id=\"worlds\">\n<h2>Claims and worlds</h2>\n<p>A column is a world: the plain reading, \
         the nearest world of each claim, the world in which most claims hold together, and each \
         reading with one changed choice. H held, T tie, N not held, ? inconclusive; an empty cell is a \
         world that changes nothing in the claim, or that was not judged.</p>\n<div class=\"scroll\" tabindex=\"0\">\
         <table class=\"matrix worlds\">\n<thead><tr><th>Claim</th>",
    );
    for column in &columns {
        let _ = write!(html, "<th title=\"{}\">{}</th>", escape(&column.words), column.head);
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (row, claim) in claims.iter().enumerate() {
        let id = escape(&claim.id);
        let _ = write!(html, "<tr><th><a href=\"#{id}\">{id}</a></th>");
        for column in &columns {
            html.push_str(&match column.cells[row] {
                None => "<td></td>".to_owned(),
                Some(verdict) => format!(
                    "<td class=\"{}\" title=\"{id}: {verdict}\">{}</td>",
                    class(verdict),
                    letter(verdict)
                ),
            });
        }
        html.push_str("</tr>\n");
    }
    let count = |column: &Column| {
        column.cells.iter().filter(|cell| **cell == Some(Verdict::Held)).count().to_string()
    };
    html.push_str("<tr class=\"sum\"><th>held</th>");
    for column in &columns {
        let _ = write!(html, "<td>{}</td>", count(column));
    }
    html.push_str("</tr>\n</tbody></table></div>\n");
    joint(html, claims);
    let legend: Vec<&Column> = columns.iter().filter(|c| !c.words.is_empty()).collect();
    if !legend.is_empty() {
        let _ = writeln!(
            html,
            "<details><summary>The worlds with one changed choice: {}</summary>\n<dl class=\"terms\">",
            legend.len()
        );
        for column in legend {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", column.head, escape(&column.words));
        }
        html.push_str("</dl></details>\n");
    }
    html.push_str("</section>\n");
}

fn letter(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "H",
        Verdict::Tie => "T",
        Verdict::NotHeld => "N",
        Verdict::Inconclusive => "?",
    }
}

fn columns(claims: &[&ClaimResult]) -> Vec<Column> {
    let column = |head: &str, cell: &dyn Fn(&ClaimResult) -> Option<Verdict>| Column {
        head: head.to_owned(),
        words: String::new(),
        cells: claims.iter().map(|claim| cell(claim)).collect(),
    };
    let mut columns = vec![column("plain", &|c| c.is_judged().then_some(c.verdict))];
    let nearest = |c: &ClaimResult| match c.belief() {
        Belief::Assumptions(reading) => Some(reading.verdict),
        _ => c.worlds.nearest.as_ref().filter(|w| w.is_judged()).map(|w| w.reading.verdict),
    };
    columns.push(column("nearest", &nearest));
    let joints = claims.iter().map(|c| c.worlds.joint.len()).max().unwrap_or(0);
    for i in 0..joints {
        let head = if joints == 1 { "joint".to_owned() } else { format!("joint {}", i + 1) };
        columns.push(column(&head, &|c| c.in_joint(i)));
    }
    let mut singles: Vec<(&Deviation, String)> = Vec::new();
    for reading in claims.iter().flat_map(|c| &c.readings) {
        let known = singles.iter().any(|(deviation, _)| **deviation == reading.deviation);
        if reading.deviation.choices().len() == 1 && !known {
            singles.push((&reading.deviation, reading.title()));
        }
    }
    singles.sort_by_key(|(deviation, _)| (*deviation).clone());
    for (i, (deviation, title)) in singles.into_iter().enumerate() {
        let cell = |c: &ClaimResult| {
            c.readings.iter().find(|r| r.deviation == *deviation).map(|r| r.verdict)
        };
        columns.push(Column { words: title, ..column(&(i + 1).to_string(), &cell) });
    }
    columns
}

/// Writes what the joint worlds are.
fn joint(html: &mut String, claims: &[&ClaimResult]) {
    let Some(most) = claims.iter().max_by_key(|c| c.worlds.joint.len()) else { return };
    for (i, world) in most.worlds.joint.iter().enumerate() {
        let mut words: Vec<&ChangedChoice> = Vec::new();
        let own = claims.iter().filter_map(|c| c.worlds.joint.get(i)?.own.as_ref());
        for word in own.flat_map(|own| &own.reading.words) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let words: Vec<String> = words.into_iter().map(assumption).collect();
        let number =
            if most.worlds.joint.len() == 1 { String::new() } else { format!(" {}", i + 1) };
        let own = claims.iter().filter_map(|c| c.worlds.joint.get(i)?.own.as_ref());
        let left_out = own.filter(|own| own.reading.left_out).count();
        let left_out = match left_out {
            0 => String::new(),
            n => format!(" A quick run does not judge {n} claims in it; <code>--full</code> does."),
        };
        let _ = writeln!(
            html,
            "<p><b>Joint world{number}.</b> The search found that {} hold together under: {}.{left_out}</p>",
            escape(&world.claims.join(", ")),
            words.join("; ")
        );
    }
}

/// Writes the paper's numbers beside those measured, one table for all figures.
pub(crate) fn numbers(html: &mut String, group: &Group<'_>) {
    let rows =
        || group.sections.iter().flat_map(|s| s.found.reported.iter().map(move |row| (&s.id, row)));
    if rows().next().is_none() {
        return;
    }
    html.push_str(
        "<section id=\"numbers\">\n<h2>The paper\u{2019}s numbers beside ours</h2>\n<p>Means with 95 % \
         intervals. The ratio is that of the mean to the paper\u{2019}s number, or to the nearer end of \
         its range. A number is <i>stated</i> in the text or <i>digitised</i> from a figure. The last \
         columns have the nearest world of the claim that checks it.</p>\n<div class=\"scroll\" tabindex=\"0\"><table \
         class=\"numbers\">\n<thead><tr><th>Quantity</th><th>Paper</th><th>Plain</th><th>Ratio</th>\
         <th>Nearest world</th><th>Ratio</th><th>Words of the paper</th></tr></thead>\n<tbody>\n",
    );
    for (id, row) in rows() {
        let world = row.world.as_ref();
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{}\">{}</a><br><code>{}</code></td><td>{}<br><small>{}</small></td>\
             <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{} <small>({})</small></td></tr>",
            escape(id),
            escape(id),
            escape(&row.what),
            row.paper(),
            if row.digitised { "digitised" } else { "stated" },
            row.plain.map_or_else(|| "\u{2013}".to_owned(), interval),
            row.plain.map_or_else(String::new, |plain| ratio(row, plain)),
            world.map_or_else(String::new, |(claim, e)| format!(
                "{}<br><small>that of {}</small>",
                interval(*e),
                escape(claim)
            )),
            world.map_or_else(String::new, |(_, e)| ratio(row, *e)),
            escape(&row.words),
            escape(&row.source)
        );
    }
    html.push_str("</tbody></table></div>\n</section>\n");
}

/// The ratio of a mean to the paper's number; `within` its range; a dash beside zero.
fn ratio(row: &ReportedRow, ours: Estimate) -> String {
    let (low, high) = row.range;
    if low < high && (low..=high).contains(&ours.mean) {
        return "within".to_owned();
    }
    let nearer = if ours.mean < low { low } else { high };
    if nearer == 0.0 { "\u{2013}".to_owned() } else { number(ours.mean / nearer) }
}

/// The verdict in a world, in HTML.
fn verdict_of(world: &ReadingResult) -> String {
    match (world.is_judged(), world.left_out) {
        (true, _) => badge(world.verdict),
        (false, true) => "not judged in a quick run; <code>--full</code> judges it".to_owned(),
        (false, false) => "still to come".to_owned(),
    }
}

/// `edition 3, checks rewritten once; before: not held`; empty for a claim of the first edition.
fn edition(claim: &ClaimResult) -> String {
    let History { edition, rewritten, verdict_before, .. } = &claim.history;
    if *edition == 1 && verdict_before.is_none() {
        return String::new();
    }
    let rewritten = match rewritten {
        0 => String::new(),
        1 => ", checks rewritten once".to_owned(),
        n => format!(", checks rewritten {n} times"),
    };
    let before = verdict_before.map(|verdict| format!("; before: {verdict}"));
    format!("edition {edition}{rewritten}{}", before.unwrap_or_default())
}

/// The edition below a verdict in a table.
pub(crate) fn small_edition(claim: &ClaimResult) -> String {
    match edition(claim) {
        edition if edition.is_empty() => edition,
        edition => format!("<br><small>{edition}</small>"),
    }
}

/// Writes the claims whose checks or plain values have changed, with their verdicts before.
pub(crate) fn editions(html: &mut String, group: &Group<'_>) {
    let changed: Vec<&&ClaimResult> =
        group.claims.iter().filter(|claim| !edition(claim).is_empty()).collect();
    if changed.is_empty() || group.claims.iter().all(|claim| claim.asked.is_some()) {
        return;
    }
    html.push_str(
        "<section id=\"editions\">\n<h2>Editions</h2>\n<p>The first edition of the checks and of the \
         plain values was fixed before anything was measured. Later ones were written when results were \
         known. The verdict before is that of the first edition, measured when it was replaced.</p>\n\
         <div class=\"scroll\" tabindex=\"0\"><table class=\"editions\">\n<thead><tr><th>Claim</th>\
         <th>Edition</th><th>Rewritten</th><th>Before</th><th>Now</th><th>What changed</th></tr></thead>\n\
         <tbody>\n",
    );
    for claim in changed {
        let id = escape(&claim.id);
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            claim.history.edition,
            claim.history.rewritten,
            claim.history.verdict_before.map_or_else(String::new, badge),
            badge_of(claim),
            change(claim)
        );
    }
    html.push_str("</tbody></table></div>\n</section>\n");
}

/// The change since the edition before, with the sentence of the paper.
fn change(claim: &ClaimResult) -> String {
    let History { before, changed, quote, place, .. } = &claim.history;
    let changed = changed.as_deref().unwrap_or("This bound was written after the first results.");
    let mut text = prose(changed);
    if let Some(before) = before {
        let _ = write!(text, "<br>Before: {}", prose(before));
    }
    if let (Some(quote), Some(place)) = (quote, place) {
        let _ = write!(text, "<br><small><q>{}</q> ({})</small>", escape(quote), escape(place));
    }
    text
}

/// Writes the edition of one claim, with what changed.
pub(crate) fn edition_of_claim(html: &mut String, claim: &ClaimResult) {
    let edition = edition(claim);
    if !edition.is_empty() {
        let _ = writeln!(
            html,
            "<p><small><b>{}{}.</b> {}</small></p>",
            edition[..1].to_uppercase(),
            &edition[1..],
            change(claim)
        );
    }
}

/// Writes the search and the nearest world of a claim.
pub(crate) fn of_claim(html: &mut String, claim: &ClaimResult) {
    let Some(search) = &claim.worlds.search else { return };
    let sought = match search.sought {
        Verdict::Held => "Nearest world in which it holds",
        _ => "Nearest world in which it fails",
    };
    let _ = write!(html, "<p><b>{sought}.</b> ");
    match &claim.worlds.nearest {
        Some(world) => {
            let words: Vec<String> = world.reading.words.iter().map(assumption).collect();
            let verdict = verdict_of(&world.reading);
            let _ = write!(html, "{}: {verdict} with the runs of this report", words.join("; "));
        }
        None if search.stale => html.push_str(STALE),
        None => html.push_str(match search.end {
            SearchEnd::Exhausted if search.undecided == 0 => "None, and every world was tried",
            SearchEnd::Exhausted => "None was found, and some worlds stayed open",
            SearchEnd::Budget | SearchEnd::Found => "None was found before the budget was spent",
        }),
    }
    let _ = writeln!(html, " <small>({}).</small></p>", searched(claim));
}
