//! Runs of the row over links, on threads.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use windward_core::units::{Duration, Time};
use windward_sim::scenario::file::{ScenarioError, ScenarioFile};
use windward_sim::{Scenario, Simulation};

use crate::link::{Link, Setting};
use crate::profile::{Profile, Residual, Series};

/// The row on any link, and the log that it is compared with.
#[derive(Debug)]
pub(crate) struct Model<'a> {
    pub(crate) setting: Setting,
    pub(crate) log: Profile,
    /// Length of a bin.
    pub(crate) bin_s: f64,
    pub(crate) bins: usize,
    /// The first seed.
    pub(crate) seed: u64,
    /// Runs of a link with random losses.
    pub(crate) seeds: u64,
    pub(crate) threads: usize,
    pub(crate) cancel: &'a AtomicBool,
    /// Runs so far, and their maximum.
    pub(crate) runs: u64,
    pub(crate) most_runs: u64,
    known: HashMap<[u64; 4], Residual>,
}

/// Why there is no residual.
#[derive(Debug)]
pub(crate) enum Stopped {
    Scenario(ScenarioError),
    Cancelled,
}

impl<'a> Model<'a> {
    pub(crate) fn new(
        setting: Setting,
        log: &Series,
        bin_s: f64,
        [seed, seeds]: [u64; 2],
        most_runs: u64,
        threads: usize,
        cancel: &'a AtomicBool,
    ) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        Model {
            setting,
            log: Profile::of(log),
            bin_s,
            bins: log.acked.len(),
            seed,
            seeds: seeds.max(1),
            threads: if threads == 0 { cores() } else { threads },
            cancel,
            runs: 0,
            most_runs,
            known: HashMap::new(),
        }
    }

    /// Seeds of the runs over a link: without random losses, all runs are alike.
    fn seeds_of(&self, link: &Link) -> std::ops::Range<u64> {
        self.seed..self.seed.saturating_add(self.runs_over(link))
    }

    fn runs_over(&self, link: &Link) -> u64 {
        if link.random_loss > 0.0 { self.seeds } else { 1 }
    }

    /// The residual of each link: that of the mean over its runs. Ends before the first link for
    /// which there are no runs left.
    pub(crate) fn residuals(&mut self, links: &[Link]) -> Result<Vec<Residual>, Stopped> {
        let mut new: Vec<Link> = Vec::new();
        let mut left = self.most_runs.saturating_sub(self.runs);
        for link in links {
            if !self.known.contains_key(&key(link)) && !new.contains(link) {
                let Some(rest) = left.checked_sub(self.runs_over(link)) else { break };
                left = rest;
                new.push(*link);
            }
        }
        let tasks: Vec<(Link, u64)> =
            new.iter().flat_map(|link| self.seeds_of(link).map(|seed| (*link, seed))).collect();
        let mut profiles = self.profiles(&tasks)?.into_iter();
        for link in &new {
            let count = self.seeds_of(link).count();
            let runs: Vec<Profile> = profiles.by_ref().take(count).collect();
            self.known.insert(key(link), self.log.residual(&Profile::mean(&runs)));
        }
        Ok(links.iter().map_while(|link| self.known.get(&key(link)).copied()).collect())
    }

    /// How far single runs with other seeds are from the mean of the runs over this link; none
    /// without random losses, when all runs are alike, and none if too few runs are left.
    pub(crate) fn chance(&mut self, link: &Link, runs: u64) -> Result<Vec<Residual>, Stopped> {
        if link.random_loss == 0.0 {
            return Ok(Vec::new());
        }
        let seeds = self.seeds_of(link);
        let others = seeds.end..seeds.end.saturating_add(runs);
        let tasks: Vec<(Link, u64)> = seeds.chain(others).map(|seed| (*link, seed)).collect();
        if self.runs.saturating_add(tasks.len() as u64) > self.most_runs {
            return Ok(Vec::new());
        }
        let profiles = self.profiles(&tasks)?;
        let (own, others) = profiles.split_at(self.seeds as usize);
        let mean = Profile::mean(own);
        Ok(others.iter().map(|profile| profile.residual(&mean)).collect())
    }

    /// Runs these links with these seeds.
    fn profiles(&mut self, tasks: &[(Link, u64)]) -> Result<Vec<Profile>, Stopped> {
        let mut scenarios = Vec::new();
        for (link, seed) in tasks {
            let text = self.setting.scenario(link, *seed);
            let file = ScenarioFile::parse("the fitted scenario", &text);
            scenarios.push(file.and_then(|file| file.build()).map_err(Stopped::Scenario)?);
        }
        self.runs += tasks.len() as u64;
        let next = AtomicUsize::new(0);
        let found = Mutex::new(vec![None; tasks.len()]);
        let work = || {
            while let Some((i, scenario)) = Some(next.fetch_add(1, Ordering::Relaxed))
                .and_then(|i| Some((i, scenarios.get(i)?)))
            {
                let Some(series) = self.run(&tasks[i].0, scenario) else { return };
                let profile = Profile::of(&series);
                found.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(profile);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.threads.min(tasks.len()) {
                scope.spawn(work);
            }
            work();
        });
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.into_iter().collect::<Option<Vec<_>>>().ok_or(Stopped::Cancelled)
    }

    /// One run on the grid of the log; `None` after a cancellation.
    fn run(&self, link: &Link, scenario: &Scenario) -> Option<Series> {
        let packet_ms = f64::from(self.setting.packet_size) * 8.0 / link.rate_bps * 1000.0;
        let mut simulation = Simulation::traced(scenario);
        let mut series = Series::default();
        for bin in 1..=self.bins {
            if self.cancel.load(Ordering::Relaxed) {
                return None;
            }
            simulation.advance(Time::ZERO + Duration::from_secs_f64(bin as f64 * self.bin_s));
            let queue_packets = simulation.link(0).queue_packets as f64;
            let flow = simulation.flow(0)?;
            series.cwnd.push(flow.cwnd);
            series.in_flight.push(flow.in_flight as f64);
            // That of a packet which is sent now.
            series.rtt.push(link.base_rtt_s * 1000.0 + queue_packets * packet_ms);
            if flow.srtt > Duration::ZERO {
                series.srtt.push(flow.srtt.as_secs_f64() * 1000.0);
            }
            series.acked.push(flow.delivered_bytes as f64);
            series.lost.push(flow.retransmissions as f64);
        }
        Some(series)
    }
}

/// The same of equal links.
fn key(link: &Link) -> [u64; 4] {
    crate::link::Parameter::ALL.map(|parameter| parameter.of(link).to_bits())
}
