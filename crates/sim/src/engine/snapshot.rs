//! Flows and links at an instant.

use windward_core::units::Duration;

/// A connection at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowSnapshot {
    /// Congestion window, packets.
    pub cwnd: f64,
    /// Slow start threshold, packets.
    pub ssthresh: f64,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Packets sent and neither acknowledged nor deemed lost.
    pub in_flight: u64,
    /// Packets sent again so far; for a [stack](crate::stack), packets deemed lost.
    pub retransmissions: u64,
    /// Unique bytes delivered so far.
    pub delivered_bytes: u64,
    /// Bytes that reached the receiver so far, duplicates included. For a [stack](crate::stack),
    /// which does not report duplicates, the same as `delivered_bytes`.
    pub arrived_bytes: u64,
    /// Bytes that have crossed the bottleneck so far.
    pub bottleneck_bytes: u64,
}

/// A directed link at an instant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSnapshot {
    /// Packets waiting behind the one in transmission.
    pub queue_packets: u64,
    /// Packets that have arrived at the queue so far.
    pub arrived: u64,
    /// Packets dropped by the queue so far.
    pub dropped: u64,
    /// Packets destroyed by the channel so far.
    pub corrupted: u64,
    /// Packets marked by the queue or its router so far.
    pub marked: u64,
    /// Bytes put on the wire so far.
    pub sent_bytes: u64,
    /// Value that the router of the link sends to the flows, if it sends one.
    pub signal: Option<f64>,
}
