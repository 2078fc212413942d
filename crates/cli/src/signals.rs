//! Ctrl-C: long work polls a flag every few milliseconds. The process ends at once if nothing polls
//! yet, for instance while it reads a pipe without a writer, and at the second signal.

use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::failure::{self, Failure};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// True until the flag is polled for the first time.
static UNWATCHED: AtomicBool = AtomicBool::new(true);

/// Makes SIGINT, SIGTERM and SIGHUP raise the flag. `within` is the time after which the process
/// ends if its work has not noticed; `None` for work that leaves the machine as it was.
#[cfg(unix)]
pub(crate) fn install(within: Option<std::time::Duration>) {
    use signal_hook::consts::SIGHUP;
    use signal_hook::iterator::Signals;
    let status = i32::from(failure::INTERRUPTED);
    // A limit of the size of files (`ulimit -f`) is an error of the one that is too large.
    let _ = signal_hook::flag::register(
        signal_hook::consts::SIGXFSZ,
        std::sync::Arc::<AtomicBool>::default(),
    );
    // Without a handler the default remains: the process ends at once.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        let mut signals = signals.forever();
        if signals.next().is_none() {
            return;
        }
        INTERRUPTED.store(true, Ordering::Relaxed);
        if !UNWATCHED.load(Ordering::Relaxed) {
            match within {
                Some(time) => std::thread::sleep(time),
                None => {
                    signals.next();
                    signal_hook::low_level::exit(status);
                }
            }
        }
        failure::tell_interruption();
        signal_hook::low_level::exit(status);
    });
}

/// Makes SIGINT and SIGTERM raise the flag.
#[cfg(not(unix))]
pub(crate) fn install(_within: Option<std::time::Duration>) {
    use signal_hook::flag::{register, register_conditional_shutdown};
    let status = i32::from(failure::INTERRUPTED);
    for signal in [SIGINT, SIGTERM] {
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
