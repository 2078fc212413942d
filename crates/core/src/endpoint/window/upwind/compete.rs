//! The response to other flows in the queue: a shadow window, and the competitive mode.

use super::delay::{SHRUNK, Steps};
use super::queue::{CYCLE, CYCLE_ROUNDS, RANGE, SWING_ROUNDS};
use super::rounds::{FLOOD, RECOVERY};
use super::{LEAST, Upwind, UpwindMode};
use crate::endpoint::estimator::RateSample;
use crate::endpoint::event::CongestionEvent;
use crate::units::{Duration, Time};

/// The share of the shadow that remains after a congestion event, as in Reno.
pub(super) const BETA: f64 = 0.5;
/// The share by which the shadow shrinks in a round trip without known overflows.
const FADES: f64 = 0.01;
/// The share by which the largest window decays in a round trip.
const FORGOTTEN: f64 = 0.002;
/// Round trips without a short queue that show other flows; a cycle without a nearly empty one does
/// too.
const SHORT_ROUNDS: u32 = 5;

/// The last peak of the delay: the delay, the window that made it, and the round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    delay: f64,
    /// The delay [`RECOVERY`] round trips before.
    before: f64,
    window: f64,
    round: u64,
}

/// The evidence of other flows in the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// The window that a NewReno would have in this one's place.
    shadow: f64,
    /// The largest recent window; in delay mode the shadow does not grow beyond it.
    top: f64,
    /// Round trips since the queue was nearly empty, and since it was short.
    since_empty: u32,
    since_short: u32,
    /// The round trip in which this mode began.
    entered: u64,
    /// True once the window has reached the shadow.
    has_risen: bool,
    /// The time until which an overflow counts as known.
    known_until: Time,
    /// The round trip of the last cut.
    cut: Option<u64>,
    /// The shadow before the last cut, and `known_until` then.
    before_cut: Option<(f64, Time)>,
    peak: Peak,
    /// The windows of the last three round trips, the latest first: they caused the present delay.
    windows: [f64; 3],
    /// The delays of the last round trips, in a ring.
    delays: [f64; RECOVERY as usize],
    /// The peak from which the delay fell, and the round trip in which it fell.
    fell: Option<(Peak, u64)>,
}

/// True if a window or a delay has shrunk from an earlier value.
fn has_shrunk(now: f64, was: f64) -> bool {
    now < (1.0 - RANGE) * was
}

impl Others {
    /// No other flows are known, and the shadow is `cwnd`.
    pub(super) fn none(cwnd: f64) -> Self {
        Others { shadow: cwnd, top: cwnd, ..Others::default() }
    }

    /// The window that a NewReno would have in this one's place.
    pub(super) fn shadow(&self) -> f64 {
        self.shadow
    }

    /// Bounds the shadow.
    pub(super) fn limit_shadow(&mut self, most: f64) {
        self.shadow = self.shadow.min(most);
    }

    /// Records the length of the queue.
    pub(super) fn see(&mut self, is_over: bool, is_empty: bool, is_short: bool) {
        let passed = u32::from(is_over);
        self.since_empty = if is_empty { 0 } else { self.since_empty + passed };
        self.since_short = if is_empty || is_short { 0 } else { self.since_short + passed };
    }
}

impl Upwind {
    /// True if the window is at least the shadow.
    pub(super) fn is_above_shadow(&self) -> bool {
        self.cwnd >= self.others.shadow
    }

    /// Detects a loss of another flow by a delay that falls: the queue overflows, though this flow
    /// lost nothing. The delay falls to the share [`SHRUNK`] of its peak within [`SWING_ROUNDS`],
    /// while the window does not shrink, and stays below the peak for [`RECOVERY`] round trips. A
    /// queue grows slowly towards a loss, and quickly in a start-up: so the delay before the peak
    /// counts too.
    pub(super) fn watch_falls(&mut self, now: Time) {
        let (delay, round) = (self.queue.delay(), self.rounds.count);
        let oldest = &mut self.others.delays[(round % RECOVERY) as usize];
        let before = std::mem::replace(oldest, delay);
        let Peak { delay: was, before: slowly, window, round: at } = self.others.peak;
        if let Some((from, fell)) = self.others.fell {
            if !has_shrunk(delay, from.delay) || has_shrunk(self.cwnd, from.window) {
                self.others.fell = None;
            } else if round >= fell + RECOVERY {
                self.others.fell = None;
                self.on_overflow(now);
            }
        }
        let is_peak = was >= RANGE * self.queue.floor();
        let is_sharp =
            is_peak && delay <= SHRUNK * was && round <= at + SWING_ROUNDS && slowly >= BETA * was;
        if is_sharp && !has_shrunk(self.cwnd, window) && self.others.fell.is_none() {
            self.others.fell = Some((self.others.peak, round));
        }
        if delay >= was || delay <= SHRUNK * was || round > at + SWING_ROUNDS {
            let window = self.others.windows.iter().copied().fold(self.cwnd, f64::max);
            self.others.peak = Peak { delay, before, window, round };
        }
        let [first, second, _] = self.others.windows;
        self.others.windows = [self.cwnd, first, second];
    }

    /// Updates the shadow and applies the present mode, after a step of the delay mode or instead.
    pub(super) fn compete(&mut self, sample: &RateSample, is_over: bool) {
        let (now, acked) = (sample.now, sample.newly_acked as f64);
        let is_known = self.overflows(now);
        let others = &mut self.others;
        if is_known || self.mode == UpwindMode::Delay {
            others.shadow += self.config.growth * acked / others.shadow;
        } else {
            // A queue that never overflows belongs to other flows that respond to delay.
            others.shadow = (others.shadow - FADES * acked).max(LEAST);
        }
        match self.mode {
            UpwindMode::StartUp => {}
            UpwindMode::Delay => self.watch(is_over, is_known),
            UpwindMode::Competitive => self.keep_up(acked, is_over),
            UpwindMode::Guided => self.others.shadow = self.cwnd,
        }
    }

    /// Delay mode: begins the competitive mode if another flow fills the queue.
    fn watch(&mut self, is_over: bool, is_known: bool) {
        let others = &mut self.others;
        others.top = others.top.max(self.cwnd);
        others.shadow = others.shadow.min(others.top);
        if !is_over {
            return;
        }
        others.top = (others.top * (1.0 - FORGOTTEN)).max(self.cwnd);
        let is_small = is_known && self.cwnd < BETA * others.shadow - LEAST;
        if is_small || others.since_short >= SHORT_ROUNDS || others.since_empty >= CYCLE_ROUNDS {
            self.enter();
        }
    }

    /// Begins the competitive mode.
    pub(super) fn enter(&mut self) {
        self.mode = UpwindMode::Competitive;
        self.others.entered = self.rounds.count;
        self.others.has_risen = false;
    }

    /// Competitive mode: the shadow is the lower bound of the window.
    fn keep_up(&mut self, acked: f64, is_over: bool) {
        let others = &mut self.others;
        if self.cwnd < others.shadow {
            let rise = if others.has_risen { f64::INFINITY } else { 0.5 * acked };
            self.cwnd = (self.cwnd + rise).min(others.shadow);
        }
        others.has_risen |= self.cwnd >= others.shadow;
        let is_settled = self.rounds.count > others.entered + 2;
        if is_over && is_settled && self.queue.is_nearly_empty() {
            self.leave();
        }
    }

    /// Returns to the delay mode.
    pub(super) fn leave(&mut self) {
        self.mode = UpwindMode::Delay;
        self.steps = Steps::new(self.cwnd, false);
        let others = &mut self.others;
        others.top = self.cwnd;
        (others.since_empty, others.since_short) = (0, 0);
    }

    /// Stores the state before a cut, if this cut is the first in two round trips.
    fn keep_before_cut(&mut self) {
        let count = self.rounds.count;
        if self.others.cut.is_none_or(|cut| cut + 1 < count) {
            self.others.before_cut = Some((self.others.shadow, self.others.known_until));
        }
    }

    /// Undoes the last cut, since the losses were spurious.
    pub(super) fn undo(&mut self) {
        if let Some((shadow, known_until)) = self.others.before_cut.take() {
            self.others.shadow = self.others.shadow.max(shadow);
            self.others.known_until = known_until;
        }
    }

    /// Reacts to a loss, in proportion to the probability that it is congestion.
    pub(super) fn on_loss(&mut self, event: &CongestionEvent) {
        let is_likely = event.probability.get() >= RANGE;
        self.keep_before_cut();
        if is_likely {
            self.on_overflow(event.path.now);
        }
        let shadow = self.others.shadow;
        self.others.shadow = (shadow * event.kept(BETA)).max(LEAST);
        self.others.cut = Some(self.rounds.count);
        match self.mode {
            UpwindMode::Competitive => {
                self.cwnd = (self.cwnd - (shadow - self.others.shadow)).max(self.others.shadow);
            }
            UpwindMode::Guided => self.on_guided_congestion(event),
            _ => {}
        }
    }

    /// Halves the shadow for a mark. A cut for losses of this round trip or the last counts as a
    /// part of it. Nothing undoes it.
    pub(super) fn halve_shadow(&mut self, now: Time) {
        let count = self.rounds.count;
        let is_recent = self.others.cut.is_some_and(|cut| cut + 1 >= count);
        let before = self.others.before_cut.take().filter(|_| is_recent);
        let whole = before.map_or(self.others.shadow, |(shadow, _)| shadow);
        self.on_overflow(now);
        self.others.shadow = self.others.shadow.min(BETA * whole).max(LEAST);
        self.others.cut = Some(count);
    }

    /// True if the queue is known to overflow.
    pub(super) fn overflows(&self, now: Time) -> bool {
        now < self.others.known_until
    }

    /// True if the loss is one of a flood of congestion losses.
    pub(super) fn is_flood(&self, event: &CongestionEvent) -> bool {
        event.probability.get() >= RANGE && self.rounds.lost > self.rounds.least_lost() + FLOOD
    }

    /// Records an overflow.
    fn on_overflow(&mut self, now: Time) {
        self.others.known_until = self.others.known_until.max(now + self.cycle());
    }

    /// The time in which a NewReno with the shadow's window fills a queue twice.
    fn cycle(&self) -> Duration {
        let srtt = Duration::from_secs_f64(self.queue.srtt());
        CYCLE.max(srtt.mul_f64(2.0 * self.others.shadow))
    }

    /// Reduces the shadow to the share `kept`, since the connection starts again.
    pub(super) fn shrink_shadow(&mut self, kept: f64) {
        self.others.shadow = (self.others.shadow * kept).max(LEAST);
    }
}
