//! The receiver of XCP-r (Lopez-Pacheco and Pham 2005, section IV), which computes the window
//! cwnd'.
//!
//! The receiver does the work of XCP's sender: it sums the feedback of data packets. Each
//! acknowledgment carries the sum, the window, instead of an increment, so that any one of them is
//! complete. After congestion the sender sets its window itself; a congestion flag in the header
//! makes the receiver read `H_cwnd` again and continue from there.
//!
//! ```text
//! cwnd' <- H_cwnd                                  on a congestion flag
//! cwnd' <- max(cwnd' + H_feedback, 1)              every data packet
//! ```
//!
//! The paper's header has windows: `H_cwnd`, and `H_feedback` in packets. The header here is that
//! of the draft, in throughput. They correspond by
//!
//! ```text
//! H_cwnd = rtt / inter_packet        H_feedback = delta rtt / packet size
//! ```
//!
//! with the `rtt` of the same header, by which routers multiply in the paper's form; XCP's sender
//! multiplies by its srtt when the acknowledgment arrives, one round trip later.
//!
//! Choices where the paper is silent:
//!
//! - There is no SYN: cwnd' begins with the initial window, which both ends know. The paper's 1 is
//!   `initial_window = 1`.
//! - The form of the flag: see [`CongestionFlag`].
//! - A packet sent before a change of the window that the receiver has already read adds its
//!   feedback to the new cwnd', as in XCP's sender.
//! - Before the first RTT sample a header has no `H_cwnd`. A flag then means a window of 1, since
//!   only a timeout can have set it.
//! - cwnd' is at most the receiver window, which the receiver knows and the sender respects.

use super::{Feedback, FeedbackPart, xcp};
use crate::endpoint::EndpointConfig;
use crate::network::RouterKind;
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

crate::parameters! {
    /// Parameters of `xcp-r`.
    #[derive(Eq)]
    pub struct XcpRConfig in "xcp_r", "xcp-r: computation of the window at the receiver";
    /// The paper's proposal, with a flag that survives losses.
    pub const DEFAULT;
    formula: Formula = Formula::Incremental, ValueKind::Word(Formula::WORDS), "",
        "sum over packets, or the paper's rejected first version";
    congestion_flag: CongestionFlag = CongestionFlag::Count,
        ValueKind::Word(CongestionFlag::WORDS), "",
        "count of window changes in every packet, or a bit, once: the paper's words, which ACKs in \
         flight undo";
}

crate::words!(Formula { Incremental = "incremental", PerWindow = "per-window" });
crate::words!(CongestionFlag { Count = "count", Once = "once" });
/// The formula by which the receiver of XCP-r computes the window from the feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// cwnd' + H_feedback for each packet: the paper's proposal.
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
    /// The field counts the sender's changes of its window, modulo 2^16. Every packet carries it,
    /// so that losses hide no change. The receiver reads `H_cwnd` once for each change, from the
    /// first packet that carries it. Acknowledgments echo the count, and the sender ignores those
    /// sent before the receiver knew of the change.
    Count,
    /// One bit on the first packet after each change, and the sender applies every window that
    /// comes back: the paper, literally. The bit is lost with its packet, and acknowledgments in
    /// flight at that moment restore the old window.
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

    /// Handles a data packet.
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
            // Older counts belong to packets overtaken on the path.
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
        // The header's H_cwnd is ignored: the window changes by the feedback alone.
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
        // Two changes further, one of which no packet carried: a timeout after a halving.
        r.take_in(&data(1.0, 3.0, 3));
        holds(&r, 4.0, 3);
        // An overtaken packet: its flag is old, its feedback counts.
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
