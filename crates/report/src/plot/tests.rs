use std::sync::atomic::AtomicBool;

use windward_experiments::experiment::Effort;
use windward_experiments::experiment::ns2::Ns2;
use windward_experiments::expression::Expression;
use windward_experiments::sweep::{InWorld, Run};
use windward_experiments::testing::{options, results};

use super::*;

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
    assert!(lines.contains(&newreno.color.to_string()), "{}", newreno.color);
    for text in [">sack<", ">newreno<", ">Rate (Mbit)<", ">clean (Mbit/s)<", ">three<", ">4<"] {
        assert!(lines.contains(text), "{text}\n{lines}");
    }
    let dots = &charts[1].panels[0];
    assert_eq!(dots.matches("<polyline").count(), 0);
    assert!(charts[2].panels[1].contains(">sack, 1 Mbit<"));
    let whole = stacked(&charts).unwrap();
    let heights = charts.iter().flat_map(|c| &c.panels).map(|panel| {
        let (_, rest) = panel.split_once("viewBox=\"0 0 400 ").unwrap();
        rest.split_once('"').unwrap().0.parse::<u32>().unwrap()
    });
    let sum = format!("viewBox=\"0 0 400 {}\"", heights.sum::<u32>());
    assert!(whole.contains(&sum), "{sum}");
    let open = whole.matches("<svg").count();
    assert_eq!(open, whole.matches("</svg>").count());
    assert!(!whole.contains("NaN"));
}

#[test]
fn worlds_share_their_axes_and_empty_charts_are_left_out() {
    let results = results(1);
    let plain = drawings(&results);
    // The same experiment at a third of each value, and only at the cells of newreno.
    let mut rows: Vec<Vec<Vec<f64>>> = Vec::new();
    for cell in 0..results.plan.experiment.cells() {
        let third = |run: &Run| run.metrics.iter().map(|x| x / 3.0).collect();
        let runs = results.cell_runs(cell).iter().filter(|_| cell < 3);
        rows.push(runs.map(third).collect());
    }
    let runs = vec![Vec::new(); rows.len()];
    let other = drawings(&InWorld { plan: results.plan.clone(), rows, runs });
    let own = (plain[0].panels[0].y_bounds(), other[0].panels[0].y_bounds());
    assert!(own.0.1 > own.1.1, "{own:?}");
    let mut worlds = [plain, other];
    align(&mut worlds);
    let [plain, other] = &worlds;
    assert_eq!(plain[0].panels[0].y_bounds(), other[0].panels[0].y_bounds());
    assert_eq!(plain[0].panels[0].y_bounds().1, own.0.1);
    // Nothing over time was measured there.
    assert_eq!((plain[2].panels.len(), other[2].panels.len()), (2, 0));
    let svg = &other[0].chart().panels[0];
    assert!(svg.contains("newreno") && !svg.contains(">sack<"), "{svg}");
}

#[test]
fn bands_end_at_the_rate_of_the_link() {
    let results = results(1);
    let scenario = &results.plan.scenarios[0];
    let bounds = |text: &str| {
        let metric = Expression::<Measure>::parse(text).unwrap();
        metric.bounds(&|measure| measure.bounds_in(scenario))
    };
    // The first cell has a bottleneck of 1 Mbit/s.
    assert_eq!(bounds("goodput(clean) + throughput(lossy)"), (0.0, 2e6));
    assert_eq!(bounds("timeouts(clean)").1, f64::INFINITY);
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
    // Two protocols and two curves, the same for both protocols; a constant is not a polyline.
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
    // In a world in which nothing was measured nothing is drawn.
    let nothing = || vec![Vec::new(); results.plan.scenarios.len()];
    let empty = InWorld { plan: results.plan.clone(), rows: nothing(), runs: vec![Vec::new(); 6] };
    assert!(drawings(&empty).iter().all(Drawing::is_empty));
    // 6 cells, and 0, 0.1 .. 4 s.
    let table = results.sample_table();
    assert_eq!(table.rows(), 6 * 41);
    let names: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
    let [.., first, _, queue, _] = names[..] else { panic!("{names:?}") };
    assert_eq!((first, queue), ("tcp-1.cwnd_packets", "bottleneck.queue_packets"));
}

#[test]
fn charts_without_recorded_data_are_errors() {
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
        .filter_map(|guide| match &guide.line {
            GuideLine::Curve(points) => {
                Some((guide.label.as_str(), points.iter().map(|p| p.1).collect()))
            }
            GuideLine::Level(_) => None,
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

/// The panel of a chart of cells, and the labels of its series.
fn cells_panel(results: &Results, plot: usize) -> Panel {
    let spec = &results.plan.experiment.plots[plot];
    match &spec.kind {
        PlotKind::Lines { x, log, metrics } => cells(results, spec, *x, metrics, Some(*log)),
        PlotKind::Dots { x, metrics } => cells(results, spec, *x, metrics, None),
        PlotKind::Time { .. } => panic!("over time"),
    }
}

fn results_of(text: &str) -> Results {
    let plan = Experiment::parse("mine.toml", text).unwrap().plan(&Effort::Quick).unwrap();
    let cancel = AtomicBool::new(false);
    let fake = &windward_experiments::testing::fake;
    windward_experiments::campaign::measure(vec![plan], &options(1, &cancel), fake)
        .unwrap()
        .remove(0)
}

#[test]
fn protocols_stand_in_the_order_of_the_table_with_their_own_looks() {
    let text = windward_experiments::testing::TEXT
        .replace("[\"newreno\", \"sack\"]", "[\"cubic\", \"sack\", \"newreno\"]");
    let results = results_of(&text);
    let order = ["newreno", "sack", "cubic"];
    let lines = cells_panel(&results, 0);
    let labels: Vec<&str> = lines.series.iter().map(|s| s.label.as_str()).collect();
    assert_eq!(labels, order);
    assert!(lines.series.iter().all(|s| Some(s.style) == protocol_style(&s.label)));
    let dots = cells_panel(&results, 1);
    let Scale::Words(words) = &dots.x else { panic!("{:?}", dots.x) };
    assert_eq!(words.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), order);
    // The series are rates: none of them has the colour of a protocol.
    assert_eq!(dots.series.len(), 3);
    let of_protocol =
        |s: &Series| order.iter().any(|p| protocol_style(p).unwrap().color == s.style.color);
    assert!(!dots.series.iter().any(of_protocol));
}

#[test]
fn a_name_has_one_look_in_all_panels_over_time() {
    let text = windward_experiments::testing::TEXT
        .replacen("protocol = \"newreno\"", "protocol = \"cubic\"", 1)
        .replace("key = \"flows.*.protocol\"", "key = \"flows.lossy.protocol\"");
    let results = results_of(&text);
    let charts = |results: &Results| {
        let spec = &results.plan.experiment.plots[2];
        time(results, spec, Traced::Throughput, &["clean".to_owned(), "lossy".to_owned()], false)
    };
    let panels = charts(&results);
    // `clean` is cubic in both. `lossy` is newreno and then sack: it looks like neither, and the
    // same in both.
    for panel in &panels {
        let looks: Vec<(&str, Style)> =
            panel.series.iter().map(|s| (s.label.as_str(), s.style)).collect();
        let cubic = protocol_style("cubic").unwrap();
        assert_eq!(looks, [("clean", cubic), ("lossy", crate::palette::style(0, 1))]);
    }
    // Both are newreno and then sack: hues of no protocol, each the same in both panels.
    let panels = charts(&results_of(windward_experiments::testing::TEXT));
    assert_eq!(panels.len(), 2);
    for panel in &panels {
        let looks: Vec<(&str, Style)> =
            panel.series.iter().map(|s| (s.label.as_str(), s.style)).collect();
        let [first, second] = [0, 1].map(|n| crate::palette::style(n, 2));
        assert_eq!(looks, [("clean", first), ("lossy", second)]);
    }
    // Of one protocol: shades of its colour.
    let own = protocol_style("newreno").unwrap();
    assert_eq!(styles(&[Some(own), Some(own)]), [own, own.variant(1)]);
}

const REPORTED: &str = r#"
[[experiment.reported]]
value = "clean[sack, 2 Mbit]"
number = 6e6
source = "section 1"
text = "six"
[[experiment.reported]]
value = "mine:clean[newreno, 4 Mbit]"
range = [1e6, 2e6]
source = "section 1"
text = "one to two"
[[experiment.reported]]
value = "clean[sack, 2 Mbit] / clean[sack, 1 Mbit]"
number = 2
source = "section 1"
text = "twice"
"#;

#[test]
fn numbers_of_the_text_are_drawn_where_their_cell_is() {
    let results = results_of(&format!("{}{REPORTED}", windward_experiments::testing::TEXT));
    let lines = cells_panel(&results, 0);
    // In Mbit/s, sack second; the ratio is of no single cell.
    assert_eq!(
        lines.reported,
        [
            Reported { by: Reporter::Paper, series: 1, x: 2.0, low: 6.0, high: 6.0 },
            Reported { by: Reporter::Paper, series: 0, x: 4.0, low: 1.0, high: 2.0 },
        ]
    );
    let svg = lines.svg();
    assert_eq!(svg.matches(panel::PAPER).count(), 1);
    // 6 is above the measured values, at most 4: the last tick is 6.
    assert!(svg.contains(">6<"), "{svg}");
    // The other chart shows another metric.
    let dots = cells_panel(&results, 1);
    assert!(dots.reported.is_empty() && !dots.svg().contains(panel::PAPER));
    // A chart of the other cells does not show these.
    let only = "unit = \"Mbit/s\"\nonly = { protocol = \"newreno\" }";
    let text = windward_experiments::testing::TEXT.replacen("unit = \"Mbit/s\"", only, 1);
    let fewer = cells_panel(&results_of(&format!("{text}{REPORTED}")), 0);
    assert_eq!(
        fewer.reported,
        [Reported { by: Reporter::Paper, series: 0, x: 4.0, low: 1.0, high: 2.0 }]
    );
}

#[test]
fn means_in_ns2_are_drawn_where_their_cell_is() {
    let text = "version = \"2.35\"\ndate = \"2026-11-29\"\nscript = \"s\"\nplain = {}\n\
                [[cells]]\nexperiment = \"mine\"\nvalue = \"clean[sack, 2 Mbit]\"\n\
                mean = 3e6\nlow = 2e6\nhigh = 4e6\nseeds = 8\n";
    let mut results = results(1);
    results.plan.experiment.ns2 = Ns2::parse("ns2.toml", text).unwrap();
    let mark = Reported { by: Reporter::Ns2, series: 1, x: 2.0, low: 3.0, high: 3.0 };
    assert_eq!(cells_panel(&results, 0).reported, [mark]);
    assert!(cells_panel(&results, 1).reported.is_empty());
}

#[test]
fn intervals_end_where_values_do() {
    let e = Estimate { mean: 0.99, low: 0.95, high: 1.03 };
    // A share in per cent.
    let cut = mark(0.0, e, 100.0, (0.0, 100.0));
    assert_eq!((cut.low, cut.high), (95.0, 100.0));
    let below = Estimate { mean: 1.0, low: -2.0, high: 4.0 };
    let cut = mark(0.0, below, 1.0, (0.0, f64::INFINITY));
    assert_eq!((cut.low, cut.high), (0.0, 4.0));
    // One run has no interval.
    let one = Estimate { mean: 1.0, low: f64::NEG_INFINITY, high: f64::INFINITY };
    assert_eq!(mark(0.0, one, 1.0, (0.0, 2.0)).high, f64::INFINITY);
    let utilization = windward_experiments::testing::TEXT
        .replace("clean = \"throughput(clean)\"", "clean = \"utilization(bottleneck)\"")
        .replace("unit = \"Mbit/s\"", "unit = \"%\"");
    assert_eq!(cells_panel(&results_of(&utilization), 0).possible, (0.0, 100.0));
}
