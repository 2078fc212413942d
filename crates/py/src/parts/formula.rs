//! A congestion controller of two expressions, compiled once: acknowledgments call no Python.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use windward_core::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use windward_core::endpoint::window::{Controller, ControllerSetup, MakeController};
use windward_core::part::{CustomPart, Words};
use windward_core::units::Time;
use windward_experiments::expression::{Cursor, Expression, Leaf};

use super::{Trouble, report};
use crate::error;

/// Terms of an expression besides numbers and `+ - * / abs min max mean at_least`.
#[derive(Debug, Clone)]
enum Term {
    Variable(Variable),
    Call(Function, Vec<Expression<Term>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    Cwnd,
    Ssthresh,
    InFlight,
    Growth,
    Delivered,
    Rtt,
    Srtt,
    MinRtt,
    Now,
    SinceLoss,
    LossCwnd,
    Probability,
}

impl Variable {
    const ALL: [(&'static str, Variable); 12] = [
        ("cwnd", Variable::Cwnd),
        ("ssthresh", Variable::Ssthresh),
        ("in_flight", Variable::InFlight),
        ("growth", Variable::Growth),
        ("delivered", Variable::Delivered),
        ("rtt", Variable::Rtt),
        ("srtt", Variable::Srtt),
        ("min_rtt", Variable::MinRtt),
        ("now", Variable::Now),
        ("since_loss", Variable::SinceLoss),
        ("loss_cwnd", Variable::LossCwnd),
        ("probability", Variable::Probability),
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Sqrt,
    Cbrt,
    Exp,
    Ln,
    Pow,
    /// The second where the first is not zero, else the third.
    If,
}

impl Function {
    const ALL: [(&'static str, Function, usize); 6] = [
        ("sqrt", Function::Sqrt, 1),
        ("cbrt", Function::Cbrt, 1),
        ("exp", Function::Exp, 1),
        ("ln", Function::Ln, 1),
        ("pow", Function::Pow, 2),
        ("if", Function::If, 3),
    ];
}

impl Leaf for Term {
    fn parse(name: &str, cursor: &mut Cursor<'_>) -> Result<Self, String> {
        if let Some((_, variable)) = Variable::ALL.iter().find(|(word, _)| *word == name) {
            return Ok(Term::Variable(*variable));
        }
        if let Some((_, function, needed)) = Function::ALL.iter().find(|(word, ..)| *word == name) {
            let arguments = cursor.arguments()?;
            if arguments.len() != *needed {
                return Err(format!("`{name}(..)` takes {needed}, not {}", arguments.len()));
            }
            return Ok(Term::Call(*function, arguments));
        }
        let words = Variable::ALL.iter().map(|(word, _)| *word);
        let words = words.chain(Function::ALL.iter().map(|(word, ..)| *word));
        let near = windward_sim::suggest::near(name, words);
        let near = near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default();
        Err(format!("`{name}` is not a variable or function of controllers{near}"))
    }
}

/// Values of the variables at an event.
#[derive(Debug, Clone, Copy)]
struct Inputs<'a> {
    path: &'a Path,
    cwnd: f64,
    ssthresh: f64,
    growth: f64,
    delivered: f64,
    since_loss: f64,
    loss_cwnd: f64,
    probability: f64,
}

impl Inputs<'_> {
    fn value(&self, expression: &Expression<Term>) -> f64 {
        expression.evaluate(&|term| self.term(term))
    }

    fn term(&self, term: &Term) -> f64 {
        match term {
            Term::Variable(variable) => match variable {
                Variable::Cwnd => self.cwnd,
                Variable::Ssthresh => self.ssthresh,
                Variable::InFlight => self.path.in_flight,
                Variable::Growth => self.growth,
                Variable::Delivered => self.delivered,
                Variable::Rtt => self.path.rtt.as_secs_f64(),
                Variable::Srtt => self.path.srtt.as_secs_f64(),
                Variable::MinRtt => self.path.min_rtt.as_secs_f64(),
                Variable::Now => self.path.now.as_secs_f64(),
                Variable::SinceLoss => self.since_loss,
                Variable::LossCwnd => self.loss_cwnd,
                Variable::Probability => self.probability,
            },
            // Of libm, as everywhere: the same bits on every machine.
            Term::Call(function, arguments) => match (function, &arguments[..]) {
                (Function::Sqrt, [x, ..]) => self.value(x).sqrt(),
                (Function::Cbrt, [x, ..]) => libm::cbrt(self.value(x)),
                (Function::Exp, [x, ..]) => libm::exp(self.value(x)),
                (Function::Ln, [x, ..]) => libm::log(self.value(x)),
                (Function::Pow, [x, y, ..]) => libm::pow(self.value(x), self.value(y)),
                (Function::If, [condition, yes, no, ..]) => {
                    self.value(if self.value(condition) == 0.0 { no } else { yes })
                }
                // The parser has checked the number of arguments.
                _ => f64::NAN,
            },
        }
    }
}

/// State that all connections of a controller share.
#[derive(Debug)]
struct Formula(Arc<Compiled>);

/// The expressions of a controller, as text and compiled.
#[derive(Debug)]
struct Compiled {
    name: &'static str,
    texts: [String; 2],
    slow_start: bool,
    on_ack: Expression<Term>,
    on_loss: Expression<Term>,
}

/// Identity of a controller: name, expressions, and whether there is slow start.
type Key = (String, [String; 2], bool);

/// All controllers, each stored once and never freed.
static FORMULAS: LazyLock<Mutex<HashMap<Key, &'static Formula>>> = LazyLock::new(Mutex::default);

impl Formula {
    fn of(key: Key) -> PyResult<&'static Self> {
        let mut formulas = FORMULAS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(formula) = formulas.get(&key) {
            return Ok(formula);
        }
        let (name, texts, slow_start) = key.clone();
        let parse = |what: &str, text: &str| {
            let parsed = Expression::parse(text);
            parsed.map_err(|wrong| error::value(format!("{what} = {text:?}: {wrong}")))
        };
        let compiled = Compiled {
            on_ack: parse("on_ack", &texts[0])?,
            on_loss: parse("on_loss", &texts[1])?,
            name: Box::leak(name.into_boxed_str()),
            texts,
            slow_start,
        };
        let formula: &'static Formula = Box::leak(Box::new(Formula(Arc::new(compiled))));
        formulas.insert(key, formula);
        Ok(formula)
    }
}

impl CustomPart for Formula {
    fn words(&self) -> Words {
        Words { name: self.0.name, what: "what two expressions say", source: "Python" }
    }
    fn failure(&self) -> Option<String> {
        super::failure()
    }
}

impl MakeController for Formula {
    fn make(&self, setup: ControllerSetup<'_>) -> Box<dyn Controller> {
        Box::new(State {
            compiled: Arc::clone(&self.0),
            cwnd: setup.endpoint.initial_window,
            ssthresh: if self.0.slow_start { f64::INFINITY } else { 0.0 },
            lost_at: Time::ZERO,
            loss_cwnd: setup.endpoint.initial_window,
        })
    }
}

/// The window of one connection.
#[derive(Debug)]
struct State {
    compiled: Arc<Compiled>,
    cwnd: f64,
    ssthresh: f64,
    lost_at: Time,
    loss_cwnd: f64,
}

impl State {
    fn inputs<'a>(&self, path: &'a Path) -> Inputs<'a> {
        Inputs {
            path,
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            growth: 0.0,
            delivered: 0.0,
            since_loss: path.now.since(self.lost_at).as_secs_f64(),
            loss_cwnd: self.loss_cwnd,
            probability: 1.0,
        }
    }

    /// A window from an expression. An invalid value ends the run and leaves the window unchanged.
    fn window(&self, which: usize, inputs: &Inputs<'_>) -> f64 {
        let Compiled { name, texts, on_ack, on_loss, .. } = &*self.compiled;
        let window = inputs.value(if which == 0 { on_ack } else { on_loss });
        if !window.is_nan() {
            return window.clamp(1.0, f64::from(u32::MAX));
        }
        let method = ["on_ack", "on_loss"][which];
        let message = format!("{name}: {method} = {:?} is not a number", texts[which]);
        let cwnd = self.cwnd;
        let message = format!("{message}, with cwnd = {cwnd} and rtt = {}", inputs.path.rtt);
        report(Trouble { error: error::value(message), now: inputs.path.now, whose: name });
        self.cwnd
    }

    /// Window after a loss of this probability, at least two packets.
    fn reduced(&self, path: &Path, probability: f64) -> f64 {
        self.window(1, &Inputs { probability, ..self.inputs(path) }).max(2.0)
    }
}

impl Controller for State {
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        if self.ssthresh > 0.0 { self.ssthresh } else { f64::INFINITY }
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        if !ack.allows_growth() {
            return;
        }
        let (mut growth, delivered) = (ack.growth, ack.delivered as f64);
        if self.cwnd < self.ssthresh {
            // RFC 5681, equation (2). Growth beyond ssthresh counts for congestion avoidance, as in
            // Reno.
            let grown = self.cwnd + growth;
            if growth <= 1.0 || grown <= self.ssthresh {
                self.cwnd = grown;
                return;
            }
            (self.cwnd, growth) = (self.ssthresh, grown - self.ssthresh);
        }
        self.cwnd = self.window(0, &Inputs { growth, delivered, ..self.inputs(&ack.path) });
    }
    fn on_congestion(&mut self, event: &CongestionEvent) {
        let reduced = self.reduced(&event.path, event.probability.get());
        (self.lost_at, self.loss_cwnd) = (event.path.now, self.cwnd);
        self.cwnd = reduced;
        if self.compiled.slow_start {
            self.ssthresh = reduced;
        }
    }
    fn on_error_loss(&mut self, _: &Path) {}
    fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            let reduced = self.reduced(&event.path, event.probability.get());
            (self.lost_at, self.loss_cwnd) = (event.path.now, self.cwnd);
            if self.compiled.slow_start {
                self.ssthresh = reduced;
            }
        }
        self.cwnd = event.window_after(self.cwnd);
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
        self.0.0.name
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
        let Compiled { name, texts: [on_ack, on_loss], slow_start, .. } = &*slf.get().0.0;
        let parts = (on_ack, on_loss, *slow_start, *name).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_of")?, parts))
    }

    /// For pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        on_ack: String,
        on_loss: String,
        slow_start: bool,
        name: String,
    ) -> PyResult<Self> {
        controller(on_ack, on_loss, slow_start, name)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| std::ptr::eq(self.0, other.get().0))
    }

    fn __hash__(&self) -> usize {
        std::ptr::from_ref(self.0).addr()
    }

    fn __repr__(&self) -> String {
        let Compiled { name, texts: [on_ack, on_loss], slow_start, .. } = &*self.0.0;
        let slow_start = if *slow_start { "True" } else { "False" };
        format!(
            "windward.controller(on_ack={on_ack:?}, on_loss={on_loss:?}, slow_start={slow_start}, \
             name={name:?})"
        )
    }
}

/// A congestion controller of two expressions, compiled once: no Python runs at an acknowledgment,
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
/// - ``growth``: the packets by which growth counts the acknowledgment, mostly 1; ``delivered``:
///   the packets that it reports as arrived; both 0 at a loss;
/// - ``rtt``, ``srtt``, ``min_rtt``: seconds, 0 before the first sample;
/// - ``now``, ``since_loss``: seconds since the start and since the last congestion, or the start;
/// - ``loss_cwnd``: the window before that congestion, or the initial one;
/// - ``probability``: of congestion as the cause of the loss, below 1 only with some
///   discriminators.
///
/// Args:
///     on_ack: Window after an acknowledgment of new data, outside loss recovery and slow start,
///         while cwnd limits the sender; a window below one packet counts as one.
///     on_loss: Window after congestion, at least 2, and ssthresh after that and after a timeout.
///         After a timeout the window is that of RFC 5681, one packet.
///     slow_start: Below ssthresh, grow by one packet per acknowledgment, as in RFC 5681.
///     name: Name of the protocol in tables.
///
/// Raises:
///     ValueError: If an expression is invalid. A result that is not a number ends the run with
///         this error.
#[pyfunction]
#[pyo3(
    signature = (on_ack, on_loss, *, slow_start=true, name="controller".to_owned()),
    text_signature = "(on_ack, on_loss, *, slow_start=True, name='controller')",
)]
pub(crate) fn controller(
    on_ack: String,
    on_loss: String,
    slow_start: bool,
    name: String,
) -> PyResult<ExpressionController> {
    if name.is_empty() {
        return Err(PyTypeError::new_err("a controller needs a name"));
    }
    Ok(ExpressionController(Formula::of((name, [on_ack, on_loss], slow_start))?))
}
