//! Help of any kind from routers: every packet carries XTCP's flag, and the headers of XCP, ESTCP
//! and CETEN take turns, since a packet has room for one header.
//!
//! If no router on the path knows a header, its echo is unchanged. A controller that receives
//! feedback of one kind requests only that kind ([`Controller::announce`]).
//!
//! | packet number modulo 4 | header |
//! | --- | --- |
//! | 0 | XCP: rtt, inter-packet time, demanded change (draft-falk-xcp-spec-03 section 2) |
//! | 1 | ESTCP: phase and g (estcp2010) |
//! | 2 | survival probability (eten2004 section 4.1) |
//! | 3 | none |
//!
//! XCP's routers divide their grants among the packets that request them, so that the quarter of
//! the packets with XCP's header receives all of the grants.
//!
//! [`Controller::announce`]: crate::endpoint::window::Controller::announce

use super::estcp;
use super::flag::Flag;
use super::xcp::{self, Xcp};
use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Part, Plain, Words};
use crate::units::{Duration, Time};

/// The receiver's half: the pending echo of each header.
#[derive(Debug)]
pub struct Help {
    flag: Flag,
    xcp: Xcp,
    /// The latest field of ESTCP, and the latest survival probability.
    latest: [CongestionHeader; 2],
    /// The index of the one to echo first.
    turn: usize,
}

impl Part for Help {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "help",
            what: "XTCP's flag, and in turn the headers of XCP, ESTCP and CETEN; and ECN",
            source: "lr2008 section 3.2; draft-falk-xcp-spec-03 section 2; estcp2010; eten2004 \
                section 4.1",
        },
        config: Plain,
    }];
    const READS: &'static [&'static str] = &["ecn"];
    fn gives(_: &Plain) -> &'static [Ability] {
        &[Ability::CongestionFlag]
    }
}

impl FeedbackPart for Help {
    #[inline]
    fn stamp(config: &Plain, packet: &mut Packet, srtt: Duration, window: f64) {
        Flag::stamp(config, packet, srtt, window);
        match packet.packet_seq % 4 {
            0 if !srtt.is_zero() => xcp::stamp(packet, srtt, window),
            1 => packet.header = estcp::UNWRITTEN,
            2 => packet.header = CongestionHeader::Survival { probability: 1.0 },
            _ => {}
        }
    }
    fn new(config: &Plain, endpoint: &EndpointConfig) -> Self {
        Help {
            flag: Flag::new(config, endpoint),
            xcp: Xcp::default(),
            latest: [CongestionHeader::None; 2],
            turn: 0,
        }
    }
}

impl Feedback for Help {
    #[inline]
    fn on_data(&mut self, now: Time, packet: &Packet) {
        self.flag.on_data(now, packet);
        match packet.header {
            CongestionHeader::Xcp { .. } => self.xcp.on_data(now, packet),
            CongestionHeader::Estcp { .. } => self.latest[0] = packet.header,
            CongestionHeader::Survival { .. } => self.latest[1] = packet.header,
            _ => {}
        }
    }
    /// Writes the changes that XCP's routers granted first, since their sum must be complete.
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        self.flag.write(ack);
        self.xcp.write(ack);
        for _ in 0..2 {
            if ack.header != CongestionHeader::None {
                return;
            }
            ack.header = std::mem::take(&mut self.latest[self.turn]);
            self.turn = 1 - self.turn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Flags;

    fn stamped(number: u64) -> Packet {
        let mut packet = Packet { packet_seq: number, ..Packet::default() };
        Help::stamp(&Plain, &mut packet, Duration::from_millis(100), 10.0);
        packet
    }

    #[test]
    fn headers_take_turns_and_every_packet_may_be_flagged() {
        let packets = [4, 5, 6, 7].map(stamped);
        assert!(packets.iter().all(|packet| packet.flags.contains(Flags::XTCP)));
        let [xcp, estcp, survival, none] = packets.map(|packet| packet.header);
        // 100 ms over 10 packets.
        let CongestionHeader::Xcp { rtt, inter_packet, .. } = xcp else { panic!("{xcp:?}") };
        assert_eq!((rtt, inter_packet), (0.1, 0.01));
        assert_eq!(estcp, estcp::UNWRITTEN);
        assert_eq!(survival, CongestionHeader::Survival { probability: 1.0 });
        assert_eq!(none, CongestionHeader::None);
        // Before the first RTT sample nothing is requested from XCP's routers.
        let mut packet = Packet { packet_seq: 4, ..Packet::default() };
        Help::stamp(&Plain, &mut packet, Duration::ZERO, 10.0);
        assert_eq!(packet.header, CongestionHeader::None);
    }

    #[test]
    fn an_acknowledgment_of_several_packets_loses_nothing_of_what_was_granted() {
        let mut help = Help::new(&Plain, &EndpointConfig::default());
        let granted = |delta| {
            let mut packet = stamped(4);
            if let CongestionHeader::Xcp { delta: demanded, .. } = &mut packet.header {
                *demanded = delta;
            }
            packet
        };
        for packet in [granted(500.0), stamped(5), stamped(6), stamped(7), granted(-100.0)] {
            help.on_data(Time::ZERO, &packet);
        }
        let mut write = || {
            let mut ack = Packet::default();
            help.write(&mut ack);
            ack.header
        };
        assert_eq!(write(), CongestionHeader::XcpReverse { feedback: 400.0 });
        // The next acknowledgments have the latest of the others, one each.
        assert_eq!(write(), estcp::UNWRITTEN);
        assert_eq!(write(), CongestionHeader::Survival { probability: 1.0 });
        assert_eq!(write(), CongestionHeader::None);
    }
}
