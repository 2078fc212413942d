use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use windward_core::protocols;
use windward_experiments::ExperimentError;
use windward_experiments::experiment::{Deviation, Effort, Experiment, Subject, Unit};
use windward_experiments::sweep::{RunOptions, simulate};
use windward_experiments::testing::options;
use windward_report::{ReportOptions, reproduce_with};
use windward_sim::{Outcome, Scenario};

use super::*;

/// A suite of one experiment that takes milliseconds, whose text follows.
const SUITE: &str = r#"
[suite]
id = "small"
title = "A small suite"
source = "Nobody's standard"
standards = ["newreno"]
against = ["cubic"]
experiments = ["one.toml"]
[[suite.chapters]]
key = "all"
title = "All of it"
section = "1"
[[suite.criteria]]
id = "busy"
section = "1.1"
title = "Busy"
asks = "Keeps the link busy."
chapter = "all"
general = true
[[suite.criteria]]
id = "talk"
section = "1.2"
title = "Talk"
asks = "Nothing that can be measured."
chapter = "all"
discuss = "Say it."
[[suite.known]]
subject = "cubic"
claim = "much"
holds = true
says = "It carries something"
source = "Anybody"
"#;

const ONE: &str = r#"
duration = "4s"
seed = 1
[[links]]
name = "link"
from = "a"
to = "b"
rate = "2Mbit"
delay = "10ms"
queue = "10p"
router = "none"
[[flows]]
group = "flow"
protocol = "newreno"
from = "a"
to = "b"
[[flows]]
group = "other"
protocol = "newreno"
from = "a"
to = "b"
[experiment]
id = "one"
title = "One"
quick = { repetitions = 3, at_most = 4 }
[[experiment.axes]]
name = "controller"
key = "flows.flow.protocol"
values = "subjects"
[[experiment.axes]]
name = "beside"
key = "flows.other.protocol"
values = "against"
[experiment.metrics]
busy = "utilization(link)"
[[experiment.plots]]
kind = "dots"
metrics = "busy"
x = "controller"
unit = "%"
y_title = "Load"
[[experiment.claims]]
id = "much"
criterion = "busy"
claim = "Carries something."
expected = "A tenth of the link."
checks = ["busy[subject, *] >= 0.1"]
[[experiment.claims]]
id = "too-much"
criterion = "busy"
claim = "Carries more than there is."
expected = "More than the link."
checks = ["busy[subject, *] > 1.5"]
[[experiment.claims]]
id = "as-much"
criterion = "busy"
claim = "Carries as much as the standard."
expected = "As much; half less is no difference."
checks = ["busy[subject, *] >= min(busy[standards, *]) - 0.5"]
"#;

fn suite_of(suite: &str, one: &str) -> Result<Suite, ExperimentError> {
    Suite::parse("small/suite.toml", suite, &|from| match from {
        "one.toml" => Ok(one.to_owned()),
        other => panic!("no {other}"),
    })
}

fn question(suite: Suite, names: &[&str]) -> Question {
    let subjects = names.iter().map(|name| Subject::parse(name).unwrap()).collect();
    Question::new(suite, subjects)
}

fn inquiry(names: &[&str]) -> Inquiry {
    question(suite_of(SUITE, ONE).unwrap(), names).inquire(&Effort::Quick).unwrap()
}

fn answers_of(evaluation: &Evaluation, claim: &str) -> Vec<Answer> {
    let all = evaluation.criteria.iter().flat_map(|c| &c.asked);
    let claim = all.into_iter().find(|c| c.id == claim).unwrap();
    claim.answers.iter().map(|a| a.answer).collect()
}

/// Evaluates everything, in a folder of its own.
fn evaluated(inquiry: &Inquiry) -> Result<(Evaluation, tempfile::TempDir), ExperimentError> {
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let report = ReportOptions::default();
    let summary = evaluate(inquiry, &Effort::Quick, &options(2, &cancel), &report, dir.path())?;
    Ok((summary.evaluation, dir))
}

#[test]
fn each_subject_answers_and_what_cannot_be_asked_is_said_with_its_reason() {
    // XCP has no use for a link whose router gives no feedback.
    let inquiry = inquiry(&["cubic", "xcp", "own={ window = \"cubic\", recovery = \"newreno\" }"]);
    let (evaluation, dir) = evaluated(&inquiry).unwrap();
    let evaluation = &evaluation;
    use Answer::{DoesNot, Meets, NotApplicable};
    assert_eq!(answers_of(evaluation, "much"), [Meets, NotApplicable, Meets]);
    assert_eq!(answers_of(evaluation, "too-much"), [DoesNot, NotApplicable, DoesNot]);
    assert_eq!(answers_of(evaluation, "as-much"), [Meets, NotApplicable, Meets]);
    let busy = &evaluation.criteria[0];
    assert_eq!(busy.answers, [Some(DoesNot), Some(NotApplicable), Some(DoesNot)]);
    assert!(busy.asked[0].answers[1].measured.contains("xcp"), "{:?}", busy.asked[0].answers[1]);
    assert_eq!(evaluation.criteria[1].answers, [None; 3]);
    assert_eq!(evaluation.general_use(0), Some(false));
    assert_eq!(evaluation.general_use(1), None, "nothing of it could be asked");
    assert_eq!(evaluation.known[0].agrees(), Some(true));

    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let page = read("index.html");
    for text in [
        "A small suite",
        "own-all.html#one",
        "cubic: It carries something (Anybody). Confirmed here",
        "<dt>1.2 Talk</dt><dd>Say it.</dd>",
        "cubic meets 0 of 1 criteria. It does not meet 1.1 Busy.",
    ] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let markdown = read("evaluation.md");
    // Numbers have the label and the unit of their chart.
    let numbers = evaluation.criteria[0].asked[1].answers[0].in_numbers().unwrap();
    assert!(numbers.starts_with("Load = ") && numbers.ends_with(" % (> 150 %)"), "{numbers}");
    assert!(markdown.contains(&format!("| 1.1 | Busy | does not: {numbers}; 2 of 3 met")));
    assert!(page.contains(&numbers.replace('>', "&gt;")), "{numbers}\n{page}");
    assert!(markdown.contains("| 1.2 | Talk | to discuss |"), "{markdown}");
    assert!(!markdown.contains("gave up") && !page.contains("gave up"));
    let json: serde_json::Value = serde_json::from_str(&read("evaluation.json")).unwrap();
    assert_eq!(json["criteria"][0]["answers"][0]["answer"], "does not");
    assert_eq!(json["known"][0]["agrees"], true);
    // The scenario is next to the page and runs separately, without xcp.
    let played = Experiment::parse("one.toml", &read("one.toml")).unwrap();
    let labels: Vec<&str> = played.axes[0].points.iter().map(|p| &*p.label).collect();
    assert_eq!(labels, ["cubic", "own", "newreno"]);
    assert!(played.plan(&Effort::Quick).is_ok());
}

#[test]
fn connections_that_gave_up_are_told_with_their_runs_and_reasons_also_once_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let inquiry = inquiry(&["vegas", "veno"]);
    // The runs of vegas with the first seed and with the fourth, which no chart shows, and two
    // flows of one run.
    let failing = |scenario: &Scenario, cancel: &AtomicBool| -> Result<Outcome, ExperimentError> {
        let mut outcome = simulate(scenario, cancel)?;
        for flow in &mut outcome.flows {
            flow.failure = match (&*flow.protocol, scenario.seed) {
                ("vegas", 1 | 4) => Some("it\nsaid <so>".to_owned()),
                ("cubic", 2) => Some("it had enough".to_owned()),
                _ => None,
            };
        }
        Ok(outcome)
    };
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let attempt = |runs: usize, resume: bool| {
        let done = AtomicUsize::new(0);
        let some = |scenario: &Scenario, cancel: &AtomicBool| {
            if done.fetch_add(1, Ordering::Relaxed) == runs {
                return Err(ExperimentError::Cancelled);
            }
            failing(scenario, cancel)
        };
        let cancel = AtomicBool::new(false);
        let report = ReportOptions { lead: &inquiry, resume, ..ReportOptions::default() };
        let (all, effort) = (&inquiry.experiments, &Effort::Quick);
        reproduce_with(all, effort, &options(2, &cancel), &report, dir.path(), &some)
    };
    let summary = attempt(usize::MAX, false).unwrap();
    let claims: Vec<_> = summary.claims.iter().collect();
    let evaluation = inquiry.answers(&claims, &summary.gave_up);
    let short = evaluation.gave_up_in_short().unwrap();
    assert_eq!(short, "Connections gave up: cubic, vegas.");
    let markdown = read("evaluation.md");
    let section = "\
- cubic in one, 4 runs: it had enough
  - vegas, cubic: 1 run
  - veno, cubic: 1 run
  - cubic, cubic: 1 run
  - newreno, cubic: 1 run
- vegas in one, 2 runs: it said <so>
  - vegas, cubic: 2 runs
";
    assert!(markdown.contains(section), "{markdown}");
    let page = read("index.html");
    assert!(page.contains("<li>vegas in one, 2 runs: it said &lt;so&gt;\n<ul>"), "{page}");
    let json: serde_json::Value = serde_json::from_str(&read("evaluation.json")).unwrap();
    assert_eq!(json["gave_up"][4]["runs"], 2);
    // Runs of an interrupted attempt are reported too, and tables are unchanged.
    let beyond = read("one-readings.csv");
    attempt(summary.runs - 1, false).unwrap_err();
    assert!(attempt(usize::MAX, true).unwrap().resumed > 0);
    assert_eq!((read("evaluation.md"), read("one-readings.csv")), (markdown, beyond));
}

#[test]
fn a_table_shows_general_use_of_many_subjects() {
    // Every claim that can hold.
    let text = ONE.replace("> 1.5", "< 1.5");
    let names = ["reno", "newreno", "sack", "cubic", "vegas", "veno", "xcp"];
    let question = question(suite_of(SUITE, &text).unwrap(), &names);
    let inquiry = question.inquire(&Effort::Quick).unwrap();
    let (_, dir) = evaluated(&inquiry).unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let markdown = read("evaluation.md");
    for row in ["| veno | 1 | 0 | 0 | 0 | yes |", "| xcp | 0 | 0 | 0 | 1 | open |"] {
        assert!(markdown.contains(row), "{markdown}");
    }
    let row =
        "<tr><th scope=\"row\">veno</th><td>1</td><td>0</td><td>0</td><td>0</td><td>yes</td></tr>";
    assert!(read("index.html").contains(row));
}

#[test]
fn controllers_with_known_results_take_part_only_in_their_claims() {
    let inquiry = inquiry(&["vegas"]);
    let asked = |name: &str| -> Vec<&str> {
        let claims = inquiry.experiments.iter().flat_map(|e| &e.claims);
        let of = claims.filter_map(|c| c.asked.as_ref()).filter(|a| a.subject == name);
        of.map(|asked| &*asked.of_all).collect()
    };
    assert_eq!(asked("vegas"), ["much", "too-much", "as-much"]);
    assert_eq!(asked("cubic"), ["much"]);
    let (evaluation, _) = evaluated(&inquiry).unwrap();
    assert_eq!(evaluation.subjects, ["vegas"]);
    assert_eq!(evaluation.known[0].agrees(), Some(true));
    // Without that claim, it does not take part.
    let mut question = question(suite_of(SUITE, ONE).unwrap(), &["vegas"]);
    question.only = vec!["as-much".to_owned()];
    let inquiry = question.inquire(&Effort::Quick).unwrap();
    assert!(inquiry.answers(&[], &[]).known.is_empty());
}

#[test]
fn one_part_can_be_asked_alone() {
    let mut question = question(suite_of(SUITE, ONE).unwrap(), &["cubic"]);
    question.only = vec!["as-much".to_owned()];
    let inquiry = question.clone().inquire(&Effort::Quick).unwrap();
    assert_eq!(inquiry.experiments[0].claims.len(), 1);
    // One of two claims does not decide a criterion.
    let evaluation = inquiry.answers(&[], &[]);
    let said = evaluation.summary().concat();
    assert!(said.contains("0 criteria measured; 1 of 1 were not"), "{said}");
    assert!(said.contains("Some claims were measured of 1.1 Busy"), "{said}");
    question.only = vec!["busy".to_owned()];
    let whole = question.clone().inquire(&Effort::Quick).unwrap().answers(&[], &[]);
    assert!(!whole.criteria[0].is_partial && evaluation.criteria[0].is_partial);
    question.only = vec!["as-mush".to_owned()];
    let error = question.inquire(&Effort::Quick).unwrap_err().to_string();
    assert!(error.contains("`as-mush`; did you mean `as-much`?"), "{error}");
}

#[test]
fn subjects_that_cannot_be_are_refused_before_anything_runs() {
    let refuse = |names: &[&str]| {
        let question = question(suite_of(SUITE, ONE).unwrap(), names);
        question.inquire(&Effort::Quick).unwrap_err().to_string()
    };
    assert!(refuse(&["qubic"]).contains("did you mean `cubic`"), "{}", refuse(&["qubic"]));
    assert!(refuse(&["cubic", "cubic"]).contains("named twice"));
    assert!(
        refuse(&["own={ window = \"cubic\" }", "Own={ window = \"reno\" }"])
            .contains("only in case")
    );
    assert!(refuse(&[]).contains("no subject"));
    let subjects = vec![Subject::parse("own={ window = \"cubic\" }").unwrap()];
    let against = Some(vec![Subject::parse("own={ window = \"reno\" }").unwrap()]);
    let question = Question { against, ..Question::new(suite_of(SUITE, ONE).unwrap(), subjects) };
    let said = question.inquire(&Effort::Quick).unwrap_err().to_string();
    assert!(said.contains("has two meanings"), "{said}");
    assert!(refuse(&["own={ window = \"x\" }"]).contains("window"));
}

#[test]
fn suites_that_say_nothing_sensible_are_refused_with_the_place() {
    let refuse = |suite: &str, one: &str| {
        let suite = match suite_of(suite, one) {
            Ok(suite) => suite,
            Err(error) => return error.to_string(),
        };
        question(suite, &["cubic"]).inquire(&Effort::Quick).unwrap_err().to_string()
    };
    let no_standards = SUITE.replace("standards = [\"newreno\"]", "");
    assert!(refuse(&no_standards, ONE).contains("needs `standards`"));
    let unknown = ONE.replace("criterion = \"busy\"", "criterion = \"bosy\"");
    assert!(
        refuse(SUITE, &unknown).contains("did you mean `busy`?"),
        "{}",
        refuse(SUITE, &unknown)
    );
    let without = ONE.replacen("criterion = \"busy\"\n", "", 1);
    assert!(refuse(SUITE, &without).contains("`criterion` is missing"));
    let contradictory = ONE.replace(
        "checks = [\"busy[subject, *] > 1.5\"]",
        "checks = [\"busy[subject, *] > 1.5\", \"busy[subject, cubic] < 1\"]",
    );
    let error = refuse(SUITE, &contradictory);
    assert!(error.contains("contradict each other"), "{error}");
    let bare = ONE.replace("min(busy[standards, *])", "busy[standards, *]");
    assert!(refuse(SUITE, &bare).contains("inside `min(..)`"), "{}", refuse(SUITE, &bare));
    let chapter = SUITE.replace("chapter = \"all\"\ngeneral", "chapter = \"al\"\ngeneral");
    let chapter = refuse(&chapter, ONE);
    assert!(chapter.contains("chapter = \"al\": unknown chapter"), "{chapter}");
    assert!(chapter.contains("did you mean `all`?"), "{chapter}");
    assert!(refuse(ONE, ONE).contains("this is an experiment"));
    // There are no subjects outside of a suite.
    let error = Experiment::parse("one.toml", ONE).unwrap_err().to_string();
    assert!(error.contains("windward evaluate"), "{error}");
}

#[test]
fn the_suites_of_the_program_can_be_asked_of_every_standard() {
    for suite in suites::suites().unwrap() {
        for effort in [Effort::Quick, Effort::Full] {
            let question = Question::new(suite.clone(), suite.standards.clone());
            let inquiry = question.inquire(&effort).unwrap();
            assert!(!inquiry.experiments.is_empty());
            for experiment in &inquiry.experiments {
                experiment.plan(&effort).unwrap();
                // The number of a check has a unit: that of a chart of its metric.
                let checks = experiment.claims.iter().flat_map(|claim| &claim.checks);
                for (text, comparison) in checks.flat_map(|check| &check.any) {
                    let has_unit = experiment.metrics.iter().any(|metric| {
                        metric.has_unit()
                            && comparison.cells().iter().any(|c| c.metric == metric.name)
                    });
                    let (label, unit) = crate::inquiry::quantity(text, Some(experiment));
                    let counts = ["trips[", "severe["].iter().any(|count| label.starts_with(count));
                    assert!(
                        !has_unit || unit != Unit::NONE || !label.contains('[') || counts,
                        "{}: {text}: {label}",
                        experiment.id
                    );
                }
            }
        }
        // Each criterion has claims or a question for discussion, and known results have claims.
        let question = Question::new(suite.clone(), suite.standards.clone());
        let inquiry = question.inquire(&Effort::Full).unwrap();
        for criterion in &suite.criteria {
            let asked = !inquiry.asked_of(&criterion.id).is_empty();
            assert_ne!(asked, criterion.discuss.is_some(), "{}", criterion.id);
        }
        for known in &suite.known {
            assert!(inquiry.asked.iter().any(|row| row.id == known.claim), "{}", known.claim);
        }
    }
}

#[test]
fn every_kind_of_subject_can_be_asked_by_every_suite() {
    let controller =
        "controller={ window = { on_ack = \"cwnd + growth / cwnd\", on_loss = \"cwnd / 2\" } }";
    let rated = "rated={ base = \"bbr\", window = { on_ack = \"max(cwnd, delivery_rate * min_rtt)\", \
                 on_loss = \"cwnd\" } }";
    let mixed = "mixed={ window = \"vegas\", recovery = \"packet-number\" }";
    let stacks = windward_stacks::all();
    let rows: Vec<&str> = protocols::PROTOCOLS.iter().map(|row| row.name).collect();
    let hosted: Vec<&str> = stacks.iter().map(|stack| stack.facts().name).collect();
    let of = |names: &[&str]| names.iter().map(|n| Subject::parse(n).unwrap()).collect::<Vec<_>>();
    // Subjects, the controllers beside them, and standards.
    let all: [(&[&str], &[&str], &[&str]); 12] = [
        (&rows, &[], &[]),
        (&hosted, &[], &[]),
        (&[controller, rated, mixed], &[], &[]),
        (&["cubic", "quinn:cubic", "noq:bbr", "xcp", controller], &[], &[]),
        (&["quinn:cubic"], &[], &[]),
        (&["noq:cubic"], &[], &[]),
        (&["cubic"], &["quinn:cubic", "xcp", controller], &[]),
        (&["quinn:cubic"], &["bbr"], &[]),
        (&["cubic"], &[], &["xcp"]),
        (&["xcp"], &[], &["xcp"]),
        (&["cubic"], &[], &["quinn:newreno"]),
        (&["quinn:cubic"], &[], &["quinn:cubic", controller]),
    ];
    for suite in suites::suites().unwrap() {
        for (subjects, against, standards) in all {
            let names = format!("{subjects:?} of {}", suite.id);
            let question = Question {
                against: (!against.is_empty()).then(|| of(against)),
                standards: (!standards.is_empty()).then(|| of(standards)),
                stacks: stacks.clone(),
                ..Question::new(suite.clone(), of(subjects))
            };
            let inquiry =
                question.inquire(&Effort::Quick).unwrap_or_else(|e| panic!("{names}: {e}"));
            for experiment in &inquiry.experiments {
                let length = experiment.run_length(&Effort::Quick);
                if let Err(error) = experiment.scenario(0, &length, &Deviation::PLAIN) {
                    panic!("{names}: {error}");
                }
            }
            // Each has an answer to come, or the reason why the claim cannot be asked.
            let answers = inquiry.answers(&[], &[]);
            for answer in answers.criteria.iter().flat_map(|c| &c.asked).flat_map(|a| &a.answers) {
                let is_without = answer.answer == Answer::NotApplicable;
                assert_eq!(is_without, !answer.measured.is_empty(), "{names}: {answer:?}");
            }
        }
    }
}

#[test]
fn whoever_carries_nothing_meets_nothing() {
    // A window of one packet in 20 ms is 0.6 of 2 Mbit/s.
    let suite = SUITE.replace("against =", "least_goodput = 0.9\nagainst =");
    let mute = "mute={ window = { on_ack = \"1\", on_loss = \"2\" } }";
    let mut question = question(suite_of(&suite, ONE).unwrap(), &["newreno", mute]);
    question.only = vec!["much".to_owned()];
    let inquiry = question.inquire(&Effort::Quick).unwrap();
    let (evaluation, dir) = evaluated(&inquiry).unwrap();
    assert_eq!(answers_of(&evaluation, "carried-one"), [Answer::Meets, Answer::DoesNot]);
    assert_eq!(evaluation.criteria[0].answers[1], Some(Answer::DoesNot));
    let page = fs::read_to_string(dir.path().join("one.md")).unwrap_or_default()
        + &fs::read_to_string(dir.path().join("evaluation.md")).unwrap();
    assert!(page.contains("at least 0.9 of that of the standard"), "{page}");
}

#[test]
fn a_fault_is_told_with_the_subject() {
    let wrong = |controller: &str| {
        let name =
            format!("bad={{ window = {{ on_ack = \"{controller}\", slow_start = false }} }}");
        let inquiry = inquiry(&["cubic", &name]);
        match evaluated(&inquiry) {
            Err(ExperimentError::Part(text)) => FaultyController::of(&text),
            other => panic!("{controller}: {other:?}"),
        }
    };
    for controller in ["1/0", "-5", "0 * cwnd", "cwnd * 1e300", "sqrt(-cwnd)"] {
        let faulty = wrong(controller);
        assert_eq!(faulty.subject, "bad");
        for word in ["a window of", controller, "after an acknowledgment", "s of simulated time"] {
            assert!(faulty.fault.contains(word), "{faulty:?}");
        }
    }
}

#[test]
fn a_cell_of_every_kind_of_subject_runs() {
    let controller =
        "controller={ window = { on_ack = \"cwnd + growth / cwnd\", on_loss = \"cwnd / 2\" } }";
    let suite = suites::suite("rfc9743").unwrap();
    for name in ["cubic", "xcp", "quinn:cubic", "noq:bbr", controller] {
        let subjects = vec![Subject::parse(name).unwrap()];
        let only = vec!["shallow-buffers".to_owned(), "misbehaving".to_owned()];
        let new = Question::new(suite.clone(), subjects);
        let question = Question { only, stacks: windward_stacks::all(), ..new };
        let inquiry = question.inquire(&Effort::Quick).unwrap();
        for experiment in &inquiry.experiments {
            let length = experiment.run_length(&Effort::Quick);
            let scenario = experiment.scenario(0, &length, &Deviation::PLAIN).unwrap();
            let outcome = simulate(&scenario, &AtomicBool::new(false)).unwrap();
            assert!(outcome.flows.iter().any(|flow| flow.goodput_bps > 0.0), "{name}");
        }
    }
}

#[test]
fn answers_together_are_the_worst_of_what_applies() {
    use Answer::{DoesNot, Meets, NotApplicable, Undecided};
    assert_eq!(Answer::together([Meets, NotApplicable]), Some(Meets));
    assert_eq!(Answer::together([Meets, Undecided]), Some(Undecided));
    assert_eq!(Answer::together([DoesNot, Undecided, Meets]), Some(DoesNot));
    assert_eq!(Answer::together([NotApplicable]), Some(NotApplicable));
    assert_eq!(Answer::together([]), None);
}

#[test]
fn a_verdict_that_flips_with_the_rate_is_fragile() {
    // 2 Mbit/s carry more than 1.7, 1.6 do not. The buffer of 10 packets is more than the pipe of
    // 5, also with a fifth less.
    let metric = "busy = \"utilization(link)\"";
    let more = format!("{metric}\nbits = \"throughput(flow) + throughput(other)\"");
    let one =
        ONE.replace(metric, &more).replace("busy[subject, *] > 1.5", "bits[subject, *] >= 1.7e6");
    let mut inquiry =
        question(suite_of(SUITE, &one).unwrap(), &["newreno"]).inquire(&Effort::Quick).unwrap();
    let (cancel, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let progress = |_| {
        done.fetch_add(1, Ordering::Relaxed);
    };
    let options = RunOptions { progress: &progress, ..options(2, &cancel) };
    inquiry.vary(&Effort::Quick, &options).unwrap();
    assert!(done.load(Ordering::Relaxed) >= 6 * 3, "each variation has its runs");
    let (evaluation, dir) = evaluated(&inquiry).unwrap();
    assert_eq!(answers_of(&evaluation, "too-much"), [Answer::Meets]);
    assert_eq!(evaluation.fragile(), ["too-much, newreno: meets, but not with rates -20 %."]);
    let sentence = evaluation.sensitivity().unwrap();
    assert!(sentence.contains("1 verdict of 3 is fragile"), "{sentence}");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&read("evaluation.json")).unwrap();
    let claims = json["criteria"][0]["claims"].as_array().unwrap();
    let fragile = |claim: &serde_json::Value| claim["answers"][0]["fragile"].as_bool();
    let of = |id: &str| claims.iter().find(|claim| claim["id"] == id).and_then(fragile);
    assert_eq!((of("too-much"), of("much")), (Some(true), Some(false)));
    assert_eq!(claims[0]["answers"][0]["varied"].as_array().map(Vec::len), Some(6));
    assert!(read("index.html").contains("id=\"sensitivity\""));
    assert!(read("evaluation.md").contains("## Sensitivity"));
}
