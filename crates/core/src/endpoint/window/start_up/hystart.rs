//! HyStart++ (RFC 9406): slow start that ends when the RTT rises, before the queue overflows.
//!
//! ```text
//! a round ends when everything sent before its begin is acknowledged
//! RttThresh = max(MIN_RTT_THRESH, min(lastRoundMinRTT / MIN_RTT_DIVISOR, MAX_RTT_THRESH))
//! slow start:  cwnd += min(N, L)
//!   from N_RTT_SAMPLE samples of a round on:
//!   currentRoundMinRTT >= lastRoundMinRTT + RttThresh:   to conservative slow start (CSS)
//! CSS:         cwnd += min(N, L) / CSS_GROWTH_DIVISOR
//!   currentRoundMinRTT < its value when CSS began:       back to slow start
//!   after CSS_ROUNDS rounds:                             ssthresh = cwnd
//! ```
//!
//! Readings:
//! - N is 1, or with `byte_counting` the number of packets acknowledged. L is 8 packets, or
//!   unlimited if packets are paced (section 4.3).
//! - The acknowledgment that ends a round belongs to that round.
//! - HyStart++ applies only to the first slow start (section 4.3). Losses and marks end it; the
//!   controller responds to them.

use super::{Opening, StartUpConfig, Step};
use crate::endpoint::event::AckEvent;
use crate::units::Duration;

/// RFC 9406 section 4.3.
const MIN_RTT_DIVISOR: u64 = 8;
/// RFC 9406 section 4.3.
const N_RTT_SAMPLE: u32 = 8;
/// RFC 9406 section 4.3: L if packets are not paced, in packets.
const LIMIT: f64 = 8.0;

#[derive(Debug, Clone)]
pub(super) struct Hystart {
    config: StartUpConfig,
    limit: f64,
    /// windowEnd; `None` before the first acknowledgment.
    window_end: Option<u64>,
    /// lastRoundMinRTT and currentRoundMinRTT; MAX for infinity.
    last: Duration,
    current: Duration,
    samples: u32,
    css: Option<Css>,
}

/// Conservative slow start.
#[derive(Debug, Clone)]
struct Css {
    /// cssBaselineMinRtt.
    baseline: Duration,
    rounds: u32,
}

impl Hystart {
    pub(super) fn new(config: &StartUpConfig, paced: bool) -> Self {
        Hystart {
            config: *config,
            limit: if paced { f64::INFINITY } else { LIMIT },
            window_end: None,
            last: Duration::MAX,
            current: Duration::MAX,
            samples: 0,
            css: None,
        }
    }

    /// Handles an acknowledgment; returns the step, and whether the start-up is over.
    pub(super) fn on_ack(&mut self, ack: &AckEvent, window: &mut Opening<'_>) -> (Step, bool) {
        if ack.allows_growth() {
            let growth = ack.growth.min(self.limit);
            let divisor = if self.css.is_some() { self.config.css_growth_divisor } else { 1.0 };
            *window.cwnd += growth / divisor;
        }
        if ack.newly_acked == 0 {
            return (Step::Done, false);
        }
        if !ack.path.rtt.is_zero() {
            self.current = self.current.min(ack.path.rtt);
            self.samples += 1;
            self.look();
        }
        let over = self.ends_round(ack);
        if over {
            *window.ssthresh = *window.cwnd;
        }
        (Step::Done, over)
    }

    /// Enters CSS if the RTT has risen, and leaves it if the RTT has fallen back.
    fn look(&mut self) {
        if self.samples < N_RTT_SAMPLE {
            return;
        }
        match &self.css {
            Some(css) if self.current < css.baseline => self.css = None,
            Some(_) => {}
            None if self.last == Duration::MAX => {}
            None => {
                let share = Duration::from_ps(self.last.as_ps() / MIN_RTT_DIVISOR);
                let thresh = share.min(self.config.max_rtt_thresh).max(self.config.min_rtt_thresh);
                if self.current >= self.last + thresh {
                    self.css = Some(Css { baseline: self.current, rounds: 0 });
                }
            }
        }
    }

    /// Begins the next round if this acknowledgment ends one. Returns true if that was the last
    /// round of CSS; the round in which CSS began counts.
    fn ends_round(&mut self, ack: &AckEvent) -> bool {
        let end = *self.window_end.get_or_insert(ack.high);
        if ack.una < end {
            return false;
        }
        self.window_end = Some(ack.high);
        self.last = self.current;
        self.current = Duration::MAX;
        self.samples = 0;
        let Some(css) = &mut self.css else { return false };
        css.rounds += 1;
        css.rounds >= self.config.css_rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::Path;

    /// A start-up with its window and its position in the sequence space.
    struct Bench {
        hystart: Hystart,
        cwnd: f64,
        ssthresh: f64,
        una: u64,
        high: u64,
    }

    impl Bench {
        fn new(paced: bool) -> Self {
            let hystart = Hystart::new(&StartUpConfig::HYSTART, paced);
            Bench { hystart, cwnd: 10.0, ssthresh: f64::INFINITY, una: 0, high: 10 }
        }

        /// Acknowledges one packet, which counts for `growth`; returns whether start-up is over.
        fn ack(&mut self, rtt: u64, growth: f64) -> bool {
            // The window was filled after the previous acknowledgment.
            self.high = self.high.max(self.una + self.cwnd as u64);
            self.una += 1;
            let (una, high) = (self.una, self.high);
            let path = Path { rtt: Duration::from_millis(rtt), ..Path::default() };
            let (newly_acked, cwnd_limited) = (1, true);
            let ack = AckEvent {
                path,
                newly_acked,
                growth,
                cwnd_limited,
                una,
                high,
                ..AckEvent::default()
            };
            let mut opening = Opening { cwnd: &mut self.cwnd, ssthresh: &mut self.ssthresh };
            self.hystart.on_ack(&ack, &mut opening).1
        }

        /// Runs a whole round with one RTT; returns whether start-up ended with it.
        fn round(&mut self, rtt: u64) -> bool {
            loop {
                let end = self.hystart.window_end;
                let over = self.ack(rtt, 1.0);
                if over || end.is_some() && end != self.hystart.window_end {
                    return over;
                }
            }
        }

        fn is_conservative(&self) -> bool {
            self.hystart.css.is_some()
        }
    }

    /// RttThresh = max(4, min(lastRoundMinRTT / 8, 16)) ms.
    #[test]
    fn a_rise_by_an_eighth_within_4_and_16_ms_ends_slow_start() {
        for (last, thresh) in [(8, 4), (32, 4), (80, 10), (128, 16), (400, 16)] {
            for (rise, expected) in [(thresh - 1, false), (thresh, true)] {
                let mut bench = Bench::new(false);
                bench.round(last);
                bench.round(last + rise);
                assert_eq!(bench.is_conservative(), expected, "{last} + {rise} ms");
            }
        }
    }

    #[test]
    fn eight_samples_of_a_round_are_needed() {
        let mut bench = Bench::new(false);
        bench.round(80);
        for _ in 0..7 {
            bench.ack(200, 1.0);
        }
        assert!(!bench.is_conservative());
        bench.ack(200, 1.0);
        assert!(bench.is_conservative());
        // The smallest RTT of the round counts: one short RTT among long ones is not a rise.
        let mut bench = Bench::new(false);
        bench.round(80);
        bench.ack(80, 1.0);
        for _ in 0..9 {
            bench.ack(200, 1.0);
        }
        assert!(!bench.is_conservative());
    }

    #[test]
    fn an_acknowledgment_adds_eight_packets_at_most_unless_they_are_paced() {
        let mut bench = Bench::new(false);
        bench.ack(100, 20.0);
        assert_eq!(bench.cwnd, 18.0);
        let mut paced = Bench::new(true);
        paced.ack(100, 20.0);
        assert_eq!(paced.cwnd, 30.0);
    }
}
