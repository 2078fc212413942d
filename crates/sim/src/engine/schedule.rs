//! The event queue: for each component the time of its next event.
//!
//! A tournament over all components: the leaves are their times, every node above knows the
//! earlier of its two children, and a change is played out again from the leaf to the root.
//! A component that carries many packets (the far end of a link) has one leaf for the first of
//! them, so the tree is as small as the topology, and an event costs one comparison a level
//! without a branch to mispredict. Ties go to the lower index: the order is total, and does not
//! depend on the order of insertion.

use windward_core::units::Time;

/// Index of a component; ties in time are served in this order.
pub(super) type ComponentId = u32;

/// The time of the earliest component below a node in the high bits, and which that is in the
/// low ones: one comparison orders both.
type Node = u128;

fn node(time: Time, component: ComponentId) -> Node {
    Node::from(time.as_ps()) << 32 | Node::from(component)
}

fn time_of(node: Node) -> Time {
    Time::from_ps((node >> 32) as u64)
}

/// A tournament tree; node 1 is the root, the children of node n are 2n and 2n + 1.
#[derive(Debug)]
pub(super) struct Schedule {
    nodes: Vec<Node>,
    leaves: usize,
}

impl Schedule {
    /// A queue for components `0..components` without events.
    pub(super) fn new(components: usize) -> Self {
        let leaves = components.next_power_of_two().max(2);
        let mut nodes: Vec<Node> = vec![node(Time::NEVER, 0); 2 * leaves];
        for (leaf, component) in nodes[leaves..].iter_mut().zip(0..) {
            *leaf = node(Time::NEVER, component);
        }
        for parent in (1..leaves).rev() {
            nodes[parent] = nodes[2 * parent];
        }
        Schedule { nodes, leaves }
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
        let mut at = self.leaves + component as usize;
        let mut winner = node(time, component);
        let nodes = &mut self.nodes[..];
        nodes[at] = winner;
        while at > 1 {
            let rival = nodes[at ^ 1];
            winner = std::hint::select_unpredictable(rival < winner, rival, winner);
            at /= 2;
            nodes[at] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Any mix of changes finds the earliest as a search through a list does.
        #[test]
        fn finds_the_earliest(
            components in 1u32..40,
            ops in prop::collection::vec((0u32..40, 0u64..20), 1..200),
        ) {
            let mut schedule = Schedule::new(components as usize);
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
                    let first = model.iter().position(|t| *t == earliest).unwrap();
                    prop_assert_eq!(who as usize, first, "ties go to the lower index");
                }
                prop_assert_eq!(schedule.time_of(component), time);
            }
        }
    }
}
