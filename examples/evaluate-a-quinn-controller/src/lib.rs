//! A congestion controller of quinn, and tests that evaluate it.
//!
//! It is AIMD(1, 0.7): one packet more per round trip, and 0.7 of the window after congestion.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory};

/// The factory, with its parameter.
#[derive(Debug, Clone)]
pub struct AimdConfig {
    /// Share of the window that remains after congestion, above 0 and below 1.
    pub beta: f64,
}

impl Default for AimdConfig {
    fn default() -> Self {
        AimdConfig { beta: 0.7 }
    }
}

impl ControllerFactory for AimdConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let mtu = u64::from(mtu);
        let window = 10 * mtu;
        Box::new(Aimd { config: self, mtu, window, threshold: u64::MAX, counted: 0, since: now })
    }
}

#[derive(Debug, Clone)]
struct Aimd {
    config: Arc<AimdConfig>,
    mtu: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next packet.
    counted: u64,
    /// Packets sent before belong to the window of the last congestion.
    since: Instant,
}

impl Controller for Aimd {
    fn on_ack(
        &mut self,
        _now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        if app_limited || sent <= self.since {
            return;
        }
        if self.window < self.threshold {
            self.window += bytes;
            return;
        }
        self.counted += bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window += self.mtu;
        }
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, _lost: u64) {
        if sent <= self.since {
            return;
        }
        self.since = now;
        let least = 2 * self.mtu;
        self.threshold = ((self.window as f64 * self.config.beta) as u64).max(least);
        self.window = if persistent { least } else { self.threshold };
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = u64::from(mtu);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        10 * self.mtu
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_fit_for_the_internet() {
        let mine = Arc::new(AimdConfig::default());
        windward_evaluate::quinn(mine).assert_meets(["collapse", "high-loss", "fairness", "wired"]);
    }

    #[test]
    fn one_that_hardly_backs_off_is_not() {
        let deaf = Arc::new(AimdConfig { beta: 0.999 });
        let evaluation = windward_evaluate::quinn(deaf).only(["high-loss"]).run().unwrap();
        assert!(!evaluation.passes(), "{evaluation}");
    }

    #[test]
    fn a_window_of_zero_is_a_verdict() {
        struct Closed;
        impl ControllerFactory for Closed {
            fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
                Box::new(Aimd {
                    config: Arc::new(AimdConfig::default()),
                    mtu: u64::from(mtu),
                    window: 0,
                    threshold: 0,
                    counted: 0,
                    since: now,
                })
            }
        }
        let evaluation = windward_evaluate::quinn(Arc::new(Closed)).only(["wired"]).run().unwrap();
        assert!(!evaluation.passes(), "{evaluation}");
        assert!(evaluation.to_string().contains("a window of 0 packets"), "{evaluation}");
    }

    #[test]
    fn a_panic_is_a_verdict() {
        struct Broken;
        impl ControllerFactory for Broken {
            fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
                panic!("no controller today")
            }
        }
        let evaluation = windward_evaluate::quinn(Arc::new(Broken)).only(["wired"]).run().unwrap();
        assert!(!evaluation.passes(), "{evaluation}");
        assert!(evaluation.to_string().contains("no controller today"), "{evaluation}");
    }
}
