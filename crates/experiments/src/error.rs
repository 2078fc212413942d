//! Errors, in words a user can act on.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use windward_sim::output::{Attempt, OutputError};
use windward_sim::scenario::file::ScenarioError;
use windward_sim::strict_toml::FileError;

pub use windward_sim::suggest::hint as nearest;

/// Why an experiment could not be read, run or written.
#[derive(Debug)]
pub enum LabError {
    /// Something in the `[experiment]` part of a file is wrong.
    Experiment {
        /// The file as the user named it.
        file: String,
        /// Line, counted from one; zero if no single line is to blame.
        line: usize,
        /// The error and its remedy.
        message: String,
    },
    /// A file that is read strictly is wrong: the `[experiment]` part of one, readings, a suite, a
    /// script.
    File(FileError),
    /// The scenario part of a file is wrong.
    Scenario {
        /// For which point of the sweep, if it is not the file itself.
        cell: Option<String>,
        /// The scenario reader's error.
        error: ScenarioError,
    },
    /// A file or folder could not be read or written.
    Io {
        /// Which one.
        path: PathBuf,
        /// Attempt: `read`, `write`, `create`, `lock`, `remove`.
        verb: &'static str,
        /// The system's error.
        error: io::Error,
    },
    /// A folder for a report is not a folder, or not a report's.
    Folder {
        /// Which one.
        path: PathBuf,
        /// The error and its remedy.
        message: String,
    },
    /// The machine would not give the threads that were asked for.
    Threads(String),
    /// A part of a protocol that is not Windward's own failed, as it says.
    Part(String),
    /// The user interrupted it.
    Cancelled,
}

impl LabError {
    /// A file or folder that could not be read or written, with what was attempted.
    pub fn io(verb: &'static str, path: &Path, error: io::Error) -> Self {
        LabError::Io { path: path.to_owned(), verb, error }
    }
}

impl From<OutputError> for LabError {
    fn from(OutputError { path, attempt, error }: OutputError) -> Self {
        let verb = match attempt {
            Attempt::MakeFolder => "create",
            Attempt::Write => "write",
        };
        LabError::io(verb, &path, error)
    }
}

impl From<FileError> for LabError {
    fn from(error: FileError) -> Self {
        LabError::File(error)
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Experiment { file, line: 0, message } => write!(f, "{file}: {message}"),
            LabError::Experiment { file, line, message } => write!(f, "{file}:{line}: {message}"),
            LabError::Scenario { cell: Some(cell), error } => write!(f, "{error} (at {cell})"),
            LabError::Scenario { cell: None, error } | LabError::File(error) => error.fmt(f),
            LabError::Io { path, verb, error } => {
                write!(f, "{}: cannot {verb}: {error}", path.display())
            }
            LabError::Folder { path, message } => write!(f, "{}: {message}", path.display()),
            LabError::Threads(reason) => write!(f, "cannot start the worker threads: {reason}"),
            LabError::Part(failure) => f.write_str(failure),
            LabError::Cancelled => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Scenario { error, .. } | LabError::File(error) => Some(error),
            LabError::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_file_and_line() {
        let error = LabError::Experiment { file: "a.toml".into(), line: 7, message: "no".into() };
        assert_eq!(error.to_string(), "a.toml:7: no");
        let io = LabError::io("write", Path::new("/x/y"), io::Error::other("disk full"));
        assert_eq!(io.to_string(), "/x/y: cannot write: disk full");
    }
}
