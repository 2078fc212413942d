//! Rows gathered into columns, and columns written as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::{Cell, Column, Kind};

/// Rows of a group; a group is written when it is full.
const GROUP: usize = 1 << 16;

/// A Parquet file being written, and the rows that are not in it yet.
#[derive(Debug)]
pub(super) struct Rows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Buffer>,
    rows: usize,
}

/// The cells of a column.
#[derive(Debug)]
struct Buffer {
    /// One for each cell, 1 where there is a value; `None` if the column is not optional.
    levels: Option<Vec<i16>>,
    values: Values,
}

/// Those cells of a column that are not empty.
#[derive(Debug)]
enum Values {
    Text(Vec<ByteArray>),
    Real(Vec<f64>),
    /// Parquet keeps an unsigned number as the signed one of its bits.
    Whole(Vec<i64>),
}

impl<W: Write + Send> Rows<W> {
    pub(super) fn new(out: W, name: &str, columns: &[Column<'_>]) -> io::Result<Self> {
        let writer = schema(name, columns).and_then(|schema| {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            SerializedFileWriter::new(out, schema, Arc::new(properties.build()))
        });
        let columns = columns.iter().map(|column| Buffer {
            levels: column.optional.then(Vec::new),
            values: match column.kind {
                Kind::Text => Values::Text(Vec::new()),
                Kind::Real => Values::Real(Vec::new()),
                Kind::Count | Kind::Unsigned => Values::Whole(Vec::new()),
            },
        });
        Ok(Rows { writer: writer.map_err(plain)?, columns: columns.collect(), rows: 0 })
    }

    /// The cells suit the columns.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        for (buffer, cell) in self.columns.iter_mut().zip(cells) {
            if let Some(levels) = &mut buffer.levels {
                levels.push(i16::from(*cell != Cell::Empty));
            }
            match (&mut buffer.values, *cell) {
                (Values::Text(values), Cell::Text(text)) => values.push(text.into()),
                (Values::Real(values), Cell::Real(x)) => values.push(x),
                (Values::Whole(values), Cell::Count(n)) => values.push(n.cast_signed()),
                _ => {}
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.write_group().map_err(plain) } else { Ok(()) }
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_group().map_err(plain)?;
        self.writer.into_inner().map_err(plain)
    }

    fn write_group(&mut self) -> Result<()> {
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for buffer in &mut self.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            let levels = buffer.levels.as_deref();
            match &mut buffer.values {
                Values::Text(values) => write::<ByteArrayType>(&mut column, values, levels)?,
                Values::Real(values) => write::<DoubleType>(&mut column, values, levels)?,
                Values::Whole(values) => write::<Int64Type>(&mut column, values, levels)?,
            }
            if let Some(levels) = &mut buffer.levels {
                levels.clear();
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn write<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &mut Vec<T::T>,
    levels: Option<&[i16]>,
) -> Result<()> {
    column.typed::<T>().write_batch(values, levels, None)?;
    values.clear();
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

/// The system's own error where there is one.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => io::Error::other(inner),
        other => io::Error::other(other),
    }
}
