//! Parts written in Python: objects with the methods of their axis.
//!
//! Each class has one maker, which lives as long as the program, as `Custom` requires. An exception
//! in a part is stored, and raised when the engine's slice ends.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyType};
use windward_core::endpoint::discrimination::DiscriminatorConfig;
use windward_core::endpoint::window::{ControllerConfig, Fault, MakeController, fault};
use windward_core::network::{AqmConfig, ChannelConfig};
use windward_core::part::{Ability, Custom, CustomPart, Need, Words};
use windward_core::protocols::{self, Protocol};
use windward_core::units::Time;
use windward_native::{Call, enter};
use windward_sim::Scenario;
use windward_sim::scenario::{LinkKind, Traffic};

use crate::error;

mod aqm;
mod controller;
mod discriminator;
mod events;
pub(crate) mod formula;
mod header;
mod loss;
pub(crate) mod steered;

pub(crate) use aqm::{Queue, QueueSetup};
pub(crate) use events::{
    Ack, Congestion, ControllerSetup, Instant, Loss, LostPacket, Packet, Path, RateSample, Reset,
};
pub(crate) use formula::ExpressionController;
pub(crate) use steered::Steered;

/// Axis of a part in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Axis {
    Window,
    Discrimination,
    Loss,
    Aqm,
}

impl Axis {
    const ALL: [(&'static str, Axis); 4] = [
        ("window", Axis::Window),
        ("discrimination", Axis::Discrimination),
        ("loss", Axis::Loss),
        ("aqm", Axis::Aqm),
    ];

    fn name(self) -> &'static str {
        let found = Axis::ALL.iter().find(|(_, axis)| *axis == self);
        found.map_or("", |(name, _)| name)
    }

    /// The method that a part must have.
    fn method(self) -> &'static str {
        match self {
            Axis::Window => "on_ack",
            Axis::Discrimination => "judge",
            Axis::Loss => "destroys",
            Axis::Aqm => "on_enqueue",
        }
    }

    fn is_of_flows(self) -> bool {
        matches!(self, Axis::Window | Axis::Discrimination)
    }
}

/// A part and its place: a group of flows, or a link; `*` stands for all.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) axis: Axis,
    pub(crate) place: String,
    pub(crate) class: Py<PyAny>,
}

impl Attached {
    pub(crate) fn clone_ref(&self, py: Python<'_>) -> Self {
        Attached { axis: self.axis, place: self.place.clone(), class: self.class.clone_ref(py) }
    }

    /// Reads `{axis: {place: class}}`.
    pub(crate) fn read(axis: &str, places: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        let found = Axis::ALL.iter().find(|(name, _)| *name == axis);
        let Some((_, axis)) = found else {
            let names: Vec<&str> = Axis::ALL.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "{axis:?} is not an axis for parts in Python; the axes are {}",
                names.join(", ")
            );
            return Err(PyTypeError::new_err(message));
        };
        let places = places.cast::<PyDict>().map_err(|_| {
            let of = if axis.is_of_flows() { "groups of flows" } else { "links" };
            PyTypeError::new_err(format!(
                "{} must be a dictionary from {of} to classes",
                axis.name()
            ))
        })?;
        let mut parts = Vec::new();
        for (place, class) in places {
            let place: String = place.extract()?;
            if *axis == Axis::Window && !calls_python(&class) {
                parts.push(Attached { axis: *axis, place, class: class.unbind() });
                continue;
            }
            if !class.is_callable() || !class.hasattr(axis.method())? {
                let message = format!(
                    "{}: {} is not a class with a method {}",
                    axis.name(),
                    class.repr()?,
                    axis.method()
                );
                return Err(PyTypeError::new_err(message));
            }
            parts.push(Attached { axis: *axis, place, class: class.unbind() });
        }
        Ok(parts)
    }

    /// True if the part calls Python during a run.
    pub(crate) fn is_asked(&self, py: Python<'_>) -> bool {
        calls_python(self.class.bind(py))
    }

    pub(crate) fn axis_name(&self) -> &'static str {
        self.axis.name()
    }

    /// Puts the part into a scenario.
    ///
    /// # Errors
    /// `ValueError` if there is no such place, or the part does not fit the other parts.
    pub(crate) fn put(&self, py: Python<'_>, scenario: &mut Scenario) -> PyResult<()> {
        let found = if self.is_asked(py) {
            let maker = Maker::of(py, self.axis, &self.class)?;
            match self.axis {
                Axis::Window => self.put_on_flows(scenario, maker.name, |protocol| {
                    protocol.window = ControllerConfig::Custom(Custom(maker));
                }),
                Axis::Discrimination => self.put_on_flows(scenario, maker.name, |protocol| {
                    protocol.discrimination = DiscriminatorConfig::Custom(Custom(maker));
                }),
                Axis::Loss => self.put_on_links(scenario, |link| {
                    link.channel = ChannelConfig::Custom(Custom(maker));
                }),
                Axis::Aqm => self.put_on_links(scenario, |link| {
                    link.queue.aqm = AqmConfig::Custom(Custom(maker));
                }),
            }
        } else if let Ok(controller) = self.class.bind(py).cast::<ExpressionController>() {
            let (name, maker) = (controller.get().name(), controller.get().maker());
            self.put_on_flows(scenario, name, |protocol| {
                protocol.window = ControllerConfig::Custom(Custom(maker));
            })
        } else {
            self.put_on_flows(scenario, steered::SteeredController::NAME, |protocol| {
                protocol.window = ControllerConfig::Custom(Custom(&steered::STEERED));
            })
        };
        match found {
            true => scenario.validate().map_err(error::value),
            false => Err(self.nowhere(scenario)),
        }
    }

    fn is_here(&self, name: &str) -> bool {
        self.place == "*" || self.place == name
    }

    /// Changes the protocol of the connections of a group and names it `name`. Returns whether
    /// there are any.
    fn put_on_flows(
        &self,
        scenario: &mut Scenario,
        name: &'static str,
        change: impl Fn(&mut Protocol),
    ) -> bool {
        let mut found = false;
        for flow in &mut scenario.flows {
            if !self.is_here(&scenario.groups[flow.group]) {
                continue;
            }
            let kind = Arc::make_mut(&mut flow.kind);
            if let Traffic::Transport { protocol, .. } = &mut kind.traffic {
                let mut changed = Protocol { name, source: "Python", ..**protocol };
                change(&mut changed);
                *protocol = Arc::new(changed);
                found = true;
            }
        }
        found
    }

    /// Changes links. Returns whether there are any of that name.
    fn put_on_links(&self, scenario: &mut Scenario, change: impl Fn(&mut LinkKind)) -> bool {
        let mut found = false;
        for link in scenario.links.iter_mut().filter(|link| self.is_here(&link.name)) {
            change(Arc::make_mut(&mut link.kind));
            found = true;
        }
        found
    }

    fn nowhere(&self, scenario: &Scenario) -> PyErr {
        let (what, names) = if self.axis.is_of_flows() {
            ("group of connections", scenario.groups.clone())
        } else {
            ("link", scenario.links.iter().map(|link| link.name.to_string()).collect())
        };
        let near = windward_sim::suggest::near(&self.place, names.iter().map(String::as_str));
        let near = near.map(|near| format!(" (did you mean {near:?}?)")).unwrap_or_default();
        let message = format!("{}: no {what} {:?}{near}", self.axis.name(), self.place);
        PyValueError::new_err(message)
    }
}

/// True for a class whose methods are called, false for a controller of this package.
fn calls_python(class: &Bound<'_, PyAny>) -> bool {
    !class.is(class.py().get_type::<Steered>()) && !class.is_instance_of::<ExpressionController>()
}

/// A class in Python as the maker of a part's states.
pub(crate) struct Maker {
    class: Py<PyAny>,
    name: &'static str,
    /// True if it has a method for departing packets.
    asked_at_departure: bool,
    /// Loss rate that a configured notifier reports.
    loss_rate: f64,
    /// True for a congestion controller with a pacing rate.
    paces: bool,
    /// True for one with a method of [`OF_NUMBERS`].
    samples_rate: bool,
    negotiates_ecn: bool,
    answers_ecn: bool,
    /// True for one with an attribute `limits_itself`.
    limits_itself: bool,
    /// True once the user was told that the class misses a method.
    told: &'static AtomicBool,
}

/// Makers by axis and address of the class. Classes are kept forever, so addresses stay unique.
static MAKERS: LazyLock<Mutex<HashMap<(Axis, usize), &'static Maker>>> =
    LazyLock::new(Mutex::default);

impl Maker {
    fn of(py: Python<'_>, axis: Axis, class: &Py<PyAny>) -> PyResult<&'static Self> {
        let bound = class.bind(py);
        let key = (axis, class.as_ptr() as usize);
        if let Some(maker) = MAKERS.lock().map_err(error::failed)?.get(&key) {
            return Ok(maker);
        }
        let name = bound.getattr("__name__").and_then(|name| name.extract::<String>());
        let loss_rate = match bound.getattr("loss_rate") {
            Ok(rate) if axis == Axis::Loss => rate.extract::<f64>()?,
            _ => 0.0,
        };
        if !(0.0..=1.0).contains(&loss_rate) {
            return Err(error::value(format!("loss_rate = {loss_rate}: must be from 0 to 1")));
        }
        let flag = |name: &str, default: bool| match bound.getattr_opt(name)? {
            Some(flag) if axis == Axis::Window => flag.extract().map_err(|_| {
                PyTypeError::new_err(format!("{name} of {bound} must be True or False"))
            }),
            _ => Ok(default),
        };
        let has = |name: &&str| bound.hasattr(*name).unwrap_or(false);
        let maker: &'static Maker = Box::leak(Box::new(Maker {
            class: class.clone_ref(py),
            name: Box::leak(name.unwrap_or_else(|_| "python".to_owned()).into_boxed_str()),
            asked_at_departure: bound.hasattr("on_dequeue")?,
            loss_rate,
            paces: bound.hasattr("pacing_rate")?,
            samples_rate: axis == Axis::Window && OF_NUMBERS.iter().any(has),
            negotiates_ecn: flag("negotiates_ecn", false)?,
            answers_ecn: flag("answers_ecn", true)?,
            limits_itself: bound.hasattr("limits_itself")?,
            told: Box::leak(Box::new(AtomicBool::new(false))),
        }));
        MAKERS.lock().map_err(error::failed)?.insert(key, maker);
        Ok(maker)
    }
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Maker({})", self.name)
    }
}

/// Methods that are called only where recovery numbers transmissions.
const OF_NUMBERS: [&str; 4] =
    ["on_rate_sample", "on_lost", "on_spurious_losses", "on_restart_from_idle"];

const NUMBERS: &[Need] = &[Need {
    any_of: &[Ability::TransmissionNumbers],
    why: "on_rate_sample and on_lost are not called, nor on_spurious_losses and \
          on_restart_from_idle (use the recovery packet-number or rack)",
}];

impl CustomPart for Maker {
    fn words(&self) -> Words {
        Words { name: self.name, what: "what a class in Python does", source: "Python" }
    }
    fn needs(&self) -> &'static [Need] {
        if self.samples_rate { NUMBERS } else { &[] }
    }
    fn failure(&self) -> Option<String> {
        failure()
    }
}

/// True for a class of a congestion controller.
///
/// # Errors
/// Those of its attributes.
pub(crate) fn is_controller(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyType>() && value.hasattr(Axis::Window.method())?)
}

/// Classes of congestion controllers by their names as protocols.
#[derive(Debug, Clone, Default)]
pub(crate) struct Controllers(Vec<(String, Arc<Py<PyAny>>)>);

impl<'py> FromPyObject<'_, 'py> for Controllers {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let all: Vec<(String, Py<PyAny>)> = object.extract()?;
        Ok(Controllers(all.into_iter().map(|(name, class)| (name, Arc::new(class))).collect()))
    }
}

impl<'py> IntoPyObject<'py> for Controllers {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;
    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        PyList::new(py, self.0.iter().map(|(name, class)| (name, class.bind(py))))
    }
}

impl Controllers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if both have the same classes by the same names.
    pub(crate) fn are(&self, py: Python<'_>, others: &Self) -> bool {
        let same = |((a, class), (b, other)): (&(String, _), &(String, _))| {
            let (class, other): (&Arc<Py<PyAny>>, &Arc<Py<PyAny>>) = (class, other);
            a == b && class.bind(py).eq(&**other).unwrap_or(false)
        };
        self.0.len() == others.0.len() && self.0.iter().zip(&others.0).all(same)
    }

    /// Adds a class, and returns the name by which scenarios name it as a protocol.
    pub(crate) fn add(&mut self, class: &Bound<'_, PyAny>) -> PyResult<String> {
        let name: String = class.getattr("__name__")?.extract()?;
        let taken = |name: &str| {
            let other = self.0.iter().find(|(known, _)| known == name);
            other.is_some_and(|(_, known)| !known.bind(class.py()).is(class))
                || protocols::find(name).is_some()
        };
        let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name));
        let name = free.unwrap_or(name);
        if !self.0.iter().any(|(known, _)| *known == name) {
            self.0.push((name.clone(), Arc::new(class.clone().unbind())));
        }
        Ok(name)
    }

    /// The protocols that the names stand for.
    ///
    /// # Errors
    /// As [`protocol`].
    pub(crate) fn protocols(&self, py: Python<'_>) -> PyResult<Vec<Protocol>> {
        let protocol = |(name, class): &(String, Arc<Py<PyAny>>)| {
            let class = class.bind(py);
            protocol(py, name.clone(), class, source_of(class))
        };
        self.0.iter().map(protocol).collect()
    }
}

/// Identity of a class among those of the same name: a checksum of its source text, if Python has
/// it.
pub(crate) fn source_of(class: &Bound<'_, PyAny>) -> String {
    let source = || -> PyResult<u32> {
        let py = class.py();
        let text = py.import("inspect")?.call_method1("getsource", (class,))?;
        let bytes = text.call_method1("encode", ("utf-8",))?;
        py.import("zlib")?.call_method1("crc32", (bytes,))?.extract()
    };
    let name = class.repr().map_or_else(|_| "a class".to_owned(), |text| text.to_string());
    match source() {
        Ok(crc) => format!("Python, {name}, CRC-32 {crc:08x}"),
        Err(_) => format!("Python, {name}"),
    }
}

/// `FILE.py:CLASS`, as the command line names a class; `None` for one that no file has.
pub(crate) fn place_of(class: &Bound<'_, PyAny>) -> Option<String> {
    let py = class.py();
    let file = py.import("inspect").ok()?.call_method1("getsourcefile", (class,)).ok()?;
    let file: String = file.extract().ok()?;
    let name: String = class.getattr("__qualname__").ok()?.extract().ok()?;
    (file.ends_with(".py") && !name.contains('.')).then(|| format!("{file}:{name}"))
}

/// A protocol with a congestion controller in Python; the other parts are those of `cubic`.
/// `source` distinguishes controllers of the same name.
///
/// # Errors
/// `TypeError` if it is not a congestion controller.
pub(crate) fn protocol(
    py: Python<'_>,
    name: String,
    controller: &Bound<'_, PyAny>,
    source: String,
) -> PyResult<Protocol> {
    let window: &'static dyn MakeController =
        if let Ok(controller) = controller.cast::<ExpressionController>() {
            controller.get().maker()
        } else if controller.is_callable() && controller.hasattr(Axis::Window.method())? {
            Maker::of(py, Axis::Window, &controller.clone().unbind())?
        } else {
            let method = Axis::Window.method();
            let message = format!("{} is not a class with a method {method}", controller.repr()?);
            return Err(PyTypeError::new_err(message));
        };
    // Rate samples and single losses need the recovery of RFC 9002, as bbr has it.
    let others = if window.needs().is_empty() { "cubic" } else { "bbr" };
    let others = protocols::find(others).ok_or_else(|| error::failed("there is no cubic"))?;
    Ok(Protocol {
        name: Box::leak(name.into_boxed_str()),
        source: Box::leak(source.into_boxed_str()),
        summary: "A congestion controller in Python, with selective acknowledgments.",
        window: ControllerConfig::Custom(Custom(window)),
        ..*others
    })
}

/// An exception of a part, and its time.
struct Trouble {
    error: PyErr,
    now: Time,
    whose: &'static str,
}

thread_local! {
    /// First exception since the slice began. A run stays on one thread.
    static TROUBLE: RefCell<Option<Trouble>> = const { RefCell::new(None) };
}

/// Sets the exception of the outer run aside while a part runs another simulation.
pub(crate) struct Aside(Option<Trouble>);

impl Aside {
    pub(crate) fn put() -> Self {
        Aside(TROUBLE.with(|trouble| trouble.borrow_mut().take()))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        TROUBLE.with(|trouble| *trouble.borrow_mut() = self.0.take());
    }
}

/// Exception of a part that ended an experiment.
static LAST: Mutex<Option<PyErr>> = Mutex::new(None);

/// Records an invalid answer of a controller as an exception.
fn adopt() {
    if let Some(Fault { part, wrong, at, after }) = fault() {
        let error = error::value(format!("{part}: {wrong}, after {after}"));
        report(Trouble { error, now: at, whose: "controller" });
    }
}

/// Takes the exception that a part has raised on this thread, as text.
fn failure() -> Option<String> {
    adopt();
    let trouble = TROUBLE.with(|trouble| trouble.borrow_mut().take())?;
    Some(Python::attach(|py| {
        let text = trouble.words(py);
        if let Ok(mut last) = LAST.lock() {
            last.get_or_insert(trouble.noted(py));
        }
        text
    }))
}

/// The exception of a part that ended an experiment, or else one with `text`.
pub(crate) fn failed(text: String) -> PyErr {
    let last = LAST.lock().ok().and_then(|mut last| last.take());
    last.unwrap_or_else(|| error::value(text))
}

/// Drops the exception of a part whose work was cancelled.
pub(crate) fn forget() {
    if let Ok(mut last) = LAST.lock() {
        *last = None;
    }
}

/// Raises the exception that a part has raised since the last call.
///
/// # Errors
/// That exception, with a note of the time, and the instant as `simulated_time`.
pub(crate) fn raise(py: Python<'_>) -> PyResult<()> {
    adopt();
    let Some(trouble) = TROUBLE.with(|trouble| trouble.borrow_mut().take()) else { return Ok(()) };
    Err(trouble.noted(py))
}

impl Trouble {
    /// The exception, with the place and the instant.
    fn noted(self, py: Python<'_>) -> PyErr {
        let Trouble { error, now, whose } = self;
        let exception = error.value(py);
        // An exception with slots accepts neither; it is raised without them.
        let _ = exception.setattr("simulated_time", now.as_secs_f64());
        let note = format!("in {whose}, at {} s of simulated time", now.as_secs_f64());
        let _ = exception.call_method1("add_note", (note,));
        error
    }

    /// One line: `PART: error, in FILE:LINE, at TIME`.
    fn words(&self, py: Python<'_>) -> String {
        let Trouble { error, now, whose } = self;
        let place = error.traceback(py).and_then(|first| innermost(first.into_any()).ok());
        let place = place.map(|(file, line)| format!(", in {file}:{line}")).unwrap_or_default();
        format!("{whose}: {error}{place}, at {} s of simulated time", now.as_secs_f64())
    }
}

/// File and line of the last frame of a traceback.
fn innermost(mut frame: Bound<'_, PyAny>) -> PyResult<(String, u32)> {
    loop {
        let next = frame.getattr("tb_next")?;
        if next.is_none() {
            break;
        }
        frame = next;
    }
    let file = frame.getattr("tb_frame")?.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok((file, frame.getattr("tb_lineno")?.extract()?))
}

/// A method of an object in Python.
#[derive(Debug)]
struct Method {
    bound: Py<PyAny>,
    /// Description of the object, for messages.
    whose: &'static str,
    name: &'static str,
    call: Call,
}

impl Method {
    /// The method of that name, if the class has it.
    fn of(object: &Bound<'_, PyAny>, whose: &'static str, name: &'static str) -> Option<Self> {
        let bound = object.getattr(name).ok()?.unbind();
        Some(Method { bound, whose, name, call: Call::of(name) })
    }

    /// Calls it and reads the answer. `None` if it raised, or a part before it in the same slice.
    fn call<A, T>(
        &self,
        now: Time,
        arguments: A,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T>
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        if TROUBLE.with(|trouble| trouble.borrow().is_some()) {
            return None;
        }
        // Before the interpreter, which first ends objects that were let go of: `__del__`.
        let _inside = enter(self.call, nanoseconds(now));
        let answer = Python::attach(|py| {
            let answer = self.bound.bind(py).call1(arguments)?;
            read(&answer)
        });
        answer.map_err(|error| self.fail(now, error)).ok()
    }

    fn fail(&self, now: Time, error: PyErr) {
        report(Trouble { error, now, whose: self.whose });
    }

    /// The error for an invalid answer.
    fn wrong(&self, answer: &Bound<'_, PyAny>, needed: &str) -> PyErr {
        let answer = answer.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
        PyTypeError::new_err(format!("{}.{} returned {answer}: {needed}", self.whose, self.name))
    }

    /// A valid number.
    fn number(
        &self,
        answer: &Bound<'_, PyAny>,
        is_valid: impl Fn(f64) -> bool,
        needed: &str,
    ) -> PyResult<f64> {
        let number = answer.extract::<f64>().ok().filter(|number| is_valid(*number));
        number.ok_or_else(|| self.wrong(answer, needed))
    }
}

fn nanoseconds(now: Time) -> u64 {
    now.since(Time::ZERO).as_ps() / 1000
}

fn report(new: Trouble) {
    TROUBLE.with(|trouble| {
        trouble.borrow_mut().get_or_insert(new);
    });
}

impl Maker {
    /// A new object of the class; `None` if its constructor raised.
    fn object<A>(&self, arguments: A) -> Option<Py<PyAny>>
    where
        A: for<'py> pyo3::call::PyCallArgs<'py>,
    {
        let _inside = enter(Call::Create, 0);
        Python::attach(|py| {
            let made = self.class.call1(py, arguments);
            let now = Time::ZERO;
            made.map_err(|error| report(Trouble { error, now, whose: self.name })).ok()
        })
    }

    /// A method of an object of the class, if there is an object and the class has the method.
    fn method(&self, object: Option<&Py<PyAny>>, name: &'static str) -> Option<Method> {
        Python::attach(|py| Method::of(object?.bind(py), self.name, name))
    }
}
