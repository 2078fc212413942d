//! `windward reproduce`: the figures of the papers, with a verdict on each claim.

use std::path::PathBuf;

use windward_lab::builtin;
use windward_lab::claims::Verdict;

use crate::effort::{self, EffortArgs};
use crate::failure::Failure;
use crate::output;

/// Reproduce the papers' figures, with a verdict on each of their claims
///
/// Writes a page to look at, DIR/index.html, a table and a chart for each figure, and
/// claims.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Figures (lr2008-fig3), papers (lr2008), claims (L3), `matrix` (every protocol on one
    /// link), `field` (links of today) or `all`; if none is named, all but `field`
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
    let mut experiments = builtin::select(&args.ids)?;
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
