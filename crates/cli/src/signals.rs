//! Ctrl-C: long work asks every few milliseconds whether it should go on. Where nobody asks yet,
//! as while a file is read that never comes, and at the second time, the process ends at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{self, Failure};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Has any work asked?
static WATCHED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT, SIGTERM and SIGHUP raise a flag, if work asks for it.
pub(crate) fn install() {
    // Without a handler the default remains: the process ends at once.
    let _ = ctrlc::set_handler(|| {
        let again = INTERRUPTED.swap(true, Ordering::Relaxed);
        if again || !WATCHED.load(Ordering::Relaxed) {
            let _ = Failure::Interrupted.report();
            std::process::exit(i32::from(failure::INTERRUPTED));
        }
    });
}

/// The flag itself, for work that runs on other threads.
pub(crate) fn flag() -> &'static AtomicBool {
    WATCHED.store(true, Ordering::Relaxed);
    &INTERRUPTED
}

/// Stops the caller if Ctrl-C was pressed.
pub(crate) fn check() -> Result<(), Failure> {
    if flag().load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}
