//! The charts of an experiment on a page, plainly and in nearest worlds.

use std::fmt::Write;

use crate::plot::{Chart, escape};
use crate::section::ExperimentSection;

/// `Figure 3. XCP family: ...`
pub(crate) fn heading(section: &ExperimentSection) -> String {
    let figure = section.place.figure.as_deref();
    format!("{}{}", figure.map_or_else(String::new, |f| format!("{f}. ")), section.place.title)
}

/// Writes the charts of an experiment, plainly and in nearest worlds: that of one claim, or all.
/// `level` is that of the headings over several panels.
pub(crate) fn charts(
    html: &mut String,
    section: &ExperimentSection,
    claim: Option<&str>,
    level: &str,
) {
    for (number, chart) in section.found.charts.iter().enumerate() {
        if let (Some(title), true) = (&chart.title, chart.panels.len() > 1) {
            let _ = writeln!(html, "<{level}>{}</{level}>", escape(title));
        }
        let of_claim = |(claims, _): &(&Vec<String>, &Chart)| {
            claim.is_none_or(|id| claims.iter().any(|claim| claim == id))
        };
        let worlds: Vec<_> = in_worlds(section, number).filter(of_claim).collect();
        let plain = if worlds.is_empty() { String::new() } else { caption("Plain reading") };
        html.push_str("<div class=\"panels\">\n");
        for panel in &chart.panels {
            let _ = writeln!(html, "<figure>{panel}{plain}</figure>");
        }
        for (claims, chart) in worlds {
            let caption = caption(&format!("Nearest world of {}", claims.join(", ")));
            for panel in &chart.panels {
                let _ = writeln!(html, "<figure>{panel}{caption}</figure>");
            }
        }
        html.push_str("</div>\n");
    }
}

fn caption(words: &str) -> String {
    format!("<figcaption>{}</figcaption>", escape(words))
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
