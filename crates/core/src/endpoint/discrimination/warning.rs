//! The routers' word: TCP New Jersey (Xu, Tian and Ansari, Computer Networks 47(2), 2005, and IEEE
//! JSAC 22(4), 2004; estcp2010, "TCP New Jersey").
//!
//! A router whose average queue is long marks every packet. A loss that marked acknowledgments
//! tell of is congestion; one that unmarked ones tell of is corruption, and only the packet is
//! sent again.

use crate::endpoint::window::AckEvent;
use crate::packet::Flags;
use crate::units::Probability;

/// Was the latest acknowledgment marked?
#[derive(Debug, Clone, Default)]
pub struct Warning {
    marked: bool,
}

impl Warning {
    pub(super) fn on_ack(&mut self, ack: &AckEvent) {
        self.marked = ack.flags.contains(Flags::ECN_ECHO);
    }

    pub(super) fn judge(&self) -> Probability {
        if self.marked { Probability::ONE } else { Probability::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_acknowledgment_that_tells_of_the_loss_counts() {
        let mut warning = Warning::default();
        let ack = |flags| AckEvent { flags, ..AckEvent::default() };
        assert_eq!(warning.judge(), Probability::ZERO);
        warning.on_ack(&ack(Flags::ECN_ECHO));
        assert_eq!(warning.judge(), Probability::ONE);
        warning.on_ack(&ack(Flags::NONE));
        assert_eq!(warning.judge(), Probability::ZERO);
    }
}
