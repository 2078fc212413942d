//! Parameters of parts: read by what the parts tell of themselves.

#![allow(dead_code)]

use windward_core::part::{self, Kind, Parameters, Setting, Value};

use super::schema::{self, Key};
use super::section::{Field, Result, Section};

/// Reads a value of this kind.
pub(super) fn value(field: Field<'_>, kind: Kind) -> Result<Value> {
    match kind {
        Kind::Bool => field.bool().map(Value::Bool),
        Kind::Number { least, most } => field.float(least..=most).map(Value::Number),
        Kind::Positive { most } => field.above_zero(most).map(Value::Number),
        Kind::Integer { least, most } => field.integer(least..=most).map(Value::Integer),
        Kind::Time { least, most } => field.duration(least..=most).map(Value::Time),
        Kind::Switch { on, .. } if field.is_bool() => {
            field.bool().map(|yes| if yes { Value::Time(on) } else { Value::Absent })
        }
        Kind::Switch { most, .. } => field.positive(most).map(Value::Time),
        Kind::PositiveOrWord { most, .. } if !field.is_text() => {
            field.above_zero(most).map(Value::Number)
        }
        Kind::Word(words) | Kind::PositiveOrWord { words, .. } => {
            let word = field.word(words)?;
            // The part's own spelling lives as long as the program.
            Ok(words.iter().find(|known| **known == word).map_or(Value::Absent, |w| Value::Word(w)))
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
    let part::ParameterDoc { key, kind, unit, meaning, absent, .. } = setting.doc;
    let default = match setting.value {
        Value::Absent => absent.to_owned(),
        value => value.to_string(),
    };
    let range = match kind {
        Kind::Bool => String::new(),
        kind => kind.to_string(),
    };
    let details: Vec<&str> = [unit, &range].into_iter().filter(|text| !text.is_empty()).collect();
    let colon = if details.is_empty() { "" } else { "; " };
    schema::made(key, default, format!("{note}{meaning}{colon}{}", details.join(", ")))
}
