//! Prefetching for large topologies, so that state is in the caches when it is needed.
//!
//! With ten thousand flows or more, the state that an event touches is not in the caches: one after
//! the other, the link, the packet on its wire, the next links and the endpoint. The next events
//! are known, however: they are in the next buckets of the event queue. Each time the queue has
//! advanced by a block of buckets, this module reads the state that the events of the next blocks
//! touch: for a distant block the packets, for nearer blocks the state that these packets need. The
//! processor fetches many places in memory in the time of one. Nothing is changed; an event that
//! happens differently is only slower.

use std::hint::black_box;

use windward_core::packet::PacketKind;

use super::component::{Component, ComponentId};
use super::flow::{Ends, Flow};
use super::network::Network;
use super::route::Onward;
use super::schedule::Schedule;
use super::slab::PacketId;

/// Number of links above which the state is larger than the inner caches.
pub(super) const MANY_LINKS: usize = 4096;

/// Number of further steps of a route that are read, if they need no event.
const STEPS: u32 = 3;

/// The state that the next events will touch.
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

    /// The packet that arrives, if the event is an arrival.
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

    /// Reads the links that the packet takes without an event, and its endpoint if it reaches it.
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
            // The packets that it releases, or the ACK that it makes.
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
