//! `windward reproduce`: the figures of the papers, with a verdict on each claim.

use std::path::PathBuf;

use windward_experiments::claims::Verdict;
use windward_experiments::{Experiment, builtin};
use windward_report::Tally;
use windward_report::{ReportOptions, catalogue};

use crate::effort::{self, EffortArgs};
use crate::failure::Failure;
use crate::output::{self, TextTable};

mod worlds;

/// Reproduce the figures of the papers, with a verdict on each claim
///
/// Writes a report, DIR/index.html, a table and a chart for each figure, and claims.json.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Figures (lr2008-fig3), papers (lr2008), claims (L3), `matrix` (every protocol and every
    /// queue on one link), `field` (links that users complain about), `upwind` (ablations of its
    /// mechanisms) or `all`; if none is named, everything except `field` and `upwind`
    #[arg(value_name = "ID")]
    ids: Vec<String>,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "report")]
    out: PathBuf,

    /// List everything that can be named, with its claims, and do nothing else
    #[arg(long)]
    list: bool,

    /// With --list: print papers with their experiments as one JSON array
    #[arg(long, requires = "list")]
    json: bool,

    /// Search for the nearest world of each claim instead: the smallest set of changed choices
    /// under which it holds, or under which it fails if it holds plainly
    ///
    /// An ID may also be a folder of experiment files. Writes worlds.toml for each paper, into that
    /// folder or into DIR.
    #[arg(long, conflicts_with_all = ["list", "dry_run", "all_readings", "strict"])]
    worlds: bool,

    /// Work after which the search for a claim ends, as time of one core: 90s, 30m, 2h, or none
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = worlds::budget)]
    worlds_budget: worlds::Budget,

    #[command(flatten)]
    effort: EffortArgs,
}

pub(crate) fn reproduce(args: &Args, quiet: bool) -> Result<(), Failure> {
    if args.worlds {
        return worlds::search(args, quiet);
    }
    let stacks = crate::stacks();
    let selected = builtin::select(&args.ids)?.into_iter();
    let mut experiments: Vec<_> = selected.map(|e| e.with_stacks(&stacks)).collect();
    if args.list && args.json {
        return output::print_json(&catalogue::collections(&experiments));
    }
    if args.list {
        return output::print(&list(&experiments).text());
    }
    for experiment in &mut experiments {
        args.effort.change(experiment)?;
    }
    let effort = args.effort.effort();
    if args.effort.dry_run {
        return effort::forecast(&experiments, &effort, &args.effort);
    }
    let report = ReportOptions {
        about: effort::about(),
        resume: args.effort.resume,
        ..ReportOptions::default()
    };
    let summary = effort::with_progress(quiet, &args.effort, &args.out, |options| {
        windward_report::reproduce(&experiments, &effort, options, &report, &args.out)
    })?;
    let mut text = effort::verdicts(&summary.claims);
    if !summary.claims.is_empty() {
        text += &format!("\n{}", tallies(&summary.tallies).text());
    }
    text += &format!("\n{} runs; the report is {}\n", summary.runs, summary.index.display());
    output::print(&text)?;
    effort::strictly(args.effort.strict, &summary.claims)
}

/// A row per experiment.
fn list(experiments: &[Experiment]) -> TextTable {
    let mut table = TextTable::new(["name", "figure", "claims", "title"]);
    for experiment in experiments {
        let claims: Vec<&str> = experiment.claims.iter().map(|c| c.id.as_str()).collect();
        table.row([
            experiment.id.clone(),
            experiment.caption.figure.clone().unwrap_or_default(),
            claims.join(" "),
            experiment.caption.title.clone(),
        ]);
    }
    table
}

/// A row per paper, and one for all if they are several: plain verdicts, and how many claims hold
/// under some reading and under none.
fn tallies(tallies: &[Tally]) -> TextTable {
    let verdicts = Verdict::ALL.map(|verdict| format!(">{verdict}"));
    let columns = ["paper".to_owned(), ">claims".to_owned()].into_iter().chain(verdicts);
    let columns = columns.chain([">under some reading".to_owned(), ">under none".to_owned()]);
    let mut table = TextTable::new(columns);
    let mut row = |key: &str, of: &[Tally]| {
        let sum = |read: &dyn Fn(&Tally) -> usize| of.iter().map(read).sum::<usize>();
        let mut numbers = vec![sum(&Tally::claims)];
        numbers.extend((0..Verdict::ALL.len()).map(|i| sum(&|t| t.plain[i])));
        numbers.extend([sum(&|t| t.under_some), sum(&|t| t.under_none)]);
        table.row([key.to_owned()].into_iter().chain(numbers.iter().map(ToString::to_string)));
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
        let tally = |key: &str, plain: [usize; 4], under_some| Tally {
            key: key.to_owned(),
            plain,
            under_some,
            under_none: plain.iter().sum::<usize>() - under_some,
        };
        let (one, two) = (tally("lr2008", [10, 1, 3, 0], 12), tally("xcpr2005", [5, 0, 0, 1], 6));
        assert_eq!(
            tallies(&[one.clone(), two]).text(),
            "paper     claims  held  tie  not held  inconclusive  under some reading  under none\n\
             lr2008        14    10    1         3             0                  12           2\n\
             xcpr2005       6     5    0         0             1                   6           0\n\
             all           20    15    1         3             1                  18           2\n"
        );
        assert_eq!(tallies(&[one]).text().lines().count(), 2);
    }
}
