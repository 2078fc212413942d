//! Compares `preset = "linux"` with measurements of Linux 6.18 (docs/validation.md).
//!
//! ```sh
//! cargo run --release -p windward-sim --no-default-features --example linux [seeds] [key=value]...
//! ```
//!
//! Further arguments are set in validation/linux/link.toml as `--set` does.

use std::error::Error;

use windward_sim::scenario::file::ScenarioFile;

/// Payload of 1500 bytes on the wire, as iperf3 counts it, as a share.
const PAYLOAD: f64 = 1448.0 / 1500.0;
const LOSSES: [f64; 5] = [0.0, 0.001, 0.01, 0.05, 0.1];
/// Payload, Mbit/s, by loss.
const MEASURED: [(&str, [f64; 5]); 2] =
    [("reno", [9.65, 5.67, 1.63, 0.66, 0.42]), ("cubic", [9.65, 5.87, 1.53, 0.59, 0.36])];
const PAIR: [(&str, f64); 2] = [("cubic", 6.45), ("reno", 3.21)];

/// Student's t, 97.5 %, by degrees of freedom from 1.
const T: [f64; 15] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131,
];

/// Mean and half of the 95 % interval.
fn mean(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len().saturating_sub(2)).copied().unwrap_or(1.96);
    (mean, if values.len() < 2 { f64::NAN } else { t * (variance / n).sqrt() })
}

fn row(name: &str, loss: f64, measured: f64, payload: &[f64], retransmitted: f64, timeouts: f64) {
    let (mean, half) = mean(payload);
    println!(
        "| {name} | {} % | {measured:.2} | {mean:.3} ± {half:.3} | {:.3} ± {:.3} | {retransmitted:.1} | {timeouts:.1} |",
        100.0 * loss,
        mean / measured,
        half / measured,
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).peekable();
    let seeds: u64 = arguments.next_if(|a| !a.contains('=')).map_or(Ok(8), |a| a.parse())?;
    let changes: Vec<String> = arguments.collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../validation/linux/link.toml");
    let text = std::fs::read_to_string(path)?;
    let file = |text: &str, seed: u64| -> Result<ScenarioFile, Box<dyn Error>> {
        let mut file = ScenarioFile::parse(path, text)?;
        file.set("seed", &seed.to_string())?;
        for change in &changes {
            let (key, value) = change.split_once('=').ok_or("write key=value")?;
            file.set(key, value)?;
        }
        Ok(file)
    };
    println!("| flow | loss | Linux, Mbit/s | Windward | ratio | retransmissions | timeouts |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (name, measured) in MEASURED {
        for (loss, measured) in LOSSES.into_iter().zip(measured) {
            let (mut payload, mut resent, mut timeouts) = (Vec::new(), 0, 0);
            for seed in 1..=seeds {
                let mut file = file(&text, seed)?;
                file.set("flows.first.protocol", name)?;
                file.set("links.l.loss", &loss.to_string())?;
                let outcome = windward_sim::run(&file.build()?);
                let flow = &outcome.flows[0];
                payload.push(flow.goodput_bps * PAYLOAD / 1e6);
                resent += flow.retransmissions.unwrap_or(0);
                timeouts += flow.timeouts.unwrap_or(0);
            }
            let per_run = |count: u64| count as f64 / seeds as f64;
            row(name, loss, measured, &payload, per_run(resent), per_run(timeouts));
        }
    }
    // Both start within a second, drawn by the seed.
    let second = "\n[[flows]]\ngroup = \"second\"\nprotocol = \"reno\"\nfrom = \"a\"\nto = \"b\"\n";
    let mut payload = [Vec::new(), Vec::new()];
    let (mut resent, mut timeouts) = ([0; 2], [0; 2]);
    for seed in 1..=seeds {
        let mut file = file(&format!("{text}{second}"), seed)?;
        file.set("flows.*.start", "[\"0s\", \"1s\"]")?;
        let outcome = windward_sim::run(&file.build()?);
        for (at, flow) in outcome.flows.iter().enumerate() {
            payload[at].push(flow.goodput_bps * PAYLOAD / 1e6);
            resent[at] += flow.retransmissions.unwrap_or(0);
            timeouts[at] += flow.timeouts.unwrap_or(0);
        }
    }
    for (at, (name, measured)) in PAIR.into_iter().enumerate() {
        let name = format!("{name} of both");
        let per_run = |count: u64| count as f64 / seeds as f64;
        row(&name, 0.0, measured, &payload[at], per_run(resent[at]), per_run(timeouts[at]));
    }
    Ok(())
}
