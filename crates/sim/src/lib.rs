//! The deterministic packet simulator of Windward.
//!
//! [`scenario`] says what to run and reads it from TOML; [`Simulation`] runs it; [`Outcome`] is
//! what was measured, and [`metric`] what each quantity means. [`stack`] is where connections of
//! other code come in. [`record`] writes outcomes as JSON, [`trace`] samples a run on its way,
//! [`table`] writes rows as CSV or Parquet, into files that [`output`] leaves whole or not at all;
//! [`suggest`] finds the word that was meant.
//!
//! ```
//! use windward_sim::scenario::file::ScenarioFile;
//!
//! let text = r#"
//! duration = "20s"
//! warmup = "5s"
//!
//! [dumbbell]
//! bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
//! access = { rate = "5Mbit", delay = "5ms", queue = "50p" }
//!
//! [[flows]]
//! group = "bulk"
//! protocol = "newreno"
//! "#;
//! let mut file = ScenarioFile::parse("inline.toml", text)?;
//! let alone = windward_sim::run(&file.build()?);
//! // One flow of NewReno fills a link with a queue of more than its bandwidth times its delay,
//! // 5 Mbit/s times 60 ms or 37.5 packets.
//! assert!(alone.links.iter().any(|link| link.utilization > 0.95));
//!
//! // As `--set` on the command line does.
//! file.set("flows.bulk.last_hop.loss", "0.05")?;
//! let lossy = windward_sim::run(&file.build()?);
//! assert!(lossy.flows[0].goodput_bps < 0.5 * alone.flows[0].goodput_bps);
//! # Ok::<(), windward_sim::scenario::file::ScenarioError>(())
//! ```
//!
//! `examples/step.rs` steps a run and looks at flows and links on the way.
//!
//! The feature `parquet`, on by default, is what [`table`] needs to write Parquet.

pub mod comparison;
mod delays;
mod engine;
pub mod input;
pub mod metric;
mod name;
mod outcome;
pub mod output;
pub mod record;
pub mod scenario;
pub mod stack;
pub mod strict_toml;
pub mod suggest;
pub mod table;
pub mod text;
pub mod trace;

pub use delays::Delays;
pub use engine::{
    ChangeError, FlowSnapshot, LinkChange, LinkSnapshot, Loss, LossCause, Observer, OnWire,
    Simulation, run,
};
pub use name::Name;
pub use outcome::{
    FlowMetrics, FlowOutcome, GroupOutcome, LinkOutcome, LinkSamples, Outcome, PhaseOutcome, Row,
    Samples, TransferOutcome, jain,
};
pub use scenario::Scenario;
