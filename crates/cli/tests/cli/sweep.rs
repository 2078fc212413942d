//! `windward sweep` and `windward reproduce`.

use std::fs;

use crate::{SMALL, Sandbox, json, stderr, success, value, windward};

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
#[cfg(unix)]
fn a_folder_may_have_a_name_that_is_not_utf8() {
    use std::ffi::{OsStr, OsString};
    use std::os::unix::ffi::OsStrExt;

    let sandbox = Sandbox::new(&small_experiment());
    let out = sandbox.path("").join(OsStr::from_bytes(b"r\xe9sultats"));
    let file = sandbox.scenario().into_os_string();
    let args = [OsString::from("sweep"), file, "--out".into(), out.clone().into_os_string()];
    success(args);
    let page = fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("r\u{fffd}sultats"), "{page}");
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
fn what_is_set_wins_and_is_recorded() {
    let file = small_experiment().replace(
        "quick = { repetitions = 2 }",
        "quick = { repetitions = 2, duration = \"2s\", warmup = \"1s\" }",
    );
    let sandbox = Sandbox::new(&file);
    success(args(&sandbox, "plain", &[]));
    let more = ["--set", "duration=1s", "--set", "warmup=500ms", "--set", "flows.*.rwnd=9"];
    success(args(&sandbox, "out", &more));
    let manifest = |out: &str| {
        let text = fs::read_to_string(sandbox.path(out).join("manifest.json")).unwrap();
        value(&text)["experiments"][0].clone()
    };
    let (plain, changed) = (manifest("plain"), manifest("out"));
    assert_eq!(changed["duration"], "1s");
    assert_eq!(changed["warmup"], "500ms");
    assert_eq!(
        changed["set"],
        serde_json::json!(["duration=1s", "warmup=500ms", "flows.*.rwnd=9"])
    );
    assert_eq!(plain["set"], serde_json::json!([]));
    assert_ne!(changed["configuration_hash"], plain["configuration_hash"]);
    assert_eq!(
        changed["command"],
        format!(
            "windward sweep {} --quick --set duration=1s --set warmup=500ms --set \
             'flows.*.rwnd=9'",
            sandbox.scenario().display()
        )
    );
    // The row describes the run: `run` with the same values delivers the same packets.
    let scenario = sandbox.scenario().display().to_string();
    let run = ["run", &scenario, "--json", "--set", "flows.*.protocol=sack"];
    let json = json(run.iter().copied().chain(more));
    let rows = fs::read_to_string(sandbox.path("out/small.csv")).unwrap();
    let first = rows.lines().nth(1).unwrap();
    assert!(first.starts_with("sack,0,7,"), "{first}");
    assert!(first.ends_with(json["fingerprint"].as_str().unwrap()), "{first}");
}

#[test]
fn the_command_of_a_report_makes_the_same_report() {
    let sandbox = Sandbox::new(&small_experiment());
    let entry = |out: &str| {
        let text = fs::read_to_string(sandbox.path(out).join("manifest.json")).unwrap();
        value(&text)["experiments"][0].clone()
    };
    for (n, more) in [
        &["--full", "--repetitions", "2"][..],
        &["--all-readings", "--repetitions", "1", "--seed", "4"],
        &["--all-readings", "--set", "duration=1s"],
    ]
    .into_iter()
    .enumerate()
    {
        let (first, second) = (format!("first{n}"), format!("second{n}"));
        success(args(&sandbox, &first, more));
        let expected = entry(&first);
        let command = expected["command"].as_str().unwrap().to_owned();
        for word in more.iter().filter(|word| word.starts_with("--") && **word != "--seed") {
            assert!(command.contains(word), "{command}");
        }
        // Nothing in it needs quotes, if the temporary folder does not.
        let words = command.strip_prefix("windward ").unwrap().split(' ');
        let words = words.map(|w| w.trim_matches('\'').to_owned());
        let out = ["--out".to_owned(), sandbox.path(&second).display().to_string()];
        success(words.chain(out));
        assert_eq!(entry(&second), expected);
    }
}

#[test]
fn run_sweep_and_reproduce_take_the_same_keys_and_refuse_the_same() {
    let sandbox = Sandbox::new(&small_experiment());
    let file = sandbox.scenario().display().to_string();
    let out = sandbox.path("out").display().to_string();
    for bad in [
        "flows.losy.rwnd=9",
        "durration=1s",
        "experiment.id=x",
        "dumbbell.bottleneck=",
        "=1s",
        "rwnd",
    ] {
        let said = |args: &[&str]| {
            let output = windward(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}\n{}", stderr(&output));
            stderr(&output)
        };
        let by_run = said(&["run", &file, "--set", bad]);
        assert_eq!(said(&["sweep", &file, "--out", &out, "--set", bad]), by_run);
        // The same error for another file, whose groups have other names.
        let by_reproduce = said(&["reproduce", "lr2008-fig3", "--out", &out, "--set", bad]);
        let rest = |text: &str| {
            let rest = text.lines().next()?.split_once(" with --set")?.1;
            Some(rest.to_owned())
        };
        assert_eq!(rest(&by_reproduce), rest(&by_run));
    }
    for bad in ["duration=4 parsecs", "flows.*.rwnd=none"] {
        for command in [&["run", &file][..], &["sweep", &file, "--out", &out]] {
            let output = windward(command.iter().copied().chain(["--set", bad]));
            assert_eq!(output.status.code(), Some(2), "{command:?} {bad}");
            assert!(stderr(&output).contains(&format!("--set {bad}: ")), "{}", stderr(&output));
        }
    }
    let refused = windward(["sweep", &file, "--out", &out, "--set", "flows.lossy.protocol=cubic"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("the axis `protocol` sets"), "{}", stderr(&refused));
    assert_eq!(sandbox.names(), ["scenario.toml"]);
}

#[test]
fn a_changed_reproduction_says_so() {
    let sandbox = Sandbox::new(SMALL);
    let out = sandbox.path("report").display().to_string();
    let set = ["--set", "duration=3s", "--set", "warmup=1s"];
    success(["reproduce", "matrix-beside-newreno", "--out", &out].iter().copied().chain(set));
    let manifest = fs::read_to_string(sandbox.path("report/manifest.json")).unwrap();
    let command =
        "windward reproduce matrix-beside-newreno --quick --set duration=3s --set warmup=1s";
    assert!(manifest.contains(command), "{manifest}");
    assert!(fs::read_to_string(sandbox.path("report/matrix.html")).unwrap().contains(command));
}

/// The constant of Mathis et al. 1997, table 1, for random losses is 1.31 with an acknowledgment of
/// each packet, and 0.93 with delayed ones: not within 10 % of the other.
#[test]
fn the_claims_of_a_paper_that_is_not_among_ours_are_judged_from_a_file() {
    let sandbox = Sandbox::new(SMALL);
    let out = sandbox.path("report").display().to_string();
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../experiments/examples/third-party/mathis1997.toml"
    );
    success(["reproduce", file, "--out", &out]);
    let claims = fs::read_to_string(sandbox.path("report/claims.json")).unwrap();
    let claims = value(&claims);
    let claim = &claims[1];
    assert_eq!((&claim["id"], &claim["verdict"]), (&"M2".into(), &"held".into()));
    assert_eq!(claim["deciding"][0]["choices"][0]["instead"], "delayed");
    assert_eq!(claim["deciding"][0]["verdict"], "not held");
    let page = fs::read_to_string(sandbox.path("report/own-mathis1997.html")).unwrap();
    assert!(page.contains("id=\"numbers\"") && page.contains("C = 1.31"));
    // With names of other experiments, and twice.
    let twice = windward(["reproduce", file, file, "--out", &out]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(stderr(&twice).contains("its id `mathis1997` is also that of"), "{}", stderr(&twice));
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
fn a_report_of_another_build_gives_way_and_its_experiments_are_named() {
    let sandbox = Sandbox::new(&small_experiment());
    success(args(&sandbox, "report", &[]));
    let section = sandbox.path("report/.windward/small.section");
    let mut bytes = fs::read(&section).unwrap();
    // The length of the build's name, then the name.
    bytes[1] ^= 1;
    fs::write(&section, &bytes).unwrap();
    let other = small_experiment().replace("id = \"small\"", "id = \"other\"");
    fs::write(sandbox.path("other.toml"), other).unwrap();
    let out = sandbox.path("report").display().to_string();
    let others = sandbox.path("other.toml").display().to_string();
    let output = windward(["sweep", &others, "--out", &out]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stderr(&output).contains("another build of windward wrote into"), "{output:?}");
    assert!(stderr(&output).contains("Of small, only the tables"), "{output:?}");
    let page = || fs::read_to_string(sandbox.path("report/own-experiments.html")).unwrap();
    assert!(!page().contains("id=\"small\"") && page().contains("id=\"other\""));
    assert!(sandbox.path("report/small.csv").exists());
    // Run again, it is there again, and nothing is left to say.
    success(args(&sandbox, "report", &[]));
    assert!(page().contains("id=\"small\"") && page().contains("id=\"other\""));
    let again = windward(args(&sandbox, "report", &[]));
    assert!(!stderr(&again).contains("another build"), "{again:?}");
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
        assert!(stderr(&output).contains("broken symbolic link"), "{output:?}");
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
fn what_python_does_says_so_where_there_is_none() {
    let sandbox = Sandbox::new(&small_experiment());
    let file = sandbox.scenario().display().to_string();
    let sweep = |more: &[&str]| {
        let mut command = crate::command(["sweep", &file].iter().chain(more));
        // No program is found there.
        command.env("PATH", sandbox.path("")).output().unwrap()
    };
    let output = sweep(&["--dask", "tcp://127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("error: python3: cannot be started: "), "{said}");
    assert!(
        said.contains("pip install '.[dask]'") && said.contains("clone of the repository"),
        "{said}"
    );
    let law = sandbox.path("mine.py");
    fs::write(&law, "class Law: pass\n").unwrap();
    let output = crate::command(["evaluate", "cubic", &format!("{}:Law", law.display())]);
    let said = stderr(&{ output }.env("PATH", sandbox.path("")).output().unwrap());
    assert!(said.starts_with("error: python3: cannot be started: "), "{said}");
    // Options of this program alone are refused with it, and both executors at once.
    for wrong in [&["--ray", "local", "--strict"][..], &["--ray", "local", "--dask", "x"]] {
        let output = sweep(wrong);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}
