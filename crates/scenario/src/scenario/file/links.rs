//! The links of a scenario: their names, queues and routers, which depend on the flows that cross.

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::hash_table::{Entry, HashTable};
use windward_core::network::{
    ChannelConfig, ClassConfig, MediumConfig, NotifierConfig, QueueConfig, QueueLimit,
    RouterConfig, RouterKind,
};
use windward_core::units::Duration;

use super::channel::NotifierChoice;
use super::group::Group;
use super::link::LinkPlan;
use super::queue::{Class, Classes, RouterChoice};
use crate::name::NamesInMaking;
use crate::scenario::{LinkConfig, LinkId, LinkKind, MAX_CHANGES, Station, WlanConfig};
use crate::strict_toml::{FileError, Result, Spot, suggest};

const MAX_LINKS: usize = 10_000_000;

/// The links a flow crosses.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) forward: Vec<LinkId>,
    /// Empty for datagrams.
    pub(super) reverse: Vec<LinkId>,
    /// The link at which throughput is measured unless the file names another.
    pub(super) bottleneck: LinkId,
    /// True if `first_hop` and `last_hop` name the first and the last link of `forward`.
    pub(super) has_hops: bool,
}

impl Route {
    /// Other names of links of `forward`.
    pub(super) fn aliases(&self) -> impl Iterator<Item = (&'static str, LinkId)> {
        let hops = [("first_hop", self.forward.first()), ("last_hop", self.forward.last())];
        let named = |(name, link): (_, Option<&LinkId>)| link.map(|link| (name, *link));
        hops.into_iter().filter(|_| self.has_hops).filter_map(named)
    }
}

/// The end of a link at which packets enter it: a node of a graph, or a router or a host of a
/// chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Node {
    /// A node of a graph, or a router of a chain.
    Shared(usize),
    /// The host beyond a link, alone.
    HostOf(LinkId),
}

/// The links found so far.
#[derive(Debug, Default)]
pub(super) struct Links<'a> {
    /// Media that links share, by name.
    wlans: Vec<(&'a str, MediumConfig)>,
    /// The links that share a medium, each with the index of that and the node that transmits.
    on_media: Vec<(LinkId, usize, Node)>,
    names: NamesInMaking,
    plans: Vec<Rc<LinkPlan>>,
    /// The delays, which may differ between links with one plan.
    delays: Vec<Duration>,
    /// The links by their names, each with a hash of its name: of many names, few are read again.
    by_name: HashTable<(u32, u32)>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl<'a> Links<'a> {
    /// No links yet, but these media.
    pub(super) fn on(wlans: Vec<(&'a str, MediumConfig)>) -> Self {
        Links { wlans, ..Links::default() }
    }

    pub(super) fn add(&mut self, name: &str, wire: &Rc<LinkPlan>) -> Result<LinkId> {
        self.add_with_delay(format_args!("{name}"), wire, wire.delay)
    }

    /// Notes the node that transmits on a link, if it shares a medium.
    pub(super) fn transmits(&mut self, link: LinkId, node: Node) -> Result<()> {
        let Some((name, spot)) = &self.plans[link].wlan else { return Ok(()) };
        let Some(wlan) = self.wlans.iter().position(|(wlan, _)| wlan == name) else {
            let error = spot.error("no wireless LAN of this name is in `wlans`");
            return Err(error.with_help(suggest(name, self.wlans.iter().map(|(name, _)| *name))));
        };
        self.on_media.push((link, wlan, node));
        Ok(())
    }

    /// [`Links::add`] with a delay that replaces the plan's.
    pub(super) fn add_with_delay(
        &mut self,
        name: fmt::Arguments<'_>,
        wire: &Rc<LinkPlan>,
        delay: Duration,
    ) -> Result<LinkId> {
        let link = self.plans.len();
        if link == MAX_LINKS {
            return Err(wire
                .spot
                .error(format!("the scenario has more than {MAX_LINKS} links"))
                .with_help("flows of a group can share a hop: `last_hop = { shared = true }`"));
        }
        self.names.push(name);
        let Links { names, by_name, hasher, .. } = self;
        let name = names.get(link);
        let hash = hasher.hash_one(name) as u32;
        let spread = |(hash, _): &(u32, u32)| u64::from(*hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_same = |other: &(u32, u32)| other.0 == hash && names.get(other.1 as usize) == name;
        let entry = (hash, link as u32);
        match by_name.entry(spread(&entry), is_same, spread) {
            Entry::Occupied(_) => {
                return Err(wire.spot.error(format!("two links are called `{name}`")));
            }
            Entry::Vacant(place) => place.insert(entry),
        };
        self.plans.push(Rc::clone(wire));
        self.delays.push(delay);
        Ok(link)
    }

    /// Frees the index of names, since no links follow.
    pub(super) fn close(&mut self) {
        self.by_name = HashTable::new();
    }

    pub(super) fn name(&self, link: LinkId) -> &str {
        self.names.get(link)
    }

    pub(super) fn wire(&self, link: LinkId) -> &LinkPlan {
        &self.plans[link]
    }

    /// The slowest of some links; the first in a tie.
    pub(super) fn slowest(&self, of: &[LinkId]) -> LinkId {
        let slowest = of.iter().copied().min_by_key(|&link| self.wire(link).rate.mean());
        slowest.unwrap_or(0)
    }

    /// Checks that no schedule changes more often than [`MAX_CHANGES`] in a run of this length.
    pub(super) fn check_changes(&self, duration: Duration) -> Result<()> {
        for (link, plan) in self.plans.iter().enumerate() {
            let changes =
                plan.rate.changes(duration).saturating_add(plan.impairments.changes(duration));
            if changes > MAX_CHANGES {
                let message = format!(
                    "rate, delay and outages of link `{}` change {changes} times in {duration}, more \
                     than {MAX_CHANGES}",
                    self.name(link)
                );
                return Err(plan.spot.error(message).with_help("raise `repeat`"));
            }
        }
        Ok(())
    }

    /// Makes the kinds of all links, and checks that queues and routers suit the flows. Most links
    /// equal one shortly before them.
    pub(super) fn kinds(
        &self,
        groups: &[Group<'_>],
        routes: &[Vec<Route>],
    ) -> Result<Vec<Arc<LinkKind>>> {
        const LOOK_BACK: usize = 8;
        let crossing = self.crossing(groups, routes);
        let mut made: Vec<(&Rc<LinkPlan>, &Crossing, Arc<LinkKind>)> = Vec::new();
        let mut kinds = Vec::with_capacity(self.plans.len());
        for (link, (plan, crossing)) in self.plans.iter().zip(&crossing).enumerate() {
            let same = |made: &&(&Rc<LinkPlan>, &Crossing, _)| {
                Rc::ptr_eq(made.0, plan) && made.1 == crossing
            };
            if let Some((.., kind)) = made.iter().rev().take(LOOK_BACK).find(same) {
                kinds.push(Arc::clone(kind));
                continue;
            }
            let name = self.name(link);
            crossing.check_queue(name, plan, groups)?;
            let kind = LinkKind {
                rate: plan.rate.clone(),
                queue: crossing.queue(name, plan, groups)?,
                channel: plan.channel.clone(),
                notifier: match plan.notifier {
                    NotifierChoice::Fixed(spec) => spec,
                    NotifierChoice::Auto if plan.wlan.is_some() => NotifierConfig::Off,
                    NotifierChoice::Auto
                        if crossing.asks_for_notices && plan.channel != ChannelConfig::Clean =>
                    {
                        NotifierConfig::Configured
                    }
                    NotifierChoice::Auto => NotifierConfig::Off,
                },
                impairments: plan.impairments.clone(),
                attempts: self.attempts(plan),
            };
            let equal = made.iter().rev().take(LOOK_BACK).find(|made| *made.2 == kind);
            let kind = equal.map_or_else(|| Arc::new(kind), |made| Arc::clone(&made.2));
            made.push((plan, crossing, Arc::clone(&kind)));
            kinds.push(kind);
        }
        Ok(kinds)
    }

    /// The flows that cross each link.
    fn crossing(&self, groups: &[Group<'_>], routes: &[Vec<Route>]) -> Vec<Crossing> {
        let mut crossing = vec![Crossing::default(); self.plans.len()];
        for (index, (group, routes)) in (0..).zip(groups.iter().zip(routes)) {
            let kind = group.router() as usize;
            for route in routes {
                for &link in &route.forward {
                    let crossing = &mut crossing[link];
                    crossing.group_of_kind[kind].get_or_insert(index);
                    crossing.packet(group.packet_size(), index);
                    crossing.asks_for_notices |= group.asks_for_notices();
                }
                for &link in &route.reverse {
                    crossing[link].packet(group.ack_size().unwrap_or(0), index);
                }
                if group.has_classes() {
                    for &link in route.forward.iter().chain(&route.reverse) {
                        crossing[link].group_of_kind[kind].get_or_insert(index);
                        crossing[link].any_class.get_or_insert(index);
                    }
                }
            }
        }
        crossing
    }

    /// For each link, true if the file does not give its losses.
    pub(super) fn without_losses_given(&self) -> Vec<bool> {
        self.plans.iter().map(|plan| !plan.speaks_of_losses).collect()
    }

    /// Transmissions of a packet on a link, if all fail.
    fn attempts(&self, plan: &LinkPlan) -> u32 {
        let is_its = |(of, _): &&(&str, MediumConfig)| {
            plan.wlan.as_ref().is_some_and(|(name, _)| name == of)
        };
        self.wlans.iter().find(is_its).map_or(1, |(_, medium)| medium.attempts)
    }

    /// The stations that transmit on the links, and the media with their number of stations.
    fn stations(&self) -> (HashMap<LinkId, Station>, Vec<WlanConfig>) {
        let wlan = |(name, medium): &(&str, MediumConfig)| WlanConfig {
            name: (*name).to_owned(),
            medium: medium.clone(),
            stations: 0,
        };
        let mut wlans: Vec<_> = self.wlans.iter().map(wlan).collect();
        let (mut number, mut stations) = (HashMap::new(), HashMap::new());
        for (link, wlan, node) in &self.on_media {
            let count = &mut wlans[*wlan].stations;
            let station = *number.entry((*wlan, *node)).or_insert_with(|| {
                *count += 1;
                *count - 1
            });
            let station = Station { wlan: *wlan as u32, station: station as u32 };
            stations.insert(*link, station);
        }
        (stations, wlans)
    }

    pub(super) fn finish(self, kinds: Vec<Arc<LinkKind>>) -> (Vec<LinkConfig>, Vec<WlanConfig>) {
        let (stations, wlans) = self.stations();
        let names = self.names.finish();
        let links = kinds.into_iter().zip(self.delays).enumerate();
        let config = |(link, (kind, delay))| LinkConfig {
            name: names.get(link),
            delay,
            kind,
            station: stations.get(&link).copied(),
        };
        (links.map(config).collect(), wlans)
    }
}

/// The flows that cross a link.
#[derive(Debug, Clone, PartialEq, Default)]
struct Crossing {
    /// The first group whose data asks for the router of each [`RouterKind`].
    group_of_kind: [Option<GroupId>; RouterKind::ALL.len()],
    /// Size of the largest packet, bytes, and its group.
    largest: (u32, GroupId),
    /// The first group whose packets may be of any class.
    any_class: Option<GroupId>,
    /// True if flows that ask for notices of corruption send data over the link.
    asks_for_notices: bool,
}

/// Index of a group; `MAX_GROUPS` fits into it.
type GroupId = u16;

impl Crossing {
    fn packet(&mut self, size: u32, group: GroupId) {
        if size > self.largest.0 {
            self.largest = (size, group);
        }
    }

    /// The kinds of router that flows ask for, each with one group that does.
    fn wanted(&self) -> impl Iterator<Item = (RouterKind, GroupId)> {
        let kinds = RouterKind::ALL.into_iter();
        kinds
            .filter(|&kind| kind != RouterKind::Any)
            .filter_map(|kind| self.group_of_kind[kind as usize].map(|group| (kind, group)))
    }

    fn check_queue(&self, link: &str, wire: &LinkPlan, groups: &[Group<'_>]) -> Result<()> {
        let (size, group) = self.largest;
        let own = match &wire.classes {
            Classes::None => &[][..],
            Classes::Each(classes) => classes,
        };
        let limits = own.iter().filter_map(|(_, class)| class.limit).chain([wire.limit]);
        let too_small = |limit: &QueueLimit| matches!(limit, QueueLimit::Bytes(bytes) if *bytes < u64::from(size));
        match limits.into_iter().find(too_small) {
            Some(QueueLimit::Bytes(bytes)) => Err(wire
                .spot
                .error(format!(
                    "the queue of link `{link}` holds {bytes} bytes and the packets of flows `{}` \
                 are {size} bytes long",
                    groups[usize::from(group)].name
                ))
                .with_help(format!("write `queue = \"{size}B\"` or more"))),
            _ => Ok(()),
        }
    }

    fn queue(&self, link: &str, wire: &LinkPlan, groups: &[Group<'_>]) -> Result<QueueConfig> {
        let plain =
            |router| QueueConfig { limit: wire.limit, aqm: wire.aqm, router, classes: Vec::new() };
        let Classes::Each(own) = &wire.classes else {
            return self.router(link, wire, groups).map(plain);
        };
        let mut classes = Vec::new();
        for kind in RouterKind::ALL {
            let said = own.iter().find(|(of, _)| *of == kind).map(|(_, class)| class.clone());
            // If packets may be of any class, each class that the file names has a queue.
            let named = said.as_ref().and(self.any_class);
            let Some(group) = self.group_of_kind[kind as usize].or(named) else { continue };
            let class = said.unwrap_or_default();
            let router = self.router_of_class(kind, group, &class, link, wire, groups)?;
            let queue = QueueConfig {
                limit: class.limit.unwrap_or(wire.limit),
                aqm: class.aqm.unwrap_or(wire.aqm),
                router,
                classes: Vec::new(),
            };
            classes.push(ClassConfig { kind, weight: class.weight, queue });
        }
        // A single class is a plain queue; a link that only acknowledgments cross has no class.
        if classes.len() > 1 {
            return Ok(QueueConfig { classes, ..plain(RouterConfig::default()) });
        }
        Ok(classes.pop().map_or_else(|| plain(RouterConfig::default()), |class| class.queue))
    }

    /// The router of a class: its own, that of the link if it is of this kind, or the default.
    fn router_of_class(
        &self,
        kind: RouterKind,
        group: GroupId,
        class: &Class,
        link: &str,
        wire: &LinkPlan,
        groups: &[Group<'_>],
    ) -> Result<RouterConfig> {
        match (&class.router, &wire.router) {
            (Some(RouterChoice::Fixed(spec, spot)), _) if !spec.serves(kind) => {
                Err(not_understood(spot, link, kind, groups[usize::from(group)].name))
            }
            (Some(RouterChoice::Fixed(spec, _)), _) => Ok(*spec),
            (_, RouterChoice::Fixed(spec, _))
                if kind != RouterKind::Any
                    && *spec != RouterConfig::default()
                    && spec.serves(kind) =>
            {
                Ok(*spec)
            }
            _ => Ok(kind.spec()),
        }
    }

    fn router(&self, link: &str, wire: &LinkPlan, groups: &[Group<'_>]) -> Result<RouterConfig> {
        match &wire.router {
            RouterChoice::Auto => {
                // An AQM that marks serves the flows that ask for marks.
                let marks = wire.aqm.marks();
                let wanted = self.wanted();
                let mut wanted =
                    wanted.filter(|(kind, _)| !(marks && *kind == RouterKind::EcnThreshold));
                let Some((kind, group)) = wanted.next() else {
                    return Ok(RouterConfig::default());
                };
                match wanted.next() {
                    None => Ok(kind.spec()),
                    Some((other, other_group)) => Err(wire
                        .spot
                        .error(format!(
                            "flows `{}` ask for the router `{}` and flows `{}` for `{}`, and both \
                         cross link `{link}`",
                            groups[usize::from(group)].name,
                            kind.name(),
                            groups[usize::from(other_group)].name,
                            other.name(),
                        ))
                        .with_help(
                            "a queue has one router: give the link `classes = true` for a queue \
                             each, let these flows take different links, or give their protocols \
                             a scenario each",
                        )),
                }
            }
            RouterChoice::Fixed(spec, spot) => {
                match self.wanted().find(|&(kind, _)| !spec.serves(kind)) {
                    None => Ok(*spec),
                    Some((kind, group)) => {
                        Err(not_understood(spot, link, kind, groups[usize::from(group)].name))
                    }
                }
            }
        }
    }
}

fn not_understood(spot: &Spot, link: &str, kind: RouterKind, group: &str) -> FileError {
    spot.error(format!(
        "the router of link `{link}` gives no feedback that flows `{group}` understand: they ask \
         for `{}`",
        kind.name()
    ))
    .with_help("remove `router` to get the one that the flows ask for")
}
