//! The smallest RTT of a recent interval, for start-ups and controllers that need to know whether
//! the queue is empty now.

use std::collections::VecDeque;

use crate::units::{Duration, Time};

/// The smallest sample of a sliding window of time.
#[derive(Debug, Clone, Default)]
pub struct RttFloor {
    /// Samples in order of time, of rising RTT: no later sample is smaller.
    candidates: VecDeque<(Time, Duration)>,
}

impl RttFloor {
    /// Adds a sample. Samples older than `span` no longer count.
    pub fn add(&mut self, now: Time, rtt: Duration, span: Duration) {
        while self.candidates.back().is_some_and(|(_, known)| *known >= rtt) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((now, rtt));
        while self.candidates.front().is_some_and(|(at, _)| now.since(*at) > span) {
            self.candidates.pop_front();
        }
    }

    /// The smallest sample; zero before the first.
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
