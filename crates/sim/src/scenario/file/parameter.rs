//! Parameters of parts: read by what the parts tell of themselves.

use windward_core::part::{self, Parameters, Setting, Value, ValueKind, Words};

use super::schema::{self, Key};
use super::section::{Amount, Field, Result, Section};

/// Reads a value of this kind.
pub(super) fn value(field: Field<'_>, kind: ValueKind) -> Result<Value> {
    match kind {
        ValueKind::Bool => field.bool().map(Value::Bool),
        ValueKind::Bytes { most } => bytes(&field, most).map(Value::Number),
        ValueKind::Number { least, most } => field.float(least..=most).map(Value::Number),
        ValueKind::Positive { most } => field.above_zero(most).map(Value::Number),
        ValueKind::Integer { least, most } => field.integer(least..=most).map(Value::Integer),
        ValueKind::Time { least, most } => field.duration(least..=most).map(Value::Time),
        ValueKind::Switch { on, .. } if field.is_bool() => {
            field.bool().map(|yes| if yes { Value::Time(on) } else { Value::Absent })
        }
        ValueKind::Switch { most, .. } => field.positive(most).map(Value::Time),
        ValueKind::PositiveOrWord { most, .. } if !field.is_text() => {
            field.above_zero(most).map(Value::Number)
        }
        ValueKind::Word(words) | ValueKind::PositiveOrWord { words, .. } => {
            let word = field.word(words)?;
            // The part's own spelling lives as long as the program.
            Ok(words.iter().find(|known| **known == word).map_or(Value::Absent, |w| Value::Word(w)))
        }
    }
}

/// A size that is never in packets.
fn bytes(field: &Field<'_>, most: f64) -> Result<f64> {
    match field.is_text().then(|| field.clone().amount()).transpose()? {
        Some(Amount::Bytes(bytes)) if bytes as f64 <= most => Ok(bytes as f64),
        Some(Amount::Bytes(_)) => Err(field.error("is more than any memory has")),
        Some(Amount::Packets(_)) | None => {
            Err(field.error("expected bytes").with_help("write for instance \"600kB\""))
        }
    }
}

/// Puts the values that `section` gives for the keys of `table` into `config`; other keys of the
/// section are not looked at.
pub(super) fn read<C: Parameters>(mut config: C, table: &str, section: &Section<'_>) -> Result<C> {
    for parameter in C::KEYS.iter().filter(|parameter| parameter.table == table) {
        if let Some(field) = section.get(parameter.doc.key) {
            let value = value(field.clone(), parameter.doc.kind)?;
            if !(parameter.set)(&mut config, value) {
                return Err(field.error(format!("must be {}", parameter.doc.kind)));
            }
        }
    }
    config.check().map_err(|wrong| section.error(wrong))?;
    Ok(config)
}

/// The key of a parameter, for the schema. `note` goes before its meaning: `xcp: `.
pub(super) fn key(setting: &Setting, note: &str) -> Key {
    let meaning = format!("{note}{}", setting.description());
    schema::made(setting.doc.key, setting.default_text(), meaning, vec![setting.doc.kind])
}

/// The keys of a table that names a part by its `kind` and has that part's parameters: one key for
/// all parts that have a parameter of that name.
pub(super) fn keys_of_kinds(
    first: Option<&'static str>,
    parts: &[(Words, Vec<Setting>)],
) -> Vec<Key> {
    // What applies to a part as it is named, or to no part of any name before others are set.
    let own = |setting: &&Setting, all: &[(Words, Vec<Setting>)]| {
        let same = |other: &&Setting| other.doc == setting.doc && other.applies;
        setting.applies || !all.iter().flat_map(|(_, settings)| settings).any(|s| same(&s))
    };
    let names: Vec<&str> = first.into_iter().chain(parts.iter().map(|(w, _)| w.name)).collect();
    let mut keys =
        vec![schema::made("kind", String::new(), part::alternatives(&names), Vec::new())];
    let mut seen: Vec<&str> = Vec::new();
    for (_, settings) in parts {
        for setting in settings.iter().filter(|setting| own(setting, parts)) {
            if seen.contains(&setting.doc.key) {
                continue;
            }
            seen.push(setting.doc.key);
            // Who has it, with which default and in which sense.
            let mut defaults: Vec<(String, Vec<&str>)> = Vec::new();
            let mut senses: Vec<(String, Vec<&str>)> = Vec::new();
            let mut values: Vec<ValueKind> = Vec::new();
            let note = |list: &mut Vec<(String, Vec<&'static str>)>, text: String, of| match list
                .iter_mut()
                .find(|(known, _)| *known == text)
            {
                Some((_, names)) => names.push(of),
                None => list.push((text, vec![of])),
            };
            for (words, settings) in parts {
                let of_this = settings.iter().filter(|other| own(other, parts));
                for other in of_this.filter(|other| other.doc.key == setting.doc.key) {
                    if !values.contains(&other.doc.kind) {
                        values.push(other.doc.kind);
                    }
                    note(&mut defaults, other.default_text(), words.name);
                    note(&mut senses, other.description(), words.name);
                }
            }
            let default = match defaults.as_slice() {
                [(only, _)] => only.clone(),
                several => {
                    let each = several.iter().map(|(text, of)| format!("{} {text}", of.join(", ")));
                    each.collect::<Vec<_>>().join("; ")
                }
            };
            let sense = senses.iter().map(|(text, of)| format!("{}: {text}", of.join(", ")));
            let meaning = sense.collect::<Vec<_>>().join("; ");
            keys.push(schema::made(setting.doc.key, default, meaning, values));
        }
    }
    keys
}
