//! README.md tells the truth.

use std::fs;

use crate::{repository, success};

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).expect("README.md is there")
}

#[test]
fn the_protocol_table_is_the_one_in_the_program() {
    let readme = readme();
    let table = readme
        .split_once("<!-- windward list --markdown -->\n")
        .and_then(|(_, rest)| rest.split_once("<!-- end -->"))
        .expect("the table stands between its marks")
        .0;
    assert_eq!(table.trim(), success(["list", "--markdown"]).trim());
}

#[test]
fn the_scenario_printed_is_the_example_file() {
    let example = fs::read_to_string(repository().join("experiments/examples/first.toml"))
        .expect("the example is there");
    let printed = format!("```toml\n{}\n```", example.trim());
    assert!(readme().contains(&printed), "README.md prints another one");
}

#[test]
fn every_file_it_links_to_exists() {
    let readme = readme();
    let targets = readme
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| !target.starts_with("http") && !target.starts_with('#'));
    let mut count = 0;
    for target in targets {
        assert!(repository().join(target).exists(), "{target}");
        count += 1;
    }
    assert!(count > 0);
}
