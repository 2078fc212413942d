//! XCP's header (draft-falk-xcp-spec-03 section 2): rtt, inter-packet time, demanded change of
//! throughput. Acknowledgments return the sum of the granted changes.

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The sum of the changes granted to packets since the last acknowledgment, so that delayed
/// acknowledgments lose none (draft section 3.3).
#[derive(Debug, Default)]
pub struct Xcp {
    granted: Option<f64>,
}

/// The header of a data packet; XCP-r's is the same.
#[inline]
pub(crate) fn stamp(packet: &mut Packet, srtt: Duration, window: f64) {
    let rtt = srtt.as_secs_f64();
    packet.header = CongestionHeader::Xcp {
        rtt,
        inter_packet: rtt / window,
        // draft-falk-xcp-spec-03 section 3.1: demand everything; routers reduce it.
        delta: f64::MAX,
        congestion_flag: 0,
    };
}

impl Part for Xcp {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "xcp",
            what: "packets carry rtt and the demanded change of throughput; ACKs echo the grant",
            source: "draft-falk-xcp-spec-03 section 2",
        },
        config: Plain,
    }];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::XcpFeedback]
    }
}

impl FeedbackPart for Xcp {
    fn router(_: &Plain) -> RouterKind {
        RouterKind::Xcp
    }
    #[inline]
    fn stamp(_: &Plain, packet: &mut Packet, srtt: Duration, window: f64) {
        stamp(packet, srtt, window);
    }
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        Xcp::default()
    }
}

impl Feedback for Xcp {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        if let CongestionHeader::Xcp { delta, rtt, .. } = packet.header {
            // Before the first RTT sample nothing is granted.
            let granted = if rtt > 0.0 { delta } else { 0.0 };
            *self.granted.get_or_insert(0.0) += granted;
        }
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        if let Some(feedback) = self.granted.take() {
            ack.header = CongestionHeader::XcpReverse { feedback };
        }
    }
}
