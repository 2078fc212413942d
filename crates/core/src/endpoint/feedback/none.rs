//! No feedback beyond the acknowledgment (RFC 5681), or classic ECN if it is negotiated.

use super::{Feedback, FeedbackPart};
use crate::endpoint::EndpointConfig;
use crate::part::{Form, Part, Plain, Words};

/// The receiver's half, without an echo.
#[derive(Debug)]
pub struct NoFeedback;

impl Part for NoFeedback {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words {
            name: "none",
            what: "nothing beyond the acknowledgment, or ECN if a scenario sets it",
            source: "RFC 5681, RFC 3168",
        },
        config: Plain,
    }];
    const READS: &'static [&'static str] = &["ecn"];
}

impl FeedbackPart for NoFeedback {
    const STAMPS: bool = false;
    fn new(_: &Plain, _: &EndpointConfig) -> Self {
        NoFeedback
    }
}

impl Feedback for NoFeedback {}
