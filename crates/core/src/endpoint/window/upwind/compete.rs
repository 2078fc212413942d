//! The response to other flows in the queue: a shadow window, and the competitive mode.

use super::delay::Steps;
use super::{LEAST, Upwind, UpwindMode};
use crate::endpoint::estimator::RateSample;
use crate::endpoint::event::CongestionEvent;
use crate::units::{Duration, Time};

/// The share of the shadow that a congestion event leaves, as of Reno's window.
pub(super) const BETA: f64 = 0.5;
/// From this probability on a congestion is one.
const LIKELY: f64 = 0.25;
/// A round trip that loses so much more than the path itself floods the queue.
const FLOOD: f64 = 0.1;
/// How long others are known at least.
const KNOWN: Duration = Duration::from_secs(20);
/// The shadow gives up that share of itself in a round trip without others.
const FADES: f64 = 0.01;
/// The largest window is forgotten by that share in a round trip.
const FORGOTTEN: f64 = 0.002;
/// Round trips without a short, and without a nearly empty queue after which others fill it.
const SHORT_ROUNDS: u32 = 5;
const EMPTY_ROUNDS: u32 = 20;
/// A window below that share of the shadow, less some packets, was ceded to others.
const CEDED: (f64, f64) = (0.7, 4.0);
/// Round trips until a look at what the shadow brought.
const LOOK: u64 = 3;
/// A window that much larger than before is to have brought this share of it.
const MORE: f64 = 1.2;
const BROUGHT: f64 = 0.03;
/// Yield: after so many seconds or round trips, where there was a congestion in the last one, and
/// in any case; for so many round trips; with this share of the pipe, and of the shadow at least.
const AFTER_CUT: (f64, f64) = (10.0, 50.0);
const AFTER: (f64, f64) = (20.0, 60.0);
const YIELD_ROUNDS: u64 = 5;
const YIELDED: (f64, f64) = (0.9, 0.4);

/// A delay that falls to that share of its peak within so many round trips, while the window does
/// not shrink, and has not come back to the second share after so many, is that of somebody who had
/// a loss.
const FALLS: (f64, u64) = (0.7, 4);
const STAYS: (f64, u64) = (0.95, 10);
/// A window that has not shrunk is that share of what it was at least.
const NOT_SHRUNK: f64 = 0.9;
/// A cut can be undone for so many round trips.
const UNDONE: u64 = 4;
/// So many round trips before its peak it was that share of it at least: a loss is what a queue
/// comes to slowly, and not what another start-up comes to.
const SLOWLY: (usize, f64) = (10, 0.5);
/// A peak is a queue of that share of the least RTT at least, and that many deviations of noise.
const PEAK: (f64, f64) = (0.1, 5.0);

/// The last peak of the delay: the delay, the window that made it, and the round trip.
#[derive(Debug, Clone, Copy, Default)]
struct Peak {
    delay: f64,
    /// The delay [`SLOWLY`] before.
    before: f64,
    window: f64,
    round: u64,
}

/// The evidence of other flows in the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    /// The window of a NewReno in this one's place.
    shadow: f64,
    /// The largest window lately, above which the shadow does not grow in delay mode.
    top: f64,
    /// Round trips since the queue was nearly empty, and since it was short.
    since_empty: u32,
    since_short: u32,
    /// The round trip in which this mode began, and when the last yield was.
    entered: u64,
    yielded: Time,
    /// Has the window come up to the shadow? When to look what it brought, over what.
    has_risen: bool,
    look: u64,
    window: f64,
    rate: f64,
    /// Until then they are known to be there.
    known_until: Time,
    /// When the queue overflowed last, and in which round trip.
    overflowed: Option<Time>,
    cut: Option<u64>,
    /// The shadow before the last cut, and until when others were known.
    before_cut: Option<(f64, Time)>,
    peak: Peak,
    /// The window of the last three round trips, the latest first: what the delay is now was made
    /// by them.
    windows: [f64; 3],
    /// The delays of the last round trips, in a ring.
    delays: [f64; SLOWLY.0],
    /// The peak that the delay fell from, and the round trip in which it did.
    fell: Option<(Peak, u64)>,
}

impl Others {
    /// None are known; the window is this.
    pub(super) fn none(cwnd: f64) -> Self {
        Others { shadow: cwnd, top: cwnd, ..Others::default() }
    }

    /// The window of a NewReno in this one's place.
    pub(super) fn shadow(&self) -> f64 {
        self.shadow
    }

    /// It is that from now on.
    pub(super) fn replace_shadow(&mut self, cwnd: f64) {
        self.shadow = cwnd;
    }

    /// The queue was not short, but by this one's own doing.
    pub(super) fn forgive(&mut self) {
        self.since_short = 0;
    }

    /// Notes how long the queue is.
    pub(super) fn see(&mut self, is_over: bool, is_empty: bool, is_short: bool) {
        let passed = u32::from(is_over);
        self.since_empty = if is_empty { 0 } else { self.since_empty + passed };
        self.since_short = if is_empty || is_short { 0 } else { self.since_short + passed };
    }
}

impl Upwind {
    /// Is the window above what NewReno would have?
    pub(super) fn is_above_shadow(&self) -> bool {
        self.cwnd >= self.others.shadow
    }

    /// Has somebody else given way to a loss? Then the queue overflows, though this window lost
    /// nothing.
    pub(super) fn watch_falls(&mut self, now: Time) {
        let (delay, round) = (self.queue.delay(), self.rounds.count);
        let least = (PEAK.0 * self.queue.floor()).max(PEAK.1 * self.queue.deviation());
        let oldest = &mut self.others.delays[(round % SLOWLY.0 as u64) as usize];
        let before = std::mem::replace(oldest, delay);
        let Peak { delay: was, before: slowly, window, round: at } = self.others.peak;
        if let Some((from, fell)) = self.others.fell {
            if delay >= STAYS.0 * from.delay || self.cwnd < NOT_SHRUNK * from.window {
                self.others.fell = None;
            } else if round >= fell + STAYS.1 {
                self.others.fell = None;
                self.on_overflow(now);
            }
        }
        let is_sharp = delay <= FALLS.0 * was
            && round <= at + FALLS.1
            && was >= least
            && slowly >= SLOWLY.1 * was;
        if is_sharp && self.cwnd >= NOT_SHRUNK * window && self.others.fell.is_none() {
            self.others.fell = Some((self.others.peak, round));
        }
        if delay >= was || delay <= FALLS.0 * was || round > at + FALLS.1 {
            let window = self.others.windows.iter().copied().fold(self.cwnd, f64::max);
            self.others.peak = Peak { delay, before, window, round };
        }
        let [first, second, _] = self.others.windows;
        self.others.windows = [self.cwnd, first, second];
    }

    /// After a step of the delay mode, or in place of one.
    pub(super) fn compete(&mut self, sample: &RateSample, is_over: bool) {
        let (now, acked) = (sample.now, sample.newly_acked as f64);
        let is_known = self.overflows(now) || self.room.is_short(now);
        let others = &mut self.others;
        if is_known || self.mode == UpwindMode::Delay {
            others.shadow += self.config.growth * acked / others.shadow;
        } else {
            // A queue that never overflows is that of others who go by delay.
            others.shadow = (others.shadow - FADES * acked).max(LEAST);
        }
        match self.mode {
            UpwindMode::StartUp => {}
            UpwindMode::Delay => self.watch(now, is_over),
            UpwindMode::Competitive => self.keep_up(now, acked, is_over),
            UpwindMode::Yield => self.hold_back(now),
            UpwindMode::Guided => self.others.shadow = self.cwnd,
        }
    }

    /// Delay mode: does somebody fill the queue?
    fn watch(&mut self, now: Time, is_over: bool) {
        let others = &mut self.others;
        others.top = others.top.max(self.cwnd);
        others.shadow = others.shadow.min(others.top);
        if !is_over {
            return;
        }
        others.top = (others.top * (1.0 - FORGOTTEN)).max(self.cwnd);
        let is_ceded = self.cwnd < CEDED.0 * others.shadow - CEDED.1;
        if others.since_short >= SHORT_ROUNDS || others.since_empty >= EMPTY_ROUNDS || is_ceded {
            (others.window, others.rate) = (self.cwnd, self.rounds.best_of_three);
            self.enter(now);
        }
    }

    /// Begins the competitive mode.
    pub(super) fn enter(&mut self, now: Time) {
        self.mode = UpwindMode::Competitive;
        self.others.entered = self.rounds.count;
        self.others.has_risen = false;
        self.others.yielded = now;
    }

    /// Competitive mode: the shadow is the least.
    fn keep_up(&mut self, now: Time, acked: f64, is_over: bool) {
        let others = &mut self.others;
        if self.cwnd < others.shadow {
            let rise = if others.has_risen { f64::INFINITY } else { 0.5 * acked };
            self.cwnd = (self.cwnd + rise).min(others.shadow);
        }
        let count = self.rounds.count;
        if !others.has_risen && self.cwnd >= others.shadow {
            others.has_risen = true;
            others.look = count + LOOK;
        }
        if !is_over {
            return;
        }
        if self.room.is_short(now) {
            return;
        }
        let Others { has_risen, look, window, rate, entered, yielded, .. } = self.others;
        if has_risen && count == look && self.cwnd > MORE * window {
            let brought = self.rounds.rate / rate - 1.0;
            if brought < BROUGHT * (self.cwnd / window - 1.0) {
                // Nobody gave way: the capacity is smaller, and the queue this one's own.
                let pipe = self.rounds.rate * self.queue.floor();
                self.cwnd = pipe.max(window).min(self.cwnd);
                self.others.shadow = self.cwnd;
                self.leave(now);
                return;
            }
        }
        if self.queue.is_nearly_empty() && count > entered + 2 {
            self.leave(now);
            return;
        }
        let was_cut = self.others.cut.is_some_and(|cut| cut + 1 >= count);
        let after = if was_cut { AFTER_CUT } else { AFTER };
        let due = after.0.max(after.1 * self.queue.srtt());
        if self.config.yields && has_risen && now.since(yielded).as_secs_f64() > due {
            // Without what is this one's of the queue: does it empty?
            self.mode = UpwindMode::Yield;
            self.others.entered = count;
            let pipe = YIELDED.0 * self.rounds.rate * self.queue.floor();
            self.cwnd = pipe.max(YIELDED.1 * self.others.shadow).min(self.cwnd);
        }
    }

    /// Yield: the queue empties, or others are there still.
    fn hold_back(&mut self, now: Time) {
        let passed = self.rounds.count - self.others.entered;
        if self.queue.is_nearly_empty() && passed > 0 {
            self.leave(now);
        } else if passed >= YIELD_ROUNDS {
            self.others.window = f64::INFINITY;
            self.enter(now);
        }
    }

    /// Back to the delay mode.
    pub(super) fn leave(&mut self, now: Time) {
        let top = if self.mode == UpwindMode::Yield { self.others.shadow } else { self.cwnd };
        self.mode = UpwindMode::Delay;
        self.steps = Steps::new(self.cwnd, false);
        let others = &mut self.others;
        others.top = top.max(self.cwnd);
        others.yielded = now;
        (others.since_empty, others.since_short) = (0, 0);
    }

    /// A loss in a queue that is too short to tell what it is of: a window of them is congestion.
    pub(super) fn on_loss_in_short_queue(&mut self, now: Time) {
        if self.keep_before_cut() {
            self.on_overflow(now);
            self.others.cut = Some(self.rounds.count);
            self.others.shadow = (BETA * self.others.shadow).max(LEAST);
            self.cwnd = self.cwnd.min(self.others.shadow);
        }
    }

    /// Keeps what a cut takes, if it is the first in two round trips, and returns whether it is.
    fn keep_before_cut(&mut self) -> bool {
        let count = self.rounds.count;
        let is_first = self.others.cut.is_none_or(|cut| cut + 1 < count);
        if is_first {
            self.others.before_cut = Some((self.others.shadow, self.others.known_until));
        }
        is_first
    }

    /// Nothing was lost: what the last cut took comes back, if that was just now.
    pub(super) fn undo(&mut self) {
        let is_recent = self.others.cut.is_some_and(|cut| cut + UNDONE >= self.rounds.count);
        if is_recent && let Some((shadow, known_until)) = self.others.before_cut.take() {
            self.others.shadow = self.others.shadow.max(shadow);
            self.others.known_until = known_until;
        }
    }

    /// A loss that is congestion as likely as that.
    pub(super) fn on_loss(&mut self, event: &CongestionEvent) {
        let is_likely = event.probability.get() >= LIKELY;
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
            UpwindMode::Delay if is_likely => self.on_congested_loss(),
            UpwindMode::Guided => self.on_guided_congestion(event),
            _ => {}
        }
    }

    /// Delay mode: losses change nothing, but for a flood of what is congestion.
    pub(super) fn on_congested_loss(&mut self) {
        if self.config.flood && self.floods() {
            let pipe = YIELDED.0 * self.rounds.rate * self.queue.floor();
            self.cwnd = (self.cwnd * BETA).max(pipe.min(self.cwnd)).max(LEAST);
            self.steps = Steps::new(self.cwnd, false);
        }
    }

    /// Is the queue known to overflow of late?
    pub(super) fn overflows(&self, now: Time) -> bool {
        now < self.others.known_until
    }

    /// Does this round trip lose much more than the path itself?
    fn floods(&self) -> bool {
        self.rounds.lost > self.rounds.least_lost() + FLOOD
    }

    /// Is that loss one of many that are congestion?
    pub(super) fn is_flood(&self, event: &CongestionEvent) -> bool {
        event.probability.get() >= LIKELY && self.floods()
    }

    /// The queue is full. Who filled it will have done so again after twice the time that it took.
    fn on_overflow(&mut self, now: Time) {
        let last = self.others.overflowed.replace(now);
        let took = last.map_or(Duration::ZERO, |last| now.since(last));
        let until = now + self.cycle().max(took.saturating_mul(2));
        self.others.known_until = self.others.known_until.max(until);
    }

    /// A time in which a NewReno with the window of the shadow fills a queue twice.
    fn cycle(&self) -> Duration {
        let srtt = Duration::from_secs_f64(self.queue.srtt());
        KNOWN.max(srtt.mul_f64(2.0 * self.others.shadow))
    }

    /// The connection starts again, with that of the shadow.
    pub(super) fn shrink_shadow(&mut self, kept: f64) {
        self.others.shadow = (self.others.shadow * kept).max(LEAST);
    }
}
