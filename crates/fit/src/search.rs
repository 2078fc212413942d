//! The search for the best link, the ranges of its parameters, and the result.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use windward_core::protocols::{self, PROTOCOLS};
use windward_core::units::{Duration, Time};
use windward_logs::qlog::{QlogError, QlogFiles, QlogOptions};
use windward_logs::{CompareError, CompareOptions, Comparison, LogError, compare};
use windward_sim::Simulation;
use windward_sim::scenario::file::{ScenarioError, ScenarioFile};
use windward_sim::scratch::Scratch;
use windward_sim::suggest;

use crate::link::{Link, Parameter, Setting};
use crate::model::{Model, Stopped};
use crate::observed::{LogFacts, Measured, ObserveOptions, Observed, Unusable};
use crate::profile::{Residual, Weights};

/// First and last step of the search, as natural logarithms of factors, by [`Parameter::ALL`].
const FIRST_STEPS: [f64; 4] = [0.1, 0.06, 0.35, 0.7];
const LAST_STEPS: [f64; 4] = [0.003, 0.003, 0.02, 0.05];
/// Searches that begin at different links.
const SEARCHES: usize = 2;
/// Share of the distance, and units of chance, by which a clearly larger one exceeds it.
const CLEARLY: f64 = 0.1;
const CLEARLY_LEAST: f64 = 1.0;
/// Random losses are supposed unless a link without them has a residual so much smaller.
const LIKELIER: f64 = 3.0;
/// Share by which a round must come nearer; else the steps are halved.
const PROGRESS: f64 = 0.01;
/// Factors by which a parameter is changed for its range.
const FINE: [f64; 7] = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0];
const COARSE: [f64; 7] = [1.05, 1.1, 1.25, 1.5, 2.0, 4.0, 16.0];
const LOSSES: [f64; 7] = [1.1, 1.25, 1.5, 2.0, 4.0, 10.0, 30.0];
/// Links with one other parameter: both sides of four parameters, and no loss.
const SCANNED: u64 = 8 * FINE.len() as u64 + 1;
/// Links of a round: both sides of four parameters, and their combination.
const ROUND: u64 = 9;
/// The search is repeated this often from a better link that the ranges find.
const RESTARTS: usize = 3;
/// Runs with other seeds for [`Fit::chance`].
const CHANCE_RUNS: u64 = 8;
/// Packets of a run. A log may have any rate and any length.
const MOST_PACKETS: f64 = 50e6;
/// Bytes of the log of the best run.
const LIMIT_BYTES: u64 = 16_000_000_000;

/// Options of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// How the log is read.
    pub log: ObserveOptions,
    /// The first seed of the runs.
    pub seed: u64,
    /// Number of runs over a link with random losses, of which the mean is compared; at least one.
    pub seeds: u64,
    /// Maximum number of runs, at least [`FitOptions::LEAST_RUNS`]. A search that has not converged
    /// with half of them, or with all but those for the ranges, ends where it is.
    pub most_runs: u64,
    /// Threads; zero for one per core. The result does not depend on it.
    pub threads: usize,
}

impl FitOptions {
    /// The smallest maximum of runs: those over the links with which a search begins.
    pub const LEAST_RUNS: u64 = 64;
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions {
            log: ObserveOptions::default(),
            seed: 1,
            seeds: 6,
            most_runs: 2000,
            threads: 0,
        }
    }
}

/// The link under which a row explains a log best.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fit {
    /// The row.
    pub protocol: &'static str,
    /// Properties of the log and its sender.
    pub log: LogFacts,
    /// The link.
    pub link: Link,
    /// Distance of the row on this link from the log.
    pub residual: Residual,
    /// Mean distance of runs over this link with other seeds from the model, as the total of
    /// [`Fit::residual`]: a log of the row itself would have it. `None` without random losses, when
    /// all runs are alike, or if no runs were left for it.
    pub chance: Option<f64>,
    /// How well the log determines each parameter while the others stay.
    pub ranges: [Range; 4],
    /// Number of runs.
    pub runs: u64,
    /// True if the search ended because of [`FitOptions::most_runs`].
    pub is_cut: bool,
    /// Remarks on the log.
    pub notes: Vec<String>,
    /// The scenario of the best run, as TOML.
    pub scenario: String,
}

/// Range of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Range {
    /// The parameter.
    pub parameter: Parameter,
    /// The nearest smaller value that was tried with a clearly larger residual; `None` if there is
    /// none, so that the log does not determine the parameter downwards.
    pub above: Option<f64>,
    /// The same of larger values.
    pub below: Option<f64>,
}

/// Reason why a fit is not possible.
#[derive(Debug)]
pub enum FitError {
    /// There is no such row.
    Protocol(String),
    /// The log cannot be read, or lacks something.
    Log(LogError),
    /// The row cannot run alone on a link.
    Scenario(ScenarioError),
    /// The best run cannot be logged for the comparison.
    Qlog(QlogError),
    /// There is no folder for the log of the best run.
    Folder(std::io::Error),
    /// The fit was cancelled.
    Cancelled,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FitError::Protocol(message) => f.write_str(message),
            FitError::Log(error) => error.fmt(f),
            FitError::Scenario(error) => error.fmt(f),
            FitError::Qlog(error) => error.fmt(f),
            FitError::Folder(error) => write!(f, "cannot create a temporary folder: {error}"),
            FitError::Cancelled => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for FitError {}

impl From<Unusable> for FitError {
    fn from(why: Unusable) -> Self {
        match why {
            Unusable::Log(error) => FitError::Log(error),
            Unusable::Cancelled => FitError::Cancelled,
        }
    }
}

impl From<Stopped> for FitError {
    fn from(why: Stopped) -> Self {
        match why {
            Stopped::Scenario(error) => FitError::Scenario(error),
            Stopped::Cancelled => FitError::Cancelled,
        }
    }
}

/// Finds the link under which a row explains the log of a sender best. `progress` hears the share
/// of the work that is done and the least residual so far.
///
/// # Errors
/// If there is no such row, if the log cannot be read or lacks what a fit needs, if the row cannot
/// run on such a link, or if `cancel` becomes true.
pub fn fit(
    path: &Path,
    protocol: &str,
    options: &FitOptions,
    cancel: &AtomicBool,
    progress: &dyn Fn(f64, f64),
) -> Result<Fit, FitError> {
    let row = protocols::find(protocol).ok_or_else(|| FitError::Protocol(unknown(protocol)))?;
    let observed = Observed::read(path, &options.log, cancel)?;
    let Observed { facts, series, starts, measured, mut notes } = observed;
    check_length(path, &facts, &starts)?;
    let setting = Setting {
        protocol: row.name,
        packet_size: facts.packet_bytes as u32,
        initial_window: facts.initial_window_packets,
        // Between one packet for each acknowledgment and two.
        has_delayed_acks: facts.packets_per_ack > 1.5,
        duration_s: facts.length_s,
    };
    let seeds = [options.seed, options.seeds];
    let most_runs = options.most_runs.max(FitOptions::LEAST_RUNS);
    // For the last round of a search, the ranges and the chance.
    let kept = (ROUND + SCANNED + 1) * options.seeds.max(1) + CHANCE_RUNS;
    let mut model =
        Model::new(setting, &series, facts.bin_s, seeds, most_runs, options.threads, cancel);
    let mut search = Search {
        // Less than one packet in three logs.
        least_loss: 0.3 / facts.packets_sent.max(1) as f64,
        search_runs: most_runs.saturating_sub(kept).max(most_runs / 2),
        is_cut: false,
        weights: Weights::EQUAL,
        measured,
        model: &mut model,
        progress,
        best: f64::INFINITY,
    };
    let (best, scans) = search.conduct(&starts)?;
    let ranges = scans.each_ref().map(|scan| search.range(scan, &best));
    let is_cut = search.is_cut;
    let (link, residual) = best;
    let chance = model.chance(&link, CHANCE_RUNS)?;
    let totals = chance.iter().map(|residual| residual.total);
    let chance = (!chance.is_empty()).then(|| totals.sum::<f64>() / chance.len() as f64);
    if is_cut {
        notes.push(format!(
            "the search ended after {} runs, before it had converged: values and ranges are rough",
            model.runs
        ));
    }
    let scenario = model.setting.scenario(&link, options.seed);
    let (protocol, runs) = (row.name, model.runs);
    Ok(Fit { protocol, log: facts, link, residual, chance, ranges, runs, is_cut, notes, scenario })
}

/// Verifies that a run over each of these links has a number of packets that can be simulated.
fn check_length(path: &Path, facts: &LogFacts, starts: &[Link]) -> Result<(), FitError> {
    let fastest = starts.iter().map(|link| link.rate_bps).fold(0.0, f64::max);
    let packets = fastest * facts.length_s / 8.0 / facts.packet_bytes;
    if packets <= MOST_PACKETS {
        return Ok(());
    }
    Err(FitError::Log(LogError {
        path: path.to_owned(),
        message: format!(
            "is too long for a fit: a run of {:.0} s at {fastest:.0} bit/s has {packets:.0} \
             packets, more than {MOST_PACKETS:.0}",
            facts.length_s
        ),
    }))
}

fn unknown(protocol: &str) -> String {
    if protocol.contains(':') {
        return format!(
            "`{protocol}` is a QUIC stack; a log is fitted by a row of the protocol table, such as \
             `cubic` (`windward list` shows all)"
        );
    }
    let meant = suggest::near(protocol, PROTOCOLS.iter().map(|row| row.name));
    let meant = meant.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
    format!("there is no protocol `{protocol}`{meant}; `windward list` shows all")
}

type Scored = (Link, Residual);

struct Search<'m, 'a> {
    model: &'m mut Model<'a>,
    least_loss: f64,
    /// Runs after which no search goes on.
    search_runs: u64,
    is_cut: bool,
    progress: &'m dyn Fn(f64, f64),
    weights: Weights,
    /// The least rate and the largest base RTT that the log allows.
    measured: Measured,
    best: f64,
}

impl Search<'_, '_> {
    /// The nearest link, with those that have one other parameter. Begins at the best of `starts`,
    /// and again wherever one of the others is nearer.
    fn conduct(&mut self, starts: &[Link]) -> Result<(Scored, [Scan; 4]), FitError> {
        self.weigh(starts)?;
        let mut begins = self.ranked(starts)?;
        begins.truncate(SEARCHES);
        let mut found = Vec::new();
        for begin in begins {
            found.push(self.descend(begin)?);
        }
        let mut best = self.least(found).ok_or(FitError::Cancelled)?;
        let mut scans = self.scans(&best)?;
        for _ in 0..RESTARTS {
            let points = scans.iter().flat_map(Scan::points);
            let points = points.filter(|(link, _)| self.possible(*link) == *link).collect();
            let Some(better) = self.least(points) else { break };
            if self.distance(&better) >= self.distance(&best)
                || self.is_cut
                || self.model.runs >= self.search_runs
            {
                break;
            }
            best = self.descend(better)?;
            scans = self.scans(&best)?;
        }
        Ok((best, scans))
    }

    /// Distance of a link from the log, as the search counts it.
    fn distance(&self, scored: &Scored) -> f64 {
        self.weights.of(&scored.1)
    }

    /// The nearest link, the first of equals.
    fn least(&self, scored: Vec<Scored>) -> Option<Scored> {
        scored.into_iter().min_by(|a, b| self.distance(a).total_cmp(&self.distance(b)))
    }

    /// Weighs by what random losses make vary, unless a link without them is much nearer.
    fn weigh(&mut self, starts: &[Link]) -> Result<(), FitError> {
        let ranked = self.ranked(starts)?;
        let lossy = ranked.iter().find(|(link, _)| link.random_loss > 0.0);
        let clean = ranked.iter().find(|(link, _)| link.random_loss == 0.0);
        let (Some(lossy), Some(clean)) = (lossy, clean) else { return Ok(()) };
        if lossy.1.total < LIKELIER * clean.1.total {
            let chance = self.model.chance(&lossy.0, CHANCE_RUNS)?;
            self.weights = Weights::by_chance(&chance);
        }
        Ok(())
    }

    /// The links with their residuals, the best first.
    fn ranked(&mut self, links: &[Link]) -> Result<Vec<Scored>, FitError> {
        let mut scored = self.scored(links)?;
        scored.sort_by(|a, b| self.distance(a).total_cmp(&self.distance(b)));
        scored.dedup_by(|(a, _), (b, _)| a == b);
        Ok(scored)
    }

    /// The links with their residuals, in the same order. Ends early if no runs are left.
    fn scored(&mut self, links: &[Link]) -> Result<Vec<Scored>, FitError> {
        let links: Vec<Link> = links.iter().map(|link| link.rounded(self.least_loss)).collect();
        let residuals = self.model.residuals(&links)?;
        self.is_cut |= residuals.len() < links.len();
        self.best = residuals.iter().map(|residual| residual.total).fold(self.best, f64::min);
        (self.progress)(self.model.runs as f64 / self.model.most_runs as f64, self.best);
        Ok(links.into_iter().zip(residuals).collect())
    }

    /// A coordinate search: the eight neighbours of the best link so far, and the link that
    /// combines all of them that are better. Steps are halved when a round comes hardly nearer.
    /// Each round is run as a whole, so that threads do not show.
    fn descend(&mut self, from: Scored) -> Result<Scored, FitError> {
        let mut steps = FIRST_STEPS;
        let mut best = self.scored(&[self.possible(from.0)])?.first().copied().unwrap_or(from);
        while steps.iter().zip(LAST_STEPS).any(|(step, last)| *step >= last) {
            if self.model.runs >= self.search_runs {
                self.is_cut = true;
                break;
            }
            let neighbours: Vec<(Parameter, Link)> = Parameter::ALL
                .into_iter()
                .zip(steps)
                .flat_map(|(parameter, step)| {
                    [step, -step].map(|step| (parameter, self.moved(&best.0, parameter, step)))
                })
                .collect();
            let links: Vec<Link> = neighbours.iter().map(|(_, link)| *link).collect();
            let scored = self.scored(&links)?;
            let mut combined = best.0;
            for (pair, parameter) in scored.chunks_exact(2).zip(Parameter::ALL) {
                let better = self.least(pair.to_vec());
                if let Some(better) = better.filter(|one| self.distance(one) < self.distance(&best))
                {
                    combined = parameter.with(&combined, parameter.of(&better.0));
                }
            }
            let mut candidates = scored;
            candidates.extend(self.scored(&[self.possible(combined)])?);
            let before = self.distance(&best);
            best = self.least([vec![best], candidates].concat()).unwrap_or(best);
            if self.distance(&best) > before * (1.0 - PROGRESS) {
                steps.iter_mut().for_each(|step| *step /= 2.0);
            }
        }
        Ok(best)
    }

    /// The link with a parameter that is larger by a factor, given as its logarithm.
    fn moved(&self, link: &Link, parameter: Parameter, step: f64) -> Link {
        let value = parameter.of(link);
        let factor = libm::exp(step);
        let moved = match parameter {
            Parameter::Rate | Parameter::BaseRtt => value * factor,
            Parameter::Queue if step > 0.0 => (value * factor).max(value + 1.0),
            Parameter::Queue => (value * factor).min(value - 1.0),
            // From no loss to the least.
            Parameter::RandomLoss if value == 0.0 && step > 0.0 => 2.0 * self.least_loss,
            Parameter::RandomLoss => value * factor,
        };
        self.possible(parameter.with(link, moved))
    }

    /// The nearest link over which what the log measured can be.
    fn possible(&self, link: Link) -> Link {
        Link {
            rate_bps: link.rate_bps.max(self.measured.rate_bps),
            base_rtt_s: link.base_rtt_s.min(self.measured.base_rtt_s),
            ..link
        }
    }

    /// The range of a parameter: the values that the search excludes, or the log itself.
    fn range(&self, scan: &Scan, best: &Scored) -> Range {
        let limit = self.distance(best) * (1.0 + CLEARLY) + CLEARLY_LEAST;
        let parameter = scan.parameter;
        let [above, below] = scan.sides.each_ref().map(|side| {
            let beyond = side.iter().find(|scored| self.distance(scored) > limit);
            beyond.map(|(link, _)| parameter.of(link))
        });
        match parameter {
            Parameter::Rate => {
                let least = self.measured.rate_bps;
                Range { parameter, above: Some(above.map_or(least, |rate| rate.max(least))), below }
            }
            Parameter::BaseRtt => {
                let most = self.measured.base_rtt_s;
                Range { parameter, above, below: Some(below.map_or(most, |rtt| rtt.min(most))) }
            }
            Parameter::Queue | Parameter::RandomLoss => Range { parameter, above, below },
        }
    }

    /// Links with one other parameter each.
    fn scans(&mut self, best: &Scored) -> Result<[Scan; 4], FitError> {
        let mut scans = Vec::new();
        for parameter in Parameter::ALL {
            let value = parameter.of(&best.0);
            let factors = match parameter {
                Parameter::Rate | Parameter::BaseRtt => FINE,
                Parameter::Queue => COARSE,
                Parameter::RandomLoss => LOSSES,
            };
            let mut smaller: Vec<f64> = factors.iter().map(|factor| value / factor).collect();
            let mut larger: Vec<f64> = factors.iter().map(|factor| value * factor).collect();
            match parameter {
                Parameter::RandomLoss if value == 0.0 => {
                    smaller.clear();
                    let rising = std::iter::successors(Some(2.0 * self.least_loss), |loss| {
                        Some(3.0 * loss).filter(|loss| *loss < 0.5)
                    });
                    larger = rising.collect();
                }
                Parameter::RandomLoss => smaller.push(0.0),
                Parameter::Rate | Parameter::BaseRtt | Parameter::Queue => {}
            }
            let mut sides = [Vec::new(), Vec::new()];
            for (side, values) in sides.iter_mut().zip([smaller, larger]) {
                let links: Vec<Link> =
                    values.iter().map(|value| parameter.with(&best.0, *value)).collect();
                *side = self.scored(&links)?;
                side.retain(|(link, _)| link != &best.0);
            }
            scans.push(Scan { parameter, sides });
        }
        Ok(scans.try_into().unwrap_or_else(|_| unreachable!("a scan for each parameter")))
    }
}

/// Links on both sides of the best one, from it outwards: smaller values, larger values.
#[derive(Debug)]
struct Scan {
    parameter: Parameter,
    sides: [Vec<Scored>; 2],
}

impl Scan {
    fn points(&self) -> impl Iterator<Item = Scored> {
        self.sides.iter().flatten().copied()
    }
}

impl Fit {
    /// The log and the best run side by side: A is the log, B the run.
    ///
    /// # Errors
    /// If the run cannot be logged, or `cancel` becomes true.
    pub fn compare(
        &self,
        path: &Path,
        options: &CompareOptions,
        cancel: &AtomicBool,
    ) -> Result<Comparison, FitError> {
        let file = ScenarioFile::parse("the fitted scenario", &self.scenario);
        let scenario = file.and_then(|file| file.build()).map_err(FitError::Scenario)?;
        let folder = Scratch::new().map_err(FitError::Folder)?;
        let logged = QlogOptions { limit_bytes: LIMIT_BYTES, ..QlogOptions::default() };
        let dir = folder.path().join("fit");
        let logs = QlogFiles::create(&dir, &logged, &scenario).map_err(FitError::Qlog)?;
        let mut run = Simulation::observed(&scenario, logs.observer());
        let bins = (self.log.length_s / self.log.bin_s).round() as u64;
        for bin in 1..=bins {
            if cancel.load(Ordering::Relaxed) {
                return Err(FitError::Cancelled);
            }
            let until = Duration::from_secs_f64(bin as f64 * self.log.bin_s);
            run.advance(Time::ZERO + until);
            logs.check().map_err(FitError::Qlog)?;
        }
        run.finish();
        let files = logs.commit().map_err(FitError::Qlog)?;
        let sender = files.iter().find(|file| file.to_string_lossy().ends_with(".sender.sqlog"));
        let sender = sender.unwrap_or_else(|| unreachable!("the flow has a sender"));
        let mut options = *options;
        options.rtt_unit_ms = [self.log.rtt_unit_ms, 1.0];
        let compared = compare([path, sender], &options, cancel);
        let mut comparison = compared.map_err(|error| match error {
            CompareError::Log(error) => FitError::Log(error),
            CompareError::Cancelled => FitError::Cancelled,
        })?;
        // The file is gone when the caller reads its name.
        comparison.logs[1].path = format!("{} on the fitted link", self.protocol).into();
        Ok(comparison)
    }
}
