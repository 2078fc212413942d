//! Goodput of a protocol of Windward under random loss, as a share of C(1 - p): its own transport,
//! and quinn and noq in virtual time. C is the rate of the link less the headers of each.
//!
//! `cargo run --release -p windward-stacks --example goodput -- upwind --rate 100Mbit --seeds 50`
//!
//! The link has a round trip of 80 ms, a tail-drop queue of one bandwidth-delay product, and the
//! loss in both directions. A run lasts 18 s; from 3 s on it counts. A cell is the mean of the
//! seeds, and the smallest in parentheses.

use std::error::Error;

use windward_sim::scenario::file::ScenarioFile;

const SCENARIO: &str = r#"
duration = "18s"
warmup = "3s"
[dumbbell]
bottleneck = { rate = "10Mbit", delay = "40ms", queue = "100kB" }
reverse_bottleneck = { rate = "10Mbit", delay = "40ms", queue = "100kB" }
access = { rate = "10Gbit", delay = "0ms" }
[[flows]]
group = "bulk"
protocol = "upwind"
packet_size = 1480
"#;

/// Bytes of a packet that a stack's goodput does not count: 28 of IPv4 and UDP, 16
/// of the tag, and 16 of the packet and its STREAM frame (RFC 9000 sections 17.3.1 and 19.8): flags
/// and number 4, connection ID 8 of the simulator's stacks, frame 4 and more.
const OVERHEAD: f64 = 28.0 + 16.0 + 16.0;

fn main() -> Result<(), Box<dyn Error>> {
    let mut rate = "10Mbit".to_owned();
    let mut protocols = Vec::new();
    let mut seeds = 5_u32;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rate" => rate = arguments.next().ok_or("--rate needs a rate, as in 100Mbit")?,
            "--seeds" => seeds = arguments.next().ok_or("--seeds needs a number")?.parse()?,
            _ => protocols.push(argument),
        }
    }
    if protocols.is_empty() {
        protocols.push("upwind".to_owned());
    }
    let stacks = windward_stacks::all();
    let mut file = ScenarioFile::parse("goodput.toml", SCENARIO)?.with_stacks(&stacks);
    let mut megabits = 10.0;
    if let Some(digits) = rate.strip_suffix("Mbit") {
        megabits = digits.parse::<f64>().map_err(|_| format!("{rate} is not a rate"))?;
    }
    // 80 ms of the rate, in kB.
    let queue = format!("{}kB", 10.0 * megabits);
    for link in ["bottleneck", "reverse_bottleneck"] {
        file.set(&format!("dumbbell.{link}.rate"), &rate)?;
        file.set(&format!("dumbbell.{link}.queue"), &queue)?;
    }
    println!("| {rate} | 0 % | 1 % | 5 % | 10 % | 20 % |");
    println!("|---|---|---|---|---|---|");
    for protocol in protocols {
        let own = format!("quinn:windward-{protocol}");
        let quinn = if stacks.find(&own).is_some() { own } else { format!("quinn:{protocol}") };
        let noq = quinn.replace("quinn:", "noq:");
        for name in [protocol.clone(), quinn, noq] {
            let is_stack = stacks.find(&name).is_some();
            if name.contains(':') && !is_stack {
                continue;
            }
            file.set("flows.bulk.protocol", &name)?;
            file.set("flows.bulk.initial_window", if is_stack { "2" } else { "10" })?;
            // As deployed, a stack searches for the MTU.
            file.set("flows.bulk.quic.mtu_discovery", &is_stack.to_string())?;
            let mut row = format!("| {name} |");
            for loss in [0.0, 0.01, 0.05, 0.1, 0.2] {
                for link in ["bottleneck", "reverse_bottleneck"] {
                    file.set(&format!("dumbbell.{link}.loss"), &loss.to_string())?;
                }
                let share = |seed: u32| -> Result<f64, Box<dyn Error>> {
                    let mut file = file.clone();
                    file.set("seed", &seed.to_string())?;
                    let flow = &windward_sim::run(&file.build()?).flows[0];
                    let overhead = if is_stack { OVERHEAD } else { 0.0 };
                    let most = 1e6 * megabits * (1.0 - loss) * (1480.0 - overhead) / 1480.0;
                    Ok(flow.goodput_bps / most)
                };
                let shares = (1..=seeds.max(1)).map(share).collect::<Result<Vec<_>, _>>()?;
                let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
                row += &format!(" {mean:.3} ({least:.3}) |");
            }
            println!("{row}");
        }
    }
    Ok(())
}
