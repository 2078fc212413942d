//! The delay mode: the window follows the number of own packets in the queue.

use super::Upwind;
use crate::endpoint::estimator::RateSample;
use crate::units::Time;

/// Round trips in one direction from which the velocity doubles.
const STEADY_ROUNDS: u32 = 3;
/// The factor of growth from which the gain in rate is measured.
const MORE: f64 = 1.15;
/// The least factor by which the rate must have grown then.
const BROUGHT: f64 = 1.05;
/// The share of losses in a round trip above which growth without gain is undone.
const FEW_LOST: f64 = 0.02;
/// Round trips without growth after growth was undone: at first and at most, doubled each time.
const HOLD: (u64, u64) = (8, 64);
/// A queue of this many times the target is not caused by this window.
const JUMP: f64 = 5.0;
/// A delay that differs by at most this share has remained the same.
const SAME: f64 = 0.2;
/// The share of the window that is left when the delay is compared.
const SHRUNK: f64 = 0.7;

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

    /// Resets the velocity.
    pub(super) fn slow_down(&mut self) {
        self.velocity = 1.0;
    }
}

/// The gain from more packets in flight.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gain {
    /// The window a round trip ago, which gave the present rate.
    before: f64,
    /// The window and the rate from which growth is measured.
    window: f64,
    rate: f64,
    /// The round trip before which nothing grows, and the length of the next such pause.
    until: u64,
    hold: u64,
}

impl Default for Gain {
    fn default() -> Self {
        Gain { before: 0.0, window: 0.0, rate: 0.0, until: 0, hold: HOLD.0 }
    }
}

impl Upwind {
    /// Moves the window towards 1 / delta packets in the queue.
    pub(super) fn step(&mut self, sample: &RateSample, is_over: bool) {
        if is_over {
            if self.config.gain_test && !self.room.is_asked(sample.now) {
                self.judge_gain();
            }
            self.end_round();
        }
        if sample.prior_delivered < self.steps.settled {
            return;
        }
        let aim = self.aim(sample.now);
        let up = self.backlog() <= aim;
        if up && (sample.is_app_limited || self.rounds.count < self.gain.until) {
            return;
        }
        if up != self.steps.is_up {
            self.steps.slow_down();
        }
        let share = sample.newly_acked as f64 / self.cwnd;
        let step = self.steps.velocity * self.target();
        if up {
            self.cwnd += step * share;
        } else {
            let excess = 0.5 * (self.backlog() - aim);
            self.cwnd -= step.max(excess) * share;
        }
    }

    fn end_round(&mut self) {
        let is_up = self.cwnd >= self.steps.began;
        let Steps { velocity, steady, .. } = self.steps;
        self.steps = if is_up == self.steps.is_up {
            let faster = if steady + 1 >= STEADY_ROUNDS { 2.0 * velocity } else { velocity };
            let most = (0.5 * self.cwnd / self.target()).max(1.0);
            Steps { velocity: faster.min(most), steady: steady + 1, began: self.cwnd, ..self.steps }
        } else {
            Steps { settled: self.steps.settled, ..Steps::new(self.cwnd, is_up) }
        };
    }

    /// Undoes growth that did not raise the rate, as where the queue is too short for delay to show
    /// or a policer drops.
    fn judge_gain(&mut self) {
        let window = std::mem::replace(&mut self.gain.before, self.cwnd);
        let rate = self.rounds.rate;
        let is_held = self.rounds.count <= self.gain.until;
        if is_held {
            self.steps = Steps { velocity: 1.0, steady: 0, ..self.steps };
        }
        if is_held || self.gain.window == 0.0 || window <= self.gain.window {
            (self.gain.window, self.gain.rate) = (window, rate);
        } else if window > MORE * self.gain.window + 1.0 {
            if rate < BROUGHT * self.gain.rate
                && self.rounds.lost > FEW_LOST
                && self.backlog() <= self.target()
            {
                let kept = 1.0 - self.rounds.least_lost().min(0.9);
                let pipe = rate.max(self.gain.rate) * self.queue.floor() / kept;
                let most = pipe.max(0.5 * self.gain.window).min(0.97 * self.gain.window);
                self.cwnd = self.cwnd.min(most);
                (self.gain.window, self.gain.before) = (self.cwnd, self.cwnd);
                self.gain.until = self.rounds.count + self.gain.hold;
                self.gain.hold = (2 * self.gain.hold).min(HOLD.1);
            } else {
                self.gain.hold = HOLD.0;
                (self.gain.window, self.gain.rate) = (window, rate);
            }
        }
    }

    /// Detects a longer path: a delay that remains while the window shrinks is not a queue.
    pub(super) fn judge_path(&mut self, now: Time) {
        let delay = self.queue.delay();
        match self.jump {
            // Other flows keep the queue full.
            _ if self.overflows(now) => self.jump = None,
            Some((window, was)) if (delay - was).abs() <= SAME * was => {
                if self.cwnd <= SHRUNK * window {
                    self.queue.forget();
                    self.cwnd = window;
                    self.steps = Steps::new(window, false);
                    self.jump = None;
                }
            }
            _ => {
                let is_jump = self.backlog() >= JUMP * self.target();
                self.jump = is_jump.then_some((self.cwnd, delay));
            }
        }
    }
}
