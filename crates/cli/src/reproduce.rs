//! `windward reproduce`: the figures of the papers, with a verdict on each claim.

use std::path::{Path, PathBuf};

use windward_experiments::{Experiment, ExperimentError, builtin};
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
    /// Figures (lr2008-fig3), papers (lr2008), claims (L3), files of experiments (FILE.toml),
    /// `matrix` (every protocol and every queue on one link), `field` (links that users complain
    /// about), `media` (the test cases of RFC 8867 and RFC 8869), `upwind` (its results
    /// and goals) or `all`; if none is named, everything except `field`, `media` and `upwind`
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
    #[arg(long)]
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
    let selected = select(&args.ids)?.into_iter();
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
        left: effort::left,
        ..ReportOptions::default()
    };
    effort::tell_of_other_builds(quiet, &args.out);
    let summary = effort::with_progress(quiet, &args.effort, &args.out, |options| {
        windward_report::reproduce(&experiments, &effort, options, &report, &args.out)
    })?;
    let mut text = effort::verdicts(&summary.claims);
    if !summary.claims.is_empty() {
        text += &format!("\n{}", tallies(&summary.tallies));
    }
    text += &format!("\n{} runs; the report is {}\n", summary.runs, summary.index.display());
    output::print(&text)?;
    effort::strictly(args.effort.strict, &summary.claims)
}

/// The experiments that come with the program by their names, and files by their paths.
fn select(ids: &[String]) -> Result<Vec<Experiment>, ExperimentError> {
    let is_file = |id: &&String| Path::new(id).extension().is_some_and(|end| end == "toml");
    let (files, names): (Vec<&String>, Vec<&String>) = ids.iter().partition(is_file);
    let names: Vec<String> = names.into_iter().cloned().collect();
    let mut experiments = match files.is_empty() || !names.is_empty() {
        true => builtin::select(&names)?,
        false => Vec::new(),
    };
    for file in files {
        let own = Experiment::read(Path::new(file))?;
        if let Some(other) = experiments.iter().find(|other| other.id == own.id) {
            let message = format!("its id `{}` is also that of {}", own.id, other.file);
            return Err(ExperimentError::Experiment { file: own.file, line: 0, message });
        }
        experiments.push(own);
    }
    Ok(experiments)
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

/// A line per paper.
fn tallies(tallies: &[Tally]) -> String {
    let width = tallies.iter().map(|tally| tally.key.len()).max().unwrap_or(0);
    let line = |tally: &Tally| format!("{:<width$}  {}\n", tally.key, tally.sentence());
    tallies.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_paper_has_a_line() {
        let of = |key: &str| Tally { key: key.to_owned(), claims: 2, ..Tally::default() };
        assert_eq!(
            tallies(&[of("lr2008"), of("estcp2010")]),
            "lr2008     2 claims: plainly 0 held\nestcp2010  2 claims: plainly 0 held\n"
        );
    }
}
