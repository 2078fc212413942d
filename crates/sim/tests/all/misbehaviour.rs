//! Misbehaving receivers and routers over whole runs: their gain, and the robustness of senders.

use windward_core::protocols::PROTOCOLS;
use windward_sim::{Outcome, run};

use crate::{balanced, build, error};

fn outcome(text: &str) -> Outcome {
    balanced(run(&build(text)))
}

/// One flow for 20 s over 10 Mbit/s, 40 ms and a queue of a bandwidth-delay product.
fn alone(flow: &str, link: &str) -> Outcome {
    outcome(&format!(
        "duration = '20s'\n\
         dumbbell.bottleneck = {{ rate = '10Mbit', delay = '15ms', queue = '50p', {link} }}\n\
         dumbbell.access = {{ rate = '100Mbit', delay = '2500us', queue = '10000p' }}\n\
         flows = [{{ group = 'a', {flow} }}]"
    ))
}

const RECEIVERS: [&str; 6] = [
    "'optimistic'",
    "{ kind = 'optimistic', ahead = 1000 }",
    "'divides'",
    "{ kind = 'divides', pieces = 50 }",
    "'duplicates'",
    "'hides-marks'",
];

#[test]
fn every_sender_survives_every_receiver() {
    for protocol in PROTOCOLS {
        for receiver in RECEIVERS {
            let text = format!(
                "duration = '3s'\n\
                 dumbbell.bottleneck = {{ rate = '5Mbit', delay = '10ms', queue = '20p', loss = 0.01 }}\n\
                 dumbbell.access = {{ rate = '50Mbit', delay = '1ms' }}\n\
                 flows = [\n\
                 {{ group = 'liar', protocol = '{0}', receiver = {receiver}, ecn = true }},\n\
                 {{ group = 'late', protocol = '{0}', receiver = {receiver}, delayed_acks = true, \
                   size = '300p' }},\n\
                 {{ group = 'honest', protocol = '{0}' }}]",
                protocol.name
            );
            let outcome = outcome(&text);
            // Goodput counts real arrivals: no more than left the link.
            let delivered = outcome.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
            assert!(delivered <= 5e6, "{} {receiver}: {delivered}", protocol.name);
            assert!(delivered > 0.0, "{} {receiver}", protocol.name);
        }
    }
}

#[test]
fn optimism_hides_losses() {
    // Random losses of 2 % keep an honest NewReno at 1.22 / sqrt(0.02) = 8.6 packets, of 40 ms:
    // 1.7 Mbit/s. The sender with the optimistic receiver learns of no loss.
    let honest = alone("protocol = 'newreno'", "loss = 0.02");
    let liar = alone("protocol = 'newreno', receiver = 'optimistic'", "loss = 0.02");
    assert!(honest.flows[0].goodput_bps < 2.5e6, "{}", honest.flows[0].goodput_bps);
    assert_eq!(liar.flows[0].retransmissions, Some(0));
    let own = &liar.flows[0];
    // The link is full except for slow start. The losses are 2 % of the packets sent and those that
    // the queue dropped.
    assert!(own.throughput_bps > 9.5e6, "{}", own.throughput_bps);
    assert!((own.goodput_bps / own.throughput_bps - 0.98).abs() < 0.005);
    assert!(own.true_loss > 0.02);
}

#[test]
fn acknowledging_ahead_shortens_the_round_trip() {
    // A window of 10 packets for each 40 ms is 2 Mbit/s. Acknowledging 10 packets ahead keeps twice
    // as many under way.
    let flow = "protocol = 'newreno', rwnd = 10";
    let honest = alone(flow, "").flows[0].throughput_bps;
    let ahead = alone(&format!("{flow}, receiver = {{ kind = 'optimistic', ahead = 10 }}"), "");
    let ahead = ahead.flows[0].throughput_bps;
    assert!((ahead / honest - 2.0).abs() < 0.05, "{honest} {ahead}");
}

#[test]
fn division_pays_where_acknowledgments_are_counted() {
    // Slow start of 62 packets from a window of 2: 2, 4, 8, 16, 32 in five round trips. Each packet
    // in four pieces lets the window grow by four: 2, 10, 50 in three. In 31 pieces: 2, 64 in two.
    let time = |more: &str| {
        let flow = format!("protocol = 'newreno', size = '62p', {more}");
        outcome(&format!(
            "duration = '5s'\n\
             dumbbell.bottleneck = {{ rate = '1Gbit', delay = '50ms', queue = '1000p' }}\n\
             dumbbell.access = {{ rate = '1Gbit', delay = 0, queue = '10000p' }}\n\
             flows = [{{ group = 'a', {flow} }}]"
        ))
        .flows[0]
            .completed
            .unwrap()
            .as_secs_f64()
    };
    for (more, trips) in [
        ("receiver = 'honest'", 5.0),
        ("receiver = 'divides'", 3.0),
        ("receiver = { kind = 'divides', pieces = 31 }", 2.0),
        ("receiver = { kind = 'divides', pieces = 31 }, byte_counting = true", 5.0),
    ] {
        let time = time(more);
        assert!((time - 0.1 * trips).abs() < 0.005, "{more}: {time}");
    }
}

#[test]
fn hidden_marks_win_a_queue_that_marks() {
    let aqm = "aqm = { kind = 'codel', ecn = true }";
    let flows = |receiver: &str| {
        format!(
            "duration = '20s'\nwarmup = '5s'\n\
             dumbbell.bottleneck = {{ rate = '10Mbit', delay = '15ms', queue = '1000p', {aqm} }}\n\
             dumbbell.access = {{ rate = '100Mbit', delay = '2500us' }}\n\
             flows = [{{ group = 'liar', protocol = 'newreno', ecn = true, receiver = '{receiver}' }},\n\
             {{ group = 'honest', protocol = 'newreno', ecn = true }}]"
        )
    };
    let share = |receiver| {
        let outcome = outcome(&flows(receiver));
        outcome.flows[0].goodput_bps / (outcome.flows[0].goodput_bps + outcome.flows[1].goodput_bps)
    };
    // Two honest flows share the link, though not evenly in so short a time.
    let honest = share("honest");
    assert!((0.25..0.75).contains(&honest), "{honest}");
    // The misbehaving flow has more than twice the share of the other.
    let liar = share("hides-marks");
    assert!(liar > 2.0 / 3.0, "{liar}");
}

#[test]
fn forged_grants_overrun_a_queue_and_forged_marks_starve_a_flow() {
    // Honest XCP loses no packet. With a megabyte a second granted in every packet, it overruns any
    // queue.
    let honest = alone("protocol = 'xcp'", "");
    assert_eq!(honest.links.iter().map(|link| link.dropped).sum::<u64>(), 0);
    let granted = alone("protocol = 'xcp'", "router = { kind = 'forged', grant = 1e6 }");
    assert!(granted.flows[0].true_loss > 0.02, "{}", granted.flows[0].true_loss);
    // Marks on all packets hold DCTCP at its minimum window: two packets per 40 ms, 0.4 Mbit/s, or
    // fewer.
    let marked = alone("protocol = 'dctcp'", "router = { kind = 'forged', marks = 'all' }");
    assert!(marked.flows[0].throughput_bps < 0.5e6, "{}", marked.flows[0].throughput_bps);
    let full = alone("protocol = 'dctcp'", "router = { kind = 'forged', marks = 'none' }");
    assert!(full.flows[0].throughput_bps > 8e6, "{}", full.flows[0].throughput_bps);
    // The same for the flag of XTCP.
    let flagged = alone("protocol = 'lr-xtcp'", "router = { kind = 'forged', marks = 'all' }");
    assert!(flagged.flows[0].throughput_bps < 0.5e6, "{}", flagged.flows[0].throughput_bps);
}

#[test]
fn a_fixed_window_does_not_yield() {
    let text = "duration = '30s'\nwarmup = '5s'\n\
         dumbbell.bottleneck = { rate = '10Mbit', delay = '15ms', queue = '20p' }\n\
         dumbbell.access = { rate = '100Mbit', delay = '2500us' }\n\
         flows = [{ group = 'greedy', protocol = { window = 'fixed-window', recovery = 'sack' }, \
         fixed_window = { window = 100 } },\n{ group = 'newreno', protocol = 'newreno' }]";
    let outcome = outcome(text);
    // A hundred packets exceed the 50 on the path and 20 in the queue: the flow keeps the queue
    // full.
    assert!(outcome.flows[0].goodput_bps > 8e6, "{}", outcome.flows[0].goodput_bps);
    assert!((outcome.flows[0].mean_cwnd_packets.unwrap() - 100.0).abs() < 1e-9);
}

#[test]
fn impossible_receivers_are_refused() {
    let text = |flow: &str| {
        format!(
            "duration = '1s'\ndumbbell.bottleneck = {{ rate = '1Mbit', delay = 0 }}\n\
             dumbbell.access = {{ rate = '1Mbit', delay = 0 }}\nflows = [{{ group = 'a', {flow} }}]"
        )
    };
    for (receiver, message) in [
        ("receiver = 'optimist'", "unknown word"),
        ("receiver = { ahead = 3 }", "`kind` is missing"),
        ("receiver = { kind = 'divides', pieces = 1 }", "must lie between 2 and 1000"),
        ("receiver = { kind = 'divides', copies = 3 }", "does not apply to a receiver of kind"),
        ("receiver = 5", "expected a string"),
    ] {
        let error = error(&text(&format!("protocol = 'newreno', {receiver}")));
        assert!(error.contains(message), "{receiver}\n{error}");
    }
    let error = error(&text("cbr = { rate = '1Mbit' }, receiver = 'divides'"));
    assert!(error.contains("only protocols of the table"), "{error}");
}
