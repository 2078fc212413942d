//! What the page opens with: the papers, their verdicts, and what else is on it.

use std::fmt::Write;

use crate::builtin::Collection;
use crate::claims::Verdict;
use crate::plot::escape;

use super::{Group, class};

/// Headline and one card a paper.
pub(super) fn header(html: &mut String, groups: &[Group<'_>]) {
    let sections = || groups.iter().flat_map(|g| &g.sections);
    let runs: usize = sections().map(|s| s.results.runs.len()).sum();
    let _ = writeln!(
        html,
        "<header>\n<h1>Reproduced figures and claims</h1>\n<p>{runs} simulated runs for {} \
         experiments. A claim holds if every check of it holds, and a check whose 95\u{a0}% \
         confidence interval straddles its bound is inconclusive. What counts as holding was \
         fixed before anything was measured.</p>",
        sections().count()
    );
    let cards: Vec<&Group<'_>> = groups.iter().filter(|g| is_card(g)).collect();
    if !cards.is_empty() {
        html.push_str("<div class=\"cards\">\n");
        for group in cards {
            card(html, group);
        }
        html.push_str("</div>\n");
    }
    html.push_str("</header>\n");
}

/// A paper has a card; so has anything else that claims something.
fn is_card(group: &Group<'_>) -> bool {
    group.collection.is_some_and(Collection::is_paper) || !group.claims.is_empty()
}

fn card(html: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        html,
        "<article class=\"card\">\n<h2><a href=\"#{}\">{}</a></h2>",
        escape(group.key),
        escape(group.title)
    );
    let byline = group.byline();
    if !byline.is_empty() {
        let _ = writeln!(html, "<p class=\"byline\">{}</p>", escape(&byline));
    }
    if !group.claims.is_empty() {
        html.push_str("<ul class=\"counts\">\n");
        for verdict in [Verdict::Held, Verdict::NotHeld, Verdict::Inconclusive] {
            let n = group.count(verdict);
            // What did not happen needs no colour.
            let class = if n == 0 { "none" } else { class(verdict) };
            let _ = writeln!(html, "<li class=\"{class}\"><b>{n}</b> {verdict}</li>");
        }
        html.push_str("</ul>\n<p class=\"claims\">");
        for claim in &group.claims {
            let _ = writeln!(
                html,
                "<a class=\"badge {}\" href=\"#{}\" title=\"{}: {}\">{}</a>",
                class(claim.verdict),
                escape(&claim.figure),
                claim.verdict,
                escape(&claim.claim.claim),
                escape(&claim.claim.id),
            );
        }
        html.push_str("</p>\n");
    }
    html.push_str("</article>\n");
}

/// A link to every section.
pub(super) fn contents(html: &mut String, groups: &[Group<'_>]) {
    html.push_str("<nav id=\"contents\">\n<h2>Contents</h2>\n<div class=\"columns\">\n");
    for group in groups {
        let _ = writeln!(
            html,
            "<div>\n<h3><a href=\"#{}\">{}</a></h3>\n<ul>",
            escape(group.key),
            escape(group.title)
        );
        for section in &group.sections {
            let experiment = &section.results.plan.experiment;
            let figure = experiment.figure.as_ref().map(|f| format!("{f}. "));
            let _ = writeln!(
                html,
                "<li><a href=\"#{}\">{}{}</a></li>",
                escape(&experiment.id),
                escape(&figure.unwrap_or_default()),
                escape(&experiment.title)
            );
        }
        html.push_str("</ul>\n</div>\n");
    }
    html.push_str("</div>\n</nav>\n");
}
