//! Network namespaces at the ends of ports, connected only by the links of the scenario.
//!
//! Each node at which a port begins or ends is a namespace, and each port is a pair of TUN devices
//! in two namespaces, with addresses of its own. A program in one of them reaches the other end of
//! a port by its address, or by the name of the node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use windward_core::units::Duration;
use windward_netns::packet::{self, Ecn};
use windward_netns::{Namespace, Pair, PairOptions, Poller, Received, Result, ToSend};
use windward_sim::Scenario;
use windward_sim::record::EmulationRecord;
use windward_sim::scenario::Traffic;
use windward_sim::stack::{Codepoint, End};

use crate::emulate::{Lateness, Outside, Take};
use crate::port::{NAME, Port};
use crate::waits::{Waited, Watch};

/// Properties of a testbed.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// True if ports begin in the network of the caller, instead of in namespaces.
    pub present: bool,
    /// MTU of the devices, bytes, instead of the packet size of the ports; larger packets are
    /// answered by ICMP.
    pub mtu: Option<u16>,
    /// True if the kernel may hand over and take many packets at once; see [`windward_netns::Tun`].
    pub offload: bool,
    /// True if default routes lead to the node where a port begins.
    pub default_routes: bool,
    /// True if each port has namespaces of its own, even if several begin or end at one node. The
    /// name of a node then has that of the flow too, as in `outside.rival-1`.
    pub apart: bool,
}

/// One end of a port outside.
#[derive(Debug)]
struct Device {
    port: usize,
    end: End,
    /// Size of the largest packet that can cross the port, bytes.
    mtu: u16,
    received: Received,
    to_send: ToSend,
}

/// Counts of packets that did not enter the engine, or did not reach a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strays {
    /// Packets too large for the port: answered by ICMP, or fragmented if that is allowed.
    pub too_big: u64,
    /// Bytes that are not IP packets.
    pub malformed: u64,
    /// Packets that the kernel did not take.
    pub refused: u64,
    /// Packets that the kernel dropped because they were not read in time, as the machine is too
    /// slow.
    pub overflow: u64,
}

impl Strays {
    /// Record of how well an emulation kept its clock, how long its programs waited for a CPU, and
    /// whether its results may be used.
    pub fn record(
        self,
        late: &Lateness,
        real_time: bool,
        waited: Option<Waited>,
    ) -> EmulationRecord {
        let mut record = EmulationRecord {
            usable: true,
            packets: late.packets(),
            late_p50_s: late.percentile(50.0).as_secs_f64(),
            late_p99_s: late.percentile(99.0).as_secs_f64(),
            late_max_s: late.percentile(100.0).as_secs_f64(),
            late_share: late.late_share(),
            early_max_s: late.most_early().as_secs_f64(),
            early_share: late.early_share(),
            real_time,
            programs_waited_s: waited.map(|waited| waited.waited.as_secs_f64()),
            programs_waited_share: waited.map(Waited::share),
            too_big: self.too_big,
            malformed: self.malformed,
            refused: self.refused,
            overflow: self.overflow,
        };
        record.usable = record.faults().is_empty();
        record
    }
}

/// True if a socket listens in the network namespace of a process. Lines after the headings of
/// proc_net(5) are sockets.
pub fn listens(process: u32) -> bool {
    has_sockets(&format!("/proc/{process}/net"))
}

/// True if a socket listens in the namespace of the calling thread.
pub fn listens_here() -> bool {
    has_sockets("/proc/thread-self/net")
}

fn has_sockets(directory: &str) -> bool {
    ["tcp", "tcp6", "udp", "udp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("{directory}/{table}"));
        text.is_ok_and(|text| text.lines().count() > 1)
    })
}

/// Namespaces and the devices in them that packets cross.
#[derive(Debug)]
pub struct Testbed {
    namespaces: BTreeMap<String, Namespace>,
    ports: Vec<(usize, Port)>,
    ends: Vec<[String; 2]>,
    pairs: Vec<Pair>,
    /// Two for each pair.
    devices: Vec<Device>,
    poller: Poller,
    /// Indices of the devices that had packets when last polled.
    ready: Vec<usize>,
    ended: bool,
    stop: Option<&'static AtomicBool>,
    strays: Strays,
}

/// Number of packets that are read from a device before the next one has its turn.
const TURN: usize = 64;
/// Stands for a file that is watched and is not a device.
const WATCHED: u64 = u64::MAX;

/// Nodes at which a flow begins and ends; if the topology has no names for them, they have the name
/// of the flow.
fn nodes(scenario: &Scenario, flow: usize) -> [String; 2] {
    let flow = &scenario.flows[flow];
    let own = || ["sender", "receiver"].map(|end| format!("{}-{end}", flow.name));
    flow.kind.nodes.clone().unwrap_or_else(own)
}

/// Flows of a scenario that are ports, with the nodes at which each begins and ends.
pub fn ports(scenario: &Scenario) -> impl Iterator<Item = (usize, [String; 2])> {
    (0..scenario.flows.len())
        .filter(|flow| scenario.flows[*flow].kind.traffic.protocol_name() == NAME)
        .map(|flow| (flow, nodes(scenario, flow)))
}

impl Testbed {
    /// Builds the testbed for `scenario`, whose simulation has these
    /// [ports](crate::port::Ports::take). `go_on` is called with the share that is done, and
    /// returns whether to continue; if not, the result is `None`.
    ///
    /// # Errors
    /// Without the rights ([`windward_netns::become_root`]), and as of [`Pair::new`].
    pub fn new(
        scenario: &Scenario,
        made: Vec<Port>,
        options: &Options,
        mut go_on: impl FnMut(f64) -> bool,
    ) -> Result<Option<Self>> {
        let all = made.len() as f64;
        let mut testbed = Testbed {
            namespaces: BTreeMap::new(),
            ports: Vec::new(),
            ends: Vec::new(),
            pairs: Vec::new(),
            devices: Vec::new(),
            poller: Poller::new()?,
            ready: Vec::new(),
            ended: false,
            stop: None,
            strays: Strays::default(),
        };
        let mut hosts: BTreeMap<String, Vec<(IpAddr, String)>> = BTreeMap::new();
        for ((flow, nodes), port) in ports(scenario).zip(made) {
            let name = &scenario.flows[flow].name;
            let [from, to] = match options.apart {
                true => nodes.map(|node| format!("{node}.{name}")),
                false => nodes,
            };
            if !go_on(testbed.ports.len() as f64 / all) {
                return Ok(None);
            }
            for node in [&from, &to].into_iter().skip(usize::from(options.present)) {
                if let Entry::Vacant(vacant) = testbed.namespaces.entry(node.clone()) {
                    vacant.insert(Namespace::new()?);
                }
            }
            let size = match &scenario.flows[flow].kind.traffic {
                Traffic::Stack { config, .. } => config.packet_size,
                _ => u32::from(u16::MAX),
            };
            let mtu = u16::try_from(size).unwrap_or(u16::MAX);
            let pair_options = PairOptions {
                mtu: options.mtu.unwrap_or(mtu),
                offload: options.offload,
                default_routes: options.default_routes,
                ..PairOptions::default()
            };
            let outside = testbed.namespaces.get(&from).filter(|_| !options.present);
            let pair = Pair::new(outside, &testbed.namespaces[&to], &pair_options)?;
            let number = testbed.ports.len();
            for (end, side) in [(End::Sender, &pair.outside), (End::Receiver, &pair.inside)] {
                testbed.poller.add(side.tun.as_fd(), testbed.devices.len() as u64)?;
                testbed.devices.push(Device {
                    port: number,
                    end,
                    mtu,
                    received: Received::new(&side.tun),
                    to_send: ToSend::default(),
                });
            }
            for (node, other, side) in [(&from, &to, &pair.inside), (&to, &from, &pair.outside)] {
                let of_node = hosts.entry(node.clone()).or_default();
                of_node.push((side.ipv4.into(), other.clone()));
                of_node.extend(side.ipv6.map(|address| (IpAddr::from(address), other.clone())));
            }
            testbed.ports.push((flow, port));
            testbed.ends.push([from, to]);
            testbed.pairs.push(pair);
        }
        for (node, namespace) in &mut testbed.namespaces {
            let of_node = hosts.get(node).map_or(&[][..], Vec::as_slice);
            namespace.set_hosts(of_node.iter().map(|(address, name)| (*address, name.as_str())));
        }
        Ok(Some(testbed))
    }

    /// Removes the testbed and kills what still runs in it. As that takes time with many devices,
    /// `heard` is called with the share that is done.
    pub fn close(mut self, mut heard: impl FnMut(f64)) {
        let all = self.pairs.len().max(1) as f64;
        while self.pairs.pop().is_some() {
            heard(1.0 - self.pairs.len() as f64 / all);
        }
    }

    /// The ports, each with the index of its flow.
    pub fn ports(&self) -> &[(usize, Port)] {
        &self.ports
    }

    /// The nodes at which each port begins and ends, in the order of [`Testbed::ports`].
    pub fn ends(&self) -> &[[String; 2]] {
        &self.ends
    }

    /// The nodes that are namespaces.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// The namespace of a node.
    pub fn namespace(&mut self, node: &str) -> Option<&mut Namespace> {
        self.namespaces.get_mut(node)
    }

    /// The devices of a port, in the order of [`Testbed::ports`].
    pub fn pair(&self, port: usize) -> Option<&Pair> {
        self.pairs.get(port)
    }

    /// Ends an emulation when `file` can be read, such as that of a [child](windward_netns::Inside)
    /// that has ended. The file must stay open as long as the testbed.
    pub fn end_with(&mut self, file: BorrowedFd<'_>) -> Result<()> {
        self.poller.add(file, WATCHED)
    }

    /// True if such a file has ended the emulation.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Ends an emulation when `stop` becomes true; `None` undoes that.
    pub fn stop_on(&mut self, flag: Option<&'static AtomicBool>) {
        self.stop = flag;
    }

    /// Measures how long programs in the namespaces wait for a CPU, from now on; not those in the
    /// network of the caller.
    pub fn watch_waits(&self) -> io::Result<Watch> {
        let ids: Result<_> = self.namespaces.values().map(Namespace::id).collect();
        Watch::start(ids.map_err(io::Error::other)?)
    }

    /// Counts of packets that did not enter the engine, or did not reach a program.
    pub fn strays(&mut self) -> Strays {
        let ends = self.pairs.iter_mut().flat_map(|pair| [&mut pair.outside, &mut pair.inside]);
        let overflow = ends.map(|end| end.overflow().unwrap_or(0)).sum();
        Strays { overflow, ..self.strays }
    }

    /// Gives the namespaces names, so that the next process can clean up if this one is killed; see
    /// [`Namespace::publish`]. Without the right to do so, they stay without names.
    pub fn publish_for_sweep(&mut self) {
        static MADE: AtomicU64 = AtomicU64::new(0);
        for namespace in self.namespaces.values_mut() {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let _ = namespace.publish(&format!("trial-{number}"));
        }
    }

    /// Kills what still runs in the namespaces, as dropping the testbed does.
    pub fn kill_all(&self) -> Result<usize> {
        self.namespaces.values().map(Namespace::kill_all).sum()
    }
}

impl Drop for Testbed {
    /// Kills what still runs in the namespaces.
    fn drop(&mut self) {
        // An error cannot be reported here.
        let _ = self.kill_all();
    }
}

impl Device {
    fn of<'a>(&self, pairs: &'a [Pair]) -> &'a windward_netns::End {
        match self.end {
            End::Sender => &pairs[self.port].outside,
            End::Receiver => &pairs[self.port].inside,
        }
    }
}

impl Outside for Testbed {
    fn read(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let Testbed { ready, devices, pairs, strays, .. } = self;
        for number in ready.drain(..) {
            let device = &mut devices[number];
            let side = device.of(pairs);
            let mut taken = 0;
            while taken < TURN {
                match side.tun.recv_many(&mut device.received) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // A packet that cannot be split is lost; a device that is gone has no more
                    // packets.
                    Err(_) => {
                        strays.malformed += 1;
                        break;
                    }
                }
                for bytes in device.received.packets() {
                    taken += 1;
                    let Ok(header) = packet::Header::parse(bytes) else {
                        strays.malformed += 1;
                        continue;
                    };
                    let bytes = &bytes[..header.total_len];
                    if bytes.len() <= usize::from(device.mtu) {
                        take(device.port, device.end, bytes, codepoint(header.ecn));
                        continue;
                    }
                    strays.too_big += 1;
                    // The answer comes from the far end, since the kernel drops packets from its
                    // own addresses.
                    let far = match device.end {
                        End::Sender => &pairs[device.port].inside,
                        End::Receiver => &pairs[device.port].outside,
                    };
                    let from = (far.ipv4, far.ipv6.unwrap_or(Ipv6Addr::UNSPECIFIED));
                    // Where ICMP allows an answer.
                    if let Some(answer) = packet::too_big(bytes, device.mtu, from.0, from.1) {
                        let _ = side.tun.send(&answer);
                    }
                    for piece in packet::fragments(bytes, device.mtu) {
                        take(device.port, device.end, &piece, codepoint(header.ecn));
                    }
                }
            }
        }
        Ok(())
    }

    fn write(&mut self, port: usize, end: End, bytes: &[u8], _: Codepoint) -> io::Result<()> {
        self.devices[2 * port + end as usize].to_send.push(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        for device in self.devices.iter_mut().filter(|device| !device.to_send.is_empty()) {
            let tun = &device.of(&self.pairs).tun;
            if tun.send_many(&mut device.to_send).is_err() {
                self.strays.refused += 1;
            }
        }
        Ok(())
    }

    fn wait(&mut self, most: Duration) -> io::Result<bool> {
        self.ready.clear();
        for number in self.poller.wait(most)? {
            match number {
                WATCHED => self.ended = true,
                number => self.ready.push(number as usize),
            }
        }
        let stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        Ok(!self.ended && !stopped)
    }
}

fn codepoint(ecn: Ecn) -> Codepoint {
    match ecn {
        Ecn::NotEct => Codepoint::NotEct,
        Ecn::Ect0 => Codepoint::Ect0,
        Ecn::Ect1 => Codepoint::Ect1,
        Ecn::Ce => Codepoint::Ce,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starved_programs_and_lost_packets_make_a_result_unusable() {
        let record = |overflow: u64, waited_ms: u64| {
            let waited = Duration::from_millis(waited_ms);
            let waited = Waited { waited, watched: Duration::from_secs(10) };
            Strays { overflow, ..Strays::default() }.record(&Lateness::new(), true, Some(waited))
        };
        // 5 % of 10 s are 500 ms.
        let good = record(0, 500);
        assert!(good.usable && good.faults().is_empty(), "{good:?}");
        assert_eq!((good.programs_waited_s, good.programs_waited_share), (Some(0.5), Some(0.05)));
        let starved = record(0, 600);
        assert!(!starved.usable);
        assert_eq!(starved.faults(), ["the programs waited for a CPU 6.0 % of the time"]);
        let both = record(3, 600);
        assert_eq!((both.usable, both.faults().len()), (false, 2));
        // A kernel without these counters reports no waiting.
        let unknown = Strays::default().record(&Lateness::new(), true, None);
        assert!(unknown.usable && unknown.programs_waited_share.is_none());
    }
}
