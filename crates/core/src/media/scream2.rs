//! SCReAM version 2 (Johansson, Westerlund and Kühlewind,
//! draft-ietf-ccwg-rfc8298bis-screamv2-01).
//!
//! A reference window follows losses, marks and the queueing delay. Bytes in flight may exceed it,
//! up to a factor. The rate of the encoder is the reference window over the RTT. In L4S mode the
//! window falls by the share of marked packets, and a queueing delay above half of its target acts
//! like such marks in every mode.
//!
//! ```text
//! alpha   = alpha + (F - alpha) / 8 up, 127/128 alpha down; F the share of marks   4.2.1.3
//! qavg    = qavg + (qdelay - qavg) / 4 up, qdelay down                             4.2.1.4
//! wnd    *= 0.7 on loss, 0.8 on classic marks                                      4.2.2.1
//! wnd    *= 1 - alpha / 2 / max(1, srtt / 25 ms) on L4S marks                      4.2.2.1
//! wnd    *= 1 - v / 2 / max(1, srtt / 25 ms), v = (qavg - target/2) / (target/2)   4.2.2.1
//! wnd    += unmarked MSS / wnd s (1 + 0.02 wnd / MSS p), both slower near the window
//!           at the last congestion, p from 0 to 1 over 100 RTTs after congestion   4.2.2.2
//! flight <= wnd 3                                                                  4.3.1
//! rate    = 8 wnd / srtt / (1.2 + backlog + frames)                                4.4
//! ```
//!
//! Sections are those of the draft. What the text leaves open, or says in two ways:
//! - Congestion by delay restricts multiplicative growth as losses and marks do. Sections 4.2.1 and
//!   4.2.2.2 call it congestion; the code of section 4.2.2.1 sets last_congestion_detected_time for
//!   losses and marks only. Without it, growth would be multiplicative in a path that is always
//!   congested and neither drops nor marks.
//! - scl_t is computed with the ref_wnd_i of the congestion before, in the order of the code of
//!   section 4.2.2.1. Its comment says that ref_wnd_i is updated earlier: scl_t would then be the
//!   minimum at each reduction.
//! - Near ref_wnd_i growth is at least a quarter of a packet per RTT, as in the code of section
//!   4.2.2.2; its text speaks of a tenth.
//! - Times begin with the first packet of the stream, not with the clock.
//! - The window moves with each report, and its growth sums up to that of once per RTT.
//! - A round trip of max_bytes_in_flight is a smoothed RTT, and ends with a report.
//! - The base delay is the least of the stream, as clocks do not drift, and qdelay is not filtered
//!   further.
//! - At the maximum rate, the window only stops growing: section 4.2.2.2 refers to code for more.
//! - The age of the oldest packet that waits is that of its frame. The size of a frame is compared
//!   with the target at which it was made, when the next one is made.
//! - The competing flows compensation of section 4.5.4 is on, as the section advises for the
//!   Internet: see `competition.rs`. It is off with `target_high` equal to `target_low`.
//! - A minimum send rate without feedback (section 6) is the probe of
//!   [`MediaSender`](super::MediaSender).
//!
//! Deviations:
//! - A packet that a report misses is lost at once, without a reordering window (section 4.2.1.1,
//!   SHOULD).
//! - Reports are 40 ms apart, or as far as 16 packets, if that is less (section 5). The end of a
//!   frame does not cause one: the receiver of media sees no frames.
//!   Reactions to congestion are therefore at least 40 ms apart, where section 4.2.2.1 reckons with
//!   one in 25 ms.
//! - MSS is the size of full packets. Sizes and rates are on the wire; `packet_overhead` is
//!   nevertheless that of the draft.
//! - Optional parts are left out: compensation of clock drift (section 4.5.1), losses of links and
//!   policers (section 4.5.2), and the smaller reduction below the rate acknowledged (section
//!   4.5.3). Packets that wait are never discarded (section 3.3, MAY).

use std::collections::VecDeque;

use super::competition::DelayTarget;
use super::{Heard, MediaController, MediaControllerPart, MediaSetup, Reported};
use crate::parameters;
use crate::part::{Form, Part, ValueKind, Words};
use crate::units::{Duration, Time};

parameters! {
    /// Parameters of SCReAMv2 (draft-ietf-ccwg-rfc8298bis-screamv2-01 section 4).
    pub struct Scream2Config in "", "parameters of scream2";
    /// draft-ietf-ccwg-rfc8298bis-screamv2-01 section 4, and the report interval of section 5.
    pub const DRAFT01;
    /// IS_L4S:
    l4s: bool = false, ValueKind::Bool, "",
        "packets are ECT(1), and the share of marks reduces the window; needs `ecn`";
    /// L4S_AVG_G_UP:
    alpha_up: f64 = 1.0 / 8.0, FACTORS, "", "weight of a larger share of marks in its average";
    /// L4S_AVG_G_DOWN:
    alpha_down: f64 = 1.0 / 128.0, FACTORS, "", "weight of a smaller share of marks in its average";
    /// QDELAY_AVG_G:
    delay_weight: f64 = 1.0 / 4.0, FACTORS, "", "weight of a longer queueing delay in its average";
    reduce_jitter: bool = false, ValueKind::Bool, "",
        "growth and bytes in flight are less when the queueing delay varies";
    /// QDELAY_MIN_MAX_AVG_G:
    extremes_weight: f64 = 1.0 / 16.0, FACTORS, "", "decay of the extremes of the queueing delay";
    /// QDELAY_DEV_AVG_G:
    jitter_weight: f64 = 1.0 / 32.0,
        FACTORS, "", "weight of a sample in the average of their difference";
    /// QDELAY_DEV_THRESHOLD:
    jitter_threshold: Duration = Duration::from_millis(10),
        TIMES, "", "average difference from which growth is least";
    /// QDELAY_TARGET_LO:
    target_low: Duration = Duration::from_millis(60),
        TIMES, "", "minimum target of the queueing delay";
    /// QDELAY_TARGET_HI:
    target_high: Duration = Duration::from_millis(400), TIMES, "",
        "maximum target of the queueing delay, in competition; equal to target_low: no compensation";
    /// MIN_REF_WND:
    min_window: u32 = 3000, ValueKind::Integer { least: 1, most: 1 << 30 }, "bytes",
        "minimum window";
    /// BYTES_IN_FLIGHT_HEAD_ROOM:
    head_room: f64 = 1.5,
        EXCESSES, "", "limit on growth, over the largest number of bytes in flight";
    beta_loss: f64 = 0.7, FACTORS, "", "factor of the window on loss";
    beta_ecn: f64 = 0.8, FACTORS, "", "factor of the window on classic marks";
    /// POST_CONGESTION_DELAY_RTT:
    post_congestion: f64 = 100.0, ValueKind::Positive { most: 1e6 }, "RTTs",
        "time after congestion in which multiplicative growth returns";
    /// MUL_INCREASE_FACTOR:
    mul_increase: f64 = 0.02, ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "multiplicative growth of the window per RTT";
    virtual_rtt: Duration = Duration::from_millis(25),
        TIMES, "", "RTT below which flows have equal shares";
    /// REF_WND_OVERHEAD_MIN:
    overhead_min: f64 = 1.5, EXCESSES, "", "bytes in flight over the window, while the delay varies";
    /// REF_WND_OVERHEAD_MAX:
    overhead_max: f64 = 3.0, EXCESSES, "", "bytes in flight over the window, while it does not";
    /// RATE_PACE_MIN:
    min_pacing: f64 = 50_000.0,
        ValueKind::Positive { most: 1e12 }, "bit/s", "minimum rate for pacing";
    /// PACKET_PACING_HEADROOM:
    pacing: f64 = 1.5, EXCESSES, "", "pacing rate over the target rate";
    /// MAX_RELAXED_PACING_FACTOR:
    relaxed_pacing: f64 = 4.0, EXCESSES, "", "additional factor of pacing at the maximum rate";
    /// RELAXED_PACING_LIMIT_LOW:
    relaxed_from: f64 = 0.8, ValueKind::Number { least: 0.0, most: 0.99 }, "",
        "share of the maximum rate from which pacing relaxes";
    packet_overhead: u32 = 20, ValueKind::Integer { least: 0, most: 1000 }, "bytes",
        "headers for which the rate makes room";
    /// RATE_ADJUST_GAIN:
    rate_gain: f64 = 1.0 / 16.0, ValueKind::Number { least: 0.0, most: 1.0 }, "",
        "gain of the wait in the sender on the rate";
    /// FRAME_SIZE_DEV_ALPHA:
    frame_weight: f64 = 1.0 / 64.0, FACTORS, "", "weight of a frame in the average excess of sizes";
    report_interval: Duration = Duration::from_millis(40),
        ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(10) },
        "", "longest time between reports";
    @check(config) {
        DelayTarget::check(config.target_low, config.target_high)?;
        if config.overhead_min > config.overhead_max {
            let (least, most) = (config.overhead_min, config.overhead_max);
            return Err(format!("overhead_min ({least}) is above overhead_max ({most})"));
        }
        Ok(())
    }
}

const TIMES: ValueKind =
    ValueKind::Time { least: Duration::from_millis(1), most: Duration::from_secs(100) };
const FACTORS: ValueKind = ValueKind::Positive { most: 1.0 };
const EXCESSES: ValueKind = ValueKind::Number { least: 1.0, most: 100.0 };

/// Longest time between updates of l4s_alpha (section 4.2.1.3).
const ALPHA_INTERVAL: Duration = Duration::from_millis(10);

/// RTTs without congestion after which the window may be far above the bytes in flight (section
/// 4.2.2.1).
const LONG_RTTS: f64 = 100.0;

/// Packets after which a report is due, and their size (N of section 5, MSS).
const REPORT_BYTES: f64 = 16.0 * 1000.0;

/// The state of SCReAMv2.
#[derive(Debug)]
pub struct Scream2 {
    config: Scream2Config,
    setup: MediaSetup,
    has_begun: bool,
    srtt: Option<Duration>,
    marks: Marks,
    delays: Delays,
    target: DelayTarget,
    flight: Flight,
    /// ref_wnd, bytes.
    window: f64,
    /// ref_wnd_i: the window at the last congestion, bytes.
    inflection: f64,
    /// ref_wnd_i_update_allowed: the window has grown since then.
    has_grown: bool,
    /// loss_detected and data_units_marked, since the last reaction.
    has_lost: bool,
    is_marked: bool,
    /// last_congestion_detected_time.
    congested: Time,
    /// last_reaction_to_congestion_time.
    reacted: Time,
    rate: MediaRate,
}

/// The share of marked packets (section 4.2.1.3).
#[derive(Debug, Default)]
struct Marks {
    /// l4s_alpha.
    alpha: f64,
    delivered: u64,
    marked: u64,
    updated: Time,
}

/// The queueing delay (section 4.2.1.4). All delays are in seconds.
#[derive(Debug, Default)]
struct Delays {
    base: Option<Duration>,
    /// qdelay.
    latest: f64,
    /// qdelay_avg.
    average: f64,
    averaged: Time,
    /// qdelay_min_avg and qdelay_max_avg.
    extremes: (f64, f64),
    /// qdelay_dev_avg.
    jitter: f64,
    /// ref_wnd_delay_scale.
    scale: f64,
}

/// Bytes in flight (section 4.1.1).
#[derive(Debug, Default)]
struct Flight {
    latest: u64,
    /// max_bytes_in_flight and max_bytes_in_flight_prev: largest of this round trip and of the one
    /// before.
    most: u64,
    most_before: u64,
    round: Time,
}

/// Media rate control (section 4.4).
#[derive(Debug, Default)]
struct MediaRate {
    /// target_bitrate.
    target: f64,
    /// rate_adjust_factor.
    adjustment: f64,
    /// frame_size_dev.
    excess: f64,
    /// Bytes sent.
    sent: u64,
    /// Frames that have not left: the time at which each was made, and the bytes before it.
    frames: VecDeque<(Time, u64)>,
    /// frame_size_nom of the latest frame, bytes.
    nominal: f64,
}

/// A reason to reduce the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Congestion {
    Loss,
    Mark,
    Delay,
}

impl Marks {
    fn on_report(&mut self, config: &Scream2Config, now: Time, srtt: Duration, heard: &[Reported]) {
        let arrived = heard.iter().filter(|packet| packet.arrived.is_some());
        self.delivered += arrived.count() as u64;
        self.marked += heard.iter().filter(|packet| packet.marked).count() as u64;
        if self.delivered == 0 || now < self.updated + ALPHA_INTERVAL.min(srtt) {
            return;
        }
        let fraction = self.marked as f64 / self.delivered as f64;
        if fraction >= self.alpha {
            self.alpha += config.alpha_up * (fraction - self.alpha);
        } else {
            self.alpha *= 1.0 - config.alpha_down;
        }
        (self.delivered, self.marked, self.updated) = (0, 0, now);
    }
}

impl Delays {
    /// Takes the one-way delay of the packet with the highest number. `target` is qdelay_target.
    fn on_sample(
        &mut self,
        config: &Scream2Config,
        (now, srtt): (Time, Duration),
        delay: Duration,
        target: f64,
    ) {
        let base = self.base.map_or(delay, |base| base.min(delay));
        self.base = Some(base);
        self.latest = (delay - base).as_secs_f64();
        if config.reduce_jitter {
            let (least, most) = self.extremes;
            self.extremes = (self.latest.min(least), self.latest.max(most).min(target));
        }
        if now < self.averaged + config.virtual_rtt.min(srtt) {
            return;
        }
        self.averaged = now;
        if self.latest < self.average {
            self.average = self.latest;
        } else {
            self.average += config.delay_weight * (self.latest - self.average);
        }
        if config.reduce_jitter {
            self.update_scale(config);
        }
    }

    /// calculate_ref_wnd_delay_scale.
    fn update_scale(&mut self, config: &Scream2Config) {
        let (least, most) = self.extremes;
        let most = most * (1.0 - config.extremes_weight);
        let least = least + config.extremes_weight * (most - least);
        self.extremes = (least, most);
        self.jitter += config.jitter_weight * (most - least - self.jitter);
        let threshold = config.jitter_threshold.as_secs_f64();
        self.scale = (1.0 - self.jitter / threshold).clamp(0.0, 1.0);
    }
}

impl Flight {
    fn on_sent(&mut self, in_flight: u64) {
        self.latest = in_flight;
        self.most = self.most.max(in_flight);
    }

    /// Returns bytes_newly_acked: how far the highest acknowledged packet has advanced (section
    /// 4.1.2). Lost packets count, and so do those whose reports were lost.
    fn on_report(&mut self, in_flight: u64) -> u64 {
        let acked = self.latest.saturating_sub(in_flight);
        self.latest = in_flight;
        acked
    }

    fn end_round(&mut self, now: Time, srtt: Duration) {
        if now >= self.round + srtt {
            (self.most_before, self.most, self.round) = (self.most, self.latest, now);
        }
    }
}

impl MediaRate {
    /// Takes the start of a frame, before which `waiting` bytes wait.
    fn on_frame(&mut self, config: &Scream2Config, setup: &MediaSetup, now: Time, waiting: u64) {
        if self.frames.back().is_some_and(|(made, _)| *made == now) {
            return; // A further packet of the frame.
        }
        let encoded = self.sent + waiting;
        if let Some((_, before)) = self.frames.back() {
            let size = encoded.saturating_sub(*before) as f64;
            let deviation = ((size - self.nominal) / self.nominal).max(0.0);
            self.excess += config.frame_weight * (deviation - self.excess);
            self.excess = self.excess.min(0.2);
        }
        while self.frames.get(1).is_some_and(|(_, before)| *before <= self.sent) {
            self.frames.pop_front();
        }
        let period = 1.0 / setup.fps;
        let oldest = self.frames.front().filter(|_| waiting > 0);
        let wait = oldest.map_or(0.0, |(made, _)| now.since(*made).as_secs_f64());
        let error = (wait - period / 4.0) / period;
        self.adjustment = (self.adjustment + error * config.rate_gain).clamp(0.0, 0.5);
        self.frames.push_back((now, encoded));
        self.nominal = self.target * period / 8.0;
    }

    fn update(&mut self, config: &Scream2Config, setup: &MediaSetup, window: f64, srtt: Duration) {
        let mss = f64::from(setup.packet_size);
        // ref_wnd_ratio.
        let ratio = (mss / window).min(1.0);
        let mut factor = 1.0 - (ratio - 0.1).clamp(0.0, 0.2);
        factor *= mss / (mss + f64::from(config.packet_overhead));
        factor /= 1.2 + self.adjustment + self.excess;
        self.target = setup.clamp(factor * 8.0 * window / srtt.as_secs_f64());
    }
}

impl Scream2 {
    /// scl_t: 0.1 at the window of the last congestion, 1 from an eighth away on (section 4.2.2.1).
    fn distance(&self) -> f64 {
        let scale = 8.0 * (self.window - self.inflection) / self.inflection;
        (scale * scale).clamp(0.1, 1.0)
    }

    /// The congestion to which it is time to react, if there is any (section 4.2.2.1).
    fn congestion(&self, now: Time, srtt: Duration) -> Option<Congestion> {
        if now < self.reacted + self.config.virtual_rtt.min(srtt) {
            None
        } else if self.has_lost {
            Some(Congestion::Loss)
        } else if self.is_marked {
            Some(Congestion::Mark)
        } else {
            (self.delays.average > self.target.value / 2.0).then_some(Congestion::Delay)
        }
    }

    /// Reference window reduction (section 4.2.2.1). `distance` is scl_t.
    fn reduce(&mut self, now: Time, srtt: Duration, distance: f64) {
        if self.has_lost || self.is_marked {
            self.congested = now;
        }
        let Some(congestion) = self.congestion(now, srtt) else { return };
        if self.has_grown {
            self.inflection = self.window;
            self.has_grown = false;
        }
        let virtual_rtt = self.config.virtual_rtt;
        // Reactions are VIRTUAL_RTT apart, and several in a longer RTT.
        let reactions = (srtt.as_secs_f64() / virtual_rtt.as_secs_f64()).max(1.0);
        let factor = match congestion {
            Congestion::Loss => self.config.beta_loss,
            Congestion::Mark if !self.config.l4s => self.config.beta_ecn,
            Congestion::Mark => {
                let mut backoff = self.marks.alpha / 2.0 / reactions;
                if self.delays.latest < 0.25 * self.target.value {
                    backoff *= distance.max(0.25) * self.delays.scale.max(0.25);
                }
                if now.since(self.reacted) > virtual_rtt.max(srtt).mul_f64(LONG_RTTS) {
                    self.window = self.window.min(self.flight.most_before as f64);
                }
                1.0 - backoff
            }
            Congestion::Delay => {
                let half = self.target.value / 2.0;
                let alpha = ((self.delays.average - half) / half).clamp(0.0, 1.0);
                1.0 - alpha / 2.0 / reactions
            }
        };
        self.window = (self.window * factor).max(f64::from(self.config.min_window));
        (self.congested, self.reacted) = (now, now);
        (self.has_lost, self.is_marked) = (false, false);
    }

    /// Reference window increase by bytes that were acknowledged without a mark (section 4.2.2.2).
    fn increase(&mut self, now: Time, srtt: Duration, unmarked: u64, distance: f64) {
        let config = &self.config;
        let mss = f64::from(self.setup.packet_size);
        let (rtt, virtual_rtt) = (srtt.as_secs_f64(), config.virtual_rtt.as_secs_f64());
        let calm = now.since(self.congested).as_secs_f64();
        let post_congestion = (calm / (config.post_congestion * rtt.max(virtual_rtt))).min(1.0);
        let mut increment = unmarked as f64 * (mss / self.window).min(1.0);
        increment *= (rtt / virtual_rtt).min(1.0);
        increment *= distance.max(0.25);
        increment *= self.delays.scale.max(0.1);
        let multiplicative = config.mul_increase * self.window / mss;
        increment *= 1.0 + multiplicative * post_congestion * distance;
        let most = self.flight.most.max(self.flight.most_before) as f64;
        let is_used = self.window + increment <= mss + most * config.head_room;
        if is_used && self.rate.target < self.setup.most.as_bps() as f64 && increment > 0.0 {
            self.window += increment;
            self.has_grown = true;
        }
    }
}

impl MediaController for Scream2 {
    fn on_report(&mut self, now: Time, heard: &Heard<'_>) {
        let acked = self.flight.on_report(heard.in_flight);
        self.srtt = heard.smoothed_rtt(self.srtt);
        let Some(srtt) = self.srtt else { return };
        self.marks.on_report(&self.config, now, srtt, heard.packets);
        if let Some(delay) = heard.delay() {
            self.delays.on_sample(&self.config, (now, srtt), delay, self.target.value);
        }
        if heard.is_lossy() {
            self.has_lost = true;
            self.target.on_loss();
        }
        self.target.adjust(now, srtt, self.delays.latest);
        let marked = heard.packets.iter().filter(|packet| packet.marked);
        let marked: u64 = marked.map(|packet| u64::from(packet.size)).sum();
        self.is_marked |= marked > 0;
        let distance = self.distance();
        self.reduce(now, srtt, distance);
        self.increase(now, srtt, acked.saturating_sub(marked), distance);
        self.rate.update(&self.config, &self.setup, self.window, srtt);
        self.flight.end_round(now, srtt);
    }

    fn on_sent(&mut self, now: Time, size: u32, in_flight: u64) {
        if !self.has_begun {
            self.has_begun = true;
            (self.congested, self.reacted, self.flight.round) = (now, now, now);
            (self.marks.updated, self.delays.averaged) = (now, now);
        }
        self.flight.on_sent(in_flight);
        self.rate.sent += u64::from(size);
    }

    fn target(&mut self, now: Time, waiting: u64) -> f64 {
        self.rate.on_frame(&self.config, &self.setup, now, waiting);
        self.rate.target
    }

    fn pacing(&self, _waiting: u64) -> f64 {
        // Section 4.3.2.
        let Scream2Config { min_pacing, pacing, relaxed_pacing, relaxed_from, .. } = self.config;
        let nominal = self.rate.target / self.setup.most.as_bps() as f64;
        let relaxed = (nominal - relaxed_from) / (1.0 - relaxed_from);
        self.rate.target.max(min_pacing) * pacing / (1.0 - relaxed).clamp(1.0 / relaxed_pacing, 1.0)
    }

    fn window(&self) -> Option<u64> {
        // Section 4.3.1.
        let Scream2Config { overhead_min, overhead_max, .. } = self.config;
        let overhead = overhead_min + (overhead_max - overhead_min) * self.delays.scale;
        Some((self.window * overhead) as u64)
    }
}

impl Part for Scream2 {
    type Config = Scream2Config;
    const FORMS: &'static [Form<Scream2Config>] = &[Form {
        words: Words {
            name: "scream2",
            what: "makes the rate a window over the RTT; losses, shares of marks and delay move it",
            source: "draft-ietf-ccwg-rfc8298bis-screamv2-01",
        },
        config: Scream2Config::DRAFT01,
    }];
}

impl MediaControllerPart for Scream2 {
    fn new(config: &Scream2Config, setup: &MediaSetup) -> Self {
        Scream2 {
            config: *config,
            setup: *setup,
            has_begun: false,
            srtt: None,
            marks: Marks::default(),
            delays: Delays {
                extremes: (0.0, config.target_low.as_secs_f64()),
                scale: 1.0,
                ..Delays::default()
            },
            target: DelayTarget::new(config.target_low, config.target_high),
            flight: Flight::default(),
            window: f64::from(config.min_window),
            inflection: 1.0,
            has_grown: true,
            has_lost: false,
            is_marked: false,
            congested: Time::ZERO,
            reacted: Time::ZERO,
            rate: MediaRate {
                target: setup.clamp(setup.start.as_bps() as f64),
                ..MediaRate::default()
            },
        }
    }

    fn report_interval(config: &Scream2Config, rate: f64) -> Duration {
        // Section 5.
        let longest = config.report_interval.as_secs_f64();
        Duration::from_secs_f64(longest.min(REPORT_BYTES * 8.0 / rate))
    }

    fn is_l4s(config: &Scream2Config) -> bool {
        config.l4s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{media, ms, near};

    const RTT: Duration = Duration::from_millis(100);

    /// A stream of 150 to 1500 kbit/s, whose frames have 2500 bytes at its first rate.
    fn setup() -> MediaSetup {
        MediaSetup { fps: 25.0, ..media(500_000) }
    }

    fn with(config: Scream2Config) -> Scream2 {
        Scream2 { window: 10_000.0, ..Scream2::new(&config, &setup()) }
    }

    fn l4s() -> Scream2Config {
        Scream2Config { l4s: true, ..Scream2Config::DRAFT01 }
    }

    /// A packet of 1000 bytes, the third in flight, that leaves at `at` ms, and its report 100 ms
    /// later: its one-way delay is `delay` ms and the RTT 50 ms more.
    fn packet(scream: &mut Scream2, at: u64, delay: u64, marked: bool) {
        scream.on_sent(ms(at), 1000, 3000);
        let arrived = Some(ms(at + delay));
        let packets = [Reported { sent: ms(at), arrived, size: 1000, marked }];
        let rtt = Some(Duration::from_millis(delay + 50));
        let heard = Heard { rtt, packets: &packets, in_flight: 2000, waiting: 0 };
        scream.on_report(ms(at + 100), &heard);
    }

    #[test]
    fn a_report_moves_the_window_and_the_rate() {
        let mut scream = Scream2::new(&Scream2Config::DRAFT01, &setup());
        near(scream.window, 3000.0);
        near(scream.target(ms(0), 0), 500_000.0);
        packet(&mut scream, 0, 50, false);
        // A third of the 1000 bytes. 100 ms after the start are 1 % of 100 RTTs: the growth of 2 %
        // per packet of the window, 6 %, counts by a hundredth.
        let window = 3000.0 + 1000.0 / 3.0 * (1.0 + 0.06 * 0.01);
        near(scream.window, window);
        // A packet is 0.3 of the window, 0.2 above the limit; 20 bytes of overhead; 1.2.
        let factor = (1.1 - 1000.0 / window) * 1000.0 / 1020.0 / 1.2;
        near(scream.target(ms(0), 0), factor * 8.0 * window / 0.1);
    }

    #[test]
    fn bytes_acknowledged_are_the_advance_of_the_highest_packet() {
        let mut flight = Scream2::new(&Scream2Config::DRAFT01, &setup()).flight;
        flight.on_sent(1000);
        flight.on_sent(5000);
        assert_eq!(flight.on_report(2000), 3000);
        assert_eq!(flight.on_report(500), 1500);
        assert_eq!((flight.most, flight.most_before), (5000, 0));
        flight.end_round(ms(99), RTT);
        assert_eq!((flight.most, flight.most_before), (5000, 0));
        flight.end_round(ms(100), RTT);
        assert_eq!((flight.most, flight.most_before), (500, 5000));
    }

    #[test]
    fn the_share_of_marks_rises_fast_and_falls_slowly() {
        let mut marks = with(l4s()).marks;
        let packets = |marks: [bool; 4]| {
            marks.map(|marked| Reported { sent: ms(0), arrived: Some(ms(1)), size: 1000, marked })
        };
        marks.on_report(&l4s(), ms(10), RTT, &packets([true, false, false, false]));
        // An eighth of a quarter.
        near(marks.alpha, 1.0 / 32.0);
        // Within 10 ms, packets are counted and not evaluated.
        marks.on_report(&l4s(), ms(19), RTT, &packets([true; 4]));
        near(marks.alpha, 1.0 / 32.0);
        marks.on_report(&l4s(), ms(20), RTT, &packets([false; 4]));
        // 4 of 8.
        near(marks.alpha, 1.0 / 32.0 + (0.5 - 1.0 / 32.0) / 8.0);
        let before = marks.alpha;
        marks.on_report(&l4s(), ms(30), RTT, &packets([false; 4]));
        near(marks.alpha, before * 127.0 / 128.0);
    }

    #[test]
    fn the_average_delay_rises_slowly_and_falls_at_once() {
        let config = Scream2Config::DRAFT01;
        let mut delays = with(config).delays;
        for (at, delay, average) in [
            (25, 50, 0.0),
            // A quarter of 40 ms, and a quarter of the rest of 30.
            (50, 90, 0.01),
            (75, 90, 0.0175),
            // 20 ms after the sample before, less than VIRTUAL_RTT.
            (95, 120, 0.0175),
            (100, 55, 0.005),
        ] {
            delays.on_sample(&config, (ms(at), RTT), Duration::from_millis(delay), 0.06);
            assert!((delays.average - average).abs() < 1e-12, "{at} ms: {delays:?}");
        }
        assert_eq!(delays.scale, 1.0);
    }

    #[test]
    fn a_delay_that_varies_scales_growth_and_bytes_in_flight() {
        let config = Scream2Config { reduce_jitter: true, ..Scream2Config::DRAFT01 };
        let mut scream = with(config);
        assert_eq!(scream.window(), Some(30_000));
        scream.delays.on_sample(&config, (ms(25), RTT), Duration::from_millis(50), 0.06);
        // From 60 and 0 ms, the extremes move to 60 x 15/16 = 56.25 and 56.25 / 16 = 3.515625 ms,
        // 52.734375 apart. 1/32 of that is 1.64794921875 ms, 0.164.. of the threshold of 10 ms.
        near(scream.delays.scale, 1.0 - 0.164_794_921_875);
        // 1.5 + 1.5 x 0.8352.. = 2.7528.. times the window.
        assert_eq!(scream.window(), Some(27_528));
    }

    #[test]
    fn losses_and_classic_marks_reduce_the_window_by_fixed_factors() {
        let mut scream = with(Scream2Config::DRAFT01);
        scream.has_lost = true;
        scream.reduce(ms(1000), RTT, 1.0);
        near(scream.window, 7000.0);
        near(scream.inflection, 10_000.0);
        // Again after VIRTUAL_RTT, 25 ms. Without growth in between, ref_wnd_i stays.
        scream.has_lost = true;
        scream.reduce(ms(1024), RTT, 1.0);
        near(scream.window, 7000.0);
        scream.reduce(ms(1025), RTT, 1.0);
        near(scream.window, 4900.0);
        near(scream.inflection, 10_000.0);
        for _ in 0..10 {
            scream.has_lost = true;
            scream.reduce(scream.reacted + RTT, RTT, 1.0);
        }
        near(scream.window, 3000.0);
        let mut scream = with(Scream2Config::DRAFT01);
        scream.is_marked = true;
        scream.reduce(ms(1000), RTT, 1.0);
        near(scream.window, 8000.0);
    }

    #[test]
    fn l4s_marks_reduce_the_window_by_their_share() {
        // (srtt, qdelay, scl_t, window). Half of alpha is 0.25.
        for (srtt, qdelay, distance, window) in [
            (25, 0.02, 1.0, 7500.0),
            (10, 0.02, 1.0, 7500.0),
            // Four reactions per RTT.
            (100, 0.02, 1.0, 9375.0),
            // At a long delay, the distance does not count: qdelay_target / 4 is 15 ms.
            (100, 0.015, 0.1, 9375.0),
            (100, 0.014, 0.5, 10_000.0 * (1.0 - 0.0625 / 2.0)),
            (100, 0.014, 0.1, 10_000.0 * (1.0 - 0.0625 / 4.0)),
        ] {
            let mut scream = with(l4s());
            (scream.marks.alpha, scream.is_marked, scream.delays.latest) = (0.5, true, qdelay);
            scream.reduce(ms(1000), Duration::from_millis(srtt), distance);
            near(scream.window, window);
        }
        // More than 100 RTTs after the last reaction, the window falls to the bytes in flight.
        let mut scream = with(l4s());
        (scream.marks.alpha, scream.is_marked, scream.delays.latest) = (0.5, true, 0.02);
        scream.flight.most_before = 6000;
        scream.reduce(ms(10_001), RTT, 1.0);
        near(scream.window, 6000.0 * (1.0 - 0.0625));
    }

    #[test]
    fn a_delay_above_half_of_the_target_acts_like_marks() {
        // The target is 60 ms. (qdelay_avg, window).
        for (average, window) in [
            (0.03, 10_000.0),
            // A virtual alpha of 0.5 and of 1, and four reactions per RTT.
            (0.045, 9375.0),
            (0.06, 8750.0),
            (0.2, 8750.0),
        ] {
            let mut scream = with(Scream2Config::DRAFT01);
            scream.delays.average = average;
            scream.reduce(ms(1000), RTT, 1.0);
            near(scream.window, window);
            assert_eq!(scream.congested == ms(1000), window < 10_000.0);
        }
    }

    #[test]
    fn growth_is_a_packet_per_rtt_and_more_long_after_congestion() {
        // (ref_wnd_i, time since congestion, srtt in ms, growth) for a window of 10 packets that
        // is acknowledged, so 1 packet of 1000 bytes.
        for (inflection, calm, srtt, growth) in [
            (5000.0, 0, 100, 1000.0),
            // 2 % of 10 packets more, after 50 and 100 RTTs.
            (5000.0, 5000, 100, 1100.0),
            (5000.0, 10_000, 100, 1200.0),
            (5000.0, 60_000, 100, 1200.0),
            // The RTTs are at least 25 ms long; growth is per 25 ms.
            (5000.0, 2500, 10, 480.0),
            // At ref_wnd_i: scl_t 0.1, and growth at least a quarter.
            (10_000.0, 10_000, 100, 250.0 * (1.0 + 0.2 * 0.1)),
            // (8 x (10 000 - 9412) / 9412)^2 = 0.2498: still a quarter; 9000: 0.790.
            (9412.0, 0, 100, 250.0),
            (9000.0, 0, 100, 1000.0 * 64.0 / 81.0),
        ] {
            let mut scream = with(Scream2Config::DRAFT01);
            (scream.inflection, scream.congested) = (inflection, ms(1000));
            scream.flight.most = 10_000;
            let distance = scream.distance();
            scream.increase(ms(1000 + calm), Duration::from_millis(srtt), 10_000, distance);
            near(scream.window, 10_000.0 + growth);
        }
    }

    #[test]
    fn growth_ends_above_the_bytes_in_flight_and_at_the_maximum_rate() {
        // A packet of 1000 bytes and 1.5 times the bytes in flight: 10 999 bytes are 1 too few.
        for (most, rate, window) in
            [(6667, 1e6, 11_000.0), (6666, 1e6, 10_000.0), (6667, 1.5e6, 10_000.0)]
        {
            let mut scream = with(Scream2Config::DRAFT01);
            (scream.flight.most_before, scream.rate.target) = (most, rate);
            scream.has_grown = false;
            scream.increase(ms(0), RTT, 10_000, 1.0);
            near(scream.window, window);
            assert_eq!(scream.has_grown, window > 10_000.0);
        }
    }

    #[test]
    fn marked_bytes_do_not_grow_the_window() {
        let mut scream = with(l4s());
        packet(&mut scream, 0, 50, true);
        // Alpha is 1/8 after the first report: half of it, over 4 reactions per RTT. scl_t is 1.
        near(scream.window, 10_000.0 * (1.0 - 1.0 / 64.0));
        let Scream2 { congested, reacted, is_marked, .. } = scream;
        assert_eq!((congested, reacted, is_marked), (ms(100), ms(100), false));
    }

    #[test]
    fn the_rate_is_the_window_over_the_rtt_less_what_waits() {
        let config = Scream2Config::DRAFT01;
        let mut scream = with(config);
        // 80 000 bits per 100 ms.
        scream.rate.update(&config, &setup(), 10_000.0, RTT);
        near(scream.rate.target, 800_000.0 * (1000.0 / 1020.0) / 1.2);
        // Frames of 5000 bytes, twice the nominal ones, 40 ms apart; none leaves.
        let mut scream = with(config);
        scream.target(ms(0), 0);
        assert_eq!((scream.rate.adjustment, scream.rate.excess), (0.0, 0.0));
        scream.target(ms(40), 5000);
        // The first frame has waited for a whole period, 3/4 more than a quarter: gain 1/16. Its
        // size is 100 % too large: weight 1/64.
        near(scream.rate.adjustment, 0.75 / 16.0);
        near(scream.rate.excess, 1.0 / 64.0);
        // Packets of the same frame change nothing.
        scream.target(ms(40), 6000);
        near(scream.rate.excess, 1.0 / 64.0);
        scream.rate.update(&config, &setup(), 10_000.0, RTT);
        let divisor = 1.2 + 0.75 / 16.0 + 1.0 / 64.0;
        near(scream.rate.target, 800_000.0 * (1000.0 / 1020.0) / divisor);
        // The first frame leaves: the second is now the oldest, 80 ms at 120 ms.
        for _ in 0..5 {
            scream.on_sent(ms(50), 1000, 1000);
        }
        scream.target(ms(120), 5000);
        near(scream.rate.adjustment, 0.75 / 16.0 + 1.75 / 16.0);
        // Both bounds: 0.5 and 0.2.
        for frame in 1..1000 {
            scream.target(ms(120 + 40 * frame), 5000 + 5000 * frame);
        }
        near(scream.rate.adjustment, 0.5);
        near(scream.rate.excess, 0.2);
        // An empty queue takes the quarter of a period back.
        scream.rate.sent += 5_000_000;
        scream.target(ms(60_000), 0);
        near(scream.rate.adjustment, 0.5 - 0.25 / 16.0);
    }

    #[test]
    fn pacing_relaxes_towards_the_maximum_rate() {
        let mut scream = with(Scream2Config::DRAFT01);
        // Below 0.8 of the maximum, 1.5 times the target; at 0.9, half of the way to the end of the
        // range, twice that; at the maximum, four times.
        for (target, pacing) in [(500e3, 750e3), (1200e3, 1800e3), (1350e3, 4050e3), (1.5e6, 9e6)] {
            scream.rate.target = target;
            near(scream.pacing(0), pacing);
        }
        scream.rate.target = 10_000.0;
        near(scream.pacing(0), 75_000.0);
    }

    #[test]
    fn feedback_is_frequent_enough_for_sixteen_packets() {
        let interval = |rate| Scream2::report_interval(&Scream2Config::DRAFT01, rate);
        assert_eq!(interval(0.0), Duration::from_millis(40));
        // 16 packets of 1000 bytes take 40 ms at 3.2 Mbit/s.
        assert_eq!(interval(3.2e6), Duration::from_millis(40));
        assert_eq!(interval(6.4e6), Duration::from_millis(20));
    }
}
