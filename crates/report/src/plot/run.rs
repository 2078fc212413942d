//! Chart of one run: windows, rates and queues over time.

use windward_core::units::{Duration, Time};
use windward_sim::trace::Instants;
use windward_sim::{Outcome, Scenario, Simulation};

use super::panel::{Mark, Panel, Scale, Series, link, stack};
use super::{group_styles, rank, shared_protocol, style_of_row, styles, titled};
use crate::palette::Style;
use crate::playground::WORDS;

/// Largest number of lines in a panel.
const MAX_LINES: usize = 12;
/// Maximum number of flows of a group with separate names in the legend.
const MAX_NAMED: usize = 3;
/// Number of samples of a run whose scenario does not set it.
const SAMPLES: u64 = 500;
/// Maximum number of samples: more cannot be seen.
const MAX_SAMPLES: u64 = 20_000;

/// A chart of a run in progress: it knows when the next sample is due and takes it.
///
/// Windows are those of each connection, or with more than twelve the means of the groups. Queues
/// are those of the bottlenecks. Rates are the throughputs of groups at their bottlenecks, as means
/// of the bins of the outcome. A group has one hue in all panels. The legend names each flow of a
/// group of two or three, and otherwise the group.
///
/// ```
/// use windward_report::plot::RunChart;
/// use windward_sim::Simulation;
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
/// let mut chart = RunChart::new(&scenario);
/// let mut sim = Simulation::traced(&scenario);
/// while let Some(instant) = chart.next_sample() {
///     sim.advance(instant);
///     chart.sample(&mut sim);
/// }
/// let outcome = sim.finish();
/// assert!(chart.svg("one flow", &outcome).starts_with("<svg"));
/// # Ok::<(), windward_sim::scenario::file::ScenarioError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RunChart {
    end: Time,
    instants: Instants,
    /// Width of the bins that rates are kept in.
    bin: Duration,
    /// One look for each group.
    looks: Vec<Style>,
    windows: Vec<Line>,
    rates: Vec<Line>,
    queues: Vec<Line>,
    /// Address of the scenario in the playground.
    playground: Option<String>,
}

/// A line of the chart: its source and its points.
#[derive(Debug, Clone)]
struct Line {
    /// Label in the legend; empty if an earlier line represents it.
    label: String,
    /// Indices of its flows, of which it is the mean or the sum, or of its link.
    of: Vec<usize>,
    /// Index of the group, and of the line in the group; `None` for links.
    group: Option<(usize, usize)>,
    /// True if it is one of many that share a look.
    thin: bool,
    points: Vec<(f64, f64)>,
}

impl Line {
    fn new(label: String, of: Vec<usize>) -> Self {
        Line { label, of, group: None, thin: false, points: Vec::new() }
    }

    /// The only line of a group, or number `n` of its few.
    fn of_group(self, group: usize, n: usize) -> Self {
        Line { group: Some((group, n)), ..self }
    }

    /// The windows of the flows of a group, a line for each.
    fn windows(scenario: &Scenario, group: usize, flows: &[usize]) -> Vec<Line> {
        let many = flows.len() > MAX_NAMED;
        let line = |(n, &flow): (usize, &usize)| {
            let label = match (many, n) {
                (false, _) => scenario.flows[flow].name.to_string(),
                (true, 0) => format!("{}, {} flows", scenario.groups[group], flows.len()),
                (true, _) => String::new(),
            };
            let line = Line::new(label, vec![flow]);
            Line { thin: many, ..line.of_group(group, if many { 0 } else { n }) }
        };
        flows.iter().enumerate().map(line).collect()
    }

    /// Sorts these lines of flows by the table of protocols.
    fn ordered(lines: impl Iterator<Item = Line>, scenario: &Scenario) -> Vec<Line> {
        let mut lines: Vec<Line> = lines.take(MAX_LINES).collect();
        lines.sort_by_key(|line| rank(shared_protocol(scenario, &line.of)));
        lines
    }
}

impl RunChart {
    /// Chart of a run of `scenario`, with the samples that it sets, or 500.
    pub fn new(scenario: &Scenario) -> Self {
        let shortest = scenario.duration.as_ps().div_ceil(MAX_SAMPLES);
        let usual = scenario.duration.as_ps().div_ceil(SAMPLES);
        let interval = scenario.sample.map_or(usual, Duration::as_ps).max(shortest).max(1);
        let interval = Duration::from_ps(interval);
        let end = Time::ZERO + scenario.duration;
        let flows = |group: usize| {
            let flows = scenario.flows.iter().enumerate();
            flows.filter(move |(_, flow)| flow.group == group).map(|(index, _)| index)
        };
        let connection = |index: &usize| scenario.flows[*index].kind.traffic.is_connection();
        let groups = || scenario.groups.iter().enumerate();
        let all = (0..scenario.flows.len()).filter(connection).count();
        let windows = groups().flat_map(|(group, name)| {
            let own: Vec<usize> = flows(group).filter(connection).collect();
            match own.len() {
                0 => Vec::new(),
                1 => vec![Line::new(name.clone(), own).of_group(group, 0)],
                _ if all > MAX_LINES => {
                    vec![Line::new(format!("{name}, mean"), own).of_group(group, 0)]
                }
                _ => Line::windows(scenario, group, &own),
            }
        });
        let rates = groups().map(|(group, name)| {
            Line::new(name.clone(), flows(group).collect()).of_group(group, 0)
        });
        let protocols = groups().map(|(group, _)| {
            let own: Vec<usize> = flows(group).collect();
            shared_protocol(scenario, &own).and_then(style_of_row)
        });
        let mut bottlenecks: Vec<usize> = Vec::new();
        for flow in &scenario.flows {
            if bottlenecks.len() < MAX_LINES && !bottlenecks.contains(&flow.bottleneck) {
                bottlenecks.push(flow.bottleneck);
            }
        }
        let queue = |link: usize| Line::new(scenario.links[link].name.to_string(), vec![link]);
        RunChart {
            end,
            instants: Instants::until(end, interval),
            bin: scenario.bin,
            looks: group_styles(&protocols.collect::<Vec<_>>()),
            windows: Line::ordered(windows, scenario),
            rates: Line::ordered(rates, scenario),
            queues: bottlenecks.into_iter().map(queue).collect(),
            playground: None,
        }
    }

    /// The same chart with a link that opens its scenario in the playground.
    #[must_use]
    pub fn with_playground(self, address: Option<String>) -> Self {
        RunChart { playground: address, ..self }
    }

    /// The time to which the simulation must be advanced before the next call of
    /// [`RunChart::sample`]; `None` after the last, which is the end of the run.
    pub fn next_sample(&self) -> Option<Time> {
        self.instants.next()
    }

    /// Samples a [`Simulation::traced`] that was advanced to [`RunChart::next_sample`].
    pub fn sample(&mut self, sim: &mut Simulation) {
        if self.instants.next().is_none() {
            return;
        }
        let now = self.instants.take();
        let at = now.as_secs_f64();
        for line in &mut self.windows {
            let sum: f64 = line.of.iter().filter_map(|&flow| sim.flow(flow)).map(|f| f.cwnd).sum();
            line.points.push((at, sum / line.of.len() as f64));
        }
        for line in &mut self.queues {
            line.points.push((at, sim.link(line.of[0]).queue_packets as f64));
        }
    }

    /// Three panels below each other as one SVG document; `title` is for screen readers. Rates come
    /// from the outcome, whose bins count packets when they leave the bottleneck; without a
    /// [`RunChart::sample`], there is a panel for them alone.
    pub fn svg(&self, title: &str, outcome: &Outcome) -> String {
        let mut rates = self.rates.clone();
        let width = self.bin.as_secs_f64();
        for line in &mut rates {
            let group = outcome.groups.iter().find(|group| group.name == line.label);
            let bins = group.map_or(&[][..], |group| &group.throughput_bins).iter().enumerate();
            line.points = bins.map(|(bin, bps)| ((bin as f64 + 0.5) * width, *bps)).collect();
        }
        let highest = rates.iter().flat_map(|l| &l.points).map(|p| p.1).fold(0.0, f64::max);
        let (unit, factor) = match highest {
            x if x >= 1e9 => ("Gbit/s", 1e-9),
            x if x >= 1e6 => ("Mbit/s", 1e-6),
            x if x >= 1e3 => ("kbit/s", 1e-3),
            _ => ("bit/s", 1.0),
        };
        let panels = [
            self.panel(title, "Congestion window", "packets", 1.0, &self.windows),
            self.panel(title, "Throughput", unit, factor, &rates),
            self.panel(title, "Queue", "packets", 1.0, &self.queues),
        ];
        // Datagrams have no windows, and a run without samples has rates alone.
        let drawn = panels.iter().filter(|panel| panel.series.iter().any(|s| !s.marks.is_empty()));
        let link = self.playground.iter().map(|address| link(address, WORDS));
        let drawn: Vec<String> = drawn.map(Panel::svg).chain(link).collect();
        stack(&drawn.iter().collect::<Vec<_>>())
    }

    fn panel(&self, title: &str, what: &str, unit: &str, factor: f64, lines: &[Line]) -> Panel {
        let others = styles(&vec![None; lines.len()]);
        let series = lines.iter().zip(others).map(|(line, other)| Series {
            label: line.label.clone(),
            style: line.group.map_or(other, |(group, n)| self.looks[group].variant(n)),
            marks: line.points.iter().map(|&(x, y)| mark(x, y * factor)).collect(),
            connected: true,
            thin: line.thin,
        });
        let series: Vec<Series> = series.collect();
        let highest = series.iter().flat_map(|s| &s.marks).map(|m| m.y).fold(0.0, f64::max);
        Panel {
            title: Some(what.to_owned()),
            description: format!("{title}: {what} over time"),
            x_title: "Time (s)".to_owned(),
            y_title: titled(what, unit),
            x: Scale::Linear,
            x_bounds: Some((0.0, self.end.as_secs_f64())),
            y: (highest > 0.0).then_some((0.0, highest * 1.05)),
            possible: (0.0, f64::INFINITY),
            y_log: false,
            series,
            references: Vec::new(),
            reported: Vec::new(),
        }
    }
}

/// A point without an interval.
fn mark(x: f64, y: f64) -> Mark {
    Mark { x, y, low: f64::NEG_INFINITY, high: f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use windward_sim::scenario::file::ScenarioFile;

    use super::*;

    fn drawn(text: &str, changes: &[(&str, &str)]) -> (RunChart, String) {
        let mut file = ScenarioFile::parse("f.toml", text).unwrap();
        for (key, value) in changes {
            file.set(key, value).unwrap();
        }
        let scenario = file.build().unwrap();
        let mut chart = RunChart::new(&scenario);
        let mut sim = Simulation::traced(&scenario);
        while let Some(instant) = chart.next_sample() {
            sim.advance(instant);
            chart.sample(&mut sim);
        }
        let outcome = sim.finish();
        let svg = chart.svg("A & B", &outcome);
        (chart, svg)
    }

    const FIRST: &str = include_str!("../../../../experiments/examples/first.toml");

    #[test]
    fn a_link_stands_below_the_panels() {
        let scenario = ScenarioFile::parse("first.toml", FIRST).unwrap().build().unwrap();
        let chart = RunChart::new(&scenario);
        let outcome = Simulation::new(&scenario).finish();
        let linked = chart.clone().with_playground(Some("play.html#s=a&b".to_owned()));
        assert!(!chart.svg("x", &outcome).contains("<a "));
        let svg = linked.svg("x", &outcome);
        assert!(svg.contains("<a href=\"play.html#s=a&amp;b\">") && svg.contains(WORDS), "{svg}");
    }

    #[test]
    fn windows_rates_and_queues_are_drawn() {
        let (chart, svg) = drawn(FIRST, &[("duration", "30s")]);
        // Ten flows, two groups, one bottleneck: each a line.
        assert_eq!([&chart.windows, &chart.rates, &chart.queues].map(Vec::len), [10, 2, 1]);
        assert_eq!(svg.matches("<polyline").count(), 13);
        for text in [
            ">clean, 5 flows<",
            ">lossy, 5 flows<",
            ">bottleneck<",
            ">Congestion window (packets)<",
            ">Throughput (Mbit/s)<",
            ">Queue (packets)<",
        ] {
            assert!(svg.contains(text), "no {text}");
        }
        assert!(svg.contains("A &amp; B") && !svg.contains("NaN"));
        // 30 s in 500 steps; a queue of 50 packets.
        for line in chart.windows.iter().chain(&chart.queues) {
            assert_eq!(line.points.len(), 500);
            assert!((line.points[499].0 - 30.0).abs() < 1e-9);
        }
        assert!(chart.queues[0].points.iter().all(|p| p.1 <= 50.0));
    }

    /// The colours of the lines of a panel, by its title, in the order of the lines.
    fn colors<'a>(svg: &'a str, title: &str) -> Vec<&'a str> {
        let panels = svg.split("</svg>\n<svg y=");
        let own = panels.filter(|panel| panel.contains(&format!(">{title}<")));
        let lines = own.flat_map(str::lines).filter(|line| line.starts_with("<polyline"));
        lines.map(|l| l.split_once(" stroke=\"").unwrap().1.split_once('"').unwrap().0).collect()
    }

    #[test]
    fn a_group_has_one_hue_in_all_panels() {
        let (_, svg) = drawn(FIRST, &[("duration", "21s")]);
        let [clean, lossy] = colors(&svg, "Throughput")[..] else { panic!("two groups") };
        assert_ne!(clean, lossy);
        let windows = colors(&svg, "Congestion window");
        assert_eq!(windows, [[clean; 5], [lossy; 5]].concat());
        assert!(!svg.contains(">clean-1<") && svg.matches("stroke-opacity=\"0.55\"").count() == 10);
        // Up to three flows of a group have names and shades of the hue.
        let few = [("duration", "21s"), ("flows.lossy.count", "3"), ("flows.clean.count", "1")];
        let (_, svg) = drawn(FIRST, &few);
        for name in [">clean<", ">lossy-1<", ">lossy-3<"] {
            assert!(svg.contains(name), "no {name}");
        }
        let windows = colors(&svg, "Congestion window");
        assert_eq!(windows[..2], colors(&svg, "Throughput"));
        assert!(windows[1] != windows[2] && windows[2] != windows[3] && windows[1] != windows[3]);
        assert!(!svg.contains("stroke-opacity=\"0.55\""));
        // A group with a protocol that no other group has keeps the colour of the protocol.
        let (_, svg) = drawn(FIRST, &[("duration", "21s"), ("flows.lossy.protocol", "cubic")]);
        let own = ["newreno", "cubic"].map(|name| crate::palette::protocol_style(name).unwrap());
        assert_eq!(colors(&svg, "Throughput"), own.map(|style| style.color.to_string()));
    }

    #[test]
    fn many_connections_are_drawn_as_means_and_datagrams_have_no_window() {
        let (chart, svg) = drawn(FIRST, &[("duration", "21s"), ("flows.lossy.count", "20")]);
        let labels: Vec<&str> = chart.windows.iter().map(|l| l.label.as_str()).collect();
        assert_eq!(labels, ["clean, mean", "lossy, mean"]);
        assert!(svg.contains(">lossy, mean<"));
        let datagrams = FIRST.replace("protocol = \"newreno\"", "cbr = { rate = \"1Mbit\" }");
        let (chart, svg) = drawn(&datagrams, &[("duration", "21s"), ("sample", "1s")]);
        assert_eq!((chart.windows.len(), chart.queues[0].points.len()), (0, 21));
        assert!(!svg.contains("Congestion window") && svg.contains(">Throughput (Mbit/s)<"));
    }
}
