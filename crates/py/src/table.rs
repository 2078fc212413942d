//! Tables as Arrow has them, for whatever reads its C data interface.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use windward_experiments::table::Values;
use windward_sim::table::{Cell, Column, Kind};
use windward_sim::text::printable;

use crate::error;

/// Rows that a notebook shows.
const SHOWN: usize = 20;

/// A table of columns.
///
/// polars, pyarrow, pandas and DuckDB read it without a copy: ``polars.DataFrame(table)``,
/// ``pyarrow.table(table)``. Without any of them there are ``table["column"]`` and ``to_pylist()``.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Table {
    batch: RecordBatch,
}

/// One column that is being filled.
enum Filling {
    Text(StringBuilder),
    Real(Float64Builder),
    Count(Int64Builder),
    Unsigned(UInt64Builder),
}

/// A table that is being filled row by row.
pub(crate) struct Rows {
    fields: Vec<Field>,
    values: Vec<Filling>,
}

impl Rows {
    pub(crate) fn new(columns: &[Column<'_>]) -> Self {
        let fields = columns.iter().map(|column| {
            let kind = match column.kind {
                Kind::Text => DataType::Utf8,
                Kind::Real => DataType::Float64,
                Kind::Count => DataType::Int64,
                Kind::Unsigned => DataType::UInt64,
            };
            Field::new(column.name, kind, column.optional)
        });
        let values = columns.iter().map(|column| match column.kind {
            Kind::Text => Filling::Text(StringBuilder::new()),
            Kind::Real => Filling::Real(Float64Builder::new()),
            Kind::Count => Filling::Count(Int64Builder::new()),
            Kind::Unsigned => Filling::Unsigned(UInt64Builder::new()),
        });
        Rows { fields: fields.collect(), values: values.collect() }
    }

    /// Adds a row: a cell for each column, of its kind. A cell of another kind is empty.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) {
        debug_assert_eq!(cells.len(), self.values.len());
        for (column, cell) in self.values.iter_mut().zip(cells) {
            match (column, *cell) {
                (Filling::Text(texts), Cell::Text(text)) => texts.append_value(text),
                (Filling::Text(texts), _) => texts.append_null(),
                (Filling::Real(reals), Cell::Real(x)) => reals.append_value(x),
                (Filling::Real(reals), _) => reals.append_null(),
                (Filling::Count(counts), Cell::Count(n)) => {
                    counts.append_option(i64::try_from(n).ok());
                }
                (Filling::Count(counts), _) => counts.append_null(),
                (Filling::Unsigned(counts), Cell::Count(n)) => counts.append_value(n),
                (Filling::Unsigned(counts), _) => counts.append_null(),
            }
        }
    }

    /// The table.
    ///
    /// # Errors
    /// If a column that is never empty has an empty cell.
    pub(crate) fn finish(self) -> PyResult<Table> {
        let columns = self.values.into_iter().map(|values| -> ArrayRef {
            match values {
                Filling::Text(mut texts) => Arc::new(texts.finish()),
                Filling::Real(mut reals) => Arc::new(reals.finish()),
                Filling::Count(mut counts) => Arc::new(counts.finish()),
                Filling::Unsigned(mut counts) => Arc::new(counts.finish()),
            }
        });
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, columns.collect()).map_err(error::failed)?;
        Ok(Table { batch })
    }
}

impl Table {
    /// A table of rows.
    pub(crate) fn of<'a, const N: usize>(
        columns: &[Column<'_>; N],
        rows: impl Iterator<Item = [Cell<'a>; N]>,
    ) -> PyResult<Self> {
        let mut table = Rows::new(columns);
        for row in rows {
            table.row(&row);
        }
        table.finish()
    }

    /// A table of the lab.
    pub(crate) fn of_lab(table: &windward_experiments::table::Table) -> PyResult<Self> {
        let (fields, columns): (Vec<_>, Vec<ArrayRef>) = table
            .columns
            .iter()
            .map(|column| match &column.values {
                Values::Text(texts) => {
                    let array = StringArray::from_iter_values(texts);
                    (Field::new(&column.name, DataType::Utf8, false), Arc::new(array) as ArrayRef)
                }
                Values::Count(counts) => {
                    let array = UInt64Array::from_iter(counts.iter().copied());
                    (Field::new(&column.name, DataType::UInt64, true), Arc::new(array) as ArrayRef)
                }
                Values::Real(reals) => {
                    let array = Float64Array::from_iter(reals.iter().copied());
                    (Field::new(&column.name, DataType::Float64, true), Arc::new(array) as ArrayRef)
                }
            })
            .unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Ok(Table { batch: batch.map_err(error::failed)? })
    }

    /// Another reference to the table; the columns are shared.
    pub(crate) fn share(&self) -> Self {
        Table { batch: self.batch.clone() }
    }

    /// As a notebook shows it.
    pub(crate) fn html(&self) -> String {
        let mut html = String::from("<table><thead><tr>");
        for name in self.column_names() {
            let _ = write!(html, "<th>{}</th>", escape(&name));
        }
        html.push_str("</tr></thead><tbody>");
        let rows = self.batch.num_rows();
        for row in 0..rows.min(SHOWN) {
            html.push_str("<tr>");
            for column in 0..self.batch.num_columns() {
                let _ = write!(html, "<td>{}</td>", escape(&self.text(column, row)));
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody></table>");
        if rows > SHOWN {
            let _ = write!(html, "<p>{} rows more</p>", rows - SHOWN);
        }
        html
    }

    fn cell(&self, py: Python<'_>, column: usize, row: usize) -> PyResult<Py<PyAny>> {
        let array = self.batch.column(column);
        if array.is_null(row) {
            return Ok(py.None());
        }
        let cell = match array.data_type() {
            DataType::Utf8 => array.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any()
            }
            DataType::Int64 => {
                array.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any()
            }
            _ => array.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any(),
        };
        Ok(cell.unbind())
    }

    /// As people read it.
    fn text(&self, column: usize, row: usize) -> String {
        let array = self.batch.column(column);
        if array.is_null(row) {
            return String::new();
        }
        match array.data_type() {
            DataType::Utf8 => printable(array.as_string::<i32>().value(row)).to_string(),
            DataType::Float64 => short(array.as_primitive::<Float64Type>().value(row)),
            DataType::Int64 => array.as_primitive::<Int64Type>().value(row).to_string(),
            _ => array.as_primitive::<UInt64Type>().value(row).to_string(),
        }
    }
}

/// A number of six significant digits.
fn short(x: f64) -> String {
    if x == 0.0 || (1e-4..1e15).contains(&x.abs()) {
        let digits = if x == 0.0 { 0.0 } else { 5.0 - x.abs().log10().floor() };
        let text = format!("{x:.*}", digits.clamp(0.0, 9.0) as usize);
        let text = if text.contains('.') { text.trim_end_matches('0') } else { &text };
        return text.trim_end_matches('.').to_owned();
    }
    format!("{x:.5e}")
}

#[pymethods]
impl Table {
    /// Names of the columns, in order.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// The values of a column; ``None`` for an empty cell.
    fn __getitem__<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let index = self.batch.schema().index_of(column).map_err(|_| {
            let columns = self.column_names().join(", ");
            PyKeyError::new_err(format!("no column {column:?}; there are {columns}"))
        })?;
        let rows = 0..self.batch.num_rows();
        let cells: PyResult<Vec<_>> = rows.map(|row| self.cell(py, index, row)).collect();
        PyList::new(py, cells?)
    }

    /// One list a column.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.column_names() {
            dict.set_item(&name, self.__getitem__(py, &name)?)?;
        }
        Ok(dict)
    }

    /// One dictionary a row.
    pub(crate) fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = self.column_names();
        let list = PyList::empty(py);
        for row in 0..self.batch.num_rows() {
            let dict = PyDict::new(py);
            for (column, name) in names.iter().enumerate() {
                dict.set_item(name, self.cell(py, column, row)?)?;
            }
            list.append(dict)?;
        }
        Ok(list)
    }

    /// The Arrow PyCapsule interface; a schema that is asked for is not heeded, as it may be.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The Arrow PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref());
        PyCapsule::new_with_value(py, schema.map_err(error::failed)?, c"arrow_schema")
    }

    fn __repr__(&self) -> String {
        let columns = self.column_names().join(", ");
        format!("<windward.Table of {} rows: {columns}>", self.batch.num_rows())
    }

    fn _repr_html_(&self) -> String {
        self.html()
    }
}

/// Text that HTML takes as text.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
