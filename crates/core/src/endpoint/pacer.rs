//! Pacing: packets leave no faster than a rate (RFC 9002 section 7.7; draft-ietf-ccwg-bbr-06,
//! section "Pacing Rate").

use crate::units::{Duration, Time};

/// The pacing rate over cwnd per round trip, for controllers without a rate of their own (RFC 9002
/// section 7.7: N = 1.25), so that pacing does not keep them from filling cwnd.
pub(super) const WINDOW_GAIN: f64 = 1.25;

/// The longest lateness of a real clock's timer that is compensated by sending at once: longer than
/// the usual lateness of a loaded machine, and too short for a large burst.
const CREDIT: Duration = Duration::from_millis(10);

/// The time at which the next packet may leave.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pacer {
    next_send: Time,
    /// The rate of the latest packet, and the gap to the next at that rate: most packets leave at
    /// the rate of the one before.
    rate: f64,
    gap: Duration,
    /// True if a packet was asked for too early.
    waiting: bool,
    /// True if a packet that waited left after its time and those after it have not caught up.
    /// Never in virtual time, where no timer is late.
    late: bool,
}

impl Pacer {
    /// True if the next packet must wait.
    #[inline]
    pub(super) fn holds_back(&mut self, now: Time) -> bool {
        let due = self.waiting && now >= self.next_send;
        self.waiting = now < self.next_send;
        self.late = !self.waiting && (self.late || due);
        self.waiting
    }

    /// Records that no packet waits for its time.
    pub(super) fn clear(&mut self) {
        self.waiting = false;
        self.late = false;
    }

    /// Handles the expiry of a timer of the sender.
    pub(super) fn on_timer(&mut self, now: Time) {
        let due = self.waiting && now >= self.next_send;
        self.late |= due;
        self.waiting &= !due;
    }

    /// Records that a packet left; `rate` in packets per second, `None` without a limit.
    pub(super) fn on_sent(&mut self, now: Time, rate: Option<f64>) {
        let rate = rate.unwrap_or(0.0);
        if rate != self.rate {
            self.rate = rate;
            self.gap =
                if rate > 0.0 { Duration::from_secs_f64(1.0 / rate) } else { Duration::ZERO };
        }
        // A late sender counts from the time at which the packet should have left; an idle sender
        // gets no credit.
        let credit = if self.late { CREDIT } else { Duration::ZERO };
        let earliest = Time::ZERO + now.since(Time::ZERO + credit);
        self.next_send = self.next_send.max(earliest) + self.gap;
    }

    /// The time of the next attempt.
    #[inline]
    pub(super) fn wake(&self) -> Time {
        if self.waiting { self.next_send } else { Time::NEVER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Duration::from_micros(us)
    }

    /// Packets that leave up to `end` from a pacer of 1000 packets a second that is asked at these
    /// microseconds and always has something to send.
    fn sent(asked: impl IntoIterator<Item = u64>) -> u64 {
        let mut pacer = Pacer::default();
        let mut sent = 0;
        for us in asked {
            pacer.on_timer(at(us));
            while !pacer.holds_back(at(us)) {
                pacer.on_sent(at(us), Some(1000.0));
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn lateness_costs_no_rate() {
        // A packet per millisecond from 0 on: 1001 in a second, asked in time or 700 us late each
        // time.
        assert_eq!(sent((0..=1000).map(|ms| 1000 * ms)), 1001);
        assert_eq!(sent((0..=1000).map(|ms| 1000 * ms + 700 * u64::from(ms > 0))), 1001);
        // Asked every 2.5 ms: two or three at a time.
        assert_eq!(sent((0..=400).map(|n| 2500 * n)), 1001);
    }

    #[test]
    fn the_credit_is_bounded() {
        // Asked at 0, and then after 100 ms: what 10 ms allow, packets 90 to 100 of the schedule.
        assert_eq!(sent([0, 100_000]), 1 + 11);
    }

    #[test]
    fn idleness_saves_nothing() {
        let mut pacer = Pacer::default();
        pacer.on_sent(at(0), Some(1000.0));
        // No packet was requested while the next could not leave: none waited.
        assert!(!pacer.holds_back(at(50_000)));
        pacer.on_sent(at(50_000), Some(1000.0));
        assert!(pacer.holds_back(at(50_000)));
        // A packet that waits and is then withdrawn leaves no credit either.
        pacer.clear();
        assert!(!pacer.holds_back(at(90_000)));
        pacer.on_sent(at(90_000), Some(1000.0));
        assert!(pacer.holds_back(at(90_000)));
    }
}
