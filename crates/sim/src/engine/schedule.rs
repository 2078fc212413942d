//! The event queue.
//!
//! Near events are in a wheel of buckets of time. Insertion writes into a bucket, and removal looks
//! a few buckets ahead, which are adjacent in memory. Later events are in lists, one for each half
//! turn of the wheel, and enter the wheel when their turn comes: so a wheel that fits into the
//! caches is enough, however far ahead events lie. Events beyond all lists wait in a heap; the
//! earlier of the first in the wheel and the first in the heap is next. The wheel measures the
//! density of events and adapts to it, which only changes the speed.
//!
//! The order is total and does not depend on the order of insertion. At one instant the rank of
//! a component decides, and within a rank a lot drawn from the seed, the instant and the
//! component. If all links have one rate, packets meet at a queue at exactly the same time
//! again and again, and any fixed order would always give the last free place to the same flow.
//! The lot is drawn only where times are equal.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use windward_core::units::Time;

use super::component::{Component, ComponentId};

/// An event.
#[derive(Debug, Clone, Copy)]
struct Entry {
    time: u64,
    id: ComponentId,
}

/// A bucket's first event, or one that spilled over; `next` is the next one of the bucket.
#[derive(Debug, Clone, Copy)]
struct Slot {
    time: u64,
    id: ComponentId,
    next: u32,
}

/// No further event in a bucket.
const END: u32 = u32::MAX;

/// Buckets side by side.
#[derive(Debug, Clone, Copy)]
struct Block {
    slots: [Slot; BLOCK],
    /// A bit for each bucket that is not empty; only their slots are valid.
    occupied: u64,
}

const NO_EVENTS: Block = Block { slots: [Slot { time: 0, id: 0, next: END }; BLOCK], occupied: 0 };

/// Number of buckets of a block, which is the number of bits of an integer.
const BLOCK: usize = 64;
/// Minimum and maximum number of blocks: 4 KiB and 256 KiB.
const LEAST_BLOCKS: usize = 4;
const MOST_BLOCKS: usize = 1 << 8;
/// Number of lists of later events.
const LATER: usize = 1 << 10;
/// Number of buckets that are examined together, a part of a block.
const GROUP: u64 = 16;
/// Number of events under the cursor up to which sorted insertion is cheap.
const MOST_UNDER_CURSOR: usize = 32;
/// Minimum number of events between two measurements of their density.
const PERIOD: u64 = 512;
/// Number of events from which buckets are wide.
const CROWD: usize = 2048;

/// The events of all components. A component may have several.
#[derive(Debug)]
pub(super) struct Schedule {
    /// The buckets after the cursor's, in a ring of blocks: bucket b, counted from time zero, is at
    /// b modulo their number, a power of two.
    wheel: Vec<Block>,
    cursor: u64,
    /// A bucket is 2^shift picoseconds wide.
    shift: u32,
    in_wheel: usize,
    /// Events in the bucket at the cursor or before it, the earliest last.
    current: Vec<Entry>,
    /// The later events of each half turn, without order, in a ring.
    later: Vec<Vec<Entry>>,
    in_later: usize,
    /// The first bucket of the first half turn with later events.
    horizon: u64,
    /// Time of the first of the other events.
    first_far: u64,
    /// Time of the latest event taken.
    now: u64,
    /// A bit for each block that is not empty.
    occupied: Vec<u64>,
    spilled: Spilled,
    /// The other events, by their whole keys.
    far: BinaryHeap<Reverse<u128>>,
    density: Density,
    seed: u64,
}

/// Events that share a bucket with an earlier one: a list for each bucket.
#[derive(Debug)]
struct Spilled {
    slots: Vec<Slot>,
    /// The first free slot.
    free: u32,
}

impl Spilled {
    /// Adds an event to the list that begins at `next`. Returns its place, the new beginning.
    #[inline]
    fn add(&mut self, Entry { time, id }: Entry, next: u32) -> u32 {
        let slot = Slot { time, id, next };
        let Some(free) = self.slots.get_mut(self.free as usize) else {
            self.slots.push(slot);
            return (self.slots.len() - 1) as u32;
        };
        let at = std::mem::replace(&mut self.free, free.next);
        *free = slot;
        at
    }

    /// Removes the first event of the list that begins at `first`, which becomes the next.
    #[inline]
    fn take(&mut self, first: &mut u32) -> Option<Entry> {
        let slot = self.slots.get_mut(*first as usize)?;
        let at = std::mem::replace(first, slot.next);
        slot.next = std::mem::replace(&mut self.free, at);
        Some(Entry { time: slot.time, id: slot.id })
    }
}

/// Measurement of the density of events.
#[derive(Debug)]
struct Density {
    /// Number of events until the next measurement.
    left: u64,
    /// Number of events of the period, its start, and the number of events entered in it beyond
    /// the wheel.
    period: u64,
    since: u64,
    entered_far: u64,
}

impl Schedule {
    /// A queue without events; the seed of the run draws the lots.
    pub(super) fn new(seed: u64) -> Self {
        Schedule {
            wheel: vec![NO_EVENTS; LEAST_BLOCKS],
            cursor: 0,
            shift: 20, // About a microsecond, until it is measured.
            in_wheel: 0,
            current: Vec::with_capacity(MOST_UNDER_CURSOR),
            later: vec![Vec::new(); LATER],
            in_later: 0,
            horizon: u64::MAX,
            first_far: u64::MAX,
            now: 0,
            occupied: vec![0],
            spilled: Spilled { slots: Vec::new(), free: END },
            far: BinaryHeap::new(),
            density: Density { left: PERIOD, period: PERIOD, since: 0, entered_far: 0 },
            seed,
        }
    }

    /// Enters an event, unless its time is [`Time::NEVER`].
    #[inline]
    pub(super) fn push(&mut self, id: ComponentId, time: Time) {
        let time = time.as_ps();
        let bucket = time >> self.shift;
        let ahead = bucket.wrapping_sub(self.cursor);
        // Before the cursor, the difference wraps or is zero.
        if ahead.wrapping_sub(1) < self.buckets() - 1 {
            let at = self.block_of(bucket);
            let (block, bit) = (&mut self.wheel[at], bucket as usize % BLOCK);
            self.in_wheel += 1;
            if block.occupied & 1 << bit == 0 {
                if block.occupied == 0 {
                    self.occupied[at / 64] |= 1 << (at % 64);
                }
                block.occupied |= 1 << bit;
                block.slots[bit] = Slot { time, id, next: END };
            } else {
                self.spill(at, bit, Entry { time, id });
            }
        } else {
            self.push_else(bucket, Entry { time, id });
        }
    }

    /// Number of buckets of the wheel.
    #[inline]
    fn buckets(&self) -> u64 {
        (self.wheel.len() * BLOCK) as u64
    }

    /// Index in the wheel of the block of a bucket.
    #[inline]
    fn block_of(&self, bucket: u64) -> usize {
        (bucket as usize / BLOCK) & (self.wheel.len() - 1)
    }

    /// Enters an event that shares a bucket.
    #[inline(never)]
    fn spill(&mut self, at: usize, bit: usize, entry: Entry) {
        let first = &mut self.wheel[at].slots[bit];
        first.next = self.spilled.add(entry, first.next);
    }

    /// Enters an event under the cursor or beyond the wheel.
    #[inline(never)]
    fn push_else(&mut self, bucket: u64, entry: Entry) {
        if bucket <= self.cursor && self.current.len() < MOST_UNDER_CURSOR {
            let later = |other: &&Entry| is_before(self.seed, **other, entry);
            let earlier = self.current.iter().rev().take_while(later).count();
            self.current.insert(self.current.len() - earlier, entry);
        } else if entry.time != Time::NEVER.as_ps() {
            self.density.entered_far += 1;
            let half = self.buckets() / 2;
            let turn = bucket / half;
            // An event for which there is no room under the cursor is not ahead of it.
            if (1..LATER as u64).contains(&turn.wrapping_sub(self.cursor / half)) {
                self.later[turn as usize % LATER].push(entry);
                self.in_later += 1;
                self.horizon = self.horizon.min(turn * half);
                return;
            }
            self.first_far = self.first_far.min(entry.time);
            self.far.push(Reverse(key(self.seed, entry)));
        }
    }

    /// Takes the earliest event if it is not after `until`.
    #[inline(always)]
    pub(super) fn pop(&mut self, until: Time) -> Option<(Time, ComponentId)> {
        if self.current.is_empty()
            && let Some(Slot { time, id, next }) = self.advance()
        {
            // Mostly, it is the only one of its bucket and the earliest of all.
            if next == END && time < self.first_far && time <= until.as_ps() {
                self.count(time);
                return Some((Time::from_ps(time), id));
            }
            self.current.push(Entry { time, id });
            self.collect(next);
        }
        self.pop_current(until)
    }

    /// Time of the earliest event.
    pub(super) fn next(&mut self) -> Time {
        if self.current.is_empty()
            && let Some(Slot { time, id, next }) = self.advance()
        {
            self.current.push(Entry { time, id });
            self.collect(next);
        }
        let near = self.current.last().map_or(Time::NEVER.as_ps(), |near| near.time);
        Time::from_ps(near.min(self.first_far))
    }

    /// Takes the earliest event if it is not after `until` and not in the wheel.
    #[inline(never)]
    fn pop_current(&mut self, until: Time) -> Option<(Time, ComponentId)> {
        let Some(&near) = self.current.last().filter(|near| near.time <= self.first_far) else {
            return self.pop_far(until);
        };
        if near.time > until.as_ps() {
            return None;
        }
        if near.time == self.first_far
            && self.far.peek().is_some_and(|far| far.0 < key(self.seed, near))
        {
            return self.pop_far(until);
        }
        self.current.pop();
        self.count(near.time);
        Some((Time::from_ps(near.time), near.id))
    }

    /// Takes the first event of the heap, which is the earliest of all.
    #[cold]
    fn pop_far(&mut self, until: Time) -> Option<(Time, ComponentId)> {
        let Reverse(first) = *self.far.peek()?;
        let (time, id) = (time_of(first), first as ComponentId);
        if time > until.as_ps() {
            return None;
        }
        self.far.pop();
        self.first_far = self.far.peek().map_or(u64::MAX, |key| time_of(key.0));
        self.count(time);
        if self.current.is_empty() && self.in_wheel + self.in_later == 0 {
            self.cursor = time >> self.shift;
        }
        Some((Time::from_ps(time), id))
    }

    /// The group of buckets in which the cursor is.
    #[inline]
    pub(super) fn group(&self) -> u64 {
        self.cursor / GROUP
    }

    /// Calls `look` for most events of the group of buckets that is this many groups ahead.
    #[inline]
    pub(super) fn upcoming(&self, groups: u64, look: impl Fn(ComponentId)) {
        let from = (self.group() + groups) * GROUP;
        let block = &self.wheel[self.block_of(from)];
        let from = from as usize % BLOCK;
        let mut occupied = block.occupied >> from & ((1 << GROUP) - 1);
        while occupied != 0 {
            let first = &block.slots[(from + occupied.trailing_zeros() as usize) % BLOCK];
            occupied &= occupied - 1;
            look(first.id);
            if let Some(second) = self.spilled.slots.get(first.next as usize) {
                look(second.id);
            }
        }
    }

    #[inline]
    fn count(&mut self, time: u64) {
        self.now = time;
        self.density.left -= 1;
        if self.density.left == 0 {
            self.adapt();
        }
    }

    /// Moves the cursor to the next bucket that holds something, if any does, and takes its first
    /// event out, and with it the others, which are still to be [collected](Schedule::collect).
    #[inline(always)]
    fn advance(&mut self) -> Option<Slot> {
        if self.in_wheel == 0 {
            if self.in_later == 0 {
                return None;
            }
            self.take_turn();
        }
        let from = self.cursor as usize % BLOCK;
        let mut at = self.block_of(self.cursor);
        let mut base = self.cursor - from as u64;
        let mut bits = self.wheel[at].occupied & !1 << from;
        if bits == 0 {
            let mut blocks = self.next_block(at);
            if base + (blocks * BLOCK) as u64 >= self.horizon {
                self.take_turn();
                at = self.block_of(self.cursor);
                base = self.cursor - (BLOCK as u64 - 1);
                blocks = self.next_block(at);
            }
            base += (blocks * BLOCK) as u64;
            at = (at + blocks) & (self.wheel.len() - 1);
            bits = self.wheel[at].occupied;
        }
        let block = &mut self.wheel[at];
        let bit = bits.trailing_zeros() as usize % BLOCK;
        self.cursor = base + bit as u64;
        block.occupied &= !(1 << bit);
        if block.occupied == 0 {
            self.occupied[at / 64] &= !(1 << (at % 64));
        }
        self.in_wheel -= 1;
        Some(block.slots[bit])
    }

    /// Enters the first of the later events into the wheel, in which none is left before them. The
    /// cursor is at the last bucket of a block then.
    #[cold]
    fn take_turn(&mut self) {
        let half = self.buckets() / 2;
        let turn = self.horizon / half;
        self.cursor = self.horizon - 1;
        let due = std::mem::take(&mut self.later[turn as usize % LATER]);
        self.in_later -= due.len();
        let mut others = turn + 1..turn + LATER as u64;
        let next = others.find(|turn| !self.later[*turn as usize % LATER].is_empty());
        self.horizon = next.map_or(u64::MAX, |turn| turn * half);
        for Entry { time, id } in due {
            self.push(id, Time::from_ps(time));
        }
    }

    /// Takes out the events of a bucket beyond its first.
    #[inline(never)]
    fn collect(&mut self, mut next: u32) {
        while let Some(entry) = self.spilled.take(&mut next) {
            self.in_wheel -= 1;
            self.current.push(entry);
        }
        let seed = self.seed;
        if let [a, b] = &mut self.current[..] {
            if is_before(seed, *a, *b) {
                std::mem::swap(a, b);
            }
        } else {
            let order = |a: &Entry, b: &Entry| {
                if is_before(seed, *b, *a) { Ordering::Less } else { Ordering::Greater }
            };
            self.current.sort_unstable_by(order);
        }
    }

    /// Distance to the next block with an event, in blocks from the one at `at`, in
    /// which no event is left behind the cursor; the number of blocks if it is this one again.
    #[inline]
    fn next_block(&self, at: usize) -> usize {
        let blocks = self.wheel.len();
        let next = (at + 1) & (blocks - 1);
        if self.wheel[next].occupied != 0 {
            return 1;
        }
        self.next_far_off(at)
    }

    /// [`Self::next_block`] for a block that is not the next.
    #[cold]
    fn next_far_off(&self, at: usize) -> usize {
        let blocks = self.wheel.len();
        let mut ahead = 2;
        while ahead < blocks {
            let block = (at + ahead) & (blocks - 1);
            // Skips as many empty blocks at a time as an integer has bits.
            let group = self.occupied[block / 64] >> (block % 64);
            if group & 1 != 0 {
                return ahead;
            }
            ahead += (group.trailing_zeros() as usize).min(64 - block % 64).min(blocks - block);
        }
        blocks
    }

    /// Fits the buckets to the density of events in the last period.
    #[cold]
    fn adapt(&mut self) {
        let gap = (self.now - self.density.since) / self.density.period;
        let pending = self.current.len() + self.in_wheel + self.in_later + self.far.len();
        // With few events, most have a bucket for themselves. With many, fewer buckets cost less.
        let width = if pending < CROWD { gap / 16 } else { gap * 2 };
        let shift = width.max(1).ilog2();
        let grows =
            self.density.entered_far > self.density.period / 8 && self.wheel.len() < MOST_BLOCKS;
        if grows || shift.abs_diff(self.shift) > 1 {
            let entries = self.take_near();
            self.shift = shift;
            let blocks = if grows { self.wheel.len() * 4 } else { self.wheel.len() };
            self.wheel = vec![NO_EVENTS; blocks];
            self.occupied = vec![0; blocks.div_ceil(64)];
            self.cursor = self.now >> shift;
            for entry in entries {
                self.push(entry.id, Time::from_ps(entry.time));
            }
        }
        self.density.period = PERIOD.max(pending as u64);
        self.density.left = self.density.period;
        self.density.since = self.now;
        self.density.entered_far = 0;
    }

    /// Empties all but the heap.
    fn take_near(&mut self) -> Vec<Entry> {
        let mut all = Vec::with_capacity(self.current.len() + self.in_wheel + self.in_later);
        all.append(&mut self.current);
        while let Some(Slot { time, id, next }) = self.advance() {
            all.push(Entry { time, id });
            self.collect(next);
            all.append(&mut self.current);
        }
        all
    }
}

#[inline]
fn time_of(key: u128) -> u64 {
    (key >> 64) as u64
}

/// From the high bits to the low: 64 of time, 4 of rank, 28 of the lot, 32 of component.
#[inline]
fn key(seed: u64, Entry { time, id }: Entry) -> u128 {
    let component = Component::from(id);
    let lot = (time ^ component.salt(seed)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
    let low = u64::from(component.rank()) << 60 | lot << 32 | u64::from(id);
    u128::from(time) << 64 | u128::from(low)
}

#[inline]
fn is_before(seed: u64, a: Entry, b: Entry) -> bool {
    if a.time == b.time { key(seed, a) < key(seed, b) } else { a.time < b.time }
}

/// A timer of a component whose deadline moves. Most deadlines are postponed long before they
/// expire, so the queue is not updated: its event is checked when it is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alarm {
    /// Time at which it expires.
    due: Time,
    /// Its events in the queue: the earliest, and the one that was the earliest before.
    entered: [Time; 2],
}

impl Alarm {
    /// An alarm that is not set.
    pub(super) const OFF: Alarm = Alarm { due: Time::NEVER, entered: [Time::NEVER; 2] };

    /// Makes it expire at `time`, unless it expires earlier.
    #[inline]
    pub(super) fn bring_forward(&mut self, schedule: &mut Schedule, id: ComponentId, time: Time) {
        if time < self.due {
            self.due = time;
            self.enter(schedule, id);
        }
    }

    /// Handles an event of the alarm taken from the queue. Returns true if the alarm expires, which
    /// also switches it off.
    #[inline]
    pub(super) fn goes_off(&mut self, schedule: &mut Schedule, id: ComponentId, now: Time) -> bool {
        if now != self.entered[0] {
            return false; // An event that was superseded.
        }
        self.entered = [self.entered[1], Time::NEVER];
        if now == self.due {
            self.due = Time::NEVER;
            return true;
        }
        self.enter(schedule, id);
        false
    }

    /// Makes sure that there is an event when it is due, or before.
    #[inline]
    fn enter(&mut self, schedule: &mut Schedule, id: ComponentId) {
        if self.due < self.entered[0] {
            self.entered = [self.due, self.entered[0]];
            schedule.push(id, self.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn arrival(link: u32) -> ComponentId {
        Component::Arrival(link).id()
    }

    fn any_component() -> impl Strategy<Value = Component> {
        (0u32..7, 0u32..40).prop_map(|(kind, index)| match kind {
            0 => Component::Queue(index),
            1 => Component::Release(index),
            2 => Component::Arrival(index),
            3 => Component::SenderTimer(index),
            4 => Component::ReceiverTimer(index),
            5 => Component::Release(index),
            _ => Component::Application(index),
        })
    }

    proptest! {
        /// Any mix of events comes out in sorted order, at any scale of time and
        /// any density. An operation enters some events, each `delay` after the latest
        /// one taken, and takes others.
        #[test]
        fn comes_out_in_order(
            scale in 0u32..45,
            ops in prop::collection::vec(
                (prop::collection::vec((any_component(), 0u64..40, 0u32..12), 0..12), 0usize..14),
                1..300,
            ),
        ) {
            let mut schedule = Schedule::new(7);
            let mut model: Vec<u128> = Vec::new();
            let mut now = 0;
            for (entered, taken) in ops {
                for (component, delay, stretch) in entered {
                    let (time, id) = (now + (delay << stretch << scale >> 8), component.id());
                    schedule.push(id, Time::from_ps(time));
                    model.push(key(7, Entry { time, id }));
                }
                model.sort_unstable();
                let next = model.first().map_or(Time::NEVER, |key| Time::from_ps(time_of(*key)));
                prop_assert_eq!(schedule.next(), next);
                for _ in 0..taken.min(model.len()) {
                    let first = model.remove(0);
                    let (time, id) = schedule.pop(Time::NEVER).expect("an event");
                    prop_assert_eq!(key(7, Entry { time: time.as_ps(), id }), first);
                    now = time.as_ps();
                }
                if let Some(first) = model.first() {
                    let first = time_of(*first);
                    if first > now {
                        prop_assert_eq!(schedule.pop(Time::from_ps(first - 1)), None);
                    }
                } else {
                    prop_assert_eq!(schedule.pop(Time::NEVER), None);
                }
            }
        }

        /// An alarm expires at the earliest of the times to which it was set since it last expired.
        #[test]
        fn an_alarm_goes_off_once(ops in prop::collection::vec((0u64..50, 0usize..3), 1..100)) {
            let mut schedule = Schedule::new(1);
            let id = Component::SenderTimer(0).id();
            let (mut alarm, mut due, mut now) = (Alarm::OFF, Time::NEVER, Time::ZERO);
            for (delay, taken) in ops {
                let time = Time::from_ps(now.as_ps() + delay);
                due = due.min(time);
                alarm.bring_forward(&mut schedule, id, time);
                for _ in 0..taken {
                    let Some((time, _)) = schedule.pop(Time::NEVER) else {
                        prop_assert_eq!(due, Time::NEVER, "it was lost");
                        break;
                    };
                    now = time;
                    prop_assert!(now <= due, "it came too late");
                    let goes_off = alarm.goes_off(&mut schedule, id, now);
                    prop_assert_eq!(goes_off, now == due);
                    if goes_off {
                        due = Time::NEVER;
                    }
                }
            }
        }
    }

    #[test]
    fn the_wheel_adapts_to_the_density_of_events() {
        // Two thousand wires, each with an event a millisecond after its last: half a
        // microsecond apart in the mean, which is 2^18.9 ps.
        let mut schedule = Schedule::new(1);
        for link in 0..2000 {
            schedule.push(arrival(link), Time::from_ps(u64::from(link) * 500_009));
        }
        let mut last = Time::ZERO;
        for _ in 0..100_000 {
            let (time, id) = schedule.pop(Time::NEVER).expect("an event");
            assert!(time >= last);
            last = time;
            schedule.push(id, Time::from_ps(time.as_ps() + 1_000_000_000));
        }
        // Two thousand events are spread over sixteen times as many buckets.
        assert!((14..=15).contains(&schedule.shift), "{}", schedule.shift);
        assert!(schedule.far.is_empty(), "the wheel reaches a millisecond");
    }

    #[test]
    fn ties_are_fair() {
        let mut schedule = Schedule::new(1);
        let mut wins = [0; 4];
        for time in 1..=10_000 {
            let time = Time::from_ps(time * 1_600_000_000);
            for component in 0..4 {
                schedule.push(arrival(component), time);
            }
            let (_, first) = schedule.pop(time).expect("four");
            wins[(first - arrival(0)) as usize] += 1;
            while schedule.pop(time).is_some() {}
        }
        // A quarter each: 2500, five standard errors of sqrt(10 000 x 1/4 x 3/4) = 43.
        assert!(wins.iter().all(|n: &i32| (n - 2500).abs() < 217), "{wins:?}");
    }
}
