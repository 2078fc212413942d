//! Shared media in the engine: which link of a station transmits.
//!
//! A station is a node that transmits on a medium, with all its links there: an access point has
//! one for each of its stations. It transmits the packets that arrived first, as from one queue,
//! and aggregates only packets of the same link.

use windward_core::network::{Fate, Link, Medium, Transmission};
use windward_core::units::Time;

use super::Simulation;
use super::component::Component;
use super::hop::Hop;
use super::network::Network;
use super::schedule::{Alarm, Schedule};
use super::slab::PacketId;
use crate::scenario::{LinkConfig, Station, WlanConfig};

/// A medium with the links of its stations.
#[derive(Debug)]
pub(super) struct Wlan {
    medium: Medium,
    /// The links of each station.
    links: Vec<Vec<u32>>,
    alarm: Alarm,
}

/// The fates of packets of a link.
type Fates = (u32, Vec<Fate<PacketId>>);

impl Wlan {
    /// The media of a scenario, idle.
    pub(super) fn all(wlans: &[WlanConfig], links: &[LinkConfig], seed: u64) -> Vec<Self> {
        let idle = |wlan: &WlanConfig| Wlan {
            medium: Medium::new(&wlan.medium, wlan.stations, seed, &wlan.name),
            links: vec![Vec::new(); wlan.stations],
            alarm: Alarm::OFF,
        };
        let mut all: Vec<_> = wlans.iter().map(idle).collect();
        for (link, config) in (0..).zip(links) {
            if let Some(Station { wlan, station }) = config.station {
                all[wlan as usize].links[station as usize].push(link);
            }
        }
        all
    }

    /// Lets a station contend from `now` on.
    fn contend(&mut self, schedule: &mut Schedule, wlan: u32, station: u32, now: Time) {
        self.medium.contend(now, station as usize);
        self.follow(schedule, wlan);
    }

    fn follow(&mut self, schedule: &mut Schedule, wlan: u32) {
        let next = self.medium.next_access();
        self.alarm.bring_forward(schedule, Component::Medium(wlan).id(), next);
    }

    /// The link of a station whose packet is next: the packet that arrived first.
    fn next_link(&self, hops: &[Hop], station: usize) -> Option<u32> {
        let next = |link: &&u32| match &hops[**link as usize].link {
            Link::Queued(link) => link.next_in_turn(),
            Link::Fifo(_) => None,
        };
        let links = self.links[station].iter();
        let waiting = links.filter_map(|link| next(&link).map(|arrived| (arrived, *link)));
        waiting.min().map(|(_, link)| link)
    }
}

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
