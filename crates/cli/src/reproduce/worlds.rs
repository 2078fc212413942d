//! `windward reproduce --worlds`: the nearest world of each claim.

use std::fs;
use std::path::{Path, PathBuf};

use windward_experiments::campaign::Found;
use windward_experiments::worlds::{self, JointWorld, SearchOptions, SearchSummary};
use windward_experiments::{Experiment, ExperimentError, HOPS_PER_SECOND, builtin};

use windward_report::words;

use super::Args;
use crate::effort;
use crate::failure::Failure;
use crate::output::{self, TextTable};

/// Budget of a claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Budget {
    /// Seconds of one core; `None` for no bound.
    seconds: Option<f64>,
}

/// Reads `90s`, `30m`, `2h` or `none`.
pub(super) fn budget(text: &str) -> Result<Budget, String> {
    if text == "none" {
        return Ok(Budget { seconds: None });
    }
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let number = units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * seconds)
    });
    match number.filter(|seconds| seconds.is_finite() && *seconds > 0.0) {
        Some(seconds) => Ok(Budget { seconds: Some(seconds) }),
        None => Err("expected a time as 90s, 30m or 2h, or none".to_owned()),
    }
}

pub(super) fn search(args: &Args, quiet: bool) -> Result<(), Failure> {
    let stacks = crate::stacks();
    let (folders, names): (Vec<&String>, Vec<&String>) =
        args.ids.iter().partition(|id| Path::new(id.as_str()).is_dir());
    let names: Vec<String> = names.into_iter().cloned().collect();
    let (experiments, folder) = match folders[..] {
        [] => (builtin::select(&names)?, None),
        [folder] => (of_folder(Path::new(folder))?, Some(PathBuf::from(folder))),
        _ => {
            let message = "one folder of experiments at a time, since its worlds stand in it";
            return Err(Failure::Failed(message.to_owned()));
        }
    };
    let experiments = experiments.into_iter().map(|e| e.with_stacks(&stacks));
    let mut experiments: Vec<Experiment> = experiments.collect();
    for experiment in &mut experiments {
        args.effort.change(experiment)?;
    }
    let options = SearchOptions {
        names,
        budget: args.worlds_budget.seconds.map(|seconds| seconds * HOPS_PER_SECOND),
        seed: args.effort.seed,
        folder,
        resume: args.effort.resume,
    };
    let summary = effort::with_progress(quiet, &args.effort, &args.out, |run| {
        worlds::search(&experiments, &args.effort.effort(), run, &options, &args.out)
    })?;
    output::print(&text(&summary))
}

/// The experiments of a folder, by file name; files without `[experiment]` are others.
fn of_folder(folder: &Path) -> Result<Vec<Experiment>, Failure> {
    let entries = fs::read_dir(folder).map_err(|e| ExperimentError::io("read", folder, e))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let mut experiments = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path).map_err(|e| ExperimentError::io("read", &path, e))?;
        if text.lines().any(|line| line.trim() == "[experiment]") {
            experiments.push(Experiment::read(&path)?);
        }
    }
    Ok(experiments)
}

/// The results as text.
fn text(summary: &SearchSummary) -> String {
    let columns = ["claim", "plain", ">passed", ">tried", ">worlds", ">confirmations", "nearest"];
    let mut table = TextTable::new(columns.map(str::to_owned));
    for found in &summary.found {
        let world = &found.world;
        table.row([
            world.claim.clone(),
            found.plain.to_string(),
            world.held.to_string(),
            world.tried.to_string(),
            world.of.to_string(),
            world.confirmations.to_string(),
            nearest(found),
        ]);
    }
    let mut text = table.text();
    for found in summary.found.iter().filter(|f| !f.assumptions.is_empty()) {
        text += &format!("\n{} {}:\n", found.world.claim, found.world.verdict);
        for choice in &found.assumptions {
            text += &format!("  {}: {}\n", words::assumption(choice), choice.source);
        }
    }
    for (key, JointWorld { readings, claims }) in &summary.joint {
        text +=
            &format!("\n{key}: {} hold together: {}; {readings}\n", claims.len(), claims.join(" "));
    }
    let files: Vec<String> = summary.files.iter().map(|f| f.display().to_string()).collect();
    text + &format!("\n{} runs; written: {}\n", summary.runs, files.join(", "))
}

/// The changed choices, `rwnd = 65 packets`, or why the search found no world.
fn nearest(found: &Found) -> String {
    let world = &found.world;
    match &world.readings {
        Some(readings) => {
            let nearer = words::undecided_nearer(world.undecided);
            let nearer = nearer.map_or_else(String::new, |nearer| format!("; {nearer}"));
            format!("{} with {readings}{nearer}", world.verdict)
        }
        None => {
            let end = world.end.into();
            words::no_world(world.verdict, end, world.tried, world.of, world.undecided)
        }
    }
}

#[cfg(test)]
mod tests {
    use windward_experiments::campaign::ClaimId;
    use windward_experiments::claims::Verdict;
    use windward_experiments::experiment::Deviation;
    use windward_experiments::worlds::{End, FoundWorld};

    use super::*;

    #[test]
    fn budgets_have_a_unit() {
        let seconds = |text: &str| budget(text).map(|b| b.seconds);
        assert_eq!(seconds("90s"), Ok(Some(90.0)));
        assert_eq!(seconds("1.5m"), Ok(Some(90.0)));
        assert_eq!(seconds("2h"), Ok(Some(7200.0)));
        assert_eq!(seconds("none"), Ok(None));
        for wrong in ["", "5", "-3s", "0m", "infs", "m"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_table_says_what_was_found_and_what_is_open() {
        let world = |claim: &str, readings, end, undecided| FoundWorld {
            claim: claim.to_owned(),
            verdict: Verdict::Held,
            readings,
            tried: 4,
            held: 1,
            of: 12,
            undecided,
            confirmations: 1,
            end,
            effort: None,
            budget: None,
        };
        let found = |world| Found {
            claim: ClaimId { experiment: 0, claim: 0 },
            plain: Verdict::NotHeld,
            world,
            assumptions: Vec::new(),
            spent: 0.0,
        };
        let one = Some(Deviation::one("rwnd", "65"));
        let summary = SearchSummary {
            found: vec![
                found(world("L3", one, End::Found, 1)),
                found(world("L8", None, End::Exhausted, 2)),
                found(world("L9", None, End::Budget, 0)),
            ],
            joint: vec![(
                "lr2008".to_owned(),
                JointWorld { readings: Deviation::PLAIN, claims: vec!["L1".to_owned()] },
            )],
            files: vec![PathBuf::from("worlds.toml")],
            runs: 7,
            resumed: 0,
        };
        let text = text(&summary);
        for expected in [
            "held with rwnd = 65; 1 nearer world undecided",
            "undecided: of 12 worlds 2 dropped, 2 open, 8 not tried",
            "undecided: of 12 worlds 4 dropped, 8 not tried",
            "lr2008: 1 hold together: L1; plain",
            "7 runs; written: worlds.toml",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
