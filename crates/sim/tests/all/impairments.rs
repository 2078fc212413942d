//! Impairments of links over whole runs, with expected values by arithmetic.

use windward_sim::{LinkOutcome, Outcome, run};

use crate::{balanced, changed};

/// Datagrams of 1000 bytes, one a millisecond from zero to the end, each 0.1 ms on the wire.
const SCENARIO: &str = "
    duration = '2s'
    links = [{ name = 'wire', from = 'a', to = 'b', rate = '80Mbit', delay = '20ms' }]
    flows = [{ group = 'all', cbr = { rate = '8Mbit', packet_size = 1000 }, from = 'a', to = 'b' }]";

fn outcome(changes: &[(&str, &str)]) -> Outcome {
    balanced(run(&changed(SCENARIO, changes)))
}

/// The outcome of the link.
fn wire(changes: &[(&str, &str)]) -> LinkOutcome {
    crate::wire(&outcome(changes)).clone()
}

#[test]
fn a_shorter_route_lets_packets_overtake() {
    // The packet of 100 ms leaves at 100.1 and is there at 105.1 ms; those of 86 to 99 ms come
    // after it, the one of 85 ms at the same instant.
    let shorter = "schedule = [{ at = '0s', delay = '20ms' }, { at = '100ms', delay = '5ms' }]";
    let link = wire(&[("links.wire.delay", &format!("{{ {shorter} }}"))]);
    assert_eq!((link.reordered, link.delivered), (14, 1995));
    let link = wire(&[("links.wire.delay", &format!("{{ {shorter}, in_order = true }}"))]);
    assert_eq!((link.reordered, link.delivered), (0, 1995));
    // Every 200 ms: at 0.1, 0.3 .. 1.9 s.
    let link = wire(&[("links.wire.delay", &format!("{{ {shorter}, repeat = '200ms' }}"))]);
    assert_eq!(link.reordered, 140);
    // A longer one does not.
    let longer = "{ schedule = [{ at = '0s', delay = '5ms' }, { at = '100ms', delay = '20ms' }] }";
    assert_eq!(wire(&[("links.wire.delay", longer)]).reordered, 0);
}

#[test]
fn jitter_reorders_unless_in_order() {
    // Uniform from 0 to 2 ms: one packet comes after the next if its jitter is more than 1 ms above
    // that of the other, with probability 1/8, and never after the one after that. Five standard
    // errors of 20 000 packets, which depend on their neighbours: 5 sqrt(2 / 8 / 20000).
    let long = ("duration", "20s");
    let free = wire(&[long, ("links.wire.jitter", "{ amount = '2ms', in_order = false }")]);
    let share = free.reordered as f64 / free.delivered as f64;
    assert!((share - 0.125).abs() < 0.018, "{share}");
    let held = wire(&[long, ("links.wire.jitter", "2ms")]);
    assert_eq!(held.reordered, 0);
    assert!(held.delivered.abs_diff(free.delivered) <= 2);
    // Jitter that outlasts the run: all that it delays is under way.
    let endless = wire(&[("links.wire.jitter", "{ distribution = 'exponential', mean = '24h' }")]);
    assert!(endless.in_flight > 1900, "{endless:?}");
}

#[test]
fn outages_hold_or_drop() {
    // From 1 s on for 100 ms: the packets of 1000 to 1099 ms come. Fifty may wait.
    let list = "[{ at = '1s', length = '100ms' }]";
    let held = wire(&[("links.wire.outages", list)]);
    assert_eq!((held.dropped, held.corrupted, held.max_queue_packets), (50, 0, 50));
    let all = wire(&[("links.wire.outages", list), ("links.wire.queue", "100p")]);
    assert_eq!((all.dropped, all.corrupted, all.max_queue_packets), (0, 0, 100));
    // Outages do not count as capacity: 2000 x 0.1 ms of 1.9 s.
    assert!((all.utilization - 0.2 / 1.9).abs() < 1e-9, "{all:?}");
    let lost = wire(&[("links.wire.outages", list), ("links.wire.outages.during", "drop")]);
    assert_eq!((lost.dropped, lost.corrupted, lost.max_queue_packets), (0, 100, 0));
    assert!((lost.utilization - 0.1).abs() < 1e-9, "{lost:?}");
    // Ten times 10 ms.
    let often =
        "{ schedule = [{ at = '50ms', length = '10ms' }], repeat = '200ms', during = 'drop' }";
    assert_eq!(wire(&[("links.wire.outages", often)]).corrupted, 100);
    // From some time to the end, and from the start.
    let dead = "[{ at = '500ms', length = '1h' }]";
    let link = wire(&[("links.wire.outages", dead)]);
    assert_eq!((link.delivered, link.in_flight, link.dropped), (500, 50, 1451));
    let late = "[{ at = '0s', length = '500ms' }]";
    assert_eq!(wire(&[("links.wire.outages", late)]).dropped, 450);
}

#[test]
fn a_scheduled_rate_carries_what_it_allows() {
    // 16 Mbit/s offered to 8, 0.8 and 8 Mbit/s for a second each, with 10 packets of queue: 1000,
    // 100 and 1000 packets leave, except for one in transmission.
    let rates = "{ schedule = [{ at = '0s', rate = '8Mbit' }, { at = '1s', rate = '0.8Mbit' },
                               { at = '2s', rate = '8Mbit' }] }";
    let changes = [
        ("duration", "3s"),
        ("links.wire.delay", "0s"),
        ("links.wire.queue", "10p"),
        ("flows.all.cbr.rate", "16Mbit"),
        ("links.wire.rate", rates),
    ];
    let outcome = outcome(&changes);
    let link = &outcome.links[0];
    assert!(link.delivered.abs_diff(2100) <= 1, "{link:?}");
    assert!((link.utilization - 1.0).abs() < 1e-6, "{link:?}");
    let bins = &outcome.groups[0].throughput_bins;
    for (found, expected) in bins.iter().zip([8e6, 0.8e6, 8e6]) {
        assert!((found - expected).abs() <= 8000.0, "{bins:?}");
    }
}

#[test]
fn impairments_without_effect_change_nothing() {
    let tcp = "[{ group = 'all', protocol = 'cubic', from = 'a', to = 'b', count = 2 },
                { group = 'xcp', protocol = 'xcp', from = 'a', to = 'b' }]";
    let common = [
        ("flows", tcp),
        ("links.wire.loss", "0.01"),
        ("links.wire.rate", "8Mbit"),
        ("links.wire.classes", "true"),
        ("duration", "5s"),
    ];
    let with = |change: &[(&str, &str)]| outcome(&[&common[..], change].concat());
    let plain = with(&[]);
    for change in [
        ("links.wire.rate", "{ schedule = [{ at = '0s', rate = '8Mbit' }] }"),
        (
            "links.wire.rate",
            "{ schedule = [{ at = '0s', rate = '8Mbit' }, { at = '3ms', rate = '8Mbit' }],
               repeat = '7ms' }",
        ),
        ("links.wire.delay", "{ schedule = [{ at = '0s', delay = '20ms' }], repeat = '1s' }"),
        ("links.wire.outages", "[{ at = '6s', length = '1s' }]"),
        ("links.wire.outages", "[]"),
        ("links.wire.jitter", "0"),
    ] {
        let other = with(&[change]);
        assert_eq!(other.fingerprint, plain.fingerprint, "{change:?}");
        for (a, b) in plain.links.iter().zip(&other.links) {
            assert!((a.utilization - b.utilization).abs() < 1e-6, "{change:?}: {a:?} {b:?}");
        }
    }
    // Jitter draws from a stream of its own: the same packets are corrupted.
    let corrupted =
        |jitter| wire(&[("links.wire.loss", "0.1"), ("links.wire.jitter", jitter)]).corrupted;
    assert!(corrupted("0").abs_diff(corrupted("1ms")) <= 1, "one may be under way at the end");
}

#[test]
fn late_packets_are_overtaken() {
    // One in ten comes 2.5 ms later, and is overtaken unless the two after it are late too; a late
    // packet before it, or one after it, changes nothing else. One of the two in time: 1 - 0.01.
    // Five standard errors of 20 000 packets: 5 sqrt(0.1 x 0.9 / 20000) = 0.011.
    let long = ("duration", "20s");
    let link = wire(&[long, ("links.wire.reorder", "{ share = 0.1, by = '2.5ms' }")]);
    let share = link.reordered as f64 / link.delivered as f64;
    assert!((share - 0.099).abs() < 0.011, "{share}");
    // If all packets are late, none is overtaken.
    assert_eq!(wire(&[("links.wire.reorder", "{ share = 1, by = '2.5ms' }")]).reordered, 0);
    // By packets as many as follow at once: at 80 Mbit/s each takes 0.1 ms, and none comes within
    // 0.35 ms; on a busy wire three overtake, unless they are late too: 1 - 0.001.
    let by = ("links.wire.reorder", "{ share = 0.1, by = '3p' }");
    assert_eq!(wire(&[by]).reordered, 0);
    let busy = wire(&[by, ("flows.all.cbr.rate", "100Mbit"), ("duration", "2s")]);
    let share = busy.reordered as f64 / busy.delivered as f64;
    assert!((share - 0.0999).abs() < 0.011, "{share}");
}

#[test]
fn packets_that_fail_every_attempt_are_lost() {
    // Half of all attempts fail: with n of them 2^-n is lost. Five standard errors of 20 000.
    let long = ("duration", "20s");
    let loss = ("links.wire.loss", "0.5");
    let first = wire(&[long, loss]).corrupted;
    for attempts in [1, 2, 4] {
        let arq = format!("{{ attempts = {attempts}, delay = '2ms' }}");
        let link = wire(&[long, loss, ("links.wire.arq", &arq)]);
        let p = 0.5_f64.powi(attempts);
        let found = link.corrupted as f64 / link.arrived as f64;
        assert!((found - p).abs() < 5.0 * (p * (1.0 - p) / 20_000.0).sqrt(), "{attempts}: {found}");
        assert_eq!(link.reordered, 0);
        // Frames are sent 1 + 1/2 + .. = 2 (1 - 2^-n) times, of 0.1 ms each millisecond.
        let expected = 0.1 * 2.0 * (1.0 - p);
        assert!((link.utilization - expected).abs() < 0.002, "{attempts}: {}", link.utilization);
        if attempts == 1 {
            assert_eq!(link.corrupted, first);
        }
    }
    let beside = "{ attempts = 4, delay = '2ms', air_time = false }";
    let link = wire(&[long, loss, ("links.wire.arq", beside)]);
    assert!((link.utilization - 0.1).abs() < 1e-6, "{}", link.utilization);
    // A frame that fails the first time is 2.1 ms late: two others are sent before, one of which
    // comes through at once with probability 3/4. One that fails twice is 4.2 ms late, and one that
    // fails three times 6.3 ms: four and six others come before with probability 1 - 2^-4 and
    // 1 - 2^-6 at their first attempt, or two or four of them, sent first, at their second.
    let free = "{ attempts = 2, delay = '2ms', in_order = false, air_time = false }";
    let link = wire(&[long, loss, ("links.wire.arq", free)]);
    // Of four frames one needs its second attempt, and three of four of these are overtaken; one of
    // four is lost.
    let share = link.reordered as f64 / link.delivered as f64;
    let expected = 0.25 * 0.75 / 0.75;
    assert!((share - expected).abs() < 0.018, "{share}");
    // Every packet is lost after the last attempt, and each attempt takes time on the wire.
    let arq = ("links.wire.arq", "{ attempts = 5, delay = '300us' }");
    let link = wire(&[("links.wire.loss", "1"), arq]);
    assert_eq!((link.delivered, link.corrupted), (0, link.arrived - link.in_flight));
    assert!((link.utilization - 0.5).abs() < 0.001, "{}", link.utilization);
    // Retransmissions exceed the capacity: they come first, and the queue fills.
    let arq = ("links.wire.arq", "{ attempts = 20, delay = '300us' }");
    let link = wire(&[("links.wire.loss", "1"), arq]);
    assert!(link.dropped > 900 && link.utilization > 0.99 && link.utilization < 1.0 + 1e-9);
}
