//! Start-up: the window doubles in a round trip until the pipe is full.

use super::floor::MOST;
use super::path::{Losses, Path};
use crate::endpoint::estimator::RateSample;

/// The share of the window in the queue that shows a full pipe, and the share by which the
/// bandwidth grows at least in a round trip until it is full.
const FULL: f64 = 0.1;
/// Round trips without such growth that show a full pipe.
const STILL: u32 = 3;
/// The fewest losses that make a round trip a flood, if they are also more than [`MOST`].
const FLOOD: f64 = 5.0;

/// The state of a start-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct StartUp {
    bandwidth: f64,
    /// Round trips in a row without growth of the bandwidth.
    still: u32,
    /// The largest window: unlimited the first time, later as NewReno's ssthresh.
    most: f64,
}

impl StartUp {
    pub(super) fn upto(most: f64) -> Self {
        StartUp { bandwidth: 0.0, still: 0, most }
    }

    /// The window after a packet arrived, if it was `cwnd` (rule 8), or `None` if the pipe is full
    /// (rule 9).
    pub(super) fn step(
        &mut self,
        cwnd: f64,
        path: &Path,
        sample: &RateSample,
        target: f64,
        is_over: bool,
    ) -> Option<f64> {
        let is_limit = sample.prior_in_flight as f64 >= 0.5 * cwnd;
        if is_over && is_limit {
            self.still += 1;
            if path.bandwidth() >= (1.0 + FULL) * self.bandwidth {
                (self.bandwidth, self.still) = (path.bandwidth(), 0);
            }
        }
        let queues = path.backlog_now(cwnd) > target.max(FULL * cwnd);
        let floods = is_over && is_flood(path.trip);
        if self.still >= STILL || floods || queues || cwnd >= self.most {
            return None;
        }
        Some(if is_limit { cwnd + sample.newly_acked as f64 } else { cwnd })
    }
}

/// True if a start-up that loses so many of the packets sent costs others too much.
pub(super) fn is_flood(trip: Losses) -> bool {
    trip.lost >= FLOOD && trip.lost > MOST * trip.sent
}

#[cfg(test)]
mod tests {
    use super::super::path::tests::{feed, sample};
    use super::*;

    /// A path of 80 ms on which 1000 packets arrive in a second. The last round trip lost `lost`
    /// packets and delivered 80.
    fn path(lost: u64) -> Path {
        let mut path = Path::default();
        feed(&mut path, 80, 480, |_| 80.0);
        path.trip = Losses { lost: lost as f64, sent: lost as f64 + 80.0 };
        path
    }

    #[test]
    fn the_window_grows_by_what_arrives_until_a_round_trip_loses_more_than_a_third() {
        let step = |lost: u64, is_over| {
            let sample = RateSample { prior_in_flight: 80, ..sample(510, 80) };
            StartUp::upto(f64::INFINITY).step(80.0, &path(lost), &sample, 2.0, is_over)
        };
        assert_eq!((step(0, false), step(44, false)), (Some(81.0), Some(81.0)));
        // 43 of 123 are 35.0 %, and 44 of 124 are 35.5 %.
        assert_eq!((step(43, true), step(44, true)), (Some(81.0), None));
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let sample = RateSample { prior_in_flight: 39, ..sample(510, 80) };
        let mut start_up = StartUp::upto(f64::INFINITY);
        assert_eq!(start_up.step(80.0, &path(0), &sample, 2.0, false), Some(80.0));
    }

    #[test]
    fn it_ends_with_a_queue_or_a_bandwidth_that_stays_or_half_of_the_window_before() {
        let last = RateSample { prior_in_flight: 80, ..sample(510, 80) };
        // The third round trip without growth, after a first one with 1000 packets a second.
        let mut start_up = StartUp::upto(f64::INFINITY);
        let ends: Vec<_> =
            (0..4).map(|_| start_up.step(80.0, &path(0), &last, 2.0, true).is_none()).collect();
        assert_eq!(ends, [false, false, false, true]);
        // Eight RTTs of 90 ms: 80 x 10 / 90 = 8.9 packets wait, a ninth.
        let mut queue = path(0);
        feed(&mut queue, 481, 520, |_| 90.0);
        assert_eq!(StartUp::upto(f64::INFINITY).step(80.0, &queue, &last, 2.0, false), None);
        // Not if that many may be noise.
        assert!(StartUp::upto(f64::INFINITY).step(80.0, &queue, &last, 9.0, false).is_some());
        assert_eq!(StartUp::upto(80.0).step(80.0, &path(0), &last, 2.0, false), None);
    }
}
