//! One row per run: which columns there are, and what a run says in each.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use windward_sim::table::Kind;
use windward_sim::{GroupOutcome, LinkOutcome, Scenario, record};

use crate::experiment::Experiment;
use crate::sweep::Run;
use crate::table::{Column, Table, Values};

/// The parts of scenarios that have columns of their own. They follow from the scenarios and not
/// from what runs find: runs that are done apart have the same columns.
///
/// A scenario need not have all of them; its row has empty cells there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunColumns {
    groups: BTreeSet<String>,
    /// Those that lie on the route of a flow.
    links: BTreeSet<String>,
}

/// What one run says in each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Its number among the runs of the experiment, from zero.
    pub run: u64,
    /// One cell per column.
    pub cells: Vec<Value>,
}

/// A cell of a [`Row`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// Words.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A real number.
    Real(f64),
    /// None: no such part in the scenario, or no number, as 0/0.
    Empty,
}

impl Value {
    fn real(x: f64) -> Self {
        if x.is_finite() { Value::Real(x) } else { Value::Empty }
    }
}

/// What is told of a part: the name of the column, what its cells hold, and how they are read.
type Told<T> = (&'static str, Kind, fn(&T) -> Value);

/// What is told of each group.
const OF_GROUPS: [Told<GroupOutcome>; 7] = [
    ("throughput_bps", Kind::Real, |g| Value::real(g.throughput_bps)),
    ("goodput_bps", Kind::Real, |g| Value::real(g.goodput_bps)),
    ("throughput_cv", Kind::Real, |g| Value::real(g.throughput_cv())),
    ("mean_cwnd_packets", Kind::Real, |g| Value::real(g.mean_cwnd)),
    ("packets_sent", Kind::Unsigned, |g| Value::Count(g.packets_sent)),
    ("retransmissions", Kind::Unsigned, |g| Value::Count(g.retransmissions)),
    ("timeouts", Kind::Unsigned, |g| Value::Count(g.timeouts)),
];

/// The same of each link.
const OF_LINKS: [Told<LinkOutcome>; 4] = [
    ("utilization", Kind::Real, |l| Value::real(l.utilization)),
    ("mean_queue_packets", Kind::Real, |l| Value::real(l.mean_queue_packets)),
    ("dropped", Kind::Unsigned, |l| Value::Count(l.dropped)),
    ("corrupted", Kind::Unsigned, |l| Value::Count(l.corrupted)),
];

/// Of parts with one name the first counts.
fn by_name<'a, T>(parts: impl Iterator<Item = (&'a str, T)>) -> HashMap<&'a str, T> {
    let mut found = HashMap::new();
    for (name, part) in parts {
        found.entry(name).or_insert(part);
    }
    found
}

impl RunColumns {
    /// Those of some scenarios.
    pub fn of<'a>(scenarios: impl IntoIterator<Item = &'a Scenario>) -> Self {
        let mut columns = RunColumns::default();
        scenarios.into_iter().for_each(|scenario| columns.add(scenario));
        columns
    }

    /// Those of one more.
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

    /// Name and kind of each column: labels, repetition, seed, metrics, then what was measured of
    /// each group and link and of the run as a whole.
    pub fn names(&self, experiment: &Experiment) -> Vec<(String, Kind)> {
        let mut names: Vec<(String, Kind)> = Vec::new();
        names.extend(experiment.axes.iter().map(|axis| (axis.name.clone(), Kind::Text)));
        names.extend(["repetition", "seed"].map(|name| (name.to_owned(), Kind::Unsigned)));
        names.extend(experiment.metrics.iter().map(|metric| (metric.name.clone(), Kind::Real)));
        for group in &self.groups {
            names.extend(OF_GROUPS.map(|(column, kind, _)| (format!("{group}.{column}"), kind)));
        }
        for link in &self.links {
            names.extend(OF_LINKS.map(|(column, kind, _)| (format!("{link}.{column}"), kind)));
        }
        names.push(("run.jain".to_owned(), Kind::Real));
        names.push(("run.fingerprint".to_owned(), Kind::Text));
        names
    }

    /// What a run says in each of them.
    pub fn cells(&self, experiment: &Experiment, run: &Run) -> Vec<Value> {
        let outcome = &run.outcome;
        let mut cells = Vec::new();
        let labels = experiment.points(run.cell).into_iter();
        cells.extend(labels.map(|point| Value::Text(point.label.clone())));
        cells.push(Value::Count(u64::from(run.repetition)));
        cells.push(Value::Count(outcome.seed));
        cells.extend(run.metrics.iter().map(|x| Value::real(*x)));
        let groups = by_name(outcome.groups.iter().map(|g| (g.name.as_str(), g)));
        for name in &self.groups {
            let group = groups.get(name.as_str());
            cells.extend(OF_GROUPS.map(|(_, _, read)| group.map_or(Value::Empty, |g| read(g))));
        }
        let links = by_name(outcome.links.iter().map(|l| (l.name.as_str(), l)));
        for name in &self.links {
            let link = links.get(name.as_str());
            cells.extend(OF_LINKS.map(|(_, _, read)| link.map_or(Value::Empty, |l| read(l))));
        }
        cells.push(Value::real(outcome.jain));
        cells.push(Value::Text(record::fingerprint(outcome)));
        cells
    }

    /// A part of the scenario that has no columns here.
    pub fn lacks(&self, scenario: &Scenario) -> Option<String> {
        let mut own = RunColumns::default();
        own.add(scenario);
        let group = own.groups.difference(&self.groups).next();
        let link = own.links.difference(&self.links).next();
        let group = group.map(|name| format!("group `{name}`"));
        group.or_else(|| link.map(|name| format!("link `{name}`")))
    }
}

impl Table {
    /// The table of rows: all of them have a cell of its kind for each column, or none.
    pub fn of_rows(columns: &[(String, Kind)], rows: impl IntoIterator<Item = Vec<Value>>) -> Self {
        let empty = columns.iter().map(|(name, kind)| {
            let values = match kind {
                Kind::Text => Values::Text(Vec::new()),
                Kind::Real => Values::Real(Vec::new()),
                Kind::Count | Kind::Unsigned => Values::Count(Vec::new()),
            };
            Column { name: name.clone(), values }
        });
        let mut table = Table { columns: empty.collect() };
        for row in rows {
            debug_assert_eq!(row.len(), columns.len());
            for (column, cell) in table.columns.iter_mut().zip(row) {
                match (&mut column.values, cell) {
                    (Values::Text(texts), Value::Text(text)) => texts.push(text),
                    (Values::Text(texts), _) => texts.push(String::new()),
                    (Values::Count(counts), Value::Count(n)) => counts.push(Some(n)),
                    (Values::Count(counts), _) => counts.push(None),
                    (Values::Real(reals), Value::Real(x)) => reals.push(Some(x)),
                    (Values::Real(reals), _) => reals.push(None),
                }
            }
        }
        table
    }
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
        // The second flow's first and last hop, each with its way back.
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
}
