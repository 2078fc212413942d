//! `windward.Run`: results of a run.

use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple, PyType};
use windward_report::plot::RunChart;
use windward_sim::output::OutputDir;
use windward_sim::record::{RunRecord, table};
use windward_sim::{Outcome, Scenario};

use crate::error;
use crate::table::Table;

/// Results of a run.
///
/// Values of flows, and utilization and mean queues of links, cover the time after the warm-up.
/// Rates are in bits per second, times in seconds, windows and queues in packets. The columns are
/// those of ``windward run --json``: docs/outputs.md.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Run {
    outcome: Outcome,
    series: Option<Series>,
    chart: Chart,
}

/// Source of the chart that a notebook shows.
#[derive(Debug)]
pub(crate) enum Chart {
    /// None: a run from pickle has no scenario.
    None,
    /// Rates alone, drawn when they are shown.
    Rates(Arc<Scenario>),
    /// Samples of windows and queues too.
    Sampled(RunChart),
}

/// Time series.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) flows: Table,
    pub(crate) links: Table,
}

impl Run {
    pub(crate) fn new(outcome: Outcome, series: Option<Series>, chart: Chart) -> Self {
        Run { outcome, series, chart }
    }

    fn series_or_error(&self) -> PyResult<&Series> {
        self.series.as_ref().ok_or_else(|| {
            PyAttributeError::new_err("the run has no time series: use run(trace=\"100ms\")")
        })
    }
}

#[pymethods]
impl Run {
    /// One row per flow.
    #[getter]
    fn flows(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.flows, &self.outcome))
    }

    /// One row per transfer of flows that arrive at random: its size and its duration.
    #[getter]
    fn transfers(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.transfers, &self.outcome))
    }

    /// One row per group of flows: sums and means over them.
    #[getter]
    fn groups(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.groups, &self.outcome))
    }

    /// One row per directed link.
    #[getter]
    fn links(&self) -> PyResult<Table> {
        Table::of(&table(&self.outcome.links, &self.outcome))
    }

    /// Each flow at each sample: window, ssthresh, RTT, and rates since the previous sample.
    ///
    /// Raises:
    ///     AttributeError: If the run was not traced.
    #[getter]
    fn series(&self) -> PyResult<Table> {
        Ok(self.series_or_error()?.flows.share())
    }

    /// Each directed link at each sample: queue, losses, and rate since the previous sample.
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

    /// Length of the warm-up, which results exclude, seconds.
    #[getter]
    fn warmup(&self) -> f64 {
        self.outcome.warmup.as_secs_f64()
    }

    /// Jain's fairness index over the goodput of all transport flows.
    #[getter]
    fn jain(&self) -> f64 {
        self.outcome.jain
    }

    /// Number of packet-hops: packets, data or acknowledgments, times the links they crossed.
    #[getter]
    fn packet_hops(&self) -> u64 {
        self.outcome.packet_hops
    }

    /// Number of events that the engine handled.
    #[getter]
    fn events(&self) -> u64 {
        self.outcome.events
    }

    /// Hash over every delivery with its time, hexadecimal. Runs with the same fingerprint are
    /// identical, on any machine and from any language.
    #[getter]
    fn fingerprint(&self) -> String {
        self.outcome.fingerprint()
    }

    /// The run as ``windward run --json`` prints it.
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
            let message =
                "a run with time series cannot be pickled: save them as Parquet, or run again";
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
        Ok(Run::new(outcome?, None, Chart::None))
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

    /// The run in a notebook: throughput over time, with ``trace`` windows and queues too, and the
    /// tables of groups and links.
    fn _repr_html_(&self) -> PyResult<String> {
        let head = crate::table::escape(&self.__repr__());
        let svg = |chart: &RunChart| {
            let svg = chart.svg("The run", &self.outcome);
            format!("<div style=\"max-width: 40em; background: white\">{svg}</div>")
        };
        let chart = match &self.chart {
            Chart::None => String::new(),
            Chart::Rates(scenario) => svg(&RunChart::new(scenario)),
            Chart::Sampled(chart) => svg(chart),
        };
        let (groups, links) = (self.groups()?.html(), self.links()?.html());
        Ok(format!("<p>{head}</p>{chart}{groups}{links}"))
    }
}
