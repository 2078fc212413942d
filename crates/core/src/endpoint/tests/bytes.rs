//! Real packets: sizes that differ, and sockets that are full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::window::{Controller, ControllerConfig, ControllerSetup, MakeController};
use crate::part::{Custom, CustomPart, Words};
use crate::protocols::Protocol;
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
    // A whole number of packets: no short packet.
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
fn packets_that_a_full_socket_refused_come_next_and_once() {
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

/// A controller with a window of ten that adds up the bytes that are acknowledged to it.
struct BytesHeard(Arc<AtomicU64>);

impl CustomPart for BytesHeard {
    fn words(&self) -> Words {
        Words { name: "bytes-heard", what: "adds up bytes", source: "a test" }
    }
}

impl MakeController for BytesHeard {
    fn make(&self, _: ControllerSetup<'_>) -> Box<dyn Controller> {
        Box::new(BytesHeardState(self.0.clone()))
    }
}

#[derive(Debug)]
struct BytesHeardState(Arc<AtomicU64>);

impl Controller for BytesHeardState {
    fn cwnd(&self) -> f64 {
        10.0
    }
    fn on_ack(&mut self, ack: &AckEvent) {
        self.0.fetch_add(ack.newly_acked_bytes, Ordering::Relaxed);
    }
    fn on_congestion(&mut self, _: &CongestionEvent) {}
    fn on_reset(&mut self, _: &ResetEvent) {}
}

#[test]
fn controllers_hear_of_bytes_too() {
    let heard = Arc::default();
    let maker = Box::leak(Box::new(BytesHeard(Arc::clone(&heard))));
    let row = protocols::find("sack").expect("a row of the table");
    let outside = Protocol { window: ControllerConfig::Custom(Custom(maker)), ..*row };
    let mut s = Sender::new(&outside, &window(10.0), 1, "test");
    // Two of 1000 bytes, one of 1400 and the rest of 300.
    s.offer_until(2);
    leave(&mut s, 0);
    s.set_packet_size(1400);
    s.offer_bytes(1700);
    assert_eq!(leave(&mut s, 0), [(2, 1400), (3, 300)]);
    let total = || heard.load(Ordering::Relaxed);
    for (seq, bytes) in [(1, 1000), (3, 3400), (4, 3700)] {
        s.on_ack(ms(100), &Packet { kind: PacketKind::Ack, seq, ..Packet::default() });
        assert_eq!(total(), bytes);
    }
}
