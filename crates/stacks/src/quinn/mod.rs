//! quinn-proto 0.11: what runs under many QUIC and HTTP/3 programs written in Rust.

use std::sync::Arc;

use quinn_proto as proto;
use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use windward_core::endpoint::window::ControllerConfig;
use windward_sim::stack::{Connection, Facts, Stack, StackSetup};

use self::controller::Ours;
use crate::family::{self, Factory, Own};
use crate::law::Pacer;
use crate::watched::Watched;

#[path = "../quic/connection.rs"]
mod connection;
mod controller;
mod crypto;
mod differences;

type Controllers = dyn proto::congestion::ControllerFactory + Send + Sync;

/// Its own controllers.
const OWN: &[Own<Controllers>] = &[
    Own {
        name: "quinn:cubic",
        summary: "quinn with CUBIC, its default",
        source: "quinn-proto 0.11.19, congestion::Cubic",
        notes: &[],
        unrepeatable: None,
        make: |_| Arc::new(CubicConfig::default()),
    },
    Own {
        name: "quinn:newreno",
        summary: "quinn with NewReno",
        source: "quinn-proto 0.11.19, congestion::NewReno",
        notes: &[],
        unrepeatable: None,
        make: |_| Arc::new(NewRenoConfig::default()),
    },
    Own {
        name: "quinn:bbr",
        summary: "quinn with BBR as far as it has it: the window, without the pacing",
        source: "quinn-proto 0.11.19, congestion::Bbr",
        notes: &[
            "Experimental, and not maintained (quinn-rs/quinn#2156). quinn's pacer goes by 1.25 windows \
             a round trip and never asks BBR for its rate, so that it keeps two bandwidth-delay \
             products in flight and floods queues.",
            "It draws the phase of its pacing cycle from the system's randomness. That moves nothing but \
             the rate that nobody asks for: runs are the same to the bit.",
        ],
        unrepeatable: None,
        make: |_| Arc::new(BbrConfig::default()),
    },
];

/// A controller within quinn.
#[derive(Debug)]
struct Quinn {
    facts: Facts,
    controller: Factory<Controllers>,
}

/// Those there are.
pub(crate) fn stacks() -> impl Iterator<Item = Arc<dyn Stack>> {
    let all = family::all("quinn", "quinn-proto 0.11.19", OWN, Pacer::Own);
    all.map(|(facts, controller)| Arc::new(Quinn { facts, controller }) as Arc<dyn Stack>)
}

/// One with a congestion controller of another crate, by its whole name.
pub(crate) fn with_controller(name: &str, law: ControllerConfig) -> Arc<dyn Stack> {
    let facts = family::with_controller(name, "quinn", "quinn-proto 0.11.19", &law, Pacer::Own);
    Arc::new(Quinn { facts, controller: Factory::Ours(law) })
}

impl Stack for Quinn {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, setup: &StackSetup) -> Box<dyn Connection> {
        let watched = Arc::new(Watched::default());
        let controller: Arc<Controllers> = match self.controller {
            Factory::Own(make) => make(setup.seed),
            Factory::Ours(law) => {
                let watched = Arc::clone(&watched);
                Arc::new(Ours { law, seed: setup.seed, watched })
            }
        };
        Box::new(connection::Pair::new(setup, controller, watched))
    }
}
