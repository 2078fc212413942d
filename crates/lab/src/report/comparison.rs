//! The page of a comparison of programs.

use std::fmt::Write;

use super::front::facts;
use super::{Provenance, Standing, foot, head};
use crate::comparison::{Comparison, Row};
use crate::plot::{Chart, escape};
use crate::statistics::{Estimate, SINGLE};

/// Charts first, then a row for each program and loss rate.
pub(crate) fn page_of_comparison(
    comparison: &Comparison,
    chart: &Chart,
    about: &Provenance,
) -> String {
    let title = "Programs side by side on one link";
    let mut html = head(title, Standing { to_come: 0, running: false });
    let _ = writeln!(html, "<header>\n<h1>{title}</h1>\n<p>{}</p>", escape(&comparison.link));
    let _ = writeln!(
        html,
        "<p>{} Goodput is counted in IP packets, C is the rate of the link and p the share of packets \
         that it loses. Bands and \u{b1} are 95 % intervals over runs (Student's t). {}</p>",
        escape(&comparison.window),
        if comparison.rows().iter().any(Row::has_single) { SINGLE } else { "" }
    );
    if let Some(rival) = &comparison.rival {
        let _ = writeln!(html, "<p>The competing flow is {}.</p>", escape(rival));
    }
    facts(&mut html, &[], about);
    html.push_str("</header>\n<section class=\"figure\">\n<div class=\"panels\">\n");
    for panel in &chart.panels {
        let _ = writeln!(html, "<figure>{panel}</figure>");
    }
    html.push_str("</div>\n</section>\n<section class=\"figure\">\n<h2>Numbers</h2>\n");
    table(&mut html, &comparison.rows());
    skipped(&mut html, comparison);
    html.push_str(
        "<p class=\"again\">Numbers: <a href=\"programs.csv\">programs.csv</a>, and run by run \
         <a href=\"runs.csv\">runs.csv</a>.</p>\n</section>\n",
    );
    foot(&mut html, about);
    html
}

fn table(html: &mut String, rows: &[Row]) {
    let any = |of: fn(&Row) -> bool| rows.iter().any(of);
    let (left, twin) = (any(|row| row.left.is_some()), any(|row| row.simulated_bps.is_some()));
    let simulated_left = any(|row| row.simulated_left.is_some());
    html.push_str(
        "<div class=\"scroll\"><table class=\"standings\">\n<thead><tr><th>Program</th><th>Loss</th>\
         <th>Runs</th><th>Packets, bytes</th><th>Goodput, Mbit/s</th><th>of C (1 - p)</th><th>Sent / delivered</th>\
         <th>Mean queue</th>",
    );
    if left {
        html.push_str("<th>Left to the other</th>");
    }
    if simulated_left {
        html.push_str("<th>Left, simulated</th>");
    }
    if twin {
        html.push_str("<th>Simulated, Mbit/s</th><th>Real / simulated</th>");
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        let unusable = match row.unusable {
            0 => String::new(),
            n => format!("<br><small>{n} unusable</small>"),
        };
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{} %</td><td>{}{unusable}</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td><td>{}</td>",
            escape(&row.program),
            row.loss * 100.0,
            row.runs_in_words(),
            row.packet_size.map_or("-".to_owned(), |size| size.to_string()),
            number(row.goodput_bps, 1e-6, 3),
            number(row.share, 1.0, 3),
            number(row.sent_per_delivered, 1.0, 3),
            number(row.mean_queue_packets, 1.0, 1)
        );
        if left {
            let _ = write!(html, "<td>{}</td>", number(row.left, 1.0, 3));
        }
        if simulated_left {
            let _ = write!(html, "<td>{}</td>", number(row.simulated_left, 1.0, 3));
        }
        if twin {
            let _ = write!(
                html,
                "<td>{}</td><td>{}</td>",
                number(row.simulated_bps, 1e-6, 3),
                number(row.ratio, 1.0, 3)
            );
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn number(estimate: Option<Estimate>, factor: f64, digits: usize) -> String {
    let shown = estimate.map(|estimate| estimate.shown(factor, digits).replace(' ', "\u{a0}"));
    shown.unwrap_or_else(|| "-".to_owned())
}

fn skipped(html: &mut String, comparison: &Comparison) {
    let reasons = comparison.runs.iter().filter_map(|run| {
        let what = format!("{} at {} %, seed {}", run.program, run.loss * 100.0, run.seed);
        Some((what, run.unusable.clone()?))
    });
    let all: Vec<(String, String)> = comparison.skipped.iter().cloned().chain(reasons).collect();
    if all.is_empty() {
        return;
    }
    html.push_str("<h3>What is missing</h3>\n<ul>\n");
    for (what, why) in all {
        let _ = writeln!(html, "<li>{}: {}</li>", escape(&what), escape(&why));
    }
    html.push_str("</ul>\n");
}
