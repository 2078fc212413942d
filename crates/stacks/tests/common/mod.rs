//! A path for stacks.

use windward_sim::Outcome;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::Stacks;

/// 10 Mbit/s, a round trip of 80 ms, and a tail-drop queue of what fits on the way: 100 kB.
pub const PATH: &str = r#"
duration = "30s"
[dumbbell]
bottleneck = { rate = "10Mbit", delay = "40ms", queue = "100kB" }
access = { rate = "1Gbit", delay = "0ms" }
[[flows]]
group = "bulk"
protocol = "quinn:cubic"
packet_size = 1500
"#;

/// The most goodput that 10 Mbit/s leave: of 1500 bytes 28 are headers of IP and UDP, 16 a tag, and at
/// least 13 those of a QUIC packet and a STREAM frame (RFC 9000 sections 17.3.1 and 19.8).
pub const MOST: f64 = 1e7 * (1500.0 - 28.0 - 16.0 - 13.0) / 1500.0;

pub fn file(text: &str, stacks: &Stacks, changes: &[(&str, &str)]) -> ScenarioFile {
    let mut file = ScenarioFile::parse("path.toml", text).unwrap();
    for (key, value) in changes {
        file.set(key, value).unwrap();
    }
    file.with_stacks(stacks)
}

pub fn run(text: &str, stacks: &Stacks, changes: &[(&str, &str)]) -> Outcome {
    windward_sim::run(&file(text, stacks, changes).build().unwrap())
}
