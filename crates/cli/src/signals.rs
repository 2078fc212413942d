//! Ctrl-C: long work polls a flag every few milliseconds. The process ends at once if nothing polls
//! yet, for instance while it reads a pipe without a writer, and at the second signal.

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use signal_hook::consts::SIGHUP;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::failure::{self, Failure};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// True until the flag is polled for the first time.
static UNWATCHED: AtomicBool = AtomicBool::new(true);

/// Makes SIGINT, SIGTERM and SIGHUP raise the flag.
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
