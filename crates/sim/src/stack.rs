//! Connections of code that is not ours: QUIC stacks as they are deployed, in virtual time.
//!
//! A [`Stack`] has a name (`quinn:cubic`) and makes [`Connection`]s; [`Stacks`] are those that a
//! scenario file may name ([`with_stacks`](crate::scenario::file::ScenarioFile::with_stacks)). This
//! crate has none of its own: `windward-stacks` has.
//!
//! A connection is both of its ends, sans I/O: the engine brings packets and the time, asks for
//! packets and for the next timer, and carries the packets over the same links, queues and channels
//! as all others, there and back. What it sends are UDP datagrams over IPv4 ([`UDP_OVERHEAD`]).
//! A connection must take all randomness from [`StackSetup::seed`] and all time from its arguments, or runs
//! are not repeatable.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use windward_core::packet::{Label, Packet};
use windward_core::part::Kind;
use windward_core::units::{Duration, Time};

/// Bytes of the IPv4 and UDP headers that are on the wire before what a connection sends (RFC 791,
/// RFC 768).
pub const UDP_OVERHEAD: u32 = 20 + 8;

/// Code that makes connections of one kind.
pub trait Stack: Debug + Send + Sync {
    /// What it is.
    fn facts(&self) -> &Facts;

    /// Do its connections [show](Connection::show) packets of several classes? Then links that they
    /// cross have a queue for every class that the scenario names, in both directions.
    fn has_classes(&self) -> bool {
        false
    }

    /// Both ends of a connection, at time zero. Nothing is sent before [`Connection::start`].
    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection>;
}

/// What a stack tells of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What scenario files and results call it: the stack, a colon, the controller.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Package, version and type of the code that runs.
    pub source: &'static str,
    /// What runs as it is, what is modelled and what is not, a paragraph each.
    pub notes: Vec<&'static str>,
    /// The sizes of full data packets on the wire that it can have, bytes.
    pub packet_sizes: RangeInclusive<u32>,
    /// A run may differ from the next with the same seed; why.
    pub unrepeatable: Option<&'static str>,
}

/// The stacks that a scenario file may name.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    all: Arc<[Arc<dyn Stack>]>,
    /// Names that there might be, and why there are none.
    refused: Arc<[(String, &'static str)]>,
}

impl Stacks {
    /// None at all.
    pub fn none() -> Self {
        Stacks::default()
    }

    /// The stack of that name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Stack>> {
        self.iter().find(|stack| stack.facts().name == name)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Stack>> {
        self.all.iter()
    }

    /// The same, and one more.
    #[must_use]
    pub fn with(self, stack: Arc<dyn Stack>) -> Self {
        let all = self.iter().cloned().chain([stack]).collect();
        Stacks { all, ..self }
    }

    /// The same, with names that somebody may look for in vain, and why there is no such stack, as the
    /// end of a sentence.
    #[must_use]
    pub fn refusing(self, names: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        Stacks { refused: self.refused.iter().cloned().chain(names).collect(), ..self }
    }

    /// Why there is no stack of that name, if it is known.
    pub fn refused(&self, name: &str) -> Option<&'static str> {
        self.refused.iter().find(|(refused, _)| refused == name).map(|(_, why)| *why)
    }
}

impl FromIterator<Arc<dyn Stack>> for Stacks {
    /// Of several stacks with one name the first is found.
    fn from_iter<I: IntoIterator<Item = Arc<dyn Stack>>>(stacks: I) -> Self {
        Stacks { all: stacks.into_iter().collect(), refused: Arc::default() }
    }
}

/// What a connection is to be like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StackSetup {
    /// What its randomness derives from: the seed of the run and the name of the flow.
    pub seed: u64,
    /// Bytes that the application transfers, or `None` for bulk: data never runs out.
    pub bytes: Option<u64>,
    /// What scenario files set.
    pub config: StackConfig,
}

/// What scenario files set of connections of stacks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StackConfig {
    /// Size of a full data packet on the wire, bytes, with [`UDP_OVERHEAD`].
    pub packet_size: u32,
    /// Receiver window, in packets of that size.
    pub rwnd: u64,
    /// Does the network let ECN codepoints pass? Else packets lose theirs as they leave.
    pub ecn: bool,
    /// The most packets that leave back to back, as with segmentation offload (GSO): a stack makes
    /// them at once and one system call sends them.
    pub segments: u32,
    /// The most streams that a transfer is spread over, packet by packet. Receivers of some stacks
    /// give a connection up whose streams have too many gaps.
    pub streams: u32,
}

impl StackConfig {
    /// The size of packets where the file says nothing: what Ethernet carries.
    pub const PACKET_SIZE: u32 = 1500;

    /// The most bytes that a connection can have in one packet.
    pub const fn payload(&self) -> u32 {
        self.packet_size - UDP_OVERHEAD
    }
}

impl Default for StackConfig {
    fn default() -> Self {
        let packet_size = StackConfig::PACKET_SIZE;
        StackConfig { packet_size, rwnd: 1 << 20, ecn: true, segments: 10, streams: 16 }
    }
}

windward_core::parameters! {
    StackConfig in "quic", "connections of QUIC stacks (docs/stacks.md)";
    segments: Kind::Integer { least: 1, most: 64 }, "packets",
        "the most that leave back to back, as segmentation offload has it";
    streams: Kind::Integer { least: 1, most: 1024 }, "",
        "the most streams that a transfer is spread over";
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// The client, which sends the data.
    #[default]
    Sender = 0,
    /// The server, which acknowledges it.
    Receiver = 1,
}

impl End {
    /// Both.
    pub const BOTH: [End; 2] = [End::Sender, End::Receiver];

    /// The other one.
    #[must_use]
    pub const fn other(self) -> End {
        match self {
            End::Sender => End::Receiver,
            End::Receiver => End::Sender,
        }
    }
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codepoint {
    /// 00: does not understand ECN.
    #[default]
    NotEct,
    /// 10.
    Ect0,
    /// 01 (RFC 9331).
    Ect1,
    /// 11: congestion experienced.
    Ce,
}

/// What links know of a packet that its connection [shows](Connection::show).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Whose it is to queues by flow and by class, in place of the connection's own label.
    pub label: Label,
    /// Where a channel damages it and a notifier stands at the end of the link, does it go on with
    /// [`Flags::CORRUPTED`](windward_core::packet::Flags::CORRUPTED)? Else it is lost.
    pub tells_of_damage: bool,
}

/// Both ends of a connection.
///
/// One that panics is given up, and the flow says so. Times never run back. After each call that tells an end something the engine asks it for packets
/// until it has none, and then for its timer.
pub trait Connection: Debug + Send {
    /// The application begins: the sender connects, and sends its data when it can.
    fn start(&mut self, now: Time);

    /// The application has no more data from here on.
    fn stop(&mut self, now: Time);

    /// A packet reaches an end: its payload, and what the network made of its codepoint.
    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint);

    /// The next packet of an end, if it may send one now: replaces what is in `payload`.
    fn poll_transmit(&mut self, now: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint>;

    /// What links see of the packet that [`Connection::poll_transmit`] has just given: writes its
    /// headers into `packet`, whose kind is that of its end, and its size if not all of the payload is
    /// on the wire. Time and codepoint are the engine's. `None`, as by default, for a packet of the connection without any headers.
    fn show(&mut self, payload: &[u8], packet: &mut Packet) -> Option<Seen> {
        let _ = (payload, packet);
        None
    }

    /// As [`Connection::receive`], which it is by default, of a packet with what the links made of the
    /// headers that were [shown](Connection::show).
    fn receive_shown(
        &mut self,
        now: Time,
        end: End,
        payload: &[u8],
        packet: &Packet,
        ecn: Codepoint,
    ) {
        let _ = packet;
        self.receive(now, end, payload, ecn);
    }

    /// A packet of that end is lost: a queue has dropped it or a channel destroyed it. For connections
    /// that keep something for each packet; what a real one may not know it must not use.
    fn lost(&mut self, now: Time, from: End, payload: &[u8]) {
        let _ = (now, from, payload);
    }

    /// When to call [`Connection::on_timer`] for that end if nothing else comes before, or never.
    fn next_timer(&mut self, end: End) -> Time;

    /// The timer of that end has expired.
    fn on_timer(&mut self, now: Time, end: End);

    /// Where it stands.
    fn report(&self) -> StackReport;

    /// The QUIC packets in a datagram that [`Connection::poll_transmit`] has just given, for logs. It is
    /// asked for all datagrams of a connection in their order, or for none, and must change nothing of what
    /// the connection does. Empty, as by default, where a connection does not tell.
    fn describe(&mut self, from: End, payload: &[u8]) -> Vec<PacketFacts> {
        let _ = (from, payload);
        Vec::new()
    }

    /// Bytes that are on the wire before each payload; asked once. [`UDP_OVERHEAD`] unless it says otherwise.
    fn overhead(&self) -> u32 {
        UDP_OVERHEAD
    }
}

/// A QUIC packet, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFacts {
    /// Its type.
    pub kind: PacketType,
    /// Its number, in full.
    pub number: u64,
    /// Its bytes, with header and tag.
    pub length: u32,
    /// Its frames. The list ends before one that cannot be read.
    pub frames: Vec<FrameFacts>,
}

/// The types of QUIC packets that have numbers (RFC 9000 section 17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketType {
    /// Initial.
    Initial,
    /// 0-RTT.
    ZeroRtt,
    /// Handshake.
    Handshake,
    /// 1-RTT, with the short header.
    OneRtt,
}

impl PacketType {
    /// Which of the three number spaces counts it (RFC 9000 section 12.3).
    pub const fn space(self) -> usize {
        match self {
            PacketType::Initial => 0,
            PacketType::Handshake => 1,
            PacketType::ZeroRtt | PacketType::OneRtt => 2,
        }
    }
}

/// A frame of a QUIC packet, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameFacts {
    /// Data of a stream.
    Stream {
        /// The stream.
        id: u64,
        /// Where in it the data begin.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Data of the handshake.
    Crypto {
        /// Where in them these begin.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// An acknowledgment.
    Ack {
        /// First and last number of each range, the newest range first.
        ranges: Vec<(u64, u64)>,
        /// Packets that came with ECT(0), ECT(1) and CE, where it says so.
        ecn: Option<[u64; 3]>,
    },
    /// Any other, by its name in qlog.
    Other(&'static str),
}

/// Where a connection stands, as far as it tells. Counts are of the whole connection so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StackReport {
    /// Congestion window of the sender, bytes.
    pub cwnd: u64,
    /// Its slow start threshold, bytes; `None` before there is one, and where there never is.
    pub ssthresh: Option<u64>,
    /// Bytes sent that are neither acknowledged nor deemed lost.
    pub in_flight: u64,
    /// Smoothed RTT of the sender; zero before the first sample.
    pub srtt: Duration,
    /// The sum of its RTT samples, and how many they are.
    pub rtts: (Duration, u64),
    /// Packets that the sender deemed lost.
    pub lost: u64,
    /// How often a window law of another crate gave a window that is none and was kept within bounds.
    pub refused_windows: u64,
    /// Bytes of the application that the receiver has for good, each counted once.
    pub delivered: u64,
    /// Has the sender shaken hands, so that it can send data? True from the start where nobody does.
    pub connected: bool,
    /// Has a transfer of fixed size been acknowledged in full?
    pub completed: bool,
    /// Why the connection is no more, if it failed.
    pub failure: Option<Arc<str>>,
}
