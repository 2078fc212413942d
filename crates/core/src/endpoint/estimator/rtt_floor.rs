//! The lowest RTT of a recent stretch of time, for start-ups and controllers that ask whether the
//! queue is empty now and not whether it ever was.

use std::collections::VecDeque;

use crate::units::{Duration, Time};

/// The smallest sample of a sliding window of time.
#[derive(Debug, Clone, Default)]
pub struct RttFloor {
    /// Samples of which none before is smaller: of rising RTT, in order of time.
    candidates: VecDeque<(Time, Duration)>,
}

impl RttFloor {
    /// `rtt` was sampled at `now`; what was sampled more than `span` before counts no more.
    pub fn add(&mut self, now: Time, rtt: Duration, span: Duration) {
        while self.candidates.back().is_some_and(|(_, known)| *known >= rtt) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now, rtt));
        while self.candidates.front().is_some_and(|(at, _)| now.since(*at) > span) {
            self.candidates.pop_front();
        }
    }

    /// The smallest of them; zero before the first.
    pub fn get(&self) -> Duration {
        self.candidates.front().map_or(Duration::ZERO, |(_, rtt)| *rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_samples_leave_the_window() {
        let ms = Duration::from_millis;
        let mut floor = RttFloor::default();
        assert_eq!(floor.get(), Duration::ZERO);
        // Instants and RTTs in ms; the window reaches back over 10 ms, both ends included.
        let floors =
            [(0, 50), (4, 40), (8, 60), (14, 55), (15, 70), (24, 80), (25, 90)].map(|(at, rtt)| {
                floor.add(Time::ZERO + ms(at), ms(rtt), ms(10));
                floor.get()
            });
        assert_eq!(floors, [50, 40, 40, 40, 55, 55, 70].map(ms));
    }
}
