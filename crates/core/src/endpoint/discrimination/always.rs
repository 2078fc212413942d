//! Constant verdicts: every loss is congestion (RFC 5681 section 2), or no loss is, because
//! congestion is signalled explicitly (lr2008 sections 2.3 and 4.4).

use super::{Discriminator, DiscriminatorPart, DiscriminatorSetup};
use crate::endpoint::event::LossEvent;
use crate::part::{Form, Part, Plain, Words};
use crate::units::Probability;

/// Every loss means congestion.
#[derive(Debug)]
pub struct Always;

/// No loss means congestion.
#[derive(Debug)]
pub struct Never;

impl Part for Always {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "always",
            what: "every loss means congestion",
            source: "RFC 5681 section 2",
        },
        config: Plain,
    }];
}

impl DiscriminatorPart for Always {
    const NEVER_DOUBTS: bool = true;
    const HEARS_ACKS: bool = false;
    fn new(_: &Plain, _: DiscriminatorSetup<'_>) -> Self {
        Always
    }
}

impl Discriminator for Always {
    fn judge(&mut self, _: &LossEvent) -> Probability {
        Probability::ONE
    }
    fn opinion(&self, _: &LossEvent) -> Probability {
        Probability::ONE
    }
}

impl Part for Never {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "never",
            what: "no loss means congestion: routers signal it explicitly",
            source: "lr2008 section 4.4",
        },
        config: Plain,
    }];
}

impl DiscriminatorPart for Never {
    const HEARS_ACKS: bool = false;
    fn new(_: &Plain, _: DiscriminatorSetup<'_>) -> Self {
        Never
    }
}

impl Discriminator for Never {
    fn judge(&mut self, _: &LossEvent) -> Probability {
        Probability::ZERO
    }
    fn opinion(&self, _: &LossEvent) -> Probability {
        Probability::ZERO
    }
}
