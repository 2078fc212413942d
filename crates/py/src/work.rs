//! Long work on other threads, while the calling thread handles Ctrl-C and reports progress.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError};
use pyo3::prelude::*;
use windward_experiments::{ExperimentError, FULL_READINGS, QUICK_READINGS, RunOptions};

use crate::error;
use crate::progress::Progress;

/// Interval between two checks for signals.
const PERIOD: Duration = Duration::from_millis(50);

/// Intervals for which a worker may finish its call after the work was cancelled: half a second.
const PATIENCE: u32 = 10;

/// Settings of long work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a, 'py> {
    /// Worker threads; zero means one per core.
    pub(crate) threads: usize,
    /// True for full effort, as `full` in a file.
    pub(crate) full: bool,
    /// Called at intervals with the share done, 0 to 1; `True` draws a bar.
    pub(crate) progress: Option<&'a Bound<'py, PyAny>>,
}

/// Runs work without the interpreter lock.
///
/// # Errors
/// The error of the work, or the exception of a signal handler or `progress`, which stops the work.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    how: How<'_, '_>,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T, ExperimentError> + Send,
) -> PyResult<T> {
    watched_by(py, &AtomicBool::new(false), how, work)
}

/// Runs work without the interpreter lock; others can stop it with a flag.
pub(crate) fn watched_by<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    how: How<'_, '_>,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T, ExperimentError> + Send,
) -> PyResult<T> {
    let progress = Progress::new(py, how.progress, "runs")?;
    progress.close(told(py, cancel, how, &progress, work))
}

fn told<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    how: How<'_, '_>,
    progress: &Progress<'_>,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T, ExperimentError> + Send,
) -> PyResult<T> {
    let How { threads, full, .. } = how;
    on_a_thread(py, cancel, progress, |share| {
        let progress = |progress: windward_experiments::Progress| {
            share.store(progress.work.to_bits(), Ordering::Relaxed);
        };
        let readings_budget = Some(if full { FULL_READINGS } else { QUICK_READINGS });
        work(&RunOptions { threads, cancel, readings_budget, progress: &progress })
    })?
    .map_err(|wrong| experiment_error(py, wrong))
}

/// Runs work on another thread, without the interpreter lock. The work stores the share done as the
/// bits of a number, and ends soon after `cancel` is true.
///
/// # Errors
/// The exception of a signal handler or `progress`; `cancel` is then set. It takes precedence over
/// what the work returns, also if the signal came after the work had ended.
pub(crate) fn on_a_thread<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    progress: &Progress<'_>,
    work: impl FnOnce(&AtomicU64) -> T + Send,
) -> PyResult<T> {
    let share = AtomicU64::new(0);
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let share = &share;
        let worker = scope.spawn(move || {
            let _done = done;
            prepared(|| work(share))
        });
        let (mut raised, mut waits) = (None, 0);
        // A receiver belongs to one thread, and detached code may run on another: it is moved
        // there.
        let ended = Mutex::new(ended);
        let is_over = || match ended.lock() {
            Ok(ended) => ended.recv_timeout(PERIOD) == Err(RecvTimeoutError::Disconnected),
            Err(_) => true,
        };
        while !py.detach(is_over) {
            waits += u32::from(raised.is_some());
            if waits > PATIENCE {
                interrupt(py);
            }
            let tell = || progress.tell(f64::from_bits(share.load(Ordering::Relaxed)));
            let told = py.check_signals().and_then(|()| tell());
            if let Err(error) = told {
                cancel.store(true, Ordering::Relaxed);
                raised.get_or_insert(error);
            }
        }
        let result = py.detach(|| worker.join());
        match raised.or_else(|| py.check_signals().err()) {
            Some(error) => {
                crate::parts::forget();
                Err(error)
            }
            None => result
                .map_err(|_| error::failed("a worker thread ended before its work was complete")),
        }
    })
}

/// Does work on a thread that may call Python. The interpreter keeps its state of the thread until
/// the end, in place of a new one for each call.
fn prepared<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| {
        let ident = py.import("threading").and_then(|module| module.call_method0("get_ident"));
        let ident = ident.and_then(|ident| ident.extract::<u64>()).ok();
        let done = py.detach(|| {
            workers().extend(ident);
            work()
        });
        workers().retain(|worker| Some(*worker) != ident);
        done
    })
}

/// The threads that may be in a call of Python, as its module `threading` numbers them.
static WORKERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn workers() -> MutexGuard<'static, Vec<u64>> {
    WORKERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Raises an exception in every call of Python of the workers: a method may never return.
fn interrupt(py: Python<'_>) {
    let raise = |worker: u64| -> PyResult<()> {
        let ctypes = py.import("ctypes")?;
        let thread = ctypes.getattr("c_ulong")?.call1((worker,))?;
        let exception =
            ctypes.getattr("py_object")?.call1((py.get_type::<PyKeyboardInterrupt>(),))?;
        let api = ctypes.getattr("pythonapi")?;
        api.call_method1("PyThreadState_SetAsyncExc", (thread, exception)).map(drop)
    };
    let all = workers().clone();
    for worker in all {
        // Without ctypes the work ends once the call returns.
        let _ = raise(worker);
    }
}

/// [`prepared`] for the workers of campaigns.
pub(crate) fn around_worker(work: &mut (dyn FnMut() + Send)) {
    prepared(work);
}

/// An error of an experiment as an exception.
pub(crate) fn experiment_error(py: Python<'_>, wrong: ExperimentError) -> PyErr {
    let text = wrong.to_string();
    match wrong {
        ExperimentError::Scenario { error, .. } | ExperimentError::File(error) => {
            error::scenario_as(py, &text, &error)
        }
        ExperimentError::Experiment { file, line, message } => {
            error::experiment(py, &text, &file, (line > 0).then_some(line), &message)
        }
        ExperimentError::Io { error, path, verb } => error::file(py, &error, verb, &path, text),
        ExperimentError::Folder { .. } => PyOSError::new_err(text),
        ExperimentError::Threads(_) => error::failed(text),
        ExperimentError::Part(_) => crate::parts::failed(text),
        ExperimentError::Cancelled => PyKeyboardInterrupt::new_err(()),
    }
}
