//! Tests of searches on a simulator of known numbers with noise.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use windward_core::network::QueueLimit;
use windward_sim::{Outcome, Scenario};

use super::*;
use crate::ExperimentError;
use crate::campaign::{RunExecutor, RunId};
use crate::claims::Verdict;
use crate::experiment::{Effort, Experiment};
use crate::sweep::Plan;
use crate::testing::{fake, options};

/// One cell and three choices of two or three values: 12 worlds.
const TEXT: &str = r#"
duration = "10s"
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "20ms" }
[[flows]]
group = "clean"
protocol = "newreno"
[[flows]]
group = "lossy"
protocol = "newreno"
[experiment]
id = "mine"
title = "Mine"
quick = { repetitions = 4, at_most = 16 }
[[experiment.readings]]
name = "queue"
choice = "Queue"
values = [
    { label = "50", basis = "paper", source = "section 1", set = { "dumbbell.bottleneck.queue" = "50p" } },
    { label = "10", basis = "practice", source = "a book", set = { "dumbbell.bottleneck.queue" = "10p" } },
]
[[experiment.readings]]
name = "delay"
choice = "Delay"
values = [
    { label = "20 ms", basis = "paper", source = "section 2", set = { "dumbbell.bottleneck.delay" = "20ms" } },
    { label = "9 ms", basis = "rfc", source = "RFC 1", set = { "dumbbell.bottleneck.delay" = "9ms" } },
    { label = "8 ms", basis = "fit", source = "figure 1", set = { "dumbbell.bottleneck.delay" = "8ms" } },
]
[[experiment.readings]]
name = "access"
choice = "Access delay"
values = [
    { label = "20 ms", basis = "paper", source = "section 3", set = { "dumbbell.access.delay" = "20ms" } },
    { label = "3 ms", basis = "practice", source = "a book", set = { "dumbbell.access.delay" = "3ms" } },
]
[experiment.metrics]
clean = "throughput(clean)"
lossy = "throughput(lossy)"
"#;

/// The values of the three choices in a scenario: queue, delay, access delay.
struct World {
    queue: u64,
    delay: u64,
    access: u64,
}

impl World {
    fn of(scenario: &Scenario) -> Self {
        let milliseconds =
            |link: usize| (scenario.links[link].delay.as_secs_f64() * 1e3).round() as u64;
        let bottleneck = scenario.flows[0].bottleneck;
        let others = (0..scenario.links.len()).filter(|link| *link != bottleneck);
        World {
            queue: match scenario.links[bottleneck].kind.queue.limit {
                QueueLimit::Packets(packets) => packets.into(),
                _ => 0,
            },
            delay: milliseconds(bottleneck),
            access: others.map(milliseconds).min().unwrap_or(0),
        }
    }

    fn is_short(&self) -> bool {
        self.queue == 10
    }

    fn is_near(&self) -> bool {
        self.delay < 10
    }
}

/// Noise from -1 to 1, other for each seed, world and group.
fn noise(scenario: &Scenario, world: &World, group: u64) -> f64 {
    let mut x = scenario.seed;
    for part in [world.queue, world.delay, world.access, group] {
        // SplitMix64.
        x = (x ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
    }
    (x >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
}

/// A simulator with these means of both groups, in Mbit/s, and this noise.
fn noisy(
    means: impl Fn(&World) -> [f64; 2] + Sync,
    spread: f64,
) -> impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync {
    move |scenario, cancel| {
        let mut outcome = fake(scenario, cancel)?;
        let world = World::of(scenario);
        for (group, mean) in means(&world).into_iter().enumerate() {
            let noise = spread * noise(scenario, &world, group as u64);
            outcome.groups[group].throughput_bps = (mean + noise) * 1e6;
        }
        Ok(outcome)
    }
}

/// The experiment with a claim for each list of checks: C1, C2.
fn experiment(claims: &[&str]) -> Experiment {
    let mut text = TEXT.to_owned();
    for (i, checks) in claims.iter().enumerate() {
        text += &format!(
            "[[experiment.claims]]\nid = \"C{}\"\nclaim = \"c\"\nexpected = \"e\"\nchecks = \
             [{checks}]\n",
            i + 1
        );
    }
    Experiment::parse("mine.toml", &text).unwrap()
}

fn run_in(
    dir: &Path,
    experiments: &[Experiment],
    search: &SearchOptions,
    threads: usize,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
) -> Result<SearchSummary, ExperimentError> {
    let cancel = AtomicBool::new(false);
    let options = options(threads, &cancel);
    search_with(experiments, &Effort::Quick, &options, search, dir, simulate)
}

fn run(
    claims: &[&str],
    search: &SearchOptions,
    simulate: &(impl Fn(&Scenario, &AtomicBool) -> Result<Outcome, ExperimentError> + Sync),
) -> SearchSummary {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), &[experiment(claims)], search, 2, simulate).unwrap()
}

/// 1.2 Mbit/s with the short queue and a short delay, 1 Mbit/s else.
fn pair(world: &World) -> [f64; 2] {
    [if world.is_short() && world.is_near() { 1.2 } else { 1.0 }, 0.0]
}

#[test]
fn a_claim_that_holds_in_a_pair_alone_is_found_there_and_one_that_fails_there_too() {
    let claims = ["\"clean >= 1100000\"", "\"clean <= 1100000\", \"lossy <= 1000000\""];
    let summary = run(&claims, &SearchOptions::default(), &noisy(pair, 0.05));
    let [up, down] = &summary.found[..] else { panic!("two claims") };
    let nearest = Deviation::of_choices(vec![
        ("delay".to_owned(), "9 ms".to_owned()),
        ("queue".to_owned(), "10".to_owned()),
    ]);
    assert_eq!((up.plain, down.plain), (Verdict::NotHeld, Verdict::Held));
    assert_eq!((up.world.verdict, down.world.verdict), (Verdict::Held, Verdict::NotHeld));
    for found in [up, down] {
        // 9 ms has the stronger basis, so that its pair comes first.
        assert_eq!(found.world.readings.as_ref(), Some(&nearest));
        assert_eq!((found.world.end, found.world.confirmations), (End::Found, 1));
        assert_eq!((found.world.undecided, found.world.of), (0, 12));
    }
    assert_eq!(up.assumptions[0].source, "RFC 1");
}

#[test]
fn a_claim_that_holds_nowhere_exhausts_the_worlds() {
    let summary = run(&["\"clean >= 1300000\""], &SearchOptions::default(), &noisy(pair, 0.05));
    let world = &summary.found[0].world;
    assert_eq!((world.end, world.readings.as_ref()), (End::Exhausted, None));
    assert_eq!((world.tried, world.held, world.of), (12, 0, 12));
    assert_eq!((world.undecided, world.confirmations), (0, 0));
}

#[test]
fn worlds_that_nothing_decides_are_counted() {
    // In the pair the mean is the bound itself, where about one confirmation of twenty errs: none
    // of the seeds does here.
    let summary = run(&["\"clean >= 1200000\""], &SearchOptions::default(), &noisy(pair, 0.05));
    let world = &summary.found[0].world;
    assert_eq!((world.end, world.readings.as_ref()), (End::Exhausted, None));
    assert!(world.confirmations > 0, "{world:?}");
    assert!(world.undecided <= world.confirmations && world.held >= world.confirmations);
}

#[test]
fn a_search_ends_with_its_budget() {
    let claims = ["\"clean >= 1300000\""];
    let all = run(&claims, &SearchOptions::default(), &noisy(pair, 0.05)).found[0].spent;
    let limited = SearchOptions { budget: Some(all / 2.0), ..SearchOptions::default() };
    let summary = run(&claims, &limited, &noisy(pair, 0.05));
    let world = &summary.found[0].world;
    assert_eq!((world.end, world.readings.as_ref()), (End::Budget, None));
    assert!(world.tried > 1 && world.tried < 12, "{world:?}");
    assert!(summary.found[0].spent < all);
}

#[test]
fn the_joint_world_unites_those_of_two_claims() {
    // The short queue lifts one group and a short delay the other; the third claim holds plainly
    // and contradicts the first.
    let means =
        |w: &World| [if w.is_short() { 1.2 } else { 1.0 }, if w.is_near() { 1.2 } else { 1.0 }];
    let claims = ["\"clean >= 1100000\"", "\"lossy >= 1100000\"", "\"clean <= 1100000\""];
    let summary = run(&claims, &SearchOptions::default(), &noisy(means, 0.05));
    let worlds: Vec<String> = summary
        .found
        .iter()
        .map(|found| found.world.readings.as_ref().map_or_else(String::new, ToString::to_string))
        .collect();
    assert_eq!(worlds, ["queue = 10", "delay = 9 ms", "queue = 10"]);
    let [(key, joint)] = &summary.joint[..] else { panic!("one joint world") };
    // Two of three hold with the short delay alone, and as many in the union: the smaller one
    // counts. A fourth claim about the union is below.
    assert_eq!(key, "own-experiments");
    assert_eq!((joint.readings.to_string(), joint.claims.len()), ("delay = 9 ms".to_owned(), 2));
    let claims = [claims[0], claims[1], "\"clean >= 1100000\", \"lossy >= 1100000\""];
    let summary = run(&claims, &SearchOptions::default(), &noisy(means, 0.05));
    let joint = &summary.joint[0].1;
    assert_eq!(joint.readings.to_string(), "delay = 9 ms, queue = 10");
    assert_eq!(joint.claims, ["C1", "C2", "C3"]);
}

#[test]
fn neither_threads_nor_an_interruption_show() {
    let list = [experiment(&["\"clean >= 1100000\"", "\"clean <= 1100000\""])];
    let simulate = noisy(pair, 0.05);
    let file = |dir: &Path| fs::read_to_string(dir.join("own-experiments/worlds.toml")).unwrap();
    let whole = tempfile::tempdir().unwrap();
    let runs = run_in(whole.path(), &list, &SearchOptions::default(), 1, &simulate).unwrap().runs;
    let expected = file(whole.path());
    assert!(Worlds::parse("worlds.toml", &expected).unwrap().of("C1").unwrap().readings.is_some());
    for stop in [1, 5, 30, runs - 1] {
        let dir = tempfile::tempdir().unwrap();
        let done = AtomicUsize::new(0);
        let until = |scenario: &Scenario, cancel: &AtomicBool| {
            if done.fetch_add(1, Ordering::Relaxed) >= stop {
                cancel.store(true, Ordering::Relaxed);
                return Err(ExperimentError::Cancelled);
            }
            simulate(scenario, cancel)
        };
        let stopped = run_in(dir.path(), &list, &SearchOptions::default(), 2, &until);
        assert!(matches!(stopped, Err(ExperimentError::Cancelled)));
        assert!(crate::is_resumable(dir.path()));
        let resume = SearchOptions { resume: true, ..SearchOptions::default() };
        let again = run_in(dir.path(), &list, &resume, 3, &simulate).unwrap();
        assert_eq!((again.runs, again.resumed >= stop), (runs, true), "stopped after {stop}");
        assert_eq!(file(dir.path()), expected, "stopped after {stop}");
        assert!(!crate::is_resumable(dir.path()));
    }
}

#[test]
fn claims_that_are_not_named_keep_their_worlds() {
    let list = [experiment(&["\"clean >= 1100000\"", "\"clean >= 1300000\""])];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("worlds.toml");
    let read = || Worlds::read(&path).unwrap();
    let of = |names: &[&str]| SearchOptions {
        names: names.iter().map(|n| (*n).to_owned()).collect(),
        folder: Some(dir.path().to_owned()),
        ..SearchOptions::default()
    };
    let out = dir.path().join("out");
    let simulate = noisy(pair, 0.05);
    run_in(&out, &list, &of(&["C2"]), 1, &simulate).unwrap();
    assert_eq!(read().worlds.len(), 1);
    run_in(&out, &list, &of(&["C1"]), 1, &simulate).unwrap();
    let claims: Vec<String> = read().worlds.into_iter().map(|w| w.claim).collect();
    assert_eq!(claims, ["C1", "C2"]);
    // Only a search of all claims has a joint world, which one of some keeps.
    assert_eq!(read().joint, []);
    run_in(&out, &list, &of(&[]), 1, &simulate).unwrap();
    run_in(&out, &list, &of(&["C2"]), 1, &simulate).unwrap();
    assert_eq!(read().joint[0].claims, ["C1"]);
    let unknown = run_in(&out, &list, &of(&["C3"]), 1, &simulate).unwrap_err().to_string();
    assert!(unknown.contains("no claim to search a world for"), "{unknown}");
}

/// Number of searches without any world to find.
const SEARCHES: u64 = 100;

#[test]
fn few_searches_find_a_world_where_there_is_none() {
    // In each world, the mean is a thousandth of the noise's spread below the bound, so that about
    // half of the worlds pass the sieve, and five or six of each search are confirmed. With 5 % for
    // each confirmation 15 of the searches find a world; with the levels of `error_of` 4 do, of
    // which 2.5 are to be expected: the intervals are two-sided.
    let below = |_: &World| [1.1 - 0.000_05, 0.0];
    let list = (0..SEARCHES).map(|i| {
        let mut experiment = experiment(&["\"clean >= 1100000\""]);
        experiment.id = format!("mine-{i}");
        experiment.set("seed", &(i * 10_000_000).to_string()).unwrap();
        experiment
    });
    let dir = tempfile::tempdir().unwrap();
    let search = SearchOptions::default();
    let list: Vec<Experiment> = list.collect();
    let summary = run_in(dir.path(), &list, &search, 2, &noisy(below, 0.05)).unwrap();
    let sought = summary.found.iter().filter(|f| f.world.verdict == Verdict::Held);
    let found = sought.clone().filter(|f| f.world.readings.is_some()).count();
    let confirmations: u64 = summary.found.iter().map(|f| f.world.confirmations).sum();
    assert!(sought.count() >= 90);
    assert!(confirmations > 3 * SEARCHES, "{confirmations}");
    assert!(found as f64 <= SEARCH_ERROR * SEARCHES as f64, "{found} of {SEARCHES}");
}

// --- the pure parts ----------------------------------------------------------------------

fn choice(name: &str, others: &[(&str, Basis)]) -> Choice {
    let other = |(label, basis): &(&str, Basis)| Other {
        label: (*label).to_owned(),
        basis: *basis,
        private: false,
    };
    Choice { name: name.to_owned(), others: others.iter().map(other).collect() }
}

#[test]
fn the_levels_of_all_confirmations_sum_to_five_percent() {
    // 6 / pi^2 of 5 %, and a quarter of it.
    assert!((error_of(1) - 0.030_396).abs() < 1e-6);
    assert!((error_of(2) - 0.007_599).abs() < 1e-6);
    let sum: f64 = (1..100_000).map(error_of).sum();
    assert!(sum < SEARCH_ERROR && sum > 0.049_99, "{sum}");
}

fn order(space: &Space) -> Vec<String> {
    space.worlds.iter().map(|world| world.deviation.to_string()).collect()
}

fn identity(world: &Deviation) -> u64 {
    crate::experiment::fnv1a(world.to_string().as_bytes())
}

#[test]
fn few_assumptions_come_first_then_the_well_founded() {
    use Basis::{Fit, Paper, Rfc};
    let choices = [choice("a", &[("fit", Fit), ("rfc", Rfc)]), choice("b", &[("x", Paper)])];
    let space = Space::of(&choices, identity);
    assert_eq!(order(&space), ["b = x", "a = rfc", "a = fit", "a = rfc, b = x", "a = fit, b = x"]);
    assert_eq!((space.of, space.complete), (6, true));
    // If `b` changes nothing beside the rfc's value, that pair is the same world as the single.
    let same = |w: &Deviation| match w.of("a") {
        Some("rfc") => 1,
        _ => identity(w),
    };
    let space = Space::of(&choices, same);
    assert_eq!((space.worlds.len(), space.of), (4, 5));
}

#[test]
fn what_one_protocol_alone_has_is_farther_than_the_same_for_all() {
    use Basis::{Paper, Practice, Rfc};
    let mut alone = choice("alone", &[("x", Paper)]);
    alone.others[0].private = true;
    let space = Space::of(
        &[alone, choice("all", &[("x", Practice)]), choice("b", &[("y", Rfc)])],
        identity,
    );
    assert_eq!(
        order(&space),
        [
            "b = y",
            "all = x",
            "alone = x",
            "all = x, b = y",
            "alone = x, b = y",
            "all = x, alone = x",
            "all = x, alone = x, b = y"
        ]
    );
    let sizes: Vec<usize> = space.worlds.iter().map(|world| world.distance.assumptions).collect();
    assert_eq!(sizes, [1, 1, 2, 2, 3, 3, 4]);
}

#[test]
fn a_value_that_a_result_contradicts_is_in_no_world() {
    let contradicted =
        TEXT.replace("label = \"10\",", "label = \"10\", contradicted = \"figure 1\",");
    let experiment = Experiment::parse("mine.toml", &contradicted).unwrap();
    let queue = experiment.readings.iter().find(|reading| reading.name == "queue").unwrap();
    assert_eq!(queue.others().count(), 1);
    assert_eq!(Choice::of(queue, |_| true), None);
}

#[test]
fn a_product_that_is_too_large_is_listed_in_whole_sizes() {
    let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
    let choices: Vec<Choice> = names.iter().map(|n| choice(n, &[("x", Basis::Rfc)])).collect();
    let space = Space::of(&choices, identity);
    // 20 + 190 + 1140 + 4845 + 15504; the next size would have 38760 more.
    assert_eq!((space.worlds.len(), space.of, space.complete), (21_699, 1 << 20, false));
}

/// Executes runs as another process does, which knows the experiments and the run's number alone.
struct Elsewhere(Vec<Plan>);

impl RunExecutor for Elsewhere {
    fn metrics(
        &self,
        run: &RunId,
        _: &Plan,
        _: &Scenario,
        cancel: &AtomicBool,
    ) -> Result<Vec<f64>, ExperimentError> {
        run.perform(&self.0, cancel)
    }
}

#[test]
fn runs_elsewhere_find_the_same_world() {
    // An access delay of 3 ms shortens the RTT of 80 ms by 34, and the pipe by 4 of 10 packets.
    let list = [experiment(&["\"clean + lossy >= 990000\""])];
    let plans = || list.iter().map(|e| e.plan(&Effort::Quick)).collect::<Result<Vec<_>, _>>();
    let found = |executor: &dyn Fn(&Path) -> Result<SearchSummary, ExperimentError>| {
        let dir = tempfile::tempdir().unwrap();
        let summary = executor(dir.path()).unwrap();
        (summary.found, summary.joint, summary.runs)
    };
    let search = SearchOptions::default();
    let here = found(&|dir| run_in(dir, &list, &search, 2, &crate::sweep::simulate));
    assert!(here.2 > 10, "{} runs", here.2);
    let elsewhere = Elsewhere(plans().unwrap());
    let there = found(&|dir| {
        let cancel = AtomicBool::new(false);
        let options = options(3, &cancel);
        search_with(&list, &Effort::Quick, &options, &search, dir, &elsewhere)
    });
    assert_eq!(here, there);
    let unknown = RunId { experiment: 0, reading: Deviation::PLAIN, cell: 1, repetition: 0 };
    let error = unknown.perform(&elsewhere.0, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("no cell 1 of experiment 0"), "{error}");
}

#[test]
fn a_search_of_one_claim_keeps_the_worlds_of_others_and_names_its_budget() {
    let claims = ["\"clean >= 1100000\"", "\"clean >= 1300000\""];
    let list = [experiment(&claims)];
    let dir = tempfile::tempdir().unwrap();
    let simulate = noisy(pair, 0.05);
    let search = |search: &SearchOptions| {
        let summary = run_in(dir.path(), &list, search, 2, &simulate).unwrap();
        Worlds::read(&summary.files[0]).unwrap()
    };
    let all = search(&SearchOptions::default());
    assert_eq!(all.search.as_ref().map(|search| search.budget), Some(None));
    let one = SearchOptions {
        names: vec!["C1".to_owned()],
        budget: Some(5e9),
        ..SearchOptions::default()
    };
    let both = search(&one);
    assert_eq!((&both.search, &both.worlds[1]), (&all.search, &all.worlds[1]));
    assert_eq!((both.worlds[0].claim.as_str(), both.worlds[0].budget), ("C1", Some(5000)));
    // Longer runs for one claim are named there too.
    let cancel = AtomicBool::new(false);
    let full = search_with(&list, &Effort::Full, &options(2, &cancel), &one, dir.path(), &simulate);
    let long = Worlds::read(&full.unwrap().files[0]).unwrap();
    assert_eq!(long.search, all.search);
    let efforts: Vec<Option<&str>> = long.worlds.iter().map(|w| w.effort.as_deref()).collect();
    assert_eq!(efforts, [Some("full"), None]);
    // The same budget for all claims stands once, at the head.
    let again = search(&SearchOptions { budget: Some(5e9), ..SearchOptions::default() });
    assert_eq!(again.search.map(|search| search.budget), Some(Some(5000)));
    assert!(again.worlds.iter().all(|world| world.budget.is_none()));
}
