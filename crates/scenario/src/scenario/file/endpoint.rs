//! Parameters of endpoints and of the parts of protocols: `[endpoint]`, and the same keys in
//! `[[flows]]`. The parts declare the keys.

use std::sync::OnceLock;

use windward_core::endpoint::EndpointConfig;
use windward_core::part::{Parameters, Setting};
use windward_core::protocols::{self, PROTOCOLS, Protocol};

use super::parameter;
use crate::stack::StackConfig;
use crate::strict_toml::{Key, KeyList, KeySource, Result, Section, TomlType};

/// A named set of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    /// The defaults.
    None,
    /// [`EndpointConfig::linux`] and [`Protocol::linux`].
    Linux,
}

/// Their names.
const PRESETS: &[&str] = &["none", "linux"];

/// The preset that `section` names.
pub(super) fn preset(section: &Section<'_>) -> Result<Option<Preset>> {
    let Some(field) = section.get("preset") else { return Ok(None) };
    match field.text()? {
        "none" => Ok(Some(Preset::None)),
        "linux" => Ok(Some(Preset::Linux)),
        name => Err(field.unknown("preset", name, PRESETS.iter().copied())),
    }
}

/// `config` with the preset that `section` names, and over it the values that it gives.
pub(super) fn read(config: EndpointConfig, section: &Section<'_>) -> Result<EndpointConfig> {
    check(section)?;
    let config = match preset(section)? {
        Some(Preset::Linux) => config.linux(),
        Some(Preset::None) | None => config,
    };
    parameter::read(config, "", section)
}

/// Checks the values of all given parameters of parts, independently of the protocol.
fn check(section: &Section<'_>) -> Result<()> {
    for table in protocols::tables() {
        let Some(place) = table_of(section, table.name)? else { continue };
        for setting in &table.settings {
            if let Some(field) = place.get(setting.doc.key) {
                field.parameter(setting.doc.kind)?;
            }
        }
    }
    // Contradictory values are an error even if no flow has the part.
    PROTOCOLS.iter().try_for_each(|protocol| configure(&mut protocol.clone(), section))
}

/// The table of this name, if there is one; the section itself for the empty name.
fn table_of<'a>(section: &Section<'a>, name: &str) -> Result<Option<Section<'a>>> {
    if name.is_empty() {
        return Ok(Some(section.clone()));
    }
    section.get(name).map(|field| field.section()).transpose()
}

/// Sets the parameters of the parts of `protocol` that `section` gives.
pub(super) fn configure(protocol: &mut Protocol, section: &Section<'_>) -> Result<()> {
    for setting in protocol.settings() {
        let Some(place) = table_of(section, setting.table)? else { continue };
        let Some(field) = place.get(setting.doc.key) else { continue };
        parameter::set(&field, setting.doc.kind, |value| {
            protocol.set(setting.table, setting.doc.key, value)
        })?;
    }
    protocol
        .validate()
        .map_err(|((_, part), wrong)| section.error(format!("invalid settings of {part}: {wrong}")))
}

/// The keys of `[endpoint]`: those of endpoints, and those of the parts.
pub(super) const KEYS: KeySource = KeySource::Declared(keys);

/// The list of [`KEYS`].
pub(super) fn keys() -> &'static KeyList {
    static KEYS: OnceLock<KeyList> = OnceLock::new();
    KEYS.get_or_init(|| {
        let own = EndpointConfig::DEFAULT.settings();
        let mut keys = vec![Key {
            name: "preset",
            kind: TomlType::Words(PRESETS.to_vec()),
            default: "none".into(),
            meaning:
                "linux: the settings of Linux for endpoints and plain TCPs; other keys override it"
                    .into(),
        }];
        keys.extend(own.iter().map(Key::of));
        let mut tables: Vec<(&'static str, &'static str, Vec<Setting>)> = Vec::new();
        for table in protocols::tables() {
            match tables.iter_mut().find(|(name, ..)| *name == table.name) {
                Some((_, _, known)) => {
                    let new = |s: &Setting| !known.iter().any(|k| k.doc.key == s.doc.key);
                    let more: Vec<_> = table.settings.iter().filter(|s| new(s)).copied().collect();
                    known.extend(more);
                }
                None => tables.push((table.name, table.about, table.settings)),
            }
        }
        let (quic, about) = StackConfig::tables()[0];
        tables.push((quic, about, StackConfig::DEFAULT.settings()));
        for (name, about, settings) in tables {
            let inner = settings.iter().map(Key::of);
            match name {
                "" => keys.extend(inner),
                name => keys.push(table(name, about, inner.collect())),
            }
        }
        KeyList { name: "endpoint", keys }
    })
}

/// A table of parameters, kept until the program ends.
fn table(name: &'static str, about: &'static str, keys: Vec<Key>) -> Key {
    let list: &'static KeyList = Box::leak(Box::new(KeyList { name, keys }));
    let sources: &'static [KeySource] = Box::leak(Box::new([KeySource::Made(list)]));
    let kind = TomlType::table(sources);
    Key { name, kind, default: "".into(), meaning: about.into() }
}
