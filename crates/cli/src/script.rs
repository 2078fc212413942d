//! `windward script`: one sender on one path, checked against the text of an RFC.

use std::path::{Path, PathBuf};

use windward_conformance::{
    self as script, Compliance, Finding, PacketCounts, PacketReport, PacketScript, PacketVerdict,
    Script, ScriptReport,
};
use windward_core::units::Duration;

use crate::failure::Failure;
use crate::output;
use crate::signals;

/// Check a sender against the text of an RFC, packet by packet
///
/// A script defines which packets of one path are lost, marked or delayed, and which window, rate
/// or retransmission the RFC requires at which time. Exit status 1 if an expectation is not met.
///
/// A file that ends in .pkt is a script in the language of packetdrill, for the sender of a row
/// with preset = "linux": each packet, each time within the tolerance, and assertions about tcpi_
/// values. Exit status 4 if none differs and one is not about congestion control or not supported.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scripts: TOML files, packetdrill's .pkt files or folders with some, or names of built-in
    /// scripts such as rfc9438 or rfc9438/w-cubic; by default all built-in scripts
    #[arg(value_name = "FILE")]
    scripts: Vec<PathBuf>,

    /// Run with this protocol in place of those that the script names; may be given more than once
    ///
    /// A row of `windward list`, or a table of parts, such as
    /// '{ base = "cubic", recovery = "rack" }'.
    #[arg(long, value_name = "NAME")]
    protocol: Vec<String>,

    /// Show all expectations, also those that are met
    #[arg(long, short)]
    all: bool,

    /// Print one JSON document instead of text
    #[arg(long)]
    json: bool,

    /// Print a Markdown document with a row for each script, as in docs/conformance.md
    #[arg(long)]
    markdown: bool,

    /// Tolerance of times in .pkt files, microseconds, if a script names none [default: 4000]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    tolerance_usecs: Option<u64>,
}

/// Stacks that have columns of their own in a document.
const FOREIGN: [&str; 3] = ["quinn:cubic", "quinn:newreno", "quinn:bbr"];

pub(crate) fn script(args: &Args) -> Result<(), Failure> {
    let mut scripts = Vec::new();
    let mut packets = Vec::new();
    for path in &args.scripts {
        let name = &*path.to_string_lossy();
        let is_packetdrill = path.extension().is_some_and(|ending| ending == "pkt");
        if is_packetdrill || path.is_dir() && script::select(name).is_err() {
            let unreadable = |error| Failure::Input(format!("cannot read {name}: {error}"));
            let files = PacketScript::files(path).map_err(unreadable)?;
            if files.is_empty() {
                return Err(Failure::Input(format!(
                    "{name}: the folder has no file that ends in .pkt"
                )));
            }
            packets.extend(files);
            continue;
        }
        // A name that looks like a file is read as one, so that a missing file is reported.
        let is_file = name == "-"
            || path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
            || path.exists() && !path.is_dir();
        match is_file {
            true => scripts.push(Script::read(path)?),
            false => scripts.extend(script::select(name)?),
        }
    }
    if args.scripts.is_empty() {
        scripts = script::all()?;
    }
    if !packets.is_empty() {
        if !scripts.is_empty() {
            let message = "scripts of packetdrill (.pkt) and others need a command each";
            return Err(Failure::Input(message.to_owned()));
        }
        if args.all {
            let message = "--all: a script of packetdrill (.pkt) ends at its first difference";
            return Err(Failure::Input(message.to_owned()));
        }
        return packetdrill(args, &packets);
    }
    if args.tolerance_usecs.is_some() {
        let message = "--tolerance-usecs: only scripts of packetdrill (.pkt) have a tolerance";
        return Err(Failure::Input(message.to_owned()));
    }
    let stacks = crate::stacks();
    let mut reports = Vec::new();
    for script in &scripts {
        // Stacks that this program was built without are skipped, unless requested by name.
        let foreign = script.foreign.iter().filter(|name| stacks.find(name).is_some());
        let named: Vec<&String> = match args.protocol.is_empty() {
            true => script.protocols.iter().chain(foreign).collect(),
            false => args.protocol.iter().collect(),
        };
        for protocol in named {
            signals::check()?;
            reports.push((script, script.run(protocol, &stacks)?));
        }
    }
    if args.json {
        let reports: Vec<&ScriptReport> = reports.iter().map(|(_, report)| report).collect();
        output::print_json(&reports)?;
    } else if args.markdown {
        let of = |script: &Script| {
            let of_it = reports.iter().filter(|(other, _)| other.name == script.name);
            of_it.map(|(_, report)| report.clone()).collect::<Vec<ScriptReport>>()
        };
        let of_all: Vec<_> = scripts.iter().map(|script| (script, of(script))).collect();
        output::print(&script::conformance(&of_all, &FOREIGN))?;
    } else {
        output::print(&text(&reports, args.all))?;
    }
    let failed = reports.iter().filter(|(_, report)| !report.holds()).count();
    match failed {
        0 => Ok(()),
        1 => Err(Failure::Failed("1 run does not meet what its script expects".to_owned())),
        _ => Err(Failure::Failed(format!("{failed} runs do not meet what their scripts expect"))),
    }
}

/// Runs scripts in packetdrill's language.
fn packetdrill(args: &Args, files: &[PathBuf]) -> Result<(), Failure> {
    let stacks = crate::stacks();
    let tolerance = Duration::from_micros(args.tolerance_usecs.unwrap_or(4000));
    let named: Vec<Option<&str>> = match args.protocol.is_empty() {
        true => vec![None],
        false => args.protocol.iter().map(|name| Some(name.as_str())).collect(),
    };
    let mut reports = Vec::new();
    let mut wrong = Vec::new();
    for file in files {
        let script = PacketScript::read(file);
        for protocol in &named {
            signals::check()?;
            let report = script.as_ref().map(|script| script.run(*protocol, &stacks, tolerance));
            match report {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(error)) => wrong.push(error.to_string()),
                Err(error) => wrong.push(error.to_string()),
            }
        }
    }
    wrong.dedup();
    if args.json {
        output::print_json(&reports)?;
    } else if args.markdown {
        output::print(&script::packet_table(&reports, &folder(files)))?;
    } else {
        let text: String = reports.iter().map(packet_lines).collect();
        output::print(&text)?;
    }
    // The other scripts ran nevertheless.
    if !wrong.is_empty() {
        return Err(Failure::Input(wrong.join("\nerror: ")));
    }
    let count = |verdict| reports.iter().filter(|report| report.verdict == verdict).count();
    let all = reports.len();
    let differ = count(PacketVerdict::Differs);
    let skipped = count(PacketVerdict::NotAboutCongestion) + count(PacketVerdict::NotSupported);
    match (differ, skipped) {
        (0, 0) => Ok(()),
        (0, _) => {
            Err(Failure::Skipped(format!("{skipped} of {all} scripts did not run to the end")))
        }
        _ => Err(Failure::Failed(format!("{differ} of {all} scripts differ"))),
    }
}

/// The folder of all files, with `/` at its end.
fn folder(files: &[PathBuf]) -> String {
    let mut parents = files.iter().map(|file| file.parent().unwrap_or(Path::new("")));
    let Some(first) = parents.next() else { return String::new() };
    let shared = parents.fold(first.to_owned(), |shared, parent| {
        let same = shared.components().zip(parent.components()).take_while(|(a, b)| a == b);
        same.map(|(component, _)| component).collect()
    });
    shared.display().to_string()
}

fn packet_lines(report: &PacketReport) -> String {
    let PacketReport { script, protocol, verdict, counts, line, column, reason } = report;
    let with = protocol.as_ref().map_or_else(String::new, |row| format!(" with {row}"));
    let PacketCounts { packets, assertions } = counts;
    let compared = format!("{packets} packets, {assertions} assertions");
    match (line, column, reason) {
        (Some(line), Some(column), Some(reason)) => {
            format!(
                "{verdict}: {script}{with}: after {compared}\n  {script}:{line}:{column}: {reason}\n"
            )
        }
        _ => format!("{verdict}: {script}{with}: {compared}\n"),
    }
}

fn text(reports: &[(&Script, ScriptReport)], all: bool) -> String {
    let mut text = String::new();
    for (script, report) in reports {
        let met = report.count(Compliance::Met);
        let mut counts = format!("{met} of {} met", report.findings.len());
        for verdict in [
            Compliance::NotMet,
            Compliance::Departs,
            Compliance::DepartsNoMore,
            Compliance::NotTold,
        ] {
            let count = report.count(verdict);
            if count > 0 {
                counts += &format!(", {count} {verdict}");
            }
        }
        let failed = if report.holds() { "" } else { "FAILED: " };
        text += &format!(
            "{failed}{} with {}: {counts}\n    {} ({})\n",
            script.name, report.protocol, script.title, script.source
        );
        for finding in &report.findings {
            if all || finding.verdict != Compliance::Met {
                text += &line(script, finding);
            }
        }
    }
    text
}

fn line(script: &Script, finding: &Finding) -> String {
    let Finding { at, quantity, expected, seen, verdict, source, says, .. } = finding;
    let when = finding.seen_at_s.map_or_else(String::new, |s| format!(", at {:.4} ms", s * 1e3));
    let reason =
        finding.reason.as_ref().map_or_else(String::new, |why| format!("\n        note: {why}"));
    format!(
        "    {verdict}: {quantity} at {at}: expected {expected}, seen {seen}{when}\n        \
         {source}: {says} ({}:{}){reason}\n",
        script.name, finding.line,
    )
}
