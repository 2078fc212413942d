//! Packets under way: a slab of slots that are used again.

use std::ops::{Index, IndexMut};

use windward_core::packet::Packet;

/// Index of a packet in the slab.
pub(super) type PacketId = u32;

/// All packets under way.
#[derive(Debug, Default)]
pub(super) struct Slab {
    packets: Vec<Packet>,
    free: Vec<PacketId>,
}

impl Slab {
    /// A slot for a packet that may come to be; it holds whatever was there before. It stays
    /// free until [`Slab::claim`].
    #[inline]
    pub(super) fn vacant(&mut self) -> PacketId {
        if let Some(id) = self.free.last() {
            return *id;
        }
        self.packets.push(Packet::default());
        let id = (self.packets.len() - 1) as PacketId;
        self.free.push(id);
        id
    }

    /// Takes the slot that [`Slab::vacant`] named.
    #[inline]
    pub(super) fn claim(&mut self) {
        self.free.pop();
    }

    /// Gives a slot back.
    #[inline]
    pub(super) fn give_back(&mut self, id: PacketId) {
        self.free.push(id);
    }
}

impl Index<PacketId> for Slab {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.packets[id as usize]
    }
}
impl IndexMut<PacketId> for Slab {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.packets[id as usize]
    }
}
