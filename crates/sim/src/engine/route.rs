//! Routes, and what of them needs no event.

use windward_core::network::Link;

use super::flow::{Flow, Transport};
use super::hop::Hop;

/// A link of a route, and how packets go on from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) link: u32,
    pub(super) onward: Onward,
}

/// What happens at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    /// An event takes the packet there.
    Event,
    /// The next link takes it at once: all its packets come over this one, in order.
    Link,
    /// The receiver takes it at once: it acts on nothing but the packets that come over this
    /// link, in order, and nobody else feeds the link that its acknowledgments take.
    Receiver,
}

/// Finds what can be passed through without an event. A FIFO link passes packets on in order, and
/// where nobody else feeds what comes next, it can be offered them as soon as their arrival is
/// known.
pub(super) fn mark_express(hops: &[Hop], flows: &mut [Flow], transports: &[Option<Transport>]) {
    #[derive(Clone, Copy, PartialEq)]
    enum Feeder {
        Unknown,
        Link(u32),
        Receiver(usize),
        Several,
    }
    let mut feeders = vec![Feeder::Unknown; hops.len()];
    let mut note = |step: &Step, feeder: Feeder| {
        let known = &mut feeders[step.link as usize];
        *known =
            if *known == Feeder::Unknown || *known == feeder { feeder } else { Feeder::Several };
    };
    for (index, flow) in flows.iter().enumerate() {
        // Senders act on timers too: what they feed is never taken ahead of time.
        for (route, first) in
            [(&flow.forward, Feeder::Several), (&flow.reverse, Feeder::Receiver(index))]
        {
            if let Some(step) = route.first() {
                note(step, first);
            }
            for pair in route.windows(2) {
                note(&pair[1], Feeder::Link(pair[0].link));
            }
        }
    }
    let is_fifo = |step: &Step| matches!(hops[step.link as usize].link, Link::Fifo(_));
    let fed_by = |step: &Step, feeder: Feeder| feeders[step.link as usize] == feeder;
    for (index, (flow, transport)) in flows.iter_mut().zip(transports).enumerate() {
        for route in [&mut flow.forward, &mut flow.reverse] {
            for i in 1..route.len() {
                let (this, next) = (route[i - 1], route[i]);
                if is_fifo(&next) && fed_by(&next, Feeder::Link(this.link)) {
                    route[i - 1].onward = Onward::Link;
                }
            }
        }
        let acks_at_once = transport.as_ref().is_some_and(|transport| !transport.delays_acks);
        if let (true, Some(last), Some(back)) =
            (acks_at_once, flow.forward.last_mut(), flow.reverse.first())
            && is_fifo(last)
            && is_fifo(back)
            && fed_by(back, Feeder::Receiver(index))
        {
            last.onward = Onward::Receiver;
        }
    }
}
