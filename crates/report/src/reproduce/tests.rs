use std::fs;

use windward_experiments::experiment::ns2::Ns2;
use windward_experiments::testing::{experiment, fake, options};

use super::*;

fn run(out: &Path) -> Result<ReproductionSummary, ExperimentError> {
    let cancel = AtomicBool::new(false);
    let options = options(2, &cancel);
    let report = ReportOptions::default();
    reproduce_with(&[experiment()], &Effort::Quick, &options, &report, out, &fake)
}

/// All text of all pages.
fn pages(out: &Path) -> String {
    let mut names: Vec<_> = fs::read_dir(out).unwrap().map(|e| e.unwrap().path()).collect();
    // The playground does not count as a page of the report.
    let playground = out.join(playground::FILE);
    names.retain(|p| p.extension().is_some_and(|e| e == "html") && *p != playground);
    names.sort();
    names.iter().map(|p| fs::read_to_string(p).unwrap()).collect()
}

#[test]
fn the_folder_holds_the_page_the_figures_and_the_verdicts() {
    let dir = tempfile::tempdir().unwrap();
    let summary = run(dir.path()).unwrap();
    // 3 of each of 6 cells for the charts; a fourth of each of the 4 cells that claims look at.
    assert_eq!(summary.means[0].cells.len(), 6);
    assert_eq!(summary.runs, 18 + 4);
    let verdicts: Vec<Verdict> = summary.claims.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [Verdict::Held, Verdict::NotHeld, Verdict::Inconclusive]);
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

    let page = pages(dir.path());
    for text in [
        "name=\"viewport\"",
        "Mine &amp; yours",
        "3 claims. Plainly <b>1</b> is held, <b>1</b> not held, <b>1</b> inconclusive. ",
        "3 claims: plainly 1 held",
        "It is the other way round.",
        "A choice.",
        "windward sweep mine.toml --quick",
        "href=\"#C2\"",
        "<tr id=\"C2\">",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for outside in ["<script", "src=\"", "url(", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("href=\"play.html#s="), "no link to the playground");
    for file in ["mine.csv", "mine.svg", "mine-series.csv", "manifest.json", playground::FILE] {
        assert!(dir.path().join(file).exists(), "{file}");
    }
}

#[test]
fn what_is_interrupted_before_its_first_run_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    // Before it plans, and once the folder is there.
    for at_once in [true, false] {
        let cancel = AtomicBool::new(at_once);
        let options = options(1, &cancel);
        let report = ReportOptions::default();
        let stop = |_: &Scenario, cancel: &AtomicBool| {
            assert!(out.exists());
            cancel.store(true, Ordering::Relaxed);
            Err(ExperimentError::Cancelled)
        };
        let stopped =
            reproduce_with(&[experiment()], &Effort::Quick, &options, &report, &out, &stop);
        assert!(matches!(stopped, Err(ExperimentError::Cancelled)));
        assert!(!out.exists());
    }
}

#[test]
fn tables_of_an_earlier_run_do_not_stay_beside_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let every = ReportOptions { every_table: true, ..ReportOptions::default() };
    let list = [experiment()];
    let options = options(2, &cancel);
    reproduce_with(&list, &Effort::Quick, &options, &every, dir.path(), &fake).unwrap();
    let foreign = dir.path().join("mine-notes.csv");
    fs::write(&foreign, "not ours").unwrap();
    let flows = dir.path().join("mine-flows.parquet");
    assert!(flows.exists());
    run(dir.path()).unwrap();
    assert!(!flows.exists() && foreign.exists() && dir.path().join("mine.csv").exists());
}

#[test]
fn a_foreign_page_of_a_paper_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("own-experiments.html"), "my thesis").unwrap();
    let cancel = AtomicBool::new(false);
    let never = |_: &Scenario, _: &AtomicBool| panic!("it ran");
    let report = ReportOptions::default();
    let options = options(1, &cancel);
    let refused =
        reproduce_with(&[experiment()], &Effort::Quick, &options, &report, dir.path(), &never);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("own-experiments.html: this page is not a report"), "{refused}");
}

#[test]
fn files_list_experiments_in_their_order_whenever_they_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    run_of(&["lr2008-fig10"], dir.path());
    run_of(&["lr2008-fig4"], dir.path());
    run_of(&["lr2008-fig2"], dir.path());
    let ids = |file: &str, list: &str, key: &str| -> Vec<String> {
        let text = fs::read_to_string(dir.path().join(file)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let items = if list.is_empty() { &json } else { &json[list] };
        let ids = items.as_array().unwrap().iter().map(|e| e[key].as_str().unwrap().to_owned());
        ids.collect()
    };
    let mut figures = ids("claims.json", "", "figure");
    figures.dedup();
    assert_eq!(figures, ["lr2008-fig2", "lr2008-fig4", "lr2008-fig10"]);
    assert_eq!(ids("manifest.json", "experiments", "id"), figures);
}

#[test]
fn a_reference_to_an_experiment_that_was_not_run_is_inconclusive() {
    let mut text = windward_experiments::testing::TEXT.to_owned();
    text.push_str("[[experiment.claims]]\nid = \"C4\"\nclaim = \"x\"\nexpected = \"x\"\n");
    text.push_str("checks = [\"clean[sack, 1 Mbit] > other:clean[sack]\"]\n");
    let experiment = Experiment::parse("mine.toml", &text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let options = options(1, &cancel);
    let report = ReportOptions::default();
    let summary =
        reproduce_with(&[experiment], &Effort::Quick, &options, &report, dir.path(), &fake);
    let claims = summary.unwrap().claims;
    assert_eq!(claims[3].verdict, Verdict::Inconclusive);
    assert_eq!(claims[3].checks[0].measured(), "`other` was not run");
}

/// The experiments of the collections by the fake simulator.
fn run_of(names: &[&str], out: &Path) -> (ReproductionSummary, String) {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let experiments = windward_experiments::builtin::select(&names).unwrap();
    let cancel = AtomicBool::new(false);
    let options = options(2, &cancel);
    let report = ReportOptions::default();
    let summary =
        reproduce_with(&experiments, &Effort::Quick, &options, &report, out, &fake).unwrap();
    (summary, pages(out))
}

#[test]
fn the_page_opens_with_the_papers_that_were_run() {
    let dir = tempfile::tempdir().unwrap();
    let (summary, page) = run_of(&["lr2008-fig4"], dir.path());
    let front = fs::read_to_string(dir.path().join("index.html")).unwrap();
    let tally = &summary.tallies[0];
    assert_eq!((summary.tallies.len(), tally.key.as_str()), (1, "lr2008"));
    assert_eq!(tally.claims, summary.claims.len());
    assert!(front.contains(&tally.sentence()), "{front}");
    let card = front.find("<article class=\"card\">").unwrap();
    let claims = front.find("id=\"claims\"").unwrap();
    let contents = front.find("id=\"contents\"").unwrap();
    assert!(card < claims && claims < contents);
    for text in [
        "C. De Vleeschouwer, P. Frossard",
        "2008",
        "href=\"lr2008.html\"",
        "href=\"lr2008-L5.html\">L5</a>",
        "href=\"lr2008.html#lr2008-fig4\"",
    ] {
        assert!(front.contains(text), "{text} in {front}");
    }
    // Neither the other papers nor unmeasured properties appear.
    for paper in &windward_experiments::builtin::PAPERS[1..] {
        assert!(!page.contains(paper.authors), "{}", paper.key);
    }
    assert!(!page.contains("id=\"properties\""));
}

#[test]
fn the_matrix_has_a_row_for_every_protocol_and_a_link_for_every_column() {
    let dir = tempfile::tempdir().unwrap();
    let (summary, page) = run_of(&["matrix"], dir.path());
    assert!(summary.tallies.is_empty());
    assert!(!page.contains("class=\"card\""), "the matrix claims nothing");
    let table = page.split_once("<table class=\"matrix\">").unwrap().1;
    let (table, rest) = table.split_once("</table>").unwrap();
    for protocol in windward_core::protocols::PROTOCOLS {
        assert!(table.contains(&format!(">{}</th>", protocol.name)), "{}", protocol.name);
    }
    for id in ["matrix-goodput", "matrix-beside-newreno", "matrix-beside-itself"] {
        assert!(table.contains(&format!("href=\"#{id}\"")), "{id}");
        assert!(rest.contains(&format!("id=\"{id}\"")), "{id}");
    }
    // The fake flow gets the whole rate and a bit per second for each seed, whatever the loss: at
    // 20 % this is 1.25 times what the link lets through. The queue has 2 of 100 packets.
    assert!(table.contains("title=\"1.00 [1.00, 1.00]\">1.00</td>"));
    assert!(table.contains("title=\"1.25 [1.25, 1.25]\">1.25</td>"));
    assert!(table.contains("<td class=\"q4\" title=\"2.00 [2.00, 2.00]\">2.0</td>"));
    // Two groups: the second gets half.
    assert!(table.contains("<td class=\"q2\" title=\"2.00 [2.00, 2.00]\">2.00</td>"));
    // No link of that name was crossed in the fake run: 0 of 0 packets were dropped.
    assert!(table.contains("no number (a division by zero)"));

    let numbers = fs::read_to_string(dir.path().join("matrix.csv")).unwrap();
    let mut lines = numbers.lines();
    let header = lines.next().unwrap();
    assert!(header.starts_with("protocol,goodput_share_0%,goodput_share_0%_low,"), "{header}");
    assert!(
        header.ends_with("induced_loss_percent,induced_loss_percent_low,induced_loss_percent_high")
    );
    assert_eq!(lines.count(), windward_core::protocols::PROTOCOLS.len());
    assert!(numbers.lines().nth(1).unwrap().ends_with(",,,"), "no drop rate: {numbers}");
}

#[test]
fn a_protocol_that_cannot_be_measured_has_a_dash_with_the_reason() {
    let (name, text) = windward_experiments::builtin::MATRIX.files[1];
    let text = text.replace(
        "group = \"newreno\"\nprotocol = \"newreno\"",
        "group = \"newreno\"\nprotocol = \"xcp\"",
    );
    let experiment = Experiment::parse(name, &text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let options = options(2, &cancel);
    let report = ReportOptions::default();
    reproduce_with(&[experiment], &Effort::Quick, &options, &report, dir.path(), &fake).unwrap();
    let page = pages(dir.path());
    let (_, row) = page.split_once(">lr-xtcp</th>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    assert!(row.contains("class=\"nothing\"") && row.contains("`xtcp`"), "{row}");
    assert!(page.contains("Left out: lr-xtcp."));
}

#[test]
fn cells_in_ns2_stand_beside_those_measured() {
    let dir = tempfile::tempdir().unwrap();
    // The cells have 2 and 4 Mbit/s in every run.
    let text = "version = \"2.35\"\ndate = \"2026-11-29\"\nscript = \"s\"\nplain = {}\n\
                [[cells]]\nexperiment = \"mine\"\nvalue = \"clean[sack, 2 Mbit]\"\n\
                mean = 2.1e6\nlow = 2e6\nhigh = 2.2e6\nseeds = 8\n\
                [[cells]]\nexperiment = \"mine\"\nvalue = \"clean[sack, 4 Mbit]\"\n\
                mean = 5e6\nlow = 4.9e6\nhigh = 5.1e6\nseeds = 8\n";
    let ns2 = Ns2::parse("ns2.toml", text).unwrap();
    let cancel = AtomicBool::new(false);
    let options = options(2, &cancel);
    let report = ReportOptions::default();
    let experiment = Experiment { ns2, ..experiment() };
    reproduce_with(&[experiment], &Effort::Quick, &options, &report, dir.path(), &fake).unwrap();
    let pages = pages(dir.path());
    assert!(pages.contains("The same cells in ns-2: no difference seen in 1 of 2"), "{pages}");
    assert!(pages.contains("<td>2.10M [2.00M, 2.20M]<br><small>8 runs</small></td><td>0.952</td>"));
    assert!(pages.contains("<td>0.800</td><td>differ</td>"), "{pages}");
}
