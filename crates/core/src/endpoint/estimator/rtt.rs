//! Round-trip time and retransmission timeout (RFC 6298), from timestamps (RFC 7323).

use crate::units::{Duration, Time};

/// The estimator of one connection.
///
/// ```text
/// RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|      SRTT <- 7/8 SRTT + 1/8 R
/// RTO    <- SRTT + max(G, 4 RTTVAR), kept within the floor and the ceiling, doubled by back-off
/// ```
#[derive(Debug, Clone)]
pub struct RttEstimator {
    granularity: Duration,
    floor: Duration,
    ceiling: Duration,
    srtt: Duration,
    rttvar: Duration,
    /// The timeout without its floor. Cached because it is read more often than it changes.
    probe_timeout: Duration,
    latest: Duration,
    min_rtt: Duration,
    /// The ticks of the latest sample's two instants.
    ticks: [Tick; 2],
    backoff: u32,
    /// True after the first sample.
    sampled: bool,
}

/// One tick of a coarse clock, by its beginning. Successive instants often fall into the same tick,
/// which saves a division for each of them.
#[derive(Debug, Clone, Copy, Default)]
struct Tick(Time);

impl Tick {
    /// The beginning of the tick in which `time` falls.
    #[inline]
    fn floor(&mut self, time: Time, granularity: Duration) -> Time {
        // For an instant before the tick the difference wraps, so that it is not in the tick.
        if time.as_ps().wrapping_sub(self.0.as_ps()) >= granularity.as_ps() {
            self.0 = time.floor_to(granularity);
        }
        self.0
    }
}

impl RttEstimator {
    /// An estimator without samples. `granularity` is G, the tick of the clock.
    pub fn new(
        granularity: Duration,
        floor: Duration,
        ceiling: Duration,
        initial: Duration,
    ) -> Self {
        RttEstimator {
            granularity,
            floor,
            ceiling,
            srtt: Duration::ZERO,
            rttvar: Duration::ZERO,
            probe_timeout: initial,
            latest: Duration::ZERO,
            min_rtt: Duration::ZERO,
            ticks: [Tick::default(); 2],
            backoff: 0,
            sampled: false,
        }
    }

    /// Adds the sample of a packet sent at `sent` and acknowledged at `now`. A timestamp
    /// distinguishes retransmissions, so every sample counts and ends the back-off (RFC 6298
    /// section 5, Karn).
    #[inline]
    pub fn on_sample(&mut self, sent: Time, now: Time) {
        let (sent_tick, now_tick) = {
            let [first, second] = &mut self.ticks;
            (first.floor(sent, self.granularity), second.floor(now, self.granularity))
        };
        let sample = now_tick.since(sent_tick);
        let exact = now.since(sent);
        self.latest = exact;
        self.backoff = 0;
        let (r, ps) = (sample.as_ps(), Duration::from_ps);
        if self.sampled {
            let (srtt, var) = (self.srtt.as_ps(), self.rttvar.as_ps());
            self.min_rtt = self.min_rtt.min(exact);
            self.rttvar = ps(var - var / 4 + srtt.abs_diff(r) / 4);
            self.srtt = ps(srtt - srtt / 8 + r / 8);
        } else {
            self.sampled = true;
            self.min_rtt = exact;
            self.rttvar = ps(r / 2);
            self.srtt = sample;
        }
        self.probe_timeout = self.srtt + self.granularity.max(self.rttvar.saturating_mul(4));
    }

    /// The smoothed RTT; zero before the first sample.
    #[inline]
    pub fn srtt(&self) -> Duration {
        self.srtt
    }

    /// The latest sample, by an exact clock; zero before the first.
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The smallest sample, by an exact clock; zero before the first.
    pub fn min_rtt(&self) -> Duration {
        self.min_rtt
    }

    /// The mean deviation from the smoothed RTT; zero before the first sample.
    pub fn rttvar(&self) -> Duration {
        self.rttvar
    }

    /// The timeout before any back-off.
    #[inline]
    pub fn base_rto(&self) -> Duration {
        self.probe_timeout.max(self.floor).min(self.ceiling)
    }

    /// The upper bound of the backed-off timeout.
    pub fn ceiling(&self) -> Duration {
        self.ceiling
    }

    /// The present timeout, including back-off.
    #[inline]
    pub fn rto(&self) -> Duration {
        let base = self.base_rto();
        if self.backoff == 0 { base } else { self.backed_off(base) }
    }

    /// The probe timeout before any back-off, without max_ack_delay (RFC 9002 section 6.2.1): the
    /// timeout without its floor.
    #[inline]
    pub fn probe_timeout(&self) -> Duration {
        self.probe_timeout
    }

    /// `timeout`, doubled as often as timers have expired since the last sample.
    #[inline]
    pub fn backed_off(&self, timeout: Duration) -> Duration {
        let doubled =
            if self.backoff == 0 { timeout } else { timeout.saturating_mul(1 << self.backoff) };
        doubled.min(self.ceiling)
    }

    /// Doubles the timeout until the next sample, since a timer expired.
    pub fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn estimator() -> RttEstimator {
        RttEstimator::new(Duration::ZERO, MS(200), Duration::from_secs(60), Duration::from_secs(1))
    }

    #[test]
    fn rfc_6298_by_hand() {
        let mut rtt = estimator();
        assert_eq!(rtt.rto(), MS(1000));
        rtt.on_sample(Time::ZERO, Time::ZERO + MS(100));
        // SRTT 100, RTTVAR 50: RTO 100 + 4 x 50.
        assert_eq!((rtt.srtt(), rtt.rto()), (MS(100), MS(300)));
        rtt.on_sample(Time::ZERO, Time::ZERO + MS(180));
        // RTTVAR 37.5 + 20 = 57.5; SRTT 87.5 + 22.5 = 110; RTO 110 + 230.
        assert_eq!((rtt.srtt(), rtt.rto()), (MS(110), MS(340)));
        assert_eq!(rtt.min_rtt(), MS(100));
    }

    #[test]
    fn back_off_doubles_to_the_ceiling_and_ends_with_a_sample() {
        let mut rtt = estimator();
        rtt.back_off();
        assert_eq!(rtt.rto(), Duration::from_secs(2));
        for _ in 0..40 {
            rtt.back_off();
        }
        assert_eq!(rtt.rto(), Duration::from_secs(60));
        rtt.on_sample(Time::ZERO, Time::ZERO + MS(10));
        assert_eq!(rtt.rto(), MS(200), "the floor");
    }

    #[test]
    fn a_coarse_clock_counts_ticks() {
        let mut rtt = RttEstimator::new(MS(10), MS(200), MS(60_000), MS(1000));
        // 19 ms to 131 ms: tick 1 to tick 13.
        rtt.on_sample(Time::ZERO + MS(19), Time::ZERO + MS(131));
        assert_eq!(rtt.srtt(), MS(120));
        assert_eq!((rtt.latest(), rtt.min_rtt()), (MS(112), MS(112)), "these are exact");
    }
}
