//! Routes, and which of their steps need no event.

use windward_prefetch::prefetch;

use super::hop::Hop;
use crate::scenario::{FlowConfig, LinkId};

/// A link of a route and the way in which packets continue from it, in one word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step(u32);

/// From the low bits to the high: the link, [`Onward`], and two flags.
const LINK_BITS: u32 = 28;
const ONWARD: u32 = 3 << LINK_BITS;
const MEASURED: u32 = 1 << 30;
const LAST: u32 = 1 << 31;

impl Step {
    fn new(link: LinkId, measured: bool, last: bool) -> Self {
        debug_assert!(link < 1 << LINK_BITS, "scenarios have fewer links");
        let measured = if measured { MEASURED } else { 0 };
        let last = if last { LAST } else { 0 };
        Step(link as u32 | measured | last)
    }

    /// The index of the link.
    #[inline]
    pub(super) fn link(self) -> u32 {
        self.0 & ((1 << LINK_BITS) - 1)
    }

    /// True if the throughput of the flow is measured at this link.
    #[inline]
    pub(super) fn is_measured(self) -> bool {
        self.0 & MEASURED != 0
    }

    /// True if it ends at the endpoint.
    #[inline]
    pub(super) fn is_last(self) -> bool {
        self.0 & LAST != 0
    }

    /// The way in which packets continue at the far end.
    #[inline]
    pub(super) fn onward(self) -> Onward {
        match (self.0 & ONWARD) >> LINK_BITS {
            0 => Onward::Event,
            1 => Onward::Link,
            2 => Onward::Receiver,
            _ => Onward::Apart,
        }
    }

    fn set_onward(&mut self, onward: Onward) {
        self.0 = self.0 & !ONWARD | (onward as u32) << LINK_BITS;
    }
}

/// The way in which packets continue at the far end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onward {
    /// An event takes the packet there.
    Event,
    /// The next link takes it at once: all its packets arrive over this one, in order.
    Link,
    /// The receiver takes it at once: it acts only on packets, which all arrive over this link, in
    /// order, and no other flow or link feeds the link that its ACKs take.
    Receiver,
    /// As [`Onward::Event`], on a link that needs more care: packets may overtake each other on it,
    /// or its far end belongs to another thread.
    Apart,
}

/// Beginnings of the routes of a flow in the list of steps. The reverse route follows the forward
/// route directly, so that a receiver answers without a search for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) forward: u32,
    pub(super) reverse: u32,
}

/// The time at which the receiver of a flow answers a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Never: nothing takes the reverse route.
    Never,
    /// At once or later, with any number of packets.
    Later,
    /// At once, with one ACK for each packet.
    AtOnce,
}

/// The steps of all routes. Flows in a row with the same routes share them.
#[derive(Debug, Default)]
pub(super) struct Routes {
    steps: Vec<Step>,
}

impl Routes {
    /// The steps of the routes of these flows, and the beginning of each route.
    pub(super) fn new(flows: &[FlowConfig]) -> (Self, Vec<Route>) {
        let mut steps = Vec::new();
        let mut of_flow: Vec<Route> = Vec::with_capacity(flows.len());
        for (index, flow) in flows.iter().enumerate() {
            let before = index.checked_sub(1).map(|before| (&flows[before], of_flow[before]));
            if let Some((same, route)) = before
                && same.forward == flow.forward
                && same.reverse == flow.reverse
                && same.bottleneck == flow.bottleneck
            {
                of_flow.push(route);
                continue;
            }
            let mut add = |links: &[LinkId], bottleneck: Option<LinkId>| {
                let at = steps.len() as u32;
                let last = links.len().wrapping_sub(1);
                let links = links.iter().enumerate();
                steps.extend(
                    links.map(|(i, link)| Step::new(*link, Some(*link) == bottleneck, i == last)),
                );
                at
            };
            let forward = add(&flow.forward, Some(flow.bottleneck));
            of_flow.push(Route { forward, reverse: add(&flow.reverse, None) });
        }
        steps.shrink_to_fit();
        (Routes { steps }, of_flow)
    }

    /// The step at an index.
    #[inline]
    pub(super) fn step(&self, at: u32) -> Step {
        self.steps[at as usize]
    }

    /// Prefetches the step at an index.
    #[inline(always)]
    pub(super) fn prefetch(&self, at: u32) {
        prefetch(&self.steps[at as usize]);
    }

    /// The step at an index, if there is one.
    pub(super) fn get(&self, at: u32) -> Option<Step> {
        self.steps.get(at as usize).copied()
    }

    /// The steps of a route from its beginning to its end.
    pub(super) fn from(&self, at: u32) -> &[Step] {
        let rest = &self.steps[at as usize..];
        let last = rest.iter().position(|step| step.is_last());
        &rest[..last.map_or(0, |last| last + 1)]
    }

    /// Marks the steps over links that are [apart](Onward::Apart).
    pub(super) fn mark_apart(&mut self, is_apart: impl Fn(usize) -> bool) {
        for step in self.steps.iter_mut().filter(|step| is_apart(step.link() as usize)) {
            step.set_onward(Onward::Apart);
        }
    }

    /// Finds the steps that need no event. A link delivers packets in order. If nothing else feeds
    /// the next link or receiver, the packets can be offered to it as soon as their arrival is
    /// known.
    pub(super) fn mark_express(&mut self, hops: &[Hop], flows: &[(Route, Answers)]) {
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            Unknown,
            Link(u32),
            Receiver(usize),
            Several,
        }
        let mut feeders = vec![Feeder::Unknown; hops.len()];
        let mut note = |step: Step, feeder: Feeder| {
            let known = &mut feeders[step.link() as usize];
            *known = if *known == Feeder::Unknown || *known == feeder {
                feeder
            } else {
                Feeder::Several
            };
        };
        let lengths = |routes: &Routes, (Route { forward, reverse }, answers): (Route, Answers)| {
            let back = match answers {
                Answers::Never => 0,
                Answers::Later | Answers::AtOnce => routes.from(reverse).len(),
            };
            [(forward as usize, routes.from(forward).len()), (reverse as usize, back)]
        };
        for (index, flow) in flows.iter().enumerate() {
            let ways = lengths(self, *flow).map(|(from, length)| &self.steps[from..from + length]);
            // Senders act on timers too, so the links that they feed are never passed ahead of
            // time.
            for (way, first) in ways.into_iter().zip([Feeder::Several, Feeder::Receiver(index)]) {
                if let Some(step) = way.first() {
                    note(*step, first);
                }
                for pair in way.windows(2) {
                    note(pair[1], Feeder::Link(pair[0].link()));
                }
            }
        }
        let runs_ahead = |step: Step| hops[step.link() as usize].runs_ahead();
        let in_order = |step: Step| step.onward() != Onward::Apart;
        let fed_by = |step: Step, feeder: Feeder| feeders[step.link() as usize] == feeder;
        for (index, flow) in flows.iter().enumerate() {
            let ways = lengths(self, *flow);
            for (from, length) in ways {
                for at in from..(from + length).saturating_sub(1) {
                    let (this, next) = (self.steps[at], self.steps[at + 1]);
                    if in_order(this) && runs_ahead(next) && fed_by(next, Feeder::Link(this.link()))
                    {
                        self.steps[at].set_onward(Onward::Link);
                    }
                }
            }
            let [(forward, there), (reverse, back)] = ways;
            if flow.1 == Answers::AtOnce && there > 0 && back > 0 {
                let last = forward + there - 1;
                let first = self.steps[reverse];
                if in_order(self.steps[last])
                    && runs_ahead(self.steps[last])
                    && runs_ahead(first)
                    && fed_by(first, Feeder::Receiver(index))
                {
                    self.steps[last].set_onward(Onward::Receiver);
                }
            }
        }
    }
}
