//! Evaluations of congestion controllers by the criteria of a suite.
//!
//! A [`Suite`] is data: criteria, and experiments whose claims decide them. [`evaluate()`] inserts
//! the subjects, runs everything as [`reproduce()`](windward_report::reproduce()) does, and writes
//! a page with a row per criterion and a column per subject. If the text of a criterion gives no
//! bound, the bound is relative to the standard controllers in the same scenario (harm in the sense
//! of Ware et al., HotNets 2019), and not an arbitrary number.
//!
//! The modules, in the order of reading; each uses those before it:
//!
//! - `suite`: criteria, read from files. [`suites`]: the suites that come with the program.
//! - `inquiry`: a [`Question`], its experiments ([`Inquiry`]), and its answers ([`Evaluation`]).
//! - `sensitivity`: the same claims with other buffers, RTTs and rates.
//! - `words`: answers as sentences, Markdown and JSON. `page`: answers as the first page of a
//!   report.
//! - `diff`: two evaluations compared, and JUnit XML.
//! - `fault`: the verdict on a controller whose code fails.
//! - `report`: runs an inquiry and writes its report.

mod diff;
mod fault;
mod inquiry;
mod page;
mod report;
mod sensitivity;
mod suite;
pub mod suites;
mod words;

pub use diff::{Change, StoredAnswer, StoredEvaluation};
pub use fault::FaultyController;
pub use inquiry::{
    Answer, ClaimAnswer, ClaimAnswers, CriterionAnswers, Evaluation, Inquiry, KnownAnswer,
    Question, VariedAnswer,
};
pub use report::{EvaluationSummary, evaluate};
pub use sensitivity::{VARIATIONS, VARIED_BY, Variation};
pub use suite::{Chapter, Criterion, Known, Suite};
pub use windward_report::lead::GaveUp;

#[cfg(test)]
mod tests;
