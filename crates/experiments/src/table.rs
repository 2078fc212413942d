//! Tables of results as CSV and Parquet: the same columns in both.
//!
//! Axes and metrics have columns of their own names, without dots, and `repetition`, `seed`,
//! `time_s` and `bin_start_s` are reserved. Columns of outcomes have a dot in their name, after the
//! group, link or flow, or after `run`. No table therefore has two columns of one name.

use std::io::{self, Write};

use serde_json::json;
use windward_sim::metric::Metric;
use windward_sim::output::{OutputDir, StagedFile};
use windward_sim::table::{Kind, Table, TableColumn, Values};
use windward_sim::{FlowOutcome, Outcome, Row, Samples, TransferOutcome};

use crate::ExperimentError;
use crate::campaign::RunRecord;
use crate::experiment::{PlotKind, Traced};
use crate::rows::{RunColumns, kind_of, table_of};
use crate::sweep::{Plan, Results, Run};

impl Results {
    /// One row per run: labels, seed, metrics, then the outcomes of each group and of each link on
    /// a route.
    pub fn run_table(&self) -> Table {
        let columns = RunColumns::of(&self.plan.scenarios);
        let experiment = &self.plan.experiment;
        let rows = self.runs.iter().map(|run| columns.cells(experiment, run));
        table_of(&columns.names(experiment), rows)
    }

    /// One row per flow of each run.
    pub fn flow_table(&self) -> Table {
        let rows = self.runs.iter().flat_map(|r| r.outcome.flows.iter().map(move |f| (r, f)));
        let metrics = FlowOutcome::shown().filter(|metric| metric.in_flow_rows);
        self.rows_of("flow", &rows.collect::<Vec<_>>(), metrics)
    }

    /// One row per arrival (a transfer opened by `arrivals`) of each run.
    pub fn transfer_table(&self) -> Table {
        let rows = self.runs.iter();
        let rows = rows.flat_map(|r| r.outcome.transfers.iter().map(move |t| (r, t)));
        self.rows_of("transfer", &rows.collect::<Vec<_>>(), TransferOutcome::shown())
    }

    fn rows_of<T: Row<Of = Outcome>>(
        &self,
        what: &str,
        rows: &[(&Run, &T)],
        metrics: impl Iterator<Item = &'static Metric<T, Outcome>>,
    ) -> Table {
        let mut table = self.keys(&rows.iter().map(|(r, _)| *r).collect::<Vec<_>>());
        for metric in metrics {
            let mut values = Values::new(kind_of(metric));
            for (run, row) in rows {
                values.push(&metric.of_row(row, &run.outcome).or_empty());
            }
            let optional = metric.kind != Kind::Text;
            let name = format!("{what}.{}", metric.name);
            table.columns.push(TableColumn { name, optional, values });
        }
        table
    }

    /// One row per time bin of each run: the throughput of every group, and of every flow if the
    /// scenario keeps it.
    pub fn series_table(&self) -> Table {
        let bins = |r: &Run| r.outcome.groups.iter().map(|g| g.throughput_bins.len()).max();
        let rows = self.runs.iter();
        let rows = rows.flat_map(|r| (0..bins(r).unwrap_or(0)).map(move |bin| (r, bin)));
        let rows: Vec<(&Run, usize)> = rows.collect();
        let mut table = self.keys(&rows.iter().map(|(r, _)| *r).collect::<Vec<_>>());
        let start = |(r, bin): &(&Run, usize)| {
            let width = self.plan.scenarios[r.cell].bin.as_secs_f64();
            Some(width * *bin as f64)
        };
        table.add_reals("bin_start_s", rows.iter().map(start));
        let mut names: Vec<&str> = Vec::new();
        for group in self.runs.iter().flat_map(|r| &r.outcome.groups) {
            if !names.contains(&group.name.as_str()) {
                names.push(&group.name);
            }
        }
        for name in names {
            let value = |(r, bin): &(&Run, usize)| {
                let group = r.outcome.groups.iter().find(|g| g.name == name)?;
                group.throughput_bins.get(*bin).copied()
            };
            table.add_reals(format!("{name}.throughput_bps"), rows.iter().map(value));
        }
        let mut names: Vec<&str> = Vec::new();
        for flow in self.runs.iter().flat_map(|r| &r.outcome.flows) {
            if !flow.throughput_bins.is_empty() && !names.contains(&flow.name.as_str()) {
                names.push(&flow.name);
            }
        }
        for name in names {
            let value = |(r, bin): &(&Run, usize)| {
                let flow = r.outcome.flows.iter().find(|f| f.name == name)?;
                flow.throughput_bins.get(*bin).copied()
            };
            // A group may have the name of a flow of another group.
            table.add_reals(format!("flow.{name}.throughput_bps"), rows.iter().map(value));
        }
        table
    }

    /// One row per sample of each run that kept its samples, with the values that charts draw.
    pub fn sample_table(&self) -> Table {
        let times = |r: &Run| r.outcome.samples.as_ref().map_or(0, |s| s.times.len());
        let rows = self.runs.iter().flat_map(|r| (0..times(r)).map(move |i| (r, i)));
        let rows: Vec<(&Run, usize)> = rows.collect();
        let mut table = self.keys(&rows.iter().map(|(r, _)| *r).collect::<Vec<_>>());
        let mut push = |name: String, read: &dyn Fn(&Run, &Samples, usize) -> Option<f64>| {
            let value = |(r, i): &(&Run, usize)| {
                let samples = r.outcome.samples.as_ref()?;
                read(r, samples, *i)
            };
            table.add_reals(name, rows.iter().map(value));
        };
        push("time_s".to_owned(), &|_, samples, i| Some(samples.times[i].as_secs_f64()));
        let mut done: Vec<(Traced, &str)> = Vec::new();
        for plot in &self.plan.experiment.plots {
            let PlotKind::Time { what, names, .. } = &plot.kind else { continue };
            for name in names.iter().filter(|_| what.is_sampled()) {
                if done.contains(&(*what, name)) {
                    continue;
                }
                done.push((*what, name));
                let link = |r: &Run| r.outcome.links.iter().position(|l| l.name == *name);
                match what {
                    Traced::Queue => push(format!("{name}.queue_packets"), &|r, samples, i| {
                        Some(f64::from(*samples.links[link(r)?].queue.get(i)?))
                    }),
                    Traced::Signal => push(format!("{name}.signal"), &|r, samples, i| {
                        *samples.links[link(r)?].signal.get(i)?
                    }),
                    Traced::Cwnd => {
                        let mut flows: Vec<&str> = Vec::new();
                        for r in &self.runs {
                            let group = r.outcome.groups.iter().position(|g| g.name == *name);
                            let own = r.outcome.flows.iter().filter(|f| Some(f.group) == group);
                            for flow in own {
                                if !flows.contains(&flow.name.as_str()) {
                                    flows.push(&flow.name);
                                }
                            }
                        }
                        for flow in flows {
                            push(format!("{flow}.cwnd_packets"), &|r, samples, i| {
                                let index = r.outcome.flows.iter().position(|f| f.name == flow)?;
                                samples.cwnd[index].get(i).copied()
                            });
                        }
                    }
                    Traced::Throughput | Traced::FlowThroughput => {}
                }
            }
        }
        table
    }

    /// The columns that identify the run of a row.
    fn keys(&self, rows: &[&Run]) -> Table {
        let mut table = Table::default();
        let experiment = &self.plan.experiment;
        for (a, axis) in experiment.axes.iter().enumerate() {
            let label = |r: &&Run| experiment.points(r.cell)[a].label.clone();
            table.add_texts(&axis.name, rows.iter().map(label));
        }
        let repetition = rows.iter().map(|r| Some(u64::from(r.repetition)));
        table.add_counts("repetition", repetition);
        table.add_counts("seed", rows.iter().map(|r| Some(r.outcome.seed)));
        table
    }

    /// Stages `<id>.csv` (a row per run), `<id>-series.csv` if a chart shows throughput over time,
    /// `<id>-samples.csv` if one shows samples; with `every` also `<id>.parquet` and, with a row
    /// per flow, `<id>-flows.csv` and `.parquet`. Returns their names.
    pub fn stage_tables(
        &self,
        dir: &mut OutputDir,
        every: bool,
    ) -> Result<Vec<String>, ExperimentError> {
        let experiment = &self.plan.experiment;
        let mut names = Vec::new();
        let mut stage = |end: &str, write: &dyn Fn(&mut StagedFile) -> io::Result<()>| {
            names.push(format!("{}{end}", experiment.id));
            dir.write(names.last().map_or("", String::as_str), |out| write(out))
        };
        let runs = self.run_table();
        stage(".csv", &|out| runs.write_csv(out))?;
        if every {
            let flows = self.flow_table();
            stage(".parquet", &|out| runs.write_parquet(out))?;
            stage("-flows.csv", &|out| flows.write_csv(out))?;
            stage("-flows.parquet", &|out| flows.write_parquet(out))?;
            let transfers = self.transfer_table();
            if transfers.rows() > 0 {
                stage("-transfers.csv", &|out| transfers.write_csv(out))?;
                stage("-transfers.parquet", &|out| transfers.write_parquet(out))?;
            }
        }
        let traced = experiment.plots.iter().filter_map(|p| match p.kind {
            PlotKind::Time { what, .. } => Some(what.is_sampled()),
            _ => None,
        });
        let traced: Vec<bool> = traced.collect();
        if traced.contains(&false) {
            let series = self.series_table();
            stage("-series.csv", &|out| series.write_csv(out))?;
        }
        if traced.contains(&true) {
            let samples = self.sample_table();
            stage("-samples.csv", &|out| samples.write_csv(out))?;
        }
        Ok(names)
    }
}

/// Every file that an experiment may have in a report.
pub fn tables_of(id: &str) -> Vec<String> {
    let ends = [
        ".csv",
        ".svg",
        ".parquet",
        "-flows.csv",
        "-flows.parquet",
        "-transfers.csv",
        "-transfers.parquet",
        "-series.csv",
        "-samples.csv",
        "-readings.csv",
    ];
    ends.iter().map(|end| format!("{id}{end}")).collect()
}

/// One row per run that only verdicts needed: further repetitions, and other readings.
pub fn readings_table(plan: &Plan, runs: &[RunRecord]) -> Table {
    let experiment = &plan.experiment;
    let mut table = Table::default();
    for (a, axis) in experiment.axes.iter().enumerate() {
        let labels = runs.iter().map(|r| experiment.points(r.cell)[a].label.clone());
        table.add_texts(&axis.name, labels);
    }
    let reading = runs.iter().map(|r| r.reading.to_string());
    table.add_texts("run.reading", reading);
    let repetition = runs.iter().map(|r| Some(u64::from(r.repetition)));
    table.add_counts("repetition", repetition);
    let seed = |r: &RunRecord| plan.scenarios[r.cell].seed.wrapping_add(u64::from(r.repetition));
    table.add_counts("seed", runs.iter().map(|r| Some(seed(r))));
    for (m, metric) in experiment.metrics.iter().enumerate() {
        table.add_reals(&metric.name, runs.iter().map(|r| Some(r.metrics[m])));
    }
    table
}

/// Everything needed to reproduce the results of an experiment.
pub fn manifest_entry(results: &Results) -> serde_json::Value {
    let plan = &results.plan;
    let seed = results.runs.first().map(|run| run.outcome.seed);
    let set =
        plan.experiment.revision.overrides.iter().map(|(key, value)| format!("{key}={value}"));
    let set: Vec<String> = set.collect();
    json!({
        "id": plan.experiment.id,
        "file": plan.experiment.file,
        "configuration_hash": format!("{:016x}", plan.experiment.revision.configuration_hash),
        "set": set,
        "seed": seed,
        "repetitions": plan.length.repetitions,
        "at_most": plan.length.at_most,
        "duration": plan.length.duration,
        "warmup": plan.length.warmup,
        "cells": plan.scenarios.len(),
        "runs": results.runs.len(),
        "command": plan.experiment.command(&plan.effort),
    })
}

/// Writes an indented JSON document.
///
/// # Errors
/// If `out` cannot be written.
pub fn write_json(out: &mut impl Write, value: &serde_json::Value) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests;
