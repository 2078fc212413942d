//! Real packets: sizes that differ, and sockets that are full.

use super::*;
use crate::units::Duration;

/// All that may leave now.
fn leave(sender: &mut Sender, at: u64) -> Vec<(u64, u32)> {
    let mut packet = Packet::default();
    let mut left = Vec::new();
    while sender.poll_transmit(ms(at), &mut packet) {
        left.push((packet.seq, packet.size));
    }
    left
}

fn sender(config: &EndpointConfig) -> Sender {
    Sender::new(protocols::find("sack").expect("a row of the table"), config, 1, "test")
}

#[test]
fn the_last_packet_is_as_short_as_what_is_left() {
    // 2500 bytes in packets of 1000: 1000, 1000, 500.
    let mut s = sender(&window(10.0));
    s.offer_bytes(2500);
    assert_eq!(leave(&mut s, 0), [(0, 1000), (1, 1000), (2, 500)]);
    // A whole number of packets has no short one.
    let mut s = sender(&window(10.0));
    s.offer_bytes(2000);
    assert_eq!(leave(&mut s, 0), [(0, 1000), (1, 1000)]);
}

#[test]
fn a_packet_keeps_its_size_when_that_of_others_changes() {
    let mut s = sender(&EndpointConfig { rto_floor: Duration::from_secs(1), ..window(2.0) });
    s.offer_until(4);
    assert_eq!(leave(&mut s, 0), [(0, 1000), (1, 1000)]);
    s.set_packet_size(1400);
    // A timeout sends 0 again, as it was; 2 and 3 are new.
    s.on_timer(ms(1000));
    assert_eq!(leave(&mut s, 1000), [(0, 1000)]);
    let ack = |seq| Packet {
        kind: PacketKind::Ack,
        seq,
        packet_seq: seq,
        timestamp: ms(1000),
        ..Packet::default()
    };
    s.on_ack(ms(1100), &ack(2));
    assert_eq!(leave(&mut s, 1100), [(2, 1400), (3, 1400)]);
}

#[test]
fn what_a_full_socket_refused_comes_next_and_once() {
    let mut s = sender(&window(3.0));
    s.offer_until(u64::MAX);
    let mut packet = Packet::default();
    let mut refused = Vec::new();
    while s.poll_transmit(ms(0), &mut packet) {
        refused.push(packet.clone());
    }
    // The socket took 0 and was full for 1 and 2.
    s.unsent(&refused[1]);
    s.unsent(&refused[2]);
    assert_eq!(s.in_flight(), 3, "they are about to leave");
    assert_eq!(leave(&mut s, 5), [(1, 1000), (2, 1000)]);
    assert_eq!(leave(&mut s, 5), []);
    assert_eq!(s.stats(ms(5)).sent, 3);
}
