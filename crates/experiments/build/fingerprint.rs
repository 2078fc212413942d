//! Fingerprint of the code that stored data depend on: with the same fingerprint they can be read
//! and mean the same.
//!
//! It depends on the definitions of all types that are read back (those that derive or implement
//! `Deserialize`: fields, their order, their types), on the golden runs of the engine, and on
//! nothing that differs between machines. Comments, formatting and the place of a definition do not
//! count.

use quote::ToTokens;
use syn::{Attribute, Item};

/// The definitions of types that are read back in a source file, as tokens.
pub(crate) fn stored_types(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    match syn::parse_file(&without_comments(source)) {
        Ok(file) => collect(&file.items, &mut found),
        // Too much is safe, too little is not.
        Err(_) => found.push(source.to_owned()),
    }
    found
}

fn collect(items: &[Item], found: &mut Vec<String>) {
    for item in items {
        let is_stored = match item {
            Item::Struct(item) => is_read_back(&item.attrs),
            Item::Enum(item) => is_read_back(&item.attrs),
            Item::Impl(item) => {
                let of = item.trait_.as_ref().and_then(|(path, _)| path.segments.last());
                of.is_some_and(|name| name.ident == "Deserialize")
            }
            Item::Mod(module) => {
                if let (false, Some((_, items))) = (is_test(&module.attrs), &module.content) {
                    collect(items, found);
                }
                false
            }
            _ => false,
        };
        if is_stored {
            found.push(item.to_token_stream().to_string());
        }
    }
}

/// True if one of the attributes derives `Deserialize`.
fn is_read_back(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.to_token_stream().to_string();
        text.contains("derive") && text.contains("Deserialize")
    })
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg") && attribute.to_token_stream().to_string().contains("test")
    })
}

/// The code of a source file without its tests, as tokens.
pub(crate) fn code(source: &str) -> String {
    let Ok(file) = syn::parse_file(&without_comments(source)) else { return source.to_owned() };
    let is_code = |item: &&Item| !matches!(item, Item::Mod(module) if is_test(&module.attrs));
    let items = file.items.iter().filter(is_code).map(|item| item.to_token_stream().to_string());
    items.collect::<Vec<_>>().join("\n")
}

/// Documentation would be attributes, which are tokens.
fn without_comments(source: &str) -> String {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    source.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// CRC-64 of all parts, each ended by a zero.
pub(crate) fn of(parts: &[String]) -> u64 {
    const CRC: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_XZ);
    let mut digest = CRC.digest();
    for part in parts {
        digest.update(part.as_bytes());
        digest.update(&[0]);
    }
    digest.finalize()
}
