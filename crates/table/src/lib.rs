//! Tables: typed columns in memory, and rows written as CSV or as Parquet.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

use serde::{Deserialize, Serialize, Serializer};

mod columns;
#[cfg(feature = "parquet")]
mod parquet;

pub use columns::{Table, TableColumn, Texts, Values};

/// The format of a table file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text: a header, then a line per row, fields between commas; an empty cell is an empty
    /// field (RFC 4180, with lines that end in `\n`).
    Csv,
    /// Apache Parquet: columns, compressed with Snappy, 65,536 rows per group; an empty cell is
    /// null.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Format {
    /// File name extension, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            #[cfg(feature = "parquet")]
            Format::Parquet => "parquet",
        }
    }
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// Its header.
    pub name: &'a str,
    /// The kind of its cells.
    pub kind: Kind,
    /// True if cells may be empty.
    pub optional: bool,
}

impl<'a> Column<'a> {
    /// A column whose cells are never empty.
    pub const fn new(name: &'a str, kind: Kind) -> Self {
        Column { name, kind, optional: false }
    }

    /// A column whose cells may be empty.
    pub const fn optional(name: &'a str, kind: Kind) -> Self {
        Column { name, kind, optional: true }
    }
}

/// The kind of values in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Words.
    Text,
    /// Real numbers.
    Real,
    /// Counts, below 2^63.
    Count,
    /// Unsigned integers of 64 bits, such as seeds.
    Unsigned,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cell<'a> {
    /// For a column of [`Kind::Text`].
    Text(Cow<'a, str>),
    /// For a column of [`Kind::Real`].
    Real(f64),
    /// For a column of [`Kind::Count`] or [`Kind::Unsigned`].
    Count(u64),
    /// No value: for an optional column.
    Empty,
}

impl<'a> Cell<'a> {
    /// The cell of a text.
    pub fn text(text: &'a str) -> Self {
        Cell::Text(Cow::Borrowed(text))
    }

    /// The cell of an optional real number; empty if it is not finite.
    pub fn finite(value: Option<f64>) -> Self {
        value.filter(|x| x.is_finite()).map_or(Cell::Empty, Cell::Real)
    }

    /// The cell of an optional whole number.
    pub fn count(value: Option<u64>) -> Self {
        value.map_or(Cell::Empty, Cell::Count)
    }

    /// The cell, empty if it is a number that is not finite.
    #[must_use]
    pub fn or_empty(self) -> Self {
        if let Cell::Real(x) = self { Cell::finite(Some(x)) } else { self }
    }

    /// Its number; `None` if it has none.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Real(x) => Some(*x),
            Cell::Count(n) => Some(*n as f64),
            Cell::Text(_) | Cell::Empty => None,
        }
    }

    /// The cell with an owned text.
    pub fn into_owned(self) -> Cell<'static> {
        match self {
            Cell::Text(text) => Cell::Text(text.into_owned().into()),
            Cell::Real(x) => Cell::Real(x),
            Cell::Count(n) => Cell::Count(n),
            Cell::Empty => Cell::Empty,
        }
    }

    fn suits(&self, column: &Column<'_>) -> bool {
        match self {
            Cell::Text(_) => column.kind == Kind::Text,
            Cell::Real(_) => column.kind == Kind::Real,
            Cell::Count(n) => match column.kind {
                Kind::Count => i64::try_from(*n).is_ok(),
                Kind::Unsigned => true,
                Kind::Text | Kind::Real => false,
            },
            Cell::Empty => column.optional,
        }
    }
}

/// A cell as a value of JSON: `null` if it is empty, or a number that is not finite.
#[derive(Debug)]
pub struct Json<'a>(pub &'a Cell<'a>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Cell::Text(text) => to.serialize_str(text),
            Cell::Real(x) => to.serialize_f64(*x),
            Cell::Count(n) => to.serialize_u64(*n),
            Cell::Empty => to.serialize_unit(),
        }
    }
}

/// Writes the cell as in a CSV file, without quotes.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Real(x) => x.fmt(f),
            Cell::Count(n) => n.fmt(f),
            Cell::Empty => Ok(()),
        }
    }
}

/// A table that is being written.
///
/// ```
/// use windward_table::{Cell, Column, Format, Kind, TableWriter};
///
/// let columns = [Column::new("flow", Kind::Text), Column::optional("rtt_s", Kind::Real)];
/// let mut table = TableWriter::new(Vec::new(), Format::Csv, "flows", &columns)?;
/// table.row(&[Cell::text("bulk-1"), Cell::Real(0.05)])?;
/// table.row(&[Cell::text("bulk-2"), Cell::Empty])?;
/// assert_eq!(table.finish()?, b"flow,rtt_s\nbulk-1,0.05\nbulk-2,\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TableWriter<'c, W: Write> {
    columns: Vec<Column<'c>>,
    rows: Rows<W>,
    /// A number as text, for CSV.
    number: String,
}

#[derive(Debug)]
enum Rows<W: Write> {
    Csv(Box<csv::Writer<W>>),
    #[cfg(feature = "parquet")]
    Parquet(Box<parquet::Rows<W>>),
}

impl<'c, W: Write> TableWriter<'c, W> {
    /// Begins a table in `out`. Parquet files carry its `name`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if two columns have the same name, which readers refuse. Any
    /// other if `out` fails.
    pub fn new(
        out: W,
        format: Format,
        #[cfg_attr(
            not(feature = "parquet"),
            expect(unused_variables, reason = "CSV files have no name inside")
        )]
        name: &str,
        columns: &[Column<'c>],
    ) -> io::Result<TableWriter<'c, W>> {
        let mut names = HashSet::new();
        if let Some(twice) = columns.iter().find(|column| !names.insert(column.name)) {
            let message = format!("two columns of a table are called `{}`", twice.name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let rows = match format {
            Format::Csv => {
                let mut writer = csv::Writer::from_writer(out);
                writer.write_record(columns.iter().map(|column| column.name))?;
                Rows::Csv(Box::new(writer))
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Rows::Parquet(Box::new(parquet::Rows::new(out, name, columns)?)),
        };
        Ok(TableWriter { columns: columns.to_vec(), rows, number: String::new() })
    }

    /// Adds a row: a cell for each column, of its kind.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if the cells are not those of the columns; then the table
    /// has no part of the row. Any other if `out` does not take it.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        self.check(cells)?;
        match &mut self.rows {
            Rows::Csv(writer) => {
                for cell in cells {
                    match cell {
                        Cell::Text(text) => writer.write_field(text.as_bytes())?,
                        other => {
                            self.number.clear();
                            // Writing to a String cannot fail.
                            let _ = write!(self.number, "{other}");
                            writer.write_field(&self.number)?;
                        }
                    }
                }
                Ok(writer.write_record(None::<&[u8]>)?)
            }
            #[cfg(feature = "parquet")]
            Rows::Parquet(rows) => rows.row(cells),
        }
    }

    fn check(&self, cells: &[Cell<'_>]) -> io::Result<()> {
        let refuse = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let (given, wanted) = (cells.len(), self.columns.len());
        if given != wanted {
            return Err(refuse(format!("a row of {given} cells in a table of {wanted} columns")));
        }
        let mut pairs = self.columns.iter().zip(cells);
        match pairs.find(|(column, cell)| !cell.suits(column)) {
            None => Ok(()),
            Some((Column { name, kind, .. }, cell)) => Err(refuse(format!(
                "the cell {cell:?} does not suit the column `{name}` of kind {kind:?}"
            ))),
        }
    }

    /// Writes the rest and returns `out`.
    ///
    /// # Errors
    /// If `out` does not take it.
    pub fn finish(self) -> io::Result<W> {
        match self.rows {
            Rows::Csv(writer) => writer.into_inner().map_err(csv::IntoInnerError::into_error),
            #[cfg(feature = "parquet")]
            Rows::Parquet(rows) => rows.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column<'static>; 3] = [
        Column::new("label", Kind::Text),
        Column::optional("seed", Kind::Unsigned),
        Column::optional("x", Kind::Real),
    ];

    fn written<W: Write + Send>(out: W, format: Format) -> W {
        let mut table = TableWriter::new(out, format, "small", &COLUMNS).unwrap();
        table.row(&[Cell::text("a, b"), Cell::Count(u64::MAX), Cell::Empty]).unwrap();
        table.row(&[Cell::text("5 %"), Cell::count(None), Cell::finite(Some(0.1))]).unwrap();
        table.finish().unwrap()
    }

    #[test]
    fn csv_quotes_fields_that_need_it() {
        let text = String::from_utf8(written(Vec::new(), Format::Csv)).unwrap();
        assert_eq!(text, "label,seed,x\n\"a, b\",18446744073709551615,\n5 %,,0.1\n");
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_reads_back() {
        use ::parquet::file::reader::{FileReader, SerializedFileReader};
        use ::parquet::record::Field;

        let file = written(tempfile::tempfile().unwrap(), Format::Parquet);
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema().name(), "small");
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let fields = |row: usize| -> Vec<Field> {
            rows[row].get_column_iter().map(|(_, field)| field.clone()).collect()
        };
        assert_eq!(fields(0), [Field::Str("a, b".into()), Field::ULong(u64::MAX), Field::Null]);
        assert_eq!(fields(1), [Field::Str("5 %".into()), Field::Null, Field::Double(0.1)]);
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn many_rows_are_several_groups() {
        use ::parquet::file::reader::{FileReader, SerializedFileReader};

        let columns = [Column::new("n", Kind::Count)];
        let file = tempfile::tempfile().unwrap();
        let mut table = TableWriter::new(file, Format::Parquet, "n", &columns).unwrap();
        for n in 0..70_000 {
            table.row(&[Cell::Count(n)]).unwrap();
        }
        let reader = SerializedFileReader::new(table.finish().unwrap()).unwrap();
        // 65536 and the remaining 4464.
        let mut groups = Vec::new();
        for group in reader.metadata().row_groups() {
            groups.push(group.num_rows());
        }
        assert_eq!(groups, [65_536, 4_464]);
    }

    #[test]
    fn two_columns_of_one_name_are_refused() {
        let columns = [COLUMNS[0], COLUMNS[1], COLUMNS[0]];
        let error = TableWriter::new(Vec::new(), Format::Csv, "t", &columns).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(error.to_string(), "two columns of a table are called `label`");
    }

    #[test]
    fn a_row_of_wrong_kinds_is_refused_and_not_written() {
        let mut table = TableWriter::new(Vec::new(), Format::Csv, "t", &COLUMNS[..2]).unwrap();
        for wrong in [
            &[Cell::text("a")][..],
            &[Cell::Real(1.0), Cell::Empty],
            &[Cell::Empty, Cell::Empty],
            &[Cell::text("a"), Cell::text("b")],
        ] {
            let error = table.row(wrong).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert_eq!(table.finish().unwrap(), b"label,seed\n");
    }
}
