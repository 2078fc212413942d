//! noq-proto 1.4, n0's fork of quinn: several paths at once, pacing that obeys the controller, BBR in its
//! third version.

use std::sync::Arc;

use noq_proto as proto;
use noq_proto::congestion::{Bbr3Config, CubicConfig, NewRenoConfig};
use windward_core::endpoint::window::ControllerConfig;
use windward_sim::stack::{Connection, Facts, Stack, StackSetup};

use self::controller::Ours;
use crate::family::{self, Factory, Own};
use crate::law::Pacer;
use crate::s2n;
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
        make: |_| Arc::new(CubicConfig::default()),
    },
    Own {
        name: "noq:newreno",
        summary: "noq with NewReno",
        source: "noq-proto 1.4.0, congestion::NewReno",
        notes: &[],
        unrepeatable: None,
        make: |_| Arc::new(NewRenoConfig::default()),
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
        make: |_| Arc::new(Bbr3Config::default()),
    },
    Own {
        name: "noq:s2n-cubic",
        summary: "noq with CUBIC of s2n-quic: hybrid slow start, RFC 8312",
        source: "noq-proto 1.4.0, and s2n-quic-core 0.75.0, recovery::CubicCongestionController",
        notes: OF_S2N,
        unrepeatable: None,
        make: s2n::cubic,
    },
    Own {
        name: "noq:s2n-bbr",
        summary: "noq with BBRv2 of s2n-quic",
        source: "noq-proto 1.4.0, and s2n-quic-core 0.75.0, recovery::bbr::BbrCongestionController",
        notes: OF_S2N,
        unrepeatable: None,
        make: s2n::bbr,
    },
];

/// What is said of the controllers of s2n-quic.
const OF_S2N: &[&str] = &[
    "The controller is that of s2n-quic, called directly; all else is noq, for s2n-quic has no core to be \
     driven without its I/O. It hears of each packet sent, acknowledged and lost, of RTT samples with the \
     delay of acknowledgments in them, and of one ECN mark for each acknowledgment that brings any. It \
     sets no departure times: noq paces by its own rule, or at the rate that BBR gives out.",
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

/// One with a congestion controller of another crate, by its whole name.
pub(crate) fn with_controller(name: &str, law: ControllerConfig) -> Arc<dyn Stack> {
    let facts = family::with_controller(name, "noq", "noq-proto 1.4.0", &law, Pacer::Obeys);
    Arc::new(Noq { facts, controller: Factory::Ours(law) })
}

impl Stack for Noq {
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
