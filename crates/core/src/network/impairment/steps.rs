//! Values that change at given instants.

use crate::network::TraceError;
use crate::units::{Duration, Time};

/// A value that changes at given instants, optionally with a period.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Steps<T> {
    /// The begin of each value, in order; the first is zero. Never empty.
    from: Box<[Duration]>,
    values: Box<[T]>,
    repeat: Option<Duration>,
}

impl<T> Steps<T> {
    /// The latest instant of a change and the longest period: 100 days, as long as the longest run.
    pub const LONGEST: Duration = Duration::from_secs(100 * 86_400);
}

impl<T: Copy> Steps<T> {
    /// These values, each from its instant on, repeated after `repeat`.
    ///
    /// # Errors
    /// If there are none, the first does not begin at zero, one does not begin after the one before
    /// or begins after 100 days, or all is repeated before the last has begun or after 100 days.
    pub fn new(steps: Vec<(Duration, T)>, repeat: Option<Duration>) -> Result<Self, TraceError> {
        let wrong = |index, reason| Err(TraceError { index, reason });
        let (from, values): (Vec<Duration>, Vec<T>) = steps.into_iter().unzip();
        match from.first() {
            None => return wrong(None, "there is no entry at all".to_owned()),
            Some(first) if !first.is_zero() => {
                let reason = format!("the first entry is at {first} and must be at 0s");
                return wrong(Some(0), reason);
            }
            Some(_) => {}
        }
        for (index, pair) in (1..).zip(from.windows(2)) {
            let (before, this) = (pair[0], pair[1]);
            if this <= before {
                let reason = format!("an entry at {this} does not come after the one at {before}");
                return wrong(Some(index), reason);
            }
            if this > Self::LONGEST {
                return wrong(Some(index), format!("{this} is more than 100 days"));
            }
        }
        if let (Some(repeat), Some(&last)) = (repeat, from.last()) {
            if repeat <= last {
                let reason =
                    format!("it repeats after {repeat}, and the last entry is at {last} only");
                return wrong(None, reason);
            }
            if repeat > Self::LONGEST {
                return wrong(None, format!("it repeats after {repeat}, more than 100 days"));
            }
        }
        Ok(Steps { from: from.into(), values: values.into(), repeat })
    }

    /// One value for ever.
    pub fn constant(value: T) -> Self {
        Steps { from: [Duration::ZERO].into(), values: [value].into(), repeat: None }
    }

    /// The value at this instant, and a time until which it does not change.
    pub fn segment(&self, time: Time) -> (T, Time) {
        let time = time.as_ps();
        let (begin, phase) = match self.repeat {
            Some(repeat) => (time - time % repeat.as_ps(), time % repeat.as_ps()),
            None => (0, time),
        };
        // The first is at zero: there is one.
        let next = self.from.partition_point(|from| from.as_ps() <= phase);
        let end = self.from.get(next).copied().or(self.repeat);
        let until = end.map_or(Time::NEVER, |end| Time::from_ps(begin) + end);
        (self.values[next - 1], until)
    }

    /// The value at that instant.
    pub fn at(&self, time: Time) -> T {
        self.segment(time).0
    }

    /// The value at the beginning.
    pub fn first(&self) -> T {
        self.values[0]
    }

    /// The same instants with other values.
    pub fn map<U>(&self, of: impl Fn(T) -> U) -> Steps<U> {
        let values = self.values.iter().map(|value| of(*value)).collect();
        Steps { from: self.from.clone(), values, repeat: self.repeat }
    }

    /// All values with the instants from which they hold.
    pub fn entries(&self) -> impl Iterator<Item = (Duration, T)> {
        self.from.iter().copied().zip(self.values.iter().copied())
    }

    /// The time after which it starts over.
    pub fn repeat(&self) -> Option<Duration> {
        self.repeat
    }

    /// Each value with the time for which it holds in a period; without a period only the last
    /// value, which holds for ever.
    pub fn lasting(&self) -> impl Iterator<Item = (T, Duration)> {
        let (first, end) = match self.repeat {
            Some(repeat) => (0, repeat),
            None => (self.from.len() - 1, Duration::MAX),
        };
        let ends = self.from[first + 1..].iter().copied().chain([end]);
        let rest = self.from[first..].iter().zip(&self.values[first..]);
        rest.zip(ends).map(|((from, value), end)| (*value, end - *from))
    }

    /// The maximum number of changes of the value within this time.
    pub fn changes(&self, duration: Duration) -> u64 {
        let entries = self.from.len() as u64;
        match self.repeat {
            None => entries - 1,
            Some(repeat) => entries.saturating_mul(duration.as_ps().div_ceil(repeat.as_ps())),
        }
    }
}

impl<T: Copy + PartialOrd> Steps<T> {
    /// True if no value follows a larger one.
    pub fn never_falls(&self) -> bool {
        let wraps = self.repeat.is_none() || self.values[0] >= self.values[self.values.len() - 1];
        wraps && self.values.windows(2).all(|pair| pair[1] >= pair[0])
    }
}

/// Shows its size; a million steps would be unreadable.
impl<T> std::fmt::Debug for Steps<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Steps({} entries", self.from.len())?;
        match self.repeat {
            Some(repeat) => write!(f, ", every {repeat})"),
            None => f.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(s: u64) -> Duration {
        Duration::from_secs(s)
    }
    fn at(time: u64) -> Time {
        Time::ZERO + s(time)
    }

    #[test]
    fn each_value_holds_until_the_next() {
        let steps = Steps::new(vec![(s(0), 'a'), (s(15), 'b')], None).unwrap();
        assert_eq!(steps.segment(at(0)), ('a', at(15)));
        assert_eq!(steps.segment(at(14)), ('a', at(15)));
        assert_eq!(steps.segment(at(15)), ('b', Time::NEVER));
        assert_eq!(steps.changes(s(1000)), 1);
        assert_eq!(steps.lasting().map(|(value, _)| value).collect::<Vec<_>>(), ['b']);
        assert!(steps.never_falls());
    }

    #[test]
    fn a_period_starts_over() {
        let steps = Steps::new(vec![(s(0), 'a'), (s(15), 'b')], Some(s(40))).unwrap();
        assert_eq!(steps.segment(at(39)), ('b', at(40)));
        assert_eq!(steps.segment(at(40)), ('a', at(55)));
        assert_eq!(steps.segment(at(135)), ('b', at(160)));
        assert_eq!(steps.lasting().collect::<Vec<_>>(), [('a', s(15)), ('b', s(25))]);
        // Three periods have begun in 100 s.
        assert_eq!(steps.changes(s(100)), 6);
        assert!(!steps.never_falls(), "it falls back to the first");
    }

    #[test]
    fn invalid_schedules() {
        let reason = |steps: &[(u64, u8)], repeat: Option<u64>| {
            let steps = steps.iter().map(|(at, value)| (s(*at), *value)).collect();
            let error = Steps::new(steps, repeat.map(s)).unwrap_err();
            (error.index, error.reason)
        };
        assert_eq!(reason(&[], None).0, None);
        assert_eq!(reason(&[(1, 0)], None).0, Some(0));
        assert_eq!(reason(&[(0, 0), (5, 1), (5, 2)], None).0, Some(2));
        assert_eq!(reason(&[(0, 0), (5, 1), (4, 2)], None).0, Some(2));
        assert_eq!(reason(&[(0, 0), (9_000_000, 1)], None).0, Some(1));
        assert!(reason(&[(0, 0), (5, 1)], Some(5)).1.contains("repeats after 5s"));
        assert!(reason(&[(0, 0)], Some(0)).1.contains("repeats after 0s"));
        assert!(reason(&[(0, 0)], Some(9_000_000)).1.contains("100 days"));
    }
}
