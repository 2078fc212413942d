//! First pages of reports, and their consequences for the other pages.

use windward_experiments::claims::ClaimResult;
use windward_experiments::experiment::{Deviation, Effort, Experiment};

use crate::claim;
use crate::figure;
use crate::group::{Group, groups};
use crate::page::{Provenance, Standing, foot, head};
use crate::section::ExperimentSection;

/// The first page of a report, the commands and scenarios on its other pages, and additional files.
pub trait Lead: std::fmt::Debug + Sync {
    /// The title of the first page of these groups.
    fn title(&self, groups: &[Group<'_>]) -> &str;

    /// Name of the first page in links on the others.
    fn name(&self) -> &str;

    /// Writes the first page. Returns its additional files, with their text.
    fn front(&self, html: &mut String, found: &Found<'_>) -> Vec<(&'static str, String)>;

    /// Sorts the other pages and sets their titles.
    fn arrange<'a>(&'a self, _groups: &mut [Group<'a>]) {}

    /// The command that repeats an experiment.
    fn command(&self, experiment: &Experiment, effort: &Effort) -> String {
        experiment.command(effort)
    }

    /// The scenario file of an experiment, if its page links to one.
    fn scenario_text(&self, _experiment: &Experiment) -> Option<String> {
        None
    }

    /// True if the page of an experiment shows this warning of its scenarios.
    fn warns(&self, _experiment: &Experiment, _warning: &str) -> bool {
        true
    }

    /// True if experiments of earlier runs into the same folder stay on the pages.
    fn keeps_earlier(&self) -> bool {
        true
    }
}

/// Facts for the first page.
#[derive(Debug)]
pub struct Found<'a> {
    /// The other pages.
    pub groups: &'a [Group<'a>],
    /// The claims of all experiments on the pages, as far as they are judged.
    pub claims: Vec<&'a ClaimResult>,
    /// Runs in which connections gave up.
    pub gave_up: &'a [GaveUp],
    /// Date, machine, revision and command.
    pub about: &'a Provenance,
    /// Progress of the report.
    pub standing: &'a Standing,
}

/// Runs of one cell in which connections of one protocol gave up.
#[derive(Debug, Clone, PartialEq)]
pub struct GaveUp {
    /// Protocol of the connections.
    pub protocol: String,
    /// The experiment.
    pub experiment: String,
    /// Reason, in the words of the stack or the simulator.
    pub reason: String,
    /// The labels of the cell.
    pub cell: String,
    /// Reading of the cell.
    pub reading: Deviation,
    /// Number of runs.
    pub runs: usize,
}

/// Pages by name, `index.html` last, and the additional files of the lead.
pub(crate) struct Written {
    pub(crate) pages: Vec<(String, String)>,
    pub(crate) files: Vec<(&'static str, String)>,
}

/// Writes all pages.
pub(crate) fn write(
    lead: &dyn Lead,
    sections: &[ExperimentSection],
    gave_up: &[GaveUp],
    about: &Provenance,
    standing: &Standing,
) -> Written {
    let mut groups = groups(sections);
    lead.arrange(&mut groups);
    let mut pages = Vec::new();
    for group in &groups {
        let mut html = head(group.title, standing);
        figure::part(&mut html, group, &groups, lead.name());
        foot(&mut html, about);
        pages.push((group.page(), html));
        for claim in &group.claims {
            let Some(page) = group.page_of(claim) else { continue };
            let mut html = head(&format!("{}: {}", group.key, claim.id), standing);
            claim::page(&mut html, group, claim, lead.name());
            foot(&mut html, about);
            pages.push((page, html));
        }
    }
    let claims = sections.iter().flat_map(|s| &s.found.claims).collect();
    let found = Found { groups: &groups, claims, gave_up, about, standing };
    let mut html = head(lead.title(&groups), standing);
    let files = lead.front(&mut html, &found);
    foot(&mut html, about);
    pages.push(("index.html".to_owned(), html));
    Written { pages, files }
}
