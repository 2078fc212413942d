//! The page of a comparison of programs.

use std::fmt::Write;
use std::io::Write as _;

use windward_experiments::ExperimentError;
use windward_experiments::comparison::{Comparison, Row};
use windward_experiments::statistics::{Estimate, SINGLE};
use windward_sim::output::OutputDir;

use crate::page::{Provenance, Standing, facts, foot, head, prose};
use crate::plot::{escape, of_comparison};

/// Writes `index.html`, `programs.csv`, `runs.csv` and `compare.json`.
///
/// # Errors
/// If a file cannot be written.
pub fn write_comparison(
    out: &mut OutputDir,
    comparison: &Comparison,
    about: &Provenance,
) -> Result<(), ExperimentError> {
    let (page, json) = (page_of_comparison(comparison, about), comparison.to_json()?);
    out.write("index.html", |file| file.write_all(page.as_bytes()))?;
    out.write("programs.csv", |file| comparison.write_rows(file))?;
    out.write("runs.csv", |file| comparison.write_runs(file))?;
    out.write("compare.json", |file| file.write_all(json.as_bytes()))?;
    Ok(())
}

/// A self-contained page: charts with confidence intervals first, then a row for each program and
/// loss rate.
pub fn page_of_comparison(comparison: &Comparison, about: &Provenance) -> String {
    let chart = of_comparison(comparison);
    let title = "Comparison of programs on one link";
    let mut html = head(title, &Standing::default());
    let _ = writeln!(html, "<header>\n<h1>{title}</h1>\n<p>{}</p>", escape(&comparison.link));
    let _ = writeln!(
        html,
        "<p>{} Goodput is counted in IP packets, C is the rate of the link and p the share of packets \
         that it loses. Bands and \u{b1} are 95 % intervals over runs (Student's t, of real / simulated Fieller's). {}</p>",
        escape(&comparison.window),
        if comparison.rows().iter().any(Row::has_single) { SINGLE } else { "" }
    );
    if let Some(rival) = &comparison.rival {
        let _ = writeln!(html, "<p>The competing flow is {}.</p>", prose(rival));
    }
    let unusable = comparison.runs.iter().filter(|run| run.unusable.is_some()).count();
    if unusable > 0 {
        let _ = writeln!(
            html,
            "<p class=\"why\"><b>Unusable</b>: {unusable} of {} runs; see <a \
             href=\"#missing\">the reasons</a>.</p>",
            comparison.planned
        );
    }
    facts(&mut html, "", about);
    html.push_str("</header>\n");
    if !chart.panels.is_empty() {
        html.push_str("<section class=\"figure\">\n<div class=\"panels\">\n");
        for panel in &chart.panels {
            let _ = writeln!(html, "<figure>{panel}</figure>");
        }
        html.push_str("</div>\n</section>\n");
    }
    html.push_str("<section class=\"figure\">\n<h2>Numbers</h2>\n");
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
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"standings\">\n<thead><tr><th>Program</th><th>Loss</th>\
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
    html.push_str("<h2 id=\"missing\">Missing programs and runs</h2>\n<ul>\n");
    for (what, why) in all {
        let _ = writeln!(html, "<li>{}: {}</li>", escape(&what), escape(&why));
    }
    html.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use windward_experiments::comparison::Run;
    use windward_experiments::testing::{comparison, run_of_program};

    use super::*;

    #[test]
    fn a_single_run_is_a_point_without_a_whisker() {
        let beside = run_of_program("reno", 0.5, 1, 1e6);
        let charts = |runs: Vec<Run>| {
            let runs = [runs, vec![beside.clone()]].concat();
            let comparison = Comparison { rate_bps: 10e6, runs, ..Comparison::default() };
            let chart = of_comparison(&comparison);
            // A measure without points has no panel; infinite values are not drawn.
            assert_eq!(chart.panels.len(), 5);
            assert!(chart.panels.iter().all(|svg| !svg.contains("NaN") && !svg.contains("inf")));
            chart.panels[0].matches("stroke-width=\"1.5\"").count()
        };
        let (one, other) =
            (run_of_program("cubic", 0.5, 1, 2e6), run_of_program("cubic", 0.5, 2, 2.1e6));
        // The bars of intervals have this width; markers of some programs have it, too.
        assert!(charts(vec![one.clone()]) < charts(vec![one.clone(), other]));
        // A single point is no chart.
        let alone = Comparison { rate_bps: 10e6, runs: vec![one], ..Comparison::default() };
        assert!(of_comparison(&alone).panels.is_empty());
    }

    #[test]
    fn the_page_has_all_programs_and_obeys_no_name() {
        let page = page_of_comparison(&comparison(), &Provenance::default());
        assert!(page.contains("b&lt;i&gt;") && !page.contains("b<i>"));
        assert!(page.contains("<svg") && page.contains("unusable"));
        // At one loss rate, programs are below each other.
        let mut one = comparison();
        one.runs.truncate(3);
        one.runs.push(run_of_program("c", 0.5, 1, 1e6));
        assert!(page_of_comparison(&one, &Provenance::default()).contains("<svg"));
    }
}
