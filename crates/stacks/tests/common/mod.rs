//! A path for stacks.

use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;
use windward_sim::{Outcome, Scenario};

/// 10 Mbit/s, a round trip of 80 ms, and a tail-drop queue of one bandwidth-delay product, 100 kB.
pub(crate) const PATH: &str = r#"
duration = "30s"
[dumbbell]
bottleneck = { rate = "10Mbit", delay = "40ms", queue = "100kB" }
access = { rate = "1Gbit", delay = "0ms" }
[[flows]]
group = "bulk"
protocol = "quinn:cubic"
packet_size = 1500
"#;

/// The scenario with these changes; it may name these stacks.
pub(crate) fn scenario(text: &str, stacks: &Stacks, changes: &[(&str, &str)]) -> Scenario {
    let mut file = ScenarioFile::parse("path.toml", text).unwrap();
    for (key, value) in changes {
        file.set(key, value).unwrap();
    }
    file.with_stacks(stacks).build().unwrap()
}

/// Runs that scenario.
pub(crate) fn run(text: &str, stacks: &Stacks, changes: &[(&str, &str)]) -> Outcome {
    windward_sim::run(&scenario(text, stacks, changes))
}
