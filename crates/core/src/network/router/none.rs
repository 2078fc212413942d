//! A router that writes nothing.

use super::{Router, RouterKind, RouterPart};
use crate::network::aqm::QueueSetup;
use crate::part::{Form, Part, Plain, Words};

/// The router without a state.
#[derive(Debug, Clone, Copy)]
pub struct NoRouter;

impl Part for NoRouter {
    type Config = Plain;
    const FORMS: &'static [Form<Plain>] = &[Form {
        words: Words { name: "none", what: "writes nothing into packets", source: "-" },
        config: Plain,
    }];
}

impl Router for NoRouter {}

impl RouterPart for NoRouter {
    fn new(_: &Plain, _: &QueueSetup<'_>) -> Self {
        NoRouter
    }
    const ACTS_ON_DEPARTURE: bool = false;
    fn serves(kind: RouterKind) -> bool {
        // ESTCP and New Jersey need one router on their path, not one at every queue; without marks
        // DCTCP responds to losses. A warning reports a path without any such router.
        !matches!(kind, RouterKind::Xcp | RouterKind::XcpPersistent | RouterKind::Xtcp)
    }
}
