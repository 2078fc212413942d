//! The extension module `windward._windward`: scenarios, runs, tables and parts as Python objects.
//!
//! Everything here is a call into the other crates. Conveniences for users of Python are written in
//! Python, in `python/windward`.
//!
//! The modules, in the order of reading:
//!
//! - `amount`, `duration` and `values`: values from Python. `error`: errors as exceptions.
//! - `scenario`, `run` and `table`: a scenario, the results of a run, and tables in Arrow's format.
//! - `slices` and `simulation`: a run in slices that notice Ctrl-C, and a run in steps.
//! - `parts`: parts of protocols and queues that are written in Python.
//! - `work` and `progress`: long work on other threads. `experiment`, `evaluate` and `grid`:
//!   experiments, evaluations, and sweeps on several machines.
//! - `emulate`: emulations and comparisons on a real clock, on Linux.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::prelude::*;

mod amount;
mod duration;
#[cfg(target_os = "linux")]
mod emulate;
mod error;
mod evaluate;
mod experiment;
mod grid;
mod parts;
mod progress;
mod run;
mod scenario;
mod simulation;
mod slices;
mod table;
mod values;
mod work;
mod worlds;

/// Runs the command line and returns its exit status. Ctrl-C is handled by the command line.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
fn main(py: Python<'_>, args: Vec<OsString>, python: PathBuf) -> u8 {
    #[cfg(target_os = "linux")]
    emulate::start_again(&python);
    py.detach(|| windward_cli::main(args, &python, Some(&evaluate::load)))
}

/// The bar of the command line, on standard error if that is a terminal.
#[pyclass(module = "windward._windward")]
#[derive(Debug)]
struct Bar {
    bar: Option<windward_cli::Progress>,
}

#[pymethods]
impl Bar {
    #[new]
    fn py_new(quiet: bool) -> Self {
        Bar { bar: Some(windward_cli::Progress::new(quiet)) }
    }

    /// Shows the share of the work that is done, with `message` at the end of the bar.
    fn set(&self, share: f64, message: &str) {
        if let Some(bar) = &self.bar {
            bar.set(share, message);
        }
    }

    /// Removes the bar.
    fn clear(&mut self) {
        self.bar = None;
    }
}

/// A temporary folder, which is removed with this object. If the process is killed, the next one
/// removes it.
#[pyclass(module = "windward._windward")]
#[derive(Debug)]
struct Scratch {
    scratch: Option<windward_sim::scratch::Scratch>,
}

#[pymethods]
impl Scratch {
    #[new]
    fn py_new() -> PyResult<Self> {
        Ok(Scratch { scratch: Some(windward_sim::scratch::Scratch::new()?) })
    }

    /// Its path; empty once it is removed.
    #[getter]
    fn path(&self) -> PathBuf {
        self.scratch.as_ref().map(|scratch| scratch.path().to_owned()).unwrap_or_default()
    }

    /// Removes it with all that is in it.
    fn remove(&mut self) {
        self.scratch = None;
    }
}

/// The protocol table as JSON.
#[pyfunction]
fn protocols_json() -> PyResult<String> {
    json(&windward_report::catalogue::protocols())
}

/// Every part of every axis as JSON.
#[pyfunction]
fn parts_json() -> PyResult<String> {
    json(&windward_report::catalogue::parts())
}

/// The page of a protocol, as Markdown; None if there is no such protocol.
#[pyfunction]
fn explain(name: &str) -> PyResult<Option<String>> {
    let Some(protocol) = windward_core::protocols::find(name) else { return Ok(None) };
    let pages = windward_report::protocol_pages::Pages::new().map_err(error::failed)?;
    Ok(Some(pages.page(protocol)))
}

#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
/// The word of `valid` that is similar to `word`; None without one.
#[pyfunction]
fn near(word: &str, valid: Vec<String>) -> Option<String> {
    windward_sim::suggest::near(word, valid.iter().map(String::as_str)).map(str::to_owned)
}

/// Colour, marker and dash of a series: see `windward_report::plot::look`.
#[pyfunction]
fn look(label: &str, number: usize, of: usize) -> (String, &'static str, &'static str) {
    let look = windward_report::plot::look(label, number, of);
    (look.color, look.marker, look.dash)
}

/// The mean of samples and both ends of its interval; None if no sample is a number.
#[expect(clippy::needless_pass_by_value, reason = "PyO3 gives it so")]
#[pyfunction]
fn estimate(samples: Vec<f64>, confidence: f64) -> PyResult<Option<(f64, f64, f64)>> {
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(error::value(format!("confidence = {confidence}: must be between 0 and 1")));
    }
    let estimate = windward_experiments::statistics::estimate_with(&samples, confidence);
    Ok(estimate.map(|e| (e.mean, e.low, e.high)))
}

/// Seconds of a time span: seconds, ``"20ms"`` or a timedelta. `name` is for errors.
#[pyfunction]
fn seconds(span: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    Ok(duration::read(span, name)?.as_secs_f64())
}

/// The number at the beginning of a label and the rest of it; None for a word.
#[pyfunction]
fn quantity(label: String) -> Option<(f64, String)> {
    let point = windward_experiments::experiment::Point { label, set: Vec::new() };
    point.quantity().map(|(number, unit)| (number, unit.to_owned()))
}

fn json(rows: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(rows).map_err(error::failed)
}

#[pymodule(gil_used = false)]
mod _windward {
    use pyo3::prelude::*;

    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::emulate::{child, compare, emulate};
    #[pymodule_export]
    use super::evaluate::{evaluate, junit};
    #[pymodule_export]
    use super::experiment::{Experiment, reproduce};
    #[pymodule_export]
    use super::grid::{Dataset, Grid, read_dataset};
    #[pymodule_export]
    use super::parts::formula::controller;
    #[pymodule_export]
    use super::parts::{
        Ack, Congestion, ControllerSetup, ExpressionController, Instant, Loss, LostPacket, Packet,
        Path, Queue, QueueSetup, RateSample, Reset, Steered,
    };
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::simulation::Simulation;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::worlds::{WorldRuns, worlds};
    #[pymodule_export]
    use super::{
        Bar, Scratch, estimate, explain, look, main, near, parts_json, protocols_json, quantity,
        seconds,
    };

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        windward_experiments::campaign::around_workers(super::work::around_worker);
        Ok(())
    }

    /// Version of the program.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    /// The version with a fingerprint of the build: equal builds can share data and work.
    #[pymodule_export]
    const BUILD: &str = windward_experiments::BUILD;
}
