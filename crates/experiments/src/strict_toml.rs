//! Tables of a TOML file read key by key. Whatever nobody asked for is an error that names
//! the line and the nearest key that would have been read.

use std::cell::RefCell;
use std::ops::Range;

use toml_edit::{Item, TableLike, Value};
use windward_sim::text::control;

use crate::LabError;
use crate::error::nearest;

/// The file that is being read: its name and its text, for errors.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// Its name in errors.
    pub name: &'a str,
    /// All of it.
    pub text: &'a str,
}

impl Source<'_> {
    /// The line of a byte offset, counted from one.
    pub fn line(&self, span: Option<Range<usize>>) -> usize {
        span.map_or(0, |s| {
            let before = self.text.as_bytes().iter().take(s.start);
            1 + before.filter(|b| **b == b'\n').count()
        })
    }

    /// An error at a line, or at none if it is zero.
    pub fn error(&self, line: usize, message: impl Into<String>) -> LabError {
        LabError::Experiment { file: self.name.to_owned(), line, message: message.into() }
    }

    /// Errors if a text in the table has a character that terminals obey, as the reader of scenarios
    /// does for its own file.
    pub fn check_texts(self, table: &dyn TableLike) -> Result<(), LabError> {
        table.iter().try_for_each(|(key, item)| {
            self.check_text(key, key, item.span())?;
            match item {
                Item::Value(value) => self.check_value(key, value),
                Item::Table(table) => self.check_texts(table),
                Item::ArrayOfTables(tables) => {
                    tables.iter().try_for_each(|table| self.check_texts(table))
                }
                Item::None => Ok(()),
            }
        })
    }

    fn check_value(self, key: &str, value: &Value) -> Result<(), LabError> {
        match value {
            Value::String(text) => self.check_text(key, text.value(), value.span()),
            Value::Array(items) => items.iter().try_for_each(|item| self.check_value(key, item)),
            Value::InlineTable(table) => self.check_texts(table),
            _ => Ok(()),
        }
    }

    fn check_text(self, key: &str, text: &str, span: Option<Range<usize>>) -> Result<(), LabError> {
        let Some(found) = control(text) else { return Ok(()) };
        let (key, code) = (key.replace(char::is_control, " "), u32::from(found));
        let message = format!(
            "`{key}` has the control character U+{code:04X}: leave it out, a terminal would obey it"
        );
        Err(self.error(self.line(span), message))
    }
}

/// A value with the line it stands on.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// The line, counted from one.
    pub line: usize,
    /// The value.
    pub value: T,
}

/// One table: `[a]`, `{ .. }` or one element of `[[a]]`.
#[derive(Clone)]
pub struct Section<'a> {
    source: Source<'a>,
    /// How errors call it.
    name: String,
    /// Where it begins.
    pub line: usize,
    table: &'a dyn TableLike,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The table in `item`, called `name` in errors.
    ///
    /// # Errors
    /// If it is not a table.
    pub fn new(source: Source<'a>, name: &str, item: &'a Item) -> Result<Self, LabError> {
        let line = source.line(item.span());
        match item.as_table_like() {
            Some(table) => Ok(Self::of(source, name, line, table)),
            None => Err(source.error(line, format!("`{name}` must be a table"))),
        }
    }

    fn of(source: Source<'a>, name: &str, line: usize, table: &'a dyn TableLike) -> Self {
        Section { source, name: name.to_owned(), line, table, asked: RefCell::default() }
    }

    /// Call it last: every key must have been asked for.
    pub fn finish(self) -> Result<(), LabError> {
        let asked = self.asked.borrow();
        for (key, _) in self.table.iter() {
            if !asked.contains(&key) {
                let hint = nearest(key, asked.iter().copied());
                let line = self.key_line(key);
                let message = format!("unknown key `{key}` in `{}`{hint}", self.name);
                return Err(self.source.error(line, message));
            }
        }
        Ok(())
    }

    /// The keys and values of a table whose keys the user chooses.
    pub fn free_keys(&self) -> Vec<(At<String>, &'a Item)> {
        let rows = self.table.iter().map(|(key, item)| {
            let at = At { line: self.key_line(key), value: key.to_owned() };
            (at, item)
        });
        rows.collect()
    }

    /// The error of a key that must be there.
    pub fn missing(&self, key: &str) -> LabError {
        let message = format!("`{}` needs the key `{key}`", self.name);
        self.source.error(self.line, message)
    }

    /// A string, if the key is there.
    pub fn text(&self, key: &'static str) -> Result<Option<At<String>>, LabError> {
        let parse = |v: &Value| v.as_str().map(str::to_owned);
        self.typed(key, "a text in quotes", parse)
    }

    /// A string that must be there.
    pub fn needed_text(&self, key: &'static str) -> Result<At<String>, LabError> {
        self.text(key)?.ok_or_else(|| self.missing(key))
    }

    /// `true` or `false`, if the key is there.
    pub fn flag(&self, key: &'static str) -> Result<Option<At<bool>>, LabError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A finite number, if the key is there.
    pub fn number(&self, key: &'static str) -> Result<Option<At<f64>>, LabError> {
        self.typed(key, "a number", number)
    }

    /// A whole number from `least` to a million.
    pub fn count(&self, key: &'static str, least: u32) -> Result<Option<At<u32>>, LabError> {
        let parse = |v: &Value| {
            let n = u32::try_from(v.as_integer()?).ok()?;
            (least..=1_000_000).contains(&n).then_some(n)
        };
        let wanted = format!("a whole number from {least} to 1000000");
        self.typed(key, &wanted, parse)
    }

    /// Two numbers, the first below the second.
    pub fn bounds(&self, key: &'static str) -> Result<Option<(f64, f64)>, LabError> {
        let parse = |v: &Value| match v.as_array()?.iter().map(number).collect::<Vec<_>>()[..] {
            [Some(low), Some(high)] if low < high => Some((low, high)),
            _ => None,
        };
        let found = self.typed(key, "two numbers, the lower first, as [0, 1]", parse)?;
        Ok(found.map(|at| at.value))
    }

    /// Is the key there? That does not count as asking for it.
    pub fn has(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// A list of texts, or one text alone.
    pub fn texts(&self, key: &'static str) -> Result<Vec<At<String>>, LabError> {
        let mut texts = Vec::new();
        for value in self.values(key)? {
            let line = self.source.line(value.span());
            match value.as_str() {
                Some(text) => texts.push(At { line, value: text.to_owned() }),
                None => {
                    let message = format!("`{key}` must list texts in quotes");
                    return Err(self.source.error(line, message));
                }
            }
        }
        Ok(texts)
    }

    /// The elements of an array, or the value alone; nothing if the key is missing.
    pub fn values(&self, key: &'static str) -> Result<Vec<&'a Value>, LabError> {
        let Some(item) = self.item(key) else {
            return Ok(Vec::new());
        };
        match item {
            Item::Value(Value::Array(array)) => Ok(array.iter().collect()),
            Item::Value(value) => Ok(vec![value]),
            _ => Err(self.wrong(key, item, "a list")),
        }
    }

    /// The table at a key.
    pub fn section(&self, key: &'static str) -> Result<Option<Section<'a>>, LabError> {
        let name = format!("{}.{key}", self.name);
        let item = self.item(key);
        item.map(|item| Section::new(self.source, &name, item)).transpose()
    }

    /// The tables at a key: `[[name.key]]` or `key = [{ .. }, { .. }]`.
    pub fn sections(&self, key: &'static str) -> Result<Vec<Section<'a>>, LabError> {
        let name = format!("{}.{key}", self.name);
        let Some(item) = self.item(key) else {
            return Ok(Vec::new());
        };
        if let Some(tables) = item.as_array_of_tables() {
            let section = |t: &'a toml_edit::Table| {
                Section::of(self.source, &name, self.source.line(t.span()), t)
            };
            return Ok(tables.iter().map(section).collect());
        }
        let mut sections = Vec::new();
        for value in item.as_array().into_iter().flatten() {
            let line = self.source.line(value.span());
            match value.as_inline_table() {
                Some(table) => sections.push(Section::of(self.source, &name, line, table)),
                None => {
                    let message = format!("`{key}` must list tables");
                    return Err(self.source.error(line, message));
                }
            }
        }
        if item.is_array() {
            Ok(sections)
        } else {
            Err(self.wrong(key, item, &format!("tables: [[{name}]]")))
        }
    }

    /// An error about this table.
    pub fn error(&self, message: impl Into<String>) -> LabError {
        self.source.error(self.line, message)
    }

    /// The line of a key.
    pub fn key_line(&self, key: &str) -> usize {
        let spans = self.table.get_key_value(key).map(|(k, item)| {
            let of_key = k.span();
            of_key.or_else(|| item.span())
        });
        self.source.line(spans.flatten())
    }

    fn item(&self, key: &'static str) -> Option<&'a Item> {
        self.asked.borrow_mut().push(key);
        #[cfg(test)]
        ASKED.with_borrow_mut(|asked| asked.push((self.name.clone(), key)));
        self.table.get(key)
    }

    /// The value at a key as `parse` has it; `wanted` says what it must be.
    pub fn typed<T>(
        &self,
        key: &'static str,
        wanted: &str,
        parse: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<At<T>>, LabError> {
        let Some(item) = self.item(key) else {
            return Ok(None);
        };
        let line = self.source.line(item.span());
        match item.as_value().and_then(parse) {
            Some(value) => Ok(Some(At { line, value })),
            None => Err(self.wrong(key, item, wanted)),
        }
    }

    fn wrong(&self, key: &str, item: &Item, wanted: &str) -> LabError {
        let line = self.source.line(item.span());
        let found = item.to_string();
        let found = found.trim();
        let message = if found.is_empty() || found.contains('\n') {
            format!("`{key}` must be {wanted}")
        } else {
            format!("`{key}` must be {wanted}, not {found}")
        };
        self.source.error(line, message)
    }
}

fn number(value: &Value) -> Option<f64> {
    let integer = value.as_integer().map(|i| i as f64);
    integer.or_else(|| value.as_float()).filter(|x| x.is_finite())
}

#[cfg(test)]
thread_local! {
    static ASKED: RefCell<Vec<(String, &'static str)>> = const { RefCell::new(Vec::new()) };
}

/// What `read` gives, and which keys of which tables it asked for.
#[cfg(test)]
pub fn asked_for<T>(read: impl FnOnce() -> T) -> (T, Vec<(String, &'static str)>) {
    ASKED.with_borrow_mut(Vec::clear);
    let read = read();
    (read, ASKED.take())
}
