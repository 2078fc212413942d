//! Parts that all pages share: head and foot, badges, counts, provenance.

use std::fmt::Write;

use windward_experiments::claims::{ClaimResult, Verdict};
use windward_experiments::folder::GENERATOR;

use crate::plot::escape;

/// Date, machine, revision and command of a report. Callers give them, since this crate has no
/// clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// Date and time, for readers.
    pub date: String,
    /// The revision of the source the program was built from.
    pub commit: Option<String>,
    /// Processor, cores, system.
    pub machine: String,
    /// The command that repeats the report.
    pub command: String,
}

/// Progress of a report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    /// Experiments that are still to come.
    pub to_come: usize,
    /// True while it is being written.
    pub running: bool,
    /// The time left, in words.
    pub left: Option<String>,
}

/// The beginning of a page, up to its body.
pub fn head(title: &str, standing: &Standing) -> String {
    let title = escape(title);
    // A growing page reloads itself.
    let refresh =
        if standing.running { "<meta http-equiv=\"refresh\" content=\"10\">\n" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta \
         name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta \
         name=\"color-scheme\" content=\"light dark\">\n{GENERATOR}\n{refresh}<link rel=\"icon\" \
         href=\"data:,\">\n<title>{title} \u{b7} Windward</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n",
        include_str!("page/style.css")
    )
}

/// The end of a page.
pub fn foot(html: &mut String, about: &Provenance) {
    let version = env!("CARGO_PKG_VERSION");
    let commit = about.commit.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
    let date = if about.date.is_empty() { String::new() } else { format!(", {}", about.date) };
    let _ = writeln!(
        html,
        "</main>\n<footer>Made by windward {version}{}{}.</footer>\n</body>\n</html>",
        escape(&commit),
        escape(&date)
    );
}

/// A text of an experiment file as HTML: `±` for `+-`, and code between backticks.
pub fn prose(text: &str) -> String {
    let text = escape(text).replace(" +- ", " \u{b1} ");
    let mut parts = text.split('`');
    let mut html = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => html += &format!("<code>{code}</code>{after}"),
            // The last backtick has no partner.
            None => html += &format!("`{code}"),
        }
    }
    html
}

/// `1 experiment`, `2 experiments`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

pub(crate) fn badge(verdict: Verdict) -> String {
    marked(verdict, &verdict.to_string())
}

fn marked(verdict: Verdict, words: &str) -> String {
    format!("<span class=\"badge {}\">{words}</span>", class(verdict))
}

/// The badge of a claim, which may have no verdict yet.
pub(crate) fn badge_of(claim: &ClaimResult) -> String {
    match (claim.is_judged(), claim.verdict) {
        (false, _) => "<span class=\"badge open\">still to come</span>".to_owned(),
        // The words of the first page of an evaluation.
        (true, verdict) if claim.asked.is_some() => marked(
            verdict,
            match verdict {
                Verdict::Held | Verdict::Tie => "meets",
                Verdict::NotHeld => "does not",
                Verdict::Inconclusive => "undecided",
            },
        ),
        (true, verdict) => badge(verdict),
    }
}

pub(crate) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Tie => "tie",
        Verdict::NotHeld => "not-held",
        Verdict::Inconclusive => "open",
    }
}

/// Writes a number with its words in a list of counts.
pub fn counter(html: &mut String, n: usize, words: &str, class: &str) {
    // A zero has no colour.
    let class = if n == 0 { "none" } else { class };
    let _ = writeln!(html, "<li class=\"{class}\"><b>{n}</b> {words}</li>");
}

/// Writes effort, date, revision, machine and command.
pub fn facts(html: &mut String, efforts: &str, about: &Provenance) {
    let version = format!(
        "windward {}{}",
        env!("CARGO_PKG_VERSION"),
        about.commit.as_ref().map(|c| format!(", commit {c}")).unwrap_or_default()
    );
    html.push_str("<dl class=\"facts\">\n");
    let mut fact = |name: &str, value: &str, code: bool| {
        if !value.is_empty() {
            let value = escape(value);
            let value = if code { format!("<code>{value}</code>") } else { value };
            let _ = writeln!(html, "<dt>{name}</dt><dd>{value}</dd>");
        }
    };
    fact("Effort", efforts, false);
    fact("Date", &about.date, false);
    fact("Version", &version, false);
    fact("Machine", &about.machine, false);
    fact("Command", &about.command, true);
    html.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_escaped_with_code_between_backticks() {
        for (text, html) in [
            ("1 +- 2", "1 \u{b1} 2"),
            ("`a<b` and `c`", "<code>a&lt;b</code> and <code>c</code>"),
            ("5` wide", "5` wide"),
        ] {
            assert_eq!(prose(text), html);
        }
        assert_eq!(
            [count(0, "run"), count(1, "run"), count(2, "run")],
            ["0 runs", "1 run", "2 runs"]
        );
    }
}
