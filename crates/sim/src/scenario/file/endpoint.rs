//! Parameters of endpoints and of the parts of protocols: `[endpoint]`, and the same keys in
//! `[[flows]]`. The parts tell what keys there are.

use std::sync::OnceLock;

use windward_core::endpoint::EndpointConfig;
use windward_core::part::{self, Parameters, Setting};
use windward_core::protocols::{self, PROTOCOLS, Protocol};

use super::parameter;
use super::schema::{self, Key};
use super::section::{Result, Section};
use crate::stack::StackConfig;

/// The largest packet: an IPv6 jumbogram of 1 MiB.
pub(super) const MAX_PACKET_SIZE: u32 = EndpointConfig::MAX_PACKET_SIZE;

/// A set of values that goes by one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    /// [`EndpointConfig::linux`] and [`Protocol::linux`].
    Linux,
}

/// Their names.
const PRESETS: &[&str] = &["linux"];

/// The preset that `section` names.
pub(super) fn preset(section: &Section<'_>) -> Result<Option<Preset>> {
    section.read("preset", |field| {
        let name = field.clone().text()?;
        match name {
            "linux" => Ok(Preset::Linux),
            _ => Err(field.unknown("preset", name, PRESETS.iter().copied())),
        }
    })
}

/// `config` with the preset that `section` names, and over it the values that it gives.
pub(super) fn read(config: EndpointConfig, section: &Section<'_>) -> Result<EndpointConfig> {
    check(section)?;
    let config = match preset(section)? {
        Some(Preset::Linux) => config.linux(),
        None => config,
    };
    parameter::read(config, "", section)
}

/// Checks the values of all parameters of parts that are there, whatever the protocol.
fn check(section: &Section<'_>) -> Result<()> {
    for table in protocols::tables() {
        let Some(place) = table_of(section, table.name)? else { continue };
        for setting in &table.settings {
            if let Some(field) = place.get(setting.doc.key) {
                parameter::value(field, setting.doc.kind)?;
            }
        }
    }
    // What does not go together is wrong even where no flow has the part.
    PROTOCOLS.iter().try_for_each(|protocol| configure(&mut protocol.clone(), section))
}

/// The table of that name, if it is there; the section itself for the empty name.
fn table_of<'a>(section: &Section<'a>, name: &str) -> Result<Option<Section<'a>>> {
    if name.is_empty() {
        return Ok(Some(section.clone()));
    }
    section.get(name).map(super::section::Field::section).transpose()
}

/// Sets the parameters of the parts of `protocol` that `section` gives.
pub(super) fn configure(protocol: &mut Protocol, section: &Section<'_>) -> Result<()> {
    for setting in protocol.settings() {
        let Some(place) = table_of(section, setting.table)? else { continue };
        let Some(field) = place.get(setting.doc.key) else { continue };
        let value = parameter::value(field.clone(), setting.doc.kind)?;
        if !protocol.set(setting.table, setting.doc.key, value) {
            return Err(field.error(format!("must be {}", setting.doc.kind)));
        }
    }
    protocol.validate().map_err(|((_, part), wrong)| {
        section.error(format!("{part} cannot be configured so: {wrong}"))
    })
}

/// The keys of `[endpoint]`: those of all endpoints, and those of the parts.
pub(super) fn keys() -> &'static [Key] {
    static KEYS: OnceLock<Vec<Key>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let own = part::settings(&EndpointConfig::default());
        let meaning = "linux: what is Linux's about endpoints and plain TCPs; keys beside it win";
        let preset = vec![part::ValueKind::Word(PRESETS)];
        let mut keys = vec![schema::made("preset", "none".to_owned(), meaning.to_owned(), preset)];
        keys.extend(own.iter().map(|s| parameter::key(s, "")));
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
        let quic = part::settings(&StackConfig::default());
        tables.push((quic[0].table, StackConfig::TABLES[0].1, quic));
        for (name, about, settings) in tables {
            let inner = settings.iter().map(|s| parameter::key(s, ""));
            match name {
                "" => keys.extend(inner),
                name => keys.push(schema::made_table(name, about, inner.collect())),
            }
        }
        keys
    })
}
