use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;
use crate::testing::results;

fn small() -> Table {
    let mut table = Table::default();
    table.push("label", Values::Text(vec!["a, b".into(), "5 %".into()]));
    table.push("seed", Values::Count(vec![Some(u64::MAX), None]));
    table.push("x", Values::Real(vec![None, Some(0.1)]));
    table
}

#[test]
fn csv_reads_back() {
    let mut out = Vec::new();
    small().write_csv(&mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "label,seed,x\n\"a, b\",18446744073709551615,\n5 %,,0.1\n"
    );
}

#[test]
fn parquet_reads_back() {
    let mut file = tempfile::tempfile().unwrap();
    small().write_parquet(&mut file).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let fields = |row: usize| -> Vec<Field> {
        rows[row].get_column_iter().map(|(_, field)| field.clone()).collect()
    };
    assert_eq!(fields(0), [Field::Str("a, b".into()), Field::ULong(u64::MAX), Field::Null]);
    assert_eq!(fields(1), [Field::Str("5 %".into()), Field::Null, Field::Double(0.1)]);
}

#[test]
fn a_row_per_run_with_labels_seed_metrics_and_sums() {
    let table = results(1).run_table();
    assert_eq!(table.rows(), 18);
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[..6], ["protocol", "rate", "repetition", "seed", "clean", "ratio"]);
    assert!(names.contains(&"lossy.goodput_bps"));
    assert!(names.contains(&"bottleneck.utilization"));
    // Links that nothing crossed are left out.
    assert!(!names.iter().any(|n| n.contains("first-hop")), "{names:?}");
    let mut out = Vec::new();
    table.write_csv(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    // Row 1 is the second repetition of (newreno, 1 Mbit): seed 8, 1e6 + 8 bit/s.
    let second = text.lines().nth(2).unwrap();
    assert!(second.starts_with("newreno,1 Mbit,1,8,1000008,0.5,"), "{second}");
}

#[test]
fn a_row_per_flow_and_a_row_per_bin() {
    let results = results(1);
    // 18 runs of 2 flows; 18 runs of 10 bins.
    assert_eq!(results.flow_table().rows(), 36);
    let series = results.series_table();
    assert_eq!(series.rows(), 180);
    let start = series.columns.iter().find(|c| c.name == "bin_start_s").unwrap();
    let Values::Real(starts) = &start.values else { panic!("{start:?}") };
    assert_eq!(starts[..3], [Some(0.0), Some(1.0), Some(2.0)]);
}

#[test]
fn the_manifest_says_what_to_run_again() {
    let first = manifest_entry(&results(1));
    assert_eq!(first["command"], "windward sweep mine.toml --quick");
    assert_eq!(first["seed"], 7);
    assert_eq!(first["runs"], 18);
    assert_eq!(first["configuration_hash"].as_str().unwrap().len(), 16);
}
