//! Result of an evaluation: a verdict for each criterion, and troubles.

use std::fmt;

use crate::guard::Trouble;

/// Reason why the evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Result of an evaluation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// Name of the controller.
    pub name: String,
    /// Troubles of the controller, one of each kind.
    pub troubles: Vec<Trouble>,
    /// One per criterion, in the order of the RFC.
    pub verdicts: Vec<CriterionResult>,
}

/// A criterion of RFC 9743 that a test can measure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Criterion {
    /// Its name for [`Builder::only`](crate::Builder::only).
    pub id: String,
    /// The section of RFC 9743.
    pub section: String,
    /// Required behaviour, one sentence.
    pub asks: String,
    /// Measured quantity and bound, in words.
    pub expected: String,
    /// True if the bound is a lower one.
    pub at_least: bool,
}

/// Result of a controller for a criterion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CriterionResult {
    /// The criterion.
    pub criterion: Criterion,
    /// True if it is met.
    pub met: bool,
    /// Measured value, in the unit of the criterion.
    pub value: f64,
    /// Bound: an upper or a lower one, as the criterion says.
    pub bound: f64,
    /// Value of each standard in the same scenario.
    pub standards: Vec<(String, f64)>,
}

impl Evaluation {
    /// True if every criterion is met and there are no troubles.
    pub fn passes(&self) -> bool {
        self.troubles.is_empty() && self.verdicts.iter().all(|verdict| verdict.met)
    }

    /// The verdict on a criterion, by [`Criterion::id`].
    pub fn verdict(&self, criterion: &str) -> Option<&CriterionResult> {
        self.verdicts.iter().find(|verdict| verdict.criterion.id == criterion)
    }
}

/// The table that [`Builder::assert`](crate::Builder::assert) panics with.
impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = self.verdicts.iter().filter(|verdict| verdict.met).count();
        writeln!(f, "{}: {met} of {} criteria met", self.name, self.verdicts.len())?;
        for trouble in &self.troubles {
            writeln!(f, "  WRONG     {trouble}")?;
        }
        for CriterionResult { criterion, met, value, bound, standards } in &self.verdicts {
            let answer = if *met { "meets" } else { "DOES NOT" };
            let sign = if criterion.at_least { ">=" } else { "<=" };
            write!(
                f,
                "  {answer:<9} {:<12} {} {value:.3}, required {sign} {bound:.3}",
                criterion.id, criterion.asks
            )?;
            let standards: Vec<String> =
                standards.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
            writeln!(f, " ({}; RFC 9743 section {})", standards.join(", "), criterion.section)?;
        }
        Ok(())
    }
}
