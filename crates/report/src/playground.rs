//! Links that open a scenario in the playground.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::json;
use windward_experiments::Results;
use windward_sim::scenario::file::ScenarioFile;

use crate::plot::escape;

/// The playground, which crates/web/build.sh makes: one compressed file.
pub const PAGE: &[u8] = include_bytes!("../../web/dist/play.html.gz");

/// Name of the file beside the pages of a report that is the playground.
pub const FILE: &str = "play.html";

/// Address of the playground while `windward play` runs with its usual port.
pub const LOOPBACK: &str = "http://127.0.0.1:9744/";

/// Port in [`LOOPBACK`].
pub const PORT: u16 = 9744;

/// Text of links to the playground.
pub const WORDS: &str = "Open in the playground";

/// Longest fragment that is written, characters. The page reads 200,000.
const LONGEST: usize = 100_000;

/// Largest number of scenarios of one experiment to which links lead.
const MOST: usize = 12;

/// State of the playground with this scenario, for an address after its `#`. `None` if the text of
/// the file is not enough, since it names trace files or parts of other crates, or is very long.
pub fn fragment(file: &ScenarioFile) -> Option<String> {
    file.stands_alone().then(|| state(&file.to_toml())).filter(|text| text.len() <= LONGEST)
}

/// The state with this text, as crates/web/page/state.ts reads it: raw deflate of JSON, in base64
/// for URLs.
fn state(text: &str) -> String {
    let state = json!({ "setups": [{ "text": text }], "seeds": 1 }).to_string();
    let packed = miniz_oxide::deflate::compress_to_vec(state.as_bytes(), 9);
    format!("s={}", data_encoding::BASE64URL_NOPAD.encode(&packed))
}

/// The scenario of a cell and the fragment that opens it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// The points of the cell; empty without axes.
    pub(crate) label: String,
    pub(crate) fragment: String,
}

/// Scenarios of an experiment, evenly chosen if it has many.
pub(crate) fn of(results: &Results) -> Vec<Opened> {
    let experiment = &results.plan.experiment;
    let cells = experiment.cells();
    let shown = cells.min(MOST);
    let open = |n: usize| {
        let cell = n * cells / shown;
        let file = experiment.plain_file(cell, &results.plan.length).ok()?;
        Some(Opened { label: experiment.cell_name(cell), fragment: fragment(&file)? })
    };
    (0..shown).filter_map(open).collect()
}

/// Writes links to the playground.
pub(crate) fn links(html: &mut String, scenarios: &[Opened]) {
    // Writing to a String cannot fail.
    let _ = match scenarios {
        [] => Ok(()),
        [one] => {
            writeln!(html, "<p class=\"again\"><a href=\"{FILE}#{}\">{WORDS}</a></p>", one.fragment)
        }
        many => {
            let _ = writeln!(
                html,
                "<details><summary>{WORDS}: {} scenarios</summary>\n<ul class=\"columns\">",
                many.len()
            );
            for Opened { label, fragment } in many {
                let label = escape(label);
                let _ = writeln!(html, "<li><a href=\"{FILE}#{fragment}\">{label}</a></li>");
            }
            writeln!(html, "</ul>\n</details>")
        }
    };
}

/// The page as HTML.
///
/// # Errors
/// If it is damaged.
pub fn html() -> Result<Vec<u8>, Damaged> {
    unpacked(PAGE)
}

/// A page of the program that cannot be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damaged;

/// A compressed page as HTML.
///
/// # Errors
/// If it is damaged.
pub fn unpacked(page: &[u8]) -> Result<Vec<u8>, Damaged> {
    /// Largest size of a page, bytes.
    const MAX_PAGE: usize = 16 << 20;
    // A gzip member without optional fields (RFC 1952 section 2.3): ten bytes, data, eight bytes.
    let data = page.get(10..page.len().saturating_sub(8)).unwrap_or_default();
    miniz_oxide::inflate::decompress_to_vec_with_limit(data, MAX_PAGE).map_err(|_| Damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = "duration = '2s'\n[dumbbell]\nbottleneck = { rate = '5Mbit', delay = \
                            '5ms', queue = '50p' }\naccess = { rate = '5Mbit', delay = '5ms', \
                            queue = '50p' }\n[[flows]]\ngroup = 'a'\nprotocol = 'cubic'\n";

    #[test]
    fn a_link_has_the_scenario_with_its_changes() {
        let mut file = ScenarioFile::parse("s.toml", SCENARIO).unwrap();
        file.set("flows.a.protocol", "upwind").unwrap();
        let fragment = fragment(&file).unwrap();
        // Letters, digits, `-` and `_` need no escapes in an address or in HTML.
        let text = fragment.strip_prefix("s=").unwrap();
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
        let packed = data_encoding::BASE64URL_NOPAD.decode(text.as_bytes()).unwrap();
        let state = miniz_oxide::inflate::decompress_to_vec(&packed).unwrap();
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let text = state["setups"][0]["text"].as_str().unwrap();
        let again = ScenarioFile::parse("s.toml", text).unwrap();
        assert!(again.says_the_same_as(&file), "{text}");
    }

    #[test]
    fn a_scenario_that_needs_more_than_its_text_has_no_link() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rate.trace"), "1\n2\n3\n").unwrap();
        let text = SCENARIO.replace(
            "rate = '5Mbit', delay = '5ms', queue = '50p' }\naccess",
            "rate = { trace = 'rate.trace' }, delay = '5ms', queue = '50p' }\naccess",
        );
        let name = folder.path().join("s.toml").display().to_string();
        let file = ScenarioFile::parse(&name, &text).unwrap();
        file.build().unwrap();
        assert_eq!(fragment(&file), None);
        let invalid = ScenarioFile::parse("s.toml", &SCENARIO.replace("cubic", "cubc")).unwrap();
        assert_eq!(fragment(&invalid), None);
    }

    #[test]
    fn the_page_is_whole() {
        let page = html().unwrap();
        assert!(page.starts_with(b"<!doctype html>") && page.ends_with(b"</html>\n"));
        assert_eq!(unpacked(&PAGE[..PAGE.len() / 2]), Err(Damaged));
        assert_eq!(unpacked(b""), Err(Damaged));
    }
}
