//! The report: pages that need nothing but themselves.
//!
//! `index.html` opens with what was found (`front`): the papers, every claim in its words with its
//! verdict and in how many readings it holds. Then comes a page a paper or other collection
//! (`group`): its claims, then its experiments one by one (`figure`), on that of the matrix also the
//! properties of every protocol (`matrix`).
//!
//! A `Section` is all that the pages show of one experiment. It is kept beside them, so that a
//! later run into the same folder adds to what is there.

use std::fmt::Write;

use crate::claims::Verdict;
use crate::evaluate::{Evaluation, Inquiry};
use windward_sim::table::Table;

mod comparison;
mod evaluation;
mod figure;
mod front;
mod group;
mod matrix;
mod section;

pub(crate) use comparison::page_of_comparison;
pub use group::Tally;
pub(crate) use group::page_of;
use group::{Group, groups};
pub(crate) use section::{Section, reported};

/// When, where and of what a report was made. The lab knows no clock: whoever has one says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// The day and time, as people read it.
    pub date: String,
    /// The revision of the source the program was built from.
    pub commit: Option<String>,
    /// Processor, cores, system.
    pub machine: String,
    /// The command that makes the report again.
    pub command: String,
}

/// What pages say of themselves so that their folder is known as one of ours.
pub(crate) const GENERATOR: &str = "<meta name=\"generator\" content=\"windward\">";

/// How far a report is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Experiments that are still to come.
    pub(crate) to_come: usize,
    /// Is somebody still at it?
    pub(crate) running: bool,
}

/// All pages by name, `index.html` last.
pub(crate) fn pages(
    sections: &[Section],
    about: &Provenance,
    standing: Standing,
) -> Vec<(String, String)> {
    let groups = groups(sections);
    let mut pages = Vec::new();
    for group in &groups {
        let mut html = head(group.title, standing);
        figure::part(&mut html, group, &groups, "All claims");
        foot(&mut html, about);
        pages.push((group.page(), html));
    }
    let mut html = head("Reproduced figures and claims", standing);
    front::header(&mut html, &groups, about, standing);
    front::claims(&mut html, &groups);
    front::contents(&mut html, &groups);
    foot(&mut html, about);
    pages.push(("index.html".to_owned(), html));
    pages
}

/// The pages of an evaluation: criteria and subjects first, then a page a chapter.
pub(crate) fn pages_of_evaluation(
    inquiry: &Inquiry,
    evaluation: &Evaluation,
    sections: &[Section],
    about: &Provenance,
    standing: Standing,
) -> Vec<(String, String)> {
    let chapters = &inquiry.question.suite.chapters;
    let mut groups = groups(sections);
    groups.sort_by_key(|g| chapters.iter().position(|c| c.key == g.key));
    for group in &mut groups {
        if let Some(chapter) = chapters.iter().find(|c| c.key == group.key) {
            group.title = &chapter.title;
        }
    }
    let mut pages = Vec::new();
    for group in &groups {
        let mut html = head(group.title, standing);
        figure::part(&mut html, group, &groups, "Evaluation");
        foot(&mut html, about);
        pages.push((group.page(), html));
    }
    let mut html = head(&inquiry.question.suite.title, standing);
    evaluation::front(&mut html, inquiry, evaluation, &groups, about, standing);
    foot(&mut html, about);
    pages.push(("index.html".to_owned(), html));
    pages
}

/// The properties of every protocol, if any of the experiments of the matrix was run.
pub(crate) fn properties(sections: &[Section]) -> Option<Table> {
    matrix::numbers(sections)
}

/// What is needed to get the same results again.
pub(crate) fn manifest(sections: &[Section]) -> serde_json::Value {
    let entry = |s: &Section| serde_json::from_str(&s.manifest).unwrap_or_default();
    serde_json::json!({
        "program": "windward",
        "version": env!("CARGO_PKG_VERSION"),
        "experiments": sections.iter().map(entry).collect::<Vec<serde_json::Value>>(),
    })
}

/// How many claims of each collection hold.
pub(crate) fn tallies(sections: &[Section]) -> Vec<Tally> {
    let groups = groups(sections);
    groups.iter().filter(|g| !g.claims.is_empty()).map(Group::tally).collect()
}

fn head(title: &str, standing: Standing) -> String {
    let title = crate::plot::escape(title);
    // A page that still grows looks for its next version by itself.
    let refresh =
        if standing.running { "<meta http-equiv=\"refresh\" content=\"10\">\n" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         name=\"color-scheme\" content=\"light dark\">\n{GENERATOR}\n{refresh}<link rel=\"icon\" \
         href=\"data:,\">\n<title>{title} \u{b7} Windward</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n",
        include_str!("report/style.css")
    )
}

fn foot(html: &mut String, about: &Provenance) {
    let version = env!("CARGO_PKG_VERSION");
    let commit = about.commit.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
    let date = if about.date.is_empty() { String::new() } else { format!(", {}", about.date) };
    let _ = writeln!(
        html,
        "<footer>Made by windward {version}{}{}.</footer>\n</body>\n</html>",
        crate::plot::escape(&commit),
        crate::plot::escape(&date)
    );
}

/// A text of an experiment file, where `+-` is as good as one can type it.
fn prose(text: &str) -> String {
    crate::plot::escape(text).replace(" +- ", " \u{b1} ")
}

fn badge(verdict: Verdict) -> String {
    format!("<span class=\"badge {}\">{verdict}</span>", class(verdict))
}

/// The badge of a claim, which may have no verdict yet.
fn badge_of(claim: &crate::claims::ClaimResult) -> String {
    match claim.is_judged() {
        true => badge(claim.verdict),
        false => "<span class=\"badge open\">still to come</span>".to_owned(),
    }
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Tie => "tie",
        Verdict::NotHeld => "not-held",
        Verdict::Inconclusive => "open",
    }
}
