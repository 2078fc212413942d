//! The ceiling C on the window, which depends on no belief about the cause of a single loss.
//!
//! C is the window of a NewReno for which only the losses above the floor f are congestion. An f
//! that is too small corrects itself if no other flow fills the queue: the cuts empty it, and the
//! floor becomes known.

use super::LEAST;
use super::floor::{FEW, Floor};
use super::path::{CYCLE_TRIPS, Losses};

/// C is cut from at most so many windows: as a NewReno's window, and not once more where the shadow
/// has already reduced cwnd.
const HIGHEST: f64 = 1.5;
/// A smaller ceiling than this grows by a share of itself in a round trip: without timeouts, growth
/// by a packet in a queue of few packets would be too much for others.
const SMALL: f64 = 6.0;
/// Round trips after a halving in which C grows by single packets only: a queue that drops or marks
/// early is empty after each cut.
const PAUSE: f64 = 10.0;

/// The ceiling.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ceiling {
    window: f64,
    /// Losses that the path may still cause before the next one counts as congestion.
    credit: f64,
    recent: Losses,
    /// Packets of the last round trip.
    sent: f64,
    /// True in start-up and for two round trips after it, and before: losses are free then.
    is_free: bool,
    was_starting: bool,
    /// The last packet sent before the last cut.
    until: u64,
    was_cut: bool,
    /// Round trips until the growth is fast again.
    pause: f64,
}

impl Ceiling {
    pub(super) fn none() -> Self {
        Ceiling {
            window: f64::INFINITY,
            credit: 0.0,
            recent: Losses::default(),
            sent: 0.0,
            is_free: true,
            was_starting: true,
            until: 0,
            was_cut: false,
            pause: 0.0,
        }
    }

    /// C.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// True if the losses of the last round trip were free.
    pub(super) fn is_free(&self) -> bool {
        self.is_free
    }

    /// Packets arrived or were lost (rule 5).
    pub(super) fn grant(&mut self, packets: f64, floor: &dyn Floor) {
        let f = floor.rate();
        // Credit for two round trips outlasts the judgment of a queue.
        self.credit = (self.credit + f * packets).min(2.0 * f * FEW.max(self.sent));
    }

    /// The packet `number` was lost at the window `cwnd` (rules 5 and 6).
    pub(super) fn on_lost(&mut self, number: u64, cwnd: f64, floor: &dyn Floor) {
        self.grant(1.0, floor);
        if self.is_free || number <= self.until {
            return;
        }
        self.credit -= 1.0;
        if self.credit >= 0.0 {
            return;
        }
        let rate = (self.recent.lost + 1.0) / self.recent.sent.max(FEW);
        let congested = (1.0 - floor.granted() / rate).clamp(0.0, 1.0);
        self.until = number + cwnd.min(self.window) as u64;
        let whole = self.window.min(HIGHEST * cwnd);
        self.window = (whole * (1.0 - 0.5 * congested)).max(LEAST / 4.0);
        self.credit = 0.0;
        self.was_cut = true;
        self.pause = self.pause.max(libm::trunc(PAUSE * congested));
    }

    /// A round trip is over (rules 4 and 7). `is_starting` is true if start-up is not over, or was
    /// not when the packets of the round trip were sent.
    pub(super) fn on_trip(&mut self, trip: Losses, is_starting: bool, is_empty: bool) {
        self.is_free = is_starting || self.was_starting;
        (self.was_starting, self.sent) = (is_starting, trip.sent);
        if !self.is_free {
            self.recent.add(trip);
        }
        if core::mem::take(&mut self.was_cut) {
            return;
        }
        self.window += (self.window / SMALL).min(1.0);
        self.pause = (self.pause - 1.0).max(0.0);
        if is_empty && self.pause == 0.0 {
            self.window *= 1.0 + 1.0 / f64::from(CYCLE_TRIPS);
        }
    }

    /// A mark is certain congestion (rule 20).
    pub(super) fn on_mark(&mut self, cwnd: f64) {
        self.window = (0.5 * self.window.min(cwnd)).max(LEAST).min(self.window);
        self.was_cut = true;
        self.pause = PAUSE;
    }

    /// The losses of the last cut were spurious, and C was `before` it.
    pub(super) fn undo(&mut self, before: f64) {
        self.window = self.window.max(before);
    }
}

#[cfg(test)]
mod tests {
    use super::super::floor::tests::Known;
    use super::*;
    use crate::rng::Stream;

    /// A sender of round trips with 100 packets, whose window would be 100.
    struct Trips {
        ceiling: Ceiling,
        number: u64,
        floor: Known,
    }

    impl Trips {
        fn with(floor: f64) -> Self {
            let mut trips = Trips { ceiling: Ceiling::none(), number: 0, floor: Known(floor) };
            // The first round trips after start-up are free.
            trips.pass(2, 0, false);
            trips
        }

        /// Round trips that lose the first `lost` of 100 packets. Returns C after them.
        fn pass(&mut self, trips: u64, lost: u64, is_empty: bool) -> f64 {
            for _ in 0..trips {
                for _ in 0..lost {
                    self.number += 1;
                    self.ceiling.on_lost(self.number, 100.0, &self.floor);
                }
                self.number += 100 - lost;
                self.ceiling.grant((100 - lost) as f64, &self.floor);
                let trip = Losses { lost: lost as f64, sent: 100.0 };
                self.ceiling.on_trip(trip, false, is_empty);
            }
            self.ceiling.window()
        }
    }

    #[test]
    fn without_a_floor_a_loss_halves_and_those_sent_before_the_cut_are_free() {
        let mut trips = Trips::with(0.0);
        // The half of 1.5 x 100, from no ceiling.
        assert_eq!(trips.pass(1, 20, false), 75.0);
        // The next packets were sent before the cut was made; one packet more per round trip then.
        // 200 packets of the first two round trips, the first one lost, and a window after it.
        assert_eq!(trips.ceiling.until, 201 + 100);
        assert_eq!(trips.pass(1, 0, false), 76.0);
        assert_eq!(trips.pass(1, 1, false), 38.0);
        // Losses that were spurious restore it.
        trips.ceiling.undo(76.0);
        assert_eq!(trips.ceiling.window(), 76.0);
    }

    #[test]
    fn losses_at_the_floor_are_free_and_those_above_count_in_proportion() {
        let mut trips = Trips::with(0.1);
        assert_eq!(trips.pass(200, 10, false), f64::INFINITY);
        // 20 % with a floor of 10 %: half of them are congestion once the counts tell it. Before,
        // they tell less; so a cut is at most a quarter, of at most 150 packets.
        let first = (0..40).map(|_| trips.pass(1, 20, false)).find(|window| window.is_finite());
        let first = first.expect("the excess is noticed");
        assert!((112.5..150.0).contains(&first), "{first}");
    }

    #[test]
    fn a_small_ceiling_grows_by_a_sixth_and_a_cut_pauses_the_fast_growth() {
        let mut trips = Trips::with(0.0);
        for _ in 0..20 {
            trips.pass(2, 1, false);
        }
        // It is half a packet at least, and grows in every other round trip.
        assert_eq!(trips.pass(1, 1, false), 0.5);
        assert_eq!(trips.pass(1, 0, false), 0.5 + 0.5 / 6.0);
        // A cut by half, and ten round trips of single packets; then 5 %.
        let mut trips = Trips::with(0.0);
        assert_eq!(trips.pass(1, 1, true), 75.0);
        assert_eq!(trips.pass(9, 0, true), 84.0);
        assert_eq!(trips.pass(1, 0, true), 85.0 * 1.05);
    }

    #[test]
    fn losses_of_start_up_and_of_two_round_trips_after_it_are_free() {
        let mut ceiling = Ceiling::none();
        let mut trips = 0;
        for is_starting in [true, true, false, false, false] {
            ceiling.on_lost(1000 * (trips + 1), 100.0, &Known(0.0));
            ceiling.on_trip(Losses { lost: 1.0, sent: 100.0 }, is_starting, false);
            trips += 1;
            assert_eq!(ceiling.window().is_finite(), trips == 5, "{trips}");
        }
    }

    /// With the floor known, the ceiling is at least the window of a NewReno that only the other
    /// losses reach: 3/4 of sqrt(8 / 3 excess), the mean of a sawtooth at one loss in a cycle, is
    /// reached in the mean of C.
    #[test]
    fn with_the_floor_known_it_is_at_least_a_newreno_at_the_excess() {
        for (seed, floor, excess) in
            [(1, 0.0, 0.001), (2, 0.01, 0.002), (3, 0.05, 0.005), (4, 0.1, 0.02), (5, 0.2, 0.01)]
        {
            let mut stream = Stream::new(seed, "test", "losses");
            let (mut ceiling, known) = (Ceiling::none(), Known(floor));
            ceiling.on_trip(Losses::default(), false, false);
            ceiling.on_trip(Losses::default(), false, false);
            let (mut number, mut sum) = (0, 0.0);
            for _ in 0..20_000 {
                let cwnd = ceiling.window().min(400.0);
                let mut trip = Losses { lost: 0.0, sent: cwnd.max(1.0).floor() };
                for _ in 0..trip.sent as u64 {
                    number += 1;
                    if stream.uniform() < floor + excess {
                        trip.lost += 1.0;
                        ceiling.on_lost(number, cwnd, &known);
                    } else {
                        ceiling.grant(1.0, &known);
                    }
                }
                ceiling.on_trip(trip, false, false);
                sum += cwnd;
            }
            let (mean, newreno) = (sum / 20_000.0, 0.75 * libm::sqrt(8.0 / (3.0 * excess)));
            println!("{floor} + {excess}: {mean:.1}, newreno {newreno:.1}");
            assert!(mean > newreno, "{floor} + {excess}: {mean} of {newreno}");
        }
    }
}
