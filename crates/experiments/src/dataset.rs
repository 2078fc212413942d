//! The rows of a growing sweep on disk: Parquet files that others may read at any time, a journal
//! of the rows that are in no file yet, and a record of each completed run.
//!
//! A dataset is a folder with a folder per experiment, `experiment=ID`, of files
//! `part-NNNNN.parquet`: what pyarrow, polars, DuckDB and Spark call hive partitions. Rows stand in
//! the order in which they came; the column `run.number` has the order of the experiment. Beside
//! them lies `.windward` with `ID.lock`, held by the writing process, `ID.json`, which describes
//! the sweep, and the journal `ID.rows`. Rows that were added survive the process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use parquet::basic::{ConvertedType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde::{Deserialize, Serialize};
use windward_sim::output::OutputDir;
use windward_sim::table::{Cell, Kind, Table, TableColumn, Texts, Values};

use crate::ExperimentError;
use crate::folder;
use crate::grid::Grid;
use crate::journal::{BUILD, Journal};
use crate::rows::{Row, table_of};

/// Name of the folder for internal files.
const INSIDE: &str = ".windward";
/// The column with the number of a run among those of the experiment.
const NUMBER: &str = "run.number";
/// Maximum number of rows of a file: that of a row group of a Parquet file.
const ROWS: usize = 1 << 16;

/// The completed runs of a grid, in a folder that only this process writes to.
#[derive(Debug)]
pub struct Dataset {
    partition: PathBuf,
    columns: Vec<(String, Kind)>,
    runs: u64,
    /// A bit per run.
    done: Vec<u64>,
    count: u64,
    /// Rows that are in the journal and in no file.
    open: Vec<Row>,
    journal: Journal,
    next_part: usize,
    _lock: File,
}

/// Description of the sweep in a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    id: String,
    version: String,
    /// Hash of the experiment's text and of later changes.
    configuration_hash: String,
    set: Vec<String>,
    repetitions: u32,
    duration: Option<String>,
    warmup: Option<String>,
    runs: u64,
    key: String,
}

impl Manifest {
    fn of(grid: &Grid) -> Self {
        let experiment = grid.experiment();
        let set = experiment.revision.overrides.iter().map(|(key, value)| format!("{key}={value}"));
        Manifest {
            id: experiment.id.clone(),
            version: BUILD.to_owned(),
            configuration_hash: format!("{:016x}", experiment.revision.configuration_hash),
            set: set.collect(),
            repetitions: grid.length().repetitions,
            duration: grid.length().duration.clone(),
            warmup: grid.length().warmup.clone(),
            runs: grid.runs(),
            key: format!("{:016x}", grid.key()),
        }
    }

    /// The first difference from another description, with both values.
    fn difference(&self, other: &Manifest) -> String {
        let length = |m: &Manifest| {
            let [duration, warmup] = [&m.duration, &m.warmup].map(|x| x.as_deref().unwrap_or("-"));
            format!("duration {duration} and warm-up {warmup}")
        };
        let pairs = [
            ("version", self.version.clone(), other.version.clone()),
            ("changes", self.set.join(" "), other.set.join(" ")),
            ("repetitions", self.repetitions.to_string(), other.repetitions.to_string()),
            ("length", length(self), length(other)),
            ("text", self.configuration_hash.clone(), other.configuration_hash.clone()),
        ];
        let different = pairs.into_iter().find(|(_, here, now)| here != now);
        different.map_or_else(String::new, |(what, here, now)| {
            format!(" (its {what}: {here} there, {now} now)")
        })
    }
}

impl Dataset {
    /// Opens or creates the dataset of a grid in a folder. With `resume` it may already contain
    /// runs.
    ///
    /// # Errors
    /// If it contains runs and `resume` is false, if they belong to other work of the same id, if
    /// another process writes there, or if the folder cannot be read or written.
    pub fn open(root: &Path, grid: &Grid, resume: bool) -> Result<Self, ExperimentError> {
        let id = &grid.experiment().id;
        let partition = root.join(format!("experiment={id}"));
        let refuse =
            |message: String| Err(ExperimentError::Folder { path: partition.clone(), message });
        for place in [root, &partition] {
            if place.exists() && !place.is_dir() {
                return Err(ExperimentError::Folder {
                    path: place.to_owned(),
                    message: "is a file, and a dataset is a folder: choose another".to_owned(),
                });
            }
        }
        let inside = root.join(INSIDE);
        for place in [&inside, &partition] {
            fs::create_dir_all(place).map_err(|e| ExperimentError::io("create", place, e))?;
        }
        let lock_path = inside.join(format!("{id}.lock"));
        let lock = folder::hold(&lock_path, &partition, "choose another folder")?;
        let manifest = Manifest::of(grid);
        let manifest_path = inside.join(format!("{id}.json"));
        match fs::read(&manifest_path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if let Some(part) = parts(&partition)?.first() {
                    return refuse(format!(
                        "has {} but no description of their sweep ({} is missing): choose another \
                         folder",
                        file_name(part),
                        manifest_path.display()
                    ));
                }
                let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
                let mut dir = OutputDir::create(&inside)?;
                dir.write(&format!("{id}.json"), |out| out.write_all(&text))?;
                dir.commit()?;
            }
            Err(e) => return Err(ExperimentError::io("read", &manifest_path, e)),
            Ok(bytes) => {
                let there: Option<Manifest> = serde_json::from_slice(&bytes).ok();
                if there.as_ref() != Some(&manifest) {
                    let how = there.map(|there| there.difference(&manifest)).unwrap_or_default();
                    return refuse(format!(
                        "has runs of another sweep called {id}{how}: choose another folder"
                    ));
                }
            }
        }
        let (journal, kept) = Journal::open(inside.join(format!("{id}.rows")), grid.key())?;
        let mut columns = vec![(NUMBER.to_owned(), Kind::Unsigned)];
        columns.extend(grid.columns());
        let mut dataset = Dataset {
            partition: partition.clone(),
            columns,
            runs: grid.runs(),
            done: vec![0; usize::try_from(grid.runs().div_ceil(64)).unwrap_or(usize::MAX)],
            count: 0,
            open: Vec::new(),
            journal,
            next_part: 0,
            _lock: lock,
        };
        for part in parts(&partition)? {
            dataset.next_part = dataset.next_part.max(part_number(&part).map_or(0, |n| n + 1));
            for run in numbers(&part)? {
                dataset.mark(run);
            }
        }
        for rows in kept {
            dataset.take(rows);
        }
        if dataset.count > 0 && !resume {
            return refuse(format!(
                "has {} of the {} runs of this sweep: go on with resume, or choose another folder",
                dataset.count, dataset.runs
            ));
        }
        Ok(dataset)
    }

    /// The folder with the Parquet files.
    pub fn path(&self) -> &Path {
        &self.partition
    }

    /// Number of completed runs.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// True if that run is complete.
    pub fn has(&self, run: u64) -> bool {
        let word = usize::try_from(run / 64).ok().and_then(|word| self.done.get(word));
        word.is_some_and(|word| word & (1 << (run % 64)) != 0)
    }

    /// Marks a run as complete; false if it already was, or if there is no such run.
    fn mark(&mut self, run: u64) -> bool {
        if run >= self.runs || self.has(run) {
            return false;
        }
        self.done[(run / 64) as usize] |= 1 << (run % 64);
        self.count += 1;
        true
    }

    /// Keeps the new rows.
    fn take(&mut self, rows: Vec<Row>) {
        for row in rows {
            if self.mark(row.run) {
                self.open.push(row);
            }
        }
    }

    /// Adds rows. Rows of runs that are already present are left out, since a second execution
    /// gives the same. After this returns, the rows survive the process.
    ///
    /// # Errors
    /// If they cannot be written. Rows that were added before are not lost.
    pub fn add(&mut self, rows: Vec<Row>) -> Result<(), ExperimentError> {
        let new: Vec<Row> = rows.into_iter().filter(|row| !self.has(row.run)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.journal.write(&new)?;
        self.take(new);
        if self.open.len() >= ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes the rows that are in no file yet into one that others can read.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn flush(&mut self) -> Result<(), ExperimentError> {
        if !self.open.is_empty() {
            self.open.sort_by_key(|row| row.run);
            let rows = self.open.iter().map(|row| {
                let mut cells = vec![Cell::Count(row.run)];
                cells.extend_from_slice(&row.cells);
                cells
            });
            let table = table_of(&self.columns, rows);
            let mut dir = OutputDir::create(&self.partition)?;
            let name = format!("part-{:05}.parquet", self.next_part);
            dir.write(&name, |out| table.write_parquet(out))?;
            dir.commit()?;
            self.next_part += 1;
            self.open.clear();
        }
        self.journal.remove()
    }

    /// All rows in the files of an experiment's folder, in the order of the experiment, with the
    /// columns of [`crate::sweep::Results::run_table`].
    ///
    /// # Errors
    /// If one of the files cannot be read, is not a file of a sweep, or has other columns than the
    /// others.
    pub fn read(partition: &Path) -> Result<Table, ExperimentError> {
        let mut whole: Option<Table> = None;
        for path in parts(partition)? {
            let part = read(&path, None)?;
            match &mut whole {
                None => whole = Some(part),
                Some(whole) => whole
                    .append(&part)
                    .ok_or_else(|| not_ours(&path, "has other columns than the others"))?,
            }
        }
        let missing = || not_ours(partition, "has no part-*.parquet, which a dataset consists of");
        let mut table = whole.ok_or_else(missing)?;
        let first = table.columns.first().filter(|column| column.name == NUMBER);
        let Some(TableColumn { values: Values::Unsigned(numbers), .. }) = first else {
            return Err(not_ours(
                partition,
                "has no column run.number, as datasets of sweeps have",
            ));
        };
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by_key(|row| numbers[*row]);
        table.columns.remove(0);
        for column in &mut table.columns {
            column.values = column.values.select(&order);
        }
        Ok(table)
    }
}

fn not_ours(path: &Path, message: &str) -> ExperimentError {
    ExperimentError::Folder { path: path.to_owned(), message: message.to_owned() }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The number of a file of rows, if its name has one.
fn part_number(path: &Path) -> Option<usize> {
    file_name(path).strip_prefix("part-")?.strip_suffix(".parquet")?.parse().ok()
}

/// The files with rows, in order.
fn parts(partition: &Path) -> Result<Vec<PathBuf>, ExperimentError> {
    let entries = fs::read_dir(partition).map_err(|e| ExperimentError::io("read", partition, e))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| ExperimentError::io("read", partition, e))?.path();
        if let Some(number) = part_number(&path) {
            found.push((number, path));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The numbers of the runs in a file.
fn numbers(path: &Path) -> Result<Vec<u64>, ExperimentError> {
    let table = read(path, Some(NUMBER))?;
    match table.columns.into_iter().next() {
        Some(TableColumn { values: Values::Unsigned(numbers), .. }) => {
            Ok(numbers.into_iter().flatten().collect())
        }
        _ => Err(not_ours(path, "has no column run.number, as datasets of sweeps have")),
    }
}

/// A Parquet file as [`Table::write_parquet`] writes it, or only one column of it.
fn read(path: &Path, only: Option<&str>) -> Result<Table, ExperimentError> {
    let file = File::open(path).map_err(|e| ExperimentError::io("read", path, e))?;
    columns(file, only).map_err(|e| ExperimentError::io("read", path, io::Error::other(e)))
}

fn columns(file: File, only: Option<&str>) -> Result<Table, ParquetError> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr_ptr();
    let mut table = Table::default();
    for (index, column) in schema.columns().iter().enumerate() {
        if only.is_some_and(|only| only != column.name()) {
            continue;
        }
        let mut values = match (column.physical_type(), column.converted_type()) {
            (Physical::BYTE_ARRAY, _) => Values::Text(Texts::default()),
            (Physical::INT64, ConvertedType::UINT_64) => Values::Unsigned(Vec::new()),
            (Physical::DOUBLE, _) => Values::Real(Vec::new()),
            (other, _) => {
                let message = format!("the column {} is of type {other}", column.name());
                return Err(ParquetError::General(message));
            }
        };
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group)?;
            let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
            let optional = column.max_def_level() > 0;
            match (group.get_column_reader(index)?, &mut values) {
                (ColumnReader::ByteArrayColumnReader(mut cells), Values::Text(all)) => {
                    for cell in cells_of(&mut cells, rows, optional)? {
                        all.push(Some(cell.as_ref().map_or(Ok(""), ByteArray::as_utf8)?));
                    }
                }
                (ColumnReader::Int64ColumnReader(mut cells), Values::Unsigned(all)) => {
                    let cells = cells_of(&mut cells, rows, optional)?;
                    all.extend(cells.into_iter().map(|cell| cell.map(i64::cast_unsigned)));
                }
                (ColumnReader::DoubleColumnReader(mut cells), Values::Real(all)) => {
                    all.extend(cells_of(&mut cells, rows, optional)?);
                }
                _ => {
                    let message = format!("the column {} changes its type", column.name());
                    return Err(ParquetError::General(message));
                }
            }
        }
        let optional = !matches!(values, Values::Text(_));
        let name = column.name().to_owned();
        table.columns.push(TableColumn { name, optional, values });
    }
    Ok(table)
}

/// The cells of a column in one group.
fn cells_of<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    optional: bool,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let (mut levels, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let mut done = 0;
    while done < rows {
        let levels = optional.then_some(&mut levels);
        let (read, ..) = reader.read_records(rows - done, levels, None, &mut values)?;
        if read == 0 {
            return Err(ParquetError::General("the file is not whole".to_owned()));
        }
        done += read;
    }
    if !optional {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
}

#[cfg(test)]
mod tests;
