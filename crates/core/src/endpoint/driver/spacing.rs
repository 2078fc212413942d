//! Times between the datagrams of a connection, for stacks whose own pacer sends bursts.

use crate::units::{Duration, Time};

/// A datagram that has to wait for less than this goes at once: timers of a machine are not more
/// exact.
const GRANULARITY: Duration = Duration::from_micros(100);
/// Longest wait for one datagram, so that what waits behind it (an ACK, say) is not delayed for
/// longer than QUIC assumes (RFC 9000 section 18.2: max_ack_delay of 25 ms).
const MOST: Duration = Duration::from_millis(25);
/// Longest delay of a timer for which the next datagrams make up.
const LATENESS: Duration = Duration::from_millis(5);

/// The spacing of full datagrams at the pacing rate of [`Driver::pacing_rate`].
///
/// A connection that is idle or limited by its window saves nothing up: two datagrams never leave
/// at once because none left before. Only a datagram that waited, and left late because the timer
/// was, shortens the wait of the next.
///
/// [`Driver::pacing_rate`]: super::Driver::pacing_rate
#[derive(Debug, Clone, Copy, Default)]
pub struct Spacing {
    /// Earliest departure of the next datagram.
    next: Time,
    /// True if a datagram waits for it, or one that did left late.
    waits: bool,
}

impl Spacing {
    /// Size from which on a datagram counts as full, bytes: full ones have at least 1200 (RFC 9000
    /// section 14). Smaller ones, which carry acknowledgments, need no spacing.
    pub const FULL: usize = 1000;

    /// The time for which the next datagram must wait; `None` if it may leave now.
    pub fn wait(&mut self, now: Time) -> Option<Time> {
        if self.next <= now + GRANULARITY {
            return None;
        }
        self.waits = true;
        Some(self.next)
    }

    /// Handles the departure of so many bytes at a pacing rate in bytes per second.
    pub fn on_sent(&mut self, now: Time, bytes: usize, rate: u64) {
        let since = match self.waits {
            true => Time::from_ps(now.as_ps().saturating_sub(LATENESS.as_ps())),
            false => now,
        };
        let step = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64).min(MOST);
        self.next = self.next.max(since) + step;
        // Until it has made up.
        self.waits &= self.next <= now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(us: u64) -> Time {
        Time::from_ps(us * 1_000_000)
    }

    #[test]
    fn datagrams_leave_at_the_rate_and_not_faster_after_a_pause() {
        let mut spacing = Spacing::default();
        // 1500 bytes at 1.5 MB/s take 1 ms.
        let send = |spacing: &mut Spacing, now| spacing.on_sent(now, 1500, 1_500_000);
        assert_eq!(spacing.wait(us(0)), None);
        send(&mut spacing, us(0));
        assert_eq!(spacing.wait(us(300)), Some(us(1000)));
        assert_eq!(spacing.wait(us(950)), None, "within the granularity");
        send(&mut spacing, us(950));
        assert_eq!(spacing.wait(us(950)), Some(us(2000)), "and not earlier for that");
        // Nothing is saved up in 98 ms without a datagram to send.
        let mut spacing = Spacing::default();
        send(&mut spacing, us(0));
        assert_eq!(spacing.wait(us(100_000)), None);
        send(&mut spacing, us(100_000));
        assert_eq!(spacing.wait(us(100_000)), Some(us(101_000)));
    }

    #[test]
    fn late_timers_cost_no_rate() {
        // Each timer is 0.4 ms late: ten datagrams take ten times 1 ms and the last delay.
        let mut spacing = Spacing::default();
        let mut now = us(0);
        for _ in 0..11 {
            if let Some(at) = spacing.wait(now) {
                now = at + Duration::from_micros(400);
                assert_eq!(spacing.wait(now), None);
            }
            spacing.on_sent(now, 1500, 1_500_000);
        }
        assert_eq!(now, us(10_400));
        // A machine that stood still for 100 ms makes up for 5 of them.
        assert_eq!(spacing.wait(now), Some(us(11_000)));
        now = us(111_000);
        let mut burst = 0;
        while spacing.wait(now).is_none() {
            spacing.on_sent(now, 1500, 1_500_000);
            burst += 1;
        }
        assert_eq!(burst, 6);
    }

    #[test]
    fn no_datagram_waits_long() {
        let mut spacing = Spacing::default();
        spacing.on_sent(us(0), 1500, 0);
        assert_eq!(spacing.wait(us(0)), Some(us(25_000)));
    }
}
