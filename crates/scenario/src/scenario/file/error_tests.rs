//! The parts of errors.

use super::ScenarioFile;
use crate::strict_toml::{FileError, Location, suggest};

const FIRST: &str = include_str!("../../../../../experiments/examples/first.toml");

fn after(key: &str, value: &str) -> FileError {
    let mut file = ScenarioFile::parse("first.toml", FIRST).unwrap();
    file.set(key, value).and_then(|()| file.build().map(drop)).unwrap_err()
}

#[test]
fn an_error_has_its_parts_as_fields() {
    let text = FIRST.replace("duration = \"100s\"", "duration = \"100\"");
    let error = ScenarioFile::parse("a.toml", &text).and_then(|f| f.build()).unwrap_err();
    assert_eq!(error.location().file(), "a.toml");
    // Below the comment in the first line.
    assert_eq!(error.line(), Some(2));
    assert_eq!((error.key(), error.value()), (Some("duration"), Some("\"100\"")));
    assert_eq!(error.suggestion(), None);
    let (message, help) = (error.message(), error.help().unwrap());
    assert_eq!(
        error.to_string(),
        format!("a.toml:2: duration = \"100\": {message}\n  help: {help}")
    );
}

#[test]
fn a_change_is_a_place_of_its_own() {
    let error = after("flows.lossy.protocol", "newrneo");
    let assignment = "flows.lossy.protocol=newrneo".to_owned();
    assert_eq!(error.location(), &Location::Set { file: "first.toml".to_owned(), assignment });
    assert_eq!(error.line(), None);
    assert_eq!(error.key(), Some("flows.lossy.protocol"));
    assert_eq!(error.suggestion(), Some("newreno"));

    let error = after("flows.losy.protocol", "newreno");
    assert_eq!(error.key(), Some("flows.losy.protocol"));
    assert_eq!((error.value(), error.suggestion()), (None, Some("lossy")));
    assert_eq!(error.message(), "`flows` has no `losy`");
}

#[test]
fn an_unknown_word_without_a_near_one_gets_the_list_of_valid_ones() {
    let error = after("flows.lossy.protocol", "nope");
    assert_eq!(error.suggestion(), None);
    let help = error.help().unwrap();
    assert!(help.starts_with("valid: reno, newreno, sack, cubic"), "{help}");
    // At most 60 words of 100.
    let words: Vec<String> = (100..200).map(|n| format!("group-{n}")).collect();
    let help = FileError::new("f", "m").with_help(suggest("xyz", words.iter().map(String::as_str)));
    let help = help.help().unwrap();
    assert!(help.ends_with("group-158, group-159, .."), "{help}");
}

#[test]
fn errors_of_whole_files_have_no_key() {
    let error = ScenarioFile::parse("b.toml", "a = [").unwrap_err();
    assert_eq!((error.line(), error.key()), (Some(1), None));
    let error = ScenarioFile::parse("b.toml", "").unwrap_err();
    assert_eq!(error.location(), &Location::File { file: "b.toml".to_owned() });
    assert_eq!(error.message(), "is empty");
}
