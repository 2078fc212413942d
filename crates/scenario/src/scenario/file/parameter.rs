//! Parameters of parts. The parts declare them.

use windward_core::part::{self, Parameters, Setting, Value, ValueKind, Words};

use crate::strict_toml::{Field, Key, KeySource, Result, Section, Shorthand, TomlType};

/// `config` with the values that `section` gives for the keys of `table`; other keys of the section
/// are ignored.
pub(super) fn read<C: Parameters>(mut config: C, table: &str, section: &Section<'_>) -> Result<C> {
    for Setting { doc, .. } in config.settings().iter().filter(|setting| setting.table == table) {
        if let Some(field) = section.get(doc.key) {
            set(&field, doc.kind, |value| config.set(table, doc.key, value))?;
        }
    }
    config.check().map_err(|wrong| section.error(wrong))?;
    Ok(config)
}

/// Reads the value of a parameter. `set` puts it into a configuration, and returns whether the
/// value was valid.
pub(super) fn set(
    field: &Field<'_>,
    kind: ValueKind,
    set: impl FnOnce(Value) -> bool,
) -> Result<()> {
    match set(field.parameter(kind)?) {
        true => Ok(()),
        false => Err(field.error(format!("must be {kind}"))),
    }
}

/// A table with a `kind`, or the kind alone.
pub(super) fn named_kind(keys: &'static [KeySource], names: Vec<&'static str>) -> TomlType {
    let values = vec![TomlType::Words(names)];
    TomlType::Table { keys, shorthand: Shorthand::Key("kind"), values }
}

/// Reads the kind of a part, given as a word or as a table, which may have parameters.
pub(super) fn kind<'a>(
    field: &Field<'a>,
    kinds: &[&str],
    example: &str,
) -> Result<(&'a str, Option<Section<'a>>)> {
    if !field.is_table() {
        return Ok((field.word(kinds)?, None));
    }
    let section = field.section()?;
    let kind = section.get("kind").ok_or_else(|| section.missing("kind", example))?;
    Ok((kind.word(kinds)?, Some(section)))
}

/// Reads the parameters of a part of this kind from a table, and refuses those of other kinds.
/// `settings` gives the parameters of a part, and `set` changes one.
pub(super) fn of_kind<S>(
    what: &str,
    kind: &str,
    section: &Section<'_>,
    spec: &mut S,
    settings: fn(&S) -> Vec<Setting>,
    set: fn(&mut S, &'static str, Value) -> bool,
) -> Result<()> {
    for Setting { doc, .. } in settings(spec) {
        if let Some(field) = section.get(doc.key) {
            self::set(&field, doc.kind, |value| set(spec, doc.key, value))?;
        }
    }
    // The parameters that apply with the values given.
    let mut settings = settings(spec);
    settings.retain(|setting| setting.applies);
    let foreign =
        |key: &&str| *key != "kind" && settings.iter().all(|setting| setting.doc.key != *key);
    let Some(field) = section.keys().find(foreign).and_then(|key| section.get(key)) else {
        return Ok(());
    };
    let keys: Vec<&str> = settings.iter().map(|setting| setting.doc.key).collect();
    let help = if keys.is_empty() {
        "it has no parameters".to_owned()
    } else {
        format!("with the other values given, it has {}", part::alternatives(&keys))
    };
    Err(field.error(format!("the {what} `{kind}` has no such parameter")).with_help(help))
}

/// The keys of a table that names a part by its `kind` and has that part's parameters: one key for
/// all parts that have a parameter of that name.
pub(super) fn keys_of_kinds(
    first: Option<&'static str>,
    parts: &[(Words, Vec<Setting>)],
) -> Vec<Key> {
    // A parameter that applies to the part as named, or that no part of any name has as named.
    let own = |setting: &&Setting, all: &[(Words, Vec<Setting>)]| {
        let same = |other: &&Setting| other.doc == setting.doc && other.applies;
        setting.applies || !all.iter().flat_map(|(_, settings)| settings).any(|s| same(&s))
    };
    let names: Vec<&'static str> =
        first.into_iter().chain(parts.iter().map(|(w, _)| w.name)).collect();
    let mut keys = vec![Key {
        name: "kind",
        meaning: part::alternatives(&names).into(),
        kind: TomlType::Words(names),
        default: "".into(),
    }];
    let mut seen: Vec<&str> = Vec::new();
    for (_, settings) in parts {
        for setting in settings.iter().filter(|setting| own(setting, parts)) {
            if seen.contains(&setting.doc.key) {
                continue;
            }
            seen.push(setting.doc.key);
            // The parts that have it, by default and by meaning.
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
            keys.push(Key {
                name: setting.doc.key,
                kind: TomlType::OneOf(values.into_iter().map(TomlType::Parameter).collect()),
                default: default.into(),
                meaning: meaning.into(),
            });
        }
    }
    keys
}
