//! Rates, probabilities and whole numbers as Python has them: `"5Mbit"`, `0.02`, `"2%"`, `7`.

use std::fmt::Display;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use windward_core::network::ChannelConfig;
use windward_core::units::{Probability, Rate};

use crate::error;

/// Largest rate, bits per second, as in scenario files.
const HIGHEST_BPS: u64 = 100_000_000_000_000;

/// Reads a rate.
///
/// # Errors
/// `ValueError` if it is invalid or out of range; `TypeError` without a unit.
pub(crate) fn rate(value: &Bound<'_, PyAny>) -> PyResult<Rate> {
    let Ok(text) = value.extract::<&str>() else {
        let value = value.repr()?;
        let message =
            format!("rate = {value}: a rate needs a unit, as in \"5Mbit\" or 5 * ww.Mbit");
        return Err(PyTypeError::new_err(message));
    };
    let rate: Rate = text.parse().map_err(|wrong| error::value(format!("rate: {wrong}")))?;
    if rate.as_bps() > HIGHEST_BPS {
        let message = format!("rate = {text:?}: a rate must lie between 1bit and 100Tbit");
        return Err(error::value(message));
    }
    Ok(rate)
}

/// Reads the probability of a loss.
///
/// # Errors
/// `ValueError` if it is not from 0 to 1; `TypeError` if it is neither a number nor a string.
pub(crate) fn loss(value: &Bound<'_, PyAny>) -> PyResult<ChannelConfig> {
    let probability = if let Ok(text) = value.extract::<&str>() {
        text.parse().map_err(|wrong| error::value(format!("loss: {wrong}")))?
    } else {
        let number = value.extract::<f64>().map_err(|_| {
            PyTypeError::new_err("loss must be a number from 0 to 1 or a text such as \"2%\"")
        })?;
        let range = || error::value(format!("loss = {number}: must lie between 0 and 1"));
        Probability::new(number).ok_or_else(range)?
    };
    Ok(match probability {
        Probability::ZERO => ChannelConfig::Clean,
        other => ChannelConfig::PacketLoss(other),
    })
}

/// Reads a seed; `None` for Python's `None`.
///
/// # Errors
/// As of [`whole`].
pub(crate) fn seed(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { whole(value, "seed", 0, u64::MAX).map(Some) }
}

/// Reads a number of repetitions; `None` for Python's `None`.
///
/// # Errors
/// As of [`whole`].
pub(crate) fn repetitions(value: &Bound<'_, PyAny>) -> PyResult<Option<u32>> {
    if value.is_none() { Ok(None) } else { whole(value, "repetitions", 1, u32::MAX).map(Some) }
}

/// Reads a number of worker threads; 0 is one per core.
///
/// # Errors
/// As of [`whole`].
pub(crate) fn threads(value: &Bound<'_, PyAny>) -> PyResult<u16> {
    whole(value, "threads", 0, u16::MAX)
}

/// Reads a whole number from `least` to `most`.
///
/// # Errors
/// `TypeError` for anything but a whole number, also for a bool; `ValueError` beyond the bounds.
fn whole<T>(value: &Bound<'_, PyAny>, name: &str, least: T, most: T) -> PyResult<T>
where
    T: Copy + TryFrom<u64> + PartialOrd + Display,
{
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract::<u64>().ok() };
    if let Some(number) = number.and_then(|number| T::try_from(number).ok())
        && number >= least
    {
        return Ok(number);
    }
    let is_whole = !value.is_instance_of::<PyBool>()
        && value.py().import("operator")?.call_method1("index", (value,)).is_ok();
    if is_whole {
        Err(error::value(format!("{name} = {value}: must be from {least} to {most}")))
    } else {
        let what = value.get_type().name()?;
        Err(PyTypeError::new_err(format!("{name} = {value}: must be a whole number, not {what}")))
    }
}
