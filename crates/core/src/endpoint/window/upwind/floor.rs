//! The floor f: the loss rate of the path while no queue stands, when congestion causes no losses.
//!
//! A part of its own. The ceiling asks it for a rate; it is told what each round trip lost, and
//! each verdict on the queue. In tests a known rate takes its place, so that the law and the
//! estimate are judged apart.

use std::fmt::Debug;

use super::path::{CYCLE_TRIPS, Losses};

/// The fewest packets that make a loss rate; fewer count as this many.
pub(super) const FEW: f64 = 100.0;
/// Packets after which counts have faded to 1/e, or those of [`CYCLE_TRIPS`] round trips if these
/// are more: a burst must not be all that the counts of a large window know.
pub(super) const FADE: f64 = 3000.0;
/// The largest loss rate that a path may have: a queue too short to be seen drops more.
pub(super) const MOST: f64 = 0.35;
/// The largest floor that a start-up tells: losses of its own queue may be among them.
const EARLY: f64 = 0.1;
/// A move of the mean RTT, seconds; so many show a queue that overflows again and again.
const MOVE: f64 = 0.033;
const MOVES: u32 = 4;

/// An R0 of at most this share of an earlier one has fallen.
const FALLEN: f64 = 0.9;

/// The source of the floor for the ceiling.
pub(super) trait Floor: Debug + Send + Sync {
    /// f.
    fn rate(&self) -> f64;
    /// f, and what chance may add: what a cut grants.
    fn granted(&self) -> f64;
    /// A round trip of start-up is over that did not flood, with R0.
    fn on_start_trip(&mut self, trip: Losses, r0: f64);
    /// A round trip is over, whose losses are not those of start-up, with the smoothed RTT `srtt`
    /// and R0.
    fn on_trip(&mut self, trip: Losses, srtt: f64, r0: f64);
    /// The queue is clear, and so many packets were lost in the round trips that tell.
    fn on_clear(&mut self, losses: Losses);
}

impl Losses {
    /// Adds the packets of a round trip, or of several.
    pub(super) fn add(&mut self, other: Losses) {
        let kept = 1.0 - (other.sent / FADE).min(1.0 / f64::from(CYCLE_TRIPS));
        self.lost = self.lost * kept + other.lost;
        self.sent = self.sent * kept + other.sent;
    }

    /// The loss rate. That of few packets is too small rather than too large.
    pub(super) fn rate(self) -> f64 {
        self.lost / self.sent.max(FEW)
    }
}

/// The losses of start-up, for a while: with few packets in flight, later means tell the floor late
/// or, behind delayed ACKs, never.
#[derive(Debug, Clone, Copy, Default)]
struct Early {
    losses: Losses,
    /// Round trips for which they count.
    trips: u32,
    r0: f64,
}

impl Early {
    /// If R0 has fallen, the losses were those of a queue.
    fn see(&mut self, r0: f64) {
        if self.r0 == 0.0 || r0 <= FALLEN * self.r0 {
            (self.losses, self.r0) = (Losses::default(), r0);
        }
    }
}

/// Losses in a queue that never empties, and the mean RTT, which moves as far as only overflows
/// move it.
#[derive(Debug, Clone, Copy, Default)]
struct Unseen {
    losses: Losses,
    /// The mean; zero before the first round trip.
    mean: f64,
    /// Its smallest and its largest value since the last move.
    range: Option<(f64, f64)>,
    moves: u32,
}

impl Unseen {
    fn on_trip(&mut self, trip: Losses, srtt: f64) {
        self.losses.lost += trip.lost;
        self.losses.sent += trip.sent;
        self.mean += if self.mean > 0.0 { (srtt - self.mean) / 8.0 } else { srtt };
        let (least, most) = self.range.unwrap_or((self.mean, self.mean));
        let (least, most) = (least.min(self.mean), most.max(self.mean));
        let has_moved = most - least >= MOVE;
        self.moves += u32::from(has_moved);
        self.range = Some(if has_moved { (self.mean, self.mean) } else { (least, most) });
    }
}

/// The floor, from the losses of round trips without a standing queue (rules 2 and 3).
#[derive(Debug, Clone, Default)]
pub(super) struct Estimate {
    early: Early,
    /// Losses while the queue was clear.
    clear: Losses,
    unseen: Unseen,
    /// The floor of a queue that never empties.
    assumed: Option<Losses>,
}

impl Estimate {
    /// The losses that tell the floor, and its largest value.
    fn told(&self) -> (Losses, f64) {
        let known = if self.clear.sent >= FEW { self.clear } else { Losses::default() };
        let known = self.assumed.unwrap_or(known);
        let Early { losses, trips, .. } = self.early;
        if trips > 0 && losses.sent > known.sent { (losses, EARLY) } else { (known, MOST) }
    }
}

impl Floor for Estimate {
    fn rate(&self) -> f64 {
        let (losses, most) = self.told();
        losses.rate().min(most)
    }

    fn granted(&self) -> f64 {
        // Few losses do not tell 0.9 from 1 %: half a standard deviation more.
        let (losses, most) = self.told();
        let chance = 0.5 * libm::sqrt(losses.lost) / losses.sent.max(FEW);
        (losses.rate() + chance).min(most)
    }

    fn on_start_trip(&mut self, trip: Losses, r0: f64) {
        self.early.see(r0);
        self.early.losses.add(trip);
        self.early.trips = CYCLE_TRIPS;
    }

    fn on_trip(&mut self, trip: Losses, srtt: f64, r0: f64) {
        self.early.see(r0);
        self.early.trips = self.early.trips.saturating_sub(1);
        if self.assumed.is_none() {
            self.unseen.on_trip(trip, srtt);
            self.assumed = (self.unseen.moves >= MOVES).then_some(self.unseen.losses);
        }
    }

    fn on_clear(&mut self, losses: Losses) {
        self.clear.add(losses);
        if self.clear.sent >= FEW {
            (self.unseen, self.assumed) = (Unseen::default(), None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A floor that is known.
    #[derive(Debug)]
    pub(in super::super) struct Known(pub(in super::super) f64);

    impl Floor for Known {
        fn rate(&self) -> f64 {
            self.0
        }
        fn granted(&self) -> f64 {
            self.0
        }
        fn on_start_trip(&mut self, _: Losses, _: f64) {}
        fn on_trip(&mut self, _: Losses, _: f64, _: f64) {}
        fn on_clear(&mut self, _: Losses) {}
    }

    fn losses(lost: f64, sent: f64) -> Losses {
        Losses { lost, sent }
    }

    /// The counts after so many round trips of `sent` packets without a loss, and one that loses
    /// a fifth of them.
    fn burst(sent: f64) -> Losses {
        let mut counts = Losses::default();
        (0..400).for_each(|_| counts.add(losses(0.0, sent)));
        counts.add(losses(0.2 * sent, sent));
        counts
    }

    #[test]
    fn counts_fade_with_packets_and_those_of_large_windows_with_round_trips() {
        // A sum of (1 - 100/3000)^n is 30 round trips of 100 packets, of which 20 are lost.
        let small = burst(100.0);
        assert!((small.sent - 3000.0).abs() < 1.0, "{}", small.sent);
        // One of 0.95^n is 20 round trips: a hundredth is lost, and not the seventh that 3000
        // packets would tell.
        let large = burst(4000.0);
        assert!((large.sent / 4000.0 - 20.0).abs() < 0.01, "{}", large.sent);
        assert!((large.rate() - 0.01).abs() < 1e-4, "{}", large.rate());
    }

    #[test]
    fn the_floor_is_the_loss_rate_of_a_hundred_packets_without_a_queue() {
        let mut floor = Estimate::default();
        floor.on_clear(losses(6.0, 60.0));
        assert_eq!(floor.rate(), 0.0, "60 packets are too few");
        floor.on_clear(losses(3.0, 60.0));
        // 60 of 3000 have faded: the first 60 count as 58.8.
        assert!((floor.rate() - 9.0 / 120.0).abs() < 2e-3, "{}", floor.rate());
    }

    #[test]
    fn half_a_deviation_is_granted_and_a_third_is_the_most() {
        // 9 of 900 packets: a deviation is 3 packets.
        let mut floor = Estimate { clear: losses(9.0, 900.0), ..Estimate::default() };
        assert!((floor.granted() - 10.5 / 900.0).abs() < 1e-12);
        floor.clear = losses(50.0, 100.0);
        assert_eq!((floor.rate(), floor.granted()), (MOST, MOST));
    }

    #[test]
    fn the_losses_of_start_up_are_the_floor_for_twenty_round_trips() {
        let mut floor = Estimate::default();
        floor.on_start_trip(losses(1.0, 20.0), 0.08);
        floor.on_start_trip(losses(4.0, 80.0), 0.08);
        assert!((floor.rate() - 0.05).abs() < 1e-3, "{}", floor.rate());
        (0..19).for_each(|_| floor.on_trip(losses(0.0, 10.0), 0.1, 0.08));
        assert!((floor.rate() - 0.05).abs() < 1e-3, "{}", floor.rate());
        floor.on_trip(losses(0.0, 10.0), 0.1, 0.08);
        assert_eq!(floor.rate(), 0.0);
    }

    #[test]
    fn the_losses_of_a_start_up_in_the_queue_of_others_are_not_those_of_the_path() {
        // A flow that starts in a full queue takes its delay for that of the path.
        let mut floor = Estimate::default();
        floor.on_start_trip(losses(20.0, 100.0), 0.08);
        floor.on_trip(losses(0.0, 10.0), 0.08, 0.073);
        assert_eq!(floor.rate(), EARLY);
        floor.on_trip(losses(0.0, 10.0), 0.08, 0.072);
        assert_eq!(floor.rate(), 0.0);
    }

    /// The round trip from which a floor is assumed, if one of 20 packets is lost in each, and the
    /// smoothed RTTs are given in milliseconds.
    fn assumed(srtt: impl Fn(u32) -> f64) -> Option<u32> {
        let mut floor = Estimate::default();
        (0..5000).find(|trip| {
            floor.on_trip(losses(1.0, 20.0), srtt(*trip) / 1e3, 0.06);
            floor.rate() > 0.0
        })
    }

    #[test]
    fn a_queue_that_overflows_again_and_again_has_a_floor_and_one_that_is_held_has_none() {
        // A sawtooth from 60 to 120 ms in 100 round trips, as of one NewReno.
        let sawtooth = |trip: u32| 60.0 + 0.6 * f64::from(trip % 100);
        assert!(assumed(sawtooth).is_some_and(|trip| (100..400).contains(&trip)));
        // A queue that is held within 20 ms.
        assert_eq!(assumed(|trip| 70.0 + f64::from(trip % 20)), None);
        // The smoothed RTT moves by less than 33 ms.
        assert_eq!(assumed(|trip| 60.0 + 32.0 * f64::from(trip / 50 % 2)), None);
        // One move, and then none: another flow came.
        assert_eq!(assumed(|trip| if trip < 500 { 60.0 } else { 110.0 }), None);
    }

    #[test]
    fn an_assumed_floor_gives_way_to_a_clear_queue() {
        let mut floor = Estimate::default();
        let moving = |trip: u32| if (trip / 50).is_multiple_of(2) { 0.06 } else { 0.12 };
        (0..399).for_each(|trip| floor.on_trip(losses(1.0, 20.0), moving(trip), 0.06));
        assert_eq!(floor.rate(), 0.05);
        floor.on_clear(losses(2.0, 200.0));
        assert_eq!(floor.rate(), 0.01);
    }
}
