//! Reader of `[[experiment.readings]]`, and of the file of readings that several experiments share.

use std::path::Path;

use windward_sim::keys;
use windward_sim::strict_toml::{
    Document, Field, KeySource, Result, Section, TomlType, readers, suggest, unnamed,
};

use super::settings::{any_kind, settings};
use crate::ExperimentError;
use crate::error::nearest;
use crate::experiment::{Axis, Basis, Reading, ReadingValue, SetAt, scaled};

/// Function that returns the text of a file by its name in the experiment.
pub(in crate::experiment) type Beside<'a> =
    &'a dyn Fn(&str) -> std::result::Result<String, ExperimentError>;

/// Maximum number of values of a choice.
const MAX_VALUES: usize = 50;
/// Largest number of an edition.
const MOST_EDITIONS: u32 = 1_000_000;

keys! {
    /// Keys of a reading of an experiment, which may come from a file beside it.
    pub(super) struct SharedReadingKeys<'a> in "shared_reading" {
        from: Option<&'a str> = readers::text(), absent,
            "a file of [[readings]] beside this one";
        names: Vec<Field<'a>> = readers::one_or_more(TomlType::Text), empty,
            "the names of its readings";
        name: Option<Field<'a>> = readers::any(|| TomlType::Text), absent,
            "its name, which identifies the same choice in other experiments";
        choice: Option<String> = readers::string(), absent, "what is chosen";
        silent: Option<String> = readers::string(), absent,
            "what the paper leaves open about it";
        values: Option<Field<'a>> = readers::any(values_kind), absent,
            "the reasonable values, at least two";
        edition: Option<u32> = readers::small(1..=MOST_EDITIONS), absent,
            "2 or more: it was added or changed after the first results";
        formerly: Option<String> = readers::string(), absent,
            "with a later edition: the former plain value, and the verdicts with it";
    }
}

fn values_kind() -> TomlType {
    TomlType::Tables { keys: &[ReadingValueKeys::KEYS], name_of: unnamed }
}

keys! {
    /// Keys of a file of readings.
    struct ReadingsFileKeys<'a> in "readings_file" {
        readings: Vec<Section<'a>> = readers::tables(&[ReadingKeys::KEYS], unnamed), empty,
            "choices that several experiments share";
    }
}

/// The declarations of the keys of a file of readings.
pub(in crate::experiment) const READINGS_FILE: &[KeySource] = &[ReadingsFileKeys::KEYS];

keys! {
    /// Keys of a reading.
    struct ReadingKeys<'a> in "reading" {
        name: Field<'a> = readers::any(|| TomlType::Text), needed "name = \"rwnd\"",
            "its name in experiments";
        choice: String = readers::string(), needed "choice = \"Receiver window\"",
            "what is chosen";
        silent: Option<String> = readers::string(), absent,
            "what the paper leaves open about it";
        values: Vec<Section<'a>> = readers::tables(&[ReadingValueKeys::KEYS], unnamed), empty,
            "the reasonable values, at least two";
        edition: u32 = readers::small(1..=MOST_EDITIONS), or 1,
            "2 or more: it was added or changed after the first results";
        formerly: Option<String> = readers::string(), absent,
            "with a later edition: the former plain value, and the verdicts with it";
    }

    /// Keys of a value of a reading.
    struct ReadingValueKeys<'a> in "reading_value" {
        label: Field<'a> = readers::any(|| TomlType::Text), needed "label = \"64 packets\"",
            "its name for readers";
        basis: Basis = readers::custom(basis_kind, basis), needed "basis = \"paper\"",
            "the kind of reason";
        source: Field<'a> = readers::any(|| TomlType::Text), needed "source = \"section 4\"",
            "the reason: section, program and version, standard";
        contradicted: Option<String> = readers::string(), absent,
            "the result of the paper that it makes impossible, so that it is never plain";
        against: Option<String> = readers::string(), absent,
            "the words of the paper that speak against it, though they do not exclude it";
        set: Section<'a> = readers::free(any_kind()), needed "set = { seed = 1 }",
            "the keys that it sets in the scenario";
        at: Option<Section<'a>> = readers::free(any_kind()), absent,
            "keys that it sets in the cells with one label: label and table";
        scale: Option<Section<'a>> = readers::free(number_kind()), absent,
            "factors for what an axis sets, by key";
    }
}

fn number_kind() -> TomlType {
    (readers::above_zero(LARGEST_FACTOR).kind)()
}

/// Largest factor of a scale.
const LARGEST_FACTOR: f64 = 1e12;

fn basis_kind() -> TomlType {
    TomlType::Words(Basis::ALL.map(|(_, word)| word).to_vec())
}

fn basis(field: &Field<'_>) -> Result<Basis> {
    let name = field.text()?;
    let found = Basis::ALL.into_iter().find(|(_, word)| *word == name);
    let words = Basis::ALL.map(|(_, word)| word);
    found.map(|(basis, _)| basis).ok_or_else(|| field.unknown("basis", name, words))
}

/// All readings that an experiment declares, its own and shared ones.
pub(super) fn read(
    file: &str,
    tables: &[Section<'_>],
    beside: Beside<'_>,
) -> std::result::Result<Vec<Reading>, ExperimentError> {
    let mut readings: Vec<Reading> = Vec::new();
    for table in tables {
        let keys = SharedReadingKeys::read(table)?;
        let found = match keys.from {
            None => {
                let own_keys = ["name", "choice", "silent", "values", "edition", "formerly"];
                table.only(&own_keys, "a reading without `from`")?;
                vec![own(table)?]
            }
            Some(from) => {
                table.only(&["from", "names"], "a reading of another file")?;
                if keys.names.is_empty() {
                    return Err(table.missing("names", "names = \"rwnd\"").into());
                }
                let known = shared(&neighbour(file, from), &beside(from)?)?;
                let pick = |field: &Field<'_>| {
                    let name = field.text()?;
                    let found = known.iter().find(|reading| reading.name == name);
                    found.cloned().ok_or_else(|| {
                        let all = known.iter().map(|reading| &*reading.name);
                        field
                            .error(format!("no reading `{name}` in {from}"))
                            .with_help(suggest(name, all))
                    })
                };
                keys.names.iter().map(pick).collect::<Result<_>>()?
            }
        };
        for reading in found {
            if readings.iter().any(|r| r.name == reading.name) {
                let message = format!("there are two readings `{}`", reading.name);
                return Err(table.error(message).into());
            }
            readings.push(reading);
        }
    }
    Ok(readings)
}

/// Name in errors of the file `from` that the file `name` refers to.
fn neighbour(name: &str, from: &str) -> String {
    match Path::new(name).parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.join(from).display().to_string(),
        _ => from.to_owned(),
    }
}

/// A file of `[[readings]]`.
fn shared(name: &str, text: &str) -> Result<Vec<Reading>> {
    let document = Document::parse(name, text)?;
    let tables = ReadingsFileKeys::read(&document.root(READINGS_FILE)?)?.readings;
    let mut readings: Vec<Reading> = Vec::new();
    for table in &tables {
        let reading = own(table)?;
        if readings.iter().any(|other| other.name == reading.name) {
            return Err(table.error(format!("there are two readings `{}`", reading.name)));
        }
        readings.push(reading);
    }
    Ok(readings)
}

fn own(table: &Section<'_>) -> Result<Reading> {
    let keys = ReadingKeys::read(table)?;
    let name = keys.name.text()?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // Tables contain the names of readings, and a spreadsheet would compute a text that begins with
    // a sign.
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(valid) {
        let message =
            "the `name` of a reading has letters, digits, `-` and `_` only, a letter first";
        return Err(keys.name.error(message));
    }
    if !(2..=MAX_VALUES).contains(&keys.values.len()) {
        let message = format!(
            "the reading `{name}` has {} `values`: a choice is one between 2 or more, {MAX_VALUES} \
             at most",
            keys.values.len()
        );
        return Err(table.error(message));
    }
    let mut values: Vec<ReadingValue> = Vec::new();
    for table in &keys.values {
        let value = value(table)?;
        if values.iter().any(|other| other.label == value.label) {
            return Err(table.error(format!("the reading has two values `{}`", value.label)));
        }
        // Two labels for the same settings would count twice.
        if let Some(same) = values.iter().find(|other| {
            (&other.set, &other.at, &other.scale) == (&value.set, &value.at, &value.scale)
        }) {
            let message = format!("`{}` sets the same as `{}`", value.label, same.label);
            return Err(table.error(message));
        }
        values.push(value);
    }
    if values.iter().all(|value| value.contradicted.is_some()) {
        return Err(table.error("results of the paper contradict each of its values"));
    }
    let ReadingKeys { choice, silent, edition, formerly, .. } = keys;
    if formerly.is_some() && edition < 2 {
        let help = "add `edition = 2`, the edition in which the plain value changed";
        let error = table.error_at("formerly", "a plain value changes in a later edition");
        return Err(error.with_help(help));
    }
    let (name, line) = (name.to_owned(), table.line());
    Ok(Reading { name, choice, silent, values, edition, formerly, line })
}

fn value(table: &Section<'_>) -> Result<ReadingValue> {
    let keys = ReadingValueKeys::read(table)?;
    let text = |field: &Field<'_>, empty: &str| match field.text()? {
        text if text.trim().is_empty() => Err(field.error(empty)),
        text => Ok(text.to_owned()),
    };
    Ok(ReadingValue {
        label: text(&keys.label, "the `label` is empty")?,
        basis: keys.basis,
        source: text(&keys.source, "`source` is empty: say where the value comes from")?,
        contradicted: keys.contradicted,
        against: keys.against,
        set: settings(&keys.set)?,
        at: keys.at.as_ref().map_or(Ok(Vec::new()), at)?,
        scale: keys.scale.as_ref().map_or(Ok(Vec::new()), scale)?,
        line: table.line(),
    })
}

/// `{ tcp = { "flows.*.protocol.recovery" = "reno" } }`
fn at(table: &Section<'_>) -> Result<Vec<SetAt>> {
    let of_label =
        |(label, field): (&str, Field<'_>)| Ok((label.to_owned(), settings(&field.section()?)?));
    table.entries().map(of_label).collect()
}

/// `{ "links.wire.ber" = 10 }`
fn scale(table: &Section<'_>) -> Result<Vec<(String, f64)>> {
    let factor = |(key, field): (&str, Field<'_>)| match field.is_block() {
        false => Ok((key.to_owned(), (readers::above_zero(LARGEST_FACTOR).read)(&field)?)),
        true => Err(field.error(format!("put the dotted key `{key}` in quotes"))),
    };
    table.entries().map(factor).collect()
}

/// Verifies that the axes have the labels that readings name, and set what they scale to numbers.
pub(super) fn check_axes(
    file: &str,
    readings: &[Reading],
    axes: &[Axis],
) -> std::result::Result<(), ExperimentError> {
    let values = readings.iter().flat_map(|r| r.values.iter().map(move |value| (r, value)));
    for (reading, value) in values {
        let error = |message: String| ExperimentError::Experiment {
            file: file.to_owned(),
            line: value.line,
            message: format!("the reading `{}` at `{}`: {message}", reading.name, value.label),
        };
        for (label, _) in &value.at {
            let labels = || axes.iter().flat_map(|axis| &axis.points).map(|point| &*point.label);
            if !labels().any(|known| known == label) {
                let hint = nearest(label, labels());
                return Err(error(format!("no axis has the label `{label}` of `at`{hint}")));
            }
        }
        for (key, factor) in &value.scale {
            let settings = axes.iter().flat_map(|axis| &axis.points).flat_map(|point| &point.set);
            let mut found = false;
            for (_, setting) in settings.filter(|(set, _)| set == key) {
                found = true;
                if scaled(setting, *factor).is_none() {
                    return Err(error(format!(
                        "`{setting}` of `{key}` begins with no number to scale"
                    )));
                }
            }
            if !found {
                return Err(error(format!("no axis sets `{key}`, so that `scale` has no effect")));
            }
        }
    }
    Ok(())
}
