//! ESTCP's phase and g: in a separate field (estcp2010, "Implementation of ESTCP"), or in the two
//! ECN bits (Fig. 4). The receiver echoes the values of the latest packet.

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Part, Plain, ValueKind, Words};
use crate::units::{Duration, Time};

crate::parameters! {
    /// The parameters of `estcp-ecn`.
    pub struct EstcpConfig in "estcp", "parameters of estcp-ecn";
    /// Thirty-two packets.
    pub const DEFAULT;
    /// Also the packets required before the first estimate of g. Not in the paper.
    prior: f64 = 32.0, ValueKind::Number { least: 1.0, most: 1e6 }, "packets",
        "weight of the last phase's marks";
}

/// The ideal signalling field.
#[derive(Debug)]
pub struct Field {
    latest: CongestionHeader,
}

/// The two ECN bits.
#[derive(Debug)]
pub struct Bits {
    latest: CongestionHeader,
}

impl Part for Field {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "phase+g",
            what: "packets carry the number of the phase and g; ACKs echo them",
            source: "estcp2010, Implementation of ESTCP",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::Phase]
    }
}

impl Part for Bits {
    type Config = EstcpConfig;
    const FORMS: &'static [Form<EstcpConfig>] = &[Form {
        words: Words {
            name: "phase+g in ECN",
            what: "two bits: parity of the phase, and a mark whose share encodes g; ACKs echo them",
            source: "estcp2010 figure 4",
        },
        config: EstcpConfig::DEFAULT,
    }];
    fn gives(_: &EstcpConfig) -> &'static [Ability] {
        &[Ability::Phase]
    }
}

/// The field before any traffic controller has written into it.
pub const UNWRITTEN: CongestionHeader =
    CongestionHeader::Estcp { phase: 0, g: 0.0, age: f64::INFINITY, filled: 0.0 };

impl FeedbackPart for Field {
    fn router(_: &Plain) -> RouterKind {
        RouterKind::Estcp
    }
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, _: Duration, _: f64) {
        packet.header = UNWRITTEN;
    }
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        Field { latest: CongestionHeader::None }
    }
}

impl Feedback for Field {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.latest = packet.header;
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        ack.header = self.latest;
    }
}

impl FeedbackPart for Bits {
    fn router(_: &EstcpConfig) -> RouterKind {
        RouterKind::Estcp
    }
    #[inline]
    fn stamp(_: &EstcpConfig, packet: &mut Packet, _: Duration, _: f64) {
        packet.header = CongestionHeader::EstcpBits { bits: 0 };
    }
    fn new(_: &EstcpConfig, _: &EndpointConfig) -> Self {
        Bits { latest: CongestionHeader::None }
    }
}

impl Feedback for Bits {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.latest = packet.header;
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        ack.header = self.latest;
    }
}
