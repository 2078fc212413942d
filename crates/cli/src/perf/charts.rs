//! `--web` of `windward perf client`: flows as known to their senders.

use windward_net::perf::Interval;

use crate::moment::{FlowMoment, Moment};
use crate::web::{INTERVAL, Web};

/// Charts, whose moments cover at least [`INTERVAL`].
pub(super) struct Charts {
    web: Web,
    /// Beginning of the next moment, seconds.
    since: f64,
    /// Bits delivered and packets sent again by each flow since then.
    delivered: Vec<f64>,
    again: Vec<u64>,
}

impl Charts {
    pub(super) fn new(web: Web, flows: usize) -> Self {
        Charts { web, since: 0.0, delivered: vec![0.0; flows], again: vec![0; flows] }
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
            rtt_s: sample.flows[at].srtt_s,
        };
        let flows = (0..names.len()).map(flow).collect();
        self.web.show(Moment { time_s: sample.end_s, links: Vec::new(), flows });
        self.since = sample.end_s;
        self.delivered.fill(0.0);
        self.again.fill(0);
    }
}
