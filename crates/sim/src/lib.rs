//! The deterministic packet simulator of Windward.
//!
//! [`scenario`] says what to run and reads it from TOML; [`Simulation`] runs it; [`Outcome`]
//! is what was measured. [`record`] writes that as JSON, [`trace`] samples a run on its way,
//! [`table`] writes rows as CSV or Parquet, into files that [`output`] leaves whole or not at
//! all; [`suggest`] finds the word that was meant.
//!
//! The feature `parquet`, on by default, is what [`table`] needs to write Parquet.

mod engine;
mod outcome;
pub mod output;
pub mod record;
pub mod scenario;
pub mod suggest;
pub mod table;
pub mod trace;

pub use engine::{FlowSnapshot, LinkSnapshot, Simulation, run};
pub use outcome::{
    FlowOutcome, GroupOutcome, LinkOutcome, LinkSamples, Outcome, PhaseOutcome, Samples, jain,
};
pub use scenario::Scenario;
