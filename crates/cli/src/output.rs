//! Standard output: text in one piece, aligned tables, numbers as people read them.

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::OnceLock;

use serde::Serialize;
use windward_sim::output::{OutputFile, is_standard_output};
use windward_sim::text::{control, printable};

use crate::failure::Failure;
use crate::worker::{self, Word};

/// The option whose output has standard output.
static OWNER: OnceLock<&'static str> = OnceLock::new();

const JSON: &str = "--json";

/// Gives standard output to an option if `path` names it; tables then go to standard error.
///
/// # Errors
/// If another option has it.
pub(crate) fn claim(option: &'static str, path: &Path) -> Result<(), Failure> {
    if !is_standard_output(path) {
        return Ok(());
    }
    let owner = *OWNER.get_or_init(|| option);
    if owner == option {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{option} {}: {owner} already writes to standard output; give one of them a file",
        path.display()
    )))
}

/// Creates the output file of an option.
///
/// # Errors
/// If the path is a directory, another option has standard output, or it cannot be created.
pub(crate) fn create(option: &'static str, path: &Path) -> Result<OutputFile, Failure> {
    if path.is_dir() {
        return Err(Failure::Input(format!("{option} {}: is a directory", path.display())));
    }
    claim(option, path)?;
    Ok(OutputFile::create(path)?)
}

/// Gives standard output to the JSON, if it is requested.
///
/// # Errors
/// If another option has it.
pub(crate) fn claim_json(json: bool) -> Result<(), Failure> {
    if json { claim(JSON, Path::new("-")) } else { Ok(()) }
}

/// True if an output file has standard output.
pub(crate) fn is_claimed() -> bool {
    OWNER.get().is_some_and(|owner| *owner != JSON)
}

/// Writes `text` to standard output, or to standard error if an output file has that. Control
/// characters are escaped.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    if worker::is_one() {
        worker::say(&Word::Print(format!("{text}{end}")));
        return Ok(());
    }
    if is_claimed() {
        note(text.trim_end());
        return Ok(());
    }
    let mut out = io::stdout().lock();
    out.write_all(printable(text).as_bytes())?;
    out.write_all(end.as_bytes())?;
    Ok(out.flush()?)
}

/// Writes `value` to standard output as indented JSON, piece by piece: it may exceed memory.
/// Characters that a terminal interprets are escaped.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let failed = |error: serde_json::Error| match error.io_error_kind() {
        Some(_) => Failure::from(io::Error::from(error)),
        None => Failure::Failed(format!("cannot write the result as JSON: {error}")),
    };
    if worker::is_one() || is_claimed() {
        return print(&serde_json::to_string_pretty(value).map_err(failed)?);
    }
    let mut out = BufWriter::with_capacity(1 << 16, Escaped(io::stdout().lock()));
    serde_json::to_writer_pretty(&mut out, value).map_err(failed)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Escapes characters that a terminal interprets, as JSON does. Takes whole characters, as a buffer
/// in front of it keeps together what is written in one piece.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        if control(text).is_none() {
            return self.0.write_all(bytes).map(|()| bytes.len());
        }
        for c in text.chars() {
            if control(c.encode_utf8(&mut [0; 4])).is_none() {
                write!(self.0, "{c}")?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(self.0, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a note, which is not a result, to standard error.
pub(crate) fn note(text: &str) {
    if worker::say(&Word::Note(text.to_owned())) {
        return;
    }
    eprintln!("{}", printable(text));
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Indentation of the lines of a row after its first.
const INDENT: &str = "    ";

/// The width of listings: that of the terminal, or 80 columns in a pipe.
pub(crate) fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(io::stdout());
    terminal.map_or(80, |(width, _)| usize::from(width.0).max(40))
}

/// Lines of at most `width` characters.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    // Lines break only at blanks: names with hyphens stay whole.
    let options = textwrap::Options::new(width)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(String::from).collect()
}

/// A paragraph of at most `width` columns.
pub(crate) fn paragraph(text: &str, width: usize) -> String {
    wrapped(text, width).join("\n")
}

/// Rows of text under a header.
#[derive(Debug, Clone)]
pub(crate) struct TextTable {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// An empty table: the heading `>sent` makes a column of numbers, aligned right.
    pub(crate) fn new<H: Into<String>>(headings: impl IntoIterator<Item = H>) -> Self {
        let column = |heading: String| match heading.strip_prefix('>') {
            Some(heading) => (heading.to_owned(), Align::Right),
            None => (heading, Align::Left),
        };
        let columns = headings.into_iter().map(|heading| column(heading.into())).collect();
        TextTable { columns, rows: Vec::new() }
    }

    /// Adds a row; a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let cells: Vec<String> = cells.into_iter().collect();
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Text for a terminal: columns two spaces apart.
    pub(crate) fn text(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        let lines = || std::iter::once(&headings).chain(&self.rows);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| lines().map(|line| line[i].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for line in lines() {
            let mut padded = String::new();
            for ((cell, (_, align)), &width) in line.iter().zip(&self.columns).zip(&widths) {
                // Writing to a String cannot fail.
                let _ = match align {
                    Align::Left => write!(padded, "{cell:<width$}  "),
                    Align::Right => write!(padded, "{cell:>width$}  "),
                };
            }
            text.push_str(padded.trim_end());
            text.push('\n');
        }
        text
    }

    /// Text for a terminal, within `width` columns: a column that does not fit is wrapped, or goes
    /// on an indented line below.
    pub(crate) fn text_within(&self, width: usize) -> String {
        /// Least width at which a column is wrapped in its place; a narrower one goes below.
        const LEAST: usize = 30;
        let headings: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        let rows = || std::iter::once(&headings).chain(&self.rows);
        let natural = |i: usize| rows().map(|row| row[i].chars().count()).max().unwrap_or(0);
        // The columns of each line of a row, with their widths.
        let mut lines: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut line: Vec<(usize, usize)> = Vec::new();
        let mut room = width;
        for (i, (_, align)) in self.columns.iter().enumerate() {
            let fits = natural(i) <= room || (room >= LEAST && *align == Align::Left);
            if !fits && !line.is_empty() {
                lines.push(std::mem::take(&mut line));
                room = width - INDENT.len();
            }
            let given = natural(i).min(room);
            room = room.saturating_sub(given + 2);
            line.push((i, given));
        }
        lines.push(line);
        let mut text = String::new();
        for row in rows() {
            for (nth, line) in lines.iter().enumerate() {
                let indent = if nth > 0 { INDENT } else { "" };
                let wrap = |&(i, given): &(usize, usize)| wrapped(&row[i], given);
                let cells: Vec<Vec<String>> = line.iter().map(wrap).collect();
                let height = cells.iter().map(Vec::len).max().unwrap_or(0);
                for y in 0..height {
                    let mut padded = indent.to_owned();
                    for (cell, &(i, width)) in cells.iter().zip(line) {
                        let cell = cell.get(y).map_or("", String::as_str);
                        // Writing to a String cannot fail.
                        let _ = match self.columns[i].1 {
                            Align::Left => write!(padded, "{cell:<width$}  "),
                            Align::Right => write!(padded, "{cell:>width$}  "),
                        };
                    }
                    if !padded.trim().is_empty() {
                        text.push_str(padded.trim_end());
                        text.push('\n');
                    }
                }
            }
        }
        text
    }

    /// Text for a pipe: one line per row, which begins with `prefix` and names every cell.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn lines(&self, prefix: &str) -> String {
        let mut text = String::new();
        for row in &self.rows {
            text += prefix;
            for ((heading, _), cell) in self.columns.iter().zip(row) {
                // Writing to a String cannot fail.
                let _ = write!(text, "  {heading} {cell}");
            }
            text.push('\n');
        }
        text
    }

    /// As a Markdown table.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|c| c.0.as_str()).collect());
        text += &line(
            self.columns.iter().map(|c| if c.1 == Align::Left { "---" } else { "--:" }).collect(),
        );
        for row in &self.rows {
            text += &line(row.iter().map(String::as_str).collect());
        }
        text
    }
}

/// `4.87 Mbit/s`.
pub(crate) fn rate(bps: f64) -> String {
    format!("{}bit/s", si(bps))
}

/// `4.87 M`, three significant digits before an SI prefix.
pub(crate) fn si(value: f64) -> String {
    const STEPS: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];
    // 999.5 would be rounded to 1000: it belongs to the next prefix.
    let (unit, prefix) =
        STEPS.into_iter().find(|(unit, _)| value.abs() >= unit * 0.9995).unwrap_or((1.0, ""));
    format!("{} {prefix}", significant(value / unit))
}

/// `87.5 ms`.
pub(crate) fn seconds(s: f64) -> String {
    let (value, unit) = match s.abs() {
        0.0 => return "0 s".to_owned(),
        x if x < 0.9995e-6 => (s * 1e9, "ns"),
        x if x < 0.9995e-3 => (s * 1e6, "us"),
        x if x < 0.9995 => (s * 1e3, "ms"),
        _ => (s, "s"),
    };
    format!("{} {unit}", significant(value))
}

/// Three significant digits, without a fraction from 100 on and without trailing zeros.
fn significant(value: f64) -> String {
    let decimals = match value.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        x if x >= 0.9995 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_escapes_what_a_terminal_interprets() {
        let mut out = Escaped(Vec::new());
        serde_json::to_writer(&mut out, "a\u{202e}é\u{e0041}").unwrap();
        // 0xe0041 in UTF-16 is 0xd800 + 0x340 and 0xdc00 + 0x41.
        assert_eq!(String::from_utf8(out.0).unwrap(), r#""a\u202eé\udb40\udc41""#);
    }

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(rate(4_870_000.0), "4.87 Mbit/s");
        assert_eq!(rate(999_700.0), "1 Mbit/s");
        assert_eq!(rate(1.0), "1 bit/s");
        assert_eq!(rate(0.0), "0 bit/s");
        assert_eq!(rate(1e12), "1 Tbit/s");
        assert_eq!(rate(123_456.0), "123 kbit/s");
        assert_eq!(seconds(0.0875), "87.5 ms");
        assert_eq!(seconds(3600.0), "3600 s");
        assert_eq!(seconds(2e-6), "2 us");
    }

    #[test]
    fn tables_are_folded_where_a_line_has_no_room() {
        let mut table = TextTable::new(["name", ">sent", "note"]);
        let note = "one two three four five six seven eight nine ten eleven twelve";
        table.row(["first".into(), "12345".into(), note.into()]);
        assert_eq!(table.text_within(100), table.text());
        // 40 - (5 + 2 + 5 + 2) = 26 columns are too few: the note goes below, within 36.
        assert_eq!(
            table.text_within(40),
            "name    sent\n    note\n\
             first  12345\n    one two three four five six seven\n    eight nine ten eleven twelve\n"
        );
        // 50 - 14 = 36 columns are enough.
        assert_eq!(
            table.text_within(50),
            "name    sent  note\n\
             first  12345  one two three four five six seven\n              \
             eight nine ten eleven twelve\n"
        );
    }

    #[test]
    fn tables_align_and_have_no_trailing_blanks() {
        let mut table = TextTable::new(["name", ">sent", "note"]);
        table.row(["a".into(), "12345".into(), String::new()]);
        table.row(["longer".into(), "1".into(), "x".into()]);
        assert_eq!(
            table.text(),
            "name     sent  note\n\
             a       12345\n\
             longer      1  x\n"
        );
        assert_eq!(
            table.lines("3 s"),
            "3 s  name a  sent 12345  note \n3 s  name longer  sent 1  note x\n"
        );
        assert_eq!(
            table.markdown(),
            "| name | sent | note |\n| --- | --: | --- |\n| a | 12345 |  |\n| longer | 1 | x |\n"
        );
    }
}
