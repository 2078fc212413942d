//! CUBIC as Linux counts it (net/ipv4/tcp_cubic.c, version 6), for `cubic.linux`.
//!
//! The window is a whole number of packets. Congestion avoidance adds one packet for every `count`
//! packets delivered. The count follows from the cubic function of RFC 9438. It changes every 31 ms
//! or when the window does:
//!
//! ```text
//! target = W_cubic(t + delay_min)            count = cwnd / (target - cwnd), 100 cwnd if it is 0
//! before the first loss, and after a timeout: count <= 20
//! W_est + 1 for every 15 cwnd / 8 packets    count <= cwnd / (W_est - cwnd)
//! count >= 2
//! ```
//!
//! The window before congestion counts, and not the flight: a decrease leaves cwnd 717 / 1024. An
//! idle time moves the start of the epoch. Each slow start ends by HyStart (Ha and Rhee 2011), from
//! 16 packets on, unless `start_up` names another start-up:
//!
//! ```text
//! round:  until everything sent at its first ACK is acknowledged
//! train:  ACKs no more than 2 ms apart arrive for longer than half of delay_min (paced: all of it)
//! delay:  the least RTT of more than 8 samples > delay_min + delay_min / 8, bounded to 4 and 16 ms
//! ```
//!
//! Linux adds to the length of a train the time of four of its largest segments at the pacing rate,
//! at most 1 ms; here it is always 1 ms.

use crate::endpoint::event::AckEvent;
use crate::units::{Duration, Time};

/// C of the cubic function, packets per cubic second: 41 x 10 / 1024 (RFC 9438: 0.4).
const C: f64 = 410.0 / 1024.0;
/// The window that a decrease leaves, as a share: 717 / 1024.
pub(super) const BETA: f64 = 717.0 / 1024.0;
/// Packets per packet of W_est and of cwnd: 8 (1024 + 717) / (3 (1024 - 717)) = 15, over 8.
const FRIENDLY: u64 = 15;
/// The time for which a count is kept: a thirty-second of a second, in ticks of 1 ms.
const KEPT: Duration = Duration::from_millis(31);
/// The most packets for one packet of growth before the first loss, and the fewest ever.
const MOST: u64 = 20;
const LEAST: u64 = 2;
/// RTT samples so soon after a reduction do not count for `delay_min`.
const SETTLING: Duration = Duration::from_secs(1);

/// HyStart: the least window, the gap in a train, the samples, the bounds of the threshold.
const LOW_WINDOW: f64 = 16.0;
const TRAIN_GAP: Duration = Duration::from_millis(2);
const TRAIN_SLACK: Duration = Duration::from_millis(1);
const SAMPLES: u32 = 8;
const THRESHOLD: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(16));

/// The state beside cwnd and ssthresh.
#[derive(Debug, Clone)]
pub(super) struct LinuxCubic {
    /// Packets delivered that have not made cwnd grow.
    credit: u64,
    count: u64,
    /// The window before the latest reduction; 0 before the first and after a timeout.
    last_max: f64,
    /// The window and the time of the latest count.
    counted: Option<(f64, Time)>,
    epoch: Option<LinuxEpoch>,
    delay_min: Option<Duration>,
    /// `None` if another start-up is chosen.
    hystart: Option<Hystart>,
}

#[derive(Debug, Clone)]
struct LinuxEpoch {
    start: Time,
    origin: f64,
    /// Seconds.
    k: f64,
    /// Packets delivered that have not made W_est grow.
    credit: u64,
    w_est: f64,
}

#[derive(Debug, Clone)]
struct Hystart {
    paced: bool,
    found: bool,
    round_end: u64,
    round_start: Time,
    latest: Time,
    least: Duration,
    samples: u32,
}

impl LinuxCubic {
    pub(super) fn new(hystart: bool, paced: bool) -> Self {
        LinuxCubic {
            credit: 0,
            count: 0,
            last_max: 0.0,
            counted: None,
            epoch: None,
            delay_min: None,
            hystart: hystart.then_some(Hystart::new(paced)),
        }
    }

    pub(super) fn on_ack(&mut self, ack: &AckEvent, cwnd: &mut f64, ssthresh: &mut f64) {
        let rtt = ack.path.now.since(ack.sent);
        // Without a sample the two instants are the same.
        if ack.newly_acked > 0 && !rtt.is_zero() {
            self.on_sample(ack, rtt, *cwnd, ssthresh);
        }
        let may_grow = ack.raises && ack.cwnd_limited || ack.allows_growth();
        let mut delivered = ack.delivered;
        if delivered == 0 || !may_grow {
            return;
        }
        if *cwnd < *ssthresh {
            let grown = (*cwnd + delivered as f64).min(*ssthresh);
            delivered -= ((grown - *cwnd) as u64).min(delivered);
            *cwnd = grown;
            if delivered == 0 {
                return;
            }
        }
        self.update(ack.path.now, delivered, *cwnd);
        // A credit from a time with a larger count is spent slowly.
        if self.credit >= self.count {
            self.credit = 0;
            *cwnd += 1.0;
        }
        self.credit += delivered;
        if self.credit >= self.count {
            *cwnd += (self.credit / self.count) as f64;
            self.credit %= self.count;
        }
    }

    fn on_sample(&mut self, ack: &AckEvent, rtt: Duration, cwnd: f64, ssthresh: &mut f64) {
        let now = ack.path.now;
        if self.epoch.as_ref().is_some_and(|epoch| now.since(epoch.start) < SETTLING) {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |least| least.min(rtt));
        self.delay_min = Some(delay_min);
        if let Some(hystart) = &mut self.hystart
            && cwnd < *ssthresh
            && hystart.ends(ack, rtt, cwnd, delay_min)
        {
            *ssthresh = cwnd;
        }
    }

    /// Counts `acked` packets, and finds the number of packets for one packet of growth.
    fn update(&mut self, now: Time, acked: u64, cwnd: f64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.credit += acked;
        }
        let mut renews = true;
        if let Some((counted, at)) = self.counted {
            if counted == cwnd && now.since(at) <= KEPT {
                return;
            }
            // The cubic changes once a tick of the clock.
            let tick = Duration::from_millis(1);
            renews = self.epoch.is_none() || now.floor_to(tick) != at.floor_to(tick);
        }
        let last_max = self.last_max;
        let epoch = self.epoch.get_or_insert_with(|| LinuxEpoch {
            start: now,
            origin: last_max.max(cwnd),
            k: libm::cbrt((last_max - cwnd).max(0.0) / C),
            credit: acked,
            w_est: cwnd,
        });
        if renews {
            self.counted = Some((cwnd, now));
            let ahead = self.delay_min.unwrap_or(Duration::ZERO);
            let t = (now.since(epoch.start) + ahead).as_secs_f64() - epoch.k;
            let target = epoch.origin + (C * t * t * t).trunc();
            self.count = match target > cwnd {
                true => (cwnd / (target - cwnd)) as u64,
                false => 100 * cwnd as u64,
            };
            if last_max == 0.0 {
                self.count = self.count.min(MOST);
            }
        }
        let step = (cwnd as u64 * FRIENDLY / 8).max(1);
        // The largest multiple of the step below the credit.
        let steps = epoch.credit.saturating_sub(1) / step;
        epoch.credit -= steps * step;
        epoch.w_est += steps as f64;
        if epoch.w_est > cwnd {
            self.count = self.count.min((cwnd / (epoch.w_est - cwnd)) as u64);
        }
        self.count = self.count.max(LEAST);
    }

    /// A reduction, to begin with fast convergence (RFC 9438 section 4.7).
    pub(super) fn on_congestion(&mut self, cwnd: f64) {
        let converges = cwnd < self.last_max;
        self.last_max = if converges { (cwnd * (1.0 + BETA) / 2.0).trunc() } else { cwnd };
        self.epoch = None;
        self.credit = 0;
    }

    /// A timeout: nothing is known any more.
    pub(super) fn on_reset(&mut self) {
        let hystart = self.hystart.take().map(|before| Hystart::new(before.paced));
        *self = LinuxCubic { hystart, ..LinuxCubic::new(false, false) };
    }

    /// Moves the epoch by a time without packets.
    pub(super) fn on_idle(&mut self, idle: Duration, now: Time) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + idle).min(now);
        }
    }
}

impl Hystart {
    fn new(paced: bool) -> Self {
        Hystart {
            paced,
            found: false,
            round_end: 0,
            round_start: Time::ZERO,
            latest: Time::ZERO,
            least: Duration::MAX,
            samples: 0,
        }
    }

    /// Returns true if this RTT sample ends slow start.
    fn ends(&mut self, ack: &AckEvent, rtt: Duration, cwnd: f64, delay_min: Duration) -> bool {
        let now = ack.path.now;
        if self.found {
            return false;
        }
        if ack.una > self.round_end {
            *self = Hystart {
                round_end: ack.high,
                round_start: now,
                latest: now,
                ..Hystart::new(self.paced)
            };
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        if now.since(self.latest) <= TRAIN_GAP {
            self.latest = now;
            let length = (delay_min + TRAIN_SLACK).as_ps();
            let length = Duration::from_ps(if self.paced { length } else { length / 2 });
            self.found = now.since(self.round_start) > length;
        }
        self.least = self.least.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let eighth = Duration::from_ps(delay_min.as_ps() / 8);
            let rise = eighth.clamp(THRESHOLD.0, THRESHOLD.1);
            self.found |= self.least > delay_min + rise;
        }
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::event::Path;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// An acknowledgment of `newly` packets at `at` milliseconds after a round trip of `rtt`.
    fn ack(at: u64, rtt: u64, newly: u64, una: u64, high: u64) -> AckEvent {
        let path = Path { now: Time::ZERO + MS(at), ..Path::default() };
        AckEvent {
            path,
            newly_acked: newly,
            delivered: newly,
            cwnd_limited: true,
            una,
            high,
            sent: Time::ZERO + MS(at - rtt),
            ..AckEvent::default()
        }
    }

    #[test]
    fn after_a_timeout_a_packet_of_growth_takes_twenty_or_reno_s_share() {
        let mut cubic = LinuxCubic::new(true, false);
        let (mut cwnd, mut ssthresh) = (7.0, 7.0);
        // One ACK a millisecond, far from any renewal within 31 ms: the count stays 20.
        for at in 0..19 {
            cubic.on_ack(&ack(1000 + at, 100, 1, at + 1, 100), &mut cwnd, &mut ssthresh);
            assert_eq!(cwnd, 7.0, "{at}");
        }
        cubic.on_ack(&ack(1019, 100, 1, 20, 100), &mut cwnd, &mut ssthresh);
        assert_eq!(cwnd, 8.0);
        // Renewed after 32 ms: W_est has grown by one for 7 x 15 / 8 = 13 packets, and the next
        // packet takes 7 / 1, which have been delivered.
        let mut cubic = LinuxCubic::new(true, false);
        let mut cwnd = 7.0;
        for at in 0..14 {
            cubic.on_ack(&ack(1000 + at, 100, 1, at + 1, 100), &mut cwnd, &mut ssthresh);
        }
        assert_eq!(cwnd, 7.0);
        cubic.on_ack(&ack(1032, 100, 1, 15, 100), &mut cwnd, &mut ssthresh);
        assert_eq!(cwnd, 8.0);
    }

    #[test]
    fn the_window_is_back_after_k() {
        let mut cubic = LinuxCubic::new(false, false);
        cubic.on_congestion(100.0);
        let (mut cwnd, mut ssthresh) = (70.0, 70.0);
        let mut una = 0;
        // K = cbrt(30 / 0.4) = 4.217 s; 50 ms ahead. A packet each 5 ms: W_est grows by 840 packets
        // over 1.875 x 85, so that it stays below 76.
        for at in (1000..5200).step_by(5) {
            una += 1;
            cubic.on_ack(&ack(at, 50, 1, una, una + 70), &mut cwnd, &mut ssthresh);
        }
        assert!((97.0..=100.0).contains(&cwnd), "{cwnd}");
    }

    #[test]
    fn a_rise_of_nine_rtts_ends_slow_start_and_eight_do_not() {
        let mut cubic = LinuxCubic::new(true, false);
        let (mut cwnd, mut ssthresh) = (20.0, f64::INFINITY);
        // delay_min 100 ms, so that the threshold is 112.5 ms.
        cubic.on_ack(&ack(100, 100, 10, 10, 30), &mut cwnd, &mut ssthresh);
        for n in 0..8 {
            let una = 32 + 2 * n;
            cubic.on_ack(&ack(300 + 5 * n, 113, 2, una, 60), &mut cwnd, &mut ssthresh);
            assert_eq!(ssthresh, f64::INFINITY);
        }
        let before = cwnd;
        cubic.on_ack(&ack(345, 113, 2, 48, 60), &mut cwnd, &mut ssthresh);
        assert_eq!((ssthresh, before), (46.0, 46.0), "20 + 10 + 8 x 2");
    }

    #[test]
    fn a_train_of_acks_longer_than_half_a_round_trip_ends_slow_start() {
        let mut cubic = LinuxCubic::new(true, false);
        let (mut cwnd, mut ssthresh) = (20.0, f64::INFINITY);
        // One every 2 ms: half of 100 + 1 ms are over after 50.5.
        for n in 0..26 {
            assert_eq!(ssthresh, f64::INFINITY, "{n}");
            cubic.on_ack(&ack(100 + 2 * n, 100, 1, n + 1, 60), &mut cwnd, &mut ssthresh);
        }
        cubic.on_ack(&ack(152, 100, 1, 27, 60), &mut cwnd, &mut ssthresh);
        assert!(ssthresh < f64::INFINITY);
    }

    #[test]
    fn an_idle_time_gives_no_credit() {
        let mut cubic = LinuxCubic::new(false, false);
        cubic.on_congestion(100.0);
        let (mut cwnd, mut ssthresh) = (70.0, 70.0);
        cubic.on_ack(&ack(1000, 50, 1, 1, 100), &mut cwnd, &mut ssthresh);
        let start = cubic.epoch.as_ref().map(|epoch| epoch.start);
        assert_eq!(start, Some(Time::ZERO + MS(1000)));
        cubic.on_idle(MS(500), Time::ZERO + MS(1600));
        assert_eq!(cubic.epoch.as_ref().map(|epoch| epoch.start), Some(Time::ZERO + MS(1500)));
        cubic.on_idle(MS(900), Time::ZERO + MS(1600));
        let start = cubic.epoch.as_ref().map(|epoch| epoch.start);
        assert_eq!(start, Some(Time::ZERO + MS(1600)), "never ahead");
    }
}
