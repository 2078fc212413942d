//! Partition of a scenario: the nodes that each thread of a run on several cores owns.
//!
//! The topology is cut at links with a delay. A packet that leaves on such a link has no effect at
//! its far end before the delay has passed, so the threads may be apart by that much virtual time,
//! the lookahead (Chandy and Misra 1979). Nodes that no such link separates stay together, and so
//! do those of a flow whose ends know of each other without packets: live video, whose encoder
//! counts losses, and flows on a path with a notifier.
//!
//! The choice weighs the greatest load of a thread, the packets that cross, and the exchanges
//! between threads, one in each lookahead. It decides only the speed: the outcome is the same.

use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::fmt;

use windward_core::network::NotifierConfig;
use windward_core::units::Duration;

use crate::scenario::{FlowConfig, LinkConfig, LinkId, Pattern, Scenario, Traffic};

/// Maximum number of threads of one run.
pub const MAX_THREADS: usize = 64;

/// Work of a sender and of a receiver for a packet, in packet-hops: in a dumbbell of 10,000 flows
/// the half with the senders takes twice the time of the other, and both have three links.
const SENDER: f64 = 5.0;
const RECEIVER: f64 = 1.0;
/// Work for a packet that crosses a cut, and for an exchange between threads, in packet-hops.
const CROSSING: f64 = 2.0;
const EXCHANGE: f64 = 100.0;
/// Number of links above which the state is larger than the inner caches.
pub(crate) const MANY_LINKS: usize = 4096;
/// Least predicted packet-hops of a run for which threads may pay.
const LARGE: f64 = 1e7;
/// Number of lookaheads that are tried.
const TRIES: usize = 8;
/// Share by which the load of a thread may exceed its target.
const TOLERANCE: f64 = 0.05;

/// The nodes of a scenario by the thread that owns them.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// The owners of the near and of the far end of each link.
    pub(crate) ends: Vec<[u8; 2]>,
    pub(crate) lookahead: Duration,
    threads: usize,
    gain: f64,
}

/// Reason why a scenario runs on one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionError {
    /// A part or a stack is of another crate.
    Custom,
    /// No link that can be cut divides the nodes.
    Indivisible,
    /// No link has this name.
    Unknown(String),
    /// The link with this name cannot be cut.
    Uncuttable(String),
}

impl fmt::Display for PartitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionError::Custom => f.write_str("it has a stack or a part of other code"),
            PartitionError::Indivisible => f.write_str(
                "its nodes are not divided by links with a delay that have no impairments, \
                 notifiers or shared media",
            ),
            PartitionError::Unknown(name) => write!(f, "no link is named {name}"),
            PartitionError::Uncuttable(name) => write!(
                f,
                "link {name} cannot be cut: it has no delay, or it has impairments, a notifier or \
                 a shared medium"
            ),
        }
    }
}
impl std::error::Error for PartitionError {}

impl Partition {
    /// The partition for up to that many threads, at most [`MAX_THREADS`], that promises the
    /// shortest run.
    ///
    /// `cut` names the links that are cut, `from->to`, each with its opposite; if it is empty, they
    /// are chosen.
    ///
    /// # Errors
    /// The reason why the scenario runs on one thread.
    pub fn new(
        scenario: &Scenario,
        threads: usize,
        cut: &[String],
    ) -> Result<Self, PartitionError> {
        if scenario.parts().are_custom() {
            return Err(PartitionError::Custom);
        }
        let mut graph = Graph::new(scenario);
        if !cut.is_empty() {
            graph.cut_only(scenario, cut)?;
        }
        let mut lookaheads = graph.lookaheads();
        if !cut.is_empty() {
            lookaheads.truncate(1); // The shortest: all named links are cut.
        }
        let threads = threads.min(MAX_THREADS);
        let total: f64 = graph.loads.iter().sum();
        let costs = lookaheads.into_iter().filter_map(|lookahead| {
            let owners = graph.divide(lookahead, threads)?;
            Some((graph.cost(&owners, lookahead, scenario.duration), lookahead, owners))
        });
        let (cost, lookahead, owners) =
            costs.min_by(|a, b| a.0.total_cmp(&b.0)).ok_or(PartitionError::Indivisible)?;
        Ok(Partition {
            ends: graph.edges.iter().map(|edge| edge.nodes.map(|n| owners[n as usize])).collect(),
            lookahead,
            threads: owners.iter().max().map_or(1, |last| usize::from(*last) + 1),
            gain: total / cost.max(1.0),
        })
    }

    /// True if a scenario is so large that a division of it may pay: a core no longer holds the
    /// state of all flows in its cache, and the run takes about a second.
    pub fn may_pay(scenario: &Scenario) -> bool {
        scenario.links.len() >= MANY_LINKS && scenario.predicted_packet_hops() >= LARGE
    }

    /// Number of threads, at least 2.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Predicted time on one thread over that on all.
    pub fn gain(&self) -> f64 {
        self.gain
    }

    /// Indices of the links that are cut.
    pub fn cut(&self) -> impl Iterator<Item = LinkId> {
        let ends = self.ends.iter().enumerate();
        ends.filter(|(_, [near, far])| near != far).map(|(link, _)| link)
    }
}

/// A link between two nodes.
#[derive(Debug, Clone, Copy)]
struct Edge {
    nodes: [u32; 2],
    delay: Duration,
    /// Predicted number of packets.
    packets: f64,
    is_cuttable: bool,
}

/// The nodes that flows and shared media imply, with predicted loads in packet-hops.
#[derive(Debug)]
struct Graph {
    loads: Vec<f64>,
    /// By link.
    edges: Vec<Edge>,
}

impl Graph {
    fn new(scenario: &Scenario) -> Self {
        let Scenario { links, flows, .. } = scenario;
        let (near, far) = (|link: LinkId| 2 * link as u32, |link: LinkId| 2 * link as u32 + 1);
        let mut ends = Sets::new(2 * links.len());
        let mut of_medium: HashMap<u32, u32> = HashMap::new();
        for (link, config) in links.iter().enumerate() {
            if let Some(station) = config.station {
                let first = *of_medium.entry(station.wlan).or_insert(near(link));
                ends.join(first, near(link));
            }
        }
        for flow in flows {
            let FlowConfig { forward, reverse, .. } = flow;
            let (Some(first), Some(last)) = (forward.first(), forward.last()) else { continue };
            for way in [forward, reverse] {
                for pair in way.windows(2) {
                    ends.join(far(pair[0]), near(pair[1]));
                }
            }
            if let (Some(back), Some(home)) = (reverse.first(), reverse.last()) {
                ends.join(far(*last), near(*back));
                ends.join(far(*home), near(*first));
            }
            // Links have no nodes of their own: the way back is taken for the way there.
            if forward.len() == reverse.len() {
                for (there, back) in forward.iter().zip(reverse.iter().rev()) {
                    ends.join(far(*there), near(*back));
                }
            }
            if stays_together(flow, links) {
                for link in forward.iter().chain(reverse) {
                    ends.join(near(*first), near(*link));
                    ends.join(near(*first), far(*link));
                }
            }
        }
        let (nodes, count) = ends.numbered();
        let node = |end: u32| nodes[end as usize];
        let mut edges: Vec<Edge> = links
            .iter()
            .enumerate()
            .map(|(link, config)| Edge {
                nodes: [node(near(link)), node(far(link))],
                delay: config.delay,
                packets: 0.0,
                is_cuttable: can_be_cut(config),
            })
            .collect();
        let mut loads = vec![0.0; count];
        for (flow, packets) in flows.iter().zip(scenario.predicted_packets()) {
            let FlowConfig { forward, reverse, .. } = flow;
            for link in forward.iter().chain(reverse) {
                edges[*link].packets += packets;
            }
            if let (Some(first), Some(last)) = (forward.first(), forward.last()) {
                loads[node(near(*first)) as usize] += SENDER * packets;
                loads[node(far(*last)) as usize] += RECEIVER * packets;
            }
        }
        for edge in &edges {
            loads[edge.nodes[0] as usize] += edge.packets;
        }
        Graph { loads, edges }
    }

    /// Lets only the links with these names, and those between the same nodes, be cut.
    fn cut_only(&mut self, scenario: &Scenario, names: &[String]) -> Result<(), PartitionError> {
        let mut between = BTreeSet::new();
        for name in names {
            let link = scenario.links.iter().position(|link| &*link.name == name);
            let link = link.ok_or_else(|| PartitionError::Unknown(name.clone()))?;
            let Edge { nodes: [a, b], is_cuttable, .. } = self.edges[link];
            if !is_cuttable || a == b {
                return Err(PartitionError::Uncuttable(name.clone()));
            }
            between.insert((a.min(b), a.max(b)));
        }
        for edge in &mut self.edges {
            let [a, b] = edge.nodes;
            edge.is_cuttable &= between.contains(&(a.min(b), a.max(b)));
        }
        Ok(())
    }

    /// The lookaheads to be tried: delays of links, spread over all that there are, the shortest
    /// first.
    fn lookaheads(&self) -> Vec<Duration> {
        let cuttable = self.edges.iter().filter(|edge| edge.is_cuttable);
        let all: Vec<Duration> =
            cuttable.map(|edge| edge.delay).collect::<BTreeSet<_>>().into_iter().collect();
        let steps = TRIES.min(all.len());
        (0..steps).map(|i| all[i * (all.len() - 1) / (steps - 1).max(1)]).collect()
    }

    /// The owner of each node if links with less than this delay are not cut; `None` if all nodes
    /// stay together.
    fn divide(&self, lookahead: Duration, threads: usize) -> Option<Vec<u8>> {
        let mut sets = Sets::new(self.loads.len());
        for Edge { nodes: [a, b], delay, is_cuttable, .. } in &self.edges {
            if !is_cuttable || *delay < lookahead {
                sets.join(*a, *b);
            }
        }
        let (cluster, count) = sets.numbered();
        let mut clusters = Clusters::new(self, &cluster, count);
        let mean = clusters.loads.iter().sum::<f64>() / threads as f64;
        clusters.contract_leaves(mean);
        let owners = clusters.grow(threads, mean);
        let owners: Vec<u8> = cluster.iter().map(|c| owners[*c as usize]).collect();
        owners.contains(&1).then_some(owners)
    }

    /// The predicted time of a run, in packet-hops.
    fn cost(&self, owners: &[u8], lookahead: Duration, duration: Duration) -> f64 {
        let mut loads = vec![0.0; MAX_THREADS];
        for (owner, load) in owners.iter().zip(&self.loads) {
            loads[usize::from(*owner)] += load;
        }
        for Edge { nodes, packets, .. } in &self.edges {
            let [near, far] = nodes.map(|node| usize::from(owners[node as usize]));
            if near != far {
                loads[near] += CROSSING / 2.0 * packets;
                loads[far] += CROSSING / 2.0 * packets;
            }
        }
        let exchanges = duration.as_secs_f64() / lookahead.as_secs_f64();
        loads.into_iter().fold(0.0, f64::max) + EXCHANGE * exchanges
    }
}

/// True if the ends and the links of a flow know of each other without packets.
fn stays_together(flow: &FlowConfig, links: &[LinkConfig]) -> bool {
    let mut way = flow.forward.iter().chain(&flow.reverse);
    matches!(flow.kind.traffic, Traffic::Datagrams { pattern: Pattern::Media(_), .. })
        || way.any(|link| links[*link].kind.notifier != NotifierConfig::Off)
}

/// True if the far end may lag behind the near end.
fn can_be_cut(link: &LinkConfig) -> bool {
    !link.delay.is_zero()
        && link.station.is_none()
        && link.kind.notifier == NotifierConfig::Off
        && link.kind.impairments.is_empty()
}

/// Nodes that stay together, as one node, and the traffic between such clusters.
#[derive(Debug)]
struct Clusters {
    loads: Vec<f64>,
    /// By cluster, the beginning of its neighbours in the list.
    from: Vec<usize>,
    /// Each neighbour once, with the packets between both.
    neighbours: Vec<(u32, f64)>,
    /// The cluster that has taken each in; itself if none has.
    taken_by: Vec<u32>,
}

/// No thread owns the cluster yet.
const NOBODY: u8 = u8::MAX;

impl Clusters {
    fn new(graph: &Graph, cluster: &[u32], count: usize) -> Self {
        let mut loads = vec![0.0; count];
        for (cluster, load) in cluster.iter().zip(&graph.loads) {
            loads[*cluster as usize] += load;
        }
        let mut pairs = Vec::with_capacity(2 * graph.edges.len());
        for edge in &graph.edges {
            let [a, b] = edge.nodes.map(|node| cluster[node as usize]);
            if a != b {
                pairs.extend([(a, b, edge.packets), (b, a, edge.packets)]);
            }
        }
        pairs.sort_unstable_by_key(|(a, b, _)| (*a, *b));
        let mut from = Vec::with_capacity(count + 1);
        let mut neighbours = Vec::new();
        for pair in pairs.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            from.resize(pair[0].0 as usize + 1, neighbours.len());
            neighbours.push((pair[0].1, pair.iter().map(|(.., packets)| packets).sum()));
        }
        from.resize(count + 1, neighbours.len());
        Clusters { loads, from, neighbours, taken_by: (0..count as u32).collect() }
    }

    fn neighbours(&self, of: u32) -> &[(u32, f64)] {
        &self.neighbours[self.from[of as usize]..self.from[of as usize + 1]]
    }

    fn stands(&self, cluster: u32) -> bool {
        self.taken_by[cluster as usize] == cluster
    }

    /// Lets clusters with one neighbour, such as hosts, become a part of it, up to a load.
    fn contract_leaves(&mut self, most: f64) {
        let mut degrees: Vec<usize> = self.from.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let all = 0..self.loads.len() as u32;
        let mut leaves: Vec<u32> = all.filter(|c| degrees[*c as usize] == 1).rev().collect();
        while let Some(leaf) = leaves.pop() {
            let into = self.neighbours(leaf).iter().find(|(other, _)| self.stands(*other));
            let Some(&(into, _)) = into.filter(|_| self.stands(leaf)) else { continue };
            let load = self.loads[leaf as usize] + self.loads[into as usize];
            if load <= most {
                self.taken_by[leaf as usize] = into;
                self.loads[into as usize] = load;
                degrees[into as usize] -= 1;
                if degrees[into as usize] == 1 {
                    leaves.push(into);
                }
            }
        }
    }

    /// The owner of each cluster: each thread takes one at the edge and then its neighbours, those
    /// with most packets between first, until it has its share of the load.
    fn grow(&self, threads: usize, share: f64) -> Vec<u8> {
        let mut owners = vec![NOBODY; self.loads.len()];
        let mut traffic = vec![0.0; self.loads.len()];
        for thread in 0..threads as u8 {
            let is_last = usize::from(thread) + 1 == threads;
            let most = if is_last { f64::INFINITY } else { share * (1.0 + TOLERANCE) };
            let mut load = 0.0;
            let mut nearest = BinaryHeap::new();
            traffic.fill(0.0);
            let mut starts = self.far_first(&owners).into_iter();
            while load < share * (1.0 - TOLERANCE) || is_last {
                let next = nearest.pop().map(|(_, cluster)| cluster).or_else(|| starts.next());
                let Some(cluster) = next else { break };
                let more = self.loads[cluster as usize];
                if owners[cluster as usize] != NOBODY || load > 0.0 && load + more > most {
                    continue;
                }
                owners[cluster as usize] = thread;
                load += more;
                for (other, packets) in self.neighbours(cluster) {
                    if self.stands(*other) && owners[*other as usize] == NOBODY {
                        traffic[*other as usize] += packets;
                        nearest.push((traffic[*other as usize].to_bits(), *other));
                    }
                }
            }
        }
        for cluster in 0..owners.len() {
            let mut at = cluster;
            while self.taken_by[at] as usize != at {
                at = self.taken_by[at] as usize;
            }
            owners[cluster] = owners[at];
        }
        owners
    }

    /// The clusters that nobody owns, those first that are farthest from one of them.
    fn far_first(&self, owners: &[u8]) -> Vec<u32> {
        let is_free = |c: u32| self.stands(c) && owners[c as usize] == NOBODY;
        let mut seen = vec![false; self.loads.len()];
        let mut order: Vec<u32> = Vec::new();
        for first in (0..self.loads.len() as u32).filter(|c| is_free(*c)) {
            if std::mem::replace(&mut seen[first as usize], true) {
                continue;
            }
            let mut at = order.len();
            order.push(first);
            while let Some(&cluster) = order.get(at) {
                at += 1;
                for (other, _) in self.neighbours(cluster) {
                    if is_free(*other) && !std::mem::replace(&mut seen[*other as usize], true) {
                        order.push(*other);
                    }
                }
            }
        }
        order.reverse();
        order
    }
}

/// Disjoint sets of numbers.
#[derive(Debug)]
struct Sets(Vec<u32>);

impl Sets {
    /// Each number below `count` alone.
    fn new(count: usize) -> Self {
        Sets((0..count as u32).collect())
    }

    fn find(&mut self, mut x: u32) -> u32 {
        while self.0[x as usize] != x {
            let up = self.0[self.0[x as usize] as usize];
            self.0[x as usize] = up;
            x = up;
        }
        x
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        // The smaller stays, so that the order of joins does not show.
        self.0[a.max(b) as usize] = a.min(b);
    }

    /// The number of the set of each, from zero without gaps, and the number of sets.
    fn numbered(mut self) -> (Vec<u32>, usize) {
        let mut count = 0;
        let mut numbers = vec![0; self.0.len()];
        for x in 0..self.0.len() as u32 {
            let root = self.find(x);
            if root == x {
                numbers[x as usize] = count;
                count += 1;
            } else {
                numbers[x as usize] = numbers[root as usize];
            }
        }
        (numbers, count as usize)
    }
}
