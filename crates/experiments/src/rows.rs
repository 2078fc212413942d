//! One row per run: the columns, and the values of a run.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use windward_sim::metric::Metric;
use windward_sim::table::{Cell, Column, Kind, Table};
use windward_sim::{self as sim, GroupOutcome, LinkOutcome, Outcome, Scenario};

use crate::experiment::Experiment;
use crate::sweep::Run;

/// The parts of scenarios that have columns. They follow from the scenarios and not from the
/// outcomes: runs on different machines have the same columns.
///
/// A scenario without one of them has empty cells in its row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunColumns {
    groups: BTreeSet<String>,
    /// Links on the route of a flow.
    links: BTreeSet<String>,
}

/// The values of one run in each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Index among the runs of the experiment.
    pub run: u64,
    /// One cell per column.
    pub cells: Vec<Cell<'static>>,
}

/// Metrics of a part of a scenario in rows of runs, in the order of their columns.
fn told<T: sim::Row>() -> Vec<&'static Metric<T, T::Of>> {
    let mut told: Vec<_> = T::shown().filter(|metric| metric.in_run_rows.is_some()).collect();
    told.sort_by_key(|metric| metric.in_run_rows);
    told
}

/// Type of the cells of a metric in the tables of experiments: integers have 64 bits.
pub(crate) fn kind_of<T, C>(metric: &Metric<T, C>) -> Kind {
    if metric.kind == Kind::Count { Kind::Unsigned } else { metric.kind }
}

/// Parts by name; of several with one name, the first.
fn by_name<'a, T>(parts: impl Iterator<Item = (&'a str, T)>) -> HashMap<&'a str, T> {
    let mut found = HashMap::new();
    for (name, part) in parts {
        found.entry(name).or_insert(part);
    }
    found
}

impl RunColumns {
    /// Parts of some scenarios.
    pub fn of<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> Self {
        let mut columns = RunColumns::default();
        scenarios.into_iter().for_each(|scenario| columns.add(scenario));
        columns
    }

    /// Adds the parts of a further scenario.
    pub fn add(&mut self, scenario: &Scenario) {
        for group in &scenario.groups {
            if !self.groups.contains(group.as_str()) {
                self.groups.insert(group.clone());
            }
        }
        for flow in &scenario.flows {
            for link in flow.forward.iter().chain(&flow.reverse) {
                let name = scenario.links[*link].name.as_str();
                if !self.links.contains(name) {
                    self.links.insert(name.to_owned());
                }
            }
        }
    }

    /// Name and kind of each column: labels, repetition, seed, metrics, then the outcomes of each
    /// group, each link and the run.
    pub fn names(&self, experiment: &Experiment) -> Vec<(String, Kind)> {
        let mut names: Vec<(String, Kind)> = Vec::new();
        names.extend(experiment.axes.iter().map(|axis| (axis.name.clone(), Kind::Text)));
        names.extend(["repetition", "seed"].map(|name| (name.to_owned(), Kind::Unsigned)));
        names.extend(experiment.metrics.iter().map(|metric| (metric.name.clone(), Kind::Real)));
        for group in &self.groups {
            let told = told::<GroupOutcome>().into_iter();
            names.extend(told.map(|of| (format!("{group}.{}", of.name), kind_of(of))));
        }
        for link in &self.links {
            let told = told::<LinkOutcome>().into_iter();
            names.extend(told.map(|of| (format!("{link}.{}", of.name), kind_of(of))));
        }
        let told = told::<Outcome>().into_iter();
        names.extend(told.map(|of| (format!("run.{}", of.name), kind_of(of))));
        names
    }

    /// The values of a run in each column.
    pub fn cells<'a>(&self, experiment: &'a Experiment, run: &'a Run) -> Vec<Cell<'a>> {
        /// Adds the cells of a part, which are empty if the run does not have it.
        fn add<'a, T: sim::Row<Of = Outcome>>(
            cells: &mut Vec<Cell<'a>>,
            part: Option<&'a T>,
            outcome: &'a Outcome,
        ) {
            let told = told::<T>().into_iter();
            cells.extend(
                told.map(|of| part.map_or(Cell::Empty, |part| of.of_row(part, outcome).or_empty())),
            );
        }
        let outcome = &run.outcome;
        let mut cells = Vec::new();
        let labels = experiment.points(run.cell).into_iter();
        cells.extend(labels.map(|point| Cell::text(&point.label)));
        cells.push(Cell::Count(u64::from(run.repetition)));
        cells.push(Cell::Count(outcome.seed));
        cells.extend(run.metrics.iter().map(|x| Cell::finite(Some(*x))));
        let groups = by_name(outcome.groups.iter().map(|g| (g.name.as_str(), g)));
        for name in &self.groups {
            add(&mut cells, groups.get(name.as_str()).copied(), outcome);
        }
        let links = by_name(outcome.links.iter().map(|l| (l.name.as_str(), l)));
        for name in &self.links {
            add(&mut cells, links.get(name.as_str()).copied(), outcome);
        }
        add(&mut cells, Some(outcome), outcome);
        cells
    }

    /// The first part of the scenario without columns.
    pub fn lacks(&self, scenario: &Scenario) -> Option<String> {
        let mut own = RunColumns::default();
        own.add(scenario);
        let group = own.groups.difference(&self.groups).next();
        let link = own.links.difference(&self.links).next();
        let group = group.map(|name| format!("group `{name}`"));
        group.or_else(|| link.map(|name| format!("link `{name}`")))
    }
}

/// The table of rows. Each row has a cell of the right kind for each column; all but texts may be
/// empty.
pub fn table_of<'a>(
    columns: &[(String, Kind)],
    rows: impl IntoIterator<Item = Vec<Cell<'a>>>,
) -> Table {
    let columns = columns.iter().map(|(name, kind)| Column {
        name,
        kind: *kind,
        optional: *kind != Kind::Text,
    });
    Table::of_rows(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Deviation, Effort};
    use crate::testing::experiment;

    #[test]
    fn links_on_no_route_have_no_columns() {
        let experiment = experiment();
        let length = experiment.run_length(&Effort::Quick);
        let mut scenario = experiment.scenario(0, &length, &Deviation::PLAIN).unwrap();
        let whole = RunColumns::of([&scenario]);
        scenario.flows.truncate(1);
        let one = RunColumns::of([&scenario]);
        // The second flow's first and last hop, each with its reverse link.
        assert_eq!(whole.links.len(), one.links.len() + 4);
        assert!(one.links.contains("bottleneck-reverse"));
        assert_eq!(one.groups, whole.groups);
        assert_eq!(whole.lacks(&scenario), None);
    }

    #[test]
    fn a_part_without_columns_is_named() {
        let experiment = experiment();
        let length = experiment.run_length(&Effort::Quick);
        let scenario = experiment.scenario(0, &length, &Deviation::PLAIN).unwrap();
        let mut columns = RunColumns::of([&scenario]);
        columns.links.remove("bottleneck");
        assert_eq!(columns.lacks(&scenario).unwrap(), "link `bottleneck`");
        columns.groups.remove("lossy");
        assert_eq!(columns.lacks(&scenario).unwrap(), "group `lossy`");
    }

    /// `BLESS=1 cargo test -p windward-experiments outputs_guide` writes the table.
    #[test]
    fn the_outputs_guide_has_the_columns_of_sweeps() {
        use sim::Row as _;

        fn list<T: sim::Row>(
            prefix: &str,
            metrics: impl IntoIterator<Item = &'static Metric<T, T::Of>>,
        ) -> String {
            let names = metrics.into_iter().map(|of| format!("`{prefix}.{}`", of.name));
            names.collect::<Vec<_>>().join(", ")
        }
        let in_flow_rows = sim::FlowOutcome::shown().filter(|metric| metric.in_flow_rows);
        let text = format!(
            "| file | a row for each | columns after those |\n|---|---|---|\n\
             | `ID.csv`, `ID.parquet` | run | each metric; of each group {}; of each link that was used {}; {} |\n\
             | `ID-flows.csv`, `.parquet` | flow of a run | {} |\n\
             | `ID-transfers.csv`, `.parquet` | transfer of a run that arrived by itself | {} |\n\
             | `ID-series.csv` | bin of a run | `bin_start_s`; `GROUP.throughput_bps`, and with `flow_bins` `flow.FLOW.throughput_bps` |\n\
             | `ID-samples.csv` | sample of a run | `time_s`; what charts draw: `LINK.queue_packets`, `LINK.signal`, `FLOW.cwnd_packets` |\n\
             | `ID-readings.csv` | run that only a verdict asked for | between axes and repetition `run.reading`, what was read otherwise than plainly; then each metric |\n",
            list("GROUP", told::<GroupOutcome>()),
            list("LINK", told::<LinkOutcome>()),
            list("run", told::<Outcome>()),
            list("flow", in_flow_rows),
            list("transfer", sim::TransferOutcome::shown()),
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/outputs.md");
        let guide = std::fs::read_to_string(path).unwrap();
        let (begin, end) = ("<!-- generated: sweeps -->\n", "<!-- end: sweeps -->");
        let (before, rest) = guide.split_once(begin).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        let written = format!("{before}{begin}{text}{end}{after}");
        if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
            std::fs::write(path, &written).unwrap();
        } else {
            let how = "`BLESS=1 cargo test -p windward-experiments outputs_guide`";
            assert!(written == guide, "docs/outputs.md is out of date; {how} writes its tables");
        }
    }
}
