//! Values of Python as TOML for scenario files.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDelta, PyDict, PyFloat, PyInt, PyString};
use toml::{Table, Value};

use crate::parts::{self, Controllers, ExpressionController};
use crate::{duration, error};

/// A value as TOML, for `key` in errors. `None` means that the key is omitted. A class of a
/// congestion controller is its name among `classes`.
///
/// # Errors
/// `TypeError` if TOML has no such type, or a class is not at a key for one; `ValueError` if a
/// number is too large.
pub(crate) fn value(
    value: &Bound<'_, PyAny>,
    key: &str,
    classes: &mut Controllers,
) -> PyResult<Option<Value>> {
    if value.is_none() {
        return Ok(None);
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Some(Value::Boolean(truth.is_true())));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Some(Value::String(text.extract()?)));
    }
    if value.is_instance_of::<PyInt>() {
        let number =
            value.extract().map_err(|_| error::value(format!("{key} = {value} is too large")))?;
        return Ok(Some(Value::Integer(number)));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Some(Value::Float(value.extract()?)));
    }
    if value.is_instance_of::<PyDelta>() {
        return Ok(Some(Value::String(duration::read(value, key)?.to_string())));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        return Ok(Some(Value::Table(table(dict, key, classes)?)));
    }
    if let Ok(controller) = value.cast::<ExpressionController>() {
        let composition: Value = controller.get().composition().parse().map_err(error::failed)?;
        return Ok(match key.ends_with(".window") {
            true => composition.get("window").cloned(),
            false => Some(composition),
        });
    }
    if parts::is_controller(value)? {
        if !takes_controller(key) {
            return Err(PyTypeError::new_err(format!(
                "{key} = {}: a controller is the value of flows.GROUP.protocol, or of its window",
                value.repr()?
            )));
        }
        return Ok(Some(Value::String(classes.add(value)?)));
    }
    // numpy's numbers are neither int nor float.
    if value.hasattr("__index__")? {
        return Ok(Some(Value::Integer(value.extract()?)));
    }
    if value.hasattr("__float__")? {
        return Ok(Some(Value::Float(value.extract()?)));
    }
    if value.hasattr("__fspath__")? {
        return Ok(Some(Value::String(value.call_method0("__fspath__")?.extract()?)));
    }
    let Ok(items) = value.try_iter() else {
        let kind = value.get_type().name()?;
        let message = format!("{key}: a value of type {kind} cannot be part of a scenario");
        return Err(PyTypeError::new_err(message));
    };
    let mut list = Vec::new();
    for (index, item) in items.enumerate() {
        list.extend(self::value(&item?, &format!("{key}[{index}]"), classes)?);
    }
    Ok(Some(Value::Array(list)))
}

/// A dictionary as a table; `key` is its path, empty at the top level.
///
/// # Errors
/// As [`value`], and `TypeError` if a key is not text.
pub(crate) fn table(
    dict: &Bound<'_, PyDict>,
    key: &str,
    classes: &mut Controllers,
) -> PyResult<Table> {
    let mut table = Table::new();
    for (name, item) in dict {
        let name: String = name.extract().map_err(|_| {
            PyTypeError::new_err(format!("{key}: keys must be text, and {name} is not"))
        })?;
        let dot = if key.is_empty() { "" } else { "." };
        let at = format!("{key}{dot}{name}");
        if let Some(item) = value(&item, &at, classes)? {
            let item = match item {
                Value::Integer(seconds) if is_length(&at) => Value::String(format!("{seconds}s")),
                Value::Float(seconds) if is_length(&at) => Value::String(format!("{seconds}s")),
                item => item,
            };
            table.insert(name, item);
        }
    }
    Ok(table)
}

/// A value as `--set` takes it after the equals sign.
///
/// # Errors
/// As [`value`], and `TypeError` for `None`.
pub(crate) fn setting(
    item: &Bound<'_, PyAny>,
    key: &str,
    classes: &mut Controllers,
) -> PyResult<String> {
    if let Ok(controller) = item.cast::<ExpressionController>() {
        return Ok(controller.get().toml());
    }
    match value(item, key, classes)? {
        // Times of Python are seconds.
        Some(Value::Integer(seconds)) if is_length(key) => Ok(format!("{seconds}s")),
        Some(Value::Float(seconds)) if is_length(key) => Ok(format!("{seconds}s")),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Ok(other.to_string()),
        None => Err(PyTypeError::new_err(format!("{key} = None: expected a value"))),
    }
}

/// True for the keys of the protocol of flows, and of its window.
fn takes_controller(key: &str) -> bool {
    let key = key.strip_suffix(".window").unwrap_or(key);
    let group = key.strip_prefix("flows").and_then(|rest| rest.strip_suffix(".protocol"));
    group.is_some_and(|group| group.starts_with(['.', '[']) && !group[1..].contains('.'))
}

/// True for the keys of the length of a run, which may be numbers of seconds in Python.
pub(crate) fn is_length(key: &str) -> bool {
    ["duration", "warmup"].contains(&key)
}
