//! Controllers in Python, in the interpreter that has loaded this program, and processes of Python.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use windward_core::protocols::Protocol;
use windward_experiments::experiment::Subject;
use windward_native::{Call, enter};

use crate::failure::Failure;

/// Reads a congestion controller in Python and returns a protocol with it, or the reason why it
/// cannot.
pub type LoadController<'a> = &'a dyn Fn(&PythonController) -> Result<Protocol, String>;

/// Access to Python.
pub(crate) struct Python<'a> {
    /// The interpreter, for another process.
    pub(crate) interpreter: &'a Path,
    /// Reader of controllers, if this program runs inside Python.
    pub(crate) load: Option<LoadController<'a>>,
    /// The arguments of this program without its name, for the other process.
    pub(crate) arguments: Vec<OsString>,
}

/// A congestion controller in a Python file: `FILE.py:OBJECT`, or `NAME=FILE.py:OBJECT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonController {
    /// Name in reports.
    pub name: String,
    /// The file.
    pub file: String,
    /// Name in the file: a class, or a result of `windward.controller`.
    pub object: String,
}

impl PythonController {
    /// Reads one; `None` if no Python file is meant.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        let text = text.trim();
        let (name, rest) = match text.split_once('=') {
            Some((name, rest)) if !name.contains(".py") => (Some(name.trim()), rest.trim()),
            _ => (None, text),
        };
        if rest.starts_with('{') {
            return None;
        }
        let Some((file, object)) = rest.rsplit_once(".py:") else {
            let problem =
                format!("`{text}`: name the class too, such as {rest}:Aimd for a class `Aimd`");
            return rest.ends_with(".py").then_some(Err(problem));
        };
        if object.is_empty() || !object.chars().all(|c| c.is_alphanumeric() || c == '_') {
            let problem =
                format!("`{text}`: `{object}` is not a valid name of a class in {file}.py");
            return Some(Err(problem));
        }
        let (name, object) = (name.unwrap_or(object).to_owned(), object.to_owned());
        Some(Ok(PythonController { name, file: format!("{file}.py"), object }))
    }
}

/// First lines of the Python program, which explain what to do if the package is missing.
const BEGIN: &str = "\
import sys
try:
    from windward.__main__ import main
except ImportError as error:
    sys.exit(f'error: {sys.executable}: {error}; controllers in Python need the Python package there: `pip install .` in a clone of the repository')
sys.exit(main())";

impl Python<'_> {
    /// The program to start for another process like this one.
    pub(crate) fn itself(&self) -> Result<PathBuf, Failure> {
        match self.load {
            Some(_) => Ok(self.interpreter.to_owned()),
            None => std::env::current_exe().map_err(|error| Failure::Failed(error.to_string())),
        }
    }

    /// The command that starts it.
    pub(crate) fn again(&self) -> Result<Command, Failure> {
        let mut command = Command::new(self.itself()?);
        command.args(self.module());
        Ok(command)
    }

    /// The command that starts Python with this program, before the arguments.
    pub(crate) fn worker(&self) -> Command {
        let mut command = Command::new(self.interpreter);
        command.args(["-c", BEGIN]);
        command
    }

    /// Its first arguments.
    pub(crate) fn module(&self) -> &'static [&'static str] {
        if self.load.is_some() { &["-m", "windward"] } else { &[] }
    }

    /// The subject with that controller. Call it in a worker.
    pub(crate) fn subject(
        &self,
        controller: &PythonController,
        given: &str,
    ) -> Result<Subject, Failure> {
        let wrong = |problem: String| Failure::Input(format!("{given}: {problem}"));
        let load =
            self.load.ok_or_else(|| wrong("there is no Python in this process".to_owned()))?;
        let _call = enter(Call::Load, 0);
        let subject = Subject::own(load(controller).map_err(wrong)?).map_err(wrong)?;
        Ok(Subject { given: given.trim().to_owned(), ..subject })
    }
}

/// Replaces this process by that one, so that a signal to this process ends the work.
#[cfg(unix)]
pub(crate) fn replace_by(command: &mut Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

/// Runs the work of that process.
#[cfg(not(unix))]
pub(crate) fn replace_by(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_in_python_is_told_from_other_subjects() {
        let controller = |text| PythonController::parse(text).unwrap().unwrap();
        let all =
            |controller: PythonController| [controller.name, controller.file, controller.object];
        assert_eq!(
            all(controller("controllers/mine.py:Aimd")),
            ["Aimd", "controllers/mine.py", "Aimd"]
        );
        assert_eq!(all(controller("a=C:\\mine.py:Aimd")), ["a", "C:\\mine.py", "Aimd"]);
        for text in ["cubic", "quinn:cubic", "mine={ window = \"cubic\" }", "mine=cubic"] {
            assert_eq!(PythonController::parse(text), None, "{text}");
        }
        for (text, says) in
            [("mine.py", "mine.py:Aimd"), ("mine.py:a b", "not a valid name of a class")]
        {
            assert!(PythonController::parse(text).unwrap().unwrap_err().contains(says), "{text}");
        }
    }
}
