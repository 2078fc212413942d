//! The packets of one link, for a picture of it.

use std::sync::{Arc, Mutex, PoisonError};

use windward_core::packet::Packet;
use windward_core::units::Time;
use windward_sim::{Loss, LossCause, Observer, OnWire};

/// Maximum number of packets that are kept, 24 bytes each. One more says that there were more.
pub(crate) const MAX_PACKETS: usize = 400_000;

/// Fate of a packet.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Passed = 0,
    Destroyed = 1,
    Dropped = 2,
}

/// Packets in the order in which they left: instant (seconds), index of the flow, fate.
pub(crate) type Packets = Arc<Mutex<Vec<f64>>>;

/// Keeps the packets that a link sends, destroys or drops.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) link: usize,
    pub(crate) packets: Packets,
}

impl Watch {
    fn keep(&self, at: Time, flow: usize, fate: Fate) {
        let mut packets = self.packets.lock().unwrap_or_else(PoisonError::into_inner);
        if packets.len() <= 3 * MAX_PACKETS {
            packets.extend([at.as_secs_f64(), flow as f64, f64::from(fate as u8)]);
        }
    }
}

impl Observer for Watch {
    fn on_wire(&mut self, what: &OnWire<'_>) {
        if what.link == self.link {
            self.keep(
                what.at,
                what.flow,
                if what.is_destroyed { Fate::Destroyed } else { Fate::Passed },
            );
        }
    }

    fn on_loss(&mut self, now: Time, flow: usize, _packet: &Packet, loss: Loss) {
        if loss.link == self.link && loss.cause == LossCause::Queue {
            self.keep(now, flow, Fate::Dropped);
        }
    }
}
