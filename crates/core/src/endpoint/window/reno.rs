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

/// What an acknowledgment adds to cwnd, whatever it covers (RFC 5681 equations (2) and (3)).
#[inline]
pub(super) fn increase(cwnd: f64, ssthresh: f64) -> f64 {
    if cwnd < ssthresh { 1.0 } else { 1.0 / cwnd }
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
        if ack.allows_growth() {
            self.cwnd += increase(self.cwnd, self.ssthresh);
        }
    }

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        // Equation (4) for a certain congestion; CETEN's decrease scales with its probability.
        let kept = 1.0 - event.probability.get() / 2.0;
        self.ssthresh = (event.path.in_flight * kept).max(2.0);
        self.cwnd = self.ssthresh;
    }

    /// Continues in congestion avoidance from `cwnd` packets, but no less than two.
    pub(super) fn reduce_to(&mut self, cwnd: f64) {
        self.ssthresh = cwnd.max(2.0);
        self.cwnd = self.ssthresh;
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        let kept = 1.0 - event.probability.get() / 2.0;
        if !event.repeated {
            self.ssthresh = (event.path.in_flight * kept).max(2.0);
        }
        // One packet after congestion. Where corruption is to be spared the restart, cwnd lies as
        // far above that as it is likely.
        let spared = if event.keeps_window { 1.0 - event.probability.get() } else { 0.0 };
        self.cwnd = 1.0 + (self.cwnd - 1.0) * spared;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::estimator::Path;
    use crate::units::Probability;

    /// A window of 41 packets, 40 of them in flight, after a timeout.
    fn after_timeout(congestion: f64, keeps_window: bool) -> (f64, f64) {
        let config = EndpointConfig { initial_window: 41.0, ..EndpointConfig::default() };
        let mut window = Reno::new(&config);
        window.on_reset(&ResetEvent {
            path: Path { in_flight: 40.0, ..Path::default() },
            repeated: false,
            probability: Probability::new(congestion).unwrap(),
            keeps_window,
        });
        (window.cwnd(), window.ssthresh())
    }

    #[test]
    fn a_timeout_restarts_from_one_packet_unless_it_is_corruption() {
        // RFC 5681 section 3.1.
        assert_eq!(after_timeout(1.0, false), (1.0, 20.0));
        assert_eq!(after_timeout(1.0, true), (1.0, 20.0));
        // CETEN's readings: ssthresh alone by the verdict, or cwnd too.
        assert_eq!(after_timeout(0.0, false), (1.0, 40.0));
        assert_eq!(after_timeout(0.0, true), (41.0, 40.0));
        // A quarter congestion: 1 + 40 x 3/4; 40 x (1 - 1/8).
        assert_eq!(after_timeout(0.25, true), (31.0, 35.0));
    }
}
