//! DropTail: only packets that do not fit are dropped.

use super::{Aqm, AqmPart, QueueSetup};
use crate::part::{Form, Part, Plain, Words};

/// The AQM without a state.
#[derive(Debug, Clone, Copy)]
pub struct DropTail;

impl Part for DropTail {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "droptail",
            what: "drops packets that do not fit",
            source: "RFC 7567 section 4.1",
        },
        config: Plain,
    }];
}

impl Aqm for DropTail {}

impl AqmPart for DropTail {
    fn new(_: &Plain, _: &QueueSetup<'_>) -> Self {
        DropTail
    }
    const ACTS_ON_DEPARTURE: bool = false;
}
