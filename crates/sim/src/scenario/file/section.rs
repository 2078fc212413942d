//! Typed reading of values, with errors that name place, key and value.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;

use windward_core::protocols::Protocol;
use windward_core::units::{Duration, ParseUnitError, Probability, Rate, parse_bytes};

use super::error::{Place, ScenarioError};
use super::link::Traces;
use super::tree::{Node, Origin, Table, Value};
use crate::scenario::MAX_DURATION;
use crate::stack::Stacks;

/// A day: longer than any delay between two hosts.
pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// What nearly every reader returns.
pub(super) type Result<T> = std::result::Result<T, ScenarioError>;

/// What a file is read with beside its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    /// The trace files read so far.
    pub(super) traces: &'a Traces,
    /// The stacks that it may name.
    pub(super) stacks: &'a Stacks,
    /// Protocols that it may name beside the rows of the table.
    pub(super) protocols: &'a [Protocol],
}

/// A table of the file, with the dotted key that leads to it.
#[derive(Debug, Clone)]
pub(super) struct Section<'a> {
    file: &'a str,
    given: Given<'a>,
    path: String,
    origin: &'a Origin,
    table: &'a Table,
}

/// A value of the file, with the dotted key that leads to it.
#[derive(Debug, Clone)]
pub(super) struct Field<'a> {
    file: &'a str,
    given: Given<'a>,
    path: String,
    node: &'a Node,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(file: &'a str, table: &'a Table, given: Given<'a>) -> Self {
        const FIRST: &Origin = &Origin::Line(1);
        Section { file, given, path: String::new(), origin: FIRST, table }
    }

    /// The same table under the name people know it by.
    pub(super) fn named(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    pub(super) fn get(&self, key: &str) -> Option<Field<'a>> {
        let path = || join(&self.path, key);
        let Self { file, given, .. } = *self;
        self.table.get(key).map(|node| Field { file, given, path: path(), node })
    }

    /// The keys that are there.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.table.entries.iter().map(|(key, _)| key.as_str())
    }

    /// The table under `key`, if there is one.
    pub(super) fn table(&self, key: &str) -> Option<Section<'a>> {
        self.get(key)?.section().ok()
    }

    /// The value of `key`, if it is there, as `read` reads it.
    pub(super) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(Field<'a>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.get(key).map(read).transpose()
    }

    /// [`Section::read`] for a key that has no default.
    pub(super) fn require<T>(
        &self,
        key: &str,
        example: &str,
        read: impl FnOnce(Field<'a>) -> Result<T>,
    ) -> Result<T> {
        match self.get(key) {
            Some(field) => read(field),
            None => Err(self.missing(key, example)),
        }
    }

    /// `key` is not there and has no default.
    pub(super) fn missing(&self, key: &str, example: &str) -> ScenarioError {
        self.error(format!("`{key}` is missing"))
            .with_help(format!("write for instance `{example}`"))
    }

    /// An error about the table as a whole.
    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        self.spot().error(message)
    }

    /// Errors if one of `keys` is there.
    pub(super) fn forbid(&self, keys: &[&str], why: &str) -> Result<()> {
        match keys.iter().find_map(|key| self.get(key)) {
            Some(field) => Err(field.error(why)),
            None => Ok(()),
        }
    }

    pub(super) fn spot(&self) -> Spot {
        Spot { place: self.origin.place(self.file), key: self.path.clone(), value: None }
    }
}

impl<'a> Field<'a> {
    /// An error about this value.
    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        self.spot().error(message)
    }

    pub(super) fn spot(&self) -> Spot {
        Spot {
            place: self.node.origin.place(self.file),
            key: self.path.clone(),
            value: Some(self.node.value.to_string()),
        }
    }

    fn expected(&self, what: &str) -> ScenarioError {
        let found = self.node.value.describe();
        self.error(format!("expected {what}, found {found}"))
    }

    fn unit(&self, error: &ParseUnitError) -> ScenarioError {
        self.error(error.reason()).with_help(error.expected())
    }

    /// The traces read so far.
    pub(super) fn traces(&self) -> &'a Traces {
        self.given.traces
    }

    /// Protocols that the file may name beside the rows of the table.
    pub(super) fn protocols(&self) -> &'a [Protocol] {
        self.given.protocols
    }

    /// The stacks that the file may name.
    pub(super) fn stacks(&self) -> &'a Stacks {
        self.given.stacks
    }

    /// The folder of the file, in which the paths of its values begin.
    pub(super) fn folder(&self) -> &'a Path {
        Path::new(self.file).parent().unwrap_or(Path::new(""))
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.node.value, Value::Table(_))
    }
    pub(super) fn is_array(&self) -> bool {
        matches!(self.node.value, Value::Array(_))
    }
    pub(super) fn is_text(&self) -> bool {
        matches!(self.node.value, Value::Text(_))
    }
    pub(super) fn is_bool(&self) -> bool {
        matches!(self.node.value, Value::Bool(_))
    }

    pub(super) fn section(self) -> Result<Section<'a>> {
        match &self.node.value {
            Value::Table(table) => {
                let Self { file, given, path, node } = self;
                Ok(Section { file, given, path, origin: &node.origin, table })
            }
            _ => Err(self.expected("a table")),
        }
    }

    /// The elements of an array, as `key[0]`, `key[1]` and so on.
    pub(super) fn items(self) -> Result<Vec<Field<'a>>> {
        let Value::Array(items) = &self.node.value else {
            return Err(self.expected("an array"));
        };
        let item = |(index, node)| Field {
            file: self.file,
            given: self.given,
            path: format!("{}[{index}]", self.path),
            node,
        };
        Ok(items.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(self) -> Result<&'a str> {
        match &self.node.value {
            Value::Text(text) => Ok(text),
            _ => Err(self.expected("a string")),
        }
    }

    /// A name that results, dotted keys and file names can carry.
    pub(super) fn name(self) -> Result<&'a str> {
        let name = self.clone().text()?;
        let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || name.len() > 64 || !name.chars().all(good) {
            return Err(self.error("a name has 1 to 64 letters from a to z, digits, `-` or `_`"));
        }
        Ok(name)
    }

    /// A name that only results carry: anything printable.
    pub(super) fn label(self) -> Result<&'a str> {
        let label = self.clone().text()?;
        let good = |c: char| !c.is_control() && c != ',' && c != '"';
        if label.trim().is_empty() || label.len() > 64 || !label.chars().all(good) {
            return Err(self.error("a name has 1 to 64 characters, none of them `,` or a quote"));
        }
        if crate::text::is_formula(label) {
            return Err(self.error("a spreadsheet would compute it: begin it with a letter"));
        }
        Ok(label)
    }

    pub(super) fn bool(self) -> Result<bool> {
        match self.node.value {
            Value::Bool(value) => Ok(value),
            _ => Err(self.expected("true or false")),
        }
    }

    pub(super) fn integer(self, range: RangeInclusive<u64>) -> Result<u64> {
        let number = match &self.node.value {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Other(_) => None,
            Value::Float(_) => return Err(self.error("must be a whole number")),
            _ => return Err(self.expected("a whole number")),
        };
        number.filter(|number| range.contains(number)).ok_or_else(|| {
            let (from, to) = range.into_inner();
            self.error(format!("must lie between {from} and {to}"))
        })
    }

    /// [`Field::integer`] in 32 bits.
    pub(super) fn small(self, range: RangeInclusive<u32>) -> Result<u32> {
        let number = self.integer(u64::from(*range.start())..=u64::from(*range.end()))?;
        Ok(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn float(self, range: RangeInclusive<f64>) -> Result<f64> {
        let number = match self.node.value {
            Value::Float(number) => number,
            Value::Integer(number) => number as f64,
            _ => return Err(self.expected("a number")),
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let (from, to) = range.into_inner();
        Err(self.error(format!("must lie between {} and {}", short(from), short(to))))
    }

    /// A number above zero, up to `highest`.
    pub(super) fn above_zero(self, highest: f64) -> Result<f64> {
        let number = self.clone().float(0.0..=highest)?;
        if number > 0.0 {
            Ok(number)
        } else {
            Err(self.error(format!("must be more than 0 and at most {}", short(highest))))
        }
    }

    pub(super) fn probability(self) -> Result<Probability> {
        let number = match &self.node.value {
            Value::Float(number) => *number,
            Value::Integer(number) => *number as f64,
            Value::Text(text) => return text.parse().map_err(|error| self.unit(&error)),
            _ => return Err(self.expected("a probability")),
        };
        Probability::new(number).ok_or_else(|| self.error(Probability::refusal(number)))
    }

    pub(super) fn rate(self) -> Result<Rate> {
        const HIGHEST_BPS: u64 = 100_000_000_000_000;
        let rate: Rate = match &self.node.value {
            Value::Text(text) => text.parse().map_err(|error| self.unit(&error))?,
            Value::Integer(_) | Value::Float(_) => {
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
    pub(super) fn duration(self, range: RangeInclusive<Duration>) -> Result<Duration> {
        let duration = match &self.node.value {
            Value::Text(text) => text.parse().map_err(|error| self.unit(&error))?,
            Value::Integer(0) => Duration::ZERO,
            Value::Integer(_) | Value::Float(_) => {
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

    /// An instant of the run or, harmlessly, after it.
    pub(super) fn instant(self) -> Result<Duration> {
        self.duration(Duration::ZERO..=MAX_DURATION)
    }

    /// A time longer than none.
    pub(super) fn positive(self, longest: Duration) -> Result<Duration> {
        self.duration(Duration::from_ps(1)..=longest)
    }

    /// Packets (`50p`) or bytes (`64kB`), at least one.
    pub(super) fn amount(self) -> Result<Amount> {
        let Value::Text(text) = &self.node.value else {
            return Err(self
                .error("packets or bytes?")
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
    pub(super) fn word(self, valid: &[&str]) -> Result<&'a str> {
        let word = self.clone().text()?;
        if valid.contains(&word) {
            return Ok(word);
        }
        Err(self.unknown("word", word, valid.iter().copied()))
    }

    /// One of several words, by what it means.
    pub(super) fn one_of<T: Copy>(self, meanings: &[(&str, T)]) -> Result<T> {
        let word = self.clone().text()?;
        match meanings.iter().find(|(known, _)| *known == word) {
            Some((_, meaning)) => Ok(*meaning),
            None => Err(self.unknown("word", word, meanings.iter().map(|(known, _)| *known))),
        }
    }

    /// This value is a name of a `what` that does not exist.
    pub(super) fn unknown<'v>(
        &self,
        what: &str,
        name: &str,
        valid: impl IntoIterator<Item = &'v str>,
    ) -> ScenarioError {
        self.error(format!("unknown {what}")).with_help(super::error::suggest(name, valid))
    }
}

/// Packets or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    Packets(u64),
    Bytes(u64),
}

/// A place errors can point to when the field itself is out of reach.
#[derive(Debug, Clone)]
pub(super) struct Spot {
    place: Place,
    /// Empty for the file as a whole.
    key: String,
    value: Option<String>,
}

impl Spot {
    pub(super) fn error(&self, message: impl Display) -> ScenarioError {
        let mut error = ScenarioError::new(self.place.clone(), message.to_string());
        if !self.key.is_empty() {
            error = error.with_key(&self.key);
        }
        match &self.value {
            Some(value) => error.with_value(value),
            None => error,
        }
    }
}

/// A bound as people write it: `1e-12` rather than its zeros.
fn short(bound: f64) -> String {
    if bound != 0.0 && bound.abs() < 1e-3 { format!("{bound:e}") } else { bound.to_string() }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
