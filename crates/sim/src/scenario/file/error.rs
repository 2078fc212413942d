//! What is wrong with a scenario file, and where.

use std::fmt;

use crate::suggest::near;

/// What is wrong with a scenario file: where, what, and what would be right.
///
/// As text it is one line for people, and often a second one with help. Programs that mark the
/// place or offer the correction take its parts:
///
/// ```
/// use windward_sim::scenario::file::{Place, ScenarioFile};
///
/// let text = r#"duration = "10s"
/// [dumbbell]
/// bottleneck = { rate = "5Mbit", delay = "10ms" }
/// access = { rate = "10Mbit", delay = "5ms" }
/// [[flows]]
/// group = "bulk"
/// protocol = "newrneo"
/// "#;
/// let file = ScenarioFile::parse("first.toml", text)?;
/// let error = file.build().unwrap_err();
/// assert_eq!(error.place(), &Place::Line { file: "first.toml".to_owned(), line: 7 });
/// assert_eq!(error.key(), Some("flows.bulk.protocol"));
/// assert_eq!(error.value(), Some("\"newrneo\""));
/// assert_eq!(error.message(), "unknown protocol");
/// assert_eq!(error.suggestion(), Some("newreno"));
///
/// // The correction goes where the error says.
/// let mut file = file;
/// if let (Some(key), Some(word)) = (error.key(), error.suggestion()) {
///     file.set(key, word)?;
/// }
/// assert!(file.build().is_ok());
/// # Ok::<(), windward_sim::scenario::file::ScenarioError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
// Boxed: every reader of a value returns one or a value.
pub struct ScenarioError(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    place: Place,
    key: Option<String>,
    value: Option<String>,
    message: String,
    help: Option<Help>,
}

/// Where something in a scenario comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file as a whole.
    File {
        /// Its path as the user named it, or the name given to
        /// [`ScenarioFile::parse`](super::ScenarioFile::parse).
        file: String,
    },
    /// A line of a file: the scenario or a trace that it names.
    Line {
        /// As for [`Place::File`].
        file: String,
        /// Counted from 1.
        line: usize,
    },
    /// A change made since the file was read, by `--set` or a sweep's axis.
    Set {
        /// As for [`Place::File`].
        file: String,
        /// `KEY=VALUE`, long ones shortened.
        assignment: String,
    },
}

impl Place {
    /// The file, whichever part of it.
    pub fn file(&self) -> &str {
        match self {
            Place::File { file } | Place::Line { file, .. } | Place::Set { file, .. } => file,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { file } => f.write_str(file),
            Place::Line { file, line } => write!(f, "{file}:{line}"),
            Place::Set { file, assignment } => write!(f, "{file} with --set {assignment}"),
        }
    }
}

impl<T: Into<String>> From<T> for Place {
    fn from(file: T) -> Self {
        Place::File { file: file.into() }
    }
}

impl ScenarioError {
    pub(super) fn new(place: impl Into<Place>, message: impl Into<String>) -> Self {
        ScenarioError(Box::new(Parts {
            place: place.into(),
            key: None,
            value: None,
            message: message.into(),
            help: None,
        }))
    }

    /// The same error, about a key.
    pub(super) fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// The same error, about a value of the key.
    pub(super) fn with_value(mut self, value: impl Into<String>) -> Self {
        self.0.value = Some(value.into());
        self
    }

    /// The same error with a line that says what would be right.
    pub(super) fn with_help(mut self, help: impl Into<Help>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// The line, counted from 1; `None` if no line is to blame.
    pub fn line(&self) -> Option<usize> {
        match self.0.place {
            Place::Line { line, .. } => Some(line),
            Place::File { .. } | Place::Set { .. } => None,
        }
    }

    /// The key it is about, with dots as [`ScenarioFile::set`](super::ScenarioFile::set) takes it
    /// where a single key is to blame; that of the table, where a key is missing or several do
    /// not go together; `None` if the file as a whole is to blame. Items of arrays without names
    /// are counted, as in `path[0]`. Long ones are shortened.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The value of the key as the file has it: strings in quotes, long ones shortened, tables and
    /// arrays only hinted at. `None` if it is not about a value.
    pub fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    /// What is wrong, without the place, the key and the value.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What would be right, in words.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_ref().map(|help| help.text.as_str())
    }

    /// The valid word nearest to an unknown one, to be written in its place.
    pub fn suggestion(&self) -> Option<&str> {
        self.0.help.as_ref()?.suggestion.as_deref()
    }
}

impl fmt::Debug for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { place, key, value, message, help } = &*self.0;
        f.debug_struct("ScenarioError")
            .field("place", place)
            .field("key", key)
            .field("value", value)
            .field("message", message)
            .field("help", &help.as_ref().map(|help| &help.text))
            .field("suggestion", &self.suggestion())
            .finish()
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { place, key, value, message, .. } = &*self.0;
        write!(f, "{place}: ")?;
        match (key, value) {
            (Some(key), Some(value)) => write!(f, "{key} = {value}: {message}")?,
            (Some(key), None) => write!(f, "{key}: {message}")?,
            (None, _) => f.write_str(message)?,
        }
        match self.help() {
            Some(help) => write!(f, "\n  help: {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ScenarioError {}

/// What would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Help {
    text: String,
    /// The word that was meant.
    suggestion: Option<String>,
}

impl<T: Into<String>> From<T> for Help {
    fn from(text: T) -> Self {
        Help { text: text.into(), suggestion: None }
    }
}

/// Points from a word that is not among `valid` to the one that was meant, as far as that can be
/// told, and to all of them where they are few or none is near.
pub(super) fn suggest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Help {
    const FEW: usize = 24;
    const MANY: usize = 60;
    let valid: Vec<&str> = valid.into_iter().collect();
    let suggestion = near(word, valid.iter().copied());
    let mut help = Vec::new();
    if let Some(suggestion) = suggestion {
        help.push(format!("did you mean `{suggestion}`?"));
    }
    if valid.len() <= FEW || suggestion.is_none() {
        let more = if valid.len() > MANY { ", .." } else { "" };
        help.push(format!("valid: {}{more}", valid[..valid.len().min(MANY)].join(", ")));
    }
    Help { text: help.join(" "), suggestion: suggestion.map(str::to_owned) }
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

#[cfg(test)]
mod tests {
    use super::super::ScenarioFile;
    use super::*;

    const FIRST: &str = include_str!("../../../../../experiments/examples/first.toml");

    fn after(key: &str, value: &str) -> ScenarioError {
        let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
        file.set(key, value).and_then(|()| file.build().map(drop)).unwrap_err()
    }

    #[test]
    fn an_error_has_its_parts_as_fields() {
        let text = FIRST.replace("duration = \"100s\"", "duration = \"100\"");
        let error = ScenarioFile::parse("a.toml", &text).and_then(|f| f.build()).unwrap_err();
        assert_eq!(error.place().file(), "a.toml");
        // Below the comment in the first line.
        assert_eq!(error.line(), Some(2));
        assert_eq!((error.key(), error.value()), (Some("duration"), Some("\"100\"")));
        assert_eq!(error.suggestion(), None);
        let (message, help) = (error.message(), error.help().unwrap());
        assert_eq!(
            error.to_string(),
            format!("a.toml:2: duration = \"100\": {message}\n  help: {help}")
        );
    }

    #[test]
    fn a_change_is_a_place_of_its_own() {
        let error = after("flows.lossy.protocol", "newrneo");
        let assignment = "flows.lossy.protocol=newrneo".to_owned();
        assert_eq!(error.place(), &Place::Set { file: "first.toml".to_owned(), assignment });
        assert_eq!(error.line(), None);
        assert_eq!(error.key(), Some("flows.lossy.protocol"));
        assert_eq!(error.suggestion(), Some("newreno"));

        let error = after("flows.losy.protocol", "newreno");
        assert_eq!(error.key(), Some("flows.losy.protocol"));
        assert_eq!((error.value(), error.suggestion()), (None, Some("lossy")));
        assert_eq!(error.message(), "`flows` has no `losy`");
    }

    #[test]
    fn a_word_that_is_near_to_none_gets_all_of_them() {
        let error = after("flows.lossy.protocol", "nope");
        assert_eq!(error.suggestion(), None);
        let help = error.help().unwrap();
        assert!(help.starts_with("valid: reno, newreno, sack, cubic"), "{help}");
        // However many there are: 60 words of 100.
        let words: Vec<String> = (100..200).map(|n| format!("group-{n}")).collect();
        let help = suggest("xyz", words.iter().map(String::as_str)).text;
        assert!(help.ends_with("group-158, group-159, .."), "{help}");
    }

    #[test]
    fn where_no_key_is_to_blame_none_is_named() {
        let error = ScenarioFile::parse("b.toml", "a = [").unwrap_err();
        assert_eq!((error.line(), error.key()), (Some(1), None));
        let error = ScenarioFile::parse("b.toml", "").unwrap_err();
        assert_eq!(error.place(), &Place::File { file: "b.toml".to_owned() });
        assert_eq!(error.message(), "is empty");
    }
}
