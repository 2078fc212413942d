//! Fuzz targets, one for each kind of foreign bytes, chosen by `WINDWARD_FUZZ=wire` and so on.
//! `fuzz/run.sh` builds and runs them.

#![no_main]

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use windward_core::wire;
use windward_logs::LogReader;
use windward_net::port::{Port, Ports};
use windward_net::record::Reader;
use windward_net::{fuzzing, headers};
use windward_netns::packet::{self, Ecn, Header};
use windward_sim::Simulation;
use windward_sim::scenario::file::ScenarioFile;

type Target = fn(&[u8]);

const TARGETS: &[(&str, Target)] = &[
    ("wire", wire),
    ("frames", fuzzing::frames),
    ("packets", packets),
    ("record", record),
    ("qlog", qlog),
    ("scenario", scenario),
];

fuzz_target!(|data: &[u8]| {
    static TARGET: OnceLock<Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let wanted = std::env::var("WINDWARD_FUZZ").unwrap_or_default();
        let found = TARGETS.iter().find(|(name, _)| *name == wanted);
        found.unwrap_or_else(|| panic!("WINDWARD_FUZZ={wanted}: there is no such target")).1
    })(data);
});

/// The congestion header and its packet: each packet has one encoding, and its real numbers are not
/// NaN.
fn wire(data: &[u8]) {
    let Ok((packet, length)) = wire::decode(data) else { return };
    let mut again = [0; wire::MAX];
    let written = wire::encode(&packet, &mut again).expect("a packet that was read can be written");
    assert_eq!(&again[..written], &data[..length]);
    let peeked = wire::peek(data).expect("a packet that can be read can be looked at");
    assert_eq!(peeked.header, packet.header);
    let mut copy = data.to_vec();
    wire::rewrite(&packet, &mut copy).expect("its own header fits");
    assert_eq!(copy, data);
}

/// IP packets as from TUN devices and NFQUEUE.
fn packets(data: &[u8]) {
    fuzzing::headers(data);
    let _ = (headers::is_ours(data), headers::codepoint(data));
    let Ok(header) = Header::parse(data) else { return };
    assert!(header.total_len <= data.len() && header.header_len <= header.total_len);
    let mut copy = data.to_vec();
    packet::set_ecn(&mut copy, Ecn::Ce);
    assert_eq!(Header::parse(&copy).map(|header| header.ecn), Ok(Ecn::Ce));
    assert_eq!(copy.len(), data.len());
    for mtu in [68, 576, 1280] {
        let pieces = packet::fragments(data, mtu);
        assert!(pieces.iter().all(|piece| piece.len() <= usize::from(mtu)));
        packet::too_big(data, mtu, Ipv4Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    }
}

/// 8 Mbit/s and 10 ms, with a port at each end.
const LINK: &str = "duration = '10s'\n\
    links = [{ name = 'link', from = 'a', to = 'b', rate = '8Mbit', delay = '10ms', queue = '2p', \
    reverse = { delay = '5ms', rate = '1Gbit', queue = '1000p' } }]\n\
    flows = [{ group = 'outside', protocol = 'outside:port', from = 'a', to = 'b' }]";

/// Records of emulations: raw bytes, and frames with correct checksums behind a valid header.
fn record(data: &[u8]) {
    replay(data);
    const CRC: crc::Crc<u32> = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI);
    let mut whole = b"WDREC\x01".to_vec();
    let mut rest = data;
    while let Some((&length, more)) = rest.split_first() {
        let (body, more) = more.split_at(usize::from(length).min(more.len()));
        whole.extend((body.len() as u32 + 4).to_le_bytes());
        whole.extend(body);
        whole.extend(CRC.checksum(body).to_le_bytes());
        rest = more;
    }
    replay(&whole);
}

fn replay(record: &[u8]) {
    let Ok(reader) = Reader::open(record) else { return };
    let ports = Ports::new();
    let stacks = std::iter::once(ports.clone() as _).collect();
    let scenario = ScenarioFile::parse("link", LINK).unwrap().with_stacks(&stacks).build().unwrap();
    let mut simulation = Simulation::new(&scenario);
    let ports: Vec<(usize, Port)> = (0..).zip(ports.take()).collect();
    let _ = reader.replay(&mut simulation, &ports, |_, _| {});
}

/// Logs of QUIC stacks. They are read from files.
fn qlog(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("windward-fuzz-{}.sqlog", std::process::id()));
    let mut file = std::fs::File::create(&path).expect("a temporary file");
    file.write_all(data).expect("a temporary file");
    if let Ok(mut reader) = LogReader::open(&path, None) {
        // Each event takes bytes, so there are fewer.
        for _ in 0..=data.len() {
            match reader.next_event() {
                Ok(Some(_)) => {}
                _ => return,
            }
        }
        panic!("more events than bytes");
    }
}

/// Scenario files: a scenario, or an error with a text.
fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let built = ScenarioFile::parse("fuzz", text).and_then(|file| file.build());
    if let Err(error) = built {
        assert!(!error.to_string().is_empty());
    }
}
