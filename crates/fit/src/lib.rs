//! Fit of a simulated link to the log of a sender: the bottleneck rate, base RTT, queue and random
//! loss with which a row of the protocol table behaves most like the sender of a qlog.
//!
//! [`fit`] reads a log, searches, and returns a [`Fit`]: the link, how far the row is from the log
//! there, and which parameters the log determines. [`Fit::compare`] puts the log and the best run
//! side by side.
//!
//! The modules, in the order of reading; each uses those before it:
//!
//! - `link`: the [`Link`], its four parameters, and the scenario of a row on it.
//! - `profile`: what is compared of a run and of a log, and the [`Residual`] between the two.
//! - `observed`: the log of a sender on a grid of round trips, and first estimates of its link.
//! - `model`: runs of the row over links.
//! - `search`: the search, the ranges and the result.

mod link;
mod model;
mod observed;
mod profile;
mod search;

pub use link::{Link, Parameter};
pub use observed::{LogFacts, ObserveOptions};
pub use profile::Residual;
pub use search::{Fit, FitError, FitOptions, Range, fit};

#[cfg(test)]
mod tests;
