//! A router with forged feedback (RFC 9743 section 7.6), which does not depend on its queue.
//!
//! Every XCP packet gets the same grant. Marks (ECN's and XTCP's congestion flag) are set on every
//! packet that can carry them, on no packet (those of earlier routers are erased), or not changed.
//! An honest router after it reduces grants and adds marks as usual.

use super::{Router, RouterKind, RouterPart};
use crate::network::aqm::{Backlog, QueueSetup};
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Time;

parameters! {
    /// The forgery that a router writes.
    pub struct ForgedMarksConfig in "", "parameters of forged";
    /// A megabyte per second more for each packet, and no marks.
    pub const GENEROUS;
    grant: f64 = 1e6, ValueKind::Number { least: -1e12, most: 1e12 }, "bytes per second",
        "grant in every XCP packet";
    marks: ForgedMarks = ForgedMarks::None, ValueKind::Word(ForgedMarks::WORDS), "",
        "packets with ECN and XTCP marks: none, all that can carry one, or those of others";
}

/// The packets that carry a mark after a forging router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ForgedMarks {
    /// No packet.
    #[default]
    None,
    /// All packets that can.
    All,
    /// Packets marked before.
    Others,
}
crate::words!(ForgedMarks { None = "none", All = "all", Others = "others" });

/// A router with forged feedback.
#[derive(Debug, Clone, Copy)]
pub struct ForgingRouter(ForgedMarksConfig);

impl Part for ForgingRouter {
    type Config = ForgedMarksConfig;
    const FORMS: &'static [Form<ForgedMarksConfig>] = &[Form {
        words: Words {
            name: "forged",
            what: "forged feedback: the same grant in each packet, and marks on none or on all",
            source: "RFC 9743 section 7.6",
        },
        config: ForgedMarksConfig::GENEROUS,
    }];
}

impl Router for ForgingRouter {
    fn on_departure(&mut self, _: Time, _: &Backlog<'_>, packet: &mut Packet) -> bool {
        if let CongestionHeader::Xcp { delta, .. } = &mut packet.header {
            *delta = self.0.grant;
        }
        match self.0.marks {
            ForgedMarks::Others => false,
            ForgedMarks::None => {
                packet.flags.remove(Flags::CONGESTION_EXPERIENCED.with(Flags::CONGESTION));
                false
            }
            ForgedMarks::All => {
                let can = [
                    (Flags::ECN_CAPABLE, Flags::CONGESTION_EXPERIENCED),
                    (Flags::XTCP, Flags::CONGESTION),
                ];
                let mut marked = false;
                for (capable, mark) in can {
                    if packet.flags.contains(capable) {
                        packet.flags.insert(mark);
                        marked = true;
                    }
                }
                marked
            }
        }
    }
}

impl RouterPart for ForgingRouter {
    fn new(config: &ForgedMarksConfig, _: &QueueSetup<'_>) -> Self {
        ForgingRouter(*config)
    }
    const MARKS: bool = true;
    const ACTS_ON_DEPARTURE: bool = true;
    /// True for any router that grants or marks.
    fn serves(kind: RouterKind) -> bool {
        kind != RouterKind::Estcp
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::QueueLimit;

    #[test]
    fn forged_feedback_does_not_depend_on_the_packet() {
        let forge = |marks, flags, demand: f64| {
            let header = CongestionHeader::Xcp {
                rtt: 0.1,
                inter_packet: 0.01,
                delta: demand,
                congestion_flag: 0,
            };
            let mut packet = Packet { flags, header, ..Packet::default() };
            let mut router = ForgingRouter(ForgedMarksConfig { grant: 5e5, marks });
            let queue = Backlog {
                packets: 1000,
                bytes: 1_000_000,
                limit: QueueLimit::Packets(1000),
                idle_since: None,
                empty_since: None,
                lanes: &[],
            };
            let marked = router.on_departure(Time::ZERO, &queue, &mut packet);
            let CongestionHeader::Xcp { delta, .. } = packet.header else { panic!() };
            assert_eq!(delta, 5e5, "of {demand}");
            (marked, packet.flags)
        };
        let (ect, ce) = (Flags::ECN_CAPABLE, Flags::CONGESTION_EXPERIENCED);
        assert_eq!(forge(ForgedMarks::All, ect, -1e6), (true, ect.with(ce)));
        assert_eq!(
            forge(ForgedMarks::All, Flags::XTCP, 0.0).1,
            Flags::XTCP.with(Flags::CONGESTION)
        );
        assert_eq!(forge(ForgedMarks::All, Flags::NONE, 1e9), (false, Flags::NONE));
        assert_eq!(forge(ForgedMarks::None, ect.with(ce), 1.0), (false, ect));
        assert_eq!(forge(ForgedMarks::Others, ect.with(ce), 1.0), (false, ect.with(ce)));
    }
}
