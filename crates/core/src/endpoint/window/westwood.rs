//! TCP Westwood and Westwood+ (Casetti et al., Wireless Networks 8, 2002; Grieco and Mascolo,
//! Computer Communication Review 34(2), 2004, section 2; Mascolo et al., Performance Evaluation
//! 55, 2004).
//!
//! The window grows as Reno's. After congestion it is set to the window that fills the pipe without
//! a queue, by the sender's own estimate of the bandwidth, instead of half:
//!
//! ```text
//! three duplicates:   ssthresh = max(2, BWE RTTmin / segment size)     cwnd = ssthresh
//! timeout:            ssthresh = max(2, BWE RTTmin / segment size)     cwnd = 1
//! ```
//!
//! The variants differ in the estimate BWE: see `estimator::bandwidth`. RTTmin is the smallest RTT
//! of the connection; Linux (tcp_westwood.c) forgets it after a timeout, the papers do not. Before
//! the first estimate a loss halves the window as in Reno.
//!
//! Westwood assigns `if (cwnd > ssthresh) cwnd = ssthresh` on duplicates (Casetti et al. 2002,
//! section 2.2), Westwood+ and Linux assign without the condition; here a loss never raises cwnd.
//! The two differ only while the window is below the pipe, in slow start after a timeout: there
//! `ssthresh` rises and the window does not change. At 1 and 2 % random loss, where this could
//! matter, goodput is the same within 3 % (docs/validation.md). Every timeout sets ssthresh, even
//! if the timer expires again, after which Reno keeps it: the papers' algorithm has no condition.
//!
//! A loss that discrimination takes for an error sets only ssthresh (tcpwbr2003 section III C,
//! intelligent window adjustment).

use super::{Controller, ControllerPart, ControllerSetup, reno};
use crate::endpoint::estimator::{BandwidthKind, Counting};
use crate::endpoint::event::{AckEvent, CongestionEvent, Path, ResetEvent};
use crate::part::{Ability, Form, Part, ValueKind, Words};

crate::parameters! {
    /// Parameters of the Westwood windows.
    #[derive(Eq)]
    pub struct WestwoodConfig in "westwood", "parameters of westwood and its variants";
    /// Westwood of 2001.
    pub const BE;
    /// It also gives the variant its name.
    estimator: BandwidthKind = BandwidthKind::Be, ValueKind::Word(BandwidthKind::WORDS), "",
        "rate estimate";
    counting: Counting = Counting::Exact, ValueKind::Word(Counting::WORDS), "",
        "packets counted per ACK: each packet once, or as in Casetti 2001 and Linux";
}

/// The state of a Westwood window.
#[derive(Debug, Clone)]
pub struct Westwood {
    cwnd: f64,
    ssthresh: f64,
}

impl WestwoodConfig {
    /// The variant with this estimate. Westwood+ counts as its code for Linux does, which its
    /// papers measured; in tcpwbr2003 section II each packet counts once.
    pub const fn of(estimator: BandwidthKind) -> Self {
        let counting = match estimator {
            BandwidthKind::PerRtt => Counting::AckedCount,
            BandwidthKind::Be | BandwidthKind::Ere => Counting::Exact,
        };
        WestwoodConfig { estimator, counting }
    }
}

const fn form(estimator: BandwidthKind, words: Words) -> Form<WestwoodConfig> {
    Form { words, config: WestwoodConfig::of(estimator) }
}

impl Part for Westwood {
    type Config = WestwoodConfig;
    const FORMS: &'static [Form<WestwoodConfig>] = &[
        form(
            BandwidthKind::Be,
            Words {
                name: "westwood (be)",
                what: "as reno, but to rate times RTTmin on congestion; one rate sample per ACK",
                source: "Casetti 2001 section 2, tcpwbr2003 section II",
            },
        ),
        form(
            BandwidthKind::Ere,
            Words {
                name: "westwood (ere)",
                what: "as reno, but to rate times RTTmin on congestion; samples adapt to \
                    congestion",
                source: "tcpwbr2003 section II",
            },
        ),
        form(
            BandwidthKind::PerRtt,
            Words {
                name: "westwood+",
                what: "as reno, but to bandwidth times RTTmin on congestion; one bandwidth sample \
                    per RTT",
                source: "Grieco and Mascolo 2004 section 2",
            },
        ),
    ];
    fn form(config: &WestwoodConfig) -> &'static Form<WestwoodConfig> {
        match config.estimator {
            BandwidthKind::Be => &Self::FORMS[0],
            BandwidthKind::Ere => &Self::FORMS[1],
            BandwidthKind::PerRtt => &Self::FORMS[2],
        }
    }
    fn gives(_: &WestwoodConfig) -> &'static [Ability] {
        &[Ability::Bandwidth]
    }
}

impl ControllerPart for Westwood {
    fn bandwidth(config: &WestwoodConfig) -> Option<(BandwidthKind, Counting)> {
        Some((config.estimator, config.counting))
    }
    fn new(_: &WestwoodConfig, setup: ControllerSetup<'_>) -> Self {
        Westwood { cwnd: setup.endpoint.initial_window, ssthresh: f64::INFINITY }
    }
}

impl Controller for Westwood {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    #[inline]
    fn on_ack(&mut self, ack: &AckEvent) {
        if ack.allows_growth() {
            self.cwnd = reno::grown(self.cwnd, self.ssthresh, ack.growth);
        }
    }

    fn on_error_loss(&mut self, path: &Path) {
        self.ssthresh = pipe(path);
    }

    /// Reduces cwnd towards the estimate in proportion to the probability of congestion. The
    /// estimate is the target for congestion and for errors (section III C).
    fn on_congestion(&mut self, event: &CongestionEvent) {
        self.ssthresh = pipe(&event.path);
        self.cwnd = event.probability.toward(self.cwnd, self.cwnd.min(self.ssthresh));
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.ssthresh = pipe(&event.path);
        self.cwnd = event.window_after(self.cwnd);
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
    use crate::endpoint::EndpointConfig;
    use crate::testing::new_controller;
    use crate::units::{Duration, Probability};

    fn path(bandwidth: f64) -> Path {
        let min_rtt = Duration::from_millis(100);
        Path { cwnd: 40.0, in_flight: 40.0, rtt: min_rtt, min_rtt, bandwidth, ..Path::default() }
    }

    fn westwood(cwnd: f64) -> Westwood {
        new_controller::<Westwood>(
            WestwoodConfig::BE,
            &EndpointConfig { initial_window: cwnd, ..EndpointConfig::default() },
        )
    }

    fn congestion(path: Path) -> CongestionEvent {
        CongestionEvent::certain(path)
    }

    #[test]
    fn a_loss_leaves_what_fills_the_pipe() {
        // 250 packets a second for 100 ms: 25 packets, for any window.
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
        w.on_reset(&ResetEvent::timeout(path(250.0)));
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

    #[test]
    fn a_doubtful_congestion_goes_part_of_the_way() {
        // From 40 a quarter of the way to 25: 36.25, and on from there without slow start.
        let mut w = westwood(40.0);
        let probability = Probability::new(0.25).unwrap();
        w.on_congestion(&CongestionEvent { probability, ..congestion(path(250.0)) });
        assert_eq!((w.cwnd(), w.ssthresh()), (36.25, 25.0));
    }
}
