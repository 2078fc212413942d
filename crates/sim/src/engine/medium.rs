//! Access to shared media in the engine.

use windward_core::network::{Fate, Link, Transmission};
use windward_core::units::Time;

use super::Simulation;
use super::component::Component;
use super::network::Network;
use super::slab::PacketId;
use crate::scenario::Station;

/// The fates of packets of a link.
type Fates = (u32, Vec<Fate<PacketId>>);

impl Simulation {
    /// Lets the station of a link contend for its medium if a packet waits for it.
    pub(super) fn contend(&mut self, link: u32, now: Time) {
        let Network { hops, wlans, .. } = &mut self.network;
        let hop = &hops[link as usize];
        if let (Some(Station { wlan, station }), Link::Queued(queued)) = (hop.station(), &hop.link)
            && queued.next_in_turn().is_some()
        {
            wlans[wlan as usize].contend(&mut self.schedule, wlan, station, now);
        }
    }

    /// The stations of a medium whose turn it is transmit.
    #[cold]
    pub(super) fn on_medium(&mut self, wlan: u32) {
        let now = self.now;
        let state = &mut self.network.wlans[wlan as usize];
        if !state.alarm.goes_off(&mut self.schedule, Component::Medium(wlan).id(), now)
            || state.medium.next_access() > now
        {
            state.follow(&mut self.schedule, wlan);
            self.events -= 1;
            return;
        }
        let mut transmitting = Vec::new();
        state.medium.begin(&mut transmitting);
        let mut links = Vec::with_capacity(transmitting.len());
        for station in &transmitting {
            let state = &self.network.wlans[wlan as usize];
            let link = state.next_link(&self.network.hops, *station);
            // Queue management that is due comes first.
            if let Some(link) = link {
                self.catch_up(link, now);
            }
            links.push(link);
        }
        let collides = transmitting.len() > 1;
        let mut accesses = Vec::with_capacity(transmitting.len());
        let mut decided: Vec<Fates> = Vec::new();
        for (station, link) in transmitting.into_iter().zip(links) {
            let sent = link.and_then(|link| self.access(wlan, link, collides, &mut decided));
            let Network { hops, wlans, .. } = &self.network;
            let waits = wlans[wlan as usize].next_link(hops, station).is_some();
            accesses.push((station, sent, waits));
        }
        let state = &mut self.network.wlans[wlan as usize];
        state.medium.end(&accesses);
        state.follow(&mut self.schedule, wlan);
        for (link, fates) in decided {
            for fate in fates {
                self.decide(link, fate);
            }
            self.network.hop(link).follow(link, &mut self.schedule);
        }
    }

    /// Lets a link transmit now.
    fn access(
        &mut self,
        wlan: u32,
        link: u32,
        collides: bool,
        decided: &mut Vec<Fates>,
    ) -> Option<Transmission> {
        let Network { hops, slab, wlans, .. } = &mut self.network;
        let Link::Queued(queued) = &mut hops[link as usize].link else { return None };
        let config = wlans[wlan as usize].medium.config();
        let mut fates = Vec::new();
        let sent = queued.transmit(self.now, config, collides, slab, &mut fates);
        decided.push((link, fates));
        sent
    }
}
