//! Logs of stacks' connections.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::{Arc, Mutex};

use windward_core::packet::{Packet, PacketKind};
use windward_core::units::Time;
use windward_logs::qlog::{QlogFiles, QlogOptions};
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{End, FrameFacts, PacketFacts, PacketType};
use windward_sim::{Observer, OnWire, Simulation};

const LOSSY: &str = r#"
    duration = "5s"
    warmup = "0s"
    seed = 3
    [dumbbell]
    bottleneck = { rate = "5Mbit", delay = "20ms", queue = "50p" }
    access = { rate = "10Mbit", delay = "5ms" }
    [[flows]]
    group = "x"
    protocol = "quinn:cubic"
    last_hop = { loss = 0.01 }
"#;

/// Events of a run.
#[derive(Debug, Default)]
struct Heard {
    /// Data packets put on the first link.
    on_wire: usize,
    /// Numbers of 1-RTT packets of the sender.
    sent: Vec<u64>,
    stream_bytes: u64,
    acked: BTreeSet<u64>,
}

#[derive(Debug)]
struct Listener(Arc<Mutex<Heard>>);

impl Observer for Listener {
    fn on_wire(&mut self, what: &OnWire<'_>) {
        let mut heard = self.0.lock().unwrap();
        if what.packet.kind == PacketKind::Data && what.link == 0 {
            heard.on_wire += 1;
        }
    }

    fn on_stack_sent(
        &mut self,
        _now: Time,
        _flow: usize,
        from: End,
        _packet: &Packet,
        facts: &[PacketFacts],
    ) {
        let mut heard = self.0.lock().unwrap();
        for packet in facts.iter().filter(|packet| packet.kind == PacketType::OneRtt) {
            if from == End::Sender {
                heard.sent.push(packet.number);
            }
            for frame in &packet.frames {
                match frame {
                    FrameFacts::Stream { length, .. } => heard.stream_bytes += length,
                    FrameFacts::Ack { ranges, .. } if from == End::Receiver => {
                        heard.acked.extend(ranges.iter().flat_map(|&(first, last)| first..=last));
                    }
                    _ => {}
                }
            }
        }
    }
}

#[test]
fn a_stack_is_logged_packet_by_packet() {
    let file = ScenarioFile::parse("f.toml", LOSSY).unwrap().with_stacks(&windward_stacks::all());
    let scenario = file.build().unwrap();
    let folder = std::env::temp_dir().join(format!("windward-stack-log-{}", std::process::id()));
    let logs = QlogFiles::create(&folder, &QlogOptions::default(), &scenario).unwrap();
    let heard = Arc::new(Mutex::new(Heard::default()));
    let listener: Box<dyn Observer> = Box::new(Listener(Arc::clone(&heard)));
    let outcome = Simulation::observed(&scenario, Box::new((listener, logs.observer()))).finish();
    let paths = logs.commit().unwrap();
    let text = |end: &str| {
        let path = paths.iter().find(|path| path.display().to_string().contains(end)).unwrap();
        fs::read_to_string(path).unwrap()
    };
    let (sender, receiver) = (text(".sender."), text(".receiver."));
    fs::remove_dir_all(&folder).unwrap();

    // Logging changes nothing.
    let alone = windward_sim::run(&scenario);
    assert_eq!(alone.flows[0].goodput_bps, outcome.flows[0].goodput_bps);
    assert_eq!(alone.flows[0].packets_sent, outcome.flows[0].packets_sent);

    let heard = heard.lock().unwrap();
    // A packet number is used once and grows (RFC 9000 section 12.3).
    assert!(heard.sent.is_sorted_by(|a, b| a < b), "{:?}", &heard.sent[..20]);
    let sent: BTreeSet<u64> = heard.sent.iter().copied().collect();
    let unsent: Vec<u64> = heard.acked.difference(&sent).copied().collect();
    assert!(unsent.is_empty(), "acknowledged and not sent: {unsent:?} of {} sent", sent.len());
    // The receiver's data was in stream frames.
    assert!(heard.stream_bytes as f64 >= outcome.flows[0].goodput_bps * 5.0 / 8.0);

    let count = |log: &str, name: &str| log.matches(&format!("\"name\":\"quic:{name}\"")).count();
    // One event for each packet; a datagram, by its id, may hold several during the handshake.
    let mut datagrams: BTreeMap<&str, usize> = BTreeMap::new();
    for line in sender.lines().filter(|line| line.contains("quic:packet_sent")) {
        let id = line.split_once("\"datagram_id\":").unwrap().1;
        *datagrams.entry(id.split([',', '}']).next().unwrap()).or_default() += 1;
    }
    assert_eq!(datagrams.len() as u64, outcome.flows[0].packets_sent);
    assert!(count(&sender, "packet_sent") >= datagrams.len());
    // Packets that a queue dropped, or holds at the end of the run, are sent but not on the wire.
    assert!(heard.on_wire > 100 && heard.on_wire <= datagrams.len());
    assert_eq!(count(&sender, "packet_lost") as u64, outcome.flows[0].retransmissions.unwrap());
    assert!(outcome.flows[0].retransmissions > Some(0));
    assert!(count(&sender, "packet_received") > 100 && count(&receiver, "packet_received") > 100);
    assert!(count(&receiver, "packet_sent") >= count(&sender, "packet_received"));
    for text in ["\"congestion_window\":", "\"bytes_in_flight\":", "\"smoothed_rtt\":"] {
        assert!(sender.contains(text), "no {text}");
    }
    assert!(!sender.contains("\"packet_type\":\"unknown\""));
}
