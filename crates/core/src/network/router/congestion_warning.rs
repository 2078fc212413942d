//! The congestion warning (CW) of TCP New Jersey's routers (Xu, Tian and Ansari, Computer Networks
//! 47(2), 2005; estcp2010, "TCP New Jersey").
//!
//! While the average queue is above a threshold, every packet of an ECN-capable transport is
//! marked; below it, no packet is. A mark means "congested now", not "reduce once" as RED's does.
//! Packets are dropped only at the tail.
//!
//! ```text
//! avg <- (1 - w) avg + w q       on arrival
//! ```
//!
//! estcp2010 gives neither weight nor threshold. With w = 0.2 the average follows the queue within
//! some packets, since marks must begin before the overflow; the threshold is a third of the
//! queue's limit.

use super::{Router, RouterKind, RouterPart};
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Time;

parameters! {
    /// Parameters of the congestion warning.
    pub struct CongestionWarningConfig in "", "parameters of cw";
    /// The values of estcp2010.
    pub const PUBLISHED;
    threshold: f64 = 1.0 / 3.0, ValueKind::Number { least: 0.0, most: 1.0 }, "of the limit",
        "average queue from which packets are marked";
    /// w:
    sample_weight: f64 = 0.2, ValueKind::Number { least: 1e-12, most: 1.0 }, "",
        "weight of a new sample in the average";
}

/// The state of the congestion warning of one queue.
#[derive(Debug, Clone)]
pub struct CongestionWarning {
    spec: CongestionWarningConfig,
    average: f64,
}

impl Part for CongestionWarning {
    type Config = CongestionWarningConfig;
    const FORMS: &'static [Form<CongestionWarningConfig>] = &[Form {
        words: Words {
            name: "cw",
            what: "marks every packet while the average queue is above a share of its limit",
            source: "Xu, Tian and Ansari 2005; estcp2010",
        },
        config: CongestionWarningConfig::PUBLISHED,
    }];
}

impl Router for CongestionWarning {
    fn on_arrival(&mut self, _: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool {
        self.judge(packet, queue.filled())
    }
}

impl RouterPart for CongestionWarning {
    fn new(config: &CongestionWarningConfig, _: &QueueSetup<'_>) -> Self {
        CongestionWarning::with(*config)
    }
    /// True although it marks on arrival, since only a [`crate::network::QueuedLink`] maintains the
    /// average.
    const ACTS_ON_DEPARTURE: bool = true;
    fn serves(kind: RouterKind) -> bool {
        matches!(kind, RouterKind::Any | RouterKind::EcnThreshold | RouterKind::CongestionWarning)
    }
}

impl CongestionWarning {
    /// The warning of an empty queue.
    pub fn with(spec: CongestionWarningConfig) -> Self {
        CongestionWarning { spec, average: 0.0 }
    }

    /// Judges a packet that arrives at a queue filled to this share of its limit. Returns true if
    /// it was marked.
    pub fn judge(&mut self, packet: &mut Packet, filled: f64) -> bool {
        self.average += self.spec.sample_weight * (filled - self.average);
        let mark = self.average >= self.spec.threshold && packet.flags.contains(Flags::ECN_CAPABLE);
        if mark {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
        }
        mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_is_marked_while_the_average_is_above_the_threshold() {
        let mut warning =
            CongestionWarning::with(CongestionWarningConfig { threshold: 0.5, sample_weight: 0.5 });
        let mut marks = |flags, filled| {
            let mut packet = Packet { flags, ..Packet::default() };
            let marked = warning.judge(&mut packet, filled);
            assert_eq!(marked, packet.flags.contains(Flags::CONGESTION_EXPERIENCED));
            marked
        };
        // Averages: 0.4, 0.6, 0.6, 0.3.
        assert!(!marks(Flags::ECN_CAPABLE, 0.8));
        assert!(marks(Flags::ECN_CAPABLE, 0.8));
        assert!(!marks(Flags::NONE, 0.6), "a transport that would not understand");
        assert!(!marks(Flags::ECN_CAPABLE, 0.0));
    }
}
