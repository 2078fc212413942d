//! Declarations, reading and errors.

use windward_core::units::Duration;

use super::{Document, KeyDoc, Location, TomlType, describe, json_schema, readers, unnamed};
use crate::keys;

keys! {
    /// The outermost table.
    struct FileKeys<'a> in "file" {
        name: &'a str = readers::text(), needed "name = \"a\"", "its name";
        wait: Duration = readers::time(Duration::ZERO..=Duration::from_secs(1)),
            or Duration::from_millis(5), "a pause";
        limit: Option<u32> = readers::small(1..=9), absent "none", "a bound";
        step: Vec<super::Section<'a>> = readers::tables(&[StepKeys::KEYS], unnamed), empty, "steps";
        free: Option<super::Section<'a>> =
            readers::free(TomlType::table(&[StepKeys::KEYS])), absent, "steps by name";
    }

    /// A step.
    struct StepKeys in "step" {
        share: f64 = readers::number_in(0.0..=1.0), or 0.5, "a share";
        log: bool = readers::flag(), or false, "logarithmic";
    }
}

fn error(text: &str) -> String {
    let document = Document::parse("a.toml", text).unwrap();
    let read = document.root(&[FileKeys::KEYS]).and_then(|root| {
        let file = FileKeys::read(&root)?;
        file.step.iter().try_for_each(|step| StepKeys::read(step).map(drop))
    });
    read.unwrap_err().to_string()
}

#[test]
fn a_declaration_reads_values_and_defaults() {
    let text = "name = 'é'\nlimit = 7\n[[step]]\nshare = 1\n[free.own]\nlog = true";
    let document = Document::parse("a.toml", text).unwrap();
    let file = FileKeys::read(&document.root(&[FileKeys::KEYS]).unwrap()).unwrap();
    assert_eq!((file.name, file.wait, file.limit), ("é", Duration::from_millis(5), Some(7)));
    let StepKeys { share, log } = StepKeys::read(&file.step[0]).unwrap();
    assert_eq!((share, log), (1.0, false));
    let own = file.free.unwrap().table("own").unwrap();
    assert!(StepKeys::read(&own).unwrap().log);
}

#[test]
fn unknown_keys_are_errors_at_every_depth() {
    for (text, expected) in [
        ("nam = 'a'", "a.toml:1: nam: unknown key\n  help: did you mean `name`?"),
        ("name = 'a'\n[[step]]\nlgo = true", "a.toml:3: step[0].lgo: unknown key"),
        ("name = 'a'\nfree = { x = { lgo = true } }", "a.toml:2: free.x.lgo: unknown key"),
        ("", "a.toml:1: `name` is missing\n  help: write for instance `name = \"a\"`"),
        ("name = 'a'\nlimit = 10", "a.toml:2: limit = 10: must lie between 1 and 9"),
        ("name = 'a'\nstep = [{ log = 1 }]", "a.toml:2: step[0].log = 1: expected true or false"),
    ] {
        assert!(error(text).starts_with(expected), "{}", error(text));
    }
}

#[test]
fn places_have_lines_and_columns() {
    let text = "a = 1\n\"ü\" = { b = 2, cc = [3, 4] }\n";
    let document = Document::parse("a.toml", text).unwrap();
    let table = document.section().table("ü").unwrap();
    let at = |line, column| Location::Line { file: "a.toml".to_owned(), line, column };
    assert_eq!(document.section().get("a").unwrap().error("").location(), &at(1, 1));
    assert_eq!(table.get("b").unwrap().error("").location(), &at(2, 9));
    let items = table.get("cc").unwrap().items().unwrap();
    let error = items[1].error("");
    assert_eq!((error.line(), error.column()), (Some(2), Some(25)));
    assert_eq!(items[1].path(), "ü.cc[1]");

    // A line longer than the step between marks, of two-byte letters; items at columns 6, 12, ...
    let text = format!("\na = [{}]\nb = 1", "'üü', ".repeat(1000));
    let document = Document::parse("a.toml", &text).unwrap();
    let items = document.section().get("a").unwrap().items().unwrap();
    for (index, item) in items.iter().enumerate() {
        assert_eq!(item.error("").location(), &at(2, 6 + 6 * index), "item {index}");
    }
    assert_eq!(document.section().get("b").unwrap().error("").location(), &at(3, 1));
}

#[test]
fn values_are_shown_as_the_file_writes_them() {
    let text = "a = 1e-3\nb = { c = [0x10, \"d\"] }\ne = 'f'\n[g]\nh.i = 1\n[[j]]\nk = [[1]]";
    let document = Document::parse("a.toml", text).unwrap();
    let root = document.section();
    let settings = ["a", "b", "e"].map(|key| root.get(key).unwrap().as_setting());
    assert_eq!(settings, ["1e-3", "{ c = [0x10, \"d\"] }", "f"]);
    let blocks: Vec<_> = root.entries().map(|(_, field)| field.is_block()).collect();
    assert_eq!(blocks, [false, false, false, true, true]);
    let item = &root.get("j").unwrap().items().unwrap()[0];
    assert!(item.is_block() && !item.section().unwrap().get("k").unwrap().is_block());
    assert_eq!(&text[item.range().unwrap()], "[[j]]");
}

#[test]
fn documentation_and_schema_follow_from_the_declaration() {
    let mut keys = Vec::new();
    describe("", &[FileKeys::KEYS], &mut keys);
    let names: Vec<&str> = keys.iter().map(|doc| &*doc.key).collect();
    let steps = ["step.*.share", "step.*.log", "free", "free.*.share", "free.*.log"];
    assert_eq!(names, [&["name", "wait", "limit", "step"][..], &steps].concat());
    let wait = KeyDoc { key: "wait".into(), default: "5ms".into(), meaning: "a pause".into() };
    assert_eq!(keys[1], wait);
    let schema = json_schema("Files", &[FileKeys::KEYS]);
    let limit = &schema["properties"]["limit"];
    assert_eq!((limit["minimum"].as_u64(), limit["maximum"].as_u64()), (Some(1), Some(9)));
    assert_eq!(schema["properties"]["step"]["items"]["$ref"], "#/$defs/step");
    assert_eq!(schema["$defs"]["step"]["additionalProperties"], false);
}
