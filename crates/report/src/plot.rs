//! Charts of results.
//!
//! A [`PlotConfig`] and [`Results`] give one or more panels; `panel` draws one as SVG. An SVG is
//! as light or dark as the page around it, scales with it and has its legend below.
//!
//! Series and words are in the order of the table of protocols; those that are not protocols follow
//! in the order of the file. A protocol has one look in all charts, and a series over time one look
//! in all panels of its chart.

use windward_core::protocols::PROTOCOLS;
use windward_experiments::experiment::{
    Experiment, PlotConfig, PlotKind, Point, Reference, ReferenceLine, Traced,
};
use windward_experiments::expression::{Cell, Expression, Measure};
use windward_experiments::statistics::{Estimate, estimate};
use windward_experiments::sweep::{ChartData, Results};
use windward_experiments::theory;
use windward_sim::scenario::Traffic;
use windward_sim::{Outcome, Scenario};

use crate::palette::{Style, protocol_of, protocol_style, style};

mod comparison;
mod logs;
mod panel;
mod run;

pub(crate) use comparison::of_comparison;
pub use logs::compared;
pub use panel::escape;
use panel::{Guide, GuideLine, Mark, Panel, Reported, Reporter, Scale, Series, Word};
pub use run::RunChart;

/// One chart: its panels share their axes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Chart {
    /// Title above it, if there are several charts.
    pub title: Option<String>,
    /// Its panels, each a complete SVG document.
    pub panels: Vec<String>,
}

/// Look of a series in every chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// Colour, as `#0072b2`.
    pub color: String,
    /// The shape at each point: `circle`, `square`, `triangle`, `diamond`, `cross`, `ring`, `frame`
    /// or `wedge`.
    pub marker: &'static str,
    /// Lengths of strokes and gaps as in SVG; empty for a solid line.
    pub dash: &'static str,
}

/// The look of a series: that of its protocol, if its label begins with one, else that of series
/// `n` of `all` without a protocol.
pub fn look(label: &str, n: usize, all: usize) -> Look {
    let Style { color, marker, dash, .. } = protocol_style(label).unwrap_or_else(|| style(n, all));
    Look { color: color.to_string(), marker: marker.name(), dash }
}

/// A chart before it is written as SVG.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    title: Option<String>,
    panels: Vec<Panel>,
}

impl Drawing {
    /// The chart.
    pub(crate) fn chart(&self) -> Chart {
        Chart { title: self.title.clone(), panels: self.panels.iter().map(Panel::svg).collect() }
    }

    /// True if there is anything to see.
    fn is_empty(&self) -> bool {
        self.panels.iter().flat_map(|panel| &panel.series).all(|series| series.marks.is_empty())
    }

    /// True if it consists of lines and none of them has two points.
    fn is_trivial(&self) -> bool {
        let trivial = |series: &panel::Series| {
            series.connected && series.marks.iter().filter(|mark| !mark.y.is_nan()).count() < 2
        };
        self.panels.iter().flat_map(|panel| &panel.series).all(trivial)
    }
}

/// Gives the panels of a chart in several worlds, the plain one first, the same axes. A chart of
/// another world without two points of a line is left out.
pub(crate) fn align(worlds: &mut [Vec<Drawing>]) {
    let charts = worlds.iter().map(Vec::len).max().unwrap_or(0);
    for chart in 0..charts {
        let drawn = || worlds.iter().map(|drawings| &drawings[chart]).filter(|d| !d.is_empty());
        let bounds = drawn().flat_map(|d| &d.panels).map(Panel::y_bounds);
        let Some(bounds) = bounds.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { continue };
        for (world, drawings) in worlds.iter_mut().enumerate() {
            let drawing = &mut drawings[chart];
            if drawing.is_empty() || (world > 0 && drawing.is_trivial()) {
                drawing.panels.clear();
            }
            drawing.panels.iter_mut().for_each(|panel| panel.y = Some(bounds));
        }
    }
}

/// Every chart of an experiment.
pub fn charts(results: &Results) -> Vec<Chart> {
    drawings(results).iter().map(Drawing::chart).collect()
}

/// Every chart of an experiment in one world.
pub(crate) fn drawings(results: &dyn ChartData) -> Vec<Drawing> {
    let plots = results.plan().experiment.plots.iter();
    let drawing = |spec: &PlotConfig| {
        let panels = match &spec.kind {
            PlotKind::Lines { x, log, metrics } => {
                vec![cells(results, spec, *x, metrics, Some(*log))]
            }
            PlotKind::Dots { x, metrics } => vec![cells(results, spec, *x, metrics, None)],
            PlotKind::Time { what, names, single } => time(results, spec, *what, names, *single),
        };
        Drawing { title: spec.title.clone(), panels }
    };
    plots.map(drawing).collect()
}

/// All panels of all charts below each other as one SVG document.
pub fn stacked(charts: &[Chart]) -> Option<String> {
    let panels: Vec<&String> = charts.iter().flat_map(|c| &c.panels).collect();
    match panels[..] {
        [] => None,
        [one] => Some(one.clone()),
        _ => Some(panel::stack(&panels)),
    }
}

/// True if the chart shows the cell.
fn shown(experiment: &Experiment, spec: &PlotConfig, cell: usize) -> bool {
    spec.shows(&experiment.points(cell))
}

/// The labels of a series on the other axes, and its metric.
type SeriesKey<'a> = (Vec<&'a str>, usize);

/// Charts of metrics against one axis. `log` is `None` for an axis of words.
fn cells(
    results: &dyn ChartData,
    spec: &PlotConfig,
    x: usize,
    metrics: &[usize],
    log: Option<bool>,
) -> Panel {
    let experiment = &results.plan().experiment;
    let axis = &experiment.axes[x];
    let mut words: Vec<&str> = axis.points.iter().map(|p| p.label.as_str()).collect();
    if words.iter().all(|word| protocol_of(word).is_some()) {
        words.sort_by_key(|word| protocol_of(word));
    }
    let place = |point: &Point| match log {
        None => words.iter().position(|word| *word == point.label).map(|i| i as f64),
        Some(log) => point.quantity().map(|q| q.0).filter(|x| !log || *x > 0.0),
    };
    let places: Vec<Option<f64>> = axis.points.iter().map(place).collect();
    let possible = possible(experiment, metrics, spec.unit.factor);
    let mut series = series_of(results, spec, x, metrics, &places, possible);
    if log.is_none() {
        series.iter_mut().for_each(|(_, marks)| marks.retain(|mark| !mark.y.is_nan()));
    }
    let units = axis.points.iter().filter_map(Point::quantity);
    let unit = units.map(|(_, unit)| unit).find(|u| !u.is_empty());
    let keys: Vec<SeriesKey<'_>> = series.iter().map(|(key, _)| key.clone()).collect();
    let styles = series_styles(&keys);
    let drawn = series.into_iter().enumerate().map(|(n, (_, marks))| Series {
        label: series_label(experiment, &keys, n),
        style: styles[n],
        marks,
        connected: log.is_some(),
        thin: false,
    });
    let word = |word: &&str| Word { name: (*word).to_owned(), style: protocol_style(word) };
    Panel {
        title: spec.title.clone(),
        description: format!(
            "{}: {} against {}",
            experiment.caption.title, spec.y_title, axis.title
        ),
        x_title: titled(&axis.title, unit.filter(|_| log.is_some()).unwrap_or_default()),
        y_title: titled(&spec.y_title, spec.unit.name),
        x: match log {
            None => Scale::Words(words.iter().map(word).collect()),
            Some(false) => Scale::Linear,
            Some(true) => Scale::Log,
        },
        x_bounds: None,
        y: spec.y,
        possible,
        y_log: spec.y_log,
        series: drawn.collect(),
        references: guides(results, spec, x, &places, (&keys, &styles)),
        reported: reported(experiment, spec, x, &places, &keys),
    }
}

/// The least and the largest possible value of these metrics, in the unit of the axis.
fn possible(experiment: &Experiment, metrics: &[usize], factor: f64) -> (f64, f64) {
    let bounds = metrics.iter().map(|m| experiment.metrics[*m].expression.bounds(&Measure::bounds));
    bounds.fold((f64::INFINITY, f64::NEG_INFINITY), |all, own| {
        (all.0.min(own.0 * factor), all.1.max(own.1 * factor))
    })
}

/// The series of a chart in their order, each a metric at one label of every other axis. `places`
/// has the place of each point of the axis `x`. A point without a number breaks the line.
fn series_of<'a>(
    results: &'a dyn ChartData,
    spec: &PlotConfig,
    x: usize,
    metrics: &[usize],
    places: &[Option<f64>],
    possible: (f64, f64),
) -> Vec<(SeriesKey<'a>, Vec<Mark>)> {
    let experiment = &results.plan().experiment;
    let mut series: Vec<(SeriesKey<'_>, Vec<Mark>)> = Vec::new();
    for &metric in metrics {
        for cell in (0..experiment.cells()).filter(|c| shown(experiment, spec, *c)) {
            let Some(at) = places[experiment.point_index(cell, x)] else { continue };
            let none = Estimate { mean: f64::NAN, low: f64::NAN, high: f64::NAN };
            let e = estimate(&results.samples(metric, cell)).unwrap_or(none);
            // A band ends at what is possible in the cell.
            let scenario = &results.plan().scenarios[cell];
            let expression = &experiment.metrics[metric].expression;
            let (_, most) = expression.bounds(&|measure| measure.bounds_in(scenario));
            let most = (most * spec.unit.factor).max(e.mean * spec.unit.factor).min(possible.1);
            let mark = mark(at, e, spec.unit.factor, (possible.0, most));
            let key = (other_labels(&experiment.points(cell), x), metric);
            match series.iter_mut().find(|(known, _)| *known == key) {
                Some((_, marks)) => marks.push(mark),
                None => series.push((key, vec![mark])),
            }
        }
    }
    series.sort_by_key(|((labels, _), _)| rank(labels.iter().find_map(|l| protocol_of(l))));
    for (_, marks) in &mut series {
        marks.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    series.retain(|(_, marks)| marks.iter().any(|mark| !mark.y.is_nan()));
    series
}

/// The labels of a cell on all axes but one.
fn other_labels<'a>(points: &[&'a Point], x: usize) -> Vec<&'a str> {
    let others = points.iter().enumerate().filter(|(a, _)| *a != x);
    others.map(|(_, p)| p.label.as_str()).collect()
}

/// Key for the order of the table; labels without a row follow.
fn rank(protocol: Option<usize>) -> usize {
    protocol.unwrap_or(usize::MAX)
}

/// A point with the possible part of its interval.
fn mark(x: f64, e: Estimate, factor: f64, (least, most): (f64, f64)) -> Mark {
    let (y, low, high) = (e.mean * factor, e.low * factor, e.high * factor);
    let cut = |end: f64| if end.is_finite() { end.max(least).min(most) } else { end };
    Mark { x, y, low: cut(low), high: cut(high) }
}

/// Numbers in the paper's text, and means in ns-2, for single cells that the chart shows.
fn reported(
    experiment: &Experiment,
    spec: &PlotConfig,
    x: usize,
    places: &[Option<f64>],
    keys: &[SeriesKey<'_>],
) -> Vec<Reported> {
    let mark = |by, value: &Expression<Cell>, (low, high): (f64, f64)| {
        let cell = value.leaf()?;
        if cell.experiment.as_ref().is_some_and(|id| *id != experiment.id) {
            return None;
        }
        let (metric, index) = experiment.find(cell).ok()?;
        if !shown(experiment, spec, index) {
            return None;
        }
        let key = (other_labels(&experiment.points(index), x), metric);
        let at = places[experiment.point_index(index, x)]?;
        let (low, high) = (low * spec.unit.factor, high * spec.unit.factor);
        let series = keys.iter().position(|known| *known == key)?;
        Some(Reported { by, series, x: at, low, high })
    };
    let in_paper = experiment.reported.iter().map(|r| mark(Reporter::Paper, &r.value, r.range));
    let in_ns2 = experiment.ns2.of(&experiment.id).map(|cell| {
        let mean = cell.estimate.mean;
        mark(Reporter::Ns2, &cell.value, (mean, mean))
    });
    in_paper.chain(in_ns2).flatten().collect()
}

fn titled(title: &str, unit: &str) -> String {
    match unit {
        "" => title.to_owned(),
        _ => format!("{title} ({unit})"),
    }
}

/// Parts of labels that distinguish the series of a chart.
fn series_label(experiment: &Experiment, keys: &[SeriesKey<'_>], n: usize) -> String {
    let (labels, metric) = &keys[n];
    let all: Vec<&Vec<&str>> = keys.iter().map(|(l, _)| l).collect();
    let mut parts: Vec<String> = telling(labels, &all).into_iter().map(str::to_owned).collect();
    if keys.iter().any(|(_, m)| m != metric) {
        parts.push(experiment.metrics[*metric].name.replace('_', " "));
    }
    match parts[..] {
        [] => labels.join(", "),
        _ => parts.join(", "),
    }
}

/// The labels that differ between series.
fn telling<'a>(labels: &[&'a str], all: &[&Vec<&str>]) -> Vec<&'a str> {
    let differs = |i: usize| all.iter().any(|other| other[i] != labels[i]);
    labels.iter().enumerate().filter(|(i, _)| differs(*i)).map(|(_, label)| *label).collect()
}

fn series_styles(keys: &[SeriesKey<'_>]) -> Vec<Style> {
    let protocol = |key: &SeriesKey<'_>| key.0.iter().find_map(|l| protocol_style(l));
    styles(&keys.iter().map(protocol).collect::<Vec<_>>())
}

/// A protocol's own look, and shades of it for further series of the same protocol; other colours
/// for series without a protocol.
fn styles(protocols: &[Option<Style>]) -> Vec<Style> {
    let others = protocols.iter().filter(|p| p.is_none()).count();
    let look = |(n, own): (usize, &Option<Style>)| {
        let before = protocols[..n].iter().filter(|p| *p == own).count();
        own.map_or_else(|| style(before, others), |own| own.variant(before))
    };
    protocols.iter().enumerate().map(look).collect()
}

/// The looks of groups: that of a group's protocol if no other group has its colour, else one with
/// its own hue.
fn group_styles(protocols: &[Option<Style>]) -> Vec<Style> {
    let has_color = |style: &Style| {
        protocols.iter().flatten().filter(|other| other.color == style.color).count()
    };
    let own = protocols.iter().map(|style| style.filter(|style| has_color(style) == 1));
    styles(&own.collect::<Vec<_>>())
}

/// The series of all panels of a chart over time in the order of their legends, with their looks. A
/// name has the same look in all panels: that of its protocol, if the protocol is the same in all
/// of them.
fn time_styles(
    cells: &[usize],
    scenarios: &[Scenario],
    what: Traced,
    names: &[String],
) -> Vec<(String, Style)> {
    let mut all: Vec<(String, Option<usize>)> = Vec::new();
    for cell in cells {
        let scenario = &scenarios[*cell];
        for (label, index) in traced(scenario, what, names) {
            let protocol = protocol_of_traced(scenario, what, index);
            match all.iter_mut().find(|(known, _)| *known == label) {
                Some((_, known)) => *known = known.filter(|row| Some(*row) == protocol),
                None => all.push((label, protocol)),
            }
        }
    }
    all.sort_by_key(|(_, protocol)| rank(*protocol));
    let protocols = all.iter().map(|(_, protocol)| protocol.and_then(style_of_row));
    let styles = styles(&protocols.collect::<Vec<_>>());
    all.into_iter().map(|(label, _)| label).zip(styles).collect()
}

/// Chart of a quantity over time: one panel per cell, all with the same bounds and looks.
fn time(
    results: &dyn ChartData,
    spec: &PlotConfig,
    what: Traced,
    names: &[String],
    single: bool,
) -> Vec<Panel> {
    let experiment = &results.plan().experiment;
    let cells = (0..experiment.cells()).filter(|c| shown(experiment, spec, *c));
    let cells: Vec<usize> = cells.collect();
    let looks = time_styles(&cells, &results.plan().scenarios, what, names);
    let panel = |cell: &usize| trace_panel(results, spec, what, names, single, *cell, &looks);
    let mut panels: Vec<Panel> = cells.iter().map(panel).collect();
    // A single cell needs no name.
    if let [only] = &mut panels[..] {
        only.title.clone_from(&spec.title);
    }
    let highest = panels.iter().flat_map(|p| &p.series).flat_map(|s| &s.marks);
    let highest = highest.map(|m| if m.high.is_finite() { m.high } else { m.y });
    let highest = highest.fold(0.0, f64::max);
    for panel in &mut panels {
        panel.y = panel.y.or((highest > 0.0).then_some((0.0, highest * 1.05)));
    }
    panels
}

fn trace_panel(
    results: &dyn ChartData,
    spec: &PlotConfig,
    what: Traced,
    names: &[String],
    single: bool,
    cell: usize,
    looks: &[(String, Style)],
) -> Panel {
    let experiment = &results.plan().experiment;
    let scenario = &results.plan().scenarios[cell];
    let runs = results.cell_runs(cell);
    // In another world a cell may have none.
    let runs = if single { &runs[..runs.len().min(1)] } else { runs };
    let traced = traced(scenario, what, names);
    let own = looks.iter().filter_map(|(name, style)| {
        let (label, index) = traced.iter().find(|(label, _)| label == name)?;
        Some((label, *index, *style))
    });
    // The signal of a router can be negative: send less.
    let least = if what == Traced::Signal { f64::NEG_INFINITY } else { 0.0 };
    let possible = (least, f64::INFINITY);
    let most = |index: usize| match what {
        Traced::Throughput | Traced::FlowThroughput => {
            most_of(scenario, what, index) * spec.unit.factor
        }
        Traced::Cwnd | Traced::Queue | Traced::Signal => f64::INFINITY,
    };
    let series = own.map(|(label, index, style)| {
        let traces: Vec<Vec<(f64, Option<f64>)>> =
            runs.iter().map(|r| trace(scenario, &r.outcome, what, index)).collect();
        let length = traces.iter().map(Vec::len).min().unwrap_or(0);
        let at = |i: usize| {
            let values: Option<Vec<f64>> = traces.iter().map(|t| t[i].1).collect();
            let e = estimate(&values?)?;
            let most = most(index).max(e.mean * spec.unit.factor);
            Some(mark(traces[0][i].0, e, spec.unit.factor, (least, most)))
        };
        Series {
            label: label.clone(),
            style,
            marks: (0..length).filter_map(at).collect(),
            connected: true,
            thin: false,
        }
    });
    let name = experiment.cell_name(cell);
    let title = match experiment.axes.is_empty() {
        true => spec.title.clone(),
        false => Some(name.clone()),
    };
    let which = if single { "first seed" } else { "mean of all seeds" };
    Panel {
        title,
        description: format!(
            "{}: {} over time, {name}, {which}",
            experiment.caption.title, spec.y_title
        ),
        x_title: "Time (s)".to_owned(),
        y_title: titled(&spec.y_title, spec.unit.name),
        x: Scale::Linear,
        x_bounds: Some((0.0, scenario.duration.as_secs_f64())),
        y: spec.y,
        possible,
        y_log: false,
        series: series.collect(),
        references: levels(spec),
        reported: Vec::new(),
    }
}

/// Most bits per second of a flow or a group.
fn most_of(scenario: &Scenario, what: Traced, index: usize) -> f64 {
    let of_flow = what == Traced::FlowThroughput;
    let flows = scenario.flows.iter().enumerate();
    let own = flows.filter(|(n, flow)| if of_flow { *n == index } else { flow.group == index });
    theory::carried(scenario, own.map(|(_, flow)| flow))
}

/// The protocol of a flow, or the common protocol of a group.
fn protocol_of_traced(scenario: &Scenario, what: Traced, index: usize) -> Option<usize> {
    let flows = scenario.flows.iter().enumerate();
    match what {
        Traced::Queue | Traced::Signal => None,
        Traced::Throughput => {
            let own: Vec<usize> = flows.filter(|(_, f)| f.group == index).map(|(i, _)| i).collect();
            shared_protocol(scenario, &own)
        }
        Traced::FlowThroughput | Traced::Cwnd => shared_protocol(scenario, &[index]),
    }
}

/// The row of the table of protocols that all these flows have in common, if there is one.
fn shared_protocol(scenario: &Scenario, flows: &[usize]) -> Option<usize> {
    let mut rows = flows.iter().map(|flow| match &scenario.flows[*flow].kind.traffic {
        Traffic::Transport { protocol, .. } => protocol_of(protocol.name),
        Traffic::Stack { .. } | Traffic::Datagrams { .. } => None,
    });
    let first = rows.next()??;
    rows.all(|row| row == Some(first)).then_some(first)
}

/// The look of a row of the table.
fn style_of_row(row: usize) -> Option<Style> {
    protocol_style(PROTOCOLS[row].name)
}

/// The series of a chart over time: label, and index of the group, flow or link.
fn traced(scenario: &Scenario, what: Traced, names: &[String]) -> Vec<(String, usize)> {
    let index = |name: &String| match what.is_of_links() {
        true => scenario.links.iter().position(|l| l.name == *name),
        false => scenario.groups.iter().position(|g| g == name),
    };
    let found = names.iter().filter_map(|name| Some((name.clone(), index(name)?)));
    match what {
        Traced::Throughput | Traced::Queue | Traced::Signal => found.collect(),
        Traced::FlowThroughput | Traced::Cwnd => {
            let flows = |(_, group): (String, usize)| {
                let flows = scenario.flows.iter().enumerate();
                let own = flows.filter(move |(_, flow)| flow.group == group);
                let own: Vec<(String, usize)> =
                    own.map(|(index, flow)| (flow.name.to_string(), index)).collect();
                match own[..] {
                    // Zero over zero is not a number.
                    [(_, index)] => vec![(scenario.groups[group].clone(), index)],
                    _ => own,
                }
            };
            found.flat_map(flows).collect()
        }
    }
}

/// Times in seconds with values.
fn trace(
    scenario: &Scenario,
    outcome: &Outcome,
    what: Traced,
    index: usize,
) -> Vec<(f64, Option<f64>)> {
    let bins = |rates: &[f64]| {
        let width = scenario.bin.as_secs_f64();
        let middles = rates.iter().enumerate();
        middles.map(|(bin, rate)| ((bin as f64 + 0.5) * width, Some(*rate))).collect()
    };
    let Some(samples) = &outcome.samples else {
        return match what {
            Traced::Throughput => bins(&outcome.groups[index].throughput_bins),
            Traced::FlowThroughput => bins(&outcome.flows[index].throughput_bins),
            Traced::Cwnd | Traced::Queue | Traced::Signal => Vec::new(),
        };
    };
    let times = samples.times.iter().map(|time| time.as_secs_f64());
    match what {
        Traced::Throughput => bins(&outcome.groups[index].throughput_bins),
        Traced::FlowThroughput => bins(&outcome.flows[index].throughput_bins),
        Traced::Cwnd => times.zip(samples.cwnd[index].iter().map(|w| Some(*w))).collect(),
        Traced::Queue => {
            let queue = samples.links[index].queue.iter();
            times.zip(queue.map(|n| Some(f64::from(*n)))).collect()
        }
        Traced::Signal => times.zip(samples.links[index].signal.iter().copied()).collect(),
    }
}

/// The horizontal lines of a chart.
fn levels(spec: &PlotConfig) -> Vec<Guide> {
    let level = |reference: &Reference| match reference.line {
        ReferenceLine::Level(y) => {
            Some(Guide { line: GuideLine::Level(y), color: None, label: reference.label.clone() })
        }
        ReferenceLine::Curve { .. } => None,
    };
    spec.references.iter().filter_map(level).collect()
}

/// The labels of a series on the other axes, and its points.
type Curve<'a> = (Vec<&'a str>, Vec<(f64, f64)>);

/// The reference lines: each curve once if it is the same for all series, which is the usual case,
/// else one per series in its colour.
fn guides(
    results: &dyn ChartData,
    spec: &PlotConfig,
    x: usize,
    places: &[Option<f64>],
    (keys, styles): (&[SeriesKey<'_>], &[Style]),
) -> Vec<Guide> {
    let experiment = &results.plan().experiment;
    let mut guides = levels(spec);
    for reference in &spec.references {
        let ReferenceLine::Curve { formula, group, link } = &reference.line else { continue };
        let mut curves: Vec<Curve<'_>> = Vec::new();
        for cell in (0..experiment.cells()).filter(|c| shown(experiment, spec, *c)) {
            let Some(at) = places[experiment.point_index(cell, x)] else { continue };
            let scenario = &results.plan().scenarios[cell];
            let bps = theory::expected(*formula, scenario, group.as_deref(), link.as_deref());
            let Ok(bps) = bps else { continue };
            let y = bps * spec.unit.factor;
            if spec.y_log && y <= 0.0 {
                continue;
            }
            let labels = other_labels(&experiment.points(cell), x);
            match curves.iter_mut().find(|(l, _)| *l == labels) {
                Some((_, curve)) => curve.push((at, y)),
                None => curves.push((labels, vec![(at, y)])),
            }
        }
        for (_, curve) in &mut curves {
            curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        let mut distinct: Vec<Curve<'_>> = Vec::new();
        for (labels, curve) in curves {
            if distinct.iter().all(|(_, known)| !alike(known, &curve)) {
                distinct.push((labels, curve));
            }
        }
        let all: Vec<Vec<&str>> = distinct.iter().map(|(labels, _)| labels.clone()).collect();
        let all: Vec<&Vec<&str>> = all.iter().collect();
        let own = |labels: &Vec<&str>| {
            let series = keys.iter().position(|(l, _)| l == labels)?;
            (all.len() > 1 && all.len() == keys.len()).then(|| styles[series].color)
        };
        guides.extend(distinct.iter().map(|(labels, curve)| {
            let color = own(labels);
            let mut parts = vec![reference.label.as_str()];
            // The colour already identifies the series.
            parts.extend(telling(labels, &all).into_iter().filter(|_| color.is_none()));
            let label = parts.join(", ");
            Guide { line: GuideLine::Curve(curve.clone()), color, label }
        }));
    }
    guides
}

/// True if equal except for rounding: there are several ways to the same loss rate.
fn alike(a: &[(f64, f64)], b: &[(f64, f64)]) -> bool {
    let near = |(a, b): (&(f64, f64), &(f64, f64))| {
        a.0 == b.0 && (a.1 - b.1).abs() <= 1e-9 * a.1.abs().max(b.1.abs())
    };
    a.len() == b.len() && a.iter().zip(b).all(near)
}

#[cfg(test)]
mod tests;
