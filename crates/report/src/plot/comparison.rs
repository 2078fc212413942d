//! Chart of a comparison of programs: a panel per measure.

use windward_experiments::comparison::{Comparison, Row};
use windward_experiments::statistics::Estimate;

use super::panel::{Guide, GuideLine, Mark, Panel, Scale, Series, Word};
use super::{Chart, titled};
use crate::palette::{Style, protocol_style, style};

/// Title, title of the axis, value of a row, bounds of the axis, and a reference value.
type Measure =
    (&'static str, &'static str, fn(&Row) -> Option<Estimate>, Option<(f64, f64)>, Option<f64>);

const MEASURES: [Measure; 5] = [
    ("Goodput", "Goodput over C (1 - p)", |row| row.share, Some((0.0, 1.05)), Some(1.0)),
    (
        "Throughput of the competing flow",
        "Throughput over C (1 - p)",
        |row| row.left,
        Some((0.0, 1.05)),
        Some(0.5),
    ),
    (
        "Packets sent for each delivered",
        "Sent / delivered",
        |row| row.sent_per_delivered,
        None,
        None,
    ),
    ("Mean queue", "Packets", |row| row.mean_queue_packets, None, None),
    ("Real and simulated goodput", "Real / simulated goodput", |row| row.ratio, None, Some(1.0)),
];

/// One chart with a panel for each measure with several numbers: over the loss rate, or program by
/// program if there is only one rate.
pub(crate) fn of_comparison(comparison: &Comparison) -> Chart {
    let rows = comparison.rows();
    let panels = MEASURES.iter().filter_map(|measure| panel(comparison, &rows, measure));
    Chart { title: None, panels: panels.map(|panel| panel.svg()).collect() }
}

fn panel(
    comparison: &Comparison,
    rows: &[Row],
    &(title, y_title, of, y, guide): &Measure,
) -> Option<Panel> {
    let programs = comparison.programs();
    let others: Vec<&str> =
        programs.iter().copied().filter(|name| protocol_style(name).is_none()).collect();
    let look = |program: &str| {
        let number = others.iter().position(|other| *other == program).unwrap_or(0);
        protocol_style(program).unwrap_or_else(|| style(number, others.len()))
    };
    let mark = |row: &Row, x: f64| {
        let Estimate { mean, low, high } = of(row)?;
        Some(Mark { x, y: mean, low: low.max(0.0), high }).filter(|mark| mark.y.is_finite())
    };
    let by_loss = comparison.losses().len() > 1;
    let series: Vec<Series> = match by_loss {
        true => programs
            .iter()
            .map(|program| Series {
                label: (*program).to_owned(),
                style: look(program),
                marks: rows
                    .iter()
                    .filter(|row| row.program == *program)
                    .filter_map(|row| mark(row, row.loss * 100.0))
                    .collect(),
                connected: true,
                thin: false,
            })
            .collect(),
        false => {
            let place = |row: &Row| programs.iter().position(|program| *program == row.program);
            let marks = rows.iter().filter_map(|row| mark(row, place(row)? as f64)).collect();
            vec![Series {
                label: String::new(),
                style: Style { ..look(programs.first().copied().unwrap_or_default()) },
                marks,
                connected: false,
                thin: false,
            }]
        }
    };
    let series: Vec<Series> =
        series.into_iter().filter(|series| !series.marks.is_empty()).collect();
    // A single point says no more than its number in the table.
    if series.iter().map(|series| series.marks.len()).sum::<usize>() < 2 {
        return None;
    }
    let word = |program: &&str| Word { name: (*program).to_owned(), style: Some(look(program)) };
    Some(Panel {
        title: Some(title.to_owned()),
        description: format!("{title} of {}", programs.join(", ")),
        x_title: if by_loss { titled("Loss", "%") } else { "Program".to_owned() },
        y_title: y_title.to_owned(),
        x: if by_loss { Scale::Linear } else { Scale::Words(programs.iter().map(word).collect()) },
        x_bounds: None,
        y,
        possible: (0.0, f64::INFINITY),
        y_log: false,
        series,
        references: guide
            .map(|level| Guide {
                line: GuideLine::Level(level),
                color: None,
                label: match level {
                    0.5 => "half".to_owned(),
                    _ if title == "Goodput" => "capacity of the link".to_owned(),
                    _ => "equal".to_owned(),
                },
            })
            .into_iter()
            .collect(),
        reported: Vec::new(),
    })
}
