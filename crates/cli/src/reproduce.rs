//! `windward reproduce`: the figures of the papers, with a verdict on each claim.

use std::path::PathBuf;

use windward_lab::builtin;
use windward_lab::claims::Verdict;
use windward_lab::report::Tally;

use crate::effort::{self, EffortArgs};
use crate::failure::Failure;
use crate::output::{self, Table};

/// Reproduce the papers' figures, with a verdict on each of their claims
///
/// Writes a page to look at, DIR/index.html, a table and a chart for each figure, and
/// claims.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Figures (lr2008-fig3), papers (lr2008), claims (L3), `matrix` (every protocol
    /// and every queue on one link), `field` (links that users complain about) or `all`; if none is
    /// named, all but `field`
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
    let mut text = effort::verdicts(&summary.claims);
    if !summary.claims.is_empty() {
        text += &format!("\n{}", tallies(&summary.tallies).text());
    }
    text += &format!("\n{} runs; the report is {}\n", summary.runs, summary.index.display());
    output::print(&text)?;
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

/// A row per paper, and one for all if they are several.
fn tallies(tallies: &[Tally]) -> Table {
    let mut table = Table::new(["paper", ">claims", ">held", ">not held", ">inconclusive"]);
    let mut row = |key: &str, of: &[Tally]| {
        let sum = |read: fn(&Tally) -> usize| of.iter().map(read).sum::<usize>();
        let counts = [sum(|t| t.held), sum(|t| t.not_held), sum(|t| t.inconclusive)];
        let numbers = [counts.iter().sum()].into_iter().chain(counts).map(|n| n.to_string());
        table.row(std::iter::once(key.to_owned()).chain(numbers));
    };
    for tally in tallies {
        row(&tally.key, std::slice::from_ref(tally));
    }
    if tallies.len() > 1 {
        row("all", tallies);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_paper_is_counted_and_so_are_all_together() {
        let tally = |key: &str, held, not_held, inconclusive| Tally {
            key: key.to_owned(),
            held,
            not_held,
            inconclusive,
        };
        let (one, two) = (tally("lr2008", 10, 3, 1), tally("xcpr2005", 5, 0, 1));
        assert_eq!(
            tallies(&[one.clone(), two]).text(),
            "paper     claims  held  not held  inconclusive\n\
             lr2008        14    10         3             1\n\
             xcpr2005       6     5         0             1\n\
             all           20    15         3             2\n"
        );
        assert_eq!(tallies(&[one]).text().lines().count(), 2);
    }
}
