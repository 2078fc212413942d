//! Prefetching for large topologies, so that state is in the caches when it is needed.
//!
//! With ten thousand flows or more, the state that an event touches is not in the caches: one after
//! the other, the link, the packet on its wire, the next links and the endpoint. The next events
//! are known, however: they are in the next buckets of the event queue. Each time the queue has
//! advanced by a block of buckets, this module prefetches the state that the events of the next
//! blocks touch: for a distant block the packets, for nearer blocks the state that these packets
//! need. Nothing is changed; an event that happens differently is only slower.

use windward_core::packet::PacketKind;
use windward_prefetch::prefetch;

use super::component::Component;
use super::flow::{Ends, Flow};
use super::network::Network;
use super::route::Onward;
use super::schedule::Schedule;
use super::slab::PacketId;

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
    /// Prefetches what the next events will need.
    #[cold]
    pub(super) fn touch(&self) {
        self.schedule.upcoming(5, |id| {
            if let Component::Arrival(link) = Component::from(id) {
                prefetch(&self.network.hops[link as usize].wire);
            }
        });
        self.arrivals(4, |packet| self.network.slab.prefetch(packet));
        self.arrivals(3, |packet| self.touch_flow(packet));
        self.arrivals(2, |packet| self.touch_way(packet));
    }

    /// Calls `look` for packets that arrive this many groups ahead.
    #[inline(always)]
    fn arrivals(&self, groups: u64, look: impl Fn(PacketId)) {
        self.schedule.upcoming(groups, |id| {
            if let Component::Arrival(link) = Component::from(id)
                && let Some(packet) = self.network.hops[link as usize].wire.first()
            {
                look(packet);
            }
        });
    }

    fn touch_flow(&self, packet: PacketId) {
        let slot = &self.network.slab[packet];
        self.network.routes.prefetch(slot.step - 1);
        let flow = &self.flows[slot.flow as usize];
        prefetch(&flow.route);
        prefetch(&flow.bottleneck);
        if slot.packet.kind == PacketKind::Ack
            && let Ends::Transport(transport) = &flow.ends
        {
            prefetch(&transport.sender);
        }
    }

    /// Prefetches the links that the packet takes without an event, and its receiver if it reaches
    /// it.
    fn touch_way(&self, packet: PacketId) {
        let Network { slab, routes, hops, .. } = self.network;
        let slot = &slab[packet];
        let Flow { ends, route, .. } = &self.flows[slot.flow as usize];
        let mut at = slot.step;
        if routes.step(at - 1).is_last() {
            let Ends::Transport(transport) = ends else { return };
            prefetch(&transport.timers);
            // The packets that it releases, or the ACK that it makes.
            at = route.forward;
        }
        for at in at..at + STEPS {
            let Some(step) = routes.get(at) else { return };
            prefetch(&hops[step.link() as usize]);
            match step.onward() {
                Onward::Event | Onward::Apart => return,
                Onward::Link => {}
                Onward::Receiver => {
                    if let Ends::Transport(transport) = ends {
                        prefetch(&transport.receiver);
                    }
                }
            }
        }
    }
}
