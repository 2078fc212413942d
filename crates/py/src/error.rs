//! Errors as Python's exceptions.

use std::fmt::Display;
use std::io::{self, Read};
use std::path::Path;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use windward_sim::output::{Attempt, OutputError};
use windward_sim::scenario::file::ScenarioError;

/// A `RuntimeError`.
pub(crate) fn failed(error: impl Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// Refuses the work of another build, whose runs may differ.
pub(crate) fn same_build(work: &str, version: &str) -> PyResult<()> {
    let ours = windward_experiments::BUILD;
    if version == ours {
        return Ok(());
    }
    Err(failed(format!(
        "windward {ours} cannot run a {work} of windward {version}: install the same build on all \
         machines"
    )))
}

/// An invalid value.
pub(crate) fn value(error: impl Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The subclass of `OSError` for the system's number of an error, as `open` raises it:
/// `FileNotFoundError`, `PermissionError`, ...
fn system(py: Python<'_>, number: i32, attempt: &str, path: &Path) -> PyErr {
    let reason = io::Error::from_raw_os_error(number).to_string();
    let suffix = format!(" (os error {number})");
    let reason = reason.strip_suffix(&suffix).unwrap_or(&reason);
    let message = format!("cannot {attempt}: {reason}");
    // The class finds the subclass by the first number, on Windows by the last one.
    let made = py.get_type::<PyOSError>().call1((number, message, path.as_os_str(), number));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// A file or folder that could not be read or written: `OSError` or a subclass of it.
pub(crate) fn file(
    py: Python<'_>,
    error: &io::Error,
    attempt: &str,
    path: &Path,
    text: impl Display,
) -> PyErr {
    match error.raw_os_error() {
        Some(number) => system(py, number, attempt, path),
        None => PyOSError::new_err(text.to_string()),
    }
}

/// A file or folder that could not be written: `OSError` or a subclass of it.
pub(crate) fn output(py: Python<'_>, wrong: &OutputError) -> PyErr {
    let attempt = match wrong.attempt {
        Attempt::MakeFolder => "create",
        Attempt::Write => "write",
    };
    file(py, &wrong.error, attempt, &wrong.path, wrong)
}

/// A scenario file that could not be read: `OSError` or a subclass of it if the system refuses the
/// file, else `windward.ScenarioError`.
pub(crate) fn unread(py: Python<'_>, path: &Path, wrong: &ScenarioError) -> PyErr {
    // Only files that can be opened again without blocking: neither pipes nor standard input.
    let tried = std::fs::metadata(path).and_then(|found| match found.is_file() || found.is_dir() {
        true => std::fs::File::open(path).and_then(|mut file| file.read(&mut [0])).map(drop),
        false => Ok(()),
    });
    match tried {
        Err(error) if path != Path::new("-") => file(py, &error, "read", path, wrong),
        _ => scenario(py, wrong),
    }
}

/// `windward.ScenarioError`, which has the parts of the message as attributes.
pub(crate) fn scenario(py: Python<'_>, error: &ScenarioError) -> PyErr {
    scenario_as(py, &error.to_string(), error)
}

/// `windward.ScenarioError` with another message.
pub(crate) fn scenario_as(py: Python<'_>, text: &str, error: &ScenarioError) -> PyErr {
    let parts = (
        text,
        error.location().file(),
        error.line(),
        error.key(),
        error.value(),
        error.message(),
        error.suggestion(),
    );
    raise(py, parts)
}

/// `windward.ScenarioError` for an error in the `[experiment]` table of a file.
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
