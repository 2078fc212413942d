//! Programs run on threads of their own, until their end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::{JoinError, spawn_blocking};

use crate::error::{Error, Result};

/// Time in which tasks and threads end after the work.
const SHUTDOWN: Duration = Duration::from_millis(100);

/// Runs work on a few threads until it ends. Whatever still blocks a thread then, such as a disk or
/// the resolution of a name, does not delay the end.
///
/// # Errors
///
/// Those of the work, and if the system gives no threads.
pub(crate) fn to_end<T, E: From<Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.min(4))
        .max_blocking_threads(64)
        .enable_all()
        .build()
        .map_err(|error| Error::Socket { what: "cannot start threads".to_owned(), error })?;
    let result = runtime.block_on(work);
    // Sockets are closed then, so that the next program can have their ports.
    runtime.shutdown_timeout(SHUTDOWN);
    result
}

/// The result of a task. Its panic goes on here; only the end of the program interrupts it.
pub(crate) fn joined<T>(ended: Result<T, JoinError>) -> Result<T> {
    ended.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Error::Interrupted,
    })
}

/// Runs work that blocks, and passes its panics on.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    joined(spawn_blocking(work).await)?
}

/// Waits until a flag is raised.
pub(crate) async fn raised(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
