use std::fs::OpenOptions;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::experiment::{Effort, Experiment};
use crate::testing::{experiment, options};

fn short() -> Experiment {
    let mut experiment = experiment();
    experiment.set("duration", "1s").unwrap();
    experiment
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

fn grid() -> Grid {
    Grid::new(&short(), &Effort::Quick, &never()).unwrap()
}

fn whole() -> Table {
    let plan = short().plan(&Effort::Quick).unwrap();
    plan.run(&options(2, &never())).unwrap().run_table()
}

fn rows(grid: &Grid, runs: &[u64]) -> Vec<Row> {
    grid.run(runs, &never()).unwrap()
}

fn refusal(result: Result<Dataset, ExperimentError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn rows_that_come_in_any_order_twice_and_in_parts_are_the_sweep() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid();
    let mut dataset = Dataset::open(dir.path(), &grid, false).unwrap();
    dataset.add(rows(&grid, &[17, 3])).unwrap();
    dataset.flush().unwrap();
    // Others read it meanwhile.
    assert_eq!(Dataset::read(dataset.path()).unwrap().rows(), 2);
    dataset.add(rows(&grid, &[3, 4])).unwrap();
    assert_eq!(dataset.count(), 3);
    assert!(dataset.has(4) && !dataset.has(5) && !dataset.has(99));
    let rest: Vec<u64> = (0..18).rev().filter(|run| !dataset.has(*run)).collect();
    dataset.add(rows(&grid, &rest)).unwrap();
    dataset.flush().unwrap();
    assert_eq!(Dataset::read(dataset.path()).unwrap(), whole());
}

#[test]
fn added_rows_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid();
    let mut dataset = Dataset::open(dir.path(), &grid, false).unwrap();
    dataset.add(rows(&grid, &[0, 1])).unwrap();
    dataset.flush().unwrap();
    dataset.add(rows(&grid, &[2])).unwrap();
    dataset.add(rows(&grid, &[3])).unwrap();
    // Nothing is flushed, as after kill -9, and the last record is torn.
    let journal = dir.path().join(".windward/mine.rows");
    drop(dataset);
    let length = fs::metadata(&journal).unwrap().len();
    OpenOptions::new().write(true).open(&journal).unwrap().set_len(length - 3).unwrap();
    let mut dataset = Dataset::open(dir.path(), &grid, true).unwrap();
    assert_eq!(dataset.count(), 3);
    let rest: Vec<u64> = (0..18).filter(|run| !dataset.has(*run)).collect();
    dataset.add(rows(&grid, &rest)).unwrap();
    dataset.flush().unwrap();
    assert!(!journal.exists());
    assert_eq!(Dataset::read(dataset.path()).unwrap(), whole());
}

#[test]
fn rows_that_are_in_a_file_and_still_in_the_journal_are_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid();
    let mut dataset = Dataset::open(dir.path(), &grid, false).unwrap();
    dataset.add(rows(&grid, &[0, 1])).unwrap();
    let journal = dir.path().join(".windward/mine.rows");
    let copy = fs::read(&journal).unwrap();
    dataset.flush().unwrap();
    drop(dataset);
    // Killed between the file's appearance and the journal's end.
    fs::write(&journal, copy).unwrap();
    let mut dataset = Dataset::open(dir.path(), &grid, true).unwrap();
    assert_eq!(dataset.count(), 2);
    dataset.flush().unwrap();
    assert_eq!(Dataset::read(dataset.path()).unwrap().rows(), 2);
}

#[test]
fn a_dataset_of_something_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let grid = grid();
    let mut dataset = Dataset::open(dir.path(), &grid, false).unwrap();
    let busy = refusal(Dataset::open(dir.path(), &grid, true));
    assert!(busy.contains("another windward is writing"), "{busy}");
    dataset.add(rows(&grid, &[0])).unwrap();
    drop(dataset);
    let again = refusal(Dataset::open(dir.path(), &grid, false));
    assert!(again.contains("has 1 of the 18 runs of this sweep: go on with resume"), "{again}");
    let mut changed = experiment();
    changed.set("duration", "2s").unwrap();
    let other = Grid::new(&changed, &Effort::Quick, &never()).unwrap();
    let message = refusal(Dataset::open(dir.path(), &other, true));
    assert!(message.contains("(its changes: duration=1s there, duration=2s now)"), "{message}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refusal(Dataset::open(&file, &grid, true)).contains("is a file"));
}

#[test]
fn files_that_are_not_a_dataset_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Dataset::read(&dir.path().join("none")).unwrap_err().to_string();
    assert!(missing.contains("cannot read"), "{missing}");
    let empty = Dataset::read(dir.path()).unwrap_err().to_string();
    assert!(empty.contains("no part-*.parquet"), "{empty}");
    fs::write(dir.path().join("part-00000.parquet"), "no Parquet").unwrap();
    let broken = Dataset::read(dir.path()).unwrap_err().to_string();
    assert!(broken.contains("part-00000.parquet: cannot read"), "{broken}");
    let foreign = dir.path().join("data/experiment=mine");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("part-00000.parquet"), "").unwrap();
    let message = refusal(Dataset::open(&dir.path().join("data"), &grid(), true));
    assert!(message.contains("no description of their sweep"), "{message}");
}
