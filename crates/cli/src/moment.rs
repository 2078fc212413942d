//! State of links and flows at an instant, as JSON and for charts.

use serde::Serialize;

/// Largest number of links, and of flows, for people; the busiest are shown.
const ROWS: usize = 12;

/// Links and flows at an instant.
#[derive(Debug, Serialize)]
pub(crate) struct Moment<'a> {
    pub(crate) time_s: f64,
    pub(crate) links: Vec<LinkMoment<'a>>,
    pub(crate) flows: Vec<FlowMoment<'a>>,
}

/// A link since the last moment.
#[derive(Debug, Serialize)]
pub(crate) struct LinkMoment<'a> {
    pub(crate) name: &'a str,
    pub(crate) rate_bps: f64,
    pub(crate) queue_packets: u64,
    /// Delay of a packet that arrives now: the queue at the current rate, and the propagation
    /// delay.
    pub(crate) delay_s: f64,
    /// The part of it in the queue.
    pub(crate) queueing_delay_s: f64,
    pub(crate) dropped: u64,
    pub(crate) corrupted: u64,
    pub(crate) marked: u64,
}

/// A flow since the last moment.
#[derive(Debug, Serialize)]
pub(crate) struct FlowMoment<'a> {
    pub(crate) name: &'a str,
    pub(crate) rate_bps: f64,
    /// Rate of a port in the other direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) back_bps: Option<f64>,
    /// Absent where the engine does not know it, as for outside programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwnd_packets: Option<f64>,
    /// Absent where only the sender knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retransmissions: Option<u64>,
    /// Data packets that have not arrived. Absent where only the sender is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing: Option<u64>,
    /// Delay above the lowest, where no link is known that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queueing_delay_s: Option<f64>,
    /// Smoothed RTT of a simulated connection, mean RTT of a measured one; for others, the sum of
    /// the delays of their links. 0 if it is unknown.
    pub(crate) rtt_s: f64,
}

impl Moment<'_> {
    /// The busiest links and flows, in their order.
    pub(crate) fn busiest(mut self) -> Self {
        let least = |mut rates: Vec<f64>| {
            rates.sort_by(|a, b| b.total_cmp(a));
            rates.get(ROWS).copied()
        };
        let least_link = least(self.links.iter().map(|link| link.rate_bps).collect());
        self.links.retain(|link| least_link.is_none_or(|least| link.rate_bps > least));
        let least_flow = least(self.flows.iter().map(FlowMoment::busy).collect());
        self.flows.retain(|flow| least_flow.is_none_or(|least| flow.busy() > least));
        self
    }
}

impl FlowMoment<'_> {
    /// Rate of both directions.
    fn busy(&self) -> f64 {
        self.rate_bps + self.back_bps.unwrap_or(0.0)
    }
}
