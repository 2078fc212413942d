//! The measures of a path: its delays, and its round trips.
//!
//! Times are in seconds, and rates in packets per second. The specification
//! (docs/protocols/upwind.md, Definitions) gives the names.

use crate::endpoint::estimator::{Greatest, Least, RateSample};

/// R0 and E are remembered for so long, seconds.
pub(super) const MEMORY: f64 = 600.0;
/// Flows that fill a queue overflow it and empty it once in this time, seconds, or in so many round
/// trips if they take longer.
pub(super) const CYCLE: f64 = 20.0;
pub(super) const CYCLE_TRIPS: u32 = 20;
/// A queueing delay of at most this share of R0 counts as empty.
const EMPTY: f64 = 0.02;
/// The fewest RTTs of a verdict on the queue; half of them make a mean.
pub(super) const SAMPLES: usize = 8;
/// Deviations beyond which a value is not chance.
pub(super) const SURE: f64 = 4.0;

/// Packets lost, and all packets lost or delivered.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) lost: f64,
    pub(super) sent: f64,
}

/// The RTTs of a quarter of a round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    began: f64,
    samples: usize,
    sum: f64,
    /// The largest step.
    step: f64,
}

/// The delays of the path, and its round trips.
#[derive(Debug, Clone, Default)]
pub(super) struct Path {
    srtt: f64,
    /// R0, the smallest RTT.
    least: Least<f64, f64>,
    /// The smallest RTT of the last eighth and of the last half of a round trip.
    eighth: Least<f64, f64>,
    half: Least<f64, f64>,
    /// The last RTTs, the latest first; zero before the first one. The time of the latest.
    latest: [f64; SAMPLES],
    arrived: f64,
    block: Block,
    /// The last four m, the latest first; s; and the smallest m of half a round trip.
    means: Option<[f64; 4]>,
    deviation: f64,
    recent: Least<f64, f64>,
    /// The smallest mean of four m in a cycle.
    base: Least<f64, f64>,
    /// The mean of the steps, and its largest value in a cycle.
    step: f64,
    steps: Greatest<f64, f64>,
    /// Finished round trips.
    pub(super) trips: u64,
    /// The losses of the last one.
    pub(super) trip: Losses,
    /// Packets delivered when the present one began, and packets lost in it.
    began: u64,
    lost: f64,
    bandwidth: Greatest<f64, f64>,
}

impl Path {
    /// A packet was lost.
    pub(super) fn on_lost(&mut self) {
        self.lost += 1.0;
    }

    /// A packet arrived at `now` after `rtt`. Returns whether a round trip is over: the packet was
    /// sent after the last one had ended.
    pub(super) fn on_sample(&mut self, sample: &RateSample, now: f64, rtt: f64) -> bool {
        self.srtt += if self.srtt > 0.0 { (rtt - self.srtt) / 8.0 } else { rtt };
        let cycle = self.cycle();
        self.least.update(now, rtt, MEMORY.max(cycle));
        self.eighth.update(now, rtt, self.srtt / 8.0);
        self.half.update(now, rtt, self.srtt / 2.0);
        self.bandwidth.update(now, sample.rate, 10.0 * self.srtt);
        let [before, ..] = self.latest;
        let apart = now - self.arrived - (rtt - before);
        // Other flows fill a queue in a longer gap.
        if before > 0.0 && apart <= self.srtt / 8.0 {
            self.block.step = self.block.step.max(rtt - before - apart);
        }
        self.latest.rotate_right(1);
        (self.latest[0], self.arrived) = (rtt, now);
        self.block.samples += 1;
        self.block.sum += rtt;
        if self.block.samples >= SAMPLES / 2 && now - self.block.began >= self.srtt / 4.0 {
            self.on_block(now, cycle);
        }
        if sample.prior_delivered < self.began {
            return false;
        }
        let delivered = (sample.total_delivered - self.began) as f64;
        self.trip = Losses { lost: self.lost, sent: self.lost + delivered };
        self.trips += 1;
        (self.began, self.lost) = (sample.total_delivered, 0.0);
        true
    }

    /// A quarter of a round trip is over.
    fn on_block(&mut self, now: f64, cycle: f64) {
        let Block { samples, sum, step, .. } = self.block;
        self.block = Block { began: now, ..Block::default() };
        let mean = sum / samples as f64;
        let [first, second, third, _] = self.means.unwrap_or([mean; 4]);
        self.means = Some([mean, first, second, third]);
        // Of noise with deviation 1, second differences have the deviation sqrt(6), and a mean
        // absolute value of sqrt(2 / pi) times that.
        let bend = (mean - 2.0 * first + second).abs() / 1.954;
        // A value much larger than the noise so far is not noise.
        let floor = self.floor();
        let bounded = |value: f64, mean: f64| value.min(SURE * (mean + floor / 16.0));
        self.deviation += (bounded(bend, self.deviation) - self.deviation) / 16.0;
        self.step += (bounded(step, self.step) - self.step) / 64.0;
        self.steps.update(now, self.step, cycle);
        self.base.update(now, (mean + first + second + third) / 4.0, cycle);
        self.recent.update(now, mean, self.srtt / 2.0);
    }

    /// Start-up is over, whose trend was not noise.
    pub(super) fn settle(&mut self) {
        self.means = None;
        self.deviation = 0.0;
    }

    /// The path has become longer, or packets have another size: earlier RTTs do not compare.
    pub(super) fn forget(&mut self) {
        self.least = Least::default();
        self.base = Least::default();
    }

    /// A cycle of flows that fill a queue.
    pub(super) fn cycle(&self) -> f64 {
        CYCLE.max(f64::from(CYCLE_TRIPS) * self.srtt)
    }
    /// The smoothed RTT; zero before the first sample.
    pub(super) fn srtt(&self) -> f64 {
        self.srtt
    }
    /// R0.
    pub(super) fn floor(&self) -> f64 {
        self.least.get().unwrap_or(0.0)
    }
    /// R: the smallest RTT of the last half round trip.
    pub(super) fn standing(&self) -> f64 {
        self.half.get().unwrap_or(0.0)
    }
    /// s: the standard deviation of m.
    pub(super) fn deviation(&self) -> f64 {
        self.deviation
    }
    /// J: no queue explains a step, unless its arrivals exceed twice its capacity.
    pub(super) fn jitter(&self) -> f64 {
        2.0 * self.steps.get().unwrap_or(0.0)
    }
    /// 2 s + J: the part of a delay that is noise.
    pub(super) fn noise(&self) -> f64 {
        2.0 * self.deviation + self.jitter()
    }
    /// dq: the queueing delay.
    pub(super) fn delay(&self) -> f64 {
        let (Some(recent), Some(base)) = (self.recent.get(), self.base.get()) else { return 0.0 };
        let most = 1.1 * self.floor() + SURE * self.deviation + self.jitter();
        // No mean is below R0, unless it is from before a change of the path.
        let base = base.max(self.floor()).min(most);
        // The smallest of many means lies two deviations below the true value.
        (recent - base - 2.0 * self.deviation).max(0.0)
    }
    /// b: the packets of a window that wait in the queue.
    pub(super) fn backlog(&self, cwnd: f64) -> f64 {
        let standing = self.standing();
        if standing > 0.0 { cwnd * self.delay() / standing } else { 0.0 }
    }
    /// The same in start-up, from single RTTs: earlier known, and noisier.
    pub(super) fn backlog_now(&self, cwnd: f64) -> f64 {
        let eighth = self.eighth.get().unwrap_or(0.0);
        let standing = self.latest.iter().copied().fold(eighth, f64::min).max(self.floor());
        cwnd * (standing - self.floor()) / standing
    }
    /// The second difference of the last three RTTs; zero before the third one.
    pub(super) fn bend(&self) -> f64 {
        let [rtt, first, second, ..] = self.latest;
        if second > 0.0 { rtt - 2.0 * first + second } else { 0.0 }
    }
    /// True if the queue is empty, or nearly.
    pub(super) fn is_empty(&self) -> bool {
        self.delay() < EMPTY * self.floor()
    }
    /// The largest delivery rate of ten round trips.
    pub(super) fn bandwidth(&self) -> f64 {
        self.bandwidth.get().unwrap_or(0.0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::rng::Stream;
    use crate::units::{Duration, Time};

    /// A sample of one packet at `ms` milliseconds with an RTT of `rtt` milliseconds, at a steady
    /// 1000 packets a second.
    pub(in super::super) fn sample(ms: u64, rtt: u64) -> RateSample {
        RateSample {
            now: Time::ZERO + Duration::from_millis(ms),
            newly_acked: 1,
            total_delivered: ms,
            prior_delivered: ms - rtt.min(ms),
            delivered: rtt,
            rate: 1000.0,
            tx_in_flight: rtt,
            rtt: Some(Duration::from_millis(rtt)),
            in_flight: rtt,
            prior_in_flight: rtt,
            ..RateSample::default()
        }
    }

    /// Feeds a sample a millisecond from `from` until `until`, with these RTTs in milliseconds.
    pub(in super::super) fn feed(
        path: &mut Path,
        from: u64,
        until: u64,
        mut rtt: impl FnMut(u64) -> f64,
    ) {
        for ms in from..until {
            let rtt = rtt(ms);
            path.on_sample(&sample(ms, rtt as u64), ms as f64 / 1e3, rtt / 1e3);
        }
    }

    fn fed(until: u64, rtt: impl FnMut(u64) -> f64) -> Path {
        let mut path = Path::default();
        feed(&mut path, 1, until + 1, rtt);
        path
    }

    #[test]
    fn a_queue_is_what_round_trips_take_longer_than_the_least() {
        let path = fed(4000, |ms| if ms < 1000 { 80.0 } else { 90.0 });
        assert!((path.delay() - 0.01).abs() < 1e-4, "{}", path.delay());
        // 90 packets of which a ninth waits.
        assert!((path.backlog(90.0) - 10.0).abs() < 0.1, "{}", path.backlog(90.0));
        assert_eq!((path.floor(), path.standing()), (0.08, 0.09));
        assert!(!path.is_empty());
        // 2 % of 80 ms are 1.6 ms.
        assert!(fed(4000, |ms| if ms < 1000 { 80.0 } else { 81.5 }).is_empty());
    }

    #[test]
    fn noise_is_no_queue_and_a_trend_no_noise() {
        // 0 to 20 ms at random: a mean of 20 has a deviation of 20 / sqrt(12) / sqrt(20) = 1.3 ms,
        // and the smallest of a thousand of them lies about 3 deviations below the rest.
        let mut stream = Stream::new(1, "test", "noise");
        let seen: Vec<_> = (0..50)
            .map(|_| fed(5000, |_| 80.0 + 20.0 * stream.uniform()))
            .map(|noisy| (noisy.deviation(), noisy.delay()))
            .collect();
        let mean = |of: fn(&(f64, f64)) -> f64| seen.iter().map(of).sum::<f64>() / 50.0;
        let (deviation, delay) = (mean(|seen| seen.0), mean(|seen| seen.1));
        assert!((deviation - 0.0013).abs() < 0.0002, "{deviation}");
        assert!(delay < 0.002, "of 10 on average: {delay}");
        // A queue that grows by 1 ms in 100 ms: the means cover the last 40 ms and the first 20 ms.
        let growing = fed(4000, |ms| 80.0 + ms as f64 / 100.0);
        assert!(growing.deviation() < 1e-4, "{}", growing.deviation());
        assert!((0.035..0.04).contains(&growing.delay()), "{}", growing.delay());
    }

    #[test]
    fn steps_are_jitter() {
        assert_eq!(fed(4000, |_| 80.0).jitter(), 0.0);
        // Packets leave every millisecond; every 40th is 20 ms late, and those behind it arrive
        // with it, in order. A quarter of a round trip has 20 to 25 packets, and half of them have
        // a step of 20 ms less the millisecond between two transmissions. J is twice the mean.
        let mut path = Path::default();
        for ms in 1..20_000_u64 {
            let late = 20_u64.saturating_sub(ms % 40);
            let (now, rtt) = ((ms + late) as f64 / 1e3, (80 + late) as f64 / 1e3);
            path.on_sample(&sample(ms + late, 80 + late), now, rtt);
        }
        assert!((0.015..0.04).contains(&path.jitter()), "{}", path.jitter());
    }

    #[test]
    fn a_changed_path_leaves_no_queue_behind() {
        let mut path = fed(4000, |ms| if ms < 1000 { 80.0 } else { 90.0 });
        path.forget();
        assert_eq!(path.delay(), 0.0);
        // One wrong RTT of 2 ms, and half a round trip later the packet size changes.
        let mut path = Path::default();
        feed(&mut path, 1, 500, |ms| if ms == 480 { 2.0 } else { 40.0 });
        path.forget();
        feed(&mut path, 500, 4000, |_| 40.0);
        assert_eq!((path.floor(), path.delay()), (0.04, 0.0));
    }

    #[test]
    fn a_round_trip_delivers_and_loses() {
        let mut path = Path::default();
        let mut feed = |ms: u64, delivered: u64, prior: u64, lost: u64| {
            (0..lost).for_each(|_| path.on_lost());
            let sample = RateSample {
                total_delivered: delivered,
                prior_delivered: prior,
                rate: 500.0,
                ..sample(ms, 100)
            };
            let is_over = path.on_sample(&sample, ms as f64 / 1e3, 0.1);
            (is_over, path.trip.lost, path.trip.sent)
        };
        feed(100, 10, 0, 0);
        // A packet that was sent before 10 were delivered belongs to the same round trip.
        assert!(!feed(150, 40, 5, 20).0);
        // 80 packets delivered, and 20 lost of 100.
        assert_eq!(feed(200, 90, 10, 0), (true, 20.0, 100.0));
        assert_eq!(feed(300, 180, 90, 10), (true, 10.0, 100.0));
        assert_eq!((path.trips, path.bandwidth()), (3, 500.0));
    }
}
