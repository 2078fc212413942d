//! `windward.controller`: a congestion controller of expressions, which call no Python.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use windward_core::endpoint::window::{
    self, Controller, ControllerSetup, Expressions, MakeController,
};
use windward_core::part::{CustomPart, Need, Words};

use crate::error;

/// A controller under a name of its own.
#[derive(Debug)]
struct Formula {
    name: &'static str,
    compiled: &'static window::ExpressionController,
}

/// All controllers, each stored once and never freed.
static FORMULAS: LazyLock<Mutex<HashMap<(String, Expressions), &'static Formula>>> =
    LazyLock::new(Mutex::default);

impl Formula {
    fn of(name: String, expressions: Expressions) -> PyResult<&'static Self> {
        let compiled = expressions.compile().map_err(|wrong| error::value(wrong.to_string()))?;
        let mut formulas = FORMULAS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(formula) = formulas.get(&(name.clone(), expressions.clone())) {
            return Ok(formula);
        }
        let leaked = Box::leak(name.clone().into_boxed_str());
        let formula: &'static Formula = Box::leak(Box::new(Formula { name: leaked, compiled }));
        formulas.insert((name, expressions), formula);
        Ok(formula)
    }
}

impl CustomPart for Formula {
    fn words(&self) -> Words {
        Words { name: self.name, ..self.compiled.words() }
    }
    fn needs(&self) -> &'static [Need] {
        self.compiled.needs()
    }
    fn failure(&self) -> Option<String> {
        super::failure()
    }
}

impl MakeController for Formula {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        self.compiled.make(setup)
    }
    fn paces(&self) -> bool {
        self.compiled.paces()
    }
    fn samples_rate(&self) -> bool {
        self.compiled.samples_rate()
    }
}

/// A congestion controller of expressions, for ``Scenario.with_parts``: see
/// ``windward.controller``.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct ExpressionController(&'static Formula);

impl ExpressionController {
    pub(crate) fn maker(&self) -> &'static dyn MakeController {
        self.0
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.name
    }

    /// The controller as a composition without a name. All else is as in the protocol `cubic`, or,
    /// with delivery rates, as in `bbr`.
    pub(crate) fn composition(&self) -> String {
        let compiled = self.0.compiled;
        let texts = compiled.expressions().texts();
        let texts: Vec<String> =
            texts.map(|(key, text)| format!("{key} = {}", quoted(text))).collect();
        let slow_start =
            if compiled.expressions().slow_start { "" } else { ", slow_start = false" };
        let base = if compiled.samples_rate() { "bbr" } else { "cubic" };
        format!("{{ base = \"{base}\", window = {{ {}{slow_start} }} }}", texts.join(", "))
    }
}

#[pymethods]
impl ExpressionController {
    /// Name in results.
    #[getter(name)]
    fn py_name(&self) -> &'static str {
        self.name()
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let Formula { name, compiled } = slf.get().0;
        let Expressions { on_ack, on_loss, on_mark, pacing_rate, slow_start } =
            compiled.expressions();
        let parts = (on_ack, on_loss, *slow_start, *name, on_mark, pacing_rate);
        Ok((slf.get_type().getattr("_of")?, parts.into_pyobject(py)?))
    }

    /// For pickle.
    #[classmethod]
    #[pyo3(signature = (on_ack, on_loss, slow_start, name, on_mark=None, pacing_rate=None))]
    fn _of(
        _class: &Bound<'_, PyType>,
        on_ack: String,
        on_loss: String,
        slow_start: bool,
        name: String,
        on_mark: Option<String>,
        pacing_rate: Option<String>,
    ) -> PyResult<Self> {
        controller(on_ack, on_loss, on_mark, pacing_rate, slow_start, name)
    }

    /// The controller as the value of ``protocol`` in a scenario or on a command line.
    #[getter]
    pub(crate) fn toml(&self) -> String {
        let composition = self.composition();
        format!("{{ name = {},{}", quoted(self.0.name), composition.trim_start_matches('{'))
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| std::ptr::eq(self.0, other.get().0))
    }

    fn __hash__(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    fn __repr__(&self) -> String {
        let Formula { name, compiled } = self.0;
        let Expressions { on_ack, on_loss, on_mark, pacing_rate, slow_start } =
            compiled.expressions();
        let slow_start = if *slow_start { "True" } else { "False" };
        let more = [("on_mark", on_mark), ("pacing_rate", pacing_rate)].into_iter();
        let more = more.filter_map(|(key, text)| Some(format!("{key}={:?}, ", text.as_ref()?)));
        let more: String = more.collect();
        format!(
            "windward.controller(on_ack={on_ack:?}, on_loss={on_loss:?}, {more}slow_start={slow_start}, \
             name={name:?})"
        )
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// A congestion controller of expressions, compiled once: no Python runs at an acknowledgment,
/// so that threads run in parallel::
///
///     reno = controller(on_ack="cwnd + growth / cwnd", on_loss="in_flight / 2")
///     scenario.with_parts(window={"lossy": reno})
///
/// Expressions have numbers, ``+ - * /``, parentheses, ``abs``, ``min``, ``max``, ``mean``,
/// ``sqrt``, ``cbrt``, ``exp``, ``ln``, ``pow(x, y)``, ``at_least(x, y)``, which is 1 if x is at
/// least y and else 0, ``if(condition, yes, no)``, and the variables
///
/// - ``cwnd``, ``ssthresh``, ``in_flight``: packets;
/// - ``growth``: the packets by which growth counts the acknowledgment, mostly 1; ``delivered``
///   and ``lost``: the packets that it reports as arrived, and those found lost by it; all 0 at a
///   loss;
/// - ``marked``: 1 if an ECN mark is echoed, else 0;
/// - ``initial_window``: packets; ``delivery_rate``: the latest sample, packets per second, for
///   which recovery must number packets (``recovery = "packet-number"``);
/// - ``rtt``, ``srtt``, ``min_rtt``: seconds, 0 before the first sample;
/// - ``now``, ``since_loss``: seconds since the start and since the last congestion, or the start;
/// - ``loss_cwnd``: the window before that congestion, or the initial one;
/// - ``probability``: of congestion as the cause of the loss, below 1 only with some
///   discriminators.
///
/// Args:
///     on_ack: Window after an acknowledgment of new data, outside loss recovery and slow start,
///         while cwnd limits the sender; from 1 to 1048576 packets.
///     on_loss: Window after congestion, at least 2, and ssthresh after that and after a timeout.
///         After a timeout the window is that of RFC 5681, one packet.
///     on_mark: The same after an ECN mark, in place of ``on_loss``.
///     pacing_rate: Pacing rate after each event, packets per second; zero or infinity for no limit
///         but the window.
///     slow_start: Below ssthresh, grow by one packet per acknowledgment, as in RFC 5681.
///     name: Name of the protocol in tables.
///
/// Raises:
///     ValueError: If an expression is invalid. A result that is not a valid window or rate ends
///         the run with this error.
#[pyfunction]
#[pyo3(
    signature = (
        on_ack, on_loss, *, on_mark=None, pacing_rate=None, slow_start=true,
        name="controller".to_owned()
    ),
    text_signature = "(on_ack, on_loss, *, on_mark=None, pacing_rate=None, slow_start=True, name='controller')",
)]
pub(crate) fn controller(
    on_ack: String,
    on_loss: String,
    on_mark: Option<String>,
    pacing_rate: Option<String>,
    slow_start: bool,
    name: String,
) -> PyResult<ExpressionController> {
    if name.is_empty() {
        return Err(PyTypeError::new_err("a controller needs a name"));
    }
    let expressions = Expressions { on_ack, on_loss, on_mark, pacing_rate, slow_start };
    Ok(ExpressionController(Formula::of(name, expressions)?))
}
