//! Axis 4, the end-host half: what packets carry and acknowledgments echo.
//!
//! The sender stamps a header onto data packets, routers rewrite it, and the receiver's [`Echo`]
//! carries it back on the next acknowledgment.

mod notification;
mod xcp_r;

pub use notification::{Direction, Granularity, News, Notice, Notification, REPORT_INTERVAL};
pub use xcp_r::{CongestionFlag, Formula, XcpRConfig};

use super::EndpointConfig;
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::{Duration, Time};

use notification::Record;
use xcp_r::ReceiverWindow;

/// The congestion header a protocol uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// None, or ECN where the endpoints negotiate it.
    None,
    /// XCP's header: rtt, inter-packet time, demanded change of throughput.
    Xcp,
    /// XCP's header, and acknowledgments that carry the window (xcpr2005 section IV).
    XcpR,
    /// XTCP's congestion flag, copied into the acknowledgment (lr2008 section 3.2).
    CongestionFlag,
    /// ECN with an echo of each mark as it came (RFC 8257 section 3.2). All data is ECN-capable,
    /// retransmissions included (RFC 8311 section 4.3 allows it; Linux does so).
    ExactEcn,
    /// ESTCP's phase and g in a field of their own.
    Estcp,
    /// ESTCP's phase and g in the two ECN bits (estcp2010, Fig. 4).
    EstcpBits,
    /// Acknowledgments carry the arrival time at the receiver (RFC 7323).
    Timestamps,
    /// The same, and each acknowledgment echoes the ECN mark of its packet (TCP New Jersey).
    CongestionWarning,
    /// Explicit transport error notification (eten2004 section 3.3).
    Corruption(Notification),
}

impl Feedback {
    /// The same with notices of corruption going the given way, where there are notices.
    #[must_use]
    pub fn toward(self, direction: Option<Direction>) -> Feedback {
        match (self, direction) {
            (Feedback::Corruption(notification), Some(direction)) => {
                Feedback::Corruption(Notification { direction, ..notification })
            }
            _ => self,
        }
    }

    /// What notifiers tell of corruption, if they tell this protocol anything.
    pub fn notification(self) -> Option<Notification> {
        match self {
            Feedback::Corruption(notification) => Some(notification),
            _ => None,
        }
    }

    /// Writes the header of a data packet sent with a window of `window` packets.
    #[inline]
    pub fn stamp(self, packet: &mut Packet, srtt: Duration, window: f64) {
        match self {
            Feedback::None | Feedback::Timestamps => packet.header = CongestionHeader::None,
            Feedback::Xcp | Feedback::XcpR => {
                let rtt = srtt.as_secs_f64();
                packet.header = CongestionHeader::Xcp {
                    rtt,
                    inter_packet: rtt / window,
                    // draft-falk-xcp-spec-03 section 3.1: ask for all there is; routers cut it
                    // down.
                    delta: f64::MAX,
                    congestion_flag: 0,
                };
            }
            Feedback::CongestionFlag => {
                packet.header = CongestionHeader::None;
                packet.flags.insert(Flags::XTCP);
            }
            Feedback::Estcp => {
                packet.header = CongestionHeader::Estcp { phase: 0, g: 0.0, age: f64::INFINITY };
            }
            Feedback::EstcpBits => packet.header = CongestionHeader::EstcpBits { bits: 0 },
            Feedback::Corruption(notification) => {
                packet.header = match (notification.granularity, notification.direction) {
                    (Granularity::Cumulative, Direction::Forward) => {
                        CongestionHeader::Survival { probability: 1.0 }
                    }
                    _ => CongestionHeader::None,
                };
            }
            Feedback::ExactEcn | Feedback::CongestionWarning => {
                packet.header = CongestionHeader::None;
                packet.flags.insert(Flags::ECN_CAPABLE);
            }
        }
    }
}

/// What a receiver owes the sender until its next acknowledgment.
#[derive(Debug, Clone)]
pub struct Echo {
    feedback: Feedback,
    /// XCP: the sum of the changes granted to packets since the last acknowledgment, so that
    /// delayed acknowledgments lose none (draft section 3.3).
    xcp: Option<f64>,
    /// XCP-r's cwnd'.
    window: Option<ReceiverWindow>,
    congestion_flag: bool,
    /// ESTCP: what the latest packet brought.
    estcp: CongestionHeader,
    /// When the first packet since the last acknowledgment arrived.
    received: Option<Time>,
    corruption: Record,
    /// ECN: echo until the sender says it has reduced its window (RFC 3168 section 6.1.3). Exact
    /// ECN: the mark of the latest packet (RFC 8257: DCTCP.CE).
    ecn: bool,
}

impl Echo {
    /// The receiver's half of a protocol with that feedback.
    pub fn new(feedback: Feedback, config: &EndpointConfig) -> Self {
        Echo {
            feedback,
            xcp: None,
            window: (feedback == Feedback::XcpR).then(|| ReceiverWindow::new(config)),
            congestion_flag: false,
            estcp: CongestionHeader::None,
            received: None,
            corruption: Record::new(),
            ecn: false,
        }
    }

    /// A data packet arrived.
    #[inline]
    pub fn on_data(&mut self, now: Time, packet: &Packet) {
        match self.feedback {
            Feedback::None => {}
            Feedback::Xcp => {
                if let CongestionHeader::Xcp { delta, rtt, .. } = packet.header {
                    // Before the first RTT sample a packet asks for nothing to be granted.
                    let granted = if rtt > 0.0 { delta } else { 0.0 };
                    *self.xcp.get_or_insert(0.0) += granted;
                }
            }
            Feedback::XcpR => {
                if let Some(window) = &mut self.window {
                    window.on_data(packet);
                }
            }
            Feedback::CongestionFlag => {
                self.congestion_flag |= packet.flags.contains(Flags::CONGESTION);
            }
            Feedback::ExactEcn => {
                self.ecn = packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
                return;
            }
            Feedback::Estcp | Feedback::EstcpBits => self.estcp = packet.header,
            Feedback::Timestamps => {
                self.received.get_or_insert(now);
            }
            Feedback::CongestionWarning => {
                self.received.get_or_insert(now);
                // A mark each, not RFC 3168's echo until the sender answers.
                self.ecn |= packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
                return;
            }
            Feedback::Corruption(_) => self.corruption.on_data(packet),
        }
        if packet.flags.contains(Flags::WINDOW_REDUCED) {
            self.ecn = false;
        }
        self.ecn |= packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
    }

    /// Must what is held back be acknowledged before `packet` is taken in, because its mark
    /// differs (RFC 8257 section 3.2)?
    #[inline]
    pub fn turns(&self, packet: &Packet) -> bool {
        self.feedback == Feedback::ExactEcn
            && packet.flags.contains(Flags::CONGESTION_EXPERIENCED) != self.ecn
    }

    /// A data packet arrived of which only the header is intact.
    pub fn on_corrupted(&mut self, packet: &Packet) {
        self.corruption.on_corrupted(packet.seq);
    }

    /// Writes the echo into an acknowledgment.
    #[inline]
    pub fn write(&mut self, ack: &mut Packet) {
        ack.header = match self.feedback {
            Feedback::None | Feedback::CongestionFlag | Feedback::ExactEcn => {
                CongestionHeader::None
            }
            Feedback::Xcp => match self.xcp.take() {
                Some(feedback) => CongestionHeader::XcpReverse { feedback },
                None => CongestionHeader::None,
            },
            Feedback::XcpR => {
                self.window.as_ref().map_or(CongestionHeader::None, ReceiverWindow::header)
            }
            Feedback::Estcp | Feedback::EstcpBits => self.estcp,
            Feedback::Timestamps | Feedback::CongestionWarning => match self.received.take() {
                Some(received) => CongestionHeader::Timestamps { received },
                None => CongestionHeader::None,
            },
            Feedback::Corruption(Notification { granularity, direction }) => match direction {
                Direction::Forward => self.corruption.header(granularity),
                Direction::Backward => CongestionHeader::None,
            },
        };
        if std::mem::take(&mut self.congestion_flag) {
            ack.flags.insert(Flags::CONGESTION);
        }
        if self.ecn {
            ack.flags.insert(Flags::ECN_ECHO);
            self.ecn = self.feedback != Feedback::CongestionWarning;
        }
    }
}
