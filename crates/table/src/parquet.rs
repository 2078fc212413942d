//! Rows gathered into columns, and columns written as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Cell, Column, Kind, Table, TableColumn, Values};

/// Number of rows of a group, which is written when it is full.
const GROUP: usize = 1 << 16;

/// A Parquet file that is being written to `out`, and the rows that are not in it yet. Bytes reach
/// `out` group by group, so that the writer of Parquet is compiled once and not for each `W`.
#[derive(Debug)]
pub(super) struct Rows<W> {
    out: W,
    encoder: Encoder,
}

/// Rows on their way to bytes.
#[derive(Debug)]
struct Encoder {
    writer: SerializedFileWriter<Vec<u8>>,
    waiting: Table,
}

impl<W: Write> Rows<W> {
    pub(super) fn new(out: W, name: &str, columns: &[Column<'_>]) -> io::Result<Self> {
        Ok(Rows { out, encoder: Encoder::new(name, columns).map_err(plain)? })
    }

    /// Adds a row, whose cells must have the kinds of the columns.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        if self.encoder.row(cells).map_err(plain)? {
            self.out.write_all(&std::mem::take(self.encoder.writer.inner_mut()))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&self.encoder.finish().map_err(plain)?)?;
        Ok(self.out)
    }
}

impl Encoder {
    fn new(name: &str, columns: &[Column<'_>]) -> Result<Self> {
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        let schema = schema(name, columns)?;
        let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
        Ok(Encoder { writer, waiting: Table::new(columns.iter().copied()) })
    }

    /// Adds a row, and returns whether it completed a group.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<bool> {
        for (column, cell) in self.waiting.columns.iter_mut().zip(cells) {
            column.values.push(cell);
        }
        let full = self.waiting.rows() == GROUP;
        if full {
            self.write_group()?;
        }
        Ok(full)
    }

    /// The bytes that were not taken yet.
    fn finish(mut self) -> Result<Vec<u8>> {
        self.write_group()?;
        self.writer.into_inner()
    }

    fn write_group(&mut self) -> Result<()> {
        let empty = Table::new(self.waiting.columns.iter().map(TableColumn::column));
        let mut group = self.writer.next_row_group()?;
        for TableColumn { values, optional, .. } in &self.waiting.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let (to, optional) = (&mut column, *optional);
            match values {
                Values::Text(texts) => {
                    write::<ByteArrayType>(to, texts.iter().map(|x| x.map(Into::into)), optional)?;
                }
                Values::Real(reals) => {
                    write::<DoubleType>(to, reals.iter().copied(), optional)?;
                }
                // Parquet stores an unsigned number as the signed one with the same bits.
                Values::Count(counts) | Values::Unsigned(counts) => {
                    let counts = counts.iter().map(|n| n.map(u64::cast_signed));
                    write::<Int64Type>(to, counts, optional)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        self.waiting = empty;
        Ok(())
    }
}

fn write<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>>,
    optional: bool,
) -> Result<()> {
    // A level for each cell, 1 where there is a value.
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    column.typed::<T>().write_batch(&values, optional.then_some(&levels[..]), None)?;
    Ok(())
}

fn schema(name: &str, columns: &[Column<'_>]) -> Result<TypePtr> {
    let field = |column: &Column<'_>| {
        let (physical, converted) = match column.kind {
            Kind::Text => (Physical::BYTE_ARRAY, ConvertedType::UTF8),
            Kind::Real => (Physical::DOUBLE, ConvertedType::NONE),
            Kind::Count => (Physical::INT64, ConvertedType::NONE),
            Kind::Unsigned => (Physical::INT64, ConvertedType::UINT_64),
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical)
            .with_converted_type(converted)
            .with_repetition(repetition);
        field.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Type::group_type_builder(name).with_fields(fields).build().map(Arc::new)
}

/// The underlying I/O error, if there is one.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => io::Error::other(inner),
        other => io::Error::other(other),
    }
}
