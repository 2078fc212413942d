//! Rows of known columns into a CSV or a Parquet file, as they come.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type as SchemaType;

use super::Format;
use crate::failure::Failure;
use crate::staged::StagedFile;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Text,
    Real,
    Count,
}

/// One value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Text(&'a str),
    Real(f64),
    Count(u64),
}

/// A file of rows being written.
#[derive(Debug)]
pub(super) enum TableWriter {
    Csv(Box<csv::Writer<StagedFile>>),
    Parquet(Box<ParquetRows>),
}

impl TableWriter {
    /// Begins `name.csv` or `name.parquet` in `dir`.
    pub(super) fn create(
        dir: &Path,
        name: &str,
        format: Format,
        columns: &[(&str, Column)],
    ) -> Result<Self, Failure> {
        match format {
            Format::Csv => {
                let file = StagedFile::create(dir, &format!("{name}.csv"))?;
                let mut writer = csv::Writer::from_writer(file);
                let header = columns.iter().map(|(name, _)| name);
                writer
                    .write_record(header)
                    .map_err(|e| cannot_write(writer.get_ref().path(), e))?;
                Ok(TableWriter::Csv(Box::new(writer)))
            }
            Format::Parquet => {
                let file = StagedFile::create(dir, &format!("{name}.parquet"))?;
                let rows = ParquetRows::new(file, name, columns)?;
                Ok(TableWriter::Parquet(Box::new(rows)))
            }
        }
    }

    /// Where the file will be.
    pub(super) fn path(&self) -> &Path {
        match self {
            TableWriter::Csv(writer) => writer.get_ref().path(),
            TableWriter::Parquet(rows) => rows.writer.inner().path(),
        }
    }

    /// Adds a row; a cell for each column, of its kind.
    pub(super) fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), Failure> {
        match self {
            TableWriter::Csv(writer) => {
                let mut result = Ok(());
                for cell in cells {
                    result = result.and_then(|()| match cell {
                        Cell::Text(text) => writer.write_field(text),
                        Cell::Real(x) => writer.write_field(x.to_string()),
                        Cell::Count(n) => writer.write_field(n.to_string()),
                    });
                }
                result
                    .and_then(|()| writer.write_record(None::<&[u8]>))
                    .map_err(|e| cannot_write(writer.get_ref().path(), e))
            }
            TableWriter::Parquet(rows) => rows.row(cells),
        }
    }

    /// Completes the content; the file still has to be published.
    pub(super) fn close(self) -> Result<StagedFile, Failure> {
        let path = self.path().to_owned();
        match self {
            TableWriter::Csv(writer) => writer.into_inner().map_err(|e| cannot_write(&path, e)),
            TableWriter::Parquet(mut rows) => {
                rows.write_group()?;
                rows.writer.into_inner().map_err(|e| cannot_write(&path, e))
            }
        }
    }
}

fn cannot_write(path: &Path, error: impl Display) -> Failure {
    Failure::file("write", path, error)
}

/// Rows that are written as Parquet row groups.
#[derive(Debug)]
pub(super) struct ParquetRows {
    writer: SerializedFileWriter<StagedFile>,
    columns: Vec<ColumnBuffer>,
    rows: usize,
}

#[derive(Debug)]
enum ColumnBuffer {
    Text(Vec<ByteArray>),
    Real(Vec<f64>),
    Count(Vec<i64>),
}

impl ParquetRows {
    /// Rows of a group; a group is written when it is full.
    const GROUP: usize = 1 << 16;

    fn new(file: StagedFile, name: &str, columns: &[(&str, Column)]) -> Result<Self, Failure> {
        let path = file.path().to_owned();
        let writer = schema(name, columns).and_then(|schema| {
            let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
            SerializedFileWriter::new(file, schema, Arc::new(properties.build()))
        });
        Ok(ParquetRows {
            writer: writer.map_err(|e| cannot_write(&path, e))?,
            columns: columns
                .iter()
                .map(|(_, column)| match column {
                    Column::Text => ColumnBuffer::Text(Vec::new()),
                    Column::Real => ColumnBuffer::Real(Vec::new()),
                    Column::Count => ColumnBuffer::Count(Vec::new()),
                })
                .collect(),
            rows: 0,
        })
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<(), Failure> {
        for (buffer, cell) in self.columns.iter_mut().zip(cells) {
            match (buffer, *cell) {
                (ColumnBuffer::Text(values), Cell::Text(text)) => values.push(text.into()),
                (ColumnBuffer::Real(values), Cell::Real(x)) => values.push(x),
                // Counts of packets in a run stay far below 2^63.
                (ColumnBuffer::Count(values), Cell::Count(n)) => values.push(n as i64),
                _ => unreachable!("a cell of the wrong kind for its column"),
            }
        }
        self.rows += 1;
        if self.rows < Self::GROUP {
            return Ok(());
        }
        self.write_group()
    }

    fn write_group(&mut self) -> Result<(), Failure> {
        self.rows = 0;
        let path = self.writer.inner().path().to_owned();
        self.try_write_group().map_err(|e| cannot_write(&path, e))
    }

    fn try_write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for buffer in &mut self.columns {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            match buffer {
                ColumnBuffer::Text(values) => {
                    column.typed::<ByteArrayType>().write_batch(values, None, None)?;
                    values.clear();
                }
                ColumnBuffer::Real(values) => {
                    column.typed::<DoubleType>().write_batch(values, None, None)?;
                    values.clear();
                }
                ColumnBuffer::Count(values) => {
                    column.typed::<Int64Type>().write_batch(values, None, None)?;
                    values.clear();
                }
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn schema(name: &str, columns: &[(&str, Column)]) -> Result<Arc<SchemaType>, ParquetError> {
    let fields = columns
        .iter()
        .map(|(name, column)| {
            let (physical, converted) = match column {
                Column::Text => (PhysicalType::BYTE_ARRAY, ConvertedType::UTF8),
                Column::Real => (PhysicalType::DOUBLE, ConvertedType::NONE),
                Column::Count => (PhysicalType::INT64, ConvertedType::NONE),
            };
            SchemaType::primitive_type_builder(name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_converted_type(converted)
                .build()
                .map(Arc::new)
        })
        .collect::<Result<_, _>>()?;
    SchemaType::group_type_builder(name).with_fields(fields).build().map(Arc::new)
}
