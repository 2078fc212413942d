//! DropTail: what does not fit is dropped, and nothing else.

use super::{AqmPart, Place, QueueManagement};
use crate::part::{Form, Part, Plain, Words};

/// The discipline without a state.
#[derive(Debug, Clone, Copy)]
pub struct DropTail;

impl Part for DropTail {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "droptail",
            what: "drops what does not fit",
            source: "RFC 7567 section 4.1",
        },
        config: Plain,
    }];
}

impl QueueManagement for DropTail {}

impl AqmPart for DropTail {
    fn new(_: &Plain, _: &Place<'_>) -> Self {
        DropTail
    }
    const ACTS_ON_DEPARTURE: bool = false;
}
