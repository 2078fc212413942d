//! Prague over DualPI2, the queue that it is designed for.

use windward_sim::{Outcome, run};

use crate::{build, wire};

/// 20 Mbit/s and an RTT of 30 ms through DualPI2: 1000-byte packets take 0.4 ms each.
fn through_dualpi2(flows: &str) -> Outcome {
    let toml = format!(
        "duration = '40s'
         warmup = '10s'
         links = [{{ name = 'wire', from = 'a', to = 'b', rate = '20Mbit', delay = '15ms',
                    queue = '400p', aqm = 'dualpi2' }}]
         flows = [{flows}]"
    );
    run(&build(&toml))
}

fn flow(protocol: &str) -> String {
    format!("{{ group = '{protocol}', protocol = '{protocol}', from = 'a', to = 'b' }}")
}

#[test]
fn a_single_flow_keeps_the_queue_short_and_the_link_busy() {
    let outcome = through_dualpi2(&flow("prague"));
    let link = wire(&outcome);
    assert!(link.marked > 0 && link.dropped == 0, "{link:?}");
    assert!(link.utilization > 0.95, "{link:?}");
    // Marks begin at 800 us (RFC 9332 appendix A.1): two packets.
    assert!(link.mean_queue_packets < 2.0, "{link:?}");
}

/// The coupling makes the windows of both equal where their round trips are (RFC 9332 section 2.1);
/// rates are then inverse to the round trips, 30 ms and 30 ms + 15 ms of queue: 1.5 to 1.
#[test]
fn windows_of_prague_and_cubic_are_equal() {
    let outcome = through_dualpi2(&[flow("prague"), flow("cubic")].join(", "));
    let [prague, cubic] = &outcome.flows[..] else { panic!("two flows") };
    let windows = prague.mean_cwnd_packets.unwrap() / cubic.mean_cwnd_packets.unwrap();
    assert!((0.6..1.67).contains(&windows), "windows {windows}: {prague:?} {cubic:?}");
    let rates = prague.goodput_bps / cubic.goodput_bps;
    assert!((1.0..2.25).contains(&rates), "rates {rates}");
    // The L lane stays short while the C lane waits for its target, 15 ms.
    assert!(prague.mean_rtt_s.unwrap() < 0.032, "{prague:?}");
    assert!(cubic.mean_rtt_s.unwrap() > 0.040, "{cubic:?}");
    assert!(wire(&outcome).utilization > 0.99);
}
