//! The rate of a wire that changes: a list of delivery opportunities, in the format and with the
//! semantics of mahimahi's `mm-link` (Netravali et al., USENIX ATC 2015).
//!
//! A trace has one time stamp per line, in whole milliseconds and in order. At each the link may
//! deliver 1500 bytes. The trace starts over after its last time stamp, which is its period. One
//! opportunity may finish several small packets and begin another, whose remaining bytes wait for
//! the next. An opportunity without a packet is lost.
//!
//! As in mahimahi, an opportunity serves packets that arrived before it: a packet that arrives at
//! the same instant waits for the next. Unlike there, packets may have more than 1500 bytes, and
//! the next packet to leave counts as in transmission and not as waiting, as on every link here.

use std::fmt;
use std::sync::Arc;

use super::cell::CellConfig;
use super::impairment::Steps;
use super::trace_error::TraceError;
use crate::units::{Duration, Rate, Time};

/// Picoseconds in a millisecond.
const PS_PER_MS: u64 = 1_000_000_000;
/// The highest mean rate, as for constant rates.
const HIGHEST_BPS: u64 = 100_000_000_000_000;

/// The rate of a wire.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LinkRate {
    /// A constant rate.
    Constant(Rate),
    /// The rate of a trace.
    Trace(Arc<RateTrace>),
    /// The rate of a schedule. A packet in transmission when the rate changes continues at the new
    /// rate.
    Schedule(Arc<RateSteps>),
    /// The rate of a user in a cell of a mobile network, drawn at random for each run.
    Cell(Arc<CellConfig>),
}

/// Rates over time.
pub type RateSteps = Steps<Rate>;

impl LinkRate {
    /// The long-term rate: the mean of a trace or of a cell, the mean over the period of a
    /// schedule, or the last rate of a schedule without a period. It determines the slowest link.
    pub fn mean(&self) -> Rate {
        match self {
            LinkRate::Constant(rate) => *rate,
            LinkRate::Trace(trace) => trace.mean(),
            LinkRate::Schedule(steps) => steps.mean(),
            LinkRate::Cell(cell) => cell.mean(),
        }
    }

    /// The initial rate for AQMs and routers: the mean of a trace, which does not change for them,
    /// the mean of a cell, or the first rate of a schedule, whose changes they receive.
    pub fn told(&self) -> Rate {
        match self {
            LinkRate::Schedule(steps) => steps.first(),
            rate => rate.mean(),
        }
    }

    /// Constant and scheduled rates, at least 1 bit/s, and the bandwidth of a cell, times a factor;
    /// a trace as it is.
    pub fn scaled(&self, factor: f64) -> LinkRate {
        let scaled = |rate: Rate| {
            let bps = (rate.as_bps() as f64 * factor).round() as u64;
            Rate::from_bps(bps.max(1)).unwrap_or(rate)
        };
        match self {
            LinkRate::Constant(rate) => scaled(*rate).into(),
            LinkRate::Schedule(steps) => steps.map(scaled).into(),
            LinkRate::Cell(cell) => LinkRate::Cell(Arc::new(CellConfig {
                bandwidth: (cell.bandwidth * factor).min(CellConfig::MOST_BANDWIDTH),
                ..(**cell).clone()
            })),
            LinkRate::Trace(_) => self.clone(),
        }
    }

    /// Bytes that can be sent in `time` from the start.
    pub fn bytes_until(&self, duration: Duration) -> f64 {
        match self {
            LinkRate::Schedule(steps) => {
                let end = Time::ZERO + duration;
                let (mut at, mut bytes) = (Time::ZERO, 0.0);
                while at < end {
                    let (rate, until) = steps.segment(at);
                    let until = until.min(end);
                    bytes += rate.bytes_per_s() * until.since(at).as_secs_f64();
                    at = until;
                }
                bytes
            }
            rate => rate.mean().bytes_per_s() * duration.as_secs_f64(),
        }
    }

    /// The maximum number of changes of the rate in a run of this length, except for a trace.
    pub fn changes(&self, duration: Duration) -> u64 {
        match self {
            LinkRate::Schedule(steps) => steps.changes(duration),
            LinkRate::Cell(cell) => duration.as_ps() / cell.step().as_ps().max(1),
            LinkRate::Constant(_) | LinkRate::Trace(_) => 0,
        }
    }
}

impl RateSteps {
    /// The long-term rate: the mean over a period, rounded down to bits per second, or the last.
    pub fn mean(&self) -> Rate {
        let (mut sum, mut time) = (0, 0);
        for (rate, lasts) in self.lasting() {
            sum += u128::from(rate.as_bps()) * u128::from(lasts.as_ps());
            time += u128::from(lasts.as_ps());
        }
        let mean = u64::try_from(sum / time.max(1)).ok().and_then(Rate::from_bps);
        mean.unwrap_or(self.first())
    }
}

impl From<RateSteps> for LinkRate {
    fn from(steps: RateSteps) -> Self {
        LinkRate::Schedule(Arc::new(steps))
    }
}

impl From<Rate> for LinkRate {
    fn from(rate: Rate) -> Self {
        LinkRate::Constant(rate)
    }
}

impl From<CellConfig> for LinkRate {
    fn from(cell: CellConfig) -> Self {
        LinkRate::Cell(Arc::new(cell))
    }
}

impl From<RateTrace> for LinkRate {
    fn from(trace: RateTrace) -> Self {
        LinkRate::Trace(Arc::new(trace))
    }
}

/// Delivery opportunities over time, repeated for ever.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RateTrace {
    /// Milliseconds since the begin of the period, in order. Never empty; the last is not zero.
    at: Box<[u64]>,
    mean: Rate,
}

impl RateTrace {
    /// Bytes that one opportunity may deliver.
    pub const OPPORTUNITY: u64 = 1500;
    /// The longest period, milliseconds: 100 days, as long as the longest run.
    pub const LONGEST_MS: u64 = 100 * 86_400_000;

    /// The trace with opportunities at these milliseconds.
    ///
    /// # Errors
    /// If the trace is empty, one is earlier than the one before or later than
    /// [`RateTrace::LONGEST_MS`], the last is zero, or the mean rate is less than 1 bit/s or
    /// more than 100 Tbit/s.
    pub fn new(at: Vec<u64>) -> Result<Self, TraceError> {
        let mut previous = 0;
        for (index, &ms) in at.iter().enumerate() {
            if ms < previous {
                let reason = format!("{ms} ms is earlier than the {previous} ms before it");
                return Err(TraceError::at(index, reason));
            }
            if ms > Self::LONGEST_MS {
                let reason = format!("{ms} ms is more than {} (100 days)", Self::LONGEST_MS);
                return Err(TraceError::at(index, reason));
            }
            previous = ms;
        }
        let whole = |reason: &str| TraceError { index: None, reason: reason.to_owned() };
        let period = *at.last().ok_or_else(|| whole("the trace has no opportunity"))?;
        if period == 0 {
            let reason = "the last opportunity is at 0 ms, but its time is the period of the trace";
            return Err(TraceError::at(at.len() - 1, reason));
        }
        let bits = at.len() as u128 * u128::from(Self::OPPORTUNITY) * 8;
        let bps = u64::try_from(bits * 1000 / u128::from(period)).ok();
        let mean = bps.filter(|&bps| bps <= HIGHEST_BPS).and_then(Rate::from_bps);
        let mean =
            mean.ok_or_else(|| whole("the mean rate must lie between 1 bit/s and 100 Tbit/s"))?;
        Ok(RateTrace { at: at.into_boxed_slice(), mean })
    }

    /// Parses a text of one time stamp per line. Space around a number and empty lines at the end
    /// are allowed.
    ///
    /// # Errors
    /// As [`RateTrace::new`], or if a line is not a number.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let number = |(index, line): (usize, &str)| {
            let line = line.trim();
            // Rust would accept a sign, mahimahi does not.
            let digits = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
            match line.parse() {
                Ok(ms) if digits => Ok(ms),
                _ if digits => Err(TraceError::at(index, format!("{line} ms is too large"))),
                _ => {
                    let found: String = line.chars().take(40).collect();
                    let reason =
                        format!("`{}` is not a number of milliseconds", found.escape_debug());
                    Err(TraceError::at(index, reason))
                }
            }
        };
        let lines = text.trim_ascii_end().lines().enumerate();
        Self::new(lines.map(number).collect::<Result<_, _>>()?)
    }

    /// Bytes of all opportunities of a period over the period, rounded down to bits per second.
    pub fn mean(&self) -> Rate {
        self.mean
    }

    /// Milliseconds after which the trace starts over.
    pub fn period(&self) -> u64 {
        self.at[self.at.len() - 1]
    }

    /// Opportunities in a period.
    pub fn len(&self) -> usize {
        self.at.len()
    }

    /// Always false: a trace has at least one opportunity.
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    /// Bytes of all opportunities up to and including `time`.
    pub fn capacity(&self, time: Time) -> u64 {
        Position::after(self, time, 0).bytes(self)
    }
}

/// Shows its size; a million time stamps would be unreadable.
impl fmt::Debug for RateTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RateTrace({} opportunities in {} ms)", self.len(), self.period())
    }
}

/// An opportunity, by its period and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Position {
    period: u64,
    index: usize,
}

impl Position {
    /// The first opportunity after `time`, which is not among the first `skip` of its period.
    fn after(trace: &RateTrace, time: Time, skip: usize) -> Self {
        let ms = time.as_ps() / PS_PER_MS;
        let (period, phase) = (ms / trace.period(), ms % trace.period());
        // The last opportunity is at the period, after any phase, so there is one.
        let index = skip + trace.at[skip..].partition_point(|&at| at <= phase);
        Position { period, index }
    }

    fn time(self, trace: &RateTrace) -> Time {
        let ms = self.period.saturating_mul(trace.period()).saturating_add(trace.at[self.index]);
        Time::ZERO + Duration::from_millis(ms)
    }

    /// The opportunity that is `n` further on.
    fn plus(self, n: u64, trace: &RateTrace) -> Self {
        let len = trace.len() as u64;
        let index = self.index as u64 + n;
        if index < len {
            return Position { index: index as usize, ..self };
        }
        Position { period: self.period + index / len, index: (index % len) as usize }
    }

    /// Bytes of all opportunities before this one.
    fn bytes(self, trace: &RateTrace) -> u64 {
        let before = u128::from(self.period) * trace.len() as u128 + self.index as u128;
        u64::try_from(before * u128::from(RateTrace::OPPORTUNITY)).unwrap_or(u64::MAX)
    }
}

/// A wire with a trace, and its position in the trace.
#[derive(Debug, Clone)]
pub(super) struct TraceWire {
    trace: Arc<RateTrace>,
    /// The first opportunity that has not been begun.
    next: Position,
    /// Bytes left of the previous opportunity when the last packet left.
    left: u64,
    /// The part of the trace that counts, in bytes of opportunities since the start.
    counted: (u64, u64),
    /// Bytes carried in that part.
    carried: u64,
}

impl TraceWire {
    pub(super) fn new(trace: Arc<RateTrace>) -> Self {
        let next = Position::default();
        TraceWire { trace, next, left: 0, counted: (0, u64::MAX), carried: 0 }
    }

    /// Counts only what opportunities after `from` and up to `until` carry.
    pub(super) fn count_between(&mut self, from: Time, until: Time) {
        self.counted = (self.trace.capacity(from), self.trace.capacity(until));
    }

    /// Sends a packet of `size` bytes that arrived at `arrived`, and returns the time at which it
    /// has left. It has been the next to leave since `start`: `arrived` if the wire was idle, or
    /// the instant at which the previous packet left.
    // Cold because most wires have no trace.
    #[cold]
    pub(super) fn send(&mut self, start: Time, arrived: Time, size: u32) -> Time {
        let Self { trace, next, left, .. } = self;
        if start <= arrived {
            // The opportunities up to now are lost.
            *left = 0;
            if next.time(trace) <= arrived {
                // Usually the next one is in the same period, a few positions further.
                let period = arrived.as_ps() / PS_PER_MS / trace.period();
                let skip = if period == next.period { next.index } else { 0 };
                *next = Position::after(trace, arrived, skip);
            }
        }
        let begin = next.bytes(trace) - *left;
        let size = u64::from(size);
        if size > *left {
            let opportunities = (size - *left).div_ceil(RateTrace::OPPORTUNITY);
            *left = *left + opportunities * RateTrace::OPPORTUNITY - size;
            *next = next.plus(opportunities, trace);
        } else {
            *left -= size;
        }
        let (from, until) = self.counted;
        self.carried += begin.saturating_add(size).min(until).saturating_sub(begin.max(from));
        self.last_begun()
    }

    /// The instant of the latest opportunity begun.
    fn last_begun(&self) -> Time {
        let Position { period, index } = self.next;
        let last = match index {
            0 => Position { period: period.saturating_sub(1), index: self.trace.len() - 1 },
            _ => Position { period, index: index - 1 },
        };
        last.time(&self.trace)
    }

    /// Ratio of the bytes carried to the bytes of all opportunities in the time that counts.
    pub(super) fn utilization(&self) -> f64 {
        let (from, until) = self.counted;
        if until > from { self.carried as f64 / (until - from) as f64 } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    use proptest::prelude::*;

    fn trace(at: &[u64]) -> Arc<RateTrace> {
        Arc::new(RateTrace::new(at.to_vec()).unwrap())
    }

    /// Sends packets of (arrival in ms, size) over an unlimited queue; the ends in ms.
    fn ends(at: &[u64], packets: &[(u64, u32)]) -> Vec<u64> {
        let mut wire = TraceWire::new(trace(at));
        let mut busy_until = Time::ZERO;
        let send = |&(arrived, size): &(u64, u32)| {
            let arrived = ms(arrived);
            busy_until = wire.send(busy_until.max(arrived), arrived, size);
            busy_until.as_ps() / PS_PER_MS
        };
        packets.iter().map(send).collect()
    }

    #[test]
    fn one_opportunity_one_full_packet() {
        // Opportunities at 3, 5, 10, then 13, 15, 20, 23, ..; nothing came before 3.
        assert_eq!(ends(&[3, 5, 10], &[(0, 1500); 5]), [3, 5, 10, 13, 15]);
    }

    #[test]
    fn several_small_packets_share_an_opportunity_and_a_large_one_takes_several() {
        // 3 x 500 = 1500 in the first; 600 of the next; the last 900 of it and 600 of the third.
        assert_eq!(ends(&[2, 4, 6], &[(0, 500), (0, 500), (0, 500), (0, 600)]), [2, 2, 2, 4]);
        assert_eq!(ends(&[2, 4, 6], &[(0, 600), (0, 1500), (0, 900)]), [2, 4, 4]);
        // 4000 bytes are two opportunities and 1000 bytes of a third.
        assert_eq!(ends(&[2, 4, 6], &[(0, 4000), (0, 500), (0, 1)]), [6, 6, 8]);
    }

    #[test]
    fn opportunities_without_a_packet_are_lost() {
        // Idle from 1 to 7: the opportunities at 2, 4 and 6 are lost, 8 is the next.
        assert_eq!(ends(&[1, 2, 4, 6, 8], &[(0, 1500), (7, 1500), (7, 1500)]), [1, 8, 9]);
        // The first packet leaves 900 bytes of the opportunity at 5, and nothing waits.
        assert_eq!(ends(&[5, 10], &[(0, 600), (6, 600)]), [5, 10]);
        // One that came in time takes them.
        assert_eq!(ends(&[5, 10], &[(0, 600), (4, 600)]), [5, 5]);
    }

    #[test]
    fn an_opportunity_serves_what_came_before_it() {
        assert_eq!(ends(&[5, 10], &[(5, 100)]), [10]);
        // Also what is left of one that is in use.
        assert_eq!(ends(&[5, 10], &[(0, 600), (5, 600)]), [5, 10]);
        // Those at 0 of the first period come before everything.
        assert_eq!(ends(&[0, 0, 7], &[(0, 1500), (0, 1500), (0, 1500), (0, 1500)]), [7, 7, 7, 14]);
    }

    #[test]
    fn equal_stamps_are_opportunities_of_their_own() {
        assert_eq!(ends(&[4, 4, 4, 8], &[(0, 1500); 5]), [4, 4, 4, 8, 12]);
        assert_eq!(ends(&[4, 4, 4, 8], &[(0, 4500), (4, 1500)]), [4, 8]);
    }

    #[test]
    fn long_idle_times_are_skipped_at_once() {
        // 1 a ms: period 1. 3 days later the next whole millisecond.
        let later = 3 * 86_400_000;
        assert_eq!(ends(&[1], &[(0, 1), (later, 1500), (later, 1500)]), [1, later + 1, later + 2]);
        // 50 000 opportunities of 1500 bytes: 75 MB in one packet, at the 50 000th.
        assert_eq!(ends(&[1], &[(0, 75_000_000)]), [50_000]);
        assert_eq!(ends(&[3, 7], &[(0, 75_000_000)]), [25_000 * 7]);
    }

    #[test]
    fn beyond_the_end_of_time_is_never() {
        let mut wire = TraceWire::new(trace(&[12_000_000]));
        assert_eq!(wire.send(Time::ZERO, Time::ZERO, u32::MAX), Time::NEVER);
        assert_eq!(wire.send(Time::NEVER, Time::ZERO, 1500), Time::NEVER);
        assert_eq!(wire.send(Time::NEVER, Time::NEVER, 1500), Time::NEVER);
    }

    #[test]
    fn the_mean_rate_by_hand() {
        // 1500 bytes per ms are 12 Mbit/s; three in 10 ms 3.6 Mbit/s.
        assert_eq!(trace(&[1]).mean(), Rate::from_bps(12_000_000).unwrap());
        assert_eq!(trace(&[3, 5, 10]).mean(), Rate::from_bps(3_600_000).unwrap());
        // 12 000 bits in 12 000 s and, rounded down, in 6001 s.
        assert_eq!(trace(&[12_000_000]).mean(), Rate::from_bps(1).unwrap());
        assert_eq!(trace(&[6_001_000]).mean(), Rate::from_bps(1).unwrap());
    }

    #[test]
    fn utilization_is_what_was_carried_over_what_could_be() {
        // From 4 to 12: opportunities at 5, 10, 11 (= 10 + 1), not the one at 1.
        let mut wire = TraceWire::new(trace(&[1, 5, 10]));
        wire.count_between(ms(4), ms(12));
        // 1500 bytes at 1 do not count; of 2000 at 5 and 10 all; 11 is lost; 15 is too late.
        let one = wire.send(ms(0), ms(0), 1500);
        let two = wire.send(one, ms(0), 2000);
        assert_eq!((one, two), (ms(1), ms(10)));
        assert_eq!(wire.send(ms(12), ms(12), 100), ms(15));
        assert_eq!(wire.utilization(), 2000.0 / 4500.0);
        // A packet over the edge counts with its part: 1500 at 1, 500 at 5.
        let mut wire = TraceWire::new(trace(&[1, 5, 10]));
        wire.count_between(ms(4), ms(12));
        assert_eq!(wire.send(ms(0), ms(0), 2000), ms(5));
        assert_eq!(wire.utilization(), 500.0 / 4500.0);
    }

    #[test]
    fn errors_say_which_line() {
        let error = |text: &str| RateTrace::parse(text).unwrap_err().to_string();
        assert_eq!(error(""), "the trace has no opportunity");
        assert_eq!(error(" \n\n"), "the trace has no opportunity");
        assert_eq!(error("1\n2\nx3\n"), "line 3: `x3` is not a number of milliseconds");
        assert_eq!(error("1\n\n2\n"), "line 2: `` is not a number of milliseconds");
        assert_eq!(error("+1"), "line 1: `+1` is not a number of milliseconds");
        assert_eq!(error("1.5"), "line 1: `1.5` is not a number of milliseconds");
        assert_eq!(error("3\n7\n5"), "line 3: 5 ms is earlier than the 7 ms before it");
        assert!(error("0\n0\n").starts_with("line 2: the last opportunity is at 0 ms"));
        assert_eq!(error("8640000001"), "line 1: 8640000001 ms is more than 8640000000 (100 days)");
        assert_eq!(error("99999999999999999999"), "line 1: 99999999999999999999 ms is too large");
        // 12 000 bits in 12 001 s.
        assert_eq!(error("12001000"), "the mean rate must lie between 1 bit/s and 100 Tbit/s");
        assert_eq!(RateTrace::parse("1\r\n 2 \r\n\n").unwrap(), *trace(&[1, 2]));
    }

    /// mahimahi's loop, opportunity after opportunity: each serves what came before it.
    fn loop_over_opportunities(at: &[u64], packets: &[(u64, u32)]) -> Vec<u64> {
        let mut ends = Vec::new();
        let mut left_of_packet = 0;
        'periods: for period in 0.. {
            for stamp in at {
                let now = period * at[at.len() - 1] + stamp;
                let mut left = RateTrace::OPPORTUNITY;
                while left > 0 {
                    let Some(&(arrived, size)) = packets.get(ends.len()) else { break 'periods };
                    if arrived >= now {
                        break;
                    }
                    if left_of_packet == 0 {
                        left_of_packet = u64::from(size);
                    }
                    let part = left.min(left_of_packet);
                    left -= part;
                    left_of_packet -= part;
                    if left_of_packet == 0 {
                        ends.push(now);
                    }
                }
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn as_a_loop_over_all_opportunities(
            gaps in prop::collection::vec(0..6_u64, 1..12),
            packets in prop::collection::vec((0..25_u64, 1..5000_u32), 0..60),
        ) {
            let running = |sum: &mut u64, gap: u64| { *sum += gap; Some(*sum) };
            let at: Vec<u64> = gaps.into_iter().scan(0, running).collect();
            prop_assume!(at[at.len() - 1] > 0);
            let later = |sum: &mut u64, (gap, size): (u64, u32)| {
                *sum += gap;
                Some((*sum, size))
            };
            let packets: Vec<(u64, u32)> = packets.into_iter().scan(0, later).collect();
            prop_assert_eq!(ends(&at, &packets), loop_over_opportunities(&at, &packets));
        }

        #[test]
        fn every_text_is_a_trace_or_an_error(text in "([0-9]{0,11}|\\PC{0,4})(\n([0-9]{0,11}|\\PC{0,4})){0,6}") {
            if let Ok(trace) = RateTrace::parse(&text) {
                prop_assert!(trace.period() > 0 && trace.at.is_sorted());
            }
        }

        #[test]
        fn a_list_survives_being_written(mut at in prop::collection::vec(0..=12_000_000_u64, 1..50)) {
            at.sort_unstable();
            prop_assume!(at[at.len() - 1] > 0);
            let text: Vec<String> = at.iter().map(u64::to_string).collect();
            prop_assert_eq!(RateTrace::parse(&text.join("\n")), RateTrace::new(at));
        }
    }
}
