//! AIMD(1, 1/2) with slow start (RFC 5681).
//!
//! One packet more per acknowledgment in slow start, one per window after it; half of what is
//! in flight after congestion. Growth stops while the application or the receiver, and not
//! cwnd, limits the sender (RFC 5681 section 4.1 in spirit; RFC 7661).

use super::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::EndpointConfig;

/// The state of Reno's window.
#[derive(Debug, Clone)]
pub struct Reno {
    cwnd: f64,
    ssthresh: f64,
}

impl Reno {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Reno { cwnd: config.initial_window, ssthresh: f64::INFINITY }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }
    pub(super) fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        if ack.newly_acked > 0 && !ack.in_recovery && ack.cwnd_limited {
            // RFC 5681 equations (2) and (3): per acknowledgment, whatever it covers.
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
        }
    }

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        // Equation (4) for a certain congestion; CETEN's decrease scales with its probability.
        let kept = 1.0 - event.probability.get() / 2.0;
        self.ssthresh = (event.path.in_flight * kept).max(2.0);
        self.cwnd = self.ssthresh;
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        let kept = 1.0 - event.probability.get() / 2.0;
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * kept).max(2.0);
        }
        self.cwnd = if event.keeps_window { (self.cwnd * kept).max(1.0) } else { 1.0 };
    }
}
