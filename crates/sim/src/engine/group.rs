//! Throughput over time, and groups of flows with their sums.

use windward_core::units::{Duration, Time};

use super::hop::Span;
use crate::delays::{Delays, add_all};
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

    /// Starts to fill the bin of `at`.
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

    /// Adds the bytes of other bins of this width.
    fn merge(&mut self, mut other: Bins) {
        self.turn_to(self.from);
        other.turn_to(other.from);
        add_all(&mut self.bytes, &other.bytes);
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

    /// Adds the traffic of the same group on another thread.
    pub(super) fn merge(&mut self, other: Group) {
        self.bins.merge(other.bins);
        if let Some(delays) = other.delays {
            self.delays.get_or_insert_default().merge(&delays);
        }
    }

    /// Outcomes of the groups, from those of the flows.
    pub(super) fn close(
        groups: Vec<Group>,
        flows: &[FlowOutcome],
        window: Span,
    ) -> Vec<GroupOutcome> {
        let mut of_group = vec![Vec::new(); groups.len()];
        for flow in flows {
            of_group[flow.group].push(flow);
        }
        let rows = groups.into_iter().zip(of_group).map(|(mut group, flows)| {
            let first_bin = window.from.as_ps().div_ceil(group.bins.width.as_ps()) as usize;
            let mut row = GroupOutcome::of(group.name, flows);
            let mean_delay = group.delays.as_deref().and_then(Delays::mean);
            row.mean_delay_s = mean_delay.map(Duration::as_secs_f64);
            GroupOutcome {
                delays: group.delays,
                throughput_bins: group.bins.rates(window.until),
                first_bin,
                ..row
            }
        });
        rows.collect()
    }
}
