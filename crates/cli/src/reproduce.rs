//! `windward reproduce`: the figures of the papers, with a verdict on each claim.

use std::path::PathBuf;

use windward_lab::claims::Verdict;
use windward_lab::{Experiment, builtin};

use crate::effort::{self, EffortArgs};
use crate::failure::Failure;
use crate::output;
use crate::suggest::did_you_mean;

/// Reproduce the papers' figures, with a verdict on each of their claims
///
/// Writes a page to look at, DIR/index.html, a table and a chart for each figure, and
/// claims.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Figures (lr2008-fig3), papers (lr2008) or claims (L3); all, if none is named
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,

    /// Exit with status 1 if a claim is not held
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    effort: EffortArgs,
}

pub(crate) fn reproduce(args: &Args, quiet: bool) -> Result<(), Failure> {
    let mut experiments = select(&args.ids)?;
    for experiment in &mut experiments {
        args.effort.reseed(experiment)?;
    }
    let summary = effort::with_progress(quiet, args.effort.threads(), |options| {
        windward_lab::reproduce(&experiments, &args.effort.effort(), options, &args.out)
    })?;
    output::print(&format!(
        "{}\n{} claims: {} held, {} not held, {} inconclusive ({} runs)\n{}\n",
        effort::verdicts(&summary.claims),
        summary.claims.len(),
        summary.count(Verdict::Held),
        summary.count(Verdict::NotHeld),
        summary.count(Verdict::Inconclusive),
        summary.runs,
        summary.index.display(),
    ))?;
    let not_held: Vec<&str> = summary
        .claims
        .iter()
        .filter(|claim| claim.verdict == Verdict::NotHeld)
        .map(|claim| claim.claim.id.as_str())
        .collect();
    if args.strict && !not_held.is_empty() {
        return Err(Failure::Failed(format!("not held: {}", not_held.join(", "))));
    }
    Ok(())
}

/// The experiments with these names, a claim standing for the figure that decides it.
fn select(names: &[String]) -> Result<Vec<Experiment>, Failure> {
    let all = builtin::all()?;
    let mut ids = Vec::new();
    for name in names {
        let named = |e: &&Experiment| {
            e.id == *name
                || e.paper.as_ref() == Some(name)
                || e.claims.iter().any(|claim| claim.id == *name)
        };
        let matches: Vec<String> = all.iter().filter(named).map(|e| e.id.clone()).collect();
        if matches.is_empty() {
            let words = all.iter().flat_map(|e| {
                let claims = e.claims.iter().map(|claim| claim.id.as_str());
                claims.chain(e.paper.as_deref()).chain([e.id.as_str()])
            });
            return Err(Failure::Input(format!(
                "there is no paper, figure or claim `{name}`{}",
                did_you_mean(name, words)
            )));
        }
        ids.extend(matches);
    }
    // Adds the figures that the claims of these refer to.
    Ok(builtin::select(&ids)?)
}
