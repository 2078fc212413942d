use std::sync::Mutex;

use super::*;
use crate::campaign::measure;
use crate::testing::{experiment, fake, options, results};

#[test]
fn cells_share_their_seeds_and_threads_do_not_show() {
    let one = results(1);
    // 2 protocols x 3 rates x 3 repetitions; seeds 7, 8, 9 in every cell.
    assert_eq!(one.runs.len(), 18);
    for cell in 0..6 {
        let seeds: Vec<u64> = one.cell_runs(cell).iter().map(|r| r.outcome.seed).collect();
        assert_eq!(seeds, [7, 8, 9]);
    }
    assert_eq!(one.runs, results(4).runs);
}

#[test]
fn metrics_are_computed_from_the_cell_s_own_scenario() {
    let results = results(2);
    // Cell 4 is (sack, 2 Mbit): 2e6 plus the seed, and a ratio of one half.
    assert_eq!(results.samples(0, 4), [2_000_007.0, 2_000_008.0, 2_000_009.0]);
    assert_eq!(results.samples(1, 4), [0.5; 3]);
}

#[test]
fn progress_ends_at_all_and_follows_the_work() {
    let seen = Mutex::new(Vec::new());
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress| seen.lock().unwrap().push(p);
    let options =
        RunOptions { threads: 2, cancel: &cancel, readings_budget: None, progress: &progress };
    let plan = experiment().plan(&Effort::Quick).unwrap();
    measure(vec![plan], &options, &fake).unwrap();
    let seen = seen.into_inner().unwrap();
    assert!(seen.windows(2).all(|w| w[0].done + 1 == w[1].done && w[0].work < w[1].work));
    let last = seen.last().unwrap();
    assert_eq!((last.done, last.total), (18, 18));
    assert!((last.work - 1.0).abs() < 1e-12);
}

#[test]
fn the_most_expensive_runs_start_first_and_the_results_do_not_show_it() {
    let cancel = AtomicBool::new(false);
    let started = Mutex::new(Vec::new());
    let note = |scenario: &Scenario, cancel: &AtomicBool| {
        started.lock().unwrap().push(scenario.predicted_packet_hops());
        fake(scenario, cancel)
    };
    let plan = experiment().plan(&Effort::Quick).unwrap();
    let ran = measure(vec![plan], &options(1, &cancel), &note).unwrap();
    let started = started.into_inner().unwrap();
    assert!(started.windows(2).all(|w| w[0] >= w[1]), "{started:?}");
    // Three rates of the bottleneck: not all alike.
    assert!(started[0] > started[17]);
    let order: Vec<_> = ran[0].runs.iter().map(|r| (r.cell, r.repetition)).collect();
    let expected: Vec<_> = (0..6).flat_map(|cell| (0..3).map(move |r| (cell, r))).collect();
    assert_eq!(order, expected);
}

#[test]
fn a_set_flag_stops_everything() {
    let cancel = AtomicBool::new(false);
    let started = Mutex::new(0);
    let stop = |scenario: &Scenario, cancel: &AtomicBool| {
        *started.lock().unwrap() += 1;
        cancel.store(true, Ordering::Relaxed);
        fake(scenario, cancel)
    };
    let plan = experiment().plan(&Effort::Quick).unwrap();
    let stopped = measure(vec![plan], &options(1, &cancel), &stop);
    assert!(matches!(stopped, Err(ExperimentError::Cancelled)));
    assert_eq!(*started.lock().unwrap(), 1);
}

#[test]
fn custom_lengths_and_impossible_ones() {
    let experiment = experiment();
    let length = RunLength {
        repetitions: 2,
        at_most: 2,
        duration: Some("4s".into()),
        warmup: Some("1s".into()),
    };
    let plan = experiment.plan(&Effort::Custom { full: false, length: length.clone() }).unwrap();
    assert_eq!(plan.runs(), 12);
    assert_eq!(plan.scenarios[0].duration, Duration::from_secs(4));
    assert_eq!(plan.scenarios[5].warmup, Duration::from_secs(1));
    let none = RunLength { repetitions: 0, ..length.clone() };
    let error =
        experiment.plan(&Effort::Custom { full: false, length: none }).unwrap_err().to_string();
    assert_eq!(
        error,
        "mine.toml: 6 cells times 0 repetitions are 0 runs; 1 to 10000000 are possible"
    );
    let wrong = RunLength { duration: Some("4 parsecs".into()), ..length };
    let error =
        experiment.plan(&Effort::Custom { full: false, length: wrong }).unwrap_err().to_string();
    assert!(error.contains("4 parsecs"), "{error}");
    assert!(error.contains("(at newreno, 1 Mbit)"), "{error}");
}

#[test]
fn impossible_points_are_left_out_where_the_axis_says_so() {
    // Flows that need an XCP router and flows that need an XTCP router cannot share a link.
    let text = crate::testing::TEXT
        .replace("flows.*.protocol", "flows.clean.protocol")
        .replace(
            "group = \"lossy\"\nprotocol = \"newreno\"",
            "group = \"lossy\"\nprotocol = \"xcp\"",
        )
        .replace("\"newreno\", \"sack\"]", "\"lr-xtcp\", \"newreno\", \"sack\"]");
    let refused = Experiment::parse("f.toml", &text).unwrap().plan(&Effort::Quick).unwrap_err();
    assert!(refused.to_string().contains("`xtcp`"), "{refused}");

    let text = text.replace("name = \"protocol\"", "name = \"protocol\"\nskip_impossible = true");
    let experiment = Experiment::parse("f.toml", &text).unwrap();
    let plan = experiment.plan(&Effort::Quick).unwrap();
    let axis = &plan.experiment.axes[0];
    let labels: Vec<&str> = axis.points.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels, ["newreno", "sack"]);
    assert_eq!(axis.skipped[0].label, "lr-xtcp");
    assert!(axis.skipped[0].reason.contains("`xtcp`"), "{}", axis.skipped[0].reason);
    // Two protocols and three rates are left.
    assert_eq!(plan.scenarios.len(), 6);
    assert_eq!(plan.experiment.cell_name(4), "sack, 2 Mbit");
    assert_eq!((plan.experiment.point_index(4, 0), plan.experiment.point_index(4, 1)), (1, 1));

    // If no point is possible, the file is wrong.
    let text = text.replace("delay = \"20ms\", queue", "delay = \"20 parsecs\", queue");
    let wrong = Experiment::parse("f.toml", &text).unwrap().plan(&Effort::Quick).unwrap_err();
    assert!(wrong.to_string().contains("20 parsecs"), "{wrong}");
}

#[test]
fn a_metric_of_a_group_that_is_not_there_is_found_before_running() {
    let text = crate::testing::TEXT.replace("throughput(clean)\"\nratio", "cv(cleen)\"\nratio");
    let error = Experiment::parse("f.toml", &text).unwrap().plan(&Effort::Quick).unwrap_err();
    // The text begins with an empty line, so `clean = ..` is line 29.
    assert_eq!(
        error.to_string(),
        "f.toml:29: no group `cleen` in `cv(cleen)`; did you mean `clean`?"
    );
}
