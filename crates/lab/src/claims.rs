//! Verdicts: what the measured numbers say about a claim.
//!
//! Each check `left >= right` is evaluated for every repetition as `left - right`; cells of
//! one repetition share their seed, so the difference is paired. The mean of the differences
//! has a 95 % Student-t interval. If the interval lies wholly on the right side the check
//! holds, wholly on the wrong side it does not, else more repetitions must decide. A claim
//! does not hold if one of its checks does not, and holds if all of them do.

use std::fmt;

use serde_json::{Value, json};

use crate::LabError;
use crate::experiment::{Check, Claim, Experiment};
use crate::expression::{Cell, Comparison, Relation};
use crate::statistics::{Estimate, estimate};
use crate::sweep::Results;

/// What the numbers say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They say what was claimed.
    Held,
    /// They say the opposite.
    NotHeld,
    /// They do not say.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Held => "held",
            Verdict::NotHeld => "not held",
            Verdict::Inconclusive => "inconclusive",
        })
    }
}

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimResult {
    /// The claim as the file states it.
    pub claim: Claim,
    /// Id of the experiment it stands in.
    pub figure: String,
    /// The verdict of all checks together.
    pub verdict: Verdict,
    /// One per check of the claim.
    pub checks: Vec<CheckResult>,
}

/// A check with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckResult {
    /// The check as text.
    pub text: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Left side.
    pub left: Option<Estimate>,
    /// Right side.
    pub right: Option<Estimate>,
    /// Is the right side a number that was not measured?
    pub fixed_bound: bool,
    /// Left minus right, paired.
    pub difference: Option<Estimate>,
    /// Repetitions used.
    pub repetitions: usize,
    /// Why there are no numbers.
    pub trouble: Option<String>,
}

impl CheckResult {
    /// A check before anything is known of it.
    fn open(text: &str, comparison: &Comparison) -> Self {
        CheckResult {
            text: text.to_owned(),
            verdict: Verdict::Inconclusive,
            left: None,
            right: None,
            fixed_bound: comparison.right.constant().is_some(),
            difference: None,
            repetitions: 0,
            trouble: None,
        }
    }
}

/// The verdict of an interval of `left - right`.
pub fn judge(relation: Relation, difference: Estimate) -> Verdict {
    let Estimate { low, high, .. } = difference;
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

/// The verdict of several checks together.
pub fn combine(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
    let worse = |a, b| match (a, b) {
        (Verdict::NotHeld, _) | (_, Verdict::NotHeld) => Verdict::NotHeld,
        (Verdict::Inconclusive, _) | (_, Verdict::Inconclusive) => Verdict::Inconclusive,
        _ => Verdict::Held,
    };
    verdicts.into_iter().fold(Verdict::Held, worse)
}

/// Judges every claim of every experiment, in order.
pub fn evaluate(results: &[Results]) -> Vec<ClaimResult> {
    let mut judged = Vec::new();
    for own in results {
        let experiment = &own.plan.experiment;
        for claim in &experiment.claims {
            let checks = claim.checks.iter().map(|c| evaluate_check(c, own, results));
            let checks: Vec<CheckResult> = checks.collect();
            judged.push(ClaimResult {
                figure: experiment.id.clone(),
                verdict: combine(checks.iter().map(|c| c.verdict)),
                claim: claim.clone(),
                checks,
            });
        }
    }
    judged
}

/// The best of the alternatives; mostly there is only one.
fn evaluate_check(check: &Check, own: &Results, all: &[Results]) -> CheckResult {
    let each = check.any.iter().map(|(text, c)| evaluate_comparison(text, c, own, all));
    let rank = |verdict| match verdict {
        Verdict::Held => 0,
        Verdict::Inconclusive => 1,
        Verdict::NotHeld => 2,
    };
    let best = each.min_by_key(|result| rank(result.verdict));
    let mut best = best.expect("a check is read with at least one comparison");
    let others = check.any.iter().map(|(text, _)| text).filter(|t| **t != best.text);
    let others: Vec<String> = others.map(|t| format!(", or {t}")).collect();
    best.text.push_str(&others.concat());
    best
}

fn evaluate_comparison(
    text: &str,
    comparison: &Comparison,
    own: &Results,
    all: &[Results],
) -> CheckResult {
    let mut result = CheckResult::open(text, comparison);
    let mut columns: Vec<(&Cell, Vec<f64>)> = Vec::new();
    for cell in comparison.cells() {
        match samples(cell, own, all) {
            Ok(values) => columns.push((cell, values)),
            Err(trouble) => {
                result.trouble = Some(trouble);
                return result;
            }
        }
    }
    // Another experiment may have been repeated more often; pairs need both.
    let n = columns.iter().map(|(_, values)| values.len()).min();
    let n = n.unwrap_or(own.plan.length.repetitions as usize);
    let sides = |r: usize| {
        let value = |cell: &Cell| {
            let column = columns.iter().find(|(c, _)| *c == cell);
            column.map_or(f64::NAN, |(_, values)| values[r])
        };
        (comparison.left.evaluate(&value), comparison.right.evaluate(&value))
    };
    let sides: Vec<(f64, f64)> = (0..n).map(sides).collect();
    summarize(comparison, &sides, &mut result);
    result
}

/// Fills in the numbers and the verdict from the two sides of each repetition.
fn summarize(comparison: &Comparison, sides: &[(f64, f64)], result: &mut CheckResult) {
    let column = |read: fn(&(f64, f64)) -> f64| sides.iter().map(read).collect::<Vec<f64>>();
    let differences = column(|(l, r)| l - r);
    result.repetitions = sides.len();
    result.left = estimate(&column(|(l, _)| *l));
    result.right = estimate(&column(|(_, r)| *r));
    result.difference = estimate(&differences);
    match result.difference {
        Some(difference) => result.verdict = judge(comparison.relation, difference),
        None => {
            let without = differences.iter().filter(|d| !d.is_finite()).count();
            let of = differences.len();
            result.trouble = Some(format!(
                "{without} of {of} repetitions have no number here (a division by zero)"
            ));
        }
    }
    if sides.len() == 1 {
        result.trouble = Some("one repetition has no interval; use more".to_owned());
    }
}

fn samples(cell: &Cell, own: &Results, all: &[Results]) -> Result<Vec<f64>, String> {
    let id = cell.experiment.as_ref().unwrap_or(&own.plan.experiment.id);
    let of = all.iter().find(|r| r.plan.experiment.id == *id);
    let of = of.ok_or_else(|| format!("`{id}` was not run"))?;
    let (metric, index) = of.plan.experiment.find(cell)?;
    Ok(of.samples(metric, index))
}

/// Checks that name cells of another experiment of the list, which reading one file alone
/// cannot check.
pub(crate) fn check_references(experiments: &[Experiment]) -> Result<(), LabError> {
    for experiment in experiments {
        for check in experiment.claims.iter().flat_map(|c| &c.checks) {
            for cell in check.cells() {
                let id = cell.experiment.as_ref();
                let Some(other) = id.and_then(|id| experiments.iter().find(|e| e.id == *id)) else {
                    continue;
                };
                other.find(cell).map_err(|message| LabError::Experiment {
                    file: experiment.file.clone(),
                    line: check.line,
                    message,
                })?;
            }
        }
    }
    Ok(())
}

impl CheckResult {
    /// The numbers as a reader wants them: the left side with its interval against a fixed
    /// bound, or both sides and their difference.
    pub fn measured(&self) -> String {
        let (Some(left), Some(right), Some(difference)) = (self.left, self.right, self.difference)
        else {
            return self.trouble.clone().unwrap_or_default();
        };
        if self.fixed_bound {
            return interval(left);
        }
        format!(
            "{} against {}, difference {}",
            number(left.mean),
            number(right.mean),
            interval(difference)
        )
    }
}

/// `0.95 [0.93, 0.97]`
pub(crate) fn interval(e: Estimate) -> String {
    if e.low.is_infinite() {
        return number(e.mean);
    }
    format!("{} [{}, {}]", number(e.mean), number(e.low), number(e.high))
}

/// A number with about three significant digits.
pub(crate) fn number(x: f64) -> String {
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
    // A minus before nothing but zeros says nothing.
    match text.strip_prefix('-') {
        Some(zeros) if zeros.chars().all(|c| matches!(c, '0' | '.')) => zeros.to_owned(),
        _ => text,
    }
}

impl ClaimResult {
    /// The explanation, if the claim did not hold.
    pub fn explanation(&self) -> Option<&str> {
        let needed = self.verdict != Verdict::Held;
        self.claim.explanation.as_deref().filter(|_| needed)
    }

    /// All measured numbers in one text.
    pub fn measured(&self) -> String {
        let checks = self.checks.iter();
        let texts = checks.map(|c| format!("{}: {}", c.text, c.measured()));
        texts.collect::<Vec<_>>().join("; ")
    }

    /// One element of `claims.json`.
    pub fn to_json(&self) -> Value {
        let checks = self.checks.iter().map(|c| {
            // JSON has no infinity: an interval that is everything has no ends.
            let part = |e: Option<Estimate>, read: fn(Estimate) -> f64| {
                e.map(read).filter(|x| x.is_finite())
            };
            json!({
                "check": c.text,
                "left": part(c.left, |e| e.mean),
                "right": part(c.right, |e| e.mean),
                "mean": part(c.difference, |e| e.mean),
                "low": part(c.difference, |e| e.low),
                "high": part(c.difference, |e| e.high),
                "repetitions": c.repetitions,
                "verdict": c.verdict.to_string(),
                "trouble": c.trouble,
            })
        });
        let mut json = json!({
            "id": self.claim.id,
            "claim": self.claim.claim,
            "expected": self.claim.expected,
            "measured": self.measured(),
            "verdict": self.verdict.to_string(),
            "figure": self.figure,
            "checks": checks.collect::<Vec<_>>(),
        });
        if let Some(explanation) = self.explanation() {
            json["explanation"] = explanation.into();
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(judge(relation, right), Held, "{relation:?}");
            assert_eq!(judge(relation, wrong), NotHeld, "{relation:?}");
            assert_eq!(judge(relation, of(-0.1, 0.1)), Inconclusive, "{relation:?}");
        }
        // Without any spread on the bound itself, only the relation decides.
        let bound = of(0.0, 0.0);
        assert_eq!(judge(AtLeast, bound), Held);
        assert_eq!(judge(AtMost, bound), Held);
        assert_eq!(judge(Above, bound), NotHeld);
        assert_eq!(judge(Below, bound), NotHeld);
        // An interval without ends decides nothing.
        let everything = Estimate { mean: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
        assert_eq!(judge(AtLeast, everything), Inconclusive);
    }

    #[test]
    fn one_bad_check_decides_and_one_open_check_leaves_open() {
        use Verdict::{Held, Inconclusive, NotHeld};
        assert_eq!(combine([Held, Held]), Held);
        assert_eq!(combine([Held, Inconclusive]), Inconclusive);
        assert_eq!(combine([Inconclusive, NotHeld, Held]), NotHeld);
    }

    fn check(text: &str, sides: &[(f64, f64)]) -> CheckResult {
        let comparison = Comparison::parse(text).unwrap();
        let mut result = CheckResult::open(text, &comparison);
        summarize(&comparison, sides, &mut result);
        result
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
