//! Traffic other than bulk transfers, over whole runs: transfers that arrive at random, and delays
//! of datagrams.

use windward_core::units::Time;
use windward_sim::{Outcome, Scenario, run};

use crate::{build, error};

/// A link of 10 Mbit/s and a round trip of 60 ms and a little.
const PATH: &str = r#"
    dumbbell.bottleneck = { rate = "10Mbit", delay = "20ms", queue = "1000p" }
    dumbbell.access = { rate = "100Mbit", delay = "5ms", queue = "1000p" }
"#;

fn web(duration: &str, more: &str, arrivals: &str) -> Scenario {
    build(&format!(
        "duration = '{duration}'\n{PATH}\n[[flows]]\ngroup = 'web'\nprotocol = 'newreno'\n{more}\n\
         arrivals = {{ {arrivals} }}"
    ))
}

fn completion_times(outcome: &Outcome) -> Vec<f64> {
    let times = outcome
        .transfers
        .iter()
        .map(|t| t.completion_time().map(windward_core::units::Duration::as_secs_f64));
    times.map(|time| time.expect("it ended")).collect()
}

#[test]
fn a_packet_alone_takes_a_round_trip() {
    // There: 30 ms, and 1000 bytes at 100, 10 and 100 Mbit/s, 0.08 + 0.8 + 0.08 ms. Back: 30 ms,
    // and 40 bytes, 3.2 + 32 + 3.2 us: 60.9984 ms. Two a second seldom meet, and wait 0.8 ms then.
    let scenario = web("60s", "", "rate = 2, until = '50s', sizes = '1p'");
    let outcome = run(&scenario);
    let times = completion_times(&outcome);
    assert!((60..=140).contains(&times.len()), "100, give or take four times its root");
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    assert!((least - 0.060_998_4).abs() < 1e-9, "{least}");
    assert!(times.iter().all(|time| *time < 0.060_998_4 + 0.0016));
}

#[test]
fn transfers_are_connections_like_others() {
    let graph = r#"
        duration = "30s"
        [[links]]
        from = "a"
        to = "b"
        rate = "10Mbit"
        delay = "20ms"
        queue = "30p"
    "#;
    let arrivals = "rate = 20, until = '20s', sizes = { distribution = 'pareto', shape = 1.2, \
                    mean = '20kB', most = '1MB' }";
    let drawn = build(&format!(
        "{graph}\n[[flows]]\ngroup = 'web'\nprotocol = 'newreno'\nfrom = 'a'\nto = 'b'\n\
         arrivals = {{ {arrivals} }}"
    ));
    let outcome = run(&drawn);
    assert!(outcome.transfers.len() > 200 && outcome.links[0].dropped > 100);
    let mut written = graph.to_owned();
    for (n, transfer) in outcome.transfers.iter().enumerate() {
        written += &format!(
            "\n[[flows]]\ngroup = 'f{n}'\nprotocol = 'newreno'\nfrom = 'a'\nto = 'b'\n\
             start = '{}ps'\nsize = '{}p'",
            transfer.start.as_ps(),
            transfer.packets
        );
    }
    let one_by_one = run(&build(&written));
    for (flow, transfer) in one_by_one.flows.iter().zip(&outcome.transfers) {
        assert_eq!(flow.completed, transfer.completed, "{transfer:?}");
        assert_eq!(flow.packets_sent, transfer.packets_sent);
    }
    // The row of the pair is the sum of its transfers.
    let sum = |read: fn(&windward_sim::FlowOutcome) -> f64| {
        one_by_one.flows.iter().map(read).sum::<f64>()
    };
    assert!((outcome.flows[0].goodput_bps / sum(|f| f.goodput_bps) - 1.0).abs() < 1e-12);
    assert_eq!(outcome.flows[0].packets_sent as f64, sum(|f| f.packets_sent as f64));
    assert_eq!(outcome.groups[0].throughput_bps, outcome.flows[0].throughput_bps);
}

#[test]
fn each_seed_draws_anew() {
    let mut scenario = web("20s", "count = 3", "rate = 10, until = '15s', sizes = ['1kB', '20kB']");
    let first = run(&scenario);
    assert_eq!(run(&scenario), first);
    scenario.seed += 1; // As repetitions of an experiment do.
    let second = run(&scenario);
    let starts = |outcome: &Outcome| outcome.transfers.iter().map(|t| t.start).collect::<Vec<_>>();
    assert_ne!(starts(&first), starts(&second));
    assert!((0..3).all(|pair| first.transfers.iter().any(|t| t.flow == pair)));
    assert!(first.transfers.iter().all(|t| t.start < Time::from_ps(15_000_000_000_000)));
}

#[test]
fn load_is_a_share_of_the_bottleneck() {
    // 100 packets of 1000 bytes each: 6.25 transfers a second, 625 in 100 s, give or take 25.
    let scenario = web("110s", "count = 2", "load = 0.5, until = '100s', sizes = '100kB'");
    let outcome = run(&scenario);
    let count = outcome.transfers.len() as f64;
    assert!((count - 625.0).abs() < 5.0 * 25.0, "{count}");
    // All transfers are complete, and the link carried their sum.
    let carried = count * 100.0 * 8000.0 / 110.0;
    assert!((outcome.groups[0].goodput_bps / carried - 1.0).abs() < 1e-9);
    let predicted = scenario.predicted_packet_hops();
    assert!((outcome.packet_hops as f64 / predicted - 1.0).abs() < 0.25, "{predicted}");
}

#[test]
fn impossible_arrivals_are_refused_with_a_reason() {
    for (arrivals, message) in [
        ("arrivals = { rate = 0, sizes = '1kB' }", "must be more than 0"),
        ("arrivals = { rate = nan, sizes = '1kB' }", "must lie between 0 and 1000000000"),
        ("arrivals = { load = 5, sizes = '1kB' }", "must lie between 0 and 2"),
        ("arrivals = { rate = 1, load = 0.5, sizes = '1kB' }", "already have `rate`"),
        ("arrivals = { sizes = '1kB' }", "`rate` or `load` is missing"),
        ("arrivals = { rate = 1 }", "`sizes` is missing"),
        ("arrivals = { rate = 1, sizes = '0kB' }", "must be more than zero"),
        ("arrivals = { rate = 1, sizes = [] }", "must have at least one size"),
        (
            "arrivals = { rate = 1, sizes = '1kB', from = '5s', until = '5s' }",
            "must be later than `from`, 5s",
        ),
        ("arrivals = { rate = 1, sizes = '1kB', from = '10s' }", "before the run ends"),
        ("arrivals = { rate = 1e9, sizes = '1kB' }", "about 10000000000 transfers"),
        ("arrivals = { load = 2, sizes = '1B' }, packet_size = 1", "transfers are expected"),
        (
            "arrivals = { rate = 1, sizes = '1kB' }, size = '1MB'",
            "cannot be combined with `arrivals`",
        ),
        (
            "arrivals = { rate = 1, sizes = '1kB' }, start = '1s'",
            "cannot be combined with `arrivals`",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'pareto', shape = 1, mean = '1kB' } }",
            "have no mean",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'pareto', shape = 1.2, mean = '2kB', \
             most = '1kB' } }",
            "`mean`, 2000 bytes, must be less than `most`, 1000 bytes",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'pareto', shape = 0.1, mean = '2kB', \
             most = '1TB' } }",
            "below one byte",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'exponential', mean = '1kB', most = \
             '2kB' } }",
            "does not apply to this distribution, which takes `mean`",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'lognormal', mean = '1kB', sigma = nan } }",
            "must lie between 0 and 10",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'cdf', points = [['1kB', 0.5], ['900B', \
             1]] } }",
            "must not decrease from point to point",
        ),
        (
            "arrivals = { rate = 1, sizes = { distribution = 'cdf', points = [['1kB', 0.5]] } }",
            "the last point of a distribution has the share 1",
        ),
        ("arrivals = { rate = 1, sizes = { distribution = 'zipf' } }", "unknown word"),
    ] {
        let error = error(&format!(
            "duration = '10s'\n{PATH}\nflows = [{{ group = 'web', protocol = 'newreno', {arrivals} }}]"
        ));
        assert!(error.contains(message), "{arrivals}\n{error}");
    }
    let datagrams = format!(
        "duration = '10s'\n{PATH}\nflows = [{{ group = 'web', cbr = {{ rate = '1Mbit' }}, \
         arrivals = {{ rate = 1, sizes = '1kB' }} }}]"
    );
    assert!(error(&datagrams).contains("does not apply to datagrams"));
}

#[test]
fn datagrams_without_queueing_have_the_delay_of_the_path() {
    // 200 bytes: 30 ms, and 16 + 160 + 16 us.
    let scenario = build(&format!(
        "duration = '10s'\nwarmup = '1s'\n{PATH}\nflows = [{{ group = 'voice', count = 2, cbr = {{ \
         rate = '64kbit', packet_size = 200 }}, start = ['0s', '1s'] }}]"
    ));
    let outcome = run(&scenario);
    let delays = outcome.groups[0].delays.as_deref().unwrap();
    assert_eq!(delays.least().unwrap().as_ps(), 30_192_000_000);
    // Two streams of 40 a second may collide: then one waits for at most 160 us.
    assert!(delays.greatest().unwrap().as_ps() <= 30_352_000_000);
    assert_eq!(outcome.groups[0].datagrams_lost, Some(0));
    // Arrivals of 9 s at 40 a second each.
    assert!((delays.count() as f64 - 720.0).abs() <= 2.0, "{}", delays.count());
    let mean = delays.mean().unwrap();
    let own = outcome.flows.iter().map(|f| f.mean_delay_s.unwrap());
    let mean = mean.as_secs_f64();
    assert!(own.clone().any(|own| own <= mean) && own.clone().any(|own| own >= mean));
    assert_eq!(outcome.groups[0].mean_delay_s, Some(mean));
}

#[test]
fn datagrams_in_excess_wait_for_a_full_queue_or_are_lost() {
    // 2 Mbit/s into 1 Mbit/s: half are lost. A packet of 8 ms that finds 49 waiting and one in
    // transmission waits for 49 to 50 of them: with its own transmission and 0.08 ms at either end,
    // 30 ms + 0.16 ms + 400 to 408 ms.
    let scenario = build(
        "duration = '60s'\nwarmup = '10s'\n\
         dumbbell.bottleneck = { rate = '1Mbit', delay = '20ms', queue = '50p' }\n\
         dumbbell.access = { rate = '100Mbit', delay = '5ms' }\n\
         flows = [{ group = 'flood', cbr = { rate = '2Mbit' } }]",
    );
    let outcome = run(&scenario);
    let group = &outcome.groups[0];
    let loss = group.datagrams_lost.unwrap() as f64 / group.packets_sent as f64;
    assert!((loss - 0.5).abs() < 0.001, "{loss}");
    let delays = group.delays.as_deref().unwrap();
    for share in [0.01, 0.5, 0.99] {
        let ms = delays.quantile(share).unwrap().as_secs_f64() * 1e3;
        assert!((430.0 / 1.008..=438.2 * 1.008).contains(&ms), "{share}: {ms}");
    }
}

#[test]
fn media_is_on_time_on_an_idle_path_and_late_in_a_full_queue() {
    let call = |others: &str, queue: &str| {
        let scenario = build(&format!(
            "duration = '40s'\nwarmup = '10s'\n\
             dumbbell.bottleneck = {{ rate = '10Mbit', delay = '20ms', queue = '{queue}' }}\n\
             dumbbell.access = {{ rate = '100Mbit', delay = '5ms' }}\n\
             flows = [{{ group = 'call', media = {{ rate = '1Mbit' }} }}, {others}]"
        ));
        run(&scenario)
    };
    let alone = call("", "1000p");
    let media = alone.flows[0].metrics;
    // 30 frames a second for 30 s; their intervals scatter by 0.15 sqrt(2): 900 give or take 6.4.
    let frames = media.frames.unwrap();
    assert!((frames as f64 - 900.0).abs() < 5.0 * 6.4 + 5.0, "{frames}");
    assert_eq!((media.late_frames, media.circuit_breaker_trips), (Some(0), Some(0)));
    // Sizes scatter in the same way: 1 Mbit/s give or take 0.7 %.
    let goodput = alone.flows[0].goodput_bps;
    assert!((goodput / 1e6 - 1.0).abs() < 0.05, "{goodput}");

    // CUBIC keeps a queue of 1000 packets, 0.8 s, more than half full.
    let beside = call("{ group = 'bulk', protocol = 'cubic' }", "1000p");
    let media = beside.flows[0].metrics;
    assert!(media.late_frames.unwrap() as f64 > 0.9 * media.frames.unwrap() as f64, "{media:?}");

    // A flood of 20 Mbit/s leaves the call half of its packets, behind a queue of 0.4 s. TCP would
    // have 1000 / (0.46 sqrt(1/3)) = 3.8 kB/s with packets of 1000 bytes (RFC 8083 section 4.3),
    // less than a tenth of 125. RTTs from 0.06 to 0.46 s make intervals of 3 to 5 reports: the
    // breaker trips after 4 to 6 s, repeatedly.
    let flooded = call("{ group = 'flood', cbr = { rate = '20Mbit' } }", "500p");
    let media = flooded.flows[0].metrics;
    let trips = media.circuit_breaker_trips.unwrap();
    assert!(media.late_frames == media.frames && (6..=10).contains(&trips), "{media:?}");
    assert!(
        media.circuit_breaker_first.is_some_and(|first| (4.0..=6.0).contains(&first.as_secs_f64())),
        "{media:?}"
    );
}

#[test]
fn impossible_media_is_refused_with_a_reason() {
    for (media, message) in [
        ("{ rate = '1Mbit', fps = 0 }", "must be more than 0"),
        ("{ rate = '1Mbit', fps = nan }", "must lie between"),
        ("{ fps = 30 }", "`rate` is missing"),
        ("{ rate = '0Mbit' }", "rate"),
        ("{ rate = '100Tbit', fps = 1 }", "more than 10000"),
        ("{ rate = '1Mbit', variation = 2 }", "must lie between 0 and 1"),
        ("{ rate = '1Mbit', report_interval = 0 }", "must lie between"),
        ("{ rate = '1Mbit', mean_on = '1s' }", "unknown key"),
    ] {
        let text =
            format!("duration = '10s'\n{PATH}\nflows = [{{ group = 'call', media = {media} }}]");
        let error = error(&text);
        assert!(error.contains(message), "{media}\n{error}");
    }
}
