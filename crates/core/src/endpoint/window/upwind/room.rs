//! Test of the room in the queue. If a queue holds hardly a packet, neither its delay nor the queue
//! level at a loss is a signal: drops of a short shared queue look like corruption on a link.
//!
//! So Upwind tests the queue where packets are lost. A queue that accepts [`ENOUGH`] own packets
//! overflows only beyond those, and losses before that are corruption. A queue that does not accept
//! them, although the window grows, counts as short for a while; the window is then that of a
//! NewReno that takes each loss for congestion.

use super::compete::BETA;
use super::{LEAST, Upwind, UpwindMode};
use crate::units::{Duration, Time};

/// Own packets that a queue with room accepts; own packets put into it by the test; and the time
/// for which the result is remembered, with the least number of round trips.
const ENOUGH: f64 = 8.0;
const TRIED: f64 = 10.0;
const REMEMBERED: (Duration, u64) = (Duration::from_secs(30), 100);
/// The share of losses in a round trip from which the test runs, and the round trips after which a
/// queue that has not accepted the packets counts as short.
const LOSSY: f64 = 0.02;
const PATIENCE: u32 = 10;
/// A round trip with this many times the best rate so far does not count against the queue, since
/// the window still grows towards it.
const GROWTH: f64 = 1.1;
/// The time for which a queue counts as short: at first and at most, doubled each time.
const SHORT: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(80));

/// An estimate of the room in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// The time until which the queue has room.
    until: Time,
    /// Round trips of the test without a result.
    asked: u32,
    /// The best rate of these round trips.
    rate: f64,
    /// The time until which the queue counts as short, and the length of the next such time.
    short_until: Time,
    short: Duration,
}

impl Room {
    pub(super) fn unknown() -> Self {
        Room { until: Time::ZERO, asked: 0, rate: 0.0, short_until: Time::ZERO, short: SHORT.0 }
    }

    /// True while the test runs.
    pub(super) fn is_asked(&self, now: Time) -> bool {
        self.asked > 0 && now >= self.until
    }
    /// True while the queue counts as short.
    pub(super) fn is_short(&self, now: Time) -> bool {
        now < self.short_until
    }
}

impl Upwind {
    /// The number of own packets to keep in the queue.
    pub(super) fn aim(&self, now: Time) -> f64 {
        if self.room.is_asked(now) { self.target().max(TRIED) } else { self.target() }
    }

    /// Runs the test, at the end of a round trip.
    pub(super) fn look_for_room(&mut self, now: Time) {
        if self.backlog() >= ENOUGH {
            if self.room.is_asked(now) {
                // The packets in the queue are this flow's own.
                self.others.forgive();
            }
            let rounds = Duration::from_secs_f64(self.queue.srtt()).saturating_mul(REMEMBERED.1);
            self.room = Room { until: now + REMEMBERED.0.max(rounds), ..Room::unknown() };
        } else if self.mode == UpwindMode::Delay
            && now >= self.room.until
            && self.rounds.lost > LOSSY
        {
            if self.rounds.rate > GROWTH * self.room.rate {
                self.room.rate = self.rounds.rate;
                self.room.asked = self.room.asked.max(1);
            } else {
                self.room.asked += 1;
            }
            if self.room.asked >= PATIENCE {
                let short = self.room.short;
                let twice = short.saturating_mul(2).min(SHORT.1);
                self.room = Room { short_until: now + short, short: twice, ..Room::unknown() };
                self.be_short(BETA * self.cwnd, now);
            }
        }
    }

    /// Behaves as a NewReno with this window from now on.
    pub(super) fn be_short(&mut self, cwnd: f64, now: Time) {
        self.cwnd = cwnd.max(LEAST);
        self.others.replace_shadow(self.cwnd);
        self.enter(now);
    }
}
