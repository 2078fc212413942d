//! The outcome of a run as JSON and as tables. Names and units are part of the interface: fields
//! are added, never renamed. Keys and columns are those of [`Row::shown`].

use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use crate::Outcome;
use crate::metric::{Kinds, Metric};
use crate::outcome::Row;
use crate::output::{OutputDir, OutputError};
use crate::table::{Cell, Column, Format, Json, Table, TableWriter};

/// One run, as `windward run --json` writes it.
///
/// ```
/// use windward_sim::record::RunRecord;
/// use windward_sim::scenario::file::ScenarioFile;
///
/// let text = r#"
/// duration = "1s"
/// [dumbbell]
/// bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
/// access = { rate = "10Mbit", delay = "5ms" }
/// [[flows]]
/// group = "bulk"
/// protocol = "newreno"
/// "#;
/// let scenario = ScenarioFile::parse("inline", text)?.build()?;
/// let outcome = windward_sim::run(&scenario);
/// let json: serde_json::Value = serde_json::from_str(&RunRecord::new(&outcome).to_json())?;
/// assert_eq!(json["flows"][0]["name"], "bulk-1");
/// assert!(json["flows"][0]["goodput_bps"].as_f64() > Some(0.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunRecord<'a> {
    outcome: &'a Outcome,
    /// CPU time of the run, seconds; absent if it was not measured.
    pub cpu_s: Option<f64>,
    /// Two rows per port for outside programs, one for each direction; none in virtual time.
    pub ports: Vec<PortRecord>,
    /// Timing quality of a run in real time; absent in virtual time.
    pub emulation: Option<EmulationRecord>,
}

/// One direction of a port for outside programs, over the time in which programs could use it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PortRecord {
    /// Name of the flow of the port.
    pub flow: String,
    /// The node at which packets enter.
    pub from: String,
    /// The node at which they leave.
    pub to: String,
    /// Length of this time, seconds: the run without its beginning in virtual time.
    pub duration_s: f64,
    /// Packets that entered.
    pub packets_sent: u64,
    /// Packets that left.
    pub packets_delivered: u64,
    /// Rate of the packets that left, with their IP headers, bits per second of this time.
    pub throughput_bps: f64,
}

/// Timing quality of a run in real time, over the packets that left to outside programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EmulationRecord {
    /// False if results are not reliable: more than 1 % of the packets were late or early by more
    /// than a millisecond, the kernel dropped some before they were read, or the programs waited
    /// for a CPU more than 5 % of the time.
    pub usable: bool,
    /// Packets that left.
    pub packets: u64,
    /// Median lateness of these packets, seconds.
    pub late_p50_s: f64,
    /// 99th percentile of the lateness, seconds.
    pub late_p99_s: f64,
    /// Maximum lateness, seconds.
    pub late_max_s: f64,
    /// Share of packets that were late by more than a millisecond.
    pub late_share: f64,
    /// Maximum time by which a packet entered the network earlier than it was read, seconds.
    pub early_max_s: f64,
    /// Share of packets that entered the network more than a millisecond earlier than
    /// they were read.
    pub early_share: f64,
    /// True if the thread that moved the packets had real-time priority (SCHED_FIFO).
    pub real_time: bool,
    /// Time for which the programs of the end with the longest waits were ready without a CPU,
    /// summed over threads, seconds; absent if they were not watched, or if the kernel does not
    /// count it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_waited_s: Option<f64>,
    /// The same as a share of the time watched, at most 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub programs_waited_share: Option<f64>,
    /// Packets larger than the ports accept.
    pub too_big: u64,
    /// Packets that were not valid IP packets.
    pub malformed: u64,
    /// Packets that the kernel refused.
    pub refused: u64,
    /// Packets that the kernel dropped because they were not read in time.
    pub overflow: u64,
}

impl EmulationRecord {
    /// Maximum share of packets that may be late or early by more than a millisecond.
    pub const DISTURBED: f64 = 0.01;
    /// Maximum share of the time for which programs may wait for a CPU. A sender that cannot
    /// run is late with its bursts and its acknowledgments for this share of the time;
    /// results are compared with simulations to within 5 % (docs/validation.md).
    pub const STARVED: f64 = 0.05;

    /// Descriptions of the faults that make the run unusable, with numbers; empty for a usable run.
    pub fn faults(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut faults = Vec::new();
        if self.late_share > Self::DISTURBED {
            let share = percent(self.late_share);
            faults.push(format!("{share} of the packets went out more than 1 ms late"));
        }
        if self.early_share > Self::DISTURBED {
            let share = percent(self.early_share);
            faults.push(format!("{share} of the packets came in more than 1 ms early"));
        }
        if self.overflow > 0 {
            let count = self.overflow;
            faults.push(format!("packets that the kernel dropped before they were read: {count}"));
        }
        if let Some(share) = self.programs_waited_share.filter(|share| *share > Self::STARVED) {
            let share = percent(share);
            faults.push(format!("the programs waited for a CPU {share} of the time"));
        }
        faults
    }
}

/// A row as a JSON object, without absent metrics.
#[derive(Debug)]
struct Object<'a, T>(&'a T, &'a Outcome);

impl<T: Row<Of = Outcome>> Serialize for Object<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Object(row, outcome) = *self;
        let mut map = to.serialize_map(None)?;
        let mut inner: Option<(&'static str, Vec<(&'static str, Cell<'_>)>)> = None;
        for metric in T::shown() {
            let cell = metric.of_row(row, outcome);
            match (cell, metric.object) {
                (Cell::Empty, _) => {}
                (cell, None) => map.serialize_entry(metric.name, &Json(&cell))?,
                (cell, Some((object, key))) => {
                    inner.get_or_insert_with(|| (object, Vec::new())).1.push((key, cell));
                }
            }
        }
        if let Some((object, cells)) = inner {
            map.serialize_entry(object, &JsonObject(cells))?;
        }
        map.end()
    }
}

/// Cells with their keys as a JSON object.
#[derive(Debug)]
pub struct JsonObject<'a>(pub Vec<(&'static str, Cell<'a>)>);

impl Serialize for JsonObject<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let cells = self.0.iter().filter(|(_, cell)| *cell != Cell::Empty);
        to.collect_map(cells.map(|(key, cell)| (key, Json(cell))))
    }
}

/// Rows as a JSON array of objects.
#[derive(Debug)]
struct Objects<'a, T>(&'a [T], &'a Outcome);

impl<T: Row<Of = Outcome>> Serialize for Objects<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().map(|row| Object(row, self.1)))
    }
}

impl Serialize for RunRecord<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("windward", env!("CARGO_PKG_VERSION"))?;
        for metric in Outcome::shown() {
            match metric.name {
                // The rows come before the metrics of the whole run.
                "jain" => {
                    map.serialize_entry("flows", &Objects(&outcome.flows, outcome))?;
                    if !outcome.transfers.is_empty() {
                        map.serialize_entry("transfers", &Objects(&outcome.transfers, outcome))?;
                    }
                    map.serialize_entry("groups", &Objects(&outcome.groups, outcome))?;
                    map.serialize_entry("links", &Objects(&outcome.links, outcome))?;
                }
                "fingerprint" => {
                    if let Some(cpu_s) = self.cpu_s {
                        map.serialize_entry("cpu_s", &cpu_s)?;
                    }
                    if !self.ports.is_empty() {
                        map.serialize_entry("ports", &self.ports)?;
                    }
                    if let Some(emulation) = &self.emulation {
                        map.serialize_entry("emulation", emulation)?;
                    }
                }
                _ => {}
            }
            map.serialize_entry(metric.name, &Json(&metric.of_row(outcome, outcome)))?;
        }
        map.end()
    }
}

impl<'a> RunRecord<'a> {
    /// The record of a run.
    pub fn new(outcome: &'a Outcome) -> Self {
        RunRecord { outcome, cpu_s: None, ports: Vec::new(), emulation: None }
    }

    /// The same record with the CPU time of the run, seconds.
    #[must_use]
    pub fn with_cpu_time(self, seconds: f64) -> Self {
        RunRecord { cpu_s: Some(seconds), ..self }
    }

    /// The same record, of a run in real time.
    #[must_use]
    pub fn with_emulation(self, emulation: EmulationRecord) -> Self {
        RunRecord { emulation: Some(emulation), ..self }
    }

    /// The same record with the directions of its ports.
    #[must_use]
    pub fn with_ports(self, ports: Vec<PortRecord>) -> Self {
        RunRecord { ports, ..self }
    }

    /// As indented JSON, without a line break at the end. Numbers that are not finite, such as the
    /// mean of nothing, are `null`.
    pub fn to_json(&self) -> String {
        // No map or foreign implementation in it could fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As [`RunRecord::to_json`], in one line.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Writes `run.json`, and `run-flows.csv`, `run-groups.csv` and `run-links.csv` with a row for
    /// each of its rows, its fields as columns; an absent one is an empty cell. `run-transfers.csv`
    /// is there if transfers arrived by themselves.
    ///
    /// # Errors
    /// If the folder does not take them.
    pub fn write_files(&self, dir: &mut OutputDir) -> Result<(), OutputError> {
        let outcome = self.outcome;
        dir.write("run.json", |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })?;
        write_rows(dir, "run-flows", &outcome.flows, outcome)?;
        if !outcome.transfers.is_empty() {
            write_rows(dir, "run-transfers", &outcome.transfers, outcome)?;
        }
        write_rows(dir, "run-groups", &outcome.groups, outcome)?;
        write_rows(dir, "run-links", &outcome.links, outcome)
    }
}

fn write_rows<T: Row<Of = Outcome>>(
    dir: &mut OutputDir,
    name: &str,
    rows: &[T],
    outcome: &Outcome,
) -> Result<(), OutputError> {
    let columns: Vec<_> = T::shown().map(Metric::column).collect();
    write_csv(dir, name, &columns, rows.iter().map(|row| cells(row, outcome).collect()))
}

/// Writes rows into `NAME.csv`: a cell for each column.
///
/// # Errors
/// If the folder does not take them.
pub fn write_csv<'a>(
    dir: &mut OutputDir,
    name: &str,
    columns: &[Column<'_>],
    rows: impl Iterator<Item = Vec<Cell<'a>>>,
) -> Result<(), OutputError> {
    let format = Format::Csv;
    dir.write(&format!("{name}.{}", format.extension()), |out| {
        let mut table = TableWriter::new(out, format, name, columns)?;
        for row in rows {
            table.row(&row)?;
        }
        table.finish().map(drop)
    })
}

/// The cells of a row of an outcome, in the order of its columns.
fn cells<'a, T: Row>(row: &'a T, of: &'a T::Of) -> impl Iterator<Item = Cell<'a>> {
    T::shown().map(|metric| metric.of_row(row, of).or_empty())
}

/// Rows of an outcome as a table in memory.
pub fn table<T: Row>(rows: &[T], of: &T::Of) -> Table {
    Table::of_rows(T::shown().map(Metric::column), rows.iter().map(|row| cells(row, of)))
}

/// The metrics of rows that flows of a kind have.
pub fn metrics_of<T: Row>(kind: Kinds) -> impl Iterator<Item = &'static Metric<T, T::Of>> + Clone {
    T::shown().filter(move |metric| metric.of.has(kind))
}
