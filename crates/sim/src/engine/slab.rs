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
    /// A slot for a new packet; it holds whatever was there before.
    #[inline]
    pub(super) fn take(&mut self) -> PacketId {
        self.free.pop().unwrap_or_else(|| {
            self.packets.push(Packet::default());
            (self.packets.len() - 1) as PacketId
        })
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
