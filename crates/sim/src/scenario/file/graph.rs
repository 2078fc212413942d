//! The general graph: nodes, links between them, and routes that are found or given.
//!
//! A link is called `FROM->TO` unless it has a name; the link back of a named link is called
//! `NAME-reverse`.

use std::collections::{HashMap, HashSet};

use super::build::{Links, Route};
use super::group::Group;
use super::link::LinkFields;
use super::section::{Field, Result, Section};
use crate::scenario::LinkId;

/// Keys of flows that mean something in the shorthands only.
const CHAIN_KEYS: &[&str] =
    &["first_hop", "last_hop", "first_hop_reverse", "last_hop_reverse", "hops", "upload"];

type NodeId = usize;

/// Nodes and the links that leave them.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    names: Vec<&'a str>,
    /// For look-up only, never iterated: its order is random.
    nodes: HashMap<&'a str, NodeId>,
    /// Neighbours in the order of the file.
    leaving: Vec<Vec<(NodeId, LinkId)>>,
    between: HashMap<(NodeId, NodeId), LinkId>,
}

impl<'a> Graph<'a> {
    pub(super) fn read(root: &Section<'a>, field: &Field<'a>, links: &mut Links) -> Result<Self> {
        let mut graph = Graph::default();
        let declared = root.read("nodes", |field| {
            for item in field.items()? {
                let name = item.clone().name()?;
                if graph.nodes.contains_key(name) {
                    return Err(item.error("the node is already there"));
                }
                graph.add_node(name);
            }
            Ok(())
        })?;
        let items = field.clone().items()?;
        if items.is_empty() {
            return Err(field.error("a graph has at least one link"));
        }
        for item in items {
            graph.add_link(item.section()?, declared.is_some(), links)?;
        }
        Ok(graph)
    }

    fn add_node(&mut self, name: &'a str) -> NodeId {
        self.nodes.insert(name, self.names.len());
        self.names.push(name);
        self.leaving.push(Vec::new());
        self.names.len() - 1
    }

    fn add_link(&mut self, section: Section<'a>, declared: bool, links: &mut Links) -> Result<()> {
        let mut end = |key, example| {
            let field = section.require(key, example, Ok)?;
            let name = field.clone().name()?;
            match self.nodes.get(name) {
                Some(&node) => Ok((node, name)),
                None if declared => Err(self.no_node(&field, name)),
                None => Ok((self.add_node(name), name)),
            }
        };
        let (from, from_name) = end("from", "from = \"a\"")?;
        let (to, to_name) = end("to", "to = \"b\"")?;
        let own_name = section.read("name", Field::name)?;
        let name = own_name.map_or_else(|| format!("{from_name}->{to_name}"), str::to_owned);
        let section = section.named(format!("links.{name}"));
        if from == to {
            return Err(section.error("the link leads back to where it begins"));
        }
        let there = LinkFields::read(&section)?;
        let reverse = LinkFields::under(&section, "reverse")?;
        let both_ways = section.read("both_ways", Field::bool)?.unwrap_or(true);
        if both_ways {
            let back = there.mirrored().with(reverse.as_ref()).finish()?;
            let there = there.finish()?;
            let back_name = match own_name {
                Some(name) => format!("{name}-reverse"),
                None => format!("{to_name}->{from_name}"),
            };
            self.connect(&section, from, to, links.add(&name, &there)?)?;
            self.connect(&section, to, from, links.add(&back_name, &back)?)
        } else {
            section.forbid(&["reverse"], "`both_ways = false` leaves no link back")?;
            self.connect(&section, from, to, links.add(&name, &there.finish()?)?)
        }
    }

    fn connect(
        &mut self,
        section: &Section<'_>,
        from: NodeId,
        to: NodeId,
        link: LinkId,
    ) -> Result<()> {
        if self.between.insert((from, to), link).is_some() {
            let (from, to) = (self.names[from], self.names[to]);
            return Err(section
                .error(format!("there already is a link from `{from}` to `{to}`"))
                .with_help(
                    "links go both ways unless `both_ways = false`; `reverse = {..}` describes \
                     the way back",
                ));
        }
        self.leaving[from].push((to, link));
        Ok(())
    }

    /// The route of the flows of a group: all take the same.
    pub(super) fn route(&self, group: &Group<'_>, links: &Links) -> Result<Route> {
        let section = &group.section;
        section.forbid(CHAIN_KEYS, "only a dumbbell or a parking lot has hops")?;
        let node = |key, example| -> Result<NodeId> {
            section.require(key, example, |field| self.node(&field))
        };
        let (from, to) = (node("from", "from = \"a\"")?, node("to", "to = \"b\"")?);
        if from == to {
            return Err(section.error("the flows end where they begin"));
        }
        let path = match section.get("path") {
            Some(field) => self.given(&field, from, to)?,
            None => {
                self.shortest(from, to, links).ok_or_else(|| self.no_route(section, from, to))?
            }
        };
        let reverse = if group.ack_size().is_none() {
            Vec::new()
        } else if let Some(field) = section.get("ack_path") {
            let path = self.given(&field, to, from)?;
            self.links_of(&path).unwrap_or_default()
        } else {
            let back: Vec<NodeId> = path.iter().rev().copied().collect();
            let back = self.links_of(&back).or_else(|| {
                let path = self.shortest(to, from, links)?;
                self.links_of(&path)
            });
            back.ok_or_else(|| self.no_route(section, to, from))?
        };
        let forward = self.links_of(&path).unwrap_or_default();
        Ok(Route { bottleneck: links.slowest(&forward), has_hops: false, forward, reverse })
    }

    /// The path with the fewest links and, among those, the least delay; the file's order
    /// decides between equals.
    fn shortest(&self, from: NodeId, to: NodeId, links: &Links) -> Option<Vec<NodeId>> {
        // Breadth first: the delay of a node is final once the layer before it is done.
        let mut reached: Vec<Option<(usize, u64, NodeId)>> = vec![None; self.names.len()];
        reached[from] = Some((0, 0, from));
        let mut layer = vec![from];
        while !layer.is_empty() && reached[to].is_none() {
            let mut next = Vec::new();
            for node in layer {
                let Some((hops, delay, _)) = reached[node] else {
                    continue;
                };
                for &(neighbour, link) in &self.leaving[node] {
                    let delay = delay.saturating_add(links.wire(link).delay.as_ps());
                    match reached[neighbour] {
                        None => next.push(neighbour),
                        Some((other_hops, other_delay, _))
                            if other_hops == hops + 1 && delay < other_delay => {}
                        Some(_) => continue,
                    }
                    reached[neighbour] = Some((hops + 1, delay, node));
                }
            }
            layer = next;
        }
        let mut path = vec![to];
        while let Some(&node) = path.last().filter(|&&node| node != from) {
            path.push(reached[node]?.2);
        }
        path.reverse();
        Some(path)
    }

    /// A path that the file spells out, from `from` to `to`.
    fn given(&self, field: &Field<'_>, from: NodeId, to: NodeId) -> Result<Vec<NodeId>> {
        let items = field.clone().items()?;
        let path = items.iter().map(|item| self.node(item)).collect::<Result<Vec<_>>>()?;
        if path.first() != Some(&from) || path.last() != Some(&to) {
            let (from, to) = (self.names[from], self.names[to]);
            return Err(field.error(format!("the path must lead from `{from}` to `{to}`")));
        }
        let mut crossed = HashSet::new();
        for (pair, item) in path.windows(2).zip(&items) {
            if !crossed.insert((pair[0], pair[1])) {
                let (a, b) = (self.names[pair[0]], self.names[pair[1]]);
                return Err(item
                    .error(format!("the path crosses the link from `{a}` to `{b}` twice"))
                    .with_help("a route crosses each link once at most"));
            }
            if !self.between.contains_key(&(pair[0], pair[1])) {
                let to = self.names[pair[1]];
                let neighbours = self.leaving[pair[0]].iter().map(|&(node, _)| self.names[node]);
                return Err(item
                    .error(format!("no link leads from here to `{to}`"))
                    .with_help(super::error::suggest(to, neighbours)));
            }
        }
        Ok(path)
    }

    fn links_of(&self, path: &[NodeId]) -> Option<Vec<LinkId>> {
        let link = |pair: &[NodeId]| self.between.get(&(pair[0], pair[1])).copied();
        path.windows(2).map(link).collect()
    }

    fn node(&self, field: &Field<'_>) -> Result<NodeId> {
        let name = field.clone().text()?;
        let node = self.nodes.get(name).copied();
        node.ok_or_else(|| self.no_node(field, name))
    }

    fn no_node(&self, field: &Field<'_>, name: &str) -> super::ScenarioError {
        field.unknown("node", name, self.names.iter().copied())
    }

    fn no_route(&self, section: &Section<'_>, from: NodeId, to: NodeId) -> super::ScenarioError {
        let (from, to) = (self.names[from], self.names[to]);
        let help = if self.leaving[self.nodes[from]].is_empty() {
            format!("no link leaves `{from}`")
        } else {
            "add a link, or leave out `both_ways = false`".to_owned()
        };
        section.error(format!("no route leads from `{from}` to `{to}`")).with_help(help)
    }
}
