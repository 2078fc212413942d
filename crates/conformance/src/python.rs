//! The code between `%{` and `}%`: assertions about a sender, in a small part of Python.
//!
//! Statements are `assert`, assignments (`=`, `+=`, `-=`), `print`, which is ignored, a text, which
//! says what the assertions behind it require, and `departs("ROW", "why")` for a row that is known
//! not to meet them. Expressions have numbers, names, `and`, `or`, `not`, comparisons (also
//! chained), `+ - * / // % & |`, `abs`, `int`, `min` and `max`. A name with a text in parentheses is
//! its value at another moment. What stands behind the comma of an assertion is its message, and
//! ignored.

use std::collections::BTreeMap;

use super::lexer::clipped;
use super::{Fault, Place, Subject};

/// Values of names.
pub(super) type Names = BTreeMap<String, f64>;

/// The value of a name, as far as the sender has one.
pub(super) enum Value {
    Is(f64),
    /// The endpoint does not report it.
    NotTold,
    /// The moment does not come, with the reason.
    Never(String),
}

/// Gives the value of a name, at the moment of the code or at another; `None` for an unknown name.
pub(super) type Values<'a> = dyn Fn(&str, Option<&str>) -> Result<Option<Value>, String> + 'a;

/// An assertion with its result.
#[derive(Debug, Clone)]
pub(super) struct Assertion {
    pub(super) place: Place,
    /// The line.
    pub(super) text: String,
    /// `None` if the endpoint does not report one of its values.
    pub(super) holds: Option<bool>,
    /// Its names with their values.
    pub(super) seen: String,
    /// Its requirement, in the words of the source.
    pub(super) says: String,
    /// Rows that are known to depart from it, each with the reason.
    pub(super) departs: Vec<(String, String)>,
}

/// The depth of nested expressions.
const DEEPEST: usize = 64;

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Number(f64),
    Name(String),
    Text(String),
    Symbol(&'static str),
}

const SYMBOLS: [&str; 24] = [
    "==", "!=", "<=", ">=", "//", "+=", "-=", "<", ">", "=", "+", "-", "*", "/", "%", "&", "|",
    "(", ")", ",", ";", "[", "]", ".",
];

/// Binary operators, the weakest first. `not` stands before comparisons.
const LEVELS: [&[&str]; 6] = [
    &["or"],
    &["and"],
    &["==", "!=", "<", "<=", ">", ">="],
    &["&", "|"],
    &["+", "-"],
    &["*", "/", "//", "%"],
];
const COMPARISONS: usize = 2;

/// Runs `code`, whose first character stands at `place`. `names` has the names that code assigned.
/// `judge` takes each assertion, and ends the code with an error.
///
/// # Errors
/// That of `judge`, and code that is not understood.
pub(super) fn run(
    code: &str,
    place: Place,
    names: &mut Names,
    values: &Values<'_>,
    judge: &mut dyn FnMut(Assertion) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut block = Block::default();
    let mut statement = String::new();
    let mut first = None;
    let mut open = 0;
    let mut lines = code.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let (bare, opened) = without_comment(line);
        let here = Place {
            line: place.line + at,
            column: if at == 0 { place.column } else { 1 + indentation(line) },
        };
        let begin = *first.get_or_insert(here);
        statement.push_str(bare);
        open += opened;
        let continues = bare.trim_end().ends_with('\\');
        if continues {
            let kept = statement.trim_end().len() - 1;
            statement.truncate(kept);
        }
        if (open > 0 || continues) && lines.peek().is_some() {
            statement.push(' ');
            continue;
        }
        let words = words(&statement, begin)?;
        for words in words.split(|word| *word == Word::Symbol(";")) {
            let mut run =
                Run { words, at: 0, place: begin, names, values, depth: 0, looked: Vec::new() };
            if let Some(assertion) = run.statement(statement.trim(), &mut block)? {
                judge(assertion)?;
            }
        }
        statement.clear();
        first = None;
        open = 0;
    }
    Ok(())
}

/// Remarks of the code on the assertions that follow.
#[derive(Default)]
struct Block {
    says: String,
    departs: Vec<(String, String)>,
}

fn indentation(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

/// The line without its comment, and the number of parentheses that it leaves open.
fn without_comment(line: &str) -> (&str, i64) {
    let mut quote = None;
    let mut open = 0;
    for (at, symbol) in line.char_indices() {
        match (quote, symbol) {
            (None, '#') => return (&line[..at], open),
            (None, '\'' | '"') => quote = Some(symbol),
            (None, '(') => open += 1,
            (None, ')') => open -= 1,
            (Some(begin), _) if symbol == begin => quote = None,
            _ => {}
        }
    }
    (line, open)
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
            words.push(Word::Text(rest[1..=end].to_owned()));
        } else if first.is_ascii_digit()
            || first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
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

struct Run<'a> {
    words: &'a [Word],
    at: usize,
    place: Place,
    names: &'a mut Names,
    values: &'a Values<'a>,
    depth: usize,
    /// The names of the expression, each with its value.
    looked: Vec<(String, Value)>,
}

impl Run<'_> {
    fn fault(&self, subject: Subject, message: impl Into<String>) -> Fault {
        Fault::new(self.place, subject, message)
    }

    /// Takes the next word if it is one of these.
    fn takes(&mut self, among: &[&'static str]) -> Option<&'static str> {
        let word = match self.words.get(self.at)? {
            Word::Symbol(symbol) => symbol,
            Word::Name(name) => name.as_str(),
            _ => return None,
        };
        let taken = among.iter().find(|known| **known == word).copied();
        self.at += usize::from(taken.is_some());
        taken
    }

    fn must(&mut self, symbol: &'static str) -> Result<(), Fault> {
        let expected = || self.fault(Subject::Syntax, format!("expected `{symbol}` in the code"));
        let expected = expected();
        self.takes(&[symbol]).map(drop).ok_or(expected)
    }

    /// Runs one statement, which may be an assertion. `text` is the line for messages.
    fn statement(&mut self, text: &str, block: &mut Block) -> Result<Option<Assertion>, Fault> {
        match self.words {
            [] => Ok(None),
            [Word::Text(says)] => {
                let space = if block.says.is_empty() { "" } else { " " };
                block.says += &format!("{space}{says}");
                Ok(None)
            }
            [Word::Name(name), Word::Symbol("("), ..] if name == "print" => Ok(None),
            [
                Word::Name(name),
                Word::Symbol("("),
                Word::Text(row),
                Word::Symbol(","),
                Word::Text(why),
                Word::Symbol(")"),
            ] if name == "departs" => {
                block.departs.push((row.clone(), why.clone()));
                Ok(None)
            }
            [Word::Name(name), ..] if name == "assert" => {
                self.at = 1;
                self.assertion(text, block).map(Some)
            }
            [Word::Name(name), Word::Symbol(sign @ ("=" | "+=" | "-=")), ..] => {
                self.at = 2;
                let looked = self.looked.len();
                let value = self.level(0)?;
                self.ends(&[])?;
                if self.looked[looked..].iter().any(|(_, seen)| !matches!(seen, Value::Is(_))) {
                    let message = format!("`{}` has no value here", clipped_line(text));
                    return Err(self.fault(Subject::Unmodelled, message));
                }
                let before = if *sign == "=" { 0.0 } else { self.known(name, None)? };
                let value = if *sign == "-=" { before - value } else { before + value };
                self.names.insert(name.clone(), value);
                Ok(None)
            }
            _ => {
                let message = format!(
                    "`{}` is not understood: code has assertions, assignments and `print`",
                    clipped_line(text)
                );
                Err(self.fault(Subject::Unmodelled, message))
            }
        }
    }

    fn assertion(&mut self, text: &str, block: &Block) -> Result<Assertion, Fault> {
        let value = self.level(0)?;
        self.ends(&[","])?;
        let mut holds = Some(value != 0.0);
        let mut seen: Vec<String> = Vec::new();
        for (name, value) in &self.looked {
            let shown = match value {
                Value::Is(value) => format!("{name} = {}", shown(*value)),
                Value::NotTold => format!("{name} is not reported"),
                Value::Never(why) => why.clone(),
            };
            if !seen.contains(&shown) {
                seen.push(shown);
            }
        }
        if self.looked.iter().any(|(_, value)| matches!(value, Value::NotTold)) {
            holds = None;
        }
        if self.looked.iter().any(|(_, value)| matches!(value, Value::Never(_))) {
            holds = Some(false);
        }
        Ok(Assertion {
            place: self.place,
            text: clipped_line(text),
            holds,
            seen: seen.join(", "),
            says: block.says.clone(),
            departs: block.departs.clone(),
        })
    }

    fn ends(&self, allowed: &[&str]) -> Result<(), Fault> {
        match self.words.get(self.at) {
            None => Ok(()),
            Some(Word::Symbol(symbol)) if allowed.contains(symbol) => Ok(()),
            Some(_) => Err(self.fault(Subject::Syntax, "the expression goes on where it must end")),
        }
    }

    fn known(&mut self, name: &str, moment: Option<&str>) -> Result<f64, Fault> {
        if let (Some(value), None) = (self.names.get(name), moment) {
            self.looked.push((name.to_owned(), Value::Is(*value)));
            return Ok(*value);
        }
        let value = (self.values)(name, moment)
            .map_err(|message| self.fault(Subject::Syntax, message))?
            .ok_or_else(|| {
                let (subject, what) = match name.starts_with("tcpi_") {
                    true => (Subject::Unmodelled, "is not known of the sender"),
                    false => (Subject::Syntax, "is not defined"),
                };
                self.fault(subject, format!("`{}` {what}", clipped(name)))
            })?;
        let number = if let Value::Is(number) = value { number } else { f64::NAN };
        // Names of constants explain themselves.
        if !name.starts_with(|c: char| c.is_ascii_uppercase()) && name != "inf" {
            let moment = moment.map_or_else(String::new, |moment| format!("(\"{moment}\")"));
            self.looked.push((format!("{name}{moment}"), value));
        }
        Ok(number)
    }

    /// Evaluates operators of a level and of those that bind tighter.
    fn level(&mut self, level: usize) -> Result<f64, Fault> {
        let Some(operators) = LEVELS.get(level) else { return self.signed() };
        let mut inversions = 0_usize;
        while level == COMPARISONS && self.takes(&["not"]).is_some() {
            inversions += 1;
        }
        let mut value = self.level(level + 1)?;
        let mut left = value;
        let mut holds = true;
        while let Some(operator) = self.takes(operators) {
            let right = self.level(level + 1)?;
            value = if level == COMPARISONS {
                holds &= compared(operator, left, right);
                left = right;
                f64::from(u8::from(holds))
            } else {
                self.applied(operator, value, right)?
            };
        }
        match inversions {
            0 => Ok(value),
            _ => Ok(f64::from(u8::from((value != 0.0) == inversions.is_multiple_of(2)))),
        }
    }

    fn applied(&self, operator: &str, left: f64, right: f64) -> Result<f64, Fault> {
        if matches!(operator, "/" | "//" | "%") && right == 0.0 {
            return Err(self.fault(Subject::Syntax, "the code divides by zero"));
        }
        Ok(match operator {
            "or" => {
                if left == 0.0 {
                    right
                } else {
                    left
                }
            }
            "and" => {
                if left == 0.0 {
                    left
                } else {
                    right
                }
            }
            "+" => left + right,
            "-" => left - right,
            "*" => left * right,
            "/" => left / right,
            "//" => (left / right).floor(),
            "%" => left - right * (left / right).floor(),
            _ => {
                let (Some(a), Some(b)) = (bits(left), bits(right)) else {
                    let message = format!("`{operator}` needs whole numbers");
                    return Err(self.fault(Subject::Syntax, message));
                };
                (if operator == "&" { a & b } else { a | b }) as f64
            }
        })
    }

    fn signed(&mut self) -> Result<f64, Fault> {
        let mut sign = 1.0;
        while let Some(symbol) = self.takes(&["+", "-"]) {
            sign = if symbol == "-" { -sign } else { sign };
        }
        Ok(sign * self.atom()?)
    }

    fn atom(&mut self) -> Result<f64, Fault> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        match word {
            Some(Word::Number(number)) => Ok(number),
            Some(Word::Symbol("(")) => self.nested(|run| {
                let value = run.level(0)?;
                run.must(")")?;
                Ok(value)
            }),
            Some(Word::Name(name)) if self.takes(&["("]).is_some() => {
                self.nested(|run| run.function(&name))
            }
            Some(Word::Name(name)) => match name.as_str() {
                "True" => Ok(1.0),
                "False" => Ok(0.0),
                _ => self.known(&name, None),
            },
            _ => Err(self.fault(Subject::Syntax, "expected a number or a name in the code")),
        }
    }

    fn nested(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<f64, Fault>,
    ) -> Result<f64, Fault> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.fault(Subject::Syntax, "the expression is nested too deeply"));
        }
        let value = inside(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// The value of a function, or of a name at another moment.
    fn function(&mut self, name: &str) -> Result<f64, Fault> {
        if let Some(Word::Text(moment)) = self.words.get(self.at) {
            self.at += 1;
            self.must(")")?;
            return self.known(name, Some(moment));
        }
        let mut values = vec![self.level(0)?];
        while self.takes(&[","]).is_some() {
            values.push(self.level(0)?);
        }
        self.must(")")?;
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
}

fn compared(operator: &str, left: f64, right: f64) -> bool {
    match operator {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

/// A whole number that is exact.
fn bits(value: f64) -> Option<i64> {
    let exact = value.fract() == 0.0 && value.abs() < (1_u64 << 53) as f64;
    exact.then_some(value as i64)
}

/// A number with at most six decimals.
fn shown(value: f64) -> String {
    let text = format!("{value:.6}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn clipped_line(text: &str) -> String {
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}
