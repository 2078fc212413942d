//! The table of keys as a JSON Schema, for editors.

use serde_json::{Map, Value, json};
use windward_core::part;

use super::schema::{self, Keys, Kind};

/// The schema of a file with these keys.
pub(super) fn of(title: &str, keys: Keys) -> Value {
    let mut tables = Tables::default();
    let Value::Object(root) = tables.table(keys) else { return Value::Null };
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(title));
    schema.extend(root);
    schema.insert("$defs".to_owned(), Value::Object(tables.found));
    Value::Object(schema)
}

/// The tables below the root, each once.
#[derive(Default)]
struct Tables {
    found: Map<String, Value>,
}

impl Tables {
    /// A table with these keys and no others.
    fn table(&mut self, keys: Keys) -> Value {
        let properties: Map<String, Value> = schema::all(keys)
            .map(|key| {
                let mut property = self.below(key.name, key.kind, &key.values);
                if !key.meaning.is_empty() {
                    property.insert("description".to_owned(), json!(key.meaning));
                }
                // Words for people: a default need be no value that a file could give.
                if !key.default.is_empty() {
                    property.insert("x-default".to_owned(), json!(key.default));
                }
                (key.name.to_owned(), Value::Object(property))
            })
            .collect();
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    }

    /// A reference to that table, which is called after what it is of or the key it stands under.
    fn reference(&mut self, key: &str, keys: Keys) -> Value {
        let table = self.table(keys);
        let has = |name: &str| schema::find(keys, name).is_some();
        let name = match key {
            "links" => "graph_link",
            "flows" => "group",
            _ if has("shared") => "hop",
            _ if has("at") => "step",
            _ if has("attempts") => "arq",
            _ if has("delay") => "link",
            _ if has("weight") && has("router") => "class",
            _ => key,
        };
        let mut number = 1;
        loop {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            match self.found.get(&name) {
                Some(other) if *other != table => number += 1,
                _ => {
                    self.found.insert(name.clone(), table);
                    return json!({ "$ref": format!("#/$defs/{name}") });
                }
            }
        }
    }

    /// What may stand under a key.
    fn below(&mut self, name: &str, kind: Kind, values: &[part::ValueKind]) -> Map<String, Value> {
        let schema = match kind {
            Kind::Value if values.is_empty() => any_value(),
            Kind::Value => either(values.iter().flat_map(|kind| forms(*kind)).collect()),
            Kind::Table(keys) => self.reference(name, keys),
            Kind::WordOrTable(keys, names) => {
                either(vec![json!({ "enum": names() }), self.reference(name, keys)])
            }
            Kind::BaseOrTable(keys, names) => {
                // Which stacks there are is up to the program.
                let stack = json!({ "type": "string", "pattern": "^[a-z0-9-]+:[a-z0-9+-]+$" });
                either(vec![json!({ "enum": names() }), stack, self.reference(name, keys)])
            }
            Kind::ValueOrTable(keys) => either(vec![any_value(), self.reference(name, keys)]),
            Kind::TableOrSchedule(keys) => {
                let schedule = schema::find(keys, "schedule");
                let list = schedule.map(|key| self.below(key.name, key.kind, &key.values));
                let list = list.map(Value::Object);
                either(list.into_iter().chain([self.reference(name, keys)]).collect())
            }
            Kind::Tables(keys, _) => {
                json!({ "type": "array", "items": self.reference(name, keys) })
            }
            Kind::Foreign => json!({ "type": "object" }),
        };
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }
}

/// A value that is no table.
fn any_value() -> Value {
    json!({ "type": ["string", "number", "boolean", "array"] })
}

/// What can be written for a value of this kind.
fn forms(kind: part::ValueKind) -> Vec<Value> {
    let number = || json!({ "type": "number" });
    let text = || json!({ "type": "string" });
    match kind {
        part::ValueKind::Bool => vec![json!({ "type": "boolean" })],
        part::ValueKind::Number { least, most } => {
            vec![json!({ "type": "number", "minimum": least, "maximum": most })]
        }
        part::ValueKind::Positive { most } => {
            vec![json!({ "type": "number", "exclusiveMinimum": 0, "maximum": most })]
        }
        part::ValueKind::Integer { least, most } => {
            vec![json!({ "type": "integer", "minimum": least, "maximum": most })]
        }
        // Zero needs no unit.
        part::ValueKind::Time { .. } => vec![text(), json!({ "const": 0 })],
        part::ValueKind::Switch { .. } => vec![json!({ "type": "boolean" }), text()],
        part::ValueKind::Bytes { .. } => vec![text()],
        part::ValueKind::Word(words) => vec![json!({ "enum": words })],
        part::ValueKind::PositiveOrWord { words, .. } => vec![number(), json!({ "enum": words })],
    }
}

/// One of several.
fn either(mut schemas: Vec<Value>) -> Value {
    match schemas.len() {
        1 => schemas.remove(0),
        _ => json!({ "anyOf": schemas }),
    }
}
