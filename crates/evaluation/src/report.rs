//! Runs an inquiry and writes its report.

use std::path::Path;

use windward_experiments::ExperimentError;
use windward_experiments::experiment::{Cast, Deviation, Effort, Experiment, Subject};
use windward_experiments::sweep::{RunOptions, simulate};
use windward_report::lead::{Found, Lead};
use windward_report::{Group, ReportOptions, ReproductionSummary, reproduce};
use windward_sim::Scenario;

use crate::fault::FaultyController;
use crate::inquiry::{Evaluation, Inquiry, Question};
use crate::suite::Suite;
use crate::words::played;
use crate::{page, suites};

/// An evaluation with its runs.
#[derive(Debug, Clone)]
pub struct EvaluationSummary {
    /// Answers.
    pub evaluation: Evaluation,
    /// Runs, pages, and every claim.
    pub summary: ReproductionSummary,
}

impl Lead for Inquiry {
    fn title(&self, _: &[Group<'_>]) -> &str {
        &self.question.suite.title
    }

    fn name(&self) -> &str {
        "Evaluation"
    }

    fn arrange<'a>(&'a self, groups: &mut [Group<'a>]) {
        let chapters = &self.question.suite.chapters;
        groups.sort_by_key(|g| chapters.iter().position(|c| c.key == g.key));
        for group in groups {
            if let Some(chapter) = chapters.iter().find(|c| c.key == group.key) {
                group.title = &chapter.title;
            }
        }
    }

    fn front(&self, html: &mut String, found: &Found<'_>) -> Vec<(&'static str, String)> {
        let evaluation = self.answers(&found.claims, found.gave_up);
        page::front(html, self, &evaluation, found);
        let json = format!("{:#}\n", evaluation.to_json(self, found.about));
        let text = evaluation.to_markdown(self, found.about);
        vec![("evaluation.json", json), ("evaluation.md", text)]
    }

    /// Shows only what this inquiry asks.
    fn keeps_earlier(&self) -> bool {
        false
    }

    /// Warnings about keys of a suite are not the author's: only those about changes by `--set` are
    /// shown.
    fn warns(&self, experiment: &Experiment, warning: &str) -> bool {
        let mut changed = experiment.revision.overrides.iter();
        changed.any(|(key, _)| {
            key.rsplit('.').next().is_some_and(|word| warning.contains(&format!("`{word}`")))
        })
    }

    /// Arguments of a command that evaluates one experiment with the same subjects.
    fn command(&self, experiment: &Experiment, effort: &Effort) -> String {
        let Question { suite, subjects, against, standards, .. } = &self.question;
        let mut words = vec!["windward".to_owned(), "evaluate".to_owned()];
        words.extend(subjects.iter().map(|s| s.given.clone()));
        if let Some(against) = against {
            let names: Vec<&str> = against.iter().map(|s| &*s.given).collect();
            words.extend(["--against".to_owned(), names.join(",")]);
        }
        if let Some(standards) = standards {
            let names: Vec<&str> = standards.iter().map(|s| &*s.given).collect();
            words.extend(["--standards".to_owned(), names.join(",")]);
        }
        let same = |mut known: Suite| {
            known.standards.clone_from(&suite.standards);
            known == *suite
        };
        let known = suites::suite(&suite.id).is_some_and(same);
        let suite = if known { &suite.id } else { &suite.file };
        words.extend(["--suite".to_owned(), suite.clone()]);
        words.extend(["--only".to_owned(), experiment.id.clone()]);
        if effort.is_full() {
            words.push("--full".to_owned());
        }
        let words: Vec<_> = words.iter().map(|w| windward_sim::text::shell_word(w)).collect();
        words.join(" ")
    }

    /// The file of an experiment with the subjects inserted and without claims, for
    /// `windward sweep`. `None` if a subject is code that a file cannot name.
    fn scenario_text(&self, experiment: &Experiment) -> Option<String> {
        let Question { suite, subjects, against, .. } = &self.question;
        if subjects.iter().chain(against.iter().flatten()).any(|subject| subject.own.is_some()) {
            return None;
        }
        let witnesses = suite.witnesses(subjects, None).ok()?;
        let cast = Cast {
            subjects: [subjects.as_slice(), &witnesses].concat(),
            standards: suite.standards.clone(),
            against: against.clone().unwrap_or_else(|| suite.against.clone()),
        };
        played(suite.text_of(&experiment.file)?, experiment, &cast)
    }
}

/// Runs an inquiry and writes the files of [`reproduce`] into `out_dir`, with a first page that has
/// a row per criterion and a column per subject, and its content as `evaluation.md` and
/// `evaluation.json`.
///
/// # Errors
/// As [`reproduce`]; [`ExperimentError::Part`] also if two identical runs with a subject differ.
pub fn evaluate(
    inquiry: &Inquiry,
    effort: &Effort,
    options: &RunOptions<'_>,
    report: &ReportOptions<'_>,
    out_dir: &Path,
) -> Result<EvaluationSummary, ExperimentError> {
    let report = ReportOptions { lead: inquiry, ..report.clone() };
    let repeated = inquiry
        .question
        .subjects
        .iter()
        .try_for_each(|subject| repeat(inquiry, subject, effort, options));
    let summary = repeated
        .and_then(|()| reproduce(&inquiry.experiments, effort, options, &report, out_dir))
        .map_err(|error| with_subject(inquiry, error))?;
    let claims: Vec<_> = summary.claims.iter().collect();
    let evaluation = inquiry.answers(&claims, &summary.gave_up);
    Ok(EvaluationSummary { evaluation, summary })
}

/// The failure of a part under the name of its subject, which may differ from that of its window.
fn with_subject(inquiry: &Inquiry, error: ExperimentError) -> ExperimentError {
    let ExperimentError::Part(text) = &error else { return error };
    let Question { subjects, against, standards, .. } = &inquiry.question;
    let others = against.iter().chain(standards).flatten();
    let all: Vec<&Subject> = subjects.iter().chain(others).collect();
    let faulty = FaultyController::of(text);
    let mut compositions = all.iter().filter(|subject| subject.protocol.starts_with('{'));
    match (compositions.next(), compositions.next()) {
        (Some(one), None) if all.iter().all(|subject| subject.name != faulty.subject) => {
            ExperimentError::Part(format!("{one}: {}", faulty.fault))
        }
        _ => error,
    }
}

/// Packet-hops that a run needs at least to show whether it can be repeated.
const REVEALING: f64 = 10_000.0;

/// Runs the cheapest scenario of a subject whose code is not Windward's twice.
///
/// # Errors
/// [`ExperimentError::Part`] if the runs differ.
fn repeat(
    inquiry: &Inquiry,
    subject: &Subject,
    effort: &Effort,
    options: &RunOptions<'_>,
) -> Result<(), ExperimentError> {
    let stack = inquiry.question.stacks.find(&subject.name);
    let is_foreign = subject.own.is_some() || stack.is_some();
    if !is_foreign || stack.is_some_and(|stack| stack.facts().unrepeatable.is_some()) {
        return Ok(());
    }
    let scenarios = inquiry.experiments.iter().filter_map(|experiment| {
        let length = experiment.overridden(experiment.run_length(effort));
        let cell = (0..experiment.cells())
            .find(|cell| experiment.points(*cell).iter().any(|p| p.label == subject.name))?;
        experiment.scenario(cell, &length, &Deviation::PLAIN).ok()
    });
    let cost = |scenario: &Scenario| {
        let hops = scenario.predicted_packet_hops();
        if hops < REVEALING { f64::MAX - REVEALING + hops } else { hops }
    };
    let Some(scenario) = scenarios.min_by(|a, b| cost(a).total_cmp(&cost(b))) else {
        return Ok(());
    };
    let first = simulate(&scenario, options.cancel)?.fingerprint;
    if simulate(&scenario, options.cancel)?.fingerprint == first {
        return Ok(());
    }
    Err(ExperimentError::Part(format!(
        "{subject}: it is not deterministic, since two identical runs differed: it keeps state from \
         one connection to another, or uses a clock or a random generator of its own"
    )))
}
