//! Experiments: what to sweep, what to compute, what to draw, what to check.
//!
//! An experiment file is a scenario file with one more table, `[experiment]`. [`ScenarioFile`]
//! reads the rest of the file. This module defines the table; its `reader` reads it strictly.

use std::path::Path;

use windward_core::protocols::Protocol;
use windward_sim::Scenario;
use windward_sim::input::{LARGEST_SETTINGS, read_text};
use windward_sim::scenario::Scaling;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;

use crate::ExperimentError;
use crate::error::nearest;
use crate::expression::{Cell, Comparison, Expression, Measure};
use crate::theory::{self, Formula};
use crate::verdict::Verdict;

mod carrying;
mod cast;
mod explanation;
pub mod ns2;
mod reader;
mod reading;
mod schema;
pub(crate) mod worlds;

use ns2::Ns2;
use worlds::Worlds;

pub use carrying::CARRIED;
pub use cast::{Cast, Subject};
pub use cast::{is_taken, same_name};
pub use explanation::Explanation;
pub(crate) use explanation::Wanted;
pub use reader::fnv1a;
pub(crate) use reading::scaled;
pub use reading::{Basis, Deviation, Reading, ReadingValue, SetAt};

/// An experiment file, read and checked.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The file as the user named it.
    pub file: String,
    /// Unique name of the experiment, its results and figures.
    pub id: String,
    /// Texts for pages.
    pub caption: Caption,
    /// Runs of the quick effort.
    pub quick: RunLength,
    /// Runs of the full effort.
    pub full: RunLength,
    /// Axes that are varied; the cells are all combinations, the last axis fastest.
    pub axes: Vec<Axis>,
    /// Metrics of each run.
    pub metrics: Vec<Metric>,
    /// Charts.
    pub plots: Vec<PlotConfig>,
    /// Claims.
    pub claims: Vec<Claim>,
    /// The choices that the paper leaves open.
    pub readings: Vec<Reading>,
    /// Numbers in the paper's text.
    pub reported: Vec<Reported>,
    /// Found worlds of its claims, and those in which most claims of its paper hold.
    pub worlds: Worlds,
    /// Cells of its paper's experiments in ns-2.
    pub ns2: Ns2,
    /// The scenario that the readings and the axes change.
    pub scenario: ScenarioFile,
    /// Factors on the links of its scenarios.
    pub scaling: Scaling,
    /// True if all readings of its claims are judged, even with quick effort.
    pub all_readings: bool,
    /// Identity of this version of the file.
    pub revision: Revision,
}

/// Title of an experiment, its place in a paper, and remarks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Caption {
    /// Key of the paper it reproduces.
    pub paper: Option<String>,
    /// The paper's figure, as `Figure 3`.
    pub figure: Option<String>,
    /// Its page of the report, if its suite has one for it.
    pub chapter: Option<String>,
    /// Title.
    pub title: String,
    /// Topology and parameters in one sentence, shown under the chart.
    pub setting: String,
    /// Choices where the paper is silent, with the reason.
    pub choices: Vec<String>,
}

/// Version of an experiment: the text of its files and later changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revision {
    /// Changes by [`Experiment::set`], key and value. They override lengths, readings and axes.
    pub overrides: Vec<(String, String)>,
    /// FNV-1a hash of the file's text, of those that it takes readings from and of
    /// [`overrides`](Self::overrides): two results with the same hash and version came from the
    /// same configuration.
    pub configuration_hash: u64,
    /// Hash of the file's own text.
    pub(crate) text_hash: u64,
}

/// How much to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Effort {
    /// The file's `quick`: minutes.
    #[default]
    Quick,
    /// The file's `full`: enough repetitions for verdicts.
    Full,
    /// Another length; begin with [`Experiment::run_length`] and change it.
    Custom {
        /// True if everything else is as in the file's `full`, and not as in its `quick`.
        full: bool,
        /// Number and duration of the runs.
        length: RunLength,
    },
}

impl Effort {
    /// True for full effort, whatever the lengths.
    pub fn is_full(&self) -> bool {
        matches!(self, Effort::Full | Effort::Custom { full: true, .. })
    }
}

/// Repetitions of each cell, and the duration of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLength {
    /// Runs of each cell that charts and tables show, each with its own seed.
    pub repetitions: u32,
    /// Maximum number of runs of a cell, after which an open check stays open. The first look, at
    /// four or more, is always taken. If equal to `repetitions`, the number of runs is fixed.
    pub at_most: u32,
    /// Replaces the scenario's duration.
    pub duration: Option<String>,
    /// Replaces the scenario's warm-up.
    pub warmup: Option<String>,
}

/// An axis of the sweep: one varied parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Axis {
    /// Name, a column in the tables of results.
    pub name: String,
    /// Its title in charts.
    pub title: String,
    /// The values it takes.
    pub points: Vec<Point>,
    /// True to leave out the points at which no scenario can be built instead of refusing to run.
    /// For an axis of all protocols, not all of which can share a queue with every other.
    pub skip_impossible: bool,
    /// Points that a plan left out.
    pub skipped: Vec<Skipped>,
}

/// A point of an axis that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its label.
    pub label: String,
    /// Reason why the scenario is impossible.
    pub reason: String,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Point {
    /// Its label in tables, charts and checks.
    pub label: String,
    /// Changes of the scenario: key and value.
    pub set: Vec<(String, String)>,
}

impl Point {
    /// The number at the beginning of its label, and the unit after it: `5%` is 5 with the unit
    /// `%`, `20 ms` is 20 with `ms`, `1e-8` has no unit. `None` for labels that are words.
    pub fn quantity(&self) -> Option<(f64, &str)> {
        quantity(&self.label)
    }
}

/// The number at the beginning of a text, and the unit after it.
fn quantity(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-'))).unwrap_or(text.len());
    // An exponent has digits: `5 each` and `2e` have none.
    let exponent = text[end..].strip_prefix(['e', 'E']).map_or(0, |rest| {
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 { 0 } else { text.len() - end - (digits.len() - count) }
    });
    let end = end + exponent;
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// A number computed from each run.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Name, a column in the tables of results.
    pub name: String,
    /// Its expression.
    pub expression: Expression<Measure>,
    pub(crate) line: usize,
}

impl Metric {
    /// True if it has a unit, as far as is known.
    pub fn has_unit(&self) -> bool {
        self.expression.has_unit(&Measure::has_unit)
    }
}

/// A chart.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotConfig {
    /// Charts.
    pub kind: PlotKind,
    /// Above the chart, if there are several.
    pub title: Option<String>,
    /// Label of the vertical axis, without its unit.
    pub y_title: String,
    /// Unit of the vertical axis; values are converted to it.
    pub unit: Unit,
    /// Fixed bounds of the vertical axis, in the unit of the axis.
    pub y: Option<(f64, f64)>,
    /// Restriction to the cells with these labels on these axes.
    pub only: Vec<(usize, Vec<String>)>,
    /// True if the vertical axis is logarithmic. Values at or below zero are then left out.
    pub y_log: bool,
    /// Lines to compare with.
    pub references: Vec<Reference>,
    pub(crate) line: usize,
}

impl PlotConfig {
    /// True if the chart shows the cell with these points.
    pub fn shows(&self, points: &[&Point]) -> bool {
        let fits = |(axis, labels): &(usize, Vec<String>)| labels.contains(&points[*axis].label);
        self.only.iter().all(fits)
    }

    /// Checks that the scenario of a cell has the data of the chart.
    ///
    /// # Errors
    /// If a name is missing, or the scenario does not record the data.
    pub(crate) fn check(&self, scenario: &Scenario) -> Result<(), String> {
        if let PlotKind::Time { what, names, .. } = &self.kind {
            if what.is_sampled() && scenario.sample.is_none() {
                return Err("the chart draws samples and the scenario has none: add for instance \
                            `sample = \"100ms\"`"
                    .to_owned());
            }
            if *what == Traced::FlowThroughput && !scenario.flow_bins {
                return Err(
                    "`flows = true` draws the throughput of every flow, which the scenario \
                            does not keep: add `flow_bins = true`"
                        .to_owned(),
                );
            }
            let known: Vec<&str> = match what.is_of_links() {
                true => scenario.links.iter().map(|l| l.name.as_str()).collect(),
                false => scenario.groups.iter().map(String::as_str).collect(),
            };
            if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
                let kind = if what.is_of_links() { "link" } else { "group" };
                return Err(format!("no {kind} `{name}` to draw{}", nearest(name, known)));
            }
        }
        for reference in &self.references {
            if let ReferenceLine::Curve { formula, group, link } = &reference.line {
                theory::expected(*formula, scenario, group.as_deref(), link.as_deref())
                    .map_err(|e| format!("`{}`: {e}", reference.label))?;
            }
        }
        Ok(())
    }
}

/// Kind of a chart.
#[derive(Debug, Clone, PartialEq)]
pub enum PlotKind {
    /// Metrics against a numeric axis, one series for each combination of the other axes.
    Lines {
        /// Index of the axis.
        x: usize,
        /// True if it is logarithmic.
        log: bool,
        /// Indices of the metrics.
        metrics: Vec<usize>,
    },
    /// The same for an axis of words, without lines between.
    Dots {
        /// Index of the axis.
        x: usize,
        /// Indices of the metrics.
        metrics: Vec<usize>,
    },
    /// A quantity over time, one panel per cell.
    Time {
        /// Quantity.
        what: Traced,
        /// Names of the groups or links.
        names: Vec<String>,
        /// True for the first repetition alone, instead of the mean of all with its band.
        single: bool,
    },
}

/// Quantity of a chart over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traced {
    /// Throughput of groups, from their bins.
    Throughput,
    /// Throughput of each flow of groups, from bins of their own.
    FlowThroughput,
    /// Congestion window of each flow of groups, from samples.
    Cwnd,
    /// Queue of links, from samples.
    Queue,
    /// Signal that the routers of links send to flows, from samples.
    Signal,
}

impl Traced {
    /// True if it is read from samples.
    pub fn is_sampled(self) -> bool {
        matches!(self, Traced::Cwnd | Traced::Queue | Traced::Signal)
    }

    /// True for a quantity of links, false for one of groups.
    pub fn is_of_links(self) -> bool {
        matches!(self, Traced::Queue | Traced::Signal)
    }
}

/// A reference line.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Its position.
    pub line: ReferenceLine,
    /// Meaning.
    pub label: String,
}

/// Position of a reference line.
#[derive(Debug, Clone, PartialEq)]
pub enum ReferenceLine {
    /// A constant, in the unit of the axis.
    Level(f64),
    /// The theoretical value in the scenario of each point.
    Curve {
        /// The curve.
        formula: Formula,
        /// The group of connections; the first one without a name.
        group: Option<String>,
        /// The limiting link; the bottleneck of the group without a name.
        link: Option<String>,
    },
}

/// The unit of a chart's vertical axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// Its name on the axis.
    pub name: &'static str,
    /// Factor for metrics.
    pub factor: f64,
}

impl Unit {
    /// Unscaled numbers.
    pub const NONE: Unit = unit("", 1.0);
    /// Every unit.
    pub const ALL: [Unit; 9] = [
        Unit::NONE,
        unit("%", 100.0),
        unit("kbit/s", 1e-3),
        unit("Mbit/s", 1e-6),
        unit("Gbit/s", 1e-9),
        unit("s", 1.0),
        unit("ms", 1e3),
        unit("packets", 1.0),
        unit("per run", 1.0),
    ];

    /// The unit of that name.
    pub fn named(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|u| u.name == name)
    }

    /// The unit of metrics that have this one on an axis; empty for shares and counts.
    pub fn of_metrics(self) -> &'static str {
        match self.name {
            "kbit/s" | "Mbit/s" | "Gbit/s" => "bit/s",
            "s" | "ms" => "s",
            "packets" => "packets",
            _ => "",
        }
    }
}

const fn unit(name: &'static str, factor: f64) -> Unit {
    Unit { name, factor }
}

/// A claim of the paper, with the checks that decide it.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// `L3`.
    pub id: String,
    /// The claim.
    pub claim: String,
    /// Condition under which it holds, fixed before any measurement.
    pub expected: String,
    /// The condition as comparisons; all must hold.
    pub checks: Vec<Check>,
    /// Reason why it does not hold, or not everywhere.
    pub explanation: Option<Explanation>,
    /// When its condition was fixed, and what it was before.
    pub history: History,
    /// Subject and criterion, for a claim about each subject of a suite.
    pub asked: Option<Asked>,
}

/// When the condition of a claim was fixed, and what it was before. Only the present one is judged.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct History {
    /// Edition of the list of claims in which its bound was fixed: 1 was before any measurement.
    pub edition: u32,
    /// Number of times that its checks were replaced when results were known.
    pub rewritten: u32,
    /// The verdict as the claim stood in its first edition.
    pub verdict_before: Option<Verdict>,
    /// The former checks and plain values, with what they gave.
    pub before: Option<String>,
    /// The change, and its reason.
    pub changed: Option<String>,
    /// The sentence of the paper.
    pub quote: Option<String>,
    /// The place of that sentence in the paper.
    pub place: Option<String>,
    /// Parts of that sentence that no check has, each with the reason.
    pub not_checked: Vec<String>,
}

impl Default for History {
    fn default() -> Self {
        History {
            edition: 1,
            rewritten: 0,
            verdict_before: None,
            before: None,
            changed: None,
            quote: None,
            place: None,
            not_checked: Vec::new(),
        }
    }
}

/// Subject and criterion of a claim.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Asked {
    /// The id of the claim in the file, without the subject.
    pub of_all: String,
    /// The name of the subject.
    pub subject: String,
    /// The id of the criterion.
    pub criterion: String,
}

/// A number of the paper's text about a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported {
    /// Expression with this value, as written, in the unit of the metric.
    pub text: String,
    /// The parsed expression.
    pub value: Expression<Cell>,
    /// The number, or the ends of the range that the paper gives.
    pub range: (f64, f64),
    /// Its place in the paper.
    pub source: String,
    /// The words of the paper.
    pub words: String,
    /// True if it was read off a figure, and is not stated in the text.
    pub digitised: bool,
    pub(crate) line: usize,
}

/// Largest difference of two values that count as equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Margin {
    /// In the unit of the metric.
    Absolute(f64),
    /// A share of the larger side.
    Share(f64),
}

/// A condition of a claim: one of these comparisons must hold. Most checks have only one.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    /// Each as written, with `*` replaced, and parsed.
    pub any: Vec<(String, Comparison)>,
    /// Largest difference of two values that count as equal where it asks for their order
    /// ([`Comparison::is_order`]). By default 0.02 for ratios, and a twentieth of the larger side
    /// for values with a unit.
    pub tie: Option<Margin>,
    /// Edition of the list of claims in which it was written: 1 was before any measurement.
    pub edition: u32,
    /// The check that it replaced when results were known.
    pub was: Option<String>,
    pub(crate) line: usize,
}

impl Check {
    /// A check of one comparison, of the first edition.
    pub(crate) fn of(any: Vec<(String, Comparison)>, line: usize) -> Self {
        Check { any, tie: None, edition: 1, was: None, line }
    }

    /// All cells that it compares.
    pub fn cells(&self) -> Vec<&Cell> {
        self.any.iter().flat_map(|(_, c)| c.cells()).collect()
    }
}

/// Reads a file beside experiments, which `parse` takes with its name for errors.
fn read_settings<T>(
    path: &Path,
    parse: impl Fn(&str, &str) -> Result<T, ExperimentError>,
) -> Result<T, ExperimentError> {
    let text = read_text(path, LARGEST_SETTINGS);
    let text = text.map_err(|error| ExperimentError::io("read", path, error))?;
    parse(&path.display().to_string(), &text)
}

impl Experiment {
    /// Reads a file, with the found worlds and the cells in ns-2 beside it if there are any; `-` is
    /// standard input.
    ///
    /// # Errors
    /// If it cannot be read, or anything in it is wrong.
    pub fn read(path: &Path) -> Result<Self, ExperimentError> {
        let text = ScenarioFile::text(path);
        let text = text.map_err(|error| ExperimentError::Scenario { cell: None, error })?;
        let mut experiment = Self::parse(&ScenarioFile::name(path), &text)?;
        let beside = |name| {
            let found = path.with_file_name(name);
            (experiment.file != ScenarioFile::STDIN && found.exists()).then_some(found)
        };
        let (worlds, ns2) = (beside(worlds::FILE), beside(ns2::FILE));
        if let Some(found) = worlds {
            experiment.worlds = Worlds::read(&found)?;
        }
        if let Some(found) = ns2 {
            experiment.ns2 = Ns2::read(&found)?;
        }
        Ok(experiment)
    }

    /// Parses a text. `name` is the file's name in errors; files of shared readings are read from
    /// the same folder.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self, ExperimentError> {
        Self::parse_beside(name, text, &|from| Self::text_beside(name, from))
    }

    /// The text of a file in the folder of the experiment.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn text_beside(name: &str, from: &str) -> Result<String, ExperimentError> {
        let path = Path::new(name).parent().unwrap_or(Path::new("")).join(from);
        read_text(&path, LARGEST_SETTINGS).map_err(|e| ExperimentError::io("read", &path, e))
    }

    /// Parses a text; `beside` returns the text of a file of readings.
    ///
    /// # Errors
    /// If anything in it is wrong, and as `beside`.
    pub fn parse_beside(
        name: &str,
        text: &str,
        beside: &dyn Fn(&str) -> Result<String, ExperimentError>,
    ) -> Result<Self, ExperimentError> {
        reader::parse(name, text, beside, None)
    }

    /// Parses a file of a suite with this cast. Each claim that names a criterion becomes one claim
    /// per subject.
    ///
    /// # Errors
    /// As [`Experiment::parse_beside`].
    pub fn parse_with(
        name: &str,
        text: &str,
        beside: &dyn Fn(&str) -> Result<String, ExperimentError>,
        cast: &Cast,
    ) -> Result<Self, ExperimentError> {
        reader::parse(name, text, beside, Some(cast))
    }

    /// The same experiment, whose scenarios may name these stacks as protocols of flows. They
    /// replace earlier ones. A file that was just read has none.
    #[must_use]
    pub fn with_stacks(self, stacks: &Stacks) -> Self {
        Experiment { scenario: self.scenario.with_stacks(stacks), ..self }
    }

    /// The same experiment, whose scenarios may name these protocols in addition to the rows of the
    /// table.
    #[must_use]
    pub fn with_protocols(self, protocols: &[Protocol]) -> Self {
        Experiment { scenario: self.scenario.with_protocols(protocols), ..self }
    }

    /// Changes the scenario of every cell, as `--set` does. The change overrides the file, its
    /// `quick` and `full`, its readings and its axes.
    ///
    /// # Errors
    /// If the key is unknown, or an axis or a reading sets it: labels would no longer describe the
    /// runs.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ExperimentError> {
        let fail = |error| ExperimentError::Scenario { cell: None, error };
        let mut changed = self.scenario.clone();
        changed.set(key, value).map_err(fail)?;
        let points = self.axes.iter().flat_map(|a| {
            a.points.iter().map(move |p| ("axis", a.name.as_str(), p.label.as_str(), &p.set))
        });
        let values = self.readings.iter().flat_map(|r| {
            r.values.iter().flat_map(move |v| {
                let sets = [&v.set].into_iter().chain(v.at.iter().map(|(_, set)| set));
                sets.map(move |set| ("reading", r.name.as_str(), v.label.as_str(), set))
            })
        });
        for (what, name, label, set) in points.chain(values) {
            let (mut before, mut after) = (self.scenario.clone(), changed.clone());
            let choose = |file: &mut ScenarioFile| {
                set.iter().try_for_each(|(key, value)| file.set(key, value))
            };
            // The plan reports an unknown key.
            if choose(&mut before).is_err() || choose(&mut after).is_err() {
                continue;
            }
            before.set(key, value).map_err(fail)?;
            // If the order matters, they set the same key.
            if !before.says_the_same_as(&after) {
                return Err(ExperimentError::Experiment {
                    file: self.file.clone(),
                    line: 0,
                    message: format!(
                        "--set {key}={value} would change what the {what} `{name}` sets at \
                         `{label}`; change the {what} in the file instead"
                    ),
                });
            }
        }
        let revision = &mut self.revision;
        revision.configuration_hash = hash_change(revision.configuration_hash, key, value);
        revision.overrides.push((key.to_owned(), value.to_owned()));
        Ok(())
    }

    /// True if it was read from this text, regardless of later changes and of files of readings.
    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.revision.text_hash == fnv1a(text.as_bytes())
    }

    /// True if it is that experiment except for overrides.
    pub(crate) fn is_changed_from(&self, plain: &Experiment) -> bool {
        let hash = |hash, (key, value): &(String, String)| hash_change(hash, key, value);
        let changed = self.revision.overrides.iter().fold(plain.revision.configuration_hash, hash);
        changed == self.revision.configuration_hash
    }

    /// The length of the runs, with the changes by [`Experiment::set`].
    pub fn overridden(&self, mut length: RunLength) -> RunLength {
        for (key, value) in &self.revision.overrides {
            match key.as_str() {
                "duration" => length.duration = Some(value.clone()),
                "warmup" => length.warmup = Some(value.clone()),
                _ => {}
            }
        }
        length
    }

    /// Length of runs for an effort.
    pub fn run_length(&self, effort: &Effort) -> RunLength {
        match effort {
            Effort::Quick => self.quick.clone(),
            Effort::Full => self.full.clone(),
            Effort::Custom { length, .. } => length.clone(),
        }
    }

    /// Number of combinations of the axes.
    pub fn cells(&self) -> usize {
        let sizes = self.axes.iter().map(|a| a.points.len());
        sizes.fold(1, usize::saturating_mul)
    }

    /// The points of a cell, one per axis.
    pub fn points(&self, cell: usize) -> Vec<&Point> {
        let mut rest = cell;
        let from_last = self.axes.iter().rev().map(|axis| {
            let point = &axis.points[rest % axis.points.len()];
            rest /= axis.points.len();
            point
        });
        let mut points: Vec<&Point> = from_last.collect();
        points.reverse();
        points
    }

    /// The index of a cell's point on one axis.
    pub fn point_index(&self, cell: usize, axis: usize) -> usize {
        let faster = self.axes[axis + 1..].iter().map(|a| a.points.len());
        cell / faster.product::<usize>() % self.axes[axis].points.len()
    }

    /// Name of a cell in errors and tables: its labels.
    pub fn cell_name(&self, cell: usize) -> String {
        let labels = self.points(cell).into_iter().map(|p| p.label.as_str());
        labels.collect::<Vec<_>>().join(", ")
    }

    /// Indices of the metric and the cell that a check of this experiment names.
    ///
    /// # Errors
    /// If there is no such metric or label; the error suggests the nearest one.
    pub fn find(&self, cell: &Cell) -> Result<(usize, usize), String> {
        let metric = self.metrics.iter().position(|m| m.name == cell.metric);
        let metric = metric.ok_or_else(|| {
            let names = self.metrics.iter().map(|m| m.name.as_str());
            let hint = nearest(&cell.metric, names);
            format!("unknown metric `{}` in `{cell}`{hint}", cell.metric)
        })?;
        if cell.labels.len() != self.axes.len() {
            let axes: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
            return Err(format!(
                "`{cell}` has {} labels and `{}` {} axes ({})",
                cell.labels.len(),
                self.id,
                axes.len(),
                axes.join(", "),
            ));
        }
        let mut index = 0;
        for (axis, label) in self.axes.iter().zip(&cell.labels) {
            let point = axis.points.iter().position(|p| p.label == *label);
            let point = point.ok_or_else(|| {
                let hint = nearest(label, axis.points.iter().map(|p| p.label.as_str()));
                format!("`{label}` in `{cell}` is not a label of the axis `{}`{hint}", axis.name)
            })?;
            index = index * axis.points.len() + point;
        }
        Ok((metric, index))
    }

    /// The unit in which charts show a metric, by its index; none if no chart shows it.
    pub fn unit_of(&self, metric: usize) -> Unit {
        let drawn = |kind: &PlotKind| match kind {
            PlotKind::Lines { metrics, .. } | PlotKind::Dots { metrics, .. } => {
                metrics.contains(&metric)
            }
            PlotKind::Time { .. } => false,
        };
        self.plots.iter().find(|plot| drawn(&plot.kind)).map_or(Unit::NONE, |plot| plot.unit)
    }

    /// The ids of other experiments that its checks and reported numbers refer to.
    pub fn references(&self) -> Vec<&str> {
        let checks = self.claims.iter().flat_map(|claim| &claim.checks);
        let reported = self.reported.iter().flat_map(|r| r.value.leaves());
        let cells = checks.flat_map(Check::cells).chain(reported);
        let ids = cells.filter_map(|c| c.experiment.as_deref());
        ids.filter(|id| *id != self.id).collect()
    }
}

/// The configuration hash after one more change.
fn hash_change(hash: u64, key: &str, value: &str) -> u64 {
    reader::fnv1a_on(hash, format!("\0{key}={value}").as_bytes())
}

#[cfg(test)]
mod tests;
