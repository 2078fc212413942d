//! `--trace`: time series of one run, sampled at a fixed interval.

use std::path::PathBuf;

use clap::ValueEnum;
use windward_core::units::Duration;
use windward_sim::trace::TraceFiles;
use windward_sim::{Scenario, table};

use crate::failure::Failure;
use crate::signals;

#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Write time series of every flow and link into this folder
    #[arg(long = "trace", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Time between two samples
    #[arg(long = "trace-interval", value_name = "TIME", default_value = "100ms",
          value_parser = parse_interval, requires = "dir", allow_hyphen_values = true)]
    interval: Duration,

    /// File format of the time series
    #[arg(long = "trace-format", value_name = "FORMAT", default_value = "csv", requires = "dir")]
    format: Format,
}

/// File formats of time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text with a header
    Csv,
    /// Compressed columns
    Parquet,
}

impl Format {
    pub(crate) fn of_table(self) -> table::Format {
        match self {
            Format::Csv => table::Format::Csv,
            Format::Parquet => table::Format::Parquet,
        }
    }
}

pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(interval) if interval.is_zero() => Err("must be greater than zero".to_owned()),
        Ok(interval) => Ok(interval),
        Err(error) => Err(error.to_string()),
    }
}

impl TraceArgs {
    /// Creates the files, if a trace was requested.
    pub(crate) fn create(&self, scenario: &Scenario) -> Result<Option<TraceFiles>, Failure> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let format = self.format.of_table();
        // From here on, Ctrl-C must leave time to remove unfinished files.
        signals::check()?;
        Ok(Some(TraceFiles::create(dir, format, scenario, self.interval)?))
    }
}
