//! Packets under way: a slab of slots that are used again.

use std::ops::{Index, IndexMut};

use windward_core::network::Packets;
use windward_core::packet::Packet;
use windward_core::units::Time;
use windward_prefetch::prefetch;

use crate::stack::{End, Seen};

/// Index of a packet in the slab.
pub(super) type PacketId = u32;

/// A packet with its flow and its place on the route: two cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Index of the flow it belongs to.
    pub(super) flow: u32,
    /// Index of its next step in the list of steps.
    pub(super) step: u32,
    pub(super) packet: Packet,
}

/// Further state of a packet of a stack.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) payload: Vec<u8>,
    /// The end that sent it.
    pub(super) from: End,
    /// The properties that links see, if its connection shows them.
    pub(super) seen: Option<Seen>,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    /// For each slot, the time of arrival and the index of the packet behind it on a wire, if there
    /// is one.
    next: Vec<(Time, PacketId)>,
    free: Vec<PacketId>,
    /// Loads of packets of stacks, by slot. A load stays until the slot gets another.
    loads: Vec<Load>,
}

impl Slab {
    /// A slot for a new packet, which still has its old content. It stays free until
    /// [`Slab::claim`].
    #[inline]
    pub(super) fn vacant(&mut self) -> PacketId {
        if let Some(id) = self.free.last() {
            return *id;
        }
        self.slots.push(Slot::default());
        self.next.push((Time::NEVER, 0));
        let id = (self.slots.len() - 1) as PacketId;
        self.free.push(id);
        id
    }

    /// Takes the slot that [`Slab::vacant`] returned, for a packet of a flow that begins its route
    /// with that step.
    #[inline]
    pub(super) fn claim(&mut self, id: PacketId, flow: u32, step: u32) {
        self.free.pop();
        let slot = &mut self[id];
        slot.flow = flow;
        slot.step = step;
    }

    /// Time of arrival and index of the packet behind one on a wire, which must have been set.
    #[inline]
    pub(super) fn next(&self, id: PacketId) -> (Time, PacketId) {
        self.next[id as usize]
    }

    /// Prefetches a packet, and what is behind it on a wire.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: PacketId) {
        prefetch(&self.slots[id as usize]);
        prefetch(&self.next[id as usize]);
    }

    #[inline]
    pub(super) fn set_next(&mut self, id: PacketId, next: (Time, PacketId)) {
        self.next[id as usize] = next;
    }

    /// The packet in a slot and its load, for a packet of a stack.
    #[inline]
    pub(super) fn with_load(&mut self, id: PacketId) -> (&mut Packet, &mut Load) {
        let at = id as usize;
        if self.loads.len() <= at {
            self.loads.resize_with(at + 1, Load::default);
        }
        (&mut self.slots[at].packet, &mut self.loads[at])
    }

    /// Load of a packet of a stack.
    #[inline]
    pub(super) fn load(&self, id: PacketId) -> &Load {
        &self.loads[id as usize]
    }

    /// Frees a slot.
    #[inline]
    pub(super) fn give_back(&mut self, id: PacketId) {
        self.free.push(id);
    }
}

impl Index<PacketId> for Slab {
    type Output = Slot;
    #[inline]
    fn index(&self, id: PacketId) -> &Slot {
        &self.slots[id as usize]
    }
}
impl IndexMut<PacketId> for Slab {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Slot {
        &mut self.slots[id as usize]
    }
}
impl Packets<PacketId> for Slab {
    #[inline]
    fn packet(&mut self, id: &PacketId) -> &mut Packet {
        &mut self[*id].packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_two_cache_lines() {
        assert_eq!(std::mem::size_of::<Slot>(), 128);
    }
}
