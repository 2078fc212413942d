//! Advances a simulation in slices of virtual time that are short enough to notice Ctrl-C.

use std::time::Duration as WallTime;

use windward_core::units::{Duration, Time};
use windward_logs::pcap::PcapFile;
use windward_logs::qlog::QlogFiles;
use windward_sim::scenario::Parts;
use windward_sim::{Advance, Scenario};

use crate::clock::Stopwatch;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::signals;

/// Maximum and minimum time of a slice: longer ones are halved, shorter ones doubled. Threads start
/// anew in each slice, with empty caches, so theirs are longer.
const TIMES: [WallTime; 2] = [WallTime::from_millis(20), WallTime::from_millis(5)];
const TIMES_OF_THREADS: [WallTime; 2] = [WallTime::from_millis(200), WallTime::from_millis(50)];

/// Advances one simulation.
#[derive(Debug)]
pub(crate) struct Driver {
    parts: Parts,
    now: Time,
    slice: Duration,
    end: Time,
    progress: Progress,
}

impl Driver {
    /// A driver for a simulation of this scenario at time zero that ends after `duration`.
    pub(crate) fn new(scenario: &Scenario, duration: Duration, quiet: bool) -> Self {
        Driver {
            parts: scenario.parts(),
            now: Time::ZERO,
            slice: Duration::from_micros(1),
            end: Time::ZERO + duration,
            progress: Progress::new(quiet),
        }
    }

    /// Handles every event up to and including `until`. Fails if logs cannot be written, or if a
    /// part fails or gives an invalid answer.
    pub(crate) fn advance(
        &mut self,
        sim: &mut impl Advance,
        until: Time,
        logs: Option<&QlogFiles>,
        pcap: Option<&PcapFile>,
    ) -> Result<(), Failure> {
        let [longest, shortest] = if sim.threads() > 1 { TIMES_OF_THREADS } else { TIMES };
        while self.now < until {
            self.check()?;
            signals::check()?;
            let slice = Stopwatch::start();
            self.now = until.min(self.now + self.slice);
            sim.advance(self.now);
            logs.map_or(Ok(()), QlogFiles::check)?;
            pcap.map_or(Ok(()), PcapFile::check)?;
            let took = slice.elapsed();
            if took > longest {
                self.slice = Duration::from_ps((self.slice.as_ps() / 2).max(1));
            } else if took < shortest {
                self.slice = self.slice.saturating_mul(2);
            }
            let share = self.now.as_secs_f64() / self.end.as_secs_f64();
            self.progress.set(share, "");
        }
        self.check()
    }

    fn check(&self) -> Result<(), Failure> {
        self.parts.failure().map_or(Ok(()), |failure| Err(Failure::Part(failure)))
    }
}
