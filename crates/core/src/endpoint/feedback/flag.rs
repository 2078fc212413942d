//! XTCP's congestion flag, copied into the acknowledgment (lr2008 section 3.2).

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{Flags, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The receiver's half: whether a packet was flagged since the last acknowledgment.
#[derive(Debug, Default)]
pub struct Flag {
    flagged: bool,
}

impl Part for Flag {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "flag",
            what: "packets carry a congestion flag; ACKs echo it",
            source: "lr2008 section 3.2",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::CongestionFlag]
    }
}

impl FeedbackPart for Flag {
    fn router(_: &Plain) -> RouterKind {
        RouterKind::Xtcp
    }
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, _: Duration, _: f64) {
        packet.flags.insert(Flags::XTCP);
    }
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        Flag::default()
    }
}

impl Feedback for Flag {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.flagged |= packet.flags.contains(Flags::CONGESTION);
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        if std::mem::take(&mut self.flagged) {
            ack.flags.insert(Flags::CONGESTION);
        }
    }
}
