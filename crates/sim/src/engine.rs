//! The engine (in progress).

use windward_core::units::{Duration, Time};

use crate::{Outcome, Scenario};

/// A run that can be advanced in steps and looked at in between.
#[derive(Debug)]
pub struct Simulation {}

/// One connection at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSnapshot {
    /// Congestion window, packets.
    pub cwnd: f64,
    /// Slow start threshold, packets.
    pub ssthresh: f64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Packets sent and not yet acknowledged or deemed lost.
    pub in_flight: u64,
    /// Bytes delivered uniquely so far.
    pub delivered_bytes: u64,
    /// Bytes put through the bottleneck so far.
    pub bottleneck_bytes: u64,
}

/// One directed link at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSnapshot {
    /// Packets waiting behind the one in transmission.
    pub queue_packets: u64,
    /// Packets dropped by the queue so far.
    pub dropped: u64,
    /// Packets destroyed by the channel so far.
    pub corrupted: u64,
    /// Bytes put on the wire so far.
    pub sent_bytes: u64,
}

impl Simulation {
    /// Sets the scenario up at time zero.
    pub fn new(scenario: &Scenario) -> Self {
        let _ = scenario;
        Simulation {}
    }
    /// As [`Simulation::new`], with snapshots of links exact at any instant; a little slower,
    /// with the same outcome.
    pub fn traced(scenario: &Scenario) -> Self {
        Self::new(scenario)
    }
    /// Virtual time reached so far.
    pub fn now(&self) -> Time {
        Time::ZERO
    }
    /// Handles every event up to and including `until`, but none after the scenario's end.
    pub fn advance(&mut self, until: Time) {
        let _ = until;
    }
    /// The connection with that index, or `None` for datagrams.
    pub fn flow(&self, index: usize) -> Option<FlowSnapshot> {
        let _ = index;
        None
    }
    /// The link with that index.
    pub fn link(&self, index: usize) -> LinkSnapshot {
        let _ = index;
        LinkSnapshot {
            queue_packets: 0,
            dropped: 0,
            corrupted: 0,
            sent_bytes: 0,
        }
    }
    /// Runs to the end and adds up.
    pub fn finish(self) -> Outcome {
        todo!()
    }
}

/// Runs a scenario from start to end.
pub fn run(scenario: &Scenario) -> Outcome {
    Simulation::new(scenario).finish()
}
