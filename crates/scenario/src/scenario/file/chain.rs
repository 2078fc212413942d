//! The shorthands: a dumbbell, and a parking lot, which is a row of bottlenecks.
//!
//! Each flow has a first hop, crosses consecutive bottlenecks, and has a last hop. Links are
//! called `bottleneck` (`bottleneck-0` and so on in a parking lot), `GROUP-N-first-hop` and
//! `GROUP-N-last-hop`, without N if the group shares the hop; links that carry
//! acknowledgments end in `-reverse`. The data of an upload takes the reverse bottlenecks, and its
//! acknowledgments the forward ones.

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;

use windward_core::units::Duration;

use super::group::Group;
use super::link::{LinkFields, LinkKeys, LinkPlan};
use super::links::{Links, Node, Route};
use super::route::{HopKeys, RouteKeys};
use super::traces::Traces;
use crate::keys;
use crate::scenario::LinkId;
use crate::strict_toml::{Field, Result, Section, readers, unnamed};

/// The most bottlenecks in a row.
const MAX_BOTTLENECKS: u64 = 1000;

/// Keys of flows for general graphs only.
const GRAPH_KEYS: &[&str] = &["path", "ack_path"];

keys! {
    /// Keys of `[dumbbell]`.
    pub(super) struct DumbbellKeys<'a> in "dumbbell" {
        bottleneck: Section<'a> = readers::table(&[LinkKeys::KEYS]),
            needed "bottleneck = { rate = \"5Mbit\", delay = \"20ms\" }",
            "the shared link, data direction";
        reverse_bottleneck: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]),
            absent "mirror without loss", "the shared link, direction of acknowledgments";
        access: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]), absent,
            "first and last hop of every flow";
    }

    /// Keys of `[parking_lot]`.
    pub(super) struct ParkingLotKeys<'a> in "parking_lot" {
        hops: Option<u64> = readers::integer(1..=MAX_BOTTLENECKS),
            absent "the number of bottlenecks", "number of bottlenecks, 1 to 1000";
        bottleneck: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]), absent,
            "settings of every bottleneck";
        bottlenecks: Option<Vec<Section<'a>>> = readers::tables(&[LinkKeys::KEYS], unnamed),
            absent, "one table per bottleneck, which overrides `bottleneck`";
        reverse_bottleneck: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]),
            absent "mirror without loss", "every bottleneck in the direction of acknowledgments";
        access: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]), absent,
            "first and last hop of every flow";
    }
}

/// A row of bottlenecks, with the first and last hops.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    section: Section<'a>,
    traces: &'a Traces,
    access: Option<LinkFields>,
    /// Bottlenecks in the direction of data, and the ways back.
    bottlenecks: Vec<(LinkId, LinkId)>,
    parking_lot: bool,
}

impl<'a> Chain<'a> {
    pub(super) fn dumbbell(
        section: Section<'a>,
        traces: &'a Traces,
        links: &mut Links<'_>,
    ) -> Result<Self> {
        let keys = DumbbellKeys::read(&section)?;
        let bottleneck = LinkFields::read(&keys.bottleneck, traces)?;
        let reverse = read(keys.reverse_bottleneck.as_ref(), traces)?;
        let each = [("bottleneck".to_owned(), bottleneck)];
        Ok(Chain {
            bottlenecks: pairs(&each, reverse.as_ref(), links)?,
            access: read(keys.access.as_ref(), traces)?,
            section,
            traces,
            parking_lot: false,
        })
    }

    pub(super) fn parking_lot(
        section: Section<'a>,
        traces: &'a Traces,
        links: &mut Links<'_>,
    ) -> Result<Self> {
        let keys = ParkingLotKeys::read(&section)?;
        let base = read(keys.bottleneck.as_ref(), traces)?
            .unwrap_or_else(|| LinkFields::empty(section.spot()));
        let each = keys.bottlenecks.unwrap_or_default();
        let each: Vec<LinkFields> =
            each.iter().map(|table| LinkFields::read(table, traces)).collect::<Result<_>>()?;
        let hops = match (keys.hops.map(|hops| hops as usize), each.len()) {
            (Some(hops), given) if given != 0 && given != hops => {
                return Err(section.error_at("hops", format!("`bottlenecks` has {given} tables")));
            }
            (Some(hops), _) => hops,
            (None, 0) => return Err(section.missing("hops", "hops = 3")),
            (None, given) if given as u64 > MAX_BOTTLENECKS => {
                return Err(section.error(format!("more than {MAX_BOTTLENECKS} bottlenecks")));
            }
            (None, given) => given,
        };
        let named = |hop| (format!("bottleneck-{hop}"), base.with(each.get(hop)));
        let each: Vec<_> = (0..hops).map(named).collect();
        let reverse = read(keys.reverse_bottleneck.as_ref(), traces)?;
        Ok(Chain {
            bottlenecks: pairs(&each, reverse.as_ref(), links)?,
            access: read(keys.access.as_ref(), traces)?,
            section,
            traces,
            parking_lot: true,
        })
    }

    /// Number of links of the longest route, in both directions.
    pub(super) fn longest_route(&self) -> usize {
        2 * (self.bottlenecks.len() + 2)
    }

    /// A route for each flow of a group; adds the links of its hops.
    pub(super) fn routes(&self, group: &Group<'_>, links: &mut Links<'_>) -> Result<Vec<Route>> {
        let keys = RouteKeys::read(&group.section)?;
        let hops = self.hops(&group.section, &keys)?;
        let upload = keys.upload;
        // The routers at which the data enters and leaves the bottlenecks.
        let (start, end) = (*hops.start(), *hops.end() + 1);
        let (enters, leaves) = if upload { (end, start) } else { (start, end) };
        let bottlenecks = &self.bottlenecks[hops];
        let (own, reverse) = (keys.first_hop.as_ref(), keys.first_hop_reverse.as_ref());
        let first = self.hop("first-hop", own, reverse, group.count)?;
        let (own, reverse) = (keys.last_hop.as_ref(), keys.last_hop_reverse.as_ref());
        let last = self.hop("last-hop", own, reverse, group.count)?;
        let acknowledged = group.ack_size().is_some();
        let mut first = HopLinks { hop: first, made: None, router: enters, is_first: true };
        let mut last = HopLinks { hop: last, made: None, router: leaves, is_first: false };
        let there = bottlenecks.iter().map(|&(there, _)| there);
        let back = bottlenecks.iter().rev().map(|&(_, back)| back);
        let (there, back): (Vec<LinkId>, Vec<LinkId>) = if upload {
            (back.collect(), there.collect())
        } else {
            (there.collect(), back.collect())
        };
        let bottleneck = links.slowest(&there);
        let route = |first: LinkId, between: &[LinkId], last: LinkId| {
            let mut route = Vec::with_capacity(between.len() + 2);
            route.push(first);
            route.extend_from_slice(between);
            route.push(last);
            route
        };
        let mut routes = Vec::with_capacity(group.count);
        for number in 1..=group.count {
            let (first, first_back) = first.links(group.name, number, acknowledged, links)?;
            let (last, last_back) = last.links(group.name, number, acknowledged, links)?;
            let reverse = match (first_back, last_back) {
                (Some(first), Some(last)) => route(last, &back, first),
                _ => Vec::new(),
            };
            let forward = route(first, &there, last);
            routes.push(Route { bottleneck, has_hops: true, forward, reverse });
        }
        Ok(routes)
    }

    /// The first or last hop of a group of `count` flows from its tables.
    fn hop(
        &self,
        name: &'static str,
        own: Option<&Section<'_>>,
        reverse: Option<&Section<'_>>,
        count: usize,
    ) -> Result<Hop> {
        let fields = read(own, self.traces)?;
        let base = match (&self.access, &fields) {
            (Some(access), _) => access.clone(),
            (None, Some(fields)) => fields.clone(),
            (None, None) => {
                return Err(self
                    .section
                    .missing("access", "access = { rate = \"5Mbit\", delay = \"20ms\" }"));
            }
        };
        let there = base.with(fields.as_ref());
        let reverse = read(reverse, self.traces)?;
        let (mut shared, mut delay_to) = (false, None);
        if let Some(section) = own {
            HopKeys { shared, delay_to } = HopKeys::read(section)?;
            if shared {
                section.forbid(&["delay_to"], "a shared hop has one delay")?;
            }
            if there.delay_changes() {
                section.forbid(&["delay_to"], "a delay that changes by itself cannot be spread")?;
            }
        }
        Ok(Hop {
            name,
            back: there.mirrored().with(reverse.as_ref()).finish()?,
            there: there.finish()?,
            shared,
            delay_to,
            count,
        })
    }

    /// The bottlenecks that a group crosses.
    fn hops(&self, section: &Section<'_>, keys: &RouteKeys<'_>) -> Result<RangeInclusive<usize>> {
        section.forbid(GRAPH_KEYS, "applies only to a general graph (`links`)")?;
        if !self.parking_lot {
            section.forbid(
                &["from", "to", "hops"],
                "does not apply to a dumbbell, which has one route",
            )?;
        }
        let last = self.bottlenecks.len() - 1;
        let number = |field: &Field<'_>| Ok(field.integer(0..=last as u64)? as usize);
        let from = keys.from.as_ref().map(number).transpose()?;
        let to = keys.to.as_ref().map(number).transpose()?;
        let Some(field) = &keys.hops else {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(last));
            if from > to {
                return Err(
                    section.error(format!("`from` ({from}) must not be greater than `to` ({to})"))
                );
            }
            return Ok(from..=to);
        };
        section.forbid(&["from", "to"], "the flows already have `hops`")?;
        let hops = field.items()?.iter().map(number).collect::<Result<Vec<_>>>()?;
        let consecutive = hops.windows(2).all(|pair| pair[1] == pair[0] + 1);
        match (hops.first(), hops.last()) {
            (Some(&from), Some(&to)) if consecutive => Ok(from..=to),
            _ => Err(field
                .error("not consecutive bottlenecks")
                .with_help("write for instance [0, 1, 2]")),
        }
    }
}

/// Reads the settings of a table, if there is one.
fn read(section: Option<&Section<'_>>, traces: &Traces) -> Result<Option<LinkFields>> {
    section.map(|section| LinkFields::read(section, traces)).transpose()
}

/// Bottlenecks in the direction of data, and the ways back.
fn pairs(
    bottlenecks: &[(String, LinkFields)],
    reverse: Option<&LinkFields>,
    links: &mut Links<'_>,
) -> Result<Vec<(LinkId, LinkId)>> {
    let pair = |(router, (name, fields)): (usize, &(String, LinkFields))| {
        let back = fields.mirrored().with(reverse).finish()?;
        let there = links.add(name, &fields.clone().finish()?)?;
        let back = links.add(&format!("{name}-reverse"), &back)?;
        links.transmits(there, Node::Shared(router))?;
        links.transmits(back, Node::Shared(router + 1))?;
        Ok((there, back))
    };
    bottlenecks.iter().enumerate().map(pair).collect()
}

/// The first or the last hop of a group.
#[derive(Debug)]
struct Hop {
    name: &'static str,
    there: Rc<LinkPlan>,
    back: Rc<LinkPlan>,
    shared: bool,
    /// The delay of the last flow's link, if delays are spread.
    delay_to: Option<Duration>,
    count: usize,
}

impl Hop {
    /// The delays of flow `number`, forward and back.
    fn delays(&self, number: usize) -> (Duration, Duration) {
        let (there, back) = (self.there.delay, self.back.delay);
        let Some(to) = self.delay_to else { return (there, back) };
        let from = there.as_secs_f64();
        // A single flow has the mean.
        let share =
            if self.count > 1 { (number - 1) as f64 / (self.count - 1) as f64 } else { 0.5 };
        let delay = Duration::from_secs_f64(from + (to.as_secs_f64() - from) * share);
        // A reverse link with another delay keeps it.
        (delay, if back == there { delay } else { back })
    }
}

/// The name of a hop's link.
struct HopName<'a> {
    group: &'a str,
    /// The number of its flow; `None` if the flows of the group share it.
    number: Option<usize>,
    name: &'a str,
}

impl fmt::Display for HopName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.group)?;
        if let Some(number) = self.number {
            write!(f, "-{number}")?;
        }
        f.write_str("-")?;
        f.write_str(self.name)
    }
}

/// Makes the links of a hop: one pair per flow, or one pair for all flows.
#[derive(Debug)]
struct HopLinks {
    hop: Hop,
    made: Option<(LinkId, Option<LinkId>)>,
    /// The router at its end that is not the host.
    router: usize,
    /// True if the data begins at its host.
    is_first: bool,
}

impl HopLinks {
    /// The link of flow `number` and, if it is `acknowledged`, its reverse link.
    fn links(
        &mut self,
        group: &str,
        number: usize,
        acknowledged: bool,
        links: &mut Links<'_>,
    ) -> Result<(LinkId, Option<LinkId>)> {
        if let (true, Some(made)) = (self.hop.shared, self.made) {
            return Ok(made);
        }
        let Hop { name, there, back, shared, .. } = &self.hop;
        let (delay, delay_back) = self.hop.delays(number);
        let number = (!shared).then_some(number);
        let name = HopName { group, number, name };
        let forward = links.add_with_delay(format_args!("{name}"), there, delay)?;
        let reverse = if acknowledged {
            Some(links.add_with_delay(format_args!("{name}-reverse"), back, delay_back)?)
        } else {
            None
        };
        let (router, host) = (Node::Shared(self.router), Node::HostOf(forward));
        let (sends, answers) = if self.is_first { (host, router) } else { (router, host) };
        links.transmits(forward, sends)?;
        if let Some(reverse) = reverse {
            links.transmits(reverse, answers)?;
        }
        self.made = Some((forward, reverse));
        Ok((forward, reverse))
    }
}
