//! Looking ahead in a large topology, so that its state is in the caches when it is needed.
//!
//! With ten thousand flows and more, each event finds what it touches far out in memory: the link,
//! then the packet on its wire, then the next links and the endpoint, one after the other. What will
//! happen next is known, however: it lies in the next buckets of the event queue. So each time the
//! queue has moved on by a block of buckets, the packets of a block some way off are looked up, and
//! what the events of nearer blocks touch, all at once: the processor waits for many places in
//! memory as long as for one. Nothing is changed, and what comes differently is merely slow.

use std::hint::black_box;

use windward_core::packet::PacketKind;

use super::Simulation;
use super::component::{Component, ComponentId};
use super::route::Onward;

/// From so many links on the state is larger than the inner caches.
pub(super) const MANY_LINKS: usize = 4096;

/// Steps beyond the next that are looked at where they are taken without an event.
const STEPS: u32 = 3;

impl Simulation {
    /// Reads what the events ahead will need, without using it.
    #[cold]
    pub(super) fn look_ahead(&self) {
        self.schedule.upcoming(4, |id| self.touch_link(id));
        self.schedule.upcoming(3, |id| self.touch_packet(id));
        self.schedule.upcoming(2, |id| self.touch_flow(id));
        self.schedule.upcoming(1, |id| self.touch_way(id));
    }

    fn touch_link(&self, id: ComponentId) {
        if let Component::Arrival(link) = Component::from(id) {
            black_box(self.hops[link as usize].wire.first());
        }
    }

    fn touch_packet(&self, id: ComponentId) {
        if let Component::Arrival(link) = Component::from(id)
            && let Some(packet) = self.hops[link as usize].wire.first()
        {
            black_box((self.slab[packet].step, self.slab.next(packet).1));
        }
    }

    fn touch_flow(&self, id: ComponentId) {
        if let Component::Arrival(link) = Component::from(id)
            && let Some(packet) = self.hops[link as usize].wire.first()
        {
            let slot = &self.slab[packet];
            black_box(self.routes.step(slot.step - 1).link());
            black_box(self.flows[slot.flow as usize].bottleneck_bytes);
        }
    }

    /// The links that the packet takes at once, and the endpoint where it comes to one.
    fn touch_way(&self, id: ComponentId) {
        let Component::Arrival(link) = Component::from(id) else { return };
        let Some(packet) = self.hops[link as usize].wire.first() else { return };
        let slot = &self.slab[packet];
        let transport = &self.transports[slot.flow as usize];
        let mut at = slot.step;
        if self.routes.step(at - 1).is_last() {
            let Some(transport) = transport else { return };
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
            // What it lets out, or the acknowledgment that it makes.
            at = transport.route.forward;
        }
        for at in at..at + STEPS {
            let Some(step) = self.routes.get(at) else { return };
            self.hops[step.link() as usize].touch();
            match step.onward() {
                Onward::Event | Onward::Unordered => return,
                Onward::Link => {}
                Onward::Receiver => {
                    if let Some(transport) = transport {
                        let receiver = &transport.receiver;
                        black_box((receiver.stats().unique, receiver.next_timer()));
                    }
                }
            }
        }
    }
}
