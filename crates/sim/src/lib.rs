//! The deterministic packet simulator of Windward.
//!
//! [`scenario`] says what to run and reads it from TOML; [`Simulation`] runs it; [`Outcome`]
//! is what was measured.

mod engine;
mod outcome;
pub mod scenario;

pub use engine::{FlowSnapshot, LinkSnapshot, Simulation, run};
pub use outcome::{
    FlowOutcome, GroupOutcome, LinkOutcome, LinkSamples, Outcome, PhaseOutcome, Samples, jain,
};
pub use scenario::Scenario;
