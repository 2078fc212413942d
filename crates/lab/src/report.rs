//! The report: one HTML page that needs nothing but itself.

use std::fmt::Write;

use crate::claims::{CheckResult, ClaimResult, Verdict};
use crate::plot::{Chart, escape};
use crate::sweep::Results;

/// What the page shows of one experiment.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// The experiment and its runs.
    pub results: &'a Results,
    /// Its charts.
    pub charts: &'a [Chart],
}

/// The whole page: the claims in short, then a section per experiment.
pub fn page(sections: &[Section<'_>], claims: &[ClaimResult]) -> String {
    let mut html = String::new();
    html.push_str(HEAD);
    summary(&mut html, sections, claims);
    for section in sections {
        let id = &section.results.plan.experiment.id;
        let own: Vec<&ClaimResult> = claims.iter().filter(|c| c.figure == *id).collect();
        figure(&mut html, *section, &own);
    }
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(html, "<footer>Made by windward {version}.</footer>\n</body>\n</html>");
    html
}

const HEAD: &str = concat!(
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
    "<title>Windward: reproduced figures and claims</title>\n<style>\n",
    include_str!("report/style.css"),
    "</style>\n</head>\n<body>\n",
);

fn summary(html: &mut String, sections: &[Section<'_>], claims: &[ClaimResult]) {
    let count = |v: Verdict| claims.iter().filter(|c| c.verdict == v).count();
    let runs: usize = sections.iter().map(|s| s.results.runs.len()).sum();
    html.push_str("<header>\n<h1>Reproduced figures and claims</h1>\n");
    let _ = writeln!(
        html,
        "<p>{runs} simulated runs for {} experiments. A number is a mean over the repetitions; \
         behind it stands its 95 % confidence interval. A claim holds if every check holds; a \
         check whose interval straddles its bound is inconclusive. What counts as holding was \
         fixed before anything was measured.</p>",
        sections.len()
    );
    if !claims.is_empty() {
        html.push_str("<ul class=\"counts\">\n");
        for verdict in [Verdict::Held, Verdict::NotHeld, Verdict::Inconclusive] {
            let n = count(verdict);
            let class = class(verdict);
            let _ = writeln!(html, "<li class=\"{class}\"><b>{n}</b> {verdict}</li>");
        }
        html.push_str(
            "</ul>\n<div class=\"scroll\"><table class=\"summary\">\n<thead><tr><th>Claim</th>",
        );
        html.push_str("<th>Verdict</th><th>What the paper says</th><th>Held when</th>");
        html.push_str("<th>Measured</th></tr></thead>\n<tbody>\n");
        let mut in_order: Vec<&ClaimResult> = claims.iter().collect();
        in_order.sort_by_key(|c| rank(&c.claim.id));
        for claim in in_order {
            let id = escape(&claim.claim.id);
            let _ = writeln!(
                html,
                "<tr><td><a href=\"#{id}\">{id}</a></td><td>{}</td><td>{}</td><td>{}</td>\
                 <td>{}</td></tr>",
                badge(claim.verdict),
                escape(&claim.claim.claim),
                escape(&claim.claim.expected),
                in_short(claim),
            );
        }
        html.push_str("</tbody></table></div>\n");
    }
    html.push_str("</header>\n");
}

/// Puts `L10` behind `L9`: first the letters, then the number.
fn rank(id: &str) -> (&str, u64) {
    let digits = id.find(|c: char| c.is_ascii_digit()).unwrap_or(id.len());
    (&id[..digits], id[digits..].parse().unwrap_or(u64::MAX))
}

/// The check that decides, and how many others there are.
fn in_short(claim: &ClaimResult) -> String {
    let decisive = claim.checks.iter().find(|c| c.verdict == claim.verdict);
    let Some(check) = decisive.or(claim.checks.first()) else {
        return String::new();
    };
    let agree = claim.checks.iter().filter(|c| c.verdict == claim.verdict).count();
    let rest = match claim.checks.len() {
        1 => String::new(),
        all => format!("<br><small>{agree} of {all} checks {}</small>", claim.verdict),
    };
    format!("<code>{}</code>: {}{rest}", escape(&check.text), escape(&check.measured()))
}

fn figure(html: &mut String, section: Section<'_>, claims: &[&ClaimResult]) {
    let plan = &section.results.plan;
    let experiment = &plan.experiment;
    let figure = experiment.figure.as_deref();
    let figure = figure.map_or_else(String::new, |f| format!("{f}. "));
    let id = escape(&experiment.id);
    let _ = writeln!(
        html,
        "<section id=\"{id}\">\n<h2>{}{}</h2>",
        escape(&figure),
        escape(&experiment.title)
    );
    for chart in section.charts {
        if let (Some(title), true) = (&chart.title, chart.panels.len() > 1) {
            let _ = writeln!(html, "<h3>{}</h3>", escape(title));
        }
        html.push_str("<div class=\"panels\">\n");
        for panel in &chart.panels {
            let _ = writeln!(html, "<figure>{panel}</figure>");
        }
        html.push_str("</div>\n");
    }
    let scenario = plan.scenarios.first();
    let length = scenario.map_or_else(String::new, |s| {
        format!(
            "{} s a run, the first {} s left out, {} runs a point.",
            s.duration.as_secs_f64(),
            s.warmup.as_secs_f64(),
            plan.length.repetitions
        )
    });
    let _ = writeln!(
        html,
        "<p class=\"setting\">{} {length} Bands are 95 % confidence intervals.</p>",
        escape(&experiment.setting)
    );
    for claim in claims {
        claim_block(html, claim);
    }
    if !experiment.choices.is_empty() {
        html.push_str("<h3>Chosen where the paper is silent</h3>\n<ul>\n");
        for choice in &experiment.choices {
            let _ = writeln!(html, "<li>{}</li>", escape(choice));
        }
        html.push_str("</ul>\n");
    }
    let command = escape(&experiment.command(&plan.effort));
    let _ = writeln!(
        html,
        "<p class=\"again\">Again: <code>{command}</code> \u{b7} Numbers: \
         <a href=\"{id}.csv\">{id}.csv</a></p>\n</section>"
    );
}

fn claim_block(html: &mut String, claim: &ClaimResult) {
    let id = escape(&claim.claim.id);
    let _ = writeln!(
        html,
        "<article id=\"{id}\">\n<h3>{id} {}</h3>\n<p>{}</p>\n<p><small>Held when: {}</small></p>",
        badge(claim.verdict),
        escape(&claim.claim.claim),
        escape(&claim.claim.expected)
    );
    html.push_str("<div class=\"scroll\"><table>\n<thead><tr><th>Check</th>");
    html.push_str("<th>Measured [95 % interval]</th><th>Verdict</th></tr></thead>\n<tbody>\n");
    for check in &claim.checks {
        html.push_str(&check_row(check));
    }
    html.push_str("</tbody></table></div>\n");
    if let Some(explanation) = claim.explanation() {
        let _ = writeln!(html, "<p class=\"why\">{}</p>", escape(explanation));
    }
    html.push_str("</article>\n");
}

fn check_row(check: &CheckResult) -> String {
    let mut measured = check.measured();
    if let (Some(trouble), Some(_)) = (&check.trouble, check.difference) {
        let _ = write!(measured, " ({trouble})");
    }
    format!(
        "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>\n",
        escape(&check.text),
        escape(&measured),
        badge(check.verdict)
    )
}

fn badge(verdict: Verdict) -> String {
    format!("<span class=\"badge {}\">{verdict}</span>", class(verdict))
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "not-held",
        Verdict::Inconclusive => "open",
    }
}

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn claims_are_listed_as_people_count() {
        let mut ids = ["L10", "E1", "L9", "L2"];
        ids.sort_by_key(|id| rank(id));
        assert_eq!(ids, ["E1", "L2", "L9", "L10"]);
    }
}
