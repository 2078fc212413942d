//! Axis 4, the end-host half: what packets carry and acknowledgments echo.
//!
//! The sender stamps a header onto data packets, routers rewrite it, and the receiver's [`Echo`]
//! carries it back on the next acknowledgment.

mod notification;

use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::Duration;

use notification::Record;
pub use notification::{Direction, Granularity, News, Notice, Notification, REPORT_INTERVAL};

/// The congestion header a protocol uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// None, or ECN where the endpoints negotiate it.
    None,
    /// XCP's header: rtt, inter-packet time, demanded change of throughput.
    Xcp,
    /// XTCP's congestion flag, copied into the acknowledgment (lr2008 section 3.2).
    CongestionFlag,
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
            Feedback::None | Feedback::Xcp | Feedback::CongestionFlag => None,
        }
    }

    /// Writes the header of a data packet sent with a window of `window` packets.
    #[inline]
    pub fn stamp(self, packet: &mut Packet, srtt: Duration, window: f64) {
        match self {
            Feedback::None => packet.header = CongestionHeader::None,
            Feedback::Xcp => {
                let rtt = srtt.as_secs_f64();
                // draft-falk-xcp-spec-03 section 3.1: ask for all there is; routers cut it down.
                packet.header =
                    CongestionHeader::Xcp { rtt, inter_packet: rtt / window, delta: f64::MAX };
            }
            Feedback::CongestionFlag => {
                packet.header = CongestionHeader::None;
                packet.flags.insert(Flags::XTCP);
            }
            Feedback::Corruption(notification) => {
                packet.header = match (notification.granularity, notification.direction) {
                    (Granularity::Cumulative, Direction::Forward) => {
                        CongestionHeader::Survival { probability: 1.0 }
                    }
                    _ => CongestionHeader::None,
                };
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
    congestion_flag: bool,
    corruption: Record,
    /// ECN: echo until the sender says it has reduced its window (RFC 3168 section 6.1.3).
    ecn: bool,
}

impl Echo {
    /// The receiver's half of a protocol with that feedback.
    pub fn new(feedback: Feedback) -> Self {
        let corruption = Record::new();
        Echo { feedback, xcp: None, congestion_flag: false, corruption, ecn: false }
    }

    /// A data packet arrived.
    #[inline]
    pub fn on_data(&mut self, packet: &Packet) {
        match self.feedback {
            Feedback::None => {}
            Feedback::Xcp => {
                if let CongestionHeader::Xcp { delta, rtt, .. } = packet.header {
                    // Before the first RTT sample a packet asks for nothing to be granted.
                    let granted = if rtt > 0.0 { delta } else { 0.0 };
                    *self.xcp.get_or_insert(0.0) += granted;
                }
            }
            Feedback::CongestionFlag => {
                self.congestion_flag |= packet.flags.contains(Flags::CONGESTION);
            }
            Feedback::Corruption(_) => self.corruption.on_data(packet),
        }
        if packet.flags.contains(Flags::WINDOW_REDUCED) {
            self.ecn = false;
        }
        self.ecn |= packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
    }

    /// A data packet arrived of which only the header is intact.
    pub fn on_corrupted(&mut self, packet: &Packet) {
        self.corruption.on_corrupted(packet.seq);
    }

    /// Writes the echo into an acknowledgment.
    #[inline]
    pub fn write(&mut self, ack: &mut Packet) {
        ack.header = match (self.xcp.take(), self.feedback) {
            (Some(feedback), _) => CongestionHeader::XcpReverse { feedback },
            (None, Feedback::Corruption(Notification { granularity, direction })) => {
                match direction {
                    Direction::Forward => self.corruption.header(granularity),
                    Direction::Backward => CongestionHeader::None,
                }
            }
            (None, _) => CongestionHeader::None,
        };
        if std::mem::take(&mut self.congestion_flag) {
            ack.flags.insert(Flags::CONGESTION);
        }
        if self.ecn {
            ack.flags.insert(Flags::ECN_ECHO);
        }
    }
}
