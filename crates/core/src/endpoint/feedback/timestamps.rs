//! Acknowledgments that carry the arrival time at the receiver (RFC 7323), alone or with the
//! congestion warning of TCP New Jersey (Xu, Tian and Ansari 2005): the mark of a packet on its
//! own acknowledgment.

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The arrival time of the first packet since the last acknowledgment.
#[derive(Debug, Default)]
pub struct Timestamps {
    received: Option<Time>,
}

/// The same arrival time, and whether a packet since then was marked.
#[derive(Debug, Default)]
pub struct CongestionWarning {
    times: Timestamps,
    marked: bool,
}

impl Timestamps {
    fn note(&mut self, now: Time) {
        self.received.get_or_insert(now);
    }
    fn tell(&mut self, ack: &mut Packet) {
        if let Some(received) = self.received.take() {
            ack.header = CongestionHeader::Timestamps { received };
        }
    }
}

impl Part for Timestamps {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "timestamps",
            what: "ACKs carry the arrival time at the receiver",
            source: "RFC 7323",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::ArrivalTimes]
    }
}

impl Part for CongestionWarning {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "timestamps+cw",
            what: "ACKs carry the arrival time and echo the warning of each packet",
            source: "Xu, Tian and Ansari 2005",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::ArrivalTimes, Ability::Warning]
    }
}

impl FeedbackPart for Timestamps {
    const STAMPS: bool = false;
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        Timestamps::default()
    }
}

impl Feedback for Timestamps {
    #[inline]
    fn on_data(&mut self, now: Time, _: &Packet) {
        self.note(now);
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        self.tell(ack);
    }
}

impl FeedbackPart for CongestionWarning {
    /// Each mark is echoed once, not until the sender responds as in RFC 3168.
    const ECHOES_MARKS: bool = true;
    fn router(_: &Plain) -> RouterKind {
        RouterKind::CongestionWarning
    }
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, _: Duration, _: f64) {
        packet.flags.insert(Flags::ECN_CAPABLE);
    }
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        CongestionWarning::default()
    }
}

impl Feedback for CongestionWarning {
    #[inline]
    fn on_data(&mut self, now: Time, packet: &Packet) {
        self.times.note(now);
        self.marked |= packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        self.times.tell(ack);
        if std::mem::take(&mut self.marked) {
            ack.flags.insert(Flags::ECN_ECHO);
        }
    }
}
