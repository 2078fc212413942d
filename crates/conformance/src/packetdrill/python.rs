//! The code between `%{` and `}%`: assertions about `tcpi_` values, in a small part of Python.
//!
//! Statements are `assert`, assignments (`=`, `+=`, `-=`) and `print`, which is ignored.
//! Expressions have numbers, names, `and`, `or`, `not`, comparisons (also chained), `+ - * / // % & |`, `abs`,
//! `min` and `max`. What stands behind the comma of an assertion is its message, and ignored.

use std::collections::BTreeMap;

use super::lexer::clipped;
use super::{Fault, Place, Subject};

/// Values of names.
pub(super) type Names = BTreeMap<String, f64>;

/// The depth of nested expressions.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Number(f64),
    Name(String),
    Text,
    Symbol(&'static str),
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "//", "+=", "-=", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|",
    "(", ")", ",", ";", "[", "]", ".",
];

/// Runs `code`, whose first character stands at `place`. `value` gives the values of `tcpi_` names
/// and constants, `names` has those that code assigned. Returns the number of assertions.
///
/// # Errors
/// An assertion that does not hold ([`Subject::Differs`]), and code that is not understood.
pub(super) fn run(
    code: &str,
    place: Place,
    names: &mut Names,
    value: &dyn Fn(&str) -> Option<f64>,
) -> Result<u64, Fault> {
    let mut assertions = 0;
    let mut statement = String::new();
    let mut first = None;
    let mut open = 0_i64;
    let lines: Vec<&str> = code.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let bare = without_comment(line);
        let here = Place {
            line: place.line + at,
            column: if at == 0 { place.column } else { 1 + indentation(line) },
        };
        let begin = *first.get_or_insert(here);
        statement.push_str(bare);
        open += count(bare, '(') - count(bare, ')');
        let continues = bare.trim_end().ends_with('\\');
        if continues {
            let kept = statement.trim_end().len() - 1;
            statement.truncate(kept);
        }
        if (open > 0 || continues) && at + 1 < lines.len() {
            statement.push(' ');
            continue;
        }
        let words = words(&statement, begin)?;
        for words in words.split(|word| *word == Word::Symbol(";")) {
            if !words.is_empty() {
                let mut run = Run { words, at: 0, place: begin, names, value, depth: 0 };
                assertions += u64::from(run.statement(statement.trim())?);
            }
        }
        statement.clear();
        first = None;
        open = 0;
    }
    Ok(assertions)
}

fn indentation(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

fn count(text: &str, symbol: char) -> i64 {
    text.matches(symbol).count() as i64
}

/// The line without its comment.
fn without_comment(line: &str) -> &str {
    let mut quote = None;
    for (at, symbol) in line.char_indices() {
        match quote {
            None if symbol == '#' => return &line[..at],
            None if symbol == '\'' || symbol == '"' => quote = Some(symbol),
            Some(begin) if symbol == begin => quote = None,
            _ => {}
        }
    }
    line
}

fn words(text: &str, place: Place) -> Result<Vec<Word>, Fault> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    let wrong = |message: String| Fault::new(place, Subject::Syntax, message);
    while let Some(first) = rest.chars().next() {
        let length;
        if first == '\'' || first == '"' {
            let Some(end) = rest[1..].find(first) else {
                return Err(wrong("the text of the code has no end".to_owned()));
            };
            length = end + 2;
            words.push(Word::Text);
        } else if first.is_ascii_digit() || first == '.' && rest[1..].starts_with(digit) {
            let name = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.');
            length = rest.find(name).unwrap_or(rest.len());
            let number = match rest[..length].strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok().map(|number| number as f64),
                None => rest[..length].parse().ok(),
            };
            let Some(number) = number.filter(|number: &f64| number.is_finite()) else {
                return Err(wrong(format!("`{}` is not a number", clipped(&rest[..length]))));
            };
            words.push(Word::Number(number));
        } else if first.is_alphabetic() || first == '_' {
            length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            words.push(Word::Name(rest[..length].to_owned()));
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            length = symbol.len();
            words.push(Word::Symbol(symbol));
        } else {
            return Err(wrong(format!("the code has `{first}`, which is not understood")));
        }
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

fn digit(symbol: char) -> bool {
    symbol.is_ascii_digit()
}

struct Run<'a> {
    words: &'a [Word],
    at: usize,
    place: Place,
    names: &'a mut Names,
    value: &'a dyn Fn(&str) -> Option<f64>,
    depth: usize,
}

impl Run<'_> {
    fn fault(&self, subject: Subject, message: impl Into<String>) -> Fault {
        Fault::new(self.place, subject, message)
    }
    fn symbol(&self) -> Option<&'static str> {
        match self.words.get(self.at) {
            Some(Word::Symbol(symbol)) => Some(symbol),
            _ => None,
        }
    }
    fn takes(&mut self, symbol: &str) -> bool {
        let is = self.symbol() == Some(symbol);
        self.at += usize::from(is);
        is
    }
    fn takes_name(&mut self, name: &str) -> bool {
        let is = matches!(self.words.get(self.at), Some(Word::Name(word)) if word == name);
        self.at += usize::from(is);
        is
    }

    /// Runs one statement; returns true if it is an assertion. `text` is the line for messages.
    fn statement(&mut self, text: &str) -> Result<bool, Fault> {
        if self.takes_name("assert") {
            let before = self.at;
            let holds = self.either()?;
            self.ends(&[","])?;
            if holds == 0.0 {
                let mut seen = Vec::new();
                for word in &self.words[before..self.at] {
                    let Word::Name(name) = word else { continue };
                    let known = self.names.get(name).copied().or_else(|| (self.value)(name));
                    if let Some(value) = known
                        && (name.starts_with("tcpi_") || self.names.contains_key(name))
                    {
                        let shown = format!("{name} = {value}");
                        if !seen.contains(&shown) {
                            seen.push(shown);
                        }
                    }
                }
                let message =
                    format!("`{}` does not hold: {}", clipped_line(text), seen.join(", "));
                return Err(self.fault(Subject::Differs, message));
            }
            return Ok(true);
        }
        if let [Word::Name(name), Word::Symbol("("), ..] = self.words
            && name == "print"
        {
            return Ok(false);
        }
        let [Word::Name(name), Word::Symbol(sign @ ("=" | "+=" | "-=")), ..] = self.words else {
            let message = format!(
                "`{}` is not understood: code has assertions, assignments and `print`",
                clipped_line(text)
            );
            return Err(self.fault(Subject::Unmodelled, message));
        };
        self.at = 2;
        let value = self.either()?;
        self.ends(&[])?;
        let before = match *sign {
            "=" => 0.0,
            _ => self.known(name)?,
        };
        let value = if *sign == "-=" { before - value } else { before + value };
        self.names.insert(name.clone(), value);
        Ok(false)
    }

    fn ends(&self, allowed: &[&str]) -> Result<(), Fault> {
        match self.words.get(self.at) {
            None => Ok(()),
            Some(Word::Symbol(symbol)) if allowed.contains(symbol) => Ok(()),
            Some(_) => Err(self.fault(Subject::Syntax, "the expression goes on where it must end")),
        }
    }

    fn known(&self, name: &str) -> Result<f64, Fault> {
        let known = self.names.get(name).copied().or_else(|| (self.value)(name));
        known.ok_or_else(|| {
            let (subject, what) = match name.starts_with("tcpi_") {
                true => (Subject::Unmodelled, "is not known of the sender"),
                false => (Subject::Syntax, "is not defined"),
            };
            self.fault(subject, format!("`{}` {what}", clipped(name)))
        })
    }

    fn either(&mut self) -> Result<f64, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fault(Subject::Syntax, "the expression is nested too deeply"));
        }
        let mut value = self.both()?;
        while self.takes_name("or") {
            let other = self.both()?;
            value = if value == 0.0 { other } else { value };
        }
        self.depth -= 1;
        Ok(value)
    }

    fn both(&mut self) -> Result<f64, Fault> {
        let mut value = self.inverted()?;
        while self.takes_name("and") {
            let other = self.inverted()?;
            value = if value == 0.0 { value } else { other };
        }
        Ok(value)
    }

    fn inverted(&mut self) -> Result<f64, Fault> {
        let mut inversions = 0_usize;
        while self.takes_name("not") {
            inversions += 1;
        }
        let value = self.compared()?;
        if inversions == 0 {
            return Ok(value);
        }
        Ok(f64::from(u8::from((value != 0.0) == inversions.is_multiple_of(2))))
    }

    fn compared(&mut self) -> Result<f64, Fault> {
        let mut left = self.joined()?;
        let mut holds = None;
        while let Some(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">=")) = self.symbol() {
            self.at += 1;
            let right = self.joined()?;
            let met = match sign {
                "==" => left == right,
                "!=" => left != right,
                "<" => left < right,
                "<=" => left <= right,
                ">" => left > right,
                _ => left >= right,
            };
            holds = Some(holds.unwrap_or(true) && met);
            left = right;
        }
        Ok(holds.map_or(left, |holds| f64::from(u8::from(holds))))
    }

    fn joined(&mut self) -> Result<f64, Fault> {
        let mut value = self.sum()?;
        while let Some(sign @ ("&" | "|")) = self.symbol() {
            self.at += 1;
            let other = self.sum()?;
            let (Some(a), Some(b)) = (bits(value), bits(other)) else {
                return Err(self.fault(Subject::Syntax, format!("`{sign}` needs whole numbers")));
            };
            value = if sign == "&" { a & b } else { a | b } as f64;
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<f64, Fault> {
        let mut value = self.product()?;
        while let Some(sign @ ("+" | "-")) = self.symbol() {
            self.at += 1;
            let other = self.product()?;
            value = if sign == "+" { value + other } else { value - other };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64, Fault> {
        let mut value = self.signed()?;
        while let Some(sign @ ("*" | "/" | "//" | "%")) = self.symbol() {
            self.at += 1;
            let other = self.signed()?;
            if sign != "*" && other == 0.0 {
                return Err(self.fault(Subject::Syntax, "the code divides by zero"));
            }
            value = match sign {
                "*" => value * other,
                "/" => value / other,
                "//" => (value / other).floor(),
                _ => value - other * (value / other).floor(),
            };
        }
        Ok(value)
    }

    fn signed(&mut self) -> Result<f64, Fault> {
        let mut sign = 1.0;
        while let Some(symbol @ ("+" | "-")) = self.symbol() {
            self.at += 1;
            sign = if symbol == "-" { -sign } else { sign };
        }
        Ok(sign * self.atom()?)
    }

    fn atom(&mut self) -> Result<f64, Fault> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        match word {
            Some(Word::Number(number)) => Ok(number),
            Some(Word::Symbol("(")) => {
                let value = self.either()?;
                self.closes()?;
                Ok(value)
            }
            Some(Word::Name(name)) if self.symbol() == Some("(") => self.function(&name),
            Some(Word::Name(name)) => match name.as_str() {
                "True" => Ok(1.0),
                "False" => Ok(0.0),
                _ => self.known(&name),
            },
            _ => Err(self.fault(Subject::Syntax, "expected a number or a name in the code")),
        }
    }

    fn function(&mut self, name: &str) -> Result<f64, Fault> {
        self.at += 1;
        let mut values = vec![self.either()?];
        while self.takes(",") {
            values.push(self.either()?);
        }
        self.closes()?;
        match (name, values.as_slice()) {
            ("abs", [value]) => Ok(value.abs()),
            ("int", [value]) => Ok(value.trunc()),
            ("min", [_, _, ..]) => Ok(values.into_iter().fold(f64::INFINITY, f64::min)),
            ("max", [_, _, ..]) => Ok(values.into_iter().fold(f64::NEG_INFINITY, f64::max)),
            _ => {
                let message = format!("`{}(...)` is not understood", clipped(name));
                Err(self.fault(Subject::Unmodelled, message))
            }
        }
    }

    fn closes(&mut self) -> Result<(), Fault> {
        match self.takes(")") {
            true => Ok(()),
            false => Err(self.fault(Subject::Syntax, "expected `)` in the code")),
        }
    }
}

/// A whole number that is exact.
fn bits(value: f64) -> Option<i64> {
    let exact = value.fract() == 0.0 && value.abs() < (1_u64 << 53) as f64;
    exact.then_some(value as i64)
}

fn clipped_line(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
