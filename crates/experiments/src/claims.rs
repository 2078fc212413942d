//! Verdicts on claims from measured numbers.
//!
//! Each check `left >= right` is evaluated as `left - right`; cells of one repetition share their
//! seed, so the difference is paired. It has a confidence interval, by Student's t, Fieller's
//! theorem or the jackknife ([`SampledCells::estimate`]). If the interval lies wholly on the right
//! side the check holds, wholly on the wrong side it does not, else more repetitions must decide.
//! Where a check asks which of two measured things is larger and the interval lies wholly within a
//! margin around zero, the two are practically equal, a tie (TOST, Schuirmann 1987). A claim does
//! not hold if one of its checks does not hold. It holds if all of them do; a tie does not violate
//! an order. A claim all of whose orders are ties is a tie, whatever its constant bounds say.
//!
//! A claim is judged under the plain reading and under others
//! ([`crate::experiment::Reading`]).

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::ExperimentError;
use crate::experiment::{
    Asked, Basis, Check, Claim, Deviation, Experiment, Explanation, History, Margin, Reading,
};
use crate::expression::{Cell, Comparison, Relation};
use crate::statistics::{Estimate, Look, end};
use crate::worlds::Distance;

mod control;
mod world;

pub use crate::paired::{CellSamples, SampledCells};
pub use crate::verdict::Verdict;
pub(crate) use control::control;
pub use control::{Control, ControlVerdict};
pub use world::{Belief, ClaimWorlds, JointResult, SearchEnd, SearchResult, WorldResult};

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimResult {
    /// `L3`.
    pub id: String,
    /// The claim as the file states it.
    pub claim: String,
    /// Condition under which it holds, in words.
    pub expected: String,
    /// When its condition was fixed, and what it was before.
    pub history: History,
    /// Subject and criterion, for claims of a suite.
    pub asked: Option<Asked>,
    /// Reason why it does not hold, or not everywhere, if the file gives one.
    pub explanation: Option<String>,
    /// Id of the experiment it stands in.
    pub figure: String,
    /// The verdict of all checks together under the plain reading.
    pub verdict: Verdict,
    /// One per check of the claim.
    pub checks: Vec<CheckResult>,
    /// The choices whose plain value is based on the paper's figures only.
    pub calibrated: Vec<String>,
    /// The choices whose plain value changed when results were known, with the former one.
    pub formerly: Vec<(String, String)>,
    /// Results under each other reading.
    pub readings: Vec<ReadingResult>,
    /// The worlds that a search found, judged again.
    pub worlds: ClaimWorlds,
    /// Other readings that were not judged, since a quick look has no time for them.
    pub left_out: usize,
    /// Other readings that are still to be judged.
    pub to_come: usize,
}

/// A claim under a reading other than the plain one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadingResult {
    /// The choices with another value than the plain one.
    pub deviation: Deviation,
    /// The same in words: choice by choice, the value and the plain one.
    pub words: Vec<ChangedChoice>,
    /// The verdict of the checks.
    pub verdict: Verdict,
    /// The checks that were judged: where one that failed fails again, the others do not matter.
    pub checks: Vec<CheckResult>,
}

/// A choice with another value than the plain one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedChoice {
    /// Subject of the choice.
    pub choice: String,
    /// The plain value.
    pub plain: String,
    /// The value used instead.
    pub instead: String,
    /// Kind of reason for it.
    pub basis: Basis,
    /// The reason.
    pub source: String,
    /// True if it holds of one of the compared protocols alone, which is a further assumption.
    pub private: bool,
    /// The result of the paper that it makes impossible, if there is one.
    pub contradicted: Option<String>,
    /// The words of the paper that speak against it.
    pub against: Option<String>,
}

/// A check with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Index of the check in the claim.
    pub check: usize,
    /// The check as text; of several alternatives, the decisive one comes first.
    pub text: String,
    /// Edition of the list of claims in which it was written: 1 was before any measurement.
    pub edition: u32,
    /// The check that it replaced when results were known.
    pub was: Option<String>,
    /// Its verdict.
    pub verdict: Verdict,
    /// Left side.
    pub left: Option<Estimate>,
    /// Right side.
    pub right: Option<Estimate>,
    /// Unit of both sides; empty without one.
    pub unit: String,
    /// The cells of both sides.
    pub cells: Vec<CheckedCell>,
    /// True if the right side is a constant.
    pub fixed_bound: bool,
    /// True if it asks which of two measured things is larger.
    pub is_order: bool,
    /// Left minus right, paired.
    pub difference: Option<Estimate>,
    /// Largest difference of two equal values, if they can be equal.
    pub margin: Option<f64>,
    /// Repetitions used.
    pub repetitions: usize,
    /// Confidence of the intervals: more than 95 % after earlier looks.
    pub confidence: f64,
    /// Reason why there are no numbers.
    pub trouble: Option<String>,
    /// Would it hold of equal things, and can it fail? None if it compares nothing, or as long as
    /// the runs go on.
    pub control: Option<Control>,
}

/// A cell of a check.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedCell {
    /// Its name: `utilization[reno, 5%]`.
    pub name: String,
    /// Its mean.
    pub mean: f64,
    /// True if its side has more than it, so that the mean of the side is another.
    pub is_part: bool,
}

/// The verdict of an interval of `left - right`; `margin` is the largest difference of equal
/// values, if the check asks for an order.
pub fn judge(relation: Relation, difference: Estimate, margin: Option<f64>) -> Verdict {
    let Estimate { low, high, .. } = difference;
    if margin.is_some_and(|margin| low >= -margin && high <= margin) {
        return Verdict::Tie;
    }
    let (held, not_held) = match relation {
        Relation::AtLeast => (low >= 0.0, high < 0.0),
        Relation::Above => (low > 0.0, high <= 0.0),
        Relation::AtMost => (high <= 0.0, low > 0.0),
        Relation::Below => (high < 0.0, low >= 0.0),
    };
    match (held, not_held) {
        (true, _) => Verdict::Held,
        (_, true) => Verdict::NotHeld,
        _ => Verdict::Inconclusive,
    }
}

/// The verdict of several checks together. A tie does not violate an order; ties alone do not make
/// one.
pub fn combine(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let rank = |verdict: &Verdict| match verdict {
        Verdict::NotHeld => 3,
        Verdict::Inconclusive => 2,
        Verdict::Held => 1,
        Verdict::Tie => 0,
    };
    verdicts.into_iter().max_by_key(rank).unwrap_or(Verdict::Held)
}

/// The verdict of a claim from its checks. If each check that asks for an order is a tie, nothing
/// distinguishes the compared things, and constant bounds that hold do not make the claim hold.
pub fn verdict_of(checks: &[CheckResult]) -> Verdict {
    let verdict = combine(checks.iter().map(|check| check.verdict));
    let mut orders = checks.iter().filter(|check| check.is_order).peekable();
    let ties = orders.peek().is_some() && orders.all(|check| check.verdict == Verdict::Tie);
    if verdict == Verdict::Held && ties { Verdict::Tie } else { verdict }
}

/// Number of readings by verdict. No single number stands for them: a reading that is not decided
/// is not one under which the claim fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Readings under which the claim holds.
    pub held: usize,
    /// Readings under which it is a tie.
    pub tie: usize,
    /// Readings under which it does not hold.
    pub not_held: usize,
    /// Readings that are not decided.
    pub inconclusive: usize,
}

impl Counts {
    /// Counts verdicts.
    pub fn of(verdicts: impl IntoIterator<Item = Verdict>) -> Self {
        let mut counts = Counts::default();
        for verdict in verdicts {
            counts.add(verdict);
        }
        counts
    }

    /// Counts one more.
    pub fn add(&mut self, verdict: Verdict) {
        *self.get_mut(verdict) += 1;
    }

    fn get_mut(&mut self, verdict: Verdict) -> &mut usize {
        match verdict {
            Verdict::Held => &mut self.held,
            Verdict::Tie => &mut self.tie,
            Verdict::NotHeld => &mut self.not_held,
            Verdict::Inconclusive => &mut self.inconclusive,
        }
    }

    /// The number of one verdict.
    pub fn get(mut self, verdict: Verdict) -> usize {
        *self.get_mut(verdict)
    }

    /// The number of all.
    pub fn all(self) -> usize {
        Verdict::ALL.into_iter().map(|verdict| self.get(verdict)).sum()
    }

    /// True if each is decided and none is held: only then a claim "holds in none".
    pub fn is_none(self) -> bool {
        self.held == 0 && self.inconclusive == 0
    }

    /// The numbers of the verdicts other than held, without zeros: `2 not held, 1 inconclusive`.
    pub fn others(self) -> String {
        let others = Verdict::ALL.into_iter().filter(|verdict| *verdict != Verdict::Held);
        let words = others.map(|verdict| (self.get(verdict), verdict)).filter(|(n, _)| *n > 0);
        words.map(|(n, verdict)| format!("{n} {verdict}")).collect::<Vec<_>>().join(", ")
    }
}

/// Largest number of cells that follow the two sides of a check.
const MOST_PARTS: usize = 3;

/// Minimum number of runs of a verdict, even if all runs are equal.
pub const LEAST_RUNS: usize = 3;

/// Result of check number `index` of a claim after a look at the first runs of each of its cells,
/// which `column` returns. The best of the alternatives counts; most checks have only one.
pub fn evaluate(
    index: usize,
    check: &Check,
    look: Look,
    column: &impl Fn(&Cell) -> Result<CellSamples, String>,
) -> CheckResult {
    // With several alternatives, each may hold by chance, so that each has a part of the error.
    let look = look.of_one_among(check.any.len());
    let each =
        check.any.iter().map(|(text, c)| evaluate_comparison(text, c, check.tie, look, column));
    let rank = |verdict| match verdict {
        Verdict::Held => 0,
        Verdict::Tie => 1,
        Verdict::Inconclusive => 2,
        Verdict::NotHeld => 3,
    };
    // An open alternative counts before one without numbers, which more runs cannot decide.
    let best = each.min_by_key(|result| (rank(result.verdict), result.difference.is_none()));
    let mut best = best.expect("a check is read with at least one comparison");
    best.check = index;
    best.edition = check.edition;
    best.was.clone_from(&check.was);
    let others = check.any.iter().map(|(text, _)| text).filter(|t| **t != best.text);
    let others: Vec<String> = others.map(|t| format!(", or {t}")).collect();
    best.text.push_str(&others.concat());
    best
}

fn evaluate_comparison(
    text: &str,
    comparison: &Comparison,
    tie: Option<Margin>,
    look: Look,
    column: &impl Fn(&Cell) -> Result<CellSamples, String>,
) -> CheckResult {
    let mut result = CheckResult {
        check: 0,
        text: text.to_owned(),
        edition: 1,
        was: None,
        verdict: Verdict::Inconclusive,
        left: None,
        right: None,
        unit: String::new(),
        cells: Vec::new(),
        fixed_bound: comparison.right.constant().is_some(),
        is_order: comparison.is_order(),
        difference: None,
        margin: None,
        repetitions: 0,
        confidence: look.confidence,
        trouble: None,
        control: None,
    };
    let mut columns = SampledCells::default();
    for cell in comparison.cells() {
        match column(cell) {
            Ok(values) => columns.0.push((cell, values)),
            Err(trouble) => {
                result.trouble = Some(trouble);
                return result;
            }
        }
    }
    let n = columns.rows().min(look.runs as usize);
    let margin = comparison.is_order().then(|| {
        let of_cell = |cell: &Cell| columns.of(cell).is_some_and(|column| column.has_unit);
        let has_unit = comparison.left.has_unit(&of_cell) || comparison.right.has_unit(&of_cell);
        tie.unwrap_or(if has_unit { USUAL_SHARE } else { USUAL_MARGIN })
    });
    summarize(comparison, &columns, n, margin, &mut result);
    result
}

/// Largest difference of equal shares and ratios.
const USUAL_MARGIN: Margin = Margin::Absolute(0.02);
/// Largest difference of equal values with a unit.
const USUAL_SHARE: Margin = Margin::Share(0.05);

/// Fills in the numbers and the verdict from the first `runs` repetitions.
fn summarize(
    comparison: &Comparison,
    columns: &SampledCells<'_>,
    runs: usize,
    margin: Option<Margin>,
    result: &mut CheckResult,
) {
    let Comparison { left, relation, right } = comparison;
    let difference = columns.difference(left, right, runs, result.confidence);
    let side = |side| columns.estimate(side, runs, result.confidence);
    let (left, right) = (side(left), side(right));
    let Comparison { left: one, right: other, .. } = comparison;
    let measured = if other.constant().is_some() { [one, one] } else { [one, other] };
    let units = measured.map(|side| columns.unit_of(side));
    result.unit = if units[0] == units[1] { units[0].to_owned() } else { String::new() };
    let cells = [one, other].into_iter().flat_map(|side| {
        let is_part = !side.is_leaf();
        side.leaves().into_iter().map(move |cell| (cell, is_part))
    });
    let cells = cells.filter_map(|(cell, is_part)| {
        let samples = &columns.of(cell)?.samples[..runs];
        let mean = samples.iter().sum::<f64>() / runs as f64;
        Some(CheckedCell { name: cell.to_string(), mean, is_part })
    });
    result.cells = cells.collect();
    result.repetitions = runs;
    result.left = left;
    result.right = right;
    result.difference = difference;
    match (left, right, difference) {
        (Some(left), Some(right), Some(difference)) => {
            result.margin = margin.map(|margin| match margin {
                Margin::Absolute(margin) => margin,
                Margin::Share(share) => share * left.mean.abs().max(right.mean.abs()),
            });
            if runs < LEAST_RUNS {
                let n =
                    if runs == 1 { "one run is".to_owned() } else { format!("{runs} runs are") };
                result.trouble =
                    Some(format!("{n} too few for a verdict, which takes {LEAST_RUNS}"));
            } else {
                result.verdict = judge(*relation, difference, result.margin);
            }
        }
        _ => {
            result.trouble = Some(match columns.rows_without_numbers(runs) {
                0 => "no number here: a divisor is zero on average".to_owned(),
                without => format!(
                    "{without} of {runs} repetitions have no number here (a division by zero)"
                ),
            });
        }
    }
}

/// Verifies the checks that name cells of another experiment of the list, which the reader of one
/// file cannot do.
pub fn check_references(experiments: &[Experiment]) -> Result<(), ExperimentError> {
    for own in experiments {
        for claim in &own.claims {
            let cells = claim.checks.iter();
            let cells = cells.flat_map(|c| c.cells().into_iter().map(|cell| (cell, c.line)));
            check_involved(own, cells, experiments)?;
        }
        for reported in &own.reported {
            let cells = reported.value.leaves().into_iter().map(|cell| (cell, reported.line));
            check_involved(own, cells, experiments)?;
        }
        for claim in &own.claims {
            let line = claim.checks.first().map_or(0, |check| check.line);
            let values = claim.explanation.iter().flat_map(Explanation::values);
            for value in values {
                let cells = value.leaves().into_iter().map(|cell| (cell, line));
                check_involved(own, cells, experiments)?;
            }
        }
    }
    Ok(())
}

/// Verifies that all experiments whose cells appear in one expression have these cells, and that
/// any two of them have the same values for a choice of the same name.
fn check_involved<'a>(
    own: &Experiment,
    cells: impl Iterator<Item = (&'a Cell, usize)>,
    experiments: &[Experiment],
) -> Result<(), ExperimentError> {
    let mut involved = vec![own];
    for (cell, line) in cells {
        let error = |message| ExperimentError::Experiment { file: own.file.clone(), line, message };
        let id = cell.experiment.as_ref();
        let Some(other) = id.and_then(|id| experiments.iter().find(|e| e.id == *id)) else {
            continue;
        };
        other.find(cell).map_err(error)?;
        if involved.iter().any(|e| e.id == other.id) {
            continue;
        }
        for known in &involved {
            same_readings(known, other).map_err(error)?;
        }
        involved.push(other);
    }
    Ok(())
}

/// A choice that two experiments share must have the same values in both. Otherwise a reading of
/// one would silently be the plain one of the other.
fn same_readings(a: &Experiment, b: &Experiment) -> Result<(), String> {
    let labels = |r: &Reading| r.values.iter().map(|v| v.label.clone()).collect::<Vec<_>>();
    for here in &a.readings {
        let Some(there) = b.readings.iter().find(|r| r.name == here.name) else { continue };
        let facts = |r: &Reading| (labels(r), r.plain());
        if facts(here) != facts(there) {
            return Err(format!(
                "the reading `{}` has other values in `{}` than in `{}`, whose cells are compared \
                 here: {} against {}",
                here.name,
                b.id,
                a.id,
                labels(there).join(", "),
                labels(here).join(", ")
            ));
        }
    }
    Ok(())
}

impl CheckResult {
    /// The numbers for readers: the left side with its interval for a fixed bound, otherwise both
    /// sides and their difference. The values of few cells follow, if a side is more than a cell.
    pub fn measured(&self) -> String {
        let (Some(left), Some(right), Some(difference)) = (self.left, self.right, self.difference)
        else {
            return self.trouble.clone().unwrap_or_default();
        };
        let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
        if self.fixed_bound {
            return format!("{}{unit}", interval(left));
        }
        let mut text = format!(
            "{} against {}, difference {}{unit}",
            number(left.mean),
            number(right.mean),
            interval(difference)
        );
        let parts = self.cells.iter().filter(|cell| cell.is_part);
        let parts: Vec<String> = parts.map(|cell| number(cell.mean)).collect();
        if (1..=MOST_PARTS).contains(&parts.len()) {
            text += &format!(" (from {})", parts.join(", "));
        }
        text
    }
}

impl CheckResult {
    /// The numbers, to follow those of the same check under another reading. If they belong to
    /// another alternative, its text comes first.
    pub fn measured_beside(&self, other: &CheckResult) -> String {
        match self.text == other.text {
            true => self.measured(),
            false => format!("{}: {}", self.text, self.measured()),
        }
    }
}

/// `0.95 [0.93, 0.97]`; `13.0 [4.2, ∞]` if nothing bounds it on one side.
pub fn interval(e: Estimate) -> String {
    if e.is_single() {
        return number(e.mean);
    }
    format!("{} [{}, {}]", number(e.mean), end(e.low, number), end(e.high, number))
}

/// A number with about three significant digits.
pub fn number(x: f64) -> String {
    let (size, unit) = match x.abs() {
        a if a >= 1e9 => (x / 1e9, "G"),
        a if a >= 1e6 => (x / 1e6, "M"),
        a if a >= 1e4 => (x / 1e3, "k"),
        _ => (x, ""),
    };
    let digits = match size.abs() {
        a if a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        a if a >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.digits$}{unit}");
    // No minus sign before zeros.
    match text.strip_prefix('-') {
        Some(zeros) if zeros.chars().all(|c| matches!(c, '0' | '.')) => zeros.to_owned(),
        _ => text,
    }
}

impl ClaimResult {
    /// A claim before any measurement.
    pub fn open(claim: &Claim, figure: &str) -> Self {
        ClaimResult {
            id: claim.id.clone(),
            claim: claim.claim.clone(),
            expected: claim.expected.clone(),
            history: claim.history.clone(),
            asked: claim.asked.clone(),
            explanation: claim.explanation.as_ref().map(|explanation| explanation.text(|_| None)),
            figure: figure.to_owned(),
            verdict: Verdict::Inconclusive,
            checks: Vec::new(),
            calibrated: Vec::new(),
            formerly: Vec::new(),
            readings: Vec::new(),
            worlds: ClaimWorlds::default(),
            left_out: 0,
            to_come: 0,
        }
    }

    /// True if it has a verdict under each reading and in each world that is to be judged.
    pub fn is_finished(&self) -> bool {
        self.is_judged() && self.to_come == 0 && self.worlds.to_come() == 0
    }

    /// True if it has a verdict under the plain reading.
    pub fn is_judged(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Number of readings by verdict, including the plain one.
    pub fn counts(&self) -> Counts {
        Counts::of(self.readings.iter().map(|r| r.verdict).chain([self.verdict]))
    }

    /// Number of readings under which it holds, including the plain one.
    pub fn held(&self) -> usize {
        self.counts().held
    }

    /// Number of readings under which it was judged, including the plain one.
    pub fn of(&self) -> usize {
        self.readings.len() + 1
    }

    /// `holds in 3 of 7 readings (3 not held, 1 inconclusive)`. It "holds in none" only if each of
    /// them is decided.
    pub fn in_readings(&self) -> String {
        let counts = self.counts();
        let text = match (counts.held, self.of()) {
            (_, 1) if self.to_come > 0 => "under its plain reading".to_owned(),
            (_, 1) => "no choice to read otherwise".to_owned(),
            (0, of) if counts.not_held == of => format!("holds in none of {of} readings"),
            (0, of) if counts.is_none() => {
                format!("holds in none of {of} readings ({})", counts.others())
            }
            (held, of) if held == of => format!("holds in all {of} readings"),
            (held, of) => format!("holds in {held} of {of} readings ({})", counts.others()),
        };
        match (self.left_out, self.to_come) {
            (0, 0) => text,
            (more, 0) => format!("{text}, {more} not judged"),
            (_, more) => format!("{text}, {more} to come"),
        }
    }

    /// The deciding readings. If the claim does not hold plainly, these are the readings under
    /// which it holds; if it does, those with another verdict.
    pub fn deciding(&self) -> Vec<&ReadingResult> {
        let turns = |r: &&ReadingResult| {
            let decided = |v: Verdict| matches!(v, Verdict::Held | Verdict::NotHeld | Verdict::Tie);
            let holds = |v: Verdict| v == Verdict::Held;
            // If the plain verdict is open, only a reading under which the claim holds decides. A
            // reading that stays open never does.
            r.verdict != self.verdict
                && decided(r.verdict)
                && (holds(r.verdict) || holds(self.verdict))
        };
        self.readings.iter().filter(turns).collect()
    }

    /// All measured numbers in one text.
    pub fn measured(&self) -> String {
        let checks = self.checks.iter();
        let texts = checks.map(|c| format!("{}: {}", c.text, c.measured()));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// One element of `claims.json`.
    pub fn to_json(&self) -> Value {
        let counts = self.counts();
        let mut json = json!({
            "id": self.id,
            "claim": self.claim,
            "expected": self.expected,
            "edition": self.history.edition,
            "rewritten": self.history.rewritten,
            "verdict_before": self.history.verdict_before.map(|verdict| verdict.to_string()),
            "not_checked": self.history.not_checked,
            "measured": self.measured(),
            "verdict": self.is_judged().then(|| self.verdict.to_string()),
            "figure": self.figure,
            "checks": self.checks.iter().map(|check| check.to_json_of(&self.history)).collect::<Vec<_>>(),
            "held_in_readings": self.held(),
            "readings_judged": self.of(),
            "in_readings": {
                "held": counts.held,
                "tie": counts.tie,
                "not_held": counts.not_held,
                "inconclusive": counts.inconclusive,
            },
            "readings_left_out": self.left_out,
            "readings_to_come": self.to_come,
            "calibrated": self.calibrated,
            "formerly": self.formerly.iter().map(|(choice, formerly)| {
                json!({ "choice": choice, "plain": formerly })
            }).collect::<Vec<_>>(),
            "deciding": self.deciding().iter().map(|r| self.decision(r)).collect::<Vec<_>>(),
            "readings": self.readings.iter().map(ReadingResult::to_json).collect::<Vec<_>>(),
        });
        self.add_worlds(&mut json);
        let texts = [
            ("explanation", self.explanation.as_deref()),
            ("quote", self.history.quote.as_deref()),
            ("place", self.history.place.as_deref()),
            ("before", self.history.before.as_deref()),
            ("changed", self.history.changed.as_deref()),
        ];
        for (key, text) in texts {
            if let Some(text) = text {
                json[key] = text.into();
            }
        }
        json
    }

    /// A check whose verdict a reading changes to that of the claim there: plainly, and under that
    /// reading.
    pub fn turned<'a>(
        &'a self,
        reading: &'a ReadingResult,
    ) -> Option<(&'a CheckResult, &'a CheckResult)> {
        let pairs = reading.checks.iter().filter_map(|there| {
            let here = self.checks.iter().find(|c| c.check == there.check)?;
            let turns = here.verdict != there.verdict && there.verdict == reading.verdict;
            turns.then_some((here, there))
        });
        // First those that decide plainly too.
        pairs.min_by_key(|(here, _)| here.verdict != self.verdict)
    }

    fn decision(&self, reading: &ReadingResult) -> Value {
        let turned = self.turned(reading);
        json!({
            "choices": reading.words_json(),
            "verdict": reading.verdict.to_string(),
            "check": turned.map(|(here, _)| here.text.clone()),
            "plain": turned.map(|(here, _)| here.measured()),
            "instead": turned.map(|(here, there)| there.measured_beside(here)),
        })
    }
}

impl ReadingResult {
    /// True if it has a verdict.
    pub fn is_judged(&self) -> bool {
        !self.checks.is_empty()
    }

    /// Number of elementary assumptions: each changed choice, and once more each that holds of one
    /// of the compared protocols alone.
    pub fn assumptions(&self) -> usize {
        self.words.len() + self.words.iter().filter(|word| word.private).count()
    }

    /// True if a result of the paper makes one of its values impossible.
    pub fn is_contradicted(&self) -> bool {
        self.words.iter().any(|word| word.contradicted.is_some())
    }

    /// Its distance from the plain reading.
    pub(crate) fn distance(&self) -> Distance {
        Distance::of(self.words.iter().map(|word| (word.basis, word.private)))
    }

    /// `Receiver window: 2^20 instead of 20`.
    pub fn title(&self) -> String {
        let words = self.words.iter();
        let words = words.map(|w| format!("{}: {} instead of {}", w.choice, w.instead, w.plain));
        words.collect::<Vec<_>>().join("; ")
    }

    fn words_json(&self) -> Vec<Value> {
        let words = self.words.iter().map(|w| {
            json!({
                "choice": w.choice,
                "plain": w.plain,
                "instead": w.instead,
                "basis": w.basis.to_string(),
                "source": w.source,
                "private": w.private,
                "contradicted": w.contradicted,
                "against": w.against,
            })
        });
        words.collect()
    }

    fn to_json(&self) -> Value {
        json!({
            "choices": self.words_json(),
            "verdict": self.is_judged().then(|| self.verdict.to_string()),
            "checks": self.checks.iter().map(CheckResult::to_json).collect::<Vec<_>>(),
        })
    }
}

impl CheckResult {
    /// As [`CheckResult::to_json`], with what it was before and what it leaves out.
    fn to_json_of(&self, history: &History) -> Value {
        let mut json = self.to_json();
        let rewritten = self.was.is_some();
        json["edition"] = self.edition.into();
        json["rewritten"] = rewritten.into();
        json["was"] = self.was.clone().into();
        let before = history.verdict_before.filter(|_| rewritten);
        json["verdict_before"] = before.map(|verdict| verdict.to_string()).into();
        json["not_checked"] = history.not_checked.clone().into();
        json
    }

    fn to_json(&self) -> Value {
        // JSON has no infinity: an unbounded interval has no ends.
        let part =
            |e: Option<Estimate>, read: fn(Estimate) -> f64| e.map(read).filter(|x| x.is_finite());
        json!({
            "check": self.text,
            "left": part(self.left, |e| e.mean),
            "right": part(self.right, |e| e.mean),
            "unit": self.unit,
            "mean": part(self.difference, |e| e.mean),
            "low": part(self.difference, |e| e.low),
            "high": part(self.difference, |e| e.high),
            "confidence": self.confidence,
            "tie_margin": self.margin,
            "repetitions": self.repetitions,
            "verdict": self.verdict.to_string(),
            "trouble": self.trouble,
            "control": self.control.as_ref().map(Control::to_json),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Looks;

    fn of(low: f64, high: f64) -> Estimate {
        let mean = f64::midpoint(low, high);
        Estimate { mean, low, high }
    }

    #[test]
    fn the_verdict_follows_the_side_of_the_interval() {
        use Relation::{Above, AtLeast, AtMost, Below};
        use Verdict::{Held, Inconclusive, NotHeld};
        for (relation, right, wrong) in [
            (AtLeast, of(0.1, 0.3), of(-0.3, -0.1)),
            (Above, of(0.1, 0.3), of(-0.3, -0.1)),
            (AtMost, of(-0.3, -0.1), of(0.1, 0.3)),
            (Below, of(-0.3, -0.1), of(0.1, 0.3)),
        ] {
            assert_eq!(judge(relation, right, None), Held, "{relation:?}");
            assert_eq!(judge(relation, wrong, None), NotHeld, "{relation:?}");
            assert_eq!(judge(relation, of(-0.1, 0.1), None), Inconclusive, "{relation:?}");
        }
        // Without spread, on the bound itself, only the relation decides.
        let bound = of(0.0, 0.0);
        assert_eq!(judge(AtLeast, bound, None), Held);
        assert_eq!(judge(AtMost, bound, None), Held);
        assert_eq!(judge(Above, bound, None), NotHeld);
        assert_eq!(judge(Below, bound, None), NotHeld);
        // An interval without ends decides nothing.
        let everything = Estimate { mean: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!(judge(AtLeast, everything, None), Inconclusive);
    }

    #[test]
    fn ties_do_not_violate_an_order_and_do_not_make_one() {
        use Verdict::{Held, Inconclusive, NotHeld, Tie};
        assert_eq!(combine([Tie, Held, Tie]), Held);
        assert_eq!(combine([Tie, Tie]), Tie);
        assert_eq!(combine([Tie, Inconclusive]), Inconclusive);
        assert_eq!(combine([Tie, NotHeld]), NotHeld);
    }

    #[test]
    fn a_claim_whose_orders_are_all_ties_is_a_tie() {
        use Verdict::{Held, Inconclusive, NotHeld, Tie};
        let of = |checks: &[(bool, Verdict)]| {
            let result = |(is_order, verdict): &(bool, Verdict)| CheckResult {
                is_order: *is_order,
                verdict: *verdict,
                ..check("x[a] > x[b]", &[(1.0, 1.0); 3])
            };
            verdict_of(&checks.iter().map(result).collect::<Vec<_>>())
        };
        // Efficiency above a bound, but not more efficient than the others.
        assert_eq!(of(&[(false, Held), (true, Tie), (true, Tie)]), Tie);
        assert_eq!(of(&[(false, Held), (true, Tie), (true, Held)]), Held);
        assert_eq!(of(&[(false, Held), (false, Held)]), Held);
        assert_eq!(of(&[(false, NotHeld), (true, Tie)]), NotHeld);
        assert_eq!(of(&[(false, Inconclusive), (true, Tie)]), Inconclusive);
        assert!(check("x[a] > x[b]", &[]).is_order && !check("x[a] >= 1", &[]).is_order);
    }

    #[test]
    fn none_is_said_only_where_all_are_decided() {
        use Verdict::{Inconclusive, NotHeld, Tie};
        let text = |verdicts: [Verdict; 3]| {
            let mut result = ClaimResult::open(&claim(), "f");
            result.verdict = verdicts[0];
            result.readings = vec![reading("a", verdicts[1]), reading("b", verdicts[2])];
            result.in_readings()
        };
        assert_eq!(text([NotHeld; 3]), "holds in none of 3 readings");
        assert_eq!(
            text([NotHeld, Tie, NotHeld]),
            "holds in none of 3 readings (1 tie, 2 not held)"
        );
        let open = text([NotHeld, Inconclusive, NotHeld]);
        assert_eq!(open, "holds in 0 of 3 readings (2 not held, 1 inconclusive)");
    }

    #[test]
    fn one_bad_check_decides_and_one_open_check_leaves_open() {
        use Verdict::{Held, Inconclusive, NotHeld};
        assert_eq!(combine([Held, Held]), Held);
        assert_eq!(combine([Held, Inconclusive]), Inconclusive);
        assert_eq!(combine([Inconclusive, NotHeld, Held]), NotHeld);
    }

    /// A check of `x[a]` and `x[b]`, ratios, after a single look at all runs.
    fn check_with(text: &str, tie: Option<Margin>, sides: &[(f64, f64)]) -> CheckResult {
        let comparison = Comparison::parse(text).unwrap();
        let check = Check { tie, ..Check::of(vec![(text.to_owned(), comparison)], 0) };
        let runs = sides.len() as u32;
        evaluate(0, &check, Looks::new(runs, runs).look(0), &|cell: &Cell| {
            let read = |(a, b): &(f64, f64)| if cell.labels[0] == "a" { *a } else { *b };
            Ok(CellSamples {
                samples: sides.iter().map(read).collect(),
                has_unit: false,
                unit: "",
                bounds: (0.0, f64::INFINITY),
            })
        })
    }

    pub(super) fn check(text: &str, sides: &[(f64, f64)]) -> CheckResult {
        check_with(text, None, sides)
    }

    #[test]
    fn a_bound_of_more_than_a_cell_shows_the_cell() {
        let result = check("x[a] >= x[b] + 0.05", &[(0.9, 0.88); 3]);
        assert_eq!(
            result.measured(),
            "0.900 against 0.930, difference -0.030 [-0.030, -0.030] (from 0.880)"
        );
        let plain = check("x[a] >= x[b]", &[(0.9, 0.88); 3]);
        assert_eq!(plain.measured(), "0.900 against 0.880, difference 0.020 [0.020, 0.020]");
        assert_eq!(check("x[a] >= 0.5", &[(0.9, 0.88); 3]).measured(), "0.900 [0.900, 0.900]");
    }

    #[test]
    fn equal_things_tie_and_a_clear_order_does_not() {
        // Differences 0.001, 0.002, 0.003: mean 0.002, s = 0.001, half of the interval
        // 4.30265 * 0.001 / sqrt(3) = 0.00248: within 0.02 but not within 0.002.
        let near = [(0.501, 0.5), (0.502, 0.5), (0.503, 0.5)];
        assert_eq!(check("x[a] > x[b]", &near).verdict, Verdict::Tie);
        assert_eq!(check("x[a] < x[b]", &near).verdict, Verdict::Tie);
        assert_eq!(check("x[a] >= x[b]", &near).verdict, Verdict::Tie);
        let narrow = check_with("x[a] > x[b]", Some(Margin::Absolute(0.002)), &near);
        assert_eq!(narrow.verdict, Verdict::Inconclusive);
        // 2 % of 0.502 are 0.01004.
        let share = check_with("x[a] > x[b]", Some(Margin::Share(0.02)), &near);
        assert_eq!(share.verdict, Verdict::Tie);
        assert!((share.margin.unwrap() - 0.01004).abs() < 1e-9);
        // Values equal in all runs tie, although a share of zero is not a margin.
        let zeros = [(0.0, 0.0); 3];
        for relation in [">", "<", ">=", "<="] {
            let text = format!("x[a] {relation} x[b]");
            let result = check_with(&text, Some(Margin::Share(0.05)), &zeros);
            assert_eq!((result.verdict, result.margin), (Verdict::Tie, Some(0.0)), "{text}");
            assert_eq!(check(&text, &[(7.0, 7.0); 3]).verdict, Verdict::Tie, "{text}");
        }
        // A margin in the check itself excludes another.
        assert_eq!(check("x[a] - x[b] >= 0.0001", &near).margin, None);
        assert_eq!(check("x[a] >= 0.5", &near).margin, None);
        let apart = [(0.6, 0.5), (0.61, 0.5), (0.62, 0.5)];
        assert_eq!(check("x[a] > x[b]", &apart).verdict, Verdict::Held);
        assert_eq!(check("x[a] < x[b]", &apart).verdict, Verdict::NotHeld);
    }

    pub(super) fn claim() -> Claim {
        Claim {
            id: "C".into(),
            claim: "c".into(),
            expected: "e".into(),
            checks: Vec::new(),
            explanation: Some(Explanation::plain("why")),
            history: History::default(),
            asked: None,
        }
    }

    pub(super) fn reading(name: &str, verdict: Verdict) -> ReadingResult {
        let word = ChangedChoice {
            choice: name.to_owned(),
            plain: "this".to_owned(),
            instead: "other".to_owned(),
            basis: Basis::Rfc,
            source: "RFC 1".to_owned(),
            private: false,
            contradicted: None,
            against: None,
        };
        ReadingResult {
            deviation: Deviation::one(name, "other"),
            words: vec![word],
            verdict,
            checks: Vec::new(),
        }
    }

    #[test]
    fn the_choices_that_turn_the_verdict_decide() {
        use Verdict::{Held, Inconclusive, NotHeld};
        let mut result = ClaimResult::open(&claim(), "f");
        assert_eq!(result.in_readings(), "no choice to read otherwise");
        result.verdict = NotHeld;
        result.readings =
            vec![reading("a", NotHeld), reading("b", Held), reading("c", Inconclusive)];
        assert_eq!(result.in_readings(), "holds in 1 of 4 readings (2 not held, 1 inconclusive)");
        let deciding: Vec<String> =
            result.deciding().iter().map(|r| r.deviation.to_string()).collect();
        assert_eq!(deciding, ["b = other"]);
        result.verdict = Held;
        let deciding: Vec<String> =
            result.deciding().iter().map(|r| r.deviation.to_string()).collect();
        assert_eq!(deciding, ["a = other"]);
        result.readings.retain(|r| r.verdict == Held);
        assert_eq!(result.in_readings(), "holds in all 2 readings");
    }

    /// `x[a] >= 1` or `x[b] >= 1` after one look at all runs.
    fn either(sides: &[(f64, f64)]) -> CheckResult {
        let texts = ["x[a] >= 1", "x[b] >= 1"].map(str::to_owned);
        let any = texts.map(|text| (text.clone(), Comparison::parse(&text).unwrap())).to_vec();
        let check = Check::of(any, 0);
        let runs = sides.len() as u32;
        evaluate(7, &check, Looks::new(runs, runs).look(0), &|cell: &Cell| {
            let read = |(a, b): &(f64, f64)| if cell.labels[0] == "a" { *a } else { *b };
            Ok(CellSamples {
                samples: sides.iter().map(read).collect(),
                has_unit: false,
                unit: "",
                bounds: (0.0, f64::INFINITY),
            })
        })
    }

    #[test]
    fn a_check_is_found_again_where_another_alternative_counts() {
        let held = either(&[(0.0, 2.0), (0.1, 2.1), (0.2, 2.2)]);
        let failed = either(&[(0.2, 0.0), (0.3, 0.1), (0.4, 0.2)]);
        assert_eq!((held.verdict, held.check), (Verdict::Held, 7));
        assert_eq!(held.text, "x[b] >= 1, or x[a] >= 1");
        assert_eq!((failed.verdict, failed.check), (Verdict::NotHeld, 7));
        assert_eq!(failed.text, "x[a] >= 1, or x[b] >= 1");
        let mut result = ClaimResult::open(&claim(), "f");
        (result.verdict, result.checks) = (Verdict::Held, vec![held]);
        let other = ReadingResult { checks: vec![failed], ..reading("queue", Verdict::NotHeld) };
        let (here, there) = result.turned(&other).unwrap();
        assert_eq!((here.verdict, there.verdict), (Verdict::Held, Verdict::NotHeld));
        // The numbers belong to another alternative, which is named.
        assert!(there.measured_beside(here).starts_with("x[a] >= 1, or x[b] >= 1: 0.300 ["));
        assert_eq!(here.measured_beside(here), here.measured());
    }

    #[test]
    fn alternatives_share_the_error_of_a_check() {
        // 2.5, 2.6 and 2.7: s = 0.1, half of the interval t(0.9875, 2) = 6.20535 times 0.1 /
        // sqrt(3), 0.35827. One comparison alone would have 4.30265, 0.24841.
        let result = either(&[(2.5, 0.0), (2.6, 0.0), (2.7, 0.0)]);
        assert!((result.confidence - 0.975).abs() < 1e-12);
        assert!((result.left.unwrap().high - 2.95827).abs() < 1e-4, "{result:?}");
        // 1.3 -+ 0.24841 lies above 1, and 1.3 -+ 0.35827 does not.
        assert_eq!(
            check("x[a] >= 1", &[(1.2, 0.0), (1.3, 0.0), (1.4, 0.0)]).verdict,
            Verdict::Held
        );
        let open = either(&[(1.2, 0.0), (1.3, 0.0), (1.4, 0.0)]);
        assert_eq!(open.verdict, Verdict::Inconclusive);
    }

    #[test]
    fn an_alternative_that_is_open_counts_before_one_without_numbers() {
        let open = either(&[(f64::NAN, 0.0), (0.1, 1.1), (0.2, 2.2)]);
        assert_eq!((open.verdict, open.trouble), (Verdict::Inconclusive, None));
        assert_eq!(open.text, "x[b] >= 1, or x[a] >= 1");
    }

    #[test]
    fn a_choice_has_the_same_values_in_all_experiments_of_a_claim() {
        let reading = |labels: [&str; 2]| {
            let value = |label: &str| {
                format!(
                    "{{ label = \"{label}\", basis = \"rfc\", source = \"x\", set = {{ \
                     \"dumbbell.bottleneck.queue\" = \"{label}p\" }} }}"
                )
            };
            let values = labels.map(value).join(", ");
            format!(
                "[[experiment.readings]]\nname = \"queue\"\nchoice = \"Queue\"\nvalues = \
                 [{values}]\n"
            )
        };
        let experiment = |id: &str, more: &str| {
            let text = crate::testing::TEXT.replace("id = \"mine\"", &format!("id = \"{id}\""));
            Experiment::parse(&format!("{id}.toml"), &format!("{text}{more}")).unwrap()
        };
        let cell = |id: &str| format!("{id}:clean[sack, 1 Mbit]");
        let claim = format!(
            "[[experiment.claims]]\nid = \"C4\"\nclaim = \"c\"\nexpected = \"e\"\nchecks = [\n\
             \"{} >= 0\",\n\"{} >= 0\"]\n",
            cell("one"),
            cell("two")
        );
        let list = |labels: [&str; 2]| {
            // The claim stands in an experiment without the choice.
            [
                experiment("own", &claim),
                experiment("one", &reading(["10", "50"])),
                experiment("two", &reading(labels)),
            ]
        };
        check_references(&list(["10", "50"])).unwrap();
        // Another label, and the same labels in another order, whose first is the plain value.
        for (labels, shown) in [(["10", "20"], "10, 20"), (["50", "10"], "50, 10")] {
            let experiments = list(labels);
            let line = experiments[0].claims.last().unwrap().checks[1].line;
            assert_eq!(
                check_references(&experiments).unwrap_err().to_string(),
                format!(
                    "own.toml:{line}: the reading `queue` has other values in `two` than in `one`, \
                     whose cells are compared here: {shown} against 10, 50"
                )
            );
        }
    }

    #[test]
    fn differences_are_paired() {
        // The sides vary from 1 to 9 and overlap; their difference is 0.5 in each pair.
        let result = check("x[a] > x[b]", &[(1.5, 1.0), (5.5, 5.0), (9.5, 9.0)]);
        assert_eq!(result.verdict, Verdict::Held);
        let difference = result.difference.unwrap();
        assert_eq!((difference.mean, difference.low), (0.5, 0.5));
        assert_eq!(result.measured(), "5.50 against 5.00, difference 0.500 [0.500, 0.500]");
    }

    #[test]
    fn no_number_means_no_verdict_and_says_so() {
        let result = check("x[a] >= 1", &[(f64::NAN, 1.0), (2.0, 1.0)]);
        assert_eq!(result.verdict, Verdict::Inconclusive);
        assert_eq!(
            result.measured(),
            "1 of 2 repetitions have no number here (a division by zero)"
        );
        let result = check("x[a] >= 1", &[(2.0, 1.0)]);
        assert_eq!(result.verdict, Verdict::Inconclusive);
        assert_eq!(result.measured(), "2.00");
        assert_eq!(
            result.trouble.as_deref(),
            Some("one run is too few for a verdict, which takes 3")
        );
        // Two equal runs do not predict a third.
        let result = check("x[a] >= 1", &[(2.0, 1.0), (2.0, 1.0)]);
        assert_eq!(result.verdict, Verdict::Inconclusive);
        assert_eq!(
            result.trouble.as_deref(),
            Some("2 runs are too few for a verdict, which takes 3")
        );
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.12345), "0.123");
        assert_eq!(number(-0.0001), "0.000");
        assert_eq!(number(2_345_678.0), "2.35M");
        assert_eq!(number(123.4), "123");
        assert_eq!(number(9876.0), "9876");
    }
}
