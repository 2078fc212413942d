//! The values of a file, each with its origin.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::{FileError, Location, shorten};

/// A value and its origin.
#[derive(Debug, Clone)]
pub(crate) struct TomlNode {
    pub(crate) origin: Origin,
    pub(crate) value: TomlValue,
}

/// The origin of a value.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// The text of the file.
    File {
        /// Line of the key, or of the item of an array, counted from 1.
        line: usize,
        /// Its character on that line, counted from 1.
        column: usize,
        /// Bytes of the value.
        value: Range<usize>,
    },
    /// A call of `set`, as `KEY=VALUE`.
    Set(Arc<str>),
}

/// Origins are not compared.
impl PartialEq for TomlNode {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A TOML value; dates and numbers beyond 128 bits are kept as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TomlValue {
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    Other(String),
    Array(Vec<TomlNode>),
    Table(TomlTable),
}

/// Entries in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct TomlTable {
    pub(crate) entries: Vec<(String, TomlNode)>,
}

impl Origin {
    /// The start of the file.
    pub(crate) const START: Origin = Origin::File { line: 1, column: 1, value: 0..0 };

    /// The line, counted from 1; 0 for a change.
    pub(crate) fn line(&self) -> usize {
        match self {
            Origin::File { line, .. } => *line,
            Origin::Set(_) => 0,
        }
    }

    /// The origin as errors name it.
    pub(crate) fn location(&self, file: &str) -> Location {
        let file = file.to_owned();
        match self {
            Origin::File { line, column, .. } => {
                Location::Line { file, line: *line, column: *column }
            }
            Origin::Set(assignment) => Location::Set { file, assignment: assignment.to_string() },
        }
    }
}

/// A text and its name in errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

/// The order of the entries is not compared.
impl PartialEq for TomlTable {
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, node): &(String, TomlNode)| other.get(key) == Some(node);
        self.entries.len() == other.entries.len() && self.entries.iter().all(same)
    }
}

impl TomlTable {
    /// The value of a key if it is a string.
    pub fn text(&self, key: &str) -> Option<&str> {
        match &self.get(key)?.value {
            TomlValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&TomlNode> {
        let entry = self.entries.iter().find(|(name, _)| name == key);
        entry.map(|(_, node)| node)
    }

    /// The items of an array of tables; none if there is no such array.
    pub(crate) fn items_mut(&mut self, key: &str) -> &mut [TomlNode] {
        match self.entries.iter_mut().find(|(name, _)| name == key) {
            Some((_, TomlNode { value: TomlValue::Array(items), .. })) => items,
            _ => &mut [],
        }
    }

    /// The entry of that name, made by `default` if there is none.
    pub(crate) fn entry(&mut self, key: &str, default: impl FnOnce() -> TomlNode) -> &mut TomlNode {
        let known = self.entries.iter().position(|(name, _)| name == key);
        let index = known.unwrap_or_else(|| {
            self.entries.push((key.to_owned(), default()));
            self.entries.len() - 1
        });
        &mut self.entries[index].1
    }
}

/// The values in a TOML document.
pub(crate) fn parse(source: Source<'_>) -> Result<TomlTable, FileError> {
    let Source { text, .. } = source;
    let lines = Lines::of(text);
    let origin = |at, value| {
        let (line, column) = lines.position(at);
        Origin::File { line, column, value }
    };
    match DeTable::parse(text) {
        Ok(table) => {
            let table = TomlTable::from_toml(table.into_inner(), &origin);
            table.check_texts(source)?;
            Ok(table)
        }
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let line = text.lines().nth(lines.position(at).0 - 1).unwrap_or("").trim();
            let message = format!("not valid TOML: {}", error.message().replace('\n', "; "));
            Err(FileError::new(origin(at, at..at).location(source.name), message)
                .with_help(format!("the line is `{}`", shorten(line))))
        }
    }
}

/// Makes the origin of a value from the start of its key or item and the bytes of the value.
type MakeOrigin<'a> = &'a dyn Fn(usize, Range<usize>) -> Origin;

/// Parses a value of `set` as TOML or, if it is not TOML, as a string.
///
/// # Errors
/// If it begins like a TOML table, array or quoted string and is not valid: the description of the
/// error with the number of the character, counted from 1.
pub(crate) fn parse_value(text: &str, origin: &Origin) -> Result<TomlNode, String> {
    match DeValue::parse(text) {
        Ok(value) => Ok(TomlNode {
            value: TomlValue::from_toml(value.into_inner(), &|_, _| origin.clone()),
            origin: origin.clone(),
        }),
        Err(error) if text.trim_start().starts_with(['{', '[', '"', '\'']) => {
            let at = error.span().map_or(0, |span| span.start);
            let character = 1 + text.char_indices().take_while(|(start, _)| *start < at).count();
            let wrong = error.message().replace('\n', "; ");
            Err(format!("not valid TOML at character {character}: {wrong}"))
        }
        Err(_) => Ok(TomlNode { origin: origin.clone(), value: TomlValue::Text(text.to_owned()) }),
    }
}

impl TomlTable {
    /// Errors if a text in it has a control character, since texts are printed on terminals.
    fn check_texts(&self, source: Source<'_>) -> Result<(), FileError> {
        self.entries.iter().try_for_each(|(key, node)| {
            node.check_text(source, key, key)?;
            node.check_texts(source, key)
        })
    }

    fn from_toml(table: DeTable<'_>, origin: MakeOrigin<'_>) -> Self {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let node = |(key, value): (toml::Spanned<_>, toml::Spanned<DeValue<'_>>)| {
            let origin_of_entry = origin(key.span().start, value.span());
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            let value = TomlValue::from_toml(value.into_inner(), origin);
            (key.into_owned(), TomlNode { origin: origin_of_entry, value })
        };
        TomlTable { entries: entries.into_iter().map(node).collect() }
    }
}

impl TomlNode {
    /// The value of a key, if this is a table that has it.
    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut TomlNode> {
        let TomlValue::Table(table) = &mut self.value else { return None };
        table.entries.iter_mut().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// Errors if a text in it has a control character; `key` is its key in the message.
    pub(crate) fn check_texts(&self, source: Source<'_>, key: &str) -> Result<(), FileError> {
        match &self.value {
            TomlValue::Text(text) => self.check_text(source, key, text),
            TomlValue::Array(items) => {
                items.iter().try_for_each(|item| item.check_texts(source, key))
            }
            TomlValue::Table(table) => table.check_texts(source),
            _ => Ok(()),
        }
    }

    fn check_text(&self, source: Source<'_>, key: &str, text: &str) -> Result<(), FileError> {
        let Some(control) = crate::text::control(text) else { return Ok(()) };
        let location = self.origin.location(source.name);
        let message = format!("has the invisible character U+{:04X}", u32::from(control));
        let error = FileError::new(location, message).with_key(shorten(key));
        Err(error.with_help("remove it: terminals and editors interpret or hide it"))
    }
}

impl TomlValue {
    fn from_toml(value: DeValue<'_>, origin: MakeOrigin<'_>) -> Self {
        match value {
            DeValue::String(text) => TomlValue::Text(text.into_owned()),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| TomlValue::Other(number.to_string()), TomlValue::Integer),
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(float) => TomlValue::Float(float),
                Err(_) => TomlValue::Other(number.to_string()),
            },
            DeValue::Boolean(value) => TomlValue::Bool(value),
            DeValue::Datetime(date) => TomlValue::Other(date.to_string()),
            DeValue::Array(items) => TomlValue::Array(
                items
                    .into_iter()
                    .map(|item| TomlNode {
                        origin: origin(item.span().start, item.span()),
                        value: TomlValue::from_toml(item.into_inner(), origin),
                    })
                    .collect(),
            ),
            DeValue::Table(table) => TomlValue::Table(TomlTable::from_toml(table, origin)),
        }
    }

    /// The type in words.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            TomlValue::Text(_) => "a string",
            TomlValue::Integer(_) | TomlValue::Float(_) => "a number",
            TomlValue::Bool(_) => "a boolean",
            TomlValue::Other(_) => "a date or a number out of range",
            TomlValue::Array(_) => "an array",
            TomlValue::Table(_) => "a table",
        }
    }
}

/// Writes it as in the file; tables and arrays without their contents.
impl fmt::Display for TomlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TomlValue::Text(text) => write!(f, "\"{}\"", shorten(text)),
            TomlValue::Integer(number) => write!(f, "{number}"),
            TomlValue::Float(number) if number.is_nan() => write!(f, "nan"),
            TomlValue::Float(number) => write!(f, "{number:?}"),
            TomlValue::Bool(value) => write!(f, "{value}"),
            TomlValue::Other(text) => write!(f, "{}", shorten(text)),
            TomlValue::Array(items) if items.is_empty() => write!(f, "[]"),
            TomlValue::Array(_) => write!(f, "[..]"),
            TomlValue::Table(_) => write!(f, "{{..}}"),
        }
    }
}

/// The lines and columns of a text.
struct Lines<'a> {
    text: &'a str,
    /// A byte, its line and its column: each first one of a line, and some further ones of long
    /// lines, since arrays may have a million items in one.
    marks: Vec<(usize, usize, usize)>,
}

impl<'a> Lines<'a> {
    /// Columns from one mark of a line to the next.
    const STEP: usize = 256;

    fn of(text: &'a str) -> Self {
        let mut marks = vec![(0, 1, 1)];
        let (mut line, mut column) = (1, 1);
        for (at, letter) in text.char_indices() {
            column += 1;
            if letter == '\n' {
                (line, column) = (line + 1, 1);
            }
            if column % Self::STEP == 1 {
                marks.push((at + letter.len_utf8(), line, column));
            }
        }
        Lines { text, marks }
    }

    /// Line and column, from 1, of the byte at `at`.
    fn position(&self, at: usize) -> (usize, usize) {
        let (start, line, column) = self.marks[self.marks.partition_point(|mark| mark.0 <= at) - 1];
        (line, column + self.text.get(start..at).map_or(0, |text| text.chars().count()))
    }
}
