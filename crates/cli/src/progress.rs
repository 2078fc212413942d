//! Progress bar with the time left, on standard error: only on a terminal and for long work.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::clock::Stopwatch;
use crate::worker::{self, Word};

/// Time after which a bar appears.
const PATIENCE: Duration = Duration::from_millis(500);

/// Steps of a bar.
const STEPS: f64 = 1000.0;

/// Progress from 0 to 1, drawn if the work takes long.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    since: Stopwatch,
    quiet: bool,
}

impl Progress {
    /// A bar at its beginning.
    pub fn new(quiet: bool) -> Self {
        let hidden = ProgressDrawTarget::hidden();
        let bar = ProgressBar::with_draw_target(Some(STEPS as u64), hidden);
        if let Ok(style) = ProgressStyle::with_template(
            "{wide_bar} {percent:>3} %  {elapsed} so far, {left} left  {msg}",
        ) {
            bar.set_style(style.with_key("left", left));
        }
        Progress { bar, since: Stopwatch::start(), quiet }
    }

    /// Sets the share of the work that is done, and the message at the end of the bar.
    pub fn set(&self, share: f64, message: &str) {
        if worker::say(&Word::Share(share, message.to_owned())) {
            return;
        }
        if !self.quiet && self.bar.is_hidden() && self.since.elapsed() > PATIENCE {
            // Stays hidden when standard error is not a terminal.
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_message(message.to_owned());
        self.bar.set_position((share * STEPS) as u64);
    }
}

/// The time left at the mean speed so far. indicatif's own estimate uses the speed of the last
/// seconds, which varies too much if runs take from a millisecond to minutes.
fn left(state: &ProgressState, out: &mut dyn Write) {
    let share = f64::from(state.fraction());
    if share > 0.0 {
        let left = state.elapsed().mul_f64(1.0 / share - 1.0);
        // A bar cannot report failed writes.
        let _ = write!(out, "{:#}", HumanDuration(left));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
