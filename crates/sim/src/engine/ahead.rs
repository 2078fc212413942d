//! Prefetching in a large topology, so that state is in the caches when it is needed.
//!
//! With ten thousand flows or more, each event finds what it touches far out in memory, one after
//! the other: the link, the packet on its wire, the next links and the endpoint. The next events
//! are known, however: they lie in the next buckets of the event queue. So each time the queue has
//! moved on by a block of buckets, this module reads what the events of the next blocks will touch:
//! of a distant block the packets, of nearer blocks what these packets need. The processor waits
//! for many places in memory as long as for one. Nothing is changed, and an event that turns out
//! differently is merely slow.

use std::hint::black_box;

use windward_core::packet::PacketKind;

use super::component::{Component, ComponentId};
use super::flow::{Ends, Flow};
use super::network::Network;
use super::route::Onward;
use super::schedule::Schedule;
use super::slab::PacketId;

/// Number of links from which on the state is larger than the inner caches.
pub(super) const MANY_LINKS: usize = 4096;

/// Number of steps of a route that are read beyond the next, where they need no event.
const STEPS: u32 = 3;

/// State that the next events will touch.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) network: &'a Network,
    pub(super) flows: &'a [Flow],
}

impl Ahead<'_> {
    /// Reads what the next events will need, without using it.
    #[cold]
    pub(super) fn touch(&self) {
        self.schedule.upcoming(4, |id| {
            black_box(self.first_on_wire(id));
        });
        self.schedule.upcoming(3, |id| self.touch_packet(id));
        self.schedule.upcoming(2, |id| self.touch_flow(id));
        self.schedule.upcoming(1, |id| self.touch_way(id));
    }

    /// The packet whose arrival the event is, if it is one.
    fn first_on_wire(&self, id: ComponentId) -> Option<PacketId> {
        match Component::from(id) {
            Component::Arrival(link) => self.network.hops[link as usize].wire.first(),
            _ => None,
        }
    }

    fn touch_packet(&self, id: ComponentId) {
        let Some(packet) = self.first_on_wire(id) else { return };
        let slab = &self.network.slab;
        black_box((slab[packet].step, slab.next(packet).1));
    }

    fn touch_flow(&self, id: ComponentId) {
        let Some(packet) = self.first_on_wire(id) else { return };
        let slot = &self.network.slab[packet];
        black_box(self.network.routes.step(slot.step - 1).link());
        black_box(self.flows[slot.flow as usize].bottleneck.bytes);
    }

    /// Reads the links that the packet takes at once, and the endpoint where it comes to one.
    fn touch_way(&self, id: ComponentId) {
        let Some(packet) = self.first_on_wire(id) else { return };
        let Network { slab, routes, hops, .. } = self.network;
        let slot = &slab[packet];
        let Flow { ends, route, .. } = &self.flows[slot.flow as usize];
        let mut at = slot.step;
        if routes.step(at - 1).is_last() {
            let Ends::Transport(transport) = ends else { return };
            if slot.packet.kind == PacketKind::Ack {
                let sender = &transport.sender;
                black_box((
                    sender.cwnd(),
                    sender.rtt().srtt(),
                    sender.sequences().una,
                    sender.in_flight(),
                    sender.next_timer(),
                    sender.loss_rate().sent,
                ));
            }
            // The packets that it lets out, or the ACK that it makes.
            at = route.forward;
        }
        for at in at..at + STEPS {
            let Some(step) = routes.get(at) else { return };
            hops[step.link() as usize].touch();
            match step.onward() {
                Onward::Event | Onward::Unordered => return,
                Onward::Link => {}
                Onward::Receiver => {
                    if let Ends::Transport(transport) = ends {
                        let receiver = &transport.receiver;
                        black_box((receiver.stats().unique, receiver.next_timer()));
                    }
                }
            }
        }
    }
}
