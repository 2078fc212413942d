//! Competing flows compensation of SCReAM: the target of the queueing delay.
//!
//! Traffic that fills queues makes the queueing delay long and stable, or causes losses. The target
//! then rises above that delay, since a fixed target would starve the stream.
//!
//! RFC 8298 section 4.1.2.3 and draft-ietf-ccwg-rfc8298bis-screamv2-01 section 4.5.4 have the same
//! equations. What they leave open:
//! - `qdelay_norm_history` has 200 values, as `adjust_qdelay_target` reads, where the list of
//!   variables of RFC 8298 has 100. It grows by one for each report.
//! - `loss_event_rate` is smoothed with the weight 1/100 per RTT.

use std::collections::VecDeque;

use crate::units::{Duration, Time};

/// Lengths of the history of normalized queueing delays, for its variance and for its mean.
const HISTORY: usize = 200;
const RECENT: usize = 50;

/// Loss event rate above which other traffic fills the queue.
const LOSSY: f64 = 0.002;

/// Variance of the normalized queueing delay below which the target may follow it.
const STABLE: f64 = 0.2;

/// Weight of an RTT in the loss event rate.
const LOSS_WEIGHT: f64 = 0.01;

/// The target of the queueing delay, and what it follows.
#[derive(Debug)]
pub(super) struct DelayTarget {
    /// qdelay_target, seconds.
    pub(super) value: f64,
    /// QDELAY_TARGET_LO and QDELAY_TARGET_HI, seconds.
    low: f64,
    high: f64,
    normalized: VecDeque<f64>,
    loss_event_rate: f64,
    /// End of the RTT whose losses are counted, and whether it had one.
    round: (Time, bool),
}

pub(super) fn mean(x: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = x.len().max(1) as f64;
    x.sum::<f64>() / count
}

impl DelayTarget {
    /// Refuses an empty range.
    pub(super) fn check(low: Duration, high: Duration) -> Result<(), String> {
        if low > high {
            return Err(format!("target_low ({low}) is above target_high ({high})"));
        }
        Ok(())
    }

    /// A target in this range.
    pub(super) fn new(low: Duration, high: Duration) -> Self {
        DelayTarget {
            value: low.as_secs_f64(),
            low: low.as_secs_f64(),
            high: high.as_secs_f64(),
            normalized: VecDeque::new(),
            loss_event_rate: 0.0,
            round: (Time::ZERO, false),
        }
    }

    /// Takes a loss event.
    pub(super) fn on_loss(&mut self) {
        self.round.1 = true;
    }

    /// Moves the target by a report with this queueing delay, in seconds.
    pub(super) fn adjust(&mut self, now: Time, srtt: Duration, qdelay: f64) {
        if now >= self.round.0 {
            let lossy = f64::from(u8::from(self.round.1));
            self.loss_event_rate += LOSS_WEIGHT * (lossy - self.loss_event_rate);
            self.round = (now + srtt, false);
        }
        self.follow(qdelay);
    }

    /// adjust_qdelay_target.
    fn follow(&mut self, qdelay: f64) {
        self.normalized.push_back(qdelay / self.low);
        if self.normalized.len() > HISTORY {
            self.normalized.pop_front();
        }
        let all = self.normalized.iter().copied();
        let average = mean(all.clone());
        let variance = mean(all.map(|x| (x - average) * (x - average)));
        let recent = self.normalized.iter().rev().take(RECENT).copied();
        let new_target = (mean(recent) + variance.sqrt()) * self.low;
        if self.loss_event_rate > LOSSY {
            self.value = 1.5 * new_target;
        } else if variance < STABLE {
            self.value = new_target;
        } else if new_target < self.low {
            self.value = (0.5 * self.value).max(new_target);
        } else {
            self.value *= 0.9;
        }
        self.value = self.value.clamp(self.low, self.high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::near;

    #[test]
    fn stable_long_delays_raise_the_target_up_to_its_maximum() {
        let mut target = DelayTarget::new(Duration::from_millis(100), Duration::from_millis(400));
        near(target.value, 0.1);
        for _ in 0..RECENT {
            target.follow(0.25);
        }
        // Mean 2.5 x 100 ms, no deviation.
        near(target.value, 0.25);
        target.loss_event_rate = 0.1;
        for _ in 0..HISTORY {
            target.follow(0.6);
        }
        near(target.value, 0.4);
    }

    #[test]
    fn a_loss_in_an_rtt_raises_the_target_by_half() {
        let mut target = DelayTarget::new(Duration::from_millis(60), Duration::from_millis(400));
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let srtt = Duration::from_millis(100);
        target.on_loss();
        target.adjust(at(0), srtt, 0.12);
        // The weight of one lossy RTT is 0.01, above 0.002: 1.5 x 120 ms.
        near(target.loss_event_rate, 0.01);
        near(target.value, 0.18);
        // A second report in the same RTT counts no RTT.
        target.adjust(at(99), srtt, 0.12);
        near(target.loss_event_rate, 0.01);
        target.adjust(at(100), srtt, 0.12);
        near(target.loss_event_rate, 0.0099);
    }
}
