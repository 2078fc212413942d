//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): queues share a wire by bytes in
//! proportion to their quanta, for any packet sizes.
//!
//! At each turn a queue may send its quantum and the credit left from earlier turns in which it had
//! packets, in bytes. There are two forms. In a ring every queue keeps its place, and a packet
//! needs enough credit before it is sent. In lists (DRR++, MacGregor and Shi 2000, in the form of
//! RFC 8290) a queue that has just begun to send is served before those that have sent for longer,
//! and the credit may become negative, so that the size of a packet need not be known in advance.

use std::collections::VecDeque;

/// The turns of queues numbered from 0.
#[derive(Debug, Clone)]
pub(super) struct RoundRobin {
    /// The quantum and the credit of each queue, in bytes.
    shares: Vec<Share>,
    order: Order,
}

#[derive(Debug, Clone, Copy)]
struct Share {
    quantum: i64,
    deficit: i64,
    /// True if it is in a list.
    listed: bool,
}

#[derive(Debug, Clone)]
enum Order {
    /// A ring.
    Ring { turn: usize },
    /// RFC 8290 section 4.1: queues that are new, and those that are not.
    Lists { new: VecDeque<u32>, old: VecDeque<u32> },
}

impl RoundRobin {
    /// A ring of queues with these quanta, bytes.
    pub(super) fn ring(quanta: impl Iterator<Item = u64>) -> Self {
        let share = |quantum: u64| {
            let quantum = i64::try_from(quantum).unwrap_or(i64::MAX);
            Share { quantum, deficit: quantum, listed: false }
        };
        RoundRobin { shares: quanta.map(share).collect(), order: Order::Ring { turn: 0 } }
    }

    /// Lists of queues, none of which has sent yet.
    pub(super) fn lists() -> Self {
        let order = Order::Lists { new: VecDeque::new(), old: VecDeque::new() };
        RoundRobin { shares: Vec::new(), order }
    }

    /// Records that a packet has joined queue `index`. An unknown queue is added; its number must
    /// be one more than the last. A queue in neither list joins the new ones with a quantum.
    pub(super) fn join(&mut self, index: usize, quantum: u32) {
        let Order::Lists { new, .. } = &mut self.order else { return };
        let fresh = Share { quantum: i64::from(quantum), deficit: 0, listed: false };
        if index == self.shares.len() {
            self.shares.push(fresh);
        }
        let share = &mut self.shares[index];
        if !share.listed {
            share.listed = true;
            share.deficit = share.quantum;
            new.push_back(index as u32);
        }
    }

    /// The queue that sends next; `head` returns the size of the first packet of a queue, if there
    /// is one. At least one queue must have a packet. Call [`RoundRobin::charge`] for the packet
    /// sent.
    pub(super) fn next(&mut self, head: impl Fn(usize) -> Option<u32>) -> usize {
        match &mut self.order {
            Order::Ring { turn } => loop {
                let share = &mut self.shares[*turn];
                match head(*turn) {
                    Some(size) if share.deficit >= i64::from(size) => return *turn,
                    // The rest that it left unused, and a quantum for its next turn.
                    Some(_) => share.deficit += share.quantum,
                    None => share.deficit = share.quantum,
                }
                *turn = (*turn + 1) % self.shares.len();
            },
            Order::Lists { new, old } => loop {
                let is_new = !new.is_empty();
                let list = if is_new { &mut *new } else { &mut *old };
                let Some(&index) = list.front() else { return 0 };
                let share = &mut self.shares[index as usize];
                let waits = head(index as usize).is_some();
                if waits && share.deficit > 0 {
                    return index as usize;
                }
                list.pop_front();
                if waits {
                    share.deficit += share.quantum;
                    old.push_back(index);
                } else if is_new {
                    // Section 4.2: else a queue could count as new again and again.
                    old.push_back(index);
                } else {
                    share.listed = false;
                }
            },
        }
    }

    /// Deducts a packet of queue `index`.
    pub(super) fn charge(&mut self, index: usize, size: u32) {
        self.shares[index].deficit -= i64::from(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The turns of queues that never run empty, with packets of these sizes.
    fn turns(scheduler: &mut RoundRobin, sizes: &[u32], count: usize) -> Vec<usize> {
        let next = |_| {
            let index = scheduler.next(|index| Some(sizes[index]));
            scheduler.charge(index, sizes[index]);
            index
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_ring_pays_before() {
        // Quanta of 1500, packets of 1000 and 500: 1500 pays for one of 1000 and leaves 500, the
        // next turn has 2000 for two; three of 500 a turn.
        let mut ring = RoundRobin::ring([1500, 1500].into_iter());
        let expected = [0, 1, 1, 1, 0, 0, 1, 1, 1, 0];
        assert_eq!(turns(&mut ring, &[1000, 500], 10), expected);
    }

    #[test]
    fn lists_pay_after_and_let_the_new_go_first() {
        let mut lists = RoundRobin::lists();
        lists.join(0, 1500);
        // 1500, 500, -500: two packets of 1000, then to the old with 1000 more. Alone, it goes on:
        // 1000, 0, to the end of the list with 1500.
        assert_eq!(turns(&mut lists, &[1000], 4), [0, 0, 0, 0]);
        // A new one goes first with its quantum, then both take turns: the new one has -500 and
        // joins the old behind the first, which had 1500 - 1000 - ... of its own turn left.
        lists.join(1, 1500);
        let order = turns(&mut lists, &[1000, 1000], 6);
        assert_eq!(order[..2], [1, 1]);
        assert!(order[2..].contains(&0) && order[2..].contains(&1), "{order:?}");
    }

    #[test]
    fn an_empty_queue_leaves_the_lists_by_way_of_the_old() {
        let mut lists = RoundRobin::lists();
        lists.join(0, 1500);
        lists.join(1, 1500);
        // Queue 0 is new and empty: it moves to the old ones. Queue 1 sends.
        assert_eq!(lists.next(|index| (index == 1).then_some(100)), 1);
        lists.charge(1, 1600);
        // Queue 0 has a packet again before its turn: it is not new once more. Queue 1 goes to the
        // end of the old, behind it.
        lists.join(0, 1500);
        assert_eq!(lists.next(|_| Some(100)), 0);
    }
}
