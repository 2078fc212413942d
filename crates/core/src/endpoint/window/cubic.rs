//! CUBIC (RFC 9438).
//!
//! After a congestion event the window grows along a cubic that is flat where the window was
//! before, and never slower than Reno would:
//!
//! ```text
//! W_cubic(t) = C (t - K)^3 + W_max          K = cbrt((W_max - cwnd_epoch) / C)
//! W_est     += alpha_cubic acked / cwnd     alpha_cubic = 3 (1 - beta) / (1 + beta)
//! ```

use super::{AckEvent, CongestionEvent, ResetEvent};
use crate::endpoint::EndpointConfig;
use crate::units::Time;

/// RFC 9438 section 4.6.
const BETA: f64 = 0.7;
/// RFC 9438 section 5, packets per cubic second.
const C: f64 = 0.4;
/// RFC 9438 section 4.3: the increase that makes AIMD with BETA as fast as Reno.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// The state of CUBIC's window.
#[derive(Debug, Clone)]
pub struct Cubic {
    cwnd: f64,
    ssthresh: f64,
    /// Where the window was before the latest congestion event, lowered by fast convergence.
    w_max: f64,
    /// cwnd before the latest congestion event (RFC 9438: cwnd_prior).
    cwnd_prior: f64,
    epoch: Option<Epoch>,
}

/// A stretch of congestion avoidance between two congestion events.
#[derive(Debug, Clone)]
struct Epoch {
    start: Time,
    /// Height of the plateau.
    origin: f64,
    /// Seconds until the plateau.
    k: f64,
    w_est: f64,
}

impl Cubic {
    pub(super) fn new(config: &EndpointConfig) -> Self {
        Cubic {
            cwnd: config.initial_window,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
        }
    }
    pub(super) fn cwnd(&self) -> f64 {
        self.cwnd
    }
    pub(super) fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        if !ack.allows_growth() {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += 1.0;
            return;
        }
        let (cwnd, w_max) = (self.cwnd, self.w_max);
        // Section 4.2: grow back to W_max along the cubic, or away from it if already there.
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            start: ack.path.now,
            origin: w_max.max(cwnd),
            k: libm::cbrt((w_max - cwnd).max(0.0) / C),
            w_est: cwnd,
        });
        let t = ack.path.now.since(epoch.start).as_secs_f64();
        let (origin, k) = (epoch.origin, epoch.k);
        let w_cubic = |t: f64| C * (t - k) * (t - k) * (t - k) + origin;

        let acked = ack.newly_acked as f64;
        let alpha = if epoch.w_est >= self.cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * acked / cwnd;
        if w_cubic(t) < epoch.w_est {
            // Section 4.3: the Reno-friendly region.
            self.cwnd = cwnd.max(epoch.w_est);
        } else {
            // Sections 4.2, 4.4, 4.5: aim at where the cubic is one RTT from now.
            let target = w_cubic(t + ack.path.srtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
            self.cwnd += acked * (target - cwnd) / cwnd;
        }
    }

    pub(super) fn on_congestion(&mut self, event: &CongestionEvent) {
        let kept = 1.0 - event.probability.get() * (1.0 - BETA);
        self.remember_w_max();
        self.ssthresh = (event.path.in_flight * kept).max(2.0);
        self.cwnd = self.ssthresh;
    }

    pub(super) fn on_reset(&mut self, event: &ResetEvent) {
        if !event.repeated {
            self.remember_w_max();
            self.ssthresh = (event.path.in_flight * BETA).max(2.0);
        }
        self.epoch = None;
        self.cwnd = 1.0;
    }

    /// Section 4.7, fast convergence: a flow that lost before it came back to its last W_max
    /// leaves room to others.
    fn remember_w_max(&mut self) {
        self.cwnd_prior = self.cwnd;
        self.w_max =
            if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.epoch = None;
    }
}
