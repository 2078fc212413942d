//! The delay mode: the window follows the number of own packets in the queue.

use super::Upwind;
use super::queue::SURE;
use crate::endpoint::estimator::RateSample;
use crate::units::Time;

/// Round trips in a row that are a trend. The velocity doubles from so many in one direction on.
pub(super) const TREND: u32 = 3;
/// A window or a delay of at most this share of the earlier one has clearly shrunk.
pub(super) const SHRUNK: f64 = 0.7;

/// The direction and the speed of the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    velocity: f64,
    is_up: bool,
    /// Round trips in this direction.
    steady: u32,
    /// The window when the round trip began.
    began: f64,
    /// Packets delivered when the window was set to that of the pipe: samples of packets sent
    /// earlier do not reflect it.
    settled: u64,
}

impl Steps {
    pub(super) fn new(cwnd: f64, is_up: bool) -> Self {
        Steps { velocity: 1.0, is_up, steady: 0, began: cwnd, settled: 0 }
    }

    /// Begins with a new window `cwnd`. The delay of packets sent before `delivered` packets were
    /// delivered reflects the old window and does not count.
    pub(super) fn settling(cwnd: f64, delivered: u64) -> Self {
        Steps { settled: delivered, ..Steps::new(cwnd, true) }
    }

    /// True if a packet sent after `delivered` packets were delivered reflects the present window.
    pub(super) fn are_settled(&self, delivered: u64) -> bool {
        delivered >= self.settled
    }

    /// Resets the velocity.
    pub(super) fn slow_down(&mut self) {
        self.velocity = 1.0;
    }
}

/// A delay far above what this window explains, and the smallest and the largest window since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Jump {
    least: f64,
    most: f64,
    delay: f64,
}

impl Upwind {
    /// Moves the window towards 1 / delta packets in the queue.
    pub(super) fn step(&mut self, sample: &RateSample, is_over: bool) {
        if is_over {
            self.end_round();
        }
        if !self.steps.are_settled(sample.prior_delivered) {
            return;
        }
        let target = self.target();
        let up = self.backlog() <= target;
        if up && sample.is_app_limited {
            return;
        }
        if up != self.steps.is_up {
            self.steps.slow_down();
        }
        let share = sample.newly_acked as f64 / self.cwnd;
        let step = self.steps.velocity * self.step_size();
        if up {
            self.cwnd += step * share;
        } else {
            let excess = 0.5 * (self.backlog() - target);
            self.cwnd -= step.max(excess) * share;
        }
    }

    fn end_round(&mut self) {
        let is_up = self.cwnd >= self.steps.began;
        let Steps { velocity, steady, .. } = self.steps;
        self.steps = if is_up == self.steps.is_up {
            let faster = if steady + 1 >= TREND { 2.0 * velocity } else { velocity };
            let most = (0.5 * self.cwnd / self.step_size()).max(1.0);
            Steps { velocity: faster.min(most), steady: steady + 1, began: self.cwnd, ..self.steps }
        } else {
            Steps { settled: self.steps.settled, ..Steps::new(self.cwnd, is_up) }
        };
    }

    /// Detects a longer path: a delay that remains while the window shrinks or grows is not a
    /// queue. The delay of a queue that this window fills changes by a larger share than the
    /// window.
    pub(super) fn judge_path(&mut self, now: Time) {
        let delay = self.queue.delay();
        match self.jump {
            // Other flows keep the queue full.
            _ if self.overflows(now) => self.jump = None,
            Some(Jump { least, most, delay: was })
                if (delay - was).abs() <= (1.0 - SHRUNK) * was =>
            {
                let (least, most) = (least.min(self.cwnd), most.max(self.cwnd));
                self.jump = Some(Jump { least, most, delay: was });
                if least <= SHRUNK * most {
                    self.queue.forget();
                    self.cwnd = most;
                    self.steps = Steps::new(most, false);
                    self.jump = None;
                }
            }
            _ => {
                // Not caused by this window, which keeps the target.
                let is_jump = self.backlog() >= SURE * self.target();
                let jump = Jump { least: self.cwnd, most: self.cwnd, delay };
                self.jump = is_jump.then_some(jump);
            }
        }
    }
}
