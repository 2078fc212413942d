//! From the tables of a file to a [`Scenario`].

use std::cell::LazyCell;
use std::collections::HashSet;
use std::sync::Arc;

use windward_core::endpoint::EndpointConfig;
use windward_core::units::{Duration, Rate};

use super::advice;
use super::arrivals::Plan;
use super::bounds::INSTANTS;
use super::chain::{Chain, DumbbellKeys, ParkingLotKeys};
use super::endpoint;
use super::given::Given;
use super::graph::{Graph, GraphLinkKeys};
use super::group::{Group, GroupKeys, MAX_FLOWS};
use super::link::LinkKeys;
use super::links::{Links, Route};
use super::route::RouteKeys;
use super::wlan::{self, WlanKeys};
use crate::keys;
use crate::name::{Names, NamesInMaking};
use crate::scenario::{
    FlowConfig, FlowKind, LinkId, MAX_DURATION, MAX_TRANSFERS, Scenario, Traffic,
};
use crate::strict_toml::{
    Field, FileError, Result, Section, TomlTable, TomlType, readers, suggest,
};

/// Maximum number of groups, which bounds the memory that a file can ask for.
const MAX_GROUPS: usize = 10_000;
const MAX_HOPS: usize = 40_000_000;
const MAX_BINS: u64 = 1_000_000;
const MAX_BINS_OF_ALL_GROUPS: u64 = 10_000_000;
const MAX_SAMPLES: u64 = 1_000_000;
const MAX_VALUES_OF_ALL_SAMPLES: u64 = 10_000_000;

keys! {
    /// Keys of the file.
    pub(super) struct FileKeys<'a> in "file" {
        duration: Duration = readers::positive(MAX_DURATION), needed "duration = \"100s\"",
            "length of the run, up to 2400h";
        warmup: Duration = readers::time(INSTANTS), or Duration::ZERO,
            "start of the measurement; less than duration";
        seed: u64 = readers::integer(0..=u64::MAX), or 1,
            "seed of all random streams; 0 to 2^64 - 1";
        bin: Duration = readers::positive(MAX_DURATION), or Duration::from_secs(1),
            "width of throughput bins; duration / bin at most 1000000";
        flow_bins: bool = readers::flag(), or false, "keep throughput bins of every flow too";
        sample: Option<Duration> = readers::positive(MAX_DURATION), absent,
            "interval at which windows and queues are recorded";
        idle_after: Duration = readers::positive(MAX_DURATION), or Duration::from_millis(200),
            "a longer pause of a connection at its bottleneck is an idle period";
        dumbbell: Option<Field<'a>> =
            readers::any(|| TomlType::table(&[DumbbellKeys::KEYS])), absent,
            "one bottleneck shared by all flows";
        parking_lot: Option<Field<'a>> =
            readers::any(|| TomlType::table(&[ParkingLotKeys::KEYS])), absent,
            "bottlenecks in a row";
        nodes: Option<Vec<Field<'a>>> = readers::list(TomlType::Text),
            absent "those of the links", "names of the nodes of a general graph";
        links: Option<Field<'a>> = readers::any(graph_links), absent,
            "links of a general graph";
        wlans: Vec<Section<'a>> = readers::tables(&[WlanKeys::KEYS], wlan_name), empty,
            "wireless LANs, each a medium that links share";
        endpoint: Option<Section<'a>> = readers::table(&[endpoint::KEYS]), absent,
            "defaults of every flow";
        flows: Option<Field<'a>> = readers::any(groups_of_flows), absent,
            "groups of flows with the same settings";
        #[expect(dead_code, reason = "the table of another reader")]
        experiment: Option<Field<'a>> = readers::any(|| TomlType::Foreign), absent,
            "reserved for sweeps, plots and claims";
    }
}

fn graph_links() -> TomlType {
    /// The name of a link, by default that of its ends.
    fn name(table: &TomlTable) -> Option<String> {
        let ends = || Some(format!("{}->{}", table.text("from")?, table.text("to")?));
        table.text("name").map(str::to_owned).or_else(ends)
    }
    TomlType::Tables { keys: &[GraphLinkKeys::KEYS, LinkKeys::KEYS], name_of: name }
}

fn wlan_name(table: &TomlTable) -> Option<String> {
    table.text("name").map(str::to_owned)
}

fn groups_of_flows() -> TomlType {
    TomlType::Tables {
        keys: &[GroupKeys::KEYS, RouteKeys::KEYS, endpoint::KEYS],
        name_of: |table| table.text("group").map(str::to_owned),
    }
}

/// Memory of a flow with four links of its own, from the text to the outcome, without packets,
/// bytes: a million take 2.84 GB.
const BYTES_OF_FLOW: u64 = 2800;
/// Less than any process has free, bytes: asking the system takes longer than reading a small file.
const LITTLE: u64 = 1_000_000;

/// The scenario of a file whose keys were checked.
pub(super) fn build(root: &Section<'_>, given: Given<'_>) -> Result<Scenario> {
    let keys = FileKeys::read(root)?;
    let FileKeys { duration, warmup, .. } = keys;
    if warmup >= duration {
        let message = format!("must be less than the duration, {duration}");
        return Err(root.error_at("warmup", message));
    }
    let groups = groups(root, &keys, given)?;
    let flows_binned: usize =
        groups.iter().filter(|_| keys.flow_bins).map(|group| group.count).sum();
    check_bin(root, &keys, (groups.len() + flows_binned) as u64)?;

    let mut links = Links::on(wlan::read(&keys.wlans)?);
    let routes = routes(root, &keys, given, &groups, &mut links)?;
    links.close();
    links.check_changes(duration)?;
    let kinds = links.kinds(&groups, &routes)?;

    let names = flow_names(&groups, &routes);
    let mut flows = Vec::with_capacity(names.len());
    let mut transfers = 0.0;
    for (index, (group, routes)) in groups.iter().zip(routes).enumerate() {
        let at = |route: &Route| match &group.bottleneck {
            Some(field) => measured_at(field, route, &links),
            None => Ok(route.bottleneck),
        };
        // Only nodes of a graph have names; a parking lot numbers its bottlenecks.
        let mut kind = flow_kind(group, keys.links.is_some())?;
        if let (Some(plan), Some(first)) = (&group.arrivals, routes.first()) {
            let rate = links.wire(at(first)?).rate.mean();
            transfers += arrive(&mut kind, plan, group, rate, duration)?;
            if transfers > MAX_TRANSFERS {
                return Err(plan.error(format!(
                    "more than {MAX_TRANSFERS} transfers are expected up to this group"
                )));
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
    let loss_free = links.without_losses_given();
    let (links, wlans) = links.finish(kinds);
    check_sample(root, &keys, (flows.len() + links.len()) as u64)?;
    Ok(Scenario {
        warnings: advice::warnings(&groups, &flows, &links, &loss_free, duration),
        duration,
        warmup,
        seed: keys.seed,
        bin: keys.bin,
        flow_bins: keys.flow_bins,
        sample: keys.sample,
        idle_after: keys.idle_after,
        links,
        wlans,
        flows,
        groups: groups.iter().map(|group| group.name.to_owned()).collect(),
    })
}

/// The kind of all flows of a group. Its nodes have names if `names_nodes`.
fn flow_kind(group: &Group<'_>, names_nodes: bool) -> Result<FlowKind> {
    let node = |key| group.section.value(key, &readers::name());
    let nodes = match names_nodes {
        true => node("from")?.zip(node("to")?).map(|(from, to)| [from.into(), to.into()]),
        false => None,
    };
    Ok(FlowKind { traffic: group.traffic.clone(), start: group.start, stop: group.stop, nodes })
}

/// Gives flows their arrivals at a bottleneck of this rate. Returns the transfers expected.
fn arrive(
    kind: &mut FlowKind,
    plan: &Plan,
    group: &Group<'_>,
    rate: Rate,
    duration: Duration,
) -> Result<f64> {
    let (of_each, expected) = plan.resolve(group.count, rate, group.packet_size(), duration)?;
    kind.start = (of_each.from, of_each.from);
    if let Traffic::Transport { arrivals, .. } | Traffic::Stack { arrivals, .. } = &mut kind.traffic
    {
        *arrivals = Some(of_each);
    }
    Ok(expected)
}

/// The names of all flows: the name of the group and a number.
fn flow_names(groups: &[Group<'_>], routes: &[Vec<Route>]) -> Names {
    let mut names = NamesInMaking::default();
    for (group, routes) in groups.iter().zip(routes) {
        for number in 1..=routes.len() {
            names.push(format_args!("{}-{number}", group.name));
        }
    }
    names.finish()
}

fn groups<'a>(root: &Section<'a>, keys: &FileKeys<'a>, given: Given<'_>) -> Result<Vec<Group<'a>>> {
    let common = keys.endpoint.as_ref();
    let defaults = match common {
        Some(section) => endpoint::read(EndpointConfig::default(), section)?,
        None => EndpointConfig::default(),
    };
    let Some(field) = &keys.flows else {
        return Err(root.error("there are no flows").with_help(
            "add at least `[[flows]]` with `group = \"bulk\"` and `protocol = \"newreno\"`",
        ));
    };
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("there are no flows"));
    }
    if items.len() > MAX_GROUPS {
        return Err(field.error(format!("more than {MAX_GROUPS} groups of flows")));
    }
    let mut groups = Vec::with_capacity(items.len());
    let mut names = HashSet::new();
    let memory = LazyCell::new(given.memory);
    let mut count = 0;
    for item in items {
        let group = Group::read(&item.section()?, &defaults, common, given)?;
        if !names.insert(group.name) {
            return Err(group.section.error("two groups have this name"));
        }
        count += group.count;
        let needs = count as u64 * BYTES_OF_FLOW;
        if needs > LITTLE
            && let Some(memory) = memory.filter(|memory| needs > *memory)
        {
            let mb = |bytes: u64| bytes.div_ceil(1_000_000);
            return Err(group
                .section
                .error(format!(
                    "the {count} flows up to this group need about {} MB of memory, and {} MB are \
                     free",
                    mb(needs),
                    mb(memory)
                ))
                .with_help("fewer flows, or a machine with more memory"));
        }
        if count > MAX_FLOWS {
            return Err(group
                .section
                .error(format!("more than {MAX_FLOWS} flows up to this group")));
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Checks the number of bins. `series` is the number of groups, and of flows if each has bins.
fn check_bin(root: &Section<'_>, keys: &FileKeys<'_>, series: u64) -> Result<()> {
    let FileKeys { duration, bin, .. } = keys;
    let bins = duration.as_ps().div_ceil(bin.as_ps());
    if bins <= MAX_BINS && bins.saturating_mul(series) <= MAX_BINS_OF_ALL_GROUPS {
        return Ok(());
    }
    let most = MAX_BINS.min(MAX_BINS_OF_ALL_GROUPS / series.max(1));
    let least = Duration::from_ps(duration.as_ps().div_ceil(most.max(1)));
    let message = format!("{duration} in bins of {bin} give more than {most} bins per group");
    Err(root.error_at("bin", message).with_help(format!("bin must be at least \"{least}\"")))
}

/// Checks the number of samples. `series` is the number of flows and links.
fn check_sample(root: &Section<'_>, keys: &FileKeys<'_>, series: u64) -> Result<()> {
    let FileKeys { duration, sample: Some(interval), .. } = keys else { return Ok(()) };
    let most = MAX_SAMPLES.min(MAX_VALUES_OF_ALL_SAMPLES / series.max(1)).max(2);
    // One at time zero, and one at each multiple.
    if duration.as_ps() / interval.as_ps() < most {
        return Ok(());
    }
    let least = Duration::from_ps(duration.as_ps().div_ceil(most - 1));
    let message = format!(
        "{duration} every {interval} give more than {most} samples of {series} flows and links"
    );
    let help = format!("sample must be at least \"{least}\"");
    Err(root.error_at("sample", message).with_help(help))
}

/// The routes of each group, one per flow.
fn routes<'a>(
    root: &Section<'a>,
    keys: &FileKeys<'a>,
    given: Given<'_>,
    groups: &[Group<'_>],
    links: &mut Links<'_>,
) -> Result<Vec<Vec<Route>>> {
    let present: Vec<(&str, &Field<'a>)> =
        [("dumbbell", &keys.dumbbell), ("parking_lot", &keys.parking_lot), ("links", &keys.links)]
            .into_iter()
            .filter_map(|(key, field)| Some((key, field.as_ref()?)))
            .collect();
    let (kind, field) = match present.as_slice() {
        [one] => *one,
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
        "dumbbell" => {
            Topology::Chain(Box::new(Chain::dumbbell(field.section()?, given.traces, links)?))
        }
        "parking_lot" => {
            Topology::Chain(Box::new(Chain::parking_lot(field.section()?, given.traces, links)?))
        }
        _ => Topology::Graph(Graph::read(keys.nodes.as_deref(), field, given.traces, links)?),
    };
    let mut hops = 0;
    let mut bounded = |group: &Group<'_>, count: usize, route: usize| {
        hops += count.saturating_mul(route);
        if hops <= MAX_HOPS {
            return Ok(());
        }
        let message = format!("the routes of all flows have more than {MAX_HOPS} links in total");
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
fn measured_at(field: &Field<'_>, route: &Route, links: &Links<'_>) -> Result<LinkId> {
    let name = field.text()?;
    let alias = route.aliases().find(|(alias, _)| *alias == name);
    let named = || route.forward.iter().find(|&&link| links.name(link) == name);
    alias
        .map(|(_, link)| link)
        .or_else(|| named().copied())
        .ok_or_else(|| not_on_route(field, name, route, links))
}

fn not_on_route(field: &Field<'_>, name: &str, route: &Route, links: &Links<'_>) -> FileError {
    let names = route.forward.iter().map(|&link| links.name(link));
    let aliases = route.aliases().map(|(alias, _)| alias);
    field
        .error("no link of this name is on the route of the data")
        .with_help(suggest(name, names.chain(aliases)))
}
