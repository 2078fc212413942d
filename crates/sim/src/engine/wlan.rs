//! Shared media in the engine: the links of their stations.
//!
//! A station is a node that transmits on a medium, with all its links there: an access point has
//! one for each of its stations. It transmits the packets that arrived first, as from one queue,
//! and aggregates only packets of the same link.

use windward_core::network::{Link, Medium};
use windward_core::units::Time;

use super::component::Component;
use super::hop::Hop;
use super::schedule::{Alarm, Schedule};
use crate::scenario::{LinkConfig, Station, WlanConfig};

/// A medium with the links of its stations.
#[derive(Debug)]
pub(super) struct Wlan {
    pub(super) medium: Medium,
    /// The links of each station.
    links: Vec<Vec<u32>>,
    pub(super) alarm: Alarm,
}

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
    pub(super) fn contend(&mut self, schedule: &mut Schedule, wlan: u32, station: u32, now: Time) {
        self.medium.contend(now, station as usize);
        self.follow(schedule, wlan);
    }

    /// Sets the alarm for the next access.
    pub(super) fn follow(&mut self, schedule: &mut Schedule, wlan: u32) {
        let next = self.medium.next_access();
        self.alarm.bring_forward(schedule, Component::Medium(wlan).id(), next);
    }

    /// The link of a station whose packet is next: the packet that arrived first.
    pub(super) fn next_link(&self, hops: &[Hop], station: usize) -> Option<u32> {
        let next = |link: &&u32| match &hops[**link as usize].link {
            Link::Queued(link) => link.next_in_turn(),
            Link::Fifo(_) => None,
        };
        let links = self.links[station].iter();
        let waiting = links.filter_map(|link| next(&link).map(|arrived| (arrived, *link)));
        waiting.min().map(|(_, link)| link)
    }
}
