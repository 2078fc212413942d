//! Outages of a link.

use std::sync::Arc;

use super::Steps;
use crate::network::TraceError;
use crate::units::{Duration, Time};

/// Outages of a link, and their effect on packets.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OutageConfig {
    /// The times of the outages.
    pub when: Arc<Outages>,
    /// The effect on packets.
    pub during: During,
}

/// The effect of an outage on packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum During {
    /// The sending end detects the outage and sends nothing. Packets wait in the queue, and a
    /// packet being sent continues after the outage.
    #[default]
    Hold,
    /// The sending end does not detect it: packets on the wire during the outage are destroyed.
    Drop,
}

/// Times without a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outages(Steps<bool>);

impl Outages {
    /// Outages at these instants and of these lengths, repeated after `repeat`.
    ///
    /// # Errors
    /// If there are none, one has no length, begins before the one before has ended or ends after
    /// 100 days, or all is repeated before the last has ended, after 100 days, or without any time
    /// between.
    pub fn new(
        list: &[(Duration, Duration)],
        repeat: Option<Duration>,
    ) -> Result<Self, TraceError> {
        let wrong = |index, reason| Err(TraceError { index, reason });
        let mut steps = Vec::with_capacity(2 * list.len() + 1);
        let mut end = Duration::ZERO;
        for (index, &(at, length)) in list.iter().enumerate() {
            if length.is_zero() {
                return wrong(Some(index), format!("the outage at {at} has no length"));
            }
            if at < end {
                let reason =
                    format!("the outage at {at} begins before the one before has ended, at {end}");
                return wrong(Some(index), reason);
            }
            let next = at + length;
            if next > Steps::<bool>::LONGEST {
                let reason = format!("the outage at {at} ends more than 100 days after the start");
                return wrong(Some(index), reason);
            }
            if at > end || steps.is_empty() {
                if !at.is_zero() {
                    // Up from the start, or since the last one ended.
                    steps.push((end, false));
                }
                steps.push((at, true));
            }
            end = next;
        }
        if list.is_empty() {
            return wrong(None, "there is no outage at all".to_owned());
        }
        match repeat {
            Some(repeat) if repeat < end => {
                let reason =
                    format!("it repeats after {repeat}, and the last outage ends at {end}");
                return wrong(None, reason);
            }
            Some(repeat) if repeat == end && steps.len() == 1 => {
                return wrong(None, "there is no time without an outage".to_owned());
            }
            Some(repeat) if repeat == end => {}
            _ => steps.push((end, false)),
        }
        Ok(Outages(Steps::new(steps, repeat)?))
    }

    /// Whether there is an outage at this instant, and a time until which that does not change.
    pub fn segment(&self, time: Time) -> (bool, Time) {
        self.0.segment(time)
    }

    /// True if there is an outage at `start`, or at some time before `end`.
    pub fn overlap(&self, start: Time, end: Time) -> bool {
        let mut at = start;
        loop {
            let (out, until) = self.segment(at);
            if out || until >= end {
                return out;
            }
            at = until;
        }
    }

    /// The maximum number of changes within this time.
    pub fn changes(&self, duration: Duration) -> u64 {
        self.0.changes(duration)
    }

    /// The share of the time up to `duration` in which there is an outage.
    pub fn share(&self, duration: Duration) -> f64 {
        let end = Time::ZERO + duration;
        let (mut at, mut sum) = (Time::ZERO, Duration::ZERO);
        while at < end {
            let (out, until) = self.segment(at);
            let until = until.min(end);
            if out {
                sum += until.since(at);
            }
            at = until;
        }
        sum.as_secs_f64() / duration.as_secs_f64()
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
    fn outages(list: &[(u64, u64)], repeat: Option<u64>) -> Result<Outages, TraceError> {
        let list: Vec<_> = list.iter().map(|(at, length)| (s(*at), s(*length))).collect();
        Outages::new(&list, repeat.map(s))
    }

    #[test]
    fn outages_begin_and_end() {
        let twice = outages(&[(20, 1), (40, 5)], None).unwrap();
        assert_eq!(twice.segment(at(0)), (false, at(20)));
        assert_eq!(twice.segment(at(20)), (true, at(21)));
        assert_eq!(twice.segment(at(21)), (false, at(40)));
        assert_eq!(twice.segment(at(45)), (false, Time::NEVER));
        assert!(!twice.overlap(at(10), at(20)) && twice.overlap(at(10), at(21)));
        assert!(twice.overlap(at(20), at(20)) && !twice.overlap(at(21), at(21)));
        assert!((twice.share(s(60)) - 0.1).abs() < 1e-12);
        // At the start, touching, and up to the end of the period.
        let always = outages(&[(0, 2), (2, 1), (8, 2)], Some(10)).unwrap();
        assert_eq!(always.segment(at(1)), (true, at(3)));
        assert_eq!(always.segment(at(3)), (false, at(8)));
        assert_eq!(always.segment(at(9)), (true, at(10)));
        assert_eq!(always.segment(at(10)), (true, at(13)));
        assert!((always.share(s(20)) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn invalid_lists_of_outages() {
        let reason = |list: &[(u64, u64)], repeat| outages(list, repeat).unwrap_err().to_string();
        assert!(reason(&[], None).contains("no outage at all"));
        assert!(reason(&[(5, 0)], None).contains("no length"));
        assert!(reason(&[(5, 3), (7, 1)], None).starts_with("line 2"));
        assert!(reason(&[(5, 3)], Some(7)).contains("the last outage ends at 8s"));
        assert!(reason(&[(0, 5)], Some(5)).contains("no time without"));
        assert!(reason(&[(0, 2), (2, 3)], Some(5)).contains("no time without"));
        assert!(reason(&[(5, 9_000_000)], None).contains("100 days"));
        assert!(reason(&[(5, 1)], Some(9_000_000)).contains("100 days"));
    }
}
