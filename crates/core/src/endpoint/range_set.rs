//! A set of sequence numbers as ranges, for data that arrived out of order.

use std::collections::VecDeque;

use crate::packet::SackBlock;

/// Disjoint ranges in order, never touching. Costs grow with the number of ranges, not of
/// packets, and work at either end is constant.
#[derive(Debug, Clone, Default)]
pub struct RangeSet {
    ranges: VecDeque<SackBlock>,
    count: u64,
}

/// The numbers that an insertion added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// In all.
    pub total: u64,
    /// Those below the mark.
    pub below_mark: u64,
}

impl RangeSet {
    /// The number of elements.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// True if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
    /// One past the largest number in the set.
    pub fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.end)
    }
    /// The range that holds `seq`.
    pub fn range_of(&self, seq: u64) -> Option<SackBlock> {
        let at = self.ranges.partition_point(|range| range.end <= seq);
        self.ranges.get(at).copied().filter(|range| range.start <= seq)
    }
    /// The smallest number from `seq` on that is not in the set.
    pub fn next_missing(&self, seq: u64) -> u64 {
        self.range_of(seq).map_or(seq, |range| range.end)
    }

    /// Adds `block`; returns how much of it was new, and how much of that lies below `mark`.
    pub fn insert(&mut self, block: SackBlock, mark: u64) -> Added {
        let below = |range: SackBlock| range.end.min(mark) - range.start.min(mark);
        let first = self.ranges.partition_point(|range| range.end < block.start);
        let mut last = first;
        let mut merged = block;
        let mut known = Added { total: 0, below_mark: 0 };
        while let Some(range) = self.ranges.get(last).filter(|range| range.start <= block.end) {
            merged.start = merged.start.min(range.start);
            merged.end = merged.end.max(range.end);
            known.total += range.end - range.start;
            known.below_mark += below(*range);
            last += 1;
        }
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        let added = Added {
            total: merged.end - merged.start - known.total,
            below_mark: below(merged) - known.below_mark,
        };
        self.count += added.total;
        added
    }

    /// Removes everything below `seq`; returns how many numbers these were.
    pub fn remove_below(&mut self, seq: u64) -> u64 {
        let before = self.count;
        while let Some(range) = self.ranges.front_mut().filter(|range| range.start < seq) {
            if range.end > seq {
                self.count -= seq - range.start;
                range.start = seq;
                break;
            }
            self.count -= range.end - range.start;
            self.ranges.pop_front();
        }
        before - self.count
    }

    /// The number of elements from `seq` on. Cheap if few ranges lie above `seq`.
    pub fn count_from(&self, seq: u64) -> u64 {
        let above = self.ranges.iter().rev().take_while(|range| range.end > seq);
        above.map(|range| range.end - range.start.max(seq)).sum()
    }

    /// The `n`-th largest number in the set, `n` from 1.
    pub fn nth_largest(&self, mut n: u64) -> Option<u64> {
        for range in self.ranges.iter().rev() {
            let length = range.end - range.start;
            if n <= length {
                return Some(range.end - n);
            }
            n -= length;
        }
        None
    }
}

/// A [`RangeSet`] that is empty most of the time and then takes the space of a pointer.
#[derive(Debug, Clone, Default)]
pub(super) struct RareRanges(Option<Box<RangeSet>>);

impl RareRanges {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }
    pub(super) fn end(&self) -> Option<u64> {
        self.0.as_ref().and_then(|set| set.end())
    }
    pub(super) fn range_of(&self, seq: u64) -> Option<SackBlock> {
        self.0.as_ref().and_then(|set| set.range_of(seq))
    }
    pub(super) fn next_missing(&self, seq: u64) -> u64 {
        self.0.as_ref().map_or(seq, |set| set.next_missing(seq))
    }
    /// As [`RangeSet::insert`] of a block that is not empty.
    pub(super) fn insert(&mut self, block: SackBlock, mark: u64) -> Added {
        self.0.get_or_insert_default().insert(block, mark)
    }
    pub(super) fn remove_below(&mut self, seq: u64) -> u64 {
        let Some(set) = &mut self.0 else { return 0 };
        let removed = set.remove_below(seq);
        if set.is_empty() {
            self.0 = None;
        }
        removed
    }
    pub(super) fn count_from(&self, seq: u64) -> u64 {
        self.0.as_ref().map_or(0, |set| set.count_from(seq))
    }
    pub(super) fn nth_largest(&self, n: u64) -> Option<u64> {
        self.0.as_ref().and_then(|set| set.nth_largest(n))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Random operations against a set of single numbers.
        #[test]
        fn behaves_as_a_set(ops in prop::collection::vec((0u8..4, 0u64..60, 1u64..8), 1..60)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            let mark = 25;
            for (op, start, length) in ops {
                if op == 3 {
                    let gone = model.iter().filter(|n| **n < start).count() as u64;
                    prop_assert_eq!(set.remove_below(start), gone);
                    model.retain(|n| *n >= start);
                } else {
                    let block = SackBlock { start, end: start + length };
                    let new: Vec<u64> =
                        (block.start..block.end).filter(|n| model.insert(*n)).collect();
                    let below_mark = new.iter().filter(|n| **n < mark).count() as u64;
                    let added = set.insert(block, mark);
                    prop_assert_eq!(added, Added { total: new.len() as u64, below_mark });
                }
                prop_assert_eq!(set.count(), model.len() as u64);
                prop_assert_eq!(set.end(), model.last().map(|n| n + 1));
                for n in 0..70 {
                    prop_assert_eq!(set.range_of(n).is_some(), model.contains(&n));
                    let missing = (n..).find(|m| !model.contains(m)).unwrap();
                    prop_assert_eq!(set.next_missing(n), missing);
                    prop_assert_eq!(set.count_from(n), model.range(n..).count() as u64);
                }
                for n in 1..70 {
                    let expected = model.iter().rev().nth(n - 1).copied();
                    prop_assert_eq!(set.nth_largest(n as u64), expected);
                }
                let pairs = set.ranges.iter().zip(set.ranges.iter().skip(1));
                for (a, b) in pairs {
                    prop_assert!(a.end < b.start, "ranges must not touch");
                }
            }
        }
    }
}
