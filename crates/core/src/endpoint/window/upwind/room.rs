//! Has the queue room? Where it holds hardly a packet, neither its delay nor the level at which
//! packets are lost says anything: what a shared queue of that kind drops looks like what a link
//! corrupts.
//!
//! So where packets are lost it is tried out: a queue that takes [`ENOUGH`] own packets overflows
//! at more than those, and what is lost before is corruption. One that does not take them, though
//! the window grows for it, is taken for a short one for a while, and the window is that of a
//! NewReno to which each loss is congestion.

use super::compete::BETA;
use super::{LEAST, Upwind, UpwindMode};
use crate::units::{Duration, Time};

/// Own packets that a queue with room takes, how many are tried, and how long that is remembered,
/// of so many round trips at least.
const ENOUGH: f64 = 8.0;
const TRIED: f64 = 10.0;
const REMEMBERED: (Duration, u64) = (Duration::from_secs(30), 100);
/// A round trip that loses more asks; so many of them without an answer are one.
const LOSSY: f64 = 0.02;
const PATIENCE: u32 = 10;
/// One that brings so many times the rate of those before is on the way there, and none.
const GROWTH: f64 = 1.1;
/// How long a queue is a short one: the first time, and at most, doubled each time.
const SHORT: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(80));

/// An estimate of the room in the queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Until then it has room.
    until: Time,
    /// Round trips that lost packets without an answer.
    asked: u32,
    /// The best rate of these.
    rate: f64,
    /// Until then it is a short one, and how long it is the next time.
    short_until: Time,
    short: Duration,
}

impl Room {
    pub(super) fn unknown() -> Self {
        Room { until: Time::ZERO, asked: 0, rate: 0.0, short_until: Time::ZERO, short: SHORT.0 }
    }

    /// Is it tried out?
    pub(super) fn is_asked(&self, now: Time) -> bool {
        self.asked > 0 && now >= self.until
    }
    /// Is it too short to tell anything?
    pub(super) fn is_short(&self, now: Time) -> bool {
        now < self.short_until
    }
}

impl Upwind {
    /// The packets that are to wait in the queue now.
    pub(super) fn aim(&self, now: Time) -> f64 {
        if self.room.is_asked(now) { self.target().max(TRIED) } else { self.target() }
    }

    /// At the end of a round trip.
    pub(super) fn look_for_room(&mut self, now: Time) {
        if self.backlog() >= ENOUGH {
            if self.room.is_asked(now) {
                // These packets are nobody else's.
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

    /// The window is that of a NewReno of that size.
    pub(super) fn be_short(&mut self, cwnd: f64, now: Time) {
        self.cwnd = cwnd.max(LEAST);
        self.others.replace_shadow(self.cwnd);
        self.enter(now);
    }
}
