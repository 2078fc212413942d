//! JSON scanner that does not store the file: it follows brackets and quotes, so that a file of any
//! size needs only the memory of its largest event.

use std::io::{self, BufRead};

/// Reason why scanning stopped.
#[derive(Debug)]
pub(super) enum Stop {
    /// The file ends inside of a value.
    Cut,
    /// An unexpected byte.
    Unexpected(u8),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Stop::Io(error)
    }
}

/// A file with the read position.
#[derive(Debug)]
pub(super) struct Scanner<R> {
    input: R,
    at: u64,
}

/// Stored part of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Whole,
    /// It is longer than the limit.
    TooLong,
}

impl<R: BufRead> Scanner<R> {
    /// Reads on from `input`, which is at byte `at` of its file.
    pub(super) fn new(input: R, at: u64) -> Self {
        Scanner { input, at }
    }

    /// Offset of the next byte.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next byte after white space, which is not consumed; `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = fill(&mut self.input)?;
            let blank = buffer.iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
            let blank = blank.count();
            let next = buffer.get(blank).copied();
            let is_end = buffer.is_empty();
            self.skip(blank);
            if next.is_some() || is_end {
                return Ok(next);
            }
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.input.consume(bytes);
        self.at += bytes as u64;
    }

    /// Consumes this byte, after white space.
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        match self.peek()? {
            Some(found) if found == byte => {
                self.skip(1);
                Ok(())
            }
            Some(found) => Err(Stop::Unexpected(found)),
            None => Err(Stop::Cut),
        }
    }

    /// True if another member of an object or an array follows. `count` members have been read;
    /// `end` closes the last.
    pub(super) fn another(&mut self, count: usize, end: u8) -> Result<bool, Stop> {
        match self.peek()? {
            None => Err(Stop::Cut),
            Some(found) if found == end => {
                self.skip(1);
                Ok(false)
            }
            Some(b',') if count > 0 => {
                self.skip(1);
                // Some writers leave a comma after the last.
                if self.peek()? == Some(end) {
                    self.skip(1);
                    return Ok(false);
                }
                Ok(true)
            }
            Some(_) if count == 0 => Ok(true),
            Some(found) => Err(Stop::Unexpected(found)),
        }
    }

    /// The name of the next member of an object, up to the colon after it. A name that is not a
    /// JSON string, or is longer than all known ones, is unknown.
    pub(super) fn name(&mut self) -> Result<String, Stop> {
        match self.peek()? {
            Some(b'"') => {}
            Some(found) => return Err(Stop::Unexpected(found)),
            None => return Err(Stop::Cut),
        }
        let mut text = Vec::new();
        let kept = self.value(&mut text, 1024)?;
        self.expect(b':')?;
        let name = serde_json::from_slice(&text).ok().filter(|_| kept == Kept::Whole);
        Ok(name.unwrap_or_default())
    }

    /// Skips a value.
    pub(super) fn pass(&mut self) -> Result<(), Stop> {
        self.value(&mut Vec::new(), 0).map(|_| ())
    }

    /// Consumes a value and puts its text into `text`, if it has at most `most` bytes. This only
    /// finds its end; callers check the JSON.
    pub(super) fn value(&mut self, text: &mut Vec<u8>, most: usize) -> Result<Kept, Stop> {
        text.clear();
        let mut kept = Kept::Whole;
        let (mut depth, mut in_string, mut escaped) = (0_u64, false, false);
        let mut begun = false;
        if self.peek()?.is_none() {
            return Err(Stop::Cut);
        }
        loop {
            let buffer = fill(&mut self.input)?;
            if buffer.is_empty() {
                // A number may end with the file; any other open value is truncated.
                return if begun && depth == 0 && !in_string { Ok(kept) } else { Err(Stop::Cut) };
            }
            let mut used = 0;
            let mut ends = false;
            let mut stops = None;
            for &byte in buffer {
                if in_string {
                    used += 1;
                    if escaped {
                        escaped = false;
                    } else if byte == b'\\' {
                        escaped = true;
                    } else if byte == b'"' {
                        in_string = false;
                        ends = depth == 0;
                    }
                } else {
                    match byte {
                        b'"' if depth > 0 || !begun => in_string = true,
                        b'{' | b'[' if depth > 0 || !begun => depth += 1,
                        b'}' | b']' if depth > 0 => {
                            depth -= 1;
                            ends = depth == 0;
                        }
                        // After a number or a word.
                        b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'{'
                        | b'['
                            if depth == 0 =>
                        {
                            stops = Some(byte);
                            break;
                        }
                        _ => {}
                    }
                    used += 1;
                }
                begun = true;
                if ends {
                    break;
                }
            }
            if text.len() + used > most {
                kept = Kept::TooLong;
                text.clear();
            } else if kept == Kept::Whole {
                text.extend_from_slice(&buffer[..used]);
            }
            self.skip(used);
            match stops {
                Some(byte) if !begun => return Err(Stop::Unexpected(byte)),
                Some(_) => return Ok(kept),
                None if ends => return Ok(kept),
                None => {}
            }
        }
    }

    /// Consumes the bytes up to and including the next `separator`, and puts them into `record`, if
    /// they are at most `most`. `None` at the end of the file.
    pub(super) fn record(
        &mut self,
        separator: u8,
        record: &mut Vec<u8>,
        most: usize,
    ) -> io::Result<Option<Kept>> {
        record.clear();
        let mut kept = Kept::Whole;
        let mut is_empty = true;
        loop {
            let buffer = fill(&mut self.input)?;
            if buffer.is_empty() {
                return Ok((!is_empty).then_some(kept));
            }
            is_empty = false;
            let end = buffer.iter().position(|byte| *byte == separator);
            let used = end.unwrap_or(buffer.len());
            if record.len() + used > most {
                kept = Kept::TooLong;
                record.clear();
            } else if kept == Kept::Whole {
                record.extend_from_slice(&buffer[..used]);
            }
            self.skip(used + usize::from(end.is_some()));
            if end.is_some() {
                return Ok(Some(kept));
            }
        }
    }
}

/// [`BufRead::fill_buf`], repeated after an interrupting signal.
fn fill<R: BufRead>(input: &mut R) -> io::Result<&[u8]> {
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // Buffered bytes are not read again.
    input.fill_buf()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// With the smallest possible buffer.
    fn scanner(text: &str) -> Scanner<BufReader<&[u8]>> {
        Scanner::new(BufReader::with_capacity(1, text.as_bytes()), 0)
    }

    fn value(text: &str) -> (String, u64) {
        let mut scanner = scanner(text);
        let mut found = Vec::new();
        assert_eq!(scanner.value(&mut found, 1000).unwrap(), Kept::Whole, "{text}");
        (String::from_utf8(found).unwrap(), scanner.at())
    }

    #[test]
    fn values_end_where_their_brackets_and_quotes_do() {
        for (text, expected) in [
            ("12,", "12"),
            (" -1.5e3]", "-1.5e3"),
            ("null", "null"),
            (r#""a \" ] \\" ,"#, r#""a \" ] \\""#),
            (r#"{"a": "}", "b": [1, {"c": []}]} ]"#, r#"{"a": "}", "b": [1, {"c": []}]}"#),
            ("[]]", "[]"),
        ] {
            let (found, at) = value(text);
            assert_eq!(found, expected);
            let blank = text.len() - text.trim_start().len();
            assert_eq!(at as usize, blank + expected.len(), "{text}");
        }
    }

    #[test]
    fn truncated_and_empty_files_are_reported() {
        for text in ["", "  ", "{", "[1, 2", r#""abc"#, r#""abc\""#, r#"{"a": "#] {
            let stop = scanner(text).value(&mut Vec::new(), 100).unwrap_err();
            assert!(matches!(stop, Stop::Cut), "{text}: {stop:?}");
        }
        let stop = scanner(",").value(&mut Vec::new(), 100).unwrap_err();
        assert!(matches!(stop, Stop::Unexpected(b',')), "{stop:?}");
    }

    #[test]
    fn long_values_are_skipped_and_not_stored() {
        let mut scanner = scanner(r#"["aaaaaaaaaaaaaaaaaaaaaaaa"] 7"#);
        let mut text = Vec::new();
        assert_eq!(scanner.value(&mut text, 10).unwrap(), Kept::TooLong);
        assert!(text.is_empty());
        assert_eq!(scanner.value(&mut text, 10).unwrap(), Kept::Whole);
        assert_eq!(text, b"7");
    }

    #[test]
    fn depth_costs_nothing() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        let mut scanner = Scanner::new(BufReader::new(deep.as_bytes()), 0);
        scanner.pass().unwrap();
        assert_eq!(scanner.at(), 2_000_000);
    }

    #[test]
    fn records_end_at_separators() {
        let mut scanner = scanner("ab\nc\n\nd");
        let mut record = Vec::new();
        let mut next = || {
            let kept = scanner.record(b'\n', &mut record, 1).unwrap();
            kept.map(|kept| (kept, String::from_utf8(record.clone()).unwrap()))
        };
        assert_eq!(next(), Some((Kept::TooLong, String::new())));
        assert_eq!(next(), Some((Kept::Whole, "c".to_owned())));
        assert_eq!(next(), Some((Kept::Whole, String::new())));
        assert_eq!(next(), Some((Kept::Whole, "d".to_owned())));
        assert_eq!(next(), None);
    }
}
