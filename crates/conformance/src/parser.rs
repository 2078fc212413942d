//! Scripts of packetdrill as events.

use std::fmt;

use windward_core::units::Duration;
use windward_sim::suggest::hint as nearest;

use super::lexer::{Token, clipped, tokens};
use super::{Fault, Place, Subject};

/// A script as it stands.
#[derive(Debug, Clone, Default)]
pub(super) struct Parsed {
    pub(super) options: Vec<Setting>,
    pub(super) events: Vec<Event>,
}

/// `--name=value`.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) place: Place,
}

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) place: Place,
    pub(super) when: When,
    pub(super) action: Action,
}

/// The time of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// `*`.
    Any,
    /// From the first instant to the second: `.1`, `.1~.2`.
    At(Duration, Duration),
    /// The same after the event before: `+.1`, `+.1~+.2`.
    After(Duration, Duration),
    /// A moment of the run, on a path whose receiver is simulated.
    Moment(Moment),
}

/// A moment of a run: `ack 13`, `before .1`, `before retransmission 1 + 1.2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// True for the state just before it, false for the state after all its consequences.
    pub(super) before: bool,
    pub(super) anchor: Anchor,
    pub(super) plus: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Instant(Duration),
    /// The n-th of its kind, from one.
    Event(Kind, u64),
}

/// Kind of events that a moment can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A data packet leaves.
    Packet,
    /// A retransmission leaves.
    Retransmission,
    /// An acknowledgment reaches the sender.
    Ack,
    /// An acknowledgment with a congestion mark reaches the sender.
    Echo,
    /// The timer of recovery expires: a retransmission timeout, or a probe timeout.
    Timeout,
    /// A data packet is lost on its way.
    Loss,
    /// cwnd becomes smaller.
    Reduction,
}

impl Kind {
    pub(super) const ALL: [(Kind, &'static str); 7] = [
        (Kind::Packet, "packet"),
        (Kind::Retransmission, "retransmission"),
        (Kind::Ack, "ack"),
        (Kind::Echo, "echo"),
        (Kind::Timeout, "timeout"),
        (Kind::Loss, "loss"),
        (Kind::Reduction, "reduction"),
    ];
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.before {
            f.write_str("before ")?;
        }
        match self.anchor {
            Anchor::Instant(at) => write!(f, "{}", at.as_secs_f64())?,
            Anchor::Event(kind, number) => write!(f, "{} {number}", Kind::ALL[kind as usize].1)?,
        }
        if self.plus.is_zero() { Ok(()) } else { write!(f, " + {}", self.plus.as_secs_f64()) }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Action {
    Packet(Segment),
    Call(Call),
    Command(String),
    Code(String),
}

/// A TCP segment.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Segment {
    /// True for one that reaches the sender under test.
    pub(super) inbound: bool,
    pub(super) ecn: Option<Ecn>,
    pub(super) flags: TcpFlags,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) ack: Option<u64>,
    pub(super) window: Option<u64>,
    /// `None` for `<...>`.
    pub(super) options: Option<Vec<TcpOption>>,
}

impl Segment {
    /// Bytes of data.
    pub(super) fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// The codepoint of the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ecn {
    NotEct,
    Ect0,
    Ect1,
    /// ECT(0) or ECT(1).
    Ect,
    Ce,
}

impl Ecn {
    const ALL: [(Ecn, &'static str); 5] = [
        (Ecn::NotEct, "noecn"),
        (Ecn::Ect0, "ect0"),
        (Ecn::Ect1, "ect1"),
        (Ecn::Ect, "ect01"),
        (Ecn::Ce, "ce"),
    ];
    pub(super) fn word(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// The flags of the TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct TcpFlags(u8);

impl TcpFlags {
    pub(super) const SYN: TcpFlags = TcpFlags(1);
    pub(super) const FIN: TcpFlags = TcpFlags(2);
    pub(super) const RST: TcpFlags = TcpFlags(4);
    pub(super) const PSH: TcpFlags = TcpFlags(8);
    pub(super) const ACK: TcpFlags = TcpFlags(16);
    /// ECE and CWR: `E` and `W`.
    pub(super) const ECE: TcpFlags = TcpFlags(32);
    pub(super) const CWR: TcpFlags = TcpFlags(64);
    const LETTERS: [(TcpFlags, char); 7] = [
        (TcpFlags::SYN, 'S'),
        (TcpFlags::FIN, 'F'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::ACK, '.'),
    ];

    pub(super) fn has(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }
    pub(super) fn with(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
    pub(super) fn without(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 & !other.0)
    }
    /// These flags as the language writes them.
    pub(super) fn shown(self) -> String {
        let letters: String =
            Self::LETTERS.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, c)| *c).collect();
        if letters.is_empty() { "-".to_owned() } else { letters }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TcpOption {
    Nop,
    End,
    Mss(u64),
    Scale(u64),
    SackOk,
    Sack(Vec<(u64, u64)>),
    Timestamp(u64, u64),
}

/// A system call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<Expression>,
    pub(super) returns: Expression,
    /// `EAGAIN` and the like.
    pub(super) error: Option<String>,
}

impl Call {
    /// An argument that is a number.
    pub(super) fn integer(&self, at: usize) -> Option<i64> {
        match self.arguments.get(at)? {
            Expression::Integer(value) => Some(*value),
            _ => None,
        }
    }

    /// An argument that is a word; empty for all others.
    pub(super) fn word(&self, at: usize) -> &str {
        match self.arguments.get(at) {
            Some(Expression::Word(word)) => word,
            _ => "",
        }
    }

    /// The number at the begin of an argument that is a list.
    pub(super) fn listed(&self, at: usize) -> Option<i64> {
        match self.arguments.get(at)? {
            Expression::List(values) => match values.first()? {
                Expression::Integer(value) => Some(*value),
                _ => None,
            },
            _ => None,
        }
    }

    /// True for a call that writes data without further conditions.
    pub(super) fn is_plain_write(&self) -> bool {
        let is_plain = match self.arguments.get(3) {
            None | Some(Expression::Integer(0) | Expression::Any) => true,
            Some(_) => self.word(3) == "MSG_NOSIGNAL",
        };
        is_plain && (self.name != "sendto" || self.arguments.len() >= 4)
    }
}

/// An argument, or what a call returns.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    /// `...`.
    Any,
    Integer(i64),
    Word(String),
    Text(String),
    List(Vec<Expression>),
    /// A structure, or words joined by `|`.
    Other,
}

/// The depth of nested arguments.
const DEEPEST: usize = 32;
/// The longest time that a script may name.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Reads a script.
pub(super) fn parse(text: &str) -> Result<Parsed, Fault> {
    let tokens = tokens(text)?;
    let lines = text.lines().count().max(1);
    let end = Place { line: lines, column: 1 };
    let mut parser = Parser { tokens, at: 0, end };
    let mut parsed = Parsed::default();
    while let Some(Token::Option(name, value)) = parser.peek() {
        parsed.options.push(Setting {
            name: name.clone(),
            value: value.clone(),
            place: parser.place(),
        });
        parser.at += 1;
    }
    // Commands without a time come before the first event and after the last one.
    if let Some(event) = parser.bare_command() {
        parsed.events.push(event);
    }
    while parser.peek().is_some() {
        match parser.bare_command() {
            Some(event) if parser.peek().is_none() => parsed.events.push(event),
            Some(event) => {
                let message = "a command between events needs a time, as in +0 `command`";
                return Err(Fault::new(event.place, Subject::Syntax, message));
            }
            None => parsed.events.push(parser.event()?),
        }
    }
    Ok(parsed)
}

/// Reads a moment that code names.
pub(super) fn moment(text: &str) -> Result<Moment, Fault> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, end: Place::START };
    let moment = parser.moment()?;
    match parser.peek() {
        None => Ok(moment),
        Some(_) => Err(parser.expected("the end of the moment")),
    }
}

struct Parser {
    tokens: Vec<(Token, Place)>,
    at: usize,
    end: Place,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }
    fn place(&self) -> Place {
        self.tokens.get(self.at).map_or(self.end, |(_, place)| *place)
    }
    fn next(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }
    /// An error at the present word.
    fn expected(&self, what: &str) -> Fault {
        let seen = self.peek().map_or_else(|| "the end of the script".to_owned(), Token::shown);
        Fault::new(self.place(), Subject::Syntax, format!("expected {what}, found {seen}"))
    }
    fn no(&self, subject: Subject, what: impl Into<String>) -> Fault {
        Fault::new(self.place(), subject, what)
    }
    fn is(&self, symbol: char) -> bool {
        self.peek() == Some(&Token::Symbol(symbol))
    }
    fn takes(&mut self, symbol: char) -> bool {
        let is = self.is(symbol);
        self.at += usize::from(is);
        is
    }
    fn must(&mut self, symbol: char) -> Result<(), Fault> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(&format!("`{symbol}`"))) }
    }
    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Some(Token::Word(name)) if name == word);
        self.at += usize::from(is);
        is
    }
    fn number(&mut self, what: &str) -> Result<u64, Fault> {
        match self.peek() {
            Some(Token::Integer(number)) if *number >= 0 => {
                let number = number.unsigned_abs();
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.expected(what)),
        }
    }

    fn bare_command(&mut self) -> Option<Event> {
        let place = self.place();
        let Some(Token::Command(command)) = self.peek() else { return None };
        let action = Action::Command(command.clone());
        self.at += 1;
        Some(Event { place, when: When::After(Duration::ZERO, Duration::ZERO), action })
    }

    fn event(&mut self) -> Result<Event, Fault> {
        let place = self.place();
        let when = self.when()?;
        // Code has lines of its own, which count from where it begins.
        let is_code = matches!(self.peek(), Some(Token::Code(_)));
        let place = if is_code { self.place() } else { place };
        let action = match self.peek() {
            Some(Token::Symbol('<' | '>')) => Action::Packet(self.segment()?),
            Some(Token::Command(_) | Token::Code(_)) => match self.next() {
                Some(Token::Command(text)) => Action::Command(text),
                Some(Token::Code(text)) => Action::Code(text),
                _ => return Err(self.expected("a command or code")),
            },
            _ => Action::Call(self.call()?),
        };
        Ok(Event { place, when, action })
    }

    fn when(&mut self) -> Result<When, Fault> {
        if self.takes('*') {
            return Ok(When::Any);
        }
        if matches!(self.peek(), Some(Token::Word(_))) {
            return self.moment().map(When::Moment);
        }
        let relative = self.takes('+');
        let from = self.time()?;
        let mut until = from;
        if self.takes('~') {
            if relative {
                self.must('+')?;
            }
            until = self.time()?;
            if until < from {
                return Err(self.no(Subject::Syntax, "the range of times ends before it begins"));
            }
        }
        Ok(if relative { When::After(from, until) } else { When::At(from, until) })
    }

    fn moment(&mut self) -> Result<Moment, Fault> {
        let before = self.takes_word("before");
        let anchor = match self.peek() {
            Some(Token::Word(word)) => {
                let Some((kind, _)) = Kind::ALL.into_iter().find(|(_, known)| known == word) else {
                    let hint = nearest(word, Kind::ALL.map(|(_, known)| known));
                    return Err(self.expected(&format!("a time or an event with a number{hint}")));
                };
                self.at += 1;
                match self.number("the number of the event")? {
                    0 => return Err(self.no(Subject::Syntax, "events are counted from one")),
                    number => Anchor::Event(kind, number),
                }
            }
            _ => Anchor::Instant(self.time()?),
        };
        let plus = if self.takes('+') { self.time()? } else { Duration::ZERO };
        Ok(Moment { before, anchor, plus })
    }

    /// A time in seconds, in whole microseconds.
    fn time(&mut self) -> Result<Duration, Fault> {
        let seconds: f64 = match self.peek() {
            Some(Token::Integer(seconds)) => *seconds as f64,
            Some(Token::Decimal(text)) => text.parse().unwrap_or(f64::NAN),
            _ => {
                return Err(
                    self.expected("the time of an event, as in `+.1`, `0.5`, `+.1~+.2` or `*`")
                );
            }
        };
        if !(0.0..=LONGEST.as_secs_f64()).contains(&seconds) {
            return Err(self.no(Subject::Syntax, "a time is 0 to 86400 seconds"));
        }
        self.at += 1;
        Ok(Duration::from_micros((seconds * 1e6).round() as u64))
    }

    fn segment(&mut self) -> Result<Segment, Fault> {
        let inbound = self.takes('<');
        if !inbound {
            self.must('>')?;
        }
        let ecn = self.ip_info()?;
        if let Some(Token::Word(word)) = self.peek()
            && ["ipv4", "ipv6", "gre", "mpls", "udp", "icmp", "psp"].contains(&word.as_str())
        {
            let what = format!("packets of {word}: only TCP segments are read");
            return Err(self.no(Subject::Sockets, what));
        }
        if let Some(Token::Integer(_)) = self.peek() {
            return Err(self.no(Subject::Sockets, "port numbers: a script has one connection"));
        }
        let flags = self.flags()?;
        let start = self.number("the first sequence number")?;
        self.must(':')?;
        let end = self.number("the sequence number behind the segment")?;
        let place = self.place();
        self.must('(')?;
        let length = self.number("the length of the segment")?;
        self.must(')')?;
        if end.checked_sub(start) != Some(length) {
            let message = format!("{start}:{end} is not a segment of {length} bytes");
            return Err(Fault::new(place, Subject::Syntax, message));
        }
        if end > u64::from(u32::MAX) {
            return Err(Fault::new(place, Subject::Syntax, "a sequence number has 32 bits"));
        }
        let ack = match self.takes_word("ack") {
            true => Some(self.number("the number that is acknowledged")?),
            false => None,
        };
        let window = match self.takes_word("win") {
            true => Some(self.number("the receiver's window")?),
            false => None,
        };
        if self.takes_word("urg") {
            return Err(self.no(Subject::Sockets, "the urgent pointer"));
        }
        let options = self.options()?;
        Ok(Segment { inbound, ecn, flags, start, end, ack, window, options })
    }

    fn ip_info(&mut self) -> Result<Option<Ecn>, Fault> {
        let close = match self.peek() {
            Some(Token::Symbol('[')) => ']',
            Some(Token::Symbol('(')) => ')',
            _ => return Ok(None),
        };
        self.at += 1;
        let word = match self.peek() {
            Some(Token::Word(word)) => word.clone(),
            _ => return Err(self.expected("an ECN codepoint, as in [ect0]")),
        };
        let Some((ecn, _)) = Ecn::ALL.into_iter().find(|(_, name)| *name == word) else {
            let what = format!("`{}` of the IP header", clipped(&word));
            return Err(self.no(Subject::Sockets, what));
        };
        self.at += 1;
        self.must(close)?;
        Ok(Some(ecn))
    }

    fn flags(&mut self) -> Result<TcpFlags, Fault> {
        let mut flags = TcpFlags::default();
        if self.takes('-') {
            return Ok(flags);
        }
        let mut any = false;
        if let Some(Token::Word(word)) = self.peek() {
            for letter in word.chars() {
                let known = TcpFlags::LETTERS.iter().find(|(_, known)| *known == letter);
                match (known, letter) {
                    (Some((flag, _)), _) => flags = flags.with(*flag),
                    (None, 'U' | 'A' | '0'..='9') => {
                        let what = format!("the flag `{letter}`: no urgent data and no AccECN");
                        return Err(self.no(Subject::Unmodelled, what));
                    }
                    _ => return Err(self.expected("the flags of a segment, as in `P.` or `SEW`")),
                }
            }
            any = true;
            self.at += 1;
        }
        if self.takes('.') {
            flags = flags.with(TcpFlags::ACK);
            any = true;
        }
        if any {
            Ok(flags)
        } else {
            Err(self.expected("the flags of a segment, as in `P.` or `.`"))
        }
    }

    fn options(&mut self) -> Result<Option<Vec<TcpOption>>, Fault> {
        let mut options = Vec::new();
        if !self.takes('<') {
            return Ok(Some(options));
        }
        if self.peek() == Some(&Token::Ellipsis) {
            self.at += 1;
            self.must('>')?;
            return Ok(None);
        }
        loop {
            options.push(self.option()?);
            if self.takes('>') {
                return Ok(Some(options));
            }
            self.must(',')?;
        }
    }

    fn option(&mut self) -> Result<TcpOption, Fault> {
        let Some(Token::Word(name)) = self.peek() else {
            return Err(self.expected("a TCP option, as in `mss 1000`"));
        };
        let name = name.clone();
        let unknown = self.no(Subject::Sockets, format!("the TCP option `{}`", clipped(&name)));
        self.at += 1;
        Ok(match name.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::End,
            "sackOK" => TcpOption::SackOk,
            "mss" => match self.number("the segment size")? {
                mss @ 1..=65_535 => TcpOption::Mss(mss),
                _ => return Err(self.no(Subject::Syntax, "a segment size is 1 to 65535 bytes")),
            },
            "wscale" => match self.number("the shift of the window")? {
                shift @ 0..=14 => TcpOption::Scale(shift),
                _ => {
                    let message = "the window's shift is 0 to 14 (RFC 7323)";
                    return Err(self.no(Subject::Syntax, message));
                }
            },
            "TS" => {
                if !self.takes_word("val") {
                    return Err(self.expected("`val` of the timestamp"));
                }
                let value = self.number("the value of the timestamp")?;
                if !self.takes_word("ecr") {
                    return Err(self.expected("`ecr` of the timestamp"));
                }
                TcpOption::Timestamp(value, self.number("the echo of the timestamp")?)
            }
            "sack" => self.sack_blocks()?,
            _ => return Err(unknown),
        })
    }

    fn sack_blocks(&mut self) -> Result<TcpOption, Fault> {
        let mut blocks = Vec::new();
        while let Some(Token::Integer(_)) = self.peek() {
            let start = self.number("the begin of a SACK block")?;
            self.must(':')?;
            blocks.push((start, self.number("the end of a SACK block")?));
        }
        match blocks.is_empty() {
            true => Err(self.expected("a SACK block, as in `1001:2001`")),
            false => Ok(TcpOption::Sack(blocks)),
        }
    }

    fn call(&mut self) -> Result<Call, Fault> {
        // The end of a call that blocks; its begin is the event.
        if self.peek() == Some(&Token::Ellipsis) {
            self.at += 1;
            self.takes('+');
            self.time()?;
        }
        let Some(Token::Word(name)) = self.peek() else {
            return Err(self.expected("a segment (`<` or `>`), a system call, a command or code"));
        };
        let name = name.clone();
        self.at += 1;
        self.must('(')?;
        let arguments = self.list(')', 0)?;
        self.must('=')?;
        let returns = self.expression(0)?;
        let mut error = None;
        // In small letters it is the moment of the next event.
        if let Some(Token::Word(word)) = self.peek()
            && word.starts_with(|c: char| c.is_ascii_uppercase())
        {
            error = Some(word.clone());
            self.at += 1;
        }
        if self.takes('(') {
            while !self.takes(')') {
                if self.next().is_none() {
                    return Err(self.expected("`)` at the end of the note"));
                }
            }
        }
        Ok(Call { name, arguments, returns, error })
    }

    fn list(&mut self, close: char, depth: usize) -> Result<Vec<Expression>, Fault> {
        let mut list = Vec::new();
        if self.takes(close) {
            return Ok(list);
        }
        loop {
            list.push(self.expression(depth)?);
            if self.takes(close) {
                return Ok(list);
            }
            self.must(',')?;
        }
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, Fault> {
        if depth > DEEPEST {
            return Err(self.no(Subject::Syntax, "arguments are nested too deeply"));
        }
        let mut value = self.single(depth)?;
        while self.takes('|') {
            self.single(depth)?;
            value = Expression::Other;
        }
        Ok(value)
    }

    fn single(&mut self, depth: usize) -> Result<Expression, Fault> {
        match self.peek() {
            Some(Token::Symbol('[')) => {
                self.at += 1;
                Ok(Expression::List(self.list(']', depth + 1)?))
            }
            Some(Token::Symbol('{')) => {
                let mut open = 0_usize;
                loop {
                    match self.next() {
                        Some(Token::Symbol('{')) => open += 1,
                        Some(Token::Symbol('}')) if open == 1 => return Ok(Expression::Other),
                        Some(Token::Symbol('}')) => open -= 1,
                        Some(_) => {}
                        None => return Err(self.expected("`}` at the end of the structure")),
                    }
                }
            }
            Some(Token::Ellipsis | Token::Integer(_) | Token::Word(_) | Token::Text(_)) => {
                let value = match self.next() {
                    Some(Token::Integer(number)) => Expression::Integer(number),
                    Some(Token::Word(word)) => Expression::Word(word),
                    Some(Token::Text(text)) => Expression::Text(text),
                    _ => Expression::Any,
                };
                if matches!(value, Expression::Text(_)) && self.peek() == Some(&Token::Ellipsis) {
                    self.at += 1;
                }
                Ok(value)
            }
            _ => Err(self.expected("an argument")),
        }
    }
}
