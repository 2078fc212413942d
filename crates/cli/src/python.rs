//! Controllers in Python, in the interpreter that has loaded this program, and processes of Python.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use windward_core::protocols::{self, Protocol};
use windward_experiments::experiment::Subject;
use windward_native::{Call, enter};
use windward_sim::scenario::file::ScenarioFile;

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

/// A congestion controller in a Python file: `FILE.py:OBJECT`, `NAME=FILE.py:OBJECT`, or
/// `NAME={ .., window = "FILE.py:OBJECT" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonController {
    /// Name in reports.
    pub name: String,
    /// The file.
    pub file: String,
    /// Name in the file: a class, or a result of `windward.controller`.
    pub object: String,
    /// The composition that it is the window of, as an inline table in which `name` stands for it.
    pub composition: Option<String>,
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
            return Self::within(name?, rest);
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
        Some(Ok(PythonController { name, file: format!("{file}.py"), object, composition: None }))
    }

    /// Reads the one in a composition.
    fn within(name: &str, composition: &str) -> Option<Result<Self, String>> {
        let texts = |quote| composition.split(quote).skip(1).step_by(2);
        let mut texts = texts('"').chain(texts('\''));
        let text = texts.find(|text| text.contains(".py:") || text.ends_with(".py"))?;
        let within = composition.replacen(text, name, 1);
        let label = if within.contains("name =") || within.contains("name=") {
            String::new()
        } else {
            format!(" name = \"{name}\",")
        };
        let composition = Some(format!("{{{label}{}", &within[1..]));
        Some(Self::parse(text)?.map(|class| PythonController {
            name: name.to_owned(),
            composition,
            ..class
        }))
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
        let protocol = controller.composition.clone().unwrap_or(subject.protocol);
        Ok(Subject { given: given.trim().to_owned(), protocol, ..subject })
    }

    /// Loads the controllers that changes of a scenario name. A process without Python becomes one
    /// with it to do so.
    pub(crate) fn find_protocols(
        &self,
        scenario: &mut ScenarioFile,
        file: &Path,
    ) -> Result<(), Failure> {
        let mut known: Vec<(PythonController, Protocol)> = Vec::new();
        scenario.find_protocols(|text| {
            let Some(class) = PythonController::parse(text) else { return Ok(None) };
            let class = class.map_err(Failure::Input)?;
            if let Some((_, protocol)) = known.iter().find(|(known, _)| *known == class) {
                return Ok(Some(*protocol));
            }
            let Some(load) = self.load else { return Err(self.become_python(file)) };
            let is_taken = |name: &str| {
                let mut names = known.iter().map(|(_, protocol)| protocol.name);
                names.any(|known| known == name) || protocols::find(name).is_some()
            };
            let numbered = (2_u32..).map(|number| format!("{}-{number}", class.name));
            let mut names = std::iter::once(class.name.clone()).chain(numbered);
            let name = names.find(|name| !is_taken(name)).unwrap_or_default();
            let protocol = load(&PythonController { name, ..class.clone() });
            let protocol = protocol.map_err(|wrong| Failure::Input(format!("{text}: {wrong}")))?;
            known.push((class, protocol));
            Ok(Some(protocol))
        })
    }

    /// Runs this command in a process of Python in place of this one. Returns why it cannot.
    fn become_python(&self, file: &Path) -> Failure {
        if file == Path::new("-") {
            let problem = "a scenario that names a class in Python cannot be read from standard \
                           input: give a file";
            return Failure::Input(problem.to_owned());
        }
        let mut worker = self.worker();
        worker.args(&self.arguments);
        let program = self.interpreter.display();
        Failure::Failed(format!("{program}: cannot be started: {}", replace_by(&mut worker)))
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
        let composed = controller("a={ base = \"upwind\", window = \"mine.py:Aimd\" }");
        let text = r#"{ name = "a", base = "upwind", window = "a" }"#;
        assert_eq!(composed.composition.as_deref(), Some(text));
        assert_eq!(all(composed), ["a", "mine.py", "Aimd"]);
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
