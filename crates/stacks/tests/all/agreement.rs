//! Windward's own transport and quinn in virtual time, with the same controller and the same path.

use crate::common::PATH;

/// Bytes of a packet that a stack's goodput does not count: 28 of IPv4 and UDP, 16
/// of the tag, and 16 of the packet and its STREAM frame (RFC 9000 sections 17.3.1 and 19.8).
const OVERHEAD: f64 = 28.0 + 16.0 + 16.0;

/// Mean of [`goodput_of`] over so many seeds.
fn goodput(protocol: &str, loss: f64, seeds: u64) -> f64 {
    (1..=seeds).map(|seed| goodput_of(protocol, loss, seed)).sum::<f64>() / seeds as f64
}

/// Goodput in Mbit/s, with all headers, at this loss rate in both directions.
fn goodput_of(protocol: &str, loss: f64, seed: u64) -> f64 {
    let loss = loss.to_string();
    let reverse = format!("{{ rate = '10Mbit', delay = '40ms', queue = '100kB', loss = {loss} }}");
    let seed = seed.to_string();
    let mut changes = vec![
        ("flows.bulk.protocol", protocol),
        ("flows.bulk.packet_size", "1480"),
        ("dumbbell.bottleneck.loss", &loss),
        ("dumbbell.reverse_bottleneck", &reverse),
        ("duration", "30s"),
        ("warmup", "5s"),
        ("seed", &seed),
    ];
    let is_stack = protocol.starts_with("quinn:");
    if !is_stack {
        // As in QUIC: an initial window of ten packets, an ACK for every second packet or
        // after 25 ms, growth by bytes. quinn lets ten packets go at once, so that the windows of
        // TCP at these loss rates are not paced.
        changes.extend([
            ("flows.bulk.initial_window", "10"),
            ("flows.bulk.delayed_acks", "25ms"),
            ("flows.bulk.clock_granularity", "0s"),
            ("flows.bulk.byte_counting", "true"),
        ]);
    }
    let flow = crate::common::run(PATH, &windward_stacks::all(), &changes).flows[0].clone();
    assert_eq!(flow.failure, None, "{protocol}");
    let headers = if is_stack { 1480.0 / (1480.0 - OVERHEAD) } else { 1.0 };
    flow.goodput_bps * headers / 1e6
}

/// The ratio of the goodput in quinn to that in Windward's transport, both with recovery by packet
/// number.
fn ratio(row: &str, loss: f64, seeds: u64) -> f64 {
    let own = format!("{{ base = '{row}', recovery = 'packet-number' }}");
    let stacks = windward_stacks::all();
    let ours = format!("quinn:windward-{row}");
    let quinn = if stacks.find(&ours).is_some() { ours } else { format!("quinn:{row}") };
    goodput(&quinn, loss, seeds) / goodput(&own, loss, seeds)
}

#[test]
fn both_arms_agree() {
    // Controllers that random losses do not slow down agree at any loss rate. At 20 % those of TCP
    // have two packets per round trip, and depend on how often the recovery of each waits for a
    // timeout. With few packets a run varies by 10 to 15 %, hence the number of seeds.
    for (row, losses, seeds) in [
        ("upwind", &[0.0, 0.01, 0.05, 0.2][..], 10),
        ("copa", &[0.0, 0.01, 0.05, 0.2], 10),
        ("bbr1", &[0.0, 0.01, 0.05], 10),
        ("reno", &[0.0, 0.01, 0.05], 40),
        // 5 % less at a loss rate of 5 %.
        ("cubic", &[0.0, 0.01], 40),
        ("highspeed", &[0.0, 0.01, 0.05], 40),
    ] {
        for loss in losses {
            // Without loss all seeds are alike.
            let ratio = ratio(row, *loss, if *loss == 0.0 { 1 } else { seeds });
            assert!((0.95..1.05).contains(&ratio), "{row} at {loss}: {ratio}");
        }
    }
}

#[test]
fn heavy_loss_leaves_upwind_its_share() {
    // 20 % in both directions: the RTTs of single packets have to be exact enough to tell such a
    // path from a queue that overflows.
    let shares: Vec<f64> = (1..=50).map(|seed| goodput_of("quinn:upwind", 0.2, seed)).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.97 * 0.8 * 10.0, "{mean}: {shares:?}");
    assert!(shares.iter().all(|share| *share > 0.9 * mean), "{mean}: {shares:?}");
}
