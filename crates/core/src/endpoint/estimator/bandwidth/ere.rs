//! ERE, the eligible rate estimate of TCP Westwood by adaptive sampling (Wang, Valla, Sanadidi
//! and Gerla, "Using adaptive rate estimation to provide enhanced and robust transport over
//! heterogeneous networks", ICNP 2002: TCPW ABSE; tcpwbr2003 cites it for its ERE).
//!
//! A sample over the time between two acknowledgments shows the bottleneck's capacity, a sample
//! over a whole RTT the achieved rate. The interval of a sample therefore grows with congestion,
//! which is the gap between the expected rate cwnd/RTTmin and the throughput Th. The filter's time
//! constant grows with the variation U of the samples:
//!
//! ```text
//! T(k)    =  RTT (cwnd/RTTmin - Th(k)) / (cwnd/RTTmin)   within t(k) - t(k-1) and RTT
//! s(k)    =  packets that arrived during the last T(k) / T(k)
//! U(k)    =  3/5 U(k-1) + 2/5 |s(k) - s(k-1)|
//! tau(k)  =  RTT + N RTT U(k) / Umax                      N = 10; Umax: largest of ten U
//! ERE     =  low-pass of s with tau(k): see `low_pass`
//! ```
//!
//! Choices: tcpwbr2003 repeats neither equations nor constants, and the paper of 2002 was not at
//! hand: they are those that later papers quote. One of these smooths Th with a weight of 0.6 on
//! the previous value; here Th is the rate of the last RTT. Intervals begin at an arrival, since no
//! rate would be exact between two arrivals. There are no virtual samples: unlike BE's, these
//! samples include the silence before them. Acknowledgments of one instant give one sample.
//!
//! No figure of 2002 was compared either. At congestion T is RTT - RTTmin, about half an RTT behind
//! a queue of one pipe. Where acknowledgments arrive in clumps, such an interval often has none:
//! the estimate is then about half of the achieved rate of the connection, while tcpwbr2003 section
//! II describes it as "the rate that the TCP connection is currently achieving". One sample per RTT
//! (`per-rtt`) has that rate; it is a reading of the paper's experiments.

use std::collections::VecDeque;

use super::low_pass::LowPass;
use crate::endpoint::estimator::BandwidthSample;
use crate::units::{Duration, Time};

/// Weight of the previous variation.
const RESTLESSNESS_WEIGHT: f64 = 0.6;
/// N: the factor by which the filter is slower at the largest variation.
const SLOWING: f64 = 10.0;
/// The number of variations among which Umax is the largest.
const MEMORY: usize = 10;
/// The distance, in arrivals, up to which the beginning of an interval is searched linearly.
const NEAR: usize = 16;

/// The state of the estimator.
#[derive(Debug, Clone, Default)]
pub struct Ere {
    filter: LowPass,
    /// The arrival times of the acknowledgments of the last RTT, and the packets arrived by then.
    arrivals: VecDeque<(Time, u64)>,
    total: u64,
    /// The index of the one at which the latest interval began; the next begins near it.
    reached: usize,
    latest: Option<Time>,
    sample: f64,
    restlessness: [f64; MEMORY],
    /// The index of the latest of these.
    newest: usize,
}

impl Ere {
    pub(super) fn rate(&self) -> f64 {
        self.filter.estimate()
    }

    pub(super) fn on_ack(&mut self, sample: &BandwidthSample) {
        self.total += sample.arrived;
        let now = sample.now;
        if sample.rtt.is_zero() {
            return; // The path is unknown before the first RTT.
        }
        match (self.latest, self.arrivals.back_mut()) {
            (Some(latest), Some(last)) if latest == now => {
                last.1 = self.total;
                return;
            }
            (None, _) => {
                self.latest = Some(now);
                self.arrivals.push_back((now, self.total));
                return;
            }
            _ => {}
        }
        let since_last = now.since(self.latest.unwrap_or(now));
        self.latest = Some(now);
        self.arrivals.push_back((now, self.total));
        self.forget_before(now, sample.rtt.max(since_last));
        // The samples kept begin where the last RTT did.
        let interval = interval(sample, self.rate_since(now, 0)).max(since_last);
        self.reached = self.reach(now, interval);
        let rate = self.rate_since(now, self.reached);
        let tau = self.time_constant(rate, sample.rtt);
        // Beyond twice tau the transform would oscillate: the filter keeps only two samples.
        self.filter.on_sample(rate, since_last.min(tau.saturating_mul(2)), tau);
    }

    /// Keeps the arrivals of the last `rtt`, and the one before them as the origin of counts.
    fn forget_before(&mut self, now: Time, rtt: Duration) {
        while self.arrivals.get(1).is_some_and(|(time, _)| now.since(*time) >= rtt) {
            self.arrivals.pop_front();
            self.reached = self.reached.saturating_sub(1);
        }
    }

    /// The index of the last arrival before, or at the beginning of, the last `interval`; the first
    /// known one otherwise.
    fn reach(&self, now: Time, interval: Duration) -> usize {
        let is_before = |(time, _): &(Time, u64)| now.since(*time) >= interval;
        let is_before_at = |at: usize| self.arrivals.get(at).is_some_and(is_before);
        let mut at = self.reached;
        for _ in 0..NEAR {
            if is_before_at(at + 1) {
                at += 1;
            } else if at > 0 && !is_before_at(at) {
                at -= 1;
            } else {
                return at;
            }
        }
        self.arrivals.partition_point(is_before).saturating_sub(1)
    }

    /// Packets per second since arrival `at`.
    fn rate_since(&self, now: Time, at: usize) -> f64 {
        let (since, before) = self.arrivals[at];
        (self.total - before) as f64 / now.since(since).as_secs_f64()
    }

    /// tau(k), for a sample s(k).
    fn time_constant(&mut self, rate: f64, rtt: Duration) -> Duration {
        let previous = self.restlessness[self.newest];
        let change = (rate - self.sample).abs();
        let now = RESTLESSNESS_WEIGHT * previous + (1.0 - RESTLESSNESS_WEIGHT) * change;
        self.sample = rate;
        self.newest = if self.newest + 1 < MEMORY { self.newest + 1 } else { 0 };
        self.restlessness[self.newest] = now;
        // No value is negative or NaN, which makes this faster than `f64::max`.
        let largest = self.restlessness.iter().fold(0.0, |a, b| if *b > a { *b } else { a });
        let share = if largest > 0.0 { now / largest } else { 0.0 };
        rtt.mul_f64(1.0 + SLOWING * share)
    }
}

/// T(k) for a throughput Th(k) in packets per second.
fn interval(sample: &BandwidthSample, throughput: f64) -> Duration {
    let expected = sample.cwnd / sample.min_rtt.as_secs_f64();
    // A cast saturates: below zero, where more arrives than expected, becomes zero.
    sample.rtt.mul_f64((expected - throughput) / expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn sample(at: u64, rtt: u64, cwnd: f64) -> BandwidthSample {
        let (now, rtt) = (Time::ZERO + MS(at), MS(rtt));
        BandwidthSample { now, arrived: 1, rtt, min_rtt: MS(100), srtt: rtt, cwnd }
    }

    #[test]
    fn the_interval_grows_with_the_gap() {
        // 10 packets per RTTmin of 100 ms are expected, and as many come: the shortest.
        assert_eq!(interval(&sample(0, 100, 10.0), 100.0), Duration::ZERO);
        // 200 per second expected, 100 came: half an RTT.
        assert_eq!(interval(&sample(0, 100, 20.0), 100.0), MS(50));
        // The same with a queue, where the RTT is 200 ms.
        assert_eq!(interval(&sample(0, 200, 20.0), 100.0), MS(100));
        // More than expected: no gap.
        assert_eq!(interval(&sample(0, 100, 10.0), 300.0), Duration::ZERO);
    }

    #[test]
    fn a_steady_stream_is_its_rate() {
        for cwnd in [10.0, 40.0] {
            let mut ere = Ere::default();
            for i in 0..2000 {
                ere.on_ack(&sample(i * 10, 100, cwnd));
            }
            assert!((ere.rate() - 100.0).abs() < 1e-6, "{} at {cwnd}", ere.rate());
        }
    }

    /// Ten packets 1 ms apart each 100 ms: 100 a second in bursts of 1000 a second.
    fn of_bursts(cwnd: f64) -> f64 {
        let mut ere = Ere::default();
        for round in 0..200 {
            for i in 0..10 {
                ere.on_ack(&sample(round * 100 + i, 100, cwnd));
            }
        }
        ere.rate()
    }

    #[test]
    fn it_is_a_bandwidth_where_there_is_no_gap_and_a_rate_where_there_is() {
        // The expected rate: one sample per acknowledgment, as in BE.
        assert!(of_bursts(10.0) > 200.0, "{}", of_bursts(10.0));
        // Far less than expected: a whole RTT, in which 10 came.
        assert!((of_bursts(1e6) - 100.0).abs() < 1.0, "{}", of_bursts(1e6));
    }

    #[test]
    fn the_time_constant_by_hand() {
        let mut ere = Ere::default();
        // U = 2/5 x 50 = 20, the largest so far: tau = 100 + 10 x 100 ms.
        assert_eq!(ere.time_constant(50.0, MS(100)), MS(1100));
        // U = 3/5 x 20 + 0 = 12 of 20: 100 + 10 x 100 x 0.6.
        assert_eq!(ere.time_constant(50.0, MS(100)), MS(700));
        // U = 7.2 of 20.
        assert_eq!(ere.time_constant(50.0, MS(100)), MS(460));
    }

    #[test]
    fn silence_is_in_the_next_samples_and_old_arrivals_are_forgotten() {
        let mut ere = Ere::default();
        for i in 0..2000 {
            ere.on_ack(&sample(i * 10, 100, 10.0));
        }
        assert!(ere.arrivals.len() <= 12, "one RTT: {}", ere.arrivals.len());
        // One packet in 10 s, which is more than twice tau: (0.1 + 100) / 2.
        ere.on_ack(&sample(29_990, 100, 10.0));
        assert!((ere.rate() - 50.05).abs() < 1e-6, "{}", ere.rate());
    }
}
