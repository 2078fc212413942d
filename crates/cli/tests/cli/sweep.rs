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
    let page = fs::read_to_string(sandbox.path("report/index.html")).unwrap();
    assert!(page.contains("windward reproduce matrix-beside-newreno --quick"));
    assert!(page.contains(">to newreno</a>") && !page.contains(">to itself</a>"));
}

#[test]
fn unknown_figures_get_the_nearest_one() {
    let output = windward(["reproduce", "lr2008-fgi3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`lr2008-fig3`"));
    assert!(output.stdout.is_empty());
}
