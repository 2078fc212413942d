//! quinn over links of the simulator.

use windward_sim::{Outcome, Scenario, Simulation};

use crate::common::{self, PATH};

fn scenario(changes: &[(&str, &str)]) -> Scenario {
    common::scenario(PATH, &windward_stacks::all(), changes)
}

fn run(changes: &[(&str, &str)]) -> Outcome {
    windward_sim::run(&scenario(changes))
}

#[test]
fn a_search_for_the_mtu_finds_that_of_the_path() {
    for name in ["quinn:cubic", "quinn:upwind", "noq:cubic", "noq:upwind", "noq:s2n-cubic"] {
        // The largest probes arrive, or are lost.
        for packet_size in ["1480", "1380"] {
            let flow = &run(&[
                ("flows.bulk.protocol", name),
                ("flows.bulk.packet_size", packet_size),
                ("flows.bulk.quic.mtu_discovery", "true"),
                ("duration", "15s"),
            ])
            .flows[0];
            assert_eq!(flow.failure, None, "{name}");
            assert!(flow.goodput_bps > 9e6, "{name}: {}", flow.goodput_bps);
            // Of 1228 bytes it would be 15,270.
            assert!(flow.packets_sent < 14_300, "{name}: {}", flow.packets_sent);
        }
    }
}

#[test]
fn looking_at_a_run_does_not_change_it() {
    let scenario = scenario(&[("flows.bulk.last_hop.loss", "0.02")]);
    let fast = windward_sim::run(&scenario);
    for other in [Simulation::traced(&scenario), Simulation::changeable(&scenario)] {
        let other = other.finish();
        assert_eq!((other.fingerprint, other.flows), (fast.fingerprint, fast.flows.clone()));
    }
}

#[test]
fn a_transfer_ends() {
    for (size, bytes) in [("1B", 1.0), ("20kB", 2e4), ("2MB", 2e6)] {
        let outcome = run(&[("flows.bulk.size", size)]);
        let flow = &outcome.flows[0];
        assert_eq!((flow.goodput_bps * 30.0 / 8.0).round(), bytes, "all of it, and once");
        // A round trip for the handshake, one for the data, and the time on the wire.
        let completed = flow.completed.expect("an end").as_secs_f64();
        let least = 0.16 + bytes * 8.0 / 1e7;
        assert!((least..2.0 * least + 0.2).contains(&completed), "{size}: {completed} s");
    }
}

#[test]
fn heavy_loss_and_dead_paths_end_well() {
    for loss in ["0.3", "0.6", "0.9", "1"] {
        for way in ["last_hop", "last_hop_reverse"] {
            let key = format!("flows.bulk.{way}.loss");
            let outcome = run(&[(&key, loss), ("duration", "100s")]);
            let flow = &outcome.flows[0];
            assert_eq!(flow.failure, None, "{loss} on {way}");
            assert!(flow.packets_sent > 3, "{loss} on {way}");
            if loss == "1" {
                assert_eq!(flow.goodput_bps, 0.0);
                // An Initial packet at once, and one more after each time-out of twice the length.
                assert!(flow.packets_sent < 40, "{} on {way}", flow.packets_sent);
            }
        }
    }
}

#[test]
fn a_transfer_that_comes_takes_as_long_as_its_windows() {
    // One of 60 kB every ten seconds on average: each has the path to itself, or nearly always.
    let arrivals = "{ rate = 0.1, until = '1190s', sizes = '60kB' }";
    for name in ["quinn:cubic", "quinn:newreno", "noq:cubic"] {
        let outcome = run(&[
            ("flows.bulk.protocol", name),
            ("flows.bulk.arrivals", arrivals),
            ("duration", "1200s"),
        ]);
        let flow = &outcome.flows[0];
        assert_eq!((flow.protocol.as_ref(), flow.failure.as_deref()), (name, None));
        // 119 are to be expected, give or take four times their root.
        assert!((75..165).contains(&outcome.transfers.len()), "{}", outcome.transfers.len());
        let mut seconds: Vec<f64> = Vec::new();
        for transfer in &outcome.transfers {
            assert_eq!((transfer.bytes, transfer.packets), (60_000, 41), "60 000 / 1472 = 40.8");
            assert!(transfer.packets_sent >= 41);
            // A round trip of packets of 1200 bytes: with 1 ms each, and a little for the others
            // there.
            let handshake = transfer.handshake.as_secs_f64();
            assert!((0.08..0.25).contains(&handshake), "{name}: {handshake}");
            let completion = transfer.completion_time().expect("an end").as_secs_f64();
            let whole = transfer.completed.unwrap().since(transfer.start).as_secs_f64();
            assert!((whole - handshake - completion).abs() < 1e-9);
            seconds.push(completion);
        }
        seconds.sort_by(f64::total_cmp);
        // Three windows, each a round trip: they begin with 12 000 bytes or more (quinn's is ten
        // packets of 1200), and double, so that two carry 36 000 at the least, 44 160 with ten
        // packets of 1472, and three 84 000. The last packets may wait 25 ms for an acknowledgment
        // that is delayed, and 60 kB take 48 ms of the wire.
        let (least, most) = (3.0 * 0.08, 3.0 * 0.08 + 0.025 + 0.06);
        let median = seconds[seconds.len() / 2];
        assert!(seconds[0] >= least && (least..most).contains(&median), "{name}: {seconds:?}");
        // Two at once may take twice as long, and lose nothing: a queue of 100 kB has room for
        // both.
        assert!(seconds[seconds.len() - 1] < 2.0 * most, "{name}: {seconds:?}");
        let all: f64 = outcome.transfers.iter().map(|t| t.bytes as f64).sum();
        assert!((flow.goodput_bps * 1200.0 / 8.0 / all - 1.0).abs() < 1e-9, "each byte once");
    }
}

#[test]
fn transfers_are_the_same_with_the_same_seed() {
    let sizes = "{ distribution = 'pareto', shape = 1.2, mean = '40kB', most = '2MB' }";
    let arrivals = format!("{{ load = 0.6, until = '8s', sizes = {sizes} }}");
    let changes = [("flows.bulk.arrivals", &arrivals[..]), ("duration", "10s")];
    let first = run(&changes);
    assert_eq!(first, run(&changes));
    let other = run(&[&changes[..], &[("seed", "2")]].concat());
    assert_ne!(first.fingerprint, other.fingerprint);
    let scenario = scenario(&changes);
    let plain = Simulation::traced(&scenario).finish();
    assert_eq!((plain.fingerprint, plain.transfers), (first.fingerprint, first.transfers));
}
