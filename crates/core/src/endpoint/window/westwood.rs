//! TCP Westwood (Casetti et al., MobiCom 2001; tcpwbr2003 section II).
//!
//! The window grows as Reno's. After a loss it is not halved: ssthresh becomes what fills the
//! pipe at the estimated rate without a queue, and a random loss costs little where the estimate
//! is right.
//!
//! ```text
//! 3 duplicates:  ssthresh = ERE * RTTmin / seg_size      if cwnd > ssthresh: cwnd = ssthresh
//! timeout:       ssthresh = ERE * RTTmin / seg_size      cwnd = 1
//! ```
//!
//! with ssthresh at least 2. With bulk repeat (tcpwbr2003 section III C) losses that
//! discrimination takes for errors set ssthresh alone.
//!
//! Which rate: [`BandwidthKind`]. A timeout sets ssthresh each time, also where Reno keeps it
//! because the timer expires again.

use super::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{BandwidthKind, Path};

/// Parameters of Westwood.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WestwoodConfig {
    /// The estimate to go by; `None` for that of the protocol's row.
    pub estimator: Option<BandwidthKind>,
}

/// The state of Westwood's window.
#[derive(Debug, Clone)]
pub struct Westwood {
    cwnd: f64,
    ssthresh: f64,
}

impl Westwood {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Westwood { cwnd: config.initial_window, ssthresh: f64::INFINITY }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }
    pub(super) fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        if ack.newly_acked > 0 && !ack.in_recovery && ack.cwnd_limited {
            self.cwnd += if self.cwnd < self.ssthresh { 1.0 } else { 1.0 / self.cwnd };
        }
    }

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        self.on_error_loss(&event.path);
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    pub(super) fn on_error_loss(&mut self, path: &Path) {
        self.ssthresh = path.pipe().max(2.0);
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        self.on_error_loss(&event.path);
        self.cwnd = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Duration, Probability};

    /// A window of 20 packets on a path of 100 packets a second and at least 100 ms.
    fn law_and_path() -> (Westwood, Path) {
        let config = EndpointConfig { initial_window: 20.0, ..EndpointConfig::default() };
        let path = Path {
            cwnd: 20.0,
            in_flight: 20.0,
            min_rtt: Duration::from_millis(100),
            bandwidth: 100.0,
            ..Path::default()
        };
        (Westwood::new(&config), path)
    }

    #[test]
    fn three_duplicates_leave_what_fills_the_pipe() {
        let (mut law, path) = law_and_path();
        law.on_congestion(&CongestionEvent { path, probability: Probability::ONE });
        assert_eq!((law.cwnd(), law.ssthresh()), (10.0, 10.0)); // 100/s x 100 ms
        // A window below it is not raised.
        let path = Path { bandwidth: 300.0, ..path };
        law.on_congestion(&CongestionEvent { path, probability: Probability::ONE });
        assert_eq!((law.cwnd(), law.ssthresh()), (10.0, 30.0));
    }

    #[test]
    fn a_timeout_leaves_one_packet_and_a_threshold_of_two_at_least() {
        let (mut law, path) = law_and_path();
        law.on_reset(&ResetEvent { path, repeated: false });
        assert_eq!((law.cwnd(), law.ssthresh()), (1.0, 10.0));
        let path = Path { bandwidth: 0.0, ..path };
        law.on_reset(&ResetEvent { path, repeated: true });
        assert_eq!((law.cwnd(), law.ssthresh()), (1.0, 2.0));
    }

    #[test]
    fn an_error_sets_the_threshold_alone() {
        let (mut law, path) = law_and_path();
        law.on_error_loss(&path);
        assert_eq!((law.cwnd(), law.ssthresh()), (20.0, 10.0));
    }
}
