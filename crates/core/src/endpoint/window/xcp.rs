//! The window of an XCP sender (Katabi et al. 2002, section 3.2; draft-falk-xcp-spec-03
//! section 3.2).
//!
//! There is no slow start: every acknowledgment carries a change of throughput from the routers,
//! and
//!
//! ```text
//! cwnd <- max(cwnd + feedback srtt / packet size, 1)
//! ```
//!
//! Duplicates carry feedback too, and the draft and lr2008 use it. Katabi's code for ns-2, which
//! xcpr2005 measures, runs only for acknowledgments of new data: it ignores the feedback of
//! duplicates.

use super::{Controller, ControllerPart, ControllerSetup};
use crate::endpoint::event::{AckEvent, CongestionEvent, ResetEvent};
use crate::packet::CongestionHeader;
use crate::part::{Ability, Form, Need, Parameters, Part, Words};

/// Parameters of the XCP window, by which its two senders differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XcpConfig {
    /// True if the feedback of duplicate acknowledgments counts.
    pub heeds_duplicates: bool,
}

/// No keys: the names of the two senders determine the values.
impl Parameters for XcpConfig {}

/// The state of an XCP window.
#[derive(Debug, Clone)]
pub struct Xcp {
    pub(super) cwnd: f64,
    packet_size: f64,
    heeds_duplicates: bool,
}

impl Part for Xcp {
    type Config = XcpConfig;
    const FORMS: &'static [Form<XcpConfig>] = &[
        Form {
            words: Words {
                name: "xcp",
                what: "adds what the routers grant, packet by packet; no slow start",
                source: "Katabi 2002 section 3.3",
            },
            config: XcpConfig { heeds_duplicates: true },
        },
        Form {
            words: Words {
                name: "xcp-new",
                what: "adds what the routers grant, but on ACKs of new data alone; no slow start",
                source: "xcpr2005 section II, after the ns-2 code of Katabi",
            },
            config: XcpConfig { heeds_duplicates: false },
        },
    ];
    const NEEDS: &'static [Need] = &[Need {
        any_of: &[Ability::XcpFeedback],
        why: "routers grant nothing, and the window never grows",
    }];
    fn form(config: &XcpConfig) -> &'static Form<XcpConfig> {
        &Self::FORMS[usize::from(!config.heeds_duplicates)]
    }
}

impl ControllerPart for Xcp {
    /// Routers report congestion by their feedback.
    const ANSWERS_ECN: bool = false;
    fn new(config: &XcpConfig, setup: ControllerSetup<'_>) -> Self {
        let packet_size = f64::from(setup.endpoint.packet_size);
        let cwnd = setup.endpoint.initial_window;
        Xcp { cwnd, packet_size, heeds_duplicates: config.heeds_duplicates }
    }
}

impl Xcp {
    /// The state with this window and packet size, for a controller that uses the help of XCP
    /// routers.
    pub(super) fn at(cwnd: f64, packet_size: u32) -> Self {
        Xcp { cwnd, packet_size: packet_size.into(), heeds_duplicates: true }
    }
}

impl Controller for Xcp {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    /// No phase: routers control the window from the first packet on.
    fn phase(&self) -> Option<&'static str> {
        Some("congestion_avoidance")
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckEvent) {
        let CongestionHeader::XcpReverse { feedback } = ack.header else { return };
        if ack.newly_acked == 0 && !self.heeds_duplicates {
            return;
        }
        let change = feedback * ack.path.srtt.as_secs_f64() / self.packet_size;
        // A window that does not limit the sender would grow without bound on unused bandwidth.
        if change < 0.0 || ack.cwnd_limited {
            self.cwnd = (self.cwnd + change).max(1.0);
        }
    }

    /// Halves cwnd: `xcp-dumb` and `xcp-katabi` take a loss for congestion (lr2008 table 1;
    /// xcpr2005 section IV).
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd * event.kept(0.5)).max(1.0);
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.cwnd = event.window_after(self.cwnd);
    }
}
