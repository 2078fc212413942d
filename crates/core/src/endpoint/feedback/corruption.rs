//! Explicit transport error notification at the two ends (eten2004 section 3.3); `notification` has
//! its types.

use super::notification::{CorruptionLog, Direction, Granularity, Notification};
use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{
    Ability, Form, ParameterDoc, ParameterValue, Parameters, Part, Setting, Value, ValueKind,
    Words, put,
};
use crate::units::{Duration, Time};

crate::words!(Direction { Forward = "forward", Backward = "backward" });

// By hand, since the key is not the field's name.
impl Parameters for Notification {
    fn tables() -> Vec<(&'static str, &'static str)> {
        vec![("", "")]
    }
    fn settings(&self) -> Vec<Setting> {
        let doc = ParameterDoc {
            key: "notification",
            kind: ValueKind::Word(Direction::WORDS),
            unit: "",
            meaning: "direction of notices of corruption",
            absent: "",
            advice: None,
        };
        vec![Setting { table: "", doc, value: self.direction.into_value(), applies: true }]
    }
    fn set(&mut self, table: &str, key: &str, value: Value) -> bool {
        table.is_empty() && key == "notification" && put(&mut self.direction, value)
    }
}

/// The state of a receiver that reports corruption.
#[derive(Debug)]
pub struct Corruption {
    notification: Notification,
    record: CorruptionLog,
}

const SOURCE: &str = "eten2004 sections 3.3, 4.1";

/// A form described by ETEN's taxonomy: locus, granularity, band and direction.
const fn form(
    granularity: Granularity,
    direction: Direction,
    name: &'static str,
    what: &'static str,
) -> Form<Notification> {
    Form {
        words: Words { name, what, source: SOURCE },
        config: Notification { granularity, direction },
    }
}

impl Part for Corruption {
    type Config = Notification;
    const FORMS: &'static [Form<Notification>] = &[
        form(
            Granularity::PerPacket,
            Direction::Forward,
            "corrupted-forward",
            "hop-by-hop, per packet, in-band, forward: damaged packets are forwarded, ACKs name them",
        ),
        form(
            Granularity::PerPacket,
            Direction::Backward,
            "corrupted-backward",
            "hop-by-hop, per packet, out-of-band, backward: the link's end names corrupted packets \
             at once",
        ),
        form(
            Granularity::Cumulative,
            Direction::Forward,
            "survival-forward",
            "hop-by-hop, cumulative, in-band, forward: a survival probability times (1 - r) per \
             link; ACKs echo it",
        ),
        form(
            Granularity::Cumulative,
            Direction::Backward,
            "survival-backward",
            "hop-by-hop, cumulative, out-of-band, backward: each link's end sends its rate r",
        ),
    ];
    fn form(config: &Notification) -> &'static Form<Notification> {
        let cumulative = usize::from(config.granularity == Granularity::Cumulative);
        let backward = usize::from(config.direction == Direction::Backward);
        &Self::FORMS[2 * cumulative + backward]
    }
    fn gives(config: &Notification) -> &'static [Ability] {
        match config.granularity {
            Granularity::PerPacket => &[Ability::CorruptedPackets],
            Granularity::Cumulative => &[Ability::Survival],
        }
    }
}

impl FeedbackPart for Corruption {
    fn notification(config: &Notification) -> Option<Notification> {
        Some(*config)
    }
    #[inline]
    fn stamp(config: &Notification, packet: &mut Packet, _: Duration, _: f64) {
        if let (Granularity::Cumulative, Direction::Forward) =
            (config.granularity, config.direction)
        {
            packet.header = CongestionHeader::Survival { probability: 1.0 };
        }
    }
    fn new(config: &Notification, _: &EndpointConfig) -> Self {
        Corruption { notification: *config, record: CorruptionLog::new() }
    }
}

impl Feedback for Corruption {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.record.on_data(packet);
    }
    fn on_corrupted(&mut self, packet: &Packet) {
        self.record.on_corrupted(packet.seq);
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        if self.notification.direction == Direction::Forward {
            ack.header = self.record.header(self.notification.granularity);
        }
    }
}
