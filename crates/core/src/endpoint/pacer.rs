//! Pacing: packets leave no faster than a rate (RFC 9002 section 7.7; draft-ietf-ccwg-bbr-06,
//! section "Pacing Rate").

use crate::units::{Duration, Time};

/// How much faster than cwnd per round trip a window law without a rate of its own is paced
/// (RFC 9002 section 7.7: N = 1.25), so that pacing does not keep it from filling cwnd.
pub(super) const WINDOW_GAIN: f64 = 1.25;

/// When the next packet may leave.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pacer {
    next_send: Time,
    /// Was a packet asked for too early?
    waiting: bool,
}

impl Pacer {
    /// Must what could be sent now wait?
    #[inline]
    pub(super) fn holds_back(&mut self, now: Time) -> bool {
        self.waiting = now < self.next_send;
        self.waiting
    }

    /// Nothing waits for its time.
    pub(super) fn clear(&mut self) {
        self.waiting = false;
    }

    /// A timer of the sender expired.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.waiting &= now < self.next_send;
    }

    /// A packet left, at a rate of that many packets per second; none is no limit.
    pub(super) fn on_sent(&mut self, now: Time, rate: Option<f64>) {
        let gap = match rate {
            Some(rate) if rate > 0.0 => Duration::from_secs_f64(1.0 / rate),
            _ => Duration::ZERO,
        };
        self.next_send = self.next_send.max(now) + gap;
    }

    /// When to ask again.
    #[inline]
    pub(super) fn wake(&self) -> Time {
        if self.waiting { self.next_send } else { Time::NEVER }
    }
}
