//! Changing one value by its dotted key.

use std::borrow::Cow;
use std::fmt::Display;

use super::error::{Place, ScenarioError, shorten, suggest};
use super::schema::{self, Keys, Kind};
use super::section::Result;
use super::tree::{Node, Origin, Table, Value, parse_value};

/// Sets `key` in `table` to `value`.
pub(super) fn set(file: &str, table: &mut Table, key: &str, value: &str) -> Result<()> {
    let assignment = format!("{}={}", shorten(key), shorten(value));
    let origin = Origin::Set(assignment.into());
    let place = origin.place(file);
    let value = parse_value(value, &origin).map_err(|wrong| {
        ScenarioError::new(place.clone(), wrong)
            .with_key(shorten(key))
            .with_help("close every brace, bracket and quotation mark")
    })?;
    let change = Change { place, value, origin, key };
    change.value.check_texts(file, key)?;
    // All or nothing: a wildcard may fail at its second match.
    let mut changed = table.clone();
    change.in_table(&mut changed, schema::FILE, key)?;
    *table = changed;
    Ok(())
}

struct Change<'a> {
    place: Place,
    origin: Origin,
    value: Node,
    /// The whole key, for messages.
    key: &'a str,
}

impl Change<'_> {
    fn in_table(&self, table: &mut Table, keys: Keys, rest: &str) -> Result<()> {
        let (name, rest) = split(rest);
        let key = schema::find(keys, name).ok_or_else(|| {
            self.error(format!("unknown key `{}`", shorten(name)))
                .with_help(suggest(name, schema::names(keys)))
        })?;
        if matches!(key.kind, Kind::Foreign) {
            return Err(self.error(format!("`{name}` is no part of the scenario")));
        }
        let Some(rest) = rest else {
            *table.entry(name, || self.value.clone()) = self.value.clone();
            return Ok(());
        };
        match key.kind {
            Kind::Table(keys) => {
                let node = table.entry(name, || self.empty_table());
                self.in_node(node, keys, name, rest)
            }
            Kind::WordOrTable(keys, _) | Kind::BaseOrTable(keys, _) => {
                let node = table.entry(name, || self.empty_table());
                // "red" and { kind = "red" } are the same, and "cubic" and { base = "cubic" }.
                let stands_for =
                    if matches!(key.kind, Kind::BaseOrTable(..)) { "base" } else { "kind" };
                if let Value::Text(_) = node.value {
                    let word = std::mem::replace(node, self.empty_table());
                    if let Value::Table(table) = &mut node.value {
                        table.entries.push((stands_for.to_owned(), word));
                    }
                }
                self.in_node(node, keys, name, rest)
            }
            Kind::ValueOrTable(keys) => {
                let node = table.entry(name, || self.empty_table());
                // A value says all that the table could.
                if !matches!(node.value, Value::Table(_)) {
                    *node = self.empty_table();
                }
                self.in_node(node, keys, name, rest)
            }
            Kind::TableOrSchedule(keys) => {
                let node = table.entry(name, || self.empty_table());
                // A list and { schedule = list } are the same.
                if let Value::Array(_) = node.value {
                    let list = std::mem::replace(node, self.empty_table());
                    if let Value::Table(table) = &mut node.value {
                        table.entries.push(("schedule".to_owned(), list));
                    }
                }
                self.in_node(node, keys, name, rest)
            }
            Kind::Tables(keys, by) => match table.entry(name, || self.empty_array()).value {
                Value::Array(ref mut items) => self.in_items(items, keys, by, name, rest),
                _ => Err(self.error(format!("`{name}` is no array of tables in the file"))),
            },
            Kind::Value | Kind::Foreign => {
                Err(self.error(format!("`{name}` is no table: it has no keys")))
            }
        }
    }

    fn in_node(&self, node: &mut Node, keys: Keys, name: &str, rest: &str) -> Result<()> {
        match &mut node.value {
            Value::Table(table) => self.in_table(table, keys, rest),
            _ => Err(self.error(format!("`{name}` is no table in the file"))),
        }
    }

    /// In the items that the next part of the key selects: `*`, a name, or a number from 0; `+` is one more.
    fn in_items(
        &self,
        items: &mut Vec<Node>,
        keys: Keys,
        by: &str,
        array: &str,
        rest: &str,
    ) -> Result<()> {
        if rest == "+" {
            if !matches!(self.value.value, Value::Table(_)) {
                let wrong = format!("one more of `{array}` is a table");
                return Err(self
                    .error(wrong)
                    .with_help(format!("write {array}.+={{ KEY = VALUE }}")));
            }
            items.push(self.value.clone());
            return Ok(());
        }
        let (wanted, Some(rest)) = split(rest) else {
            return Err(self
                .error(format!("which key of `{array}`?"))
                .with_help(format!("write {array}.NAME.KEY, or {array}.*.KEY for all")));
        };
        let name = |node: &Node| schema::name_of(node, by).map(Cow::into_owned);
        let named = |item: &Node| name(item).as_deref() == Some(wanted);
        let matched: Vec<usize> = match wanted {
            "*" => {
                let all = 0..items.len();
                let concerned: Vec<_> = all.filter(|&i| concerns(&items[i], rest)).collect();
                if concerned.is_empty() && !items.is_empty() {
                    return Err(self.error("no group is of connections, all send datagrams"));
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

    fn empty_table(&self) -> Node {
        self.node(Value::Table(Table::default()))
    }

    fn empty_array(&self) -> Node {
        self.node(Value::Array(Vec::new()))
    }

    fn node(&self, value: Value) -> Node {
        Node { origin: self.origin.clone(), value }
    }

    fn error(&self, message: impl Display) -> ScenarioError {
        ScenarioError::new(self.place.clone(), message.to_string()).with_key(shorten(self.key))
    }
}

/// Does a key under `*` concern this item? What connections have and datagrams cannot have passes
/// over groups of datagrams; no other array has these keys.
fn concerns(item: &Node, rest: &str) -> bool {
    let Value::Table(table) = &item.value else { return true };
    let datagrams = schema::DATAGRAMS.iter().any(|kind| table.get(kind).is_some());
    !(datagrams && matches!(split(rest).0, "protocol" | "size"))
}

/// The first part of a dotted key and the rest.
fn split(key: &str) -> (&str, Option<&str>) {
    match key.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (key, None),
    }
}
