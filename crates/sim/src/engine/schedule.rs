//! The event queue: for each component the time of its next event.
//!
//! An entry is a time and a component, nothing else, and no component is in the queue twice at
//! one time: the order is total, and it does not depend on the order of insertion. A component
//! that carries many packets (a link's far end) has one entry for the first of them, so the
//! queue stays as small as the topology and fits the innermost cache.

use windward_core::units::Time;

/// Index of a component; ties in time are served in this order.
pub(super) type ComponentId = u32;

/// Children of a node of the heap: a cache line holds four entries.
const ARITY: usize = 4;

/// Time in the high bits, component in the low: one comparison orders both.
type Entry = u128;

/// A 4-ary min-heap.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    heap: Vec<Entry>,
}

fn entry(time: Time, component: ComponentId) -> Entry {
    Entry::from(time.as_ps()) << 32 | Entry::from(component)
}

impl Schedule {
    /// The earliest event, left in the queue.
    #[inline]
    pub(super) fn first(&self) -> Option<(Time, ComponentId)> {
        let first = *self.heap.first()?;
        Some((Time::from_ps((first >> 32) as u64), first as ComponentId))
    }

    /// Adds an event.
    #[inline]
    pub(super) fn push(&mut self, time: Time, component: ComponentId) {
        let mut at = self.heap.len();
        let new = entry(time, component);
        self.heap.push(new);
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.heap[parent] <= new {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = new;
    }

    /// Removes the earliest event.
    #[inline]
    pub(super) fn pop_first(&mut self) {
        if let Some(last) = self.heap.pop()
            && !self.heap.is_empty()
        {
            self.sift_down(last);
        }
    }

    /// Replaces the earliest event by one of the same component at a later time.
    #[inline]
    pub(super) fn move_first(&mut self, time: Time, component: ComponentId) {
        self.sift_down(entry(time, component));
    }

    /// Puts `new` in place of the root, then where it belongs.
    #[inline]
    fn sift_down(&mut self, new: Entry) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            let Some(children) = heap.get(first..heap.len().min(first + ARITY)) else {
                break;
            };
            if children.is_empty() {
                break;
            }
            let (mut least, mut child) = (children[0], first);
            for (i, candidate) in children.iter().enumerate().skip(1) {
                if *candidate < least {
                    (least, child) = (*candidate, first + i);
                }
            }
            if new <= least {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = new;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any mix of operations takes events out in the order of a sorted list.
        #[test]
        fn takes_events_in_order(ops in prop::collection::vec((0u8..3, 0u64..50), 1..200)) {
            let mut schedule = Schedule::default();
            let mut model: Vec<(u64, u32)> = Vec::new();
            for (component, (op, time)) in (0u32..).zip(ops) {
                model.sort_unstable();
                let first = model.first().copied();
                prop_assert_eq!(schedule.first().map(|(t, c)| (t.as_ps(), c)), first);
                match (op, first) {
                    (0, _) | (_, None) => {
                        schedule.push(Time::from_ps(time), component);
                        model.push((time, component));
                    }
                    (1, Some(_)) => {
                        schedule.pop_first();
                        model.remove(0);
                    }
                    (_, Some((earliest, component))) => {
                        schedule.move_first(Time::from_ps(earliest + time), component);
                        model[0].0 = earliest + time;
                    }
                }
            }
        }
    }
}
