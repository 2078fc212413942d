//! `ns2.toml`: cells of a paper's experiments, measured once in ns-2 by `validation/ns2/column.py`.

use std::collections::BTreeMap;
use std::path::Path;

use windward_sim::keys;
use windward_sim::strict_toml::{
    Document, Field, KeySource, Result, Section, TomlType, json_schema, readers, unnamed,
};

use super::read_settings;
use crate::ExperimentError;
use crate::expression::{Cell, Expression};
use crate::statistics::Estimate;

/// Name of the file in a paper's folder.
pub const FILE: &str = "ns2.toml";

/// Least number of runs of a cell.
const LEAST_SEEDS: u32 = 8;

/// Cells of a paper's experiments in ns-2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ns2 {
    /// Version of ns-2.
    pub version: String,
    /// Date of the measurement.
    pub date: String,
    /// The script that measured.
    pub script: String,
    /// The readings that ns-2 was given, each with its value. They should be the plain ones.
    pub plain: BTreeMap<String, String>,
    /// The cells, in the order of the file.
    pub cells: Vec<Ns2Cell>,
}

/// A cell in ns-2.
#[derive(Debug, Clone, PartialEq)]
pub struct Ns2Cell {
    /// The experiment.
    pub experiment: String,
    /// A metric at labels, as written.
    pub text: String,
    /// The parsed expression.
    pub value: Expression<Cell>,
    /// Mean over the runs with its 95 % interval, in the unit of the metric.
    pub estimate: Estimate,
    /// Number of runs.
    pub seeds: u32,
}

keys! {
    /// Keys of a file of cells in ns-2.
    struct Ns2FileKeys<'a> in "ns2_file" {
        version: String = readers::string(), needed "version = \"2.35\"", "the version of ns-2";
        date: String = readers::string(), needed "date = \"2026-11-29\"",
            "the date of the measurement";
        script: String = readers::string(), needed "script = \"validation/ns2/column.py\"",
            "the script that measured";
        plain: BTreeMap<String, String> = readers::map_of_strings(),
            needed "plain = { rwnd = \"65 packets\" }",
            "the plain values of the readings that ns-2 was given";
        cells: Vec<Section<'a>> = readers::tables(&[Ns2CellKeys::KEYS], unnamed), empty,
            "the cells";
    }

    /// Keys of a cell in ns-2.
    struct Ns2CellKeys<'a> in "ns2_cell" {
        experiment: String = readers::string(), needed "experiment = \"lr2008-fig8\"",
            "the experiment";
        value: Field<'a> = readers::any(|| TomlType::Text), needed "value = \"fairness[reno, 1%]\"",
            "a metric at labels, as in checks";
        mean: f64 = readers::number(), needed "mean = 0.52", "mean over the runs";
        low: f64 = readers::number(), needed "low = 0.5", "lower end of the 95 % interval";
        high: f64 = readers::number(), needed "high = 0.54", "upper end";
        seeds: u32 = readers::small(LEAST_SEEDS..=1_000_000), needed "seeds = 32",
            "number of runs";
    }
}

/// The declarations of the keys of the file.
const KEYS: &[KeySource] = &[Ns2FileKeys::KEYS];

impl Ns2 {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or anything in it is wrong.
    pub fn read(path: &Path) -> std::result::Result<Self, ExperimentError> {
        read_settings(path, Self::parse)
    }

    /// Parses a text; `name` is the file's name in errors.
    ///
    /// # Errors
    /// If anything in it is wrong.
    pub fn parse(name: &str, text: &str) -> std::result::Result<Self, ExperimentError> {
        let document = Document::parse(name, text)?;
        let keys = Ns2FileKeys::read(&document.root(KEYS)?)?;
        let mut cells: Vec<Ns2Cell> = Vec::new();
        for table in &keys.cells {
            let cell = cell(table)?;
            let is_same = |c: &Ns2Cell| (&c.experiment, &c.text) == (&cell.experiment, &cell.text);
            if cells.iter().any(is_same) {
                let message = format!("there are two cells `{}:{}`", cell.experiment, cell.text);
                return Err(table.error(message).into());
            }
            cells.push(cell);
        }
        let Ns2FileKeys { version, date, script, plain, .. } = keys;
        Ok(Ns2 { version, date, script, plain, cells })
    }

    /// The cells of an experiment.
    pub fn of<'a>(&'a self, experiment: &'a str) -> impl Iterator<Item = &'a Ns2Cell> {
        self.cells.iter().filter(move |cell| cell.experiment == experiment)
    }

    /// A JSON Schema of the file.
    pub fn json_schema() -> serde_json::Value {
        json_schema("Cells in ns-2", KEYS)
    }
}

fn cell(table: &Section<'_>) -> Result<Ns2Cell> {
    let Ns2CellKeys { experiment, value, mean, low, high, seeds } = Ns2CellKeys::read(table)?;
    let text = value.text()?.to_owned();
    let parsed = Expression::<Cell>::parse(&text).map_err(|wrong| value.error(wrong))?;
    if parsed.leaf().is_none_or(|cell| cell.experiment.is_some()) {
        return Err(value.error("expected one cell of the experiment, as `fairness[reno, 1%]`"));
    }
    if !(low <= mean && mean <= high) {
        return Err(table.error(format!("expected low <= mean <= high, not {low}, {mean}, {high}")));
    }
    let estimate = Estimate { mean, low, high };
    Ok(Ns2Cell { experiment, text, value: parsed, estimate, seeds })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = \"2.35\"\ndate = \"2026-11-29\"\nscript = \"s\"\n\
                        plain = { rwnd = \"65 packets\" }\n";

    fn with(cell: &str) -> std::result::Result<Ns2, String> {
        Ns2::parse("ns2.toml", &format!("{HEAD}[[cells]]\n{cell}")).map_err(|e| e.to_string())
    }

    #[test]
    fn a_file_is_read() {
        let ns2 = with(
            "experiment = \"f\"\nvalue = \"fairness[reno, 1%]\"\nmean = 0.5\nlow = 0.4\n\
             high = 0.6\nseeds = 8\n",
        )
        .unwrap();
        assert_eq!(ns2.plain["rwnd"], "65 packets");
        let cell = ns2.of("f").next().unwrap();
        assert_eq!(cell.value.leaf().unwrap().labels, ["reno", "1%"]);
        assert_eq!(cell.estimate, Estimate { mean: 0.5, low: 0.4, high: 0.6 });
        assert_eq!(ns2.of("g").count(), 0);
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        let cell = |value: &str, mean: &str, seeds: u32| {
            with(&format!(
                "experiment = \"f\"\nvalue = \"{value}\"\nmean = {mean}\nlow = 0.4\nhigh = 0.6\n\
                 seeds = {seeds}\n"
            ))
            .unwrap_err()
        };
        for (error, part) in [
            (cell("a[x] / b[x]", "0.5", 8), "ns2.toml:7"),
            (cell("a[x] / b[x]", "0.5", 8), "expected one cell"),
            (cell("g:a[x]", "0.5", 8), "expected one cell"),
            (cell("a[x]", "0.7", 8), "expected low <= mean <= high, not 0.4, 0.7, 0.6"),
            (cell("a[x]", "0.5", 7), "seeds = 7"),
            (with("experiment = \"f\"\nvalue = \"a[x]\"\n").unwrap_err(), "mean = 0.52"),
        ] {
            assert!(error.contains(part), "{error}");
        }
        let twice =
            "experiment = \"f\"\nvalue = \"a[x]\"\nmean = 1\nlow = 1\nhigh = 1\nseeds = 8\n";
        let error = with(&format!("{twice}[[cells]]\n{twice}")).unwrap_err();
        assert!(error.contains("there are two cells `f:a[x]`"), "{error}");
    }
}
