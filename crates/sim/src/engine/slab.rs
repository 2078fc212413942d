//! Packets under way: a slab of slots that are used again.

use std::ops::{Index, IndexMut};

use windward_core::network::Packets;
use windward_core::packet::Packet;
use windward_core::units::Time;

use crate::stack::{End, Seen};

/// Index of a packet in the slab.
pub(super) type PacketId = u32;

/// A packet with what the engine knows of it: two cache lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Slot {
    /// Index of the flow it belongs to.
    pub(super) flow: u32,
    /// Where in the list of steps the one is that it takes next.
    pub(super) step: u32,
    pub(super) packet: Packet,
}

/// What the engine has of a packet of a stack beside its slot.
#[derive(Debug, Default)]
pub(super) struct Load {
    pub(super) payload: Vec<u8>,
    /// The end that sent it.
    pub(super) from: End,
    /// What its connection shows of it.
    pub(super) seen: Option<Seen>,
}

/// All packets under way.
#[derive(Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    /// When the packet behind that in each slot arrives, and which it is, if one is behind it on a
    /// wire.
    next: Vec<(Time, PacketId)>,
    free: Vec<PacketId>,
    /// What packets of stacks carry, by slot, as far as there were any: each lies there until the
    /// slot has another.
    loads: Vec<Load>,
}

impl Slab {
    /// A slot for a packet that may come to be; it holds whatever was there before. It stays
    /// free until [`Slab::claim`].
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

    /// Takes the slot that [`Slab::vacant`] named for a packet of a flow that begins its route with
    /// that step.
    #[inline]
    pub(super) fn claim(&mut self, id: PacketId, flow: u32, step: u32) {
        self.free.pop();
        let slot = &mut self[id];
        slot.flow = flow;
        slot.step = step;
    }

    /// The packet behind one on a wire, and when it arrives; it must have been set.
    #[inline]
    pub(super) fn next(&self, id: PacketId) -> (Time, PacketId) {
        self.next[id as usize]
    }

    #[inline]
    pub(super) fn set_next(&mut self, id: PacketId, next: (Time, PacketId)) {
        self.next[id as usize] = next;
    }

    /// A slot's packet, and what it carries if it is one of a stack.
    #[inline]
    pub(super) fn with_load(&mut self, id: PacketId) -> (&mut Packet, &mut Load) {
        let at = id as usize;
        if self.loads.len() <= at {
            self.loads.resize_with(at + 1, Load::default);
        }
        (&mut self.slots[at].packet, &mut self.loads[at])
    }

    /// What the packet of a stack carries.
    #[inline]
    pub(super) fn load(&self, id: PacketId) -> &Load {
        &self.loads[id as usize]
    }

    /// Gives a slot back.
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
