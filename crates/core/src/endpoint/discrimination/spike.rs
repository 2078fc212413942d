//! Spike (Cen, Cosman and Voelker, MMCN 2002, there over one-way times; tcpwbr2003 section IV
//! over RTTs): long RTTs mean a queue, and a queue means that losses are congestion.
//!
//! ```text
//! Bspike_start  =  RTTmin + a (RTTmax - RTTmin)      above it, from error to congestion mode
//! Bspike_end    =  RTTmin + b (RTTmax - RTTmin)      below it, back to error mode
//! ```
//!
//! with a = 0.4 and b = 0.05, "a typical setting". Choices: a connection starts in error mode,
//! and RTT samples come from acknowledgments of new data, as for srtt. On a path without a queue
//! the sender's own bursts determine the range, and Spike takes half of the errors for congestion.
//! A TCP's clock does not resolve bursts shorter than its tick (`tick`).

use crate::part::ValueKind;
use crate::units::Duration;

const SHARE: ValueKind = ValueKind::Number { least: 0.0, most: 1.0 };

crate::parameters! {
    /// Parameters of Spike: 0 <= b <= a <= 1.
    pub struct SpikeConfig in "spike", "of tcpw-br: long RTTs mean congestion";
    /// "A typical setting".
    pub const DEFAULT;
    a: f64 = 0.4, SHARE, "",
        "share of the range of RTTs above which congestion begins, not below b";
    b: f64 = 0.05, SHARE, "", "share of the range of RTTs below which it ends";
    tick: Duration = Duration::ZERO,
        ValueKind::Time { least: Duration::ZERO, most: Duration::from_secs(86_400) }, "",
        "length of the ticks to which RTTs are rounded; 0 for exact RTTs";
    @check(config) {
        let SpikeConfig { a, b, .. } = config;
        if b > a {
            return Err(format!(
                "b ({b}) is greater than a ({a}): congestion mode would end where it has not begun"
            ));
        }
        Ok(())
    }
}

/// The state of Spike.
#[derive(Debug, Clone)]
pub(super) struct Spike {
    config: SpikeConfig,
    min_rtt: Duration,
    max_rtt: Duration,
    congestion: bool,
}

impl Spike {
    pub(super) fn new(config: SpikeConfig) -> Self {
        Spike { config, min_rtt: Duration::MAX, max_rtt: Duration::ZERO, congestion: false }
    }

    /// Adds an RTT sample.
    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        let rtt = self.in_ticks(rtt);
        self.min_rtt = self.min_rtt.min(rtt);
        self.max_rtt = self.max_rtt.max(rtt);
        let min_rtt = self.min_rtt;
        let range = self.max_rtt - min_rtt;
        if rtt > min_rtt + range.mul_f64(self.config.a) {
            self.congestion = true;
        } else if rtt < min_rtt + range.mul_f64(self.config.b) {
            self.congestion = false;
        }
    }

    /// The RTT rounded to a whole number of ticks, at least one.
    fn in_ticks(&self, rtt: Duration) -> Duration {
        let tick = self.config.tick;
        if tick.is_zero() {
            return rtt;
        }
        let ticks = (rtt.as_ps() + tick.as_ps() / 2) / tick.as_ps();
        tick.saturating_mul(ticks.max(1))
    }

    pub(super) fn in_error_mode(&self) -> bool {
        !self.congestion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_change_at_the_two_thresholds() {
        let ms = Duration::from_millis;
        let mut spike = Spike::new(SpikeConfig::DEFAULT);
        assert!(spike.in_error_mode());
        spike.on_rtt(ms(100));
        assert!(spike.in_error_mode(), "no range yet");
        // Range 100 ms: congestion above 140 ms, errors below 105 ms.
        spike.on_rtt(ms(200));
        assert!(!spike.in_error_mode());
        for (rtt, error) in [(106, false), (104, true), (139, true), (141, false), (105, false)] {
            spike.on_rtt(ms(rtt));
            assert_eq!(spike.in_error_mode(), error, "at {rtt} ms");
        }
    }
}
