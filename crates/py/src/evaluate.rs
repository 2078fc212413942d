//! Evaluations of protocols, stacks and controllers in Python by a suite of criteria.

use std::path::PathBuf;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use windward_cli::PythonController;
use windward_core::protocols::Protocol;
use windward_evaluation::{Question, StoredEvaluation, Suite};
use windward_experiments::Effort;
use windward_experiments::experiment::Subject;
use windward_report::{Provenance, ReportOptions};

use crate::parts::{Controllers, ExpressionController};
use crate::work::{How, experiment_error, watched};
use crate::{amount, error, parts, values};

/// Reads a controller of a file for the command line.
pub(crate) fn load(controller: &PythonController) -> Result<Protocol, String> {
    Python::attach(|py| {
        let PythonController { name, file, object, .. } = controller;
        let loaded = py.import("windward._evaluate")?.getattr("load")?.call1((file, object))?;
        let (controller, source): (Bound<'_, PyAny>, String) = loaded.extract()?;
        parts::protocol(py, name.clone(), &controller, source)
    })
    .map_err(|wrong: PyErr| Python::attach(|py| wrong.value(py).to_string()))
}

/// A subject from Python: text as for the command line, or a name and a controller.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    Text(String),
    Controller(String, Bound<'py, PyAny>),
}

impl Given<'_> {
    fn subject(self, py: Python<'_>) -> PyResult<Subject> {
        match self {
            Given::Text(text) => Subject::parse(&text).map_err(error::value),
            Given::Controller(name, controller) => {
                if let Ok(expressions) = controller.cast::<ExpressionController>() {
                    // As text, which the page, the files and the command of the report show.
                    let text = format!("{name}={}", expressions.get().composition());
                    return Subject::parse(&text).map_err(error::value);
                }
                if let Ok(composition) = controller.cast::<PyDict>() {
                    return composed(py, &name, composition);
                }
                let protocol =
                    parts::protocol(py, name, &controller, parts::source_of(&controller))
                        .map_err(|wrong| PyTypeError::new_err(wrong.value(py).to_string()))?;
                let subject = Subject::own(protocol).map_err(error::value)?;
                let given = parts::place_of(&controller).unwrap_or_else(|| subject.given.clone());
                Ok(Subject { given, ..subject })
            }
        }
    }
}

/// The subject of a composition as a dictionary, whose window may be a class.
fn composed(py: Python<'_>, name: &str, composition: &Bound<'_, PyDict>) -> PyResult<Subject> {
    let copy = composition.copy()?;
    let class = composition.get_item("window")?;
    let class = class.map(|class| Ok::<_, PyErr>((parts::is_controller(&class)?, class)));
    let class = class.transpose()?.and_then(|(is_class, class)| is_class.then_some(class));
    if class.is_some() {
        copy.set_item("window", name)?;
        // Results and faults name it so.
        copy.set_item("name", name)?;
    }
    let text = values::setting(&copy, "protocol", &mut Controllers::default())?;
    let Some(class) = class else {
        return Subject::parse(&format!("{name}={text}")).map_err(error::value);
    };
    let protocol = parts::protocol(py, name.to_owned(), &class, parts::source_of(&class))?;
    let subject = Subject::own(protocol).map_err(error::value)?;
    let given = parts::place_of(&class).map(|place| {
        let _ = copy.set_item("window", place);
        let _ = copy.del_item("name");
        let text = values::setting(&copy, "protocol", &mut Controllers::default());
        text.map(|text| format!("{name}={text}"))
    });
    let given = given.transpose()?.unwrap_or_else(|| subject.given.clone());
    Ok(Subject { given, protocol: text, ..subject })
}

fn subjects(py: Python<'_>, given: Vec<Given<'_>>) -> PyResult<Vec<Subject>> {
    given.into_iter().map(|given| given.subject(py)).collect()
}

/// The answers of an evaluation in a folder as JUnit XML, for CI systems.
#[expect(clippy::needless_pass_by_value, reason = "Python calls it so")]
#[pyfunction]
pub(crate) fn junit(py: Python<'_>, folder: PathBuf) -> PyResult<String> {
    let stored = StoredEvaluation::read(&folder.join("evaluation.json"));
    Ok(stored.map_err(|wrong| experiment_error(py, wrong))?.to_junit())
}

/// Checks the criteria of a suite, or some of them, with these changes of every scenario, and
/// writes the report into a folder. Returns the number of runs.
#[expect(clippy::too_many_arguments, clippy::needless_pass_by_value, reason = "Python calls it so")]
#[pyfunction]
#[pyo3(signature = (given, folder, *, against, standards, suite, only, full, changes, sensitivity, resume, threads, progress, about))]
pub(crate) fn evaluate(
    py: Python<'_>,
    given: Vec<Given<'_>>,
    folder: PathBuf,
    against: Option<Vec<Given<'_>>>,
    standards: Option<Vec<Given<'_>>>,
    suite: &str,
    only: Vec<String>,
    full: bool,
    changes: Vec<(String, Bound<'_, PyAny>)>,
    sensitivity: bool,
    resume: bool,
    #[pyo3(from_py_with = amount::threads)] threads: u16,
    progress: Option<&Bound<'_, PyAny>>,
    about: (String, String, String),
) -> PyResult<usize> {
    let how = How { threads: usize::from(threads), full, progress };
    let effort = if full { Effort::Full } else { Effort::Quick };
    let (date, machine, command) = about;
    let about = Provenance { date, commit: None, machine, command };
    let report = ReportOptions { about, resume, ..ReportOptions::default() };
    let subjects = subjects(py, given)?;
    let against = against.map(|given| self::subjects(py, given)).transpose()?;
    let standards = standards.map(|given| self::subjects(py, given)).transpose()?;
    let stacks = windward_cli::stacks();
    let inquiry = py.detach(|| {
        let suite = Suite::find(suite)?;
        Question { suite, subjects, against, only, stacks, standards }.inquire(&effort)
    });
    let mut inquiry = inquiry.map_err(|wrong| experiment_error(py, wrong))?;
    for (key, value) in &changes {
        let mut classes = Controllers::default();
        let value = values::setting(value, key, &mut classes)?;
        if !classes.is_empty() {
            let message = format!("{key}: a class is a subject, and no value of every scenario");
            return Err(PyTypeError::new_err(message));
        }
        for experiment in &mut inquiry.experiments {
            experiment.set(key, &value).map_err(|wrong| experiment_error(py, wrong))?;
        }
    }
    watched(py, how, |options| {
        if sensitivity {
            inquiry.vary(&effort, options)?;
        }
        let done = windward_evaluation::evaluate(&inquiry, &effort, options, &report, &folder)?;
        Ok(done.summary.runs)
    })
}
