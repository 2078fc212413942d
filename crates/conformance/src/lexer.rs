//! The words of packetdrill's language (syntax.md of packetdrill, which follows its lexer).

use super::{Fault, Place, Subject};

/// A word.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// A name, or a number with letters (`1a2b`).
    Word(String),
    Integer(i64),
    /// A number with a point, as it stands.
    Decimal(String),
    Text(String),
    /// Shell commands between backticks.
    Command(String),
    /// Code between `%{` and `}%`.
    Code(String),
    /// `--name=value`: the value goes to the end of the line.
    Option(String, String),
    Ellipsis,
    Symbol(char),
}

impl Token {
    /// The word as messages show it.
    pub(super) fn shown(&self) -> String {
        match self {
            Token::Word(word) | Token::Decimal(word) => format!("`{}`", clipped(word)),
            Token::Integer(number) => format!("`{number}`"),
            Token::Text(text) => format!("the text \"{}\"", clipped(text)),
            Token::Command(_) => "a command".to_owned(),
            Token::Code(_) => "code".to_owned(),
            Token::Option(name, _) => format!("`--{}`", clipped(name)),
            Token::Ellipsis => "`...`".to_owned(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
        }
    }
}

/// The beginning of a word of any length.
pub(super) fn clipped(word: &str) -> String {
    match word.char_indices().nth(40) {
        Some((at, _)) => format!("{}...", &word[..at]),
        None => word.to_owned(),
    }
}

/// The rest of a text, and its place.
struct Reader<'a> {
    rest: &'a str,
    place: Place,
}

impl<'a> Reader<'a> {
    /// Takes the next `bytes`, at the border of a character.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        for symbol in taken.chars() {
            match symbol {
                '\n' => self.place = Place { line: self.place.line + 1, column: 1 },
                _ => self.place.column += 1,
            }
        }
        taken
    }

    /// Takes everything up to `end`, and `end`, which the result lacks.
    fn until(&mut self, begin: &str, end: &str, what: &str) -> Result<&'a str, Fault> {
        let place = self.place;
        self.take(begin.len());
        let Some(at) = self.rest.find(end) else {
            return Err(Fault::new(place, Subject::Syntax, format!("{what} has no end `{end}`")));
        };
        let taken = self.take(at);
        self.take(end.len());
        Ok(taken)
    }

    fn length(&self, of: impl Fn(char) -> bool) -> usize {
        self.rest.find(|symbol| !of(symbol)).unwrap_or(self.rest.len())
    }
}

/// The words of `text`, each with its place.
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Place)>, Fault> {
    let mut reader = Reader { rest: text, place: Place::START };
    let mut tokens = Vec::new();
    loop {
        reader.take(reader.length(char::is_whitespace));
        let place = reader.place;
        let rest = reader.rest;
        let Some(first) = rest.chars().next() else { return Ok(tokens) };
        let token = if rest.starts_with("//") {
            reader.take(rest.find('\n').unwrap_or(rest.len()));
            continue;
        } else if rest.starts_with("/*") {
            reader.until("/*", "*/", "the comment")?;
            continue;
        } else if rest.starts_with("%{") {
            Token::Code(reader.until("%{", "}%", "the code")?.to_owned())
        } else if first == '`' {
            Token::Command(reader.until("`", "`", "the command")?.to_owned())
        } else if first == '"' {
            Token::Text(reader.until("\"", "\"", "the text")?.to_owned())
        } else if rest.starts_with("...") {
            reader.take(3);
            Token::Ellipsis
        } else if let Some(name) = rest.strip_prefix("--")
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
        {
            reader.take(2);
            let length = reader.length(|c| c.is_ascii_alphanumeric() || c == '_');
            let name = reader.take(length).to_owned();
            let line = reader.take(reader.length(|c| c != '\n'));
            let value = line.split(" //").next().unwrap_or_default();
            let value = value.trim_start_matches(' ').strip_prefix('=').unwrap_or_default();
            Token::Option(name, value.trim().trim_matches('"').to_owned())
        } else {
            word(&mut reader, place)?
        };
        tokens.push((token, place));
    }
}

/// A number, a name or a single symbol.
fn word(reader: &mut Reader<'_>, place: Place) -> Result<Token, Fault> {
    let rest = reader.rest;
    let sign = usize::from(rest.starts_with('-'));
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let whole = digits(&rest[sign..]);
    let point = sign + whole;
    if rest[point..].starts_with('.') {
        let fraction = digits(&rest[point + 1..]);
        if fraction > 0 {
            return Ok(Token::Decimal(reader.take(point + 1 + fraction).to_owned()));
        }
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = reader.length(is_name);
    let too_large = || Fault::new(place, Subject::Syntax, "the number is too large");
    if let Some(hex) = rest[..name].strip_prefix("0x") {
        let number = i64::from_str_radix(hex, 16);
        reader.take(name);
        return number.map(Token::Integer).map_err(|_| too_large());
    }
    if whole > 0 && point >= name {
        let number = reader.take(point).parse();
        return number.map(Token::Integer).map_err(|_| too_large());
    }
    if name > 0 {
        return Ok(Token::Word(reader.take(name).to_owned()));
    }
    let first = rest.chars().next().unwrap_or(' ');
    reader.take(first.len_utf8());
    Ok(Token::Symbol(first))
}
