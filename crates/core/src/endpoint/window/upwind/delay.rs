//! The delay mode: the window follows the number of own packets in the queue, as Copa's does.

use super::path::{Path, SURE};
use crate::endpoint::estimator::RateSample;

/// Round trips in one direction from which the velocity doubles.
const TREND: u32 = 3;
/// A window or a delay of at most this share of an earlier one has clearly changed.
pub(super) const SHRUNK: f64 = 0.7;

/// A delay far above what the window explains, and the smallest and the largest window since.
#[derive(Debug, Clone, Copy)]
struct Jump {
    least: f64,
    most: f64,
    delay: f64,
}

/// The direction and the speed of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delay {
    velocity: f64,
    is_up: bool,
    /// Round trips in this direction.
    steady: u32,
    /// The window when the round trip began.
    began: f64,
    /// Packets delivered when the window was set to that of the pipe: the delay of packets sent
    /// before reflects another window.
    settled: u64,
    jump: Option<Jump>,
}

impl Delay {
    /// Begins with the window `cwnd`, which was set when `settled` packets were delivered.
    pub(super) fn begin(cwnd: f64, is_up: bool, settled: u64) -> Self {
        Delay { velocity: 1.0, is_up, steady: 0, began: cwnd, settled, jump: None }
    }

    /// True if a packet sent when `delivered` packets were delivered tells of the present window.
    pub(super) fn is_settled(&self, delivered: u64) -> bool {
        delivered >= self.settled
    }

    /// Resets the velocity.
    pub(super) fn slow_down(&mut self) {
        self.velocity = 1.0;
    }

    /// The window after a packet arrived, if it was `cwnd` (rule 10). `target` packets are to wait
    /// in the queue, and 1 / delta is the smallest step in a round trip.
    pub(super) fn step(
        &mut self,
        cwnd: f64,
        path: &Path,
        sample: &RateSample,
        (target, least): (f64, f64),
        is_over: bool,
    ) -> f64 {
        if is_over {
            self.turn(cwnd, least);
        }
        let backlog = path.backlog(cwnd);
        let is_up = backlog <= target;
        if !self.is_settled(sample.prior_delivered) || is_up && sample.is_app_limited {
            return cwnd;
        }
        if is_up != self.is_up {
            self.slow_down();
        }
        let step = self.velocity * least;
        let change = if is_up { step } else { -step.max(0.5 * (backlog - target)) };
        cwnd + change * sample.newly_acked as f64 / cwnd
    }

    /// Takes the direction of the round trip that is over.
    fn turn(&mut self, cwnd: f64, least: f64) {
        let is_up = cwnd >= self.began;
        if is_up == self.is_up {
            self.steady += 1;
            let faster = if self.steady >= TREND { 2.0 } else { 1.0 };
            self.velocity = (faster * self.velocity).min((0.5 * cwnd / least).max(1.0));
            self.began = cwnd;
        } else {
            *self = Delay { jump: self.jump, ..Delay::begin(cwnd, is_up, self.settled) };
        }
    }

    /// Detects a longer path at the end of a round trip, and returns the window to begin anew with
    /// (rule 11): the delay of a queue that this window fills changes by a larger share than the
    /// window.
    pub(super) fn judge_path(
        &mut self,
        cwnd: f64,
        path: &Path,
        target: f64,
        overflows: bool,
    ) -> Option<f64> {
        let delay = path.delay();
        // Others that fill the queue keep it full.
        let jump = self.jump.take().filter(|_| !overflows);
        self.jump = match jump {
            Some(Jump { least, most, delay: was })
                if (delay - was).abs() <= (1.0 - SHRUNK) * was =>
            {
                let (least, most) = (least.min(cwnd), most.max(cwnd));
                if least <= SHRUNK * most {
                    *self = Delay::begin(most, false, 0);
                    return Some(most);
                }
                Some(Jump { least, most, delay: was })
            }
            // Not caused by this window, which keeps the target.
            _ => {
                let is_jump = !overflows && path.backlog(cwnd) >= SURE * target;
                is_jump.then_some(Jump { least: cwnd, most: cwnd, delay })
            }
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::path::tests::{feed, sample};
    use super::*;

    /// A path of 80 ms without a queue for 400 ms, and then one that takes `longer` ms more.
    fn path(until: u64, longer: u64) -> Path {
        let mut path = Path::default();
        feed(&mut path, 1, until, |ms| if ms < 400 { 80.0 } else { (80 + longer) as f64 });
        path
    }

    #[test]
    fn the_window_moves_towards_two_packets_in_the_queue() {
        // No queue: up by 1 / (delta cwnd) = 2/80.
        let step = |path: &Path, ms: u64| {
            let mut delay = Delay::begin(80.0, true, 0);
            delay.step(80.0, path, &sample(ms, 80), (2.0, 2.0), false)
        };
        assert!((step(&path(400, 0), 400) - 80.025).abs() < 1e-9);
        // A standing queue of 20 ms: b = 80 x 20 / 100 = 16, so down by (16 - 2) / 2 = 7 packets a
        // round trip.
        assert!((step(&path(2400, 20), 2400) - (80.0 - 7.0 / 80.0)).abs() < 2e-3);
    }

    #[test]
    fn the_delay_of_what_was_sent_before_start_up_ended_shrinks_nothing() {
        let path = path(2400, 20);
        // Start-up ended when 2350 were delivered; the packet that arrives at 2400 ms was sent when
        // 2300 were.
        let mut delay = Delay::begin(80.0, true, 2350);
        assert_eq!(delay.step(80.0, &path, &sample(2400, 100), (2.0, 2.0), true), 80.0);
        assert!(delay.step(80.0, &path, &sample(2450, 100), (2.0, 2.0), false) < 80.0);
    }

    #[test]
    fn the_velocity_doubles_from_the_third_round_trip_in_one_direction_and_a_turn_ends_it() {
        let (empty, full) = (path(400, 0), path(2400, 20));
        let mut delay = Delay::begin(80.0, true, 0);
        let mut cwnd = 80.0;
        let mut grown = Vec::new();
        for _ in 0..5 {
            let before = cwnd;
            cwnd = delay.step(cwnd, &empty, &sample(400, 80), (2.0, 2.0), true);
            grown.push(((cwnd - before) * before / 2.0).round());
        }
        // 1, 1, then 2, 4, 8 times 1 / delta.
        assert_eq!(grown, [1.0, 1.0, 2.0, 4.0, 8.0]);
        // One packet that finds the queue too long slows down; the direction is that of the round
        // trip still.
        delay.step(cwnd, &full, &sample(2400, 80), (2.0, 2.0), false);
        assert_eq!((delay.velocity, delay.steady), (1.0, 5));
        delay.step(cwnd - 1.0, &full, &sample(2400, 80), (2.0, 2.0), true);
        assert_eq!((delay.steady, delay.is_up), (0, false));
    }

    #[test]
    fn a_window_that_the_application_does_not_fill_does_not_grow() {
        let mut delay = Delay::begin(80.0, true, 0);
        let limited = RateSample { is_app_limited: true, ..sample(400, 80) };
        assert_eq!(delay.step(80.0, &path(400, 0), &limited, (2.0, 2.0), false), 80.0);
    }

    #[test]
    fn a_delay_that_does_not_shrink_with_the_window_is_a_longer_path() {
        // b = 16 is more than four times two. The window falls to 71 %, and then to less than 70.
        let full = path(600, 20);
        let mut delay = Delay::begin(80.0, true, 0);
        let mut judge = |cwnd, path: &Path, overflows| delay.judge_path(cwnd, path, 2.0, overflows);
        assert_eq!(judge(80.0, &full, false), None);
        assert_eq!(judge(57.0, &full, false), None);
        assert_eq!(judge(55.0, &full, false), Some(80.0));
        // If the delay shrinks with the window, it is a queue,
        assert_eq!(judge(80.0, &full, false), None);
        assert_eq!(judge(50.0, &path(600, 13), false), None);
        // and so it is if others overflow it.
        assert_eq!(judge(80.0, &full, true), None);
        assert_eq!(judge(50.0, &full, true), None);
    }
}
