//! Errors in files: the place, the key, the value and a correction.

use std::fmt;

use crate::suggest::near;
use crate::text::printable;

/// An error in a file: its place, its description and a correction.
///
/// [`Display`](fmt::Display) writes one line, and often a second one with help. Programs that mark
/// the place or offer the correction use its parts:
///
/// ```
/// use windward_scenario::scenario::file::ScenarioFile;
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
/// assert_eq!(error.location().file(), "first.toml");
/// assert_eq!((error.line(), error.column()), (Some(7), Some(1)));
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
/// # Ok::<(), windward_scenario::strict_toml::FileError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
// Boxed, since every reader returns a value or this.
pub struct FileError(Box<Parts>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts {
    location: Location,
    key: Option<String>,
    value: Option<String>,
    message: String,
    help: Option<Help>,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A file as a whole.
    File {
        /// Its path as the user named it, or the name given to
        /// [`Document::parse`](super::Document::parse).
        file: String,
    },
    /// A line of a file.
    Line {
        /// As for [`Location::File`].
        file: String,
        /// Counted from 1.
        line: usize,
        /// Character of the line, counted from 1.
        column: usize,
    },
    /// A change of the file after it was read, by `--set` or an axis of a sweep.
    Set {
        /// As for [`Location::File`].
        file: String,
        /// `KEY=VALUE`, long ones shortened.
        assignment: String,
    },
}

impl Location {
    /// The file.
    pub fn file(&self) -> &str {
        match self {
            Location::File { file } | Location::Line { file, .. } | Location::Set { file, .. } => {
                file
            }
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File { file } => f.write_str(file),
            Location::Line { file, line, .. } => write!(f, "{file}:{line}"),
            Location::Set { file, assignment } => write!(f, "{file} with --set {assignment}"),
        }
    }
}

impl<T: Into<String>> From<T> for Location {
    fn from(file: T) -> Self {
        Location::File { file: file.into() }
    }
}

impl FileError {
    /// An error at a place.
    pub fn new(location: impl Into<Location>, message: impl Into<String>) -> Self {
        FileError(Box::new(Parts {
            location: location.into(),
            key: None,
            value: None,
            message: message.into(),
            help: None,
        }))
    }

    /// The same error, about a key.
    pub fn with_key(mut self, key: impl Into<String>) -> Self {
        self.0.key = Some(key.into());
        self
    }

    /// The same error, about a value of the key.
    pub fn with_value(mut self, value: impl Into<String>) -> Self {
        self.0.value = Some(value.into());
        self
    }

    /// The same error with a second line that tells how to correct it.
    pub fn with_help(mut self, help: impl Into<Help>) -> Self {
        self.0.help = Some(help.into());
        self
    }

    /// The place of the error.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// The line, counted from 1; `None` if the error is not about one line.
    pub fn line(&self) -> Option<usize> {
        match self.0.location {
            Location::Line { line, .. } => Some(line),
            Location::File { .. } | Location::Set { .. } => None,
        }
    }

    /// The character of the line, counted from 1; `None` if the error is not about one line.
    pub fn column(&self) -> Option<usize> {
        match self.0.location {
            Location::Line { column, .. } => Some(column),
            Location::File { .. } | Location::Set { .. } => None,
        }
    }

    /// The dotted key of the error, as `--set` takes it. If a key is missing or several keys
    /// contradict each other, the key of their table; `None` for the file as a whole. Items of
    /// arrays without names are counted, as in `path[0]`. Long keys are shortened.
    pub fn key(&self) -> Option<&str> {
        self.0.key.as_deref()
    }

    /// The value of the key as the file has it: strings in quotes, long values shortened, tables
    /// and arrays without their contents. `None` if the error is not about a value.
    pub fn value(&self) -> Option<&str> {
        self.0.value.as_deref()
    }

    /// Description of the error, without the place, the key and the value.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Advice on the correction.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_ref().map(|help| help.text.as_str())
    }

    /// The valid word nearest to an unknown one, to be written in its place.
    pub fn suggestion(&self) -> Option<&str> {
        self.0.help.as_ref()?.suggestion.as_deref()
    }
}

impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { location, key, value, message, help } = &*self.0;
        f.debug_struct("FileError")
            .field("location", location)
            .field("key", key)
            .field("value", value)
            .field("message", message)
            .field("help", &help.as_ref().map(|help| &help.text))
            .field("suggestion", &self.suggestion())
            .finish()
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { location, key, value, message, .. } = &*self.0;
        write!(f, "{location}: ")?;
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

impl std::error::Error for FileError {}

/// Advice on the correction of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Help {
    text: String,
    /// The valid word nearest to the unknown one.
    suggestion: Option<String>,
}

impl<T: Into<String>> From<T> for Help {
    fn from(text: T) -> Self {
        Help { text: text.into(), suggestion: None }
    }
}

/// The valid word nearest to an unknown `word`, if one is near, and the list of the valid words if
/// they are few or none is near.
pub fn suggest<'a>(word: &str, valid: impl IntoIterator<Item = &'a str>) -> Help {
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
pub fn shorten(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = text.replace(['\n', '\t'], " ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", printable(&text[..end])),
        None => printable(&text).into_owned(),
    }
}
