//! `windward.Experiment`, and the reproduction of papers.

use std::path::PathBuf;
use std::sync::Mutex;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};
use windward_experiments::experiment::RunLength;
use windward_experiments::{Effort, ExperimentError, builtin};
use windward_report::{Provenance, ReportOptions};
use windward_sim::scenario::file::ScenarioFile;

use crate::parts::{self, Controllers, ExpressionController};
use crate::table::Table;
use crate::work::{How, experiment_error, watched};
use crate::{amount, values};

/// A scenario with axes to sweep, metrics to compute and claims to check: docs/experiments.md.
///
/// Raises:
///     ScenarioError: Anything unknown, missing or impossible.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Experiment {
    name: String,
    text: String,
    changes: Vec<(String, String)>,
    /// Files with readings that it uses, each with its text; pickled with the experiment.
    beside: Vec<(String, String)>,
    controllers: Controllers,
    pub(crate) inner: windward_experiments::Experiment,
}

/// Inputs of an experiment: name, text, changes, its files, and its controllers in Python.
pub(crate) type Recipe =
    (String, String, Vec<(String, String)>, Vec<(String, String)>, Controllers);

impl Experiment {
    /// Reads the experiment of a recipe. Files that the recipe lacks are read from the folder of
    /// the experiment.
    pub(crate) fn of(py: Python<'_>, recipe: Recipe) -> PyResult<Self> {
        let (name, text, changes, known, controllers) = recipe;
        let protocols = controllers.protocols(py)?;
        let read = py.detach(|| {
            let beside = Mutex::new(Vec::new());
            let text_of = |from: &str| {
                let found = known.iter().find(|(name, _)| name == from);
                let text = match found {
                    Some((_, text)) => text.clone(),
                    None => windward_experiments::Experiment::text_beside(&name, from)?,
                };
                if let Ok(mut beside) = beside.lock() {
                    beside.push((from.to_owned(), text.clone()));
                }
                Ok(text)
            };
            let mut inner = windward_experiments::Experiment::parse_beside(&name, &text, &text_of)?
                .with_stacks(&windward_cli::stacks())
                .with_protocols(&protocols);
            for (key, value) in &changes {
                inner.set(key, value)?;
            }
            Ok((inner, beside.into_inner().unwrap_or_default()))
        });
        let (inner, beside) = read.map_err(|wrong| experiment_error(py, wrong))?;
        Ok(Experiment { name, text, changes, beside, controllers, inner })
    }

    pub(crate) fn recipe(&self) -> Recipe {
        let Experiment { name, text, changes, beside, controllers, .. } = self;
        (name.clone(), text.clone(), changes.clone(), beside.clone(), controllers.clone())
    }

    pub(crate) fn effort(&self, full: bool, repetitions: Option<u32>) -> Effort {
        let effort = effort_of(full);
        let Some(repetitions) = repetitions else { return effort };
        let length = self.inner.run_length(&effort);
        let length = RunLength { repetitions, at_most: repetitions, ..length };
        Effort::Custom { full, length }
    }
}

#[pymethods]
impl Experiment {
    /// Reads TOML text; ``name`` is the file in errors.
    #[new]
    #[pyo3(
        signature = (toml, /, name="experiment".to_owned()),
        text_signature = "(toml, /, name='experiment')",
    )]
    fn py_new(py: Python<'_>, toml: String, name: String) -> PyResult<Self> {
        Self::of(py, (name, toml, Vec::new(), Vec::new(), Controllers::default()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    /// The experiment of a TOML file.
    #[classmethod]
    fn read(_class: &Bound<'_, PyType>, py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let text = py.detach(|| ScenarioFile::text(&path));
        let text = text.map_err(|wrong| crate::error::unread(py, &path, &wrong))?;
        Self::of(
            py,
            (ScenarioFile::name(&path), text, Vec::new(), Vec::new(), Controllers::default()),
        )
    }

    /// A copy with other values of its scenario, as ``--set``. Values that an axis or a reading
    /// sets cannot be changed.
    #[pyo3(signature = (changes=None, /, **keys))]
    fn with_(
        &self,
        py: Python<'_>,
        changes: Option<&Bound<'_, PyDict>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut recipe = self.recipe();
        for (key, value) in changes.into_iter().flatten().chain(keys.into_iter().flatten()) {
            let key: String = key.extract()?;
            let value = values::setting(&value, &key, &mut recipe.4)?;
            recipe.2.push((key, value));
        }
        Self::of(py, recipe)
    }

    /// A copy with congestion controllers in Python for groups of flows::
    ///
    ///     experiment.with_parts(window={"lossy": MyLaw})
    ///
    /// Everything else of such a flow is as in the protocol ``cubic``; a class with
    /// ``on_rate_sample`` or ``on_lost`` has the loss recovery of RFC 9002. ``with_`` gives it
    /// another ``base``. Workers of a sweep
    /// import the class, or get it by cloudpickle.
    ///
    /// Args:
    ///     window: Classes, or results of ``windward.controller``, by groups of flows.
    #[pyo3(signature = (*, window))]
    fn with_parts(&self, py: Python<'_>, window: &Bound<'_, PyDict>) -> PyResult<Self> {
        let changes = PyDict::new(py);
        for (group, controller) in window {
            let group: String = group.extract()?;
            let known = controller.is_instance_of::<ExpressionController>();
            if !known && !parts::is_controller(&controller)? {
                let repr = controller.repr()?;
                let message = format!("window: {repr} is not a class with a method on_ack");
                return Err(PyTypeError::new_err(message));
            }
            changes.set_item(format!("flows.{group}.protocol"), controller)?;
        }
        self.with_(py, Some(&changes), None)
    }

    /// Name of the experiment.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.id
    }

    /// Title of the experiment.
    #[getter]
    fn title(&self) -> &str {
        &self.inner.caption.title
    }

    /// Labels of the points of each axis, by name.
    #[getter]
    fn axes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let axes = PyDict::new(py);
        for axis in &self.inner.axes {
            let labels: Vec<&str> = axis.points.iter().map(|point| point.label.as_str()).collect();
            axes.set_item(&axis.name, labels)?;
        }
        Ok(axes)
    }

    /// Names of the metrics.
    #[getter]
    fn metrics(&self) -> Vec<&str> {
        self.inner.metrics.iter().map(|metric| metric.name.as_str()).collect()
    }

    /// Runs every combination of the axes on all cores. Returns a row for each run: labels, seed,
    /// metrics, and the results of groups and links. The interpreter lock is released meanwhile.
    ///
    /// Args:
    ///     full: Apply the file's ``full`` in place of its ``quick``.
    ///     repetitions: Runs of each combination, in place of the file's.
    ///     threads: Worker threads; 0 is one per core.
    ///     progress: Called at intervals with the share done, 0 to 1.
    #[pyo3(signature = (*, full=false, repetitions=None, threads=0, progress=None))]
    fn sweep(
        &self,
        py: Python<'_>,
        full: bool,
        #[pyo3(from_py_with = amount::repetitions)] repetitions: Option<u32>,
        #[pyo3(from_py_with = amount::threads)] threads: u16,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Table> {
        let effort = self.effort(full, repetitions);
        let how = How { threads: usize::from(threads), full, progress };
        let results = watched(py, how, |options| self.inner.plan(&effort)?.run(options))?;
        Table::of(&results.run_table())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let this = slf.get();
        Ok((slf.get_type().getattr("_of")?, this.recipe().into_pyobject(py)?))
    }

    /// For pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        name: String,
        text: String,
        changes: Vec<(String, String)>,
        beside: Vec<(String, String)>,
        controllers: Controllers,
    ) -> PyResult<Self> {
        Self::of(py, (name, text, changes, beside, controllers))
    }

    fn __repr__(&self) -> String {
        let axes = self.inner.axes.iter();
        let axes = axes.map(|axis| format!("{} ({})", axis.name, axis.points.len()));
        let axes: Vec<String> = axes.collect();
        format!("<windward.Experiment {}: {}>", self.inner.id, axes.join(" x "))
    }
}

/// The effort of that length.
pub(crate) fn effort_of(full: bool) -> Effort {
    if full { Effort::Full } else { Effort::Quick }
}

/// The experiments of the papers with these names, with all stacks.
pub(crate) fn select(
    names: &[String],
) -> Result<Vec<windward_experiments::Experiment>, ExperimentError> {
    let stacks = windward_cli::stacks();
    Ok(builtin::select(names)?.into_iter().map(|e| e.with_stacks(&stacks)).collect())
}

/// Reproduces figures and claims by name into a folder. Returns the number of runs.
#[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "Python calls it so")]
#[pyfunction]
#[pyo3(signature = (names, folder, *, full, all_readings, resume, threads, progress, about))]
pub(crate) fn reproduce(
    py: Python<'_>,
    names: Vec<String>,
    folder: PathBuf,
    full: bool,
    all_readings: bool,
    resume: bool,
    #[pyo3(from_py_with = amount::threads)] threads: u16,
    progress: Option<&Bound<'_, PyAny>>,
    about: (String, String, String),
) -> PyResult<(Vec<String>, usize)> {
    let how = How { threads: usize::from(threads), full, progress };
    let effort = effort_of(full);
    let (date, machine, command) = about;
    let about = Provenance { date, commit: None, machine, command };
    let report = ReportOptions { about, resume, every_table: true, ..ReportOptions::default() };
    watched(py, how, |options| {
        let mut experiments = select(&names)?;
        for experiment in &mut experiments {
            experiment.all_readings = all_readings;
        }
        let done = windward_report::reproduce(&experiments, &effort, options, &report, &folder)?;
        let ids = done.means.into_iter().map(|means| means.experiment.id);
        Ok((ids.collect(), done.runs))
    })
}
