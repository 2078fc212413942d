//! `--pcap`: packets that cross links, for Wireshark.

use std::collections::BTreeSet;
use std::path::PathBuf;

use windward_logs::pcap::{PcapFile, SNAP_LEN};
use windward_sim::Scenario;
use windward_sim::suggest;

use crate::failure::Failure;
use crate::output;
use crate::signals;

#[derive(Debug, clap::Args)]
pub(crate) struct PcapArgs {
    /// Write the packets that cross links into this file, in the format pcapng
    #[arg(long, value_name = "FILE.pcapng")]
    pcap: Option<PathBuf>,

    /// Links whose packets are written, separated by commas [default: the bottlenecks]
    #[arg(long, value_name = "LINK,..", value_delimiter = ',', requires = "pcap")]
    pcap_links: Vec<String>,

    /// Number of bytes of each packet that are written
    #[arg(long, value_name = "BYTES", default_value_t = SNAP_LEN, requires = "pcap",
          value_parser = clap::value_parser!(u32).range(20..=65535))]
    pcap_bytes: u32,
}

impl PcapArgs {
    /// Creates the file, if one was requested.
    pub(crate) fn create(&self, scenario: &Scenario) -> Result<Option<PcapFile>, Failure> {
        let Some(path) = &self.pcap else { return Ok(None) };
        if path.is_dir() {
            return Err(Failure::Input(format!("--pcap {}: is a directory", path.display())));
        }
        output::claim("--pcap", path)?;
        let links: BTreeSet<usize> = match self.pcap_links.is_empty() {
            true => scenario.flows.iter().map(|flow| flow.bottleneck).collect(),
            false => {
                self.pcap_links.iter().map(|name| link(name, scenario)).collect::<Result<_, _>>()?
            }
        };
        let links: Vec<usize> = links.into_iter().collect();
        // From here on, Ctrl-C must leave time to remove unfinished files.
        signals::check()?;
        Ok(Some(PcapFile::create(path, scenario, &links, self.pcap_bytes)?))
    }
}

fn link(name: &str, scenario: &Scenario) -> Result<usize, Failure> {
    scenario.links.iter().position(|link| *link.name == *name).ok_or_else(|| {
        let all = scenario.links.iter().map(|link| link.name.as_str());
        let meant = suggest::near(name, all).map_or_else(
            || "windward run --json names all".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        Failure::Input(format!("--pcap-links: no link is called {name}; {meant}"))
    })
}
