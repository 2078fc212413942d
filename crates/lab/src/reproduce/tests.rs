use std::fs;
use std::sync::atomic::Ordering;

use super::*;
use crate::testing::{experiment, fake, options};

fn run(out: &Path) -> Result<ReproductionSummary, LabError> {
    let cancel = AtomicBool::new(false);
    let options = options(2, &cancel);
    reproduce_with(&[experiment()], &Effort::Quick, &options, out, &fake)
}

#[test]
fn the_folder_holds_the_page_the_figures_and_the_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path()).unwrap();
    assert_eq!(summary.runs, 18);
    let verdicts: Vec<Verdict> = summary.claims.iter().map(|c| c.verdict).collect();
    assert_eq!(
        verdicts,
        [Verdict::Held, Verdict::NotHeld, Verdict::Inconclusive]
    );
    assert_eq!(summary.count(Verdict::Held), 1);

    let claims = fs::read_to_string(dir.path().join("claims.json")).unwrap();
    let claims: serde_json::Value = serde_json::from_str(&claims).unwrap();
    // 2 Mbit/s less 1 Mbit/s, whatever the seed.
    assert_eq!(claims[0]["checks"][0]["mean"], 1e6);
    assert_eq!(claims[0]["checks"][0]["low"], 1e6);
    assert_eq!(claims[0]["verdict"], "held");
    assert_eq!(claims[0]["figure"], "mine");
    assert!(claims[0].get("explanation").is_none());
    assert_eq!(claims[1]["explanation"], "It is the other way round.");
    assert_eq!(claims[2]["checks"][0]["mean"], serde_json::Value::Null);

    let page = fs::read_to_string(dir.path().join("index.html")).unwrap();
    for text in [
        "name=\"viewport\"",
        "Mine &amp; yours",
        "<b>1</b> held",
        "It is the other way round.",
        "A choice.",
        "windward sweep mine.toml --quick",
        "href=\"#C2\"",
        "id=\"C2\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for outside in ["<script", "src=\"", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for file in ["mine.csv", "mine.svg", "mine-series.csv", "manifest.json"] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
}

#[test]
fn an_interrupted_reproduction_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    let cancel = AtomicBool::new(true);
    let stopped = reproduce_with(
        &[experiment()],
        &Effort::Quick,
        &options(1, &cancel),
        &out,
        &fake,
    );
    assert!(cancel.load(Ordering::Relaxed));
    assert!(matches!(stopped, Err(LabError::Cancelled)));
    assert!(!out.exists());
}

#[test]
fn a_reference_to_an_experiment_that_was_not_run_is_inconclusive() {
    let mut text = crate::testing::TEXT.to_owned();
    text.push_str("[[experiment.claims]]\nid = \"C4\"\nclaim = \"x\"\nexpected = \"x\"\n");
    text.push_str("checks = [\"clean[sack, 1 Mbit] > other:clean[sack]\"]\n");
    let experiment = Experiment::parse("mine.toml", &text).unwrap();
    let plan = experiment.plan(&Effort::Quick).unwrap();
    let cancel = AtomicBool::new(false);
    let results = sweep::run_all(vec![plan], &options(1, &cancel), &fake).unwrap();
    let claims = claims::evaluate(&results);
    assert_eq!(claims[3].verdict, Verdict::Inconclusive);
    assert_eq!(claims[3].checks[0].measured(), "`other` was not run");
}
