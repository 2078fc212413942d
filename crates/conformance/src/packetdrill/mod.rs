//! Scripts of packetdrill (github.com/google/packetdrill), read in its own language.
//!
//! [`PacketScript::run`] holds a row with `preset = "linux"` against a script, packet by packet and
//! within packetdrill's tolerance of times: which data leaves when, with which flags, and what
//! assertions say about `tcpi_` values. The sender's side of the language is read. A script
//! that needs more is refused with the reason, and never passes.
//!
//! Not compared, since they do not concern congestion: the flag PSH, the receiver's window and its
//! shift, the order of TCP options, and the values of timestamps.
//!
//! The modules, in the order of reading: `lexer` and `parser` read the language, `python` the code
//! of assertions, `host` the settings, and `drive` runs a script.

mod drive;
mod host;
mod lexer;
mod parser;
mod python;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use windward_core::units::Duration;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::{FileError, Location};

use drive::Drive;
use parser::Parsed;

/// The tolerance of times, as in packetdrill: 4 ms.
pub const TOLERANCE: Duration = Duration::from_micros(4000);

/// A script in packetdrill's language.
#[derive(Debug, Clone)]
pub struct PacketScript {
    /// The file, as the user named it.
    pub name: String,
    parsed: Result<Parsed, Fault>,
}

/// A place in a script; both numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    const START: Place = Place { line: 1, column: 1 };
}

/// Cause of the early end of a script.
#[derive(Debug, Clone)]
struct Fault {
    place: Place,
    subject: Subject,
    message: String,
}

impl Fault {
    fn new(place: Place, subject: Subject, message: impl Into<String>) -> Fault {
        Fault { place, subject, message: message.into() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The text is not packetdrill's language.
    Syntax,
    /// The sender does something else.
    Differs,
    /// Sockets or the receiver, and not congestion.
    Sockets,
    /// Congestion, by something that is not modelled.
    Unmodelled,
}

/// The result of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PacketVerdict {
    /// Every packet and every assertion is met.
    Passes,
    /// The sender does something else.
    Differs,
    /// The script is about sockets or the receiver, and not about congestion control.
    NotAboutCongestion,
    /// The script needs something that is not modelled.
    NotSupported,
}

impl PacketVerdict {
    const ALL: [(PacketVerdict, &'static str); 4] = [
        (PacketVerdict::Passes, "passes"),
        (PacketVerdict::Differs, "differs"),
        (PacketVerdict::NotAboutCongestion, "not about congestion"),
        (PacketVerdict::NotSupported, "not supported"),
    ];
}

impl fmt::Display for PacketVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

/// Number of comparisons of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PacketCounts {
    /// Outbound packets that left as the script expects.
    pub packets: u64,
    /// Assertions that hold.
    pub assertions: u64,
}

/// The result of one script with one row.
#[derive(Debug, Clone, Serialize)]
pub struct PacketReport {
    /// [`PacketScript::name`].
    pub script: String,
    /// The row; `None` if the script ended before it was chosen.
    pub protocol: Option<String>,
    /// The result.
    pub verdict: PacketVerdict,
    /// Comparisons until the end.
    pub counts: PacketCounts,
    /// The line where it ended, and the column, both from 1; `None` if it passes.
    pub line: Option<usize>,
    /// See `line`.
    pub column: Option<usize>,
    /// The difference, or the construct that is not supported.
    pub reason: Option<String>,
}

impl PacketScript {
    /// Reads a script; `name` is its name in messages.
    ///
    /// # Errors
    /// If the text is not packetdrill's language, with line and column. What the language has and
    /// this reader has not is the verdict of [`PacketScript::run`].
    pub fn parse(name: &str, text: &str) -> Result<PacketScript, FileError> {
        match parser::parse(text) {
            Err(fault) if fault.subject == Subject::Syntax => Err(file_error(name, &fault)),
            parsed => Ok(PacketScript { name: name.to_owned(), parsed }),
        }
    }

    /// Reads a script from a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read, and as [`PacketScript::parse`].
    pub fn read(path: &Path) -> Result<PacketScript, FileError> {
        Self::parse(&ScenarioFile::name(path), &ScenarioFile::text(path)?)
    }

    /// Runs it, with the row of the congestion control that it sets or with `protocol`.
    ///
    /// # Errors
    /// If an event or its code cannot be understood, or if there is no such row.
    pub fn run(
        &self,
        protocol: Option<&str>,
        stacks: &Stacks,
        tolerance: Duration,
    ) -> Result<PacketReport, FileError> {
        let mut drive = Drive::new(&self.name, stacks, protocol, tolerance);
        let ended = match &self.parsed {
            Ok(parsed) => drive.run(parsed),
            Err(fault) => Err(fault.clone()),
        };
        let (fault, verdict) = match ended {
            Ok(()) => (None, PacketVerdict::Passes),
            Err(fault) => {
                let verdict = match fault.subject {
                    Subject::Syntax => return Err(file_error(&self.name, &fault)),
                    Subject::Differs => PacketVerdict::Differs,
                    Subject::Sockets => PacketVerdict::NotAboutCongestion,
                    Subject::Unmodelled => PacketVerdict::NotSupported,
                };
                (Some(fault), verdict)
            }
        };
        Ok(PacketReport {
            script: self.name.clone(),
            protocol: drive.row().map(str::to_owned),
            verdict,
            counts: drive.counts(),
            line: fault.as_ref().map(|fault| fault.place.line),
            column: fault.as_ref().map(|fault| fault.place.column),
            reason: fault.map(|fault| fault.message),
        })
    }

    /// The scripts that a path names: the file, or all files of a folder and those below it that
    /// end in `.pkt`, in the order of their names.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
        if !path.is_dir() {
            return Ok(vec![path.to_owned()]);
        }
        let mut files = Vec::new();
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        entries.sort();
        for entry in entries {
            // A link to a folder above would never end.
            if entry.is_dir() && !entry.is_symlink() {
                files.extend(Self::files(&entry)?);
            } else if entry.extension().is_some_and(|ending| ending == "pkt") {
                files.push(entry);
            }
        }
        Ok(files)
    }
}

/// An error with its column, which [`Location::Line`] does not show.
fn file_error(name: &str, fault: &Fault) -> FileError {
    let Place { line, column } = fault.place;
    FileError::new(
        Location::File { file: format!("{name}:{line}:{column}") },
        fault.message.clone(),
    )
}

/// A Markdown table with a row for each report. Names are shown without `prefix`.
pub fn packet_table(reports: &[PacketReport], prefix: &str) -> String {
    let mut text = String::from(
        "| script | result | packets | assertions | reason |\n|---|---|--:|--:|---|\n",
    );
    for report in reports {
        let name = report.script.strip_prefix(prefix).unwrap_or(&report.script);
        let reason = report.reason.as_deref().unwrap_or_default();
        let reason = reason.lines().map(str::trim).collect::<Vec<_>>().join("; ");
        let reason = reason.replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ");
        let line = report.line.map_or_else(String::new, |line| format!("line {line}: "));
        let PacketCounts { packets, assertions } = report.counts;
        text += &format!(
            "| `{}` | {} | {packets} | {assertions} | {line}{reason} |\n",
            name.trim_start_matches('/'),
            report.verdict,
        );
    }
    text
}
