//! A sender and a receiver driven by hand over two links: a transfer of 2000 packets across
//! 8 Mbit/s and 20 ms each way, where one data packet in a hundred is destroyed.
//!
//! ```sh
//! cargo run --example transfer -p windward-core
//! cargo run --example transfer -p windward-core -- lr-lmxtcp
//! ```
//!
//! The clock is a variable. A caller with a real one waits for the next instant instead of jumping
//! to it, and has sockets where these links are; nothing else changes.

use std::collections::BTreeMap;

use windward_core::endpoint::{EndpointConfig, Receiver, Sender};
use windward_core::network::{ChannelConfig, Fate, Link, QueueConfig};
use windward_core::packet::{Label, Packet, PacketKind};
use windward_core::protocols;
use windward_core::units::{Duration, Probability, Rate, Time};

const PACKETS: u64 = 2000;

/// Everything between the two endpoints.
struct Network {
    /// To the receiver and back.
    links: [Link<usize>; 2],
    /// Packets on a link; their places are the handles by which it knows them.
    packets: Vec<Packet>,
    free: Vec<usize>,
    /// Packets in flight by arrival time; the number keeps packets of one instant in order.
    arriving: BTreeMap<(Time, u64), usize>,
    entered: u64,
    lost: u64,
}

impl Network {
    fn new(links: [Link<usize>; 2]) -> Self {
        Network {
            links,
            packets: Vec::new(),
            free: Vec::new(),
            arriving: BTreeMap::new(),
            entered: 0,
            lost: 0,
        }
    }

    /// Data takes the first link, acknowledgments the second.
    fn send(&mut self, now: Time, packet: Packet) {
        let link = usize::from(packet.kind == PacketKind::Ack);
        let handle = self.free.pop().unwrap_or(self.packets.len());
        if handle == self.packets.len() {
            self.packets.push(packet);
        } else {
            self.packets[handle] = packet;
        }
        let packet = &mut self.packets[handle];
        let fate = self.links[link].offer(now, Label::default(), packet, handle);
        self.settle(fate);
    }

    fn settle(&mut self, fate: Option<Fate<usize>>) {
        match fate {
            // It waits: the link will tell when it is advanced.
            None => {}
            Some(Fate::Sent { handle, departure, .. }) if !departure.destroyed => {
                self.entered += 1;
                self.arriving.insert((departure.arrival, self.entered), handle);
            }
            Some(Fate::Sent { handle, .. } | Fate::Dropped { handle, .. }) => {
                self.lost += 1;
                self.free.push(handle);
            }
        }
    }

    /// When something happens here next.
    fn next_event(&self) -> Time {
        let arrival = self.arriving.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
        self.links.iter().map(Link::next_event).fold(arrival, Time::min)
    }

    /// A packet that has arrived by `now`; links that are due are served first.
    fn receive(&mut self, now: Time) -> Option<Packet> {
        for link in 0..self.links.len() {
            while self.links[link].next_event() <= now {
                let Some(fate) = self.links[link].advance(now, &mut self.packets[..]) else {
                    break;
                };
                self.settle(Some(fate));
            }
        }
        let entry = self.arriving.first_entry().filter(|entry| entry.key().0 <= now)?;
        let handle = entry.remove();
        self.free.push(handle);
        Some(self.packets[handle].clone())
    }
}

fn main() -> Result<(), String> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "newreno".to_owned());
    let protocol = protocols::find(&name).ok_or_else(|| format!("no protocol `{name}`"))?;
    let config = EndpointConfig::default();
    let mut sender = Sender::new(protocol, &config, 1, "sender");
    let mut receiver = Receiver::new(&protocol.feedback, &config);

    let rate = Rate::from_bps(8_000_000).ok_or("a rate above zero")?;
    let loss = Probability::new(0.01).ok_or("a probability")?;
    let delay = Duration::from_millis(20);
    // The protocol's router is a part of the queue.
    let there = QueueConfig { router: protocol.router.spec(), ..QueueConfig::default() };
    let back = QueueConfig::default();
    let mut network = Network::new([
        Link::new(&rate.into(), delay, &there, &ChannelConfig::PacketLoss(loss), 1, "there"),
        Link::new(&rate.into(), delay, &back, &ChannelConfig::Clean, 1, "back"),
    ]);

    sender.offer_until(PACKETS);
    let mut now = Time::ZERO;
    let mut shown = Time::ZERO;
    let mut packet = Packet::default();
    while !sender.is_done() {
        // Whatever may be sent now is.
        while sender.poll_transmit(now, &mut packet) {
            network.send(now, packet.clone());
        }
        if now >= shown {
            println!(
                "{:6.2} s  cwnd {:6.1}  in flight {:4}  srtt {:5.1} ms  delivered {:5}",
                now.as_secs_f64(),
                sender.cwnd(),
                sender.in_flight(),
                1e3 * sender.rtt().srtt().as_secs_f64(),
                receiver.stats().unique,
            );
            shown = now + Duration::from_millis(250);
        }

        // Nothing happens before the first of these.
        now = network.next_event().min(sender.next_timer()).min(receiver.next_timer()).max(now);
        if now == Time::NEVER {
            return Err("the connection is stuck".to_owned());
        }
        while let Some(mut arrived) = network.receive(now) {
            if arrived.kind == PacketKind::Ack {
                sender.on_ack(now, &arrived);
            } else if receiver.on_data(now, &mut arrived) {
                // The receiver has turned it into an acknowledgment.
                network.send(now, arrived);
            }
        }
        if receiver.next_timer() <= now && receiver.on_timer(now, &mut packet) {
            network.send(now, packet.clone());
        }
        if sender.next_timer() <= now {
            sender.on_timer(now);
        }
    }
    let stats = sender.stats(now);
    println!(
        "{name}: {PACKETS} packets in {:.2} s, {} sent again, {} lost on the way, {} timeouts",
        now.as_secs_f64(),
        stats.retransmissions,
        network.lost,
        stats.timeouts,
    );
    Ok(())
}
