//! A page per collection: its claims, a row each, then its experiments.

use std::fmt::Write;

use crate::charts::{charts, heading};
use crate::claim;
use crate::group::Group;
use crate::matrix;
use crate::playground;
use crate::plot::escape;
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
    let proposes = group.collection.map_or("", |collection| collection.proposes);
    if !proposes.is_empty() {
        let _ = writeln!(html, "<p class=\"proposes\">{}</p>", escape(proposes));
    }
    html.push_str("</header>\n");
    if group.has_claims() {
        worlds::answer(html, group);
        terms(html, group);
        claim::rows(html, group);
        worlds::matrix(html, group);
    }
    worlds::numbers(html, group);
    matrix::show(html, group.sections.iter().flat_map(|s| &s.found.properties));
    choices(html, group);
    contents(html, group);
    for section in &group.sections {
        figure(html, section);
    }
}

/// Writes the abbreviations in the claims.
fn terms(html: &mut String, group: &Group<'_>) {
    let terms = group.collection.map_or(&[][..], |c| c.terms);
    if terms.is_empty() {
        return;
    }
    html.push_str("<details><summary>Abbreviations</summary>\n<dl class=\"terms\">\n");
    for (term, meaning) in terms {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(term), escape(meaning));
    }
    html.push_str("</dl></details>\n");
}

/// Writes a link to every section, if they are several.
fn contents(html: &mut String, group: &Group<'_>) {
    html.push_str("<h2 id=\"contents\">Figures</h2>\n");
    if group.sections.len() < 2 {
        return;
    }
    html.push_str("<nav aria-label=\"Contents\">\n<ul class=\"columns\">\n");
    for section in &group.sections {
        let _ = writeln!(
            html,
            "<li><a href=\"#{}\">{}</a></li>",
            escape(&section.id),
            escape(&heading(section))
        );
    }
    html.push_str("</ul>\n</nav>\n");
}

fn figure(html: &mut String, section: &ExperimentSection) {
    let id = escape(&section.id);
    let _ = writeln!(
        html,
        "<section class=\"figure\" id=\"{id}\">\n<h3>{}</h3>",
        escape(&heading(section))
    );
    charts(html, section, None, "h4");
    let claims = section.found.claims.iter().filter(|claim| claim.asked.is_none());
    let claims = claims.map(|claim| {
        let id = escape(&claim.id);
        format!("<a href=\"#{id}\">{id}</a>")
    });
    let claims: Vec<String> = claims.collect();
    let _ = writeln!(
        html,
        "<p class=\"again\">{}Numbers: <a href=\"{id}.csv\">{id}.csv</a>{}</p>",
        match &claims[..] {
            [] => String::new(),
            claims => format!("Claims: {} \u{b7} ", claims.join(", ")),
        },
        match &section.origin.scenario {
            None => String::new(),
            Some(file) => {
                let file = escape(file);
                format!(" \u{b7} Scenario: <a href=\"{file}\">{file}</a>")
            }
        }
    );
    for warning in &section.method.warnings {
        let _ = writeln!(html, "<p class=\"why\">Warning: {}</p>", escape(warning));
    }
    playground::links(html, &section.origin.playground);
    method(html, section);
    for claim in section.found.claims.iter().filter(|claim| claim.asked.is_some()) {
        claim::block(html, claim);
    }
    html.push_str("</section>\n");
}

/// Writes the setting, the choices and how to repeat it, folded.
fn method(html: &mut String, section: &ExperimentSection) {
    let method = &section.method;
    let _ = writeln!(
        html,
        "<details><summary>Setting</summary>\n<p class=\"setting\">{} {}</p>\n<p class=\"again\">Repeat: \
         <code>{}</code></p>",
        escape(&method.setting),
        escape(&method.lengths),
        escape(&section.origin.command)
    );
    for (label, reason) in &method.left_out {
        let _ = writeln!(
            html,
            "<p class=\"setting\">Left out: {}. {}</p>",
            escape(label),
            escape(reason)
        );
    }
    html.push_str("</details>\n");
}

/// A thing that several figures have, with the figures.
fn shared<'a, T: PartialEq>(
    group: &'a Group<'_>,
    of: impl Fn(&'a ExperimentSection) -> &'a [T],
) -> Vec<(&'a T, Vec<&'a ExperimentSection>)> {
    let mut all: Vec<(&T, Vec<&ExperimentSection>)> = Vec::new();
    for section in group.sections.iter().copied() {
        for thing in of(section) {
            match all.iter_mut().find(|(known, _)| *known == thing) {
                Some((_, sections)) => sections.push(section),
                None => all.push((thing, vec![section])),
            }
        }
    }
    all
}

/// The figures that have something, unless all have it: ` (Figure 2, Figure 4)`.
fn figures(sections: &[&ExperimentSection], group: &Group<'_>) -> String {
    if sections.len() == group.sections.len() {
        return String::new();
    }
    let name = |s: &&ExperimentSection| {
        let id = escape(&s.id);
        let name = s.place.figure.as_deref().unwrap_or(&s.id);
        format!("<a href=\"#{id}\">{}</a>", escape(name))
    };
    let names: Vec<String> = sections.iter().map(name).collect();
    format!("<br><small>{}</small>", names.join(", "))
}

/// Writes the choices of all figures without duplicates. A link to an element in `details` opens
/// it.
fn choices(html: &mut String, group: &Group<'_>) {
    let readings = shared(group, |s| &s.method.readings);
    let fixed = shared(group, |s| &s.method.choices);
    if readings.is_empty() && fixed.is_empty() {
        return;
    }
    let silent = if group.is_paper() { " where the paper is silent" } else { "" };
    let _ = writeln!(
        html,
        "<details><summary>Choices{silent}: {} with several values, {} in \
         words</summary>\n<div id=\"choices\">",
        readings.len(),
        fixed.len()
    );
    if !readings.is_empty() {
        table(html, &readings, group);
    }
    if !fixed.is_empty() {
        html.push_str("<ul>\n");
        for (choice, sections) in &fixed {
            let _ = writeln!(html, "<li>{}{}</li>", escape(choice), figures(sections, group));
        }
        html.push_str("</ul>\n");
    }
    html.push_str("</div></details>\n");
}

/// Writes the choices under which claims are judged.
fn table(html: &mut String, choices: &[(&Choice, Vec<&ExperimentSection>)], group: &Group<'_>) {
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th>Choice</th><th>Value</th><th>Basis</th>\
         <th>Source</th></tr></thead>\n<tbody>\n",
    );
    for (choice, sections) in choices {
        for (i, (label, basis, source, plain)) in choice.values.iter().enumerate() {
            let name = match i {
                0 => {
                    let remarks = choice.silent.iter().chain(&choice.formerly);
                    let remarks = remarks.map(|s| format!("<br><small>{}</small>", escape(s)));
                    format!(
                        "<td rowspan=\"{}\">{}{}{}</td>",
                        choice.values.len(),
                        escape(&choice.choice),
                        figures(sections, group),
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
    html.push_str("</tbody></table></div>\n");
}
