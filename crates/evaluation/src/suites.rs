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
        let text = found.and_then(|found| found.contents_utf8()).map(str::to_owned);
        text.ok_or_else(|| ExperimentError::Experiment {
            file: name(file),
            line: 0,
            message: "no such file comes with the program".to_owned(),
        })
    };
    Suite::parse(&name("suite.toml"), &text_of("suite.toml")?, &text_of)
}
