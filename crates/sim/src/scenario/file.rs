//! Scenario files: TOML as people write it, checked strictly, turned into a [`Scenario`].

use std::fmt;
use std::path::Path;

use super::Scenario;

/// A scenario file with the changes made to it since (`--set`, sweep axes).
#[derive(Debug, Clone)]
pub struct ScenarioFile {}

/// What is wrong with a scenario file: where, what, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not written yet")
    }
}
impl std::error::Error for ScenarioError {}

impl ScenarioFile {
    /// Reads and parses a file.
    ///
    /// # Errors
    /// If it cannot be read or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let _ = path;
        Err(ScenarioError {})
    }

    /// Parses a text; `name` stands for the file in errors.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        let _ = (name, text);
        Err(ScenarioError {})
    }

    /// Sets the value at a dotted key, as `--set` and sweep axes do: `duration`,
    /// `dumbbell.bottleneck.rate`, `flows.lossy.protocol` (the flows of group `lossy`),
    /// `flows.*.dupack_threshold` (all flows).
    ///
    /// # Errors
    /// If the file can have no such key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        let _ = (key, value);
        Err(ScenarioError {})
    }

    /// The scenario the file describes.
    ///
    /// # Errors
    /// Anything unknown, missing, or impossible.
    pub fn build(&self) -> Result<Scenario, ScenarioError> {
        Err(ScenarioError {})
    }
}
