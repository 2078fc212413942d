//! Competition: the shadow S, the window that a NewReno would have, and when it bounds cwnd.

use super::LEAST;
use super::path::{CYCLE, CYCLE_TRIPS};

/// The share of a remembered window that is forgotten in a round trip: of the shadow without known
/// overflows, and of the largest window.
const FADES: f64 = 0.01;

/// The shadow, and the evidence of other flows in the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Competition {
    shadow: f64,
    /// The largest recent window.
    top: f64,
    /// Round trips since the queue was empty.
    since_empty: u32,
    /// The time until which the shadow stays without overflows.
    stays_until: f64,
    /// The time until which an overflow is known.
    known_until: f64,
}

impl Competition {
    /// No other flows are known, and the shadow is `cwnd`.
    pub(super) fn none(cwnd: f64) -> Self {
        Competition { shadow: cwnd, top: cwnd, ..Competition::default() }
    }

    /// S.
    pub(super) fn shadow(&self) -> f64 {
        self.shadow
    }

    /// Sets S: where routers help, nobody competes.
    pub(super) fn set(&mut self, cwnd: f64) {
        self.shadow = cwnd;
    }

    /// Bounds S.
    pub(super) fn limit(&mut self, most: f64) {
        self.shadow = self.shadow.min(most);
    }

    /// True if the queue is known to overflow (rule 15).
    pub(super) fn overflows(&self, now: f64) -> bool {
        now < self.known_until
    }

    /// Counts the round trips since the queue was empty (rule 16).
    pub(super) fn see(&mut self, is_over: bool, is_empty: bool) {
        self.since_empty = if is_empty { 0 } else { self.since_empty + u32::from(is_over) };
    }

    /// Packets were acknowledged in delay mode, for which S grows by `growth` / S (rule 15).
    /// Returns true if other flows fill the queue (rule 17): then competition begins.
    pub(super) fn watch(&mut self, now: f64, cwnd: f64, growth: f64, is_over: bool) -> bool {
        self.top = self.top.max(cwnd);
        self.shadow = (self.shadow + growth / self.shadow).min(self.top);
        if !is_over {
            return false;
        }
        self.top = (self.top * (1.0 - FADES)).max(cwnd);
        let begins = self.since_empty >= CYCLE_TRIPS;
        if begins {
            self.stays_until = now + CYCLE;
        }
        begins
    }

    /// Packets were acknowledged in competitive mode. Returns the window (rule 17).
    pub(super) fn follow(&mut self, now: f64, cwnd: f64, acked: f64, growth: f64) -> f64 {
        if self.overflows(now) {
            self.shadow += growth / self.shadow;
        } else if now >= self.stays_until {
            // A queue that never overflows belongs to others that respond to delay.
            self.shadow = (self.shadow - FADES * acked).max(LEAST);
        }
        if cwnd < self.shadow { (cwnd + 0.5 * acked).min(self.shadow) } else { cwnd }
    }

    /// Competition is over, or the help of routers.
    pub(super) fn leave(&mut self, cwnd: f64) {
        self.top = cwnd;
        self.since_empty = 0;
    }

    /// A loss that is congestion with this probability reduces S, but not below `least` (rule 15).
    /// Returns how much it took.
    pub(super) fn cut(&mut self, congestion: f64, least: f64) -> f64 {
        let before = self.shadow;
        let least = least.max(LEAST).min(before);
        self.shadow = (before * (1.0 - 0.5 * congestion)).max(least);
        before - self.shadow
    }

    /// A loss or a mark is an overflow of the queue (rule 15).
    pub(super) fn on_overflow(&mut self, now: f64) {
        self.known_until = self.known_until.max(now + CYCLE);
    }

    /// The losses of the last cut were spurious.
    pub(super) fn undo(&mut self, before: &Competition) {
        self.shadow = self.shadow.max(before.shadow);
        self.known_until = before.known_until;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow whose queue was not empty for a cycle.
    fn late() -> Competition {
        Competition { since_empty: CYCLE_TRIPS, ..Competition::none(80.0) }
    }

    #[test]
    fn a_queue_that_is_not_empty_for_twenty_round_trips_is_that_of_others() {
        let begins = |is_empty: fn(u32) -> bool| {
            let mut competition = Competition::none(80.0);
            (1..100).find(|trip| {
                competition.see(true, is_empty(*trip));
                competition.watch(0.0, 80.0, 1.0, true)
            })
        };
        assert_eq!(begins(|_| false), Some(20));
        assert_eq!(begins(|trip| trip == 19), Some(39));
        assert_eq!(begins(|trip| trip % 20 == 0), None);
    }

    #[test]
    fn the_shadow_is_that_of_a_newreno_and_at_most_the_largest_recent_window() {
        let mut competition = Competition::none(80.0);
        // 80 packets of a round trip, at a window that would allow it: one packet more.
        (0..80).for_each(|_| _ = competition.watch(0.0, 90.0, 1.0, false));
        assert!((competition.shadow() - 81.0).abs() < 0.01, "{}", competition.shadow());
        (0..8000).for_each(|_| _ = competition.watch(0.0, 90.0, 1.0, false));
        assert_eq!(competition.shadow(), 90.0);
        // 1 % of it is forgotten in a round trip.
        competition.watch(0.0, 50.0, 1.0, true);
        competition.watch(0.0, 50.0, 1.0, false);
        assert!((competition.shadow() - 0.99 * 90.0).abs() < 1e-9, "{}", competition.shadow());
        // A loss that is congestion by one half, and another that would take it below the half.
        let shadow = competition.shadow();
        assert!((competition.cut(0.5, 0.5 * shadow) - 0.25 * shadow).abs() < 1e-9);
        assert!((competition.cut(1.0, 0.5 * shadow) - 0.25 * shadow).abs() < 1e-9);
    }

    #[test]
    fn it_grows_after_an_overflow_stays_for_20_s_and_fades() {
        let mut competition = late();
        assert!(competition.watch(100.0, 80.0, 0.0, true));
        let at = |competition: &mut Competition, now: f64| {
            competition.follow(now, 80.0, 1.0, 1.0);
            competition.shadow()
        };
        assert_eq!(at(&mut competition, 119.9), 80.0);
        assert!((at(&mut competition, 120.0) - 79.99).abs() < 1e-9);
        competition.on_overflow(121.0);
        assert!(at(&mut competition, 140.9) > 80.0);
        assert!(at(&mut competition, 141.0) < 80.01);
    }

    #[test]
    fn the_window_rises_to_the_shadow_by_half_a_packet() {
        let mut competition = late();
        competition.watch(0.0, 80.0, 0.0, true);
        assert_eq!(competition.follow(0.0, 70.0, 1.0, 1.0), 70.5);
        assert_eq!(competition.follow(0.0, 79.8, 1.0, 1.0), 80.0);
        assert_eq!(competition.follow(0.0, 85.0, 1.0, 1.0), 85.0);
    }
}
