//! Progress of long work, passed to a function or shown as a bar.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;

/// Receiver of the share done.
#[derive(Debug)]
pub(crate) struct Progress<'py> {
    tell: Option<Bound<'py, PyAny>>,
    /// True for a bar, which must be closed.
    is_bar: bool,
}

impl<'py> Progress<'py> {
    /// `asked` is a function of the share done, `True` for a bar named `what`, `None` or `False`.
    ///
    /// # Errors
    /// `ImportError` if tqdm is not installed; `TypeError` for other values.
    pub(crate) fn new(
        py: Python<'py>,
        asked: Option<&Bound<'py, PyAny>>,
        what: &str,
    ) -> PyResult<Self> {
        let Some(asked) = asked else { return Ok(Progress { tell: None, is_bar: false }) };
        if let Ok(wanted) = asked.cast::<PyBool>() {
            let bar = || py.import("windward._progress")?.getattr("Bar")?.call1((what,));
            let tell = wanted.is_true().then(bar).transpose()?;
            return Ok(Progress { is_bar: tell.is_some(), tell });
        }
        if !asked.is_callable() {
            let message = "progress must be True or a function of the share done, 0 to 1";
            return Err(PyTypeError::new_err(message));
        }
        Ok(Progress { tell: Some(asked.clone()), is_bar: false })
    }

    /// # Errors
    /// The exception of the function.
    pub(crate) fn tell(&self, share: f64) -> PyResult<()> {
        self.tell.as_ref().map_or(Ok(()), |tell| tell.call1((share,)).map(drop))
    }

    /// Closes the bar after the work, and returns the result of the work.
    pub(crate) fn close<T>(&self, result: PyResult<T>) -> PyResult<T> {
        if self.is_bar
            && let Some(bar) = &self.tell
        {
            let closed = bar.call_method1("close", (result.is_ok(),));
            // An error of the work takes precedence over one of the bar.
            let value = result?;
            return closed.map(|_| value);
        }
        result
    }
}
