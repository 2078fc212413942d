//! A page per collection: a summary of its claims, then a section per experiment.

use std::fmt::Write;

use windward_experiments::claims::{
    CheckResult, ClaimResult, Control, ControlVerdict, ReadingResult, Verdict,
};

use crate::group::Group;
use crate::matrix;
use crate::page::{badge, badge_of, class, count, prose};
use crate::playground;
use crate::plot::{Chart, escape};
use crate::section::{Choice, ExperimentSection};
use crate::worlds;

/// Writes a collection with all its sections.
pub(super) fn part(html: &mut String, group: &Group<'_>, all: &[Group<'_>], front: &str) {
    let _ = write!(
        html,
        "<nav class=\"trail\" aria-label=\"Pages\"><a href=\"index.html\">{front}</a>"
    );
    for other in all {
        let here = if other.key == group.key { " aria-current=\"page\"" } else { "" };
        let _ =
            write!(html, " <a href=\"{}\"{here}>{}</a>", escape(&other.page()), escape(other.key));
    }
    let _ = writeln!(html, "</nav>\n<header>\n<h1>{}</h1>", escape(group.title));
    let byline = group.byline();
    if !byline.is_empty() {
        let _ = writeln!(html, "<p class=\"byline\">{}</p>", escape(&byline));
    }
    html.push_str("</header>\n");
    worlds::believe(html, group);
    worlds::matrix(html, group);
    worlds::numbers(html, group);
    worlds::editions(html, group);
    summary(html, group);
    matrix::show(html, group.sections.iter().flat_map(|s| &s.found.properties));
    let mut checks = group.claims.iter().flat_map(|claim| &claim.checks);
    if checks.any(|check| check.control.is_some()) {
        html.push_str(
            "<p class=\"legend\"><b>Control</b> says whether a check can be trusted: it is \
             evaluated again with one thing in the place of all, which must not fail, and with others \
             in its place, of which one should. <i>Too strict</i>: equal things fail it. <i>Too \
             lax</i>: nothing measured fails it. <i>Not tested</i>: these runs do not show that it can \
             fail.</p>\n",
        );
    }
    html.push_str("<nav id=\"contents\" aria-label=\"Contents\">\n<h2>On this page</h2>\n<ul class=\"columns\">\n");
    for section in &group.sections {
        let _ = writeln!(
            html,
            "<li><a href=\"#{}\">{}</a></li>",
            escape(&section.id),
            escape(&heading(section))
        );
    }
    html.push_str("</ul>\n</nav>\n");
    for section in &group.sections {
        figure(html, section);
    }
}

/// `Figure 3. XCP family: ...`
pub(super) fn heading(section: &ExperimentSection) -> String {
    let figure = section.place.figure.as_deref();
    format!("{}{}", figure.map_or_else(String::new, |f| format!("{f}. ")), section.place.title)
}

/// Writes a row per claim.
fn summary(html: &mut String, group: &Group<'_>) {
    // Claims of a suite are on the first page, a column per subject.
    if group.claims.iter().all(|claim| claim.asked.is_some()) {
        return;
    }
    html.push_str("<h2>Claims</h2>\n");
    let terms = group.collection.map_or(&[][..], |c| c.terms);
    if !terms.is_empty() {
        html.push_str("<dl class=\"terms\">\n");
        for (term, meaning) in terms {
            let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(meaning));
        }
        html.push_str("</dl>\n");
    }
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"summary\">\n<thead><tr><th>Claim</th>",
    );
    let _ = write!(html, "<th>Verdict</th><th>{}</th>", group.heading_of_claims());
    html.push_str("<th>Holds if</th><th>Measured</th></tr></thead>\n<tbody>\n");
    for claim in &group.claims {
        let id = escape(&claim.id);
        let _ = writeln!(
            html,
            "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}<br><small>{}</small>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td></tr>",
            badge_of(claim),
            escape(&claim.in_readings()),
            worlds::small_edition(claim),
            escape(&claim.claim),
            escape(&claim.expected),
            in_short(claim),
        );
    }
    html.push_str("</tbody></table></div>\n");
}

/// The deciding check, and the number of the others.
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

pub(super) fn charts(html: &mut String, section: &ExperimentSection) {
    for (number, chart) in section.found.charts.iter().enumerate() {
        if let (Some(title), true) = (&chart.title, chart.panels.len() > 1) {
            let _ = writeln!(html, "<h4>{}</h4>", escape(title));
        }
        html.push_str("<div class=\"panels\">\n");
        for panel in &chart.panels {
            let _ = writeln!(html, "<figure>{panel}</figure>");
        }
        html.push_str("</div>\n");
        for (claims, chart) in in_worlds(section, number) {
            let _ = writeln!(
                html,
                "<h4>In the nearest world of {}</h4>\n<div class=\"panels\">",
                escape(&claims.join(", "))
            );
            for panel in &chart.panels {
                let _ = writeln!(html, "<figure>{panel}</figure>");
            }
            html.push_str("</div>\n");
        }
    }
}

/// A chart in the nearest worlds in which something of it was measured, with their claims.
fn in_worlds(
    section: &ExperimentSection,
    number: usize,
) -> impl Iterator<Item = (&Vec<String>, &Chart)> {
    let worlds = section.found.nearest.iter();
    let charts = worlds.filter_map(move |world| Some((&world.claims, world.charts.get(number)?)));
    charts.filter(|(_, chart)| !chart.panels.is_empty())
}

fn figure(html: &mut String, section: &ExperimentSection) {
    let id = escape(&section.id);
    let _ = writeln!(
        html,
        "<section class=\"figure\" id=\"{id}\">\n<h2>{}</h2>",
        escape(&heading(section))
    );
    charts(html, section);
    let command = escape(&section.origin.command);
    let _ = writeln!(
        html,
        "<p class=\"again\">Repeat: <code>{command}</code> \u{b7} Numbers: \
         <a href=\"{id}.csv\">{id}.csv</a>{}</p>",
        match &section.origin.scenario {
            None => String::new(),
            Some(file) => {
                let file = escape(file);
                format!(" \u{b7} Scenario: <a href=\"{file}\">{file}</a>")
            }
        }
    );
    playground::links(html, &section.origin.playground);
    let _ = writeln!(
        html,
        "<p class=\"setting\">{} {}</p>",
        escape(&section.method.setting),
        escape(&section.method.lengths)
    );
    for (label, reason) in &section.method.left_out {
        let _ = writeln!(
            html,
            "<p class=\"setting\">Left out: {}. {}</p>",
            escape(label),
            escape(reason)
        );
    }
    for warning in &section.method.warnings {
        let _ = writeln!(html, "<p class=\"why\">Warning: {}</p>", escape(warning));
    }
    if !section.found.reported.is_empty() {
        html.push_str(
            "<p class=\"again\"><a href=\"#numbers\">The paper\u{2019}s numbers beside ours</a></p>\n",
        );
    }
    for claim in &section.found.claims {
        claim_block(html, claim);
    }
    readings(html, &section.method.readings);
    if !section.method.choices.is_empty() {
        let silent = if section.method.is_of_paper { " where the paper is silent" } else { "" };
        let count = section.method.choices.len();
        let _ = writeln!(html, "<details><summary>Choices{silent}: {count}</summary>\n<ul>");
        for choice in &section.method.choices {
            let _ = writeln!(html, "<li>{}</li>", escape(choice));
        }
        html.push_str("</ul>\n</details>\n");
    }
    html.push_str("<p class=\"again\"><a href=\"#contents\">Up</a></p>\n</section>\n");
}

/// Writes the choices under which claims are judged.
fn readings(html: &mut String, choices: &[Choice]) {
    if choices.is_empty() {
        return;
    }
    let _ = writeln!(
        html,
        "<details><summary>Choices with several readings: {}</summary>",
        choices.len()
    );
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>Choice</th><th>Value</th><th>Basis</th>\
         <th>Source</th></tr></thead>\n<tbody>\n",
    );
    for choice in choices {
        for (i, (label, basis, source, plain)) in choice.values.iter().enumerate() {
            let name = match i {
                0 => {
                    let remarks = choice.silent.iter().chain(&choice.formerly);
                    let remarks = remarks.map(|s| format!("<br><small>{}</small>", escape(s)));
                    format!(
                        "<td rowspan=\"{}\">{}{}</td>",
                        choice.values.len(),
                        escape(&choice.choice),
                        remarks.collect::<String>()
                    )
                }
                _ => String::new(),
            };
            let plain = if *plain { " <b>(plain)</b>" } else { "" };
            let _ = writeln!(
                html,
                "<tr>{name}<td>{}{plain}</td><td>{}</td><td>{}</td></tr>",
                escape(label),
                escape(basis),
                escape(source)
            );
        }
    }
    html.push_str("</tbody></table></div>\n</details>\n");
}

fn claim_block(html: &mut String, claim: &ClaimResult) {
    let id = escape(&claim.id);
    let _ = writeln!(
        html,
        "<article id=\"{id}\">\n<h3>{id} {} <small>{}</small></h3>\n<p>{}</p>\n<p><small>Holds if: \
         {}</small></p>",
        badge_of(claim),
        if claim.asked.is_some() { String::new() } else { escape(&claim.in_readings()) },
        escape(&claim.claim),
        escape(&claim.expected)
    );
    worlds::edition_of_claim(html, claim);
    if !claim.calibrated.is_empty() {
        let _ = writeln!(
            html,
            "<p><small><b>Calibrated</b>: only the paper\u{2019}s figures give a value \
             for {}.</small></p>",
            escape(&claim.calibrated.join("; "))
        );
    }
    worlds::of_claim(html, claim);
    for reading in claim.deciding() {
        decides(html, claim, reading);
    }
    if let Some(explanation) = claim.explanation().filter(|_| claim.is_judged()) {
        let _ = writeln!(html, "<p class=\"why\">{}</p>", prose(explanation));
    } else if claim.verdict == Verdict::Inconclusive && claim.is_judged() {
        let open = || claim.checks.iter().filter(|c| c.verdict == Verdict::Inconclusive);
        let without = open().filter(|c| c.difference.is_none()).count();
        let straddle = open().count() - without;
        let mut reasons = Vec::new();
        if straddle > 0 {
            reasons.push(format!(
                "the intervals of {straddle} of {} checks still contain their bound after the \
                 permitted runs; more runs may decide",
                claim.checks.len()
            ));
        }
        if without > 0 {
            reasons.push(format!("{without} of {} checks have no number", claim.checks.len()));
        }
        let _ = writeln!(html, "<p class=\"why\">Open: {}.</p>", reasons.join("; "));
    }
    let counts = Verdict::ALL.map(|v| (v, claim.checks.iter().filter(|c| c.verdict == v).count()));
    let counts = counts.iter().filter(|(_, n)| *n > 0).map(|(verdict, n)| format!("{n} {verdict}"));
    let counts: Vec<String> = counts.collect();
    let open = if claim.checks.len() <= 6 { " open" } else { "" };
    let _ = writeln!(
        html,
        "<details{open}><summary>{}: {}</summary>",
        count(claim.checks.len(), "check"),
        counts.join(", ")
    );
    table(html, &claim.checks);
    html.push_str("</details>\n");
    if !claim.readings.is_empty() {
        let _ = writeln!(
            html,
            "<details><summary>Other readings: {}</summary>\n<ul class=\"readings\">",
            claim.readings.len()
        );
        for reading in &claim.readings {
            other(html, claim, reading);
        }
        html.push_str("</ul>\n</details>\n");
    }
    html.push_str("</article>\n");
}

/// Writes a choice that changes the verdict, with both numbers.
fn decides(html: &mut String, claim: &ClaimResult, reading: &ReadingResult) {
    let _ = write!(
        html,
        "<p class=\"decides {}\"><b>Deciding reading.</b> {}: {}.",
        class(reading.verdict),
        escape(&reading.title()),
        reading.verdict
    );
    if let Some((here, there)) = claim.turned(reading) {
        let _ = write!(
            html,
            " <code>{}</code>: {} under the plain reading, {} under this one.",
            escape(&here.text),
            escape(&here.measured()),
            escape(&there.measured_beside(here))
        );
    }
    html.push_str("</p>\n");
}

/// Writes a reading with its most informative check.
fn other(html: &mut String, claim: &ClaimResult, reading: &ReadingResult) {
    let sources = reading.words.iter().map(|w| w.source.clone()).collect::<Vec<_>>().join("; ");
    let _ = write!(
        html,
        "<li>{} {} <small>({})</small>",
        badge(reading.verdict),
        escape(&reading.title()),
        escape(&sources)
    );
    let turned = claim.turned(reading).map(|(_, there)| there);
    let telling = turned.or_else(|| reading.checks.iter().find(|c| c.verdict == reading.verdict));
    if let Some(check) = telling {
        let _ =
            write!(html, "<br><code>{}</code>: {}", escape(&check.text), escape(&check.measured()));
    }
    html.push_str("</li>\n");
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

fn table(html: &mut String, checks: &[CheckResult]) {
    html.push_str("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>Check</th>");
    html.push_str(
        "<th>Measured [interval]</th><th>Runs</th><th>Verdict</th><th>Control</th></tr></thead>\n\
         <tbody>\n",
    );
    for check in checks {
        let mut measured = check.measured();
        if let (Some(trouble), Some(_)) = (&check.trouble, check.difference) {
            let _ = write!(measured, " ({trouble})");
        }
        let _ = writeln!(
            html,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&check.text),
            escape(&measured),
            check.repetitions,
            badge(check.verdict),
            check.control.as_ref().map_or_else(String::new, control)
        );
    }
    html.push_str("</tbody></table></div>\n");
}
