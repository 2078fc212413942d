//! Experiments on the simulator: sweeps, statistics, claims and their verdicts.
//!
//! An experiment is a file, an [`Experiment`]: a scenario with axes to sweep, metrics to compute,
//! charts to draw and claims to check. [`Experiment::plan`] turns it into a [`Plan`], a list of
//! runs; [`Plan::run`] simulates them on all cores and gives [`Results`], which write themselves as
//! tables.
//!
//! The modules, in the order of reading; each uses those before it:
//!
//! - [`error`]: errors. [`statistics`]: means, intervals, times of looks.
//! - [`expression`]: metrics of a run and both sides of a check. [`theory`]: curves to compare
//!   with.
//! - [`experiment`]: the files, with axes, metrics, charts and claims.
//! - [`builtin`]: the experiments that come with the program.
//! - [`sweep`]: a plan of runs, one run, and results. [`rows`] and [`table`]: results as tables.
//! - [`paired`]: estimates of expressions over cells.
//! - [`claims`]: verdicts. [`campaign`]: all runs of some experiments, until every claim is judged.
//! - [`worlds`]: the nearest world of each claim.
//! - [`folder`] and `journal`: stored runs, with which an interrupted campaign continues.
//! - [`Grid`] and [`Dataset`]: the numbered runs of one experiment, for other executors.
//! - [`comparison`]: runs of several programs over one link.
//!
//! No module reads a clock: callers that show progress have their own.

pub mod builtin;
pub mod campaign;
pub mod claims;
pub mod comparison;
mod dataset;
pub mod error;
pub mod experiment;
pub mod expression;
pub mod folder;
mod grid;
mod journal;
pub mod paired;
pub mod rows;
pub mod statistics;
pub mod sweep;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod theory;
mod verdict;
pub mod worlds;

pub use dataset::Dataset;
pub use error::ExperimentError;
pub use experiment::{Effort, Experiment};
pub use folder::{experiments_of_other_builds, is_resumable};
pub use grid::{Grid, GridFacts, PlannedRun};
pub use journal::BUILD;
pub use sweep::{
    FULL_READINGS, HOPS_PER_SECOND, Plan, Progress, QUICK_READINGS, Results, RunOptions,
};
