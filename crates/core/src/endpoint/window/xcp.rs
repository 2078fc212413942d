//! The window of an XCP sender (Katabi et al. 2002, section 3.2; draft-falk-xcp-spec-03
//! section 3.2).
//!
//! Slow start is bypassed: every acknowledgment, duplicates included, carries a change of
//! throughput from the routers, and
//!
//! ```text
//! cwnd <- max(cwnd + feedback srtt / packet size, 1)
//! ```

use super::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::EndpointConfig;
use crate::packet::CongestionHeader;

/// The state of an XCP window.
#[derive(Debug, Clone)]
pub struct Xcp {
    cwnd: f64,
    packet_size: f64,
}

impl Xcp {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Xcp { cwnd: config.initial_window, packet_size: f64::from(config.packet_size) }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        let CongestionHeader::XcpReverse { feedback } = ack.header else { return };
        let change = feedback * ack.path.srtt.as_secs_f64() / self.packet_size;
        // What cwnd does not limit would grow without end on bandwidth nobody uses.
        if change < 0.0 || ack.cwnd_limited {
            self.cwnd = (self.cwnd + change).max(1.0);
        }
    }

    /// Only `xcp-dumb` takes a loss for congestion: it halves cwnd (lr2008 table 1).
    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        self.cwnd = (self.cwnd * (1.0 - event.probability.get() / 2.0)).max(1.0);
    }

    pub(super) fn on_reset(&mut self, _: &ResetEvent) {
        self.cwnd = 1.0;
    }
}
