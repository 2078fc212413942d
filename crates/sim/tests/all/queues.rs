//! Every AQM over whole runs, and the pages of docs/queues.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use windward_core::network::aqm::{Aqm, Backlog, Leaving, MakeAqm, QueueAction, QueueSetup};
use windward_core::network::channel::{Channel, MakeChannel};
use windward_core::network::router::{MakeRouter, Router};
use windward_core::network::{AqmConfig, ChannelConfig, RouterConfig};
use windward_core::packet::{Flags, Label, Packet};
use windward_core::part::{AnyPart, Custom, CustomPart, Setting, Value, ValueKind, Words};
use windward_core::rng::Stream;
use windward_core::units::Time;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::{Outcome, Scenario, run};

use crate::{balanced, build, changed, wire};

/// Four flows on 10 Mbit/s and 40 ms of RTT: the path holds 50 packets, and the queue 200.
const SCENARIO: &str = "
    duration = '30s'
    warmup = '5s'
    links = [{ name = 'wire', from = 'a', to = 'b', rate = '10Mbit', delay = '20ms',
               queue = '200p' }]
    flows = [{ group = 'all', protocol = 'sack', from = 'a', to = 'b', count = 4,
               start = ['0s', '1s'] }]";

fn file(changes: &[(&str, &str)]) -> ScenarioFile {
    let mut file = ScenarioFile::parse("test.toml", SCENARIO).unwrap();
    for (key, value) in changes {
        file.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    file
}

fn scenario(changes: &[(&str, &str)]) -> Scenario {
    changed(SCENARIO, changes)
}

fn kinds() -> Vec<(Words, AqmConfig)> {
    AqmConfig::forms()
}

/// Runs with that AQM and checks the books of every link.
fn run_with(aqm: &str, changes: &[(&str, &str)]) -> Outcome {
    let changes: Vec<_> = changes.iter().copied().chain([("links.wire.aqm", aqm)]).collect();
    balanced(run(&scenario(&changes)))
}

#[test]
fn books_balance_and_runs_repeat() {
    for (Words { name, .. }, spec) in kinds() {
        let ecn = format!("{{ kind = '{name}', ecn = true }}");
        let speaks = spec.settings().iter().any(|setting| setting.doc.key == "ecn");
        let plain = run_with(name, &[]);
        assert_eq!(plain.fingerprint, run_with(name, &[]).fingerprint, "{name}");
        assert_eq!(wire(&plain).marked, 0, "{name}: nobody speaks ECN");
        let changes = [("flows.all.ecn", "true"), ("links.wire.loss", "0.001")];
        let marked = run_with(if speaks { &ecn } else { name }, &changes);
        assert_eq!(wire(&marked).marked > 0, speaks || spec.marks(), "{name}");
    }
}

/// tc-fq_codel(8): ECN is on by default. tc-codel(8), tc-pie(8), tc-red(8): off. DualPI2 always
/// marks (RFC 9332), and a plain FIFO never does.
#[test]
fn the_aqms_mark_by_default_where_those_of_linux_do() {
    let marking: Vec<_> =
        kinds().into_iter().filter(|(_, spec)| spec.marks()).map(|(words, _)| words.name).collect();
    assert_eq!(marking, ["fq-codel", "dualpi2"]);
}

#[test]
fn aqms_that_aim_at_a_short_queue_keep_it_and_the_wire_busy() {
    let standing = wire(&run_with("droptail", &[])).mean_queue_packets;
    let short: Vec<_> = kinds().into_iter().filter(|(_, spec)| spec.keeps_queue_short()).collect();
    assert!(short.len() >= 5, "{short:?}");
    for (Words { name, .. }, _) in short {
        let outcome = run_with(name, &[]);
        let link = wire(&outcome);
        assert!(link.mean_queue_packets < 0.25 * standing, "{name}: {link:?} and {standing}");
        assert!(link.utilization > 0.8, "{name}: {link:?}");
    }
}

#[test]
fn flow_queues_protect_the_few_packets_of_a_sparse_flow() {
    // A packet every 20 ms next to four bulk flows: alone in its queue it waits for one packet at
    // most, so that none is lost; DropTail loses some.
    let lost = |aqm| {
        let changes = [
            ("links.wire.queue", "50p"),
            (
                "flows",
                "[{ group = 'all', protocol = 'sack', from = 'a', to = 'b', count = 8 },
                  { group = 'voice', cbr = { rate = '64kbit', packet_size = 160 },
                    from = 'a', to = 'b' }]",
            ),
        ];
        run_with(aqm, &changes).flows.last().unwrap().true_loss
    };
    assert_eq!(lost("fq-codel"), 0.0);
    assert!(lost("droptail") > 0.0);
}

#[test]
fn tiny_queues_and_pauses_do_no_harm() {
    for (Words { name, .. }, _) in kinds() {
        for queue in ["1p", "1500B"] {
            let outcome = run_with(name, &[("links.wire.queue", queue)]);
            assert!(outcome.flows.iter().all(|flow| flow.goodput_bps > 0.0), "{name} {queue}");
        }
        // Long pauses: a sleeping AQM must wake.
        let pauses = "[{ group = 'all', on_off = { rate = '20Mbit', mean_on = '50ms',
                         mean_off = '2s', packet_size = 1000 }, from = 'a', to = 'b', count = 2 }]";
        let outcome = run_with(name, &[("flows", pauses)]);
        assert!(wire(&outcome).delivered > 0, "{name}");
    }
}

#[test]
fn classes_may_have_any_aqm() {
    for (Words { name, .. }, _) in kinds() {
        let flows = "[{ group = 'all', protocol = 'sack', from = 'a', to = 'b', count = 2 },
                      { group = 'xcp', protocol = 'xcp', from = 'a', to = 'b', count = 2 }]";
        let outcome = run_with(name, &[("flows", flows), ("links.wire.classes", "true")]);
        let [plain, xcp] = [0, 1].map(|group: usize| outcome.groups[group].throughput_bps);
        assert!(plain > 0.5 * xcp, "{name}: {plain} {xcp}");
    }
}

#[test]
fn every_parameter_has_its_range() {
    for (Words { name, .. }, spec) in kinds() {
        for Setting { doc, .. } in spec.settings() {
            let wrong: Vec<String> = match doc.kind {
                ValueKind::Bool => vec!["1".into(), "'yes'".into()],
                ValueKind::Number { least, most } => {
                    vec![format!("{:?}", least - 1.0), format!("{:?}", most * 2.0 + 1.0)]
                }
                ValueKind::Positive { most } => vec!["0".into(), format!("{:?}", most * 2.0)],
                ValueKind::Integer { least, most } => vec![
                    format!("{}", least.wrapping_sub(1) as i64),
                    format!("{}", most + 1),
                    "1.5".into(),
                ],
                ValueKind::Time { least, .. } => {
                    let mut wrong = vec!["'-1ms'".into(), "'1000h'".into(), "5".into()];
                    if !least.is_zero() {
                        wrong.push("'0s'".into());
                    }
                    wrong
                }
                ValueKind::Bytes { .. } => vec!["'5p'".into(), "5000".into(), "'0B'".into()],
                _ => vec!["'nonsense'".into(), "true".into()],
            };
            let odd = ["nan", "inf", "-inf", "'5 parsecs'", "[]", "{}"].map(str::to_owned);
            for value in wrong.into_iter().chain(odd) {
                let aqm = format!("{{ kind = '{name}', {} = {value} }}", doc.key);
                let error = file(&[("links.wire.aqm", &aqm)]).build();
                let error = error.expect_err(&aqm).to_string();
                assert!(error.contains(&format!("aqm.{} = ", doc.key)), "{aqm}: {error}");
            }
        }
        let foreign = format!("{{ kind = '{name}', threshold = 3 }}");
        assert!(file(&[("links.wire.aqm", &foreign)]).build().is_err());
    }
}

/// Drops every tenth packet from the head, and reports it.
#[derive(Debug, Default)]
struct EveryTenth(u32);

impl Aqm for EveryTenth {
    fn on_dequeue(&mut self, _: Time, _: Leaving, queue: &Backlog<'_>, _: &Packet) -> QueueAction {
        self.0 += 1;
        if self.0.is_multiple_of(10) && queue.packets > 0 {
            QueueAction::Drop
        } else {
            QueueAction::Pass
        }
    }
    /// Always due, which must not hang the engine.
    fn next_timer(&self) -> Time {
        Time::ZERO
    }
}

impl Channel for EveryTenth {
    fn destroys(&mut self, _: Time, _: Label, _: &Packet, _: &mut Stream) -> bool {
        self.0 += 1;
        self.0.is_multiple_of(10)
    }
}

struct Outside;

impl CustomPart for Outside {
    fn words(&self) -> Words {
        Words { name: "every-tenth", what: "drops every tenth", source: "a test" }
    }
}
impl MakeAqm for Outside {
    fn make(&self, _: &QueueSetup<'_>) -> Box<dyn Aqm + Send + Sync> {
        Box::new(EveryTenth::default())
    }
}
impl MakeChannel for Outside {
    fn make(&self) -> Box<dyn Channel + Send + Sync> {
        Box::new(EveryTenth::default())
    }
    fn loss_rate(&self, _: u32) -> f64 {
        0.1
    }
}

static OUTSIDE: Outside = Outside;

#[test]
fn aqms_and_channels_may_come_from_other_crates() {
    // 20 Mbit/s into 10: what is offered twice over fills the queue, from which a tenth is dropped.
    let flows = "[{ group = 'all', cbr = { rate = '20Mbit', packet_size = 1000 }, from = 'a',
                    to = 'b' }]";
    let mut scenario = scenario(&[("flows", flows)]);
    let link = scenario.links.iter_mut().find(|link| link.name == "wire").unwrap();
    Arc::make_mut(&mut link.kind).queue.aqm = AqmConfig::Custom(Custom(&OUTSIDE));
    let outcome = balanced(run(&scenario));
    let left = wire(&outcome).delivered as f64;
    // 1250 packets a second for 30 s reach the end, and one more of nine was dropped at the head;
    // what is left of 2500 a second found the queue full.
    assert!((left - 37_500.0).abs() < 60.0, "{left}");
    assert!(wire(&outcome).dropped as f64 > left / 9.0 - 1.0);

    let link = scenario.links.iter_mut().find(|link| link.name == "wire").unwrap();
    Arc::make_mut(&mut link.kind).queue.aqm = AqmConfig::default();
    Arc::make_mut(&mut link.kind).channel = ChannelConfig::Custom(Custom(&OUTSIDE));
    let outcome = balanced(run(&scenario));
    let corrupted = wire(&outcome).corrupted as f64;
    assert!((corrupted - 3750.0).abs() < 10.0, "{corrupted}");
}

/// Relabels ECN-capable packets as L4S.
#[derive(Debug)]
struct Identify;

impl Router for Identify {
    fn on_arrival(&mut self, _: Time, _: &Backlog<'_>, packet: &mut Packet) -> bool {
        if packet.flags.contains(Flags::ECN_CAPABLE) {
            packet.flags.insert(Flags::L4S);
        }
        false
    }
}

impl MakeRouter for Outside {
    fn make(&self, _: &QueueSetup<'_>) -> Box<dyn Router + Send + Sync> {
        Box::new(Identify)
    }
}

#[test]
fn dualpi2_lets_scalable_and_classic_flows_share() {
    // 40 Mbit/s and 20 ms of RTT. Packets of the DCTCP flows are relabelled as L4S.
    let base = "
        duration = '60s'
        warmup = '20s'
        links = [
            { name = 'first', from = 'a', to = 'c', rate = '1Gbit', delay = '1ms' },
            { name = 'other', from = 'b', to = 'c', rate = '1Gbit', delay = '1ms' },
            { name = 'wire', from = 'c', to = 'd', rate = '40Mbit', delay = '9ms',
              queue = '1000p', aqm = 'dualpi2' },
        ]
        flows = [
            { group = 'scalable', protocol = 'dctcp', from = 'a', to = 'd', count = 2 },
            { group = 'classic', protocol = 'reno', from = 'b', to = 'd', count = 2 },
        ]";
    let mut scenario = build(base);
    let link = scenario.links.iter_mut().find(|link| link.name == "first").unwrap();
    Arc::make_mut(&mut link.kind).queue.router = RouterConfig::Custom(Custom(&OUTSIDE));
    let outcome = balanced(run(&scenario));
    let [scalable, classic] = [0, 1].map(|group: usize| &outcome.groups[group]);
    // RFC 9332 section 2.1: about equal rates; DCTCP has the shorter RTT, as it does not queue.
    let ratio = scalable.throughput_bps / classic.throughput_bps;
    assert!((0.5..2.5).contains(&ratio), "{ratio}");
    // About 1 ms for the scalable flows, and about the target of 15 ms for the classic ones.
    let rtt = |group: usize| {
        let own = outcome.flows.iter().filter(|flow| flow.group == group);
        own.map(|flow| flow.mean_rtt_s.unwrap()).sum::<f64>() / 2.0
    };
    let (scalable, classic) = (rtt(0) - 0.020, rtt(1) - 0.020);
    assert!(scalable < 0.003 && (0.008..0.025).contains(&classic), "{scalable} {classic}");
    assert!(wire(&outcome).utilization > 0.95, "{:?}", wire(&outcome));
}

const BEGIN: &str = "<!-- generated: do not edit -->";
const END: &str = "<!-- end -->\n";
const HEART: [&str; 3] = ["The idea", "Equations", "Deviations"];

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "queues"].iter().collect()
}

/// The part of a page that is generated.
fn frame(Words { name, what, source }: Words, spec: &AqmConfig) -> String {
    let mut page = format!(
        "{BEGIN}\n# {name}\n\nAn AQM that {what}.\n\nSource: {source}. In a link table: \
         `aqm = \"{name}\"`"
    );
    let settings = spec.settings();
    if settings.is_empty() {
        page += "; it has no parameters.\n";
    } else {
        let _ = write!(
            page,
            ", or `aqm = {{ kind = \"{name}\", .. }}` with\n\n| key | default | meaning |\n\
             | --- | --- | --- |\n"
        );
        for setting in settings {
            let (key, default) = (setting.doc.key, setting.default_text());
            let _ = writeln!(page, "| `{key}` | {default} | {} |", setting.description());
            assert!(setting.value != Value::Absent || !default.is_empty(), "{name}: {key}");
        }
    }
    let _ = write!(
        page,
        "\n```sh\nwindward run experiments/examples/first.toml --set \
         'dumbbell.bottleneck.aqm={name}'\nwindward reproduce matrix-queues\n```\n{END}"
    );
    page
}

/// The list of all pages.
fn index() -> String {
    let mut page = format!(
        "{BEGIN}\n# AQM\n\nA page for each kind: what it does, its parameters, the \
         idea, the equations, and where\nthis implementation deviates.\n\n| name | what it does | \
         source |\n| --- | --- | --- |\n"
    );
    for (Words { name, what, source }, _) in kinds() {
        let _ = writeln!(page, "| [{name}]({name}.md) | {what} | {source} |");
    }
    page + END
}

#[test]
fn pages_of_queues_are_what_the_program_writes() {
    let bless = std::env::var_os("BLESS").is_some_and(|bless| bless == "1");
    let frames = kinds().into_iter().map(|(words, spec)| (words.name, frame(words, &spec)));
    let frames = frames.map(|(name, frame)| (format!("{name}.md"), frame, true));
    let mut expected = BTreeSet::new();
    let mut wrong = Vec::new();
    for (name, frame, has_heart) in frames.chain([("README.md".to_owned(), index(), false)]) {
        let path = folder().join(&name);
        let page = fs::read_to_string(&path).unwrap_or_default();
        let skeleton = HEART.map(|heading| format!("\n## {heading}\n")).concat();
        let heart = match page.split_once(END) {
            Some((_, heart)) => heart.to_owned(),
            None if has_heart => skeleton,
            None => String::new(),
        };
        let written = format!("{frame}{heart}");
        if bless && page != written {
            fs::create_dir_all(folder()).unwrap();
            fs::write(&path, &written).unwrap();
        } else if page != written {
            wrong.push(format!("{name} is out of date"));
        }
        for heading in HEART.iter().filter(|_| has_heart) {
            let text = written.split_once(&format!("\n## {heading}\n")).map(|(_, text)| text);
            let text = text.and_then(|text| text.split("\n## ").next()).unwrap_or_default();
            if text.trim().len() < 20 {
                wrong.push(format!("{name}: \"{heading}\" is to be written"));
            }
        }
        expected.insert(name);
    }
    let how = "`BLESS=1 cargo test -p windward-sim pages_of_queues` writes the frames";
    assert!(wrong.is_empty(), "docs/queues: {}; {how}", wrong.join(", "));
    let found: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(found, expected, "pages and kinds");
}
