//! Reads `[[experiment.readings]]`, and the file of a paper that several experiments share.

use std::path::Path;

use toml_edit::Document;

use super::settings;
use crate::LabError;
use crate::error::nearest;
use crate::experiment::{Basis, Reading, ReadingValue};
use crate::strict_toml::{Section, Source};

/// Gives the text of a file that an experiment names, as it is written there.
pub(in crate::experiment) type Beside<'a> = &'a dyn Fn(&str) -> Result<String, LabError>;

/// More values than these of one choice are a mistake.
const MAX_VALUES: usize = 50;

/// All readings that an experiment declares, its own and shared ones.
pub(super) fn read(
    source: Source<'_>,
    section: &Section<'_>,
    beside: Beside<'_>,
) -> Result<Vec<Reading>, LabError> {
    let mut readings: Vec<Reading> = Vec::new();
    for table in section.sections("readings")? {
        let line = table.line;
        let found = match table.text("from")? {
            None => vec![own(source, table)?],
            Some(from) => {
                let names = table.texts("names")?;
                if names.is_empty() {
                    return Err(table.missing("names"));
                }
                table.finish()?;
                let known = shared(&neighbour(source.name, &from.value), &beside(&from.value)?)?;
                let pick = |name: &crate::strict_toml::At<String>| {
                    let found = known.iter().find(|r| r.name == name.value);
                    found.cloned().ok_or_else(|| {
                        let hint = nearest(&name.value, known.iter().map(|r| r.name.as_str()));
                        let message =
                            format!("no reading `{}` in {}{hint}", name.value, from.value);
                        source.error(name.line, message)
                    })
                };
                names.iter().map(pick).collect::<Result<_, _>>()?
            }
        };
        for reading in found {
            if readings.iter().any(|r| r.name == reading.name) {
                let message = format!("there are two readings `{}`", reading.name);
                return Err(source.error(line, message));
            }
            readings.push(reading);
        }
    }
    Ok(readings)
}

/// How errors call the file `from` that the file `name` refers to.
fn neighbour(name: &str, from: &str) -> String {
    match Path::new(name).parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.join(from).display().to_string(),
        _ => from.to_owned(),
    }
}

/// A file of `[[readings]]`.
fn shared(name: &str, text: &str) -> Result<Vec<Reading>, LabError> {
    let source = Source { name, text };
    let document =
        Document::parse(text).map_err(|e| source.error(source.line(e.span()), e.message()))?;
    source.check_texts(document.as_table())?;
    let root = Section::new(source, "the file", document.as_item())?;
    let tables = root.sections("readings")?;
    let readings = tables.into_iter().map(|table| own(source, table));
    let readings: Vec<Reading> = readings.collect::<Result<_, _>>()?;
    root.finish()?;
    for (i, reading) in readings.iter().enumerate() {
        if readings[..i].iter().any(|r| r.name == reading.name) {
            let message = format!("there are two readings `{}`", reading.name);
            return Err(source.error(reading.line, message));
        }
    }
    Ok(readings)
}

fn own(source: Source<'_>, table: Section<'_>) -> Result<Reading, LabError> {
    let name = table.needed_text("name")?;
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    // Tables name readings, and a spreadsheet would compute what begins with a sign.
    if !name.value.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.value.chars().all(valid)
    {
        let message = format!(
            "the `name` of a reading has letters, digits, `-` and `_` only, a letter first, not `{}`",
            name.value
        );
        return Err(source.error(name.line, message));
    }
    let values = table.sections("values")?;
    let values: Vec<ReadingValue> =
        values.into_iter().map(|v| value(source, v)).collect::<Result<_, _>>()?;
    if !(2..=MAX_VALUES).contains(&values.len()) {
        let message = format!(
            "the reading `{}` has {} `values`: a choice is one between 2 or more, {MAX_VALUES} at \
             most",
            name.value,
            values.len()
        );
        return Err(table.error(message));
    }
    for (i, value) in values.iter().enumerate() {
        if values[..i].iter().any(|v| v.label == value.label) {
            let message = format!("the reading has two values `{}`", value.label);
            return Err(source.error(value.line, message));
        }
        // Two words for one thing would count twice.
        if let Some(same) = values[..i].iter().find(|v| v.set == value.set) {
            let message = format!("`{}` sets the same as `{}`", value.label, same.label);
            return Err(source.error(value.line, message));
        }
    }
    let reading = Reading {
        name: name.value,
        choice: table.needed_text("choice")?.value,
        silent: table.text("silent")?.map(|t| t.value),
        values,
        line: table.line,
    };
    table.finish()?;
    Ok(reading)
}

fn value(source: Source<'_>, table: Section<'_>) -> Result<ReadingValue, LabError> {
    let basis = table.needed_text("basis")?;
    let found = Basis::ALL.into_iter().find(|(_, word)| *word == basis.value);
    let (basis, _) = found.ok_or_else(|| {
        let hint = nearest(&basis.value, Basis::ALL.map(|(_, word)| word));
        source.error(basis.line, format!("unknown basis `{}`{hint}", basis.value))
    })?;
    let label = table.needed_text("label")?;
    if label.value.trim().is_empty() {
        return Err(source.error(label.line, "the `label` is empty"));
    }
    let reason = table.needed_text("source")?;
    if reason.value.trim().is_empty() {
        let message = "`source` is empty: say where the value comes from";
        return Err(source.error(reason.line, message));
    }
    let Some(set) = table.section("set")? else { return Err(table.missing("set")) };
    let value = ReadingValue {
        label: label.value,
        basis,
        source: reason.value,
        set: settings(source, &set)?,
        line: table.line,
    };
    table.finish()?;
    Ok(value)
}
