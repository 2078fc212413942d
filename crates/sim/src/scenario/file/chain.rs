//! The shorthands: a dumbbell, and a parking lot, which is a row of bottlenecks.
//!
//! Every flow has a first hop, crosses bottlenecks in a row, and has a last hop. Links are
//! called `bottleneck` (`bottleneck-0` and so on in a parking lot), `GROUP-N-first-hop` and
//! `GROUP-N-last-hop`, without N if the group shares the hop; links that carry
//! acknowledgments have `-reverse` after that. The data of an upload takes the bottlenecks' ways
//! back, and its acknowledgments the ways there.

use std::ops::RangeInclusive;
use std::rc::Rc;

use windward_core::units::Duration;

use super::build::{Links, Route};
use super::group::Group;
use super::link::{LinkFields, LinkPlan};
use super::section::{DAY, Field, Result, Section};
use crate::scenario::LinkId;

/// The most bottlenecks in a row.
const MAX_BOTTLENECKS: u64 = 1000;

/// Keys of flows that mean something in a general graph only.
const GRAPH_KEYS: &[&str] = &["path", "ack_path"];

/// A row of bottlenecks and what leads to and from it.
#[derive(Debug)]
pub(super) struct Chain<'a> {
    section: Section<'a>,
    access: Option<LinkFields>,
    /// Bottlenecks in the direction of data, and the ways back.
    bottlenecks: Vec<(LinkId, LinkId)>,
    parking_lot: bool,
}

impl<'a> Chain<'a> {
    pub(super) fn dumbbell(section: Section<'a>, links: &mut Links) -> Result<Self> {
        let bottleneck = LinkFields::under(&section, "bottleneck")?.ok_or_else(|| {
            section.missing("bottleneck", "bottleneck = { rate = \"5Mbit\", delay = \"20ms\" }")
        })?;
        Self::new(section, &[("bottleneck".to_owned(), bottleneck)], false, links)
    }

    pub(super) fn parking_lot(section: Section<'a>, links: &mut Links) -> Result<Self> {
        let base = LinkFields::under(&section, "bottleneck")?
            .unwrap_or_else(|| LinkFields::empty(section.spot()));
        let each = match section.read("bottlenecks", Field::items)? {
            Some(items) => items
                .into_iter()
                .map(|item| LinkFields::read(&item.section()?))
                .collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let hops = section.read("hops", |field| {
            let hops = field.clone().integer(1..=MAX_BOTTLENECKS)? as usize;
            if !each.is_empty() && each.len() != hops {
                let given = each.len();
                return Err(field.error(format!("`bottlenecks` has {given} tables")));
            }
            Ok(hops)
        })?;
        let hops = match (hops, each.len()) {
            (Some(hops), _) => hops,
            (None, 0) => return Err(section.missing("hops", "hops = 3")),
            (None, given) if given as u64 > MAX_BOTTLENECKS => {
                return Err(section.error(format!("more than {MAX_BOTTLENECKS} bottlenecks")));
            }
            (None, given) => given,
        };
        let named = |hop| (format!("bottleneck-{hop}"), base.with(each.get(hop)));
        let bottlenecks: Vec<_> = (0..hops).map(named).collect();
        Self::new(section, &bottlenecks, true, links)
    }

    fn new(
        section: Section<'a>,
        bottlenecks: &[(String, LinkFields)],
        parking_lot: bool,
        links: &mut Links,
    ) -> Result<Self> {
        let reverse = LinkFields::under(&section, "reverse_bottleneck")?;
        let mut pairs = Vec::new();
        for (name, fields) in bottlenecks {
            let back = fields.mirrored().with(reverse.as_ref()).finish()?;
            let there = fields.clone().finish()?;
            pairs.push((links.add(name, &there)?, links.add(&format!("{name}-reverse"), &back)?));
        }
        Ok(Chain {
            access: LinkFields::under(&section, "access")?,
            section,
            bottlenecks: pairs,
            parking_lot,
        })
    }

    /// Links of the longest route, there and back.
    pub(super) fn longest_route(&self) -> usize {
        2 * (self.bottlenecks.len() + 2)
    }

    /// A route for each flow of a group, with the links that are its own.
    pub(super) fn routes(&self, group: &Group<'_>, links: &mut Links) -> Result<Vec<Route>> {
        let hops = self.hops(&group.section)?;
        let bottlenecks = &self.bottlenecks[hops];
        let upload = group.section.read("upload", Field::bool)?.unwrap_or(false);
        let first = self.hop(group, "first_hop")?;
        let last = self.hop(group, "last_hop")?;
        let acknowledged = group.ack_size().is_some();
        let (mut first, mut last) = (HopLinks::new(first), HopLinks::new(last));
        let mut routes = Vec::with_capacity(group.count);
        for number in 1..=group.count {
            let (first, first_back) = first.links(group.name, number, acknowledged, links)?;
            let (last, last_back) = last.links(group.name, number, acknowledged, links)?;
            let there = bottlenecks.iter().map(|&(there, _)| there).collect();
            let back = bottlenecks.iter().rev().map(|&(_, back)| back).collect();
            let (there, back): (Vec<LinkId>, Vec<LinkId>) =
                if upload { (back, there) } else { (there, back) };
            let forward: Vec<LinkId> = [first].into_iter().chain(there).chain([last]).collect();
            let reverse = match (first_back, last_back) {
                (Some(first), Some(last)) => {
                    [last].into_iter().chain(back).chain([first]).collect()
                }
                _ => Vec::new(),
            };
            let crossed = &forward[1..forward.len() - 1];
            let bottleneck = links.slowest(crossed);
            routes.push(Route { bottleneck, has_hops: true, forward, reverse });
        }
        Ok(routes)
    }

    /// What a group says about its first or last hop.
    fn hop(&self, group: &Group<'_>, key: &'static str) -> Result<Hop> {
        let own = LinkFields::under(&group.section, key)?;
        let base = match (&self.access, &own) {
            (Some(access), _) => access.clone(),
            (None, Some(own)) => own.clone(),
            (None, None) => {
                return Err(self
                    .section
                    .missing("access", "access = { rate = \"5Mbit\", delay = \"20ms\" }"));
            }
        };
        let there = base.with(own.as_ref());
        let reverse = LinkFields::under(&group.section, &format!("{key}_reverse"))?;
        let (mut shared, mut delay_to) = (false, None);
        if let Some(section) = group.section.read(key, Field::section)? {
            shared = section.read("shared", Field::bool)?.unwrap_or(false);
            delay_to = section.read("delay_to", |field| field.duration(Duration::ZERO..=DAY))?;
            if shared {
                section.forbid(&["delay_to"], "a shared hop has one delay")?;
            }
            if there.delay_changes() {
                section.forbid(&["delay_to"], "a delay that changes by itself is not spread")?;
            }
        }
        Ok(Hop {
            name: key.replace('_', "-"),
            back: there.mirrored().with(reverse.as_ref()).finish()?,
            there: there.finish()?,
            shared,
            delay_to,
            count: group.count,
        })
    }

    /// The bottlenecks that a group crosses.
    fn hops(&self, section: &Section<'_>) -> Result<RangeInclusive<usize>> {
        section.forbid(GRAPH_KEYS, "only a general graph (`links`) has paths to choose")?;
        if !self.parking_lot {
            section.forbid(&["from", "to", "hops"], "a dumbbell has one route for all")?;
        }
        let last = self.bottlenecks.len() - 1;
        let number = |field: Field<'_>| Ok(field.integer(0..=last as u64)? as usize);
        let (from, to) = (section.read("from", number)?, section.read("to", number)?);
        let Some(field) = section.get("hops") else {
            let (from, to) = (from.unwrap_or(0), to.unwrap_or(last));
            if from > to {
                return Err(section.error(format!("from ({from}) lies behind to ({to})")));
            }
            return Ok(from..=to);
        };
        section.forbid(&["from", "to"], "the flows already have `hops`")?;
        let items = field.clone().items()?;
        let hops = items.into_iter().map(number).collect::<Result<Vec<_>>>()?;
        let consecutive = hops.windows(2).all(|pair| pair[1] == pair[0] + 1);
        match (hops.first(), hops.last()) {
            (Some(&from), Some(&to)) if consecutive => Ok(from..=to),
            _ => Err(field
                .error("not consecutive bottlenecks")
                .with_help("write for instance [0, 1, 2]")),
        }
    }
}

/// The first or the last hop of a group.
#[derive(Debug)]
struct Hop {
    name: String,
    there: Rc<LinkPlan>,
    back: Rc<LinkPlan>,
    shared: bool,
    /// The delay of the last flow's link, if they are spread.
    delay_to: Option<Duration>,
    count: usize,
}

impl Hop {
    /// The delays of flow `number`, there and back.
    fn delays(&self, number: usize) -> (Duration, Duration) {
        let (there, back) = (self.there.delay, self.back.delay);
        let Some(to) = self.delay_to else { return (there, back) };
        let from = there.as_secs_f64();
        // A single flow has the mean.
        let share =
            if self.count > 1 { (number - 1) as f64 / (self.count - 1) as f64 } else { 0.5 };
        let delay = Duration::from_secs_f64(from + (to.as_secs_f64() - from) * share);
        // A way back with a delay of its own keeps it.
        (delay, if back == there { delay } else { back })
    }
}

/// Makes the links of a hop: one pair a flow, or one pair for all.
#[derive(Debug)]
struct HopLinks {
    hop: Hop,
    made: Option<(LinkId, Option<LinkId>)>,
}

impl HopLinks {
    fn new(hop: Hop) -> Self {
        HopLinks { hop, made: None }
    }

    /// The link of flow `number` and, if it is `acknowledged`, the link back.
    fn links(
        &mut self,
        group: &str,
        number: usize,
        acknowledged: bool,
        links: &mut Links,
    ) -> Result<(LinkId, Option<LinkId>)> {
        if let (true, Some(made)) = (self.hop.shared, self.made) {
            return Ok(made);
        }
        let Hop { name, there, back, shared, .. } = &self.hop;
        let (delay, delay_back) = self.hop.delays(number);
        let name =
            if *shared { format!("{group}-{name}") } else { format!("{group}-{number}-{name}") };
        let forward = links.add_with_delay(&name, there, delay)?;
        let reverse = if acknowledged {
            Some(links.add_with_delay(&format!("{name}-reverse"), back, delay_back)?)
        } else {
            None
        };
        self.made = Some((forward, reverse));
        Ok((forward, reverse))
    }
}
