//! Settings of the scenario in points and readings: keys and values as for `--set`.

use windward_sim::strict_toml::{Field, Result, Section, TomlType};

/// A value of the scenario.
pub(super) fn any_kind() -> TomlType {
    TomlType::OneOf(vec![TomlType::Any, TomlType::Foreign])
}

/// The settings in a table.
pub(super) fn settings(set: &Section<'_>) -> Result<Vec<(String, String)>> {
    let setting = |(key, field): (&str, Field<'_>)| match field.is_block() {
        false => Ok((key.to_owned(), field.as_setting())),
        true => Err(field.error(format!("put the dotted key `{key}` in quotes"))),
    };
    set.entries().map(setting).collect()
}
