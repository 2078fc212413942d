//! Competition: the shadow S, the window that a NewReno would have, and when it bounds cwnd.

use super::LEAST;
use super::path::{CYCLE, CYCLE_TRIPS, Path};

/// The share of a remembered window that is forgotten in a round trip: of the shadow without known
/// overflows, and of the largest window.
const FADES: f64 = 0.01;
/// Round trips of a queue that overflows: in so many it is never short, or it empties from its
/// longest.
const FILLED: u32 = 5;

/// Round trips since the queue was last seen to be empty, short and long.
#[derive(Debug, Clone, Copy, Default)]
struct Since {
    empty: u32,
    short: u32,
    long: u32,
}

/// The shadow, and the evidence of other flows in the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Competition {
    shadow: f64,
    /// The largest recent window.
    top: f64,
    since: Since,
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

    /// Counts the round trips since the queue was empty, shorter than `target` packets of the
    /// window `cwnd`, and long (rule 16).
    pub(super) fn see(
        &mut self,
        is_over: bool,
        path: &Path,
        cwnd: f64,
        target: f64,
        is_long: bool,
    ) {
        let since = |before: u32, is_now: bool| {
            if is_now { 0 } else { before + u32::from(is_over) }
        };
        self.since = Since {
            empty: since(self.since.empty, path.is_empty()),
            short: since(self.since.short, path.backlog(cwnd) < target),
            long: since(self.since.long, is_long),
        };
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
        let Since { empty, short, .. } = self.since;
        let begins = empty >= CYCLE_TRIPS || self.overflows(now) && empty.min(short) >= FILLED;
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

    /// Competition is over, since the queue is empty. If it was long just before, others have
    /// responded to an overflow (rule 18).
    pub(super) fn end(&mut self, now: f64) {
        if self.since.long <= FILLED {
            self.on_overflow(now);
        }
    }

    /// The delay mode begins with the window `cwnd`.
    pub(super) fn leave(&mut self, cwnd: f64) {
        self.top = cwnd;
        self.since = Since::default();
    }

    /// A loss that is congestion with this probability reduces S, but not below `least` (rule 15).
    /// Returns how much it took.
    pub(super) fn cut(&mut self, congestion: f64, least: f64) -> f64 {
        let before = self.shadow;
        let least = least.max(LEAST).min(before);
        self.shadow = (before * (1.0 - 0.5 * congestion)).max(least);
        before - self.shadow
    }

    /// A loss, a mark or the end of competition shows an overflow of the queue (rule 15).
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
    use super::super::path::tests::feed;
    use super::*;

    /// A path of 80 ms without a queue, and then one of `longer` ms more.
    fn path(longer: f64) -> Path {
        let mut path = Path::default();
        feed(&mut path, 1, 600, |ms| if ms < 400 { 80.0 } else { 80.0 + longer });
        path
    }

    /// The round trip of delay mode after which competition begins at a window of 80 packets, of
    /// which two are to wait, if the queue has the given length in each, in ms.
    fn begins(mut competition: Competition, longer: impl Fn(u32) -> f64) -> Option<u32> {
        (1..100).find(|trip| {
            competition.see(true, &path(longer(*trip)), 80.0, 2.0, false);
            competition.watch(0.0, 80.0, 1.0, true)
        })
    }

    #[test]
    fn a_queue_that_is_not_empty_for_twenty_round_trips_is_that_of_others() {
        // 1.9 ms are 1.9 packets, and more than 2 % of R0.
        assert_eq!(begins(Competition::none(80.0), |_| 1.9), Some(20));
        assert_eq!(
            begins(Competition::none(80.0), |trip| if trip == 19 { 0.0 } else { 20.0 }),
            Some(39)
        );
        assert_eq!(
            begins(Competition::none(80.0), |trip| if trip % 20 == 0 { 0.0 } else { 20.0 }),
            None
        );
    }

    #[test]
    fn a_queue_that_overflows_and_is_not_short_for_five_round_trips_is_that_of_others() {
        let mut overflows = Competition::none(80.0);
        overflows.on_overflow(0.0);
        // 20 ms are 16 packets of the target of two; 1.9 ms are short.
        assert_eq!(begins(overflows, |_| 20.0), Some(5));
        assert_eq!(begins(overflows, |trip| if trip % 5 == 0 { 1.9 } else { 20.0 }), Some(20));
    }

    #[test]
    fn a_long_queue_that_is_empty_soon_has_overflowed() {
        let ends = |trips: u32| {
            let mut competition = Competition::none(80.0);
            competition.see(true, &path(20.0), 80.0, 2.0, true);
            (0..trips).for_each(|_| competition.see(true, &path(20.0), 80.0, 2.0, false));
            competition.end(10.0);
            (competition.overflows(29.9), competition.overflows(30.0))
        };
        assert_eq!(ends(5), (true, false));
        assert_eq!(ends(6), (false, false));
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
    fn it_stays_for_20_s_grows_for_20_s_after_an_overflow_and_fades() {
        let mut competition = Competition {
            since: Since { empty: CYCLE_TRIPS, ..Since::default() },
            ..Competition::none(80.0)
        };
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
        let mut competition = Competition::none(80.0);
        competition.on_overflow(0.0);
        assert_eq!(competition.follow(0.0, 70.0, 1.0, 0.0), 70.5);
        assert_eq!(competition.follow(0.0, 79.8, 1.0, 0.0), 80.0);
        assert_eq!(competition.follow(0.0, 85.0, 1.0, 0.0), 85.0);
    }
}
