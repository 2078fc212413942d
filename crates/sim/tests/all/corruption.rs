//! Explicit transport error notification over whole runs (eten2004): the gain of the four kinds of
//! notification, and the accuracy of LEAST.

use windward_sim::{FlowOutcome, Outcome, run};

use crate::changed;

/// One flow on 10 Mbit/s and 100 ms of RTT: the path holds 125 packets and the queue as many. The
/// receiver window fills both and no more: all loss is corruption.
const SCENARIO: &str = "
    duration = '400s'
    links = [{ name = 'wire', from = 'a', to = 'b', rate = '10Mbit', delay = '50ms',
               queue = '125p', loss = 0.01 }]
    flows = [{ group = 'all', protocol = 'sack', from = 'a', to = 'b', rwnd = 240 }]";

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    run(&changed(SCENARIO, changes))
}

fn flow(protocol: &str, changes: &[(&str, &str)]) -> FlowOutcome {
    let changes: Vec<_> =
        [("flows.all.protocol", protocol)].into_iter().chain(changes.to_vec()).collect();
    outcome(&changes).flows.remove(0)
}

#[test]
fn every_kind_of_notification_works() {
    // Mathis et al. 1997 give sack sqrt(1.5 / 0.01) = 12 of the 125 packets in flight that the path
    // holds. A sender that knows which losses are corruption exceeds this by far, and one that
    // knows how many exceeds it clearly, depending on the accuracy of p.
    let sack = flow("sack", &[]).goodput_bps;
    assert!(sack < 0.15 * 10e6, "{sack}");
    for (protocol, gain) in [("sack-oracle", 4.0), ("ceten-p", 1.5), ("ceten-a", 1.5)] {
        for way in ["forward", "backward"] {
            let told = flow(protocol, &[("flows.all.notification", way)]).goodput_bps;
            assert!(told > gain * sack, "{protocol}, {way}: {told}, and sack {sack}");
        }
    }
}

#[test]
fn a_measured_rate_is_nearly_as_good_as_the_configured_one() {
    for way in ["forward", "backward"] {
        let goodput = |notifier| {
            let changes = [("flows.all.notification", way), ("links.wire.notifier", notifier)];
            flow("ceten-a", &changes).goodput_bps
        };
        let (measured, configured) = (goodput("measured"), goodput("configured"));
        assert!(measured > 0.85 * configured, "{way}: {measured} of {configured}");
    }
}

#[test]
fn without_a_notifier_all_are_plain_sack() {
    // At 10 % there are timeouts, too.
    let changes = [("links.wire.notifier", "off"), ("links.wire.loss", "0.1")];
    let sack = outcome(&changes).fingerprint;
    for protocol in ["sack-oracle", "ceten-p", "ceten-a"] {
        for way in ["forward", "backward"] {
            let more = [("flows.all.protocol", protocol), ("flows.all.notification", way)];
            let told = outcome(&[changes.as_slice(), more.as_slice()].concat());
            assert_eq!(told.fingerprint, sack, "{protocol}, {way}");
        }
    }
}

#[test]
fn n_and_k_shape_the_response() {
    // Equation (1): a large n leaves the standard factor of one half.
    let goodput = |ceten: &'static str| flow("ceten-a", &[("flows.all.ceten", ceten)]).goodput_bps;
    let (plain, cautious) = (goodput("{ n = 1 }"), goodput("{ n = 1e9 }"));
    let sack = flow("sack", &[]).goodput_bps;
    assert!((cautious / sack - 1.0).abs() < 0.02, "{cautious}, and sack {sack}");
    assert!(plain > 1.5 * cautious, "{plain}, and {cautious}");
}

#[test]
fn losses_are_counted_and_least_estimates_them() {
    // A queue of 20 packets overflows, too; acknowledgments and with them DSACKs get through.
    for loss in ["0.003", "0.02", "0.1"] {
        let changes = [("links.wire.loss", loss), ("links.wire.queue", "20p")];
        let outcome = outcome(&changes);
        let (flow, link) = (&outcome.flows[0], &outcome.links[0]);
        let lost = (link.dropped + link.corrupted) as f64 / flow.packets_sent as f64;
        assert!((flow.true_loss - lost).abs() < 1e-12, "{loss}: {} {lost}", flow.true_loss);
        // eten2004 section 4.2: within 10 %.
        let estimate = flow.loss_estimate.unwrap();
        let error = (estimate / flow.true_loss - 1.0).abs();
        assert!(error < 0.1, "{loss}: {estimate} of {}", flow.true_loss);
    }
}

#[test]
fn retransmissions_alone_overestimate() {
    // After a timeout in a window of losses, SACK repeats packets that have arrived; DSACK reports
    // it.
    let flow = flow("sack", &[("links.wire.loss", "0.2"), ("duration", "1000s")]);
    let naive = flow.retransmissions.unwrap() as f64 / flow.packets_sent as f64;
    let estimate = flow.loss_estimate.unwrap();
    assert!(naive >= estimate);
    assert!((estimate - flow.true_loss).abs() <= (naive - flow.true_loss).abs());
}
