//! Options and output that `sweep`, `reproduce` and `evaluate` share: amount of work, threads,
//! progress bar, and verdicts as text.

use std::ffi::OsString;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::HumanDuration;
use windward_experiments::claims::{Belief, CheckResult, ClaimResult, Verdict};
use windward_experiments::{
    Effort, Experiment, ExperimentError, FULL_READINGS, HOPS_PER_SECOND, QUICK_READINGS, RunOptions,
};
use windward_report::{Provenance, words};
use windward_sim::text::shell_word;

use crate::clock::{self, Stopwatch};
use crate::failure::Failure;
use crate::output::{self, TextTable};
use crate::progress::Progress;
use crate::scenario_args::{parse_change, parse_seed};
use crate::signals;

/// The arguments of this program without its name. Inside Python those of the process are others.
pub(crate) static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Amount of work, and its resources.
#[derive(Debug, clap::Args)]
pub(crate) struct EffortArgs {
    /// Few repetitions, for a quick look (the default)
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// The repetitions and durations that each experiment gives for full effort, and the
    /// experiments that a suite has only for it
    #[arg(long)]
    full: bool,

    /// Change a value of the scenario; may be given more than once
    ///
    /// As for `windward run`; it takes precedence over the file, its `quick` and its `full`. Values
    /// that an axis or a reading sets cannot be changed.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_change)]
    set: Vec<(String, String)>,

    /// Seed of the first repetition, in place of the file's; the following ones count up
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_hyphen_values = true)]
    pub(crate) seed: Option<u64>,

    /// Continue an interrupted attempt in the same folder
    #[arg(long)]
    pub(crate) resume: bool,

    /// Print the runs and their approximate duration, and do nothing else
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Check claims under every reading, including the slowest ones
    #[arg(long)]
    all_readings: bool,

    /// Exit with status 1 if a claim is not held
    #[arg(long)]
    pub(crate) strict: bool,

    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl EffortArgs {
    /// The requested effort.
    pub(crate) fn effort(&self) -> Effort {
        if self.full { Effort::Full } else { Effort::Quick }
    }

    /// Budget of the readings of a claim, unless all of them are requested.
    fn readings_budget(&self) -> Option<f64> {
        Some(if self.full { FULL_READINGS } else { QUICK_READINGS })
    }

    /// Worker threads; zero means one per core.
    fn threads(&self) -> usize {
        self.threads.map_or(0, usize::from)
    }

    /// The values of the scenario to change.
    pub(crate) fn changes(&self) -> Vec<(String, String)> {
        let seed = self.seed.map(|seed| ("seed".to_owned(), seed.to_string()));
        self.set.iter().cloned().chain(seed).collect()
    }

    /// Changes the experiment as requested.
    pub(crate) fn change(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        for (key, value) in self.changes() {
            experiment.set(&key, &value)?;
        }
        experiment.all_readings = self.all_readings;
        Ok(())
    }
}

/// Begin of the runs.
static BEGIN: OnceLock<Stopwatch> = OnceLock::new();

/// The time left at the mean speed so far, once this share of the work is done.
pub(crate) fn left(share: f64) -> Option<String> {
    let so_far = BEGIN.get()?.elapsed();
    // Earlier ones are guesses.
    let told = share > 0.01 && so_far > Duration::from_secs(2);
    told.then(|| HumanDuration(so_far.mul_f64(1.0 / share - 1.0)).to_string())
}

/// Runs experiments with a progress bar. After Ctrl-C it prints how to resume.
pub(crate) fn with_progress<T>(
    quiet: bool,
    args: &EffortArgs,
    out: &Path,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T, ExperimentError>,
) -> Result<T, Failure> {
    BEGIN.get_or_init(Stopwatch::start);
    let bar = Progress::new(quiet);
    let progress = |progress: windward_experiments::Progress| {
        bar.set(progress.work, &format!("{}/{} runs", progress.done, progress.total));
    };
    let options = RunOptions {
        threads: args.threads(),
        cancel: signals::flag(),
        readings_budget: args.readings_budget(),
        progress: &progress,
    };
    let done = work(&options);
    drop(bar);
    if matches!(done, Err(ExperimentError::Cancelled)) {
        tell_of_resume(quiet, out);
    }
    Ok(done?)
}

/// Says which results of the folder the new pages leave out.
pub(crate) fn tell_of_other_builds(quiet: bool, out: &Path) {
    if quiet {
        return;
    }
    let names = windward_experiments::experiments_of_other_builds(out);
    if names.is_empty() {
        return;
    }
    let (shown, more) = match names.len() {
        0..=4 => (names.join(", "), String::new()),
        n => (names[..3].join(", "), format!(" and {} more", n - 3)),
    };
    output::note(&format!(
        "another build of windward wrote into {}: the pages will show the results of this one \
         alone. Of {shown}{more}, only the tables and pictures remain until they are run again",
        out.display()
    ));
}

/// Says how to continue an interrupted command, if the folder holds finished runs.
pub(crate) fn tell_of_resume(quiet: bool, out: &Path) {
    // The journal remains only if it holds finished runs.
    if !quiet && windward_experiments::is_resumable(out) {
        output::note(&format!(
            "finished runs are kept in {}; the same command with --resume continues",
            out.display()
        ));
    }
}

/// Largest number of checks of a claim that are printed; further ones are counted.
const MAX_CHECKS: usize = 3;

/// Each claim with its verdict, its readings and its numbers; of many checks those that decide.
pub(crate) fn verdicts(claims: &[ClaimResult]) -> String {
    let mut text = String::new();
    for claim in claims {
        text += &format!("{:<4} {:<12}  {}\n", claim.id, claim.verdict, claim.claim);
        let indent = " ".repeat(18);
        let held = claim.belief() == Belief::Nothing;
        let answer = if held { String::new() } else { words::full_answer(claim) };
        let in_readings = claim.in_readings();
        // An answer without a search has it too.
        if claim.of() + claim.left_out > 1 && !answer.contains(&in_readings) {
            text += &format!("{indent} {in_readings}\n");
        }
        for choice in words::calibrated(claim) {
            text += &format!("{indent} {choice}\n");
        }
        for line in [words::edition(claim), answer].iter().filter(|line| !line.is_empty()) {
            text += &format!("{indent} {line}\n");
        }
        for part in &claim.history.not_checked {
            text += &format!("{indent} not checked: {part}\n");
        }
        let mut checks: Vec<&CheckResult> = claim.checks.iter().collect();
        checks.sort_by_key(|check| match check.verdict {
            Verdict::NotHeld => 0,
            Verdict::Inconclusive => 1,
            Verdict::Tie => 2,
            Verdict::Held => 3,
        });
        let shown = if checks.len() > MAX_CHECKS + 1 { MAX_CHECKS } else { checks.len() };
        for check in &checks[..shown] {
            // The claim's verdict stands above; a check has its own only if it differs.
            let verdict = if check.verdict == claim.verdict {
                String::new()
            } else {
                format!(" ({})", check.verdict)
            };
            text += &format!("{indent} {}: {}{verdict}\n", check.text, check.measured());
        }
        if checks.len() > shown {
            let hidden = &checks[shown..];
            let held = hidden.iter().filter(|c| c.verdict == Verdict::Held).count();
            text += &format!("{indent} and {} more checks, {held} held\n", hidden.len());
        }
        for reading in claim.deciding() {
            text += &format!("{indent} decides: {} -> {}\n", reading.title(), reading.verdict);
            if let Some((here, there)) = claim.turned(reading) {
                text += &format!(
                    "{indent}   {}: {} plainly, {} then\n",
                    here.text,
                    here.measured(),
                    there.measured_beside(here)
                );
            }
        }
    }
    text
}

/// Fails with `--strict` if a claim is not held.
pub(crate) fn strictly(strict: bool, claims: &[ClaimResult]) -> Result<(), Failure> {
    let not_held = claims.iter().filter(|claim| claim.verdict == Verdict::NotHeld);
    let not_held: Vec<&str> = not_held.map(|claim| claim.id.as_str()).collect();
    if strict && !not_held.is_empty() {
        return Err(Failure::Failed(format!("not held: {}", not_held.join(", "))));
    }
    Ok(())
}

/// Text of `--dry-run`: the runs, and about how long they take.
pub(crate) fn forecast(
    experiments: &[Experiment],
    effort: &Effort,
    args: &EffortArgs,
) -> Result<(), Failure> {
    let forecast = windward_report::forecast(experiments, effort)?;
    let mut table = TextTable::new(["experiment", ">runs", ">packet-hops"]);
    for (id, runs, hops) in &forecast.experiments {
        table.row([id.clone(), runs.to_string(), output::si(*hops)]);
    }
    let runs: usize = forecast.experiments.iter().map(|(_, runs, _)| runs).sum();
    let hops: f64 = forecast.experiments.iter().map(|(_, _, hops)| hops).sum();
    table.row(["all".to_owned(), runs.to_string(), output::si(hops)]);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = table.text();
    text += &format!(
        "\nAbout {} to draw the figures. Verdicts may take as much time again or more.\n",
        time(hops, args.threads(), cores)
    );
    output::print(&text)
}

/// `3 s on 2 of the 4 cores of this machine`; 0 threads means one per core.
fn time(hops: f64, threads: usize, cores: usize) -> String {
    // Threads that share a core take turns.
    let used = if threads == 0 { cores } else { threads.min(cores) };
    let seconds = (hops / HOPS_PER_SECOND / used as f64).ceil();
    let of = if used == cores { String::new() } else { format!("{used} of ") };
    format!("{seconds} s on {of}the {cores} cores of this machine")
}

/// Date, machine, commit and command of a report.
pub(crate) fn about() -> Provenance {
    // A path need not be UTF-8.
    let words = ARGUMENTS.get().map(Vec::as_slice).unwrap_or_default().iter();
    let command: Vec<String> = words.map(|word| shell_word(&word.to_string_lossy())).collect();
    Provenance {
        date: clock::today(),
        commit: option_env!("WINDWARD_COMMIT").map(str::to_owned),
        machine: machine(),
        command: format!("windward {}", command.join(" ")),
    }
}

/// Cores, processor, system.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    let model = model.map(|(_, name)| format!(" of {}", name.trim())).unwrap_or_default();
    format!(
        "{cores} core{}{model}, {} {}",
        if cores == 1 { "" } else { "s" },
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_depends_on_the_threads_that_are_asked_for() {
        let hops = 12.0 * HOPS_PER_SECOND;
        assert_eq!(time(hops, 0, 4), "3 s on the 4 cores of this machine");
        assert_eq!(time(hops, 2, 4), "6 s on 2 of the 4 cores of this machine");
        assert_eq!(time(hops, 9, 4), "3 s on the 4 cores of this machine");
    }
}
