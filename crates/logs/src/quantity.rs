//! The quantities in which two logs are compared.

use serde::Serialize;

/// Quantity that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// The congestion window, bytes.
    Cwnd,
    /// Bytes in flight.
    BytesInFlight,
    /// The smoothed RTT, milliseconds.
    SmoothedRtt,
    /// Newly acknowledged bytes over the preceding window, bits per second.
    Rate,
}

impl Quantity {
    /// All quantities.
    pub const ALL: [Quantity; 4] =
        [Quantity::Cwnd, Quantity::BytesInFlight, Quantity::SmoothedRtt, Quantity::Rate];

    /// Name in text.
    pub fn name(self) -> &'static str {
        match self {
            Quantity::Cwnd => "cwnd",
            Quantity::BytesInFlight => "bytes in flight",
            Quantity::SmoothedRtt => "smoothed RTT",
            Quantity::Rate => "rate",
        }
    }

    /// Unit.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Cwnd | Quantity::BytesInFlight => "bytes",
            Quantity::SmoothedRtt => "ms",
            Quantity::Rate => "bit/s",
        }
    }

    /// Largest difference that is ignored regardless of its share: half a packet of the window, a
    /// whole packet in flight, the resolution of a coarse clock.
    pub(super) fn floor(self, packet: f64, window_ms: f64) -> f64 {
        match self {
            Quantity::Cwnd => packet / 2.0,
            Quantity::BytesInFlight => packet,
            Quantity::SmoothedRtt => 0.1,
            Quantity::Rate => packet * 8.0 / window_ms * 1000.0,
        }
    }
}
