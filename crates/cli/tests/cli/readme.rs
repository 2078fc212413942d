//! README.md and the index of protocols agree with the program and its files.

use std::fs;

use crate::{repository, success};

fn readme() -> String {
    fs::read_to_string(repository().join("README.md")).expect("README.md is there")
}

#[test]
fn the_index_of_protocols_has_the_table_of_the_program() {
    let index = fs::read_to_string(repository().join("docs/protocols/README.md"))
        .expect("the index is there");
    // Names are links there: `[reno](reno.md)`.
    let plain = |row: &str| match row.strip_prefix("| [").and_then(|row| row.split_once("](")) {
        Some((name, rest)) => {
            format!("| `{name}`{}", rest.trim_start_matches(|c| c != ')').replacen(')', "", 1))
        }
        None => row.to_owned(),
    };
    let table = index.lines().filter(|line| line.starts_with('|')).map(plain);
    assert_eq!(table.collect::<Vec<_>>().join("\n"), success(["list", "--markdown"]).trim());
}

#[test]
fn the_scenario_printed_is_the_example_file() {
    let example = fs::read_to_string(repository().join("experiments/examples/first.toml"))
        .expect("the example is there");
    let printed = format!("```toml\n{}\n```", example.trim());
    assert!(readme().contains(&printed), "README.md prints another one");
}

/// Headings of a page as GitHub names them in links.
fn headings(page: &str) -> impl Iterator<Item = String> {
    page.lines().filter(|line| line.starts_with('#')).map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        words.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect()
    })
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
        match target.split_once('#') {
            None => assert!(repository().join(target).exists(), "{target}"),
            Some((file, heading)) => {
                let page = fs::read_to_string(repository().join(file)).expect(target);
                assert!(headings(&page).any(|one| one == heading), "{target}");
            }
        }
        count += 1;
    }
    assert!(count > 0);
}
