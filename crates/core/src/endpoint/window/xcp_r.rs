//! The sender's window of XCP-r (xcpr2005 section IV): the receiver computes it.
//!
//! `cwnd = H_feedback`, the field being a window here and no increment: one acknowledgment that
//! gets through makes up for all that were lost before it. Whenever the sender itself changes
//! cwnd, to half on duplicate acknowledgments or to 1 on a timeout, it tells the receiver by the
//! congestion flag, and the receiver starts again from the window in the data packet.
//!
//! Acknowledgments that left before the receiver saw the flag carry a window computed from the
//! old one. The paper does not say what becomes of them; taken at their word they would undo a
//! reset at once. By default they are told by the flag that they echo and leave cwnd alone;
//! [`CongestionFlag::Once`] takes them at their word.

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
    /// Changes of cwnd made here, modulo 2^16.
    changes: u16,
    /// The latest of them has not been announced yet.
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
        &[Need { any_of: &[Ability::XcpWindow], why: "nobody computes the window" }];
}

impl ControllerPart for XcpR {
    /// Routers say so by their feedback.
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
        // A window of 1 that a second timeout sets to 1 is no change: what the receiver has added
        // since, and an acknowledgment that was lost would have said, stays good.
        if cwnd != self.cwnd {
            self.changes = self.changes.wrapping_add(1);
        }
        self.unannounced = true;
        self.cwnd = cwnd;
    }
}

impl Controller for XcpR {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    /// Routers say how the window moves, from the first packet on.
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
            // What cwnd does not limit would grow without end on bandwidth nobody uses; the
            // receiver cannot know, so the sender asks for nothing (draft-falk-xcp-spec-03
            // section 3.1: Delta_Throughput is what the sender desires).
            *delta = 0.0;
        }
    }
}
