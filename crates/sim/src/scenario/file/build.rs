//! From the tables of a file to a [`Scenario`].

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::network::{
    ChannelConfig, ClassConfig, NotifierConfig, QueueConfig, QueueLimit, RouterConfig, RouterKind,
};
use windward_core::units::Duration;

use super::advice;
use super::chain::Chain;
use super::endpoint;
use super::error::{ScenarioError, suggest};
use super::graph::Graph;
use super::group::{Group, MAX_FLOWS};
use super::link::{Class, Classes, LinkPlan, NotifierChoice, RouterChoice};
use super::section::{Field, Result, Section, Spot};
use crate::name::{Names, NamesInMaking};
use crate::scenario::{
    FlowConfig, FlowKind, LinkConfig, LinkId, LinkKind, MAX_CHANGES, MAX_DURATION, MAX_TRANSFERS,
    Scenario, Traffic,
};

/// Bounds that keep a file from asking for more memory than it can mean.
const MAX_LINKS: usize = 2_000_000;
const MAX_GROUPS: usize = 10_000;
const MAX_HOPS: usize = 40_000_000;
const MAX_BINS: u64 = 1_000_000;
const MAX_BINS_OF_ALL_GROUPS: u64 = 10_000_000;
const MAX_SAMPLES: u64 = 1_000_000;
const MAX_VALUES_OF_ALL_SAMPLES: u64 = 10_000_000;

/// The scenario that a file with known keys describes.
pub(super) fn build(root: &Section<'_>) -> Result<Scenario> {
    let duration =
        root.require("duration", "duration = \"100s\"", |field| field.positive(MAX_DURATION))?;
    let warmup = root.read("warmup", |field| {
        let warmup = field.clone().instant()?;
        if warmup < duration {
            Ok(warmup)
        } else {
            Err(field.error(format!("must be less than the duration, {duration}")))
        }
    })?;
    let seed = root.read("seed", |field| field.integer(0..=u64::MAX))?;
    let groups = groups(root)?;
    let flow_bins = root.read("flow_bins", Field::bool)?.unwrap_or(false);
    let flows_binned: usize = groups.iter().filter(|_| flow_bins).map(|group| group.count).sum();
    let bin = bin(root, duration, (groups.len() + flows_binned) as u64)?;
    let idle_after = root.read("idle_after", |field| field.positive(MAX_DURATION))?;

    let mut links = Links::default();
    let routes = routes(root, &groups, &mut links)?;
    links.by_hash = HashMap::new(); // That was the last of them.
    links.check_changes(duration)?;
    let kinds = links.kinds(&groups, &routes)?;

    let names = flow_names(&groups, &routes);
    let mut flows = Vec::with_capacity(names.len());
    let mut transfers = 0.0;
    for (index, (group, routes)) in groups.iter().zip(routes).enumerate() {
        let at = |route: &Route| {
            let named = |field| measured_at(&field, route, &links);
            let named = group.section.read("bottleneck", named)?;
            Ok(named.unwrap_or(route.bottleneck))
        };
        // Only those of a graph have names: a parking lot counts its bottlenecks.
        let node = |key| group.section.read(key, Field::name);
        let nodes = match root.get("links") {
            Some(_) => node("from")?.zip(node("to")?).map(|(from, to)| [from.into(), to.into()]),
            None => None,
        };
        let traffic = group.traffic.clone();
        let mut kind = FlowKind { traffic, start: group.start, stop: group.stop, nodes };
        if let (Some(plan), Some(first)) = (&group.arrivals, routes.first()) {
            let rate = links.wire(at(first)?).rate.mean();
            let (of_each, expected) =
                plan.resolve(group.count, rate, group.packet_size(), duration)?;
            transfers += expected;
            if transfers > MAX_TRANSFERS {
                return Err(plan.error(format!(
                    "more than {MAX_TRANSFERS} transfers are to be expected up to this group"
                )));
            }
            kind.start = (of_each.from, of_each.from);
            if let Traffic::Transport { arrivals, .. } | Traffic::Stack { arrivals, .. } =
                &mut kind.traffic
            {
                *arrivals = Some(of_each);
            }
        }
        let kind = Arc::new(kind);
        for route in routes {
            flows.push(FlowConfig {
                name: names.get(flows.len()),
                group: index,
                bottleneck: at(&route)?,
                forward: route.forward,
                reverse: route.reverse,
                kind: Arc::clone(&kind),
            });
        }
    }
    let loss_free = links.without_word_of_losses();
    let links = links.finish(kinds);
    let sample = sample(root, duration, (flows.len() + links.len()) as u64)?;
    Ok(Scenario {
        warnings: advice::warnings(&groups, &flows, &links, &loss_free, duration),
        duration,
        warmup: warmup.unwrap_or(Duration::ZERO),
        seed: seed.unwrap_or(1),
        bin,
        flow_bins,
        sample,
        idle_after: idle_after.unwrap_or(Duration::from_millis(200)),
        links,
        flows,
        groups: groups.iter().map(|group| group.name.to_owned()).collect(),
    })
}

/// The links a flow crosses.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) forward: Vec<LinkId>,
    /// Empty for datagrams.
    pub(super) reverse: Vec<LinkId>,
    /// Where throughput is measured unless the file says otherwise.
    pub(super) bottleneck: LinkId,
    /// Can the first and the last link of `forward` be called `first_hop` and `last_hop`?
    pub(super) has_hops: bool,
}

impl Route {
    /// Other names of links of `forward`.
    fn aliases(&self) -> impl Iterator<Item = (&'static str, LinkId)> {
        let hops = [("first_hop", self.forward.first()), ("last_hop", self.forward.last())];
        let named = |(name, link): (_, Option<&LinkId>)| link.map(|link| (name, *link));
        hops.into_iter().filter(|_| self.has_hops).filter_map(named)
    }
}

/// The links found so far.
#[derive(Debug, Default)]
pub(super) struct Links {
    names: NamesInMaking,
    plans: Vec<Rc<LinkPlan>>,
    /// The delays, which may differ where plans do not.
    delays: Vec<Duration>,
    /// The link of each name, by a hash of the name, or by the next number that was free.
    by_hash: HashMap<u32, u32>,
    hasher: RandomState,
}

impl Links {
    pub(super) fn add(&mut self, name: &str, wire: &Rc<LinkPlan>) -> Result<LinkId> {
        self.add_with_delay(name, wire, wire.delay)
    }

    /// As [`Links::add`], with another delay than the plan's.
    pub(super) fn add_with_delay(
        &mut self,
        name: &str,
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
        let mut hash = self.hasher.hash_one(name) as u32;
        while let Some(&other) = self.by_hash.get(&hash) {
            if self.name(other as LinkId) == name {
                return Err(wire.spot.error(format!("two links are called `{name}`")));
            }
            hash = hash.wrapping_add(1);
        }
        self.by_hash.insert(hash, link as u32);
        self.names.push(format_args!("{name}"));
        self.plans.push(Rc::clone(wire));
        self.delays.push(delay);
        Ok(link)
    }

    fn name(&self, link: LinkId) -> &str {
        self.names.get(link)
    }

    pub(super) fn wire(&self, link: LinkId) -> &LinkPlan {
        &self.plans[link]
    }

    /// The slowest of some links, the first of equals.
    pub(super) fn slowest(&self, of: &[LinkId]) -> LinkId {
        let slowest = of.iter().copied().min_by_key(|&link| self.wire(link).rate.mean());
        slowest.unwrap_or(0)
    }

    /// Errors if a schedule changes more often in a run of that length than anybody means.
    fn check_changes(&self, duration: Duration) -> Result<()> {
        for (link, plan) in self.plans.iter().enumerate() {
            let changes =
                plan.rate.changes(duration).saturating_add(plan.impairments.changes(duration));
            if changes > MAX_CHANGES {
                let message = format!(
                    "rate, delay and outages of link `{}` change {changes} times in {duration}, more \
                     than {MAX_CHANGES}",
                    self.name(link)
                );
                return Err(plan.spot.error(message).with_help("let it `repeat` after longer"));
            }
        }
        Ok(())
    }

    /// What every link is but for its name and its delay, and a check that queues and routers suit
    /// the flows. Most links are like one a little before.
    fn kinds(&self, groups: &[Group<'_>], routes: &[Vec<Route>]) -> Result<Vec<Arc<LinkKind>>> {
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
                    NotifierChoice::Auto
                        if crossing.asks_for_notices && plan.channel != ChannelConfig::Clean =>
                    {
                        NotifierConfig::Configured
                    }
                    NotifierChoice::Auto => NotifierConfig::Off,
                },
                impairments: plan.impairments.clone(),
            };
            let equal = made.iter().rev().take(LOOK_BACK).find(|made| *made.2 == kind);
            let kind = equal.map_or_else(|| Arc::new(kind), |made| Arc::clone(&made.2));
            made.push((plan, crossing, Arc::clone(&kind)));
            kinds.push(kind);
        }
        Ok(kinds)
    }

    /// What crosses each link.
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

    /// Which links the file says nothing about losses of.
    fn without_word_of_losses(&self) -> Vec<bool> {
        self.plans.iter().map(|plan| !plan.speaks_of_losses).collect()
    }

    fn finish(self, kinds: Vec<Arc<LinkKind>>) -> Vec<LinkConfig> {
        let names = self.names.finish();
        let links = kinds.into_iter().zip(self.delays).enumerate();
        links
            .map(|(link, (kind, delay))| LinkConfig { name: names.get(link), delay, kind })
            .collect()
    }
}

/// The names of all flows: the group's and a number.
fn flow_names(groups: &[Group<'_>], routes: &[Vec<Route>]) -> Names {
    let mut names = NamesInMaking::default();
    for (group, routes) in groups.iter().zip(routes) {
        for number in 1..=routes.len() {
            names.push(format_args!("{}-{number}", group.name));
        }
    }
    names.finish()
}

/// What crosses a link.
#[derive(Debug, Clone, PartialEq, Default)]
struct Crossing {
    /// The first group whose data asks for the router of each [`RouterKind`].
    group_of_kind: [Option<GroupId>; RouterKind::ALL.len()],
    /// The largest packet, bytes, and the group it is from.
    largest: (u32, GroupId),
    /// The first group whose packets may be of any class.
    any_class: Option<GroupId>,
    /// Do flows that ask for notices of corruption send data over the link?
    asks_for_notices: bool,
}

/// Index of a group; [`MAX_GROUPS`] leaves room.
type GroupId = u16;

impl Crossing {
    fn packet(&mut self, size: u32, group: GroupId) {
        if size > self.largest.0 {
            self.largest = (size, group);
        }
    }

    /// The kinds of router asked for, each with a group that does.
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
            // Of packets that may be of any class, those that are named have a queue.
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
        // One class alone is a plain queue; a link that only acknowledgments cross has none.
        if classes.len() > 1 {
            return Ok(QueueConfig { classes, ..plain(RouterConfig::default()) });
        }
        Ok(classes.pop().map_or_else(|| plain(RouterConfig::default()), |class| class.queue))
    }

    /// The router of a class: its own, that of the link if it is of this kind, or the standard one.
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
                // A queue that marks by itself serves what asks for marks.
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

fn not_understood(spot: &Spot, link: &str, kind: RouterKind, group: &str) -> ScenarioError {
    spot.error(format!(
        "the router of link `{link}` gives no feedback that flows `{group}` understand: they ask \
         for `{}`",
        kind.name()
    ))
    .with_help("leave `router` out to have the one that the flows ask for")
}

fn groups<'a>(root: &Section<'a>) -> Result<Vec<Group<'a>>> {
    let common = root.read("endpoint", super::section::Field::section)?;
    let defaults = match &common {
        Some(section) => endpoint::read(EndpointConfig::default(), section)?,
        None => EndpointConfig::default(),
    };
    let Some(field) = root.get("flows") else {
        return Err(root.error("there are no flows").with_help(
            "add at least `[[flows]]` with `group = \"bulk\"` and `protocol = \"newreno\"`",
        ));
    };
    let items = field.clone().items()?;
    if items.is_empty() {
        return Err(field.error("there are no flows"));
    }
    if items.len() > MAX_GROUPS {
        return Err(field.error(format!("more than {MAX_GROUPS} groups of flows")));
    }
    let mut groups = Vec::with_capacity(items.len());
    let mut names = HashSet::new();
    let mut count = 0;
    for item in items {
        let group = Group::read(item, &defaults, common.as_ref())?;
        if !names.insert(group.name) {
            return Err(group.section.error("two groups have this name"));
        }
        count += group.count;
        if count > MAX_FLOWS {
            return Err(group
                .section
                .error(format!("more than {MAX_FLOWS} flows up to this group")));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// `series` is the number of groups, and of flows if they have bins of their own.
fn bin(root: &Section<'_>, duration: Duration, series: u64) -> Result<Duration> {
    let bin = root.read("bin", |field| field.positive(MAX_DURATION))?;
    let bin = bin.unwrap_or(Duration::from_secs(1));
    let bins = duration.as_ps().div_ceil(bin.as_ps());
    if bins <= MAX_BINS && bins.saturating_mul(series) <= MAX_BINS_OF_ALL_GROUPS {
        return Ok(bin);
    }
    let error = |message: String| match root.get("bin") {
        Some(field) => field.error(message),
        None => root.error(message),
    };
    let most = MAX_BINS.min(MAX_BINS_OF_ALL_GROUPS / series.max(1));
    let least = Duration::from_ps(duration.as_ps().div_ceil(most.max(1)));
    let message = format!("{duration} in bins of {bin} are more than {most} bins per group");
    Err(error(message).with_help(format!("bin must be at least \"{least}\"")))
}

/// `series` is the number of flows and links.
fn sample(root: &Section<'_>, duration: Duration, series: u64) -> Result<Option<Duration>> {
    root.read("sample", |field| {
        let interval = field.clone().positive(MAX_DURATION)?;
        let most = MAX_SAMPLES.min(MAX_VALUES_OF_ALL_SAMPLES / series.max(1)).max(2);
        // One at time zero, and one at each multiple.
        if duration.as_ps() / interval.as_ps() < most {
            return Ok(interval);
        }
        let least = Duration::from_ps(duration.as_ps().div_ceil(most - 1));
        let message = format!(
            "{duration} every {interval} are more than {most} samples of {series} flows and links"
        );
        Err(field.error(message).with_help(format!("sample must be at least \"{least}\"")))
    })
}

/// The routes of every group, one per flow.
fn routes(root: &Section<'_>, groups: &[Group<'_>], links: &mut Links) -> Result<Vec<Vec<Route>>> {
    let given: Vec<(&str, Field<'_>)> = ["dumbbell", "parking_lot", "links"]
        .into_iter()
        .filter_map(|key| root.get(key).map(|field| (key, field)))
        .collect();
    let (kind, field) = match given.as_slice() {
        [one] => one.clone(),
        [] => {
            return Err(root
                .error("there is no topology")
                .with_help("add `[dumbbell]`, `[parking_lot]` or `[[links]]`"));
        }
        [(first, _), (_, second), ..] => {
            return Err(second.error(format!("the scenario already has `{first}`")));
        }
    };
    if kind != "links" {
        root.forbid(&["nodes"], "only a general graph (`links`) has nodes")?;
    }
    let topology = match kind {
        "dumbbell" => Topology::Chain(Box::new(Chain::dumbbell(field.section()?, links)?)),
        "parking_lot" => Topology::Chain(Box::new(Chain::parking_lot(field.section()?, links)?)),
        _ => Topology::Graph(Graph::read(root, &field, links)?),
    };
    let mut hops = 0;
    let mut bounded = |group: &Group<'_>, count: usize, route: usize| {
        hops += count.saturating_mul(route);
        if hops <= MAX_HOPS {
            return Ok(());
        }
        let message = format!("the routes of all flows have more than {MAX_HOPS} links");
        Err(group.section.error(message))
    };
    let mut routes = Vec::with_capacity(groups.len());
    for group in groups {
        routes.push(match &topology {
            Topology::Chain(chain) => {
                bounded(group, group.count, chain.longest_route())?;
                chain.routes(group, links)?
            }
            Topology::Graph(graph) => {
                let route = graph.route(group, links)?;
                bounded(group, group.count, route.forward.len() + route.reverse.len())?;
                vec![route; group.count]
            }
        });
    }
    Ok(routes)
}

#[derive(Debug)]
enum Topology<'a> {
    Chain(Box<Chain<'a>>),
    Graph(Graph<'a>),
}

/// The link that a flow's `bottleneck` names.
fn measured_at(field: &Field<'_>, route: &Route, links: &Links) -> Result<LinkId> {
    let name = field.clone().text()?;
    let alias = route.aliases().find(|(alias, _)| *alias == name);
    let named = || route.forward.iter().find(|&&link| links.name(link) == name);
    alias
        .map(|(_, link)| link)
        .or_else(|| named().copied())
        .ok_or_else(|| not_on_route(field, name, route, links))
}

fn not_on_route(field: &Field<'_>, name: &str, route: &Route, links: &Links) -> ScenarioError {
    let names = route.forward.iter().map(|&link| links.name(link));
    let aliases = route.aliases().map(|(alias, _)| alias);
    field
        .error("no link of that name on the way of the data")
        .with_help(suggest(name, names.chain(aliases)))
}
