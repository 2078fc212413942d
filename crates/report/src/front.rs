//! First page of a reproduction: verdicts claim by claim, and links to all figures.

use std::fmt::Write;

use windward_experiments::claims::{ClaimResult, Verdict};

use crate::charts::{charts, heading};
use crate::group::Group;
use crate::lead::{Found, Lead};
use crate::page::{Provenance, Standing, badge_of, count as counted, facts};
use crate::plot::escape;
use crate::square;
use crate::words::{self, Tally};

/// The lead of a reproduction: claims and their verdicts, paper by paper.
#[derive(Debug)]
pub(crate) struct Reproduction;

impl Lead for Reproduction {
    fn title(&self, groups: &[Group<'_>]) -> &str {
        title(groups)
    }

    fn name(&self) -> &str {
        "All claims"
    }

    fn front(&self, html: &mut String, found: &Found<'_>) -> Vec<(&'static str, String)> {
        let Found { groups, about, standing, .. } = found;
        header(html, groups, about, standing);
        // The figures of a user's own experiments are few.
        for section in groups.iter().filter(|group| group.is_own()).flat_map(|g| &g.sections) {
            let heading = escape(&heading(section));
            let _ = writeln!(html, "<section class=\"figure\">\n<h2>{heading}</h2>");
            charts(html, section, None, "h3");
            html.push_str("</section>\n");
        }
        claims(html, groups);
        contents(html, groups);
        Vec::new()
    }
}

fn title(groups: &[Group<'_>]) -> &'static str {
    if groups.iter().all(Group::is_own) {
        "Your experiments"
    } else {
        "Reproduced figures and claims"
    }
}

/// Counts in words, and each claim as a square, a row for each paper.
fn header(html: &mut String, groups: &[Group<'_>], about: &Provenance, standing: &Standing) {
    let _ = writeln!(html, "<header>\n<h1>{}</h1>", title(groups));
    unfinished(html, groups, standing);
    let with_claims: Vec<&Group<'_>> = groups.iter().filter(|g| g.has_claims()).collect();
    let all = Tally::of("", with_claims.iter().flat_map(|g| g.squares()));
    if all.claims > 0 {
        in_words(html, &all, &with_claims);
    }
    html.push_str("</header>\n");
    if all.claims > 0 {
        html.push_str("<div class=\"picture\">\n");
        for group in &with_claims {
            picture(html, group);
        }
        html.push_str("</div>\n");
        square::key(html, &with_claims);
        judged(html, groups);
    }
    let others: Vec<String> = groups
        .iter()
        .filter(|g| !g.has_claims())
        .map(|g| format!("<a href=\"{}\">{}</a>", escape(&g.page()), escape(g.title)))
        .collect();
    if !others.is_empty() {
        let _ = writeln!(html, "<p>Without claims: {}.</p>", others.join(", "));
    }
    let sections = || groups.iter().flat_map(|g| &g.sections);
    let runs: usize = sections().map(|s| s.origin.runs).sum();
    let _ = writeln!(
        html,
        "<details><summary>{}, {} in figures: date, machine, command</summary>",
        counted(sections().count(), "experiment"),
        counted(runs, "run")
    );
    facts(html, &Group::efforts(groups), about);
    html.push_str("</details>\n");
}

/// The counts of all claims in words.
fn in_words(html: &mut String, all: &Tally, groups: &[&Group<'_>]) {
    let noun = if groups.iter().all(|g| g.is_paper()) { "paper" } else { "source" };
    let mut text = counted(all.claims, "claim");
    if groups.len() > 1 {
        let _ = write!(text, " of {}", counted(groups.len(), noun));
    }
    let held = all.plainly.held;
    let _ = write!(text, ". Plainly <b>{held}</b> {} held", are(held));
    let others = Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::Held);
    for (n, verdict) in others.map(|v| (all.plainly.get(v), v)).filter(|(n, _)| *n > 0) {
        let _ = write!(text, ", <b>{n}</b> {verdict}");
    }
    let owed = all.owed();
    if !owed.is_empty() {
        let _ = write!(text, ". Of the {held} held ones {owed}; a claim may have several of these");
    }
    let rest = [
        (all.assumptions, format!("held with assumptions that the {noun} does not make")),
        (all.search, "held with assumptions in a search, and left open by these runs".to_owned()),
        (all.none, "held in none of their worlds".to_owned()),
        (all.undecided, "undecided".to_owned()),
        (all.to_come, "still to come".to_owned()),
    ];
    let rest = rest.iter().filter(|(n, _)| *n > 0);
    let rest = rest.map(|(n, words)| format!("<b>{n}</b> {} {words}", are(*n)));
    let rest = rest.collect::<Vec<_>>().join(", ");
    if !rest.is_empty() {
        let _ = write!(text, ". Of the others {rest}");
    }
    let _ = writeln!(html, "<p>{text}.{}</p>", quick(groups));
}

/// A warning, if the runs are short.
fn quick(groups: &[&Group<'_>]) -> &'static str {
    let mut sections = groups.iter().flat_map(|group| &group.sections);
    match sections.any(|section| section.origin.effort == "quick") {
        true => {
            " These are quick runs, shorter than those of the papers and few; <code>--full</code> has more."
        }
        false => "",
    }
}

/// `is` or `are`.
fn are(n: usize) -> &'static str {
    if n == 1 { "is" } else { "are" }
}

/// A paper with its claims as squares.
fn picture(html: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        html,
        "<article class=\"card\">\n<h2><a href=\"{}\">{}</a></h2>",
        escape(&group.page()),
        escape(group.title)
    );
    let byline = group.byline();
    if !byline.is_empty() {
        let _ = writeln!(html, "<p class=\"byline\">{}. {}</p>", group.key, escape(&byline));
    }
    html.push_str("<div>\n");
    square::row(html, group);
    let _ =
        writeln!(html, "<p class=\"tally\">{}</p>\n</div>\n</article>", group.tally().sentence());
}

/// How claims are judged, folded.
fn judged(html: &mut String, groups: &[Group<'_>]) {
    let claims = || groups.iter().flat_map(|g| &g.claims).filter(|c| c.is_judged());
    let all: usize = claims().map(|claim| claim.of()).sum();
    let left_out = match claims().map(|claim| claim.left_out).sum() {
        0 => String::new(),
        n => format!(
            ", without {} that would take longest (<code>--all-readings</code> includes them)",
            counted(n, "reading")
        ),
    };
    let _ = writeln!(
        html,
        "<details><summary>How a claim is judged</summary>\n<p>A claim holds if each of its checks \
         holds. A check is repeated until its confidence interval, which allows for repeated looks, \
         excludes the bound, else it is inconclusive. An order of two equal values is a tie, which does not \
         break a claim; a claim all of whose orders are ties is a tie.</p>\n\
         <p>Where a paper leaves a choice open, the <b>plain reading</b> takes the paper\u{2019}s words \
         elsewhere, else a source that it cites, else the default of its simulator, else the standard of \
         the time. Any other value is an <b>assumption</b>, and a value for one protocol alone counts \
         twice. A <b>world</b> is a value for each choice. The claims were judged in {}{left_out}.</p>\n\
         </details>",
        counted(all, "reading")
    );
}

/// Remark on missing parts, if there are any.
fn unfinished(html: &mut String, groups: &[Group<'_>], standing: &Standing) {
    let claims = groups.iter().flat_map(|g| &g.claims);
    let open = claims.filter(|c| !c.is_finished()).count();
    let missing = match (standing.to_come, open) {
        (0, 0) if !standing.running => return,
        (0, 0) => "the last pages are being written".to_owned(),
        (0, open) => format!("still to be judged under all readings: {}", counted(open, "claim")),
        (experiments, 0) => format!("still to come: {}", counted(experiments, "experiment")),
        (experiments, open) => format!(
            "still to come: {} and verdicts on {}",
            counted(experiments, "experiment"),
            counted(open, "claim")
        ),
    };
    let state = if standing.running { "Still running" } else { "Interrupted" };
    let left = standing.left.as_ref().map(|left| format!(", about {left} left"));
    let left = left.unwrap_or_default();
    let _ = writeln!(html, "<p class=\"why\"><b>{state}</b>: {missing}{left}.</p>");
}

/// Table of all claims, folded.
fn claims(html: &mut String, groups: &[Group<'_>]) {
    if !groups.iter().any(Group::has_claims) {
        return;
    }
    html.push_str("<details id=\"claims\"><summary>Every claim in words</summary>\n");
    for group in groups.iter().filter(|g| g.has_claims()) {
        let _ = writeln!(
            html,
            "<h2>{}</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"claims\">\n<thead><tr>\
             <th>Claim</th><th>Plain</th><th>{}</th><th>Answer</th></tr></thead>\n<tbody>",
            escape(group.title),
            group.heading_of_claims()
        );
        for claim in group.squares() {
            row(html, group, claim);
        }
        html.push_str("</tbody></table></div>\n");
    }
    html.push_str("</details>\n");
}

fn row(html: &mut String, group: &Group<'_>, claim: &ClaimResult) {
    let edition = words::edition(claim);
    let edition = match edition.as_str() {
        "" => edition,
        text => format!("<br><small>{}</small>", escape(text)),
    };
    let _ = writeln!(
        html,
        "<tr><td><a href=\"{}\">{}</a> {}</td><td>{}</td><td>{}{edition}</td><td>{}</td></tr>",
        escape(&group.place_of(claim)),
        escape(&claim.id),
        square::small(claim),
        badge_of(claim),
        escape(&claim.claim),
        escape(&words::answer(claim)),
    );
}

/// A link to every section.
fn contents(html: &mut String, groups: &[Group<'_>]) {
    html.push_str(
        "<nav id=\"contents\" aria-label=\"Contents\">\n<details><summary>Every figure</summary>\n<div \
         class=\"columns\">\n",
    );
    for group in groups {
        let page = escape(&group.page());
        let _ =
            writeln!(html, "<div>\n<h2><a href=\"{page}\">{}</a></h2>\n<ul>", escape(group.title));
        for section in &group.sections {
            let _ = writeln!(
                html,
                "<li><a href=\"{page}#{}\">{}</a></li>",
                escape(&section.id),
                escape(&heading(section))
            );
        }
        html.push_str("</ul>\n</div>\n");
    }
    html.push_str("</div>\n</details>\n</nav>\n");
}
