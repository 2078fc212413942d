//! Samples of a run for charts: groups of flows, and links.

use windward_core::units::{Duration, Time};
use windward_sim::trace::Instants;
use windward_sim::{Scenario, Simulation};

/// A sampler of a run at the multiples of an interval and at its end.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    instants: Instants,
    last: Time,
    pub(crate) times: Vec<f64>,
    groups: Vec<GroupSeries>,
    links: Vec<LinkSeries>,
}

/// A group of flows at each sample.
#[derive(Debug, Clone, Default)]
struct GroupSeries {
    flows: Vec<usize>,
    delivered: u64,
    /// Sum of the goodputs since the sample before, bits per second.
    goodput: Vec<f64>,
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

/// Quantities of groups and links by their names in JavaScript.
pub(crate) const GROUPS: [&str; 3] = ["goodput_bps", "cwnd_packets", "srtt_s"];
pub(crate) const LINKS: [&str; 3] = ["queue_packets", "dropped", "corrupted"];

impl Chart {
    pub(crate) fn new(scenario: &Scenario, interval: Duration) -> Self {
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
        for group in &mut self.groups {
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
            group.goodput.push(bytes.saturating_sub(group.delivered) as f64 * 8.0 / since);
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

    /// A quantity of [`GROUPS`] of the group with that index.
    pub(crate) fn group(&self, index: usize, quantity: &str) -> Option<&[f64]> {
        let group = self.groups.get(index)?;
        match quantity {
            "goodput_bps" => Some(&group.goodput),
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
