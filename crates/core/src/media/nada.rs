//! NADA (Zhu, Pan, Ramalho and Mena, RFC 8698).
//!
//! Queueing delay, losses and marks become one congestion signal, an equivalent delay. The rate
//! settles where that signal is `priority x_ref RMAX / r_ref`, so that streams with a common
//! bottleneck get shares by their priorities and maximum rates. While the path shows neither losses
//! nor queues, the rate grows in proportion to the rate received. After losses, long delays count
//! less, so that a stream holds out against traffic that fills queues.
//!
//! ```text
//! d_tilde = d_queue, or QTH exp(-LAMBDA (d_queue - QTH) / QTH) after losses       (1)
//! x_curr  = d_tilde + DMARK (p_mark / PMRREF)^2 + DLOSS (p_loss / PLRREF)^2       (2)
//! gamma   = min(GAMMA_MAX, QBOUND / (rtt + DELTA + DFILT))                        (3)
//! r_ref   = max(r_ref, (1 + gamma) r_recv)           accelerated ramp-up          (4)
//! r_ref  -= KAPPA delta / TAU x_offset / TAU r_ref + KAPPA ETA x_diff / TAU r_ref (5, 6, 7)
//! ```
//!
//! The receiver's half of the algorithm runs at the sender, on reports on each packet, as section
//! 6.4 allows. Queueing delays pass a minimum filter over 15 packets (section 5.1.1). What the
//! text leaves open:
//! - The loss intervals of TFRC, from which loss_int is computed (RFC 5348 section 5.4), begin with
//!   a packet that was sent more than an RTT after the begin of the interval before (RFC 5348
//!   section 5.2).
//! - The transition between the warped and the plain delay (section 4.2) begins when the last loss
//!   expires, and lasts for loss_int packets.
//! - The smoothed ratios of losses and marks (10) are updated for each report.
//! - The signal is at most `x_max`, 500 ms, as in the authors' implementation for ns-3 (section 7).
//!   Its 15 bits in a report (section 5.3) reach 3.3 s. The squares of (2) are far beyond both
//!   after a burst of losses, and as they decay, (7) raises the rate by the change over TAU.
//!
//! Deviations: the rate starts at the start rate of the encoder, which need not be RMIN (section
//! 4.3). The base delay is the minimum of the whole run: tens of minutes (section 5.1.1) are longer
//! than runs, whose clocks have no skew.

use std::collections::VecDeque;

use super::{Heard, MediaController, MediaControllerPart, MediaSetup, Reported, rate_over};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

parameters! {
    /// Parameters of NADA (RFC 8698 table 2, and one more).
    pub struct NadaConfig in "", "parameters of nada";
    /// RFC 8698 table 2, and the bound of the authors' implementation.
    pub const RFC8698;
    /// PRIO:
    priority: f64 = 1.0, ValueKind::Positive { most: 1000.0 }, "", "weight of the stream";
    x_ref: Duration = Duration::from_millis(10),
        TIMES, "", "congestion signal at which the rate is the maximum";
    kappa: f64 = 0.5, GAINS, "", "gain of gradual updates";
    eta: f64 = 2.0, GAINS, "", "gain of the change of the signal over that of its offset";
    tau: Duration = Duration::from_millis(500),
        TIMES, "", "upper bound of the RTT for gradual updates";
    delta: Duration = Duration::from_millis(100),
        ValueKind::Time { least: Duration::from_millis(5), most: Duration::from_secs(10) }, "",
        "time between reports";
    /// LOGWIN:
    log_window: Duration = Duration::from_millis(500), TIMES, "", "window of the statistics";
    q_eps: Duration = Duration::from_millis(10),
        TIMES, "", "queueing delay below which nothing builds up";
    d_filt: Duration = Duration::from_millis(120), TIMES, "", "bound on the delay of filters";
    gamma_max: f64 = 0.5, GAINS, "", "bound on the increase in accelerated ramp-up";
    q_bound: Duration = Duration::from_millis(50),
        TIMES, "", "bound on the queueing delay that ramp-up causes";
    multiloss: f64 = 7.0, ValueKind::Number { least: 0.0, most: 1000.0 }, "",
        "number of loss intervals after which the last loss has expired";
    q_th: Duration = Duration::from_millis(50),
        TIMES, "", "delay from which delays are warped after losses";
    lambda: f64 = 0.5, GAINS, "", "steepness of the warping";
    /// PLRREF:
    loss_ref: f64 = 0.01, RATIOS, "", "reference ratio of losses";
    /// PMRREF:
    mark_ref: f64 = 0.01, RATIOS, "", "reference ratio of marks";
    d_loss: Duration = Duration::from_millis(10),
        TIMES, "", "delay that stands for the reference ratio of losses";
    d_mark: Duration = Duration::from_millis(2),
        TIMES, "", "delay that stands for the reference ratio of marks";
    beta_s: f64 = 0.1, GAINS, "", "gain of the backlog on the sending rate";
    beta_v: f64 = 0.1, GAINS, "", "gain of the backlog on the target rate";
    alpha: f64 = 0.1, RATIOS, "", "smoothing of the ratios of losses and marks";
    x_max: Duration = Duration::from_millis(500), TIMES, "", "maximum of the congestion signal";
}

const TIMES: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(10) };
const GAINS: ValueKind = ValueKind::Number { least: 0.0, most: 100.0 };
const RATIOS: ValueKind = ValueKind::Positive { most: 1.0 };

/// Packets over which the minimum filter of delays extends (section 5.1.1).
const FILTER: usize = 15;

/// Limit on the adjustment by the backlog, as a share of r_ref (section 5.2.2).
const MOST_ADJUSTMENT: f64 = 0.05;

/// The state of NADA.
#[derive(Debug)]
pub struct Nada {
    config: NadaConfig,
    setup: MediaSetup,
    statistics: Statistics,
    r_ref: f64,
    /// x_prev, seconds.
    x_prev: f64,
    rtt: Duration,
    /// Time of the latest report.
    t_last: Option<Time>,
}

/// The measurements of section 4.2.
#[derive(Debug, Default)]
struct Statistics {
    /// Packets of the last LOGWIN, each with the time at which it arrived or was missed.
    recent: VecDeque<(Time, Reported)>,
    /// d_base: the minimum one-way delay.
    base: Option<Duration>,
    /// Queueing delays of the latest packets.
    delays: VecDeque<Duration>,
    p_loss: f64,
    p_mark: f64,
    losses: LossIntervals,
}

/// Loss intervals as in TFRC.
#[derive(Debug, Default)]
struct LossIntervals {
    /// Lengths of the closed intervals in packets, the latest first.
    closed: VecDeque<u64>,
    /// Packets since the begin of the current interval, and the time at which its first packet was
    /// sent; `None` before the first loss.
    open: Option<(u64, Time)>,
    /// Packets since the last loss.
    since: u64,
}

impl LossIntervals {
    /// The weights of RFC 5348 section 5.4.
    const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

    fn on_packet(&mut self, sent: Time, is_lost: bool, rtt: Duration) {
        self.since += 1;
        if let Some((length, _)) = &mut self.open {
            *length += 1;
        }
        if !is_lost {
            return;
        }
        self.since = 0;
        // RFC 5348 section 5.2: losses within an RTT are one event.
        if self.open.is_some_and(|(_, begun)| sent <= begun + rtt) {
            return;
        }
        if let Some((length, _)) = self.open {
            self.closed.push_front(length);
            self.closed.truncate(Self::WEIGHTS.len());
        }
        self.open = Some((0, sent));
    }

    /// loss_int, the mean interval in packets (I_mean of RFC 5348 section 5.4); `None` before the
    /// first loss.
    fn mean(&self) -> Option<f64> {
        let (open, _) = self.open?;
        let weighted = |intervals: &mut dyn Iterator<Item = u64>| {
            let (mut sum, mut weights) = (0.0, 0.0);
            for (length, weight) in intervals.zip(Self::WEIGHTS) {
                sum += length as f64 * weight;
                weights += weight;
            }
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        let closed = || self.closed.iter().copied();
        let with_open = weighted(&mut std::iter::once(open).chain(closed()));
        Some(weighted(&mut closed()).max(with_open))
    }
}

impl Statistics {
    fn on_packet(&mut self, config: &NadaConfig, at: Time, packet: &Reported, rtt: Duration) {
        self.recent.push_back((at, *packet));
        while self.recent.front().is_some_and(|(old, _)| *old + config.log_window <= at) {
            self.recent.pop_front();
        }
        if let Some(arrived) = packet.arrived {
            let delay = arrived.since(packet.sent);
            let base = self.base.map_or(delay, |base| base.min(delay));
            self.base = Some(base);
            self.delays.push_back(delay);
            if self.delays.len() > FILTER {
                self.delays.pop_front();
            }
        }
        self.losses.on_packet(packet.sent, packet.arrived.is_none(), rtt);
    }

    /// Equation 10.
    fn smooth(&mut self, config: &NadaConfig) {
        let share = |counts: fn(&Reported) -> bool| {
            let count = self.recent.iter().filter(|(_, packet)| counts(packet)).count();
            count as f64 / self.recent.len().max(1) as f64
        };
        let (lost, marked) = (share(|p| p.arrived.is_none()), share(|p| p.marked));
        self.p_loss += config.alpha * (lost - self.p_loss);
        self.p_mark += config.alpha * (marked - self.p_mark);
    }

    /// d_queue, after the minimum filter.
    fn queueing_delay(&self) -> Duration {
        let least = self.delays.iter().min().copied().unwrap_or_default();
        least - self.base.unwrap_or_default()
    }

    /// d_tilde, in seconds.
    fn warped_delay(&self, config: &NadaConfig) -> f64 {
        let (delay, threshold) = (self.queueing_delay().as_secs_f64(), config.q_th.as_secs_f64());
        let Some(interval) = self.losses.mean() else { return delay };
        if delay < threshold {
            return delay;
        }
        // Equation 1.
        let warped = threshold * libm::exp(-config.lambda * (delay - threshold) / threshold);
        // The share of the plain delay: 0 before the last loss expires, 1 loss_int packets later.
        let beyond = self.losses.since as f64 - config.multiloss * interval;
        let plain = (beyond / interval.max(1.0)).clamp(0.0, 1.0);
        warped + plain * (delay - warped)
    }

    /// x_curr, in seconds.
    fn signal(&self, config: &NadaConfig) -> f64 {
        // Equation 2.
        let squared = |ratio: f64, reference: f64| (ratio / reference) * (ratio / reference);
        let signal = self.warped_delay(config)
            + config.d_mark.as_secs_f64() * squared(self.p_mark, config.mark_ref)
            + config.d_loss.as_secs_f64() * squared(self.p_loss, config.loss_ref);
        signal.min(config.x_max.as_secs_f64())
    }

    /// True if the sender may ramp up: no losses and no queue in the window.
    fn is_clear(&self, config: &NadaConfig) -> bool {
        let base = self.base.unwrap_or_default();
        self.recent.iter().all(|(_, packet)| {
            packet.arrived.is_some_and(|arrived| arrived.since(packet.sent) - base < config.q_eps)
        })
    }

    /// r_recv, bits per second.
    fn rate(&self, config: &NadaConfig) -> f64 {
        let arrived = self.recent.iter().filter(|(_, packet)| packet.arrived.is_some());
        rate_over(arrived.map(|(_, packet)| u64::from(packet.size)).sum(), config.log_window)
    }
}

impl Nada {
    /// Section 4.3.
    fn update(&mut self, now: Time) {
        self.statistics.smooth(&self.config);
        let NadaConfig { kappa, eta, tau, delta, d_filt, .. } = self.config;
        let x_curr = self.statistics.signal(&self.config);
        let passed = self.t_last.map_or(delta, |last| now.since(last)).as_secs_f64();
        if self.statistics.is_clear(&self.config) {
            // Equations 3 and 4.
            let loop_time = (self.rtt + delta + d_filt).as_secs_f64();
            let gamma = self.config.gamma_max.min(self.config.q_bound.as_secs_f64() / loop_time);
            self.r_ref = self.r_ref.max((1.0 + gamma) * self.statistics.rate(&self.config));
        } else {
            let tau = tau.as_secs_f64();
            let most = self.setup.most.as_bps() as f64;
            // Equations 5 to 7.
            let x_ref = self.config.priority * self.config.x_ref.as_secs_f64();
            let x_offset = x_curr - x_ref * most / self.r_ref;
            let x_diff = x_curr - self.x_prev;
            let by_offset = kappa * (passed / tau) * (x_offset / tau) * self.r_ref;
            self.r_ref -= by_offset + kappa * eta * (x_diff / tau) * self.r_ref;
        }
        // Equations 8 and 9.
        self.r_ref = self.setup.clamp(self.r_ref);
        self.x_prev = x_curr;
        self.t_last = Some(now);
    }

    /// r_diff of equations 11 and 12.
    fn adjustment(&self, beta: f64, waiting: u64) -> f64 {
        (MOST_ADJUSTMENT * self.r_ref).min(beta * 8.0 * waiting as f64 * self.setup.fps)
    }
}

impl MediaController for Nada {
    fn on_report(&mut self, now: Time, heard: &Heard<'_>) {
        if let Some(rtt) = heard.rtt {
            self.rtt = rtt;
        }
        // A lost packet counts from the arrival of the one before it.
        let mut at = self.statistics.recent.back().map_or(Time::ZERO, |(at, _)| *at);
        for packet in heard.packets {
            at = at.max(packet.arrived.unwrap_or(at));
            self.statistics.on_packet(&self.config, at, packet, self.rtt);
        }
        self.update(now);
    }

    fn target(&mut self, _now: Time, waiting: u64) -> f64 {
        // Equation 13.
        self.setup.clamp(self.r_ref - self.adjustment(self.config.beta_v, waiting))
    }

    fn pacing(&self, waiting: u64) -> f64 {
        // Equation 14.
        self.setup.clamp(self.r_ref + self.adjustment(self.config.beta_s, waiting))
    }
}

impl Part for Nada {
    type Config = NadaConfig;
    const FORMS: &'static [Form<NadaConfig>] = &[Form {
        words: Words {
            name: "nada",
            what: "moves the rate by one signal of delay, losses and marks, towards shares by priority",
            source: "RFC 8698",
        },
        config: NadaConfig::RFC8698,
    }];
}

impl MediaControllerPart for Nada {
    fn new(config: &NadaConfig, setup: &MediaSetup) -> Self {
        Nada {
            config: *config,
            setup: *setup,
            statistics: Statistics::default(),
            r_ref: setup.clamp(setup.start.as_bps() as f64),
            x_prev: 0.0,
            rtt: Duration::ZERO,
            t_last: None,
        }
    }

    fn report_interval(config: &NadaConfig, _rate: f64) -> Duration {
        config.delta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{media, ms, near};

    fn nada(start: u64) -> Nada {
        Nada::new(&NadaConfig::RFC8698, &media(start))
    }

    /// Ten packets of 1000 bytes from `from` ms on, 10 ms apart, with this one-way delay in ms;
    /// those of `lost` are lost. Reported at `from + 200` ms.
    fn report(nada: &mut Nada, from: u64, delay: u64, lost: &[u64]) {
        let packet = |n: u64| Reported {
            sent: ms(from + 10 * n),
            arrived: (!lost.contains(&n)).then(|| ms(from + 10 * n + delay)),
            size: 1000,
            marked: false,
        };
        let packets: Vec<Reported> = (0..10).map(packet).collect();
        let rtt = Some(Duration::from_millis(delay + 50));
        nada.on_report(ms(from + 200), &Heard { rtt, packets: &packets, in_flight: 0, waiting: 0 });
    }

    #[test]
    fn a_clear_path_is_ramped_up_by_the_rate_received() {
        let mut nada = nada(150_000);
        report(&mut nada, 0, 50, &[]);
        // 10 000 bytes in 500 ms are 160 kbit/s; gamma = min(0.5, 50 / (100 + 100 + 120)).
        near(nada.r_ref, 160_000.0 * (1.0 + 50.0 / 320.0));
        for n in 1..5 {
            report(&mut nada, 100 * n, 50, &[]);
        }
        // The window is full: 1000 bytes each 10 ms.
        near(nada.r_ref, 800_000.0 * (1.0 + 50.0 / 320.0));
        near(nada.pacing(0), nada.r_ref);
    }

    #[test]
    fn gradual_updates_follow_the_equations() {
        let mut nada = nada(1_000_000);
        report(&mut nada, 0, 50, &[]);
        report(&mut nada, 100, 90, &[]);
        // The filter still contains delays of 50 ms, so that x_curr = 0. x_offset = 0 - 10 x 1.5 =
        // -15 ms, x_diff = 0, delta = 100 ms: + 0.5 x 0.2 x 15/500 = 0.3 %.
        near(nada.r_ref, 1_003_000.0);
        report(&mut nada, 200, 90, &[]);
        // x_curr = 40 ms. x_offset = 40 - 15/1.003 ms, x_diff = 40 ms:
        // - 0.5 x 0.2 x x_offset/500 - 0.5 x 2 x 40/500 = - 8 % and less than 1 %.
        let x_offset = 40.0 - 15.0 / 1.003;
        near(nada.r_ref, 1_003_000.0 * (1.0 - 0.1 * x_offset / 500.0 - 0.08));
    }

    #[test]
    fn the_rate_settles_where_signal_and_rate_balance() {
        // x = 10 ms RMAX / r: with a queueing delay of 20 ms, half of 1.5 Mbit/s.
        let mut nada = nada(1_500_000);
        report(&mut nada, 0, 50, &[]);
        for n in 1..2000 {
            report(&mut nada, 100 * n, 70, &[]);
        }
        // A report brings it nearer by 0.5 x 0.2 x 20/500 = 0.4 %: exp(-8) is left.
        assert!((nada.r_ref / 750_000.0 - 1.0).abs() < 1e-3, "{}", nada.r_ref);
    }

    #[test]
    fn long_delays_are_warped_after_losses() {
        let mut nada = nada(1_000_000);
        report(&mut nada, 0, 50, &[]);
        for n in 1..4 {
            report(&mut nada, 100 * n, 150, &[]);
        }
        near(nada.statistics.warped_delay(&nada.config), 0.1);
        // Two losses within an RTT are one event, which begins the first interval.
        report(&mut nada, 400, 150, &[0, 2]);
        assert_eq!(nada.statistics.losses.mean(), Some(9.0));
        // 100 ms become 50 exp(-0.5 (100 - 50) / 50).
        near(nada.statistics.warped_delay(&nada.config), 0.05 * (-0.5_f64).exp());
        // Two of 40 packets are lost, as those of the first report have left the window: a tenth of
        // 5 %, in one report.
        near(nada.statistics.p_loss, 0.005);
        // 10 ms x 0.5^2 for losses.
        near(nada.statistics.signal(&nada.config), 0.05 * (-0.5_f64).exp() + 0.0025);
        // An event 320 ms later closes an interval of 32 packets: 42 are sent from 400 ms on,
        // those from 720 ms are in the next.
        for n in 5..7 {
            report(&mut nada, 100 * n, 150, &[]);
        }
        report(&mut nada, 700, 150, &[2]);
        assert_eq!(nada.statistics.losses.closed, [32]);
        // Seven packets are less than the closed interval, whose mean counts.
        assert_eq!(nada.statistics.losses.mean(), Some(32.0));
    }

    #[test]
    fn a_loss_expires_after_seven_intervals() {
        let mut nada = nada(1_000_000);
        report(&mut nada, 0, 50, &[]);
        report(&mut nada, 100, 150, &[0]);
        report(&mut nada, 400, 150, &[0]);
        // An interval of 10 packets, and 9 after it: expired after 70, plain after 80.
        assert_eq!(nada.statistics.losses.mean(), Some(10.0));
        let warped = 0.05 * (-0.5_f64).exp();
        // The mean grows with the open interval, n packets long: (n + 10) / 2 from 10 on. The last
        // loss was n packets ago, which never reaches seven times that.
        for n in 5..40 {
            report(&mut nada, 100 * n, 150, &[]);
        }
        near(nada.statistics.warped_delay(&nada.config), warped);
        // Seven closed intervals of 10 packets weigh as much as they did: expiry is possible then.
        nada.statistics.losses.closed = VecDeque::from(vec![10; 8]);
        nada.statistics.losses.open = Some((10, ms(0)));
        (nada.statistics.losses.since, nada.statistics.p_loss) = (75, 0.0);
        near(nada.statistics.warped_delay(&nada.config), (warped + 0.1) / 2.0);
        nada.statistics.losses.since = 80;
        near(nada.statistics.warped_delay(&nada.config), 0.1);
    }

    #[test]
    fn the_backlog_moves_both_rates_a_little() {
        let mut nada = nada(1_000_000);
        // Section 5.2.2: 2000 bytes at 30 frames per second are 48 kbit/s.
        near(nada.target(ms(0), 2000), 952_000.0);
        near(nada.pacing(2000), 1_048_000.0);
        // At most 5 %.
        near(nada.target(ms(0), 20_000), 950_000.0);
    }
}
