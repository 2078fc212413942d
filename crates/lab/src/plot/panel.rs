//! One panel as SVG, written directly: dashes, markers and labels beside the lines are what
//! a chart library's SVG output lacks, and all that is needed are lines and text.

use std::fmt::Write;

use crate::palette::{Marker, Style};

/// Width and height of a panel in its own units; a page scales it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// About the width of a character of a series label, in the wider of the fonts a reader may have.
const LABEL_CHARACTER: f64 = 7.7;
/// The same of a word below the axis, and the slope of words that have no room side by side.
const WORD_CHARACTER: f64 = 7.2;
const WORD_SLOPE: f64 = 40.0;
const SINE_OF_SLOPE: f64 = 0.643;
/// Distance of series labels, one above the other.
const LABEL_PITCH: f64 = 18.0;

const INK: &str = "#222";
const GRID: &str = "#e2e2e2";
const REFERENCE: &str = "#777";

/// What a panel shows, in the units of its axes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Panel {
    pub(super) title: Option<String>,
    /// For those who cannot see it.
    pub(super) description: String,
    pub(super) x_title: String,
    pub(super) y_title: String,
    pub(super) x: Scale,
    /// Bounds of a linear axis, or those of the data.
    pub(super) x_bounds: Option<(f64, f64)>,
    /// Bounds, or those of the data.
    pub(super) y: Option<(f64, f64)>,
    /// Is the vertical axis logarithmic? Then every point and bound is above zero; what
    /// intervals reach below is cut off.
    pub(super) y_log: bool,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<Guide>,
}

/// The horizontal axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scale {
    Linear,
    Log,
    /// Places 0, 1, 2.. with a name each.
    Words(Vec<String>),
}

/// A line to compare with, and what it means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Guide {
    /// All along this height.
    Level(f64, String),
    /// Through these points, from left to right.
    Curve(Vec<(f64, f64)>, String),
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Series {
    pub(super) label: String,
    pub(super) style: Style,
    pub(super) marks: Vec<Mark>,
    /// By a line with a band around it; else each point has its own bar.
    pub(super) connected: bool,
}

/// A point with its interval, which may be infinite: then it is not drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Where the axes are on the sheet, and what they span.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Do the words below stand at a slope?
    slanted: bool,
    x: (f64, f64),
    y: (f64, f64),
    log: bool,
    y_log: bool,
}

impl Frame {
    fn x(&self, x: f64) -> f64 {
        let of = |v: f64| if self.log { v.log10() } else { v };
        let share = (of(x) - of(self.x.0)) / (of(self.x.1) - of(self.x.0));
        self.left + share * (self.right - self.left)
    }

    fn y(&self, y: f64) -> f64 {
        // The logarithm of what is not above zero lies below every chart.
        let of = |v: f64| if self.y_log { v.max(0.5 * self.y.0).log10() } else { v };
        let share = (of(y) - of(self.y.0)) / (of(self.y.1) - of(self.y.0));
        self.bottom - share * (self.bottom - self.top)
    }
}

impl Panel {
    /// The panel as an SVG document.
    pub(super) fn svg(&self) -> String {
        let mut svg = open(WIDTH, HEIGHT, &self.description);
        let frame = self.frame();
        self.draw(&mut svg, &frame);
        svg.push_str("</svg>\n");
        svg
    }

    fn frame(&self) -> Frame {
        let curves = self.references.iter().filter_map(|guide| match guide {
            Guide::Curve(_, label) => Some(label),
            Guide::Level(..) => None,
        });
        let labels = self.series.iter().map(|s| &s.label).chain(curves);
        let longest = labels.map(|label| label.chars().count()).max();
        let labels = longest.unwrap_or(0) as f64 * LABEL_CHARACTER + 44.0;
        let xs = || self.series.iter().flat_map(|s| &s.marks).map(|m| m.x);
        let (low, high) =
            (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
        let x = match &self.x {
            Scale::Words(words) => (-0.5, words.len() as f64 - 0.5),
            Scale::Linear if self.x_bounds.is_some() => self.x_bounds.unwrap_or((0.0, 1.0)),
            _ if low > high => (0.0, 1.0),
            Scale::Log if low == high => (low / 2.0, high * 2.0),
            Scale::Log => (low, high),
            Scale::Linear if low == high => (low - 1.0, high + 1.0),
            // An axis from nearly zero begins at zero.
            Scale::Linear if low > 0.0 && low < 0.15 * high => (0.0, high),
            Scale::Linear => (low, high),
        };
        let (left, right) = (66.0, WIDTH - labels.clamp(30.0, 270.0));
        let slanted = self.slanted_height(right - left);
        Frame {
            left,
            right,
            top: if self.title.is_some() { 36.0 } else { 14.0 },
            bottom: HEIGHT - 54.0 - slanted.unwrap_or(0.0),
            slanted: slanted.is_some(),
            x,
            y: self.y.unwrap_or_else(|| self.data_bounds()),
            log: self.x == Scale::Log,
            y_log: self.y_log,
        }
    }

    /// What the words below an axis of this length take in height besides one line, if they
    /// would touch each other on it.
    fn slanted_height(&self, length: f64) -> Option<f64> {
        let Scale::Words(words) = &self.x else { return None };
        let longest = words.iter().map(|w| w.chars().count()).max()? as f64 * WORD_CHARACTER;
        let touch = longest > length / words.len() as f64;
        touch.then(|| longest.min(180.0) * SINE_OF_SLOPE)
    }

    /// Bounds around all points and their intervals; from zero unless that would flatten them.
    /// The interval of two or three runs can be many times as wide as all points lie apart: more
    /// than half of that is cut off, and so is what lies below zero where no point does.
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
            // The lower end may be next to nothing, and is cut off then.
            true => [m.y, m.y, m.high],
            false => [m.y, m.low.max(floor), m.high.min(highest + reach)],
        };
        let guides = || {
            self.references.iter().flat_map(|guide| match guide {
                Guide::Level(y, _) => vec![*y],
                Guide::Curve(points, _) => points.iter().map(|p| p.1).collect(),
            })
        };
        let values = || marks().flat_map(ends).chain(guides()).filter(|v| v.is_finite());
        if self.y_log {
            let above = || values().filter(|v| *v > 0.0);
            let low = above().fold(f64::INFINITY, f64::min);
            let high = above().fold(0.0, f64::max);
            return if low > high { (0.1, 1.0) } else { (low / 1.3, high * 1.3) };
        }
        let low = values().fold(f64::INFINITY, f64::min);
        let high = values().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return (0.0, 1.0);
        }
        let margin = 0.06 * (high - low).max(1e-3 * high.abs()).max(1e-12);
        let from_zero = low >= 0.0 && (high - low) > 0.3 * high;
        (if from_zero { 0.0 } else { low - margin }, high + margin)
    }

    fn draw(&self, svg: &mut String, frame: &Frame) {
        if let Some(title) = &self.title {
            let x = frame.left;
            text(svg, (x, 22.0), title, "font-weight=\"600\" font-size=\"15\"");
        }
        self.draw_axes(svg, frame);
        for guide in &self.references {
            if let Guide::Level(height, label) = guide
                && (frame.y.0..=frame.y.1).contains(height)
            {
                let y = frame.y(*height);
                line(svg, (frame.left, y), (frame.right, y), &guide_look(0));
                let place = (frame.right - 4.0, y - 5.0);
                let look = format!("text-anchor=\"end\" fill=\"{REFERENCE}\" font-size=\"12\"");
                text(svg, place, label, &look);
            }
        }
        // What a fixed bound cuts off must not spill over the titles.
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
        for (n, (curve, _)) in self.curves().enumerate() {
            let points = points(frame, curve.iter().copied());
            let look = guide_look(n + 1);
            let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" {look}/>");
        }
        svg.push_str("</svg>\n");
        for (n, series) in self.series.iter().enumerate() {
            if series.connected {
                draw_line(svg, frame, series);
            } else {
                self.draw_dots(svg, frame, n);
            }
        }
        self.draw_labels(svg, frame);
    }

    /// The curves to compare with.
    fn curves(&self) -> impl Iterator<Item = (&Vec<(f64, f64)>, &String)> {
        self.references.iter().filter_map(|guide| match guide {
            Guide::Curve(curve, label) => Some((curve, label)),
            Guide::Level(..) => None,
        })
    }

    fn draw_axes(&self, svg: &mut String, frame: &Frame) {
        let tick = "font-size=\"13\" text-anchor";
        let y_ticks = if self.y_log { log_ticks(frame.y) } else { ticks(frame.y, 6) };
        for (y, label) in y_ticks {
            let at = frame.y(y);
            let grid = format!("stroke=\"{GRID}\"");
            line(svg, (frame.left, at), (frame.right, at), &grid);
            let place = (frame.left - 8.0, at + 4.5);
            text(svg, place, &label, &format!("{tick}=\"end\""));
        }
        for (x, label) in self.x_ticks(frame) {
            let at = frame.x(x);
            let ink = format!("stroke=\"{INK}\"");
            line(svg, (at, frame.bottom), (at, frame.bottom + 5.0), &ink);
            if frame.slanted {
                let (x, y) = (at + 4.0, frame.bottom + 15.0);
                let turn = format!("transform=\"rotate(-{WORD_SLOPE} {x:.1} {y:.1})\"");
                text(svg, (x, y), &label, &format!("{tick}=\"end\" {turn}"));
            } else {
                let place = (at, frame.bottom + 19.0);
                text(svg, place, &label, &format!("{tick}=\"middle\""));
            }
        }
        let ink = format!("stroke=\"{INK}\" stroke-width=\"1.2\"");
        let corner = (frame.left, frame.bottom);
        line(svg, corner, (frame.right, frame.bottom), &ink);
        line(svg, (frame.left, frame.top), corner, &ink);
        let middle = f64::midpoint(frame.left, frame.right);
        let place = (middle, HEIGHT - 12.0);
        let look = "font-size=\"14\" text-anchor=\"middle\"";
        text(svg, place, &self.x_title, look);
        let (x, y) = (17.0, f64::midpoint(frame.top, frame.bottom));
        let turned = format!("{look} transform=\"rotate(-90 {x} {y:.1})\"");
        text(svg, (x, y), &self.y_title, &turned);
    }

    fn x_ticks(&self, frame: &Frame) -> Vec<(f64, String)> {
        match &self.x {
            Scale::Linear => ticks(frame.x, 7),
            Scale::Words(words) => {
                let numbered = words.iter().enumerate();
                numbered.map(|(i, w)| (i as f64, w.clone())).collect()
            }
            // The values that were measured, as far as their labels do not touch.
            Scale::Log => {
                let mut xs: Vec<f64> =
                    self.series.iter().flat_map(|s| &s.marks).map(|m| m.x).collect();
                xs.sort_by(f64::total_cmp);
                let mut kept: Vec<(f64, String)> = Vec::new();
                for x in xs {
                    let label = short(x);
                    let width = 30f64.max(label.len() as f64 * LABEL_CHARACTER + 4.0);
                    if kept.last().is_none_or(|last| frame.x(x) - frame.x(last.0) > width) {
                        kept.push((x, label));
                    }
                }
                kept
            }
        }
    }

    /// Points with their bars; the series of one word stand side by side.
    fn draw_dots(&self, svg: &mut String, frame: &Frame, n: usize) {
        let series = &self.series[n];
        let offset = (n as f64 + 0.5) / self.series.len() as f64 - 0.5;
        for mark in &series.marks {
            let x = frame.x(mark.x + 0.6 * offset);
            let y = frame.y(mark.y);
            if mark.low.is_finite() && mark.high.is_finite() {
                let inside = |y: f64| y.clamp(frame.y.0, frame.y.1);
                let look = format!("stroke=\"{}\" stroke-width=\"1.6\"", series.style.color);
                let (low, high) = (frame.y(inside(mark.low)), frame.y(inside(mark.high)));
                line(svg, (x, low), (x, high), &look);
                // A bar that is cut off has no end.
                for end in [mark.low, mark.high].into_iter().filter(|end| inside(*end) == *end) {
                    let y = frame.y(end);
                    line(svg, (x - 4.0, y), (x + 4.0, y), &look);
                }
            }
            marker(svg, (x, y), series.style);
        }
    }

    /// Names every series at the right edge, near its last point and in its order, each with
    /// a sample of its line.
    fn draw_labels(&self, svg: &mut String, frame: &Frame) {
        struct Key<'a> {
            label: &'a str,
            look: String,
            marker: Option<Style>,
        }
        let mut wanted: Vec<(f64, Key<'_>)> = Vec::new();
        for series in &self.series {
            // The last third of noisy traces tells better where a line ends than one point.
            let tail = &series.marks[series.marks.len() - series.marks.len().div_ceil(9)..];
            // A series that needs no name is alone.
            if tail.is_empty() || series.label.is_empty() {
                continue;
            }
            let mean = tail.iter().map(|m| m.y).sum::<f64>() / tail.len() as f64;
            let marked = series.marks.len() <= MARKED;
            let key = Key {
                label: &series.label,
                look: stroke(series.style),
                marker: marked.then_some(series.style),
            };
            wanted.push((frame.y(mean).clamp(frame.top, frame.bottom), key));
        }
        for (n, (curve, label)) in self.curves().enumerate() {
            let Some((_, y)) = curve.last() else { continue };
            let key = Key { label, look: guide_look(n + 1), marker: None };
            wanted.push((frame.y(*y).clamp(frame.top, frame.bottom), key));
        }
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let places = spread(
            &wanted.iter().map(|w| w.0).collect::<Vec<_>>(),
            (frame.top + 4.0, frame.bottom - 4.0),
        );
        for ((_, key), y) in wanted.iter().zip(places) {
            let x = frame.right + 8.0;
            line(svg, (x, y), (x + 24.0, y), &key.look);
            if let Some(style) = key.marker {
                marker(svg, (x + 12.0, y), style);
            }
            text(svg, (x + 29.0, y + 4.5), key.label, "font-size=\"13\"");
        }
    }
}

/// Lines of more points than this have no markers: they would be a smear.
const MARKED: usize = 30;

/// The look of a line to compare with; curves have numbers from 1 on.
fn guide_look(n: usize) -> String {
    const DASHES: [&str; 4] = ["4 4", "9 4", "2 4", "9 4 2 4"];
    format!("stroke=\"{REFERENCE}\" stroke-dasharray=\"{}\"", DASHES[n % DASHES.len()])
}

fn stroke(style: Style) -> String {
    let dash = match style.dash {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    };
    format!("stroke=\"{}\" stroke-width=\"2\"{dash}", style.color)
}

fn draw_band(svg: &mut String, frame: &Frame, series: &Series) {
    let bounded = series.marks.iter().filter(|m| m.low.is_finite() && m.high.is_finite());
    let bounded: Vec<&Mark> = bounded.collect();
    let upper = bounded.iter().map(|m| (m.x, m.high));
    let lower = bounded.iter().rev().map(|m| (m.x, m.low));
    let points = points(frame, upper.chain(lower));
    let color = series.style.color;
    let _ = writeln!(svg, "<polygon points=\"{points}\" fill=\"{color}\" fill-opacity=\"0.16\"/>");
}

fn draw_line(svg: &mut String, frame: &Frame, series: &Series) {
    let inside = |y: f64| y.clamp(frame.y.0, frame.y.1);
    let places: Vec<(f64, f64)> = series.marks.iter().map(|m| (m.x, inside(m.y))).collect();
    let points = points(frame, thinned(&places).into_iter());
    let look = stroke(series.style);
    let _ = writeln!(
        svg,
        "<polyline points=\"{points}\" fill=\"none\" {look} stroke-linejoin=\"round\"/>"
    );
    if series.marks.len() <= MARKED {
        for (x, y) in places {
            marker(svg, (frame.x(x), frame.y(y)), series.style);
        }
    }
}

/// No more points than can be told apart: the lowest and the highest of each stretch, so that
/// no peak is lost.
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
    let texts = places.map(|(x, y)| format!("{:.1},{:.1}", frame.x(x), frame.y(y)));
    texts.collect::<Vec<_>>().join(" ")
}

fn marker(svg: &mut String, (x, y): (f64, f64), style: Style) {
    let color = style.color;
    let r = 4.2;
    let path = |steps: &str| format!("<path d=\"M{x:.1} {y:.1}{steps}\" fill=\"{color}\"/>");
    let shape = match style.marker {
        Marker::Circle => {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"{color}\"/>")
        }
        Marker::Ring => format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r}\" fill=\"#fff\" stroke=\"{color}\" \
             stroke-width=\"1.8\"/>"
        ),
        Marker::Square => path("m-3.8 -3.8h7.6v7.6h-7.6z"),
        Marker::Triangle => path("m0 -5.2l4.8 8.6h-9.6z"),
        Marker::Diamond => path("m0 -5.6l5 5.6l-5 5.6l-5 -5.6z"),
        Marker::Cross => format!(
            "<path d=\"M{x:.1} {y:.1}m-4 -4l8 8m0 -8l-8 8\" stroke=\"{color}\" \
             stroke-width=\"2.2\" fill=\"none\"/>"
        ),
    };
    svg.push_str(&shape);
    svg.push('\n');
}

/// Places at least a pitch apart, in order, as near to those wanted as that allows.
fn spread(wanted: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
    // From the top down push apart, then from the bottom up push back.
    let pitch = LABEL_PITCH.min((bottom - top) / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    let mut least = top;
    for place in &mut places {
        *place = place.max(least);
        least = *place + pitch;
    }
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - pitch;
    }
    places
}

/// About `count` round numbers within the bounds, as texts of equal precision.
fn ticks((low, high): (f64, f64), count: usize) -> Vec<(f64, String)> {
    let rough = (high - low) / count as f64;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|s| s * power);
    let step = steps.into_iter().find(|s| *s >= rough * 0.999).unwrap_or(10.0 * power);
    // As many decimals as the step itself needs.
    let exact = |d: &usize| (step * 10f64.powi(*d as i32)).fract().abs() < 1e-6;
    let decimals = (0..9).find(exact).unwrap_or(9);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    let tick = |i: i64| {
        let value = i as f64 * step;
        (value, format!("{value:.decimals$}"))
    };
    (first..=last).map(tick).collect()
}

/// Powers of ten within the bounds, with 2 and 5 times them where there are few.
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
    // What 10^-7 leaves behind the last digit that counts says nothing.
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
    let fill = if look.contains("fill=") { String::new() } else { format!(" fill=\"{INK}\"") };
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\"{fill} {look}>{content}</text>");
}

fn open(width: f64, height: f64, description: &str) -> String {
    let title = escape(description);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"100%\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"system-ui, 'Helvetica Neue', Arial, 'Liberation Sans', sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    )
}

/// Whole SVG documents below each other in one.
pub(super) fn stack(panels: &[&String]) -> String {
    let mut svg = open(WIDTH, HEIGHT * panels.len() as f64, "Panels from top to bottom");
    for (i, panel) in panels.iter().enumerate() {
        let y = HEIGHT * i as f64;
        let place = format!("<svg y=\"{y}\" height=\"{HEIGHT}\" ");
        svg.push_str(&panel.replacen("<svg ", &place, 1));
    }
    svg.push_str("</svg>\n");
    svg
}

/// A text as the content or an attribute of XML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no place for control characters.
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

    #[test]
    fn a_logarithmic_axis_is_even_in_decades_and_cuts_off_zero() {
        let (x, y) = ((0.0, 1.0), (0.01, 100.0));
        let (left, right, top, bottom) = (0.0, 100.0, 0.0, 400.0);
        let frame =
            Frame { left, right, top, bottom, x, y, log: false, y_log: true, slanted: false };
        // Four decades of 100 each.
        assert!((frame.y(1.0) - 200.0).abs() < 1e-9);
        assert!((frame.y(10.0) - 100.0).abs() < 1e-9);
        assert!(frame.y(0.0).is_finite() && frame.y(0.0) > 400.0);
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
    fn labels_spread_but_keep_their_order() {
        // Three at 100 with a pitch of 18, room enough: 100, 118, 136.
        assert_eq!(spread(&[100.0; 3], (0.0, 300.0)), [100.0, 118.0, 136.0]);
        // At the lower edge they are pushed up: 300, 282.
        assert_eq!(spread(&[300.0; 2], (0.0, 300.0)), [282.0, 300.0]);
    }

    #[test]
    fn words_slope_only_where_they_would_touch() {
        let panel = |words: &[&str]| Panel {
            title: None,
            description: String::new(),
            x_title: String::new(),
            y_title: String::new(),
            x: Scale::Words(words.iter().map(|w| (*w).to_owned()).collect()),
            x_bounds: None,
            y: None,
            y_log: false,
            series: Vec::new(),
            references: Vec::new(),
        };
        let few = panel(&["newreno", "sack"]);
        let many = panel(&["lr-lmxtcp"; 20]);
        assert_eq!(few.slanted_height(500.0), None);
        // Nine characters of 7.2 stand on 25 each, and rise by 64.8 sin 40 degrees.
        let height = many.slanted_height(500.0).unwrap();
        assert!((height - 64.8 * 0.643).abs() < 0.1, "{height}");
        assert!(many.svg().contains("rotate(-40 ") && !few.svg().contains("rotate(-40 "));
    }

    #[test]
    fn wide_intervals_do_not_flatten_the_points() {
        let mark = |y, low, high| Mark { x: 0.0, y, low, high };
        let bounds = |marks| {
            let series = Series {
                label: String::new(),
                style: crate::palette::style(1),
                marks,
                connected: false,
            };
            let panel = Panel {
                title: None,
                description: String::new(),
                x_title: String::new(),
                y_title: String::new(),
                x: Scale::Linear,
                x_bounds: None,
                y: None,
                y_log: false,
                series: vec![series],
                references: Vec::new(),
            };
            panel.data_bounds()
        };
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
