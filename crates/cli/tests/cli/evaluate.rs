//! `windward evaluate`.

use std::fs;

use crate::{Sandbox, stderr, success, windward};

/// A suite of one experiment that takes milliseconds.
const SUITE: &str = include_str!("../small-suite/suite.toml");
const EXPERIMENT: &str = include_str!("../small-suite/small.toml");

/// A folder with the small suite.
pub(crate) fn sandbox() -> Sandbox {
    sandbox_of(SUITE)
}

fn sandbox_of(suite: &str) -> Sandbox {
    let sandbox = Sandbox::new("");
    fs::write(sandbox.path("suite.toml"), suite).unwrap();
    fs::write(sandbox.path("small.toml"), EXPERIMENT).unwrap();
    sandbox
}

/// Arguments of an evaluation by it.
pub(crate) fn args(sandbox: &Sandbox, more: &[&str]) -> Vec<String> {
    let suite = sandbox.path("suite.toml").display().to_string();
    let out = sandbox.path("out").display().to_string();
    let fixed = ["evaluate", "--suite", &suite, "--out", &out].map(str::to_owned);
    fixed.into_iter().chain(more.iter().map(|s| (*s).to_owned())).collect()
}

#[test]
fn every_subject_has_a_verdict_and_its_reason() {
    let sandbox = sandbox();
    let text = success(args(&sandbox, &["cubic", "xcp", "own={ window = \"cubic\" }"]));
    for words in [
        "cubic meets 0 of 1 criteria. It does not meet 1.1 Busy.",
        "xcp meets 0 of 1 criteria. Not applicable: 1.1 Busy.",
        "own meets 0 of 1",
    ] {
        assert!(text.contains(words), "no `{words}` in:\n{text}");
    }
    for name in ["index.html", "evaluation.md", "evaluation.json", "claims.json", "small.toml"] {
        assert!(sandbox.path("out").join(name).is_file(), "{name}");
    }
    // If a criterion is not met, --strict fails.
    let strict = windward(args(&sandbox, &["cubic", "--strict"]));
    assert_eq!(strict.status.code(), Some(1), "{}", stderr(&strict));
    let some = windward(args(&sandbox, &["cubic", "--strict", "--only", "some"]));
    assert_eq!(some.status.code(), Some(0), "{}", stderr(&some));
}

#[test]
fn what_is_wrong_is_said_before_anything_runs() {
    let refuse = |suite: &str, more: &[&str]| {
        let sandbox = sandbox_of(suite);
        let output = windward(args(&sandbox, more));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(!sandbox.path("out").exists(), "nothing was begun");
        stderr(&output)
    };
    assert!(refuse(SUITE, &["qubic"]).contains("did you mean `cubic`"));
    assert!(refuse(SUITE, &["cubic", "--only", "bosy"]).contains("did you mean `busy`"));
    assert!(refuse(SUITE, &["cubic=5"]).contains("in braces"));
    let nobody = SUITE.replace("standards = [\"newreno\"]", "");
    assert!(refuse(&nobody, &["cubic"]).contains("needs `standards`"));
    assert!(refuse("[suite", &["cubic"]).contains("suite.toml:1"));
    assert!(refuse("duration = 1", &["cubic"]).contains("no [suite] table"));
    let none = windward(["evaluate", "cubic", "--suite", "rfc9734"]);
    assert!(stderr(&none).contains("rfc9743"), "{}", stderr(&none));
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn the_suites_say_what_they_ask() {
    let text = success(["evaluate", "--list"]);
    for words in ["5.1.3", "shallow-buffers", "harm-throughput", "7.10"] {
        assert!(text.contains(words), "no {words} in:\n{text}");
    }
}

#[test]
fn an_evaluation_is_compared_with_an_earlier_one() {
    let sandbox = sandbox();
    let at = |name: &str| sandbox.path(name).display().to_string();
    let evaluate = |name: &str, only: &str, controller: &str| {
        let out = at(name);
        let suite = at("suite.toml");
        success(["evaluate", "--suite", &suite, "--only", only, "--out", &out, controller]);
        format!("{out}/evaluation.json")
    };
    let diff = |more: &[&str]| windward([&["evaluate", "--diff"], more].concat());
    // A tenth of the link is met, more than the link is not.
    let good = evaluate("good", "some", "cubic");
    let bad = evaluate("bad", "all", "cubic");
    let junit = at("junit.xml");
    assert_eq!(diff(&[&good, &good]).status.code(), Some(0));
    let worse = diff(&[&good, &bad, "--junit", &junit]);
    assert_eq!(worse.status.code(), Some(1), "{}", stderr(&worse));
    assert!(fs::read_to_string(&junit).unwrap().contains("<failure"));
    assert_eq!(diff(&[&bad, &good]).status.code(), Some(0), "what became better is no failure");
    let broken = diff(&[&at("suite.toml"), &good]);
    assert_eq!(broken.status.code(), Some(2), "{}", stderr(&broken));
    assert!(stderr(&broken).contains("suite.toml"));
}
