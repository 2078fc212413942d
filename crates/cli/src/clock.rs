//! The only clock of the command line: for progress bars, `bench` and the date of a report, never
//! for results.

use std::time::{Duration, Instant};

use cpu_time::ProcessTime;

/// The day and time, as `2026-01-31 12:00 UTC`, for reports.
pub(crate) fn today() -> String {
    chrono::Utc::now().format("%Y-%m-%d %H:%M UTC").to_string()
}

/// Seconds since 1970 in UTC, for tickets.
#[cfg(all(target_os = "linux", feature = "deploy"))]
pub(crate) fn seconds() -> u64 {
    u64::try_from(chrono::Utc::now().timestamp()).unwrap_or(0)
}

/// Wall time since a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the cli's one clock")]
    pub(crate) fn start() -> Self {
        Stopwatch(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// CPU time of all threads since a start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuStopwatch(ProcessTime);

impl CpuStopwatch {
    pub(crate) fn start() -> Self {
        CpuStopwatch(ProcessTime::now())
    }

    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
