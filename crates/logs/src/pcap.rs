//! Packets on links as pcapng, for Wireshark and similar programs: an interface for each link, and
//! a packet when its last bit is sent.
//!
//! The format is that of draft-ietf-opsawg-pcapng-04; times are virtual, in nanoseconds since the
//! begin of the run. Packets of external programs are unchanged. Packets of our own protocols have
//! no bytes in a simulation: they appear as the UDP datagrams that real endpoints exchange
//! ([`windward_core::wire`]), between addresses that represent the ends of a flow, and are cut
//! before the payload. Packets of [stacks](windward_sim::stack) are UDP datagrams with the bytes
//! that the stacks sent.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etherparse::{IpEcn, IpNumber, Ipv4Header, UdpHeader};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};
use windward_core::packet::{Flags, Packet};
use windward_core::units::Time;
use windward_core::wire;
use windward_sim::output::{OutputError, OutputFile};
use windward_sim::stack::UDP_OVERHEAD;
use windward_sim::{Loss, LossCause, Observer, OnWire, Scenario};

/// Default number of captured bytes of each packet: a whole Ethernet packet.
pub const SNAP_LEN: u32 = 1514;

/// A capture during a run.
///
/// ```
/// use windward_sim::Simulation;
/// use windward_logs::pcap::{PcapFile, SNAP_LEN};
/// use windward_sim::scenario::file::ScenarioFile;
///
/// let text = r#"
/// duration = "1s"
/// [dumbbell]
/// bottleneck = { rate = "5Mbit", delay = "10ms", queue = "50p" }
/// access = { rate = "10Mbit", delay = "5ms" }
/// [[flows]]
/// group = "bulk"
/// protocol = "newreno"
/// "#;
/// let scenario = ScenarioFile::parse("inline", text)?.build()?;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("run.pcapng");
/// let links = [scenario.links.iter().position(|l| &*l.name == "bottleneck").unwrap()];
/// let pcap = PcapFile::create(&path, &scenario, &links, SNAP_LEN)?;
/// Simulation::observed(&scenario, pcap.observer()).finish();
/// assert_eq!(pcap.commit()?, path);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PcapFile {
    shared: Arc<Mutex<Shared>>,
    path: PathBuf,
}

/// State that the observer writes to.
struct Shared {
    out: PcapNgWriter<OutputFile>,
    /// Numbers of interfaces by those of links.
    interfaces: BTreeMap<usize, Interface>,
    snap_len: usize,
    is_stream: bool,
    path: PathBuf,
    error: Option<OutputError>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.path.display())
    }
}

#[derive(Debug)]
struct Interface {
    number: u32,
    /// Packets that the queue dropped since the last one.
    dropped: u64,
}

impl PcapFile {
    /// Begins a file for these links, with at most `snap_len` bytes of each packet.
    ///
    /// # Errors
    /// If it cannot be created or written.
    pub fn create(
        path: &Path,
        scenario: &Scenario,
        links: &[usize],
        snap_len: u32,
    ) -> Result<Self, OutputError> {
        let file = OutputFile::create(path)?;
        let failed = |error| failed(path, error);
        let is_stream = file.is_stream();
        let mut out = PcapNgWriter::new(file).map_err(failed)?;
        let mut interfaces = BTreeMap::new();
        for (number, &link) in (0..).zip(links) {
            let spec = &scenario.links[link];
            let block = InterfaceDescriptionBlock {
                linktype: DataLink::RAW,
                snaplen: snap_len,
                options: vec![
                    InterfaceDescriptionOption::IfName(Cow::Borrowed(spec.name.as_str())),
                    InterfaceDescriptionOption::IfSpeed(
                        (spec.kind.rate.mean().bytes_per_s() * 8.0) as u64,
                    ),
                    // Nanoseconds.
                    InterfaceDescriptionOption::IfTsResol(9),
                ],
            };
            out.write_pcapng_block(block).map_err(failed)?;
            interfaces.insert(link, Interface { number, dropped: 0 });
        }
        let shared = Shared {
            out,
            interfaces,
            snap_len: snap_len as usize,
            is_stream,
            path: path.to_owned(),
            error: None,
        };
        let shared = Arc::new(Mutex::new(shared));
        Ok(PcapFile { shared, path: path.to_owned() })
    }

    /// Observer for [`Simulation::observed`](windward_sim::Simulation::observed).
    pub fn observer(&self) -> Box<dyn Observer> {
        Box::new(Writer(Arc::clone(&self.shared)))
    }

    /// Reports the first write error so far. Long runs should call it now and then.
    ///
    /// # Errors
    /// The first error, once.
    pub fn check(&self) -> Result<(), OutputError> {
        lock(&self.shared).error.take().map_or(Ok(()), Err)
    }

    /// Gives the file its name and returns it. Call it after the observer is dropped.
    ///
    /// # Errors
    /// If a write failed.
    pub fn commit(self) -> Result<PathBuf, OutputError> {
        self.check()?;
        if let Some(shared) = Arc::into_inner(self.shared) {
            let shared = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
            shared.out.into_inner().commit()?;
        }
        Ok(self.path)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // After a panic elsewhere, at worst a packet is missing.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(path: &Path, error: PcapError) -> OutputError {
    let error = match error {
        PcapError::IoError(error) => error,
        other => std::io::Error::other(other),
    };
    OutputError::write(path, error)
}

#[derive(Debug)]
struct Writer(Arc<Mutex<Shared>>);

impl Observer for Writer {
    fn on_loss(&mut self, _: Time, _: usize, _: &Packet, loss: Loss) {
        // Packets that channels destroy were sent before.
        if loss.cause == LossCause::Queue
            && let Some(interface) = lock(&self.0).interfaces.get_mut(&loss.link)
        {
            interface.dropped += 1;
        }
    }

    fn on_wire(&mut self, what: &OnWire<'_>) {
        let shared = &mut *lock(&self.0);
        if shared.error.is_some() {
            return;
        }
        let Some(interface) = shared.interfaces.get_mut(&what.link) else { return };
        let mut data = bytes(what);
        data.truncate(shared.snap_len.min(what.packet.size as usize));
        let mut options = Vec::new();
        if what.is_destroyed {
            options.push(EnhancedPacketOption::Comment(Cow::Borrowed("destroyed by the channel")));
        }
        let dropped = std::mem::take(&mut interface.dropped);
        if dropped > 0 {
            options.push(EnhancedPacketOption::DropCount(dropped));
        }
        let block = EnhancedPacketBlock {
            interface_id: interface.number,
            timestamp: Duration::from_nanos(what.at.as_nanos()),
            original_len: what.packet.size,
            data: Cow::Owned(data),
            options,
        };
        let mut written = shared.out.write_pcapng_block(block).map(drop);
        if shared.is_stream {
            // A program may read packets during the run.
            written =
                written.and_then(|()| shared.out.get_mut().flush().map_err(PcapError::IoError));
        }
        if let Err(error) = written {
            shared.error = Some(failed(&shared.path, error));
        }
    }
}

/// The packet from its IP header on, as far as its bytes exist.
fn bytes(what: &OnWire<'_>) -> Vec<u8> {
    let OnWire { packet, payload, .. } = what;
    match payload {
        // A whole packet of an external program.
        Some(whole) if whole.len() == packet.size as usize => marked(whole, packet.flags),
        Some(payload) => datagram(what, payload),
        None => {
            let mut header = [0; wire::MAX];
            let length = wire::encode(packet, &mut header).unwrap_or(0);
            datagram(what, &header[..length])
        }
    }
}

/// The first bytes of an IPv4 datagram of that packet's size, with the given bytes at the begin of
/// its payload.
fn datagram(what: &OnWire<'_>, payload: &[u8]) -> Vec<u8> {
    /// Ports of the ends of flows; the second is that of `windward perf`.
    const PORTS: [u16; 2] = [49_152, 9743];
    let OnWire { flow, packet, is_back, .. } = what;
    // Senders are in 10.0.0.0/9, receivers in 10.128.0.0/9.
    let number = (*flow as u32) & 0x7f_ffff;
    let address = |end: u32| (10 << 24 | end << 23 | number).to_be_bytes();
    let (from, to) = if *is_back { (1, 0) } else { (0, 1) };
    let size = u16::try_from(packet.size).unwrap_or(u16::MAX).max(UDP_OVERHEAD as u16);
    let ip_payload = size - Ipv4Header::MIN_LEN_U16;
    let mut data = Vec::with_capacity(UDP_OVERHEAD as usize + payload.len());
    let udp = UdpHeader {
        source_port: PORTS[from as usize],
        destination_port: PORTS[to as usize],
        length: ip_payload,
        // Zero: not computed (RFC 768), since there is no payload.
        checksum: 0,
    };
    // It is at most what fits.
    if let Ok(mut ip) = Ipv4Header::new(ip_payload, 64, IpNumber::UDP, address(from), address(to)) {
        ip.ecn = ecn(packet.flags);
        ip.header_checksum = ip.calc_header_checksum();
        data.extend_from_slice(&ip.to_bytes());
    }
    data.extend_from_slice(&udp.to_bytes());
    data.extend_from_slice(payload);
    data
}

/// Sets the ECN field of a packet, which routers may have changed.
fn marked(packet: &[u8], flags: Flags) -> Vec<u8> {
    let mut data = packet.to_vec();
    if !flags.contains(Flags::CONGESTION_EXPERIENCED) {
        return data;
    }
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            if let Ok((mut ip, rest)) = Ipv4Header::from_slice(packet) {
                ip.ecn = IpEcn::CongestionExperienced;
                ip.header_checksum = ip.calc_header_checksum();
                data = [&ip.to_bytes()[..], rest].concat();
            }
        }
        // The traffic class spans the first two bytes.
        Some(6) => data.iter_mut().skip(1).take(1).for_each(|byte| *byte |= 0x30),
        _ => {}
    }
    data
}

fn ecn(flags: Flags) -> IpEcn {
    match flags {
        _ if flags.contains(Flags::CONGESTION_EXPERIENCED) => IpEcn::CongestionExperienced,
        _ if flags.contains(Flags::L4S) => IpEcn::Ect1,
        _ if flags.contains(Flags::ECN_CAPABLE) => IpEcn::Ect0,
        _ => IpEcn::NotEct,
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{Block, PcapNgReader};
    use windward_sim::Simulation;
    use windward_sim::scenario::file::ScenarioFile;

    use super::*;

    const TEXT: &str = "duration = '10s'\n\
        links = [{ name = 'link', from = 'a', to = 'b', rate = '8Mbit', delay = '10ms', queue = '5p', \
        loss = 0.01, router = { kind = 'ecn-threshold', threshold = 1 } }]\n\
        flows = [{ group = 'marked', protocol = 'dctcp', from = 'a', to = 'b' }, \
        { group = 'dropped', protocol = 'newreno', from = 'a', to = 'b' }]";

    #[test]
    fn every_packet_is_there_when_it_leaves() {
        let scenario = ScenarioFile::parse("test.toml", TEXT).unwrap().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pcapng");
        let pcap = PcapFile::create(&path, &scenario, &[0, 1], 100).unwrap();
        let outcome = Simulation::observed(&scenario, pcap.observer()).finish();
        assert_eq!(
            outcome.fingerprint,
            windward_sim::run(&scenario).fingerprint,
            "observation changes nothing"
        );
        pcap.commit().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mut reader = PcapNgReader::new(file).unwrap();
        let (mut names, mut counts) = (Vec::new(), [[0_u64; 3]; 2]);
        let (mut marked, mut last) = (0, [Duration::ZERO; 2]);
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::InterfaceDescription(interface) => {
                    for option in interface.options {
                        if let InterfaceDescriptionOption::IfName(name) = option {
                            names.push(name.to_string());
                        }
                    }
                }
                Block::EnhancedPacket(packet) => {
                    let interface = packet.interface_id as usize;
                    assert!(packet.timestamp >= last[interface]);
                    last[interface] = packet.timestamp;
                    counts[interface][0] += 1;
                    for option in &packet.options {
                        match option {
                            EnhancedPacketOption::Comment(_) => counts[interface][1] += 1,
                            EnhancedPacketOption::DropCount(n) => counts[interface][2] += n,
                            other => panic!("{other:?}"),
                        }
                    }
                    let (ip, rest) = Ipv4Header::from_slice(&packet.data).unwrap();
                    assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                    assert_eq!(u32::from(ip.total_len), packet.original_len);
                    marked += u64::from(ip.ecn == IpEcn::CongestionExperienced);
                    let (udp, rest) = UdpHeader::from_slice(rest).unwrap();
                    assert_eq!(udp.destination_port == 9743, interface == 0);
                    // Data of 1000 bytes has room for its header; acknowledgments of 40 do not.
                    assert_eq!(wire::decode(rest).is_ok(), interface == 0);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(names, ["link", "link-reverse"]);
        let of = |link: usize| {
            let link = &outcome.links[link];
            // Packets on a wire at the end have left their queue, and queued ones have not.
            (link.delivered + link.corrupted, link.corrupted, link.dropped)
        };
        for (link, [packets, destroyed, dropped]) in counts.into_iter().enumerate() {
            let (left, corrupted, lost) = of(link);
            assert!((left..=left + outcome.links[link].in_flight).contains(&packets), "{packets}");
            assert_eq!(destroyed, corrupted);
            // Drops after the last packet are in none.
            assert!(dropped <= lost && lost <= dropped + 6, "{dropped} of {lost}");
        }
        assert!(counts[0][1] > 10 && counts[0][2] > 0, "{counts:?}");
        let marks = outcome.links[0].marked;
        assert!(marks > 0 && marks.abs_diff(marked) <= 6, "{marked} of {marks}");
    }

    #[test]
    fn packets_of_programs_are_there_as_they_are_but_for_marks() {
        let ip = Ipv4Header::new(4, 64, IpNumber::TCP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        let mut ip = Ipv4Header { ecn: IpEcn::Ect0, ..ip };
        ip.header_checksum = ip.calc_header_checksum();
        let whole = [&ip.to_bytes()[..], b"data"].concat();
        assert_eq!(marked(&whole, Flags::ECN_CAPABLE), whole);
        let after = marked(&whole, Flags::ECN_CAPABLE.with(Flags::CONGESTION_EXPERIENCED));
        let (ip, rest) = Ipv4Header::from_slice(&after).unwrap();
        assert_eq!((ip.ecn, rest), (IpEcn::CongestionExperienced, &b"data"[..]));
        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
        // Version 6, traffic class 0x02 (ECT(0)), which becomes 0x03.
        let v6 = [&[0x60, 0x20][..], &[0; 38]].concat();
        assert_eq!(marked(&v6, Flags::CONGESTION_EXPERIENCED)[..2], [0x60, 0x30]);
    }

    #[test]
    fn a_full_disk_is_told() {
        let scenario = ScenarioFile::parse("test.toml", TEXT).unwrap().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.pcapng");
        let pcap = PcapFile::create(&path, &scenario, &[0], 100).unwrap();
        pcap.check().unwrap();
        lock(&pcap.shared).error =
            Some(OutputError::write(&path, std::io::ErrorKind::StorageFull.into()));
        Simulation::observed(&scenario, pcap.observer()).finish();
        let error = pcap.commit().unwrap_err().to_string();
        assert!(error.contains("run.pcapng"), "{error}");
        assert!(!path.exists());
    }
}
