//! Components that can have events, and their order at one instant.

/// A component as a number: its kind in the high bits, its index in the low.
pub(super) type ComponentId = u32;

/// Bits of the index.
const INDEX_BITS: u32 = 29;

/// Subject of an event. At one instant, queues are served before media are accessed and packets
/// arrive, and packets arrive before timers expire: their order here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Component {
    /// A link in which packets wait has something to do.
    Queue(u32),
    /// A station accesses a shared medium.
    Medium(u32),
    /// A packet reaches the far end of a link.
    Arrival(u32),
    /// A sender's timer.
    SenderTimer(u32),
    /// A receiver's timer.
    ReceiverTimer(u32),
    /// A packet leaves its sender after its processing time.
    Release(u32),
    /// An application starts or stops, or a source sends.
    Application(u32),
}

impl Component {
    /// The component as a number.
    #[inline]
    pub(super) fn id(self) -> ComponentId {
        let (rank, index) = self.parts();
        rank << INDEX_BITS | index
    }

    /// Lower ranks go first; below 8.
    #[inline]
    pub(super) fn rank(self) -> u32 {
        self.parts().0
    }

    #[inline]
    fn parts(self) -> (u32, u32) {
        match self {
            Component::Queue(i) => (0, i), // Lots depend on these numbers.
            Component::Medium(i) => (1, i),
            Component::Arrival(i) => (2, i),
            Component::SenderTimer(i) => (3, i),
            Component::ReceiverTimer(i) => (4, i),
            Component::Release(i) => (5, i),
            Component::Application(i) => (6, i),
        }
    }

    /// Input to the lot within a rank. It does not depend on the events that the engine leaves out.
    #[inline]
    pub(super) fn salt(self, seed: u64) -> u64 {
        let (rank, index) = self.parts();
        let name = u64::from(rank) << 32 | u64::from(index);
        // Spread, so that neighbours do not keep their order from one instant to the next.
        let salt = (seed.rotate_left(17) ^ name).wrapping_mul(0xd6e8_feb8_6659_fd93);
        salt ^ salt >> 32
    }
}

impl From<ComponentId> for Component {
    #[inline]
    fn from(id: ComponentId) -> Self {
        let index = id & ((1 << INDEX_BITS) - 1);
        match id >> INDEX_BITS {
            0 => Component::Queue(index),
            1 => Component::Medium(index),
            2 => Component::Arrival(index),
            3 => Component::SenderTimer(index),
            4 => Component::ReceiverTimer(index),
            5 => Component::Release(index),
            _ => Component::Application(index),
        }
    }
}
