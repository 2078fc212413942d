//! A scenario file with the changes the command line makes to it.

use std::path::PathBuf;

#[cfg(target_os = "linux")]
use windward_core::units::Duration;
use windward_sim::Scenario;
use windward_sim::scenario::file::ScenarioFile;

use crate::failure::Failure;
use crate::memory;
use crate::output;

/// Changes to a scenario, in the order in which they are made.
#[derive(Debug, clap::Args)]
pub(crate) struct Changes {
    /// Change a value of the file; may be given more than once
    ///
    /// Keys are written with dots: duration, dumbbell.bottleneck.rate, flows.lossy.protocol
    /// (the flows of group `lossy`), flows.*.dupack_threshold (all flows).
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_change)]
    pub(crate) set: Vec<(String, String)>,

    /// Seed of all random streams, in place of the file's
    #[arg(long, value_name = "N", value_parser = parse_seed, allow_hyphen_values = true)]
    pub(crate) seed: Option<u64>,

    /// Length of the run, in place of the file's, such as 30s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub(crate) duration: Option<String>,
}

/// One scenario file with changes.
#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario, a TOML file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    #[command(flatten)]
    pub(crate) changes: Changes,
}

impl ScenarioArgs {
    /// The file with the changes.
    pub(crate) fn read(&self) -> Result<ScenarioFile, Failure> {
        let file = ScenarioFile::read(&self.file)?.with_stacks(&crate::stacks());
        self.changes.of(file.within(memory::free))
    }
}

/// The scenario of a file; prints its warnings.
pub(crate) fn build(file: &ScenarioFile) -> Result<Scenario, Failure> {
    let scenario = file.build()?;
    warn(scenario.warnings.iter().map(String::as_str));
    Ok(scenario)
}

impl Changes {
    /// All changes, keys and values.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        let duration =
            self.duration.iter().map(|duration| ("duration".to_owned(), duration.clone()));
        let seed = self.seed.iter().map(|seed| ("seed".to_owned(), seed.to_string()));
        self.set.iter().cloned().chain(duration).chain(seed).collect()
    }

    /// The file with these changes.
    pub(crate) fn of(&self, mut file: ScenarioFile) -> Result<ScenarioFile, Failure> {
        for (key, value) in self.list() {
            file.set(&key, &value)?;
        }
        Ok(file)
    }
}

#[cfg(target_os = "linux")]
impl Changes {
    /// Length of the run, if it is given.
    pub(crate) fn duration(&self) -> Result<Option<Duration>, Failure> {
        let parse = |text: &String| {
            let wrong = |error| Failure::Input(format!("--duration {text}: {error}"));
            text.parse::<Duration>().map_err(wrong)
        };
        self.duration.as_ref().map(parse).transpose()
    }
}

/// Prints warnings on standard error.
pub(crate) fn warn<'a>(warnings: impl IntoIterator<Item = &'a str>) {
    for warning in warnings {
        output::note(&format!("warning: {warning}"));
    }
}

/// `KEY=VALUE`.
pub(crate) fn parse_change(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("write KEY=VALUE, such as flows.lossy.protocol=lr-lmxtcp".to_owned()),
    }
}

/// A seed: any 64-bit number.
pub(crate) fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("a seed is a whole number from 0 to {}", u64::MAX))
}
