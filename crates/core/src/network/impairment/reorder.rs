//! Reordering: some packets take longer, so that later ones overtake them.

use crate::rng::Stream;
use crate::units::{Duration, Probability};

/// Reordering: random packets take longer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReorderConfig {
    /// The share of packets that take longer.
    pub share: Probability,
    /// The additional time.
    pub by: Lateness,
}

/// The lateness of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lateness {
    /// A time.
    Time(Duration),
    /// The time of this many and a half packets of its size on the wire, so that this many overtake
    /// it if they follow at once.
    Packets(u32),
}

/// The reordering of a link.
#[derive(Debug)]
pub(super) struct Reorder {
    spec: ReorderConfig,
    stream: Stream,
}

impl Reorder {
    pub(super) fn new(spec: ReorderConfig, stream: Stream) -> Self {
        Reorder { spec, stream }
    }

    /// The additional time of a packet that was on the wire for `on_wire`.
    pub(super) fn next(&mut self, on_wire: Duration) -> Duration {
        if !self.stream.chance(self.spec.share) {
            return Duration::ZERO;
        }
        match self.spec.by {
            Lateness::Time(time) => time,
            Lateness::Packets(packets) => {
                let half = Duration::from_ps(on_wire.as_ps() / 2);
                on_wire.saturating_mul(packets.into()) + half
            }
        }
    }
}
