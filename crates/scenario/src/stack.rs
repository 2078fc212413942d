//! Connections of other code: deployed QUIC stacks in virtual time, and ports for outside programs.
//!
//! A [`Stack`] has a name (`quinn:cubic`) and makes [`Connection`]s; [`Stacks`] are those that a
//! scenario file may name ([`with_stacks`](crate::scenario::file::ScenarioFile::with_stacks)). This
//! crate defines no stacks; `windward-stacks` does.
//!
//! A connection consists of both ends and does no I/O: the engine brings packets and the time, asks
//! for packets and for the next timer, and carries the packets over the same links, queues and
//! channels as all others, in both directions. It sends UDP datagrams over IPv4 ([`UDP_OVERHEAD`]).
//! A connection must take all randomness from [`StackSetup::seed`] and all time from its arguments,
//! or runs are not repeatable.

use std::fmt::Debug;
use std::ops::RangeInclusive;
use std::sync::Arc;

use windward_core::packet::{Label, Packet};
use windward_core::part::ValueKind;
use windward_core::units::{Duration, Time};

/// Size of the IPv4 and UDP headers before each payload on the wire, bytes (RFC 791, RFC 768).
pub const UDP_OVERHEAD: u32 = 20 + 8;

/// Maker of connections of one kind.
pub trait Stack: Debug + Send + Sync {
    /// Description of the stack.
    fn facts(&self) -> &Facts;

    /// True if its connections [show](Connection::show) packets of several classes. Then links that
    /// they cross have a queue for every class that the scenario names, in both directions.
    fn has_classes(&self) -> bool {
        false
    }

    /// Makes both ends of a connection. They send nothing before [`Connection::start`].
    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection>;
}

/// Description of a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Name in scenario files and results: the stack, a colon, the controller.
    pub name: &'static str,
    /// Description in one line.
    pub summary: &'static str,
    /// Package, version and type of the code that runs.
    pub source: &'static str,
    /// Paragraphs on what runs unchanged, what is modelled and what is not.
    pub notes: Vec<&'static str>,
    /// Range of sizes of full data packets on the wire, bytes.
    pub packet_sizes: RangeInclusive<u32>,
    /// Reason why two runs with the same seed may differ, if they may.
    pub unrepeatable: Option<&'static str>,
}

/// The stacks that a scenario file may name.
#[derive(Debug, Clone, Default)]
pub struct Stacks {
    all: Arc<[Arc<dyn Stack>]>,
    /// Names of stacks that are not available, and why.
    refused: Arc<[(String, &'static str)]>,
}

impl Stacks {
    /// No stacks.
    pub fn none() -> Self {
        Stacks::default()
    }

    /// The stack with a name.
    pub fn find(&self, name: &str) -> Option<&Arc<dyn Stack>> {
        self.iter().find(|stack| stack.facts().name == name)
    }

    /// All stacks, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Stack>> {
        self.all.iter()
    }

    /// These stacks and one more.
    #[must_use]
    pub fn with(self, stack: Arc<dyn Stack>) -> Self {
        let all = self.iter().cloned().chain([stack]).collect();
        Stacks { all, ..self }
    }

    /// These stacks, and names that are not available with the reason, as the end of a sentence.
    #[must_use]
    pub fn refusing(self, names: impl IntoIterator<Item = (String, &'static str)>) -> Self {
        Stacks { refused: self.refused.iter().cloned().chain(names).collect(), ..self }
    }

    /// Reason why the stack with a name is not available, if it is known.
    pub fn refused(&self, name: &str) -> Option<&'static str> {
        self.refused.iter().find(|(refused, _)| refused == name).map(|(_, why)| *why)
    }
}

impl FromIterator<Arc<dyn Stack>> for Stacks {
    /// Collects stacks. Of several with one name, the first is found.
    fn from_iter<I: IntoIterator<Item = Arc<dyn Stack>>>(stacks: I) -> Self {
        Stacks { all: stacks.into_iter().collect(), refused: Arc::default() }
    }
}

/// Properties of a connection to be made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StackSetup {
    /// Seed of its randomness, derived from the seed of the run and the name of the flow.
    pub seed: u64,
    /// Bytes that the application transfers, or `None` for bulk: data never runs out.
    pub bytes: Option<u64>,
    /// Parameters of the scenario file.
    pub config: StackConfig,
}

windward_core::parameters! {
    /// Parameters of a stack's connection in scenario files.
    pub struct StackConfig in "quic", "connections of QUIC stacks (docs/stacks.md)";
    /// The defaults of scenario files.
    pub const DEFAULT;
    /// Size of a full data packet on the wire, bytes, with [`UDP_OVERHEAD`].
    packet_size: u32 = StackConfig::PACKET_SIZE;
    /// Receiver window, in packets of this size.
    rwnd: u64 = 1 << 20;
    /// True if packets keep their ECN codepoints; else they lose them as they leave.
    ecn: bool = true;
    /// A stack makes them at once and one system call sends them (GSO).
    segments: u32 = 10, ValueKind::Integer { least: 1, most: 64 }, "packets",
        "maximum number of packets that leave back to back, as with segmentation offload";
    /// Packet by packet. Receivers of some stacks close a connection whose streams have too many
    /// gaps.
    streams: u32 = 16, ValueKind::Integer { least: 1, most: 1024 }, "",
        "maximum number of streams that a transfer is spread over";
    /// Stacks do so by default: they begin with the smallest datagrams of QUIC, and those larger
    /// than `packet_size` are lost.
    mtu_discovery: bool = false, ValueKind::Bool, "",
        "search for the MTU of the path: `packet_size` is unknown to the stack";
}

impl StackConfig {
    /// Default size of a packet: the MTU of Ethernet.
    pub const PACKET_SIZE: u32 = 1500;

    /// Maximum payload of a packet, bytes.
    pub const fn payload(&self) -> u32 {
        self.packet_size - UDP_OVERHEAD
    }
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
    /// Both ends.
    pub const BOTH: [End; 2] = [End::Sender, End::Receiver];

    /// The other end.
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

/// Properties of a packet that links see, if its connection [shows](Connection::show) them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Flow and class for queues by flow and by class, in place of the label of the connection.
    pub label: Label,
    /// True if the packet goes on with
    /// [`Flags::CORRUPTED`](windward_core::packet::Flags::CORRUPTED) after a channel damaged it,
    /// where a notifier is at the end of the link. Else it is lost.
    pub tells_of_damage: bool,
}

/// Both ends of a connection.
///
/// If a connection panics, the engine gives it up, and the outcome of the flow has the message.
/// Times never decrease. After each call that hands an end something, the engine asks that end for
/// packets until it has none, and then for its timer.
pub trait Connection: Debug + Send {
    /// Starts the application: the sender connects, and sends its data when it can.
    fn start(&mut self, now: Time);

    /// Stops the application: it has no more data.
    fn stop(&mut self, now: Time);

    /// Hands a packet to an end: its payload, and the ECN codepoint with which it arrives.
    fn receive(&mut self, now: Time, end: End, payload: &[u8], ecn: Codepoint);

    /// Makes the next packet of an end, if it may send one now, and replaces the content of
    /// `payload`.
    fn poll_transmit(&mut self, now: Time, end: End, payload: &mut Vec<u8>) -> Option<Codepoint>;

    /// Returns the properties that links see of the packet that [`Connection::poll_transmit`] has
    /// just made. Writes its headers into `packet`, whose kind depends on its end, and its size if
    /// not all of the payload is on the wire; the engine sets time and codepoint. `None`, the
    /// default, stands for a packet of the connection without any headers.
    fn show(&mut self, payload: &[u8], packet: &mut Packet) -> Option<Seen> {
        let _ = (payload, packet);
        None
    }

    /// [`Connection::receive`] for a packet that was [shown](Connection::show); `packet` has its
    /// headers as the links changed them. By default the same as `receive`.
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

    /// Reports that a packet of an end is lost: a queue has dropped it or a channel destroyed it.
    /// Meant for connections that keep something for each packet. A real connection would not know,
    /// so its behaviour must not depend on this.
    fn lost(&mut self, now: Time, from: End, payload: &[u8]) {
        let _ = (now, from, payload);
    }

    /// Time at which [`Connection::on_timer`] is to be called for an end, unless something happens
    /// before;
    fn next_timer(&mut self, end: End) -> Time;

    /// Handles the expiry of the timer of an end.
    fn on_timer(&mut self, now: Time, end: End);

    /// State of the connection.
    fn report(&self) -> StackReport;

    /// The QUIC packets in a datagram that [`Connection::poll_transmit`] has just made, for logs.
    /// Called for all datagrams of a connection in order, or for none, and must not change what the
    /// connection does. Empty by default.
    fn describe(&mut self, from: End, payload: &[u8]) -> Vec<PacketFacts> {
        let _ = (from, payload);
        Vec::new()
    }

    /// Bytes on the wire before each payload; called once. [`UDP_OVERHEAD`] by default.
    fn overhead(&self) -> u32 {
        UDP_OVERHEAD
    }
}

/// A QUIC packet, for logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFacts {
    /// Its type.
    pub kind: PacketType,
    /// Its full number.
    pub number: u64,
    /// Its length in bytes, with header and tag.
    pub length: u32,
    /// Its frames. The list ends before the first that cannot be read.
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
    /// Index of its packet number space (RFC 9000 section 12.3).
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
        /// Offset of the data in it.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Data of the handshake.
    Crypto {
        /// Offset in the handshake data.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// An acknowledgment.
    Ack {
        /// First and last number of each range, the newest range first.
        ranges: Vec<(u64, u64)>,
        /// Packets received with ECT(0), ECT(1) and CE, if the frame has these counts.
        ecn: Option<[u64; 3]>,
    },
    /// Any other, by its name in qlog.
    Other(&'static str),
}

/// State of a connection, as far as it reports it. Counts cover the whole connection so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StackReport {
    /// Congestion window of the sender, bytes.
    pub cwnd: u64,
    /// Slow start threshold of the sender, bytes; `None` without one.
    pub ssthresh: Option<u64>,
    /// Bytes sent that are neither acknowledged nor deemed lost.
    pub in_flight: u64,
    /// Smoothed RTT of the sender; zero before the first sample.
    pub srtt: Duration,
    /// Sum and number of its RTT samples.
    pub rtts: (Duration, u64),
    /// Packets that the sender deemed lost.
    pub lost: u64,
    /// Number of invalid windows returned by a controller of another crate, which were kept within
    /// bounds.
    pub refused_windows: u64,
    /// Bytes of the application that the receiver has delivered, each counted once.
    pub delivered: u64,
    /// True once the handshake of the sender is complete, so that it can send data; from the start
    /// if there is no handshake.
    pub connected: bool,
    /// True once a transfer of fixed size has been acknowledged in full.
    pub completed: bool,
    /// Reason why the connection failed, if it did.
    pub failure: Option<Arc<str>>,
}
