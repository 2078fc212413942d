//! Spans of time as Python has them: `"20ms"`, `timedelta`, seconds.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDelta, PyDeltaAccess};
use windward_core::units::Duration;

use crate::error;

/// Reads a span.
///
/// # Errors
/// `ValueError` if it is negative, not finite or not a time; `TypeError` for other types.
pub(crate) fn read(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Duration> {
    if let Ok(text) = value.extract::<&str>() {
        return text.parse().map_err(|wrong| error::value(format!("{name} = {text:?}: {wrong}")));
    }
    let seconds = if let Ok(delta) = value.cast::<PyDelta>() {
        let whole = f64::from(delta.get_days()) * 86_400.0 + f64::from(delta.get_seconds());
        whole + f64::from(delta.get_microseconds()) * 1e-6
    } else {
        value.extract::<f64>().map_err(|_| {
            let message = format!("{name} must be seconds, a text such as \"20ms\" or a timedelta");
            PyTypeError::new_err(message)
        })?
    };
    let longest = windward_sim::scenario::MAX_DURATION.as_secs_f64();
    if !(0.0..=longest).contains(&seconds) {
        return Err(error::value(format!("{name} = {seconds} s: must be from 0 to {longest} s")));
    }
    Ok(Duration::from_secs_f64(seconds))
}
