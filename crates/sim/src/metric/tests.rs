//! Names and units agree, and docs/outputs.md lists the metrics.
//! `BLESS=1 cargo test -p windward-sim outputs_guide` writes its tables.

use super::*;
use crate::Outcome;
use crate::trace::{FlowRow, LinkRow};
use crate::{FlowMetrics, FlowOutcome, GroupOutcome, LinkOutcome, Row, TransferOutcome};

/// Name, unit and optionality of the metrics of a row.
fn described<T: Row>() -> Vec<(&'static str, Unit, bool)> {
    T::shown().map(|metric| (metric.name, metric.unit, metric.meaning().is_empty())).collect()
}

#[test]
fn names_end_in_their_units_and_differ() {
    for metrics in [
        described::<Outcome>(),
        described::<FlowOutcome>(),
        described::<TransferOutcome>(),
        described::<GroupOutcome>(),
        described::<LinkOutcome>(),
        described::<FlowRow>(),
        described::<LinkRow>(),
    ] {
        for (n, (name, unit, undescribed)) in metrics.iter().enumerate() {
            assert!(!undescribed, "{name}");
            assert!(metrics[n + 1..].iter().all(|(other, ..)| other != name), "two are {name}");
            for (ending, of) in [
                ("_s", Unit::Seconds),
                ("_bps", Unit::BitsPerSecond),
                ("_packets", Unit::Packets),
                ("_bytes", Unit::Bytes),
            ] {
                // The name of the size of a transfer is its unit.
                let ends = name.ends_with(ending) || *name == &ending[1..];
                assert_eq!(ends, *unit == of, "{name}");
            }
        }
    }
}

#[test]
fn groups_sum_up_the_metrics_of_their_flows() {
    let flow = |name: &str, change: fn(&mut FlowMetrics)| {
        let mut flow = FlowOutcome::new(name.into(), 0, "newreno");
        change(&mut flow.metrics);
        flow
    };
    let flows = [
        flow("fast", |m| {
            (m.goodput_bps, m.timeouts) = (3.0, Some(2));
            (m.mean_rtt_s, m.mean_cwnd_packets) = (Some(0.0), Some(4.0));
        }),
        flow("slow", |m| {
            (m.goodput_bps, m.timeouts) = (1.0, Some(5));
            (m.mean_rtt_s, m.mean_cwnd_packets) = (Some(0.2), Some(2.0));
        }),
        flow("datagrams", |m| (m.goodput_bps, m.datagrams_lost) = (2.0, Some(7))),
    ];
    let group = GroupOutcome::of("all".to_owned(), &flows);
    assert_eq!((group.flows, group.goodput_bps, group.timeouts), (3, 6.0, Some(7)));
    // The first has no RTT sample, and datagrams have no window: they do not count.
    assert_eq!((group.mean_rtt_s, group.mean_cwnd_packets), (Some(0.2), Some(3.0)));
    assert_eq!((group.datagrams_lost, group.retransmissions, group.idle_s), (Some(7), None, None));
    let none = GroupOutcome::of("none".to_owned(), &flows[2..]);
    assert_eq!((none.timeouts, none.mean_rtt_s), (None, None));

    // Transfers add up to the row of their hosts; means over them are left out.
    let mut sum = FlowMetrics::nothing_yet(Kinds::TRANSPORT);
    assert_eq!((sum.timeouts, sum.mean_cwnd_packets, sum.frames), (Some(0), None, None));
    flows.iter().for_each(|flow| sum.add_transfer(&flow.metrics));
    assert_eq!((sum.timeouts, sum.mean_cwnd_packets), (Some(7), None));
    assert_eq!(FlowMetrics::nothing_yet(Kinds::STACK).timeouts, None);
}

#[test]
fn durations_sum_up_by_every_rule() {
    let combined = |rule| {
        let mut sum = None;
        let values = [0, 2, 4].map(|seconds| Some(Duration::from_secs(seconds)));
        let count = values.map(|value| u32::from(value.add_to(&mut sum, rule))).iter().sum();
        sum.finish(rule, count);
        sum.map(Duration::as_secs_f64)
    };
    let rules = [Rule::Sum, Rule::Greatest, Rule::Mean, Rule::MeanOfMeasured];
    assert_eq!(rules.map(combined), [6.0, 4.0, 2.0, 3.0].map(Some));
}

#[test]
fn each_kind_of_flow_has_its_metrics_and_no_others() {
    let text = r#"
        duration = "8s"
        warmup = "1s"
        dumbbell.bottleneck = { rate = "5Mbit", delay = "5ms", queue = "20p" }
        dumbbell.access = { rate = "100Mbit", delay = "1ms" }
        flows = [
            { group = "bulk", protocol = "newreno" },
            { group = "cbr", cbr = { rate = "100kbit" } },
            { group = "call", media = { rate = "200kbit" } },
        ]"#;
    let scenario = crate::scenario::file::ScenarioFile::parse("kinds.toml", text).unwrap();
    let scenario = scenario.build().unwrap();
    let outcome = crate::run(&scenario);
    // Events that did not happen have no time.
    let events = ["completed_s", "circuit_breaker_first_s", "failure"];
    for (flow, spec) in outcome.flows.iter().zip(&scenario.flows) {
        let kind = Kinds::of(&spec.kind.traffic);
        for metric in FlowOutcome::shown().filter(|metric| !events.contains(&metric.name)) {
            let is_there = metric.of_row(flow, &outcome) != Cell::Empty;
            assert_eq!(is_there, metric.of.has(kind), "{} of {}", metric.name, flow.name);
        }
    }
}

/// The rows of a table: name, unit, what `more` says, and meaning.
fn rows<T: Row>(heading: &str, more: impl Fn(&Metric<T, T::Of>) -> String) -> String {
    let mut text = format!("{heading}\n|---|---|---|---|\n");
    for metric in T::shown() {
        // A metric in an object has the names of both.
        let (name, unit) = (metric.name.replace('.', "`.`"), metric.unit.symbol());
        text += &format!("| `{name}` | {unit} | {} | {} |\n", more(metric), metric.meaning());
    }
    text
}

#[test]
fn the_outputs_guide_has_every_metric() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/outputs.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let kinds = "only of";
    let of_groups = |metric: &Metric<GroupOutcome, Outcome>| match metric.groups {
        Some(rule) => format!("{} over the flows", rule.words()),
        None => String::new(),
    };
    let mut written = guide.clone();
    for (key, text) in [
        (
            "flows",
            rows::<FlowOutcome>(&format!("| of a flow | unit | {kinds} | meaning |"), |metric| {
                metric.of.to_string()
            }),
        ),
        (
            "transfers",
            rows::<TransferOutcome>(
                &format!("| of a transfer, over its whole life | unit | {kinds} | meaning |"),
                |metric| metric.of.to_string(),
            ),
        ),
        ("groups", rows::<GroupOutcome>("| of a group | unit | is the | meaning |", of_groups)),
        (
            "links",
            rows::<LinkOutcome>("| of a link, one direction | unit | | meaning |", |_| {
                String::new()
            }),
        ),
        ("flow series", rows::<FlowRow>("| in `flows` | unit | | meaning |", |_| String::new())),
        ("link series", rows::<LinkRow>("| in `links` | unit | | meaning |", |_| String::new())),
    ] {
        let text = text.replace("|  |", "| |");
        let (begin, end) = (format!("<!-- generated: {key} -->\n"), format!("<!-- end: {key} -->"));
        let (before, rest) = written.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        written = format!("{before}{begin}{text}{end}{after}");
    }
    for metric in Outcome::shown() {
        assert!(guide.contains(&format!("`{}`", metric.name)), "{}", metric.name);
    }
    if std::env::var_os("BLESS").is_some_and(|bless| bless == "1") {
        std::fs::write(path, &written).unwrap();
    } else {
        let how = "`BLESS=1 cargo test -p windward-sim outputs_guide`";
        assert!(written == guide, "docs/outputs.md is out of date; {how} writes its tables");
    }
}
