//! Errors, with messages that tell users what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use windward_sim::output::{Attempt, OutputError};
use windward_sim::scenario::file::ScenarioError;
use windward_sim::strict_toml::FileError;

pub use windward_sim::suggest::hint as nearest;

/// Reason why an experiment could not be read, run or written.
#[derive(Debug)]
pub enum ExperimentError {
    /// Something in the `[experiment]` part of a file is wrong.
    Experiment {
        /// The file as the user named it.
        file: String,
        /// Line, counted from one; zero if the error has no single line.
        line: usize,
        /// The error and its remedy.
        message: String,
    },
    /// Error of the strict reader: in the `[experiment]` part of a file, in readings, a suite or a
    /// script.
    File(FileError),
    /// The scenario part of a file is wrong.
    Scenario {
        /// Point of the sweep, if the file itself is valid.
        cell: Option<String>,
        /// The scenario reader's error.
        error: ScenarioError,
    },
    /// A file or folder could not be read or written.
    Io {
        /// Its path.
        path: PathBuf,
        /// Operation: `read`, `write`, `create`, `lock`, `remove`.
        verb: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A folder for a report is not a folder, or not a report's.
    Folder {
        /// Its path.
        path: PathBuf,
        /// The error and its remedy.
        message: String,
    },
    /// The worker threads could not be started.
    Threads(String),
    /// An external part of a protocol failed, with its own message.
    Part(String),
    /// The user interrupted it.
    Cancelled,
}

impl ExperimentError {
    /// Error of a file or folder, with the attempted operation.
    pub fn io(verb: &'static str, path: &Path, error: io::Error) -> Self {
        ExperimentError::Io { path: path.to_owned(), verb, error }
    }
}

impl From<OutputError> for ExperimentError {
    fn from(OutputError { path, attempt, error }: OutputError) -> Self {
        let verb = match attempt {
            Attempt::MakeFolder => "create",
            Attempt::Write => "write",
        };
        ExperimentError::io(verb, &path, error)
    }
}

impl From<FileError> for ExperimentError {
    fn from(error: FileError) -> Self {
        ExperimentError::File(error)
    }
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Experiment { file, line: 0, message } => {
                write!(f, "{file}: {message}")
            }
            ExperimentError::Experiment { file, line, message } => {
                write!(f, "{file}:{line}: {message}")
            }
            ExperimentError::Scenario { cell: Some(cell), error } => {
                write!(f, "{error} (at {cell})")
            }
            ExperimentError::Scenario { cell: None, error } | ExperimentError::File(error) => {
                error.fmt(f)
            }
            ExperimentError::Io { path, verb, error } => {
                write!(f, "{}: cannot {verb}: {error}", path.display())
            }
            ExperimentError::Folder { path, message } => write!(f, "{}: {message}", path.display()),
            ExperimentError::Threads(reason) => {
                write!(f, "cannot start the worker threads: {reason}")
            }
            ExperimentError::Part(failure) => f.write_str(failure),
            ExperimentError::Cancelled => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for ExperimentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExperimentError::Scenario { error, .. } | ExperimentError::File(error) => Some(error),
            ExperimentError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_file_and_line() {
        let error =
            ExperimentError::Experiment { file: "a.toml".into(), line: 7, message: "no".into() };
        assert_eq!(error.to_string(), "a.toml:7: no");
        let io = ExperimentError::io("write", Path::new("/x/y"), io::Error::other("disk full"));
        assert_eq!(io.to_string(), "/x/y: cannot write: disk full");
    }
}
