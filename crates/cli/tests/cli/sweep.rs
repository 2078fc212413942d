//! `windward sweep` and `windward reproduce`.

use std::fs;

use crate::{SMALL, Sandbox, stderr, success, windward};

/// The small scenario as an experiment of four short runs.
pub(crate) fn small_experiment() -> String {
    let experiment = r#"
[experiment]
id = "small"
title = "Small"
setting = "Two flows share a bottleneck."
quick = { repetitions = 2 }
full = { repetitions = 3 }

[[experiment.axes]]
name = "protocol"
key = "flows.*.protocol"
values = ["sack", "lr-lmxtcp"]

[experiment.metrics]
fairness = "goodput(lossy) / goodput(clean)"

[[experiment.plots]]
kind = "dots"
metrics = "fairness"
x = "protocol"
y_title = "Fairness"
"#;
    format!("{SMALL}{experiment}")
}

fn args(sandbox: &Sandbox, out: &str, more: &[&str]) -> Vec<String> {
    let fixed = [
        "sweep".to_owned(),
        sandbox.scenario().display().to_string(),
        "--out".to_owned(),
        sandbox.path(out).display().to_string(),
    ];
    let more = more.iter().map(|s| (*s).to_owned());
    fixed.into_iter().chain(more).collect()
}

#[test]
fn rows_do_not_depend_on_the_number_of_threads() {
    let sandbox = Sandbox::new(&small_experiment());
    let text = success(args(&sandbox, "one", &["--threads", "1"]));
    for word in ["lr-lmxtcp", "fairness", "4 runs"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    success(args(&sandbox, "four", &["--threads", "4"]));
    for name in ["small.csv", "small.parquet", "small-flows.csv"] {
        let one = fs::read(sandbox.path("one").join(name)).unwrap();
        let four = fs::read(sandbox.path("four").join(name)).unwrap();
        assert_eq!(one, four, "{name}");
    }
    let rows = fs::read_to_string(sandbox.path("one/small.csv")).unwrap();
    assert_eq!(rows.lines().count(), 5);
}

#[test]
fn the_command_line_changes_the_experiment() {
    let sandbox = Sandbox::new(&small_experiment());
    let more = ["--repetitions", "3", "--seed", "40", "--set", "duration=1s"];
    success(args(&sandbox, "out", &more));
    let rows = fs::read_to_string(sandbox.path("out/small.csv")).unwrap();
    assert_eq!(rows.lines().count(), 7);
    assert!(rows.contains("sack,2,42,"), "{rows}");
}

#[test]
fn an_output_folder_below_a_file_is_refused_before_the_runs() {
    let sandbox = Sandbox::new(&small_experiment());
    let output = windward(args(&sandbox, "scenario.toml/out", &[]));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("error: ") && said.contains("scenario.toml/out"), "{said}");
    let path = sandbox.path("scenario.toml/out").display().to_string();
    let output = windward(["reproduce", "L1", "--out", &path]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("scenario.toml/out"));
}

#[test]
fn bad_experiments_leave_no_folder() {
    let broken = small_experiment().replace("goodput(clean)", "goodput(claen)");
    let sandbox = Sandbox::new(&broken);
    let output = windward(args(&sandbox, "out", &[]));
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("scenario.toml") && said.contains("claen"), "{said}");
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn what_is_no_experiment_is_refused() {
    let sandbox = Sandbox::new(SMALL);
    let output = windward(args(&sandbox, "out", &[]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("[experiment]"));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn one_experiment_of_the_matrix_is_reproduced_by_its_name() {
    let sandbox = Sandbox::new(SMALL);
    let out = sandbox.path("report").display().to_string();
    let text = success(["reproduce", "matrix-beside-newreno", "--out", &out]);
    assert!(text.ends_with(&format!("the report is {out}/index.html\n")), "{text}");
    let page = fs::read_to_string(sandbox.path("report/matrix.html")).unwrap();
    assert!(page.contains("windward reproduce matrix-beside-newreno --quick"));
    assert!(page.contains(">to newreno</a>") && !page.contains(">to itself</a>"));
}

#[test]
fn a_second_run_adds_to_a_report_and_a_page_of_somebody_else_stays() {
    let sandbox = Sandbox::new(&small_experiment());
    success(args(&sandbox, "report", &[]));
    let other = small_experiment().replace("id = \"small\"", "id = \"other\"");
    fs::write(sandbox.path("other.toml"), other).unwrap();
    let out = sandbox.path("report").display().to_string();
    success(["sweep", &sandbox.path("other.toml").display().to_string(), "--out", &out]);
    let page = fs::read_to_string(sandbox.path("report/own-experiments.html")).unwrap();
    assert!(page.contains("id=\"small\"") && page.contains("id=\"other\""));
    let manifest = fs::read_to_string(sandbox.path("report/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let ids: Vec<&str> = manifest["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["small", "other"]);

    fs::create_dir(sandbox.path("theirs")).unwrap();
    fs::write(sandbox.path("theirs/index.html"), "<h1>My garden</h1>").unwrap();
    let output = windward(args(&sandbox, "theirs", &[]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("index.html: this page is not a report"), "{output:?}");
    let theirs = fs::read_to_string(sandbox.path("theirs/index.html")).unwrap();
    assert_eq!(theirs, "<h1>My garden</h1>");
    assert_eq!(fs::read_dir(sandbox.path("theirs")).unwrap().count(), 1);
}

#[test]
fn a_report_folder_that_is_none_is_refused() {
    let sandbox = Sandbox::new(&small_experiment());
    fs::write(sandbox.path("file"), "").unwrap();
    let output = windward(args(&sandbox, "file", &[]));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is a file"), "{output:?}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(sandbox.path("nowhere"), sandbox.path("link")).unwrap();
        let output = windward(args(&sandbox, "link", &[]));
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("leads nowhere"), "{output:?}");
        // A link to a folder is as good as the folder.
        fs::create_dir(sandbox.path("real")).unwrap();
        std::os::unix::fs::symlink(sandbox.path("real"), sandbox.path("good")).unwrap();
        success(args(&sandbox, "good", &[]));
        assert!(sandbox.path("real/index.html").exists());
    }
}

#[test]
fn what_can_be_named_is_listed_and_a_dry_run_runs_nothing() {
    let text = success(["reproduce", "--list"]);
    assert!(text.contains("lr2008-fig3") && text.contains("L3"), "{text}");
    let sandbox = Sandbox::new(&small_experiment());
    let text = success(args(&sandbox, "out", &["--dry-run"]));
    // Two protocols, two repetitions.
    assert!(text.lines().any(|l| l.starts_with("small") && l.contains(" 4 ")), "{text}");
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn unknown_figures_get_the_nearest_one() {
    let output = windward(["reproduce", "lr2008-fgi3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`lr2008-fig3`"));
    assert!(output.stdout.is_empty());
}
