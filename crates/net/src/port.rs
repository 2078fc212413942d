//! Where packets of outside programs enter a simulation and leave it.
//!
//! A scenario names two ports as it names any connection: a flow whose protocol is [`NAME`], from one node to the other.
//! What comes in at the one end leaves at the other, unless a queue drops it or a channel destroys it; both ways cross the
//! links of the scenario as all other packets do. The engine carries a packet whole, so that what is written outside is what
//! was read there, but for what routers may change: the ECN field of its IP header, and the congestion header of datagrams of
//! ours (docs/wire.md). Queues by flow see its addresses and ports, queues by class what its congestion header asks for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windward_core::packet::Packet;
use windward_core::units::Time;
use windward_sim::Simulation;
use windward_sim::stack::{
    Codepoint, Connection, End, Facts, Seen, Stack, StackReport, StackSetup, UDP_OVERHEAD,
};

use crate::headers::{self, View};

/// What scenario files call such a flow.
pub const NAME: &str = "outside:port";

/// A packet of an outside program: an IP packet from its first byte on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsidePacket {
    /// The end at which it comes in, or goes out.
    pub end: End,
    /// When it goes out, or was lost, by the clock of the simulation; of one that comes in, zero.
    pub at: Time,
    /// All of it. Bytes behind the end that an IP header states are carried along, and are not on the wire.
    pub bytes: Vec<u8>,
    /// The codepoint that it came with, or that the network made of it.
    pub ecn: Codepoint,
}

/// What waits to come in at each end, and what has come out.
#[derive(Debug, Default)]
struct PortState {
    /// What was read and the engine must not see yet, and when the last of it was read.
    arrived: Vec<OutsidePacket>,
    arrived_at: Option<Time>,
    inbox: [VecDeque<OutsidePacket>; 2],
    outbox: VecDeque<OutsidePacket>,
    /// What the network has lost, if somebody asks for it.
    lost: Option<VecDeque<OutsidePacket>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    delivered: u64,
    /// The largest packet that reached the receiver, bytes.
    largest: u32,
    /// By the end at which packets came in.
    counts: [Counts; 2],
}

/// What came in at once.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) packets: u64,
    /// The ends at which it did.
    pub(crate) ends: [bool; 2],
    /// When the last of it was read.
    pub(crate) last: Time,
}

/// What came in at one end of a port and went out at the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that came in.
    pub packets_sent: u64,
    /// Packets that went out.
    pub packets_delivered: u64,
    /// Bytes of those, with their IP headers.
    pub bytes_delivered: u64,
}

/// The most buffers that are kept.
const MOST_SPARE: usize = 1024;

/// A flow of a scenario as its owner outside has it.
#[derive(Debug, Clone, Default)]
pub struct Port(Arc<Mutex<PortState>>);

impl Port {
    fn state(&self) -> MutexGuard<'_, PortState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A packet comes in at that end; the engine takes it when it is woken.
    pub fn push(&self, end: End, bytes: &[u8], ecn: Codepoint) {
        let mut state = self.state();
        state.counts[end as usize].packets_sent += 1;
        let mut buffer = state.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let packet = OutsidePacket { end, at: Time::ZERO, bytes: buffer, ecn };
        state.inbox[end as usize].push_back(packet);
    }

    /// A packet was read at `now`: the engine must not see it before [`Port::take_in`].
    pub(crate) fn arrive(&self, now: Time, end: End, bytes: &[u8], ecn: Codepoint) {
        let mut state = self.state();
        let mut buffer = state.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        state.arrived.push(OutsidePacket { end, at: Time::ZERO, bytes: buffer, ecn });
        state.arrived_at = Some(now);
    }

    /// When the last packet was read that has [arrived](Port::arrive) and waits to be taken in.
    pub(crate) fn arrived_at(&self) -> Option<Time> {
        self.state().arrived_at
    }

    /// What has [arrived](Port::arrive) comes in: the engine takes it when it is woken.
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

    /// The next packet that has come out, in the order in which they did.
    pub fn pop(&self) -> Option<OutsidePacket> {
        self.state().outbox.pop_front()
    }

    /// Keeps what the network loses from now on, for [`Port::pop_lost`].
    pub fn watch_losses(&self) {
        self.state().lost.get_or_insert_default();
    }

    /// The next packet that was lost, as it came in at its end; `None` too if nobody
    /// [watches](Port::watch_losses).
    pub fn pop_lost(&self) -> Option<OutsidePacket> {
        self.state().lost.as_mut()?.pop_front()
    }

    /// The largest packet that has reached the receiver so far, bytes; 0 if none has.
    pub fn largest(&self) -> u32 {
        self.state().largest
    }

    /// What has come in at that end so far, and how much of it has gone out at the other.
    pub fn counts(&self, from: End) -> Counts {
        self.state().counts[from as usize]
    }

    /// Gives the buffer of a packet back.
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

/// Makes ports of the flows of a scenario that ask for them. Give it to [`with_stacks`], build, make the simulation, and
/// [take](Ports::take) them.
///
/// [`with_stacks`]: windward_sim::scenario::file::ScenarioFile::with_stacks
#[derive(Debug)]
pub struct Ports {
    facts: Facts,
    made: Mutex<Vec<Port>>,
}

impl Ports {
    /// None so far.
    pub fn new() -> Arc<Self> {
        let facts = Facts {
            name: NAME,
            summary: "packets of outside programs",
            source: "whoever is outside",
            notes: vec![
                "What comes in at one end goes out at the other. Links change the ECN field of the IP \
                 header and the congestion header of datagrams of ours, no more.",
            ],
            packet_sizes: UDP_OVERHEAD + 1..=u32::from(u16::MAX),
            unrepeatable: None,
        };
        Arc::new(Ports { facts, made: Mutex::default() })
    }

    /// The ports that were made since, in the order of the flows.
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

/// A port as the engine has it.
#[derive(Debug)]
struct Inside {
    port: Port,
    /// Of labels: another with each seed, and the same in a replay.
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
