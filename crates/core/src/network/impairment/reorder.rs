//! Reordering: some packets take longer, so that later ones overtake them.

use crate::rng::Stream;
use crate::units::{Duration, Probability};

/// Packets at random take longer.
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
    /// By half a packet more than so many like it take on the wire: where these follow at once, so
    /// many overtake it.
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

    /// How much longer a packet takes that has been on the wire for so long.
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
