//! Limits on a sender, for any protocol and any parameters.
//!
//! Between hosts the client chooses the parameters of a protocol, and a congestion controller may
//! ignore losses altogether. The guard is between the sender and its outbox and does not depend on
//! the controller:
//!
//! - **Proof.** Each acknowledgment echoes the number and the time stamp (in picoseconds) of a
//!   transmission. One that echoes no transmission is ignored, so that a peer that does not receive
//!   cannot send optimistic acknowledgments (Savage et al., CCR 29(5), 1999, section 2.3). One that
//!   echoes a transmission for the first time and acknowledges data that was not acknowledged
//!   before *advances*.
//! - **Before the first advance** a server sends an initial window (RFC 6928) in all.
//! - **Flight.** Transmissions since the latest one that was echoed are at most the initial window
//!   and 16 for each advance so far, up to the largest window. Slow start doubles, and asks for
//!   less than a quarter of that even if half of the packets and half of the acknowledgments are
//!   lost.
//! - **Silence.** Without an advance for two retransmission timeouts, and one second at least, two
//!   packets leave by an interval that doubles.
//! - **Circuit breaker** (RFC 8084, RFC 8085 section 3.1.10). The connection is given up after a
//!   silence of [`PATIENCE`] or four timeouts, [`MAX_SILENCE`] at most; a server's also if for
//!   three periods of five seconds less than one packet in twenty is acknowledged.

use std::collections::VecDeque;

use windward_core::endpoint::RangeSet;
use windward_core::packet::{Packet, SackBlock};
use windward_core::units::{Duration, Rate, Time};

use super::plan::{MAX_RWND, Plan};
use super::{MAX_SILENCE, PATIENCE};

/// Transmissions that each advance allows beyond the latest echoed one.
const GROWTH: u64 = 16;
/// Packets per interval of silence (RFC 9002 section 6.2.4: one or two per probe timeout).
const PROBES: u64 = 2;
/// The shortest silence after which packets leave one by one.
const LEAST_SILENCE: Duration = Duration::from_secs(1);
/// Time between two timers while nothing advances.
const LEAST_TIMER: Duration = Duration::from_millis(1);
/// Distance below the latest echoed transmission within which others may be echoed.
const REORDERING: u64 = 8192;
/// Periods over which losses are counted, and how many of them in a row end a connection.
const PERIOD: Duration = Duration::from_secs(5);
const BAD_PERIODS: u32 = 3;
/// Least number of packets for which a period counts, and the number of packets of which one must
/// be acknowledged.
const MEANS_SOMETHING: u64 = 100;
const ONE_IN: u64 = 20;
/// Largest burst under a limit of the rate, as time at that rate.
const BURST: Duration = Duration::from_millis(10);

/// Limits that the operator of a server sets on requests of clients.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Least value of `rto_floor` and `rto_initial`.
    pub min_rto: Duration,
    /// Packets in all before the first one is acknowledged, and the largest `initial_window`.
    pub initial_window: u64,
    /// Largest window of a controller before the first ACK, packets; it concerns fixed windows.
    pub fixed_window: u64,
    /// Largest number of packets in flight, for each connection.
    pub window: u64,
    /// Rate of all connections together, bits per second, with the headers of UDP and IP; `None`
    /// for no limit.
    pub rate: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            min_rto: Duration::from_millis(200),
            initial_window: 10,
            fixed_window: 1000,
            window: MAX_RWND,
            rate: None,
        }
    }
}

impl Limits {
    /// Checks the plan of a client for data from the server; `first` is the initial window of its
    /// controller.
    ///
    /// # Errors
    /// The exceeded limit, as text.
    pub(super) fn check(&self, plan: &Plan, first: f64) -> Result<(), String> {
        let config = &*plan.config;
        for (key, value) in [("rto_floor", config.rto_floor), ("rto_initial", config.rto_initial)] {
            if value < self.min_rto {
                let least = self.min_rto;
                return Err(format!(
                    "{key} = {value}: the minimum of this server is {least} (--min-rto)"
                ));
            }
        }
        let most = self.initial_window;
        if config.initial_window > most as f64 {
            let asked = config.initial_window;
            return Err(format!(
                "initial_window = {asked}: the maximum of this server is {most} (--max-initial-window)"
            ));
        }
        let most = self.fixed_window.max(self.initial_window);
        if first.min(config.rwnd as f64) > most as f64 {
            return Err(format!(
                "an initial window of {first} packets: the maximum of this server is {most} (--max-fixed-window)"
            ));
        }
        Ok(())
    }
}

/// Reason why a connection is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Nothing new was acknowledged, or arrived, for too long.
    Silence,
    /// Less than one packet in twenty is acknowledged.
    Losses,
    /// It exceeded its announced length.
    TooLong,
    /// It made no progress, and its place was needed.
    Displaced,
}

/// Transmissions, by number, with the time stamp that an acknowledgment must echo.
#[derive(Debug, Default)]
struct Echoes {
    /// Number of the first transmission.
    first: u64,
    /// Twice the time stamp, picoseconds, and one if it has been echoed.
    stamps: VecDeque<u64>,
    /// The highest transmission so far, and the highest that was echoed.
    newest: u64,
    echoed: u64,
}

impl Echoes {
    fn sent(&mut self, number: u64, timestamp: Time) {
        let stamp = timestamp.as_ps() << 1;
        if self.stamps.is_empty() {
            self.first = number;
        }
        match self.stamps.get_mut(number.wrapping_sub(self.first) as usize) {
            Some(known) => *known = stamp,
            None => self.stamps.push_back(stamp),
        }
    }

    /// Position of the transmission that this acknowledgment echoes.
    fn find(&self, ack: &Packet) -> Option<usize> {
        let at = usize::try_from(ack.packet_seq.checked_sub(self.first)?).ok()?;
        let stamp = ack.timestamp.as_ps().checked_mul(2)?;
        if *self.stamps.get(at)? & !1 == stamp {
            return Some(at);
        }
        // A delayed acknowledgment has the number of the packet that it waited for, and the time
        // stamp of the one that waited.
        let earlier = self.stamps.partition_point(|known| known & !1 <= stamp).checked_sub(1)?;
        (earlier < at && self.stamps[earlier] & !1 == stamp).then_some(earlier)
    }

    /// Notes an echo. Returns the number of the transmission, and whether this is its first echo.
    fn mark(&mut self, at: usize) -> (u64, bool) {
        let number = self.first + at as u64;
        let stamp = &mut self.stamps[at];
        let is_first = *stamp & 1 == 0;
        *stamp |= 1;
        (number, is_first)
    }

    fn forget_below(&mut self, number: u64) {
        while self.first < number && self.stamps.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// Guard of a sender. Times are those of the connection, which begin at its start.
#[derive(Debug)]
pub(super) struct Guard {
    echoes: Echoes,
    /// Number of advances, and the time of the latest.
    advances: u64,
    advanced: Time,
    una: u64,
    /// Arrivals above that, as far as they triggered ACKs.
    beyond: RangeSet,
    /// Limits on packets before the first advance, and in flight.
    initial: u64,
    /// The same in bytes: larger packets are fewer, and at least one.
    initial_bytes: u64,
    window: u64,
    silence: Silence,
    /// Time at which the limit of the rate, or the next probe, lets a packet pass.
    wake: Time,
    ticked: Time,
    losses: Losses,
    rate: RateLimit,
}

/// Probing of a peer that has become silent.
#[derive(Debug)]
struct Silence {
    /// Silence after which packets leave one by one; later, the time between two probes.
    quiet: Duration,
    is_silent: bool,
    probes: u64,
    probe_at: Time,
}

/// Losses of the current period.
#[derive(Debug)]
struct Losses {
    /// End of the period.
    until: Time,
    sent: u64,
    acknowledged: u64,
    /// Number of bad periods in a row before it.
    bad: u32,
}

/// Limit on the rate.
#[derive(Debug)]
struct RateLimit {
    /// Bytes per second, if there is a limit.
    rate: Option<f64>,
    /// Bytes that may leave, and the time of this value.
    credit: f64,
    credited: Time,
}

impl RateLimit {
    /// Number of packets of `size` bytes that may leave now, and the time of the next one if there
    /// is no room.
    fn room(&mut self, now: Time, size: f64, rate: f64) -> (u64, Option<Time>) {
        let most = (rate * BURST.as_secs_f64()).max(2.0 * size);
        let passed = now.since(self.credited).as_secs_f64();
        self.credit = (self.credit + rate * passed).min(most);
        self.credited = now;
        let wake = (self.credit < size).then(|| {
            let wait = Duration::from_secs_f64((size - self.credit) / rate);
            now + wait.max(Duration::from_micros(1))
        });
        ((self.credit / size) as u64, wake)
    }
}

impl Guard {
    /// Guard of a sender whose host has chosen the parameters.
    pub(super) fn new() -> Self {
        Guard {
            echoes: Echoes::default(),
            advances: 0,
            advanced: Time::ZERO,
            una: 0,
            beyond: RangeSet::default(),
            initial: u64::MAX / 2,
            initial_bytes: u64::MAX,
            window: u64::MAX / 2,
            silence: Silence {
                quiet: LEAST_SILENCE,
                is_silent: false,
                probes: 0,
                probe_at: Time::NEVER,
            },
            wake: Time::NEVER,
            ticked: Time::ZERO,
            losses: Losses { until: Time::ZERO + PERIOD, sent: 0, acknowledged: 0, bad: 0 },
            rate: RateLimit { rate: None, credit: 0.0, credited: Time::ZERO },
        }
    }

    /// Sets the limits of a server.
    pub(super) fn limit(&mut self, limits: &Limits) {
        self.initial = limits.initial_window;
        self.initial_bytes = self.initial.saturating_mul(1500);
        self.window = limits.window;
    }

    /// Sets the limit of the rate, bytes per second.
    pub(super) fn set_rate(&mut self, rate: Option<f64>) {
        self.rate.rate = rate;
    }

    /// True if something has been acknowledged.
    pub(super) fn is_proven(&self) -> bool {
        self.advances > 0
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silence.is_silent
    }

    pub(super) fn advanced(&self) -> Time {
        self.advanced
    }

    pub(super) fn newest(&self) -> u64 {
        self.echoes.newest
    }

    /// Number of packets of `size` bytes on the wire that the guard lets leave now.
    pub(super) fn room(&mut self, now: Time, size: u32, rto: Duration) -> u64 {
        self.wake = Time::NEVER;
        let mut room = match self.advances {
            0 => {
                let most = self.initial.min((self.initial_bytes / u64::from(size)).max(1));
                most.saturating_sub(self.echoes.newest)
            }
            advances => {
                let most = self.initial.saturating_add(GROWTH.saturating_mul(advances));
                most.min(self.window).saturating_sub(self.echoes.newest - self.echoes.echoed)
            }
        };
        let Silence { quiet, is_silent, probes, probe_at } = &mut self.silence;
        if !*is_silent && now.since(self.advanced) >= (*quiet).max(rto.saturating_mul(2)) {
            *is_silent = true;
            *quiet = now.since(self.advanced);
            *probe_at = now;
        }
        if *is_silent {
            if now >= *probe_at {
                *probes = PROBES;
                *probe_at = now + *quiet;
                *quiet = quiet.saturating_mul(2);
            }
            // After a second of silence, the packets in flight have left the path.
            let is_proven = self.advances > 0;
            room = if is_proven { *probes } else { room.min(*probes) };
            if room == 0 && is_proven {
                self.wake = *probe_at;
            }
        }
        if let Some(rate) = self.rate.rate
            && room > 0
        {
            let (most, wake) = self.rate.room(now, f64::from(size), rate);
            self.wake = wake.unwrap_or(self.wake);
            room = room.min(most);
        }
        room
    }

    /// Notes a transmission.
    pub(super) fn on_sent(&mut self, packet: &Packet) {
        self.echoes.sent(packet.packet_seq, packet.timestamp);
        self.echoes.newest = self.echoes.newest.max(packet.packet_seq);
        self.losses.sent += 1;
        self.silence.probes = self.silence.probes.saturating_sub(1);
        if self.rate.rate.is_some() {
            self.rate.credit -= f64::from(packet.size);
        }
    }

    /// Position of the transmission that an acknowledgment echoes, if there is one.
    pub(super) fn find(&self, ack: &Packet) -> Option<usize> {
        self.echoes.find(ack)
    }

    /// Notes an acknowledgment that echoes the transmission at `at`; everything below `una` is now
    /// acknowledged.
    pub(super) fn on_ack(&mut self, now: Time, at: usize, ack: &Packet, una: u64) {
        let (number, is_first) = self.echoes.mark(at);
        if number > self.echoes.echoed {
            self.echoes.echoed = number;
            self.echoes.forget_below(number.saturating_sub(REORDERING));
        }
        let newly = una.saturating_sub(self.una);
        let seq = ack.trigger_seq;
        let mut is_new = newly > 0;
        if newly > 0 {
            self.una = una;
            if !self.beyond.is_empty() {
                self.beyond.remove_below(una);
            }
        }
        if seq >= una && self.beyond.range_of(seq).is_none() {
            self.beyond.insert(SackBlock { start: seq, end: seq + 1 }, 0);
            is_new = true;
        }
        if !is_first || !is_new {
            return;
        }
        self.advances += 1;
        self.advanced = now;
        self.losses.acknowledged += newly.max(1);
        self.silence.is_silent = false;
        self.silence.quiet = LEAST_SILENCE;
    }

    /// The timer of the sender, held back while nothing advances, or when the guard itself lets
    /// something pass.
    pub(super) fn timer(&self, timer: Time) -> Time {
        let held = if self.advances == 0 || self.silence.is_silent {
            timer.max(self.ticked + LEAST_TIMER)
        } else {
            timer
        };
        held.min(self.wake)
    }

    /// Handles a timer that is due.
    pub(super) fn on_timer(&mut self, now: Time) {
        self.ticked = now;
        self.wake = Time::NEVER;
    }

    /// Time at which silence ends the connection, unless something advances before.
    pub(super) fn end(&self, rto: Duration) -> Time {
        let patience = match self.advances {
            0 => PATIENCE,
            _ => PATIENCE.max(rto.saturating_mul(4)).min(MAX_SILENCE),
        };
        self.advanced + patience
    }

    /// Returns true if losses end the connection. To be called from time to time.
    pub(super) fn breaks(&mut self, now: Time) -> bool {
        let Losses { until, sent, acknowledged, bad } = &mut self.losses;
        if now >= *until {
            let is_bad = *sent >= MEANS_SOMETHING && *acknowledged * ONE_IN < *sent;
            *bad = if is_bad { *bad + 1 } else { 0 };
            (*sent, *acknowledged, *until) = (0, 0, now + PERIOD);
        }
        *bad >= BAD_PERIODS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn send(guard: &mut Guard, now: Time, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let packet =
                Packet { packet_seq: number, timestamp: now, size: 1000, ..Packet::default() };
            guard.on_sent(&packet);
        }
    }

    fn ack(number: u64, seq: u64, timestamp: Time) -> Packet {
        let trigger_seq = seq.saturating_sub(1);
        Packet { packet_seq: number, seq, trigger_seq, timestamp, ..Packet::default() }
    }

    #[test]
    fn only_the_first_echo_of_a_transmission_that_acknowledges_something_new_advances() {
        let mut guard = Guard::new();
        guard.limit(&Limits::default());
        send(&mut guard, at(1), 1..3);
        send(&mut guard, at(2), 3..4);
        // A wrong time, a transmission still to come, number zero, and a later packet than the one
        // of that time.
        for forged in [ack(1, 1, at(3)), ack(4, 1, at(2)), ack(0, 1, at(1)), ack(1, 1, at(2))] {
            assert_eq!(guard.find(&forged), None, "{forged:?}");
        }
        // The third was sent at 2 ms; a delayed acknowledgment may have the time of one before it.
        assert_eq!(guard.find(&ack(3, 1, at(1))), Some(1));
        let first = ack(1, 1, at(1));
        let found = guard.find(&first).expect("an echo");
        guard.on_ack(at(10), found, &first, 1);
        assert_eq!((guard.advances, guard.advanced), (1, at(10)));
        // The same echo again, with more: it is known, and no sign of life.
        guard.on_ack(at(20), found, &ack(1, 3, at(1)), 3);
        // Another echo, with nothing new.
        let second = ack(2, 3, at(1));
        guard.on_ack(at(30), guard.find(&second).expect("an echo"), &second, 3);
        assert_eq!((guard.advances, guard.advanced), (1, at(10)));
        // Another, of a packet beyond a gap: selectively.
        let third = Packet { trigger_seq: 7, ..ack(3, 3, at(2)) };
        guard.on_ack(at(40), guard.find(&third).expect("an echo"), &third, 3);
        assert_eq!((guard.advances, guard.advanced), (2, at(40)));
    }

    #[test]
    fn silence_leaves_two_packets_by_an_interval_that_doubles() {
        let mut guard = Guard::new();
        guard.limit(&Limits::default());
        let rto = Duration::from_millis(200);
        send(&mut guard, at(0), 1..2);
        let first = ack(1, 1, at(0));
        guard.on_ack(at(100), 0, &first, 1);
        // The initial window and 16 for the advance.
        assert_eq!(guard.room(at(100), 1000, rto), 26);
        send(&mut guard, at(100), 2..28);
        assert_eq!(guard.room(at(1000), 1000, rto), 0);
        // From a second after the advance on: 1, 1 + 1, 1 + 1 + 2, 1 + 1 + 2 + 4 s.
        let (mut number, mut left) = (28, Vec::new());
        for ms in (100..=10_100).step_by(100) {
            let room = guard.room(at(ms), 1000, rto);
            send(&mut guard, at(ms), number..number + room);
            number += room;
            if room > 0 {
                left.push((ms, room));
            }
        }
        assert_eq!(left, [(1100, 2), (2100, 2), (4100, 2), (8100, 2)]);
        assert_eq!(guard.end(rto), at(15_100));
        // 4 x 6 s; 4 x 600 s are more than it waits.
        assert_eq!(guard.end(Duration::from_secs(6)), at(24_100));
        assert_eq!(guard.end(Duration::from_secs(600)), at(240_100));
    }

    #[test]
    fn fifteen_seconds_with_less_than_one_packet_in_twenty_are_enough() {
        let run = |one_in: u64| {
            let mut guard = Guard::new();
            (1..=4000u64).find(|number| {
                let now = at(10 * number);
                send(&mut guard, now, *number..number + 1);
                if number % one_in == 0 {
                    let ack = ack(*number, number / one_in, now);
                    guard.on_ack(now, guard.find(&ack).expect("an echo"), &ack, number / one_in);
                }
                guard.breaks(now)
            })
        };
        // 500 packets a period; one in 19 is enough, one in 25 is not.
        assert_eq!((run(2), run(10), run(19)), (None, None, None));
        assert_eq!(run(25), Some(1500));
    }

    #[test]
    fn a_rate_is_kept() {
        let mut guard = Guard::new();
        guard.set_rate(Some(100_000.0));
        let mut number = 1;
        for ms in 0..=1000 {
            let room = guard.room(at(ms), 1000, Duration::from_secs(60));
            send(&mut guard, at(ms), number..number + room);
            number += room;
            assert!(room > 0 || guard.wake <= at(ms + 10), "{ms}");
        }
        // 100 kB in a second, and two packets at once.
        assert!((100..=102).contains(&(number - 1)), "{number}");
    }
}
