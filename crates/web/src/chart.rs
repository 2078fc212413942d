//! Samples of a run for charts: flows, groups of flows, and links.

use windward_core::units::{Duration, Time};
use windward_sim::trace::Instants;
use windward_sim::{Scenario, Simulation};

/// A sampler of a run at the multiples of an interval and at its end.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    instants: Instants,
    last: Time,
    pub(crate) times: Vec<f64>,
    /// A series for each flow; empty unless they are wanted.
    flows: Vec<FlowSeries>,
    groups: Vec<GroupSeries>,
    links: Vec<LinkSeries>,
}

/// A flow at each sample.
#[derive(Debug, Clone, Default)]
struct FlowSeries {
    delivered: u64,
    goodput: Vec<f64>,
    /// Window, packets; NaN without a connection.
    cwnd: Vec<f64>,
    /// Smoothed RTT, seconds; NaN before the first.
    srtt: Vec<f64>,
}

/// A group of flows at each sample.
#[derive(Debug, Clone, Default)]
struct GroupSeries {
    flows: Vec<usize>,
    delivered: u64,
    passed: u64,
    /// Sum of the goodputs since the sample before, bits per second.
    goodput: Vec<f64>,
    /// Sum of the throughputs at their bottlenecks since the sample before, bits per second.
    throughput: Vec<f64>,
    /// Mean window, packets; NaN without connections.
    cwnd: Vec<f64>,
    /// Mean of the smoothed RTTs, seconds; NaN before the first.
    srtt: Vec<f64>,
}

/// A bottleneck at each sample.
#[derive(Debug, Clone, Default)]
struct LinkSeries {
    link: usize,
    queue: Vec<f64>,
    dropped: Vec<f64>,
    corrupted: Vec<f64>,
}

/// Quantities of flows, groups and links by their names in JavaScript.
pub(crate) const FLOWS: [&str; 3] = ["goodput_bps", "cwnd_packets", "srtt_s"];
pub(crate) const GROUPS: [&str; 4] = ["goodput_bps", "throughput_bps", "cwnd_packets", "srtt_s"];
pub(crate) const LINKS: [&str; 3] = ["queue_packets", "dropped", "corrupted"];

impl Chart {
    /// A sampler of this scenario, with series of each flow if `of_flows`.
    pub(crate) fn new(scenario: &Scenario, interval: Duration, of_flows: bool) -> Self {
        let mut groups = vec![GroupSeries::default(); scenario.groups.len()];
        let mut links: Vec<LinkSeries> = Vec::new();
        for (index, flow) in scenario.flows.iter().enumerate() {
            groups[flow.group].flows.push(index);
            if !links.iter().any(|known| known.link == flow.bottleneck) {
                links.push(LinkSeries { link: flow.bottleneck, ..LinkSeries::default() });
            }
        }
        let end = Time::ZERO + scenario.duration;
        Chart {
            instants: Instants::until(end, interval),
            last: Time::ZERO,
            times: Vec::new(),
            flows: vec![FlowSeries::default(); if of_flows { scenario.flows.len() } else { 0 }],
            groups,
            links,
        }
    }

    /// The instant to which the simulation is to be advanced before [`Chart::sample`].
    pub(crate) fn next_sample(&self) -> Option<Time> {
        self.instants.next()
    }

    pub(crate) fn sample(&mut self, sim: &mut Simulation) {
        let now = self.instants.take();
        let since = now.since(self.last).as_secs_f64();
        self.last = now;
        self.times.push(now.as_secs_f64());
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 * 8.0 / since;
        for (index, series) in self.flows.iter_mut().enumerate() {
            let flow = sim.flow(index);
            let bytes = flow
                .as_ref()
                .map_or_else(|| sim.bottleneck_bytes(index), |flow| flow.delivered_bytes);
            series.goodput.push(rate(bytes, series.delivered));
            series.delivered = bytes;
            series.cwnd.push(flow.as_ref().map_or(f64::NAN, |flow| flow.cwnd));
            let srtt = flow.map(|flow| flow.srtt).filter(|srtt| *srtt > Duration::ZERO);
            series.srtt.push(srtt.map_or(f64::NAN, Duration::as_secs_f64));
        }
        for group in &mut self.groups {
            let passed = group.flows.iter().map(|flow| sim.bottleneck_bytes(*flow)).sum();
            group.throughput.push(rate(passed, group.passed));
            group.passed = passed;
            let (mut bytes, mut cwnd, mut srtt, mut count, mut heard) = (0, 0.0, 0.0, 0.0, 0.0);
            for &index in &group.flows {
                // Datagrams have no window; what they put through their bottleneck counts.
                let Some(flow) = sim.flow(index) else {
                    bytes += sim.bottleneck_bytes(index);
                    continue;
                };
                bytes += flow.delivered_bytes;
                cwnd += flow.cwnd;
                count += 1.0;
                if flow.srtt > Duration::ZERO {
                    srtt += flow.srtt.as_secs_f64();
                    heard += 1.0;
                }
            }
            group.goodput.push(rate(bytes, group.delivered));
            group.delivered = bytes;
            group.cwnd.push(cwnd / count);
            group.srtt.push(srtt / heard);
        }
        for series in &mut self.links {
            let link = sim.link(series.link);
            series.queue.push(link.queue_packets as f64);
            series.dropped.push(link.dropped as f64);
            series.corrupted.push(link.corrupted as f64);
        }
    }

    /// A quantity of [`FLOWS`] of the flow with that index, if they are sampled.
    pub(crate) fn flow(&self, index: usize, quantity: &str) -> Option<&[f64]> {
        let flow = self.flows.get(index)?;
        match quantity {
            "goodput_bps" => Some(&flow.goodput),
            "cwnd_packets" => Some(&flow.cwnd),
            "srtt_s" => Some(&flow.srtt),
            _ => None,
        }
    }

    /// A quantity of [`GROUPS`] of the group with that index.
    pub(crate) fn group(&self, index: usize, quantity: &str) -> Option<&[f64]> {
        let group = self.groups.get(index)?;
        match quantity {
            "goodput_bps" => Some(&group.goodput),
            "throughput_bps" => Some(&group.throughput),
            "cwnd_packets" => Some(&group.cwnd),
            "srtt_s" => Some(&group.srtt),
            _ => None,
        }
    }

    /// A quantity of [`LINKS`] of the link with that index, which must be a bottleneck.
    pub(crate) fn link(&self, index: usize, quantity: &str) -> Option<&[f64]> {
        let link = self.links.iter().find(|series| series.link == index)?;
        match quantity {
            "queue_packets" => Some(&link.queue),
            "dropped" => Some(&link.dropped),
            "corrupted" => Some(&link.corrupted),
            _ => None,
        }
    }
}
