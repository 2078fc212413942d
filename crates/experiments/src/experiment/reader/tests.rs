use windward_core::network::{AqmConfig, QueueLimit};
use windward_core::protocols::PROTOCOLS;

use crate::ExperimentError;
use crate::experiment::{Deviation, Experiment, Margin, PlotKind, Point};
use crate::expression::Cell;
use crate::verdict::Verdict;

const SCENARIO: &str = r#"duration = "10s"
[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "20ms" }
[[flows]]
group = "clean"
protocol = "newreno"
[[flows]]
group = "lossy"
protocol = "newreno"
last_hop = { loss = 0.05 }
"#;

const EXPERIMENT: &str = r#"[experiment]
id = "mine"
title = "Mine"
quick = { repetitions = 2, duration = "5s" }
[[experiment.axes]]
name = "protocol"
key = "flows.*.protocol"
values = ["newreno", "sack"]
[[experiment.axes]]
name = "loss"
key = "flows.lossy.last_hop.loss"
values = [0.01, 0.05]
labels = ["1%", "5%"]
[experiment.metrics]
ratio = "goodput(lossy) / goodput(clean)"
[[experiment.plots]]
kind = "lines"
metrics = "ratio"
x = "loss"
[[experiment.claims]]
id = "C1"
claim = "sack helps"
expected = "ratio higher"
checks = ["ratio[sack, *] > ratio[newreno, *]", { any = ["ratio[sack, 1%] > 2", "ratio[sack, 5%] > 2"] }]
"#;

fn parse(experiment: &str) -> Result<Experiment, ExperimentError> {
    Experiment::parse("f.toml", &format!("{SCENARIO}{experiment}"))
}

fn error(from: &str, to: &str) -> String {
    assert!(EXPERIMENT.contains(from), "{from}");
    parse(&EXPERIMENT.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn a_whole_file_is_read() {
    let e = parse(EXPERIMENT).unwrap();
    assert_eq!((e.id.as_str(), e.cells()), ("mine", 4));
    assert_eq!(e.quick.repetitions, 2);
    assert_eq!(e.quick.duration.as_deref(), Some("5s"));
    assert_eq!(e.full.repetitions, 30);
    // The last axis runs fastest: 0 newreno 1%, 1 newreno 5%, 2 sack 1%, 3 sack 5%.
    assert_eq!(e.cell_name(2), "sack, 1%");
    let set = &e.points(3)[1].set;
    assert_eq!(set[0], ("flows.lossy.last_hop.loss".into(), "0.05".into()));
    assert_eq!(e.axes[1].points[0].quantity(), Some((1.0, "%")));
    assert_eq!(e.axes[0].points[0].quantity(), None);
    let PlotKind::Lines { x: 1, log: false, ref metrics } = e.plots[0].kind else {
        panic!("{:?}", e.plots[0].kind)
    };
    assert_eq!(metrics[..], [0]);
}

#[test]
fn a_star_stands_for_every_label_and_any_for_alternatives() {
    let e = parse(EXPERIMENT).unwrap();
    let checks = &e.claims[0].checks;
    assert_eq!(checks.len(), 3);
    assert_eq!(checks[0].any[0].0, "ratio[sack, 1%] > ratio[newreno, 1%]");
    assert_eq!(checks[1].any[0].0, "ratio[sack, 5%] > ratio[newreno, 5%]");
    assert_eq!(checks[2].any.len(), 2);
    let cell = checks[1].any[0].1.cells()[0];
    assert_eq!(e.find(cell), Ok((0, 3)));
}

#[test]
fn two_stars_spread_inside_functions_of_many() {
    let with =
        |check: &str| parse(&EXPERIMENT.replace("ratio[sack, *] > ratio[newreno, *]", check));
    let check = "mean(at_least(ratio[sack, **] / ratio[newreno, **], 1.5), 0) >= max(ratio[*, **])";
    let experiment = with(check).unwrap();
    let checks = &experiment.claims[0].checks;
    // One per protocol, and the two of `any`.
    assert_eq!(checks.len(), 3);
    let (text, comparison) = &checks[0].any[0];
    assert_eq!(text, &check.replace("[*, **]", "[newreno, **]"));
    // sack 1.0 over newreno 0.5 at 1 %, 0.6 over 0.5 at 5 %: (1 + 0 + 0) / 3 against 0.5.
    let value = |cell: &Cell| match (cell.labels[0].as_str(), cell.labels[1].as_str()) {
        ("newreno", _) => 0.5,
        (_, "1%") => 1.0,
        (_, "5%") => 0.6,
        other => panic!("{other:?}"),
    };
    assert_eq!(comparison.left.evaluate(&value), 1.0 / 3.0);
    assert_eq!(comparison.right.evaluate(&value), 0.5);
    // Each axis separately: (0.5 + 0.5 + 1 + 0.6) / 4.
    let all = with("mean(ratio[**, **]) > 0").unwrap();
    let all = all.claims[0].checks[0].any[0].1.left.evaluate(&value);
    assert!((all - 0.65).abs() < 1e-12, "{all}");
    let error = |check: &str| with(check).unwrap_err().to_string();
    assert!(
        error("ratio[sack, **] > 1")
            .ends_with("`**` stands inside `min(..)`, `max(..)` or `mean(..)`")
    );
    assert!(error("at_least(1) > 1").ends_with("`at_least(..)` takes 2 expressions"));
}

#[test]
fn errors_name_the_line_and_the_nearest_word() {
    // The scenario has 11 lines: [experiment] is line 12, `quick` 15, the metric 26, the
    // checks 35.
    let cases = [
        ("title =", "titel =", "f.toml:14: experiment.titel: unknown key", "did you mean `title`?"),
        ("title = \"Mine\"", "", "f.toml:12: experiment: `title` is missing", "write for instance"),
        ("quick =", "qick =", "f.toml:15: experiment.qick: unknown key", "did you mean `quick`?"),
        (
            "goodput(lossy)",
            "godput(lossy)",
            "f.toml:26: experiment.metrics.ratio = \"godput(lossy) / goodput(clean)\": ",
            "unknown function `godput`; did you mean `goodput`?",
        ),
        (
            "x = \"loss\"",
            "x = \"lost\"",
            "f.toml:30: experiment.plots[0].x = \"lost\": unknown axis",
            "did you mean `loss`?",
        ),
        (
            "ratio[newreno, *]\"",
            "ratio[newrenno, *]\"",
            "f.toml:35: experiment.claims[0].checks[0] = ",
            "`newrenno` in `ratio[newrenno, 1%]` is not a label of the axis `protocol`; \
             did you mean `newreno`?",
        ),
        (
            "values = [\"newreno\", \"sack\"]",
            "values = [\"newreno\", \"sack\"]\nlabels = [\"newreno\", \"CUBIC\"]",
            "f.toml:20: experiment.axes[0].labels = [..]: `cubic` is the name of a row",
            "choose another name",
        ),
        (
            "ratio[sack, 1%] > 2",
            "ratio[sack] > 2",
            "f.toml:35: experiment.claims[0].checks[1] = {..}: ",
            "`ratio[sack]` has 1 labels and `mine` 2 axes (protocol, loss)",
        ),
        (
            "repetitions = 2",
            "repetitions = 0",
            "f.toml:15: experiment.quick.repetitions = 0: ",
            "must lie between 1 and 1000000",
        ),
        (
            "labels = [\"1%\", \"5%\"]",
            "labels = [\"1%\"]",
            "f.toml:24: experiment.axes[1].labels = [..]: ",
            "1 labels for 2 values",
        ),
        (
            "id = \"mine\"",
            "id = \"../mine\"",
            "f.toml:13: experiment.id = \"../mine\": `id` names files",
            "use letters, digits, `-` and `_` only",
        ),
    ];
    for (from, to, place, words) in cases {
        let error = error(from, to);
        assert!(error.starts_with(place) && error.contains(words), "{error}");
    }
}

#[test]
fn labels_that_a_spreadsheet_or_a_terminal_would_obey_are_refused() {
    let label = |text: &str| {
        let labels = format!("labels = [\"{text}\", \"5%\"]");
        let text = EXPERIMENT.replace("labels = [\"1%\", \"5%\"]", &labels);
        parse(&text.replace("1%", "5%")).map(drop).map_err(|e| e.to_string())
    };
    for formula in ["=cmd()", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3(x)"] {
        let said = label(formula).unwrap_err();
        assert!(said.contains("a spreadsheet would compute the label"), "{said}");
    }
    for (written, shown) in [("two\\nlines", "two lines"), ("a\\ttab", "a tab")] {
        let said = label(written).unwrap_err();
        assert!(said.contains(&format!("the label `{shown}` has a line break")), "{said}");
    }
    let said = label("\\u001b[2J").unwrap_err();
    assert!(said.starts_with("f.toml:24: labels: has the invisible character U+001B"), "{said}");
    // A number with its sign is a number.
    let numbers = EXPERIMENT.replace("labels = [\"1%\", \"5%\"]", "labels = [\"-3 dB\", \"5%\"]");
    let numbers = numbers.replace("1%", "-3 dB");
    assert_eq!(parse(&numbers).unwrap().axes[1].points[0].label, "-3 dB");
}

#[test]
fn a_plain_scenario_is_not_an_experiment() {
    let error = parse("").unwrap_err().to_string();
    assert_eq!(
        error,
        "f.toml: no [experiment] table: this is a scenario, which `windward run` runs"
    );
    let error = parse("[[experiment]]\nid = \"x\"\n").unwrap_err().to_string();
    assert_eq!(error, "f.toml:12: experiment = [..]: write `experiment` as a table: [experiment]");
}

#[test]
fn an_axis_of_all_protocols_follows_the_table() {
    let all = EXPERIMENT.replace("[\"newreno\", \"sack\"]", "\"protocols\"");
    let e = parse(&all).unwrap();
    let labels: Vec<&str> = e.axes[0].points.iter().map(|p| p.label.as_str()).collect();
    let table: Vec<&str> = PROTOCOLS.iter().map(|p| p.name).collect();
    assert_eq!(labels, table);
    assert_eq!(e.axes[0].points[0].set, [("flows.*.protocol".to_owned(), table[0].to_owned())]);
}

#[test]
fn an_axis_of_all_aqms_follows_their_list() {
    let text = EXPERIMENT.replace("flows.*.protocol", "dumbbell.bottleneck.aqm");
    let text = text.replace("[sack", "[codel").replace("[newreno", "[pie");
    let points = |word: &str| {
        let e = parse(&text.replace("[\"newreno\", \"sack\"]", word)).unwrap();
        e.axes[0].points.iter().map(|p| (p.label.clone(), p.set[0].1.clone())).collect::<Vec<_>>()
    };
    let names = AqmConfig::forms().into_iter().map(|(words, _)| words.name);
    let plain = points("\"aqms\"");
    let but_droptail: Vec<&str> = names.clone().filter(|name| *name != "droptail").collect();
    assert!(plain.iter().all(|(label, value)| label == value), "{plain:?}");
    assert_eq!(plain.iter().map(|(label, _)| &**label).collect::<Vec<_>>(), but_droptail);
    let marking = points("\"queues\"");
    assert_eq!(marking.len(), names.count());
    assert!(marking.contains(&("codel".into(), "{ kind = \"codel\", ecn = true }".into())));
}

#[test]
fn labels_begin_with_numbers_as_people_write_them() {
    for (label, expected) in [
        ("5%", Some((5.0, "%"))),
        ("20 ms", Some((20.0, "ms"))),
        ("1e-8", Some((1e-8, ""))),
        ("2.5E+3 bit", Some((2500.0, "bit"))),
        ("5 each", Some((5.0, "each"))),
        ("2e", Some((2.0, "e"))),
        ("1e-", Some((1.0, "e-"))),
        ("east", None),
    ] {
        let point = Point { label: label.to_owned(), set: Vec::new() };
        assert_eq!(point.quantity(), expected, "{label}");
    }
}

#[test]
fn charts_refuse_what_they_cannot_draw() {
    let refused = |from: &str, text: &str, place: &str, words: &str| {
        let error = error(from, text);
        assert!(error.starts_with(place) && error.contains(words), "{error}");
    };
    let plot = |text: &str, place: &str, words: &str| {
        refused("x = \"loss\"", &format!("x = \"loss\"\n{text}"), place, words);
    };
    plot(
        "y_log = true\ny = [0, 1]",
        "f.toml:32: experiment.plots[0].y = [..]: ",
        "with `y_log` the bounds of `y` must be above zero",
    );
    plot("y = [1, 0]", "f.toml:31: ", "expected two numbers, the lower first");
    plot(
        "references = [{ curve = \"matis\" }]",
        "f.toml:31: experiment.plots[0].references[0].curve = \"matis\": unknown curve",
        "did you mean `mathis`?",
    );
    plot(
        "unit = \"%\"\nreferences = [{ curve = \"mathis\" }]",
        "f.toml:32: experiment.plots[0].references[0]: ",
        "a `curve` is a rate and has no place on an axis of %",
    );
    plot(
        "references = [{ y = 1, curve = \"mathis\" }]",
        "f.toml:31: experiment.plots[0].references[0].y: unknown key in a curve",
        "valid: label, curve, group, link",
    );
    plot(
        "single = true",
        "f.toml:31: experiment.plots[0].single: unknown key in a chart of the kind `lines`",
        "valid: x, metrics, log",
    );
    refused(
        "kind = \"lines\"\nmetrics = \"ratio\"\nx = \"loss\"",
        "kind = \"time\"\ngroups = \"lossy\"\nreferences = [{ curve = \"mathis\" }]",
        "f.toml:30: experiment.plots[0].references[0]: ",
        "a `curve` is for charts of metrics, not over time",
    );
}

/// The small experiment with a reading whose text is changed.
fn reading(change: impl Fn(String) -> String) -> Result<Experiment, ExperimentError> {
    let reading = r#"[[experiment.readings]]
name = "queue"
choice = "Queue"
values = [
    { label = "50", basis = "practice", source = "a book", set = { "dumbbell.bottleneck.queue" = "50p" } },
    { label = "20", basis = "rfc", source = "RFC 1", set = { "dumbbell.bottleneck.queue" = "20p" } },
]
"#;
    let reading = change(reading.to_owned());
    super::parse(
        "r.toml",
        &format!("{}{reading}", crate::testing::TEXT),
        &|from| match from {
            "shared.toml" => Ok(reading_file()),
            _ => {
                Err(ExperimentError::io("read", from.as_ref(), std::io::ErrorKind::NotFound.into()))
            }
        },
        None,
    )
}

fn reading_file() -> String {
    "[[readings]]\nname = \"tick\"\nchoice = \"Tick\"\nvalues = [\n{ label = \"a\", basis = \"fit\", \
     source = \"x\", set = {} },\n{ label = \"b\", basis = \"paper\", source = \"y\", set = { seed = 2 } \
     },\n]\n"
        .to_owned()
}

#[test]
fn readings_are_read_with_their_plain_value() {
    let experiment = reading(|text| text).unwrap();
    let [reading] = &experiment.readings[..] else { panic!("{:?}", experiment.readings) };
    assert_eq!((reading.plain_value().label.as_str(), reading.values.len()), ("20", 2));
    assert_eq!(reading.values[0].set, [("dumbbell.bottleneck.queue".into(), "50p".into())]);
    let shared = "[[experiment.readings]]\nfrom = \"shared.toml\"\nnames = \"tick\"\n".to_owned();
    let both = self::reading(|text| text + &shared).unwrap();
    assert_eq!(both.readings[1].plain_value().label, "b");
    // The content of the other file is part of the configuration.
    assert_ne!(experiment.revision.configuration_hash, both.revision.configuration_hash);
    // Also where two choices are taken from it.
    let twice = |shared: &str| {
        let text = EXPERIMENT.to_owned()
            + "[[experiment.readings]]\nfrom = \"shared.toml\"\nnames = \"tick\"\n"
            + "[[experiment.readings]]\nfrom = \"shared.toml\"\nnames = \"tock\"\n";
        let beside = |_: &str| {
            Ok(format!("{}{}{shared}", reading_file(), reading_file().replace("tick", "tock")))
        };
        super::parse("r.toml", &format!("{SCENARIO}{text}"), &beside, None)
            .unwrap()
            .revision
            .configuration_hash
    };
    assert_ne!(twice(""), twice("# Another.\n"));
}

#[test]
fn readings_that_make_no_sense_are_refused_with_the_line() {
    let error = |from: &str, to: &str| {
        let changed = reading(|text| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        changed.unwrap_err().to_string()
    };
    for (from, to, said) in [
        ("source = \"a book\"", "source = \" \"", "`source` is empty: say where the value comes"),
        (", source = \"a book\"", "", "`source` is missing"),
        ("basis = \"rfc\"", "basis = \"rfd\"", "unknown basis\n  help: did you mean `rfc`?"),
        ("label = \"20\"", "label = \"50\"", "the reading has two values `50`"),
        ("\"20p\"", "\"50p\"", "`20` sets the same as `50`"),
        ("name = \"queue\"", "name = \"a queue\"", "letters, digits, `-` and `_` only"),
        ("name = \"queue\"", "name = \"-queue\"", "a letter first"),
        ("choice", "chioce", "did you mean `choice`?"),
        (", set = { \"dumbbell.bottleneck.queue\" = \"20p\" }", "", "`set` is missing"),
        (
            "{ label = \"50\", basis = \"practice\", source = \"a book\", set = { \
          \"dumbbell.bottleneck.queue\" = \"50p\" } },",
            "",
            "a choice is one between 2 or more",
        ),
    ] {
        let text = error(from, to);
        assert!(text.starts_with("r.toml:") && text.contains(said), "{from}: {text}");
    }
    let add = |more: &str| reading(|text| text + more).unwrap_err().to_string();
    let from = |file: &str, name: &str| {
        add(&format!("[[experiment.readings]]\nfrom = \"{file}\"\nnames = [\"{name}\"]\n"))
    };
    let twice = reading(|text| text.clone() + &text).unwrap_err().to_string();
    assert!(twice.contains("there are two readings `queue`"), "{twice}");
    assert!(
        from("shared.toml", "tock")
            .contains("no reading `tock` in shared.toml\n  help: did you mean")
    );
    assert!(from("nowhere.toml", "tick").contains("nowhere.toml: cannot read"));
    let unnamed = add("[[experiment.readings]]\nfrom = \"shared.toml\"\n");
    assert!(unnamed.contains("`names` is missing"), "{unnamed}");
}

#[test]
fn a_reading_may_scale_what_an_axis_sets() {
    let with = |key: &str, scale: &str| {
        let values = format!(
            "{{ label = \"as printed\", basis = \"paper\", source = \"x\", set = {{}} }}, \
             {{ label = \"tenfold\", basis = \"fit\", source = \"y\", set = {{}}, \
             scale = {{ {scale} }} }}"
        );
        let reading = format!(
            "[[experiment.readings]]\nname = \"scale\"\nchoice = \"Unit\"\nvalues = [{values}]\n"
        );
        let text = crate::testing::TEXT.replace("key = \"dumbbell.bottleneck.rate\"", key);
        Experiment::parse("r.toml", &format!("{text}{reading}"))
    };
    let (key, scale) = ("key = \"dumbbell.bottleneck.rate\"", "\"dumbbell.bottleneck.rate\" = 10");
    let experiment = with(key, scale).unwrap();
    let rate = |deviation: &Deviation| {
        // The second rate of the first protocol.
        let scenario = experiment.scenario(1, &experiment.quick, deviation).unwrap();
        scenario.links[scenario.flows[0].bottleneck].kind.rate.mean().as_bps()
    };
    assert_eq!(rate(&Deviation::PLAIN), 2_000_000);
    // The label is still that of the paper.
    assert_eq!(experiment.cell_name(1), "newreno, 2 Mbit");
    assert_eq!(rate(&Deviation::one("scale", "tenfold")), 20_000_000);
    for (scale, said) in [
        ("\"dumbbell.bottleneck.rat\" = 10", "no axis sets `dumbbell.bottleneck.rat`"),
        (
            "\"flows.*.protocol\" = 10",
            "`newreno` of `flows.*.protocol` begins with no number to scale",
        ),
        ("\"dumbbell.bottleneck.rate\" = 0", "must be more than 0"),
        ("\"dumbbell.bottleneck.rate\" = \"ten\"", "expected a number"),
        ("dumbbell.bottleneck.rate = 10", "put the dotted key `dumbbell` in quotes"),
        ("", "`tenfold` sets the same as `as printed`"),
    ] {
        let error = with(key, scale).unwrap_err().to_string();
        assert!(error.starts_with("r.toml:") && error.contains(said), "{scale}: {error}");
    }
}

#[test]
fn a_reading_may_set_more_at_one_label() {
    let with = |at: &str| {
        let more =
            format!("set = {{ \"dumbbell.bottleneck.queue\" = \"20p\" }}, at = {{ {at} }} }}");
        reading(|text| text.replace("set = { \"dumbbell.bottleneck.queue\" = \"20p\" } }", &more))
    };
    let queue = "\"dumbbell.bottleneck.queue\"";
    let experiment = with(&format!("sack = {{ {queue} = \"30p\" }}")).unwrap();
    let limit = |cell| {
        let scenario = experiment.scenario(cell, &experiment.quick, &Deviation::PLAIN).unwrap();
        scenario.links[scenario.flows[0].bottleneck].kind.queue.limit
    };
    // newreno at its first rate, and sack at its first.
    assert_eq!(limit(0), QueueLimit::Packets(20));
    assert_eq!(limit(3), QueueLimit::Packets(30));
    for (at, said) in [
        (
            format!("sock = {{ {queue} = \"30p\" }}"),
            "no axis has the label `sock` of `at`; did you mean `sack`?",
        ),
        ("sack = 3".to_owned(), "expected a table"),
    ] {
        let error = with(&at).unwrap_err().to_string();
        assert!(error.starts_with("r.toml:") && error.contains(said), "{error}");
    }
}

#[test]
fn an_explanation_names_a_check_of_its_claim_and_cells_of_its_tables() {
    let with = |keys: &str| {
        let text = crate::testing::TEXT.replace("id = \"C1\"", &format!("id = \"C1\"\n{keys}"));
        let text = text.lines().filter(|line| !line.starts_with("explanation = \"why\""));
        Experiment::parse("r.toml", &text.collect::<Vec<_>>().join("\n"))
    };
    let check = &with("").unwrap().claims[0].checks[0].any[0].0.clone();
    let cell = check.split(['>', '<']).next().unwrap().trim();
    let text = format!("explanation = \"It has {{{cell}}}.\"\n");
    let read = with(&format!("{text}explains = [\"{check}\"]")).unwrap();
    let explanation = read.claims[0].explanation.as_ref().unwrap();
    assert_eq!(explanation.explains[0], *check);
    assert_eq!(explanation.text(|_| None), "It has \u{2026}.");
    for (keys, said) in [
        (format!("{text}explains = [\"{check} + 1\"]"), "the claim has no such check"),
        (format!("explains = [\"{check}\"]"), "`explains` needs an `explanation`"),
        ("explanation = \"{nothing[a]}\"".to_owned(), "unknown metric `nothing`"),
        ("explanation = \"{clean[\"".to_owned(), "`{` without its `}`"),
        ("explanation = \"{1 +}\"".to_owned(), "expected a number, a name"),
    ] {
        let error = with(&keys).unwrap_err().to_string();
        assert!(error.starts_with("r.toml:") && error.contains(said), "{keys}: {error}");
    }
}

#[test]
fn a_changed_plain_value_names_its_edition() {
    let with =
        |keys: &str| reading(|text| text.replace("choice = ", &format!("{keys}\nchoice = ")));
    let changed = &with("edition = 3\nformerly = \"50; C1 not held\"").unwrap().readings[0];
    assert_eq!((changed.edition, changed.formerly.as_deref()), (3, Some("50; C1 not held")));
    for (keys, said) in [
        ("formerly = \"50\"", "a plain value changes in a later edition"),
        ("edition = 0", "must lie between 1 and"),
    ] {
        let error = with(keys).unwrap_err().to_string();
        assert!(error.starts_with("r.toml:") && error.contains(said), "{keys}: {error}");
    }
}

#[test]
fn a_changed_check_says_what_it_was_and_quotes_the_paper() {
    let with = |keys: &str| {
        let text = crate::testing::TEXT.replace("id = \"C1\"", &format!("id = \"C1\"\n{keys}"));
        Experiment::parse("r.toml", &text)
    };
    let quote = "quote = \"faster\"\nplace = \"section 1\"\n";
    let changed = "changed = \"It asked for more than the sentence.\"\n";
    let before = "before = \"`clean > 0`\"\n";
    let verdict = "verdict_before = \"not held\"\n";
    let all = format!("edition = 3\nrewritten = 2\n{before}{verdict}{changed}{quote}");
    let history = &with(&all).unwrap().claims[0].history;
    assert_eq!((history.edition, history.rewritten), (3, 2));
    assert_eq!(history.verdict_before, Some(Verdict::NotHeld));
    assert_eq!(history.before.as_deref(), Some("`clean > 0`"));
    assert_eq!(history.place.as_deref(), Some("section 1"));
    // Another plain value does not ask for another sentence.
    with(&format!("{before}{verdict}{changed}")).unwrap();
    for (keys, said) in [
        (all.replace("edition = 3", ""), "the checks of edition 1 are the first"),
        (all.replace(before, ""), "`before` is missing"),
        (all.replace(verdict, ""), "`verdict_before` is missing"),
        (all.replace("not held", "bad"), "\"bad\": unknown word"),
        (all.replace(changed, ""), "`changed` is missing"),
        (all.replace(quote, ""), "`quote` is missing"),
        (verdict.to_owned(), "only a claim that has changed"),
        (changed.to_owned(), "`before` is missing"),
        ("quote = \"faster\"".to_owned(), "`place` is missing"),
        ("place = \"section 1\"".to_owned(), "`quote` is missing"),
    ] {
        let error = with(&keys).unwrap_err().to_string();
        assert!(error.starts_with("r.toml:") && error.contains(said), "{keys}: {error}");
    }
}

#[test]
fn readings_of_another_file_may_not_say_anything_to_a_terminal_either() {
    let error = |from: &str, to: &str| {
        let text = reading_file();
        assert!(text.contains(from), "{from}");
        let shared = text.replacen(from, to, 1);
        let more = "[[experiment.readings]]\nfrom = \"shared.toml\"\nnames = \"tick\"\n";
        let text = format!("{SCENARIO}{EXPERIMENT}{more}");
        super::parse("r.toml", &text, &|_| Ok(shared.clone()), None).unwrap_err().to_string()
    };
    for (from, to, said) in [
        ("choice = \"Tick\"", "choice = \"\\u001b[2J\"", "shared.toml:3: choice: has the"),
        ("source = \"x\"", "source = \"\\u0007\"", "shared.toml:5: source: has the"),
        ("set = {}", "set = { seed = [\"\\u009b\"] }", "shared.toml:5: seed: has the"),
        ("set = {}", "set = { \"\\u001b\" = 1 }", "shared.toml:5: \\u{1b}: has the"),
    ] {
        let text = error(from, to);
        assert!(text.starts_with(&format!("{said} invisible character U+00")), "{text}");
    }
}

#[test]
fn reported_numbers_name_cells_that_exist_and_have_one_value() {
    let with = |body: &str| {
        let text = format!("{}[[experiment.reported]]\n{body}\n", crate::testing::TEXT);
        Experiment::parse("r.toml", &text)
    };
    let rest = "source = \"section 1\"\ntext = \"about one\"";
    let good = with(&format!("value = \"clean[sack, 1 Mbit]\"\nrange = [1, 2]\n{rest}")).unwrap();
    assert_eq!(good.reported[0].range, (1.0, 2.0));
    for (body, said) in [
        ("value = \"clean[sock, 1 Mbit]\"\nnumber = 1", "`sock` in `clean[sock, 1 Mbit]`"),
        ("value = \"clean[sack, 1 Mbit]\"", "either a `number` or a `range`"),
        ("value = \"clean[sack, 1 Mbit]\"\nnumber = 1\nrange = [1, 2]", "either a `number`"),
        ("number = 1", "`value` is missing"),
    ] {
        let error = with(&format!("{body}\n{rest}")).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_tie_has_a_margin_above_zero_and_repetitions_an_end_behind_them() {
    let with =
        |from: &str, to: &str| Experiment::parse("r.toml", &crate::testing::TEXT.replace(from, to));
    let check = "\"clean[newreno, 2 Mbit] > clean[newreno, 1 Mbit]\"";
    for (tie, margin) in [
        ("0.5", Margin::Absolute(0.5)),
        ("\"3 %\"", Margin::Share(0.03)),
        ("2", Margin::Absolute(2.0)),
    ] {
        let experiment = with(check, &format!("{{ check = {check}, tie = {tie} }}")).unwrap();
        assert_eq!(experiment.claims[0].checks[0].tie, Some(margin));
    }
    for tie in ["0", "-1", "\"-3%\"", "\"wide\"", "true", "[0.1, 0.2]", "[]"] {
        let error = with(check, &format!("{{ check = {check}, tie = {tie} }}")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(".tie = ") && error.contains("must be a number above zero"));
    }
    let error = with("repetitions = 3", "repetitions = 3, at_most = 2").unwrap_err().to_string();
    assert!(error.contains("`at_most` (2) is below the 3 `repetitions`"), "{error}");
}
