//! Units at every boundary: [`Time`], [`Duration`], [`Rate`], [`Probability`].
//!
//! Time is counted in picoseconds: a 40-byte packet at 1 Tbit/s takes 320 ps, and a 64-bit count
//! still reaches 213 days. Arithmetic saturates, so that "never" is a value and time cannot run
//! backwards.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

mod parse;
pub use parse::{ParseUnitError, parse_bytes};

/// Picoseconds in one second.
const PS_PER_S: u64 = 1_000_000_000_000;

/// An instant of virtual time: picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

/// A length of time in picoseconds; never negative.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);
    /// Later than any event: a timer that is not set.
    pub const NEVER: Time = Time(u64::MAX);

    /// The instant `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Time(ps)
    }
    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// The instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Self {
        Time(ns.saturating_mul(1000))
    }
    /// Whole nanoseconds since the start, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1000
    }
    /// Seconds since the start, for reports and for formulas.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// Time passed since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// The same instant counted in whole ticks of a clock of the given granularity.
    /// A granularity of zero is an ideal clock: the instant itself.
    pub fn floor_to(self, granularity: Duration) -> Time {
        if granularity.0 == 0 { self } else { Time(self.0 - self.0 % granularity.0) }
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Duration = Duration(0);
    /// Longer than any run.
    pub const MAX: Duration = Duration(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Duration(ps)
    }
    /// `ns` nanoseconds, at most [`Duration::MAX`].
    pub const fn from_nanos(ns: u64) -> Self {
        Duration(ns.saturating_mul(1000))
    }
    /// Whole nanoseconds, rounded down.
    pub const fn as_nanos(self) -> u64 {
        self.0 / 1000
    }
    /// `us` microseconds, at most [`Duration::MAX`].
    pub const fn from_micros(us: u64) -> Self {
        Duration(us.saturating_mul(1_000_000))
    }
    /// `ms` milliseconds, at most [`Duration::MAX`].
    pub const fn from_millis(ms: u64) -> Self {
        Duration(ms.saturating_mul(1_000_000_000))
    }
    /// `s` seconds, at most [`Duration::MAX`].
    pub const fn from_secs(s: u64) -> Self {
        Duration(s.saturating_mul(PS_PER_S))
    }
    /// `s` seconds rounded to the nearest picosecond; negative and NaN become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        // A float-to-int cast saturates and maps NaN to zero.
        Duration((s * PS_PER_S as f64 + 0.5) as u64)
    }
    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }
    /// Seconds, for reports and for formulas.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / PS_PER_S as f64
    }
    /// This duration times a factor `>= 0`, saturating.
    pub fn mul_f64(self, factor: f64) -> Duration {
        Duration((self.0 as f64 * factor + 0.5) as u64)
    }
    /// This duration times a whole number, saturating.
    pub const fn saturating_mul(self, factor: u64) -> Duration {
        Duration(self.0.saturating_mul(factor))
    }
    /// True for zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// A real clock's durations count nanoseconds: exact, up to the 213 days that fit.
impl From<std::time::Duration> for Duration {
    fn from(duration: std::time::Duration) -> Self {
        Duration(u64::try_from(duration.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX))
    }
}
/// Rounded up to the nanosecond, so that a sleep of that length does not end too early.
impl From<Duration> for std::time::Duration {
    fn from(duration: Duration) -> Self {
        std::time::Duration::from_nanos(duration.0.div_ceil(1000))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        Time(self.0.saturating_add(d.0))
    }
}
impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Add for Duration {
    type Output = Duration;
    fn add(self, other: Duration) -> Duration {
        Duration(self.0.saturating_add(other.0))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, other: Duration) {
        *self = *self + other;
    }
}
impl Sub for Duration {
    type Output = Duration;
    fn sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::NEVER { write!(f, "never") } else { write!(f, "{}s", self.as_secs_f64()) }
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.as_secs_f64())
    }
}

/// A data rate in bits per second, at least one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rate(u64);

impl Rate {
    /// `bps` bits per second; a rate of zero is not a rate.
    pub const fn from_bps(bps: u64) -> Option<Self> {
        if bps == 0 { None } else { Some(Rate(bps)) }
    }
    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }
    /// Bytes per second.
    pub fn bytes_per_s(self) -> f64 {
        self.0 as f64 / 8.0
    }
    /// The time of a byte, if that is a whole number of picoseconds.
    pub const fn byte_time(self) -> Option<Duration> {
        let ps = 8 * PS_PER_S;
        if ps.is_multiple_of(self.0) { Some(Duration(ps / self.0)) } else { None }
    }
    /// The time that `bytes` take on a wire of this rate, rounded down to the picosecond.
    #[inline]
    pub fn transmission_time(self, bytes: u32) -> Duration {
        // A division by 64 bits is much faster, and wide enough for a packet.
        if let Some(bits) = (u64::from(bytes) * 8).checked_mul(PS_PER_S) {
            return Duration(bits / self.0);
        }
        let ps = u128::from(bytes) * 8 * u128::from(PS_PER_S) / u128::from(self.0);
        Duration(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

/// A probability, between 0 and 1 inclusive.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Probability(f64);

impl Probability {
    /// Impossible.
    pub const ZERO: Probability = Probability(0.0);
    /// Certain.
    pub const ONE: Probability = Probability(1.0);

    /// `p` as a probability, if it lies in `0..=1`.
    pub fn new(p: f64) -> Option<Self> {
        (0.0..=1.0).contains(&p).then_some(Probability(p))
    }
    /// The number itself.
    pub const fn get(self) -> f64 {
        self.0
    }
    /// The point between `from` and `to` in proportion to this probability; exactly `to` for one.
    #[inline]
    pub fn toward(self, from: f64, to: f64) -> f64 {
        if self.0 >= 1.0 { to } else { from + (to - from) * self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_times_by_hand() {
        // 1000 bytes at 5 Mbit/s: 8000 / 5e6 s = 1.6 ms.
        let five = Rate::from_bps(5_000_000).unwrap();
        assert_eq!(five.transmission_time(1000), Duration::from_micros(1600));
        // 40 bytes at 1 Tbit/s: 320 / 1e12 s = 320 ps.
        let tera = Rate::from_bps(1_000_000_000_000).unwrap();
        assert_eq!(tera.transmission_time(40), Duration::from_ps(320));
        // 1 bit/s: 8 s a byte; the largest packet takes about 1090 years and saturates.
        let slow = Rate::from_bps(1).unwrap();
        assert_eq!(slow.transmission_time(1), Duration::from_secs(8));
        assert_eq!(slow.transmission_time(u32::MAX), Duration::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO.since(Time::from_ps(5)), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::INFINITY), Duration::MAX);
    }

    #[test]
    fn real_clocks_and_back() {
        let std = std::time::Duration::new(1, 5);
        assert_eq!(Duration::from(std), Duration::from_ps(1_000_000_005_000));
        assert_eq!(std::time::Duration::from(Duration::from_nanos(1_000_000_005)), std);
        // A picosecond more is a nanosecond later.
        let later = Duration::from_ps(1_000_000_005_001);
        assert_eq!(std::time::Duration::from(later).subsec_nanos(), 6);
        assert_eq!(Duration::from(std::time::Duration::MAX), Duration::MAX);
        assert_eq!(Time::from_nanos(7).as_nanos(), 7);
    }

    #[test]
    fn certainty_goes_all_the_way() {
        // 0.1 + (0.7 - 0.1) is 0.7 only by luck of rounding.
        assert_eq!(Probability::ONE.toward(0.1, 0.7), 0.7);
        assert_eq!(Probability::ZERO.toward(0.1, 0.7), 0.1);
        assert_eq!(Probability(0.5).toward(1.0, 2.0), 1.5);
    }

    #[test]
    fn seconds_are_rounded_once() {
        // 0.1 s as a product with 1e-12 would be 0.09999999999999999.
        assert_eq!(Duration::from_millis(100).as_secs_f64(), 0.1);
        assert_eq!((Time::ZERO + Duration::from_millis(100)).as_secs_f64(), 0.1);
    }

    #[test]
    fn clock_ticks_round_down() {
        let t = Time::ZERO + Duration::from_millis(37);
        assert_eq!(t.floor_to(Duration::from_millis(10)), Time::ZERO + Duration::from_millis(30));
        assert_eq!(t.floor_to(Duration::ZERO), t);
    }
}
