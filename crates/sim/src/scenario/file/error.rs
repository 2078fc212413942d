//! What is wrong with a scenario file, and where.

use std::fmt;

use crate::suggest::nearest;

/// What is wrong with a scenario file: where, what, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// File and line, or the `--set` the value came by.
    place: String,
    message: String,
    help: Option<String>,
}

impl ScenarioError {
    pub(super) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        ScenarioError { place: place.into(), message: message.into(), help: None }
    }

    /// The same error with a line that says what would be right.
    pub(super) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        match &self.help {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// Points from a word that is not among `valid` to the nearest that is, and to all of them
/// where they are few.
pub(super) fn suggest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    const FEW: usize = 24;
    let valid: Vec<&str> = valid.into_iter().collect();
    let mut help = Vec::new();
    if let Some(nearest) = nearest(word, valid.iter().copied()) {
        help.push(format!("did you mean `{nearest}`?"));
    }
    if valid.len() <= FEW {
        help.push(format!("valid: {}", valid.join(", ")));
    }
    help.join(" ")
}

/// The first part of a text on one line, for messages.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = text.replace(char::is_control, " ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
