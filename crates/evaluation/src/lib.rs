//! Evaluations: what a suite asks of congestion controllers, and how each of them answers.
//!
//! A [`Suite`] is data: criteria, and experiments whose claims say what would show that one is met.
//! [`evaluate()`] puts the subjects into their parts, runs everything as
//! [`reproduce()`](windward_report::reproduce()) does, and writes a page with the criteria down and
//! the subjects across. Where a text gives no bound, it is what the controllers of standards do in
//! the same place: harm in the sense of Ware et al. (HotNets 2019), and not a number that somebody
//! chose.
//!
//! The modules, in the order of reading; each uses those before it:
//!
//! - `suite`: what is asked, read from files. [`suites`]: those that come with the program.
//! - `inquiry`: a [`Question`], what is to be run for it ([`Inquiry`]), and its answers
//!   ([`Evaluation`]).
//! - `words`: answers as sentences, Markdown and JSON. `page`: answers as the first page of a
//!   report.
//! - `report`: runs an inquiry and writes its report.

mod inquiry;
mod page;
mod report;
mod suite;
pub mod suites;
mod words;

pub use inquiry::{
    Answer, ClaimAnswer, ClaimAnswers, CriterionAnswers, Evaluation, Inquiry, KnownAnswer, Question,
};
pub use report::{EvaluationSummary, evaluate};
pub use suite::{Chapter, Criterion, Known, Suite};
pub use windward_report::lead::GaveUp;

#[cfg(test)]
mod tests;
