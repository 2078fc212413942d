//! A run in slices that are short enough to notice Ctrl-C.

use pyo3::prelude::*;
use windward_core::units::{Duration, Time};
use windward_sim::Advance;

use crate::parts::{self, Aside};

/// Packet-hops of a slice, about ten milliseconds.
const SLICE: f64 = 50_000.0;

/// Interval of virtual time between two checks for signals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slices {
    slice: Duration,
    /// True with parts in Python: the interpreter lock is kept, since they are called all the time.
    holds: bool,
}

impl Slices {
    pub(crate) fn new(scenario: &windward_sim::Scenario, holds: bool) -> Self {
        let slices = (scenario.predicted_packet_hops() / SLICE).max(1.0);
        let slice = Duration::from_secs_f64(scenario.duration.as_secs_f64() / slices);
        Slices { slice: slice.max(Duration::from_ps(1)), holds }
    }

    /// Handles every event up to and including `until`, without the interpreter lock. Calls `then`
    /// with the time reached after each slice.
    ///
    /// # Errors
    /// The exception of a signal handler, such as `KeyboardInterrupt`, of a part in Python, or of
    /// `then`.
    pub(crate) fn advance(
        self,
        py: Python<'_>,
        sim: &mut impl Advance,
        until: Time,
        mut then: impl FnMut(Time) -> PyResult<()>,
    ) -> PyResult<()> {
        let _aside = Aside::put();
        // Threads start anew in each slice, with empty caches.
        let slice = self.slice.saturating_mul(if sim.threads() > 1 { 10 } else { 1 });
        loop {
            let next = until.min(sim.now() + slice);
            if self.holds {
                sim.advance(next);
            } else {
                py.detach(|| sim.advance(next));
            }
            parts::raise(py)?;
            py.check_signals()?;
            then(next)?;
            if next >= until {
                return Ok(());
            }
        }
    }
}
