//! Reads a scenario from TOML text, advances it second by second, prints its flows and links, and
//! writes the outcome as JSON:
//!
//! ```sh
//! cargo run --example step -p windward-sim
//! cargo run --example step -p windward-sim -- flows.lossy.protocol=lr-lmxtcp
//! ```

use std::error::Error;

use windward_core::units::{Duration, Time};
use windward_sim::Simulation;
use windward_sim::record::RunRecord;
use windward_sim::scenario::Traffic;
use windward_sim::scenario::file::ScenarioFile;

const SCENARIO: &str = r#"
duration = "10s"
warmup = "2s"

[dumbbell]
bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
access = { rate = "5Mbit", delay = "5ms", queue = "50p" }

[[flows]]
group = "clean"
protocol = "newreno"

[[flows]]
group = "lossy"
protocol = "newreno"
last_hop = { loss = 0.02 }
"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut file = ScenarioFile::parse("step.toml", SCENARIO)?;
    for change in std::env::args().skip(1) {
        let (key, value) = change.split_once('=').ok_or("write KEY=VALUE")?;
        file.set(key, value)?;
    }
    let scenario = file.build()?;
    for warning in &scenario.warnings {
        eprintln!("warning: {warning}");
    }

    // Queues are exact at any instant in a traced simulation; the outcome is the same.
    let mut sim = Simulation::traced(&scenario);
    let mut now = Time::ZERO;
    while now < Time::ZERO + scenario.duration {
        now += Duration::from_secs(1);
        sim.advance(now);
        for (index, flow) in scenario.flows.iter().enumerate() {
            // Datagrams have no state to look at.
            let (Some(state), Traffic::Transport { protocol, .. }) =
                (sim.flow(index), &flow.kind.traffic)
            else {
                continue;
            };
            eprintln!(
                "{:>4} s  {:<10} {:<12} cwnd {:5.1}  in flight {:>3}  {:>8} bytes delivered",
                now.as_secs_f64(),
                flow.name,
                protocol.name,
                state.cwnd,
                state.in_flight,
                state.delivered_bytes,
            );
        }
        let bottleneck = scenario.flows[0].bottleneck;
        let state = sim.link(bottleneck);
        eprintln!(
            "{:>4} s  {:<23} {:>3} packets wait, {} were dropped",
            now.as_secs_f64(),
            scenario.links[bottleneck].name,
            state.queue_packets,
            state.dropped,
        );
    }

    let outcome = sim.finish();
    println!("{}", RunRecord::new(&outcome).to_json());
    Ok(())
}
