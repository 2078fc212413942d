//! The numbered runs of an experiment, and a dataset of finished ones, for sweeps on several
//! machines. `python/windward/_sweep.py` drives them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use windward_experiments::rows::{Row, table_of};
use windward_experiments::{BUILD, ExperimentError, GridFacts};

use crate::experiment::{Experiment, Recipe};
use crate::table::Table;
use crate::work::{How, experiment_error, watched_by};
use crate::{amount, error};

/// All runs of an experiment, numbered from zero by cell and then by repetition.
#[pyclass(frozen, module = "windward._windward")]
#[derive(Debug)]
pub(crate) struct Grid {
    recipe: Recipe,
    full: bool,
    repetitions: Option<u32>,
    inner: windward_experiments::Grid,
    /// Once set, no run of the grid continues or begins.
    stop: AtomicBool,
}

/// Pickled form of a grid, the version first.
type Pickled<'py> = (&'static str, Recipe, bool, Option<u32>, Bound<'py, PyBytes>);

fn how() -> How<'static, 'static> {
    How { threads: 1, full: false, progress: None }
}

fn rows_of(bytes: &[u8]) -> PyResult<Vec<Row>> {
    postcard::from_bytes(bytes).map_err(|_| error::value("these are not rows of a grid"))
}

#[pymethods]
impl Grid {
    /// Raises:
    ///     ScenarioError: A scenario is impossible.
    #[new]
    #[pyo3(signature = (experiment, *, full=false, repetitions=None))]
    fn py_new(
        py: Python<'_>,
        experiment: &Bound<'_, Experiment>,
        full: bool,
        #[pyo3(from_py_with = amount::repetitions)] repetitions: Option<u32>,
    ) -> PyResult<Self> {
        let this = experiment.get();
        let effort = this.effort(full, repetitions);
        let stop = AtomicBool::new(false);
        let inner = watched_by(py, &stop, how(), |options| {
            windward_experiments::Grid::new(&this.inner, &effort, options.cancel)
        })?;
        Ok(Grid { recipe: this.recipe(), full, repetitions, inner, stop })
    }

    /// Name of the experiment.
    #[getter]
    fn id(&self) -> &str {
        &self.inner.experiment().id
    }

    /// Number of runs.
    #[getter]
    fn runs(&self) -> u64 {
        self.inner.runs()
    }

    /// Runs from ``start`` to ``stop`` that ``dataset`` lacks, each with its predicted cost in
    /// packet-hops, the most expensive first.
    #[pyo3(signature = (start, stop, dataset=None))]
    fn plan(
        &self,
        py: Python<'_>,
        start: u64,
        stop: u64,
        dataset: Option<&Bound<'_, Dataset>>,
    ) -> PyResult<Vec<(u64, f64)>> {
        let dataset = dataset.map(Bound::get);
        let planned = watched_by(py, &self.stop, how(), |options| {
            let held = dataset.map(Dataset::inner);
            let open = held.as_ref().and_then(|held| held.as_ref());
            let wanted = |run| open.is_none_or(|open| !open.has(run));
            self.inner.plan(start..stop, wanted, options.cancel)
        })?;
        Ok(planned.into_iter().map(|planned| (planned.run, planned.cost)).collect())
    }

    /// Executes the runs of these numbers, and returns their rows as bytes.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    fn run<'py>(&self, py: Python<'py>, runs: Vec<u64>) -> PyResult<Bound<'py, PyBytes>> {
        let rows =
            watched_by(py, &self.stop, how(), |options| self.inner.run(&runs, options.cancel))?;
        let bytes = postcard::to_stdvec(&rows).map_err(error::failed)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Stops all runs of the grid, in all threads, permanently.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The rows of all runs, in order.
    ///
    /// Raises:
    ///     ValueError: A run is missing or occurs twice.
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    fn table(&self, py: Python<'_>, rows: Vec<Vec<u8>>) -> PyResult<Table> {
        let table = py.detach(|| -> PyResult<_> {
            let mut all: Vec<Row> = Vec::new();
            for bytes in &rows {
                all.extend(rows_of(bytes)?);
            }
            all.sort_by_key(|row| row.run);
            let numbers = all.iter().map(|row| row.run);
            if !numbers.eq(0..self.inner.runs()) {
                let (there, runs) = (all.len(), self.inner.runs());
                return Err(error::value(format!("{there} rows for {runs} runs")));
            }
            let cells = all.into_iter().map(|row| row.cells);
            Ok(table_of(&self.inner.columns(), cells))
        });
        Table::of(&table?)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let this = slf.get();
        let facts = postcard::to_stdvec(&this.inner.facts()).map_err(error::failed)?;
        let facts = PyBytes::new(py, &facts);
        let version = BUILD;
        let parts = (version, this.recipe.clone(), this.full, this.repetitions, facts);
        Ok((slf.get_type().getattr("_of")?, parts))
    }

    /// For pickle.
    #[classmethod]
    fn _of(
        _class: &Bound<'_, PyType>,
        py: Python<'_>,
        version: &str,
        recipe: Recipe,
        full: bool,
        repetitions: Option<u32>,
        facts: &[u8],
    ) -> PyResult<Self> {
        error::same_build("sweep", version)?;
        let facts: GridFacts =
            postcard::from_bytes(facts).map_err(|_| error::value("this is not a grid"))?;
        let experiment = Experiment::of(py, recipe)?;
        let effort = experiment.effort(full, repetitions);
        let inner = windward_experiments::Grid::with(&experiment.inner, &effort, facts);
        let inner = inner.map_err(|wrong| experiment_error(py, wrong))?;
        let recipe = experiment.recipe();
        Ok(Grid { recipe, full, repetitions, inner, stop: AtomicBool::new(false) })
    }
}

/// Finished runs of a sweep, on disk.
#[pyclass(frozen, module = "windward._windward")]
#[derive(Debug)]
pub(crate) struct Dataset {
    path: PathBuf,
    /// `None` once it is closed.
    inner: Mutex<Option<windward_experiments::Dataset>>,
}

impl Dataset {
    fn inner(&self) -> MutexGuard<'_, Option<windward_experiments::Dataset>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut windward_experiments::Dataset) -> Result<(), ExperimentError> + Send,
    ) -> PyResult<()> {
        let done = py.detach(|| self.inner().as_mut().map(change));
        let done = done.ok_or_else(|| error::value("the dataset is closed"))?;
        done.map_err(|wrong| experiment_error(py, wrong))
    }
}

#[pymethods]
impl Dataset {
    /// Raises:
    ///     OSError: The folder cannot be read or written, belongs to another sweep or is in use by
    ///         another process; or it has rows and ``resume`` is false.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    fn py_new(
        py: Python<'_>,
        folder: PathBuf,
        grid: &Bound<'_, Grid>,
        resume: bool,
    ) -> PyResult<Self> {
        let grid = &grid.get().inner;
        let inner = py.detach(|| windward_experiments::Dataset::open(&folder, grid, resume));
        let inner = inner.map_err(|wrong| experiment_error(py, wrong))?;
        Ok(Dataset { path: inner.path().to_owned(), inner: Mutex::new(Some(inner)) })
    }

    /// Adds the rows of [`Grid::run`]. They are on disk when it returns.
    fn add(&self, py: Python<'_>, rows: &[u8]) -> PyResult<()> {
        let rows = rows_of(rows)?;
        self.change(py, |inner| inner.add(rows))
    }

    /// Writes the rows that are in no file yet into a new one.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, windward_experiments::Dataset::flush)
    }

    /// Closes the dataset, so that others can write into it.
    fn close(&self) {
        *self.inner() = None;
    }

    /// Number of finished runs; 0 once the dataset is closed.
    #[getter]
    fn done(&self) -> u64 {
        self.inner().as_ref().map_or(0, windward_experiments::Dataset::count)
    }

    /// The folder with the files.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }
}

/// The rows of a dataset's folder, in the order of the experiment.
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
#[pyfunction]
pub(crate) fn read_dataset(py: Python<'_>, folder: PathBuf) -> PyResult<Table> {
    let table = py.detach(|| windward_experiments::Dataset::read(&folder));
    Table::of(&table.map_err(|wrong| experiment_error(py, wrong))?)
}
