//! quinn-proto 0.11, the QUIC implementation of many programs written in Rust.

use std::sync::Arc;

use quinn_proto as proto;
use quinn_proto::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use windward_core::endpoint::driver::Pacer;
use windward_core::protocols::Protocol;
use windward_quic::WindwardConfig;

use crate::family::{Connect, Family, Own};

#[path = "../quic/connection.rs"]
mod connection;
mod controller;
mod crypto;
mod differences;

type Controllers = dyn proto::congestion::ControllerFactory + Send + Sync;

/// Controllers that quinn brings along.
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
        summary: "quinn with its part of BBR: the window, without the pacing",
        source: "quinn-proto 0.11.19, congestion::Bbr",
        notes: &[
            "Experimental, and not maintained (quinn-rs/quinn#2156). quinn's pacer sends 1.25 windows per \
             round trip and ignores BBR's rate, so two bandwidth-delay products are in flight and \
             queues fill.",
            "It draws the phase of its pacing cycle from the system's randomness. That affects only \
             the ignored rate: runs are the same to the bit.",
        ],
        unrepeatable: None,
        make: |_| Arc::new(BbrConfig::default()),
    },
];

/// The stack.
pub(crate) struct Quinn;

impl Family for Quinn {
    type Controllers = Controllers;
    const NAME: &'static str = "quinn";
    const VERSION: &'static str = "quinn-proto 0.11.19";
    const PACER: Pacer = Pacer::Window;
    const OWN: &'static [Own<Controllers>] = OWN;
    const CONNECT: Connect<Controllers> = connection::connect;

    fn drive(protocol: &Protocol, seed: u64) -> Arc<Controllers> {
        let config = WindwardConfig::of(protocol)
            .unwrap_or_else(|why| unreachable!("it was checked before: {why}"));
        Arc::new(config.with_seed(seed))
    }
}

/// The stack of the tests of `connection`.
#[cfg(test)]
type Tested = Quinn;
