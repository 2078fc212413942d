//! The congestion warning of routers: TCP New Jersey (Xu, Tian and Ansari, Computer Networks 47(2),
//! 2005, and IEEE JSAC 22(4), 2004; estcp2010, "TCP New Jersey").
//!
//! A router whose average queue is long marks every packet. A loss reported by marked
//! acknowledgments is congestion. A loss reported by unmarked ones is corruption: the packet is
//! retransmitted, and the window does not change.

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::{AckEvent, LossEvent};
use crate::packet::Flags;
use crate::part::{Ability, Form, Need, Part, Plain, Words};
use crate::units::Probability;

/// Discriminator by the mark of the latest acknowledgment.
#[derive(Debug, Clone, Default)]
pub struct Warning {
    marked: bool,
}

impl Part for Warning {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "warning",
            what: "a loss reported by an unmarked ACK is corruption",
            source: "Xu, Tian and Ansari 2005",
        },
        config: Plain,
    }];
    const NEEDS: &'static [Need] =
        &[Need { any_of: &[Ability::Warning], why: "every loss counts as corruption" }];
}

impl DiscriminatorPart for Warning {
    fn new(_: &Plain, _: DiscriminatorSetup<'_>) -> Self {
        Warning::default()
    }
}

impl Warning {
    fn verdict(&self) -> Probability {
        if self.marked { Probability::ONE } else { Probability::ZERO }
    }
}

impl Discriminator for Warning {
    fn on_ack(&mut self, ack: &AckEvent) {
        self.marked = ack.flags.contains(Flags::ECN_ECHO);
    }
    fn judge(&mut self, _: &LossEvent) -> Probability {
        self.verdict()
    }
    fn opinion(&self, _: &LossEvent) -> Probability {
        self.verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_acknowledgment_that_tells_of_the_loss_counts() {
        let mut warning = Warning::default();
        let ack = |flags| AckEvent { flags, ..AckEvent::default() };
        assert_eq!(warning.verdict(), Probability::ZERO);
        warning.on_ack(&ack(Flags::ECN_ECHO));
        assert_eq!(warning.verdict(), Probability::ONE);
        warning.on_ack(&ack(Flags::NONE));
        assert_eq!(warning.verdict(), Probability::ZERO);
    }
}
