//! The properties of every protocol, from the experiments of the matrix.
//!
//! A row per protocol, in the order of the table; a column per property. The reference values of
//! shares (capacity, loss rate, queue, number of flows) come from the scenario of the cell, so that
//! only the experiment files define the link.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use windward_core::network::{ChannelConfig, QueueLimit};
use windward_core::protocols::{PROTOCOLS, Protocol};
use windward_experiments::claims::interval;
use windward_experiments::experiment::Experiment;
use windward_experiments::statistics::{Estimate, estimate};
use windward_experiments::sweep::Results;
use windward_sim::Scenario;
use windward_sim::table::Table;

use crate::plot::escape;

/// The common axis of all experiments of the matrix.
const PROTOCOL: &str = "protocol";

/// A property: a metric of an experiment, at every loss rate or only without loss.
#[derive(Debug)]
struct Property {
    experiment: &'static str,
    metric: &'static str,
    /// Its column in `matrix.csv`.
    name: &'static str,
    /// Heading above the columns of the group.
    group: &'static str,
    /// Heading of the single column; with a column per loss rate, the rate.
    title: &'static str,
    about: &'static str,
    every_loss: bool,
    /// The number shown, from the metric.
    value: fn(f64, &Scenario) -> f64,
    /// Merit of the number shown, 0 to 1.
    merit: fn(f64, &Scenario) -> f64,
    decimals: usize,
}

static PROPERTIES: [Property; 5] = [
    Property {
        experiment: "matrix-goodput",
        metric: "goodput",
        name: "goodput_share",
        group: "Goodput over C(1 \u{2212} p)",
        title: "",
        about: "Goodput of one flow over the deliverable rate of the link, C(1 - p).",
        every_loss: true,
        value: |goodput, s| goodput / (capacity(s) * (1.0 - loss(s))),
        merit: |share, _| share,
        decimals: 2,
    },
    Property {
        experiment: "matrix-beside-newreno",
        metric: "ratio",
        name: "throughput_over_newreno",
        group: "Fairness",
        title: "to newreno",
        about: "Throughput divided by that of one competing newreno flow in the same queue, without \
                loss; 1 is an equal share.",
        every_loss: false,
        value: |ratio, _| ratio,
        // Twice the other's throughput is as unfair as half of it.
        merit: |ratio, _| ratio.min(1.0 / ratio),
        decimals: 2,
    },
    Property {
        experiment: "matrix-beside-itself",
        metric: "jain",
        name: "jain_of_four",
        group: "Fairness",
        title: "to itself",
        about: "Jain's index of four flows of the protocol, without loss; 1 is equal shares.",
        every_loss: false,
        value: |jain, _| jain,
        // The index of n flows lies between 1/n and 1.
        merit: |jain, s| {
            let least = 1.0 / s.flows.len() as f64;
            (jain - least) / (1.0 - least)
        },
        decimals: 3,
    },
    Property {
        experiment: "matrix-goodput",
        metric: "queue",
        name: "mean_queue_packets",
        group: "Queue",
        title: "packets",
        about: "Mean queue of one flow without loss, packets.",
        every_loss: false,
        value: |queue, _| queue,
        merit: |queue, s| 1.0 - queue / queue_limit(s),
        decimals: 1,
    },
    Property {
        experiment: "matrix-goodput",
        metric: "dropped",
        name: "induced_loss_percent",
        group: "Loss",
        title: "induced, %",
        about: "Drops of the queue as a percentage of the packets of one flow that arrive at it, \
                without loss on the link.",
        every_loss: false,
        value: |share, _| share * 100.0,
        // From 0.01 % to 1 %, logarithmic.
        merit: |percent, _| 1.0 - (percent.log10() + 2.0) / 2.0,
        decimals: 2,
    },
];

fn capacity(s: &Scenario) -> f64 {
    bottleneck(s).map_or(f64::NAN, |l| l.kind.rate.mean().as_bps() as f64)
}

fn loss(s: &Scenario) -> f64 {
    match bottleneck(s).map(|l| &l.kind.channel) {
        Some(ChannelConfig::Clean) => 0.0,
        Some(ChannelConfig::PacketLoss(p)) => p.get(),
        _ => f64::NAN,
    }
}

fn queue_limit(s: &Scenario) -> f64 {
    match bottleneck(s).map(|l| l.kind.queue.limit) {
        Some(QueueLimit::Packets(packets)) => f64::from(packets),
        _ => f64::NAN,
    }
}

fn bottleneck(s: &Scenario) -> Option<&windward_sim::scenario::LinkConfig> {
    s.links.get(s.flows.first()?.bottleneck)
}

/// One column of the table: a property at one loss rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PropertyColumn {
    /// Index of the property.
    property: usize,
    /// Loss rate as the experiment writes it; empty without such an axis.
    loss: String,
    /// Link and length of the runs.
    setting: String,
    /// By protocol.
    cells: Vec<(String, Cell)>,
}

/// A cell of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Cell {
    Value { interval: Estimate, merit: f64 },
    Nothing { reason: String },
}

impl PropertyColumn {
    fn property(&self) -> &'static Property {
        &PROPERTIES[self.property.min(PROPERTIES.len() - 1)]
    }

    fn cell(&self, protocol: &Protocol) -> Cell {
        let found = self.cells.iter().find(|(name, _)| name == protocol.name);
        found.map_or_else(
            || Cell::Nothing { reason: "not measured".to_owned() },
            |(_, cell)| cell.clone(),
        )
    }

    fn title(&self) -> &str {
        let property = self.property();
        if property.every_loss { &self.loss } else { property.title }
    }
}

/// The columns of an experiment of the matrix; empty for any other.
pub(super) fn columns_of(results: &Results) -> Vec<PropertyColumn> {
    let experiment = &results.plan.experiment;
    let mut columns = Vec::new();
    for (number, property) in PROPERTIES.iter().enumerate() {
        if property.experiment != experiment.id {
            continue;
        }
        let Some(metric) = experiment.metrics.iter().position(|m| m.name == property.metric) else {
            continue;
        };
        let losses = experiment.axes.iter().find(|a| a.name != PROTOCOL);
        let losses: Vec<String> = losses.map_or_else(
            || vec![String::new()],
            |axis| axis.points.iter().map(|p| p.label.clone()).collect(),
        );
        let shown = if property.every_loss { losses.len() } else { 1 };
        for loss in losses.into_iter().take(shown) {
            let cell = |protocol: &Protocol| {
                (protocol.name.to_owned(), cell(results, property, metric, protocol, &loss))
            };
            let cells = PROTOCOLS.iter().map(cell).collect();
            columns.push(PropertyColumn {
                property: number,
                cells,
                setting: setting(results),
                loss,
            });
        }
    }
    columns
}

fn cell(
    results: &Results,
    property: &Property,
    metric: usize,
    protocol: &Protocol,
    loss: &str,
) -> Cell {
    let plan = &results.plan;
    let experiment = &plan.experiment;
    let Some(index) = find(experiment, protocol.name, loss) else {
        let skipped = experiment.axes.iter().flat_map(|a| &a.skipped);
        let mut reasons = skipped.filter(|s| s.label == protocol.name).map(|s| &s.reason);
        let reason = reasons.next().map_or("not measured", String::as_str).to_owned();
        return Cell::Nothing { reason };
    };
    let scenario = &plan.scenarios[index];
    let samples = results.samples(metric, index);
    let values: Vec<f64> = samples.into_iter().map(|x| (property.value)(x, scenario)).collect();
    match estimate(&values) {
        Some(e) => Cell::Value { interval: e, merit: (property.merit)(e.mean, scenario) },
        None => Cell::Nothing { reason: "no number (a division by zero)".to_owned() },
    }
}

/// The cell of an experiment at a protocol and a loss rate.
fn find(experiment: &Experiment, protocol: &str, loss: &str) -> Option<usize> {
    (0..experiment.cells()).find(|cell| {
        let mut labels = experiment.axes.iter().zip(experiment.points(*cell));
        labels
            .all(|(axis, point)| point.label == if axis.name == PROTOCOL { protocol } else { loss })
    })
}

fn sorted<'a>(columns: impl Iterator<Item = &'a PropertyColumn>) -> Vec<&'a PropertyColumn> {
    let mut columns: Vec<&PropertyColumn> = columns.collect();
    columns.sort_by_key(|c| c.property);
    columns
}

/// Writes the table, if any of its experiments was run.
pub(super) fn show<'a>(html: &mut String, columns: impl Iterator<Item = &'a PropertyColumn>) {
    let columns = sorted(columns);
    if columns.is_empty() {
        return;
    }
    html.push_str(
        "<section class=\"part\" id=\"properties\">\n<h2>Every protocol on one link</h2>\n",
    );
    if let Some(first) = columns.first() {
        let _ = writeln!(html, "<p class=\"setting\">{}</p>", escape(&first.setting));
    }
    html.push_str(
        "<div class=\"scroll wide\" tabindex=\"0\"><table class=\"matrix\">\n<thead>\n<tr>",
    );
    html.push_str("<th rowspan=\"2\" scope=\"col\">Protocol</th>");
    for group in columns.chunk_by(|a, b| a.property().group == b.property().group) {
        let _ = write!(
            html,
            "<th colspan=\"{}\" scope=\"colgroup\">{}</th>",
            group.len(),
            escape(group[0].property().group)
        );
    }
    html.push_str("</tr>\n<tr>");
    for column in &columns {
        let _ = write!(
            html,
            "<th scope=\"col\"><a href=\"#{}\" title=\"{}\">{}</a></th>",
            column.property().experiment,
            escape(column.property().about),
            escape(column.title())
        );
    }
    html.push_str("</tr>\n</thead>\n<tbody>\n");
    for protocol in PROTOCOLS {
        let _ = write!(
            html,
            "<tr><th scope=\"row\" title=\"{}\">{}</th>",
            escape(protocol.summary),
            protocol.name
        );
        for column in &columns {
            html.push_str(&written(&column.cell(protocol), column.property().decimals));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html.push_str(
        "<p class=\"legend\">From worst to best: <span class=\"q0\">\u{2007}</span><span \
         class=\"q1\">\u{2007}</span><span class=\"q2\">\u{2007}</span><span \
         class=\"q3\">\u{2007}</span><span class=\"q4\">\u{2007}</span>. Scales: goodput from 0 \
         to 1; fairness to newreno as the smaller throughput over the larger; fairness to itself \
         from a single flow with all the throughput to equal shares; queue from full to empty; \
         induced loss from 1\u{a0}% to 0.01\u{a0}%, logarithmic. Numbers are means; their \
         95\u{a0}% intervals are in the CSV file.</p>\n<p class=\"again\">Repeat: \
         <code>windward reproduce matrix</code> \u{b7} Numbers: <a href=\"matrix.csv\">matrix.csv</a></p>\n</section>\n",
    );
}

/// The same numbers as a table: a row per protocol, for each property the mean and the ends of its
/// 95 % interval, which are empty where the page has a dash.
pub(super) fn numbers<'a>(columns: impl Iterator<Item = &'a PropertyColumn>) -> Option<Table> {
    let columns = sorted(columns);
    let mut table = Table::default();
    table.add_texts(PROTOCOL, PROTOCOLS.iter().map(|p| p.name));
    for column in &columns {
        let at =
            if column.property().every_loss { format!("_{}", column.loss) } else { String::new() };
        let cells: Vec<Cell> = PROTOCOLS.iter().map(|p| column.cell(p)).collect();
        let mut push = |suffix: &str, read: fn(&Estimate) -> f64| {
            let value = |cell: &Cell| match cell {
                Cell::Value { interval, .. } => Some(read(interval)),
                Cell::Nothing { .. } => None,
            };
            let name = format!("{}{at}{suffix}", column.property().name);
            table.add_reals(name, cells.iter().map(value));
        };
        push("", |e| e.mean);
        push("_low", |e| e.low);
        push("_high", |e| e.high);
    }
    (!columns.is_empty()).then_some(table)
}

/// Link and length of the runs.
fn setting(results: &Results) -> String {
    let plan = &results.plan;
    let Some((scenario, link)) = plan.scenarios.first().and_then(|s| Some((s, bottleneck(s)?)))
    else {
        return String::new();
    };
    let rtt = 2.0 * link.delay.as_secs_f64() * 1e3;
    format!(
        "One link of {} Mbit/s with an RTT of {rtt:.0} ms and a queue of {} packets; {} runs of \
         {} s per number. The title of a column links to its experiment.",
        capacity(scenario) / 1e6,
        queue_limit(scenario),
        plan.length.repetitions,
        scenario.duration.as_secs_f64(),
    )
}

fn written(cell: &Cell, decimals: usize) -> String {
    match cell {
        Cell::Value { interval: e, merit } => format!(
            "<td class=\"q{}\" title=\"{}\">{:.decimals$}</td>",
            step(*merit),
            escape(&interval(*e)),
            e.mean
        ),
        Cell::Nothing { reason } => {
            format!("<td class=\"nothing\" title=\"{}\">\u{2013}</td>", escape(reason))
        }
    }
}

/// One of five steps of merit: 0 is the worst fifth.
fn step(merit: f64) -> u8 {
    // A queue that drops nothing has an infinite merit: the cast saturates.
    (merit * 5.0).clamp(0.0, 4.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merit_in_five_steps() {
        assert_eq!([-1.0, 0.0, 0.19, 0.2, 0.5, 0.79, 0.8, 1.0].map(step), [0, 0, 0, 1, 2, 3, 4, 4]);
        assert_eq!(step(f64::INFINITY), 4);
        // 0.1 % is half way from 1 % to 0.01 % on a logarithmic scale; 0 % has no logarithm.
        let scenario = windward_experiments::testing::results(1).plan.scenarios[0].clone();
        let induced = &PROPERTIES[4];
        assert!(((induced.merit)(0.1, &scenario) - 0.5).abs() < 1e-12);
        assert_eq!((induced.merit)(0.0, &scenario), f64::INFINITY);
        // Twice as much and half as much are equally unfair.
        let fairness = &PROPERTIES[1];
        assert_eq!((fairness.merit)(2.0, &scenario), (fairness.merit)(0.5, &scenario));
        // Two flows: the index of one that has all is 1/2.
        let jain = &PROPERTIES[2];
        assert_eq!((jain.merit)(0.5, &scenario), 0.0);
    }

    #[test]
    fn goodput_is_a_share_of_the_deliverable_rate() {
        let text = windward_experiments::testing::TEXT
            .replace("queue = \"50p\"", "queue = \"50p\", loss = 0.2");
        let experiment = Experiment::parse("f.toml", &text).unwrap();
        let plan = experiment.plan(&windward_experiments::Effort::Quick).unwrap();
        // Cell 0 has a bottleneck of 1 Mbit/s that loses one packet in five: 0.4 of 0.8.
        let scenario = &plan.scenarios[0];
        assert!(((PROPERTIES[0].value)(400_000.0, scenario) - 0.5).abs() < 1e-12);
        // A queue of 20 of its 50 packets is 60 % empty.
        assert!(((PROPERTIES[3].merit)(20.0, scenario) - 0.6).abs() < 1e-12);
    }
}
