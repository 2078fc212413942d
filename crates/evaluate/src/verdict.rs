//! What comes out of an evaluation: a verdict for each criterion, and what went wrong besides.

use std::fmt;

use crate::guard::Trouble;

/// Why nothing could be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evaluation {
    /// What the controller is called.
    pub name: String,
    /// What it did that no controller may do, once of each kind.
    pub troubles: Vec<Trouble>,
    /// One per criterion, in the order of the RFC.
    pub verdicts: Vec<Verdict>,
}

/// One thing that RFC 9743 asks, as a test can measure it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Criterion {
    /// Its name for [`Builder::only`](crate::Builder::only).
    pub id: String,
    /// The section of RFC 9743.
    pub section: String,
    /// What a controller does that meets it, a sentence.
    pub asks: String,
    /// What is measured, and the bound in words.
    pub expected: String,
    /// Must the value be at least the bound, and not at most?
    pub at_least: bool,
}

/// How a controller answers a criterion.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// The criterion.
    pub criterion: Criterion,
    /// Is it met?
    pub met: bool,
    /// What was measured of the controller, in the unit of the criterion.
    pub value: f64,
    /// What it may be: at most, or at least, as the criterion says.
    pub bound: f64,
    /// What each standard did in the same place.
    pub standards: Vec<(String, f64)>,
}

impl Evaluation {
    /// Is every criterion met, and nothing else wrong?
    pub fn passes(&self) -> bool {
        self.troubles.is_empty() && self.verdicts.iter().all(|verdict| verdict.met)
    }

    /// The verdict on a criterion, by [`Criterion::id`].
    pub fn verdict(&self, criterion: &str) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.criterion.id == criterion)
    }
}

/// The table that [`Builder::assert`](crate::Builder::assert) panics with.
impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let met = self.verdicts.iter().filter(|verdict| verdict.met).count();
        writeln!(f, "{}: {met} of {} criteria met", self.name, self.verdicts.len())?;
        for trouble in &self.troubles {
            writeln!(f, "  WRONG     it {trouble}")?;
        }
        for Verdict { criterion, met, value, bound, standards } in &self.verdicts {
            let answer = if *met { "meets" } else { "DOES NOT" };
            let sign = if criterion.at_least { ">=" } else { "<=" };
            write!(
                f,
                "  {answer:<9} {:<12} {} {value:.3}, wanted {sign} {bound:.3}",
                criterion.id, criterion.asks
            )?;
            let standards: Vec<String> =
                standards.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
            writeln!(f, " ({}; RFC 9743 section {})", standards.join(", "), criterion.section)?;
        }
        Ok(())
    }
}
