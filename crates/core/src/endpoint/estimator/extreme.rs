//! The smallest or the largest sample of a sliding window of time.

use std::collections::VecDeque;

use crate::units::{Duration, Time};

/// A clock's instants: of the simulation, or seconds.
pub(in crate::endpoint) trait Instant: Copy {
    /// The time between two of them.
    type Span: Copy + PartialOrd;
    /// The time since `earlier`.
    fn after(self, earlier: Self) -> Self::Span;
}

impl Instant for Time {
    type Span = Duration;
    fn after(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

impl Instant for f64 {
    type Span = f64;
    fn after(self, earlier: Self) -> f64 {
        self - earlier
    }
}

/// Candidates in order of time, each less extreme than all before it.
#[derive(Debug, Clone, Default)]
struct Candidates<T, At>(VecDeque<(At, T)>);

impl<T: Copy, At: Instant> Candidates<T, At> {
    #[inline]
    fn update(&mut self, now: At, sample: T, span: At::Span, stays: impl Fn(&T) -> bool) {
        while self.0.back().is_some_and(|(_, old)| !stays(old)) {
            self.0.pop_back();
        }
        self.0.push_back((now, sample));
        while self.0.len() > 1 && self.0.front().is_some_and(|(at, _)| now.after(*at) > span) {
            self.0.pop_front();
        }
    }
}

/// The smallest sample of a sliding window of time.
#[derive(Debug, Clone, Default)]
pub(in crate::endpoint) struct Least<T, At = Time>(Candidates<T, At>);

impl<T: Copy + PartialOrd, At: Instant> Least<T, At> {
    /// Adds a sample. Samples older than `span` no longer count; the latest always does.
    pub(in crate::endpoint) fn update(&mut self, now: At, sample: T, span: At::Span) {
        self.0.update(now, sample, span, |old| *old < sample);
    }
    /// The smallest sample; `None` before the first.
    pub(in crate::endpoint) fn get(&self) -> Option<T> {
        self.0.0.front().map(|(_, sample)| *sample)
    }
}

/// The largest sample of a sliding window of time.
#[derive(Debug, Clone, Default)]
pub(in crate::endpoint) struct Greatest<T, At = Time>(Candidates<T, At>);

impl<T: Copy + PartialOrd, At: Instant> Greatest<T, At> {
    /// See [`Least::update`].
    pub(in crate::endpoint) fn update(&mut self, now: At, sample: T, span: At::Span) {
        self.0.update(now, sample, span, |old| *old > sample);
    }
    /// The largest sample; `None` before the first.
    pub(in crate::endpoint) fn get(&self) -> Option<T> {
        self.0.0.front().map(|(_, sample)| *sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_extremes_are_forgotten_but_never_the_last() {
        let at = |s: u64| Time::ZERO + Duration::from_secs(s);
        let span = Duration::from_secs(3);
        let (mut least, mut greatest) = (Least::default(), Greatest::default());
        assert_eq!((least.get(), greatest.get()), (None, None));
        let seen: Vec<_> = [(1, 5), (2, 3), (3, 4), (5, 6), (6, 7), (20, 1)]
            .into_iter()
            .map(|(s, sample)| {
                least.update(at(s), sample, span);
                greatest.update(at(s), sample, span);
                (least.get().unwrap(), greatest.get().unwrap())
            })
            .collect();
        // At 6 s the 3 of 2 s is gone, and at 20 s all but the last.
        assert_eq!(seen, [(5, 5), (3, 5), (3, 5), (3, 6), (4, 7), (1, 1)]);
    }
}
