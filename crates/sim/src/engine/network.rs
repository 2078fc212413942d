//! The links and the packets on them.

use std::collections::{BTreeMap, VecDeque};

use windward_core::units::Time;

use super::component::Component;
use super::hop::{Hop, Span, Unordered};
use super::parallel::Border;
use super::route::{Routes, Step};
use super::schedule::Schedule;
use super::slab::{PacketId, Slab};
use super::wlan::Wlan;
use crate::outcome::{LinkOutcome, PhaseOutcome};
use windward_scenario::name::Names;

/// Links, routes over them, and packets under way.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) slab: Slab,
    pub(super) hops: Vec<Hop>,
    /// Media that links share.
    pub(super) wlans: Vec<Wlan>,
    pub(super) routes: Routes,
    pub(super) names: Names,
    /// Indices of the links in which packets wait.
    queued: Vec<u32>,
    /// Packets on the wires of links that may reorder, by link.
    pub(super) unordered: BTreeMap<u32, Unordered>,
    /// Packets that have left a queue and are not forwarded yet, each with its step and the time at
    /// which it ends.
    pub(super) departed: VecDeque<(PacketId, Step, Time)>,
    /// True if packets wait in every link until they leave.
    pub(super) holds: bool,
    /// The links to other threads, if the run has several.
    pub(super) border: Option<Border>,
}

impl Network {
    pub(super) fn new(
        hops: Vec<Hop>,
        wlans: Vec<Wlan>,
        routes: Routes,
        names: Names,
        holds: bool,
        border: Option<Border>,
    ) -> Self {
        let is_here = |link: u32| border.as_ref().is_none_or(|b| b.sends_on(link as usize));
        let queued = (0..).zip(&hops).filter(|(_, hop)| hop.queue.is_some()).map(|(i, _)| i);
        Network {
            slab: Slab::default(),
            queued: queued.filter(|link| is_here(*link)).collect(),
            hops,
            wlans,
            routes,
            names,
            unordered: BTreeMap::new(),
            departed: VecDeque::new(),
            holds,
            border,
        }
    }

    #[inline]
    pub(super) fn hop(&mut self, link: u32) -> &mut Hop {
        &mut self.hops[link as usize]
    }

    /// Index of the `at`-th link in which packets wait.
    pub(super) fn queued(&self, at: usize) -> Option<u32> {
        self.queued.get(at).copied()
    }

    /// Puts a packet on the wire of a link that keeps the order.
    #[inline(always)]
    pub(super) fn put_on_wire(
        &mut self,
        schedule: &mut Schedule,
        link: u32,
        id: PacketId,
        arrival: Time,
    ) {
        let hop = &mut self.hops[link as usize];
        if hop.wire.push(&mut self.slab, arrival, id) {
            schedule.push(Component::Arrival(link).id(), arrival);
        }
    }

    /// Puts a packet on the wire of a link that is [apart](super::route::Onward::Apart).
    #[cold]
    pub(super) fn put_apart(
        &mut self,
        schedule: &mut Schedule,
        link: u32,
        id: PacketId,
        arrival: Time,
    ) {
        if let Some(border) = &mut self.border
            && border.is_cut(link as usize)
        {
            return border.send(&mut self.slab, link, id, arrival);
        }
        self.unordered.entry(link).or_default().push(arrival, id);
        schedule.push(Component::Arrival(link).id(), arrival);
    }

    /// Takes the packet that arrives first on the wire of a link that may reorder.
    pub(super) fn take_unordered(&mut self, link: u32) -> Option<PacketId> {
        self.unordered.get_mut(&link).and_then(Unordered::pop)
    }

    /// Outcomes of the links at the end of the run, with the phases of their controllers.
    pub(super) fn close(self, phases: Vec<Option<PhaseOutcome>>, window: Span) -> Vec<LinkOutcome> {
        let Network { hops, names, unordered, .. } = self;
        let hops = hops.into_iter().zip(phases).enumerate();
        hops.map(|(index, (hop, phases))| {
            let reordered = unordered.get(&(index as u32)).map_or(0, |wire| wire.reordered);
            hop.close(names.get(index), window, phases.map(Box::new), reordered)
        })
        .collect()
    }

    /// Lets packets of a link overtake each other from now on, those under way included.
    pub(super) fn let_overtake(&mut self, schedule: &mut Schedule, link: u32) {
        self.routes.mark_apart(|other| other == link as usize);
        let wire = &mut self.hops[link as usize].wire;
        let mut is_first = true;
        while let Some(at) = wire.next_arrival() {
            let (id, _) = wire.pop(&self.slab);
            self.unordered.entry(link).or_default().push(at, id);
            // The first has an event already.
            if !std::mem::take(&mut is_first) {
                schedule.push(Component::Arrival(link).id(), at);
            }
        }
    }
}
