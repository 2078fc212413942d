//! A table in memory: columns of equal length, each of one type.

use std::io::{self, Write};

use super::{Cell, Column, Format, Kind, TableWriter};

/// Columns of equal length.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// From left to right.
    pub columns: Vec<TableColumn>,
}

/// One column of a [`Table`].
#[derive(Debug, Clone, PartialEq)]
pub struct TableColumn {
    /// Its header.
    pub name: String,
    /// True if its cells may be empty.
    pub optional: bool,
    /// Its cells.
    pub values: Values,
}

/// The cells of a column; `None` is an empty cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// [`Kind::Text`].
    Text(Texts),
    /// [`Kind::Real`].
    Real(Vec<Option<f64>>),
    /// [`Kind::Count`].
    Count(Vec<Option<u64>>),
    /// [`Kind::Unsigned`].
    Unsigned(Vec<Option<u64>>),
}

/// Texts stored one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Texts {
    text: String,
    /// The end of each in `text`, and false for an empty cell.
    ends: Vec<(usize, bool)>,
}

impl Texts {
    /// Adds a text, or an empty cell.
    pub fn push(&mut self, text: Option<&str>) {
        self.text.push_str(text.unwrap_or_default());
        self.ends.push((self.text.len(), text.is_some()));
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no cells.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of a row; `None` for an empty cell, and beyond the last.
    pub fn get(&self, row: usize) -> Option<&str> {
        let (end, is_there) = *self.ends.get(row)?;
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before].0);
        is_there.then(|| &self.text[start..end])
    }

    /// All cells in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl<T: AsRef<str>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Texts::default();
        texts.into_iter().for_each(|text| all.push(Some(text.as_ref())));
        all
    }
}

impl Values {
    /// No cells of this kind.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Values::Text(Texts::default()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Count => Values::Count(Vec::new()),
            Kind::Unsigned => Values::Unsigned(Vec::new()),
        }
    }

    /// The kind of the cells.
    pub fn kind(&self) -> Kind {
        match self {
            Values::Text(_) => Kind::Text,
            Values::Real(_) => Kind::Real,
            Values::Count(_) => Kind::Count,
            Values::Unsigned(_) => Kind::Unsigned,
        }
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        match self {
            Values::Text(texts) => texts.len(),
            Values::Real(reals) => reals.len(),
            Values::Count(counts) | Values::Unsigned(counts) => counts.len(),
        }
    }

    /// True if there are no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The cell of a row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Values::Text(texts) => texts.get(row).map_or(Cell::Empty, Cell::text),
            Values::Real(reals) => reals[row].map_or(Cell::Empty, Cell::Real),
            Values::Count(counts) | Values::Unsigned(counts) => Cell::count(counts[row]),
        }
    }

    /// Adds a cell; a cell of another kind becomes an empty one.
    pub fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Values::Text(texts), Cell::Text(text)) => texts.push(Some(text)),
            (Values::Text(texts), _) => texts.push(None),
            (Values::Real(reals), Cell::Real(x)) => reals.push(Some(*x)),
            (Values::Real(reals), _) => reals.push(None),
            (Values::Count(counts) | Values::Unsigned(counts), Cell::Count(n)) => {
                counts.push(Some(*n));
            }
            (Values::Count(counts) | Values::Unsigned(counts), _) => counts.push(None),
        }
    }

    /// The cells of these rows, in this order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Values::new(self.kind());
        rows.iter().for_each(|row| selected.push(&self.cell(*row)));
        selected
    }
}

impl TableColumn {
    /// Its description.
    pub fn column(&self) -> Column<'_> {
        Column { name: &self.name, kind: self.values.kind(), optional: self.optional }
    }
}

impl Table {
    /// A table without rows.
    pub fn new<'a>(columns: impl IntoIterator<Item = Column<'a>>) -> Self {
        let columns = columns.into_iter().map(|column| TableColumn {
            name: column.name.to_owned(),
            optional: column.optional,
            values: Values::new(column.kind),
        });
        Table { columns: columns.collect() }
    }

    /// A table of rows, each with a cell for each column.
    pub fn of_rows<'a, 'c>(
        columns: impl IntoIterator<Item = Column<'a>>,
        rows: impl IntoIterator<Item = impl IntoIterator<Item = Cell<'c>>>,
    ) -> Self {
        let mut table = Table::new(columns);
        rows.into_iter().for_each(|row| table.push(row));
        table
    }

    /// Adds a row: a cell for each column, of its kind.
    pub fn push<'c>(&mut self, row: impl IntoIterator<Item = Cell<'c>>) {
        let mut cells = row.into_iter();
        for column in &mut self.columns {
            column.values.push(&cells.next().unwrap_or(Cell::Empty));
        }
        debug_assert!(cells.next().is_none(), "more cells than columns");
    }

    /// Adds a column of texts without empty cells.
    pub fn add_texts<T: AsRef<str>>(
        &mut self,
        name: impl Into<String>,
        texts: impl IntoIterator<Item = T>,
    ) {
        let values = Values::Text(texts.into_iter().collect());
        self.columns.push(TableColumn { name: name.into(), optional: false, values });
    }

    /// Adds a column of whole numbers of 64 bits.
    pub fn add_counts(
        &mut self,
        name: impl Into<String>,
        counts: impl IntoIterator<Item = Option<u64>>,
    ) {
        let values = Values::Unsigned(counts.into_iter().collect());
        self.columns.push(TableColumn { name: name.into(), optional: true, values });
    }

    /// Adds a column of real numbers; one that is not finite is an empty cell.
    pub fn add_reals(
        &mut self,
        name: impl Into<String>,
        reals: impl IntoIterator<Item = Option<f64>>,
    ) {
        let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
        let values = Values::Real(reals.into_iter().map(finite).collect());
        self.columns.push(TableColumn { name: name.into(), optional: true, values });
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The cells of a row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = Cell<'_>> {
        self.columns.iter().map(move |column| column.values.cell(row))
    }

    /// Adds the rows of a table with the same columns; `None` if the columns differ.
    pub fn append(&mut self, more: &Table) -> Option<()> {
        let described = |table: &Table| table.columns.len();
        let same = |(a, b): (&TableColumn, &TableColumn)| {
            a.name == b.name && a.values.kind() == b.values.kind()
        };
        if described(self) != described(more) || !self.columns.iter().zip(&more.columns).all(same) {
            return None;
        }
        (0..more.rows()).for_each(|row| self.push(more.row(row)));
        Some(())
    }

    /// Writes it with a header, one line per row.
    ///
    /// # Errors
    /// If `out` does not take it.
    pub fn write_csv(&self, out: impl Write + Send) -> io::Result<()> {
        self.write(out, Format::Csv)
    }

    /// Writes it as Parquet.
    ///
    /// # Errors
    /// If `out` does not take it.
    #[cfg(feature = "parquet")]
    pub fn write_parquet(&self, out: impl Write + Send) -> io::Result<()> {
        self.write(out, Format::Parquet)
    }

    fn write(&self, out: impl Write + Send, format: Format) -> io::Result<()> {
        let columns: Vec<_> = self.columns.iter().map(TableColumn::column).collect();
        let mut writer = TableWriter::new(out, format, "results", &columns)?;
        let mut cells = Vec::with_capacity(columns.len());
        for row in 0..self.rows() {
            cells.clear();
            cells.extend(self.row(row));
            writer.row(&cells)?;
        }
        writer.finish()?.flush()
    }
}
