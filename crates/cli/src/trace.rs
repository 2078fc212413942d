//! `--trace`: time series of one run, sampled at a fixed interval.
//!
//! Two files: `flows` (one row a connection and instant) and `links` (one row a directed link
//! and instant). Rates are means since the sample before.

use std::path::PathBuf;

use clap::ValueEnum;
use windward_core::units::{Duration, Time};
use windward_sim::scenario::Traffic;
use windward_sim::{FlowSnapshot, LinkSnapshot, Scenario, Simulation};

use crate::failure::Failure;
use crate::staged::OutputDir;

mod writer;
use writer::{Cell, Column, TableWriter};

#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// Write time series of every flow and link into this folder
    #[arg(long = "trace", value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Time between two samples
    #[arg(long = "trace-interval", value_name = "TIME", default_value = "100ms",
          value_parser = parse_interval, requires = "dir", allow_hyphen_values = true)]
    interval: Duration,

    /// How the time series are written
    #[arg(long = "trace-format", value_name = "FORMAT", default_value = "csv", requires = "dir")]
    format: Format,
}

/// File formats of time series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text, a header and commas
    Csv,
    /// Columns, compressed
    Parquet,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match text.parse::<Duration>() {
        Ok(interval) if interval.is_zero() => Err("it must be longer than no time".to_owned()),
        Ok(interval) => Ok(interval),
        Err(error) => Err(error.to_string()),
    }
}

const FLOW_COLUMNS: [(&str, Column); 8] = [
    ("time_s", Column::Real),
    ("flow", Column::Text),
    ("cwnd_packets", Column::Real),
    ("ssthresh_packets", Column::Real),
    ("srtt_s", Column::Real),
    ("in_flight_packets", Column::Count),
    ("goodput_bps", Column::Real),
    ("throughput_bps", Column::Real),
];

const LINK_COLUMNS: [(&str, Column); 6] = [
    ("time_s", Column::Real),
    ("link", Column::Text),
    ("queue_packets", Column::Count),
    ("dropped", Column::Count),
    ("corrupted", Column::Count),
    ("throughput_bps", Column::Real),
];

/// Samples a run.
#[derive(Debug)]
pub(crate) struct Tracer {
    // Before `dir`: the files must be gone when the folder is looked at.
    flow_rows: TableWriter,
    link_rows: TableWriter,
    dir: OutputDir,
    interval: Duration,
    end: Time,
    /// When the next sample is due; `None` after the last.
    next: Option<Time>,
    flows: Vec<TracedFlow>,
    links: Vec<TracedLink>,
}

/// A connection and what it had done at the last sample.
#[derive(Debug)]
struct TracedFlow {
    index: usize,
    name: String,
    delivered_bytes: u64,
    bottleneck_bytes: u64,
}

/// A link and what it had done at the last sample.
#[derive(Debug)]
struct TracedLink {
    name: String,
    sent_bytes: u64,
}

impl Tracer {
    /// Begins the files, if a trace is asked for at all.
    pub(crate) fn create(args: &TraceArgs, scenario: &Scenario) -> Result<Option<Self>, Failure> {
        let Some(path) = &args.dir else {
            return Ok(None);
        };
        let dir = OutputDir::create(path)?;
        let flows = scenario.flows.iter().enumerate();
        Ok(Some(Tracer {
            flow_rows: TableWriter::create(dir.path(), "flows", args.format, &FLOW_COLUMNS)?,
            link_rows: TableWriter::create(dir.path(), "links", args.format, &LINK_COLUMNS)?,
            dir,
            interval: args.interval,
            end: Time::ZERO + scenario.duration,
            next: Some((Time::ZERO + args.interval).min(Time::ZERO + scenario.duration)),
            flows: flows
                .filter(|(_, flow)| matches!(flow.traffic, Traffic::Transport { .. }))
                .map(|(index, flow)| TracedFlow {
                    index,
                    name: flow.name.clone(),
                    delivered_bytes: 0,
                    bottleneck_bytes: 0,
                })
                .collect(),
            links: scenario
                .links
                .iter()
                .map(|link| TracedLink { name: link.name.clone(), sent_bytes: 0 })
                .collect(),
        }))
    }

    /// The instant at which [`Tracer::sample`] is to be called next. The last one is the end
    /// of the run.
    pub(crate) fn next_sample(&self) -> Option<Time> {
        self.next
    }

    /// Writes a row for each connection and each link.
    pub(crate) fn sample(&mut self, sim: &mut Simulation) -> Result<(), Failure> {
        let Some(now) = self.next else {
            return Ok(());
        };
        let since_last = match now.since(Time::ZERO).as_ps() % self.interval.as_ps() {
            0 => self.interval.as_secs_f64(),
            // The end of the run does not fall on a multiple of the interval.
            rest => Duration::from_ps(rest).as_secs_f64(),
        };
        for flow in &mut self.flows {
            if let Some(snapshot) = sim.flow(flow.index) {
                self.flow_rows.row(&flow.cells(now, since_last, &snapshot))?;
            }
        }
        for (index, link) in self.links.iter_mut().enumerate() {
            self.link_rows.row(&link.cells(now, since_last, &sim.link(index)))?;
        }
        self.next = (now < self.end).then(|| (now + self.interval).min(self.end));
        Ok(())
    }

    /// Gives the files their names; says which.
    pub(crate) fn publish(self) -> Result<String, Failure> {
        let paths =
            format!("{} and {}", self.flow_rows.path().display(), self.link_rows.path().display());
        // Both are complete before either gets its name.
        let flows = self.flow_rows.close()?;
        let links = self.link_rows.close()?;
        flows.publish()?;
        links.publish()?;
        drop(self.dir);
        Ok(paths)
    }
}

impl TracedFlow {
    fn cells(&mut self, now: Time, since_last: f64, flow: &FlowSnapshot) -> [Cell<'_>; 8] {
        let goodput = rate_since(&mut self.delivered_bytes, flow.delivered_bytes, since_last);
        let throughput = rate_since(&mut self.bottleneck_bytes, flow.bottleneck_bytes, since_last);
        [
            Cell::Real(now.as_secs_f64()),
            Cell::Text(&self.name),
            Cell::Real(flow.cwnd),
            Cell::Real(flow.ssthresh),
            Cell::Real(flow.srtt.as_secs_f64()),
            Cell::Count(flow.in_flight),
            Cell::Real(goodput),
            Cell::Real(throughput),
        ]
    }
}

impl TracedLink {
    fn cells(&mut self, now: Time, since_last: f64, link: &LinkSnapshot) -> [Cell<'_>; 6] {
        let throughput = rate_since(&mut self.sent_bytes, link.sent_bytes, since_last);
        [
            Cell::Real(now.as_secs_f64()),
            Cell::Text(&self.name),
            Cell::Count(link.queue_packets),
            Cell::Count(link.dropped),
            Cell::Count(link.corrupted),
            Cell::Real(throughput),
        ]
    }
}

/// Bits per second from one sample to the next; remembers the new count.
fn rate_since(last: &mut u64, bytes: u64, seconds: f64) -> f64 {
    let sent = bytes.saturating_sub(*last);
    *last = bytes;
    sent as f64 * 8.0 / seconds
}
