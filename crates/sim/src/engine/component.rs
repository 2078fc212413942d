//! What can have events, and who goes first at one instant.

use windward_core::network::Link;

use super::flow::{Flow, Transport};
use super::hop::Hop;
use super::schedule::{ComponentId, Tie};

/// What an index of the event queue means. At one instant, queues are served before packets
/// arrive, and packets arrive before timers expire: their order here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    /// The queue of a link can put its next packet on the wire.
    Queue(u32),
    /// An interval of a link's router ends.
    Router(u32),
    /// A packet reaches the far end of a link.
    Arrival(u32),
    /// A sender's timer.
    SenderTimer(u32),
    /// A receiver's timer.
    ReceiverTimer(u32),
    /// A packet leaves its sender after its processing time.
    Release(u32),
    /// An application starts or stops, or a source sends.
    Application(u32),
}

impl Component {
    /// How it stands among the events of one instant.
    pub(super) fn tie(self, seed: u64) -> Tie {
        let (rank, index): (u8, u32) = match self {
            Component::Queue(i) => (0, i),
            Component::Router(i) => (1, i),
            Component::Arrival(i) => (2, i),
            Component::SenderTimer(i) => (3, i),
            Component::ReceiverTimer(i) => (4, i),
            Component::Release(i) => (5, i),
            Component::Application(i) => (6, i),
        };
        let name = u64::from(rank) << 32 | u64::from(index);
        // Spread, so that neighbours do not keep their order from one instant to the next.
        let salt = (seed.rotate_left(17) ^ name).wrapping_mul(0xd6e8_feb8_6659_fd93);
        Tie { rank, salt: salt ^ salt >> 32 }
    }
}

/// Numbers the components that can have events, and tells each its number.
pub(super) fn number(
    hops: &mut [Hop],
    flows: &mut [Flow],
    transports: &mut [Option<Transport>],
) -> Vec<Component> {
    let mut components = Vec::new();
    let mut add = |id: &mut ComponentId, component: Component| {
        *id = components.len() as ComponentId;
        components.push(component);
    };
    for (i, hop) in (0..).zip(&mut *hops) {
        if matches!(hop.link, Link::Queued(_)) {
            add(&mut hop.ids.queue, Component::Queue(i));
        }
    }
    for (i, hop) in (0..).zip(&mut *hops) {
        if matches!(hop.link, Link::Queued(_)) {
            add(&mut hop.ids.router, Component::Router(i));
        }
    }
    for (i, hop) in (0..).zip(hops) {
        add(&mut hop.ids.arrival, Component::Arrival(i));
    }
    for (i, transport) in (0..).zip(&mut *transports) {
        if let Some(transport) = transport {
            add(&mut transport.sender_timer, Component::SenderTimer(i));
        }
    }
    for (i, transport) in (0..).zip(&mut *transports) {
        if let Some(transport) = transport
            && transport.delays_acks
        {
            add(&mut transport.receiver_timer, Component::ReceiverTimer(i));
        }
    }
    for (i, transport) in (0..).zip(transports) {
        if let Some(outbox) = transport.as_mut().and_then(|t| t.outbox.as_mut()) {
            add(&mut outbox.release, Component::Release(i));
        }
    }
    for (i, flow) in (0..).zip(flows) {
        add(&mut flow.application, Component::Application(i));
    }
    components
}
