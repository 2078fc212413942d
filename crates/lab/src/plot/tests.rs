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

#[test]
fn curves_go_with_a_delay_axis_and_are_named_by_what_differs() {
    let text = TRACED
        .replace("name = \"ber\"\nkey = \"dumbbell.bottleneck.ber\"", "name = \"delay\"\nkey = \"dumbbell.bottleneck.delay\"")
        .replace("values = [\"0\", \"1e-8\", \"1e-6\"]", "values = [\"300 ms\", \"500 ms\"]")
        .replace("x = \"ber\"\nlog = true", "x = \"delay\"")
        .replace("only = { ber = \"0\"", "only = { delay = \"300 ms\"")
        .replace("[experiment.metrics]", "[[experiment.axes]]\nname = \"loss\"\nkey = \"dumbbell.bottleneck.loss\"\nvalues = [\"1%\", \"4%\"]\n[experiment.metrics]");
    let plan = Experiment::parse("traced.toml", &text).unwrap().plan(&Effort::Quick).unwrap();
    let cancel = AtomicBool::new(false);
    let results = plan.run(&options(2, &cancel)).unwrap();
    let spec = &results.plan.experiment.plots[0];
    let PlotKind::Lines { x, log, metrics } = &spec.kind else { panic!("{:?}", spec.kind) };
    let panel = cells(&results, spec, *x, metrics, Some(*log));
    let curves: Vec<(&str, Vec<f64>)> = panel
        .references
        .iter()
        .filter_map(|guide| match guide {
            Guide::Curve(points, label) => {
                Some((label.as_str(), points.iter().map(|p| p.1).collect()))
            }
            Guide::Level(..) => None,
        })
        .collect();
    // RTT: 2 (5 + 300 + 5) ms of propagation, 0.8 + 8 + 0.8 ms for 1000 bytes there, 0.032 + 0.32
    // + 0.032 ms for 40 bytes back: 629.984 ms, and 1029.984 ms. Two flows of sqrt(1.5 / 0.01)
    // packets of 8 kbit: 195.959 kbit; at 4 % half of it. The same for both protocols.
    let expected: [(&str, [f64; 2]); 4] = [
        ("capacity, 1%", [990.0, 990.0]),
        ("capacity, 4%", [960.0, 960.0]),
        ("theory, 1%", [311.054, 190.255]),
        ("theory, 4%", [155.527, 95.127]),
    ];
    assert_eq!(curves.len(), expected.len(), "{curves:?}");
    for ((label, points), (name, by_hand)) in curves.iter().zip(&expected) {
        assert_eq!(label, name);
        let near = |(a, b): (&f64, &f64)| (a / b - 1.0).abs() < 1e-4;
        assert!(
            points.len() == 2 && points.iter().zip(by_hand).all(near),
            "{points:?} {by_hand:?}"
        );
    }
}
