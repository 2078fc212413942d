//! A wire whose rate changes, or that is silent at times.
//!
//! A packet is sent at the rate of each instant. With b bits to send from t on, and a rate of r
//! until u, it has left at t + b / r if that is not after u. Otherwise r (u - t) bits have left,
//! and the rest is sent from u on. In an outage nothing is sent: a packet in transmission waits for
//! the end of the outage, as it waits for the slots of retransmissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::network::Outages;
use crate::network::rate_trace::RateSteps;
use crate::units::{Rate, Time};

/// The rate of the wire at every instant, zero in outages, and how much of it has been used.
#[derive(Debug)]
pub(super) struct Clock {
    rates: Rates,
    outages: Option<Arc<Outages>>,
    /// The slots of retransmissions on the wire, from and until, apart from each other.
    slots: BTreeMap<Time, Time>,
    /// The time that counts, and the bits sent in it, times [`PS_PER_S`].
    counted: (Time, Time),
    carried: u128,
}

#[derive(Debug)]
enum Rates {
    /// Bits per second.
    Constant(u64),
    Schedule(Arc<RateSteps>),
}

const PS_PER_S: u128 = 1_000_000_000_000;

impl Clock {
    /// A wire of that many bits per second, at least one.
    pub(super) fn constant(bps: u64) -> Self {
        Clock::new(Rates::Constant(bps))
    }

    pub(super) fn scheduled(steps: Arc<RateSteps>) -> Self {
        Clock::new(Rates::Schedule(steps))
    }

    fn new(rates: Rates) -> Self {
        Clock {
            rates,
            outages: None,
            slots: BTreeMap::new(),
            counted: (Time::ZERO, Time::NEVER),
            carried: 0,
        }
    }

    pub(super) fn set_outages(&mut self, outages: Arc<Outages>) {
        self.outages = Some(outages);
    }

    /// Sets another rate. Returns false for a wire whose rate changes by itself.
    pub(super) fn set_rate(&mut self, bps: u64) -> bool {
        match &mut self.rates {
            Rates::Constant(old) => *old = bps,
            Rates::Schedule(_) => return false,
        }
        true
    }

    /// The rate at that instant, if it changes by itself.
    pub(super) fn scheduled_rate(&self, now: Time) -> Option<Rate> {
        match &self.rates {
            Rates::Constant(_) => None,
            Rates::Schedule(steps) => Some(steps.at(now)),
        }
    }

    /// Counts only bits sent from `from` to `until`.
    pub(super) fn count_between(&mut self, from: Time, until: Time) {
        self.counted = (from, until);
    }

    /// The first instant from `time` on outside of outages and of slots of retransmissions.
    pub(super) fn free(&self, mut time: Time) -> Time {
        loop {
            let up = self.up(time);
            let slot = self.slots.range(..=up).next_back();
            match slot {
                Some((_, end)) if *end > up => time = *end,
                _ => return up,
            }
        }
    }

    /// The first instant from `time` on outside of outages.
    fn up(&self, mut time: Time) -> Time {
        let Some(outages) = &self.outages else { return time };
        while let (true, until) = outages.segment(time) {
            time = until;
            if time == Time::NEVER {
                break;
            }
        }
        time
    }

    /// Bits per second from that instant on, which is outside of outages, and until when they hold.
    fn segment(&self, time: Time) -> (u128, Time) {
        let (bps, until) = match &self.rates {
            Rates::Constant(bps) => (*bps, Time::NEVER),
            Rates::Schedule(steps) => {
                let (rate, until) = steps.segment(time);
                (rate.as_bps(), until)
            }
        };
        let outage = self.outages.as_ref().map_or(Time::NEVER, |outages| outages.segment(time).1);
        (bps.into(), until.min(outage))
    }

    /// Sends a packet that can start at `start`, not earlier than any before; returns when it has
    /// left.
    pub(super) fn send(&mut self, start: Time, size: u32) -> Time {
        while let Some(first) = self.slots.first_entry()
            && *first.get() <= start
        {
            first.remove();
        }
        let (end, carried) = self.walk(start, size, true);
        self.carried += carried;
        end
    }

    /// Sends a packet again that is due at `due`, after the retransmissions that are due then
    /// already; returns when it has left.
    pub(super) fn send_again(&mut self, due: Time, size: u32) -> Time {
        let mut start = self.free(due);
        let end = loop {
            let (end, carried) = self.walk(start, size, false);
            match self.slots.range(start..end).next() {
                Some((_, next)) => start = self.free(*next),
                None => {
                    self.carried += carried;
                    break end;
                }
            }
        };
        // Slots that touch are one; those after the end of the run are not needed.
        if start < self.counted.1 {
            let until = self.slots.remove(&end).unwrap_or(end);
            let before = self.slots.range_mut(..=start).next_back();
            match before {
                Some((_, last)) if *last == start => *last = until,
                _ => drop(self.slots.insert(start, until)),
            }
        }
        end
    }

    /// The time at which a packet has left that is sent from `start` on, in parallel to all others.
    pub(super) fn send_beside(&self, start: Time, size: u32) -> Time {
        self.walk(start, size, false).0
    }

    /// The time at which a packet that starts at `start` has left, and its bits that count. With
    /// `yields` retransmissions interrupt it.
    fn walk(&self, start: Time, size: u32, yields: bool) -> (Time, u128) {
        let free = |time| if yields { self.free(time) } else { self.up(time) };
        let mut left = u128::from(size) * 8 * PS_PER_S;
        let mut carried = 0;
        let mut now = free(start);
        loop {
            let (bps, mut until) = self.segment(now);
            if yields && let Some((slot, _)) = self.slots.range(now..).next() {
                until = until.min(*slot);
            }
            let lasts = u64::try_from(left / bps).unwrap_or(u64::MAX);
            let end = Time::from_ps(now.as_ps().saturating_add(lasts));
            // Changes after the end of the run do not matter, and may be many.
            if end <= until || now >= self.counted.1 {
                return (end, carried + overlap(self.counted, now, end) * bps);
            }
            carried += overlap(self.counted, now, until) * bps;
            left -= u128::from(until.since(now).as_ps()) * bps;
            now = free(until);
        }
    }

    /// Ratio of the bits sent to the bits that could have been sent, in the time that counts.
    pub(super) fn utilization(&self) -> f64 {
        let (from, end) = self.counted;
        let (mut now, mut capacity) = (self.up(from), 0);
        while now < end {
            let (bps, until) = self.segment(now);
            let until = until.min(end);
            capacity += u128::from(until.since(now).as_ps()) * bps;
            now = self.up(until);
        }
        if capacity > 0 { self.carried as f64 / capacity as f64 } else { 0.0 }
    }
}

/// Picoseconds of `from..until` that count.
fn overlap((first, last): (Time, Time), from: Time, until: Time) -> u128 {
    u128::from(until.min(last).since(from.max(first)).as_ps())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Steps;
    use crate::units::Duration;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    fn at(time: u64) -> Time {
        Time::ZERO + ms(time)
    }
    fn mbit(rate: u64) -> Rate {
        Rate::from_bps(rate * 1_000_000).unwrap()
    }

    #[test]
    fn a_packet_is_sent_at_the_rate_of_each_instant() {
        // A byte a microsecond, and a tenth of that from 10 ms on, every 20 ms.
        let rates = vec![(ms(0), mbit(8)), (ms(10), Rate::from_bps(800_000).unwrap())];
        let steps = Steps::new(rates, Some(ms(20))).unwrap();
        let mut clock = Clock::scheduled(steps.into());
        assert_eq!(clock.send(at(0), 1000), at(1));
        // 500 bytes in the half millisecond before 10 ms, and 500 in 5 ms.
        assert_eq!(clock.send(Time::from_ps(9_500_000_000), 1000), at(15));
        // 500 in the last 5 ms of the period, and the rest in half a millisecond.
        assert_eq!(clock.send(at(15), 1000), Time::from_ps(20_500_000_000));
        // 11 000 bytes a period: two of them and 5500 bytes.
        assert_eq!(clock.send(at(40), 27_500), Time::from_ps(85_500_000_000));
        assert_eq!(clock.scheduled_rate(at(10)), Rate::from_bps(800_000));
        assert!(!clock.set_rate(1_000_000));
    }

    #[test]
    fn an_outage_interrupts_what_is_being_sent() {
        let outages = Outages::new(&[(ms(10), ms(5)), (ms(15), ms(1))], None).unwrap();
        let mut clock = Clock::constant(8_000_000);
        clock.set_outages(outages.into());
        assert_eq!(clock.free(at(9)), at(9));
        assert_eq!(clock.free(at(10)), at(16));
        assert_eq!(clock.send(at(9), 1000), at(10), "just before");
        assert_eq!(clock.send(at(9), 1500), Time::from_ps(16_500_000_000));
        assert_eq!(clock.send(at(12), 1000), at(17));
        assert!(clock.set_rate(4_000_000));
        assert_eq!(clock.send(at(17), 1000), at(19));
    }

    #[test]
    fn retransmissions_have_slots_that_others_go_around() {
        // A byte a microsecond.
        let mut clock = Clock::constant(8_000_000);
        clock.count_between(at(0), at(20));
        assert_eq!(clock.send(at(0), 1000), at(1));
        assert_eq!(clock.send_again(at(5), 1000), at(6));
        // Due in the midst of that: after it. Due before it, with too little time: after both.
        assert_eq!(clock.send_again(Time::from_ps(5_500_000_000), 1000), at(7));
        assert_eq!(clock.send_again(Time::from_ps(4_500_000_000), 1000), at(8));
        assert_eq!(clock.send_again(at(2), 1000), at(3));
        assert_eq!(
            clock.slots.iter().map(|(a, b)| (*a, *b)).collect::<Vec<_>>(),
            [(at(2), at(3)), (at(5), at(8))]
        );
        assert_eq!(clock.free(at(6)), at(8));
        assert_eq!(clock.free(at(4)), at(4));
        // 1 ms until 2, 2 ms until 5, and 1 ms from 8 on.
        assert_eq!(clock.send(at(1), 4000), at(9));
        assert_eq!(clock.send_beside(at(5), 1000), at(6));
        assert_eq!(clock.send(at(9), 1000), at(10));
        assert!(clock.slots.is_empty());
        // Ten packets in 20 ms, four of them sent again.
        assert!((clock.utilization() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn use_is_counted_against_what_there_was() {
        // From 5 to 25 ms: 5 ms at a byte a microsecond, 10 ms without a signal, 5 ms at a half.
        let rates = vec![(ms(0), mbit(8)), (ms(15), mbit(4))];
        let mut clock = Clock::scheduled(Steps::new(rates, None).unwrap().into());
        clock.set_outages(Outages::new(&[(ms(10), ms(10))], None).unwrap().into());
        clock.count_between(at(5), at(25));
        assert_eq!(clock.utilization(), 0.0);
        // 2000 bytes from 4 ms on, half of which count; 2000 from 9 ms on, of which 1000 are sent
        // before the outage and 1000 in 2 ms after it; 3000 from 23 ms on, of which 1000 count.
        assert_eq!(clock.send(at(4), 2000), at(6));
        assert_eq!(clock.send(at(9), 2000), at(22));
        assert_eq!(clock.send(at(23), 3000), at(29));
        // 4000 bytes of 5000 + 2500.
        assert!((clock.utilization() - 4000.0 / 7500.0).abs() < 1e-12);
    }

    #[test]
    fn changes_after_the_run_are_not_computed() {
        // 97 days of a packet at 1 bit/s over a rate that changes every picosecond.
        let one = Rate::from_bps(1).unwrap();
        let rates = vec![(Duration::ZERO, one), (Duration::from_ps(1), one)];
        let steps = Steps::new(rates, Some(Duration::from_ps(2))).unwrap();
        let mut clock = Clock::scheduled(steps.into());
        clock.count_between(Time::ZERO, Time::from_ps(1000));
        assert!(clock.send(Time::ZERO, 1 << 20) > Time::ZERO + Duration::from_secs(90 * 86_400));
    }
}
