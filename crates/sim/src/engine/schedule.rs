//! The event queue: for each component the time of its next event.
//!
//! A tournament over all components: the leaves are their times, every node above knows the
//! earlier of its two children, and a change is played out again from the leaf to the root.
//! A component that carries many packets (the far end of a link) has one leaf for the first of
//! them, so the tree is as small as the topology, and an event costs one comparison a level.
//!
//! The order is total and does not depend on the order of insertion. At one instant the rank of
//! a component decides, and within a rank a lot drawn from the seed, the instant and the
//! component: where all links have one rate, packets meet at a queue at exactly the same time
//! again and again, and any fixed order would hand the last free place to the same flow always.

use std::hint::select_unpredictable;

use windward_core::units::Time;

/// Index of a component.
pub(super) type ComponentId = u32;

/// What decides between the events of one instant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tie {
    /// Lower ranks go first; below 16.
    pub(super) rank: u8,
    /// Goes into the lot within a rank. It must not depend on what the engine leaves out.
    pub(super) salt: u64,
}

/// From the high bits to the low: 64 of time, 4 of rank, 28 of the lot, 32 of component. One
/// comparison orders all.
type Node = u128;

fn time_of(node: Node) -> Time {
    Time::from_ps((node >> 64) as u64)
}

/// A tournament tree; node 1 is the root, the children of node n are 2n and 2n + 1.
#[derive(Debug)]
pub(super) struct Schedule {
    nodes: Vec<Node>,
    leaves: usize,
    ties: Vec<Tie>,
}

impl Schedule {
    /// A queue without events for as many components as there are ties.
    pub(super) fn new(ties: Vec<Tie>) -> Self {
        let leaves = ties.len().next_power_of_two().max(2);
        Schedule { nodes: vec![Node::MAX; 2 * leaves], leaves, ties }
    }

    /// The earliest event; its time is [`Time::NEVER`] if there is none.
    #[inline]
    pub(super) fn first(&self) -> (Time, ComponentId) {
        let root = self.nodes[1];
        (time_of(root), root as ComponentId)
    }

    /// The next event of a component, or [`Time::NEVER`].
    #[inline]
    pub(super) fn time_of(&self, component: ComponentId) -> Time {
        time_of(self.nodes[self.leaves + component as usize])
    }

    /// Sets the time of the next event of a component; [`Time::NEVER`] for none.
    #[inline]
    pub(super) fn set(&mut self, component: ComponentId, time: Time) {
        let Tie { rank, salt } = self.ties[component as usize];
        let lot = (time.as_ps() ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 36;
        let low = u64::from(rank) << 60 | lot << 32 | u64::from(component);
        let mut at = self.leaves + component as usize;
        let mut winner = Node::from(time.as_ps()) << 64 | Node::from(low);
        let nodes = &mut self.nodes[..];
        nodes[at] = winner;
        while at > 1 {
            let rival = nodes[at ^ 1];
            winner = select_unpredictable(rival < winner, rival, winner);
            at /= 2;
            nodes[at] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ties(components: u32, rank: impl Fn(u32) -> u8) -> Vec<Tie> {
        let mix = |c: u32| u64::from(c + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        (0..components).map(|c| Tie { rank: rank(c), salt: mix(c) }).collect()
    }

    proptest! {
        /// Any mix of changes finds the earliest as a search through a list does, and of those
        /// the lowest rank.
        #[test]
        fn finds_the_earliest(
            components in 1u32..40,
            ops in prop::collection::vec((0u32..40, 0u64..20), 1..200),
        ) {
            let rank = |component: u32| (component % 3) as u8;
            let mut schedule = Schedule::new(ties(components, rank));
            let mut model = vec![Time::NEVER; components as usize];
            for (component, time) in ops {
                let component = component % components;
                // Some changes take the event away.
                let time = if time == 0 { Time::NEVER } else { Time::from_ps(time) };
                schedule.set(component, time);
                model[component as usize] = time;
                let earliest = *model.iter().min().unwrap();
                let (found, who) = schedule.first();
                prop_assert_eq!(found, earliest);
                if earliest != Time::NEVER {
                    prop_assert_eq!(model[who as usize], earliest);
                    let at_once = (0..components).filter(|c| model[*c as usize] == earliest);
                    prop_assert_eq!(Some(rank(who)), at_once.map(rank).min());
                }
                prop_assert_eq!(schedule.time_of(component), time);
            }
        }
    }

    #[test]
    fn ties_favour_nobody() {
        let mut schedule = Schedule::new(ties(4, |_| 0));
        let mut wins = [0; 4];
        for time in 1..=10_000 {
            for component in 0..4 {
                schedule.set(component, Time::from_ps(time * 1_600_000_000));
            }
            wins[schedule.first().1 as usize] += 1;
        }
        // A quarter each: 2500, five standard errors of sqrt(10 000 x 1/4 x 3/4) = 43.
        assert!(wins.iter().all(|n: &i32| (n - 2500).abs() < 217), "{wins:?}");
    }
}
