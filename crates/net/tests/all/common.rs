//! Packets of outside programs.
#![allow(dead_code, reason = "each test file uses a part")]

use std::sync::Arc;

use windward_core::packet::{CongestionHeader, Flags, Packet, PacketKind};
use windward_core::wire;
use windward_net::port::Ports;
use windward_netns::packet::checksum;
use windward_sim::Scenario;
use windward_sim::scenario::file::ScenarioFile;
use windward_sim::stack::{Stack, Stacks};

pub(crate) fn build(text: &str, ports: &Arc<Ports>) -> Scenario {
    let stack: Arc<dyn Stack> = Arc::clone(ports) as _;
    let stacks: Stacks = std::iter::once(stack).collect();
    let file = ScenarioFile::parse("test.toml", text).unwrap().with_stacks(&stacks);
    file.build().unwrap_or_else(|error| panic!("{error}"))
}

/// An IPv4 packet from 10.0.0.`host` with this protocol, type of service and fragment field.
pub(crate) fn ipv4(host: u8, protocol: u8, tos: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[1] = tos;
    packet[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
    packet[8] = 64;
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&[10, 0, 0, host]);
    packet[16..20].copy_from_slice(&[10, 0, 1, 1]);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

/// An IPv6 packet from fd00::`host` with this protocol and traffic class.
pub(crate) fn ipv6(host: u8, protocol: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    packet[0] = 0x60 | class >> 4;
    packet[1] = class << 4;
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet[6] = protocol;
    packet[7] = 64;
    (packet[8], packet[23]) = (0xfd, host);
    (packet[24], packet[39]) = (0xfd, 1);
    packet.extend_from_slice(payload);
    packet
}

/// The checksum of the UDP datagram behind the header of this packet, as RFC 768 and RFC 8200
/// section 8.1 have it: zero over what contains the right one.
pub(crate) fn udp_sum(packet: &[u8]) -> u16 {
    let (addresses, at) = if packet[0] >> 4 == 4 {
        (&packet[12..20], usize::from(packet[0] & 15) * 4)
    } else {
        (&packet[8..40], 40)
    };
    let datagram = &packet[at..];
    let length = (datagram.len() as u16).to_be_bytes();
    checksum(&[addresses, &[0, 17], &length, datagram].concat())
}

/// A packet with a UDP datagram and its checksum.
pub(crate) fn udp(version: u8, host: u8, port: u16, tos: u8, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let header = [port, 4433, length, 0].map(u16::to_be_bytes).concat();
    let datagram = [&header, payload].concat();
    let mut packet = match version {
        4 => ipv4(host, 17, tos, 0, &datagram),
        _ => ipv6(host, 17, tos, &datagram),
    };
    let sum = match udp_sum(&packet) {
        0 => 0xffff,
        sum => sum,
    };
    let at = packet.len() - datagram.len();
    packet[at + 6..at + 8].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// A datagram of Windward with a payload of this size.
pub(crate) fn ours(packet: &Packet, payload: usize) -> Vec<u8> {
    let mut bytes = [0; wire::MAX];
    let length = wire::encode(packet, &mut bytes).unwrap();
    [&bytes[..length], &vec![0xa5; payload]].concat()
}

/// A data packet with XCP's header.
pub(crate) fn xcp(seq: u64, rtt: f64, inter_packet: f64, delta: f64) -> Packet {
    let header = CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag: 0 };
    Packet { kind: PacketKind::Data, seq, packet_seq: seq, header, ..Packet::default() }
}

/// Data that carries nothing but flags.
pub(crate) fn flagged(seq: u64, flags: Flags) -> Packet {
    Packet { kind: PacketKind::Data, seq, packet_seq: seq, flags, ..Packet::default() }
}

/// The packet of Windward in this IP packet.
pub(crate) fn read(packet: &[u8]) -> Packet {
    let at = if packet[0] >> 4 == 4 { 20 } else { 40 };
    wire::peek(&packet[at + 8..]).unwrap()
}
