//! IP packets as bytes: the fields that a link reads, and those that it may change.
//!
//! This module makes no system calls. IPv4 follows RFC 791, IPv6 RFC 8200, and ECN RFC 3168.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{
    Icmpv4Type, Icmpv6Type, IpDscp, IpHeaders, Ipv4Extensions, Ipv4Header, PacketBuilder, ip_number,
};

/// The ECN field (RFC 3168 section 5; ECT(1) means L4S by RFC 9331).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: must be dropped, not marked.
    NotEct = 0,
    /// ECT(1).
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The version of the Internet Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Fields of a packet that links read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Version of the protocol.
    pub version: Version,
    /// The length of the whole packet as stated in its header, bytes. Jumbograms (RFC 2675) are
    /// refused.
    pub total_len: usize,
    /// The length of the header, IPv6 without extension headers, bytes.
    pub header_len: usize,
    /// The ECN field.
    pub ecn: Ecn,
    /// True if routers may not fragment it, as always with IPv6.
    pub dont_fragment: bool,
}

/// Reason why bytes are not an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The packet is empty, or shorter than its header or than the length in its header.
    Truncated,
    /// The version is neither 4 nor 6.
    Version(u8),
    /// The header length is below its minimum or beyond the packet, or the packet is a jumbogram.
    Length,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Truncated => f.write_str("fewer bytes than the packet states"),
            Malformed::Version(version) => write!(f, "IP version {version} instead of 4 or 6"),
            Malformed::Length => f.write_str("a length that its header cannot have"),
        }
    }
}

impl std::error::Error for Malformed {}

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

impl Header {
    /// Parses the header at the start of `packet`, which may have more bytes after its end.
    ///
    /// # Errors
    /// If the bytes are not a complete IP packet.
    pub fn parse(packet: &[u8]) -> Result<Header, Malformed> {
        let first = *packet.first().ok_or(Malformed::Truncated)?;
        let header = match first >> 4 {
            4 => {
                if packet.len() < V4_HEADER {
                    return Err(Malformed::Truncated);
                }
                Header {
                    version: Version::V4,
                    total_len: word(packet, 2).into(),
                    header_len: usize::from(first & 15) * 4,
                    ecn: Ecn::from_bits(packet[1]),
                    dont_fragment: packet[6] & 0x40 != 0,
                }
            }
            6 => {
                if packet.len() < V6_HEADER {
                    return Err(Malformed::Truncated);
                }
                let payload = usize::from(word(packet, 4));
                if payload == 0 && packet[6] == 0 {
                    return Err(Malformed::Length);
                }
                Header {
                    version: Version::V6,
                    total_len: V6_HEADER + payload,
                    header_len: V6_HEADER,
                    // The traffic class lies across the first two bytes, its last two bits in the
                    // second.
                    ecn: Ecn::from_bits(packet[1] >> 4),
                    dont_fragment: true,
                }
            }
            version => return Err(Malformed::Version(version)),
        };
        if header.header_len < V4_HEADER || header.total_len < header.header_len {
            return Err(Malformed::Length);
        }
        if packet.len() < header.total_len {
            return Err(Malformed::Truncated);
        }
        Ok(header)
    }
}

/// Sets the ECN field of a packet. Returns false if the bytes are not a packet.
///
/// The IPv4 header checksum is updated and not computed anew (RFC 1624 equation 3), so that a wrong
/// checksum stays wrong; IPv6 has no header checksum.
pub fn set_ecn(packet: &mut [u8], ecn: Ecn) -> bool {
    let Ok(header) = Header::parse(packet) else { return false };
    write_ecn(packet, header, ecn);
    true
}

fn write_ecn(packet: &mut [u8], header: Header, ecn: Ecn) {
    match header.version {
        _ if header.ecn == ecn => {}
        Version::V4 => {
            let old = word(packet, 0);
            packet[1] = packet[1] & !3 | ecn as u8;
            let checksum = updated_checksum(word(packet, 10), old, word(packet, 0));
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Version::V6 => packet[1] = packet[1] & !(3 << 4) | (ecn as u8) << 4,
    }
}

/// The checksum of a header in which the word `old` has become `new`: HC' = ~(~HC + ~m + m'),
/// RFC 1624 equation 3.
pub fn updated_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

/// The Internet checksum (RFC 1071) of some bytes; 0 if they contain their own correct checksum.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut words = bytes.chunks_exact(2);
    let whole: u32 = words.by_ref().map(|pair| u32::from(word(pair, 0))).sum();
    !fold(whole + words.remainder().first().map_or(0, |&last| u32::from(last) << 8))
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Fragments of an IPv4 packet that is larger than `mtu` and may be fragmented (RFC 791 section
/// 3.2); empty for any other packet. Options for the first fragment alone are in all fragments.
pub fn fragments(packet: &[u8], mtu: u16) -> Vec<Vec<u8>> {
    let Ok(header) = Header::parse(packet) else { return Vec::new() };
    let Header { header_len, total_len, .. } = header;
    // A fragment carries a multiple of 8 bytes, except the last.
    let room = usize::from(mtu).saturating_sub(header_len) / 8 * 8;
    if header.dont_fragment || total_len <= usize::from(mtu) || room == 0 {
        return Vec::new();
    }
    let offset = word(packet, 6) & 0x1fff;
    let more = word(packet, 6) & 0x2000;
    let payload = &packet[header_len..total_len];
    let last = payload.len().div_ceil(room) - 1;
    let mut all = Vec::with_capacity(last + 1);
    for (number, piece) in payload.chunks(room).enumerate() {
        let mut fragment = packet[..header_len].to_vec();
        let length = (header_len + piece.len()) as u16;
        let place = offset.saturating_add((number * room / 8) as u16) & 0x1fff;
        let more = if number < last { 0x2000 } else { more };
        fragment[2..4].copy_from_slice(&length.to_be_bytes());
        fragment[6..8].copy_from_slice(&(more | place).to_be_bytes());
        fragment[10..12].fill(0);
        let sum = checksum(&fragment);
        fragment[10..12].copy_from_slice(&sum.to_be_bytes());
        fragment.extend_from_slice(piece);
        all.push(fragment);
    }
    all
}

/// Answer of a router whose next link has too small an MTU for `packet`: "fragmentation needed"
/// (RFC 792, with the MTU by RFC 1191) or "packet too big" (RFC 4443 section 3.2), from `ipv4` or
/// `ipv6`.
///
/// `None` if the packet fits or is malformed, if a router would fragment it (IPv4 without DF), and
/// where RFC 1122 section 3.2.2 and RFC 4443 section 2.4 forbid an answer: to ICMP errors, to
/// fragments except the first, to multicast and broadcast, and to an address that is not of a host.
pub fn too_big(packet: &[u8], mtu: u16, ipv4: Ipv4Addr, ipv6: Ipv6Addr) -> Option<Vec<u8>> {
    let header = Header::parse(packet).ok()?;
    if header.total_len <= usize::from(mtu) || !header.dont_fragment {
        return None;
    }
    let packet = &packet[..header.total_len];
    match header.version {
        Version::V4 => fragmentation_needed(packet, header.header_len, mtu, ipv4),
        Version::V6 => packet_too_big(packet, mtu, ipv6),
    }
}

fn fragmentation_needed(
    packet: &[u8],
    header_len: usize,
    mtu: u16,
    from: Ipv4Addr,
) -> Option<Vec<u8>> {
    /// The maximum length of an answer (RFC 1812 section 4.3.2.3).
    const LONGEST: usize = 576;
    let source = Ipv4Addr::from(<[u8; 4]>::try_from(&packet[12..16]).ok()?);
    let to = Ipv4Addr::from(<[u8; 4]>::try_from(&packet[16..20]).ok()?);
    let nobody = source.is_unspecified() || source.is_loopback() || source.is_multicast();
    let later_fragment = word(packet, 6) & 0x1fff != 0;
    // Echo request and reply, timestamps and similar types are not errors.
    let query = matches!(packet.get(header_len), Some(0 | 8..=10 | 13..=18));
    let error = packet[9] == ip_number::ICMP.0 && !query;
    if nobody || source.is_broadcast() || to.is_multicast() || to.is_broadcast() {
        return None;
    }
    if later_fragment || error {
        return None;
    }
    let (from, to) = (from.octets(), source.octets());
    let mut header =
        Ipv4Header::new(0, 64, ip_number::ICMP, from, to).expect("a header without a payload");
    // Internetwork control, RFC 1812 section 4.3.2.5.
    header.dscp = IpDscp::try_new(0xc0 >> 2).expect("six bits");
    let why = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu };
    let answer = PacketBuilder::ip(IpHeaders::Ipv4(header, Ipv4Extensions::default()))
        .icmpv4(Icmpv4Type::DestinationUnreachable(why));
    let quoted = packet.len().min(LONGEST - answer.size(0));
    Some(written(|bytes| answer.write(bytes, &packet[..quoted])))
}

fn packet_too_big(packet: &[u8], mtu: u16, from: Ipv6Addr) -> Option<Vec<u8>> {
    /// The answer must fit into the minimum MTU (RFC 4443 section 3.2).
    const LONGEST: usize = 1280;
    let source = Ipv6Addr::from(<[u8; 16]>::try_from(&packet[8..24]).ok()?);
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return None;
    }
    let (protocol, at) = v6_payload(packet)?;
    // Types below 128 are errors; a multicast destination is allowed (section 2.4 (e.3)).
    if protocol == ip_number::IPV6_ICMP.0 && packet.get(at).is_none_or(|&kind| kind < 128) {
        return None;
    }
    let answer = PacketBuilder::ipv6(from.octets(), source.octets(), 64)
        .icmpv6(Icmpv6Type::PacketTooBig { mtu: mtu.into() });
    let quoted = packet.len().min(LONGEST - answer.size(0));
    Some(written(|bytes| answer.write(bytes, &packet[..quoted])))
}

/// A packet that is short enough for its header.
fn written<E: fmt::Debug>(write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).expect("a short packet, in memory");
    bytes
}

/// The protocol after the extension headers and its offset; `None` for fragments except the first,
/// and if the chain leaves the packet.
fn v6_payload(packet: &[u8]) -> Option<(u8, usize)> {
    let (mut next, mut at) = (packet[6], V6_HEADER);
    loop {
        match next {
            // Hop-by-hop options, routing, destination options.
            0 | 43 | 60 => {
                let length = (usize::from(*packet.get(at + 1)?) + 1) * 8;
                next = packet[at];
                at += length;
            }
            44 => {
                let offset = packet.get(at + 2..at + 4)?;
                if word(offset, 0) & 0xfff8 != 0 {
                    return None;
                }
                next = packet[at];
                at += 8;
            }
            protocol => return Some((protocol, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_ipv4_packet_is_cut_at_multiples_of_eight_bytes() {
        let payload: Vec<u8> = (0..100).collect();
        // 20 bytes of header and 48 of 50 that there is room for: 48, 48, 4.
        let pieces = fragments(&v4(0, 0, 17, &payload), 70);
        let of = |piece: &Vec<u8>| (word(piece, 2), word(piece, 6), piece[20..].to_vec());
        assert_eq!(
            pieces.iter().map(of).collect::<Vec<_>>(),
            [
                (68, 0x2000, payload[..48].to_vec()),
                (68, 0x2000 | 6, payload[48..96].to_vec()),
                (24, 12, payload[96..].to_vec()),
            ]
        );
        assert!(pieces.iter().all(|piece| checksum(&piece[..20]) == 0));
        // A fragment in the middle of another packet keeps its place and what follows.
        let again = fragments(&pieces[1], 44);
        let places: Vec<u16> = again.iter().map(|piece| word(piece, 6)).collect();
        assert_eq!(places, [0x2000 | 6, 0x2000 | 9]);
        assert!(fragments(&v4(0, 0x4000, 17, &payload), 70).is_empty(), "it must not be");
        assert!(fragments(&v4(0, 0, 17, &payload), 120).is_empty(), "it fits");
        assert!(fragments(&v4(0, 0, 17, &payload), 27).is_empty(), "there is no room for any");
    }

    const US4: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
    const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

    /// An IPv4 packet with a correct checksum.
    fn v4(tos: u8, flags: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; V4_HEADER];
        packet[0] = 0x45;
        packet[1] = tos;
        packet[2..4].copy_from_slice(&((V4_HEADER + payload.len()) as u16).to_be_bytes());
        packet[6..8].copy_from_slice(&flags.to_be_bytes());
        packet[8] = 64;
        packet[9] = protocol;
        packet[12..16].copy_from_slice(&[10, 1, 2, 3]);
        packet[16..20].copy_from_slice(&[10, 4, 5, 6]);
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend_from_slice(payload);
        packet
    }

    fn v6(class: u8, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = etherparse::Ipv6Header {
            traffic_class: class,
            payload_length: payload.len() as u16,
            next_header: protocol.into(),
            hop_limit: 64,
            ..Default::default()
        };
        (header.source[0], header.source[15]) = (0xfd, 7);
        (header.destination[0], header.destination[15]) = (0xfd, 8);
        [&header.to_bytes(), payload].concat()
    }

    #[test]
    fn headers_are_read() {
        let packet = v4(0b1011_1010, 0x4000, 17, &[0; 100]);
        let header = Header::parse(&packet).unwrap();
        let expected = Header {
            version: Version::V4,
            total_len: 120,
            header_len: 20,
            ecn: Ecn::Ect0,
            dont_fragment: true,
        };
        assert_eq!(header, expected);
        let header = Header::parse(&v6(0b1011_1001, 17, &[0; 100])).unwrap();
        assert_eq!((header.ecn, header.total_len), (Ecn::Ect1, 140));
        assert_eq!(Header::parse(&packet[..119]), Err(Malformed::Truncated));
        assert_eq!(Header::parse(&[]), Err(Malformed::Truncated));
        assert_eq!(Header::parse(&[0x50; 40]), Err(Malformed::Version(5)));
        let mut short = packet;
        short[0] = 0x44;
        assert_eq!(Header::parse(&short), Err(Malformed::Length));
    }

    /// The example of RFC 1624 section 4, where the equation of RFC 1141 gave 0xFFFF.
    #[test]
    fn checksums_are_updated_as_in_rfc_1624() {
        assert_eq!(updated_checksum(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn fragmentation_needed_quotes_and_adds_up() {
        let big = v4(0, 0x4000, 17, &[7; 1400]);
        let answer = too_big(&big, 1280, US4, US6).unwrap();
        let header = Header::parse(&answer).unwrap();
        assert_eq!((header.total_len, answer.len()), (576, 576));
        assert_eq!(checksum(&answer[..20]), 0);
        assert_eq!(checksum(&answer[20..]), 0);
        assert_eq!(answer[20..22], [3, 4]);
        assert_eq!(word(&answer, 26), 1280);
        assert_eq!(answer[16..20], [10, 1, 2, 3]);
        assert_eq!(answer[28..], big[..548]);
        assert_eq!(too_big(&big, 1420, US4, US6), None, "it fits");
        assert_eq!(too_big(&v4(0, 0, 17, &[7; 1400]), 1280, US4, US6), None, "no DF");
        assert_eq!(too_big(&v4(0, 0x4001, 17, &[7; 1400]), 1280, US4, US6), None, "fragment");
        assert_eq!(too_big(&v4(0, 0x4000, 1, &[3; 1400]), 1280, US4, US6), None, "ICMP error");
        assert!(too_big(&v4(0, 0x4000, 1, &[8; 1400]), 1280, US4, US6).is_some(), "echo");
    }

    #[test]
    fn packet_too_big_quotes_and_adds_up() {
        let big = v6(0, 17, &[7; 1400]);
        let answer = too_big(&big, 1300, US4, US6).unwrap();
        assert_eq!(answer.len(), 1280);
        assert_eq!(Header::parse(&answer).unwrap().total_len, 1280);
        let icmp = etherparse::Icmpv6Slice::from_slice(&answer[40..]).unwrap();
        assert!(icmp.is_checksum_valid(US6.octets(), big[8..24].try_into().unwrap()));
        assert_eq!(answer[40..42], [2, 0]);
        assert_eq!(answer[44..48], [0, 0, 5, 20]);
        assert_eq!(answer[48..], big[..1232]);
        assert_eq!(too_big(&v6(0, 58, &[1; 1400]), 1300, US4, US6), None, "ICMP error");
        let mut hidden = vec![1; 1400];
        hidden[..8].copy_from_slice(&[58, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(too_big(&v6(0, 60, &hidden), 1300, US4, US6), None, "behind an option");
        hidden[8] = 128;
        assert!(too_big(&v6(0, 60, &hidden), 1300, US4, US6).is_some());
    }

    proptest! {
        #[test]
        fn any_field_can_be_set(tos: u8, flags: u16, payload: Vec<u8>, ecn in prop::sample::select(vec![Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce])) {
            let mut packet = v4(tos, flags, 17, &payload);
            prop_assert!(set_ecn(&mut packet, ecn));
            // Except for the two representations of zero, as if sent with the new field.
            prop_assert_eq!(checksum(&packet[..20]), 0);
            let mut expected = v4(tos & !3 | ecn as u8, flags, 17, &payload);
            expected[10..12].copy_from_slice(&packet[10..12]);
            prop_assert_eq!(packet, expected);
            // A payload of no bytes would be a jumbogram without its option.
            let payload = [&payload[..], &[1]].concat();
            let mut packet = v6(tos, 17, &payload);
            prop_assert!(set_ecn(&mut packet, ecn));
            prop_assert_eq!(packet, v6(tos & !3 | ecn as u8, 17, &payload));
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, first in 0_u8..255, mtu: u16) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let answer = too_big(&bytes, mtu, US4, US6);
            if let Some(answer) = answer {
                prop_assert!(Header::parse(&answer).is_ok());
            }
            set_ecn(&mut bytes, Ecn::Ce);
        }

        #[test]
        fn no_ipv6_panics(mut bytes in prop::collection::vec(any::<u8>(), 40..120), protocol in prop::sample::select(vec![0, 43, 44, 58, 60, 17])) {
            bytes[0] = 0x60;
            bytes[6] = protocol;
            let length = (bytes.len() - V6_HEADER) as u16;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
            too_big(&bytes, 30, US4, US6);
            set_ecn(&mut bytes, Ecn::Ce);
        }
    }
}
