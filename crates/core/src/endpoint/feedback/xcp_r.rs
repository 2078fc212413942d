//! The receiver of XCP-r (Lopez-Pacheco and Pham 2005, section IV): cwnd' and how it moves.
//!
//! The receiver does what the sender of XCP does: it sums up the feedback of the data packets.
//! Acknowledgments carry the sum, the window, instead of its increments, so that any one of them
//! tells all. After a congestion the sender sets its window itself; a congestion flag in the
//! header makes the receiver read `H_cwnd` again and go on from there.
//!
//! ```text
//! cwnd' <- H_cwnd                                  if the congestion flag says so
//! cwnd' <- max(cwnd' + H_feedback, 1)              every data packet
//! ```
//!
//! The paper's header has windows: `H_cwnd`, and `H_feedback` in packets. This one is the
//! draft's, in throughput. They correspond by
//!
//! ```text
//! H_cwnd = rtt / inter_packet        H_feedback = delta rtt / packet size
//! ```
//!
//! with the `rtt` of the same header, as routers of the paper's form multiply by it; XCP's sender
//! multiplies by the srtt it has when the acknowledgment arrives, one round trip later.
//!
//! Choices where the paper is silent:
//!
//! - There is no SYN: cwnd' begins with the initial window, which both ends know. The paper's 1 is
//!   `initial_window = 1`.
//! - What the flag looks like: see [`CongestionFlag`].
//! - A packet sent before the change of the window that the receiver has already read adds its
//!   feedback to the new cwnd', as the sender of XCP adds what its acknowledgment brings.
//! - Before the first RTT sample a header holds no `H_cwnd`. A flag then means a window of 1, for
//!   it is a timeout that set it.
//! - cwnd' is at most the receiver window, which the receiver knows and the sender keeps to.

use super::{Feedback, FeedbackPart, xcp};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

/// Parameters of `xcp-r`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XcpRConfig {
    /// How the receiver computes the window.
    pub formula: Formula,
    /// The form of the congestion flag.
    pub congestion_flag: CongestionFlag,
}

impl XcpRConfig {
    /// The paper's proposition, with a flag that no loss can hide.
    pub const DEFAULT: XcpRConfig =
        XcpRConfig { formula: Formula::Incremental, congestion_flag: CongestionFlag::Count };
}
crate::words!(Formula { Incremental = "incremental", PerWindow = "per-window" });
crate::words!(CongestionFlag { Count = "count", Once = "once" });
crate::parameters! {
    XcpRConfig in "xcp_r", "xcp-r: how the receiver keeps the window";
    formula: ValueKind::Word(Formula::WORDS), "",
        "packet by packet, or the paper's rejected first version";
    congestion_flag: ValueKind::Word(CongestionFlag::WORDS), "",
        "count of window changes in every packet, or a bit, once: the paper's words, which lost \
         ACKs undo";
}

/// How the receiver of XCP-r computes the window from the feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// cwnd' + H_feedback, packet by packet: the paper's proposition.
    Incremental,
    /// (H_feedback H_cwnd) + H_cwnd: the paper's first version, rejected because it takes the
    /// feedback of one packet for that of a whole window.
    PerWindow,
}

/// The form of the congestion flag of XCP-r. The paper has "an additional special congestion
/// flag field" that is set "whenever the cwnd is reset", and does not say for how long, nor what
/// happens to packets and acknowledgments that were on their way at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionFlag {
    /// The field counts the sender's changes of its window, modulo 2^16. Every packet carries
    /// it, so that none is missed when packets are lost; the receiver reads `H_cwnd` once for
    /// each, from the first packet that brings it; acknowledgments echo the count, and the sender
    /// leaves those alone that left before the receiver knew.
    Count,
    /// One bit on the first packet after each reset, and the sender takes every window that
    /// comes back: the paper's words and nothing more. The bit is lost with its packet, and
    /// acknowledgments on their way at that moment bring the old window back: with 30 % of them
    /// lost a flow alone has four times the timeouts and a fifth less goodput.
    Once,
}

/// cwnd' of one flow.
#[derive(Debug, Clone)]
pub struct ReceiverWindow {
    config: XcpRConfig,
    most: f64,
    window: f64,
    /// The latest congestion flag acted on.
    read: u16,
}

impl Part for ReceiverWindow {
    type Config = XcpRConfig;
    const FORMS: &'static [Form<XcpRConfig>] = &[Form {
        words: Words {
            name: "xcp-r",
            what: "packets carry XCP's header; the receiver sums the grants, ACKs carry the window",
            source: "xcpr2005 section IV",
        },
        config: XcpRConfig::DEFAULT,
    }];
    fn gives(_: &XcpRConfig) -> &'static [Ability] {
        &[Ability::XcpWindow]
    }
}

impl ReceiverWindow {
    fn of(config: XcpRConfig, endpoint: &EndpointConfig) -> Self {
        ReceiverWindow {
            config,
            most: endpoint.rwnd as f64,
            window: endpoint.initial_window,
            read: 0,
        }
    }

    /// A data packet arrived.
    fn take_in(&mut self, packet: &Packet) {
        let CongestionHeader::Xcp { rtt, inter_packet, delta, congestion_flag } = packet.header
        else {
            return;
        };
        // No RTT: nothing is granted, and H_cwnd is unknown.
        let (carried, feedback) = if rtt > 0.0 {
            (Some(rtt / inter_packet), delta * rtt / f64::from(packet.size))
        } else {
            (None, 0.0)
        };
        let reads = match self.config.congestion_flag {
            // Older counts are those of packets overtaken on their way.
            CongestionFlag::Count => congestion_flag.wrapping_sub(self.read).cast_signed() > 0,
            CongestionFlag::Once => congestion_flag != 0,
        };
        if reads {
            self.window = carried.unwrap_or(1.0);
            if self.config.congestion_flag == CongestionFlag::Count {
                self.read = congestion_flag;
            }
        }
        let window = match (self.config.formula, carried) {
            (Formula::PerWindow, Some(carried)) => feedback * carried + carried,
            (Formula::Incremental, _) | (Formula::PerWindow, None) => self.window + feedback,
        };
        self.window = window.clamp(1.0, self.most);
    }

    /// The header of an acknowledgment.
    fn header(&self) -> CongestionHeader {
        CongestionHeader::XcpWindow { window: self.window, congestion_flag: self.read }
    }
}

impl FeedbackPart for ReceiverWindow {
    fn router(_: &XcpRConfig) -> RouterKind {
        RouterKind::Xcp
    }
    #[inline]
    fn stamp(_: &XcpRConfig, packet: &mut Packet, srtt: Duration, window: f64) {
        xcp::stamp(packet, srtt, window);
    }
    fn new(config: &XcpRConfig, endpoint: &EndpointConfig) -> Self {
        ReceiverWindow::of(*config, endpoint)
    }
}

impl Feedback for ReceiverWindow {
    #[inline]
    fn on_data(&mut self, _: Time, packet: &Packet) {
        self.take_in(packet);
    }
    #[inline]
    fn write(&mut self, ack: &mut Packet) {
        ack.header = self.header();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of 1000 bytes from a window of `cwnd`, RTT 100 ms, granted `packets` more a RTT.
    fn data(cwnd: f64, packets: f64, congestion_flag: u16) -> Packet {
        let (rtt, delta) = (0.1, packets * 1000.0 / 0.1);
        let header =
            CongestionHeader::Xcp { rtt, inter_packet: rtt / cwnd, delta, congestion_flag };
        Packet { size: 1000, header, ..Packet::default() }
    }

    fn first_packet(congestion_flag: u16) -> Packet {
        let header =
            CongestionHeader::Xcp { rtt: 0.0, inter_packet: 0.0, delta: 0.0, congestion_flag };
        Packet { size: 1000, header, ..Packet::default() }
    }

    fn receiver(xcp_r: XcpRConfig) -> ReceiverWindow {
        let endpoint =
            EndpointConfig { initial_window: 1.0, rwnd: 1000, ..EndpointConfig::default() };
        ReceiverWindow::of(xcp_r, &endpoint)
    }

    #[track_caller]
    fn holds(receiver: &ReceiverWindow, expected: f64, flag: u16) {
        match receiver.header() {
            CongestionHeader::XcpWindow { window, congestion_flag } => {
                assert!((window - expected).abs() < 1e-9, "cwnd' is {window}, not {expected}");
                assert_eq!(congestion_flag, flag);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_window_is_the_sum_of_the_feedback() {
        let mut r = receiver(XcpRConfig::DEFAULT);
        r.take_in(&first_packet(0));
        holds(&r, 1.0, 0);
        // The header's H_cwnd is not looked at: the window moves by the feedback alone.
        for (packets, sum) in [(20.0, 21.0), (0.5, 21.5), (-1.5, 20.0), (-30.0, 1.0)] {
            r.take_in(&data(7.0, packets, 0));
            holds(&r, sum, 0);
        }
        r.take_in(&data(7.0, 5000.0, 0));
        holds(&r, 1000.0, 0); // The receiver window.
    }

    #[test]
    fn each_change_of_the_sender_is_read_once_and_never_backwards() {
        let mut r = receiver(XcpRConfig::DEFAULT);
        r.take_in(&data(1.0, 99.0, 0));
        holds(&r, 100.0, 0);
        // Halved to 50; the second packet after that repeats the flag.
        r.take_in(&data(50.0, 2.0, 1));
        holds(&r, 52.0, 1);
        r.take_in(&data(50.0, 2.0, 1));
        holds(&r, 54.0, 1);
        // Two changes further, one of which no packet brought: a timeout after a halving.
        r.take_in(&data(1.0, 3.0, 3));
        holds(&r, 4.0, 3);
        // Overtaken on its way: its flag is old, its feedback counts.
        r.take_in(&data(50.0, 1.0, 1));
        holds(&r, 5.0, 3);
        // The count comes round: 2^16 is 0 again, and later than 60 000, not than 30 000.
        r.take_in(&data(8.0, 0.0, 30_000));
        r.take_in(&data(9.0, 0.0, 0));
        holds(&r, 8.0, 30_000);
        r.take_in(&data(9.0, 0.0, 60_000));
        r.take_in(&data(2.0, 0.0, 0));
        holds(&r, 2.0, 0);
    }

    #[test]
    fn the_single_bit_is_read_whenever_it_is_set() {
        let config = XcpRConfig { congestion_flag: CongestionFlag::Once, ..XcpRConfig::DEFAULT };
        let mut r = receiver(config);
        r.take_in(&data(1.0, 99.0, 0));
        r.take_in(&data(50.0, 2.0, 1));
        holds(&r, 52.0, 0);
        r.take_in(&data(50.0, 2.0, 0));
        holds(&r, 54.0, 0);
        r.take_in(&data(1.0, 0.0, 1));
        holds(&r, 1.0, 0);
    }

    #[test]
    fn without_an_rtt_the_flag_means_a_window_of_one() {
        let config = EndpointConfig { initial_window: 10.0, ..EndpointConfig::default() };
        let mut r = ReceiverWindow::of(XcpRConfig::DEFAULT, &config);
        r.take_in(&first_packet(0));
        holds(&r, 10.0, 0);
        r.take_in(&first_packet(1));
        holds(&r, 1.0, 1);
    }

    #[test]
    fn the_first_formula_takes_one_packet_for_all() {
        // 0.02 packets on a packet from a window of 50: 0.02 x 50 + 50 = 51.
        let config = XcpRConfig { formula: Formula::PerWindow, ..XcpRConfig::DEFAULT };
        let mut r = receiver(config);
        r.take_in(&data(50.0, 0.02, 0));
        holds(&r, 51.0, 0);
        r.take_in(&data(50.0, 0.02, 0));
        holds(&r, 51.0, 0);
        // The one packet of a window of 1 is granted 520 packets: both formulas agree.
        r.take_in(&data(1.0, 520.0, 0));
        holds(&r, 521.0, 0);
        r.take_in(&first_packet(0));
        holds(&r, 521.0, 0);
    }
}
