//! Changes of one value by its dotted key.

use std::fmt::Display;

use super::build::FileKeys;
use super::group::DATAGRAMS;
use crate::strict_toml::{
    Document, FileError, Keys, Location, NameOf, Origin, Result, Shorthand, Source, TomlNode,
    TomlTable, TomlType, TomlValue, find, names, parse_value, shorten, suggest,
};

/// Sets `key` to `value`.
pub(super) fn set(document: &mut Document, key: &str, value: &str) -> Result<()> {
    let file = document.name();
    let assignment = format!("{}={}", shorten(key), shorten(value));
    let origin = Origin::Set(assignment.into());
    let location = origin.location(file);
    let value = parse_value(value, &origin).map_err(|wrong| {
        FileError::new(location.clone(), wrong)
            .with_key(shorten(key))
            .with_help("close every brace, bracket and quotation mark")
    })?;
    value.check_texts(Source { name: file, text: "" }, key)?;
    insert(document, key, value)
}

/// Sets `key` to a value.
pub(super) fn insert(document: &mut Document, key: &str, value: TomlNode) -> Result<()> {
    let (location, origin) = (value.origin.location(document.name()), value.origin.clone());
    let change = Change { location, value, origin, key };
    // Changes a copy, since a wildcard may fail at its second match.
    let mut changed = document.table.clone();
    change.in_table(&mut changed, &[FileKeys::KEYS], key)?;
    document.table = changed;
    Ok(())
}

struct Change<'a> {
    location: Location,
    origin: Origin,
    value: TomlNode,
    /// The whole key, for messages.
    key: &'a str,
}

impl Change<'_> {
    fn in_table(&self, table: &mut TomlTable, keys: Keys, rest: &str) -> Result<()> {
        let (name, rest) = split(rest);
        let key = find(keys, name).ok_or_else(|| {
            self.error(format!("unknown key `{}`", shorten(name)))
                .with_help(suggest(name, names(keys)))
        })?;
        if matches!(key.kind, TomlType::Foreign) {
            return Err(self.error(format!("`{name}` belongs to another reader and cannot be set")));
        }
        let Some(rest) = rest else {
            *table.entry(name, || self.value.clone()) = self.value.clone();
            return Ok(());
        };
        match &key.kind {
            TomlType::Table { keys, shorthand, .. } => {
                let node = table.entry(name, || self.empty_table());
                self.expand(node, *shorthand);
                self.in_node(node, keys, name, rest)
            }
            TomlType::Tables { keys, name_of } => {
                match table.entry(name, || self.empty_array()).value {
                    TomlValue::Array(ref mut items) => {
                        self.in_items(items, keys, *name_of, name, rest)
                    }
                    _ => Err(self.error(format!("`{name}` is not an array of tables in the file"))),
                }
            }
            _ => Err(self.error(format!("`{name}` is not a table: it has no keys"))),
        }
    }

    /// Replaces a value that stands for a table with this table: `"red"` with `{ kind = "red" }`.
    fn expand(&self, node: &mut TomlNode, shorthand: Shorthand) {
        match (shorthand, &node.value) {
            (_, TomlValue::Table(_)) => {}
            (Shorthand::All, _) => *node = self.empty_table(),
            (Shorthand::Key(key), TomlValue::Text(_) | TomlValue::Array(_)) => {
                let value = std::mem::replace(node, self.empty_table());
                if let TomlValue::Table(table) = &mut node.value {
                    table.entries.push((key.to_owned(), value));
                }
            }
            _ => {}
        }
    }

    fn in_node(&self, node: &mut TomlNode, keys: Keys, name: &str, rest: &str) -> Result<()> {
        match &mut node.value {
            TomlValue::Table(table) => self.in_table(table, keys, rest),
            _ => Err(self.error(format!("`{name}` is not a table in the file"))),
        }
    }

    /// Sets the value in the items that the next part of the key selects: `*` for all, a name, or a
    /// number, counted from 0; `+` appends an item.
    fn in_items(
        &self,
        items: &mut Vec<TomlNode>,
        keys: Keys,
        name_of: NameOf,
        array: &str,
        rest: &str,
    ) -> Result<()> {
        if rest == "+" {
            if !matches!(self.value.value, TomlValue::Table(_)) {
                let wrong = format!("an element of `{array}` must be a table");
                return Err(self
                    .error(wrong)
                    .with_help(format!("write {array}.+={{ KEY = VALUE }}")));
            }
            items.push(self.value.clone());
            return Ok(());
        }
        let (wanted, Some(rest)) = split(rest) else {
            return Err(self
                .error(format!("`{array}` is an array of tables: the key of an element is missing"))
                .with_help(format!("write {array}.NAME.KEY, or {array}.*.KEY for all")));
        };
        let name = |node: &TomlNode| match &node.value {
            TomlValue::Table(table) => name_of(table),
            _ => None,
        };
        let named = |item: &TomlNode| name(item).as_deref() == Some(wanted);
        let matched: Vec<usize> = match wanted {
            "*" => {
                let all = 0..items.len();
                let concerned: Vec<_> = all.filter(|&i| concerns(&items[i], rest)).collect();
                if concerned.is_empty() && !items.is_empty() {
                    return Err(self.error("all groups send datagrams: none has connections"));
                }
                concerned
            }
            _ => match items.iter().position(named) {
                Some(index) => vec![index],
                None => {
                    let index = wanted.parse().ok().filter(|&i: &usize| i < items.len());
                    index.into_iter().collect()
                }
            },
        };
        if matched.is_empty() {
            let names: Vec<String> = items.iter().filter_map(name).collect();
            return Err(self
                .error(format!("`{array}` has no `{}`", shorten(wanted)))
                .with_help(suggest(wanted, names.iter().map(String::as_str))));
        }
        for index in matched {
            self.in_node(&mut items[index], keys, array, rest)?;
        }
        Ok(())
    }

    fn empty_table(&self) -> TomlNode {
        self.node(TomlValue::Table(TomlTable::default()))
    }

    fn empty_array(&self) -> TomlNode {
        self.node(TomlValue::Array(Vec::new()))
    }

    fn node(&self, value: TomlValue) -> TomlNode {
        TomlNode { origin: self.origin.clone(), value }
    }

    fn error(&self, message: impl Display) -> FileError {
        FileError::new(self.location.clone(), message.to_string()).with_key(shorten(self.key))
    }
}

/// True if a key under `*` concerns this item. Keys of connections skip groups of datagrams; no
/// other array has these keys.
fn concerns(item: &TomlNode, rest: &str) -> bool {
    let TomlValue::Table(table) = &item.value else { return true };
    let datagrams = DATAGRAMS.iter().any(|kind| table.get(kind).is_some());
    !(datagrams && matches!(split(rest).0, "protocol" | "size"))
}

/// The first part of a dotted key and the rest.
fn split(key: &str) -> (&str, Option<&str>) {
    match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    }
}
