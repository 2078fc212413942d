//! Media that adapts, over whole runs. RFC 8867 states in words what to expect; the bounds here are
//! wider than what the experiments in `experiments/media` show.

use windward_sim::{Outcome, Scenario, run};

use crate::{alike_in_all_ways, build, error};

const CONTROLLERS: [&str; 4] = ["nada", "scream", "scream2", "gcc"];

/// A stream of 150 to 1500 kbit/s over a link with a propagation delay of 50 ms and a queue of
/// 37.5 kB, which is 300 ms at 1 Mbit/s (RFC 8867 section 4.2).
fn scenario(controller: &str, times: &str, link: &str, more: &str) -> Scenario {
    build(&format!(
        "{times}\nlinks = [{{ name = 'link', from = 'a', to = 'b', delay = '50ms', {link} }}]\n\
         [[flows]]\ngroup = 'video'\nfrom = 'a'\nto = 'b'\n\
         media = {{ rate = '150kbit', packet_size = 1200, controller = {controller} }}\n{more}"
    ))
}

fn quoted(controller: &str) -> String {
    format!("'{controller}'")
}

fn loss(outcome: &Outcome, flow: usize) -> f64 {
    let flow = &outcome.flows[flow].metrics;
    flow.datagrams_lost.unwrap() as f64 / flow.packets_sent as f64
}

#[test]
fn a_stream_converges_to_the_capacity() {
    for controller in CONTROLLERS {
        let times = "duration = '70s'\nwarmup = '40s'";
        let link = "rate = '1Mbit', queue = '37500B'";
        let outcome = run(&scenario(&quoted(controller), times, link, ""));
        let media = &outcome.flows[0];
        assert_eq!(media.protocol, controller);
        // At least 80 % of the link, without losses, and a queue that is half full at most: 50 ms
        // of propagation, 10 of transmission, 150 of queue. SCReAM takes its own queue for that of
        // a competitor and raises its target (RFC 8298 section 4.1.2.3): the queue may be full.
        assert!((0.8e6..=1.01e6).contains(&media.goodput_bps), "{controller}: {media:?}");
        assert!(loss(&outcome, 0) < 0.01, "{controller}: {media:?}");
        let longest = if controller == "scream" { 0.36 } else { 0.21 };
        assert!(media.mean_delay_s.unwrap() < longest, "{controller}: {media:?}");
        // The target is what the link carries, give or take what the controller tries out.
        let target = media.metrics.target_rate_bps.unwrap();
        assert!((target / media.goodput_bps - 1.0).abs() < 0.1, "{controller}: {media:?}");
        // Reports of 48 bytes and more each 20 to 100 ms: 3.8 to 32 kbit/s.
        let reports = media.metrics.report_rate_bps.unwrap();
        assert!((3_840.0..=32_000.0).contains(&reports), "{controller}: {media:?}");
    }
}

#[test]
fn a_stream_follows_a_drop_of_the_capacity() {
    for controller in CONTROLLERS {
        // RFC 8867 section 5.1: from 2.5 to 0.6 Mbit/s. Ten seconds later, it is over.
        let times = "duration = '60s'\nwarmup = '40s'";
        let link = "queue = '37500B', rate = { schedule = [{ at = '0s', rate = '2500kbit' }, \
                    { at = '30s', rate = '600kbit' }] }";
        let outcome = run(&scenario(&quoted(controller), times, link, ""));
        let media = &outcome.flows[0];
        assert!((0.42e6..=0.606e6).contains(&media.goodput_bps), "{controller}: {media:?}");
        assert!(loss(&outcome, 0) < 0.02, "{controller}: {media:?}");
    }
}

#[test]
fn neither_a_stream_nor_tcp_starves_the_other() {
    for controller in CONTROLLERS {
        // RFC 8867 section 5.6: in the worst case, a stream falls to its minimum rate.
        let tcp = "[[flows]]\ngroup = 'bulk'\nprotocol = 'newreno'\nfrom = 'a'\nto = 'b'\n\
                   packet_size = 1500\ninitial_window = 10";
        let times = "duration = '120s'\nwarmup = '30s'";
        let outcome =
            run(&scenario(&quoted(controller), times, "rate = '2Mbit', queue = '75kB'", tcp));
        let [media, bulk] = &outcome.flows[..] else { panic!("two flows") };
        assert!(media.goodput_bps > 0.9 * 150e3, "{controller}: {media:?}");
        assert!(bulk.goodput_bps > 0.1 * 2e6, "{controller}: {bulk:?}");
        assert!(outcome.links[0].utilization > 0.9, "{controller}: {:?}", outcome.links[0]);
    }
}

#[test]
fn marks_take_the_place_of_losses() {
    for controller in ["nada", "scream", "scream2"] {
        let times = "duration = '70s'\nwarmup = '20s'";
        let link = "rate = '1Mbit', queue = '37500B', aqm = { kind = 'codel', ecn = true }";
        let ecn = run(&scenario(&format!("'{controller}', ecn = true"), times, link, ""));
        let media = &ecn.flows[0];
        assert!(ecn.links[0].marked > 0, "{controller}");
        assert_eq!(media.metrics.datagrams_lost, Some(0), "{controller}: {media:?}");
        assert!((0.6e6..=1.0e6).contains(&media.goodput_bps), "{controller}: {media:?}");
    }
}

#[test]
fn an_l4s_stream_keeps_the_queue_of_l4s_short() {
    // DualPI2 marks ECT(1) from 0.8 to 1.2 ms of queueing delay, ECT(0) by a target of 15 ms. The
    // delay is 50 ms of propagation, 10 of transmission, and at most a few packets of a frame.
    let times = "duration = '70s'\nwarmup = '20s'";
    let link = "rate = '1Mbit', queue = '37500B', aqm = 'dualpi2'";
    let [l4s, classic] = [true, false].map(|l4s| {
        let kind = format!("{{ kind = 'scream2', l4s = {l4s} }}, ecn = true");
        let outcome = run(&scenario(&kind, times, link, ""));
        assert!(outcome.links[0].marked > 0, "l4s = {l4s}");
        let media = &outcome.flows[0];
        // In overload, classic packets are dropped (RFC 9332 appendix A.2).
        assert!(loss(&outcome, 0) < if l4s { f64::MIN_POSITIVE } else { 0.01 }, "{media:?}");
        assert!((0.6e6..=1.0e6).contains(&media.goodput_bps), "l4s = {l4s}: {media:?}");
        media.mean_delay_s.unwrap()
    });
    assert!(l4s < 0.08 && l4s < classic, "{l4s} {classic}");
}

#[test]
fn a_stream_survives_an_outage() {
    for controller in CONTROLLERS {
        // Nothing arrives for five seconds. A window that was full opens again by a probe.
        let times = "duration = '60s'\nwarmup = '45s'";
        let link = "rate = '1Mbit', queue = '37500B', outages = [{ at = '20s', length = '5s' }]";
        let outcome = run(&scenario(&quoted(controller), times, link, ""));
        let media = &outcome.flows[0];
        assert!(media.goodput_bps > 0.5e6, "{controller}: {media:?}");
    }
}

#[test]
fn a_stream_that_stops_leaves_what_waits() {
    for controller in CONTROLLERS {
        // At 10 s the rate of the link falls to a tenth, so that packets wait in the sender when
        // the stream stops. Reports that open the window come later.
        let times = "duration = '30s'";
        let link = "queue = '100kB', rate = { schedule = [{ at = '0s', rate = '1500kbit' }, \
                    { at = '10s', rate = '150kbit' }] }";
        let stop = "stop = '11s'\n";
        let outcome = run(&scenario(&quoted(controller), times, link, stop));
        let media = &outcome.flows[0];
        // 10 s with at most 1500 kbit/s and 20 s with 150 are 2250 packets of 1200 bytes.
        assert!((100..=2250).contains(&media.packets_sent), "{controller}: {media:?}");
    }
}

#[test]
fn priorities_are_shares() {
    // RFC 8867 section 6.1: a stream of priority 2 has about twice the rate of the others; RFC 8698
    // equation 5. Over 2 Mbit/s, x_ref 2 RMAX / r1 = x_ref RMAX / r2, so that r1 = 2 r2: 1000, 500
    // and 500 kbit/s, below the maximum.
    let other = |name: &str| {
        format!(
            "[[flows]]\ngroup = '{name}'\nfrom = 'a'\nto = 'b'\n\
             media = {{ rate = '150kbit', packet_size = 1200, controller = 'nada' }}\n"
        )
    };
    let others = format!("{}{}", other("second"), other("third"));
    let times = "duration = '200s'\nwarmup = '100s'";
    let link = "rate = '2Mbit', queue = '75kB'";
    let outcome = run(&scenario("{ kind = 'nada', priority = 2 }", times, link, &others));
    let rates: Vec<f64> = outcome.flows.iter().map(|flow| flow.goodput_bps).collect();
    for other in &rates[1..] {
        assert!((1.7..=2.3).contains(&(rates[0] / other)), "{rates:?}");
    }
}

#[test]
fn shortcuts_of_the_engine_change_nothing() {
    for controller in CONTROLLERS {
        let tcp = "[[flows]]\ngroup = 'bulk'\nprotocol = 'cubic'\nfrom = 'a'\nto = 'b'\n\
                   packet_size = 1500";
        let times = "duration = '20s'\nseed = 3";
        let link = "rate = '2Mbit', queue = '75kB', loss = 0.01, reverse = { loss = 0.05 }";
        let scenario = scenario(&quoted(controller), times, link, tcp);
        let fast = alike_in_all_ways(controller, &scenario);
        assert!(fast.links[1].corrupted > 0, "no report is lost");
    }
}

#[test]
fn impossible_adaptations_are_refused_with_a_reason() {
    let error = |media: &str| {
        error(&format!(
            "duration = '1s'\nlinks = [{{ from = 'a', to = 'b', rate = '1Mbit', delay = '1ms' }}]\n\
             flows = [{{ group = 'v', from = 'a', to = 'b', media = {{ {media} }} }}]"
        ))
    };
    for (media, message) in [
        ("rate = '1Mbit', controller = 'cubic'", "valid: nada, scream, scream2, gcc"),
        ("rate = '1Mbit', max_rate = '2Mbit'", "media with a `controller`"),
        ("rate = '2Mbit', controller = 'nada'", "in the range of rates, 150kbit to 1.5Mbit"),
        ("rate = '100kbit', controller = 'nada'", "in the range of rates"),
        ("rate = '1Mbit', controller = { kind = 'nada', kapa = 1 }", "did you mean `kappa`"),
        ("rate = '1Mbit', controller = { kind = 'gcc', kappa = 1 }", "has no such parameter"),
        (
            "rate = '1Mbit', controller = { kind = 'scream', target_low = '500ms' }",
            "above target_high",
        ),
        (
            "rate = '1Mbit', controller = { kind = 'scream2', target_low = '500ms' }",
            "above target_high",
        ),
        ("rate = '1Mbit', controller = { kind = 'scream2', l4s = true }", "needs `ecn = true`"),
        (
            "rate = '1Mbit', controller = { kind = 'scream2', overhead_max = 1 }",
            "above overhead_max",
        ),
        ("rate = '1Mbit', controller = { kind = 'nada', tau = '0s' }", "tau"),
    ] {
        let error = error(media);
        assert!(error.contains(message), "{media}\n{error}");
    }
}
