//! Runs a list of experiments and writes the report.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use windward_sim::output::OutputDir;
use windward_sim::{Outcome, Scenario};

use crate::LabError;
use crate::claims::{self, ClaimResult, Verdict};
use crate::experiment::{Effort, Experiment};
use crate::plot;
use crate::report::{self, Section, Tally};
use crate::sweep::{self, Results, RunOptions};
use crate::table::{manifest, write_json};

/// What came out of a reproduction.
#[derive(Debug, Clone)]
pub struct ReproductionSummary {
    /// Every claim with its verdict, in the order of the experiments.
    pub claims: Vec<ClaimResult>,
    /// The same counted, a row for each paper that claims something.
    pub tallies: Vec<Tally>,
    /// Number of runs.
    pub runs: usize,
    /// The page to look at.
    pub index: PathBuf,
}

impl ReproductionSummary {
    /// How many claims have that verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.claims.iter().filter(|c| c.verdict == verdict).count()
    }
}

/// Runs the experiments and writes into `out_dir`: `index.html`, `claims.json`,
/// `manifest.json`, `<id>.csv` and `<id>.svg` for each of them, and `matrix.csv` if some of them
/// are of the matrix of all protocols.
///
/// # Errors
/// If an experiment is impossible, the run is cancelled, or the folder does not take the
/// files; then none of them is written.
pub fn reproduce(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    out_dir: &Path,
) -> Result<ReproductionSummary, LabError> {
    reproduce_with(experiments, effort, options, out_dir, &sweep::simulate)
}

fn reproduce_with(
    experiments: &[Experiment],
    effort: &Effort,
    options: &RunOptions<'_>,
    out_dir: &Path,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Option<Outcome> + Sync),
) -> Result<ReproductionSummary, LabError> {
    claims::check_references(experiments)?;
    let plans = experiments.iter().map(|e| e.plan(effort));
    let plans = plans.collect::<Result<Vec<_>, _>>()?;
    // A folder that cannot be written to shall not cost minutes first.
    let mut out = OutputDir::create(out_dir)?;
    let results = sweep::run_all(plans, options, simulate)?;
    let judged = claims::evaluate(&results);
    write(&mut out, &results, &judged)?;
    out.commit()?;
    Ok(ReproductionSummary {
        tallies: report::tallies(&results, &judged),
        claims: judged,
        runs: results.iter().map(|r| r.runs.len()).sum(),
        index: out_dir.join("index.html"),
    })
}

fn write(dir: &mut OutputDir, results: &[Results], judged: &[ClaimResult]) -> Result<(), LabError> {
    let charts: Vec<Vec<plot::Chart>> = results.iter().map(plot::charts).collect();
    for (results, charts) in results.iter().zip(&charts) {
        results.stage_tables(dir, false)?;
        if let Some(svg) = plot::stacked(charts) {
            let name = format!("{}.svg", results.plan.experiment.id);
            dir.write(&name, |out| std::io::Write::write_all(out, svg.as_bytes()))?;
        }
    }
    let sections = results.iter().zip(&charts);
    let sections = sections.map(|(results, charts)| Section { results, charts });
    let sections: Vec<Section<'_>> = sections.collect();
    if let Some(properties) = report::properties(&sections) {
        dir.write("matrix.csv", |out| properties.write_csv(out))?;
    }
    let page = report::page(&sections, judged);
    let claims = judged.iter().map(ClaimResult::to_json).collect();
    dir.write("claims.json", |out| write_json(out, &claims))?;
    let manifest = manifest(results);
    dir.write("manifest.json", |out| write_json(out, &manifest))?;
    // The page last: where it is, everything it links to is.
    dir.write("index.html", |out| std::io::Write::write_all(out, page.as_bytes()))?;
    Ok(())
}

#[cfg(test)]
mod tests;
