//! Runs a list of experiments and writes their report, which grows during the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use windward_experiments::ExperimentError;
use windward_experiments::campaign::{self, Event, Observer, RunRecord};
use windward_experiments::claims::{self, ClaimResult, Verdict};
use windward_experiments::experiment::ns2::Ns2;
use windward_experiments::experiment::{Deviation, Effort, Experiment};
use windward_experiments::folder::Folder;
use windward_experiments::statistics::{Estimate, estimate};
use windward_experiments::sweep::{self, Plan, Progress, Results, RunOptions};
use windward_experiments::table::{manifest_entry, readings_table, tables_of, write_json};
use windward_sim::{Outcome, Scenario};

use crate::front::Reproduction;
use crate::group::{pages_of, tallies};
use crate::lead::{self, GaveUp, Lead};
use crate::matrix;
use crate::page::{Provenance, Standing};
use crate::playground;
use crate::plot::{self, Chart, Drawing};
use crate::section::{self, ExperimentSection, InWorlds, manifest, reported};
use crate::words::Tally;

/// Result of a reproduction.
#[derive(Debug, Clone)]
pub struct ReproductionSummary {
    /// Every claim with its verdict, in the order of the experiments.
    pub claims: Vec<ClaimResult>,
    /// Counts of the claims of each collection with claims.
    pub tallies: Vec<Tally>,
    /// The mean of each metric in each cell, experiment by experiment.
    pub means: Vec<Means>,
    /// Number of runs, those of an interrupted attempt included.
    pub runs: usize,
    /// Number of them that an interrupted attempt had finished.
    pub resumed: usize,
    /// Path of the first page.
    pub index: PathBuf,
    /// Runs in which connections gave up, experiment by experiment.
    pub gave_up: Vec<GaveUp>,
}

/// Means of an experiment.
#[derive(Debug, Clone)]
pub struct Means {
    /// The experiment.
    pub experiment: Experiment,
    /// Means by cell, then by metric, over the runs that charts show, with 95 % intervals. `None`
    /// if some run has no number.
    pub cells: Vec<Vec<Option<Estimate>>>,
}

impl ReproductionSummary {
    /// Number of claims with that verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|c| c.verdict == verdict).count()
    }
}

/// Options: the first page, further tables, provenance, whether to resume.
#[derive(Debug, Clone)]
pub struct ReportOptions<'a> {
    /// The first page and its consequences; the default is that of a reproduction.
    pub lead: &'a dyn Lead,
    /// Date, machine, revision and command.
    pub about: Provenance,
    /// True to continue an interrupted attempt in the same folder.
    pub resume: bool,
    /// The time left, in words, once this share of the work is done; this crate has no clock.
    pub left: fn(f64) -> Option<String>,
    /// True for additional tables as Parquet, and tables with a row per flow.
    pub every_table: bool,
}

impl Default for ReportOptions<'_> {
    fn default() -> Self {
        let about = Provenance::default();
        ReportOptions {
            lead: &Reproduction,
            about,
            resume: false,
            left: |_| None,
            every_table: false,
        }
    }
}

/// Predicted work of a reproduction.
#[derive(Debug, Clone, PartialEq)]
pub struct Forecast {
    /// Each experiment with its runs and their approximate packet-hops.
    pub experiments: Vec<(String, usize, f64)>,
}

/// Runs the experiments and writes into `out_dir`: `index.html` with a page per paper beside it,
/// `claims.json`, `manifest.json`, `<id>.csv` and `<id>.svg` for each of them, and `matrix.csv` if
/// some of them belong to the matrix of all protocols. Experiments of earlier runs that this one
/// does not repeat stay on the pages. Pages appear as soon as the first experiment is measured.
///
/// # Errors
/// If an experiment is impossible, the files cannot be written, or it is cancelled. After
/// cancellation, completed runs are stored and can be resumed.
pub fn reproduce(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    report: &ReportOptions<'_>,
    out_dir: &Path,
) -> Result<ReproductionSummary, ExperimentError> {
    reproduce_with(experiments, effort, options, report, out_dir, &sweep::simulate)
}

/// Runs and work that [`reproduce`] needs to draw the figures; verdicts may take more runs.
///
/// # Errors
/// If an experiment is impossible.
pub fn forecast(experiments: &[Experiment], effort: &Effort) -> Result<Forecast, ExperimentError> {
    let of = |e: &Experiment| {
        let plan = e.plan(effort)?;
        let hops = plan.scenarios.iter().map(Scenario::predicted_packet_hops).sum::<f64>();
        Ok((e.id.clone(), plan.runs(), hops * f64::from(plan.length.repetitions)))
    };
    let experiments = experiments.iter().map(of).collect::<Result<_, ExperimentError>>()?;
    Ok(Forecast { experiments })
}

/// As [`reproduce`], with another simulator, which runs a scenario or stops when the flag is set.
///
/// # Errors
/// As [`reproduce`].
pub fn reproduce_with(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    report: &ReportOptions<'_>,
    out_dir: &Path,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
) -> Result<ReproductionSummary, ExperimentError> {
    claims::check_references(experiments)?;
    // Building thousands of scenarios takes time.
    let plan = |e: &Experiment| match options.cancel.load(Ordering::Relaxed) {
        true => Err(ExperimentError::Cancelled),
        false => e.plan(effort),
    };
    let plans = experiments.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
    // Fail before minutes of runs if the folder cannot be written.
    let mut folder = Folder::open(out_dir)?;
    let earlier = folder.sections()?;
    let pages = plans.iter().flat_map(|plan| pages_of(&plan.experiment));
    folder.check_pages(&pages.collect::<Vec<String>>())?;
    let known: Vec<RunRecord> =
        folder.journal(key(&plans, options, &report.about), report.resume)?;
    let mut writer = Writer {
        plans: &plans,
        report,
        folder,
        sections: earlier,
        results: plans.iter().map(|_| None).collect(),
        plainly: plans.iter().map(|_| Vec::new()).collect(),
        nearest: plans.iter().map(|_| Vec::new()).collect(),
        judged: plans.iter().map(|p| vec![None; p.experiment.claims.len()]).collect(),
        beyond: Vec::new(),
        gave_up: BTreeMap::new(),
        resumed: 0,
        stale: BTreeSet::new(),
        news: 0,
        work: 0.0,
    };
    match campaign::run(&plans, options, known, &mut writer, simulate) {
        Ok(runs) => writer.finish(runs),
        Err(error) => {
            // The pages must not announce further results forever.
            if writer.results.iter().any(Option::is_some) {
                writer.write(false)?;
            }
            Err(error)
        }
    }
}

/// Key of a campaign, which depends on experiments, lengths and options.
fn key(plans: &[Plan], options: &RunOptions<'_>, about: &Provenance) -> u64 {
    let mut key = DefaultHasher::new();
    about.commit.hash(&mut key);
    options.readings_budget.map(f64::to_bits).hash(&mut key);
    for Plan { experiment, length, effort, scenarios } in plans {
        (&experiment.id, &experiment.file, experiment.revision.configuration_hash).hash(&mut key);
        format!("{length:?} {effort:?}").hash(&mut key);
        experiment.all_readings.hash(&mut key);
        format!("{:?}", experiment.worlds).hash(&mut key);
        scenarios.first().map(|s| s.seed).hash(&mut key);
        experiment.scenario.hash_traces(&mut key);
    }
    key.finish()
}

impl Means {
    fn of(results: Results) -> Self {
        let Results { plan, .. } = &results;
        let metrics = 0..plan.experiment.metrics.len();
        let cell =
            |cell| metrics.clone().map(|metric| estimate(&results.samples(metric, cell))).collect();
        let cells = (0..plan.experiment.cells()).map(cell).collect();
        Means { cells, experiment: results.plan.experiment }
    }
}

/// Experiment, protocol, reason, cell, reading.
type GaveUpKey = (usize, String, String, usize, Deviation);

/// Writes tables, sections and pages during the runs.
struct Writer<'a> {
    plans: &'a [Plan],
    report: &'a ReportOptions<'a>,
    folder: Folder,
    /// Sections of earlier runs, and those of this run so far.
    sections: Vec<ExperimentSection>,
    /// Results, without the series for tables and charts.
    results: Vec<Option<Results>>,
    /// The charts of each measured experiment under the plain reading.
    plainly: Vec<Vec<Drawing>>,
    /// Its charts in the nearest worlds of its claims, by the claim.
    nearest: Vec<Vec<(String, Vec<Drawing>)>>,
    /// The verdicts so far, by experiment and claim.
    judged: Vec<Vec<Option<ClaimResult>>>,
    /// Runs that no chart shows: more repetitions, other readings.
    beyond: Vec<RunRecord>,
    /// Runs in which connections gave up, by protocol, reason and cell.
    gave_up: BTreeMap<GaveUpKey, usize>,
    /// Runs that an interrupted attempt had completed.
    resumed: usize,
    /// Experiments whose sections are not up to date on the pages.
    stale: BTreeSet<usize>,
    /// Verdicts since the pages were written.
    news: usize,
    /// Share of the predicted work that is done.
    work: f64,
}

/// The charts of an experiment under the plain reading and in the nearest worlds of its claims, on
/// the same axes. Claims with the same charts share them.
fn charts(plainly: &[Drawing], nearest: &[(String, Vec<Drawing>)]) -> (Vec<Chart>, Vec<InWorlds>) {
    let mut worlds = vec![plainly.to_vec()];
    worlds.extend(nearest.iter().map(|(_, drawings)| drawings.clone()));
    plot::align(&mut worlds);
    let mut charts = worlds.iter().map(|world| world.iter().map(Drawing::chart).collect());
    let plain = charts.next().unwrap_or_default();
    let mut found: Vec<InWorlds> = Vec::new();
    for ((claim, _), charts) in nearest.iter().zip(charts) {
        match found.iter_mut().find(|other| other.charts == charts) {
            Some(same) => same.claims.push(claim.clone()),
            None => found.push(InWorlds { claims: vec![claim.clone()], charts }),
        }
    }
    (plain, found)
}

/// Number of verdicts after which pages are written again.
const NEWS: usize = 40;

impl Observer for Writer<'_> {
    fn event(&mut self, event: Event) -> Result<(), ExperimentError> {
        match event {
            Event::Measured(index, results) => self.measured(index, *results),
            Event::Nearest(id, mut measured) => {
                // ns-2 ran the plain reading.
                measured.plan.experiment.ns2 = Ns2::default();
                let claim = self.plans[id.experiment].experiment.claims[id.claim].id.clone();
                self.nearest[id.experiment].push((claim, plot::drawings(&*measured)));
                Ok(())
            }
            Event::Judged(id, result) => {
                self.judged[id.experiment][id.claim] = Some(*result);
                self.stale.insert(id.experiment);
                self.news += 1;
                Ok(())
            }
        }
    }

    fn progress(&mut self, progress: Progress) {
        self.work = progress.work;
    }

    fn idle(&mut self) -> Result<(), ExperimentError> {
        if self.news >= NEWS { self.write(true) } else { Ok(()) }
    }

    fn record(&mut self, run: &RunRecord, known: bool) -> Result<(), ExperimentError> {
        if !self.plans[run.experiment].shows(&run.reading, run.repetition) {
            self.beyond.push(RunRecord { outcome: None, ..run.clone() });
        }
        let flows = run.outcome.iter().flat_map(|outcome| &outcome.flows);
        let reasons = flows.filter_map(|f| Some((f.protocol.to_string(), f.failure.clone()?)));
        for (protocol, reason) in reasons.collect::<BTreeSet<_>>() {
            let key = (run.experiment, protocol, reason, run.cell, run.reading.clone());
            *self.gave_up.entry(key).or_default() += 1;
        }
        if known {
            self.resumed += 1;
            return Ok(());
        }
        self.folder.record(run)
    }
}

impl Writer<'_> {
    /// The tables and charts of an experiment, and its place on the pages.
    fn measured(&mut self, index: usize, mut results: Results) -> Result<(), ExperimentError> {
        let id = results.plan.experiment.id.clone();
        let drawings = plot::drawings(&results);
        let charts: Vec<Chart> = drawings.iter().map(Drawing::chart).collect();
        self.plainly[index] = drawings;
        let mut dir = self.folder.output()?;
        let mut written = results.stage_tables(&mut dir, self.report.every_table)?;
        if let Some(svg) = plot::stacked(&charts) {
            let name = format!("{id}.svg");
            dir.write(&name, |out| out.write_all(svg.as_bytes()))?;
            written.push(name);
        }
        dir.commit()?;
        let others = tables_of(&id).into_iter().filter(|name| !written.contains(name));
        self.folder.remove_stale(&others.collect::<Vec<String>>())?;
        let mut section = ExperimentSection::new(&results, charts);
        section.origin.manifest = manifest_entry(&results).to_string();
        let experiment = &results.plan.experiment;
        section.method.warnings.retain(|warning| self.report.lead.warns(experiment, warning));
        section.origin.command =
            self.report.lead.command(&results.plan.experiment, &results.plan.effort);
        if let Some(text) = self.report.lead.scenario_text(&results.plan.experiment) {
            let mut dir = self.folder.output()?;
            let name = format!("{id}.toml");
            dir.write(&name, |out| out.write_all(text.as_bytes()))?;
            dir.commit()?;
            section.origin.scenario = Some(name);
        }
        match self.sections.iter_mut().find(|s| s.id == id) {
            Some(earlier) => *earlier = section,
            None => self.sections.push(section),
        }
        // Sections complete in any order; those of earlier runs are in the order of their names.
        self.sections.sort_by(|a, b| (a.place.number, &a.id).cmp(&(b.place.number, &b.id)));
        // Keep the metrics of every run, but not the series, which would fill the memory.
        for run in &mut results.runs {
            run.outcome.samples = None;
            run.outcome.flows = Vec::new();
            run.outcome.transfers = Vec::new();
            run.outcome.groups = Vec::new();
            run.outcome.links = Vec::new();
        }
        self.results[index] = Some(results);
        self.stale.insert(index);
        self.news += NEWS;
        Ok(())
    }

    /// Updates the sections, stores them, and writes the pages.
    fn write(&mut self, running: bool) -> Result<(), ExperimentError> {
        self.news = 0;
        let measured: Vec<&Results> = self.results.iter().flatten().collect();
        for &index in &self.stale {
            let Some(results) = &self.results[index] else { continue };
            let experiment = &results.plan.experiment;
            let section = self.sections.iter_mut().find(|s| s.id == experiment.id);
            let section = section.expect("a measured experiment has a section");
            for (shown, judged) in section.found.claims.iter_mut().zip(&self.judged[index]) {
                if let Some(judged) = judged {
                    shown.clone_from(judged);
                }
            }
            (section.found.charts, section.found.nearest) =
                charts(&self.plainly[index], &self.nearest[index]);
            section.found.reported = reported(experiment, &measured, &section.found.claims);
            section.found.ns2 = section::ns2(experiment, &measured);
            self.folder.keep(&section.id, section)?;
        }
        self.stale.retain(|index| self.results[*index].is_none());
        let to_come = self.results.iter().filter(|r| r.is_none()).count();
        let left = (self.report.left)(self.work).filter(|_| running);
        let standing = Standing { to_come, running, left };
        let own: Vec<ExperimentSection>;
        let sections = match self.report.lead.keeps_earlier() {
            true => &self.sections[..],
            false => {
                own = self.own_sections();
                &own
            }
        };
        let gave_up = self.gave_up();
        let written =
            lead::write(self.report.lead, sections, &gave_up, &self.report.about, &standing);
        let claims = sections.iter().flat_map(|s| &s.found.claims).map(ClaimResult::to_json);
        let claims = claims.collect();
        let manifest = manifest(sections);
        let mut dir = self.folder.output()?;
        for (name, text) in &written.files {
            dir.write(name, |out| out.write_all(text.as_bytes()))?;
        }
        if sections.iter().any(|section| !section.origin.playground.is_empty())
            && let Ok(page) = playground::html()
        {
            dir.write(playground::FILE, |out| out.write_all(&page))?;
        }
        dir.write("claims.json", |out| write_json(out, &claims))?;
        dir.write("manifest.json", |out| write_json(out, &manifest))?;
        if let Some(properties) = matrix::numbers(sections.iter().flat_map(|s| &s.found.properties))
        {
            dir.write("matrix.csv", |out| properties.write_csv(out))?;
        }
        dir.commit()?;
        // The pages last, so that their links lead to existing files.
        self.folder.write_pages(&written.pages)
    }

    /// The runs beyond those that charts show, sorted.
    fn write_beyond(&mut self) -> Result<(), ExperimentError> {
        let mut beyond = std::mem::take(&mut self.beyond);
        let key = |r: &RunRecord| (r.experiment, r.reading.clone(), r.cell, r.repetition);
        beyond.sort_by_key(key);
        let mut dir = self.folder.output()?;
        for runs in beyond.chunk_by(|a, b| a.experiment == b.experiment) {
            let plan = &self.plans[runs[0].experiment];
            let table = readings_table(plan, runs);
            dir.write(&format!("{}-readings.csv", plan.experiment.id), |out| table.write_csv(out))?;
        }
        Ok(dir.commit()?)
    }

    /// Runs in which connections gave up.
    fn gave_up(&self) -> Vec<GaveUp> {
        let gave_up = self.gave_up.iter().map(|((e, protocol, reason, cell, reading), runs)| {
            let experiment = &self.plans[*e].experiment;
            GaveUp {
                protocol: protocol.clone(),
                experiment: experiment.id.clone(),
                reason: reason.clone(),
                cell: experiment.cell_name(*cell),
                reading: reading.clone(),
                runs: *runs,
            }
        });
        gave_up.collect()
    }

    /// The sections of this run, without those of earlier ones.
    fn own_sections(&self) -> Vec<ExperimentSection> {
        let find = |p: &Plan| self.sections.iter().find(|s| s.id == p.experiment.id);
        self.plans.iter().filter_map(find).cloned().collect()
    }

    fn finish(mut self, runs: usize) -> Result<ReproductionSummary, ExperimentError> {
        // New results may add reported numbers to earlier sections.
        self.stale = (0..self.plans.len()).collect();
        self.write_beyond()?;
        self.write(false)?;
        let own = self.own_sections();
        let index = self.folder.path().join("index.html");
        let gave_up = self.gave_up();
        self.folder.finish()?;
        Ok(ReproductionSummary {
            tallies: tallies(&own),
            claims: self.judged.into_iter().flatten().flatten().collect(),
            means: self.results.into_iter().flatten().map(Means::of).collect(),
            runs,
            resumed: self.resumed,
            index,
            gave_up,
        })
    }
}

#[cfg(test)]
mod campaigns;
#[cfg(test)]
mod tests;
