//! Errors of emulations, measurements of programs and comparisons.

use std::fmt::Display;
use std::io;

use windward_core::units::Duration;
use windward_sim::scenario::file::ScenarioError;

/// The reason why an emulation, a measurement or a comparison cannot begin, or stops.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The request is invalid: an unknown name, or a value out of range.
    #[error("{0}")]
    Input(String),
    /// The request is valid and cannot be carried out here.
    #[error("{0}")]
    Failed(String),
    /// The client of a measurement ended before the measurement did.
    #[error(
        "the client ended too early, with status {status}{colon}{said}",
        colon = if said.is_empty() { "" } else { ": " }
    )]
    Ended {
        /// Exit status, as in shells.
        status: i32,
        /// End of the standard error of client and server.
        said: String,
    },
    /// Nothing was delivered for this time.
    #[error("nothing was delivered in {0}")]
    Nothing(Duration),
}

impl Error {
    /// Adds what failed to an error of the system.
    pub(crate) fn doing(what: impl Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Error::Failed(format!("cannot {what}: {error}"))
    }
}

impl From<windward_netns::Error> for Error {
    fn from(error: windward_netns::Error) -> Self {
        Error::Failed(error.to_string())
    }
}
