//! Throughput over time, and groups of flows with their sums.

use windward_core::units::{Duration, Time};

use super::hop::Span;
use crate::delays::Delays;
use crate::outcome::{FlowOutcome, GroupOutcome};

/// Bytes in bins of time.
#[derive(Debug)]
pub(super) struct Bins {
    /// Beginning, end and bytes of the bin that is being filled.
    from: Time,
    until: Time,
    filling: u64,
    /// Bytes in the other bins.
    bytes: Vec<u64>,
    width: Duration,
}

impl Bins {
    pub(super) fn new(width: Duration) -> Self {
        let until = Time::ZERO + width;
        Bins { from: Time::ZERO, until, filling: 0, bytes: Vec::new(), width }
    }

    #[inline]
    pub(super) fn add(&mut self, at: Time, bytes: u64) {
        if at < self.from || at >= self.until {
            self.turn_to(at);
        }
        self.filling += bytes;
    }

    /// Fills the bin of `at` from now on.
    #[cold]
    fn turn_to(&mut self, at: Time) {
        let width = self.width.as_ps();
        let (full, next) = (self.from.as_ps() / width, at.as_ps() / width);
        let bins = full.max(next) as usize + 1;
        if self.bytes.len() < bins {
            self.bytes.resize(bins, 0);
        }
        self.bytes[full as usize] += std::mem::take(&mut self.filling);
        self.from = Time::from_ps(next * width);
        self.until = self.from + self.width;
    }

    /// Bits per second in each whole bin up to `until`. A last bin that the run cuts short is left
    /// out, since it would look like a pause.
    pub(super) fn rates(&mut self, until: Time) -> Vec<f64> {
        self.turn_to(self.from);
        let whole = (until.as_ps() / self.width.as_ps()) as usize;
        let bytes = self.bytes.iter().copied().chain(std::iter::repeat(0));
        let seconds = self.width.as_secs_f64();
        bytes.take(whole).map(|b| b as f64 * 8.0 / seconds).collect()
    }
}

/// Traffic of the flows of a group through their bottlenecks.
#[derive(Debug)]
pub(super) struct Group {
    name: String,
    pub(super) bins: Bins,
    /// Delays of datagrams, if there were any.
    pub(super) delays: Option<Box<Delays>>,
}

impl Group {
    pub(super) fn new(name: &str, bin: Duration) -> Self {
        Group { name: name.to_owned(), bins: Bins::new(bin), delays: None }
    }

    /// Outcomes of the groups, from those of the flows.
    pub(super) fn close(
        groups: Vec<Group>,
        flows: &[FlowOutcome],
        window: Span,
    ) -> Vec<GroupOutcome> {
        let first_bin = |bins: &Bins| window.from.as_ps().div_ceil(bins.width.as_ps()) as usize;
        let row = |mut group: Group| GroupOutcome {
            name: group.name,
            flows: 0,
            goodput_bps: 0.0,
            throughput_bps: 0.0,
            packets_sent: 0,
            retransmissions: 0,
            timeouts: 0,
            mean_cwnd: 0.0,
            delays: group.delays,
            datagrams_lost: 0,
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
            row.datagrams_lost += flow.datagrams.map_or(0, |datagrams| datagrams.lost);
        }
        for row in &mut rows {
            row.mean_cwnd /= row.flows.max(1) as f64;
        }
        rows
    }
}
