//! Readers of values: each reads the value of a key, checks it, and describes the kind of value
//! that it accepts.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use windward_core::part;
use windward_core::units::{Duration, Probability, Rate};

use super::field::{Amount, At, Field, Result, Section};
use super::keys::{Keys, NameOf, Shorthand, TomlType};
use super::reader::Reader;

/// Declares functions that make readers.
macro_rules! readers {
    ($(
        $(#[$doc:meta])*
        $name:ident$([$type:ident: $bound:path])?($($argument:ident: $of:ty),*) -> $value:ty {
            |$field:ident| $read:expr, $kind:expr
        }
    )+) => {
        $(
            $(#[$doc])*
            pub fn $name<'a $(, $type: $bound + 'static)?>(
                $($argument: $of),*
            ) -> Reader<impl Fn(&Field<'a>) -> Result<$value>, impl Fn() -> TomlType> {
                Reader {
                    kind: {
                        #[allow(clippy::clone_on_copy)]
                        $(let $argument = $argument.clone();)*
                        move || $kind
                    },
                    read: move |$field: &Field<'a>| $read,
                }
            }
        )+
    };
}

readers! {
    /// A string.
    text() -> &'a str { |field| field.text(), TomlType::Text }
    /// A name that can appear in results, dotted keys and file names.
    name() -> &'a str { |field| field.name(), TomlType::Text }
    /// A name that appears only in results.
    label() -> &'a str { |field| field.label(), TomlType::Text }
    /// An owned string.
    string() -> String { |field| field.text().map(str::to_owned), TomlType::Text }
    /// An array of strings.
    strings() -> Vec<String> {
        |field| field.items()?.iter().map(|item| item.text().map(str::to_owned)).collect(),
        TomlType::List(Box::new(TomlType::Text))
    }
    /// Strings under keys that the file chooses.
    map_of_strings() -> BTreeMap<String, String> {
        |field| {
            let section = field.section()?;
            let entry = |(key, value): (&str, Field<'_>)| {
                Ok((key.to_owned(), value.text()?.to_owned()))
            };
            section.entries().map(entry).collect()
        },
        TomlType::Free(Box::new(TomlType::Text))
    }
    /// True or false.
    flag() -> bool { |field| field.bool(), TomlType::Parameter(part::ValueKind::Bool) }
    /// A finite number.
    number() -> f64 {
        |field| match field.float(f64::NEG_INFINITY..=f64::INFINITY)? {
            number if number.is_finite() => Ok(number),
            _ => Err(field.error("must be finite")),
        },
        TomlType::Parameter(part::ValueKind::Number { least: f64::MIN, most: f64::MAX })
    }
    /// A number in a range.
    number_in(range: RangeInclusive<f64>) -> f64 {
        |field| field.float(range.clone()),
        TomlType::Parameter(part::ValueKind::Number { least: *range.start(), most: *range.end() })
    }
    /// A number above zero, up to `most`.
    above_zero(most: f64) -> f64 {
        |field| field.above_zero(most), TomlType::Parameter(part::ValueKind::Positive { most })
    }
    /// Two finite numbers, the first below the second.
    bounds() -> (f64, f64) {
        |field| {
            let wrong = || {
                let error = field.error("expected two numbers, the lower first");
                error.with_help("write for instance [0, 1]")
            };
            let items = field.items().map_err(|_| wrong())?;
            let number = |item: &Field<'_>| (number().read)(item).ok();
            match items.iter().map(number).collect::<Vec<_>>()[..] {
                [Some(low), Some(high)] if low < high => Ok((low, high)),
                _ => Err(wrong()),
            }
        },
        TomlType::List(Box::new((number().kind)()))
    }
    /// A whole number in a range.
    integer(range: RangeInclusive<u64>) -> u64 {
        |field| field.integer(range.clone()),
        TomlType::Parameter(part::ValueKind::Integer { least: *range.start(), most: *range.end() })
    }
    /// A whole number of 32 bits in a range.
    small(range: RangeInclusive<u32>) -> u32 {
        |field| field.small(range.clone()),
        TomlType::Parameter(part::ValueKind::Integer {
            least: (*range.start()).into(),
            most: (*range.end()).into(),
        })
    }
    /// A time in a range.
    time(range: RangeInclusive<Duration>) -> Duration {
        |field| field.duration(range.clone()),
        TomlType::Parameter(part::ValueKind::Time { least: *range.start(), most: *range.end() })
    }
    /// A time above zero, up to `longest`.
    positive(longest: Duration) -> Duration {
        |field| field.positive(longest),
        TomlType::Parameter(part::ValueKind::Time { least: Duration::from_ps(1), most: longest })
    }
    /// A rate with its unit.
    rate() -> Rate { |field| field.rate(), TomlType::Text }
    /// A probability.
    probability() -> Probability { |field| field.probability(), TomlType::Probability }
    /// Packets or bytes.
    amount() -> Amount { |field| field.amount(), TomlType::Text }
    /// One of several words.
    word(words: &'static [&'static str]) -> &'a str {
        |field| field.word(words), TomlType::Words(words.to_vec())
    }
    /// One of several words, each with its meaning.
    one_of[T: Copy](meanings: &'static [(&'static str, T)]) -> T {
        |field| field.one_of(meanings),
        TomlType::Words(meanings.iter().map(|(word, _)| *word).collect())
    }
    /// A value of this kind, read later.
    any(kind: fn() -> TomlType) -> Field<'a> { |field| Ok(field.clone()), kind() }
    /// A table with these keys.
    table(keys: Keys) -> Section<'a> {
        |field| field.section(), TomlType::table(keys)
    }
    /// A table with these keys, or a value of one of these kinds that stands for it, read later.
    table_or(keys: Keys, shorthand: Shorthand, values: fn() -> Vec<TomlType>) -> Field<'a> {
        |field| Ok(field.clone()),
        TomlType::Table { keys, shorthand, values: values() }
    }
    /// Tables with these keys.
    tables(keys: Keys, name_of: NameOf) -> Vec<Section<'a>> {
        |field| field.items()?.iter().map(Field::section).collect(),
        TomlType::Tables { keys, name_of }
    }
    /// A table whose keys the file chooses, with values of this kind.
    free(kind: TomlType) -> Section<'a> {
        |field| field.section(), TomlType::Free(Box::new(kind.clone()))
    }
    /// An array of values of this kind, read later.
    list(kind: TomlType) -> Vec<Field<'a>> {
        |field| field.items(), TomlType::List(Box::new(kind.clone()))
    }
    /// An array of values of this kind, or one value alone, read later.
    one_or_more(kind: TomlType) -> Vec<Field<'a>> {
        |field| if field.is_array() { field.items() } else { Ok(vec![field.clone()]) },
        TomlType::OneOf(vec![kind.clone(), TomlType::List(Box::new(kind.clone()))])
    }
    /// Strings, each with its line: an array, or one string alone.
    texts() -> Vec<At<String>> {
        |field| {
            let items = if field.is_array() { field.items()? } else { vec![field.clone()] };
            items.iter().map(|item| Ok(item.at(item.text()?.to_owned()))).collect()
        },
        TomlType::OneOf(vec![TomlType::Text, TomlType::List(Box::new(TomlType::Text))])
    }
}

/// A value of this kind that a function reads.
pub fn custom<T, R: Fn(&Field<'_>) -> Result<T>>(
    kind: fn() -> TomlType,
    read: R,
) -> Reader<R, fn() -> TomlType> {
    Reader { read, kind }
}
