//! A bar with the time left, on standard error: only on a terminal, only for long work.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::Stopwatch;

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Progress from 0 to a total, drawn when it is worth it.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    since: Stopwatch,
    quiet: bool,
}

impl Progress {
    /// A bar that will count to `total`.
    pub(crate) fn new(total: u64, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(
            "{wide_bar} {percent:>3} %  {elapsed} so far, {eta} left  {msg}",
        ) {
            bar.set_style(style);
        }
        Progress {
            bar,
            since: Stopwatch::start(),
            quiet,
        }
    }

    /// The work has come this far.
    pub(crate) fn set(&self, done: u64) {
        if !self.quiet && self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            // Stays hidden when standard error is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
