//! Declarations of keys: a key that is not declared is an error.

use std::borrow::Cow;

use windward_core::part;

use super::error::suggest;
use super::field::{Field, Result, Section};
use super::tree::TomlTable;

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The values it takes.
    pub kind: TomlType,
    /// Default value; empty without one.
    pub default: Cow<'static, str>,
    /// Meaning, unit and range in one line.
    pub meaning: Cow<'static, str>,
}

impl Key {
    /// The declaration of a parameter of a part.
    pub fn of(setting: &part::Setting) -> Self {
        Key {
            name: setting.doc.key,
            kind: TomlType::Parameter(setting.doc.kind),
            default: setting.default_text().into(),
            meaning: setting.description().into(),
        }
    }
}

/// A list of keys of a table.
#[derive(Debug)]
pub struct KeyList {
    /// The name of the table in a JSON Schema, if these are its first keys.
    pub name: &'static str,
    /// The keys in the order of the documentation.
    pub keys: Vec<Key>,
}

/// The keys of a table, in lists because tables share some.
pub type Keys = &'static [KeySource];

/// The source of a list of keys.
#[derive(Debug, Clone, Copy)]
pub enum KeySource {
    /// A declaration.
    Declared(fn() -> &'static KeyList),
    /// A list made at run time.
    Made(&'static KeyList),
}

impl KeySource {
    /// The list.
    pub fn list(&self) -> &'static KeyList {
        match self {
            KeySource::Declared(list) => list(),
            KeySource::Made(list) => list,
        }
    }
}

/// Returns the name of a table in an array of tables, by which dotted keys select it.
pub type NameOf = fn(&TomlTable) -> Option<String>;

/// The values that a key takes.
#[derive(Debug, Clone)]
pub enum TomlType {
    /// Any value but a table.
    Any,
    /// A string.
    Text,
    /// A string of this form, a regular expression.
    Pattern(&'static str),
    /// One of these words.
    Words(Vec<&'static str>),
    /// A value of a parameter.
    Parameter(part::ValueKind),
    /// A number, or a percentage in a string.
    Probability,
    /// An array.
    List(Box<TomlType>),
    /// One of several kinds.
    OneOf(Vec<TomlType>),
    /// A table with these keys, or a value that stands for such a table.
    Table {
        /// Its keys.
        keys: Keys,
        /// The table that such a value stands for.
        shorthand: Shorthand,
        /// The kinds of such values.
        values: Vec<TomlType>,
    },
    /// An array of tables with these keys.
    Tables {
        /// Their keys.
        keys: Keys,
        /// Their names.
        name_of: NameOf,
    },
    /// A table whose keys the file chooses.
    Free(Box<TomlType>),
    /// A table with the keys of another reader.
    Foreign,
}

/// The table that a plain value in its place stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shorthand {
    /// No plain value may stand in its place.
    None,
    /// All keys of the table.
    All,
    /// A table with this key alone.
    Key(&'static str),
}

impl TomlType {
    /// A table that no plain value can stand for.
    pub const fn table(keys: Keys) -> Self {
        TomlType::Table { keys, shorthand: Shorthand::None, values: Vec::new() }
    }
}

/// A key with its documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyDoc {
    /// The dotted key, as `--set` takes it.
    pub key: String,
    /// Default value; empty without one.
    pub default: String,
    /// Meaning, unit and range in one line.
    pub meaning: String,
}

/// All keys of a table.
pub fn all(keys: Keys) -> impl Iterator<Item = &'static Key> {
    keys.iter().flat_map(|source| &source.list().keys)
}

/// The key called `name`.
pub fn find(keys: Keys, name: &str) -> Option<&'static Key> {
    all(keys).find(|key| key.name == name)
}

/// The names of all keys.
pub fn names(keys: Keys) -> impl Iterator<Item = &'static str> {
    all(keys).map(|key| key.name)
}

/// [`NameOf`] for tables without names.
pub fn unnamed(_: &TomlTable) -> Option<String> {
    None
}

/// Checks that all keys of a table, and of the tables in it, are declared.
///
/// # Errors
/// At the first unknown key, in the order of the file.
pub fn check(section: &Section<'_>, keys: Keys) -> Result<()> {
    section.entries().try_for_each(|(name, field)| match find(keys, name) {
        Some(key) => check_value(&field, &key.kind),
        None => Err(field.spot().key_error("unknown key").with_help(suggest(name, names(keys)))),
    })
}

/// Checks the keys of the tables in a value. Readers check its type.
fn check_value(field: &Field<'_>, kind: &TomlType) -> Result<()> {
    match kind {
        TomlType::Table { keys, .. } if field.is_table() => check(&field.section()?, keys),
        TomlType::Table { values: kinds, .. } | TomlType::OneOf(kinds) => {
            kinds.iter().try_for_each(|kind| check_value(field, kind))
        }
        TomlType::Tables { keys, name_of } if field.is_array() => {
            field.items()?.iter().filter(|item| item.is_table()).try_for_each(|item| {
                let section = item.section()?;
                match name_of(section.tree()) {
                    Some(name) => check(&section.named(format!("{}.{name}", field.path())), keys),
                    None => check(&section, keys),
                }
            })
        }
        TomlType::List(kind) if field.is_array() => {
            field.items()?.iter().try_for_each(|item| check_value(item, kind))
        }
        TomlType::Free(kind) if field.is_table() => {
            field.section()?.entries().try_for_each(|(_, value)| check_value(&value, kind))
        }
        _ => Ok(()),
    }
}

/// Appends every key of a table, and of the tables in it, with its documentation.
pub fn describe(prefix: &str, keys: Keys, into: &mut Vec<KeyDoc>) {
    for key in all(keys) {
        let path = format!("{prefix}{}", key.name);
        into.push(KeyDoc {
            key: path.clone(),
            default: key.default.clone().into_owned(),
            meaning: key.meaning.clone().into_owned(),
        });
        match &key.kind {
            TomlType::Table { keys, .. } => describe(&format!("{path}."), keys, into),
            TomlType::Tables { keys, .. } => describe(&format!("{path}.*."), keys, into),
            TomlType::Free(kind) => {
                if let TomlType::Table { keys, .. } = &**kind {
                    describe(&format!("{path}.*."), keys, into);
                }
            }
            _ => {}
        }
    }
}

/// Declares the keys of tables: for each a struct with a field for each key, its function `read`,
/// which reads the keys of a [`Section`], and its constant `KEYS`,
/// from which unknown keys, documentation and JSON Schema follow.
///
/// A key has a type, a reader (see [`readers`](crate::strict_toml::readers)) and a presence:
/// `needed EXAMPLE`; `or DEFAULT`; `empty` for an empty collection; or `absent` for an `Option`,
/// with words for the documentation of the default if there are any.
///
/// ```
/// use windward_scenario::keys;
/// use windward_scenario::strict_toml::{Document, readers};
///
/// keys! {
///     /// A buffer.
///     struct Buffer in "buffer" {
///         size: u32 = readers::small(1..=1000), needed "size = 50", "packets that fit";
///         marks: bool = readers::flag(), or false, "mark packets instead of dropping them";
///     }
/// }
/// let document = Document::parse("a.toml", "size = 7")?;
/// let buffer = Buffer::read(&document.root(&[Buffer::KEYS])?)?;
/// assert_eq!((buffer.size, buffer.marks), (7, false));
///
/// let document = Document::parse("a.toml", "size = 7\nmark = true")?;
/// let error = document.root(&[Buffer::KEYS]).unwrap_err().to_string();
/// assert!(error.starts_with("a.toml:2: mark: unknown key"), "{error}");
/// assert!(error.contains("did you mean `marks`?"));
/// # Ok::<(), windward_scenario::strict_toml::FileError>(())
/// ```
#[macro_export]
macro_rules! keys {
    ($(
        $(#[$doc:meta])* $vis:vis struct $name:ident $(<$life:lifetime>)? in $table:literal {
            $($body:tt)*
        }
    )+) => {
        $($crate::keys!(@of [$($life)?] [$(#[$doc])*] [$vis] $name $table { $($body)* });)+
    };
    (@of [] $($rest:tt)*) => { $crate::keys!(@table [] ['_] $($rest)*); };
    (@of [$life:lifetime] $($rest:tt)*) => {
        $crate::keys!(@table [<$life>] [$life] $($rest)*);
    };
    (@table [$($generics:tt)*] [$life:lifetime] [$($doc:tt)*] [$vis:vis] $name:ident $table:literal {
        $(
            $(#[$attribute:meta])*
            $key:ident: $type:ty = $reader:expr, $presence:ident $($detail:expr)?, $meaning:expr;
        )*
    }) => {
        $($doc)*
        #[derive(Debug, Clone)]
        $vis struct $name $($generics)* {
            $(#[doc = $meaning] $(#[$attribute])* $vis $key: $type,)*
        }

        impl $($generics)* $name $($generics)* {
            /// The declarations of the keys.
            $vis const KEYS: $crate::strict_toml::KeySource =
                $crate::strict_toml::KeySource::Declared(Self::keys);

            fn keys() -> &'static $crate::strict_toml::KeyList {
                static KEYS: std::sync::OnceLock<$crate::strict_toml::KeyList> =
                    std::sync::OnceLock::new();
                KEYS.get_or_init(|| $crate::strict_toml::KeyList {
                    name: $table,
                    keys: vec![$($crate::strict_toml::Key {
                        name: stringify!($key),
                        kind: ($reader.kind)(),
                        default: $crate::keys!(@default $presence $($detail)?).into(),
                        meaning: $meaning.into(),
                    },)*],
                })
            }

            /// Reads the keys of a table.
            $vis fn read(
                section: &$crate::strict_toml::Section<$life>,
            ) -> $crate::strict_toml::Result<Self> {
                Ok(Self {
                    $($key: $crate::keys!(
                        @read section, stringify!($key), $reader, $presence $($detail)?
                    ),)*
                })
            }
        }
    };
    (@default needed $example:expr) => { "" };
    (@default or $value:expr) => { $value.to_string() };
    (@default empty) => { "" };
    (@default absent) => { "" };
    (@default absent $words:expr) => { $words };
    (@read $section:ident, $key:expr, $reader:expr, needed $example:expr) => {
        $section.require($key, $example, &$reader)?
    };
    (@read $section:ident, $key:expr, $reader:expr, or $value:expr) => {
        $section.value($key, &$reader)?.unwrap_or($value)
    };
    (@read $section:ident, $key:expr, $reader:expr, empty) => {
        $section.value($key, &$reader)?.unwrap_or_default()
    };
    (@read $section:ident, $key:expr, $reader:expr, absent $($words:expr)?) => {
        $section.value($key, &$reader)?
    };
}
