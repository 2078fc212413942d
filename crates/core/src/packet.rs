//! Packets: data, acknowledgments, datagrams. Payload is counted, not stored.
//!
//! A packet is 120 bytes: with its [`Label`] and its place on the route, which a simulator stores
//! with it, it fills two cache lines. The fields that every packet needs come first, SACK blocks
//! last. Sequence numbers count packets, as in the five papers.

use crate::units::Time;

/// The kind of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketKind {
    /// A data packet of a connection.
    #[default]
    Data,
    /// An acknowledgment.
    Ack,
    /// A datagram, which is not acknowledged.
    Datagram,
}

/// One-bit fields of the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// No bit set.
    pub const NONE: Flags = Flags(0);
    /// The transport understands ECN (RFC 3168: ECT(0)).
    pub const ECN_CAPABLE: Flags = Flags(1);
    /// Congestion experienced (RFC 3168: CE).
    pub const CONGESTION_EXPERIENCED: Flags = Flags(2);
    /// The receiver echoes CE (RFC 3168: ECE).
    pub const ECN_ECHO: Flags = Flags(4);
    /// The sender has reduced its window (RFC 3168: CWR).
    pub const WINDOW_REDUCED: Flags = Flags(8);
    /// The packet belongs to XTCP: routers count its drops and may set the flag below.
    pub const XTCP: Flags = Flags(16);
    /// XTCP's congestion flag (lr2008 section 3.2).
    pub const CONGESTION: Flags = Flags(32);
    /// This data was sent before.
    pub const RETRANSMISSION: Flags = Flags(64);
    /// The payload is damaged and the header intact: the packet is forwarded only to report its
    /// corruption to the receiver (eten2004 section 3.3.5, in-band forward notification).
    pub const CORRUPTED: Flags = Flags(128);

    /// Identifies L4S traffic (RFC 9331: ECT(1)); only together with [`Flags::ECN_CAPABLE`].
    pub const L4S: Flags = Flags(256);
    /// The acknowledgment acknowledges a part of packet `seq`, and all before it: see
    /// [`crate::endpoint::Conduct::Divides`].
    pub const PART: Flags = Flags(512);
    /// Every bit that has a meaning.
    pub const ALL: Flags = Flags(1023);

    /// True if all bits of `other` are set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// All bits as a number; each has the value of its constant above.
    pub const fn bits(self) -> u16 {
        self.0
    }
    /// The flags with these bits; `None` if one of them has no meaning.
    pub const fn from_bits(bits: u16) -> Option<Flags> {
        if bits & !Flags::ALL.0 == 0 { Some(Flags(bits)) } else { None }
    }
    /// Sets all bits of `other`.
    pub const fn insert(&mut self, other: Flags) {
        self.0 |= other.0;
    }
    /// Clears all bits of `other`.
    pub const fn remove(&mut self, other: Flags) {
        self.0 &= !other.0;
    }
    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A block of packets received out of order: `start..end` (RFC 2018).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// First sequence number of the block.
    pub start: u64,
    /// One past its last.
    pub end: u64,
}

/// SACK blocks in one acknowledgment: three fit together with the timestamp option (RFC 2018).
pub const MAX_SACK_BLOCKS: usize = 3;

/// The congestion header between hosts and routers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum CongestionHeader {
    /// No congestion header.
    #[default]
    None,
    /// XCP on a data packet (draft-falk-xcp-spec-03 section 2).
    Xcp {
        /// The sender's smoothed RTT in seconds; 0 before the first sample.
        rtt: f64,
        /// X: RTT over cwnd in packets, the time between two packets, seconds.
        inter_packet: f64,
        /// Delta_Throughput: the change demanded, then granted, bytes per second.
        delta: f64,
        /// XCP-r's congestion flag (xcpr2005 section IV); zero elsewhere. See
        /// [`crate::endpoint::feedback::CongestionFlag`].
        congestion_flag: u16,
    },
    /// XCP on an acknowledgment: the sum of the changes granted, bytes per second.
    XcpReverse {
        /// Reverse_Feedback.
        feedback: f64,
    },
    /// ESTCP's ideal signalling field, on data packets and echoed on acknowledgments (estcp2010,
    /// "Implementation of ESTCP").
    Estcp {
        /// The sum of the phases that the traffic controllers on the path have begun; 0 before the
        /// first controller.
        phase: u64,
        /// g: seconds in which a window grows by one packet.
        g: f64,
        /// The time since the controller that wrote g shifted its phase, seconds.
        age: f64,
        /// The longest queue since then, or since the start, as a share of its limit.
        filled: f32,
    },
    /// ESTCP's two ECN bits, on data packets and echoed (estcp2010, Fig. 4).
    EstcpBits {
        /// The higher bit is the parity of the phase, the lower one the mark.
        bits: u8,
    },
    /// On an acknowledgment: the time at which the data that it acknowledges reached the receiver
    /// (RFC 7323 TSval, by an ideal clock).
    Timestamps {
        /// The arrival of the packet whose timestamp the acknowledgment echoes.
        received: Time,
    },
    /// ETEN, cumulative and in-band (eten2004 section 4.1). On data: the probability that a packet
    /// survives the links crossed so far, 1 at the source. On an acknowledgment: the receiver's
    /// latest record of the whole path.
    Survival {
        /// The corruption-survival probability, 0 to 1.
        probability: f64,
    },
    /// ETEN, per packet and in-band, on an acknowledgment: data that reached the receiver
    /// corrupted, most recent first; unused places are [`NO_SEQ`].
    Corrupted {
        /// Sequence numbers of the data.
        recent: [u64; 3],
    },
    /// XCP-r on an acknowledgment (xcpr2005 section IV): the window itself.
    XcpWindow {
        /// cwnd', packets.
        window: f64,
        /// The latest congestion flag that the receiver has acted on.
        congestion_flag: u16,
    },
}

/// No sequence number.
pub const NO_SEQ: u64 = u64::MAX;

/// The flow and the class of a packet, which are not in its headers: links know them, endpoints do
/// not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Label {
    /// Number of the flow that it belongs to, data and acknowledgments alike.
    pub flow: u32,
    /// The class of its flow's protocol, for queues by class: its
    /// [`RouterKind`](crate::network::RouterKind) as a number.
    pub class: u8,
}

/// A packet.
#[derive(Debug, Clone, Default)]
#[repr(C)] // The fields that every packet needs come first.
pub struct Packet {
    /// Size on the wire, bytes.
    pub size: u32,
    /// Its kind.
    pub kind: PacketKind,
    /// The number of valid entries of `sack`.
    pub sack_len: u8,
    /// One-bit header fields.
    pub flags: Flags,
    /// Data: sequence number of the data. Acknowledgment: the next one expected, so that all
    /// before it have arrived (the papers' lack + 1).
    pub seq: u64,
    /// Acknowledgment: sequence number of the data whose arrival triggered it.
    pub trigger_seq: u64,
    /// Packet sequence number: counts transmissions (lr2008 section 5.1). Echoed by the
    /// acknowledgment that the packet triggers.
    pub packet_seq: u64,
    /// The time at which the data packet was sent (RFC 7323 TSval); echoed by the acknowledgment
    /// (TSecr).
    pub timestamp: Time,
    /// The congestion header.
    pub header: CongestionHeader,
    /// SACK blocks, most recent first; only the first `sack_len` are valid.
    pub sack: [SackBlock; MAX_SACK_BLOCKS],
}

impl Packet {
    /// The SACK blocks it carries.
    pub fn sack_blocks(&self) -> &[SackBlock] {
        &self.sack[..usize::from(self.sack_len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_leaves_room_for_its_label_in_two_cache_lines() {
        assert_eq!(std::mem::size_of::<Packet>(), 128 - 8);
    }

    #[test]
    fn flags_are_bits() {
        let both = Flags::ECN_CAPABLE.with(Flags::RETRANSMISSION);
        assert_eq!(both.bits(), 1 + 64);
        assert_eq!(Flags::from_bits(65), Some(both));
        assert_eq!(Flags::from_bits(1023), Some(Flags::ALL));
        assert_eq!(Flags::from_bits(1024), None, "no such flag");
        let mut left = both;
        left.remove(Flags::RETRANSMISSION.with(Flags::L4S));
        assert_eq!(left, Flags::ECN_CAPABLE);
    }
}
