//! CUBIC (RFC 9438).
//!
//! After a congestion event the window grows along a cubic that is flat where the window was
//! before, and never slower than Reno would:
//!
//! ```text
//! W_cubic(t) = C (t - K)^3 + W_max          K = cbrt((W_max - cwnd_epoch) / C)
//! W_est     += alpha_cubic acked / cwnd     alpha_cubic = 3 (1 - beta) / (1 + beta)
//! ```
//!
//! After a timeout K is 0 and W_max what slow start leads to (section 4.8). Linux counts otherwise:
//! see `cubic_linux`.

use super::cubic_linux::{self, LinuxCubic};
use super::start_up::{Opening, StartUp, Step};
use super::{Controller, ControllerPart, ControllerSetup, StartUpConfig, StartUpKind, reno};
use crate::endpoint::EndpointConfig;
use crate::endpoint::event::{AckEvent, CongestionEvent, Idle, ResetEvent};
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::Time;

/// RFC 9438 section 4.6.
pub(super) const BETA: f64 = 0.7;
/// RFC 9438 section 5.1, packets per cubic second.
pub(super) const C: f64 = 0.4;
/// RFC 9438 section 4.3: the increase that makes AIMD with BETA as fast as Reno.
pub(super) const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

crate::parameters! {
    /// The parameters of CUBIC.
    pub struct CubicConfig in "cubic", "parameters of cubic, cuback and abba";
    /// The values of RFC 9438, with slow start.
    pub const DEFAULT;
    /// Section 4.3. Linux (tcp_cubic.c) keeps alpha_cubic there.
    reno_alpha: bool = true, ValueKind::Bool, "",
        "alpha = 1 in the Reno-friendly region beyond cwnd_prior (RFC 9438); Linux has none";
    /// `reno_alpha` has no effect then.
    linux: bool = false, ValueKind::Bool, "",
        "whole packets, counts renewed every 31 ms, HyStart, as in tcp_cubic.c";
    beta_ecn: Option<f64> = None, ValueKind::Number { least: 0.1, most: 0.99 }, "",
        "share of the window that remains after an ECN mark; 0.85 for ABE (RFC 8511)",
        absent = "as on a loss";
    /// How the window opens; RFC 9438 section 4.10 recommends HyStart++.
    start_up: StartUpConfig = StartUpConfig::SLOW_START => included;
}

impl CubicConfig {
    /// The same with another start-up.
    #[must_use]
    pub const fn starting(start_up: StartUpConfig) -> CubicConfig {
        CubicConfig { start_up, ..CubicConfig::DEFAULT }
    }

    /// beta_cubic, or beta_ecn for a mark.
    #[inline]
    pub(super) fn beta(&self, event: &CongestionEvent) -> f64 {
        self.beta_ecn.filter(|_| event.marked).unwrap_or(BETA)
    }
}

/// The state of CUBIC's window.
#[derive(Debug, Clone)]
pub struct Cubic {
    config: CubicConfig,
    cwnd: f64,
    ssthresh: f64,
    /// The window before the latest congestion event, lowered by fast convergence; 0 after a
    /// timeout.
    w_max: f64,
    /// cwnd before the latest congestion event (RFC 9438: cwnd_prior).
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    start_up: StartUp,
    /// Only with [`CubicConfig::linux`].
    linux: Option<Box<LinuxCubic>>,
}

/// An epoch of congestion avoidance between two congestion events.
#[derive(Debug, Clone)]
struct Epoch {
    start: Time,
    /// Height of the plateau.
    origin: f64,
    /// Seconds until the plateau.
    k: f64,
    w_est: f64,
}

impl Part for Cubic {
    type Config = CubicConfig;
    const FORMS: &'static [Form<CubicConfig>] = &[
        Form {
            words: Words {
                name: "cubic",
                what: "a cubic function of the time since the last decrease, to 0.7 on congestion",
                source: "RFC 9438 section 4",
            },
            config: CubicConfig::DEFAULT,
        },
        Form {
            words: Words {
                name: "cubic-hystart++",
                what: "as cubic, but slow start ends when the RTT rises",
                source: "RFC 9406, RFC 9438 section 4.10",
            },
            config: CubicConfig::starting(StartUpConfig::HYSTART),
        },
        Form {
            words: Words {
                name: "cubic-rapid-start",
                what: "as cubic, but it opens three times as wide a round trip until a queue \
                    builds",
                source: "draft-kazuho-ccwg-rapid-start",
            },
            config: CubicConfig::starting(StartUpConfig::RAPID_START),
        },
    ];
    fn form(config: &CubicConfig) -> &'static Form<CubicConfig> {
        &Self::FORMS[match config.start_up.kind {
            StartUpKind::SlowStart => 0,
            StartUpKind::Hystart => 1,
            StartUpKind::RapidStart => 2,
        }]
    }
}

impl ControllerPart for Cubic {
    /// HyStart does; the cubic function has the smoothed RTT only.
    fn measures_delay(config: &CubicConfig) -> bool {
        config.linux || config.start_up.measures_delay()
    }

    fn new(config: &CubicConfig, setup: ControllerSetup<'_>) -> Self {
        Cubic::of(*config, setup.endpoint)
    }
}

impl Cubic {
    pub(super) fn of(config: CubicConfig, endpoint: &EndpointConfig) -> Self {
        Cubic {
            config,
            cwnd: endpoint.initial_window,
            ssthresh: f64::INFINITY,
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
            start_up: StartUp::new(&config.start_up, endpoint),
            linux: config.linux.then(|| {
                let plain = config.start_up.kind == StartUpKind::SlowStart;
                Box::new(LinuxCubic::new(plain, endpoint.pacing))
            }),
        }
    }

    /// Raises the window to `cwnd`, if that is larger.
    pub(super) fn raise(&mut self, cwnd: f64) {
        self.cwnd = self.cwnd.max(cwnd);
    }

    /// Section 4.7, fast convergence: a flow with a loss below its last W_max leaves room for
    /// others.
    fn remember_w_max(&mut self) {
        self.cwnd_prior = self.cwnd;
        self.w_max =
            if self.cwnd < self.w_max { self.cwnd * (1.0 + BETA) / 2.0 } else { self.cwnd };
        self.epoch = None;
    }
}

impl Controller for Cubic {
    #[inline]
    fn cwnd(&self) -> f64 {
        self.cwnd
    }
    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    #[inline]
    fn pacing_rate(&self) -> Option<f64> {
        self.start_up.pacing_rate(self.cwnd)
    }

    fn on_ack(&mut self, ack: &AckEvent) {
        let opening = Opening { cwnd: &mut self.cwnd, ssthresh: &mut self.ssthresh };
        match self.start_up.on_ack(ack, opening) {
            Step::Continue => {}
            Step::Done => return,
            Step::Found { full_bdp } => {
                // draft-kazuho-ccwg-rapid-start: the window that slow start would have reached.
                self.w_max = 2.0 * full_bdp;
                self.cwnd_prior = self.w_max;
                self.epoch = None;
            }
        }
        if let Some(linux) = &mut self.linux {
            return linux.on_ack(ack, &mut self.cwnd, &mut self.ssthresh);
        }
        if !ack.allows_growth() {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd = reno::opened(self.cwnd, self.ssthresh, ack.growth);
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
        let friendly = self.config.reno_alpha && epoch.w_est >= self.cwnd_prior;
        let alpha = if friendly { 1.0 } else { ALPHA };
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

    fn on_congestion(&mut self, event: &CongestionEvent) {
        let beta = self.config.beta(event);
        if let Some(cwnd) = self.start_up.on_congestion(event, beta, self.cwnd) {
            (self.cwnd, self.ssthresh) = (cwnd, cwnd);
            return;
        }
        self.remember_w_max();
        self.ssthresh = match &mut self.linux {
            None => (event.path.in_flight * event.kept(beta)).max(2.0),
            Some(linux) => {
                let beta = if beta == BETA { cubic_linux::BETA } else { beta };
                linux.on_congestion(self.cwnd);
                (self.cwnd * event.kept(beta)).trunc().max(2.0)
            }
        };
        self.cwnd = self.ssthresh;
    }

    fn on_idle(&mut self, idle: &Idle) {
        self.cwnd = idle.window(self.cwnd);
        if let Some(linux) = &mut self.linux {
            linux.on_idle(idle.time, idle.now);
        }
    }

    fn on_reset(&mut self, event: &ResetEvent) {
        self.start_up.on_reset();
        if !event.repeated {
            self.remember_w_max();
            self.ssthresh = match self.linux {
                None => (event.path.in_flight * event.kept(BETA)).max(2.0),
                Some(_) => (self.cwnd * event.kept(cubic_linux::BETA)).trunc().max(2.0),
            };
        }
        if let Some(linux) = &mut self.linux {
            linux.on_reset();
        }
        // Section 4.8: no plateau to return to.
        self.w_max = 0.0;
        self.epoch = None;
        self.cwnd = event.window_after(self.cwnd);
    }
}
