//! `windward script`: senders against the texts of RFCs, packet by packet.

use std::path::{Path, PathBuf};

use windward_conformance::{
    self as conformance, Compliance, Counts, Report, Script, TOLERANCE, Verdict,
};
use windward_core::units::Duration;

use crate::failure::Failure;
use crate::output;
use crate::signals;

/// Check a sender against the text of an RFC, packet by packet
///
/// A script has the language of packetdrill. With the option --rtt, it defines which packets of a
/// simulated path are lost, marked or delayed, and which window, rate or retransmission the RFC
/// requires at which moment. Without it, it has every packet of the peer, for the sender of a row
/// with preset = "linux": each packet, each time within the tolerance, and assertions about tcpi_
/// values.
///
/// Exit status 1 if a packet or an assertion differs, and 4 if none does and a script is not about
/// congestion control or not supported.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scripts: .pkt files or folders with some, or names of built-in scripts such as rfc9438 or
    /// rfc9438/w-cubic; by default all built-in scripts
    #[arg(value_name = "FILE")]
    scripts: Vec<PathBuf>,

    /// Run with this protocol in place of those that the script names; may be given more than once
    ///
    /// A row of `windward list`, or a table of parts, such as
    /// '{ base = "cubic", recovery = "rack" }'.
    #[arg(long, value_name = "NAME")]
    protocol: Vec<String>,

    /// Show all assertions, also those that are met
    #[arg(long, short)]
    all: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Print a Markdown table with a row for each script, as in docs/conformance.md
    #[arg(long)]
    markdown: bool,

    /// Tolerance of times in scripts of packetdrill, microseconds, if a script names none
    /// [default: 4000]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    tolerance_usecs: Option<u64>,
}

pub(crate) fn script(args: &Args) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    let mut keep = |error: String| wrong.push(error);
    let scripts = scripts(&args.scripts, &mut keep)?;
    let is_timed = scripts.iter().any(|script| !script.has_path());
    if args.tolerance_usecs.is_some() && !is_timed {
        let message = "--tolerance-usecs: only scripts without --rtt have a tolerance";
        return Err(Failure::Input(message.to_owned()));
    }
    let stacks = crate::stacks();
    let tolerance = args.tolerance_usecs.map_or(TOLERANCE, Duration::from_micros);
    let mut reports = Vec::new();
    for script in &scripts {
        // Stacks that this program was built without are skipped, unless requested by name.
        let named = match args.protocol.is_empty() {
            true => script.protocols(&stacks),
            false => args.protocol.iter().map(|name| Some(name.as_str())).collect(),
        };
        for protocol in named {
            signals::check()?;
            match script.run(protocol, &stacks, tolerance) {
                Ok(report) => reports.push(report),
                Err(error) if script.has_path() => return Err(error.into()),
                Err(error) => keep(error.to_string()),
            }
        }
    }
    wrong.dedup();
    let misread = (!wrong.is_empty()).then(|| Failure::Input(wrong.join("\nerror: ")));
    if reports.is_empty()
        && let Some(misread) = misread
    {
        return Err(misread);
    }
    if args.json {
        output::print_json(&reports)?;
    } else if args.markdown && is_timed {
        output::print(&conformance::table(&reports, &folder(&scripts)))?;
    } else if args.markdown {
        output::print(&conformance::conformance(&reports))?;
    } else {
        let text: String = reports.iter().map(|report| lines(report, args.all)).collect();
        output::print(&text)?;
    }
    // The other scripts ran nevertheless.
    misread.map_or(Ok(()), Err)?;
    let count = |verdict| reports.iter().filter(|report| report.verdict == verdict).count();
    let all = reports.len();
    let differ = count(Verdict::Differs);
    let skipped = count(Verdict::NotAboutCongestion) + count(Verdict::NotSupported);
    match (differ, skipped) {
        (0, 0) => Ok(()),
        (0, _) => Err(Failure::Skipped(format!("{skipped} of {all} runs did not end"))),
        _ => Err(Failure::Failed(format!("{differ} of {all} runs differ from their scripts"))),
    }
}

/// The scripts of these paths and names. `keep` takes the errors of files.
fn scripts(paths: &[PathBuf], keep: &mut impl FnMut(String)) -> Result<Vec<Script>, Failure> {
    if paths.is_empty() {
        return Ok(conformance::all()?);
    }
    let mut scripts = Vec::new();
    for path in paths {
        let name = &*path.to_string_lossy();
        let built_in = conformance::select(name);
        // A name that looks like a file is read as one, so that a missing file is reported.
        let is_file = name == "-" || path.extension().is_some() || path.exists();
        if !is_file || path.is_dir() && built_in.is_ok() {
            scripts.extend(built_in?);
            continue;
        }
        let unreadable = |error| Failure::Input(format!("cannot read {name}: {error}"));
        if path.extension().is_some_and(|extension| extension == "toml") {
            let message = format!("{name}: scripts are in packetdrill's language, and end in .pkt");
            return Err(Failure::Input(message));
        }
        let files = Script::files(path).map_err(unreadable)?;
        if files.is_empty() {
            let message = format!("{name}: the folder has no file that ends in .pkt");
            return Err(Failure::Input(message));
        }
        for file in files {
            match Script::read(&file) {
                Ok(script) => scripts.push(script),
                Err(error) => keep(error.to_string()),
            }
        }
    }
    Ok(scripts)
}

/// The folder of all scripts, with `/` at its end.
fn folder(scripts: &[Script]) -> String {
    let parent = |script: &Script| Path::new(&script.name).parent().map(Path::to_owned);
    let mut parents = scripts.iter().filter_map(parent);
    let Some(first) = parents.next() else { return String::new() };
    let shared = parents.fold(first, |shared, parent| {
        let same = shared.components().zip(parent.components()).take_while(|(a, b)| a == b);
        same.map(|(component, _)| component).collect()
    });
    shared.display().to_string()
}

fn lines(report: &Report, all: bool) -> String {
    let Report { script, title, source, protocol, verdict, counts, .. } = report;
    let with = protocol.as_ref().map_or_else(String::new, |row| format!(" with {row}"));
    let Counts { packets, assertions } = counts;
    let mut text = format!("{verdict}: {script}{with}: ");
    text += &match (title, source) {
        (Some(title), Some(source)) => {
            format!("{assertions} of {} assertions\n  {title} ({source})\n", report.findings.len())
        }
        _ => {
            let after = if report.line.is_some() { "after " } else { "" };
            format!("{after}{packets} packets, {assertions} assertions\n")
        }
    };
    let shown = |verdict| all || verdict != Compliance::Met;
    for finding in report.findings.iter().filter(|finding| shown(finding.verdict)) {
        let says = if finding.says.is_empty() { "" } else { "\n    " };
        let note =
            finding.reason.as_ref().map_or_else(String::new, |why| format!("\n    note: {why}"));
        text += &format!(
            "  {}: {script}:{}:{}: {finding}{says}{}{note}\n",
            finding.verdict, finding.line, finding.column, finding.says,
        );
    }
    // A difference of an assertion has been shown.
    let is_shown = report.findings.iter().any(|finding| finding.verdict.is_failure());
    if let (Some(line), Some(column), Some(reason)) = (report.line, report.column, &report.reason)
        && !is_shown
    {
        text += &format!("  {script}:{line}:{column}: {reason}\n");
    }
    text
}
