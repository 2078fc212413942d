//! The keys of `[experiment]` as a table, and as a JSON Schema for editors. A test holds it beside what
//! the reader asks for.

use serde_json::{Map, Value, json};
use windward_sim::scenario::file::ScenarioFile;

use super::cast::{AGAINST, STANDARDS, SUBJECTS};
use super::reader::{ALL_PROTOCOLS, ALL_QUEUES, PLOT_KINDS};
use super::reading::Basis;
use super::{Experiment, Unit};
use crate::theory::Law;

/// A key: its name, what stands under it and what that means.
type Key = (&'static str, Form, &'static str);

/// What stands under a key.
#[derive(Debug, Clone, Copy)]
enum Form {
    Text,
    Flag,
    Number,
    /// A whole number from one on.
    Count,
    /// Two numbers.
    Bounds,
    /// A list of texts, or one alone.
    Texts,
    /// A list of values of the scenario, or a word that stands for one.
    Values,
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// Names that the file chooses, each with a text.
    Expressions,
    /// Keys of the scenario, each with a value of its own.
    Settings,
    /// Names of axes, each with a list of labels or one.
    Labels,
    /// A number, or a share as `"5%"`.
    Margin,
    /// Texts, and tables with these keys.
    Checks(&'static [Key]),
    Table(&'static [Key]),
    Tables(&'static [Key]),
}

use Form::{
    Bounds, Checks, Count, Expressions, Flag, Labels, Margin, Number, Settings, Table, Tables,
    Text, Texts, Values, Word,
};

const EXPERIMENT: &[Key] = &[
    ("id", Text, "name of its files and in references: letters, digits, - and _"),
    ("title", Text, "what it shows"),
    ("setting", Text, "topology and parameters, in the report"),
    ("choices", Texts, "what was chosen where the paper is silent, with the reason"),
    ("paper", Text, "key of the paper that it reproduces"),
    ("figure", Text, "the paper's figure, as Figure 3"),
    ("quick", Table(LENGTH), "how much a quick look runs: 5 repetitions"),
    ("full", Table(LENGTH), "how much the full measurement runs: 30 repetitions"),
    ("readings", Tables(SHARED_READING), "choices that the paper leaves open"),
    ("reported", Tables(REPORTED), "numbers of the paper's text about results"),
    ("axes", Tables(AXIS), "what is varied: the cells are all combinations"),
    ("metrics", Expressions, "what is computed from each run: names and expressions"),
    ("plots", Tables(PLOT), "what is drawn"),
    ("claims", Tables(CLAIM), "what is checked"),
];

const LENGTH: &[Key] = &[
    ("repetitions", Count, "runs of each cell, each with a seed of its own"),
    ("at_most", Count, "runs of a cell after which an open check stays open"),
    ("duration", Text, "instead of the scenario's"),
    ("warmup", Text, "instead of the scenario's"),
];

/// In an experiment, where readings may come from a file beside it.
const SHARED_READING: &[Key] = &[
    ("from", Text, "a file of [[readings]] beside this one"),
    ("names", Texts, "which of its readings"),
    ("name", Text, "what ties it to the same choice of other experiments"),
    ("choice", Text, "what is chosen"),
    ("silent", Text, "what the paper says about it, and what it does not"),
    ("values", Tables(READING_VALUE), "the reasonable values, at least two"),
];

const READING: &[Key] = &[
    ("name", Text, "what experiments call it"),
    ("choice", Text, "what is chosen"),
    ("silent", Text, "what the paper says about it, and what it does not"),
    ("values", Tables(READING_VALUE), "the reasonable values, at least two"),
];

const READING_VALUE: &[Key] = &[
    ("label", Text, "what people call it"),
    ("basis", Word(|| Basis::ALL.map(|(_, word)| word).to_vec()), "what kind of reason there is"),
    ("source", Text, "the reason: section, program and version, standard"),
    ("set", Settings, "what it sets in the scenario"),
];

const REPORTED: &[Key] = &[
    ("value", Text, "an expression over metrics at labels, as in checks"),
    ("number", Number, "the paper's number, in the unit of the metric"),
    ("range", Bounds, "instead of it, the range that the paper gives"),
    ("source", Text, "where in the paper"),
    ("text", Text, "its words"),
];

const AXIS: &[Key] = &[
    ("name", Text, "a column of the tables"),
    ("title", Text, "how charts call it"),
    ("key", Texts, "the key of the scenario that is varied, or several"),
    ("labels", Texts, "what the values are called, if not by themselves"),
    ("values", Values, "what it takes one after the other"),
    ("points", Tables(POINT), "instead of key and values: points that set several keys"),
    ("skip_impossible", Flag, "leave out points at which there can be no scenario"),
];

const POINT: &[Key] = &[
    ("label", Text, "how tables, charts and checks call it"),
    ("set", Settings, "what it sets in the scenario"),
];

const PLOT: &[Key] = &[
    ("kind", Word(|| PLOT_KINDS.to_vec()), "what is drawn"),
    ("x", Text, "lines, dots: the axis along the chart"),
    ("metrics", Texts, "lines, dots: what is drawn"),
    ("log", Flag, "lines: is the horizontal axis logarithmic?"),
    ("flows", Flag, "time: draw each flow; the scenario needs flow_bins"),
    ("groups", Texts, "time, cwnd: of which groups"),
    ("links", Texts, "queue, signal: of which links"),
    ("single", Flag, "over time: the first seed alone, not the mean of all"),
    ("unit", Word(|| Unit::ALL.map(|unit| unit.name).to_vec()), "of the axis of values"),
    ("references", Tables(REFERENCE), "lines to compare with"),
    ("y_log", Flag, "is the axis of values logarithmic?"),
    ("y", Bounds, "bounds of the axis of values"),
    ("title", Text, "above the chart, where there are several"),
    ("y_title", Text, "label of the axis of values"),
    ("only", Labels, "only the cells with these labels"),
];

const REFERENCE: &[Key] = &[
    ("label", Text, "what the line means"),
    ("curve", Word(|| Law::ALL.map(|(_, name, _)| name).to_vec()), "a curve from theory"),
    ("y", Number, "or a height, in the unit of the axis"),
    ("group", Text, "of a curve: the group, by default the first of connections"),
    ("link", Text, "of a curve: the link, by default the bottleneck of the group"),
];

const CLAIM: &[Key] = &[
    ("criterion", Text, "of an experiment of a suite: the criterion that asks it"),
    ("checks", Checks(CHECK), "the same as comparisons: all must hold"),
    ("id", Text, "its name, as L3"),
    ("claim", Text, "what the paper says"),
    ("expected", Text, "when it holds, in words"),
    ("explanation", Text, "why it does not hold, or not everywhere"),
    ("edition", Count, "2: its bound was written when numbers were known"),
];

const CHECK: &[Key] = &[
    ("check", Text, "a comparison"),
    ("any", Texts, "comparisons of which one must hold"),
    ("at", Texts, "the labels that * stands for"),
    ("tie", Margin, "how far apart two things may be that count as equal"),
];

const READINGS_FILE: &[Key] =
    &[("readings", Tables(READING), "choices that several experiments share")];

impl Experiment {
    /// A JSON Schema of scenario and experiment files: that of [`ScenarioFile::json_schema`], with the
    /// keys of `[experiment]`.
    pub fn json_schema() -> Value {
        let mut schema = ScenarioFile::json_schema();
        schema["title"] = json!("A scenario or experiment of Windward");
        schema["properties"]["experiment"] = table(EXPERIMENT);
        schema["properties"]["experiment"]["description"] =
            json!("what to vary, to compute, to draw and to check");
        schema
    }

    /// A JSON Schema of the files of readings that experiments share.
    pub fn readings_json_schema() -> Value {
        let mut schema = table(READINGS_FILE);
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!("Readings of Windward");
        schema
    }
}

fn table(keys: &[Key]) -> Value {
    let property = |(name, form, meaning): &Key| {
        let mut property = below(*form);
        property["description"] = json!(meaning);
        ((*name).to_owned(), property)
    };
    let properties: Map<String, Value> = keys.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn below(form: Form) -> Value {
    let list = |of: Value| json!({ "type": "array", "items": of });
    let text = || json!({ "type": "string" });
    let free = |of: Value| json!({ "type": "object", "additionalProperties": of });
    match form {
        Text => text(),
        Flag => json!({ "type": "boolean" }),
        Number => json!({ "type": "number" }),
        Count => json!({ "type": "integer", "minimum": 1, "maximum": 1_000_000 }),
        Bounds => json!({
            "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2,
        }),
        Texts => json!({ "anyOf": [text(), list(text())] }),
        Values => {
            let words = [ALL_PROTOCOLS, ALL_QUEUES, SUBJECTS, STANDARDS, AGAINST];
            json!({ "anyOf": [{ "enum": words }, list(json!({}))] })
        }
        Word(words) => json!({ "enum": words() }),
        Expressions => free(text()),
        Settings => free(json!({})),
        Labels => free(below(Texts)),
        Margin => json!({ "type": ["number", "string"] }),
        Checks(keys) => list(json!({ "anyOf": [text(), table(keys)] })),
        Table(keys) => table(keys),
        Tables(keys) => list(table(keys)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::builtin;
    use crate::experiment::{Cast, Subject};
    use crate::strict_toml::asked_for;

    /// Every key below a table, with the name that the reader has for the table.
    fn keys(name: &str, of: &[Key], into: &mut BTreeSet<(String, &'static str)>) {
        for (key, form, _) in of {
            into.insert((name.to_owned(), key));
            if let Table(below) | Tables(below) | Checks(below) = form {
                keys(&format!("{name}.{key}"), below, into);
            }
        }
    }

    /// The reader asks for every key that a table can have, whether it is there or not: what it asks for
    /// is what it knows.
    #[test]
    fn the_schema_has_the_keys_that_the_reader_asks_for() {
        let newreno = || vec![Subject::parse("newreno").unwrap()];
        let cast = Cast { subjects: newreno(), standards: newreno(), against: newreno() };
        let (_, asked) = asked_for(|| {
            builtin::all().unwrap();
            let of_suites = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/suites");
            for suite in fs::read_dir(of_suites).unwrap() {
                for file in fs::read_dir(suite.unwrap().path()).unwrap() {
                    let path = file.unwrap().path();
                    if path.file_name().is_some_and(|name| name != "suite.toml") {
                        let (name, text) = (path.display().to_string(), fs::read_to_string(&path));
                        let beside = |from: &str| Experiment::text_beside(&name, from);
                        Experiment::parse_with(&name, &text.unwrap(), &beside, &cast).unwrap();
                    }
                }
            }
        });
        let mut known = BTreeSet::new();
        keys("experiment", EXPERIMENT, &mut known);
        keys("the file", READINGS_FILE, &mut known);
        let asked: BTreeSet<_> = asked.into_iter().collect();
        assert_eq!(known, asked);
    }
}
