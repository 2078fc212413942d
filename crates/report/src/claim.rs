//! A claim: its row on the page of its paper, and its own page.

use std::fmt::Write;

use windward_experiments::claims::{
    Belief, CheckResult, ClaimResult, Control, ControlVerdict, ReadingResult, Verdict,
};
use windward_experiments::experiment::History;

use crate::charts::{charts, heading};
use crate::group::Group;
use crate::page::{badge, badge_of, count, prose};
use crate::plot::escape;
use crate::section::{ExperimentSection, ReportedRow};
use crate::square;
use crate::words;

/// Checks that are shown outright; of more, only those that decide.
const FEW_CHECKS: usize = 6;

/// Writes a row for each claim that is not of a suite.
pub(crate) fn rows(html: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        html,
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"rows\">\n<thead><tr><th>Claim</th><th>{}</th>\
         <th>Stated number</th><th>Plain</th><th>Nearest world</th></tr></thead>\n<tbody>",
        if group.is_paper() { "The paper" } else { "In words" }
    );
    for claim in group.squares() {
        row(html, group, claim);
    }
    html.push_str(
        "</tbody></table></div>\n<p class=\"legend\">Plain has the check that turns in the nearest world, \
         else the one that holds most narrowly or fails most clearly. The basis of an assumption \
         follows in parentheses.</p>\n",
    );
}

fn row(html: &mut String, group: &Group<'_>, claim: &ClaimResult) {
    let place = escape(&group.place_of(claim));
    let id = escape(&claim.id);
    let _ = writeln!(
        html,
        "<tr id=\"{id}\"><th><a href=\"{place}\">{id}</a> {}</th>\n<td>{}{}</td>\n<td>{}</td>",
        square::small(claim),
        sentence(claim),
        not_checked(claim),
        stated(group, claim)
    );
    let nearest = nearest(claim);
    let (here, there) = telling(claim, nearest);
    let mut plain = badge_of(claim);
    let edition = words::edition(claim);
    if !edition.is_empty() {
        let _ = write!(plain, " <small>{}</small>", escape(&edition));
    }
    if let Some(check) = here {
        let _ = write!(plain, "<br>{}<br>{}", code(&check.text), escape(&check.measured()));
    }
    let mut world = String::new();
    match nearest {
        Some(reading) => {
            world.push_str(begin(claim, reading));
            world += &assumptions(reading);
            let _ = write!(world, "<br>{}", verdict_of(reading));
            if let (Some(here), Some(there)) = (here, there) {
                let _ = write!(world, " {}", escape(&there.measured_beside(here)));
            }
            if let Some(nearer) = words::nearer(claim) {
                let _ = write!(world, "<br><small>{nearer}</small>");
            }
        }
        None if claim.verdict == Verdict::Held => {
            let search = claim.worlds.search.as_ref().map(words::of_search);
            world += &escape(&search.unwrap_or_else(|| claim.in_readings()));
        }
        None => world += &escape(&words::answer(claim)),
    }
    let _ = writeln!(html, "<td>{plain}</td>\n<td>{world}</td></tr>");
}

/// The sentence of the paper with its place; without one, the claim in words.
fn sentence(claim: &ClaimResult) -> String {
    match (&claim.history.quote, &claim.history.place) {
        (Some(quote), Some(place)) => {
            format!("<q>{}</q> <small>({})</small>", escape(quote), escape(place))
        }
        _ => escape(&claim.claim),
    }
}

/// The parts of the sentence that no check has.
fn not_checked(claim: &ClaimResult) -> String {
    let parts = &claim.history.not_checked;
    if parts.is_empty() {
        return String::new();
    }
    let parts = parts.iter().map(|part| prose(part.trim_end_matches('.')));
    let parts: Vec<String> = parts.collect();
    format!("<br><small class=\"unchecked\"><b>Not checked:</b> {}</small>", parts.join("; "))
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escape(text))
}

/// The numbers of the paper that the checks of a claim compare.
fn stated(group: &Group<'_>, claim: &ClaimResult) -> String {
    let rows = group.section_of(claim).into_iter().flat_map(|s| &s.found.reported);
    let rows = rows.filter(|row| is_checked(claim, row));
    let number = |row: &ReportedRow| {
        let how = if row.digitised { "digitised, " } else { "" };
        let unit = if row.unit.is_empty() { String::new() } else { format!(" {}", row.unit) };
        format!("{}{unit} <small>({how}{})</small>", row.paper(), escape(&row.what))
    };
    let numbers: Vec<String> = rows.map(number).collect();
    if numbers.is_empty() { "\u{2013}".to_owned() } else { numbers.join("<br>") }
}

/// True if one check of the claim has all cells of a number of the paper.
fn is_checked(claim: &ClaimResult, row: &ReportedRow) -> bool {
    claim.checks.iter().any(|check| {
        let there = |cell: &String| check.cells.iter().any(|known| known.name == *cell);
        !row.cells.is_empty() && row.cells.iter().all(there)
    })
}

/// The reading in which the verdict changes with the fewest assumptions.
fn nearest(claim: &ClaimResult) -> Option<&ReadingResult> {
    match claim.belief() {
        Belief::Assumptions(reading) | Belief::Found(reading) => Some(reading),
        Belief::Nothing => {
            let found = claim.worlds.nearest.as_ref().map(|world| &world.reading);
            found.or_else(|| claim.deciding().first().copied())
        }
        Belief::ToCome | Belief::NoneOf(_) | Belief::Undecided => None,
    }
}

/// The checks that tell the plain verdict and the one in another reading: the one that turns, if
/// there is one.
fn telling<'a>(
    claim: &'a ClaimResult,
    reading: Option<&'a ReadingResult>,
) -> (Option<&'a CheckResult>, Option<&'a CheckResult>) {
    if let Some((here, there)) = reading.and_then(|reading| claim.turned(reading)) {
        return (Some(here), Some(there));
    }
    let here = decisive(&claim.checks, claim.verdict).or(claim.checks.first());
    (here, reading.and_then(|reading| decisive(&reading.checks, reading.verdict)))
}

/// The check with the verdict of the claim that holds most narrowly, or fails most clearly.
fn decisive(checks: &[CheckResult], verdict: Verdict) -> Option<&CheckResult> {
    let decisive = checks.iter().filter(|check| check.verdict == verdict);
    let by_distance = |a: &&CheckResult, b: &&CheckResult| distance(a).total_cmp(&distance(b));
    match verdict {
        Verdict::NotHeld => decisive.max_by(by_distance),
        _ => decisive.min_by(by_distance),
    }
}

/// The distance of an interval from its bound, as a share of the larger side; none without numbers.
fn distance(check: &CheckResult) -> f64 {
    let (Some(left), Some(right), Some(difference)) = (check.left, check.right, check.difference)
    else {
        return 0.0;
    };
    let size = left.mean.abs().max(right.mean.abs());
    let end = difference.low.abs().min(difference.high.abs());
    if size > 0.0 { end / size } else { 0.0 }
}

/// The assumptions of a reading, each in a line.
fn assumptions(reading: &ReadingResult) -> String {
    let lines = reading.words.iter().map(|word| escape(&words::assumption(word)));
    lines.collect::<Vec<_>>().join("<br>")
}

/// Words before the assumptions of the nearest world.
fn begin(claim: &ClaimResult, reading: &ReadingResult) -> &'static str {
    match (claim.verdict, reading.verdict) {
        (Verdict::Held, Verdict::NotHeld) => "fails with ",
        (Verdict::Held, _) => "fails, in a search, with ",
        (_, Verdict::Held) => "holds with ",
        _ => "holds, in a search, with ",
    }
}

/// The verdict in a world.
fn verdict_of(reading: &ReadingResult) -> String {
    if reading.is_judged() { badge(reading.verdict) } else { "still to come".to_owned() }
}

/// Writes the page of a claim.
pub(crate) fn page(html: &mut String, group: &Group<'_>, claim: &ClaimResult, front: &str) {
    let id = escape(&claim.id);
    let _ = write!(
        html,
        "<nav class=\"trail\" aria-label=\"Pages\"><a href=\"index.html\">{front}</a> <a \
         href=\"{}\">{}</a>",
        escape(&group.page()),
        escape(group.key)
    );
    for other in group.claims.iter().filter(|claim| claim.asked.is_none()) {
        let here = std::ptr::eq(*other, claim);
        let here = if here { " aria-current=\"page\"" } else { "" };
        let place = escape(&group.place_of(other));
        let _ = write!(html, " <a href=\"{place}\"{here}>{}</a>", escape(&other.id));
    }
    let _ = writeln!(
        html,
        "</nav>\n<header>\n<h1>{id}. {}</h1>\n<p class=\"byline\">{}</p>\n</header>",
        escape(&claim.claim),
        escape(group.title)
    );
    if let (Some(quote), Some(place)) = (&claim.history.quote, &claim.history.place) {
        let _ = writeln!(
            html,
            "<blockquote><q>{}</q> <small>({})</small></blockquote>",
            escape(quote),
            escape(place)
        );
    }
    let answer = match claim.belief() {
        Belief::Nothing | Belief::ToCome => String::new(),
        _ => format!(". Answer: {}", escape(&words::answer(claim))),
    };
    let nearer = words::nearer(claim).map_or_else(String::new, |nearer| format!("; {nearer}"));
    let _ = writeln!(
        html,
        "<p>{} Plainly {}{}{nearer}.</p>\n<p class=\"setting\">Holds if: {}.</p>",
        square::small(claim),
        badge_of(claim),
        answer,
        escape(claim.expected.trim_end_matches('.'))
    );
    body(html, group, claim);
}

/// Writes a claim of a suite among those of its experiment.
pub(crate) fn block(html: &mut String, claim: &ClaimResult) {
    let _ = writeln!(
        html,
        "<article id=\"{}\">\n<h4>{} {}</h4>\n<p>{}</p>\n<p><small>Holds if: {}</small></p>",
        escape(&claim.id),
        escape(&claim.id),
        badge_of(claim),
        escape(&claim.claim),
        escape(&claim.expected)
    );
    checks(html, claim);
    why(html, claim);
    readings(html, claim);
    html.push_str("</article>\n");
}

fn body(html: &mut String, group: &Group<'_>, claim: &ClaimResult) {
    if !claim.history.not_checked.is_empty() {
        html.push_str("<p><b>Not checked</b></p>\n<ul>\n");
        for part in &claim.history.not_checked {
            let _ = writeln!(html, "<li>{}</li>", prose(part));
        }
        html.push_str("</ul>\n");
    }
    for choice in words::calibrated(claim) {
        let choice = escape(&choice);
        let _ = writeln!(
            html,
            "<p class=\"setting\"><b>Plain value without a source</b>: {choice}.</p>"
        );
    }
    html.push_str("<h2>Checks</h2>\n");
    checks(html, claim);
    html.push_str(
        "<p class=\"legend\">Intervals have 95 % over all looks at a check and its alternatives. Few runs of \
         a skewed number, as timeouts, can miss more often. Runs are those of the look that decided.</p>\n",
    );
    editions(html, claim);
    world(html, claim);
    if is_explained(claim) {
        html.push_str("<h2>Explanation</h2>\n");
        why(html, claim);
    }
    if let Some(section) = group.section_of(claim) {
        let _ = writeln!(html, "<h2>{}</h2>", escape(&heading(section)));
        charts(html, section, Some(&claim.id), "h3");
        how(html, group, section);
        let own = |section: &&ExperimentSection| section.id == claim.figure;
        for other in involved(group, claim).into_iter().filter(|section| !own(section)) {
            let _ = writeln!(html, "<h3>{}</h3>", escape(&heading(other)));
            how(html, group, other);
        }
    }
    readings(html, claim);
}

/// The experiments whose cells the checks of a claim compare.
fn involved<'a>(group: &Group<'a>, claim: &ClaimResult) -> Vec<&'a ExperimentSection> {
    let names = |section: &&ExperimentSection| {
        let begin = format!("{}:", section.id);
        claim.checks.iter().flat_map(|c| &c.cells).any(|cell| cell.name.starts_with(&begin))
    };
    group.sections.iter().copied().filter(names).collect()
}

/// Writes how an experiment was run, and where the rest stands.
fn how(html: &mut String, group: &Group<'_>, section: &ExperimentSection) {
    let page = escape(&group.page());
    let choices = match section.method.readings.len() + section.method.choices.len() {
        0 => String::new(),
        _ => format!("<a href=\"{page}#choices\">Choices</a> \u{b7} "),
    };
    let _ = writeln!(
        html,
        "<p class=\"setting\">{} {} {choices}<a href=\"{page}#{}\">Numbers and whole scenarios</a></p>",
        escape(&section.method.setting),
        escape(&section.method.lengths),
        escape(&section.id)
    );
}

/// Writes the checks: all if they are few, else those that decide, and the others folded.
fn checks(html: &mut String, claim: &ClaimResult) {
    let all: Vec<&CheckResult> = claim.checks.iter().collect();
    if all.len() <= FEW_CHECKS {
        return table(html, &all);
    }
    let (decide, rest): (Vec<&CheckResult>, Vec<&CheckResult>) =
        all.iter().partition(|check| check.verdict == claim.verdict);
    let (shown, more) = decide.split_at(decide.len().min(FEW_CHECKS));
    table(html, shown);
    let rest: Vec<&CheckResult> = more.iter().chain(&rest).copied().collect();
    let verdicts = Verdict::ALL.map(|v| (v, rest.iter().filter(|c| c.verdict == v).count()));
    let verdicts = verdicts.iter().filter(|(_, n)| *n > 0).map(|(v, n)| format!("{n} {v}"));
    let verdicts: Vec<String> = verdicts.collect();
    let _ = writeln!(
        html,
        "<details><summary>{}: {}</summary>",
        count(rest.len(), "more check"),
        verdicts.join(", ")
    );
    table(html, &rest);
    html.push_str("</details>\n");
}

fn table(html: &mut String, checks: &[&CheckResult]) {
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"checks\">\n<thead><tr><th>Check</th><th>Verdict</th>\
         <th>Measured [interval]</th><th>Runs</th><th>Edition</th><th>Control</th></tr></thead>\n\
         <tbody>\n",
    );
    for check in checks {
        let mut measured = escape(&check.measured());
        if let (Some(trouble), Some(_)) = (&check.trouble, check.difference) {
            let _ = write!(measured, " ({})", escape(trouble));
        }
        let was = check.was.as_ref().map(|was| format!("<br><small>was: {}</small>", code(was)));
        let _ = writeln!(
            html,
            "<tr><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            code(&check.text),
            was.unwrap_or_default(),
            badge(check.verdict),
            measured,
            check.repetitions,
            check.edition,
            check.control.as_ref().map_or_else(String::new, control)
        );
    }
    html.push_str("</tbody></table></div>\n");
}

/// The control of a check: `sound`, or what is wrong with its bound.
fn control(control: &Control) -> String {
    let (words, reason) = (control.verdict.words(), escape(&control.reason));
    match control.verdict {
        ControlVerdict::Sound | ControlVerdict::Untested => {
            format!("<small title=\"{reason}\">{words}</small>")
        }
        ControlVerdict::TooStrict | ControlVerdict::TooLax => {
            format!("<b>{words}</b><br><small>{reason}</small>")
        }
    }
}

/// Writes what changed when results were known: the claim before, its verdict, the reason, and the
/// plain values before.
fn editions(html: &mut String, claim: &ClaimResult) {
    let edition = words::edition(claim);
    if edition.is_empty() && claim.formerly.is_empty() {
        return;
    }
    html.push_str("<h2>Changed when results were known</h2>\n");
    for (choice, formerly) in &claim.formerly {
        let _ = writeln!(
            html,
            "<p>Plain value of <b>{}</b>. Formerly: {}</p>",
            escape(choice),
            prose(formerly)
        );
    }
    if edition.is_empty() {
        return;
    }
    let History { before, changed, verdict_before, .. } = &claim.history;
    let _ = writeln!(
        html,
        "<p><b>{}{}</b>{}.</p>",
        edition[..1].to_uppercase(),
        escape(&edition[1..]),
        verdict_before.map_or_else(String::new, |_| format!(", now: {}", claim.verdict))
    );
    if let Some(before) = before {
        let badge = verdict_before.map_or_else(String::new, |verdict| badge(verdict) + " ");
        let _ = writeln!(html, "<p class=\"before\">Before: {badge}{}</p>", prose(before));
    }
    if let Some(changed) = changed {
        let _ = writeln!(html, "<p>{}</p>", prose(changed));
    }
}

/// Writes the nearest world in which the verdict is another, and the search for it.
fn world(html: &mut String, claim: &ClaimResult) {
    let nearest = nearest(claim);
    if nearest.is_none() && claim.worlds.search.is_none() {
        return;
    }
    let does = if claim.verdict == Verdict::Held { "fails" } else { "holds" };
    let _ = writeln!(html, "<h2>Nearest world in which it {does}</h2>");
    match (nearest, &claim.worlds.search) {
        (Some(reading), _) => {
            html.push_str("<ul>\n");
            for word in &reading.words {
                let _ = writeln!(
                    html,
                    "<li>{} <small>{}</small>",
                    escape(&words::assumption(word)),
                    prose(&word.source)
                );
                if let Some(result) = word.contradicted.as_ref().or(word.against.as_ref()) {
                    let _ = write!(html, " <small><b>Against it:</b> {}</small>", prose(result));
                }
                html.push_str("</li>\n");
            }
            html.push_str("</ul>\n");
            let _ = write!(html, "<p>{} there", verdict_of(reading));
            if let (Some(here), Some(there)) = telling(claim, Some(reading)) {
                let _ = write!(
                    html,
                    ". {}: {} plainly, {} there",
                    code(&here.text),
                    escape(&here.measured()),
                    escape(&there.measured_beside(here))
                );
            }
            html.push_str(".</p>\n");
        }
        (None, Some(search)) => {
            let answer = match claim.belief() {
                Belief::Nothing => words::of_search(search),
                _ => words::answer(claim),
            };
            let _ = writeln!(html, "<p>None: {}.</p>", escape(&answer));
        }
        (None, None) => {}
    }
    if let Some(search) = &claim.worlds.search {
        let nearer = words::nearer(claim).map_or_else(String::new, |nearer| format!("; {nearer}"));
        let _ = writeln!(
            html,
            "<p class=\"setting\">A search tried {} of {} worlds by few runs each, and judged {} by \
             more{nearer}.</p>",
            search.tried, search.of, search.held
        );
    }
}

/// True if there is a reason to show for the verdict.
fn is_explained(claim: &ClaimResult) -> bool {
    claim.is_judged() && (claim.explanation.is_some() || claim.verdict == Verdict::Inconclusive)
}

/// Writes the explanation, or why the claim is open.
fn why(html: &mut String, claim: &ClaimResult) {
    if !is_explained(claim) {
        return;
    }
    if let Some(explanation) = &claim.explanation {
        let _ = writeln!(html, "<p class=\"why\">{}</p>", prose(explanation));
        return;
    }
    let open = || claim.checks.iter().filter(|c| c.verdict == Verdict::Inconclusive);
    let without = open().filter(|c| c.difference.is_none()).count();
    let straddle = open().count() - without;
    let of = claim.checks.len();
    let mut reasons = Vec::new();
    if straddle > 0 {
        reasons.push(format!(
            "the intervals of {straddle} of {of} checks still contain their bound after the permitted \
             runs; more runs may decide"
        ));
    }
    if without > 0 {
        reasons.push(format!("{without} of {of} checks have no number"));
    }
    let _ = writeln!(html, "<p class=\"why\">Open: {}.</p>", reasons.join("; "));
}

/// Writes the verdict with each other value of a choice.
fn readings(html: &mut String, claim: &ClaimResult) {
    if claim.readings.is_empty() {
        if claim.to_come + claim.left_out > 0 {
            let words = escape(&claim.in_readings());
            let _ = writeln!(html, "<p class=\"setting\">Other readings: {words}.</p>");
        }
        return;
    }
    let _ = writeln!(
        html,
        "<details><summary>One choice at a time: {}</summary>\n<ul class=\"readings\">",
        escape(&claim.in_readings())
    );
    for reading in &claim.readings {
        let _ = write!(html, "<li>{} {}", badge(reading.verdict), assumptions(reading));
        if let (_, Some(check)) = telling(claim, Some(reading)) {
            let _ = write!(html, "<br>{}: {}", code(&check.text), escape(&check.measured()));
        }
        html.push_str("</li>\n");
    }
    html.push_str("</ul>\n</details>\n");
}
