//! Ctrl-C: long work asks every few milliseconds whether to go on. The process ends at once where
//! nothing asks yet, as while it reads a pipe without a writer, and at the second signal.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::failure::{self, Failure};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// True until some work asks.
static UNWATCHED: AtomicBool = AtomicBool::new(true);

/// From now on SIGINT, SIGTERM and SIGHUP raise a flag, if work asks for it.
pub(crate) fn install() {
    let status = i32::from(failure::INTERRUPTED);
    for signal in [
        SIGINT,
        SIGTERM,
        #[cfg(unix)]
        SIGHUP,
    ] {
        // Without a handler the default remains: the process ends at once.
        let _ = register_conditional_shutdown(signal, status, &INTERRUPTED);
        let _ = register_conditional_shutdown(signal, status, &UNWATCHED);
        let _ = register(signal, &INTERRUPTED);
    }
}

/// The flag itself, for work on other threads.
pub(crate) fn flag() -> &'static AtomicBool {
    UNWATCHED.store(false, Ordering::Relaxed);
    &INTERRUPTED
}

/// Stops the caller if Ctrl-C was pressed.
pub(crate) fn check() -> Result<(), Failure> {
    if flag().load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
