//! The fingerprint of a build changes exactly with the code that stored data depend on.

#[path = "../build/fingerprint.rs"]
mod fingerprint;

use fingerprint::{code, of, stored_types};

const ONE: &str = "
    /// Words.
    #[derive(Debug, Serialize, Deserialize)]
    pub struct Sample { pub time: u64, pub queue: u32 }
    struct Other { a: u8 }
";

fn print(source: &str) -> u64 {
    of(&stored_types(source))
}

#[test]
fn a_field_more_or_of_another_type_or_elsewhere_is_another_fingerprint() {
    assert_eq!(stored_types(ONE).len(), 1);
    for (from, to) in [
        ("pub queue: u32", "pub queue: u32, pub lost: u64"),
        ("pub queue: u32", "#[serde(default)] pub queue: u32"),
        ("pub queue: u32", "pub queue: u64"),
        (", pub queue: u32", ""),
        ("pub time: u64, pub queue: u32", "pub queue: u32, pub time: u64"),
        ("queue", "waiting"),
    ] {
        assert!(ONE.contains(from));
        assert_ne!(print(&ONE.replace(from, to)), print(ONE), "{from} -> {to}");
    }
    let choice = "#[derive(Deserialize)] enum A { B, C(u8) } ";
    assert_ne!(print(choice), print(&choice.replace("B, C(u8)", "C(u8), B")));
    let by_hand = "impl<'de> Deserialize<'de> for A { fn f() { 1 } } ";
    assert_ne!(print(by_hand), print(&by_hand.replace('1', "2")));
    assert_ne!(print(&format!("mod inside {{ {ONE} }}")), of(&[]));
}

#[test]
fn words_and_what_is_not_read_back_do_not_count() {
    for (from, to) in [
        ("/// Words.", "/// Other words."),
        ("    pub struct", "pub\n struct"),
        ("a: u8", "a: u16"),
        ("struct Other", "#[derive(Serialize)] struct Other"),
    ] {
        assert!(ONE.contains(from));
        assert_eq!(print(&ONE.replace(from, to)), print(ONE), "{from} -> {to}");
    }
    assert_eq!(print(&format!("#[cfg(test)] mod tests {{ {ONE} }}")), of(&[]));
    assert_eq!(code("// a\nfn f() {}\n#[cfg(test)] mod tests { fn g() {} }"), code("fn f( ) { }"));
    assert_ne!(code("fn f() {}"), code("fn f() { g() }"));
}

#[test]
fn the_build_has_one_that_begins_with_the_version() {
    let (version, print) =
        windward_experiments::BUILD.split_once('+').expect("a version and a fingerprint");
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert_eq!(print.len(), 16);
    assert_ne!(u64::from_str_radix(print, 16), Ok(of(&[])));
}
