//! The window of an XCP sender (Katabi et al. 2002, section 3.2; draft-falk-xcp-spec-03
//! section 3.2).
//!
//! Slow start is bypassed: every acknowledgment carries a change of throughput from the routers,
//! and
//!
//! ```text
//! cwnd <- max(cwnd + feedback srtt / packet size, 1)
//! ```
//!
//! Duplicates carry feedback too, and the draft and lr2008 use it. The code of Katabi for ns-2,
//! which xcpr2005 measures, hangs on the function of its TCP that handles acknowledgments of new
//! data: there the feedback of duplicates is lost.

use super::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::EndpointConfig;
use crate::packet::CongestionHeader;

/// The state of an XCP window.
#[derive(Debug, Clone)]
pub struct Xcp {
    cwnd: f64,
    packet_size: f64,
    heeds_duplicates: bool,
}

impl Xcp {
    pub(super) fn new(config: &EndpointConfig, heeds_duplicates: bool) -> Self {
        let packet_size = f64::from(config.packet_size);
        Xcp { cwnd: config.initial_window, packet_size, heeds_duplicates }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        let CongestionHeader::XcpReverse { feedback } = ack.header else { return };
        if ack.newly_acked == 0 && !self.heeds_duplicates {
            return;
        }
        let change = feedback * ack.path.srtt.as_secs_f64() / self.packet_size;
        // What cwnd does not limit would grow without end on bandwidth nobody uses.
        if change < 0.0 || ack.cwnd_limited {
            self.cwnd = (self.cwnd + change).max(1.0);
        }
    }

    /// `xcp-dumb` and `xcp-katabi` take a loss for congestion: they halve cwnd (lr2008 table 1;
    /// xcpr2005 section IV).
    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd * (1.0 - event.probability.get() / 2.0)).max(1.0);
    }

    pub(super) fn on_reset(&mut self, _: &ResetEvent) {
        self.cwnd = 1.0;
    }
}
