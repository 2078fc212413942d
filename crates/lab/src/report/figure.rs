//! One part of the page per collection: its claims in short, then a section per experiment.

use std::fmt::Write;

use windward_core::units::Duration;
use windward_sim::Scenario;

use crate::claims::{CheckResult, ClaimResult};
use crate::experiment::PlotKind;
use crate::plot::escape;
use crate::sweep::Results;

use super::{Group, Section, badge};

/// A collection with all its sections.
pub(super) fn part(html: &mut String, group: &Group<'_>) {
    let _ = writeln!(
        html,
        "<section class=\"part\" id=\"{}\">\n<h2>{}</h2>",
        escape(group.key),
        escape(group.title)
    );
    let byline = group.byline();
    if !byline.is_empty() {
        let _ = writeln!(html, "<p class=\"byline\">{}</p>", escape(&byline));
    }
    summary(html, &group.claims);
    for section in &group.sections {
        let id = &section.results.plan.experiment.id;
        let own: Vec<&ClaimResult> =
            group.claims.iter().copied().filter(|c| c.figure == *id).collect();
        figure(html, *section, &own);
    }
    html.push_str("</section>\n");
}

/// A row per claim.
fn summary(html: &mut String, claims: &[&ClaimResult]) {
    if claims.is_empty() {
        return;
    }
    html.push_str("<div class=\"scroll\"><table class=\"summary\">\n<thead><tr><th>Claim</th>");
    html.push_str("<th>Verdict</th><th>What the paper says</th><th>Held when</th>");
    html.push_str("<th>Measured</th></tr></thead>\n<tbody>\n");
    for claim in claims {
        let id = escape(&claim.claim.id);
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            badge(claim.verdict),
            escape(&claim.claim.claim),
            escape(&claim.claim.expected),
            in_short(claim),
        );
    }
    html.push_str("</tbody></table></div>\n");
}

/// The check that decides, and how many others there are.
fn in_short(claim: &ClaimResult) -> String {
    let decisive = claim.checks.iter().find(|c| c.verdict == claim.verdict);
    let Some(check) = decisive.or(claim.checks.first()) else {
        return String::new();
    };
    let agree = claim.checks.iter().filter(|c| c.verdict == claim.verdict).count();
    let rest = match claim.checks.len() {
        1 => String::new(),
        all => format!("<br><small>{agree} of {all} checks {}</small>", claim.verdict),
    };
    format!("<code>{}</code>: {}{rest}", escape(&check.text), escape(&check.measured()))
}

fn figure(html: &mut String, section: Section<'_>, claims: &[&ClaimResult]) {
    let plan = &section.results.plan;
    let experiment = &plan.experiment;
    let figure = experiment.figure.as_deref();
    let figure = figure.map_or_else(String::new, |f| format!("{f}. "));
    let id = escape(&experiment.id);
    let _ = writeln!(
        html,
        "<section class=\"figure\" id=\"{id}\">\n<h3>{}{}</h3>",
        escape(&figure),
        escape(&experiment.title)
    );
    for chart in section.charts {
        if let (Some(title), true) = (&chart.title, chart.panels.len() > 1) {
            let _ = writeln!(html, "<h4>{}</h4>", escape(title));
        }
        html.push_str("<div class=\"panels\">\n");
        for panel in &chart.panels {
            let _ = writeln!(html, "<figure>{panel}</figure>");
        }
        html.push_str("</div>\n");
    }
    let _ = writeln!(
        html,
        "<p class=\"setting\">{} {}</p>",
        escape(&experiment.setting),
        lengths(section.results)
    );
    for axis in &experiment.axes {
        for skipped in &axis.skipped {
            let _ = writeln!(
                html,
                "<p class=\"setting\">Left out: {}. {}</p>",
                escape(&skipped.label),
                escape(&skipped.reason)
            );
        }
    }
    for warning in plan.warnings() {
        let _ = writeln!(html, "<p class=\"why\">Warning: {}</p>", escape(warning));
    }
    for claim in claims {
        claim_block(html, claim);
    }
    if !experiment.choices.is_empty() {
        let silent = if experiment.paper.is_some() { " where the paper is silent" } else { "" };
        let _ = writeln!(html, "<h4>Chosen{silent}</h4>\n<ul>");
        for choice in &experiment.choices {
            let _ = writeln!(html, "<li>{}</li>", escape(choice));
        }
        html.push_str("</ul>\n");
    }
    let command = escape(&experiment.command(&plan.effort));
    let _ = writeln!(
        html,
        "<p class=\"again\">Again: <code>{command}</code> \u{b7} Numbers: \
         <a href=\"{id}.csv\">{id}.csv</a> \u{b7} <a href=\"#contents\">Contents</a></p>\n\
         </section>"
    );
}

/// How long runs last, how many there are, and what the charts show of them.
fn lengths(results: &Results) -> String {
    let plan = &results.plan;
    let seconds = |of: fn(&Scenario) -> Duration| {
        let mut all: Vec<f64> = plan.scenarios.iter().map(|s| of(s).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        match all[..] {
            [] => String::from("0 s"),
            [only] => format!("{only} s"),
            [first, .., last] => format!("{first} to {last} s"),
        }
    };
    let mut text = format!("{} a run", seconds(|s| s.duration));
    match seconds(|s| s.warmup).as_str() {
        "0 s" => {}
        warmup => {
            let _ = write!(text, ", the first {warmup} left out");
        }
    }
    let runs = plan.length.repetitions;
    let _ = write!(text, ", {runs} run{} a point.", if runs == 1 { "" } else { "s" });
    let plots = || plan.experiment.plots.iter().map(|plot| &plot.kind);
    let single = |kind: &PlotKind| matches!(kind, PlotKind::Time { single: true, .. });
    if plots().any(single) {
        text.push_str(" Lines over time are those of the first seed.");
    }
    let lines = |kind: &PlotKind| match kind {
        PlotKind::Lines { .. } => true,
        PlotKind::Dots { .. } => false,
        PlotKind::Time { single, .. } => !single,
    };
    let interval = match (plots().any(lines), plots().any(|k| matches!(k, PlotKind::Dots { .. }))) {
        _ if runs == 1 => return text,
        (true, true) => "Bands and bars",
        (true, false) => "Bands",
        (false, true) => "Bars",
        (false, false) => return text,
    };
    let _ = write!(text, " {interval} are 95 % confidence intervals.");
    text
}

fn claim_block(html: &mut String, claim: &ClaimResult) {
    let id = escape(&claim.claim.id);
    let _ = writeln!(
        html,
        "<article id=\"{id}\">\n<h4>{id} {}</h4>\n<p>{}</p>\n<p><small>Held when: {}</small></p>",
        badge(claim.verdict),
        escape(&claim.claim.claim),
        escape(&claim.claim.expected)
    );
    html.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Check</th>");
    html.push_str("<th>Measured [95 % interval]</th><th>Verdict</th></tr></thead>\n<tbody>\n");
    for check in &claim.checks {
        html.push_str(&check_row(check));
    }
    html.push_str("</tbody></table></div>\n");
    if let Some(explanation) = claim.explanation() {
        let _ = writeln!(html, "<p class=\"why\">{}</p>", escape(explanation));
    }
    html.push_str("</article>\n");
}

fn check_row(check: &CheckResult) -> String {
    let mut measured = check.measured();
    if let (Some(trouble), Some(_)) = (&check.trouble, check.difference) {
        let _ = write!(measured, " ({trouble})");
    }
    format!(
        "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n",
        escape(&check.text),
        escape(&measured),
        badge(check.verdict)
    )
}
