//! Tests with handwritten logs with known departures, broken logs, and logs of runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use windward_sim::Simulation;
use windward_sim::scenario::file::ScenarioFile;

use super::*;
use crate::qlog::{Format, QlogFiles, QlogOptions};

/// Format of a log.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Written {
    /// The current drafts, as a sequence.
    Sequence,
    /// The same, with times since the previous event.
    Deltas,
    /// The current drafts, in one object.
    Contained,
    /// qlog 0.3 as a sequence.
    Older,
    /// draft-02 as lines.
    Lines,
    /// draft-00: rows, microseconds, names in upper case.
    Rows,
}

const ALL: [Written; 6] = [
    Written::Sequence,
    Written::Deltas,
    Written::Contained,
    Written::Older,
    Written::Lines,
    Written::Rows,
];

/// An event: milliseconds, its name in the current drafts, its data.
type Event = (f64, &'static str, Value);

fn metrics(time: f64, data: Value) -> Event {
    (time, "quic:recovery_metrics_updated", data)
}

fn sent(time: f64, number: u64) -> Event {
    let header = json!({ "packet_type": "1RTT", "packet_number": number });
    (time, "quic:packet_sent", json!({ "header": header, "raw": { "length": 1000 } }))
}

fn acked(time: f64, ranges: &Value) -> Event {
    let header = json!({ "packet_type": "1RTT", "packet_number": 0 });
    let frame = json!({ "frame_type": "ack", "acked_ranges": ranges });
    (time, "quic:packet_received", json!({ "header": header, "frames": [frame] }))
}

/// The name of an event before the current drafts.
fn old_name(name: &str) -> String {
    let kind = name.strip_prefix("quic:").unwrap();
    match kind.strip_prefix("recovery_") {
        Some(kind) => format!("recovery:{kind}"),
        None if kind.starts_with("packet_lost") || kind.starts_with("congestion") => {
            format!("recovery:{kind}")
        }
        None => format!("transport:{kind}"),
    }
}

/// An event as draft-00 has it.
fn row((time, name, data): &Event) -> Value {
    let name = old_name(name).to_uppercase();
    let (category, kind) = name.split_once(':').unwrap();
    let mut data = data.clone();
    for key in ["smoothed_rtt", "latest_rtt", "min_rtt"] {
        if let Some(rtt) = data.get_mut(key) {
            *rtt = json!(rtt.as_f64().unwrap() * 1000.0);
        }
    }
    if let Some(cwnd) = data.as_object_mut().unwrap().remove("congestion_window") {
        data["cwnd"] = cwnd;
    }
    json!([time * 1000.0, category, kind, data])
}

/// The text of a log whose clock begins at `origin` milliseconds.
fn write(events: &[Event], written: Written, origin: f64) -> Vec<u8> {
    let mut before = 0.0;
    let object = |(time, name, data): &Event| {
        let time = time + origin;
        match written {
            Written::Deltas => {
                let delta = time - std::mem::replace(&mut before, time);
                json!({ "time": delta, "name": name, "data": data })
            }
            Written::Sequence | Written::Contained => {
                json!({ "data": data, "name": name, "time": time })
            }
            Written::Older | Written::Lines => {
                json!({ "time": time, "name": old_name(name), "data": data })
            }
            Written::Rows => row(&(time, name, data.clone())),
        }
    };
    let objects: Vec<Value> = events.iter().map(object).collect();
    let vantage = json!({ "type": "client", "name": "by hand" });
    let schemas = ["urn:ietf:params:qlog:events:quic-13"];
    let sequence = |header: Value, separator: &str| {
        let records = std::iter::once(&header).chain(&objects);
        records.flat_map(|record| format!("{separator}{record}\n").into_bytes()).collect()
    };
    let current = |time_format: &str| {
        let clock = json!({ "clock_type": "monotonic", "epoch": "unknown" });
        let common = json!({ "time_format": time_format, "reference_time": clock });
        let trace =
            json!({ "common_fields": common, "vantage_point": vantage, "event_schemas": schemas });
        json!({ "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq", "trace": trace })
    };
    match written {
        Written::Sequence => sequence(current("relative_to_epoch"), "\u{1e}"),
        Written::Deltas => sequence(current("relative_to_previous_event"), "\u{1e}"),
        Written::Contained => {
            let trace = json!({ "vantage_point": vantage, "event_schemas": schemas,
                "events": objects, "title": "behind its events" });
            let file = json!({ "traces": [trace], "file_schema": "urn:ietf:params:qlog:file:contained",
                "serialization_format": "application/qlog+json" });
            serde_json::to_vec_pretty(&file).unwrap()
        }
        Written::Older => {
            let common = json!({ "time_format": "relative", "reference_time": "17" });
            let trace = json!({ "common_fields": common, "vantage_point": vantage });
            let header =
                json!({ "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": trace });
            sequence(header, "\u{1e}")
        }
        Written::Lines => {
            let trace = json!({ "vantage_point": vantage });
            let header =
                json!({ "qlog_version": "draft-02", "qlog_format": "NDJSON", "trace": trace });
            sequence(header, "")
        }
        Written::Rows => {
            let fields = ["relative_time", "CATEGORY", "EVENT_TYPE", "DATA"];
            let trace = json!({ "configuration": { "time_units": "us" }, "event_fields": fields,
                "vantage_point": vantage, "events": objects });
            let file = json!({ "qlog_version": "draft-00", "traces": [trace] });
            serde_json::to_vec(&file).unwrap()
        }
    }
}

/// Two connections that double their windows each 50 ms, the RTT, until one loses packet 7 at 200
/// ms.
fn known(loses: bool) -> Vec<Event> {
    let mut events = vec![
        sent(0.0, 1),
        metrics(0.0, json!({ "congestion_window": 10_000, "bytes_in_flight": 1000 })),
    ];
    for round in 1..8_u64 {
        let time = 50.0 * round as f64;
        events.push(acked(time, &json!([[round]])));
        if loses && round == 4 {
            let header = json!({ "packet_type": "1RTT", "packet_number": 7 });
            let data = json!({ "header": header, "trigger": "time_threshold" });
            events.push((time, "quic:packet_lost", data));
            let state = json!({ "old": "slow_start", "new": "recovery", "trigger": "loss" });
            events.push((time, "quic:congestion_state_updated", state));
        }
        let window = match round {
            1..4 => 10_000 << round,
            _ if loses => 40_000,
            _ => 160_000,
        };
        let data = json!({ "congestion_window": window, "smoothed_rtt": 50.0, "latest_rtt": 50 });
        events.push(metrics(time, data));
        events.push(sent(time, round + 1));
    }
    events
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        // Some file systems wait for the disk where a file is written over.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).unwrap();
        path
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Comparison {
        self.compare_with(a, b, &CompareOptions::default())
    }

    fn compare_with(&self, a: &[u8], b: &[u8], options: &CompareOptions) -> Comparison {
        let paths = [self.file("a.qlog", a), self.file("b.qlog", b)];
        super::compare([&paths[0], &paths[1]], options, &AtomicBool::new(false))
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn refusal(&self, text: impl AsRef<[u8]>) -> String {
        let path = self.file("refused.qlog", text);
        LogReader::open(&path, None).unwrap_err().message
    }
}

fn events(path: &Path) -> (Vec<LogEvent>, Vec<String>) {
    let mut reader = LogReader::open(path, None).unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!(reader.events(), events.len() as u64);
    (events, reader.warnings())
}

#[test]
fn every_way_of_writing_says_the_same() {
    let folder = Folder::new();
    let whats = |written| {
        let path = folder.file("log", write(&known(true), written, 1234.0));
        let (events, warnings) = events(&path);
        assert!(warnings.is_empty(), "{written:?}: {warnings:?}");
        let rounded = |event: LogEvent| ((event.time_ms * 1e6).round(), event.what);
        events.into_iter().map(rounded).collect::<Vec<_>>()
    };
    let expected = whats(Written::Sequence);
    assert_eq!(expected.len(), known(true).len());
    for written in ALL {
        assert_eq!(whats(written), expected, "{written:?}");
    }
    let path = folder.file("log", write(&known(true), Written::Contained, 0.0));
    let info = LogReader::open(&path, None).unwrap().info().clone();
    assert_eq!(info.title.as_deref(), Some("behind its events"));
    assert_eq!((info.vantage.as_deref(), info.layout), (Some("client"), Layout::Contained));
}

#[test]
fn the_first_departure_is_named_with_its_values_and_what_was_before() {
    let folder = Folder::new();
    for written in ALL {
        let same = folder.compare(
            &write(&known(false), Written::Sequence, 0.0),
            &write(&known(false), written, 5000.0),
        );
        assert_eq!(same.departures, [], "{written:?}");
        assert_eq!(same.until_ms, 350.0);

        let found = folder.compare(
            &write(&known(false), written, 70.0),
            &write(&known(true), Written::Sequence, 0.0),
        );
        let [departure] = &found.departures[..] else { panic!("{:?}", found.departures) };
        assert_eq!(departure.quantity, Quantity::Cwnd);
        assert!((departure.time_ms - 200.0).abs() < 1e-9, "{written:?}: {departure:?}");
        // 160000 against 40000: three quarters of the larger.
        assert_eq!(departure.values, [160_000.0, 40_000.0]);
        assert_eq!(departure.difference, 0.75);
        let before = |side: usize| {
            departure.before[side].iter().map(|n| n.text.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(before(0), [] as [&str; 0]);
        assert_eq!(before(1), ["packet 7 lost (time_threshold)", "slow_start to recovery (loss)"]);
        assert_eq!(found.logs[1].counts.packets_lost, 1);
        assert_eq!((found.logs[0].counts.packets_sent, found.logs[0].counts.packets_acked), (8, 7));
        // 7 packets of 1000 bytes in 350 ms.
        assert_eq!(found.logs[0].mean_rate_bps, Some(160_000.0));
        // Windows of 10, 20, 40, 80 and then 160 kB for 50 ms each, the last three times.
        let mean = (10.0 + 20.0 + 40.0 + 80.0 + 160.0 * 3.0) / 7.0 * 1000.0;
        assert!((found.logs[0].mean_cwnd.unwrap() - mean).abs() < 1e-6);
        let noted = |what: &str| found.notes.iter().any(|note| note.starts_with(what));
        assert!(
            noted("rate is in neither log"),
            "350 ms are less than the window: {:?}",
            found.notes
        );
    }
}

#[test]
fn short_differences_are_not_departures() {
    let folder = Folder::new();
    let window = |time: f64, bytes: u64| metrics(time, json!({ "congestion_window": bytes }));
    let rtt = metrics(0.0, json!({ "smoothed_rtt": 40.0 }));
    // B receives each acknowledgment 30 ms later, less than an RTT.
    let log = |late: f64| {
        let mut events = vec![sent(0.0, 1), rtt.clone()];
        events.extend((0..20_u32).map(|n| {
            let late = if n == 0 { 0.0 } else { late };
            window(100.0 * f64::from(n) + late, 10_000 << (n % 2))
        }));
        write(&events, Written::Sequence, 0.0)
    };
    assert_eq!(folder.compare(&log(0.0), &log(30.0)).departures, []);
    let hold = CompareOptions { hold_ms: Some(20.0), ..CompareOptions::default() };
    let found = folder.compare_with(&log(0.0), &log(30.0), &hold);
    assert_eq!((found.departures.len(), found.departures[0].time_ms), (1, 100.0));
    let found = folder.compare(&log(0.0), &log(50.0));
    assert_eq!(found.departures[0].values, [20_000.0, 10_000.0]);
    // Nor are those within the tolerance: 10000 and 20000 differ by half of the larger.
    let blind = CompareOptions { tolerance: 0.5, ..CompareOptions::default() };
    assert_eq!(folder.compare_with(&log(0.0), &log(50.0), &blind).departures, []);
}

#[test]
fn rates_are_what_was_acknowledged_in_time() {
    let folder = Folder::new();
    // A packet of 1000 bytes each 10 ms, acknowledged 20 ms later; B loses every second after 2 s.
    let log = |loses: bool| {
        let mut events = Vec::new();
        for n in 0..400_u64 {
            let time = 10.0 * n as f64;
            events.push(sent(time, n));
            let arrives = |n: u64| !loses || n < 200 || n.is_multiple_of(2);
            if let Some(number) = n.checked_sub(2).filter(|number| arrives(*number)) {
                events.push(acked(time, &json!([[number, number]])));
            }
        }
        write(&events, Written::Older, 0.0)
    };
    let found = folder.compare(&log(false), &log(true));
    let [departure] = &found.departures[..] else { panic!("{:?}", found.departures) };
    assert_eq!(departure.quantity, Quantity::Rate);
    // 50 packets in 500 ms are 800 kbit/s. A tenth is exceeded when the sixth packet is missing: B
    // misses 201, 203 .. 211, the last of which were due at 2130 ms; at 2130 ms there are 44 of 50.
    assert_eq!(departure.values, [800_000.0, 704_000.0]);
    assert!((departure.time_ms - 2130.0).abs() < 1e-6, "{}", departure.time_ms);
    let last = found.samples.last().unwrap();
    assert!((last.rate[0].unwrap() / last.rate[1].unwrap() - 2.0).abs() < 0.1, "{last:?}");
}

#[test]
fn variants_of_other_tools_are_read_and_unusable_events_are_skipped() {
    let folder = Folder::new();
    let records = [
        r#"{"qlog_version":"0.4","qlog_format":"JSON-SEQ","trace":{"common_fields":{"time_format":"relative","reference_time":0.0},"unknown":[1,{"a":null}]}}"#,
        // Numbers as strings, an unknown field, an unknown event, another namespace.
        r#"{"time":"1.5","name":"recovery:metrics_updated","data":{"cwnd":"12000","smoothed_rtt":"NaN","bytes_in_flight":"-5","x":[[]]}}"#,
        r#"{"time":2,"name":"http:frame_created","data":{"stream_id":0}}"#,
        r#"{"time":2,"name":"http:packet_sent","data":{}}"#,
        r#"{"time":3,"category":"transport","type":"packet_sent","data":{"header":{"packet_type":"initial","packet_number":0},"raw":null}}"#,
        r#"{"time":4,"name":"packet_sent"}"#,
        r#"{"time":5,"name":"transport:packet_sent","data":[1,2,3]}"#,
        r#"{"time":6,"name":"transport:packet_received","data":{"frames":[7,{"frame_type":"ack","acked_ranges":[[0,18446744073709551615],[5,3],["7"],[1,2,3],[],"x"]}]}}"#,
        // Not usable: without a time, invalid times, not an object, not JSON, numbers beyond all
        // bounds.
        r#"{"name":"transport:packet_sent","data":{}}"#,
        r#"{"time":"NaN","name":"transport:packet_sent","data":{}}"#,
        r#"{"time":1e300,"name":"transport:packet_sent","data":{}}"#,
        r#"{"time":1e999,"name":"transport:packet_sent","data":{}}"#,
        r#"[1,"transport","packet_sent",{}]"#,
        r#"{"time":7,"name":"transport:packet_sent","data":{"#,
        "\u{0}\u{ff}",
        r#"{"time":8,"name":"transport:packet_sent","data":{"raw":{"length":1e30}}}"#,
    ];
    let text: String = records.iter().map(|record| format!("\u{1e}{record}\n")).collect();
    let path = folder.file("odd.sqlog", &text);
    let (events, warnings) = events(&path);
    let times: Vec<f64> = events.iter().map(|event| event.time_ms).collect();
    assert_eq!(times, [1.5, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0]);
    let What::Metrics(metrics) = &events[0].what else { panic!("{:?}", events[0]) };
    assert_eq!(*metrics, Metrics { cwnd: Some(12_000.0), ..Metrics::default() });
    assert_eq!(events[2].what, What::Other, "HTTP packets do not count");
    let of_initial = What::Sent { number: Some(0), is_data: false, size: None };
    assert_eq!(events[3].what, of_initial);
    assert_eq!(events[4].what, What::Sent { number: None, is_data: true, size: None });
    let What::Received { acked, .. } = &events[6].what else { panic!("{:?}", events[6]) };
    assert_eq!(*acked, [(0, u64::MAX), (7, 7)]);
    let first = |needle: &str| text.find(needle).unwrap();
    assert_eq!(
        warnings,
        [
            format!(
                "2 events were skipped, the first at byte {}: without a time",
                first(r#"{"name""#)
            ),
            format!(
                "1 event was skipped, the first at byte {}: with an impossible time",
                first(r#"{"time":1e300"#)
            ),
            format!(
                "4 events were skipped, the first at byte {}: not a JSON event",
                first(r#"{"time":1e999"#)
            ),
        ]
    );
    // Such a log compared with itself: all is equal, within bounded memory and time.
    let found = folder.compare(text.as_bytes(), text.as_bytes());
    assert_eq!(found.departures, []);
}

#[test]
fn a_log_that_is_cut_anywhere_is_read_up_to_there() {
    let folder = Folder::new();
    let all = &known(true)[..7];
    for written in ALL {
        let text = write(all, written, 0.0);
        let mut most = 0;
        for end in 0..text.len() {
            let path = folder.file("cut", &text[..end]);
            let mut reader = match LogReader::open(&path, None) {
                Ok(reader) => reader,
                Err(error) => {
                    assert!(error.message.len() > 10, "{written:?} {end}: {error}");
                    continue;
                }
            };
            let mut count = 0;
            while let Some(event) = reader.next_event().unwrap() {
                assert!((event.at as usize) < end);
                count += 1;
            }
            assert!(count >= most, "{written:?}: the events before byte {end} are unchanged");
            most = count;
            let warnings = reader.warnings();
            if count < all.len() && !text[..end].ends_with(b"\n") && !text[..end].ends_with(b"}") {
                let is_told = warnings.iter().any(|warning| warning.contains("truncated at byte"));
                let is_bare = text[..end].ends_with(b"\x1e");
                assert!(is_told || is_bare, "{written:?} {end}: {warnings:?}");
            }
        }
        assert_eq!(most, all.len(), "{written:?}");
    }
    // The byte is that of the incomplete event.
    let text = write(all, Written::Sequence, 0.0);
    let last = text.iter().rposition(|byte| *byte == 0x1e).unwrap();
    let found = folder.compare(&text[..text.len() - 5], &text);
    assert_eq!(
        found.logs[0].warnings,
        [format!("is truncated at byte {}, and read up to there", last + 1)]
    );
}

#[test]
fn marks_line_ends_and_missing_separators_are_read_or_named() {
    let folder = Folder::new();
    let all = &known(true)[..8];
    let read = |text: Vec<u8>| {
        let (events, warnings) = events(&folder.file("log", text));
        (events.len(), warnings.join("; "))
    };
    for written in ALL {
        let text = write(all, written, 0.0);
        let marked = [b"\xef\xbb\xbf", &text[..]].concat();
        assert_eq!(read(marked), (all.len(), String::new()), "{written:?}");
        let dos = String::from_utf8(text).unwrap().replace('\n', "\r\n");
        assert_eq!(read(dos.into()), (all.len(), String::new()), "{written:?}");
    }
    // The last two events in one line.
    let text = String::from_utf8(write(all, Written::Lines, 0.0)).unwrap();
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let (count, said) = read(format!("{before}{last}").into());
    assert_eq!(count, all.len() - 2);
    assert!(said.contains("several JSON values in one record or line"), "{said}");
    let (count, said) = read([write(all, Written::Contained, 0.0), b"{}".to_vec()].concat());
    assert_eq!(count, all.len());
    assert!(said.contains("another value behind the log"), "{said}");
}

#[test]
fn bytes_that_change_break_nothing() {
    let folder = Folder::new();
    // Every byte in turn becomes a bracket, a quote and an invalid byte.
    for written in [Written::Sequence, Written::Contained, Written::Rows] {
        let text = write(&known(true)[..4], written, 0.0);
        for at in 0..text.len() {
            for byte in [b'{', b'"', 0xff] {
                let mut changed = text.clone();
                changed[at] = byte;
                let path = folder.file("changed", &changed);
                if let Ok(mut reader) = LogReader::open(&path, None) {
                    let mut count = 0;
                    while reader.next_event().unwrap().is_some() {
                        count += 1;
                    }
                    assert!(count <= 4);
                }
            }
        }
    }
}

#[test]
fn files_that_are_not_logs_are_refused_with_the_reason() {
    let folder = Folder::new();
    let understood = "supported are qlog 0.3 and 0.4";
    for (text, expected) in [
        (&b""[..], "is empty"),
        (b"\x1f\x8b\x08\0", "compressed (gzip)"),
        (b"\x28\xb5\x2f\xfd", "compressed (zstd)"),
        (b"\xff\xfe{\0", "is UTF-16 text"),
        (b"\xfe\xff\0{", "is UTF-16 text"),
        (b"\x1e\0{\0", "is UTF-16 text"),
        (b"BZh91AY&SY", "compressed (bzip2)"),
        (b"(an aside)", "begins with '('"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", "begins with a byte 0xef"),
        (b"time,cwnd\n1,2\n", "is not a qlog file: it begins with 't'"),
        (b"\x89PNG", "begins with a byte 0x89"),
        (b"[1, 2, 3]", "begins with '['"),
        (br#"{"a": 1, "b": [2]}"#, "an object with a, b, without qlog_version and file_schema"),
        (b"{}", "an object without members"),
        (br#"{"qlog_version": "0.5", "traces": []}"#, r#"qlog version "0.5"; supported"#),
        (br#"{"qlog_version": 0.3, "traces": []}"#, "qlog version 0.3, which is not a text"),
        (br#"{"qlog_version": "0.3", "traces": []}"#, "has no traces"),
        (br#"{"qlog_version": "0.3", "traces": [{"title": "x"}]}"#, "it has no events"),
        (br#"{"file_schema": "urn:other", "traces": []}"#, r#"unsupported schema "urn:other""#),
        (
            br#"{"qlog_version": "0.3", "traces": [{"error_description": "gone", "uri": "u"}]}"#,
            "trace 1 has an error instead of events: gone",
        ),
        (b"\x1e{\"qlog_version\": \"0.3\"", "its first record is not a JSON object"),
        (b"\x1e\n\x1e\n", "without records"),
        (
            b"\x1e{\"qlog_version\":\"0.3\",\"trace\":{\"common_fields\":{\"time_format\":\"later\"}}}\n",
            r#"times are "later""#,
        ),
        (
            b"{\"qlog_version\":\"0.3\",\"traces\":[{\"configuration\":{\"time_units\":\"h\"},\"events\":[]}]}",
            r#"times are in "h""#,
        ),
    ] {
        let said = folder.refusal(text);
        assert!(said.contains(expected), "{expected}: {said}");
        if said.starts_with("is not a qlog file") || said.contains("version") {
            assert!(said.contains(understood), "{said}");
        }
    }
    let missing = LogReader::open(&folder.0.path().join("missing"), None).unwrap_err();
    assert!(missing.to_string().contains("missing: cannot read"), "{missing}");
    let folder_itself = LogReader::open(folder.0.path(), None).unwrap_err();
    assert!(folder_itself.message.contains("is not a regular file"), "{folder_itself}");
    // Brackets without end are skipped like any value.
    let deep = format!(r#"{{"qlog_version":"0.3","x":{}"#, "[".repeat(1_000_000));
    assert!(folder.refusal(deep).contains("is truncated at byte"));
}

#[test]
fn one_of_several_traces_is_chosen() {
    let folder = Folder::new();
    let trace = |window: u64| {
        json!({ "title": format!("of {window}"), "events": [
            { "time": 0, "name": "recovery:metrics_updated", "data": { "congestion_window": window } },
        ] })
    };
    let error = json!({ "error_description": "lost" });
    let file = json!({ "qlog_version": "0.3", "traces": [error, trace(1), trace(2)] });
    let path = folder.file("traces.qlog", file.to_string());
    let read = |number| {
        let mut reader = LogReader::open(&path, number)?;
        let event = reader.next_event()?.unwrap();
        let What::Metrics(metrics) = event.what else { panic!("{event:?}") };
        Ok::<_, LogError>((metrics.cwnd.unwrap(), reader.warnings()))
    };
    let (window, warnings) = read(None).unwrap();
    assert_eq!(window, 1.0, "the first that has events");
    assert_eq!(warnings, ["has 3 traces, of which number 2 is read"]);
    assert_eq!(read(Some(3)).unwrap().0, 2.0);
    assert!(read(Some(1)).unwrap_err().message.contains("lost"));
    for number in [0, 4] {
        let said = read(Some(number)).unwrap_err().message;
        assert_eq!(said, format!("has 3 traces, counted from 1, but not number {number}"));
    }
}

#[test]
fn clocks_begin_with_data_unless_said_otherwise() {
    let folder = Folder::new();
    let header = json!({ "packet_type": "initial", "packet_number": 0 });
    let handshake = (0.0, "quic:packet_sent", json!({ "header": header }));
    let start = |time: f64| {
        let window = metrics(time, json!({ "congestion_window": 10_000 }));
        let later = metrics(time + 300.0, json!({ "congestion_window": 40_000 }));
        vec![window, sent(time, 0), later, sent(time + 900.0, 1)]
    };
    let plain = write(&start(0.0), Written::Sequence, 0.0);
    let mut shaken = vec![handshake];
    shaken.extend(start(700.0));
    let shaken = write(&shaken, Written::Sequence, 0.0);
    let departures = |align| {
        let options = CompareOptions { align, ..CompareOptions::default() };
        folder.compare_with(&plain, &shaken, &options).departures.len()
    };
    assert_eq!(departures(Align::Data), 0);
    assert_eq!(departures(Align::Packet), 1);
    assert_eq!(departures(Align::Event), 1);
    assert_eq!(departures(Align::Nothing), 1);
}

/// The log of the sender of the only flow of a run, and of the receiver.
fn simulated(folder: &Folder, protocol: &str, format: Format) -> PathBuf {
    let text = format!(
        r#"
        duration = "8s"
        dumbbell.bottleneck = {{ rate = "8Mbit", delay = "20ms", queue = "30p" }}
        dumbbell.access = {{ rate = "50Mbit", delay = "5ms", queue = "100p" }}
        flows = [{{ group = "x", protocol = "{protocol}", start = "300ms" }}]"#
    );
    let scenario = ScenarioFile::parse("s.toml", &text).unwrap().build().unwrap();
    let dir = folder.0.path().join(format!("{protocol} {format:?}"));
    let options = QlogOptions { format, ..QlogOptions::default() };
    let logs = QlogFiles::create(&dir, &options, &scenario).unwrap();
    Simulation::observed(&scenario, logs.observer()).finish();
    logs.commit().unwrap().swap_remove(0)
}

#[test]
fn a_run_does_not_depart_from_itself_and_cubic_does_from_newreno_after_the_first_loss() {
    let folder = Folder::new();
    let [newreno, cubic] =
        ["newreno", "cubic"].map(|protocol| simulated(&folder, protocol, Format::Current));
    let older = simulated(&folder, "newreno", Format::Version03);
    let options = CompareOptions::default();
    let compare =
        |a: &Path, b: &Path| super::compare([a, b], &options, &AtomicBool::new(false)).unwrap();
    for same in [compare(&newreno, &newreno), compare(&newreno, &older)] {
        assert_eq!((same.departures.len(), &same.notes[..]), (0, &[][..]), "{:?}", same.departures);
        assert_eq!(same.logs[0].counts, same.logs[1].counts);
        let counts = same.logs[0].counts;
        assert!(counts.packets_lost > 0 && counts.packets_acked > 1000, "{counts:?}");
        // The flow starts at 300 ms, which is zero of the common clock.
        assert!((7000.0..=7700.0).contains(&same.until_ms), "{}", same.until_ms);
    }
    let apart = compare(&newreno, &cubic);
    let first = &apart.departures[0];
    assert_eq!(first.quantity, Quantity::Cwnd, "{:?}", apart.departures);
    let losses = first.before.each_ref().map(|before| {
        before.iter().find(|notable| notable.kind == "loss").expect("a loss before").time_ms
    });
    assert_eq!(losses[0], losses[1], "they agree up to the first loss");
    assert!(first.time_ms - losses[0] < 1000.0, "{first:?}");
    // NewReno keeps half and CUBIC 0.7 (RFC 9438): they are 2/7 of the larger apart.
    assert!((first.difference - 2.0 / 7.0).abs() < 0.05, "{first:?}");
}

#[test]
fn quinns_logs_are_read_with_their_lengths_groups_and_seconds() {
    // The format of quinn-proto 0.11: lengths in headers, no frames, RTTs in seconds, and the
    // events of all connections of an endpoint in one file, distinguished by their group.
    let folder = Folder::new();
    let log = |rtt: f64| {
        let mut text = "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":\
                        {\"vantage_point\":{\"type\":\"unknown\"}}}\n"
            .to_owned();
        for n in 0..10_u32 {
            let time = 50.0 * f64::from(n);
            let header = json!({ "packet_type": "1RTT", "packet_number": n, "length": 1200 });
            let metrics =
                json!({ "smoothed_rtt": rtt, "min_rtt": rtt, "congestion_window": 12_000 });
            let other = json!({ "congestion_window": 99_000 });
            for (name, data, group) in [
                ("transport:packet_sent", json!({ "header": header }), "aa"),
                ("recovery:metrics_updated", metrics, "aa"),
                ("recovery:metrics_updated", other, "bb"),
            ] {
                let event = json!({ "time": time, "name": name, "data": data, "group_id": group });
                text += &format!("\u{1e}{event}\n");
            }
        }
        text.into_bytes()
    };
    let (ms, s) = (log(50.0), log(0.05));
    let found = folder.compare(&ms, &s);
    assert_eq!(found.departures[0].quantity, Quantity::SmoothedRtt);
    assert!(found.notes.iter().any(|note| note.contains("RTTs of B are 1000 times smaller")));
    assert_eq!(found.logs[1].counts.bytes_sent, 12_000.0);
    assert_eq!(found.logs[1].counts.max_cwnd, Some(12_000.0));
    let [warning] = &found.logs[1].warnings[..] else { panic!("{:?}", found.logs[1].warnings) };
    assert!(warning.starts_with("10 events were skipped") && warning.contains("group_id"));
    let options = CompareOptions { rtt_unit_ms: [1.0, 1000.0], ..CompareOptions::default() };
    let found = folder.compare_with(&ms, &s, &options);
    assert_eq!(found.departures, []);
    assert_eq!(found.logs[1].counts.min_rtt_ms, Some(50.0));
}

#[test]
fn a_comparison_can_be_cancelled() {
    let folder = Folder::new();
    let log = simulated(&folder, "newreno", Format::Current);
    let stopped = super::compare([&log, &log], &CompareOptions::default(), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(CompareError::Cancelled)), "{stopped:?}");
}
