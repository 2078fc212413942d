//! TOML files read strictly. [`keys!`](crate::keys) declares the keys of a table once; reading,
//! checking, documentation and JSON Schema follow from the declaration. A key that is not declared
//! is an error. Errors name the file, the line, the key, the value and a correction.
//!
//! In reading order: `tree` holds the values of a file with their places; `field` reads them with
//! their units; `readers` read, check and describe a value; `keys` declares the keys of tables.
//! `write` writes values as text.

mod error;
mod field;
mod json_schema;
mod keys;
mod reader;
pub mod readers;
mod tree;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use error::{FileError, Help, Location, shorten, suggest};
pub use field::{Amount, At, Field, Result, Section, Spot};
pub use json_schema::{extend_json_schema, json_schema};
pub use keys::{
    Key, KeyDoc, KeyList, KeySource, Keys, NameOf, Shorthand, TomlType, all, check, describe, find,
    names, unnamed,
};
pub use reader::Reader;
pub use tree::TomlTable;
pub(crate) use tree::{Origin, Source, TomlNode, TomlValue, parse_value};

/// A file with its values.
#[derive(Debug, Clone)]
pub struct Document {
    name: String,
    text: Arc<str>,
    pub(crate) table: TomlTable,
}

impl Document {
    /// Parses a text; `name` is the path of the file in errors.
    ///
    /// # Errors
    /// If it is not TOML, or a string in it contains a control character.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let table = tree::parse(Source { name, text })?;
        Ok(Document { name: name.to_owned(), text: text.into(), table })
    }

    /// The name of the file in errors.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The outermost table, whose keys are not checked.
    pub fn section(&self) -> Section<'_> {
        Section::root(Source { name: &self.name, text: &self.text }, &self.table)
    }

    /// The outermost table.
    ///
    /// # Errors
    /// If it, or a table in it, has a key that `keys` does not declare.
    pub fn root(&self, keys: Keys) -> Result<Section<'_>> {
        let section = self.section();
        check(&section, keys)?;
        Ok(section)
    }
}
