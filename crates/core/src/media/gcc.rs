//! Google congestion control (Holmer, Lundin, Carlucci, De Cicco and Mascolo,
//! draft-ietf-rmcat-gcc-02).
//!
//! A Kalman filter estimates the gradient of the queueing delay from groups of packets. A threshold
//! that adapts to the gradient tells over-use and under-use of the path; the rate grows until
//! over-use, and falls below the rate received then. A second rate follows the share of packets
//! lost. The smaller of both applies.
//!
//! ```text
//! d(i)    = t(i) - t(i-1) - (T(i) - T(i-1))                                    section 5.1
//! m(i)   += z(i) k(i),  z(i) = d(i) - m(i-1),  k(i) the Kalman gain            section 5.3
//! th(i)  += dt K (|m(i)| - th(i-1)),  K = K_u above the threshold, else K_d    section 5.4
//! A       = 1.08^min(dt, 1) A, near the rate of the last over-use A + a packet per RTT  5.5
//! A       = beta R on over-use; at most 1.5 R                                  section 5.5
//! A_s     = A_s (1 - p/2) if p > 10 %;  1.05 A_s if p < 2 %                    section 6
//! ```
//!
//! What the text leaves open:
//! - The groups whose intervals give f_max are the last 60.
//! - A share of losses is that of the reports of `loss_interval`: RTCP reports are that far apart,
//!   and a rate that grew with each of the more frequent reports would be unlimited.
//! - R is measured over `rate_window`.
//! - Near the rate of the last over-use is within three standard deviations, and the variance is
//!   smoothed as the mean is, with the weight 0.05.
//! - Section 5.5 bounds A by 1.5 R; at the start, R is 0 and does not bound.
//! - The least step near the rate of the last over-use, 1000 bits, is that of a response time, as
//!   the step of half a packet is: reports are more frequent.
//!
//! Deviations:
//! - m(i) is multiplied by the number of groups so far, at most `groups`, before it is compared
//!   with the threshold, as in WebRTC, from whose code the values of the threshold come. The
//!   gradient of a group alone exceeds the minimum threshold of 6 ms only for overloads of 18 % at
//!   30 frames per second. With `groups = 1`, the text, a stream keeps a queue of 300 ms full and
//!   loses packets.
//! - The pacer sends single packets, not groups of `burst_time` (section 4), and at 1.1 times the
//!   target (`pacing`). At the rate of the encoder itself, a backlog would never drain: it is 0.2
//!   to 0.3 s with `pacing = 1`, the text.
//! - ECN marks have no effect: the draft has none.

use std::collections::VecDeque;

use super::{Heard, MediaController, MediaControllerPart, MediaSetup, rate_over};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

parameters! {
    /// Parameters of Google congestion control (draft-ietf-rmcat-gcc-02 section 5.6).
    pub struct GccConfig in "", "parameters of gcc";
    /// draft-ietf-rmcat-gcc-02 section 5.6.
    pub const DRAFT02;
    burst_time: Duration = Duration::from_millis(5),
        TIMES, "", "packets sent within this time are a group";
    /// q:
    state_noise: f64 = 1e-3,
        ValueKind::Positive { most: 1e6 }, "ms^2", "variance of the state noise";
    /// e(0):
    initial_error: f64 = 0.1,
        ValueKind::Positive { most: 1e6 }, "ms^2", "initial variance of the error";
    chi: f64 = 0.01, ValueKind::Number { least: 0.001, most: 0.1 }, "",
        "coefficient of the variance of the measurement noise";
    /// del_var_th(0):
    threshold: f64 = 12.5, ValueKind::Number { least: LEAST_THRESHOLD, most: MOST_THRESHOLD }, "ms",
        "initial threshold of the gradient";
    /// overuse_time_th:
    overuse_time: Duration = Duration::from_millis(10),
        TIMES, "", "time above the threshold until over-use is signalled";
    /// K_u:
    gain_up: f64 = 0.01, ValueKind::Number { least: 0.0, most: 1.0 }, "1/ms",
        "adaptation of the threshold to larger gradients";
    /// K_d:
    gain_down: f64 = 0.00018, ValueKind::Number { least: 0.0, most: 1.0 }, "1/ms",
        "adaptation of the threshold to smaller gradients";
    /// T:
    rate_window: Duration = Duration::from_millis(500),
        TIMES, "", "window in which the received rate is measured";
    beta: f64 = 0.85, FACTORS, "", "share of the received rate that over-use leaves";
    eta: f64 = 1.08, ValueKind::Number { least: 1.0, most: 100.0 }, "",
        "growth per second away from the rate of the last over-use";
    groups: u32 = 60, ValueKind::Integer { least: 1, most: 1000 }, "",
        "largest number of groups by which the gradient is multiplied";
    pacing: f64 = 1.1,
        ValueKind::Number { least: 1.0, most: 100.0 }, "", "pacing rate over the target rate";
    report_interval: Duration = Duration::from_millis(50),
        ValueKind::Time { least: Duration::from_millis(5), most: Duration::from_secs(10) },
        "", "time between reports";
    loss_interval: Duration = Duration::from_millis(500), TIMES, "", "time between shares of losses";
}

const TIMES: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(10) };
const FACTORS: ValueKind = ValueKind::Positive { most: 1.0 };

/// Range of the threshold, ms, and distance beyond which it does not adapt (section 5.4).
const LEAST_THRESHOLD: f64 = 6.0;
const MOST_THRESHOLD: f64 = 600.0;
const OUTLIER: f64 = 15.0;

/// Weight of a sample in the mean rate at over-use (section 5.5: 0.95 for the mean before).
const RATE_WEIGHT: f64 = 0.05;

/// Number of groups whose intervals give f_max.
const INTERVALS: usize = 60;

/// The state of Google congestion control.
#[derive(Debug)]
pub struct Gcc {
    config: GccConfig,
    setup: MediaSetup,
    groups: Groups,
    filter: Filter,
    detector: Detector,
    /// Arrivals of the last `rate_window`: time and size.
    arrivals: VecDeque<(Time, u32)>,
    state: State,
    /// A, bits per second.
    rate: f64,
    /// Time of the latest change of A.
    updated: Option<Time>,
    over_use: OverUseRate,
    rtt: Duration,
    losses: Losses,
}

/// States of the rate controller (section 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
    Decrease,
}

/// Signals of the detector (section 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    OverUse,
    UnderUse,
    Normal,
}

/// Groups of packets (section 5.2).
#[derive(Debug, Default)]
struct Groups {
    current: Option<Group>,
    last: Option<Group>,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Time,
    sent: Time,
    arrived: Time,
}

/// `a - b` in ms.
fn difference(a: Time, b: Time) -> f64 {
    (a.as_secs_f64() - b.as_secs_f64()) * 1e3
}

impl Groups {
    /// Takes a packet. If it begins a group, returns the interval between the departures of the two
    /// groups before, and d(i), both in ms.
    fn on_packet(&mut self, burst: Duration, sent: Time, arrived: Time) -> Option<(f64, f64)> {
        let group = Group { first_sent: sent, sent, arrived };
        let Some(current) = &mut self.current else {
            self.current = Some(group);
            return None;
        };
        let is_burst = sent.since(current.first_sent) <= burst;
        let varies = difference(arrived, current.arrived) - difference(sent, current.sent);
        let is_released = arrived.since(current.arrived) < burst && varies < 0.0;
        if is_burst || is_released {
            current.sent = current.sent.max(sent);
            current.arrived = current.arrived.max(arrived);
            return None;
        }
        let complete = std::mem::replace(current, group);
        let last = self.last.replace(complete)?;
        let departures = difference(complete.sent, last.sent);
        Some((departures, difference(complete.arrived, last.arrived) - departures))
    }
}

/// The arrival-time filter (section 5.3).
#[derive(Debug, Default)]
struct Filter {
    /// m, ms per group.
    gradient: f64,
    /// e, ms^2.
    error: f64,
    /// var_v, ms^2.
    noise: f64,
    /// Intervals between the departures of groups, ms.
    intervals: VecDeque<f64>,
    groups: u32,
}

impl Filter {
    fn on_group(&mut self, config: &GccConfig, interval: f64, variation: f64) {
        self.groups = self.groups.saturating_add(1);
        self.intervals.push_back(interval);
        if self.intervals.len() > INTERVALS {
            self.intervals.pop_front();
        }
        // f_max, in 1/ms as the interval is in ms.
        let shortest = self.intervals.iter().copied().fold(f64::INFINITY, f64::min).max(1e-3);
        let alpha = libm::pow(1.0 - config.chi, 30.0 * shortest / 1000.0);
        let z = variation - self.gradient;
        let limit = 3.0 * self.noise.sqrt();
        let z = z.clamp(-limit, limit);
        self.noise = (alpha * self.noise + (1.0 - alpha) * z * z).max(1.0);
        let predicted = self.error + config.state_noise;
        let k = predicted / (self.noise + predicted);
        self.gradient += z * k;
        self.error = (1.0 - k) * predicted;
    }
}

/// The over-use detector (section 5.4).
#[derive(Debug, Default)]
struct Detector {
    /// del_var_th, ms.
    threshold: f64,
    /// Time of the latest group.
    updated: Option<Time>,
    /// Time for which the gradient has been above the threshold, ms.
    above: f64,
    before: f64,
}

impl Detector {
    fn on_gradient(&mut self, config: &GccConfig, now: Time, m: f64) -> Signal {
        let passed = self.updated.replace(now).map_or(0.0, |before| difference(now, before));
        let rises = m >= std::mem::replace(&mut self.before, m);
        let signal = if m > self.threshold {
            self.above += passed;
            let is_long = self.above >= config.overuse_time.as_secs_f64() * 1e3;
            if is_long && rises { Signal::OverUse } else { Signal::Normal }
        } else {
            self.above = 0.0;
            if m < -self.threshold { Signal::UnderUse } else { Signal::Normal }
        };
        let distance = m.abs() - self.threshold;
        if distance <= OUTLIER {
            let gain = if distance < 0.0 { config.gain_down } else { config.gain_up };
            // Groups far apart move it no further than to the gradient.
            self.threshold += (gain * passed).min(1.0) * distance;
            self.threshold = self.threshold.clamp(LEAST_THRESHOLD, MOST_THRESHOLD);
        }
        signal
    }
}

/// Mean and variance of the received rate at over-use (section 5.5).
#[derive(Debug, Default)]
struct OverUseRate {
    mean: Option<f64>,
    variance: f64,
}

impl OverUseRate {
    fn on_over_use(&mut self, rate: f64) {
        let Some(mean) = &mut self.mean else {
            self.mean = Some(rate);
            return;
        };
        let off = rate - *mean;
        *mean += RATE_WEIGHT * off;
        self.variance += RATE_WEIGHT * (off * off - self.variance);
    }

    /// True if the rate is close to the mean. Forgets the mean if the rate is above.
    fn is_near(&mut self, rate: f64) -> bool {
        let Some(mean) = self.mean else { return false };
        let deviation = self.variance.sqrt().max(RATE_WEIGHT * mean);
        if rate > mean + 3.0 * deviation {
            *self = OverUseRate::default();
        }
        (rate - mean).abs() <= 3.0 * deviation
    }
}

/// The loss-based controller (section 6).
#[derive(Debug)]
struct Losses {
    /// A_s, bits per second.
    rate: f64,
    since: Option<Time>,
    sent: u64,
    lost: u64,
}

impl Losses {
    fn on_report(&mut self, config: &GccConfig, now: Time, heard: &Heard<'_>) {
        self.sent += heard.packets.len() as u64;
        self.lost += heard.packets.iter().filter(|p| p.arrived.is_none()).count() as u64;
        if now < *self.since.get_or_insert(now) + config.loss_interval || self.sent == 0 {
            return;
        }
        let share = self.lost as f64 / self.sent as f64;
        (self.since, self.sent, self.lost) = (Some(now), 0, 0);
        if share > 0.1 {
            self.rate *= 1.0 - 0.5 * share;
        } else if share < 0.02 {
            self.rate *= 1.05;
        }
    }
}

impl Gcc {
    /// R, bits per second.
    fn received(&self) -> f64 {
        let bytes = self.arrivals.iter().map(|(_, size)| u64::from(*size)).sum();
        rate_over(bytes, self.config.rate_window)
    }

    /// Section 5.5.
    fn control(&mut self, now: Time, signal: Signal) {
        self.state = match (signal, self.state) {
            (Signal::OverUse, _) => State::Decrease,
            (Signal::UnderUse, _) | (Signal::Normal, State::Decrease) => State::Hold,
            (Signal::Normal, _) => State::Increase,
        };
        let received = self.received();
        let seconds = self.updated.map_or(0.0, |before| now.since(before).as_secs_f64());
        match self.state {
            State::Hold => {}
            State::Decrease => {
                self.rate = self.config.beta * received;
                self.over_use.on_over_use(received);
            }
            State::Increase if self.over_use.is_near(received) => {
                let response = (Duration::from_millis(100) + self.rtt).as_secs_f64();
                let alpha = 0.5 * (seconds / response).min(1.0);
                let frame = self.rate / 30.0;
                let packet = frame / (frame / (1200.0 * 8.0)).ceil().max(1.0);
                self.rate += (alpha * packet).max(1000.0 * (seconds / response).min(1.0));
            }
            State::Increase => self.rate *= libm::pow(self.config.eta, seconds.min(1.0)),
        }
        self.updated = Some(now);
        if self.state == State::Increase && received > 0.0 {
            self.rate = self.rate.min(1.5 * received);
        }
        self.rate = self.setup.clamp(self.rate);
    }
}

impl MediaController for Gcc {
    fn on_report(&mut self, now: Time, heard: &Heard<'_>) {
        if let Some(rtt) = heard.rtt {
            self.rtt = rtt;
        }
        let mut signal = Signal::Normal;
        for packet in heard.packets {
            let Some(arrived) = packet.arrived else { continue };
            self.arrivals.push_back((arrived, packet.size));
            let window = self.config.rate_window;
            while self.arrivals.front().is_some_and(|(time, _)| *time + window <= arrived) {
                self.arrivals.pop_front();
            }
            let group = self.groups.on_packet(self.config.burst_time, packet.sent, arrived);
            if let Some((interval, variation)) = group {
                self.filter.on_group(&self.config, interval, variation);
                let count = self.filter.groups.min(self.config.groups);
                let m = self.filter.gradient * f64::from(count);
                match self.detector.on_gradient(&self.config, arrived, m) {
                    Signal::Normal => {}
                    other => signal = other,
                }
            }
        }
        self.control(now, signal);
        self.losses.on_report(&self.config, now, heard);
        // A rate that is not used says nothing about losses at that rate.
        self.losses.rate = self.setup.clamp(self.losses.rate);
    }

    fn target(&mut self, _now: Time, _waiting: u64) -> f64 {
        self.rate.min(self.losses.rate)
    }

    fn pacing(&self, _waiting: u64) -> f64 {
        self.config.pacing * self.rate.min(self.losses.rate)
    }
}

impl Part for Gcc {
    type Config = GccConfig;
    const FORMS: &'static [Form<GccConfig>] = &[Form {
        words: Words {
            name: "gcc",
            what: "grows until the delay rises, falls below the rate received then, and follows losses",
            source: "draft-ietf-rmcat-gcc-02",
        },
        config: GccConfig::DRAFT02,
    }];
}

impl MediaControllerPart for Gcc {
    fn new(config: &GccConfig, setup: &MediaSetup) -> Self {
        let start = setup.clamp(setup.start.as_bps() as f64);
        Gcc {
            config: *config,
            setup: *setup,
            groups: Groups::default(),
            filter: Filter { error: config.initial_error, noise: 1.0, ..Filter::default() },
            detector: Detector { threshold: config.threshold, ..Detector::default() },
            arrivals: VecDeque::new(),
            state: State::Increase,
            rate: start,
            updated: None,
            over_use: OverUseRate::default(),
            rtt: Duration::ZERO,
            losses: Losses { rate: start, since: None, sent: 0, lost: 0 },
        }
    }

    fn report_interval(config: &GccConfig, _rate: f64) -> Duration {
        config.report_interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Reported;
    use crate::testing::{media, ms, near};

    fn gcc(start: u64) -> Gcc {
        Gcc::new(&GccConfig::DRAFT02, &media(start))
    }

    #[test]
    fn packets_of_a_burst_are_a_group() {
        let burst = Duration::from_millis(5);
        let mut groups = Groups::default();
        // Sent at 0 and 3, at 20 and at 40 ms.
        assert_eq!(groups.on_packet(burst, ms(0), ms(50)), None);
        assert_eq!(groups.on_packet(burst, ms(3), ms(55)), None);
        assert_eq!(groups.on_packet(burst, ms(20), ms(80)), None);
        // The group of 20 ms is complete: departures 17 ms apart, arrivals 25 ms.
        let (departures, variation) = groups.on_packet(burst, ms(40), ms(90)).unwrap();
        near(departures, 17.0);
        near(variation, 8.0);
        // 20 ms later, but 2 ms after the one before at the receiver: released in a burst.
        assert_eq!(groups.on_packet(burst, ms(60), ms(92)), None);
    }

    #[test]
    fn the_filter_follows_the_recursion() {
        let mut filter = gcc(500_000).filter;
        let config = GccConfig::DRAFT02;
        // z is at most 3 sqrt(1) = 3; alpha = 0.99^(30 x 33 / 1000); k = 0.101 / (var + 0.101).
        filter.on_group(&config, 33.0, 10.0);
        let alpha = 0.99_f64.powf(0.99);
        let noise = alpha + (1.0 - alpha) * 9.0;
        near(filter.noise, noise);
        near(filter.gradient, 3.0 * 0.101 / (noise + 0.101));
        near(filter.error, 0.101 * noise / (noise + 0.101));
    }

    #[test]
    fn the_threshold_follows_the_gradient_slowly_down_and_quickly_up() {
        let config = GccConfig::DRAFT02;
        let mut detector = gcc(500_000).detector;
        assert_eq!(detector.on_gradient(&config, ms(0), 0.0), Signal::Normal);
        detector.on_gradient(&config, ms(30), 2.5);
        near(detector.threshold, 12.5 - 30.0 * 0.00018 * 10.0);
        let before = detector.threshold;
        // Above for 30 ms, and not falling.
        assert_eq!(detector.on_gradient(&config, ms(60), 20.0), Signal::OverUse);
        near(detector.threshold, before + 30.0 * 0.01 * (20.0 - before));
        // Falling, though above.
        let before = detector.threshold;
        assert_eq!(detector.on_gradient(&config, ms(90), 19.0), Signal::Normal);
        // More than 15 ms above: the threshold stays.
        let before = before + 30.0 * 0.01 * (19.0 - before);
        assert_eq!(detector.on_gradient(&config, ms(120), 100.0), Signal::OverUse);
        near(detector.threshold, before);
        assert_eq!(detector.on_gradient(&config, ms(150), -before - 1.0), Signal::UnderUse);
    }

    #[test]
    fn the_rate_follows_the_states() {
        let mut gcc = gcc(500_000);
        gcc.arrivals.push_back((ms(0), 31_250)); // 500 kbit/s in half a second.
        gcc.control(ms(0), Signal::Normal);
        near(gcc.rate, 500_000.0);
        gcc.control(ms(500), Signal::Normal);
        near(gcc.rate, 500_000.0 * 1.08_f64.sqrt());
        gcc.control(ms(600), Signal::OverUse);
        near(gcc.rate, 0.85 * 500_000.0);
        // Decrease, hold, increase: near the rate of the over-use by packets, of 425 000 / 30 bits
        // in two, times half of 100 / (100 + 100) ms.
        gcc.control(ms(700), Signal::Normal);
        near(gcc.rate, 425_000.0);
        gcc.rtt = Duration::from_millis(100);
        gcc.control(ms(800), Signal::Normal);
        near(gcc.rate, 425_000.0 + 0.25 * 425_000.0 / 60.0);
        gcc.control(ms(900), Signal::UnderUse);
        assert_eq!(gcc.state, State::Hold);
        // At most 1.5 times the rate received.
        gcc.rate = 1_000_000.0;
        gcc.control(ms(1000), Signal::Normal);
        near(gcc.rate, 750_000.0);
    }

    #[test]
    fn the_rate_follows_losses() {
        let config = GccConfig::DRAFT02;
        let report = |losses: &mut Losses, at: u64, lost: usize| {
            let packet = |n: usize| Reported {
                sent: ms(at),
                arrived: (n >= lost).then(|| ms(at)),
                size: 1000,
                marked: false,
            };
            let packets: Vec<Reported> = (0..100).map(packet).collect();
            let heard = Heard { rtt: None, packets: &packets, in_flight: 0, waiting: 0 };
            losses.on_report(&config, ms(at), &heard);
        };
        let mut losses = gcc(1_000_000).losses;
        report(&mut losses, 0, 50); // The interval begins.
        near(losses.rate, 1_000_000.0);
        report(&mut losses, 500, 30); // 80 of 200.
        near(losses.rate, 800_000.0);
        report(&mut losses, 1000, 5);
        near(losses.rate, 800_000.0);
        report(&mut losses, 1500, 1);
        near(losses.rate, 840_000.0);
    }
}
