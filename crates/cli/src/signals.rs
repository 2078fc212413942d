//! Ctrl-C: long work asks every few milliseconds whether it should go on.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP only raise a flag.
pub(crate) fn install() {
    // Without a handler the default remains: the process ends at once.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

/// The flag itself, for work that runs on other threads.
pub(crate) fn flag() -> &'static AtomicBool {
    &INTERRUPTED
}

/// Stops the caller if Ctrl-C was pressed.
pub(crate) fn check() -> Result<(), Failure> {
    if INTERRUPTED.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
