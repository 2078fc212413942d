//! Start-up: the window doubles until the pipe is full.

use super::bound::IDLE;
use super::compete::Others;
use super::delay::{Steps, TREND};
use super::queue::RANGE;
use super::rounds::{FLOOD, MOST};
use super::{Upwind, UpwindMode};
use crate::endpoint::estimator::RateSample;

/// The fewest losses in a round trip that stop the growth before its end, or that make the growth
/// of the rate in it count as none if they are more than [`MOST`]: it is at the cost of others.
const FEWEST: u64 = 10;

/// Detector of a full pipe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Full {
    rate: f64,
    rounds: u32,
    /// The largest window of this start-up: unlimited the first time, later NewReno's ssthresh.
    most: f64,
    /// Packets lost and sent in the earlier round trips.
    lost: f64,
    sent: f64,
}

impl Full {
    pub(super) fn upto(most: f64) -> Self {
        Full { rate: 0.0, rounds: 0, most, lost: 0.0, sent: 0.0 }
    }
}

impl Default for Full {
    fn default() -> Self {
        Full::upto(f64::INFINITY)
    }
}

impl Upwind {
    pub(super) fn start_up(&mut self, sample: &RateSample, is_over: bool) {
        let is_limit = sample.prior_in_flight as f64 >= 0.5 * self.cwnd;
        let is_flooded = self.rounds.lost_packets >= FEWEST && self.rounds.lost > MOST;
        if is_over && is_limit {
            // [`TREND`] round trips in which the rate does not grow show a full pipe.
            if self.rounds.rate >= (1.0 + RANGE) * self.full.rate && !is_flooded {
                self.full = Full { rate: self.rounds.rate, rounds: 0, ..self.full };
            } else {
                self.full.rounds += 1;
            }
        }
        // A burst of losses is over in a round trip.
        let before = self.full.lost / self.full.sent.max(1.0);
        let floods = self.full.rounds >= IDLE && self.rounds.lost > before + FLOOD;
        if is_over {
            self.full.lost += self.rounds.lost_packets as f64;
            self.full.sent += self.rounds.sent;
        }
        let (delay, standing) = self.queue.now();
        let queues = self
            .bound
            .has_found()
            .unwrap_or_else(|| self.cwnd * delay / standing > self.target().max(RANGE * self.cwnd));
        if self.full.rounds >= TREND || floods || queues || self.cwnd >= self.full.most {
            self.mode = UpwindMode::Delay;
            if queues {
                self.bound.confirm();
            }
            self.bound.end_search();
            self.queue.settle();
            let pipe = self.rounds.bandwidth() * self.queue.floor() + 1.0;
            self.cwnd = self.cwnd.min(pipe);
            self.steps = Steps::settling(self.cwnd, sample.total_delivered);
            self.others = Others::none(self.cwnd);
        } else if is_limit && !self.rounds.floods_now(sample, FEWEST) {
            self.cwnd += sample.newly_acked as f64;
        }
    }
}
