//! The Rate Gap Threshold, RGT (tcpwbr2003 section IV): a sender that achieves about the rate it
//! expects, cwnd/RTTmin, sends no more than the network can carry, and its losses are errors.
//!
//! ```text
//! text:     error if  ERE >= RGT-thresh * cwnd/RTTmin
//! printed:  error if  ERE <  RGT-thresh * cwnd/RTTmin
//! ```
//!
//! The paper's text says that a large gap means congestion; its algorithm prints the opposite.
//! The text's is the default: as printed, full queues count as errors, and a flow alone on a link
//! without errors keeps a third of it (tcpwbr2003-readings).
//!
//! The threshold has no value in the paper. A drop-tail queue of one pipe overflows at a cwnd of
//! two pipes, where ERE is half the expected rate: up to one half a sender does not see its own
//! congestion (7.4 of 11 Mbit/s at 0.5), and far above one Spike stands alone (0.48 instead of
//! 0.9 Mbit/s at 30 % errors). From 0.55 to 0.7 both ends are right (tcpwbr2003-rate-gap). With 0.7 a
//! flow alone fills queues down to three sevenths of a pipe: 11.0 Mbit/s at 50 packets where the
//! pipe is 96, 2.8 at 42. Beside newreno that is not enough, for the queue overflows before the
//! rate of one flow falls far behind its window: it has 1.8 times newreno's goodput at 96 packets, 3.8
//! times at 70 and 28 times at 50, and shares equally at 192.

use crate::endpoint::event::Path;

/// Parameters of the Rate Gap Threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateGapConfig {
    /// RGT-thresh, the share of the expected rate; above zero.
    pub threshold: f64,
    /// Which side of it means error.
    pub reading: Reading,
}

/// Which side of the threshold means error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reading {
    /// The text's: a rate near the expected one.
    #[default]
    Text,
    /// The printed algorithm's: a rate far below the expected one.
    Printed,
}

crate::words!(Reading { Text = "text", Printed = "printed" });

impl RateGapConfig {
    /// The text's reading, with a threshold of our own.
    pub const DEFAULT: RateGapConfig = RateGapConfig { threshold: 0.7, reading: Reading::Text };
}

/// Are losses on this path errors? Not before the first RTT, of which there is no expectation.
pub(super) fn says_error(config: &RateGapConfig, path: &Path) -> bool {
    if path.min_rtt.is_zero() {
        return false;
    }
    let expected = path.cwnd / path.min_rtt.as_secs_f64();
    let near = path.bandwidth >= config.threshold * expected;
    match config.reading {
        Reading::Text => near,
        Reading::Printed => !near,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Duration;

    #[test]
    fn a_small_gap_is_an_error_in_the_text_and_congestion_as_printed() {
        // 20 packets in 100 ms: 200 a second expected, of which 0.7 are 140.
        let path = |bandwidth| Path {
            cwnd: 20.0,
            min_rtt: Duration::from_millis(100),
            bandwidth,
            ..Path::default()
        };
        let text = RateGapConfig::DEFAULT;
        let printed = RateGapConfig { reading: Reading::Printed, ..text };
        for (bandwidth, near) in [(200.0, true), (141.0, true), (139.0, false), (0.0, false)] {
            assert_eq!(says_error(&text, &path(bandwidth)), near, "{bandwidth}");
            assert_eq!(says_error(&printed, &path(bandwidth)), !near, "{bandwidth}");
        }
        assert!(!says_error(&text, &Path::default()));
        assert!(!says_error(&printed, &Path::default()));
    }
}
