//! The outcome of a run as JSON. Names and units are part of the interface: fields are added,
//! never renamed.

use serde::Serialize;
use windward_core::units::Time;
use windward_sim::{FlowOutcome, GroupOutcome, LinkOutcome, Outcome, PhaseOutcome};

/// One run.
#[derive(Debug, Serialize)]
pub(crate) struct RunRecord<'a> {
    /// Version of the program.
    windward: &'static str,
    seed: u64,
    duration_s: f64,
    warmup_s: f64,
    flows: Vec<FlowRecord<'a>>,
    groups: Vec<GroupRecord<'a>>,
    links: Vec<LinkRecord<'a>>,
    jain: f64,
    packet_hops: u64,
    events: u64,
    cpu_s: f64,
    /// Hexadecimal, since JSON's numbers are not that precise everywhere.
    fingerprint: String,
}

#[derive(Debug, Serialize)]
struct FlowRecord<'a> {
    name: &'a str,
    group: &'a str,
    protocol: &'static str,
    goodput_bps: f64,
    throughput_bps: f64,
    packets_sent: u64,
    retransmissions: u64,
    timeouts: u64,
    mean_rtt_s: f64,
    mean_cwnd_packets: f64,
    /// Absent unless a transfer of fixed size was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    completed_s: Option<f64>,
    /// Share of the packets sent that was lost, as the sender estimates it.
    loss_estimate: f64,
    true_loss: f64,
    /// Sum of the times without a packet on the bottleneck longer than `idle_after`.
    idle_s: f64,
    longest_idle_s: f64,
    idle_periods: u64,
}

#[derive(Debug, Serialize)]
struct GroupRecord<'a> {
    name: &'a str,
    flows: usize,
    goodput_bps: f64,
    throughput_bps: f64,
    packets_sent: u64,
    retransmissions: u64,
    timeouts: u64,
    /// Mean over the flows that measured one.
    mean_rtt_s: f64,
    mean_cwnd_packets: f64,
    throughput_cv: f64,
}

#[derive(Debug, Serialize)]
struct LinkRecord<'a> {
    name: &'a str,
    utilization: f64,
    arrived: u64,
    dropped: u64,
    corrupted: u64,
    delivered: u64,
    in_flight: u64,
    marked: u64,
    mean_queue_packets: f64,
    max_queue_packets: u64,
    /// Absent unless a traffic controller had a whole phase after the warm-up.
    #[serde(skip_serializing_if = "Option::is_none")]
    phases: Option<PhaseRecord>,
}

/// The phases of a traffic controller (estcp2010).
#[derive(Debug, Serialize)]
struct PhaseRecord {
    count: u64,
    mean_length_s: f64,
    mean_g_s: f64,
    /// Extremes of the queue as shares of its limit.
    queue_low: f64,
    queue_high: f64,
    cut_spread_s: f64,
    missed: u64,
    /// Absent, as `g_error`, unless a flow heard a phase out.
    #[serde(skip_serializing_if = "Option::is_none")]
    heard_g_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    g_error: Option<f64>,
    /// Absent if they never converge.
    #[serde(skip_serializing_if = "Option::is_none")]
    until_converged: Option<u64>,
}

impl<'a> RunRecord<'a> {
    pub(crate) fn new(outcome: &'a Outcome, cpu_s: f64) -> Self {
        RunRecord {
            windward: env!("CARGO_PKG_VERSION"),
            seed: outcome.seed,
            duration_s: outcome.duration.as_secs_f64(),
            warmup_s: outcome.warmup.as_secs_f64(),
            flows: outcome
                .flows
                .iter()
                .map(|flow| FlowRecord::new(flow, &outcome.groups[flow.group].name))
                .collect(),
            groups: outcome
                .groups
                .iter()
                .enumerate()
                .map(|(index, group)| GroupRecord::new(group, group_mean_rtt_s(outcome, index)))
                .collect(),
            links: outcome.links.iter().map(LinkRecord::new).collect(),
            jain: outcome.jain,
            packet_hops: outcome.packet_hops,
            events: outcome.events,
            cpu_s,
            fingerprint: fingerprint(outcome),
        }
    }
}

impl<'a> FlowRecord<'a> {
    fn new(flow: &'a FlowOutcome, group: &'a str) -> Self {
        FlowRecord {
            name: &flow.name,
            group,
            protocol: flow.protocol,
            goodput_bps: flow.goodput_bps,
            throughput_bps: flow.throughput_bps,
            packets_sent: flow.packets_sent,
            retransmissions: flow.retransmissions,
            timeouts: flow.timeouts,
            mean_rtt_s: flow.mean_rtt.as_secs_f64(),
            mean_cwnd_packets: flow.mean_cwnd,
            completed_s: flow.completed.map(Time::as_secs_f64),
            loss_estimate: flow.loss_estimate,
            true_loss: flow.true_loss,
            idle_s: flow.idle.as_secs_f64(),
            longest_idle_s: flow.longest_idle.as_secs_f64(),
            idle_periods: flow.idle_periods,
        }
    }
}

impl<'a> GroupRecord<'a> {
    fn new(group: &'a GroupOutcome, mean_rtt_s: f64) -> Self {
        GroupRecord {
            name: &group.name,
            flows: group.flows,
            goodput_bps: group.goodput_bps,
            throughput_bps: group.throughput_bps,
            packets_sent: group.packets_sent,
            retransmissions: group.retransmissions,
            timeouts: group.timeouts,
            mean_rtt_s,
            mean_cwnd_packets: group.mean_cwnd,
            throughput_cv: group.throughput_cv(),
        }
    }
}

impl<'a> LinkRecord<'a> {
    fn new(link: &'a LinkOutcome) -> Self {
        LinkRecord {
            name: &link.name,
            utilization: link.utilization,
            arrived: link.arrived,
            dropped: link.dropped,
            corrupted: link.corrupted,
            delivered: link.delivered,
            in_flight: link.in_flight,
            marked: link.marked,
            mean_queue_packets: link.mean_queue_packets,
            max_queue_packets: link.max_queue_packets,
            phases: link.phases.as_ref().map(PhaseRecord::new),
        }
    }
}

impl PhaseRecord {
    fn new(phases: &PhaseOutcome) -> Self {
        PhaseRecord {
            count: phases.count,
            mean_length_s: phases.mean_length,
            mean_g_s: phases.mean_g,
            queue_low: phases.queue_low,
            queue_high: phases.queue_high,
            cut_spread_s: phases.cut_spread,
            missed: phases.missed,
            heard_g_s: phases.heard_g,
            g_error: phases.g_error,
            until_converged: phases.until_converged,
        }
    }
}

/// The fingerprint as everything prints it.
pub(crate) fn fingerprint(outcome: &Outcome) -> String {
    format!("{:016x}", outcome.fingerprint)
}

/// Mean over the flows of a group that measured an RTT; 0 if none did.
pub(crate) fn group_mean_rtt_s(outcome: &Outcome, group: usize) -> f64 {
    let (sum, count) = outcome
        .flows
        .iter()
        .filter(|flow| flow.group == group && !flow.mean_rtt.is_zero())
        .fold((0.0, 0_u32), |(sum, count), flow| (sum + flow.mean_rtt.as_secs_f64(), count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}
