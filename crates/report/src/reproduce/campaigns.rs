//! Tests of campaigns through reports: their runs, their pages, and interruptions.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering as Memory};

use windward_core::network::QueueLimit;
use windward_experiments::claims::Belief;
use windward_experiments::experiment::{Basis, Effort, Experiment};
use windward_experiments::testing::{fake, options};
use windward_experiments::worlds::Worlds;

use super::*;

/// Two cells, `low` and `high`, whose throughput is 1 and 2 Mbit/s, and two choices.
const TEXT: &str = r#"
duration = "10s"
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "20ms" }
[[flows]]
group = "clean"
protocol = "newreno"
[experiment]
id = "mine"
title = "Mine"
quick = { repetitions = 5, at_most = 20 }
[[experiment.readings]]
name = "queue"
choice = "Queue"
values = [
    { label = "10", basis = "practice", source = "a book", set = { "dumbbell.bottleneck.queue" = "10p" } },
    { label = "50", basis = "paper", source = "section 1", set = { "dumbbell.bottleneck.queue" = "50p" } },
]
[[experiment.readings]]
name = "delay"
choice = "Delay"
values = [
    { label = "20 ms", basis = "fit", source = "figure 1", set = { "dumbbell.bottleneck.delay" = "20ms" } },
    { label = "9 ms", basis = "fit", source = "figure 2", set = { "dumbbell.bottleneck.delay" = "9ms" } },
]
[[experiment.axes]]
name = "rate"
key = "dumbbell.bottleneck.rate"
values = ["1 Mbit", "2 Mbit"]
[experiment.metrics]
clean = "throughput(clean)"
[[experiment.plots]]
kind = "lines"
metrics = "clean"
x = "rate"
[[experiment.claims]]
id = "C1"
claim = "a megabit more"
expected = "as said"
checks = ["clean[2 Mbit] - clean[1 Mbit] >= 900000"]
[[experiment.claims]]
id = "C2"
claim = "ten are more than nine"
expected = "as said"
checks = ["clean[1 Mbit] >= CENTRE", "clean[2 Mbit] >= 0"]
[[experiment.claims]]
id = "C3"
claim = "between the readings"
expected = "as said"
checks = ["clean[2 Mbit] >= 1500000", "clean[1 Mbit] <= 1100000"]
"#;

/// The throughput is the rate and noise of +-50 kbit/s; with a queue of 10 packets the higher rate
/// is not used, and with a delay of 9 ms there is 200 kbit/s more.
fn noisy(scenario: &Scenario, cancel: &AtomicBool) -> Result<Outcome, ExperimentError> {
    let mut outcome = fake(scenario, cancel)?;
    let link = &scenario.links[scenario.flows[0].bottleneck];
    let mut rate = link.kind.rate.mean().as_bps() as f64;
    if link.kind.queue.limit == QueueLimit::Packets(10) {
        rate = 1e6;
    }
    if link.delay.as_secs_f64() < 0.01 {
        rate += 2e5;
    }
    // Something like noise, other in each cell.
    let mixed = (scenario.seed ^ rate as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    outcome.groups[0].throughput_bps = rate + (mixed as f64 / (1 << 24) as f64 - 0.5) * 1e5;
    Ok(outcome)
}

/// `centre` is the bound of the second claim.
fn experiment(centre: f64) -> Experiment {
    Experiment::parse("mine.toml", &TEXT.replace("CENTRE", &centre.to_string())).unwrap()
}

/// Options of a report of one experiment.
struct Attempt {
    effort: Effort,
    threads: usize,
    readings_budget: Option<f64>,
    resume: bool,
}

const QUICK: Attempt =
    Attempt { effort: Effort::Quick, threads: 2, readings_budget: None, resume: false };

impl Attempt {
    fn write(
        self,
        experiment: &Experiment,
        dir: &Path,
        simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
    ) -> Result<ReproductionSummary, ExperimentError> {
        let Attempt { effort, threads, readings_budget, resume } = self;
        let cancel = AtomicBool::new(false);
        let options = RunOptions { readings_budget, ..options(threads, &cancel) };
        let report = ReportOptions { resume, ..ReportOptions::default() };
        let list = std::slice::from_ref(experiment);
        reproduce_with(list, &effort, &options, &report, dir, simulate)
    }

    /// With the noisy simulator, in a folder of its own.
    fn run(self, experiment: &Experiment) -> ReproductionSummary {
        self.write(experiment, tempfile::tempdir().unwrap().path(), &noisy).unwrap()
    }
}

fn run(experiment: &Experiment, effort: &Effort, threads: usize) -> ReproductionSummary {
    Attempt { effort: effort.clone(), threads, ..QUICK }.run(experiment)
}

/// The noisy simulator, which is cancelled after that number of runs.
fn until(
    runs: usize,
) -> impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync {
    let done = AtomicUsize::new(0);
    move |scenario, cancel| {
        if done.fetch_add(1, Memory::Relaxed) >= runs {
            cancel.store(true, Memory::Relaxed);
            return Err(ExperimentError::Cancelled);
        }
        noisy(scenario, cancel)
    }
}

#[test]
fn a_choice_that_turns_the_verdict_is_named_with_both_numbers() {
    let summary = run(&experiment(0.0), &Effort::Quick, 2);
    let claim = &summary.claims[0];
    assert_eq!(claim.verdict, Verdict::Held);
    assert_eq!(claim.in_readings(), "holds in 2 of 3 readings (1 not held)");
    // Of the two fitted values of the delay the first is plain; nothing else speaks for it.
    assert_eq!(claim.calibrated, ["Delay"]);
    let deciding = claim.deciding();
    assert_eq!(deciding.len(), 1);
    assert_eq!(deciding[0].title(), "Queue: 10 instead of 50");
    let word = &deciding[0].words[0];
    assert_eq!((word.basis, word.source.as_str()), (Basis::Practice, "a book"));
    let (here, there) = claim.turned(deciding[0]).unwrap();
    // 2 Mbit/s less 1 plainly, nothing with the short queue, each +- the noise.
    assert!((here.left.unwrap().mean - 1e6).abs() < 1e5, "{here:?}");
    assert!(there.left.unwrap().mean.abs() < 1e5, "{there:?}");
    assert_eq!(there.verdict, Verdict::NotHeld);
}

#[test]
fn a_claim_that_was_rewritten_says_how_it_stood_wherever_it_is_shown() {
    let claim = "checks = [\"clean[2 Mbit] - clean[1 Mbit] >= 900000\"]";
    let history = "edition = 3\nrewritten = 1\nverdict_before = \"not held\"\n\
                   before = \"It asked for `2 Mbit`.\"\nchanged = \"Why.\"\n\
                   quote = \"twice the rate\"\nplace = \"section 2\"\n\
                   not_checked = [\"the other half: no metric has it\"]";
    let rewritten = "checks = [{ check = \"clean[2 Mbit] - clean[1 Mbit] >= 900000\", edition = 3, \
                     was = \"clean[2 Mbit] >= 1\" }]";
    let queue = "[[experiment.readings]]\nname = \"queue\"";
    let formerly = "edition = 3\nformerly = \"10; with it C1 held\"";
    let text = TEXT
        .replace("CENTRE", "0")
        .replace(claim, &format!("{rewritten}\n{history}"))
        .replace(queue, &format!("{queue}\n{formerly}"));
    let rewritten = Experiment::parse("mine.toml", &text).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let summary = QUICK.write(&rewritten, dir.path(), &noisy).unwrap();
    // Only the present checks and plain values are judged.
    assert_eq!(summary.runs, run(&experiment(0.0), &Effort::Quick, 1).runs);
    assert_eq!(summary.claims[0].verdict, Verdict::Held);
    let json = summary.claims[0].to_json();
    for (key, value) in [
        ("verdict_before", "not held"),
        ("before", "It asked for `2 Mbit`."),
        ("changed", "Why."),
        ("quote", "twice the rate"),
        ("place", "section 2"),
    ] {
        assert_eq!(json[key], value);
    }
    assert_eq!((&json["edition"], &json["rewritten"]), (&3.into(), &1.into()));
    let other = summary.claims[1].to_json();
    assert_eq!((&other["rewritten"], &other["verdict_before"]), (&0.into(), &().into()));
    let words = "checks rewritten when results were known, before: not held";
    let index = fs::read_to_string(dir.path().join("index.html")).unwrap();
    let owed = "Of the 3 held ones 1 by rewritten checks, 3 under changed plain values, 3 under values \
                that no text gives";
    assert!(index.contains(owed), "{index}");
    assert!(index.contains(&format!("title=\"C1: held plainly, {}, ", &words[..40])), "{index}");
    assert_eq!(index.matches(" rewritten replained unfounded\" href").count(), 1);
    assert_eq!(index.matches(" replained unfounded\" href").count(), 3);
    assert_eq!(index.matches(&format!("<small>{words}</small>")).count(), 1);
    let page = fs::read_to_string(dir.path().join("own-experiments.html")).unwrap();
    assert_eq!(page.matches(&format!("<small>{words}</small>")).count(), 1, "{page}");
    for text in [
        "<q>twice the rate</q> <small>(section 2)</small>",
        "<b>Not checked:</b> the other half: no metric has it</small>",
        "Formerly plain: 10; with it C1 held",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
    let page = page_of_claim(dir.path(), "C1");
    for text in [
        "<b>Checks rewritten when results were known, before: not held</b>, now: held.",
        "Before: <span class=\"badge not-held\">not held</span> It asked for <code>2 Mbit</code>.",
        "<small>was: <code>clean[2 Mbit] &gt;= 1</code></small>",
        "<p>Why.</p>",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

/// The page of a claim of a user's experiment.
fn page_of_claim(report: &Path, id: &str) -> String {
    let names = fs::read_dir(report).unwrap().map(|e| e.unwrap().path());
    let begins = format!("own-mine-{id}-");
    let mut pages = names.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with(&begins));
    fs::read_to_string(pages.next().unwrap()).unwrap()
}

#[test]
fn clear_checks_take_the_first_look_and_close_ones_all_runs() {
    let clear = run(&experiment(0.0), &Effort::Quick, 2);
    // Ten runs for the chart; four more of two cells for each of two readings. All decided at once.
    assert_eq!(clear.runs, 10 + 2 * 2 * 4);
    assert!(clear.claims.iter().flat_map(|c| &c.checks).all(|c| c.repetitions == 5));
    // A bound in the middle of the noise stays open: looks at 5, 10 and 20 runs, each surer.
    let close = run(&experiment(1e6), &Effort::Quick, 2);
    let check = &close.claims[1].checks[0];
    assert_eq!((check.verdict, check.repetitions), (Verdict::Inconclusive, 20));
    // 5 % / 4 for the third of three looks.
    assert!((check.confidence - (1.0 - 0.05 / 4.0)).abs() < 1e-12);
    // The other check of the claim was decided at the first look and was left alone.
    assert_eq!(close.claims[1].checks[1].repetitions, 5);
}

#[test]
fn an_undecided_reading_gets_as_many_runs_as_the_plain_one_if_the_budget_permits() {
    // Half of the bound in the middle of the noise, with either queue: looks at 4 and 8 runs of at
    // most 10, then at 16 and 20.
    let close = experiment(1e6);
    let of = |budget: Option<f64>| {
        let summary = Attempt { readings_budget: budget, ..QUICK }.run(&close);
        let claim = summary.claims[1].clone();
        assert_eq!((claim.to_come, claim.of()), (0, 3));
        let queue = claim.readings.iter().find(|r| r.deviation.of("queue").is_some()).unwrap();
        assert_eq!(queue.verdict, Verdict::Inconclusive);
        queue.checks[0].repetitions
    };
    assert_eq!(of(None), 20);
    // A first look at one cell under two readings, and nothing more.
    let plan = close.plan(&Effort::Quick).unwrap();
    let first: f64 = plan.scenarios.iter().map(Scenario::predicted_packet_hops).sum::<f64>() * 4.0;
    assert_eq!(of(Some(first * 2.0)), 8);
}

/// The second claim holds with the shorter delay; the third fails with both changes.
const WORLDS: &str = r#"
[[worlds]]
claim = "C2"
verdict = "held"
readings = { delay = "9 ms" }
tried = 3
held = 1
of = 4
end = "found"
[[worlds]]
claim = "C3"
verdict = "not held"
readings = { gone = "value" }
tried = 3
of = 4
end = "found"
[[joint]]
readings = { delay = "9 ms", queue = "10" }
claims = ["C2"]
"#;

#[test]
fn found_worlds_are_judged_again_and_shown() {
    let mut experiment = experiment(1.1e6);
    experiment.worlds = Worlds::parse("worlds.toml", WORLDS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let summary = QUICK.write(&experiment, dir.path(), &noisy).unwrap();
    let claim = &summary.claims[1];
    assert_eq!(claim.verdict, Verdict::NotHeld);
    let nearest = claim.worlds.nearest.as_ref().unwrap();
    assert_eq!((nearest.reading.verdict, nearest.reading.checks.len()), (Verdict::Held, 2));
    assert!(matches!(claim.belief(), Belief::Assumptions(r) if r.deviation.choices().len() == 1));
    // One world has one verdict.
    let alone = claim.readings.iter().find(|r| r.deviation == nearest.reading.deviation);
    assert_eq!(alone, Some(&nearest.reading));
    // 1 Mbit/s and 200 kbit/s, of which the short queue takes nothing at the lower rate.
    assert_eq!(claim.in_joint(0), Some(Verdict::Held));
    assert_eq!(summary.claims[2].in_joint(0), Some(Verdict::NotHeld));
    // A value that is gone is not judged, and that is said.
    let third = &summary.claims[2].worlds;
    assert!(third.nearest.is_none() && third.search.as_ref().unwrap().stale);

    let claims = fs::read_to_string(dir.path().join("claims.json")).unwrap();
    let claims: serde_json::Value = serde_json::from_str(&claims).unwrap();
    let json = &claims[1];
    assert_eq!(json["nearest_world"]["verdict"], "held");
    let assumption = &json["nearest_world"]["assumptions"][0];
    assert_eq!((&assumption["choice"], &assumption["instead"]), (&"Delay".into(), &"9 ms".into()));
    assert_eq!((&assumption["basis"], &assumption["source"]), (&"fit".into(), &"figure 2".into()));
    assert_eq!((&json["worlds"]["tried"], &json["worlds"]["held"]), (&3.into(), &1.into()));
    assert_eq!(json["in_readings"]["not_held"], 2);
    assert_eq!(claims[0]["worlds"], serde_json::Value::Null);

    let front = fs::read_to_string(dir.path().join("index.html")).unwrap();
    // C1 and C3 hold plainly, C2 with one assumption.
    assert!(front.contains("title=\"C2: held with 1 assumption, no text gives one"), "{front}");
    assert!(
        front.contains("<span class=\"square b0\">\u{2713}</span> <b>2</b> held plainly"),
        "{front}"
    );
    let tally = summary.tallies[0].sentence();
    let expected = "3 claims: plainly 2 held (2 under values that no text gives), 1 not held; of the \
                    others 1 held with assumptions";
    assert_eq!(tally, expected);
    let page = fs::read_to_string(dir.path().join("own-experiments.html")).unwrap();
    for text in [
        &tally,
        "holds with Delay: 9 ms instead of 20 ms (fit)",
        // All claims hold plainly or in their nearest world.
        "<th title=\"\">nearest<br><small>3/3</small></th>",
        // The charts of both, on the same axes.
        "<figcaption>Nearest world of C2</figcaption>",
        "<b>Together</b>: in one world a search confirmed 1 claim (C2), with 2 assumptions: ",
        "In this report 1 of 3 claims hold there; C1, held plainly, is not held; C3, held plainly, is",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
    let page = page_of_claim(dir.path(), "C2");
    for text in [
        "Answer: held with 1 assumption.",
        "A search tried 3 of 4 worlds by few runs each, and judged 1 by more.",
    ] {
        assert!(page.contains(text), "{text} in {page}");
    }
}

#[test]
fn a_number_of_runs_that_is_fixed_has_one_look_at_95_percent() {
    let mut experiment = experiment(1e6);
    experiment.quick.at_most = 5;
    let summary = run(&experiment, &Effort::Quick, 1);
    let check = &summary.claims[1].checks[0];
    assert_eq!((check.repetitions, check.confidence), (5, 0.95));
}

#[test]
fn a_reading_that_an_axis_overrides_does_not_count() {
    let text = TEXT.replace("CENTRE", "0").replace(
        "key = \"dumbbell.bottleneck.rate\"",
        "key = [\"dumbbell.bottleneck.rate\"]\nlabels = [\"1 Mbit\", \"2 Mbit\"]",
    );
    let text = text.replace(
        "[experiment.metrics]",
        "[[experiment.axes]]\nname = \"queue\"\nkey = \"dumbbell.bottleneck.queue\"\n\
         values = [\"50p\"]\n[experiment.metrics]",
    );
    let text = text.replace("clean[1 Mbit]", "clean[1 Mbit, 50p]");
    let text = text.replace("clean[2 Mbit]", "clean[2 Mbit, 50p]");
    let experiment = Experiment::parse("mine.toml", &text).unwrap();
    let summary = run(&experiment, &Effort::Quick, 1);
    // The delay alone is left.
    assert_eq!(summary.claims[0].in_readings(), "holds in all 2 readings");
}

#[test]
fn a_budget_leaves_out_the_expensive_readings_and_says_so() {
    let summary = Attempt { readings_budget: Some(1.0), ..QUICK }.run(&experiment(0.0));
    // One in any case; two choices have one other value each.
    assert_eq!(summary.claims[0].readings.len(), 1);
    assert!(summary.claims[0].in_readings().ends_with(", 1 not judged"));
}

/// The journals of interrupted campaigns.
fn journals(report: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(report.join(".windward")).unwrap();
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.file_name().unwrap().to_string_lossy().starts_with("runs-"));
    paths
}

#[test]
fn all_readings_are_judged_whatever_the_budget_if_that_is_asked_for() {
    let mut experiment = experiment(0.0);
    experiment.all_readings = true;
    let summary = Attempt { readings_budget: Some(1.0), ..QUICK }.run(&experiment);
    assert_eq!((summary.claims[0].readings.len(), summary.claims[0].left_out), (2, 0));
}

#[test]
fn neither_threads_nor_an_interruption_show() {
    let experiment = experiment(1e6);
    let all = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        files.retain(|p| p.is_file());
        files.sort();
        let read = |p: &std::path::PathBuf| {
            (p.file_name().unwrap().to_owned(), fs::read_to_string(p).unwrap())
        };
        files.iter().map(read).collect::<Vec<_>>()
    };
    let whole = tempfile::tempdir().unwrap();
    let one = Attempt { threads: 1, ..QUICK };
    let runs = one.write(&experiment, whole.path(), &noisy).unwrap().runs;
    let expected = all(whole.path());
    assert!(expected.iter().any(|(name, _)| name == "mine-readings.csv"));
    for stop in [3, 9, 10, 11, 20, runs - 1] {
        let dir = tempfile::tempdir().unwrap();
        let stopped = QUICK.write(&experiment, dir.path(), &until(stop));
        assert!(matches!(stopped, Err(ExperimentError::Cancelled)));
        // As after a kill in the middle of a record.
        let journal = journals(dir.path()).pop().unwrap();
        let bytes = fs::read(&journal).unwrap();
        fs::write(&journal, &bytes[..bytes.len() - 7 * (stop % 2)]).unwrap();
        let again = Attempt { threads: 3, resume: true, ..QUICK };
        let again = again.write(&experiment, dir.path(), &noisy).unwrap();
        assert_eq!(again.runs, runs, "stopped after {stop}");
        assert!(again.resumed >= stop.saturating_sub(2), "{} of {stop}", again.resumed);
        assert!(all(dir.path()) == expected, "stopped after {stop}");
        assert!(!journal.exists());
    }
}

#[test]
fn a_journal_of_something_else_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = |experiment: &Experiment, resume: bool, runs: u64| {
        let until = |scenario: &Scenario, cancel: &AtomicBool| {
            if scenario.seed > runs {
                Err(ExperimentError::Cancelled)
            } else {
                noisy(scenario, cancel)
            }
        };
        Attempt { threads: 1, resume, ..QUICK }.write(experiment, dir.path(), &until)
    };
    let none = attempt(&experiment(0.0), true, u64::MAX).unwrap_err().to_string();
    assert!(none.contains("there is nothing to resume"), "{none}");
    assert!(attempt(&experiment(0.0), false, 1).is_err());
    let other = attempt(&experiment(1.0), true, u64::MAX).unwrap_err().to_string();
    assert!(other.contains("another run was interrupted"), "{other}");
    // The journal is still there for the one it is of.
    assert!(attempt(&experiment(0.0), true, u64::MAX).unwrap().resumed > 0);
}

#[test]
fn beginning_anew_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = |experiment: &Experiment, resume: bool, runs: usize| {
        Attempt { threads: 1, resume, ..QUICK }.write(experiment, dir.path(), &until(runs))
    };
    let (first, other) = (experiment(1e6), experiment(0.0));
    assert!(attempt(&first, false, 20).is_err());
    // Another campaign in between, the same without `resume`, and that stopped at once.
    assert!(attempt(&other, false, usize::MAX).is_ok());
    assert!(attempt(&first, false, 0).is_err());
    assert!(attempt(&first, false, 3).is_err());
    assert_eq!(journals(dir.path()).len(), 1);
    let resumed = attempt(&first, true, usize::MAX).unwrap().resumed;
    assert_eq!(resumed, 20);
    assert!(journals(dir.path()).is_empty());
}

#[test]
fn a_report_that_was_interrupted_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment(0.0);
    let page = || fs::read_to_string(dir.path().join("index.html")).unwrap();
    let one = || Attempt { threads: 1, ..QUICK };
    // All runs of charts are complete, and some of the runs of verdicts.
    let stopped = one().write(&experiment, dir.path(), &until(12));
    assert!(stopped.is_err());
    let text = page();
    assert!(
        text.contains("<b>Interrupted</b>: still to be judged under all readings: 3 claims"),
        "{text}"
    );
    let text = page_of_claim(dir.path(), "C1");
    assert!(text.contains("Other readings: under its plain reading, 2 to come."), "{text}");
    one().write(&experiment, dir.path(), &noisy).unwrap();
    assert!(!page().contains("Interrupted"));
}

#[test]
fn a_wrong_reading_is_found_before_anything_runs() {
    let wrong = TEXT.replace("CENTRE", "0").replace(
        "\"dumbbell.bottleneck.queue\" = \"10p\"",
        "\"dumbbell.bottleneck.quux\" = \"10p\"",
    );
    let experiment = Experiment::parse("mine.toml", &wrong).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("report");
    let ran = AtomicUsize::new(0);
    let count = |scenario: &Scenario, cancel: &AtomicBool| {
        ran.fetch_add(1, Memory::Relaxed);
        noisy(scenario, cancel)
    };
    let error = QUICK.write(&experiment, &out, &count);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("unknown key `quux`"), "{error}");
    assert!(error.contains("reading queue = 10"), "{error}");
    assert_eq!(ran.load(Memory::Relaxed), 0);
    assert!(!out.exists());
}
