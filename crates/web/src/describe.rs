//! Facts of a scenario that are known before a run.

use std::sync::Arc;

use serde::Serialize;
use windward_core::network::{LinkRate, QueueLimit};
use windward_core::units::{Duration, Time};
use windward_sim::Scenario;
use windward_sim::scenario::{FlowConfig, LinkConfig, Traffic};

/// A scenario in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Facts<'a> {
    duration_s: f64,
    warmup_s: f64,
    seed: String,
    /// Estimated number of packet-hops of the run.
    predicted_packet_hops: f64,
    warnings: &'a [String],
    links: Vec<LinkFacts<'a>>,
    groups: Vec<GroupFacts<'a>>,
    /// Index of the group of each flow.
    group_of: Vec<usize>,
}

/// A directed link.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct LinkFacts<'a> {
    name: &'a str,
    rate_bps: f64,
    rates: Option<Vec<Step>>,
    delay_s: f64,
    /// Share of packets of 1500 bytes that the wire loses.
    loss: f64,
    queue_packets: Option<u32>,
    queue_bytes: Option<u64>,
}

/// A group of flows; rates and times are those of its first flow.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct GroupFacts<'a> {
    name: &'a str,
    protocol: &'a str,
    flows: usize,
    /// True for flows with a window.
    is_connection: bool,
    /// Index of the link at which its throughput is measured.
    bottleneck: usize,
    packet_size: u32,
    /// Share of its packets that the wires of its route lose.
    loss: f64,
    /// C (1 - p) of its route, if all of its flows have the same one.
    capacity: Option<Vec<Step>>,
    /// Round-trip time with empty queues, seconds.
    rtt_s: f64,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let link = |link: &'a LinkConfig| LinkFacts {
            name: link.name.as_str(),
            rate_bps: link.kind.rate.mean().as_bps() as f64,
            rates: steps(scenario.duration, |now| rate(link, now)),
            delay_s: link.delay.as_secs_f64(),
            loss: link.kind.loss_rate(1500),
            queue_packets: match link.kind.queue.limit {
                QueueLimit::Packets(packets) => Some(packets),
                QueueLimit::Bytes(_) => None,
            },
            queue_bytes: match link.kind.queue.limit {
                QueueLimit::Packets(_) => None,
                QueueLimit::Bytes(bytes) => Some(bytes),
            },
        };
        let groups = scenario.groups.iter().enumerate().filter_map(|(index, name)| {
            let mut own = scenario.flows.iter().filter(|flow| flow.group == index);
            let first = own.next()?;
            let (count, is_one_route) = own.fold((1, true), |(count, is_one), other| {
                (count + 1, is_one && has_same_route(scenario, first, other))
            });
            Some(GroupFacts::new(scenario, name, first, (count, is_one_route)))
        });
        Facts {
            duration_s: scenario.duration.as_secs_f64(),
            warmup_s: scenario.warmup.as_secs_f64(),
            seed: scenario.seed.to_string(),
            predicted_packet_hops: scenario.predicted_packet_hops(),
            warnings: &scenario.warnings,
            links: scenario.links.iter().map(link).collect(),
            groups: groups.collect(),
            group_of: scenario.flows.iter().map(|flow| flow.group).collect(),
        }
    }
}

impl<'a> GroupFacts<'a> {
    fn new(
        scenario: &Scenario,
        name: &'a str,
        flow: &'a FlowConfig,
        (flows, is_one_route): (usize, bool),
    ) -> Self {
        let traffic = &flow.kind.traffic;
        let (packet_size, ack_size) = match traffic {
            Traffic::Transport { config, .. } => (config.packet_size, config.ack_size),
            Traffic::Stack { config, .. } => (config.packet_size, 40),
            Traffic::Datagrams { .. } => (1000, 0),
        };
        let rtt = scenario.one_way(&flow.forward, packet_size)
            + scenario.one_way(&flow.reverse, ack_size);
        GroupFacts {
            name,
            protocol: traffic.protocol_name(),
            flows,
            is_connection: traffic.is_connection(),
            bottleneck: flow.bottleneck,
            packet_size,
            loss: scenario.path_loss(&flow.forward, packet_size),
            capacity: is_one_route.then(|| capacity(scenario, flow, packet_size)).flatten(),
            rtt_s: rtt.as_secs_f64(),
        }
    }
}

/// An instant in seconds, and the bits per second from then on.
type Step = (f64, f64);

/// Rates from here on are those of links that have none.
const UNLIMITED: f64 = 1e12;
/// Later than the end of any run.
const NEVER: Time = Time::from_ps(u64::MAX);
/// Longest list of steps that is told.
const MOST_STEPS: usize = 1000;

/// A rate over a run. `at` gives its value at an instant and until when it stays. `None` if it is
/// not known at some instant, is not limited, or changes too often.
fn steps(lasts: Duration, at: impl Fn(Time) -> Option<(f64, Time)>) -> Option<Vec<Step>> {
    let (mut steps, mut now, end) = (Vec::new(), Time::ZERO, Time::ZERO + lasts);
    while now < end {
        let (bps, until) = at(now)?;
        if steps.len() == MOST_STEPS || bps >= UNLIMITED {
            return None;
        }
        steps.push((now.as_secs_f64(), bps));
        now = until;
    }
    Some(steps)
}

/// The rate of a link, and until when it does not change. `None` for a trace and a cell, and on a
/// medium, where it depends on others.
fn rate(link: &LinkConfig, now: Time) -> Option<(f64, Time)> {
    let (rate, until) = match (&link.kind.rate, link.station) {
        (LinkRate::Constant(rate), None) => (*rate, NEVER),
        (LinkRate::Schedule(steps), None) => steps.segment(now),
        _ => return None,
    };
    Some((rate.as_bps() as f64, until))
}

/// C (1 - p): what the route delivers of packets of that size at most. It is the least, over its
/// links, of the rate times the share that this link and those behind it do not lose.
fn capacity(scenario: &Scenario, flow: &FlowConfig, size: u32) -> Option<Vec<Step>> {
    let known = steps(scenario.duration, |now| {
        let (mut least, mut passes, mut until) = (f64::INFINITY, 1.0, NEVER);
        for link in flow.forward.iter().rev().map(|link| &scenario.links[*link]) {
            let (bps, changes) = rate(link, now)?;
            passes *= 1.0 - link.kind.loss_rate(size);
            least = least.min(bps * passes);
            until = until.min(changes);
        }
        Some((least, until))
    });
    known.filter(|steps| !steps.is_empty())
}

/// True if packets of both flows cross the same links, or links with the same settings.
fn has_same_route(scenario: &Scenario, one: &FlowConfig, other: &FlowConfig) -> bool {
    let kind = |link: usize| &scenario.links[link].kind;
    one.forward.len() == other.forward.len()
        && one
            .forward
            .iter()
            .zip(&other.forward)
            .all(|(a, b)| a == b || Arc::ptr_eq(kind(*a), kind(*b)))
}
