//! `--qlog`: complete files or none.

use std::fs;

use crate::{SMALL, Sandbox, names_in, stderr, success, value, windward};

fn args(sandbox: &Sandbox, dir: &str, more: &[&str]) -> Vec<String> {
    let fixed = [
        "run".to_owned(),
        sandbox.scenario().display().to_string(),
        "--quiet".to_owned(),
        "--qlog".to_owned(),
        sandbox.path(dir).display().to_string(),
    ];
    fixed.into_iter().chain(more.iter().map(|s| (*s).to_owned())).collect()
}

#[test]
fn logs_are_written_and_change_nothing() {
    let sandbox = Sandbox::new(SMALL);
    let plain = success(["run", sandbox.scenario().to_str().unwrap(), "--json"]);
    // With a trace and a chart of the same run.
    let trace = sandbox.path("t").display().to_string();
    let logged = success(args(&sandbox, "a/b", &["--json", "--trace", &trace]));
    let fingerprint = |text: &str| value(text)["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!(fingerprint(&plain), fingerprint(&logged));
    let names = names_in(sandbox.path("a/b"));
    assert_eq!(names.len(), 6, "two flows, three vantage points: {names:?}");
    assert!(names[0].ends_with(".network.sqlog"));
    let text = fs::read_to_string(sandbox.path("a/b").join(&names[2])).unwrap();
    assert!(text.starts_with("\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\""));
    assert!(text.ends_with("}\n"));

    success(args(&sandbox, "qvis", &["--qlog-format", "qvis"]));
    let text = fs::read_to_string(sandbox.path("qvis").join(&names[2])).unwrap();
    assert!(text.starts_with("\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\""));
}

#[test]
fn what_cannot_be_logged_is_refused_and_leaves_nothing() {
    let sandbox = Sandbox::new(SMALL);
    for (more, status, expected) in [
        (["--qlog-flows", "nobody"], 2, "--qlog-flows: there is no flow and no group"),
        (["--qlog-limit", "10kB"], 1, "--qlog-limit: the logs had reached their limit of 10000"),
    ] {
        let out = windward(args(&sandbox, "refused", &more));
        assert_eq!(out.status.code(), Some(status), "{more:?}: {}", stderr(&out));
        assert!(stderr(&out).contains(expected), "{more:?}: {}", stderr(&out));
        assert!(!sandbox.path("refused").exists(), "{more:?}");
    }
}
