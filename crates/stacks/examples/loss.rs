//! Goodput of stacks under random loss: 10 Mbit/s, 80 ms, a tail-drop queue of one bandwidth-delay
//! product, 60 s.
//!
//! `cargo run --release -p windward-stacks --example loss -- quinn:cubic quinn:newreno`

use windward_sim::scenario::file::{ScenarioError, ScenarioFile};

const SCENARIO: &str = r#"
duration = "60s"
[dumbbell]
bottleneck = { rate = "10Mbit", delay = "40ms", queue = "100kB" }
access = { rate = "1Gbit", delay = "0ms" }
[[flows]]
group = "bulk"
protocol = "newreno"
packet_size = 1500
"#;

fn main() -> Result<(), ScenarioError> {
    let stacks = windward_stacks::all();
    let named: Vec<String> = std::env::args().skip(1).collect();
    let names = match named.is_empty() {
        true => stacks.iter().map(|stack| stack.facts().name.to_owned()).collect(),
        false => named,
    };
    println!("| protocol | loss | goodput, Mbit/s | sent | lost | mean RTT, ms | mean cwnd |");
    println!("|---|---|---|---|---|---|---|");
    let mut file = ScenarioFile::parse("loss.toml", SCENARIO)?.with_stacks(&stacks);
    for name in names {
        file.set("flows.bulk.protocol", &name)?;
        for loss in ["0", "0.01", "0.05", "0.1", "0.2"] {
            file.set("flows.bulk.last_hop.loss", loss)?;
            let mut goodput = 0.0;
            let mut last = None;
            for seed in 1..=3 {
                file.set("seed", &seed.to_string())?;
                let outcome = windward_sim::run(&file.build()?);
                goodput += outcome.flows[0].goodput_bps / 3e6;
                last = Some(outcome);
            }
            let Some(flow) = last.as_ref().map(|outcome| &outcome.flows[0]) else { continue };
            println!(
                "| {name} | {loss} | {goodput:.2} | {} | {} | {:.1} | {:.1} |{}",
                flow.packets_sent,
                flow.retransmissions.unwrap_or(0),
                flow.mean_rtt_s.unwrap_or(0.0) * 1e3,
                flow.mean_cwnd_packets.unwrap_or(0.0),
                flow.failure.as_deref().unwrap_or_default()
            );
        }
    }
    Ok(())
}
