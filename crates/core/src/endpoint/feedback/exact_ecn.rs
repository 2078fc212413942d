//! ECN with an exact echo of each mark (RFC 8257 section 3.2). All data is ECN-capable, including
//! retransmissions (RFC 8311 section 4.3 allows it; Linux does so).

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{Flags, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The mark of the latest packet (RFC 8257: DCTCP.CE).
#[derive(Debug, Default)]
pub struct ExactEcn {
    marked: bool,
}

impl Part for ExactEcn {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "exact-ecn",
            what: "ECN on every data packet; the receiver echoes each mark exactly",
            source: "RFC 8257 section 3.2",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::EachMark]
    }
}

impl FeedbackPart for ExactEcn {
    const ECHOES_MARKS: bool = true;
    fn router(_: &Plain) -> RouterKind {
        RouterKind::EcnThreshold
    }
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, _: Duration, _: f64) {
        packet.flags.insert(Flags::ECN_CAPABLE);
    }
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        ExactEcn::default()
    }
}

impl Feedback for ExactEcn {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.marked = packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
    }
    #[inline]
    fn turns(&self, packet: &Packet) -> bool {
        packet.flags.contains(Flags::CONGESTION_EXPERIENCED) != self.marked
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        if self.marked {
            ack.flags.insert(Flags::ECN_ECHO);
        }
    }
}
