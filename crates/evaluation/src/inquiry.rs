//! Questions to subjects, the experiments that they need, and the answers.

use std::collections::BTreeSet;

use windward_core::protocols::Protocol;
use windward_experiments::ExperimentError;
use windward_experiments::claims::{CheckResult, ClaimResult, Verdict};
use windward_experiments::experiment::{
    Asked, CARRIED, Check, Claim, Effort, Experiment, PlotKind, RunLength, Subject, Unit, is_taken,
    same_name,
};
use windward_report::lead::GaveUp;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;

use crate::suite::{Criterion, Known, Suite};

/// Answer of a subject to a criterion or claim.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Answer {
    /// The numbers show that the subject meets it.
    Meets,
    /// There is no such scenario with the subject.
    NotApplicable,
    /// Nothing is measured yet.
    ToCome,
    /// The numbers do not decide after the permitted runs.
    Undecided,
    /// The numbers show that the subject does not meet it.
    DoesNot,
}

impl Answer {
    /// Final answers, in the order of counts.
    pub const ALL: [Answer; 4] =
        [Answer::Meets, Answer::DoesNot, Answer::Undecided, Answer::NotApplicable];

    /// The answer in words.
    pub fn words(self) -> &'static str {
        match self {
            Answer::Meets => "meets",
            Answer::DoesNot => "does not",
            Answer::Undecided => "undecided",
            Answer::NotApplicable => "not applicable",
            Answer::ToCome => "to come",
        }
    }

    pub(crate) fn of(claim: &ClaimResult) -> Self {
        match claim.verdict {
            _ if !claim.is_judged() => Answer::ToCome,
            Verdict::Held | Verdict::Tie => Answer::Meets,
            Verdict::NotHeld => Answer::DoesNot,
            Verdict::Inconclusive => Answer::Undecided,
        }
    }

    /// Common answer to several claims. All must be met; answers that are not applicable count only
    /// if all are.
    pub(crate) fn together(answers: impl IntoIterator<Item = Answer>) -> Option<Self> {
        let rank = |answer: &Answer| match answer {
            Answer::NotApplicable => 0,
            Answer::Meets => 1,
            Answer::ToCome => 2,
            Answer::Undecided => 3,
            Answer::DoesNot => 4,
        };
        answers.into_iter().max_by_key(rank)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.words())
    }
}

/// A suite, its subjects, and the flows that share paths with them.
#[derive(Debug, Clone)]
pub struct Question {
    /// The suite.
    pub suite: Suite,
    /// Controllers that are evaluated.
    pub subjects: Vec<Subject>,
    /// Controllers that share paths with them, instead of those that the suite names.
    pub against: Option<Vec<Subject>>,
    /// Criteria, experiments or claims to restrict it to; empty for all.
    pub only: Vec<String>,
    /// Stacks that subjects may name in addition to protocols.
    pub stacks: Stacks,
    /// Controllers that bounds are relative to, instead of those that the suite names. A subject is
    /// compared with those on its own stack, or with all if no standard runs on that stack.
    pub standards: Option<Vec<Subject>>,
}

impl Question {
    /// All criteria of a suite for these subjects.
    pub fn new(suite: Suite, subjects: Vec<Subject>) -> Self {
        let (only, stacks) = (Vec::new(), Stacks::none());
        Question { suite, subjects, against: None, only, stacks, standards: None }
    }
}

/// A question with its experiments.
#[derive(Debug, Clone)]
pub struct Inquiry {
    /// The question.
    pub question: Question,
    /// Experiments to run.
    pub experiments: Vec<Experiment>,
    /// Claims, in the order of the experiments.
    pub(crate) asked: Vec<AskedOfAll>,
    /// Criteria of whose claims [`Question::only`] names some and not all.
    partly: BTreeSet<String>,
    /// Verdicts under variations, with the name of each ([`Inquiry::vary`]).
    pub(crate) varied: Vec<(&'static str, ClaimResult)>,
}

/// A claim about all subjects.
#[derive(Debug, Clone)]
pub(crate) struct AskedOfAll {
    criterion: String,
    pub(crate) id: String,
    claim: String,
    expected: String,
    experiment: String,
    /// Subjects for which the scenario is impossible, with the reason.
    impossible: Vec<(String, String)>,
}

/// Answers of all subjects, in words and numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Names of the subjects, the columns.
    pub subjects: Vec<String>,
    /// The rows, one per criterion with its claims.
    pub criteria: Vec<CriterionAnswers>,
    /// Known results that were measured again.
    pub known: Vec<KnownAnswer>,
    /// Runs in which connections of [stacks](windward_sim::stack) gave up, experiment by
    /// experiment.
    pub gave_up: Vec<GaveUp>,
}

/// A criterion with the answers of all subjects.
#[derive(Debug, Clone, PartialEq)]
pub struct CriterionAnswers {
    /// The criterion.
    pub criterion: Criterion,
    /// Answers by subject; `None` without measurements.
    pub answers: Vec<Option<Answer>>,
    /// Claims that belong to it.
    pub asked: Vec<ClaimAnswers>,
    /// True if it has claims that were not asked for.
    pub is_partial: bool,
}

/// A claim with the answers of all subjects.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimAnswers {
    /// The id of the claim in its file.
    pub id: String,
    /// Behaviour that meets it.
    pub claim: String,
    /// The bound in words.
    pub expected: String,
    /// The experiment.
    pub experiment: String,
    /// By subject.
    pub answers: Vec<ClaimAnswer>,
}

/// Answer of one subject to one claim.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimAnswer {
    /// The verdict.
    pub answer: Answer,
    /// The deciding check, or the one closest to its bound; empty without numbers.
    pub check: String,
    /// Its left side in words: the label of the chart of its metric, as `Mean RTT`, or as the check
    /// has it.
    pub quantity: String,
    /// Its left side in short form, with the unit of that chart, as `31 ms`.
    pub value: String,
    /// Its bound or right side, as `<= 48 ms`.
    pub bound: String,
    /// Both sides with the interval of their difference, or the reason why there are no numbers.
    pub measured: String,
    /// Number of runs of each cell.
    pub runs: usize,
    /// The answers under variations of the scenario, if there were any.
    pub varied: Vec<VariedAnswer>,
}

/// The answer of a subject to a claim under a variation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariedAnswer {
    /// Name of the variation.
    pub variation: &'static str,
    /// The answer.
    pub answer: Answer,
}

impl VariedAnswer {
    /// True if it is the opposite of that answer.
    pub fn flips(&self, answer: Answer) -> bool {
        matches!(
            (answer, self.answer),
            (Answer::Meets, Answer::DoesNot) | (Answer::DoesNot, Answer::Meets)
        )
    }
}

/// A known result with the answer of this evaluation.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAnswer {
    /// The known result.
    pub known: Known,
    /// Answer.
    pub answer: Answer,
    /// The measured number.
    pub measured: String,
}

impl KnownAnswer {
    /// True if the answer agrees with the known result; `None` while it is open.
    pub fn agrees(&self) -> Option<bool> {
        match self.answer {
            Answer::Meets => Some(self.known.holds),
            Answer::DoesNot => Some(!self.known.holds),
            _ => None,
        }
    }
}

impl Question {
    /// Builds the experiments, and determines the scenarios that are impossible for each subject.
    ///
    /// # Errors
    /// If a subject cannot be built at all, something named in `only` does not exist, or anything
    /// in the suite is wrong.
    pub fn inquire(mut self, effort: &Effort) -> Result<Inquiry, ExperimentError> {
        // There is no file for the error.
        let fail = |message: String| ExperimentError::Experiment {
            file: "evaluate".to_owned(),
            line: 0,
            message,
        };
        if self.subjects.is_empty() {
            return Err(fail("no subject is named".to_owned()));
        }
        for (i, subject) in self.subjects.iter().enumerate() {
            let mut before = self.subjects[..i].iter();
            if let Some(other) = before.find(|other| same_name(&other.name, &subject.name)) {
                let twice = match other.name == subject.name {
                    true => format!("the subject `{subject}` is named twice"),
                    false => format!(
                        "the subjects `{other}` and `{subject}` differ only in case: \
                         choose another name for one"
                    ),
                };
                return Err(fail(twice));
            }
        }
        let witnesses = self.suite.witnesses(&self.subjects, None)?;
        self.suite.standards = match &self.standards {
            Some(given) => given.clone(),
            None => {
                let all = [self.subjects.as_slice(), &witnesses].concat();
                self.suite.standards_for(&all, &self.stacks)
            }
        };
        let company = self.against.as_ref().unwrap_or(&self.suite.against);
        let mut all =
            self.subjects.iter().chain(&self.suite.standards).chain(company).chain(&witnesses);
        let mut known: Vec<&Subject> = Vec::new();
        all.try_for_each(|subject| {
            if let Some(taken) = subject.name_taken(&self.stacks) {
                return Err(fail(is_taken(taken)));
            }
            // A name has one meaning among subjects, standards and competitors.
            if let Some(other) = known.iter().find(|other| same_name(&other.name, &subject.name))
                && (&other.name, &other.protocol, other.own.map(|own| own.source))
                    != (&subject.name, &subject.protocol, subject.own.map(|own| own.source))
            {
                return Err(fail(format!(
                    "`{subject}` has two meanings, {} and {}: choose another name for one",
                    other.given, subject.given
                )));
            }
            known.push(subject);
            check(subject, &self.stacks)
        })?;
        let against = self.against.as_deref();
        let experiments = self.suite.experiments(&self.subjects, against, &self.stacks, effort)?;
        let every: Vec<Asked> =
            experiments.iter().flat_map(|e| &e.claims).filter_map(|c| c.asked.clone()).collect();
        let (question, asked, varied) = (self, Vec::new(), Vec::new());
        let partly = BTreeSet::new();
        let mut inquiry = Inquiry { question, experiments: Vec::new(), asked, partly, varied };
        for experiment in inquiry.question.select(experiments)? {
            inquiry.add(&experiment, effort)?;
        }
        let missing = |asked: &Asked| !inquiry.asked.iter().any(|row| row.id == asked.of_all);
        let partly = every.into_iter().filter(missing).map(|asked| asked.criterion).collect();
        inquiry.partly = partly;
        Ok(inquiry)
    }

    /// The reason for each subject and standard if the scenario is impossible with all of them.
    /// Empty if it is impossible with `newreno` too: then the error is in the suite, and the plan
    /// reports it.
    fn all_impossible(
        &self,
        experiment: &Experiment,
        length: &RunLength,
        effort: &Effort,
    ) -> Result<Vec<(String, String)>, ExperimentError> {
        let Some(axis) = experiment.axes.iter().position(|a| a.skip_impossible) else {
            return Ok(Vec::new());
        };
        if !experiment.axes[axis].skipped.is_empty() {
            return Ok(Vec::new());
        }
        // Either all points are possible or none is.
        let first = (0..experiment.cells()).filter(|cell| experiment.point_index(*cell, axis) == 0);
        if experiment.impossible(length, axis, first)[0].is_none() {
            return Ok(Vec::new());
        }
        let reasons = experiment.impossible(length, axis, 0..experiment.cells());
        let points = experiment.axes[axis].points.iter().map(|point| point.label.clone());
        let Some(all) = reasons.into_iter().collect::<Option<Vec<String>>>() else {
            return Ok(Vec::new());
        };
        let plain = [Subject::row("newreno")];
        let mut suite = self.suite.clone();
        (suite.standards, suite.known) = (plain.to_vec(), Vec::new());
        let probe = suite.experiments(&plain, Some(&plain), &self.stacks, effort)?;
        let is_possible = |probe: &Experiment| {
            probe.id == experiment.id
                && probe.impossible(length, axis, 0..probe.cells()).iter().all(Option::is_none)
        };
        Ok(if probe.iter().any(is_possible) { points.zip(all).collect() } else { Vec::new() })
    }

    /// The claims that `only` selects.
    fn select(&self, mut experiments: Vec<Experiment>) -> Result<Vec<Experiment>, ExperimentError> {
        if self.only.is_empty() {
            return Ok(experiments);
        }
        let names = |e: &Experiment| {
            let asked = e.claims.iter().filter_map(|c| c.asked.as_ref());
            let asked = asked.flat_map(|a| [a.of_all.clone(), a.criterion.clone()]);
            asked.chain([e.id.clone()]).chain(e.caption.chapter.clone()).collect::<Vec<String>>()
        };
        for wanted in &self.only {
            if !experiments.iter().any(|e| names(e).contains(wanted)) {
                let all: Vec<String> = experiments.iter().flat_map(names).collect();
                let near = windward_sim::suggest::near(wanted, all.iter().map(String::as_str));
                let hint = match near {
                    Some(near) => format!("; did you mean `{near}`?"),
                    None => {
                        let criteria = self.suite.criteria.iter().map(|c| &*c.id);
                        let asked = criteria.filter(|id| all.iter().any(|name| name == id));
                        let criteria = asked.collect::<Vec<_>>().join(", ");
                        format!("; its criteria are {criteria}, and --list shows their claims")
                    }
                };
                return Err(ExperimentError::Experiment {
                    file: self.suite.file.clone(),
                    line: 0,
                    message: format!("it has no criterion, experiment or claim `{wanted}`{hint}"),
                });
            }
        }
        experiments.retain(|e| names(e).iter().any(|name| self.only.contains(name)));
        for experiment in &mut experiments {
            let whole = [Some(&experiment.id), experiment.caption.chapter.as_ref()];
            if whole.into_iter().flatten().any(|name| self.only.contains(name)) {
                continue;
            }
            let is_named = |asked: &Asked| {
                self.only.contains(&asked.of_all) || self.only.contains(&asked.criterion)
            };
            let asked = experiment.claims.iter().filter_map(|claim| claim.asked.clone());
            let named: Vec<Asked> = asked.filter(is_named).collect();
            // Without goodput none of them is met.
            let is_needed = |asked: &Asked| {
                asked.of_all.starts_with(CARRIED)
                    && named.iter().any(|named| named.criterion == asked.criterion)
            };
            experiment.claims.retain(|claim| {
                claim.asked.as_ref().is_some_and(|asked| is_named(asked) || is_needed(asked))
            });
        }
        Ok(experiments)
    }
}

impl Inquiry {
    /// Adds an experiment without the points that are impossible. A claim about one of them, or
    /// with a bound from one, is not applicable to its subject.
    fn add(&mut self, experiment: &Experiment, effort: &Effort) -> Result<(), ExperimentError> {
        let length = experiment.overridden(experiment.run_length(effort));
        let mut experiment = experiment.without_impossible(&length, |e| 0..e.cells());
        let skipped = experiment.axes.iter().flat_map(|axis| &axis.skipped);
        let mut skipped: Vec<(String, String)> =
            skipped.map(|s| (s.label.clone(), s.reason.clone())).collect();
        skipped.extend(self.question.all_impossible(&experiment, &length, effort)?);
        // The reason why a claim cannot be asked: its own subject's first.
        let reason = |claim: &Claim, subject: &str| -> Option<String> {
            let found = |label: &str| skipped.iter().find(|(name, _)| name == label);
            if let Some((_, reason)) = found(subject) {
                return Some(reason.clone());
            }
            let cells = claim.checks.iter().flat_map(Check::cells);
            let mut labels = cells.filter(|c| c.experiment.is_none()).flat_map(|c| &c.labels);
            let (name, reason) = labels.find_map(|label| found(label))?;
            Some(format!("its bound is relative to `{name}`, and {reason}"))
        };
        let known = self.question.suite.known.iter();
        let judged: Vec<&str> = self
            .question
            .subjects
            .iter()
            .map(|s| &*s.name)
            .chain(known.map(|k| &*k.subject))
            .collect();
        let mut asked_now: Vec<AskedOfAll> = Vec::new();
        for claim in &experiment.claims {
            let Some(asked) = &claim.asked else { continue };
            let known = asked_now.iter().position(|row| row.id == asked.of_all);
            let at = known.unwrap_or_else(|| {
                asked_now.push(AskedOfAll {
                    criterion: asked.criterion.clone(),
                    id: asked.of_all.clone(),
                    claim: claim.claim.clone(),
                    expected: claim.expected.clone(),
                    experiment: experiment.id.clone(),
                    impossible: Vec::new(),
                });
                asked_now.len() - 1
            });
            if judged.contains(&&*asked.subject)
                && let Some(why) = reason(claim, &asked.subject)
            {
                asked_now[at].impossible.push((asked.subject.clone(), why));
            }
        }
        experiment.claims.retain(|claim| {
            claim.asked.as_ref().is_none_or(|asked| reason(claim, &asked.subject).is_none())
        });
        self.asked.extend(asked_now);
        // If all points are impossible, there is nothing to run.
        if !experiment.claims.is_empty() {
            self.experiments.push(experiment);
        }
        Ok(())
    }

    fn experiment(&self, id: &str) -> Option<&Experiment> {
        self.experiments.iter().find(|experiment| experiment.id == id)
    }

    /// Claims of a criterion: id, experiment, and the required behaviour.
    pub fn asked_of(&self, criterion: &str) -> Vec<(String, String, String)> {
        let of_it = self.asked.iter().filter(|row| row.criterion == criterion);
        of_it.map(|row| (row.id.clone(), row.experiment.clone(), row.claim.clone())).collect()
    }

    /// Answers by the verdicts on claims.
    pub(crate) fn answers(&self, claims: &[&ClaimResult], gave_up: &[GaveUp]) -> Evaluation {
        let Question { suite, subjects, .. } = &self.question;
        let subjects: Vec<String> = subjects.iter().map(|s| s.name.clone()).collect();
        let answer = |row: &AskedOfAll, subject: &String| {
            if let Some((_, reason)) = row.impossible.iter().find(|(name, _)| name == subject) {
                return ClaimAnswer::without(Answer::NotApplicable, reason.clone());
            }
            let of_row = |claim: &&&ClaimResult| {
                let asked = claim.asked.as_ref();
                asked.is_some_and(|asked| asked.of_all == row.id && asked.subject == *subject)
            };
            let claim = claims.iter().find(of_row);
            let answer = claim.map_or_else(
                || ClaimAnswer::without(Answer::ToCome, String::new()),
                |claim| ClaimAnswer::of(claim, self.experiment(&row.experiment)),
            );
            ClaimAnswer { varied: self.varied_answers(&row.id, subject), ..answer }
        };
        let row = |row: &AskedOfAll| ClaimAnswers {
            id: row.id.clone(),
            claim: row.claim.clone(),
            expected: row.expected.clone(),
            experiment: row.experiment.clone(),
            answers: subjects.iter().map(|subject| answer(row, subject)).collect(),
        };
        let criterion = |criterion: &Criterion| {
            let asked = self.asked.iter().filter(|row| row.criterion == criterion.id);
            let asked: Vec<ClaimAnswers> = asked.map(row).collect();
            let column = |at: usize| Answer::together(asked.iter().map(|a| a.answers[at].answer));
            CriterionAnswers {
                criterion: criterion.clone(),
                answers: (0..subjects.len()).map(column).collect(),
                asked,
                is_partial: self.partly.contains(&criterion.id),
            }
        };
        let criteria: Vec<CriterionAnswers> = suite.criteria.iter().map(criterion).collect();
        let known = suite.known.iter().filter_map(|known| {
            let row = self.asked.iter().find(|row| row.id == known.claim)?;
            let ClaimAnswer { answer, measured, .. } = answer(row, &known.subject);
            Some(KnownAnswer { known: known.clone(), answer, measured })
        });
        Evaluation { known: known.collect(), subjects, criteria, gave_up: gave_up.to_vec() }
    }
}

impl ClaimAnswer {
    fn without(answer: Answer, measured: String) -> Self {
        let [check, quantity, value, bound] = [const { String::new() }; 4];
        ClaimAnswer { answer, check, quantity, value, bound, measured, runs: 0, varied: Vec::new() }
    }

    fn of(claim: &ClaimResult, experiment: Option<&Experiment>) -> Self {
        let answer = Answer::of(claim);
        let Some(check) = deciding(&claim.checks, claim.verdict) else {
            return ClaimAnswer::without(answer, String::new());
        };
        let (quantity, unit) = quantity(&check.text, experiment);
        ClaimAnswer {
            answer,
            check: check.text.clone(),
            quantity,
            value: check.left.map(|left| with_unit(left.mean, unit)).unwrap_or_default(),
            bound: bound(check, unit),
            measured: check.measured(),
            runs: check.repetitions,
            varied: Vec::new(),
        }
    }

    /// `Mean RTT = 31 ms (<= 48 ms)`; `None` without numbers.
    pub fn in_numbers(&self) -> Option<String> {
        let ClaimAnswer { quantity, value, bound, .. } = self;
        (!value.is_empty()).then(|| format!("{quantity} = {value} ({bound})"))
    }

    /// The variations of the scenario under which the verdict is the opposite.
    pub fn flips(&self) -> Vec<&'static str> {
        let flips = self.varied.iter().filter(|varied| varied.flips(self.answer));
        flips.map(|varied| varied.variation).collect()
    }
}

/// The deciding check: of those with the verdict of the claim, the one that is furthest on the
/// wrong side, or closest to it.
fn deciding(checks: &[CheckResult], verdict: Verdict) -> Option<&CheckResult> {
    let worst = |check: &&CheckResult| {
        let (Some(left), Some(right)) = (check.left, check.right) else { return 0.0 };
        let size = left.mean.abs().max(right.mean.abs()).max(f64::MIN_POSITIVE);
        let apart = (left.mean - right.mean) / size;
        // Values below a lower bound and above an upper bound are on the wrong side.
        if check.text.contains(">") { apart } else { -apart }
    };
    let of_it = checks.iter().filter(|c| c.verdict == verdict);
    let worst_of = of_it.min_by(|a, b| worst(a).total_cmp(&worst(b)));
    worst_of.or(checks.first())
}

/// The left side of a check in words, and its unit. A single cell has those of the chart of its
/// metric.
pub(crate) fn quantity(check: &str, experiment: Option<&Experiment>) -> (String, Unit) {
    let left = check.split(['<', '>']).next().unwrap_or_default().trim();
    let chart = || {
        let experiment = experiment?;
        let is_cell = left.ends_with(']') && left.matches('[').count() == 1;
        let (name, _) = left.split_once('[').filter(|_| is_cell)?;
        if name == CARRIED {
            return Some(("Goodput".to_owned(), Unit::named("Mbit/s")?));
        }
        let at = experiment.metrics.iter().position(|metric| metric.name == name)?;
        experiment.plots.iter().find_map(|plot| match &plot.kind {
            PlotKind::Lines { metrics, .. } | PlotKind::Dots { metrics, .. }
                if metrics.contains(&at) =>
            {
                let of = if metrics.len() > 1 { format!(" ({name})") } else { String::new() };
                Some((format!("{}{of}", plot.y_title), plot.unit))
            }
            _ => None,
        })
    };
    chart().unwrap_or_else(|| (left.to_owned(), Unit::NONE))
}

/// `31 ms`
fn with_unit(mean: f64, unit: Unit) -> String {
    let number = windward_experiments::claims::number(mean * unit.factor);
    format!("{number} {}", unit.name).trim_end().to_owned()
}

/// `<= 48 ms`
fn bound(check: &CheckResult, unit: Unit) -> String {
    let sign = [">=", "<=", ">", "<"].into_iter().find(|sign| check.text.contains(sign));
    match (sign, check.right) {
        (Some(sign), Some(right)) => format!("{sign} {}", with_unit(right.mean, unit)),
        _ => String::new(),
    }
}

/// Verifies that flows of the subject can be built.
fn check(subject: &Subject, stacks: &Stacks) -> Result<(), ExperimentError> {
    // The scenario provides the routers that it needs.
    let text = "duration = \"1s\"\n[dumbbell]\nbottleneck = { rate = \"1Mbit\", delay = \"1ms\" }\n\
                access = { rate = \"1Mbit\", delay = \"1ms\" }\n[[flows]]\ngroup = \"flow\"\n\
                protocol = \"newreno\"\n";
    let name = format!("subject {subject}");
    let file = ScenarioFile::parse(&name, text).and_then(|file| {
        let own: Vec<Protocol> = subject.own.into_iter().collect();
        let mut file = file.with_stacks(stacks).with_protocols(&own);
        file.set("flows.flow.protocol", &subject.protocol)?;
        file.build()
    });
    file.map(drop).map_err(|error| ExperimentError::Scenario { cell: None, error })
}
