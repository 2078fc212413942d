//! Suites that come with the program: the folders of experiments/suites.

use std::path::Path;

use include_dir::{Dir, include_dir};
use windward_experiments::ExperimentError;

use crate::suite::Suite;

static SUITES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../experiments/suites");

impl Suite {
    /// The suite of that name that comes with the program, or else that of a file.
    ///
    /// # Errors
    /// If there is neither, or anything in it is wrong.
    pub fn find(name: impl AsRef<Path>) -> Result<Self, ExperimentError> {
        let name = name.as_ref();
        if let Some(suite) = name.to_str().and_then(suite) {
            return Ok(suite);
        }
        if name.exists() {
            return Self::read(name);
        }
        let known: Vec<String> = suites()?.into_iter().map(|s| s.id).collect();
        Err(ExperimentError::Experiment {
            file: name.display().to_string(),
            line: 0,
            message: format!(
                "no such file, nor a suite that comes with the program, which are {}",
                known.join(", ")
            ),
        })
    }
}

/// The suite of that name, if it comes with the program.
pub fn suite(id: &str) -> Option<Suite> {
    let folder = SUITES.dirs().find(|folder| folder.path() == Path::new(id))?;
    parse(folder).ok()
}

/// The suites that come with the program.
///
/// # Errors
/// None, as long as the tests pass.
pub fn suites() -> Result<Vec<Suite>, ExperimentError> {
    SUITES.dirs().map(parse).collect()
}

fn parse(folder: &Dir<'_>) -> Result<Suite, ExperimentError> {
    let name = |file: &str| format!("experiments/suites/{}/{file}", folder.path().display());
    let text_of = |file: &str| {
        let found = SUITES.get_file(folder.path().join(file));
        let text = found.and_then(|found| found.contents_utf8());
        text.map(with_traces).ok_or_else(|| ExperimentError::Experiment {
            file: name(file),
            line: 0,
            message: "no such file comes with the program".to_owned(),
        })
    };
    Suite::parse(&name("suite.toml"), &text_of("suite.toml")?, &text_of)
}

/// The text of a file with the rate traces of the suites in place of the names of their files,
/// since a page in a browser cannot read those.
fn with_traces(text: &str) -> String {
    let traces =
        SUITES.files().filter_map(|file| Some((file.path().to_str()?, file.contents_utf8()?)));
    traces.fold(text.to_owned(), |text, (name, stamps)| {
        let trace = format!("rate.trace = \"../{name}\"");
        if !text.contains(&trace) {
            return text; // A trace has tens of thousands of lines.
        }
        let stamps: Vec<&str> = stamps.lines().collect();
        text.replace(&trace, &format!("rate.opportunities = [{}]", stamps.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use windward_experiments::experiment::{Effort, Subject};
    use windward_sim::stack::Stacks;

    use super::*;

    #[test]
    fn a_trace_is_the_same_from_the_program_and_from_its_folder() {
        for id in ["rfc9743", "lossy"] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/suites");
            let read = Suite::read(&Path::new(folder).join(id).join("suite.toml")).unwrap();
            let rate = |suite: &Suite| {
                let subject = Subject::row("cubic");
                let stacks = Stacks::none();
                let all = suite.experiments(&[subject], None, &stacks, &Effort::Full).unwrap();
                let cellular = all.into_iter().find(|e| e.id.ends_with("cellular")).unwrap();
                cellular.scenario.build().unwrap().links[0].kind.rate.clone()
            };
            assert_eq!(rate(&suite(id).unwrap()), rate(&read), "{id}");
        }
    }
}
