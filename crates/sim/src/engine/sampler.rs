//! Windows and queues over time.

use windward_core::units::{Duration, Time};

use super::snapshot::LinkSnapshot;
use crate::outcome::{LinkSamples, Samples};
use crate::trace::Instants;

/// Records the state of every flow and link at the multiples of an interval.
#[derive(Debug)]
pub(super) struct Sampler {
    instants: Instants,
    samples: Samples,
}

impl Sampler {
    pub(super) fn new(interval: Duration, flows: usize, links: usize) -> Self {
        let samples = Samples {
            times: Vec::new(),
            cwnd: vec![Vec::new(); flows],
            links: vec![LinkSamples::default(); links],
        };
        Sampler { instants: Instants::from_zero(interval), samples }
    }

    /// Time of the next sample.
    pub(super) fn due(&self) -> Time {
        self.instants.next().unwrap_or(Time::NEVER)
    }

    /// `cwnd` gives the window of a flow, or `None` for datagrams.
    pub(super) fn record_flows(&mut self, cwnd: impl Fn(usize) -> Option<f64>) {
        for (flow, series) in self.samples.cwnd.iter_mut().enumerate() {
            series.extend(cwnd(flow));
        }
    }

    pub(super) fn record_links(&mut self, mut link: impl FnMut(usize) -> LinkSnapshot) {
        let before = self.samples.times.len();
        for (index, series) in self.samples.links.iter_mut().enumerate() {
            let LinkSnapshot { queue_packets, arrived, dropped, corrupted, signal, .. } =
                link(index);
            series.queue.push(u32::try_from(queue_packets).unwrap_or(u32::MAX));
            series.arrived.push(arrived);
            series.lost.push(dropped + corrupted);
            if signal.is_some() || !series.signal.is_empty() {
                // Nothing is kept for the many links without a signal.
                series.signal.resize(before, None);
                series.signal.push(signal);
            }
        }
    }

    /// Takes the flows and links of another sampler, at the same instants, that it has seen.
    pub(super) fn take_over(
        &mut self,
        other: Sampler,
        flows: impl Fn(usize) -> bool,
        links: impl Fn(usize) -> bool,
    ) {
        for (flow, series) in other.samples.cwnd.into_iter().enumerate() {
            if flows(flow) {
                self.samples.cwnd[flow] = series;
            }
        }
        for (link, series) in other.samples.links.into_iter().enumerate() {
            if links(link) {
                self.samples.links[link] = series;
            }
        }
    }

    /// The sample is complete.
    pub(super) fn next(&mut self) {
        self.samples.times.push(self.instants.take());
    }
}

impl From<Sampler> for Samples {
    fn from(sampler: Sampler) -> Self {
        sampler.samples
    }
}
