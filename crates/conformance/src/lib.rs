//! Conformance scripts in the language of packetdrill (github.com/google/packetdrill): which data a
//! sender sends when, and what an RFC requires of its state.
//!
//! There are two kinds of [`Script`] (docs/scripts.md). In one of packetdrill, every packet of the
//! peer stands in the script: `drive` holds a row with `preset = "linux"` against it, packet by
//! packet and within the tolerance of times. With the option `--rtt`, the receiver and the path are
//! simulated: `path` runs any row or stack with the losses, marks and delays of the options, and
//! evaluates assertions about moments of the run, each with the section that requires it. Such a
//! script may lose the thousandth packet, and follow a connection of QUIC.
//!
//! Nothing here is random, and no link of the simulator is involved: the expected values follow
//! from the text by arithmetic that fits into a comment. A script that is not supported is refused
//! with the reason, and never passes. Not compared are, since they do not concern
//! congestion, the flag PSH, the receiver's window and its shift, the order of TCP options and the
//! values of timestamps.
//!
//! The modules, in the order of reading: `lexer` and `parser` read the language, `python` the code
//! of assertions, and `header` the options of a simulated path; `builtin` has the scripts that come
//! with the program; `row` makes the sender, `host` has the settings of packetdrill's host, `drive`
//! and `path` run a script; `report` has the results.

use std::path::{Path, PathBuf};

use windward_core::units::Duration;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::strict_toml::{FileError, Location};

use drive::Drive;
use header::Header;
use parser::Parsed;

mod builtin;
mod drive;
mod header;
mod host;
mod lexer;
mod parser;
mod path;
mod python;
mod report;
mod row;

pub use builtin::{all, select};
pub use report::{Compliance, Counts, Finding, Report, Verdict, conformance, table};

/// The tolerance of times, as in packetdrill: 4 ms.
pub const TOLERANCE: Duration = Duration::from_micros(4000);

/// A script.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file, as the user named it. For a script that comes with the program, its path below
    /// `experiments/scripts/` without the extension.
    pub name: String,
    parsed: Result<Parsed, Fault>,
    header: Option<Header>,
}

/// A place in a script; both numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    const START: Place = Place { line: 1, column: 1 };

    /// The place of code whose `%{` is here.
    fn inside(self) -> Place {
        Place { column: self.column + 2, ..self }
    }
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

    fn is_syntax(&self) -> bool {
        self.subject == Subject::Syntax
    }

    /// An error with its column, which [`Location::Line`] does not show.
    fn in_file(&self, name: &str) -> FileError {
        let Place { line, column } = self.place;
        let file = format!("{name}:{line}:{column}");
        FileError::new(Location::File { file }, self.message.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// The text is not the language.
    Syntax,
    /// The sender does something else.
    Differs,
    /// Sockets or the receiver, and not congestion.
    Sockets,
    /// Congestion, by something that is not modelled.
    Unmodelled,
}

impl Script {
    /// Reads a script; `name` is its name in messages.
    ///
    /// # Errors
    /// If the text is not the language, with line and column. What packetdrill's language has and
    /// this reader has not is the verdict of [`Script::run`].
    pub fn parse(name: &str, text: &str) -> Result<Script, FileError> {
        let read = || -> Result<_, Fault> {
            let parsed = parser::parse(text)?;
            let header = Header::read(&parsed.options)?;
            Ok((parsed, header))
        };
        let (parsed, header) = match read() {
            Ok((parsed, header)) => (Ok(parsed), header),
            Err(fault) if fault.is_syntax() => return Err(fault.in_file(name)),
            Err(fault) => (Err(fault), None),
        };
        Ok(Script { name: name.to_owned(), parsed, header })
    }

    /// Reads a script from a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read, and as [`Script::parse`].
    pub fn read(path: &Path) -> Result<Script, FileError> {
        Self::parse(&ScenarioFile::name(path), &ScenarioFile::text(path)?)
    }

    /// True if its receiver and its path are simulated.
    pub fn has_path(&self) -> bool {
        self.header.is_some()
    }

    /// The protocols that the script names, with those of its stacks that `stacks` includes. A
    /// script of packetdrill sets its congestion control by itself: `None`.
    pub fn protocols(&self, stacks: &Stacks) -> Vec<Option<&str>> {
        let Some(header) = &self.header else { return vec![None] };
        let included = header.stacks.iter().filter(|name| stacks.find(name).is_some());
        header.protocols.iter().chain(included).map(|name| Some(name.as_str())).collect()
    }

    /// Runs it with a protocol, named as `protocol` in scenario files (a row, one of `stacks`, or a
    /// table of parts written as TOML); `None` for the first that the script names.
    ///
    /// # Errors
    /// If there is no such protocol, if an event or its code cannot be understood, if the path
    /// does not suit the protocol, or if the run has too many events.
    pub fn run(
        &self,
        protocol: Option<&str>,
        stacks: &Stacks,
        tolerance: Duration,
    ) -> Result<Report, FileError> {
        let mut report = Report::new(self, protocol);
        let ended = match (&self.parsed, &self.header) {
            (Err(fault), _) => Err(fault.clone()),
            (Ok(parsed), None) => {
                let mut drive = Drive::new(&self.name, stacks, protocol, tolerance);
                let ended = drive.run(parsed);
                report.protocol = drive.row().map(str::to_owned);
                (report.counts, report.findings) = drive.compared();
                ended
            }
            (Ok(parsed), Some(header)) => {
                let protocol = protocol.unwrap_or(&header.protocols[0]);
                report.protocol = Some(protocol.to_owned());
                path::run(&self.name, header, &parsed.events, protocol, stacks)
                    .and_then(|judged| report.judge(protocol, judged))
            }
        };
        match ended {
            Err(fault) if fault.is_syntax() => Err(fault.in_file(&self.name)),
            Err(fault) => Ok(report.ended(&fault)),
            Ok(()) => Ok(report),
        }
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

#[cfg(test)]
mod tests;
