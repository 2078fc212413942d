//! `windward.Run`: what a run measured.

use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use windward_sim::Outcome;
use windward_sim::output::OutputDir;
use windward_sim::record::{RunRecord, table};

use crate::error;
use crate::table::Table;

/// Results of a run.
///
/// Figures of flows, and utilization and mean queues of links, cover the time after the warm-up;
/// rates are bits per second, times seconds, windows and queues packets. The columns are those of
/// ``windward run --json``: docs/outputs.md.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Run {
    outcome: Outcome,
    series: Option<Series>,
}

/// Everything over time.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) flows: Table,
    pub(crate) links: Table,
}

impl Run {
    pub(crate) fn new(outcome: Outcome, series: Option<Series>) -> Self {
        Run { outcome, series }
    }

    fn series_or_error(&self) -> PyResult<&Series> {
        self.series.as_ref().ok_or_else(|| {
            PyAttributeError::new_err("nothing was recorded over time: use run(trace=\"100ms\")")
        })
    }
}

#[pymethods]
impl Run {
    /// One row a flow.
    #[getter]
    fn flows(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.flows, &self.outcome))
    }

    /// One row a transfer of those that came by themselves: its size, and how long it took.
    #[getter]
    fn transfers(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.transfers, &self.outcome))
    }

    /// One row a group of flows: sums and means over them.
    #[getter]
    fn groups(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.groups, &self.outcome))
    }

    /// One row a directed link.
    #[getter]
    fn links(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.links, &self.outcome))
    }

    /// Every flow at every sample: window, threshold, RTT, rates since the sample before.
    ///
    /// Raises:
    ///     AttributeError: If the run was not traced.
    #[getter]
    fn series(&self) -> PyResult<Table> {
        Ok(self.series_or_error()?.flows.share())
    }

    /// Every directed link at every sample: queue, losses, rate since the sample before.
    ///
    /// Raises:
    ///     AttributeError: If the run was not traced.
    #[getter]
    fn link_series(&self) -> PyResult<Table> {
        Ok(self.series_or_error()?.links.share())
    }

    /// The seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.outcome.seed
    }

    /// Length of the run, seconds.
    #[getter]
    fn duration(&self) -> f64 {
        self.outcome.duration.as_secs_f64()
    }

    /// Its first part, left out of the figures, seconds.
    #[getter]
    fn warmup(&self) -> f64 {
        self.outcome.warmup.as_secs_f64()
    }

    /// Jain's fairness index over the goodput of all transport flows.
    #[getter]
    fn jain(&self) -> f64 {
        self.outcome.jain
    }

    /// Packets, data or acknowledgments, times the links they crossed.
    #[getter]
    fn packet_hops(&self) -> u64 {
        self.outcome.packet_hops
    }

    /// Events that the engine handled.
    #[getter]
    fn events(&self) -> u64 {
        self.outcome.events
    }

    /// A hash over every delivery with its time, hexadecimal: two runs with the same fingerprint
    /// did the same thing, on whatever machine and from whatever language.
    #[getter]
    fn fingerprint(&self) -> String {
        self.outcome.fingerprint()
    }

    /// As ``windward run --json`` prints it.
    fn to_json(&self) -> String {
        RunRecord::new(&self.outcome).to_json()
    }

    #[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
    /// Writes ``run.json`` and the three tables as CSV into a folder, as ``windward run --out``.
    fn write(&self, py: Python<'_>, folder: std::path::PathBuf) -> PyResult<()> {
        py.detach(|| {
            let mut dir = OutputDir::create(&folder)?;
            RunRecord::new(&self.outcome).write_files(&mut dir)?;
            dir.commit()
        })
        .map_err(|wrong| error::output(py, &wrong))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let this = slf.get();
        if this.series.is_some() {
            let message = "a run with series is not pickled: save them as Parquet, or run again";
            return Err(pyo3::exceptions::PyTypeError::new_err(message));
        }
        let bytes = postcard::to_stdvec(&this.outcome).map_err(error::failed)?;
        let parts = (windward_experiments::BUILD, PyBytes::new(py, &bytes));
        Ok((slf.get_type().getattr("_of")?, parts.into_pyobject(py)?))
    }

    /// For pickle.
    #[classmethod]
    fn _of(_class: &Bound<'_, PyType>, version: &str, bytes: &[u8]) -> PyResult<Self> {
        let mine = windward_experiments::BUILD;
        if version != mine {
            let message = format!("a run of windward {version} cannot be read by windward {mine}");
            return Err(PyValueError::new_err(message));
        }
        let outcome = postcard::from_bytes(bytes);
        let outcome = outcome.map_err(|error| PyValueError::new_err(format!("not a run: {error}")));
        Ok(Run::new(outcome?, None))
    }

    fn __repr__(&self) -> String {
        format!(
            "<windward.Run of {}, seed {}: {} flows, fingerprint {}>",
            self.outcome.duration,
            self.outcome.seed,
            self.outcome.flows.len(),
            self.fingerprint(),
        )
    }

    fn _repr_html_(&self) -> PyResult<String> {
        let head = crate::table::escape(&self.__repr__());
        let (groups, links) = (self.groups()?.html(), self.links()?.html());
        Ok(format!("<p>{head}</p>{groups}{links}"))
    }
}
