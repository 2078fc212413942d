//! What `sweep` and `reproduce` share: how much to run, on how many threads, the progress
//! bar, and verdicts as text.

use windward_lab::claims::{CheckResult, ClaimResult, Verdict};
use windward_lab::{Effort, Experiment, LabError, RunOptions};

use crate::failure::Failure;
use crate::progress::Progress;
use crate::scenario_args::parse_seed;
use crate::signals;

/// How much to run, and with what.
#[derive(Debug, clap::Args)]
pub(crate) struct EffortArgs {
    /// A quick look, a few repetitions: the default
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// At least 30 repetitions and long runs
    #[arg(long)]
    full: bool,

    /// Seed of the first repetition, instead of the file's; the next ones count up from it
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_hyphen_values = true)]
    seed: Option<u64>,

    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl EffortArgs {
    /// The effort asked for.
    pub(crate) fn effort(&self) -> Effort {
        if self.full { Effort::Full } else { Effort::Quick }
    }

    /// Worker threads; zero means one per core.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or(0, usize::from)
    }

    /// Gives the experiment the seed asked for, if one is.
    pub(crate) fn reseed(&self, experiment: &mut Experiment) -> Result<(), Failure> {
        if let Some(seed) = self.seed {
            experiment.scenario.set("seed", &seed.to_string())?;
        }
        Ok(())
    }
}

/// Does work of the lab with a progress bar, until Ctrl-C.
pub(crate) fn with_progress<T>(
    quiet: bool,
    threads: usize,
    work: impl FnOnce(&RunOptions<'_>) -> Result<T, LabError>,
) -> Result<T, Failure> {
    let bar = Progress::new(quiet);
    let progress = |progress: windward_lab::Progress| {
        bar.set(progress.work, &format!("{}/{} runs", progress.done, progress.total));
    };
    Ok(work(&RunOptions { threads, cancel: signals::flag(), progress: &progress })?)
}

/// More checks of a claim than these are only counted.
const MAX_CHECKS: usize = 4;

/// Each claim with its verdict and its numbers; of many checks those that decide.
pub(crate) fn verdicts(claims: &[ClaimResult]) -> String {
    let mut text = String::new();
    for claim in claims {
        text += &format!(
            "{:<4} {:<12}  {}\n",
            claim.claim.id,
            claim.verdict.to_string(),
            claim.claim.claim
        );
        let mut checks: Vec<&CheckResult> = claim.checks.iter().collect();
        checks.sort_by_key(|check| match check.verdict {
            Verdict::NotHeld => 0,
            Verdict::Inconclusive => 1,
            Verdict::Held => 2,
        });
        let shown = if checks.len() > MAX_CHECKS + 1 { MAX_CHECKS } else { checks.len() };
        for check in &checks[..shown] {
            // The claim's verdict stands above; say only where a check differs from it.
            let verdict = if check.verdict == claim.verdict {
                String::new()
            } else {
                format!(" ({})", check.verdict)
            };
            text += &format!("{:18} {}: {}{verdict}\n", "", check.text, check.measured());
        }
        if checks.len() > shown {
            let hidden = &checks[shown..];
            let held = hidden.iter().filter(|c| c.verdict == Verdict::Held).count();
            text += &format!("{:18} and {} checks more, {held} held\n", "", hidden.len());
        }
    }
    text
}
