//! Logs of runs over known links, which the fit must find again, and logs that it must refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use windward_logs::CompareOptions;
use windward_logs::qlog::{QlogFiles, QlogOptions};
use windward_sim::Simulation;
use windward_sim::scenario::file::ScenarioFile;

use super::*;
use crate::observed::Observed;

/// A dumbbell, which is not the topology of the fit.
struct Known {
    protocol: &'static str,
    rate_mbit: f64,
    /// One way, of the bottleneck.
    delay_ms: f64,
    queue: f64,
    loss: f64,
    seconds: u32,
    seed: u64,
}

/// Delay of each access link, milliseconds; its rate is 200 Mbit/s.
const ACCESS_MS: f64 = 3.0;

impl Known {
    /// There and back over three links each, with the transmission of 1000 bytes on each, and of
    /// the ACK, of 40 bytes.
    fn base_rtt_s(&self) -> f64 {
        let transmission_ms = |bytes: f64| bytes * 8.0 * (1.0 / self.rate_mbit + 2.0 / 200.0) / 1e3;
        (2.0 * (self.delay_ms + 2.0 * ACCESS_MS) + transmission_ms(1000.0) + transmission_ms(40.0))
            / 1e3
    }

    /// The logs of sender and receiver.
    fn logs(&self, folder: &Path) -> [PathBuf; 2] {
        let Known { protocol, rate_mbit, delay_ms, queue, loss, seconds, seed } = self;
        let text = format!(
            r#"
            duration = "{seconds}s"
            seed = {seed}
            dumbbell.bottleneck = {{ rate = "{rate_mbit}Mbit", delay = "{delay_ms}ms", queue = "{queue}p", loss = {loss} }}
            dumbbell.access = {{ rate = "200Mbit", delay = "{ACCESS_MS}ms", queue = "10000p" }}
            flows = [{{ group = "x", protocol = "{protocol}", packet_size = 1000 }}]"#
        );
        let scenario = ScenarioFile::parse("s.toml", &text).unwrap().build().unwrap();
        let dir = folder.join(format!("{protocol} {seed}"));
        let logs = QlogFiles::create(&dir, &QlogOptions::default(), &scenario).unwrap();
        Simulation::observed(&scenario, logs.observer()).finish();
        logs.commit().unwrap();
        ["sender", "receiver"].map(|end| dir.join(format!("x-1.{end}.sqlog")))
    }
}

fn fitted(log: &Path, protocol: &str, options: &FitOptions) -> Fit {
    fit(log, protocol, options, &AtomicBool::new(false), &|_, _| ())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(log: &Path, protocol: &str) -> String {
    let found = fit(log, protocol, &FitOptions::default(), &AtomicBool::new(false), &|_, _| ());
    found.map_or_else(|error| error.to_string(), |fit| panic!("{fit:?}"))
}

/// True if they differ by less than this share of the second.
fn near(value: f64, truth: f64, share: f64) -> bool {
    (value / truth - 1.0).abs() < share
}

#[test]
fn links_are_found_again_and_another_row_is_farther_away() {
    let folder = tempfile::tempdir().unwrap();
    let of = |protocol, rate_mbit, delay_ms, queue, seed| Known {
        protocol,
        rate_mbit,
        delay_ms,
        queue,
        loss: 0.0,
        seconds: 9,
        seed,
    };
    let all = [
        (of("newreno", 3.3, 31.0, 19.0, 11), None),
        (of("cubic", 5.1, 17.0, 44.0, 12), Some("newreno")),
        (of("cubic", 2.2, 58.0, 13.0, 13), Some("copa")),
        (of("bbr", 2.9, 22.0, 60.0, 14), None),
    ];
    let options = FitOptions { seeds: 3, most_runs: 600, ..FitOptions::default() };
    for (known, other) in all {
        let [log, _] = known.logs(folder.path());
        let fit = fitted(&log, known.protocol, &options);
        let Link { rate_bps, base_rtt_s, queue_packets, random_loss } = fit.link;
        assert!(near(rate_bps, known.rate_mbit * 1e6, 0.05), "{fit:?}");
        assert!(near(base_rtt_s, known.base_rtt_s(), 0.05), "{} {fit:?}", known.base_rtt_s());
        // BBR keeps two BDPs in flight, and does not fill 60 packets with 17 of BDP.
        let [_, _, queue, loss] = fit.ranges;
        if known.protocol == "bbr" {
            assert!(queue.above.unwrap() < 60.0 && queue.below.is_none(), "{fit:?}");
        } else {
            assert!(near(queue_packets, known.queue, 0.2), "{fit:?}");
            // To a packet: the last hops of the dumbbell hold some.
            let holds = queue.above.unwrap() <= known.queue && known.queue <= queue.below.unwrap();
            assert!(holds, "{fit:?}");
        }
        // One loss of the least that is tried is one in seven logs.
        assert!(random_loss == 0.0 && loss.below.unwrap() < 1e-3, "{fit:?}");
        assert!(fit.residual.total < 0.03 && fit.chance.is_none(), "{fit:?}");

        let Some(other) = other else { continue };
        let wrong = fitted(&log, other, &options);
        assert!(wrong.residual.total > 4.0 * fit.residual.total, "{fit:?}\n{wrong:?}");
    }
}

#[test]
fn random_loss_is_found_and_a_queue_that_never_stood_is_not_determined() {
    let folder = tempfile::tempdir().unwrap();
    // The window of NewReno is sqrt(1.5 / 0.02) = 8.7 packets, a tenth of the BDP of 20 Mbit/s
    // times 33 ms, 83 packets.
    let known = Known {
        protocol: "newreno",
        rate_mbit: 20.0,
        delay_ms: 10.0,
        queue: 50.0,
        loss: 0.02,
        seconds: 15,
        seed: 21,
    };
    let [log, _] = known.logs(folder.path());
    let options = FitOptions { seeds: 4, most_runs: 1200, ..FitOptions::default() };
    let fit = fitted(&log, "newreno", &options);
    let [rate, _, queue, loss] = fit.ranges;
    assert!(near(fit.link.base_rtt_s, known.base_rtt_s(), 0.05), "{fit:?}");
    assert!((0.02 / 1.5..0.02 * 1.5).contains(&fit.link.random_loss), "{fit:?}");
    assert!(loss.above.unwrap() < 0.02 && 0.02 < loss.below.unwrap(), "{fit:?}");
    assert!(rate.below.is_none() && queue.below.is_none(), "{fit:?}");
    assert!(fit.runs <= 1200, "{}", fit.runs);
    // A log of the row itself is as far away as chance brings it.
    assert!(fit.residual.total < 2.0 * fit.chance.unwrap(), "{fit:?}");
}

#[test]
fn a_fit_depends_on_its_seed_and_not_on_threads_and_its_run_is_compared_with_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let known = Known {
        protocol: "cubic",
        rate_mbit: 2.0,
        delay_ms: 25.0,
        queue: 20.0,
        loss: 0.0,
        seconds: 8,
        seed: 31,
    };
    let [log, receiver] = known.logs(folder.path());
    let options = FitOptions { threads: 1, ..FitOptions::default() };
    let shares = std::cell::RefCell::new(Vec::new());
    let progress = |share, _| shares.borrow_mut().push(share);
    let one = fit(&log, "cubic", &options, &AtomicBool::new(false), &progress).unwrap();
    assert!(shares.borrow().is_sorted() && shares.borrow().iter().all(|s| (0.0..=1.0).contains(s)));
    assert_eq!(fitted(&log, "cubic", &FitOptions { threads: 3, ..options }), one);

    let compare = CompareOptions::default();
    let comparison = one.compare(&log, &compare, &AtomicBool::new(false)).unwrap();
    let [a, b] = &comparison.logs;
    assert_eq!(b.path, Path::new("cubic on the fitted link"));
    assert!(
        near(b.mean_rate_bps.unwrap(), a.mean_rate_bps.unwrap(), 0.02),
        "{:?}",
        comparison.logs
    );
    assert!(near(b.mean_cwnd.unwrap(), a.mean_cwnd.unwrap(), 0.02), "{:?}", comparison.logs);
    // The scenario is that of the run.
    let scenario = ScenarioFile::parse("s.toml", &one.scenario).unwrap();
    assert!(scenario.stands_alone(), "{}", one.scenario);

    // Few runs still give a link, with a note.
    let cut = fitted(&log, "cubic", &FitOptions { most_runs: 64, ..options });
    assert!(cut.is_cut && cut.runs <= 64, "{cut:?}");
    assert!(cut.notes.iter().any(|note| note.contains("before it had converged")), "{cut:?}");

    let cancel = AtomicBool::new(false);
    let stop = |_, _| cancel.store(true, Ordering::Relaxed);
    let cancelled = fit(&log, "cubic", &options, &cancel, &stop);
    assert!(matches!(cancelled, Err(FitError::Cancelled)), "{cancelled:?}");

    let refused = refusal(&receiver, "cubic");
    assert!(refused.contains("x-1.receiver.sqlog: is the log of a receiver"), "{refused}");
    assert!(refusal(&log, "cubik").contains("(did you mean `cubic`?)"));
    assert!(refusal(&log, "quinn:cubic").contains("`quinn:cubic` is a QUIC stack"));
    assert!(refusal(&folder.path().join("none"), "cubic").contains("none: cannot read"));
}

/// A log by hand: `count` packets of 1200 bytes, one each 10 ms, each acknowledged after 50 ms, two
/// by one acknowledgment, with a window of 12000 bytes. `change` may change or drop an event.
fn by_hand(count: u64, change: impl Fn(&str, &mut Value) -> bool) -> String {
    let mut events = vec![(
        0.0,
        "quic:recovery_parameters_set",
        json!({ "max_datagram_size": 1172, "initial_congestion_window": 11_720 }),
    )];
    for number in 0..count {
        let time = 10.0 * number as f64;
        let header = json!({ "packet_type": "1RTT", "packet_number": number });
        let raw = json!({ "length": 1200 });
        events.push((time, "quic:packet_sent", json!({ "header": header, "raw": raw })));
        if number % 2 == 1 {
            let frame = json!({ "frame_type": "ack", "acked_ranges": [[0, number]] });
            let data = json!({ "header": { "packet_type": "1RTT" }, "frames": [frame] });
            events.push((time + 50.0, "quic:packet_received", data));
            let metrics = json!({
                "smoothed_rtt": 51.0, "congestion_window": 11_720, "bytes_in_flight": 5860
            });
            events.push((time + 50.0, "quic:recovery_metrics_updated", metrics));
        }
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let schema = "urn:ietf:params:qlog:file:sequential";
    let mut text =
        format!("\u{1e}{}\n", json!({ "file_schema": schema, "trace": { "event_schemas": [] } }));
    for (time, name, mut data) in events {
        if change(name, &mut data) {
            text += &format!("\u{1e}{}\n", json!({ "time": time, "name": name, "data": data }));
        }
    }
    text
}

fn observed(log: &Path) -> Observed {
    let (options, cancel) = (ObserveOptions::default(), AtomicBool::new(false));
    Observed::read(log, &options, &cancel).unwrap_or_else(|error| panic!("{error:?}"))
}

#[test]
fn facts_of_a_log_are_those_of_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.sqlog");
    fs::write(&log, by_hand(400, |_, _| true)).unwrap();
    let Observed { facts, series, measured, notes, .. } = observed(&log);
    assert_eq!((facts.packets_sent, facts.packets_acked, facts.packets_lost), (400, 400, 0));
    assert_eq!((facts.packet_bytes, facts.window_unit_bytes), (1200.0, 1172.0));
    assert_eq!(facts.initial_window_packets, Some(10.0));
    assert_eq!(facts.packets_per_ack, 2.0);
    assert!((facts.min_rtt_s - 0.05).abs() < 1e-9, "{facts:?}");
    // Bins are a round trip long, up to half a cell: 4 s in at most 4096 cells of 0.01 ms times a
    // power of two are cells of 1.28 ms.
    assert!((facts.bin_s - 0.05).abs() < 0.64e-3 + 1e-9 && facts.length_s <= 3.99, "{facts:?}");
    // 1200 bytes in 10 ms; a window of four round trips has at most one acknowledgment of two
    // packets more, in 20.
    assert!((0.96e6 * 0.98..0.96e6 * 1.1).contains(&measured.rate_bps), "{measured:?}");
    let is_all = |values: &[f64], value: f64| values.iter().all(|one| (one - value).abs() < 1e-9);
    // Half of the window: nothing is noted.
    assert!(is_all(&series.cwnd, 10.0) && is_all(&series.in_flight, 5.0), "{series:?}");
    assert!(is_all(&series.rtt, 50.0) && is_all(&series.srtt, 51.0), "{series:?}");
    assert_eq!(notes, [] as [&str; 0]);

    // The same in seconds, and with less in flight than half of the window.
    let change = |_: &str, data: &mut Value| {
        if let Some(rtt) = data.get_mut("smoothed_rtt") {
            *rtt = json!(0.051);
            data["bytes_in_flight"] = json!(1172);
        }
        true
    };
    fs::write(&log, by_hand(400, change)).unwrap();
    let Observed { facts, series, notes, .. } = observed(&log);
    assert!(is_all(&series.srtt, 51.0) && facts.rtt_unit_ms == 1000.0, "{series:?}");
    let [seconds, unused] = &notes[..] else { panic!("{notes:?}") };
    assert!(seconds.contains("read as seconds"), "{seconds}");
    assert!(unused.contains("in flight for 100 % of the time"), "{unused}");
}

#[test]
fn what_a_log_lacks_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.sqlog");
    let refused = |text: &str, expected: &str| {
        fs::write(&log, text).unwrap();
        let error = refusal(&log, "cubic");
        assert!(error.contains(expected), "{error}, and not {expected}");
    };
    refused("", "is empty");
    refused(&by_hand(0, |_, _| false), "has no events");
    refused(&by_hand(400, |name, _| name != "quic:packet_sent"), "has no packet_sent events");
    refused(&by_hand(400, |name, _| name != "quic:packet_received"), "acknowledgments of 0 of its");
    refused(
        &by_hand(400, |name, _| name != "quic:recovery_metrics_updated"),
        "has neither congestion_window nor bytes_in_flight",
    );
    let without = |member: &'static str| {
        by_hand(400, move |_, data| {
            data.as_object_mut().unwrap().remove(member);
            true
        })
    };
    refused(&without("raw"), "have no sizes (raw.length)");
    refused(&without("header"), "have no packet numbers");
    // 50 packets in 490 ms: fewer than ten round trips of 50 ms.
    refused(&by_hand(50, |_, _| true), "is too short for a fit");
    // Eight packets that claim 1e9 bytes, in 4 s of an hour: over four bins, of 1.3 s, some 12
    // Gbit/s, which are 4.6e9 packets of 1200 bytes in an hour.
    let hostile = |name: &str, data: &mut Value| {
        let number = data["header"]["packet_number"].as_u64().unwrap_or(0);
        if name == "quic:packet_sent" && number % 50 == 7 {
            data["raw"]["length"] = json!(1e9);
        }
        true
    };
    let late = by_hand(400, hostile);
    let last = json!({ "packet_type": "1RTT", "packet_number": 999 });
    let data = json!({ "header": last, "raw": { "length": 1200 } });
    let last = json!({ "time": 3.6e6, "name": "quic:packet_sent", "data": data });
    refused(&format!("{late}\u{1e}{last}\n"), "is too long for a fit");
}
