//! QUIC stacks in the program, and the program without them.

#[cfg(feature = "stacks")]
use std::fs;

use crate::{Sandbox, success};

/// A bulk flow and transfers that come at random, each of a stack, on a link that loses packets.
const SCENARIO: &str = r#"
duration = "4s"
seed = 7

[dumbbell]
bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
access = { rate = "50Mbit", delay = "1ms" }

[[flows]]
group = "bulk"
protocol = "quinn:cubic"
last_hop = { loss = 0.01 }

[[flows]]
group = "web"
protocol = "noq:cubic"
arrivals = { load = 0.3, until = "3s", sizes = { distribution = "pareto", shape = 1.2, mean = "20kB", most = "200kB" } }
"#;

#[cfg(not(feature = "stacks"))]
#[test]
fn what_is_missing_is_said() {
    use crate::{stderr, windward};
    let sandbox = Sandbox::new(SCENARIO);
    let scenario = sandbox.scenario().display().to_string();
    for args in [
        ["run", &scenario].as_slice(),
        &["explain", "quinn:cubic"],
        &["evaluate", "quinn:cubic", "--only", "short-flows"],
    ] {
        let output = windward(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains("its feature `stacks`"), "{}", stderr(&output));
    }
    assert!(success(["list", "--stacks"]).contains("its feature `stacks`"));
}

#[cfg(feature = "stacks")]
#[test]
fn each_process_has_the_same_run() {
    let sandbox = Sandbox::new(SCENARIO);
    let scenario = sandbox.scenario().display().to_string();
    let run = |seed: &str| {
        let text = success(["run", &scenario, "--json", "--set", &format!("seed={seed}")]);
        let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
        // Except for its cost.
        run.as_object_mut().unwrap().remove("cpu_s");
        assert!(run["fingerprint"].is_string() && run["transfers"][0]["handshake_s"].is_number());
        run
    };
    let first = run("7");
    assert_eq!(first, run("7"));
    assert_ne!(first["fingerprint"], run("8")["fingerprint"]);
}

#[cfg(feature = "stacks")]
#[test]
fn numbers_do_not_depend_on_the_number_of_threads() {
    const EXPERIMENT: &str = r#"
[experiment]
id = "both"
title = "Both stacks"
setting = "A flow beside transfers."
quick = { repetitions = 3 }
full = { repetitions = 3 }

[[experiment.axes]]
name = "protocol"
key = "flows.*.protocol"
values = ["quinn:cubic", "noq:newreno", "quinn:bbr", "noq:copa"]

[experiment.metrics]
busy = "goodput(bulk)"
short = "fct_quantile(web, 0.5)"

[[experiment.plots]]
kind = "dots"
metrics = "busy"
x = "protocol"
y_title = "Goodput"
"#;
    let sandbox = Sandbox::new(&format!("{SCENARIO}{EXPERIMENT}"));
    let scenario = sandbox.scenario().display().to_string();
    for threads in ["1", "2", "5"] {
        let out = sandbox.path(threads).display().to_string();
        success(["sweep", &scenario, "--out", &out, "--threads", threads]);
    }
    for name in ["both.csv", "both-flows.csv", "both-transfers.csv"] {
        let of = |threads: &str| fs::read_to_string(sandbox.path(threads).join(name)).unwrap();
        assert!(of("1").lines().count() > 12, "{name}");
        for threads in ["2", "5"] {
            assert_eq!(of("1"), of(threads), "{name} with {threads} threads");
        }
    }
}

#[cfg(feature = "stacks")]
#[test]
fn short_flows_of_a_stack_are_judged() {
    // The criterion of section 5.1.5 in the built-in suite, on a path that takes milliseconds.
    const SUITE: &str = r#"
[suite]
id = "short"
title = "Short flows"
source = "RFC 9743 section 5.1.5"
standards = ["newreno", "cubic"]
experiments = ["scenario.toml"]
chapters = [{ key = "all", title = "All of it", section = "1" }]
criteria = [
    { id = "short-flows", section = "5.1.5", title = "Short flows", asks = "Ends them.", chapter = "all", general = true },
]
"#;
    const EXPERIMENT: &str = r#"
[experiment]
id = "short"
title = "Short flows"
quick = { repetitions = 3, at_most = 4 }

[[experiment.axes]]
name = "controller"
key = "flows.*.protocol"
values = "subjects"

[experiment.metrics]
mice = "fct_quantile_between(web, 0, 30000, 0.5)"

[[experiment.claims]]
id = "mice"
criterion = "short-flows"
claim = "Short flows end as soon as those of the standards."
expected = "Half of them are there no more than five seconds later, which is more than there are."
checks = ["mice[subject] <= max(mice[standards]) + 5"]
"#;
    let sandbox = Sandbox::new(&format!("{SCENARIO}{EXPERIMENT}"));
    fs::write(sandbox.path("suite.toml"), SUITE).unwrap();
    let [suite, out] = ["suite.toml", "out"].map(|name| sandbox.path(name).display().to_string());
    let text = success(["evaluate", "quinn:cubic", "noq:cubic", "--suite", &suite, "--out", &out]);
    for name in ["quinn:cubic", "noq:cubic"] {
        assert!(text.contains(&format!("{name} meets 1 of 1 criteria")), "{text}");
    }
}
