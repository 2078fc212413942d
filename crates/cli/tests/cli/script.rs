//! `windward script`.

use crate::{Sandbox, repository, stderr, success, windward};

#[test]
fn what_comes_along_is_met_and_the_document_says_so() {
    let document = success(["script", "--markdown"]);
    let path = repository().join("docs/conformance.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        written, document,
        "`BLESS=1 cargo test -p windward what_comes_along` writes docs/conformance.md"
    );
}

#[test]
fn an_expectation_that_is_not_met_is_status_1_with_what_was_seen() {
    let sandbox = Sandbox::new(
        r#"
title = "a"
source = "b"
protocols = ["newreno"]
duration = "1s"
path = { rtt = "100ms" }
endpoint = { initial_window = 4, rwnd = 4 }
[[expect]]
at = "200ms"
packets = 13 # It is 12: four a round trip.
source = "RFC 5681 section 3.1"
says = "the window"
"#,
    );
    let path = sandbox.scenario().display().to_string();
    let output = windward(["script", &path]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    for word in ["not met", "expected 13, seen 12", "200.0000 ms", "RFC 5681 section 3.1", ":8"] {
        assert!(said.contains(word), "no `{word}` in:\n{said}");
    }
    let output = windward(["script", &path, "--json", "--protocol", "cubic"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json[0]["protocol"], "cubic");
    assert_eq!(json[0]["findings"][0]["verdict"], "not-met");
}

#[test]
fn bad_scripts_and_names_are_status_2() {
    let sandbox = Sandbox::new("title = \"a\"\n[[expect]]\nat = 3\n");
    let path = sandbox.scenario().display().to_string();
    for (args, word) in [
        (vec!["script", &path], "`source` is missing"),
        (vec!["script", "no-such.toml"], "no such file"),
        (vec!["script", "rfc9439"], "did you mean `rfc9438`"),
        (vec!["script", "rfc9438", "--protocol", "cubik"], "cubic"),
        (vec!["script", "rfc9438/beta", "--protocol", "xcp"], "routers"),
    ] {
        let output = windward(&args);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word) && !said.contains("panicked"), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
