//! Windward's own transport and quinn in virtual time, with the same controller and the same path.
//! As deployed, quinn searches for the MTU.

use crate::common::PATH;

/// Bytes of a packet that a stack's goodput does not count: 28 of IPv4 and UDP, 16
/// of the tag, and 16 of the packet and its STREAM frame (RFC 9000 sections 17.3.1 and 19.8).
const OVERHEAD: f64 = 28.0 + 16.0 + 16.0;

/// A path of 80 ms: its rate in Mbit/s, and the loss rate in both directions.
type Path = (u64, f64);

/// Mean of [`goodput_of`] over so many seeds.
fn goodput(protocol: &str, path: Path, seeds: u64) -> f64 {
    (1..=seeds).map(|seed| goodput_of(protocol, path, seed)).sum::<f64>() / seeds as f64
}

/// Goodput in Mbit/s, with all headers.
fn goodput_of(protocol: &str, (rate, loss): Path, seed: u64) -> f64 {
    let loss = loss.to_string();
    let (queue, rate) = (format!("{}kB", 10 * rate), format!("{rate}Mbit"));
    let reverse =
        format!("{{ rate = '{rate}', delay = '40ms', queue = '{queue}', loss = {loss} }}");
    let seed = seed.to_string();
    let mut changes = vec![
        ("flows.bulk.protocol", protocol),
        ("flows.bulk.packet_size", "1480"),
        ("dumbbell.bottleneck.rate", &rate),
        ("dumbbell.bottleneck.queue", &queue),
        ("dumbbell.bottleneck.loss", &loss),
        ("dumbbell.reverse_bottleneck", &reverse),
        ("duration", "30s"),
        ("warmup", "5s"),
        ("seed", &seed),
    ];
    let is_stack = protocol.starts_with("quinn:");
    if is_stack {
        changes.push(("flows.bulk.quic.mtu_discovery", "true"));
    } else {
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
fn ratio(row: &str, path: Path, seeds: u64) -> f64 {
    let own = format!("{{ base = '{row}', recovery = 'packet-number' }}");
    let stacks = windward_stacks::all();
    let ours = format!("quinn:windward-{row}");
    let quinn = if stacks.find(&ours).is_some() { ours } else { format!("quinn:{row}") };
    goodput(&quinn, path, seeds) / goodput(&own, path, seeds)
}

#[test]
fn both_arms_agree() {
    // Controllers that random losses do not slow down agree at any loss rate. At 20 % those of TCP
    // have two packets per round trip, and depend on how often the recovery of each waits for a
    // timeout. With few packets a run varies by 10 to 15 %, hence the number of seeds.
    for (row, losses, seeds) in [
        ("upwind", &[0.0, 0.01, 0.05, 0.2][..], 20),
        ("copa", &[0.0, 0.01, 0.05, 0.2], 10),
        ("bbr1", &[0.0, 0.01, 0.05], 10),
        ("reno", &[0.0, 0.01, 0.05], 40),
        // 5 % less at a loss rate of 5 %.
        ("cubic", &[0.0, 0.01], 40),
        ("highspeed", &[0.0, 0.01, 0.05], 40),
    ] {
        for loss in losses {
            // Without loss all seeds are alike.
            let ratio = ratio(row, (10, *loss), if *loss == 0.0 { 1 } else { seeds });
            assert!((0.95..1.05).contains(&ratio), "{row} at {loss}: {ratio}");
        }
    }
}

#[test]
fn both_arms_agree_at_higher_rates() {
    for rate in [40, 100] {
        // Without loss, and for controllers that random losses do not slow down with them. Copa has
        // 0.7 of its own share in quinn at these rates (docs/deploy/controllers.md).
        for (row, losses) in [
            ("upwind", &[0.0, 0.01][..]),
            ("bbr1", &[0.0, 0.01]),
            ("reno", &[0.0]),
            ("cubic", &[0.0]),
        ] {
            for loss in losses {
                let ratio = ratio(row, (rate, *loss), if *loss == 0.0 { 1 } else { 3 });
                assert!((0.95..1.05).contains(&ratio), "{row} at {rate}, {loss}: {ratio}");
            }
        }
    }
}

#[test]
fn heavy_loss_leaves_upwind_its_share() {
    // 20 % in both directions: the RTTs of single packets have to be exact enough to tell such a
    // path from a queue that overflows.
    let shares: Vec<f64> =
        (1..=50).map(|seed| goodput_of("quinn:upwind", (10, 0.2), seed)).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!(mean > 0.97 * 0.8 * 10.0, "{mean}: {shares:?}");
    // Some learn the loss rate of the path late, with single packets in a round trip.
    let small = shares.iter().filter(|share| **share < 0.9 * 0.8 * 10.0).count();
    assert!(small <= 2, "{mean}: {shares:?}");
}
