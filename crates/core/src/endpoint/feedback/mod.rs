//! Axis 4, the end-host half: what packets carry and acknowledgments echo.
//!
//! The sender stamps a header onto data packets, routers rewrite it, and the receiver's [`Echo`]
//! carries it back on the next acknowledgment.

mod xcp_r;

use super::EndpointConfig;
use crate::packet::{CongestionHeader, Flags, Packet};
use crate::units::Duration;

use xcp_r::ReceiverWindow;
pub use xcp_r::{CongestionFlag, Formula, XcpRConfig};

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
}

impl Feedback {
    /// Writes the header of a data packet sent with a window of `window` packets.
    #[inline]
    pub fn stamp(self, packet: &mut Packet, srtt: Duration, window: f64) {
        match self {
            Feedback::None => packet.header = CongestionHeader::None,
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
    /// ECN: echo until the sender says it has reduced its window (RFC 3168 section 6.1.3).
    ecn: bool,
}

impl Echo {
    /// The receiver's half of a protocol with that feedback.
    pub fn new(feedback: Feedback, config: &EndpointConfig) -> Self {
        let window = (feedback == Feedback::XcpR).then(|| ReceiverWindow::new(config));
        Echo { feedback, xcp: None, window, congestion_flag: false, ecn: false }
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
            Feedback::XcpR => {
                if let Some(window) = &mut self.window {
                    window.on_data(packet);
                }
            }
            Feedback::CongestionFlag => {
                self.congestion_flag |= packet.flags.contains(Flags::CONGESTION);
            }
        }
        if packet.flags.contains(Flags::WINDOW_REDUCED) {
            self.ecn = false;
        }
        self.ecn |= packet.flags.contains(Flags::CONGESTION_EXPERIENCED);
    }

    /// Writes the echo into an acknowledgment.
    #[inline]
    pub fn write(&mut self, ack: &mut Packet) {
        ack.header = match (self.xcp.take(), &self.window) {
            (Some(feedback), _) => CongestionHeader::XcpReverse { feedback },
            (None, Some(window)) => window.header(),
            (None, None) => CongestionHeader::None,
        };
        if std::mem::take(&mut self.congestion_flag) {
            ack.flags.insert(Flags::CONGESTION);
        }
        if self.ecn {
            ack.flags.insert(Flags::ECN_ECHO);
        }
    }
}
