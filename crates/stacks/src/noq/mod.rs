//! noq-proto 1.4, n0's fork of quinn: several paths at once, pacing that obeys the controller, BBR in its
//! third version.

use std::sync::Arc;

use noq_proto as proto;
use noq_proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
use windward_core::endpoint::window::WindowLaw;
use windward_sim::stack::{Connection, Facts, Setup, Stack};

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
        name: "noq:cubic",
        summary: "noq with CUBIC, its default",
        source: "noq-proto 1.4.0, congestion::Cubic",
        notes: &[],
        unrepeatable: None,
        make: || Arc::new(CubicConfig::default()),
    },
    Own {
        name: "noq:newreno",
        summary: "noq with NewReno",
        source: "noq-proto 1.4.0, congestion::NewReno",
        notes: &[],
        unrepeatable: None,
        make: || Arc::new(NewRenoConfig::default()),
    },
    Own {
        name: "noq:bbr3",
        summary: "noq with version 3 of BBR",
        source: "noq-proto 1.4.0, congestion::Bbr3",
        notes: &[],
        unrepeatable: Some(
            "it draws when to probe for bandwidth from the system's randomness, and its configuration \
             lets nobody give the seed",
        ),
        make: || Arc::new(Bbr3Config::default()),
    },
];

/// A controller within noq.
#[derive(Debug)]
struct Noq {
    facts: Facts,
    controller: Factory<Controllers>,
}

/// Those there are.
pub(crate) fn stacks() -> impl Iterator<Item = Arc<dyn Stack>> {
    let all = family::all("noq", "noq-proto 1.4.0", OWN, Pacer::Obeys);
    all.map(|(facts, controller)| Arc::new(Noq { facts, controller }) as Arc<dyn Stack>)
}

/// One with a window law of another crate, by its whole name.
pub(crate) fn with_law(name: &str, law: WindowLaw) -> Arc<dyn Stack> {
    let facts = family::with_law(name, "noq", "noq-proto 1.4.0", &law, Pacer::Obeys);
    Arc::new(Noq { facts, controller: Factory::Ours(law) })
}

impl Stack for Noq {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn connect(&self, setup: &Setup) -> Box<dyn Connection> {
        let watched = Arc::new(Watched::default());
        let controller: Arc<Controllers> = match self.controller {
            Factory::Own(make) => make(),
            Factory::Ours(law) => {
                let watched = Arc::clone(&watched);
                Arc::new(Ours { law, seed: setup.seed, watched })
            }
        };
        Box::new(connection::Pair::new(setup, controller, watched))
    }
}
