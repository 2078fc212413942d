//! Errors of emulations and comparisons.

use std::fmt;

use windward_sim::scenario::file::ScenarioError;

/// The reason why an emulation or a comparison cannot begin, or stops.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The scenario is invalid.
    Scenario(ScenarioError),
    /// The request is invalid: an unknown name, or a value out of range.
    Input(String),
    /// The request is valid and cannot be carried out here.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Scenario(error) => error.fmt(f),
            Error::Input(message) | Error::Failed(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Scenario(error) => Some(error),
            Error::Input(_) | Error::Failed(_) => None,
        }
    }
}

impl From<ScenarioError> for Error {
    fn from(error: ScenarioError) -> Self {
        Error::Scenario(error)
    }
}

impl From<windward_netns::Error> for Error {
    fn from(error: windward_netns::Error) -> Self {
        Error::Failed(error.to_string())
    }
}

impl From<crate::trial::Error> for Error {
    fn from(error: crate::trial::Error) -> Self {
        match error {
            crate::trial::Error::Scenario(error) => Error::Scenario(error),
            error => Error::Failed(error.to_string()),
        }
    }
}
