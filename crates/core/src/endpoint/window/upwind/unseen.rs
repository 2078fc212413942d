//! The floor under a queue that never empties.
//!
//! A flow that comes to such a queue cannot observe the floor. Flows that fill a queue until it
//! overflows, and then reduce their windows, move the mean RTT slowly and far; an AQM keeps it near
//! its target. So the losses before a queue that moves may be taken for the floor. This is an
//! assumption, and the bound limits what it counts for: the losses include those of congestion.

use super::losses::Losses;
use super::queue::SAMPLES;

/// A move of the smoothed RTT is at least this time, seconds, and so many of them suffice.
const MOVE: f64 = 0.033;
const MOVES: u32 = 4;

/// The losses of the last round trips, and the moves of the smoothed RTT.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Unseen {
    losses: Losses,
    /// The smoothed RTT; zero before the first round trip. Its smallest and its largest value since
    /// the last move.
    smooth: f64,
    range: Option<(f64, f64)>,
    moves: u32,
}

impl Unseen {
    /// Records a round trip that took `rtt` seconds, in which `lost` of `sent` packets were lost.
    pub(super) fn on_round(&mut self, lost: f64, sent: f64, rtt: f64) {
        self.losses.lost += lost;
        self.losses.sent += sent;
        self.smooth += if self.smooth > 0.0 { (rtt - self.smooth) / SAMPLES as f64 } else { rtt };
        let (least, most) = self.range.unwrap_or((self.smooth, self.smooth));
        let (least, most) = (least.min(self.smooth), most.max(self.smooth));
        let has_moved = most - least >= MOVE;
        self.moves += u32::from(has_moved);
        self.range = Some(if has_moved { (self.smooth, self.smooth) } else { (least, most) });
    }

    /// Begins anew, since an empty queue has told the floor.
    pub(super) fn reset(&mut self) {
        *self = Unseen { smooth: self.smooth, ..Unseen::default() };
    }

    /// The losses to take for the floor, if the queue moved often enough, and if they have more
    /// packets than the `known` floor.
    pub(super) fn floor(&self, known: Losses) -> Option<Losses> {
        (self.moves >= MOVES && self.losses.sent >= known.sent).then_some(self.losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue whose mean RTT, in milliseconds, is given for each round trip, with 1 of 20 packets
    /// lost. Returns the round trip from which there is a floor.
    fn first_floor(rtt: impl Fn(u32) -> f64) -> Option<u32> {
        let mut unseen = Unseen::default();
        (0..5000).find(|round| {
            unseen.on_round(1.0, 20.0, 1e-3 * rtt(*round));
            unseen.floor(Losses::default()).is_some()
        })
    }

    #[test]
    fn a_queue_that_overflows_again_and_again_has_a_floor_and_one_that_is_held_has_none() {
        // A sawtooth from 60 to 120 ms in 100 round trips, as of one NewReno.
        let sawtooth = |round: u32| 60.0 + 0.6 * f64::from(round % 100);
        assert!(first_floor(sawtooth).is_some_and(|round| (100..400).contains(&round)));
        // A queue that is held within 20 ms.
        assert_eq!(first_floor(|round| 70.0 + f64::from(round % 20)), None);
        // The smoothed RTT moves by less than 33 ms.
        assert_eq!(first_floor(|round| 60.0 + 32.0 * f64::from(round / 50 % 2)), None);
        // One move, and then none: another flow came.
        assert_eq!(first_floor(|round| if round < 500 { 60.0 } else { 110.0 }), None);
    }

    #[test]
    fn a_floor_known_from_more_packets_stays() {
        let mut unseen = Unseen::default();
        for round in 0..400 {
            unseen.on_round(1.0, 20.0, if round / 50 % 2 == 0 { 0.06 } else { 0.12 });
        }
        // 400 round trips of 20 packets.
        let known = |sent: f64| unseen.floor(Losses { lost: 0.0, sent }).map(|losses| losses.sent);
        assert_eq!((known(8000.0), known(8001.0)), (Some(8000.0), None));
    }
}
