//! Marking above a threshold, the switch's half of DCTCP (RFC 8257 section 3.1; Alizadeh et al.,
//! SIGCOMM 2010, section 3.1).
//!
//! A packet that finds more than K packets queued is marked. Packets that are not ECN-capable are
//! subject only to the queue's limit.

use super::{Router, RouterPart};
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{Flags, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Time;

parameters! {
    /// The threshold K.
    #[derive(Eq)]
    pub struct EcnThreshold in "", "parameters of ecn-threshold";
    /// 20 packets, as Alizadeh et al. (section 3.4) choose for 1 Gbit/s.
    pub const ALIZADEH;
    /// K, without the packet in transmission. Below C RTT / 7 the wire may idle (RFC 8257 section
    /// 4.1).
    threshold: u32 = 20, ValueKind::Integer { least: 0, most: 1_000_000_000 }, "packets",
        "waiting packets above which an arrival is marked";
}

impl Part for EcnThreshold {
    type Config = EcnThreshold;
    const FORMS: &'static [Form<EcnThreshold>] = &[Form {
        words: Words {
            name: "ecn-threshold",
            what: "marks every packet that finds more than K packets waiting",
            source: "RFC 8257 section 3.1; Alizadeh et al. 2010, section 3.1",
        },
        config: EcnThreshold::ALIZADEH,
    }];
}

impl Router for EcnThreshold {
    #[inline]
    fn on_enqueue(&mut self, _: Time, queue: &Backlog<'_>, packet: &mut Packet) -> bool {
        EcnThreshold::on_arrival(*self, queue.packets, packet)
    }
}

impl RouterPart for EcnThreshold {
    fn new(config: &EcnThreshold, _: &QueueSetup<'_>) -> Self {
        *config
    }
    const MARKS: bool = true;
    const ACTS_ON_DEPARTURE: bool = false;
}

impl EcnThreshold {
    /// `packet` finds `waiting` packets in the queue. Returns whether it was marked.
    #[inline]
    pub fn on_arrival(self, waiting: usize, packet: &mut Packet) -> bool {
        let marks = waiting > self.threshold as usize && packet.flags.contains(Flags::ECN_CAPABLE);
        if marks {
            packet.flags.insert(Flags::CONGESTION_EXPERIENCED);
        }
        marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_what_finds_more_than_k() {
        let k = EcnThreshold { threshold: 3 };
        let marked = |waiting, flags| {
            let mut packet = Packet { flags, ..Packet::default() };
            let said = k.on_arrival(waiting, &mut packet);
            assert_eq!(said, packet.flags.contains(Flags::CONGESTION_EXPERIENCED));
            said
        };
        assert!(!marked(3, Flags::ECN_CAPABLE));
        assert!(marked(4, Flags::ECN_CAPABLE));
        assert!(!marked(4, Flags::NONE), "not ECN-capable");
    }
}
