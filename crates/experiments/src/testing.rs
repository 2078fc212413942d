//! Shared by the tests of several modules: a small experiment, and a simulator with fixed numbers.

use std::sync::atomic::AtomicBool;

use windward_core::units::Rate;
use windward_sim::{FlowMetrics, FlowOutcome, GroupOutcome, LinkOutcome, Outcome, Scenario};

use crate::ExperimentError;
use crate::campaign;
use crate::comparison::{Beside, Comparison, Measured, Run};
use crate::experiment::{Effort, Experiment};
use crate::sweep::{Results, RunOptions};

/// An experiment of six cells with three claims, one of which holds.
pub const TEXT: &str = r#"
duration = "10s"
seed = 7
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "20ms" }
[[flows]]
group = "clean"
protocol = "newreno"
[[flows]]
group = "lossy"
protocol = "newreno"
[experiment]
id = "mine"
title = "Mine & yours"
setting = "Two flows."
choices = ["A choice."]
quick = { repetitions = 3 }
[[experiment.axes]]
name = "protocol"
key = "flows.*.protocol"
values = ["newreno", "sack"]
[[experiment.axes]]
name = "rate"
title = "Rate"
key = "dumbbell.bottleneck.rate"
values = ["1 Mbit", "2 Mbit", "4 Mbit"]
[experiment.metrics]
clean = "throughput(clean)"
ratio = "goodput(lossy) / throughput(clean)"
[[experiment.plots]]
kind = "lines"
metrics = "clean"
x = "rate"
log = true
unit = "Mbit/s"
references = [{ y = 3, label = "three" }]
[[experiment.plots]]
kind = "dots"
metrics = "ratio"
x = "protocol"
[[experiment.plots]]
kind = "time"
groups = ["clean", "lossy"]
only = { rate = "1 Mbit" }
[[experiment.claims]]
id = "C1"
claim = "more rate, more throughput"
expected = "as said"
checks = ["clean[newreno, 2 Mbit] > clean[newreno, 1 Mbit]"]
[[experiment.claims]]
id = "C2"
claim = "the opposite"
expected = "as said"
checks = ["clean[sack, 2 Mbit] < clean[sack, 1 Mbit]"]
explanation = "It is the other way round."
[[experiment.claims]]
id = "C3"
claim = "nothing divided by nothing"
expected = "as said"
checks = ["ratio[sack, 1 Mbit] / 0 - ratio[sack, 1 Mbit] / 0 >= 0"]
"#;

/// The clean group gets the bottleneck's rate and the seed in bits per second, the lossy one
/// half of it.
pub fn fake(scenario: &Scenario, _cancel: &AtomicBool) -> Result<Outcome, ExperimentError> {
    let rate = scenario.links[scenario.flows[0].bottleneck].kind.rate.mean();
    let clean = Rate::as_bps(rate) as f64 + scenario.seed as f64;
    let flow = |spec: &windward_sim::scenario::FlowConfig| {
        let bps = if spec.group == 0 { clean } else { clean / 2.0 };
        FlowOutcome {
            metrics: FlowMetrics {
                goodput_bps: bps,
                throughput_bps: bps,
                packets_sent: 10,
                retransmissions: Some(1),
                timeouts: Some(0),
                mean_rtt_s: Some(0.12),
                mean_cwnd_packets: Some(4.0),
                loss_estimate: Some(0.1),
                true_loss: 0.1,
                idle_s: Some(0.5),
                longest_idle_s: Some(0.3),
                idle_periods: Some(2),
                ..FlowMetrics::default()
            },
            ..FlowOutcome::new(spec.name.clone(), spec.group, "newreno")
        }
    };
    let flows: Vec<FlowOutcome> = scenario.flows.iter().map(flow).collect();
    let group = |(g, name): (usize, &String)| {
        let own = GroupOutcome::of(name.clone(), flows.iter().filter(|flow| flow.group == g));
        GroupOutcome { throughput_bins: vec![own.throughput_bps; 10], ..own }
    };
    let groups = scenario.groups.iter().enumerate().map(group).collect();
    let link = |spec: &windward_sim::scenario::LinkConfig| LinkOutcome {
        name: spec.name.clone(),
        utilization: 0.5,
        arrived: u64::from(spec.name == "bottleneck"),
        dropped: 0,
        corrupted: 0,
        delivered: 1,
        in_flight: 0,
        reordered: 0,
        marked: 0,
        mean_queue_packets: 2.0,
        max_queue_packets: 3,
        phases: None,
    };
    Ok(Outcome {
        seed: scenario.seed,
        duration: scenario.duration,
        warmup: scenario.warmup,
        links: scenario.links.iter().map(link).collect(),
        flows,
        transfers: Vec::new(),
        groups,
        jain: 1.0,
        samples: None,
        packet_hops: 1,
        events: 1,
        fingerprint: scenario.seed,
    })
}

/// Options for that many threads, without progress.
pub fn options<'a>(threads: usize, cancel: &'a AtomicBool) -> RunOptions<'a> {
    RunOptions { threads, cancel, readings_budget: None, progress: &|_| {} }
}

/// The experiment of [`TEXT`].
pub fn experiment() -> Experiment {
    Experiment::parse("mine.toml", TEXT).expect("the text above is right")
}

/// The results of the experiment by the fake simulator.
pub fn results(threads: usize) -> Results {
    let plan = experiment().plan(&Effort::Quick).expect("it can be planned");
    let cancel = AtomicBool::new(false);
    let all =
        campaign::measure(vec![plan], &options(threads, &cancel), &fake).expect("nothing fails");
    all.into_iter().next().expect("one plan in, one result out")
}

/// A run of a program with that goodput; the same in virtual time has 4 Mbit/s.
pub fn run_of_program(program: &str, loss: f64, seed: u64, goodput: f64) -> Run {
    let measured = |goodput_bps: f64| Measured {
        goodput_bps,
        arrived_bps: goodput_bps,
        sent_per_delivered: 1.25,
        mean_queue_packets: 3.0,
        packet_size: 1500,
        counted_by_program: true,
    };
    Run {
        program: program.to_owned(),
        loss,
        seed,
        alone: Some(measured(goodput)),
        simulated: Some(measured(4e6)),
        beside: Some(Beside { own_bps: 3e6, rival_bps: 2e6 }),
        simulated_beside: Some(Beside { own_bps: 3e6, rival_bps: 1e6 }),
        late_share: 0.0,
        programs_waited_share: None,
        unusable: None,
    }
}

/// Two programs, one of them at a loss rate of a half with a run that is unusable.
pub fn comparison() -> Comparison {
    let late =
        Run { alone: None, unusable: Some("late".to_owned()), ..run_of_program("a", 0.5, 4, 0.0) };
    Comparison {
        rate_bps: 10e6,
        runs: vec![
            run_of_program("a", 0.5, 1, 2e6),
            run_of_program("a", 0.5, 2, 4e6),
            run_of_program("a", 0.5, 3, 3e6),
            late,
            run_of_program("b<i>", 0.0, 1, 4e6),
        ],
        ..Comparison::default()
    }
}
