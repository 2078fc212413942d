//! Tables and values of a file with their dotted keys, and typed reading of values, which
//! fails if a value has the wrong type or is out of range. Errors name the place, key and value.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use windward_core::part::{self, ValueKind};
use windward_core::units::{Duration, ParseUnitError, Probability, Rate, parse_bytes};

use super::error::{FileError, Location, shorten, suggest};
use super::reader::Reader;
use super::tree::{Origin, Source, TomlNode, TomlTable, TomlValue};

/// The result of a reader.
pub type Result<T> = std::result::Result<T, FileError>;

/// A table of the file, with the dotted key that leads to it.
#[derive(Debug, Clone)]
pub struct Section<'a> {
    source: Source<'a>,
    path: String,
    origin: &'a Origin,
    table: &'a TomlTable,
}

/// A value of the file, with the dotted key that leads to it.
#[derive(Debug, Clone)]
pub struct Field<'a> {
    source: Source<'a>,
    path: String,
    node: &'a TomlNode,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(crate) fn root(source: Source<'a>, table: &'a TomlTable) -> Self {
        const FIRST: &Origin = &Origin::START;
        Section { source, path: String::new(), origin: FIRST, table }
    }

    /// The same table with another dotted key in errors.
    #[must_use]
    pub fn named(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    /// The name of the file in errors.
    pub fn file(&self) -> &'a str {
        self.source.name
    }

    /// The text of the file.
    pub fn text(&self) -> &'a str {
        self.source.text
    }

    /// The line on which the table begins, counted from 1; 0 for a change.
    pub fn line(&self) -> usize {
        self.origin.line()
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        self.table.get(key).map(|node| self.field(key, node))
    }

    fn field(&self, key: &str, node: &'a TomlNode) -> Field<'a> {
        Field { source: self.source, path: join(&self.path, key), node }
    }

    /// The keys of the table, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.table.entries.iter().map(|(key, _)| key.as_str())
    }

    /// The keys and values of the table, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        self.table.entries.iter().map(|(key, node)| (key.as_str(), self.field(key, node)))
    }

    /// The table under `key`, if there is one.
    pub fn table(&self, key: &str) -> Option<Section<'a>> {
        self.get(key)?.section().ok()
    }

    /// The value of `key` as `reader` reads it, if it is there.
    pub fn value<T>(
        &self,
        key: &str,
        reader: &Reader<impl Fn(&Field<'a>) -> Result<T>, impl Sized>,
    ) -> Result<Option<T>> {
        self.get(key).map(|field| (reader.read)(&field)).transpose()
    }

    /// [`Section::value`] of a key that has no default.
    pub fn require<T>(
        &self,
        key: &str,
        example: &str,
        reader: &Reader<impl Fn(&Field<'a>) -> Result<T>, impl Sized>,
    ) -> Result<T> {
        self.value(key, reader)?.ok_or_else(|| self.missing(key, example))
    }

    /// The error that `key` is missing; `example` is an assignment that would be right.
    pub fn missing(&self, key: &str, example: &str) -> FileError {
        self.error(format!("`{key}` is missing"))
            .with_help(format!("write for instance `{example}`"))
    }

    /// An error about the table as a whole.
    pub fn error(&self, message: impl Display) -> FileError {
        self.spot().error(message)
    }

    /// An error about the value of `key`, or about the table if the key is not there.
    pub fn error_at(&self, key: &str, message: impl Display) -> FileError {
        match self.get(key) {
            Some(field) => field.error(message),
            None => self.error(message),
        }
    }

    /// Checks that the table has none of `keys`.
    ///
    /// # Errors
    /// `why`, at the first of these keys that the table has.
    pub fn forbid(&self, keys: &[&str], why: &str) -> Result<()> {
        match keys.iter().find_map(|key| self.get(key)) {
            Some(field) => Err(field.error(why)),
            None => Ok(()),
        }
    }

    /// Checks that the table has only these keys, for tables whose keys depend on a value.
    ///
    /// # Errors
    /// At the first other key; `what` is the kind of table.
    pub fn only(&self, keys: &[&str], what: &str) -> Result<()> {
        match self.entries().find(|(key, _)| !keys.contains(key)) {
            None => Ok(()),
            Some((key, field)) => {
                let error = field.spot().key_error(format!("unknown key in {what}"));
                Err(error.with_help(suggest(key, keys.iter().copied())))
            }
        }
    }

    /// The place of the table.
    pub fn spot(&self) -> Spot {
        let location = self.origin.location(self.source.name);
        Spot { location, key: self.path.clone(), value: None }
    }

    pub(crate) fn tree(&self) -> &'a TomlTable {
        self.table
    }
}

impl<'a> Field<'a> {
    /// An error about this value.
    pub fn error(&self, message: impl Display) -> FileError {
        self.spot().error(message)
    }

    /// An error inside this string, at a byte of it.
    pub fn error_within(&self, at: usize, message: impl Display) -> FileError {
        let before = self.text().ok().and_then(|text| text.get(..at)).unwrap_or_default();
        let message = format!("character {}: {message}", before.chars().count() + 1);
        let mut spot = self.spot();
        if let (Some(range), Location::Line { file, .. }) = (self.range(), &spot.location) {
            let at = range.start + written_before(&self.as_written(), before.len());
            let above = self.source.text.get(..at).unwrap_or_default();
            let line_start = above.rfind('\n').map_or(0, |newline| newline + 1);
            spot.location = Location::Line {
                file: file.clone(),
                line: above.matches('\n').count() + 1,
                column: above[line_start..].chars().count() + 1,
            };
        }
        spot.error(message)
    }

    /// The place of the value.
    pub fn spot(&self) -> Spot {
        Spot {
            location: self.node.origin.location(self.source.name),
            key: self.path.clone(),
            value: Some(self.node.value.to_string()),
        }
    }

    /// The error that the value has the wrong type; `what` is the right one.
    pub fn expected(&self, what: &str) -> FileError {
        let found = self.node.value.describe();
        self.error(format!("expected {what}, found {found}"))
    }

    fn unit(&self, error: &ParseUnitError) -> FileError {
        self.error(error.reason()).with_help(error.expected())
    }

    /// The folder of the file, to which paths in its values are relative.
    pub fn folder(&self) -> &'a Path {
        Path::new(self.source.name).parent().unwrap_or(Path::new(""))
    }

    /// The dotted key.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn node(&self) -> &'a TomlNode {
        self.node
    }

    /// The line of the key or item, counted from 1; 0 for a change.
    pub fn line(&self) -> usize {
        self.node.origin.line()
    }

    /// The value with the line of its key.
    pub fn at<T>(&self, value: T) -> At<T> {
        At { line: self.line(), value }
    }

    /// The bytes of the value in the text of the file; of a table in lines of its own, of its
    /// header.
    pub fn range(&self) -> Option<Range<usize>> {
        match &self.node.origin {
            Origin::File { value, .. } => Some(value.clone()),
            Origin::Set(_) => None,
        }
    }

    /// The value as the file writes it.
    pub fn as_written(&self) -> String {
        match self.range() {
            Some(range) => self.source.text.get(range).unwrap_or_default().to_owned(),
            None => self.node.value.to_string(),
        }
    }

    /// The value as `--set` takes it: a string without quotes, other values as the file writes
    /// them.
    pub fn as_setting(&self) -> String {
        self.text().map_or_else(|_| self.as_written(), str::to_owned)
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.node.value, TomlValue::Table(_))
    }
    /// Whether the value is a table on lines of its own, `[a]` or `a.b = 1`, or an array of such
    /// tables.
    pub fn is_block(&self) -> bool {
        match &self.node.value {
            TomlValue::Table(_) => !self.as_written().starts_with('{'),
            TomlValue::Array(_) => {
                self.items().is_ok_and(|items| items.first().is_some_and(Field::is_block))
            }
            _ => false,
        }
    }

    /// Whether the value is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.node.value, TomlValue::Array(_))
    }
    /// Whether the value is a string.
    pub fn is_text(&self) -> bool {
        matches!(self.node.value, TomlValue::Text(_))
    }
    /// Whether the value is true or false.
    pub fn is_bool(&self) -> bool {
        matches!(self.node.value, TomlValue::Bool(_))
    }

    /// The value as a table.
    pub fn section(&self) -> Result<Section<'a>> {
        match &self.node.value {
            TomlValue::Table(table) => {
                let Self { source, path, node } = self.clone();
                Ok(Section { source, path, origin: &node.origin, table })
            }
            _ => Err(self.expected("a table")),
        }
    }

    /// The elements of an array, as `key[0]`, `key[1]` and so on.
    pub fn items(&self) -> Result<Vec<Field<'a>>> {
        let TomlValue::Array(items) = &self.node.value else {
            return Err(self.expected("an array"));
        };
        let item = |(index, node)| Field {
            source: self.source,
            path: format!("{}[{index}]", self.path),
            node,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    /// The value as a string.
    pub fn text(&self) -> Result<&'a str> {
        match &self.node.value {
            TomlValue::Text(text) => Ok(text),
            _ => Err(self.expected("a string")),
        }
    }

    /// A name that can appear in results, dotted keys and file names.
    pub fn name(&self) -> Result<&'a str> {
        let name = self.text()?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
            return Err(
                self.error("a name has 1 to 64 letters (A to Z, a to z), digits, `-` or `_`")
            );
        }
        Ok(name)
    }

    /// A name that appears only in results: any printable text without `,` and `"`.
    pub fn label(&self) -> Result<&'a str> {
        let label = self.text()?;
        let good = |c: char| !c.is_control() && c != ',' && c != '"';
        if label.trim().is_empty() || label.len() > 64 || !label.chars().all(good) {
            return Err(self.error("a name has 1 to 64 characters, none of them `,` or a quote"));
        }
        if crate::text::is_formula(label) {
            return Err(
                self.error("a spreadsheet would run it as a formula: begin it with a letter")
            );
        }
        Ok(label)
    }

    /// The value as true or false.
    pub fn bool(&self) -> Result<bool> {
        match self.node.value {
            TomlValue::Bool(value) => Ok(value),
            _ => Err(self.expected("true or false")),
        }
    }

    /// A whole number in `range`.
    pub fn integer(&self, range: RangeInclusive<u64>) -> Result<u64> {
        let number = match &self.node.value {
            TomlValue::Integer(number) => u64::try_from(*number).ok(),
            TomlValue::Other(_) => None,
            TomlValue::Float(_) => return Err(self.error("must be a whole number")),
            _ => return Err(self.expected("a whole number")),
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (from, to) = range.into_inner();
            self.error(format!("must lie between {from} and {to}"))
        })
    }

    /// A whole number of 32 bits in `range`.
    pub fn small(&self, range: RangeInclusive<u32>) -> Result<u32> {
        let number = self.integer(u64::from(*range.start())..=u64::from(*range.end()))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// A number in `range`.
    pub fn float(&self, range: RangeInclusive<f64>) -> Result<f64> {
        let number = match self.node.value {
            TomlValue::Float(number) => number,
            TomlValue::Integer(number) => number as f64,
            _ => return Err(self.expected("a number")),
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let (from, to) = range.into_inner();
        Err(self.error(format!("must lie between {} and {}", short(from), short(to))))
    }

    /// A number above zero, up to `highest`.
    pub fn above_zero(&self, highest: f64) -> Result<f64> {
        let number = self.float(0.0..=highest)?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(self.error(format!("must be more than 0 and at most {}", short(highest))))
        }
    }

    /// A probability: a number from 0 to 1, or a percentage in a string.
    pub fn probability(&self) -> Result<Probability> {
        let number = match &self.node.value {
            TomlValue::Float(number) => *number,
            TomlValue::Integer(number) => *number as f64,
            TomlValue::Text(text) => return text.parse().map_err(|error| self.unit(&error)),
            _ => return Err(self.expected("a probability")),
        };
        Probability::new(number).ok_or_else(|| self.error(Probability::refusal(number)))
    }

    /// A rate with its unit, 1bit to 100Tbit.
    pub fn rate(&self) -> Result<Rate> {
        const HIGHEST_BPS: u64 = 100_000_000_000_000;
        let rate: Rate = match &self.node.value {
            TomlValue::Text(text) => text.parse().map_err(|error| self.unit(&error))?,
            TomlValue::Integer(_) | TomlValue::Float(_) => {
                return Err(self
                    .error("a rate needs a unit")
                    .with_help("write for instance \"5Mbit\""));
            }
            _ => return Err(self.expected("a rate such as \"5Mbit\"")),
        };
        if rate.as_bps() > HIGHEST_BPS {
            return Err(self.error("a rate must lie between 1bit and 100Tbit"));
        }
        Ok(rate)
    }

    /// A time in `range`; zero needs no unit.
    pub fn duration(&self, range: RangeInclusive<Duration>) -> Result<Duration> {
        let duration = match &self.node.value {
            TomlValue::Text(text) => text.parse().map_err(|error| self.unit(&error))?,
            TomlValue::Integer(0) => Duration::ZERO,
            TomlValue::Integer(_) | TomlValue::Float(_) => {
                return Err(self
                    .error("a time needs a unit")
                    .with_help("write for instance \"20ms\""));
            }
            _ => return Err(self.expected("a time such as \"20ms\"")),
        };
        if range.contains(&duration) {
            return Ok(duration);
        }
        let (from, to) = range.into_inner();
        Err(self.error(format!("must lie between {from} and {to}")))
    }

    /// A time above zero, up to `longest`.
    pub fn positive(&self, longest: Duration) -> Result<Duration> {
        self.duration(Duration::from_ps(1)..=longest)
    }

    /// Packets (`50p`) or bytes (`64kB`), at least one.
    pub fn amount(&self) -> Result<Amount> {
        let TomlValue::Text(text) = &self.node.value else {
            return Err(self
                .error("expected a number of packets or bytes")
                .with_help("write for instance \"50p\" or \"64kB\""));
        };
        let packets =
            ["packets", "packet", "p"].iter().find_map(|unit| text.trim().strip_suffix(unit));
        let amount = match packets {
            Some(number) => match number.trim().parse() {
                Ok(packets) => Amount::Packets(packets),
                Err(_) => {
                    return Err(self
                        .error("not a whole number of packets")
                        .with_help("write for instance \"50p\""));
                }
            },
            None => Amount::Bytes(parse_bytes(text).map_err(|error| {
                self.error(error.reason())
                    .with_help("write packets as in \"50p\" or bytes as in \"64kB\"")
            })?),
        };
        match amount {
            Amount::Packets(0) | Amount::Bytes(0) => Err(self.error("must be more than zero")),
            amount => Ok(amount),
        }
    }

    /// One of several words.
    pub fn word(&self, valid: &[&str]) -> Result<&'a str> {
        let word = self.text()?;
        if valid.contains(&word) {
            return Ok(word);
        }
        Err(self.unknown("word", word, valid.iter().copied()))
    }

    /// The meaning of one of several words.
    pub fn one_of<T: Copy>(&self, meanings: &[(&str, T)]) -> Result<T> {
        let word = self.text()?;
        match meanings.iter().find(|(known, _)| *known == word) {
            Some((_, meaning)) => Ok(*meaning),
            None => Err(self.unknown("word", word, meanings.iter().map(|(known, _)| *known))),
        }
    }

    /// The value of a part's parameter.
    pub fn parameter(&self, kind: ValueKind) -> Result<part::Value> {
        use part::Value;
        match kind {
            ValueKind::Bool => self.bool().map(Value::Bool),
            ValueKind::Bytes { most } => self.bytes(most).map(Value::Number),
            ValueKind::Number { least, most } => self.float(least..=most).map(Value::Number),
            ValueKind::Positive { most } => self.above_zero(most).map(Value::Number),
            ValueKind::Integer { least, most } => self.integer(least..=most).map(Value::Integer),
            ValueKind::Time { least, most } => self.duration(least..=most).map(Value::Time),
            ValueKind::Switch { on, .. } if self.is_bool() => {
                self.bool().map(|yes| if yes { Value::Time(on) } else { Value::Absent })
            }
            ValueKind::Switch { most, .. } => self.positive(most).map(Value::Time),
            ValueKind::PositiveOrWord { most, .. } if !self.is_text() => {
                self.above_zero(most).map(Value::Number)
            }
            ValueKind::Word(words) | ValueKind::PositiveOrWord { words, .. } => {
                let word = self.word(words)?;
                // The part's own spelling has a static lifetime.
                let known = words.iter().find(|known| **known == word);
                Ok(known.map_or(Value::Absent, |word| Value::Word(word)))
            }
        }
    }

    /// A size in bytes, up to `most`.
    fn bytes(&self, most: f64) -> Result<f64> {
        match self.is_text().then(|| self.amount()).transpose()? {
            Some(Amount::Bytes(bytes)) if bytes as f64 <= most => Ok(bytes as f64),
            Some(Amount::Bytes(_)) => Err(self.error("exceeds the memory of any machine")),
            Some(Amount::Packets(_)) | None => {
                Err(self.error("expected bytes").with_help("write for instance \"600kB\""))
            }
        }
    }

    /// The error that `name` is not a valid `what`, with the nearest of the `valid` words.
    pub fn unknown<'v>(
        &self,
        what: &str,
        name: &str,
        valid: impl IntoIterator<Item = &'v str>,
    ) -> FileError {
        self.error(format!("unknown {what}")).with_help(suggest(name, valid))
    }
}

/// A value with the line of its key or item, counted from 1.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// The line.
    pub line: usize,
    /// The value.
    pub value: T,
}

/// Packets or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Packets of any size.
    Packets(u64),
    /// Bytes.
    Bytes(u64),
}

/// The place of a value or table, kept for errors that are found later.
#[derive(Debug, Clone)]
pub struct Spot {
    location: Location,
    /// Empty for the file as a whole.
    key: String,
    value: Option<String>,
}

impl Spot {
    /// An error about the key of this place, not about its value.
    pub(crate) fn key_error(&self, message: impl Display) -> FileError {
        FileError::new(self.location.clone(), message.to_string()).with_key(shorten(&self.key))
    }

    /// An error at this place.
    pub fn error(&self, message: impl Display) -> FileError {
        let mut error = FileError::new(self.location.clone(), message.to_string());
        if !self.key.is_empty() {
            error = error.with_key(&self.key);
        }
        match &self.value {
            Some(value) => error.with_value(value),
            None => error,
        }
    }
}

/// A bound in short form: `1e-12` without its zeros.
fn short(bound: f64) -> String {
    if bound != 0.0 && bound.abs() < 1e-3 { format!("{bound:e}") } else { bound.to_string() }
}

/// Bytes of a TOML string as it is written before the byte `at` of its value: its quotes, and the
/// characters of its escapes.
fn written_before(written: &str, at: usize) -> usize {
    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| written.starts_with(quote));
    let mut start = quote.map_or(0, str::len);
    if start == 3 && written[3..].starts_with('\n') {
        start += 1; // Not part of the value (TOML 1.0, string).
    }
    let escapes = quote.is_some_and(|quote| quote.starts_with('"'));
    let (mut value, mut chars) = (0, written[start..].char_indices());
    while let Some((index, c)) = chars.next() {
        if value >= at {
            return start + index;
        }
        value += match c {
            '\\' if escapes => match chars.next().map(|(_, escaped)| escaped) {
                Some(kind @ ('u' | 'U')) => {
                    let digits = if kind == 'u' { 4 } else { 8 };
                    let hex: String = chars.by_ref().take(digits).map(|(_, digit)| digit).collect();
                    u32::from_str_radix(&hex, 16)
                        .ok()
                        .and_then(char::from_u32)
                        .map_or(1, char::len_utf8)
                }
                _ => 1,
            },
            c => c.len_utf8(),
        };
    }
    written.len()
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
