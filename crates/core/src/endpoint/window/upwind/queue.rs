//! The queueing delay, estimated from round-trip times.

use crate::endpoint::estimator::{Greatest, Least};
use crate::units::{Duration, Time};

/// The time for which the smallest RTT is remembered.
pub(super) const FLOOR_SPAN: Duration = Duration::from_secs(600);
/// The time, or round trips if they take longer, in which flows that fill a queue overflow it and
/// empty it once. The smallest mean is remembered for it, and a ceiling without a queue grows by a
/// factor of e in so many round trips.
pub(super) const CYCLE: Duration = Duration::from_secs(20);
pub(super) const CYCLE_ROUNDS: u32 = 20;
/// Standard deviations beyond which a value is not chance.
pub(super) const SURE: f64 = 4.0;
/// Packets whose transmissions are further apart than this share of a round trip show no step:
/// other flows fill a queue in that time.
const CLOSE: f64 = 0.125;
/// The fewest samples that show whether a queue stands; half of them make a mean.
pub(super) const SAMPLES: usize = 8;
/// Blocks over which the largest steps are averaged: bursts of other flows that start are shorter.
const STEPS: f64 = 64.0;
/// RTTs that differ by this share of the smallest one belong to queues of different length. Rates,
/// windows and probabilities are different by as much, and an assumed loss rate is at most this.
pub(super) const RANGE: f64 = 0.1;
/// Round trips in which a queue that swings has its largest and its smallest length, and a router
/// that writes into every packet its turn.
pub(super) const SWING_ROUNDS: u64 = 4;

/// Round-trip times in seconds: single samples, and means over quarters of a round trip, which are
/// less noisy.
#[derive(Debug, Clone, Default)]
pub(super) struct Queue {
    /// Standard deviations by which the smallest of many means lies below the true value.
    allowance: f64,
    srtt: f64,
    floor: Least<f64>,
    /// The smallest sample of the last eighth and of the last half of a round trip.
    eighth: Least<f64>,
    half: Least<f64>,
    /// The last samples, the latest first; zero before the first one.
    latest: [f64; SAMPLES],
    swing: Greatest<f64>,
    block: Block,
    /// The smallest recent mean of a block, and the smallest remembered mean of a round trip (four
    /// blocks).
    recent: Least<f64>,
    base: Least<f64>,
    /// The last four means of blocks, the latest first.
    means: Option<[f64; 4]>,
    /// The deviation of a block's mean, from second differences, which are free of trends.
    deviation: f64,
    /// The mean of the largest steps of blocks, and its largest remembered value.
    step: f64,
    jitter: Greatest<f64>,
    /// The time of the last sample.
    sampled: Time,
}

#[derive(Debug, Clone, Copy, Default)]
struct Block {
    began: Time,
    samples: usize,
    sum: f64,
    /// The largest step of two packets sent closely one after the other.
    step: f64,
}

impl Queue {
    pub(super) fn new(allowance: f64) -> Self {
        Queue { allowance, ..Queue::default() }
    }

    pub(super) fn on_sample(&mut self, now: Time, rtt: Duration) {
        let rtt = rtt.as_secs_f64();
        self.srtt = if self.srtt > 0.0 { self.srtt + (rtt - self.srtt) / 8.0 } else { rtt };
        let srtt = Duration::from_secs_f64(self.srtt);
        let remembered = CYCLE.max(srtt.saturating_mul(u64::from(CYCLE_ROUNDS)));
        self.floor.update(now, rtt, FLOOR_SPAN.max(remembered));
        self.eighth.update(now, rtt, srtt.mul_f64(0.125));
        self.half.update(now, rtt, srtt.mul_f64(0.5));
        self.swing.update(now, rtt, srtt.saturating_mul(SWING_ROUNDS));
        let before = self.latest[0];
        if before > 0.0 {
            let apart = now.since(self.sampled).as_secs_f64() - (rtt - before);
            if apart <= CLOSE * self.srtt {
                self.block.step = self.block.step.max(rtt - before - apart);
            }
        }
        self.latest.rotate_right(1);
        (self.latest[0], self.sampled) = (rtt, now);
        self.block.sum += rtt;
        self.block.samples += 1;
        let is_whole =
            self.block.samples >= SAMPLES / 2 && now.since(self.block.began) >= srtt.mul_f64(0.25);
        if is_whole {
            let mean = self.block.sum / self.block.samples as f64;
            let [first, second, third, _] = self.means.unwrap_or([mean; 4]);
            // Of noise with deviation 1, second differences have the deviation sqrt(6), and a mean
            // absolute value of sqrt(2 / pi) times that.
            let bend = (mean - 2.0 * first + second).abs() / 1.954;
            // A value much larger than the noise so far is not noise.
            let floor = self.floor();
            let bounded = |value: f64, mean: f64| value.min(SURE * (mean + floor / 16.0));
            self.deviation += (bounded(bend, self.deviation) - self.deviation) / 16.0;
            self.step += (bounded(self.block.step, self.step) - self.step) / STEPS;
            self.jitter.update(now, self.step, remembered);
            let means = [mean, first, second, third];
            self.means = Some(means);
            self.base.update(now, means.iter().sum::<f64>() / 4.0, remembered);
            self.recent.update(now, mean, srtt.mul_f64(0.5));
            self.block = Block { began: now, ..Block::default() };
        }
    }

    /// Resets the deviation at the end of start-up, whose trend was not noise.
    pub(super) fn settle(&mut self) {
        self.means = None;
        self.deviation = 0.0;
    }

    /// Forgets all RTTs, since the path has become longer.
    pub(super) fn forget(&mut self) {
        self.floor = Least::default();
        self.base = Least::default();
    }

    /// The smoothed RTT; zero before the first sample.
    pub(super) fn srtt(&self) -> f64 {
        self.srtt
    }
    /// R0: the smallest RTT.
    pub(super) fn floor(&self) -> f64 {
        self.floor.get().unwrap_or(0.0)
    }
    /// R: the RTT including the standing queue.
    pub(super) fn standing(&self) -> f64 {
        self.half.get().unwrap_or(0.0)
    }
    /// dq: the queueing delay, from means, less what may be noise.
    pub(super) fn delay(&self) -> f64 {
        let (Some(recent), Some(base)) = (self.recent.get(), self.base.get()) else { return 0.0 };
        let most = (1.0 + RANGE) * self.floor() + SURE * self.deviation + self.jitter();
        // No mean is below the smallest RTT, unless it is from before a change of the path.
        let base = base.max(self.floor());
        (recent - base.min(most) - self.allowance * self.deviation).max(0.0)
    }
    /// The jitter of the path: twice the mean of the largest steps. A step is an increase of the
    /// RTT beyond the time between two transmissions. No queue explains it, unless its arrivals
    /// exceed twice its capacity, which bursts of other flows do for a short time.
    pub(super) fn jitter(&self) -> f64 {
        2.0 * self.jitter.get().unwrap_or(0.0)
    }
    /// H: the time by which jitter makes the mean RTT without a queue longer at `rate` packets per
    /// second than at a low rate. Packets stay in order, so one that is delayed also delays those
    /// behind it. With delays uniform in 0 to 2 J, a packet is early by t with probability
    /// exp(-rate t^2 / 4 J): the mean is 2 J - sqrt(pi J / rate), and J at a low rate.
    pub(super) fn held_back(&self, rate: f64) -> f64 {
        let jitter = self.jitter();
        (jitter - libm::sqrt(core::f64::consts::PI * jitter / rate)).max(0.0)
    }
    /// The part of a delay that is noise: deviations of a mean, and the jitter.
    pub(super) fn noise(&self) -> f64 {
        self.allowance * self.deviation + self.jitter()
    }
    /// The last second difference of single samples; zero before the third one.
    pub(super) fn bend(&self) -> f64 {
        let [rtt, first, second, ..] = self.latest;
        if second > 0.0 { rtt - 2.0 * first + second } else { 0.0 }
    }
    /// The standard deviation of a mean.
    pub(super) fn deviation(&self) -> f64 {
        self.deviation
    }
    /// The queueing delay and the RTT of the last eighth of a round trip, from at least [`SAMPLES`]
    /// single samples: earlier known than [`Self::delay`], and noisier.
    pub(super) fn now(&self) -> (f64, f64) {
        let eighth = self.eighth.get().unwrap_or(0.0);
        let standing = self.latest.iter().copied().fold(eighth, f64::min).max(self.floor());
        (standing - self.floor(), standing)
    }
    /// The largest queueing delay of four round trips.
    fn swing(&self) -> f64 {
        self.swing.get().map_or(0.0, |rtt| rtt - self.floor())
    }
    /// True if no RTT of four round trips shows a queue.
    pub(super) fn is_flat(&self) -> bool {
        self.swing() <= RANGE * self.floor()
    }
    /// True if the queueing delay is below a tenth of the largest of four round trips, or below 2 %
    /// of the RTT.
    pub(super) fn is_nearly_empty(&self) -> bool {
        self.delay() < (0.1 * self.swing()).max(0.02 * self.floor())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// A queue fed with one sample a millisecond up to `until`, with these RTTs in milliseconds.
    fn fed(until: u64, mut rtt: impl FnMut(u64) -> f64) -> Queue {
        let mut queue = Queue::new(2.0);
        for ms in 1..=until {
            let now = Time::ZERO + Duration::from_millis(ms);
            let rtt = Duration::from_secs_f64(rtt(ms) / 1e3);
            queue.on_sample(now, rtt);
        }
        queue
    }

    #[test]
    fn a_queue_is_what_round_trips_take_longer_than_the_least() {
        let queue = fed(4000, |ms| if ms < 1000 { 80.0 } else { 90.0 });
        assert!((queue.delay() - 0.01).abs() < 1e-4, "{}", queue.delay());
        assert_eq!((queue.floor(), queue.standing()), (0.08, 0.09));
        assert!(!queue.is_nearly_empty());
        // 2 % of 80 ms are 1.6 ms.
        let queue = fed(4000, |ms| if ms < 1000 { 80.0 } else { 81.5 });
        assert!(queue.is_nearly_empty());
    }

    #[test]
    fn noise_is_no_queue_and_a_trend_no_noise() {
        // 0 to 20 ms at random: a mean of 20 has a deviation of 20 / sqrt(12) / sqrt(20) = 1.3 ms,
        // and the smallest of a thousand of them lies about 3 deviations below the rest.
        let mut stream = Stream::new(1, "test", "noise");
        let seen: Vec<_> = (0..50)
            .map(|_| fed(5000, |_| 80.0 + 20.0 * stream.uniform()))
            .map(|noisy| (noisy.deviation, noisy.delay()))
            .collect();
        let mean = |of: fn(&(f64, f64)) -> f64| seen.iter().map(of).sum::<f64>() / 50.0;
        let (deviation, delay) = (mean(|seen| seen.0), mean(|seen| seen.1));
        assert!((deviation - 0.0013).abs() < 0.0002, "{deviation}");
        assert!(delay < 0.002, "of 10 on average: {delay}");
        // A queue that grows by 1 ms in 100 ms: the means cover the last 40 ms and the first 20 ms.
        let growing = fed(4000, |ms| 80.0 + ms as f64 / 100.0);
        assert!(growing.deviation < 1e-4, "{}", growing.deviation);
        assert!((0.035..0.04).contains(&growing.delay()), "{}", growing.delay());
    }

    /// Feeds packets at `rate` per second, each delayed by 0 to 20 ms beyond 80 ms, and kept in
    /// order. Returns their mean RTT.
    fn mean_in_order(queue: &mut Queue, from: u64, seconds: u64, rate: u64) -> f64 {
        let mut stream = Stream::new(rate, "test", "jitter");
        let (mut sum, mut arrived) = (0.0, Time::ZERO);
        for packet in 0..seconds * rate {
            let sent = Time::from_nanos(1_000_000_000 * from + 1_000_000_000 / rate * packet);
            let delay = Duration::from_secs_f64(0.08 + 0.02 * stream.uniform());
            arrived = arrived.max(sent + delay);
            let rtt = arrived.since(sent);
            queue.on_sample(arrived, rtt);
            sum += rtt.as_secs_f64();
        }
        sum / (seconds * rate) as f64
    }

    #[test]
    fn packets_in_order_are_held_back_by_jitter_the_more_the_faster_they_follow() {
        let mut queue = Queue::new(2.0);
        // Ten packets in a second do not meet: they take 10 of 20 ms more on average.
        let apart = mean_in_order(&mut queue, 0, 60, 10);
        assert!((apart - 0.09).abs() < 0.001, "{apart}");
        // 20 - sqrt(pi 20 / 2 rate) ms: 14.4 at one in a millisecond, 17.5 at five.
        for (from, rate, more) in [(100, 200, 0.0), (200, 1000, 4.4), (300, 5000, 7.5)] {
            let mean = mean_in_order(&mut queue, from, 10, rate);
            assert!((1e3 * (mean - apart) - more).abs() < 1.5, "{rate}: {mean}");
            let held_back = queue.held_back(rate as f64);
            assert!((mean - apart - held_back).abs() < 0.002, "{rate}: {mean} {held_back}");
        }
    }

    #[test]
    fn a_longer_path_begins_anew() {
        let mut queue = fed(4000, |ms| if ms < 1000 { 80.0 } else { 90.0 });
        queue.forget();
        assert_eq!(queue.delay(), 0.0);
    }

    #[test]
    fn rtts_before_a_change_of_the_path_leave_no_queue_behind() {
        // One wrong RTT of 2 ms, and half a round trip later the packet size changes.
        let mut queue = Queue::new(2.0);
        for ms in 1..=4000 {
            if ms == 500 {
                queue.forget();
            }
            let rtt = Duration::from_millis(if ms == 480 { 2 } else { 40 });
            let now = Time::ZERO + Duration::from_millis(ms);
            queue.on_sample(now, rtt);
        }
        assert_eq!((queue.floor(), queue.delay()), (0.04, 0.0));
    }
}
