//! The worlds of a paper: the claims that hold together, the matrix of claims and worlds, and the
//! numbers of the paper beside those of Windward.

use std::fmt::Write;

use windward_experiments::claims::{Belief, ChangedChoice, ClaimResult, Verdict, interval, number};
use windward_experiments::experiment::Deviation;
use windward_experiments::statistics::Estimate;

use crate::group::Group;
use crate::page::{class, count};
use crate::plot::escape;
use crate::section::{Ns2Row, ReportedRow};
use crate::words::assumption;

/// A column of the matrix.
struct Column {
    head: String,
    /// Legend; empty for columns whose head says it.
    words: String,
    /// Verdicts in the order of the claims.
    cells: Vec<Option<Verdict>>,
}

/// Writes how many claims hold plainly, and how many together in one world, and under what.
pub(crate) fn answer(html: &mut String, group: &Group<'_>) {
    let claims = &group.claims;
    let _ = writeln!(html, "<section id=\"answer\">\n<p><b>{}.</b></p>", group.tally().sentence());
    let joint = claims.iter().map(|c| &c.worlds.joint).max_by_key(|joint| joint.len());
    for (i, world) in joint.into_iter().flatten().enumerate() {
        let own = || claims.iter().filter_map(|c| c.worlds.joint.get(i)?.own.as_ref());
        let mut words: Vec<&ChangedChoice> = Vec::new();
        for word in own().flat_map(|own| &own.reading.words) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        let assumptions = words.len() + words.iter().filter(|word| word.private).count();
        let words: Vec<String> = words.into_iter().map(|word| escape(&assumption(word))).collect();
        let (judged, held) = counts(claims.iter().filter_map(|c| c.in_joint(i)));
        let lost = claims.iter().filter(|c| c.verdict == Verdict::Held);
        let lost = lost.filter_map(|c| Some((c, c.in_joint(i)?)));
        let lost = lost.filter(|(_, verdict)| *verdict != Verdict::Held);
        let lost =
            lost.map(|(c, verdict)| format!("; {}, held plainly, is {verdict}", escape(&c.id)));
        let left_out = claims.iter().filter(|c| c.worlds.joint.get(i).is_some_and(|j| j.left_out));
        let left_out: Vec<String> = left_out.map(|c| escape(&c.id)).collect();
        let left_out = match &left_out[..] {
            [] => String::new(),
            ids => format!("; a quick run has no time for {}", ids.join(", ")),
        };
        let _ = writeln!(
            html,
            "<p><b>Together</b>: in one world a search confirmed {} ({}), with {}: {}. In this report \
             {held} of {judged} claims hold there{}{left_out}.</p>",
            count(world.claims.len(), "claim"),
            escape(&world.claims.join(", ")),
            count(assumptions, "assumption"),
            words.join("; "),
            lost.collect::<String>()
        );
    }
    html.push_str("</section>\n");
}

/// Number of verdicts, and of those that are held.
fn counts(verdicts: impl Iterator<Item = Verdict>) -> (usize, usize) {
    verdicts.fold((0, 0), |(all, held), verdict| {
        (all + 1, held + usize::from(verdict == Verdict::Held))
    })
}

/// Writes the matrix, folded: claims down, worlds across.
pub(crate) fn matrix(html: &mut String, group: &Group<'_>) {
    let claims = &group.claims;
    let columns = columns(claims);
    html.push_str(
        "<details id=\"worlds\"><summary>Claims and worlds</summary>\n<p>A column is a world: the plain \
         reading, the nearest world of each claim, worlds in which many claims hold together, and each \
         reading with one changed choice. Below its name: claims held of those judged. H held, T tie, N \
         not held, ? inconclusive. An empty cell is a world that changes nothing in the claim, or that \
         was not judged.</p>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"matrix worlds\">\n<thead><tr>\
         <th>Claim</th>",
    );
    for column in &columns {
        let (judged, held) = counts(column.cells.iter().flatten().copied());
        let _ = write!(
            html,
            "<th title=\"{}\">{}<br><small>{held}/{judged}</small></th>",
            escape(&column.words),
            column.head
        );
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
    html.push_str("</tbody></table></div>\n");
    let legend: Vec<&Column> = columns.iter().filter(|c| !c.words.is_empty()).collect();
    if !legend.is_empty() {
        html.push_str("<dl class=\"terms\">\n");
        for column in legend {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", column.head, escape(&column.words));
        }
        html.push_str("</dl>\n");
    }
    html.push_str("</details>\n");
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
        Belief::Nothing => Some(Verdict::Held),
        Belief::Assumptions(reading) | Belief::Found(reading) => Some(reading.verdict),
        _ => None,
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

/// Writes the paper's numbers beside those measured, one table for all figures.
pub(crate) fn numbers(html: &mut String, group: &Group<'_>) {
    let rows =
        || group.sections.iter().flat_map(|s| s.found.reported.iter().map(move |row| (s, row)));
    if rows().next().is_none() {
        return ns2(html, group);
    }
    let has_ns2 = group.sections.iter().any(|s| !s.found.ns2.is_empty());
    let ns2_head = if has_ns2 { "<th>ns-2</th>" } else { "" };
    let _ = writeln!(
        html,
        "<details id=\"numbers\"><summary>The paper\u{2019}s numbers beside ours</summary>\n<p>Means with 95 % \
         intervals. The ratio is that of the mean to the paper\u{2019}s number, or to the nearer end of \
         its range. An end at \u{221e} means that the divisor may be zero. A number is <i>stated</i> in the text or <i>digitised</i> from a figure. The last \
         columns have the nearest world of the claim that checks it.</p>\n<div class=\"scroll\" tabindex=\"0\"><table \
         class=\"numbers\">\n<thead><tr><th>Quantity</th><th>Paper</th><th>Plain</th><th>Ratio</th>{ns2_head}\
         <th>Nearest world</th><th>Ratio</th><th>Words of the paper</th></tr></thead>\n<tbody>"
    );
    for (section, row) in rows() {
        let world = row.world.as_ref();
        let in_ns2 = section.found.ns2.iter().find(|cell| cell.what == row.what);
        let in_ns2 = in_ns2.map_or_else(String::new, |cell| interval(cell.theirs));
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{}\">{}</a><br><code>{}</code></td><td>{}<br><small>{}</small></td>\
             <td>{}</td><td>{}</td>{}<td>{}</td><td>{}</td><td>{} <small>({})</small></td></tr>",
            escape(&section.id),
            escape(&section.id),
            escape(&row.what),
            row.paper(),
            if row.digitised { "digitised" } else { "stated" },
            row.plain.map_or_else(|| "\u{2013}".to_owned(), interval),
            row.plain.map_or_else(String::new, |plain| ratio(row, plain)),
            if has_ns2 { format!("<td>{in_ns2}</td>") } else { String::new() },
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
    html.push_str("</tbody></table></div>\n</details>\n");
    ns2(html, group);
}

/// Writes the cells that ns-2 ran beside those measured.
fn ns2(html: &mut String, group: &Group<'_>) {
    let rows = || group.sections.iter().flat_map(|s| s.found.ns2.iter().map(move |row| (s, row)));
    let agree = rows().filter(|(_, row)| row.agrees() == Some(true)).count();
    let of = rows().filter(|(_, row)| row.agrees().is_some()).count();
    if rows().next().is_none() {
        return;
    }
    let about = group.collection.and_then(|c| c.ns2().ok());
    let about = about.map_or_else(String::new, |ns2| {
        format!("ns-2 {} ran them on {} ({}). ", ns2.version, ns2.date, ns2.script)
    });
    let _ = writeln!(
        html,
        "<details id=\"ns2\"><summary>The same cells in ns-2: no difference seen in {agree} of {of}</summary>\n<p>{}Only \
         cells whose protocols ns-2 has can be compared. Means with 95 % intervals, under the plain reading. The \
         ratio is that of the means. No difference is <i>seen</i> if the intervals overlap, which wide ones do \
         easily, or if the means differ by at most 2 %.</p>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"numbers\">\n<thead><tr>\
         <th>Cell</th><th>Windward</th><th>ns-2</th><th>Ratio</th><th>Difference</th></tr></thead>\n<tbody>",
        escape(&about)
    );
    for (section, row) in rows() {
        let Ns2Row { what, theirs, seeds, ours } = row;
        let ratio = ours.map(|ours| ours.mean / theirs.mean).filter(|ratio| ratio.is_finite());
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{id}</a><br><code>{}</code></td><td>{}</td>\
             <td>{}<br><small>{seeds} runs</small></td><td>{}</td><td>{}</td></tr>",
            escape(what),
            ours.map_or_else(|| "\u{2013}".to_owned(), interval),
            interval(*theirs),
            ratio.map_or_else(|| "\u{2013}".to_owned(), number),
            match row.agrees() {
                Some(true) => "none seen",
                Some(false) => "differ",
                None => "",
            },
            id = escape(&section.id),
        );
    }
    html.push_str("</tbody></table></div>\n</details>\n");
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
