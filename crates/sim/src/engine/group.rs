//! Throughput over time, and groups of flows with their sums.

use windward_core::units::{Duration, Time};

use super::hop::Span;
use crate::outcome::{FlowOutcome, GroupOutcome};

/// Bytes in bins of time.
#[derive(Debug)]
pub(super) struct Bins {
    bytes: Vec<u64>,
    width: Duration,
    current: usize,
    current_from: Time,
    current_until: Time,
}

impl Bins {
    pub(super) fn new(width: Duration) -> Self {
        Bins {
            bytes: vec![0],
            width,
            current: 0,
            current_from: Time::ZERO,
            current_until: Time::ZERO + width,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, at: Time, bytes: u64) {
        if at < self.current_from || at >= self.current_until {
            self.current = (at.as_ps() / self.width.as_ps()) as usize;
            self.current_from = Time::from_ps(self.current as u64 * self.width.as_ps());
            self.current_until = self.current_from + self.width;
            if self.bytes.len() <= self.current {
                self.bytes.resize(self.current + 1, 0);
            }
        }
        self.bytes[self.current] += bytes;
    }

    /// Bits per second in each bin up to `until`. Whole bins only: a last one that the run cuts
    /// short would look like a pause.
    pub(super) fn rates(&self, until: Time) -> Vec<f64> {
        let whole = (until.as_ps() / self.width.as_ps()) as usize;
        let bytes = self.bytes.iter().copied().chain(std::iter::repeat(0));
        let seconds = self.width.as_secs_f64();
        bytes.take(whole).map(|b| b as f64 * 8.0 / seconds).collect()
    }
}

/// What the flows of a group put through their bottlenecks.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    pub(super) bins: Bins,
}

impl Group {
    pub(super) fn new(name: &str, bin: Duration) -> Self {
        Group { name: name.to_owned(), bins: Bins::new(bin) }
    }

    /// The groups' rows of the outcome, from the rows of the flows.
    pub(super) fn close(
        groups: Vec<Group>,
        flows: &[FlowOutcome],
        window: Span,
    ) -> Vec<GroupOutcome> {
        let first_bin = |bins: &Bins| window.from.as_ps().div_ceil(bins.width.as_ps()) as usize;
        let row = |group: Group| GroupOutcome {
            name: group.name,
            flows: 0,
            goodput_bps: 0.0,
            throughput_bps: 0.0,
            packets_sent: 0,
            retransmissions: 0,
            timeouts: 0,
            mean_cwnd: 0.0,
            throughput_bins: group.bins.rates(window.until),
            first_bin: first_bin(&group.bins),
        };
        let mut rows: Vec<GroupOutcome> = groups.into_iter().map(row).collect();
        for flow in flows {
            let row = &mut rows[flow.group];
            row.flows += 1;
            row.goodput_bps += flow.goodput_bps;
            row.throughput_bps += flow.throughput_bps;
            row.packets_sent += flow.packets_sent;
            row.retransmissions += flow.retransmissions;
            row.timeouts += flow.timeouts;
            row.mean_cwnd += flow.mean_cwnd;
        }
        for row in &mut rows {
            row.mean_cwnd /= row.flows.max(1) as f64;
        }
        rows
    }
}
