//! Experiments on the simulator: sweeps, statistics, claims, charts, the report.
//!
//! An experiment is a file, an [`Experiment`]: a scenario with axes to sweep, metrics to
//! compute, charts to draw and claims to check. [`Experiment::plan`] turns it into a [`Plan`],
//! a list of runs; [`Plan::run`] simulates them on all cores and gives [`Results`], which
//! write themselves as tables. [`reproduce()`] does this for a list of experiments and writes
//! a report with a chart per figure and a verdict per claim.
//!
//! [`evaluate`] asks all that of controllers which a [`evaluate::Suite`] asks, as RFC 9743, and puts what
//! comes out on one page.
//!
//! From the bottom up: [`expression`] computes metrics and the two sides of a check;
//! [`experiment`] reads the files, strictly, through [`windward_sim::strict_toml`]; [`sweep`] runs them;
//! [`statistics`] and [`claims`] judge; [`table`], [`plot`] and [`report`] show; [`theory`] has curves to compare with; [`builtin`] holds the
//! experiments that come with the program. [`explain`] says in words what a protocol is made of,
//! [`script`] holds one sender against the text of an RFC, packet by packet.
//! [`catalogue`] lists protocols and parts, and [`pages`] writes the part of its page that the protocol table and the experiments decide.
//!
//! Nothing here looks at a clock: whoever shows progress brings one.

pub mod builtin;
mod campaign;
pub mod catalogue;
pub mod claims;
pub mod comparison;
mod dataset;
mod error;
pub mod evaluate;
pub mod experiment;
pub mod explain;
pub mod expression;
mod folder;
mod grid;
mod journal;
pub mod pages;
mod palette;
pub mod plot;
pub mod qlog;
pub mod report;
mod reproduce;
pub mod rows;
pub mod script;
pub mod statistics;
pub mod sweep;
pub mod table;
#[cfg(test)]
mod testing;
pub mod theory;

pub use dataset::Dataset;
pub use error::LabError;
pub use experiment::{Effort, Experiment};
pub use folder::is_resumable;
pub use grid::{Grid, GridFacts, PlannedRun};
pub use journal::BUILD;
pub use report::Provenance;
pub use reproduce::{Forecast, Means, ReportOptions, ReproductionSummary, forecast, reproduce};
pub use sweep::{FULL_READINGS, Plan, Progress, QUICK_READINGS, Results, RunOptions};
