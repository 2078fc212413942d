//! The report: one HTML page that needs nothing but itself.
//!
//! It opens with the papers and the verdict on each of their claims (`front`), then the
//! properties of every protocol (`matrix`), then a section an experiment (`figure`), a part of
//! the page per collection (`group`).

use std::fmt::Write;

use crate::claims::{ClaimResult, Verdict};
use crate::plot::Chart;
use crate::sweep::Results;
use crate::table::Table;

mod figure;
mod front;
mod group;
mod matrix;

pub use group::Tally;
use group::{Group, groups};

/// What the page shows of one experiment.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The experiment and its runs.
    pub results: &'a Results,
    /// Its charts.
    pub charts: &'a [Chart],
}

/// The whole page.
pub fn page(sections: &[Section<'_>], claims: &[ClaimResult]) -> String {
    let groups = groups(sections, claims);
    let mut html = String::new();
    html.push_str(HEAD);
    front::header(&mut html, &groups);
    matrix::show(&mut html, sections);
    front::contents(&mut html, &groups);
    for group in &groups {
        figure::part(&mut html, group);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(html, "<footer>Made by windward {version}.</footer>\n</body>\n</html>");
    html
}

/// The properties of every protocol, if any of the experiments of the matrix was run.
pub(crate) fn properties(sections: &[Section<'_>]) -> Option<Table> {
    matrix::numbers(sections)
}

/// How many claims of each collection hold.
pub(crate) fn tallies(results: &[Results], claims: &[ClaimResult]) -> Vec<Tally> {
    let sections = results.iter().map(|results| Section { results, charts: &[] });
    let sections: Vec<Section<'_>> = sections.collect();
    let groups = groups(&sections, claims);
    groups.iter().filter(|g| !g.claims.is_empty()).map(Group::tally).collect()
}

const HEAD: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<meta name=\"color-scheme\" content=\"light dark\">\n",
    "<title>Windward: reproduced figures and claims</title>\n<style>\n",
    include_str!("report/style.css"),
    "</style>\n</head>\n<body>\n",
);

fn badge(verdict: Verdict) -> String {
    format!("<span class=\"badge {}\">{verdict}</span>", class(verdict))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not-held",
        Verdict::Inconclusive => "open",
    }
}
