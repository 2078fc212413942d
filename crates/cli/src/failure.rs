//! Ways in which a command fails, and their exit status.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use windward_experiments::ExperimentError;
use windward_logs::qlog::QlogError;
use windward_sim::output::OutputError;
use windward_sim::scenario::file::ScenarioError;
use windward_sim::text::printable;
use windward_sim::trace::TraceError;

/// Exit status after Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// Why a command stopped.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failure {
    /// The input is invalid: a bad file, an unknown name. Exit status 2.
    Input(String),
    /// A program cannot be started. Exit status 127 or 126, as in shells.
    #[cfg(target_os = "linux")]
    Program(String, u8),
    /// The work could not be done, or a claim is not held. Exit status 1.
    Failed(String),
    /// A part of another project failed, with its own message. Exit status 1.
    Part(String),
    /// A test was not run to its end, and none failed. Exit status 4, as of the kernel's selftests.
    Skipped(String),
    /// Ctrl-C. Exit status 130, as in shells.
    Interrupted,
    /// A program ended with this status and has reported why. Windward ends with the same status.
    Command(u8),
    /// The reader closed standard output or a pipe (`| head`). Not an error.
    ReaderLeft,
}

impl Failure {
    /// Writes the error to standard error, and returns the exit status.
    pub(crate) fn report(self) -> u8 {
        let (message, status) = match self {
            Failure::Input(message) => (message, 2),
            #[cfg(target_os = "linux")]
            Failure::Program(message, status) => (message, status),
            Failure::Failed(message) | Failure::Part(message) => (message, 1),
            Failure::Skipped(message) => (message, 4),
            Failure::Interrupted => {
                tell_interruption();
                return INTERRUPTED;
            }
            Failure::Command(status) => return status,
            Failure::ReaderLeft => return 0,
        };
        eprintln!("error: {}", printable(&message));
        status
    }
}

/// The variable that makes a worker of this program: a process that loads foreign code (`worker`).
pub(crate) const WORKER: &str = "WINDWARD_WORKER";

/// True in a worker.
pub(crate) fn is_worker() -> bool {
    std::env::var_os(WORKER).is_some()
}

/// Says once that the process was interrupted: two threads may come to it at the same time.
pub(crate) fn tell_interruption() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    // The process that shows the results of a worker says it.
    if !is_worker() && !TOLD.swap(true, Ordering::Relaxed) {
        eprintln!("error: interrupted");
    }
}

impl From<ScenarioError> for Failure {
    fn from(error: ScenarioError) -> Self {
        Failure::Input(error.to_string())
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        match error.error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            // The path names a file in place of a folder: the input is invalid.
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
                Failure::Input(error.to_string())
            }
            _ => Failure::Failed(error.to_string()),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        match error {
            TraceError::Interval(error) => Failure::Input(format!("--trace-interval: {error}")),
            TraceError::Output(error) => error.into(),
        }
    }
}

impl From<QlogError> for Failure {
    fn from(error: QlogError) -> Self {
        match error {
            QlogError::Output(error) => error.into(),
            QlogError::Nothing | QlogError::TooManyFlows { .. } | QlogError::Unknown { .. } => {
                Failure::Input(format!("--qlog-flows: {error}"))
            }
            QlogError::TooLarge { .. } => Failure::Failed(format!("--qlog-limit: {error}")),
        }
    }
}

impl From<ExperimentError> for Failure {
    fn from(error: ExperimentError) -> Self {
        let message = error.to_string();
        match error {
            ExperimentError::Experiment { .. }
            | ExperimentError::Scenario { .. }
            | ExperimentError::File(_) => Failure::Input(message),
            // A file does not exist, or a folder belongs to another program: the input is invalid.
            ExperimentError::Io { verb: "read", .. } | ExperimentError::Folder { .. } => {
                Failure::Input(message)
            }
            ExperimentError::Io { .. } | ExperimentError::Threads(_) => Failure::Failed(message),
            ExperimentError::Part(_) => Failure::Part(message),
            ExperimentError::Cancelled => Failure::Interrupted,
        }
    }
}

#[cfg(target_os = "linux")]
impl From<windward_netns::Error> for Failure {
    fn from(error: windward_netns::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}

#[cfg(target_os = "linux")]
impl From<windward_net::error::Error> for Failure {
    fn from(error: windward_net::error::Error) -> Self {
        use windward_net::error::Error;
        match error {
            Error::Scenario(error) => error.into(),
            Error::Input(message) => Failure::Input(message),
            error => Failure::Failed(error.to_string()),
        }
    }
}

/// An error of standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            Failure::ReaderLeft
        } else {
            Failure::Failed(format!("cannot write to standard output: {error}"))
        }
    }
}
