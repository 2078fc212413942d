//! docs/outputs.md names every column and field that is written.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::{Sandbox, repository, success};

/// Everything that can be written is: phases of a traffic controller, a transfer that completes,
/// series of flows, samples of all kinds, links that are used.
const EVERYTHING: &str = r#"
duration = "20s"
warmup = "2s"
sample = "1s"
flow_bins = true

[dumbbell]
bottleneck = { rate = "10Mbit", delay = "5ms", queue = "50p", router = { kind = "estcp", target = "1s" } }
access = { rate = "100Mbit", delay = "1ms", queue = "500p" }

[[flows]]
group = "bulk"
count = 2
protocol = "estcp"

[[flows]]
group = "short"
protocol = "estcp"
size = "100p"

[experiment]
id = "all"
title = "Everything"
quick = { repetitions = 1 }

[[experiment.axes]]
name = "queue"
key = "dumbbell.bottleneck.queue"
values = ["50p", "60p"]

[experiment.metrics]
rate = "goodput(bulk)"

[[experiment.plots]]
kind = "time"
groups = ["bulk", "short"]
flows = true

[[experiment.plots]]
kind = "cwnd"
groups = ["bulk", "short"]

[[experiment.plots]]
kind = "queue"
links = "bottleneck"

[[experiment.plots]]
kind = "signal"
links = "bottleneck"
"#;

fn header(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().next().unwrap().split(',').map(str::to_owned).collect()
}

/// The keys of an object and of those in it.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            found.insert(key.clone());
            keys(value, found);
        }),
        Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn every_column_and_field_is_documented() {
    let guide = fs::read_to_string(repository().join("docs/outputs.md")).unwrap();
    let sandbox = Sandbox::new(EVERYTHING);
    let scenario = sandbox.scenario().display().to_string();
    let out = sandbox.path("out").display().to_string();
    let printed = success(["run", &scenario, "--json", "--out", &out, "--trace", &out]);
    let mut names = BTreeSet::new();
    keys(&serde_json::from_str(&printed).unwrap(), &mut names);
    for optional in ["completed_s", "phases", "heard_g_s", "cpu_s"] {
        assert!(names.contains(optional), "no {optional}: this test no longer writes everything");
    }
    for file in ["flows.csv", "links.csv", "run-flows.csv", "run-groups.csv", "run-links.csv"] {
        // Of `phases.count` the guide has both halves.
        let columns = header(&sandbox.path("out").join(file));
        names.extend(columns.iter().flat_map(|c| c.split('.')).map(str::to_owned));
    }

    let results = sandbox.path("results");
    success(["sweep", &scenario, "--out", results.to_str().unwrap(), "--set", "seed=2"]);
    let manifest = fs::read_to_string(results.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    keys(&manifest["experiments"], &mut names);
    for (file, own) in [
        ("all.csv", &[("bulk.", "GROUP."), ("short.", "GROUP.")][..]),
        ("all-flows.csv", &[]),
        ("all-series.csv", &[("bulk.", "GROUP."), ("short.", "GROUP.")]),
        ("all-samples.csv", &[("bottleneck.", "LINK.")]),
    ] {
        for column in header(&results.join(file)) {
            // Those of the axis and the metric are the file's own.
            if ["queue", "rate"].contains(&column.as_str()) {
                continue;
            }
            let of_flow = ["bulk-1", "bulk-2", "short-1"].iter().find(|f| column.contains(**f));
            let own = own.iter().find(|(name, _)| column.starts_with(name));
            let of_hop = column.contains("-hop") || column.starts_with("bottleneck");
            let name = match (own, of_flow) {
                (Some((name, stands_for)), _) => column.replacen(name, stands_for, 1),
                (None, Some(flow)) if !of_hop => column.replacen(flow, "FLOW", 1),
                (None, _) if of_hop => format!("LINK.{}", column.rsplit('.').next().unwrap()),
                _ => column,
            };
            names.insert(name);
        }
    }
    for name in &names {
        assert!(guide.contains(&format!("`{name}`")), "docs/outputs.md does not name `{name}`");
    }
    // 12 of the run, 16 of a flow .. and more: the sets above are not empty.
    assert!(names.len() > 80, "{names:?}");
}

#[test]
fn the_readme_links_the_guides() {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap();
    for guide in ["scenarios", "experiments", "outputs", "install"] {
        assert!(readme.contains(&format!("](docs/{guide}.md)")), "{guide}");
    }
}
