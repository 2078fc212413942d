//! SCReAM (Johansson and Sarker, RFC 8298).
//!
//! A congestion window limits the bytes in flight, as for LEDBAT: it grows while the queueing delay
//! is below a target and shrinks above. The rate of the encoder follows the backlog of packets that
//! the window holds back. The trend of the queueing delay ends phases of fast growth before the
//! target is reached. Stable long delays and losses show traffic that fills queues, and raise the
//! target.
//!
//! ```text
//! trend  = max(0, min(1, R(1) / R(0) fraction_avg)), R the autocorrelation       section 4.1.2
//! cwnd  *= 0.8 on loss, 0.9 on marks, at most once per RTT                       section 4.1.2.2
//! cwnd  += acked                                in fast increase                 section 4.1.2.2
//! cwnd  += off_target acked MSS / cwnd          else                             section 4.1.2.2
//! target = LO (mean + deviation of qdelay / LO), if that is stable; LO to HI     section 4.1.2.3
//! rate  += min(ramp_up, rate) 0.2 s scale       in fast increase                 section 4.1.3
//! rate  += current (1 - guard trend) - factor backlog, growth as above, else     section 4.1.3
//! ```
//!
//! Feedback is a report on each packet, at the interval of section 4.2.2. What the text leaves
//! open:
//! - A packet that a report misses is lost at once, without a reordering window (section 4.1.2.4).
//! - The values behind the target are those of `competition.rs`.
//! - `target_bitrate_last_max` is the target before a reduction by loss or marks, and when fast
//!   increase ends.
//! - `rate_media` is measured over `rate_interval`, and its median over the last 50 of these, 10 s.
//!
//! Deviations: packets in the queue are not discarded when they are old (section 4.1.3, SHOULD).
//! MSS is the size of full packets. The RTP queue counts in bits at the target, as its unit says.

use std::collections::VecDeque;

use super::competition::{DelayTarget, mean};
use super::{Heard, MediaController, MediaControllerPart, MediaSetup, rate_over};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

parameters! {
    /// Parameters of SCReAM (RFC 8298 section 4.1.1.1).
    pub struct ScreamConfig in "", "parameters of scream";
    /// RFC 8298 section 4.1.1.1.
    pub const RFC8298;
    /// QDELAY_TARGET_LO:
    target_low: Duration = Duration::from_millis(100),
        TIMES, "", "minimum target of the queueing delay";
    /// QDELAY_TARGET_HI:
    target_high: Duration = Duration::from_millis(400),
        TIMES, "", "maximum target of the queueing delay";
    /// QDELAY_WEIGHT:
    delay_weight: f64 = 0.1, FACTORS, "", "weight of a sample in the mean of the queueing delay";
    /// QDELAY_TREND_TH and QDELAY_TREND_LO:
    trend_threshold: f64 = 0.2, ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "trend that ends fast increase, and below which it resumes";
    /// MIN_CWND:
    min_window: u32 = 3000,
        ValueKind::Integer { least: 1, most: 1 << 30 }, "bytes", "minimum window";
    /// MAX_BYTES_IN_FLIGHT_HEAD_ROOM:
    head_room: f64 = 1.1, ValueKind::Number { least: 1.0, most: 100.0 }, "",
        "limit on the window, over the largest number of bytes in flight";
    gain: f64 = 1.0, GAINS, "", "gain of the distance from the target";
    beta_loss: f64 = 0.8, FACTORS, "", "factor of the window on loss";
    beta_ecn: f64 = 0.9, FACTORS, "", "factor of the window and of the rate on marks";
    /// BETA_R:
    beta_rate: f64 = 0.9, FACTORS, "", "factor of the rate on loss";
    /// RATE_ADJUST_INTERVAL:
    rate_interval: Duration = Duration::from_millis(200),
        TIMES, "", "time between changes of the rate";
    ramp_up_speed: f64 = 200_000.0, ValueKind::Positive { most: 1e12 }, "bit/s per second",
        "maximum growth of the rate";
    /// PRE_CONGESTION_GUARD:
    guard: f64 = 0.1,
        ValueKind::Number { least: 0.0, most: 1.0 }, "", "weight of the trend in the rate";
    /// TX_QUEUE_SIZE_FACTOR:
    queue_factor: f64 = 1.0, ValueKind::Number { least: 0.0, most: 2.0 }, "",
        "weight of the backlog in the rate";
    /// RTP_QDELAY_TH:
    backlog_threshold: Duration = Duration::from_millis(20),
        TIMES, "", "delay of the backlog above which the rate is reduced";
    /// TARGET_RATE_SCALE_RTP_QDELAY:
    backlog_factor: f64 = 0.95, FACTORS, "", "factor of that reduction";
    /// T_RESUME_FAST_INCREASE:
    resume: Duration = Duration::from_secs(5),
        TIMES, "", "time with a low trend until fast increase resumes";
    /// RATE_PACE_MIN:
    min_pacing: f64 = 50_000.0, ValueKind::Positive { most: 1e12 }, "bit/s", "minimum pacing rate";
    @check(config) {
        DelayTarget::check(config.target_low, config.target_high)
    }
}

const TIMES: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(100) };
const GAINS: ValueKind = ValueKind::Number { least: 0.0, most: 100.0 };
const FACTORS: ValueKind = ValueKind::Positive { most: 1.0 };

/// Time between samples of the fractional queueing delay, and their number (section 4.1.2).
const SAMPLING: Duration = Duration::from_millis(50);
const FRACTIONS: usize = 20;

/// Window of the maximum of bytes in flight (section 4.1.2.2).
const MAXIMUM: Duration = Duration::from_secs(5);

/// Number of intervals in the median of the rate of the encoder.
const MEDIANS: usize = 50;

/// The state of SCReAM.
#[derive(Debug)]
pub struct Scream {
    config: ScreamConfig,
    setup: MediaSetup,
    delays: Delays,
    target: DelayTarget,
    /// Window in bytes.
    cwnd: f64,
    in_fast_increase: bool,
    /// Time since which the trend has been low.
    calm_since: Time,
    /// Times and bytes in flight of the last five seconds, of which only maxima are kept.
    maxima: VecDeque<(Time, u64)>,
    srtt: Option<Duration>,
    /// Times until which losses and marks are not events.
    deaf: [Time; 2],
    rate: MediaRate,
}

/// Measurements of the queueing delay.
#[derive(Debug, Default)]
struct Delays {
    base: Option<Duration>,
    /// qdelay, seconds.
    latest: f64,
    fraction_avg: f64,
    fractions: VecDeque<f64>,
    sampled: Time,
    trend: f64,
    trend_mem: f64,
}

/// Media rate control.
#[derive(Debug, Default)]
struct MediaRate {
    /// target_bitrate.
    target: f64,
    /// target_bitrate_last_max.
    last_max: f64,
    adjusted: Option<Time>,
    /// Bytes sent, acknowledged and encoded since then.
    sent: u64,
    acked: u64,
    waiting_before: u64,
    /// Rates over the interval before: sent and acknowledged.
    transmit: f64,
    ack: f64,
    media: VecDeque<f64>,
}

/// Biased autocorrelation of `x` at `lag`, without a factor (section 4.1.2).
fn autocorrelation(x: &[f64], lag: usize) -> f64 {
    x.iter().zip(&x[lag..]).map(|(a, b)| a * b).sum()
}

impl Delays {
    /// Takes a sample of the one-way delay. `target` is qdelay_target in seconds, `weight` that of
    /// a sample.
    fn on_sample(&mut self, (target, weight): (f64, f64), now: Time, delay: Duration) {
        let base = self.base.map_or(delay, |base| base.min(delay));
        self.base = Some(base);
        self.latest = (delay - base).as_secs_f64();
        if now < self.sampled + SAMPLING {
            return;
        }
        self.sampled = now;
        // update_variables.
        let fraction = self.latest / target;
        self.fraction_avg += weight * (fraction - self.fraction_avg);
        self.fractions.pop_front();
        self.fractions.push_back(fraction);
        let average = mean(self.fractions.iter().copied());
        let centred: Vec<f64> = self.fractions.iter().map(|x| x - average).collect();
        let power = autocorrelation(&centred, 0);
        let a = if power > 0.0 { autocorrelation(&centred, 1) / power } else { 0.0 };
        self.trend = (a * self.fraction_avg).clamp(0.0, 1.0);
        self.trend_mem = (0.99 * self.trend_mem).max(self.trend);
    }
}

impl MediaRate {
    /// Reduces the target on a congestion event.
    fn reduce(&mut self, factor: f64, setup: &MediaSetup) {
        self.last_max = self.target;
        self.target = setup.clamp(factor * self.target);
    }

    /// Section 4.1.3, if it is due. `backlog` is in bytes.
    fn adjust(
        &mut self,
        config: &ScreamConfig,
        setup: &MediaSetup,
        delays: &Delays,
        in_fast_increase: bool,
        (now, backlog): (Time, u64),
    ) {
        let passed = now.since(*self.adjusted.get_or_insert(now));
        if passed < config.rate_interval {
            return;
        }
        self.adjusted = Some(now);
        self.transmit = rate_over(self.sent, passed);
        self.ack = rate_over(self.acked, passed);
        let encoded = (self.sent + backlog).saturating_sub(self.waiting_before);
        self.media.push_back(rate_over(encoded, passed));
        if self.media.len() > MEDIANS {
            self.media.pop_front();
        }
        (self.sent, self.acked, self.waiting_before) = (0, 0, backlog);
        let interval = config.rate_interval.as_secs_f64();
        let ramp_up_speed = config.ramp_up_speed.min(self.target / 2.0);
        let scale = 4.0 * (self.target - self.last_max) / self.last_max;
        let scale = (scale * scale).clamp(0.2, 1.0);
        let current = self.transmit.max(self.ack);
        let backlog = 8.0 * backlog as f64;
        if in_fast_increase {
            self.target += ramp_up_speed * interval * scale;
        } else {
            let mut delta =
                current * (1.0 - config.guard * delays.trend) - config.queue_factor * backlog;
            if delta > 0.0 {
                delta = (delta * scale).min(ramp_up_speed * interval);
            }
            self.target += delta;
            if backlog > config.backlog_threshold.as_secs_f64() * current {
                self.target *= config.backlog_factor;
            }
        }
        let media = self.media.back().copied().unwrap_or(0.0);
        let limit = current.max(media).max(self.median()) * (2.0 - delays.trend_mem);
        self.target = setup.clamp(self.target.min(limit));
    }

    /// rate_media_median.
    fn median(&self) -> f64 {
        let mut sorted: Vec<f64> = self.media.iter().copied().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
    }
}

impl Scream {
    /// update_cwnd of section 4.1.2.2.
    fn update_window(&mut self, acked: u64, in_flight: u64) {
        let (acked, in_flight) = (acked as f64, in_flight as f64);
        if self.in_fast_increase {
            if self.delays.trend < self.config.trend_threshold {
                if in_flight * 1.5 + acked > self.cwnd {
                    self.cwnd += acked;
                }
                return;
            }
            self.in_fast_increase = false;
            self.rate.last_max = self.rate.target;
        }
        let off_target = (self.target.value - self.delays.latest) / self.target.value;
        let mss = f64::from(self.setup.packet_size);
        let is_used = in_flight * 1.25 + acked > self.cwnd;
        if off_target <= 0.0 || is_used {
            self.cwnd += self.config.gain * off_target * acked * mss / self.cwnd;
        }
        let most = self.maxima.front().map_or(0, |(_, bytes)| *bytes) as f64;
        self.cwnd = self.cwnd.min(most * self.config.head_room);
        self.cwnd = self.cwnd.max(f64::from(self.config.min_window));
    }

    /// Reacts to losses and marks, each at most once per RTT. Returns true if it did.
    fn react(&mut self, now: Time, is_lossy: bool, is_marked: bool) -> bool {
        let srtt = self.srtt.unwrap_or_default();
        let (beta, beta_rate) = if is_lossy && now >= self.deaf[0] {
            self.deaf[0] = now + srtt;
            self.target.on_loss();
            (self.config.beta_loss, self.config.beta_rate)
        } else if is_marked && now >= self.deaf[1] {
            (self.config.beta_ecn, self.config.beta_ecn)
        } else {
            return false;
        };
        self.deaf[1] = now + srtt;
        self.in_fast_increase = false;
        self.cwnd = (self.cwnd * beta).max(f64::from(self.config.min_window));
        self.rate.reduce(beta_rate, &self.setup);
        true
    }

    fn adjust_rate(&mut self, now: Time, waiting: u64) {
        let Scream { config, setup, delays, in_fast_increase, .. } = self;
        self.rate.adjust(config, setup, delays, *in_fast_increase, (now, waiting));
    }
}

impl MediaController for Scream {
    fn on_report(&mut self, now: Time, heard: &Heard<'_>) {
        self.srtt = heard.smoothed_rtt(self.srtt);
        if let Some(delay) = heard.delay() {
            let smoothing = (self.target.value, self.config.delay_weight);
            self.delays.on_sample(smoothing, now, delay);
        }
        // Lost packets count, as the highest sequence number has passed them (section 4.1.2).
        let acked: u64 = heard.packets.iter().map(|packet| u64::from(packet.size)).sum();
        self.rate.acked += acked;
        let is_lossy = heard.is_lossy();
        let is_marked = heard.packets.iter().any(|packet| packet.marked);
        if !self.react(now, is_lossy, is_marked) {
            self.update_window(acked, heard.in_flight);
        }
        self.target.adjust(now, self.srtt.unwrap_or_default(), self.delays.latest);
        // Section 4.1.2.7.
        if self.delays.trend >= self.config.trend_threshold {
            self.calm_since = now;
        } else if now >= self.calm_since + self.config.resume {
            self.in_fast_increase = true;
        }
        self.adjust_rate(now, heard.waiting);
    }

    fn on_sent(&mut self, now: Time, size: u32, in_flight: u64) {
        self.rate.sent += u64::from(size);
        while self.maxima.back().is_some_and(|(_, bytes)| *bytes <= in_flight) {
            self.maxima.pop_back();
        }
        self.maxima.push_back((now, in_flight));
        while self.maxima.front().is_some_and(|(time, _)| *time + MAXIMUM < now) {
            self.maxima.pop_front();
        }
    }

    fn target(&mut self, now: Time, waiting: u64) -> f64 {
        self.adjust_rate(now, waiting);
        self.rate.target
    }

    fn pacing(&self, _waiting: u64) -> f64 {
        // Section 4.1.2.6. Before the first RTT, packets leave at once.
        let Some(srtt) = self.srtt else { return f64::INFINITY };
        self.config.min_pacing.max(self.cwnd * 8.0 / srtt.as_secs_f64())
    }

    fn window(&self) -> Option<u64> {
        // Section 4.1.2.5.
        let is_below = self.delays.latest <= self.target.value;
        let slack = if is_below { self.setup.packet_size } else { 0 };
        Some(self.cwnd as u64 + u64::from(slack))
    }
}

impl Part for Scream {
    type Config = ScreamConfig;
    const FORMS: &'static [Form<ScreamConfig>] = &[Form {
        words: Words {
            name: "scream",
            what: "limits bytes in flight by the queueing delay; the rate follows what has to wait",
            source: "RFC 8298",
        },
        config: ScreamConfig::RFC8298,
    }];
}

impl MediaControllerPart for Scream {
    fn new(config: &ScreamConfig, setup: &MediaSetup) -> Self {
        let start = setup.clamp(setup.start.as_bps() as f64);
        Scream {
            config: *config,
            setup: *setup,
            delays: Delays { fractions: VecDeque::from(vec![0.0; FRACTIONS]), ..Delays::default() },
            target: DelayTarget::new(config.target_low, config.target_high),
            cwnd: f64::from(config.min_window),
            in_fast_increase: true,
            calm_since: Time::ZERO,
            maxima: VecDeque::new(),
            srtt: None,
            deaf: [Time::ZERO; 2],
            rate: MediaRate { target: start, last_max: 1.0, ..MediaRate::default() },
        }
    }

    fn report_interval(_config: &ScreamConfig, rate: f64) -> Duration {
        // Section 4.2.2.
        Duration::from_secs_f64(1.0 / (rate / 10_000.0).clamp(2.5, 50.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Reported;
    use crate::testing::{media, ms, near};

    fn scream() -> Scream {
        Scream::new(&ScreamConfig::RFC8298, &media(500_000))
    }

    /// A packet of 1000 bytes that leaves at `at` ms, and its report 100 ms later: a one-way delay
    /// in ms, or a loss.
    fn packet(scream: &mut Scream, at: u64, delay: Option<u64>) {
        scream.on_sent(ms(at), 1000, 3000);
        let arrived = delay.map(|delay| ms(at + delay));
        let packets = [Reported { sent: ms(at), arrived, size: 1000, marked: false }];
        let rtt = delay.map(|delay| Duration::from_millis(delay + 50));
        let heard = Heard { rtt, packets: &packets, in_flight: 2000, waiting: 0 };
        scream.on_report(ms(at + 100), &heard);
    }

    #[test]
    fn the_window_grows_by_what_is_acknowledged_and_falls_once_per_rtt() {
        let mut scream = scream();
        near(scream.cwnd, 3000.0);
        packet(&mut scream, 0, Some(50));
        // Used: 2000 x 1.5 + 1000 > 3000.
        near(scream.cwnd, 4000.0);
        assert_eq!(scream.window(), Some(5000));
        packet(&mut scream, 10, Some(50));
        // Not used: 2000 x 1.5 + 1000 <= 5000 comes only with the next.
        near(scream.cwnd, 4000.0);
        near(scream.rate.target, 500_000.0);
        packet(&mut scream, 20, None);
        near(scream.cwnd, 3200.0);
        near(scream.rate.target, 450_000.0);
        assert!(!scream.in_fast_increase);
        // Within the smoothed RTT of 100 ms, another loss is the same event.
        packet(&mut scream, 40, None);
        assert!(scream.rate.target >= 450_000.0, "{}", scream.rate.target);
        // Not in fast increase: (0.1 - 0) / 0.1 x 1000 x 1000 / 3200 more, but at most 1.1 times
        // the 3000 bytes in flight.
        near(scream.cwnd, 3300.0);
    }

    #[test]
    fn the_trend_is_the_autocorrelation_of_the_delay() {
        // The sums of section 4.1.2.
        let x = [1.0, -2.0, 3.0, -2.0];
        near(autocorrelation(&x, 0), 18.0);
        near(autocorrelation(&x, 1), -2.0 - 6.0 - 6.0);
        let smoothing = (0.1, 0.1);
        let mut scream = scream();
        // A delay that grows by 5 ms in each sample has a trend long before the target of 100 ms;
        // one that jumps by 20 ms has no trend.
        for n in 0..20 {
            let delay = Duration::from_millis(50 + 5 * n);
            scream.delays.on_sample(smoothing, ms(50 * n + 50), delay);
        }
        assert!(scream.delays.latest < 0.1 && scream.delays.trend > 0.2, "{:?}", scream.delays);
        let mut scream = self::scream();
        for n in 0..20 {
            let delay = Duration::from_millis(50 + 20 * (n % 2));
            scream.delays.on_sample(smoothing, ms(50 * n + 50), delay);
        }
        assert!(scream.delays.trend == 0.0, "{:?}", scream.delays);
    }

    #[test]
    fn the_rate_grows_by_at_most_its_speed_and_yields_to_the_backlog() {
        let mut scream = scream();
        scream.target(ms(1000), 0);
        scream.rate.sent = 12_500;
        // Fast increase: min(200, 500/2) kbit/s^2 for 0.2 s; the scale is 1 far above last_max. The
        // rate of the encoder, 12 500 bytes in 0.2 s, allows 500 x (2 - 0) kbit/s.
        near(scream.target(ms(1200), 0), 540_000.0);
        scream.in_fast_increase = false;
        scream.rate.sent = 12_500;
        scream.rate.last_max = 1e3;
        // 500 kbit/s of the current rate less 8 x 75 000 bits, and 5 % as 1.2 s wait.
        near(scream.target(ms(1400), 75_000), (540_000.0 - 100_000.0) * 0.95);
    }

    #[test]
    fn feedback_is_as_frequent_as_the_rate_asks() {
        let interval = |rate| Scream::report_interval(&ScreamConfig::RFC8298, rate);
        assert_eq!(interval(0.0), Duration::from_millis(400));
        assert_eq!(interval(100_000.0), Duration::from_millis(100));
        assert_eq!(interval(1e7), Duration::from_millis(20));
    }
}
