//! The sender's window of XCP-r (xcpr2005 section IV): the receiver computes it.
//!
//! `cwnd = H_feedback`: the field is a window here, not an increment, so that one acknowledgment
//! makes up for all that were lost before it. When the sender itself changes cwnd, to half on
//! duplicate acknowledgments or to 1 on a timeout, it informs the receiver with the congestion
//! flag, and the receiver starts again from the window in the data packet.
//!
//! Acknowledgments sent before the receiver saw the flag carry a window computed from the old one.
//! The paper does not mention them; applied literally they would undo a reset at once. By default
//! they are recognised by the flag that they echo, and do not change cwnd;
//! [`CongestionFlag::Once`] applies them literally.

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::feedback::{CongestionFlag, FeedbackConfig, XcpRConfig};
use crate::packet::{CongestionHeader, Packet};
use crate::part::{Ability, Form, Need, Part, Plain, Words};

/// The state of the window of an XCP-r sender.
#[derive(Debug, Clone)]
pub struct XcpR {
    cwnd: f64,
    flag: CongestionFlag,
    /// The number of changes of cwnd by the sender, modulo 2^16.
    changes: u16,
    /// True if the latest change has not been announced yet.
    unannounced: bool,
}

impl Part for XcpR {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "xcp-r",
            what: "takes the window that the receiver computes from what the routers grant",
            source: "xcpr2005 section IV",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] =
        &[Need { any_of: &[Ability::XcpWindow], why: "the receiver does not compute the window" }];
}

impl ControllerPart for XcpR {
    /// Routers report congestion by their feedback.
    const ANSWERS_ECN: bool = false;
    const ANNOUNCES: bool = true;
    fn new(_: &Plain, setup: ControllerSetup<'_>) -> Self {
        let config = match *setup.feedback {
            FeedbackConfig::XcpR(config) => config,
            _ => XcpRConfig::DEFAULT,
        };
        XcpR {
            cwnd: setup.endpoint.initial_window,
            flag: config.congestion_flag,
            changes: 0,
            unannounced: false,
        }
    }
}

impl XcpR {
    fn set(&mut self, cwnd: f64) {
        // The flag is for a window that the sender modifies. A second timeout sets 1 to 1, and
        // "cwnd' remains unchanged at the receiver side" (section IV.B): the next acknowledgment
        // brings the growth that a lost one carried.
        if cwnd != self.cwnd {
            self.changes = self.changes.wrapping_add(1);
            self.unannounced = true;
        }
        self.cwnd = cwnd;
    }
}

impl Controller for XcpR {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    /// No phase: routers control the window from the first packet on.
    fn phase(&self) -> Option<&'static str> {
        Some("congestion_avoidance")
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let CongestionHeader::XcpWindow { window, congestion_flag } = ack.header else { return };
        if self.flag == CongestionFlag::Once || congestion_flag == self.changes {
            self.cwnd = window.max(1.0);
        }
    }

    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.set((self.cwnd * event.kept(0.5)).max(1.0));
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.set(event.window_after(self.cwnd));
    }

    /// Completes the header of a data packet.
    fn announce(&mut self, packet: &mut Packet, limited: bool) {
        let CongestionHeader::Xcp { delta, congestion_flag, .. } = &mut packet.header else {
            return;
        };
        *congestion_flag = match self.flag {
            CongestionFlag::Count => self.changes,
            CongestionFlag::Once => u16::from(std::mem::take(&mut self.unannounced)),
        };
        if !limited {
            // A window that does not limit the sender would grow without bound on unused bandwidth.
            // The receiver does not know this, so the sender requests nothing
            // (draft-falk-xcp-spec-03 section 3.1: Delta_Throughput is what the sender desires).
            *delta = 0.0;
        }
    }
}
