//! One panel as SVG, written directly: the SVG output of chart libraries lacks dashes, markers and
//! legends below, and lines and text are sufficient.
//!
//! A sheet is as narrow as a telephone and all its text has one size, so that it is readable there
//! and not huge on a desktop. Only the plot itself has a fixed height: titles wrap, legends take
//! the rows they need, and an axis of words is vertical with a row for each.

use std::fmt::Write;

use crate::palette::{DARK_PAGE, Marker, Style, Tint, dark_rules};

/// Width of a panel in its own units; a page scales it. style.css bounds how far.
pub(super) const WIDTH: f64 = 400.0;
/// Size of all text.
const FONT: f64 = 11.5;
/// About the width of a character, in the wider of the fonts a reader may have.
const CHARACTER: f64 = 7.1;
/// Distance between lines of text.
const LINE: f64 = 15.0;
/// Height of the plot unless it has rows.
const PLOT: f64 = 215.0;
/// Margins.
const EDGE: f64 = 4.0;

const INK: &str = "#222";
const GRID: &str = "#e2e2e2";
const STRIPE: &str = "#f5f6f7";
const REFERENCE: &str = "#777";
const PAGE: &str = "#fff";
/// The counterparts of these on a dark page.
const DARK: [(&str, &str); 4] =
    [(INK, "#e6e6e6"), (GRID, "#363b40"), (STRIPE, "#1f2225"), (REFERENCE, "#9a9fa5")];
/// Legend for marks of [`Panel::reported`].
pub(super) const PAPER: &str = "the paper's text";
/// Legend for those that ns-2 measured.
pub(super) const NS2: &str = "ns-2";
/// Legend for points below a logarithmic axis.
const BELOW: &str = "zero, below the axis";

/// Content of a panel, in the units of its axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    pub(super) title: Option<String>,
    /// Description for screen readers.
    pub(super) description: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) x: Scale,
    /// Fixed bounds of a linear axis; `None` for those of the data.
    pub(super) x_bounds: Option<(f64, f64)>,
    /// Fixed bounds; `None` for those of the data.
    pub(super) y: Option<(f64, f64)>,
    /// Range of possible values; no axis goes further.
    pub(super) possible: (f64, f64),
    /// True if the axis of values is logarithmic. Bounds are then above zero; points and intervals
    /// at zero lie at the lower edge, with an arrow.
    pub(super) y_log: bool,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<Guide>,
    pub(super) reported: Vec<Reported>,
}

/// The axis against which values are drawn: the horizontal one, except for words.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scale {
    Linear,
    Log,
    /// Words at positions 0, 1, 2.., from top to bottom.
    Words(Vec<Word>),
}

/// A word on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Word {
    pub(super) name: String,
    /// The look of its point if there is only one series.
    pub(super) style: Option<Style>,
}

/// A reference line with its meaning.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Guide {
    pub(super) line: GuideLine,
    /// Colour of its series; `None` for a line for all.
    pub(super) color: Option<Tint>,
    /// Label in the legend; several lines with one label have one entry.
    pub(super) label: String,
}

/// Its position.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GuideLine {
    /// A constant value.
    Level(f64),
    /// Through these points, in the order of the axis.
    Curve(Vec<(f64, f64)>),
}

/// Points of one series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) marks: Vec<Mark>,
    /// True for a line with a band; otherwise each point has its own bar.
    pub(super) connected: bool,
    /// True for one of many lines of the same look: thin and transparent, so that all are visible.
    pub(super) thin: bool,
}

/// A point with its interval. An infinite interval is not drawn, and no line leads through a point
/// that is not a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A number or a range in a paper, or a mean in ns-2.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reported {
    pub(super) by: Reporter,
    /// Index of its series.
    pub(super) series: usize,
    pub(super) x: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Source of a number that Windward did not measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reporter {
    Paper,
    Ns2,
}

/// Positions of the axes on the sheet, and their ranges.
#[derive(Debug)]
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: (f64, f64),
    y: (f64, f64),
    log: bool,
    y_log: bool,
    /// True if values go to the right and words downwards.
    upright: bool,
}

impl Frame {
    /// Position of a value on the axis of values.
    fn value(&self, y: f64) -> f64 {
        // The logarithm of zero or less lies outside every chart.
        let of = |v: f64| if self.y_log { v.max(0.5 * self.y.0).log10() } else { v };
        let share = (of(y) - of(self.y.0)) / (of(self.y.1) - of(self.y.0));
        match self.upright {
            true => self.left + share * (self.right - self.left),
            false => self.bottom - share * (self.bottom - self.top),
        }
    }

    /// Position on the other axis.
    fn along(&self, x: f64) -> f64 {
        let of = |v: f64| if self.log { v.log10() } else { v };
        let share = (of(x) - of(self.x.0)) / (of(self.x.1) - of(self.x.0));
        match self.upright {
            true => self.top + share * (self.bottom - self.top),
            false => self.left + share * (self.right - self.left),
        }
    }

    /// Both positions, as a point of the sheet.
    fn point(&self, x: f64, y: f64) -> (f64, f64) {
        match self.upright {
            true => (self.value(y), self.along(x)),
            false => (self.along(x), self.value(y)),
        }
    }

    /// A value, limited to the bounds.
    fn inside(&self, y: f64) -> f64 {
        y.clamp(self.y.0, self.y.1)
    }
}

/// A tick label with its position on the sheet.
type Tick = (f64, f64, String);

/// The parts of a sheet from top to bottom.
struct Layout {
    frame: Frame,
    title: Vec<String>,
    /// Title above the plot: the vertical axis.
    above: Vec<String>,
    /// Title below the plot: the horizontal axis.
    below: Vec<String>,
    legend: Legend,
    height: f64,
}

/// Legend below the plot.
struct Legend {
    keys: Vec<Key>,
    top: f64,
}

/// An entry of the legend with its position.
struct Key {
    lines: Vec<String>,
    sample: Sample,
    x: f64,
    y: f64,
}

/// Content of an entry.
enum Sample {
    /// A line, perhaps with its marker.
    Line(String, Option<Style>),
    /// A marker with its bar.
    Dot(Style),
    /// A number that Windward did not measure, or a range.
    Reported { by: Reporter, range: bool },
    /// A point below a logarithmic axis.
    Below,
}

impl Panel {
    /// The panel as an SVG document.
    pub(super) fn svg(&self) -> String {
        let layout = self.layout();
        let mut svg = open(WIDTH, layout.height, &self.description, self.tints());
        self.draw(&mut svg, &layout);
        svg.push_str("</svg>\n");
        svg
    }

    /// All colours of series, words and lines.
    fn tints(&self) -> Vec<Tint> {
        let words = self.words().unwrap_or_default().iter().filter_map(|word| word.style);
        let series = self.series.iter().map(|series| series.style);
        let guides = self.references.iter().filter_map(|guide| guide.color);
        series.chain(words).map(|style| style.color).chain(guides).collect()
    }

    fn words(&self) -> Option<&[Word]> {
        match &self.x {
            Scale::Words(words) => Some(words),
            _ => None,
        }
    }

    fn layout(&self) -> Layout {
        let whole = |text: &str| wrapped(text, WIDTH - 2.0 * EDGE);
        let title = self.title.as_deref().map_or_else(Vec::new, whole);
        let (above, below) = match self.words() {
            Some(_) => (whole(&self.x_title), whole(&self.y_title)),
            None => (whole(&self.y_title), whole(&self.x_title)),
        };
        let y = self.y_bounds();
        let left = match self.words() {
            Some(words) => {
                let lines = words.iter().flat_map(|w| wrapped(&w.name, LONGEST_WORD));
                lines.map(|line| width(&line)).fold(0.0, f64::max)
            }
            None => self.y_ticks(y).iter().map(|(_, label)| width(label)).fold(0.0, f64::max),
        };
        let top = EDGE + (title.len() + above.len()) as f64 * LINE + 8.0;
        // Long charts have their ticks at both ends.
        let height = self.rows().map_or(PLOT, |(n, pitch)| n as f64 * pitch);
        let top = if self.is_long() { top + LINE } else { top };
        let frame = Frame {
            left: EDGE + left + 8.0,
            right: WIDTH - 14.0,
            top,
            bottom: top + height,
            x: self.x_bounds(),
            y,
            log: self.x == Scale::Log,
            y_log: self.y_log,
            upright: self.words().is_some(),
        };
        let below_plot = frame.bottom + 6.0 + (1 + below.len()) as f64 * LINE;
        let (keys, height) = arranged(self.keys());
        let legend = Legend { keys, top: below_plot + 8.0 };
        let height = legend.top + height + EDGE;
        Layout { frame, title, above, below, legend, height }
    }

    /// Words of an axis: their number and their height.
    fn rows(&self) -> Option<(usize, f64)> {
        let words = self.words()?;
        let lines = words.iter().map(|w| wrapped(&w.name, LONGEST_WORD).len()).max()?;
        let text = lines as f64 * LINE + 2.0;
        Some((words.len(), text.max(self.series.len() as f64 * 6.0 + 5.0)))
    }

    fn is_long(&self) -> bool {
        self.rows().is_some_and(|(n, pitch)| n as f64 * pitch > 1.5 * PLOT)
    }

    fn x_bounds(&self) -> (f64, f64) {
        let xs = || {
            let marks = self.series.iter().flat_map(|s| &s.marks).map(|m| m.x);
            marks.chain(self.reported.iter().map(|r| r.x))
        };
        let (low, high) =
            (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        match &self.x {
            Scale::Words(words) => (-0.5, words.len() as f64 - 0.5),
            Scale::Linear if self.x_bounds.is_some() => self.x_bounds.unwrap_or((0.0, 1.0)),
            _ if low > high => (0.0, 1.0),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            Scale::Log => (low, high),
            Scale::Linear if low == high => (low - 1.0, high + 1.0),
            // An axis that would begin near zero begins at zero.
            Scale::Linear if low > 0.0 && low < 0.15 * high => (0.0, high),
            Scale::Linear => (low, high),
        }
    }

    /// Fixed bounds or those of the data, within the range of possible values. Numbers of a paper
    /// are always inside.
    pub(super) fn y_bounds(&self) -> (f64, f64) {
        let (low, high) = self.y.unwrap_or_else(|| self.data_bounds());
        let cut = (low.max(self.possible.0), high.min(self.possible.1));
        let (low, high) = if cut.0 < cut.1 { cut } else { (low, high) };
        // Zero has no place on a logarithmic axis.
        let shown = |y: &f64| !self.y_log || *y > 0.0;
        let paper = || self.reported.iter().flat_map(|r| [r.low, r.high]).filter(shown);
        (paper().fold(low, f64::min), paper().fold(high, f64::max))
    }

    /// Bounds around all points and their intervals, from zero unless that would flatten them. The
    /// interval of two or three runs can be many times as wide as the range of all points: anything
    /// beyond half of that range is cut off, and so are intervals below zero if no point is.
    fn data_bounds(&self) -> (f64, f64) {
        let marks = || self.series.iter().flat_map(|s| &s.marks);
        let lowest = marks().map(|m| m.y).fold(f64::INFINITY, f64::min);
        let highest = marks().map(|m| m.y).fold(f64::NEG_INFINITY, f64::max);
        let reach = match highest > lowest {
            true => 0.5 * (highest - lowest),
            false => 0.1 * highest.abs(),
        };
        let floor = if lowest >= 0.0 { (lowest - reach).max(0.0) } else { lowest - reach };
        let ends = |m: &Mark| match self.y_log {
            // The lower end may be near zero, and is then cut off.
            true => [m.y, m.y, m.high],
            false => [m.y, m.low.max(floor), m.high.min(highest + reach)],
        };
        let guides = || {
            self.references.iter().flat_map(|guide| match &guide.line {
                GuideLine::Level(y) => vec![*y],
                GuideLine::Curve(points) => points.iter().map(|p| p.1).collect(),
            })
        };
        let paper = || self.reported.iter().flat_map(|r| [r.low, r.high]);
        let values =
            || marks().flat_map(ends).chain(guides()).chain(paper()).filter(|v| v.is_finite());
        if self.y_log {
            let above = || values().filter(|v| *v > 0.0);
            let low = above().fold(f64::INFINITY, f64::min);
            let high = above().fold(0.0, f64::max);
            return if low > high { (0.1, 1.0) } else { (low / 1.3, high * 1.3) };
        }
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        // Zeros alone have no scale.
        if low > high || (low == 0.0 && high == 0.0) {
            return (0.0, 1.0);
        }
        let margin = 0.06 * (high - low).max(1e-3 * high.abs()).max(1e-12);
        let from_zero = low >= 0.0 && (high - low) > 0.3 * high;
        (if from_zero { 0.0 } else { low - margin }, high + margin)
    }

    fn draw(&self, svg: &mut String, layout: &Layout) {
        let frame = &layout.frame;
        let mut y = EDGE + FONT;
        for (lines, look) in [(&layout.title, "font-weight=\"600\""), (&layout.above, "")] {
            for line in lines {
                text(svg, (EDGE, y), line, look);
                y += LINE;
            }
        }
        self.draw_axes(svg, layout);
        // Clipped lines must not cover the titles.
        let (x, y) = (frame.left, frame.top);
        let (w, h) = (frame.right - frame.left, frame.bottom - frame.top);
        let _ = writeln!(
            svg,
            "<svg x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" \
             viewBox=\"{x:.1} {y:.1} {w:.1} {h:.1}\">"
        );
        for series in self.series.iter().filter(|s| s.connected) {
            draw_band(svg, frame, series);
        }
        for (n, guide) in self.references.iter().enumerate() {
            let look = guide_look(self.guide_number(n), guide.color);
            match &guide.line {
                GuideLine::Level(height) => {
                    let ends = (frame.point(frame.x.0, *height), frame.point(frame.x.1, *height));
                    line(svg, ends.0, ends.1, &look);
                }
                GuideLine::Curve(curve) => {
                    // The value of a row applies from its upper to its lower edge.
                    let half = if frame.upright { 0.5 } else { 0.0 };
                    let ends = |(x, y): &(f64, f64)| [(x - half, *y), (x + half, *y)];
                    let points = match frame.upright {
                        true => points(frame, curve.iter().flat_map(ends)),
                        false => points(frame, curve.iter().copied()),
                    };
                    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" {look}/>");
                }
            }
        }
        svg.push_str("</svg>\n");
        for (n, series) in self.series.iter().enumerate() {
            if series.connected {
                draw_line(svg, frame, series, n);
            } else {
                self.draw_dots(svg, frame, n);
            }
        }
        for reported in &self.reported {
            self.draw_reported(svg, frame, reported);
        }
        draw_legend(svg, &layout.legend);
    }

    /// Reference lines with the number of their label: one dash per label.
    fn guide_number(&self, n: usize) -> usize {
        let labels = self.guide_labels();
        labels.iter().position(|label| *label == self.references[n].label).unwrap_or(0)
    }

    fn guide_labels(&self) -> Vec<&str> {
        let mut labels: Vec<&str> = Vec::new();
        for guide in &self.references {
            if !labels.contains(&guide.label.as_str()) {
                labels.push(&guide.label);
            }
        }
        labels
    }

    fn y_ticks(&self, bounds: (f64, f64)) -> Vec<(f64, String)> {
        if self.y_log { log_ticks(bounds) } else { ticks(bounds, 5) }
    }

    /// The ticks of the horizontal axis: position, center of the label, label.
    fn level_ticks(&self, frame: &Frame) -> Vec<Tick> {
        let place = |x: f64| if frame.upright { frame.value(x) } else { frame.along(x) };
        let placed = |ticks: Vec<(f64, String)>| -> Vec<Tick> {
            let tick = |(x, label): (f64, String)| {
                let at = place(x);
                let half = width(&label) / 2.0;
                (at, at.clamp(EDGE + half, WIDTH - EDGE - half), label)
            };
            ticks.into_iter().map(tick).collect()
        };
        let bounds = if frame.upright { frame.y } else { frame.x };
        let log = if frame.upright { frame.y_log } else { frame.log };
        if !log {
            let tries = (2..=7).rev().map(|count| placed(ticks(bounds, count)));
            let apart = |t: &Vec<Tick>| t.windows(2).all(|w| !touch(&w[0], &w[1]));
            return tries.into_iter().find(apart).unwrap_or_default();
        }
        // The measured values, or powers of ten, as far as their labels do not touch.
        let all = match frame.upright {
            true => log_ticks(bounds),
            false => {
                let marks = self.series.iter().flat_map(|s| &s.marks);
                let mut xs: Vec<f64> = marks.map(|m| m.x).collect();
                xs.sort_by(f64::total_cmp);
                xs.into_iter().map(|x| (x, short(x))).collect()
            }
        };
        let mut kept: Vec<Tick> = Vec::new();
        for tick in placed(all) {
            if kept.last().is_none_or(|last| !touch(last, &tick)) {
                kept.push(tick);
            }
        }
        kept
    }

    fn draw_axes(&self, svg: &mut String, layout: &Layout) {
        let frame = &layout.frame;
        let grid = format!("stroke=\"{GRID}\"");
        let ink = format!("stroke=\"{INK}\"");
        let edge = frame.left - 6.0;
        let (middle, end) = ("text-anchor=\"middle\"", "text-anchor=\"end\"");
        if let Some(words) = self.words() {
            let pitch = (frame.bottom - frame.top) / words.len().max(1) as f64;
            for (row, word) in words.iter().enumerate() {
                let at = frame.along(row as f64);
                if row % 2 == 0 && words.len() > 1 {
                    let (x, y) = (frame.left, at - pitch / 2.0);
                    let w = frame.right - frame.left;
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" \
                         height=\"{pitch:.1}\" fill=\"{STRIPE}\"/>"
                    );
                }
                let lines = wrapped(&word.name, LONGEST_WORD);
                let first = at + 4.0 - (lines.len() - 1) as f64 * LINE / 2.0;
                for (n, name) in lines.iter().enumerate() {
                    text(svg, (edge, first + n as f64 * LINE), name, end);
                }
            }
        } else {
            for (y, label) in self.y_ticks(frame.y) {
                let at = frame.value(y);
                line(svg, (frame.left, at), (frame.right, at), &grid);
                text(svg, (edge, at + 4.0), &label, end);
            }
        }
        for (at, label_at, label) in self.level_ticks(frame) {
            if frame.upright {
                line(svg, (at, frame.top), (at, frame.bottom), &grid);
            }
            line(svg, (at, frame.bottom), (at, frame.bottom + 4.0), &ink);
            text(svg, (label_at, frame.bottom + 2.0 + LINE), &label, middle);
            if self.is_long() {
                text(svg, (label_at, frame.top - 5.0), &label, middle);
            }
        }
        let ink = format!("{ink} stroke-width=\"1.2\"");
        let corner = (frame.left, frame.bottom);
        line(svg, corner, (frame.right, frame.bottom), &ink);
        line(svg, (frame.left, frame.top), corner, &ink);
        // Centered below the plot if there is room, else further to the left.
        for (n, title) in layout.below.iter().enumerate() {
            let half = width(title) / 2.0;
            let x = f64::midpoint(frame.left, frame.right).min(WIDTH - EDGE - half);
            let y = frame.bottom + 3.0 + (n + 2) as f64 * LINE;
            text(svg, (x.max(EDGE + half), y), title, middle);
        }
    }

    /// Offset of the points of a series in the row of a word: below each other.
    fn offset(&self, n: usize) -> f64 {
        let (_, pitch) = self.rows().unwrap_or((1, 1.0));
        let apart = (1.0 - 6.0 / pitch) / self.series.len().max(1) as f64;
        (n as f64 - (self.series.len() as f64 - 1.0) / 2.0) * apart
    }

    /// Draws points with their bars.
    fn draw_dots(&self, svg: &mut String, frame: &Frame, n: usize) {
        let series = &self.series[n];
        for mark in &series.marks {
            let style = self.look(n, mark.x);
            let place = |y: f64| frame.point(mark.x + self.offset(n), y);
            if mark.low.is_finite() && mark.high.is_finite() {
                let look = format!("stroke=\"{}\" stroke-width=\"1.5\"", style.color);
                line(svg, place(frame.inside(mark.low)), place(frame.inside(mark.high)), &look);
                // A clipped bar has no end.
                let ends = [mark.low, mark.high];
                for end in ends.into_iter().filter(|end| frame.inside(*end) == *end) {
                    let (x, y) = place(end);
                    line(svg, (x, y - 3.2), (x, y + 3.2), &look);
                }
            }
            marker(svg, place(frame.inside(mark.y)), style);
            if frame.y_log && mark.y < frame.y.0 {
                below(svg, place(frame.y.0), frame.upright, &style.color.to_string());
            }
        }
    }

    /// Style of a point; the points of a single series have the looks of their words.
    fn look(&self, n: usize, x: f64) -> Style {
        let words = self.words().filter(|_| self.series.len() == 1);
        let own = words.and_then(|words| words.get(x as usize)?.style);
        own.unwrap_or(self.series[n].style)
    }

    fn draw_reported(&self, svg: &mut String, frame: &Frame, reported: &Reported) {
        let series = &self.series[reported.series];
        let offset = if series.connected { 0.0 } else { self.offset(reported.series) };
        let place = |y: f64| frame.point(reported.x + offset, y);
        let (low, high) = (place(frame.inside(reported.low)), place(reported.high));
        let color = self.look(reported.series, reported.x).color.to_string();
        hollow(svg, reported.by, low, high, &color);
    }

    /// Entries of the legend: the series, the reference lines, marks of a paper.
    fn keys(&self) -> Vec<(String, Sample)> {
        let mut keys = Vec::new();
        for series in &self.series {
            // A single series needs no name.
            if series.label.is_empty() || series.marks.is_empty() {
                continue;
            }
            // A single series over words has the looks of its words.
            let words = self.words().is_some_and(|words| words.iter().any(|w| w.style.is_some()));
            if words && self.series.len() == 1 {
                continue;
            }
            let sample = match series.connected {
                true => Sample::Line(stroke(series.style), Some(series.style)),
                false => Sample::Dot(series.style),
            };
            keys.push((series.label.clone(), sample));
        }
        for (n, label) in self.guide_labels().into_iter().enumerate() {
            let look = guide_look(n, None);
            keys.push((label.to_owned(), Sample::Line(look, None)));
        }
        let marks = || self.series.iter().flat_map(|series| &series.marks);
        if self.y_log && marks().any(|mark| mark.y <= 0.0) {
            keys.push((BELOW.to_owned(), Sample::Below));
        }
        for (by, words) in [(Reporter::Paper, PAPER), (Reporter::Ns2, NS2)] {
            let mut marks = self.reported.iter().filter(|r| r.by == by).peekable();
            if marks.peek().is_some() {
                let range = marks.all(|r| r.low < r.high);
                keys.push((words.to_owned(), Sample::Reported { by, range }));
            }
        }
        keys
    }
}

/// Longer words are wrapped.
const LONGEST_WORD: f64 = 145.0;
/// Width of a sample in a legend, and the gap between entries.
const SAMPLE: f64 = 30.0;
const GAP: f64 = 14.0;

/// The entries of a legend, in columns if two or more fit side by side, and the total height.
fn arranged(keys: Vec<(String, Sample)>) -> (Vec<Key>, f64) {
    let room = WIDTH - 2.0 * EDGE;
    let widest = keys.iter().map(|(label, _)| width(label)).fold(0.0, f64::max);
    let column = SAMPLE + widest + GAP;
    let columns = ((room + GAP) / column).floor().max(1.0);
    let (mut x, mut y, mut lowest) = (0.0, 0.0, 0.0f64);
    let mut all = Vec::new();
    for (label, sample) in keys {
        let lines = wrapped(&label, room - SAMPLE);
        let own = SAMPLE + lines.iter().map(|l| width(l)).fold(0.0, f64::max);
        // One long entry must not force all others into one column.
        let advance = if columns >= 2.0 { column } else { own + GAP };
        if x > 0.0 && x + own > room {
            (x, y) = (0.0, lowest);
        }
        lowest = lowest.max(y + lines.len() as f64 * (LINE + 1.0));
        all.push(Key { lines, sample, x: EDGE + x, y });
        x += advance;
    }
    (all, lowest)
}

fn draw_legend(svg: &mut String, legend: &Legend) {
    for key in &legend.keys {
        let (x, y) = (key.x, legend.top + key.y + LINE / 2.0);
        let (left, right, middle) = ((x, y), (x + SAMPLE - 6.0, y), (x + SAMPLE / 2.0 - 3.0, y));
        match &key.sample {
            Sample::Line(look, style) => {
                line(svg, left, right, look);
                if let Some(style) = style {
                    marker(svg, middle, *style);
                }
            }
            Sample::Dot(style) => {
                let look = format!("stroke=\"{}\" stroke-width=\"1.5\"", style.color);
                line(svg, left, right, &look);
                marker(svg, middle, *style);
            }
            Sample::Reported { by, range } => {
                let half = if *range { 6.0 } else { 0.0 };
                hollow(svg, *by, (middle.0, y + half), (middle.0, y - half), INK);
            }
            Sample::Below => below(svg, (middle.0, y + 6.0), false, INK),
        }
        for (n, text_line) in key.lines.iter().enumerate() {
            text(svg, (x + SAMPLE, y + 4.0 + n as f64 * (LINE + 1.0)), text_line, "");
        }
    }
}

/// Approximate width of a text.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// True if the labels would touch.
fn touch(a: &Tick, b: &Tick) -> bool {
    b.1 - a.1 < (width(&a.2) + width(&b.2)) / 2.0 + CHARACTER
}

/// A text wrapped to that width, unless a single word is wider.
fn wrapped(text: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + CHARACTER <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Lines with more points than this have markers at some of them only, which would overlap.
const MARKED: usize = 30;

fn marked(series: &Series) -> bool {
    series.marks.len() <= MARKED
}

/// Places of the markers of line `n`: each point, or if there are many a few, apart from those of
/// other lines.
fn marked_places(series: &Series, n: usize, places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if marked(series) {
        return places.to_vec();
    }
    let step = places.len().div_ceil(if series.thin { 2 } else { 7 });
    let first = (2 * n + 1) * step / 8 % step;
    places.iter().copied().skip(first).step_by(step).collect()
}

/// The look of a reference line.
fn guide_look(n: usize, color: Option<Tint>) -> String {
    const DASHES: [&str; 4] = ["4 4", "9 4", "2 4", "9 4 2 4"];
    let color = color.map_or_else(|| REFERENCE.to_owned(), |c| c.to_string());
    format!(
        "stroke=\"{color}\" stroke-width=\"1.3\" stroke-dasharray=\"{}\"",
        DASHES[n % DASHES.len()]
    )
}

fn stroke(style: Style) -> String {
    let dash = match style.dash {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    let width = if style.bold { 3.2 } else { 1.6 };
    format!("stroke=\"{}\" stroke-width=\"{width}\"{dash}", style.color)
}

fn draw_band(svg: &mut String, frame: &Frame, series: &Series) {
    for marks in series.marks.split(|mark| mark.y.is_nan()) {
        let bounded = marks.iter().filter(|m| m.low.is_finite() && m.high.is_finite());
        let bounded: Vec<&Mark> = bounded.collect();
        let upper = bounded.iter().map(|m| (m.x, m.high));
        let lower = bounded.iter().rev().map(|m| (m.x, m.low));
        let points = points(frame, upper.chain(lower));
        let color = series.style.color;
        let _ = writeln!(
            svg,
            "<polygon points=\"{points}\" fill=\"{color}\" fill-opacity=\"0.2\" \
             stroke=\"{color}\" stroke-opacity=\"0.45\" stroke-width=\"0.7\"/>"
        );
    }
}

fn draw_line(svg: &mut String, frame: &Frame, series: &Series, n: usize) {
    let look = match series.thin {
        true => format!(
            "stroke=\"{}\" stroke-width=\"0.9\" stroke-opacity=\"0.55\"",
            series.style.color
        ),
        false => stroke(series.style),
    };
    let mut places: Vec<(f64, f64)> = Vec::new();
    for marks in series.marks.split(|mark| mark.y.is_nan()) {
        let stretch: Vec<(f64, f64)> = marks.iter().map(|m| (m.x, frame.inside(m.y))).collect();
        let points = points(frame, thinned(&stretch).into_iter());
        let _ = writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" {look} stroke-linejoin=\"round\"/>"
        );
        places.extend(stretch);
    }
    for (x, y) in marked_places(series, n, &places) {
        marker(svg, frame.point(x, y), series.style);
    }
    for mark in series.marks.iter().filter(|mark| frame.y_log && mark.y < frame.y.0) {
        let color = series.style.color.to_string();
        below(svg, frame.point(mark.x, frame.y.0), frame.upright, &color);
    }
}

/// Draws an arrow to the lower end of a logarithmic axis, for a point below it.
fn below(svg: &mut String, (x, y): (f64, f64), upright: bool, color: &str) {
    let arrow = match upright {
        true => "m12 0h-10m3.5 -3l-3.5 3l3.5 3",
        false => "m0 -12v10m-3 -3.5l3 3.5l3 -3.5",
    };
    let look = format!("stroke=\"{color}\" stroke-width=\"1.5\" fill=\"none\"");
    let _ = writeln!(svg, "<path d=\"M{x:.1} {y:.1}{arrow}\" {look}/>");
}

/// As many points as can be distinguished: the lowest and the highest of each segment, so that no
/// peak is lost.
fn thinned(places: &[(f64, f64)]) -> Vec<(f64, f64)> {
    const STRETCHES: usize = 1000;
    if places.len() <= 3 * STRETCHES {
        return places.to_vec();
    }
    let stretches = places.chunks(places.len().div_ceil(STRETCHES)).flat_map(|stretch| {
        let order = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let low = stretch.iter().min_by(order);
        let high = stretch.iter().max_by(order);
        let mut ends: Vec<(f64, f64)> = low.into_iter().chain(high).copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends
    });
    stretches.collect()
}

fn points(frame: &Frame, places: impl Iterator<Item = (f64, f64)>) -> String {
    let text = |(x, y): (f64, f64)| {
        let (x, y) = frame.point(x, y);
        format!("{x:.1},{y:.1}")
    };
    places.map(text).collect::<Vec<_>>().join(" ")
}

fn marker(svg: &mut String, (x, y): (f64, f64), style: Style) {
    let color = style.color;
    let path = |steps: &str| format!("<path d=\"M{x:.1} {y:.1}{steps}\" fill=\"{color}\"/>");
    let hollow = format!("fill=\"{PAGE}\" stroke=\"{color}\" stroke-width=\"1.5\"");
    let shape = match style.marker {
        Marker::Circle => {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{color}\"/>")
        }
        Marker::Ring => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\" {hollow}/>"),
        Marker::Square => path("m-2.9 -2.9h5.8v5.8h-5.8z"),
        Marker::Frame => format!("<path d=\"M{x:.1} {y:.1}m-2.5 -2.5h5v5h-5z\" {hollow}/>"),
        Marker::Triangle => path("m0 -4l3.7 6.6h-7.4z"),
        Marker::Wedge => path("m0 4l3.7 -6.6h-7.4z"),
        Marker::Diamond => path("m0 -4.2l3.8 4.2l-3.8 4.2l-3.8 -4.2z"),
        Marker::Cross => format!(
            "<path d=\"M{x:.1} {y:.1}m-3 -3l6 6m0 -6l-6 6\" stroke=\"{color}\" \
             stroke-width=\"1.8\" fill=\"none\"/>"
        ),
    };
    svg.push_str(&shape);
    svg.push('\n');
}

/// Draws a number of a paper as a hollow diamond, one of ns-2 as a ring around the measured point,
/// a range as a hollow bar.
fn hollow(svg: &mut String, by: Reporter, low: (f64, f64), high: (f64, f64), color: &str) {
    let stroke = format!("stroke=\"{color}\" stroke-width=\"1.5\"");
    let look = format!("fill=\"{PAGE}\" fill-opacity=\"0.6\" {stroke}");
    if low == high {
        let (x, y) = low;
        let _ = match by {
            Reporter::Paper => {
                let diamond = "m0 -5.6l5 5.6l-5 5.6l-5 -5.6z";
                writeln!(svg, "<path d=\"M{x:.1} {y:.1}{diamond}\" {look}/>")
            }
            Reporter::Ns2 => {
                writeln!(
                    svg,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\" fill=\"none\" {stroke}/>"
                )
            }
        };
        return;
    }
    // One of the two is zero.
    let (x, w) = (low.0.min(high.0), (low.0 - high.0).abs());
    let (y, h) = (low.1.min(high.1), (low.1 - high.1).abs());
    let (x, w) = if w == 0.0 { (x - 2.5, 5.0) } else { (x, w) };
    let (y, h) = if h == 0.0 { (y - 2.5, 5.0) } else { (y, h) };
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{w:.1}\" height=\"{h:.1}\" {look}/>"
    );
}

/// About `count` round numbers within the bounds, as texts of equal precision.
fn ticks((low, high): (f64, f64), count: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power);
    let step = steps.into_iter().find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power);
    // As many decimals as the step itself needs.
    let exact = |d: &usize| {
        let scaled = step * 10f64.powi(*d as i32);
        scaled > 0.5 && (scaled - scaled.round()).abs() < 1e-6
    };
    let decimals = (0..15).find(exact).unwrap_or(15);
    let tiny = decimals > 6 && low.abs().max(high.abs()) < 1e-3;
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    let tick = |i: i64| {
        let value = i as f64 * step;
        (value, if tiny { short(value) } else { format!("{value:.decimals$}") })
    };
    (first..=last).map(tick).collect()
}

/// Powers of ten within the bounds, with 2 and 5 times them if there are few.
fn log_ticks((low, high): (f64, f64)) -> Vec<(f64, String)> {
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    let with = |factors: &[f64]| -> Vec<(f64, String)> {
        let values = decades.clone().flat_map(|d| {
            let power = 10f64.powi(d);
            factors.iter().map(move |f| f * power)
        });
        let inside = values.filter(|v| (low * 0.999..=high * 1.001).contains(v));
        inside.map(|v| (v, short(v))).collect()
    };
    let powers = with(&[1.0]);
    match powers.len() {
        0..3 => with(&[1.0, 2.0, 5.0]),
        n => powers.into_iter().step_by(n.div_ceil(10)).collect(),
    }
}

/// A number with few characters: `0.05`, `1e-8`.
fn short(x: f64) -> String {
    // Ignores rounding errors of 10^-7 after the last significant digit.
    let x: f64 = format!("{x:.6e}").parse().unwrap_or(x);
    match x.abs() {
        size if size > 0.0 && !(1e-3..1e5).contains(&size) => format!("{x:e}"),
        _ => format!("{x}"),
    }
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64), look: &str) {
    let _ =
        writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {look}/>");
}

fn text(svg: &mut String, (x, y): (f64, f64), content: &str, look: &str) {
    let content = escape(content);
    let space = if look.is_empty() { "" } else { " " };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{space}{look}>{content}</text>");
}

/// The beginning of a document with its background. It follows the page that it is part of, light
/// or dark; who knows nothing of style sees it light.
fn open(width: f64, height: f64, description: &str, tints: Vec<Tint>) -> String {
    let title = escape(description);
    let fixed = DARK.map(|(light, dark)| (light.to_owned(), dark.to_owned()));
    let page = (PAGE.to_owned(), DARK_PAGE.to_string());
    let tints = tints.into_iter().map(|tint| (tint.to_string(), tint.dark.to_string()));
    let rules = dark_rules(fixed.into_iter().chain([page]).chain(tints));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
         width=\"100%\" role=\"img\" aria-label=\"{title}\" fill=\"{INK}\" font-size=\"{FONT}\" \
         font-family=\"system-ui, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif\">\n\
         {rules}<rect width=\"100%\" height=\"100%\" fill=\"{PAGE}\"/>\n"
    )
}

/// A line with a link, as an SVG document.
pub(super) fn link(address: &str, words: &str) -> String {
    const HEIGHT: f64 = 30.0;
    let (address, text) = (escape(address), escape(words));
    let middle = HEIGHT / 2.0 + FONT / 3.0;
    open(WIDTH, HEIGHT, words, Vec::new())
        + &format!(
            "<a href=\"{address}\"><text x=\"12\" y=\"{middle:.1}\" \
             text-decoration=\"underline\">{text}</text></a>\n</svg>\n"
        )
}

/// Whole SVG documents below each other in one.
pub(super) fn stack(panels: &[&String]) -> String {
    let heights: Vec<f64> = panels.iter().map(|panel| height_of(panel)).collect();
    let mut svg = open(WIDTH, heights.iter().sum(), "Panels from top to bottom", Vec::new());
    let mut y = 0.0;
    for (panel, height) in panels.iter().zip(heights) {
        let place = format!("<svg y=\"{y}\" height=\"{height}\" ");
        svg.push_str(&panel.replacen("<svg ", &place, 1));
        y += height;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Reads the height that [`open`] wrote.
fn height_of(panel: &str) -> f64 {
    let sizes = panel.split_once("viewBox=\"").and_then(|(_, rest)| rest.split_once('"'));
    sizes.and_then(|(sizes, _)| sizes.rsplit(' ').next()?.parse().ok()).unwrap_or(PLOT)
}

/// A text as the content or an attribute of XML.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no control characters.
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_of_equal_precision() {
        let labels =
            |bounds, n| -> Vec<String> { ticks(bounds, n).into_iter().map(|t| t.1).collect() };
        assert_eq!(labels((0.0, 1.0), 5), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels((0.0, 100.0), 4), ["0", "25", "50", "75", "100"]);
        assert_eq!(labels((0.93, 1.01), 4), ["0.94", "0.96", "0.98", "1.00"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_or_more() {
        let labels = |bounds| log_ticks(bounds).into_iter().map(|t| t.1).collect::<Vec<_>>();
        assert_eq!(labels((0.008, 12.0)), ["0.01", "0.1", "1", "10"]);
        assert_eq!(labels((0.8, 12.0)), ["1", "2", "5", "10"]);
        assert_eq!(labels((1e-7, 1.2e-4)), ["1e-7", "1e-6", "1e-5", "1e-4"]);
        assert_eq!(short(2.5e-7), "2.5e-7");
    }

    fn panel(x: Scale, series: Vec<Series>) -> Panel {
        Panel {
            title: None,
            description: String::new(),
            x_title: String::new(),
            y_title: String::new(),
            x,
            x_bounds: None,
            y: None,
            possible: (f64::NEG_INFINITY, f64::INFINITY),
            y_log: false,
            series,
            references: Vec::new(),
            reported: Vec::new(),
        }
    }

    fn series(label: &str, marks: Vec<Mark>, connected: bool) -> Series {
        let style = crate::palette::style(0, 1);
        Series { label: label.to_owned(), style, marks, connected, thin: false }
    }

    fn words(names: &[&str]) -> Scale {
        Scale::Words(names.iter().map(|w| Word { name: (*w).to_owned(), style: None }).collect())
    }

    #[test]
    fn a_logarithmic_axis_is_even_in_decades_and_cuts_off_zero() {
        let (x, y) = ((0.0, 1.0), (0.01, 100.0));
        let (left, right, top, bottom) = (0.0, 100.0, 0.0, 400.0);
        let mut frame =
            Frame { left, right, top, bottom, x, y, log: false, y_log: true, upright: false };
        // Four decades of 100 each, from the bottom up.
        assert!((frame.value(1.0) - 200.0).abs() < 1e-9);
        assert!((frame.value(10.0) - 100.0).abs() < 1e-9);
        assert!(frame.value(0.0).is_finite() && frame.value(0.0) > 400.0);
        // Beside words four of 25, from the left.
        frame.upright = true;
        assert!((frame.value(1.0) - 50.0).abs() < 1e-9);
        assert!(frame.value(0.0) < 0.0);
        assert_eq!(frame.point(0.25, 10.0), (75.0, 100.0));
    }

    #[test]
    fn long_traces_keep_their_peaks() {
        let mut trace: Vec<(f64, f64)> = (0..50_000).map(|i| (f64::from(i), 1.0)).collect();
        trace[31_234].1 = 9.0;
        trace[40_001].1 = -9.0;
        let thin = thinned(&trace);
        assert!(thin.len() <= 2000, "{}", thin.len());
        assert!(thin.contains(&(31_234.0, 9.0)) && thin.contains(&(40_001.0, -9.0)));
        assert!(thin.windows(2).all(|w| w[0].0 <= w[1].0));
    }

    #[test]
    fn texts_wrap_between_words() {
        // 14 characters of 7.1 are 99.4.
        assert_eq!(wrapped("Throughput of the class", 100.0), ["Throughput of", "the class"]);
        assert_eq!(wrapped("unbreakable-as-it-is", 20.0), ["unbreakable-as-it-is"]);
        assert!(wrapped(" ", 20.0).is_empty());
    }

    /// The texts of a panel with their rectangles, by their anchors.
    fn texts(svg: &str) -> Vec<(String, [f64; 4])> {
        let number = |rest: &str, name: &str| -> f64 {
            let (_, rest) = rest.split_once(&format!(" {name}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        let texts = svg.lines().filter(|l| l.starts_with("<text")).map(|l| {
            let (look, content) = l.split_once('>').unwrap();
            let content = content.strip_suffix("</text>").unwrap().to_owned();
            let (x, y, w) = (number(look, "x"), number(look, "y"), width(&content));
            let left = match look {
                _ if look.contains("\"middle\"") => x - w / 2.0,
                _ if look.contains("\"end\"") => x - w,
                _ => x,
            };
            (content, [left, left + w, y - FONT, y])
        });
        texts.collect()
    }

    #[test]
    fn no_text_lies_upon_another_or_leaves_the_sheet() {
        let mark = |x, y| Mark { x, y, low: y - 0.1, high: y + 0.1 };
        let names: Vec<String> =
            (0..40).map(|n| format!("protocol-{n} {}", "x".repeat(n % 9))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<Mark> = (0..40).map(|n| mark(f64::from(n), f64::from(n) * 1e5)).collect();
        let many = |connected| -> Vec<Series> {
            names.iter().map(|n| series(n, all.clone(), connected)).collect()
        };
        let mut charts = vec![
            panel(words(&names), many(false)[..4].to_vec()),
            panel(words(&["a very long name of a queue with many words in it", "b"]), many(false)),
            panel(Scale::Linear, many(true)),
            panel(Scale::Log, many(true)[..1].to_vec()),
        ];
        // A logarithmic axis has no zero.
        charts[3].series[0].marks.remove(0);
        for chart in &mut charts {
            chart.title = Some("A title that is longer than a telephone is wide ".repeat(3));
            chart.y_title = "Throughput of the class over its share of the link, Mbit/s".to_owned();
            chart.x_title = "Loss rate".to_owned();
            let svg = chart.svg();
            let texts = texts(&svg);
            assert!(texts.len() > 10);
            for (i, (a, [left, right, top, bottom])) in texts.iter().enumerate() {
                assert!(*left >= 0.0 && *right <= WIDTH && *top >= 0.0, "{a} {left} {right} {top}");
                assert!(*bottom <= height_of(&svg), "{a} {bottom}");
                for (b, [l, r, t, u]) in &texts[..i] {
                    let apart = right <= l || r <= left || bottom <= t || u <= top;
                    assert!(apart, "{a} upon {b}");
                }
            }
        }
    }

    #[test]
    fn words_go_downwards_with_a_row_for_each_series() {
        let mark = |x| Mark { x, y: 1.0, low: 0.5, high: 1.5 };
        let both = || vec![mark(0.0), mark(1.0)];
        let mut few = panel(words(&["newreno", "sack"]), vec![series("", both(), false)]);
        few.y = Some((0.0, 2.0));
        // One line of text and 2.
        assert_eq!(few.rows(), Some((2, 17.0)));
        let four = (0..4).map(|_| series("s", both(), false)).collect();
        let four = panel(words(&["newreno", "sack"]), four);
        // Four points of 6 and 5 between rows: 29, of which 23 are for points, 5.75 apart.
        assert_eq!(four.rows(), Some((2, 29.0)));
        let offsets: Vec<f64> = (0..4).map(|n| four.offset(n) * 29.0).collect();
        let by_hand = [-8.625, -2.875, 2.875, 8.625];
        assert!(offsets.iter().zip(by_hand).all(|(a, b)| (a - b).abs() < 1e-9), "{offsets:?}");
        // A bar with two ends for each point.
        assert_eq!(few.svg().matches("stroke-width=\"1.5\"").count(), 6);
    }

    #[test]
    fn nothing_goes_beyond_what_is_possible() {
        let mark = |x, y| Mark { x, y, low: y, high: 100.0 };
        let shares = vec![series("", vec![mark(0.0, 95.0), mark(1.0, 100.0)], true)];
        let mut chart = panel(Scale::Linear, shares);
        chart.possible = (0.0, 100.0);
        // 95 to 100 and 6 % of margin below.
        let (low, high) = chart.y_bounds();
        assert!((low - 94.7).abs() < 1e-9 && high == 100.0, "{low} {high}");
        chart.y = Some((-5.0, 105.0));
        assert_eq!(chart.y_bounds(), (0.0, 100.0));
        chart.y = Some((0.0, 50.0));
        assert_eq!(chart.y_bounds(), (0.0, 50.0));
    }

    #[test]
    fn zeros_lie_below_a_logarithmic_axis_with_an_arrow() {
        let mark = |x: f64, y: f64| Mark { x, y, low: y, high: y };
        let marks = vec![mark(1.0, 10.0), mark(2.0, 0.0)];
        let mut chart = panel(Scale::Linear, vec![series("a", marks, true)]);
        assert!(!chart.svg().contains(BELOW));
        chart.y_log = true;
        assert_eq!(chart.svg().matches(BELOW).count(), 1);
        // Less than 8, of which zero has no place on the axis.
        chart.reported =
            vec![Reported { by: Reporter::Paper, series: 0, x: 2.0, low: 0.0, high: 8.0 }];
        let (low, high) = chart.y_bounds();
        assert!(low > 0.0 && low < 8.0 && high > 10.0, "{low} {high}");
        assert!(!chart.svg().contains("NaN") && !chart.svg().contains("inf"));
    }

    #[test]
    fn numbers_of_a_paper_are_hollow_inside_the_bounds_and_named_once() {
        let mark = |x, y| Mark { x, y, low: y, high: y };
        let own = series("sack", vec![mark(1.0, 1.0), mark(2.0, 2.0)], true);
        let color = own.style.color;
        let mut chart = panel(Scale::Linear, vec![own]);
        chart.y = Some((0.0, 3.0));
        assert!(!chart.svg().contains(PAPER));
        chart.reported = vec![
            Reported { by: Reporter::Paper, series: 0, x: 1.0, low: 4.0, high: 4.0 },
            Reported { by: Reporter::Paper, series: 0, x: 2.0, low: 1.0, high: 5.0 },
        ];
        assert_eq!(chart.y_bounds(), (0.0, 5.0));
        assert!(!chart.svg().contains(&format!(">{NS2}<")));
        let mut other = chart.clone();
        other.reported = vec![Reported { by: Reporter::Ns2, ..chart.reported[0] }];
        let svg = other.svg();
        assert!(svg.contains(&format!(">{NS2}<")) && !svg.contains(PAPER), "{svg}");
        chart.y = None;
        // From 1 to 5; above zero by less than 0.3 of it, so from zero, and a margin of 6 % of 4.
        assert_eq!(chart.y_bounds(), (0.0, 5.24));
        chart.y = Some((0.0, 5.0));
        let svg = chart.svg();
        assert_eq!(svg.matches(PAPER).count(), 1);
        let hollow = format!("fill=\"{PAGE}\" fill-opacity=\"0.6\" stroke=\"{color}\"");
        let marks: Vec<&str> = svg.lines().filter(|l| l.contains(&hollow)).collect();
        let [diamond, bar] = marks[..] else { panic!("{svg}") };
        assert!(diamond.starts_with("<path") && bar.starts_with("<rect"), "{diamond} {bar}");
        // 4 of 5 units of 215: 172 high, 5 wide, around the right end of the axis at 386.
        assert!(
            bar.contains("x=\"383.5\"") && bar.contains("width=\"5.0\" height=\"172.0\""),
            "{bar}"
        );
    }

    #[test]
    fn every_colour_has_its_counterpart_on_dark_pages() {
        let marks = |n: u32| (0..n).map(|x| Mark { x: f64::from(x), y: 1.0, low: 0.5, high: 1.5 });
        let style = |name: &str| crate::palette::protocol_style(name).unwrap();
        let mut chart = panel(Scale::Linear, vec![series("a", marks(3).collect(), true)]);
        for (n, name) in ["upwind", "cubic", "xcp-pa"].into_iter().enumerate() {
            let own = style(name).variant(n);
            chart.series.push(Series { style: own, ..series(name, marks(3).collect(), true) });
        }
        let color = Some(style("bbr").color);
        chart.references =
            vec![Guide { line: GuideLine::Level(1.0), color, label: "bound".to_owned() }];
        chart.reported =
            vec![Reported { by: Reporter::Paper, series: 0, x: 1.0, low: 1.0, high: 1.0 }];
        let svg = chart.svg();
        let (rules, drawn) = svg.split_once("</style>").unwrap();
        assert!(rules.contains("@media screen and (prefers-color-scheme: dark)"));
        let mut colors = 0;
        for name in ["fill", "stroke"] {
            for rest in drawn.split(&format!("{name}=\"#")).skip(1) {
                let color = rest.split('"').next().unwrap();
                assert!(rules.contains(&format!("[{name}=\"#{color}\"]{{{name}:#")), "{color}");
                colors += 1;
            }
        }
        assert!(colors > 20, "{colors}");
    }

    #[test]
    fn long_lines_have_a_few_markers_apart_from_each_other() {
        let marks = || (0..700).map(|x| Mark { x: f64::from(x), y: 1.0, low: 1.0, high: 1.0 });
        let one = series("a", marks().collect(), true);
        let places: Vec<(f64, f64)> = one.marks.iter().map(|m| (m.x, m.y)).collect();
        // Seven steps of 100; the second line begins a quarter of a step later.
        let at = |n| marked_places(&one, n, &places).into_iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!(at(0), [12.0, 112.0, 212.0, 312.0, 412.0, 512.0, 612.0]);
        assert_eq!(at(1)[..2], [37.0, 137.0]);
        let few: Vec<(f64, f64)> = places[..MARKED].to_vec();
        let short = Series { marks: marks().take(MARKED).collect(), ..one };
        assert_eq!(marked_places(&short, 1, &few), few);
    }

    #[test]
    fn points_of_a_single_series_look_as_their_words() {
        let style = crate::palette::protocol_style("sack");
        let named = Word { name: "sack".to_owned(), style };
        let mark = |x| Mark { x, y: 1.0, low: 0.5, high: 1.5 };
        let one = || series("a", vec![mark(0.0)], false);
        let sack = style.unwrap().color.to_string();
        let alone = panel(Scale::Words(vec![named.clone()]), vec![one()]).svg();
        assert!(alone.contains(&sack) && !alone.contains(">a<"), "{alone}");
        let two = panel(Scale::Words(vec![named]), vec![one(), one()]).svg();
        let drawn = format!("=\"{sack}\"/>");
        assert!(alone.contains(&drawn) && !two.contains(&drawn) && two.contains(">a<"), "{two}");
    }

    #[test]
    fn ticks_of_nothing_and_of_very_little_are_told_apart() {
        let mark = |x, y| Mark { x, y, low: y, high: y };
        let chart =
            |y| panel(Scale::Linear, vec![series("", vec![mark(0.0, y), mark(1.0, 0.0)], true)]);
        assert_eq!(chart(0.0).data_bounds(), (0.0, 1.0));
        let labels = |bounds| ticks(bounds, 5).into_iter().map(|(_, l)| l).collect::<Vec<_>>();
        assert_eq!(labels((0.0, 6e-8)), ["0", "2e-8", "4e-8", "6e-8"]);
        assert_eq!(labels((2.5e-10, 1e-9)), ["4e-10", "6e-10", "8e-10", "1e-9"]);
        assert_eq!(
            labels((0.0, 5e-5)),
            ["0.00000", "0.00001", "0.00002", "0.00003", "0.00004", "0.00005"]
        );
        let near = |x| (x, x * 1.0002);
        let grown = [3e-7, 1e-6, 2e-6, 1e-5, 1e-4, 1e-3].map(|high| chart(high).data_bounds());
        for bounds in grown.into_iter().chain([2e-9, 3e-5, 2e-3, 0.5].map(near)) {
            let labels = labels(bounds);
            let mut apart = labels.clone();
            apart.dedup();
            assert!(labels.len() > 2 && apart == labels, "{bounds:?}: {labels:?}");
        }
    }

    #[test]
    fn wide_intervals_do_not_flatten_the_points() {
        let mark = |y, low, high| Mark { x: 0.0, y, low, high };
        let bounds = |marks| panel(Scale::Linear, vec![series("", marks, false)]).data_bounds();
        // Points from 20 to 100 allow 40 more: 140, and none below zero; 6 % of 140 is margin.
        let (low, high) = bounds(vec![mark(20.0, -90.0, 130.0), mark(100.0, -50.0, 250.0)]);
        assert!(low.abs() < 1e-9 && (high - 148.4).abs() < 1e-9, "{low} {high}");
        // Where a point is below zero its interval is shown: -10 - 5 and 0 + 5, margin 1.2.
        let (low, high) = bounds(vec![mark(-10.0, -90.0, 10.0), mark(0.0, -1.0, 90.0)]);
        assert!((low + 16.2).abs() < 1e-9 && (high - 6.2).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn texts_cannot_break_out() {
        assert_eq!(escape("a<b & \"c\"\u{7}"), "a&lt;b &amp; &quot;c&quot; ");
    }
}
