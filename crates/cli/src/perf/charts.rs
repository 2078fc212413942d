//! `--web` of `windward perf`: flows as their senders know them at the client, and as the server
//! knows them.

use std::collections::HashMap;
use std::net::SocketAddr;

use windward_net::perf::{Interval, Sample, Served};

use crate::moment::{FlowMoment, Moment};
use crate::web::{INTERVAL, Web};

/// Charts of a client, whose moments cover at least [`INTERVAL`].
pub(super) struct Charts {
    web: Web,
    /// Beginning of the next moment, seconds.
    since: f64,
    /// Bits delivered and packets sent again by each flow since then.
    delivered: Vec<f64>,
    again: Vec<u64>,
    /// State of each flow at the last moment.
    before: Vec<Sample>,
}

impl Charts {
    pub(super) fn new(web: Web, flows: usize) -> Self {
        Charts {
            web,
            since: 0.0,
            delivered: vec![0.0; flows],
            again: vec![0; flows],
            before: vec![Sample::default(); flows],
        }
    }

    pub(super) fn sample(&mut self, sample: &Interval, names: &[(String, &'static str)]) {
        let passed = sample.end_s - sample.start_s;
        for (at, delivered) in self.delivered.iter_mut().enumerate() {
            *delivered += sample.goodput_bps[at] * passed;
            self.again[at] += sample.retransmissions[at];
        }
        let span = sample.end_s - self.since;
        // Sampling instants are rounded to the clock.
        if span < 0.99 * INTERVAL.as_secs_f64() {
            return;
        }
        let flow = |at: usize| FlowMoment {
            name: &names[at].0,
            rate_bps: self.delivered[at] / span,
            back_bps: None,
            cwnd_packets: Some(sample.flows[at].cwnd),
            retransmissions: Some(self.again[at]),
            missing: None,
            queueing_delay_s: None,
            rtt_s: mean_rtt_s(&sample.flows[at], &self.before[at]).unwrap_or_default(),
        };
        let flows = (0..names.len()).map(flow).collect();
        self.web.show(Moment { time_s: sample.end_s, links: Vec::new(), flows });
        self.since = sample.end_s;
        self.delivered.fill(0.0);
        self.again.fill(0);
        self.before.clone_from(&sample.flows);
    }
}

/// Mean of the RTT samples between two states, `None` without any. The smoothed RTT is that of a
/// clock that may tick.
fn mean_rtt_s(now: &Sample, then: &Sample) -> Option<f64> {
    let count = now.rtt_samples.saturating_sub(then.rtt_samples);
    let sum = (now.rtt_sum_s - then.rtt_sum_s).max(0.0);
    (count > 0).then(|| sum / count as f64)
}

/// Longest part of a protocol in the name of a flow, characters: clients choose its text.
const LONGEST_NAME: usize = 40;

/// Charts of a server.
pub(super) struct ServerCharts {
    web: Web,
    /// Time of the last moment, seconds.
    last_s: f64,
    /// The flows of the last moment, by their number.
    flows: HashMap<u64, Known>,
}

/// A flow at the last moment.
#[derive(Debug)]
struct Known {
    name: String,
    state: Sample,
    missing: u64,
}

impl Known {
    /// A flow that has not begun.
    fn new(served: &Served) -> Self {
        let mut protocol: String = served.protocol.chars().take(LONGEST_NAME).collect();
        if protocol.len() < served.protocol.len() {
            protocol.push('…');
        }
        let way = if served.reverse { "to" } else { "from" };
        let peer = SocketAddr::new(served.peer.ip().to_canonical(), served.peer.port());
        let name = format!("{}: {protocol} {way} {peer}", served.number);
        Known { name, state: Sample::default(), missing: 0 }
    }

    /// The flow since then, `span` seconds ago.
    fn until(&self, now: &Served, span: f64) -> FlowMoment<'_> {
        let since = |now: u64, then: u64| now.saturating_sub(then);
        let bits = 8.0 * f64::from(now.packet_size);
        let again = since(now.state.retransmissions, self.state.retransmissions);
        let rtt_s = mean_rtt_s(&now.state, &self.state);
        let above = |least: f64| rtt_s.map(|rtt| (rtt - least).max(0.0));
        FlowMoment {
            name: &self.name,
            rate_bps: since(now.state.delivered, self.state.delivered) as f64 * bits / span,
            back_bps: None,
            cwnd_packets: now.reverse.then_some(now.state.cwnd),
            retransmissions: now.reverse.then_some(again),
            missing: now.missing.map(|missing| since(missing, self.missing)),
            queueing_delay_s: now.queueing_delay_s.or_else(|| now.min_rtt_s.and_then(above)),
            rtt_s: rtt_s.unwrap_or_default(),
        }
    }
}

impl ServerCharts {
    pub(super) fn new(web: Web) -> Self {
        ServerCharts { web, last_s: 0.0, flows: HashMap::new() }
    }

    /// Shows the connections. Without any, the axis of time moves on.
    pub(super) fn sample(&mut self, time_s: f64, connections: &[Served]) {
        let span = time_s - self.last_s;
        let known: Vec<Known> = connections
            .iter()
            .map(|now| self.flows.remove(&now.number).unwrap_or_else(|| Known::new(now)))
            .collect();
        let pairs = connections.iter().zip(&known);
        let flows = pairs.map(|(now, then)| then.until(now, span)).collect();
        self.web.show(Moment { time_s, links: Vec::new(), flows });
        self.last_s = time_s;
        let pairs = connections.iter().zip(known);
        self.flows = pairs
            .map(|(now, Known { name, .. })| {
                let (state, missing) = (now.state, now.missing.unwrap_or_default());
                (now.number, Known { name, state, missing })
            })
            .collect();
    }
}
