//! Groups of flows: their throughput over time, and their sums.

use windward_core::units::{Duration, Time};

use super::hop::Window;
use crate::outcome::{FlowOutcome, GroupOutcome};

/// What the flows of a group put through their bottlenecks, in bins of time.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bins: Vec<u64>,
    pub(super) bin: Duration,
    pub(super) current: usize,
    pub(super) current_from: Time,
    pub(super) current_until: Time,
}

impl Group {
    pub(super) fn new(name: &str, bin: Duration) -> Self {
        Group {
            name: name.to_owned(),
            bins: vec![0],
            bin,
            current: 0,
            current_from: Time::ZERO,
            current_until: Time::ZERO + bin,
        }
    }

    pub(super) fn close(
        mut self,
        index: usize,
        flows: &[FlowOutcome],
        window: Window,
    ) -> GroupOutcome {
        let own = || flows.iter().filter(|flow| flow.group == index);
        let count = own().count();
        // Whole bins only: a last one that the run cuts short would look like a pause.
        self.bins.resize((window.until.as_ps() / self.bin.as_ps()) as usize, 0);
        let seconds = self.bin.as_secs_f64();
        GroupOutcome {
            name: self.name,
            flows: count,
            goodput_bps: own().map(|flow| flow.goodput_bps).sum(),
            throughput_bps: own().map(|flow| flow.throughput_bps).sum(),
            packets_sent: own().map(|flow| flow.packets_sent).sum(),
            retransmissions: own().map(|flow| flow.retransmissions).sum(),
            timeouts: own().map(|flow| flow.timeouts).sum(),
            mean_cwnd: own().map(|flow| flow.mean_cwnd).sum::<f64>() / count.max(1) as f64,
            throughput_bins: self.bins.iter().map(|b| *b as f64 * 8.0 / seconds).collect(),
            first_bin: window.from.as_ps().div_ceil(self.bin.as_ps()) as usize,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, at: Time, bytes: u64) {
        if at < self.current_from || at >= self.current_until {
            self.current = (at.as_ps() / self.bin.as_ps()) as usize;
            self.current_from = Time::from_ps(self.current as u64 * self.bin.as_ps());
            self.current_until = self.current_from + self.bin;
            if self.bins.len() <= self.current {
                self.bins.resize(self.current + 1, 0);
            }
        }
        self.bins[self.current] += bytes;
    }
}
