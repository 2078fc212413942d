//! The deterministic packet simulator of Windward.
//!
//! A [`Scenario`] describes a run, and [`scenario::file`] reads one from TOML. [`Simulation`] runs
//! it, and [`Outcome`] has the measurements.
//!
//! The modules, in reading order; each uses only those before it, except that `engine` takes the
//! instants of samples from [`trace`]:
//!
//! - [`input`], [`text`], [`suggest`], [`strict_toml`], [`stack`] and [`scenario`]: those of
//!   `windward-scenario`.
//! - [`table`]: rows as CSV or Parquet, and tables in memory; it is `windward-table`.
//! - [`metric`] and `outcome`: each measured quantity, described once. [`Delays`]: a histogram.
//! - [`partition`]: the nodes that each thread of a run on several cores owns.
//! - `engine`: the event queue, the links and the flows. [`Simulation`], [`ParallelSimulation`],
//!   [`Observer`] and [`run`].
//! - [`output`]: files that appear whole or not at all. [`scratch`]: temporary folders.
//! - [`trace`]: time series of a run. [`record`]: outcomes as JSON and as tables.
//! - [`catalogue`]: the protocol table and all parts as rows; it uses no other module.
//! - [`comparison`]: measurements of programs side by side; it uses no other module.
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
//! // One NewReno flow fills a link whose queue is larger than the bandwidth-delay product,
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
//! `examples/step.rs` advances a run in steps and prints the state of flows and links.
//!
//! The feature `parquet`, on by default, lets [`table`] write Parquet.

pub mod catalogue;
pub mod comparison;
mod delays;
mod engine;
pub mod metric;
mod outcome;
pub mod output;
pub mod partition;
pub mod record;
pub mod scratch;
pub mod trace;

pub use delays::Delays;
pub use engine::{
    Advance, ChangeError, FlowSnapshot, LinkChange, LinkSnapshot, Loss, LossCause, Observer,
    OnWire, ParallelSimulation, Simulation, run,
};
pub use outcome::{
    FlowMetrics, FlowOutcome, GroupOutcome, LinkOutcome, LinkSamples, Outcome, PhaseOutcome, Row,
    Samples, TransferOutcome, jain,
};
pub use windward_scenario::{
    Name, Scenario, input, keys, scenario, stack, strict_toml, suggest, text,
};
pub use windward_table as table;
