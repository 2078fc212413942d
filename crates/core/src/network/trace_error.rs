//! Errors of lists over time: rate traces, outages, steps of delay.

use std::fmt;

/// The reason why something is not a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError {
    /// Index of the wrong opportunity, from zero; its line is one more. `None` if the trace as a
    /// whole is wrong.
    pub index: Option<usize>,
    /// The error.
    pub reason: String,
}

impl TraceError {
    pub(super) fn at(index: usize, reason: impl Into<String>) -> Self {
        TraceError { index: Some(index), reason: reason.into() }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "line {}: {}", index + 1, self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

impl std::error::Error for TraceError {}
