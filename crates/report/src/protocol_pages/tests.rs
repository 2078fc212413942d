//! The pages are up to date. `BLESS=1 cargo test -p windward-report protocol_pages` rewrites what
//! the program writes, and adds a page with empty sections for each protocol without one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use windward_core::protocols;

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols")
}

const HOW: &str = "run `BLESS=1 cargo test -p windward-report protocol_pages`";

/// The part of a page that is written by hand: from the first heading of the second level to the
/// frame.
fn heart(page: &str) -> Option<&str> {
    let begin = page.find("\n## ")?;
    page.get(begin..page.find(BEGIN)?)
}

/// Compares a page with what the program writes around its heart, or replaces it.
fn check(name: &str, head: &str, frame: &str, stale: &mut Vec<String>) {
    let path = folder().join(name);
    let page = fs::read_to_string(&path).unwrap_or_default();
    let skeleton = HEART.map(|heading| format!("\n## {heading}\n")).concat() + "\n";
    let expected = format!("{head}{}{frame}", heart(&page).unwrap_or(&skeleton));
    if page == expected {
        return;
    }
    if std::env::var_os("BLESS").is_none() {
        stale.push(name.to_owned());
        return;
    }
    fs::write(&path, expected).unwrap();
}

#[test]
fn frames_are_what_the_program_writes() {
    let pages = Pages::new().unwrap();
    let mut stale = Vec::new();
    for protocol in PROTOCOLS {
        let name = format!("{}.md", protocol.name);
        check(&name, &Pages::head(protocol), &pages.frame(protocol), &mut stale);
    }
    assert!(stale.is_empty(), "out of date in docs/protocols: {}; {HOW}", stale.join(", "));
}

/// The index begins with the table of protocols and ends with the sources.
#[test]
fn the_index_is_what_the_program_writes() {
    let path = folder().join("README.md");
    let page = fs::read_to_string(&path).unwrap();
    let (_, below) = page.split_once(&format!("{END}\n")).expect("a mark at the end of the table");
    let (text, _) = below.split_once(BEGIN).expect("a mark before the sources");
    let expected = format!("{}{text}{}", Pages::new().unwrap().index(), sources());
    if page == expected {
        return;
    }
    assert!(std::env::var_os("BLESS").is_some(), "out of date: docs/protocols/README.md; {HOW}");
    fs::write(&path, expected).unwrap();
}

/// The guide to scenario files lists the keys of endpoints and of parts between the marks.
#[test]
fn the_guide_lists_the_keys_of_parts() {
    let path = folder().join("../scenarios.md");
    let guide = fs::read_to_string(&path).unwrap();
    let begin = guide.find(BEGIN).expect("a mark at the begin of the keys of endpoints");
    let end = begin + guide[begin..].find(END).expect("a mark at their end") + END.len() + 1;
    let keys = Pages::new().unwrap().endpoint_keys();
    if guide[begin..end] == keys {
        return;
    }
    assert!(std::env::var_os("BLESS").is_some(), "out of date in docs/scenarios.md: {HOW}");
    fs::write(&path, format!("{}{keys}{}", &guide[..begin], &guide[end..])).unwrap();
}

#[test]
fn every_page_has_a_protocol_and_all_sections() {
    let mut expected = BTreeSet::from(["README.md".to_owned()]);
    let mut empty = Vec::new();
    for protocol in PROTOCOLS {
        let name = format!("{}.md", protocol.name);
        let page = fs::read_to_string(folder().join(&name)).unwrap_or_default();
        let heart = heart(&page).unwrap_or_default();
        for heading in HEART {
            if section(heart, heading).is_none_or(|text| text.len() < 40) {
                empty.push(format!("{name}: {heading}"));
            }
        }
        expected.insert(name);
    }
    assert!(empty.is_empty(), "to be written in docs/protocols: {}", empty.join(", "));
    let found = fs::read_dir(folder()).unwrap();
    let found: BTreeSet<String> =
        found.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(found, expected, "pages and protocols");
}

/// The text under a heading of the second level.
fn section<'a>(heart: &'a str, heading: &str) -> Option<&'a str> {
    let (_, rest) = heart.split_once(&format!("\n## {heading}\n"))?;
    let text = rest.split("\n## ").next()?;
    Some(text.trim())
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    for protocol in PROTOCOLS {
        let path = folder().join(format!("{}.md", protocol.name));
        let page = fs::read_to_string(&path).unwrap_or_default();
        let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (target, _) in links.filter(|(target, _)| !target.starts_with("http")) {
            // The site's build checks the headings.
            let file = target.split('#').next().unwrap_or_default();
            assert!(folder().join(file).exists(), "{target} in {}", path.display());
        }
    }
}

#[test]
fn every_key_of_an_endpoint_says_to_whom_it_applies() {
    let keys = ScenarioFile::keys();
    let undecided = endpoint_keys(&keys).filter(|(key, _)| PROTOCOLS[0].applies(key).is_none());
    let undecided: Vec<&str> = undecided.map(|(key, _)| key).collect();
    assert!(undecided.is_empty(), "to be decided in `applies`: {undecided:?}");
}

#[test]
fn a_frame_has_what_applies_and_nothing_else() {
    let pages = Pages::new().unwrap();
    let frame = |name| pages.frame(protocols::find(name).unwrap());
    let lm = frame("lr-lmxcp");
    for text in [
        "| recovery | loss-monitor |",
        "describe `retransmission_timeout_factor`, `loss_monitor_guard` and the parameters of every",
        "Keys without effect: `ecn`.",
        "router [`xcp`]",
        "`lr2008-fig3`, ",
    ] {
        assert!(lm.contains(text), "{text} in:\n{lm}");
    }
    for text in ["| `ecn`", "`partial_deflation`", "`rwnd`", "lr2008-fig8"] {
        assert!(!lm.contains(text), "{text} in:\n{lm}");
    }
    let copa = frame("copa");
    assert!(copa.contains("| `copa.delta` | 0.5 | 1 / delta packets wait"), "{copa}");
    assert!(
        copa.contains("As in plain TCP: discrimination `always`, feedback `none`, router `none`.")
    );
    assert!(frame("upwind").contains("`ecn` (here true)"));
    assert!(frame("westwood").contains("`westwood.estimator` (here ere)"));
}

#[test]
fn a_composition_on_a_row_counts_as_that_row() {
    for (name, row) in [
        ("estcp", "estcp"),
        ("estcp+newreno", "estcp"),
        ("estcp-ecn+reno", "estcp-ecn"),
        ("westwood++sack", "westwood+"),
        ("westwood+", "westwood+"),
        ("westwood+sack", "westwood"),
        ("mine", "mine"),
    ] {
        assert_eq!(super::row_of(name), row);
    }
}
