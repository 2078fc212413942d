//! Results of scripts, and the documents of them.

use std::fmt;

use serde::Serialize;
use windward_core::units::Time;

use super::path::Judged;
use super::python::Assertion;
use super::{Fault, Place, Script, Subject};

/// The result of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every packet and every assertion is met.
    Passes,
    /// The sender does something else.
    Differs,
    /// The script is about sockets or the receiver, and not about congestion control.
    NotAboutCongestion,
    /// The script needs something that is not modelled.
    NotSupported,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Passes => "passes",
            Verdict::Differs => "differs",
            Verdict::NotAboutCongestion => "not about congestion",
            Verdict::NotSupported => "not supported",
        })
    }
}

/// Result of an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compliance {
    /// As the text requires.
    Met,
    /// Not as the text requires.
    NotMet,
    /// Not as the text requires, which the script notes for this protocol.
    Departs,
    /// As the text requires, although the script notes a departure of this protocol: the script is
    /// wrong.
    DepartsNoMore,
    /// The endpoint does not report a quantity.
    NotTold,
}

impl Compliance {
    /// True if it fails the script.
    pub fn is_failure(self) -> bool {
        matches!(self, Compliance::NotMet | Compliance::DepartsNoMore)
    }
}

impl fmt::Display for Compliance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Compliance::Met => "met",
            Compliance::NotMet => "not met",
            Compliance::Departs => "departs, as noted",
            Compliance::DepartsNoMore => "met, contrary to the note",
            Compliance::NotTold => "not reported",
        })
    }
}

/// Number of comparisons of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Outbound packets that left as the script expects.
    pub packets: u64,
    /// Assertions that hold.
    pub assertions: u64,
}

/// One assertion with the observed values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// The line of the script, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The assertion, as written in the script.
    pub assertion: String,
    /// The moment, as written in the script; `None` in scripts of packetdrill.
    pub at: Option<String>,
    /// Time of the moment, seconds; `None` if it never came.
    pub seen_at_s: Option<f64>,
    /// Observed values, in words.
    pub seen: String,
    /// Section and sentence of the text; may be empty.
    pub says: String,
    /// Whether it is met.
    pub verdict: Compliance,
    /// Reason for a departure, if the script gives one.
    pub reason: Option<String>,
}

impl Finding {
    /// The finding of an assertion with a protocol.
    pub(super) fn new(assertion: Assertion, protocol: &str) -> Self {
        let Assertion { place, text, holds, seen, says, departs } = assertion;
        let reason = departs.into_iter().find(|(name, _)| name == label(protocol));
        let reason = reason.map(|(_, why)| why);
        let verdict = match (holds, &reason) {
            (None, _) => Compliance::NotTold,
            (Some(true), None) => Compliance::Met,
            (Some(true), Some(_)) => Compliance::DepartsNoMore,
            (Some(false), None) => Compliance::NotMet,
            (Some(false), Some(_)) => Compliance::Departs,
        };
        Finding {
            line: place.line,
            column: place.column,
            assertion: text,
            at: None,
            seen_at_s: None,
            seen,
            says,
            verdict,
            reason,
        }
    }
}

impl Finding {
    /// True if the text requires something else, also where a note says so wrongly.
    fn is_departure(&self) -> bool {
        !matches!(self.verdict, Compliance::Met | Compliance::NotTold)
    }
}

/// Writes the assertion with its result.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { assertion, seen, at, .. } = self;
        write!(f, "`{assertion}`")?;
        at.as_ref().map_or(Ok(()), |at| write!(f, " at {at}"))?;
        match self.verdict {
            Compliance::Met | Compliance::DepartsNoMore => write!(f, " holds: {seen}"),
            Compliance::NotTold => write!(f, ": {seen}"),
            Compliance::NotMet | Compliance::Departs => write!(f, " does not hold: {seen}"),
        }
    }
}

/// The result of one script with one protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`Script::name`].
    pub script: String,
    /// Its title; `None` in scripts of packetdrill.
    pub title: Option<String>,
    /// The document that it follows; `None` in scripts of packetdrill.
    pub source: Option<String>,
    /// The protocol; `None` if the script ended before it was chosen.
    pub protocol: Option<String>,
    /// The result.
    pub verdict: Verdict,
    /// Comparisons until the end.
    pub counts: Counts,
    /// Its assertions, in the order of the script.
    pub findings: Vec<Finding>,
    /// The line where it ended, and the column, both from 1; `None` if it passes.
    pub line: Option<usize>,
    /// See `line`.
    pub column: Option<usize>,
    /// The difference, or the construct that is not supported.
    pub reason: Option<String>,
}

impl Report {
    pub(super) fn new(script: &Script, protocol: Option<&str>) -> Self {
        let header = script.header.as_ref();
        Report {
            script: script.name.clone(),
            title: header.map(|header| header.title.clone()),
            source: header.map(|header| header.source.clone()),
            protocol: protocol.map(str::to_owned),
            verdict: Verdict::Passes,
            counts: Counts::default(),
            findings: Vec::new(),
            line: None,
            column: None,
            reason: None,
        }
    }

    /// Takes the assertions about a run.
    pub(super) fn judge(&mut self, protocol: &str, judged: Vec<Judged>) -> Result<(), Fault> {
        if judged.is_empty() {
            let message = "the script asserts nothing: add `%{ assert cwnd == 2 }%` at a time";
            return Err(Fault::new(Place::START, Subject::Syntax, message.to_owned()));
        }
        let mut failed = None;
        for Judged { assertion, moment, at } in judged {
            let place = assertion.place;
            let seen_at_s = at.map(Time::as_secs_f64);
            let finding = Finding {
                at: Some(moment.to_string()),
                seen_at_s,
                ..Finding::new(assertion, protocol)
            };
            if finding.verdict.is_failure() {
                failed.get_or_insert(Fault::new(place, Subject::Differs, finding.to_string()));
            }
            self.findings.push(finding);
        }
        self.counts.assertions = self.count(Compliance::Met) as u64;
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn ended(self, fault: &Fault) -> Self {
        let verdict = match fault.subject {
            Subject::Differs => Verdict::Differs,
            Subject::Sockets => Verdict::NotAboutCongestion,
            Subject::Syntax | Subject::Unmodelled => Verdict::NotSupported,
        };
        let (line, column) = (Some(fault.place.line), Some(fault.place.column));
        Report { verdict, line, column, reason: Some(fault.message.clone()), ..self }
    }

    /// Number of findings with that result.
    pub fn count(&self, verdict: Compliance) -> usize {
        self.findings.iter().filter(|finding| finding.verdict == verdict).count()
    }

    /// The name of its protocol, which may be that of a table of parts.
    fn row(&self) -> &str {
        self.protocol.as_deref().map_or("", label)
    }

    /// Number of assertions that are met, of those about what the endpoint reports.
    fn share(&self) -> String {
        let told = self.findings.len() - self.count(Compliance::NotTold);
        format!("{}/{told}", self.count(Compliance::Met))
    }
}

/// Short name of a protocol: the `name` of a table of parts.
fn label(protocol: &str) -> &str {
    let name = protocol.split_once("name = \"").and_then(|(_, rest)| rest.split_once('"'));
    name.map_or(protocol, |(name, _)| name)
}

/// A table with a row for each script of a simulated path, and all departures from the RFCs below
/// it.
pub fn conformance(reports: &[Report]) -> String {
    let mut text = String::from("| script | requirement | assertions met |\n|---|---|---|\n");
    let mut departures = String::new();
    for reports in reports.chunk_by(|a, b| a.script == b.script) {
        let Report { script, title, source, .. } = &reports[0];
        let (title, source) = (title.as_deref().unwrap_or("-"), source.as_deref().unwrap_or("-"));
        let mut met: Vec<(String, Vec<&str>)> = Vec::new();
        let mut departs: Vec<(String, Vec<&str>)> = Vec::new();
        for report in reports {
            add(&mut met, report.share(), report.row());
            for finding in report.findings.iter().filter(|finding| finding.is_departure()) {
                let reason = finding.reason.as_deref().unwrap_or("not known");
                let what = format!("{finding} ({}). Why: {reason}.", finding.says);
                add(&mut departs, what, report.row());
            }
        }
        let met = met.iter().map(|(share, rows)| format!("{share}: {}", rows.join(", ")));
        text += &format!(
            "| [{script}](../experiments/scripts/{script}.pkt) | {title} ({source}) | {} |\n",
            met.collect::<Vec<_>>().join("; ")
        );
        for (what, rows) in departs {
            departures += &format!("- {script}, {}: {what}\n", rows.join(", "));
        }
    }
    if departures.is_empty() {
        departures += "There are none.\n";
    }
    format!("{text}\nDepartures:\n\n{departures}")
}

/// Adds a row to those with the same result.
fn add<'a>(all: &mut Vec<(String, Vec<&'a str>)>, result: String, row: &'a str) {
    match all.iter_mut().find(|(known, _)| *known == result) {
        Some((_, rows)) => rows.push(row),
        None => all.push((result, vec![row])),
    }
}

/// A table with a row for each report. Names are shown without `prefix`.
pub fn table(reports: &[Report], prefix: &str) -> String {
    let mut text = String::from(
        "| script | result | packets | assertions | reason |\n|---|---|--:|--:|---|\n",
    );
    for report in reports {
        let name = report.script.strip_prefix(prefix).unwrap_or(&report.script);
        let reason = report.reason.as_deref().unwrap_or_default();
        let reason = reason.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let reason = reason.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
        let line = report.line.map_or_else(String::new, |line| format!("line {line}: "));
        let Counts { packets, assertions } = report.counts;
        text += &format!(
            "| `{}` | {} | {packets} | {assertions} | {line}{reason} |\n",
            name.trim_start_matches('/'),
            report.verdict,
        );
    }
    text
}
