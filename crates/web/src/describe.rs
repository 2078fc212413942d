//! Facts of a scenario that are known before a run.

use serde::Serialize;
use windward_core::network::QueueLimit;
use windward_sim::Scenario;
use windward_sim::scenario::{FlowConfig, Traffic};

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
    /// Round-trip time with empty queues, seconds.
    rtt_s: f64,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Self {
        let link = |link: &'a windward_sim::scenario::LinkConfig| LinkFacts {
            name: link.name.as_str(),
            rate_bps: link.kind.rate.mean().as_bps() as f64,
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
            Some(GroupFacts::new(scenario, name, first, 1 + own.count()))
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
    fn new(scenario: &Scenario, name: &'a str, flow: &'a FlowConfig, flows: usize) -> Self {
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
            rtt_s: rtt.as_secs_f64(),
        }
    }
}
