//! Scenario files: TOML, read strictly, turned into a [`Scenario`].
//!
//! The reader is [`strict_toml`](crate::strict_toml): each file here declares the keys that it
//! reads. `link` (with `queue`, `channel` and `impairment`), `endpoint` and `group` (with
//! `arrivals`, `composition` and `stack`) read the tables; `chain` (dumbbell and parking lot) and
//! `graph` lay routes over `links`; `build` declares the outermost table, puts a scenario together
//! and chooses the routers; `set` changes one value; `advice` warns of settings that are allowed
//! but rarely intended.

use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use windward_core::protocols::Protocol;

use super::Scenario;
use crate::input::{self, LARGEST_SETTINGS};
use crate::stack::Stacks;
use crate::strict_toml::{
    Document, Field, KeySource, Keys, Origin, Section, TomlNode, TomlType, TomlValue, describe,
    find, json_schema,
};

use build::FileKeys;
use given::Given;
use traces::Traces;

mod advice;
mod arrivals;
mod bounds;
mod build;
mod cell;
mod chain;
mod channel;
mod composition;
mod endpoint;
mod given;
mod graph;
mod group;
mod impairment;
mod link;
mod links;
mod media;
mod parameter;
mod queue;
mod route;
mod set;
mod stack;
mod traces;
mod wlan;

#[cfg(test)]
mod error_tests;
#[cfg(test)]
mod tests;

pub use crate::strict_toml::{FileError as ScenarioError, KeyDoc, Location};

/// The declarations of all keys.
const KEYS: &[KeySource] = &[FileKeys::KEYS];

/// A scenario file with the changes made to it since (`--set`, sweep axes).
#[derive(Debug, Clone)]
pub struct ScenarioFile {
    document: Document,
    /// Shared by copies: a sweep reads a trace once.
    traces: Arc<Traces>,
    stacks: Stacks,
    /// Protocols of the caller, in addition to the protocol table.
    protocols: Arc<[Protocol]>,
    /// Asks for the memory that a run can have, bytes, if it is known.
    memory: fn() -> Option<u64>,
}

/// True if a top-level key is not of another reader.
fn is_ours(key: &str) -> bool {
    find(KEYS, key).is_none_or(|key| !matches!(key.kind, TomlType::Foreign))
}

impl ScenarioFile {
    /// Size of the largest file that is read, bytes.
    pub const MAX_SIZE: usize = LARGEST_SETTINGS as usize;

    /// The declarations of the keys of a link, for other files that have some of them.
    pub const LINK: Keys = &[link::LinkKeys::KEYS];

    /// The name of standard input in errors.
    pub const STDIN: &str = "standard input";

    /// Reads and parses a file; `-` is standard input.
    ///
    /// # Errors
    /// If it cannot be read or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        Self::parse(&Self::name(path), &Self::text(path)?)
    }

    /// The text of a file, or of standard input if the path is `-`.
    ///
    /// # Errors
    /// If it cannot be read, is larger than [`ScenarioFile::MAX_SIZE`] or is not UTF-8 text.
    pub fn text(path: &Path) -> Result<String, ScenarioError> {
        let name = Self::name(path);
        let text = match path == Path::new("-") {
            true => input::read(std::io::stdin().lock(), LARGEST_SETTINGS).and_then(input::text),
            false => input::read_text(path, LARGEST_SETTINGS),
        };
        text.map_err(|error| match error.kind() {
            ErrorKind::NotFound => ScenarioError::new(&name, "no such file"),
            ErrorKind::IsADirectory => {
                ScenarioError::new(&name, "is a directory, not a scenario file")
            }
            _ => ScenarioError::new(&name, format!("cannot be read: {error}")),
        })
    }

    /// The name of the file at a path in errors: `-` is [`ScenarioFile::STDIN`].
    pub fn name(path: &Path) -> String {
        match path == Path::new("-") {
            true => Self::STDIN.to_owned(),
            false => path.display().to_string(),
        }
    }

    /// Parses a text; `name` is the path of the file in errors. Files that the text names are
    /// relative to its folder.
    ///
    /// # Errors
    /// If it is not TOML.
    pub fn parse(name: &str, text: &str) -> Result<Self, ScenarioError> {
        if text.len() > Self::MAX_SIZE {
            let message = format!("is larger than {} MiB", Self::MAX_SIZE >> 20);
            return Err(ScenarioError::new(name, message));
        }
        if text.contains('\0') {
            return Err(ScenarioError::new(name, "is a binary file")
                .with_help("a scenario is a TOML text file"));
        }
        if text.trim().is_empty() {
            return Err(ScenarioError::new(name, "is empty").with_help(
                "a scenario needs at least a duration, a topology and flows: see docs/scenarios.md",
            ));
        }
        let document = Document::parse(name, text)?;
        let (traces, stacks, protocols) = (Arc::default(), Stacks::none(), Arc::default());
        Ok(ScenarioFile { document, traces, stacks, protocols, memory: || None })
    }

    /// The same file, in which protocols of flows may name these stacks. Without this call, they
    /// cannot name stacks.
    #[must_use]
    pub fn with_stacks(self, stacks: &Stacks) -> Self {
        ScenarioFile { stacks: stacks.clone(), ..self }
    }

    /// The same file, for a run that can have as many bytes of memory as `memory` returns, if it
    /// knows: a scenario whose flows and links need more is an error, before it takes them. It is
    /// called at most once, and only if they need more than a megabyte.
    #[must_use]
    pub fn within(self, memory: fn() -> Option<u64>) -> Self {
        ScenarioFile { memory, ..self }
    }

    /// The same file, which may name these protocols as well as rows of the table; they take
    /// precedence. They are compositions with parts of another crate, which no text can express. A
    /// composition may name them as its `window`, and so take no other part of them.
    #[must_use]
    pub fn with_protocols(self, protocols: &[Protocol]) -> Self {
        ScenarioFile { protocols: protocols.into(), ..self }
    }

    /// Takes protocols of the caller for texts that name the protocol or the `window` of a flow and
    /// that a change has set: a file cannot name code. `find` gets each such text. The name of a
    /// protocol that it returns replaces the text; see [`ScenarioFile::with_protocols`].
    ///
    /// # Errors
    /// The first of `find`.
    pub fn find_protocols<E>(
        &mut self,
        mut find: impl FnMut(&str) -> Result<Option<Protocol>, E>,
    ) -> Result<(), E> {
        let mut own = self.protocols.to_vec();
        let mut replace = |node: &mut TomlNode| {
            let (TomlValue::Text(text), Origin::Set(_)) = (&mut node.value, &node.origin) else {
                return Ok(());
            };
            let Some(protocol) = find(text)? else { return Ok(()) };
            protocol.name.clone_into(text);
            own.push(protocol);
            Ok(())
        };
        for flow in self.document.table.items_mut("flows") {
            let Some(node) = flow.value_mut("protocol") else { continue };
            replace(node)?;
            node.value_mut("window").map_or(Ok(()), &mut replace)?;
        }
        self.protocols = own.into();
        Ok(())
    }

    /// Sets the value at a dotted key, as `--set` and sweep axes do: `duration`,
    /// `dumbbell.bottleneck.rate`, `flows.lossy.protocol` (the flows of group `lossy`),
    /// `flows.*.dupack_threshold` (all flows), `links.a->b.loss`. The key `flows.+` adds a group of
    /// flows, whose table is the value, and `links.+` a link.
    ///
    /// The value is TOML if it parses as such, otherwise a string.
    ///
    /// # Errors
    /// If the file can have no such key.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ScenarioError> {
        set::set(&mut self.document, key, value)
    }

    /// Sets the value at a dotted key to a value of another file, as [`ScenarioFile::set`] does.
    /// Errors in the value name its line there.
    ///
    /// # Errors
    /// If the file can have no such key.
    pub fn set_field(&mut self, key: &str, field: &Field<'_>) -> Result<(), ScenarioError> {
        set::insert(&mut self.document, key, field.node().clone())
    }

    /// Whether the file, with its changes, has this top-level key, such as `dumbbell`.
    pub fn has(&self, key: &str) -> bool {
        self.document.table.get(key).is_some()
    }

    /// Whether the file, with its changes, has a flow with the protocol of this name.
    pub fn has_protocol(&self, name: &str) -> bool {
        let Some(TomlValue::Array(flows)) =
            self.document.table.get("flows").map(|node| &node.value)
        else {
            return false;
        };
        flows.iter().any(|flow| match &flow.value {
            TomlValue::Table(flow) => flow.text("protocol") == Some(name),
            _ => false,
        })
    }

    /// The top-level table of another reader, such as `experiment`, if there is one.
    ///
    /// # Errors
    /// If the value is not a table.
    pub fn table(&self, key: &str) -> Result<Option<Section<'_>>, ScenarioError> {
        self.document.section().get(key).map(|field| field.section()).transpose()
    }

    /// True if both files have the same values, key by key; origins are not compared.
    pub fn says_the_same_as(&self, other: &ScenarioFile) -> bool {
        self.document.table == other.document.table
    }

    /// The file with its changes as TOML, without tables of other readers and without comments.
    pub fn to_toml(&self) -> String {
        self.document.table.to_toml(is_ours)
    }

    /// The same file without tables of other readers. Copies of it cost less.
    #[must_use]
    pub fn without_foreign_tables(mut self) -> Self {
        self.document.table.entries.retain(|(key, _)| is_ours(key));
        self
    }

    /// True if the text of [`Self::to_toml`] describes a whole scenario: the file is valid, and
    /// names neither trace files, stacks nor protocols of the caller.
    pub fn stands_alone(&self) -> bool {
        let Ok(copy) = ScenarioFile::parse("scenario", &self.to_toml()) else { return false };
        self.protocols.is_empty() && copy.build().is_ok() && copy.traces.is_empty()
    }

    /// Hashes the contents of the trace files that were read to build scenarios of this file, and
    /// the protocols of [`Self::with_protocols`] with their sources. Both may differ between files
    /// with [the same values](Self::says_the_same_as).
    /// [the same values](Self::says_the_same_as).
    pub fn hash_traces(&self, state: &mut impl Hasher) {
        self.traces.hash(state);
        for protocol in &*self.protocols {
            (protocol.name, protocol.source).hash(state);
        }
    }

    /// The scenario the file describes.
    ///
    /// # Errors
    /// The first unknown, missing or invalid setting.
    pub fn build(&self) -> Result<Scenario, ScenarioError> {
        let given = Given {
            traces: &self.traces,
            stacks: &self.stacks,
            protocols: &self.protocols,
            memory: self.memory,
        };
        build::build(&self.document.root(KEYS)?, given)
    }

    /// JSON Schema of the format, from the declarations of the reader. Editors use it to complete
    /// and explain keys and to mark unknown ones. Quantities with units are strings in it; only
    /// [`ScenarioFile::build`] checks the relations between values.
    pub fn json_schema() -> serde_json::Value {
        json_schema("A scenario of Windward", KEYS)
    }

    /// Every key of the format with default and meaning, in the order of the documentation.
    pub fn keys() -> Vec<KeyDoc> {
        let mut keys = Vec::new();
        describe("", KEYS, &mut keys);
        keys
    }
}
