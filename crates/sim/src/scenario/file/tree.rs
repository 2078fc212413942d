//! The values of a file, each with the place it came from.

use std::fmt;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::error::{Place, ScenarioError};

/// A value and its origin.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) origin: Origin,
    pub(super) value: Value,
}

/// Where a value came from.
#[derive(Debug, Clone)]
pub(super) enum Origin {
    /// A line of the file, counted from 1.
    Line(usize),
    /// A call of `set`, as `KEY=VALUE`.
    Set(Arc<str>),
}

/// What is said counts, not where.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// A TOML value; dates and numbers beyond 128 bits are kept as the text they are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Text(String),
    Integer(i128),
    Float(f64),
    Bool(bool),
    Other(String),
    Array(Vec<Node>),
    Table(Table),
}

/// Entries in the order of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Table {
    pub(super) entries: Vec<(String, Node)>,
}

impl Origin {
    /// The origin as errors name it.
    pub(super) fn place(&self, file: &str) -> Place {
        let file = file.to_owned();
        match self {
            Origin::Line(line) => Place::Line { file, line: *line },
            Origin::Set(assignment) => Place::Set { file, assignment: assignment.to_string() },
        }
    }
}

/// The order of the entries says nothing.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, node): &(String, Node)| other.get(key) == Some(node);
        self.entries.len() == other.entries.len() && self.entries.iter().all(same)
    }
}

impl Table {
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        let entry = self.entries.iter().find(|(name, _)| name == key);
        entry.map(|(_, node)| node)
    }

    /// The entry of that name, made by `default` if there is none.
    pub(super) fn entry(&mut self, key: &str, default: impl FnOnce() -> Node) -> &mut Node {
        let known = self.entries.iter().position(|(name, _)| name == key);
        let index = known.unwrap_or_else(|| {
            self.entries.push((key.to_owned(), default()));
            self.entries.len() - 1
        });
        &mut self.entries[index].1
    }
}

/// The values in a TOML document.
pub(super) fn parse(file: &str, text: &str) -> Result<Table, ScenarioError> {
    let lines = Lines::of(text);
    match DeTable::parse(text) {
        Ok(table) => {
            let table = Table::from_toml(table.into_inner(), &|at| Origin::Line(lines.number(at)));
            table.check_texts(file)?;
            Ok(table)
        }
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            let number = lines.number(at);
            let line = text.lines().nth(number - 1).unwrap_or("").trim();
            Err(ScenarioError::new(
                Origin::Line(number).place(file),
                format!("not valid TOML: {}", error.message().replace('\n', "; ")),
            )
            .with_help(format!("the line is `{}`", super::error::shorten(line))))
        }
    }
}

/// A value of `set`: TOML if it is TOML, otherwise a string.
///
/// # Errors
/// If it begins as a table, an array or a quoted string of TOML and is not valid: what is wrong, with the
/// number of the character, from 1.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Result<Node, String> {
    match DeValue::parse(text) {
        Ok(value) => Ok(Node {
            value: Value::from_toml(value.into_inner(), &|_| origin.clone()),
            origin: origin.clone(),
        }),
        Err(error) if text.trim_start().starts_with(['{', '[', '"', '\'']) => {
            let at = error.span().map_or(0, |span| span.start);
            let character = 1 + text.char_indices().take_while(|(start, _)| *start < at).count();
            let wrong = error.message().replace('\n', "; ");
            Err(format!("not valid TOML at character {character}: {wrong}"))
        }
        Err(_) => Ok(Node { origin: origin.clone(), value: Value::Text(text.to_owned()) }),
    }
}

impl Table {
    /// Texts reach terminals, which obey some characters.
    fn check_texts(&self, file: &str) -> Result<(), ScenarioError> {
        self.entries.iter().try_for_each(|(key, node)| {
            node.check_text(file, key, key)?;
            node.check_texts(file, key)
        })
    }

    fn from_toml(table: DeTable<'_>, origin: &dyn Fn(usize) -> Origin) -> Self {
        let mut entries: Vec<_> = table.into_iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let node = |(key, value): (toml::Spanned<_>, toml::Spanned<DeValue<'_>>)| {
            let origin_of_key = origin(key.span().start);
            let key: std::borrow::Cow<'_, str> = key.into_inner();
            let node =
                Node { origin: origin_of_key, value: Value::from_toml(value.into_inner(), origin) };
            (key.into_owned(), node)
        };
        Table { entries: entries.into_iter().map(node).collect() }
    }
}

impl Node {
    /// Errors if a text in it has a character that terminals obey; `key` is for the message.
    pub(super) fn check_texts(&self, file: &str, key: &str) -> Result<(), ScenarioError> {
        match &self.value {
            Value::Text(text) => self.check_text(file, key, text),
            Value::Array(items) => items.iter().try_for_each(|item| item.check_texts(file, key)),
            Value::Table(table) => table.check_texts(file),
            _ => Ok(()),
        }
    }

    fn check_text(&self, file: &str, key: &str, text: &str) -> Result<(), ScenarioError> {
        let Some(control) = crate::text::control(text) else { return Ok(()) };
        let place = self.origin.place(file);
        let message = format!("has the control character U+{:04X}", u32::from(control));
        let error = ScenarioError::new(place, message).with_key(super::error::shorten(key));
        Err(error.with_help("leave it out: a terminal would obey it"))
    }
}

impl Value {
    fn from_toml(value: DeValue<'_>, origin: &dyn Fn(usize) -> Origin) -> Self {
        match value {
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Value::Other(number.to_string()), Value::Integer),
            DeValue::Float(number) => match number.as_str().parse() {
                Ok(float) => Value::Float(float),
                Err(_) => Value::Other(number.to_string()),
            },
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Datetime(date) => Value::Other(date.to_string()),
            DeValue::Array(items) => Value::Array(
                items
                    .into_iter()
                    .map(|item| Node {
                        origin: origin(item.span().start),
                        value: Value::from_toml(item.into_inner(), origin),
                    })
                    .collect(),
            ),
            DeValue::Table(table) => Value::Table(Table::from_toml(table, origin)),
        }
    }

    /// The type in words.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Value::Text(_) => "a string",
            Value::Integer(_) | Value::Float(_) => "a number",
            Value::Bool(_) => "a boolean",
            Value::Other(_) => "a date or a number out of range",
            Value::Array(_) => "an array",
            Value::Table(_) => "a table",
        }
    }
}

/// As in the file; tables and arrays are only hinted at.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => write!(f, "\"{}\"", super::error::shorten(text)),
            Value::Integer(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number:?}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Other(text) => write!(f, "{}", super::error::shorten(text)),
            Value::Array(items) if items.is_empty() => write!(f, "[]"),
            Value::Array(_) => write!(f, "[..]"),
            Value::Table(_) => write!(f, "{{..}}"),
        }
    }
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        Lines(breaks.map(|(at, _)| at + 1).collect())
    }
    /// Number, from 1, of the line that the byte at `at` is on.
    fn number(&self, at: usize) -> usize {
        1 + self.0.partition_point(|&start| start <= at)
    }
}
