//! Statistics of a comparison of programs on one link, as rows.
//!
//! `windward_net::campaign` executes the runs, on a real clock; `windward_report` draws them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
pub use windward_sim::comparison::{Beside, Measured, Run};
use windward_sim::output::OutputDir;
use windward_sim::table::{Cell, Column, Format, Kind, TableWriter};

use crate::ExperimentError;
use crate::folder::Folder;
use crate::statistics::{CONFIDENCE, Estimate, estimate, ratio_of_means};

/// Runs of several programs over one link.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// The link, in words.
    pub link: String,
    /// Measured time of each run and the excluded time before it, in words.
    pub window: String,
    /// The mean rate of the link, bits per second.
    pub rate_bps: f64,
    /// The competing flow, in words, if there was one.
    pub rival: Option<String>,
    /// Number of requested runs; more than the completed ones if the comparison was interrupted.
    pub planned: usize,
    /// All runs, in order.
    pub runs: Vec<Run>,
    /// Requested programs that did not run, and the reasons.
    pub skipped: Vec<(String, String)>,
}

/// Means over all runs of a program at one loss rate, with 95 % intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// The share of packets that the link loses.
    pub loss: f64,
    /// Number of usable runs.
    pub runs: usize,
    /// Number of unusable runs.
    pub unusable: usize,
    /// The largest IP packet that reached the receiver, bytes.
    pub packet_size: Option<u32>,
    /// The same in virtual time.
    pub simulated_packet_size: Option<u32>,
    /// Goodput, bits per second of IP packets.
    pub goodput_bps: Option<Estimate>,
    /// Goodput over C (1 - p).
    pub share: Option<Estimate>,
    /// Packets that arrived at the link for each that it delivered.
    pub sent_per_delivered: Option<Estimate>,
    /// Mean queue, packets.
    pub mean_queue_packets: Option<Estimate>,
    /// Throughput of the competing flow over C (1 - p).
    pub left: Option<Estimate>,
    /// The same in virtual time.
    pub simulated_left: Option<Estimate>,
    /// Goodput in virtual time, bits per second.
    pub simulated_bps: Option<Estimate>,
    /// Mean real goodput over mean simulated goodput of the same seeds.
    pub ratio: Option<Estimate>,
    /// The smallest and the largest ratio of a single run.
    pub ratios: Option<(f64, f64)>,
}

impl Row {
    /// True if one of its estimates is a single observation.
    pub fn has_single(&self) -> bool {
        let all = [
            self.goodput_bps,
            self.share,
            self.sent_per_delivered,
            self.mean_queue_packets,
            self.left,
            self.simulated_left,
            self.simulated_bps,
            self.ratio,
        ];
        all.into_iter().flatten().any(|estimate| estimate.is_single())
    }

    /// `1 run`, or the number of runs that count.
    pub fn runs_in_words(&self) -> String {
        if self.runs == 1 { "1 run".to_owned() } else { self.runs.to_string() }
    }
}

impl Comparison {
    /// The packet sizes of the programs, where they differ: a program and its bytes each.
    pub fn unlike_packets(&self) -> Vec<(String, u32)> {
        let mut sizes: Vec<(String, u32)> = Vec::new();
        for row in self.rows() {
            let Some(size) = row.packet_size else { continue };
            match sizes.iter_mut().find(|(program, _)| *program == row.program) {
                Some((_, largest)) => *largest = size.max(*largest),
                None => sizes.push((row.program, size)),
            }
        }
        if sizes.windows(2).all(|pair| pair[0].1 == pair[1].1) {
            sizes.clear();
        }
        sizes
    }

    /// Programs in the order in which they first ran.
    pub fn programs(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !all.contains(&run.program.as_str()) {
                all.push(&run.program);
            }
        }
        all
    }

    /// Loss rates, ascending.
    pub fn losses(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.runs.iter().map(|run| run.loss).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// Deliverable rate of the link at this loss rate, C (1 - p), bits per second.
    pub fn capacity_bps(&self, loss: f64) -> f64 {
        self.rate_bps * (1.0 - loss)
    }

    /// A row for each program and loss rate.
    pub fn rows(&self) -> Vec<Row> {
        let losses = self.losses();
        let cells = self
            .programs()
            .into_iter()
            .flat_map(|program| losses.iter().map(move |loss| (program, *loss)));
        cells.filter_map(|(program, loss)| self.row(program, loss)).collect()
    }

    fn row(&self, program: &str, loss: f64) -> Option<Row> {
        let of_cell = |run: &&Run| run.program == program && run.loss == loss;
        let runs: Vec<&Run> = self.runs.iter().filter(of_cell).collect();
        if runs.is_empty() {
            return None;
        }
        let capacity = self.capacity_bps(loss);
        let over = |value: &dyn Fn(&Run) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(|run| value(run)).collect();
            estimate(&values)
        };
        let alone = |value: fn(&Measured) -> f64| move |run: &Run| run.alone.as_ref().map(value);
        let ratio = |run: &Run| {
            let ratio = run.alone?.goodput_bps / run.simulated?.goodput_bps;
            ratio.is_finite().then_some(ratio)
        };
        let pair = |run: &&Run| Some((run.alone?.goodput_bps, run.simulated?.goodput_bps));
        let pairs: Vec<(f64, f64)> = runs.iter().filter_map(pair).collect();
        let ratios = runs.iter().filter_map(|run| ratio(run));
        let ratios = ratios.fold(None, |range: Option<(f64, f64)>, ratio| {
            Some(range.map_or((ratio, ratio), |(low, high)| (low.min(ratio), high.max(ratio))))
        });
        let used = runs.iter().filter(|run| run.alone.is_some()).count();
        Some(Row {
            program: program.to_owned(),
            loss,
            runs: used,
            unusable: runs.iter().filter(|run| run.unusable.is_some()).count(),
            packet_size: runs.iter().filter_map(|run| Some(run.alone?.packet_size)).max(),
            simulated_packet_size: runs
                .iter()
                .filter_map(|run| Some(run.simulated?.packet_size))
                .max(),
            goodput_bps: over(&alone(|measured| measured.goodput_bps)),
            share: over(&|run| Some(run.alone?.goodput_bps / capacity)),
            sent_per_delivered: over(&alone(|measured| measured.sent_per_delivered)),
            mean_queue_packets: over(&alone(|measured| measured.mean_queue_packets)),
            left: over(&|run| Some(run.beside?.rival_bps / capacity)),
            simulated_left: over(&|run| Some(run.simulated_beside?.rival_bps / capacity)),
            simulated_bps: over(&|run| Some(run.simulated?.goodput_bps)),
            ratio: ratio_of_means(&pairs, CONFIDENCE, (0.0, f64::INFINITY)),
            ratios,
        })
    }

    /// Writes all runs as CSV, a line each.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_runs(&self, out: impl Write + Send) -> io::Result<()> {
        let columns = [
            Column::new("program", Kind::Text),
            Column::new("loss", Kind::Real),
            Column::new("seed", Kind::Unsigned),
            Column::optional("goodput_bps", Kind::Real),
            Column::optional("arrived_bps", Kind::Real),
            Column::optional("sent_per_delivered", Kind::Real),
            Column::optional("mean_queue_packets", Kind::Real),
            Column::optional("simulated_goodput_bps", Kind::Real),
            Column::optional("simulated_arrived_bps", Kind::Real),
            Column::optional("simulated_sent_per_delivered", Kind::Real),
            Column::optional("simulated_mean_queue_packets", Kind::Real),
            Column::optional("beside_own_bps", Kind::Real),
            Column::optional("beside_rival_bps", Kind::Real),
            Column::optional("simulated_beside_own_bps", Kind::Real),
            Column::optional("simulated_beside_rival_bps", Kind::Real),
            Column::optional("packet_size_bytes", Kind::Count),
            Column::optional("simulated_packet_size_bytes", Kind::Count),
            Column::optional("goodput_counted_by", Kind::Text),
            Column::new("late_share", Kind::Real),
            Column::optional("programs_waited_share", Kind::Real),
            Column::optional("unusable", Kind::Text),
        ];
        let mut table = TableWriter::new(out, Format::Csv, "runs", &columns)?;
        for run in &self.runs {
            let measured = |of: &Option<Measured>| {
                let value = |value: fn(&Measured) -> f64| Cell::finite(of.as_ref().map(value));
                [
                    value(|of| of.goodput_bps),
                    value(|of| of.arrived_bps),
                    value(|of| of.sent_per_delivered),
                    value(|of| of.mean_queue_packets),
                ]
            };
            let mut cells =
                vec![Cell::text(&run.program), Cell::Real(run.loss), Cell::Count(run.seed)];
            cells.extend(measured(&run.alone));
            cells.extend(measured(&run.simulated));
            cells.push(Cell::finite(run.beside.map(|beside| beside.own_bps)));
            cells.push(Cell::finite(run.beside.map(|beside| beside.rival_bps)));
            let simulated = run.simulated_beside;
            cells.push(Cell::finite(simulated.map(|beside| beside.own_bps)));
            cells.push(Cell::finite(simulated.map(|beside| beside.rival_bps)));
            cells.push(size(run.alone.map(|alone| alone.packet_size)));
            cells.push(size(run.simulated.map(|simulated| simulated.packet_size)));
            cells.push(run.alone.map_or(Cell::Empty, |alone| {
                Cell::text(if alone.counted_by_program { "program" } else { "port" })
            }));
            cells.push(Cell::Real(run.late_share));
            cells.push(Cell::finite(run.programs_waited_share));
            cells.push(run.unusable.as_deref().map_or(Cell::Empty, Cell::text));
            table.row(&cells)?;
        }
        table.finish().map(drop)
    }

    /// Writes the [rows](Comparison::rows) as CSV: the mean of each estimate and the ends of its
    /// interval.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write_rows(&self, out: impl Write + Send) -> io::Result<()> {
        const ESTIMATES: [&str; 8] = [
            "goodput_bps",
            "share",
            "sent_per_delivered",
            "mean_queue_packets",
            "left",
            "simulated_left",
            "simulated_bps",
            "ratio",
        ];
        let names: Vec<String> = ESTIMATES
            .iter()
            .flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}")))
            .chain(["ratio_least", "ratio_most"].map(str::to_owned))
            .collect();
        let mut columns = vec![
            Column::new("program", Kind::Text),
            Column::new("loss", Kind::Real),
            Column::new("runs", Kind::Count),
            Column::new("unusable", Kind::Count),
            Column::optional("packet_size_bytes", Kind::Count),
            Column::optional("simulated_packet_size_bytes", Kind::Count),
        ];
        columns.extend(names.iter().map(|name| Column::optional(name, Kind::Real)));
        let mut table = TableWriter::new(out, Format::Csv, "programs", &columns)?;
        for row in self.rows() {
            let mut cells = vec![
                Cell::text(&row.program),
                Cell::Real(row.loss),
                Cell::Count(row.runs as u64),
                Cell::Count(row.unusable as u64),
                size(row.packet_size),
                size(row.simulated_packet_size),
            ];
            for estimate in [
                row.goodput_bps,
                row.share,
                row.sent_per_delivered,
                row.mean_queue_packets,
                row.left,
                row.simulated_left,
                row.simulated_bps,
                row.ratio,
            ] {
                for end in [|e: Estimate| e.mean, |e: Estimate| e.low, |e: Estimate| e.high] {
                    cells.push(Cell::finite(estimate.map(end)));
                }
            }
            cells.push(Cell::finite(row.ratios.map(|ratios| ratios.0)));
            cells.push(Cell::finite(row.ratios.map(|ratios| ratios.1)));
            table.row(&cells)?;
        }
        table.finish().map(drop)
    }

    /// Indented JSON: the rows, then everything else.
    ///
    /// # Errors
    /// If a number cannot be written as JSON.
    pub fn to_json(&self) -> Result<String, ExperimentError> {
        #[derive(Serialize)]
        struct WithRows<'a> {
            rows: Vec<Row>,
            #[serde(flatten)]
            comparison: &'a Comparison,
        }
        let json = WithRows { rows: self.rows(), comparison: self };
        serde_json::to_string_pretty(&json)
            .map_err(|error| ExperimentError::Part(error.to_string()))
    }
}

fn size(bytes: Option<u32>) -> Cell<'static> {
    bytes.map_or(Cell::Empty, |bytes| Cell::Count(bytes.into()))
}

/// The folder of a comparison: its journal of finished runs, and the files that it ends with.
///
/// The journal is that of reports: each run is appended when it ends.
#[derive(Debug)]
pub struct Keeper(Folder);

impl Keeper {
    /// Opens or creates the folder of the comparison that `work` describes. With `resume`, it puts
    /// the finished runs of an interrupted comparison into `runs`, each at its number.
    ///
    /// # Errors
    /// If the folder cannot be opened, contains the page of another program, or has no runs of this
    /// comparison to resume.
    pub fn open(
        dir: &Path,
        work: &impl Hash,
        resume: bool,
        runs: &mut [Option<Run>],
    ) -> Result<Self, ExperimentError> {
        let mut folder = Folder::open(dir)?;
        let mut key = DefaultHasher::new();
        ("compare", work).hash(&mut key);
        let known: Vec<(u32, Run)> = folder.journal(key.finish(), resume)?;
        for (number, run) in known {
            if let Some(place) = runs.get_mut(number as usize) {
                *place = Some(run);
            }
        }
        Ok(Keeper(folder))
    }

    /// Appends a finished run with its number.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub fn keep(&mut self, number: u32, run: &Run) -> Result<(), ExperimentError> {
        self.0.record(&(number, run))
    }

    /// Writes the files of the complete comparison and closes the journal.
    ///
    /// # Errors
    /// If a file cannot be written; the journal stays open then.
    pub fn finish(
        mut self,
        write: impl FnOnce(&mut OutputDir) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let mut out = self.0.output()?;
        write(&mut out)?;
        out.commit()?;
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{comparison, run_of_program};

    #[test]
    fn rows_are_those_runs_that_count() {
        let rows = comparison().rows();
        let [a, b] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((a.runs, a.unusable, b.runs, b.unusable), (3, 1, 1, 0));
        // 2, 3 and 4 of 10 * (1 - 0.5) Mbit/s.
        let share = a.share.unwrap();
        assert!((share.mean - 0.6).abs() < 1e-12);
        // Standard deviation 0.2 over the root of 3, t(0.975, 2) = 4.30265: 0.49683.
        assert!((share.high - share.mean - 0.49683).abs() < 1e-4, "{share:?}");
        // Real over simulated: 0.5, 1, 0.75.
        assert_eq!((a.ratio.unwrap().mean, a.ratios), (0.75, Some((0.5, 1.0))));
        assert!((a.left.unwrap().mean - 0.4).abs() < 1e-12);
        assert!((b.left.unwrap().mean - 0.2).abs() < 1e-12);
        // 1 of 10 Mbit/s.
        assert!((b.simulated_left.unwrap().mean - 0.1).abs() < 1e-12);
        assert_eq!(b.share.unwrap().high, f64::INFINITY);
    }

    #[test]
    fn tables_have_a_line_for_each_run_and_each_row() {
        let comparison = comparison();
        let mut text = Vec::new();
        comparison.write_runs(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[4].starts_with("a,0.5,4,,,,,4000000,") && lines[4].ends_with(",late"));
        let mut text = Vec::new();
        comparison.write_rows(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.split(',').count() == 32), "{text}");
        // One run has no interval: both ends are empty. The packet size stands before the goodput.
        let b = text.lines().nth(2).unwrap();
        assert!(b.starts_with("b<i>,0,1,0,1500,1500,4000000,,,0.4,,,"), "{b}");
    }

    #[test]
    fn finished_runs_are_found_again_and_only_by_the_same_work() {
        let dir = tempfile::tempdir().unwrap();
        let (out, run) = (dir.path().join("out"), run_of_program("a", 0.5, 1, 2e6));
        let open = |work: &str, resume| {
            let mut runs = vec![None; 4];
            Keeper::open(&out, &work, resume, &mut runs).map(|keeper| (keeper, runs))
        };
        let (mut first, runs) = open("work", false).unwrap();
        assert_eq!(runs, [None, None, None, None]);
        first.keep(3, &run).unwrap();
        drop(first);
        let wrong = open("other work", true).unwrap_err().to_string();
        assert!(wrong.contains("another run was interrupted"), "{wrong}");
        let (second, runs) = open("work", true).unwrap();
        assert_eq!(runs, [None, None, None, Some(run)]);
        let write = |dir: &mut OutputDir| Ok(dir.write("runs.csv", |file| file.write_all(b"x"))?);
        second.finish(write).unwrap();
        assert!(out.join("runs.csv").exists());
        let nothing = open("other work", true).unwrap_err().to_string();
        assert!(nothing.contains("nothing to resume"), "{nothing}");
        // The complete one is read again, as often as it is asked for.
        for _ in 0..2 {
            let (again, runs) = open("work", true).unwrap();
            assert_eq!(runs, [None, None, None, Some(run_of_program("a", 0.5, 1, 2e6))]);
            again.finish(|_| Ok(())).unwrap();
        }
    }
}
