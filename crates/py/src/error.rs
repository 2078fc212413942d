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
    scenario_as(py, &error.to_string(), error)
}

/// The same with more to say.
pub(crate) fn scenario_as(py: Python<'_>, text: &str, error: &ScenarioError) -> PyErr {
    let parts = (
        text,
        error.place().file(),
        error.line(),
        error.key(),
        error.value(),
        error.message(),
        error.suggestion(),
    );
    raise(py, parts)
}

/// The same for what is wrong in the `[experiment]` part of a file.
pub(crate) fn experiment(
    py: Python<'_>,
    text: &str,
    file: &str,
    line: Option<usize>,
    message: &str,
) -> PyErr {
    raise(py, (text, file, line, None::<&str>, None::<&str>, message, None::<&str>))
}

fn raise<'py>(py: Python<'py>, parts: impl pyo3::call::PyCallArgs<'py>) -> PyErr {
    let exception = py
        .import("windward._errors")
        .and_then(|errors| errors.getattr("ScenarioError"))
        .and_then(|class| class.call1(parts));
    exception.map_or_else(|error| error, PyErr::from_value)
}
