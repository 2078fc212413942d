//! Errors as Python's exceptions.

use std::fmt::Display;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use windward_sim::scenario::file::ScenarioError;

/// What cannot happen, or not for a reason that the caller could have known.
pub(crate) fn failed(error: impl Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A value that makes no sense.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `windward.ScenarioError`, which has the parts of the message as attributes.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let parts = (
        error.to_string(),
        error.place().file(),
        error.line(),
        error.key(),
        error.value(),
        error.message(),
        error.suggestion(),
    );
    let exception = py
        .import("windward._errors")
        .and_then(|errors| errors.getattr("ScenarioError"))
        .and_then(|class| class.call1(parts));
    exception.map_or_else(|error| error, PyErr::from_value)
}
