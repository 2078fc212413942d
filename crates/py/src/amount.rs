//! Rates and probabilities as Python has them: `"5Mbit"`, `0.02`, `"2%"`.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use windward_core::network::ChannelSpec;
use windward_core::units::{Probability, Rate};

use crate::error;

/// As in scenario files.
const HIGHEST_BPS: u64 = 100_000_000_000_000;

/// Reads a rate.
///
/// # Errors
/// `ValueError` if it is none or out of range; `TypeError` without a unit.
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
/// `ValueError` if it is not from 0 to 1; `TypeError` if it is neither a number nor a text.
pub(crate) fn loss(value: &Bound<'_, PyAny>) -> PyResult<ChannelSpec> {
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
        Probability::ZERO => ChannelSpec::Clean,
        other => ChannelSpec::PacketLoss(other),
    })
}
