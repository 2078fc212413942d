//! JSON Schema from declared keys, for editors.

use serde_json::{Map, Value, json};
use windward_core::part;

use super::keys::{Keys, TomlType, all};

/// The schema of a file with these keys.
pub fn json_schema(title: &str, keys: Keys) -> Value {
    let mut tables = Tables::default();
    let Value::Object(root) = tables.table(keys) else { return Value::Null };
    let mut schema = Map::new();
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!(title));
    schema.extend(root);
    schema.insert("$defs".to_owned(), Value::Object(tables.found));
    Value::Object(schema)
}

/// Adds the schema of a table with these keys to `schema`, under a key of its root.
pub fn extend_json_schema(schema: &mut Value, key: &str, keys: Keys) {
    let mut table = json_schema("", keys);
    if let (Value::Object(all), Value::Object(more)) = (&mut schema["$defs"], table["$defs"].take())
    {
        all.extend(more);
    }
    let description = schema["properties"][key]["description"].take();
    schema["properties"][key] = json!({
        "type": "object",
        "description": description,
        "properties": table["properties"],
        "additionalProperties": false,
    });
}

/// The tables below the root, without repetition.
#[derive(Default)]
struct Tables {
    found: Map<String, Value>,
}

impl Tables {
    /// A table with these keys and no others.
    fn table(&mut self, keys: Keys) -> Value {
        let properties: Map<String, Value> = all(keys)
            .map(|key| {
                let mut property = match self.value(&key.kind) {
                    Value::Object(property) => property,
                    _ => Map::new(),
                };
                if !key.meaning.is_empty() {
                    property.insert("description".to_owned(), json!(key.meaning));
                }
                // The words for a default need not be a value of the key.
                if !key.default.is_empty() {
                    property.insert("x-default".to_owned(), json!(key.default));
                }
                (key.name.to_owned(), Value::Object(property))
            })
            .collect();
        json!({ "type": "object", "properties": properties, "additionalProperties": false })
    }

    /// A reference to that table.
    fn reference(&mut self, keys: Keys) -> Value {
        let table = self.table(keys);
        let name = keys.first().map_or("table", |source| source.list().name);
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

    /// The values of a key.
    fn value(&mut self, kind: &TomlType) -> Value {
        match kind {
            TomlType::Any => json!({ "type": ["string", "number", "boolean", "array"] }),
            TomlType::Text => json!({ "type": "string" }),
            TomlType::Pattern(pattern) => json!({ "type": "string", "pattern": pattern }),
            TomlType::Words(words) => json!({ "enum": words }),
            TomlType::Parameter(kind) => either(forms(*kind)),
            TomlType::Probability => {
                let number = json!({ "type": "number", "minimum": 0, "maximum": 1 });
                either(vec![number, json!({ "type": "string" })])
            }
            TomlType::List(kind) => json!({ "type": "array", "items": self.value(kind) }),
            TomlType::OneOf(kinds) => either(kinds.iter().map(|kind| self.value(kind)).collect()),
            TomlType::Table { keys, values, .. } => {
                let mut forms: Vec<_> = values.iter().map(|kind| self.value(kind)).collect();
                forms.push(self.reference(keys));
                either(forms)
            }
            TomlType::Tables { keys, .. } => {
                json!({ "type": "array", "items": self.reference(keys) })
            }
            TomlType::Free(kind) => {
                json!({ "type": "object", "additionalProperties": self.value(kind) })
            }
            TomlType::Foreign => json!({ "type": "object" }),
        }
    }
}

/// The JSON values of a parameter.
fn forms(kind: part::ValueKind) -> Vec<Value> {
    let number = || json!({ "type": "number" });
    let text = || json!({ "type": "string" });
    match kind {
        part::ValueKind::Bool => vec![json!({ "type": "boolean" })],
        part::ValueKind::Number { least: f64::MIN, most: f64::MAX } => vec![number()],
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
