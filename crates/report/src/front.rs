//! First page of a reproduction: verdicts claim by claim, and links to all figures.

use std::fmt::Write;

use windward_experiments::builtin::Collection;
use windward_experiments::claims::{ClaimResult, Verdict};

use crate::figure;
use crate::group::Group;
use crate::lead::{Found, Lead};
use crate::page::{Provenance, Standing, badge_of, class, count as counted, counter, facts, prose};
use crate::plot::escape;
use crate::worlds;

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
        header(html, groups, about, *standing);
        // The figures of a user's own experiments are few.
        for section in groups.iter().filter(|group| group.is_own()).flat_map(|g| &g.sections) {
            let heading = escape(&figure::heading(section));
            let _ = writeln!(html, "<section class=\"figure\">\n<h2>{heading}</h2>");
            figure::charts(html, section);
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

/// Introduction, counts of verdicts, and one card a paper.
fn header(html: &mut String, groups: &[Group<'_>], about: &Provenance, standing: Standing) {
    let sections = || groups.iter().flat_map(|g| &g.sections);
    let claims = || groups.iter().flat_map(|g| &g.claims);
    let runs: usize = sections().map(|s| s.origin.runs).sum();
    let judged = || claims().filter(|c| c.is_judged());
    let count = |verdict| judged().filter(|c| c.verdict == verdict).count();
    let _ = writeln!(html, "<header>\n<h1>{}</h1>", title(groups));
    unfinished(html, groups, standing);
    let _ = writeln!(
        html,
        "<p>Windward simulates congestion control packet by packet and checks claims about it. This \
         report has {} with {} in figures, and verdicts on {}{}.</p>",
        counted(sections().count(), "experiment"),
        counted(runs, "run"),
        counted(claims().count(), "claim"),
        own_claims(groups)
    );
    if claims().next().is_some() {
        html.push_str("<ul class=\"counts totals\">\n");
        for verdict in Verdict::ALL {
            counter(html, count(verdict), &verdict.to_string(), class(verdict));
        }
        let open = claims().count() - judged().count();
        if open > 0 {
            counter(html, open, "still to come", "open");
        }
        html.push_str("</ul>\n");
        if judged().any(|claim| claim.of() > 1 || claim.worlds.search.is_some()) {
            worlds::squares(html, groups);
            readings(html, judged().copied());
        }
        html.push_str(
            "<p>A claim holds if each of its checks holds. A check is repeated until its confidence \
             interval, which allows for repeated looks, excludes the bound. If it still contains the \
             bound after the permitted runs, the check is inconclusive. A tie is an order claimed of \
             two equal values.</p>\n",
        );
    }
    facts(html, &Group::efforts(groups), about);
    let cards: Vec<&Group<'_>> = groups.iter().filter(|g| is_card(g)).collect();
    let is_one = groups.len() == 1 && groups[0].is_own();
    if !is_one && !cards.is_empty() {
        html.push_str("<div class=\"cards\">\n");
        for group in cards {
            card(html, group);
        }
        html.push_str("</div>\n");
    }
    html.push_str("</header>\n");
}

/// The plain reading, and the verdicts under the others.
fn readings<'a>(html: &mut String, judged: impl Iterator<Item = &'a ClaimResult> + Clone) {
    let counts = judged.clone().map(ClaimResult::counts);
    let some = counts.clone().filter(|c| c.held > 0).count();
    let none = counts.filter(|c| c.is_none()).count();
    let all: usize = judged.clone().map(ClaimResult::of).sum();
    let left_out: usize = judged.clone().map(|c| c.left_out).sum();
    let others = match left_out {
        0 => "every other reasonable value of each choice".to_owned(),
        n => format!(
            "other reasonable values of each choice, except for {} that would take longest \
             (<code>--all-readings</code> includes them)",
            counted(n, "reading")
        ),
    };
    let _ = writeln!(
        html,
        "<p>The counts above are verdicts under the <b>plain reading</b>. Where a paper leaves a \
         choice open, it takes the paper\u{2019}s own words elsewhere, else the default of the \
         simulator that the paper used, else the standard of the time. Each claim was also judged \
         under {others}: {} in all. {some} of {} under at least one reading, {none} under none, and \
         {} undecided under some and under none of the others.</p>",
        counted(all, "reading"),
        match judged.clone().count() {
            1 => "1 claim holds".to_owned(),
            n => format!("{n} claims hold"),
        },
        match judged.count() - some - none {
            1 => "1 is".to_owned(),
            n => format!("{n} are"),
        }
    );
}

/// Number of the user's own claims, if there are any, as an apposition.
fn own_claims(groups: &[Group<'_>]) -> String {
    let own: usize = groups.iter().filter(|g| g.is_own()).map(|g| g.claims.len()).sum();
    if own > 0 { format!(", {own} of them your own") } else { String::new() }
}

/// Remark on missing parts, if there are any.
fn unfinished(html: &mut String, groups: &[Group<'_>], standing: Standing) {
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
    let _ = writeln!(html, "<p class=\"why\"><b>{state}</b>: {missing}.</p>");
}

/// True for papers, and for other groups with claims.
fn is_card(group: &Group<'_>) -> bool {
    group.collection.is_some_and(Collection::is_paper) || !group.claims.is_empty()
}

fn card(html: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        html,
        "<article class=\"card\">\n<h2><a href=\"{}\">{}</a></h2>",
        escape(&group.page()),
        escape(group.title)
    );
    let byline = group.byline();
    if !byline.is_empty() {
        let _ = writeln!(html, "<p class=\"byline\">{}</p>", escape(&byline));
    }
    if !group.claims.is_empty() {
        html.push_str("<ul class=\"counts\">\n");
        for verdict in Verdict::ALL {
            if verdict != Verdict::Tie || group.count(verdict) > 0 {
                counter(html, group.count(verdict), &verdict.to_string(), class(verdict));
            }
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</article>\n");
}

/// Table of all claims, with the words of the paper.
fn claims(html: &mut String, groups: &[Group<'_>]) {
    if groups.iter().all(|g| g.claims.is_empty()) {
        return;
    }
    html.push_str("<section class=\"part\" id=\"claims\">\n<h2>Every claim</h2>\n");
    for group in groups.iter().filter(|g| !g.claims.is_empty()) {
        let _ = writeln!(
            html,
            "<h3><a href=\"{}\">{}</a></h3>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"claims\">\n\
             <thead><tr><th>Claim</th><th>Verdict</th><th>Holds in readings</th><th>{}</th>\
             <th>Deciding reading, or reason</th></tr></thead>\n<tbody>",
            escape(&group.page()),
            escape(group.title),
            group.heading_of_claims()
        );
        for claim in &group.claims {
            row(html, group, claim);
        }
        html.push_str("</tbody></table></div>\n");
    }
    html.push_str("</section>\n");
}

fn row(html: &mut String, group: &Group<'_>, claim: &ClaimResult) {
    let decides = match claim.deciding()[..] {
        _ if !claim.is_judged() => String::new(),
        [] => claim.explanation().map(str::to_owned).unwrap_or_default(),
        [first, ref more @ ..] => {
            let more = match more.len() {
                0 => String::new(),
                n => format!(" (and {n} more)"),
            };
            format!("{}: {}{more}", first.title(), first.verdict)
        }
    };
    let mut readings = String::new();
    if claim.is_judged() {
        let _ = write!(readings, "{} of {}", claim.held(), claim.of());
        let more = match (claim.left_out, claim.to_come) {
            (0, 0) => String::new(),
            (more, 0) => format!("{more} not judged"),
            (_, more) => format!("{more} to come"),
        };
        let others = if claim.of() > 1 { claim.counts().others() } else { String::new() };
        for small in [others, more].iter().filter(|text| !text.is_empty()) {
            let _ = write!(readings, "<br><small>{small}</small>");
        }
    }
    let calibrated = if claim.calibrated.is_empty() { "" } else { "<br><small>calibrated</small>" };
    let _ = writeln!(
        html,
        "<tr><td><a href=\"{}#{id}\">{id}</a></td><td>{}{}{calibrated}</td><td>{readings}</td>\
         <td>{}{}</td><td>{}</td></tr>",
        escape(&group.page()),
        badge_of(claim),
        worlds::small_edition(claim),
        escape(&claim.claim),
        quotes(group, claim),
        prose(&decides),
        id = escape(&claim.id),
    );
}

/// Sentences of the paper about the values that a claim checks, each with its place.
fn quotes(group: &Group<'_>, claim: &ClaimResult) -> String {
    let sections = group.sections.iter().filter(|s| s.id == claim.figure);
    let rows = sections.flat_map(|s| &s.found.reported);
    let begins =
        |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || "_-:".contains(c));
    let checked = |what: &str| {
        let mut texts = claim.checks.iter().map(|check| check.text.as_str());
        texts.any(|text| text.match_indices(what).any(|(at, _)| begins(&text[..at])))
    };
    let mut quotes: Vec<String> = Vec::new();
    for row in rows.filter(|row| checked(&row.what)) {
        let quote =
            format!("<br><q>{}</q> <small>({})</small>", escape(&row.words), escape(&row.source));
        if !quotes.contains(&quote) {
            quotes.push(quote);
        }
    }
    quotes.concat()
}

/// A link to every section.
fn contents(html: &mut String, groups: &[Group<'_>]) {
    html.push_str("<nav id=\"contents\" aria-label=\"Contents\">\n<h2>Every figure</h2>\n<div class=\"columns\">\n");
    for group in groups {
        let page = escape(&group.page());
        let _ =
            writeln!(html, "<div>\n<h3><a href=\"{page}\">{}</a></h3>\n<ul>", escape(group.title));
        for section in &group.sections {
            let _ = writeln!(
                html,
                "<li><a href=\"{page}#{}\">{}</a></li>",
                escape(&section.id),
                escape(&figure::heading(section))
            );
        }
        html.push_str("</ul>\n</div>\n");
    }
    html.push_str("</div>\n</nav>\n");
}
