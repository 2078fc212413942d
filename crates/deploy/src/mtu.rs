//! Size of datagrams: what the interface towards a peer carries.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use crate::address::towards;

/// UDP payload of an interface with an MTU of 1500, and of one that is not known, bytes.
const USUAL: u16 = 1500 - HEADERS;
/// Headers of IPv6 and UDP (RFC 8200, RFC 768), bytes.
const HEADERS: u16 = 40 + 8;
/// Largest UDP payload, bytes. The kernel takes ten datagrams at once (GSO) if they have less than
/// 65,536 bytes together, and quinn passes so many.
pub(crate) const LARGEST: u16 = 6500;
/// Smallest UDP payload of QUIC (RFC 9000 section 14), bytes.
const LEAST: u16 = 1200;

/// Largest UDP payload that the search for the MTU of the path to a peer tries, bytes. Jumbo frames
/// and loopback have fewer packets to handle.
pub(crate) fn largest_payload(peer: SocketAddr) -> u16 {
    interface_mtu(peer).map_or(USUAL, payload_of)
}

fn payload_of(mtu: u32) -> u16 {
    // At most LARGEST.
    mtu.saturating_sub(HEADERS.into()).clamp(LEAST.into(), LARGEST.into()) as u16
}

/// MTU of the interface over which the kernel would send to an address.
fn interface_mtu(peer: SocketAddr) -> Option<u32> {
    let peer = match peer.ip().to_canonical() {
        v4 @ IpAddr::V4(_) => SocketAddr::new(v4, peer.port()),
        // With its interface.
        IpAddr::V6(_) => peer,
    };
    // Nothing is sent: the kernel only chooses the own address.
    let socket = UdpSocket::bind(towards(peer)).ok()?;
    socket.connect(peer).ok()?;
    let own = socket.local_addr().ok()?.ip();
    let interfaces = if_addrs::get_if_addrs().ok()?;
    // Packets to an address of this machine take loopback.
    let is_own = own == peer.ip();
    let is_way = |interface: &if_addrs::Interface| match is_own {
        true => interface.is_loopback(),
        false => interface.ip() == own,
    };
    let name = interfaces.into_iter().find(is_way)?.name;
    std::fs::read_to_string(format!("/sys/class/net/{name}/mtu")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn payloads_are_mtus_less_headers_within_bounds() {
        // 1500 - 48, the smallest MTU of IPv6 less the same, and the bounds.
        let cases =
            [(1500, 1452), (1280, 1232), (9000, 6500), (65_536, 6500), (576, 1200), (0, 1200)];
        for (mtu, payload) in cases {
            assert_eq!(payload_of(mtu), payload, "{mtu}");
        }
        assert!(10 * u32::from(LARGEST) < 65_536);
    }

    #[test]
    fn the_interface_towards_a_peer_is_found() {
        // Linux gives loopback 65,536 bytes, and 16,436 before 3.6.
        let loopback = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 9);
        assert!(interface_mtu(loopback).is_some_and(|mtu| mtu >= 16_436));
        assert_eq!(largest_payload(loopback), LARGEST);
        let mapped = SocketAddr::new(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(), 9);
        assert_eq!(largest_payload(mapped), LARGEST);
    }
}
