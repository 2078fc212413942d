//! The maximum over a sliding window of rounds.

use std::collections::VecDeque;

/// A windowed maximum: candidates in order of time, of falling value.
#[derive(Debug, Clone, Default)]
pub(in crate::endpoint::window) struct WindowedMax {
    candidates: VecDeque<(u64, f64)>,
    /// Copies of the last and the first candidate.
    newest: (u64, f64),
    oldest: (u64, f64),
}

impl WindowedMax {
    /// Adds a value of round `round`. The window covers that round and the `length - 1` before it.
    #[inline]
    pub(in crate::endpoint::window) fn update(&mut self, round: u64, value: f64, length: u64) {
        // A later and smaller value of the same round can never become the maximum.
        if round != self.newest.0 || value >= self.newest.1 || self.oldest.0 + length <= round {
            self.renew(round, value, length);
        }
    }

    #[inline(never)]
    fn renew(&mut self, round: u64, value: f64, length: u64) {
        while self.candidates.back().is_some_and(|candidate| candidate.1 <= value) {
            self.candidates.pop_back();
        }
        if self.candidates.back().is_none_or(|candidate| candidate.0 < round) {
            self.candidates.push_back((round, value));
        }
        while self.candidates.front().is_some_and(|candidate| candidate.0 + length <= round) {
            self.candidates.pop_front();
        }
        self.newest = self.candidates.back().copied().unwrap_or_default();
        self.oldest = self.candidates.front().copied().unwrap_or_default();
    }

    /// The maximum; zero before the first value.
    #[inline]
    pub(in crate::endpoint::window) fn max(&self) -> f64 {
        self.oldest.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_maxima_leave_the_window() {
        let mut filter = WindowedMax::default();
        let maxima: Vec<f64> =
            [(1, 5.0), (1, 3.0), (2, 4.0), (3, 1.0), (4, 2.0), (5, 1.0), (7, 0.5)]
                .into_iter()
                .map(|(round, value)| {
                    filter.update(round, value, 3);
                    filter.max()
                })
                .collect();
        // Windows 1, 1, 1-2, 1-3, 2-4, 3-5, 5-7.
        assert_eq!(maxima, [5.0, 5.0, 5.0, 5.0, 4.0, 2.0, 1.0]);
    }
}
