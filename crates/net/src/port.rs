//! Ports, where packets of outside programs enter a simulation and leave it.
//!
//! In a scenario, a port is a flow whose protocol is [`NAME`], from one node to another. A packet
//! that comes in at one end leaves at the other, unless a queue drops it or a channel destroys it;
//! in both directions packets cross the links of the scenario as all others do. The engine carries
//! all bytes of a packet, so that it is written outside as it was read there, except for the fields
//! that routers may change: the ECN field of its IP header, and the congestion header of Windward's
//! datagrams (docs/wire.md). Queues by flow see its addresses and ports, queues by class the router
//! that its congestion header asks for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windward_core::packet::Packet;
use windward_core::units::Time;
use windward_sim::Simulation;
use windward_sim::stack::{
    Codepoint, Connection, End, Facts, Seen, Stack, StackReport, StackSetup, UDP_OVERHEAD,
};

use crate::headers::{self, View};

/// Protocol of such a flow in scenario files.
pub const NAME: &str = "outside:port";

/// A packet of an outside program: an IP packet from its first byte on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsidePacket {
    /// The end at which it comes in, or goes out.
    pub end: End,
    /// Virtual time at which it goes out or was lost; zero for a packet that comes in.
    pub at: Time,
    /// All bytes. Bytes behind the end that the IP header states are carried along, but are not on
    /// the wire.
    pub bytes: Vec<u8>,
    /// ECN codepoint with which it came in, or with which it goes out.
    pub ecn: Codepoint,
}

/// State of a port: packets that wait to come in at each end, and those that have come out.
#[derive(Debug, Default)]
struct PortState {
    /// Packets that were read and that the engine must not see yet, and when the last of them was
    /// read.
    arrived: Vec<OutsidePacket>,
    arrived_at: Option<Time>,
    inbox: [VecDeque<OutsidePacket>; 2],
    outbox: VecDeque<OutsidePacket>,
    /// Packets that the network has lost, if they are watched.
    lost: Option<VecDeque<OutsidePacket>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    delivered: u64,
    /// The largest packet that reached the receiver, bytes.
    largest: u32,
    /// Counts by the end at which packets came in.
    counts: [Counts; 2],
}

/// Packets that came in at once.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) packets: u64,
    /// The ends at which they came in.
    pub(crate) ends: [bool; 2],
    /// When the last of them was read.
    pub(crate) last: Time,
}

/// Counts of packets that came in at one end of a port and went out at the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came in.
    pub packets_sent: u64,
    /// Packets that went out.
    pub packets_delivered: u64,
    /// Bytes of those, with their IP headers.
    pub bytes_delivered: u64,
}

/// Maximum number of buffers that are kept.
const MOST_SPARE: usize = 1024;

/// A port, as its owner outside sees it.
#[derive(Debug, Clone, Default)]
pub struct Port(Arc<Mutex<PortState>>);

impl Port {
    fn state(&self) -> MutexGuard<'_, PortState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings a packet in at an end; the engine takes it when it is woken.
    pub fn push(&self, end: End, bytes: &[u8], ecn: Codepoint) {
        let mut state = self.state();
        state.counts[end as usize].packets_sent += 1;
        let mut buffer = state.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let packet = OutsidePacket { end, at: Time::ZERO, bytes: buffer, ecn };
        state.inbox[end as usize].push_back(packet);
    }

    /// Notes a packet that was read at `now`; the engine must not see it before [`Port::take_in`].
    pub(crate) fn arrive(&self, now: Time, end: End, bytes: &[u8], ecn: Codepoint) {
        let mut state = self.state();
        let mut buffer = state.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        state.arrived.push(OutsidePacket { end, at: Time::ZERO, bytes: buffer, ecn });
        state.arrived_at = Some(now);
    }

    /// When the last of the packets was read that have [arrived](Port::arrive) and wait to be taken
    /// in.
    pub(crate) fn arrived_at(&self) -> Option<Time> {
        self.state().arrived_at
    }

    /// Brings in the packets that have [arrived](Port::arrive); the engine takes them when it is
    /// woken.
    pub(crate) fn take_in(&self) -> Option<Arrived> {
        let mut state = self.state();
        let PortState { arrived, arrived_at, inbox, .. } = &mut *state;
        let last = arrived_at.take()?;
        let packets = arrived.len() as u64;
        let mut ends = [false; 2];
        for packet in arrived.drain(..) {
            ends[packet.end as usize] = true;
            inbox[packet.end as usize].push_back(packet);
        }
        Some(Arrived { packets, ends, last })
    }

    /// The next packet that has come out, in order.
    pub fn pop(&self) -> Option<OutsidePacket> {
        self.state().outbox.pop_front()
    }

    /// Keeps the packets that the network loses from now on, for [`Port::pop_lost`].
    pub fn watch_losses(&self) {
        self.state().lost.get_or_insert_default();
    }

    /// The next packet that was lost, as it came in at its end; `None` if losses are not
    /// [watched](Port::watch_losses).
    pub fn pop_lost(&self) -> Option<OutsidePacket> {
        self.state().lost.as_mut()?.pop_front()
    }

    /// Size of the largest packet that has reached the receiver so far, bytes; 0 if none has.
    pub fn largest(&self) -> u32 {
        self.state().largest
    }

    /// Counts of the packets that have come in at an end so far.
    pub fn counts(&self, from: End) -> Counts {
        self.state().counts[from as usize]
    }

    /// Takes back the buffer of a packet.
    pub fn recycle(&self, packet: OutsidePacket) {
        let mut state = self.state();
        if state.spare.len() < MOST_SPARE {
            state.spare.push(packet.bytes);
        }
    }
}

/// Wakes the ends at which something came in.
pub(crate) fn wake(simulation: &mut Simulation, flow: usize, ends: [bool; 2]) {
    for end in End::BOTH {
        if ends[end as usize] {
            simulation.wake(flow, end);
        }
    }
}

/// Maker of ports for the flows of a scenario. Pass it to [`with_stacks`], build, make the
/// simulation, and [take](Ports::take) the ports.
///
/// [`with_stacks`]: windward_sim::scenario::file::ScenarioFile::with_stacks
#[derive(Debug)]
pub struct Ports {
    facts: Facts,
    made: Mutex<Vec<Port>>,
}

impl Ports {
    /// A maker that has not made ports yet.
    pub fn new() -> Arc<Self> {
        let facts = Facts {
            name: NAME,
            summary: "packets of outside programs",
            source: "outside programs",
            notes: vec![
                "Packets that enter at one end leave at the other. Links change only the ECN field of the IP \
                 header and the congestion header of Windward's datagrams.",
            ],
            packet_sizes: UDP_OVERHEAD + 1..=u32::from(u16::MAX),
            unrepeatable: None,
        };
        Arc::new(Ports { facts, made: Mutex::default() })
    }

    /// The ports that were made since the last call, in the order of the flows.
    pub fn take(&self) -> Vec<Port> {
        std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Stack for Ports {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn has_classes(&self) -> bool {
        true
    }

    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection> {
        let port = Port::default();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).push(port.clone());
        Box::new(Inside { port, salt: setup.seed })
    }
}

/// A port, as the engine sees it.
#[derive(Debug)]
struct Inside {
    port: Port,
    /// Salt of labels: differs with the seed, and is the same in a replay.
    salt: u64,
}

impl Inside {
    fn put_out(
        &self,
        at: Time,
        end: End,
        payload: &[u8],
        change: impl FnOnce(&mut [u8]),
        ecn: Codepoint,
    ) {
        let mut state = self.port.state();
        let mut bytes = state.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(payload);
        change(&mut bytes);
        if end == End::Receiver {
            state.delivered += payload.len() as u64;
            let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
            state.largest = state.largest.max(length);
        }
        let counts = &mut state.counts[1 - end as usize];
        counts.packets_delivered += 1;
        counts.bytes_delivered += payload.len() as u64;
        state.outbox.push_back(OutsidePacket { end, at, bytes, ecn });
    }
}

impl Connection for Inside {
    fn start(&mut self, _: Time) {}

    fn stop(&mut self, _: Time) {}

    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint) {
        self.put_out(now, end, payload, |_| {}, ecn);
    }

    fn receive_shown(
        &mut self,
        now: Time,
        end: End,
        payload: &[u8],
        packet: &Packet,
        ecn: Codepoint,
    ) {
        self.put_out(now, end, payload, |bytes| headers::write_back(bytes, packet, ecn), ecn);
    }

    fn poll_transmit(&mut self, _: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint> {
        let mut state = self.port.state();
        let packet = state.inbox[end as usize].pop_front()?;
        let used = std::mem::replace(payload, packet.bytes);
        if state.spare.len() < MOST_SPARE {
            state.spare.push(used);
        }
        Some(packet.ecn)
    }

    fn show(&mut self, payload: &[u8], packet: &mut Packet) -> Option<Seen> {
        let View { seen, ours, length, .. } = headers::look(payload, self.salt)?;
        if let Some((ours, _)) = ours {
            *packet = ours;
        }
        packet.size = length;
        Some(seen)
    }

    fn lost(&mut self, now: Time, from: End, payload: &[u8]) {
        let mut state = self.port.state();
        if state.lost.is_none() {
            return;
        }
        let mut bytes = state.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(payload);
        let packet = OutsidePacket { end: from, at: now, bytes, ecn: Codepoint::NotEct };
        state.lost.get_or_insert_default().push_back(packet);
    }

    fn next_timer(&mut self, _: End) -> Time {
        Time::NEVER
    }

    fn on_timer(&mut self, _: Time, _: End) {}

    fn report(&self) -> StackReport {
        let delivered = self.port.state().delivered;
        StackReport { delivered, connected: true, ..StackReport::default() }
    }

    fn overhead(&self) -> u32 {
        0
    }
}
