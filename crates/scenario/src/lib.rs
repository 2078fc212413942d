//! Scenarios: links, flows and their settings, and the TOML files that describe them.
//!
//! The modules, in reading order; each uses only those before it:
//!
//! - [`input`], [`text`] and [`suggest`]: limits on files, safe texts, and the nearest valid word.
//! - [`strict_toml`]: reads TOML files whose keys are declared, with errors that name the place.
//! - [`stack`]: the interface for connections of other code.
//! - [`scenario`]: links, flows, their settings and [`Name`]s. [`scenario::file`]: scenario files.
//!
//! `windward-sim` runs a [`Scenario`], and exports all of these modules as its own.

pub mod input;
pub mod name;
pub mod scenario;
pub mod stack;
pub mod strict_toml;
pub mod suggest;
pub mod text;

pub use name::Name;
pub use scenario::Scenario;
