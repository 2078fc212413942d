//! The Rate Gap Threshold, RGT (tcpwbr2003 section IV): a sender that achieves about the expected
//! rate, cwnd/RTTmin, sends no more than the network can carry, so its losses are errors.
//!
//! ```text
//! text:     error if  ERE >= RGT-thresh * cwnd/RTTmin
//! printed:  error if  ERE <  RGT-thresh * cwnd/RTTmin
//! ```
//!
//! The paper's text says that a large gap means congestion; its printed algorithm has the opposite.
//! The reading of the text is the default: as printed, full queues count as errors, and a flow
//! alone on a link without errors gets a third of it (tcpwbr2003-readings).
//!
//! The paper gives no value for the threshold. A drop-tail queue of one pipe overflows at a cwnd of
//! two pipes, where ERE is half the expected rate. Up to a threshold of one half a sender does not
//! detect its own congestion (7.4 of 11 Mbit/s at 0.5); far above one only Spike has an effect
//! (0.48 instead of 0.9 Mbit/s at 30 % errors). From 0.55 to 0.7 both cases are right for a single
//! flow (tcpwbr2003-rate-gap), with 0.7 down to queues of three sevenths of a pipe. In competition
//! with NewReno that is not enough: at half a pipe, without errors, such a flow takes 4 to 29 times
//! NewReno's share (runs of 220 s).

use crate::endpoint::event::Path;
use crate::part::ValueKind;

/// The side of the threshold that means error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RateGapReading {
    /// The paper's text: a rate near the expected one.
    #[default]
    Text,
    /// The printed algorithm: a rate far below the expected one.
    Printed,
}

crate::words!(RateGapReading { Text = "text", Printed = "printed" });

crate::parameters! {
    /// Parameters of the Rate Gap Threshold.
    pub struct RateGapConfig in "rate_gap", "of tcpw-br: a low rate means congestion";
    /// The reading of the text, with a threshold chosen here.
    pub const DEFAULT;
    /// RGT-thresh:
    threshold: f64 = 0.7, ValueKind::Positive { most: 1e6 }, "",
        "share of the expected rate, cwnd/RTTmin";
    reading: RateGapReading = RateGapReading::Text, ValueKind::Word(RateGapReading::WORDS), "",
        "error: rate above it (text) or below it (printed)";
}

/// True if losses on this path are errors. False before the first RTT, without an expected rate.
pub(super) fn says_error(config: &RateGapConfig, path: &Path) -> bool {
    if path.min_rtt.is_zero() {
        return false;
    }
    let expected = path.cwnd / path.min_rtt.as_secs_f64();
    let near = path.bandwidth >= config.threshold * expected;
    match config.reading {
        RateGapReading::Text => near,
        RateGapReading::Printed => !near,
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
        let printed = RateGapConfig { reading: RateGapReading::Printed, ..text };
        for (bandwidth, near) in [(200.0, true), (141.0, true), (139.0, false), (0.0, false)] {
            assert_eq!(says_error(&text, &path(bandwidth)), near, "{bandwidth}");
            assert_eq!(says_error(&printed, &path(bandwidth)), !near, "{bandwidth}");
        }
        assert!(!says_error(&text, &Path::default()));
        assert!(!says_error(&printed, &Path::default()));
    }
}
