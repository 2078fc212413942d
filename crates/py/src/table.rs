//! Tables in Arrow's format, with its C data interface.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
    UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, Schema};
use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use windward_sim::table::Values;
use windward_sim::text::printable;

use crate::error;

/// Number of rows that a notebook shows.
const SHOWN: usize = 20;

/// A table of columns.
///
/// polars, pyarrow, pandas and DuckDB read it without a copy: ``polars.DataFrame(table)``,
/// ``pyarrow.table(table)``. ``table["column"]`` and ``to_pylist()`` need none of them.
#[pyclass(frozen, module = "windward")]
#[derive(Debug)]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    /// The columns of a table in Arrow's form.
    pub(crate) fn of(table: &windward_sim::table::Table) -> PyResult<Self> {
        let columns = table.columns.iter().map(|column| {
            let array: ArrayRef = match &column.values {
                Values::Text(texts) => Arc::new(StringArray::from_iter(texts.iter())),
                Values::Real(reals) => Arc::new(Float64Array::from_iter(reals.iter().copied())),
                Values::Count(counts) => {
                    let signed = |n: &Option<u64>| n.and_then(|n| i64::try_from(n).ok());
                    Arc::new(Int64Array::from_iter(counts.iter().map(signed)))
                }
                Values::Unsigned(counts) => {
                    Arc::new(UInt64Array::from_iter(counts.iter().copied()))
                }
            };
            (Field::new(&column.name, array.data_type().clone(), column.optional), array)
        });
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.unzip();
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays);
        Ok(Table { batch: batch.map_err(error::failed)? })
    }

    /// Another reference to the table; the columns are shared.
    pub(crate) fn share(&self) -> Self {
        Table { batch: self.batch.clone() }
    }

    /// The table as HTML for a notebook.
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
            let _ = write!(html, "<p>{} more rows</p>", rows - SHOWN);
        }
        html
    }

    /// The values of a column.
    fn column<'py>(&self, py: Python<'py>, column: &str) -> PyResult<Bound<'py, PyList>> {
        let index = self.batch.schema().index_of(column).map_err(|_| {
            let columns = self.column_names().join(", ");
            PyKeyError::new_err(format!("no column {column:?}; there are {columns}"))
        })?;
        let rows = 0..self.batch.num_rows();
        let cells: PyResult<Vec<_>> = rows.map(|row| self.cell(py, index, row)).collect();
        PyList::new(py, cells?)
    }

    /// A row as a dictionary.
    fn row<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (column, field) in self.batch.schema().fields().iter().enumerate() {
            dict.set_item(field.name(), self.cell(py, column, row)?)?;
        }
        Ok(dict)
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

    /// A cell as text.
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

/// A number with six significant digits.
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

    /// ``table["column"]`` is a list of the values of a column, ``None`` for an empty cell;
    /// ``table[0]`` is a row as a dictionary, ``table[-1]`` the last one.
    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(column) = key.extract::<String>() {
            return Ok(self.column(py, &column)?.into_any());
        }
        let Ok(index) = key.extract::<isize>() else {
            let message = format!("a table has columns by name and rows by number, not {key}");
            return Err(PyTypeError::new_err(message));
        };
        let rows = self.batch.num_rows();
        let row =
            if index < 0 { rows.checked_add_signed(index) } else { usize::try_from(index).ok() };
        match row.filter(|row| *row < rows) {
            Some(row) => Ok(self.row(py, row)?.into_any()),
            None => Err(PyIndexError::new_err(format!("row {index} of a table of {rows} rows"))),
        }
    }

    /// The rows, as dictionaries.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.to_pylist(py)?.try_iter()?.into_any())
    }

    /// One list per column.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.column_names() {
            dict.set_item(&name, self.column(py, &name)?)?;
        }
        Ok(dict)
    }

    /// One dictionary per row.
    pub(crate) fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = (0..self.batch.num_rows()).map(|row| self.row(py, row));
        PyList::new(py, rows.collect::<PyResult<Vec<_>>>()?)
    }

    /// The Arrow PyCapsule interface. A requested schema is ignored, as the specification allows.
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

/// Text with the special characters of HTML escaped.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
