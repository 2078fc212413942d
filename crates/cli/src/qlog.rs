//! `--qlog`: the packets of one run, as each endpoint saw them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use windward_core::units::parse_bytes;
use windward_logs::qlog::{self, QlogError, QlogFiles, QlogOptions};
use windward_sim::Scenario;

use crate::failure::Failure;
use crate::signals;

// Names of arguments are unique in a command; the default is the name of the field.
#[derive(Debug, clap::Args)]
pub(crate) struct QlogArgs {
    /// Write the packets that each local endpoint saw into this folder, as qlog: FLOW.sender.sqlog,
    /// FLOW.receiver.sqlog and, for simulated flows, FLOW.network.sqlog
    #[arg(id = "qlog", long = "qlog", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Version of qlog
    #[arg(
        id = "qlog-format",
        long = "qlog-format",
        value_name = "FORMAT",
        default_value = "current",
        requires = "qlog"
    )]
    format: Format,

    /// Flows or groups to log, separated by commas [default: all]
    #[arg(
        id = "qlog-flows",
        long = "qlog-flows",
        value_name = "NAME,..",
        value_delimiter = ',',
        requires = "qlog"
    )]
    flows: Vec<String>,

    /// Largest total size of the logs; the command fails beyond it
    #[arg(id = "qlog-limit", long = "qlog-limit", value_name = "SIZE", default_value = "4GB",
          value_parser = parse_limit, requires = "qlog", allow_hyphen_values = true)]
    limit: u64,
}

/// Versions of qlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The current drafts: main schema 13, events of QUIC 13
    Current,
    /// qlog 0.3, which qvis reads
    Qvis,
}

fn parse_limit(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|error| error.to_string())
}

impl QlogArgs {
    /// Creates the files, if logs were requested.
    pub(crate) fn create(&self, scenario: &Scenario) -> Result<Option<QlogFiles>, Failure> {
        self.begin(|dir, options| QlogFiles::create(dir, options, scenario))
    }

    /// Creates the files for flows between hosts, whose local ends these are.
    #[cfg(target_os = "linux")]
    pub(crate) fn create_measured(
        &self,
        scenario: &Scenario,
        ends: &[windward_sim::stack::End],
    ) -> Result<Option<QlogFiles>, Failure> {
        self.begin(|dir, options| QlogFiles::create_measured(dir, options, scenario, ends))
    }

    fn begin(
        &self,
        create: impl FnOnce(&Path, &QlogOptions) -> Result<QlogFiles, QlogError>,
    ) -> Result<Option<QlogFiles>, Failure> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let format = match self.format {
            Format::Current => qlog::Format::Current,
            Format::Qvis => qlog::Format::Version03,
        };
        let options = QlogOptions { format, flows: self.flows.clone(), limit_bytes: self.limit };
        // From here on, Ctrl-C must leave time to remove unfinished files.
        signals::check()?;
        Ok(Some(create(dir, &options)?))
    }
}
