//! Values of a file as TOML text.

use std::fmt::{self, Write as _};

use toml_writer::TomlWrite as _;

use super::tree::{TomlNode, TomlTable, TomlValue};

impl TomlTable {
    /// The entries that `wanted` accepts, as TOML: first values, then tables and arrays of tables,
    /// each in the order of the file. Tables within tables are written on one line.
    pub(crate) fn to_toml(&self, wanted: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = sections(&mut text, self, &wanted);
        text
    }
}

fn sections(text: &mut String, table: &TomlTable, wanted: &impl Fn(&str) -> bool) -> fmt::Result {
    let entries = || table.entries.iter().filter(|(key, _)| wanted(key));
    for (key, node) in entries().filter(|(_, node)| tables(node).is_none()) {
        entry(text, key, node)?;
        text.newline()?;
    }
    for (key, node) in entries() {
        for table in tables(node).unwrap_or_default() {
            let is_array = matches!(node.value, TomlValue::Array(_));
            if !text.is_empty() {
                text.newline()?;
            }
            let (open, close) = if is_array { ("[[", "]]") } else { ("[", "]") };
            text.write_str(open)?;
            text.key(key)?;
            text.write_str(close)?;
            text.newline()?;
            for (key, node) in &table.entries {
                entry(text, key, node)?;
                text.newline()?;
            }
        }
    }
    Ok(())
}

/// The tables of a value that stands under headers of its own.
fn tables(node: &TomlNode) -> Option<Vec<&TomlTable>> {
    match &node.value {
        TomlValue::Table(table) => Some(vec![table]),
        TomlValue::Array(items) if !items.is_empty() => {
            let table = |item: &'_ TomlNode| matches!(item.value, TomlValue::Table(_));
            items.iter().all(table).then(|| items.iter().flat_map(tables).flatten().collect())
        }
        _ => None,
    }
}

fn entry(text: &mut String, key: &str, node: &TomlNode) -> fmt::Result {
    text.key(key)?;
    text.space()?;
    text.keyval_sep()?;
    text.space()?;
    value(text, &node.value)
}

fn value(text: &mut String, of: &TomlValue) -> fmt::Result {
    match of {
        TomlValue::Text(value) => text.value(value),
        TomlValue::Integer(value) => text.value(*value),
        TomlValue::Float(value) => text.value(*value),
        TomlValue::Bool(value) => text.value(*value),
        TomlValue::Other(value) => text.write_str(value),
        TomlValue::Array(items) => {
            text.open_array()?;
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    text.val_sep()?;
                    text.space()?;
                }
                value(text, &item.value)?;
            }
            text.close_array()
        }
        TomlValue::Table(table) => {
            text.open_inline_table()?;
            for (n, (key, node)) in table.entries.iter().enumerate() {
                if n > 0 {
                    text.val_sep()?;
                }
                text.space()?;
                entry(text, key, node)?;
            }
            text.space()?;
            text.close_inline_table()
        }
    }
}
