//! Headers of outside packets, as the network sees them: the flow, and the congestion header of
//! Windward's datagrams.
//!
//! Fair queueing uses the 5-tuple of addresses, protocol and ports (RFC 8290 section 4.1); the
//! 3-tuple without ports for fragments, of which only the first has them, and for protocols without
//! ports. Windward's datagrams are UDP with a packet of [`wire`] as payload; changes by routers are
//! written back, with the UDP checksum (RFC 1624). All other packets are opaque bytes. Nothing that
//! is read is trusted.

use windward_core::network::RouterKind;
use windward_core::packet::{CongestionHeader, Flags, Label, Packet, PacketKind};
use windward_core::wire;
use windward_netns::packet::{Ecn, Header, Version, set_ecn, updated_checksum};
use windward_sim::stack::{Codepoint, Seen};

/// Fields that are read of an IP packet.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) seen: Seen,
    /// Length of the packet, bytes.
    pub(crate) length: u32,
    /// The packet in a datagram of Windward, and its position.
    pub(crate) ours: Option<(Packet, Datagram)>,
    /// Number of first bytes that determine all of this.
    pub(crate) looked_at: usize,
}

/// A UDP datagram: where its header begins, and where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Datagram {
    at: usize,
    end: usize,
    version: Version,
}

const UDP: u8 = 17;
const UDP_HEADER: usize = 8;
/// Maximum number of extension headers that are followed; no host sends more (RFC 8504 section 5.3
/// allows to stop).
const MOST_EXTENSIONS: usize = 8;
/// Bit that distinguishes labels of outside packets from the indices of flows.
const OUTSIDE: u32 = 1 << 31;

/// The transport behind the header of a packet.
struct Transport {
    protocol: u8,
    at: usize,
    is_fragment: bool,
    /// Number of bytes that determined this.
    looked_at: usize,
}

/// Reads a packet; `None` if it is not a complete IP packet. `salt` decides which flows share a
/// label, so that senders cannot know whose queue they join.
pub(crate) fn look(bytes: &[u8], salt: u64) -> Option<View> {
    let header = Header::parse(bytes).ok()?;
    let packet = &bytes[..header.total_len];
    let (addresses, transport) = match header.version {
        Version::V4 => (&packet[12..20], transport_v4(packet, header.header_len)),
        Version::V6 => (&packet[8..40], transport_v6(packet)),
    };
    let Transport { protocol, at, is_fragment, mut looked_at } = transport;
    let mut hash = Hash(salt);
    for part in addresses.chunks_exact(4) {
        hash.add(u32::from_be_bytes([part[0], part[1], part[2], part[3]]));
    }
    hash.add(protocol.into());
    let mut ours = None;
    if !is_fragment && has_ports(protocol) {
        looked_at = looked_at.max(packet.len().min(at + 4));
        if let Some(ports) = packet.get(at..).and_then(<[u8]>::first_chunk) {
            hash.add(u32::from_be_bytes(*ports));
        }
        if protocol == UDP
            && let Some(datagram) = Datagram::at(packet, at, header.version)
        {
            let most = datagram.end.min(at + UDP_HEADER + wire::FIXED + wire::MAX_HEADER);
            let payload = &packet[at + UDP_HEADER..most];
            let begins = payload.starts_with(&wire::MAGIC);
            looked_at = looked_at.max(if begins { most } else { most.min(at + UDP_HEADER + 2) });
            ours = wire::peek(payload).ok().map(|packet| (packet, datagram));
        }
    }
    let (mut class, mut tells_of_damage) = (RouterKind::Any, false);
    if let Some((packet, _)) = &ours {
        class = class_of(packet);
        // Per packet, in band, forward (eten2004 section 3.3.5): data that carries nothing else.
        tells_of_damage =
            packet.kind == PacketKind::Data && packet.header == CongestionHeader::None;
    }
    let label = Label { flow: hash.finish() | OUTSIDE, class: class as u8 };
    let length = header.total_len as u32;
    Some(View { seen: Seen { label, tells_of_damage }, length, ours, looked_at })
}

/// Kind of router that the protocol of a datagram asks for, as far as its congestion header tells.
pub(crate) fn class_of(packet: &Packet) -> RouterKind {
    match packet.header {
        CongestionHeader::Xcp { .. }
        | CongestionHeader::XcpReverse { .. }
        | CongestionHeader::XcpWindow { .. } => RouterKind::Xcp,
        CongestionHeader::Estcp { .. } | CongestionHeader::EstcpBits { .. } => RouterKind::Estcp,
        _ if packet.flags.contains(Flags::XTCP) => RouterKind::Xtcp,
        _ => RouterKind::Any,
    }
}

/// Kind of router that a datagram of Windward asks for, as far as its congestion header tells;
/// `None` for other packets. ACKs ask for no router.
#[cfg(target_os = "linux")]
pub(crate) fn asked_of(bytes: &[u8]) -> (bool, RouterKind) {
    match look(bytes, 0).and_then(|view| view.ours) {
        Some((packet, _)) if packet.kind == PacketKind::Data => (true, class_of(&packet)),
        ours => (ours.is_some(), RouterKind::Any),
    }
}

/// Writes the changes by links into the bytes of a packet: its codepoint, and in a datagram of
/// Windward the flags and the congestion header. If it would no longer be such a datagram, it is
/// not changed.
pub(crate) fn write_back(bytes: &mut [u8], packet: &Packet, ecn: Codepoint) {
    write_codepoint(bytes, ecn);
    let Some(View { ours: Some((_, datagram)), .. }) = look(bytes, 0) else { return };
    let begin = datagram.at + UDP_HEADER;
    let most = datagram.end.min(begin + wire::FIXED + wire::MAX_HEADER);
    let mut changed = [0; wire::FIXED + wire::MAX_HEADER];
    let changed = &mut changed[..most - begin];
    changed.copy_from_slice(&bytes[begin..most]);
    if wire::rewrite(packet, changed).is_ok() && wire::peek(changed).is_ok() {
        datagram.replace(bytes, changed);
    }
}

/// Writes a codepoint into the IP header.
pub(crate) fn write_codepoint(bytes: &mut [u8], ecn: Codepoint) {
    let ecn = match ecn {
        Codepoint::NotEct => Ecn::NotEct,
        Codepoint::Ect0 => Ecn::Ect0,
        Codepoint::Ect1 => Ecn::Ect1,
        Codepoint::Ce => Ecn::Ce,
    };
    set_ecn(bytes, ecn);
}

/// True for a datagram of Windward that routers may write into.
pub fn is_ours(bytes: &[u8]) -> bool {
    look(bytes, 0).is_some_and(|view| view.ours.is_some())
}

/// Codepoint in the header of an IP packet; for other bytes, Not-ECT.
pub fn codepoint(bytes: &[u8]) -> Codepoint {
    match Header::parse(bytes).map(|header| header.ecn) {
        Ok(Ecn::Ect0) => Codepoint::Ect0,
        Ok(Ecn::Ect1) => Codepoint::Ect1,
        Ok(Ecn::Ce) => Codepoint::Ce,
        Ok(Ecn::NotEct) | Err(_) => Codepoint::NotEct,
    }
}

impl Datagram {
    /// The datagram whose header begins there, if it is complete.
    fn at(packet: &[u8], at: usize, version: Version) -> Option<Self> {
        let length = word(packet, at + 4)?;
        let end = at + usize::from(length);
        (end >= at + UDP_HEADER && end <= packet.len()).then_some(Datagram { at, end, version })
    }

    /// Writes `new` over the beginning of its payload. The checksum is updated, so that a wrong one
    /// stays wrong (RFC 1624); over IPv4 a missing one stays missing.
    fn replace(self, bytes: &mut [u8], new: &[u8]) {
        let begin = self.at + UDP_HEADER;
        let old_sum = word(bytes, self.at + 6).unwrap_or(0);
        let mut sum = old_sum;
        // The payload begins at an even distance from the header; a last odd byte is followed by
        // zero.
        let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        let old = bytes[begin..begin + new.len()].chunks(2);
        for (was, is) in old.map(word).zip(new.chunks(2).map(word)) {
            if was != is {
                sum = updated_checksum(sum, was, is);
            }
        }
        bytes[begin..begin + new.len()].copy_from_slice(new);
        let none = old_sum == 0 && self.version == Version::V4;
        if sum != old_sum && !none {
            // RFC 768: zero stands for no checksum; its other form is the same number.
            let sum = if sum == 0 { 0xffff } else { sum };
            bytes[self.at + 6..self.at + 8].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// TCP, UDP, DCCP, SCTP and UDP-Lite begin with two ports.
fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | UDP | 33 | 132 | 136)
}

fn transport_v4(packet: &[u8], header_len: usize) -> Transport {
    // More fragments, or not the first (RFC 791).
    let is_fragment = word(packet, 6).is_some_and(|word| word & 0x3fff != 0);
    Transport { protocol: packet[9], at: header_len, is_fragment, looked_at: header_len }
}

/// Follows the extension headers (RFC 8200 section 4).
fn transport_v6(packet: &[u8]) -> Transport {
    let (mut protocol, mut at) = (packet[6], 40);
    let mut is_fragment = false;
    for _ in 0..MOST_EXTENSIONS {
        let Some(next) = packet.get(at..at + 2) else { break };
        let length = usize::from(next[1]);
        match protocol {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => at += (length + 1) * 8,
            // Authentication (RFC 4302): in words, less two.
            51 => at += (length + 2) * 4,
            44 => {
                // Atomic fragments are complete packets (RFC 6946).
                is_fragment |= word(packet, at + 2).is_none_or(|word| word & 0xfff9 != 0);
                at += 8;
            }
            _ => break,
        }
        protocol = next[0];
        if is_fragment {
            break;
        }
    }
    Transport { protocol, at, is_fragment, looked_at: packet.len().min(at + 2) }
}

/// Mixes words into 32 bits.
struct Hash(u64);

impl Hash {
    fn add(&mut self, word: u32) {
        let mixed = (self.0 ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    fn finish(self) -> u32 {
        let mixed = self.0.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u32
    }
}
