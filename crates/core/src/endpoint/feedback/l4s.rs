//! The L4S identifier with an exact echo of each mark (RFC 9331 section 4: ECT(1) on all data, and
//! accurate ECN feedback). No router support is required: a queue with L4S, such as dualpi2, marks
//! early and often; any other queue treats ECT(1) as ECT(0), or ignores it.
//!
//! The receiver reports for every packet whether it was marked, as in RFC 8257; the counters of
//! AccECN (draft-ietf-tcpm-accurate-ecn) would report the same with fewer acknowledgments.

use super::exact_ecn::ExactEcn;
use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::packet::{Flags, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The receiver's half: that of exact ECN.
#[derive(Debug)]
pub struct L4s(ExactEcn);

impl Part for L4s {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "l4s",
            what: "ECT(1) on every data packet; the receiver echoes each mark exactly",
            source: "RFC 9331 section 4",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::EachMark]
    }
}

impl FeedbackPart for L4s {
    const ECHOES_MARKS: bool = true;
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, _: Duration, _: f64) {
        packet.flags.insert(Flags::ECN_CAPABLE.with(Flags::L4S));
    }
    fn new(config: &Plain, endpoint: &EndpointConfig) -> Self {
        L4s(ExactEcn::new(config, endpoint))
    }
}

impl Feedback for L4s {
    #[inline]
    fn on_data(&mut self, now: Time, packet: &Packet) {
        self.0.on_data(now, packet);
    }
    #[inline]
    fn turns(&self, packet: &Packet) -> bool {
        self.0.turns(packet)
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        self.0.write(ack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_l4s_and_each_mark_comes_back() {
        let mut data = Packet::default();
        L4s::stamp(&Plain, &mut data, Duration::ZERO, 1.0);
        assert_eq!(data.flags, Flags::ECN_CAPABLE.with(Flags::L4S));
        let mut half = L4s::new(&Plain, &EndpointConfig::default());
        for is_marked in [false, true, false] {
            let mut data = data.clone();
            if is_marked {
                data.flags.insert(Flags::CONGESTION_EXPERIENCED);
            }
            half.on_data(Time::ZERO, &data);
            let mut ack = Packet::default();
            half.write(&mut ack);
            assert_eq!(ack.flags.contains(Flags::ECN_ECHO), is_marked);
        }
    }
}
