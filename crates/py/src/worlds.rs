//! The search for the nearest world of each claim, with runs on other processes and machines.
//! `python/windward/_worlds.py` drives it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use serde_json::json;
use windward_experiments::campaign::{Found, RunExecutor, RunId};
use windward_experiments::worlds::{JointWorld, SearchOptions, SearchSummary, search_with};
use windward_experiments::{BUILD, ExperimentError, HOPS_PER_SECOND, Plan};
use windward_sim::Scenario;

use crate::experiment::{effort_of, select};
use crate::work::{How, experiment_error, watched, watched_by};
use crate::{amount, error};

/// Seconds of one wait for a run elsewhere, after which the caller may stop.
const WAIT: f64 = 0.2;

/// The runs of a search for worlds, by their [`RunId`].
#[pyclass(frozen, module = "windward._windward")]
#[derive(Debug)]
pub(crate) struct WorldRuns {
    names: Vec<String>,
    full: bool,
    plans: Vec<Plan>,
    /// Once set, no run continues or begins.
    stop: AtomicBool,
}

#[pymethods]
impl WorldRuns {
    /// Raises:
    ///     ScenarioError: A name is unknown.
    #[new]
    fn py_new(py: Python<'_>, names: Vec<String>, full: bool) -> PyResult<Self> {
        let plans: Result<Vec<Plan>, ExperimentError> = py.detach(|| {
            let experiments = select(&names)?;
            experiments.iter().map(|e| e.plan(&effort_of(full))).collect()
        });
        let plans = plans.map_err(|wrong| experiment_error(py, wrong))?;
        Ok(WorldRuns { names, full, plans, stop: AtomicBool::new(false) })
    }

    /// Executes a run; returns its metrics as bytes.
    fn run<'py>(&self, py: Python<'py>, run: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let id: RunId =
            postcard::from_bytes(run).map_err(|_| error::value("this is not a run of a search"))?;
        let how = How { threads: 1, full: self.full, progress: None };
        let metrics = watched_by(py, &self.stop, how, |o| id.perform(&self.plans, o.cancel))?;
        let bytes = postcard::to_stdvec(&metrics).map_err(error::failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Stops all runs of the search, in all threads, permanently.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let this = slf.get();
        let parts = (BUILD, this.names.clone(), this.full).into_pyobject(py)?;
        Ok((slf.get_type().getattr("_of")?, parts))
    }

    /// For pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        version: &str,
        names: Vec<String>,
        full: bool,
    ) -> PyResult<Self> {
        error::same_build("search", version)?;
        Self::py_new(py, names, full)
    }
}

/// Workers that a function in Python reaches. It takes the bytes of a [`RunId`], and returns an
/// object with the method `wait(seconds)`, which returns the bytes of the metrics or `None`.
struct Elsewhere {
    submit: Py<PyAny>,
    /// The first exception.
    raised: Mutex<Option<PyErr>>,
}

impl Elsewhere {
    fn wait(&self, run: &RunId, cancel: &AtomicBool) -> PyResult<Option<Vec<f64>>> {
        let bytes = postcard::to_stdvec(run).map_err(error::failed)?;
        let pending = Python::attach(|py| self.submit.call1(py, (PyBytes::new(py, &bytes),)))?;
        loop {
            let metrics = Python::attach(|py| -> PyResult<Option<Vec<f64>>> {
                let bytes = pending.call_method1(py, "wait", (WAIT,))?;
                if bytes.is_none(py) {
                    return Ok(None);
                }
                let bytes: &[u8] = bytes.extract(py)?;
                let metrics = postcard::from_bytes(bytes);
                metrics.map(Some).map_err(|_| error::value("these are not metrics of a run"))
            })?;
            if metrics.is_some() || cancel.load(Ordering::Relaxed) {
                return Ok(metrics);
            }
        }
    }
}

impl RunExecutor for Elsewhere {
    fn metrics(
        &self,
        run: &RunId,
        _plan: &Plan,
        _scenario: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Vec<f64>, ExperimentError> {
        match self.wait(run, cancel) {
            Ok(metrics) => metrics.ok_or(ExperimentError::Cancelled),
            Err(error) => {
                let mut raised = self.raised.lock().unwrap_or_else(PoisonError::into_inner);
                raised.get_or_insert(error);
                Err(ExperimentError::Cancelled)
            }
        }
    }
}

/// Searches for the nearest world of each claim, and returns the result as JSON. `submit` is as
/// in [`Elsewhere`]; without it, threads of this process execute the runs.
#[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "Python calls it so")]
#[pyfunction]
#[pyo3(signature = (names, folder, *, budget, full, resume, threads, progress, submit=None))]
pub(crate) fn worlds(
    py: Python<'_>,
    names: Vec<String>,
    folder: PathBuf,
    budget: Option<f64>,
    full: bool,
    resume: bool,
    #[pyo3(from_py_with = amount::threads)] threads: u16,
    progress: Option<&Bound<'_, PyAny>>,
    submit: Option<Py<PyAny>>,
) -> PyResult<String> {
    let how = How { threads: usize::from(threads), full, progress };
    let budget = budget.map(|seconds| seconds * HOPS_PER_SECOND);
    let elsewhere = submit.map(|submit| Elsewhere { submit, raised: Mutex::new(None) });
    let done = watched(py, how, |options| {
        let experiments = select(&names)?;
        let search = SearchOptions { names, budget, resume, ..SearchOptions::default() };
        let effort = effort_of(full);
        match &elsewhere {
            Some(executor) => {
                search_with(&experiments, &effort, options, &search, &folder, executor)
            }
            None => windward_experiments::worlds::search(
                &experiments,
                &effort,
                options,
                &search,
                &folder,
            ),
        }
    });
    let raised =
        elsewhere.and_then(|e| e.raised.into_inner().unwrap_or_else(PoisonError::into_inner));
    match raised {
        Some(error) => Err(error),
        None => Ok(json_of(&done?).to_string()),
    }
}

fn json_of(summary: &SearchSummary) -> serde_json::Value {
    let readings = |deviation: &windward_experiments::experiment::Deviation| {
        let choices = deviation.choices().iter();
        choices.map(|(name, label)| (name.clone(), label.clone().into())).collect()
    };
    let claim = |found: &Found| {
        let world = &found.world;
        json!({
            "claim": world.claim,
            "plain": found.plain.to_string(),
            "verdict": world.verdict.to_string(),
            "readings": world.readings.as_ref().map(|r| -> serde_json::Map<_, _> { readings(r) }),
            "assumptions": found.assumptions,
            "tried": world.tried,
            "held": world.held,
            "of": world.of,
            "undecided": world.undecided,
            "confirmations": world.confirmations,
            "end": world.end.word(),
        })
    };
    let joint = |(paper, joint): &(String, JointWorld)| {
        let changed: serde_json::Map<String, serde_json::Value> = readings(&joint.readings);
        json!({ "paper": paper, "readings": changed, "claims": joint.claims })
    };
    json!({
        "claims": summary.found.iter().map(claim).collect::<Vec<_>>(),
        "joint": summary.joint.iter().map(joint).collect::<Vec<_>>(),
        "files": summary.files,
        "runs": summary.runs,
    })
}
