//! Two logs in one chart.

use windward_logs::{Comparison, Quantity};

use super::panel::{Guide, GuideLine, Mark, Panel, Scale, Series, stack};
use super::titled;
use crate::palette::style;

/// Windows, bytes in flight, RTTs and rates of two logs over time, below each other, as one SVG
/// document. A dashed line marks the departure of a quantity. Quantities in neither log are left
/// out; `None` if all are.
pub fn compared(title: &str, labels: [&str; 2], comparison: &Comparison) -> Option<String> {
    let panels: Vec<String> = Quantity::ALL
        .into_iter()
        .filter_map(|quantity| panel(title, labels, comparison, quantity))
        .map(|panel| panel.svg())
        .collect();
    (!panels.is_empty()).then(|| stack(&panels.iter().collect::<Vec<_>>()))
}

fn panel(
    title: &str,
    labels: [&str; 2],
    comparison: &Comparison,
    quantity: Quantity,
) -> Option<Panel> {
    let samples = || comparison.samples.iter();
    let highest = samples().flat_map(|sample| sample.values(quantity)).flatten();
    let highest = highest.filter(|value| value.is_finite()).fold(0.0, f64::max);
    if highest == 0.0 {
        return None;
    }
    let (what, unit, factor) = match quantity {
        Quantity::Cwnd => ("Congestion window", "kB", 1e-3),
        Quantity::BytesInFlight => ("Bytes in flight", "kB", 1e-3),
        Quantity::SmoothedRtt => ("Smoothed RTT", "ms", 1.0),
        Quantity::Rate if highest >= 1e9 => ("Rate", "Gbit/s", 1e-9),
        Quantity::Rate if highest >= 1e6 => ("Rate", "Mbit/s", 1e-6),
        Quantity::Rate => ("Rate", "kbit/s", 1e-3),
    };
    let top = highest * factor * 1.05;
    let series = [0, 1].map(|side: usize| {
        let point = |sample: &windward_logs::Sample| {
            let y = sample.values(quantity)[side]? * factor;
            let (x, low, high) = (sample.time_ms / 1000.0, f64::NEG_INFINITY, f64::INFINITY);
            Some(Mark { x, y, low, high })
        };
        Series {
            label: labels[side].to_owned(),
            style: style(side, 2),
            marks: samples().filter_map(point).collect(),
            connected: true,
            thin: false,
        }
    });
    let departure = comparison.departures.iter().find(|found| found.quantity == quantity);
    let references = departure.map(|departure| {
        let x = departure.time_ms / 1000.0;
        let line = GuideLine::Curve(vec![(x, 0.0), (x, top)]);
        Guide { line, color: None, label: format!("departs at {x:.3} s") }
    });
    Some(Panel {
        title: Some(what.to_owned()),
        description: format!("{title}: {what} over time"),
        x_title: "Time (s)".to_owned(),
        y_title: titled(what, unit),
        x: Scale::Linear,
        x_bounds: (comparison.until_ms > 0.0).then_some((0.0, comparison.until_ms / 1000.0)),
        y: Some((0.0, top)),
        possible: (0.0, f64::INFINITY),
        y_log: false,
        series: series.into_iter().filter(|series| !series.marks.is_empty()).collect(),
        references: references.into_iter().collect(),
        reported: Vec::new(),
    })
}
