//! The bound: a ceiling on the window that depends on no belief about the cause of a single loss.
//!
//! The ceiling C is the window of a NewReno for which only the losses above the floor are
//! congestion. The floor f is the loss rate of the path while no queue stands: then congestion does
//! not cause losses. Without a known floor, f is 0. This error corrects itself if no other flow
//! fills the queue: the cuts empty it, and the floor becomes known. If others do, `unseen.rs` gives
//! a floor.
//!
//! [`FEW`] packets in a row without a standing queue begin the floor, and each later mean without
//! one adds its losses. PIE and RED still drop when a queue has just become empty: flows that
//! learn from such a gap take drops for losses of the path, and the others give way to them.
//!
//! The losses of the first round trips without any queue, and of those without a standing queue
//! after them, are a floor for [`CYCLE_ROUNDS`] round trips. Few packets tell it, and losses of a
//! short queue may be among them. Without it, the first losses after start-up halve the ceiling two
//! or three times before the floor is known.
//!
//! A full queue that this flow never saw change is taken for an empty one. So a floor counts as at
//! most [`UNCONFIRMED`] until a queue was seen to stand. A flow that loses much more searches for
//! one: it starts up once more without a ceiling.
//!
//! Losses without a queue are charged as all others are. It helps the least of the runs with 1 % of
//! losses and costs a tenth under jitter with losses.

use super::losses::{FEW, Losses};
use super::queue::{CYCLE_ROUNDS, FLOOR_SPAN, Queue, RANGE, SAMPLES, SURE};
use super::rounds::{MOST, RECOVERY};
use super::unseen::Unseen;
use super::{LEAST, Upwind, UpwindMode};
use crate::endpoint::estimator::{Least, RateSample};

/// The largest floor before a queue was seen to stand.
const UNCONFIRMED: f64 = 0.05;
/// Standard deviations that an estimate grants: those of the floor at a cut, since few losses do
/// not tell 0.9 from 1 %, and those of an RTT in the mean of an empty queue.
const GRANTED: f64 = 0.5;
/// The queue is judged from a mean whose uncertainty is at most this share of R0, or [`STANDS`]: a
/// mean of few RTTs hides a queue that stands.
const RESOLVED: f64 = 1.0 / 30.0;
/// A mean that exceeds the mean of an empty queue by more than this time or [`RANGE`] of R0,
/// whichever is less, and significantly, shows a standing queue, seconds. RED with the thresholds
/// of ns-2, 5 and 15 packets, holds 0.4 to 1.1 ms at 160 Mbit/s.
const STANDS: f64 = 0.0004;
/// If jitter makes RTTs vary, their second differences have at least this share of the variance: a
/// queue varies slowly.
const FAST: f64 = 0.4;
/// Means in a row without a standing queue from which losses belong to the floor. Credit for so
/// many round trips at the rate of the floor outlasts the judgment.
pub(super) const IDLE: u32 = 2;
/// The largest ceiling from which a cut starts, as a multiple of the window. The ceiling is cut as
/// a NewReno's window, and not once more where the shadow has already reduced cwnd.
const HIGHEST: f64 = 1.5;
/// A smaller ceiling than this grows by a quarter in a round trip: a packet would be too much. The
/// least ceiling is a quarter of the least window, below which the pace follows it.
const SMALL: f64 = 4.0;

/// The round trips since the last judgment of the queue.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    /// Number and sum of the RTTs.
    samples: f64,
    sum: f64,
    /// The sum of squared second differences over 6: its mean is the variance of an RTT.
    squares: f64,
    /// The smallest RTT, and the sum of their squares.
    smallest: f64,
    powers: f64,
    lost: f64,
    sent: f64,
    trips: u32,
}

impl Stretch {
    /// The uncertainty of the mean RTT, from single RTTs and from means of quarters of a round trip
    /// with the standard deviation `quarter`. Jitter that lasts is seen by the latter only.
    fn uncertainty(&self, quarter: f64) -> f64 {
        let single = libm::sqrt(self.squares) / self.samples;
        // Two standard deviations of the mean of four quarters per round trip.
        (SURE * single).max(quarter / libm::sqrt(f64::from(self.trips)))
    }

    /// True if the RTTs vary as those of jitter do, and not as those of a queue: some are hardly
    /// longer than `r0`, and they differ from one packet to the next. [`FEW`] of them show it, but
    /// not those of small windows, less than [`SAMPLES`] packets in a round trip: delayed ACKs and
    /// packets of others make them vary as much.
    fn shows_jitter_only(&self, r0: f64) -> bool {
        let mean = self.sum / self.samples;
        let variance = self.powers / self.samples - mean * mean;
        self.samples >= FEW
            && self.sent >= SAMPLES as f64 * f64::from(self.trips)
            && self.smallest - r0 <= RANGE * (mean - r0)
            && self.squares / self.samples >= FAST * variance
    }
}

/// The floor of losses, and the ceiling of the window that follows from it.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    ceiling: f64,
    /// The ceiling before the last cut.
    before_cut: f64,
    /// Losses that the path may still cause before the next one counts as congestion.
    credit: f64,
    /// The last losses, those without a standing queue, and those since a queue was last sure to
    /// stand.
    recent: Losses,
    floor: Losses,
    run: Losses,
    /// Those of the round trips of start-up without any queue, and the round trips in which they
    /// count.
    early: Losses,
    early_rounds: u32,
    /// True if the floor was observed while no queue was known to be empty.
    is_assumed: bool,
    unseen: Unseen,
    /// True if a queue was seen to stand.
    is_confirmed: bool,
    /// Stretches in a row without a standing queue.
    idle: u32,
    /// The value of `idle` at which the next search begins, and the ceiling before the present one.
    search_at: u32,
    before_search: Option<f64>,
    was_cut: bool,
    was_starting: bool,
    /// Round trips after a cut in which the ceiling still grows by single packets, fewer after a
    /// smaller cut than a half: a queue that drops or marks early is empty after each cut.
    slow_rounds: u32,
    /// The smallest mean RTT, and the mean of an empty queue when the floor began.
    least: Least<f64>,
    began: f64,
    stretch: Stretch,
}

impl Bound {
    pub(super) fn unknown() -> Self {
        Bound {
            ceiling: f64::INFINITY,
            before_cut: 0.0,
            credit: 0.0,
            recent: Losses::default(),
            floor: Losses::default(),
            run: Losses::default(),
            early: Losses::default(),
            early_rounds: 0,
            is_assumed: false,
            unseen: Unseen::default(),
            is_confirmed: false,
            idle: 0,
            search_at: CYCLE_ROUNDS,
            before_search: None,
            was_cut: false,
            was_starting: true,
            slow_rounds: 0,
            least: Least::default(),
            began: 0.0,
            stretch: Stretch::default(),
        }
    }

    /// C: the largest window.
    pub(super) fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// Undoes the last cut, since the losses were spurious.
    pub(super) fn undo(&mut self) {
        self.ceiling = self.ceiling.max(self.before_cut);
    }

    /// Halves the ceiling for a mark, which is certain congestion. A cut for losses of the last
    /// round trip counts as a part of it. Nothing undoes it.
    pub(super) fn on_mark(&mut self, cwnd: f64) {
        let most = self.ceiling.min(cwnd);
        let whole = if self.was_cut { self.before_cut.max(most) } else { most };
        self.ceiling = self.ceiling.min(0.5 * whole).max(LEAST);
        self.before_cut = 0.0;
        self.was_cut = true;
        self.slow_rounds = RECOVERY as u32;
    }

    /// Records an RTT, in seconds.
    pub(super) fn on_sample(&mut self, rtt: f64, queue: &Queue) {
        // A larger one is that of a timeout, or of a packet that waited for a handshake.
        let bend = queue.bend().abs().min(queue.floor());
        let is_first = self.stretch.samples == 0.0;
        self.stretch.smallest = if is_first { rtt } else { self.stretch.smallest.min(rtt) };
        self.stretch.samples += 1.0;
        self.stretch.sum += rtt;
        self.stretch.powers += rtt * rtt;
        self.stretch.squares += bend * bend / 6.0;
    }

    /// Forgets the mean of an empty queue, since RTTs before do not compare with those to come.
    pub(super) fn forget(&mut self) {
        self.least = Least::default();
        self.began = 0.0;
        self.stretch = Stretch::default();
    }

    /// Lifts the ceiling for another start-up, if the path loses more than [`RANGE`] and no
    /// queue was seen for a long time: the first start-up may have ended before the pipe was full.
    /// Returns whether it does.
    pub(super) fn begins_search(&mut self) -> bool {
        let begins = !self.is_confirmed
            && self.idle >= self.search_at
            && self.floor.rate() > RANGE
            && self.ceiling.is_finite();
        if begins {
            self.before_search = Some(self.ceiling);
            self.ceiling = f64::INFINITY;
            self.search_at = self.search_at.saturating_mul(2);
            self.idle = 0;
        }
        begins
    }

    /// In a search: whether it has met a queue. Many small flows see one that others fill in single
    /// RTTs, but not in the mean of a round trip.
    pub(super) fn has_found(&self) -> Option<bool> {
        self.before_search.map(|_| self.is_confirmed)
    }

    /// Ends a search: if it met no queue, the ceiling is that of before.
    pub(super) fn end_search(&mut self) {
        if let Some(ceiling) = self.before_search.take()
            && !self.is_confirmed
        {
            self.ceiling = ceiling;
        }
    }

    /// A queue was seen to stand.
    pub(super) fn confirm(&mut self) {
        self.is_confirmed = true;
    }

    /// Records a round trip of start-up without any queue. One that loses more than [`MOST`] floods
    /// a queue that is too short to be seen.
    pub(super) fn on_early_round(&mut self, lost: f64, sent: f64) {
        if lost <= MOST * sent {
            self.early.add(lost, sent);
            self.early_rounds = CYCLE_ROUNDS;
        }
    }

    /// The losses that tell the floor: at first the early ones, as long as they are more packets.
    fn known(&self) -> Losses {
        if self.early.sent > self.floor.sent { self.early } else { self.floor }
    }

    /// Updates the ceiling at the end of a round trip in which `lost` of `sent` packets were lost
    /// at the window `cwnd` and the smoothed RTT `srtt`. During start-up, and for one round trip
    /// more, losses are those of a window that is already given up.
    pub(super) fn on_round(
        &mut self,
        cwnd: f64,
        lost: f64,
        sent: f64,
        srtt: f64,
        is_starting: bool,
    ) {
        self.stretch.lost += lost;
        self.stretch.sent += sent;
        self.stretch.trips += 1;
        let is_settling = core::mem::replace(&mut self.was_starting, is_starting) || is_starting;
        // The losses of the round trip after a cut were caused by the window before it.
        let was_cut = core::mem::take(&mut self.was_cut);
        // The floor counts as at most this, and as at least this now.
        let (least, counts) = match (self.is_assumed, self.is_confirmed) {
            (true, _) => (0.0, RANGE),
            (false, true) => (0.0, MOST),
            (false, false) if self.idle > 0 => (UNCONFIRMED, UNCONFIRMED),
            (false, false) => (0.0, UNCONFIRMED),
        };
        self.early_rounds = self.early_rounds.saturating_sub(1);
        if self.early_rounds == 0 {
            self.early = Losses::default();
        }
        let known = self.known();
        let floor = known.rate().clamp(least, counts);
        // Below the least window, a round trip after a cut is one packet, sent after it.
        let is_spared = is_settling || (was_cut && self.ceiling >= LEAST);
        let most = f64::from(IDLE) * FEW.max(sent) * floor;
        self.credit = (self.credit + floor * sent).min(most) - if is_spared { 0.0 } else { lost };
        if !is_settling {
            self.recent.add(lost, sent);
            self.assume(lost, sent, srtt);
        }
        if self.credit < 0.0 {
            let granted = known.rate_above(GRANTED).min(counts);
            let congested = (1.0 - granted / self.recent.rate()).clamp(0.0, 1.0);
            self.before_cut = self.ceiling.min(HIGHEST * cwnd);
            self.ceiling = (self.before_cut * (1.0 - 0.5 * congested)).max(LEAST / SMALL);
            self.credit = 0.0;
            self.was_cut = true;
            self.slow_rounds = self.slow_rounds.max((RECOVERY as f64 * congested) as u32);
        } else {
            self.ceiling += (self.ceiling / SMALL).min(1.0);
            self.slow_rounds = self.slow_rounds.saturating_sub(1);
            if self.idle >= IDLE && self.slow_rounds == 0 {
                self.ceiling *= 1.0 + 1.0 / f64::from(CYCLE_ROUNDS);
            }
        }
    }

    /// Takes the losses of a queue that never empties for the floor, if their evidence suffices.
    fn assume(&mut self, lost: f64, sent: f64, srtt: f64) {
        // An assumed floor counts as no more than that.
        if self.is_assumed || self.floor.rate() >= RANGE {
            return;
        }
        self.unseen.on_round(lost, sent, srtt);
        if let Some(losses) = self.unseen.floor(self.floor) {
            self.floor = losses;
            self.is_assumed = true;
        }
    }

    /// Judges the queue from the mean RTT of the last stretch, once it is certain enough, where R0
    /// is the smallest RTT. Without a standing queue, its losses belong to the floor. Much jitter
    /// leaves the mean uncertain for long; then the way in which RTTs vary counts.
    fn judge_queue(&mut self, sample: &RateSample, queue: &Queue) {
        let r0 = queue.floor();
        let stands = STANDS.min(RANGE * r0);
        let uncertainty = self.stretch.uncertainty(queue.deviation());
        if self.stretch.samples < SAMPLES as f64 || uncertainty > stands.max(RESOLVED * r0) {
            if self.stretch.shows_jitter_only(r0) {
                let Stretch { lost, sent, .. } = core::mem::take(&mut self.stretch);
                self.on_idle(lost, sent);
            }
            return;
        }
        let Stretch { samples, sum, squares, lost, sent, trips, .. } =
            core::mem::take(&mut self.stretch);
        let mean = sum / samples;
        // The smallest of many uncertain means is too small.
        self.least.update(sample.now, mean + uncertainty, FLOOR_SPAN);
        // A flow that never saw an empty queue knows R0 at most by single packets.
        let deviation = libm::sqrt(squares / samples);
        // The jitter is estimated too small while few packets are sent: all of it counts.
        let most = r0 + GRANTED * deviation + 2.0 * queue.jitter();
        let empty = self.least.get().unwrap_or(mean).min(most);
        let rate = sent / (f64::from(trips) * queue.srtt());
        let noise = stands.max(uncertainty).max(queue.held_back(rate));
        // Many small windows see much noise.
        self.is_confirmed |= trips == 1 && mean > empty + noise.max(RANGE * r0);
        if empty < self.began - noise.max(RESOLVED * r0) && !self.is_assumed {
            // The floor was observed while a queue stood.
            self.floor = Losses::default();
        }
        if self.floor.sent == 0.0 {
            self.began = empty;
        }
        if mean <= empty + noise {
            self.on_idle(lost, sent);
        } else {
            self.idle = 0;
            // A smaller excess may be that of packets which waited for one of their own flow.
            if mean > empty + noise + deviation {
                self.run = Losses::default();
            }
        }
        if self.recent.excess(self.floor) < -SURE {
            self.floor = self.recent;
        }
    }

    /// Records a stretch without a standing queue. From the second one in a row on, its losses are
    /// added to the floor, or the whole run of them begins it.
    fn on_idle(&mut self, lost: f64, sent: f64) {
        self.idle += 1;
        if self.idle < IDLE {
            return;
        }
        let is_unknown = self.is_assumed || self.floor.sent == 0.0;
        self.run.add(lost, sent);
        if self.early_rounds > 0 {
            // A window that is cut before 100 packets are there takes long to send them.
            self.early.add(lost, sent);
        }
        if !is_unknown {
            self.floor.add(lost, sent);
        }
        if self.run.sent >= FEW {
            self.unseen.reset();
            if is_unknown || self.run.excess(self.floor) > SURE {
                (self.floor, self.is_assumed) = (self.run, false);
            }
        }
    }
}

impl Upwind {
    /// Updates the bound, at the end of a round trip.
    pub(super) fn bound_window(&mut self, sample: &RateSample) {
        let is_starting =
            self.mode == UpwindMode::StartUp || !self.steps.are_settled(sample.prior_delivered);
        let (lost, sent) = (self.rounds.lost_packets as f64, self.rounds.sent);
        if self.mode == UpwindMode::StartUp && self.queue.is_flat() {
            self.bound.on_early_round(lost, sent);
        }
        self.bound.on_round(self.cwnd, lost, sent, self.queue.srtt(), is_starting);
        self.bound.judge_queue(sample, &self.queue);
    }
}
