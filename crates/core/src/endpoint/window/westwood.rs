//! TCP Westwood and Westwood+ (Casetti et al., Wireless Networks 8, 2002; Grieco and Mascolo,
//! Computer Communication Review 34(2), 2004, section 2; Mascolo et al., Performance Evaluation
//! 55, 2004).
//!
//! The window grows as Reno's. After congestion it is set to what filled the pipe without a queue,
//! by the sender's own estimate of the bandwidth, and not blindly to a half:
//!
//! ```text
//! three duplicates:   ssthresh = max(2, BWE RTTmin / segment size)     cwnd = ssthresh
//! timeout:            ssthresh = max(2, BWE RTTmin / segment size)     cwnd = 1
//! ```
//!
//! Which estimate BWE is tells the variants apart: see `estimator::bandwidth`. RTTmin is the
//! smallest RTT of the connection; Linux (tcp_westwood.c) forgets it after a timeout, the papers
//! do not. Before the first estimate a loss halves the window as Reno's.
//!
//! Westwood assigns `if (cwnd > ssthresh) cwnd = ssthresh` on duplicates (Casetti et al. 2002,
//! section 2.2), Westwood+ and Linux assign without the condition; here a loss never raises cwnd.
//! The two differ only where the window is still below the pipe, in slow start after a timeout:
//! there `ssthresh` is raised and the window stays. At 1 and 2 % random loss, where it could
//! matter, goodput is the same within 3 % (docs/validation.md). A timeout sets ssthresh each time, also where Reno keeps
//! it because the timer expires again: the papers' algorithm has no condition.
//!
//! Losses that discrimination takes for errors set ssthresh alone (tcpwbr2003 section III C,
//! intelligent window adjustment).

use super::{AckEvent, CongestionEvent, ResetEvent, reno};
use crate::endpoint::EndpointConfig;
use crate::endpoint::estimator::{BandwidthKind, Counting, Path};

/// Parameters of the Westwood windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WestwoodConfig {
    /// The estimate to go by; `None` for that of the protocol's row.
    pub estimator: Option<BandwidthKind>,
    /// How many packets an acknowledgment counts for in the estimate.
    pub counting: Counting,
}

/// The state of a Westwood window.
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
        if ack.allows_growth() {
            self.cwnd += reno::increase(self.cwnd, self.ssthresh);
        }
    }

    pub(super) fn on_error_loss(&mut self, path: &Path) {
        self.ssthresh = pipe(path);
    }

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        self.ssthresh = pipe(&event.path);
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        self.ssthresh = pipe(&event.path);
        self.cwnd = 1.0;
    }
}

/// ssthresh after congestion.
fn pipe(path: &Path) -> f64 {
    let packets = if path.bandwidth > 0.0 { path.pipe() } else { path.in_flight / 2.0 };
    packets.max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Duration, Probability};

    fn path(bandwidth: f64) -> Path {
        let min_rtt = Duration::from_millis(100);
        Path { cwnd: 40.0, in_flight: 40.0, rtt: min_rtt, min_rtt, bandwidth, ..Path::default() }
    }

    fn westwood(cwnd: f64) -> Westwood {
        Westwood::new(&EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() })
    }

    fn congestion(path: Path) -> CongestionEvent {
        CongestionEvent { path, probability: Probability::ONE }
    }

    #[test]
    fn a_loss_leaves_what_fills_the_pipe() {
        // 250 packets a second for 100 ms: 25 packets, whatever the window was.
        let mut w = westwood(40.0);
        w.on_congestion(&congestion(path(250.0)));
        assert_eq!((w.cwnd(), w.ssthresh()), (25.0, 25.0));
        // A window below the pipe stays.
        let mut w = westwood(10.0);
        w.on_congestion(&congestion(path(250.0)));
        assert_eq!((w.cwnd(), w.ssthresh()), (10.0, 25.0));
    }

    #[test]
    fn a_timeout_starts_again_towards_the_pipe_and_never_below_two() {
        let mut w = westwood(40.0);
        w.on_reset(&ResetEvent {
            path: path(250.0),
            repeated: false,
            probability: Probability::ONE,
            keeps_window: false,
        });
        assert_eq!((w.cwnd(), w.ssthresh()), (1.0, 25.0));
        w.on_congestion(&congestion(path(5.0))); // 0.5 packets.
        assert_eq!(w.ssthresh(), 2.0);
        // No estimate yet: half of the 40 packets in flight.
        let mut w = westwood(40.0);
        w.on_congestion(&congestion(path(0.0)));
        assert_eq!(w.cwnd(), 20.0);
    }

    #[test]
    fn an_error_sets_the_threshold_alone() {
        let mut w = westwood(40.0);
        w.on_error_loss(&path(250.0));
        assert_eq!((w.cwnd(), w.ssthresh()), (40.0, 25.0));
    }
}
