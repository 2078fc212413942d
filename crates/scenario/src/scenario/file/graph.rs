//! The general graph: nodes, links between them, and computed or given routes.
//!
//! A link is called `FROM->TO` unless it has a name. The reverse link of a named link is called
//! `NAME-reverse`.

use std::collections::{HashMap, HashSet};

use super::group::Group;
use super::link::{LinkFields, LinkKeys};
use super::links::{Links, Node, Route};
use super::route::RouteKeys;
use super::traces::Traces;
use crate::keys;
use crate::scenario::LinkId;
use crate::strict_toml::{Field, FileError, Result, Section, TomlType, readers, suggest};

/// Keys of flows for the shorthands only.
const CHAIN_KEYS: &[&str] =
    &["first_hop", "last_hop", "first_hop_reverse", "last_hop_reverse", "hops", "upload"];

keys! {
    /// Keys of a link of a graph, in addition to those of every link.
    pub(super) struct GraphLinkKeys<'a> in "graph_link" {
        name: Option<&'a str> = readers::name(), absent "FROM->TO", "name of the link in results";
        from: Field<'a> = readers::any(|| TomlType::Text), needed "from = \"a\"",
            "node the link leaves";
        to: Field<'a> = readers::any(|| TomlType::Text), needed "to = \"b\"",
            "node the link reaches";
        both_ways: bool = readers::flag(), or true, "whether there is a reverse link";
        reverse: Option<Section<'a>> = readers::table(&[LinkKeys::KEYS]),
            absent "mirror without loss", "the reverse link";
    }
}

type NodeId = usize;

/// Nodes and the links that leave them.
#[derive(Debug, Default)]
pub(super) struct Graph<'a> {
    names: Vec<&'a str>,
    /// For look-up only; it is never iterated, since its order is random.
    nodes: HashMap<&'a str, NodeId>,
    /// Neighbours in the order of the file.
    leaving: Vec<Vec<(NodeId, LinkId)>>,
    between: HashMap<(NodeId, NodeId), LinkId>,
}

impl<'a> Graph<'a> {
    /// The graph of `links`, between the nodes of `nodes` if the file declares them.
    pub(super) fn read(
        nodes: Option<&[Field<'a>]>,
        links: &Field<'a>,
        traces: &Traces,
        made: &mut Links<'_>,
    ) -> Result<Self> {
        let mut graph = Graph::default();
        for item in nodes.unwrap_or_default() {
            let name = item.name()?;
            if graph.nodes.contains_key(name) {
                return Err(item.error("this node appears twice"));
            }
            graph.add_node(name);
        }
        let items = links.items()?;
        if items.is_empty() {
            return Err(links.error("a graph must have at least one link"));
        }
        for item in items {
            graph.add_link(item.section()?, nodes.is_some(), traces, made)?;
        }
        Ok(graph)
    }

    fn add_node(&mut self, name: &'a str) -> NodeId {
        self.nodes.insert(name, self.names.len());
        self.names.push(name);
        self.leaving.push(Vec::new());
        self.names.len() - 1
    }

    fn add_link(
        &mut self,
        section: Section<'a>,
        declared: bool,
        traces: &Traces,
        links: &mut Links<'_>,
    ) -> Result<()> {
        let keys = GraphLinkKeys::read(&section)?;
        let mut end = |field: &Field<'a>| {
            let name = field.name()?;
            match self.nodes.get(name) {
                Some(&node) => Ok((node, name)),
                None if declared => Err(self.no_node(field, name)),
                None => Ok((self.add_node(name), name)),
            }
        };
        let (from, from_name) = end(&keys.from)?;
        let (to, to_name) = end(&keys.to)?;
        let own_name = keys.name;
        let name = own_name.map_or_else(|| format!("{from_name}->{to_name}"), str::to_owned);
        let section = section.named(format!("links.{name}"));
        if from == to {
            return Err(section.error("`from` and `to` are the same node"));
        }
        let there = LinkFields::read(&section, traces)?;
        let reverse = keys.reverse.map(|table| table.named(format!("links.{name}.reverse")));
        let reverse = reverse.map(|table| LinkFields::read(&table, traces)).transpose()?;
        if keys.both_ways {
            let back = there.mirrored().with(reverse.as_ref()).finish()?;
            let there = there.finish()?;
            let back_name = match own_name {
                Some(name) => format!("{name}-reverse"),
                None => format!("{to_name}->{from_name}"),
            };
            let (there, back) = (links.add(&name, &there)?, links.add(&back_name, &back)?);
            links.transmits(there, Node::Shared(from))?;
            links.transmits(back, Node::Shared(to))?;
            self.connect(&section, from, to, there)?;
            self.connect(&section, to, from, back)
        } else {
            section.forbid(&["reverse"], "there is no reverse link with `both_ways = false`")?;
            let there = links.add(&name, &there.finish()?)?;
            links.transmits(there, Node::Shared(from))?;
            self.connect(&section, from, to, there)
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
                .error(format!("there is already a link from `{from}` to `{to}`"))
                .with_help(
                    "links go both ways unless `both_ways = false`; `reverse = {..}` describes \
                     the way back",
                ));
        }
        self.leaving[from].push((to, link));
        Ok(())
    }

    /// The route of the flows of a group, which all share it.
    pub(super) fn route(&self, group: &Group<'_>, links: &Links<'_>) -> Result<Route> {
        let section = &group.section;
        section.forbid(CHAIN_KEYS, "applies only to a dumbbell or a parking lot")?;
        let keys = RouteKeys::read(section)?;
        let node = |field: &Option<Field<'_>>, key, example| match field {
            Some(field) => self.node(field),
            None => Err(section.missing(key, example)),
        };
        let from = node(&keys.from, "from", "from = \"a\"")?;
        let to = node(&keys.to, "to", "to = \"b\"")?;
        if from == to {
            return Err(section.error("`from` and `to` of the flows are the same node"));
        }
        let path = match &keys.path {
            Some(field) => self.given(field, from, to)?,
            None => {
                self.shortest(from, to, links).ok_or_else(|| self.no_route(section, from, to))?
            }
        };
        let reverse = if group.ack_size().is_none() {
            Vec::new()
        } else if let Some(field) = &keys.ack_path {
            let path = self.given(field, to, from)?;
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

    /// The path with the fewest links and, among those, the least delay. The order of the file
    /// decides ties.
    fn shortest(&self, from: NodeId, to: NodeId, links: &Links<'_>) -> Option<Vec<NodeId>> {
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

    /// A path that the file gives, from `from` to `to`.
    fn given(&self, field: &Field<'_>, from: NodeId, to: NodeId) -> Result<Vec<NodeId>> {
        let items = field.items()?;
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
                    .with_help("a route crosses each link at most once"));
            }
            if !self.between.contains_key(&(pair[0], pair[1])) {
                let to = self.names[pair[1]];
                let neighbours = self.leaving[pair[0]].iter().map(|&(node, _)| self.names[node]);
                return Err(item
                    .error(format!("no link leads from here to `{to}`"))
                    .with_help(suggest(to, neighbours)));
            }
        }
        Ok(path)
    }

    fn links_of(&self, path: &[NodeId]) -> Option<Vec<LinkId>> {
        let link = |pair: &[NodeId]| self.between.get(&(pair[0], pair[1])).copied();
        path.windows(2).map(link).collect()
    }

    fn node(&self, field: &Field<'_>) -> Result<NodeId> {
        let name = field.text()?;
        let node = self.nodes.get(name).copied();
        node.ok_or_else(|| self.no_node(field, name))
    }

    fn no_node(&self, field: &Field<'_>, name: &str) -> FileError {
        field.unknown("node", name, self.names.iter().copied())
    }

    fn no_route(&self, section: &Section<'_>, from: NodeId, to: NodeId) -> FileError {
        let (from, to) = (self.names[from], self.names[to]);
        let help = if self.leaving[self.nodes[from]].is_empty() {
            format!("no link leaves `{from}`")
        } else {
            "add a link, or remove `both_ways = false`".to_owned()
        };
        section.error(format!("no route leads from `{from}` to `{to}`")).with_help(help)
    }
}
