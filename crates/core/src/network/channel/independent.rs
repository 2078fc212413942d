//! Losses that are independent of each other.

use super::Channel;
use crate::packet::{Label, Packet};
use crate::rng::Stream;
use crate::units::{Probability, Time};

/// A channel that destroys nothing.
#[derive(Debug)]
pub struct Clean;

impl Channel for Clean {
    fn destroys(&mut self, _: Time, _: Label, _: &Packet, _: &mut Stream) -> bool {
        false
    }
}

/// A channel that destroys each packet with the same probability.
#[derive(Debug)]
pub struct PacketLoss(pub(super) Probability);

impl Channel for PacketLoss {
    fn destroys(&mut self, _: Time, _: Label, _: &Packet, stream: &mut Stream) -> bool {
        stream.chance(self.0)
    }
}

/// A channel that inverts each bit with the same probability, which destroys the packet.
#[derive(Debug)]
pub struct BitErrors {
    ln_survival_per_bit: f64,
}

impl BitErrors {
    pub(super) fn new(ber: Probability) -> Self {
        BitErrors { ln_survival_per_bit: libm::log1p(-ber.get()) }
    }
}

impl Channel for BitErrors {
    fn destroys(&mut self, _: Time, _: Label, packet: &Packet, stream: &mut Stream) -> bool {
        // 1 - (1 - ber)^bits, by logarithms so that a small ber keeps its digits.
        let bits = f64::from(packet.size) * 8.0;
        let loss = -libm::expm1(bits * self.ln_survival_per_bit);
        Probability::new(loss).is_some_and(|loss| stream.chance(loss))
    }
}
