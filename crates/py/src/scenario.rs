//! `windward.Scenario`.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use pyo3::exceptions::{PyKeyError, PyTypeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use windward_core::units::Time;
use windward_logs::qlog::{self, QlogError, QlogFiles, QlogOptions};
use windward_report::plot::RunChart;
use windward_sim::ParallelSimulation;
use windward_sim::partition::Partition;
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::trace::{FlowRow, LinkRow, Trace, cells, columns};

use crate::parts::{self, Aside, Attached, Controllers};
use crate::progress::Progress;
use crate::run::{Chart, Run, Series};
use crate::slices::Slices;
use crate::table::{Table, escape};
use crate::{amount, duration, error, values};

/// Name in errors of a scenario written in Python.
const TEXT: &str = "scenario";

/// Scenario of a simulation: links, flows and duration.
///
/// There are three ways to make one, with the same checks and messages::
///
///     Scenario('duration = "20s" ...')            # TOML, as in docs/scenarios.md
///     Scenario.read("first.toml")                 # a file
///     Scenario(duration="20s",                    # the same keys in Python
///              dumbbell={"bottleneck": {"rate": 5 * Mbit, "delay": 20 * ms, "queue": "50p"},
///                        "access": {"rate": 10 * Mbit, "delay": 5 * ms}},
///              flows=[{"group": "bulk", "protocol": "newreno"}])
///
/// A scenario is immutable: ``with_`` returns a changed copy.
///
/// Raises:
///     ScenarioError: Anything unknown, missing or impossible.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Scenario {
    name: String,
    text: String,
    /// Changes, in order.
    changes: Vec<(String, String)>,
    /// Parts in Python by their places, and congestion controllers by their names as protocols.
    parts: Vec<Attached>,
    controllers: Controllers,
    file: ScenarioFile,
    pub(crate) built: Arc<windward_sim::Scenario>,
}

impl Scenario {
    fn new(
        py: Python<'_>,
        name: String,
        text: String,
        changes: Vec<(String, String)>,
        parts: Vec<Attached>,
        controllers: Controllers,
    ) -> PyResult<Self> {
        let protocols = controllers.protocols(py)?;
        let built = py.detach(|| {
            let mut file = ScenarioFile::parse(&name, &text)?
                .with_stacks(&stacks())
                .within(windward_cli::memory::free)
                .with_protocols(&protocols);
            for (key, value) in &changes {
                file.set(key, value)?;
            }
            let built = file.build()?;
            Ok((file, built))
        });
        let (file, mut built) = built.map_err(|wrong| error::scenario(py, &wrong))?;
        for part in &parts {
            part.put(py, &mut built)?;
        }
        for warning in &built.warnings {
            let category = py.get_type::<pyo3::exceptions::PyUserWarning>();
            let message = std::ffi::CString::new(warning.as_str()).map_err(error::failed)?;
            PyErr::warn(py, &category, &message, 2)?;
        }
        Ok(Scenario { name, text, changes, parts, controllers, file, built: Arc::new(built) })
    }

    fn unchanged(
        py: Python<'_>,
        name: String,
        text: String,
        controllers: Controllers,
    ) -> PyResult<Self> {
        Self::new(py, name, text, Vec::new(), Vec::new(), controllers)
    }

    fn from_path(py: Python<'_>, path: &Path) -> PyResult<Self> {
        let text = py.detach(|| ScenarioFile::text(path));
        let text = text.map_err(|wrong| error::unread(py, path, &wrong))?;
        Self::unchanged(py, ScenarioFile::name(path), text, Controllers::default())
    }

    /// The scenario for an emulation.
    ///
    /// # Errors
    /// If it has parts in Python, which are too slow for a real clock.
    #[cfg(target_os = "linux")]
    pub(crate) fn source(&self, is_open: bool) -> PyResult<windward_net::source::Source> {
        if !(self.parts.is_empty() && self.controllers.is_empty()) {
            return Err(error::value("a scenario with parts in Python cannot be emulated"));
        }
        Ok(windward_net::source::Source {
            name: self.name.clone(),
            text: self.text.clone(),
            changes: self.changes.clone(),
            is_open,
            stacks: windward_cli::stacks(),
        })
    }

    fn parts(&self, py: Python<'_>) -> Vec<Attached> {
        self.parts.iter().map(|part| part.clone_ref(py)).collect()
    }

    pub(crate) fn slices(&self, py: Python<'_>) -> Slices {
        let is_asked = self.parts.iter().any(|part| part.is_asked(py));
        Slices::new(&self.built, is_asked || !self.controllers.is_empty())
    }

    /// A simulation at time zero.
    ///
    /// # Errors
    /// The exception of a constructor of a part in Python; `ValueError` for a port.
    pub(crate) fn begin(
        &self,
        py: Python<'_>,
        scenario: &windward_sim::Scenario,
        make: impl FnOnce(&windward_sim::Scenario) -> windward_sim::Simulation + Send,
    ) -> PyResult<windward_sim::Simulation> {
        #[cfg(target_os = "linux")]
        refuse_ports(scenario)?;
        let _aside = Aside::put();
        let sim = py.detach(|| make(scenario));
        parts::raise(py)?;
        Ok(sim)
    }

    /// The scenario with `seed`, or with its own.
    pub(crate) fn seeded(&self, seed: Option<u64>) -> Arc<windward_sim::Scenario> {
        match seed {
            Some(seed) if seed != self.built.seed => {
                Arc::new(windward_sim::Scenario { seed, ..(*self.built).clone() })
            }
            _ => Arc::clone(&self.built),
        }
    }

    fn simulate(
        &self,
        py: Python<'_>,
        seed: Option<u64>,
        trace: Option<&Bound<'_, PyAny>>,
        qlog: Option<(&std::path::Path, qlog::Format)>,
        threads: usize,
        progress: &Progress<'_>,
    ) -> PyResult<Run> {
        let scenario = self.seeded(seed);
        let logs = qlog.map(|(dir, format)| {
            let options = QlogOptions { format, ..QlogOptions::default() };
            QlogFiles::create(dir, &options, &scenario)
        });
        let logs = logs.transpose().map_err(|wrong| log_error(py, wrong))?;
        let observed = |scenario: &windward_sim::Scenario| {
            logs.as_ref().map(|logs| windward_sim::Simulation::observed(scenario, logs.observer()))
        };
        let slices = self.slices(py);
        let end = Time::ZERO + scenario.duration;
        let tell = |now: Time| progress.tell(now.as_secs_f64() / end.as_secs_f64());
        if let Some(partition) =
            partition(py, &scenario, threads, trace.is_some() || logs.is_some())?
        {
            let mut sim = py.detach(|| ParallelSimulation::new(&scenario, &partition));
            slices.advance(py, &mut sim, end, tell)?;
            let outcome = py.detach(|| sim.finish());
            return Ok(Run::new(outcome, None, Chart::Rates(scenario)));
        }
        let Some(interval) = trace else {
            let make = |s: &_| observed(s).unwrap_or_else(|| windward_sim::Simulation::new(s));
            let mut sim = self.begin(py, &scenario, make)?;
            slices.advance(py, &mut sim, end, tell)?;
            let outcome = py.detach(|| sim.finish());
            logs.map(QlogFiles::commit).transpose().map_err(|wrong| log_error(py, wrong))?;
            return Ok(Run::new(outcome, None, Chart::Rates(scenario)));
        };
        let interval = duration::read(interval, "trace")?;
        let mut trace = Trace::new(&scenario, interval).map_err(error::value)?;
        let make = |s: &_| observed(s).unwrap_or_else(|| windward_sim::Simulation::traced(s));
        let mut sim = self.begin(py, &scenario, make)?;
        let mut flows = windward_sim::table::Table::new(columns::<FlowRow>());
        let mut links = windward_sim::table::Table::new(columns::<LinkRow>());
        let mut chart = RunChart::new(&scenario);
        let next = |trace: &Trace, chart: &RunChart| {
            [trace.next_sample(), chart.next_sample()].into_iter().flatten().min()
        };
        while let Some(instant) = next(&trace, &chart) {
            slices.advance(py, &mut sim, instant, tell)?;
            if chart.next_sample() == Some(instant) {
                chart.sample(&mut sim);
            }
            if trace.next_sample() == Some(instant) {
                let sample = trace.sample(&mut sim);
                sample.flows.iter().for_each(|row| flows.push(cells(row)));
                sample.links.iter().for_each(|row| links.push(cells(row)));
            }
        }
        let series = Series { flows: Table::of(&flows)?, links: Table::of(&links)? };
        let outcome = py.detach(|| sim.finish());
        logs.map(QlogFiles::commit).transpose().map_err(|wrong| log_error(py, wrong))?;
        Ok(Run::new(outcome, Some(series), Chart::Sampled(chart)))
    }
}

/// The stacks that a scenario may name; on Linux also the port of [`crate::emulate`].
fn stacks() -> Stacks {
    #[cfg(target_os = "linux")]
    return windward_cli::stacks().with(windward_net::port::Ports::new());
    #[cfg(not(target_os = "linux"))]
    windward_cli::stacks()
}

/// The partition of a run on that many threads, 0 for one per core; warns if it has one after all.
fn partition(
    py: Python<'_>,
    scenario: &windward_sim::Scenario,
    threads: usize,
    is_watched: bool,
) -> PyResult<Option<Partition>> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores() } else { threads };
    if threads == 1 {
        return Ok(None);
    }
    let reason = if is_watched {
        "trace and qlog look at the whole run at each instant".to_owned()
    } else {
        match py.detach(|| Partition::new(scenario, threads, &[])) {
            Ok(partition) => return Ok(Some(partition)),
            Err(error) => error.to_string(),
        }
    };
    let message = CString::new(format!("the run is on one thread: {reason}"))?;
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)?;
    Ok(None)
}

/// Refuses to simulate a scenario whose packets come from programs.
#[cfg(target_os = "linux")]
fn refuse_ports(scenario: &windward_sim::Scenario) -> PyResult<()> {
    match windward_net::testbed::ports(scenario).next() {
        None => Ok(()),
        Some((flow, _)) => Err(error::value(format!(
            "flow {}: its packets come from programs on a real clock: use windward.emulate",
            scenario.flows[flow].name
        ))),
    }
}

/// An error of a log as an exception.
fn log_error(py: Python<'_>, error: QlogError) -> PyErr {
    match error {
        QlogError::Output(wrong) => error::output(py, &wrong),
        error => error::value(error),
    }
}

#[pymethods]
impl Scenario {
    #[new]
    #[pyo3(signature = (source=None, /, **keys))]
    fn py_new(
        py: Python<'_>,
        source: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        match (source, keys) {
            (Some(source), None) => {
                if source.hasattr("__fspath__")? {
                    let path: std::path::PathBuf = source.extract()?;
                    return Self::from_path(py, &path);
                }
                let text: String = source.extract().map_err(|_| {
                    PyTypeError::new_err("a scenario is TOML text, a path or keywords")
                })?;
                if !text.contains('\n') && text.trim_end().ends_with(".toml") {
                    let message = format!(
                        "{text:?} looks like the name of a file: use Scenario.read({text:?})"
                    );
                    return Err(PyTypeError::new_err(message));
                }
                Self::unchanged(py, TEXT.to_owned(), text, Controllers::default())
            }
            (None, Some(keys)) => {
                let mut controllers = Controllers::default();
                let table = values::table(keys, "", &mut controllers)?;
                let text = toml::to_string(&table).map_err(error::value)?;
                Self::unchanged(py, TEXT.to_owned(), text, controllers)
            }
            (Some(_), Some(_)) => {
                Err(PyTypeError::new_err("a scenario is TOML or keywords; use with_ to change one"))
            }
            (None, None) => Err(PyTypeError::new_err("a scenario needs TOML text or keywords")),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    /// The scenario of a TOML file. Paths of traces are relative to its folder.
    #[classmethod]
    fn read(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        path: std::path::PathBuf,
    ) -> PyResult<Self> {
        Self::from_path(py, &path)
    }

    /// A copy with other values, as ``--set`` of the command line::
    ///
    ///     scenario.with_({"flows.lossy.last_hop.loss": 0.1}, duration="5s")
    ///
    /// The original does not change.
    #[pyo3(signature = (changes=None, /, **keys))]
    fn with_(
        &self,
        py: Python<'_>,
        changes: Option<&Bound<'_, PyDict>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut all = self.changes.clone();
        let mut controllers = self.controllers.clone();
        for (key, value) in changes.into_iter().flatten().chain(keys.into_iter().flatten()) {
            let key: String = key.extract()?;
            let value = values::setting(&value, &key, &mut controllers)?;
            all.push((key, value));
        }
        let (name, text) = (self.name.clone(), self.text.clone());
        Self::new(py, name, text, all, self.parts(py), controllers)
    }

    /// A copy with parts written in Python::
    ///
    ///     scenario.with_parts(window={"lossy": MyLaw}, aqm={"bottleneck": MyQueue})
    ///
    /// Args:
    ///     window: Congestion controllers for the connections of groups.
    ///     discrimination: Discriminators for the connections of groups.
    ///     loss: Loss models for links.
    ///     aqm: AQMs for links.
    ///
    /// Each is a dictionary from names, or ``"*"`` for all, to classes. See
    /// ``windward.Controller``, ``Discriminator``, ``LossModel`` and ``Aqm``.
    #[pyo3(signature = (**parts))]
    fn with_parts(&self, py: Python<'_>, parts: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut all = self.parts(py);
        for (axis, places) in parts.into_iter().flatten() {
            all.extend(Attached::read(&axis.extract::<String>()?, &places)?);
        }
        let (name, text, changes) = (self.name.clone(), self.text.clone(), self.changes.clone());
        Self::new(py, name, text, changes, all, self.controllers.clone())
    }

    /// Simulates the scenario. The interpreter lock is released meanwhile, so that threads run
    /// in parallel.
    ///
    /// Args:
    ///     seed: Seed in place of the scenario's.
    ///     trace: Interval of ``Run.series`` and ``Run.link_series``: seconds, ``"20ms"`` or a
    ///         timedelta. None records no time series.
    ///     qlog: Folder for the packets that each endpoint saw: ``FLOW.sender.sqlog``,
    ///         ``FLOW.receiver.sqlog`` and ``FLOW.network.sqlog``, as ``windward run --qlog``
    ///         writes them. None writes no logs.
    ///     qlog_format: ``"current"``, the current drafts, or ``"qvis"``, qlog 0.3.
    ///     threads: Threads for this run, which do not change its outcome; 0 means one per core.
    ///         Several pay for thousands of flows. A run that cannot be divided warns and has one.
    ///     progress: Called at intervals with the share done, 0 to 1. True draws a bar with tqdm.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    #[pyo3(signature = (seed=None, *, trace=None, qlog=None, qlog_format="current", threads=1, progress=None))]
    fn run(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = amount::seed)] seed: Option<u64>,
        trace: Option<&Bound<'_, PyAny>>,
        qlog: Option<std::path::PathBuf>,
        qlog_format: &str,
        #[pyo3(from_py_with = amount::threads)] threads: u16,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Run> {
        let format = match qlog_format {
            "current" => qlog::Format::Current,
            "qvis" => qlog::Format::Version03,
            other => {
                let message = format!("qlog_format is \"current\" or \"qvis\", not {other:?}");
                return Err(error::value(message));
            }
        };
        let logs = qlog.as_deref().map(|dir| (dir, format));
        let progress = Progress::new(py, progress, "run")?;
        progress.close(self.simulate(py, seed, trace, logs, threads.into(), &progress))
    }

    /// Name in errors: the path of the file, or ``scenario``.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Original TOML text, without the changes of ``with_``.
    #[getter]
    fn toml(&self) -> &str {
        &self.text
    }

    /// Changes made by ``with_``: pairs of key and value, in order.
    #[getter]
    fn changes(&self) -> Vec<(String, String)> {
        self.changes.clone()
    }

    /// Default seed of a run.
    #[getter]
    fn seed(&self) -> u64 {
        self.built.seed
    }

    /// Length of a run, seconds.
    #[getter]
    fn duration(&self) -> f64 {
        self.built.duration.as_secs_f64()
    }

    /// Length of the warm-up, which results exclude, seconds.
    #[getter]
    fn warmup(&self) -> f64 {
        self.built.warmup.as_secs_f64()
    }

    /// Names of the flows.
    #[getter]
    fn flows(&self) -> Vec<String> {
        self.built.flows.iter().map(|flow| flow.name.to_string()).collect()
    }

    /// Names of the directed links.
    #[getter]
    fn links(&self) -> Vec<String> {
        self.built.links.iter().map(|link| link.name.to_string()).collect()
    }

    /// Bottleneck of a connection: the name of its ``link``, the ``rate_bps`` of that link, or its
    /// mean where it varies, and the ``packet_size`` of the connection in bytes.
    ///
    /// Raises:
    ///     KeyError: If there is no connection of that name.
    fn bottleneck<'py>(&self, py: Python<'py>, connection: &str) -> PyResult<Bound<'py, PyDict>> {
        let flows = &self.built.flows;
        let found = flows.iter().find(|flow| flow.name.as_str() == connection);
        let config = found.and_then(|flow| match &flow.kind.traffic {
            Traffic::Transport { config, .. } => Some((flow, config.packet_size)),
            Traffic::Stack { config, .. } => Some((flow, config.packet_size)),
            Traffic::Datagrams { .. } => None,
        });
        let Some((flow, packet_size)) = config else {
            return Err(PyKeyError::new_err(format!("no connection {connection:?}")));
        };
        let link = &self.built.links[flow.bottleneck];
        let dict = PyDict::new(py);
        dict.set_item("link", link.name.as_str())?;
        dict.set_item("rate_bps", link.kind.rate.mean().as_bps())?;
        dict.set_item("packet_size", packet_size)?;
        Ok(dict)
    }

    /// Warnings about values that are allowed but probably not intended, one sentence each.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.built.warnings.clone()
    }

    /// Predicted work of a run: packets times the links that they cross.
    #[getter]
    fn predicted_packet_hops(&self) -> f64 {
        self.built.predicted_packet_hops()
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let this = slf.get();
        let attached = this.parts.iter();
        let attached = attached.map(|part| (part.axis_name(), &part.place, &part.class));
        let attached: Vec<_> = attached.collect();
        let version = env!("CARGO_PKG_VERSION");
        let controllers = this.controllers.clone();
        let parts = (version, &this.name, &this.text, this.changes.clone(), attached, controllers);
        Ok((slf.get_type().getattr("_of")?, parts.into_pyobject(py)?))
    }

    /// For pickle: the scenario is read and checked again by the current version.
    #[expect(clippy::too_many_arguments, reason = "a scenario is of so many parts")]
    #[classmethod]
    #[pyo3(signature = (version, name, text, changes, attached, controllers=Controllers::default()))]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        version: &str,
        name: String,
        text: String,
        changes: Vec<(String, String)>,
        attached: Vec<(String, Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        controllers: Controllers,
    ) -> PyResult<Self> {
        let read = || {
            let mut parts = Vec::new();
            for (axis, place, class) in attached {
                let places = PyDict::new(py);
                places.set_item(place, class)?;
                parts.extend(Attached::read(&axis, &places)?);
            }
            Self::new(py, name, text, changes, parts, controllers)
        };
        read().map_err(|wrong| {
            let mine = env!("CARGO_PKG_VERSION");
            if version == mine {
                return wrong;
            }
            let message = "a scenario of windward";
            let message = format!("{message} {version} cannot be read by windward {mine}: {wrong}");
            let error = error::value(message);
            error.set_cause(py, Some(wrong));
            error
        })
    }

    /// True if both have the same value for each key.
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        let py = other.py();
        let Ok(other) = other.cast::<Self>() else { return false };
        let other = other.get();
        let same = |(a, b): (&Attached, &Attached)| {
            a.axis == b.axis && a.place == b.place && a.class.bind(py).eq(&b.class).unwrap_or(false)
        };
        self.file.says_the_same_as(&other.file)
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(same)
            && self.controllers.are(py, &other.controllers)
    }

    fn __repr__(&self) -> String {
        let built = &self.built;
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let (flows, links) = (built.flows.len(), built.links.len());
        format!(
            "<windward.Scenario {:?}: {}, {flows} flow{}, {links} link{}>",
            self.name,
            built.duration,
            plural(flows),
            plural(links),
        )
    }

    fn _repr_html_(&self) -> String {
        let changes = self.changes.iter().map(|(key, value)| format!("\n# {key} = {value}"));
        let text = format!("{}{}", self.text.trim_end(), changes.collect::<String>());
        format!("<p>{}</p><pre>{}</pre>", escape(&self.__repr__()), escape(&text))
    }
}
