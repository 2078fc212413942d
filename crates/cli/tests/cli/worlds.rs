//! `windward reproduce --worlds`.

use std::fs;

use crate::{SMALL, Sandbox, stderr, success, windward};

/// The small scenario with a choice of two rates, and a claim about its throughput.
fn experiment() -> String {
    let value = |label: &str, basis: &str| {
        format!(
            "{{ label = \"{label}\", basis = \"{basis}\", source = \"section {label}\", set = {{ \
             \"dumbbell.bottleneck.rate\" = \"{label}Mbit\" }} }}"
        )
    };
    format!(
        "{SMALL}
[experiment]
id = \"small\"
title = \"Small\"
quick = {{ repetitions = 3, at_most = 3 }}
[[experiment.readings]]
name = \"rate\"
choice = \"Rate\"
values = [{}, {}]
[experiment.metrics]
clean = \"goodput(clean)\"
[[experiment.claims]]
id = \"C1\"
claim = \"c\"
expected = \"e\"
checks = [\"clean >= 1200000\"]
",
        value("1", "paper"),
        value("4", "fit")
    )
}

#[test]
fn a_world_is_found_and_stored_beside_the_experiments() {
    let sandbox = Sandbox::new(&experiment());
    let folder = sandbox.path("").display().to_string();
    let out = sandbox.path("out").display().to_string();
    let search = |more: &[&str]| {
        let fixed = ["reproduce", "--worlds", &folder, "--out", &out, "--threads", "1"];
        fixed.iter().chain(more).map(|word| (*word).to_owned()).collect::<Vec<String>>()
    };
    // One megabit per second cannot carry 1.2; four can.
    let text = success(search(&["C1", "--worlds-budget", "none"]));
    for expected in
        ["held with rate = 4", "Rate: 4 instead of 1 (fit): section 4", "1 hold together"]
    {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    let worlds = fs::read_to_string(sandbox.path("worlds.toml")).unwrap();
    assert!(
        worlds.contains("readings = { rate = \"4\" }\ntried = 2\nheld = 1\nof = 2\n"),
        "{worlds}"
    );
    // The found worlds are no experiment, and the search can be repeated.
    success(search(&[]));
    assert_eq!(fs::read_to_string(sandbox.path("worlds.toml")).unwrap().lines().count(), {
        // The budget has a line of its own.
        worlds.lines().count() + 1
    });
    let wrong = windward(search(&["C9"]));
    assert!(stderr(&wrong).contains("no claim to search a world for"), "{}", stderr(&wrong));
    let wrong = windward(search(&["--worlds-budget", "5"]));
    assert!(stderr(&wrong).contains("expected a time as 90s, 30m or 2h"), "{}", stderr(&wrong));
    let wrong = windward(search(&["--list"]));
    assert!(stderr(&wrong).contains("cannot be used with"), "{}", stderr(&wrong));
}
