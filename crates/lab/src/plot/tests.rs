use std::sync::atomic::AtomicBool;

use super::*;
use crate::experiment::Effort;
use crate::testing::{options, results};

#[test]
fn every_kind_of_chart_draws_what_it_should() {
    let results = results(1);
    let charts = charts(&results);
    let sizes: Vec<usize> = charts.iter().map(|c| c.panels.len()).collect();
    // Time: one panel for each protocol at 1 Mbit.
    assert_eq!(sizes, [1, 1, 2]);
    let lines = &charts[0].panels[0];
    // One polyline and one band a series, three markers each and one in its label.
    assert_eq!(lines.matches("<polyline").count(), 2);
    assert_eq!(lines.matches("<polygon").count(), 2);
    let newreno = protocol_style("newreno").unwrap();
    assert!(lines.contains(newreno.color), "{}", newreno.color);
    for text in [">sack<", ">newreno<", ">Rate (Mbit)<", ">clean (Mbit/s)<", ">three<", ">4<"] {
        assert!(lines.contains(text), "{text}\n{lines}");
    }
    let dots = &charts[1].panels[0];
    assert_eq!(dots.matches("<polyline").count(), 0);
    assert!(charts[2].panels[1].contains(">sack, 1 Mbit<"));
    let whole = stacked(&charts).unwrap();
    assert!(whole.contains("viewBox=\"0 0 640 1600\""), "four panels of 400");
    let open = whole.matches("<svg").count();
    assert_eq!(open, whole.matches("</svg>").count());
    assert!(!whole.contains("NaN"));
}

const TRACED: &str = r#"
duration = "4s"
sample = "100ms"
bin = "500ms"
flow_bins = true
[dumbbell]
bottleneck = { rate = "1Mbit", delay = "20ms", queue = "20p" }
access = { rate = "10Mbit", delay = "5ms" }
[[flows]]
group = "tcp"
count = 2
protocol = "newreno"
[experiment]
id = "traced"
title = "Traced"
quick = { repetitions = 2 }
[[experiment.axes]]
name = "protocol"
key = "flows.tcp.protocol"
values = ["newreno", "sack"]
[[experiment.axes]]
name = "ber"
key = "dumbbell.bottleneck.ber"
values = ["0", "1e-8", "1e-6"]
[experiment.metrics]
goodput = "goodput(tcp)"
[[experiment.plots]]
kind = "lines"
metrics = "goodput"
x = "ber"
log = true
y_log = true
unit = "kbit/s"
references = [{ curve = "capacity" }, { curve = "mathis", label = "theory" }, { y = 900, label = "level" }]
[[experiment.plots]]
kind = "cwnd"
groups = "tcp"
single = true
only = { ber = "0" }
[[experiment.plots]]
kind = "queue"
links = ["bottleneck", "bottleneck-reverse"]
single = true
only = { ber = "0" }
[[experiment.plots]]
kind = "time"
flows = true
groups = "tcp"
only = { ber = "0", protocol = "sack" }
"#;

fn traced_experiment(from: &str, to: &str) -> Experiment {
    assert!(TRACED.contains(from), "{from}");
    Experiment::parse("traced.toml", &TRACED.replacen(from, to, 1)).unwrap()
}

#[test]
fn samples_and_theory_are_drawn() {
    let plan = traced_experiment("", "").plan(&Effort::Quick).unwrap();
    let cancel = AtomicBool::new(false);
    let results = plan.run(&options(2, &cancel)).unwrap();
    let charts = charts(&results);
    let sizes: Vec<usize> = charts.iter().map(|c| c.panels.len()).collect();
    assert_eq!(sizes, [1, 2, 2, 1]);
    // Two protocols and two curves, the same for both protocols; a level is no polyline.
    let lines = &charts[0].panels[0];
    assert_eq!(lines.matches("<polyline").count(), 4, "{lines}");
    for text in [">1e-8<", ">1e-6<", ">capacity<", ">theory<", ">level<", ">1000<"] {
        assert!(lines.contains(text), "{text}\n{lines}");
    }
    assert!(!lines.contains(">0<"), "zero has no place on a logarithmic axis\n{lines}");
    for (chart, labels) in [
        (1, ["tcp-1", "tcp-2"]),
        (2, ["bottleneck", "bottleneck-reverse"]),
        (3, ["tcp-1", "tcp-2"]),
    ] {
        let panel = &charts[chart].panels[0];
        assert_eq!(panel.matches("<polyline").count(), 2, "{panel}");
        assert!(labels.iter().all(|l| panel.contains(&format!(">{l}<"))), "{panel}");
        assert!(!panel.contains("NaN"));
    }
    // Charts of the first seed alone: the samples of the second are not kept.
    let kept: Vec<bool> =
        results.cell_runs(0).iter().map(|r| r.outcome.samples.is_some()).collect();
    assert_eq!(kept, [true, false]);
    // 6 cells, and 0, 0.1 .. 4 s.
    let table = results.sample_table();
    assert_eq!(table.rows(), 6 * 41);
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    let [.., first, _, queue, _] = names[..] else { panic!("{names:?}") };
    assert_eq!((first, queue), ("tcp-1.cwnd_packets", "bottleneck.queue_packets"));
}

#[test]
fn charts_of_what_is_not_recorded_are_errors() {
    let error = |from: &str, to: &str| {
        traced_experiment(from, to).plan(&Effort::Quick).unwrap_err().to_string()
    };
    assert_eq!(
        error("sample = \"100ms\"\n", "\n"),
        "traced.toml:35: the chart draws samples and the scenario has none: add for instance \
         `sample = \"100ms\"`"
    );
    let flows = error("flow_bins = true", "flow_bins = false");
    assert!(flows.contains("add `flow_bins = true`"), "{flows}");
    let link = error("links = [\"bottleneck\",", "links = [\"bottelneck\",");
    assert!(link.contains("no link `bottelneck` to draw; did you mean `bottleneck`?"), "{link}");
    let group = error("{ curve = \"capacity\" }", "{ curve = \"capacity\", group = \"udp\" }");
    assert!(group.contains("`capacity`: no group `udp` of connections"), "{group}");
}
